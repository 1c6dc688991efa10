//! Finding a result file, its digest, and its bytes again when the cell executes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use artifacts::Digest;

/// The largest file read. A file is taken apart in memory, which costs several times its size.
pub(crate) const LARGEST: u64 = 1 << 30;

/// Where the bytes of a digest were seen while planning. Parameters hold the digest alone, so
/// that moving a file changes no key; this leads back to the file within the process.
static SEEN: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// What is wrong with a file, and what to do.
pub(crate) type Wrong = (String, String);

/// Finds a file and returns its path and digest.
///
/// # Errors
/// If no file fits, several do, it is too large, or it cannot be read.
pub(crate) fn find(pattern: &str) -> Result<(PathBuf, String), Wrong> {
    let path = resolve(pattern)?;
    let digest = Digest::of(&read(&path)?).to_string();
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(digest.clone(), path.clone());
    Ok((path, digest))
}

/// Returns the path and the bytes that had a digest while planning.
///
/// # Errors
/// If the file is gone or has changed since.
pub(crate) fn bytes_of(digest: &str) -> Result<(PathBuf, Vec<u8>), Wrong> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
    let path = seen.ok_or_else(|| {
        (
            format!("no file with the digest {digest} was found while planning"),
            "name the file with `file:`".to_owned(),
        )
    })?;
    let bytes = read(&path)?;
    if Digest::of(&bytes).to_string() == digest {
        Ok((path, bytes))
    } else {
        Err((format!("{} has changed since the plan was made", path.display()), "run again".to_owned()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Wrong> {
    let wrong = |e: std::io::Error| (format!("{}: {e}", path.display()), reading_hint(&e));
    let metadata = std::fs::metadata(path).map_err(wrong)?;
    if metadata.is_dir() {
        return Err((
            format!("{} is a folder", path.display()),
            "name the file in it; `*` stands for any text of its name".to_owned(),
        ));
    }
    if metadata.len() > LARGEST {
        return Err((
            format!(
                "{} has {} MiB, more than the {} MiB that are read",
                path.display(),
                metadata.len() >> 20,
                LARGEST >> 20
            ),
            "save it without generated texts, or write its requests as a Parquet file and import that with \
             `tool: parquet`"
                .to_owned(),
        ));
    }
    std::fs::read(path).map_err(wrong)
}

fn reading_hint(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            let here = std::env::current_dir().unwrap_or_default();
            format!("paths are relative to the working directory, {}", here.display())
        }
        _ => "make the file readable".to_owned(),
    }
}

/// Returns the one file a pattern names: `*` in the last part stands for any text.
fn resolve(pattern: &str) -> Result<PathBuf, Wrong> {
    let path = Path::new(pattern);
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if !pattern.contains('*') {
        return Ok(path.to_owned());
    }
    if folder.to_string_lossy().contains('*') {
        return Err((
            format!("`*` in the folder of {pattern}"),
            "use `*` in the file's name alone; a folder may hold `${axis}`".to_owned(),
        ));
    }
    let entries =
        std::fs::read_dir(folder).map_err(|e| (format!("{}: {e}", folder.display()), reading_hint(&e)))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| (format!("{}: {e}", folder.display()), reading_hint(&e)))?;
        if fits(&name, &entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    found.sort();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err((
            format!("no file fits {pattern}"),
            format!(
                "paths are relative to the working directory, {}",
                std::env::current_dir().unwrap_or_default().display()
            ),
        )),
        several => {
            let names: Vec<String> = several.iter().take(4).map(|p| p.display().to_string()).collect();
            let more = if several.len() > 4 { ", …" } else { "" };
            Err((
                format!("{} files fit {pattern}: {}{more}", several.len(), names.join(", ")),
                "a cell takes one file: name it more closely, or put what tells them apart on an axis"
                    .to_owned(),
            ))
        }
    }
}

/// Tells whether a name fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("vllm-c4-*.json", "vllm-c4-2026.json", true),
            ("vllm-c4-*.json", "vllm-c40-2026.json", false),
            ("*-c4-*.json", "a-c4-b-c4-.json", true),
            ("*", "anything", true),
            ("a*a", "a", false),
            ("plain", "plain", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_that_fits_two_files_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["c4-a.json", "c4-b.json", "c8.json"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let pattern = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (message, _) = find(&pattern("c4-*.json")).unwrap_err();
        assert!(message.starts_with("2 files fit") && message.contains("c4-b.json"), "{message}");
        assert!(find(&pattern("c16*.json")).unwrap_err().0.starts_with("no file fits"));
        let (path, digest) = find(&pattern("c8*.json")).unwrap();
        assert_eq!(digest, Digest::of(b"c8.json").to_string());
        assert_eq!(bytes_of(&digest).unwrap(), (path.clone(), b"c8.json".to_vec()));
        std::fs::write(&path, "other").unwrap();
        assert!(bytes_of(&digest).unwrap_err().0.contains("has changed"));
    }

    #[test]
    fn a_file_of_two_gigabytes_is_refused_before_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(2 << 30).unwrap();
        let (message, hint) = find(file.path().to_str().unwrap()).unwrap_err();
        assert!(message.contains("2048 MiB") && hint.contains("Parquet"), "{message}");
    }
}
