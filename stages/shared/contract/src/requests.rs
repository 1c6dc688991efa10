//! The rows of a load cell: its requests and the chunks of their answers.

use serde::{Deserialize, Serialize};

use crate::words::{Phase, RequestStatus, TokenSource};

crate::table! {
    /// One row per attempt of a request, ordered by request and attempt. Times are nanoseconds since the cell's start,
    /// on a monotonic clock. A value is null if the source of the rows does not report it.
    #[derive(Serialize, Deserialize)]
    pub struct Request = "requests" {
        /// the request's place in the cell, warm-up requests first
        request_id: i64,
        /// 1, or 2 where a dead kept-alive connection was replayed
        attempt: i64,
        /// true where a later attempt of the same request follows: the kept-alive connection was
        /// dead and no byte had come back
        superseded: bool,
        /// `warmup` or `measured`; aggregates take `measured`
        phase: Phase,
        /// the client of a closed loop; null for open arrivals
        client_id: Option<i64>,
        /// the session of a multi-turn workload; null otherwise
        session_id: Option<i64>,
        /// the turn within its session, from 1; null without sessions
        turn: Option<i64>,
        /// the prompt's place among those of its phase
        prompt_index: Option<i64>,
        /// BLAKE3 of the prompt's text
        prompt_digest: Option<String>,
        /// when the request was due: its drawn time, the moment its client became free, or the end of
        /// the previous turn plus the think time
        scheduled_ns: Option<i64> ["ns"],
        /// how long its connection took; null on an open connection
        connect_ns: Option<i64> ["ns"],
        /// when its first byte was written; null if none was
        sent_ns: Option<i64> ["ns"],
        /// when the answer's head was complete; null if it never was
        headers_ns: Option<i64> ["ns"],
        /// first event with text; null if none came, or not streamed
        first_token_ns: Option<i64> ["ns"],
        /// first event with a token but without text, if it came before the first text; null otherwise
        first_silent_ns: Option<i64> ["ns"],
        /// first event with text of the reasoning; null if none came
        first_reasoning_ns: Option<i64> ["ns"],
        /// first event with text of the answer itself; null if none came
        first_answer_ns: Option<i64> ["ns"],
        /// last event with text, or with a token that has none, or the whole answer; null if no text came
        last_token_ns: Option<i64> ["ns"],
        /// last byte of the answer, or when it was given up
        done_ns: Option<i64> ["ns"],
        /// as the server's usage says, else its timings; null if neither does
        prompt_tokens: Option<i64> ["tok"],
        /// prompt tokens taken from a cache; null if the server does not say
        cached_prompt_tokens: Option<i64> ["tok"],
        /// tokens generated, from `tokens_source`; never the requested length
        output_tokens: Option<i64> ["tok"],
        /// generated tokens that are reasoning, as the server says; null if it does not. If `first_reasoning_ns` is
        /// null, no text of them came, and TPOT and decode rates leave them out
        reasoning_tokens: Option<i64> ["tok"],
        /// who counted `output_tokens`; null if nobody did
        tokens_source: Option<TokenSource>,
        /// whether usage and timings agree; null unless the server sent both
        tokens_agree: Option<bool>,
        /// output tokens asked for
        requested_output_tokens: Option<i64> ["tok"],
        /// events with text; null if not streamed
        chunks: Option<i64> ["chunks"],
        /// tokens of the first event with text, and of those without text before it; null if unknown
        first_chunk_tokens: Option<i64> ["tok"],
        /// events without text, several in a row, for which it stays open how many tokens they have; null if not
        /// streamed
        silent_events: Option<i64>,
        /// why generation ended, as the server says
        finish_reason: Option<String>,
        /// `ok`, or what went wrong
        status: RequestStatus,
        /// the HTTP status code; null if no head came
        http_status: Option<i64>,
        /// the server's `Retry-After`, rounded up; a date counts from the answer's `Date`; null if it sent none
        /// that can be read
        retry_after_s: Option<i64> ["s"],
        /// what went wrong; null if ok
        error: Option<String>,
        /// whether structured output validates; null if none was asked for, or the answer was not
        /// complete
        schema_valid: Option<bool>,
        /// sent_ns - scheduled_ns: the client's own delay; with `max-in-flight` from when a place was
        /// free; for a second attempt from the end of the first
        send_lag_ns: Option<i64> ["ns"],
        /// other requests in flight when it was sent
        in_flight_at_send: Option<i64> ["requests"],
        /// socket reads its answer took
        reads: Option<i64>,
        /// bytes received, head and framing included
        received_bytes: Option<i64> ["B"],
        /// length of the generated text; null if none
        output_characters: Option<i64> ["characters"],
        /// BLAKE3 of the generated text; null if none
        output_digest: Option<String>,
        /// prompt processing, by the server's own account
        server_prompt_ms: Option<f64> ["ms"],
        /// generation, by the server's own account
        server_predicted_ms: Option<f64> ["ms"],
    }
}

impl Request {
    /// Returns whether the request was answered in full.
    pub fn is_ok(&self) -> bool {
        self.status == RequestStatus::Ok
    }

    /// Returns whether the row belongs to the measurement: measured, and not superseded. A superseded attempt hit a
    /// dead kept-alive connection, which is not an answer of the server.
    pub fn is_measured(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
    }
}

crate::table! {
    /// One row per received event that carries text, ordered by request, attempt and time.
    #[derive(Copy, Eq, Serialize, Deserialize)]
    pub struct Chunk = "chunks" {
        /// the request, as in `requests`
        request_id: i64,
        /// its attempt
        attempt: i64,
        /// when the socket read that completed it returned, since the cell's start
        at_ns: i64 ["ns"],
        /// bytes of text in it; null if unknown
        bytes: Option<i64> ["B"],
        /// tokens in it; null if unknown
        tokens: Option<i64> ["tok"],
        /// which socket read of the answer completed it, from 0; null if unknown
        read: Option<i64>,
    }
}
