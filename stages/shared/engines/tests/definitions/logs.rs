//! The lines that engines write to their logs, and the events that their definitions find in them.

use super::*;

/// Returns the events that match a line, each with its fields.
fn events_of(engine: &Engine, line: &str) -> Vec<(String, Vec<(String, String)>)> {
    let fields = |text: &str| {
        let regex = regex_lite::Regex::new(text).unwrap();
        let captures = regex.captures(line)?;
        let names = regex.capture_names().flatten();
        let all = names.filter_map(|n| Some((n.to_owned(), captures.name(n)?.as_str().to_owned())));
        Some(all.collect::<Vec<_>>())
    };
    let matching = engine.log.events.iter().filter_map(|(name, event)| {
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
    matching.collect()
}

#[test]
fn lines_that_engines_write_are_taken_apart() {
    type Fields = &'static [(&'static str, &'static str)];
    let cases: [(&str, &str, &str, Fields); 25] = [
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
            "lmdeploy",
            "[TM][ERROR][1125.22:48:09.054202][LlamaLinear.cu:275] void turbomind::LlamaLinear::Forward(const turbomind::core::Tensor&, const turbomind::core::Tensor&, const turbomind::LinearWeight&, const turbomind::core::Buffer_<int>&, const turbomind::core::Buffer_<int>&, turbomind::core::Ref<turbomind::core::Tensor>, turbomind::core::Ref<turbomind::core::Tensor>): 1",
            "failed-product",
            &[("source", "LlamaLinear.cu")],
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
            "mistral-rs",
            "2026-11-24T08:44:22.437616Z  INFO mistralrs_core::engine::logger: Throughput (T/s) 11.80, Prefix cache hitrate 0.00%, 1 running, 0 waiting",
            "throughput",
            &[
                ("time", "2026-11-24T08:44:22"),
                ("tokens_per_second", "11.80"),
                ("prefix_hits_percent", "0.00"),
                ("running", "1"),
                ("waiting", "0"),
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
        // A model with sliding windows, on a processor.
        (
            "sglang",
            "[2025-12-10 10:38:08] Decode batch, #running-req: 2, #full token: 921, full token usage: 0.02, #swa token: 512, swa token usage: 0.01, cpu graph: False, gen throughput (token/s): 18.77, #queue-req: 0",
            "decode-batch",
            &[
                ("time", "2025-12-10 10:38:08"),
                ("running_requests", "2"),
                ("tokens", "921"),
                ("token_usage", "0.02"),
                ("cuda_graph", "False"),
                ("output_throughput", "18.77"),
                ("queued_requests", "0"),
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
            "vllm",
            "(APIServer pid=7) INFO 11-21 07:00:10 [loggers.py:127] Engine 000: Avg prompt throughput: 6.6 tokens/s, Avg generation throughput: 2.9 tokens/s, Running: 1 reqs, Waiting: 0 reqs, CPU KV cache usage: 1.5%, Prefix cache hit rate: 0.0%",
            "throughput",
            &[
                ("time", "11-21 07:00:10"),
                ("prompt_throughput", "6.6"),
                ("output_throughput", "2.9"),
                ("engine", "000"),
                ("running_requests", "1"),
                ("waiting_requests", "0"),
                ("kv_cache_percent", "1.5"),
                ("prefix_hit_percent", "0.0"),
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
        let events = events_of(&engine(name), line);
        let fields = fields
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        assert_eq!(events, [(event.to_owned(), fields)], "{line}");
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
    let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].starts_with("`(` is not a regular expression"));
    assert_eq!(
        messages[1],
        "`\\d+` has no named group, so it has no result"
    );
    assert_eq!(
        messages[2],
        "`timeless` has a group `time` but does not give its format"
    );
}

#[test]
fn the_cause_of_a_failed_start_is_quoted_and_not_what_follows_it() {
    let log = "\
(EngineCore pid=12) ERROR 11-29 18:24:10 [core.py:1100] EngineCore failed to start.
(EngineCore pid=12) ERROR 11-29 18:24:10 [core.py:1100] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-29 18:24:10 [core.py:1100] ValueError: Tensor parallel size (4) does not divide the number of attention heads (9).
(EngineCore pid=12) Process EngineCore:
(EngineCore pid=12) Traceback (most recent call last):
(EngineCore pid=12) ValueError: Tensor parallel size (4) does not divide the number of attention heads (9).
[rank0]:[W1129 18:24:11.0 ProcessGroupNCCL.cpp:1553] Warning: WARNING: destroy_process_group() was not called before program exit
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File \"/x/vllm/entrypoints/openai/api_server.py\", line 1, in <module>
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
";
    assert_eq!(
        engine("vllm").log.last_error(log),
        Some(
            "(EngineCore pid=12) ValueError: Tensor parallel size (4) does not divide the number of attention heads (9)."
        )
    );
}

/// Returns the known failures that a log shows.
fn failures(engine: &Engine, log: &str) -> Vec<String> {
    let shown = |line: &str| regex_lite::Regex::new(line).unwrap().is_match(log);
    let failures = engine.log.failures.iter();
    failures
        .filter(|(_, failure)| shown(&failure.line))
        .map(|(name, _)| name.clone())
        .collect()
}

const PYTHON: [&str; 6] = [
    "vllm",
    "sglang",
    "lmdeploy",
    "tensorrt-llm",
    "mlx-lm",
    "transformers-serve",
];

#[test]
fn weights_that_do_not_exist_are_no_weights_with_restricted_access() {
    let mistyped = "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/models/Qwen/Qwen3-0.6
huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-68)
Repository Not Found for url: https://huggingface.co/api/models/Qwen/Qwen3-0.6.
OSError: Qwen/Qwen3-0.6 is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'
";
    let gated = "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-69)
Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.2-1B/resolve/main/config.json.
OSError: You are trying to access a gated repo.
";
    for name in PYTHON.into_iter().chain(["tgi"]) {
        assert_eq!(
            failures(&engine(name), mistyped),
            ["no-such-weights"],
            "{name}"
        );
        assert_eq!(failures(&engine(name), gated), ["gated"], "{name}");
    }
}

#[test]
fn a_flag_of_another_version_is_a_known_failure() {
    let argparse = "usage: launch_server.py [-h] --model-path MODEL_PATH
launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill
";
    let unknown = "api_server.py: error: unrecognized arguments: --enable-prompt-tokens-details\n";
    let click = "Error: No such option: --cb-block-size\n";
    for name in PYTHON.into_iter().chain(["llama-cpp-python"]) {
        for log in [argparse, unknown, click] {
            assert_eq!(failures(&engine(name), log), ["no-flag"], "{name}: {log}");
        }
    }
    assert_eq!(
        failures(&engine("sglang-router"), unknown),
        ["other-options"]
    );
}
