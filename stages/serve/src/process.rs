//! The engine's process. The spawner starts it so that it cannot outlive this process, and a lease file records it. Its
//! output goes to a log, and it is stopped together with its process group.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use contract::LiveEnvironment;
use engines::{Engine, Log, Rendered, prepare_environment};
use net::Secrets;
use pipeline::enclosure::Enclosure;
use pipeline::lease::LeaseFile;
use pipeline::long_log::uncoloured;
use pipeline::process::{Spawner, stat, stop};
use pipeline::{CellStatus, Failure, Job, LocalPaths, Media, Output};
use places::Containment;
use regex_lite::Regex;

use crate::listening;

/// The time in which an engine that refuses connections must end.
const ENDING: Duration = Duration::from_secs(10);

/// The time that another host has to stop an engine, beyond the engine's own time.
const FAREWELL: Duration = Duration::from_secs(20);

/// The number of last lines of the log that a reason quotes.
const QUOTED_LINES: usize = 3;

/// A started engine.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// Kept open so that the log stays readable even if its folder is removed.
    reader: File,
    marks: Log,
    paths: LocalPaths,
    /// What the engine may inherit and its log must not repeat.
    secrets: Secrets,
    failures: Vec<(Regex, String)>,
    grace: Duration,
    stopped: bool,
    /// When dropped, it tells the other host to stop what it started.
    pulse: Option<Sender<()>>,
    /// The engine's container, if the child process is only the client of a runtime.
    container: Option<Contained>,
    enclosure: Enclosure,
    // Dropped after the process has stopped: first the file, then the thread that the child depends on.
    _lease: LeaseFile,
    _spawner: Arc<Spawner>,
}

/// Returns what usually sends a signal, as an addition to its number.
fn of_signal(signal: Option<i32>) -> &'static str {
    match signal {
        // SIGILL, SIGKILL
        Some(4) => ": it used an instruction that this processor lacks, so it needs another build",
        Some(9) => ": something killed it, often the system because memory ran out",
        _ => "",
    }
}

/// What to do about an engine that may have gone to the background.
const IN_FOREGROUND: &str = "if it goes on in the background, start it in the foreground: \
    Benchtrail must see when it ends";

impl Process {
    /// Starts the program with its arguments and environment.
    pub(crate) fn start(
        spawner: &Arc<Spawner>,
        engine: &Engine,
        live: &LiveEnvironment,
        rendered: &Rendered,
        log: &str,
        hanging: Hanging<'_>,
        job: &Job<'_>,
    ) -> Result<Self, Failure> {
        let container = match hanging {
            Hanging::OnUs(contained) => contained,
            Hanging::OnAPipe => None,
        };
        let trouble =
            |what: &str, e: io::Error| Failure::failed(format!("{}: {what}: {e}", engine.title));
        let path = job.scratch.join(format!("{log}.log"));
        fs::create_dir_all(job.scratch).map_err(|e| trouble("the folder for its log", e))?;
        let log = File::create(&path).map_err(|e| trouble("its log", e))?;
        let errors = log.try_clone().map_err(|e| trouble("its log", e))?;
        let reader = File::open(&path).map_err(|e| trouble("its log", e))?;
        let whole: Vec<String> = match &container {
            Some(contained) => contained.line.clone(),
            None => live
                .bin
                .iter()
                .chain(&rendered.arguments)
                .cloned()
                .collect(),
        };
        let (executable, arguments) = whole
            .split_first()
            .ok_or_else(|| Failure::failed("there is no program to start"))?;
        let mut command = spawner.command(executable);
        command.args(arguments);
        match (hanging, &container) {
            (Hanging::OnUs(_), None) => {
                let (program, inherit) = (Path::new(executable), &engine.launch.inherit);
                prepare_environment(&mut command, program, inherit, live.venv.as_deref())
                    .map_err(|e| trouble("its environment", e))?;
                command.envs(&rendered.environment).stdin(Stdio::null());
            }
            // A client of the user's, which needs the user's full environment.
            (Hanging::OnUs(_), Some(_)) => {
                command.stdin(Stdio::null());
            }
            (Hanging::OnAPipe, _) => {
                command.stdin(Stdio::piped());
            }
        }
        command.current_dir(job.scratch).stdout(log).stderr(errors);
        let mut child = spawner
            .spawn(command)
            .map_err(|e| trouble("it cannot be started", e))?;
        let pulse = child.stdin.take().map(|pipe| {
            let (keep, stop) = channel();
            places::beat(pipe, stop);
            keep
        });
        await_own_group(&child).map_err(|e| trouble("it cannot be watched", e))?;
        let noted = Enclosure::of(child.id()).and_then(|enclosure| {
            let removal = container.map_or_else(Vec::new, Contained::removal);
            let lease = job.leases.register_with(child.id(), removal)?;
            Ok((enclosure, lease))
        });
        let (enclosure, lease) = match noted {
            Ok(noted) => noted,
            Err(e) => {
                // Without a lease, a crash could leave it behind, so do not run it.
                let _ = stop(&mut child, Duration::ZERO);
                return Err(trouble("its lease cannot be recorded", e));
            }
        };
        Ok(Self {
            child,
            log: path,
            reader,
            marks: engine.log.clone(),
            paths: LocalPaths::of(
                job.store.root(),
                (live.place["folder"].as_str()).map(|folder| (PathBuf::from(folder), "<host>")),
            ),
            secrets: Secrets::of_this_process(),
            // Invalid expressions were refused when the definition was read.
            failures: engine
                .log
                .failures
                .values()
                .filter_map(|failure| Some((Regex::new(&failure.line).ok()?, failure.hint.clone())))
                .collect(),
            grace: Duration::try_from_secs_f64(engine.stop.grace_s).unwrap_or_default(),
            stopped: false,
            pulse,
            container: container.cloned(),
            enclosure,
            _lease: lease,
            _spawner: spawner.clone(),
        })
    }

