//! The table at the end of a run: the first table of results, with its usual columns and one screen of rows.

use artifacts::{Scalar, Store, Table, counted};
use explore::Catalogue;
use pipeline::lock::Lock;
use pipeline::place::label_text;

use crate::columns::Columns;
use crate::exit::Stop;
use crate::terminal;

/// The number of rows shown.
const ROWS: usize = 12;

/// The number of columns named below the table.
const NAMED: usize = 6;

/// The columns shown if a table has them, by the start of their names.
pub(crate) const USUAL: [&str; 4] = [
    "output_throughput",
    "ttft_ms_p50",
    "tpot_ms_p50",
    "e2e_latency_ms_p50",
];

/// Latencies from the time of sending, each with the latency from the schedule, which closed loops do not have.
const SCHEDULED: [(&str, &str); 2] = [
    ("ttft_ms_p50", "ttft_scheduled_ms_p50"),
    ("e2e_latency_ms_p50", "e2e_scheduled_ms_p50"),
];

/// Returns the main table of a study as text with its name as a heading: a table of means, otherwise one of cells.
/// `None` if no analysis has either.
///
/// # Errors
/// If a table cannot be read.
pub(crate) fn of(lock: &Lock, store: &Store) -> Result<Option<String>, Stop> {
    let catalogue = Catalogue::read(lock, store).map_err(Stop::failed)?;
    let mut chosen = None;
    for (name, entry) in &catalogue.tables {
        let one = entry.stage.cells.len() == 1 && !name.ends_with(".lineage");
        if !one || entry.sample.rows.is_none_or(|rows| rows == 0) {
            continue;
        }
        // One row shows what a table is; most tables are not shown, and some are large.
        let digest = &entry.sample.digest;
        let (first, _) = Table::read_rows(store, digest, 0..1).map_err(Stop::failed)?;
        if columns(&first).is_empty() {
            continue;
        }
        match first.metadata("operator").as_deref() {
            Some("aggregate") => {
                chosen = Some((name, digest));
                break;
            }
            Some("cell-summary") if chosen.is_none() => chosen = Some((name, digest)),
            _ => {}
        }
    }
    let Some((name, digest)) = chosen else {
        return Ok(None);
    };
    let table = Table::from_parquet(store.get(digest)?).map_err(Stop::failed)?;
    text(name, &table).map(Some)
}

/// Returns the usual columns of a table: the value itself, or its mean. With open arrivals, latencies count from the
/// schedule, because the time before a request is sent is part of its user's wait.
fn columns(table: &Table) -> Vec<String> {
    let names = table.names();
    let column = |usual: &str| {
        let is = |name: &&String| *name == usual || **name == format!("{usual}_mean");
        names.iter().find(is).cloned()
    };
    let has_values = |name: &String| {
        let value = |row: usize| table.value(name, row).is_ok_and(|v| v != Scalar::Null);
        (0..table.rows()).any(value)
    };
    let usual = USUAL.iter().filter_map(|usual| {
        let scheduled = SCHEDULED.iter().find(|(sent, _)| sent == usual);
        let scheduled = scheduled.and_then(|(_, scheduled)| column(scheduled));
        scheduled.filter(has_values).or_else(|| column(usual))
    });
    usual.collect()
}

fn text(name: &str, table: &Table) -> Result<String, Stop> {
    let keys = table.metadata("keys").unwrap_or_default();
    let keys = keys.split(',').filter(|key| table.has(key));
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let shown: Vec<String> = keys.iter().cloned().chain(columns(table)).collect();
    let heading = shown.iter().map(|column| match table.unit(column) {
        Some(unit) if unit != "1" => format!("{column} [{unit}]"),
        _ => column.clone(),
    });
    let right: Vec<usize> = (keys.len()..shown.len()).collect();
    let mut rows = Vec::new();
    for row in 0..table.rows().min(ROWS) {
        let value = |column: &String| {
            let value = table.value(column, row)?;
            Ok::<_, artifacts::TableError>(match keys.contains(column) {
                true => label(&value),
                false => words(&value),
            })
        };
        let line: Result<Vec<String>, _> = shown.iter().map(value).collect();
        rows.push(line.map_err(Stop::failed)?);
    }
    let laid_out = Columns::new(heading.collect(), rows, &right).laid_out(terminal::width());
    let more = table.rows().saturating_sub(ROWS);
    let rest = match more {
        0 => String::new(),
        more => format!("\n… and {} of {name}", counted(more, "more row")),
    };
    let others = match further(table, &shown) {
        others if others.is_empty() => String::new(),
        others => format!("\nmore columns: {}", others.join(", ")),
    };
    Ok(format!("{name}:\n{laid_out}{rest}{others}"))
}

