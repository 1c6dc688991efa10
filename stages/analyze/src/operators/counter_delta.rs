//! `counter-delta`: how much counters rose during the measurement of a cell.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Table, TableError};
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, SourceRows, Spec, spans};
use crate::intake::Load;
use crate::operator::{Context, Draft, Reads, TypedOperator, unless};
use crate::operators::cells::each_rows;
use crate::operators::energy::window;

pub(crate) struct CounterDelta;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The counters, each under the name that its columns begin with.
    counters: BTreeMap<String, Counter>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{metric: NAME, unit: tok}"))]
struct Counter {
    /// The name of a metric in `server_metrics`, or of a number in `server_info` (with `table: server_info`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// Labels that a series must have, with their values; the series that have them are added up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// The table, if it is not `server_metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    /// For tables with a column for each counter, such as `host_telemetry`: the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// The unit of a metric; columns of tables know theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

impl Counter {
    fn table(&self) -> &str {
        self.table.as_deref().unwrap_or("server_metrics")
    }

    /// Returns the name of the counter, for messages.
    fn words(&self) -> String {
        let named = self.metric.as_ref().or(self.column.as_ref());
        format!("`{}` of `{}`", named.map_or("", |n| n), self.table())
    }

    fn unit(&self) -> String {
        let column = self.column.as_ref().and_then(|name| {
            let columns = shape(self.table())?;
            columns.into_iter().find(|c| c.name == *name)?.unit
        });
        self.unit.clone().or(column).unwrap_or_default()
    }

    /// Returns whether the labels of a series, in Prometheus notation, match the requested ones.
    fn takes(&self, labels: &str) -> bool {
        let has = |(name, value): (&String, &String)| {
            let wanted = format!("{name}=\"{value}\"");
            let starts = |at: usize| at == 0 || matches!(labels.as_bytes()[at - 1], b',' | b' ');
            labels.match_indices(&wanted).any(|(at, _)| starts(at))
        };
        self.labels.iter().all(has)
    }
}

/// Tables with a row for each series and stamp.
const NAMED: [&str; 2] = ["server_metrics", "server_info"];

/// The columns of a load cell's table that has stamps.
fn shape(table: &str) -> Option<Vec<artifacts::Column>> {
    let declared = contract::LOAD_TABLES.iter().find(|t| t.name == table)?;
    let columns = declared.empty_columns();
    let stamped = columns.iter().any(|c| c.name == "at_ns") && columns.len() > 1;
    stamped.then_some(columns)
}

/// The rise of one counter in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rise {
    /// The sum over the series. `None` if there are fewer than two samples, or if the series of several addresses do
    /// not cover the same time.
    delta: Option<f64>,
    /// The time from the first sample used to the last, in s.
    seconds: Option<f64>,
    series: usize,
    resets: usize,
}

impl Rise {
    fn synthetic((from, to): (i64, i64)) -> Self {
        Self {
            delta: Some(1.0),
            seconds: Some((to - from).max(1) as f64 / 1e9),
            series: 1,
            resets: 0,
        }
    }
}

fn columns(given: &Parameters) -> Columns<'static, BTreeMap<String, Rise>> {
    let mut columns = Columns::new();
    for (name, counter) in &given.counters {
        let (what, unit) = (counter.words(), counter.unit());
        let per_second = match unit.as_str() {
            "" | "1" => "1/s".to_owned(),
            unit => format!("{unit}/s"),
        };
        let rise = format!(
            "rise of {what} over the measured window, all series together; null without two samples, and where one of several servers was not sampled as long as the others"
        );
        let rate = format!("{name} ÷ {name}_over");
        let over = "from the last sample before the window (else the first in it) to the first behind it (else the last in it)";
        let get = |read: fn(&Rise) -> Option<f64>| {
            let name = name.clone();
            move |all: &BTreeMap<String, Rise>| all.get(&name).and_then(read)
        };
        let count = |read: fn(&Rise) -> usize| {
            let name = name.clone();
            move |all: &BTreeMap<String, Rise>| all.get(&name).map(read)
        };
        columns = columns
            .with(Spec::float(name, &unit, rise), get(|r| r.delta))
            .with(
                Spec::float(format!("{name}_rate"), &per_second, rate),
                get(|r| Some(r.delta? / r.seconds.filter(|s| *s > 0.0)?)),
            )
            .with(
                Spec::float(format!("{name}_over"), "s", over),
                get(|r| r.seconds),
            )
            .with(
                Spec::int(format!("{name}_series"), "1", format!("series of {what}")),
                count(|r| r.series),
            )
            .with(
                Spec::int(
                    format!("{name}_resets"),
                    "1",
                    "falls of a counter, each taken for a start at 0",
                ),
                count(|r| r.resets),
            );
    }
    columns
}

