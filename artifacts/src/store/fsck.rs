//! Checks every statement of the layout, and repairs what it can.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::gc::remove;
use super::objects::{hash_file, size_of};
use super::walk::{Found, metadata_of};
use super::{MAX_RECORD_BYTES, ReadRecord, Store, StoreError};
use crate::Digest;

/// Whether to repair or only to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsckMode {
    /// Report only.
    #[default]
    Check,
    /// Move damaged objects and strangers to `quarantine`, and remove the index rows that depend on missing objects, so
    /// that the next run computes them again.
    Repair,
}

/// A part of the objects: those whose first eight digest bytes, as a big-endian number, leave
/// the remainder `part - 1` when divided by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subset {
    part: u64,
    parts: u64,
}

impl Subset {
    /// Makes the subset `part`/`of`, counted from 1; `None` unless `1 ≤ part ≤ of`.
    pub fn new(part: u64, parts: u64) -> Option<Self> {
        (1..=parts).contains(&part).then_some(Self { part, parts })
    }

    fn holds(self, digest: &Digest) -> bool {
        let first = digest
            .as_bytes()
            .first_chunk::<8>()
            .expect("a digest has 32 bytes");
        u64::from_be_bytes(*first) % self.parts == self.part - 1
    }
}

/// The options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsckOptions {
    /// Whether to repair.
    pub mode: FsckMode,
    /// The objects to hash and read; the rest of the layout is checked in full.
    pub subset: Option<Subset>,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FsckFindingKind {
    /// An object's bytes do not match the digest in its name.
    Damaged,
    /// Something under `objects` that is not an object.
    Stranger,
    /// A file in `tmp` older than a day.
    Leftover,
    /// A folder in `roots` whose name is not the digest of its place.
    BrokenRoot,
    /// The index itself is inconsistent.
    BrokenIndex,
    /// The index names a missing object.
    Missing,
    /// The size in the index differs from the file's size.
    WrongSize,
    /// The index has a row that its record contradicts.
    Forged,
    /// A record gives another size for an artifact than the artifact has.
    Contradicted,
    /// The index names an object as a record, but it is not one.
    NotARecord,
    /// A record refers to a missing object.
    Dangling,
}

impl FsckFindingKind {
    /// Returns the remedy for an unrepaired finding.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Damaged
            | Self::Missing
            | Self::WrongSize
            | Self::Forged
            | Self::Contradicted
            | Self::NotARecord => {
                "repair, then run the experiment again; only cells that depend on it are executed"
            }
            Self::Stranger => {
                "`--repair` moves it to quarantine; you can also move it away \
                yourself"
            }
            Self::Leftover => "`--repair` or `gc` removes it",
            Self::BrokenRoot => {
                "run the experiment of that lock again, then `benchtrail gc --forget` this folder"
            }
            Self::BrokenIndex => {
                "delete index.sqlite; it is derived data, and the next run \
                rebuilds it"
            }
            Self::Dangling => {
                "restore the object from another copy of the store, or repair and run again"
            }
        }
    }
}

/// One problem, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsckFinding {
    /// The kind of problem.
    pub kind: FsckFindingKind,
    /// The object concerned.
    pub object: Option<Digest>,
    /// The record that names or refers to the object, if that led to the finding.
    pub record: Option<Digest>,
    /// The file concerned.
    pub path: PathBuf,
    /// The details, in a few words.
    pub detail: String,
    /// Whether the problem was repaired.
    pub repaired: bool,
}

impl fmt::Display for FsckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.detail)?;
        if self.repaired {
            f.write_str(" (repaired)")
        } else {
            write!(f, "; {}", self.kind.remedy())
        }
    }
}

/// What a check covered and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Objects in the store.
    pub objects: u64,
    /// Number of objects hashed.
    pub hashed: u64,
    /// Number of bytes hashed.
    pub bytes: u64,
    /// Number of records read.
    pub records: u64,
    /// The problems, in layout order.
    pub findings: Vec<FsckFinding>,
}

