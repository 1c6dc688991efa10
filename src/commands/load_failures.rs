//! The reasons why requests of a `load` were not answered, in the words of the server or of the connection.

use std::collections::BTreeMap;

use contract::{Request, RequestStatus};

use crate::exit::Stop;
use crate::terminal::in_line;

/// The number of distinct reasons kept: the first ones, if a server words each error differently.
const KEPT: usize = 8;

/// Reasons, with the number of requests that failed for each.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<String, u64>);

impl Failures {
    /// Counts a request.
    pub(super) fn add(&mut self, row: &Request) {
        if row.status == RequestStatus::Ok {
            return;
        }
        let reason = match (&row.error, row.http_status) {
            // An answer without a body has no words behind its status.
            (Some(error), _) => error.trim_end_matches([':', ' ']).to_owned(),
            (None, Some(code)) => format!("HTTP {code}"),
            (None, None) => row.status.word().to_owned(),
        };
        if self.0.len() < KEPT || self.0.contains_key(&reason) {
            *self.0.entry(reason).or_default() += 1;
        }
    }

    /// Returns the error that no request was answered, with the reason.
    pub(super) fn none_answered(&self) -> Stop {
        let Some((reason, _)) = self.0.iter().max_by_key(|(_, n)| **n) else {
            return Stop::failed("no request was answered")
                .hint("raise --requests or --duration, so that a request can finish");
        };
        let more = match self.0.len() - 1 {
            0 => String::new(),
            1 => ", and another reason".to_owned(),
            n => format!(", and {n} other reasons"),
        };
        // The words of a server cannot begin a line, which would look like a message of this program.
        let shown = in_line(reason);
        Stop::failed(format!("no request was answered: {shown}{more}")).hint(remedy(reason))
    }
}

fn remedy(reason: &str) -> &'static str {
    let begins = |start: &str| reason.starts_with(start);
    if begins("HTTP 429") {
        return "the server limits how much you may send: lower --concurrency or --rate, or raise its limit";
    }
    if begins("HTTP 5") {
        return "the server failed: look into its log, and send one request by hand";
    }
    if begins("HTTP 4") {
        return "the server refuses the requests: check --api, --model and the length of the prompts";
    }
    if reason.contains("timeout") {
        return "look into the server's log; if it only needs longer, raise --first-token-timeout and --timeout";
    }
    "look into the server's log, and send one request by hand"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_failure_is_named() {
        let mut failures = Failures::default();
        *failures
            .0
            .entry("HTTP 500: out of memory".to_owned())
            .or_default() += 3;
        *failures.0.entry("HTTP 429: wait".to_owned()).or_default() += 1;
        let message = format!("{:?}", failures.none_answered());
        assert!(
            message.contains("HTTP 500: out of memory, and another reason"),
            "{message}"
        );
        assert!(message.contains("look into its log"), "{message}");
        let mut forged = Failures::default();
        *forged
            .0
            .entry("HTTP 400: no\nhint: run this".to_owned())
            .or_default() += 1;
        let message = format!("{:?}", forged.none_answered());
        assert!(message.contains("no\\\\nhint"), "{message}");
        assert!(remedy("first-token timeout").contains("--first-token-timeout"));
        let died = "the server reports an error in the answer: engine died";
        assert!(!remedy(died).contains("timeout"));
    }
}
