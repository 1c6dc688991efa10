//! The display of a running experiment: a consumer of the executor's events.
//!
//! On a terminal, two lines stay current: the study's progress with an estimate of the time left, and the activity of
//! the current cell. Elsewhere it is a log: one line with the time for each executed cell, and one line per minute for
//! a long cell.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use artifacts::{Digest, counted};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pipeline::event::Rest;
use pipeline::lock::lock_path;
use pipeline::stage::Rates;
use pipeline::{CellStatus, Event, Experiment};
use serde_json::json;

use crate::exit::Stop;
use crate::nearby;
use crate::terminal::{complain, continued, is_watched, plain, seconds};

/// Returns what a run says that waits for another process, with how to find that process.
fn waiting(exclusive: &str, runs: Option<String>) -> String {
    let which = match runs {
        Some(runs) => {
            format!("the runs of these locks are alive: {runs}, and `benchtrail status` shows them")
        }
        None => format!("`fuser -v` on `locks/{exclusive}.lock` in the store shows it"),
    };
    format!(
        "waiting: another process holds the exclusive resource `{exclusive}`; {which}; this run goes on when it ends"
    )
}

/// The number of printed warnings per cell; the rest is only counted.
const WARNINGS_SHOWN: usize = 6;

/// The interval between two log lines about work in progress.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Lets a message through after a minute without one.
#[derive(Debug)]
pub(crate) struct Pace {
    said: Instant,
}

impl Pace {
    /// Starts the first minute.
    pub(crate) fn from(now: Instant) -> Self {
        Self { said: now }
    }

    /// Returns whether a message is due, and if so, counts it as printed.
    pub(crate) fn due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(self.said) >= LOG_EVERY;
        if due {
            self.said = now;
        }
        due
    }
}

/// How to show the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Two live lines on a terminal, otherwise a log.
    Progress,
    /// The same, and the log output of starting engines.
    Verbose,
    /// Only warnings.
    Quiet,
}

/// Shows events, and writes them to a file if requested.
pub(crate) struct Progress {
    state: Mutex<State>,
    log: Option<Mutex<File>>,
    show: Show,
    live: Option<Live>,
    /// The lock that the run will write.
    lock: PathBuf,
}

struct Live {
    _all: MultiProgress,
    study: ProgressBar,
    cell: ProgressBar,
}

/// The progress of each stage.
struct State {
    began: Instant,
    pace: Pace,
    stages: BTreeMap<String, StageState>,
    /// The number of warnings of each unfinished cell.
    warnings: BTreeMap<String, usize>,
}

/// The cells of a stage that this run executes. Cells that are cached or cannot run do not count.
#[derive(Clone, Debug, Default)]
struct StageState {
    /// Whether the stage has a single cell, cached or not.
    is_single: bool,
    /// The number of cells without a result.
    left: usize,
    /// The number of cells that this run executed.
    executed: usize,
    /// The duration of each executed cell that is ok, s.
    took: Vec<f64>,
}

impl StageState {
    /// Returns the number of cells that this run has executed or may still execute.
    fn cells(&self) -> usize {
        self.executed + self.left
    }
}

impl Show {
    fn is_quiet(self) -> bool {
        self == Self::Quiet
    }
}

/// Returns the first line of an event log. It contains the plan, so that a reader of the log needs nothing else, and
/// the digest of the token that stops the run, if any.
fn first_line(experiment: &Experiment, stop: Option<&Digest>) -> serde_json::Value {
    let stages = experiment.stages.iter_enumerated().map(|(id, stage)| {
        let place = |at| experiment.coordinates(id, at).to_string();
        let cells: Vec<String> = stage.cells.iter().map(|cell| place(&cell.at)).collect();
        json!({"name": stage.name, "kind": stage.kind, "cells": cells})
    });
    json!({
        "event": "run-began",
        "experiment": experiment.name,
        "file": std::path::absolute(&experiment.file)
            .unwrap_or_else(|_| experiment.file.clone())
            .to_string_lossy(),
        "profile": experiment.profile,
        "stages": stages.collect::<Vec<_>>(),
        "stop": stop,
    })
}

