//! The connections of a server. If all are taken, the one that has been idle for longest gives its place to a new one.
//! Otherwise, clients that connect and ask nothing would keep everybody else waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// A fixed number of places for connections.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    state: Mutex<State>,
    /// A place became free, or a connection became idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Counts what happens to connections, so that the order does not depend on a clock.
    events: u64,
    taken: BTreeMap<u64, Taken>,
}

/// The state of a taken place.
#[derive(Debug)]
struct Taken {
    /// The event at which its client last did something: connected, sent a whole request, or took some of an answer.
    last: u64,
    /// The number of answers that the server is making for it.
    answering: usize,
    leave: Arc<Notify>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.events += 1;
        self.events
    }
}

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Waits for a place. Takes that of the connection that has been idle for longest if none is free; waits only while
    /// the server is making an answer for every connection.
    pub(crate) async fn take(self: &Arc<Self>) -> Seat {
        loop {
            if let Some(seat) = self.try_take() {
                return seat;
            }
            self.changed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut state = self.state();
        if state.taken.len() >= self.most {
            let idle = state.taken.iter().filter(|(_, taken)| taken.answering == 0);
            let (id, _) = idle.min_by_key(|(_, taken)| taken.last)?;
            let id = *id;
            state.taken.remove(&id)?.leave.notify_one();
        }
        let id = state.next();
        let leave = Arc::new(Notify::new());
        let taken = Taken {
            last: id,
            answering: 0,
            leave: Arc::clone(&leave),
        };
        state.taken.insert(id, taken);
        let seats = Arc::clone(self);
        Some(Seat { id, leave, seats })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        artifacts::lock(&self.state)
    }
}

/// The place of a connection, which becomes free when this value is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    id: u64,
    leave: Arc<Notify>,
    seats: Arc<Seats>,
}

impl Seat {
    /// Waits until another connection has taken the place.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// Notes that the client did something.
    pub(crate) fn moved(&self) {
        let mut state = self.seats.state();
        let now = state.next();
        if let Some(taken) = state.taken.get_mut(&self.id) {
            taken.last = now;
        }
    }

    /// Keeps the place until the returned value is dropped, because the server is making an answer.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        self.moved();
        if let Some(taken) = self.seats.state().taken.get_mut(&self.id) {
            taken.answering += 1;
        }
        Answering(Arc::clone(self))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.state().taken.remove(&self.id);
        self.seats.changed.notify_one();
    }
}

/// An answer that the server is making.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Seat>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.moved();
        let seats = &self.0.seats;
        if let Some(taken) = seats.state().taken.get_mut(&self.0.id) {
            taken.answering = taken.answering.saturating_sub(1);
        }
        seats.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(seat: &Seat) -> bool {
        let mut waiting = std::pin::pin!(seat.leave.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let lost = waiting.as_mut().poll(&mut context).is_ready();
        if lost {
            seat.leave.notify_one();
        }
        lost
    }

    #[test]
    fn the_connection_that_is_idle_for_longest_gives_way() {
        let seats = Seats::new(3);
        let taken: Vec<Seat> = (0..3).map(|_| seats.try_take().unwrap()).collect();
        taken[0].moved();
        let fourth = seats.try_take().unwrap();
        let gone: Vec<bool> = taken.iter().map(lost).collect();
        assert_eq!(gone, [false, true, false]);
        let fifth = seats.try_take().unwrap();
        let gone: Vec<bool> = taken.iter().map(lost).collect();
        assert_eq!(gone, [false, true, true]);
        // A connection that lost its place frees no other one.
        drop(taken);
        assert_eq!(seats.state().taken.len(), 2);
        drop((fourth, fifth));
        assert!(seats.state().taken.is_empty());
    }

    #[test]
    fn a_connection_whose_answer_is_being_made_keeps_its_place() {
        let seats = Seats::new(2);
        let [first, second] = [0, 1].map(|_| Arc::new(seats.try_take().unwrap()));
        let (one, again) = (first.answering(), first.answering());
        let third = seats.try_take().unwrap();
        assert!(!lost(&first) && lost(&second));
        drop(one);
        let fourth = seats.try_take().unwrap();
        assert!(!lost(&first) && lost(&third));
        let _other = Arc::new(fourth).answering();
        assert!(seats.try_take().is_none());
        drop(again);
        assert!(seats.try_take().is_some());
        assert!(lost(&first));
    }

    #[test]
    fn a_connection_waits_until_an_answer_is_made() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            let seats = Seats::new(1);
            let only = Arc::new(seats.take().await);
            let answering = only.answering();
            let next = tokio::spawn({
                let seats = Arc::clone(&seats);
                async move { seats.take().await }
            });
            tokio::task::yield_now().await;
            assert!(!next.is_finished());
            drop(answering);
            let _next = next.await.unwrap();
            only.lost().await;
        });
    }
}
