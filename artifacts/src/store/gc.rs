//! Garbage collection: marks from the roots and sweeps the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use super::hold::lock_file;
use super::walk::{Found, metadata_of};
use super::{ReadRecord, Store, StoreError};
use crate::Digest;

/// Whether to remove garbage or only report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcMode {
    /// Remove nothing.
    DryRun,
    /// Remove.
    Sweep,
}

/// The options of a collection.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Whether to remove objects.
    pub mode: GcMode,
    /// The age below which objects are kept, with everything they refer to. Using an object again resets its age.
    pub grace: Duration,
    /// How long to wait for runs that are planning.
    pub patience: Duration,
}

impl Default for GcOptions {
    /// Returns a sweep with a grace of one day and a patience of one minute.
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            mode: GcMode::Sweep,
            grace: day,
            patience: Duration::from_secs(60),
        }
    }
}

/// A count of objects and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of objects.
    pub objects: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more object.
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// What was kept and removed, or would be in a dry run. Every object is in exactly one tally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Reachable from the roots, live runs or young records.
    pub reached: Tally,
    /// Unreachable, but young or used again during the sweep.
    pub young: Tally,
    /// Removed.
    pub removed: Tally,
    /// Files that dead processes left in `tmp`.
    pub leftovers: u64,
    /// Records whose rows were removed from the index.
    pub retired: Vec<Digest>,
    /// Objects that roots and records refer to and that the store lacks.
    pub missing: Vec<Digest>,
}

impl Store {
    /// Removes every object that cannot be reached from `roots` (records, usually those the locks name), from what live
    /// runs hold, or from young records. Removes the index rows that name an object before the object.
    ///
    /// # Errors
    /// If a record on the way is damaged or is not a record: then nothing is removed, since its references are unknown.
    /// If a run plans for longer than the patience. If the file system or the index returns an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "file ages are measured with the clock that sets their timestamps"
    )]
    pub fn gc(
        &self,
        roots: &[Digest],
        options: &GcOptions,
        read: impl ReadRecord,
    ) -> Result<GcReport, StoreError> {
        let began = SystemTime::now();
        let (objects, _) = self.walk()?;
        let sizes: BTreeMap<Digest, u64> = objects.iter().map(|f| (f.digest, f.bytes)).collect();
        // Most of the marking happens before any other process has to wait.
        let mut marks = Marks::default();
        self.mark(roots, &sizes, &read, &mut marks)?;

        let alone = lock_file(
            &self.root.join("gc.lock"),
            fs::File::try_lock,
            options.patience,
        )?;
        let (held, oldest_run) = self.read_holds()?;
        let cutoff = began
            .checked_sub(options.grace)
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let cutoff = oldest_run.map_or(cutoff, |run| cutoff.min(run));
        self.mark(&held, &sizes, &read, &mut marks)?;
        let records = self.index()?.records()?;
        let young: Vec<Digest> = objects
            .iter()
            .filter(|f| f.modified >= cutoff && records.contains(&f.digest))
            .map(|f| f.digest)
            .collect();
        self.mark(&young, &sizes, &read, &mut marks)?;

        let mut report = GcReport {
            missing: marks.missing.into_iter().collect(),
            ..GcReport::default()
        };
        let mut victims = Vec::new();
        for object in &objects {
            if marks.reached.contains(&object.digest) {
                report.reached.add(object.bytes);
            } else if object.modified >= cutoff {
                report.young.add(object.bytes);
            } else {
                victims.push(object);
            }
        }
        let digests: Vec<Digest> = victims.iter().map(|f| f.digest).collect();
        let retired = self.index()?.records_naming(&digests)?;
        report.retired = retired.into_iter().collect();
        if options.mode == GcMode::Sweep {
            self.index()?.forget(&digests)?;
        }
        drop(alone);

        let leftovers = self.leftovers()?;
        report.leftovers = leftovers.len() as u64;
        if options.mode == GcMode::DryRun {
            victims.iter().for_each(|f| report.removed.add(f.bytes));
            return Ok(report);
        }
        for path in leftovers {
            remove(&path)?;
        }
        for object in victims {
            if self.sweep(object)? {
                report.removed.add(object.bytes);
            } else {
                report.young.add(object.bytes);
            }
        }
        self.forget_imports()?;
        Ok(report)
    }

    /// Follows records. Other objects are marked as reached without being read.
    fn mark(
        &self,
        records: &[Digest],
        sizes: &BTreeMap<Digest, u64>,
        read: &impl ReadRecord,
        marks: &mut Marks,
    ) -> Result<(), StoreError> {
        let mut open = records.to_vec();
        while let Some(record) = open.pop() {
            if !marks.followed.insert(record) {
                continue;
            }
            marks.reached.insert(record);
            // An object put since the walk will not be swept, but the objects it refers to may be.
            if !sizes.contains_key(&record) && !self.contains(&record) {
                marks.missing.insert(record);
                continue;
            }
            let bytes = self.get(&record)?;
            let view = read(&record, &bytes).ok_or(StoreError::NotARecord(record))?;
            marks.reached.extend(&view.files);
            for object in view.references() {
                marks.reached.insert(*object);
                if !sizes.contains_key(object) && !self.contains(object) {
                    marks.missing.insert(*object);
                }
            }
            open.extend(view.input_records);
        }
        Ok(())
    }

    /// Removes an object unless it was put again since the walk. Moves it aside first: a `put` either touches the file
    /// before the move, which brings it back, or writes it again.
    fn sweep(&self, object: &Found) -> Result<bool, StoreError> {
        let aside = self.root.join("tmp").join(format!(
            "gc-{}-{}",
            std::process::id(),
            object.digest.hex()
        ));
        match fs::rename(&object.path, &aside) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(StoreError::Io(object.path.clone(), e)),
        }
        let modified = match metadata_of(&aside)? {
            Some(metadata) => metadata.modified().map_err(StoreError::io(&aside))?,
            None => return Ok(true),
        };
        if modified != object.modified {
            fs::rename(&aside, &object.path).map_err(StoreError::io(&object.path))?;
            return Ok(false);
        }
        remove(&aside)?;
        Ok(true)
    }
}

#[derive(Default)]
struct Marks {
    followed: BTreeSet<Digest>,
    reached: BTreeSet<Digest>,
    missing: BTreeSet<Digest>,
}

/// Removes a file, which may already be gone.
pub(super) fn remove(path: &std::path::Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::Io(path.to_owned(), e)),
        _ => Ok(()),
    }
}
