//! A finished study as a directory (or archive) that others can check on their own.
//!
//! ```text
//! README.md                  what this is and how to check it
//! CITATION.cff               how to cite it
//! ro-crate-metadata.json     a Workflow Run RO-Crate: every file, cell and artifact
//! prov.json                  the same history as W3C PROV-JSON
//! manifest.json              BLAKE3 and SHA-256 of every other file
//! statement.json             an in-toto statement with SLSA provenance over the manifest
//! SHA256SUMS                 for those who have no other tool than sha256sum
//! attestation.dsse.json      the statement in a signed DSSE envelope, if a key was given
//! NAME.yaml, NAME.lock       the experiment and its lock, with the definitions and files it reads
//! study.json                 what the report's stage saw of the study
//! artifacts.tsv              every artifact: stage, cell, output, digest, file
//! report/                    the report, its trace and its figures
//! store/objects/             every record and artifact that the lock reaches
//! ```
//!
//! [`publish`] writes it, [`Bundle`] opens it, and [`verify`] checks it. All bytes are a function
//! of the study and the options: publishing twice gives the same bundle.

mod archive;
mod catalogue;
mod check;
mod citation;
mod envelope;
mod error;
mod keys;
mod layout;
mod manifest;
mod open;
mod place;
mod prov;
mod publication;
mod publish;
mod ro_crate;
mod secrets;
mod sources;
mod statement;

pub use archive::{manifest_of, pack};
pub use check::{Checked, Complaint, Signature, verify};

pub use error::BundleError;
pub use keys::{KeyPair, PublicKey, generate};
pub use layout::MANIFEST;
pub use manifest::{Colophon, Entry, Manifest};
pub use open::{Bundle, open_store};
pub use place::{BundlePath, PlaceError};
pub use publication::Publication;
pub use publish::{Published, publish};
pub use secrets::{RULES, Rule, SecretFinding, keys_named};
pub use sources::{LeftOut, Sources};
