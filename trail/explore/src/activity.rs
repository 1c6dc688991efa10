//! The activity of a cell's requests over time, at as many moments as a page has pixels: for cells with more requests
//! than a page can draw, and for the numbers of requests running and waiting.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use artifacts::{ColumnReader, Digest, Store};
use contract::{Metric, Phase, RequestStatus, Word, metric};
use pipeline::place::cell_text;
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::error::Failure;
use crate::latency::{self, LATENCIES};
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::rows::{Measured, States, tells_first_chunks};
use crate::sketch::{Sketch, WIDTH};
use crate::study::Study;

/// The default number of moments at which levels are given.
const MOMENTS: usize = 600;

/// The maximum number of moments.
const MOST_MOMENTS: usize = 4_000;

/// The maximum number of requests that are listed individually.
const ONE_BY_ONE: usize = 5_000;

/// The number of bins per decade for the time to the first token.
const PER_DECADE: f64 = 8.0;

/// The number of columns of bins over time.
const WIDE: usize = 120;

/// The maximum number of values of a latency that are kept individually.
const VALUES: usize = 200_000;

/// The number of the slowest requests that are listed if there are more than [`ONE_BY_ONE`], for each of two durations.
const SLOWEST: usize = 60;

/// The columns to read, all of them integers, which are also listed for individual requests.
const COLUMNS: [&str; 11] = [
    "scheduled_ns",
    "sent_ns",
    "headers_ns",
    "first_token_ns",
    "last_token_ns",
    "done_ns",
    "send_lag_ns",
    "request_id",
    "attempt",
    "output_tokens",
    "prompt_tokens",
];

/// The times of one attempt, in the order of [`COLUMNS`].
type Times = [Option<i64>; COLUMNS.len()];

/// The latencies of one request, in the order of [`LATENCIES`].
type Latencies = [Option<f64>; LATENCIES.len()];

/// One attempt: its row, its times and its status.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    row: usize,
    times: Times,
    phase: Option<Phase>,
    status: Option<RequestStatus>,
    /// Whether it is a measured request that no later attempt superseded.
    measured: bool,
    latencies: Latencies,
}

impl Attempt {
    /// Returns whether its latencies count in the figures of a span.
    fn counts(&self) -> bool {
        self.measured && self.status == Some(RequestStatus::Ok)
    }
}

const SCHEDULED: usize = 0;
const SENT: usize = 1;
const FIRST: usize = 3;
const LAST: usize = 4;
const DONE: usize = 5;
const TOKENS: usize = 9;

/// Answers with the levels of a cell's requests over a span of time, and lists the requests of that span individually
/// if they are few.
pub(crate) fn activity(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let number = |name: &str| -> Result<Option<i64>, Failure> {
        let wrong = |text: &str| Failure::question(format!("`{name}={text}` is not a number"), "");
        let parse = |text: &str| text.parse().map_err(|_| wrong(text));
        ask.get(name).map(parse).transpose()
    };
    let stage = ask.get("stage").unwrap_or_default();
    let at = ask.get("cell").unwrap_or_default();
    let (_, cell) = study.find(stage, at)?;
    let record = record_of(store, stage, cell)?;
    let requests = record.as_ref().and_then(|record| {
        let made = record.outputs.get("requests");
        made.or_else(|| record.evidence.get("requests"))
    });
    let Some(requests) = requests else {
        let message = format!("{} has no requests", cell_text(stage, at));
        return Err(Failure::nothing(message, "a load cell that ran has them"));
    };
    let digest = requests.digest;
    let whole = whole(&digest, store)?;
    let (from, to) = (
        number("from")?.unwrap_or(whole.from),
        number("to")?.unwrap_or(whole.to),
    );
    if to <= from && whole.rows > 0 && whole.to > whole.from {
        return Err(Failure::question(
            "the span is empty",
            "`from` is below `to`, in ns",
        ));
    }
    let moments = number("moments")?.and_then(|n| usize::try_from(n).ok());
    let moments = moments.unwrap_or(MOMENTS).clamp(2, MOST_MOMENTS);
    // If the rows lack the tokens of their first chunks, TPOT is omitted: reading the chunks would cost more than the
    // rest.
    let chunks = record.is_some_and(|record| record.outputs.contains_key("chunks"));
    let tells_tpot = !chunks || tells_first_chunks(&digest, store)?;
    let metrics = LATENCIES.map(|name| metric(name).filter(|_| tells_tpot || name != "tpot_ms"));
    let from = from.min(i64::MAX - 1);
    let mut span = WindowActivity::new(from, to.max(from + 1), moments, metrics);
    each(&digest, store, metrics, |attempt| span.add(attempt))?;
    Ok(Reply::json(&span.into_json(&whole), Freshness::Tagged))
}

