//! Why prompts cannot be made.

use std::io;

use artifacts::DiskFault;

/// Why prompts cannot be made. The text says whose mistake it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptError {
    /// The reason.
    pub message: String,
    /// Whether the disk or the memory of this machine refused, and nothing is wrong with the settings or a file.
    pub by_machine: bool,
    /// What the disk refused, if that is the reason.
    pub disk_fault: Option<DiskFault>,
}

impl PromptError {
    /// The settings or a file are wrong.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            by_machine: false,
            disk_fault: None,
        }
    }

    /// This machine refuses.
    pub(crate) fn machine(message: impl Into<String>) -> Self {
        Self {
            by_machine: true,
            ..Self::wrong(message)
        }
    }

    /// This machine refuses because of this error.
    pub(crate) fn caused(message: impl Into<String>, error: &io::Error) -> Self {
        Self {
            disk_fault: DiskFault::behind(error),
            ..Self::machine(message)
        }
    }
}

impl std::fmt::Display for PromptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PromptError {}
