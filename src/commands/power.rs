//! `power`: simulates how often the verdicts of an experiment would be wrong, and what they would find.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analyze::power::{
    AtEffect, LoadCell, LoadStage, Power, SharedLaunches, Simulated, Study, Until, simulate,
};
use artifacts::counted;
use pipeline::stage::Control;
use pipeline::{
    Coordinates, Experiment, LaunchedCell, Launches, NoiseSource, PlanOptions, StageId,
};
use serde_json::json;

use crate::args::{Global, PowerArgs};
use crate::columns::columns;
use crate::exit::Stop;
use crate::session::Session;
use crate::signals::listen_for_signals;
use crate::terminal::say;

/// The noise of launches if it is unknown.
const USUAL_NOISE: f64 = 0.03;

/// The noise of requests if it is not given.
const USUAL_REQUESTS: f64 = 0.1;

pub(super) fn power(arguments: &PowerArgs, global: &Global) -> Result<(), Stop> {
    let effects = shares("effect", &arguments.effect)?;
    let session = Session::open(&arguments.experiment, global)?;
    let noise = Noise::of(arguments, &session)?;
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let control = Control::new(cancelled, None, Box::new(|_| ()));
    let mut simulated: Vec<(String, Power)> = Vec::new();
    for (name, study) in studies(&session, &noise)? {
        let power = simulate(&study, &effects, arguments.studies, &control);
        let power = power.map_err(|failure| match control.check() {
            Err(_) => Stop::interrupted(),
            Ok(()) => Stop::failed(failure.reason),
        })?;
        simulated.push((name, power));
    }
    simulated.retain(|(_, power)| !power.tables.is_empty());
    if simulated.is_empty() {
        let name = &session.experiment.name;
        return Err(Stop::nothing(format!("{name} has no table of comparisons"))
            .hint("tables of the operators `paired-comparison`, `unpaired-comparison`, `crossover` and `ranking` are simulated"));
    }
    if global.json {
        let stages: Vec<_> = simulated
            .iter()
            .map(|(stage, power)| json!({"stage": stage, "found": power}))
            .collect();
        say(&json!({
            "experiment": session.experiment.name,
            "launch_noise": noise.launch,
            "launch_noise_from": noise.from,
            "cell_noise": noise.cell,
            "request_noise": noise.requests,
            "stages": stages,
        })
        .to_string());
        return Ok(());
    }
    let percent = |share: f64| format!("{} %", trimmed(100.0 * share));
    say(&format!(
        "{} simulated studies; launches vary by {} ({}), cells within a launch by {}, requests within a cell by {}",
        arguments.studies,
        percent(noise.launch),
        noise.from,
        percent(noise.cell),
        percent(noise.requests),
    ));
    for (stage, power) in &simulated {
        say(&table(stage, power, &effects));
        for refused in power.tables.iter().filter(|t| t.refused.is_some()) {
            let why = refused.refused.as_deref().unwrap_or_default();
            say(&format!("{stage}.{}: {why}", refused.table));
        }
        beside(stage, power).iter().for_each(|line| say(line));
    }
    let error = (0.05 * 0.95 / arguments.studies as f64).sqrt();
    say(&format!(
        "false: studies without an effect in which any verdict of the table is `different`; the \
         standard error at 5 % is {}.\n\
         other columns: the share of the table's comparisons that are `different` if the first side is larger by this effect; \
         for a crossover, the share shown if the winner changes by this effect in the middle of the ladder; \
         for a ranking, the share in which the first contender, better by this effect, is distinguished from all others.",
        percent(error)
    ));
    Ok(())
}

