use std::collections::BTreeSet;

use super::*;
use crate::random::Origin;
use crate::random::testing::{KS_LIMIT, ks};
use crate::workload::Workload;
use artifacts::{Digest, Scalar};
use contract::Phase;
use pipeline::stage::Coordinates;
use proptest::prelude::*;
use serde_json::json;

fn origin(seed: u64, rep: i64) -> Origin {
    Origin {
        seed,
        replicate: Coordinates(vec![("rep".into(), Scalar::Int(rep))]),
    }
}

fn workload(prompts: &serde_json::Value) -> Workload {
    serde_json::from_value(json!({"prompts": prompts, "output": {"tokens": {"from": 4, "to": 9}}}))
        .unwrap()
}

fn words() -> Workload {
    workload(&json!({"words": {"length": {"from": 30, "to": 60}}}))
}

fn measured(set: &PromptSet) -> Vec<Prompt> {
    set.of(Phase::Measured).unwrap()
}

fn warmup(set: &PromptSet) -> Vec<Prompt> {
    set.of(Phase::Warmup).unwrap()
}

fn texts(prompts: &[Prompt]) -> Vec<&str> {
    prompts.iter().map(|p| p.text.as_str()).collect()
}

#[test]
fn a_longer_set_begins_with_the_shorter_one_and_warm_up_changes_nothing() {
    let short = PromptSet::generate(&words(), &origin(1, 1), 0, 10).unwrap();
    let long = PromptSet::generate(&words(), &origin(1, 1), 7, 40).unwrap();
    assert_eq!(measured(&short)[..], measured(&long)[..10]);
}

#[test]
fn seed_replicate_and_content_change_every_prompt() {
    let base = PromptSet::generate(&words(), &origin(1, 1), 0, 20).unwrap();
    let other = workload(&json!({"words": {"length": {"from": 30, "to": 61}}}));
    for (workload, origin) in [
        (words(), origin(2, 1)),
        (words(), origin(1, 2)),
        (other, origin(1, 1)),
    ] {
        let set = PromptSet::generate(&workload, &origin, 0, 20).unwrap();
        assert!(
            measured(&set)
                .iter()
                .zip(&measured(&base))
                .all(|(a, b)| a.text != b.text)
        );
    }
}

#[test]
fn a_description_changes_no_prompt() {
    let described = Workload {
        description: Some("for readers".to_owned()),
        ..words()
    };
    let table = |w: &Workload| {
        PromptSet::generate(w, &origin(1, 1), 2, 5)
            .unwrap()
            .table()
            .unwrap()
    };
    assert_eq!(table(&described), table(&words()));
}

#[test]
fn the_first_prompt_is_pinned() {
    let set = PromptSet::generate(
        &workload(&json!({"words": {"length": 6}})),
        &origin(164, 1),
        0,
        1,
    )
    .unwrap();
    assert_eq!(measured(&set)[0].text, "ice laugh young coat unit watch.");
}

#[test]
fn equal_sets_are_one_artifact() {
    let bytes = || {
        let set = PromptSet::generate(&words(), &origin(1, 1), 2, 5).unwrap();
        set.table().unwrap().to_parquet().unwrap()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn shared_prefixes_are_shared_and_suffixes_are_not() {
    let shared = workload(&json!({"shared-prefix": {"prefix": 24, "suffix": 5, "prefixes": 2}}));
    let set = PromptSet::generate(&shared, &origin(1, 1), 0, 30).unwrap();
    let prefix = |p: &Prompt| p.text.split(' ').take(24).collect::<Vec<_>>().join(" ");
    let mut by_prefix = std::collections::BTreeMap::new();
    for prompt in &measured(&set) {
        let first = by_prefix
            .entry(prompt.prefix.unwrap())
            .or_insert_with(|| prefix(prompt));
        assert_eq!(*first, prefix(prompt));
    }
    assert_eq!(by_prefix.len(), 2);
    assert_ne!(by_prefix[&0], by_prefix[&1]);
    assert_eq!(
        texts(&measured(&set)).iter().collect::<BTreeSet<_>>().len(),
        30
    );
}

#[test]
fn a_mixture_takes_its_parts_by_weight_and_their_output() {
    let mixture = workload(&json!({"mixture": [
        {"name": "long", "weight": 1, "prompts": {"words": {"length": 50}}, "output": {"tokens": 99}},
        {"name": "short", "weight": 3, "prompts": {"words": {"length": 5}}},
    ]}));
    let set = PromptSet::generate(&mixture, &origin(1, 1), 0, 4000).unwrap();
    let all = measured(&set);
    let long: Vec<_> = all
        .iter()
        .filter(|p| p.part.as_deref() == Some("long"))
        .collect();
    assert!((900..1100).contains(&long.len()), "{}", long.len());
    assert!(
        long.iter()
            .all(|p| p.output_tokens == 99 && p.text.split(' ').count() == 50)
    );
}

#[test]
fn a_pack_keeps_its_order_and_refuses_to_repeat_unless_told() {
    let pack = |more: &serde_json::Value| {
        let mut pack = json!({"texts": ["a", "b", "c"]});
        pack.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        workload(&json!({"pack": pack}))
    };
    let set = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 1, 2).unwrap();
    assert_eq!(
        (texts(&measured(&set)), texts(&warmup(&set))),
        (vec!["a", "b"], vec!["c"])
    );
    let error = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 0, 4).unwrap_err();
    assert!(error.to_string().contains("holds 3 prompts"), "{error}");
    let set =
        PromptSet::generate(&pack(&json!({"when-short": "repeat"})), &origin(1, 1), 0, 4).unwrap();
    assert_eq!(texts(&measured(&set)), ["a", "b", "c", "a"]);
}

