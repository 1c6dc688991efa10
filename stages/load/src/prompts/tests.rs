mod files;
mod sessions;

use std::collections::BTreeSet;

use super::*;
use crate::random::Origin;
use crate::random::testing::{KS_LIMIT, ks};
use crate::workload::Workload;
use artifacts::{Digest, Scalar};
use contract::Phase;
use pipeline::sources::NamedFiles;
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
fn prompts_drawn_by_their_own_settings_are_those_of_workloads_that_differ_in_others() {
    let workload = |drawn_by: &str, change: serde_json::Value| {
        let mut workload = json!({
            "prompts": {"words": {"length": {"from": 30, "to": 60}}}, "output": {"tokens": 9}, "drawn-by": drawn_by,
        });
        for (key, value) in change.as_object().unwrap() {
            workload[key] = value.clone();
        }
        let workload: Workload = serde_json::from_value(workload).unwrap();
        measured(&PromptSet::generate(&workload, &origin(1, 1), 0, 8).unwrap())
    };
    let plain = workload("prompts", json!({}));
    for change in [
        json!({"structured": {"schema": {"type": "object"}}}),
        json!({"output": {"tokens": 64}}),
        json!({"sampling": {"temperature": 0.7}}),
        json!({"system": "Answer in JSON."}),
    ] {
        let same = workload("prompts", change.clone());
        assert_eq!(texts(&same), texts(&plain), "{change}");
        let other = workload("workload", change.clone());
        assert_ne!(
            texts(&other),
            texts(&workload("workload", json!({}))),
            "{change}"
        );
    }
    let other = workload(
        "prompts",
        json!({"prompts": {"words": {"length": {"from": 30, "to": 61}}}}),
    );
    assert_ne!(texts(&other), texts(&plain));
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

fn in_sessions(prompts: &serde_json::Value, sessions: &serde_json::Value) -> Workload {
    serde_json::from_value(
        json!({"prompts": prompts, "sessions": sessions, "output": {"tokens": 9}}),
    )
    .unwrap()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
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
fn mistakes_in_a_workload_are_reported_with_their_places() {
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
        let problems = wrong(more.clone());
        assert!(
            problems.iter().any(|problem| problem.contains(part)),
            "{more}: {problems:?}"
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

/// Counts a token for each word, and one at the beginning of each text.
struct WordAndStart;

impl Counter for WordAndStart {
    fn count(&self, text: &str) -> Result<u32, PromptError> {
        Ok(text.split_whitespace().count() as u32)
    }

    fn prompt_length(&self, text: &str) -> Result<u32, PromptError> {
        Ok(self.count(text)? + 1)
    }

    fn identity(&self) -> &str {
        "word and start"
    }

    fn source(&self) -> LengthSource {
        LengthSource::ServerTokenizer
    }
}

fn batches(prompts: &serde_json::Value, amount: usize) -> Result<PromptSet, PromptError> {
    let workload: Workload = serde_json::from_value(
        json!({"prompts": prompts, "batch-size": 3, "tokenizer": {"server": {}}}),
    )
    .unwrap();
    PromptSet::with_counter(
        &workload,
        &origin(1, 1),
        1,
        Amount::Requests(amount),
        Some(&WordAndStart),
        &std::env::temp_dir(),
        &NamedFiles::default(),
    )
}

#[test]
fn a_batch_has_the_tokens_of_all_its_texts_and_the_context_must_hold_the_longest() {
    let texts = ["a", "b b b\nb", "c c", "d", "e", "f", "g", "h", "i"];
    let pack = json!({"pack": {"texts": texts}});
    let set = batches(&pack, 2).unwrap();
    let sent = measured(&set);
    // A text may contain line breaks of its own.
    assert_eq!(sent[0].batched().unwrap(), texts[..3]);
    assert_eq!(sent[1].batched().unwrap(), texts[3..6]);
    assert_eq!(warmup(&set)[0].batched().unwrap(), texts[6..]);
    assert_eq!(sent[0].tokens, Some((1 + 4 + 2) + 3));
    assert_eq!(sent[0].tokens_at_once(), Some(4 + 1));
    let refused = batches(&pack, 3).unwrap_err().message;
    assert!(
        refused.contains("holds 9 prompts, but the cell needs 12"),
        "{refused}"
    );
}

#[test]
fn the_texts_of_a_batch_come_from_one_part_of_a_mixture() {
    let part = |name: &str, length: u32| json!({"name": name, "weight": 1, "prompts": {"words": {"length": length}}});
    let set = batches(&json!({"mixture": [part("short", 2), part("long", 9)]}), 20).unwrap();
    let sent = measured(&set);
    for prompt in &sent {
        let length = if prompt.part.as_deref() == Some("long") {
            9
        } else {
            2
        };
        for text in prompt.batched().unwrap() {
            assert_eq!(text.split_whitespace().count(), length);
        }
    }
    let parts: BTreeSet<_> = sent.iter().map(|prompt| prompt.part.clone()).collect();
    assert_eq!(parts.len(), 2);
}
