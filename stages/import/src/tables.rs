//! The tables of an import: those of a measured cell, and `summary`.

use artifacts::{Table, TableError};
use contract::{Cell, Chunk, Phase, Request, Row as _, RowSource, ToolStatistic};
use pipeline::stage::Json;
use serde_json::json;

use crate::rows::{Clock, Imported, Row, Statistic};
use crate::settings::Import;

/// Returns the tables by name: `requests`, `cell`, `chunks` if the file records when chunks
/// arrived, and `summary` if it holds aggregates.
pub(crate) fn tables(
    import: &Import,
    imported: &Imported,
    digest: &str,
) -> Result<Vec<(&'static str, Table)>, TableError> {
    let mut all = vec![("requests", requests(imported)?)];
    if imported.requests.iter().any(|row| row.chunks_ns.is_some()) {
        all.push(("chunks", chunks(&imported.requests)?));
    }
    let about = cell(import, imported, digest)?;
    if let Some(why) = contract::impossible_cell(&about) {
        return Err(TableError::new(why));
    }
    all.push(("cell", about));
    if !imported.summary.is_empty() {
        all.push(("summary", summary(import, &imported.summary)?));
    }
    Ok(all)
}

/// Returns the document `import`: what was read, and the source of each column.
pub(crate) fn description(import: &Import, imported: &Imported, digest: &str) -> Json {
    let mapping: serde_json::Map<String, Json> = imported
        .mapping
        .iter()
        .map(|(ours, from)| (ours.clone(), json!(from)))
        .collect();
    json!({
        "tool": import.tool.word(),
        "tool_version": imported.facts.tool_version,
        "original": digest,
        "entry": import.entry,
        "model": imported.facts.model,
        "clock": clock(imported).map(Clock::word),
        "requests": imported.requests.len(),
        "statistics": imported.summary.len(),
        "mapping": mapping,
    })
}

/// Returns the clock; none without rows.
fn clock(imported: &Imported) -> Option<Clock> {
    (!imported.requests.is_empty()).then_some(imported.facts.clock)
}

/// Makes a row of `requests`. Values that the file lacks are null.
fn request(request_id: i64, row: &Row, waits_in_line: bool) -> Request {
    Request {
        request_id,
        attempt: 1,
        superseded: false,
        phase: match row.warmup {
            true => Phase::Warmup,
            false => Phase::Measured,
        },
        client_id: row.client_id,
        session_id: row.session_id,
        turn: row.turn,
        prompt_index: None,
        prompt_digest: row.prompt_digest.clone(),
        scheduled_ns: row.scheduled_ns,
        connect_ns: None,
        sent_ns: row.sent_ns,
        headers_ns: row.headers_ns,
        first_token_ns: row.first_token_ns,
        first_silent_ns: None,
        first_reasoning_ns: None,
        first_answer_ns: None,
        last_token_ns: row.last_token_ns,
        done_ns: row.done_ns,
        prompt_tokens: row.prompt_tokens,
        cached_prompt_tokens: row.cached_prompt_tokens,
        output_tokens: row.output_tokens,
        reasoning_tokens: None,
        tokens_source: row.tokens_source,
        tokens_agree: None,
        requested_output_tokens: row.requested_output_tokens,
        chunks: row.chunks_ns.as_ref().map(|chunks| chunks.len() as i64),
        first_chunk_tokens: None,
        silent_events: None,
        finish_reason: row.finish_reason.clone(),
        status: row.status,
        http_status: row.http_status,
        retry_after_s: None,
        error: row.error.clone(),
        schema_valid: None,
        send_lag_ns: row.send_lag_ns.or_else(|| match waits_in_line {
            true => None,
            false => Some(row.sent_ns?.saturating_sub(row.scheduled_ns?)),
        }),
        in_flight_at_send: None,
        reads: None,
        received_bytes: None,
        output_characters: row.output_characters,
        output_digest: row.output_digest.clone(),
        server_prompt_ms: None,
        server_predicted_ms: None,
    }
}

/// Makes the table `requests`: one row per request, in the file's order.
fn requests(imported: &Imported) -> Result<Table, TableError> {
    let waits = imported.facts.waits_in_line;
    let rows = (0..).zip(&imported.requests);
    let rows: Vec<Request> = rows.map(|(id, row)| request(id, row, waits)).collect();
    match rows.iter().find_map(Request::impossible) {
        Some(why) => Err(TableError::new(why)),
        None => Request::table(&rows),
    }
}

/// Makes the table `chunks`: one row per chunk, by request and time.
fn chunks(rows: &[Row]) -> Result<Table, TableError> {
    let chunk = |request_id, at_ns: &i64| Chunk {
        request_id,
        attempt: 1,
        at_ns: *at_ns,
        bytes: None,
        tokens: None,
        read: None,
    };
    let chunks = (0..).zip(rows).flat_map(|(id, row)| {
        let times = row.chunks_ns.iter().flatten();
        times.map(move |at_ns| chunk(id, at_ns))
    });
    let chunks: Vec<Chunk> = chunks.collect();
    match chunks.iter().find_map(Chunk::impossible) {
        Some(why) => Err(TableError::new(why)),
        None => Chunk::table(&chunks),
    }
}

/// Makes the table `cell`: one row.
fn cell(import: &Import, imported: &Imported, digest: &str) -> Result<Table, TableError> {
    let facts = &imported.facts;
    let measured = || imported.requests.iter().filter(|row| !row.warmup);
    let has_rows = !imported.requests.is_empty();
    let one_clock = facts.clock == Clock::Cell;
    let warmup = imported.requests.iter().filter(|row| row.warmup).count() as i64;
    Cell::table(&[Cell {
        source: RowSource::Imported,
        tool: Some(import.tool.word().to_owned()),
        tool_version: facts.tool_version.clone(),
        original: Some(digest.to_owned()),
        clock: clock(imported),
        model: facts.model.clone(),
        expected_requests: facts.expected_requests,
        warmup_requests: has_rows.then_some(warmup),
        arrival: facts.arrival.clone(),
        clients: facts.clients,
        rate: facts.rate,
        api: facts.api.clone(),
        streamed: facts.streamed,
        started_unix_ns: facts.started_unix_ns,
        window_from_ns: measured()
            .filter_map(|row| row.sent_ns)
            .min()
            .filter(|_| one_clock),
        window_to_ns: measured()
            .filter_map(|row| row.done_ns)
            .max()
            .filter(|_| one_clock),
        ..Cell::default()
    }])
}

/// Makes the table `summary`: one row per aggregate of the tool.
fn summary(import: &Import, all: &[Statistic]) -> Result<Table, TableError> {
    let row = |statistic: &Statistic| ToolStatistic {
        tool: import.tool.word().to_owned(),
        metric: statistic.metric.clone(),
        statistic: statistic.statistic.clone(),
        unit: statistic.unit.clone(),
        value: statistic.value,
        n: statistic.n,
        definition: statistic.definition.clone(),
    };
    ToolStatistic::table(&all.iter().map(row).collect::<Vec<_>>())
}
