//! The state that the measuring thread shares with its watcher: why everything stops, and the bytes of answers so far.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::Epoch;

/// The most bytes of answers in progress on all connections together.
const MOST_AT_ONCE: usize = 512 * 1024 * 1024;

/// The most bytes of answers in a cell. Its rows and chunks are kept until its end.
const MOST_IN_A_CELL: usize = 16 * 1024 * 1024 * 1024;

/// Why everything stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stop {
    /// The user or the cell's time limit.
    Cancelled,
    /// No stream carried a byte for the length of the heartbeat.
    Hung,
    /// The server no longer takes connections.
    Gone,
}

/// The state shared by the measuring thread and its watcher: only numbers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) epoch: Epoch,
    stop: AtomicU8,
    pub(crate) in_flight: AtomicU32,
    /// When a byte of any answer last arrived, a request was sent, or one was still within its time for the first byte of
    /// a body: the heartbeat counts from here.
    pub(crate) last_sign: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// The index of the server that no longer takes connections.
    gone: AtomicUsize,
    /// Bytes of unfinished answers.
    reading: AtomicUsize,
    /// Bytes of all answers of the cell.
    taken: AtomicUsize,
    /// These bytes when a request last spent its whole time for the first byte of its body without any of them.
    silent_at: AtomicUsize,
    /// The most that these may be.
    most_taken: usize,
    /// Whether a request was answered; who watches says so.
    pub(crate) answered: AtomicBool,
}

/// Counts the bytes of one answer while it is read.
pub(super) struct Reading<'s> {
    shared: &'s Shared,
    bytes: usize,
}

impl<'s> Reading<'s> {
    /// Starts to count an answer.
    pub(super) fn of(shared: &'s Shared) -> Self {
        Self { shared, bytes: 0 }
    }

    /// Counts further bytes.
    ///
    /// # Errors
    /// A sentence if they exceed the limit for answers in progress, or for a cell.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.shared.reading.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_AT_ONCE {
            return Err(format!(
                "the answers that are read at once are longer than {MOST_AT_ONCE} bytes together"
            ));
        }
        let most = self.shared.most_taken;
        if self.shared.taken.fetch_add(bytes, Ordering::Relaxed) + bytes > most {
            return Err(format!(
                "the answers of this cell are longer than {most} bytes together"
            ));
        }
        Ok(())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Shared {
    /// Starts a cell's clock and counters.
    pub(crate) fn start() -> Self {
        Self::on(Epoch::start(), 1)
    }

    /// Takes a cell's clock, and starts the counters of one generator. Each of `generators` has an equal part of a
    /// cell's limits.
    pub(crate) fn on(epoch: Epoch, generators: u32) -> Self {
        Self {
            epoch,
            stop: AtomicU8::new(0),
            in_flight: AtomicU32::new(0),
            last_sign: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            gone: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            silent_at: AtomicUsize::new(usize::MAX),
            most_taken: MOST_IN_A_CELL / generators.max(1) as usize,
            answered: AtomicBool::new(false),
        }
    }

    /// Returns the bytes of all answers so far.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Records that a request may still wait for the first byte of its body. That is a sign of life, unless an earlier
    /// request has waited like this in vain and no byte arrived since: a server that is hung would otherwise use up that
    /// limit with every request.
    pub(super) fn note_waiting(&self, now: u64) {
        if self.taken() != self.silent_at.load(Ordering::Relaxed) {
            self.last_sign.store(now, Ordering::Relaxed);
        }
    }

    /// Records that the first byte of a body is late; `taken` are the bytes of all answers when its request was sent.
    pub(super) fn note_first_token_late(&self, taken: usize) {
        if self.taken() == taken {
            self.silent_at.store(taken, Ordering::Relaxed);
        }
    }

    /// Stops everything; the first reason stays.
    pub(crate) fn stop(&self, reason: Stop) {
        let code = match reason {
            Stop::Cancelled => 1,
            Stop::Hung => 2,
            Stop::Gone => 3,
        };
        let _already = self
            .stop
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stops everything because a server no longer takes connections.
    pub(crate) fn stop_without(&self, server: usize) {
        if self.stopped().is_none() {
            self.gone.store(server, Ordering::Relaxed);
        }
        self.stop(Stop::Gone);
    }

    /// Returns the index of the server that is gone, if that was the reason to stop.
    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Ordering::Relaxed)
    }

    /// Returns why everything must stop, if it must.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        match self.stop.load(Ordering::Relaxed) {
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::Hung),
            3 => Some(Stop::Gone),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_at_once_and_over_a_whole_cell() {
        let shared = Shared::start();
        // One after the other: never too much at once, but too much in total.
        for _ in 0..MOST_IN_A_CELL / MOST_AT_ONCE {
            let mut reading = Reading::of(&shared);
            assert_eq!(reading.add(MOST_AT_ONCE), Ok(()));
        }
        let mut last = Reading::of(&shared);
        assert!(last.add(1).unwrap_err().contains("of this cell"));

        let shared = Shared::start();
        let mut one = Reading::of(&shared);
        assert_eq!(one.add(MOST_AT_ONCE), Ok(()));
        let mut other = Reading::of(&shared);
        assert!(other.add(1).unwrap_err().contains("at once"));
        drop((one, other));
        let mut next = Reading::of(&shared);
        assert_eq!(next.add(1), Ok(()), "what has ended does not count");
    }
}
