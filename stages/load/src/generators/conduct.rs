//! The coordinator of a load with several generators. It starts them at the same time, watches them, and takes their
//! rows.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::{Chunk, Phase, Request};
use pipeline::stage::{Control, Rates};

use super::Lost;
use super::assignment::Share;
use super::clocks::{Ahead, EXCHANGES};
use super::crew::{Crew, Heard, Member, Stage};
use super::deal::Deal;
use super::in_flight::Flights;
use super::intake::{Expected, Intake};
use super::messages::{Account, Order, Word};
use crate::drive::{Companions, Driven, Notes, Start};
use crate::measure::{Epoch, Measured, Plan, Stop, instant_and_monotonic};
use crate::ordered::Rows;
use crate::run::{Ending, LoadError, LoadSpec, Target};
use crate::telemetry::{Power, while_sampling};
use crate::watching::is_hung;

/// The longest time between two checks whether the run must end.
const LOOK: Duration = Duration::from_millis(50);

/// The time between the last report of warmth and the start of the measured phase, ns. It gives each generator time to
/// learn the start.
const LEAD_NS: u64 = 50_000_000;

/// The time between two reports of figures.
const TELL: Duration = Duration::from_millis(500);

/// The time by which a stamp may be later than the moment at which its row arrives, ns. Clocks of two hosts drift apart by far less
/// during a load.
const CLOCK_SLACK_NS: u64 = 10_000_000_000;

/// The longest text of a generator that becomes part of a message, in characters.
const LONGEST_TEXT: usize = 2_000;

/// Sends a load with several generators; `take` gets the rows of each attempt. The rows of one generator come in the order of
/// requests.
///
/// # Errors
/// If a generator cannot be started or is lost before the first request, or if `take` fails.
pub(crate) fn conduct(
    spec: &LoadSpec,
    target: &Target,
    control: &Control,
    scratch: &Path,
    plan: &Arc<Plan>,
    companions: impl FnOnce(&Start) -> Companions,
    take: &mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
) -> Result<Driven, LoadError> {
    let generators = spec.generators.count;
    let deal = Deal::new(generators, &spec.arrival, &spec.prompts);
    let share = |generator| {
        let which = (generator, generators);
        let is_here = spec.generators.host(generator as usize).is_none();
        Share::of(spec, target, plan, &deal, which, is_here.then_some(scratch))
    };
    let shares = (0..generators).map(share).collect::<Result<Vec<_>, _>>()?;
    let mut conductor = Conductor {
        crew: Crew::start(&spec.generators, shares)?,
        spec,
        target,
        control,
        take,
        dealt: deal.counts(spec.prompts.count(Phase::Warmup) + spec.prompts.count(Phase::Measured)),
        intakes: (0..generators).map(|_| Intake::default()).collect(),
        deal,
        began: None,
        clock: None,
        hung_below: None,
        flights: Flights::default(),
        ending: Ending::Complete,
        warnings: Vec::new(),
        failed: None,
        reported_at: None,
    };
    conductor.until(Stage::Prepared);
    if let Ending::Lost(lost) = conductor.ending {
        return Err(LoadError::new(lost.to_string()));
    }
    let before = conductor.compare_clocks();
    if let Ending::Lost(lost) = conductor.ending {
        return Err(LoadError::new(lost.to_string()));
    }
    let epoch = Epoch::start();
    let start = Start::now(epoch, &plan.servers);
    let mut notes = Notes::default();
    let mut measured_from_ns = 0;
    let mut samples = Vec::new();
    let mut after = before.clone();
    if conductor.ending == Ending::Complete {
        let mut companions = companions(&start);
        let present = notes.begin(&mut companions, epoch);
        (conductor.clock, conductor.hung_below) = (Some(epoch), companions.hung_below);
        conductor.began = Some(epoch);
        let sampled = while_sampling(present, companions.interval, epoch, |halt| {
            measured_from_ns = conductor.send(epoch, &before);
            halt.ring();
            conductor.finish()
        });
        (after, samples) = sampled;
    }
    let Conductor {
        crew,
        flights,
        ending,
        warnings,
        failed,
        ..
    } = conductor;
    if let Some(error) = failed {
        let message = format!("cannot store the rows: {error}");
        return Err(LoadError::caused(message, &error));
    }
    let accounts = crew.members.iter().map(|member| member.account.clone());
    let accounts: Vec<Option<Account>> = accounts.collect();
    drop(crew);
    notes.warnings.extend(warnings);
    let clocks = before.iter().zip(after);
    let clocks = clocks.map(|(before, after)| Some(before.as_ref()?.bound_until(after?)));
    let clocks = clocks.collect();
    let driven = driven(
        spec,
        target,
        (start, epoch, measured_from_ns),
        (ending, accounts, flights),
        notes,
        samples,
    );
    Ok(Driven {
        clock_bounds_ns: clocks,
        ..driven
    })
}

