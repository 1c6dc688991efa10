//! Command lines of other tools, and the commands that they become.

use super::*;

fn words(line: &str) -> Vec<String> {
    let all = std::iter::once("benchtrail").chain(line.split_whitespace());
    all.map(str::to_owned).collect()
}

fn explanation(line: &str) -> String {
    explained(&words(line)).unwrap_or_else(|| panic!("nothing differs in {line}"))
}

/// The usual command lines of other tools, from their own pages.
#[test]
fn a_command_line_of_another_tool_is_translated_as_a_whole() {
    for (theirs, ours) in [
        (
            "bench serve --backend vllm --model Org/M --endpoint /v1/completions --dataset-name random \
             --random-input-len 1024 --random-output-len 128 --num-prompts 100 --request-rate 10 --ignore-eos \
             --percentile-metrics ttft,tpot,itl --metric-percentiles 50,99 --seed 42 --save-result --result-dir out",
            "http://127.0.0.1:8000 --model Org/M --random-input-len 1024 --random-output-len 128 --num-prompts 100 \
             --request-rate 10 --seed 42 --save-result --result-dir out",
        ),
        (
            "load --host 10.0.0.5 --port 30000 --backend sglang --num-prompts 64 --max-concurrency 8 \
             --apply-chat-template --disable-tqdm",
            "http://10.0.0.5:30000 --num-prompts 64 --max-concurrency 8 --api openai-chat",
        ),
        (
            "bench serve --backend openai-chat --endpoint /v1/chat/completions --base-url http://10.0.0.5:8000/v1 \
             --max_concurrency 8 --num_prompts 8 --trust-remote-code",
            "http://10.0.0.5:8000 --api openai-chat --max-concurrency 8 --num-prompts 8 --input-len 1024 --output-len 128",
        ),
        (
            "benchmark run --target http://10.0.0.5:8000 --rate-type concurrent --rate 1 8 64 --max-seconds 30 \
             --processor Org/M",
            "http://10.0.0.5:8000 --concurrency 1,8,64 --max-seconds 30",
        ),
        (
            "profile --model M --url http://10.0.0.5:8000 --endpoint-type chat --streaming --concurrency 10 \
             --request-count 100 --synthetic-input-tokens-mean 200 --output-tokens-mean 50 --artifact-dir out",
            "http://10.0.0.5:8000 --model M --api openai-chat --concurrency 10 --request-count 100 --input-len 200 \
             --output-len 50 --out out",
        ),
        (
            "load http://10.0.0.5:8000 -n 100 -c 8 -m M",
            "http://10.0.0.5:8000 --requests 100 --concurrency 8 --model M",
        ),
    ] {
        let message = explanation(theirs);
        let expected = format!(": benchtrail load {ours}");
        assert!(message.ends_with(&expected), "{message}\n{expected}");
    }
}

