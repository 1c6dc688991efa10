//! The tables of an import: those of a measured cell, and `summary`.

use artifacts::{Column, Table, TableError};
use pipeline::stage::Json;
use serde_json::json;

use super::rows::{Imported, Row, Statistic};
use super::settings::Import;

/// Returns the tables under their names: `requests`, `chunks` where the file tells when chunks
/// arrived, `cell`, and `summary` where it holds aggregates.
pub(crate) fn tables(
    import: &Import,
    imported: &Imported,
    digest: &str,
) -> Result<Vec<(&'static str, Table)>, TableError> {
    let mut all = vec![("requests", requests(&imported.requests)?)];
    if imported.requests.iter().any(|row| row.chunks_ns.is_some()) {
        all.push(("chunks", chunks(&imported.requests)?));
    }
    all.push(("cell", cell(import, imported, digest)?));
    if !imported.summary.is_empty() {
        all.push(("summary", summary(import, &imported.summary)?));
    }
    Ok(all)
}

/// Returns the document `import`: what was read, and what each column was made from.
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
        "clock": clock(imported),
        "requests": imported.requests.len(),
        "statistics": imported.summary.len(),
        "mapping": mapping,
    })
}

/// Without rows there is no clock.
fn clock(imported: &Imported) -> Option<&'static str> {
    (!imported.requests.is_empty()).then(|| imported.facts.clock.word())
}

/// Makes the table `requests`. The columns are a measured cell's; those that no file holds are
/// left out, and readers take an absent column for nulls.
fn requests(rows: &[Row]) -> Result<Table, TableError> {
    let int = |name: &str, unit: Option<&str>, meaning: &str, of: fn(&Row) -> Option<i64>| {
        let column = Column::int(name, rows.iter().map(of)).describe(meaning);
        if let Some(unit) = unit {
            column.unit(unit)
        } else {
            column
        }
    };
    let text = |name: &str, meaning: &str, of: fn(&Row) -> Option<String>| {
        Column::text(name, rows.iter().map(of)).describe(meaning)
    };
    let (ns, tok) = (Some("ns"), Some("tok"));
    let phase = |row: &Row| Some(if row.warmup { "warmup" } else { "measured" }.to_owned());
    Table::new(vec![
        Column::int("request_id", (0..rows.len()).map(|i| Some(i as i64)))
            .describe("the request's place in the file, from 0"),
        Column::int("attempt", rows.iter().map(|_| Some(1)))
            .describe("always 1: files tell of no attempts"),
        text(
            "phase",
            "`warmup` or `measured`; aggregates take `measured`",
            phase,
        ),
        int(
            "client_id",
            None,
            "the client of a closed loop, if told",
            |r| r.client_id,
        ),
        int(
            "session_id",
            None,
            "the session of a multi-turn workload, if told",
            |r| r.session_id,
        ),
        int("turn", None, "the turn within its session, if told", |r| {
            r.turn
        }),
        text(
            "prompt_digest",
            "digest of the prompt's text, if told",
            |r| r.prompt_digest.clone(),
        ),
        int("scheduled_ns", ns, "when it was to be sent, if told", |r| {
            r.scheduled_ns
        }),
        int(
            "sent_ns",
            ns,
            "when the tool says it was sent; see `clock` of the table `cell`",
            |r| r.sent_ns,
        ),
        int(
            "headers_ns",
            ns,
            "when the answer's head was complete, if told",
            |r| r.headers_ns,
        ),
        int(
            "first_token_ns",
            ns,
            "first token as the tool means it; null if none or untold",
            |r| r.first_token_ns,
        ),
        int(
            "last_token_ns",
            ns,
            "last token as the tool means it; null if none or untold",
            |r| r.last_token_ns,
        ),
        int(
            "done_ns",
            ns,
            "end of the request as the tool means it; null if untold",
            |r| r.done_ns,
        ),
        int("prompt_tokens", tok, "as the file says", |r| {
            r.prompt_tokens
        }),
        int(
            "cached_prompt_tokens",
            tok,
            "of these, taken from a cache, if told",
            |r| r.cached_prompt_tokens,
        ),
        int(
            "output_tokens",
            tok,
            "as the file says; null for requests that failed",
            |r| r.output_tokens,
        ),
        text(
            "tokens_source",
            "who counted: `usage`, `tokenizer`; null if the file does not say",
            |r| r.tokens_source.clone(),
        ),
        int(
            "requested_output_tokens",
            tok,
            "output tokens asked for, if told",
            |r| r.requested_output_tokens,
        ),
        int(
            "chunks",
            Some("chunks"),
            "chunks whose times the file holds",
            |r| r.chunks_ns.as_ref().map(|chunks| chunks.len() as i64),
        ),
        text("finish_reason", "why generation ended, if told", |r| {
            r.finish_reason.clone()
        }),
        text(
            "status",
            "`ok`, one of the words of a measured cell, or `failed` where the file does not say how",
            |r| Some(r.status.clone()),
        ),
        int("http_status", None, "the HTTP status code, if told", |r| {
            r.http_status
        }),
        text("error", "what went wrong, as the tool says", |r| {
            r.error.clone()
        }),
        int("send_lag_ns", ns, "how late it was sent, if told", |r| {
            r.send_lag_ns.or_else(|| Some(r.sent_ns? - r.scheduled_ns?))
        }),
        int(
            "output_characters",
            Some("characters"),
            "length of the generated text, if the file has it",
            |r| r.output_characters,
        ),
        text(
            "output_digest",
            "BLAKE3 of the generated text, if the file has it",
            |r| r.output_digest.clone(),
        ),
    ])
}

