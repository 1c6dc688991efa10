//! The thread that takes answers apart, makes rows of them, and watches over the run.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use artifacts::counted;
use contract::{Chunk, Phase, Request};
use pipeline::stage::{Control, Rates};

use crate::answered::Answered;
use crate::interpret::{Interpreted, interpret};
use crate::measure::{AnswerReceiver, Attempt, End, Ended, Shared, Stop, Turn};
use crate::prompts::FileCounter;
use crate::refused::{Refusal, Refusals};
use crate::render::Renderer;
use crate::rolling::{Look, Rolling};
use crate::run::{Ending, LoadSpec, Target};
use crate::session_history::SessionHistory;
use crate::structured::Validator;
use crate::telemetry::Power;

/// Answers are parsed after the run, so that parsing takes no processor time from the client or from a server on the
/// same machine. Above this many bytes the oldest are parsed in a lull, because answers that end trigger further
/// requests.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Above this many bytes, which a load without lulls reaches, each new answer causes the oldest to be parsed.
const MOST_WAITING_BYTES: usize = 3 * WAITING_BYTES;

/// The time without a finished answer after which a lull begins.
const LULL: Duration = Duration::from_millis(2);

/// The number of answers parsed in a lull before the next check whether it is over.
const IN_A_LULL: usize = 16;

/// The longest time between two checks whether the run must end.
const LOOK: Duration = Duration::from_millis(50);

/// What becomes of a run whose server refuses every request.
pub(crate) enum Refused<'a> {
    /// It ends.
    EndsTheRun,
    /// Code that sees all generators decides.
    IsTold(&'a dyn Fn(Refusal)),
}

/// The thread that parses answers and watches the run.
pub(crate) struct Watching<'a> {
    spec: &'a LoadSpec,
    target: &'a Target,
    control: &'a Control,
    shared: &'a Shared,
    renderer: &'a Renderer<'a>,
    /// The schema that structured answers must match.
    schema: Option<&'a Validator>,
    /// Counts the tokens of answers without a token count.
    counter: Option<&'a FileCounter>,
    /// The conversations of the sessions in progress.
    history: SessionHistory,
    hung_below: Option<(Arc<Power>, f64)>,
    take: &'a mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
    refusals: Refusals,
    refused: Refused<'a>,
    rolling: Rolling,
    answered: Answered,
    unopened: Unopened,
    pub(crate) ending: Ending,
    pub(crate) warnings: Vec<String>,
    pub(crate) failed: Option<io::Error>,
}

/// The requests for which this client could open no connection.
#[derive(Default)]
struct Unopened {
    count: u64,
    first: Option<String>,
}

impl Unopened {
    fn add(&mut self, end: &End) {
        if let End::NoConnection(error) = end {
            self.count += 1;
            self.first.get_or_insert_with(|| error.clone());
        }
    }

    fn warning(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(format!(
            "{} failed because this client could not open a connection ({first}), which says nothing about the server: raise the \
             limit on open files (`ulimit -n`), or send fewer requests at once",
            counted(self.count, "request")
        ))
    }
}

/// Decides about a server that was silent for the heartbeat: returns whether the run is hung, with a warning if one is
/// due. With a power limit, a silent server that still computes is not hung.
pub(crate) fn is_hung(
    hung_below: Option<&(Arc<Power>, f64)>,
    last_sign: u64,
) -> (bool, Option<String>) {
    let Some((power, limit)) = hung_below else {
        return (true, None);
    };
    match power.since(i64::try_from(last_sign).unwrap_or(i64::MAX)) {
        // It is silent but computes.
        Some(watts) if watts >= *limit => (false, None),
        Some(watts) => (
            true,
            Some(format!(
                "no byte arrived on any stream, and the busiest GPU drew {watts:.1} W on average during this time, \
                 below {limit} W"
            )),
        ),
        None => (
            true,
            Some("GPU power could not be read, so silence alone decided".to_owned()),
        ),
    }
}