/// Combines the results of the generators.
fn driven(
    spec: &LoadSpec,
    target: &Target,
    (start, epoch, measured_from_ns): (Start, Epoch, u64),
    (ending, accounts, flights): (Ending, Vec<Option<Account>>, Flights),
    mut notes: Notes,
    samples: Vec<crate::telemetry::Sampled>,
) -> Driven {
    let reported = || accounts.iter().flatten();
    let measured: Vec<&Measured> = reported().map(|account| &account.measured).collect();
    notes.late(&measured);
    notes.short(spec, &measured);
    let mut said: Vec<&String> = reported().flat_map(|account| &account.warnings).collect();
    said.sort();
    said.dedup();
    notes.warnings.extend(said.into_iter().cloned());
    let tables = notes.sampled(samples);
    notes.inexact(spec, target);
    let planned = match spec.extent.duration {
        Some(_) => reported().map(|account| account.expected_requests).sum(),
        None => spec.prompts.count(Phase::Measured) as u64,
    };
    Driven {
        ending,
        measured_from_ns,
        health: accounts
            .iter()
            .map(|account| Some(account.as_ref()?.measured.health.clone()))
            .collect(),
        clock_bounds_ns: Vec::new(),
        in_flight: Some(flights.count()),
        started: start.started,
        started_monotonic_ns: i64::try_from(epoch.monotonic_ns()).unwrap_or(i64::MAX),
        connections: reported().map(|account| account.connections).sum(),
        tables,
        observations: notes.observations,
        warnings: notes.warnings,
        expected_requests: planned,
        unsent_requests: measured.iter().map(|one| one.unsent).sum(),
    }
}

/// The coordinator while generators run.
struct Conductor<'a> {
    crew: Crew,
    spec: &'a LoadSpec,
    target: &'a Target,
    control: &'a Control,
    take: &'a mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
    deal: Deal,
    /// The number of requests that each generator got.
    dealt: Vec<u64>,
    /// The rows received from each generator.
    intakes: Vec<Intake>,
    /// The cell's clock, once it has begun.
    began: Option<Epoch>,
    /// The cell's clock, while requests are in flight.
    clock: Option<Epoch>,
    hung_below: Option<(Arc<Power>, f64)>,
    flights: Flights,
    /// The load's ending. Unless it is [`Ending::Complete`], all generators were stopped.
    ending: Ending,
    warnings: Vec<String>,
    failed: Option<io::Error>,
    reported_at: Option<Instant>,
}

