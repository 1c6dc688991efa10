//! Files that settings name: prompt packs, texts, tokenizers, result files, certificates.
//!
//! Their paths are relative to the experiment's folder, regardless of the working directory ([`Library::path`]).
//! Parameters contain the digest of such a file and not its path, so that neither moving the file nor changing the
//! working directory changes a key. The plan puts the file into the store ([`keep`]), and jobs read it from there by
//! its digest ([`NamedFiles`]). So later changes to the file have no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifacts::{Digest, FileDigest, FileStamp, KnownFiles, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::stage::{Json, Library};
use crate::suggest::{closest, did_you_mean, list};

/// A file that was read while planning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedFile {
    /// Its path, relative to the working directory.
    pub path: PathBuf,
    /// The path in the settings; for a definition, `COLLECTION/NAME` as used to look it up.
    pub name: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The stamp that identifies it until it changes, if it is worth remembering.
    #[serde(skip)]
    pub stamp: Option<FileStamp>,
    /// The absolute path without links, if requests to a server carry the file's contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<PathBuf>,
}

/// Why a file cannot be used, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The problem, with the path.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

/// The largest file that settings may name, in bytes.
pub const MOST_BYTES: u64 = 1 << 30;

/// Pins a file that settings name by its digest, and notes its path. Does not read a file that has not changed since it
/// was last kept in the store.
///
/// # Errors
/// If the file cannot be read.
pub fn pin(library: &dyn Library, name: &str) -> Result<NamedFile, Unusable> {
    let path = library.path(name);
    let FileDigest { digest, stamp } =
        library.digest(&path).map_err(|e| unread(name, &path, &e))?;
    let source = NamedFile {
        path,
        name: name.to_owned(),
        digest,
        stamp,
        sent: None,
    };
    library.reads(&source);
    Ok(source)
}

/// Pins a file as [`pin`] does, and returns its bytes, for files that are needed while planning.
///
/// # Errors
/// If the file cannot be read.
pub fn read(library: &dyn Library, name: &str) -> Result<(NamedFile, Vec<u8>), Unusable> {
    let path = library.path(name);
    let bytes = regular(&path).map_err(|e| unread(name, &path, &e))?;
    let source = NamedFile {
        path,
        name: name.to_owned(),
        digest: Digest::of(&bytes),
        stamp: None,
        sent: None,
    };
    library.reads(&source);
    Ok((source, bytes))
}

/// Notes that requests to a server carry the contents of a file, which needs the user's consent if the file lies outside
/// of the project and the server is not one that Benchtrail starts.
pub fn sends(library: &dyn Library, source: &NamedFile) {
    let resolved = source.path.canonicalize();
    library.reads(&NamedFile {
        sent: Some(resolved.unwrap_or_else(|_| source.path.clone())),
        ..source.clone()
    });
}

