//! The ledger of planned cells, as tables that a report can look up.
//!
//! - `ledger`: one row per planned cell (stage, coordinates, status, reason; for a measurement also its place in the
//!   design, the number of executions, and the discarded results);
//! - `ledger.stages`: one row per stage (the number of planned cells, and of cells with each status);
//! - `ledger.makers`: one row for each host and person who measured cells of a stage, with the days; empty if one host
//!   measured all and nobody is named;
//! - `ledger.axes`: one row per axis (its levels in the order of the cells, and their number).

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use pipeline::design::Place;
use pipeline::stage::{CellStatus, Coordinates, Execution, LedgerLine, Study};

use crate::data::Miss;
use crate::view::Part;

/// Returns the ledger table of this name, if one exists.
pub(crate) fn table(name: &str, study: Option<&Study>) -> Result<Option<Part<Table>>, Miss> {
    if !matches!(
        name,
        "ledger" | "ledger.stages" | "ledger.makers" | "ledger.axes"
    ) {
        return Ok(None);
    }
    let study = study.ok_or_else(|| "this report does not see the study".to_owned())?;
    let table = match name {
        "ledger" => lines(&study.ledger),
        "ledger.stages" => stages(&study.ledger),
        "ledger.makers" => makers(&study.ledger),
        _ => axes(&study.ledger),
    };
    let content = Arc::new(table.map_err(|e| e.to_string())?);
    Ok(Some(Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b""),
        content,
    }))
}

fn lines(ledger: &[LedgerLine]) -> Result<Table, artifacts::TableError> {
    Table::with_metadata(
        vec![
            Column::text("stage", ledger.iter().map(|l| Some(l.stage.as_str()))),
            Column::text(
                "cell",
                ledger.iter().map(|l| Some(l.coordinates.to_string())),
            ),
            Column::text("status", ledger.iter().map(|l| Some(l.status.word()))),
            Column::text("reason", ledger.iter().map(|l| l.reason.clone())),
            Column::int(
                "evidence",
                ledger.iter().map(|l| i64::try_from(l.evidence.len()).ok()),
            ),
            of_execution(ledger, "order", |e| i64::try_from(e.order).ok())
                .describe("the place in the order of execution of its run, from 1"),
            of_place(ledger, "block", |p| p.block).describe("the block of the design, from 1"),
            of_place(ledger, "place", |p| p.place)
                .describe("the place of its launch in the block, from 1"),
            of_place(ledger, "position", |p| p.position)
                .describe("the place among the cells measured on its launch, from 1"),
            of_execution(ledger, "executions", |e| i64::try_from(e.executions).ok())
                .describe("how often it was executed under its recipe, failures included"),
            of_execution(ledger, "discarded", |e| {
                i64::try_from(e.discarded.len()).ok()
            })
            .describe("other ok results of the same recipe"),
            Column::text(
                "host",
                ledger.iter().map(|l| l.execution.as_ref()?.host.clone()),
            )
            .describe("the host that measured it"),
            Column::text(
                "by",
                ledger.iter().map(|l| l.execution.as_ref()?.by.clone()),
            )
            .describe("who measured it, if they chose to be named"),
            Column::text(
                "started",
                ledger.iter().map(|l| l.execution.as_ref()?.started.clone()),
            )
            .describe("when its measurement began, UTC"),
            Column::text(
                "discarded_records",
                ledger.iter().map(|l| {
                    let records = &l.execution.as_ref()?.discarded;
                    let texts: Vec<String> = records.iter().map(Digest::to_string).collect();
                    (!texts.is_empty()).then(|| texts.join(" "))
                }),
            ),
        ],
        &[("keys", "stage,cell")],
    )
}

fn of_execution(ledger: &[LedgerLine], name: &str, value: fn(&Execution) -> Option<i64>) -> Column {
    Column::int(name, ledger.iter().map(|l| value(l.execution.as_ref()?)))
}

fn of_place(ledger: &[LedgerLine], name: &str, value: fn(&Place) -> usize) -> Column {
    let place = |line: &LedgerLine| {
        let place = line.execution.as_ref()?.place.as_ref()?;
        i64::try_from(value(place)).ok()
    };
    Column::int(name, ledger.iter().map(place))
}