/// The beginnings of the same command lines, as people paste them.
#[test]
fn a_command_line_may_begin_with_the_name_of_its_program() {
    for (theirs, ours) in [
        (
            "vllm bench serve --model M --base-url http://10.0.0.5:8000",
            "http://10.0.0.5:8000 --model M --rate inf --requests 1000 --input-len 1024 --output-len 128",
        ),
        (
            "guidellm benchmark --target http://10.0.0.5:8000 --rate-type concurrent --rate 1,8 --max-seconds 30 \
             --data prompt_tokens=256,output_tokens=128",
            "http://10.0.0.5:8000 --concurrency 1,8 --max-seconds 30 --input-len 256 --output-len 128",
        ),
        (
            "guidellm benchmark run --target http://10.0.0.5:8000/v1 --profile poisson --rate 5 \
             --data {\"prompt_tokens\":256,\"output_tokens\":128}",
            "http://10.0.0.5:8000 --rate 5 --input-len 256 --output-len 128",
        ),
        (
            "aiperf profile -m M --url http://10.0.0.5:8000 --endpoint-type chat --streaming --concurrency 10",
            "http://10.0.0.5:8000 --model M --api openai-chat --concurrency 10 --requests 20 --input-len 550",
        ),
        (
            "genai-perf profile -m M -u 10.0.0.5:8000 --concurrency 4",
            "http://10.0.0.5:8000 --model M --concurrency 4 --input-len 550 --no-stream",
        ),
        (
            "python3 -m sglang.bench_serving --backend vllm --host 10.0.0.5 --port 30000 --num-prompts 10",
            "http://10.0.0.5:30000 --num-prompts 10 --rate inf",
        ),
        (
            "python benchmarks/benchmark_serving.py --port 8000 --num-prompts 10",
            "http://127.0.0.1:8000 --num-prompts 10 --rate inf",
        ),
        (
            "python benchmarks/benchmark_serving.py --dataset-name random --num-prompts 10",
            "http://127.0.0.1:8000 --num-prompts 10 --rate inf --input-len 1024 --output-len 128",
        ),
        (
            "python token_benchmark_ray.py --model M --mean-input-tokens 550 --mean-output-tokens 150 \
             --num-concurrent-requests 4 --max-num-completed-requests 20 --timeout 600 --llm-api openai --results-dir out",
            "http://127.0.0.1:8000 --model M --input-len 550 --output-len 150 --concurrency 4 --requests 20 \
             --duration 600s --api openai-chat --out out",
        ),
        (
            "uv run vllm bench serve --port 9000 --num-prompts 10",
            "http://127.0.0.1:9000 --num-prompts 10 --rate inf --input-len 1024 --output-len 128",
        ),
        (
            "k6 run --vus 10 --duration 30s script.js",
            "http://127.0.0.1:8000 --concurrency 10 --duration 30s",
        ),
        (
            "locust -f locustfile.py --headless -u 10 -r 2 --host http://10.0.0.5:8000 -t 30s",
            "http://10.0.0.5:8000 --concurrency 10 --duration 30s",
        ),
        (
            "wrk -t4 -c10 -d30s -s post.lua http://10.0.0.5:8000/v1/chat/completions",
            "http://10.0.0.5:8000 --concurrency 10 --duration 30s --api openai-chat",
        ),
        (
            "hey -n 100 -c 10 http://10.0.0.5:8000",
            "http://10.0.0.5:8000 --requests 100 --concurrency 10",
        ),
    ] {
        let message = explanation(theirs);
        let expected = format!(": benchtrail load {ours}");
        assert!(message.ends_with(&expected), "{message}\n{expected}");
    }
}

/// Without an option, each tool does something else than `load`.
#[test]
fn the_other_tools_own_defaults_are_added() {
    for (theirs, hint) in [
        (
            "vllm bench serve",
            "hint: the same load: benchtrail load http://127.0.0.1:8000 --rate inf --requests 1000 --input-len 1024 \
             --output-len 128",
        ),
        (
            "vllm bench serve --max-concurrency 4",
            "hint: the same load: benchtrail load http://127.0.0.1:8000 --max-concurrency 4 --requests 1000 \
             --input-len 1024 --output-len 128",
        ),
        (
            "python3 -m sglang.bench_serving --dataset-name random --request-rate 2",
            "hint: the same load: benchtrail load http://127.0.0.1:30000 --request-rate 2 --requests 1000 \
             --input-len 1..1024 --output-len 1..1024 --api sglang-generate",
        ),
        (
            "python3 -m sglang.bench_serving --dataset-name random --random-input-len 64 --random-output-len 8 \
             --random-range-ratio 1 --backend vllm --num-prompts 4 --request-rate 2",
            "hint: the same load: benchtrail load http://127.0.0.1:8000 --random-input-len 64 --random-output-len 8 \
             --num-prompts 4 --request-rate 2",
        ),
        (
            "python3 -m sglang.bench_serving --dataset-name random --random-input 64 --random-output 8 --port 1",
            "hint: the same load: benchtrail load http://127.0.0.1:1 --input-len 1..64 --output-len 1..8 --rate inf \
             --requests 1000 --api sglang-generate",
        ),
        (
            "python3 -m sglang.bench_serving --port 1",
            "hint: a similar load, with our own prompts and answer lengths: benchtrail load http://127.0.0.1:1 --rate \
             inf --requests 1000 --api sglang-generate",
        ),
        (
            "guidellm benchmark --target http://10.0.0.5:8000",
            "hint: a similar load, with our own level, number of requests, prompts, answer lengths and API: benchtrail \
             load http://10.0.0.5:8000",
        ),
        (
            "aiperf profile -m M",
            "hint: a similar load, with our own answer lengths: benchtrail load http://127.0.0.1:8000 --model M \
             --requests 10 --input-len 550 --no-stream --api openai-chat",
        ),
        (
            "hey http://10.0.0.5:8000",
            "hint: a similar load, with our own prompts, answer lengths and API: benchtrail load http://10.0.0.5:8000 \
             --concurrency 50 --requests 200",
        ),
        (
            "k6 run --vus 10 --duration 30s script.js",
            "hint: a similar load, with our own address, prompts, answer lengths and API: benchtrail load \
             http://127.0.0.1:8000 --concurrency 10 --duration 30s",
        ),
    ] {
        // A command alone is answered with its name.
        let message = match theirs {
            "vllm bench serve" => explanation("vllm bench serve --port 8000"),
            theirs => explanation(theirs),
        };
        assert!(message.ends_with(hint), "{message}\n{hint}");
    }
}

