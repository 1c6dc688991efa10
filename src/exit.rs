//! The end of the process: one error type for the command line, one place for exit codes.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::SystemTime;

use artifacts::DiskFault;
use pipeline::{CellStatus, Failure, Lack};

use crate::terminal::continued;

/// The meanings of the exit codes; `--help` lists the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    /// The request failed, or a check does not hold.
    Failed = 1,
    /// The command line or the experiment is wrong.
    Usage = 2,
    /// The store is damaged.
    Damaged = 3,
    /// This machine lacks something.
    Machine = 4,
    /// Nothing matches.
    Nothing = 5,
    /// The data do not allow an answer.
    Undecidable = 6,
    /// Stopped by the user.
    Interrupted = 130,
}

/// Fails if the clock shows a time that no date can be written for.
#[expect(
    clippy::disallowed_methods,
    reason = "wall time is provenance, which must be possible to write"
)]
pub(crate) fn check_the_clock() -> Result<(), Stop> {
    can_be_written(SystemTime::now())
}

fn can_be_written(now: SystemTime) -> Result<(), Stop> {
    match jiff::Timestamp::try_from(now) {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::machine(
            "the clock of this machine shows a time outside the years -9999 to 9999",
        )
        .hint("set the clock")),
    }
}

/// The text of an error.
#[derive(Debug)]
enum Words {
    /// It has already been printed.
    Printed,
    /// One message.
    Message(String),
    /// Diagnostics, each with its place and its own `error:`.
    Diagnostics(String),
}

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) struct Stop {
    exit: Exit,
    words: Words,
    hint: Option<String>,
    /// What the disk refused, which has its own hint.
    disk_fault: Option<DiskFault>,
}

impl Stop {
    /// The request failed or a check does not hold; the message has been printed.
    pub(crate) fn failed_printed() -> Self {
        Self::printed(Exit::Failed)
    }

