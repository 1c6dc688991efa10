//! Bounds of the numbers in rows, because rows of other tools may hold any. Within them, a sum over 2³¹ rows and a
//! difference of two times fit an `i64`.

use artifacts::Table;

use crate::requests::{Chunk, Request};

/// The largest count of one row.
const MOST: i64 = u32::MAX as i64;

/// The largest distance of a time from the zero of its clock, in ns: 146 years.
const FURTHEST: i64 = (1 << 62) - 1;

/// The counts of a row about a cell.
const CELL_COUNTS: [&str; 6] = [
    "expected_requests",
    "warmup_requests",
    "unsent_requests",
    "clients",
    "sessions",
    "connections",
];

/// The times of a row about a cell.
const CELL_TIMES: [&str; 5] = [
    "started_unix_ns",
    "started_monotonic_ns",
    "measured_from_ns",
    "window_from_ns",
    "window_to_ns",
];

type Named<'a> = (&'a str, Option<i64>);

/// Returns what is wrong with the first number that is out of bounds.
fn impossible<'a>(
    counts: impl IntoIterator<Item = Named<'a>>,
    times: impl IntoIterator<Item = Named<'a>>,
) -> Option<String> {
    let given = |(name, number): Named<'a>| Some((name, number?));
    let count = counts.into_iter().filter_map(given);
    let count = { count }.find(|(_, count)| !(0..=MOST).contains(count));
    if let Some((name, count)) = count {
        return Some(format!(
            "`{name}` is {count}, and a count is between 0 and {MOST}"
        ));
    }
    let time = times.into_iter().filter_map(given);
    let (name, time) = { time }.find(|(_, time)| !(-FURTHEST..=FURTHEST).contains(time))?;
    Some(format!(
        "`{name}` is {time} ns, and a time is at most 146 years from the zero of its clock"
    ))
}

impl Request {
    /// Returns the reason why a count or time of the row is impossible, if one is.
    pub fn impossible(&self) -> Option<String> {
        let counts = [
            ("prompt_tokens", self.prompt_tokens),
            ("cached_prompt_tokens", self.cached_prompt_tokens),
            ("output_tokens", self.output_tokens),
            ("reasoning_tokens", self.reasoning_tokens),
            ("requested_output_tokens", self.requested_output_tokens),
            ("first_chunk_tokens", self.first_chunk_tokens),
            ("silent_events", self.silent_events),
            ("chunks", self.chunks),
            ("in_flight_at_send", self.in_flight_at_send),
        ];
        let times = [
            ("scheduled_ns", self.scheduled_ns),
            ("connect_ns", self.connect_ns),
            ("sent_ns", self.sent_ns),
            ("headers_ns", self.headers_ns),
            ("first_token_ns", self.first_token_ns),
            ("first_silent_ns", self.first_silent_ns),
            ("first_reasoning_ns", self.first_reasoning_ns),
            ("first_answer_ns", self.first_answer_ns),
            ("last_token_ns", self.last_token_ns),
            ("done_ns", self.done_ns),
            ("send_lag_ns", self.send_lag_ns),
        ];
        let why = impossible(counts, times)?;
        let (id, attempt) = (self.request_id, self.attempt);
        Some(format!("request {id}, attempt {attempt}: {why}"))
    }
}

impl Chunk {
    /// Returns the reason why a time of the row is impossible, if it is.
    pub fn impossible(&self) -> Option<String> {
        let why = impossible([], [("at_ns", Some(self.at_ns))])?;
        Some(format!("request {}: {why}", self.request_id))
    }
}

/// Returns the reason why a count or time in the table about a cell is impossible, if one is.
pub fn impossible_cell(table: &Table) -> Option<String> {
    let all = |names: &[&'static str]| -> Vec<Named<'static>> {
        let values = |name| table.int(name).unwrap_or_default();
        let named = names.iter().map(|name| (*name, values(name)));
        named
            .flat_map(|(name, values)| values.into_iter().map(move |value| (name, value)))
            .collect()
    };
    impossible(all(&CELL_COUNTS), all(&CELL_TIMES)).map(|why| format!("the cell: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::declare::Row as _;

    #[test]
    fn numbers_whose_sums_would_wrap_are_impossible() {
        let sound = crate::synthetic::request(0);
        assert_eq!(sound.impossible(), None);
        for wrong in [
            Request {
                done_ns: Some(i64::MAX),
                ..sound.clone()
            },
            Request {
                sent_ns: Some(i64::MIN),
                ..sound.clone()
            },
            Request {
                chunks: Some(-1),
                ..sound.clone()
            },
            Request {
                output_tokens: Some(MOST + 1),
                ..sound.clone()
            },
        ] {
            assert!(wrong.impossible().is_some(), "{wrong:?}");
        }
        let cell = |expected| {
            Cell::table(&[Cell {
                expected_requests: Some(expected),
                ..Cell::default()
            }])
        };
        assert_eq!(impossible_cell(&cell(MOST).unwrap()), None);
        let why = impossible_cell(&cell(9_000_000_000_000_000_000).unwrap()).unwrap();
        assert!(
            why.contains("`expected_requests` is 9000000000000000000"),
            "{why}"
        );
    }
}