fn stages(ledger: &[LedgerLine]) -> Result<Table, artifacts::TableError> {
    let names = distinct(ledger.iter().map(|l| l.stage.clone()));
    let count = |keep: &dyn Fn(&LedgerLine) -> bool| {
        let counts: Vec<_> = names
            .iter()
            .map(|name| {
                i64::try_from(
                    ledger
                        .iter()
                        .filter(|l| l.stage == *name && keep(l))
                        .count(),
                )
                .ok()
            })
            .collect();
        counts
    };
    let statuses = [
        CellStatus::Ok,
        CellStatus::Failed,
        CellStatus::Hung,
        CellStatus::Timeout,
        CellStatus::Skipped,
        CellStatus::Excluded,
        CellStatus::Interrupted,
    ];
    let mut columns = vec![
        Column::text("stage", names.iter().map(|n| Some(n.as_str()))),
        Column::int("cells", count(&|_| true))
            .describe("cells of the stage, excluded ones counted"),
    ];
    columns.extend(
        statuses
            .iter()
            .map(|s| Column::int(s.word(), count(&|l| l.status == *s))),
    );
    columns.push(Column::int(
        "not_ok",
        count(&|l| !matches!(l.status, CellStatus::Ok | CellStatus::Excluded)),
    ));
    Table::with_metadata(columns, &[("keys", "stage")])
}

/// A person and a host.
type Maker = (Option<String>, Option<String>);

/// The cells of a stage that one person measured on one host, with the day of each, where known.
type Group = (String, Maker, Vec<Option<String>>);

fn makers(ledger: &[LedgerLine]) -> Result<Table, artifacts::TableError> {
    let mut groups: Vec<Group> = Vec::new();
    for line in ledger {
        let Some(execution) = &line.execution else {
            continue;
        };
        let maker = (execution.host.clone(), execution.by.clone());
        let same = |g: &&mut Group| g.0 == line.stage && g.1 == maker;
        let days = match groups.iter_mut().find(same) {
            Some((_, _, days)) => days,
            None => {
                groups.push((line.stage.clone(), maker, Vec::new()));
                &mut groups.last_mut().expect("just pushed").2
            }
        };
        let day = execution.started.as_ref().and_then(|s| s.split('T').next());
        days.push(day.map(str::to_owned));
    }
    // With one host and nobody named, the environment already has everything.
    let one = groups.iter().all(|g| g.1 == groups[0].1);
    if one && groups.first().is_none_or(|g| g.1.1.is_none()) {
        groups.clear();
    }
    let text = |value: fn(&Group) -> Option<String>| groups.iter().map(value);
    Table::with_metadata(
        vec![
            Column::text("stage", text(|g| Some(g.0.clone()))),
            Column::text("host", text(|g| g.1.0.clone())),
            Column::text("by", text(|g| g.1.1.clone())),
            Column::int(
                "cells",
                groups.iter().map(|g| i64::try_from(g.2.len()).ok()),
            ),
            Column::text("first", text(|g| g.2.iter().flatten().min().cloned())),
            Column::text("last", text(|g| g.2.iter().flatten().max().cloned())),
        ],
        &[("keys", "stage,host,by")],
    )
}

fn axes(ledger: &[LedgerLine]) -> Result<Table, artifacts::TableError> {
    let pairs = || ledger.iter().flat_map(|l| &l.coordinates.0);
    let names = distinct(pairs().map(|(axis, _)| axis.clone()));
    let levels: Vec<Vec<String>> = names
        .iter()
        .map(|name| {
            distinct(
                pairs()
                    .filter(|(axis, _)| axis == name)
                    .map(|(_, v)| v.to_string()),
            )
        })
        .collect();
    Table::with_metadata(
        vec![
            Column::text("axis", names.iter().map(|n| Some(n.as_str()))),
            Column::text("levels", levels.iter().map(|l| Some(l.join(", ")))),
            Column::int("count", levels.iter().map(|l| i64::try_from(l.len()).ok())),
        ],
        &[("keys", "axis")],
    )
}

fn distinct(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}
