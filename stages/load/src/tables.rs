//! The tables of a run.

use std::io;

use artifacts::{Column, Digest, Table, TableError};

use crate::client_health::ClientHealth;
use crate::prompts::PromptSet;
use crate::rows::{Phase, RequestRow, chunks_table, requests_table};
use crate::run::{CellFacts, LoadResult, LoadSpec};
use crate::scrape::metrics_table;
use crate::summary::Distribution;
use crate::tally::Tally;

/// Returns the tables of a run under their names: `requests`, `chunks`, `cell`,
/// `server_metrics` and `prompts`.
///
/// # Errors
/// If the prompts cannot be read again, or not be written as Parquet.
pub fn tables(spec: &LoadSpec, result: &LoadResult) -> io::Result<Vec<(&'static str, Table)>> {
    let prompts = spec.prompts.table()?;
    let made = |table: Result<Table, TableError>| table.map_err(io::Error::other);
    let digest = Digest::of(&prompts.to_parquet().map_err(io::Error::other)?);
    let tally = Tally::of(&result.requests, &result.chunks);
    let lags = lags(&result.requests);
    let cell = cell_table(&result.cell, &spec.prompts, &tally, lags.as_ref(), &digest);
    Ok(vec![
        ("requests", made(requests_table(&result.requests))?),
        ("chunks", made(chunks_table(&result.chunks))?),
        ("cell", made(cell)?),
        (
            "server_metrics",
            made(metrics_table(&result.server_metrics))?,
        ),
        ("prompts", prompts),
    ])
}

/// Returns the send lags of measured requests, ms.
fn lags(requests: &[RequestRow]) -> Option<Distribution> {
    Distribution::of(requests.iter().filter_map(measured_lag).collect())
}

/// Returns the send lag of a request that is measured and not superseded, ms.
pub(crate) fn measured_lag(row: &RequestRow) -> Option<f64> {
    let counted = row.phase == Phase::Measured && !row.superseded;
    row.send_lag_ns
        .filter(|_| counted)
        .map(|ns| ns as f64 / 1e6)
}

/// Makes the table `cell`: one row.
pub(crate) fn cell_table(
    cell: &CellFacts,
    prompts: &PromptSet,
    tally: &Tally,
    send_lag_ms: Option<&Distribution>,
    prompt_set: &Digest,
) -> Result<Table, TableError> {
    let int = |name: &str, value: Option<i64>, meaning: &str| {
        Column::int(name, [value]).describe(meaning)
    };
    let text = |name: &str, value: &str, meaning: &str| {
        Column::text(name, [Some(value)]).describe(meaning)
    };
    let sessions = prompts.sessions().map(|sessions| sessions.len() as i64);
    let mut columns = vec![
        text(
            "source",
            cell.source.word(),
            "where the rows come from: `measured`, `imported` or `simulated`",
        ),
        int(
            "expected_requests",
            Some(cell.expected_requests as i64),
            "measured requests planned",
        )
        .unit("requests"),
        int(
            "warmup_requests",
            Some(cell.warmup_requests as i64),
            "warm-up requests planned",
        )
        .unit("requests"),
        text("arrival", cell.arrival, "the kind of arrivals"),
        int(
            "clients",
            cell.clients.map(i64::from),
            "clients of a closed loop; null for open arrivals",
        )
        .unit("clients"),
        Column::float("rate", [cell.rate])
            .unit("req/s")
            .describe("mean rate of open arrivals; null for closed loops and bursts"),
        text("api", cell.api, "the API spoken"),
        Column::boolean("streamed", [Some(cell.streamed)])
            .describe("whether answers were streamed"),
        text(
            "prompt_set",
            &prompt_set.to_string(),
            "digest of the `prompts` table",
        ),
        text(
            "length_source",
            prompts.length_source.word(),
            "what counted the prompts' lengths: `server-tokenizer`, `server-template` (with the chat template), \
             `tokenizer-file`, `words`, `characters`, or `given` texts",
        ),
        Column::text("tokenizer", [prompts.tokenizer.as_deref()]).describe(
            "digest of the tokenizer's file, or fingerprint of the server's; null without one",
        ),
        int(
            "prompt_tokens_min",
            tally.prompt_tokens.map(|t| t.min),
            "fewest prompt tokens of an answered request",
        )
        .unit("tok"),
        Column::float(
            "prompt_tokens_mean",
            [tally.prompt_tokens.map(|t| t.mean())],
        )
        .unit("tok")
        .describe("prompt tokens of answered requests, as the server counts them: mean"),
        int(
            "prompt_tokens_max",
            tally.prompt_tokens.map(|t| t.max),
            "most prompt tokens of an answered request",
        )
        .unit("tok"),
        int(
            "sessions",
            sessions,
            "sessions planned; null if requests stand alone",
        ),
        int(
            "started_unix_ns",
            Some(cell.started_unix_ns),
            "wall-clock time of the cell's start, since 1970",
        )
        .unit("ns"),
        int(
            "measured_from_ns",
            cell.measured_from_ns,
            "when the measured phase began",
        )
        .unit("ns"),
        int(
            "window_from_ns",
            cell.window.map(|w| w.0),
            "first `sent_ns` of measured requests",
        )
        .unit("ns"),
        int(
            "window_to_ns",
            cell.window.map(|w| w.1),
            "last `done_ns` of measured requests",
        )
        .unit("ns"),
        int(
            "client_cpu_ns",
            cell.client_cpu_ns,
            "CPU time of the measuring thread in the measured phase",
        )
        .unit("ns"),
        Column::float("send_lag_p99", [send_lag_ms.map(|lag| lag.p99)])
            .unit("ms")
            .describe("99th percentile (type 7) of `send_lag_ns` of measured requests"),
        int(
            "connections",
            Some(cell.connections as i64),
            "connections opened",
        ),
        int(
            "replays",
            Some(tally.replays as i64),
            "requests replayed on a fresh connection",
        ),
        Column::float("send_lag_p50", [send_lag_ms.map(|lag| lag.p50)])
            .unit("ms")
            .describe("median of `send_lag_ns` of measured requests"),
        Column::float("send_lag_max", [send_lag_ms.map(|lag| lag.max)])
            .unit("ms")
            .describe("largest `send_lag_ns` of measured requests"),
    ];
    columns.extend(ClientHealth::columns(cell.health.as_ref()));
    Table::new(columns)
}