impl Conductor<'_> {
    /// Lets the generators send; returns the start of the measured phase.
    fn send(&mut self, epoch: Epoch, clocks: &[Option<Ahead>]) -> u64 {
        for (member, ahead) in self.crew.members.iter().zip(clocks) {
            let here_ns = epoch.monotonic_ns();
            let began_ns = ahead.map_or(here_ns, |ahead| ahead.on_other_clock(here_ns));
            member.tell(Order::Begin(began_ns));
        }
        self.until(Stage::Warm);
        let at_ns = epoch.now().saturating_add(LEAD_NS);
        if self.ending == Ending::Complete {
            self.crew.tell_all(|| Order::Measure(at_ns));
        }
        let sent = |member: &Member| member.stage >= Stage::Sent;
        while !self.crew.members.iter().all(sent) {
            self.step();
        }
        at_ns
    }

    /// Compares the clocks again, and takes the rows.
    fn finish(&mut self) -> Vec<Option<Ahead>> {
        // No request is in flight any more, so the heartbeat no longer applies.
        self.clock = None;
        let clocks = self.compare_clocks();
        self.crew.ask_for_rows();
        while !self.crew.members.iter().all(Member::is_over) {
            self.step();
        }
        clocks
    }

    /// Compares the clock of each generator on another host with the local clock; `None` for local generators and for lost
    /// ones.
    fn compare_clocks(&mut self) -> Vec<Option<Ahead>> {
        (0..self.crew.members.len())
            .map(|place| self.compare_clock(place))
            .collect()
    }

    fn compare_clock(&mut self, place: usize) -> Option<Ahead> {
        let mut best: Option<Ahead> = None;
        for _ in 0..EXCHANGES {
            if !self.crew.members[place].is_elsewhere {
                return None;
            }
            let (_, asked_ns) = instant_and_monotonic();
            self.crew.members[place].clock = None;
            self.crew.members[place].tell(Order::Clock);
            let (there_ns, heard_ns) = loop {
                let member = &self.crew.members[place];
                if member.is_over() {
                    return best;
                }
                if let Some(said) = member.clock {
                    break said;
                }
                self.step();
            };
            let ahead = Ahead::of(asked_ns, there_ns, heard_ns);
            best = Some(best.map_or(ahead, |best| best.better(ahead)));
        }
        best
    }

    /// Continues until every generator has reached a stage, or the load must stop.
    fn until(&mut self, stage: Stage) {
        let there = |member: &Member| member.stage >= stage;
        while self.ending == Ending::Complete && !self.crew.members.iter().all(there) {
            self.step();
        }
    }

    fn step(&mut self) {
        match self.crew.next(LOOK) {
            Some((place, Heard::Word(word))) => self.hear(place, word),
            Some((place, Heard::Clock(there_ns, heard_ns))) => {
                self.crew.members[place].clock = Some((there_ns, heard_ns));
            }
            Some((place, Heard::End(why))) => self.lose(place, why),
            None => {}
        }
        if self.ending == Ending::Complete {
            self.look();
        }
    }

    fn hear(&mut self, place: usize, word: Word) {
        let member = &mut self.crew.members[place];
        if member.is_over() {
            return;
        }
        if member.stage == Stage::Started {
            if Crew::is_greeting(&word) {
                member.stage = Stage::Greeted;
            } else {
                let other = "is not a generator of this version".to_owned();
                self.lose(place, Some(other));
            }
            return;
        }
        match (word, member.stage) {
            (Word::Greeting(_) | Word::Clock(_), _) => {}
            (Word::Sign(sign), _) => member.sign = sign,
            (Word::Prepared, Stage::Greeted) => member.stage = Stage::Prepared,
            (Word::Warm, Stage::Prepared) if self.began.is_some() => member.stage = Stage::Warm,
            (Word::Figures { done, rates }, _) => {
                member.figures = Some((done, rates));
                self.tell_figures();
            }
            (Word::Refused(mut refusal), _) => {
                refusal.words = shortened(&refusal.words);
                let answered = |member: &Member| member.sign.answered;
                if !self.crew.members.iter().any(answered) {
                    self.end(Ending::Refused(refusal), Stop::Cancelled);
                }
            }
            (Word::Sent { gone }, Stage::Warm) => {
                member.stage = Stage::Sent;
                let servers = self.target.servers.len().max(1);
                if let Some(server) = gone.filter(|server| *server < servers) {
                    self.end(Ending::Gone(server), Stop::Gone);
                }
            }
            (Word::Rows(rows), Stage::Sent) if member.is_asked => self.take(place, rows),
            (Word::Done(account), Stage::Sent) if member.is_asked => self.done(place, *account),
            (Word::Failed(why), _) => {
                self.lose(place, Some(format!("failed: {}", shortened(&why))));
            }
            (
                Word::Prepared | Word::Warm | Word::Sent { .. } | Word::Rows(_) | Word::Done(_),
                _,
            ) => {
                self.lose(place, Some("sent a message out of turn".to_owned()));
            }
        }
    }

    /// Takes rows of a generator, after they were checked.
    fn take(&mut self, place: usize, rows: Vec<Rows>) {
        let now_ns = self.began.map_or(0, Epoch::now);
        let latest_ns = now_ns.saturating_add(CLOCK_SLACK_NS);
        let expected = Expected {
            place,
            generators: self.crew.members.len(),
            deal: &self.deal,
            prompts: &self.spec.prompts,
            latest_ns: i64::try_from(latest_ns).unwrap_or(i64::MAX),
        };
        for rows in rows {
            if let Err(what) = self.intakes[place].take(&rows, &expected) {
                self.lose(place, Some(what));
                return;
            }
            let Rows { request, chunks } = rows;
            self.flights.note(&request);
            if self.failed.is_some() {
                return;
            }
            if let Err(error) = (self.take)(request, chunks) {
                self.failed = Some(error);
            }
        }
    }

    /// Takes the account of a generator whose rows are complete.
    fn done(&mut self, place: usize, account: Account) {
        // After a duration or a stop, requests that were never begun have no rows.
        let all = self.ending == Ending::Complete && self.spec.extent.duration.is_none();
        match self.intakes[place].finish(&account, (self.dealt[place], all)) {
            Ok(()) => {
                let member = &mut self.crew.members[place];
                (member.account, member.stage) = (Some(account), Stage::Over);
            }
            Err(what) => self.lose(place, Some(what)),
        }
    }

    /// Ends a failed generator and the load.
    fn lose(&mut self, place: usize, why: Option<String>) {
        if self.crew.members[place].is_over() {
            return;
        }
        let why = self.crew.bury(place, why);
        let mask = |key: &net::ApiKey| key.mask(&why);
        let why = self
            .target
            .api_key
            .as_ref()
            .map_or_else(|| why.clone(), mask);
        let generator = u32::try_from(place).unwrap_or(u32::MAX);
        self.end(Ending::Lost(Lost { generator, why }), Stop::Cancelled);
    }

    /// Ends the load; the first reason counts.
    fn end(&mut self, ending: Ending, stop: Stop) {
        if self.ending == Ending::Complete {
            self.ending = ending;
            self.crew.tell_all(|| Order::Stop(stop));
        }
    }

    /// Ends the load if it was stopped, or hangs.
    fn look(&mut self) {
        if let Err(failure) = self.control.check() {
            self.end(
                Ending::Stopped(failure.status, failure.reason),
                Stop::Cancelled,
            );
            return;
        }
        let Some(clock) = self.clock else {
            return;
        };
        let heartbeat = self.spec.heartbeat.nanoseconds();
        let members = || self.crew.members.iter().filter(|member| !member.is_over());
        let in_flight: u64 = members()
            .map(|member| u64::from(member.sign.in_flight))
            .sum();
        if heartbeat == 0 || in_flight == 0 || !members().all(Member::is_heard) {
            return;
        }
        let signs = members().map(|member| member.sign.last_sign_ns);
        let last_sign = signs.max().unwrap_or_default();
        if clock.now().saturating_sub(last_sign) <= heartbeat {
            return;
        }
        let (hung, warning) = is_hung(self.hung_below.as_ref(), last_sign);
        self.warnings.extend(warning);
        if hung {
            self.end(Ending::Hung, Stop::Hung);
        }
    }

    /// Reports the progress of all generators, at intervals.
    fn tell_figures(&mut self) {
        if self.reported_at.is_some_and(|at| at.elapsed() < TELL) {
            return;
        }
        self.reported_at = Some(Instant::now());
        let figures: Vec<(u64, Rates)> = self
            .crew
            .members
            .iter()
            .filter_map(|member| member.figures)
            .collect();
        let done = figures
            .iter()
            .fold(0, |all: u64, (done, _)| all.saturating_add(*done));
        let total = self.spec.prompts.count(Phase::Measured) as u64;
        let rates = figures.into_iter().map(|(_, rates)| rates).reduce(together);
        if let Some(rates) = rates {
            let planned_s = self.spec.extent.seconds(&self.spec.arrival, total);
            self.control
                .rates(done, total, Rates { planned_s, ..rates });
        }
    }
}

