//! What a starting engine writes to its log, reported while it starts.

use std::time::{Duration, Instant};

use pipeline::Job;

use crate::process::Process;
use crate::start::Manner;

/// The interval between two reads of a starting engine's log.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The most log lines reported at once.
const LINES_AT_ONCE: usize = 20;

/// The most characters reported of a log line.
const LONGEST_LINE: usize = 300;

/// How much of a starting engine's log was reported.
#[derive(Default)]
pub(crate) struct LogTail {
    shown: usize,
    last: Option<Instant>,
}

impl LogTail {
    /// Reports new lines, at most once a second. If there are many, reports only the last ones.
    pub(crate) fn tell(&mut self, process: &mut Process, manner: &Manner, job: &Job<'_>) {
        if self.last.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let text = process.shown_log();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let new = text.get(self.shown..whole).unwrap_or_default();
        self.shown = whole.max(self.shown);
        let cut = |line: &str| line.chars().take(LONGEST_LINE).collect::<String>();
        let lines: Vec<String> = new
            .lines()
            .map(overwritten)
            .filter(|l| !l.trim().is_empty())
            .map(cut)
            .collect();
        let from = lines.len().saturating_sub(LINES_AT_ONCE);
        if !lines.is_empty() {
            job.control.log(manner.waiting(), lines[from..].to_vec());
        }
    }
}

/// Returns what a terminal shows of a line whose carriage returns begin it anew, such as a progress bar.
fn overwritten(line: &str) -> &str {
    let mut parts = line.rsplit('\r');
    parts
        .find(|part| !part.trim().is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::overwritten;

    #[test]
    fn of_a_progress_bar_only_the_last_state_is_shown() {
        let bar = "\r  0%|          | 0/12\rCapturing batches (bs=64):   8%|▊ | 1/12\r";
        assert_eq!(overwritten(bar), "Capturing batches (bs=64):   8%|▊ | 1/12");
        assert_eq!(overwritten("loading weights"), "loading weights");
        assert_eq!(overwritten("\r\r"), "");
    }
}
