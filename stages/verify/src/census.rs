//! The table `census`: cells, rows and files of each load stage, counted two ways.

use std::collections::BTreeMap;

use artifacts::{Table, TableError};
use contract::{CensusRow, Row as _};
use pipeline::CellStatus;
use rayon::prelude::*;

use crate::finding::GateJudgement;
use crate::gates::files;
use crate::study::{Cell, Stage};

/// Makes the table `census`.
pub(crate) fn census_table(
    stages: &[Stage<'_>],
    findings: &[GateJudgement<'_>],
) -> Result<Table, TableError> {
    let with = |s: &Stage<'_>, status: CellStatus| {
        s.cells.iter().filter(|c| c.input.status == status).count()
    };
    let barred = |s: &Stage<'_>| {
        let cells: std::collections::BTreeSet<Option<usize>> = findings
            .iter()
            .filter(|f| f.stage.name == s.name && f.bars_its_cell())
            .map(|f| f.judgement.cell)
            .collect();
        cells.len()
    };
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let row = |s: &Stage<'_>| {
        let status = |status| count(with(s, status));
        let rows = Rows::of(s);
        CensusRow {
            stage: s.name.to_owned(),
            sources: Some(sources_text(&sources(s))).filter(|text| !text.is_empty()),
            product: match s.cells.is_empty() {
                true => 0,
                false => count(s.labels().iter().map(Vec::len).product()),
            },
            planned: count(s.cells.len()),
            excluded: status(CellStatus::Excluded),
            ok: status(CellStatus::Ok),
            failed: status(CellStatus::Failed),
            hung: status(CellStatus::Hung),
            timeout: status(CellStatus::Timeout),
            skipped: status(CellStatus::Skipped),
            interrupted: status(CellStatus::Interrupted),
            barred: count(barred(s)),
            rows_measured: rows.measured,
            rows_measured_ok: rows.measured_ok,
            rows_warmup: rows.warmup,
            rows_superseded: rows.superseded,
            rows_missing: rows.missing,
            rows_unexpected: rows.unexpected,
            files_odd: count(files(s).len()),
            rows_expected: s
                .cells
                .iter()
                .filter_map(|c| c.fact("expected_requests"))
                .sum(),
        }
    };
    let rows: Vec<CensusRow> = stages.iter().map(row).collect();
    let columns = CensusRow::columns(&rows);
    Table::with_metadata(columns, &[("keys", "stage"), ("level", "marginal")])
}

/// The counts of the rows of cells.
#[derive(Default)]
struct Rows {
    measured: i64,
    measured_ok: i64,
    warmup: i64,
    superseded: i64,
    /// Measured rows that cells planned but lack, or have in excess.
    missing: i64,
    unexpected: i64,
}

impl Rows {
    fn of(stage: &Stage<'_>) -> Self {
        let counted = stage.cells.par_iter().map(Self::of_cell);
        counted.reduce(Self::default, |a, b| Self {
            measured: a.measured + b.measured,
            measured_ok: a.measured_ok + b.measured_ok,
            warmup: a.warmup + b.warmup,
            superseded: a.superseded + b.superseded,
            missing: a.missing + b.missing,
            unexpected: a.unexpected + b.unexpected,
        })
    }

    fn of_cell(cell: &Cell<'_>) -> Self {
        let Some(rows) = cell.answers() else {
            return Self::default();
        };
        let count = |keep: &dyn Fn(&contract::Request) -> bool| {
            let kept = rows.requests.iter().filter(|r| keep(r)).count();
            i64::try_from(kept).unwrap_or(i64::MAX)
        };
        let measured = count(&|r| r.is_measured());
        // Requests that were not sent because the duration was over have no row.
        let unsent = cell.fact("unsent_requests").unwrap_or(0);
        let gap = cell.fact("expected_requests").map_or(0, |planned| {
            planned.saturating_sub(measured).saturating_sub(unsent)
        });
        Self {
            measured,
            measured_ok: count(&|r| r.is_measured() && r.is_ok()),
            warmup: count(&|r| !r.is_measured() && !r.superseded),
            superseded: count(&|r| r.superseded),
            missing: gap.max(0),
            unexpected: gap.min(0).saturating_abs(),
        }
    }
}

/// Returns the sources of a stage's ok cells, each with the number of its cells.
pub(crate) fn sources(stage: &Stage<'_>) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cell in stage.cells.iter().filter(|c| c.about().is_some()) {
        let source = cell.fact_text("source").unwrap_or("unknown");
        *counts.entry(source.to_owned()).or_default() += 1;
    }
    counts
}

/// Formats sources as one text: a single one by its name, several each with the number of its
/// cells.
pub(crate) fn sources_text(sources: &BTreeMap<String, usize>) -> String {
    match sources.len() {
        1 => sources
            .keys()
            .filter(|s| *s != "unknown")
            .cloned()
            .collect(),
        _ => sources
            .iter()
            .map(|(source, n)| format!("{n} {source}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
