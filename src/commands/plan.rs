//! `plan`: shows for every cell whether it is cached, runs, is decided later or is blocked, and why.

use std::sync::Arc;

use artifacts::counted;
use pipeline::design::UnitOrder;
use pipeline::{Decision, DesignPlan, NoiseSource, Plan, PlannedDemand};
use serde_json::json;

use super::plan_reasons::grouped;
use crate::args::{Global, PlanArgs};
use crate::cluster_run;
use crate::columns::columns;
use crate::dry_run;
use crate::effect_text;
use crate::exit::Stop;
use crate::session::{Session, plan_options};
use crate::shared::Shared;
use crate::terminal::{complain, say, seconds};

pub(super) fn plan(arguments: &PlanArgs, global: &Global) -> Result<(), Stop> {
    let session = Session::open(&arguments.experiment, global)?;
    if arguments.commands {
        return commands(&session, global);
    }
    let store = session.project.open()?;
    let options = plan_options(&arguments.selection);
    let offers = match Shared::of(&arguments.remote)? {
        Some(shared) => shared.fetch(&session, &store, &options)?,
        None => Vec::new(),
    };
    let mut plan = session.plan(&store, &options)?;
    plan.notes.extend(offers);
    let shards = pipeline::shards(&session.experiment, &session.registry, &store, &options)?;
    if cluster_run::needs_store(&shards) && arguments.remote.remote.is_none() {
        plan.notes.push(
            "`run` needs `--remote FOLDER` (or BENCHTRAIL_REMOTE): a folder or a bucket that this machine and those of the \
             scheduler share"
                .to_owned(),
        );
    }
    let lock = pipeline::lock::lock_path(&session.experiment);
    let mut costs = cluster::costs(&session.experiment, &store, &lock, &shards)?;
    let machines =
        pipeline::rented_machines(&session.experiment, &session.registry, &store, &options)?;
    let rented = cluster::rented_costs(&session.experiment, &store, &machines)?;
    costs.extend(rented);
    let tried = match arguments.dry_run {
        true => Some(dry_run::try_out(&session, &Arc::default(), false)?),
        false => None,
    };
    let wrong = tried.as_ref().is_some_and(|t| t.errors().next().is_some());
    let end = || match plan.lacks.as_slice() {
        _ if wrong => Err(Stop::usage_printed()),
        [] => session.check_ready(&plan),
        lacks => Err(session.lacking(lacks, options.locked)),
    };
    if global.json {
        let mut json = json_of(&plan);
        for (kind, jobs) in cluster_run::json_of(&shards) {
            json[kind] = jobs;
        }
        if !costs.is_empty() {
            json["costs"] = costs.iter().map(cluster::Cost::json).collect();
        }
        if let Some(tried) = &tried {
            json["dry_run"] = dry_run::json_of(tried);
        }
        say(&json.to_string());
        return end();
    }
    say(&summary(&plan));
    if arguments.cells {
        for cell in &plan.cells {
            let name = cell.name.to_string();
            say(&format!(
                "{:<8} {name}{}",
                word(&cell.decision),
                because(&cell.decision)
            ));
        }
    } else {
        for line in grouped(&plan.cells) {
            say(&line);
        }
    }
    for line in plan.design.iter().flat_map(design) {
        say(&line);
    }
    for line in cluster_run::lines(&shards) {
        say(&line);
    }
    for cost in &costs {
        say(&cost.text());
    }
    for warning in &plan.warnings {
        say(&format!("warning: {warning}"));
    }
    for note in &plan.notes {
        say(&format!("note: {note}"));
    }
    if let Some(demand) = &plan.demand {
        say(&demand_text(demand));
    }
    say(&estimate(&plan));
    if let Some(tried) = &tried {
        for finding in &tried.findings {
            complain(&dry_run::text(finding));
        }
        say(&dry_run::verdict(tried));
    }
    end()
}

