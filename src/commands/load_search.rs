//! `load --search`: finds the highest level at which a server meets its bounds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::counted;
use load::{Monitoring, Origin, Probe, SearchFiles, Settings, Slo, Target, run_search};
use pipeline::language::settings::percent_of_share;
use pipeline::stage::{CellStatus, Control};
use serde_json::{Value, json};

use super::load_settings::{judged_slo, levels};
use super::load_words::in_options;
use crate::args::{Global, LoadArgs};
use crate::columns::columns;
use crate::exit::Stop;
use crate::signals::listen_for_signals;
use crate::terminal::{complain, continued, say};

pub(super) fn search(
    arguments: &LoadArgs,
    global: &Global,
    folder: &Path,
    settings: &Settings,
    origin: &Origin,
    target: &Target,
    monitoring: &Monitoring,
) -> Result<(), Stop> {
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let control = Control::new(cancelled, None, Box::new(|_| {}));
    let quiet = arguments.quiet || global.json;
    // A closed loop takes as long as its requests take.
    let open = settings
        .arrival
        .as_ref()
        .is_some_and(|arrival| arrival.clients().is_none());
    let rules = settings
        .search
        .as_ref()
        .filter(|_| open && !quiet)
        .map(|search| search.rules(1));
    if let Some(rules) = rules.filter(|rules| rules.overload.needed_s > 0.0) {
        let seconds = rules.overload.needed_s;
        complain(&format!(
            "at each rate, requests arrive for at least {seconds:.1} s, so that an overload \
             becomes visible"
        ));
    }
    let files = run_search(
        settings,
        origin,
        target,
        monitoring,
        folder,
        &control,
        &mut |probe| {
            if !quiet {
                let share = format!(
                    "{} of {} within bounds",
                    probe.tried.good(),
                    counted(probe.tried.requests(), "request")
                );
                complain(&format!(
                    "probe {}: {}: {share}: {}",
                    probe.probe,
                    probe.level,
                    probe.verdict.word()
                ));
            }
        },
    )?;
    let requests = settings.requests.unwrap_or(1);
    let few = settings
        .search
        .as_ref()
        .and_then(|search| search.warning(requests, settings.arrival.as_ref()?));
    let of_best = files.best.iter().flat_map(|best| &best.warnings);
    for warning in few.iter().chain(of_best) {
        complain(&format!("warning: {}", continued(&in_options(warning))));
    }
    // A search has one level, at which it begins.
    let slo = judged_slo(arguments, &levels(arguments)[0].arrival);
    if global.json {
        say(&json_of(arguments, &files, &slo).to_string());
    } else {
        say(&table_of(arguments, &files, &slo));
    }
    let outcome = &files.outcome;
    match files.failure {
        None => {
            match (outcome.undecided, outcome.kept) {
                (Some(undecided), _) => Err(Stop::failed(undecided)
                    .hint("set a longer --longest or a coarser --resolution")),
                (None, Some(_)) => Ok(()),
                (None, None) => Err(Stop::failed("even the lowest level misses the bounds")
                    .hint("start lower, or set wider bounds")),
            }
        }
        Some(failure) if failure.status == CellStatus::Interrupted => {
            complain(&format!(
                "{}: the result covers the probes made so far",
                failure.reason
            ));
            Err(Stop::interrupted())
        }
        Some(failure) => Err(failure.into()),
    }
}

fn row(probe: &Probe) -> Vec<String> {
    let by = if probe.by_share {
        " (decided by the share: all requests used)"
    } else {
        ""
    };
    vec![
        probe.probe.to_string(),
        probe.level.to_string(),
        probe.tried.sent.to_string(),
        probe.tried.requests().to_string(),
        probe.tried.good().to_string(),
        format!(
            "{:.3}",
            probe.tried.good() as f64 / probe.tried.requests().max(1) as f64
        ),
        format!("{:.3}–{:.3}", probe.interval.0, probe.interval.1),
        format!("{}{by}", probe.verdict.word()),
    ]
}

fn table_of(arguments: &LoadArgs, files: &SearchFiles, slo: &Slo) -> String {
    let outcome = &files.outcome;
    let heading = [
        "probe",
        "level",
        "sent",
        "judged",
        "in bounds",
        "share",
        "interval",
        "verdict",
    ];
    let rows: Vec<Vec<String>> = outcome.probes.iter().map(row).collect();
    let result = match (outcome.kept, outcome.missed) {
        (Some(kept), _) if outcome.undecided.is_some() => {
            format!("kept at {kept}, the next level undecided")
        }
        (Some(kept), Some(missed)) => format!("kept at {kept}, missed at {missed}"),
        (Some(kept), None) => {
            format!("kept at {kept}, the highest level tried: a larger `--search` looks further")
        }
        (None, Some(missed)) => format!("missed already at {missed}"),
        (None, None) => "no level was decided".to_owned(),
    };
    format!(
        "{}\n\n{} for {} % of requests: {result}\n{} in {}; see docs/load.md for \
         how levels are judged",
        columns(&heading, &rows, &[0, 2, 3, 4, 5]),
        slo.in_words(),
        percent_of_share(arguments.attainment),
        counted(outcome.requests(), "request"),
        counted(outcome.probes.len(), "probe"),
    )
}

fn json_of(arguments: &LoadArgs, files: &SearchFiles, slo: &Slo) -> Value {
    let outcome = &files.outcome;
    let probes = outcome.probes.iter().map(|p| {
        json!({
            "probe": p.probe, "level": p.level.number(),
            "sent": p.tried.sent, "requests": p.tried.requests(), "good": p.tried.good(),
            "warm_in_s": p.tried.warm_in_s,
            "level_requests": p.pooled.requests, "level_good": p.pooled.good,
            "level_independent": p.pooled.independent,
            "lower": p.interval.0, "upper": p.interval.1,
            "verdict": p.verdict.word(), "by_share": p.by_share,
        })
    });
    json!({
        "kept": outcome.kept.map(load::SearchLevel::number),
        "missed": outcome.missed.map(load::SearchLevel::number),
        "undecided": outcome.undecided.map(|undecided| undecided.level.number()),
        "unit": outcome.probes.first().map(|probe| probe.level.unit()),
        "slo_ms": {
            "ttft": slo.ttft_ms, "tpot": slo.tpot_ms, "e2e": slo.e2e_ms,
            "ttft_scheduled": slo.ttft_scheduled_ms, "e2e_scheduled": slo.e2e_scheduled_ms,
        },
        "attainment": arguments.attainment,
        "complete": files.failure.is_none(),
        "requests": outcome.requests(),
        "probes": probes.collect::<Vec<_>>(),
    })
}
