//! Every shipped workload runs against the reference server, with reduced counts only.

use std::collections::BTreeSet;

use crate::common::{Run, prompts};
use contract::{Api, RequestStatus};
use load::reference::{Behaviour, ReferenceServer};
use load::{Load, LoadSpec, Origin, Settings, Target, run_load, shipped};
use pipeline::language::{NoFiles, Options, load_text};
use pipeline::stage::{Control, Coordinates, Json, Registry};
use serde_json::json;

fn registry() -> Registry {
    Registry {
        kinds: vec![Box::new(Load)],
        shipped: shipped(),
        collections: load::collections(),
    }
}

/// These load stages have no server, because they are parts of studies.
fn part() -> Options {
    Options {
        partial: true,
        ..Options::default()
    }
}

/// Returns the shipped workloads.
fn workloads() -> Vec<pipeline::Shipped> {
    shipped()
        .into_iter()
        .filter(|s| s.collection == "workloads")
        .collect()
}

/// Returns the settings of a load stage with a shipped workload, as in an experiment.
fn settings(workload: &str, count: &Json) -> Json {
    let mut stage = json!({"kind": "load", "workload": workload, "arrival": "sequential"});
    stage
        .as_object_mut()
        .unwrap()
        .extend(count.as_object().unwrap().clone());
    let text = json!({"experiment": "studies", "seed": 1, "stages": {"load": stage}}).to_string();
    let path = std::path::Path::new("studies.yaml");
    let experiment = load_text(&text, path, &registry(), &part(), &NoFiles)
        .unwrap_or_else(|e| panic!("{workload}: {e:?}"));
    experiment.stages.raw[0].parameter_sets[0].clone()
}

fn spec(workload: &str, count: &Json) -> LoadSpec {
    let settings: Settings = serde_json::from_value(settings(workload, count)).unwrap();
    LoadSpec::new(
        settings,
        Origin {
            seed: 1,
            replicate: Coordinates::default(),
        },
    )
    .unwrap()
}

#[test]
fn every_shipped_workload_runs() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let target = Target {
        api: Api::OpenaiChat,
        ..Run::default().target(server.url())
    };
    for workload in workloads() {
        let spec = spec(workload.name, &json!({"requests": 4, "warmup": 1}));
        let result = run_load(&spec, &target, &Control::quiet()).unwrap();
        // The reference server ignores schemas, so its answers to requests with one are invalid.
        let expected = match spec.workload.structured {
            Some(_) => RequestStatus::InvalidOutput,
            None => RequestStatus::Ok,
        };
        assert_eq!(
            result.statuses(),
            [(expected, 4)].into(),
            "{}",
            workload.name
        );
        for (row, prompt) in result.requests[1..].iter().zip(&prompts(&spec)) {
            assert_eq!(
                row.requested_output_tokens,
                Some(i64::from(prompt.output_tokens)),
                "{}",
                workload.name
            );
            assert_eq!(
                row.output_tokens, row.requested_output_tokens,
                "{}",
                workload.name
            );
        }
    }
}

#[test]
fn no_two_shipped_workloads_are_one_and_the_same() {
    let contents = workloads().into_iter().map(|w| {
        let settings = settings(w.name, &json!({"requests": 1}));
        settings["workload"].to_string()
    });
    assert_eq!(contents.collect::<BTreeSet<_>>().len(), workloads().len());
}

#[test]
fn published_shapes_say_whose_they_are_and_what_in_them_is_ours() {
    for workload in workloads() {
        let names = [
            ("tr164-v1-", "TR164 V1"),
            ("tr164-v3-", "TR164 V3"),
            ("harness-", "vLLM-SGLang harness"),
            ("infer-", "infer, "),
            ("sglang-", "SGLang journey"),
        ];
        if let Some((_, study)) = names
            .iter()
            .find(|(prefix, _)| workload.name.starts_with(prefix))
        {
            assert!(workload.text.contains(study), "{}", workload.name);
            let guessed =
                workload.text.contains("ot published") && !workload.text.contains("published with");
            let admitted = ["our own", "ours", "our choice", "Our choice"]
                .iter()
                .any(|w| workload.text.contains(w));
            assert!(!guessed || admitted, "{}", workload.name);
        }
    }
}

#[test]
fn sessions_of_five_turns_on_average_grow_as_planned() {
    let spec = spec("sglang-multi-turn", &json!({"sessions": 400}));
    let turns = prompts(&spec);
    let sessions = turns.last().unwrap().session.unwrap() + 1;
    let mean = turns.len() as f64 / sessions as f64;
    // Geometric of mean 5: standard deviation √20, standard error 0.22 over 400 sessions.
    assert!((4.2..5.8).contains(&mean), "{mean}");
    for prompt in &turns {
        let words = prompt.text.split(' ').count();
        assert_eq!(words, if prompt.turn == Some(1) { 459 } else { 92 });
    }
}

