//! `load` at several levels: prints one table, the knee, and writes a figure.

use std::path::Path;

use load::{DirectArrival, LevelFigures, Slo, Summary, knee, level_name, sweep_figure};
use serde_json::{Value, json};

use super::init::model_title;
use super::load_level::Run;
use super::load_settings::Levelled;
use super::load_table::{cancelled, failed};
use crate::columns::columns;
use crate::exit::Stop;
use crate::terminal::say;

/// The levels of a sweep.
pub(super) struct Sweep {
    /// The axis in messages: `clients` or `req/s`.
    pub(super) axis: &'static str,
    /// The levels with their arrivals.
    pub(super) levels: Vec<Levelled>,
}

/// Returns the name of a level's folder below `--out`.
pub(super) fn folder_of(level: &Levelled) -> String {
    let word = match level.arrival {
        DirectArrival::ClosedLoop { .. } => "concurrency",
        _ => "rate",
    };
    format!("{word}-{}", level_name(level.level))
}

/// Prints the runs of all levels, and writes the figure.
pub(super) fn tell(
    sweep: &Sweep,
    runs: &[(f64, Run)],
    slo: &Slo,
    out: Option<&Path>,
    as_json: bool,
) -> Result<(), Stop> {
    let figures: Vec<LevelFigures> = runs
        .iter()
        .map(|(level, run)| LevelFigures {
            level: *level,
            throughput: run.summary.output_throughput,
            ttft_ms: run.summary.ttft.map(|d| d.p50),
            requests: run.summary.request_throughput,
            goodput: (*slo != Slo::default())
                .then_some(run.summary.goodput)
                .flatten(),
        })
        .collect();
    let knee = knee(&figures);
    let document = || {
        let each: Vec<Value> = runs
            .iter()
            .map(|(level, run)| {
                let mut one = run.document.clone();
                one["level"] = json!(level_name(*level));
                one
            })
            .collect();
        json!({"axis": sweep.axis, "knee": knee.map(|k| level_name(runs[k].0)), "levels": each})
    };
    if let Some(folder) = out {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|e| Stop::refused_at(path.display(), &e))
        };
        let model = runs.first().map_or("", |(_, run)| run.model.as_str());
        let title = format!(
            "Throughput and latency of {} over {}",
            model_title(model),
            sweep.axis
        );
        write("sweep.svg", &sweep_figure(&title, sweep.axis, &figures))?;
        write("sweep.json", &format!("{:#}\n", document()))?;
    }
    if as_json {
        say(&document().to_string());
        return Ok(());
    }
    say(&table(sweep, runs, knee, slo));
    say(&match knee {
        Some(k) if sweep.axis == "clients" && runs[k].0 == 1.0 => {
            "\nknee: 1 client; with more clients, throughput grows less than half as fast as the \
            load"
                .to_owned()
        }
        Some(k) => format!(
            "\nknee: {} {}; beyond it, more load brings less than half as much more throughput",
            level_name(runs[k].0),
            sweep.axis
        ),
        None if runs.len() < sweep.levels.len() => {
            "\nno knee within the levels measured until then".to_owned()
        }
        None => "\nno knee within these levels".to_owned(),
    });
    if let Some(folder) = out {
        say(&format!("figure: {}", folder.join("sweep.svg").display()));
    }
    Ok(())
}

fn table(sweep: &Sweep, runs: &[(f64, Run)], knee: Option<usize>, slo: &Slo) -> String {
    let bounded = *slo != Slo::default();
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |v| format!("{v:.digits$}"))
    };
    let any_cancelled = runs.iter().any(|(_, run)| cancelled(&run.summary) > 0);
    let rows: Vec<Vec<String>> = runs
        .iter()
        .enumerate()
        .map(|(i, (level, run))| {
            let Summary {
                ttft,
                tpot,
                e2e_latency,
                ..
            } = &run.summary;
            let mut row = vec![
                level_name(*level),
                run.ok.to_string(),
                failed(&run.summary).to_string(),
            ];
            if any_cancelled {
                row.push(cancelled(&run.summary).to_string());
            }
            row.push(number(run.summary.request_throughput, 2));
            if bounded {
                row.push(number(run.summary.goodput, 2));
                row.push(number(
                    run.summary.slo_pass_rate.map(|share| share * 100.0),
                    1,
                ));
            }
            row.extend([
                number(run.summary.output_throughput, 1),
                number(ttft.map(|d| d.p50), 1),
                number(ttft.filter(|d| d.n >= 100).map(|d| d.p99), 1),
                number(tpot.map(|d| d.p50), 2),
                number(e2e_latency.map(|d| d.p50), 1),
            ]);
            row.push(if knee == Some(i) {
                "knee".to_owned()
            } else {
                String::new()
            });
            row
        })
        .collect();
    let mut heads = vec![sweep.axis, "ok", "failed"];
    if any_cancelled {
        heads.push("cancelled");
    }
    heads.push("answered/s");
    if bounded {
        heads.extend(["goodput/s", "within %"]);
    }
    heads.extend(["tok/s", "TTFT p50", "TTFT p99", "TPOT p50", "E2E p50", ""]);
    let right: Vec<usize> = (0..heads.len() - 1).collect();
    let mut text = columns(&heads, &rows, &right);
    text.push_str(
        "\nlatencies in ms; p99 only with at least 100 requests; a study prints it from 368",
    );
    for (level, run) in runs {
        for note in &run.notes_on_tokens {
            text.push_str(&format!("\nnote on {}: {note}", level_name(*level)));
        }
    }
    text
}
