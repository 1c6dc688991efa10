//! Recorded traffic: when requests came and how long they were, from a JSON Lines or CSV file.
//!
//! A row has a time (`timestamp_s`, or `timestamp_ms`, or `timestamp` in ms as in Mooncake's traces, or as a date), and may
//! have a prompt length (`input_words`, or `input_tokens` or `input_length` in tokens) and an output length (`output_tokens`
//! or `output_length`). The names of the traces of Azure and of BurstGPT are read, too. Other columns are ignored. Only
//! arrivals need times.

use artifacts::json::Distinct;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use pipeline::sources::NamedFiles;
use pipeline::suggest::either;

use crate::named_file;

/// Arrivals as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: trace.jsonl}"))]
pub struct Replay {
    /// The trace: JSON Lines with one object per line, or CSV with a heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "String", required)]
    pub file: String,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How many times faster than recorded.
    #[serde(default = "as_recorded")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub speed: f64,
}

fn as_recorded() -> f64 {
    1.0
}

/// Prompts of recorded lengths, made of random words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: trace.jsonl}"))]
pub struct RecordedLengths {
    /// The trace; request `i` takes row `i`. A row without an output length takes the workload's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "String", required)]
    pub file: String,
    /// The digest of the file's bytes; as for arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The number of words per token, if the trace counts tokens.
    #[serde(default = "words_per_token")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub words_per_token: f64,
    /// The number of tokens of a prompt that each of its `hash_ids` represents: prompts with the same first ids begin
    /// with the same text. 512, as in Mooncake's traces, if the trace has ids; 0 ignores the ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_hash_id: Option<u32>,
}

/// The tokens that an id of Mooncake's traces stands for.
pub(crate) const PER_HASH_ID: u32 = 512;

fn words_per_token() -> f64 {
    0.9
}

/// One recorded request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    /// Seconds since the first request; `None` in all rows of a file without times.
    pub(crate) at_s: Option<f64>,
    pub(crate) words: Option<f64>,
    pub(crate) input_tokens: Option<f64>,
    pub(crate) output_tokens: Option<u32>,
    /// Whether the name of the time says its unit.
    pub(crate) says_unit: bool,
    /// The blocks of the prompt; equal ids mean equal text.
    pub(crate) hash_ids: Vec<u64>,
}

impl Recorded {
    /// Returns the number of words in the prompt, at least one.
    pub(crate) fn words(&self, per_token: f64) -> Option<u32> {
        let words = self
            .words
            .or(self.input_tokens.map(|tokens| tokens * per_token))?;
        Some(words.round().max(1.0) as u32)
    }
}

/// Reads a trace, and checks its digest if given; also returns its digest.
///
/// # Errors
/// One sentence that names the file, and the line if known.
pub(crate) fn read_trace(
    file: &str,
    digest: Option<&str>,
    files: &NamedFiles,
) -> Result<(Vec<Recorded>, String), String> {
    let (file, bytes, actual) = named_file::read("trace", file, digest, files)?;
    Ok((rows_of(&file, bytes)?, actual))
}

/// Parses the rows of a trace; `file` is its name in errors.
///
/// # Errors
/// One sentence that names the file, and the line if known.
pub(crate) fn rows_of(file: &str, bytes: Vec<u8>) -> Result<Vec<Recorded>, String> {
    let text = String::from_utf8(bytes).map_err(|_| format!("trace {file} is not UTF-8"))?;
    let rows =
        parse(&text).map_err(|(line, message)| format!("trace {file}, line {line}: {message}"))?;
    if rows.is_empty() {
        Err(format!("trace {file} holds no requests"))
    } else {
        Ok(rows)
    }
}

/// Names for the prompt's length in tokens; the last two are those of Azure and of BurstGPT.
pub(crate) const INPUT_TOKENS: [&str; 4] = [
    "input_tokens",
    "input_length",
    "ContextTokens",
    "Request tokens",
];
/// Names for the answer's length, in the same order.
const OUTPUT_TOKENS: [&str; 4] = [
    "output_tokens",
    "output_length",
    "GeneratedTokens",
    "Response tokens",
];

/// Returns when each of the first requests came, in seconds since the first.
///
/// # Errors
/// If the trace has no times.
pub(crate) fn times(rows: &[Recorded]) -> Result<Vec<f64>, String> {
    let times: Option<Vec<f64>> = rows.iter().map(|row| row.at_s).collect();
    times.ok_or_else(|| {
        "the trace has no times; name them `timestamp_s`, `timestamp_ms` or `timestamp`".to_owned()
    })
}

/// The arrivals per second of a trace above which its times may be seconds that are read as milliseconds.
const MANY_PER_SECOND: f64 = 100.0;

