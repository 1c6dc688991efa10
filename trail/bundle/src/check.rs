//! Checks a bundle: every byte, the signature, and the agreement of lock, records and artifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use artifacts::Store;
use pipeline::StudyDocument;
use pipeline::lock::Lock;
use serde::Serialize;
use serde_json::Value;

use crate::archive::list;
use crate::catalogue::Catalogue;
use crate::envelope::Envelope;
use crate::error::BundleError;
use crate::keys::PublicKey;
use crate::layout;
use crate::manifest::{Entry, sha256_of};
use crate::open::Bundle;
use crate::open::SEAL_BYTES;
use crate::place::BundlePath;
use crate::publication::Publication;
use crate::publish::describe;
use crate::ro_crate::object_digest;
use crate::sources::Sources;
use crate::statement::manifest_digest;

/// A problem with a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Complaint {
    /// The file of the bundle.
    pub path: String,
    /// The problem.
    pub what: String,
}

/// The signature of a bundle with respect to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// The bundle has no signature.
    Unsigned,
    /// The bundle is signed, but no key was given to check it.
    Unchecked(Vec<String>),
    /// Signed by the given key.
    Good(String),
    /// Not signed by the given key, or forged; a complaint says which.
    Bad,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The number of files compared with their digests.
    pub files: usize,
    /// The number of files that cover the others: manifest, statement, signature and sums.
    pub covers: usize,
    /// The size of these files in bytes.
    pub bytes: u64,
    /// The number of executed cells whose records were read.
    pub cells: usize,
    /// The signature.
    pub signature: Signature,
    /// All problems.
    pub complaints: Vec<Complaint>,
}

impl Checked {
    fn complain(&mut self, path: impl Into<String>, what: impl Into<String>) {
        self.complaints.push(Complaint {
            path: path.into(),
            what: what.into(),
        });
    }
}

/// Files that cover all others. Each is checked by its content, not by the manifest.
const SEALS: [&str; 4] = [
    layout::MANIFEST,
    layout::STATEMENT,
    layout::ATTESTATION,
    layout::SUMS,
];

/// Checks every file against the manifest, the manifest against statement and signature, and the
/// lock against its records and artifacts. Every document that follows from lock, records, study
/// and colophon is derived again and compared. A file outside the manifest is a complaint.
///
/// # Errors
/// If the directory cannot be listed, or temporary files cannot be written. A problem in the bundle is a complaint, not
/// an error.
pub fn verify(bundle: &Bundle, key: Option<&PublicKey>) -> Result<Checked, BundleError> {
    let mut checked = Checked {
        files: 0,
        covers: 0,
        bytes: 0,
        cells: 0,
        signature: Signature::Unsigned,
        complaints: Vec::new(),
    };
    compare_files(bundle, &mut checked)?;
    check_seals(bundle, key, &mut checked)?;
    check_study(bundle, &mut checked)?;
    Ok(checked)
}

fn compare_files(bundle: &Bundle, checked: &mut Checked) -> Result<(), BundleError> {
    let root = bundle.root();
    let there = list(root).map_err(|e| BundleError::Io(root.to_owned(), e))?;
    let listed: BTreeMap<&str, &Entry> = bundle
        .manifest()
        .files
        .iter()
        .map(|f| (f.path.as_str(), f))
        .collect();
    for path in there.nameless {
        checked.complain(
            path,
            "its name is not text, so it is not in the manifest: it was added",
        );
    }
    for path in &there.files {
        if SEALS.contains(&path.as_str()) {
            checked.covers += 1;
        } else if !listed.contains_key(path.as_str()) {
            checked.complain(path, "it is not in the manifest: it was added");
        }
    }
    for (path, expected) in listed {
        match expected.of_file(root) {
            Ok(Some(actual)) => {
                checked.files += 1;
                checked.bytes += actual.bytes;
                if actual != *expected && object_digest(path) == Some(actual.blake3) {
                    checked.complain(path, "its bytes match its name, but not the manifest");
                } else if actual != *expected {
                    let (actual, expected) = (actual.blake3.short(), expected.blake3.short());
                    checked.complain(path, format!("it was changed: {actual} is not {expected}"));
                } else if object_digest(path).is_some_and(|digest| digest != actual.blake3) {
                    checked.complain(path, "its name is not the digest of its bytes");
                }
            }
            Ok(None) => checked.complain(
                path,
                format!("it was changed: it does not have {} bytes", expected.bytes),
            ),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                checked.complain(path, "it is missing");
            }
            Err(e) => checked.complain(path, format!("it cannot be read: {e}")),
        }
    }
    Ok(())
}