#[test]
fn a_command_without_a_server_gets_a_study() {
    for (theirs, command, init) in [
        (
            "llama-bench -m m.gguf -p 512",
            "llama-bench",
            "llama-cpp --model m.gguf",
        ),
        (
            "vllm bench latency --model M",
            "vllm bench latency",
            "vllm --model M",
        ),
        (
            "bench throughput --model M",
            "bench throughput",
            "vllm --model M",
        ),
        (
            "python -m sglang.bench_one_batch --model-path M",
            "python -m sglang.bench_one_batch",
            "sglang --model M",
        ),
    ] {
        let message = explanation(theirs);
        let said = format!("error: `{command}` times an engine without a server");
        assert!(message.starts_with(&said), "{message}");
        let init = format!("benchtrail init my-study --engine {init};");
        assert!(message.contains(&init), "{message}");
    }
    let sweep = explanation("vllm bench sweep serve --serve-cmd s --bench-cmd b");
    let said = "error: `vllm bench sweep` starts one server after the other";
    assert!(sweep.starts_with(said), "{sweep}");
    for ours in [
        "latency",
        "sweep --model M",
        "vllm serve M --port 8000",
        "run mine.yaml",
        "bench",
        "guidellm",
        "python",
    ] {
        assert!(explained(&words(ours)).is_none(), "{ours}");
    }
}

#[test]
fn options_that_need_no_translation_are_not_mentioned() {
    assert!(
        explained(&words(
            "load http://127.0.0.1:1 --num-prompts 4 --frobnicate 3"
        ))
        .is_none()
    );
    assert!(explained(&words("load http://127.0.0.1:1 --api openai-chat")).is_none());
    assert!(explained(&words("run mine.yaml --force --cores 4")).is_none());
}

#[test]
fn an_option_of_ours_has_no_other_name_and_an_unknown_one_has_none() {
    for api in ["openai-completions", "openai-chat", "rerank"] {
        // The parser of the command line names a single unknown option.
        let line = format!("load http://127.0.0.1:1 --api {api} --frobnicate");
        assert_eq!(explained(&words(&line)), None, "{line}");
        let message = explanation(&(line + " --zork 3"));
        let heading = "error: `benchtrail load` does not have these options:\n  --frobnicate ";
        assert!(message.starts_with(heading), "{message}");
        assert!(
            message.ends_with(&format!("http://127.0.0.1:1 --api {api}")),
            "{message}"
        );
    }
    let message = explanation("load http://127.0.0.1:1 --api vllm --frobnicate");
    assert!(message.contains("has other names"), "{message}");
}

