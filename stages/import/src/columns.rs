//! Tables of requests with a column map, in CSV, Parquet and JSON.

use contract::{Phase, RequestStatus, Word};
use tabular::{Field, Format, Sheet, Unreadable};

use crate::json::{ImportError, quote_words};
use crate::rows::{Clock, Imported, Row};
use crate::settings::{ColumnSource, Import, Unit, Wanted};

mod checks;
mod declared;
mod together;
mod values;

pub(crate) use declared::{add_units, problems};

use checks::{
    aggregates, all_in_error, foreign, no_rows, of_tool, refused_yet_ok, several_metrics,
    stamped_at_the_end, statistics, uncertain_end, unlisted_status,
};
use together::{columns_hint, several, together};
use values::{
    YEAR_10000_NS, decimal_ns, float_ns, not_a_count, not_a_time, shown, too_late, whole,
};

/// Returns whether a field has a value. Numbers are compared as numbers, however they are written.
fn has(field: &Field, wanted: &Wanted) -> bool {
    let number = match field {
        Field::Int(value) => Some(*value as f64),
        Field::Float(value) => Some(*value),
        Field::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match (wanted, field) {
        (Wanted::Int(wanted), Field::Int(value)) => value == wanted,
        (Wanted::Int(wanted), _) => number == Some(*wanted as f64),
        (Wanted::Float(wanted), _) => number == Some(*wanted),
        (Wanted::Bool(wanted), _) => field.to_string() == wanted.to_string(),
        (Wanted::Text(wanted), Field::Text(text)) => text == wanted,
        _ => false,
    }
}

/// The number of a column's values that a message lists if none fits.
const NAMED: usize = 8;

/// Returns the rows with the requested values, in order.
///
/// # Errors
/// If there is no such column or no such row.
fn wanted_rows(import: &Import, sheet: &Sheet) -> Result<Vec<usize>, ImportError> {
    let mut kept = vec![true; sheet.rows()];
    for (name, wanted) in &import.only {
        let Some(at) = sheet.position(name) else {
            let message =
                format!("`where` names the column `{name}`, which the file does not have");
            let hint = format!("it has: {}", sheet.names.join(", "));
            return Err(ImportError::at("", message, hint));
        };
        let column = &sheet.columns[at];
        if !column.iter().any(|field| has(field, wanted)) {
            let mut values: Vec<String> = Vec::new();
            for field in column {
                let words = field.to_string();
                if !values.contains(&words) {
                    values.push(words);
                }
                if values.len() > NAMED {
                    values[NAMED] = "…".to_owned();
                    break;
                }
            }
            let message = format!("no row has `{}` in the column `{name}`", wanted.words());
            let hint = format!("it holds: {}", values.join(", "));
            return Err(ImportError::at("", message, hint));
        }
        for (keep, field) in kept.iter_mut().zip(column) {
            *keep &= has(field, wanted);
        }
    }
    let rows: Vec<usize> = (0..kept.len()).filter(|row| kept[*row]).collect();
    if rows.is_empty() && !import.only.is_empty() {
        let asked: Vec<String> = import
            .only
            .iter()
            .map(|(name, wanted)| format!("{name}={}", wanted.words()))
            .collect();
        let message = format!("no row has {} together", asked.join(", "));
        let hint = "correct `where`, or leave the cell out with a reason";
        return Err(ImportError::at("", message, hint));
    }
    Ok(rows)
}

impl Wanted {
    fn words(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Points in time on the file's clock.
const MOMENTS: [&str; 6] = [
    "scheduled",
    "sent",
    "headers",
    "first_token",
    "last_token",
    "done",
];
/// Times since the request was sent, and the point in time that each one gives.
const SPANS: [(&str, &str); 3] = [
    ("ttft", "first_token"),
    ("e2e_latency", "last_token"),
    ("request_latency", "done"),
];
const COUNTS: [&str; 8] = [
    "prompt_tokens",
    "cached_prompt_tokens",
    "output_tokens",
    "requested_output_tokens",
    "http_status",
    "client_id",
    "session_id",
    "turn",
];
const TEXTS: [&str; 6] = [
    "phase",
    "prompt_digest",
    "tokens_source",
    "finish_reason",
    "status",
    "error",
];

fn is_time(name: &str) -> bool {
    MOMENTS.contains(&name) || SPANS.iter().any(|(span, _)| *span == name)
}

/// Reads the requested rows of a table through the column map.
pub(crate) fn read(import: &Import, format: Format, bytes: &[u8]) -> Result<Imported, ImportError> {
    foreign(format, bytes)?;
    let sheet = sheet(import, format, bytes)?;
    aggregates(&sheet)?;
    let map = Map::new(import, &sheet).map_err(|error| match crate::recognised(bytes) {
        // Its rows are elsewhere in the file than in a table.
        Ok(one) if format == Format::Json => of_tool(one.tool),
        _ => error,
    })?;
    let rows = wanted_rows(import, &sheet)?;
    let mut imported = Imported {
        warnings: [
            no_rows(&sheet),
            uncertain_end(format, bytes, &sheet),
            unlisted_status(import, &sheet),
            stamped_at_the_end(import, &sheet),
            several_metrics(&sheet, &rows),
            statistics(import),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Imported::default()
    };
    let has_sent = import.columns.contains_key("sent");
    imported.facts.clock = if has_sent {
        Clock::Cell
    } else {
        Clock::Request
    };
    let mut base = i128::MAX;
    for &row in &rows {
        for name in ["scheduled", "sent"] {
            let time = map
                .time(name, row)
                .map_err(|first| together(first, &map, &rows))?;
            base = base.min(time.unwrap_or(i128::MAX));
        }
    }
    for &row in &rows {
        let read = map.row(row, has_sent.then_some(base));
        imported
            .requests
            .push(read.map_err(|first| together(first, &map, &rows))?);
    }
    imported.warnings.extend(refused_yet_ok(&imported.requests));
    imported
        .warnings
        .extend(all_in_error(import, &imported.requests));
    for (name, source) in &import.columns {
        let unit = source
            .unit
            .map(|u| format!(", {}", u.word()))
            .unwrap_or_default();
        let from = match (&source.from, &source.value) {
            (Some(from), _) => format!("column {from}{unit}"),
            (None, value) => format!("declared: {}", value.as_deref().unwrap_or_default()),
        };
        imported.mapping.push((name.clone(), from));
    }
    Ok(imported)
}

/// Reads the file as a table.
fn sheet(import: &Import, format: Format, bytes: &[u8]) -> Result<Sheet, ImportError> {
    if format != Format::Json {
        return tabular::read(format, bytes, None).map_err(unreadable);
    }
    let below = import.rows.as_deref();
    match tabular::read_nested(bytes, below) {
        Ok(sheet) => Ok(sheet),
        // Python writes `NaN` for a value that it does not have.
        Err(first) => match quote_words(bytes) {
            Some(quoted) => tabular::read_nested(&quoted, below).map_err(unreadable),
            None => Err(unreadable(first)),
        },
    }
}

fn unreadable(why: Unreadable) -> ImportError {
    let numbers = [("line", why.line), ("column", why.column)];
    let counts = numbers
        .iter()
        .filter_map(|(word, n)| Some(format!("{word} {}", (*n)?)));
    let place: Vec<String> = counts.collect();
    ImportError::at(place.join(", "), why.message, why.hint)
}

/// The column map, bound to a table.
struct Map<'a> {
    import: &'a Import,
    sheet: &'a Sheet,
}

impl<'a> Map<'a> {
    fn new(import: &'a Import, sheet: &'a Sheet) -> Result<Self, ImportError> {
        let (mut missing, mut wrong) = (Vec::new(), Vec::new());
        for (name, source) in &import.columns {
            let Some(from) = &source.from else { continue };
            match sheet.position(from) {
                None => missing.push(format!("no column `{from}` for `{name}`")),
                Some(i) => {
                    wrong.extend(check_unit(name, source, from, sheet.units[i].as_deref()).err());
                }
            }
        }
        if !missing.is_empty() {
            let error = ImportError::at("", missing.join(", "), columns_hint(sheet));
            wrong.insert(0, error);
        }
        match several(wrong) {
            Some(error) => Err(error),
            None => Ok(Self { import, sheet }),
        }
    }

    /// Returns a value and its place.
    fn field(&self, name: &str, row: usize) -> (Field, String) {
        let Some(source) = self.import.columns.get(name) else {
            return (Field::Null, String::new());
        };
        if let Some(value) = &source.value {
            return (Field::Text(value.clone()), format!("columns.{name}.value"));
        }
        let from = source.from.as_deref().unwrap_or_default();
        let place = format!("{}, column {from}", self.sheet.places.words(row));
        let column = self.sheet.position(from);
        (
            column.map_or(Field::Null, |i| self.sheet.columns[i][row].clone()),
            place,
        )
    }

    /// Returns a time in ns, on the file's own clock.
    fn time(&self, name: &str, row: usize) -> Result<Option<i128>, ImportError> {
        let unit = self.import.columns.get(name).and_then(|source| source.unit);
        let Some(unit) = unit else {
            return Ok(None);
        };
        let length = unit.nanoseconds();
        let (field, place) = self.field(name, row);
        let ns = match &field {
            Field::Null => return Ok(None),
            Field::Int(value) => Some(i128::from(*value) * i128::from(length)),
            Field::Float(value) => float_ns(*value, length),
            Field::Text(text) => decimal_ns(text, length),
            Field::Bool(_) | Field::Other(_) => None,
        };
        match ns {
            Some(ns) if ns < 0 => Err(ImportError::at(
                place,
                format!("the time {} is negative", shown(&field)),
                "a clock that ran backwards spoils every latency of the run; measure again",
            )),
            Some(ns) if MOMENTS.contains(&name) && ns >= YEAR_10000_NS => {
                Err(too_late(place, &field, unit, ns))
            }
            Some(ns) => Ok(Some(ns)),
            None => Err(not_a_time(place, &field)),
        }
    }

    fn count(&self, name: &str, row: usize) -> Result<Option<i64>, ImportError> {
        let (field, place) = self.field(name, row);
        let value = match &field {
            Field::Null => return Ok(None),
            Field::Int(value) => Some(*value),
            Field::Float(value) => whole(*value),
            Field::Text(text) => text.parse().ok().or_else(|| whole(text.parse().ok()?)),
            Field::Bool(_) | Field::Other(_) => None,
        };
        match value.filter(|n| *n >= 0) {
            Some(count) => Ok(Some(count)),
            None => Err(not_a_count(place, &field)),
        }
    }

    fn text(&self, name: &str, row: usize) -> Result<Option<String>, ImportError> {
        let (field, place) = self.field(name, row);
        match field {
            Field::Null => Ok(None),
            Field::Other(what) => Err(ImportError::at(
                place,
                format!("expected a text for `{name}`, found {what}"),
                "leave the field empty if there is none",
            )),
            other => Ok(Some(other.to_string())),
        }
    }

    fn row(&self, row: usize, base: Option<i128>) -> Result<Row, ImportError> {
        let (status, error) = self.status(row)?;
        let mut out = Row {
            error,
            ..Row::new(status)
        };
        let sent = self.time("sent", row)?;
        if base.is_some()
            && sent.is_none()
            && out.error.is_none()
            && out.status == RequestStatus::Ok
        {
            let (_, place) = self.field("sent", row);
            return Err(ImportError::at(
                place,
                "a request that succeeded has no send time",
                "to import only durations, remove `sent` from the map",
            ));
        }
        let place = |name: &str| format!("{} ({name})", self.sheet.places.words(row));
        let narrow = |name: &str, ns: i128| {
            i64::try_from(ns).map_err(|_| {
                ImportError::at(place(name), "the time is out of range", "check its `unit`")
            })
        };
        let relative = |name: &str| match (self.time(name, row)?, base) {
            (Some(ns), Some(base)) => narrow(name, ns - base).map(Some),
            _ => Ok(None),
        };
        out.sent_ns = match base {
            Some(_) => relative("sent")?,
            None => Some(0),
        };
        out.scheduled_ns = relative("scheduled")?;
        out.headers_ns = relative("headers")?;
        let since_sent = |moment: &str, span: &str| match (self.time(span, row)?, out.sent_ns) {
            (Some(ns), Some(sent)) => narrow(span, ns + i128::from(sent)).map(Some),
            _ => relative(moment),
        };
        let (first, last) = (
            since_sent("first_token", "ttft")?,
            since_sent("last_token", "e2e_latency")?,
        );
        let done = since_sent("done", "request_latency")?;
        (out.first_token_ns, out.last_token_ns, out.done_ns) = (first, last, done);
        let order = [
            ("sent", out.sent_ns),
            ("first_token", first),
            ("last_token", last),
            ("done", done),
        ];
        let times: Vec<(&str, i64)> = order
            .into_iter()
            .filter_map(|(name, at)| Some((name, at?)))
            .collect();
        if let Some(pair) = times.windows(2).find(|pair| pair[1].1 < pair[0].1) {
            return Err(ImportError::at(
                self.sheet.places.words(row),
                format!(
                    "`{}` is before `{}`, which gives a negative time",
                    pair[1].0, pair[0].0
                ),
                "check the units and the columns of the map; a span counts from `sent`",
            ));
        }
        out.warmup = self.word::<Phase>("phase", row)? == Some(Phase::Warmup);
        out.tokens_source = self.word("tokens_source", row)?;
        out.prompt_tokens = self.count("prompt_tokens", row)?;
        out.cached_prompt_tokens = self.count("cached_prompt_tokens", row)?;
        out.output_tokens = self.count("output_tokens", row)?;
        out.requested_output_tokens = self.count("requested_output_tokens", row)?;
        out.http_status = self.count("http_status", row)?;
        out.client_id = self.count("client_id", row)?;
        out.session_id = self.count("session_id", row)?;
        out.turn = self.count("turn", row)?;
        out.prompt_digest = self.text("prompt_digest", row)?;
        out.finish_reason = self.text("finish_reason", row)?;
        Ok(out)
    }

    /// Returns a word from a list, if the column is mapped and has a value.
    fn word<W: Word>(&self, name: &str, row: usize) -> Result<Option<W>, ImportError> {
        let word = self
            .text(name, row)?
            .map(|word| W::parse(&word))
            .transpose();
        word.map_err(|unknown| {
            let hint = format!("write one of {}", W::EACH.join(", "));
            ImportError::at(self.field(name, row).1, unknown.to_string(), hint)
        })
    }

    /// Returns status and error. If `status` is mapped, it decides; otherwise, the presence of an
    /// error does.
    fn status(&self, row: usize) -> Result<(RequestStatus, Option<String>), ImportError> {
        let error = match self.field("error", row).0 {
            // As JSON, Parquet and CSV write that there is none.
            Field::Bool(false) => None,
            Field::Text(text) if is_nothing(&text) => None,
            _ => self.text("error", row)?,
        };
        let Some(source) = self.import.columns.get("status") else {
            return Ok(match error {
                None => (RequestStatus::Ok, None),
                error => (RequestStatus::Failed, error),
            });
        };
        let Some(word) = self.text("status", row)? else {
            let error = error.or(Some("the file has no status".to_owned()));
            return Ok((RequestStatus::Failed, error));
        };
        if source.ok.contains(&word) {
            return Ok((RequestStatus::Ok, error));
        }
        // If there is a list of words for success, every other word is a failure with that name.
        Ok(match RequestStatus::parse(&word) {
            Ok(status) if status != RequestStatus::Ok || source.ok.is_empty() => (status, error),
            _ => (RequestStatus::Failed, error.or(Some(word))),
        })
    }
}

/// Whether a text says that there was no error, as programs write that in tables.
fn is_nothing(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    ["", "false", "none", "null", "nan"].contains(&text.as_str())
}

/// Checks that the unit in the map does not contradict the file: neither a stated unit nor the
/// ending of a name.
fn check_unit(
    name: &str,
    source: &ColumnSource,
    from: &str,
    stated: Option<&str>,
) -> Result<(), ImportError> {
    let Some(unit) = source.unit else {
        return Ok(());
    };
    let named_unit = match stated {
        Some(stated) if !stated.trim().is_empty() => {
            // As in `seconds since 1970`, `epoch ms` and `[s]`.
            let mut words = stated.split(|c: char| !c.is_alphanumeric());
            let of_file = words.find_map(|word| Unit::from_word(&word.to_lowercase()));
            Some(of_file.ok_or_else(|| {
                let message = format!("its unit is `{stated}`, and `{name}` needs s, ms, us or ns");
                let hint = "convert the column, or correct the unit in the file";
                ImportError::at(format!("column {from}"), message, hint)
            })?)
        }
        _ => Unit::of_name(from),
    };
    match named_unit {
        Some(named_unit) if named_unit != unit => Err(ImportError::at(
            format!("column {from}"),
            format!(
                "its unit is {}, but the map gives {} for `{name}`",
                named_unit.word(),
                unit.word()
            ),
            format!(
                "write `unit: {}`; if the file is wrong, correct it there",
                named_unit.word()
            ),
        )),
        _ => Ok(()),
    }
}
