//! Arguments of the commands that plan, execute and read an experiment.

use std::path::PathBuf;

use clap::Args;

use super::{ExperimentArgs, Selection};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which cells.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Go on with other cells when one fails; later stages see the ledger.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Threads for pure stages [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Where to write the report; figures and trace go beside it
    /// [default: `reports/NAME/report.md` in the project's folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every event as one JSON line to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Measure without trying verification, analysis and report on made-up rows first.
    #[arg(long)]
    pub(crate) no_dry_run: bool,
    /// Say nothing but the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which cells.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// A line for each cell instead of grouping cells of one stage that share a reason.
    #[arg(long)]
    pub(crate) cells: bool,
    /// Also execute verification, analysis and report over made-up rows, in a store that is thrown
    /// away, to find what is wrong with them before anything is measured.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// A line for each cell, ok ones too.
    #[arg(long)]
    pub(crate) cells: bool,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which stage or cells: `STAGE` or `STAGE[axis=label,…]` [default: all].
    pub(crate) cells: Option<String>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A digest (its start is enough), or an experiment's YAML file.
    pub(crate) source: String,
    /// In an experiment: `STAGE.OUTPUT`, `STAGE[axis=label,…].OUTPUT`; without an output, the record.
    pub(crate) what: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Which rows of a table, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Which columns of a table, separated by commas [default: all, in a terminal those that fit].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) columns: Vec<String>,
    /// Write the bytes as they are in the store.
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The experiment's YAML file.
    pub(crate) experiment: PathBuf,
    /// One SELECT [default: list the tables].
    pub(crate) query: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Which rows of the answer to show, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Print the answer as CSV: null is an empty field.
    #[arg(long, conflicts_with_all = ["rows", "json"])]
    pub(crate) csv: bool,
    /// Write the answer to a Parquet file, units in the fields' metadata.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "csv"], requires = "query")]
    pub(crate) parquet: Option<PathBuf>,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The older study: a lock, an experiment's YAML file, or a bundle.
    pub(crate) a: PathBuf,
    /// The newer study.
    pub(crate) b: Option<PathBuf>,
    /// The profile, for sides that are YAML files.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Columns of the tables of cells to compare [default: throughputs and the usual latencies].
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Vec<String>,
    /// The smallest relative change that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) threshold: f64,
    /// The largest Holm-adjusted p that counts.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// The test over repetitions.
    #[arg(long, value_name = "TEST", default_value = "welch", value_parser = ["welch", "mann-whitney"])]
    pub(crate) test: String,
    /// Exit with 1 if a result got worse, or changed where nobody measured the noise.
    #[arg(long)]
    pub(crate) gate: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also check what this experiment needs.
    pub(crate) experiment: Option<PathBuf>,
}