/// Returns the lines of a stage below its table.
fn beside(stage: &str, power: &Power) -> Vec<String> {
    let mut lines = Vec::new();
    let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / power.studies as f64);
    let named = |keep: fn(&Simulated) -> bool| {
        let names = power.tables.iter().filter(|t| keep(t));
        let names: Vec<&str> = names.map(|t| t.table.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let apart = named(|t| !t.check && t.level_of_its_own);
    let apart = apart.map_or_else(String::new, |names| {
        format!("; the level of {names} adds to that of the study")
    });
    if power.tables.iter().any(|t| !t.check) {
        lines.push(format!(
            "{stage}: {} of the studies without an effect have a false verdict in any table{apart}",
            share(power.any_different)
        ));
    }
    if let Some(names) = named(|t| t.check) {
        lines.push(format!(
            "{stage}: checks are counted separately: in {} of the studies without an effect, \
            {names} finds a difference",
            share(power.any_check_different)
        ));
    }
    lines.extend(power.tables.iter().filter_map(|t| of_launches(stage, t)));
    lines.extend(power.tables.iter().filter_map(|t| of_margins(stage, t)));
    if let Some(blocks) = power.blocks {
        lines.push(format!(
            "{stage}: a study ends after {blocks:.1} blocks on average"
        ));
    }
    if !power.others.is_empty() {
        let names = power.others.iter();
        let names: Vec<String> = names
            .map(|o| format!("{} ({})", o.table, o.operator))
            .collect();
        lines.push(format!(
            "{stage}: not simulated, because they have no test: {}",
            names.join(", ")
        ));
    }
    lines
}

/// Returns what follows for a table whose units share launches, and what to do about it.
fn of_launches(stage: &str, table: &Simulated) -> Option<String> {
    let shared: &SharedLaunches = table.shared_launches.as_ref()?;
    let quoted = |axes: &[String]| format!("`{}`", axes.join("`, `"));
    let remedy = match shared.instead.is_empty() {
        true => format!(
            "Launch the sides again for each unit: write `design: {{blocks: {}}}` and remove `unit`, or expand the serve stage \
             over an axis of the unit",
            shared.units.max(5)
        ),
        false => format!("Write `unit: [{}]`", shared.instead.join(", ")),
    };
    Some(format!(
        "{stage}.{}: the {} of {} share launches ({} of a side), because the servers are not started again for each {}. What \
         differs between launches then looks like a difference between the sides, and `false` counts this. {remedy}",
        table.table,
        counted(shared.units, "unit"),
        quoted(&shared.unit),
        counted(shared.launches, "launch"),
        shared.within.join(", "),
    ))
}

/// Returns what the margins of a table show: without an effect, and wrongly at the margin itself.
fn of_margins(stage: &str, table: &Simulated) -> Option<String> {
    let null = table.at.first().filter(|at| at.rows_with_margin > 0)?;
    let share = |count: u64, total: u64| format!("{:.1} %", 100.0 * count as f64 / total as f64);
    let all = null.rows_with_margin;
    let (a, b) = (&table.a, &table.b);
    let mut line = format!(
        "{stage}.{}: without an effect, {} of the comparisons with a margin are `equivalent`; the rule `not-worse` holds in {} \
         if lower is better ({a} not higher than {b}), and in {} if higher is better",
        table.table,
        share(null.rows_equivalent, all),
        share(null.rows_not_higher, all),
        share(null.rows_not_lower, all),
    );
    // The smallest effect that reaches the margin is the hardest to distinguish from one within it.
    let at = table.at.iter().filter(|at| at.rows_at_margin > 0);
    if let Some(at) = at.min_by(|x, y| x.effect.total_cmp(&y.effect)) {
        line.push_str(&format!(
            ". If {a} is higher by a margin of {} %, this is false: `equivalent` in {}, `not-worse` in {}",
            trimmed(100.0 * at.effect),
            share(at.false_equivalent, at.rows_at_margin),
            share(at.false_not_higher, at.rows_at_margin),
        ));
    }
    Some(line)
}

/// Returns percentages as shares.
fn shares(option: &str, percentages: &[f64]) -> Result<Vec<f64>, Stop> {
    let fine = |value: &f64| *value > 0.0 && *value <= 1000.0;
    match percentages.iter().find(|value| !fine(value)) {
        Some(wrong) => Err(Stop::usage(format!("--{option} cannot be {wrong}"))
            .hint("give a percentage above 0, up to 1000")),
        None => Ok(percentages.iter().map(|value| value / 100.0).collect()),
    }
}

/// The simulated noise, as shares.
struct Noise {
    launch: f64,
    cell: f64,
    requests: f64,
    /// The source of the noise of launches.
    from: String,
}

impl Noise {
    fn of(arguments: &PowerArgs, session: &Session) -> Result<Self, Stop> {
        let given = |option: &str, value: Option<f64>| -> Result<Option<f64>, Stop> {
            Ok(shares(option, &value.into_iter().collect::<Vec<_>>())?.pop())
        };
        let (launch, from) = match given("noise", arguments.noise)? {
            Some(noise) => (noise, "as given".to_owned()),
            None => Self::planned_noise(session)?,
        };
        let cell = given("cell-noise", arguments.cell_noise)?.unwrap_or(launch / 2.0);
        let requests = given("request-noise", arguments.request_noise)?.unwrap_or(USUAL_REQUESTS);
        Ok(Self {
            launch,
            cell,
            requests,
            from,
        })
    }

    /// Returns the noise from the plan.
    fn planned_noise(session: &Session) -> Result<(f64, String), Stop> {
        let store = session.project.open()?;
        let options = PlanOptions::default();
        let plan = pipeline::plan(&session.experiment, &session.registry, &store, &options)?;
        let design = plan.design.as_ref();
        let from = match design.map(|d| &d.noise) {
            Some(NoiseSource::Measured { figure, blocks }) => {
                let blocks = counted(*blocks, "block");
                format!("measured: `{figure}` over {blocks}")
            }
            Some(NoiseSource::Declared) => "as declared".to_owned(),
            Some(NoiseSource::Unknown) | None => "assumed".to_owned(),
        };
        let noise = design.and_then(|d| d.launch_noise);
        Ok((noise.unwrap_or(USUAL_NOISE), from))
    }
}

/// Returns the study to simulate for each analyze cell, by name.
fn studies(session: &Session, noise: &Noise) -> Result<Vec<(String, Study)>, Stop> {
    let experiment = &session.experiment;
    let launches = Launches::of(experiment, &session.registry)?;
    let mut studies = Vec::new();
    for (id, stage) in experiment.stages.iter_enumerated() {
        for cell in stage.cells.iter().filter(|_| stage.kind == "analyze") {
            let at = experiment.coordinates(id, &cell.at);
            let study = Study {
                parameters: stage.parameter_sets[cell.parameters as usize].clone(),
                loads: loads(experiment, &launches, id, &at),
                launch_noise: noise.launch,
                cell_noise: noise.cell,
                request_noise: noise.requests,
                until: experiment.design.as_ref().and_then(until),
                seed: experiment.seed,
            };
            studies.push((
                pipeline::place::cell_text(&stage.name, &at.to_string()),
                study,
            ));
        }
    }
    Ok(studies)
}

/// Returns the rule by which a study ends.
fn until(design: &pipeline::design::Design) -> Option<Until> {
    let rule = design.until.as_ref()?;
    Some(Until {
        relative_half_width: rule.relative_half_width,
        figure: rule.figure.clone(),
        at_least: rule.at_least,
    })
}

/// Returns the load stages that an analyze cell needs, with the cells that it reads.
fn loads(
    experiment: &Experiment,
    launches: &Launches,
    stage: StageId,
    at: &Coordinates,
) -> Vec<LoadStage> {
    let needed = experiment.stages[stage].needs.iter();
    let loads = needed.filter(|need| experiment.stages[**need].kind == "load");
    let load = |need: &StageId| {
        let planned = &experiment.stages[*need];
        let agrees = |cell: &LoadCell| {
            let same = |(axis, label)| cell.at.get(axis).is_none_or(|other| other == label);
            at.0.iter()
                .map(|(axis, label)| (axis.as_str(), label))
                .all(same)
        };
        let cell = |(launched, cell): (&LaunchedCell, &pipeline::Cell)| {
            let settings = &planned.parameter_sets[cell.parameters as usize];
            let requests = settings["requests"].as_u64();
            LoadCell {
                at: launched.at.clone(),
                seat: launched.seat,
                launch: launched.launch,
                requests: requests
                    .and_then(|n| usize::try_from(n).ok())
                    .filter(|n| *n > 0),
            }
        };
        let cells = launches.of_stage(*need).iter().zip(&planned.cells);
        LoadStage {
            stage: planned.name.clone(),
            cells: cells.map(cell).filter(agrees).collect(),
        }
    };
    loads.map(load).collect()
}

/// Returns the heads of the columns. A row of a ranking or of a crossover has several tests, so their number is not that of
/// the tests of a family.
fn heading(effects: &[f64]) -> Vec<String> {
    let fixed = ["table", "rows", "false"].map(str::to_owned);
    let effects = effects.iter().map(|e| format!("{} %", trimmed(100.0 * e)));
    fixed.into_iter().chain(effects).collect()
}

/// Formats the results, one line per table.
fn table(stage: &str, power: &Power, effects: &[f64]) -> String {
    let heading = heading(effects);
    let line = |table: &Simulated| {
        let name = format!("{stage}.{}", table.table);
        let (Some(null), false) = (table.at.first(), table.refused.is_some()) else {
            let mut line = vec![name, "-".to_owned(), "undecidable".to_owned()];
            line.extend(effects.iter().map(|_| "-".to_owned()));
            return line;
        };
        let percent = |count: u64, all: u64| format!("{:.1} %", 100.0 * count as f64 / all as f64);
        let rows = |at: &AtEffect| percent(at.rows_found, table.rows as u64 * power.studies);
        let mut line = vec![name, table.rows.to_string()];
        line.push(percent(null.any_different, power.studies));
        line.extend(table.at.iter().skip(1).take(effects.len()).map(rows));
        line
    };
    let rows: Vec<Vec<String>> = power.tables.iter().map(line).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    columns(&heading, &rows, &(1..heading.len()).collect::<Vec<_>>())
}

/// Formats a number without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::heading;

    #[test]
    fn the_number_of_rows_is_not_called_one_of_tests() {
        assert_eq!(
            heading(&[0.05, 0.125]),
            ["table", "rows", "false", "5 %", "12.5 %"]
        );
    }
}
