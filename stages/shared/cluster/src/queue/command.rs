//! Executes the command of a scheduler, within limits: it may wait for a server that never answers, or print without end.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::ClusterError;

/// What a command may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Its longest duration.
    pub(super) time: Duration,
    /// Its longest output, in bytes.
    pub(super) output: u64,
}

/// The limits of every command. `kubectl` prints about 10 KB for each Job of a run, also for those that have ended.
pub(super) const LIMITS: Limits = Limits {
    time: Duration::from_secs(120),
    output: 256 << 20,
};

/// The part of its standard error that is kept, in bytes.
const MESSAGE: usize = 16 * 1024;

/// The time that a command which took too long has to end by itself.
const GRACE: Duration = Duration::from_millis(300);

/// The time between two checks whether a command that has closed its output has ended.
const POLL: Duration = Duration::from_millis(5);

/// The result of a command.
#[derive(Debug)]
pub(super) enum Ran {
    /// It ended: its status, its output and its messages.
    Ended(ExitStatus, String, String),
    /// It took too long, and was killed.
    Silent(String),
    /// It printed too much, and was killed.
    Endless(String),
}

/// Executes a command in a process group of its own. Ctrl-C is for the run: a request that is cut has an unknown result.
///
/// # Errors
/// If it cannot be started.
pub(super) fn run(
    program: &str,
    arguments: &[String],
    input: Option<&[u8]>,
    environment: impl FnOnce(&mut Command),
    limits: Limits,
) -> Result<Ran, ClusterError> {
    let refused = |e: io::Error| {
        let said = match e.kind() {
            io::ErrorKind::NotFound => "it is not on the search path".to_owned(),
            _ => e.to_string(),
        };
        ClusterError::Refused(program.to_owned(), said)
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(match input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Forces English output.
        .env("LC_ALL", "C")
        .process_group(0);
    environment(&mut command);
    let mut child = command.spawn().map_err(refused)?;
    if let (Some(input), Some(mut to)) = (input, child.stdin.take()) {
        let input = input.to_owned();
        // If the command ended before it read everything, its message says why.
        thread::spawn(move || to.write_all(&input));
    }
    let (sender, received) = channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let messages = sender.clone();
    thread::spawn(move || sender.send((true, out.map(|out| all_of(out, limits.output)))));
    thread::spawn(move || messages.send((false, err.map(beginning_of))));
    let deadline = Instant::now() + limits.time;
    let (mut output, mut complaint) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let rest = deadline.saturating_duration_since(Instant::now());
        match received.recv_timeout(rest) {
            Ok((true, Some(text))) if text.len() as u64 > limits.output => {
                end(&mut child);
                let most = limits.output >> 20;
                return Ok(Ran::Endless(format!("it printed more than {most} MiB")));
            }
            Ok((true, text)) => output = text.unwrap_or_default(),
            Ok((false, text)) => complaint = text.unwrap_or_default(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Ok(silent(&mut child, program, limits));
            }
        }
    }
    let status = loop {
        match child.try_wait().map_err(refused)? {
            Some(status) => break status,
            None if Instant::now() < deadline => thread::sleep(POLL),
            None => return Ok(silent(&mut child, program, limits)),
        }
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran::Ended(
        status,
        text(output),
        text(complaint).trim().to_owned(),
    ))
}

fn silent(child: &mut Child, program: &str, limits: Limits) -> Ran {
    end(child);
    let seconds = limits.time.as_secs_f64();
    Ran::Silent(format!("`{program}` did not end within {seconds} s"))
}

/// Kills a command with everything that it started.
fn end(child: &mut Child) {
    let _gone = pipeline::process::kill_group(child.id(), GRACE);
    let _gone = child.kill();
    let _reaped = child.wait();
}

/// Reads everything, up to one byte more than permitted.
fn all_of(from: impl Read, most: u64) -> Vec<u8> {
    let mut text = Vec::new();
    // Unreadable output counts as missing; the exit status decides.
    let _read = from.take(most.saturating_add(1)).read_to_end(&mut text);
    text
}

/// Reads everything, and keeps the beginning.
fn beginning_of(mut from: impl Read) -> Vec<u8> {
    let mut text = all_of(from.by_ref(), MESSAGE as u64);
    text.truncate(MESSAGE);
    let _rest = io::copy(&mut from, &mut io::sink());
    text
}

/// Returns the beginning of a text, for a message.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 300;
    let text = text.trim();
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: Option<&[u8]>) -> Ran {
        let limits = Limits {
            time: Duration::from_millis(700),
            output: 1 << 20,
        };
        let arguments = ["-c", script].map(str::to_owned);
        run("sh", &arguments, input, |_| (), limits).expect("a shell")
    }

    #[test]
    fn what_a_command_says_comes_back_whole() {
        let Ran::Ended(status, said, errors) = sh("cat; echo no >&2; exit 3", Some(b"yes")) else {
            panic!("it ends");
        };
        assert_eq!(
            (status.code(), said.as_str(), errors.as_str()),
            (Some(3), "yes", "no")
        );
    }

    #[test]
    fn a_command_that_never_ends_is_ended_with_what_it_started() {
        for script in [
            "sleep 600",
            "sleep 600 & wait",
            "exec >&- 2>&-; sleep 600",
            "sleep 600 & exit 0",
            "trap '' TERM INT; while :; do sleep 1; done",
        ] {
            let ran = sh(script, None);
            assert!(
                matches!(&ran, Ran::Silent(why) if why.contains("`sh`")),
                "{script}: {ran:?}"
            );
        }
        // It never reads its input.
        let ran = sh("sleep 600", Some(&[b'x'; 1 << 20]));
        assert!(matches!(ran, Ran::Silent(_)), "{ran:?}");
    }

    #[test]
    fn a_command_that_prints_without_end_takes_no_memory() {
        let ran = sh("yes", None);
        assert!(matches!(ran, Ran::Endless(_)), "{ran:?}");
        let Ran::Ended(_, _, errors) = sh("head -c 3000000 /dev/zero >&2", None) else {
            panic!("it ends");
        };
        assert!(errors.len() <= MESSAGE);
    }
}
