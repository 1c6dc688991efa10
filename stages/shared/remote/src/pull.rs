//! From the shared store to the local one: records, then what they refer to, then the index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use artifacts::{Digest, Maker, ObjectSource, ReadRecord, RecordView, Store, StoreError};

use crate::error::RemoteError;
use crate::side_by_side::each;
use crate::{Progress, Remote, Watch};

/// What a pull did.
#[derive(Debug, Default)]
pub struct PullReport {
    /// Records entered into the local index.
    pub entered: u64,
    /// Objects downloaded, records included.
    pub objects: u64,
    /// Bytes downloaded.
    pub bytes: u64,
    /// Records that are not whole there, with the reason. They were left out.
    pub broken: Vec<(Digest, RemoteError)>,
}

struct Pull<'a> {
    remote: &'a Remote,
    local: &'a Store,
    watch: Watch<'a>,
    state: Mutex<(PullReport, Progress)>,
}

impl Remote {
    /// Downloads records with all that they refer to, every byte checked, and enters those that are whole into the local
    /// index. What is here is not downloaded again. Records that `me` did not execute are noted as imports.
    ///
    /// # Errors
    /// If the shared store cannot be reached, or the local one refuses. A record of which something is missing or damaged
    /// there is no error: the report names it.
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

    /// As [`Remote::pull`], for records that are the caller's own wherever they were executed: none is noted as an import.
    /// What it costs depends on these records alone.
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
        let progress = Progress {
            total: records.len() as u64,
            ..Progress::default()
        };
        let pull = Pull {
            remote: self,
            local,
            watch,
            state: Mutex::new((PullReport::default(), progress)),
        };
        // Before anything comes in.
        let known: Option<BTreeSet<Digest>> = match me {
            Some(_) => Some(local.records()?.into_iter().collect()),
            None => None,
        };
        let views = pull.all(records, &read)?;
        if let (Some(known), Some(me)) = (known, me) {
            pull.note(&views, &known, me)?;
        }
        let named: Vec<_> = views.into_keys().map(|record| (record, None)).collect();
        let (mut report, _) = pull
            .state
            .into_inner()
            .expect("nobody panics with the lock");
        report.entered = local.adopt(&named, &read)?;
        Ok(report)
    }
}

impl Pull<'_> {
    /// Returns the records that are whole here now.
    fn all(
        &self,
        records: &[Digest],
        read: &impl ReadRecord,
    ) -> Result<BTreeMap<Digest, RecordView>, RemoteError> {
        let wanted: BTreeSet<Digest> = records.iter().copied().collect();
        let lost = self.download(&wanted)?;
        let mut views: BTreeMap<Digest, RecordView> = BTreeMap::new();
        for record in wanted.iter().filter(|r| !lost.contains_key(r)) {
            let view = read(record, &self.local.get(record)?);
            views.insert(*record, view.ok_or(StoreError::NotARecord(*record))?);
        }
        let objects: BTreeSet<Digest> = views
            .values()
            .flat_map(RecordView::references)
            .copied()
            .collect();
        let objects: BTreeSet<Digest> = objects.difference(&wanted).copied().collect();
        self.tell(|_, progress| progress.total += objects.len() as u64);
        let missing = self.download(&objects)?;
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
        self.tell(|report, _| report.broken = broken);
        Ok(views)
    }

    /// Notes who executed what the index does not know yet, before it learns of it.
    fn note(
        &self,
        views: &BTreeMap<Digest, RecordView>,
        known: &BTreeSet<Digest>,
        me: &Maker,
    ) -> Result<(), RemoteError> {
        let strangers: Vec<&RecordView> = views
            .values()
            .filter(|view| !known.contains(&view.commit.record))
            .collect();
        each(self.remote.jobs, &strangers, |view| {
            self.watch.go_on()?;
            let commit = &view.commit;
            let completions = self.remote.completions_of(&commit.key)?;
            let maker = completions
                .into_iter()
                .find(|c| c.record == commit.record)
                .map(|c| c.maker);
            let maker = maker.unwrap_or_default();
            if maker.host.is_none() || maker.host != me.host || maker.by != me.by {
                self.local.note_import(&commit.record, &maker)?;
            }
            Ok(())
        })?;
        Ok(self.local.settle_imports()?)
    }

    /// Downloads what is not here; returns what is missing or damaged there.
    fn download(
        &self,
        objects: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, RemoteError>, RemoteError> {
        let objects: Vec<Digest> = objects.iter().copied().collect();
        let lost = each(self.remote.jobs, &objects, |digest| {
            self.watch.go_on()?;
            let mut lost = None;
            let mut received = None;
            if !self.local.is_whole(digest)? {
                match self.remote.receive(self.local, digest) {
                    Ok(bytes) => received = Some(bytes),
                    Err(error) if error.is_damage() => lost = Some((*digest, error)),
                    Err(error) => return Err(error),
                }
            }
            self.tell(|report, progress| {
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

    fn tell(&self, change: impl FnOnce(&mut PullReport, &mut Progress)) {
        let mut state = self.state.lock().expect("nobody panics with the lock");
        let (report, progress) = &mut *state;
        change(report, progress);
        let progress = *progress;
        drop(state);
        (self.watch.listener)(progress);
    }
}

impl RemoteError {
    /// The same loss, told of another record.
    fn again(&self) -> Self {
        match self {
            Self::Missing(url, digest) => Self::Missing(url.clone(), *digest),
            Self::Damaged(url, digest) => Self::Damaged(url.clone(), *digest),
            other => Self::Other(String::new(), other.to_string()),
        }
    }
}

/// A local store reads through: what it lacks comes from here, checked.
impl ObjectSource for Remote {
    fn fetch(&self, digest: &Digest, into: &Store) -> Result<(), StoreError> {
        match self.receive(into, digest) {
            Ok(_) => Ok(()),
            Err(RemoteError::Missing(..)) => Err(StoreError::Missing(*digest)),
            Err(RemoteError::Store(error)) => Err(error),
            Err(other) => Err(StoreError::Source(other.to_string())),
        }
    }
}
