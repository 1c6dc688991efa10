//! The display of a `load` run: the table that users of other tools know, and the same as JSON.

use artifacts::counted;
use contract::{Phase, RequestStatus};
use load::{
    ClientVerdict, Delivery, Distribution, Ending, LoadFiles, LoadSpec, Slo, Summary, Target,
};
use serde_json::{Map, Value, json};

use crate::columns::columns;
use crate::terminal::in_line;

/// The note below the table on where its terms are defined.
const DEFINITIONS: &str = "\
For definitions, and how vLLM, SGLang, GuideLLM and AIPerf differ (above all in TPOT and ITL), \
see docs/load.md";

/// Returns the table.
pub(super) fn table_of(
    seed: u64,
    target: &Target,
    spec: &LoadSpec,
    result: &LoadFiles,
    summary: &Summary,
    slo: &Slo,
) -> String {
    let mut text = format!("{}\n\n", headline(seed, target, spec));
    text.push_str(&columns(
        &["run", "", ""],
        &counts(spec, result, summary, slo),
        &[1],
    ));
    text.push_str("\n\n");
    text.push_str(&columns(
        &[
            "latency [ms]",
            "n",
            "mean",
            "p50",
            "p90",
            "p95",
            "p99",
            "max",
        ],
        &latencies(summary),
        &[1, 2, 3, 4, 5, 6, 7],
    ));
    if let Some(caveat) = caveat(summary) {
        text.push_str(&format!("\n{caveat}"));
    }
    for note in result.tally.notes_on_tokens() {
        text.push_str(&format!("\nnote: {note}"));
    }
    for line in errors(result, summary) {
        text.push_str(&format!("\n{line}"));
    }
    text.push_str(&format!("\n\n{DEFINITIONS}"));
    text
}

