//! `telemetry-summary`: what was sampled beside the load, mean and maximum per cell.

use std::collections::BTreeMap;

use artifacts::{Digest, Scalar, Table, TableError};
use pipeline::Failure;
use rows::CellRows;

use crate::frame::{Row, Spec, count, number, spans};
use crate::operators::cells::OfEachCell;
use crate::operators::energy::window;

pub(crate) struct TelemetrySummary;

/// Where a figure comes from.
struct Figure {
    name: &'static str,
    table: &'static str,
    column: &'static str,
    /// For `process_telemetry`: whose processes; their values at one sample are added up.
    role: Option<&'static str>,
    unit: &'static str,
    what: &'static str,
}

const fn figure(
    name: &'static str,
    table: &'static str,
    column: &'static str,
    unit: &'static str,
    what: &'static str,
) -> Figure {
    Figure {
        name,
        table,
        column,
        role: None,
        unit,
        what,
    }
}

const fn of(
    role: &'static str,
    name: &'static str,
    column: &'static str,
    unit: &'static str,
    what: &'static str,
) -> Figure {
    Figure {
        name,
        table: "process_telemetry",
        column,
        role: Some(role),
        unit,
        what,
    }
}

const HOST: &str = "host_telemetry";
const GPU: &str = "gpu_telemetry";

const FIGURES: &[Figure] = &[
    figure(
        "cpu_busy",
        HOST,
        "cpu_busy",
        "1",
        "share of all processors' time that was not idle",
    ),
    figure(
        "cpu_steal",
        HOST,
        "cpu_steal",
        "1",
        "share of it taken by other guests",
    ),
    figure("load_1", HOST, "load_1", "1", "load average"),
    figure(
        "memory_used_bytes",
        HOST,
        "memory_used_bytes",
        "B",
        "memory in use on the host",
    ),
    figure(
        "frequency_mhz",
        HOST,
        "frequency_mhz",
        "MHz",
        "mean frequency of the processors",
    ),
    figure(
        "temperature_c",
        HOST,
        "temperature_c",
        "°C",
        "the hottest thermal zone",
    ),
    of(
        "server",
        "server_cpu",
        "cpu",
        "processors",
        "processors the server's processes took together",
    ),
    of(
        "server",
        "server_memory_bytes",
        "memory_bytes",
        "B",
        "resident memory of the server's processes together",
    ),
    of(
        "client",
        "client_cpu",
        "cpu",
        "processors",
        "processors the load generator took",
    ),
    of(
        "client",
        "client_memory_bytes",
        "memory_bytes",
        "B",
        "resident memory of the load generator",
    ),
    figure("gpu_power_w", GPU, "power_w", "W", "power of one GPU"),
    figure(
        "gpu_sm_utilisation",
        GPU,
        "sm_utilisation",
        "1",
        "share of time in which a kernel ran on a GPU",
    ),
    figure(
        "gpu_memory_utilisation",
        GPU,
        "memory_utilisation",
        "1",
        "share of time in which a GPU's memory was used",
    ),
    figure(
        "gpu_sm_clock_mhz",
        GPU,
        "sm_clock_mhz",
        "MHz",
        "clock of a GPU's multiprocessors",
    ),
    figure(
        "gpu_temperature_c",
        GPU,
        "temperature_c",
        "°C",
        "temperature of a GPU",
    ),
    figure(
        "gpu_memory_used_bytes",
        GPU,
        "memory_used_bytes",
        "B",
        "memory in use on a GPU",
    ),
];

const TABLES: [(&str, &str); 3] = [
    ("host_samples", HOST),
    ("process_samples", "process_telemetry"),
    ("gpu_samples", GPU),
];

fn columns() -> Vec<Spec> {
    let mut columns: Vec<Spec> = TABLES
        .iter()
        .map(|(name, table)| {
            Spec::int(
                *name,
                "1",
                format!("samples of {table} within the window; 0 if it is absent"),
            )
        })
        .collect();
    for f in FIGURES {
        let pooled = if f.table == GPU {
            ", all GPUs' samples taken together"
        } else {
            ""
        };
        columns.push(Spec::float(
            format!("{}_mean", f.name),
            f.unit,
            format!(
                "mean over the samples within the window{pooled}: {}; null if untold",
                f.what
            ),
        ));
        columns.push(Spec::float(
            format!("{}_max", f.name),
            f.unit,
            format!(
                "largest of the samples within the window: {}; null if untold",
                f.what
            ),
        ));
    }
    columns
}

impl OfEachCell for TelemetrySummary {
    const NAME: &'static str = "telemetry-summary";
    const SUMMARY: &'static str = "One row per load cell: mean and maximum of what was sampled beside the load, within the measured window.";
    const SOURCE: &'static str = "Plain means of samples at a fixed interval, which are means over time. Energy has an operator of its own.";

    fn columns() -> Vec<Spec> {
        columns()
    }

    fn row(at: &[Scalar], cell: &CellRows) -> Result<Row, Failure> {
        of_cell(at.to_vec(), cell).map_err(|e| Failure::failed(format!("telemetry: {e}")))
    }
}

fn of_cell(key: Vec<Scalar>, cell: &CellRows) -> Result<Row, TableError> {
    let (mut values, mut lineage, mut within) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (_, name) in TABLES {
        let rows = match (cell.beside.get(name), window(cell)) {
            (Some((digest, table)), Some(window)) => {
                let rows = rows_within(table, window)?;
                lineage.extend(spans(
                    &Digest::to_string(digest),
                    rows.iter().map(|(row, _)| *row),
                ));
                rows
            }
            _ => Vec::new(),
        };
        let mut stamps: Vec<i64> = rows.iter().map(|(_, at)| *at).collect();
        stamps.dedup();
        values.push(count(if name == GPU {
            rows.len()
        } else {
            stamps.len()
        }));
        within.insert(name, rows);
    }
    for figure in FIGURES {
        let samples = match cell.beside.get(figure.table) {
            Some((_, table)) => samples(table, &within[figure.table], figure)?,
            None => Vec::new(),
        };
        let n = samples.len() as f64;
        values.push(number((n > 0.0).then(|| samples.iter().sum::<f64>() / n)));
        values.push(number(samples.into_iter().max_by(f64::total_cmp)));
    }
    Ok(Row {
        key,
        values,
        lineage,
    })
}

/// Returns the rows within the window, each with its stamp.
fn rows_within(table: &Table, (from, to): (i64, i64)) -> Result<Vec<(usize, i64)>, TableError> {
    let at = table.int("at_ns")?.into_iter().enumerate();
    Ok(at
        .filter_map(|(row, at)| Some((row, at.filter(|at| (from..=to).contains(at))?)))
        .collect())
}

/// Returns the values of a figure; those of several processes at one stamp added up.
fn samples(table: &Table, rows: &[(usize, i64)], figure: &Figure) -> Result<Vec<f64>, TableError> {
    let column = table.float(figure.column)?;
    let Some(role) = figure.role else {
        return Ok(rows.iter().filter_map(|(row, _)| column[*row]).collect());
    };
    let roles = table.text("role")?;
    let mut sums: BTreeMap<i64, f64> = BTreeMap::new();
    for (row, at) in rows.iter().filter(|(row, _)| roles[*row] == Some(role)) {
        if let Some(value) = column[*row] {
            *sums.entry(*at).or_default() += value;
        }
    }
    Ok(sums.into_values().collect())
}
