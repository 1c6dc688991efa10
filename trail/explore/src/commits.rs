//! The commits of a lock in its git repository.

use std::fmt;
use std::path::Path;
use std::process::Command;

use pipeline::lock::Lock;
use serde::Serialize;

/// A commit that changed a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commit {
    /// Its short name.
    pub id: String,
    /// The day of the commit, as `2026-01-31`.
    pub day: String,
    /// The first line of its message.
    pub subject: String,
}

/// Why commits, or a lock in a commit, cannot be read. The user usually made a mistake: there is no repository, or the
/// commit does not have the lock.
#[derive(Debug)]
pub enum GitError {
    /// Git cannot be started.
    Start(std::io::Error),
    /// Git refused. The text is its error output.
    Refused(String),
    /// The lock of the commit is damaged.
    Lock(String),
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "git cannot be started: {error}"),
            Self::Refused(text) | Self::Lock(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Refused(_) | Self::Lock(_) => None,
        }
    }
}

/// Runs a reading command of git in the folder of a lock, and returns its output.
///
/// The repository may be another person's, and its settings can name programs. So only commands run that start none:
/// no `log` or `show`, which may check signatures or convert files, and no transfer of missing objects.
fn git(lock: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let folder = lock.parent().filter(|p| !p.as_os_str().is_empty());
    let output = Command::new("git")
        .arg("-C")
        .arg(folder.unwrap_or(Path::new(".")))
        .args(arguments)
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .map_err(GitError::Start)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(GitError::Refused(text.trim().to_owned()))
        }
    }
}

/// Returns the newest commits that changed a lock, oldest first.
///
/// # Errors
/// If the lock is not in a git repository.
pub(crate) fn commits(lock: &Path, most: u32) -> Result<Vec<Commit>, GitError> {
    let name = lock.file_name().unwrap_or_default().to_string_lossy();
    let most = format!("--max-count={most}");
    let form = "--format=%h%x09%cs%x09%s";
    let log = git(lock, &["rev-list", &most, form, "HEAD", "--", &name])?;
    // Each commit also has a line `commit` with its full name.
    let lines = log.lines().filter(|line| line.contains('\t'));
    let mut commits: Vec<Commit> = lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            Some(Commit {
                id: parts.next()?,
                day: parts.next()?,
                subject: parts.next().unwrap_or_default(),
            })
        })
        .collect();
    commits.reverse();
    Ok(commits)
}

/// Returns a lock as a commit has it.
///
/// # Errors
/// If git does not find the commit or the lock in it, or the lock is damaged.
pub fn lock_at(lock: &Path, commit: &str) -> Result<Lock, GitError> {
    let name = lock.file_name().unwrap_or_default().to_string_lossy();
    let object = format!("{commit}:./{name}");
    if commit.starts_with('-') {
        return Err(GitError::Refused(format!("`{commit}` is not a commit")));
    }
    let text = git(lock, &["cat-file", "blob", &object])?;
    Lock::parse(&text, lock).map_err(|e| GitError::Lock(e.to_string()))
}
