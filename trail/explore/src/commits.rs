//! The commits of a lock in its git repository.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use pipeline::lock::{Lock, MOST_BYTES};
use pipeline::process::{Limits, Ran, run_within};
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
    /// Git refused. The text is its error output in one line.
    Refused(String),
    /// Git did not end within this time.
    Late(Duration),
    /// The lock of the commit is damaged.
    Lock(String),
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "git cannot be started: {error}"),
            Self::Refused(text) | Self::Lock(text) => f.write_str(text),
            Self::Late(time) => write!(f, "git did not end within {} s", time.as_secs_f64()),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Refused(_) | Self::Late(_) | Self::Lock(_) => None,
        }
    }
}

/// Runs a reading command of git in the folder of a lock, and returns its output.
///
/// The repository may be another person's, and its settings can name programs. So only commands run that start none:
/// no `log` or `show`, which may check signatures or convert files, and no transfer of missing objects.
///
/// # Errors
/// If git refuses, does not end within a time, or prints more than `most` bytes: an object of kilobytes in a repository
/// can be a text of terabytes.
fn git(lock: &Path, arguments: &[&str], most: u64) -> Result<String, GitError> {
    git_within(lock, arguments, most, LONGEST)
}

fn git_within(
    lock: &Path,
    arguments: &[&str],
    most: u64,
    longest: Duration,
) -> Result<String, GitError> {
    let folder = lock.parent().filter(|p| !p.as_os_str().is_empty());
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder.unwrap_or(Path::new(".")))
        .args(arguments)
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_LITERAL_PATHSPECS", "1");
    printed(&mut command, most, longest)
}

/// Runs a command, and returns what it prints.
fn printed(command: &mut Command, most: u64, longest: Duration) -> Result<String, GitError> {
    let limits = Limits {
        time: longest,
        output: most,
        // A commit of kilobytes can unpack to gigabytes, and a file of the repository can be a device.
        memory: Some(MOST_MEMORY),
    };
    let ran = run_within(command, Stdio::null(), limits, || true).map_err(GitError::Start)?;
    let output = match ran {
        Ran::Ended(output) => output,
        Ran::Late | Ran::Stopped => return Err(GitError::Late(longest)),
        Ran::Endless => {
            return Err(GitError::Lock(format!(
                "git has more than {most} bytes for it, which is the limit"
            )));
        }
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(GitError::Refused(in_one_line(&complaint, output.status)))
}

/// Returns what git says about a mistake in one line: a file of the repository can contain lines that look like hints.
fn in_one_line(complaint: &str, ended: ExitStatus) -> String {
    let lines = complaint.lines().map(str::trim);
    // Git begins with what it advises, if a file is written in an old way.
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("fatal: ").unwrap_or(&text);
    match text.chars().count() {
        0 => format!("git ended with {ended}"),
        1..=MOST_SHOWN => text.to_owned(),
        _ => text.chars().take(MOST_SHOWN).chain(['…']).collect(),
    }
}

/// The longest time that git may take: some files of a repository can be FIFOs that nobody writes to.
const LONGEST: Duration = Duration::from_secs(120);

/// The most memory that git may use for itself, in bytes. Files that it maps do not count.
const MOST_MEMORY: u64 = 2 << 30;

/// The most characters of the first line of a message.
const MOST_OF_A_SUBJECT: usize = 200;

/// The most characters of what git says about a mistake.
const MOST_SHOWN: usize = 400;

/// The most bytes of the list of commits.
const MOST_LISTED: u64 = 64 << 20;

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
                subject: subject(&parts.next().unwrap_or_default()),
            })
        })
        .collect();
    commits.reverse();
    Ok(commits)
}

/// Returns the first line of a message as a cell of a table: it may have megabytes, and contain tabs.
fn subject(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let first: String = chars.by_ref().take(MOST_OF_A_SUBJECT).collect();
    match chars.next() {
        Some(_) => first + "…",
        None => first,
    }
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

    /// Runs a command of git that must succeed.
    fn git_in(folder: &Path, arguments: &[&str]) {
        let done = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments)
            .output()
            .expect("git starts");
        assert!(done.status.success(), "{done:?}");
    }

    /// Runs a script in place of git.
    fn script(text: &str, longest: Duration) -> Result<String, GitError> {
        printed(Command::new("sh").args(["-c", text]), 1 << 20, longest)
    }

    const SHORT: Duration = Duration::from_millis(500);

    #[test]
    fn git_ends_within_a_time_whatever_its_repository_holds() {
        for endless in ["exec sleep 60", "sleep 60 & wait", "exec sleep 60 >&2"] {
            let late = script(endless, SHORT).expect_err("it does not end");
            assert!(matches!(late, GitError::Late(_)), "{endless}: {late}");
        }
        let large = script("exec cat /dev/zero", LONGEST).expect_err("it prints without end");
        assert!(large.to_string().contains("the limit"), "{large}");
        let silent = script("kill -9 $$", LONGEST).expect_err("it was killed");
        assert!(silent.to_string().contains("signal: 9"), "{silent}");
        let folder = tempfile::tempdir().expect("a folder");
        git_in(folder.path(), &["init", "-q"]);
        let lock = folder.path().join("study.lock");
        std::fs::write(&lock, "").expect("a file");
        // Git would wait for ever for somebody who writes the settings.
        let settings = folder.path().join(".git/config");
        std::fs::remove_file(&settings).expect("it is ours");
        let made = Command::new("mkfifo").arg(&settings).status();
        assert!(made.expect("mkfifo starts").success());
        let late = git_within(&lock, &["rev-list", "HEAD"], 1 << 20, SHORT);
        let late = late.expect_err("it does not end");
        assert!(matches!(late, GitError::Late(_)), "{late}");
    }

    #[test]
    fn git_uses_a_limited_memory() {
        let limits = script("sleep 0.1; grep data /proc/self/limits", LONGEST).expect("limits");
        assert!(limits.contains(&MOST_MEMORY.to_string()), "{limits}");
    }

    #[test]
    fn a_subject_is_short_and_has_no_control_characters() {
        assert_eq!(subject("a\tb\u{1b}[31m c"), "a b [31m c");
        let long = subject(&"x".repeat(5 << 20));
        assert_eq!(long.chars().count(), MOST_OF_A_SUBJECT + 1);
    }

    #[test]
    fn what_git_says_about_a_repository_is_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        git_in(folder.path(), &["init", "-q"]);
        let lock = folder.path().join("study.lock");
        std::fs::write(&lock, "").expect("a file");
        git_in(
            folder.path(),
            &["config", "core.abbrev", "x\nerror: run this\nhint: y"],
        );
        let refused = commits(&lock, 5)
            .expect_err("a setting is wrong")
            .to_string();
        assert!(refused.contains("x error: run this"), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
        let long = script("head -c 60000 /dev/zero | tr '\\0' a >&2; exit 1", LONGEST);
        let long = long.expect_err("it fails").to_string();
        assert_eq!(long.chars().count(), MOST_SHOWN + 1);
    }

    #[test]
    fn a_lock_of_a_commit_that_is_larger_than_a_lock_may_be_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |arguments: &[&str]| git_in(folder.path(), arguments);
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
