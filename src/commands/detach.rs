//! `run --detach`, `attach` and `stop`: control runs without a terminal.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipeline::Event;
use pipeline::lock::{lock_file, lock_path};
use serde_json::json;

use crate::args::{AttachArgs, ExperimentArgs, Global, RunArgs, StopArgs};
use crate::detached::{Began, Course, Detached, host, start};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::progress::{Progress, Show};
use crate::project::{Project, again, shown};
use crate::session::{Session, plan_options};
use crate::terminal::{complain, say};
use crate::trust;

use super::run::events_file;
use super::run_report::check_named;
use crate::signals::listen_for_signals;

/// The interval between two checks of a run.
const TICK: Duration = Duration::from_millis(200);

/// The number of log lines shown for a failed run.
const LAST_LINES: usize = 20;

/// Starts the run without a terminal. It first reports mistakes and asks its questions, while a terminal exists.
pub(super) fn detach(arguments: &RunArgs, global: &Global) -> Result<(), Stop> {
    let session = Session::open(&arguments.experiment, global)?;
    check_named(&session.experiment, arguments)?;
    session.project.must_not_be_published("run")?;
    let store = session.project.open()?;
    let plan = session.plan(&store, &plan_options(&arguments.selection))?;
    trust::permit(&session, &plan, arguments.trust.answer())?;
    let here = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let began = Began {
        experiment: here(&session.experiment.file),
        profile: session.experiment.profile.clone(),
        events: match &arguments.events {
            Some(file) => Some(here(file)),
            None => events_file(&session).map(|file| here(&file)),
        },
        host: host(),
        since: now(),
    };
    let words = std::env::args_os().skip(1);
    let words = words.filter(|word| word != "--detach");
    let lock = lock_path(&session.experiment);
    let run = start(store.root(), &lock, &began, words)?;
    let pid = run.pid().unwrap_or_default();
    if global.json {
        say(&json!({
            "process": pid, "host": run.began.host, "since": run.began.since, "log": run.log(),
            "output": run.output(), "events": run.began.events,
        })
        .to_string());
        return Ok(());
    }
    let same = same_experiment(&arguments.experiment);
    say(&format!(
        "runs without a terminal: process {pid} on {}",
        run.began.host
    ));
    say(&format!("see it:  benchtrail attach {same}"));
    say(&format!("end it:  benchtrail stop {same}"));
    say(&format!("its log: {}", shown(&run.log())));
    Ok(())
}

/// Returns the arguments that name this experiment and profile again.
fn same_experiment(arguments: &ExperimentArgs) -> String {
    again(&arguments.experiment, arguments.profile().as_deref())
}

#[expect(
    clippy::disallowed_methods,
    reason = "`status` shows when the run began; nothing depends on it"
)]
fn now() -> String {
    jiff::Timestamp::now()
        .round(jiff::Unit::Second)
        .map_or_else(|_| String::new(), |t| t.to_string())
}

/// Returns the detached run of an experiment.
fn run_of(arguments: &ExperimentArgs, global: &Global) -> Result<Detached, Stop> {
    let file = &arguments.experiment;
    must_be(file, Wanted::Experiment)?;
    let store = Project::of(Some(file), global.store.as_deref())?.store;
    let lock = lock_file(file, arguments.profile().as_deref());
    Detached::of(&store, &lock)?.ok_or_else(|| {
        let same = same_experiment(arguments);
        Stop::nothing(format!("no run of {same} was started with `--detach`"))
            .hint(format!("benchtrail run {same} --detach"))
    })
}

fn elsewhere(run: &Detached, what: &str) -> Stop {
    let here = host();
    let message = match run.began.host == here {
        true => "this run is working in another container".to_owned(),
        false => format!(
            "this run was started on {}, and this machine is {here}",
            run.began.host
        ),
    };
    Stop::usage(message).hint(format!("run `benchtrail {what}` there"))
}

/// Shows a detached run until it ends, or until the user detaches.
pub(super) fn attach(arguments: &AttachArgs, global: &Global) -> Result<(), Stop> {
    let run = run_of(&arguments.experiment, global)?;
    if run.course()? == Course::Elsewhere {
        return Err(elsewhere(&run, "attach"));
    }
    let session = Session::open(&arguments.experiment, global)?;
    let show = match global.json {
        true => Show::Quiet,
        false => Show::Progress,
    };
    let progress = Progress::new(&session.experiment, show, None, None)?;
    let left = Arc::new(AtomicBool::new(false));
    listen_for_signals(&left)?;
    let mut log = Tail::default();
    let mut events = Tail::default();
    loop {
        let course = run.course()?;
        match run.events() {
            Some(file) => {
                for line in events.lines(file)? {
                    // Ignore events that only a newer program knows.
                    if let Ok(event) = serde_json::from_str::<Event>(&line) {
                        progress.hear(&event);
                    }
                }
            }
            // Before the first event, show its preparations and the jobs it waits for.
            None if !global.json => log.lines(&run.log())?.iter().for_each(|l| complain(l)),
            None => {}
        }
        if course != Course::Working {
            progress.close();
            return report_end(&run, course, global);
        }
        if left.load(Ordering::Relaxed) {
            progress.close();
            complain(&format!(
                "the run continues; `benchtrail stop {}` ends it",
                same_experiment(&arguments.experiment)
            ));
            return Ok(());
        }
        std::thread::sleep(TICK);
    }
}

