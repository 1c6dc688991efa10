//! Files that settings name: prompt packs, texts, tokenizers, result files, certificates.
//!
//! Their paths begin at the folder of the experiment, wherever one stands ([`Library::path`]).
//! Parameters hold the digest of such a file and not its path, so that neither moving it nor
//! standing elsewhere changes a key; the digest leads back to the file within the process.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use artifacts::Digest;

use crate::stage::Library;

/// Where the bytes of a digest were seen while planning.
static SEEN: Mutex<BTreeMap<String, Source>> = Mutex::new(BTreeMap::new());

/// Where relative paths lead that parameters hold as they are written.
static PLACES: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Notes where a path leads that canonical parameters hold as it is written, for what is too large to
/// be read while planning and is pinned otherwise.
pub fn remember(library: &dyn Library, name: &str) {
    PLACES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name.to_owned(), library.path(name));
}

/// Returns where a path leads that parameters hold as it is written.
pub fn remembered(name: &str) -> PathBuf {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    places.get(name).cloned().unwrap_or_else(|| name.into())
}

/// A file that was read while planning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Where it lies, from the working directory.
    pub path: PathBuf,
    /// The path as the settings name it; of a definition, `COLLECTION/NAME` as it is looked up.
    pub name: String,
    /// The digest of its bytes.
    pub digest: Digest,
}

/// Why a file cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, with the path.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Reads a file that settings name, and notes where it lies.
///
/// # Errors
/// If it cannot be read.
pub fn read(library: &dyn Library, name: &str) -> Result<(Source, Vec<u8>), Unusable> {
    let path = library.path(name);
    let bytes = regular(&path).map_err(|e| unread(name, &path, &e))?;
    let source = Source {
        path,
        name: name.to_owned(),
        digest: Digest::of(&bytes),
    };
    note(library, &source);
    Ok((source, bytes))
}

/// The largest file that settings may name, in bytes.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

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
    std::fs::File::open(path)?
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Notes a file that was read in another way.
pub fn note(library: &dyn Library, source: &Source) {
    SEEN.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(source.digest.to_string(), source.clone());
    library.reads(source);
}

/// Returns the file that had a digest while planning.
///
/// # Errors
/// If none had it.
pub fn seen(digest: &str) -> Result<Source, Unusable> {
    let seen = SEEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(digest)
        .cloned();
    seen.ok_or_else(|| Unusable {
        message: format!("planning did not find a file with the digest {digest}"),
        hint: "name the file with `file:`".to_owned(),
    })
}

/// Returns the file that had a digest while planning, and its bytes.
///
/// # Errors
/// If it is gone or has changed since.
pub fn bytes_of(digest: &str) -> Result<(Source, Vec<u8>), Unusable> {
    let source = seen(digest)?;
    let bytes = regular(&source.path).map_err(|e| unread(&source.name, &source.path, &e))?;
    if Digest::of(&bytes) == source.digest {
        return Ok((source, bytes));
    }
    let message = format!(
        "{} has changed since the plan was made",
        source.path.display()
    );
    Err(Unusable {
        message,
        hint: "run again".to_owned(),
    })
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
