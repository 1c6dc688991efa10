//! Arguments of the commands that keep the store.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `fsck`.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// Check part N of T only.
    #[arg(long, value_name = "N/T")]
    pub(crate) subset: Option<String>,
    /// Put damaged objects aside and forget what refers to them.
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Tell what would be removed; remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Further folders whose `*.lock` files keep what they reach.
    #[arg(long, value_name = "DIR")]
    pub(crate) locks: Vec<PathBuf>,
}
