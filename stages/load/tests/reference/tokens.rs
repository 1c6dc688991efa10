//! Lengths in tokens: the counter, and the counts in the prompt set.

use std::path::{Path, PathBuf};

use crate::canned::{Canned, document, events};
use crate::common::Run;
use crate::stage::NoShelf;
use artifacts::{Digest, Scalar, Table};
use contract::{Api, Phase, TokenSource};
use load::{
    Delivery, LengthSource, Load, LoadSpec, Origin, Prompt, PromptSet, Settings, Target, Workload,
    run_load, tables,
};
use pipeline::sources::{NamedFile, NamedFiles};
use pipeline::stage::{Control, Coordinates, Json, StageKind};
use serde_json::json;

/// Writes a `tokenizer.json` whose tokens are single characters: a BPE without merges.
pub(crate) fn tokenizer(folder: &Path, more: &str) -> PathBuf {
    let characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,-'";
    let vocabulary: serde_json::Map<String, Json> = characters
        .chars()
        .chain(more.chars())
        .enumerate()
        .map(|(i, c)| (c.to_string(), json!(i + 1)))
        .chain([("?".to_owned(), json!(0))])
        .collect();
    let text = json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "?", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        },
    });
    let path = folder.join("tokenizer.json");
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

fn workload(more: &Json) -> Workload {
    let mut workload = json!({
        "prompts": {"words": {"length": {"tokens": {"from": 40, "to": 90}}}},
        "output": {"tokens": 3},
    });
    workload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(workload).unwrap()
}

fn origin() -> Origin {
    Origin {
        seed: 7,
        replicate: Coordinates::default(),
    }
}

fn measured(set: &PromptSet) -> Vec<Prompt> {
    set.of(Phase::Measured).unwrap()
}

fn texts(set: &PromptSet) -> Vec<String> {
    measured(set).into_iter().map(|p| p.text).collect()
}

#[test]
fn a_tokenizer_file_counts_exactly_and_its_digest_is_in_the_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = tokenizer(folder.path(), "");
    let fixed = json!({
        "prompts": {"shared-prefix": {"prefix": {"tokens": 50}, "suffix": {"tokens": 33}}},
        "tokenizer": {"file": file},
    });
    let set = PromptSet::generate(&workload(&fixed), &origin(), 2, 8).unwrap();
    let digest = Digest::of(&std::fs::read(&file).unwrap()).to_string();
    assert_eq!(set.length_source, LengthSource::TokenizerFile);
    assert_eq!(set.tokenizer.as_deref(), Some(digest.as_str()));
    let prompts = measured(&set);
    for prompt in &prompts {
        // One character is one token.
        let counted = prompt.tokens.unwrap() as usize;
        assert_eq!(counted, prompt.text.chars().count());
        assert_eq!(counted, 83);
        assert_eq!(prompt.text[..50], prompts[0].text[..50]);
    }
    let table = set.table().unwrap();
    assert_eq!(
        table.metadata("length_source").as_deref(),
        Some("tokenizer-file")
    );
    assert_eq!(
        table.metadata("tokenizer").as_deref(),
        Some(digest.as_str())
    );
}

fn tokenizer_of(parameters: &Json) -> &Json {
    &parameters["workload"]["tokenizer"]
}

#[test]
fn another_tokenizer_makes_other_prompts_and_another_place_of_the_same_does_not() {
    let folders = [
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    ];
    let made: Vec<(Json, PromptSet)> = folders
        .iter()
        .zip(["", "", "é"])
        .map(|(folder, more)| {
            let path = tokenizer(folder.path(), more);
            let workload = workload(&json!({"tokenizer": {"file": path}}));
            let settings = json!({"workload": workload, "arrival": "sequential", "requests": 5});
            // Planning puts the digest of the file beside its name, and therefore into the key.
            let parameters = Load.canonical(&settings, &NoShelf::default()).unwrap();
            let mut settings: Settings = serde_json::from_value(parameters.clone()).unwrap();
            let source = NamedFile {
                name: "tokenizer.json".to_owned(),
                digest: serde_json::from_value(tokenizer_of(&parameters)["digest"].clone())
                    .unwrap(),
                path,
                stamp: None,
                sent: None,
            };
            settings.files = NamedFiles::new([source], folder.path(), None);
            let spec = LoadSpec::new(settings, origin()).unwrap();
            (parameters, spec.prompts)
        })
        .collect();
    let digest = |i: usize| tokenizer_of(&made[i].0)["digest"].clone();
    assert!(digest(0).is_string() && digest(0) == digest(1) && digest(0) != digest(2));
    assert_eq!(texts(&made[0].1), texts(&made[1].1));
    assert_ne!(texts(&made[0].1), texts(&made[2].1));
}

