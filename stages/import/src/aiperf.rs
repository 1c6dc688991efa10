//! `aiperf profile`: one record per line (`profile_export.jsonl`), or aggregates
//! (`profile_export_aiperf.json`).

use std::collections::BTreeMap;

use contract::{RequestStatus, TokenSource};
use serde_json::Value;

use crate::json::{At, ImportError};
use crate::rows::{Imported, Row, Statistic};

const MILLISECONDS: i64 = 1_000_000;

/// AIPerf's definitions of its main metrics. The others are stored under their names only.
const MEANINGS: [(&str, &str); 7] = [
    (
        "time_to_first_token",
        "first response with content minus the sending",
    ),
    (
        "inter_token_latency",
        "(request_latency − time_to_first_token) ÷ (output tokens − 1), one value a request",
    ),
    (
        "inter_chunk_latency",
        "gap between two responses with content",
    ),
    (
        "request_latency",
        "last response with content minus the sending",
    ),
    (
        "output_token_throughput",
        "output tokens ÷ benchmark duration",
    ),
    (
        "request_throughput",
        "completed requests ÷ benchmark duration",
    ),
    (
        "output_token_throughput_per_user",
        "1 ÷ inter_token_latency",
    ),
];

/// Reads a file of records, or of aggregates.
pub(crate) fn read(documents: &[Value]) -> Result<Imported, ImportError> {
    let first = At::root(&documents[0], "$");
    if first.get("metadata").is_none() {
        return aggregates(&first);
    }
    let mut imported = Imported::default();
    let records: Vec<At<'_>> = documents
        .iter()
        .enumerate()
        .map(|(i, value)| At::root(value, format!("record {} $", i + 1)))
        .collect();
    let mut base = i64::MAX;
    let mut several_turns = false;
    imported.warnings.extend(check_apart(&records)?);
    for record in &records {
        let metadata = record.need("metadata")?;
        base = base.min(metadata.need("request_start_ns")?.count()?);
        several_turns |= metadata
            .get("turn_index")
            .is_some_and(|turn| turn.value != 0);
    }
    for record in &records {
        imported.requests.push(row(record, base, several_turns)?);
    }
    imported.facts.started_unix_ns = Some(base);
    let streamed = imported
        .requests
        .iter()
        .any(|row| row.first_token_ns.is_some());
    imported.facts.streamed = streamed.then_some(true);
    imported.map(&[
        ("phase", "metadata.benchmark_phase"),
        ("sent_ns", "metadata.request_start_ns − the smallest"),
        ("first_token_ns", "sent_ns + metrics.time_to_first_token"),
        (
            "last_token_ns",
            "sent_ns + metrics.request_latency: the last response with content",
        ),
        (
            "chunks.at_ns",
            "first_token_ns + the running sum of metrics.inter_chunk_latency",
        ),
        (
            "done_ns",
            "metadata.request_end_ns − the smallest request_start_ns",
        ),
        (
            "send_lag_ns",
            "metadata.request_start_ns − metadata.credit_issued_ns",
        ),
        (
            "prompt_tokens",
            "metrics.usage_prompt_tokens, else metrics.input_sequence_length",
        ),
        (
            "output_tokens",
            "metrics.usage_completion_tokens, else metrics.output_sequence_length",
        ),
        (
            "tokens_source",
            "usage where metrics.usage_completion_tokens is there, else tokenizer",
        ),
        (
            "status, http_status, error",
            "error, metadata.was_cancelled",
        ),
    ]);
    if several_turns {
        imported.map(&[(
            "session_id, turn",
            "metadata.session_num, metadata.turn_index",
        )]);
    }
    Ok(imported)
}

