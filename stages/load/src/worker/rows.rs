//! Checks a worker's output line by line, and converts it to rows.

use artifacts::Digest;
use contract::{Chunk, Phase, Request, RequestStatus, TokenSource};
use serde::Deserialize;

use crate::claims;
use crate::interpret::ERROR_LENGTH;
use crate::prompts::Prompt;

/// A line of a worker.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    /// The model is loaded.
    Ready {},
    /// The worker is still working.
    Alive {},
    /// A request has ended.
    Request(Answer),
}

/// The result of a request. Times are those of the kernel's monotonic clock, ns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: usize,
    #[serde(default)]
    client: Option<u32>,
    #[serde(default)]
    scheduled_ns: Option<u64>,
    sent_ns: u64,
    done_ns: u64,
    /// When each output token was generated, in order; empty if the worker does not know.
    #[serde(default)]
    token_ns: Vec<u64>,
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    output_tokens: Option<u32>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    text: Option<String>,
    /// The error; left out if the request is ok.
    #[serde(default)]
    error: Option<String>,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Ready,
    Alive,
    Row,
}

/// Returns the counts of an answer that cannot be: more of the prompt than it has bytes, more output than was requested
/// and reported as text together, or none although there is text.
fn impossible(answer: &Answer, prompt: &Prompt) -> Option<String> {
    let sent = claims::Sent {
        bytes: prompt.text.len(),
        readings: 1,
        images: prompt.images,
    };
    let most = sent.most_tokens();
    if let Some(claimed) = answer.prompt_tokens.map(i64::from).filter(|n| *n > most) {
        let bytes = sent.bytes;
        return Some(format!(
            "{claimed} prompt tokens, but a prompt of {bytes} bytes can have at most {most}"
        ));
    }
    let claimed = i64::from(answer.output_tokens?);
    let (asked, bytes) = (
        prompt.output_tokens,
        answer.text.as_ref().map_or(0, String::len),
    );
    if claimed > claims::most_output(asked, bytes) {
        return Some(format!(
            "{claimed} output tokens, but {asked} were requested and its text has {bytes} bytes"
        ));
    }
    (claimed == 0 && bytes > 0 && answer.error.is_none())
        .then(|| format!("0 output tokens, but its text has {bytes} bytes"))
}

/// Shortens a message of a worker to what a row keeps.
fn shortened(message: &str) -> String {
    message.chars().take(ERROR_LENGTH).collect()
}

