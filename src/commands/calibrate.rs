//! `calibrate`: the load generator against a server of known timing, on this machine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use load::calibrate::{Calibration, Grid, Launcher, Measured, calibrate};
use load::{Calibrate, Origin, Span};
use pipeline::stage::{Control, Coordinates, Library, StageKind};
use serde_json::{Value, json};

use super::run::listen_for_signals;
use crate::args::{CalibrateArgs, Global};
use crate::exit::Stop;
use crate::terminal::{columns, complain, is_watched, say};

pub(super) fn run(arguments: &CalibrateArgs, global: &Global) -> Result<(), Stop> {
    let grid = grid(arguments)?;
    if let Some(folder) = &arguments.out {
        make_folder(folder)?;
    }
    let launcher = Launcher::own().map_err(|e| Stop::machine(format!("this program's file: {e}")))?;
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let points = grid.points().len() as u64;
    let quiet = arguments.quiet || global.json;
    let bar = bar(points, quiet);
    if !quiet && !is_watched() {
        complain(&format!("{points} grid points, about {} each …", grid.duration));
    }
    let shown = bar.clone();
    let control =
        Control::new(cancelled.clone(), None, Box::new(move |progress| shown.set_position(progress.done)));
    let origin = Origin { seed: arguments.seed, replicate: Coordinates::default() };
    let calibration = calibrate(&grid, &launcher, &origin, &control);
    bar.finish_and_clear();
    let calibration = match calibration {
        Err(_) if cancelled.load(Ordering::Relaxed) => return Err(Stop::interrupted()),
        other => other.map_err(Stop::failed)?,
    };
    if let Some(folder) = &arguments.out {
        write(folder, &calibration)?;
    }
    if global.json {
        say(&json_of(&calibration).to_string());
    } else {
        say(&table_of(&grid, &calibration));
    }
    if calibration.covered().is_some() {
        Ok(())
    } else {
        Err(Stop::failed("no point of the grid keeps the bound: nothing is covered")
            .hint("measure while the machine is idle, or declare another --bound"))
    }
}

/// Returns the grid asked for, checked as a stage's settings are.
fn grid(arguments: &CalibrateArgs) -> Result<Grid, Stop> {
    struct NoLibrary;
    impl Library for NoLibrary {
        fn find(&self, _: &str, _: &str) -> Option<Value> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
    let mut grid = if arguments.quick { Grid::quick() } else { Grid::default() };
    // Whoever names one kind of load gets that and no other.
    if !(arguments.concurrency.is_empty() && arguments.rate.is_empty()) {
        grid.concurrency.clone_from(&arguments.concurrency);
        grid.rate.clone_from(&arguments.rate);
    }
    let span = |text: &str| Span::parse(text).map_err(Stop::usage);
    if !arguments.gap.is_empty() {
        grid.gap = arguments.gap.iter().map(|text| span(text)).collect::<Result<_, _>>()?;
    }
    if let Some(text) = &arguments.duration {
        grid.duration = span(text)?;
    }
    if let Some((p50, p99)) = &arguments.bound {
        (grid.bound.p50, grid.bound.p99) = (span(p50)?, span(p99)?);
    }
    Calibrate::default().canonical(&json!(grid), &NoLibrary).map_err(|problems| {
        let all: Vec<String> = problems.into_iter().map(|p| p.message).collect();
        Stop::usage(all.join("\nerror: "))
    })?;
    Ok(grid)
}

fn bar(points: u64, quiet: bool) -> ProgressBar {
    if quiet || !is_watched() {
        return ProgressBar::hidden();
    }
    let template = "{bar:30} {pos} of {len} grid points  {elapsed} elapsed";
    ProgressBar::new(points)
        .with_style(ProgressStyle::with_template(template).expect("the template is right"))
}

/// Makes the folder before anything is measured; an earlier calibration is not replaced.
fn make_folder(folder: &Path) -> Result<(), Stop> {
    let there = folder.join("calibration.parquet");
    if there.exists() {
        return Err(
            Stop::usage(format!("{} is there already", there.display())).hint("give --out another folder")
        );
    }
    fs::create_dir_all(folder).map_err(|e| Stop::machine(format!("{}: {e}", folder.display())))
}

fn write(folder: &Path, calibration: &Calibration) -> Result<(), Stop> {
    let put = |name: &str, bytes: Vec<u8>| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|e| Stop::machine(format!("{}: {e}", path.display())))
    };
    put("calibration.parquet", calibration.table()?.to_parquet()?)?;
    let instrument = serde_json::to_vec_pretty(&calibration.instrument()).map_err(Stop::failed)?;
    put("instrument.json", instrument)
}