impl Store {
    /// Checks every statement of the store's layout (see the store's module page): hashes every object on all cores,
    /// compares the index with the files and with the records, and follows every reference.
    ///
    /// # Errors
    /// If the file system or the index returns an error. A problem of the store is a finding, not an error.
    pub fn fsck(
        &self,
        options: &FsckOptions,
        read: impl ReadRecord,
    ) -> Result<FsckReport, StoreError> {
        let (objects, strangers) = self.walk()?;
        let mut report = FsckReport {
            objects: objects.len() as u64,
            ..FsckReport::default()
        };
        for path in strangers {
            report.find(
                FsckFindingKind::Stranger,
                None,
                path,
                "objects are never stored at this path".to_owned(),
            );
        }
        for path in self.leftovers()? {
            report.find(
                FsckFindingKind::Leftover,
                None,
                path,
                "left by a process that died".to_owned(),
            );
        }
        for folder in self.broken_roots()? {
            report.find(
                FsckFindingKind::BrokenRoot,
                None,
                folder,
                "the place of the lock that it stands for is damaged".to_owned(),
            );
        }
        let chosen: Vec<&Found> = objects
            .iter()
            .filter(|f| options.subset.is_none_or(|s| s.holds(&f.digest)))
            .collect();
        let damaged = self.hash_all(&chosen, &mut report)?;
        self.check_index(&mut report)?;
        let mut records = self.index()?.records()?;
        // A lost index, or that of a store which cannot be written, names no records.
        if !self.index()?.is_complete()? {
            records.extend(self.records_among(&chosen, &damaged, &read)?);
        }
        records.retain(|r| options.subset.is_none_or(|s| s.holds(r)) && !damaged.contains(r));
        self.check_records(&records, &damaged, &read, &mut report)?;
        if options.mode == FsckMode::Repair {
            self.repair(&mut report)?;
        }
        Ok(report)
    }

    /// Hashes objects and returns the damaged ones.
    fn hash_all(
        &self,
        objects: &[&Found],
        report: &mut FsckReport,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let hashed: Vec<Option<(Digest, u64)>> = objects
            .par_iter()
            .map(|object| match hash_file(&object.path) {
                Ok(hashed) => Ok(Some(hashed)),
                // Removed by `gc` since the walk.
                Err(_) if matches!(metadata_of(&object.path), Ok(None)) => Ok(None),
                Err(error) => Err(error),
            })
            .collect::<Result<_, StoreError>>()?;
        let mut damaged = BTreeSet::new();
        for (object, (digest, bytes)) in objects
            .iter()
            .zip(hashed)
            .filter_map(|(f, h)| Some((f, h?)))
        {
            report.hashed += 1;
            report.bytes += bytes;
            if digest != object.digest {
                damaged.insert(object.digest);
                let detail = format!("its {bytes} bytes have another digest: {}", digest.short());
                report.find(
                    FsckFindingKind::Damaged,
                    Some(object.digest),
                    object.path.clone(),
                    detail,
                );
            }
        }
        Ok(damaged)
    }

    /// Returns the records among objects.
    fn records_among(
        &self,
        objects: &[&Found],
        damaged: &BTreeSet<Digest>,
        read: &impl ReadRecord,
    ) -> Result<Vec<Digest>, StoreError> {
        let small = objects
            .par_iter()
            .filter(|o| o.bytes <= MAX_RECORD_BYTES && !damaged.contains(&o.digest));
        let records = small.map(|object| match self.get(&object.digest) {
            Ok(bytes) => Ok(read(&object.digest, &bytes).map(|_| object.digest)),
            Err(StoreError::Missing(_) | StoreError::Damaged(..)) => Ok(None),
            Err(error) => Err(error),
        });
        let records: Vec<Option<Digest>> = records.collect::<Result<_, StoreError>>()?;
        Ok(records.into_iter().flatten().collect())
    }

    /// Compares the rows of the index with the files.
    fn check_index(&self, report: &mut FsckReport) -> Result<(), StoreError> {
        let index = self.index()?;
        for line in index.inconsistencies()? {
            report.find(FsckFindingKind::BrokenIndex, None, index.path.clone(), line);
        }
        let mut wrong = BTreeMap::new();
        for (digest, bytes) in index.objects()? {
            match size_of(&self.path(&digest))? {
                Some(size) if Some(size) == bytes => {}
                Some(size) => {
                    let detail = format!(
                        "the index gives its size as {}, but the file has {size}",
                        bytes.unwrap_or(0)
                    );
                    wrong.insert(digest, (FsckFindingKind::WrongSize, detail));
                }
                // A row that has disappeared meanwhile was removed by `gc`, which removes rows before files.
                None if index.size_of(&digest)?.is_some() => {
                    wrong.insert(
                        digest,
                        (
                            FsckFindingKind::Missing,
                            "the index calls it durable".to_owned(),
                        ),
                    );
                }
                None => {}
            }
        }
        for digest in index.named()? {
            if !wrong.contains_key(&digest) && !self.contains(&digest) && index.names(&digest)? {
                wrong.insert(
                    digest,
                    (FsckFindingKind::Missing, "the index names it".to_owned()),
                );
            }
        }
        for (digest, (kind, detail)) in wrong {
            report.find(kind, Some(digest), self.path(&digest), detail);
        }
        Ok(())
    }

