//! Files that settings name: prompt packs, texts, tokenizers, result files, certificates.
//!
//! Their paths begin at the folder of the experiment, wherever one stands ([`Library::path`]).
//! Parameters hold the digest of such a file and not its path, so that neither moving it nor
//! standing elsewhere changes a key. The plan puts the file into the store ([`keep`]), and jobs read it
//! from there by its digest ([`NamedFiles`]): what happens to the file meanwhile decides nothing.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifacts::{Digest, FileDigest, FileStamp, KnownFiles, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::stage::{Json, Library};

/// A file that was read while planning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedFile {
    /// Where it lies, from the working directory.
    pub path: PathBuf,
    /// The path as the settings name it; of a definition, `COLLECTION/NAME` as it is looked up.
    pub name: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// What it is known by until it changes, if it is worth remembering.
    #[serde(skip)]
    pub stamp: Option<FileStamp>,
}

/// Why a file cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, with the path.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The largest file that settings may name, in bytes.
pub const MOST_BYTES: u64 = 1 << 30;

/// Pins a file that settings name by its digest, and notes where it lies. One that has not changed since it was
/// last kept in the store is not read.
///
/// # Errors
/// If it cannot be read.
pub fn pin(library: &dyn Library, name: &str) -> Result<NamedFile, Unusable> {
    let path = library.path(name);
    let FileDigest { digest, stamp } =
        library.digest(&path).map_err(|e| unread(name, &path, &e))?;
    let source = NamedFile {
        path,
        name: name.to_owned(),
        digest,
        stamp,
    };
    library.reads(&source);
    Ok(source)
}

/// Pins a file as [`pin`] does, and returns its bytes: for what is looked into while planning.
///
/// # Errors
/// If it cannot be read.
pub fn read(library: &dyn Library, name: &str) -> Result<(NamedFile, Vec<u8>), Unusable> {
    let path = library.path(name);
    let bytes = regular(&path).map_err(|e| unread(name, &path, &e))?;
    let source = NamedFile {
        path,
        name: name.to_owned(),
        digest: Digest::of(&bytes),
        stamp: None,
    };
    library.reads(&source);
    Ok((source, bytes))
}

