//! The tables of a search.

use std::path::Path;

use artifacts::{Column, ColumnData, Table, TableError};
use contract::{ProbeRow, Row as _};

use super::bisect::{Found, Probe};

/// Makes the table `probes`: one row per probe, in order.
pub(super) fn probes_table(outcome: &Found) -> Result<Table, TableError> {
    let rows: Vec<ProbeRow> = outcome.probes.iter().map(row).collect();
    let mut columns = ProbeRow::columns(&rows);
    // All levels of a search have the same unit.
    let unit = outcome.probes.first().map_or("1", |p| p.level.unit());
    for column in columns.iter_mut().filter(|c| c.name == "level") {
        column.unit = Some(unit.to_owned());
    }
    Table::new(columns)
}

fn row(probe: &Probe) -> ProbeRow {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let tried = &probe.tried;
    ProbeRow {
        probe: count(probe.probe as u64),
        level: probe.level.number(),
        sent: count(tried.sent),
        warm_in: tried.warm_in_s,
        requests: count(tried.requests()),
        good: count(tried.good()),
        pass_rate: tried.good() as f64 / tried.requests().max(1) as f64,
        level_requests: count(probe.pooled.requests),
        level_good: count(probe.pooled.good),
        level_independent: probe.pooled.independent,
        lower: probe.interval.0,
        upper: probe.interval.1,
        verdict: probe.verdict,
        by_share: probe.by_share,
    }
}

/// Concatenates the tables of one name from every probe, with the probe's number as first column.
///
/// # Errors
/// If a file cannot be read, or the tables have different columns.
pub(super) fn below_one_another(parts: &[(usize, &Path)]) -> Result<Option<Table>, String> {
    let mut joined: Option<(Vec<Option<i64>>, Vec<Column>)> = None;
    for (probe, path) in parts {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
        let table = Table::from_parquet(bytes).map_err(|e| wrong(&e))?;
        let columns: Result<Vec<Column>, _> = table
            .names()
            .iter()
            .map(|name| table.column(name))
            .collect();
        let columns = columns.map_err(|e| wrong(&e))?;
        let number = vec![i64::try_from(*probe).ok(); table.rows()];
        match &mut joined {
            None => joined = Some((number, columns)),
            Some((numbers, all)) => {
                numbers.extend(number);
                for (column, more) in all.iter_mut().zip(columns) {
                    match (&mut column.data, more.data) {
                        (ColumnData::Int(a), ColumnData::Int(b)) => a.extend(b),
                        (ColumnData::Float(a), ColumnData::Float(b)) => a.extend(b),
                        (ColumnData::Text(a), ColumnData::Text(b)) => a.extend(b),
                        (ColumnData::Bool(a), ColumnData::Bool(b)) => a.extend(b),
                        _ => {
                            return Err(wrong(&format!(
                                "column `{}` has another type",
                                column.name
                            )));
                        }
                    }
                }
            }
        }
    }
    let Some((numbers, columns)) = joined else {
        return Ok(None);
    };
    let probe = Column::int("probe", numbers).describe("the probe's number, as in `probes`");
    let all = std::iter::once(probe).chain(columns).collect();
    Table::new(all).map(Some).map_err(|e| e.to_string())
}
