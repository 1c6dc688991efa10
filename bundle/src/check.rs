//! Checking a bundle: every byte, the signature, and that lock, records and artifacts agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::archive::files;
use crate::catalogue::Catalogue;
use crate::envelope::Envelope;
use crate::error::BundleError;
use crate::keys::PublicKey;
use crate::layout;
use crate::manifest::{Entry, sha256_of};
use crate::open::Bundle;
use crate::ro_crate::object_digest;
use crate::statement::manifest_digest;

/// Something about a bundle that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Complaint {
    /// The file of the bundle.
    pub path: String,
    /// What does not hold.
    pub what: String,
}

/// How a bundle stands to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// It carries none.
    Unsigned,
    /// It is signed, and no key was given to check it with.
    Unchecked(Vec<String>),
    /// Signed by the key given.
    Good(String),
    /// Not signed by the key given, or forged: a complaint says which.
    Bad,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Files compared with their digests.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Executed cells whose records were read.
    pub cells: usize,
    /// The signature.
    pub signature: Signature,
    /// Everything that does not hold.
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

/// Files over all the others: each is checked by what it says, not by the manifest.
const SEALS: [&str; 4] = [
    layout::MANIFEST,
    layout::STATEMENT,
    layout::ATTESTATION,
    layout::SUMS,
];

/// Checks every file against the manifest, the manifest against statement and signature, and
/// the lock against its records and artifacts.
///
/// # Errors
/// If the directory cannot be listed. What does not hold is a complaint, no error.
pub fn verify(bundle: &Bundle, key: Option<&PublicKey>) -> Result<Checked, BundleError> {
    let mut checked = Checked {
        files: 0,
        bytes: 0,
        cells: 0,
        signature: Signature::Unsigned,
        complaints: Vec::new(),
    };
    compare_files(bundle, &mut checked)?;
    check_seals(bundle, key, &mut checked)?;
    check_study(bundle, &mut checked);
    Ok(checked)
}

fn compare_files(bundle: &Bundle, checked: &mut Checked) -> Result<(), BundleError> {
    let root = bundle.root();
    let there = files(root).map_err(|e| BundleError::Io(root.to_owned(), e))?;
    let listed: BTreeMap<&str, &Entry> = bundle
        .manifest()
        .files
        .iter()
        .map(|f| (f.path.as_str(), f))
        .collect();
    for path in &there {
        if !listed.contains_key(path.as_str()) && !SEALS.contains(&path.as_str()) && !is_ours(path)
        {
            checked.complain(path, "it is not in the manifest: it was added");
        }
    }
    for (path, expected) in listed {
        match Entry::of_file(root, path) {
            Ok(found) => {
                checked.files += 1;
                checked.bytes += found.bytes;
                if found != *expected && object_digest(path) == Some(found.blake3) {
                    checked.complain(
                        path,
                        "its bytes are those of its name, but the manifest says otherwise",
                    );
                } else if found != *expected {
                    let (found, expected) = (found.blake3.short(), expected.blake3.short());
                    checked.complain(path, format!("it was changed: {found} is not {expected}"));
                } else if object_digest(path).is_some_and(|digest| digest != found.blake3) {
                    checked.complain(path, "its name is not the digest of its bytes");
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                checked.complain(path, "it is missing")
            }
            Err(e) => checked.complain(path, format!("it cannot be read: {e}")),
        }
    }
    Ok(())
}

/// Returns whether a file is what commands leave that use the bundle as a project.
fn is_ours(path: &str) -> bool {
    let Some(inside) = path
        .strip_prefix(layout::STORE)
        .and_then(|p| p.strip_prefix('/'))
    else {
        return false;
    };
    inside.starts_with("index.sqlite")
        || inside == "gc.lock"
        || ["tmp/", "holds/", "scratch/", "leases/"]
            .iter()
            .any(|folder| inside.starts_with(folder))
}

fn check_seals(
    bundle: &Bundle,
    key: Option<&PublicKey>,
    checked: &mut Checked,
) -> Result<(), BundleError> {
    let read = |name: &str| match fs::read(bundle.root().join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(BundleError::Io(bundle.root().join(name), e)),
    };
    let manifest = sha256_of(&read(layout::MANIFEST)?.unwrap_or_default());
    let statement = read(layout::STATEMENT)?;
    match statement.as_deref().map(serde_json::from_slice::<Value>) {
        None => checked.complain(layout::STATEMENT, "it is missing"),
        Some(Err(e)) => checked.complain(layout::STATEMENT, format!("it cannot be read: {e}")),
        Some(Ok(value)) if manifest_digest(&value) != Some(manifest.as_str()) => {
            // Which of the two was changed, only a signature could tell.
            let message = format!("it is not the manifest that {} is about", layout::STATEMENT);
            checked.complain(layout::MANIFEST, message);
        }
        Some(Ok(_)) => {}
    }
    sums(bundle, read(layout::SUMS)?, checked);
    let Some(envelope) = read(layout::ATTESTATION)? else {
        if key.is_some() {
            checked.complain(
                layout::ATTESTATION,
                "a key was given to check the signature, but nothing is signed",
            );
        }
        return Ok(());
    };
    let envelope: Envelope = match serde_json::from_slice(&envelope) {
        Ok(envelope) => envelope,
        Err(e) => {
            checked.signature = Signature::Bad;
            checked.complain(layout::ATTESTATION, format!("it cannot be read: {e}"));
            return Ok(());
        }
    };
    if envelope.body().ok() != statement {
        let what = format!("it is not the statement that {} holds", layout::ATTESTATION);
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

/// The sums are for those who have no other tool: they must say what the manifest says.
fn sums(bundle: &Bundle, found: Option<Vec<u8>>, checked: &mut Checked) {
    let Some(found) = found else {
        return checked.complain(layout::SUMS, "it is missing");
    };
    let found = String::from_utf8_lossy(&found).into_owned();
    let lines: BTreeSet<&str> = found.lines().collect();
    let missing = bundle.manifest().files.iter().find(|f| {
        let line = format!("{}  {}", f.sha256, f.path);
        !lines.contains(line.as_str())
    });
    if let Some(file) = missing {
        checked.complain(
            layout::SUMS,
            format!("its line for {} is not what the manifest says", file.path),
        );
    }
}

fn check_study(bundle: &Bundle, checked: &mut Checked) {
    let lock_name = bundle.manifest().lock.clone();
    let lock = match bundle.lock() {
        Ok(lock) => lock,
        Err(error) => return checked.complain(lock_name, error.to_string()),
    };
    let trail = lock.trail();
    if bundle.manifest().trail != trail {
        checked.complain(layout::MANIFEST, "its trail digest is not that of the lock");
    }
    match bundle.study() {
        Ok(study) if study.trail != trail => {
            checked.complain(layout::STUDY, "its trail digest is not that of the lock");
        }
        Ok(_) => {}
        Err(error) => checked.complain(layout::STUDY, error.to_string()),
    }
    let catalogue = bundle
        .store()
        .and_then(|store| Catalogue::read(&lock, &store));
    match catalogue {
        Ok(catalogue) => {
            checked.cells = catalogue.cells.len();
            let listed: BTreeSet<_> = bundle
                .manifest()
                .files
                .iter()
                .filter_map(|f| object_digest(&f.path))
                .collect();
            for (digest, object) in &catalogue.objects {
                if !listed.contains(digest) {
                    checked.complain(
                        layout::object(digest),
                        format!("it is missing: {}", object.what),
                    );
                }
            }
        }
        Err(error) => checked.complain(lock_name, error.to_string()),
    }
}
