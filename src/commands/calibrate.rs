//! `calibrate`: runs the load generator against a server of known timing, on this machine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::calibrate::{
    Accounted, Calibrate, Calibration, Grid, Measured, account, account_table, calibrate,
};
use artifacts::counted;
use indicatif::{ProgressBar, ProgressStyle};
use load::reference::Launcher;
use load::{LoadError, Origin, Target, TimeSpan};
use pipeline::stage::{Control, Coordinates, NoLibrary, StageKind};
use serde_json::{Value, json};

use super::load_server::Server;
use crate::args::{CalibrateArgs, Global};
use crate::columns::columns;
use crate::exit::Stop;
use crate::signals::listen_for_signals;
use crate::terminal::{complain, is_watched, say};

pub(super) fn run(arguments: &CalibrateArgs, global: &Global) -> Result<(), Stop> {
    let grid = grid(arguments)?;
    if let Some(folder) = &arguments.out {
        make_folder(folder)?;
    }
    let target = target(arguments)?;
    let launcher = Launcher::own().map_err(|e| Stop::refused_at("this program's file", &e))?;
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let points = grid.points().len() as u64;
    let quiet = arguments.quiet || global.json;
    let bar = bar(points, quiet);
    if !quiet && !is_watched() {
        complain(&format!(
            "measuring {points} grid points, about {} each …",
            grid.duration
        ));
    }
    let shown = bar.clone();
    let control = Control::new(
        cancelled.clone(),
        None,
        Box::new(move |progress| shown.set_position(progress.done)),
    );
    let origin = Origin {
        seed: arguments.seed,
        replicate: Coordinates::default(),
    };
    let calibration = calibrate(&grid, &launcher, &origin, &control);
    bar.finish_and_clear();
    let stopped = |e: LoadError| {
        if cancelled.load(Ordering::Relaxed) {
            Stop::interrupted()
        } else {
            Stop::from(e)
        }
    };
    let calibration = calibration.map_err(stopped)?;
    let loops = match &target {
        None => None,
        Some(target) => {
            if !quiet {
                complain(&format!(
                    "sending {} per closed loop to {} …",
                    counted(grid.account.requests, "request"),
                    target.base_url
                ));
            }
            let control = Control::new(cancelled.clone(), None, Box::new(|_| {}));
            Some(account(&grid.account, None, target, &origin, &control).map_err(stopped)?)
        }
    };
    if let Some(folder) = &arguments.out {
        write(folder, &calibration, loops.as_deref())?;
    }
    if global.json {
        say(&json_of(&calibration, loops.as_deref()).to_string());
    } else {
        say(&table_of(&grid, &calibration));
        if let Some(loops) = &loops {
            say(&account_of(loops));
        }
    }
    if calibration.covered().is_some() {
        Ok(())
    } else {
        Err(
            Stop::failed("no point of the grid meets the bound, so the calibration covers no load")
                .hint("measure while the machine is idle, or set another --bound"),
        )
    }
}

/// Returns the server whose reported times are compared, if any.
fn target(arguments: &CalibrateArgs) -> Result<Option<Target>, Stop> {
    let Some(url) = arguments.url.as_deref() else {
        return Ok(None);
    };
    let server = Server {
        url,
        further: Vec::new(),
        ca_file: arguments.ca_file.as_deref(),
        model: arguments.model.as_deref(),
        api: &arguments.api,
        api_key_env: arguments.api_key_env.as_deref(),
        metrics: None,
        headers: &[],
    };
    server.target().map(Some)
}

