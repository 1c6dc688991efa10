//! How the process ends: one error type for the command line, one place for exit codes.

use std::fmt;
use std::process::ExitCode;

use pipeline::Lack;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Stop {
    code: u8,
    message: Option<String>,
    hint: Option<String>,
}

impl Stop {
    /// What was asked for does not hold; what there is to say has been printed.
    pub(crate) fn told() -> Self {
        Self {
            code: 1,
            message: None,
            hint: None,
        }
    }

    /// What was asked for does not hold.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::with_code(1, message)
    }

    /// The command line or the experiment is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::with_code(2, message)
    }

    /// The experiment is wrong; what there is to say has been printed.
    pub(crate) fn usage_told() -> Self {
        Self {
            code: 2,
            message: None,
            hint: None,
        }
    }

    /// The store is damaged.
    pub(crate) fn damaged(message: impl fmt::Display) -> Self {
        Self::with_code(3, message)
    }

    /// The store is damaged; what there is to say has been printed.
    pub(crate) fn damaged_told() -> Self {
        Self {
            code: 3,
            message: None,
            hint: None,
        }
    }

    /// This machine lacks something.
    pub(crate) fn machine(message: impl fmt::Display) -> Self {
        Self::with_code(4, message)
    }

    /// This machine lacks something; what there is to say has been printed.
    pub(crate) fn machine_told() -> Self {
        Self {
            code: 4,
            message: None,
            hint: None,
        }
    }

    /// This machine lacks what cells need.
    pub(crate) fn lacking(lacks: &[Lack]) -> Self {
        let lines = |texts: Vec<&str>| texts.join("\n");
        let stop = Self::machine(lines(lacks.iter().map(|l| l.reason.as_str()).collect()));
        let hints: Vec<&str> = lacks.iter().filter_map(|l| l.hint.as_deref()).collect();
        if hints.is_empty() {
            stop
        } else {
            stop.hint(lines(hints))
        }
    }

    /// Nothing matches.
    pub(crate) fn nothing(message: impl fmt::Display) -> Self {
        Self::with_code(5, message)
    }

    /// Stopped by the user.
    pub(crate) fn interrupted() -> Self {
        Self {
            code: 130,
            message: None,
            hint: None,
        }
    }

    fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: Some(message.to_string()),
            hint: None,
        }
    }

    /// Adds the remedy.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Says why on standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(message) = &self.message {
            // Diagnostics already say `error:` at each of their places.
            let prefix = if message.starts_with("error") {
                ""
            } else {
                "error: "
            };
            crate::terminal::complain(&format!("{prefix}{message}"));
        }
        if let Some(hint) = &self.hint {
            crate::terminal::complain(&format!("hint: {hint}"));
        }
        ExitCode::from(self.code)
    }
}

impl From<artifacts::StoreError> for Stop {
    fn from(error: artifacts::StoreError) -> Self {
        match error {
            artifacts::StoreError::Damaged(..) => Self::damaged(error)
                .hint("`benchtrail fsck --repair` puts damaged objects aside; the next run makes them again"),
            other => Self::machine(other),
        }
    }
}

impl From<artifacts::TableError> for Stop {
    fn from(error: artifacts::TableError) -> Self {
        Self::failed(error)
    }
}
