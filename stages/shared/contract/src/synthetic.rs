//! Synthetic load cells for tests and dry runs: rows whose truth is known because it was planted.

use std::collections::BTreeMap;

use artifacts::{Column, Digest, Scalar, Store, StoreError, Table, TableError, TableRow};
use pipeline::place::CellName;
use pipeline::{Artifact, CellStatus, Coordinates, Input, InputCell, Json, Media};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::cell::Cell;
use crate::cell_rows::CellRows;
use crate::declare::Row;
use crate::requests::{Chunk, Request};
use crate::words::{Phase, RequestStatus, TokenSource};

/// Returns a measured, `ok` request of 10 prompt tokens and 5 output tokens, sent at 0. Its first
/// token comes after 10 ms, and one more every 10 ms.
pub fn request(request_id: i64) -> Request {
    Request {
        request_id,
        attempt: 1,
        superseded: false,
        client_id: Some(0),
        session_id: None,
        turn: None,
        prompt_index: Some(request_id),
        prompt_digest: Some(format!("b3:{request_id}")),
        phase: Phase::Measured,
        scheduled_ns: None,
        connect_ns: None,
        sent_ns: Some(0),
        headers_ns: Some(1_000_000),
        first_token_ns: Some(10_000_000),
        first_silent_ns: None,
        first_reasoning_ns: None,
        first_answer_ns: Some(10_000_000),
        last_token_ns: Some(50_000_000),
        done_ns: Some(51_000_000),
        prompt_tokens: Some(10),
        output_tokens: Some(5),
        reasoning_tokens: None,
        tokens_source: Some(TokenSource::Usage),
        tokens_agree: None,
        chunks: Some(5),
        first_chunk_tokens: Some(1),
        silent_events: Some(0),
        cached_prompt_tokens: None,
        requested_output_tokens: Some(5),
        finish_reason: Some("length".to_owned()),
        status: RequestStatus::Ok,
        http_status: Some(200),
        retry_after_s: None,
        error: None,
        schema_valid: None,
        send_lag_ns: Some(1_000),
        in_flight_at_send: Some(0),
        reads: Some(5),
        received_bytes: Some(400),
        output_characters: Some(20),
        output_digest: None,
        server_prompt_ms: None,
        server_predicted_ms: None,
    }
}

/// Returns chunks of one token each, evenly spaced from a request's first token to its last.
pub fn even_chunks(request: &Request) -> Vec<Chunk> {
    let (Some(first), Some(last), Some(n)) = (
        request.first_token_ns,
        request.last_token_ns,
        request.output_tokens,
    ) else {
        return Vec::new();
    };
    let steps = (n - 1).max(1);
    let chunk = |i: i64| Chunk {
        request_id: request.request_id,
        attempt: request.attempt,
        at_ns: first + (last - first) * i / steps,
        bytes: Some(4),
        tokens: Some(1),
        read: Some(i),
    };
    (0..n).map(chunk).collect()
}

/// Returns the table `requests`.
///
/// # Errors
/// Never for the rows used here.
pub fn requests_table(rows: &[Request]) -> Result<Table, TableError> {
    Request::table(rows)
}

/// Returns the table `chunks`.
///
/// # Errors
/// Never for the rows used here.
pub fn chunks_table(rows: &[Chunk]) -> Result<Table, TableError> {
    Chunk::table(rows)
}

/// Stores tables and returns the `ok` cell that owns them.
///
/// # Errors
/// If the store refuses.
///
/// # Panics
/// If a table cannot be written. Tables built here always can.
pub fn cell(
    store: &Store,
    coordinates: &[(&str, Scalar)],
    parameters: Json,
    tables: &[(&str, Table)],
) -> Result<InputCell, StoreError> {
    let mut outputs = BTreeMap::new();
    for (name, table) in tables {
        let bytes = table
            .to_parquet()
            .expect("a table built here can be written");
        let artifact = Artifact {
            digest: store.put(&bytes)?,
            media: Media::Parquet,
            bytes: bytes.len() as u64,
            rows: Some(table.rows() as u64),
        };
        outputs.insert((*name).to_owned(), artifact);
    }
    Ok(InputCell {
        coordinates: coordinates_of(coordinates),
        status: CellStatus::Ok,
        reason: None,
        parameters,
        outputs,
        record: Some(Digest::of(b"record")),
        live: None,
    })
}

/// Returns an `ok` cell without outputs.
pub fn bare(coordinates: &[(&str, Scalar)], parameters: Json) -> InputCell {
    InputCell {
        coordinates: coordinates_of(coordinates),
        status: CellStatus::Ok,
        reason: None,
        parameters,
        outputs: BTreeMap::new(),
        record: None,
        live: None,
    }
}

/// Returns the rows of a cell that has only requests.
pub fn rows_of(requests: Vec<Request>) -> CellRows {
    CellRows {
        place: CellName::default(),
        requests_digest: Digest::of(b"rows"),
        requests,
        chunks_digest: None,
        chunks: Vec::new(),
        cell: None,
        server_metrics: None,
        beside: BTreeMap::new(),
    }
}

/// Returns the row about a cell with these facts, for [`CellRows::cell`].
pub fn about(facts: Vec<Column>) -> Option<TableRow> {
    let table = Table::new(facts).expect("columns of one length");
    TableRow::of(&table, 0).expect("our own types")
}

