//! The report of a run, as files.

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::{Artifact, Experiment, Plan, RunSummary, StudyResult, file_of_output};

use crate::args::RunArgs;
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
    let (mut written, mut names) = (Vec::new(), BTreeSet::new());
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
            let name = one_more(&mut names, &format!("{stem}-{}", result_name(result)));
            path.set_file_name(format!("{name}.md"));
        }
        let outputs = result.outputs.iter();
        if write_report(store, outputs.map(|(name, a)| (name.as_str(), a)), &path)? {
            written.push(path);
        }
    }
    Ok(written)
}

/// Checks that the files that the user names for the report and the event log are two, and that the experiment is read
/// from none of them.
pub(super) fn check_named(experiment: &Experiment, arguments: &RunArgs) -> Result<(), Stop> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let named = [
        ("--report", &arguments.report),
        ("--events", &arguments.events),
    ];
    for (option, file) in named {
        let Some(place) = file.as_deref().and_then(real) else {
            continue;
        };
        let mut sources = experiment.sources.iter().map(|source| &source.path);
        if let Some(source) = sources.find(|source| real(source).as_ref() == Some(&place)) {
            let message = format!(
                "`{option}` would replace {}, from which the experiment is read",
                shown(source)
            );
            return Err(Stop::usage(message).hint("give another file"));
        }
    }
    let absolute = |file: &Option<PathBuf>| {
        file.as_deref()
            .and_then(|file| std::path::absolute(file).ok())
    };
    if let (Some(report), Some(events)) = (absolute(&arguments.report), absolute(&arguments.events))
    {
        // The report's page and tables have its name.
        let of_report = [
            report.clone(),
            report.with_extension("html"),
            report.with_extension("trace.parquet"),
        ];
        if of_report.contains(&events) {
            let message =
                "`--report` and `--events` name the same file, or a file that the report writes";
            return Err(Stop::usage(message).hint("give each its own file"));
        }
    }
    Ok(())
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

/// Adds a name to others. If it is among them, because labels differ only in characters that no file name has, it gets a
/// number.
fn one_more(names: &mut BTreeSet<String>, name: &str) -> String {
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut all = iter::once(name.to_owned()).chain(numbered);
    let free = all.find(|one| !names.contains(one));
    let free = free.expect("there are more numbers than names");
    names.insert(free.clone());
    free
}

fn result_name(result: &StudyResult) -> String {
    let labels: Vec<String> = result
        .coordinates
        .0
        .iter()
        .map(|(_, label)| plain(&label.to_string()))
        .collect();
    iter::once(result.stage.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_reports_have_one_name() {
        let mut names = BTreeSet::new();
        let labels = ["a/b", "a_b", "a b", "a_b-2", "c"];
        let all: Vec<String> = labels
            .iter()
            .map(|label| one_more(&mut names, &format!("report-{}", plain(label))))
            .collect();
        let expected = ["a_b", "a_b-2", "a_b-3", "a_b-2-2", "c"];
        assert_eq!(all, expected.map(|name| format!("report-{name}")));
    }
}
