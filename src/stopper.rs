//! A run that a page may stop: whoever knows the run's token leaves it in a file, and the run ends as after Ctrl-C.
//!
//! The token lies beside the event log, in a file that only the user may read. The event log has its digest, so that the
//! explorer can tell a wrong token without knowing the right one.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use artifacts::Digest;

/// From one look for the file to the next.
const TICK: Duration = Duration::from_millis(500);

/// The most of a file that is read: no token is as long.
const LONGEST: u64 = 1 << 10;

/// Watches for the file that stops a run, until it is dropped.
pub(crate) struct Stopper {
    digest: Digest,
    token: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stopper {
    /// Starts to watch a folder; `None` if that cannot be: a run goes on without.
    pub(crate) fn watch(folder: &Path, cancelled: Arc<AtomicBool>) -> Option<Self> {
        let (token, stop) = (folder.join(explore::STOP_TOKEN), folder.join(explore::STOP));
        let secret = explore::token().ok()?;
        for stale in [&token, &stop] {
            let _not_there = fs::remove_file(stale);
        }
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600).open(&token);
        writeln!(file.ok()?, "{secret}").ok()?;
        let digest = Digest::of(secret.as_bytes());
        let over = Arc::new(AtomicBool::new(false));
        let (ended, wanted) = (Arc::clone(&over), digest);
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
        Some(Self {
            digest,
            token,
            over,
            thread: Some(thread.spawn(look).ok()?),
        })
    }

    /// Returns the digest of the token.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
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

/// Whether the file is there and has the token in it; any other is taken away.
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
        let stopper = Stopper::watch(folder.path(), Arc::clone(&cancelled)).unwrap();
        let token = fs::read_to_string(folder.path().join(explore::STOP_TOKEN)).unwrap();
        assert_eq!(Digest::of(token.trim().as_bytes()), stopper.digest());
        let stop = folder.path().join(explore::STOP);
        fs::write(&stop, "0123").unwrap();
        assert!(!asked(&stop, &stopper.digest()) && !stop.exists());
        fs::write(&stop, &token).unwrap();
        // The thread may have been faster than this look.
        let seen = asked(&stop, &stopper.digest());
        drop(stopper);
        assert!(seen || cancelled.load(Ordering::Relaxed));
        assert!(!folder.path().join(explore::STOP_TOKEN).exists());
    }
}
