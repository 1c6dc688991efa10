//! The limits on the cost of a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::sandbox::LENGTH;

/// Limits that end an expensive query. The first four are counts, so they apply at the same place
/// on every machine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most rows of an answer.
    pub rows: usize,
    /// The most bytes of an answer, in memory.
    pub bytes: usize,
    /// The most bytes of one value, which is made in one instruction; at most 64 MiB.
    pub value: usize,
    /// The most instructions of SQLite's virtual machine: about 10⁸ take a second.
    pub instructions: u64,
    /// The deadline of the query.
    pub deadline: Option<Instant>,
    /// A flag that stops the query when raised.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows: 10_000_000,
            bytes: 1 << 30,
            value: LENGTH,
            instructions: 100_000_000_000,
            deadline: None,
            stop: None,
        }
    }
}

impl Limits {
    pub(crate) fn is_over(&self) -> bool {
        self.stop
            .as_ref()
            .is_some_and(|s| s.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}
