//! Checks the rows and the account that a generator hands over. They are data of another process, perhaps of another machine: a
//! row of another request, a row that comes twice or never, or an impossible stamp would enter the tables as if it were measured.

use apis::Server;
use contract::{Chunk, Phase, Request};

use super::deal::Deal;
use super::messages::Account;
use crate::claims;
use crate::ordered::Rows;
use crate::prompts::PromptSet;

/// The largest count that a row or an account may contain. It is far above any real one, and sums over all generators fit into 64
/// bits.
const LARGEST: u64 = 1 << 56;

/// The largest number of tokens or bytes of one event.
const LARGEST_OF_A_CHUNK: i64 = u32::MAX as i64;

/// The rows received from one generator.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Request, attempt, and whether another attempt must follow, of the last row.
    last: Option<(i64, i64, bool)>,
    /// The number of requests with a row.
    requests: u64,
}

/// What all rows of a generator must agree with.
pub(super) struct Expected<'a> {
    pub(super) place: usize,
    pub(super) generators: usize,
    pub(super) deal: &'a Deal,
    pub(super) prompts: &'a PromptSet,
    /// The latest possible stamp, on the cell's clock, ns.
    pub(super) latest_ns: i64,
}

impl Intake {
    /// Takes the rows of the next attempt.
    ///
    /// # Errors
    /// In words that continue "generator 1 …", if they cannot be rows of this generator.
    pub(super) fn take(&mut self, rows: &Rows, expected: &Expected<'_>) -> Result<(), String> {
        let row = &rows.request;
        let refused =
            |what: &str| format!("handed over a row that {what}: request {}", row.request_id);
        expected.is_own(row).map_err(refused)?;
        self.in_order(row).map_err(refused)?;
        has_possible_stamps(row, expected.latest_ns).map_err(refused)?;
        has_possible_counts(row).map_err(refused)?;
        let counted = usize::try_from(row.chunks.unwrap_or_default());
        if counted != Ok(rows.chunks.len()) {
            return Err(refused("has another number of chunks than it states"));
        }
        if !rows.chunks.iter().all(|chunk| is_of(chunk, row)) {
            return Err(refused("has chunks that cannot be its own"));
        }
        self.requests += u64::from(row.attempt == 1);
        self.last = Some((row.request_id, row.attempt, row.superseded));
        Ok(())
    }

    fn in_order(&self, row: &Request) -> Result<(), &'static str> {
        let follows = match self.last {
            Some((request, attempt, true)) => {
                (request, attempt.saturating_add(1)) == (row.request_id, row.attempt)
            }
            Some((request, _, false)) => request < row.request_id && row.attempt == 1,
            None => row.attempt == 1,
        };
        if follows {
            Ok(())
        } else {
            Err("comes twice or out of order")
        }
    }

    /// Checks that no rows are missing, and that the account is possible. `dealt` is the number of requests that the generator
    /// got; if `all`, each needs a row.
    ///
    /// # Errors
    /// In words that continue "generator 1 …".
    pub(super) fn finish(
        &self,
        account: &Account,
        (dealt, all): (u64, bool),
    ) -> Result<(), String> {
        if self.last.is_some_and(|(.., superseded)| superseded) {
            return Err("did not hand over the last attempt of a request".to_owned());
        }
        if all && self.requests != dealt {
            return Err(format!(
                "handed over the rows of {} requests, and was to send {dealt}",
                self.requests
            ));
        }
        let measured = &account.measured;
        let health = &measured.health;
        let counts = [
            account.connections,
            measured.unrendered,
            measured.held_back,
            measured.begun as u64,
            measured.unsent,
            measured.not_due,
            measured.short_of_ns.unwrap_or_default(),
        ];
        let possible = counts.iter().all(|count| *count < LARGEST)
            && account.expected_requests <= dealt
            && health.is_possible(LARGEST);
        if possible {
            Ok(())
        } else {
            Err("gave an account with impossible counts".to_owned())
        }
    }
}

