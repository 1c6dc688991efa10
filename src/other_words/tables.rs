//! The words themselves: what options, commands and APIs of other tools lead to.

use super::Saying::{self, Advise, LeaveOut, Write};

pub(super) const fn write(option: &'static str) -> Saying {
    Write("", option, "")
}

/// Options of vLLM's `bench serve`, SGLang's `bench_serving`, guidellm, aiperf and genai-perf that are not aliases,
/// each with our option.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("--artifact-dir", "--out"),
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
    (
        "--use-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    (
        "--apply-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    ("--rps", write("--rate R")),
    ("--qps", write("--rate R")),
    ("--max-connections", write("--max-concurrency N")),
    (
        "--num-users",
        Write("each user is a client: ", "--concurrency N", ""),
    ),
    ("--measurement-interval", write("--duration SPAN")),
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
    ("--verbose", LeaveOut(": `--out DIR` keeps every row")),
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
    ("--profile", A_SERIES),
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
    (
        "--ignore-eos",
        LeaveOut(
            ": the workloads say whether an answer may end by itself (`benchtrail list workloads`)",
        ),
    ),
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
        Write("each request has a prompt of its own: ", "--requests N", ""),
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
    ("create", "init"),
    ("start", "run"),
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
];

/// Options of workflow tools that `run` and `plan` lack, each with what to do instead.
pub(super) const OF_RUNS: &[(&str, &str)] = &[
    ("-n", "`benchtrail plan EXPERIMENT` shows what would run"),
    ("--force", "`--fresh STAGE` measures again"),
    ("-f", "`--fresh STAGE` measures again"),
    ("--forceall", "`--fresh STAGE` measures again"),
    ("-F", "`--fresh STAGE` measures again"),
    ("--rerun", "`--fresh STAGE` measures again"),
    ("--no-cache", "`--fresh STAGE` measures again"),
    ("-j", ONE_AT_A_TIME),
    ("-c", ONE_AT_A_TIME),
    ("--cores", ONE_AT_A_TIME),
    ("-s", "name the experiment: `benchtrail run EXPERIMENT`"),
    (
        "--config",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-e",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "--env",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-v",
        "`--verbose` after the command shows every cell and the engine's log",
    ),
    (
        "--unlock",
        "leave it out: a run that was killed leaves nothing locked, and `benchtrail run EXPERIMENT` continues it",
    ),
    (
        "--rerun-incomplete",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    (
        "--until",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "--single-item",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "-k",
        "`--keep-going` continues with other cells when one fails",
    ),
    ("--threads", ONE_AT_A_TIME),
    ("--workers", ONE_AT_A_TIME),
    ("--parallel", ONE_AT_A_TIME),
    ("--blocks", REPETITIONS),
    ("--repeat", REPETITIONS),
    ("--repeats", REPETITIONS),
    ("--repetitions", REPETITIONS),
    ("--runs", REPETITIONS),
    ("--iterations", REPETITIONS),
    (
        "--resume",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    (
        "--continue",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    ("--model", IN_THE_FILE),
    ("--engine", IN_THE_FILE),
    ("--seed", IN_THE_FILE),
    ("--clients", IN_THE_FILE),
    ("--concurrency", IN_THE_FILE),
    ("--requests", IN_THE_FILE),
    ("--rate", IN_THE_FILE),
    ("--workload", IN_THE_FILE),
    (
        "--param",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "--gpu",
        "the engine sees the GPUs that its environment shows it: `CUDA_VISIBLE_DEVICES=0 benchtrail run EXPERIMENT`",
    ),
    ("-o", A_REPORT),
    ("--out", A_REPORT),
    ("--output", A_REPORT),
    (
        "-p",
        "`--profile NAME` selects a profile, `--set NAME=VALUE` sets a parameter",
    ),
];

/// What an option for something that the experiment says meets.
const IN_THE_FILE: &str =
    "the experiment's file says it; `--set NAME=VALUE` sets a parameter that the file declares";

/// What an option for a number of repetitions meets.
const REPETITIONS: &str = "the experiment's file says it: `design: {blocks: N}` measures everything N times, each time with a new launch";

/// Options of other tools' pages, each with what to do instead.
pub(super) const OF_EXPLORE: &[(&str, &str)] = &[
    ("--port", LISTEN),
    ("-p", LISTEN),
    ("--host", LISTEN),
    ("--bind", LISTEN),
    ("--address", LISTEN),
    (
        "--output",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
    (
        "--out",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
    (
        "-o",
        "`--export FILE` writes one study as a page that opens without a server",
    ),
];

/// What an option for an address of the explorer meets.
const LISTEN: &str =
    "`--listen 127.0.0.1:PORT` chooses the address and the port; port 0 is any free one";

/// Options of other tools that query tables, each with what to do instead.
pub(super) const OF_QUERIES: &[(&str, &str)] = &[
    ("--format", QUERY_FORMATS),
    ("-o", QUERY_FORMATS),
    ("--out", QUERY_FORMATS),
    ("--output", QUERY_FORMATS),
    (
        "-c",
        "the query comes after the experiment, without an option",
    ),
    (
        "-q",
        "the query comes after the experiment, without an option",
    ),
    (
        "--query",
        "the query comes after the experiment, without an option",
    ),
];

/// What an option for the format of an answer meets.
const QUERY_FORMATS: &str =
    "`--csv` prints CSV, `--json` prints JSON, `--parquet FILE` writes a file";

/// Options of `load` and of other tools that `init` lacks, each with ours.
pub(super) const OF_INIT: &[(&str, &str)] = &[
    ("--concurrency", "`--clients N,…`"),
    ("--max-concurrency", "`--clients N,…`"),
    ("-c", "`--clients N,…`"),
    ("--rate", "`--rates R,…`"),
    ("--request-rate", "`--rates R,…`"),
    ("--workload", "`--workloads NAMES`"),
    (
        "--dataset",
        "`--workloads NAMES`; a file is a workload of the study: `prompts: {dataset: {file: FILE}}`",
    ),
    ("--num-prompts", "`--requests N`"),
    ("--blocks", "`--repetitions N`"),
    ("--repeat", "`--repetitions N`"),
    (
        "-n",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "--name",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "-o",
        "the name comes without an option: `benchtrail init NAME`",
    ),
    (
        "--output",
        "the name comes without an option: `benchtrail init NAME`",
    ),
];

/// Options of other tools' reports, each with what to do instead.
pub(super) const OF_REPORTS: &[(&str, &str)] = &[
    ("--format", BOTH_FORMATS),
    ("--html", BOTH_FORMATS),
    ("--pdf", "print the page `report.html` from a browser"),
    (
        "--output",
        "`--out FILE` chooses where the report is written",
    ),
    ("-o", "`--out FILE` chooses where the report is written"),
];

/// What an option for the format of a report meets.
const BOTH_FORMATS: &str = "leave it out: a report is written as `report.md` and as `report.html`";

/// What an option for an output file meets.
const A_REPORT: &str =
    "`benchtrail run EXPERIMENT --report FILE` chooses where the report is written";

/// Options in front of the command, each with what to do instead.
pub(super) const BEFORE_COMMANDS: &[(&str, &str)] = &[
    ("-v", AFTER_THE_COMMAND),
    ("--verbose", AFTER_THE_COMMAND),
    ("-q", AFTER_THE_COMMAND),
    ("--quiet", AFTER_THE_COMMAND),
];

/// What an option of a command in front of it meets.
const AFTER_THE_COMMAND: &str =
    "options of a command come after it: `benchtrail run --verbose EXPERIMENT`";

/// Options of other tools' commands on stores, each with what to do instead.
pub(super) const OF_STORES: &[(&str, &str)] = &[
    (
        "-n",
        "`benchtrail gc --dry-run` shows what would be removed",
    ),
    (
        "--all",
        "`benchtrail gc --measurements` also removes measurements that no lock needs",
    ),
    ("--fix", "`benchtrail fsck --repair`"),
];

/// What an option for a number of processes meets.
const ONE_AT_A_TIME: &str =
    "`--jobs N` is for analysis and report; cells that measure run one at a time";

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
];
