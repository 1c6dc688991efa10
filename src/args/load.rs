//! Arguments of `load`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::values::{
    parse_api, parse_bound, parse_clients, parse_count, parse_duration, parse_header, parse_layout,
    parse_level, parse_number, parse_positive, parse_ramp, parse_rate, parse_share, parse_span,
    parse_step, parse_tool, parse_whole,
};

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("arrivals"))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct LoadArgs {
    /// URL of the server, such as `http://127.0.0.1:8080` or `https://engine.example`. Several servers get
    /// requests in turn.
    #[arg(value_name = "URL", required_unless_present = "url")]
    pub(crate) addresses: Vec<String>,
    /// URL of the server, as an option; may be repeated.
    #[arg(long, value_name = "URL", conflicts_with = "addresses", visible_alias = "base-url", aliases = ["target", "host"])]
    pub(crate) url: Vec<String>,
    /// For https://: trust only the certificates in this PEM file [default: those that the
    /// operating system trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Model name to send in requests [default: the first one under /v1/models].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// API to use. `init --from-url` has another default, openai-chat.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api())]
    pub(crate) api: String,
    /// Request whole answers instead of streamed ones. Time to first token is then not measured.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Environment variable that holds the API key; the key itself is never stored.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// Header to send with every request, such as a gateway's route; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,

    /// Closed loop with N clients. A client sends its next request when the previous one is
    /// answered [default: 1]. Several levels, such as `1,8,64`, run one after the other, each with prompts of its own.
    #[arg(long, value_name = "N,…", value_delimiter = ',', group = "arrivals",
          help_heading = "Arrivals", value_parser = parse_clients, allow_negative_numbers = true)]
    pub(crate) concurrency: Vec<u32>,
    /// Poisson arrivals at R requests per second, independent of the server. `inf` sends all requests at
    /// once. Several levels, such as `1,2,4,inf`, run one after the other.
    #[arg(long, value_name = "R,…", value_delimiter = ',', visible_alias = "request-rate", group = "arrivals",
          help_heading = "Arrivals", value_parser = parse_level, allow_negative_numbers = true)]
    pub(crate) rate: Vec<f64>,
    /// Evenly spaced arrivals at R requests per second, independent of the server.
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "Arrivals",
          value_parser = parse_rate, allow_negative_numbers = true)]
    pub(crate) constant: Option<f64>,
    /// Send all requests at once.
    #[arg(long, group = "arrivals", help_heading = "Arrivals")]
    pub(crate) burst: bool,
    /// Poisson arrivals in steps of a rate and its duration, in seconds or with a unit, such as `2:30,4:30,8:1min`. The load
    /// ends with the last step, unless you set --requests.
    #[arg(long, value_name = "R:S,…", value_delimiter = ',', value_parser = parse_step, allow_hyphen_values = true, group = "arrivals", help_heading = "Arrivals")]
    pub(crate) steps: Vec<(f64, f64)>,
    /// Poisson arrivals whose rate changes linearly from one value to another over S seconds, or over a time with its
    /// unit, such as `1:4:30s`. The load ends with the ramp, unless you set --requests.
    #[arg(long, value_name = "FROM:TO:S", value_parser = parse_ramp, allow_hyphen_values = true, group = "arrivals", help_heading = "Arrivals")]
    pub(crate) ramp: Option<(f64, f64, f64)>,
    /// Replay the times and lengths of a recorded trace, in JSON Lines or CSV. With --workload or
    /// --prompt-words, replay only the times.
    #[arg(
        long,
        value_name = "FILE",
        group = "arrivals",
        help_heading = "Arrivals"
    )]
    pub(crate) trace: Option<String>,
    /// Replay the trace X times faster than recorded.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "trace",
        help_heading = "Arrivals", value_parser = parse_number)]
    pub(crate) speed: f64,
    /// With --rate: gamma arrivals of this shape; 1 is Poisson, smaller values give bursts.
    #[arg(
        long,
        value_name = "SHAPE",
        requires = "rate",
        help_heading = "Arrivals", value_parser = parse_number)]
    pub(crate) burstiness: Option<f64>,
    /// Largest number of requests in flight with --rate, --constant, --steps, --ramp or --trace. Further arrivals wait
    /// in line; latencies from the scheduled time include the wait. Without these options, the same as
    /// --concurrency.
    #[arg(long, value_name = "N", conflicts_with_all = ["concurrency", "burst"], help_heading = "Arrivals",
          value_parser = parse_positive::<u32>, allow_negative_numbers = true)]
    pub(crate) max_concurrency: Option<u32>,
    /// Send new requests for this long, such as `30 s` or `30`, then wait for those in flight. Requests that still wait
    /// in line for --max-concurrency, and later turns of sessions, are then not sent. With --requests, the limit that is
    /// reached first ends the run.
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, aliases = ["max-seconds", "benchmark-duration"],
          conflicts_with_all = ["search", "burst"], help_heading = "Arrivals")]
    pub(crate) duration: Option<String>,
    /// Number of requests to measure [default: 64, or one for each client of --concurrency if there are more; with --duration, --steps or --ramp, as many as fit;
    /// with --trace, all].
    #[arg(long, value_name = "N", visible_alias = "num-prompts", aliases = ["num-requests", "request-count", "max-requests"],
          help_heading = "Arrivals", value_parser = parse_positive::<u64>, allow_negative_numbers = true)]
    pub(crate) requests: Option<u64>,
    /// Number of processes that send the load, each with its own part of the requests. Use more than one if the client is
    /// the bottleneck (`client_bound`).
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "search", help_heading = "Arrivals",
          value_parser = parse_positive::<u32>, allow_negative_numbers = true)]
    pub(crate) generators: u32,
    /// Do not test the server with one request for a single token first. A run of one request has no test.
    #[arg(long, help_heading = "Arrivals")]
    pub(crate) no_preflight: bool,
    /// Number of warm-up requests to send first; they are not counted.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        aliases = ["num-warmups", "warmup-requests", "warmup-request-count"],
        help_heading = "Arrivals", value_parser = parse_whole::<u64>)]
    pub(crate) warmup: u64,

    /// Name of a workload: a shipped one, or `workloads/NAME.yaml` in this folder [default:
    /// short-decode].
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "prompt_words",
        help_heading = "Requests"
    )]
    pub(crate) workload: Option<String>,
    /// Prompts from a file: ShareGPT JSON, JSON Lines or CSV with `prompt`, or lengths in the format of
    /// Mooncake's trace. If the file has fewer prompts than requests, prompts are repeated.
    #[arg(long, value_name = "FILE", visible_alias = "dataset-path", conflicts_with_all = ["prompt_words", "workload", "prompt_tokens"],
          help_heading = "Requests")]
    pub(crate) dataset: Option<String>,
    /// Independent prompts of N random words, or of `A..B` words, both ends included.
    #[arg(long, value_name = "A..B", value_parser = parse_count, help_heading = "Requests")]
    pub(crate) prompt_words: Option<(u32, u32)>,
    /// Prompts of N or `A..B` tokens, made of random words. The server's own tokenizer counts
    /// them, unless you pass --tokenizer.
    #[arg(long, value_name = "A..B", value_parser = parse_count, visible_alias = "input-len", aliases = ["random-input-len", "isl"],
          conflicts_with_all = ["prompt_words", "workload"], help_heading = "Requests")]
    pub(crate) prompt_tokens: Option<(u32, u32)>,
    /// A `tokenizer.json` that counts the tokens of --prompt-tokens.
    #[arg(
        long,
        value_name = "FILE",
        requires = "prompt_tokens",
        help_heading = "Requests"
    )]
    pub(crate) tokenizer: Option<String>,
    /// Output tokens to request, `N` or `A..B`, also for rows of a file that name a length of their own. The end of sequence is
    /// ignored if the API allows it. The answers in a ShareGPT file do not set the lengths [default: that of the workload; 64 with --prompt-words or --prompt-tokens].
    #[arg(long, value_name = "N", value_parser = parse_count, visible_alias = "output-len", aliases = ["random-output-len", "osl"],
          help_heading = "Requests")]
    pub(crate) output_tokens: Option<(u32, u32)>,
    /// Seed for prompts and random arrivals.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 164,
        help_heading = "Requests", value_parser = parse_whole::<u64>)]
    pub(crate) seed: u64,

    /// Time limit for opening a connection.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "10 s", help_heading = "Time limits")]
    pub(crate) connect_timeout: String,
    /// Time limit from sending to the first byte of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "5 min", help_heading = "Time limits")]
    pub(crate) first_token_timeout: String,
    /// Time limit between bytes of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) inter_token_timeout: String,
    /// Time limit from sending to the end of the answer.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 h", help_heading = "Time limits")]
    pub(crate) timeout: String,
    /// End the run as hung if no byte arrives on any stream for this long; `0 s` disables this. A request that waits for
    /// the first byte of its answer's body has until --first-token-timeout.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) heartbeat: String,

    /// Interval between telemetry samples; samples are taken only with --out.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 s", help_heading = "Telemetry")]
    pub(crate) telemetry_interval: String,
    /// Source of GPU telemetry: `auto`, `nvml`, `nvidia-smi` or `none`.
    #[arg(long, value_name = "SOURCE", default_value = "auto", value_parser = ["auto", "nvml", "nvidia-smi", "none"], help_heading = "Telemetry")]
    pub(crate) gpu: String,
    /// Process id of the server, if it runs on this machine; its process group is sampled.
    #[arg(long, value_name = "PID", help_heading = "Telemetry", value_parser = parse_whole::<u32>)]
    pub(crate) server_pid: Option<u32>,
    /// Treat a silent server as hung only if the mean power of every GPU was below this during the silence.
    #[arg(long, value_name = "WATTS", help_heading = "Telemetry", value_parser = parse_number)]
    pub(crate) hung_below: Option<f64>,
    /// Path at which llama.cpp reports its slots; the rows go to slots.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Telemetry")]
    pub(crate) slots: Option<String>,
    /// Path at which SGLang reports its state; the rows go to server_info.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Telemetry")]
    pub(crate) server_info: Option<String>,

    /// Search for the highest level that meets --slo. The search starts at the level of --concurrency,
    /// --rate or --constant and goes up to this one. It judges at most --requests [default: 400] per
    /// level, unless a rate needs more to show an overload.
    #[arg(long, value_name = "LEVEL", requires = "slo", help_heading = "Search", value_parser = parse_number)]
    pub(crate) search: Option<f64>,
    /// Share of requests that must meet --slo.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.95,
        requires = "search",
        help_heading = "Search", value_parser = parse_share)]
    pub(crate) attainment: f64,
    /// Relative distance between the kept and the missed level at which the search ends.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        requires = "search",
        help_heading = "Search", value_parser = parse_share)]
    pub(crate) resolution: f64,
    /// Longest time during which requests may arrive in one probe of a rate.
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "5 min",
        requires = "search",
        help_heading = "Search"
    )]
    pub(crate) longest: String,

    /// Goodput bounds on `ttft`, `tpot` or `e2e`, such as `ttft=200,tpot=40` in ms, or `ttft:200ms
    /// tpot:0.04s`. With --max-concurrency and a rate, `ttft` and `e2e` count from the scheduled time, as `ttft_scheduled` and
    /// `e2e_scheduled` always do.
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', num_args = 1..=5, visible_alias = "goodput",
          value_parser = parse_bound, help_heading = "Results")]
    pub(crate) slo: Vec<(String, f64)>,
    /// Also print the figures of another tool, computed with its formulas from the same rows.
    #[arg(long, value_name = "TOOL", value_parser = parse_tool(), conflicts_with = "search", help_heading = "Results")]
    pub(crate) compat: Option<String>,
    /// Path of the server's Prometheus metrics; the rows go to server_metrics.parquet.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/metrics",
        help_heading = "Results"
    )]
    pub(crate) metrics: String,
    /// Write requests, chunks, cell, prompts and telemetry to this folder as Parquet files.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Also write a result file in the format of another tool, with every request.
    #[arg(long, conflicts_with = "search", help_heading = "Results")]
    pub(crate) save_result: bool,
    /// File format of --save-result.
    #[arg(long, value_name = "TOOL", default_value = "vllm", value_parser = parse_layout(), help_heading = "Results")]
    pub(crate) result_format: String,
    /// Folder for --save-result [default: the current folder].
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) result_dir: Option<PathBuf>,
    /// File name for --save-result [default: made of format, level, model and time].
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "output-file",
        conflicts_with = "search",
        help_heading = "Results"
    )]
    pub(crate) result_filename: Option<PathBuf>,
    /// Print only the result.
    #[arg(long, short, help_heading = "Results")]
    pub(crate) quiet: bool,
}

impl LoadArgs {
    /// Returns the URLs of the servers from either form of argument; at least one.
    pub(crate) fn servers(&self) -> &[String] {
        if self.addresses.is_empty() {
            &self.url
        } else {
            &self.addresses
        }
    }
}
