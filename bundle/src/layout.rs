//! The names of a bundle's files.

/// The manifest: what makes a directory a bundle.
pub const MANIFEST: &str = "manifest.json";
pub(crate) const README: &str = "README.md";
pub(crate) const CITATION: &str = "CITATION.cff";
pub(crate) const RO_CRATE: &str = "ro-crate-metadata.json";
pub(crate) const PROV: &str = "prov.json";
pub(crate) const STATEMENT: &str = "statement.json";
pub(crate) const ATTESTATION: &str = "attestation.dsse.json";
pub(crate) const SUMS: &str = "SHA256SUMS";
pub(crate) const STUDY: &str = "study.json";
pub(crate) const ARTIFACTS: &str = "artifacts.tsv";
pub(crate) const REPORT: &str = "report";
pub(crate) const STORE: &str = "store";

/// Returns where an object lies.
pub(crate) fn object(digest: &artifacts::Digest) -> String {
    let hex = digest.hex();
    format!("{STORE}/objects/{}/{}", &hex[..2], &hex[2..])
}
