//! Lets a page stop a run: the page writes the run's token to a file, and the run ends as after Ctrl-C.
//!
//! The token is next to the event log, in a file that only the user may read. The event log contains its digest, so
//! that the explorer can detect a wrong token without knowing the right one. The token becomes visible only after the
//! log exists, so a valid token is never rejected as one of an earlier run.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use artifacts::Digest;

/// The interval between two checks for the file.
const TICK: Duration = Duration::from_millis(500);

/// The most bytes read from a file; every token is shorter.
const LONGEST: u64 = 1 << 10;

/// A token that is not yet in a file.
pub(crate) struct Token {
    folder: PathBuf,
    secret: String,
}

/// Watches for the file that stops a run, until dropped.
pub(crate) struct Stopper {
    token: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Token {
    /// Makes the token of a run with its event log in the folder, and removes the files of an earlier run; `None` if
    /// that fails, and the run continues without a token.
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        for stale in [explore::STOP_TOKEN, explore::STOP] {
            let _not_there = fs::remove_file(folder.join(stale));
        }
        Some(Self {
            folder: folder.to_owned(),
            secret: explore::token().ok()?,
        })
    }

    /// Returns the digest of the token.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.secret.as_bytes())
    }

    /// Writes the token to its file, and watches the folder from then on.
    pub(crate) fn watch(self, cancelled: Arc<AtomicBool>) -> Option<Stopper> {
        let wanted = self.digest();
        let token = self.folder.join(explore::STOP_TOKEN);
        let stop = self.folder.join(explore::STOP);
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600).open(&token);
        writeln!(file.ok()?, "{}", self.secret).ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let look = move || {
            while !ended.load(Ordering::Relaxed) {
                if asked(&stop, &wanted) {
                    cancelled.store(true, Ordering::Relaxed);
                    return;
                }
                std::thread::park_timeout(TICK);
            }
        };
        let thread = std::thread::Builder::new().name("stop".to_owned());
        Some(Stopper {
            token,
            over,
            thread: Some(thread.spawn(look).ok()?),
        })
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ended = thread.join();
        }
        let _gone = fs::remove_file(&self.token);
    }
}

/// Returns whether the file exists and contains the token; removes the file in either case.
fn asked(stop: &Path, wanted: &Digest) -> bool {
    let Ok(meta) = fs::symlink_metadata(stop) else {
        return false;
    };
    let small = meta.is_file() && meta.len() <= LONGEST;
    let text = small.then(|| fs::read_to_string(stop).ok()).flatten();
    let _gone = fs::remove_file(stop);
    text.is_some_and(|text| Digest::of(text.trim().as_bytes()) == *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_stops_a_run_and_it_goes_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let cancelled = Arc::new(AtomicBool::new(false));
        let token = Token::new(folder.path()).unwrap();
        let digest = token.digest();
        let stop = folder.path().join(explore::STOP);
        fs::write(&stop, "0123").unwrap();
        assert!(!asked(&stop, &digest) && !stop.exists());
        let stopper = token.watch(Arc::clone(&cancelled)).unwrap();
        let token = fs::read_to_string(folder.path().join(explore::STOP_TOKEN)).unwrap();
        assert_eq!(Digest::of(token.trim().as_bytes()), digest);
        // As the explorer does: the thread never sees half a file.
        let part = folder.path().join("part");
        fs::write(&part, &token).unwrap();
        fs::rename(&part, &stop).unwrap();
        // The thread may have removed the file before this check.
        let seen = asked(&stop, &digest);
        drop(stopper);
        assert!(seen || cancelled.load(Ordering::Relaxed));
        assert!(!folder.path().join(explore::STOP_TOKEN).exists());
    }

    #[test]
    fn no_token_is_shown_before_the_log_can_name_it_and_none_of_an_earlier_run_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (shown, stop) = (
            folder.path().join(explore::STOP_TOKEN),
            folder.path().join(explore::STOP),
        );
        fs::write(&shown, "of an earlier run").unwrap();
        fs::write(&stop, "of an earlier run").unwrap();
        let token = Token::new(folder.path()).unwrap();
        assert!(!shown.exists() && !stop.exists());
        let stopper = token.watch(Arc::new(AtomicBool::new(false)));
        assert!(stopper.is_some() && shown.exists());
    }
}
