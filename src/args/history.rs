//! Arguments of `history`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The experiment's YAML file, or its lock.
    pub(crate) study: PathBuf,
    /// The figure, as STAGE.OUTPUT.COLUMN, such as `results.cells.ttft_ms_p50`.
    #[arg(value_name = "TABLE.COLUMN")]
    pub(crate) figure_of: String,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Use only rows with this label; may be repeated.
    #[arg(long = "where", value_name = "COLUMN=LABEL", value_parser = super::global::parse_assignment)]
    pub(crate) only: Vec<(String, String)>,
    /// Largest number of commits to read, starting with the newest.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = |text: &str| super::values::parse_within::<u32>(text, 1, 1000))]
    pub(crate) commits: u32,
    /// Also draw the series as an SVG file.
    #[arg(long, value_name = "FILE", value_parser = super::output::parse_output())]
    pub(crate) figure: Option<PathBuf>,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}