#[test]
fn six_in_ten_prompts_share_their_prefix_where_a_study_says_so() {
    let spec = spec("harness-prefix-sharing", &json!({"requests": 1000}));
    let prompts = prompts(&spec);
    let shared = prompts.iter().filter(|p| p.prefix.is_some()).count();
    assert!((550..650).contains(&shared), "{shared}");
    assert!(prompts.iter().all(|p| p.text.split(' ').count() >= 540));
}

#[test]
fn two_names_for_one_workload_are_refused_with_both() {
    let plan = |second: &Json, names: &[&str]| {
        let text = json!({
            "experiment": "twins",
            "seed": 1,
            "axes": {"w": names},
            "workloads": {
                "mine": {"extends": "short-decode"},
                "other": second,
            },
            "stages": {"load": {
                "kind": "load", "over": ["w"], "workload": "${w}", "arrival": "sequential", "requests": 2,
            }},
        })
        .to_string();
        load_text(
            &text,
            std::path::Path::new("twins.yaml"),
            &registry(),
            &part(),
            &NoFiles,
        )
        .map(|_| ())
        .map_err(|e| e.0[0].message.clone())
    };
    let same = json!({"extends": "short-decode", "description": "of another name only"});
    let error = plan(&same, &["mine", "other"]).unwrap_err();
    assert!(
        error.contains("`mine` and `other` differ only in name"),
        "{error}"
    );
    let error = plan(&same, &["short-decode", "mine"]).unwrap_err();
    assert!(error.contains("`short-decode` and `mine`"), "{error}");
    assert_eq!(plan(&same, &["mine"]), Ok(()));
    let differs = json!({"extends": "short-decode", "output": {"tokens": 25}});
    assert_eq!(plan(&differs, &["mine", "other"]), Ok(()));
}

#[test]
fn one_file_in_two_places_is_one_workload() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        json!({"prompts": {"pack": {"file": path}}, "output": {"tokens": 4}})
    };
    let plan = |second: &str| {
        let text = json!({
            "experiment": "places",
            "seed": 1,
            "axes": {"w": ["chat", "code"]},
            "workloads": {"chat": pack("a.jsonl", "\"say yes\"\n"), "code": pack("b.jsonl", second)},
            "stages": {"load": {
                "kind": "load", "over": ["w"], "workload": "${w}", "arrival": "sequential", "requests": 1,
            }},
        })
        .to_string();
        load_text(
            &text,
            std::path::Path::new("places.yaml"),
            &registry(),
            &part(),
            &NoFiles,
        )
        .map(|_| ())
        .map_err(|e| e.0[0].message.clone())
    };
    let error = plan("\"say yes\"\n").unwrap_err();
    assert!(
        error.contains("`chat` and `code` differ only in name"),
        "{error}"
    );
    assert_eq!(plan("\"say no\"\n"), Ok(()));
}

#[test]
fn one_workload_written_under_two_labels_is_refused() {
    let workload =
        |tokens: u32| json!({"prompts": {"words": {"length": 8}}, "output": {"tokens": tokens}});
    let plan = |code: u32| {
        let text = json!({
            "experiment": "labels",
            "seed": 1,
            "axes": {"task": {"chat": {"workload": workload(4)}, "code": {"workload": workload(code)}}, "rep": [1, 2]},
            "stages": {"load": {
                "kind": "load", "over": ["task", "rep"], "workload": "${task.workload}",
                "arrival": "sequential", "requests": 1,
            }},
        })
        .to_string();
        load_text(
            &text,
            std::path::Path::new("labels.yaml"),
            &registry(),
            &part(),
            &NoFiles,
        )
        .map(|_| ())
        .map_err(|e| e.0[0].message.clone())
    };
    let error = plan(4).unwrap_err();
    assert!(
        error.contains("task=chat,rep=1 and task=code,rep=1 are the same measurement"),
        "{error}"
    );
    assert_eq!(plan(5), Ok(()));
}

#[test]
fn a_length_in_tokens_that_nothing_can_count_is_refused_while_planning() {
    let text = json!({
        "experiment": "uncounted",
        "seed": 1,
        "stages": {"load": {
            "kind": "load", "arrival": "sequential", "requests": 2,
            "workload": {"prompts": {"words": {"length": {"tokens": 64}}}, "output": {"tokens": 2}},
        }},
    })
    .to_string();
    let path = std::path::Path::new("uncounted.yaml");
    let error = load_text(&text, path, &registry(), &part(), &NoFiles)
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.0[0]
            .message
            .contains("needs something that counts tokens"),
        "{}",
        error.0[0].message
    );
}
