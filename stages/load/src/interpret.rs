//! Converts the raw bytes of an attempt to rows, outside the measuring path.

mod answer;
mod silent;
#[cfg(test)]
mod tests_of_ends;
#[cfg(test)]
mod tests_of_servers;

use std::collections::BTreeMap;

use artifacts::Digest;
use contract::{Chunk, Request, RequestStatus, TokenSource};

use self::answer::{Answer, TextChunk, read_answer};
use crate::claims::{self, Sent};
use crate::measure::{Attempt, End, Stop};
use crate::prompts::{Counter, FileCounter, Prompt};
use crate::refused::Form;
use crate::structured::Validator;
use apis::{Delivery, Server};
use contract::Api;
use pipeline::stage::Json;

/// The longest error text or finish reason kept, in characters.
pub(crate) const ERROR_LENGTH: usize = 300;

/// The interpretation of an attempt's bytes.
pub(crate) struct Interpreted {
    /// The row of the request.
    pub(crate) row: Request,
    /// A row for each chunk of a streamed answer.
    pub(crate) chunks: Vec<Chunk>,
    /// The text of the answer without any reasoning.
    pub(crate) text: String,
    /// Whether the answer has the requested form.
    pub(crate) form: Form,
    /// The model that answered, by its own account.
    pub(crate) model: Option<String>,
}

/// Returns the rows of an attempt, and the text of its answer without any reasoning. A complete answer is checked
/// against `schema`, if given. `extra` has the fields that replaced ours in the body. If the server reports no token count,
/// `counter` counts the tokens, without special tokens.
pub(crate) fn interpret(
    attempt: &Attempt,
    prompt: &Prompt,
    (api, delivery): (Api, Delivery),
    extra: &BTreeMap<String, Json>,
    schema: Option<&Validator>,
    counter: Option<&FileCounter>,
) -> Interpreted {
    let mut answer = read_answer(attempt, api, delivery);
    let sent = Sent {
        bytes: attempt.sent_bytes,
        readings: readings(api, prompt, extra),
        images: prompt.images,
    };
    let took = attempt
        .sent_ns
        .map(|sent| attempt.done_ns.saturating_sub(sent));
    check_claims(&mut answer, prompt.output_tokens, sent, took);
    check_results(&mut answer, api, prompt, extra);
    let outcome = outcome(attempt, &answer, schema);
    settle_tokens(&mut answer);
    let row = row_of(attempt, prompt, &answer, outcome, delivery, counter);
    let chunks = match delivery {
        Delivery::Streamed => chunk_rows(&row, answer.chunks),
        Delivery::Whole => Vec::new(),
    };
    Interpreted {
        row,
        chunks,
        text: answer.text,
        form: answer.form,
        model: answer.model,
    }
}

/// How an attempt ended.
struct Outcome {
    status: RequestStatus,
    error: Option<String>,
    /// Whether the answer satisfies the requested schema; `None` if it was not checked.
    schema_valid: Option<bool>,
}

/// Judges an attempt, and checks a complete answer against the schema.
fn outcome(attempt: &Attempt, answer: &Answer, schema: Option<&Validator>) -> Outcome {
    let (status, error) = judge(attempt, answer);
    let checked = schema
        .filter(|_| status == RequestStatus::Ok)
        .map(|schema| schema.check(&answer.text));
    match checked {
        Some(Err(wrong)) => Outcome {
            status: RequestStatus::InvalidOutput,
            error: Some(wrong),
            schema_valid: Some(false),
        },
        checked => Outcome {
            status,
            error,
            schema_valid: checked.map(|_| true),
        },
    }
}

