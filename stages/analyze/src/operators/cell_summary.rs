//! `cell-summary`: one row per load cell.

use artifacts::counted;
use contract::{CellRows, IntervalEnd, METRICS, Metric, Timing};
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Interval, Sample, effective_size_of_waves, effective_sizes_of_quantiles, in_groups,
    least_for_quantile, mid_ranks, quantile_interval_of,
};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, SourceRows, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::each_cell;
use crate::operators::fairness::{Flattered, lost_many};
use crate::operators::units::LEVEL;

pub(crate) struct CellSummary;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The quantiles to print. `supported` prints a quantile only if there are enough values to bound it on both sides;
    /// `all` prints all.
    #[serde(default)]
    quantiles: Printed,
}

/// Which quantiles are printed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Printed {
    /// Quantiles with enough values to bound them on both sides at level 0.95: the median from 6
    /// values, p90 from 36, p95 from 72, p99 from 368. The others are null.
    #[default]
    Supported,
    /// All quantiles, for any number of values.
    All,
}

impl Printed {
    /// Whether a quantile of `n` values is printed.
    pub(crate) fn prints(self, n: usize, p: f64) -> bool {
        self == Self::All || n >= least_for_quantile(p, LEVEL)
    }
}

/// The quantiles of a distribution.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Returns the columns of a table with these parameters that hold a quantile over requests, each with the number of
/// requests that it needs; `None` if the table prints all of them.
pub(crate) fn needed(parameters: &pipeline::Json) -> Option<Vec<(String, u64)>> {
    if parameters["quantiles"] == "all" {
        return None;
    }
    let of_metric = |metric: &Metric| {
        QUANTILES.map(|(name, p)| {
            let least = least_for_quantile(p, LEVEL) as u64;
            (format!("{}_{name}", metric.name), least)
        })
    };
    Some(METRICS.iter().flat_map(of_metric).collect())
}

/// Reads a statistic from a sample.
type Statistic = fn(&Sample) -> Option<f64>;

/// The statistics of a distribution.
const STATISTICS: &[(&str, Statistic)] = &[
    ("mean", |s| Some(s.mean())),
    ("std", Sample::std),
    ("min", |s| Some(s.min())),
    ("max", |s| Some(s.max())),
];

pub(crate) const ICL: (&str, &str, &str) = (
    "icl_ms",
    "ms",
    "each gap between consecutive chunks with text; the first chunk has no gap",
);
pub(crate) const ITL: (&str, &str, &str) = (
    "itl_ms",
    "ms/tok",
    "each gap ÷ tokens of the later chunk, once per token; null if a chunk's tokens are unknown",
);

fn distributions() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut all: Vec<_> = METRICS
        .iter()
        .map(|m| (m.name, m.unit, m.definition))
        .collect();
    all.extend([ICL, ITL]);
    all
}

/// The measured requests of one cell.
struct Summary {
    rows: usize,
    ok: usize,
    /// The time from the first byte sent to the end of the last answer, in seconds.
    window: Option<f64>,
    output: Option<i64>,
    prompt: Option<i64>,
    cached: Option<i64>,
    cached_told: usize,
    /// The number of answers whose schema was checked.
    checked: usize,
    valid: usize,
    chunks: usize,
    server_prompt_ms: Option<f64>,
    server_predicted_ms: Option<f64>,
    lag: Option<Sample>,
    /// One entry for each of [`distributions`], in order.
    metrics: Vec<Option<Distribution>>,
    printed: Printed,
    /// Whether clients sent in turn, instead of at moments of a schedule; `None` if the rows do not say.
    closed: Option<bool>,
}

/// Why the requests of a cell are not independent.
#[derive(Clone, Copy)]
struct Dependence {
    /// Requests followed a schedule, and waited in one queue.
    queue: bool,
    /// Clients sent in turn: requests in flight together, this many, share the server's batches.
    waves: Option<usize>,
}

/// The values of one metric.
struct Distribution {
    sample: Sample,
    /// In the order of [`QUANTILES`]; `None` where a request does not have exactly one value.
    intervals: [Option<Interval>; 4],
}

