//! Tables that a report derives from the study itself: its environments, its deviations from the plan, and its limits.
//!
//! They are outputs of the report, so that their values can be traced like all others.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Column, Scalar, Table};
use contract::{GateOutcome, GateSeverity, HOST_NOT_KNOWN, slowing_reasons};
use pipeline::design::BLOCK;
use pipeline::place::Condition;
use pipeline::stage::{CellStatus, Execution, Input, Json, LedgerLine};

use crate::data::{Data, Miss};
use crate::environment::{self, ok};
use crate::extended::Extended;
use crate::turns::out_of_turn;
use crate::{method, setup};

/// Derives a table by name; `None` if it is not one of these.
///
/// # Errors
/// If an artifact it needs is not read yet, or is not what its record says.
pub(crate) fn table(name: &str, data: &Data) -> Result<Option<Table>, Miss> {
    Ok(Some(match name {
        "environment" => environment::table(data)?,
        "deviations" => deviations(data)?,
        "limits" => limits(data)?,
        "loads" => method::loads(data)?,
        "workloads" => method::workloads(data)?,
        _ => match environment::facets(name, data)? {
            Some(table) => table,
            None => return setup::table(name, data),
        },
    }))
}

/// Deviations from the experiment as written, without a profile, overrides and exclusions.
fn deviations(data: &Data) -> Result<Table, Miss> {
    let study = data.study()?;
    let spec = &study.spec;
    let mut rows: Vec<[String; 3]> = Vec::new();
    if let Some(profile) = spec.get("profile").and_then(Json::as_str) {
        let help = spec.get("profile_help").and_then(Json::as_str);
        rows.push([
            "profile".into(),
            profile.into(),
            help.unwrap_or("a profile replaces parameters and axes")
                .into(),
        ]);
    }
    for entry in spec
        .get("overrides")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
    {
        let reason = entry
            .get("reason")
            .and_then(Json::as_str)
            .unwrap_or("no reason given");
        let place = entry
            .get("where")
            .map_or_else(|| entry.to_string(), place_text);
        if entry.get("where").is_some_and(|at| meets_nothing(data, at)) {
            continue;
        }
        rows.push(["override".into(), place, reason.into()]);
    }
    for line in study.ledger.iter().filter(|l| l.status != CellStatus::Ok) {
        let place = format!("{} {}", line.stage, line.coordinates);
        let reason = line
            .reason
            .clone()
            .unwrap_or_else(|| "no reason given".to_owned());
        rows.push([
            line.status.word().to_owned(),
            place.trim().to_owned(),
            reason,
        ]);
    }
    let mut unread = false;
    for (stage, cell) in data
        .stages()
        .iter()
        .flat_map(|s| ok(s).map(move |c| (s, c)))
    {
        let Some(record) = cell.record else { continue };
        match data.by_digest(&record) {
            Ok(record) => {
                let attempts = record
                    .get("attempts")
                    .and_then(Json::as_array)
                    .map_or(0, Vec::len);
                if attempts > 1 {
                    let place = format!("{} {}", stage.stage, cell.coordinates);
                    let reason = format!("the attempt that counts is number {attempts}");
                    rows.push(["retried".into(), place.trim().to_owned(), reason]);
                }
            }
            Err(Miss::Unread) => unread = true,
            Err(miss) => return Err(miss),
        }
    }
    if unread {
        return Err(Miss::Unread);
    }
    three(["what", "where", "reason"], &rows)
}

/// Returns whether an override applies to no cell of the study, because a profile drops its labels.
fn meets_nothing(data: &Data, place: &Json) -> bool {
    let stage = place.get("stage").and_then(Json::as_str);
    let Some(input) = data
        .stages()
        .iter()
        .find(|s| Some(s.stage.as_str()) == stage)
    else {
        return false;
    };
    let axes = condition(place);
    if axes.0.iter().any(|(_, labels)| labels.is_empty()) {
        return false;
    }
    !input
        .cells
        .iter()
        .any(|cell| axes.agrees(&cell.coordinates))
}

/// Writes the place of an override in the notation of coordinates, the stage first.
fn place_text(place: &Json) -> String {
    if !place.is_object() {
        return place.to_string();
    }
    let stage = place.get("stage").and_then(Json::as_str);
    format!("{} {}", stage.unwrap_or_default(), condition(place))
        .trim()
        .to_owned()
}