impl TypedOperator for CounterDelta {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "counter-delta";
    const SUMMARY: &'static str = "One row per load cell: the rise of counters of the server, the host or the GPUs \
                                   during the measurement.";
    const SOURCE: &'static str = "\
        The rise is the sum of a counter's rises from sample to sample, like Prometheus's `increase`, but without \
        extrapolation to the ends of the window. If a counter falls, it was reset, and counts from 0 afterwards.\n\n\
        The samples range from the last one before the measured window to the first one after it. The rise may \
        therefore include work just outside the window; the table gives the time between these two samples. A number \
        of `server_info` has a row only when it changes. If there are several servers, all must have been sampled \
        over the same time; otherwise, their sum is unknown.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let mut problems = Vec::new();
        if given.counters.is_empty() {
            let hint = "write, for example, `counters: {generated: {metric: \"vllm:generation_tokens_total\", unit: tok}}`";
            problems.push(draft.problem("counters", "there is no counter").hint(hint));
        }
        for (name, counter) in &given.counters {
            let at = |key: &str| {
                ["counters", name, key]
                    .map(|k| Step::Key(k.to_owned()))
                    .to_vec()
            };
            let mut wrong = |key: &str, message: String, hint: String| {
                problems.push(draft.settings.problem(&at(key), message).hint(hint));
            };
            let tables = contract::LOAD_TABLES.iter().map(|t| t.name);
            let tables: Vec<&str> = tables.filter(|name| shape(name).is_some()).collect();
            let Some(columns) = shape(counter.table()) else {
                let message = format!("there are no samples in a table `{}`", counter.table());
                wrong("table", message, remedy(counter.table(), "tables", &tables));
                continue;
            };
            match (
                NAMED.contains(&counter.table()),
                &counter.metric,
                &counter.column,
            ) {
                (true, Some(_), None) => {}
                (true, ..) => {
                    let message = format!("`{}` has a row for each metric", counter.table());
                    wrong(
                        "metric",
                        message,
                        "name the metric with `metric`".to_owned(),
                    );
                }
                (false, None, Some(column)) => {
                    let numbers = columns.iter().filter(|c| {
                        use artifacts::ColumnData::{Float, Int};
                        matches!(c.data, Int(_) | Float(_)) && c.name != "at_ns"
                    });
                    let numbers: Vec<&str> = numbers.map(|c| c.name.as_str()).collect();
                    if !numbers.contains(&column.as_str()) {
                        let message =
                            format!("`{}` has no column `{column}` of numbers", counter.table());
                        wrong("column", message, remedy(column, "columns", &numbers));
                    }
                }
                (false, ..) => {
                    let message = format!("`{}` has a column for each counter", counter.table());
                    wrong(
                        "column",
                        message,
                        "name the column with `column`".to_owned(),
                    );
                }
            }
            if !counter.labels.is_empty() && counter.table() != "server_metrics" {
                let message = "only series of `server_metrics` have labels".to_owned();
                wrong("labels", message, "remove them".to_owned());
            }
        }
        unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns(given);
        let frame = each_rows(context, load, columns.specs(), |at, rows| {
            let wrong = |e: TableError| Failure::failed(format!("samples: {e}"));
            let cell = rows.get()?;
            let Some(window) = window(&cell) else {
                return Ok(columns.row(at.to_vec(), &BTreeMap::new(), Vec::new()));
            };
            let (mut rises, mut lineage) = (BTreeMap::new(), Vec::<SourceRows>::new());
            for (name, counter) in &given.counters {
                let (rise, used) = match rows.table(counter.table())? {
                    Some((source, table)) => {
                        let (rise, used) = rise(counter, &table, window).map_err(wrong)?;
                        (rise, spans(&source, used))
                    }
                    None => (Rise::default(), Vec::new()),
                };
                // Only a running server can name its counters.
                let of_server = matches!(counter.table(), "server_metrics" | "server_info");
                let rise = match context.rehearsal && of_server && rise.series == 0 {
                    true => Rise::synthetic(window),
                    false => rise,
                };
                rises.insert(name.clone(), rise);
                lineage.extend(used);
            }
            Ok(columns.row(at.to_vec(), &rises, lineage))
        })?;
        for (name, counter) in &given.counters {
            let none = (0..frame.rows.len())
                .all(|row| frame.number(row, &format!("{name}_series")).unwrap_or(0.0) == 0.0);
            if none && !frame.rows.is_empty() {
                return Err(nowhere(counter, load)?);
            }
        }
        Ok(frame)
    }
}

