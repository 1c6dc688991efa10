//! `guidellm run --output kind=json`: a report with one or several benchmarks.

use std::collections::BTreeMap;

use artifacts::Digest;
use contract::RequestStatus;
use serde_json::Value;

use crate::agreement::{self, Figure, Over, latency_ms, output_tokens, ttft_ms};
use crate::json::{At, ImportError};
use crate::rows::{Imported, Row, Statistic};
use crate::stage::index;

const SECONDS: i64 = 1_000_000_000;

/// The lists of requests, by how the requests ended.
const GROUPS: [&str; 3] = ["successful", "errored", "incomplete"];

/// GuideLLM's request metrics: their names, their units and GuideLLM's definitions.
const METRICS: [(&str, &str, &str); 12] = [
    (
        "requests_per_second",
        "req/s",
        "requests a second, weighted by the time between completions",
    ),
    (
        "request_concurrency",
        "requests",
        "requests in flight, weighted by time",
    ),
    ("request_latency", "s", "end minus start of a request"),
    ("prompt_token_count", "tok", "prompt tokens a request"),
    ("output_token_count", "tok", "output tokens a request"),
    (
        "time_to_first_token_ms",
        "ms",
        "first iteration with a token minus the start",
    ),
    (
        "time_to_first_output_token_ms",
        "ms",
        "first iteration with a token that is not reasoning, minus the start",
    ),
    (
        "time_per_output_token_ms",
        "ms/tok",
        "request latency ÷ output tokens: the first token's wait counts",
    ),
    (
        "inter_token_latency_ms",
        "ms/tok",
        "(last − first token) ÷ (output tokens − 1), one value a request",
    ),
    (
        "prompt_tokens_per_second",
        "tok/s",
        "prompt tokens a second",
    ),
    (
        "output_tokens_per_second",
        "tok/s",
        "output tokens a second",
    ),
    (
        "tokens_per_second",
        "tok/s",
        "prompt and output tokens a second",
    ),
];

/// The metrics that the requests give again.
const OF_REQUESTS: [Figure; 3] = [
    Figure {
        metric: "time_to_first_token_ms",
        over: Over::Mean,
        part: ttft_ms,
    },
    Figure {
        metric: "request_latency",
        over: Over::Mean,
        part: |row| latency_ms(row).map(|(ms, n)| (ms / 1e3, n)),
    },
    Figure {
        metric: "output_token_count",
        over: Over::Mean,
        part: output_tokens,
    },
];

/// Reads one benchmark of a report.
pub(crate) fn read(report: &At<'_>, entry: Option<u32>) -> Result<Imported, ImportError> {
    let benchmarks = report.need("benchmarks")?.items()?;
    if benchmarks.is_empty() {
        return Err(ImportError::at(
            "$.benchmarks",
            "the report holds no benchmark",
            "let at least one benchmark finish",
        ));
    }
    let benchmark = &benchmarks[index(benchmarks.len(), entry)?];
    let mut imported = Imported::default();
    let version = report
        .get("metadata")
        .and_then(|m| m.get("guidellm_version"));
    imported.facts.tool_version = version.map(|v| v.text().map(str::to_owned)).transpose()?;
    facts(benchmark, &mut imported)?;
    let metrics = benchmark.need("metrics")?;
    imported.summary = summary(&metrics)?;
    let window = Window::of(benchmark)?;
    check_totals(&metrics, &benchmark.need("requests")?, &window)?;
    rows(benchmark, &window, &mut imported)?;
    agreement::check(&mut imported, &OF_REQUESTS);
    Ok(imported)
}

/// The part of a benchmark that its metrics count, in seconds since 1970. Requests that ended before it are GuideLLM's
/// warm-up, and those that began after it are its cool-down.
struct Window {
    from: f64,
    to: f64,
}