#[test]
fn options_that_are_all_valid_have_no_other_names() {
    let message =
        explanation("vllm bench serve http://127.0.0.1:8000 --num-prompts 4 --request-rate 2");
    let heading = "error: only the name of the command differs:\n  vllm bench serve  the command is `benchtrail load`\n";
    assert!(message.starts_with(heading), "{message}");
    assert!(
        message.contains("hint: the same load: benchtrail load"),
        "{message}"
    );
    let line = "vllm bench serve --dataset-name sharegpt --dataset-path s.json --num-prompts 4";
    let message = explanation(line);
    let ours = "hint: a similar load, with our own answer lengths: benchtrail load http://127.0.0.1:8000 \
                --dataset-path s.json --num-prompts 4 --rate inf";
    assert!(message.ends_with(ours), "{message}");
    let message = explanation("locust -f mine.py --users 10");
    assert!(
        message.contains("the script says what is sent"),
        "{message}"
    );
    let message = explanation("vllm bench serve http://127.0.0.1:8000 --frobnicate 4");
    assert!(message.contains("does not have these options"), "{message}");
}

#[test]
fn a_key_on_the_command_line_is_not_repeated() {
    let message = explanation(
        "load http://127.0.0.1:1 --api-key sk-very-secret --header Authorization=sk-very-secret -n 4",
    );
    assert!(!message.contains("very-secret"), "{message}");
    assert!(message.contains("--api-key-env MY_KEY"), "{message}");
}

/// Returns the command that a message proposes, as its words.
fn proposal(message: &str) -> Vec<String> {
    let (_, command) = message
        .rsplit_once(": benchtrail load ")
        .unwrap_or_else(|| panic!("no command in {message}"));
    words(&format!("load {command}"))
}

/// Every tool, with its options for clients and for requests.
const LEVELS: [(&str, &str, &str); 12] = [
    (
        "vllm bench serve --port 1",
        "--max-concurrency",
        "--num-prompts",
    ),
    (
        "python -m sglang.bench_serving --dataset-name random",
        "--max-concurrency",
        "--num-prompts",
    ),
    (
        "python benchmark_serving.py --dataset-name random",
        "--max-concurrency",
        "--num-prompts",
    ),
    (
        "llmperf --model M",
        "--num-concurrent-requests",
        "--max-num-completed-requests",
    ),
    (
        "guidellm benchmark --target http://127.0.0.1:1 --rate-type concurrent",
        "--rate",
        "--max-requests",
    ),
    ("aiperf profile -m M", "--concurrency", "--request-count"),
    (
        "genai-perf profile -m M",
        "--concurrency",
        "--request-count",
    ),
    ("hey http://127.0.0.1:1", "-c", "-n"),
    ("oha http://127.0.0.1:1", "-c", "-n"),
    ("ab http://127.0.0.1:1", "-c", "-n"),
    ("k6 run x.js", "-u", "-i"),
    (
        "locust -f x.py --host http://127.0.0.1:1",
        "-u",
        "--iterations",
    ),
];

/// A command that is printed is one that `load` accepts, up to its first connection.
#[test]
fn every_command_that_is_printed_is_accepted() {
    let number = |option: &str, n: Option<u32>| n.map(|n| format!(" {option} {n}"));
    for (tool, of_clients, of_requests) in LEVELS {
        let has_rate = ["vllm", "aiperf", "python"]
            .iter()
            .any(|name| tool.starts_with(name));
        for (clients, requests, rate) in [
            (None, None, None),
            (Some(1), None, None),
            (Some(20), None, None),
            (Some(20), Some(1), None),
            (Some(50), Some(7), Some(2)),
            (None, Some(3), Some(2)),
        ] {
            let options = [
                number(of_clients, clients),
                number(of_requests, requests),
                number("--request-rate", rate.filter(|_| has_rate)),
            ];
            let options: String = options.into_iter().flatten().collect();
            let line = format!("{tool}{options} --frobnicate 3");
            let words = proposal(&explanation(&line));
            let Command::Load(load) = args::parse(&words).unwrap().command else {
                panic!("{words:?}");
            };
            assert_eq!(commands::refusal(&load), None, "{line}");
        }
    }
}

