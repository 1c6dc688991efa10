//! The tables of a run.

use std::io;

use artifacts::{Digest, Table, TableError};
use contract::{Cell, Chunk, Phase, Request, Row as _, ServerMetric};

use crate::prompts::PromptSet;
use crate::run::{CellFacts, LoadResult, LoadSpec};
use crate::scrape::INTERVAL;
use crate::summary::Distribution;
use crate::tally::Tally;

/// Returns the tables of a run with their names: `requests`, `chunks`, `cell`, `server_metrics` and `prompts`.
///
/// # Errors
/// If the prompts cannot be read again, or cannot be written as Parquet.
pub fn tables(spec: &LoadSpec, result: &LoadResult) -> io::Result<Vec<(&'static str, Table)>> {
    let prompts = spec.prompts.table()?;
    let made = |table: Result<Table, TableError>| table.map_err(io::Error::other);
    let digest = Digest::of(&prompts.to_parquet().map_err(io::Error::other)?);
    let tally = Tally::of(&result.requests, &result.chunks);
    let lags = lags(&result.requests);
    let cell = cell_table(&result.cell, &spec.prompts, &tally, lags.as_ref(), &digest);
    let interval = INTERVAL.as_millis().to_string();
    let metrics = ServerMetric::columns(&result.server_metrics);
    let metrics = Table::with_metadata(metrics, &[("interval_ms", &interval)]);
    Ok(vec![
        ("requests", made(Request::table(&result.requests))?),
        ("chunks", made(Chunk::table(&result.chunks))?),
        ("cell", made(cell)?),
        ("server_metrics", made(metrics)?),
        ("prompts", prompts),
    ])
}

/// Returns the send lags of measured requests, ms.
fn lags(requests: &[Request]) -> Option<Distribution> {
    Distribution::of(requests.iter().filter_map(measured_lag).collect())
}

/// Returns the send lag of a measured request that is not superseded, ms.
pub(crate) fn measured_lag(row: &Request) -> Option<f64> {
    let counted = row.phase == Phase::Measured && !row.superseded;
    row.send_lag_ns
        .filter(|_| counted)
        .map(|ns| ns as f64 / 1e6)
}

/// Makes the table `cell`: one row.
pub(crate) fn cell_table(
    facts: &CellFacts,
    prompts: &PromptSet,
    tally: &Tally,
    send_lag_ms: Option<&Distribution>,
    prompt_set: &Digest,
) -> Result<Table, TableError> {
    let count = |n: u64| i64::try_from(n).ok();
    let mut cell = Cell {
        source: facts.source,
        expected_requests: count(facts.expected_requests),
        warmup_requests: count(facts.warmup_requests),
        unsent_requests: count(facts.unsent_requests),
        arrival: Some(facts.arrival.to_owned()),
        clients: facts.clients.map(i64::from),
        rate: facts.rate,
        api: Some(facts.api.to_owned()),
        streamed: Some(facts.streamed),
        prompt_set: Some(prompt_set.to_string()),
        length_source: Some(prompts.length_source),
        tokenizer: prompts.tokenizer.clone(),
        prompt_tokens_min: tally.prompt_tokens.map(|t| t.min),
        prompt_tokens_mean: tally.prompt_tokens.map(|t| t.mean()),
        prompt_tokens_max: tally.prompt_tokens.map(|t| t.max),
        sessions: prompts.sessions().map(|sessions| sessions.len() as i64),
        started_unix_ns: Some(facts.started_unix_ns),
        started_monotonic_ns: Some(facts.started_monotonic_ns).filter(|at| *at > 0),
        measured_from_ns: facts.measured_from_ns,
        window_from_ns: facts.window.map(|window| window.0),
        window_to_ns: facts.window.map(|window| window.1),
        client_cpu_ns: facts.client_cpu_ns,
        send_lag_p50: send_lag_ms.map(|lag| lag.p50),
        send_lag_p99: send_lag_ms.map(|lag| lag.p99),
        send_lag_max: send_lag_ms.map(|lag| lag.max),
        connections: count(facts.connections),
        replays: count(tally.replays),
        cache_reset: facts.cache_reset,
        ..Cell::default()
    };
    if let Some(health) = &facts.health {
        health.enter(&mut cell);
    }
    Cell::table(&[cell])
}
