//! The tables of a search.

use std::path::Path;

use artifacts::{Column, ColumnData, Table, TableError};

use super::bisect::{Found, Level, Probe};

/// Makes the table `probes`: a row a probe, in order.
pub(super) fn probes_table(found: &Found) -> Result<Table, TableError> {
    let probes = &found.probes;
    let int = |name: &str, meaning: &str, of: fn(&Probe) -> u64| {
        Column::int(name, probes.iter().map(|p| i64::try_from(of(p)).ok())).describe(meaning)
    };
    let float = |name: &str, meaning: &str, of: fn(&Probe) -> f64| {
        Column::float(name, probes.iter().map(|p| Some(of(p))))
            .unit("1")
            .describe(meaning)
    };
    let warm_in = |p: &Probe| matches!(p.level, Level::Rate(_)).then_some(p.tried.warm_in_s);
    // A search is over one kind of level.
    let unit = probes.first().map_or("1", |p| p.level.unit());
    Table::new(vec![
        int("probe", "the probe's number, from 1", |p| p.probe as u64),
        Column::float("level", probes.iter().map(|p| Some(p.level.number())))
            .unit(unit)
            .describe("clients of a closed loop, or requests a second"),
        int("sent", "requests sent, the warm-up left out", |p| p.tried.sent).unit("requests"),
        Column::float("warm_in", probes.iter().map(warm_in))
            .unit("s")
            .describe("time in which nine of ten answers of an open loop were complete; null for clients"),
        int("requests", "of those sent, due after the warm-in; of clients all", |p| p.tried.requests)
            .unit("requests"),
        int("good", "of these, answered within every bound", |p| p.tried.good).unit("requests"),
        float("pass_rate", "good ÷ requests", |p| p.tried.good as f64 / p.tried.requests.max(1) as f64),
        int(
            "level_requests",
            "`requests` of this and earlier probes of the level that were long enough",
            |p| p.pooled.requests,
        )
        .unit("requests"),
        int("level_good", "of these, answered within every bound", |p| p.pooled.good).unit("requests"),
        float("lower", "95 % Wilson interval of level_good ÷ level_requests", |p| p.interval.0),
        float("upper", "95 % Wilson interval of level_good ÷ level_requests", |p| p.interval.1),
        Column::text("verdict", probes.iter().map(|p| Some(p.verdict.word()))).describe(
            "`kept`, `missed`, or `undecided`: more requests followed at the level, or the search ended",
        ),
        Column::boolean("by_share", probes.iter().map(|p| Some(p.by_share)))
            .describe("whether the share itself decided, the requests of the level being spent"),
    ])
}

/// Puts the tables of one name of every probe below one another, with the probe's number before
/// the other columns.
///
/// # Errors
/// If a file cannot be read, or tables differ in their columns.
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