/// Returns samples of a server's metrics without labels: time (ns since the cell's start), name, value.
pub fn server_samples(samples: &[(i64, &str, f64)]) -> Table {
    Table::new(vec![
        Column::int("at_ns", samples.iter().map(|(at, _, _)| Some(*at))),
        Column::text("name", samples.iter().map(|(_, name, _)| Some(*name))),
        Column::text("labels", samples.iter().map(|_| Some(""))),
        Column::float("value", samples.iter().map(|(_, _, value)| Some(*value))),
    ])
    .expect("columns of one length")
}

/// Returns a cell that is not `ok`.
pub fn missing(coordinates: &[(&str, Scalar)], status: CellStatus, reason: &str) -> InputCell {
    InputCell {
        coordinates: coordinates_of(coordinates),
        status,
        reason: Some(reason.to_owned()),
        parameters: Json::Null,
        outputs: BTreeMap::new(),
        record: None,
        live: None,
    }
}

/// Returns an input stage of a kind.
pub fn input(stage: &str, kind: &str, cells: Vec<InputCell>) -> Input {
    Input {
        stage: stage.to_owned(),
        kind: kind.to_owned(),
        needs: Vec::new(),
        cells,
    }
}

/// Returns the input stage `ladder`, a load of the serve stage `server`.
pub fn loaded(cells: Vec<InputCell>) -> Input {
    Input {
        needs: vec!["server".to_owned()],
        ..input("ladder", "load", cells)
    }
}

fn coordinates_of(pairs: &[(&str, Scalar)]) -> Coordinates {
    Coordinates(
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    )
}

/// A closed loop of clients in front of a healthy server: latencies are log-normal and stationary.
/// Checks must not flag it.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// The seed of every draw.
    pub seed: u64,
    /// The number of clients. Each sends its next request when the last one is done.
    pub clients: u32,
    /// The number of requests that the server processes at once. Others wait in order of arrival.
    pub slots: u32,
    /// The number of measured requests.
    pub requests: u32,
    /// The median time to the first token, ms.
    pub ttft_ms: f64,
    /// The median time per output token, ms.
    pub tpot_ms: f64,
    /// The tokens of every answer.
    pub output_tokens: i64,
    /// The standard deviation of the logarithm of a request's own latency.
    pub spread: f64,
    /// The same for what concurrent requests have in common: the server's mood, redrawn after every
    /// median latency.
    pub mood: f64,
}

impl Default for ClosedLoop {
    fn default() -> Self {
        Self {
            seed: 0,
            clients: 1,
            slots: u32::MAX,
            requests: 40,
            ttft_ms: 20.0,
            tpot_ms: 5.0,
            output_tokens: 17,
            spread: 0.15,
            mood: 0.05,
        }
    }
}

impl ClosedLoop {
    /// Returns the measured requests in the order of sending, without chunks. The prompt of request
    /// `i` does not depend on the seed.
    pub fn requests(&self) -> Vec<Request> {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        let mut rng = ChaCha20Rng::from_seed(key);
        let decode_ms = self.tpot_ms * (self.output_tokens - 1).max(0) as f64;
        let mood_lasts = (self.ttft_ms + decode_ms) * 1e6;
        let mut moods: Vec<f64> = Vec::new();
        let mut free = vec![0_i64; self.clients.max(1) as usize];
        // There are never more busy slots than clients.
        let mut idle = vec![0_i64; self.slots.clamp(1, self.clients.max(1)) as usize];
        (0..i64::from(self.requests))
            .map(|id| {
                let client = (0..free.len()).min_by_key(|c| free[*c]).unwrap_or(0);
                let sent = free[client] + 20_000;
                let mood_of = (free[client] as f64 / mood_lasts) as usize;
                while moods.len() <= mood_of {
                    moods.push((self.mood * normal(&mut rng)).exp());
                }
                let slow = |ms: f64, rng: &mut ChaCha20Rng| {
                    (ms * 1e6 * moods[mood_of] * (self.spread * normal(rng)).exp()) as i64
                };
                let slot = (0..idle.len()).min_by_key(|s| idle[*s]).unwrap_or(0);
                let first = sent.max(idle[slot]) + slow(self.ttft_ms, &mut rng).max(1);
                let last = first + slow(decode_ms, &mut rng);
                let done = last + 100_000;
                let scheduled = free[client];
                free[client] = done;
                idle[slot] = last;
                Request {
                    client_id: Some(client as i64),
                    scheduled_ns: Some(scheduled),
                    sent_ns: Some(sent),
                    headers_ns: Some(first),
                    first_token_ns: Some(first),
                    last_token_ns: Some(last),
                    done_ns: Some(done),
                    send_lag_ns: Some(sent - scheduled),
                    prompt_tokens: Some(100 + id * 37 % 29),
                    output_tokens: Some(self.output_tokens),
                    requested_output_tokens: Some(self.output_tokens),
                    chunks: Some(self.output_tokens),
                    ..request(id)
                }
            })
            .collect()
    }
}

/// Draws from the standard normal distribution (Box & Muller 1958).
fn normal(rng: &mut ChaCha20Rng) -> f64 {
    // In (0, 1], so that the logarithm exists.
    let mut uniform = || ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let (u, v) = (uniform(), uniform());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Returns the table `cell` with the planned facts.
///
/// # Errors
/// Never for the facts used here.
pub fn facts_table(requests: i64, warmup: i64, started_unix_ns: i64) -> Result<Table, TableError> {
    Cell::table(&[Cell {
        expected_requests: Some(requests),
        warmup_requests: Some(warmup),
        started_unix_ns: Some(started_unix_ns),
        ..Cell::default()
    }])
}
