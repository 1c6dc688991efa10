//! Cancellation, time limit and progress of a cell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lease::Watch;
use super::status::{CellStatus, Failure};
use crate::effect::{Consent, Permit};

/// The progress of a running cell.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// The total number of units, if known.
    pub total: Option<u64>,
    /// The name of the units, for example `requests`, or the current activity.
    pub what: String,
    /// Rolling figures of a load in progress.
    pub rates: Option<Rates>,
    /// Lines that a starting engine wrote to its log since the last report.
    pub log: Vec<String>,
    /// Whether to show it at once, because nothing else happens until something changes.
    pub notice: bool,
}

/// Rolling figures of a load in progress, over the last seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The length of the window, s.
    pub window_s: f64,
    /// The number of requests that ended in the window.
    pub ended: u64,
    /// The number of these requests whose answers were parsed; latencies and tokens come from them.
    pub looked_into: u64,
    /// Requests ended per second × the mean output tokens of the parsed ones, tok/s.
    pub output_throughput: Option<f64>,
    /// The median time from sending to the first token, nearest rank, ms.
    pub ttft_ms_p50: Option<f64>,
    /// The 95th percentile of the same time, ms.
    pub ttft_ms_p95: Option<f64>,
    /// The number of requests without a complete successful answer since the measurement began.
    pub errors: u64,
    /// The number of requests currently in flight.
    pub in_flight: u64,
    /// The time since the first measured request was sent, s.
    pub elapsed_s: Option<f64>,
    /// The time after which no further request is sent, s, if the load ends after a time.
    pub planned_s: Option<f64>,
}

/// A cell's connection to the user: stop requests in, progress out.
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

    /// Sets the watches over resources that the cell uses and may lose.
    #[must_use]
    pub(crate) fn watching(mut self, watches: Vec<Watch>) -> Self {
        self.watches = watches;
        self
    }

    /// Returns a control that stops when this one does and reports no progress.
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

    /// Sets the effects allowed outside of this program; without a permit, all are allowed.
    #[must_use]
    pub(crate) fn permitting(mut self, permit: Option<std::sync::Arc<Permit>>) -> Self {
        self.permit = permit;
        self
    }

    /// Checks whether an effect outside of this program is allowed. A kind calls this immediately before it starts
    /// something, because the definition may have changed since the plan.
    ///
    /// # Errors
    /// If the user has not consented to it.
    pub fn permits(&self, consent: &Consent) -> Result<(), Failure> {
        self.permit
            .as_ref()
            .map_or(Ok(()), |permit| permit.check(consent))
    }

    /// Makes a control for tests: never cancelled, no limit, no listener.
    pub fn quiet() -> Self {
        Self::new(
            std::sync::Arc::new(AtomicBool::new(false)),
            None,
            Box::new(|_| ()),
        )
    }

    /// Returns the time by which the cell must have ended.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the flag that is set when the user asks to stop, for work that cannot call [`check`](Self::check).
    pub fn stop_flag(&self) -> std::sync::Arc<AtomicBool> {
        std::sync::Arc::clone(&self.cancelled)
    }

    /// Checks whether to continue; long work must call this often.
    ///
    /// # Errors
    /// `Interrupted` if the user asked to stop, `Timeout` if the cell exceeded its time limit, or the failure of a
    /// resource that ended while the cell used it.
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

    /// Reports the cell's progress.
    pub fn progress(&self, done: u64, total: Option<u64>, what: impl Into<String>) {
        (self.progress)(Progress {
            done,
            total,
            what: what.into(),
            rates: None,
            log: Vec::new(),
            notice: false,
        });
    }

    /// Reports why the cell waits; it is shown at once.
    pub fn notice(&self, what: impl Into<String>) {
        (self.progress)(Progress {
            done: 0,
            total: None,
            what: what.into(),
            rates: None,
            log: Vec::new(),
            notice: true,
        });
    }

    /// Reports the progress of a load, with its rolling figures. A load that ends after a time has room for any number of
    /// requests, so it has no total.
    pub fn rates(&self, done: u64, total: u64, rates: Rates) {
        (self.progress)(Progress {
            done,
            total: Some(total).filter(|_| rates.planned_s.is_none()),
            what: "requests".to_owned(),
            rates: Some(rates),
            log: Vec::new(),
            notice: false,
        });
    }

    /// Reports what a starting engine wrote to its log.
    pub fn log(&self, what: impl Into<String>, lines: Vec<String>) {
        (self.progress)(Progress {
            done: 1,
            total: Some(3),
            what: what.into(),
            rates: None,
            log: lines,
            notice: false,
        });
    }
}
