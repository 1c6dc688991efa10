//! What a cell's requests did over time, in as many moments as a page has pixels: for cells of more
//! requests than a page can draw, and for the requests running and waiting.

use artifacts::{ColumnReader, Digest, Store};
use contract::{Phase, RequestStatus, Word};
use pipeline::place::cell_text;
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::error::Failure;
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::rows::States;
use crate::study::Study;

/// Moments at which levels are told, if the question does not say.
const MOMENTS: usize = 600;

/// The most moments.
const MOST_MOMENTS: usize = 4_000;

/// The most requests that are told one by one.
const ONE_BY_ONE: usize = 5_000;

/// Bins of the time to the first token, a fixed number in each decade.
const PER_DECADE: f64 = 8.0;

/// Columns of bins over time.
const WIDE: usize = 120;

/// The columns read, all of them whole numbers; the first seven are told of single requests.
const COLUMNS: [&str; 9] = [
    "scheduled_ns",
    "sent_ns",
    "headers_ns",
    "first_token_ns",
    "last_token_ns",
    "done_ns",
    "send_lag_ns",
    "request_id",
    "attempt",
];

/// The times of one attempt, in the order of [`COLUMNS`].
type Times = [Option<i64>; COLUMNS.len()];

const SCHEDULED: usize = 0;
const SENT: usize = 1;
const FIRST: usize = 3;
const DONE: usize = 5;

/// Answers with the levels of a cell's requests over a span of time, and with the requests of that span
/// one by one if they are few.
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
    let mut span = Span::new(from, to.max(from + 1), moments);
    each(&digest, store, |row, times, phase, status| {
        span.add(row, times, phase, status);
    })?;
    Ok(Reply::json(&span.told(&whole), Freshness::Tagged))
}

/// The extent of all requests of a cell.
struct Whole {
    rows: usize,
    from: i64,
    to: i64,
}

fn whole(digest: &Digest, store: &Store) -> Result<Whole, Failure> {
    let (mut rows, mut from, mut to) = (0, i64::MAX, i64::MIN);
    each(digest, store, |_, times, _, _| {
        rows += 1;
        for time in [times[SCHEDULED], times[SENT], times[DONE]]
            .into_iter()
            .flatten()
        {
            (from, to) = (from.min(time), to.max(time));
        }
    })?;
    if from > to {
        (from, to) = (0, 0);
    }
    Ok(Whole { rows, from, to })
}