    /// Returns the leader of the engine's processes. In a container this is not the child, which is only the runtime's
    /// client.
    ///
    /// # Errors
    /// If the runtime does not report it.
    pub(crate) fn pid(&self) -> Result<u32, Failure> {
        let Some(contained) = &self.container else {
            return Ok(self.child.id());
        };
        contained.containment.pid(&contained.name).map_err(|why| {
            Failure::failed(format!(
                "the container {} has no process: {why}",
                contained.name
            ))
        })
    }

    /// Returns what to do about an engine that is not ready, if it listens elsewhere than at its URL.
    pub(crate) fn listens_elsewhere(&self, url: &str) -> Option<String> {
        let port = url.trim_end_matches('/').rsplit(':').next()?.parse().ok()?;
        // Otherwise the child is only a client.
        let is_engine = self.container.is_none() && self.pulse.is_none();
        is_engine
            .then(|| listening::elsewhere(self.child.id(), port))
            .flatten()
    }

    /// Returns what to do about an engine that ended without an error before it was ready, as the first process of a
    /// daemon does.
    pub(crate) fn has_left(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        status.success().then(|| IN_FOREGROUND.to_owned())
    }

    pub(crate) fn log_path(&self) -> &Path {
        &self.log
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// If it ended: how, and the last lines of its log.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => match pipeline::long_log::check(&self.log) {
                Ok(()) => Ok(()),
                Err(why) => {
                    let reason = format!("the engine cannot go on: {why}{}", self.last_words());
                    Err(self.fail(CellStatus::Failed, reason))
                }
            },
            Ok(Some(status)) => {
                let reason = format!(
                    "the engine exited ({status}{}){}",
                    of_signal(status.signal()),
                    self.last_words()
                );
                Err(self.fail(CellStatus::Failed, reason))
            }
            Err(e) => Err(self.fail(
                CellStatus::Failed,
                format!("the engine cannot be watched: {e}"),
            )),
        }
    }

    /// Checks a server that answered 500 to the request for a token. If its log shows a known failure, it will never
    /// generate one, although it runs.
    ///
    /// # Errors
    /// If the log shows a known failure: the answer, and the last lines of the log.
    pub(crate) fn check_failed(&mut self, title: &str, complaint: &str) -> Result<(), Failure> {
        if self.advice().is_none() {
            return Ok(());
        }
        let reason = format!("{title} runs, but {complaint}{}", self.last_words());
        Err(self.fail(CellStatus::Failed, reason))
    }

    /// Checks that it still runs after it was used. If it accepts no more connections, it is about to end. This method
    /// then waits for it, because dumping its memory may take a while.
    ///
    /// # Errors
    /// If it ended, or accepts no connections.
    pub(crate) fn check_after_use(&mut self, refuses: impl Fn() -> bool) -> Result<(), Failure> {
        self.check()?;
        if !refuses() {
            return Ok(());
        }
        let deadline = Instant::now() + ENDING;
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            self.check()?;
        }
        let reason = format!(
            "the engine runs, but refuses connections{}",
            self.last_words()
        );
        Err(self.fail(CellStatus::Hung, reason))
    }

    /// Builds a failure that carries the log.
    pub(crate) fn fail(&mut self, status: CellStatus, reason: String) -> Failure {
        let failure = Failure::new(status, reason).evidence(self.log_output());
        match self.advice() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// Returns the known remedy if the log shows a known failure.
    fn advice(&mut self) -> Option<String> {
        let text = uncoloured(&self.log_text());
        let matching = self
            .failures
            .iter()
            .filter(|(line, _)| line.is_match(&text));
        let hints: Vec<&str> = matching.map(|(_, hint)| hint.as_str()).collect();
        (!hints.is_empty()).then(|| hints.join("; "))
    }

    /// Returns the end of the log, to follow a sentence: the last line with an error, or the last lines.
    pub(crate) fn last_words(&mut self) -> String {
        let text = uncoloured(&self.log_text());
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let quoted = match self.marks.last_error(&text) {
            Some(line) => line.trim().to_owned(),
            None => {
                let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
                last.iter()
                    .map(|l| l.trim())
                    .collect::<Vec<_>>()
                    .join(" / ")
            }
        };
        if quoted.is_empty() {
            "; its log is empty".to_owned()
        } else {
            format!("; its log says: {quoted}")
        }
    }

    pub(crate) fn log_text(&mut self) -> String {
        match pipeline::long_log::read(&mut self.reader) {
            Ok(bytes) => self.secrets.mask(&String::from_utf8_lossy(&bytes)),
            Err(e) => format!("the log cannot be read: {e}\n"),
        }
    }

    /// Returns the log for display, with paths of this machine masked as in the stored log.
    pub(crate) fn shown_log(&mut self) -> String {
        let text = self.log_text();
        self.paths.mask(text)
    }

    fn log_output(&mut self) -> Output {
        let text = self.log_text();
        self.output_of(text)
    }

    fn output_of(&self, text: String) -> Output {
        let text = self.paths.mask(text);
        Output::text("log", Media::Text, text)
    }

    /// Stops the whole process group and returns the log.
    pub(crate) fn release(&mut self) -> Output {
        let stopped = self.stop();
        let mut log = self.log_text();
        if let Err(e) = stopped {
            log.push_str(&format!(
                "benchtrail: the engine could not be stopped: {e}\n"
            ));
        }
        self.output_of(log)
    }

    fn stop(&mut self) -> io::Result<()> {
        if self.stopped {
            return Ok(());
        }
        self.stopped = true;
        if self.pulse.take().is_some() {
            // The other host stops the engine, and then the client ends.
            let deadline = Instant::now() + self.grace + FAREWELL;
            while Instant::now() < deadline && self.child.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // The client may be killed without its container, so the container goes first.
        let removed = match &self.container {
            Some(contained) => contained
                .containment
                .remove(&contained.name, self.grace)
                .map_err(io::Error::other),
            None => Ok(()),
        };
        let stopped = stop(&mut self.child, self.grace).map(drop).and(removed);
        // Processes that left the group, for example by starting their own session.
        stopped.and(self.enclosure.empty())
    }
}

/// A container's name and the command that starts it.
#[derive(Clone, Debug)]
pub(crate) struct Contained {
    pub(crate) containment: Containment,
    pub(crate) name: String,
    pub(crate) line: Vec<String>,
}

impl Contained {
    pub(crate) fn removal(&self) -> Vec<String> {
        self.containment.removal(&self.name)
    }
}

/// What a process's life depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hanging<'a> {
    /// On this process: the kernel ends the child when this process ends. A container is removed instead.
    OnUs(Option<&'a Contained>),
    /// On a pipe: the child represents a process on another host, which ends when the pipe to it closes.
    OnAPipe,
}

/// Waits until a new child leads its own process group or has ended. If it were signalled earlier, the group would not
/// exist yet, and the child would survive.
pub(crate) fn await_own_group(child: &Child) -> io::Result<()> {
    while let Some(now) = stat(child.id())? {
        if now.pgid == child.id() || !now.is_running() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody to report an error to.
        let _ = self.stop();
    }
}
