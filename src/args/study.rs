//! Arguments of the commands that plan, execute and read an experiment.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{ExperimentArgs, RemoteArgs, Selection};
use crate::trust::Answer;

/// Arguments of `run`.
#[derive(Debug, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct RunArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which cells.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Which shared store.
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Continue with other cells when one fails; later stages see the failure in the ledger.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Number of threads for pure stages [default: the number of cores].
    #[arg(long, value_name = "N", value_parser = super::values::parse_positive::<usize>)]
    pub(crate) jobs: Option<usize>,
    /// File to write the report to; figures and trace go into the same folder
    /// [default: `reports/NAME/report.md` in the project's folder].
    #[arg(long, value_name = "FILE", value_parser = super::output::parse_report())]
    pub(crate) report: Option<PathBuf>,
    /// Write events to this file, one JSON line per event [default: `events.jsonl` in the folder
    /// of the default report].
    #[arg(long, value_name = "FILE", value_parser = super::output::parse_output())]
    pub(crate) events: Option<PathBuf>,
    /// Measure nothing. Show the plan, and test verification, analysis and report on synthetic rows, like
    /// `plan --dry-run`.
    #[arg(long, conflicts_with = "no_dry_run")]
    pub(crate) dry_run: bool,
    /// Measure without first testing verification, analysis and report on synthetic rows.
    #[arg(long)]
    pub(crate) no_dry_run: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Start the run without a terminal and return. `attach` shows it, `stop` ends it, `status` shows whether it is running.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) detach: bool,
    /// Print only the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Show the logs of engines while they start.
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// Consent to what an experiment starts.
#[derive(Debug, Default, Args)]
pub(crate) struct Trust {
    /// Start the experiment's programs without asking whether you trust them, and remember this for
    /// the folder. For CI.
    #[arg(long, env = "BENCHTRAIL_TRUST", value_parser = FalseyValueParser::new())]
    trust: bool,
}

impl Trust {
    /// Returns whether the user consents in advance to what would start.
    pub(crate) fn answer(&self) -> Answer {
        match self.trust {
            true => Answer::Given,
            false => Answer::Ask,
        }
    }
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
    /// Which shared store.
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Print one line per cell; by default, cells of one stage that share a reason are grouped.
    #[arg(long)]
    pub(crate) cells: bool,
    /// Instead of the plan, show every program, argument list, variable, download and server of the
    /// experiment.
    #[arg(long, conflicts_with_all = ["cells", "dry_run"])]
    pub(crate) commands: bool,
    /// Also execute verification, analysis and report on synthetic rows in a temporary store. This finds
    /// mistakes before you measure.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}

/// Arguments of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Print one line per cell, including ok cells.
    #[arg(long)]
    pub(crate) cells: bool,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Stage or cells to list: `STAGE` or `STAGE[axis=label,…]` [default: all].
    pub(crate) cells: Option<String>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A digest or its first characters, an experiment's YAML file, a bundle, a Parquet file, or a
    /// folder that `load --out` wrote.
    pub(crate) source: String,
    /// In an experiment: `STAGE.OUTPUT` or `STAGE[axis=label,…].OUTPUT`. Without an output, the record is
    /// shown. In a folder: the table.
    pub(crate) what: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Rows of a table to show, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Columns of a table to show, separated by commas [default: all; in a terminal, those that fit].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) columns: Vec<String>,
    /// Write the raw bytes of the artifact.
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The experiment's YAML file, a bundle, a Parquet file, or a folder that `load --out` wrote.
    pub(crate) experiment: PathBuf,
    /// A single SELECT [default: list the tables].
    pub(crate) query: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Rows of the answer to show, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Print the answer as CSV; null becomes an empty field.
    #[arg(long, conflicts_with_all = ["rows", "json"])]
    pub(crate) csv: bool,
    /// Write the answer to a Parquet file, with units in the fields' metadata.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "csv"], requires = "query",
        value_parser = super::output::parse_output())]
    pub(crate) parquet: Option<PathBuf>,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The older study: a lock, an experiment's YAML file, a bundle, a folder that `load --out` wrote, or a
    /// commit of the newer study's lock, such as `HEAD~1`.
    pub(crate) a: PathBuf,
    /// The newer study. Without it, `diff` shows what changed in an experiment since it ran.
    pub(crate) b: Option<PathBuf>,
    /// Profile to use, for studies given as YAML files.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Column of the cell tables to compare; may be repeated [default: throughputs and the usual
    /// latencies].
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Vec<String>,
    /// Smallest relative change that counts, in percent: `5` and `5%` are the same. For a rate, a fall by 5 % is a
    /// worsening by 5 %.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = super::values::parse_percent)]
    pub(crate) threshold: f64,
    /// Largest Holm-adjusted p value that counts as a change. Each bound of the gate has the level 1 − this.
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = super::values::parse_share)]
    pub(crate) alpha: f64,
    /// Statistical test for each result, over the units of replication.
    #[arg(long, value_name = "TEST", default_value = "welch", value_parser = ["welch", "mann-whitney"])]
    pub(crate) test: String,
    /// Axis whose labels are the units of replication; may be repeated [default: `block`].
    #[arg(long, value_name = "AXIS")]
    pub(crate) unit: Vec<String>,
    /// Measurement condition that may differ between the studies, such as `frequency`; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = compare::conditions())]
    pub(crate) conditions_may_differ: Vec<String>,
    /// How many percent of its requests the newer study may lose beyond the older one's share, which may hide slow
    /// requests.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = super::values::parse_percent)]
    pub(crate) lost_requests: f64,
    /// Exit with 1 if a column got worse over all coordinates, and with 6 if the data do not allow a
    /// decision.
    #[arg(long)]
    pub(crate) gate: bool,
}

/// Arguments of `power`.
#[derive(Debug, Args)]
pub(crate) struct PowerArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Number of studies to simulate.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = |text: &str| super::values::parse_within::<u64>(text, 20, 1_000_000))]
    pub(crate) studies: u64,
    /// True effects to look for, in percent, separated by commas [default: 1,5,10,20].
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [1.0, 5.0, 10.0, 20.0], hide_default_value = true, value_parser = super::values::parse_percent)]
    pub(crate) effect: Vec<f64>,
    /// Noise between launches, in percent [default: that of earlier blocks, or the declared noise, or 3].
    #[arg(long, value_name = "PERCENT", value_parser = super::values::parse_percent)]
    pub(crate) noise: Option<f64>,
    /// Noise between cells within a launch, in percent [default: half the noise between launches].
    #[arg(long, value_name = "PERCENT", value_parser = super::values::parse_percent)]
    pub(crate) cell_noise: Option<f64>,
    /// Noise between requests within a cell, in percent; it makes quantiles vary [default: 10].
    #[arg(long, value_name = "PERCENT", value_parser = super::values::parse_percent)]
    pub(crate) request_noise: Option<f64>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also check what this experiment needs.
    pub(crate) experiment: Option<PathBuf>,
    /// Also hash every unpacked file of engines and weights in the store.
    #[arg(long)]
    pub(crate) deep: bool,
}
