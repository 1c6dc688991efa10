//! Errors around a cluster.

use std::fmt;
use std::io;
use std::path::PathBuf;

use artifacts::StoreError;
use pipeline::PipelineError;
use remote::RemoteError;

/// Why shards cannot be executed elsewhere.
#[derive(Debug)]
pub enum ClusterError {
    /// The shared store refuses.
    Remote(RemoteError),
    /// The study cannot be planned.
    Pipeline(PipelineError),
    /// The local store refuses.
    Store(StoreError),
    /// A file cannot be read or written.
    Io(PathBuf, io::Error),
    /// A command of a scheduler refuses: the command line and its message.
    Refused(String, String),
    /// Pods of Kubernetes cannot reach the shared store: one sentence.
    OutOfReach(String),
    /// Another process works on the same study.
    Busy(PathBuf),
    /// A document is invalid: one sentence.
    Broken(String),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(error) => error.fmt(f),
            Self::Pipeline(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Io(path, error) => {
                write!(f, "{}: {}", path.display(), artifacts::without_path(error))
            }
            Self::Refused(command, said) => write!(f, "`{command}` failed: {said}"),
            Self::Busy(_) => {
                f.write_str("another `benchtrail run` of this study has launches on other machines")
            }
            Self::Broken(what) | Self::OutOfReach(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Remote(error) => Some(error),
            Self::Pipeline(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Io(_, error) => Some(error),
            Self::Refused(..) | Self::OutOfReach(_) | Self::Busy(_) | Self::Broken(_) => None,
        }
    }
}

impl ClusterError {
    /// Returns advice for the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Remote(error) => error.hint(),
            Self::Refused(command, _) if command.starts_with("sbatch") => Some(
                "`benchtrail plan --commands` shows the command; `place: {slurm: …}` decides its options".to_owned(),
            ),
            Self::Refused(command, _) if command.starts_with("kubectl") => Some(
                "`kubectl` must work here by itself; `place: {kubernetes: …}` selects the context and the namespace, and \
                 `benchtrail plan --commands` shows the manifest"
                    .to_owned(),
            ),
            Self::OutOfReach(_) => Some(
                "mount the claim at the path that the folder has here: `volumes: [{claim: NAME, path: …}]` in `place: \
                 {kubernetes: …}`; or use a bucket: `--remote s3://BUCKET/PREFIX`"
                    .to_owned(),
            ),
            Self::Refused(..) => Some("run it where Slurm's commands work, for example on a login node".to_owned()),
            Self::Busy(_) => Some("wait for it, or stop it by Ctrl-C where it runs".to_owned()),
            _ => None,
        }
    }
}

impl From<RemoteError> for ClusterError {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<PipelineError> for ClusterError {
    fn from(error: PipelineError) -> Self {
        Self::Pipeline(error)
    }
}

impl From<StoreError> for ClusterError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
