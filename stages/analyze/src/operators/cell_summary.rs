//! `cell-summary`: one row per load cell.

use artifacts::Scalar;
use pipeline::Failure;
use rows::{CellRows, METRICS, Metric, Timing};
use statistics::Sample;

use crate::frame::{Level, Row, Spec, count, number, spans, text};
use crate::operators::cells::OfEachCell;

pub(crate) struct CellSummary;

/// How a statistic is read from a sample.
type Statistic = fn(&Sample) -> Option<f64>;

/// The statistics of a distribution.
const STATISTICS: &[(&str, Statistic)] = &[
    ("mean", |s| Some(s.mean())),
    ("std", Sample::std),
    ("min", |s| Some(s.min())),
    ("p50", |s| Some(s.quantile(0.5))),
    ("p90", |s| Some(s.quantile(0.9))),
    ("p95", |s| Some(s.quantile(0.95))),
    ("p99", |s| Some(s.quantile(0.99))),
    ("max", |s| Some(s.max())),
];

pub(crate) const ICL: (&str, &str, &str) = (
    "icl_ms",
    "ms",
    "each gap between consecutive chunks that carry text; the first chunk is no gap",
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

fn columns() -> Vec<Spec> {
    let mut columns = vec![
        Spec::text("level", "what a row stands for: a cell"),
        Spec::int("n_rows", "1", "measured rows"),
        Spec::int(
            "n_ok",
            "1",
            "measured rows of status ok; every distribution below is over these",
        ),
        Spec::float("ok_rate", "1", "n_ok ÷ n_rows; null without rows"),
        Spec::float(
            "window_s",
            "s",
            "first sent_ns to last done_ns of the measured requests",
        ),
        Spec::float("request_throughput", "req/s", "ok requests ÷ window"),
        Spec::float(
            "output_throughput",
            "tok/s",
            "output tokens of ok requests ÷ window",
        ),
        Spec::float(
            "total_throughput",
            "tok/s",
            "prompt and output tokens of ok requests ÷ window",
        ),
        Spec::int(
            "output_tokens",
            "tok",
            "output tokens of ok requests; null if any count is unknown",
        ),
        Spec::int(
            "prompt_tokens",
            "tok",
            "prompt tokens of ok requests; null if any count is unknown",
        ),
        Spec::float("output_tokens_mean", "tok", "output tokens a request, mean"),
        Spec::float("prompt_tokens_mean", "tok", "prompt tokens a request, mean"),
        Spec::float(
            "prefix_hit_rate",
            "1",
            "cached ÷ prompt tokens as the server says; null if it does not say",
        ),
        Spec::float(
            "schema_valid_rate",
            "1",
            "complete structured answers that keep their schema ÷ those checked; null if none was asked for",
        ),
        Spec::float(
            "tokens_per_chunk",
            "tok",
            "output tokens ÷ chunks with text, over ok requests",
        ),
        Spec::float(
            "server_prompt_ms_mean",
            "ms",
            "prompt processing a request by the server's own account, mean; null if untold",
        ),
        Spec::float(
            "server_predicted_ms_mean",
            "ms",
            "generation a request by the server's own account, mean; null if untold",
        ),
        Spec::float(
            "client_lag_ms_p99",
            "ms",
            "99th percentile (type 7) of send_lag_ns over measured rows",
        ),
    ];
    for (name, unit, definition) in distributions() {
        columns.push(Spec::int(
            format!("{name}_n"),
            "1",
            format!("number of defined values of {name}"),
        ));
        for (statistic, _) in STATISTICS {
            let how = match *statistic {
                "std" => "sample standard deviation (n − 1)".to_owned(),
                s if s.starts_with('p') => {
                    format!("quantile {} (type 7)", s.trim_start_matches('p'))
                }
                s => s.to_owned(),
            };
            let description = format!("{how} of {name} over ok requests: {definition}");
            columns.push(Spec::float(
                format!("{name}_{statistic}"),
                unit,
                description,
            ));
        }
    }
    columns
}

impl OfEachCell for CellSummary {
    const NAME: &'static str = "cell-summary";
    const SUMMARY: &'static str = "One row per load cell: counts, throughput over the window, and the distribution of each metric.";
    const SOURCE: &'static str = "Quantiles are type 7 of Hyndman & Fan (Am. Stat. 50, 1996), the default of NumPy and R. The window runs from the first byte sent to the last answer ended.";

    fn columns() -> Vec<Spec> {
        columns()
    }

    fn row(at: &[Scalar], cell: &CellRows) -> Result<Row, Failure> {
        Ok(summarise(at.to_vec(), cell))
    }
}

fn summarise(key: Vec<Scalar>, cell: &CellRows) -> Row {
    let timings = rows::timings(cell);
    let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
    let first = timings.iter().filter_map(|t| t.request.sent_ns).min();
    let last = timings.iter().filter_map(|t| t.request.done_ns).max();
    let window = first
        .zip(last)
        .map(|(a, b)| (b - a) as f64 / 1e9)
        .filter(|w| *w > 0.0);
    let per_second = |amount: Option<f64>| number(amount.zip(window).map(|(a, w)| a / w));
    let total = |of: fn(&Timing<'_>) -> Option<i64>| -> Option<i64> {
        if ok.is_empty() {
            None
        } else {
            ok.iter().map(|t| of(t)).sum()
        }
    };
    let (output, prompt) = (
        total(|t| t.request.output_tokens),
        total(|t| t.request.prompt_tokens),
    );
    let cached = total(|t| t.request.cached_prompt_tokens);
    let chunks: usize = ok.iter().map(|t| t.gaps.chunks).sum();
    let judged: Vec<bool> = timings
        .iter()
        .filter_map(|t| t.request.schema_valid)
        .collect();
    let valid = judged.iter().filter(|valid| **valid).count();
    let mean = |sum: Option<i64>| number(sum.map(|s| s as f64 / ok.len() as f64));
    let int = |value: Option<i64>| value.map_or(Scalar::Null, Scalar::Int);
    let lag = sample(
        timings
            .iter()
            .filter_map(|t| Some(t.request.send_lag_ns? as f64 / 1e6)),
    );
    let server = |of: fn(&Timing<'_>) -> Option<f64>| {
        number(sample(ok.iter().filter_map(|t| of(t))).map(|s| s.mean()))
    };
    let mut values = vec![
        text(Level::Cell.word()),
        count(timings.len()),
        count(ok.len()),
        number((!timings.is_empty()).then(|| ok.len() as f64 / timings.len() as f64)),
        number(window),
        per_second(Some(ok.len() as f64)),
        per_second(output.map(|n| n as f64)),
        per_second(output.zip(prompt).map(|(a, b)| (a + b) as f64)),
        int(output),
        int(prompt),
        mean(output),
        mean(prompt),
        number(
            cached
                .zip(prompt)
                .filter(|(_, p)| *p > 0)
                .map(|(c, p)| c as f64 / p as f64),
        ),
        number((!judged.is_empty()).then(|| valid as f64 / judged.len() as f64)),
        number(
            output
                .filter(|_| chunks > 0)
                .map(|n| n as f64 / chunks as f64),
        ),
        server(|t| t.request.server_prompt_ms),
        server(|t| t.request.server_predicted_ms),
        number(lag.map(|s| s.quantile(0.99))),
    ];
    for metric in METRICS {
        distribution(&mut values, of_requests(metric, &ok).as_ref());
    }
    let gaps = || ok.iter().flat_map(|t| t.gaps.gaps.iter().copied());
    distribution(&mut values, sample(gaps().map(|(gap, _)| gap)).as_ref());
    distribution(
        &mut values,
        per_token(&ok).and_then(|v| Sample::new(v).ok()).as_ref(),
    );
    let measured = timings.iter().map(|t| t.row);
    let mut lineage = spans(&cell.requests_digest.to_string(), measured);
    if let Some(digest) = cell.chunks_digest {
        let used = ok.iter().flat_map(|t| t.chunk_rows.iter().copied());
        lineage.extend(spans(&digest.to_string(), used));
    }
    Row {
        key,
        values,
        lineage,
    }
}

fn of_requests(metric: &Metric, ok: &[&Timing<'_>]) -> Option<Sample> {
    sample(ok.iter().filter_map(|t| metric.of(t)))
}

/// Each gap shared out over the tokens of the later chunk, or nothing if one is unknown.
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

fn distribution(values: &mut Vec<Scalar>, sample: Option<&Sample>) {
    values.push(count(sample.map_or(0, Sample::len)));
    values.extend(STATISTICS.iter().map(|(_, of)| number(sample.and_then(of))));
}
