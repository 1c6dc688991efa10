//! The worker's process. It cannot outlive us, and its output is read as it arrives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use contract::LiveWorker;
use net::Secrets;
use pipeline::LocalPaths;
use pipeline::lease::LeaseFile;
use pipeline::process::{Spawner, stop};
use pipeline::stage::{Failure, Job};

use super::lines::{Lines, Next, read};
use crate::measure::instant_and_monotonic;

/// How often we check whether to continue.
const POLL: Duration = Duration::from_millis(50);

/// How long a worker may take to end: after it reported every row, and when it is stopped.
const ENDING: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(2);

/// How many of the last lines of its log an error quotes.
const QUOTED_LINES: usize = 3;

/// The next thing heard from a worker.
pub(super) enum Said {
    /// A line, and the time at which it was read, on the monotonic clock.
    Line(String, u64),
    /// Nothing, up to this time.
    Nothing(u64),
    /// Something that is not a line; one sentence.
    Broken(String),
    /// The worker closed its output.
    End,
}

/// Returns the wall-clock time in ns since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "wall time is provenance: the moment at which a worker was started"
)]
fn now_unix_ns() -> i64 {
    pipeline::unix_ns(SystemTime::now())
}

/// A running worker.
pub(super) struct Process {
    child: Child,
    lines: Arc<Lines>,
    log: PathBuf,
    /// Texts that a publishable log must not contain, with their replacements.
    paths: LocalPaths,
    /// What the worker may inherit and its log must not repeat.
    secrets: Secrets,
    /// When its program was started: on the monotonic clock, and in ns since 1970.
    started: (u64, i64),
    began: u64,
    began_unix_ns: i64,
    stopped: bool,
    _lease: LeaseFile,
    _spawner: Arc<Spawner>,
}

impl Process {
    /// Starts the worker and sends it its line.
    #[expect(
        clippy::disallowed_methods,
        reason = "a worker inherits the variables that its definition names, and the record states the cell's time"
    )]
    pub(super) fn start(worker: &LiveWorker, line: String, job: &Job<'_>) -> Result<Self, Failure> {
        let trouble =
            |what: &str, e: io::Error| Failure::failed(format!("the worker: {what}: {e}"));
        fs::create_dir_all(job.scratch).map_err(|e| trouble("its folder", e))?;
        let log = job.scratch.join("worker.log");
        let file = File::create(&log).map_err(|e| trouble("its log", e))?;
        let exe = std::env::current_exe().map_err(|e| trouble("this program", e))?;
        let spawner =
            Arc::new(Spawner::new(exe).map_err(|e| trouble("the thread that starts it", e))?);
        let (program, first) = worker
            .program
            .split_first()
            .ok_or_else(|| Failure::failed("the worker has no program"))?;
        let mut command = spawner.command(program);
        command.args(first).env_clear();
        for name in ["HOME", "PATH", "TMPDIR"]
            .into_iter()
            .chain(worker.inherits.iter().map(String::as_str))
        {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(venv) = &worker.venv {
            command.env("VIRTUAL_ENV", venv);
        }
        command.envs(&worker.environment).current_dir(job.scratch);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file);
        let started = (instant_and_monotonic().1, now_unix_ns());
        let mut child = spawner
            .spawn(command)
            .map_err(|e| trouble("it cannot be started", e))?;
        let lease = match job.leases.register(child.id()) {
            Ok(lease) => lease,
            Err(e) => {
                let _ = stop(&mut child, Duration::ZERO);
                return Err(trouble("its lease cannot be recorded", e));
            }
        };
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed("the worker has no pipes"));
        };
        let (_, began) = instant_and_monotonic();
        let began_unix_ns = now_unix_ns();
        // In a separate thread, because the line may exceed a pipe's capacity. If the worker has ended, its end shows
        // that.
        thread::spawn(move || drop(input.write_all(line.as_bytes())));
        Ok(Self {
            child,
            lines: read(output),
            log,
            paths: LocalPaths::of(job.store.root(), []),
            secrets: Secrets::of_this_process(),
            started,
            began,
            began_unix_ns,
            stopped: false,
            _lease: lease,
            _spawner: spawner,
        })
    }

    /// Returns when its program was started: on the monotonic clock, and in ns since 1970.
    pub(super) fn started(&self) -> (u64, i64) {
        self.started
    }

    /// Returns the time at which the line was sent, on the monotonic clock.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Returns the same time in ns since 1970.
    pub(super) fn began_unix_ns(&self) -> i64 {
        self.began_unix_ns
    }

    /// Returns the next line, or that none has come yet.
    pub(super) fn next(&mut self) -> Said {
        match self.lines.next(POLL) {
            Next::Line(Ok((line, at))) => Said::Line(line, at),
            Next::Line(Err(reason)) => Said::Broken(reason),
            Next::Nothing => Said::Nothing(instant_and_monotonic().1),
            Next::End => Said::End,
        }
    }

    /// Returns whether the worker may have waited until its lines were read.
    pub(super) fn had_to_wait(&self) -> bool {
        self.lines.was_full()
    }

    /// Describes how the worker ended, for people.
    pub(super) fn how_it_ended(&mut self) -> String {
        self.await_end();
        match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "it closed its output".to_owned(),
        }
    }

    fn await_end(&mut self) {
        let tries = ENDING.as_millis() / POLL.as_millis();
        for _ in 0..tries {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL);
        }
    }

    /// Returns the last lines of its log, as the end of a sentence.
    pub(super) fn last_words(&self) -> String {
        let text = pipeline::long_log::uncoloured(&self.log_text());
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" / ");
        match last.as_str() {
            "" => "; its log is empty".to_owned(),
            last => format!("; its log says: {last}"),
        }
    }

    fn log_text(&self) -> String {
        let log = File::open(&self.log).and_then(|mut log| pipeline::long_log::read(&mut log));
        let text = log.map_or_else(
            |e| format!("the log cannot be read: {e}\n"),
            |bytes| self.secrets.mask(&String::from_utf8_lossy(&bytes)),
        );
        self.paths.mask(text)
    }

    /// Stops the worker and everything that it started; returns its log.
    pub(super) fn stop(&mut self) -> String {
        self.end();
        self.log_text()
    }

    fn end(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.lines.abandon();
            // If it cannot be stopped now, the next run stops it through its lease.
            let _ = stop(&mut self.child, GRACE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