/// Reads a regular file of a size that is known beforehand: a FIFO would wait for ever, and a device
/// has no end.
fn regular(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MOST_BYTES {
        let bytes = metadata.len();
        return Err(io::Error::other(format!(
            "it has {bytes} bytes; the limit is {MOST_BYTES}"
        )));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    artifacts::regular::open(path)?
        .0
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts into the store every file whose digest the parameters of a cell hold, and remembers the digests of large ones.
/// A store that cannot be written is left alone: [`NamedFiles`] then reads the files where they lie.
///
/// # Errors
/// If a file has changed since it was read, or the store is damaged or full.
pub fn keep(experiment: &Experiment, store: &Store) -> Result<(), PipelineError> {
    let known = by_digest(&experiment.sources);
    let sets = experiment.stages.iter().flat_map(|s| &s.parameter_sets);
    let named: BTreeMap<Digest, &NamedFile> = sets.flat_map(|set| named_in(set, &known)).collect();
    match keep_all(&named, store) {
        Err(PipelineError::Store(error)) if error.is_read_only() => Ok(()),
        other => other,
    }
}

fn keep_all(named: &BTreeMap<Digest, &NamedFile>, store: &Store) -> Result<(), PipelineError> {
    let mut fresh = false;
    for (digest, source) in named {
        if store.keeps(digest)? {
            continue;
        }
        if store.put_copy(&source.path)? != *digest {
            return Err(PipelineError::Changed(source.path.clone()));
        }
        fresh = true;
    }
    if fresh {
        store.commit(&[])?;
    }
    let stamped = named
        .values()
        .filter_map(|s| Some((s.path.as_path(), s.stamp?, s.digest)));
    KnownFiles::remember(store.root(), stamped)
        .map_err(|e| StoreError::Io(store.root().to_owned(), e).into())
}

fn by_digest(sources: &[NamedFile]) -> BTreeMap<Digest, &NamedFile> {
    sources.iter().map(|s| (s.digest, s)).collect()
}

/// Returns the files whose digests a value holds.
fn named_in<'a>(
    value: &Json,
    known: &BTreeMap<Digest, &'a NamedFile>,
) -> BTreeMap<Digest, &'a NamedFile> {
    fn visit<'a>(
        value: &Json,
        known: &BTreeMap<Digest, &'a NamedFile>,
        out: &mut BTreeMap<Digest, &'a NamedFile>,
    ) {
        match value {
            Json::String(text) if text.starts_with("b3:") => {
                let digest = text.parse::<Digest>().ok();
                out.extend(digest.and_then(|d| Some((d, *known.get(&d)?))));
            }
            Json::Array(values) => values.iter().for_each(|v| visit(v, known, out)),
            Json::Object(map) => map.values().for_each(|v| visit(v, known, out)),
            Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    let mut out = BTreeMap::new();
    if !known.is_empty() {
        visit(value, known, &mut out);
    }
    out
}

/// The files that the settings of a study name, for those who know them by digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedFiles(Arc<Known>);

#[derive(Debug, Default, PartialEq)]
struct Known {
    sources: BTreeMap<Digest, NamedFile>,
    folder: PathBuf,
    /// Where each file lies that is in the store.
    kept: BTreeMap<Digest, PathBuf>,
}

impl NamedFiles {
    /// Makes the files of a study whose paths begin at `folder`; those in the store are read there.
    pub fn new(
        sources: impl IntoIterator<Item = NamedFile>,
        folder: &Path,
        store: Option<&Store>,
    ) -> Self {
        let sources: BTreeMap<Digest, NamedFile> =
            sources.into_iter().map(|s| (s.digest, s)).collect();
        let in_store = |digest: &Digest| {
            let store = store.filter(|store| store.contains(digest))?;
            Some((*digest, store.path(digest)))
        };
        Self(Arc::new(Known {
            kept: sources.keys().filter_map(in_store).collect(),
            folder: folder.to_owned(),
            sources,
        }))
    }

    /// Makes the files of an experiment; those in the store are read there.
    pub fn of(experiment: &Experiment, store: Option<&Store>) -> Self {
        let folder = experiment.file.parent().unwrap_or(Path::new(""));
        Self::new(experiment.sources.iter().cloned(), folder, store)
    }

    /// Returns where a path leads that parameters hold as it is written, for what is too large to be kept and is
    /// pinned otherwise.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }

    /// Returns the name of each file whose digest parameters hold, with that digest.
    pub(crate) fn named_in(&self, parameters: &Json) -> BTreeMap<String, Digest> {
        let known = self.0.sources.iter().map(|(d, s)| (*d, s)).collect();
        let named = named_in(parameters, &known).into_values();
        named.map(|s| (s.name.clone(), s.digest)).collect()
    }

    /// Returns the file that had a digest while planning.
    ///
    /// # Errors
    /// If none had it.
    pub fn source(&self, digest: &str) -> Result<&NamedFile, Unusable> {
        let source = digest.parse().ok().and_then(|d| self.0.sources.get(&d));
        source.ok_or_else(|| Unusable {
            message: format!("planning did not find a file with the digest {digest}"),
            hint: "name the file with `file:`".to_owned(),
        })
    }

    /// Returns where the bytes of a digest lie: in the store, or where it cannot be written, the file itself.
    ///
    /// # Errors
    /// If no file had the digest while planning.
    pub fn place(&self, digest: &str) -> Result<PathBuf, Unusable> {
        let source = self.source(digest)?;
        let kept = self.0.kept.get(&source.digest);
        Ok(kept.unwrap_or(&source.path).clone())
    }

    /// Returns the file that had a digest while planning, and its bytes.
    ///
    /// # Errors
    /// If they are damaged in the store, or the file is not in the store and has changed since.
    pub fn read(&self, digest: &str) -> Result<(NamedFile, Vec<u8>), Unusable> {
        let source = self.source(digest)?;
        let path = self.place(digest)?;
        let bytes = regular(&path).map_err(|e| unread(&source.name, &path, &e))?;
        if Digest::of(&bytes) == source.digest {
            return Ok((source.clone(), bytes));
        }
        let (message, hint) = if self.0.kept.contains_key(&source.digest) {
            (
                format!("the store's copy of {} is damaged", source.path.display()),
                "repair the store with `benchtrail fsck --repair`, and run again",
            )
        } else {
            (
                format!(
                    "{} has changed since the plan was made",
                    source.path.display()
                ),
                "run again",
            )
        };
        Err(Unusable {
            message,
            hint: hint.to_owned(),
        })
    }
}

/// Says why a file cannot be read, and where it was looked for.
pub fn unread(name: &str, path: &Path, error: &io::Error) -> Unusable {
    let written = Path::new(name);
    let hint = if error.kind() != ErrorKind::NotFound {
        "make the file readable".to_owned()
    } else if written.is_absolute() || path == written {
        "correct the path".to_owned()
    } else if written.exists() {
        format!(
            "there is a `{name}` in the working directory, but paths are relative to the \
             experiment's folder; write the path relative to it"
        )
    } else {
        "paths are relative to the experiment's folder".to_owned()
    };
    Unusable {
        message: format!("{}: {error}", path.display()),
        hint,
    }
}