/// Shows the output of a run, and ends with the same result.
fn report_end(run: &Detached, course: Course, global: &Global) -> Result<(), Stop> {
    let output = artifacts::regular::read_text(&run.output()).unwrap_or_default();
    if !output.trim().is_empty() {
        say(output.trim_end());
    }
    if course == Course::Ended(0) {
        return Ok(());
    }
    let log = artifacts::regular::read_text(&run.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    if !global.json {
        let first = lines.len().saturating_sub(LAST_LINES);
        lines[first..].iter().for_each(|line| complain(line));
    }
    match course {
        Course::Ended(code) => Err(Stop::as_another_did(code)),
        _ => Err(Stop::failed(format!(
            "the run ended without a result: somebody killed process {}, or the machine stopped",
            run.pid().unwrap_or_default()
        ))
        .hint(format!(
            "nothing that it completed is lost; `benchtrail run {}` continues",
            again(&run.began.experiment, run.began.profile.as_deref())
        ))),
    }
}

/// Ends a detached run as Ctrl-C would, and waits for its end.
pub(super) fn stop(arguments: &StopArgs, global: &Global) -> Result<(), Stop> {
    let run = run_of(&arguments.experiment, global)?;
    match run.course()? {
        Course::Working => {}
        Course::Elsewhere => return Err(elsewhere(&run, "stop")),
        Course::Ended(_) | Course::Gone => {
            return Err(Stop::nothing(format!(
                "no run of {} is active: the last detached run has ended",
                same_experiment(&arguments.experiment)
            )));
        }
    }
    run.stop()?;
    complain("stopping: the run stops its engines and jobs, and keeps what is complete");
    while run.course()? == Course::Working {
        std::thread::sleep(TICK);
    }
    let course = run.course()?;
    match global.json {
        true => say(&json!({ "exit": code(course) }).to_string()),
        false => say(&format!(
            "stopped; `benchtrail run {}` continues",
            same_experiment(&arguments.experiment)
        )),
    }
    Ok(())
}

fn code(course: Course) -> Option<u8> {
    match course {
        Course::Ended(code) => Some(code),
        _ => None,
    }
}

/// Returns the line of a detached run for `status`.
pub(super) fn status_line(run: &Detached) -> Result<String, Stop> {
    let began = &run.began;
    let pid = run.pid().unwrap_or_default();
    let what = format!("process {pid} on {}, since {}", began.host, began.since);
    Ok(match run.course()? {
        Course::Working => format!(
            "detached run active: {what}; its log: {}",
            shown(&run.log())
        ),
        Course::Ended(code) => format!("detached run ended with exit code {code}: {what}"),
        Course::Gone => format!("detached run ended without an exit code: {what}"),
        Course::Elsewhere => {
            format!("detached run on another machine or in another container: {what}")
        }
    })
}

/// Returns the status of a detached run as JSON.
pub(super) fn status_json(run: &Detached) -> Result<serde_json::Value, Stop> {
    let course = run.course()?;
    let state = match course {
        Course::Working => "working",
        Course::Ended(_) => "ended",
        Course::Gone => "gone",
        Course::Elsewhere => "elsewhere",
    };
    Ok(json!({
        "state": state, "exit": code(course), "process": run.pid(), "host": run.began.host,
        "since": run.began.since, "log": run.log(), "events": run.began.events,
    }))
}

/// A growing file, read line by line.
#[derive(Default)]
struct Tail {
    read: u64,
    file: Option<PathBuf>,
}

impl Tail {
    /// Returns the lines completed since the last call.
    fn lines(&mut self, path: &Path) -> Result<Vec<String>, Stop> {
        if self.file.as_deref() != Some(path) {
            *self = Self {
                read: 0,
                file: Some(path.to_owned()),
            };
        }
        let wrong = |e| Stop::refused_at(path.display(), &e);
        let (mut file, _) = artifacts::regular::open(path).map_err(wrong)?;
        file.seek(SeekFrom::Start(self.read)).map_err(wrong)?;
        let mut reader = BufReader::new(file.take(1 << 26));
        let mut lines = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let count = reader.read_until(b'\n', &mut bytes).map_err(wrong)?;
            if bytes.pop() != Some(b'\n') {
                return Ok(lines);
            }
            self.read += count as u64;
            lines.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
