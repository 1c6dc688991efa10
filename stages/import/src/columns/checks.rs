//! Checks of a table as a whole: whether it has the declared format, its end, and its words for success.

use std::collections::BTreeSet;

use contract::RequestStatus;
use tabular::{Field, Format, Sheet};

use super::{NAMED, is_time};
use crate::json::ImportError;
use crate::rows::Row;
use crate::settings::{Import, Tool};

/// Refuses a file of another format, and names the `tool` that reads it.
pub(super) fn foreign(format: Format, bytes: &[u8]) -> Result<(), ImportError> {
    if bytes.starts_with(b"PAR1") != (format == Format::Parquet)
        && tabular::other_kind(bytes).is_none()
    {
        return match format {
            Format::Parquet if bytes.is_empty() => Ok(()),
            Format::Parquet => Err(ImportError::at(
                "",
                "it is not a Parquet file",
                "if it is CSV, write `tool: csv`",
            )),
            _ => Err(ImportError::at(
                "",
                "it is a Parquet file",
                "write `tool: parquet`",
            )),
        };
    }
    let text = bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(bytes)
        .trim_ascii_start();
    let is_json = text.starts_with(b"{") || text.starts_with(b"[");
    match format {
        Format::Parquet => Ok(()),
        Format::Json if is_json || tabular::other_kind(bytes).is_some() => Ok(()),
        Format::Json if text.is_empty() => Err(ImportError::at(
            "",
            "the file is empty",
            "give a file with one object per request",
        )),
        Format::Json => Err(ImportError::at(
            "",
            "it is not JSON",
            "if it is CSV, write `tool: csv`",
        )),
        // A heading may begin with a bracket.
        _ if !text.starts_with(b"{") && !text.starts_with(b"[{") => Ok(()),
        _ => Err(match crate::recognised(bytes) {
            Ok(one) => of_tool(one.tool),
            Err(_) => ImportError::at(
                "",
                "it is JSON, not CSV",
                "if it has one object per request, write `tool: json`; otherwise name the tool that wrote it, such as \
                 `tool: vllm`",
            ),
        }),
    }
}

/// Refuses the result file of a tool that is read without a column map.
pub(super) fn of_tool(tool: Tool) -> ImportError {
    ImportError::at(
        "",
        format!("this file was written by {}", tool.title()),
        format!("write `tool: {}`, without `columns`", tool.word()),
    )
}

/// Warns of a table that has only headings.
pub(super) fn no_rows(sheet: &Sheet) -> Option<String> {
    (sheet.rows() == 0).then(|| {
        "the table has headings, but no rows: import the file that has a row for each request"
            .to_owned()
    })
}

/// Warns of a last line without an end: a file that was cut off within its last value looks like this.
pub(super) fn uncertain_end(format: Format, bytes: &[u8], sheet: &Sheet) -> Option<String> {
    if matches!(format, Format::Parquet | Format::Json)
        || bytes.ends_with(b"\n")
        || bytes.ends_with(b"\r")
    {
        return None;
    }
    let last = sheet.places.words(sheet.rows().checked_sub(1)?);
    Some(format!(
        "the last line has no end, as in a file that was cut off: check that the values of {last} are whole"
    ))
}

/// Warns if the file has no word for success that the map lists: then every request counts as failed.
pub(super) fn unlisted_status(import: &Import, sheet: &Sheet) -> Option<String> {
    let source = import.columns.get("status")?;
    let at = sheet.position(source.from.as_deref()?)?;
    let words: BTreeSet<String> = sheet.columns[at]
        .iter()
        .filter(|field| **field != Field::Null)
        .map(Field::to_string)
        .collect();
    let ok = |word: &String| source.ok.contains(word) || (source.ok.is_empty() && word == "ok");
    if words.is_empty() || words.iter().any(ok) {
        return None;
    }
    let listed = match source.ok.as_slice() {
        [] => "ok".to_owned(),
        listed => listed.join(", "),
    };
    let mut named: Vec<String> = words.into_iter().take(NAMED + 1).collect();
    if named.len() > NAMED {
        named[NAMED] = "…".to_owned();
    }
    Some(format!(
        "no row has a status that means success ({listed}), so all requests count as failed; the file has: {}. Correct \
         `ok:` of `status`",
        named.join(", ")
    ))
}