#[test]
fn a_pack_file_is_read_and_must_not_change() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": \"x\"}\n\n\"y\"\n").unwrap();
    let path = file.path().to_str().unwrap();
    let digest = Digest::of(&std::fs::read(path).unwrap()).to_string();
    let pack = workload(&json!({"pack": {"file": path, "digest": digest}}));
    assert_eq!(
        texts(&measured(
            &PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap()
        )),
        ["x", "y"]
    );
    std::fs::write(file.path(), "\"z\"\n").unwrap();
    assert!(
        PromptSet::generate(&pack, &origin(1, 1), 0, 1)
            .unwrap_err()
            .to_string()
            .contains("has changed")
    );
}

#[test]
fn a_pack_may_be_one_json_array() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let made = |text: &str| {
        std::fs::write(file.path(), text).unwrap();
        PromptSet::generate(
            &workload(&json!({"pack": {"file": path}})),
            &origin(1, 1),
            0,
            2,
        )
    };
    let set = made("[\n  {\"prompt\": \"x\", \"output_tokens\": 3},\n  \"y\"\n]\n").unwrap();
    let lengths: Vec<_> = measured(&set)
        .into_iter()
        .map(|p| (p.text, p.output_tokens))
        .collect();
    assert_eq!(lengths[0], ("x".to_owned(), 3));
    assert_eq!(lengths[1].0, "y");
    let error = made("[\"x\", {\"text\": \"y\"}]").unwrap_err().to_string();
    assert!(error.contains("line 1: no `prompt`"), "{error}");
    let error = made("\"x\"\n{\n").unwrap_err().to_string();
    assert!(error.contains("line 2: "), "{error}");
}

