//! `stalls`: was the whole server silent for long while it had work?

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use contract::{CellRows, Phase, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, NO_CLOCK, TypedGate, each, listed, show};
use crate::pace::is_open;
use crate::robust::Centre;
use crate::study::{Cell, Stage, nanoseconds};

pub(crate) struct Stalls;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// A silence must be this many times as long as the usual one.
    #[serde(default = "five")]
    #[schemars(range(min = 1))]
    factor: f64,
    /// The shortest silence that counts, ms.
    #[serde(default = "half_a_second")]
    #[schemars(range(min = 0))]
    at_least_ms: f64,
}

fn five() -> f64 {
    5.0
}

fn half_a_second() -> f64 {
    500.0
}

/// The number of robust standard deviations, on the log scale, by which a stall exceeds the usual silence.
const DEVIATIONS: f64 = 6.0;

/// A stall must also be this many times as long as nine tenths of the silences, however much they vary. Without chunks,
/// most signs of life are far apart and some are close together.
const LONGER: f64 = 10.0;

/// The smallest number of requests that shows what is usual.
const REQUESTS: usize = 5;

/// A silence that ends with first tokens must be this many times as long as the fastest prefill of these prompts.
const PREFILL: f64 = 2.0;

/// A silence that ends with an answer without chunks must be this many times as long as so many tokens usually take.
const ANSWER: f64 = 2.0;

impl TypedGate for Stalls {
    type Parameters = Parameters;
    const NAME: &'static str = "stalls";
    const SUMMARY: &'static str = "\
        The server never falls silent on all streams at once while it has work. This is a bound, not a test.\n\n\
        Every first token, every chunk and every end of an answer is a sign of life. A silence is a gap between two \
        signs while a request is in flight. In a closed loop, a gap in which no client sends also counts, except between \
        the warm-up and the measurement.\n\n\
        A silence is a stall if all of these hold:\n\n\
        - It is longer than `at-least-ms`.\n\
        - It is longer than `factor` times the usual silence.\n\
        - It is six robust standard deviations above the usual silence on the log scale, or ten times as long as the \
        0.9 quantile of the longest silences.\n\
        - If it ends with first tokens, it is also twice as long as the fastest prefill of the cell would need for \
        their prompts. A server that computes several prompts in one batch is silent meanwhile.\n\
        - If it ends with an answer without chunks, it is also twice as long as the tokens of this answer usually take.\n\n\
        Without chunks, only first tokens and ends show that the server works. A single slow request, such as one of a \
        long tail, then looks like a silence.\n\n\
        To find the usual silence, the gate divides the silences of a cell, in order, into as many groups as the cell \
        has requests. It takes the longest silence of each group, and their median is the usual one.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let expected = "activity on some stream while requests are in flight";
            if !rows.has_one_clock() {
                return Assessment::not_judged(NO_CLOCK, expected);
            }
            let (silences, requests) = silences(cell, rows);
            let longest: Vec<f64> = silences
                .chunks((silences.len() / requests.max(1)).max(1))
                .filter_map(|stretch| stretch.iter().map(|s| s.1 - s.0).max())
                .map(|longest| longest as f64)
                .collect();
            let usual = Centre::of_logs(&longest).zip(Sample::new(longest).ok());
            let Some((usual, sample)) = usual.filter(|_| requests >= REQUESTS) else {
                let why = format!("too few requests with times: {requests}");
                return Assessment::not_judged(why, expected);
            };
            let bound = usual
                .above(DEVIATIONS)
                .min(LONGER * sample.quantile(0.9))
                .max(usual.median() * parameters.factor)
                .max(parameters.at_least_ms * 1e6);
            let longest = silences.iter().map(|s| s.1 - s.0).max().unwrap_or(0);
            let prefill = Prefill::of(rows, usual.median() as i64);
            let answers = Unseen::of(rows);
            let mut stalls: Vec<(i64, i64)> = silences;
            stalls.retain(|(from, to)| {
                let long = (to - from) as f64;
                long > bound
                    && long > PREFILL * prefill.fastest_until(*to)
                    && long > ANSWER * answers.usual_until(*to)
            });
            stalls.sort_by_key(|(from, to)| from - to);
            let evidence: Vec<String> = stalls
                .iter()
                .map(|(from, to)| {
                    let (at, long) = (*from as f64 / 1e9, (to - from) as f64 / 1e9);
                    format!("{} s of silence from {at:.3} s on", show(long))
                })
                .collect();
            let observed = if stalls.is_empty() {
                format!("longest silence {} ms", show(longest as f64 / 1e6))
            } else {
                format!(
                    "{} {}, the longest {} s; the usual gap is {} ms. {}",
                    stalls.len(),
                    if stalls.len() == 1 {
                        "silence"
                    } else {
                        "silences"
                    },
                    show(longest as f64 / 1e9),
                    show(usual.median() / 1e6),
                    cause(rows, stalls[0])
                )
            };
            Assessment::new(stalls.is_empty(), observed, expected).evidence(listed(&evidence))
        })
    }
}