#[test]
fn clients_without_a_request_are_not_in_the_command() {
    for (theirs, ours) in [
        ("k6 run --vus 10 x.js", "--concurrency 1 --requests 1"),
        (
            "vllm bench serve --max-concurrency 8 --num-prompts 5",
            "--max-concurrency 5 --num-prompts 5",
        ),
        (
            "llmperf --model M --num-concurrent-requests 20",
            "--concurrency 10 --requests 10",
        ),
        (
            "hey -n 10 -c 50 http://127.0.0.1:1",
            "--requests 10 --concurrency 10",
        ),
        (
            "guidellm benchmark --target http://127.0.0.1:1 --rate-type concurrent --rate 1,8,64 --max-requests 8",
            "--concurrency 1,8 --max-requests 8",
        ),
    ] {
        let message = explanation(theirs);
        assert!(message.contains(ours), "{message}\n{ours}");
    }
}

#[test]
fn answers_of_fixed_length_are_not_the_same_as_answers_that_end() {
    for (theirs, is_fixed) in [
        ("vllm bench serve --input-len 8 --output-len 8", false),
        (
            "vllm bench serve --dataset-name sharegpt --dataset-path s.json --sharegpt-output-len 8",
            true,
        ),
        (
            "vllm bench serve --dataset-name sharegpt --dataset-path s.json --sharegpt-output-len 8 --ignore-eos",
            false,
        ),
        (
            "python -m sglang.bench_serving --dataset-name random --port 1",
            false,
        ),
        (
            "python -m sglang.bench_serving --dataset-name random --disable-ignore-eos",
            true,
        ),
        ("aiperf profile -m M --isl 100 --osl 10", true),
        (
            "aiperf profile -m M --isl 100 --osl 10 --extra-inputs ignore_eos:true",
            false,
        ),
        (
            "guidellm benchmark --target http://127.0.0.1:1 --data prompt_tokens=8,output_tokens=8",
            false,
        ),
        (
            "vllm bench serve --backend openai-embeddings --dataset-name sharegpt --dataset-path s.json",
            false,
        ),
    ] {
        let message = explanation(theirs);
        let said = message.contains("with answers of fixed length");
        assert_eq!(said, is_fixed, "{message}");
    }
}

#[test]
fn a_backend_is_the_api_that_its_tool_means() {
    for (theirs, api) in [
        (
            "python -m sglang.bench_serving --backend sglang-oai-chat",
            "--api openai-chat",
        ),
        (
            "python -m sglang.bench_serving --backend vllm-chat",
            "--api openai-chat",
        ),
        (
            "python -m sglang.bench_serving --backend sglang",
            "--api sglang-generate",
        ),
        (
            "python -m sglang.bench_serving --backend sglang-embedding --dataset-name random",
            "--api openai-embeddings",
        ),
        (
            "aiperf profile -m M --endpoint-type embeddings --isl 8",
            "--api openai-embeddings",
        ),
        (
            "guidellm benchmark --target http://127.0.0.1:1 --request-type chat_completions",
            "--api openai-chat",
        ),
    ] {
        let message = explanation(theirs);
        assert!(proposal(&message).join(" ").contains(api), "{message}");
    }
    let message = explanation("vllm bench serve --backend sglang");
    assert!(!message.contains("sglang-generate"), "{message}");
    assert!(message.contains("hint: the same load"), "{message}");
    // A load of random words ranks nothing.
    let message = explanation("vllm bench serve --backend vllm-rerank --num-prompts 5");
    assert!(message.contains("has nothing to rank"), "{message}");
    for theirs in [
        "vllm bench serve --backend deepspeed-mii --num-prompts 5",
        "genai-perf profile -m M --service-kind triton --backend tensorrtllm",
        "python -m sglang.bench_serving --backend trt --dataset-name random",
    ] {
        let message = explanation(theirs);
        assert!(
            message.contains("left out below: `load` has no such API"),
            "{message}"
        );
        assert!(!message.contains("leave it out, or name"), "{message}");
        assert!(
            message.contains("hint: the load without what is left out, with"),
            "{message}"
        );
    }
}

