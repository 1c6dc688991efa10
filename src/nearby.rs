//! What a command could have been given: the experiments and the reports of the working folder, for its hint.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pipeline::lock::is_lock;

use crate::project::Project;
use crate::terminal;

/// The most files that a hint lists.
const LISTED: usize = 4;
/// The most files of a folder that are opened, so that a hint never takes long.
const OPENED: usize = 200;
/// The bytes of a file in which `experiment:` must be.
const BEGINNING: u64 = 16 << 10;

/// Returns a hint for a command without an experiment. Those that run now come first, then those that have run.
pub(crate) fn experiments() -> String {
    let folders = [Path::new("."), Path::new("experiments")];
    let mut paths: Vec<PathBuf> = folders
        .into_iter()
        .flat_map(|folder| files(folder, is_experiment))
        .collect();
    let live = live_locks();
    let locks: Vec<PathBuf> = folders
        .into_iter()
        .flat_map(|folder| files(folder, is_lock))
        .collect();
    paths.sort_by_cached_key(|path| {
        let has = |locks: &[PathBuf]| locks.iter().any(|lock| is_lock_of(lock, path));
        match (has(&live), has(&locks)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    });
    match listed(paths.into_iter()) {
        Some(paths) => format!("the experiments here are {paths}"),
        None => "`benchtrail init` writes an experiment".to_owned(),
    }
}

/// Returns a hint for a command without a report.
pub(crate) fn reports() -> String {
    let folders = ["reports", "experiments/reports"];
    let paths = folders
        .into_iter()
        .flat_map(|folder| reports_in(Path::new(folder)));
    match listed(paths) {
        Some(paths) => format!("the reports here are {paths}"),
        None => "`benchtrail run EXPERIMENT` writes reports".to_owned(),
    }
}

/// Returns the reports in the subfolders of a folder as text; `None` without any.
pub(crate) fn reports_below(folder: &Path) -> Option<String> {
    listed(reports_in(folder).into_iter())
}

fn reports_in(folder: &Path) -> Vec<PathBuf> {
    let studies = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(OPENED);
    let reports = studies.map(|study| study.path().join("report.md"));
    let mut reports: Vec<PathBuf> = reports.filter(|report| report.is_file()).collect();
    reports.sort_unstable();
    reports
}

/// Returns the locks of the live runs of this project but one, as text; `None` without any.
pub(crate) fn other_runs(own: &Path) -> Option<String> {
    let own = own.canonicalize().ok();
    let name = own.as_ref().and_then(|own| own.file_name());
    let is_other = |lock: &PathBuf| match (lock.canonicalize().ok(), &own) {
        (Some(lock), Some(own)) => lock != *own,
        // A first run has not written its lock yet.
        _ => name.is_none() || lock.file_name() != name,
    };
    listed(live_locks().into_iter().filter(is_other))
}

/// Returns the locks that live runs of this project will write.
fn live_locks() -> Vec<PathBuf> {
    let Ok(project) = Project::of(None, None) else {
        return Vec::new();
    };
    if !project.is_ours() || !project.store.join("objects").is_dir() {
        return Vec::new();
    }
    let store = project.open().ok();
    let roots = store.and_then(|store| store.roots().ok());
    let live = |root: &artifacts::Root| root.journals.iter().any(|journal| journal.live);
    let live = roots.unwrap_or_default().into_iter().filter(live);
    live.map(|root| root.file).collect()
}

/// Returns whether a lock is that of an experiment, with or without a profile.
fn is_lock_of(lock: &Path, experiment: &Path) -> bool {
    let stem = experiment.file_stem().and_then(|stem| stem.to_str());
    let name = lock.file_name().and_then(|name| name.to_str());
    let (Some(stem), Some(name)) = (stem, name) else {
        return false;
    };
    let between = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_suffix(".lock"));
    let is_its = between.is_some_and(|profile| {
        profile.is_empty() || profile.strip_prefix('.').is_some_and(|p| !p.contains('.'))
    });
    let folder = |path: &Path| {
        let folder = path.parent()?;
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        folder.canonicalize().ok()
    };
    is_its && folder(lock) == folder(experiment)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_that_of_an_experiment_with_any_profile() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for (lock, is_its) in [
            ("a.lock", true),
            ("a.smoke.lock", true),
            ("a.b.smoke.lock", false),
            ("ab.lock", false),
            ("a.yaml", false),
        ] {
            assert_eq!(is_lock_of(&at(lock), &at("a.yaml")), is_its, "{lock}");
        }
        std::fs::create_dir(at("other")).expect("a folder");
        assert!(!is_lock_of(&at("other/a.lock"), &at("a.yaml")));
    }

    #[test]
    fn the_reports_below_a_folder_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(reports_below(folder.path()), None);
        for study in ["b", "a.smoke"] {
            let report = folder.path().join(study).join("report.md");
            std::fs::create_dir(report.parent().expect("a folder")).expect("writable");
            std::fs::write(report, "").expect("writable");
        }
        let below = reports_below(folder.path()).expect("two reports");
        let at = |name: &str| below.find(name).expect(name);
        assert!(at("a.smoke/report.md`") < at("b/report.md`"), "{below}");
    }
}
