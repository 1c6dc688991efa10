//! Arguments of the commands that publish a study and check what was published.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::ExperimentArgs;

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Who is to be cited; once for each author.
    #[arg(long, value_name = "NAME", required = true)]
    pub(crate) author: Vec<String>,
    /// The license of the results, an SPDX identifier.
    #[arg(long, value_name = "ID", default_value = "CC-BY-4.0", value_parser = parse_license)]
    pub(crate) license: String,
    /// The directory to write; it must not exist [default: `published/NAME` in the project's folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write `DIR.tar.zst` too.
    #[arg(long)]
    pub(crate) archive: bool,
    /// The private key to sign with, as `benchtrail keygen` makes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A file that the study reads and that must not be copied, a data set for instance: the bundle
    /// names its digest alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) leave_out: Vec<PathBuf>,
    /// Switch off a rule of the search for secrets; the bundle says so.
    #[arg(long, value_name = "RULE", value_parser = parse_rule())]
    pub(crate) allow: Vec<String>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// The public key that must have signed it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// Threads [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
}

/// Arguments of `keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// The files' name without extension.
    #[arg(default_value = "benchtrail")]
    pub(crate) name: PathBuf,
}

fn parse_rule() -> PossibleValuesParser {
    PossibleValuesParser::new(bundle::RULES.iter().map(|rule| rule.name))
}

/// Reads an SPDX license identifier; which of them exist is not known here.
fn parse_license(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if !text.is_empty() && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no SPDX identifier such as CC-BY-4.0"))
    }
}
