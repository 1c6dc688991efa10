//! From the local store to the shared one: objects, then records, then completions.

use std::collections::BTreeSet;
use std::time::Duration;

use artifacts::{Digest, Maker, RecordView, Store};

use crate::completion::{Completion, Entry};
use crate::condemned::number_of;
use crate::error::RemoteError;
use crate::side_by_side::each;
use crate::tally::Tally;
use crate::transfer::Sent;
use crate::{Remote, Watch, cell, studies};

/// The number of records completed together. An interrupted push leaves at most one such group incomplete.
const GROUP: usize = 64;

/// How often a completion looks for a free number.
const MOST_ROUNDS: u32 = 64;

/// How much longer it waits at each further attempt.
const ROUND: Duration = Duration::from_millis(5);

/// A record to be pushed.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The record as the store sees it.
    pub view: RecordView,
    /// Who executed it.
    pub maker: Maker,
}

/// A different result of a key, which was there first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The completion that this push entered.
    pub ours: Completion,
    /// The earlier one.
    pub theirs: Completion,
}

/// What a push did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Records that were already complete.
    pub already_complete: u64,
    /// Records completed by this push.
    pub completed: u64,
    /// Objects uploaded, records included.
    pub objects: u64,
    /// Bytes uploaded.
    pub bytes: u64,
    /// Objects whose bytes did not match their names, and that were replaced.
    pub replaced: Vec<Digest>,
    /// Keys that had a different result. Both are kept.
    pub twins: Vec<Twin>,
}

/// The shared state of the uploads of one push.
struct Push<'a> {
    remote: &'a Remote,
    local: &'a Store,
    watch: Watch<'a>,
    verify: bool,
    tally: Tally<'a, PushReport>,
}

impl Remote {
    /// Uploads records with everything that they refer to, and completes them. Existing objects are not uploaded again;
    /// with `verify`, they are read, and replaced if damaged. An interrupted push continues where it was.
    ///
    /// # Errors
    /// If something is missing or damaged here, or the shared store refuses. Completed records stay.
    pub fn push(
        &self,
        local: &Store,
        records: &[Pushed],
        verify: bool,
        watch: Watch<'_>,
    ) -> Result<PushReport, RemoteError> {
        let push = Push {
            remote: self,
            local,
            watch,
            verify,
            tally: Tally::new(watch, records.len()),
        };
        push.all(records)?;
        let mut report = push.tally.into_report();
        report.replaced.sort_unstable();
        report.twins.sort_by_key(|twin| twin.ours.record);
        Ok(report)
    }
}

