//! `censored`: latencies, some of which are only known to exceed the time at which their requests were abandoned.

use artifacts::Scalar;
use contract::{RequestStatus, Timing};
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, Survival, kaplan_meier};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Row, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator, unless};
use crate::operators::cells::{Group, each_group};
use crate::operators::distribution::{improbable, quantile_name};

pub(crate) struct Censored;

/// The statuses of requests that were abandoned while still running.
pub(crate) const GIVEN_UP: [RequestStatus; 3] = [
    RequestStatus::Timeout,
    RequestStatus::Hung,
    RequestStatus::Cancelled,
];

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The latency to summarize.
    #[serde(default)]
    metric: Latency,
    /// How an abandoned request counts.
    #[serde(default)]
    convention: Convention,
    /// The probabilities of the quantiles, each between 0 and 1: 0.5 is the median.
    #[serde(default = "quantiles")]
    quantiles: Vec<f64>,
    /// Axes whose cells are pooled into one row, value by value. By default, each cell has its own row.
    #[serde(default)]
    over: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Latency {
    #[default]
    E2eLatencyMs,
    TtftMs,
}

impl Latency {
    fn name(self) -> &'static str {
        match self {
            Self::E2eLatencyMs => "e2e_latency_ms",
            Self::TtftMs => "ttft_ms",
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Convention {
    #[default]
    KaplanMeier,
    AtLeast,
}

impl Convention {
    fn word(self) -> &'static str {
        match self {
            Self::KaplanMeier => {
                "kaplan-meier: an abandoned request lasts longer than the client waited"
            }
            Self::AtLeast => {
                "at-least: an abandoned request counts with the time the client \
                waited"
            }
        }
    }
}

fn quantiles() -> Vec<f64> {
    vec![0.5, 0.9, 0.95, 0.99]
}

/// Latencies of some cells, observed in full or only in part.
struct Waits {
    level: Level,
    observed: Vec<f64>,
    censored: Vec<f64>,
    failed: usize,
    missing: Scalar,
    /// Whether cells without values here may have been slower.
    lost: bool,
    curve: Option<Survival>,
    /// Both kinds in one sample.
    pooled: Option<Sample>,
}

impl Waits {
    /// A quantile, and whether it is only a lower bound.
    fn quantile(&self, convention: Convention, p: f64) -> (Option<f64>, Option<bool>) {
        match convention {
            Convention::KaplanMeier => {
                let value = self.curve.as_ref().and_then(|c| c.quantile(p));
                let bound = self.lost || value.is_none();
                (value, self.curve.as_ref().map(|_| bound))
            }
            Convention::AtLeast => {
                let first_bound = self.censored.iter().copied().reduce(f64::min);
                let value = self.pooled.as_ref().map(|s| s.quantile(p));
                let reached = |v| self.lost || first_bound.is_some_and(|b| b <= v);
                (value, value.map(reached))
            }
        }
    }
}

fn columns(given: &Parameters) -> Columns<'static, Waits> {
    let (name, convention) = (given.metric.name(), given.convention);
    let level = "cell, or marginal or pooled if cells are combined";
    let observed = format!("measured requests whose {name} was seen in full");
    let censored = "measured requests abandoned (timeout, hung, cancelled) before it was";
    let failed = "measured requests that ended otherwise; they have no latency and enter no row \
        here";
    let without = "cells without rows, or with rows that a gate excluded, with the reason; they enter no value here, and may \
        have been slower; null if none";
    let mut columns = Columns::new()
        .with(Spec::text("level", level), |w: &Waits| w.level.word())
        .with(
            Spec::text("convention", "how an abandoned request enters the latency"),
            move |_| convention.word(),
        )
        .with(Spec::int("n_observed", "1", observed), |w| w.observed.len())
        .with(Spec::int("n_censored", "1", censored), |w| w.censored.len())
        .with(Spec::int("n_failed", "1", failed), |w| w.failed)
        .with(
            Spec::float(
                "longest_wait_ms",
                "ms",
                "the largest value, seen in full or not",
            ),
            |w| w.pooled.as_ref().map(Sample::max),
        )
        .with(Spec::text("cells_without_rows", without), |w| {
            w.missing.clone()
        });
    for p in given.quantiles.iter().copied() {
        let column = format!("{name}_{}", quantile_name(p));
        let (how, bound) = match convention {
            Convention::KaplanMeier => (
                format!(
                    "smallest value at which the Kaplan–Meier estimate is at most {}; null if \
                    the estimate stays above",
                    round(1.0 - p)
                ),
                "whether it is unknown and longest_wait_ms its lower bound, or may be too low for lack of the cells in \
                cells_without_rows",
            ),
            Convention::AtLeast => (
                format!(
                    "quantile {p} (type 7), with abandoned requests at the time the client waited"
                ),
                "whether it is only a lower bound, because a request was abandoned at or before it, or for lack of the cells \
                in cells_without_rows",
            ),
        };
        columns.push(
            Spec::float(&column, "ms", format!("{how}; {name}")),
            move |w| w.quantile(convention, p).0,
        );
        columns.push(
            Spec::boolean(format!("{column}_is_bound"), bound),
            move |w| w.quantile(convention, p).1,
        );
    }
    columns
}