impl Progress {
    /// Makes the display of an experiment's run.
    ///
    /// # Errors
    /// If the event log cannot be created.
    pub(crate) fn new(
        experiment: &Experiment,
        show: Show,
        log: Option<&Path>,
        stop: Option<&Digest>,
    ) -> Result<Self, Stop> {
        let began = Instant::now();
        let stages = experiment.stages.iter().map(|stage| {
            let is_single = stage.cells.len() == 1;
            let state = StageState {
                is_single,
                ..StageState::default()
            };
            (stage.name.clone(), state)
        });
        let state = State {
            began,
            pace: Pace::from(began),
            stages: stages.collect(),
            warnings: BTreeMap::new(),
        };
        let log = log
            .map(|path| {
                let begin = || {
                    let mut file = File::create(path)?;
                    // Written at once: writing it in pieces would take one or two system calls per cell.
                    let line = format!("{}\n", first_line(experiment, stop));
                    file.write_all(line.as_bytes()).map(|()| file)
                };
                begin().map_err(|e| Stop::refused_at(path.display(), &e))
            })
            .transpose()?;
        let live =
            (!show.is_quiet() && is_watched()).then(|| Live::new(experiment.cell_count() as u64));
        Ok(Self {
            state: Mutex::new(state),
            log: log.map(Mutex::new),
            show,
            live,
            lock: lock_path(experiment),
        })
    }