/// Warns if each row has an error, as where a column has a word for success: then every request counts as failed.
pub(super) fn all_in_error(import: &Import, rows: &[Row]) -> Option<String> {
    let decides = !import.columns.contains_key("status");
    let all = rows.iter().all(|row| row.status == RequestStatus::Failed);
    let first = rows.first().filter(|_| decides && all)?;
    Some(format!(
        "each row has a text for `error`, so all requests count as failed; the first is `{}`. If this means success, take \
         `status` from that column, as in `status: {{from: COLUMN, ok: [WORD]}}`",
        first.error.as_deref().unwrap_or_default()
    ))
}

/// Refuses a table of aggregates: a row of it is not a request.
pub(super) fn aggregates(sheet: &Sheet) -> Result<(), ImportError> {
    let has = |name: &str| sheet.position(name).is_some();
    let of_locust = [
        ["Request Count", "Failure Count"],
        ["Total Request Count", "Total Failure Count"],
    ];
    match of_locust
        .iter()
        .any(|names| names.iter().all(|name| has(name)))
    {
        true => Err(ImportError::at(
            "",
            "this file holds Locust's statistics, with rows for endpoints or moments and none for a request",
            "let a listener of Locust's event `request` write a row for each request, and import that file",
        )),
        false => Ok(()),
    }
}

/// Words in the name of a column that has a statistic of many requests.
const STATISTICS: [&str; 5] = ["mean", "avg", "average", "median", "percentile"];

/// Warns of a time whose column has the name of a statistic: a row is then not a request.
pub(super) fn statistics(import: &Import) -> Option<String> {
    let is_statistic = |name: &str| {
        let name = name.to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        let is_percentile = |word: &str| {
            let digits = word.strip_prefix('p').unwrap_or_default();
            (digits.len() == 2 || digits.starts_with("99"))
                && digits.bytes().all(|b| b.is_ascii_digit())
        };
        words.any(|word| STATISTICS.contains(&word) || is_percentile(word))
    };
    let mut times = import.columns.iter().filter(|(name, _)| is_time(name));
    let (name, from) = times.find_map(|(name, source)| {
        let from = source.from.as_deref().filter(|from| is_statistic(from))?;
        Some((name, from))
    })?;
    Some(format!(
        "`{name}` comes from `{from}`, which has the name of a statistic of many requests: each row counts as one request, so \
         import the table that has a row for each request"
    ))
}

/// Warns if rows of several metrics of k6, which writes a row for each metric of a request, all count as requests.
pub(super) fn several_metrics(sheet: &Sheet, rows: &[usize]) -> Option<String> {
    let of_k6 = [("metric_name", "metric_value"), ("metric", "data.value")];
    let (name, _) = of_k6
        .into_iter()
        .find(|(name, value)| sheet.position(name).is_some() && sheet.position(value).is_some())?;
    let column = &sheet.columns[sheet.position(name)?];
    let metrics: BTreeSet<String> = rows.iter().map(|row| column[*row].to_string()).collect();
    (metrics.len() > 1).then(|| {
        format!(
            "k6 writes a row for each metric of a request, and the rows of {} metrics count as requests: choose those of \
             one, as in `where: {{{name}: http_req_duration}}`",
            metrics.len()
        )
    })
}

/// Warns of moments of k6, which are not those of the sending.
pub(super) fn stamped_at_the_end(import: &Import, sheet: &Sheet) -> Option<String> {
    let has = |name: &str| sheet.position(name).is_some();
    let is_k6 = has("metric_name") && has("metric_value") && has("timestamp");
    let sent = import.columns.get("sent")?.from.as_deref();
    (is_k6 && sent == Some("timestamp")).then(|| {
        "k6 stamps a request when it ends, by default in whole seconds, and the map takes this for its send: leave `sent` \
         out of the map, or throughput and window are wrong"
            .to_owned()
    })
}

/// Warns of requests that the map counts as ok although their HTTP status is that of an error.
pub(super) fn refused_yet_ok(rows: &[Row]) -> Option<String> {
    let is_refused = |row: &&Row| {
        let of_http = row.http_status.is_some_and(|status| status >= 400);
        of_http && row.status == RequestStatus::Ok
    };
    let count = rows.iter().filter(is_refused).count();
    (count > 0).then(|| {
        format!(
            "the map counts {} with an HTTP status of 400 or more as ok: take `status` from that column, as in \
             `status: {{from: COLUMN, ok: [\"200\"]}}`",
            artifacts::counted(count as u64, "request")
        )
    })
}
