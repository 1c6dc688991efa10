//! The rows of a cell and the tables made of them.

use artifacts::{Column, Table, TableError};
use serde::{Deserialize, Serialize};

/// Whether a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Sent before measuring; a row, but in no aggregate.
    Warmup,
    /// Counted.
    Measured,
}

impl Phase {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measured => "measured",
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RequestStatus {
    /// Answered completely.
    Ok,
    /// A status code other than 2xx.
    HttpError,
    /// One of the request's time limits passed.
    Timeout,
    /// Ended by the heartbeat: no byte on any stream.
    Hung,
    /// The server took no connection.
    Refused,
    /// The connection broke, or closed before any byte of the answer.
    ConnectionReset,
    /// The answer ended before it was complete.
    TruncatedStream,
    /// The answer could not be understood, or carried an error in place of an answer.
    MalformedStream,
    /// The output does not validate.
    InvalidOutput,
    /// Ended by the user or with the cell.
    Cancelled,
}

impl RequestStatus {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HttpError => "http_error",
            Self::Timeout => "timeout",
            Self::Hung => "hung",
            Self::Refused => "refused",
            Self::ConnectionReset => "connection_reset",
            Self::TruncatedStream => "truncated_stream",
            Self::MalformedStream => "malformed_stream",
            Self::InvalidOutput => "invalid_output",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Where a count of output tokens comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenSource {
    /// The answer's `usage`.
    Usage,
    /// The server's own timings in the answer.
    Timings,
    /// A tokenizer over the text.
    Tokenizer,
    /// The number of chunks with text.
    Chunks,
}

impl TokenSource {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Timings => "timings",
            Self::Tokenizer => "tokenizer",
            Self::Chunks => "chunks",
        }
    }
}

/// One attempt of one request. Times are nanoseconds since the cell's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the columns are described once, in `requests_table`"
)]
pub struct RequestRow {
    pub request_id: i64,
    pub attempt: i64,
    pub superseded: bool,
    pub phase: Phase,
    pub client_id: Option<i64>,
    pub session_id: Option<i64>,
    pub turn: Option<i64>,
    pub prompt_index: i64,
    pub prompt_digest: String,
    pub scheduled_ns: i64,
    pub connect_ns: Option<i64>,
    pub sent_ns: Option<i64>,
    pub headers_ns: Option<i64>,
    pub first_token_ns: Option<i64>,
    pub first_reasoning_ns: Option<i64>,
    pub first_answer_ns: Option<i64>,
    pub last_token_ns: Option<i64>,
    pub done_ns: i64,
    pub prompt_tokens: Option<i64>,
    pub cached_prompt_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    pub tokens_source: Option<TokenSource>,
    pub tokens_agree: Option<bool>,
    pub requested_output_tokens: i64,
    pub chunks: Option<i64>,
    pub first_chunk_tokens: Option<i64>,
    pub finish_reason: Option<String>,
    pub status: RequestStatus,
    pub http_status: Option<i64>,
    pub retry_after_s: Option<i64>,
    pub error: Option<String>,
    pub schema_valid: Option<bool>,
    pub send_lag_ns: Option<i64>,
    pub in_flight_at_send: Option<i64>,
    pub reads: i64,
    pub received_bytes: i64,
    pub output_characters: Option<i64>,
    pub output_digest: Option<String>,
    pub server_prompt_ms: Option<f64>,
    pub server_predicted_ms: Option<f64>,
}

/// One event that carries text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the columns are described once, in `chunks_table`"
)]
pub struct ChunkRow {
    pub request_id: i64,
    pub attempt: i64,
    pub at_ns: i64,
    pub bytes: i64,
    pub tokens: Option<i64>,
    pub read: i64,
}

