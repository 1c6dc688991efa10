//! A shared store as commands use it: opened, watched, with its errors as exit codes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::{Maker, Store, counted};
use indicatif::{ProgressBar, ProgressStyle};
use pipeline::PlanOptions;
use pipeline::lock::Lock;
use remote::{Progress, PushReport, Remote, RemoteError, Study, Watch};
use serde_json::{Value, json};

use crate::args::RemoteArgs;
use crate::exit::Stop;
use crate::session::Session;
use crate::terminal::{bytes, complain, continued};

/// A shared store and its user.
pub(crate) struct Shared {
    pub(crate) remote: Remote,
    pub(crate) me: Maker,
}

impl Shared {
    /// Opens the shared store named by an option or the environment, for reading.
    ///
    /// # Errors
    /// If the store does not exist.
    pub(crate) fn of(arguments: &RemoteArgs) -> Result<Option<Self>, Stop> {
        let Some(url) = &arguments.remote else {
            return Ok(None);
        };
        Ok(Some(Self::new(Remote::open(url)?)))
    }

    /// Opens it for reading and writing, creating it if needed.
    ///
    /// # Errors
    /// If the store can neither be opened nor created.
    pub(crate) fn of_writer(arguments: &RemoteArgs) -> Result<Option<Self>, Stop> {
        let Some(url) = &arguments.remote else {
            return Ok(None);
        };
        Ok(Some(Self::new(Remote::open_or_create(url)?)))
    }

    pub(crate) fn new(remote: Remote) -> Self {
        let me = remote::identity(chosen_name().as_deref());
        Self { remote, me }
    }

    /// Fetches the results that a study can use before it measures, reports them, and returns the notes for its plan.
    ///
    /// # Errors
    /// If the study cannot be planned or the shared store cannot be read.
    pub(crate) fn fetch(
        &self,
        session: &Session,
        store: &Store,
        options: &PlanOptions,
    ) -> Result<Vec<String>, Stop> {
        let lock = pipeline::lock::lock_path(&session.experiment);
        let left = cluster::records_left(store.root(), &lock, &self.remote)?;
        let study = Study {
            experiment: &session.experiment,
            registry: &session.registry,
            store,
            options,
            left: &left,
        };
        let fetched = watched("pulling", &AtomicBool::new(false), |watch| {
            self.remote.fetch(study, &self.me, watch)
        })?;
        for (record, why) in &fetched.broken {
            complain(&format!(
                "warning: record {} is not used: {}",
                record.short(),
                continued(&why.to_string())
            ));
        }
        for why in &fetched.damaged {
            complain(&format!(
                "warning: {}; it counts as absent",
                continued(&why.to_string())
            ));
        }
        let all = fetched.broken.iter().map(|(_, why)| why);
        if let Some(hint) = all.chain(&fetched.damaged).find_map(RemoteError::hint) {
            complain(&format!("hint: {hint}"));
        }
        if fetched.entered > 0 {
            complain(&format!(
                "{} from {} ({}, {})",
                counted(fetched.entered, "result"),
                self.remote.url(),
                counted(fetched.objects, "object"),
                bytes(fetched.bytes)
            ));
        }
        Ok(fetched.offers)
    }

    /// Copies the results that locks name to the shared store.
    ///
    /// # Errors
    /// If the shared store returns an error, or a local result is damaged.
    pub(crate) fn push(
        &self,
        store: &Store,
        locks: &[(PathBuf, Lock)],
        verify: bool,
        cancelled: &AtomicBool,
    ) -> Result<(PushReport, u64), Stop> {
        watched("pushing", cancelled, |watch| {
            remote::push_locks(&self.remote, store, locks, &self.me, verify, watch)
        })
    }
}

/// Runs a transfer, with a bar on a terminal.
///
/// # Errors
/// The errors of the transfer.
pub(crate) fn watched<T>(
    what: &str,
    cancelled: &AtomicBool,
    transfer: impl FnOnce(Watch<'_>) -> Result<T, RemoteError>,
) -> Result<T, Stop> {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}");
    let bar = ProgressBar::no_length()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_prefix(what.to_owned());
    let listener = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(bytes(progress.bytes));
    };
    let done = transfer(Watch {
        cancelled,
        listener: &listener,
    });
    bar.finish_and_clear();
    Ok(done?)
}

/// Returns a store that reads through to the shared one.
pub(crate) fn reading_through(store: Store, shared: Option<Shared>) -> Store {
    match shared {
        Some(shared) => store.with_source(Arc::new(shared.remote)),
        None => store,
    }
}

/// Returns the name that the user wants in records, if any.
#[expect(
    clippy::disallowed_methods,
    reason = "users decide how records name them"
)]
pub(crate) fn chosen_name() -> Option<String> {
    std::env::var("BENCHTRAIL_AS")
        .ok()
        .filter(|name| !name.is_empty())
}

/// Returns a one-line summary of a push, and a line for every cell with two results.
pub(crate) fn push_lines(report: &PushReport, url: &str) -> Vec<String> {
    let mut lines = vec![format!(
        "{} pushed to {url}, {} already there ({}, {})",
        counted(report.completed, "result"),
        report.already_complete,
        counted(report.objects, "object"),
        bytes(report.bytes)
    )];
    for digest in &report.replaced {
        lines.push(format!("damaged object {digest} replaced"));
    }
    for twin in &report.twins {
        let cell = pipeline::place::cell_text(&twin.ours.stage, &twin.ours.coordinates);
        let same = match twin.ours.outputs == twin.theirs.outputs {
            true => ", with the same outputs",
            false => "",
        };
        lines.push(format!(
            "{cell} has another result{same}, from {}; both are kept",
            pipeline::makers_in_words([twin.theirs.maker.clone()])
        ));
    }
    lines
}

/// Returns the summary of a push as JSON.
pub(crate) fn push_json(report: &PushReport, url: &str) -> Value {
    let twins = report.twins.iter().map(|twin| {
        json!({
            "stage": twin.ours.stage, "coordinates": twin.ours.coordinates, "ours": twin.ours.record,
            "theirs": twin.theirs.record, "maker": twin.theirs.maker,
            "same_outputs": twin.ours.outputs == twin.theirs.outputs,
        })
    });
    json!({
        "remote": url, "completed": report.completed, "known": report.already_complete, "objects": report.objects,
        "bytes": report.bytes, "replaced": report.replaced, "twins": twins.collect::<Vec<_>>(),
    })
}

impl From<RemoteError> for Stop {
    fn from(error: RemoteError) -> Self {
        let hint = error.hint();
        let stop = match error {
            RemoteError::Store(error) => return error.into(),
            RemoteError::Plan(error) => return (*error).into(),
            RemoteError::Interrupted => {
                complain(&error.to_string());
                return Self::interrupted();
            }
            RemoteError::Url(..) => Self::usage(error),
            RemoteError::Absent(..) => Self::nothing(error),
            error if error.is_damage() => Self::damaged(error),
            error => Self::refused(&error),
        };
        match hint {
            Some(hint) => stop.hint(hint),
            None => stop,
        }
    }
}
