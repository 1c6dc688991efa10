//! The words themselves: what options, commands and APIs of other tools lead to.

use super::Saying::{self, Advise, LeaveOut, Write};

pub(super) const fn write(option: &'static str) -> Saying {
    Write("", option, "")
}

/// Options of vLLM's `bench serve`, SGLang's `bench_serving`, guidellm, aiperf and genai-perf that are not aliases,
/// each with our option.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("--artifact-dir", "--out"),
    ("--results-dir", "--out"),
    ("--disable-stream", "--no-stream"),
    ("-H", "--header"),
];

/// Options of the same tools without a single equivalent here, each with what to do instead.
pub(super) const SAYINGS: &[(&str, Saying)] = &[
    ("--backend", AN_API),
    ("--backend-type", AN_API),
    ("--endpoint", AN_API),
    ("--endpoint-type", AN_API),
    ("--service-kind", AN_API),
    ("--request-type", AN_API),
    ("--request-format", AN_API),
    (
        "--use-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    (
        "--apply-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    ("--mean-input-tokens", write("--input-len N")),
    ("--mean-output-tokens", write("--output-len N")),
    ("--stddev-input-tokens", BOTH_ENDS),
    ("--stddev-output-tokens", BOTH_ENDS),
    ("--random-input", write("--input-len N")),
    ("--random-output", write("--output-len N")),
    ("--num-concurrent-requests", write("--concurrency N")),
    ("--max-num-completed-requests", write("--requests N")),
    ("--llm-api", AN_API),
    ("--prefix-repetition-prefix-len", A_PREFIX),
    ("--prefix-repetition-suffix-len", A_PREFIX),
    ("--prefix-repetition-num-prefixes", A_PREFIX),
    ("--prefix-repetition-output-len", write("--output-len N")),
    ("--gsp-num-groups", A_PREFIX),
    ("--gsp-prompts-per-group", A_PREFIX),
    ("--gsp-system-prompt-len", A_PREFIX),
    ("--gsp-question-len", A_PREFIX),
    ("--gsp-output-len", write("--output-len N")),
    ("--num-prefix-prompts", A_PREFIX),
    ("--prefix-prompt-length", A_PREFIX),
    ("--random-prefix-len", A_PREFIX),
    ("--sonnet-prefix-len", A_PREFIX),
    ("--sonnet-input-len", write("--input-len N")),
    ("--sonnet-output-len", write("--output-len N")),
    ("--custom-output-len", write("--output-len N")),
    ("--hf-output-len", write("--output-len N")),
    ("--hf-subset", A_DATA_SET),
    ("--skip-chat-template", AN_API),
    ("--logprobs", SAMPLING),
    (
        "--request-id-prefix",
        LeaveOut(": the rows number the requests"),
    ),
    ("--label", LeaveOut(": the rows hold what was run")),
    (
        "--plot-timeline",
        LeaveOut(": `benchtrail explore DIR` shows the requests over time"),
    ),
    (
        "--ready-check-timeout-sec",
        LeaveOut(": a load ends at once if no server answers"),
    ),
    (
        "--disable-ignore-eos",
        Advise(
            "a workload says whether an answer may end by itself: write `workloads/NAME.yaml` and give `--workload NAME`",
        ),
    ),
    ("--multi-turn", SESSIONS),
    ("--max-turns", SESSIONS),
    (
        "--lora-path",
        Write("", "--model NAME", " names the adapter"),
    ),
    ("--rampup", write("--ramp FROM:TO:SECONDS")),
    ("--ttft-slo", write("--slo BOUNDS")),
    ("--rps", write("--rate R")),
    ("--qps", write("--rate R")),
    ("--max-connections", write("--max-concurrency N")),
    (
        "--num-users",
        Write("each user is a client: ", "--concurrency N", ""),
    ),
    (
        "--measurement-interval",
        Write("as a time with its unit: ", "--duration SPAN", ""),
    ),
    ("--processor", write("--tokenizer FILE")),
    ("--tokens", write("--output-len N")),
    ("--max-tokens", write("--output-len N")),
    ("--output-path", Write("", "--out DIR", " keeps every row")),
    ("--output-dir", Write("", "--out DIR", " keeps every row")),
    (
        "--output-format",
        Write(
            "",
            "--result-format FORMAT",
            " sets the format of a saved result",
        ),
    ),
    (
        "--append-result",
        LeaveOut(": each run saves a file of its own"),
    ),
    ("--metadata", LeaveOut(": the rows hold what was run")),
    ("--verbose", MORE),
    ("-v", MORE),
    ("--debug", MORE),
    ("--log-level", MORE),
    (
        "--format",
        Advise("`--json` prints JSON, `--out DIR` keeps every row as a table"),
    ),
    (
        "-o",
        Advise("`--out DIR` keeps every row, `--json` prints JSON"),
    ),
    (
        "--profile-export-file",
        Write("", "--out DIR", " keeps every row"),
    ),
    (
        "--dry-run",
        Advise("a load has no plan; `--requests 1` tries it with one request"),
    ),
    ("--random-seed", write("--seed N")),
    ("--ui", LeaveOut(", or give `--quiet`")),
    ("--ui-type", LeaveOut(", or give `--quiet`")),
    ("--headless", LeaveOut(": a load opens no page")),
    ("--public-dataset", A_DATA_SET),
    (
        "--custom-dataset-type",
        LeaveOut(": `--trace FILE` and `--dataset FILE` detect the format"),
    ),
    (
        "--prompt-file",
        Write("", "--dataset FILE", " takes the prompts of a file"),
    ),
    (
        "--prompt",
        Write(
            "put it into a file, one prompt on each line: ",
            "--dataset FILE",
            "",
        ),
    ),
    ("--prompts", write("--dataset FILE")),
    ("--request-timeout-seconds", write("--timeout SPAN")),
    ("--request-timeout", write("--timeout SPAN")),
    ("--conversation-num", SESSIONS),
    ("--num-conversations", SESSIONS),
    ("--conversation-turn-mean", SESSIONS),
    ("--session-concurrency", SESSIONS),
    ("--num-sessions", SESSIONS),
    ("--backend-args", SAMPLING),
    ("--backend-kwargs", SAMPLING),
    (
        "--flush-cache",
        Advise(
            "a load empties no cache of the server; with another `--seed N`, its prompts are new to the server",
        ),
    ),
    (
        "--stability-percentage",
        LeaveOut(
            ": a load measures once; `benchtrail init` writes a study that repeats it and gives intervals",
        ),
    ),
    (
        "--warmup-percent",
        Write("give the number of requests: ", "--warmup COUNT", ""),
    ),
    (
        "--cooldown-percent",
        LeaveOut(": in a study, the operator `steady-state` leaves out the end of a load"),
    ),
    (
        "--isl-stddev",
        Write("give both ends: ", "--input-len 96..160", ""),
    ),
    (
        "--osl-stddev",
        Write("give both ends: ", "--output-len 96..160", ""),
    ),
    (
        "--concurrency-ramp-duration",
        LeaveOut(
            ": all clients of `--concurrency N` start at once; arrivals that grow are `--ramp FROM:TO:SECONDS`",
        ),
    ),
    (
        "--gpu-telemetry",
        LeaveOut(": GPUs of this machine are sampled without it"),
    ),
    ("--threads", PROCESSES),
    ("--num-threads", PROCESSES),
    ("--workers", PROCESSES),
    ("--processes", PROCESSES),
    (
        "--lora-name",
        Write("", "--model NAME", " names the adapter"),
    ),
    (
        "--api-base",
        Write("give the URL alone, or ", "--url URL", ""),
    ),
    ("--insecure", A_CERTIFICATE),
    ("--no-verify", A_CERTIFICATE),
    ("-k", A_CERTIFICATE),
    ("--percentiles", OTHER_QUANTILES),
    ("--extra-request-body", SAMPLING),
    ("--key", A_KEY),
    ("--token", A_KEY),
    (
        "--port",
        Advise("the port is part of the URL, as in `http://127.0.0.1:8000`"),
    ),
    (
        "--profile",
        Advise(
            "for a series of levels, name them: `--concurrency 1,8,64` or `--rate 1,2,4,inf`; a load switches on no \
             profiler of the server",
        ),
    ),
    ("--rate-type", A_SERIES),
    (
        "--streaming",
        LeaveOut(": answers are streamed unless you give `--no-stream`"),
    ),
    (
        "--stream",
        LeaveOut(": answers are streamed unless you give `--no-stream`"),
    ),
    (
        "--dataset-name",
        Write(
            "",
            "--dataset FILE",
            " detects the format; for random prompts give `--input-len N --output-len N`",
        ),
    ),
    ("--disable-tqdm", LeaveOut(", or give `--quiet`")),
    (
        "--trust-remote-code",
        LeaveOut(": no code of a model is run"),
    ),
    (
        "--save-detailed",
        Write("", "--save-result", " saves every request"),
    ),
    (
        "--percentile-metrics",
        LeaveOut(": the table has TTFT, TPOT and the whole latency"),
    ),
    ("--metric-percentiles", OTHER_QUANTILES),
    ("--ignore-eos", IGNORE_EOS),
    (
        "--random-range-ratio",
        Write("give both ends: ", "--input-len 96..160", ""),
    ),
    ("--sharegpt-output-len", write("--output-len N")),
    (
        "--data",
        Write("", "--input-len N --output-len N", ", or `--dataset FILE`"),
    ),
    ("--hf-name", A_DATA_SET),
    ("--hf-split", A_DATA_SET),
    (
        "--synthetic-input-tokens-mean",
        Write(
            "",
            "--input-len N",
            "; with both ends, `--input-len 96..160`",
        ),
    ),
    (
        "--synthetic-input-tokens-stddev",
        Write("give both ends: ", "--input-len 96..160", ""),
    ),
    (
        "--prompt-input-tokens-mean",
        Write(
            "",
            "--input-len N",
            "; with both ends, `--input-len 96..160`",
        ),
    ),
    ("--output-tokens-mean", write("--output-len N")),
    (
        "--output-tokens-stddev",
        Write("give both ends: ", "--output-len 96..160", ""),
    ),
    ("--extra-body", SAMPLING),
    ("--extra-inputs", SAMPLING),
    ("--temperature", SAMPLING),
    ("--top-p", SAMPLING),
    ("--api-key", A_KEY),
    ("-n", write("--requests N")),
    ("-c", write("--concurrency N")),
    (
        "-t",
        Advise("`--duration SPAN` for a time, `--concurrency N` for clients"),
    ),
    (
        "-d",
        Advise("`--duration SPAN` for a time, `--dataset FILE` for prompts"),
    ),
    ("-r", write("--rate R")),
    (
        "-u",
        Advise("`--concurrency N` for users, `--url URL` for the server"),
    ),
    ("-m", write("--model NAME")),
    ("-z", write("--duration SPAN")),
    (
        "--users",
        Write("each user is a client: ", "--concurrency N", ""),
    ),
    (
        "--vus",
        Write("each virtual user is a client: ", "--concurrency N", ""),
    ),
    (
        "--connections",
        Write("each connection is a client: ", "--concurrency N", ""),
    ),
    ("--iterations", write("--requests N")),
    ("--run-time", write("--duration SPAN")),
    ("--timeout-sec", write("--timeout SPAN")),
    (
        "--spawn-rate",
        LeaveOut(
            ": all clients of `--concurrency N` start at once; arrivals that grow are `--ramp FROM:TO:SECONDS`",
        ),
    ),
    (
        "--host",
        Advise("the host is part of the URL, as in `http://127.0.0.1:8000`"),
    ),
    ("--stage", STAGES),
    ("--stages", STAGES),
    ("--request-rate-type", ARRIVALS),
    ("--rate-type", ARRIVALS),
    ("--arrival-pattern", ARRIVALS),
    ("--request-rate-mode", ARRIVALS),
    (
        "--num-dataset-entries",
        LeaveOut(": each request has a prompt of its own; `--requests N` sets their number"),
    ),
    ("--max-error-rate", ERRORS),
    ("--max-errors", ERRORS),
    ("--ramp-up-strategy", write("--ramp FROM:TO:SECONDS")),
    ("--ramp-up-start-rps", write("--ramp FROM:TO:SECONDS")),
    ("--ramp-up-end-rps", write("--ramp FROM:TO:SECONDS")),
    (
        "--input-file",
        Write(
            "",
            "--trace FILE",
            " keeps its times, `--dataset FILE` takes its prompts",
        ),
    ),
];

/// What an option for spread lengths meets.
const BOTH_ENDS: Saying =
    Advise("for lengths that vary, give both ends, as in `--input-len 96..160`");

/// What an option for answers that end by themselves meets.
const IGNORE_EOS: Saying = LeaveOut(
    ": the workloads say whether an answer may end by itself (`benchtrail list workloads`)",
);

/// What an option for prompts with a common beginning meets.
const A_PREFIX: Saying = Advise(
    "a workload says how prompts begin: write `prompts: {shared-prefix: {prefix: 512, suffix: 64}}` and \
     `output: {tokens: 128}` into `workloads/NAME.yaml`, and give `--workload NAME`",
);

/// What an option for a course of rates or clients meets.
const STAGES: Saying = Advise(
    "`--steps 2:30,8:60` sends 2 requests per second for 30 s, then 8 for 60 s; `--ramp FROM:TO:SECONDS` grows evenly",
);

/// What an option for the kind of arrivals meets.
const ARRIVALS: Saying = Advise(
    "`--rate R` draws Poisson arrivals, `--rate R --burstiness SHAPE` more or less even ones, `--constant R` sends at equal \
     distances",
);

/// What an option for a limit of failed requests meets.
const ERRORS: Saying = LeaveOut(
    ": a load ends at once if every request must fail, and otherwise counts the failed ones; in a study, the gate \
     `row-status` decides how many may fail",
);

/// What an option for the protocol of the server meets.
const AN_API: Saying = LeaveOut(", or name the server's API, as in `--api openai-chat`");

/// What an option for other quantiles meets.
const OTHER_QUANTILES: Saying =
    LeaveOut("; for other quantiles keep the rows with `--out DIR` and use `benchtrail sql`");

/// What an option for sampling meets.
const SAMPLING: Saying = Advise(
    "a workload says how answers are sampled: write `workloads/NAME.yaml` and give `--workload NAME`",
);

/// What an option for more output meets.
const MORE: Saying = LeaveOut(": `--out DIR` keeps every row");

/// What an option for conversations meets.
const SESSIONS: Saying = Advise(
    "a workload says how conversations go on: write `workloads/NAME.yaml` and give `--workload NAME`",
);

/// What an option for threads or processes of the load generator meets.
const PROCESSES: Saying = Advise(
    "`--concurrency N` sets the clients; one process sends for all of them, and `--generators N` uses several",
);

/// What an option against certificates meets.
const A_CERTIFICATE: Saying = Write(
    "",
    "--ca-file FILE",
    " trusts the certificate of the server",
);

/// What an option for a series of levels meets.
const A_SERIES: Saying = Advise("name the levels: `--concurrency 1,8,64` or `--rate 1,2,4,inf`");

/// What an option for a data set of a hub meets.
const A_DATA_SET: Saying = Write(
    "download the data set and name its file: ",
    "--dataset FILE",
    "",
);

/// What an API key on the command line meets.
const A_KEY: Saying = Write(
    "name the variable that holds the key, so that it is not in your shell's history: ",
    "--api-key-env MY_KEY",
    "",
);

/// Commands of other tools, each with ours.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("bench", "load"),
    ("benchmark", "load"),
    ("profile", "load"),
    ("perf", "load"),
    ("new", "init"),
    ("import", "init"),
    ("convert", "init"),
    ("export", "sql"),
    ("download", "pull"),
    ("upload", "push"),
    ("share", "publish"),
    ("describe", "show"),
    ("log", "history"),
    ("create", "init"),
    ("start", "run"),
    ("resume", "run"),
    ("continue", "run"),
    ("rerun", "run"),
    ("exec", "run"),
    ("check", "plan"),
    ("validate", "plan"),
    ("lint", "plan"),
    ("compare", "diff"),
    ("query", "sql"),
    ("results", "show"),
    ("trace", "why"),
    ("view", "explore"),
    ("ui", "explore"),
    ("dashboard", "explore"),
    ("render", "report"),
    ("clean", "gc"),
    ("prune", "gc"),
    ("version", "--version"),
    ("repro", "run"),
    ("apply", "run"),
    ("execute", "run"),
    ("dag", "plan"),
    ("dry-run", "plan"),
    ("metrics", "show"),
    ("plots", "report"),
    ("serve", "run"),
    ("exp", "run"),
    ("experiments", "run"),
    ("stage", "init"),
    ("params", "diff"),
    ("k6", "load"),
    ("wrk", "load"),
    ("hey", "load"),
    ("locust", "load"),
    ("guidellm", "load"),
    ("aiperf", "load"),
    ("genai-perf", "load"),
    ("llmperf", "load"),
    ("inference-perf", "load"),
    ("dvc", "run"),
    ("snakemake", "run"),
    ("make", "run"),
];

