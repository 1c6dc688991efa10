use std::collections::BTreeSet;

use super::*;
use crate::random::Origin;
use crate::workload::Workload;
use artifacts::{Digest, Scalar};
use pipeline::stage::Coordinates;
use proptest::prelude::*;
use serde_json::json;

fn origin(seed: u64, rep: i64) -> Origin {
    Origin { seed, replicate: Coordinates(vec![("rep".into(), Scalar::Int(rep))]) }
}

fn workload(prompts: &serde_json::Value) -> Workload {
    serde_json::from_value(json!({"prompts": prompts, "output": {"tokens": {"from": 4, "to": 9}}})).unwrap()
}

fn words() -> Workload {
    workload(&json!({"words": {"length": {"from": 30, "to": 60}}}))
}

fn texts(prompts: &[Prompt]) -> Vec<&str> {
    prompts.iter().map(|p| p.text.as_str()).collect()
}

#[test]
fn a_longer_set_begins_with_the_shorter_one_and_warm_up_changes_nothing() {
    let short = PromptSet::generate(&words(), &origin(1, 1), 0, 10).unwrap();
    let long = PromptSet::generate(&words(), &origin(1, 1), 7, 40).unwrap();
    assert_eq!(short.measured[..], long.measured[..10]);
}

#[test]
fn seed_replicate_and_content_change_every_prompt() {
    let base = PromptSet::generate(&words(), &origin(1, 1), 0, 20).unwrap();
    let other = workload(&json!({"words": {"length": {"from": 30, "to": 61}}}));
    for (workload, origin) in [(words(), origin(2, 1)), (words(), origin(1, 2)), (other, origin(1, 1))] {
        let set = PromptSet::generate(&workload, &origin, 0, 20).unwrap();
        assert!(set.measured.iter().zip(&base.measured).all(|(a, b)| a.text != b.text));
    }
}

#[test]
fn a_description_changes_no_prompt() {
    let described = Workload { description: Some("for readers".to_owned()), ..words() };
    let set = |w: &Workload| PromptSet::generate(w, &origin(1, 1), 2, 5).unwrap();
    assert_eq!(set(&described), set(&words()));
}

#[test]
fn the_first_prompt_is_pinned() {
    let set =
        PromptSet::generate(&workload(&json!({"words": {"length": 6}})), &origin(164, 1), 0, 1).unwrap();
    assert_eq!(set.measured[0].text, "ice laugh young coat unit watch.");
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
    for prompt in &set.measured {
        let first = by_prefix.entry(prompt.prefix.unwrap()).or_insert_with(|| prefix(prompt));
        assert_eq!(*first, prefix(prompt));
    }
    assert_eq!(by_prefix.len(), 2);
    assert_ne!(by_prefix[&0], by_prefix[&1]);
    assert_eq!(texts(&set.measured).iter().collect::<BTreeSet<_>>().len(), 30);
}

#[test]
fn a_mixture_takes_its_parts_by_weight_and_their_output() {
    let mixture = workload(&json!({"mixture": [
        {"name": "long", "weight": 1, "prompts": {"words": {"length": 50}}, "output": {"tokens": 99}},
        {"name": "short", "weight": 3, "prompts": {"words": {"length": 5}}},
    ]}));
    let set = PromptSet::generate(&mixture, &origin(1, 1), 0, 4000).unwrap();
    let long: Vec<_> = set.measured.iter().filter(|p| p.part.as_deref() == Some("long")).collect();
    assert!((900..1100).contains(&long.len()), "{}", long.len());
    assert!(long.iter().all(|p| p.output_tokens == 99 && p.text.split(' ').count() == 50));
}

#[test]
fn a_pack_keeps_its_order_and_refuses_to_repeat_unless_told() {
    let pack = |more: &serde_json::Value| {
        let mut pack = json!({"texts": ["a", "b", "c"]});
        pack.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        workload(&json!({"pack": pack}))
    };
    let set = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 1, 2).unwrap();
    assert_eq!((texts(&set.measured), texts(&set.warmup)), (vec!["a", "b"], vec!["c"]));
    let error = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 0, 4).unwrap_err();
    assert!(error.to_string().contains("holds 3 prompts"), "{error}");
    let set = PromptSet::generate(&pack(&json!({"when-short": "repeat"})), &origin(1, 1), 0, 4).unwrap();
    assert_eq!(texts(&set.measured), ["a", "b", "c", "a"]);
}

#[test]
fn a_pack_file_is_read_and_must_not_change() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": \"x\"}\n\n\"y\"\n").unwrap();
    let path = file.path().to_str().unwrap();
    let digest = Digest::of(&std::fs::read(path).unwrap()).to_string();
    let pack = workload(&json!({"pack": {"file": path, "digest": digest}}));
    assert_eq!(texts(&PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap().measured), ["x", "y"]);
    std::fs::write(file.path(), "\"z\"\n").unwrap();
    assert!(PromptSet::generate(&pack, &origin(1, 1), 0, 1).unwrap_err().to_string().contains("has changed"));
}

#[test]
fn a_trace_decides_the_lengths_of_prompts_and_answers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "timestamp_s,input_tokens,output_tokens\n0,10,33\n1,20,44\n").unwrap();
    let trace = workload(&json!({"trace": {"file": file.path(), "words-per-token": 0.5}}));
    let set = PromptSet::generate(&trace, &origin(1, 1), 1, 2).unwrap();
    let lengths = |p: &Prompt| (p.text.split(' ').count(), p.output_tokens);
    assert_eq!(set.measured.iter().map(lengths).collect::<Vec<_>>(), [(5, 33), (10, 44)]);
    assert_eq!(lengths(&set.warmup[0]), (5, 33));
    let error = PromptSet::generate(&trace, &origin(1, 1), 0, 3).unwrap_err();
    assert!(error.to_string().contains("request 2 has no row"), "{error}");
}

proptest! {
    #[test]
    fn warm_up_prompts_never_equal_measured_ones(length in 1_u32..3, warmup in 0_usize..6, measured in 1_usize..60) {
        let workload = workload(&json!({"words": {"length": length}}));
        let set = PromptSet::generate(&workload, &origin(9, 1), warmup, measured).unwrap();
        prop_assert_eq!((set.warmup.len(), set.measured.len()), (warmup, measured));
        prop_assert!(set.warmup.iter().all(|w| !texts(&set.measured).contains(&w.text.as_str())));
    }

    #[test]
    fn lengths_stay_within_their_range(from in 1_u32..40, more in 0_u32..40) {
        let workload = workload(&json!({"words": {"length": {"from": from, "to": from + more}}}));
        let set = PromptSet::generate(&workload, &origin(9, 1), 0, 20).unwrap();
        for prompt in &set.measured {
            let length = prompt.text.split(' ').count() as u32;
            prop_assert!((from..=from + more).contains(&length));
        }
    }
}
