//! Arguments of the commands that use a shared store.

use std::path::PathBuf;

use clap::Args;

/// Which shared store.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Shared store to read results from (`run` also writes to it): a folder, or `s3://BUCKET/PREFIX` (`gs://`, `az://`).
    #[arg(long, env = "BENCHTRAIL_REMOTE", value_name = "URL")]
    pub(crate) remote: Option<String>,
}

/// Arguments of `push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The shared store, created if it does not exist: a folder, or `s3://BUCKET/PREFIX` (`gs://`, `az://`).
    pub(crate) remote: String,
    /// Experiments' YAML files or locks whose results to push [default: every lock of the project].
    pub(crate) studies: Vec<PathBuf>,
    /// Use a profile of the experiments.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Also check the objects that the store already has, and replace damaged ones.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Number of parallel transfers.
    #[arg(long, value_name = "N", default_value_t = remote::JOBS, value_parser = super::values::parse_positive::<usize>)]
    pub(crate) jobs: usize,
}

/// Arguments of `pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The shared store: a folder, or `s3://BUCKET/PREFIX` (`gs://`, `az://`).
    pub(crate) remote: String,
    /// Experiments' YAML files or locks whose results to pull [default: every lock of the project].
    pub(crate) studies: Vec<PathBuf>,
    /// Use a profile of the experiments.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Pull all results of the study with this name instead, without a lock; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["studies", "profile", "smoke"])]
    pub(crate) study: Vec<String>,
    /// Number of parallel transfers.
    #[arg(long, value_name = "N", default_value_t = remote::JOBS, value_parser = super::values::parse_positive::<usize>)]
    pub(crate) jobs: usize,
}
