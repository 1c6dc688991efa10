//! The reasons of a plan, each shown once with the cells that share it.

use std::collections::BTreeMap;

use artifacts::counted;
use pipeline::key::Difference;
use pipeline::{Decision, PlannedCell, Reason};

use super::plan::{because, word};
use crate::reasons::Roots;

/// The number of reasons shown per stage before the rest is only counted.
const REASONS_SHOWN: usize = 4;

/// Why a group of cells is not cached.
#[derive(Clone, PartialEq, Eq)]
enum Why<'a> {
    /// Its own reason, as text.
    Own(String),
    /// Each cell waits for a separate cell of this stage.
    Waits(&'a str),
    /// New cells, each different in these fields from the earlier cell that is most like it.
    New(Vec<String>),
    /// Blocked because of another cell, the first with that reason.
    Follows(String),
}

/// Cells of one stage that share a reason.
struct Group<'a> {
    why: Why<'a>,
    stage: &'a str,
    cells: Vec<&'a PlannedCell>,
}

/// Returns the reasons, one line each, with the cells that share them.
pub(super) fn grouped(cells: &[PlannedCell]) -> Vec<String> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let roots = roots(cells);
    for cell in cells {
        if matches!(cell.decision, Decision::Cached { .. }) {
            continue;
        }
        let why = why(cell, &roots);
        match groups
            .iter_mut()
            .find(|g| g.stage == cell.name.stage && g.why == why)
        {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group {
                why,
                stage: &cell.name.stage,
                cells: vec![cell],
            }),
        }
    }
    lines(&groups)
}

/// Returns the reasons of blocked cells that do not repeat another cell's reason, each with its first cell.
fn roots(cells: &[PlannedCell]) -> Roots {
    Roots::of(cells.iter().filter_map(|cell| match &cell.decision {
        Decision::Blocked { reason, .. } => Some((reason.as_str(), cell.name.to_string())),
        _ => None,
    }))
}

fn why<'a>(cell: &'a PlannedCell, roots: &Roots) -> Why<'a> {
    match &cell.decision {
        Decision::After { cell, count: 1 } => Why::Waits(cell.split('[').next().unwrap_or(cell)),
        Decision::Blocked { reason, .. } => match roots.followed(reason) {
            Some(first) => Why::Follows(first.to_owned()),
            None => Why::Own(text(&cell.decision)),
        },
        Decision::Run {
            reason:
                Reason::Changed {
                    than: Some(_),
                    differences,
                },
        } => Why::New(fields(differences)),
        decision => Why::Own(text(decision)),
    }
}