#[test]
fn guidellms_kinds_are_read_as_options() {
    for (theirs, ours) in [
        (
            "guidellm run --backend kind=openai_http,target=http://10.0.0.5:8000 --profile kind=sweep --constraint \
             kind=max_duration,seconds=30 --data kind=synthetic_text,prompt_tokens=256,output_tokens=128",
            "http://10.0.0.5:8000 --duration 30 --input-len 256 --output-len 128",
        ),
        (
            "guidellm run --backend kind=openai_http,target=http://gpu1:8000/v1,request_format=/v1/chat/completions,model=M \
             --profile kind=constant,rate=10 --constraint kind=max_requests,count=20 --data kind=json_file,path=d.json",
            "http://gpu1:8000 --api openai-chat --model M --constant 10 --requests 20 --dataset d.json",
        ),
        (
            "guidellm run --profile kind=concurrent,streams=[1,10] --seed kind=static,value=42",
            "http://127.0.0.1:8000 --concurrency 1,10 --seed 42",
        ),
        (
            "guidellm run --profile kind=throughput,max_concurrency=4,rampup_duration=3",
            "http://127.0.0.1:8000 --rate inf --max-concurrency 4",
        ),
    ] {
        let message = explanation(theirs);
        let expected = format!(": benchtrail load {ours}");
        assert!(message.ends_with(&expected), "{message}\n{expected}");
    }
    let message =
        explanation("guidellm run --profile kind=throughput,rampup_duration=3 --max-requests 3");
    assert!(message.contains("rampup_duration=3"), "{message}");
    let key = "guidellm run --backend kind=openai_http,target=http://127.0.0.1:1,api_key=very-secret --max-requests 3";
    let message = explanation(key);
    assert!(!message.contains("very-secret"), "{message}");
}

#[test]
fn what_was_asked_and_is_left_out_is_not_replaced_by_a_default() {
    for (theirs, gap, absent) in [
        (
            "vllm bench serve --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 10",
            "our own level",
            "--rate inf",
        ),
        (
            "k6 run --stage 10s:5,20s:10 x.js",
            "level, number of requests",
            "--requests",
        ),
        (
            "vllm bench serve --num-prompts -1",
            "our own number of requests",
            "--requests 1000",
        ),
        (
            "vllm bench serve --dataset-name sonnet --dataset-path s.txt --num-prompts 4",
            "our own prompts",
            "s.txt --",
        ),
        (
            "aiperf profile -m M --fixed-schedule --input-file t.jsonl --custom-dataset-type other",
            "level, number of requests, prompts",
            "--requests",
        ),
    ] {
        let message = explanation(theirs);
        let (_, hint) = message.split_once("hint: ").unwrap();
        assert!(hint.contains(gap), "{message}");
        assert!(!hint.contains(absent), "{message}");
        assert!(
            hint.starts_with("the load without what is left out"),
            "{message}"
        );
    }
    for (theirs, ours) in [
        (
            "vllm bench serve --dataset-name timed_trace --dataset-path t.jsonl",
            "--trace t.jsonl --speed 0.001",
        ),
        (
            "python -m sglang.bench_serving --dataset-name mooncake --dataset-path t.jsonl --use-trace-timestamps \
             --mooncake-slowdown-factor 2.0 --num-prompts 9",
            "--trace t.jsonl --speed 0.5 --num-prompts 9",
        ),
        (
            "aiperf profile -m M --fixed-schedule --input-file t.jsonl --custom-dataset-type mooncake_trace",
            "--trace t.jsonl",
        ),
    ] {
        let message = explanation(theirs);
        assert!(
            message.contains(ours) && !message.contains("--rate inf"),
            "{message}"
        );
    }
}

