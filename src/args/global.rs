//! Arguments shared by several commands: the store, the experiment and its form, the selection of cells.

use std::path::PathBuf;

use clap::Args;

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder of the store [default: `.benchtrail` in the project's folder].
    #[arg(
        long,
        global = true,
        env = "BENCHTRAIL_STORE",
        value_name = "DIR",
        value_parser = parse_store,
        help_heading = "Global options"
    )]
    pub(crate) store: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

/// Which experiment, in which form.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExperimentArgs {
    /// The experiment's YAML file.
    pub(crate) experiment: PathBuf,
    /// Set a parameter of the experiment.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Use a profile of the experiment: a named set of parameter values and axes.
    #[arg(long, value_name = "NAME", value_parser = super::values::parse_profile)]
    pub(crate) profile: Option<String>,
    /// Shorthand for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
}

impl ExperimentArgs {
    /// Returns the requested profile, from either option.
    pub(crate) fn profile(&self) -> Option<String> {
        if self.smoke {
            Some("smoke".to_owned())
        } else {
            self.profile.clone()
        }
    }
}

/// Which cells to consider, and what to force.
#[derive(Clone, Debug, Args, Default)]
pub(crate) struct Selection {
    /// Include only these stages or cells and what they need: `STAGE` or `STAGE[axis=label,…]`. Repeat the option for
    /// several.
    #[arg(long, value_name = "CELLS")]
    pub(crate) only: Vec<String>,
    /// Execute this stage and every stage that depends on it again (measurements only with --fresh).
    #[arg(long, value_name = "STAGE")]
    pub(crate) from: Option<String>,
    /// Measure this stage again even if its results are cached; the old results are kept.
    #[arg(long, value_name = "STAGE", conflicts_with = "locked")]
    pub(crate) fresh: Vec<String>,
    /// Take engines and measurements from the lock, on any machine.
    #[arg(long)]
    pub(crate) locked: bool,
    /// Which measurements of others to use [default: the experiment's `reuse`, or `never`].
    #[arg(long, value_name = "POLICY", value_parser = ["never", "same-host", "same-facets"])]
    pub(crate) reuse: Option<String>,
}

/// A variable that is set to nothing must not mean the default store: the script that sets it meant another one.
fn parse_store(text: &str) -> Result<PathBuf, String> {
    match text.is_empty() {
        true => Err(
            "the folder's name is empty; is the variable BENCHTRAIL_STORE set to nothing?"
                .to_owned(),
        ),
        false => Ok(PathBuf::from(text)),
    }
}

pub(super) fn parse_assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` has no value: write `{text}=VALUE`"))?;
    if name.is_empty() {
        return Err(format!("`{text}` does not name a parameter"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_a_name_is_an_error_that_names_the_variable() {
        let error = parse_store("").expect_err("no folder is named");
        assert!(error.contains("BENCHTRAIL_STORE"), "{error}");
        assert_eq!(parse_store(" x"), Ok(PathBuf::from(" x")));
    }
}
