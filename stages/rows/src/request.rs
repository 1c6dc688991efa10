//! The rows of one load cell.

use std::collections::BTreeMap;

use artifacts::{Digest, Store, Table, TableError};
use pipeline::{Failure, InputCell};

/// Whether a request was sent to warm the server up or to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sent before the measurement; never in an aggregate.
    Warmup,
    /// Part of the measurement.
    Measured,
}

impl Phase {
    /// Reads the word of the column `phase`.
    pub(crate) fn of(word: Option<&str>) -> Self {
        if word == Some("warmup") {
            Self::Warmup
        } else {
            Self::Measured
        }
    }
}

/// One attempt of a request. Times are nanoseconds since the start of the cell, monotonic.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The request's number, unique in the cell.
    pub request_id: i64,
    /// The attempt, from 0 or 1 as the load stage counts.
    pub attempt: i64,
    /// Whether a later attempt of the same request replaced it: a dead kept-alive connection,
    /// not an answer of the server. In no count and no aggregate.
    pub superseded: bool,
    /// The client of a closed loop; `None` for open arrivals.
    pub client_id: Option<i64>,
    /// The session of a multi-turn workload.
    pub session_id: Option<i64>,
    /// The turn within its session, from 1.
    pub turn: Option<i64>,
    /// The digest of the prompt.
    pub prompt_digest: Option<String>,
    /// Warm-up or measured.
    pub phase: Phase,
    /// When it should have been sent.
    pub scheduled_ns: Option<i64>,
    /// When its first byte was written.
    pub sent_ns: Option<i64>,
    /// When the response's headers had arrived.
    pub headers_ns: Option<i64>,
    /// When the first event with generated text arrived.
    pub first_token_ns: Option<i64>,
    /// When the last event with generated text arrived.
    pub last_token_ns: Option<i64>,
    /// When the response had ended.
    pub done_ns: Option<i64>,
    /// Prompt tokens.
    pub prompt_tokens: Option<i64>,
    /// Generated tokens.
    pub output_tokens: Option<i64>,
    /// Who counted them: `usage`, `timings`, `tokenizer` or `chunks`.
    pub tokens_source: Option<String>,
    /// Whether usage and timings agree; `None` unless both were told.
    pub tokens_agree: Option<bool>,
    /// Events with text.
    pub chunks: Option<i64>,
    /// Tokens of the first event with text.
    pub first_chunk_tokens: Option<i64>,
    /// Prompt tokens the server says it took from a cache.
    pub cached_prompt_tokens: Option<i64>,
    /// Generated tokens asked for.
    pub requested_output_tokens: Option<i64>,
    /// Why generation ended, as the server says.
    pub finish_reason: Option<String>,
    /// `ok`, or what went wrong.
    pub status: String,
    /// Whether structured output keeps its schema; `None` if none was asked for, or the answer
    /// was not complete.
    pub schema_valid: Option<bool>,
    /// `sent_ns − scheduled_ns`.
    pub send_lag_ns: Option<i64>,
    /// Prompt processing by the server's own account, ms.
    pub server_prompt_ms: Option<f64>,
    /// Generation by the server's own account, ms.
    pub server_predicted_ms: Option<f64>,
}

impl Request {
    /// Returns whether the request was answered in full.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    /// Returns whether the row belongs to the measurement: measured, and not superseded.
    pub fn is_measured(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
    }
}

/// One received event that carries text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunk {
    /// The request it belongs to.
    pub request_id: i64,
    /// The attempt it belongs to.
    pub attempt: i64,
    /// When it arrived.
    pub at_ns: i64,
    /// How many bytes of text.
    pub bytes: Option<i64>,
    /// How many tokens; null where the server does not say.
    pub tokens: Option<i64>,
}

/// Everything the pure stages read of one load cell.
#[derive(Clone, Debug)]
pub struct CellRows {
    /// The digest of the artifact `requests`.
    pub requests_digest: Digest,
    /// Its rows.
    pub requests: Vec<Request>,
    /// The digest of the artifact `chunks`, if the cell has one.
    pub chunks_digest: Option<Digest>,
    /// Its rows.
    pub chunks: Vec<Chunk>,
    /// The one row about the cell itself, if there.
    pub cell: Option<Table>,
    /// The scrapes of the server's own metrics, if there.
    pub server_metrics: Option<Table>,
    /// What was sampled beside the load, by the table's name: `host_telemetry`,
    /// `process_telemetry`, `gpu_telemetry`, each with its digest, if there.
    pub beside: BTreeMap<&'static str, (Digest, Table)>,
}