fn load_of(point: &Measured) -> String {
    match (point.point.concurrency, point.point.rate) {
        (Some(1), _) => "1 client".to_owned(),
        (Some(clients), _) => format!("{clients} clients"),
        (None, rate) => format!("{} req/s", rate.unwrap_or_default()),
    }
}

fn table_of(grid: &Grid, calibration: &Calibration) -> String {
    let host = &calibration.host;
    let model = host.cpu_model.as_deref().unwrap_or("an unknown processor");
    let cores = host.cpu_count.unwrap_or_default();
    let mut text = format!(
        "{model}, {cores} cores; first token after {}, {} tokens; reported − true, ms\n\n",
        grid.ttft, grid.tokens
    );
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
    let rows: Vec<Vec<String>> = calibration
        .points
        .iter()
        .map(|p| {
            let e = |metric: &str| p.errors_of(metric);
            let health = p.health.as_ref();
            vec![
                load_of(p),
                p.point.gap.to_string(),
                p.joined.to_string(),
                health.and_then(|h| h.chunk_rate).map_or_else(|| "–".to_owned(), |r| format!("{r:.0}")),
                number(e("ttft").map(|e| e.bias)),
                number(e("ttft").map(|e| e.absolute.p50)),
                number(e("ttft").map(|e| e.absolute.p99)),
                number(e("icl").map(|e| e.absolute.p50)),
                number(e("e2e").map(|e| e.absolute.p99)),
                number(e("stamp").map(|e| e.absolute.p99)),
                number(health.and_then(|h| h.stamp_error_bound_ms)),
                p.cpu_per_chunk_us.map_or_else(|| "–".to_owned(), |us| format!("{us:.1}")),
                if p.within(calibration.bound) { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    text.push_str(&columns(
        &[
            "load",
            "gap",
            "n",
            "chunks/s",
            "TTFT bias",
            "|p50|",
            "|p99|",
            "ICL |p50|",
            "E2E |p99|",
            "stamp |p99|",
            "stated",
            "µs CPU/chunk",
            "kept",
        ],
        &rows,
        &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    ));
    let bound = calibration.bound;
    text.push_str(&format!("\n\nBound on TTFT and E2E: |p50| ≤ {}, |p99| ≤ {}. ", bound.p50, bound.p99));
    text.push_str(&match calibration.covered() {
        Some(c) => format!(
            "Kept up to {:.0} chunks/s and {} requests in flight on this machine.",
            c.chunk_rate, c.concurrency
        ),
        None => "Kept at no point.".to_owned(),
    });
    text.push_str("\nWhat each column means: docs/load-accuracy.md");
    text
}

fn json_of(calibration: &Calibration) -> Value {
    let points = calibration.points.iter().map(|p| {
        let errors: serde_json::Map<String, Value> = p
            .errors
            .iter()
            .map(|(metric, e)| {
                let value = json!({
                    "n": e.absolute.n, "bias_ms": e.bias, "error_p50_ms": e.absolute.p50,
                    "error_p99_ms": e.absolute.p99, "error_max_ms": e.absolute.max,
                    "reported_p50_ms": e.reported.p50, "true_p50_ms": e.truth.p50,
                });
                ((*metric).to_owned(), value)
            })
            .collect();
        let health = p.health.as_ref();
        json!({
            "concurrency": p.point.concurrency, "rate_per_s": p.point.rate, "gap": p.point.gap,
            "requests": p.joined, "lost": p.lost, "errors": errors,
            "chunk_rate_per_s": health.and_then(|h| h.chunk_rate),
            "cpu_per_chunk_us": p.cpu_per_chunk_us,
            "stamp_error_bound_ms": health.and_then(|h| h.stamp_error_bound_ms),
            "bound_covers": p.bound_covers,
            "client_verdict": health.and_then(|h| Some(h.verdict?.word())),
            "within_bound": p.within(calibration.bound),
        })
    });
    json!({ "instrument": calibration.instrument(), "points": points.collect::<Vec<_>>() })
}
