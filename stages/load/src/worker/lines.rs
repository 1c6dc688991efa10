//! The lines of a worker on their way from the thread that reads them. If they are read faster than they are taken, the
//! thread waits, and then the worker: a pipe that nobody reads is full. Nothing is lost.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::measure::instant_and_monotonic;

/// The longest line, in bytes.
const LONGEST: u64 = 64 << 20;

/// The size in bytes of the lines that may wait, beside one of any length.
const MOST_WAITING: usize = 64 << 20;

/// What a waiting line takes beside its text, in bytes.
const EACH: usize = size_of::<Line>();

/// A line with the time at which it was read (monotonic clock), or the reason why reading ended.
pub(super) type Line = Result<(String, u64), String>;

/// Both ends of the queue.
#[derive(Debug, Default)]
pub(super) struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Line>,
    bytes: usize,
    /// Whether the thread that reads had to wait.
    full: bool,
    ended: bool,
    abandoned: bool,
}

/// What a queue has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line(Line),
    /// Nothing yet.
    Nothing,
    /// Nothing more.
    End,
}

impl Lines {
    /// Reads lines until they end, cannot be read, or nobody takes them any more.
    pub(super) fn fill(&self, output: impl BufRead) {
        let mut output = output;
        loop {
            let line = line(&mut output).transpose();
            let last = !matches!(line, Some(Ok(_)));
            let gone = line.is_some_and(|line| !self.put(line));
            if last || gone {
                self.state().ended = true;
                self.changed.notify_all();
                return;
            }
        }
    }

    /// Returns whether somebody will take the line.
    fn put(&self, line: Line) -> bool {
        let size = size(&line);
        let mut state = self.state();
        while !state.abandoned && state.bytes > 0 && state.bytes + size > MOST_WAITING {
            state.full = true;
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += size;
        state.waiting.push_back(line);
        self.changed.notify_all();
        !state.abandoned
    }

    /// Returns the next line, or that none came within this time.
    pub(super) fn next(&self, patience: Duration) -> Next {
        let state = self.state();
        let empty = |state: &mut State| state.waiting.is_empty() && !state.ended;
        let woken = self.changed.wait_timeout_while(state, patience, empty);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        let Some(line) = state.waiting.pop_front() else {
            return if state.ended {
                Next::End
            } else {
                Next::Nothing
            };
        };
        state.bytes -= size(&line);
        self.changed.notify_all();
        Next::Line(line)
    }

    /// Returns whether the worker may have waited for us.
    pub(super) fn was_full(&self) -> bool {
        self.state().full
    }

    /// Lets the thread that reads end.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.abandoned = true;
        state.waiting.clear();
        state.bytes = 0;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(line: &Line) -> usize {
    let (Ok((text, _)) | Err(text)) = line;
    EACH + text.capacity()
}

/// Reads a line, without white space at its end; none at the end of the output.
fn line(output: &mut impl BufRead) -> Result<Option<(String, u64)>, String> {
    let mut bytes = Vec::new();
    let read = output.take(LONGEST).read_until(b'\n', &mut bytes);
    let (_, at) = instant_and_monotonic();
    read.map_err(|e: io::Error| format!("its output cannot be read: {e}"))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() as u64 == LONGEST && !bytes.ends_with(b"\n") {
        let most = LONGEST >> 20;
        return Err(format!(
            "a line has more than {most} MiB; write one line for each request"
        ));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "a line is not UTF-8".to_owned())?;
    text.truncate(text.trim_end().len());
    text.shrink_to_fit();
    Ok(Some((text, at)))
}

/// Reads lines in a thread of their own.
pub(super) fn read(output: impl Read + Send + 'static) -> Arc<Lines> {
    let lines = Arc::new(Lines::default());
    let filled = Arc::clone(&lines);
    std::thread::spawn(move || filled.fill(io::BufReader::new(output)));
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    /// Lines of a megabyte, each of one digit; counts the bytes that are read.
    struct Numbers {
        left: usize,
        read: Arc<AtomicUsize>,
    }

    impl Read for Numbers {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = into.len().min(self.left);
            for byte in &mut into[..n] {
                let at = self.read.fetch_add(1, Ordering::Relaxed) + 1;
                let line = (at >> 20) % 10;
                *byte = if at.is_multiple_of(1 << 20) {
                    b'\n'
                } else {
                    b'0' + line as u8
                };
            }
            self.left -= n;
            Ok(n)
        }
    }

    #[test]
    fn lines_that_nobody_takes_wait_and_none_is_lost() {
        let read_bytes = Arc::new(AtomicUsize::new(0));
        let numbers = Numbers {
            left: 200 << 20,
            read: Arc::clone(&read_bytes),
        };
        let lines = read(numbers);
        while !lines.was_full() {
            std::thread::yield_now();
        }
        // What waits, the line that does not fit, and the reader's own room.
        let most = MOST_WAITING + (2 << 20);
        assert!(read_bytes.load(Ordering::Relaxed) <= most);
        let mut n = 0;
        loop {
            match lines.next(SOON) {
                Next::Line(line) => {
                    let (text, _) = line.unwrap();
                    assert_eq!(text.len(), (1 << 20) - 1);
                    assert!(text.ends_with(&(n % 10).to_string()), "line {n}");
                    n += 1;
                }
                Next::Nothing => {}
                Next::End => break,
            }
        }
        assert_eq!(n, 200);
    }

    #[test]
    fn lines_without_text_take_room_too_and_a_reader_that_is_left_ends() {
        let lines = Arc::new(Lines::default());
        let filled = Arc::clone(&lines);
        let endless = io::BufReader::new(io::repeat(b'\n'));
        let thread = std::thread::spawn(move || filled.fill(endless));
        while !lines.was_full() {
            std::thread::yield_now();
        }
        assert!(lines.state().waiting.len() <= MOST_WAITING / EACH);
        lines.abandon();
        thread.join().unwrap();
    }

    #[test]
    fn what_is_no_line_is_named() {
        let why = |text: &'static [u8]| {
            let lines = Lines::default();
            lines.fill(text);
            let first = lines.next(SOON);
            (first, lines.next(SOON))
        };
        let wrong = |text: &str| (Next::Line(Err(text.to_owned())), Next::End);
        assert_eq!(why(b"\xff\n{}\n"), wrong("a line is not UTF-8"));
        assert_eq!(why(b"").0, Next::End);
        let lines = Lines::default();
        lines.fill(io::BufReader::new(io::repeat(b'a')));
        let Next::Line(Err(long)) = lines.next(SOON) else {
            panic!("a line without an end")
        };
        assert!(long.contains("more than 64 MiB"), "{long}");
    }
}
