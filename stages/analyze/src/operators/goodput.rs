//! `goodput`: requests per second that meet every bound of a service level objective.

use contract::{METRICS, RequestStatus, Timing};
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, Spec, spans, text};
use crate::operator::{Context, Draft, Reads, TypedOperator, unless};

pub(crate) struct Goodput;

/// How objectives are written.
const FORM: &str = "`objectives: [{name: NAME, all: [{metric: ttft_ms, at-most: 200}]}]`";

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "slo": FORM, "slos": FORM, "goodput": FORM, "bounds": FORM, "thresholds": FORM, "all": FORM,
}))]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The objectives. Each makes one row.
    objectives: Vec<Objective>,
}

/// A named set of bounds, all of which a request must meet.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "bounds": "`all`", "metrics": "`all`", "conditions": "`all`", "thresholds": "`all`", "slo": "`all`",
}))]
struct Objective {
    /// The name printed with every result.
    name: String,
    /// The bounds.
    all: Vec<Bound>,
}

/// An upper bound on a metric of a request.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "max": "`at-most`", "maximum": "`at-most`", "below": "`at-most`", "under": "`at-most`", "bound": "`at-most`",
    "limit": "`at-most`", "threshold": "`at-most`", "lt": "`at-most`", "le": "`at-most`", "lte": "`at-most`",
    "target": "`at-most`", "column": "`metric`", "name": "`metric`",
}))]
struct Bound {
    /// The metric.
    metric: String,
    /// The largest value that meets it, in the metric's unit.
    at_most: f64,
    /// Whether a request without a value of the metric meets the bound.
    #[serde(default)]
    undefined_meets: bool,
}

impl Bound {
    fn value(&self, timing: &Timing<'_>) -> Option<f64> {
        contract::metric(&self.metric).and_then(|m| m.of(timing))
    }

    fn met(&self, timing: &Timing<'_>) -> bool {
        self.value(timing)
            .map_or(self.undefined_meets, |v| v <= self.at_most)
    }