/// The tables sampled beside a load that the pure stages read.
const BESIDE: [&str; 3] = ["host_telemetry", "process_telemetry", "gpu_telemetry"];

impl CellRows {
    /// Returns whether the cell is an imported file that holds aggregates alone.
    pub fn is_aggregate(&self) -> bool {
        let source = self
            .cell
            .as_ref()
            .and_then(|cell| cell.text("source").ok()?.first().copied().flatten());
        self.requests.is_empty() && source == Some("imported")
    }

    /// Reads the rows of an `ok` load cell.
    ///
    /// # Errors
    /// If the cell lacks its `requests`, an artifact is missing or damaged, or a column is not
    /// as the load stage writes it.
    pub fn read(store: &Store, cell: &InputCell) -> Result<Self, Failure> {
        let at = &cell.coordinates;
        let wrong = |name: &str, e: &dyn std::fmt::Display| {
            Failure::failed(format!(
                "`{name}` of the load cell {at} cannot be read: {e}"
            ))
        };
        let table = |name: &str| -> Result<Option<(Digest, Table)>, Failure> {
            let Some(artifact) = cell.outputs.get(name) else {
                return Ok(None);
            };
            let bytes = store.get(&artifact.digest).map_err(|e| wrong(name, &e))?;
            let table = Table::from_parquet(bytes).map_err(|e| wrong(name, &e))?;
            Ok(Some((artifact.digest, table)))
        };
        let (requests_digest, requests) =
            table("requests")?.ok_or_else(|| wrong("requests", &"the cell has no such output"))?;
        let requests = read_requests(&requests).map_err(|e| wrong("requests", &e))?;
        let (chunks_digest, chunks) = match table("chunks")? {
            Some((digest, table)) => (
                Some(digest),
                read_chunks(&table).map_err(|e| wrong("chunks", &e))?,
            ),
            None => (None, Vec::new()),
        };
        let mut beside = BTreeMap::new();
        for name in BESIDE {
            beside.extend(table(name)?.map(|found| (name, found)));
        }
        Ok(Self {
            requests_digest,
            requests,
            chunks_digest,
            chunks,
            cell: table("cell")?.map(|(_, table)| table),
            server_metrics: table("server_metrics")?.map(|(_, table)| table),
            beside,
        })
    }

    /// Takes the tables `requests` and `chunks` as the load stage writes them.
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    pub fn of(requests: (Digest, &Table), chunks: (Digest, &Table)) -> Result<Self, TableError> {
        Ok(Self {
            requests_digest: requests.0,
            requests: read_requests(requests.1)?,
            chunks_digest: Some(chunks.0),
            chunks: read_chunks(chunks.1)?,
            cell: None,
            server_metrics: None,
            beside: BTreeMap::new(),
        })
    }

    /// Returns the measured requests, in the order of the rows.
    pub fn measured(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|r| r.is_measured())
    }
}

