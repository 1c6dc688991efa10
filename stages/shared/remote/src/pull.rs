//! From the shared store to the local one: records, then their objects, then the index.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{
    Digest, MAX_RECORD_BYTES, Maker, ObjectSource, ReadRecord, RecordView, Store, StoreError,
};

use crate::completion::Entry;
use crate::error::RemoteError;
use crate::side_by_side::each;
use crate::tally::Tally;
use crate::transfer::room_for;
use crate::{Remote, Watch};

/// What a pull did.
#[derive(Debug, Default)]
pub struct PullReport {
    /// Records entered into the local index.
    pub entered: u64,
    /// Objects downloaded, records included.
    pub objects: u64,
    /// Bytes downloaded.
    pub bytes: u64,
    /// Incomplete records, with the reason. They were left out.
    pub broken: Vec<(Digest, RemoteError)>,
}

struct Pull<'a> {
    remote: &'a Remote,
    local: &'a Store,
    watch: Watch<'a>,
    tally: Tally<'a, PullReport>,
}

impl Remote {
    /// Downloads records with everything that they refer to, checks every byte, and enters complete records into the
    /// local index. Objects in the local store are not downloaded again. Records that `me` did not execute are marked
    /// as imports.
    ///
    /// # Errors
    /// If the shared store cannot be reached, or the local one refuses. A record with missing or damaged parts there is
    /// not an error: the report names it.
    pub fn pull(
        &self,
        local: &Store,
        records: &[Digest],
        me: &Maker,
        read: impl ReadRecord,
        watch: Watch<'_>,
    ) -> Result<PullReport, RemoteError> {
        self.pull_as(local, records, Some(me), read, watch)
    }

    /// Like [`Remote::pull`], for records that belong to the caller wherever they were executed: none is marked as an
    /// import. The cost depends only on these records.
    ///
    /// # Errors
    /// As [`Remote::pull`].
    pub fn pull_own(
        &self,
        local: &Store,
        records: &[Digest],
        read: impl ReadRecord,
        watch: Watch<'_>,
    ) -> Result<PullReport, RemoteError> {
        self.pull_as(local, records, None, read, watch)
    }

    fn pull_as(
        &self,
        local: &Store,
        records: &[Digest],
        me: Option<&Maker>,
        read: impl ReadRecord,
        watch: Watch<'_>,
    ) -> Result<PullReport, RemoteError> {
        let pull = Pull {
            remote: self,
            local,
            watch,
            tally: Tally::new(watch, records.len()),
        };
        // Must be read before anything is added.
        let present: Option<BTreeSet<Digest>> = match me {
            Some(_) => Some(local.records()?.into_iter().collect()),
            None => None,
        };
        let views = pull.all(records, &read)?;
        if let (Some(present), Some(me)) = (present, me) {
            pull.note(&views, &present, me)?;
        }
        let named: Vec<_> = views.into_keys().map(|record| (record, None)).collect();
        let mut report = pull.tally.into_report();
        report.entered = local.adopt(&named, &read)?;
        Ok(report)
    }
}