    /// Whether an abandoned request had already missed the bound: its value, or the time that it waited for one, is beyond
    /// it.
    fn missed(&self, timing: &Timing<'_>) -> bool {
        let from = match &*self.metric {
            "ttft_ms" | "e2e_latency_ms" => timing.request.sent_ns,
            "ttft_scheduled_ms" | "e2e_scheduled_ms" => timing.request.scheduled_ns,
            _ => None,
        };
        let waited = from.zip(timing.request.done_ns);
        let waited = waited.map(|(from, done)| (done - from) as f64 / 1e6);
        let reached = match self.metric.starts_with("ttft") {
            true => self.value(timing).or(waited),
            false => waited,
        };
        !self.undefined_meets && reached.is_some_and(|value| value > self.at_most)
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

/// One objective in one cell.
struct Attained {
    bounds: String,
    rows: usize,
    /// Those that the load abandoned on purpose.
    abandoned: usize,
    /// The requests that were due and never sent, which have no row.
    unsent: usize,
    ok: usize,
    met: usize,
    undefined: usize,
    /// In seconds.
    window: Option<f64>,
}

fn columns() -> Columns<'static, Attained> {
    let undefined = "of n_ok, those for which a bounded metric is undefined";
    let met = "of these, those that meet every bound";
    let rate = "n_met ÷ (n_rows + n_unsent − n_abandoned); a request that failed or was never sent meets no bound";
    let throughput = "ok requests ÷ window, as in the cell summary";
    Columns::new()
        .with(
            Spec::text("bounds", "the bounds, all of which a request must meet"),
            |a: &Attained| a.bounds.clone(),
        )
        .with(
            Spec::int("n_rows", "1", "measured requests, including failed ones"),
            |a| a.rows,
        )
        .with(
            Spec::int(
                "n_abandoned",
                "1",
                "measured requests that the load abandoned by its setting `cancel` before they missed a bound",
            ),
            |a| a.abandoned,
        )
        .with(
            Spec::int(
                "n_unsent",
                "1",
                "requests that were due and not sent before the duration ended, which have no row",
            ),
            |a| a.unsent,
        )
        .with(
            Spec::int("n_ok", "1", "measured requests of status ok"),
            |a| a.ok,
        )
        .with(Spec::int("n_met", "1", met), |a| a.met)
        .with(Spec::int("n_undefined", "1", undefined), |a| a.undefined)
        .with(
            Spec::float("slo_pass_rate", "1", rate).within(Bounds::Share),
            |a| {
                let judged = a.rows + a.unsent - a.abandoned;
                (judged > 0).then(|| a.met as f64 / judged as f64)
            },
        )
        .with(
            Spec::float("request_throughput", "req/s", throughput),
            |a| a.window.map(|w| a.ok as f64 / w),
        )
        .with(Spec::float("goodput", "req/s", "n_met ÷ window"), |a| {
            a.window.map(|w| a.met as f64 / w)
        })
        .not_negative()
}

impl TypedOperator for Goodput {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "goodput";
    const SUMMARY: &'static str =
        "Requests per second that meet every bound of a named objective, and their share.";
    const SOURCE: &'static str = "\
        Every objective is a row, so you can compare several.\n\n\
        A failed request does not meet an objective, so shedding load cannot raise the pass rate. Neither does a request \
        that was due and never sent, because it waited in line until the duration ended. Where requests wait in line for \
        `max-in-flight`, bound `ttft_scheduled_ms` and `e2e_scheduled_ms`: the others begin with the sending. A request for which \
        a bounded metric is undefined does not meet it either, unless the bound says `undefined-meets`. If no request \
        failed or was left unsent, goodput = pass rate · request throughput.\n\n\
        Requests that the load abandons by its setting `cancel` do not count as failures. They are not part of the pass rate \
        unless they had missed a bound by then.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        let mut problems = Vec::new();
        for (i, objective) in given.objectives.iter().enumerate() {
            for (j, bound) in objective.all.iter().enumerate() {
                if contract::metric(&bound.metric).is_none() {
                    let place = [
                        Step::Key("objectives".to_owned()),
                        Step::Index(i),
                        Step::Key("all".to_owned()),
                        Step::Index(j),
                        Step::Key("metric".to_owned()),
                    ];
                    let message = format!("a request has no metric `{}`", bound.metric);
                    problems.push(draft.settings.problem(&place, message).hint(remedy(
                        &bound.metric,
                        "metrics",
                        &names,
                    )));
                }
            }
        }
        unless(problems, || columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let (columns, mut made) = (columns(), Vec::new());
        for (at, rows) in &load.cells {
            let cell = rows.get()?;
            let timings = contract::timings(&cell);
            let by_the_load = rows.abandons();
            let is_abandoned =
                |t: &&Timing<'_>| by_the_load && t.request.status == RequestStatus::Cancelled;
            let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
            let about = cell.cell.as_ref();
            let unsent = about.and_then(|about| about.int("unsent_requests"));
            let unsent = usize::try_from(unsent.unwrap_or(0)).unwrap_or(0);
            let window = cell.window_s();
            for objective in &given.objectives {
                let is_open = |t: &&Timing<'_>| !objective.all.iter().any(|b| b.missed(t));
                let abandoned = timings.iter().filter(is_abandoned).filter(is_open);
                let abandoned = abandoned.count();
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
                let attained = Attained {
                    bounds: bounds.join(" and "),
                    rows: timings.len(),
                    abandoned,
                    unsent,
                    ok: ok.len(),
                    met,
                    undefined,
                    window,
                };
                let measured = timings.iter().map(|t| t.row);
                let lineage = spans(cell.requests_source(), measured);
                made.push(columns.row(key, &attained, lineage));
            }
        }
        let mut keys = load.axes.clone();
        keys.push("objective".to_owned());
        Ok(Frame {
            level: Level::Cell,
            keys,
            specs: columns.specs(),
            rows: made,
            missing: load.missing.clone(),
        })
    }
}