/// Returns the labels that an override names.
fn condition(place: &Json) -> Condition {
    let labels = |value: &Json| match value {
        Json::Array(items) => items.iter().filter_map(Scalar::from_json).collect(),
        one => Scalar::from_json(one).into_iter().collect(),
    };
    let pairs = place.as_object().into_iter().flatten();
    let axes = pairs.filter(|(key, _)| *key != "stage");
    Condition(
        axes.map(|(key, value)| (key.clone(), labels(value)))
            .collect(),
    )
}

fn three(names: [&str; 3], rows: &[[String; 3]]) -> Result<Table, Miss> {
    let column = |i: usize| Column::text(names[i], rows.iter().map(move |r| Some(r[i].clone())));
    Ok(Table::new(vec![column(0), column(1), column(2)]).map_err(|e| e.to_string())?)
}

/// The limits of the study, one sentence each.
fn limits(data: &Data) -> Result<Table, Miss> {
    let study = data.study()?;
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut say = |topic: &str, subject: &str, text: String| {
        rows.push([topic.to_owned(), subject.to_owned(), text]);
    };
    if let Some(extended) = Extended::of(study) {
        say("blocks", "", extended.words());
    }
    if let Some(text) = stopping_rule(&study.spec) {
        say("stopping rule", "", text);
    }
    ledger_limits(&study.ledger, &mut say);
    for input in data.stages() {
        match input.kind.as_str() {
            "load" => {
                load_limits(data, input, &mut say)?;
                for text in out_of_turn(data, &study.spec, &input.stage)? {
                    say("order", &input.stage, text);
                }
                if let Some(text) = throttling(data, input)? {
                    say("throttling", &input.stage, text);
                }
            }
            "provision" if input.cells.len() == 1 && has_unknown_host(data, input)? => {
                let text = "the host and the build of the server are not known; another server may behave differently";
                say("one host", &input.stage, text.to_owned());
            }
            "provision" if input.cells.len() == 1 => {
                let executed = study
                    .ledger
                    .iter()
                    .filter_map(|line| line.execution.as_ref());
                let (topic, text) = covered(&executed.filter_map(|e| e.host.as_deref()).collect());
                say(topic, &input.stage, text);
            }
            _ => {}
        }
    }
    let kinds = |kind: &str| data.stages().iter().filter(|s| s.kind == kind).count();
    if kinds("load") > 0 && kinds("calibrate") == 0 {
        say(
            "instrument",
            "",
            "the load generator was not calibrated in this study; its own error is not subtracted"
                .to_owned(),
        );
    }
    let confounds = environment::confounds(data)?;
    if confounds > 0 {
        say(
            "confounds",
            "",
            match confounds {
                1 => "1 value of the environment differs although no axis sets it".to_owned(),
                n => format!("{n} values of the environment differ although no axis sets them"),
            },
        );
    }
    for input in data.stages().iter().filter(|s| s.kind == "verify") {
        for (gate, observed) in warnings(data, &input.stage)? {
            let text = match observed.as_slice() {
                [one] => one.clone(),
                all => format!("{} warnings; the first: {}", all.len(), all[0]),
            };
            say("warning", &gate, text);
        }
    }
    three(["topic", "subject", "text"], &rows)
}

/// Reports for each stage, from the ledger: cells that are not ok, cells executed again, loud machines, and cells that
/// ended at a time limit.
fn ledger_limits(ledger: &[LedgerLine], say: &mut dyn FnMut(&str, &str, String)) {
    let mut stages: Vec<&str> = Vec::new();
    for line in ledger {
        if !stages.contains(&line.stage.as_str()) {
            stages.push(&line.stage);
        }
    }
    for stage in stages {
        let lines = || ledger.iter().filter(|l| l.stage == stage);
        let count = |status: CellStatus| lines().filter(|l| l.status == status).count();
        let (planned, good, left) = (
            lines().count(),
            count(CellStatus::Ok),
            count(CellStatus::Excluded),
        );
        if good < planned {
            let rest = planned - good - left;
            let text = format!(
                "{good} of {planned} planned cells are ok, {left} are excluded by the \
                experiment, {rest} are not ok"
            );
            say("coverage", stage, text);
        }
        let executed: Vec<&Execution> = lines().filter_map(|l| l.execution.as_ref()).collect();
        if let Some(text) = executed_again(&executed) {
            say("executions", stage, text);
        }
        if let Some(text) = loud(&executed) {
            say("quiet", stage, text);
        }
        let censored = count(CellStatus::Timeout) + count(CellStatus::Hung);
        if censored > 0 {
            let text = format!("{censored} cells ended at a time limit; their results are unknown");
            say("censored", stage, text);
        }
    }
}