impl Pull<'_> {
    /// Returns the records that are now complete here.
    fn all(
        &self,
        records: &[Digest],
        read: &impl ReadRecord,
    ) -> Result<BTreeMap<Digest, RecordView>, RemoteError> {
        let wanted: BTreeSet<Digest> = records.iter().copied().collect();
        let mut lost = self.download(&wanted, |_| Some(MAX_RECORD_BYTES))?;
        let mut views: BTreeMap<Digest, RecordView> = BTreeMap::new();
        for record in &wanted {
            if lost.contains_key(record) {
                continue;
            }
            // Whoever may write to the shared store can name anything as a record there.
            match read(record, &self.local.get(record)?) {
                Some(view) => drop(views.insert(*record, view)),
                None => drop(lost.insert(*record, StoreError::NotARecord(*record).into())),
            }
        }
        let objects: BTreeSet<Digest> = views
            .values()
            .flat_map(RecordView::references)
            .copied()
            .collect();
        let objects: BTreeSet<Digest> = objects.difference(&wanted).copied().collect();
        self.tally
            .add(|_, progress| progress.total += objects.len() as u64);
        let mut sizes: BTreeMap<Digest, u64> = BTreeMap::new();
        for (digest, size) in views.values().flat_map(|view| &view.sizes) {
            let most = sizes.entry(*digest).or_default();
            *most = (*most).max(*size);
        }
        // Whoever may write to the shared store can declare any size. Nothing is downloaded that does not fit.
        let wanting = objects.iter().filter(|digest| !self.local.contains(digest));
        let declared = wanting.filter_map(|digest| sizes.get(digest));
        room_for(
            self.local,
            declared.fold(0, |sum: u64, size| sum.saturating_add(*size)),
        )?;
        let missing = self.download(&objects, |digest| sizes.get(digest).copied())?;
        let mut broken: Vec<(Digest, RemoteError)> = Vec::new();
        views.retain(|record, view| {
            match view.references().find_map(|object| missing.get(object)) {
                None => true,
                Some(first) => {
                    broken.push((*record, first.again()));
                    false
                }
            }
        });
        broken.extend(lost);
        self.tally.add(|report, _| report.broken = broken);
        Ok(views)
    }

    /// Notes who executed the records that the index does not know yet, before they are entered.
    fn note(
        &self,
        views: &BTreeMap<Digest, RecordView>,
        present: &BTreeSet<Digest>,
        me: &Maker,
    ) -> Result<(), RemoteError> {
        let strangers: Vec<&RecordView> = views
            .values()
            .filter(|view| !present.contains(&view.commit.record))
            .collect();
        each(self.remote.jobs, &strangers, |view| {
            self.watch.go_on()?;
            let commit = &view.commit;
            let entries = self.remote.entries_of(&commit.key)?.into_iter();
            let mut makers = entries.filter_map(|entry| match entry {
                Entry::Complete(c) if c.record == commit.record => Some(c.maker),
                _ => None,
            });
            let maker = makers.next();
            let maker = maker.unwrap_or_default();
            if maker.host.is_none() || maker.host != me.host || maker.by != me.by {
                self.local.note_import(&commit.record, &maker)?;
            }
            Ok(())
        })?;
        Ok(self.local.settle_imports()?)
    }

    /// Downloads the missing objects; returns those that are missing or damaged there. `most` is the largest size in bytes
    /// that an object may have, if it is known.
    fn download(
        &self,
        objects: &BTreeSet<Digest>,
        most: impl Fn(&Digest) -> Option<u64> + Sync,
    ) -> Result<BTreeMap<Digest, RemoteError>, RemoteError> {
        let objects: Vec<Digest> = objects.iter().copied().collect();
        let lost = each(self.remote.jobs, &objects, |digest| {
            self.watch.go_on()?;
            let mut lost = None;
            let mut received = None;
            if !self.local.is_whole(digest)? {
                match self.remote.receive(self.local, digest, most(digest)) {
                    Ok(bytes) => received = Some(bytes),
                    Err(error) if error.is_damage() => lost = Some((*digest, error)),
                    Err(error) => return Err(error),
                }
            }
            self.tally.add(|report, progress| {
                progress.done += 1;
                if let Some(bytes) = received {
                    report.objects += 1;
                    report.bytes += bytes;
                    progress.bytes += bytes;
                }
            });
            Ok(lost)
        })?;
        Ok(lost.into_iter().flatten().collect())
    }
}

impl RemoteError {
    /// Returns the same loss, to report for another record.
    fn again(&self) -> Self {
        match self {
            Self::Missing(url, digest) => Self::Missing(url.clone(), *digest),
            Self::Damaged(url, digest) => Self::Damaged(url.clone(), *digest),
            other => Self::Other(String::new(), other.to_string()),
        }
    }
}

/// A local store reads missing objects from here, checked.
impl ObjectSource for Remote {
    fn fetch(&self, digest: &Digest, into: &Store) -> Result<(), StoreError> {
        match self.receive(into, digest, None) {
            Ok(_) => Ok(()),
            Err(RemoteError::Missing(..)) => Err(StoreError::Missing(*digest)),
            Err(RemoteError::Store(error)) => Err(error),
            Err(other) => Err(StoreError::Source(other.to_string())),
        }
    }
}
