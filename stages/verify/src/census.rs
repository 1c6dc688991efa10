//! The table `census`: cells, rows and files of each load stage, counted two ways.

use std::collections::BTreeMap;

use artifacts::{Column, Table, TableError};
use pipeline::CellStatus;

use crate::finding::Finding;
use crate::gates::files;
use crate::study::Stage;

/// Makes the table `census`.
pub(crate) fn census_table(
    stages: &[Stage<'_>],
    findings: &[Finding<'_>],
) -> Result<Table, TableError> {
    let int = |name: &str, meaning: &str, of: &dyn Fn(&Stage<'_>) -> usize| {
        Column::int(name, stages.iter().map(|s| i64::try_from(of(s)).ok()))
            .unit("1")
            .describe(meaning)
    };
    let with = |s: &Stage<'_>, status: CellStatus| {
        s.cells.iter().filter(|c| c.input.status == status).count()
    };
    let rows = |s: &Stage<'_>, keep: &dyn Fn(&rows::Request) -> bool| {
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
    let columns = vec![
        Column::text("stage", stages.iter().map(|s| Some(s.name))).describe("the load stage"),
        Column::text("sources", stages.iter().map(|s| Some(sources(s)).filter(|t| !t.is_empty()))).describe(
            "where the rows of its ok cells come from: `measured`, `imported`, `simulated`, with counts if they \
             differ; null if no cell says",
        ),
        int("product", "product of the numbers of labels that occur on its axes", &|s| {
            if s.cells.is_empty() { 0 } else { s.labels().iter().map(Vec::len).product() }
        }),
        int("planned", "planned cells, those the experiment excludes among them", &|s| s.cells.len()),
        int("excluded", "cells the experiment excludes", &|s| with(s, CellStatus::Excluded)),
        int("ok", "cells that completed", &|s| with(s, CellStatus::Ok)),
        int("failed", "cells that failed", &|s| with(s, CellStatus::Failed)),
        int("hung", "cells that hung", &|s| with(s, CellStatus::Hung)),
        int("timeout", "cells whose time limit passed", &|s| with(s, CellStatus::Timeout)),
        int("skipped", "cells skipped", &|s| with(s, CellStatus::Skipped)),
        int("interrupted", "cells the user stopped", &|s| with(s, CellStatus::Interrupted)),
        int("barred", "ok cells that gates keep from every statistic", &barred),
        int("rows_measured", "measured rows", &|s| rows(s, &|r| r.is_measured())),
        int("rows_measured_ok", "measured rows of status ok", &|s| {
            rows(s, &|r| r.is_measured() && r.is_ok())
        }),
        int("rows_warmup", "warm-up rows", &|s| rows(s, &|r| !r.is_measured() && !r.superseded)),
        int("rows_superseded", "rows replaced by a later attempt", &|s| rows(s, &|r| r.superseded)),
        int("rows_missing", "measured rows the ok cells planned and have not", &|s| {
            gaps(s).into_iter().filter(|gap| *gap > 0).map(|gap| gap as usize).sum()
        }),
        int("rows_unexpected", "measured rows the ok cells have beyond those planned", &|s| {
            gaps(s).into_iter().filter(|gap| *gap < 0).map(|gap| gap.unsigned_abs() as usize).sum()
        }),
        int("files_odd", "files missing or unexpected in ok cells, or with other rows than recorded", &|s| {
            files(s).len()
        }),
        int("rows_expected", "measured rows the ok cells planned", &|s| {
            s.cells.iter().filter_map(|c| usize::try_from(c.fact("expected_requests")?).ok()).sum()
        }),
    ];
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