/// The rows of a cell while they arrive.
pub(super) struct Rows<'a> {
    prompts: &'a [Prompt],
    /// When the worker's input line was written, on the monotonic clock.
    began: u64,
    answers: Vec<Option<Answer>>,
    done: u64,
    /// When the worker said that it loaded the model, on the monotonic clock.
    ready: Option<u64>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(prompts: &'a [Prompt], began: u64) -> Self {
        Self {
            prompts,
            began,
            answers: prompts.iter().map(|_| None).collect(),
            done: 0,
            ready: None,
        }
    }

    /// Processes one line that was read at `at`.
    ///
    /// # Errors
    /// The part of it that is impossible.
    pub(super) fn take(&mut self, text: &str, at: u64) -> Result<Event, String> {
        let quoted: String = text.chars().take(120).collect();
        let line: Line = serde_json::from_str(text).map_err(|e| format!("`{quoted}`: {e}"))?;
        let answer = match line {
            Line::Ready {} => {
                self.ready.get_or_insert(at);
                return Ok(Event::Ready);
            }
            Line::Alive {} => return Ok(Event::Alive),
            Line::Request(answer) => answer,
        };
        let id = answer.id;
        let slot = self
            .answers
            .get_mut(id)
            .ok_or_else(|| format!("there is no request {id}"))?;
        if slot.is_some() {
            return Err(format!("request {id} has two rows"));
        }
        let order = std::iter::once(answer.sent_ns)
            .chain(answer.token_ns.iter().copied())
            .chain([answer.done_ns]);
        if !order.is_sorted() {
            return Err(format!("the times of request {id} are not in order"));
        }
        let first = answer
            .scheduled_ns
            .unwrap_or(answer.sent_ns)
            .min(answer.sent_ns);
        if first < self.began || answer.done_ns > at {
            return Err(format!(
                "request {id} has times from {first} to {} ns, but it was requested at {} and \
                 reported at {at} on the kernel's monotonic clock",
                answer.done_ns, self.began
            ));
        }
        let declared = answer.output_tokens.unwrap_or_default() as usize;
        if !answer.token_ns.is_empty() && answer.token_ns.len() != declared {
            let stamps = answer.token_ns.len();
            return Err(format!(
                "request {id} has {declared} output tokens, but {stamps} times of tokens"
            ));
        }
        if let Some(wrong) = impossible(&answer, &self.prompts[id]) {
            return Err(format!("request {id} has {wrong}"));
        }
        *slot = Some(answer);
        self.done += 1;
        Ok(Event::Row)
    }

    /// Returns when the worker said that it loaded the model, on the monotonic clock.
    pub(super) fn ready(&self) -> Option<u64> {
        self.ready
    }

    /// Returns the number of requests with a row, and the number of all requests.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.done, self.answers.len() as u64)
    }

    fn of(&self, phase: Phase) -> impl Iterator<Item = &Answer> {
        let all = self.prompts.iter().zip(&self.answers);
        all.filter(move |(prompt, _)| prompt.phase == phase)
            .filter_map(|(_, answer)| answer.as_ref())
    }

    /// Checks that the warm-up was over before anything was measured.
    ///
    /// # Errors
    /// If it was not.
    pub(super) fn check_order(&self) -> Result<(), String> {
        let warm = self.of(Phase::Warmup).map(|a| a.done_ns).max();
        let measured = self.of(Phase::Measured).map(|a| a.sent_ns).min();
        match (warm, measured) {
            (Some(warm), Some(measured)) if warm > measured => {
                Err("requests were measured before the warm-up was over".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn since(&self, at: u64) -> i64 {
        i64::try_from(at.saturating_sub(self.began)).unwrap_or(i64::MAX)
    }

    pub(super) fn any_streamed(&self) -> bool {
        self.answers
            .iter()
            .flatten()
            .any(|a| !a.token_ns.is_empty())
    }

    pub(super) fn measured_from(&self) -> Option<i64> {
        self.of(Phase::Measured)
            .map(|a| self.since(a.sent_ns))
            .min()
    }

    pub(super) fn window(&self) -> Option<(i64, i64)> {
        let to = self
            .of(Phase::Measured)
            .map(|a| self.since(a.done_ns))
            .max()?;
        Some((self.measured_from()?, to))
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        let all = self.prompts.iter().zip(&self.answers).enumerate();
        all.filter_map(|(id, (prompt, answer))| Some(self.row(id, prompt, answer.as_ref()?)))
            .collect()
    }

    pub(super) fn chunks(&self) -> Vec<Chunk> {
        let answers = self.answers.iter().enumerate();
        answers
            .filter_map(|(id, answer)| Some((id, answer.as_ref()?)))
            .flat_map(|(id, answer)| {
                answer.token_ns.iter().map(move |at| Chunk {
                    request_id: id as i64,
                    attempt: 1,
                    at_ns: self.since(*at),
                    bytes: None,
                    tokens: Some(1),
                    read: None,
                })
            })
            .collect()
    }

    fn row(&self, id: usize, prompt: &Prompt, answer: &Answer) -> Request {
        let at = |ns: Option<&u64>| ns.map(|ns| self.since(*ns));
        let ok = answer.error.is_none();
        let scheduled = answer.scheduled_ns.unwrap_or(answer.sent_ns);
        let others = self.answers.iter().flatten().filter(|other| {
            other.id != id && other.sent_ns <= answer.sent_ns && other.done_ns > answer.sent_ns
        });
        let text = answer.text.as_deref().filter(|text| !text.is_empty());
        Request {
            request_id: id as i64,
            attempt: 1,
            superseded: false,
            phase: prompt.phase,
            client_id: answer.client.map(i64::from),
            session_id: None,
            turn: None,
            prompt_index: Some(prompt.index as i64),
            prompt_digest: Some(prompt.digest().to_string()),
            scheduled_ns: Some(self.since(scheduled)),
            connect_ns: None,
            sent_ns: Some(self.since(answer.sent_ns)),
            headers_ns: None,
            first_token_ns: at(answer.token_ns.first()),
            first_silent_ns: None,
            first_reasoning_ns: None,
            first_answer_ns: at(answer.token_ns.first()),
            // Without the times of tokens, the complete answer counts as generated at the end.
            last_token_ns: at(answer
                .token_ns
                .last()
                .or_else(|| ok.then_some(&answer.done_ns))),
            done_ns: Some(self.since(answer.done_ns)),
            prompt_tokens: answer.prompt_tokens.map(i64::from),
            cached_prompt_tokens: None,
            output_tokens: answer.output_tokens.map(i64::from),
            reasoning_tokens: None,
            tokens_source: answer.output_tokens.map(|_| TokenSource::Usage),
            tokens_agree: None,
            requested_output_tokens: Some(i64::from(prompt.output_tokens)),
            chunks: (!answer.token_ns.is_empty()).then_some(answer.token_ns.len() as i64),
            first_chunk_tokens: answer.token_ns.first().map(|_| 1),
            silent_events: None,
            finish_reason: answer.finish_reason.as_deref().map(shortened),
            status: if ok {
                RequestStatus::Ok
            } else {
                RequestStatus::Failed
            },
            http_status: None,
            retry_after_s: None,
            error: answer.error.as_deref().map(shortened),
            schema_valid: None,
            send_lag_ns: Some(self.since(answer.sent_ns) - self.since(scheduled)),
            in_flight_at_send: Some(others.count() as i64),
            reads: None,
            received_bytes: None,
            output_characters: text.map(|text| text.chars().count() as i64),
            output_digest: text.map(|text| Digest::of(text.as_bytes()).to_string()),
            server_prompt_ms: None,
            server_predicted_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::OutputMode;

    fn prompts() -> Vec<Prompt> {
        let prompt = |phase, index| Prompt {
            phase,
            index,
            session: None,
            turn: None,
            think_ns: 0,
            text: "four words are here".to_owned(),
            tokens: None,
            output_tokens: 2,
            output_mode: OutputMode::Exact,
            prefix: None,
            part: None,
            model: None,
            images: None,
            batch: Vec::new(),
        };
        vec![
            prompt(Phase::Warmup, 0),
            prompt(Phase::Measured, 0),
            prompt(Phase::Measured, 1),
        ]
    }

    fn line(id: usize, sent: u64, done: u64, tokens: &[u64]) -> String {
        let n = tokens.len();
        serde_json::json!({"event": "request", "id": id, "sent_ns": sent, "done_ns": done, "token_ns": tokens, "output_tokens": n})
            .to_string()
    }

    #[test]
    fn lines_become_rows_on_the_clock_of_the_cell() {
        let prompts = prompts();
        let mut rows = Rows::new(&prompts, 1000);
        assert_eq!(rows.take(r#"{"event": "ready"}"#, 1001), Ok(Event::Ready));
        assert_eq!(
            rows.take(&line(0, 1010, 1020, &[1015, 1019]), 1021),
            Ok(Event::Row)
        );
        assert_eq!(
            rows.take(&line(1, 1030, 1050, &[1035, 1040]), 1051),
            Ok(Event::Row)
        );
        let failed = r#"{"event": "request", "id": 2, "sent_ns": 1040, "done_ns": 1060, "error": "no memory"}"#;
        assert_eq!(rows.take(failed, 1061), Ok(Event::Row));
        assert_eq!((rows.counts(), rows.check_order()), ((3, 3), Ok(())));
        assert_eq!(rows.window(), Some((30, 60)));
        let requests = rows.requests();
        let first = &requests[1];
        let times = [
            first.sent_ns,
            first.first_token_ns,
            first.last_token_ns,
            first.done_ns,
        ];
        assert_eq!(times, [Some(30), Some(35), Some(40), Some(50)]);
        assert_eq!(requests[2].status, RequestStatus::Failed);
        assert_eq!(requests[2].in_flight_at_send, Some(1));
        assert_eq!(rows.chunks().len(), 4);
    }

    #[test]
    fn what_a_worker_says_is_kept_up_to_a_length() {
        let prompts = prompts();
        let mut rows = Rows::new(&prompts, 1000);
        let long = "é".repeat(10_000);
        let text = serde_json::json!({"event": "request", "id": 0, "sent_ns": 1010, "done_ns": 1020,
            "error": long, "finish_reason": long});
        rows.take(&text.to_string(), 1021).unwrap();
        let row = &rows.requests()[0];
        for kept in [&row.error, &row.finish_reason] {
            assert_eq!(kept.as_ref().unwrap().chars().count(), ERROR_LENGTH);
        }
    }

    #[test]
    fn lines_that_cannot_be_are_refused() {
        let prompts = prompts();
        for (text, what) in [
            (
                "Loading weights: 100%".to_owned(),
                "`Loading weights: 100%`",
            ),
            (line(3, 1010, 1020, &[]), "there is no request 3"),
            (line(0, 1010, 1020, &[1015, 1012]), "not in order"),
            (line(0, 990, 1020, &[1015, 1016]), "monotonic clock"),
            (line(0, 1010, 1090, &[1015, 1016]), "monotonic clock"),
            (
                line(0, 1010, 1020, &[1015]).replace("\"output_tokens\":1", "\"output_tokens\":2"),
                "2 output tokens, but 1 times",
            ),
            (
                line(0, 1010, 1020, &[1015, 1016, 1017]),
                "3 output tokens, but 2 were requested and its text has 0 bytes",
            ),
            (
                line(0, 1010, 1020, &[])
                    .replace("tokens\":0", "tokens\":4000000000,\"text\":\"a b\""),
                "4000000000 output tokens, but 2 were requested and its text has 3 bytes",
            ),
            (
                line(0, 1010, 1020, &[]).replace("}", ",\"prompt_tokens\":70000}"),
                "70000 prompt tokens, but a prompt of 19 bytes can have at most 65555",
            ),
            (
                line(0, 1010, 1020, &[]).replace("}", ",\"text\":\"a\"}"),
                "0 output tokens, but its text has 1 bytes",
            ),
            (
                line(0, 1010, 1020, &[]).replace("\"id\"", "\"idd\""),
                "unknown field `idd`",
            ),
        ] {
            let declared = Rows::new(&prompts, 1000).take(&text, 1080).unwrap_err();
            assert!(declared.contains(what), "{text}: {declared}");
        }
        let mut rows = Rows::new(&prompts, 1000);
        rows.take(&line(0, 1010, 1020, &[]), 1021).unwrap();
        assert!(
            rows.take(&line(0, 1010, 1020, &[]), 1021)
                .unwrap_err()
                .contains("two rows")
        );
        rows.take(&line(1, 1015, 1020, &[]), 1021).unwrap();
        assert!(
            rows.check_order()
                .unwrap_err()
                .contains("before the warm-up was over")
        );
    }
}
