//! A folder that `load --out` wrote, as a small study: its rows, imported unchanged, with the summaries, gates and
//! report of any other study.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::lock::Lock;
use pipeline::record::Build;
use pipeline::{RunOptions, RunSummary};

use crate::args::{ExperimentArgs, Global};
use crate::exit::Stop;
use crate::folder::{ROWS, is_load};
use crate::session::Session;

/// The study's file, written into the folder itself.
pub(crate) const FILE: &str = "study.yaml";

/// The prefixes of a sweep's level folders, each with the axis that the rest of the name labels.
const SWEEPS: [(&str, &str); 2] = [("concurrency-", "concurrency"), ("rate-", "request_rate")];

/// Returns whether a path is a folder of a `load` run, or of a sweep's levels.
pub(crate) fn is_one(path: &Path) -> bool {
    is_load(path) || !levels(path).is_empty()
}

/// Returns the levels of a sweep: the axis, the prefix of the folders' names, and the labels in ascending order. Empty
/// if the folder is not from a sweep.
fn levels(folder: &Path) -> Vec<(&'static str, &'static str, String)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut sweep = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        for (start, axis) in SWEEPS {
            let Some(label) = name.strip_prefix(start) else {
                continue;
            };
            if label.parse::<f64>().is_ok() && is_load(&entry.path()) {
                sweep.push((axis, start, label.to_owned()));
            }
        }
    }
    let level = |label: &str| label.parse::<f64>().unwrap_or(f64::INFINITY);
    sweep.sort_by(|a, b| a.0.cmp(b.0).then(level(&a.2).total_cmp(&level(&b.2))));
    // A folder has the levels of one sweep; if there are two, the first is used.
    let first = sweep.first().map(|(axis, _, _)| *axis);
    sweep.retain(|(axis, _, _)| Some(*axis) == first);
    sweep
}

/// Returns the study of a folder as YAML; `base` is the prefix of its files' paths.
fn text(name: &str, folder: &Path, base: &Path) -> String {
    let levels = levels(folder);
    let file = |inside: &str| {
        let path = base.join(inside);
        serde_json::Value::from(path.display().to_string()).to_string()
    };
    let mut text = format!(
        "# The rows of a `benchtrail load --out` run, as a study.\nexperiment: {name}\nseed: 1\n"
    );
    // Labels have one type: if one is `inf`, all are text, which no figure can use as an axis.
    let numbers = levels.iter().all(|(_, _, label)| label != "inf");
    let sweep = levels.first().map(|(axis, start, _)| (*axis, *start));
    if let Some((axis, _)) = sweep {
        let _ = writeln!(text, "question: {}", question(axis));
        let labels = levels.iter().map(|(_, _, label)| match numbers {
            true => label.clone(),
            false => format!("{label:?}"),
        });
        let labels: Vec<String> = labels.collect();
        let _ = writeln!(text, "axes:\n  {axis}: [{}]", labels.join(", "));
    }
    text.push_str("stages:\n  load:\n    kind: load\n");
    let rows = match sweep {
        Some((axis, start)) => {
            let _ = writeln!(text, "    over: [{axis}]");
            file(&format!("{start}${{{axis}}}/{ROWS}"))
        }
        None => file(ROWS),
    };
    let bounds = bounds(&levels.first().map_or_else(
        || folder.to_owned(),
        |(_, start, label)| folder.join(format!("{start}{label}")),
    ));
    let goodput = match &bounds {
        Some(bounds) => format!(
            ", goodput: {{operator: goodput, objectives: [{{name: asked, all: {bounds}}}]}}"
        ),
        None => String::new(),
    };
    let _ = write!(
        text,
        "    import: {{tool: benchtrail, file: {rows}}}\n  \
         checks: {{kind: verify, needs: [load]}}\n  \
         results: {{kind: analyze, needs: [load, checks], tables: {{cells: {{operator: cell-summary}}{goodput}}}}}\n  \
         report:\n    kind: report\n    needs: [load, checks, results]\n"
    );
    if let Some((axis, _)) = sweep.filter(|_| numbers) {
        let unit = if axis == "concurrency" {
            "clients"
        } else {
            "req/s"
        };
        text.push_str("    figures:\n");
        let figures = [
            (
                "throughput",
                "cells",
                "output_throughput",
                "Output throughput over the levels",
                "output throughput (tok/s)",
            ),
            (
                "first_token",
                "cells",
                "ttft_ms_p50",
                "Median time to first token over the levels",
                "time to first token, median (ms)",
            ),
            (
                "answered",
                "goodput",
                "request_throughput",
                "Answered requests over the levels",
                "answered requests (req/s)",
            ),
            (
                "goodput",
                "goodput",
                "goodput",
                "Goodput over the levels",
                "answered requests within the bounds (req/s)",
            ),
        ];
        let shown = figures
            .iter()
            .filter(|(_, table, ..)| *table == "cells" || bounds.is_some());
        for (name, table, column, title, y) in shown {
            let _ = writeln!(
                text,
                "      {name}: {{kind: ladder, table: results.{table}, x: {axis}, y: {column}, title: {title}, \
                 caption: One run per level., x-label: \"{unit}\", y-label: \"{y}\"}}"
            );
        }
    }
    text
}

