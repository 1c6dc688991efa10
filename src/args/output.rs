//! Paths of files that commands write.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Reads the path of a file to write. An experiment, a definition or a lock is refused in its place: it would be lost.
pub(super) fn parse_output() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(apart)
}

/// Reads the path of a report to write, which is Markdown.
pub(super) fn parse_report() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| match has_ending(&file, &["html"]) {
        true => Err(format!(
            "the page of the report takes this name; name the report itself: {}",
            file.with_extension("md").display()
        )),
        false => apart(file),
    })
}

fn apart(file: PathBuf) -> Result<PathBuf, String> {
    const SOURCES: [&str; 3] = ["yaml", "yml", "lock"];
    if file.is_dir() {
        return Err("this is a folder; give a file in it".to_owned());
    }
    // A link is followed.
    let target = fs::canonicalize(&file);
    let is_source = |place: &PathBuf| has_ending(place, &SOURCES);
    match is_source(&file) || target.as_ref().is_ok_and(is_source) {
        true => Err(
            "this is the name of an experiment, a definition or a lock; give the file that is written another ending"
                .to_owned(),
        ),
        false => Ok(file),
    }
}

fn has_ending(file: &Path, endings: &[&str]) -> bool {
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    endings.iter().any(|one| ending.eq_ignore_ascii_case(one))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_output_takes_the_place_of_no_experiment_and_no_lock() {
        for name in ["s.yaml", "a/s.YML", "s.lock", "s.smoke.lock"] {
            assert!(apart(name.into()).is_err(), "{name}");
        }
        for name in ["r.md", "r", "events.jsonl", "yaml", ".lock.md", "/dev/null"] {
            assert!(apart(name.into()).is_ok(), "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("s.yaml"), folder.path().join("r.md"));
        fs::write(&file, "experiment: s").unwrap();
        symlink(&file, &link).unwrap();
        assert!(apart(link).is_err());
        assert!(apart(folder.path().to_owned()).is_err());
    }
}