fn check_seals(
    bundle: &Bundle,
    key: Option<&PublicKey>,
    checked: &mut Checked,
) -> Result<(), BundleError> {
    let read = |name: &str| {
        let place = BundlePath::new(name).expect("a bundle's own names are places in it");
        match place.read(bundle.root(), SEAL_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(BundleError::Io(place.below(bundle.root()), e)),
        }
    };
    let manifest = sha256_of(&read(layout::MANIFEST)?.unwrap_or_default());
    let statement = read(layout::STATEMENT)?;
    match statement.as_deref().map(artifacts::json::parse::<Value>) {
        None => checked.complain(layout::STATEMENT, "it is missing"),
        Some(Err(e)) => checked.complain(layout::STATEMENT, format!("it cannot be read: {e}")),
        Some(Ok(value)) if manifest_digest(&value) != Some(manifest.as_str()) => {
            // Only a signature could show which of the two was changed.
            let message = format!(
                "it is not the manifest that {} describes",
                layout::STATEMENT
            );
            checked.complain(layout::MANIFEST, message);
        }
        Some(Ok(_)) => {}
    }
    sums(bundle, read(layout::SUMS)?, checked);
    let Some(envelope) = read(layout::ATTESTATION)? else {
        if key.is_some() {
            checked.complain(
                layout::ATTESTATION,
                "you gave a key to check the signature, but the bundle is not signed",
            );
        }
        return Ok(());
    };
    let envelope: Envelope = match artifacts::json::parse(&envelope) {
        Ok(envelope) => envelope,
        Err(e) => {
            checked.signature = Signature::Bad;
            checked.complain(layout::ATTESTATION, format!("it cannot be read: {e}"));
            return Ok(());
        }
    };
    if envelope.body().ok() != statement {
        let what = format!("it is not the statement in {}", layout::ATTESTATION);
        checked.complain(layout::STATEMENT, what);
    }
    checked.signature = match key {
        None => Signature::Unchecked(
            envelope
                .signatures
                .iter()
                .map(|s| s.keyid.clone())
                .collect(),
        ),
        Some(key) => match envelope.open(key) {
            Ok(_) => Signature::Good(key.id()),
            Err(error) => {
                checked.complain(layout::ATTESTATION, error.to_string());
                Signature::Bad
            }
        },
    };
    Ok(())
}