/// Returns the requested grid, checked in the same way as a stage's settings.
fn grid(arguments: &CalibrateArgs) -> Result<Grid, Stop> {
    let mut grid = if arguments.quick {
        Grid::quick()
    } else {
        Grid::default()
    };
    // If the user names one kind of load, only that kind is used.
    if !(arguments.concurrency.is_empty() && arguments.rate.is_empty()) {
        grid.concurrency.clone_from(&arguments.concurrency);
        grid.rate.clone_from(&arguments.rate);
    }
    let span = |text: &str| TimeSpan::parse(text).map_err(Stop::usage);
    if !arguments.gap.is_empty() {
        grid.gap = arguments
            .gap
            .iter()
            .map(|text| span(text))
            .collect::<Result<_, _>>()?;
    }
    if let Some(text) = &arguments.duration {
        grid.duration = span(text)?;
    }
    if let Some((p50, p99)) = &arguments.bound {
        (grid.bound.p50, grid.bound.p99) = (span(p50)?, span(p99)?);
    }
    grid.tls = arguments.tls;
    if arguments.url.is_some() {
        grid.account
            .concurrency
            .clone_from(&arguments.server_concurrency);
        grid.account.requests = arguments.server_requests;
    }
    Calibrate::default()
        .canonical(&json!(grid), &NoLibrary)
        .map_err(|problems| {
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

/// Creates the folder before anything is measured; does not replace an earlier calibration.
fn make_folder(folder: &Path) -> Result<(), Stop> {
    let there = folder.join("calibration.parquet");
    if there.exists() {
        return Err(Stop::usage(format!("{} already exists", there.display()))
            .hint("choose another folder with --out"));
    }
    fs::create_dir_all(folder).map_err(|e| Stop::refused_at(folder.display(), &e))
}

fn write(
    folder: &Path,
    calibration: &Calibration,
    loops: Option<&[Accounted]>,
) -> Result<(), Stop> {
    let put = |name: &str, bytes: Vec<u8>| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|e| Stop::refused_at(path.display(), &e))
    };
    put("calibration.parquet", calibration.table()?.to_parquet()?)?;
    if let Some(table) = account_table(loops.unwrap_or_default())? {
        put("server_account.parquet", table.to_parquet()?)?;
    }
    let instrument = serde_json::to_vec_pretty(&calibration.instrument()).map_err(Stop::failed)?;
    put("instrument.json", instrument)
}

fn load_of(point: &Measured) -> String {
    match (point.point.concurrency, point.point.rate) {
        (Some(clients), _) => counted(clients, "client"),
        (None, rate) => format!("{} req/s", rate.unwrap_or_default()),
    }
}

fn table_of(grid: &Grid, calibration: &Calibration) -> String {
    let host = &calibration.host;
    let model = host.cpu_model.as_deref().unwrap_or("an unknown processor");
    let cores = host.cpu_count.unwrap_or_default();
    let mut text = format!(
        "{model}, {}; {}first token after {}, {}; reported − true, ms\n\n",
        counted(cores, "core"),
        if calibration.tls { "TLS; " } else { "" },
        grid.ttft,
        counted(grid.tokens, "token")
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
                health
                    .and_then(|h| h.chunk_rate)
                    .map_or_else(|| "–".to_owned(), |r| format!("{r:.0}")),
                number(e("ttft").map(|e| e.bias)),
                number(e("ttft").map(|e| e.absolute.p50)),
                number(e("ttft").map(|e| e.absolute.p99)),
                number(e("icl").map(|e| e.absolute.p50)),
                number(e("e2e").map(|e| e.absolute.p99)),
                number(e("stamp").map(|e| e.absolute.p99)),
                number(health.and_then(|h| h.stamp_error_bound_ms)),
                p.cpu_per_chunk_us
                    .map_or_else(|| "–".to_owned(), |us| format!("{us:.1}")),
                if p.within(calibration.bound) {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
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
    text.push_str(&format!(
        "\n\nBound on TTFT and E2E: |p50| ≤ {}, |p99| ≤ {}. ",
        bound.p50, bound.p99
    ));
    text.push_str(&match calibration.covered() {
        Some(c) => format!(
            "The bound holds up to {:.0} chunks/s and {} in flight on this machine.",
            c.chunk_rate,
            counted(c.concurrency, "request")
        ),
        None => "The bound holds at no point.".to_owned(),
    });
    text.push_str("\nWhat each column means: docs/load-accuracy.md");
    text
}

/// Formats the times reported by a real server.
fn account_of(loops: &[Accounted]) -> String {
    let named = |metric| {
        if metric == "ttft_beyond_server" {
            "TTFT"
        } else {
            "E2E"
        }
    };
    let rows: Vec<Vec<String>> = loops
        .iter()
        .flat_map(|one| {
            one.distributions()
                .map(move |(metric, d)| (one.concurrency, metric, d))
        })
        .map(|(clients, metric, d)| {
            let ms = [d.mean, d.p50, d.p90, d.p99, d.min, d.max].map(|value| format!("{value:.3}"));
            [
                clients.to_string(),
                named(metric).to_owned(),
                d.n.to_string(),
            ]
            .into_iter()
            .chain(ms)
            .collect()
        })
        .collect();
    let sum = |field: fn(&Accounted) -> u64| loops.iter().map(field).sum::<u64>();
    let answered = format!(
        "{} of {} answered",
        sum(|one| one.answered),
        counted(sum(|one| one.requests), "request")
    );
    if rows.is_empty() {
        return format!(
            "\n{answered}; the server reports no timings, so there is nothing to compare"
        );
    }
    let heading = [
        "clients",
        "beyond the server's account",
        "n",
        "mean",
        "p50",
        "p90",
        "p99",
        "min",
        "max",
    ];
    format!(
        "\nTimes measured − the server's own account, ms\n\n{}\n\n{answered}; output tokens in usage and in the server's timings: {} agree, {} differ",
        columns(&heading, &rows, &[0, 2, 3, 4, 5, 6, 7, 8]),
        sum(|one| one.tokens_agree),
        sum(|one| one.tokens_disagree),
    )
}

fn json_of(calibration: &Calibration, loops: Option<&[Accounted]>) -> Value {
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
    let loops = loops.map(|loops| {
        let one = |one: &Accounted| {
            let metrics: serde_json::Map<String, Value> = one
                .distributions()
                .map(|(metric, d)| {
                    let value = json!({
                        "n": d.n, "mean_ms": d.mean, "p50_ms": d.p50, "p90_ms": d.p90, "p99_ms": d.p99,
                        "min_ms": d.min, "max_ms": d.max,
                    });
                    (metric.to_owned(), value)
                })
                .collect();
            json!({
                "concurrency": one.concurrency, "requests": one.requests, "answered": one.answered,
                "tokens_agree": one.tokens_agree, "tokens_disagree": one.tokens_disagree, "metrics": metrics,
            })
        };
        loops.iter().map(one).collect::<Vec<_>>()
    });
    json!({
        "instrument": calibration.instrument(),
        "points": points.collect::<Vec<_>>(),
        "server_account": loops,
    })
}
