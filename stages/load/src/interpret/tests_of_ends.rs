//! What comes after the end of an answer, what is missing there, and keys that are there twice.

use std::collections::BTreeMap;

use apis::Delivery;
use contract::{Api, Request, RequestStatus};

use super::interpret;
use super::tests::prompt;
use crate::measure::{Attempt, End, Read};

/// Interprets the bytes of an answer after its status line.
fn answered(rest: &str, end: End, how: (Api, Delivery)) -> Request {
    let bytes = format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes();
    let attempt = Attempt {
        reads: vec![Read {
            at_ns: 7,
            end: bytes.len(),
        }],
        bytes,
        end,
        ..Attempt::due(0, 1, None, 0)
    };
    interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, None).row
}

/// The chunks of a streamed body.
fn chunked(pieces: &[&str]) -> String {
    let chunk = |piece: &&str| format!("{:x}\r\n{piece}\r\n", piece.len());
    let head = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    head.to_owned() + &pieces.iter().map(chunk).collect::<String>()
}

const STREAMED: (Api, Delivery) = (Api::OpenaiCompletions, Delivery::Streamed);
const TEXT: &str = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n";
const USAGE: &str = "data: {\"usage\": {\"completion_tokens\": 1}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
/// What ends a chunked body.
const LAST: &str = "0\r\n\r\n";

#[test]
fn an_answer_that_is_cut_after_its_end_marker_is_complete() {
    let ends = || {
        [
            End::Closed,
            End::Reset("reset by peer".to_owned()),
            End::Timeout("idle"),
        ]
    };
    for end in ends() {
        let before = answered(&chunked(&[TEXT, USAGE]), end.clone(), STREAMED);
        assert_ne!(before.status, RequestStatus::Ok, "{end:?}");
        // Nothing after the marker belongs to the answer, so the loss of it loses nothing.
        for cut in [
            chunked(&[TEXT, USAGE, DONE]),
            chunked(&[TEXT, USAGE, DONE, "data: {\"choi"]),
            chunked(&[TEXT, USAGE, "data: [DONE]"]),
        ] {
            let row = answered(&cut, end.clone(), STREAMED);
            assert_eq!(row.status, RequestStatus::Ok, "{end:?} {cut}");
            assert_eq!(row.output_tokens, Some(1));
        }
    }
}

#[test]
fn what_an_answer_says_after_its_end_marker_is_judged_by_what_it_says() {
    let whole = |after: &str| {
        let body = chunked(&[TEXT, USAGE, DONE]);
        let after = match after {
            "" => String::new(),
            after => format!("{:x}\r\n{after}\r\n", after.len()),
        };
        answered(&(body + &after + LAST), End::Complete, STREAMED)
    };
    // After the end, a server may still send comments, unknown fields, empty events and an unfinished line. None of them
    // adds to the answer.
    let nothing = [
        "",
        ": bye\n\n",
        "bye\n\n",
        "retry: 5\n\n",
        "data:\n\n",
        "data: \n\n",
    ];
    for after in nothing.into_iter().chain([DONE, "data: {"]) {
        assert_eq!(whole(after).status, RequestStatus::Ok, "{after:?}");
    }
    // Neither do those before the first token and between tokens.
    for nothing in nothing {
        let rest = format!("{nothing}{TEXT}{nothing}{USAGE}{nothing}");
        let row = answered(&(chunked(&[&rest, DONE]) + LAST), End::Complete, STREAMED);
        let expected = whole("");
        assert_eq!(
            (row.status, row.chunks, row.silent_events),
            (expected.status, expected.chunks, expected.silent_events),
            "{nothing:?}"
        );
    }
    for (after, reason) in [
        (TEXT, "the answer goes on after its end"),
        (USAGE, "the answer goes on after its end"),
        ("data: bye\n\n", "an event is not JSON: bye"),
        (
            "data: {\"error\": \"late\"}\n\n",
            "the server reports an error in the answer: late",
        ),
    ] {
        let row = whole(after);
        assert_eq!(row.status, RequestStatus::MalformedStream, "{after:?}");
        assert_eq!(row.error.as_deref(), Some(reason), "{after:?}");
    }
    // Bytes after the end of the response belong to no answer; the connection is not used again.
    let body = chunked(&[TEXT, USAGE, DONE]) + LAST + "HTTP/1.1 200 OK\r\n\r\n";
    let row = answered(&body, End::Complete, STREAMED);
    assert_eq!(row.status, RequestStatus::Ok);
}

#[test]
fn a_key_that_an_object_of_an_answer_has_twice_makes_it_malformed() {
    let streamed = |event: &str| {
        let event = format!("data: {event}\n\n");
        answered(
            &(chunked(&[TEXT, &event, DONE]) + LAST),
            End::Complete,
            STREAMED,
        )
    };
    let whole = |api: Api, body: &str| {
        let head = "Content-Type: application/json\r\n";
        let rest = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        answered(&rest, End::Complete, (api, Delivery::Whole))
    };
    let reason = |row: &Request, key: &str| {
        assert_eq!(row.status, RequestStatus::MalformedStream, "{row:?}");
        let expected = format!("in an event, an object has the key \"{key}\" twice");
        assert_eq!(row.error.as_deref(), Some(expected.as_str()));
    };
    for (event, key) in [
        (
            r#"{"usage": {"completion_tokens": 1, "completion_tokens": 900}}"#,
            "completion_tokens",
        ),
        (
            r#"{"usage": {"completion_tokens": 1}, "usage": {"completion_tokens": 900}}"#,
            "usage",
        ),
        (r#"{"choices": [{"text": "b", "text": "c"}]}"#, "text"),
    ] {
        reason(&streamed(event), key);
    }
    let row = whole(
        Api::OllamaGenerate,
        r#"{"response": "a", "done": true, "eval_count": 1, "eval_count": 900}"#,
    );
    reason(&row, "eval_count");
    let row = whole(
        Api::OpenaiEmbeddings,
        r#"{"data": [{"index": 0, "index": 1, "embedding": [1, 2]}]}"#,
    );
    reason(&row, "index");
    // Of a field that is not read, no value counts.
    let row = streamed(r#"{"id": "a", "id": "b", "usage": {"completion_tokens": 1}}"#);
    assert_eq!(
        (row.status, row.output_tokens),
        (RequestStatus::Ok, Some(1))
    );
}
