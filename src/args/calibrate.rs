//! Arguments of `calibrate`.

use std::path::PathBuf;

use clap::Args;

use super::values::{parse_api, parse_spans};

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Closed loops of so many clients, separated by commas [default: 1,16,64,256].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) concurrency: Vec<u32>,
    /// Constant arrivals of so many requests a second, separated by commas [default: 50,200].
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    pub(crate) rate: Vec<f64>,
    /// Gaps between tokens, separated by commas [default: 10 ms,50 ms].
    #[arg(long, value_name = "SPAN,…", value_delimiter = ',')]
    pub(crate) gap: Vec<String>,
    /// How long each point is measured, about [default: 3 s].
    #[arg(long, value_name = "SPAN")]
    pub(crate) duration: Option<String>,
    /// What |error| of TTFT and E2E may be: median and 99th percentile [default: 2 ms,20 ms].
    #[arg(long, value_name = "P50,P99", value_parser = parse_spans)]
    pub(crate) bound: Option<(String, String)>,
    /// A small grid, one second a point.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Let the reference server speak TLS, with a certificate made for it.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Decides the prompts.
    #[arg(long, value_name = "N", default_value_t = 164)]
    pub(crate) seed: u64,
    /// Write calibration.parquet and instrument.json, with --url server_account.parquet, into this
    /// folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Say nothing but the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Compare times with the own account of a server that tells one (llama.cpp), such as
    /// `http://127.0.0.1:8080`.
    #[arg(long, help_heading = "A real server")]
    pub(crate) url: Option<String>,
    /// Closed loops of so many clients, separated by commas.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) server_concurrency: Vec<u32>,
    /// Requests of each closed loop.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) server_requests: u64,
    /// For https://: a PEM file with the only certificates to trust [default: those the operating
    /// system trusts].
    #[arg(
        long,
        value_name = "FILE",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) ca_file: Option<PathBuf>,
    /// The model's name in requests [default: the first one under /v1/models].
    #[arg(
        long,
        value_name = "NAME",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) model: Option<String>,
    /// The API to speak.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api(), requires = "url", help_heading = "A real server")]
    pub(crate) api: String,
    /// The environment variable that holds the API key; the key itself is stored nowhere.
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) api_key_env: Option<String>,
}
