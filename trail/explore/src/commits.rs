//! The commits of a lock in its git repository.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use pipeline::lock::{Lock, MOST_BYTES};
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
    Start(io::Error),
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
///
/// # Errors
/// If git refuses, or prints more than `most` bytes: an object of kilobytes in a repository can be a text of terabytes.
fn git(lock: &Path, arguments: &[&str], most: u64) -> Result<String, GitError> {
    let folder = lock.parent().filter(|p| !p.as_os_str().is_empty());
    let mut child = Command::new("git")
        .arg("-C")
        .arg(folder.unwrap_or(Path::new(".")))
        .args(arguments)
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(GitError::Start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let complaint = thread::spawn(move || at_most(stderr, MOST_COMPLAINT));
    // The pipe is closed here, so that git ends also if it prints more.
    let printed = at_most(stdout, most + 1);
    let ended = child.wait().map_err(GitError::Start)?;
    let complaint = complaint.join().unwrap_or_else(|_| Ok(Vec::new()));
    let printed = printed.map_err(GitError::Start)?;
    if printed.len() as u64 > most {
        return Err(GitError::Lock(format!(
            "git has more than {most} bytes for it, which is the limit"
        )));
    }
    match ended.success() {
        true => Ok(String::from_utf8_lossy(&printed).into_owned()),
        false => {
            let complaint = complaint.map_err(GitError::Start)?;
            let text = String::from_utf8_lossy(&complaint);
            let text = text.trim();
            let text = text.strip_prefix("fatal: ").unwrap_or(text);
            Err(GitError::Refused(text.to_owned()))
        }
    }
}

/// Reads the first bytes of a pipe, and closes it.
fn at_most(pipe: Option<impl Read>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The most bytes of the list of commits, and of what git says about a mistake.
const MOST_LISTED: u64 = 64 << 20;
const MOST_COMPLAINT: u64 = 64 << 10;

/// Returns the newest commits that changed a lock, oldest first.
///
/// # Errors
/// If the lock is not in a git repository.
pub(crate) fn commits(lock: &Path, most: u32) -> Result<Vec<Commit>, GitError> {
    let name = lock.file_name().unwrap_or_default().to_string_lossy();
    let most = format!("--max-count={most}");
    let form = "--format=%h%x09%cs%x09%s";
    let log = git(
        lock,
        &["rev-list", &most, form, "HEAD", "--", &name],
        MOST_LISTED,
    )?;
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
/// If git does not find the commit or the lock in it, or the lock is damaged or too large.
pub fn lock_at(lock: &Path, commit: &str) -> Result<Lock, GitError> {
    lock_of(lock, commit, MOST_BYTES)
}

fn lock_of(lock: &Path, commit: &str, most: u64) -> Result<Lock, GitError> {
    let name = lock.file_name().unwrap_or_default().to_string_lossy();
    let object = format!("{commit}:./{name}");
    if commit.starts_with('-') {
        return Err(GitError::Refused(format!("`{commit}` is not a commit")));
    }
    let text = git(lock, &["cat-file", "blob", &object], most)?;
    Lock::parse(&text, lock).map_err(|e| GitError::Lock(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_commit_that_is_larger_than_a_lock_may_be_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |arguments: &[&str]| {
            let done = Command::new("git")
                .arg("-C")
                .arg(folder.path())
                .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
                .args(arguments)
                .output()
                .expect("git starts");
            assert!(done.status.success(), "{done:?}");
        };
        let lock = folder.path().join("study.lock");
        git(&["init", "-q"]);
        // Some kilobytes in the repository.
        std::fs::write(&lock, vec![b' '; 8 << 20]).expect("a file");
        git(&["add", "study.lock"]);
        git(&["commit", "-q", "-m", "one"]);
        assert_eq!(commits(&lock, 5).expect("commits").len(), 1);
        for most in [0, 1 << 20] {
            let GitError::Lock(why) = lock_of(&lock, "HEAD", most).expect_err("it is too large")
            else {
                panic!("another reason");
            };
            assert!(why.contains(&format!("more than {most} bytes")), "{why}");
        }
        let GitError::Lock(why) = lock_at(&lock, "HEAD").expect_err("the file is not a lock")
        else {
            panic!("another reason");
        };
        assert!(!why.contains("more than"), "{why}");
    }
}