impl Window {
    /// Returns the window; everything, if the report states none.
    fn of(benchmark: &At<'_>) -> Result<Self, ImportError> {
        let moment = |key: &str| benchmark.get(key).map(|at| at.moment()).transpose();
        Ok(Self {
            from: moment("start_time")?.unwrap_or(f64::NEG_INFINITY),
            to: moment("end_time")?.unwrap_or(f64::INFINITY),
        })
    }

    /// Returns whether the metrics count a request, by GuideLLM's own rule: it was under way at some moment of the
    /// window. A request without an end is counted, as a report of an older version states none.
    fn has(&self, item: &At<'_>) -> Result<bool, ImportError> {
        let timings = item.need("info")?.need("timings")?;
        let first = |names: [&str; 2]| {
            let at = names.iter().find_map(|name| timings.get(name));
            at.map(|at| at.moment()).transpose()
        };
        let Some(end) = first(["request_end", "resolve_end"])? else {
            return Ok(true);
        };
        let start = first(["request_start", "resolve_start"])?.unwrap_or(end);
        Ok(end >= self.from && start <= self.to)
    }
}

fn facts(benchmark: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let facts = &mut imported.facts;
    let Some(config) = benchmark.get("config") else {
        return Ok(());
    };
    let text = |at: Option<At<'_>>| at.map(|v| v.text().map(str::to_owned)).transpose();
    let backend = config.get("backend");
    facts.model = text(backend.as_ref().and_then(|b| b.get("model")))?;
    facts.api = text(backend.as_ref().and_then(|b| b.get("request_format")))?;
    facts.streamed = backend
        .and_then(|b| b.get("stream"))
        .and_then(|v| v.value.as_bool());
    let limit = config
        .get("constraints")
        .and_then(|c| c.get("max_requests"))
        .and_then(|c| c.get("args"));
    facts.expected_requests = limit
        .and_then(|a| a.get("count"))
        .map(|v| v.small_count())
        .transpose()?;
    let Some(strategy) = config.get("strategy") else {
        return Ok(());
    };
    match strategy.need("type_")?.text()? {
        "synchronous" => (facts.arrival, facts.clients) = (Some("closed-loop".to_owned()), Some(1)),
        "concurrent" => {
            facts.arrival = Some("closed-loop".to_owned());
            facts.clients = strategy
                .get("streams")
                .map(|v| v.small_count())
                .transpose()?;
        }
        "throughput" => facts.arrival = Some("burst".to_owned()),
        other => {
            facts.arrival = Some(other.to_owned());
            facts.rate = strategy.get("rate").map(|v| v.number()).transpose()?;
        }
    }
    Ok(())
}