impl<'a> Watching<'a> {
    pub(crate) fn new(
        (spec, target, control): (&'a LoadSpec, &'a Target, &'a Control),
        shared: &'a Shared,
        renderer: &'a Renderer<'a>,
        (schema, counter): (Option<&'a Validator>, Option<&'a FileCounter>),
        hung_below: Option<(Arc<Power>, f64)>,
        refused: Refused<'a>,
        take: &'a mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
    ) -> Self {
        Self {
            spec,
            target,
            control,
            shared,
            renderer,
            schema,
            counter,
            history: SessionHistory::default(),
            hung_below,
            take,
            refusals: Refusals::default(),
            refused,
            rolling: Rolling::default(),
            answered: Answered::default(),
            unopened: Unopened::default(),
            ending: Ending::Complete,
            warnings: Vec::new(),
            failed: None,
        }
    }

    /// Returns when every attempt has ended and is parsed.
    pub(crate) fn until_done(&mut self, receiver: &AnswerReceiver) {
        let prompts = &self.spec.prompts;
        let (warmup, total) = (
            prompts.count(Phase::Warmup),
            prompts.count(Phase::Measured) as u64,
        );
        let in_sessions = prompts.sessions().is_some();
        let mut done = 0;
        let (mut waiting, mut bytes) = (VecDeque::<Ended>::new(), 0);
        loop {
            match receiver.recv_timeout(if bytes > WAITING_BYTES { LULL } else { LOOK }) {
                Ok(ended) => {
                    let attempt = &ended.attempt;
                    let measured = attempt.request >= warmup;
                    if measured && !attempt.superseded {
                        done += 1;
                        self.look_into(attempt);
                        if done == total {
                            self.tell(done, total);
                        }
                    }
                    if measured && in_sessions || self.refusals.is_open() {
                        // The next turn needs this answer, or it may decide about all other requests.
                        self.take_apart(ended);
                    } else {
                        bytes += attempt.size();
                        waiting.push_back(ended);
                    }
                    while bytes > MOST_WAITING_BYTES {
                        self.take_oldest(&mut waiting, &mut bytes);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    for _ in 0..IN_A_LULL {
                        if bytes > WAITING_BYTES {
                            self.take_oldest(&mut waiting, &mut bytes);
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.shared.stopped().is_none() {
                self.look();
            }
            if done < total && self.rolling.is_due(self.shared.epoch.now()) {
                self.tell(done, total);
            }
        }
        waiting.into_iter().for_each(|ended| self.take_apart(ended));
        self.warnings.extend(self.answered.doubt());
        self.warnings.extend(self.unopened.warning());
    }

    /// Counts an attempt for the rolling figures, and parses its answer if it was selected.
    fn look_into(&mut self, attempt: &Attempt) {
        let now = self.shared.epoch.now();
        if !self.rolling.ended(attempt, now) {
            return;
        }
        let Ok(prompt) = self.spec.prompts.at(attempt.request) else {
            return;
        };
        let (api, delivery) = (self.target.api, self.spec.delivery);
        let extra = &self.spec.workload.extra;
        let Interpreted { row, .. } =
            interpret(attempt, &prompt, (api, delivery), extra, None, None);
        let spans = row.sent_ns.zip(row.first_token_ns);
        let look = Look {
            ttft_ns: spans.map(|(sent, first)| first - sent),
            output_tokens: row.output_tokens,
        };
        if row.is_ok() {
            self.rolling.looked_into(look, now);
        }
    }

    fn tell(&mut self, done: u64, total: u64) {
        let in_flight = self.shared.in_flight.load(Ordering::Relaxed);
        let rates = self.rolling.rates(self.shared.epoch.now(), in_flight);
        let planned_s = self.spec.extent.seconds(&self.spec.arrival, total);
        self.control
            .rates(done, total, Rates { planned_s, ..rates });
    }

    fn take_oldest(&mut self, waiting: &mut VecDeque<Ended>, bytes: &mut usize) {
        let oldest = waiting
            .pop_front()
            .expect("their bytes are those that are counted");
        *bytes -= oldest.attempt.size();
        self.take_apart(oldest);
    }

    fn take_apart(&mut self, ended: Ended) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = self.rows_of(ended) {
            self.failed = Some(error);
            self.shared.stop(Stop::Cancelled);
        }
    }

    fn rows_of(&mut self, ended: Ended) -> io::Result<()> {
        let Ended { attempt, next } = ended;
        self.unopened.add(&attempt.end);
        let prompt = self.spec.prompts.at(attempt.request)?;
        let Interpreted {
            mut row,
            chunks,
            text,
            form,
            mut model,
        } = interpret(
            &attempt,
            &prompt,
            (self.target.api, self.spec.delivery),
            &self.spec.workload.extra,
            self.schema,
            self.counter,
        );
        if self.target.absent_cached_is_zero && row.is_ok() && row.prompt_tokens.is_some() {
            row.cached_prompt_tokens.get_or_insert(0);
        }
        if let Some(asked) = next {
            let turn = match self.history.after(&prompt, row.status, text) {
                Some(history) => {
                    let next = self.spec.prompts.at(attempt.request + 1)?;
                    Some(Turn {
                        bytes: self.renderer.render(attempt.request + 1, &next, history),
                        think_ns: next.think_ns,
                    })
                }
                None => None,
            };
            // The measuring thread may have stopped in the meantime.
            let _nobody_waits = asked.send(turn);
        } else if prompt.session.is_some() && !row.superseded {
            self.history.end(&prompt);
        }
        if let Some(key) = &self.target.api_key {
            // The texts of a server that are stored or shown. The next turn above repeats what the server answered.
            let texts = row.error.iter_mut().chain(&mut row.finish_reason);
            let texts = texts.chain(&mut model);
            texts.for_each(|text| *text = key.mask(text));
        }
        let refusal = self.refusals.after(&row, form);
        if row.is_ok() {
            self.shared.answered.store(true, Ordering::Relaxed);
            let replaced = self.spec.workload.extra.get("model");
            let requested = replaced.and_then(|model| model.as_str());
            let requested = requested.or(prompt.model.as_deref());
            self.answered
                .add(requested.unwrap_or(&self.target.model), model);
        }
        if let Some(refusal) = refusal.filter(|_| self.shared.stopped().is_none()) {
            match self.refused {
                Refused::EndsTheRun => {
                    self.ending = Ending::Refused(refusal);
                    self.shared.stop(Stop::Cancelled);
                }
                Refused::IsTold(tell) => {
                    tell(refusal);
                    // One report is enough.
                    self.refusals.close();
                }
            }
        }
        (self.take)(row, chunks)
    }

    /// Ends the run if it was stopped, or hangs.
    fn look(&mut self) {
        if let Err(failure) = self.control.check() {
            self.ending = Ending::Stopped(failure.status, failure.reason);
            self.shared.stop(Stop::Cancelled);
            return;
        }
        let heartbeat = self.spec.heartbeat.nanoseconds();
        if heartbeat == 0 || self.shared.in_flight.load(Ordering::Relaxed) == 0 {
            return;
        }
        let last_sign = self.shared.last_sign.load(Ordering::Relaxed);
        if self.shared.epoch.now().saturating_sub(last_sign) <= heartbeat {
            return;
        }
        let (hung, warning) = is_hung(self.hung_below.as_ref(), last_sign);
        self.warnings.extend(warning);
        if hung {
            self.shared.stop(Stop::Hung);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_a_connection_for_lack_of_files_are_the_clients() {
        let mut unopened = Unopened::default();
        unopened.add(&End::Reset("connecting: no route".to_owned()));
        unopened.add(&End::Refused("refused".to_owned()));
        assert_eq!(unopened.warning(), None);
        for _ in 0..2 {
            unopened.add(&End::NoConnection("Too many open files".to_owned()));
        }
        let warning = unopened.warning().unwrap();
        let start = "2 requests failed because this client could not open a connection (Too many open files)";
        assert!(warning.starts_with(start), "{warning}");
    }
}
