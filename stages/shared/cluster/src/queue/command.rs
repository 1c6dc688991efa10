//! Executes the command of a scheduler, within limits: it may wait for a server that never answers, or print without end.

use std::io::{self, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use pipeline::process::{self, Limits, run_within};

use crate::error::ClusterError;

/// The limits of every command. `kubectl` prints about 10 KB for each Job of a run, also for those that have ended.
pub(super) const LIMITS: Limits = Limits {
    time: Duration::from_secs(120),
    output: 256 << 20,
    memory: None,
};

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

/// Executes a command. Ctrl-C is for the run: a request that is cut has an unknown result.
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
        // Forces English output.
        .env("LC_ALL", "C");
    environment(&mut command);
    let input = match input {
        Some(input) => Stdio::from(piped(input.to_owned()).map_err(refused)?),
        None => Stdio::null(),
    };
    let ran = run_within(&mut command, input, limits, || true).map_err(refused)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(match ran {
        process::Ran::Ended(output) => Ran::Ended(
            output.status,
            text(output.stdout),
            text(output.stderr).trim().to_owned(),
        ),
        process::Ran::Late | process::Ran::Stopped => Ran::Silent(format!(
            "`{program}` did not end within {} s",
            limits.time.as_secs_f64()
        )),
        process::Ran::Endless => {
            Ran::Endless(format!("it printed more than {} MiB", limits.output >> 20))
        }
    })
}

/// Returns a pipe from which a command reads its input.
fn piped(input: Vec<u8>) -> io::Result<io::PipeReader> {
    let (read, mut to) = io::pipe()?;
    // If the command ended before it read everything, its message says why.
    thread::spawn(move || to.write_all(&input));
    Ok(read)
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
            memory: None,
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
    fn a_command_that_never_ends_is_ended() {
        let ran = sh("sleep 600", None);
        assert!(
            matches!(&ran, Ran::Silent(why) if why.contains("`sh`")),
            "{ran:?}"
        );
        // It never reads its input.
        let ran = sh("sleep 600", Some(&[b'x'; 1 << 20]));
        assert!(matches!(ran, Ran::Silent(_)), "{ran:?}");
    }

    #[test]
    fn a_command_that_prints_without_end_is_ended() {
        let ran = sh("yes", None);
        assert!(matches!(ran, Ran::Endless(_)), "{ran:?}");
    }
}
