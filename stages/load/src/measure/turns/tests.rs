//! Exact schedules on a simulated clock.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use pipeline::stage::Coordinates;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::arrival::Arrival;
use crate::random::{Origin, Stream};

/// A sent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    request: usize,
    client: Option<u32>,
    due_ns: u64,
    sent_ns: u64,
}

fn sent(request: usize, client: Option<u32>, due_ns: u64, sent_ns: u64) -> Sent {
    Sent {
        request,
        client,
        due_ns,
        sent_ns,
    }
}

/// A world whose clock moves only when no task can go on.
#[derive(Default)]
struct Fake {
    now_ns: Cell<u64>,
    /// The times that tasks wait for.
    alarms: RefCell<BTreeSet<u64>>,
    /// Free sessions, each with the time when its first request is rendered.
    sessions: RefCell<VecDeque<(Range<usize>, u64)>>,
    think_ns: Vec<u64>,
    /// The duration of each request.
    service_ns: Vec<u64>,
    /// The request without an answer.
    fails: Option<usize>,
    stop_after: Option<usize>,
    /// The time after which nothing is begun.
    ends_ns: Option<u64>,
    log: RefCell<Vec<Sent>>,
    given_up: RefCell<Vec<(usize, u64)>>,
    /// Requests that were due and were not sent.
    left: Cell<usize>,
    /// Turns that were never due.
    not_due: Cell<usize>,
    /// The request that has no place before the time is over.
    without_place: Option<usize>,
}

impl Fake {
    /// Returns a world with sessions of these numbers of turns, all rendered. Requests take no time.
    fn of(turns: &[usize]) -> Self {
        let mut from = 0;
        let range = |n: &usize| {
            from += n;
            (from - n..from, 0)
        };
        let sessions = RefCell::new(turns.iter().map(range).collect());
        Self {
            sessions,
            think_ns: vec![0; from],
            service_ns: vec![0; from],
            ..Self::default()
        }
    }

    fn log(&self) -> Vec<Sent> {
        self.log.borrow().clone()
    }

    /// Returns when each request was due and when it was sent.
    fn times(&self) -> Vec<(usize, u64, u64)> {
        self.log()
            .into_iter()
            .map(|s| (s.request, s.due_ns, s.sent_ns))
            .collect()
    }
}

impl World for Fake {
    fn stopped(&self) -> bool {
        self.stop_after
            .is_some_and(|n| self.log.borrow().len() >= n)
    }

    fn ends_ns(&self) -> u64 {
        self.ends_ns.unwrap_or(u64::MAX)
    }

    async fn take(&self, due_ns: u64) -> Option<Planned> {
        if due_ns >= self.ends_ns() {
            return None;
        }
        let (requests, rendered_ns) = self.sessions.borrow_mut().pop_front()?;
        self.until(rendered_ns).await;
        Some(Planned {
            bytes: vec![requests.start as u8],
            requests,
        })
    }

    async fn until(&self, at_ns: u64) {
        poll_fn(|_| {
            if self.now_ns.get() >= at_ns {
                return Poll::Ready(());
            }
            self.alarms.borrow_mut().insert(at_ns);
            Poll::Pending
        })
        .await;
    }

    async fn until_due(&self, at_ns: u64) -> io::Result<()> {
        self.until(at_ns).await;
        Ok(())
    }

    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Vec<u8>,
        goes_on: bool,
    ) -> Option<Performed> {
        assert_eq!(bytes, [request as u8]);
        if self.without_place == Some(request) {
            return None;
        }
        self.log
            .borrow_mut()
            .push(sent(request, client, scheduled_ns, self.now_ns.get()));
        let done_ns = self.now_ns.get() + self.service_ns[request];
        self.until(done_ns).await;
        let answered = self.fails != Some(request);
        let turn = |next: usize| Turn {
            bytes: vec![next as u8],
            think_ns: self.think_ns[next],
        };
        Some(Performed {
            done_ns,
            next: (goes_on && answered).then(|| turn(request + 1)),
        })
    }

    fn leave(&self) {
        self.left.set(self.left.get() + 1);
    }

    fn not_due(&self, turns: usize) {
        self.not_due.set(self.not_due.get() + turns);
    }

    fn give_up(&self, request: usize, _: Option<u32>, at_ns: u64) {
        self.given_up.borrow_mut().push((request, at_ns));
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs tasks, and those in `more`, until all are done. The clock moves when none can go on.
fn run<'a>(world: &Fake, mut tasks: Vec<Task<'a>>, more: &RefCell<Vec<Task<'a>>>) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let mut fresh = std::mem::take(&mut tasks);
        while !fresh.is_empty() {
            fresh.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            tasks.append(&mut fresh);
            fresh.append(&mut more.borrow_mut());
        }
        if tasks.is_empty() {
            return;
        }
        let next = world.alarms.borrow_mut().pop_first();
        world.now_ns.set(next.expect("who waits has set an alarm"));
    }
}