#[test]
fn letters_mean_what_their_tool_means() {
    for (theirs, ours) in [
        (
            "hey -m POST -n 100 -c 10 http://127.0.0.1:1",
            "http://127.0.0.1:1 --requests 100 --concurrency 10",
        ),
        (
            "locust -f f.py -u 20 -H http://10.0.0.5:8000 -t 1h30m",
            "http://10.0.0.5:8000 --concurrency 20 --duration 5400s",
        ),
        (
            "oha -n 200 -c 50 -q 20 http://127.0.0.1:1",
            "http://127.0.0.1:1 --requests 200 --max-concurrency 50 --rate 20",
        ),
        (
            "hey -q 5 -n 10 -c 2 http://127.0.0.1:1",
            "http://127.0.0.1:1 --rate 10 --requests 10 --max-concurrency 2",
        ),
        (
            "oha -z 10s -c 5 -T application/json -w http://127.0.0.1:1",
            "http://127.0.0.1:1 --duration 10s --concurrency 5",
        ),
    ] {
        let message = explanation(theirs);
        let expected = format!(": benchtrail load {ours}");
        assert!(message.ends_with(&expected), "{message}\n{expected}");
    }
    let mut line = words("oha -c 5 -H");
    line.extend([
        "Content-Type: application/json".to_owned(),
        "http://127.0.0.1:1".to_owned(),
    ]);
    let message = explained(&line).unwrap();
    assert!(message.contains("the type of its API"), "{message}");
    assert_eq!(proposal(&message)[3..5], ["--concurrency", "5"]);
}

/// One value that `load` refuses does not cost the whole command, and no option is guessed.
#[test]
fn a_refused_value_is_left_out_with_its_reason() {
    for (theirs, left, ours) in [
        (
            "vllm bench serve --num-prompts -1 --seed 3",
            "--num-prompts -1  left out below: expected a whole number",
            "--seed 3 --rate inf",
        ),
        (
            "guidellm benchmark --target http://127.0.0.1:1 --rate-type poisson --rate 5 --max-seconds 9 --warmup 0.1",
            "--warmup 0.1         left out below",
            "--rate 5 --max-seconds 9",
        ),
        (
            "aiperf profile -m M --request-count 4 --goodput time_to_last_token:5",
            "--goodput time_to_last_token:5  left out below",
            "--request-count 4",
        ),
        (
            "guidellm benchmark --target http://127.0.0.1:1 --rate-type poisson --rate 5 --sample-requests 20",
            "--sample-requests 20  left out below",
            "--rate 5",
        ),
        (
            "genai-perf profile -m M --request-count 5 -- -v --max-threads 16",
            "what follows it is for another program",
            "--request-count 5 --input-len",
        ),
        (
            "aiperf profile -m M --num-prompts 20 --request-count 200",
            "the number of different prompts",
            "--model M --request-count 200",
        ),
        (
            "vllm bench serve M --num-prompts 5",
            "neither an option nor a URL",
            "http://127.0.0.1:8000 --num-prompts 5",
        ),
        (
            "vllm bench serve --num-prompts 2 --profile",
            "switches on no profiler",
            "--num-prompts 2 --rate inf --input-len 1024",
        ),
    ] {
        let message = explanation(theirs);
        assert!(message.contains(left), "{message}\n{left}");
        let (_, hint) = message.split_once("hint: ").unwrap();
        assert!(hint.contains(ours), "{message}\n{ours}");
    }
    let message =
        explanation("aiperf profile -m M --isl 100 --osl 10 --osl-stddev 0 --request-count 3");
    assert!(
        message.contains("leave it out: all lengths are the same"),
        "{message}"
    );
    let message =
        explanation("aiperf profile -m M --goodput time_to_first_token:200 inter_token_latency:40");
    assert!(message.contains("--goodput ttft:200 tpot:40"), "{message}");
    let message = explanation(
        "python -m sglang.bench_serving --dataset-name random --output-file x.jsonl --output-details",
    );
    assert!(
        message.contains("--output-file x.jsonl --result-format sglang"),
        "{message}"
    );
}

/// The parser says what is wrong with a value of an option of ours.
#[test]
fn refused_values_of_our_own_options_are_no_other_names() {
    let line = "load http://127.0.0.1:1 --num-prompts 0 --concurrency 0 --duration never";
    assert_eq!(explained(&words(line)), None);
}
