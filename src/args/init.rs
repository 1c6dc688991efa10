//! Arguments of `init` and `list`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The study's name; the file is NAME.yaml [default: my-study].
    pub(crate) name: Option<String>,
    /// Engine to start, one of `benchtrail list engines`; two, separated by a comma, to compare them [default: llama-cpp].
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["from_url", "from_load"])]
    pub(crate) engine: Option<String>,
    /// Model to serve, one of `benchtrail list models`. For an engine that loads models itself, the
    /// model's id or path [default: smollm2-135m-instruct].
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Study a running server at this URL instead of starting one.
    #[arg(long, alias = "url", value_name = "URL", conflicts_with = "from_load")]
    pub(crate) from_url: Option<String>,
    /// Study the server, requests and arrivals of an earlier `load --out DIR`.
    #[arg(long, value_name = "DIR")]
    pub(crate) from_load: Option<PathBuf>,
    /// Study result files of vLLM, SGLang, GuideLLM, AIPerf or GenAI-Perf instead of measuring; a folder
    /// stands for every result file in it.
    #[arg(long, alias = "from-result", value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["engine", "model", "from_url", "from_load", "api_key_env", "api", "workloads", "clients",
          "rates", "requests", "repetitions"])]
    pub(crate) from_results: Vec<PathBuf>,
    /// For a running server: environment variable that holds its API key.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// For a running server: API to use, one of `benchtrail list apis` [default: openai-chat; the default of `load` is
    /// openai-completions].
    #[arg(long, value_name = "API", value_parser = super::values::parse_api())]
    pub(crate) api: Option<String>,
    /// Workloads from `benchtrail list workloads`, separated by commas [default: short-decode].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) workloads: Vec<String>,
    /// Levels of a closed loop of clients, separated by commas [default: 1,2,4].
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "rates",
          value_parser = super::values::parse_clients)]
    pub(crate) clients: Vec<u32>,
    /// Levels of Poisson arrivals in requests per second, separated by commas; `inf` sends all requests at once.
    #[arg(long, value_name = "R,…", value_delimiter = ',', value_parser = super::values::parse_level)]
    pub(crate) rates: Vec<f64>,
    /// Measured requests in each cell [default: 16; if a level has more clients, 8 for each client].
    #[arg(long, value_name = "N", value_parser = super::values::parse_positive::<u64>)]
    pub(crate) requests: Option<u64>,
    /// Number of repetitions, each with a new launch of the server [default: 3; 5 if the study compares two engines].
    #[arg(long, value_name = "N", value_parser = super::values::parse_positive::<u32>)]
    pub(crate) repetitions: Option<u32>,
    /// Do not ask questions, even in a terminal.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// What to list [default: show what you can list].
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) what: Option<Listed>,
    /// Show only this one, in full.
    pub(crate) name: Option<String>,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Engines that a provision stage can name.
    #[value(alias = "engine")]
    Engines,
    /// Models that a provision stage can name.
    #[value(alias = "model")]
    Models,
    /// Workloads that a load stage can name.
    #[value(alias = "workload")]
    Workloads,
    /// Gates of verify stages.
    #[value(alias = "gate")]
    Gates,
    /// Operators of analyze stages.
    #[value(alias = "operator")]
    Operators,
    /// Templates of report stages.
    #[value(alias = "template")]
    Templates,
    /// APIs that the load generator speaks.
    #[value(alias = "api")]
    Apis,
}