fn closed_loop(world: &Fake, clients: u32, between_ns: u64) {
    let tasks = (0..clients).map(|c| Box::pin(client(world, c, 0, between_ns)) as Task<'_>);
    run(world, tasks.collect(), &RefCell::default());
}

fn open_loop<'a>(world: &'a Fake, offsets: &'a [u64], from_ns: u64) {
    let flying = Rc::new(RefCell::new(Vec::new()));
    let begun = flying.clone();
    let begin = move |planned, scheduled_ns| {
        let session = async move {
            session(world, planned, None, scheduled_ns).await;
        };
        begun.borrow_mut().push(Box::pin(session) as Task<'_>);
    };
    let dispatcher =
        Box::pin(async move { dispatch(world, offsets, from_ns, begin).await.unwrap() });
    run(world, vec![dispatcher], &flying);
}

fn arrival(settings: &serde_json::Value) -> Arrival {
    serde_json::from_value(settings.clone()).unwrap()
}

fn stream() -> Stream {
    Origin {
        seed: 164,
        replicate: Coordinates::default(),
    }
    .stream("schedule", &json!(null))
}

/// When the measured phase begins.
const FROM: u64 = 1_000_003;

/// Returns when requests with these arrivals are sent, ns after the start of the phase, if the server takes a second
/// for each.
fn sent_at(settings: &serde_json::Value, count: usize) -> Vec<u64> {
    let world = Fake {
        service_ns: vec![1_000_000_000; count],
        ..Fake::of(&vec![1; count])
    };
    let offsets = arrival(settings)
        .offsets(count, &stream(), &pipeline::sources::NamedFiles::default())
        .unwrap()
        .expect("open arrivals");
    open_loop(&world, &offsets, FROM);
    let log = world.log();
    assert!(
        log.iter()
            .all(|s| s.sent_ns == s.due_ns && s.client.is_none())
    );
    assert!(log.iter().map(|s| s.request).eq(0..count));
    log.iter().map(|s| s.sent_ns - FROM).collect()
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[test]
fn sequential_requests_are_sent_when_the_one_before_is_done() {
    let world = Fake {
        service_ns: vec![100, 30, 5],
        ..Fake::of(&[1; 3])
    };
    assert_eq!(arrival(&json!("sequential")).clients(), Some(1));
    closed_loop(&world, 1, 0);
    assert_eq!(world.times(), [(0, 0, 0), (1, 100, 100), (2, 130, 130)]);
}

#[test]
fn clients_of_a_closed_loop_take_the_next_request_when_free_and_done_thinking() {
    let world = Fake {
        service_ns: vec![100, 30, 5, 70, 1],
        ..Fake::of(&[1; 5])
    };
    closed_loop(&world, 2, 1000);
    let (a, b) = (Some(0), Some(1));
    let expected = [
        sent(0, a, 0, 0),
        sent(1, b, 0, 0),
        sent(2, b, 1030, 1030),
        sent(3, a, 1100, 1100),
        sent(4, b, 2035, 2035),
    ];
    assert_eq!(world.log(), expected);
}

#[test]
fn a_burst_is_sent_at_one_instant() {
    assert_eq!(sent_at(&json!("burst"), 4), [0; 4]);
}

#[test]
fn constant_arrivals_are_sent_at_i_over_rate() {
    let sent = sent_at(&json!({"constant": {"rate": 3.0}}), 5);
    assert_eq!(
        sent,
        [0, 333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333]
    );
}

#[test]
fn poisson_and_gamma_arrivals_are_sent_at_the_sums_of_their_draws() {
    for (settings, burstiness) in [
        (json!({"poisson": {"rate": 50.0}}), None),
        (
            json!({"gamma": {"rate": 50.0, "burstiness": 0.25}}),
            Some(0.25),
        ),
        (
            json!({"gamma": {"rate": 50.0, "burstiness": 4.0}}),
            Some(4.0),
        ),
    ] {
        let (mut draws, mut at) = (stream().at(0), 0.0);
        let expected: Vec<u64> = (0..100)
            .map(|_| {
                at += match burstiness {
                    None => draws.exponential() / 50.0,
                    Some(shape) => draws.gamma(shape) / (shape * 50.0),
                };
                ns(at)
            })
            .collect();
        assert_eq!(sent_at(&settings, 100), expected, "{settings}");
    }
}

#[test]
fn a_ramp_is_sent_when_so_many_arrivals_are_expected() {
    // From 0 to 20 in 2 s: x = 5 t² arrivals by t, then 20 per second.
    let when = |x: f64| {
        if x < 20.0 {
            (x / 5.0).sqrt()
        } else {
            2.0 + (x - 20.0) / 20.0
        }
    };
    let ramp =
        |process: &str| json!({"ramp": {"from": 0, "to": 20, "seconds": 2, "process": process}});
    let even: Vec<u64> = (0..30).map(|i| ns(when(f64::from(i)))).collect();
    assert_eq!(sent_at(&ramp("constant"), 30), even);
    let (mut draws, mut expected) = (stream().at(0), 0.0);
    for at in sent_at(&ramp("poisson"), 30) {
        expected += draws.exponential();
        assert!(at.abs_diff(ns(when(expected))) <= 1, "{at}");
    }
}

#[test]
fn steps_are_sent_at_each_rate_in_turn_and_the_last_goes_on() {
    let levels =
        json!([{"rate": 2, "seconds": 1}, {"rate": 0, "seconds": 3}, {"rate": 4, "seconds": 0.5}]);
    let steps = |process: &str| json!({"steps": {"levels": levels, "process": process}});
    let ms: Vec<u64> = sent_at(&steps("constant"), 7)
        .iter()
        .map(|ns| ns / 1_000_000)
        .collect();
    assert_eq!(ms, [0, 500, 4000, 4250, 4500, 4750, 5000]);
    let when = |x: f64| {
        if x < 2.0 {
            x / 2.0
        } else {
            4.0 + (x - 2.0) / 4.0
        }
    };
    let (mut draws, mut expected) = (stream().at(0), 0.0);
    for at in sent_at(&steps("poisson"), 30) {
        expected += draws.exponential();
        assert!(at.abs_diff(ns(when(expected))) <= 1, "{at}");
    }
}

#[test]
fn a_trace_is_sent_as_recorded() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "timestamp_ms\n100\n250\n250\n1100\n").unwrap();
    let trace = |speed: f64| json!({"trace": {"file": file.path(), "speed": speed}});
    assert_eq!(
        sent_at(&trace(1.0), 4),
        [0, 150_000_000, 150_000_000, 1_000_000_000]
    );
    assert_eq!(
        sent_at(&trace(4.0), 4),
        [0, 37_500_000, 37_500_000, 250_000_000]
    );
}

