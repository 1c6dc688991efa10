//! Arguments of the commands that maintain the store.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `fsck`.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// Hash only part N of T of the objects.
    #[arg(long, value_name = "N/T")]
    pub(crate) subset: Option<String>,
    /// Move damaged objects to quarantine, and delete the index rows that refer to them.
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// List what would be removed, but remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// More folders whose `*.lock` files protect the objects that they reach.
    #[arg(long, value_name = "DIR")]
    pub(crate) locks: Vec<PathBuf>,
    /// Also remove measurements that no lock and no run needs. You cannot compute them again.
    #[arg(long)]
    pub(crate) measurements: bool,
    /// Forget these deleted locks, so that they no longer protect results of this store. With `--remote`, name roots by their digits.
    #[arg(long, value_name = "LOCK", num_args = 1..)]
    pub(crate) forget: Vec<PathBuf>,
    /// Collect this shared store instead of your own: a folder, or `s3://BUCKET/PREFIX` (`gs://`, `az://`).
    #[arg(long, value_name = "URL", conflicts_with = "locks")]
    pub(crate) remote: Option<String>,
    /// Time that condemned results stay in a shared store before they are removed, for example `'7 d'`.
    #[arg(long, value_name = "DURATION", requires = "remote", value_parser = super::values::parse_grace)]
    pub(crate) grace: Option<std::time::Duration>,
}