#[test]
fn a_trace_decides_the_lengths_of_prompts_and_answers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "timestamp_s,input_tokens,output_tokens\n0,10,33\n1,20,44\n",
    )
    .unwrap();
    let trace = workload(&json!({"trace": {"file": file.path(), "words-per-token": 0.5}}));
    let set = PromptSet::generate(&trace, &origin(1, 1), 1, 2).unwrap();
    let lengths = |p: &Prompt| (p.text.split(' ').count(), p.output_tokens);
    assert_eq!(
        measured(&set).iter().map(lengths).collect::<Vec<_>>(),
        [(5, 33), (10, 44)]
    );
    assert_eq!(lengths(&warmup(&set)[0]), (5, 33));
    let error = PromptSet::generate(&trace, &origin(1, 1), 0, 3).unwrap_err();
    assert!(
        error.to_string().contains("request 2 has no row"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn warm_up_prompts_never_equal_measured_ones(length in 1_u32..3, warmup in 0_usize..6, measured in 1_usize..60) {
        let workload = workload(&json!({"words": {"length": length}}));
        let set = PromptSet::generate(&workload, &origin(9, 1), warmup, measured).unwrap();
        let (before, all) = (set.of(Phase::Warmup).unwrap(), set.of(Phase::Measured).unwrap());
        prop_assert_eq!((before.len(), all.len()), (warmup, measured));
        prop_assert!(before.iter().all(|w| !texts(&all).contains(&w.text.as_str())));
    }

    #[test]
    fn lengths_stay_within_their_range(from in 1_u32..40, more in 0_u32..40) {
        let workload = workload(&json!({"words": {"length": {"from": from, "to": from + more}}}));
        let set = PromptSet::generate(&workload, &origin(9, 1), 0, 20).unwrap();
        for prompt in &measured(&set) {
            let length = prompt.text.split(' ').count() as u32;
            prop_assert!((from..=from + more).contains(&length));
        }
    }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn in_sessions(prompts: &serde_json::Value, sessions: &serde_json::Value) -> Workload {
    serde_json::from_value(
        json!({"prompts": prompts, "sessions": sessions, "output": {"tokens": 9}}),
    )
    .unwrap()
}

fn generate(workload: &Workload, amount: Amount) -> PromptSet {
    PromptSet::with_counter(
        workload,
        &origin(1, 1),
        0,
        amount,
        None,
        &std::env::temp_dir(),
        &Default::default(),
    )
    .unwrap()
}

#[test]
fn a_pack_may_say_how_much_output_each_line_asks_for() {
    let file = file("{\"prompt\": \"x\", \"output_tokens\": 77}\n{\"prompt\": \"y\"}\n");
    let pack = workload(&json!({"pack": {"file": file.path()}}));
    let set = PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap();
    assert_eq!(measured(&set)[0].output_tokens, 77);
    assert!((4..=9).contains(&measured(&set)[1].output_tokens));
    assert_eq!(set.length_source, LengthSource::Given);
    std::fs::write(file.path(), "{\"prompt\": \"x\", \"output_tokens\": 0}").unwrap();
    let error = PromptSet::generate(&pack, &origin(1, 1), 0, 1).unwrap_err();
    assert!(
        error.to_string().contains("line 1: `output_tokens` is 0"),
        "{error}"
    );
}

#[test]
fn passages_of_a_corpus_are_its_words_in_order() {
    let words: Vec<String> = (0..50).map(|i| format!("w{i}")).collect();
    let file = file(&words.join("\n"));
    let corpus = workload(&json!({"corpus": {"file": file.path(), "length": 12}}));
    let set = PromptSet::generate(&corpus, &origin(1, 1), 3, 20).unwrap();
    for prompt in measured(&set).iter().chain(&warmup(&set)) {
        let found: Vec<usize> = prompt
            .text
            .split(' ')
            .map(|w| w[1..].parse().unwrap())
            .collect();
        assert_eq!(found.len(), 12);
        assert!(found.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 50));
    }
    let long = workload(&json!({"corpus": {"file": file.path(), "length": 51}}));
    let error = PromptSet::generate(&long, &origin(1, 1), 0, 1).unwrap_err();
    assert!(error.to_string().contains("holds 50 words"), "{error}");
}

#[test]
fn lengths_in_characters_are_exact_and_said_to_be() {
    let prompts = workload(&json!({"words": {"length": {"characters": {"from": 100, "to": 120}}}}));
    let set = PromptSet::generate(&prompts, &origin(1, 1), 0, 20).unwrap();
    assert!(
        measured(&set)
            .iter()
            .all(|p| (100..=120).contains(&p.text.chars().count()))
    );
    assert_eq!(set.length_source, LengthSource::Characters);
    assert_eq!(
        set.table().unwrap().metadata("length_source").as_deref(),
        Some("characters")
    );
}

const SHAREGPT: &str = r#"[
    {"id": "a", "conversations": [
        {"from": "system", "value": "be kind"}, {"from": "human", "value": "a1"},
        {"from": "gpt", "value": "A1"}, {"from": "human", "value": "a2"}, {"from": "gpt", "value": "A2"}]},
    {"id": "b", "conversations": [{"from": "gpt", "value": "nobody asked"}]},
    {"id": "c", "conversations": [{"from": "human", "value": "c1"}, {"from": "gpt", "value": "C1"}]},
    {"id": "d", "messages": [{"role": "user", "content": "d1"}, {"role": "user", "content": "more"}]}
]"#;