impl Expected<'_> {
    /// Checks that a row belongs to a request that the generator got.
    fn is_own(&self, row: &Request) -> Result<(), &'static str> {
        let warmup = self.prompts.count(Phase::Warmup);
        let all = warmup + self.prompts.count(Phase::Measured);
        let request = usize::try_from(row.request_id).unwrap_or(usize::MAX);
        if request >= all || self.deal.of(request) != self.place {
            return Err("is not its own");
        }
        let (phase, index) = match request.checked_sub(warmup) {
            Some(index) => (Phase::Measured, index),
            None => (Phase::Warmup, request),
        };
        let whole = |value: u64| i64::try_from(value).ok();
        let prompt = self
            .prompts
            .at(request)
            .map_err(|_| "cannot be compared with its prompt")?;
        let as_dealt = row.phase == phase
            && row.prompt_index == whole(index as u64)
            && row.prompt_digest == Some(prompt.digest().to_string())
            && row.session_id == prompt.session.and_then(whole)
            && row.turn == prompt.turn.map(i64::from)
            && row.requested_output_tokens == Some(i64::from(prompt.output_tokens));
        if !as_dealt {
            return Err("is not of the request with this number");
        }
        let clients = self.deal.clients(self.place);
        let is_client = |client: i64| {
            let client = usize::try_from(client).unwrap_or(usize::MAX);
            let among = clients.map_or(1, |own| own as usize);
            client % self.generators == self.place % self.generators
                && client / self.generators < among
        };
        if row.client_id.is_some_and(|client| !is_client(client)) {
            return Err("names a client of another generator");
        }
        Ok(())
    }
}

/// Checks that stamps are within the load and in order.
fn has_possible_stamps(row: &Request, latest_ns: i64) -> Result<(), &'static str> {
    let within = |at: i64| (0..=latest_ns).contains(&at);
    let (from, to) = (row.sent_ns.unwrap_or(0), row.done_ns.unwrap_or(latest_ns));
    let between = [
        row.headers_ns,
        row.first_token_ns,
        row.first_silent_ns,
        row.first_reasoning_ns,
        row.first_answer_ns,
        row.last_token_ns,
    ];
    // A request that is never sent can be due after the end.
    let due = row
        .scheduled_ns
        .is_none_or(|at| (0..=latest_ns.max(1 << 61)).contains(&at));
    let possible = due
        && within(from)
        && within(to)
        && between
            .into_iter()
            .flatten()
            .all(|at| from <= at && at <= to)
        && row.connect_ns.is_none_or(within)
        && row
            .send_lag_ns
            .is_none_or(|lag| lag.unsigned_abs() < 1 << 61);
    if possible {
        Ok(())
    } else {
        Err("has stamps that cannot be")
    }
}

/// Checks that counts are not negative and can be added up, and the times of the server.
fn has_possible_counts(row: &Request) -> Result<(), &'static str> {
    let counts = [
        row.prompt_tokens,
        row.cached_prompt_tokens,
        row.output_tokens,
        row.reasoning_tokens,
        row.first_chunk_tokens,
        row.silent_events,
        row.in_flight_at_send,
        row.reads,
        row.output_characters,
        row.chunks,
    ];
    let possible = |count: i64| (0..=LARGEST_OF_A_CHUNK).contains(&count);
    let bytes = row
        .received_bytes
        .is_none_or(|bytes| u64::try_from(bytes).is_ok_and(|n| n < LARGEST));
    if bytes && counts.into_iter().flatten().all(possible) && has_possible_times(row) {
        Ok(())
    } else {
        Err("has counts that cannot be")
    }
}

/// Returns whether the server's times are numbers, and no longer than the request.
fn has_possible_times(row: &Request) -> bool {
    let server = Server {
        prompt_ms: row.server_prompt_ms,
        predicted_ms: row.server_predicted_ms,
        ..Server::default()
    };
    let took = row.done_ns.zip(row.sent_ns);
    let took = took.and_then(|(done, sent)| u64::try_from(done.saturating_sub(sent)).ok());
    let times = [server.prompt_ms, server.predicted_ms];
    let numbers = times
        .into_iter()
        .flatten()
        .all(|ms| ms.is_finite() && ms >= 0.0);
    numbers && claims::impossible_times(&server, took.or(Some(0))).is_none()
}

