//! `report`: writes the report of a finished study again, or the first report of a `load --out` folder.

use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::CellStatus;
use pipeline::record::Record;
use serde_json::json;

use super::run;
use super::run_report::{plain, write_report};
use super::run_summary::pages;
use crate::args::{ExperimentArgs, Global, ReportArgs, RunArgs};
use crate::cells::read_record;
use crate::exit::Stop;
use crate::project::{report_file, shown};
use crate::small;
use crate::study::{Kept, Study};
use crate::terminal::say;

pub(super) fn report(arguments: &ReportArgs, global: &Global) -> Result<(), Stop> {
    let what = &arguments.study;
    if small::is_one(what) {
        return of_folder(arguments, global);
    }
    let profile = match arguments.smoke {
        true => Some("smoke"),
        false => arguments.profile.as_deref(),
    };
    let study = Study::open(what, profile, global)?;
    let written = write_again(&study, arguments.out.as_deref())?;
    if written.is_empty() {
        return Err(
            Stop::nothing(format!("{} has no finished report", study.name))
                .hint("a stage of kind `report` renders one; `benchtrail status` shows its state"),
        );
    }
    if global.json {
        say(&json!({ "reports": written }).to_string());
    } else {
        written.iter().for_each(|report| say(&shown(report)));
        pages(&written);
    }
    Ok(())
}

/// Writes a study of the rows into their folder and runs it there, so that `why` and `explore` find what they need.
fn of_folder(arguments: &ReportArgs, global: &Global) -> Result<(), Stop> {
    let folder = &arguments.study;
    let report = arguments.out.clone();
    let run = RunArgs {
        experiment: ExperimentArgs {
            experiment: small::write(folder)?,
            set: Vec::new(),
            profile: None,
            smoke: false,
        },
        // The report is written even if gates fail, and names what they exclude.
        keep_going: true,
        report: Some(report.unwrap_or_else(|| folder.join("report.md"))),
        no_dry_run: true,
        quiet: true,
        ..RunArgs::default()
    };
    run::run(&run, global)
}

/// Returns where a study's report is by default: where a run writes it. That of a bundle is in the current folder.
fn default_file(study: &Study) -> PathBuf {
    let profile = study.lock.profile.as_deref();
    let folder = match (&study.kept, std::env::current_dir()) {
        (Kept::Project { .. }, Ok(here)) => {
            let root = study.root.strip_prefix(&here);
            root.map_or_else(|_| study.root.clone(), Path::to_owned)
        }
        _ => PathBuf::new(),
    };
    // A lock from elsewhere may have any text as a name, even a path.
    let name = |text: &str| plain(text).trim_start_matches('.').to_owned();
    report_file(
        &folder,
        &name(&study.lock.experiment),
        profile.map(name).as_deref(),
    )
}

/// Returns whether a file is there that is not this report.
fn is_another(store: &Store, record: &Record, path: &Path) -> Result<bool, Stop> {
    let Some(report) = record.outputs.get("report") else {
        return Ok(false);
    };
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes != store.get(&report.digest)?),
        Err(e) => Ok(e.kind() != std::io::ErrorKind::NotFound),
    }
}

/// Writes the reports that a lock names, and returns their paths.
fn write_again(study: &Study, out: Option<&Path>) -> Result<Vec<PathBuf>, Stop> {
    let mut reports = Vec::new();
    for stage in &study.lock.stages {
        for cell in stage.cells.iter().filter(|c| c.status == CellStatus::Ok) {
            let record = read_record(&study.store, &stage.name, cell)?;
            if record.outputs.contains_key("report") && record.outputs.contains_key("trace") {
                reports.push((stage, cell, record));
            }
        }
    }
    let several = reports.len() > 1;
    let mut written = Vec::new();
    for (i, (stage, _, record)) in reports.iter().enumerate() {
        let mut path = out.map_or_else(|| default_file(study), Path::to_owned);
        if several {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("{stem}-{}-{}.md", stage.name, i + 1);
            path.set_file_name(name);
        }
        if out.is_none() && is_another(&study.store, record, &path)? {
            let message = format!("{} is there, and it is another report", shown(&path));
            return Err(Stop::usage(message)
                .hint("choose another file with `--out FOLDER/report.md`, or remove this one"));
        }
        let outputs = record
            .outputs
            .iter()
            .map(|(name, artifact)| (name.as_str(), artifact));
        if write_report(&study.store, outputs, &path)? {
            written.push(path);
        }
    }
    Ok(written)
}