/// Returns the beginning of a generator's text.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// Combines the rolling figures of two parts of a load. Counts and throughputs are added. The median is the mean of both
/// medians, weighted by their requests, and the 95th percentile is the larger one. This is approximate, because these figures
/// are shown only while the load runs.
fn together(a: Rates, b: Rates) -> Rates {
    let both = |a: Option<f64>, b: Option<f64>, join: fn(f64, f64) -> f64| match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, other) => one.or(other),
    };
    let (of_a, of_b) = (a.looked_into as f64, b.looked_into as f64);
    let median = match (a.ttft_ms_p50, b.ttft_ms_p50) {
        (Some(x), Some(y)) => Some((x * of_a + y * of_b) / (of_a + of_b).max(1.0)),
        (one, other) => one.or(other),
    };
    Rates {
        window_s: a.window_s.max(b.window_s),
        ended: a.ended.saturating_add(b.ended),
        looked_into: a.looked_into.saturating_add(b.looked_into),
        output_throughput: both(a.output_throughput, b.output_throughput, |a, b| a + b),
        ttft_ms_p50: median,
        ttft_ms_p95: both(a.ttft_ms_p95, b.ttft_ms_p95, f64::max),
        errors: a.errors.saturating_add(b.errors),
        in_flight: a.in_flight.saturating_add(b.in_flight),
        elapsed_s: both(a.elapsed_s, b.elapsed_s, f64::max),
        planned_s: both(a.planned_s, b.planned_s, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_generators_add_up_and_their_latencies_do_not() {
        let rates = |looked_into, p50: Option<f64>| Rates {
            window_s: 10.0,
            ended: 100,
            looked_into,
            output_throughput: Some(50.0),
            ttft_ms_p50: p50,
            ttft_ms_p95: p50.map(|ms| ms * 2.0),
            errors: 1,
            in_flight: 4,
            elapsed_s: Some(20.0),
            planned_s: None,
        };
        let all = together(rates(30, Some(10.0)), rates(10, Some(30.0)));
        assert_eq!((all.ended, all.errors, all.in_flight), (200, 2, 8));
        assert_eq!(all.output_throughput, Some(100.0));
        assert_eq!((all.ttft_ms_p50, all.ttft_ms_p95), (Some(15.0), Some(60.0)));
        assert_eq!(
            together(rates(0, None), rates(5, Some(7.0))).ttft_ms_p50,
            Some(7.0)
        );
    }
}
