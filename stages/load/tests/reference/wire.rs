//! What a server may do with its bytes: cut them anywhere, send any amount, and put text into some events only.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::canned::{Canned, Pieces, document, events, head};
use crate::common::{Run, closed};
use contract::{Api, RequestStatus, TokenSource};
use load::{LoadResult, Target, run_load};
use pipeline::stage::Control;
use serde_json::json;

/// Sends two chat requests to a server that gives this answer.
fn chat(answer: impl Fn() -> Pieces + Send + Sync + 'static) -> LoadResult {
    let server = Canned::start(move |_| answer());
    let run = Run {
        requests: 2,
        api: Api::OpenaiChat,
        ..Run::default()
    };
    let target: Target = run.target(server.url.clone());
    run_load(&run.spec(), &target, &Control::quiet()).unwrap()
}

fn delta(text: &str) -> serde_json::Value {
    json!({"choices": [{"delta": {"content": text}}]})
}

fn finish() -> serde_json::Value {
    json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})
}

#[test]
fn a_head_beyond_its_limit_is_malformed_and_ends() {
    let result = chat(|| {
        let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
        (0..20_000).for_each(|i| endless.extend(format!("X-{i}: y\r\n").into_bytes()));
        vec![endless]
    });
    for row in &result.requests {
        assert_eq!(
            row.status,
            RequestStatus::MalformedStream,
            "{:?}",
            row.error
        );
        assert!(row.received_bytes < Some(400_000));
    }
}

#[test]
fn an_error_keeps_its_status_whatever_else_is_in_its_head() {
    let many: String = (0..150).map(|i| format!("X-{i}: y\r\n")).collect();
    let dated = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (code, more, wait) in [
        (
            503,
            "Retry-After: 7\r\nContent-Encoding: gzip\r\n".to_owned(),
            7,
        ),
        (429, format!("{many}Retry-After: 1.5\r\n"), 2),
        (
            429,
            format!("{dated}Retry-After: Sun, 06 Nov 1994 08:50:07 GMT\r\n"),
            30,
        ),
    ] {
        let result = chat(move || {
            let head = format!("HTTP/1.1 {code} X\r\n{more}Content-Length: 4\r\n\r\n");
            vec![[head.as_bytes(), b"busy"].concat()]
        });
        for row in &result.requests {
            let read = (row.status, row.http_status, row.retry_after_s);
            let expected = (RequestStatus::HttpError, Some(code), Some(wait));
            assert_eq!(read, expected, "{:?}", row.error);
        }
    }
}

#[test]
fn a_body_beyond_its_limit_is_malformed_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _request = stream.read(&mut [0; 4096]);
                let comment = format!(": {}\n", "x".repeat(1 << 20)).into_bytes();
                let mut sent = stream.write_all(&head("text/event-stream"));
                while sent.is_ok() {
                    sent = stream.write_all(&comment);
                }
            });
        }
    });
    let run = Run {
        requests: 1,
        arrival: closed(1),
        api: Api::OpenaiChat,
        ..Run::default()
    };
    let result = run_load(&run.spec(), &run.target(url), &Control::quiet()).unwrap();
    let row = &result.requests[0];
    assert_eq!(
        row.status,
        RequestStatus::MalformedStream,
        "{:?}",
        row.error
    );
    assert_eq!(
        row.error.as_deref(),
        Some("the response is longer than 268435456 bytes")
    );
    // Only what was read by the time the limit was exceeded is kept.
    assert!(
        (268_435_456..300_000_000).contains(&row.received_bytes.unwrap()),
        "{}",
        row.received_bytes.unwrap()
    );
}

#[test]
fn the_role_that_comes_first_is_no_token() {
    let result = chat(|| {
        events(&[
            json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}),
            delta("yes"),
            finish(),
        ])
    });
    for row in &result.requests {
        assert_eq!((row.status, row.chunks), (RequestStatus::Ok, Some(1)));
        assert_eq!(row.first_token_ns, row.first_answer_ns);
        assert_eq!(row.first_token_ns, row.last_token_ns);
    }
    assert!(result.chunks.iter().all(|c| c.bytes == Some(3)));
}

#[test]
fn usage_counts_wherever_it_comes() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}});
    let alone = json!({"choices": [], "usage": usage});
    let with_finish = json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage});
    let orders = [
        vec![delta("a"), finish(), alone.clone()],
        vec![delta("a"), with_finish],
        vec![alone, delta("a"), finish()],
    ];
    for order in orders {
        let result = chat(move || events(&order));
        for row in &result.requests {
            assert_eq!(
                (row.output_tokens, row.tokens_source),
                (Some(4), Some(TokenSource::Usage))
            );
            assert_eq!(
                (row.prompt_tokens, row.cached_prompt_tokens),
                (Some(9), Some(2))
            );
            assert_eq!(row.status, RequestStatus::Ok);
        }
    }
}

