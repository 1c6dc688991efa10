//! Who sends what when, apart from sockets and clocks: a client that takes one session after
//! another, and the turns of a session with the time to think between them. A request that
//! stands alone is a session of one turn.

use std::ops::Range;

/// What clients and sessions need of the world. The measuring thread is one; tests have another
/// with a clock of their own.
pub(super) trait World {
    /// Returns whether everything is to stop.
    fn stopped(&self) -> bool;
    /// Returns the next session that nobody has taken yet, as a range of requests.
    fn take(&self) -> Option<Range<usize>>;
    /// Returns how long the user thinks before sending a request, ns.
    fn think_ns(&self, request: usize) -> u64;
    /// Waits until a stamp has passed, or everything is to stop.
    async fn until(&self, at_ns: u64);
    /// Carries out a request. `bytes` are what is sent, if they were not known beforehand;
    /// `goes_on` says that a turn follows, whose bytes are then asked for.
    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Option<Vec<u8>>,
        goes_on: bool,
    ) -> Performed;
    /// Records a request that is not sent because the session cannot go on.
    fn give_up(&self, request: usize, client: Option<u32>, at_ns: u64);
}

/// A request that was carried out.
pub(super) struct Performed {
    pub(super) done_ns: u64,
    /// The bytes of the next turn; `None` if none was asked for, or none can be made.
    pub(super) next: Option<Vec<u8>>,
}

/// Sends one session after another until there is none left: the next is due `between_ns` after
/// the last was done.
pub(super) async fn client<W: World>(world: &W, client: u32, mut scheduled_ns: u64, between_ns: u64) {
    while !world.stopped() {
        let Some(requests) = world.take() else { return };
        let done_ns = session(world, requests, Some(client), scheduled_ns).await;
        scheduled_ns = done_ns.saturating_add(between_ns);
        if between_ns > 0 {
            world.until(scheduled_ns).await;
        }
    }
}