    /// The request failed, or a check does not hold.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::with(Exit::Failed, message)
    }

    /// The command line or the experiment is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::with(Exit::Usage, message)
    }

    /// The experiment is wrong; the message has been printed.
    pub(crate) fn usage_printed() -> Self {
        Self::printed(Exit::Usage)
    }

    /// The store is damaged.
    pub(crate) fn damaged(message: impl fmt::Display) -> Self {
        Self::with(Exit::Damaged, message)
    }

    /// The store is damaged; the message has been printed.
    pub(crate) fn damaged_printed() -> Self {
        Self::printed(Exit::Damaged)
    }

    /// This machine lacks something.
    pub(crate) fn machine(message: impl fmt::Display) -> Self {
        Self::with(Exit::Machine, message)
    }

    /// This machine refuses with this error.
    pub(crate) fn refused(error: &(dyn Error + 'static)) -> Self {
        Self::machine(error).by(DiskFault::behind(error))
    }

    /// This machine refuses with this error; `place` names the file or says what failed.
    pub(crate) fn refused_at(place: impl fmt::Display, error: &(dyn Error + 'static)) -> Self {
        let stop = Self::machine(format!("{place}: {}", artifacts::without_path(error)))
            .by(DiskFault::behind(error));
        match error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind)
        {
            Some(std::io::ErrorKind::NotFound) => {
                stop.hint("correct the path; the folder of a file to write must exist")
            }
            _ => stop,
        }
    }

    /// Notes what the disk refused.
    fn by(mut self, fault: Option<DiskFault>) -> Self {
        self.disk_fault = fault;
        self
    }

    /// This machine lacks something; the message has been printed.
    pub(crate) fn machine_printed() -> Self {
        Self::printed(Exit::Machine)
    }

    /// This machine lacks what cells need.
    pub(crate) fn lacking(lacks: &[Lack]) -> Self {
        let lines = |texts: Vec<&str>| texts.join("\n");
        let stop = Self::machine(lines(lacks.iter().map(|l| l.reason.as_str()).collect()));
        let mut hints: Vec<&str> = Vec::new();
        for hint in lacks.iter().filter_map(|l| l.hint.as_deref()) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        if hints.is_empty() {
            stop
        } else {
            stop.hint(lines(hints))
        }
    }

    /// Adds a hint after those that are there.
    pub(crate) fn further_hint(self, hint: impl fmt::Display) -> Self {
        let hint = match &self.hint {
            Some(first) => format!("{first}\n{hint}"),
            None => hint.to_string(),
        };
        self.hint(hint)
    }

    /// Replaces the remedy for a damaged store, which its owner can repair, by one for a bundle of somebody else.
    pub(crate) fn of_bundle(self, bundle: &std::path::Path) -> Self {
        match self.exit {
            Exit::Damaged => self.hint(format!(
                "`benchtrail verify {}` lists everything that differs from what was published; get the bundle again from where it was published",
                crate::project::in_shell(bundle)
            )),
            _ => self,
        }
    }

    /// Rewords the message and its hint.
    pub(crate) fn reworded(mut self, word: impl Fn(&str) -> String) -> Self {
        if let Words::Message(message) = &mut self.words {
            *message = word(message);
        }
        self.hint = self.hint.map(|hint| word(&hint));
        self
    }

    /// Nothing matches.
    pub(crate) fn nothing(message: impl fmt::Display) -> Self {
        Self::with(Exit::Nothing, message)
    }

    /// The data do not allow an answer.
    pub(crate) fn undecidable(message: impl fmt::Display) -> Self {
        Self::with(Exit::Undecidable, message)
    }

    /// Another process of this program ended with this code; the message has been printed.
    pub(crate) fn as_another_did(code: u8) -> Self {
        let all = [
            Exit::Failed,
            Exit::Usage,
            Exit::Damaged,
            Exit::Machine,
            Exit::Nothing,
            Exit::Undecidable,
            Exit::Interrupted,
        ];
        let exit = all.into_iter().find(|exit| *exit as u8 == code);
        Self::printed(exit.unwrap_or(Exit::Failed))
    }

    /// Stopped by the user.
    pub(crate) fn interrupted() -> Self {
        Self::printed(Exit::Interrupted)
    }

    /// The experiment is wrong, with its diagnostics.
    pub(crate) fn diagnostics(diagnostics: impl fmt::Display) -> Self {
        Self {
            words: Words::Diagnostics(diagnostics.to_string()),
            ..Self::printed(Exit::Usage)
        }
    }

    /// This machine lacks something that the experiment names, with the diagnostics.
    pub(crate) fn machine_diagnostics(diagnostics: impl fmt::Display) -> Self {
        Self {
            words: Words::Diagnostics(diagnostics.to_string()),
            ..Self::printed(Exit::Machine)
        }
    }

    fn with(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            words: Words::Message(message.to_string()),
            ..Self::printed(exit)
        }
    }

    fn printed(exit: Exit) -> Self {
        Self {
            exit,
            words: Words::Printed,
            hint: None,
            disk_fault: None,
        }
    }

    /// Adds the remedy.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Returns the first line of the message, without its label; `None` if it has been printed.
    pub(crate) fn first_line(&self) -> Option<&str> {
        let (Words::Message(text) | Words::Diagnostics(text)) = &self.words else {
            return None;
        };
        let line = text.lines().next()?;
        Some(line.strip_prefix("error: ").unwrap_or(line))
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        self.exit as u8
    }

    /// Prints the reason to standard error and returns the exit code. A message may repeat texts of others: none of
    /// their lines looks like a message of this program.
    pub(crate) fn report(&self) -> ExitCode {
        match &self.words {
            Words::Printed => {}
            Words::Message(message) => {
                crate::terminal::complain(&format!("error: {}", continued(message)));
            }
            Words::Diagnostics(all) => crate::terminal::complain(all),
        }
        if let Some(hint) = self.hint.as_deref().or(self.disk_fault.map(remedy)) {
            crate::terminal::complain(&format!("hint: {hint}"));
        }
        ExitCode::from(self.exit as u8)
    }
}

/// Returns the remedy for what a disk refused.
fn remedy(fault: DiskFault) -> &'static str {
    match fault {
        DiskFault::Full => {
            "make room on that disk, and start the command again; what was complete is kept"
        }
        DiskFault::Quota => {
            "make room within your quota, and start the command again; what was complete is kept"
        }
        DiskFault::FileSize => "raise the limit on file sizes (`ulimit -f`)",
        DiskFault::ReadOnly => "make that disk writable, or choose a folder on another one",
        DiskFault::Permission => {
            "change its permissions or those of its folder, or choose another place"
        }
    }
}

