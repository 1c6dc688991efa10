//! Prompts in sessions: their turns, their think times, and conversations of a dataset.

use super::*;

#[test]
fn a_dataset_in_sessions_gives_the_human_turns_of_each_conversation() {
    let file = file(SHAREGPT);
    let dataset = json!({"dataset": {"file": file.path()}});
    let set = generate(&in_sessions(&dataset, &json!({})), Amount::Sessions(3));
    let all = measured(&set);
    let mut said: Vec<Vec<&str>> = set
        .sessions()
        .unwrap()
        .iter()
        .map(|range| texts(&all[range.clone()]))
        .collect();
    said.sort_unstable();
    assert_eq!(said, [vec!["a1", "a2"], vec!["c1"], vec!["d1\n\nmore"]]);
    let set = generate(
        &in_sessions(&dataset, &json!({"turns": 1})),
        Amount::Sessions(3),
    );
    assert_eq!(set.count(Phase::Measured), 3);
}

#[test]
fn sessions_have_turns_and_think_times_as_drawn_and_the_first_thinks_not() {
    let words = json!({"words": {"length": 9}});
    let settings = json!({
        "turns": {"from": 1, "to": 4}, "think-time": {"from": "1 ms", "to": "3 ms"},
        "follow-up": {"words": {"length": 4}},
    });
    let set = generate(&in_sessions(&words, &settings), Amount::Sessions(300));
    let sessions = set.sessions().unwrap();
    let turns: BTreeSet<usize> = sessions.iter().map(ExactSizeIterator::len).collect();
    assert_eq!(turns, [1, 2, 3, 4].into());
    let all = measured(&set);
    for range in sessions {
        for (i, prompt) in all[range.clone()].iter().enumerate() {
            assert_eq!(prompt.turn, Some(i as u32 + 1));
            assert_eq!(prompt.text.split(' ').count(), if i == 0 { 9 } else { 4 });
            let fits = if i == 0 { 0..=0 } else { 1_000_000..=3_000_000 };
            assert!(fits.contains(&prompt.think_ns), "{}", prompt.think_ns);
        }
    }
}

#[test]
fn think_times_and_turns_follow_their_distributions() {
    let words = json!({"words": {"length": 1}});
    let settings = json!({"turns": {"geometric": 4}, "think-time": {"exponential": "10 ms"}});
    let set = generate(&in_sessions(&words, &settings), Amount::Sessions(4000));
    let mut think: Vec<f64> = measured(&set)
        .iter()
        .filter(|p| p.turn > Some(1))
        .map(|p| p.think_ns as f64 / 1e6)
        .collect();
    assert!(ks(&mut think, |x| 1.0 - (-x / 10.0).exp()) < KS_LIMIT);
    let sessions = set.sessions().unwrap();
    // P(turns = k) = (3/4)^(k − 1) / 4: each count within four standard errors.
    for k in 1..6 {
        let p = 0.75_f64.powi(k - 1) / 4.0;
        let count = sessions.iter().filter(|s| s.len() == k as usize).count() as f64;
        let expected = 4000.0 * p;
        assert!(
            (count - expected).abs() < 4.0 * (expected * (1.0 - p)).sqrt(),
            "{k}: {count} of {expected}"
        );
    }
    let even = json!({"turns": 2, "think-time": {"from": "2 ms", "to": "6 ms"}});
    let set = generate(&in_sessions(&words, &even), Amount::Sessions(3000));
    let mut think: Vec<f64> = measured(&set)
        .iter()
        .filter(|p| p.turn == Some(2))
        .map(|p| p.think_ns as f64 / 1e6)
        .collect();
    assert!(ks(&mut think, |x| (x - 2.0) / 4.0) < KS_LIMIT);
}

#[test]
fn more_sessions_begin_with_the_fewer_and_requests_cut_the_last() {
    let words = json!({"words": {"length": 3}});
    let workload = in_sessions(
        &words,
        &json!({"turns": {"from": 2, "to": 5}, "think-time": {"exponential": "1 s"}}),
    );
    let (few, many) = (
        generate(&workload, Amount::Sessions(4)),
        generate(&workload, Amount::Sessions(9)),
    );
    let (few, many) = (measured(&few), measured(&many));
    assert_eq!(few[..], many[..few.len()]);
    let cut = generate(&workload, Amount::Requests(7));
    assert_eq!(measured(&cut)[..], many[..7]);
    assert_eq!(cut.sessions().unwrap().last().unwrap().end, 7);
}