/// Builds the failure when no cell has a counter, and lists those that exist.
fn nowhere(counter: &Counter, load: &Load<'_>) -> Result<Failure, Failure> {
    let mut metrics = BTreeSet::new();
    for (_, rows) in &load.cells {
        if let Some((_, table)) = rows.table(counter.table())?
            && let (Some(_), Ok(names)) = (&counter.metric, table.text("name"))
        {
            metrics.extend(names.into_iter().flatten().map(str::to_owned));
        }
    }
    let failure = Failure::failed(format!(
        "no cell of `{}` has {}",
        load.stage,
        counter.words()
    ));
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    Ok(match counter.metric.as_deref() {
        Some(metric) if metrics.contains(&metric) => {
            failure.hint("no series of it has these `labels`")
        }
        Some(metric) if !metrics.is_empty() => failure.hint(remedy(metric, "metrics", &metrics)),
        _ => failure.hint("nothing was sampled there: see `telemetry` of the load stage, and `metrics` of the engine's definition"),
    })
}

/// Returns how much a counter rose, and the rows behind it.
fn rise(
    counter: &Counter,
    table: &Table,
    (from, to): (i64, i64),
) -> Result<(Rise, Vec<usize>), TableError> {
    let column = counter.column.as_deref().unwrap_or("value");
    if !table.has(column) {
        // Imported tables, and older ones from before it was sampled, have no such column.
        return Ok((Rise::default(), Vec::new()));
    }
    let stamps = table.int("at_ns")?;
    let values = table.float(column)?;
    let series = series(counter, table)?;
    let mut all: BTreeMap<&str, Vec<(i64, f64, usize)>> = BTreeMap::new();
    for row in 0..table.rows() {
        if let (Some(series), Some(at), Some(value)) = (&series[row], stamps[row], values[row]) {
            all.entry(series).or_default().push((at, value, row));
        }
    }
    let (mut rise, mut used) = (Rise::default(), Vec::new());
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for samples in all.values_mut() {
        samples.sort_by_key(|(at, ..)| *at);
        rise.series += 1;
        let start = samples
            .iter()
            .rposition(|(at, ..)| *at <= from)
            .unwrap_or(0);
        let behind = samples.iter().position(|(at, ..)| *at >= to);
        let end = behind.unwrap_or(samples.len() - 1);
        if start >= end {
            continue;
        }
        for pair in samples[start..=end].windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            let fell = after < before;
            rise.resets += usize::from(fell);
            *rise.delta.get_or_insert(0.0) += if fell { after } else { after - before };
        }
        first = first.min(samples[start].0);
        last = last.max(samples[end].0);
        used.extend(samples[start..=end].iter().map(|(.., row)| *row));
    }
    if counter.table() == "server_metrics" && !covered_alike(table, &all, (from, to))? {
        rise.delta = None;
        return Ok((rise, used));
    }
    rise.seconds = (first < last).then(|| (last - first) as f64 / 1e9);
    Ok((rise, used))
}