/// Returns whether a chunk can belong to an attempt.
fn is_of(chunk: &Chunk, row: &Request) -> bool {
    let possible = |count: i64| (0..=LARGEST_OF_A_CHUNK).contains(&count);
    let (from, to) = (row.sent_ns.unwrap_or(0), row.done_ns.unwrap_or(i64::MAX));
    (chunk.request_id, chunk.attempt) == (row.request_id, row.attempt)
        && (from..=to).contains(&chunk.at_ns)
        && [chunk.bytes, chunk.tokens, chunk.read]
            .into_iter()
            .flatten()
            .all(possible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::{Arrival, ClosedLoop};
    use crate::measure::Measured;
    use crate::prompts::Amount;
    use crate::random::Origin;
    use crate::span::TimeSpan;
    use proptest::prelude::*;
    use serde_json::json;

    const LATEST_NS: i64 = 1_000_000;

    /// The prompts of 2 warm-up and 8 measured requests, dealt to two generators with three clients together.
    fn load() -> (Deal, PromptSet) {
        let workload = json!({"prompts": {"words": {"length": 5}}, "output": {"tokens": 4}});
        let origin = Origin {
            seed: 3,
            replicate: Default::default(),
        };
        let prompts = PromptSet::with_counter(
            &serde_json::from_value(workload).unwrap(),
            &origin,
            2,
            Amount::Requests(8),
            None,
            &std::env::temp_dir(),
            &Default::default(),
        );
        let prompts = prompts.unwrap();
        let arrival = Arrival::ClosedLoop(ClosedLoop {
            clients: 3,
            think_time: TimeSpan::default(),
        });
        (Deal::new(2, &arrival, &prompts), prompts)
    }

    fn expected<'a>((deal, prompts): &'a (Deal, PromptSet)) -> Expected<'a> {
        Expected {
            place: 0,
            generators: 2,
            deal,
            prompts,
            latest_ns: LATEST_NS,
        }
    }

    /// The rows of the first generator as it would hand them over.
    fn honest((deal, prompts): &(Deal, PromptSet)) -> Vec<Rows> {
        let rows = |request: usize| {
            let prompt = prompts.at(request).unwrap();
            let row = Request {
                phase: prompt.phase,
                client_id: Some(0),
                session_id: None,
                turn: None,
                prompt_index: Some(prompt.index as i64),
                prompt_digest: Some(prompt.digest().to_string()),
                requested_output_tokens: Some(i64::from(prompt.output_tokens)),
                scheduled_ns: Some(9),
                connect_ns: None,
                sent_ns: Some(10),
                headers_ns: Some(20),
                first_token_ns: Some(30),
                first_reasoning_ns: None,
                first_answer_ns: Some(30),
                last_token_ns: Some(40),
                done_ns: Some(50),
                send_lag_ns: Some(1),
                chunks: Some(1),
                ..contract::synthetic::request(request as i64)
            };
            let chunk = Chunk {
                request_id: row.request_id,
                attempt: 1,
                at_ns: 30,
                bytes: Some(4),
                tokens: Some(1),
                read: Some(0),
            };
            Rows {
                request: row,
                chunks: vec![chunk],
            }
        };
        let own = (0..10).filter(|request| deal.of(*request) == 0);
        own.map(rows).collect()
    }

    fn taken(all: &[Rows], load: &(Deal, PromptSet)) -> Result<Intake, String> {
        let mut intake = Intake::default();
        let expected = expected(load);
        all.iter()
            .try_for_each(|rows| intake.take(rows, &expected))?;
        Ok(intake)
    }

    fn account() -> Account {
        Account {
            measured: Measured {
                measured_from_ns: 0,
                health: crate::measure::Health::none(),
                unrendered: 0,
                held_back: 0,
                begun: 5,
                unsent: 0,
                not_due: 0,
                short_of_ns: None,
            },
            connections: 2,
            expected_requests: 5,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn rows_that_are_whole_are_taken_and_missing_ones_are_missed() {
        let load = load();
        let all = honest(&load);
        let dealt = load.0.counts(10);
        assert_eq!(dealt, [all.len() as u64, 10 - all.len() as u64]);
        let intake = taken(&all, &load).unwrap();
        assert_eq!(intake.finish(&account(), (dealt[0], true)), Ok(()));
        for left_out in 0..all.len() {
            let mut some = all.clone();
            some.remove(left_out);
            let intake = taken(&some, &load).unwrap();
            let error = intake.finish(&account(), (dealt[0], true)).unwrap_err();
            assert!(error.contains("and was to send"), "{error}");
            // A duration or a stop may leave some out.
            assert_eq!(intake.finish(&account(), (dealt[0], false)), Ok(()));
        }
    }

    #[test]
    fn what_a_generator_cannot_have_measured_is_refused() {
        let load = load();
        let all = honest(&load);
        type Change = fn(&mut Rows);
        let changes: [(Change, &str); 24] = [
            (|rows| rows.request.request_id += 1, "not its own"),
            (|rows| rows.request.request_id = -1, "not its own"),
            (|rows| rows.request.request_id = i64::MAX, "not its own"),
            (|rows| rows.request.attempt = 0, "twice or out of order"),
            (|rows| rows.request.attempt = 2, "twice or out of order"),
            (
                |rows| rows.request.attempt = i64::MAX,
                "twice or out of order",
            ),
            (
                |rows| rows.request.phase = Phase::Warmup,
                "not of the request",
            ),
            (
                |rows| rows.request.prompt_index = None,
                "not of the request",
            ),
            (
                |rows| rows.request.prompt_digest = Some("b3:0".to_owned()),
                "not of the request",
            ),
            (
                |rows| rows.request.session_id = Some(0),
                "not of the request",
            ),
            (
                |rows| rows.request.requested_output_tokens = Some(5),
                "not of the request",
            ),
            (|rows| rows.request.client_id = Some(1), "client of another"),
            (
                |rows| rows.request.client_id = Some(-2),
                "client of another",
            ),
            (|rows| rows.request.client_id = Some(4), "client of another"),
            (
                |rows| rows.request.sent_ns = Some(i64::MIN),
                "stamps that cannot be",
            ),
            (
                |rows| rows.request.done_ns = Some(LATEST_NS + 1),
                "stamps that cannot be",
            ),
            (
                |rows| rows.request.first_token_ns = Some(5),
                "stamps that cannot be",
            ),
            (
                |rows| rows.request.output_tokens = Some(-1),
                "counts that cannot be",
            ),
            (
                |rows| rows.request.server_prompt_ms = Some(f64::NAN),
                "counts that cannot be",
            ),
            (
                |rows| rows.request.server_predicted_ms = Some(-1.0),
                "counts that cannot be",
            ),
            (
                |rows| rows.request.server_predicted_ms = Some(5_000.0),
                "counts that cannot be",
            ),
            (
                |rows| rows.request.received_bytes = Some(i64::MAX),
                "counts that cannot be",
            ),
            (
                |rows| rows.request.chunks = Some(7),
                "another number of chunks",
            ),
            (|rows| rows.chunks[0].at_ns = 51, "cannot be its own"),
        ];
        // The first measured request of the generator.
        let place = all
            .iter()
            .position(|rows| rows.request.phase == Phase::Measured)
            .unwrap();
        for (number, (change, expected)) in changes.into_iter().enumerate() {
            let mut some = all.clone();
            change(&mut some[place]);
            let error = taken(&some, &load).unwrap_err();
            assert!(error.contains(expected), "change {number}: {error}");
        }
        // Twice the same, in either place.
        for twice in [[0, 0], [1, 0]] {
            let some = twice.map(|place| all[place].clone());
            let error = taken(&some, &load).unwrap_err();
            assert!(error.contains("twice or out of order"), "{error}");
        }
    }

    #[test]
    fn an_attempt_that_was_superseded_is_followed_by_the_next_one() {
        let load = load();
        let all = honest(&load);
        let (mut first, mut second) = (all[0].clone(), all[0].clone());
        (first.request.superseded, second.request.attempt) = (true, 2);
        second.chunks[0].attempt = 2;
        assert!(taken(&[first.clone(), second.clone(), all[1].clone()], &load).is_ok());
        assert!(taken(&[first.clone(), all[1].clone()], &load).is_err());
        let intake = taken(&[first], &load).unwrap();
        assert!(intake.finish(&account(), (5, false)).is_err());
    }

    #[test]
    fn impossible_accounts_are_refused() {
        type Change = fn(&mut Account);
        let changes: [Change; 5] = [
            |account| account.connections = u64::MAX,
            |account| account.expected_requests = 6,
            |account| account.measured.unrendered = u64::MAX,
            |account| account.measured.health.cpu_ns = u64::MAX,
            |account| account.measured.health.after.preempted = Some(u64::MAX),
        ];
        for change in changes {
            let mut account = account();
            change(&mut account);
            assert!(Intake::default().finish(&account, (5, false)).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_order_of_rows_is_taken_but_their_own(
            order in proptest::sample::subsequence((0..5_usize).collect::<Vec<_>>(), 2..5).prop_shuffle(),
        ) {
            let load = load();
            let all = honest(&load);
            let some: Vec<Rows> = order.iter().filter_map(|place| all.get(*place).cloned()).collect();
            let sorted = some.is_sorted_by_key(|rows| rows.request.request_id);
            prop_assert_eq!(taken(&some, &load).is_ok(), sorted);
        }
    }
}