/// Returns the means of a table that are not shown: its author asked for each of them.
fn further(table: &Table, shown: &[String]) -> Vec<String> {
    if table.metadata("operator").as_deref() != Some("aggregate") {
        return Vec::new();
    }
    let mut names = table.names();
    names.retain(|name| name.ends_with("_mean") && !shown.contains(name));
    let more = names.len().saturating_sub(NAMED);
    if more > 0 {
        names.truncate(NAMED);
        names.push(format!("and {more} more"));
    }
    names
}

/// Formats a label in full: two labels that differ never look alike.
pub(crate) fn label(value: &Scalar) -> String {
    match value {
        Scalar::Null => words(value),
        label => label_text(label),
    }
}

/// Formats a value with four significant digits.
pub(crate) fn words(value: &Scalar) -> String {
    match value {
        Scalar::Null => "n/a".to_owned(),
        Scalar::Float(number) => statistics::significant(*number, 4),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn latencies_of_open_arrivals_are_those_from_the_schedule() {
        let table = |scheduled: Option<f64>| {
            let columns = vec![
                Column::int("rate", [Some(2)]),
                Column::float("ttft_ms_p50", [Some(8.0)]),
                Column::float("ttft_scheduled_ms_p50", [scheduled]),
            ];
            Table::with_metadata(columns, &[("keys", "rate")]).unwrap()
        };
        assert_eq!(columns(&table(Some(90.0))), ["ttft_scheduled_ms_p50"]);
        assert_eq!(columns(&table(None)), ["ttft_ms_p50"]);
    }

    #[test]
    fn labels_that_are_numbers_have_all_their_digits() {
        let columns = vec![
            Column::float("rate", [0.123_41, 0.123_44, 2500.0].map(Some)),
            Column::float("ttft_ms_p50", [0.123_41, 0.123_44, 2500.0].map(Some)),
        ];
        let table = Table::with_metadata(columns, &[("keys", "rate")]).unwrap();
        let shown = text("results.cells", &table).unwrap();
        for part in ["0.12341", "0.12344", "2500 "] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(
            shown.contains("0.1234 ") || shown.contains("0.1234\n"),
            "{shown}"
        );
    }

    #[test]
    fn a_mean_that_is_not_shown_is_named_below_the_table() {
        let table = |operator: &str| {
            let columns = vec![
                Column::int("clients", [Some(2)]),
                Column::float("goodput_mean", [Some(3.0)]),
                Column::float("goodput_std", [Some(1.0)]),
                Column::float("ttft_ms_p50_mean", [Some(8.0)]),
            ];
            let metadata = [("keys", "clients"), ("operator", operator)];
            Table::with_metadata(columns, &metadata).unwrap()
        };
        let means = text("results.means", &table("aggregate")).unwrap();
        assert!(means.ends_with("\nmore columns: goodput_mean"), "{means}");
        let cells = text("results.cells", &table("cell-summary")).unwrap();
        assert!(!cells.contains("more columns"), "{cells}");
    }

    #[test]
    fn the_usual_columns_are_shown_with_units_and_four_digits_and_the_rest_is_counted() {
        let rows = 0..14_i64;
        let columns = vec![
            Column::int("clients", rows.clone().map(Some)),
            Column::float(
                "output_throughput_mean",
                rows.clone().map(|r| Some(81.234_56 + r as f64)),
            )
            .unit("tok/s"),
            Column::float("ttft_ms_p50", rows.map(|r| (r > 0).then_some(0.012_345))).unit("ms"),
        ];
        let table = Table::with_metadata(columns, &[("keys", "clients")]).unwrap();
        let text = text("results.means", &table).unwrap();
        for part in [
            "results.means:",
            "output_throughput_mean [tok/s]",
            "81.23",
            "0.01235",
            "n/a",
            "… and 2 more rows",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
