//! Whether prompts fit into the server's context, told before anything is sent.

use pipeline::stage::{Failure, Job};

use super::set::Prompt;
use crate::workload::OutputMode;

/// The context that prompts of a set take with their answers, in tokens, where something counted them. In
/// sessions what was said before comes on top, and so may a chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Of the prompt that takes least, its answer as short as it may be: as demanded, or one token where only
    /// a cap is given.
    least: Option<u64>,
    /// Of the prompt that takes most, likewise.
    longest: u64,
    /// Of the prompt that takes most, its answer as long as was asked for.
    most: u64,
}

impl Context {
    pub(super) fn with(self, prompt: &Prompt) -> Self {
        let Some(tokens) = prompt.tokens.map(u64::from) else {
            return self;
        };
        let output = u64::from(prompt.output_tokens);
        let shortest = if prompt.output_mode == OutputMode::Exact {
            output
        } else {
            output.min(1)
        };
        Self {
            least: Some(self.least.unwrap_or(u64::MAX).min(tokens + shortest)),
            longest: self.longest.max(tokens + shortest),
            most: self.most.max(tokens + output),
        }
    }

    /// Holds them against the context that the server of a load cell says it gives a request.
    /// Returns the doubt whether every request can be answered in full, if some cannot.
    ///
    /// # Errors
    /// If no prompt fits: nothing would be measured but refusals.
    pub(crate) fn doubt(self, job: &Job<'_>) -> Result<Option<String>, Failure> {
        let live = job
            .input_of_kind("serve")
            .and_then(|serve| serve.cells.first()?.live.as_ref());
        let Some(limit) = live.and_then(|live| live["limits"]["context_per_slot"].as_u64()) else {
            return Ok(None);
        };
        if let Some(least) = self.least.filter(|least| *least > limit) {
            let reason = format!(
                "every prompt needs at least {least} tokens with its answer, but the server's \
                 context holds {limit}; nothing was sent"
            );
            let hint = "shorten the prompts or answers, or give the server a larger context";
            return Err(Failure::failed(reason).hint(hint));
        }
        let held = format!("but the server's context holds {limit}");
        Ok(if self.longest > limit {
            Some(format!(
                "the longest prompt needs {} tokens with its answer, {held}; the server will \
                 refuse it",
                self.longest
            ))
        } else if self.most > limit {
            Some(format!(
                "a prompt with the longest requested answer needs {} tokens, {held}; answers may \
                 be refused or cut off",
                self.most
            ))
        } else {
            None
        })
    }
}