/// Returns the row of an attempt.
fn row_of(
    attempt: &Attempt,
    prompt: &Prompt,
    answer: &Answer,
    outcome: Outcome,
    delivery: Delivery,
    counter: Option<&FileCounter>,
) -> Request {
    let streamed = delivery == Delivery::Streamed;
    let generated = answer.reasoning.clone() + &answer.text + &answer.other;
    let counted = count_output(answer, &generated, delivery, counter);
    let tokens_agree = answer
        .usage_output
        .zip(answer.server.output_tokens)
        .map(|(a, b)| a == b);
    let last_chunk_ns = answer.chunks.last().map(|chunk| chunk.0);
    // The last tokens may have no text. A result without text arrived as a whole.
    let last_token_ns = last_chunk_ns.max(last_chunk_ns.and(answer.silent.last_ns));
    let last_token_ns = last_token_ns.or(answer.result_ns);
    Request {
        request_id: attempt.request as i64,
        attempt: i64::from(attempt.attempt),
        superseded: attempt.superseded,
        phase: prompt.phase,
        client_id: attempt.client.map(i64::from),
        session_id: prompt.session.map(ns),
        turn: prompt.turn.map(i64::from),
        prompt_index: Some(prompt.index as i64),
        prompt_digest: Some(prompt.digest().to_string()),
        scheduled_ns: Some(ns(attempt.scheduled_ns)),
        connect_ns: attempt.connect_ns.map(ns),
        sent_ns: attempt.sent_ns.map(ns),
        headers_ns: attempt.headers_ns.map(ns),
        first_token_ns: if streamed {
            answer.chunks.first().map(|c| ns(c.0))
        } else {
            None
        },
        first_silent_ns: (answer.silent.first_ns)
            .filter(|_| streamed && !answer.chunks.is_empty())
            .map(ns),
        first_reasoning_ns: answer.first_reasoning_ns.filter(|_| streamed).map(ns),
        first_answer_ns: answer.first_answer_ns.filter(|_| streamed).map(ns),
        last_token_ns: last_token_ns.map(ns),
        done_ns: Some(ns(attempt.done_ns)),
        prompt_tokens: answer.usage_prompt.or(answer.server.prompt_tokens),
        cached_prompt_tokens: answer.usage_cached.or(answer.server.cached_prompt_tokens),
        output_tokens: counted.map(|(count, _)| count),
        reasoning_tokens: answer.usage_reasoning,
        tokens_source: counted.map(|(_, source)| source),
        tokens_agree,
        requested_output_tokens: Some(i64::from(prompt.output_tokens)),
        chunks: (streamed && answer.http_status.is_some()).then_some(answer.chunks.len() as i64),
        first_chunk_tokens: if streamed {
            answer.chunks.first().and_then(|c| c.3)
        } else {
            None
        },
        silent_events: (streamed && answer.http_status.is_some())
            .then_some(answer.silent.open as i64),
        finish_reason: (answer.finish_reason.as_ref())
            .map(|reason| reason.chars().take(ERROR_LENGTH).collect()),
        status: outcome.status,
        http_status: answer.http_status.map(i64::from),
        retry_after_s: answer.retry_after.map(ns),
        error: outcome
            .error
            .map(|e| e.chars().take(ERROR_LENGTH).collect()),
        schema_valid: outcome.schema_valid,
        send_lag_ns: attempt.sent_ns.map(|sent| ns(sent) - ns(attempt.free_ns)),
        in_flight_at_send: attempt.sent_ns.map(|_| i64::from(attempt.in_flight)),
        reads: Some(attempt.reads.len() as i64),
        received_bytes: Some(attempt.bytes.len() as i64),
        output_characters: (!generated.is_empty()).then(|| generated.chars().count() as i64),
        output_digest: (!generated.is_empty())
            .then(|| Digest::of(generated.as_bytes()).to_string()),
        server_prompt_ms: answer.server.prompt_ms,
        server_predicted_ms: answer.server.predicted_ms,
    }
}

/// Returns the rows of an attempt's chunks.
fn chunk_rows(row: &Request, chunks: Vec<TextChunk>) -> Vec<Chunk> {
    let chunk = |(at_ns, read, bytes, tokens): TextChunk| Chunk {
        request_id: row.request_id,
        attempt: row.attempt,
        at_ns: ns(at_ns),
        bytes: Some(bytes as i64),
        tokens,
        read: Some(read as i64),
    };
    chunks.into_iter().map(chunk).collect()
}

/// Returns the number of output tokens, and who counted them: the server, if it says; otherwise the tokenizer; otherwise
/// each chunk counts as one.
fn count_output(
    answer: &Answer,
    generated: &str,
    delivery: Delivery,
    counter: Option<&FileCounter>,
) -> Option<(i64, TokenSource)> {
    let reported = answer.usage_output.or(answer.server.output_tokens);
    let tokenized = match counter {
        // A text that the tokenizer refuses has no count, and certainly not that of its chunks.
        Some(counter) if reported.is_none() && !generated.is_empty() => {
            Some(counter.count(generated).ok()?)
        }
        _ => None,
    };
    let chunks = answer.chunks.len() as i64;
    let chunks = (delivery == Delivery::Streamed && chunks > 0).then_some(chunks);
    let candidates = [
        (answer.usage_output, TokenSource::Usage),
        (answer.server.output_tokens, TokenSource::Timings),
        (tokenized.map(i64::from), TokenSource::Tokenizer),
        (chunks, TokenSource::Chunks),
    ];
    candidates
        .into_iter()
        .find_map(|(count, source)| Some((count?, source)))
}

