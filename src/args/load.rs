//! Arguments of `load`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::values::{
    parse_api, parse_bound, parse_count, parse_header, parse_ramp, parse_rate, parse_span,
    parse_step, parse_tool,
};

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("arrivals"))]
pub(crate) struct LoadArgs {
    /// The server's URL, such as `http://127.0.0.1:8080` or `https://engine.example`.
    #[arg(long)]
    pub(crate) url: String,
    /// For https://: a PEM file with the only certificates to trust [default: those the operating
    /// system trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The model's name in requests [default: the first one under /v1/models].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The API to speak.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api())]
    pub(crate) api: String,
    /// Ask for whole answers instead of streamed ones: there is no time to first token then.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// The environment variable that holds the API key; the key itself is stored nowhere.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// A header sent with every request, for instance a route of a gateway; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,

    /// So many clients, each sending its next request when its last is answered [default: 1].
    #[arg(long, value_name = "N", group = "arrivals", help_heading = "When requests arrive",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Poisson arrivals, so many requests a second, whatever the server does.
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "When requests arrive",
          value_parser = parse_rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Evenly spaced arrivals, so many requests a second, whatever the server does.
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "When requests arrive",
          value_parser = parse_rate, allow_negative_numbers = true)]
    pub(crate) constant: Option<f64>,
    /// Every request at once.
    #[arg(long, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) burst: bool,
    /// A ladder of Poisson arrivals: rate and seconds of each step, as in `2:30,4:30,8:30`.
    #[arg(long, value_name = "R:S,…", value_delimiter = ',', value_parser = parse_step, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) steps: Vec<(f64, f64)>,
    /// Poisson arrivals whose rate changes evenly: from, to, and over how many seconds.
    #[arg(long, value_name = "FROM:TO:S", value_parser = parse_ramp, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) ramp: Option<(f64, f64, f64)>,
    /// Times and lengths of a recorded trace, JSON Lines or CSV; with --workload or --prompt-words
    /// only the times.
    #[arg(
        long,
        value_name = "FILE",
        group = "arrivals",
        help_heading = "When requests arrive"
    )]
    pub(crate) trace: Option<String>,
    /// How many times faster than recorded the trace is replayed.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "trace",
        help_heading = "When requests arrive"
    )]
    pub(crate) speed: f64,
    /// With --rate: gamma arrivals of this shape; 1 is Poisson, smaller comes in bursts.
    #[arg(
        long,
        value_name = "SHAPE",
        requires = "rate",
        help_heading = "When requests arrive"
    )]
    pub(crate) burstiness: Option<f64>,
    /// How many requests are measured [default: 64; what fits into a ladder or ramp; all of a trace].
    #[arg(long, value_name = "N", help_heading = "When requests arrive",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// How many requests are sent and answered before, and not counted.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "When requests arrive"
    )]
    pub(crate) warmup: u64,

    /// A workload by name: shipped, or `workloads/NAME.yaml` here [default: short-decode].
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "prompt_words",
        help_heading = "What a request asks for"
    )]
    pub(crate) workload: Option<String>,
    /// Prompts of so many random words, nothing in common between them: `N` or `A..B`, both ends in it.
    #[arg(long, value_name = "A..B", value_parser = parse_count, help_heading = "What a request asks for")]
    pub(crate) prompt_words: Option<(u32, u32)>,
    /// Prompts of so many tokens, made of random words: `N` or `A..B`. The server's own
    /// tokenizer counts, unless --tokenizer is given.
    #[arg(long, value_name = "A..B", value_parser = parse_count, conflicts_with_all = ["prompt_words", "workload"], help_heading = "What a request asks for")]
    pub(crate) prompt_tokens: Option<(u32, u32)>,
    /// A `tokenizer.json` that counts the tokens of --prompt-tokens.
    #[arg(
        long,
        value_name = "FILE",
        requires = "prompt_tokens",
        help_heading = "What a request asks for"
    )]
    pub(crate) tokenizer: Option<String>,
    /// Output tokens asked for, `N` or `A..B`, end of sequence ignored where the API can be told
    /// so [default: as the workload says; 64 with --prompt-words or --prompt-tokens].
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "What a request asks for")]
    pub(crate) output_tokens: Option<(u32, u32)>,
    /// Decides prompts and random arrivals.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 164,
        help_heading = "What a request asks for"
    )]
    pub(crate) seed: u64,

    /// For opening a connection.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "10 s", help_heading = "Time limits")]
    pub(crate) connect_timeout: String,
    /// From sending to the first byte of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "5 min", help_heading = "Time limits")]
    pub(crate) first_token_timeout: String,
    /// Between bytes of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) inter_token_timeout: String,
    /// From sending to the answer's end.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 h", help_heading = "Time limits")]
    pub(crate) timeout: String,
    /// No byte on any stream for so long ends the run as hung; `0 s` never does.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) heartbeat: String,

    /// From one sample beside the load to the next; samples are taken with --out.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 s", help_heading = "Beside the load")]
    pub(crate) telemetry_interval: String,
    /// Where GPUs are read: `auto`, `nvml`, `nvidia-smi` or `none`.
    #[arg(long, value_name = "WORD", default_value = "auto", value_parser = ["auto", "nvml", "nvidia-smi", "none"], help_heading = "Beside the load")]
    pub(crate) gpu: String,
    /// The server's process, if it runs on this machine: its process group is sampled.
    #[arg(long, value_name = "PID", help_heading = "Beside the load")]
    pub(crate) server_pid: Option<u32>,
    /// A silent server is hung only if no GPU drew so many watts on average meanwhile.
    #[arg(long, value_name = "WATTS", help_heading = "Beside the load")]
    pub(crate) hung_below: Option<f64>,
    /// Where llama.cpp tells its slots, for slots.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Beside the load")]
    pub(crate) slots: Option<String>,
    /// Where SGLang tells its state, for server_info.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Beside the load")]
    pub(crate) server_info: Option<String>,

    /// Search for the highest level that keeps --slo, from that of --concurrency, --rate or
    /// --constant up to this one; --requests [default: 400] is the most judged at one level, unless
    /// a rate needs more to show an overload.
    #[arg(long, value_name = "LEVEL", requires = "slo", help_heading = "Search")]
    pub(crate) search: Option<f64>,
    /// The share of requests that must keep --slo.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.95,
        requires = "search",
        help_heading = "Search"
    )]
    pub(crate) attainment: f64,
    /// How far apart, relatively, the level kept and the level missed may be at the end.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        requires = "search",
        help_heading = "Search"
    )]
    pub(crate) resolution: f64,
    /// The longest that requests may arrive in one probe of a rate.
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "5 min",
        requires = "search",
        help_heading = "Search"
    )]
    pub(crate) longest: String,

    /// Bounds in ms for goodput: any of `ttft`, `tpot`, `e2e`, as in `ttft=200,tpot=40`.
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', value_parser = parse_bound, help_heading = "Results")]
    pub(crate) slo: Vec<(String, f64)>,
    /// Print, too, what another tool's formulas make of the same rows.
    #[arg(long, value_name = "TOOL", value_parser = parse_tool(), conflicts_with = "search", help_heading = "Results")]
    pub(crate) compat: Option<String>,
    /// Where the server's Prometheus metrics are, for server_metrics.parquet.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/metrics",
        help_heading = "Results"
    )]
    pub(crate) metrics: String,
    /// Write requests, chunks, cell, prompts and what is sampled beside the load as Parquet into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Say nothing but the result.
    #[arg(long, short, help_heading = "Results")]
    pub(crate) quiet: bool,
}
