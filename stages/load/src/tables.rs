//! The tables of a run.

use artifacts::{Column, Digest, Table, TableError};

use crate::rows::{Phase, RequestRow, RequestStatus, chunks_table, requests_table};
use crate::run::{LoadResult, LoadSpec};
use crate::scrape::metrics_table;

/// Returns the tables of a run under their names: `requests`, `chunks`, `cell`,
/// `server_metrics` and `prompts`.
///
/// # Errors
/// If the prompt set cannot be written as Parquet.
pub fn tables(spec: &LoadSpec, result: &LoadResult) -> Result<Vec<(&'static str, Table)>, TableError> {
    let prompts = spec.prompts.table()?;
    let digest = Digest::of(&prompts.to_parquet()?);
    Ok(vec![
        ("requests", requests_table(&result.requests)?),
        ("chunks", chunks_table(&result.chunks)?),
        ("cell", cell_table(spec, result, &digest)?),
        ("server_metrics", metrics_table(&result.server_metrics)?),
        ("prompts", prompts),
    ])
}

/// Returns the measured requests that were answered.
fn answered(requests: &[RequestRow]) -> impl Iterator<Item = &RequestRow> {
    requests.iter().filter(|r| {
        r.phase == Phase::Measured && matches!(r.status, RequestStatus::Ok | RequestStatus::InvalidOutput)
    })
}

/// Makes the table `cell`: one row.
fn cell_table(spec: &LoadSpec, result: &LoadResult, prompt_set: &Digest) -> Result<Table, TableError> {
    let (cell, requests) = (&result.cell, result.requests.as_slice());
    let int = |name: &str, value: Option<i64>, meaning: &str| Column::int(name, [value]).describe(meaning);
    let text = |name: &str, value: &str, meaning: &str| Column::text(name, [Some(value)]).describe(meaning);
    let measured = requests.iter().filter(|r| r.phase == Phase::Measured && !r.superseded);
    let mut lags: Vec<f64> = measured.filter_map(|r| r.send_lag_ns).map(|lag| lag as f64).collect();
    lags.sort_by(f64::total_cmp);
    let prompt_tokens: Vec<i64> = answered(requests).filter_map(|r| r.prompt_tokens).collect();
    let mean = |values: &[i64]| {
        (!values.is_empty()).then(|| values.iter().sum::<i64>() as f64 / values.len() as f64)
    };
    let sessions = spec.prompts.sessions().map(|sessions| sessions.len() as i64);
    let replays = requests.iter().filter(|r| r.superseded).count();
    Table::new(vec![
        text("source", "measured", "where the rows come from: `measured` on a server, or `imported`"),
        int("expected_requests", Some(cell.expected_requests as i64), "measured requests planned")
            .unit("requests"),
        int("warmup_requests", Some(cell.warmup_requests as i64), "warm-up requests planned")
            .unit("requests"),
        text("arrival", cell.arrival, "the kind of arrivals"),
        int("clients", cell.clients.map(i64::from), "clients of a closed loop; null for open arrivals")
            .unit("clients"),
        Column::float("rate", [cell.rate])
            .unit("req/s")
            .describe("mean rate of open arrivals; null for closed loops and bursts"),
        text("api", cell.api, "the API spoken"),
        Column::boolean("streamed", [Some(cell.streamed)]).describe("whether answers were streamed"),
        text("prompt_set", &prompt_set.to_string(), "digest of the `prompts` table"),
        text(
            "length_source",
            spec.prompts.length_source.word(),
            "what counted the prompts' lengths: `server-tokenizer`, `tokenizer-file`, `words`, `characters`, or \
             `given` texts",
        ),
        Column::text("tokenizer", [spec.prompts.tokenizer.as_deref()])
            .describe("digest of the tokenizer's file, or fingerprint of the server's; null without one"),
        int(
            "prompt_tokens_min",
            prompt_tokens.iter().min().copied(),
            "fewest prompt tokens of an answered request",
        )
        .unit("tok"),
        Column::float("prompt_tokens_mean", [mean(&prompt_tokens)])
            .unit("tok")
            .describe("prompt tokens of answered requests, as the server counts them: mean"),
        int(
            "prompt_tokens_max",
            prompt_tokens.iter().max().copied(),
            "most prompt tokens of an answered request",
        )
        .unit("tok"),
        int("sessions", sessions, "sessions planned; null if requests stand alone"),
        int("started_unix_ns", Some(cell.started_unix_ns), "wall-clock time of the cell's start, since 1970")
            .unit("ns"),
        int("measured_from_ns", cell.measured_from_ns, "when the measured phase began").unit("ns"),
        int("window_from_ns", cell.window.map(|w| w.0), "first `sent_ns` of measured requests").unit("ns"),
        int("window_to_ns", cell.window.map(|w| w.1), "last `done_ns` of measured requests").unit("ns"),
        int("client_cpu_ns", cell.client_cpu_ns, "CPU time of the measuring thread in the measured phase")
            .unit("ns"),
        Column::float("send_lag_p99", [crate::summary::quantile(&lags, 0.99).map(|ns| ns / 1e6)])
            .unit("ms")
            .describe("99th percentile (type 7) of `send_lag_ns` of measured requests"),
        int("connections", Some(cell.connections as i64), "connections opened"),
        int("replays", Some(replays as i64), "requests replayed on a fresh connection"),
    ])
}