/// Returns what each gate of a stage warned about, in the order of the table: readers first want to know what, then how
/// often.
fn warnings(data: &Data, stage: &str) -> Result<Vec<(String, Vec<String>)>, Miss> {
    let name = format!("{stage}.gates");
    let mut by_gate: Vec<(String, Vec<String>)> = Vec::new();
    if !data.has(&name) {
        return Ok(by_gate);
    }
    let one = |column: &str, word: &str| (column.to_owned(), vec![Scalar::Text(word.to_owned())]);
    let only = Condition(vec![
        one("outcome", GateOutcome::Fail.word()),
        one("severity", GateSeverity::Warn.word()),
    ]);
    let warned = data.view(&name, &only)?;
    for row in 0..warned.rows.len() {
        let text = |column: &str| warned.get(row, column).map(|v| v.to_string());
        let (gate, observed) = (text("gate")?, text("observed")?);
        match by_gate.iter_mut().find(|(name, _)| *name == gate) {
            Some((_, all)) => all.push(observed),
            None => by_gate.push((gate, vec![observed])),
        }
    }
    Ok(by_gate)
}

/// Returns whether a provision stage describes a server that runs already, on a host that nobody has described.
fn has_unknown_host(data: &Data, input: &Input) -> Result<bool, Miss> {
    for artifact in ok(input).filter_map(|cell| cell.outputs.get("environment")) {
        let environment = data.by_digest(&artifact.digest)?;
        if environment["facets"]["host"] == HOST_NOT_KNOWN {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reports how many machines the study covers, if one provision cell identifies them.
fn covered(hosts: &BTreeSet<&str>) -> (&'static str, String) {
    match hosts.len() {
        0 | 1 => (
            "one host",
            "the study covers one machine and one build; others may behave differently".to_owned(),
        ),
        n => (
            "hosts",
            format!(
                "the study covers {n} machines of one kind and one build ({}); others may behave differently, and the \
                 ledger says which of them measured what",
                hosts.iter().copied().collect::<Vec<_>>().join(", ")
            ),
        ),
    }
}

/// Reports a design that continued until a precision was reached.
fn stopping_rule(spec: &Json) -> Option<String> {
    let (design, until) = (spec.get("design")?, spec.get("design")?.get("until")?);
    let share = until.get("relative_half_width")?.as_f64()?;
    Some(format!(
        "the study could end after {} to {} blocks, as soon as `{}` of every launch was known to \
         ± {:.1} % (95 %); comparisons account for these repeated looks, intervals of single \
         means do not",
        until.get("at_least")?,
        design.get("blocks")?,
        until.get("of")?.as_str()?,
        100.0 * share
    ))
}

/// Reports measurements that were executed more than once.
fn executed_again(executed: &[&Execution]) -> Option<String> {
    let again = executed.iter().filter(|e| e.executions > 1).count();
    let most = executed.iter().map(|e| e.executions).max()?;
    let discarded: usize = executed.iter().map(|e| e.discarded.len()).sum();
    (again > 0).then(|| {
        format!(
            "{again} of {} measurements were executed more than once (at most {most} times); the \
             report shows the latest result of each and leaves out {discarded} earlier ok \
             results, whose records are in the lock",
            executed.len()
        )
    })
}

/// Reports measurements on a machine that was not quiet.
fn loud(executed: &[&Execution]) -> Option<String> {
    let loud: Vec<&str> = executed.iter().filter_map(|e| e.loud.as_deref()).collect();
    let first = loud.first()?;
    Some(format!(
        "for {} of {} measurements, the machine was not quiet when the run began: {first}",
        loud.len(),
        executed.len()
    ))
}

fn load_limits(
    data: &Data,
    input: &Input,
    say: &mut impl FnMut(&str, &str, String),
) -> Result<(), Miss> {
    for (source, cells) in sources(data, input)? {
        let text = match source.as_str() {
            "measured" => continue,
            "simulated" => "come from a declared model of a server and were not measured",
            "imported" => "were measured by another tool and imported",
            _ => "come from a source that their tables do not name",
        };
        let total = ok(input).count();
        say(
            "source",
            &input.stage,
            format!("the rows of {cells} of {total} cells {text}"),
        );
    }
    if ok(input).any(|cell| is_closed(&cell.parameters["arrival"])) {
        say(
            "closed loop",
            &input.stage,
            "a closed loop waits for its server, so it omits requests that a slow server would \
             keep waiting, and does not show how the server behaves under more load than it can \
             take"
                .to_owned(),
        );
    }
    let Ok(study) = data.study() else {
        return Ok(());
    };
    let repetitions = repetitions(&study.spec, &input.stage);
    if repetitions < 3 {
        let text = match repetitions {
            1 => "each coordinate is measured once; the spread between runs is unknown".to_owned(),
            n => format!(
                "each coordinate is measured {n} times, too few to estimate the spread between \
                runs"
            ),
        };
        say("repetitions", &input.stage, text);
    }
    if let Some(text) = shared_launches(&study.spec, &input.stage) {
        say("launches", &input.stage, text);
    }
    Ok(())
}

/// Whether clients wait for their answers: those of a closed loop, and the one that sends sequentially.
fn is_closed(arrival: &Json) -> bool {
    arrival == "sequential" || arrival.get("closed-loop").is_some()
}

/// Reports units of replication that share a launch, although a table declares them to be units: their spread lacks
/// that between launches.
fn shared_launches(spec: &Json, load: &str) -> Option<String> {
    let names = |value: &Json, key: &str| -> Vec<String> {
        let names = value[key].as_array().into_iter().flatten();
        names.filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let stages = &spec["stages"];
    let on_one_launch = names(&stages[load], "on_one_launch");
    let (mut units, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for reader in stages.as_object()?.values() {
        if reader["kind"] != "analyze" || !names(reader, "needs").iter().any(|name| name == load) {
            continue;
        }
        let tables = reader["settings"]["tables"].as_object();
        for table in tables.into_iter().flatten().map(|(_, table)| table) {
            let unit = match table.get("unit") {
                Some(_) => names(table, "unit"),
                None => vec![BLOCK.to_owned()],
            };
            let within: Vec<&String> = unit.iter().filter(|a| on_one_launch.contains(a)).collect();
            if !within.is_empty() {
                shared.extend(within.into_iter().cloned());
                units.extend(unit);
            }
        }
    }
    let listed = |axes: BTreeSet<String>| axes.into_iter().collect::<Vec<_>>().join(", ");
    (!shared.is_empty()).then(|| {
        format!(
            "the servers were not started again for each {}, so the units of {} share a launch: their spread does not show \
             how another launch would differ, and verdicts and intervals over them hold for these launches only",
            listed(shared),
            listed(units),
        )
    })
}

/// Reports clock throttling from the samples taken beside a load; `None` if they show none, or if a gate for it has its
/// own lines.
fn throttling(data: &Data, input: &Input) -> Result<Option<String>, Miss> {
    const GATE: &str = "throttling";
    for verify in data.stages().iter().filter(|s| s.kind == "verify") {
        let name = format!("{}.gates", verify.stage);
        let only = Condition(vec![(
            "gate".to_owned(),
            vec![Scalar::Text(GATE.to_owned())],
        )]);
        if data.has(&name) && !data.view(&name, &only)?.rows.is_empty() {
            return Ok(None);
        }
    }
    let mut sentences = Vec::new();
    let gpus = format!("{}.gpu_telemetry", input.stage);
    if data.has(&gpus) {
        let samples = data.view(&gpus, &Condition::default())?;
        let (mut sampled, mut limited, mut reasons) = (0_usize, 0_usize, BTreeSet::new());
        for row in 0..samples.rows.len() {
            if let Ok(Scalar::Text(text)) = samples.get(row, "throttle_reasons") {
                let here: Vec<String> = slowing_reasons(&text).map(str::to_owned).collect();
                sampled += 1;
                limited += usize::from(!here.is_empty());
                reasons.extend(here);
            }
        }
        if limited > 0 {
            let reasons: Vec<String> = reasons.into_iter().collect();
            sentences.push(format!(
                "the clocks of GPUs were limited in {limited} of {sampled} samples ({})",
                reasons.join(", ")
            ));
        }
    }
    let host = format!("{}.host_telemetry", input.stage);
    let mut cells: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    if data.has(&host) {
        let samples = data.view(&host, &Condition::default())?;
        for row in 0..samples.rows.len() {
            if let Ok(Scalar::Int(count)) = samples.get(row, "throttles") {
                let cell = samples.table.cell(samples.rows[row].0);
                let cell = cell.map_or(String::new(), |c| c.to_string());
                let ends = cells.entry(cell).or_insert((count, count));
                *ends = (ends.0.min(count), ends.1.max(count));
            }
        }
    }
    let slowdowns: i64 = cells.values().map(|(first, last)| last - first).sum();
    if slowdowns > 0 {
        let hot = cells.values().filter(|(first, last)| last > first).count();
        sentences.push(format!(
            "processors throttled because of heat {slowdowns} times, in {hot} cells"
        ));
    }
    let text = format!(
        "{}: the gate `{GATE}` lists the cells",
        sentences.join("; ")
    );
    Ok((!sentences.is_empty()).then_some(text))
}

/// Returns how often a load stage measures each coordinate.
pub(crate) fn repetitions(spec: &Json, stage: &str) -> usize {
    let axes = spec
        .pointer(&format!("/stages/{stage}/replicate"))
        .and_then(Json::as_array);
    let axes = axes.into_iter().flatten().filter_map(Json::as_str);
    let levels = axes.filter_map(|axis| spec.pointer(&format!("/axes/{axis}/labels"))?.as_array());
    levels.map(Vec::len).product()
}

/// Counts the ok cells of a load stage by the source of their rows, as verification counted them, or else from the
/// cells' own tables. Empty for a stage without such tables.
pub(crate) fn sources(data: &Data, input: &Input) -> Result<BTreeMap<String, usize>, Miss> {
    let only = ("stage".to_owned(), vec![Scalar::Text(input.stage.clone())]);
    let stage = || Condition(vec![only.clone()]);
    for verify in data
        .stages()
        .iter()
        .filter(|s| s.kind == "verify" && s.cells.len() == 1)
    {
        let name = format!("{}.census", verify.stage);
        if !data.has(&name) {
            continue;
        }
        let census = data.view(&name, &stage())?;
        if census.rows.len() == 1
            && let Ok(Scalar::Text(text)) = census.get(0, "sources")
        {
            return Ok(counts(&text, ok(input).count()));
        }
    }
    let name = format!("{}.cell", input.stage);
    let mut reasons = BTreeMap::new();
    if data.has(&name) {
        let cells = data.view(&name, &Condition::default())?;
        for row in 0..cells.rows.len() {
            let source = match cells.get(row, "source") {
                Ok(Scalar::Text(source)) => source,
                _ => "unknown".to_owned(),
            };
            *reasons.entry(source).or_default() += 1;
        }
    }
    Ok(reasons)
}

/// Parses the census text: `simulated`, or `3 imported, 5 measured` for several sources.
fn counts(text: &str, total: usize) -> BTreeMap<String, usize> {
    let parts = text.split(", ").map(|part| match part.split_once(' ') {
        Some((count, source)) => (source.to_owned(), count.parse().unwrap_or(total)),
        None => (part.to_owned(), total),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_client_that_waits_for_its_answers_is_a_closed_loop_too() {
        let closed = [json!("sequential"), json!({"closed-loop": {"clients": 4}})];
        assert!(closed.iter().all(is_closed));
        let open = [json!("burst"), json!({"poisson": {"rate": 2}}), json!(null)];
        assert!(!open.iter().any(is_closed));
    }

    #[test]
    fn a_study_that_several_hosts_measured_is_not_said_to_cover_one() {
        assert_eq!(covered(&BTreeSet::from(["n1"])).0, "one host");
        let (topic, text) = covered(&BTreeSet::from(["n2", "n1"]));
        assert_eq!(topic, "hosts");
        assert!(
            text.contains("2 machines of one kind and one build (n1, n2)"),
            "{text}"
        );
        assert!(!text.contains("  "), "{text}");
    }
}
