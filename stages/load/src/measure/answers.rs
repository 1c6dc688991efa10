//! Ended attempts on their way to the thread that parses them.
//!
//! Sending never blocks. That thread normally empties the channel as fast as it fills. The bytes in the channel are
//! counted, so that the dispatch of further requests can wait until the thread has caught up. At most the limit plus
//! the bytes then in flight are unread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::clients::Ended;

/// Bytes of unread answers above which no further request is sent.
pub(super) const MOST_UNREAD: usize = 32 * 1024 * 1024;

/// Makes both ends of the channel.
pub(crate) fn answers() -> (AnswerSender, AnswerReceiver) {
    let (sender, receiver) = mpsc::channel();
    let unread = Arc::new(AtomicUsize::new(0));
    (
        AnswerSender {
            sender,
            unread: unread.clone(),
        },
        AnswerReceiver { receiver, unread },
    )
}

/// The measuring thread's end of the channel.
#[derive(Debug)]
pub(crate) struct AnswerSender {
    sender: mpsc::Sender<Ended>,
    unread: Arc<AtomicUsize>,
}

impl AnswerSender {
    /// Sends an attempt. The receiver outlives the measuring thread; without it, there is no reason to measure.
    pub(super) fn send(&self, ended: Ended) {
        self.unread
            .fetch_add(ended.attempt.size(), Ordering::Relaxed);
        let _gone = self.sender.send(ended);
    }

    /// Returns the number of sent bytes that were not received yet.
    pub(super) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }
}

/// The parsing thread's end of the channel.
#[derive(Debug)]
pub(crate) struct AnswerReceiver {
    receiver: mpsc::Receiver<Ended>,
    unread: Arc<AtomicUsize>,
}

impl AnswerReceiver {
    /// Waits for an attempt.
    ///
    /// # Errors
    /// If none came in time, or none will come.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<Ended, RecvTimeoutError> {
        let ended = self.receiver.recv_timeout(timeout)?;
        self.unread
            .fetch_sub(ended.attempt.size(), Ordering::Relaxed);
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::Attempt;
    use super::*;

    #[test]
    fn what_is_unread_is_counted_until_it_is_received() {
        let (sender, receiver) = answers();
        for i in 0..3 {
            let attempt = Attempt {
                bytes: vec![0; 100],
                ..Attempt::due(i, 1, None, 0)
            };
            sender.send(Ended {
                attempt,
                next: None,
            });
        }
        let each = sender.unread() / 3;
        assert!((100..4096).contains(&each), "{each}");
        for left in [2, 1, 0] {
            receiver.recv_timeout(Duration::ZERO).unwrap();
            assert_eq!(sender.unread(), left * each);
        }
    }
}
