//! The worker's process: it cannot outlive us, and all it writes is read as it comes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::LiveWorker;
use pipeline::lease::LeaseFile;
use pipeline::process::{Spawner, stop};
use pipeline::stage::{Failure, Job};

use crate::measure::instant_and_monotonic;

/// How often we look whether to go on.
const POLL: Duration = Duration::from_millis(50);

/// How long a worker that has told every row may take to end, and one that is stopped.
const ENDING: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(2);

/// The longest line that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// How many of the last lines of its log an error quotes.
const QUOTED_LINES: usize = 3;

/// What came next.
pub(super) enum Said {
    /// A line, and when it was read, on the monotonic clock.
    Line(String, u64),
    /// Nothing until now.
    Nothing(u64),
    /// It closed its output.
    End,
}

/// A worker that was started.
pub(super) struct Process {
    child: Child,
    lines: Receiver<io::Result<(String, u64)>>,
    log: PathBuf,
    /// What a log that may be published does not repeat, with what it says instead.
    masks: Vec<(String, &'static str)>,
    began: u64,
    began_unix_ns: i64,
    stopped: bool,
    _lease: LeaseFile,
    _spawner: Arc<Spawner>,
}

impl Process {
    /// Starts the worker and hands it its line.
    #[expect(
        clippy::disallowed_methods,
        reason = "a worker inherits the variables that its definition names, and the time is that of the cell"
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
        let mut child = spawner
            .spawn(command)
            .map_err(|e| trouble("it cannot be started", e))?;
        let lease = match job.leases.register(child.id()) {
            Ok(lease) => lease,
            Err(e) => {
                let _ = stop(&mut child, Duration::ZERO);
                return Err(trouble("its lease cannot be noted", e));
            }
        };
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed("the worker has no pipes"));
        };
        let (_, began) = instant_and_monotonic();
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        // In a thread: it may be longer than what a pipe holds. A worker that ended is noticed by its end.
        thread::spawn(move || drop(input.write_all(line.as_bytes())));
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = String::new();
                let read = output.by_ref().take(LONGEST).read_line(&mut line);
                let (_, at) = instant_and_monotonic();
                let told = match read {
                    Ok(0) => break,
                    Ok(_) => Ok((line.trim_end().to_owned(), at)),
                    Err(e) => Err(e),
                };
                let last = told.is_err();
                if sender.send(told).is_err() || last {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            lines,
            log,
            masks: masks(job),
            began,
            began_unix_ns: i64::try_from(unix).unwrap_or(i64::MAX),
            stopped: false,
            _lease: lease,
            _spawner: spawner,
        })
    }

    /// When the line was handed over, on the monotonic clock.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// The same in ns since 1970.
    pub(super) fn began_unix_ns(&self) -> i64 {
        self.began_unix_ns
    }

    /// Returns the next line, or tells that there is none yet.
    pub(super) fn next(&mut self) -> Said {
        match self.lines.recv_timeout(POLL) {
            Ok(Ok((line, at))) => Said::Line(line, at),
            Err(RecvTimeoutError::Timeout) => Said::Nothing(instant_and_monotonic().1),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Said::End,
        }
    }

    /// Tells how it ended, for people.
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

    /// What its log says last, to follow a sentence.
    pub(super) fn last_words(&self) -> String {
        let text = self.log_text();
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
        let mut text = fs::read(&self.log).map_or_else(
            |e| format!("the log cannot be read: {e}\n"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        );
        for (path, word) in &self.masks {
            text = text.replace(path.as_str(), word);
        }
        text
    }

    /// Stops it with all it started, and returns its log.
    pub(super) fn stop(&mut self) -> String {
        self.end();
        self.log_text()
    }

    fn end(&mut self) {
        if !self.stopped {
            self.stopped = true;
            // What cannot be stopped now is stopped by the next run, by its lease.
            let _ = stop(&mut self.child, GRACE);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user's folder does not belong in a log that may be published"
)]
fn masks(job: &Job<'_>) -> Vec<(String, &'static str)> {
    let store = job.store.root();
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    [(Some(store), "<store>"), (home, "<home>")]
        .into_iter()
        .filter_map(|(path, word)| Some((path?.to_str()?.to_owned(), word)))
        .filter(|(path, _)| path.len() > 1)
        .collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