fn read_requests(table: &Table) -> Result<Vec<Request>, TableError> {
    let needed = [
        "request_id",
        "phase",
        "status",
        "sent_ns",
        "first_token_ns",
        "last_token_ns",
        "done_ns",
    ];
    require(&table.names(), &needed)?;
    require(&table.names(), &["prompt_tokens", "output_tokens"])?;
    let ints = |name: &str| table.ints(name);
    let texts = |name: &str| table.texts(name);
    let (id, attempt) = (ints("request_id")?, ints("attempt")?);
    let (phase, status) = (texts("phase")?, texts("status")?);
    let (scheduled, sent, headers) = (ints("scheduled_ns")?, ints("sent_ns")?, ints("headers_ns")?);
    let (first, last, done) = (
        ints("first_token_ns")?,
        ints("last_token_ns")?,
        ints("done_ns")?,
    );
    let (prompt_tokens, output_tokens) = (ints("prompt_tokens")?, ints("output_tokens")?);
    let (cached, asked) = (
        ints("cached_prompt_tokens")?,
        ints("requested_output_tokens")?,
    );
    let lag = ints("send_lag_ns")?;
    let (digest, source) = (texts("prompt_digest")?, texts("tokens_source")?);
    let (client, chunks) = (ints("client_id")?, ints("chunks")?);
    let (session, turn) = (ints("session_id")?, ints("turn")?);
    let first_chunk = ints("first_chunk_tokens")?;
    let (superseded, agree) = (
        table.booleans("superseded")?,
        table.booleans("tokens_agree")?,
    );
    let schema_valid = table.booleans("schema_valid")?;
    let (prompt_ms, predicted_ms) = (
        floats(table, "server_prompt_ms")?,
        floats(table, "server_predicted_ms")?,
    );
    let finish = texts("finish_reason")?;
    Ok((0..table.rows())
        .map(|i| Request {
            request_id: id.get(i).unwrap_or(-1),
            attempt: attempt.get(i).unwrap_or(0),
            superseded: superseded.get(i).unwrap_or(false),
            client_id: client.get(i),
            session_id: session.get(i),
            turn: turn.get(i),
            prompt_digest: digest.get(i).map(str::to_owned),
            phase: Phase::of(phase.get(i)),
            scheduled_ns: scheduled.get(i),
            sent_ns: sent.get(i),
            headers_ns: headers.get(i),
            first_token_ns: first.get(i),
            last_token_ns: last.get(i),
            done_ns: done.get(i),
            prompt_tokens: prompt_tokens.get(i),
            output_tokens: output_tokens.get(i),
            tokens_source: source.get(i).map(str::to_owned),
            tokens_agree: agree.get(i),
            chunks: chunks.get(i),
            first_chunk_tokens: first_chunk.get(i),
            cached_prompt_tokens: cached.get(i),
            requested_output_tokens: asked.get(i),
            finish_reason: finish.get(i).map(str::to_owned),
            status: status.get(i).unwrap_or(MALFORMED).to_owned(),
            schema_valid: schema_valid.get(i),
            send_lag_ns: lag.get(i),
            server_prompt_ms: prompt_ms[i],
            server_predicted_ms: predicted_ms[i],
        })
        .collect())
}

/// The status of a row that has none.
const MALFORMED: &str = "malformed_row";

/// Reads a column of numbers that may be of integers; null throughout if there is none.
fn floats(table: &Table, name: &str) -> Result<Vec<Option<f64>>, TableError> {
    if table.has(name) {
        table.float(name)
    } else {
        Ok(vec![None; table.rows()])
    }
}

/// Refuses a table of the named columns that lacks one.
pub(crate) fn require(names: &[String], columns: &[&str]) -> Result<(), TableError> {
    match columns
        .iter()
        .find(|wanted| names.iter().all(|name| name != *wanted))
    {
        Some(missing) => Err(TableError::no_column(missing, names)),
        None => Ok(()),
    }
}

fn read_chunks(table: &Table) -> Result<Vec<Chunk>, TableError> {
    require(&table.names(), &["request_id", "at_ns"])?;
    let (id, at) = (table.ints("request_id")?, table.ints("at_ns")?);
    let (attempt, bytes, tokens) = (
        table.ints("attempt")?,
        table.ints("bytes")?,
        table.ints("tokens")?,
    );
    Ok((0..table.rows())
        .map(|i| Chunk {
            request_id: id.get(i).unwrap_or(-1),
            attempt: attempt.get(i).unwrap_or(0),
            at_ns: at.get(i).unwrap_or(0),
            bytes: bytes.get(i),
            tokens: tokens.get(i),
        })
        .collect())
}

/// Returns by how much a counter of the server, summed over its labels, rose from the first to
/// the last scrape of a cell; `None` if it was not scraped twice. The table has the columns
/// `at_ns`, `name` and `value`.
pub fn server_counter(table: &Table, name: &str) -> Option<f64> {
    let (names, values) = (table.text("name").ok()?, table.float("value").ok()?);
    let times = table.int("at_ns").ok()?;
    let mut totals: BTreeMap<i64, f64> = BTreeMap::new();
    for i in (0..table.rows()).filter(|i| names[*i] == Some(name)) {
        *totals.entry(times[i]?).or_default() += values[i]?;
    }
    let (first, last) = (totals.first_key_value()?, totals.last_key_value()?);
    (first.0 < last.0).then(|| last.1 - first.1)
}
