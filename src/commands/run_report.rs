//! The report of a run, as files.

use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::{Artifact, Plan, RunSummary, StudyResult, file_of_output};

use crate::exit::Stop;
use crate::project::shown;
use crate::session::Session;
use crate::whole_file;

/// Writes each report next to its figures and its trace, and returns the paths.
pub(super) fn write_reports(
    session: &Session,
    store: &Store,
    summary: &RunSummary,
    file: Option<&Path>,
) -> Result<Vec<PathBuf>, Stop> {
    let experiment = &session.experiment;
    let mut written = Vec::new();
    for result in &summary.results {
        let default = || {
            session
                .project
                .report_file(&experiment.name, experiment.profile.as_deref())
        };
        let mut path = file.map_or_else(default, Path::to_owned);
        if summary.results.len() > 1 {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            path.set_file_name(format!("{stem}-{}.md", result_name(result)));
        }
        let outputs = result.outputs.iter();
        if write_report(store, outputs.map(|(name, a)| (name.as_str(), a)), &path)? {
            written.push(path);
        }
    }
    Ok(written)
}

/// Checks that the report and the event log of a run stay in the project. A project from elsewhere may have links or
/// FIFOs in their place.
pub(super) fn check_place(session: &Session) -> Result<(), Stop> {
    let (project, experiment) = (&session.project, &session.experiment);
    let report = project.report_file(&experiment.name, experiment.profile.as_deref());
    let folder = report.parent().unwrap_or(&project.root);
    let inside = |place: &Path| {
        let (root, place) = (fs::canonicalize(&project.root), fs::canonicalize(place));
        root.is_ok_and(|root| place.is_ok_and(|place| place.starts_with(root)))
    };
    let own = |place: &&Path| **place != project.root;
    for place in folder.ancestors().take_while(own) {
        if fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink()) && !inside(place)
        {
            return Err(elsewhere(place, "a symbolic link out of the project"));
        }
    }
    check_files(folder)
}

/// Checks that a folder contains only regular files, also in its folders.
fn check_files(folder: &Path) -> Result<(), Stop> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            check_files(&entry.path())?;
        } else if !kind.is_file() {
            return Err(elsewhere(&entry.path(), "not a regular file"));
        }
    }
    Ok(())
}

fn elsewhere(place: &Path, what: &str) -> Stop {
    let place = shown(place);
    Stop::usage(format!(
        "{place} is {what}, and a run would write its report there"
    ))
    .hint(format!("remove it: `rm {place}`"))
}

/// Writes the page of a study that cannot be measured here; returns its path.
pub(super) fn write_not_run(session: &Session, plan: &Plan) -> Result<Option<PathBuf>, Stop> {
    let experiment = &session.experiment;
    let Some(page) = pipeline::not_run(experiment, plan, &session.registry) else {
        return Ok(None);
    };
    let report = session
        .project
        .report_file(&experiment.name, experiment.profile.as_deref());
    let file = report.with_file_name("not-run.md");
    let written = file.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| whole_file::write(&file, page.as_bytes()))
        .map_err(|e| Stop::refused_at(file.display(), &e))?;
    Ok(Some(file))
}

fn result_name(result: &StudyResult) -> String {
    let labels: Vec<String> = result
        .coordinates
        .0
        .iter()
        .map(|(_, label)| plain(&label.to_string()))
        .collect();
    std::iter::once(result.stage.clone())
        .chain(labels)
        .collect::<Vec<_>>()
        .join("-")
}

/// Returns a label as part of a file name: every character except letters, digits, `-`, `_` and `.` becomes `_`,
/// because a label may contain anything, even a path.
pub(super) fn plain(label: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    label
        .chars()
        .map(|c| if kept(c) { c } else { '_' })
        .collect()
}

/// Writes one report: `NAME.md`, `NAME.trace.parquet`, `NAME.statements.parquet` and its other tables in the same way,
/// and every other output under its name. Returns false if the outputs contain no report.
pub(super) fn write_report<'a>(
    store: &Store,
    outputs: impl Iterator<Item = (&'a str, &'a Artifact)> + Clone,
    path: &Path,
) -> Result<bool, Stop> {
    if !outputs.clone().any(|(name, _)| name == "report") {
        return Ok(false);
    }
    for (name, artifact) in outputs {
        let target = file_of_output(path, name, artifact.media);
        let bytes = store.get(&artifact.digest)?;
        let fault = |e: std::io::Error| Stop::refused_at(target.display(), &e);
        fs::create_dir_all(target.parent().expect("a file lies in a folder")).map_err(fault)?;
        if fs::read(&target).ok().as_deref() != Some(bytes.as_slice()) {
            whole_file::write(&target, &bytes).map_err(fault)?;
        }
    }
    Ok(true)
}

/// Returns the path of a report's trace: next to the report.
pub(super) fn trace_file(report: &Path) -> PathBuf {
    report.with_extension("trace.parquet")
}