/// Shows what a run of the experiment does outside of this program.
fn commands(session: &Session, global: &Global) -> Result<(), Stop> {
    let store = &session.project.store;
    let effects = pipeline::effects(&session.experiment, &session.registry, store, None)?;
    if global.json {
        say(&json!({ "commands": effects }).to_string());
    } else if effects.is_empty() {
        say("the experiment starts no programs, downloads nothing and contacts no server");
    } else {
        effects
            .iter()
            .for_each(|effect| say(&effect_text::text(effect)));
    }
    Ok(())
}

/// Returns the table of counts: a line for each stage, and the same counts over all cells.
fn summary(plan: &Plan) -> String {
    let line = |name: &str, product: String, counts: &pipeline::Counts| {
        let numbers = [
            counts.cached,
            counts.run,
            counts.after,
            counts.blocked,
            counts.excluded,
            counts.sum(),
        ];
        let mut line = vec![name.to_owned(), product];
        line.extend(numbers.map(|n| {
            if n == 0 {
                "·".to_owned()
            } else {
                n.to_string()
            }
        }));
        line
    };
    let mut rows: Vec<Vec<String>> = plan
        .stages
        .iter()
        .map(|s| line(&s.stage, s.product.to_string(), &s.counts))
        .collect();
    let product: usize = plan.stages.iter().map(|s| s.product).sum();
    rows.push(line("all", product.to_string(), &plan.total));
    let heading = [
        "stage",
        "axes give",
        "cached",
        "run",
        "after",
        "blocked",
        "excluded",
        "cells",
    ];
    columns(&heading, &rows, &[1, 2, 3, 4, 5, 6, 7])
}

pub(super) fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Cached { .. } => "cached",
        Decision::Run { .. } => "run",
        Decision::After { .. } => "after",
        Decision::Blocked { .. } => "blocked",
        Decision::Excluded { .. } => "excluded",
    }
}

pub(super) fn because(decision: &Decision) -> String {
    match decision {
        Decision::Cached { .. } => String::new(),
        Decision::Run { reason } => format!(", {reason}"),
        Decision::After { count: 0, .. } => ", decided after the rest of the study has run".into(),
        Decision::After { cell, count: 1 } => {
            format!(", decided after `{cell}` runs; cached if its output is unchanged")
        }
        Decision::After { cell, count } => {
            format!(
                ", decided after `{cell}` and {} run; cached if their outputs are unchanged",
                counted(count - 1, "other")
            )
        }
        Decision::Blocked { reason, .. } | Decision::Excluded { reason } => format!(", {reason}"),
    }
}

/// The number of blocks whose order is shown before the rest is only counted.
const BLOCKS_SHOWN: usize = 8;

/// Describes the design, its launch order, and the effects it can find.
fn design(design: &DesignPlan) -> Vec<String> {
    let all = design.blocks * design.launches.len();
    let mut lines = vec![format!(
        "design: {} of {} of `{}`, {} in each block; {}, {} to measure",
        counted(design.blocks, "block"),
        counted(design.launches.len(), "launch"),
        design.unit,
        order_text(design.order),
        counted(all, "launch"),
        design.to_launch,
    )];
    if let Some(until) = &design.until {
        lines.push(format!(
            "  {} or more: no further one once `{}` of every launch is known to ± {:.1} % (95 %, at every look)",
            counted(until.at_least, "block"),
            until.figure,
            100.0 * until.relative_half_width
        ));
    }
    if let Some((arm, original)) = &design.control {
        lines.push(format!(
            "  A/A arm: {arm} is {original} launched a second time"
        ));
    }
    // A single launch has no order.
    let in_order = if design.launches.len() > 1 {
        design.sequence.as_slice()
    } else {
        &[]
    };
    for (i, block) in in_order.iter().take(BLOCKS_SHOWN).enumerate() {
        lines.push(format!("  block {}: {}", i + 1, block.join(" → ")));
    }
    if in_order.len() > BLOCKS_SHOWN {
        let more = counted(in_order.len() - BLOCKS_SHOWN, "more block");
        lines.push(format!("  {more}; `--json` shows their order"));
    }
    for launch in &design.in_part {
        lines.push(format!(
            "  note: {launch} was measured in part; the rest comes from another start of the same settings"
        ));
    }
    lines.extend(smallest(design));
    lines
}

