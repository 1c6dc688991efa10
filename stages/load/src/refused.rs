//! Detects a server that refuses every request of a run, so that sending the others would show nothing new.

use std::fmt;

use contract::{Request, RequestStatus};
use serde::{Deserialize, Serialize};

/// HTTP statuses that no other prompt would change: the sender, the address or the method is wrong.
const FINAL: [i64; 11] = [301, 302, 303, 307, 308, 401, 403, 404, 405, 410, 501];

/// HTTP statuses that may concern a single prompt, such as one that is too long.
const ABOUT_THE_REQUEST: [i64; 4] = [400, 413, 415, 422];

/// After this many such refusals in a row, no request is expected to be answered.
const IN_A_ROW: usize = 16;

/// An answer that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The HTTP status, if the answer got that far.
    pub http_status: Option<i64>,
    /// The server's words, as in the row of the request.
    pub words: String,
}

impl Refusal {
    /// Reads the refusal from the row of a request.
    pub fn of(row: &Request) -> Self {
        Self {
            http_status: row.http_status,
            words: row.error.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An answer without a body has no words behind its status.
        f.write_str(self.words.trim_end_matches([':', ' ']))
    }
}

/// Whether an answer has the requested form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    AsAsked,
    /// It has another media type, such as that of a web page.
    Foreign,
}

/// The requests of a run until one is answered.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    answered: bool,
    refused: usize,
}

impl Refusals {
    /// Returns whether nothing was answered yet. Until then, each answer is examined when it arrives.
    pub(crate) fn is_open(&self) -> bool {
        !self.answered
    }

    /// Looks at no further answer.
    pub(crate) fn close(&mut self) {
        self.answered = true;
    }

    /// Records an ended request; returns the refusal if the server will refuse all requests.
    pub(crate) fn after(&mut self, row: &Request, form: Form) -> Option<Refusal> {
        if self.answered {
            return None;
        }
        let code = row
            .http_status
            .filter(|_| row.status == RequestStatus::HttpError);
        let foreign = row.status == RequestStatus::MalformedStream && form == Form::Foreign;
        let of_all = foreign || code.is_some_and(|code| FINAL.contains(&code));
        if of_all || code.is_some_and(|code| ABOUT_THE_REQUEST.contains(&code)) {
            self.refused += 1;
            return (of_all || self.refused == IN_A_ROW).then(|| Refusal::of(row));
        }
        self.answered |= row.status == RequestStatus::Ok;
        self.refused = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(status: RequestStatus, code: i64, error: &str) -> Request {
        Request {
            status,
            http_status: Some(code),
            error: Some(error.to_owned()),
            ..contract::synthetic::request(0)
        }
    }

    #[test]
    fn one_answer_that_no_prompt_changes_is_enough() {
        for code in FINAL {
            let mut refusals = Refusals::default();
            let answers = refusals.after(&row(RequestStatus::HttpError, code, "no"), Form::AsAsked);
            let refusal = answers.unwrap();
            assert_eq!((refusal.http_status, &*refusal.words), (Some(code), "no"));
        }
        // A redirect without a body.
        let moved = row(RequestStatus::HttpError, 301, "HTTP 301: ");
        let answers = Refusals::default().after(&moved, Form::AsAsked);
        assert_eq!(answers.unwrap().to_string(), "HTTP 301");
        let whole = row(
            RequestStatus::MalformedStream,
            200,
            "the answer is text/html, not JSON",
        );
        assert!(Refusals::default().after(&whole, Form::Foreign).is_some());
        // The words do not matter.
        assert!(Refusals::default().after(&whole, Form::AsAsked).is_none());
    }

    #[test]
    fn an_answer_that_may_be_about_one_prompt_must_come_again_and_again() {
        let mut refusals = Refusals::default();
        let too_long = row(RequestStatus::HttpError, 400, "too long");
        let answers: Vec<bool> = (0..IN_A_ROW)
            .map(|_| refusals.after(&too_long, Form::AsAsked).is_some())
            .collect();
        assert_eq!(
            answers.iter().position(|answers| *answers),
            Some(IN_A_ROW - 1)
        );
    }

    #[test]
    fn after_an_answer_nothing_is_hopeless_and_an_overload_never_is() {
        let mut refusals = Refusals::default();
        let busy = row(RequestStatus::HttpError, 503, "busy");
        assert!(
            (0..100).all(|_| refusals.after(&busy, Form::AsAsked).is_none()) && refusals.is_open()
        );
        let ok = row(RequestStatus::Ok, 200, "");
        assert!(refusals.after(&ok, Form::AsAsked).is_none());
        assert!(!refusals.is_open());
        let gone = row(RequestStatus::HttpError, 404, "no");
        assert!(refusals.after(&gone, Form::AsAsked).is_none());
    }
}