impl Distribution {
    /// Keeps values, in the order of sending, with the intervals of their quantiles. They count as fewer independent
    /// values: scheduled requests wait in one queue, and clients' requests of one wave, and of neighbouring waves, share the
    /// server's state.
    fn of_requests(values: &[f64], dependence: Dependence) -> Option<Self> {
        let sample = Sample::new(values.iter().copied()).ok()?;
        // The ranks resemble each other at least as much as the shares beyond a quantile do, and few waves show it better.
        let in_waves = dependence.waves.map(|length| {
            effective_size_of_waves(in_groups(&mid_ranks(values).ranks, length)).unwrap_or(1.0)
        });
        let in_queue = match dependence.queue {
            true => effective_sizes_of_quantiles(values, QUANTILES.map(|(_, p)| p), LEVEL),
            false => [Some(f64::INFINITY); 4],
        };
        let interval = |at: usize| {
            let size = in_queue[at]?.min(in_waves.unwrap_or(f64::INFINITY));
            let effective = size.floor() as usize;
            let interval = quantile_interval_of(&sample, effective, QUANTILES[at].1, LEVEL).ok()?;
            Some(interval.interval)
        };
        let intervals = [0, 1, 2, 3].map(interval);
        Some(Self { sample, intervals })
    }

    /// Keeps the values of a metric that has several per request.
    fn within_requests(sample: Sample) -> Self {
        Self {
            sample,
            intervals: [None; 4],
        }
    }
}

impl Summary {
    fn a_second(&self, amount: f64) -> Option<f64> {
        self.window.map(|window| amount / window)
    }

    fn a_request(&self, sum: Option<i64>) -> Option<f64> {
        sum.map(|sum| sum as f64 / self.ok as f64)
    }
}

impl Summary {
    fn quantile(&self, metric: usize, p: f64) -> Option<f64> {
        let sample = &self.metrics[metric].as_ref()?.sample;
        self.printed
            .prints(sample.len(), p)
            .then(|| sample.quantile(p))
    }

    fn interval(&self, metric: usize, quantile: usize) -> Option<Interval> {
        self.metrics[metric].as_ref()?.intervals[quantile]
    }

    /// Whether so many requests were lost that the others flatter the cell.
    fn lost_many(&self) -> bool {
        lost_many(self.rows - self.ok, self.rows)
    }

    /// Returns an end of the interval of a quantile. If many requests were lost, the end that flatters the cell shows nothing.
    fn end(&self, (metric, quantile): (usize, usize), which: IntervalEnd) -> Option<f64> {
        let Interval { low, high } = self.interval(metric, quantile)?;
        let (name, unit, _) = distributions()[metric];
        let flattered = Flattered::side(0, name, Some(unit));
        let shown = !self.lost_many() || !flattered.withholds(which);
        shown.then_some(match which {
            IntervalEnd::Lower => low,
            IntervalEnd::Upper => high,
        })
    }

    /// The omitted quantiles, each with the number of values it needs.
    fn refused(&self) -> Option<String> {
        let sizes = || self.metrics.iter().flatten().map(|m| m.sample.len());
        let refused = QUANTILES.iter().filter_map(|(name, p)| {
            let few = sizes().filter(|n| !self.printed.prints(*n, *p));
            let (most, metrics) = (few.clone().max()?, few.count());
            let least = least_for_quantile(*p, LEVEL);
            let have = if metrics == 1 { "has" } else { "have" };
            Some(format!(
                "{name} needs {least} values, and {} {have} at most {most}",
                counted(metrics, "metric")
            ))
        });
        let refused: Vec<String> = refused.collect();
        (!refused.is_empty()).then(|| refused.join("; "))
    }
}