/// Returns the doubt about times whose unit nobody says, and that are very dense if they are milliseconds.
pub(crate) fn doubt_on_unit(replay: &Replay, files: &NamedFiles) -> Option<String> {
    let (rows, _) = read_trace(&replay.file, replay.digest.as_deref(), files).ok()?;
    let span_s = rows.last()?.at_s?;
    let is_dense = (rows.len() - 1) as f64 > MANY_PER_SECOND * span_s;
    let is_open = rows.len() > 1 && span_s > 0.0 && !rows[0].says_unit;
    (is_open && is_dense).then(|| {
        format!(
            "`timestamp` in the trace was read as milliseconds, so its {} requests came within {} s; if it counts seconds, name \
             the column `timestamp_s`, and if not, `timestamp_ms`",
            rows.len(),
            span_s as f32
        )
    })
}

/// Parses the rows of a trace; errors contain the line, from 1.
fn parse(text: &str) -> Result<Vec<Recorded>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('[') {
        let what = "a trace is an object a line, or CSV, and this is a list";
        return Err((1, what.to_owned()));
    }
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, l)| !l.is_empty());
    let mut rows: Vec<Recorded> = Vec::new();
    let mut first_s = None;
    let mut heading: Option<Vec<&str>> = None;
    if !text.trim_start().starts_with('{') {
        heading = lines
            .next()
            .map(|(_, line)| line.split(',').map(str::trim).collect());
    }
    for (number, line) in lines {
        let object = match &heading {
            None => match serde_json::from_str(line).map_err(|e| (number, e.to_string()))? {
                Distinct(Value::Object(object)) => object,
                Distinct(_) => return Err((number, "expected an object".to_owned())),
            },
            Some(names) => csv_row(names, line).map_err(|e| (number, e))?,
        };
        let mut row = recorded(&object).map_err(|e| (number, e))?;
        let first = *first_s.get_or_insert(row.at_s);
        row.at_s = row.at_s.zip(first).map(|(at, first)| at - first);
        if row.at_s.is_some() != first.is_some() {
            let wrong = "a row has a time named `timestamp_s`, `timestamp_ms` or `timestamp`, and another has none";
            return Err((number, wrong.to_owned()));
        }
        if rows.last().is_some_and(|before| row.at_s < before.at_s) {
            return Err((
                number,
                "the time is earlier than the previous one".to_owned(),
            ));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Parses a line of a table; empty fields are left out.
fn csv_row(names: &[&str], line: &str) -> Result<Map<String, Value>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != names.len() {
        return Err(format!(
            "{} fields, but {} headings",
            fields.len(),
            names.len()
        ));
    }
    let pairs = names.iter().zip(fields);
    let value = |field: &str| match field.parse::<f64>() {
        Ok(number) if number.is_finite() => number.into(),
        _ => field.into(),
    };
    Ok(pairs
        .filter(|(_, field)| !field.is_empty())
        .map(|(name, field)| ((*name).to_owned(), value(field)))
        .collect())
}

fn recorded(object: &Map<String, Value>) -> Result<Recorded, String> {
    let number = |names: &[&str]| {
        let given = names
            .iter()
            .find_map(|name| Some((name, object.get(*name).filter(|value| !value.is_null())?)));
        let Some((name, given)) = given else {
            return Ok(None);
        };
        match given.as_f64() {
            Some(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
            Some(value) => Err(format!("`{name}` is {value}")),
            None => Err(format!("`{name}` is {given}, and must be a number")),
        }
    };
    let count = |names: &[&str]| match number(names)? {
        Some(value) if value > f64::from(u32::MAX) => {
            let name = either(names);
            Err(format!("{name} is {value:?}, more than {}", u32::MAX))
        }
        value => Ok(value),
    };
    let milliseconds = |name: &str| Ok::<_, String>(number(&[name])?.map(|ms| ms / 1000.0));
    let mut said = match number(&["timestamp_s"])? {
        Some(seconds) => Some(seconds),
        None => milliseconds("timestamp_ms")?,
    };
    let in_ms = object.get("timestamp").is_some_and(Value::is_number);
    if said.is_none() && !in_ms {
        said = date(object)?;
        // The other names of BurstGPT show that its `Timestamp` counts seconds.
        if said.is_none() && object.contains_key("Request tokens") {
            said = number(&["Timestamp"])?;
        }
    }
    let at_s = match said {
        Some(seconds) => Some(seconds),
        None => milliseconds("timestamp")?,
    };
    let hash_ids = match object.get("hash_ids") {
        None | Some(Value::Null) => Vec::new(),
        Some(ids) => {
            let read =
                |ids: &Vec<Value>| ids.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
            let read = ids.as_array().and_then(read);
            read.ok_or("`hash_ids` is not a list of whole numbers from 0")?
        }
    };
    Ok(Recorded {
        at_s,
        says_unit: said.is_some(),
        hash_ids,
        words: count(&["input_words"])?,
        input_tokens: count(&INPUT_TOKENS)?,
        output_tokens: count(&OUTPUT_TOKENS)?.map(|n| n.round().max(1.0) as u32),
    })
}

/// Returns a time that is a date with a time of day, in seconds since 1970; without an offset, as UTC.
fn date(object: &Map<String, Value>) -> Result<Option<f64>, String> {
    let names = ["timestamp", "TIMESTAMP", "Timestamp"];
    let written = names
        .iter()
        .find_map(|name| Some((name, object.get(*name)?.as_str()?)));
    let Some((name, text)) = written else {
        return Ok(None);
    };
    let utc = |at: DateTime| at.to_zoned(TimeZone::UTC).map(|at| at.timestamp());
    let read = text.parse::<Timestamp>();
    let read = read.or_else(|e| match text.contains(':') {
        true => text.parse::<DateTime>().and_then(utc),
        // Every row of a day would come at midnight.
        false => Err(e),
    });
    match read {
        Ok(at) => Ok(Some(at.as_nanosecond() as f64 / 1e9)),
        Err(_) => Err(format!(
            "`{name}` is {text:?}, and must be a number, or a date with a time of day"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_and_csv_tell_the_same() {
        let lines = "{\"timestamp\": 1500, \"input_length\": 100, \"output_length\": 7, \"hash_ids\": [1]}\n\
                     {\"timestamp\": 1750, \"input_length\": 10, \"output_length\": 2}\n";
        let table = "timestamp_s,input_tokens,output_tokens,model\n1.5,100,7,a\n\n1.75,10,2,b\n";
        let mut rows = parse(lines).unwrap();
        assert_eq!(rows[0].hash_ids, [1]);
        rows[0].hash_ids.clear();
        // Only the second one names the unit of its times.
        rows.iter_mut().for_each(|row| row.says_unit = true);
        assert_eq!(rows, parse(table).unwrap());
        assert_eq!(times(&rows), Ok(vec![0.0, 0.25]));
        assert_eq!(
            (rows[0].words(0.9), rows[1].output_tokens),
            (Some(90), Some(2))
        );
    }

    #[test]
    fn published_traces_are_read_under_their_own_names() {
        let parsed = |text: &str| {
            let rows = parse(text).unwrap();
            let lengths = rows.iter().map(|row| (row.input_tokens, row.output_tokens));
            (
                lengths.collect::<Vec<_>>(),
                times(&rows).unwrap(),
                rows[0].says_unit,
            )
        };
        // Azure's traces of 2023 and of 2024.
        for (from, to) in [
            ("2023-11-16 23:59:59.9799600", "2023-11-17 00:00:00.2299600"),
            (
                "2024-05-10 00:00:00.009930+00:00",
                "2024-05-10 02:00:00.259930+02:00",
            ),
        ] {
            let text = format!(
                "TIMESTAMP,ContextTokens,GeneratedTokens\r\n{from},374,44\r\n{to},396,109\r\n"
            );
            let (lengths, times, says_unit) = parsed(&text);
            assert_eq!(lengths, [(Some(374.0), Some(44)), (Some(396.0), Some(109))]);
            assert!(says_unit && times[0].abs() < 1e-9 && (times[1] - 0.25).abs() < 1e-6);
        }
        let (lengths, times, says_unit) = parsed(
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
             5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n",
        );
        assert_eq!(lengths, [(Some(472.0), Some(18)), (Some(1087.0), Some(1))]);
        assert_eq!((times, says_unit), (vec![0.0, 40.0], true));
    }

    #[test]
    fn lengths_need_no_times_and_arrivals_do() {
        let rows = parse("input_length,output_length\n100,10\n50,5\n").unwrap();
        assert_eq!((rows[1].words(0.9), rows[1].at_s), (Some(45), None));
        assert!(times(&rows).unwrap_err().contains("has no times"));
    }

    #[test]
    fn dense_times_without_a_unit_are_doubted() {
        let folder = tempfile::tempdir().unwrap();
        let doubt = |name: &str, times: &[f64]| {
            let line = |at: &f64| format!("{{\"{name}\": {at}}}\n");
            let file = folder.path().join("trace.jsonl");
            std::fs::write(&file, times.iter().map(line).collect::<String>()).unwrap();
            let replay = Replay {
                file: file.to_str().unwrap().to_owned(),
                digest: None,
                speed: 1.0,
            };
            doubt_on_unit(&replay, &NamedFiles::default())
        };
        // Seconds, as numbers with a fraction and since 1970.
        let words = doubt("timestamp", &[0.0, 0.5, 1.25, 2.5]).unwrap();
        assert!(words.contains("4 requests came within 0.0025 s"), "{words}");
        let since_1970 = [1.732e9, 1.732e9 + 1.0, 1.732e9 + 3.0];
        assert!(doubt("timestamp", &since_1970).is_some());
        // Milliseconds, names that say the unit, and requests at once.
        assert_eq!(doubt("timestamp", &[0.0, 500.0, 1250.0]), None);
        assert_eq!(doubt("timestamp_ms", &[0.0, 0.5, 1.25]), None);
        assert_eq!(doubt("timestamp_s", &[0.0, 0.001]), None);
        assert_eq!(doubt("timestamp", &[0.0, 0.0, 0.0]), None);
        assert_eq!(doubt("timestamp", &[0.0]), None);
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, line, part) in [
            ("{\"timestamp\": 2}\n{\"timestamp\": 1}", 2, "earlier"),
            ("{\"timestamp\": 2}\n\n{\"time\": 1}", 3, "another has none"),
            (
                "TIMESTAMP,ContextTokens\nyesterday,5",
                2,
                "`TIMESTAMP` is \"yesterday\", and must be a number, or a date",
            ),
            (
                "{\"timestamp\": 2, \"input_words\": -1}",
                1,
                "`input_words` is -1",
            ),
            (
                "timestamp_s,input_words\n1,2\n1",
                3,
                "1 fields, but 2 headings",
            ),
            ("{\"timestamp\": 2}\nnonsense", 2, "expected"),
            (
                "{\"timestamp\": 2, \"output_length\": \"7\"}",
                1,
                "`output_length` is \"7\", and must be a number",
            ),
            (
                "{\"timestamp\": 2, \"output_length\": 1e300}",
                1,
                "more than 4294967295",
            ),
            (
                "{\"timestamp\": 2, \"input_length\": 9223372036854775807}",
                1,
                "more than 4294967295",
            ),
            (
                "{\"timestamp\": 2, \"input_length\": 5, \"input_length\": 6}",
                1,
                "an object has the key \"input_length\" twice",
            ),
            (
                "timestamp_s,input_tokens,output_tokens\n1,,3\n1,5,nan",
                3,
                "`output_tokens` is \"nan\", and must be a number",
            ),
            (
                "{\"timestamp\": 2, \"hash_ids\": [-1]}",
                1,
                "`hash_ids` is not a list",
            ),
        ] {
            let (wrong_line, message) = parse(text).unwrap_err();
            assert!(
                wrong_line == line && message.contains(part),
                "{wrong_line}: {message}"
            );
        }
    }

    proptest::proptest! {
        /// `PROPTEST_CASES=20000 cargo test -p load any_trace` tries more.
        #[test]
        fn any_trace_is_refused_at_a_line_or_read_in_the_order_of_time(
            edits in proptest::collection::vec(
                (proptest::prelude::any::<proptest::sample::Index>(), 0_usize..6, "[-+0-9eEinfNa.,:{}\\[\\]\"\n\u{0}\u{202e}]{0,8}"),
                0..6,
            ),
            csv in proptest::prelude::any::<bool>(),
        ) {
            let sound = match csv {
                true => "timestamp_s,input_tokens,output_tokens\n1.5,100,7\n1.75,10,2\n",
                false => "{\"timestamp\": 1500, \"input_length\": 100, \"output_length\": 7}\n\
                          {\"timestamp\": 1750, \"input_words\": 10}\n",
            };
            let mut characters: Vec<char> = sound.chars().collect();
            for (place, length, scrap) in edits {
                let from = place.index(characters.len() + 1);
                let to = (from + length).min(characters.len());
                characters.splice(from..to, scrap.chars());
            }
            let text: String = characters.into_iter().collect();
            match parse(&text) {
                Err((line, _)) => proptest::prop_assert!((1..=text.lines().count()).contains(&line)),
                Ok(rows) => {
                    let mut last_s = 0.0;
                    for row in rows {
                        let at_s = row.at_s.unwrap_or(last_s);
                        proptest::prop_assert!(at_s.is_finite() && at_s >= last_s);
                        last_s = at_s;
                        proptest::prop_assert!(row.words(0.9).is_none_or(|words| words >= 1));
                        proptest::prop_assert!(row.output_tokens.is_none_or(|tokens| tokens >= 1));
                    }
                }
            }
        }
    }

    #[test]
    fn a_trace_must_not_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "timestamp_s\n1\n2\n").unwrap();
        let path = file.path().to_str().unwrap();
        let none = NamedFiles::default();
        let (rows, digest) = read_trace(path, None, &none).unwrap();
        assert_eq!(rows.len(), 2);
        assert!(read_trace(path, Some(&digest), &none).is_ok());
        std::fs::write(file.path(), "timestamp_s\n1\n3\n").unwrap();
        assert!(
            read_trace(path, Some(&digest), &none)
                .unwrap_err()
                .contains("has changed")
        );
    }
}
