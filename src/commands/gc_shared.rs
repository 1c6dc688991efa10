//! `gc --remote`: removes what no lock names in a shared store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use artifacts::counted;
use pipeline::Class;
use pipeline::place::cell_text;
use pipeline::record::{Record, view};
use remote::{CollectMode, CollectOptions, CollectReport, Collected, Remote, Root};
use serde_json::{Value, json};

use crate::args::{GcArgs, Global};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::registry::registry;
use crate::shared::{chosen_name, watched};
use crate::signals::listen_for_signals;
use crate::terminal::{bytes, say};

/// How long a removal's lease lasts without being renewed.
const LEASE: Duration = Duration::from_secs(15 * 60);

/// The shortest grace. A push must complete 64 cells within it, and a list must show every object put that long ago.
const SHORTEST: Duration = Duration::from_secs(60 * 60);

/// The number of named cells per stage.
const CELLS_SHOWN: usize = 3;

/// The number of digits shown of a root's name: enough to distinguish it from others.
const DIGITS: usize = 12;

pub(super) fn gc_shared(url: &str, arguments: &GcArgs, global: &Global) -> Result<(), Stop> {
    remote::check_url(url)?;
    must_be(std::path::Path::new(url), Wanted::Shared)?;
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let remote = Remote::open(url)?;
    let options = CollectOptions {
        mode: match arguments.dry_run {
            true => CollectMode::DryRun,
            false => CollectMode::Collect,
        },
        grace: grace(arguments)?,
        lease: LEASE,
        measurements: arguments.measurements,
        forget: arguments
            .forget
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect(),
        by: remote::identity(chosen_name().as_deref())
            .by
            .unwrap_or_default(),
    };
    let registry = registry();
    // The result of a kind that this program does not know may be a measurement.
    let is_measurement = |bytes: &[u8]| {
        let record = Record::parse(bytes).ok();
        let kinds = &registry.kinds;
        let kind = record.and_then(|r| kinds.iter().find(|k| k.name() == r.recipe.kind));
        kind.is_none_or(|kind| kind.class() == Class::Measurement)
    };
    let report = watched("removing", &cancelled, |watch| {
        remote.collect(&options, view, &is_measurement, watch)
    })?;
    match global.json {
        true => say(&json_of(&report, url).to_string()),
        false => lines_of(&report, arguments).iter().for_each(|l| say(l)),
    }
    Ok(())
}

fn grace(arguments: &GcArgs) -> Result<Duration, Stop> {
    let Some(grace) = arguments.grace else {
        return Err(Stop::usage(
            "gc of a shared store needs `--grace`: the time that condemned results stay before they are removed",
        )
        .hint("for example `--grace '7 d'`: longer than any run of anybody who shares the store"));
    };
    match grace < SHORTEST {
        true => Err(Stop::usage("this `--grace` is too short")
            .hint("use 1 h or more, so that a push that is active now can complete")),
        false => Ok(grace),
    }
}

fn lines_of(report: &CollectReport, arguments: &GcArgs) -> Vec<String> {
    let mut lines = Vec::new();
    for root in &report.forgotten {
        let word = match arguments.dry_run {
            true => "would be forgotten",
            false => "forgotten",
        };
        lines.push(format!("{word}: {}", described(root)));
    }
    for root in &report.roots {
        lines.push(format!("kept: everything that {} names", described(root)));
    }
    if !arguments.measurements {
        lines.push(
            "kept: all measurements; `--measurements` also removes those that no lock names"
                .to_owned(),
        );
    }
    let word = match &report.collected {
        Collected::Nothing => "to be removed",
        Collected::WouldCondemn => "would be condemned",
        Collected::Condemned(_) => "condemned",
        Collected::Waiting(..) | Collected::Busy(_) => "still condemned",
        Collected::WouldRemove => "would be removed",
        Collected::Removed => "removed",
    };
    lines.extend(results(report, word));
    lines.push(format!(
        "stays: {}, {}",
        counted(report.kept.objects, "object"),
        bytes(report.kept.bytes)
    ));
    lines.push(format!(
        "{word}: {}, {}, {}",
        counted(report.results.len(), "result"),
        counted(report.objects.objects, "object"),
        bytes(report.objects.bytes)
    ));
    if report.spared > 0 {
        lines.push(format!(
            "spared: {} condemned results have been needed since, or somebody has removed them",
            report.spared
        ));
    }
    lines.extend(match &report.collected {
        Collected::Condemned(until) => Some(format!(
            "nothing is removed yet: from {} on, the same command removes what is still condemned",
            time_in_words(*until)
        )),
        Collected::Waiting(by, until) => Some(format!(
            "nothing is removed: condemned by {by}, and the grace ends at {}",
            time_in_words(*until)
        )),
        Collected::Busy(by) => Some(format!(
            "nothing was done: {by} is removing results at the moment"
        )),
        _ => None,
    });
    lines
}