/// Reads a regular file after checking its size: a FIFO could block for ever, and a device has no end.
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
    let mut bytes = Vec::new();
    let length = usize::try_from(metadata.len()).unwrap_or_default();
    bytes.try_reserve_exact(length).map_err(|_| {
        let reason = format!("it has {length} bytes, more than there is memory for");
        io::Error::new(ErrorKind::OutOfMemory, reason)
    })?;
    artifacts::regular::open(path)?
        .0
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts every file into the store whose digest is in a cell's parameters, and remembers the digests of large files.
/// Leaves a store that cannot be written alone: [`NamedFiles`] then reads the original files.
///
/// # Errors
/// If a file has changed since it was read, or the store is damaged or full.
pub fn keep(experiment: &Experiment, store: &Store) -> Result<(), PipelineError> {
    let sources = by_digest(&experiment.sources);
    let sets = experiment.stages.iter().flat_map(|s| &s.parameter_sets);
    let named: BTreeMap<Digest, &NamedFile> =
        sets.flat_map(|set| named_in(set, &sources)).collect();
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

/// Returns the files whose digests a value contains.
fn named_in<'a>(
    value: &Json,
    by_digest: &BTreeMap<Digest, &'a NamedFile>,
) -> BTreeMap<Digest, &'a NamedFile> {
    fn visit<'a>(
        value: &Json,
        by_digest: &BTreeMap<Digest, &'a NamedFile>,
        out: &mut BTreeMap<Digest, &'a NamedFile>,
    ) {
        match value {
            Json::String(text) if text.starts_with("b3:") => {
                let digest = text.parse::<Digest>().ok();
                out.extend(digest.and_then(|d| Some((d, *by_digest.get(&d)?))));
            }
            Json::Array(values) => values.iter().for_each(|v| visit(v, by_digest, out)),
            Json::Object(map) => map.values().for_each(|v| visit(v, by_digest, out)),
            Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    let mut out = BTreeMap::new();
    if !by_digest.is_empty() {
        visit(value, by_digest, &mut out);
    }
    out
}

/// The files that the settings of a study name, looked up by digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedFiles(Arc<Known>);

#[derive(Debug, Default, PartialEq)]
struct Known {
    sources: BTreeMap<Digest, NamedFile>,
    folder: PathBuf,
    /// The path of each file that is in the store.
    kept: BTreeMap<Digest, PathBuf>,
}

impl NamedFiles {
    /// Collects the files of a study whose paths are relative to `folder`; those in the store are read from there.
    pub fn new(
        sources: impl IntoIterator<Item = NamedFile>,
        folder: &Path,
        store: Option<&Store>,
    ) -> Self {
        let mut by_digest: BTreeMap<Digest, NamedFile> = BTreeMap::new();
        for source in sources {
            let sent = source.sent.clone();
            let kept = by_digest.entry(source.digest).or_insert(source);
            kept.sent = kept.sent.take().or(sent);
        }
        let sources = by_digest;
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

    /// Collects the files of an experiment; those in the store are read from there.
    pub fn of(experiment: &Experiment, store: Option<&Store>) -> Self {
        let folder = experiment.file.parent().unwrap_or(Path::new(""));
        Self::new(experiment.sources.iter().cloned(), folder, store)
    }

    /// Returns the location of a path that parameters contain literally, for files that are too large to keep and are
    /// pinned in another way.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }

    /// Returns the name and digest of each file whose digest is in the parameters.
    pub(crate) fn named_in(&self, parameters: &Json) -> BTreeMap<String, Digest> {
        let sources = self.0.sources.iter().map(|(d, s)| (*d, s)).collect();
        let named = named_in(parameters, &sources).into_values();
        named.map(|s| (s.name.clone(), s.digest)).collect()
    }

    /// Returns the files whose contents requests to a server carry, as absolute paths without links, sorted.
    pub fn sent(&self) -> BTreeSet<&Path> {
        let sources = self.0.sources.values();
        sources.filter_map(|s| s.sent.as_deref()).collect()
    }

    /// Returns the file that had a digest while planning.
    ///
    /// # Errors
    /// If no file had it.
    pub fn source(&self, digest: &str) -> Result<&NamedFile, Unusable> {
        let source = digest.parse().ok().and_then(|d| self.0.sources.get(&d));
        source.ok_or_else(|| Unusable {
            message: format!("planning did not find a file with the digest {digest}"),
            hint: "name the file with `file:`".to_owned(),
        })
    }

    /// Returns the path of the bytes with a digest: in the store, or, if the store cannot be written, the file itself.
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
    /// If the bytes are damaged in the store, or the file is not in the store and has changed since.
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

/// Returns why a file cannot be read, and where it was expected.
pub fn unread(name: &str, path: &Path, error: &io::Error) -> Unusable {
    let written = Path::new(name);
    let hint = if path.is_dir() {
        within(name, path)
    } else if error.kind() == ErrorKind::Other {
        // It is not a regular file, or it is too large.
        "name another file".to_owned()
    } else if error.kind() != ErrorKind::NotFound {
        "make the file readable".to_owned()
    } else if !written.is_absolute() && path != written && written.exists() {
        format!(
            "there is a `{name}` in the working directory, but paths are relative to the \
             experiment's folder; write the path relative to it"
        )
    } else if let Some(hint) = instead(name, path) {
        hint
    } else if written.is_absolute() || path == written {
        "correct the path".to_owned()
    } else {
        "paths are relative to the experiment's folder".to_owned()
    };
    let message = match error.kind() {
        _ if path.is_dir() => format!("{}: this is a folder, not a file", path.display()),
        ErrorKind::NotFound => format!("{}: no such file", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    Unusable { message, hint }
}

/// Returns the names in a folder, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns the remedy for a folder that was named instead of a file.
fn within(name: &str, path: &Path) -> String {
    let names = names_in(path);
    let files = names.iter().filter(|file| path.join(file).is_file());
    let files: Vec<String> = files
        .map(|file| Path::new(name).join(file).display().to_string())
        .collect();
    match files.is_empty() {
        true => "name a file; this folder has none".to_owned(),
        false => format!(
            "name one of its files: {}",
            list(files.iter().map(String::as_str))
        ),
    }
}

/// Returns the remedy for a missing file if it is a URL, a path of another system, or similar to a file in its folder.
pub fn instead(name: &str, path: &Path) -> Option<String> {
    if name.contains("://") {
        return Some("download the file, and name it".to_owned());
    }
    if name.contains('\\') {
        return Some(format!(
            "separate folders with `/`: `{}`",
            name.replace('\\', "/")
        ));
    }
    if let Some(rest) = name.strip_prefix("~/") {
        let rest = Path::new(rest).display();
        return Some(format!(
            "`~` is only known to a shell: write the path out, as in `/home/NAME/{rest}`"
        ));
    }
    if name.contains('$') {
        return Some("variables of a shell are not replaced: write the path out".to_owned());
    }
    let folder = path.parent()?;
    let here = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    if !here.is_dir() {
        // As Hugging Face names a data set.
        let is_bare = !name.contains('.') && name.matches('/').count() == 1;
        return Some(match is_bare {
            true => "name a file: nothing is downloaded by its name".to_owned(),
            false => format!("the folder {} does not exist either", folder.display()),
        });
    }
    let names = names_in(here);
    let typed = path.file_name()?.to_str()?;
    let near = closest(typed, names.iter().map(String::as_str))?;
    let written = Path::new(name).with_file_name(near);
    Some(did_you_mean(written.display()))
}
