//! A study's use of a shared store: it downloads results before it measures, and uploads its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use artifacts::{ActionKey, Digest, Maker, Store, StoreError};
use pipeline::lock::Lock;
use pipeline::record::{Record, view};
use pipeline::{
    Class, Experiment, PipelineError, PlanOptions, Registry, Reuse, Wanted, makers_in_words,
    this_host, wanted,
};

use crate::condemned::time_now;
use crate::roots::Root;
use crate::{Completion, Completions, PullReport, PushReport, Pushed, Remote, RemoteError, Watch};

/// Returns the person who runs this process: the name that they chose, otherwise their login and the machine's name.
/// Only a chosen name gets into records. The other one is for the shared store.
#[expect(
    clippy::disallowed_methods,
    reason = "login and machine distinguish the people who share results"
)]
pub fn identity(chosen: Option<&str>) -> Maker {
    let node = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let login = ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let login = login
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "user".to_owned());
    let by = chosen.map_or_else(|| format!("{login}@{node}"), str::to_owned);
    Maker {
        host: this_host(),
        by: Some(by),
        started: None,
    }
}

/// A study that will be planned.
#[derive(Clone, Copy)]
pub struct Study<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The stage kinds.
    pub registry: &'a Registry,
    /// The local store.
    pub store: &'a Store,
    /// The extent of the plan.
    pub options: &'a PlanOptions,
    /// Records that jobs of this study left, and that the run will take in. They are not offered as another's results.
    pub left: &'a BTreeSet<Digest>,
}

/// What a study downloaded before it measured.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Records entered into the local index.
    pub entered: u64,
    /// Objects downloaded.
    pub objects: u64,
    /// Bytes downloaded.
    pub bytes: u64,
    /// Other people's results that the policy excludes: a sentence for each stage.
    pub offers: Vec<String>,
    /// Incomplete records in the shared store, with the reason.
    pub broken: Vec<(Digest, RemoteError)>,
    /// Completions that cannot be read.
    pub damaged: Vec<RemoteError>,
}

impl Fetched {
    fn add(&mut self, report: PullReport) {
        self.entered += report.entered;
        self.objects += report.objects;
        self.bytes += report.bytes;
        self.broken.extend(report.broken);
    }
}

impl Remote {
    /// Downloads what a study can use: first the records that its lock names; then, stage by stage, results for the
    /// keys of the cells that would execute. Of measurements and launches, only those that `me` made or the policy
    /// permits.
    ///
    /// # Errors
    /// If the study cannot be planned or the shared store cannot be read.
    pub fn fetch(
        &self,
        study: Study<'_>,
        me: &Maker,
        watch: Watch<'_>,
    ) -> Result<Fetched, RemoteError> {
        let Study {
            experiment,
            registry,
            store,
            options,
            left,
        } = study;
        let policy = options.reuse.unwrap_or(experiment.reuse);
        let mut fetched = Fetched::default();
        let lock = Lock::of_experiment(experiment).map_err(PipelineError::from)?;
        if let Some(lock) = lock {
            let mut report = pull_records(self, store, lock.records().collect(), me, watch)?;
            // A record that was never pushed is not damage: its cell executes.
            report.broken.retain(
                |(record, error)| !matches!(error, RemoteError::Missing(_, lost) if lost == record),
            );
            fetched.add(report);
        }
        let mut asked: BTreeSet<ActionKey> = BTreeSet::new();
        let mut offers: BTreeMap<String, Vec<Maker>> = BTreeMap::new();
        loop {
            let mut cells = wanted(experiment, registry, store, options)?;
            cells.retain(|cell| asked.insert(cell.key));
            let keys: Vec<ActionKey> = cells.iter().map(|cell| cell.key).collect();
            let Completions { results, damaged } = self.completions(&keys, watch)?;
            fetched.damaged.extend(damaged);
            let records = self.chosen(results, (&cells, left), policy, me, &mut offers);
            if records.is_empty() {
                break;
            }
            fetched.add(self.pull(store, &records, me, view, watch)?);
        }
        fetched.offers = offers
            .into_iter()
            .map(|(stage, makers)| self.offer(&stage, makers, policy, me))
            .collect();
        Ok(fetched)
    }

