//! Finds a result file and its digest.

use std::path::{Path, PathBuf};

use artifacts::FileDigest;
use pipeline::sources::{NamedFile, Unusable, unread};
use pipeline::stage::Library;

/// The largest file that is read. Files are parsed in memory, which takes several times their size.
pub(crate) const LARGEST: u64 = 1 << 30;

/// Finds a file and returns its path and digest.
///
/// # Errors
/// If no file matches, several match, it is too large, or it cannot be read.
pub(crate) fn find(pattern: &str, library: &dyn Library) -> Result<(PathBuf, String), Unusable> {
    let path = resolve(pattern, library)?;
    check(pattern, &path)?;
    let wrong = |e: std::io::Error| unread(pattern, &path, &e);
    let FileDigest { digest, stamp } = library.digest(&path).map_err(wrong)?;
    let name = match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Path::new(pattern)
            .with_file_name(name)
            .display()
            .to_string(),
        None => pattern.to_owned(),
    };
    library.reads(&NamedFile {
        path: path.clone(),
        name,
        digest,
        stamp,
        sent: None,
    });
    Ok((path, digest.to_string()))
}

fn unusable(message: String, hint: &str) -> Unusable {
    Unusable {
        message,
        hint: hint.to_owned(),
    }
}

/// Checks whether a file can be imported, before reading its content.
fn check(pattern: &str, path: &Path) -> Result<(), Unusable> {
    let wrong = |e: std::io::Error| unread(pattern, path, &e);
    let metadata = std::fs::metadata(path).map_err(wrong)?;
    if metadata.is_dir() {
        return Err(unusable(
            format!("{} is a folder", path.display()),
            "name the file in this folder; `*` matches any text in its name",
        ));
    }
    if metadata.len() > LARGEST {
        return Err(unusable(
            format!(
                "{} has {} MiB; the limit is {} MiB",
                path.display(),
                metadata.len() >> 20,
                LARGEST >> 20
            ),
            "save it without generated texts, or write its requests as a Parquet file and import that with \
             `tool: parquet`",
        ));
    }
    Ok(())
}

/// Returns the one file that matches a pattern: `*` in the last part matches any text.
fn resolve(pattern: &str, library: &dyn Library) -> Result<PathBuf, Unusable> {
    let path = library.path(pattern);
    if !pattern.contains('*') {
        return Ok(path);
    }
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    if Path::new(pattern)
        .parent()
        .is_some_and(|p| p.to_string_lossy().contains('*'))
    {
        return Err(unusable(
            format!("`*` in the folder of {pattern}"),
            "use `*` only in the file's name; a folder may contain `${axis}`",
        ));
    }
    let entries = std::fs::read_dir(folder).map_err(|e| unread(pattern, folder, &e))?;
    let mut matching = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| unread(pattern, folder, &e))?;
        if fits(&name, &entry.file_name().to_string_lossy()) {
            matching.push(entry.path());
        }
    }
    matching.sort();
    match matching.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(unusable(
            format!("no file matches {}", path.display()),
            "correct the name; paths are relative to the experiment's folder",
        )),
        several => {
            let names: Vec<String> = several
                .iter()
                .take(4)
                .map(|p| p.display().to_string())
                .collect();
            let more = if several.len() > 4 { ", …" } else { "" };
            Err(unusable(
                format!(
                    "{} files match {pattern}: {}{more}",
                    several.len(),
                    names.join(", ")
                ),
                "a cell imports one file; name it more precisely, or make the differing part an axis",
            ))
        }
    }
}

/// Returns whether a name matches a pattern in which `*` matches any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
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
    use artifacts::Digest;
    use pipeline::Json;
    use pipeline::sources::NamedFiles;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Here(RefCell<Vec<NamedFile>>);

    impl Library for Here {
        fn find(&self, _: &str, _: &str) -> Option<Json> {
            None
        }

        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }

        fn reads(&self, source: &NamedFile) {
            self.0.borrow_mut().push(source.clone());
        }
    }

    fn find(pattern: &str) -> Result<(PathBuf, String), Unusable> {
        super::find(pattern, &Here::default())
    }

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
        let Unusable { message, .. } = find(&pattern("c4-*.json")).unwrap_err();
        assert!(
            message.starts_with("2 files match") && message.contains("c4-b.json"),
            "{message}"
        );
        assert!(
            find(&pattern("c16*.json"))
                .unwrap_err()
                .message
                .starts_with("no file matches")
        );
        let here = Here::default();
        let (path, digest) = super::find(&pattern("c8*.json"), &here).unwrap();
        assert_eq!(digest, Digest::of(b"c8.json").to_string());
        let files = NamedFiles::new(here.0.into_inner(), Path::new(""), None);
        let (source, bytes) = files.read(&digest).unwrap();
        assert_eq!((source.path, bytes), (path.clone(), b"c8.json".to_vec()));
        std::fs::write(&path, "other").unwrap();
        assert!(
            files
                .read(&digest)
                .unwrap_err()
                .message
                .contains("has changed")
        );
    }

    #[test]
    fn a_file_of_two_gigabytes_is_refused_before_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(2 << 30).unwrap();
        let Unusable { message, hint } = find(file.path().to_str().unwrap()).unwrap_err();
        assert!(
            message.contains("2048 MiB") && hint.contains("Parquet"),
            "{message}"
        );
    }
}
