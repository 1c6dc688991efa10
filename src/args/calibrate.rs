//! Arguments of `calibrate`.

use std::path::PathBuf;

use clap::Args;

use super::values::{parse_api, parse_clients, parse_duration, parse_gap, parse_rate, parse_spans};

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Numbers of clients in closed loops, separated by commas [default: 1,16,64,256].
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = parse_clients)]
    pub(crate) concurrency: Vec<u32>,
    /// Rates of constant arrivals in requests per second, separated by commas [default: 50,200].
    #[arg(long, value_name = "R,…", value_delimiter = ',', value_parser = parse_rate)]
    pub(crate) rate: Vec<f64>,
    /// Gaps between tokens, separated by commas [default: 10 ms,50 ms].
    #[arg(long, value_name = "SPAN,…", value_delimiter = ',', value_parser = parse_gap)]
    pub(crate) gap: Vec<String>,
    /// Approximate time to measure each point [default: 3 s].
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    pub(crate) duration: Option<String>,
    /// Bound on the absolute error of TTFT and E2E: median and 99th percentile [default: 2 ms,20 ms].
    #[arg(long, value_name = "P50,P99", value_parser = parse_spans)]
    pub(crate) bound: Option<(String, String)>,
    /// Measure a small grid for one second per point.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Use TLS between client and reference server, with a temporary certificate.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Seed for the prompts.
    #[arg(long, value_name = "N", default_value_t = 164, value_parser = super::values::parse_whole::<u64>)]
    pub(crate) seed: u64,
    /// Write calibration.parquet and instrument.json to this folder. With --url, also write
    /// server_account.parquet.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print only the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// URL of a real server, such as `http://127.0.0.1:8080`. Compare measured times with the times
    /// that the server reports, as llama.cpp does.
    #[arg(long, help_heading = "A real server")]
    pub(crate) url: Option<String>,
    /// Numbers of clients in closed loops against the server, separated by commas.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1",
        value_parser = parse_clients,
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) server_concurrency: Vec<u32>,
    /// Number of requests in each closed loop.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        requires = "url",
        value_parser = super::values::parse_positive::<u64>,
        help_heading = "A real server"
    )]
    pub(crate) server_requests: u64,
    /// For https://: trust only the certificates in this PEM file [default: those that the
    /// operating system trusts].
    #[arg(
        long,
        value_name = "FILE",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) ca_file: Option<PathBuf>,
    /// Model name to send in requests [default: the first one under /v1/models].
    #[arg(
        long,
        value_name = "NAME",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) model: Option<String>,
    /// API to use.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api(), requires = "url", help_heading = "A real server")]
    pub(crate) api: String,
    /// Environment variable that holds the API key; the key itself is never stored.
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) api_key_env: Option<String>,
}
