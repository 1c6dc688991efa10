//! Cancellation, the time limit and the progress of a cell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lease::Watch;
use super::status::{CellStatus, Failure};
use crate::effect::{Consent, Permit};

/// Progress of a running cell.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, if known.
    pub total: Option<u64>,
    /// What the units are, for instance `requests`; or what is going on.
    pub what: String,
    /// Rolling figures, of a load that goes on.
    pub rates: Option<Rates>,
    /// Lines that the engine wrote to its log since the last time, while it starts.
    pub log: Vec<String>,
}

/// Rolling figures of a load that goes on, over the last seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The time they are over, s.
    pub window_s: f64,
    /// Requests that ended in it.
    pub ended: u64,
    /// Of these, those whose answers were looked into: latencies and tokens are theirs.
    pub looked_into: u64,
    /// Requests ended a second × the mean output tokens of those looked into, tok/s.
    pub output_throughput: Option<f64>,
    /// The median time from sending to the first token, ms; the nearest rank.
    pub ttft_ms_p50: Option<f64>,
    /// The same at 95 %, ms.
    pub ttft_ms_p95: Option<f64>,
    /// Requests that got no whole answer of success since the measurement began.
    pub errors: u64,
    /// Requests in flight now.
    pub in_flight: u64,
}

/// How a cell hears of the user and tells of itself.
pub struct Control {
    cancelled: std::sync::Arc<AtomicBool>,
    deadline: Option<Instant>,
    permit: Option<std::sync::Arc<Permit>>,
    watches: Vec<Watch>,
    progress: Box<dyn Fn(Progress) + Send + Sync>,
}

impl Control {
    /// Makes a control over a shared stop flag, a time limit, and a listener.
    pub fn new(
        cancelled: std::sync::Arc<AtomicBool>,
        timeout: Option<Duration>,
        progress: Box<dyn Fn(Progress) + Send + Sync>,
    ) -> Self {
        Self {
            cancelled,
            deadline: timeout.map(|t| Instant::now() + t),
            permit: None,
            watches: Vec::new(),
            progress,
        }
    }

    /// Sets what the cell uses and may lose.
    #[must_use]
    pub(crate) fn watching(mut self, watches: Vec<Watch>) -> Self {
        self.watches = watches;
        self
    }

    /// Returns a control that stops when this one does and tells nobody how far it has come.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self {
            cancelled: self.cancelled.clone(),
            deadline: self.deadline,
            permit: self.permit.clone(),
            watches: self.watches.clone(),
            progress: Box::new(|_| ()),
        }
    }

    /// Sets what may happen outside of this program; without a permit everything may.
    #[must_use]
    pub(crate) fn permitting(mut self, permit: Option<std::sync::Arc<Permit>>) -> Self {
        self.permit = permit;
        self
    }

    /// Looks whether something may happen outside of this program; a kind asks right before it
    /// starts something, since a plan may be older than what is started.
    ///
    /// # Errors
    /// If nobody consented to it.
    pub fn permits(&self, consent: &Consent) -> Result<(), Failure> {
        self.permit
            .as_ref()
            .map_or(Ok(()), |permit| permit.check(consent))
    }

    /// Makes a control for tests: never cancelled, no limit, nobody listens.
    pub fn quiet() -> Self {
        Self::new(
            std::sync::Arc::new(AtomicBool::new(false)),
            None,
            Box::new(|_| ()),
        )
    }

    /// Returns the moment by which the cell must have ended.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the flag that is raised when the user asks to stop, for work that cannot call
    /// [`check`](Self::check).
    pub fn stop_flag(&self) -> std::sync::Arc<AtomicBool> {
        std::sync::Arc::clone(&self.cancelled)
    }

    /// Tells whether to go on; long work asks often.
    ///
    /// # Errors
    /// `Interrupted` if the user asked to stop, `Timeout` if the cell's time limit passed, or the failure
    /// of a resource that ended while the cell used it.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Failure::new(CellStatus::Interrupted, "stopped by the user"));
        }
        if self.deadline.is_some_and(|d| Instant::now() >= d) {
            return Err(Failure::new(
                CellStatus::Timeout,
                "the cell's time limit passed",
            ));
        }
        self.watches.iter().try_for_each(|watch| watch())
    }

    /// Tells how far the cell has come.
    pub fn progress(&self, done: u64, total: Option<u64>, what: impl Into<String>) {
        (self.progress)(Progress {
            done,
            total,
            what: what.into(),
            rates: None,
            log: Vec::new(),
        });
    }

    /// Tells how far a load has come, with its rolling figures.
    pub fn rates(&self, done: u64, total: u64, rates: Rates) {
        (self.progress)(Progress {
            done,
            total: Some(total),
            what: "requests".to_owned(),
            rates: Some(rates),
            log: Vec::new(),
        });
    }

    /// Tells what an engine that starts wrote to its log.
    pub fn log(&self, what: impl Into<String>, lines: Vec<String>) {
        (self.progress)(Progress {
            done: 1,
            total: Some(3),
            what: what.into(),
            rates: None,
            log: lines,
        });
    }
}