/// Makes the table `chunks`: one row per chunk, by request and time.
fn chunks(rows: &[Row]) -> Result<Table, TableError> {
    let all = || {
        rows.iter().enumerate().flat_map(|(i, row)| {
            row.chunks_ns
                .iter()
                .flatten()
                .map(move |at| (i as i64, *at))
        })
    };
    Table::new(vec![
        Column::int("request_id", all().map(|(id, _)| Some(id)))
            .describe("the request, as in `requests`"),
        Column::int("attempt", all().map(|_| Some(1))).describe("its attempt"),
        Column::int("at_ns", all().map(|(_, at)| Some(at)))
            .unit("ns")
            .describe("when it arrived, from the gaps in the file"),
        Column::int("bytes", all().map(|_| None))
            .unit("B")
            .describe("untold"),
        Column::int("tokens", all().map(|_| None))
            .unit("tok")
            .describe("untold"),
    ])
}

/// Makes the table `cell`: one row.
fn cell(import: &Import, imported: &Imported, digest: &str) -> Result<Table, TableError> {
    let facts = &imported.facts;
    let int = |name: &str, value: Option<i64>, meaning: &str| {
        Column::int(name, [value]).describe(meaning)
    };
    let text = |name: &str, value: Option<&str>, meaning: &str| {
        Column::text(name, [value]).describe(meaning)
    };
    let measured = || imported.requests.iter().filter(|row| !row.warmup);
    let window = |of: fn(&Row) -> Option<i64>| measured().filter_map(of);
    let has_rows = !imported.requests.is_empty();
    let warmup = imported.requests.iter().filter(|row| row.warmup).count() as i64;
    Table::new(vec![
        text(
            "source",
            Some("imported"),
            "where the rows come from: `measured`, `imported` or `simulated`",
        ),
        text(
            "tool",
            Some(import.tool.word()),
            "the tool that measured, or the format of its table",
        ),
        text(
            "tool_version",
            facts.tool_version.as_deref(),
            "its version; null if untold",
        ),
        text(
            "original",
            Some(digest),
            "digest of the file, kept as `original`",
        ),
        text(
            "clock",
            clock(imported),
            "since when times count: `cell`, the first request sent; `request`, each its own sending, where the \
             file has no start times; null without rows",
        ),
        text(
            "model",
            facts.model.as_deref(),
            "the model as the file names it",
        ),
        int(
            "expected_requests",
            facts.expected_requests,
            "measured requests planned, if told",
        )
        .unit("requests"),
        int(
            "warmup_requests",
            has_rows.then_some(warmup),
            "warm-up requests in the file; null without rows",
        )
        .unit("requests"),
        text(
            "arrival",
            facts.arrival.as_deref(),
            "the kind of arrivals, if told",
        ),
        int(
            "clients",
            facts.clients,
            "clients of a closed loop, if told",
        )
        .unit("clients"),
        Column::float("rate", [facts.rate])
            .unit("req/s")
            .describe("mean rate of open arrivals, if told"),
        text(
            "api",
            facts.api.as_deref(),
            "the API or backend as the tool names it",
        ),
        Column::boolean("streamed", [facts.streamed])
            .describe("whether answers were streamed, if it shows"),
        int(
            "started_unix_ns",
            facts.started_unix_ns,
            "wall-clock time of the first request, since 1970",
        )
        .unit("ns"),
        int(
            "window_from_ns",
            window(|r| r.sent_ns).min(),
            "first `sent_ns` of measured requests",
        )
        .unit("ns"),
        int(
            "window_to_ns",
            window(|r| r.done_ns).max(),
            "last `done_ns` of measured requests",
        )
        .unit("ns"),
    ])
}

/// Makes the table `summary`: one row per aggregate of the tool.
fn summary(import: &Import, all: &[Statistic]) -> Result<Table, TableError> {
    let text = |name: &str, meaning: &str, of: fn(&Statistic) -> Option<String>| {
        Column::text(name, all.iter().map(of)).describe(meaning)
    };
    Table::new(vec![
        Column::text("tool", all.iter().map(|_| Some(import.tool.word())))
            .describe("the tool that computed it"),
        text(
            "metric",
            "the tool's own name of the metric, which need not be ours",
            |s| Some(s.metric.clone()),
        ),
        text(
            "statistic",
            "`mean`, `median`, `p99`, …; `value` for a plain figure",
            |s| Some(s.statistic.clone()),
        ),
        text("unit", "the unit of `value`", |s| s.unit.clone()),
        Column::float("value", all.iter().map(|s| Some(s.value)))
            .describe("as the tool computed it"),
        Column::int("n", all.iter().map(|s| s.n))
            .describe("over how many values; null if the file does not say"),
        text("definition", "what the tool means by the metric", |s| {
            Some(s.definition.clone())
        }),
    ])
}
