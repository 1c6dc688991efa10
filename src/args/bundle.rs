//! Arguments of the commands that publish a study and check what was published.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{ExperimentArgs, RemoteArgs};

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which shared store.
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Name of an author to cite; may be repeated.
    #[arg(long, value_name = "NAME", required = true, value_parser = parse_author)]
    pub(crate) author: Vec<String>,
    /// License of the results, as an SPDX identifier.
    #[arg(long, value_name = "ID", default_value = "CC-BY-4.0", value_parser = parse_license)]
    pub(crate) license: String,
    /// Directory to write; it must not exist yet [default: `published/NAME` in the project's folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also write `DIR.tar.zst`.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Private key to sign with, as written by `benchtrail keygen`.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// File that the study reads but that must not be copied, such as a licensed data set. The bundle
    /// holds only its digest. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) leave_out: Vec<PathBuf>,
    /// Output of measured cells to leave out, such as `prompts` or `chunks`, for a smaller bundle. The
    /// bundle holds only their digests. May be repeated.
    #[arg(long, value_name = "OUTPUT")]
    pub(crate) without: Vec<String>,
    /// Switch off a rule of the search for secrets. The bundle records this.
    #[arg(long, value_name = "RULE", value_parser = parse_rule())]
    pub(crate) allow: Vec<String>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// Public key that must have signed the bundle.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// Number of threads [default: the number of cores].
    #[arg(long, value_name = "N", value_parser = super::values::parse_positive::<usize>)]
    pub(crate) jobs: Option<usize>,
}

/// Arguments of `keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// Name of the two key files, without extension.
    #[arg(default_value = "benchtrail")]
    pub(crate) name: PathBuf,
}

fn parse_rule() -> PossibleValuesParser {
    PossibleValuesParser::new(bundle::RULES.iter().map(|rule| rule.name))
}

/// Reads an SPDX license identifier; does not check that it exists.
fn parse_author(text: &str) -> Result<String, String> {
    match text.trim().is_empty() || text.chars().any(pipeline::place::is_hidden) {
        false => Ok(text.to_owned()),
        true => Err(
            "a name is one line of text without hidden characters, such as 'Ada Lovelace'"
                .to_owned(),
        ),
    }
}

fn parse_license(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if !text.is_empty() && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is not an SPDX identifier such as CC-BY-4.0"
        ))
    }
}
