//! The column map as an experiment declares it: mistakes that are visible without the file.

use contract::{Phase, RequestStatus, TokenSource, Word};
use pipeline::stage::Problem;

use super::{COUNTS, MOMENTS, SPANS, TEXTS, is_time};
use crate::settings::{ColumnSource, Import, Tool, Unit};

/// Returns our column for other usual names of it.
fn meant(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace('-', "_");
    let ours = match name.as_str() {
        "start" | "start_time" | "started" | "timestamp" | "time" | "sent_at" => "sent",
        "end" | "end_time" | "finished" | "completed" | "done_at" => "done",
        "ttft" | "ttft_ms" | "ttft_s" | "time_to_first_token" => "ttft",
        "latency" | "e2e" | "e2el" | "request_time" | "total_time" | "duration" => {
            "request_latency"
        }
        "input_tokens" | "input_len" | "isl" | "prompt_len" => "prompt_tokens",
        "completion_tokens" | "tokens" | "output_len" | "osl" | "generated_tokens" => {
            "output_tokens"
        }
        "success" | "ok" | "outcome" => "status",
        "status_code" | "http_code" | "code" => "http_status",
        "error_message" | "exception" => "error",
        _ => return None,
    };
    Some(ours)
}

/// Returns what is wrong with a declared value that must be one of certain words, and the remedy.
fn unknown_word(name: &str, value: &str, ok: &[String]) -> Option<(String, String)> {
    let words = match name {
        "status" if ok.is_empty() => RequestStatus::EACH,
        "phase" => Phase::EACH,
        "tokens_source" => TokenSource::EACH,
        _ => return None,
    };
    (!words.contains(&value)).then(|| {
        let message = format!("`{value}` is not a value of `{name}`");
        (message, pipeline::suggest::remedy(value, "values", words))
    })
}

/// Returns the mistakes in one entry of a column map.
fn entry_problems(name: &str, source: &ColumnSource) -> Vec<Problem> {
    let at = |message: String, hint: &str| {
        Problem::at(&["import", "columns", name], message).hint(hint.to_owned())
    };
    let mut all = Vec::new();
    let is_known = is_time(name) || COUNTS.contains(&name) || TEXTS.contains(&name);
    if !is_known {
        let names: Vec<&str> = MOMENTS
            .into_iter()
            .chain(SPANS.iter().map(|(span, _)| *span))
            .chain(COUNTS)
            .chain(TEXTS)
            .collect();
        let hint = match meant(name) {
            Some(ours) => format!("write `{ours}`"),
            None => pipeline::suggest::remedy(name, "columns", names),
        };
        return vec![at(format!("no column `{name}` can be imported"), &hint)];
    }
    match (&source.from, &source.value) {
        (Some(_), Some(_)) => all.push(at(
            "`from` and `value` cannot be given together".to_owned(),
            "keep one of them",
        )),
        (None, None) => all.push(at(
            "missing key `from`".to_owned(),
            "add `from:`, the column of the file",
        )),
        (None, Some(_)) if !TEXTS.contains(&name) => all.push(at(
            format!("`{name}` cannot be one value for every row"),
            "name a column of the file with `from:`, or remove the entry; values that the \
             file does not hold stay null",
        )),
        _ => {}
    }
    if is_time(name) && source.unit.is_none() {
        all.push(at(
            format!("the unit of `{name}` is unknown"),
            "write `{from: COLUMN, unit: ms}`, or `s`, `us`, `ns`; a name that ends in its unit, such as `sent_ms`, needs none",
        ));
    }
    if !is_time(name) && source.unit.is_some() {
        all.push(at(
            format!("`{name}` is not a time, so it has no unit"),
            "remove `unit`",
        ));
    }
    if let Some(value) = &source.value {
        all.extend(unknown_word(name, value, &source.ok).map(|(message, hint)| at(message, &hint)));
    }
    if name == "status" && source.value.is_some() && !source.ok.is_empty() {
        all.push(at(
            "`ok` names words of the file, but `value` takes nothing from it".to_owned(),
            "remove `ok`",
        ));
    }
    if name != "status" && !source.ok.is_empty() {
        all.push(at("`ok` belongs to `status`".to_owned(), "remove it"));
    }
    all
}

/// Adds the units that are left out because the names of the file's columns end with them.
pub(crate) fn add_units(import: &mut Import) {
    for (name, source) in &mut import.columns {
        if is_time(name) && source.unit.is_none() {
            source.unit = source.from.as_deref().and_then(Unit::of_name);
        }
    }
}

/// Returns the mistakes in a column map that are visible without the file.
pub(crate) fn problems(import: &Import) -> Vec<Problem> {
    if import.rows.is_some() && import.tool != Tool::Json {
        let message = format!(
            "`rows` is a path in JSON, but the file is {}",
            import.tool.title()
        );
        let hint = "remove it, or write `tool: json` with a column map";
        return vec![Problem::at(&["import", "rows"], message).hint(hint)];
    }
    if !import.tool.is_table() {
        if !import.only.is_empty() {
            let message = format!(
                "`where` picks rows of a table, but `{}` files are not tables",
                import.tool.word()
            );
            let hint = "write `entry:` for one of several results; a table is `tool: csv`, `tool: parquet` or `tool: json`";
            return vec![Problem::at(&["import", "where"], message).hint(hint)];
        }
        if import.columns.is_empty() {
            return Vec::new();
        }
        let message = format!("`{}` files need no column map", import.tool.word());
        return vec![
            Problem::at(&["import", "columns"], message)
                .hint("remove it, or name the format of a table: `tool: csv`, `parquet` or `json`"),
        ];
    }
    let mut all: Vec<Problem> = Vec::new();
    for (name, source) in &import.columns {
        all.extend(entry_problems(name, source));
    }
    let has = |name: &str| import.columns.contains_key(name);
    for (span, moment) in SPANS {
        if has(span) && has(moment) {
            let message = format!("`{span}` and `{moment}` both give this time");
            all.push(Problem::at(&["import", "columns", span], message).hint("keep one of them"));
        }
    }
    if let Some(moment) = MOMENTS
        .into_iter()
        .find(|m| *m != "sent" && has(m) && !has("sent"))
    {
        let message = format!("`{moment}` needs `sent`, the time from which it counts");
        all.push(
            Problem::at(&["import", "columns", moment], message)
                .hint("map `sent` too, or map spans: `ttft`, `e2e_latency`, `request_latency`"),
        );
    }
    if !has("status") && !has("error") {
        all.push(
            Problem::at(
                &["import", "columns"],
                "the map does not say which requests succeeded",
            )
            .hint(
                "map `status` or `error`; if all requests succeeded, declare `status: {value: ok}`",
            ),
        );
    }
    if import.entry.is_some() {
        all.push(
            Problem::at(&["import", "entry"], "a table holds one result").hint("remove `entry`"),
        );
    }
    all
}
