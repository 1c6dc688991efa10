//! The collection of a shared store: what no lock names is condemned, and removed after a grace.
//!
//! The first call condemns: it writes a list of what it found, and removes nothing. A call after the grace removes what
//! is still condemned. It spares what a lock has named since, and what a writer has relied on since (see the module
//! `condemned`). The completions, which are read by name, decide what may be removed. Listings only show which names to
//! look at, so an old listing must not be older than the grace.

mod survey;

use std::collections::BTreeSet;
use std::time::Duration;

use artifacts::{ReadRecord, Tally};

use self::survey::{Found, Survey};
use crate::completion::{Completion, Retired};
use crate::condemned::{Condemned, End, Fate, Lease, Open, bytes_of, document, now as wall_time};
use crate::error::RemoteError;
use crate::roots::Root;
use crate::side_by_side::each;
use crate::{FORMAT, MARK, Mark, Progress, Remote, Watch, studies};

/// The number of names removed before the lease is renewed.
const BATCH: usize = 256;

/// Whether to change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectMode {
    /// Report what would be removed.
    DryRun,
    /// Condemn, or remove what was condemned.
    Collect,
}

/// How to collect.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// Whether to change anything.
    pub mode: CollectMode,
    /// How long the condemned names stay: longer than any push takes for 64 cells, and longer than a listing may be
    /// old.
    pub grace: Duration,
    /// How long the lease of a removal lasts without being renewed.
    pub lease: Duration,
    /// Whether to also remove measurements that no root names.
    pub measurements: bool,
    /// Names of roots to forget, or their first digits.
    pub forget: Vec<String>,
    /// The person who collects.
    pub by: String,
}

/// A result that no root names.
#[derive(Clone, Debug)]
pub struct Doomed {
    /// Its completion.
    pub completion: Completion,
    /// Whether it is a measurement, which cannot be computed again.
    pub is_measurement: bool,
}

/// What a collection did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collected {
    /// Nothing was found to remove.
    Nothing,
    /// In a dry run: this would be condemned.
    WouldCondemn,
    /// This is condemned now. It can be removed from this time on: seconds since the epoch.
    Condemned(i64),
    /// This was condemned earlier by this person, and the grace ends at this time: seconds since the epoch.
    Waiting(String, i64),
    /// In a dry run: this would be removed.
    WouldRemove,
    /// This was removed.
    Removed,
    /// This person is removing at the moment.
    Busy(String),
}

/// What a collection found and did.
#[derive(Debug)]
pub struct CollectReport {
    /// What it did.
    pub collected: Collected,
    /// The roots, whose records stay.
    pub roots: Vec<Root>,
    /// The roots that were forgotten.
    pub forgotten: Vec<Root>,
    /// What stays.
    pub kept: Tally,
    /// Results condemned or removed.
    pub results: Vec<Doomed>,
    /// Objects condemned or removed.
    pub objects: Tally,
    /// Condemned names that someone has needed since.
    pub spared: u64,
}

/// A running collection.
struct Collector<'a, R> {
    remote: &'a Remote,
    options: &'a CollectOptions,
    read: R,
    is_measurement: &'a (dyn Fn(&[u8]) -> bool + Sync),
    watch: Watch<'a>,
}

impl Remote {
    /// Collects: condemns what no root names and no measurement needs, or, after the grace, removes what is still
    /// condemned. `is_measurement` returns, from the bytes of a record, whether its cell cannot be computed again.
    ///
    /// # Errors
    /// If anything that determines what must stay cannot be read: then nothing is removed. If the shared store refuses,
    /// or the lease expires: what was removed by then stays removed, and every complete result stays complete.
    pub fn collect(
        &self,
        options: &CollectOptions,
        read: impl ReadRecord,
        is_measurement: &(dyn Fn(&[u8]) -> bool + Sync),
        watch: Watch<'_>,
    ) -> Result<CollectReport, RemoteError> {
        Collector {
            remote: self,
            options,
            read,
            is_measurement,
            watch,
        }
        .collect()
    }
}

