//! Arguments of the commands that trace the numbers of a report.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The report, optionally followed by `:LINE` or `:LINE:COLUMN`.
    pub(crate) report: String,
    /// The number, as the report prints it.
    pub(crate) number: Option<String>,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The report.
    pub(crate) report: PathBuf,
    /// Audit a report that Benchtrail did not make: Markdown, or text extracted from another format.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Folder with tables to check the report against: CSV, TSV, JSON lines (.jsonl) or Parquet files.
    #[arg(long, value_name = "DIR", requires = "foreign")]
    pub(crate) data: Option<PathBuf>,
    /// Also write the findings as SARIF 2.1.0.
    #[arg(long, value_name = "FILE", requires = "foreign")]
    pub(crate) sarif: Option<PathBuf>,
    /// Exit with 1 only for findings of at least this confidence; all findings are shown.
    #[arg(long, value_name = "CONFIDENCE", value_enum, default_value_t = AtLeast::High, requires = "foreign")]
    pub(crate) at_least: AtLeast,
}

/// Confidence of a finding in a foreign report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AtLeast {
    /// The finding needs your confirmation.
    Low,
    /// The binding of words to numbers is inferred; the arithmetic is certain.
    Medium,
    /// Operands and result are side by side, or the form itself is broken.
    High,
}
