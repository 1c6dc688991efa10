//! The names of a bundle's files.

/// The manifest. Its presence makes a directory a bundle.
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

/// Returns the path of an object.
pub(crate) fn object(digest: &artifacts::Digest) -> String {
    let hex = digest.hex();
    format!("{STORE}/objects/{}/{}", &hex[..2], &hex[2..])
}

/// Returns whether a path in a bundle is reserved for the bundle's own files.
pub(crate) fn is_own(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let report = first.strip_prefix(REPORT).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('-')
                .is_some_and(|n| n.parse::<usize>().is_ok())
    });
    let own = [
        MANIFEST,
        README,
        CITATION,
        RO_CRATE,
        PROV,
        STATEMENT,
        ATTESTATION,
        SUMS,
        STUDY,
        ARTIFACTS,
        STORE,
    ];
    report || own.contains(&first)
}