/// Checks that the sums, which are for readers without other tools, match the manifest.
fn sums(bundle: &Bundle, bytes: Option<Vec<u8>>, checked: &mut Checked) {
    let Some(bytes) = bytes else {
        return checked.complain(layout::SUMS, "it is missing");
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: BTreeSet<&str> = text.lines().collect();
    let missing = bundle.manifest().files.iter().find(|f| {
        let line = format!("{}  {}", f.sha256, f.path);
        !lines.contains(line.as_str())
    });
    if let Some(file) = missing {
        checked.complain(
            layout::SUMS,
            format!("its line for {} does not match the manifest", file.path),
        );
    }
}

fn check_study(bundle: &Bundle, checked: &mut Checked) -> Result<(), BundleError> {
    let lock_name = bundle.manifest().lock.clone();
    let lock = match bundle.lock() {
        Ok(lock) => lock,
        Err(error) => {
            checked.complain(lock_name, error.to_string());
            return Ok(());
        }
    };
    let trail = lock.trail();
    if bundle.manifest().trail != trail {
        checked.complain(layout::MANIFEST, "its trail digest differs from the lock's");
    }
    let study = match bundle.study() {
        Ok(study) => study,
        Err(error) => {
            checked.complain(layout::STUDY, error.to_string());
            return Ok(());
        }
    };
    // Only what lies in the bundle is a problem of the bundle: the index of this store lies in a temporary folder.
    let store = match bundle.store() {
        Err(BundleError::Store(error)) => return Err(BundleError::Store(error)),
        store => store.and_then(|store| Ok((bundle.catalogue(&lock, &store)?, store))),
    };
    let (catalogue, store) = match store {
        Ok(read) => read,
        Err(error) => {
            checked.complain(lock_name, error.to_string());
            return Ok(());
        }
    };
    checked.cells = catalogue.cells.len();
    let listed: BTreeSet<_> = bundle
        .manifest()
        .files
        .iter()
        .filter_map(|f| object_digest(&f.path))
        .collect();
    let mut whole = true;
    for (digest, object) in &catalogue.objects {
        if !listed.contains(digest) {
            whole = false;
            checked.complain(
                layout::object(digest),
                format!("it is missing: {}", object.what),
            );
        }
    }
    let entries = bundle.manifest().files.iter();
    let sizes: BTreeMap<_, u64> = entries
        .filter_map(|f| Some((object_digest(&f.path)?, f.bytes)))
        .collect();
    for cell in &catalogue.cells {
        for (digest, said) in cell.record.sizes() {
            if let Some(bytes) = sizes.get(&digest).filter(|bytes| **bytes != said) {
                let name = &cell.name;
                let what = format!("the record of {name} says {said} bytes, but it has {bytes}");
                checked.complain(layout::object(&digest), what);
            }
        }
    }
    let records: Vec<_> = catalogue
        .cells
        .iter()
        .map(|c| (c.class, &c.record))
        .collect();
    for what in study.disagreements(&lock, &records) {
        checked.complain(layout::STUDY, what);
    }
    // Every file is now known to be regular and to have the manifest's bytes, so it can be read
    // again.
    if whole
        && checked.complaints.is_empty()
        && let Err(error) = check_derived(bundle, &lock, &study, &catalogue, &store, checked)
    {
        checked.complain(layout::MANIFEST, error.to_string());
    }
    Ok(())
}

/// Derives every document of the bundle again and compares it with the existing one.
fn check_derived(
    bundle: &Bundle,
    lock: &Lock,
    study: &StudyDocument,
    catalogue: &Catalogue,
    store: &Store,
    checked: &mut Checked,
) -> Result<(), BundleError> {
    let (root, manifest) = (bundle.root(), bundle.manifest());
    let colophon = &manifest.colophon;
    let listed: BTreeMap<&BundlePath, &Entry> =
        manifest.files.iter().map(|f| (&f.path, f)).collect();
    let carried = colophon.carried.iter().filter_map(|place| {
        let entry = listed.get(place)?;
        Some((place.clone(), place.below(root), entry.blake3))
    });
    let sources = Sources {
        experiment: colophon.experiment.clone(),
        lock: manifest.lock.clone(),
        carried: carried.collect(),
        left_out: colophon.left_out.clone(),
    };
    let text = match colophon.experiment.read(root, SEAL_BYTES) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) => return Err(BundleError::Io(colophon.experiment.below(root), e)),
    };
    let publication = Publication {
        sources: &sources,
        experiment_text: &text,
        lock,
        study,
        store,
        without: &colophon.without,
        authors: &colophon.authors,
        license: &colophon.license,
        allowed: &manifest.allowed,
        names: &[],
        keys: &[],
        key: None,
        version: &colophon.version,
    };
    let envelope = match checked.signature {
        Signature::Unsigned => None,
        _ => {
            let place = BundlePath::new(layout::ATTESTATION).expect("a name is a place");
            let read = place.read(root, SEAL_BYTES);
            Some(read.map_err(|e| BundleError::Io(place.below(root), e))?)
        }
    };
    let derived = describe(&publication, catalogue, envelope.as_deref())?;
    let derived: BTreeMap<&BundlePath, &Entry> = derived.iter().map(|e| (&e.path, e)).collect();
    for (path, entry) in &derived {
        let seal = SEALS.contains(&path.as_str());
        let actual = if seal {
            (path.as_str() != layout::ATTESTATION).then(|| seal_entry(root, path, entry))
        } else {
            Some(listed.get(*path).is_some_and(|listed| listed == entry))
        };
        if actual == Some(false) {
            checked.complain(
                path.as_str(),
                "it differs from what lock, records and study give when it is derived again",
            );
        }
    }
    for path in listed.keys().filter(|path| !derived.contains_key(*path)) {
        checked.complain(path.as_str(), "the study does not refer to it");
    }
    Ok(())
}

/// Returns whether a seal has the derived bytes.
fn seal_entry(root: &Path, path: &BundlePath, derived: &Entry) -> bool {
    path.read(root, SEAL_BYTES)
        .is_ok_and(|bytes| Entry::of_bytes(path, &bytes) == *derived)
}