    /// Returns the records that may be used for these cells, and notes the makers of those that may not. Records left
    /// by jobs are ignored.
    fn chosen(
        &self,
        results: Vec<(ActionKey, Vec<Completion>)>,
        (cells, left): (&[Wanted], &BTreeSet<Digest>),
        policy: Reuse,
        me: &Maker,
        offers: &mut BTreeMap<String, Vec<Maker>>,
    ) -> Vec<Digest> {
        let of_key: HashMap<ActionKey, &Wanted> =
            cells.iter().map(|cell| (cell.key, cell)).collect();
        let mut records = Vec::new();
        for (key, mut completions) in results {
            completions.retain(|completion| !left.contains(&completion.record));
            let cell = of_key[&key];
            let mine =
                |maker: &Maker| maker.host.is_some() && maker.host == me.host && maker.by == me.by;
            let usable = |c: &&Completion| {
                cell.class == Class::Pure
                    || mine(&c.maker)
                    || policy.permits(&c.maker, me.host.as_deref())
            };
            let permitted: Vec<&Completion> = completions.iter().filter(usable).collect();
            if permitted.iter().any(|c| c.is_ok()) {
                records.extend(permitted.iter().map(|c| c.record));
            } else if let Some(offered) = completions.iter().find(|c| c.is_ok()) {
                offers
                    .entry(cell.name.stage.clone())
                    .or_default()
                    .push(offered.maker.clone());
            }
        }
        records
    }

    fn offer(&self, stage: &str, makers: Vec<Maker>, policy: Reuse, me: &Maker) -> String {
        let results = match makers.len() {
            1 => "1 result".to_owned(),
            n => format!("{n} results"),
        };
        let wider = Reuse::narrowest(&makers, me.host.as_deref()).word();
        format!(
            "{results} of `{stage}` from {} in {} left out (`reuse: {}`); `--reuse {wider}` uses them",
            makers_in_words(makers),
            self.url(),
            policy.word(),
        )
    }
}

/// Downloads those of these records that are not complete here.
///
/// # Errors
/// As [`Remote::pull`].
pub fn pull_records(
    remote: &Remote,
    store: &Store,
    records: Vec<Digest>,
    me: &Maker,
    watch: Watch<'_>,
) -> Result<PullReport, RemoteError> {
    let local: BTreeSet<Digest> = store.records()?.into_iter().collect();
    let missing: Vec<Digest> = records
        .into_iter()
        .filter(|record| !local.contains(record))
        .collect();
    match missing.is_empty() {
        true => Ok(PullReport::default()),
        false => remote.pull(store, &missing, me, view, watch),
    }
}

/// Uploads records that `maker` made, with everything that they refer to.
///
/// # Errors
/// As [`Remote::push`].
pub fn push_records(
    remote: &Remote,
    store: &Store,
    records: &[Digest],
    maker: &Maker,
    watch: Watch<'_>,
) -> Result<PushReport, RemoteError> {
    let mut pushed = Vec::new();
    for digest in records {
        let bytes = store.get_document(digest)?;
        let view = view(digest, &bytes).ok_or(StoreError::NotARecord(*digest))?;
        let started = Record::parse(&bytes).ok().map(|record| record.started);
        let maker = Maker {
            started,
            ..maker.clone()
        };
        pushed.push(Pushed { view, maker });
    }
    remote.push(store, &pushed, false, watch)
}

/// Uploads the results that locks name, including those of earlier executions, and registers them, so that no
/// collection of the shared store removes them. Also returns how many results in use are incomplete in the local store
/// and were not uploaded. Each lock comes with its path.
///
/// # Errors
/// As [`Remote::push`].
pub fn push_locks(
    remote: &Remote,
    store: &Store,
    locks: &[(PathBuf, Lock)],
    me: &Maker,
    verify: bool,
    watch: Watch<'_>,
) -> Result<(PushReport, u64), RemoteError> {
    let imports = store.imports()?;
    for (place, lock) in locks {
        remote.register(&root_of(place, lock, me))?;
    }
    let locks = locks.iter().map(|(_, lock)| lock);
    let in_use: BTreeSet<Digest> = locks.clone().flat_map(Lock::records).collect();
    let all: BTreeSet<Digest> = locks
        .flat_map(Lock::earlier)
        .chain(in_use.iter().copied())
        .collect();
    let (mut pushed, mut left_out) = (Vec::new(), 0);
    for digest in all {
        let read = match store.contains(&digest) {
            true => {
                let bytes = store.get_document(&digest)?;
                view(&digest, &bytes).zip(Record::parse(&bytes).ok())
            }
            false => None,
        };
        let whole = read.filter(|(view, _)| view.references().all(|object| store.contains(object)));
        let Some((view, record)) = whole else {
            left_out += u64::from(in_use.contains(&digest));
            continue;
        };
        let maker = imports.get(&digest).cloned().unwrap_or_else(|| Maker {
            host: record.host.or_else(|| me.host.clone()),
            by: record.by.or_else(|| me.by.clone()),
            started: Some(record.started),
        });
        pushed.push(Pushed { view, maker });
    }
    Ok((remote.push(store, &pushed, verify, watch)?, left_out))
}

/// Describes what a lock needs from a shared store.
fn root_of(place: &Path, lock: &Lock, me: &Maker) -> Root {
    let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let maker = Maker {
        started: Some(time_now()),
        ..me.clone()
    };
    let records = lock.records().chain(lock.earlier()).collect();
    Root::new(&place, &lock.experiment, maker, records)
}