#[test]
fn sessions_arrive_on_time_and_their_turns_follow_their_answers() {
    let world = Fake {
        think_ns: vec![0, 40, 0, 7, 0],
        service_ns: vec![100, 10, 30, 1, 1],
        ..Fake::of(&[2, 2, 1])
    };
    open_loop(&world, &[0, 50, 60], 1000);
    let none = None;
    let expected = [
        sent(0, none, 1000, 1000),
        sent(2, none, 1050, 1050),
        sent(4, none, 1060, 1060),
        sent(3, none, 1087, 1087),
        sent(1, none, 1140, 1140),
    ];
    assert_eq!(world.log(), expected);
}

#[test]
fn clients_play_one_session_after_another() {
    let world = Fake {
        think_ns: vec![0, 40, 0, 7, 0],
        service_ns: vec![100, 10, 30, 1, 1],
        ..Fake::of(&[2, 2, 1])
    };
    closed_loop(&world, 2, 500);
    let (a, b) = (Some(0), Some(1));
    let expected = [
        sent(0, a, 0, 0),
        sent(2, b, 0, 0),
        sent(3, b, 37, 37),
        sent(1, a, 140, 140),
        sent(4, b, 538, 538),
    ];
    assert_eq!(world.log(), expected);
}

#[test]
fn what_is_rendered_late_is_sent_late_and_moves_nothing_after_it() {
    let world = Fake::of(&[1; 4]);
    world.sessions.borrow_mut()[1].1 = 1025;
    open_loop(&world, &[0, 10, 20, 30], 1000);
    assert_eq!(
        world.times(),
        [
            (0, 1000, 1000),
            (1, 1010, 1025),
            (2, 1020, 1025),
            (3, 1030, 1030)
        ]
    );
}

#[test]
fn the_turns_after_one_that_was_not_answered_are_given_up() {
    let world = Fake {
        think_ns: vec![0, 5, 5, 5, 0],
        service_ns: vec![10; 5],
        fails: Some(1),
        ..Fake::of(&[4, 1])
    };
    closed_loop(&world, 1, 0);
    assert_eq!(*world.given_up.borrow(), [(2, 25), (3, 25)]);
    assert_eq!(world.log().last(), Some(&sent(4, Some(0), 25, 25)));
}