impl Summary {
    /// The quantiles that are printed without an interval, each with the metrics affected.
    fn withheld(&self) -> Option<String> {
        let names = distributions();
        let columns_of = |q: usize, p: f64| {
            let bare = |(i, name): (usize, &(&str, _, _))| {
                let gaps = [ICL.0, ITL.0].contains(&name.0);
                let bare = self.quantile(i, p).is_some() && self.interval(i, q).is_none();
                (bare && !gaps).then(|| name.0.to_owned())
            };
            names
                .iter()
                .enumerate()
                .filter_map(bare)
                .collect::<Vec<_>>()
        };
        let lines = QUANTILES
            .into_iter()
            .enumerate()
            .filter_map(|(q, (quantile, p))| {
                let bare = columns_of(q, p);
                let least = least_for_quantile(p, LEVEL);
                (!bare.is_empty()).then(|| {
                    format!(
                        "{quantile} of {}: {least} independent values needed",
                        bare.join(", ")
                    )
                })
            });
        let lost = self.lost_many().then(|| {
            format!(
                "{} of {} requests were lost: if they were slow, the others flatter the cell, and the ends of intervals in \
                 its favour are null",
                self.rows - self.ok,
                self.rows
            )
        });
        let mut lines: Vec<String> = lines.collect();
        // Without intervals under open arrivals, more requests of the same queue may not be enough.
        if !lines.is_empty() && self.closed != Some(true) {
            lines.push(
                "requests that wait in one queue count as fewer: compare launches, or send more requests"
                    .to_owned(),
            );
        }
        lines.extend(lost);
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn columns() -> Columns<'static, Summary> {
    let mut columns = answers(tokens(throughput(counts())));
    for (i, (name, unit, definition)) in distributions().into_iter().enumerate() {
        let n = format!("number of defined values of {name}");
        columns.push(
            Spec::int(format!("{name}_n"), "1", n),
            move |s: &Summary| s.metrics[i].as_ref().map_or(0, |m| m.sample.len()),
        );
        for (statistic, quantity) in STATISTICS {
            let how = match *statistic {
                "std" => "sample standard deviation (n − 1)",
                other => other,
            };
            let description = format!("{how} of {name} over ok requests: {definition}");
            let spec = Spec::float(format!("{name}_{statistic}"), unit, description);
            columns.push(spec, move |s| {
                s.metrics[i].as_ref().and_then(|m| quantity(&m.sample))
            });
        }
        for (q, (quantile, p)) in QUANTILES.into_iter().enumerate() {
            let what = format!(
                "quantile {} (type 7) of {name} over ok requests: {definition}; null if the \
                values are too few to bound it",
                quantile.trim_start_matches('p')
            );
            let spec = Spec::float(format!("{name}_{quantile}"), unit, what);
            let value = move |s: &Summary| s.quantile(i, p);
            if [ICL.0, ITL.0].contains(&name) {
                columns.push(spec, value);
                continue;
            }
            columns.push(spec.at_level(LEVEL), value);
            let end = |which: IntervalEnd| {
                which.of(format!(
                    "its {LEVEL} interval from order statistics, within this \
                    cell, for the effective number of requests"
                ))
            };
            for (which, word) in [(IntervalEnd::Lower, "low"), (IntervalEnd::Upper, "high")] {
                let spec = Spec::float(format!("{name}_{quantile}_{word}"), unit, end(which));
                columns.push(spec, move |s| s.end((i, q), which));
            }
        }
    }
    columns.not_negative()
}

fn counts() -> Columns<'static, Summary> {
    let ok = "measured rows of status ok; every distribution below is over these";
    Columns::new()
        .with(
            Spec::text("level", "what a row represents: a cell"),
            |_: &Summary| Level::Cell.word(),
        )
        .with(Spec::int("n_rows", "1", "measured rows"), |s| s.rows)
        .with(Spec::int("n_ok", "1", ok), |s| s.ok)
        .with(
            Spec::float("ok_rate", "1", "n_ok ÷ n_rows; null without rows").within(Bounds::Share),
            |s| share(s.ok, s.rows),
        )
        .with(
            Spec::text(
                "arrivals",
                "open (by a schedule) or closed (in turn, by client); null if the rows do not say, as in some imported \
                 files",
            ),
            |s| s.closed.map(|closed| if closed { "closed" } else { "open" }),
        )
        .with(
            Spec::text(
                "quantiles_refused",
                "quantiles that are null because there are too few values; null if none",
            ),
            Summary::refused,
        )
        .with(
            Spec::text(
                "intervals_refused",
                "quantiles that are printed without an interval, because the values depend on each other or are too \
                few, and whether ends are withheld because more than a tenth of the requests were lost; null if none",
            ),
            Summary::withheld,
        )
}