fn rows(benchmark: &At<'_>, window: &Window, imported: &mut Imported) -> Result<(), ImportError> {
    let requests = benchmark.need("requests")?;
    let mut all = Vec::new();
    for group in GROUPS {
        if let Some(list) = requests.get(group) {
            all.extend(list.items()?.into_iter().map(|item| (group, item)));
        }
    }
    let start = |item: &At<'_>| -> Result<Option<f64>, ImportError> {
        let timings = item.need("info")?.need("timings")?;
        timings.get("request_start").map(|v| v.moment()).transpose()
    };
    let mut starts = Vec::with_capacity(all.len());
    for (_, item) in &all {
        starts.push(start(item)?);
    }
    let base = starts
        .iter()
        .flatten()
        .copied()
        .fold(f64::INFINITY, f64::min);
    // Restores the sending order, which the groups do not keep. Requests that were never sent come
    // last.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| {
        starts[*a]
            .unwrap_or(f64::INFINITY)
            .total_cmp(&starts[*b].unwrap_or(f64::INFINITY))
    });
    let open = imported.facts.clients.is_none() && imported.facts.rate.is_some();
    let several_turns = all.iter().any(|(_, item)| {
        item.get("info")
            .and_then(|i| i.get("turn_index"))
            .is_some_and(|turn| turn.value != 0)
    });
    let mut sessions = BTreeMap::new();
    for i in order {
        let (group, item) = &all[i];
        let mut row = row(group, item, base, open)?;
        row.warmup = !window.has(item)?;
        let info = item.need("info")?;
        if several_turns && let Some(id) = info.get("conversation_id") {
            let next = sessions.len() as i64;
            row.session_id = Some(*sessions.entry(id.text()?.to_owned()).or_insert(next));
            row.turn = info.get("turn_index").map(|v| v.count()).transpose()?;
        }
        imported.requests.push(row);
    }
    let outside = imported.requests.iter().filter(|row| row.warmup).count();
    if outside > 0 {
        // The limit on the number of requests counts them, too.
        let expected = &mut imported.facts.expected_requests;
        *expected = expected.map(|n| n.saturating_sub(outside as i64));
        imported.map(&[(
            "phase",
            "warmup for a request that ended before start_time or began after end_time: GuideLLM's warm-up and cool-down",
        )]);
    }
    if base.is_finite() {
        imported.facts.started_unix_ns = Some((base * SECONDS as f64) as i64);
    }
    imported.map(&[
        ("sent_ns", "info.timings.request_start − the smallest"),
        ("first_token_ns", "info.timings.first_token_iteration"),
        ("last_token_ns", "info.timings.last_token_iteration"),
        ("done_ns", "info.timings.request_end"),
        (
            "send_lag_ns",
            "info.timings.request_start − info.timings.targeted_start",
        ),
        (
            "prompt_tokens, output_tokens",
            "prompt_tokens, output_tokens: the server's usage, else GuideLLM's own count",
        ),
        (
            "requested_output_tokens",
            "max_completion_tokens or max_tokens of request_args",
        ),
        ("output_characters, output_digest", "output"),
        (
            "status, http_status, error",
            "the list it is in, and info.error",
        ),
    ]);
    if open {
        imported.map(&[("scheduled_ns", "info.timings.targeted_start")]);
    }
    Ok(())
}

/// Checks that the report holds the rows of all requests that it counts. GuideLLM can be told to keep only a sample.
fn check_totals(metrics: &At<'_>, requests: &At<'_>, window: &Window) -> Result<(), ImportError> {
    for group in GROUPS {
        let Some(list) = requests.get(group) else {
            continue;
        };
        let mut held = 0_usize;
        for item in list.items()? {
            held += usize::from(window.has(&item)?);
        }
        let totals = metrics.get("request_totals").and_then(|t| t.get(group));
        let latency = metrics.get("request_latency").and_then(|m| m.get(group));
        // Requests that were never sent have no latency.
        let latency = latency.filter(|_| group == "successful");
        let counted = latency.and_then(|values| values.get("count"));
        for total in [totals, counted].into_iter().flatten() {
            let count = total.small_count()?;
            if usize::try_from(count) != Ok(held) {
                return Err(ImportError::at(
                    total.path,
                    format!(
                        "{count} {group} requests, but the report lists {held} of the measured time"
                    ),
                    "GuideLLM can keep a sample of the requests; let it write all of them, since throughput counts rows",
                ));
            }
        }
    }
    Ok(())
}