/// Returns the question that a sweep over an axis answers.
fn question(axis: &str) -> String {
    let what = match axis {
        "concurrency" => "clients",
        _ => "requests per second",
    };
    format!("How do throughput and latency change with the number of {what}?")
}

/// Returns the bounds of a run, in the form of the operator `goodput`.
fn bounds(folder: &Path) -> Option<serde_json::Value> {
    let text = artifacts::regular::read_text(&folder.join("load.json")).ok()?;
    let document: serde_json::Value = serde_json::from_str(&text).ok()?;
    let asked = document["result"]["slo_ms"].as_object()?;
    let metrics = [
        ("ttft", "ttft_ms"),
        ("tpot", "tpot_ms"),
        ("e2e", "e2e_latency_ms"),
        ("ttft_scheduled", "ttft_scheduled_ms"),
        ("e2e_scheduled", "e2e_scheduled_ms"),
    ];
    let bounds: Vec<serde_json::Value> = metrics
        .iter()
        .filter_map(|(name, metric)| {
            let most = asked.get(*name)?.as_f64()?;
            Some(serde_json::json!({"metric": metric, "at-most": most}))
        })
        .collect();
    (!bounds.is_empty()).then_some(serde_json::Value::Array(bounds))
}

/// Returns a valid experiment name based on the folder's name.
fn name_of(folder: &Path) -> String {
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let last = full.file_name().unwrap_or_default().to_string_lossy();
    let kept = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = last
        .chars()
        .map(|c| if kept(c) { c } else { '-' })
        .take(58)
        .collect();
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("load-{name}"),
    }
}

/// Writes the study into the folder unless it already has one, and returns its file.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn write(folder: &Path) -> Result<PathBuf, Stop> {
    let file = folder.join(FILE);
    if !file.exists() {
        std::fs::write(&file, text(&name_of(folder), folder, Path::new("")))
            .map_err(|e| Stop::refused_at(file.display(), &e))?;
    }
    Ok(file)
}

/// The study of a folder, executed in a temporary folder so that the folder itself stays unchanged.
pub(crate) struct Small {
    pub(crate) lock: Lock,
    pub(crate) lock_file: PathBuf,
    pub(crate) store: Store,
    pub(crate) work: tempfile::TempDir,
}

/// Imports and summarizes a folder.
///
/// # Errors
/// If one of its tables cannot be read.
pub(crate) fn open(folder: &Path) -> Result<Small, Stop> {
    let fault = |e: std::io::Error| Stop::refused_at(tempfile::env::temp_dir().display(), &e);
    let work = pipeline::temporary::of_the_system("benchtrail-load");
    let work = work.map_err(fault)?;
    std::fs::create_dir(work.path().join(".benchtrail")).map_err(fault)?;
    let full = std::path::absolute(folder).map_err(fault)?;
    let file = work.path().join(FILE);
    std::fs::write(&file, text("load", &full, &full)).map_err(fault)?;
    let arguments = ExperimentArgs {
        experiment: file.clone(),
        set: Vec::new(),
        profile: None,
        smoke: false,
    };
    let global = Global {
        store: None,
        json: false,
    };
    let session = Session::open(&arguments, &global)?;
    let store = session.project.open()?;
    let options = RunOptions {
        // A failed gate is a result, and the report states what it excludes.
        keep_going: true,
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            describe: None,
        },
        ..RunOptions::default()
    };
    let RunSummary { ledger, .. } = pipeline::run(
        &session.experiment,
        &session.registry,
        &store,
        &options,
        &|_| {},
    )?;
    let broken = ledger
        .iter()
        .find(|line| line.stage == "load" && line.status != pipeline::CellStatus::Ok);
    if let Some(line) = broken {
        let reason = line.reason.as_deref().unwrap_or("it cannot be read");
        return Err(Stop::failed(format!("{}: {reason}", folder.display())));
    }
    let lock_file = file.with_extension("lock");
    let lock = Lock::read(&lock_file).map_err(Stop::failed)?;
    let lock = lock.ok_or_else(|| Stop::failed(format!("{}: no lock", folder.display())))?;
    Ok(Small {
        lock,
        lock_file,
        store,
        work,
    })
}