/// How long the server needs for prompts. A server that computes the prompts of several requests in one batch is silent
/// for all of them, and then their first tokens come together.
struct Prefill {
    /// When the first token came, when the request was sent, both in ns, and the size of the prompt, by the first.
    firsts: Vec<(i64, i64, f64)>,
    /// First tokens that are at most this far apart come together, ns.
    together: i64,
    /// The shortest time for a unit of size, from sending to the first token, ns. Prompts whose first tokens come
    /// together count as one.
    fastest: f64,
}

impl Prefill {
    /// The size of a prompt is the number of its tokens that were not cached, or 1 if the tokens of some are unknown.
    fn of(rows: &CellRows, together: i64) -> Self {
        let answered = || rows.requests.iter().filter(|r| !r.superseded);
        let counted = answered().all(|r| r.first_token_ns.is_none() || r.prompt_tokens.is_some());
        let size = |r: &Request| {
            let tokens = r.prompt_tokens.filter(|_| counted)?;
            Some(tokens.saturating_sub(r.cached_prompt_tokens.unwrap_or(0)))
        };
        let mut firsts: Vec<(i64, i64, f64)> = answered()
            .filter_map(|r| {
                Some((
                    r.first_token_ns?,
                    r.sent_ns?,
                    size(r).unwrap_or(1).max(1) as f64,
                ))
            })
            .collect();
        firsts.sort_unstable_by_key(|first| (first.0, first.1));
        let mut prefill = Self {
            firsts,
            together,
            fastest: f64::INFINITY,
        };
        let mut from = 0;
        while let Some((at, ..)) = prefill.firsts.get(from).copied() {
            let group = prefill.from(at);
            let sent = group.iter().map(|first| first.1).min().unwrap_or(at);
            let time = (at - sent).max(0) as f64 / size_of(group);
            from += group.len();
            prefill.fastest = prefill.fastest.min(time);
        }
        prefill
    }

    /// Returns the prompts whose first tokens come together from this moment on.
    fn from(&self, at: i64) -> &[(i64, i64, f64)] {
        let from = self.firsts.partition_point(|first| first.0 < at);
        let to = self
            .firsts
            .partition_point(|first| first.0 <= at.saturating_add(self.together));
        &self.firsts[from..to]
    }

    /// Returns the shortest time, ns, that the prompts need whose first tokens come together from this moment on; 0 if
    /// there are none.
    fn fastest_until(&self, at: i64) -> f64 {
        let group = self.from(at);
        if group.is_empty() {
            0.0
        } else {
            size_of(group) * self.fastest
        }
    }
}

/// Answers without chunks. From their first token to their end, nothing shows that the server works on them.
struct Unseen {
    /// The most tokens of an answer that ends at a moment, ns.
    tokens: BTreeMap<i64, i64>,
    /// The usual time of a token, ns.
    each: f64,
}

impl Unseen {
    /// The time counts from the first token, or from the send of an answer that was not streamed.
    fn of(rows: &CellRows) -> Self {
        let answered = rows.requests.iter().filter(|r| !r.superseded && r.is_ok());
        let answers = answered.filter_map(|r| {
            let from = r.first_token_ns.or(r.sent_ns)?;
            let to = r.last_token_ns.or(r.done_ns)?;
            Some((from, to, r.output_tokens.filter(|n| *n > 0)?))
        });
        let mut answers: Vec<(i64, i64, i64)> =
            answers.filter(|_| rows.chunks.is_empty()).collect();
        // The pace of the middle token: short answers are slow for each token if they were not streamed.
        let pace = |(from, to, n): &(i64, i64, i64)| (to - from) as f64 / *n as f64;
        answers.sort_by(|a, b| pace(a).total_cmp(&pace(b)));
        let half = answers.iter().map(|answer| answer.2).sum::<i64>() / 2;
        let mut so_far = 0;
        let middle = answers.iter().find(|answer| {
            so_far += answer.2;
            so_far > half
        });
        let each = middle.map_or(0.0, pace);
        let mut tokens: BTreeMap<i64, i64> = BTreeMap::new();
        for (_, to, n) in answers {
            let most = tokens.entry(to).or_insert(n);
            *most = n.max(*most);
        }
        Self { tokens, each }
    }

    /// Returns how long the longest answer that ends at this moment usually takes, ns; 0 if none ends then.
    fn usual_until(&self, at: i64) -> f64 {
        self.tokens.get(&at).map_or(0.0, |n| *n as f64 * self.each)
    }
}