impl<R: ReadRecord> Collector<'_, R> {
    fn collect(&self) -> Result<CollectReport, RemoteError> {
        let remote = self.remote;
        let last = remote.look_at_collections()?;
        for open in remote.open_collections() {
            if !open.abandoned && remote.has_expired(open.number)? {
                remote.abandon(open.number)?;
            }
        }
        remote.look_at_collections()?;
        let mut open = remote.open_collections().into_iter();
        let pending = open.rfind(|open| !open.abandoned);
        let (forgotten, survey) = self.survey_without_forgotten()?;
        let mut report = match pending {
            None => self.condemn(last + 1, &survey)?,
            Some(open) => self.go_on(&open, &survey)?,
        };
        report.forgotten = forgotten;
        report.roots = survey.roots;
        Ok(report)
    }

    fn dry(&self) -> bool {
        self.options.mode == CollectMode::DryRun
    }

    /// Forgets roots, and surveys the store.
    fn survey_without_forgotten(&self) -> Result<(Vec<Root>, Survey), RemoteError> {
        let mut survey = self.survey()?;
        let mut forgotten = Vec::new();
        for wanted in &self.options.forget {
            let mut fit = survey.roots.iter().filter(|r| r.name.starts_with(wanted));
            let (Some(root), None) = (fit.next().cloned(), fit.next()) else {
                return Err(RemoteError::Refused(
                    self.remote.url.clone(),
                    format!("`{wanted}` does not name one root"),
                    "`gc --dry-run` lists the roots; give enough digits of the name to identify it"
                        .to_owned(),
                ));
            };
            survey.roots.retain(|other| other.name != root.name);
            if !self.dry() {
                self.remote.forget_root(&root)?;
            }
            forgotten.push(root);
        }
        Ok((forgotten, survey))
    }

    /// Writes the list of unreferenced names.
    fn condemn(&self, number: u32, survey: &Survey) -> Result<CollectReport, RemoteError> {
        let doomed: Vec<&Found> = survey.doomed(self.options.measurements).collect();
        let names: BTreeSet<String> = doomed.iter().map(|result| result.name()).collect();
        let objects = survey.unreached(&names);
        let mut report = report_of(survey, &doomed, objects.values().copied());
        if names.is_empty() && objects.is_empty() {
            return Ok(report);
        }
        report.collected = Collected::WouldCondemn;
        if self.dry() {
            return Ok(report);
        }
        let since = wall_time();
        let grace = seconds(self.options.grace);
        let measurements = self.options.measurements;
        let mut list = Condemned::new(since, grace, self.options.by.clone(), measurements);
        list.results = names;
        list.objects = objects.keys().map(|name| (*name).to_owned()).collect();
        let mark = Mark {
            benchtrail_store: FORMAT,
        };
        let backend = &self.remote.backend;
        // Programs that do not know collections must not write any more.
        backend.put_over(MARK, &bytes_of(&mark))?;
        backend.settle()?;
        let put = backend.put_new(&document(number, "condemned"), &bytes_of(&list))?;
        backend.settle()?;
        report.collected = match put {
            true => Collected::Condemned(since.saturating_add(grace)),
            false => Collected::Busy("somebody who began at the same time".to_owned()),
        };
        Ok(report)
    }

    /// Continues a collection that was begun earlier.
    fn go_on(&self, open: &Open, survey: &Survey) -> Result<CollectReport, RemoteError> {
        let list = &open.condemned;
        let doomed: Vec<&Found> = survey
            .doomed(list.measurements && self.options.measurements)
            .filter(|result| list.results.contains(&result.name()))
            .collect();
        let names: BTreeSet<String> = doomed.iter().map(|result| result.name()).collect();
        let unreached = survey.unreached(&names);
        let objects = unreached
            .iter()
            .filter(|(name, _)| list.objects.contains(**name));
        let mut report = report_of(survey, &doomed, objects.map(|(_, bytes)| *bytes));
        let condemned = list.results.len() + list.objects.len();
        report.spared =
            (condemned as u64).saturating_sub(report.results.len() as u64 + report.objects.objects);
        let grace = list.grace.max(seconds(self.options.grace));
        let until = list.since.saturating_add(grace);
        report.collected = match wall_time() {
            _ if self.is_swept(open.number)? => Collected::Busy(self.sweeper(open.number)?),
            now if now < until => Collected::Waiting(list.by.clone(), until),
            _ if self.dry() => Collected::WouldRemove,
            _ => return self.remove(open, &doomed, report),
        };
        Ok(report)
    }

    fn is_swept(&self, number: u32) -> Result<bool, RemoteError> {
        let sweep = document(number, "sweep");
        Ok(self.remote.backend.size(&sweep)?.is_some())
    }

    fn sweeper(&self, number: u32) -> Result<String, RemoteError> {
        let lease: Option<Lease> = self.remote.read_document(&document(number, "sweep"))?;
        Ok(lease.map_or_else(|| "somebody".to_owned(), |lease| lease.by))
    }

    /// Removes what is still condemned, under a lease.
    fn remove(
        &self,
        open: &Open,
        doomed: &[&Found],
        mut report: CollectReport,
    ) -> Result<CollectReport, RemoteError> {
        let sweep = document(open.number, "sweep");
        let lease = bytes_of(&self.lease());
        if !self.remote.backend.put_new(&sweep, &lease)? {
            report.collected = Collected::Busy(self.sweeper(open.number)?);
            return Ok(report);
        }
        let removed = self.remove_leased(open, doomed, report);
        if removed.is_err() {
            // Others must not wait for a useless lease. If this also fails, the lease expires.
            let _unsaid = self.remote.abandon(open.number);
        }
        removed
    }

    fn remove_leased(
        &self,
        open: &Open,
        doomed: &[&Found],
        mut report: CollectReport,
    ) -> Result<CollectReport, RemoteError> {
        let number = open.number;
        let backend = &self.remote.backend;
        let mut gone = Vec::new();
        for batch in doomed.chunks(BATCH) {
            self.renew(number)?;
            let retired = each(self.remote.jobs, batch, |result| {
                self.retire(number, result)
            })?;
            gone.extend(batch.iter().zip(retired).filter(|(_, retired)| *retired));
        }
        report.results = gone.iter().map(|(result, _)| result.doomed()).collect();
        backend.settle()?;
        self.renew(number)?;
        // The survey shows what was completed meanwhile. Writers save the names of later completions.
        let survey = self.survey()?;
        let unreached = survey.unreached(&BTreeSet::new());
        let objects: Vec<(&str, u64)> = unreached
            .into_iter()
            .filter(|(name, _)| open.condemned.objects.contains(*name))
            .collect();
        report.objects = Tally::default();
        for batch in objects.chunks(BATCH) {
            self.renew(number)?;
            let removed = each(self.remote.jobs, batch, |(name, _)| {
                self.watch.go_on()?;
                let fate = self.remote.decide(number, name, Fate::Removed)?;
                match fate {
                    Some(Fate::Removed) => backend.remove(name).map(|()| true),
                    _ => Ok(false),
                }
            })?;
            for ((_, bytes), removed) in batch.iter().zip(removed) {
                if removed {
                    report.objects.add(*bytes);
                }
            }
            (self.watch.listener)(Progress {
                done: report.objects.objects,
                total: objects.len() as u64,
                bytes: report.objects.bytes,
            });
        }
        let stored = survey.stored.len() as u64;
        report.kept = Tally {
            objects: stored.saturating_sub(report.objects.objects),
            bytes: survey.bytes().saturating_sub(report.objects.bytes),
        };
        let condemned = (open.condemned.results.len() + open.condemned.objects.len()) as u64;
        report.spared = condemned
            .saturating_sub(report.results.len() as u64)
            .saturating_sub(report.objects.objects);
        self.end(open)?;
        report.collected = Collected::Removed;
        Ok(report)
    }

    /// Declares every removal acknowledged, and tidies up.
    fn end(&self, open: &Open) -> Result<(), RemoteError> {
        let number = open.number;
        let backend = &self.remote.backend;
        backend.settle()?;
        let end = document(number, "end");
        backend.put_new(&end, &bytes_of(&End::Done))?;
        backend.settle()?;
        if self.remote.end_of(number)? != Some(End::Done) {
            return Err(self.expired());
        }
        let empty = Condemned {
            results: BTreeSet::new(),
            objects: BTreeSet::new(),
            ..(*open.condemned).clone()
        };
        backend.put_over(&document(number, "condemned"), &bytes_of(&empty))?;
        let fates = backend.walk(&document(number, "fates"))?;
        each(self.remote.jobs, &fates, |(name, _)| backend.remove(name))?;
        Ok(())
    }

    fn lease(&self) -> Lease {
        Lease {
            by: self.options.by.clone(),
            expires: wall_time().saturating_add(seconds(self.options.lease)),
        }
    }

    /// Renews the lease of this removal, unless someone has ended the collection because it expired.
    fn renew(&self, number: u32) -> Result<(), RemoteError> {
        self.watch.go_on()?;
        if self.remote.end_of(number)?.is_some() {
            return Err(self.expired());
        }
        let sweep = document(number, "sweep");
        self.remote
            .backend
            .put_over(&sweep, &bytes_of(&self.lease()))
    }

    fn expired(&self) -> RemoteError {
        RemoteError::Refused(
            self.remote.url.clone(),
            "the lease of this collection expired before it was done, and somebody ended it; what was not removed yet stays"
                .to_owned(),
            "run `gc` again: it begins a new collection".to_owned(),
        )
    }

    /// Removes a result, unless a writer keeps it.
    fn retire(&self, number: u32, result: &Found) -> Result<bool, RemoteError> {
        self.watch.go_on()?;
        let name = result.name();
        if self.remote.decide(number, &name, Fate::Removed)? != Some(Fate::Removed) {
            return Ok(false);
        }
        let backend = &self.remote.backend;
        backend.put_over(&name, &bytes_of(&Retired::new(number)))?;
        let study = studies(&result.completion.experiment);
        backend.remove(&format!("{study}/{}.{}", result.key.0.hex(), result.number))?;
        Ok(true)
    }
}

fn report_of(
    survey: &Survey,
    doomed: &[&Found],
    objects: impl Iterator<Item = u64>,
) -> CollectReport {
    let mut tally = Tally::default();
    objects.for_each(|bytes| tally.add(bytes));
    CollectReport {
        collected: Collected::Nothing,
        roots: Vec::new(),
        forgotten: Vec::new(),
        kept: Tally {
            objects: survey.stored.len() as u64 - tally.objects,
            bytes: survey.bytes() - tally.bytes,
        },
        results: doomed.iter().map(|result| result.doomed()).collect(),
        objects: tally,
        spared: 0,
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