impl From<artifacts::StoreError> for Stop {
    fn from(error: artifacts::StoreError) -> Self {
        match error {
            artifacts::StoreError::Damaged(..) => Self::damaged(error).hint(
                "`benchtrail fsck --repair` moves damaged objects to quarantine; the next \
                    run remakes them",
            ),
            artifacts::StoreError::Missing(_) => Self::damaged(error).hint(
                "`benchtrail fsck` shows what needs it; copy it from another copy of the store, or \
                    run the experiment again",
            ),
            artifacts::StoreError::NotARecord(_) | artifacts::StoreError::TooLarge(..) => {
                Self::damaged(error).hint("`benchtrail fsck` shows what is wrong with the store")
            }
            artifacts::StoreError::Link(_) => Self::damaged(error).hint(
                "remove the link, or put what it leads to in its place; to keep a store elsewhere, use `--store DIR`",
            ),
            artifacts::StoreError::NotOurs(_) => Self::usage(error)
                .hint("name another folder with `--store DIR`; if it was a store and its `objects` are lost, remove the folder"),
            // The text contains the remedy; only a damaged file counts as damage.
            artifacts::StoreError::Index(..) if error.is_damaged_index() => Self::damaged(error),
            other => Self::refused(&other),
        }
    }
}

impl From<load::PromptError> for Stop {
    fn from(error: load::PromptError) -> Self {
        match error.by_machine {
            true => Self::machine(&error).by(error.disk_fault),
            false => Self::usage(error),
        }
    }
}

impl From<load::LoadError> for Stop {
    fn from(error: load::LoadError) -> Self {
        match error.by_machine {
            true => Self::machine(&error).by(error.disk_fault),
            false => Self::failed(error),
        }
    }
}

/// The failure of a cell's work in a command without a study.
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        let exit = match failure.status {
            CellStatus::Interrupted => Exit::Interrupted,
            // A tool or a permission is missing.
            CellStatus::Skipped => Exit::Machine,
            _ => Exit::Failed,
        };
        Self {
            hint: failure.hint,
            ..Self::with(exit, failure.reason)
        }
    }
}

impl From<artifacts::TableError> for Stop {
    fn from(error: artifacts::TableError) -> Self {
        Self::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_disk_that_is_full_or_must_not_be_written_has_a_remedy() {
        for (code, word) in [
            (28, "make room"),
            (122, "quota"),
            (27, "ulimit"),
            (30, "writable"),
            (13, "permissions"),
        ] {
            let error = || std::io::Error::from_raw_os_error(code);
            let path = || std::path::PathBuf::from("/data/store");
            for stop in [
                Stop::refused(&error()),
                Stop::refused_at("/data/store", &error()),
                artifacts::StoreError::Io(path(), error()).into(),
                pipeline::PipelineError::Io(path(), error()).into(),
                pipeline::PipelineError::Lock(pipeline::lock::LockError::Io(path(), error()))
                    .into(),
                bundle::BundleError::Io(path(), error()).into(),
                why::TrailError::Io(path(), error()).into(),
                cluster::ClusterError::Io(path(), error()).into(),
                remote::RemoteError::Store(artifacts::StoreError::Io(path(), error())).into(),
            ] {
                let hint = stop.disk_fault.map(remedy).expect("a remedy");
                assert!(hint.contains(word), "{stop:?}: {hint}");
            }
        }
        let other = std::io::Error::from_raw_os_error(5);
        assert_eq!(Stop::refused(&other).disk_fault, None);
    }

    #[test]
    fn a_message_that_only_mentions_a_full_disk_has_no_remedy() {
        let error = std::io::Error::from_raw_os_error(28);
        assert_eq!(
            Stop::machine(format!("its log says: {error}")).disk_fault,
            None
        );
    }

    #[test]
    fn a_failure_keeps_its_reason_its_status_and_its_hint() {
        for (status, code) in [
            (CellStatus::Failed, 1),
            (CellStatus::Hung, 1),
            (CellStatus::Timeout, 1),
            (CellStatus::Skipped, 4),
            (CellStatus::Interrupted, 130),
        ] {
            let stop = Stop::from(Failure::new(status, "it ended").hint("look at its log"));
            assert_eq!(stop.code(), code, "{status:?}");
            assert_eq!(stop.hint.as_deref(), Some("look at its log"));
            assert!(matches!(&stop.words, Words::Message(text) if text == "it ended"));
        }
        assert_eq!(Stop::from(Failure::failed("it ended")).hint, None);
    }

    #[test]
    fn a_clock_beyond_all_dates_is_reported_and_any_other_is_not() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for now in [
            UNIX_EPOCH - Duration::from_secs(1 << 36),
            UNIX_EPOCH,
            at(1 << 32),
            at(253_402_207_000),
        ] {
            assert!(can_be_written(now).is_ok(), "{now:?}");
        }
        let refused = can_be_written(at(253_500_000_000)).expect_err("after the year 9999");
        assert_eq!(refused.code(), 4);
    }
}