/// Returns whether every address with one of the series was scraped over the same time. If not, the sum over the
/// scraped addresses is not that of all.
fn covered_alike(
    table: &Table,
    series: &BTreeMap<&str, Vec<(i64, f64, usize)>>,
    (from, to): (i64, i64),
) -> Result<bool, TableError> {
    let mut scrapes: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let (labels, stamps) = (table.text("labels")?, table.int("at_ns")?);
    for (labels, at) in labels.iter().zip(&stamps) {
        let source = contract::metrics_source(labels.unwrap_or_default());
        scrapes.entry(source).or_default().extend(*at);
    }
    let with_series: BTreeSet<&str> = series
        .keys()
        .map(|labels| contract::metrics_source(labels))
        .collect();
    let ends = |source: &&str| {
        let scraped = scrapes.get(source)?;
        let first = scraped.range(..=from).next_back().or(scraped.first())?;
        let last = scraped.range(to..).next().or(scraped.last())?;
        Some((*first, *last))
    };
    let ends: BTreeSet<_> = with_series.iter().map(ends).collect();
    Ok(ends.len() < 2)
}

/// Returns for each row its series; `None` if the series was not requested.
fn series(counter: &Counter, table: &Table) -> Result<Vec<Option<String>>, TableError> {
    if let Some(metric) = &counter.metric {
        let names = table.text("name")?;
        let labels = match counter.table() {
            "server_metrics" => table.text("labels")?,
            _ => vec![None; table.rows()],
        };
        let labelled = |(name, labels): (&Option<&str>, &Option<&str>)| {
            let labels = labels.unwrap_or_default();
            let asked = *name == Some(metric.as_str()) && counter.takes(labels);
            asked.then(|| labels.to_owned())
        };
        return Ok(names.iter().zip(&labels).map(labelled).collect());
    }
    // The labels that distinguish the series of such tables.
    let mut series = vec![String::new(); table.rows()];
    for name in ["gpu", "pid", "slot", "source", "member"]
        .iter()
        .filter(|n| table.has(n))
    {
        for (row, text) in series.iter_mut().enumerate() {
            text.push_str(&format!("{},", table.value(name, row)?));
        }
    }
    Ok(series.into_iter().map(Some).collect())
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    fn counter(labels: &[(&str, &str)]) -> Counter {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Counter {
            metric: Some("tokens_total".to_owned()),
            labels: labels.collect(),
            table: None,
            column: None,
            unit: None,
        }
    }

    #[test]
    fn a_counter_rises_between_the_samples_around_the_window_and_survives_a_reset() {
        let s = 1_000_000_000;
        let rows = [
            (0, "tokens_total", "engine=\"0\"", 5.0),
            (s, "tokens_total", "engine=\"0\"", 10.0),
            (s, "tokens_total", "engine=\"1\"", 100.0),
            (2 * s, "tokens_total", "engine=\"0\"", 30.0),
            (2 * s, "other", "engine=\"0\"", 999.0),
            (3 * s, "tokens_total", "engine=\"0\"", 4.0),
            (4 * s, "tokens_total", "engine=\"1\"", 107.0),
            (5 * s, "tokens_total", "engine=\"0\"", 9.0),
            (6 * s, "tokens_total", "engine=\"0\"", 1000.0),
        ];
        let table = Table::new(vec![
            Column::int("at_ns", rows.iter().map(|r| Some(r.0))),
            Column::text("name", rows.iter().map(|r| Some(r.1))),
            Column::text("labels", rows.iter().map(|r| Some(r.2))),
            Column::float("value", rows.iter().map(|r| Some(r.3))),
        ])
        .unwrap();
        let window = (s + s / 2, 4 * s + s / 2);
        let (both, used) = rise(&counter(&[]), &table, window).unwrap();
        // The counters go 10 → 30 → reset to 4 → 9, and 100 → 107.
        assert_eq!(both.delta, Some(20.0 + 4.0 + 5.0 + 7.0));
        assert_eq!((both.series, both.resets, both.seconds), (2, 1, Some(4.0)));
        assert_eq!(used, [1, 3, 5, 7, 2, 6]);
        let (one, _) = rise(&counter(&[("engine", "1")]), &table, window).unwrap();
        assert_eq!((one.delta, one.series), (Some(7.0), 1));
        let (none, used) = rise(&counter(&[("engine", "2")]), &table, window).unwrap();
        assert_eq!((none, used.len()), (Rise::default(), 0));
    }

    #[test]
    fn a_dry_run_takes_it_that_a_server_has_the_counters_but_not_that_a_column_was_sampled() {
        use crate::tests::{canonical, inputs, store, stored, table};

        let (_folder, store) = store();
        let inputs = inputs(&store);
        let run = |counter: &serde_json::Value, rehearsal: bool| {
            let tables = serde_json::json!({"rise": {"operator": "counter-delta", "counters": {"c": counter}}});
            let (seed, control) = (164, pipeline::Control::quiet());
            let (parameters, files) = (canonical(&tables).unwrap(), stored(&store));
            let hold = crate::intake::HOLD;
            let run = crate::kind::run_holding;
            run(&parameters, &inputs, files, seed, &control, hold, rehearsal)
        };
        let of_server = serde_json::json!({"metric": "tokens_total"});
        assert!(run(&of_server, false).is_err());
        let rehearsed = run(&of_server, true).unwrap();
        assert_eq!(table(&rehearsed, "rise").float("c").unwrap()[0], Some(1.0));
        let of_slots = serde_json::json!({"table": "slots", "column": "decoded_tokens"});
        assert!(run(&of_slots, false).is_err());
        assert!(run(&of_slots, true).is_err());
    }

    #[test]
    fn the_sum_over_servers_is_unknown_if_one_of_them_missed_its_last_scrape() {
        let table = |rows: &[(i64, &str, f64)]| {
            Table::new(vec![
                Column::int("at_ns", rows.iter().map(|r| Some(r.0))),
                Column::text("name", rows.iter().map(|_| Some("tokens_total"))),
                Column::text("labels", rows.iter().map(|r| Some(r.1))),
                Column::float("value", rows.iter().map(|r| Some(r.2))),
            ])
            .unwrap()
        };
        let (a, b) = ("member=\"replica-0\"", "member=\"replica-1\",x=\"1\"");
        let mut rows = vec![(0, a, 1.0), (0, b, 5.0), (10, a, 4.0), (10, b, 9.0)];
        let all = |rows: &[_]| rise(&counter(&[]), &table(rows), (1, 15)).unwrap().0;
        rows.extend([(20, a, 6.0), (20, b, 11.0)]);
        assert_eq!(all(&rows).delta, Some(11.0));
        // A series begins late at an address that was scraped the whole time.
        rows.push((20, "member=\"replica-0\",kind=\"new\"", 3.0));
        assert_eq!(all(&rows).delta, Some(11.0));
        rows.retain(|(at, labels, _)| !(*at == 20 && labels.contains("replica-1")));
        assert_eq!((all(&rows).delta, all(&rows).seconds), (None, None));
        let one = counter(&[("member", "replica-0")]);
        assert_eq!(
            rise(&one, &table(&rows), (1, 15)).unwrap().0.delta,
            Some(5.0)
        );
    }

    #[test]
    fn a_label_is_not_the_end_of_another() {
        let counter = counter(&[("le", "1")]);
        assert!(counter.takes("a=\"2\",le=\"1\"") && counter.takes("le=\"1\""));
        assert!(!counter.takes("handle=\"1\"") && !counter.takes("le=\"10\""));
    }
}