impl Push<'_> {
    fn all(&self, records: &[Pushed]) -> Result<(), RemoteError> {
        let mut sent = BTreeSet::new();
        let mut last = 0;
        for group in records.chunks(GROUP) {
            let mut looked = self.remote.look_at_collections()?;
            if looked != last {
                // Objects that existed before this collection began may have been condemned since.
                sent.clear();
            }
            self.group(group, &mut sent)?;
            loop {
                last = self.remote.look_at_collections()?;
                if last == looked {
                    break;
                }
                // A collection began after the last look. What it condemned of the group is saved, or put again.
                sent.clear();
                self.save(group, looked)?;
                looked = last;
            }
        }
        self.remote.backend.settle()
    }

    /// Uploads and completes the open records of a group.
    fn group(&self, group: &[Pushed], sent: &mut BTreeSet<Digest>) -> Result<(), RemoteError> {
        let jobs = self.remote.jobs;
        let open = each(jobs, group, |pushed| self.is_open(pushed))?;
        let open: Vec<&Pushed> = group
            .iter()
            .zip(open)
            .filter_map(|(pushed, open)| open.then_some(pushed))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let records: BTreeSet<Digest> = open.iter().map(|p| p.view.commit.record).collect();
        let objects: BTreeSet<Digest> = open
            .iter()
            .flat_map(|p| p.view.references())
            .copied()
            .collect();
        let fresh: Vec<Digest> = objects
            .difference(&records)
            .filter(|d| !sent.contains(*d))
            .copied()
            .collect();
        each(jobs, &fresh, |digest| self.upload(digest))?;
        let records: Vec<Digest> = records.into_iter().collect();
        each(jobs, &records, |digest| self.upload(digest))?;
        // A completion must not outlive the objects that it names.
        self.remote.backend.settle()?;
        sent.extend(objects);
        each(jobs, &open, |pushed| self.complete(pushed, true))?;
        Ok(())
    }

    /// Saves a complete group from collections after this one, and puts again what they removed.
    fn save(&self, group: &[Pushed], number: u32) -> Result<(), RemoteError> {
        let doubtful: BTreeSet<Digest> = group
            .iter()
            .flat_map(|p| p.view.references().chain([&p.view.commit.record]))
            .filter(|digest| self.remote.is_doubtful_since(number, digest))
            .copied()
            .collect();
        let doubtful: Vec<Digest> = doubtful.into_iter().collect();
        each(self.remote.jobs, &doubtful, |digest| self.upload(digest))?;
        self.remote.backend.settle()?;
        each(self.remote.jobs, group, |pushed| {
            self.complete(pushed, false)
        })?;
        Ok(())
    }

    /// Returns whether a record is not complete in the shared store, or everything must be verified.
    fn is_open(&self, pushed: &Pushed) -> Result<bool, RemoteError> {
        self.watch.go_on()?;
        let commit = &pushed.view.commit;
        let stands = self.remote.keep_if_complete(&commit.key, &commit.record)?;
        if self.verify || !stands {
            return Ok(true);
        }
        self.tally.add(|report, progress| {
            report.already_complete += 1;
            progress.done += 1;
        });
        Ok(false)
    }

    fn upload(&self, digest: &Digest) -> Result<(), RemoteError> {
        self.watch.go_on()?;
        let sent = self
            .remote
            .send(self.local, digest, self.verify, self.watch)?;
        self.tally.add(|report, progress| {
            if let Sent::Bytes(bytes) | Sent::Replaced(bytes) = sent {
                report.objects += 1;
                report.bytes += bytes;
                progress.bytes += bytes;
            }
            if let Sent::Replaced(_) = sent {
                report.replaced.push(*digest);
            }
        });
        Ok(())
    }

    /// Enters the completion under the first free number, unless the result stands. Reports an earlier result of the
    /// key. `counted` says whether this result still has to be counted.
    fn complete(&self, pushed: &Pushed, counted: bool) -> Result<(), RemoteError> {
        let ours = Completion::of(&pushed.view.commit, pushed.maker.clone());
        for round in 0..MOST_ROUNDS {
            self.watch.go_on()?;
            if self.remote.keep_if_complete(&ours.key, &ours.record)? {
                self.tally.add(|report, progress| {
                    report.already_complete += u64::from(counted);
                    progress.done += u64::from(counted);
                });
                return Ok(());
            }
            let entries = self.remote.entries_of(&ours.key)?;
            let number = number_of(entries.len());
            if !self
                .remote
                .backend
                .put_new(&cell(&ours.key, number), &ours.to_bytes())?
            {
                // Another process took the number in the meantime. The place may need a moment to show it.
                std::thread::sleep(ROUND * round);
                continue;
            }
            let theirs = entries.into_iter().rev().find_map(|entry| match entry {
                Entry::Complete(other) if other.record != ours.record => Some(*other),
                _ => None,
            });
            let hint = format!(
                "{}/{}.{number}",
                studies(&ours.experiment),
                ours.key.0.hex()
            );
            self.remote.backend.put_new(&hint, b"")?;
            self.tally.add(|report, progress| {
                report.completed += u64::from(counted);
                progress.done += u64::from(counted);
                if let Some(theirs) = theirs {
                    report.twins.push(Twin { ours, theirs });
                }
            });
            return Ok(());
        }
        Err(RemoteError::Refused(
            self.remote.url.clone(),
            format!(
                "a name of the cell {} is taken, but the server shows nothing under it",
                ours.key
            ),
            "the server answers reads from an old state; use one that shows new objects at once"
                .to_owned(),
        ))
    }
}
