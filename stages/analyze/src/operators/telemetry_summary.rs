//! `telemetry-summary`: mean and maximum per cell of the samples taken beside the load.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Table, TableError};
use contract::{CellRows, slowing_reasons};
use pipeline::{Failure, Problem};

use crate::columns::Columns;
use crate::frame::{Frame, SourceRows, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::{OfLoad, each_cell};
use crate::operators::energy::window;

pub(crate) struct TelemetrySummary;

/// The source of a figure.
struct Figure {
    name: &'static str,
    table: &'static str,
    column: &'static str,
    /// For `process_telemetry`, the role of the processes; their values in one sample are added up.
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

/// The samples taken beside one cell, in the order of [`TABLES`] and [`FIGURES`].
struct Sampled {
    counts: Vec<usize>,
    figures: Vec<Vec<f64>>,
    throttled: Throttled,
}

/// How often GPUs limited their clocks.
#[derive(Default)]
struct Throttled {
    /// The samples in which the GPU reports whether anything limits its clocks.
    stated: usize,
    /// The samples in which something that slows down work limits them.
    limited: usize,
    reasons: BTreeSet<String>,
}

fn columns() -> Columns<'static, Sampled> {
    let mut columns = Columns::new();
    for (i, (name, table)) in TABLES.iter().enumerate() {
        let what = format!("samples of {table} within the window; 0 if it is absent");
        columns.push(Spec::int(*name, "1", what), move |s: &Sampled| s.counts[i]);
    }
    for (i, f) in FIGURES.iter().enumerate() {
        let pooled = if f.table == GPU {
            ", all GPUs' samples taken together"
        } else {
            ""
        };
        let mean = format!(
            "mean over the samples within the window{pooled}: {}; null if not reported",
            f.what
        );
        let largest = format!(
            "largest of the samples within the window: {}; null if not reported",
            f.what
        );
        columns.push(
            Spec::float(format!("{}_mean", f.name), f.unit, mean),
            move |s| {
                let (values, n) = (&s.figures[i], s.figures[i].len() as f64);
                (n > 0.0).then(|| values.iter().sum::<f64>() / n)
            },
        );
        columns.push(
            Spec::float(format!("{}_max", f.name), f.unit, largest),
            move |s| s.figures[i].iter().copied().max_by(f64::total_cmp),
        );
    }
    let share = "share of all GPU samples within the window in which a GPU's clocks were \
                 limited, except by idleness or chosen clocks; null if not reported";
    columns.push(Spec::float("gpu_throttled", "1", share), |s| {
        let Throttled {
            stated, limited, ..
        } = s.throttled;
        (stated > 0).then(|| limited as f64 / stated as f64)
    });
    let reasons = "the reasons that limited the GPUs' clocks, joined by `+`; empty if none, null if not \
        reported";
    columns.push(Spec::text("gpu_throttle_reasons", reasons), |s| {
        let reasons: Vec<&str> = s.throttled.reasons.iter().map(String::as_str).collect();
        (s.throttled.stated > 0).then(|| reasons.join("+"))
    });
    columns
}

impl TypedOperator for TelemetrySummary {
    type Parameters = OfLoad;
    type Made = Frame;
    const NAME: &'static str = "telemetry-summary";
    const SUMMARY: &'static str = "One row per load cell: mean and maximum of the telemetry \
        within the measured window.";
    const SOURCE: &'static str = "Samples have a fixed interval, so plain means are means over \
        time. For energy, use the operator `energy`.";
    const READS: Reads = Reads::Verified;

    fn plan(_: &mut OfLoad, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns().specs())
    }

    fn run(given: &OfLoad, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns();
        each_cell(context, load, columns.specs(), |at, cell| {
            let (sampled, lineage) =
                of_cell(cell).map_err(|e| Failure::failed(format!("telemetry: {e}")))?;
            Ok(columns.row(at.to_vec(), &sampled, lineage))
        })
    }
}

fn of_cell(cell: &CellRows) -> Result<(Sampled, Vec<SourceRows>), TableError> {
    let (mut counts, mut lineage, mut within) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (_, name) in TABLES {
        let rows = match (cell.beside.get(name), window(cell)) {
            (Some((digest, table)), Some(window)) => {
                let rows = rows_within(table, window)?;
                let used = rows.iter().map(|(row, _)| *row);
                lineage.extend(spans(cell.source(name, *digest), used));
                rows
            }
            _ => Vec::new(),
        };
        let mut stamps: Vec<i64> = rows.iter().map(|(_, at)| *at).collect();
        stamps.dedup();
        counts.push(if name == GPU {
            rows.len()
        } else {
            stamps.len()
        });
        within.insert(name, rows);
    }
    let figure = |figure: &Figure| match cell.beside.get(figure.table) {
        Some((_, table)) => samples(table, &within[figure.table], figure),
        None => Ok(Vec::new()),
    };
    let figures = FIGURES.iter().map(figure).collect::<Result<_, _>>()?;
    let throttled = match cell.beside.get(GPU) {
        Some((_, table)) => throttled(table, &within[GPU]),
        None => Throttled::default(),
    };
    let sampled = Sampled {
        counts,
        figures,
        throttled,
    };
    Ok((sampled, lineage))
}

fn throttled(table: &Table, rows: &[(usize, i64)]) -> Throttled {
    let mut counts = Throttled::default();
    // Imported tables, and older ones from before it was sampled, have no such column.
    let Ok(column) = table.text("throttle_reasons") else {
        return counts;
    };
    for stated in rows.iter().filter_map(|(row, _)| column[*row]) {
        let limits: Vec<&str> = slowing_reasons(stated).collect();
        counts.stated += 1;
        counts.limited += usize::from(!limits.is_empty());
        counts.reasons.extend(limits.into_iter().map(str::to_owned));
    }
    counts
}

/// Returns the rows within the window, each with its stamp.
fn rows_within(table: &Table, (from, to): (i64, i64)) -> Result<Vec<(usize, i64)>, TableError> {
    let at = table.int("at_ns")?.into_iter().enumerate();
    Ok(at
        .filter_map(|(row, at)| Some((row, at.filter(|at| (from..=to).contains(at))?)))
        .collect())
}

/// Returns the values of a figure, added up over the processes at each stamp.
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

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn idleness_and_chosen_clocks_are_no_throttling() {
        let reasons = [
            Some(""),
            Some("idle"),
            Some("power-cap"),
            Some("applications-clocks+thermal"),
            None,
        ];
        let table = Table::new(vec![Column::text("throttle_reasons", reasons)]).unwrap();
        let rows: Vec<(usize, i64)> = (0..5).map(|row| (row, 0)).collect();
        let counts = throttled(&table, &rows);
        assert_eq!((counts.stated, counts.limited), (4, 2));
        let reasons: Vec<String> = counts.reasons.into_iter().collect();
        assert_eq!(reasons, ["power-cap", "thermal"]);
        assert_eq!(throttled(&table, &rows[..2]).limited, 0);
    }
}