fn row(group: &str, item: &At<'_>, base: f64, open: bool) -> Result<Row, ImportError> {
    let info = item.need("info")?;
    let timings = info.need("timings")?;
    let relative = |names: &[&str]| -> Result<Option<i64>, ImportError> {
        let Some(at) = names.iter().find_map(|name| timings.get(name)) else {
            return Ok(None);
        };
        Ok(Some(((at.moment()? - base) * SECONDS as f64).round() as i64))
    };
    let count = |name: &str| item.get(name).map(|v| v.count()).transpose();
    let ok = group == "successful";
    let sent = relative(&["request_start"])?;
    let target = relative(&["targeted_start"])?;
    // Up to version 0.4, every iteration counted as one with a token.
    let first = relative(&["first_token_iteration", "first_iteration"])?;
    let last = relative(&["last_token_iteration", "last_iteration"])?;
    let done = relative(&["request_end"])?;
    let times: Vec<i64> = [sent, first, last, done].into_iter().flatten().collect();
    if times.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err(ImportError::at(
            timings.path,
            "a later time of the request precedes an earlier one: a negative time",
            "the wall clock was set back during the run; measure again",
        ));
    }
    let mut row = Row {
        sent_ns: sent,
        scheduled_ns: target.filter(|_| open),
        send_lag_ns: sent.zip(target).map(|(sent, target)| sent - target),
        first_token_ns: first,
        last_token_ns: last,
        done_ns: done,
        prompt_tokens: count("prompt_tokens")?,
        cached_prompt_tokens: count("cached_tokens")?,
        output_tokens: if ok { count("output_tokens")? } else { None },
        requested_output_tokens: item.get("request_args").and_then(|v| requested(v.value)),
        ..Row::new(match group {
            "successful" => RequestStatus::Ok,
            "incomplete" => RequestStatus::Cancelled,
            _ => RequestStatus::Failed,
        })
    };
    if let Some(output) = item.get("output").filter(|_| ok) {
        let output = output.text()?;
        row.output_characters = Some(output.chars().count() as i64);
        row.output_digest = Some(Digest::of(output.as_bytes()).to_string());
    }
    if let Some(error) = info.get("error") {
        let error = error.text()?;
        row.http_status = http_status(error);
        row.error = Some(error.to_owned());
        if group == "errored" {
            row.status = match row.http_status {
                Some(_) => RequestStatus::HttpError,
                None if error.contains("Timeout") => RequestStatus::Timeout,
                None => RequestStatus::Failed,
            };
        }
    }
    Ok(row)
}

/// Reads the limit on output tokens from the request's body, which the report keeps as text.
fn requested(arguments: &Value) -> Option<i64> {
    let parsed: Value = serde_json::from_str(arguments.as_str()?).ok()?;
    let body = parsed.get("body")?;
    body.get("max_completion_tokens")
        .or_else(|| body.get("max_tokens"))?
        .as_i64()
}

/// Finds the status in httpx's `Server error '500 Internal Server Error' for url …`.
fn http_status(error: &str) -> Option<i64> {
    let digits = error
        .strip_prefix("HTTPStatusError")?
        .split('\'')
        .nth(1)?
        .split(' ')
        .next()?;
    digits
        .parse()
        .ok()
        .filter(|status| (400..600).contains(status))
}

fn summary(metrics: &At<'_>) -> Result<Vec<Statistic>, ImportError> {
    let mut all = Vec::new();
    for (name, unit, meaning) in METRICS {
        let Some(successful) = metrics
            .get(name)
            .and_then(|metric| metric.get("successful"))
        else {
            continue;
        };
        let n = successful.need("count")?.small_count()?;
        if n == 0 {
            // GuideLLM writes zeros if there are no values.
            continue;
        }
        let mut add = |statistic: &str, at: &At<'_>| -> Result<(), ImportError> {
            all.push(Statistic {
                metric: name.to_owned(),
                statistic: statistic.to_owned(),
                unit: Some(unit.to_owned()),
                value: at.number()?,
                n: Some(n),
                definition: format!(
                    "GuideLLM: {meaning}; over successful requests; percentiles are values that occur, not interpolated"
                ),
            });
            Ok(())
        };
        for statistic in ["mean", "median", "std_dev", "min", "max"] {
            if let Some(at) = successful.get(statistic) {
                add(statistic, &at)?;
            }
        }
        if let Some(percentiles) = successful.get("percentiles") {
            for statistic in percentiles.object()?.keys() {
                if let Some(at) = percentiles.get(statistic) {
                    add(statistic, &at)?;
                }
            }
        }
    }
    Ok(all)
}