/// Returns how often a server may read the text of a request.
fn readings(api: Api, prompt: &Prompt, extra: &BTreeMap<String, Json>) -> usize {
    match api {
        // A list that is none may have any number of documents.
        Api::Rerank => apis::documents_of(&prompt.text, extra).unwrap_or(usize::MAX),
        Api::OpenaiEmbeddings => prompt.batch.len(),
        _ => 1,
    }
}

/// Removes impossible counts and times. An answer with such claims does not count as answered. `took` is how long the
/// request took, in nanoseconds.
fn check_claims(answer: &mut Answer, asked: u32, sent: Sent, took: Option<u64>) {
    let output = [answer.usage_output, answer.server.output_tokens];
    let prompts = [answer.usage_prompt, answer.server.prompt_tokens];
    let cached = [answer.usage_cached, answer.server.cached_prompt_tokens];
    let bytes = answer.text.len() + answer.reasoning.len() + answer.other.len();
    let parts = cached.into_iter().zip(prompts);
    if let Some(wrong) = claims::impossible_output(output, asked, bytes)
        .or_else(|| claims::impossible_prompt(prompts, sent))
        .or_else(|| claims::impossible_cache(parts))
        .or_else(|| claims::impossible_times(&answer.server, took))
        .or_else(|| {
            // An answer that was cut off may have reported its output only so far.
            let output = answer.usage_output.filter(|_| answer.complete);
            claims::impossible_part(output, answer.usage_reasoning, asked, bytes)
        })
    {
        answer.broken.get_or_insert(wrong);
        (answer.usage_output, answer.usage_reasoning) = (None, None);
        (answer.usage_prompt, answer.usage_cached) = (None, None);
        answer.server = Server::default();
    }
}

/// Checks that an answer has a vector for each text, or a score for each document.
fn check_results(answer: &mut Answer, api: Api, prompt: &Prompt, extra: &BTreeMap<String, Json>) {
    let texts = prompt.batch.len().max(1);
    let owed = apis::results_of(api, &prompt.text, texts, extra);
    let Some((owed, got)) = owed.zip(answer.results) else {
        return;
    };
    if owed != got {
        let what = if api == Api::Rerank {
            "scores"
        } else {
            "vectors"
        };
        let wrong = format!("the answer has {got} {what}, and the request asked for {owed}");
        answer.broken.get_or_insert(wrong);
    }
    let documents = (api == Api::Rerank).then(|| apis::documents_of(&prompt.text, extra));
    let Some((documents, index)) = documents.flatten().zip(answer.largest_index) else {
        return;
    };
    if usize::try_from(index).map_or(true, |index| index >= documents) {
        let wrong = format!(
            "the answer has a score for `index: {index}`, and the request has {documents} documents"
        );
        answer.broken.get_or_insert(wrong);
    }
}

