//! The page of a study that cannot be measured here: its plan, its requirements and what is missing, without any
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use artifacts::counted;

use crate::experiment::{Experiment, Stage};
use crate::plan::{Decision, Plan, PlannedDemand};
use crate::stage::{Class, Registry};

/// The largest number of listed labels of an axis.
const LABELS: usize = 24;

/// Returns the page of a study without measurements, existing or possible, as Markdown; `None` if any measurement is
/// cached or can be made.
pub fn not_run(experiment: &Experiment, plan: &Plan, registry: &Registry) -> Option<String> {
    let measurement = |stage: &str| {
        let declared = experiment.stages.iter().find(|s| s.name == stage);
        declared.is_some_and(|s| s.class == Class::Measurement)
    };
    let mut measured = plan
        .cells
        .iter()
        .filter(|cell| measurement(&cell.name.stage))
        .peekable();
    let cannot = |decision: &Decision| {
        matches!(
            decision,
            Decision::Blocked { .. } | Decision::Excluded { .. }
        )
    };
    if plan.lacks.is_empty() || measured.peek().is_none() || !measured.all(|c| cannot(&c.decision))
    {
        return None;
    }
    let mut page = String::new();
    let text = |key: &str| experiment.spec[key].as_str().map(cell);
    let title = text("title").unwrap_or_else(|| cell(&experiment.name));
    let _ = writeln!(page, "# Not run: {title}\n");
    let _ = writeln!(
        page,
        "This study was not measured, because this machine lacks what it needs. This page shows what is missing, and \
         the plan. It has no results.\n"
    );
    if let Some(question) = text("question") {
        let _ = writeln!(page, "> {question}\n");
    }
    missing(&mut page, plan);
    required(&mut page, experiment, registry);
    planned(&mut page, experiment, plan);
    left_out(&mut page, experiment);
    Some(page)
}

/// Writes what this machine lacks, with the remedies.
fn missing(page: &mut String, plan: &Plan) {
    let _ = writeln!(
        page,
        "## What is missing here\n\n| missing | remedy |\n|---|---|"
    );
    for lack in &plan.lacks {
        let hint = lack.hint.as_deref().unwrap_or("–");
        let _ = writeln!(page, "| {} | {} |", cell(&lack.reason), cell(hint));
    }
    page.push('\n');
}

/// Writes the requirements of the stages, each once with the stages that need it.
fn required(page: &mut String, experiment: &Experiment, registry: &Registry) {
    let mut needed: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for stage in &experiment.stages {
        let kind = registry.kinds.iter().find(|kind| kind.name() == stage.kind);
        for parameters in &stage.parameter_sets {
            for thing in kind
                .map(|kind| kind.requires(parameters))
                .unwrap_or_default()
            {
                needed.entry(thing).or_default().insert(&stage.name);
            }
        }
        for name in &stage.exclusive {
            let thing = format!("{name}, for one cell at a time");
            needed.entry(thing).or_default().insert(&stage.name);
        }
    }
    if needed.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "## What the study needs\n\n| needed | by the stages |\n|---|---|"
    );
    for (thing, stages) in needed {
        let stages: Vec<String> = stages
            .into_iter()
            .map(|stage| format!("`{stage}`"))
            .collect();
        let _ = writeln!(page, "| {} | {} |", cell(&thing), stages.join(", "));
    }
    page.push('\n');
}

/// Writes the axes, and the stages with their numbers of cells.
fn planned(page: &mut String, experiment: &Experiment, plan: &Plan) {
    let _ = writeln!(page, "## The plan\n\n| axis | labels |\n|---|---|");
    for axis in &experiment.axes {
        let mut labels: Vec<String> = axis.labels.iter().map(|l| cell(&l.to_string())).collect();
        let more = labels.len().saturating_sub(LABELS);
        labels.truncate(LABELS);
        if more > 0 {
            labels.push(format!("and {more} more"));
        }
        let _ = writeln!(page, "| {} | {} |", cell(&axis.name), labels.join(", "));
    }
    let _ = writeln!(
        page,
        "\n| stage | kind | over | cells planned | left out |\n|---|---|---|---:|---:|"
    );
    for counts in &plan.stages {
        let Some(stage) = experiment.stages.iter().find(|s| s.name == counts.stage) else {
            continue;
        };
        let over: Vec<String> = stage
            .over
            .iter()
            .map(|axis| cell(&experiment.axes[*axis].name))
            .collect();
        let excluded = counts.counts.excluded;
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {excluded} |",
            cell(&stage.name),
            stage.kind,
            over.join(", "),
            counts.counts.sum() - excluded,
        );
    }
    page.push('\n');
    if let Some(demand) = &plan.demand {
        let _ = writeln!(page, "To measure: {}.\n", to_measure(demand));
    }
}

/// Returns the load that a plan puts on servers, for people.
fn to_measure(demand: &PlannedDemand) -> String {
    let mut parts = Vec::new();
    let of_known_size = demand.cells - demand.uncounted_cells;
    if of_known_size > 0 {
        parts.push(format!(
            "{} in {}",
            counted(demand.requests, "request"),
            counted(of_known_size, "cell")
        ));
    }
    if demand.uncounted_cells > 0 {
        parts.push(format!(
            "as many requests as fit into the time or the sessions of {}",
            counted(demand.uncounted_cells, "cell")
        ));
    }
    parts.join(", and ")
}

/// Writes the reasons for excluded cells, with the number of cells.
fn left_out(page: &mut String, experiment: &Experiment) {
    let reasons = |stage: &Stage| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for excluded in &stage.excluded {
            *counts.entry(excluded.reason.clone()).or_default() += 1;
        }
        counts
    };
    if experiment
        .stages
        .iter()
        .all(|stage| stage.excluded.is_empty())
    {
        return;
    }
    let _ = writeln!(
        page,
        "## Left out by the experiment\n\n| stage | cells | reason |\n|---|---:|---|"
    );
    for stage in &experiment.stages {
        for (reason, count) in reasons(stage) {
            let _ = writeln!(
                page,
                "| {} | {count} | {} |",
                cell(&stage.name),
                cell(&reason)
            );
        }
    }
    page.push('\n');
}

/// Returns a text for a table cell or a line, escaped so that it does not break either. Text between backticks is code, in
/// which a backslash escapes only what separates cells.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = text.matches('`').count() / 2;
    let (mut out, mut ticks) = (String::new(), 0);
    for c in text.chars() {
        ticks += usize::from(c == '`');
        let is_code = ticks % 2 == 1 && ticks < 2 * pairs;
        let is_mark = matches!(c, '<' | '>' | '[' | ']' | '*' | '_' | '\\' | '#');
        if c == '|' || is_mark && !is_code {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_a_cell_is_shown_as_it_is() {
        assert_eq!(
            cell("a_b\n[c] | `d_[e]` f_"),
            "a\\_b \\[c\\] \\| `d_[e]` f\\_"
        );
        assert_eq!(cell("`a|b` one ` x_y"), "`a\\|b` one ` x\\_y");
    }
}