/// Returns a line for the results of each stage.
fn results(report: &CollectReport, word: &str) -> Vec<String> {
    let mut stages: BTreeMap<(&str, &str, bool), Vec<String>> = BTreeMap::new();
    for doomed in &report.results {
        let completion = &doomed.completion;
        let stage = (
            completion.experiment.as_str(),
            completion.stage.as_str(),
            doomed.is_measurement,
        );
        let cell = cell_text(&completion.stage, &completion.coordinates);
        stages.entry(stage).or_default().push(cell);
    }
    let line = |((experiment, _, is_measurement), cells): ((&str, &str, bool), Vec<String>)| {
        let what = match (is_measurement, cells.len()) {
            (true, 1) => "1 measurement".to_owned(),
            (true, n) => format!("{n} measurements"),
            (false, 1) => "1 result".to_owned(),
            (false, n) => format!("{n} results"),
        };
        let mut names = cells[..cells.len().min(CELLS_SHOWN)].join(", ");
        if cells.len() > CELLS_SHOWN {
            names.push_str(", …");
        }
        format!("{word}: {what} of {experiment}: {names}")
    };
    stages.into_iter().map(line).collect()
}

fn described(root: &Root) -> String {
    let by = pipeline::makers_in_words([root.maker.clone()]);
    format!(
        "{} ({}, {by}, root {})",
        root.lock,
        root.experiment,
        &root.name[..DIGITS.min(root.name.len())]
    )
}

fn time_in_words(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "never".to_owned(), |at| at.to_string())
}

fn json_of(report: &CollectReport, url: &str) -> Value {
    let roots = |roots: &[Root]| -> Vec<Value> {
        let one = |root: &Root| {
            json!({
                "root": root.name, "lock": root.lock, "experiment": root.experiment,
                "maker": root.maker, "records": root.records.len(),
            })
        };
        roots.iter().map(one).collect()
    };
    let (state, by, until) = match &report.collected {
        Collected::Nothing => ("nothing", None, None),
        Collected::WouldCondemn => ("would-condemn", None, None),
        Collected::Condemned(until) => ("condemned", None, Some(time_in_words(*until))),
        Collected::Waiting(by, until) => ("waiting", Some(by), Some(time_in_words(*until))),
        Collected::WouldRemove => ("would-remove", None, None),
        Collected::Removed => ("removed", None, None),
        Collected::Busy(by) => ("busy", Some(by), None),
    };
    let results = report.results.iter().map(|doomed| {
        let c = &doomed.completion;
        json!({
            "experiment": c.experiment, "stage": c.stage, "coordinates": c.coordinates,
            "key": c.key, "record": c.record, "maker": c.maker, "measurement": doomed.is_measurement,
        })
    });
    let tally = |t: &artifacts::Tally| json!({ "objects": t.objects, "bytes": t.bytes });
    json!({
        "remote": url, "state": state, "by": by, "until": until,
        "roots": roots(&report.roots), "forgotten": roots(&report.forgotten),
        "kept": tally(&report.kept), "objects": tally(&report.objects),
        "results": results.collect::<Vec<_>>(), "spared": report.spared,
    })
}
