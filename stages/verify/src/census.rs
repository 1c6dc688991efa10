//! The table `census`: cells, rows and files of each load stage, counted two ways.

use std::collections::BTreeMap;

use artifacts::{Table, TableError};
use contract::{CensusRow, Row as _};
use pipeline::CellStatus;

use crate::finding::Finding;
use crate::gates::files;
use crate::study::Stage;

/// Makes the table `census`.
pub(crate) fn census_table(
    stages: &[Stage<'_>],
    findings: &[Finding<'_>],
) -> Result<Table, TableError> {
    let with = |s: &Stage<'_>, status: CellStatus| {
        s.cells.iter().filter(|c| c.input.status == status).count()
    };
    let rows = |s: &Stage<'_>, keep: &dyn Fn(&contract::Request) -> bool| {
        s.cells
            .iter()
            .filter_map(|c| c.rows.as_ref())
            .flat_map(|r| &r.requests)
            .filter(|r| keep(r))
            .count()
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
        let gaps = gaps(s);
        CensusRow {
            stage: s.name.to_owned(),
            sources: Some(sources(s)).filter(|text| !text.is_empty()),
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
            rows_measured: count(rows(s, &|r| r.is_measured())),
            rows_measured_ok: count(rows(s, &|r| r.is_measured() && r.is_ok())),
            rows_warmup: count(rows(s, &|r| !r.is_measured() && !r.superseded)),
            rows_superseded: count(rows(s, &|r| r.superseded)),
            rows_missing: gaps.iter().filter(|gap| **gap > 0).sum(),
            rows_unexpected: gaps
                .iter()
                .filter(|gap| **gap < 0)
                .map(|gap| gap.abs())
                .sum(),
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

/// Returns, for each ok cell that says what it planned, how many measured rows are missing;
/// below 0 if there are more.
fn gaps(stage: &Stage<'_>) -> Vec<i64> {
    let gap = |c: &crate::study::Cell<'_>| {
        Some(c.fact("expected_requests")? - c.rows.as_ref()?.measured().count() as i64)
    };
    stage.cells.iter().filter_map(gap).collect()
}

/// Returns the sources of a stage's ok cells, each with its count if there are several.
pub(crate) fn sources(stage: &Stage<'_>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cell in stage
        .cells
        .iter()
        .filter_map(|c| c.rows.as_ref()?.cell.as_ref())
    {
        let source = cell
            .text("source")
            .ok()
            .and_then(|s| s.first().copied().flatten());
        *counts
            .entry(source.unwrap_or("unknown").to_owned())
            .or_default() += 1;
    }
    match counts.len() {
        1 => counts.into_keys().filter(|s| s != "unknown").collect(),
        _ => counts
            .iter()
            .map(|(source, n)| format!("{n} {source}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