#[test]
fn reads_may_cut_lines_line_ends_and_characters() {
    let stream = [
        b": comment\r\n\r\n".to_vec(),
        format!("data: {}\r\n\r\n", delta("zwölf 三 🦀")).into_bytes(),
        format!("event: message\r\nid: 7\r\ndata: {}\r\n\r\n", finish()).into_bytes(),
        b"data: [DONE]\r\n\r\n".to_vec(),
    ]
    .concat();
    for step in [1, 2, 3, 7] {
        let stream = stream.clone();
        let result = chat(move || {
            let cut = stream.chunks(step).map(<[u8]>::to_vec);
            std::iter::once(head("text/event-stream"))
                .chain(cut)
                .collect()
        });
        for row in &result.requests {
            assert_eq!(
                (row.status, row.output_characters),
                (RequestStatus::Ok, Some(9)),
                "{step}"
            );
            assert_eq!(row.chunks, Some(1));
        }
    }
}

#[test]
fn data_over_several_lines_is_one_event() {
    let result = chat(|| {
        let text = "data: {\"choices\": [{\ndata: \"delta\": {\"content\":\ndata: \"yes\"}}]}\n\n";
        let end = format!("data: {}\n\ndata: [DONE]\n\n", finish());
        vec![
            head("text/event-stream"),
            text.as_bytes().to_vec(),
            end.into_bytes(),
        ]
    });
    for row in &result.requests {
        assert_eq!(
            (row.status, row.output_characters),
            (RequestStatus::Ok, Some(3)),
            "{:?}",
            row.error
        );
    }
}

#[test]
fn overload_says_when_to_come_again_and_a_date_is_no_number_of_seconds() {
    for (code, header, seconds) in [
        (429, "Retry-After: 30\r\n", Some(30)),
        (503, "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", None),
        (503, "", None),
    ] {
        let result = chat(move || {
            let body = r#"{"error": {"message": "too many"}}"#;
            let head = format!(
                "HTTP/1.1 {code} X\r\n{header}Content-Length: {}\r\n\r\n",
                body.len()
            );
            vec![head.into_bytes(), body.as_bytes().to_vec()]
        });
        for row in &result.requests {
            assert_eq!(
                (row.status, row.retry_after_s),
                (RequestStatus::HttpError, seconds)
            );
            assert_eq!(
                row.error.as_deref(),
                Some(format!("HTTP {code}: too many").as_str())
            );
        }
    }
}

#[test]
fn headers_of_ones_own_go_with_every_request() {
    let server = Canned::start(|asked| {
        assert!(
            asked.head.contains("\r\nX-Route: blue\r\n"),
            "{}",
            asked.head
        );
        events(&[delta("yes"), finish()])
    });
    let run = Run {
        requests: 2,
        api: Api::OpenaiChat,
        ..Run::default()
    };
    let headers = vec![("X-Route".to_owned(), "blue".to_owned())];
    let target = Target {
        headers,
        ..run.target(server.url.clone())
    };
    let result = run_load(&run.spec(), &target, &Control::quiet()).unwrap();
    assert!(
        result
            .requests
            .iter()
            .all(|row| row.status == RequestStatus::Ok)
    );
    let headers = vec![("X-Route".to_owned(), "blue\r\nX-More: red".to_owned())];
    let target = Target { headers, ..target };
    let error = run_load(&run.spec(), &target, &Control::quiet()).unwrap_err();
    assert!(error.to_string().contains("header X-Route: "), "{error}");
}

#[test]
fn a_page_in_place_of_an_answer_is_reported_with_its_media_type_and_start() {
    let page =
        "<!DOCTYPE html>\n<title>\x1b[31mSign in</title>".to_owned() + &" ".repeat(200) + "unseen";
    let begins = "the answer is text/html, not a stream of events (text/event-stream): <!DOCTYPE html> <title> \
                  [31mSign in</title>";
    let result = chat(move || vec![head("text/html; charset=utf-8"), page.clone().into_bytes()]);
    for row in &result.requests {
        assert_eq!(
            (row.status, row.error.as_deref()),
            (RequestStatus::MalformedStream, Some(begins))
        );
        assert_eq!(row.http_status, Some(200));
    }
}

#[test]
fn a_document_where_a_stream_was_asked_for_is_no_answer() {
    let result = chat(|| document(&json!({"detail": "no streaming here"})));
    let message = "the answer is application/json, not a stream of events (text/event-stream): \
                {\"detail\":\"no streaming here\"}";
    assert!(
        result
            .requests
            .iter()
            .all(|row| row.error.as_deref() == Some(message)),
        "{:?}",
        result.requests
    );
}

#[test]
fn events_count_whatever_media_type_they_come_under() {
    let result = chat(|| {
        let mut pieces = events(&[delta("yes"), finish()]);
        pieces[0] = head("text/plain");
        pieces
    });
    assert!(
        result
            .requests
            .iter()
            .all(|row| row.status == RequestStatus::Ok)
    );
}

#[test]
fn a_stream_that_ends_without_done_or_finish_reason_keeps_its_text_and_is_truncated() {
    let result = chat(|| {
        vec![
            head("text/event-stream"),
            format!("data: {}\n\n", delta("half")).into_bytes(),
        ]
    });
    for row in &result.requests {
        assert_eq!(
            (row.status, row.output_characters),
            (RequestStatus::TruncatedStream, Some(4))
        );
        assert!(row.first_token_ns.is_some());
    }
}
