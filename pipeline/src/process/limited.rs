//! Runs a program to its end, within limits. It may wait for an answer that never comes, print without end, or leave a
//! process behind that keeps its pipes open.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::kill_group;

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its longest duration.
    pub time: Duration,
    /// Its longest output, in bytes.
    pub output: u64,
    /// The most memory that it may allocate, in bytes; `None` for no limit. Files that it maps do not count.
    pub memory: Option<u64>,
}

/// The result of a program.
#[derive(Debug)]
pub enum Ran {
    /// It ended. Its output is complete. Of long messages, the beginning and the end are kept.
    Ended(Output),
    /// It took too long, and was killed.
    Late,
    /// It printed too much, and was killed.
    Endless,
    /// The caller no longer waits, and it was killed.
    Stopped,
}

/// The time between two checks whether the program has ended.
const POLL: Duration = Duration::from_millis(5);

/// The time that a program has to end by itself before it is killed.
const GRACE: Duration = Duration::from_millis(300);

/// The most bytes that a pipe can contain. So many are read at once: what a program printed before its end is then
/// read whole.
const PIPE: u64 = 1 << 20;

/// What is kept of long messages at their beginning, and at their end, in bytes.
const MESSAGE: usize = 32 << 10;

/// Runs a command in a process group of its own, so that keys of the terminal are for the caller only. Waits for the
/// program, not for processes that it leaves behind. A program that is killed is killed with everything that it started.
/// `go_on` is asked every few milliseconds whether to wait longer.
///
/// # Errors
/// If it cannot be started, or its output cannot be read.
pub fn run_within(
    command: &mut Command,
    input: impl Into<Stdio>,
    limits: Limits,
    go_on: impl FnMut() -> bool,
) -> io::Result<Ran> {
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let ran = follow(&mut child, limits, go_on);
    if !matches!(ran, Ok(Ran::Ended(_))) {
        // If it cannot be killed, it has already ended.
        let _gone = kill_group(child.id(), GRACE);
        let _gone = child.kill();
        let _reaped = child.wait();
    }
    ran
}

fn follow(child: &mut Child, limits: Limits, mut go_on: impl FnMut() -> bool) -> io::Result<Ran> {
    if let Some(memory) = limits.memory {
        let limit = Rlimit {
            current: Some(memory),
            maximum: Some(memory),
        };
        // It fails if the program has already ended, or if a lower limit holds.
        let _limited = prlimit(Some(Pid::from_child(child)), Resource::Data, limit);
    }
    let mut stdout = Pipe::new(child.stdout.take().map(OwnedFd::from))?;
    let mut stderr = Pipe::new(child.stderr.take().map(OwnedFd::from))?;
    let begun = Instant::now();
    loop {
        // Asked first: what it printed before its end is then in the pipes.
        let ended = child.try_wait()?;
        stdout.read()?;
        stderr.read()?;
        stderr.shorten();
        if stdout.bytes.len() as u64 > limits.output {
            return Ok(Ran::Endless);
        }
        if let Some(status) = ended {
            return Ok(Ran::Ended(Output {
                status,
                stdout: stdout.bytes,
                stderr: stderr.bytes,
            }));
        }
        if begun.elapsed() >= limits.time {
            return Ok(Ran::Late);
        }
        if !go_on() {
            return Ok(Ran::Stopped);
        }
        wait([&stdout, &stderr])?;
    }
}

/// Waits until there is something to read, but not long.
fn wait(pipes: [&Pipe; 2]) -> io::Result<()> {
    let open = pipes.into_iter().filter_map(|pipe| pipe.from.as_ref());
    let mut open: Vec<PollFd<'_>> = open
        .map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN))
        .collect();
    let limit = Timespec::try_from(POLL).map_err(io::Error::other)?;
    match poll(&mut open, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Our end of a pipe, and what came through it.
struct Pipe {
    /// `None` after its end.
    from: Option<File>,
    bytes: Vec<u8>,
}

impl Pipe {
    fn new(from: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(from) = &from {
            // The program's end still waits.
            rustix::io::ioctl_fionbio(from, true)?;
        }
        Ok(Self {
            from: from.map(File::from),
            bytes: Vec::new(),
        })
    }

    /// Reads what is in the pipe, and no more: a program may print faster than it is read.
    fn read(&mut self) -> io::Result<()> {
        let Some(from) = &self.from else {
            return Ok(());
        };
        match from.take(PIPE).read_to_end(&mut self.bytes) {
            Ok(read) if (read as u64) < PIPE => self.from = None,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Keeps the beginning and the end.
    fn shorten(&mut self) {
        if let Some(end) = self.bytes.len().checked_sub(MESSAGE)
            && end > MESSAGE
        {
            self.bytes.drain(MESSAGE..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Limits = Limits {
        time: Duration::from_secs(600),
        output: 1 << 20,
        memory: None,
    };

    fn sh(script: &str, limits: Limits) -> Ran {
        let mut command = Command::new("sh");
        run_within(command.args(["-c", script]), Stdio::null(), limits, || true).unwrap()
    }

    fn ended(script: &str) -> Output {
        match sh(script, LONG) {
            Ran::Ended(output) => output,
            other => panic!("{script}: {other:?}"),
        }
    }

    #[test]
    fn what_a_program_prints_comes_back_whole_whatever_it_prints_first() {
        let output = ended("head -c 200000 /dev/zero >&2; head -c 900000 /dev/zero; exit 3");
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout.len(), 900_000);
        let messages = ended("echo first >&2; head -c 200000 /dev/zero >&2; echo last >&2").stderr;
        assert!(messages.len() <= 2 * MESSAGE);
        assert!(messages.starts_with(b"first\n") && messages.ends_with(b"last\n"));
    }

    #[test]
    fn a_process_that_a_program_leaves_behind_is_not_waited_for() {
        // It holds both pipes, and one prints without end. The limit of time is ten minutes.
        for leaves in ["sleep 30 & echo yes", "yes >&2 & echo yes"] {
            let script = format!("{leaves}; echo $! >&2");
            let output = ended(&script);
            assert_eq!(output.stdout, b"yes\n", "{script}");
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_what_it_started() {
        let short = Limits {
            time: Duration::from_millis(300),
            ..LONG
        };
        for script in [
            "sleep 600",
            "sleep 600 & wait",
            "exec >&- 2>&-; sleep 600",
            "trap '' TERM INT; while :; do sleep 1; done",
        ] {
            let ran = sh(script, short);
            assert!(matches!(ran, Ran::Late), "{script}: {ran:?}");
        }
        let mut command = Command::new("sleep");
        let stopped = run_within(command.arg("600"), Stdio::null(), LONG, || false);
        assert!(matches!(stopped, Ok(Ran::Stopped)), "{stopped:?}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 600 & echo $! > {}; wait", file.path().display());
        assert!(matches!(sh(&script, short), Ran::Late));
        let left: u32 = std::fs::read_to_string(file.path())
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let left = crate::process::stat(left).unwrap();
        assert!(left.is_none_or(|process| !process.is_running()), "{left:?}");
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        assert!(matches!(sh("exec yes", LONG), Ran::Endless));
    }

    #[test]
    fn a_program_gets_a_limited_memory() {
        let limits = Limits {
            memory: Some(3 << 30),
            ..LONG
        };
        let Ran::Ended(output) = sh("sleep 0.1; grep data /proc/self/limits", limits) else {
            panic!("it ends");
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&(3_u64 << 30).to_string()), "{text}");
    }
}
