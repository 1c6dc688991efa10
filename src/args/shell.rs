//! Arguments of the commands that help a shell: completions and manual pages.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write one page per command to, as `benchtrail-COMMAND.1`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