fn size_of(group: &[(i64, i64, f64)]) -> f64 {
    group.iter().map(|first| first.2).sum()
}

/// Returns the cause of a silence, as far as the sampler shows it. The sampler's stamps use the same clock, and it does
/// not query the server. Without chunks, nothing shows that the server works on a request, so a slow one looks the same.
fn cause(rows: &CellRows, (from, to): (i64, i64)) -> &'static str {
    let samples = rows
        .beside
        .get("host_telemetry")
        .and_then(|(_, table)| table.int("at_ns").ok())
        .map(|at| at.into_iter().flatten().collect::<Vec<_>>());
    let continued = |at: &[i64]| at.iter().any(|at| (from + 1..to).contains(at));
    match (samples.as_deref(), rows.chunks.is_empty()) {
        (None, false) => {
            "The server stalled, the machine was suspended, or the clock stepped forward"
        }
        (None, true) => {
            "The server stalled, one request was slow, the machine was suspended, or the clock stepped forward"
        }
        (Some(at), false) if continued(at) => "Telemetry continued, so the server stalled",
        (Some(at), true) if continued(at) => {
            "Telemetry continued, so the server stalled, or one request was slow"
        }
        (Some(_), _) => {
            "Telemetry also stopped, so the machine was suspended or the clock stepped forward"
        }
    }
}

/// Returns the spans between two signs of life, ns, and the number of requests behind them.
fn silences(cell: &Cell<'_>, rows: &CellRows) -> (Vec<(i64, i64)>, usize) {
    let mut signs: Vec<i64> = rows.chunks.iter().map(|c| c.at_ns).collect();
    let mut flights: Vec<(i64, i64)> = Vec::new();
    for r in rows.requests.iter().filter(|r| !r.superseded) {
        let (Some(sent), Some(done)) = (r.sent_ns, r.done_ns) else {
            continue;
        };
        signs.extend([r.first_token_ns, r.last_token_ns].into_iter().flatten());
        signs.push(done);
        flights.push((sent, done));
    }
    let think = think_ns(cell);
    let before = before_the_measurement(rows);
    signs.extend(flights.iter().map(|f| f.0).min());
    signs.sort_unstable();
    flights.sort_unstable();
    let pairs = signs.windows(2).map(|pair| match before {
        Some((warm, sent)) if pair[0] == warm => (sent.min(pair[1]), pair[1]),
        _ => (pair[0], pair[1]),
    });
    // The warm-up of an open load is a closed loop, so its rows do not decide.
    if !is_open(rows) {
        let spans = pairs.map(|(from, to)| (from, to - think.min(to - from)));
        return (spans.collect(), flights.len());
    }
    // No request ends between two signs of life. So among the requests that end later, the one sent first is in flight
    // until the end of the span. The heap drops ended requests when they surface.
    let (mut spans, mut sent) = (Vec::new(), 0);
    let mut in_flight: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    for (from, to) in pairs {
        while let Some(flight) = flights.get(sent).filter(|f| f.0 < to) {
            in_flight.push(Reverse(*flight));
            sent += 1;
        }
        while in_flight.peek().is_some_and(|Reverse(f)| f.1 < to) {
            in_flight.pop();
        }
        if let Some(Reverse(first)) = in_flight.peek() {
            spans.push((first.0.max(from), to));
        }
    }
    (spans, flights.len())
}

/// Returns the end of the last warm-up request and the sending of the first measured one, ns, if nothing is in flight
/// between them. The load generator pauses there, and not the server.
fn before_the_measurement(rows: &CellRows) -> Option<(i64, i64)> {
    let warm = rows.requests.iter().filter(|r| r.phase == Phase::Warmup);
    let warm = warm.filter_map(|r| r.done_ns).max()?;
    let sent = rows.measured().filter_map(|r| r.sent_ns).min()?;
    (warm < sent).then_some((warm, sent))
}

/// Returns how long a closed loop's client pauses between two requests, ns.
fn think_ns(cell: &Cell<'_>) -> i64 {
    let think = cell
        .input
        .parameters
        .pointer("/arrival/closed-loop/think-time")
        .and_then(|t| nanoseconds(t.as_str()?));
    think.unwrap_or(0.0) as i64
}

#[cfg(test)]
mod tests {
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::finding::Outcome;
    use crate::one_cell;

    #[test]
    fn without_chunks_a_silence_may_be_one_slow_request() {
        let mut lasts = [50_000_000; 30];
        lasts[20] = 9_000_000_000;
        let rows = one_cell::one_after_another(lasts);
        let judged = |rows: CellRows| one_cell::judge(&Stalls, json!({}), json!({}), rows);
        let silent = judged(rows.clone());
        assert_eq!(silent.outcome, Outcome::Fail);
        assert!(
            silent.observed.contains("one request was slow"),
            "{}",
            silent.observed
        );
        // Chunks show that the server worked until then.
        let chunks = rows.requests.iter().flat_map(synthetic::even_chunks);
        let chunks = chunks.filter(|chunk| chunk.request_id < 20).collect();
        let silent = judged(CellRows { chunks, ..rows });
        assert!(
            silent.observed.contains("The server stalled, the machine"),
            "{}",
            silent.observed
        );
    }