#[test]
fn a_tokenizer_that_changed_after_planning_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = tokenizer(folder.path(), "");
    let stale = workload(&json!({"tokenizer": {"file": file, "digest": "b3:0"}}));
    let error = PromptSet::generate(&stale, &origin(), 0, 1).unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
}

#[test]
fn recorded_answers_and_recorded_prompt_lengths_are_counted_by_the_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer(folder.path(), "");
    let dataset = folder.path().join("talks.json");
    let history = json!([{"conversations": [{"from": "human", "value": "well"}, {"from": "gpt", "value": "indeed"}]}]);
    std::fs::write(&dataset, history.to_string()).unwrap();
    let recorded = workload(&json!({
        "prompts": {"dataset": {"file": dataset, "recorded-output": true}},
        "tokenizer": {"file": tokenizer},
    }));
    let set = PromptSet::generate(&recorded, &origin(), 0, 1).unwrap();
    let first = |set: &PromptSet| measured(set).swap_remove(0);
    assert_eq!(
        (first(&set).tokens, first(&set).output_tokens),
        (Some(4), 6)
    );
    assert_eq!(set.length_source, LengthSource::Given);
    let trace = folder.path().join("trace.jsonl");
    std::fs::write(
        &trace,
        "{\"timestamp\": 0, \"input_length\": 77, \"output_length\": 5}",
    )
    .unwrap();
    let replayed =
        workload(&json!({"prompts": {"trace": {"file": trace}}, "tokenizer": {"file": tokenizer}}));
    let set = PromptSet::generate(&replayed, &origin(), 0, 1).unwrap();
    assert_eq!(
        (first(&set).tokens, first(&set).output_tokens),
        (Some(77), 5)
    );
    assert_eq!(set.length_source, LengthSource::TokenizerFile);
}

#[test]
fn answers_without_usage_are_counted_by_the_tokenizer_and_never_against_usage() {
    let folder = tempfile::tempdir().unwrap();
    let workload = workload(&json!({"tokenizer": {"file": tokenizer(folder.path(), "")}}));
    let counted = |workload: &Workload, usage: Option<i64>, delivery: Delivery| {
        let server = Canned::start(move |_| {
            let last = json!({"choices": [{"text": "", "finish_reason": "stop"}],
                "usage": usage.map(|n| json!({"completion_tokens": n}))});
            match delivery {
                // Two chunks of six characters.
                Delivery::Streamed => events(&[
                    json!({"choices": [{"text": "well, "}]}),
                    json!({"choices": [{"text": "indeed"}]}),
                    last,
                ]),
                Delivery::Whole => document(
                    &json!({"choices": [{"text": "well, indeed", "finish_reason": "stop"}]}),
                ),
            }
        });
        let run = Run {
            requests: 1,
            delivery,
            ..Run::default()
        };
        let spec = LoadSpec {
            workload: workload.clone(),
            ..run.spec()
        };
        let result = run_load(&spec, &run.target(server.url.clone()), &Control::quiet()).unwrap();
        (
            result.requests[0].output_tokens,
            result.requests[0].tokens_source,
        )
    };
    let bare = Workload {
        tokenizer: None,
        ..workload.clone()
    };
    let (streamed, whole) = (Delivery::Streamed, Delivery::Whole);
    assert_eq!(
        counted(&workload, None, streamed),
        (Some(12), Some(TokenSource::Tokenizer))
    );
    assert_eq!(
        counted(&workload, None, whole),
        (Some(12), Some(TokenSource::Tokenizer))
    );
    assert_eq!(
        counted(&workload, Some(3), streamed),
        (Some(3), Some(TokenSource::Usage))
    );
    assert_eq!(
        counted(&bare, None, streamed),
        (Some(2), Some(TokenSource::Chunks))
    );
    assert_eq!(counted(&bare, None, whole), (None, None));
}

