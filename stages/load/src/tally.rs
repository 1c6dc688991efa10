//! Counts over a run's rows, taken in passing.

use std::collections::BTreeMap;

use crate::rows::{Phase, RequestRow, RequestStatus};

/// Counts over a run's rows; memory does not grow with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Measured requests by status, superseded attempts left out.
    pub statuses: BTreeMap<RequestStatus, u64>,
    /// The first error of each status among them, in the order of requests.
    pub first_errors: BTreeMap<RequestStatus, String>,
    /// The first error of any request, warm-up too.
    pub first_error: Option<String>,
    /// First `sent_ns` and last `done_ns` of measured requests.
    pub(crate) window: (Option<i64>, Option<i64>),
    /// Attempts sent again on a fresh connection.
    pub replays: u64,
    /// The most requests in flight at once, measured ones.
    pub peak_in_flight: Option<i64>,
}

impl Tally {
    /// Returns the counts of rows.
    pub fn of(rows: &[RequestRow]) -> Self {
        let mut tally = Self::default();
        rows.iter().for_each(|row| tally.add(row));
        tally
    }

    /// Counts a row; rows come in the order of requests.
    pub(crate) fn add(&mut self, row: &RequestRow) {
        if self.first_error.is_none() {
            self.first_error.clone_from(&row.error);
        }
        self.replays += u64::from(row.superseded);
        if row.phase != Phase::Measured {
            return;
        }
        let (from, to) = &mut self.window;
        *from = from.iter().copied().chain(row.sent_ns).min();
        *to = (*to).max(Some(row.done_ns));
        if row.superseded {
            return;
        }
        *self.statuses.entry(row.status).or_default() += 1;
        if let Some(error) = &row.error {
            self.first_errors.entry(row.status).or_insert_with(|| error.clone());
        }
        self.peak_in_flight = self.peak_in_flight.max(row.in_flight_at_send.map(|others| others + 1));
    }

    /// Returns the measured window: first `sent_ns`, last `done_ns`.
    pub(crate) fn window(&self) -> Option<(i64, i64)> {
        self.window.0.zip(self.window.1)
    }
}
