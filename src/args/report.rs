//! Arguments of the commands that ask of a report where its numbers came from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The report, with `:LINE` or `:LINE:COLUMN` to point at a place in it.
    pub(crate) report: String,
    /// The number as the report prints it.
    pub(crate) number: Option<String>,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The report.
    pub(crate) report: PathBuf,
    /// The report is not Benchtrail's: Markdown, or text extracted from another format.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Tables to hold the report against: a folder of CSV, TSV, JSON lines (.jsonl) or Parquet files.
    #[arg(long, value_name = "DIR", requires = "foreign")]
    pub(crate) data: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0 too.
    #[arg(long, value_name = "FILE", requires = "foreign")]
    pub(crate) sarif: Option<PathBuf>,
    /// Exit with 1 from this confidence on; lower ones are shown all the same.
    #[arg(long, value_name = "CONFIDENCE", value_enum, default_value_t = AtLeast::High, requires = "foreign")]
    pub(crate) at_least: AtLeast,
}

/// Confidence of a finding in a foreign report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AtLeast {
    /// To look at.
    Low,
    /// What the words are bound to is an inference; the arithmetic is not.
    Medium,
    /// Operands and result stand beside each other, or the form is broken.
    High,
}