/// Hears every attempt of a cell: its row, its times, its phase and its status.
fn each(
    digest: &Digest,
    store: &Store,
    mut hear: impl FnMut(usize, &Times, Option<Phase>, Option<RequestStatus>),
) -> Result<(), Failure> {
    let mut columns = COLUMNS.to_vec();
    columns.extend(["phase", "status", "superseded"]);
    let mut first = 0;
    for batch in ColumnReader::open(store, digest, &columns)? {
        let batch = batch?;
        let phase = |word: Option<&str>| word.and_then(|w| Phase::parse(w).ok());
        let phases = batch.of_each_text("phase", phase)?;
        let states = States::of(&batch)?;
        let columns = COLUMNS.iter().map(|column| batch.ints(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for (row, phase) in phases.iter().enumerate() {
            let times = std::array::from_fn(|i| columns[i].get(row));
            hear(first + row, &times, *phase, states.status(row));
        }
        first += batch.rows();
    }
    Ok(())
}

/// What is told of a span of time.
struct Span {
    from: i64,
    to: i64,
    /// Changes of the level between moments: in flight, waiting for the first token, due and not yet sent.
    levels: [Vec<i64>; 3],
    /// Requests that ended between two moments: all, and those that failed.
    ended: [Vec<u32>; 2],
    /// Requests by when they were sent and how long their first token took, on a logarithmic scale.
    cloud: std::collections::BTreeMap<(usize, i32), u32>,
    inside: usize,
    single: Vec<(usize, Times, Option<Phase>, Option<RequestStatus>)>,
}

impl Span {
    fn new(from: i64, to: i64, moments: usize) -> Self {
        Self {
            from,
            to,
            levels: std::array::from_fn(|_| vec![0; moments + 1]),
            ended: std::array::from_fn(|_| vec![0; moments]),
            cloud: std::collections::BTreeMap::new(),
            inside: 0,
            single: Vec::new(),
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

    fn add(
        &mut self,
        row: usize,
        times: &Times,
        phase: Option<Phase>,
        status: Option<RequestStatus>,
    ) {
        let (sent, done) = (times[SENT], times[DONE]);
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
            self.single.push((row, *times, phase, status));
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
            let length = (self.to - self.from) as f64;
            let column = ((sent - self.from) as f64 / length * WIDE as f64) as usize;
            let bin = ((first - sent) as f64 / 1e6).log10() * PER_DECADE;
            *self
                .cloud
                .entry((column.min(WIDE - 1), bin.floor() as i32))
                .or_default() += 1;
        }
    }

    fn told(self, whole: &Whole) -> Value {
        let moments = self.moments();
        let step = (self.to - self.from) as f64 / (moments - 1) as f64;
        let at: Vec<i64> = (0..moments)
            .map(|i| self.from + (step * i as f64).round() as i64)
            .collect();
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
        }
        value
    }
}

/// Returns requests one by one, by column.
fn singles(list: &[(usize, Times, Option<Phase>, Option<RequestStatus>)]) -> Value {
    let mut value = json!({
        "row": list.iter().map(|(row, ..)| *row).collect::<Vec<_>>(),
        "phase": list.iter().map(|(_, _, phase, _)| phase.map(Word::word)).collect::<Vec<_>>(),
        "status": list.iter().map(|(.., status)| status.map(Word::word)).collect::<Vec<_>>(),
    });
    for (i, column) in COLUMNS.iter().enumerate() {
        value[column] = list.iter().map(|(_, times, ..)| json!(times[i])).collect();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(sent: i64, first: i64, done: i64) -> Times {
        let mut times = [None; COLUMNS.len()];
        (times[SENT], times[FIRST], times[DONE]) = (Some(sent), Some(first), Some(done));
        times
    }

    #[test]
    fn levels_are_those_at_each_moment() {
        // Moments at 0, 10, 20, 30 and 40.
        let mut span = Span::new(0, 40, 5);
        span.add(
            0,
            &times(0, 15, 35),
            Some(Phase::Measured),
            Some(RequestStatus::Ok),
        );
        span.add(
            1,
            &times(5, 9, 20),
            Some(Phase::Measured),
            Some(RequestStatus::HttpError),
        );
        span.add(
            2,
            &times(-100, -50, 1),
            Some(Phase::Measured),
            Some(RequestStatus::Ok),
        );
        // It ends after the span, and one lies after it altogether.
        span.add(
            3,
            &times(30, 90, 99),
            Some(Phase::Measured),
            Some(RequestStatus::Ok),
        );
        span.add(
            4,
            &times(41, 90, 99),
            Some(Phase::Measured),
            Some(RequestStatus::Ok),
        );
        let whole = Whole {
            rows: 5,
            from: -100,
            to: 99,
        };
        let told = span.told(&whole);
        assert_eq!(told["at_ns"], json!([0, 10, 20, 30, 40]));
        assert_eq!(told["in_flight"], json!([2, 2, 1, 2, 1]));
        assert_eq!(told["waiting"], json!([1, 1, 0, 1, 1]));
        assert_eq!(told["running"], json!([1, 1, 1, 1, 0]));
        assert_eq!(told["requests"], 4);
        assert_eq!(told["ended"], json!([0, 1, 1, 0, 1]));
        assert_eq!(told["failed"], json!([0, 0, 1, 0, 0]));
        assert_eq!(told["single"]["row"], json!([0, 1, 2, 3]));
    }

    #[test]
    fn more_requests_than_can_be_drawn_are_counted_and_not_listed() {
        let mut span = Span::new(0, 1_000_000, 100);
        for row in 0..=ONE_BY_ONE as i64 {
            let row_at = usize::try_from(row).unwrap();
            span.add(
                row_at,
                &times(row, row + 1_000_000, row + 3),
                Some(Phase::Measured),
                Some(RequestStatus::Ok),
            );
        }
        let whole = Whole {
            rows: ONE_BY_ONE + 1,
            from: 0,
            to: 1_000_000,
        };
        let told = span.told(&whole);
        assert_eq!(told["requests"], ONE_BY_ONE + 1);
        assert_eq!(told["single"], Value::Null);
        let counts = told["ttft_cloud"]["counts"].as_array().unwrap();
        let sum: u64 = counts.iter().map(|c| c[2].as_u64().unwrap()).sum();
        assert_eq!(sum, ONE_BY_ONE as u64 + 1);
        // A millisecond is 10⁰ ms.
        assert_eq!(counts[0][1], 0);
    }
}
