//! Arguments of the commands that publish a study and check what was published.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use pipeline::suggest::closest;

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

/// Reads the name of an author: one line of visible text.
fn parse_author(text: &str) -> Result<String, String> {
    match text.trim().is_empty() || text.chars().any(pipeline::place::is_hidden) {
        false => Ok(text.to_owned()),
        true => Err(
            "a name is one line of text without hidden characters, such as 'Ada Lovelace'"
                .to_owned(),
        ),
    }
}

/// Reads the SPDX identifier of a license. It must be on SPDX's list, because the metadata of the bundle link to its page.
fn parse_license(text: &str) -> Result<String, String> {
    if let Some(id) = spdx::license_id(text) {
        return Ok(id.name.to_owned());
    }
    let listed = spdx::identifiers::LICENSES
        .iter()
        .map(|license| license.name);
    let by_name = spdx::imprecise_license_id(text).filter(|(_, length)| *length == text.len());
    let meant = by_name.map(|(id, _)| id.name);
    Err(match meant.or_else(|| closest(text, listed)) {
        Some(meant) => format!("no license has this SPDX identifier; did you mean `{meant}`?"),
        None => "no license has this SPDX identifier; write one such as `CC-BY-4.0`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::parse_license;

    #[test]
    fn a_license_is_on_the_list_of_spdx() {
        for id in ["CC-BY-4.0", "CC0-1.0", "MIT", "Apache-2.0", "ODbL-1.0"] {
            assert_eq!(parse_license(id).as_deref(), Ok(id));
        }
        for (theirs, ours) in [
            ("MITT", "MIT"),
            ("cc-by-4.0", "CC-BY-4.0"),
            ("CC-BY4.0", "CC-BY-4.0"),
            ("apache 2.0", "Apache-2.0"),
        ] {
            let error = parse_license(theirs).unwrap_err();
            assert!(
                error.ends_with(&format!("did you mean `{ours}`?")),
                "{error}"
            );
        }
        for none in ["", "ours, all rights reserved", "MIT OR Apache-2.0"] {
            let error = parse_license(none).unwrap_err();
            assert!(error.ends_with("such as `CC-BY-4.0`"), "{error}");
        }
    }
}
