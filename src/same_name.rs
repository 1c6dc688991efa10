//! Detects two experiments of one name, which write their reports to the same place.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::project::Project;

/// The most bytes read from an event log's first line, which names every cell.
const FIRST_LINE: u64 = 64 << 20;

/// Returns the other experiment whose run wrote the event log at `events`, if that experiment still exists. Its report
/// is next to the log, and the run of `experiment` is about to replace it.
pub(crate) fn other(events: &Path, experiment: &Path) -> Option<PathBuf> {
    let mut line = String::new();
    let log = File::open(events).ok()?.take(FIRST_LINE);
    BufReader::new(log).read_line(&mut line).ok()?;
    let began: Value = serde_json::from_str(&line).ok()?;
    let before = PathBuf::from(began["file"].as_str()?);
    // If the file has been renamed since, nothing is replaced.
    let there = before.canonicalize().ok()?;
    let here = experiment.canonicalize().ok()?;
    // A copied project has the log of the one that it was copied from, whose report is elsewhere.
    let root = |file: &Path| Project::of(Some(file), None).ok()?.root.canonicalize().ok();
    (there != here && root(&there)? == root(&here)?).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_file_that_is_still_there_is_another_experiment() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a.yaml", "b.yaml"] {
            std::fs::write(at(name), "").unwrap();
        }
        let log = at("events.jsonl");
        assert_eq!(other(&log, &at("a.yaml")), None);
        let line = serde_json::json!({"event": "run-began", "file": at("b.yaml")});
        std::fs::write(&log, format!("{line}\n{{}}\n")).unwrap();
        assert_eq!(other(&log, &at("b.yaml")), None);
        assert_eq!(other(&log, &at("a.yaml")), Some(at("b.yaml")));
        // The log came here with a copy of the other project.
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(at("b.yaml"), copy.path().join("b.yaml")).unwrap();
        assert_eq!(other(&log, &copy.path().join("b.yaml")), None);
        std::fs::remove_file(at("b.yaml")).unwrap();
        assert_eq!(other(&log, &at("a.yaml")), None);
        std::fs::write(&log, "no JSON").unwrap();
        assert_eq!(other(&log, &at("a.yaml")), None);
    }
}