/// Makes the table `requests`: one row per attempt of a request, by request and attempt.
///
/// # Errors
/// Never for rows made here.
pub fn requests_table(rows: &[RequestRow]) -> Result<Table, TableError> {
    type Row = RequestRow;
    let int = |name: &str, unit: Option<&str>, meaning: &str, f: &dyn Fn(&Row) -> Option<i64>| {
        let column = Column::int(name, rows.iter().map(f)).describe(meaning);
        if let Some(unit) = unit {
            column.unit(unit)
        } else {
            column
        }
    };
    let float = |name: &str, unit: &str, meaning: &str, f: &dyn Fn(&Row) -> Option<f64>| {
        Column::float(name, rows.iter().map(f))
            .unit(unit)
            .describe(meaning)
    };
    let text = |name: &str, meaning: &str, f: &dyn Fn(&Row) -> Option<String>| {
        Column::text(name, rows.iter().map(f)).describe(meaning)
    };
    let flag = |name: &str, meaning: &str, f: &dyn Fn(&Row) -> Option<bool>| {
        Column::boolean(name, rows.iter().map(f)).describe(meaning)
    };
    let (ns, tok) = (Some("ns"), Some("tok"));
    Table::new(vec![
        int(
            "request_id",
            None,
            "the request's place in the cell, warm-up requests first",
            &|r| Some(r.request_id),
        ),
        int(
            "attempt",
            None,
            "1, or 2 where a dead kept-alive connection was replayed",
            &|r| Some(r.attempt),
        ),
        flag(
            "superseded",
            "true where a later attempt of the same request follows: the kept-alive connection was dead and no \
             byte had come back",
            &|r| Some(r.superseded),
        ),
        text(
            "phase",
            "`warmup` or `measured`; aggregates take `measured`",
            &|r| Some(r.phase.word().to_owned()),
        ),
        int(
            "client_id",
            None,
            "the client of a closed loop; null for open arrivals",
            &|r| r.client_id,
        ),
        int(
            "session_id",
            None,
            "the session of a multi-turn workload; null otherwise",
            &|r| r.session_id,
        ),
        int(
            "turn",
            None,
            "the turn within its session, from 1; null without sessions",
            &|r| r.turn,
        ),
        int(
            "prompt_index",
            None,
            "the prompt's place among those of its phase",
            &|r| Some(r.prompt_index),
        ),
        text("prompt_digest", "BLAKE3 of the prompt's text", &|r| {
            Some(r.prompt_digest.clone())
        }),
        int(
            "scheduled_ns",
            ns,
            "when it was to be sent: drawn, or its client free, or the turn before answered and thought over",
            &|r| Some(r.scheduled_ns),
        ),
        int(
            "connect_ns",
            ns,
            "how long its connection took; null on an open connection",
            &|r| r.connect_ns,
        ),
        int(
            "sent_ns",
            ns,
            "when its first byte was written; null if none was",
            &|r| r.sent_ns,
        ),
        int(
            "headers_ns",
            ns,
            "when the answer's head was complete; null if it never was",
            &|r| r.headers_ns,
        ),
        int(
            "first_token_ns",
            ns,
            "first event with text; null if none came, or not streamed",
            &|r| r.first_token_ns,
        ),
        int(
            "first_reasoning_ns",
            ns,
            "first event with text of the reasoning; null if none came",
            &|r| r.first_reasoning_ns,
        ),
        int(
            "first_answer_ns",
            ns,
            "first event with text of the answer itself; null if none came",
            &|r| r.first_answer_ns,
        ),
        int(
            "last_token_ns",
            ns,
            "last event with text, or the whole answer; null if no text came",
            &|r| r.last_token_ns,
        ),
        int(
            "done_ns",
            ns,
            "last byte of the answer, or when it was given up",
            &|r| Some(r.done_ns),
        ),
        int(
            "prompt_tokens",
            tok,
            "as the server's usage says, else its timings; null if untold",
            &|r| r.prompt_tokens,
        ),
        int(
            "cached_prompt_tokens",
            tok,
            "of these, taken from a cache; null if untold",
            &|r| r.cached_prompt_tokens,
        ),
        int(
            "output_tokens",
            tok,
            "tokens generated, from `tokens_source`; never the requested length",
            &|r| r.output_tokens,
        ),
        int(
            "reasoning_tokens",
            tok,
            "of these, reasoning, as the server says; null if untold",
            &|r| r.reasoning_tokens,
        ),
        text(
            "tokens_source",
            "`usage`, `timings`, `tokenizer` or `chunks`, in this order of trust",
            &|r| r.tokens_source.map(|s| s.word().to_owned()),
        ),
        flag(
            "tokens_agree",
            "whether usage and timings agree; null unless both were told",
            &|r| r.tokens_agree,
        ),
        int(
            "requested_output_tokens",
            tok,
            "output tokens asked for",
            &|r| Some(r.requested_output_tokens),
        ),
        int(
            "chunks",
            Some("chunks"),
            "events with text; null if not streamed",
            &|r| r.chunks,
        ),
        int(
            "first_chunk_tokens",
            tok,
            "tokens of the first event with text; null if unknown",
            &|r| r.first_chunk_tokens,
        ),
        text(
            "finish_reason",
            "why generation ended, as the server says",
            &|r| r.finish_reason.clone(),
        ),
        text("status", "what became of it", &|r| {
            Some(r.status.word().to_owned())
        }),
        int(
            "http_status",
            None,
            "the HTTP status code; null if no head came",
            &|r| r.http_status,
        ),
        int(
            "retry_after_s",
            Some("s"),
            "the server's `Retry-After`; null if untold",
            &|r| r.retry_after_s,
        ),
        text("error", "what went wrong; null if ok", &|r| r.error.clone()),
        flag(
            "schema_valid",
            "whether structured output validates; null if none was asked for",
            &|r| r.schema_valid,
        ),
        int(
            "send_lag_ns",
            ns,
            "sent_ns - scheduled_ns: the client's own delay",
            &|r| r.send_lag_ns,
        ),
        int(
            "in_flight_at_send",
            Some("requests"),
            "other requests in flight when it was sent",
            &|r| r.in_flight_at_send,
        ),
        int("reads", None, "socket reads its answer took", &|r| {
            Some(r.reads)
        }),
        int(
            "received_bytes",
            Some("B"),
            "bytes received, head and framing included",
            &|r| Some(r.received_bytes),
        ),
        int(
            "output_characters",
            Some("characters"),
            "length of the generated text; null if none",
            &|r| r.output_characters,
        ),
        text(
            "output_digest",
            "BLAKE3 of the generated text; null if none",
            &|r| r.output_digest.clone(),
        ),
        float(
            "server_prompt_ms",
            "ms",
            "prompt processing, by the server's own account",
            &|r| r.server_prompt_ms,
        ),
        float(
            "server_predicted_ms",
            "ms",
            "generation, by the server's own account",
            &|r| r.server_predicted_ms,
        ),
    ])
}