    /// Processes an event.
    pub(crate) fn hear(&self, event: &Event) {
        let left = match event {
            Event::CellsLeft { stages } => {
                self.begin_count(stages);
                None
            }
            Event::CellEnded {
                stage,
                status,
                seconds,
                cached,
                ..
            } => self.count(stage, *status, *seconds, *cached),
            _ => None,
        };
        self.log(event, left);
        match event {
            Event::PlanMade {
                cells,
                cached,
                run,
                after,
                blocked,
            } if !self.show.is_quiet() => {
                let mut parts = vec![
                    counted(*cells, "cell"),
                    format!("{cached} cached"),
                    format!("{run} to run"),
                ];
                if *after > 0 {
                    parts.push(format!("{after} decided later"));
                }
                if *blocked > 0 {
                    parts.push(format!("{blocked} blocked"));
                }
                self.say(&parts.join(", "));
            }
            Event::CellStarted { cell, attempt } => {
                let again = match attempt {
                    0 | 1 => String::new(),
                    n => format!(" (attempt {n})"),
                };
                self.set_message(&format!("{cell}{again}"));
            }
            Event::CellProgress {
                cell,
                done,
                total,
                what,
                rates,
                log,
                notice,
            } => {
                let activity = (*done, *total, &**what);
                self.cell_progress(cell, activity, rates.as_ref(), (log, *notice));
            }
            Event::CellEnded {
                cell,
                stage,
                status,
                reason,
                hint,
                seconds,
                cached,
            } => {
                self.cell_ended(
                    (stage, cell),
                    *status,
                    reason.as_deref(),
                    hint.as_deref(),
                    (*seconds, *cached, left),
                );
            }
            Event::ResourceStarted { cell } => self.note(&format!("{cell} starts")),
            Event::Replanned { cell } => {
                self.say(&format!(
                    "note: {cell} started with another descriptor; the cells that depend on it \
                     were planned again"
                ));
            }
            Event::Resting { rest, seconds } => {
                let what = match rest {
                    Rest::WarmUp => "warming the machine up",
                    Rest::CoolDown => "letting the machine rest",
                };
                self.note(&format!("{what} for {seconds} s"));
            }
            Event::Waiting { exclusive } => {
                self.say(&waiting(exclusive, nearby::other_runs(&self.lock)));
            }
            Event::Warning { cell, message } => self.warn(cell.as_deref(), message),
            Event::PlanMade { .. }
            | Event::CellsLeft { .. }
            | Event::ResourceReleased { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Writes an event to the log. A failing event log must not end the measurement.
    fn log(&self, event: &Event, left: Option<TimeLeft>) {
        let Some(log) = &self.log else { return };
        let mut line = line_of(event, left).to_string();
        line.push('\n');
        let written = log
            .lock()
            .expect("no listener panics")
            .write_all(line.as_bytes());
        if let Err(error) = written {
            self.say(&format!("warning: the event log: {error}"));
        }
    }

    /// Shows a text in the live line of the cell, if there is one.
    fn set_message(&self, text: &str) {
        if let Some(live) = &self.live {
            live.cell.set_message(plain(text).into_owned());
        }
    }

    /// Shows how far a cell is: in the live line, or now and then in a line of its own.
    fn cell_progress(
        &self,
        cell: &str,
        (done, total, what): (u64, Option<u64>, &str),
        rates: Option<&Rates>,
        (log, notice): (&[String], bool),
    ) {
        if self.show == Show::Verbose {
            for line in log {
                self.say(&format!("{cell} says: {line}"));
            }
        }
        let count = match (done, total) {
            (0, None) => String::new(),
            (done, None) => format!("{done} "),
            (done, Some(total)) => format!("{done} of {total} "),
        };
        let place = self.place(cell);
        let figures = rates.map(figures).unwrap_or_default();
        let last = log.last().map(|line| format!(": {line}"));
        let last = last.unwrap_or_default();
        if self.live.is_some() {
            // Text that does not fit is cut at the end, so the figures come before the coordinates.
            let (stage, at) = cell.split_at(cell.find('[').unwrap_or(cell.len()));
            self.set_message(&format!(
                "{place}{stage}: {count}{what}{figures}{last}  {at}"
            ));
        } else if !self.show.is_quiet() && (notice || self.is_due()) {
            self.say(&format!("{place}{cell}: {count}{what}{figures}{last}"));
        }
    }

    /// Prints the first warnings of a cell and counts the others, which are in its record.
    fn warn(&self, cell: Option<&str>, message: &str) {
        let count = cell.map_or(1, |cell| {
            let mut state = self.state.lock().expect("no listener panics");
            let count = state.warnings.entry(cell.to_owned()).or_default();
            *count += 1;
            *count
        });
        if count <= WARNINGS_SHOWN {
            self.say(&format!("warning: {}", continued(message)));
        }
    }

    /// Ends the live lines.
    pub(crate) fn close(&self) {
        if let Some(live) = &self.live {
            live.cell.finish_and_clear();
            live.study.finish_and_clear();
        }
    }

    fn cell_ended(
        &self,
        (_, cell): (&str, &str),
        status: CellStatus,
        reason: Option<&str>,
        hint: Option<&str>,
        (took, cached, left): (f64, bool, Option<TimeLeft>),
    ) {
        let warned = self
            .state
            .lock()
            .expect("no listener panics")
            .warnings
            .remove(cell)
            .unwrap_or(0);
        if warned > WARNINGS_SHOWN {
            let more = warned - WARNINGS_SHOWN;
            self.say(&format!(
                "warning: {cell}: {more} more; `benchtrail show EXPERIMENT '{cell}'` shows them all"
            ));
        }
        let (executed, cells) = self.state.lock().expect("no listener panics").counts();
        if let Some(live) = &self.live {
            live.study.set_length(cells as u64);
            live.study.set_position(executed as u64);
            live.study
                .set_message(left.map(|left| left.to_string()).unwrap_or_default());
        }
        let is_log = self.live.is_none() && !self.show.is_quiet();
        let place = if is_log {
            format!("[{executed}/{cells}] ")
        } else {
            String::new()
        };
        if status == CellStatus::Skipped {
            // Skipped cells follow from failures already reported; the summary counts them.
        } else if status != CellStatus::Ok {
            let reason = reason
                .map(|r| format!(": {}", continued(r)))
                .unwrap_or_default();
            self.say(&format!("{place}{} {cell}{reason}", status.word()));
            if let Some(hint) = hint {
                self.say(&format!("hint: {hint}"));
            }
        } else if !cached && is_log {
            let left = left.map(|left| format!(", {left}")).unwrap_or_default();
            self.say(&format!("{place}{cell} ok, {}{left}", seconds(took)));
        }
    }

    /// Notes the cells without a result. Cells that are cached or blocked are not part of the progress.
    fn begin_count(&self, left: &BTreeMap<String, usize>) {
        let mut state = self.state.lock().expect("no listener panics");
        for (name, stage) in &mut state.stages {
            stage.left = left.get(name).copied().unwrap_or(0);
        }
        let (executed, cells) = state.counts();
        if let Some(live) = &self.live {
            live.study.set_length(cells as u64);
            live.study.set_position(executed as u64);
        }
    }

    /// Counts a cell that ended, and returns the time left.
    fn count(&self, stage: &str, status: CellStatus, took: f64, cached: bool) -> Option<TimeLeft> {
        let mut state = self.state.lock().expect("no listener panics");
        state.end(stage, status, took, cached);
        state.left()
    }

    /// Returns the position of a running cell among the cells of its stage that this run executes, `8/18 `, if there
    /// are several.
    fn place(&self, cell: &str) -> String {
        let stage = cell.split('[').next().unwrap_or(cell);
        let state = self.state.lock().expect("no listener panics");
        match state.stages.get(stage) {
            Some(stage) if stage.cells() > 1 && stage.left > 0 => {
                format!("{}/{} ", stage.executed + 1, stage.cells())
            }
            _ => String::new(),
        }
    }

    fn note(&self, text: &str) {
        match &self.live {
            Some(live) => live.cell.set_message(plain(text).into_owned()),
            None if !self.show.is_quiet() => self.say(text),
            None => {}
        }
    }

    fn is_due(&self) -> bool {
        self.state
            .lock()
            .expect("no listener panics")
            .pace
            .due(Instant::now())
    }

    /// Prints a line: above the live lines, or with the time in a log.
    fn say(&self, text: &str) {
        match &self.live {
            Some(live) => live.study.suspend(|| complain(text)),
            None if !self.show.is_quiet() => complain(&logged(text)),
            None => complain(text),
        }
    }
}

/// Returns an event's line in the log. If a cell ended, adds the least and the most time left, in s.
fn line_of(event: &Event, left: Option<TimeLeft>) -> serde_json::Value {
    let mut value = serde_json::to_value(event).expect("an event is plain data");
    if let Some(left) = left {
        value["left_s"] = json!([left.least_s, left.most_s]);
    }
    value
}

/// Formats the rolling figures of a load.
fn figures(rates: &Rates) -> String {
    let short = |value: f64| match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    let mut parts = Vec::new();
    // Answers that are still awaited take longer than the time in which requests are sent.
    if let (Some(elapsed), Some(planned)) = (rates.elapsed_s, rates.planned_s) {
        parts.push(format!("{:.0} of {planned} s", elapsed.min(planned)));
    }
    if let Some(rate) = rates.output_throughput {
        parts.push(format!("{} tok/s", short(rate)));
    }
    if let (Some(p50), Some(p95)) = (rates.ttft_ms_p50, rates.ttft_ms_p95) {
        parts.push(format!("TTFT p50 {} ms, p95 {} ms", short(p50), short(p95)));
    }
    parts.push(counted(rates.errors, "error"));
    parts.push(format!("{} in flight", rates.in_flight));
    format!("; {}", parts.join(", "))
}

/// Returns a log line: the time, UTC to the second, and the text.
#[expect(clippy::disallowed_methods, reason = "log lines have a time")]
pub(crate) fn logged(text: &str) -> String {
    format!("{:.0} {text}", jiff::Timestamp::now())
}

impl State {
    /// Counts a cell that ended. A cell that turned out to be cached, or that is skipped, is only one less to execute.
    fn end(&mut self, stage: &str, status: CellStatus, took: f64, cached: bool) {
        let Some(stage) = self.stages.get_mut(stage) else {
            return;
        };
        stage.left = stage.left.saturating_sub(1);
        if cached || status == CellStatus::Skipped {
            return;
        }
        stage.executed += 1;
        if status == CellStatus::Ok {
            stage.took.push(took);
        }
    }

    /// Returns the number of executed cells, and of all cells that this run executes as far as it is known.
    fn counts(&self) -> (usize, usize) {
        let stages = self.stages.values();
        stages.fold((0, 0), |(executed, cells), stage| {
            (executed + stage.executed, cells + stage.cells())
        })
    }

    /// Returns the time left, once it can be estimated.
    fn left(&self) -> Option<TimeLeft> {
        if self.counts().0 < 3 || self.began.elapsed() < Duration::from_secs(2) {
            return None;
        }
        TimeLeft::of(self.stages.values())
    }
}

/// The time left in a run: at least `least_s`, and at most `most_s` unless a cell takes longer than any of its stage so
/// far.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeLeft {
    least_s: f64,
    most_s: f64,
}

impl TimeLeft {
    /// Returns the sum over the stages of the number of cells left times the shortest and the longest cell so far.
    /// `None` while a stage with cells left has no executed cell, because their duration is unknown.
    fn of<'s>(stages: impl Iterator<Item = &'s StageState>) -> Option<Self> {
        let mut left = Self {
            least_s: 0.0,
            most_s: 0.0,
        };
        for stage in stages {
            let cells = stage.left as f64;
            if stage.left == 0 {
                continue;
            }
            // A single cell that summarizes the others takes negligible time.
            if stage.took.is_empty() && stage.is_single {
                continue;
            }
            let least = stage.took.iter().copied().reduce(f64::min)?;
            let most = stage.took.iter().copied().reduce(f64::max)?;
            left.least_s += cells * least;
            left.most_s += cells * most;
        }
        (left.most_s > 0.0).then_some(left)
    }
}

impl std::fmt::Display for TimeLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (least, most) = (seconds(self.least_s), seconds(self.most_s));
        if least == most {
            write!(f, "about {most} left")
        } else {
            write!(f, "{least} to {most} left")
        }
    }
}

impl Live {
    fn new(cells: u64) -> Self {
        let all = MultiProgress::new();
        // Text that does not fit into the window is cut, even if the window's size changes.
        let bar = "{bar:20} {pos} of {len} cells, {elapsed} elapsed  {wide_msg}";
        let study = all.add(ProgressBar::new(cells));
        study.set_style(ProgressStyle::with_template(bar).expect("the template is right"));
        let cell = all.add(ProgressBar::new_spinner());
        cell.set_style(
            ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is right"),
        );
        cell.enable_steady_tick(Duration::from_millis(120));
        Self {
            _all: all,
            study,
            cell,
        }
    }
}

#[cfg(test)]
mod tests;