fn round(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

impl TypedOperator for Censored {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "censored";
    const SUMMARY: &'static str = "Latency quantiles in which requests that hung or timed out \
        count as larger than a bound.";
    const SOURCE: &'static str = "\
        Kaplan & Meier (JASA 53, 1958), as in statsmodels' SurvfuncRight, with quantiles defined as inf{t: S(t) ≤ 1 − \
        p}. Without such requests, a server that hangs looks fast. Neither zero nor the limit itself is a latency, so \
        the operator counts these requests as censored.\n\n\
        The requests of a cell that hung or ran out of time enter, as far as the cell left rows. A cell that failed \
        otherwise, or that a gate excluded, enters no value, and each quantile of its row is then marked as a bound. The \
        gate `row-status` without a `tolerance` excludes the cells in which requests timed out.";
    const READS: Reads = Reads::AlsoHung;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let problems = improbable(draft.settings, &given.quantiles);
        unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns(given);
        each_group(context, load, &given.over, columns.specs(), |group| {
            describe(given, group, &columns)
        })
    }
}

fn describe(
    given: &Parameters,
    group: Group<'_>,
    columns: &Columns<'_, Waits>,
) -> Result<Row, Failure> {
    let Group {
        key,
        cells,
        missing,
        lost,
        level,
    } = group;
    let (mut observed, mut censored, mut failed) = (Vec::new(), Vec::new(), 0);
    let mut lineage = Vec::new();
    for cell in cells {
        let cell = cell.get()?;
        let timings = contract::timings(&cell);
        for t in &timings {
            match (full(given.metric, t), waited(t)) {
                (Some(value), _) => observed.push(value),
                (None, Some(bound)) => censored.push(bound),
                (None, None) => failed += 1,
            }
        }
        lineage.extend(spans(cell.requests_source(), timings.iter().map(|t| t.row)));
    }
    let waits = Waits {
        level,
        curve: kaplan_meier(&observed, &censored),
        pooled: Sample::new(observed.iter().chain(&censored).copied()).ok(),
        observed,
        censored,
        failed,
        missing,
        lost,
    };
    Ok(columns.row(key, &waits, lineage))
}

/// The latency, if it was observed in full. A first token may have come before a request hung.
fn full(metric: Latency, t: &Timing<'_>) -> Option<f64> {
    let counts =
        t.request.is_ok() || (metric == Latency::TtftMs && GIVEN_UP.contains(&t.request.status));
    contract::metric(metric.name())
        .filter(|_| counts)
        .and_then(|m| m.of(t))
}