fn throughput(columns: Columns<'static, Summary>) -> Columns<'static, Summary> {
    let total = |s: &Summary| Some((s.output? + s.prompt?) as f64);
    let window = "first sent_ns to last done_ns of the measured requests";
    columns
        .with(Spec::float("window_s", "s", window), |s| s.window)
        .with(
            Spec::float("request_throughput", "req/s", "ok requests ÷ window"),
            |s| s.a_second(s.ok as f64),
        )
        .with(
            Spec::float(
                "output_throughput",
                "tok/s",
                "output tokens of ok requests ÷ window",
            ),
            |s| s.a_second(s.output? as f64),
        )
        .with(
            Spec::float(
                "total_throughput",
                "tok/s",
                "prompt and output tokens of ok requests ÷ window",
            ),
            move |s| s.a_second(total(s)?),
        )
}

fn tokens(columns: Columns<'static, Summary>) -> Columns<'static, Summary> {
    let unknown =
        |which: &str| format!("{which} tokens of ok requests; null if any count is unknown");
    columns
        .with(Spec::int("output_tokens", "tok", unknown("output")), |s| {
            s.output
        })
        .with(Spec::int("prompt_tokens", "tok", unknown("prompt")), |s| {
            s.prompt
        })
        .with(
            Spec::float(
                "output_tokens_mean",
                "tok",
                "output tokens per request, mean",
            ),
            |s| s.a_request(s.output),
        )
        .with(
            Spec::float(
                "prompt_tokens_mean",
                "tok",
                "prompt tokens per request, mean",
            ),
            |s| s.a_request(s.prompt),
        )
        .with(
            Spec::float(
                "prefix_hit_rate",
                "1",
                "cached ÷ prompt tokens of ok requests, as reported in the answers; null unless \
                all report it",
            )
            .within(Bounds::Share),
            |s| Some(s.cached? as f64 / s.prompt.filter(|p| *p > 0)? as f64),
        )
        .with(
            Spec::int(
                "n_cached_told",
                "1",
                "ok requests whose answer reports cached prompt tokens",
            ),
            |s| s.cached_told,
        )
}

fn answers(columns: Columns<'static, Summary>) -> Columns<'static, Summary> {
    let valid = "complete structured answers that satisfy their schema ÷ those checked; null if \
        no schema was requested";
    let own = |which: &str| {
        format!("{which} per request as reported by the server, mean; null if not reported")
    };
    columns
        .with(
            Spec::float("schema_valid_rate", "1", valid).within(Bounds::Share),
            |s| share(s.valid, s.checked),
        )
        .with(
            Spec::float(
                "tokens_per_chunk",
                "tok",
                "output tokens ÷ chunks with text, over ok requests",
            ),
            |s| (s.chunks > 0).then_some(s.output? as f64 / s.chunks as f64),
        )
        .with(
            Spec::float("server_prompt_ms_mean", "ms", own("prompt processing")),
            |s| s.server_prompt_ms,
        )
        .with(
            Spec::float("server_predicted_ms_mean", "ms", own("generation")),
            |s| s.server_predicted_ms,
        )
        .with(
            Spec::float(
                "client_lag_ms_p99",
                "ms",
                "99th percentile (type 7) of send_lag_ns over measured rows",
            ),
            |s| {
                let lag = s
                    .lag
                    .as_ref()
                    .filter(|lag| s.printed.prints(lag.len(), 0.99))?;
                Some(lag.quantile(0.99))
            },
        )
}

impl TypedOperator for CellSummary {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "cell-summary";
    const SUMMARY: &'static str = "One row per load cell: counts, throughput over the window, and the distribution of each metric.";
    const SOURCE: &'static str = "\
        Quantiles are type 7 of Hyndman & Fan (Am. Stat. 50, 1996), the default of NumPy and R. A quantile is null if \
        there are too few values to bound it, unless you set `quantiles: all`.\n\n\
        The interval of a quantile comes from order statistics (Conover 1999, section 3.2). It is valid for this \
        cell, not for other launches. Requests of a cell are not independent, so the interval uses their effective \
        number. Under open arrivals, requests wait in one queue, and resemble those before them (Geyer, Statist. Sci. 7, 1992). \
        The time for which they do, of the ranks and of the values above the quantile, counts with two standard errors more \
        (Madras & Sokal, J. Stat. Phys. 50, 1988), because a cell with few long queues hardly shows how long queues last. \
        In a closed loop, \
        requests in flight together share the server's batches, and count as n ÷ (1 + (m − 1)·ρ), with ρ the intraclass \
        correlation of the ranks in waves of m (Kish 1965). From ten waves on, waves that resemble their neighbours count as \
        fewer, by the autocorrelation of their means. If a file does not say which kind of load it was, the smaller of the \
        two numbers counts. With few waves, no interval may remain.\n\n\
        If more than a tenth of the requests were not answered, the others may flatter the cell. The ends of intervals in \
        its favour are then null: the upper ends of times.\n\n\
        The window runs from the first byte sent to the end of the last answer.";
    const READS: Reads = Reads::Verified;

    fn plan(_: &mut Parameters, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns();
        each_cell(context, load, columns.specs(), |at, cell| {
            let (summary, lineage) = summarise(cell, given.quantiles);
            Ok(columns.row(at.to_vec(), &summary, lineage))
        })
    }
}

fn summarise(cell: &CellRows, printed: Printed) -> (Summary, Vec<SourceRows>) {
    let timings = contract::timings(cell);
    let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
    let total = |read: fn(&Timing<'_>) -> Option<i64>| -> Option<i64> {
        if ok.is_empty() {
            None
        } else {
            ok.iter().map(|t| read(t)).sum()
        }
    };
    let chunks: usize = ok.iter().map(|t| t.gaps.chunks).sum();
    let judged: Vec<bool> = timings
        .iter()
        .filter_map(|t| t.request.schema_valid)
        .collect();
    let valid = judged.iter().filter(|valid| **valid).count();
    let lag = sample(
        timings
            .iter()
            .filter_map(|t| Some(t.request.send_lag_ns? as f64 / 1e6)),
    );
    let server = |read: fn(&Timing<'_>) -> Option<f64>| {
        sample(ok.iter().filter_map(|t| read(t))).map(|s| s.mean())
    };
    let closed = cell.is_closed_loop();
    let dependence = Dependence {
        queue: closed != Some(true),
        waves: (closed != Some(false)).then(|| cell.in_flight()),
    };
    let mut sent = ok.clone();
    sent.sort_by_key(|t| (t.request.sent_ns, t.request.request_id));
    let of_requests = |metric: &Metric| {
        let values = sent.iter().filter_map(|t| metric.of(t));
        Distribution::of_requests(&values.collect::<Vec<f64>>(), dependence)
    };
    let mut metrics: Vec<Option<Distribution>> = METRICS.iter().map(of_requests).collect();
    let gaps = ok
        .iter()
        .flat_map(|t| t.gaps.gaps.iter().map(|(gap, _)| *gap));
    metrics.push(sample(gaps).map(Distribution::within_requests));
    let per_token = per_token(&ok).and_then(|values| Sample::new(values).ok());
    metrics.push(per_token.map(Distribution::within_requests));
    let summary = Summary {
        rows: timings.len(),
        ok: ok.len(),
        window: cell.window_s(),
        output: total(|t| t.request.output_tokens),
        prompt: total(|t| t.request.prompt_tokens),
        cached: total(|t| t.request.cached_prompt_tokens),
        cached_told: ok
            .iter()
            .filter(|t| t.request.cached_prompt_tokens.is_some())
            .count(),
        checked: judged.len(),
        valid,
        chunks,
        server_prompt_ms: server(|t| t.request.server_prompt_ms),
        server_predicted_ms: server(|t| t.request.server_predicted_ms),
        lag,
        metrics,
        printed,
        closed,
    };
    let measured = timings.iter().map(|t| t.row);
    let mut lineage = spans(cell.requests_source(), measured);
    if let Some(chunks) = cell.chunks_source() {
        let used = ok.iter().flat_map(|t| t.chunk_rows.iter().copied());
        lineage.extend(spans(chunks, used));
    }
    (summary, lineage)
}

/// Each gap divided over the tokens of the later chunk; `None` if a token count is unknown.
pub(crate) fn per_token(ok: &[&Timing<'_>]) -> Option<Vec<f64>> {
    let mut values = Vec::new();
    for (gap, tokens) in ok.iter().flat_map(|t| t.gaps.gaps.iter()) {
        let tokens = (*tokens)?;
        for _ in 0..tokens {
            values.push(gap / tokens as f64);
        }
    }
    Some(values)
}

pub(crate) fn sample(values: impl Iterator<Item = f64>) -> Option<Sample> {
    Sample::new(values).ok()
}

#[cfg(test)]
mod tests;
