//! Counts the requests in flight over all generators at each send. One generator knows only its own requests.

use contract::Request;

/// The number of requests in flight at each send.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    /// Request, attempt, and the number of other requests in flight; sorted.
    at_send: Vec<(i64, i64, u32)>,
}

/// The times at which attempts were sent and completed, unsorted.
#[derive(Debug, Default)]
pub(super) struct Flights(Vec<Flight>);

/// An attempt, from its start to its end.
#[derive(Debug)]
struct Flight {
    sent_ns: i64,
    done_ns: i64,
    request: i64,
    attempt: i64,
}

impl Flights {
    /// Records an attempt that was sent.
    pub(super) fn note(&mut self, row: &Request) {
        if let (Some(sent_ns), Some(done_ns)) = (row.sent_ns, row.done_ns) {
            self.0.push(Flight {
                sent_ns,
                done_ns,
                request: row.request_id,
                attempt: row.attempt,
            });
        }
    }

    /// For each attempt, counts the attempts sent before it and subtracts those completed by then. Attempts sent at the
    /// same time are ordered by number.
    pub(super) fn count(self) -> InFlight {
        let mut flights = self.0;
        flights.sort_unstable_by_key(|flight| (flight.sent_ns, flight.request, flight.attempt));
        let mut done: Vec<i64> = flights.iter().map(|flight| flight.done_ns).collect();
        done.sort_unstable();
        let mut ended = 0;
        let mut at_send: Vec<(i64, i64, u32)> = Vec::with_capacity(flights.len());
        for (before, flight) in flights.iter().enumerate() {
            while done.get(ended).is_some_and(|at| *at <= flight.sent_ns) {
                ended += 1;
            }
            let others = u32::try_from(before.saturating_sub(ended)).unwrap_or(u32::MAX);
            at_send.push((flight.request, flight.attempt, others));
        }
        at_send.sort_unstable();
        InFlight { at_send }
    }
}

impl InFlight {
    /// Enters the number into a row.
    pub(crate) fn enter(&self, row: &mut Request) {
        let place = (row.request_id, row.attempt);
        let position = self
            .at_send
            .binary_search_by_key(&place, |(request, attempt, _)| (*request, *attempt));
        row.in_flight_at_send = position.ok().map(|at| i64::from(self.at_send[at].2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_count_is_that_of_looking_at_every_other_request(
            flights in proptest::collection::vec((0_i64..40, 1_i64..20), 0..40),
        ) {
            let mut noted = Flights::default();
            let row = |(id, (sent, took)): (i64, &(i64, i64))| Request {
                sent_ns: Some(*sent),
                done_ns: Some(sent + took),
                ..contract::synthetic::request(id)
            };
            let rows: Vec<Request> = (0..).zip(&flights).map(row).collect();
            rows.iter().for_each(|row| noted.note(row));
            let counted = noted.count();
            for row in &rows {
                let (id, sent) = (row.request_id, row.sent_ns.unwrap());
                let others = rows.iter().filter(|other| {
                    let (first, last) = (other.sent_ns.unwrap(), other.done_ns.unwrap());
                    (first, other.request_id) < (sent, id) && last > sent
                });
                let mut entered = row.clone();
                counted.enter(&mut entered);
                prop_assert_eq!(entered.in_flight_at_send, Some(others.count() as i64));
            }
        }
    }

    #[test]
    fn what_was_never_sent_has_no_number() {
        let mut row = Request {
            sent_ns: None,
            ..contract::synthetic::request(3)
        };
        let mut flights = Flights::default();
        flights.note(&row);
        flights.count().enter(&mut row);
        assert_eq!(row.in_flight_at_send, None);
    }
}
