//! The discrete-event simulation: requests that wait, requests in slots, and the next event.
//!
//! All times are whole nanoseconds since the cell's start. Without noise, drift and slowdown every duration equals the
//! declared one to the nanosecond, so queueing theory holds exactly. Events at the same nanosecond happen in this
//! order: a step ends, answers without a step end, time limits pass, requests arrive, the next step begins.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use contract::RequestStatus;
use pipeline::stage::{Control, Failure};

use super::cache::{Cache, Cacheable};
use super::model::SimulatedServer;
use crate::random::Draws;

/// The time from a request to its refusal.
const ERROR_NS: u64 = 1_000_000;

/// One request as the server sees it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its texts: one, or those of a batch.
    pub(super) texts: Vec<AskedText>,
    pub(super) output_tokens: u32,
    /// Whether the answer is text. Otherwise (a vector, or scores) it is complete at the end of the prefill.
    pub(super) generates: bool,
    pub(super) fault: Option<Fault>,
    /// How long after it was sent its sender gives it up, ns.
    pub(super) given_up: Option<u64>,
}

/// A text of a request as the server sees it.
#[derive(Clone, Debug)]
pub(super) struct AskedText {
    pub(super) tokens: u64,
    /// What a prefix cache compares, if the server has one and the prompt has no images.
    pub(super) cacheable: Option<Cacheable>,
}

impl Asked {
    pub(super) fn prompt_tokens(&self) -> u64 {
        self.texts.iter().map(|text| text.tokens).sum()
    }
}

/// The fault that hits a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Http(u16, String),
    NoTokens,
}

/// The course of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    pub(super) client: Option<u32>,
    /// When it was due. It is sent later if as many are in flight as there may be.
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) in_flight: usize,
    pub(super) prefill_from: u64,
    pub(super) cached: u64,
    /// When its first token came, and when its latest one came.
    pub(super) first: Option<u64>,
    pub(super) last: u64,
    pub(super) tokens: u32,
    /// Events with text: the time, and the number of tokens.
    pub(super) chunks: Vec<(u64, u32)>,
    pending: u32,
    /// Its end: the time, the status, and the reason.
    pub(super) end: Option<(u64, RequestStatus, Option<String>)>,
}

/// Time limits of a request, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) first_token: u64,
    pub(super) inter_token: u64,
    pub(super) total: u64,
    pub(super) heartbeat: u64,
}

/// How times are stretched.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Slowdown and the cell's own factor.
    pub(super) factor: f64,
    /// The standard deviation of the logarithm of a step's factor.
    pub(super) step: f64,
    /// The drift per hour, and the hours between the clock's zero and the cell's start.
    pub(super) drift: f64,
    pub(super) hours: f64,
    pub(super) draws: Draws,
}

impl Pace {
    fn stretch(&mut self, declared_ns: u64, now: u64) -> u64 {
        let noise = lognormal(&mut self.draws, self.step);
        let drift = 1.0 + self.drift * (self.hours + now as f64 / 3.6e12);
        let factor = self.factor * noise * drift;
        // A factor of exactly 1 keeps every digit, even of spans above 2⁵³ ns.
        if factor == 1.0 {
            declared_ns
        } else {
            (declared_ns as f64 * factor).round() as u64
        }
    }
}

/// Returns a lognormal factor of mean 1.
pub(super) fn lognormal(draws: &mut Draws, deviation: f64) -> f64 {
    if deviation == 0.0 {
        return 1.0;
    }
    (deviation * draws.normal() - deviation * deviation / 2.0).exp()
}

/// The senders of requests.
pub(super) enum Senders<'a> {
    /// Clients. Each takes the next request after its last one has ended and its think time is over.
    Closed { clients: u32, think_ns: u64 },
    /// Offsets from the start of the phase.
    Open(&'a [u64]),
}

/// A step in progress.
#[derive(Clone, Copy, Debug)]
enum Step {
    Prefill(usize),
    Decode,
}

/// How a phase ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Done,
    Hung,
}

