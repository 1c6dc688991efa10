//! Arguments of the commands that trace the numbers of a report.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::RemoteArgs;

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The report, optionally followed by `:LINE` or `:LINE:COLUMN`.
    pub(crate) report: String,
    /// The number, as the report prints it.
    pub(crate) number: Option<String>,
    /// Which shared store.
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A folder that `load --out` wrote, an experiment's YAML file, a lock, or a bundle.
    pub(crate) study: PathBuf,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// File to write the report to; figures and trace go into the same folder [default: `reports/NAME/report.md`,
    /// as for `run`; for a folder of rows, `report.md` in that folder].
    #[arg(long, value_name = "FILE", value_parser = super::output::parse_report())]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The report; with --foreign, one or more.
    #[arg(required = true, value_name = "REPORT")]
    pub(crate) reports: Vec<PathBuf>,
    /// Which shared store.
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Audit reports that Benchtrail did not make: Markdown, HTML or plain text.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Tables that may contain the numbers: CSV, TSV, JSON Lines (.jsonl) or Parquet files, or folders of
    /// them.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "foreign")]
    pub(crate) data: Vec<PathBuf>,
    /// Also write a page for reviewers, .html or .md, that shows where every number comes from. Needs
    /// --data and a single report.
    #[arg(long, value_name = "FILE", requires = "data", value_parser = super::output::parse_output())]
    pub(crate) page: Option<PathBuf>,
    /// Also write the findings as SARIF 2.1.0.
    #[arg(long, value_name = "FILE", requires = "foreign", value_parser = super::output::parse_output())]
    pub(crate) sarif: Option<PathBuf>,
}

/// Arguments of `explore`.
#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// What to explore: an experiment's YAML file, a lock, a published bundle, a folder that `load --out`
    /// wrote, or any other folder [default: every study of the project].
    pub(crate) what: Option<PathBuf>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Address to listen on. If other machines can reach it, the printed URL contains an access token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7311", value_parser = parse_address)]
    pub(crate) listen: SocketAddr,
    /// Require an access token on this machine, too. Without it, every user of this machine can read the studies.
    #[arg(long, conflicts_with = "export")]
    pub(crate) token: bool,
    /// Instead of serving, write one study as an HTML file that opens without a server.
    #[arg(long, value_name = "FILE", conflicts_with = "listen", value_parser = super::output::parse_output())]
    pub(crate) export: Option<PathBuf>,
    /// Largest size of the file, in MiB. Benchtrail leaves out what does not fit and lists it.
    #[arg(long, value_name = "MIB", default_value_t = 24, requires = "export",
        value_parser = |text: &str| super::values::parse_within::<u32>(text, 1, 1024))]
    pub(crate) limit: u32,
    /// Leave the chunks of answers out of the file. The file is smaller, but requests are shown without
    /// individual tokens.
    #[arg(long, requires = "export")]
    pub(crate) no_chunks: bool,
}

/// Reads an address and a port. The only accepted name is `localhost`, which needs no lookup.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let numbers = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numbers.parse().map_err(|_| {
        "write an IP address and a port up to 65535, for example 127.0.0.1:7311 or [::1]:0 (0 is any free port); \
         names other than `localhost` are not looked up"
            .to_owned()
    })
}