#[test]
fn a_dataset_gives_first_human_turns_in_an_order_of_the_seed() {
    let file = file(SHAREGPT);
    let dataset = workload(&json!({"dataset": {"file": file.path()}}));
    let of = |rep| {
        let set = PromptSet::generate(&dataset, &origin(1, rep), 0, 3).unwrap();
        texts(&measured(&set))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let orders: BTreeSet<Vec<String>> = (0..20).map(of).collect();
    assert!(orders.len() > 1);
    for order in orders {
        assert_eq!(
            order.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            ["a1", "c1", "d1\n\nmore"].into()
        );
    }
    let error = PromptSet::generate(&dataset, &origin(1, 1), 0, 4).unwrap_err();
    assert!(
        error.to_string().contains("holds 3 conversations"),
        "{error}"
    );
}

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
        let found = sessions.iter().filter(|s| s.len() == k as usize).count() as f64;
        let expected = 4000.0 * p;
        assert!(
            (found - expected).abs() < 4.0 * (expected * (1.0 - p)).sqrt(),
            "{k}: {found} of {expected}"
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

#[test]
fn a_fraction_of_prompts_begins_with_a_shared_prefix_and_the_rest_with_its_own() {
    let shared = workload(
        &json!({"shared-prefix": {"prefix": 8, "suffix": 4, "prefixes": 2, "fraction": 0.25}}),
    );
    let set = PromptSet::generate(&shared, &origin(1, 1), 0, 2000).unwrap();
    let all = measured(&set);
    let (own, sharing): (Vec<_>, Vec<_>) = all.iter().partition(|p| p.prefix.is_none());
    assert!((420..580).contains(&sharing.len()), "{}", sharing.len());
    let begin = |p: &&Prompt| p.text.split(' ').take(8).collect::<Vec<_>>().join(" ");
    assert_eq!(sharing.iter().map(begin).collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(
        own.iter().map(begin).collect::<BTreeSet<_>>().len(),
        own.len()
    );
    assert!(all.iter().all(|p| p.text.split(' ').count() == 12));
}

#[test]
fn what_cannot_be_a_workload_is_told_with_its_place() {
    let wrong = |more: serde_json::Value| {
        let mut workload = json!({"prompts": {"words": {"length": 5}}, "output": {"tokens": 4}});
        workload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let workload: Workload = serde_json::from_value(workload).unwrap();
        workload
            .problems()
            .into_iter()
            .map(|(keys, message)| format!("{}: {message}", keys.join(".")))
            .collect::<Vec<_>>()
    };
    for (more, part) in [
        (
            json!({"prompts": {"words": {"length": {"tokens": 9}}}}),
            "prompts.words.length: a length in tokens needs",
        ),
        (
            json!({"prompts": {"dataset": {"file": "x", "recorded-output": true}}}),
            "recorded-output: this needs",
        ),
        (json!({"sessions": {}}), "sessions: the number of `turns`"),
        (
            json!({"sessions": {"turns": 0}}),
            "sessions.turns: `turns` must be at least 1",
        ),
        (
            json!({"sessions": {"turns": {"geometric": 0.5}}}),
            "sessions.turns: a mean of turns",
        ),
        (
            json!({"sessions": {"turns": 2, "think-time": {"from": "2 s", "to": "1 s"}}}),
            "think-time: the range from",
        ),
        (
            json!({"sessions": {"turns": 2}, "prompts": {"pack": {"texts": ["a"]}}}),
            "add `follow-up`",
        ),
        (
            json!({"structured": {}}),
            "structured: structured output takes either",
        ),
        (
            json!({"structured": {"schema": {"type": "objct"}}}),
            "structured.schema: this is not a JSON Schema",
        ),
        (
            json!({"structured": {"schema": {}}, "output": {"tokens": 4, "mode": "exact"}}),
            "output.mode: structured output ends where",
        ),
        (
            json!({"prompts": {"shared-prefix": {"prefix": 1, "suffix": 1, "fraction": 1.5}}}),
            "fraction must be",
        ),
    ] {
        let found = wrong(more.clone());
        assert!(
            found.iter().any(|problem| problem.contains(part)),
            "{more}: {found:?}"
        );
    }
}

/// Returns the digest of the artifact of a set, as a load cell writes it.
fn artifact(set: &PromptSet) -> String {
    let folder = tempfile::tempdir().unwrap();
    crate::files::write_prompts(set, folder.path())
        .unwrap()
        .1
        .to_string()
}

#[test]
fn prompt_sets_are_the_bytes_they_have_always_been() {
    let workloads = [
        (
            "b3:31bf797722a770ec45226165e82b03f23f29232317f6a61a2469ad78f45b8519",
            words(),
            5,
            Amount::Requests(5000),
        ),
        (
            "b3:eb7795756ea5fe5147a5f98e5f45206a71779338698abb304f8a1b1dba57cace",
            workload(&json!({"words": {"length": 1}})),
            40,
            Amount::Requests(300),
        ),
        (
            "b3:3b6c56f01f563701c81d7d2d85f72f4148ea9360a75d1f14b9f28f89bb0c5477",
            workload(
                &json!({"shared-prefix": {"prefix": 9, "suffix": {"characters": 40}, "prefixes": 3, "fraction": 0.5}}),
            ),
            2,
            Amount::Requests(60),
        ),
        (
            "b3:756a572ef0e39bf3e4c441907cda76c9cc9d5d0aa8b937bd3ed3f9e0e2b3cce8",
            workload(&json!({"mixture": [
                {"name": "long", "weight": 1, "prompts": {"words": {"length": 50}}, "output": {"tokens": 99}},
                {"name": "pack", "weight": 3, "prompts": {"pack": {"texts": ["x", "y"], "when-short": "repeat"}}},
            ]})),
            0,
            Amount::Requests(90),
        ),
        (
            "b3:710bd3843b68542276f5184b2059de4874ed2e565004d1c28d957c485a569ab8",
            in_sessions(
                &json!({"words": {"length": 8}}),
                &json!({"turns": {"geometric": 4}, "think-time": {"exponential": "2 s"}}),
            ),
            3,
            Amount::Requests(2100),
        ),
    ];
    let folder = std::env::temp_dir();
    for (digest, workload, warmup, amount) in &workloads {
        let set = PromptSet::with_counter(
            workload,
            &origin(164, 1),
            *warmup,
            *amount,
            None,
            &folder,
            &Default::default(),
        )
        .unwrap();
        assert_eq!(artifact(&set), *digest, "{workload:?}");
    }
}

#[test]
fn equal_hash_ids_of_a_trace_are_equal_text_and_what_follows_is_a_prompts_own() {
    let file = tempfile::Builder::new()
        .suffix(".jsonl")
        .tempfile()
        .unwrap();
    let rows = [
        json!({"timestamp": 0, "input_length": 1300, "output_length": 4, "hash_ids": [0, 1, 2]}),
        json!({"timestamp": 1, "input_length": 1300, "output_length": 4, "hash_ids": [0, 1, 3]}),
        json!({"timestamp": 2, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}),
        json!({"timestamp": 3, "input_length": 1300, "output_length": 4, "hash_ids": [7]}),
    ];
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let made = |per_id: u32| -> Vec<Vec<String>> {
        let trace = json!({"file": path, "words-per-token": 1.0, "tokens-per-hash-id": per_id});
        let workload = workload(&json!({ "trace": trace }));
        let prompts = PromptSet::generate(&workload, &origin(1, 1), 0, 4).unwrap();
        let words = |p: Prompt| p.text.split_whitespace().map(str::to_owned).collect();
        prompts
            .of(Phase::Measured)
            .unwrap()
            .into_iter()
            .map(words)
            .collect()
    };
    let made_of_blocks = made(512);
    let lengths: Vec<usize> = made_of_blocks.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1300, 1300, 600, 1300]);
    let shared = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    // The list contains repeated words, so the first words after the blocks may be the same by chance.
    assert!((1024..1030).contains(&shared(&made_of_blocks[0], &made_of_blocks[1])));
    // The last word of a block ends a sentence, but it does not in the middle of another block.
    assert!((599..=600).contains(&shared(&made_of_blocks[0], &made_of_blocks[2])));
    assert!(shared(&made_of_blocks[0], &made_of_blocks[3]) < 6);
    let apart = made(0);
    assert!(shared(&apart[0], &apart[1]) < 6);
}

#[test]
fn conversations_and_prompts_are_read_from_json_json_lines_and_csv_alike() {
    let turns = |file: &str, text: &str| -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        let prompts = json!({"dataset": {"file": path.to_str().unwrap()}});
        let set = PromptSet::generate(&workload(&prompts), &origin(1, 1), 0, 2).unwrap();
        let mut texts: Vec<String> = set
            .of(Phase::Measured)
            .unwrap()
            .into_iter()
            .map(|p| p.text)
            .collect();
        texts.sort();
        texts
    };
    let expected = ["say, a", "say b"].map(str::to_owned).to_vec();
    let mut expected = expected;
    expected.sort();
    for (file, text) in [
        (
            "a.json",
            "[{\"conversations\": [{\"from\": \"human\", \"value\": \"say, a\"}, {\"from\": \"gpt\", \"value\": \"a\"}]},\n {\"messages\": [{\"role\": \"user\", \"content\": \"say b\"}]}]",
        ),
        (
            "a.jsonl",
            "{\"prompt\": \"say, a\", \"completion\": \"a\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"say b\"}]}\n",
        ),
        (
            "a.csv",
            "id,Prompt,response\n1,\"say, a\",a\n2,,x\n3,say b,\n",
        ),
    ] {
        assert_eq!(turns(file, text), expected, "{file}");
    }
}