/// Returns a server with a token for each word, which answers prompts with "x". `shape` is the form of its answer, and
/// `shift` makes its vocabulary different from others.
fn counting_server(shape: fn(Vec<i64>) -> Json, shift: i64) -> Canned {
    Canned::start(move |asked| {
        if asked.path != "/tokenize" {
            return events(
                &[json!({"choices": [{"text": "x", "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 41, "completion_tokens": 1}})],
            );
        }
        let text = asked.body["content"].as_str().unwrap();
        assert!(asked.body["prompt"] == text && asked.body["inputs"] == text);
        document(&shape(
            text.split_whitespace()
                .map(|word| word.len() as i64 + shift)
                .collect(),
        ))
    })
}

fn served(url: &str, fingerprint: Option<&str>) -> Result<LoadSpec, String> {
    let server = fingerprint.map_or_else(|| json!({}), |digest| json!({"fingerprint": digest}));
    let settings: Settings = serde_json::from_value(json!({
        "workload": workload(&json!({"tokenizer": {"server": server}})),
        "arrival": "sequential",
        "requests": 4,
    }))
    .unwrap();
    LoadSpec::for_target(settings, origin(), &target(url), &std::env::temp_dir())
        .map_err(|e| e.to_string())
}

fn target(url: &str) -> Target {
    Target {
        api: Api::OpenaiCompletions,
        ..Run::default().target(url.to_owned())
    }
}

/// Returns a chat server whose template adds four tokens before a message and two after it, and one for each word of a
/// system message.
fn chatting_server(applies: bool) -> Canned {
    Canned::start(move |asked| match asked.path.as_str() {
        "/apply-template" if applies => {
            let said = |role: &str| {
                let messages = asked.body["messages"].as_array().unwrap().iter();
                let texts = messages
                    .filter(|m| m["role"] == role)
                    .map(|m| m["content"].as_str().unwrap());
                texts.collect::<Vec<_>>().join(" ")
            };
            document(
                &json!({"prompt": format!("<s> {} <u> = = {} </u> <a>", said("system"), said("user"))}),
            )
        }
        "/tokenize" => {
            let text = asked.body["content"].as_str().unwrap();
            // Marks are separate tokens only if the complete prompt is tokenized.
            assert_eq!(asked.body["parse_special"], json!(text.contains("<u>")));
            assert_eq!(asked.body["parse_special"], asked.body["add_special"]);
            let tokens: Vec<usize> = text.split_whitespace().map(str::len).collect();
            document(&json!({"tokens": tokens}))
        }
        _ => document(&json!({"error": "no such path"})),
    })
}

fn chat(url: &str, more: &Json, tokens: u32) -> Result<PromptSet, String> {
    let mut asked =
        json!({"prompts": {"words": {"length": {"tokens": tokens}}}, "tokenizer": {"server": {}}});
    for (key, value) in more.as_object().unwrap() {
        asked[key] = value.clone();
    }
    let settings: Settings = serde_json::from_value(
        json!({"workload": workload(&asked), "arrival": "sequential", "requests": 2}),
    )
    .unwrap();
    let target = Target {
        api: Api::OpenaiChat,
        ..target(url)
    };
    let spec = LoadSpec::for_target(settings, origin(), &target, &std::env::temp_dir());
    spec.map(|spec| spec.prompts).map_err(|e| e.to_string())
}

#[test]
fn a_chat_prompt_has_its_length_with_the_servers_template_around_it() {
    let server = chatting_server(true);
    let words = |set: &PromptSet| {
        texts(set)
            .iter()
            .map(|t| t.split_whitespace().count())
            .collect::<Vec<_>>()
    };
    let set = chat(&server.url, &json!({}), 40).unwrap();
    assert_eq!(set.length_source, LengthSource::ServerTemplate);
    assert!(
        measured(&set)
            .iter()
            .all(|prompt| prompt.tokens == Some(40))
    );
    assert_eq!(words(&set), [34, 34]);
    let set = chat(&server.url, &json!({"system": "be brief"}), 40).unwrap();
    assert_eq!(words(&set), [32, 32]);
    let prefix = json!({"shared-prefix": {"prefix": {"tokens": 20}, "suffix": {"tokens": 10}}});
    let set = chat(&server.url, &json!({"prompts": prefix}), 0).unwrap();
    assert_eq!(words(&set), [24, 24]);
}

#[test]
fn the_template_is_left_out_where_asked_for_in_sessions_and_where_the_server_does_not_tell_it() {
    let (telling, silent) = (chatting_server(true), chatting_server(false));
    let left_out = json!({"tokenizer": {"server": {"template": "left-out"}}});
    for (server, more) in [
        (&telling, left_out),
        (
            &telling,
            json!({"sessions": {"turns": 2, "think-time": "0 s"}}),
        ),
        (&silent, json!({})),
    ] {
        let set = chat(&server.url, &more, 40).unwrap();
        assert_eq!(set.length_source, LengthSource::ServerTokenizer, "{more}");
        assert!(
            texts(&set)
                .iter()
                .all(|text| text.split_whitespace().count() == 40),
            "{more}"
        );
    }
}

#[test]
fn a_length_that_the_template_alone_exceeds_is_reported_with_a_remedy() {
    let error = chat(&chatting_server(true).url, &json!({}), 6).unwrap_err();
    assert!(
        error.contains(
            "no prompt can have 6 tokens, because the server's chat template alone takes 6"
        ),
        "{error}"
    );
    assert!(error.contains("template: left-out"), "{error}");
}

#[test]
fn the_servers_own_tokenizer_counts_in_every_servers_form_of_answer() {
    let shapes: [fn(Vec<i64>) -> Json; 3] = [
        |tokens| json!({"tokens": tokens}),
        |tokens| json!({"count": tokens.len(), "max_model_len": 9, "tokens": tokens}),
        |tokens| {
            tokens
                .into_iter()
                .map(|id| json!({"id": id, "text": "", "start": 0, "stop": 0}))
                .collect()
        },
    ];
    let mut all = Vec::new();
    for shape in shapes {
        let server = counting_server(shape, 0);
        let spec = served(&server.url, None).unwrap();
        assert_eq!(spec.prompts.length_source, LengthSource::ServerTokenizer);
        for prompt in &measured(&spec.prompts) {
            let words = prompt.text.split_whitespace().count();
            assert_eq!(prompt.tokens, Some(words as u32));
            assert!((40..=90).contains(&words), "{words}");
        }
        let result = run_load(&spec, &target(&server.url), &Control::quiet()).unwrap();
        let tables = tables(&spec, &result).unwrap();
        let cell: &Table = &tables.iter().find(|(name, _)| *name == "cell").unwrap().1;
        assert_eq!(
            cell.value("length_source", 0).unwrap(),
            Scalar::Text("server-tokenizer".to_owned())
        );
        assert_eq!(cell.value("prompt_tokens_min", 0).unwrap(), Scalar::Int(41));
        assert_eq!(
            cell.value("prompt_tokens_mean", 0).unwrap(),
            Scalar::Float(41.0)
        );
        all.push(spec.prompts.table().unwrap());
    }
    // Different servers that tokenize alike get the same prompts.
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_server_that_tokenizes_otherwise_than_declared_is_refused() {
    let (one, other) = (
        counting_server(|t| json!({"tokens": t}), 0),
        counting_server(|t| json!({"tokens": t}), 1),
    );
    let fingerprint = served(&one.url, None).unwrap().prompts.tokenizer.unwrap();
    assert!(served(&one.url, Some(&fingerprint)).is_ok());
    let error = served(&other.url, Some(&fingerprint)).unwrap_err();
    assert!(
        error.contains("tokenizes differently") && error.contains(&fingerprint),
        "{error}"
    );
}

#[test]
fn a_server_that_cannot_count_is_reported_with_the_remedy() {
    let server = Canned::start(|_| vec![b"HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno".to_vec()]);
    let error = served(&server.url, None).unwrap_err();
    assert!(
        error.contains("HTTP 404 no") && error.contains("tokenizer: {file: …}"),
        "{error}"
    );
}

#[test]
fn an_api_without_a_tokenize_endpoint_is_refused_while_planning() {
    let settings = json!({
        "workload": workload(&json!({"tokenizer": {"server": {}}})),
        "arrival": "sequential", "requests": 4, "api": "ollama-chat",
    });
    let problems = Load.canonical(&settings, &NoShelf::default()).unwrap_err();
    assert!(
        problems[0]
            .message
            .contains("speaks ollama-chat does not count tokens")
    );
}
