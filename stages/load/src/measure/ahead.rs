//! Requests rendered before their turn, in bounded memory.
//!
//! The rendering thread puts them in, and the measuring thread takes all that are ready at once. The two threads meet
//! once in thousands of requests, and neither holds the lock for longer than it takes to swap a pointer or append a
//! few. The limit holds about twenty thousand short requests. A run whose requests all fit is rendered before its clock
//! starts.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The most bytes of rendered requests that wait. As many again may already be taken.
const LIMIT: usize = 8 * 1024 * 1024;

/// The longest time between two checks of the measuring thread for the stop signal.
const LOOK: Duration = Duration::from_millis(200);

/// One unit of dispatch: a single request or a session.
pub(crate) struct Planned {
    /// Its requests, as indices into the plan.
    pub(crate) requests: Range<usize>,
    /// Head and body of the first request.
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Planned {
    /// Omits the bytes, because a head may contain an API key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Planned({:?}, {} bytes)",
            self.requests,
            self.bytes.len()
        )
    }
}

/// A queue of rendered requests in the order of their dispatch.
#[derive(Debug)]
pub(crate) struct Ahead {
    waiting: Mutex<Waiting>,
    /// The requests taken together. Only the measuring thread locks this.
    taken: Mutex<VecDeque<Planned>>,
    /// Signals that the measuring thread took something.
    room: Condvar,
    /// Signals that the rendering thread put something in, or has ended.
    came: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    planned: VecDeque<Planned>,
    bytes: usize,
    /// Whether nothing more will be put in, or taken.
    over: bool,
}

impl Ahead {
    /// Makes an empty queue.
    pub(crate) fn new() -> Self {
        Self::of(LIMIT)
    }

    fn of(limit: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            taken: Mutex::default(),
            room: Condvar::new(),
            came: Notify::new(),
            limit,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether more may be put in without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting().bytes < self.limit
    }

    /// Waits until there is room; returns whether more requests are wanted.
    pub(crate) fn wait_for_room(&self) -> bool {
        let full = |waiting: &mut Waiting| waiting.bytes >= self.limit && !waiting.over;
        let waiting = self
            .room
            .wait_while(self.waiting(), full)
            .unwrap_or_else(PoisonError::into_inner);
        !waiting.over
    }

    /// Puts requests in.
    pub(crate) fn put(&self, planned: Vec<Planned>) {
        let mut waiting = self.waiting();
        waiting.bytes += planned.iter().map(size).sum::<usize>();
        waiting.planned.extend(planned);
        drop(waiting);
        self.came.notify_waiters();
    }

    /// Ends the queue: nothing more will be put in, or nothing more is wanted.
    pub(crate) fn end(&self) {
        self.waiting().over = true;
        self.room.notify_all();
        self.came.notify_waiters();
    }

    /// Returns the next request, if it is rendered.
    pub(super) fn ready(&self) -> Option<Planned> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_empty() {
            let mut waiting = self.waiting();
            waiting.bytes = 0;
            std::mem::swap(&mut *taken, &mut waiting.planned);
            drop(waiting);
            self.room.notify_all();
        }
        taken.pop_front()
    }

    /// Waits for the next rendered request; `None` if no more will come, or the run must stop.
    pub(super) async fn next(&self, stopped: impl Fn() -> bool) -> Option<Planned> {
        loop {
            let mut came = pin!(self.came.notified());
            // From here on, no notification is missed.
            came.as_mut().enable();
            let over = self.waiting().over;
            if let Some(planned) = self.ready() {
                return Some(planned);
            }
            if over || stopped() {
                return None;
            }
            // The loop checks for both, a timeout and a new request.
            let _either = tokio::time::timeout(LOOK, came).await;
        }
    }
}

/// Returns the size of a request in memory, bytes.
fn size(planned: &Planned) -> usize {
    size_of::<Planned>() + planned.bytes.capacity()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(i: usize) -> Planned {
        Planned {
            requests: i..i + 1,
            bytes: vec![0; 1000],
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn requests_come_in_order_and_what_waits_stays_within_the_limit() {
        let ahead = Ahead::of(20_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..2000 {
                    assert!(ahead.wait_for_room());
                    ahead.put(vec![planned(i)]);
                    assert!(ahead.waiting().bytes < 20_000 + size(&planned(0)));
                }
                ahead.end();
            });
            for i in 0..2000 {
                assert_eq!(block_on(ahead.next(|| false)).unwrap().requests, i..i + 1);
            }
            assert!(block_on(ahead.next(|| false)).is_none());
        });
    }

    #[test]
    fn a_writer_that_waits_for_room_learns_that_nothing_more_is_wanted() {
        let ahead = Ahead::of(1);
        ahead.put(vec![planned(0)]);
        assert!(!ahead.has_room());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ahead.wait_for_room());
            ahead.end();
            assert!(!waiting.join().unwrap());
        });
    }

    #[test]
    fn who_waits_for_a_request_ends_when_all_is_to_stop() {
        assert!(block_on(Ahead::new().next(|| true)).is_none());
    }
}