/// Other tools' names or paths of an API, each with ours.
pub(super) const APIS: &[(&str, &str)] = &[
    ("/v1/completions", "openai-completions"),
    ("/v1/chat/completions", "openai-chat"),
    ("/v1/responses", "openai-responses"),
    ("/v1/messages", "anthropic-messages"),
    ("/v1/embeddings", "openai-embeddings"),
    ("/rerank", "rerank"),
    ("/v1/rerank", "rerank"),
    ("/completion", "llama-cpp-completion"),
    ("/generate", "sglang-generate"),
    ("/generate_stream", "tgi-generate"),
    ("/api/generate", "ollama-generate"),
    ("/api/chat", "ollama-chat"),
    ("openai", "openai-completions"),
    ("completions", "openai-completions"),
    ("chat", "openai-chat"),
    ("openai-chat-completions", "openai-chat"),
    ("vllm", "openai-completions"),
    ("sglang", "sglang-generate"),
    ("tgi", "tgi-generate"),
    ("ollama", "ollama-generate"),
    ("embeddings", "openai-embeddings"),
    ("sglang-oai", "openai-completions"),
    ("sglang-oai-chat", "openai-chat"),
    ("vllm-chat", "openai-chat"),
    ("sglang-embedding", "openai-embeddings"),
    ("chat_completions", "openai-chat"),
    ("text_completions", "openai-completions"),
    ("rankings", "rerank"),
];
