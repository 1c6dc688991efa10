//! Senders that wait or give up, and a cache that is too small.

use contract::RequestStatus;
use serde_json::json;

use super::{MS, measured, run, simulated};

#[test]
fn arrivals_wait_while_as_many_are_in_flight_as_there_may_be() {
    // A request takes 60 ms, and one is due each 10 ms.
    let open = |most: Option<u32>| {
        let mut change = json!({
            "requests": 12, "arrival": {"constant": {"rate": 100}},
            "simulate": simulated(&json!({"slots": 8})),
        });
        if let Some(most) = most {
            change["max-in-flight"] = json!(most);
        }
        run(&change)
    };
    let unlimited = open(None);
    assert!(
        measured(&unlimited)
            .iter()
            .any(|r| r.in_flight_at_send > Some(1))
    );
    assert!(
        measured(&unlimited)
            .iter()
            .all(|r| r.sent_ns == r.scheduled_ns)
    );
    let limited = open(Some(1));
    let rows = measured(&limited);
    assert_eq!(rows.len(), 12);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row.in_flight_at_send, Some(0));
        assert_eq!(row.scheduled_ns, Some(10 * MS * i as i64));
        assert_eq!(row.sent_ns, Some(60 * MS * i as i64));
    }
    // A limit that is never reached changes nothing.
    let high = open(Some(100));
    assert_eq!(high.requests, unlimited.requests);
}

#[test]
fn a_sender_gives_up_its_requests_and_the_slot_is_free_again() {
    // Prefill until 20 ms, then tokens at 20, 30, 40, 50 and 60 ms.
    let with = |after: &str, share: f64| {
        let result = run(&json!({
            "requests": 40, "arrival": "sequential", "cancel": {"after": after, "share": share},
            "simulate": simulated(&json!({})),
        }));
        measured(&result).into_iter().cloned().collect::<Vec<_>>()
    };
    for row in with("35 ms", 1.0) {
        assert_eq!(row.status, RequestStatus::Cancelled);
        assert_eq!(row.done_ns.unwrap() - row.sent_ns.unwrap(), 35 * MS);
        assert_eq!(row.output_tokens, Some(2));
        assert_eq!(
            row.error.as_deref(),
            Some("given up by its sender after 35ms")
        );
        assert!(row.finish_reason.is_none());
    }
    let some = with("35 ms", 0.5);
    let ended = |status| some.iter().filter(|r| r.status == status).count();
    let (ok, cancelled) = (ended(RequestStatus::Ok), ended(RequestStatus::Cancelled));
    assert_eq!(ok + cancelled, 40);
    assert!((10..=30).contains(&cancelled), "{cancelled}");
    // Answers that are complete in time are not given up.
    assert!(
        with("1 s", 1.0)
            .iter()
            .all(|r| r.status == RequestStatus::Ok)
    );
}

#[test]
fn a_cache_with_a_limit_loses_the_oldest_prompts() {
    let prefix = |name: &str| (0..32).map(|n| format!("{name}{n:02}")).collect::<Vec<_>>();
    let text = |name: &str, last: &str| {
        let mut words = prefix(name);
        words.push(last.to_owned());
        words.join(" ")
    };
    // Each prompt has 33 tokens, so a cache of 70 holds two.
    let texts = [
        text("a", "one"),
        text("b", "one"),
        text("a", "two"),
        text("c", "one"),
        text("b", "two"),
        text("c", "two"),
    ];
    let cached = |server| {
        let result = run(&json!({
            "workload": {"prompts": {"pack": {"texts": texts}}, "output": {"tokens": 1}},
            "arrival": "sequential", "requests": 6, "simulate": simulated(&server),
        }));
        let rows = measured(&result);
        rows.iter()
            .map(|r| r.cached_prompt_tokens.unwrap())
            .collect::<Vec<_>>()
    };
    let all = cached(json!({"prefix-cache": true}));
    assert_eq!(all, [0, 0, 32, 0, 32, 32]);
    let two = cached(json!({"prefix-cache": true, "prefix-cache-tokens": 70}));
    // The first prompt with `a` is the oldest when the third comes in, and that with `b` when the fourth does.
    assert_eq!(two, [0, 0, 32, 0, 0, 32]);
    let none = cached(json!({"prefix-cache": true, "prefix-cache-tokens": 1}));
    assert_eq!(none, [0; 6]);
}