/// Refuses a record that the file holds twice. Returns a warning if two records have the same turn of a session, as
/// those of two runs do.
fn check_apart(records: &[At<'_>]) -> Result<Option<String>, ImportError> {
    let mut requests: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut warning = None;
    for (at, record) in records.iter().enumerate() {
        let metadata = record.need("metadata")?;
        let id = metadata
            .get("x_request_id")
            .and_then(|id| id.value.as_str());
        if let Some((id, first)) = id.and_then(|id| Some((id, requests.insert(id, at)?))) {
            return Err(ImportError::at(
                format!("{}.x_request_id", metadata.path),
                format!("record {} has the same `{id}`", first + 1),
                "the file holds a record twice; import the file that the tool wrote",
            ));
        }
        let keys = [
            "benchmark_phase",
            "phase_index",
            "session_num",
            "turn_index",
            "agent_depth",
        ];
        let turn = keys.map(|key| {
            metadata
                .get(key)
                .map_or(String::new(), |value| value.value.to_string())
        });
        if turn[2].is_empty() {
            continue;
        }
        let (session, number) = (turn[2].clone(), turn[3].clone());
        if let Some(first) = turns.insert(turn.to_vec(), at) {
            warning.get_or_insert_with(|| format!(
                "records {} and {} both are turn {number} of session {session}: if the file holds several runs, throughput \
                 counts the time between them. Import one run a file",
                first + 1,
                at + 1
            ));
        }
    }
    Ok(warning)
}

fn row(record: &At<'_>, base: i64, several_turns: bool) -> Result<Row, ImportError> {
    let metadata = record.need("metadata")?;
    let metrics = record.need("metrics")?;
    let start = metadata.need("request_start_ns")?.count()?;
    let sent = start - base;
    let value = |name: &str| metrics.get(name).and_then(|metric| metric.get("value"));
    let count = |name: &str| value(name).map(|v| v.count()).transpose();
    let after = |name: &str| -> Result<Option<i64>, ImportError> {
        let Some(metric) = metrics.get(name) else {
            return Ok(None);
        };
        check_unit(&metric)?;
        Ok(Some(sent + metric.need("value")?.span(MILLISECONDS)?))
    };
    let phase = metadata.need("benchmark_phase")?;
    let mut row = Row {
        warmup: match phase.text()? {
            "warmup" => true,
            "profiling" => false,
            other => {
                let hint = "known phases are `warmup` and `profiling`, as AIPerf 0.13 writes them";
                return Err(ImportError::at(
                    phase.path,
                    format!("`{other}` is not a phase of a benchmark"),
                    hint,
                ));
            }
        },
        sent_ns: Some(sent),
        send_lag_ns: match metadata.get("credit_issued_ns") {
            Some(issued) => Some(start - issued.count()?),
            None => None,
        },
        first_token_ns: after("time_to_first_token")?,
        last_token_ns: after("request_latency")?,
        done_ns: Some(metadata.need("request_end_ns")?.count()? - base),
        ..Row::new(RequestStatus::Ok)
    };
    if row.done_ns < row.sent_ns {
        return Err(ImportError::at(
            format!("{}.request_end_ns", metadata.path),
            "the request ended before it started: a negative time",
            "the wall clock was set back during the run; measure again",
        ));
    }
    let usage = count("usage_completion_tokens")?;
    row.output_tokens = usage.or(count("output_sequence_length")?);
    row.tokens_source = row.output_tokens.map(|_| {
        if usage.is_some() {
            TokenSource::Usage
        } else {
            TokenSource::Tokenizer
        }
    });
    row.prompt_tokens = count("usage_prompt_tokens")?.or(count("input_sequence_length")?);
    if several_turns {
        row.session_id = metadata.get("session_num").map(|v| v.count()).transpose()?;
        row.turn = metadata.get("turn_index").map(|v| v.count()).transpose()?;
    }
    if let (Some(first), Some(gaps)) = (row.first_token_ns, metrics.get("inter_chunk_latency")) {
        check_unit(&gaps)?;
        let mut moment = first as f64;
        let mut chunks = vec![first];
        for gap in gaps.need("value")?.spans(MILLISECONDS)? {
            moment += gap;
            chunks.push(moment.round() as i64);
        }
        row.chunks_ns = Some(chunks);
    }
    let cancelled = metadata
        .get("was_cancelled")
        .is_some_and(|v| v.value == &Value::Bool(true));
    if let Some(error) = record.get("error") {
        fail(&mut row, &error)?;
    }
    if cancelled {
        row.status = RequestStatus::Cancelled;
    }
    Ok(row)
}

/// Adds to the row of a failed request why it failed.
fn fail(row: &mut Row, error: &At<'_>) -> Result<(), ImportError> {
    let code = error.get("code").map(|v| v.count()).transpose()?;
    let kind = error
        .get("type")
        .map(|v| v.text())
        .transpose()?
        .unwrap_or_default();
    let message = error
        .get("message")
        .map(|v| v.text())
        .transpose()?
        .unwrap_or_default();
    row.http_status = code.filter(|code| (400..600).contains(code));
    let refused = error
        .get("cause_chain")
        .is_some_and(|c| c.value.to_string().contains("ConnectionRefused"));
    row.status = match row.http_status {
        Some(_) => RequestStatus::HttpError,
        None if refused => RequestStatus::Refused,
        None if kind.contains("Timeout") => RequestStatus::Timeout,
        None => RequestStatus::Failed,
    };
    row.error = Some(format!("{kind}: {message}"));
    (row.output_tokens, row.tokens_source) = (None, None);
    Ok(())
}

/// Checks that these times are in ms, which AIPerf writes and states.
fn check_unit(metric: &At<'_>) -> Result<(), ImportError> {
    let unit = metric.need("unit")?;
    match unit.text()? {
        "ms" => Ok(()),
        other => Err(ImportError::at(
            unit.path,
            format!("the unit is `{other}`, not `ms`"),
            "AIPerf writes times in ms; import the file that the tool wrote",
        )),
    }
}

fn aggregates(file: &At<'_>) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    imported.facts.tool_version = file
        .get("aiperf_version")
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    for name in file.object()?.keys() {
        let Some(metric) = file.get(name).filter(|metric| metric.get("unit").is_some()) else {
            continue;
        };
        let unit = metric.need("unit")?.text()?;
        let n = metric.get("count").map(|v| v.small_count()).transpose()?;
        let meaning = MEANINGS
            .iter()
            .find(|(column, _)| column == name)
            .map(|(_, meaning)| *meaning);
        for statistic in metric
            .object()?
            .keys()
            .filter(|key| !matches!(key.as_str(), "unit" | "count"))
        {
            let Some(value) = metric.get(statistic) else {
                continue;
            };
            imported.summary.push(Statistic {
                metric: name.clone(),
                statistic: statistic.clone(),
                unit: Some(unit.to_owned()),
                value: value.number()?,
                n,
                definition: format!(
                    "AIPerf: {}",
                    meaning.unwrap_or("as its documentation defines the metric")
                ),
            });
        }
    }
    if imported.summary.is_empty() {
        return Err(ImportError::at(
            "$",
            "neither records nor aggregates of AIPerf",
            "give `profile_export.jsonl` or `profile_export_aiperf.json`",
        ));
    }
    Ok(imported)
}