/// How long the client waited for an abandoned request, in ms.
fn waited(t: &Timing<'_>) -> Option<f64> {
    let given_up = GIVEN_UP.contains(&t.request.status);
    let (sent, done) = (t.request.sent_ns?, t.request.done_ns?);
    given_up.then_some((done - sent) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use artifacts::Store;
    use contract::{RequestStatus, synthetic};
    use pipeline::{CellStatus, Input, InputCell};
    use serde_json::json;

    use super::*;
    use crate::tests::{analyze, cell, store, table, verification};

    /// A cell of two requests that were answered after 100 ms and 200 ms.
    fn answered(store: &Store, clients: i64, rep: i64) -> InputCell {
        let mut rows: Vec<_> = (1..=2).map(synthetic::request).collect();
        for (row, end) in rows.iter_mut().zip([100_000_000, 200_000_000]) {
            (row.last_token_ns, row.done_ns) = (Some(end), Some(end));
        }
        cell(store, &at(clients, rep), &rows)
    }

    fn at(clients: i64, rep: i64) -> [(&'static str, Scalar); 2] {
        [("clients", Scalar::Int(clients)), ("rep", Scalar::Int(rep))]
    }

    /// A cell whose requests were abandoned after a minute.
    fn hung(store: &Store, clients: i64, rep: i64) -> InputCell {
        let mut rows: Vec<_> = (1..=2).map(synthetic::request).collect();
        for row in &mut rows {
            (row.last_token_ns, row.done_ns) = (None, Some(60_000_000_000));
            row.status = RequestStatus::Hung;
        }
        InputCell {
            status: CellStatus::Hung,
            reason: Some("no byte for 1 min".to_owned()),
            ..cell(store, &at(clients, rep), &rows)
        }
    }

    fn study(store: &Store, barred: &[(&str, &str)]) -> [Input; 2] {
        let mut cells: Vec<_> = (1..=3).map(|rep| answered(store, 1, rep)).collect();
        cells.push(answered(store, 2, 1));
        cells.extend([2, 3].map(|rep| hung(store, 2, rep)));
        // It left no rows.
        let failed = synthetic::missing(&at(4, 1), CellStatus::Hung, "the server did not start");
        cells.extend([failed, answered(store, 4, 2)]);
        let loads = synthetic::input("ladder", "load", cells);
        [loads, verification(store, barred)]
    }

    #[test]
    fn requests_of_cells_that_hung_are_censored_and_other_lost_cells_make_bounds() {
        let (_folder, store) = store();
        let settings = json!({
            "pooled": {"operator": "censored", "quantiles": [0.5], "over": ["rep"]},
            "at_least": {"operator": "censored", "quantiles": [0.5], "over": ["rep"], "convention": "at-least"},
            "each": {"operator": "censored", "quantiles": [0.5]},
        });
        let inputs = study(&store, &[("clients=1,rep=3", "2 rows timed out")]);
        let done = analyze(&store, &inputs, &settings).unwrap();
        let pooled = table(&done, "pooled");
        assert_eq!(pooled.int("clients").unwrap(), [Some(1), Some(2), Some(4)]);
        assert_eq!(
            pooled.int("n_observed").unwrap(),
            [Some(4), Some(2), Some(2)]
        );
        assert_eq!(
            pooled.int("n_censored").unwrap(),
            [Some(0), Some(4), Some(0)]
        );
        // Of six requests, two ended by 200 ms.
        assert_eq!(
            pooled.float("e2e_latency_ms_p50").unwrap(),
            [Some(100.0), None, Some(100.0)]
        );
        let bounds = [Some(true); 3];
        assert_eq!(
            pooled.boolean("e2e_latency_ms_p50_is_bound").unwrap(),
            bounds
        );
        assert_eq!(pooled.float("longest_wait_ms").unwrap()[1], Some(60_000.0));
        let without = [
            Some("rep=3 (gate row-status: 2 rows timed out)"),
            None,
            Some("rep=1 (hung: the server did not start)"),
        ];
        assert_eq!(pooled.text("cells_without_rows").unwrap(), without);
        let at_least = table(&done, "at_least");
        assert_eq!(
            at_least.boolean("e2e_latency_ms_p50_is_bound").unwrap(),
            bounds
        );
        let each = table(&done, "each");
        assert_eq!(
            each.int("n_censored")
                .unwrap()
                .iter()
                .flatten()
                .sum::<i64>(),
            4
        );
        assert_eq!(each.int("rep").unwrap().len(), 6);
        assert_eq!(
            each.boolean("e2e_latency_ms_p50_is_bound").unwrap()[..3],
            [Some(false), Some(false), Some(false)]
        );
    }

    #[test]
    fn cells_that_hung_do_not_make_a_gate_needless() {
        let (_folder, store) = store();
        let [loads, _] = study(&store, &[]);
        let settings = json!({"pooled": {"operator": "censored", "over": ["rep"]}});
        let failure = analyze(&store, &[loads], &settings).err().unwrap();
        assert!(
            failure.reason.starts_with("no verify stage"),
            "{}",
            failure.reason
        );
    }
}