    /// Reads the records that the index names. Checks that they confirm its rows and that everything they refer to
    /// exists.
    fn check_records(
        &self,
        records: &BTreeSet<Digest>,
        damaged: &BTreeSet<Digest>,
        read: &impl ReadRecord,
        report: &mut FsckReport,
    ) -> Result<(), StoreError> {
        let mut intact: BTreeMap<Digest, bool> = damaged.iter().map(|d| (*d, false)).collect();
        for record in records {
            let bytes = match self.get(record) {
                Ok(bytes) => bytes,
                // Missing ones are already findings; damaged ones may be outside the subset.
                Err(StoreError::Missing(_) | StoreError::Damaged(..)) => continue,
                Err(error) => return Err(error),
            };
            report.records += 1;
            let Some(view) = read(record, &bytes) else {
                let detail = "the index lists it as a record, but it is not one".to_owned();
                report.find(
                    FsckFindingKind::NotARecord,
                    Some(*record),
                    self.path(record),
                    detail,
                );
                report.name_record(*record);
                continue;
            };
            if let Some(detail) = self.index()?.forgery(&view.commit)? {
                report.find(
                    FsckFindingKind::Forged,
                    Some(*record),
                    self.path(record),
                    detail,
                );
                report.name_record(*record);
            }
            for (digest, said) in &view.sizes {
                let size = size_of(&self.path(digest))?;
                if size.is_some_and(|size| size != *said) && !damaged.contains(digest) {
                    let short = record.short();
                    let detail = format!("the record {short} says that it has {said} bytes");
                    let (kind, path) = (FsckFindingKind::Contradicted, self.path(digest));
                    report.find(kind, Some(*digest), path, detail);
                    report.name_record(*record);
                }
            }
            let references: BTreeSet<&Digest> = view.references().collect();
            for digest in references {
                if !*intact
                    .entry(*digest)
                    .or_insert_with(|| self.contains(digest))
                {
                    let detail = format!("the record {} refers to it", record.short());
                    report.find(
                        FsckFindingKind::Dangling,
                        Some(*digest),
                        self.path(digest),
                        detail,
                    );
                    report.name_record(*record);
                }
            }
        }
        Ok(())
    }

    /// Moves aside what is not an object, and removes the rows that depend on missing objects.
    fn repair(&self, report: &mut FsckReport) -> Result<(), StoreError> {
        let (mut gone, mut records) = (Vec::new(), Vec::new());
        for finding in &mut report.findings {
            finding.repaired = true;
            match finding.kind {
                FsckFindingKind::Damaged | FsckFindingKind::Stranger => {
                    self.quarantine(&finding.path)?;
                }
                FsckFindingKind::Leftover => remove_any(&finding.path)?,
                // While a root is broken, `gc` removes nothing: only its owner knows what it needs.
                FsckFindingKind::BrokenIndex | FsckFindingKind::BrokenRoot => {
                    finding.repaired = false;
                }
                FsckFindingKind::Missing | FsckFindingKind::WrongSize => {}
                FsckFindingKind::Forged
                | FsckFindingKind::Contradicted
                | FsckFindingKind::NotARecord
                | FsckFindingKind::Dangling => {
                    records.extend(finding.record);
                }
            }
            if matches!(
                finding.kind,
                FsckFindingKind::Damaged | FsckFindingKind::Missing | FsckFindingKind::WrongSize
            ) {
                gone.extend(finding.object);
            }
        }
        let mut index = self.index()?;
        index.forget(&gone)?;
        index.retire(&records)
    }

    pub(super) fn quarantine(&self, path: &Path) -> Result<(), StoreError> {
        let folder = self.root.join("quarantine");
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let inside = path
            .strip_prefix(&self.objects)
            .or_else(|_| path.strip_prefix(&self.root))
            .unwrap_or(path);
        let name = inside.to_string_lossy().replace('/', "-");
        // A numbered name per occurrence: an object may be damaged twice.
        let target = (0_u32..)
            .map(|n| folder.join(format!("{name}.{n}")))
            .find(|target| fs::symlink_metadata(target).is_err())
            .expect("there are more names than files");
        fs::rename(path, &target).map_err(StoreError::io(path))
    }
}

impl FsckReport {
    fn find(
        &mut self,
        kind: FsckFindingKind,
        object: Option<Digest>,
        path: PathBuf,
        detail: String,
    ) {
        self.findings.push(FsckFinding {
            kind,
            object,
            record: None,
            path,
            detail,
            repaired: false,
        });
    }

    /// Adds the record to the latest finding.
    fn name_record(&mut self, record: Digest) {
        if let Some(last) = self.findings.last_mut() {
            last.record = Some(record);
        }
    }
}

/// Removes a file, or a folder with its contents.
fn remove_any(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return fs::remove_dir_all(path).map_err(StoreError::io(path));
    }
    remove(path)
}