/// The server and all requests of a cell.
pub(super) struct Machine<'a> {
    pub(super) server: &'a SimulatedServer,
    pub(super) asked: &'a [Asked],
    pub(super) flights: Vec<Option<Flight>>,
    pub(super) limits: Limits,
    pub(super) pace: Pace,
    /// The server goes silent after this many answers of the phase.
    pub(super) hang_after: Option<u64>,
    /// The most requests in flight for open arrivals.
    pub(super) max_in_flight: Option<u32>,
    pub(super) now: u64,
    line: VecDeque<usize>,
    admitted: VecDeque<usize>,
    decoding: Vec<usize>,
    step: Option<(u64, Step)>,
    /// Answers that end independently of a step.
    endings: BTreeSet<(u64, usize)>,
    in_flight: BTreeSet<usize>,
    /// No limit passes before this.
    next_limit: u64,
    last_sign: u64,
    answered: u64,
    cache: Cache<'a>,
    /// When clients become free, with their numbers.
    free: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        server: &'a SimulatedServer,
        asked: &'a [Asked],
        limits: Limits,
        pace: Pace,
    ) -> Self {
        Self {
            server,
            asked,
            flights: vec![None; asked.len()],
            limits,
            pace,
            hang_after: None,
            max_in_flight: None,
            now: 0,
            line: VecDeque::new(),
            admitted: VecDeque::new(),
            decoding: Vec::new(),
            step: None,
            endings: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            next_limit: u64::MAX,
            last_sign: 0,
            answered: 0,
            cache: Cache::new(server.prefix_cache_tokens),
            free: BinaryHeap::new(),
        }
    }

    /// Sends the requests of a range and advances time until all have ended.
    ///
    /// # Errors
    /// If the user stops the cell or its time limit passes.
    pub(super) fn phase(
        &mut self,
        requests: std::ops::Range<usize>,
        senders: &Senders<'_>,
        control: &Control,
    ) -> Result<Over, Failure> {
        let began = self.now;
        self.answered = 0;
        self.free.clear();
        let mut next = requests.start;
        if let Senders::Closed { clients, .. } = senders {
            let clients = (*clients).min(u32::try_from(requests.len()).unwrap_or(u32::MAX));
            self.free.extend((0..clients).map(|c| Reverse((began, c))));
        }
        let mut events = 0_u64;
        loop {
            let arrival = match senders {
                _ if next >= requests.end => None,
                Senders::Closed { .. } => self.free.peek().map(|Reverse((at, _))| *at),
                // The end of a request makes room for one that waits.
                Senders::Open(_) if self.is_full() => None,
                Senders::Open(offsets) => {
                    Some((began + offsets[next - requests.start]).max(self.now))
                }
            };
            let busy = !self.in_flight.is_empty();
            let limit = if busy { Some(self.next_limit) } else { None };
            let step = self.step.map(|(at, _)| at);
            let ending = self.endings.first().map(|(at, _)| *at);
            let Some(at) = [arrival, limit, step, ending].into_iter().flatten().min() else {
                return Ok(Over::Done);
            };
            let silent_until = self.last_sign.saturating_add(self.limits.heartbeat);
            if self.limits.heartbeat > 0 && busy && at > silent_until {
                self.give_up(silent_until);
                return Ok(Over::Hung);
            }
            events += 1;
            if events.is_multiple_of(1 << 14) {
                control.check()?;
                let done = self.flights[requests.clone()]
                    .iter()
                    .flatten()
                    .filter(|f| f.end.is_some());
                control.progress(done.count() as u64, Some(requests.len() as u64), "requests");
            }
            self.now = at;
            if step == Some(at) {
                self.end_step(senders);
            }
            while let Some((due, request)) =
                self.endings.first().copied().filter(|(due, _)| *due <= at)
            {
                self.endings.remove(&(due, request));
                let (status, why) = match &self.asked[request].fault {
                    Some(Fault::Http(code, why)) => (
                        RequestStatus::HttpError,
                        Some(format!("HTTP {code}: {why}")),
                    ),
                    _ => (RequestStatus::Ok, None),
                };
                self.end(request, status, why, senders);
            }
            if self.next_limit <= at {
                self.pass_limits(senders);
            }
            loop {
                let (client, due) = match senders {
                    _ if next >= requests.end => break,
                    Senders::Closed { .. } => match self.free.peek() {
                        Some(Reverse((due, client))) if *due <= at => {
                            let (due, client) = (*due, *client);
                            self.free.pop();
                            (Some(client), due)
                        }
                        _ => break,
                    },
                    Senders::Open(offsets) => match began + offsets[next - requests.start] {
                        due if due <= at && !self.is_full() => (None, due),
                        _ => break,
                    },
                };
                self.send(next, client, due);
                next += 1;
            }
            self.begin_step();
        }
    }

    fn flight(&mut self, request: usize) -> &mut Flight {
        self.flights[request]
            .as_mut()
            .expect("a request in progress was sent")
    }

    /// Returns whether as many requests are in flight as there may be.
    fn is_full(&self) -> bool {
        self.max_in_flight
            .is_some_and(|most| self.in_flight.len() >= most as usize)
    }

    fn send(&mut self, request: usize, client: Option<u32>, due: u64) {
        let (sent, in_flight) = (self.now, self.in_flight.len());
        self.flights[request] = Some(Flight {
            client,
            due,
            sent,
            in_flight,
            last: sent,
            ..Flight::default()
        });
        self.in_flight.insert(request);
        self.last_sign = sent;
        let given_up = self.asked[request].given_up.unwrap_or(u64::MAX);
        let first = self.limits.first_token.min(self.limits.total).min(given_up);
        self.next_limit = self.next_limit.min(sent.saturating_add(first));
        if self.is_silent() {
            return;
        }
        if let Some(Fault::Http(..)) = self.asked[request].fault {
            self.endings.insert((sent + ERROR_NS, request));
        } else {
            self.line.push_back(request);
        }
    }

    fn is_silent(&self) -> bool {
        self.hang_after.is_some_and(|after| self.answered >= after)
    }

    fn begin_step(&mut self) {
        if self.step.is_some() || self.is_silent() {
            return;
        }
        while self.decoding.len() + self.admitted.len() < self.server.slots as usize {
            let Some(request) = self.line.pop_front() else {
                break;
            };
            self.admitted.push_back(request);
        }
        let now = self.now;
        if let Some(request) = self.admitted.front().copied() {
            let asked = &self.asked[request];
            let cacheable =
                |text: &'a AskedText| text.cacheable.as_ref().map(|own| (own, text.tokens));
            let in_cache = asked.texts.iter().filter_map(cacheable);
            let cached = in_cache
                .map(|(own, tokens)| self.cache.share(own, tokens))
                .sum();
            let left = asked.prompt_tokens() - cached;
            // The server takes as many texts of a batch at once as it has slots.
            let passes = asked
                .texts
                .len()
                .div_ceil(self.server.slots.max(1) as usize) as u64;
            let cost = &self.server.prefill;
            let declared = (cost.fixed.nanoseconds().saturating_mul(passes))
                .saturating_add(cost.per_token.nanoseconds().saturating_mul(left));
            for (own, tokens) in asked.texts.iter().filter_map(cacheable) {
                self.cache.keep(own, tokens);
            }
            let takes = self.pace.stretch(declared, now);
            let flight = self.flight(request);
            (flight.cached, flight.prefill_from) = (cached, now);
            self.step = Some((now.saturating_add(takes), Step::Prefill(request)));
        } else if !self.decoding.is_empty() {
            let cost = &self.server.decode;
            let more = self.decoding.len() as u64 - 1;
            let declared =
                cost.fixed.nanoseconds() + cost.per_sequence.nanoseconds().saturating_mul(more);
            let takes = self.pace.stretch(declared, now).max(1);
            self.step = Some((now.saturating_add(takes), Step::Decode));
        }
    }

    fn end_step(&mut self, senders: &Senders<'_>) {
        let Some((_, step)) = self.step.take() else {
            return;
        };
        match step {
            Step::Prefill(request) => {
                // It may have reached a time limit meanwhile.
                if self.admitted.front() == Some(&request) {
                    self.admitted.pop_front();
                    let asked = &self.asked[request];
                    if asked.fault == Some(Fault::NoTokens) || !asked.generates {
                        self.end(request, RequestStatus::Ok, None, senders);
                    } else {
                        self.decoding.push(request);
                        self.token(request, senders);
                    }
                }
            }
            Step::Decode => {
                for request in self.decoding.clone() {
                    self.token(request, senders);
                }
            }
        }
    }

    fn token(&mut self, request: usize, senders: &Senders<'_>) {
        if self.is_silent() {
            return;
        }
        let (now, step) = (self.now, self.server.tokens_per_chunk);
        let wanted = self.asked[request].output_tokens;
        let flight = self.flight(request);
        flight.tokens += 1;
        flight.pending += 1;
        let first = flight.first.is_none();
        let last = flight.tokens >= wanted;
        if first || last || flight.pending >= step {
            flight.first.get_or_insert(now);
            flight.last = now;
            let tokens = std::mem::take(&mut flight.pending);
            flight.chunks.push((now, tokens));
            self.last_sign = now;
            self.next_limit = self
                .next_limit
                .min(now.saturating_add(self.limits.inter_token));
        }
        if last {
            self.decoding.retain(|r| *r != request);
            self.end(request, RequestStatus::Ok, None, senders);
        }
    }

    fn end(
        &mut self,
        request: usize,
        status: RequestStatus,
        why: Option<String>,
        senders: &Senders<'_>,
    ) {
        let now = self.now;
        self.in_flight.remove(&request);
        let flight = self.flight(request);
        flight.end = Some((now, status, why));
        let client = flight.client;
        self.answered += u64::from(status == RequestStatus::Ok);
        let by_sender = matches!(status, RequestStatus::Timeout | RequestStatus::Cancelled);
        self.last_sign = if by_sender { self.last_sign } else { now };
        if let (Senders::Closed { think_ns, .. }, Some(client)) = (senders, client) {
            self.free
                .push(Reverse((now.saturating_add(*think_ns), client)));
        }
    }

    /// Ends the requests whose time limits have passed, and finds the next limit.
    fn pass_limits(&mut self, senders: &Senders<'_>) {
        self.next_limit = u64::MAX;
        for request in self.in_flight.clone() {
            let limits = self.limits;
            let now = self.now;
            let flight = self.flight(request);
            let (waits, which) = match flight.first {
                None => (
                    flight.sent.saturating_add(limits.first_token),
                    "first-token",
                ),
                Some(_) => (
                    flight.last.saturating_add(limits.inter_token),
                    "inter-token",
                ),
            };
            let total = flight.sent.saturating_add(limits.total);
            let (due, which) = if total < waits {
                (total, "total")
            } else {
                (waits, which)
            };
            let after = self.asked[request].given_up;
            let given_up = after.map(|after| self.flight(request).sent.saturating_add(after));
            let (due, end) = match (given_up, after) {
                (Some(at), Some(after)) if at < due => {
                    let after = std::time::Duration::from_nanos(after);
                    let why = format!("given up by its sender after {after:?}");
                    (at, (RequestStatus::Cancelled, why))
                }
                _ => (due, (RequestStatus::Timeout, format!("{which} timeout"))),
            };
            if due > now {
                self.next_limit = self.next_limit.min(due);
                continue;
            }
            self.line.retain(|r| *r != request);
            self.admitted.retain(|r| *r != request);
            self.decoding.retain(|r| *r != request);
            self.endings.retain(|(_, r)| *r != request);
            self.end(request, end.0, Some(end.1), senders);
        }
    }

    /// Ends the cell as hung, and gives up everything in flight.
    fn give_up(&mut self, at: u64) {
        self.now = at;
        let why = "no byte on any stream for the heartbeat";
        for request in std::mem::take(&mut self.in_flight) {
            self.flight(request).end = Some((at, RequestStatus::Hung, Some(why.to_owned())));
        }
    }
}