/// Returns the smallest effect that the design can find.
fn smallest(design: &DesignPlan) -> Vec<String> {
    if design.smallest.is_empty() {
        return vec![format!(
            "  a comparison needs at least three blocks: with {} it stays undecidable",
            design.blocks
        )];
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let source = match design.noise {
        NoiseSource::Measured { figure, blocks } => {
            format!("seen in `{figure}` over {}", counted(blocks, "block"))
        }
        NoiseSource::Declared => "as declared".to_owned(),
        NoiseSource::Unknown => "no two launches of one block were measured before".to_owned(),
    };
    let effects: Vec<String> = design
        .smallest
        .iter()
        .map(|s| format!("{} at a noise of {}", percent(s.effect), percent(s.noise)))
        .collect();
    let (blocks, looks) = match &design.until {
        Some(until) => (until.at_least, " at every look"),
        None => (design.blocks, ""),
    };
    vec![
        format!(
            "  a comparison of two launches has {} of freedom; the smallest difference it finds in four \
             of five studies (one comparison at 5 %{looks}; noise of launches: {source}):",
            counted(blocks.saturating_sub(1), "degree")
        ),
        format!("    {}", effects.join(", ")),
    ]
}

fn order_text(order: UnitOrder) -> &'static str {
    match order {
        UnitOrder::Randomised => "in random order",
        UnitOrder::Abba => "as declared, then reversed",
        UnitOrder::LatinSquare => "in the order of a Latin square",
        UnitOrder::Declared => "in the declared order",
    }
}

/// Returns the load of the cells as a sentence. It comes from the settings alone, so it needs no records.
fn demand_text(demand: &PlannedDemand) -> String {
    let PlannedDemand {
        cells: count,
        requests,
        uncounted_cells,
        seconds: least,
    } = demand;
    let mut text = match count - uncounted_cells {
        0 => "to measure:".to_owned(),
        counted_cells => format!(
            "to measure: {} in {}",
            counted(*requests, "request"),
            cells(counted_cells)
        ),
    };
    if *uncounted_cells > 0 {
        let and = if count > uncounted_cells { ", and" } else { "" };
        let more = cells(*uncounted_cells);
        text.push_str(&format!(
            "{and} as many requests as fit into the time or the sessions of {more}"
        ));
    }
    if *least > 0.0 {
        text.push_str(&format!(
            "; the declared rates and durations take at least {}",
            seconds(*least)
        ));
    }
    text
}

/// Returns the estimate as a sentence.
pub(super) fn estimate(plan: &Plan) -> String {
    let todo = plan.total.run + plan.total.after;
    match plan.estimate_s {
        _ if todo == 0 && plan.total.blocked > 0 => {
            format!(
                "no cell can be executed: {} blocked",
                cells(plan.total.blocked)
            )
        }
        _ if todo == 0 => "nothing to execute".to_owned(),
        None => format!(
            "{} may execute; there is no time estimate yet (run a few cells to get one: `run --profile NAME`, or \
             `run --only CELL`)",
            cells(todo)
        ),
        Some(span) if plan.without_estimate == 0 => {
            format!(
                "{} may execute: about {}, according to earlier records",
                cells(todo),
                seconds(span)
            )
        }
        Some(span) => format!(
            "{} may execute: about {}, according to earlier records, not counting {} without any",
            cells(todo),
            seconds(span),
            cells(plan.without_estimate)
        ),
    }
}

fn cells(count: usize) -> String {
    counted(count, "cell")
}

fn json_of(plan: &Plan) -> serde_json::Value {
    let cells = plan.cells.iter().map(|cell| {
        json!({
            "stage": cell.name.stage, "coordinates": cell.name.coordinates, "status": word(&cell.decision),
            "decision": cell.decision, "estimate_s": cell.estimate_s,
        })
    });
    json!({
        "experiment": plan.experiment, "profile": plan.profile, "cells": cells.collect::<Vec<_>>(),
        "stages": plan.stages, "total": plan.total, "estimate_s": plan.estimate_s,
        "without_estimate": plan.without_estimate, "demand": plan.demand, "design": plan.design, "notes": plan.notes, "warnings": plan.warnings, "lacks": plan.lacks, "trail": plan.trail,
    })
}