/// The time range of all requests of a cell.
struct Whole {
    rows: usize,
    from: i64,
    to: i64,
    /// The measured window: from the first measured request sent to the last one done. Warm-up lies outside.
    window: Option<(i64, i64)>,
}

fn whole(digest: &Digest, store: &Store) -> Result<Whole, Failure> {
    let (mut rows, mut from, mut to) = (0, i64::MAX, i64::MIN);
    let mut measured = Measured::default();
    let columns = ["scheduled_ns", "sent_ns", "done_ns"];
    let states = ["phase", "status", "superseded"];
    for batch in ColumnReader::open(store, digest, &[columns, states].concat())? {
        let batch = batch?;
        rows += batch.rows();
        for column in columns {
            let times = batch.ints(column)?;
            for time in (0..batch.rows()).filter_map(|row| times.get(row)) {
                (from, to) = (from.min(time), to.max(time));
            }
        }
        let (sent, done) = (batch.ints("sent_ns")?, batch.ints("done_ns")?);
        for row in States::of(&batch)?.measured() {
            measured.widen(sent.get(row), done.get(row));
        }
    }
    if from > to {
        (from, to) = (0, 0);
    }
    Ok(Whole {
        rows,
        from,
        to,
        window: measured.span,
    })
}

/// Calls `hear` with every attempt of a cell.
fn each(
    digest: &Digest,
    store: &Store,
    metrics: [Option<&Metric>; LATENCIES.len()],
    mut hear: impl FnMut(&Attempt),
) -> Result<(), Failure> {
    let mut columns = COLUMNS.to_vec();
    columns.extend(["phase", "status", "superseded"]);
    columns.extend(metrics.iter().flatten().flat_map(|metric| metric.columns()));
    let mut first = 0;
    for batch in ColumnReader::open(store, digest, &columns)? {
        let batch = batch?;
        let phase = |word: Option<&str>| word.and_then(|w| Phase::parse(w).ok());
        let phases = batch.of_each_text("phase", phase)?;
        let states = States::of(&batch)?;
        let columns = COLUMNS.iter().map(|column| batch.ints(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let latencies = metrics
            .iter()
            .map(|metric| metric.map(|m| m.of_each(&batch)));
        let latencies = latencies.map(Option::transpose);
        let latencies = latencies.collect::<Result<Vec<_>, _>>()?;
        for (row, phase) in phases.iter().enumerate() {
            hear(&Attempt {
                row: first + row,
                times: std::array::from_fn(|i| columns[i].get(row)),
                phase: *phase,
                status: states.status(row),
                measured: states.is_measured(row),
                latencies: std::array::from_fn(|i| latencies[i].as_ref().and_then(|l| l[row])),
            });
        }
        first += batch.rows();
    }
    Ok(())
}

/// The activity in a span of time.
struct WindowActivity {
    from: i64,
    to: i64,
    /// Changes of the levels between moments: in flight, waiting for the first token, due but not yet sent.
    levels: [Vec<i64>; 3],
    /// Requests that ended between two moments: all, and the failed ones.
    ended: [Vec<u32>; 2],
    /// Requests by the time they were sent and the time to their first token, on a logarithmic scale.
    cloud: BTreeMap<(usize, i32), u32>,
    inside: usize,
    single: Vec<Attempt>,
    /// By the time to the first token and by the time to the end.
    slowest: [Slowest; 2],
    figures: Figures,
}

/// The slowest requests by one duration.
#[derive(Default)]
struct Slowest(Vec<(i64, Attempt)>);

impl Slowest {
    fn add(&mut self, duration: i64, attempt: &Attempt) {
        self.0.push((duration, *attempt));
        if self.0.len() >= 2 * SLOWEST {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.0
            .sort_by_key(|(duration, attempt)| (Reverse(*duration), attempt.row));
        self.0.truncate(SLOWEST);
    }
}

/// The figures of a span, over the measured requests sent in it and those that ended in it.
struct Figures {
    /// The number of measured requests sent in the span.
    sent: usize,
    failed: usize,
    /// The output tokens of the measured `ok` requests that ended in the span.
    output_tokens: i64,
    /// The latencies of the measured `ok` requests that were sent in the span.
    latencies: [(Option<&'static Metric>, Sketch); LATENCIES.len()],
}

impl Figures {
    /// `window` is the part of the measured window that lies in the span.
    fn into_json(self, window: Option<(i64, i64)>) -> Value {
        let seconds = window.map(|(from, to)| to.saturating_sub(from) as f64 / 1e9);
        let latencies = self
            .latencies
            .into_iter()
            .filter_map(|(metric, mut values)| {
                let metric = metric?;
                Some(json!({
                    "name": metric.name,
                    "unit": metric.unit,
                    "definition": metric.definition,
                    "n": values.len(),
                    "within": if values.is_exact() { 0.0 } else { WIDTH / 2.0 },
                    "p50": values.quantile(0.5),
                    "p95": values.quantile(0.95),
                    "p99": values.quantile(0.99),
                    "points": latency::points(&mut values),
                }))
            });
        json!({
            "sent": self.sent,
            "failed": self.failed,
            "output_tokens": self.output_tokens,
            "window_ns": window.map(|(from, to)| [from, to]),
            "output_rate": seconds.map(|seconds| self.output_tokens as f64 / seconds),
            "latencies": latencies.collect::<Vec<_>>(),
        })
    }
}

impl WindowActivity {
    fn new(
        from: i64,
        to: i64,
        moments: usize,
        metrics: [Option<&'static Metric>; LATENCIES.len()],
    ) -> Self {
        Self {
            from,
            to,
            levels: std::array::from_fn(|_| vec![0; moments + 1]),
            ended: std::array::from_fn(|_| vec![0; moments]),
            cloud: BTreeMap::new(),
            inside: 0,
            single: Vec::new(),
            slowest: [Slowest::default(), Slowest::default()],
            figures: Figures {
                sent: 0,
                failed: 0,
                output_tokens: 0,
                latencies: metrics.map(|metric| (metric, Sketch::new(VALUES))),
            },
        }
    }

    fn moments(&self) -> usize {
        self.ended[0].len()
    }

    /// Returns the first moment at or after a time: 0 before the span, the number of moments after it.
    fn moment(&self, time: i64) -> usize {
        let steps = (self.moments() - 1) as i128;
        let length = i128::from(self.to) - i128::from(self.from);
        let since = i128::from(time) - i128::from(self.from);
        let at = (since * steps + length - 1).div_euclid(length);
        usize::try_from(at.clamp(0, steps + 1)).unwrap_or(0)
    }

    fn level(&mut self, which: usize, start: Option<i64>, end: Option<i64>) {
        let Some(start) = start else { return };
        let (on, off) = (self.moment(start), end.map(|end| self.moment(end)));
        self.levels[which][on] += 1;
        if let Some(off) = off {
            self.levels[which][off] -= 1;
        }
    }

    fn add(&mut self, attempt: &Attempt) {
        let (times, status) = (&attempt.times, attempt.status);
        let (sent, done) = (times[SENT], times[DONE]);
        self.figure(attempt);
        let waited_until = times[FIRST].or(done);
        self.level(0, sent, done);
        self.level(1, sent, waited_until);
        self.level(
            2,
            times[SCHEDULED].filter(|due| sent.is_none_or(|s| s > *due)),
            sent.or(done),
        );
        let start = times[SCHEDULED].or(sent);
        let end = done.or(sent).or(start);
        if start.is_none_or(|start| start > self.to) || end.is_none_or(|end| end < self.from) {
            return;
        }
        self.inside += 1;
        if self.inside <= ONE_BY_ONE {
            self.single.push(*attempt);
        }
        if let Some(done) = done.filter(|done| (self.from..=self.to).contains(done)) {
            let moment = self.moment(done).min(self.moments() - 1);
            self.ended[0][moment] += 1;
            self.ended[1][moment] += u32::from(status != Some(RequestStatus::Ok));
        }
        if let (Some(sent), Some(first)) = (sent, times[FIRST])
            && first > sent
            && (self.from..=self.to).contains(&sent)
        {
            // In floating point, because a span may be longer than the largest integer.
            let since = sent as f64 - self.from as f64;
            let length = self.to as f64 - self.from as f64;
            let column = (since / length * WIDE as f64) as usize;
            let bin = ((first - sent) as f64 / 1e6).log10() * PER_DECADE;
            *self
                .cloud
                .entry((column.min(WIDE - 1), bin.floor() as i32))
                .or_default() += 1;
        }
    }

    fn figure(&mut self, attempt: &Attempt) {
        let span = self.from..=self.to;
        let within = |time: Option<i64>| time.is_some_and(|time| span.contains(&time));
        if attempt.counts() && within(attempt.times[DONE]) {
            let tokens = attempt.times[TOKENS].unwrap_or(0);
            self.figures.output_tokens = self.figures.output_tokens.saturating_add(tokens);
        }
        if !attempt.measured || !within(attempt.times[SENT]) {
            return;
        }
        self.figures.sent += 1;
        self.figures.failed += usize::from(!attempt.counts());
        if attempt.counts() {
            let values = attempt.latencies.iter();
            for ((_, kept), value) in self.figures.latencies.iter_mut().zip(values) {
                value.iter().for_each(|value| kept.add(*value));
            }
            let sent = attempt.times[SENT].unwrap_or_default();
            let times = &attempt.times;
            let ends = [times[FIRST], times[LAST].or(times[DONE])];
            for (slowest, until) in self.slowest.iter_mut().zip(ends) {
                if let Some(until) = until {
                    slowest.add(until.saturating_sub(sent), attempt);
                }
            }
        }
    }

    fn into_json(self, whole: &Whole) -> Value {
        let moments = self.moments();
        let length = i128::from(self.to) - i128::from(self.from);
        let step = length as f64 / (moments - 1) as f64;
        let moment = |i: usize| i128::from(self.from) + (step * i as f64).round() as i128;
        let at = (0..moments).map(moment);
        let at: Vec<i64> = at.map(|at| i64::try_from(at).unwrap_or(i64::MAX)).collect();
        let level = |changes: &[i64]| -> Vec<i64> {
            let mut now = 0;
            let sum = |change: &i64| {
                now += change;
                now
            };
            changes[..moments].iter().map(sum).collect()
        };
        let [in_flight, waiting, due] = self.levels.each_ref().map(|changes| level(changes));
        let running: Vec<i64> = in_flight.iter().zip(&waiting).map(|(a, b)| a - b).collect();
        let cloud = self
            .cloud
            .iter()
            .map(|((column, bin), n)| json!([column, bin, n]));
        let mut value = json!({
            "requests_in_all": whole.rows,
            "whole": [whole.from, whole.to],
            "span": [self.from, self.to],
            "requests": self.inside,
            "at_ns": at,
            "in_flight": in_flight,
            "waiting": waiting,
            "running": running,
            "due": due,
            "ended": self.ended[0],
            "failed": self.ended[1],
            "ttft_cloud": {
                "columns": WIDE,
                "bins_per_decade_of_ms": PER_DECADE,
                "counts": cloud.collect::<Vec<_>>(),
            },
        });
        if self.inside <= ONE_BY_ONE {
            value["single"] = singles(&self.single);
        } else {
            let mut slowest = BTreeMap::new();
            for mut list in self.slowest {
                list.cut();
                slowest.extend(
                    list.0
                        .into_iter()
                        .map(|(_, attempt)| (attempt.row, attempt)),
                );
            }
            value["slowest"] = singles(&slowest.into_values().collect::<Vec<_>>());
        }
        let part = whole
            .window
            .map(|(from, to)| (from.max(self.from), to.min(self.to)));
        let part = part.filter(|(from, to)| to > from);
        value["figures"] = self.figures.into_json(part);
        value
    }
}

/// Returns individual requests, by column.
fn singles(list: &[Attempt]) -> Value {
    let mut value = json!({
        "row": list.iter().map(|a| a.row).collect::<Vec<_>>(),
        "phase": list.iter().map(|a| a.phase.map(Word::word)).collect::<Vec<_>>(),
        "status": list.iter().map(|a| a.status.map(Word::word)).collect::<Vec<_>>(),
        "measured": list.iter().map(|a| a.measured).collect::<Vec<_>>(),
    });
    for (i, column) in COLUMNS.iter().enumerate() {
        value[column] = list.iter().map(|a| json!(a.times[i])).collect();
    }
    for (i, name) in LATENCIES.iter().enumerate() {
        value[name] = list.iter().map(|a| json!(a.latencies[i])).collect();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measured request with these times of sending, first token and end, and with 10 output tokens.
    fn request(row: usize, [sent, first, done]: [i64; 3]) -> Attempt {
        let mut times = [None; COLUMNS.len()];
        (times[SENT], times[FIRST], times[DONE]) = (Some(sent), Some(first), Some(done));
        times[TOKENS] = Some(10);
        Attempt {
            row,
            times,
            phase: Some(Phase::Measured),
            status: Some(RequestStatus::Ok),
            measured: true,
            latencies: [Some((first - sent) as f64 / 1e6), None, None],
        }
    }

    fn span(from: i64, to: i64, moments: usize) -> WindowActivity {
        WindowActivity::new(from, to, moments, LATENCIES.map(metric))
    }

    #[test]
    fn levels_are_those_at_each_moment() {
        // Moments at 0, 10, 20, 30 and 40.
        let mut span = span(0, 40, 5);
        span.add(&request(0, [0, 15, 35]));
        span.add(&Attempt {
            status: Some(RequestStatus::HttpError),
            ..request(1, [5, 9, 20])
        });
        span.add(&request(2, [-100, -50, 1]));
        // It ends after the span. The next one lies entirely after it.
        span.add(&request(3, [30, 90, 99]));
        span.add(&request(4, [41, 90, 99]));
        let whole = Whole {
            rows: 5,
            from: -100,
            to: 99,
            window: Some((-100, 99)),
        };
        let activity = span.into_json(&whole);
        assert_eq!(activity["at_ns"], json!([0, 10, 20, 30, 40]));
        assert_eq!(activity["in_flight"], json!([2, 2, 1, 2, 1]));
        assert_eq!(activity["waiting"], json!([1, 1, 0, 1, 1]));
        assert_eq!(activity["running"], json!([1, 1, 1, 1, 0]));
        assert_eq!(activity["requests"], 4);
        assert_eq!(activity["ended"], json!([0, 1, 1, 0, 1]));
        assert_eq!(activity["failed"], json!([0, 0, 1, 0, 0]));
        assert_eq!(activity["single"]["row"], json!([0, 1, 2, 3]));
        // Sent in the span: the first, the second, which failed, and the fourth. Ended in it successfully: the first
        // and the third.
        let figures = &activity["figures"];
        assert_eq!(
            (&figures["sent"], &figures["failed"]),
            (&json!(3), &json!(1))
        );
        assert_eq!(figures["output_tokens"], 20);
        assert_eq!(figures["output_rate"], 20.0 / 40e-9);
        let ttft = &figures["latencies"][0];
        assert_eq!((&ttft["name"], &ttft["n"]), (&json!("ttft_ms"), &json!(2)));
        let p50 = ttft["p50"].as_f64().unwrap();
        assert!((p50 - 37.5e-6).abs() < 1e-12, "{p50}");
    }

    #[test]
    fn the_slowest_of_many_requests_are_listed() {
        let mut span = span(0, 1_000_000, 100);
        for row in 0..20_000 {
            // Every 500th is slow to the first token, and every 400th to the end.
            let first = if row % 500 == 7 { 900 + row } else { 50 };
            let done = if row % 400 == 3 { 90_000 + row } else { first };
            let row_at = usize::try_from(row).unwrap();
            span.add(&request(row_at, [row, row + first, row + done]));
        }
        // Warm-up and failed requests are not among them, and neither are those of another span.
        let slow = || request(20_000, [5, 500_000, 900_000]);
        span.add(&Attempt {
            measured: false,
            ..slow()
        });
        span.add(&Attempt {
            status: Some(RequestStatus::Timeout),
            ..slow()
        });
        span.add(&request(20_001, [-5, 500_000, 900_000]));
        let whole = Whole {
            rows: 20_003,
            from: -5,
            to: 1_000_000,
            window: None,
        };
        let activity = span.into_json(&whole);
        let rows: Vec<u64> = activity["slowest"]["row"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r.as_u64().unwrap())
            .collect();
        for row in 0..20_000 {
            let is_slow = row % 500 == 7 || row % 400 == 3;
            assert!(!is_slow || rows.contains(&row), "{row}");
        }
        assert!(rows.len() <= 2 * SLOWEST && rows.is_sorted() && !rows.contains(&20_000));
        assert_eq!(activity["slowest"]["status"][0], "ok");
    }

    #[test]
    fn the_longest_span_has_levels_and_figures() {
        let mut span = span(i64::MIN, i64::MAX, 3);
        span.add(&request(0, [0, 15, 35]));
        let whole = Whole {
            rows: 1,
            from: 0,
            to: 35,
            window: Some((0, 35)),
        };
        let activity = span.into_json(&whole);
        assert_eq!(
            (&activity["requests"], &activity["figures"]["sent"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(activity["at_ns"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn warm_up_and_attempts_that_were_tried_again_enter_no_figure() {
        let mut span = span(0, 40, 5);
        span.add(&Attempt {
            measured: false,
            ..request(0, [0, 10, 20])
        });
        let whole = Whole {
            rows: 1,
            from: 0,
            to: 40,
            window: None,
        };
        let figures = span.into_json(&whole)["figures"].take();
        assert_eq!(figures["output_rate"], Value::Null);
        assert_eq!(
            (&figures["sent"], &figures["output_tokens"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(figures["latencies"][0]["p50"], Value::Null);
    }

    #[test]
    fn output_is_per_second_of_the_measured_window_and_not_of_the_warm_up() {
        // Warm-up from 0 to 20; measured requests from 20 to 100.
        let whole = Whole {
            rows: 2,
            from: 0,
            to: 100,
            window: Some((20, 100)),
        };
        for (from, to, seconds) in [(0, 100, 80e-9), (0, 90, 70e-9), (60, 100, 40e-9)] {
            let mut span = span(from, to, 5);
            span.add(&request(0, [20, 40, 90]));
            let figures = span.into_json(&whole)["figures"].take();
            let rate = figures["output_rate"].as_f64().unwrap();
            assert!((rate * seconds / 10.0 - 1.0).abs() < 1e-12, "{from} {rate}");
        }
        let warm = span(0, 20, 5).into_json(&whole);
        assert_eq!(warm["figures"]["output_rate"], Value::Null);
    }

    #[test]
    fn more_requests_than_can_be_drawn_are_counted_and_not_listed() {
        let mut span = span(0, 1_000_000, 100);
        for row in 0..=ONE_BY_ONE as i64 {
            let row_at = usize::try_from(row).unwrap();
            span.add(&request(row_at, [row, row + 1_000_000, row + 3]));
        }
        let whole = Whole {
            rows: ONE_BY_ONE + 1,
            from: 0,
            to: 1_000_000,
            window: None,
        };
        let activity = span.into_json(&whole);
        assert_eq!(activity["requests"], ONE_BY_ONE + 1);
        assert_eq!(activity["single"], Value::Null);
        let slowest = activity["slowest"]["row"].as_array().unwrap();
        assert_eq!(slowest.len(), SLOWEST);
        let counts = activity["ttft_cloud"]["counts"].as_array().unwrap();
        let sum: u64 = counts.iter().map(|c| c[2].as_u64().unwrap()).sum();
        assert_eq!(sum, ONE_BY_ONE as u64 + 1);
        // A millisecond is 10⁰ ms.
        assert_eq!(counts[0][1], 0);
    }
}