/// Makes the table `chunks`: one row per received event with text, by request, attempt and time.
///
/// # Errors
/// Never for rows made here.
pub fn chunks_table(rows: &[ChunkRow]) -> Result<Table, TableError> {
    let int = |name: &str, meaning: &str, f: &dyn Fn(&ChunkRow) -> Option<i64>| {
        Column::int(name, rows.iter().map(f)).describe(meaning)
    };
    Table::new(vec![
        int("request_id", "the request, as in `requests`", &|r| {
            Some(r.request_id)
        }),
        int("attempt", "its attempt", &|r| Some(r.attempt)),
        int(
            "at_ns",
            "when the socket read that completed it returned, since the cell's start",
            &|r| Some(r.at_ns),
        )
        .unit("ns"),
        int("bytes", "bytes of text in it", &|r| Some(r.bytes)).unit("B"),
        int("tokens", "tokens in it; null if unknown", &|r| r.tokens).unit("tok"),
        int(
            "read",
            "which socket read of the answer completed it, from 0",
            &|r| Some(r.read),
        ),
    ])
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// Returns a measured request that was answered, by its id.
    pub(crate) fn row(id: i64) -> RequestRow {
        RequestRow {
            first_reasoning_ns: None,
            first_answer_ns: None,
            reasoning_tokens: None,
            request_id: id,
            attempt: 1,
            superseded: false,
            phase: Phase::Measured,
            client_id: None,
            session_id: None,
            turn: None,
            prompt_index: id,
            prompt_digest: String::new(),
            scheduled_ns: 0,
            connect_ns: None,
            sent_ns: Some(0),
            headers_ns: Some(1),
            first_token_ns: Some(1),
            last_token_ns: Some(2),
            done_ns: 2,
            prompt_tokens: Some(10),
            cached_prompt_tokens: None,
            output_tokens: Some(3),
            tokens_source: None,
            tokens_agree: None,
            requested_output_tokens: 3,
            chunks: Some(3),
            first_chunk_tokens: Some(1),
            finish_reason: None,
            status: RequestStatus::Ok,
            http_status: Some(200),
            retry_after_s: None,
            error: None,
            schema_valid: None,
            send_lag_ns: Some(0),
            in_flight_at_send: Some(0),
            reads: 1,
            received_bytes: 1,
            output_characters: None,
            output_digest: None,
            server_prompt_ms: None,
            server_predicted_ms: None,
        }
    }
}