/// Returns what differs in a recipe, each once: its fields, and its inputs, whatever their cells.
fn fields(differences: &[Difference]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for difference in differences {
        let field = match &difference.input {
            Some(input) => format!("the input `{}`", input.split('[').next().unwrap_or(input)),
            None => format!("`{}`", difference.path),
        };
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    fields
}

/// Returns the decision as text, without a leading comma.
fn text(decision: &Decision) -> String {
    match decision {
        Decision::After { .. } => because(decision).trim_start_matches(", ").to_owned(),
        other => format!("{}{}", word(other), because(other)),
    }
}

/// Returns the cells of a group as text.
fn which(group: &Group<'_>) -> String {
    match group.cells.as_slice() {
        [one] => one.name.to_string(),
        many => format!("{} ({} cells)", group.stage, many.len()),
    }
}

fn lines(groups: &[Group<'_>]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    // Groups that follow the same cell share a line, after their common reason.
    let mut followed: Vec<(&str, Vec<String>)> = Vec::new();
    for group in groups {
        let line = match &group.why {
            Why::Follows(first) => {
                match followed.iter_mut().find(|(cell, _)| cell == first) {
                    Some((_, stages)) => stages.push(which(group)),
                    None => followed.push((first, vec![which(group)])),
                }
                continue;
            }
            Why::Own(text) => format!("{}: {text}", which(group)),
            Why::Waits(stage) => format!("{}: {}", which(group), waits(group, stage)),
            Why::New(fields) => format!("{}: {}", which(group), new(group, fields)),
        };
        let count = shown.entry(group.stage).or_default();
        *count += 1;
        if *count <= REASONS_SHOWN {
            lines.push(line);
        }
    }
    for (first, stages) in followed {
        lines.push(format!(
            "{}: blocked for the same reason as `{first}`",
            stages.join(", ")
        ));
    }
    for (stage, count) in shown {
        if count > REASONS_SHOWN {
            lines.push(format!(
                "{stage}: {}; `--cells` shows each cell",
                counted(count - REASONS_SHOWN, "more reason")
            ));
        }
    }
    lines
}

/// Returns in what the new cells of a group differ from earlier ones.
fn new(group: &Group<'_>, fields: &[String]) -> String {
    match (group.cells.as_slice(), fields) {
        ([one], _) => text(&one.decision),
        (_, []) => {
            "run, new; the recipe of each differs from that of the most similar earlier cell"
                .to_owned()
        }
        (_, fields) => {
            let shown = &fields[..fields.len().min(3)];
            let more = match fields.len().saturating_sub(shown.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "run, new; each differs from the most similar earlier cell in {}{more}",
                shown.join(", ")
            )
        }
    }
}

/// Returns what the cells of a group wait for: one common cell, or a separate cell of a stage for each.
fn waits(group: &Group<'_>, stage: &str) -> String {
    let mut waited = group.cells.iter().map(|cell| text(&cell.decision));
    let first = waited.next().unwrap_or_default();
    if waited.all(|other| other == first) {
        return first;
    }
    format!("each decided after its cell of `{stage}` runs; cached if its output is unchanged")
}

#[cfg(test)]
mod tests {
    use pipeline::CellStatus;
    use pipeline::place::WrittenCell;

    use super::*;

    fn cell(stage: &str, coordinates: &str, decision: Decision) -> PlannedCell {
        PlannedCell {
            name: WrittenCell {
                stage: stage.to_owned(),
                coordinates: coordinates.to_owned(),
            },
            decision,
            estimate_s: None,
        }
    }

    fn blocked(reason: &str) -> Decision {
        Decision::Blocked {
            status: CellStatus::Skipped,
            reason: reason.to_owned(),
        }
    }

    fn after(cell: &str, count: usize) -> Decision {
        Decision::After {
            cell: cell.to_owned(),
            count,
        }
    }

    #[test]
    fn new_cells_that_differ_in_the_same_fields_share_a_line() {
        let changed = |than: &str, rate: i64| Decision::Run {
            reason: Reason::Changed {
                than: Some(than.to_owned()),
                differences: vec![Difference {
                    input: None,
                    path: "arrival.poisson.rate".to_owned(),
                    old: Some(4.into()),
                    new: Some(rate.into()),
                }],
            },
        };
        let cells = [
            cell("load", "rate=5,rep=1", changed("load[rate=4,rep=1]", 5)),
            cell("load", "rate=6,rep=1", changed("load[rate=4,rep=1]", 6)),
        ];
        assert_eq!(
            grouped(&cells),
            [
                "load (2 cells): run, new; each differs from the most similar earlier cell in `arrival.poisson.rate`"
            ]
        );
        assert_eq!(
            grouped(&cells[..1]),
            [
                "load[rate=5,rep=1]: run, compared with `load[rate=4,rep=1]`: `arrival.poisson.rate` 4 → 5"
            ]
        );
    }

    #[test]
    fn a_reason_that_many_cells_share_is_said_once() {
        let cells = [
            cell("machine", "", blocked("no program `a`")),
            cell(
                "server",
                "rep=1",
                blocked("`machine` is skipped: no program `a`"),
            ),
            cell(
                "server",
                "rep=2",
                blocked("`machine` is skipped: no program `a`"),
            ),
            cell(
                "load",
                "rep=1",
                blocked("`server[rep=1]` is skipped: `machine` is skipped: no program `a`"),
            ),
            cell("results", "", blocked("no cell of `load` is ok")),
        ];
        assert_eq!(
            grouped(&cells),
            [
                "machine: blocked, no program `a`",
                "results: blocked, no cell of `load` is ok",
                "server (2 cells), load[rep=1]: blocked for the same reason as `machine`",
            ]
        );
    }

    #[test]
    fn cells_that_wait_each_for_its_own_cell_of_a_stage_share_a_line() {
        let cells = [
            cell("load", "rep=1", after("server[rep=1]", 1)),
            cell("load", "rep=2", after("server[rep=2]", 1)),
            cell("checks", "", after("load[rep=1]", 2)),
        ];
        assert_eq!(
            grouped(&cells),
            [
                "load (2 cells): each decided after its cell of `server` runs; cached if its output is \
                 unchanged",
                "checks: decided after `load[rep=1]` and 1 other run; cached if their outputs are unchanged",
            ]
        );
        assert_eq!(
            grouped(&[
                cell("server", "rep=1", after("machine", 1)),
                cell("server", "rep=2", after("machine", 1)),
            ]),
            ["server (2 cells): decided after `machine` runs; cached if its output is unchanged"]
        );
    }
}