    #[test]
    fn a_long_answer_without_chunks_is_not_a_silence() {
        // One answer in three has 256 tokens, the others 16; a token takes 5 ms.
        let ms = |id: i64| if id % 3 == 2 { 5 * 256 } else { 5 * 16 };
        let with = |slow: Option<i64>| {
            let lasts = |id: i64| 1_000_000 * if slow == Some(id) { 9_000 } else { ms(id) };
            let mut rows = one_cell::one_after_another((0..60).map(lasts));
            for r in &mut rows.requests {
                r.output_tokens = Some(ms(r.request_id) / 5);
            }
            one_cell::judge(&Stalls, json!({}), json!({}), rows).outcome
        };
        assert_eq!(with(None), Outcome::Pass);
        // A long answer and a short one that stand still for seconds.
        assert_eq!(with(Some(20)), Outcome::Fail);
        assert_eq!(with(Some(21)), Outcome::Fail);
    }

    /// Answers of 50 ms with a chunk every 5 ms. Those of the warm-up come from one client, those of the measurement
    /// from a schedule, 200 ms apart.
    fn open_after_a_warm_up(warm_up: i64) -> CellRows {
        let ms = |ms: i64| Some(1_000_000 * ms);
        let answer = |id: i64, warm: bool, at: i64| Request {
            phase: if warm { Phase::Warmup } else { Phase::Measured },
            client_id: warm.then_some(0),
            scheduled_ns: ms(at).filter(|_| !warm),
            sent_ns: ms(at),
            headers_ns: ms(at + 5),
            first_token_ns: ms(at + 5),
            last_token_ns: ms(at + 50),
            done_ns: ms(at + 50),
            output_tokens: Some(10),
            chunks: Some(10),
            ..synthetic::request(id)
        };
        let warm = (0..warm_up).map(|id| answer(id, true, 60 * id));
        let measured = (0..30).map(|id| answer(warm_up + id, false, 3_000 + 200 * id));
        let requests: Vec<Request> = warm.chain(measured).collect();
        let chunks = requests.iter().flat_map(synthetic::even_chunks).collect();
        CellRows {
            chunks,
            ..synthetic::rows_of(requests)
        }
    }

    #[test]
    fn the_warm_up_of_an_open_load_does_not_make_it_a_closed_loop() {
        for warm_up in [0, 2] {
            let judged = |rows| one_cell::judge(&Stalls, json!({}), json!({}), rows).outcome;
            let rows = open_after_a_warm_up(warm_up);
            // Nobody sends for seconds: the server has no work.
            let idle = |at: i64| {
                if at > 6_100_000_000 {
                    at + 4_000_000_000
                } else {
                    at
                }
            };
            assert_eq!(
                judged(moved(rows.clone(), idle)),
                Outcome::Pass,
                "{warm_up}"
            );
            // The server freezes for 3 s while an answer comes, and those sent meanwhile wait.
            let frozen = |at: i64| {
                let from = 5_022_000_000;
                if at > from {
                    at.max(from + 3_000_000_000)
                } else {
                    at
                }
            };
            let mut stalled = moved(rows.clone(), frozen);
            for (stalled, healthy) in stalled.requests.iter_mut().zip(&rows.requests) {
                stalled.sent_ns = healthy.sent_ns;
            }
            assert_eq!(judged(stalled), Outcome::Fail, "{warm_up}");
        }
    }

    /// Moves every stamp.
    fn moved(mut rows: CellRows, to: impl Fn(i64) -> i64) -> CellRows {
        for r in &mut rows.requests {
            for stamp in [
                &mut r.sent_ns,
                &mut r.headers_ns,
                &mut r.first_token_ns,
                &mut r.last_token_ns,
                &mut r.done_ns,
            ] {
                *stamp = stamp.map(&to);
            }
        }
        for chunk in &mut rows.chunks {
            chunk.at_ns = to(chunk.at_ns);
        }
        rows
    }

    #[test]
    fn the_pause_before_the_measurement_of_a_closed_loop_is_no_stall() {
        let mut rows = open_after_a_warm_up(4);
        for r in &mut rows.requests {
            r.client_id = Some(0);
        }
        let judged = one_cell::judge(&Stalls, json!({}), json!({}), rows);
        assert_eq!(judged.outcome, Outcome::Pass, "{}", judged.observed);
    }
}