/// Sends the turns of a session: each is due when the one before was done and its user has
/// thought. Returns when the last was done.
pub(super) async fn session<W: World>(
    world: &W,
    requests: Range<usize>,
    client: Option<u32>,
    scheduled_ns: u64,
) -> u64 {
    let (mut due_ns, mut bytes) = (scheduled_ns, None);
    let mut done_ns = scheduled_ns;
    for request in requests.clone() {
        let first = request == requests.start;
        if !first {
            if bytes.is_none() {
                world.give_up(request, client, done_ns);
                continue;
            }
            due_ns = done_ns.saturating_add(world.think_ns(request));
            world.until(due_ns).await;
            if world.stopped() {
                return done_ns;
            }
        }
        let goes_on = request + 1 < requests.end;
        let performed = world.perform(request, client, due_ns, bytes.take(), goes_on).await;
        done_ns = performed.done_ns;
        bytes = performed.next;
    }
    done_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};

    /// A world whose clock moves only when somebody waits.
    #[derive(Default)]
    struct Fake {
        now_ns: Cell<u64>,
        sessions: RefCell<Vec<Range<usize>>>,
        think_ns: Vec<u64>,
        /// How long each request takes.
        service_ns: Vec<u64>,
        /// The request that is not answered.
        fails: Option<usize>,
        /// Request, when it was due, when it was sent.
        log: RefCell<Vec<(usize, u64, u64)>>,
        given_up: RefCell<Vec<(usize, u64)>>,
        stop_after: Option<usize>,
    }

    impl World for Fake {
        fn stopped(&self) -> bool {
            self.stop_after.is_some_and(|n| self.log.borrow().len() >= n)
        }

        fn take(&self) -> Option<Range<usize>> {
            let mut sessions = self.sessions.borrow_mut();
            (!sessions.is_empty()).then(|| sessions.remove(0))
        }

        fn think_ns(&self, request: usize) -> u64 {
            self.think_ns[request]
        }

        async fn until(&self, at_ns: u64) {
            self.now_ns.set(self.now_ns.get().max(at_ns));
        }

        async fn perform(
            &self,
            request: usize,
            _: Option<u32>,
            scheduled_ns: u64,
            bytes: Option<Vec<u8>>,
            goes_on: bool,
        ) -> Performed {
            // Only the first turn of a session is known beforehand.
            let first = self.think_ns[request] == 0;
            assert_eq!(bytes, (!first).then(|| vec![request as u8]));
            self.log.borrow_mut().push((request, scheduled_ns, self.now_ns.get()));
            self.now_ns.set(self.now_ns.get() + self.service_ns[request]);
            let answered = self.fails != Some(request);
            let next = (goes_on && answered).then(|| vec![request as u8 + 1]);
            Performed { done_ns: self.now_ns.get(), next }
        }

        fn give_up(&self, request: usize, _: Option<u32>, at_ns: u64) {
            self.given_up.borrow_mut().push((request, at_ns));
        }
    }

    /// Sessions of so many turns each.
    fn sessions(turns: &[usize]) -> RefCell<Vec<Range<usize>>> {
        let mut from = 0;
        let range = |n: &usize| {
            from += n;
            from - n..from
        };
        RefCell::new(turns.iter().map(range).collect())
    }

    fn run(future: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
    }

    #[test]
    fn a_turn_is_due_when_the_one_before_is_answered_and_thought_over() {
        let world = Fake {
            sessions: sessions(&[3]),
            think_ns: vec![0, 40, 7],
            service_ns: vec![100, 10, 1],
            ..Fake::default()
        };
        run(client(&world, 0, 0, 0));
        assert_eq!(*world.log.borrow(), [(0, 0, 0), (1, 140, 140), (2, 157, 157)]);
    }

    #[test]
    fn a_client_of_a_closed_loop_thinks_between_requests() {
        let world = Fake {
            sessions: sessions(&[1, 1, 1]),
            think_ns: vec![0; 3],
            service_ns: vec![100, 30, 5],
            ..Fake::default()
        };
        run(client(&world, 0, 0, 1000));
        assert_eq!(*world.log.borrow(), [(0, 0, 0), (1, 1100, 1100), (2, 2130, 2130)]);
    }

    #[test]
    fn the_turns_after_one_that_was_not_answered_are_given_up() {
        let world = Fake {
            sessions: sessions(&[4, 1]),
            think_ns: vec![0, 5, 5, 5, 0],
            service_ns: vec![10; 5],
            fails: Some(1),
            ..Fake::default()
        };
        run(client(&world, 0, 0, 0));
        assert_eq!(*world.given_up.borrow(), [(2, 25), (3, 25)]);
        assert_eq!(world.log.borrow().last(), Some(&(4, 25, 25)));
    }

    #[test]
    fn a_session_that_is_stopped_sends_no_further_turn() {
        let world = Fake {
            sessions: sessions(&[3, 1]),
            think_ns: vec![0, 5, 5, 0],
            service_ns: vec![10; 4],
            stop_after: Some(2),
            ..Fake::default()
        };
        run(client(&world, 0, 0, 0));
        assert_eq!(world.log.borrow().len(), 2);
        assert!(world.given_up.borrow().is_empty());
    }

    proptest! {
        #[test]
        fn every_turn_is_due_exactly_one_think_time_after_the_answer_before(
            turns in prop::collection::vec((1_u64..1000, 1_u64..1000), 1..20), start in 0_u64..50,
        ) {
            let mut think_ns: Vec<u64> = turns.iter().map(|(think, _)| *think).collect();
            think_ns[0] = 0;
            let service_ns: Vec<u64> = turns.iter().map(|(_, service)| *service).collect();
            let sessions = sessions(&[turns.len()]);
            let world = Fake { sessions, think_ns, service_ns, now_ns: Cell::new(start), ..Fake::default() };
            run(client(&world, 0, start, 0));
            let mut done = start;
            for (request, due, sent) in world.log.borrow().iter().copied() {
                prop_assert_eq!((due, sent), (done + world.think_ns[request], due));
                done = sent + world.service_ns[request];
            }
        }
    }
}
