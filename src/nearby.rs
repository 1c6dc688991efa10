//! What a command could have been given: the experiments and the reports of the working folder, for its hint.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::terminal;

/// The most files that a hint lists.
const LISTED: usize = 4;
/// The most files of a folder that are opened, so that a hint never takes long.
const OPENED: usize = 200;
/// The bytes of a file in which `experiment:` must be.
const BEGINNING: u64 = 16 << 10;

/// Returns a hint for a command without an experiment.
pub(crate) fn experiments() -> String {
    let folders = [Path::new("."), Path::new("experiments")];
    let paths = folders
        .into_iter()
        .flat_map(|folder| files(folder, is_experiment));
    match listed(paths) {
        Some(paths) => format!("the experiments here are {paths}"),
        None => "`benchtrail init` writes an experiment".to_owned(),
    }
}

/// Returns a hint for a command without a report.
pub(crate) fn reports() -> String {
    let paths = ["reports", "experiments/reports"]
        .into_iter()
        .flat_map(|folder| {
            let studies = std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .take(OPENED);
            let reports = studies.map(|study| study.path().join("report.md"));
            let mut reports: Vec<PathBuf> = reports.filter(|report| report.is_file()).collect();
            reports.sort_unstable();
            reports
        });
    match listed(paths) {
        Some(paths) => format!("the reports here are {paths}"),
        None => "`benchtrail run EXPERIMENT` writes reports".to_owned(),
    }
}

/// Returns the regular files of a folder that fulfil a condition, sorted.
fn files(folder: &Path, is: fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(OPENED).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file() && is(path)).collect();
    paths.sort_unstable();
    paths
}

fn is_experiment(path: &Path) -> bool {
    if path.extension().is_none_or(|end| end != "yaml") {
        return false;
    }
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let text = String::from_utf8_lossy(&beginning);
    read.is_ok() && text.lines().any(|line| line.starts_with("experiment:"))
}

/// Returns the first paths as text; `None` without any.
fn listed(paths: impl Iterator<Item = PathBuf>) -> Option<String> {
    let paths: Vec<PathBuf> = paths.collect();
    let name = |path: &PathBuf| {
        let path = path.strip_prefix(".").unwrap_or(path);
        format!("`{}`", terminal::in_line(&path.display().to_string()))
    };
    let mut text = paths
        .iter()
        .take(LISTED)
        .map(name)
        .collect::<Vec<_>>()
        .join(", ");
    if paths.len() > LISTED {
        text += &format!(" and {} more", paths.len() - LISTED);
    }
    (!paths.is_empty()).then_some(text)
}
