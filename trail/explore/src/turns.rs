//! Turns of the questions that may be long. One is answered at a time, so a thread stays free for all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of long questions that wait for their turn.
pub(crate) const WAITING: usize = 8;

/// Gives turns, in the order in which they were asked for.
#[derive(Debug)]
pub(crate) struct Turns {
    /// A permit for each question that is answered or waits.
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

/// A turn, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(1 + WAITING)),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for a turn; `None` if too many wait already.
    pub(crate) async fn take(&self) -> Option<Turn> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        Some(Turn {
            _turn: turn,
            _place: place,
        })
    }

    /// Returns the number of questions that wait while another one is answered.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        WAITING.saturating_sub(self.places.available_permits())
    }
}

/// Raises a flag when dropped, so that nobody works for a client that has left.
#[derive(Debug, Default)]
pub(crate) struct Client {
    left: Arc<AtomicBool>,
}

impl Client {
    /// Returns the flag.
    pub(crate) fn left(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.left)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Relaxed);
    }
}
