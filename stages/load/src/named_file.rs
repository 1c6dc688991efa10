//! Reading a file that a workload or an arrival process names.

use artifacts::Digest;
use pipeline::sources::NamedFiles;

/// Reads a file by its path or, once pinned, by its digest; returns its path, bytes and digest.
///
/// # Errors
/// One sentence, if it cannot be read or has changed.
pub(crate) fn read(
    what: &str,
    file: &str,
    digest: Option<&str>,
    files: &NamedFiles,
) -> Result<(String, Vec<u8>, String), String> {
    if let (true, Some(digest)) = (file.is_empty(), digest) {
        let (source, bytes) = files
            .read(digest)
            .map_err(|e| format!("{what} {}", e.message))?;
        return Ok((source.path.display().to_string(), bytes, digest.to_owned()));
    }
    let bytes =
        artifacts::regular::read(file.as_ref()).map_err(|e| format!("{what} {file}: {e}"))?;
    let actual = Digest::of(&bytes).to_string();
    match digest.filter(|digest| *digest != actual) {
        Some(digest) => Err(format!(
            "{what} {file} has changed: expected {digest}, found {actual}"
        )),
        None => Ok((file.to_owned(), bytes, actual)),
    }
}
