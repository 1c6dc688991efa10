//! Whether prompts fit into the server's context, told before anything is sent.

use pipeline::stage::{Failure, Job};

use super::set::Prompt;
use crate::workload::OutputMode;

/// The most context that a prompt of a set takes, in tokens, where something counted them. In sessions
/// what was said before comes on top, and so may a chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// With an answer as long as it must be: as demanded, or one token where only a cap is given.
    pub(crate) least: u64,
    /// With the longest answer asked for.
    pub(crate) most: u64,
}

impl Context {
    pub(super) fn with(self, prompt: &Prompt) -> Self {
        let Some(tokens) = prompt.tokens.map(u64::from) else { return self };
        let output = u64::from(prompt.output_tokens);
        let shortest = if prompt.output_mode == OutputMode::Exact { output } else { output.min(1) };
        Self { least: self.least.max(tokens + shortest), most: self.most.max(tokens + output) }
    }

    /// Holds them against the context that the server of a load cell says it gives a request.
    /// Returns the doubt whether every answer fits, if only a shorter one than asked for would.
    ///
    /// # Errors
    /// If a prompt cannot fit.
    pub(crate) fn doubt(self, job: &Job<'_>) -> Result<Option<String>, Failure> {
        let live = job.input_of_kind("serve").and_then(|serve| serve.cells.first()?.live.as_ref());
        let Some(limit) = live.and_then(|live| live["limits"]["context_per_slot"].as_u64()) else {
            return Ok(None);
        };
        if self.least > limit {
            let reason = format!(
                "a prompt and its answer take {} tokens, and the server's context holds {limit}; nothing was sent",
                self.least
            );
            let hint = "shorten prompts or answers, or give the server more context";
            return Err(Failure::failed(reason).hint(hint));
        }
        Ok((self.most > limit).then(|| {
            format!(
                "a prompt and the longest answer asked for take {} tokens, and the server's context holds {limit}: \
                 answers may be refused or cut",
                self.most
            )
        }))
    }
}
