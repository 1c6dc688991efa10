//! The conversations of the sessions in progress.

use std::collections::BTreeMap;

use contract::RequestStatus;

use crate::prompts::Prompt;
use apis::Exchange;

/// The turns so far of each session in progress.
#[derive(Debug, Default)]
pub(crate) struct SessionHistory(BTreeMap<u64, Vec<Exchange>>);

impl SessionHistory {
    /// Adds a turn and its answer; returns all turns so far. Returns `None` if this turn was not answered, because the
    /// session cannot go on then. An answer that violates its schema counts as an answer.
    pub(crate) fn after(
        &mut self,
        prompt: &Prompt,
        status: RequestStatus,
        answer: String,
    ) -> Option<&[Exchange]> {
        let session = prompt.session?;
        if !matches!(status, RequestStatus::Ok | RequestStatus::InvalidOutput) {
            self.0.remove(&session);
            return None;
        }
        let turns = self.0.entry(session).or_default();
        turns.push(Exchange {
            said: prompt.text.clone(),
            answered: answer,
        });
        Some(turns)
    }

    /// Removes a session that is over.
    pub(crate) fn end(&mut self, prompt: &Prompt) {
        if let Some(session) = prompt.session {
            self.0.remove(&session);
        }
    }
}
