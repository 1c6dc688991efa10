//! The settings of an import.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A result file of another tool, used as the rows of a load cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-alone" = "file"))]
pub struct Import {
    /// The tool that wrote the file, or the format of a table with a column map.
    pub tool: Tool,
    /// The file; a relative path begins at the experiment's folder. `*` in the file's name matches any text, as long
    /// as exactly one file matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", required)]
    pub file: Option<String>,
    /// The tool's version, if you know it; a file that states another version is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Which result of a file that holds several, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub entry: Option<u32>,
    /// For `json`: the path to the list of rows in a document that is an object, with dots between the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub rows: Option<String>,
    /// For tables: only the rows of the file that have these values, by column. One file can then
    /// hold the rows of many cells: `where: {model: "${model}", clients: "${clients}"}`.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Wanted>")]
    pub only: BTreeMap<String, Wanted>,
    /// For tables: the source of each of our columns.
    #[serde(
        default,
        deserialize_with = "column_sources",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "BTreeMap<String, WrittenSource>")]
    pub columns: BTreeMap<String, ColumnSource>,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub digest: Option<String>,
    /// For `benchtrail`: the digests of the tables beside the file, by name. Filled in while planning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, String>,
}

/// A value that rows must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Wanted {
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
}

/// The tool that wrote a result file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// `vllm bench serve --save-result`, with `--save-detailed` for rows.
    Vllm,
    /// `sglang.bench_serving`, with `--output-details` for rows.
    Sglang,
    /// `guidellm benchmark`, its JSON report.
    Guidellm,
    /// `aiperf profile`: `profile_export.jsonl` for rows, `profile_export_aiperf.json` for aggregates.
    Aiperf,
    /// `genai-perf profile`: `profile_export.json`, with every request.
    GenaiPerf,
    /// A CSV file with a heading, one request per line.
    Csv,
    /// A Parquet file, one request per row.
    Parquet,
    /// JSON Lines, or a JSON list: one object per request. A key inside another object is `outer.inner`.
    Json,
    /// `requests.parquet` as written by `benchtrail load --out`, together with the other tables in
    /// its folder.
    Benchtrail,
}

impl Tool {
    /// Returns the tool's own spelling of its name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Guidellm => "GuideLLM",
            Self::Aiperf => "AIPerf",
            Self::GenaiPerf => "GenAI-Perf",
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
            Self::Json => "JSON",
            Self::Benchtrail => "Benchtrail",
        }
    }

    /// Returns the word used in the experiment and in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Guidellm => "guidellm",
            Self::Aiperf => "aiperf",
            Self::GenaiPerf => "genai-perf",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Json => "json",
            Self::Benchtrail => "benchtrail",
        }
    }

    /// Returns whether the file is a table that needs a column map.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet | Self::Json)
    }
}

/// The source of one of our columns: the name of a column of the file, or more about it.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenSource {
    /// The column of the file.
    Name(String),
    /// The column of the file with its unit, or one value for every row.
    Source(ColumnSource),
}

fn column_sources<'de, D: Deserializer<'de>>(
    written: D,
) -> Result<BTreeMap<String, ColumnSource>, D::Error> {
    let written: BTreeMap<String, WrittenSource> = Deserialize::deserialize(written)?;
    let source = |written| match written {
        WrittenSource::Name(from) => ColumnSource {
            from: Some(from),
            ..ColumnSource::default()
        },
        WrittenSource::Source(source) => source,
    };
    Ok(written
        .into_iter()
        .map(|(name, written)| (name, source(written)))
        .collect())
}

/// The source of one of our columns: a column of the file, or one value for every row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{from: COLUMN, unit: ms}"))]
pub struct ColumnSource {
    /// The column of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub from: Option<String>,
    /// The unit of a time in the file. By default the one that the column's name ends with, such as `_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Unit")]
    pub unit: Option<Unit>,
    /// For `status`: the texts of the file that mean success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ok: Vec<String>,
    /// One value for every row, if the file lacks the column but you know the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub value: Option<String>,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Unit {
    /// Returns the word used in the experiment and in units of columns.
    pub fn word(self) -> &'static str {
        match self {
            Self::S => "s",
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
        }
    }

    /// Returns the unit for a word, as files and column metadata spell it.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Self::S),
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some(Self::Ms),
            // The micro sign and the Greek letter.
            "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "usecs" | "micros" | "microsecond"
            | "microseconds" => Some(Self::Us),
            "ns" | "nsec" | "nsecs" | "nanos" | "nanosecond" | "nanoseconds" => Some(Self::Ns),
            _ => None,
        }
    }

    /// Returns the unit that the name of a column ends with, as in `ttft_ms`, `TTFT (ms)`, `latency.ms` or `ttftMs`.
    pub(crate) fn of_name(column: &str) -> Option<Self> {
        let name = column.trim_end_matches(|c: char| !c.is_alphanumeric());
        let mut before = None;
        let mut word = 0;
        for (at, c) in name.char_indices() {
            let starts = |last: char| {
                let of_camel_case = last.is_lowercase() && c.is_uppercase();
                c.is_alphanumeric() && (!last.is_alphanumeric() || of_camel_case)
            };
            if before.is_some_and(starts) {
                word = at;
            }
            before = Some(c);
        }
        // A name that is nothing but a unit names no quantity.
        (word > 0).then(|| Self::from_word(&name[word..].to_lowercase()))?
    }

    /// Returns its length in nanoseconds.
    pub(crate) fn nanoseconds(self) -> i64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }
}
