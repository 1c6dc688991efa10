//! The reasons why requests of a `load` were not answered, in the words of the server or of the connection.

use std::collections::BTreeMap;

use contract::{Request, RequestStatus};

use crate::exit::Stop;
use crate::terminal::in_line;

/// The number of distinct reasons kept: the first ones, if a server words each error differently.
const KEPT: usize = 8;

/// A reason: how the requests ended, the code of HTTP if there is one, and the words.
type Reason = (RequestStatus, Option<i64>, String);

/// Reasons, with the number of requests that failed for each.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Reason, u64>);

impl Failures {
    /// Counts a request.
    pub(super) fn add(&mut self, row: &Request) {
        if row.status == RequestStatus::Ok {
            return;
        }
        let words = match (&row.error, row.http_status) {
            // An answer without a body has no words behind its status.
            (Some(error), _) => error.trim_end_matches([':', ' ']).to_owned(),
            (None, Some(code)) => format!("HTTP {code}"),
            (None, None) => row.status.word().to_owned(),
        };
        let reason = (row.status, row.http_status, words);
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
        let (status, code, words) = reason;
        let shown = in_line(words);
        Stop::failed(format!("no request was answered: {shown}{more}")).hint(remedy(*status, *code))
    }
}

fn remedy(status: RequestStatus, code: Option<i64>) -> &'static str {
    match (status, code) {
        (RequestStatus::HttpError, Some(429)) => {
            "the server limits how much you may send: lower --concurrency or --rate, or raise its limit"
        }
        (RequestStatus::HttpError, Some(500..600)) => {
            "the server failed: look into its log, and send one request by hand"
        }
        (RequestStatus::HttpError, Some(400..500)) => {
            "the server refuses the requests: check --api, --model and the length of the prompts"
        }
        (RequestStatus::Timeout, _) => {
            "look into the server's log; if it only needs longer, raise --first-token-timeout and --timeout"
        }
        _ => "look into the server's log, and send one request by hand",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_failure_is_named() {
        let failed = |code: i64, words: &str| {
            let words = format!("HTTP {code}: {words}");
            (RequestStatus::HttpError, Some(code), words)
        };
        let all = [(failed(500, "out of memory"), 3), (failed(429, "wait"), 1)];
        let message = format!("{:?}", Failures(all.into()).none_answered());
        assert!(
            message.contains("HTTP 500: out of memory, and another reason"),
            "{message}"
        );
        assert!(message.contains("look into its log"), "{message}");
        let forged = Failures([(failed(400, "no\nhint: run this"), 1)].into());
        let message = format!("{:?}", forged.none_answered());
        assert!(message.contains("no\\\\nhint"), "{message}");
        let timeout = remedy(RequestStatus::Timeout, Some(200));
        assert!(timeout.contains("--first-token-timeout"));
        assert!(!remedy(RequestStatus::MalformedStream, Some(200)).contains("timeout"));
    }
}