#[test]
fn nothing_more_is_sent_once_all_is_to_stop() {
    let stopping = |turns: &[usize]| Fake {
        stop_after: Some(2),
        ..Fake::of(turns)
    };
    let world = Fake {
        think_ns: vec![0, 5, 5, 0],
        service_ns: vec![10; 4],
        ..stopping(&[3, 1])
    };
    closed_loop(&world, 1, 0);
    assert_eq!(world.log().len(), 2);
    assert!(world.given_up.borrow().is_empty());
    let world = stopping(&[1; 5]);
    open_loop(&world, &[0, 1, 2, 3, 4], 0);
    assert_eq!(world.log().len(), 2);
}

#[test]
fn no_turn_is_sent_that_is_due_after_the_time_of_the_load() {
    let of_sessions = || Fake {
        think_ns: vec![0, 40, 40, 0, 20],
        service_ns: vec![10; 5],
        ends_ns: Some(60),
        ..Fake::of(&[3, 2])
    };
    // The third turn would be due at 100, and the second session after that.
    let closed = of_sessions();
    closed_loop(&closed, 1, 0);
    assert_eq!(closed.times(), [(0, 0, 0), (1, 50, 50)]);
    assert_eq!((closed.left.get(), closed.not_due.get()), (0, 1));
    let open = of_sessions();
    open_loop(&open, &[0, 5], 0);
    let sent = [(0, 0, 0), (3, 5, 5), (4, 35, 35), (1, 50, 50)];
    assert_eq!(open.times(), sent);
    assert_eq!((open.left.get(), open.not_due.get()), (0, 1));
    assert!(open.given_up.borrow().is_empty());
}

#[test]
fn of_a_session_that_waits_for_a_place_too_long_one_request_was_due() {
    let world = Fake {
        without_place: Some(1),
        ..Fake::of(&[4])
    };
    open_loop(&world, &[0], 0);
    assert_eq!(world.times(), [(0, 0, 0)]);
    assert_eq!((world.left.get(), world.not_due.get()), (1, 2));
    let stopped = Fake {
        think_ns: vec![0, 10, 0, 0],
        ends_ns: Some(5),
        stop_after: Some(1),
        ..Fake::of(&[4])
    };
    open_loop(&stopped, &[0], 0);
    assert_eq!((stopped.left.get(), stopped.not_due.get()), (0, 0));
}

proptest! {
    #[test]
    fn every_turn_is_due_exactly_one_think_time_after_the_answer_before(
        turns in prop::collection::vec((0_u64..1000, 0_u64..1000), 1..20), start in 0_u64..50,
    ) {
        let mut think_ns: Vec<u64> = turns.iter().map(|(think, _)| *think).collect();
        think_ns[0] = 0;
        let service_ns: Vec<u64> = turns.iter().map(|(_, service)| *service).collect();
        let world = Fake { think_ns, service_ns, ..Fake::of(&[turns.len()]) };
        open_loop(&world, &[start], 0);
        let mut done = start;
        for (request, due, sent) in world.times() {
            prop_assert_eq!((due, sent), (done + world.think_ns[request], due));
            done = sent + world.service_ns[request];
        }
    }

    #[test]
    fn open_arrivals_are_sent_on_time_whatever_the_server_does(
        gaps in prop::collection::vec((0_u64..100, 0_u64..1000), 1..60),
    ) {
        let offsets: Vec<u64> = gaps.iter().scan(0, |at, (gap, _)| { *at += gap; Some(*at) }).collect();
        let service_ns = gaps.iter().map(|(_, service)| *service).collect();
        let world = Fake { service_ns, ..Fake::of(&vec![1; gaps.len()]) };
        open_loop(&world, &offsets, 7);
        let expected: Vec<_> = offsets.iter().enumerate().map(|(i, at)| (i, at + 7, at + 7)).collect();
        prop_assert_eq!(world.times(), expected);
    }

    #[test]
    fn a_closed_loop_sends_each_request_when_the_first_client_is_free(
        service_ns in prop::collection::vec(1_u64..1000, 1..60), clients in 1_u32..6,
    ) {
        let world = Fake { service_ns: service_ns.clone(), ..Fake::of(&vec![1; service_ns.len()]) };
        closed_loop(&world, clients, 0);
        let mut free_ns = vec![0; clients as usize];
        for (i, sent) in world.times().into_iter().enumerate() {
            let first = free_ns.iter_mut().min().expect("there is a client");
            prop_assert_eq!(sent, (i, *first, *first));
            *first += service_ns[i];
        }
    }
}