/// The quantiles above the median that the table shows.
const SHOWN: [(&str, f64); 3] = [("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// The level at which a study bounds a quantile.
const LEVEL: f64 = 0.95;

/// Returns a note on the displayed quantiles that have too few requests: with fewer than 1 ÷ (1 − q) values, a quantile
/// is little more than the maximum. With a few times as many, it is bounded on both sides, and a study prints it.
fn caveat(summary: &Summary) -> Option<String> {
    let n = summary.e2e_latency.as_ref().map(|d| d.n)?;
    let below = |least: fn(f64) -> usize| -> (Vec<String>, Vec<String>) {
        let few = SHOWN.iter().filter(|(_, q)| n < least(*q));
        few.map(|(name, q)| ((*name).to_owned(), least(*q).to_string()))
            .unzip()
    };
    let beyond = below(|q| (1.0 / (1.0 - q)).round() as usize);
    let unbounded = below(|q| statistics::least_for_quantile(q, LEVEL));
    let take = |names: &[String]| {
        if names.len() == 1 {
            "it takes"
        } else {
            "they take"
        }
    };
    let are = |names: &[String]| if names.len() == 1 { "is" } else { "are" };
    let requests = counted(n, "request");
    match (&beyond, &unbounded) {
        ((few, _), (names, needed)) if few.is_empty() => (!names.is_empty()).then(|| {
            format!(
                "note: {requests} do not bound {} on both sides, and a study leaves {} out; {} {} requests",
                names.join(", "),
                if names.len() == 1 { "it" } else { "them" },
                take(names),
                in_words(needed)
            )
        }),
        ((names, needed), (open, bounded)) => Some(format!(
            "note: with {requests}, {} {} hardly more than the largest value; {} {} requests. A study leaves out \
             {}, which these requests do not bound on both sides; {} {} requests",
            names.join(", "),
            are(names),
            take(names),
            in_words(needed),
            in_words(open),
            take(bounded),
            in_words(bounded)
        )),
    }
}

/// Returns a list in words: `36, 72 and 368`.
fn in_words(numbers: &[String]) -> String {
    match numbers {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        numbers => numbers.concat(),
    }
}

fn headline(seed: u64, target: &Target, spec: &LoadSpec) -> String {
    let arrival = match (spec.arrival.clients(), spec.arrival.rate()) {
        (Some(clients), _) => counted(clients, "client"),
        (None, Some(rate)) => format!("{} arrivals at {rate} req/s", spec.arrival.word()),
        (None, None) => format!("{} arrivals", spec.arrival.word()),
    };
    let model = if target.model.is_empty() {
        "the server's model".to_owned()
    } else {
        in_line(&target.model)
    };
    let delivery = if spec.delivery == Delivery::Streamed {
        "streamed"
    } else {
        "whole"
    };
    format!(
        "{model} at {}, {}, {delivery}, {arrival}, seed {seed}",
        target.place(),
        target.api.word()
    )
}

fn ok(summary: &Summary) -> u64 {
    with_status(summary, RequestStatus::Ok)
}

/// Returns the number of requests that neither succeeded nor failed: the load or the client stopped them.
pub(super) fn cancelled(summary: &Summary) -> u64 {
    with_status(summary, RequestStatus::Cancelled)
}

fn with_status(summary: &Summary, status: RequestStatus) -> u64 {
    summary.statuses.get(&status).copied().unwrap_or(0)
}

/// Returns the number of requests that failed.
pub(super) fn failed(summary: &Summary) -> u64 {
    let all: u64 = summary.statuses.values().sum();
    all - ok(summary) - cancelled(summary)
}

/// Replaces a token count if the sum would be incomplete.
const UNCOUNTED: &str = "tok; unknown, because not every answer says how many";

/// Formats a value; a dash stands for an unknown one.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{v:.digits$}"))
}

/// Returns a row of the first table: name, value and unit.
fn row(name: &str, value: String, unit: &str) -> Vec<String> {
    vec![name.to_owned(), value, unit.to_owned()]
}

/// Returns the rows of the first table: requests, the client's health, tokens, throughput and quality.
fn counts(spec: &LoadSpec, result: &LoadFiles, summary: &Summary, slo: &Slo) -> Vec<Vec<String>> {
    let mut rows = requests(spec, result, summary);
    rows.extend(stamps(result));
    rows.extend(in_one_piece(result));
    if let (Some((cached, _)), Some(share)) = (result.tally.cached, result.tally.cached_share()) {
        rows.push(row(
            "Prompt tokens from the server's cache",
            cached.to_string(),
            &format!(
                "tok, {:.1} % of those of answers that tell it",
                share * 100.0
            ),
        ));
    }
    for (name, count) in [
        ("Total input tokens", summary.prompt_tokens),
        ("Total output tokens", summary.output_tokens),
    ] {
        rows.push(match count {
            Some(count) => row(name, count.to_string(), "tok"),
            None => row(name, number(None, 0), UNCOUNTED),
        });
    }
    for (name, rate, unit) in [
        ("Request throughput", summary.request_throughput, "req/s"),
        (
            "Output token throughput",
            summary.output_throughput,
            "tok/s",
        ),
        ("Total token throughput", summary.total_throughput, "tok/s"),
    ] {
        rows.push(row(name, number(rate, 2), unit));
    }
    if let Some(rate) = summary.schema_valid_rate {
        rows.push(row(
            "Valid structured output",
            number(Some(rate * 100.0), 1),
            "% of complete answers",
        ));
    }
    if *slo != Slo::default() {
        rows.extend(within_bounds(summary, slo, result.cell.unsent_requests));
    }
    rows
}

/// Returns the number of planned requests that were not sent and have no row.
fn never_sent(result: &LoadFiles, summary: &Summary) -> u64 {
    let all: u64 = summary.statuses.values().sum();
    result.cell.expected_requests.saturating_sub(all)
}

/// Returns the rows on requests: how they ended, over how long, and how they arrived.
fn requests(spec: &LoadSpec, result: &LoadFiles, summary: &Summary) -> Vec<Vec<String>> {
    let mut rows = vec![
        row("Successful requests", ok(summary).to_string(), ""),
        row("Failed requests", failed(summary).to_string(), ""),
    ];
    if cancelled(summary) > 0 {
        let reason = first_error(result, RequestStatus::Cancelled).map(in_line);
        let note = reason.map_or_else(String::new, |reason| {
            format!("neither successful nor failed; the first: {reason}")
        });
        rows.push(row(
            "Cancelled requests",
            cancelled(summary).to_string(),
            &note,
        ));
    }
    let unsent = never_sent(result, summary);
    if unsent > 0 {
        let timed = spec.extent.duration.is_some() && result.ending == Ending::Complete;
        let note = if timed { "the duration had ended" } else { "" };
        rows.push(row("Requests never sent", unsent.to_string(), note));
    }
    let again = result.tally.replays;
    if again > 0 {
        let note = "their kept-alive connections were closed; they count once";
        rows.push(row("Requests sent again", again.to_string(), note));
    }
    for count in &result.servers {
        let value = format!("{} of {}", count.ok, count.requests);
        rows.push(row(&format!("Successful at {}", count.server), value, ""));
    }
    rows.push(row("Benchmark duration", number(summary.window_s, 3), "s"));
    let peak = result.tally.peak_in_flight;
    rows.push(row(
        "Peak requests in flight",
        peak.map_or_else(|| "–".to_owned(), |n| n.to_string()),
        "",
    ));
    if let Some(a) = summary.arrivals {
        let drawn = format!(
            "req/s, gaps' CV {:.2} (drawn {:.2} req/s, CV {:.2})",
            a.sent_cv, a.drawn_rate, a.drawn_cv
        );
        rows.push(row(
            "Arrival rate as sent",
            number(Some(a.sent_rate), 2),
            &drawn,
        ));
    }
    rows
}

/// Returns the row on the error of the client's stamps, if it is bounded.
fn stamps(result: &LoadFiles) -> Option<Vec<String>> {
    let health = result.cell.health.as_ref()?;
    let bound = health.stamp_error_bound_ms?;
    let verdict = health
        .verdict
        .map_or("too short to judge the client", ClientVerdict::word);
    let worst = match result.generators {
        1 => String::new(),
        n => format!(", the worst of {n} generators"),
    };
    let stated = format!(
        "ms; {verdict}, measuring thread busy {}{worst}",
        number(health.busy, 2)
    );
    let bound = number(Some(bound), 3);
    Some(row("Stamps late by at most", bound, &stated))
}

/// Returns the row on streamed answers that arrived in one piece, if most did.
fn in_one_piece(result: &LoadFiles) -> Option<Vec<String>> {
    let tally = &result.tally;
    tally.mostly_in_one_piece().then(|| {
        let note = format!(
            "of {} streamed answers: TPOT and ICL do not describe the server",
            tally.streamed_answers
        );
        row(
            "Answers in one piece",
            tally.in_one_piece.to_string(),
            &note,
        )
    })
}

/// Returns the rows on the requests within the bounds of an SLO.
fn within_bounds(summary: &Summary, slo: &Slo, unsent: u64) -> [Vec<String>; 2] {
    let with = match unsent {
        0 => String::new(),
        n => format!(", with the {n} that were due and never sent"),
    };
    [
        row(
            "Goodput",
            number(summary.goodput, 2),
            &format!("req/s with {}", slo.in_words()),
        ),
        row(
            "Within bounds",
            number(summary.slo_pass_rate.map(|r| r * 100.0), 1),
            &match summary.left_out() {
                0 => format!("% of all requests{with}"),
                left_out => format!("% of all requests except the {left_out} cancelled{with}"),
            },
        ),
    ]
}

/// Returns the rows of the latency table, without rows that have no values.
fn latencies(summary: &Summary) -> Vec<Vec<String>> {
    named(summary)
        .into_iter()
        .filter_map(|(_, name, sample)| {
            let s = sample?;
            let figures = [s.mean, s.p50, s.p90, s.p95, s.p99, s.max];
            let mut row = vec![name.to_owned(), s.n.to_string()];
            row.extend(figures.iter().map(|v| format!("{v:.2}")));
            Some(row)
        })
        .collect()
}

/// Returns the samples of a run, with their names in JSON and in the table.
fn named(summary: &Summary) -> [(&'static str, &'static str, Option<Distribution>); 9] {
    let [ttft, e2e] = match summary.ttft_scheduled {
        Some(_) => ["TTFT  from sending", "E2E   from sending"],
        None => ["TTFT  time to first token", "E2E   to the last token"],
    };
    // With open arrivals, users wait from the scheduled time on.
    [
        (
            "ttft_scheduled_ms",
            "TTFT  from its scheduled time",
            summary.ttft_scheduled,
        ),
        (
            "e2e_scheduled_ms",
            "E2E   from its scheduled time",
            summary.e2e_scheduled,
        ),
        ("ttft_ms", ttft, summary.ttft),
        (
            "tpot_ms",
            "TPOT  per output token after the first",
            summary.tpot,
        ),
        ("icl_ms", "ICL   between chunks (others: ITL)", summary.icl),
        ("e2e_latency_ms", e2e, summary.e2e_latency),
        ("send_lag_ms", "Send lag of this client", summary.send_lag),
        (
            "ttft_beyond_server_ms",
            "TTFT  beyond the server's own account",
            summary.ttft_beyond_server,
        ),
        (
            "e2e_beyond_server_ms",
            "E2E   beyond the server's own account",
            summary.e2e_beyond_server,
        ),
    ]
}

/// Returns a line for each status of failed requests, with the first error of that status.
fn errors(result: &LoadFiles, summary: &Summary) -> Vec<String> {
    let failed = summary
        .statuses
        .iter()
        .filter(|(status, _)| !matches!(status, RequestStatus::Ok | RequestStatus::Cancelled));
    let lines: Vec<String> = failed
        .map(|(status, n)| match first_error(result, *status) {
            Some(error) => format!("  {n} {}, the first: {}", status.word(), in_line(error)),
            None => format!("  {n} {}", status.word()),
        })
        .collect();
    if lines.is_empty() {
        lines
    } else {
        [vec![String::new(), "errors".to_owned()], lines].concat()
    }
}

fn first_error(result: &LoadFiles, status: RequestStatus) -> Option<&str> {
    result.tally.first_errors.get(&status).map(String::as_str)
}

/// Returns the same as JSON; undefined values are null.
pub(super) fn json_of(
    seed: u64,
    target: &Target,
    spec: &LoadSpec,
    result: &LoadFiles,
    summary: &Summary,
    slo: &Slo,
) -> Value {
    let mut statuses = Map::new();
    let mut errors = Map::new();
    for (status, n) in &summary.statuses {
        statuses.insert(status.word().to_owned(), json!(n));
        if let Some(error) = first_error(result, *status) {
            errors.insert(status.word().to_owned(), json!(error));
        }
    }
    let mut document = json!({
        "url": target.base_url,
        "model": target.model,
        "api": target.api.word(),
        "arrival": spec.arrival,
        "delivery": spec.delivery,
        "seed": seed,
        "complete": result.ending == Ending::Complete,
        "requests_planned": spec.prompts.count(Phase::Measured),
        "caveat": caveat(summary),
        "requests_ok": ok(summary),
        "statuses": statuses,
        "first_errors": errors,
        "duration_s": summary.window_s,
        "peak_in_flight": result.tally.peak_in_flight,
        "streamed_answers": result.tally.streamed_answers,
        "answers_in_one_piece": result.tally.in_one_piece,
        "arrivals": summary.arrivals.map(|a| json!({
            "drawn_rate_per_s": a.drawn_rate, "drawn_cv": a.drawn_cv,
            "sent_rate_per_s": a.sent_rate, "sent_cv": a.sent_cv,
        })),
        "prompt_tokens": summary.prompt_tokens,
        "cached_prompt_tokens": result.tally.cached.map(|(cached, _)| cached),
        "output_tokens": summary.output_tokens,
        "request_throughput_per_s": summary.request_throughput,
        "output_throughput_tok_per_s": summary.output_throughput,
        "total_throughput_tok_per_s": summary.total_throughput,
        "slo_ms": {
            "ttft": slo.ttft_ms, "tpot": slo.tpot_ms, "e2e": slo.e2e_ms,
            "ttft_scheduled": slo.ttft_scheduled_ms, "e2e_scheduled": slo.e2e_scheduled_ms,
        },
        "slo_requests_unsent": (*slo != Slo::default()).then_some(result.cell.unsent_requests),
        "goodput_per_s": summary.goodput,
        "slo_pass_rate": summary.slo_pass_rate,
        "slo_requests_left_out": (*slo != Slo::default()).then(|| summary.left_out()),
        "schema_valid_rate": summary.schema_valid_rate,
        "client_cpu_s": result.cell.client_cpu_ns.map(|ns| ns as f64 / 1e9),
        "observations": result.observations,
        "client": result.cell.health.as_ref().map(|h| json!({
            "verdict": h.verdict.map(ClientVerdict::word),
            "stamp_error_bound_ms": h.stamp_error_bound_ms,
            "wake_lag_p50_ms": h.wake_lag_ms.map(|lag| lag[0]),
            "wake_lag_p99_ms": h.wake_lag_ms.map(|lag| lag[1]),
            "busy": h.busy, "run_queue_wait": h.run_queue_wait, "cpu_steal": h.cpu_steal,
            "chunks_per_read": h.chunks_per_read,
        })),
        "warnings": result.warnings,
        "notes": result.tally.notes_on_tokens(),
    });
    for (name, count) in [
        ("requests_never_sent", never_sent(result, summary)),
        ("requests_sent_again", result.tally.replays),
        ("answers_counted_in_chunks", result.tally.counted_in_chunks),
        (
            "answers_with_hidden_reasoning",
            result.tally.hidden_reasoning,
        ),
    ] {
        document[name] = json!(count);
    }
    if result.generators > 1 {
        document["generators"] = json!(result.generators);
    }
    if !result.servers.is_empty() {
        let entry = |count: &load::ServerCount| json!({"url": count.server, "requests": count.requests, "requests_ok": count.ok});
        document["servers"] = result.servers.iter().map(entry).collect();
    }
    for (name, _, sample) in named(summary) {
        document[name] = sample.map_or(Value::Null, |s| {
            json!({
                "n": s.n, "mean": s.mean, "std": s.std, "min": s.min, "max": s.max,
                "p50": s.p50, "p90": s.p90, "p95": s.p95, "p99": s.p99,
            })
        });
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: usize) -> Option<String> {
        let values = (0..n).map(|i| i as f64).collect();
        let mut summary = load::Summarizer::new(Slo::default(), &std::env::temp_dir())
            .finish()
            .expect("no rows need no disk");
        summary.e2e_latency = Distribution::of(values);
        caveat(&summary)
    }

    #[test]
    fn the_note_on_few_requests_has_the_numbers_at_which_a_study_prints_quantiles() {
        let few = of(4).unwrap_or_default();
        assert!(few.contains("p90, p95, p99 are hardly more"), "{few}");
        assert!(few.contains("they take 10, 20 and 100 requests"), "{few}");
        assert!(few.ends_with("they take 36, 72 and 368 requests"), "{few}");
        assert_eq!(
            of(150).as_deref(),
            Some(
                "note: 150 requests do not bound p99 on both sides, and a study leaves it out; it takes 368 requests"
            )
        );
        assert_eq!(of(368), None);
    }
}
