//! `goodput`: requests a second that meet every bound of a service level objective.

use pipeline::{Failure, Json, Problem, Step};
use rows::{METRICS, Settings, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, parameters};

pub(crate) struct Goodput;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The load stage, if several are needed.
    #[serde(default)]
    load: Option<String>,
    /// The objectives, one row each.
    objectives: Vec<Objective>,
}

/// A named set of bounds, all of which a request must meet.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Objective {
    /// The name printed with every result.
    name: String,
    /// The bounds.
    all: Vec<Bound>,
}

/// An upper bound on a metric of a request.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bound {
    /// The metric.
    metric: String,
    /// The largest value that meets it, in the metric's unit.
    at_most: f64,
    /// Whether a request for which the metric is undefined meets it.
    #[serde(default)]
    undefined_meets: bool,
}

impl Bound {
    fn value(&self, timing: &Timing<'_>) -> Option<f64> {
        rows::metric(&self.metric).and_then(|m| m.of(timing))
    }

    fn met(&self, timing: &Timing<'_>) -> bool {
        self.value(timing)
            .map_or(self.undefined_meets, |v| v <= self.at_most)
    }

    fn words(&self) -> String {
        let undefined = if self.undefined_meets {
            " or undefined"
        } else {
            ""
        };
        format!("{} ≤ {}{undefined}", self.metric, self.at_most)
    }
}

fn columns() -> Vec<Spec> {
    vec![
        Spec::text("bounds", "the bounds, all of which a request must meet"),
        Spec::int("n_ok", "1", "measured requests of status ok"),
        Spec::int("n_met", "1", "of these, those that meet every bound"),
        Spec::int(
            "n_undefined",
            "1",
            "of n_ok, those for which a bounded metric is undefined",
        ),
        Spec::float("slo_pass_rate", "1", "n_met ÷ n_ok"),
        Spec::float(
            "request_throughput",
            "req/s",
            "ok requests ÷ window, as in the cell summary",
        ),
        Spec::float(
            "goodput",
            "req/s",
            "n_met ÷ window = slo_pass_rate · request_throughput",
        ),
    ]
}

impl Operator for Goodput {
    fn name(&self) -> &'static str {
        "goodput"
    }

    fn summary(&self) -> &'static str {
        "Requests a second that meet every bound of a named objective, with the share that does."
    }

    fn source(&self) -> &'static str {
        "Every objective is a row, so several can be compared. A request for which a bounded metric is undefined does not meet it, unless the bound says `undefined-meets`. The identity goodput = pass rate · request throughput holds to rounding."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, _scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let known: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        let mut problems = Vec::new();
        for (i, objective) in given.objectives.iter().enumerate() {
            for (j, bound) in objective.all.iter().enumerate() {
                if rows::metric(&bound.metric).is_none() {
                    let place = [
                        Step::Key("objectives".to_owned()),
                        Step::Index(i),
                        Step::Key("all".to_owned()),
                        Step::Index(j),
                        Step::Key("metric".to_owned()),
                    ];
                    let message = format!("a request has no metric `{}`", bound.metric);
                    problems.push(
                        settings
                            .problem(&place, message)
                            .hint(rows::did_you_mean(&bound.metric, &known)),
                    );
                }
            }
        }
        if problems.is_empty() {
            Ok(Plan {
                parameters: rows::canonical(&given),
                columns: columns(),
            })
        } else {
            Err(problems)
        }
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let load = context.load(given.load.as_deref())?;
        let mut rows = Vec::new();
        for (at, cell) in &load.cells {
            let cell = cell.get()?;
            let timings = rows::timings(&cell);
            let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
            let first = timings.iter().filter_map(|t| t.request.sent_ns).min();
            let last = timings.iter().filter_map(|t| t.request.done_ns).max();
            let window = first
                .zip(last)
                .map(|(a, b)| (b - a) as f64 / 1e9)
                .filter(|w| *w > 0.0);
            for objective in &given.objectives {
                let met = ok
                    .iter()
                    .filter(|t| objective.all.iter().all(|b| b.met(t)))
                    .count();
                let undefined = ok
                    .iter()
                    .filter(|t| objective.all.iter().any(|b| b.value(t).is_none()))
                    .count();
                let bounds: Vec<String> = objective.all.iter().map(Bound::words).collect();
                let mut key = at.clone();
                key.push(text(&objective.name));
                let values = vec![
                    text(bounds.join(" and ")),
                    count(ok.len()),
                    count(met),
                    count(undefined),
                    number((!ok.is_empty()).then(|| met as f64 / ok.len() as f64)),
                    number(window.map(|w| ok.len() as f64 / w)),
                    number(window.map(|w| met as f64 / w)),
                ];
                let lineage = spans(
                    &cell.requests_digest.to_string(),
                    timings.iter().map(|t| t.row),
                );
                rows.push(Row {
                    key,
                    values,
                    lineage,
                });
            }
        }
        let mut keys = load.axes.clone();
        keys.push("objective".to_owned());
        Ok(Frame {
            level: Level::Cell,
            keys,
            specs: columns(),
            rows,
            missing: load.missing.clone(),
        })
    }
}