fn ns(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Keeps tokens per chunk only if every chunk has at least one, since it has text, and together they have no more than
/// the server counts. Otherwise, if the number of chunks equals the server's token count, each chunk is one token. With events
/// without text, the same holds for the number of all events.
fn settle_tokens(answer: &mut Answer) {
    let total = answer.usage_output.or(answer.server.output_tokens);
    let counts = answer.chunks.iter();
    let counts = counts.map(|chunk| chunk.3.filter(|tokens| *tokens >= 1));
    let sum: Option<i64> = counts.sum();
    let agree = sum.is_some_and(|sum| total.is_none_or(|total| sum <= total));
    if agree {
        answer.silent.explain();
        return;
    }
    if answer.usage_reasoning > Some(0) && answer.first_reasoning_ns.is_none() {
        answer.silent.explain_head();
    }
    let one_each = answer.silent.settle(answer.chunks.len(), total);
    for (i, chunk) in answer.chunks.iter_mut().enumerate() {
        // Tokens of events without text belong to the next chunk.
        chunk.3 = one_each.then(|| 1 + answer.silent.before(i));
    }
}

/// Returns the status of an attempt, and the reason.
fn judge(attempt: &Attempt, answer: &Answer) -> (RequestStatus, Option<String>) {
    use RequestStatus as S;
    let with = |status, text: String| (status, Some(text));
    match &attempt.end {
        End::Refused(error) => return with(S::Refused, error.clone()),
        End::Stopped(Stop::Hung) => {
            return with(S::Hung, "no byte on any stream for the heartbeat".into());
        }
        End::Stopped(Stop::Cancelled) => return with(S::Cancelled, "stopped".into()),
        End::Stopped(Stop::Gone) => {
            return with(S::Cancelled, "stopped: the server is gone".into());
        }
        End::NotSent => {
            return with(
                S::Cancelled,
                "not sent: an earlier turn was not answered".into(),
            );
        }
        End::Timeout("connect") => return with(S::Timeout, "connect timeout".into()),
        _ => {}
    }
    if let Some(status) = answer.http_status.filter(|s| !(200..300).contains(s)) {
        return with(
            S::HttpError,
            format!(
                "HTTP {status}: {}",
                answer.error.as_deref().unwrap_or_default()
            ),
        );
    }
    if let Some(error) = &answer.error {
        return with(
            S::MalformedStream,
            format!("the server reports an error in the answer: {error}"),
        );
    }
    if let Some(error) = &answer.broken {
        return with(S::MalformedStream, error.clone());
    }
    match &attempt.end {
        // Everything requested has arrived, so the way the connection ended does not matter.
        _ if answer.complete => (S::Ok, None),
        End::Complete => with(
            S::TruncatedStream,
            "the stream ended without an end marker or finish reason".into(),
        ),
        End::Closed if attempt.reads.is_empty() => with(
            S::ConnectionReset,
            "the connection closed before any byte of the answer".into(),
        ),
        End::Closed => with(
            S::TruncatedStream,
            "the connection closed before the answer was complete".into(),
        ),
        End::Reset(error) => with(S::ConnectionReset, error.clone()),
        End::NoConnection(error) => with(
            S::ConnectionReset,
            format!("this client could not open a connection: {error}"),
        ),
        End::Timeout(which) => with(S::Timeout, format!("{which} timeout")),
        End::GivenUp(after) => with(
            S::Cancelled,
            format!("given up by its sender after {after:?}"),
        ),
        End::Broken(error) => with(S::MalformedStream, error.clone()),
        End::Refused(_) | End::Stopped(_) | End::NotSent => unreachable!("handled above"),
    }
}

#[cfg(test)]
mod tests {
    use contract::{OutputMode, Phase};
    use serde_json::json;

    use super::answer::MOST_EVENTS;
    use super::*;
    use crate::measure::Read;

    pub(super) fn prompt() -> Prompt {
        Prompt {
            phase: Phase::Measured,
            index: 0,
            session: None,
            turn: None,
            think_ns: 0,
            text: "a".to_owned(),
            tokens: None,
            output_tokens: 1000,
            output_mode: OutputMode::Cap,
            prefix: None,
            part: None,
            model: None,
            images: None,
            batch: Vec::new(),
        }
    }

    /// Interprets a streamed answer.
    fn streamed(body: &str, counter: Option<&FileCounter>) -> Interpreted {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let attempt = attempt(format!("{head}{body}"), End::Closed);
        let how = (Api::OpenaiCompletions, Delivery::Streamed);
        interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, counter)
    }

    fn of_bytes(text: String, how: (Api, Delivery)) -> Interpreted {
        let attempt = attempt(text, End::Complete);
        interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, None)
    }

    fn attempt(text: String, end: End) -> Attempt {
        Attempt {
            reads: vec![Read {
                at_ns: 7,
                end: text.len(),
            }],
            bytes: text.into_bytes(),
            end,
            ..Attempt::due(0, 1, None, 0)
        }
    }

    /// Interprets a whole answer.
    fn whole(api: Api, body: &str) -> Request {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
        of_bytes(text, (api, Delivery::Whole)).row
    }

    #[test]
    fn json_that_is_no_answer_of_an_api_is_malformed() {
        for api in <Api as contract::Word>::ALL {
            for body in [
                "{}",
                "[1, 2]",
                "[{}]",
                r#"{"status": "ok"}"#,
                r#"{"text": 7}"#,
            ] {
                let row = whole(*api, body);
                assert_eq!(row.status, RequestStatus::MalformedStream, "{api:?} {body}");
            }
        }
        let empty = r#"{"choices": [{"text": "", "finish_reason": "stop"}]}"#;
        let row = whole(Api::OpenaiCompletions, empty);
        assert_eq!(
            (row.status, row.output_characters),
            (RequestStatus::Ok, None)
        );
    }

    fn event(text: &str) -> String {
        format!("data: {}\n\n", json!({"choices": [{"text": text}]}))
    }

    #[test]
    fn tokens_of_several_choices_are_not_mixed_into_one_answer() {
        let chunk = |index: u32, text: &str, end: Option<&str>| {
            let choice = json!({"index": index, "text": text, "finish_reason": end});
            format!("data: {}\n\n", json!({"choices": [choice]}))
        };
        let done = "data: [DONE]\n\n";
        let one = chunk(0, "a", None) + &chunk(0, "b", Some("stop")) + done;
        assert_eq!(streamed(&one, None).row.status, RequestStatus::Ok);
        let mixed =
            chunk(0, "a", None) + &chunk(1, "x", None) + &chunk(0, "b", Some("stop")) + done;
        let Interpreted { row, text, .. } = streamed(&mixed, None);
        assert_eq!(row.status, RequestStatus::MalformedStream);
        assert_eq!((text.as_str(), row.chunks), ("ab", Some(2)));
        let reason = row.error.unwrap();
        assert!(reason.contains("`index: 1`"), "{reason}");
    }

    #[test]
    fn a_score_belongs_to_a_document_that_was_sent() {
        let ranked = |indices: &[u64]| {
            let score = |index: &u64| json!({"index": index, "relevance_score": 0.5});
            let body = json!({"results": indices.iter().map(score).collect::<Vec<_>>()});
            let text = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
            let query = Prompt {
                text: "query\none\ntwo\nthree".to_owned(),
                ..prompt()
            };
            let extra = BTreeMap::from([("top_n".to_owned(), json!(2))]);
            let how = (Api::Rerank, Delivery::Whole);
            interpret(
                &attempt(text, End::Complete),
                &query,
                how,
                &extra,
                None,
                None,
            )
            .row
        };
        for indices in [[0, 1], [2, 0]] {
            assert_eq!(ranked(&indices).status, RequestStatus::Ok, "{indices:?}");
        }
        for indices in [[0, 3], [7, 1], [1, 1], [u64::MAX, 0]] {
            let row = ranked(&indices);
            assert_eq!(row.status, RequestStatus::MalformedStream, "{indices:?}");
            assert!(row.error.unwrap().contains("`index"), "{indices:?}");
        }
    }

    #[test]
    fn claims_of_a_server_are_held_to_the_request() {
        let claimed = |prompt_tokens: i64, prompt_ms: f64| {
            let body = json!({
                "choices": [{"text": "a", "finish_reason": "stop"}],
                "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 1},
                "timings": {"prompt_ms": prompt_ms, "predicted_ms": 1.0, "predicted_n": 1},
            });
            let text = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
            let attempt = Attempt {
                sent_ns: Some(1_000_000_000),
                sent_bytes: 400,
                done_ns: 3_000_000_000,
                ..attempt(text, End::Complete)
            };
            let how = (Api::OpenaiCompletions, Delivery::Whole);
            interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, None).row
        };
        let row = claimed(60_000, 1_999.0);
        assert_eq!(
            (row.status, row.prompt_tokens),
            (RequestStatus::Ok, Some(60_000))
        );
        for (tokens, ms, reason) in [
            (70_000, 5.0, "70000 prompt tokens"),
            (7, 3_000.0, "3000.0 ms of work on the prompt"),
        ] {
            let row = claimed(tokens, ms);
            assert_eq!(row.status, RequestStatus::MalformedStream);
            assert_eq!((row.prompt_tokens, row.server_prompt_ms), (None, None));
            let error = row.error.unwrap();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn an_answer_of_events_without_number_is_malformed() {
        let of_events = |count: usize| {
            let nothing = "data: {}\n\n".repeat(count - 2);
            streamed(&(event("a") + &nothing + "data: [DONE]\n\n"), None)
        };
        let few = of_events(MOST_EVENTS);
        assert_eq!(few.row.status, RequestStatus::Ok);
        let many = of_events(MOST_EVENTS + 1);
        assert_eq!(many.row.status, RequestStatus::MalformedStream);
        let reason = format!("the answer has more than {MOST_EVENTS} events");
        assert_eq!(many.row.error, Some(reason));
    }

    #[test]
    fn a_stream_without_text_reason_or_count_is_malformed() {
        for nothing in ["", "data: {}\n\n", "data: {\"choices\": []}\n\n"] {
            let row = streamed(&(nothing.to_owned() + "data: [DONE]\n\n"), None).row;
            assert_eq!(row.status, RequestStatus::MalformedStream, "{nothing}");
            let reason = row.error.unwrap();
            assert!(reason.starts_with("the answer has no text"), "{reason}");
        }
    }

    #[test]
    fn an_answer_that_goes_on_after_its_end_is_malformed() {
        let (end, usage) = ("data: [DONE]\n\n", r#"{"usage": {"completion_tokens": 2}}"#);
        let again = format!("data: {usage}\n\n");
        let of_openai = |after: &str| streamed(&(event("a") + end + after), None).row;
        for harmless in ["", end, ": ping\n\n", "data: {}\n\n"] {
            assert_eq!(of_openai(harmless).status, RequestStatus::Ok, "{harmless}");
        }
        for more in [&event("b"), &again] {
            let row = of_openai(more);
            assert_eq!(row.status, RequestStatus::MalformedStream, "{more}");
        }
        // Ollama says in the last line that it is the last.
        let text = r#"{"message": {"content": "a"}, "done": false}"#;
        let last = r#"{"message": {}, "done": true, "eval_count": 1, "eval_duration": 1000000}"#;
        let of_ollama = |lines: &[&str]| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n";
            let how = (Api::OllamaChat, Delivery::Streamed);
            of_bytes(head.to_owned() + &lines.join("\n") + "\n", how).row
        };
        let row = of_ollama(&[text, last]);
        assert_eq!(
            (row.status, row.output_tokens),
            (RequestStatus::Ok, Some(1))
        );
        for lines in [[text, last, last], [text, last, text]] {
            let row = of_ollama(&lines);
            assert_eq!(row.status, RequestStatus::MalformedStream, "{lines:?}");
            assert_eq!(row.error.unwrap(), "the answer goes on after its end");
        }
        let two = of_ollama(&[&format!("[{text}, {text}]"), last]);
        assert_eq!(two.error.unwrap(), "an event holds 2 answers, not one");
        let early = of_ollama(&[&last.replace("1000000", "-1000000")]);
        assert_eq!(early.status, RequestStatus::MalformedStream);
        assert_eq!(early.server_predicted_ms, None);
    }

    #[test]
    fn a_count_that_falls_leaves_the_tokens_of_chunks_open() {
        let counted = |count: i64| {
            let usage = json!({"completion_tokens": count});
            let choice = json!({"text": "a"});
            format!("data: {}\n\n", json!({"choices": [choice], "usage": usage}))
        };
        let all = |counts: [i64; 3]| counts.map(counted).concat() + "data: [DONE]\n\n";
        let tokens = |counts| {
            let chunks = streamed(&all(counts), None).chunks;
            chunks.iter().map(|chunk| chunk.tokens).collect::<Vec<_>>()
        };
        assert_eq!(tokens([1, 3, 4]), [Some(1), Some(2), Some(1)]);
        assert_eq!(tokens([1, 5, 4]), [None; 3]);
    }

    #[test]
    fn a_text_that_the_tokenizer_gives_up_has_no_count_and_not_that_of_its_chunks() {
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r"(a|b|ab)*(?>c)"}, "behavior": "Isolated", "invert": false},
                {"type": "Whitespace"},
            ]},
            "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
        });
        let counter = FileCounter::of_bytes("t.json", file.to_string().as_bytes(), String::new());
        let counter = counter.unwrap();
        let done = "data: [DONE]\n\n";
        let counted = streamed(&(event("a b a") + done), Some(&counter)).row;
        assert_eq!(counted.output_tokens, Some(3));
        assert_eq!(counted.tokens_source, Some(TokenSource::Tokenizer));
        let given_up = streamed(&(event(&"ab".repeat(64)) + done), Some(&counter)).row;
        assert_eq!(
            (given_up.output_tokens, given_up.tokens_source),
            (None, None)
        );
        assert_eq!(
            (given_up.status, given_up.chunks),
            (RequestStatus::Ok, Some(1))
        );
    }
}
