//! JSON of other tools: parsing with places, and values with their path.

use std::fmt;

use artifacts::json::Distinct;
use serde_json::{Map, Value};

/// The reason why a file cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportError {
    /// The place in the file: `line 3, column 7`, a JSON path, `row 4, column ttft`; empty for
    /// the file as a whole.
    pub(crate) place: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl ImportError {
    pub(crate) fn at(
        place: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)
    }
}

/// Reads every JSON value of a file: one document, or one per line. `NaN` and `Infinity`, which
/// Python writes although JSON has no such numbers, become texts. They are harmless where nothing
/// is read (SGLang's `request_rate`), and an error with a path where a number is expected.
pub(crate) fn documents(bytes: &[u8]) -> Result<Vec<Value>, ImportError> {
    if let Some(kind) = tabular::other_kind(bytes) {
        return Err(ImportError::at("", kind.what, kind.remedy));
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    tabular::bounded(bytes).map_err(|e| ImportError::at("", e.message, e.hint))?;
    let all = match parse(bytes) {
        Ok(all) => all,
        Err(first) => match quote_words(bytes) {
            Some(quoted) => parse(&quoted)?,
            None => return Err(first),
        },
    };
    if all.is_empty() {
        return Err(ImportError::at(
            "",
            "the file is empty",
            "give the file that the tool wrote",
        ));
    }
    Ok(all)
}

fn parse(bytes: &[u8]) -> Result<Vec<Value>, ImportError> {
    serde_json::Deserializer::from_slice(bytes)
        .into_iter::<Distinct>()
        .map(|value| {
            value
                .map(|Distinct(value)| value)
                .map_err(|error| syntax(&error))
        })
        .collect()
}

/// Describes the problem at the place where the parser stopped.
fn syntax(error: &serde_json::Error) -> ImportError {
    let place = format!("line {}, column {}", error.line(), error.column());
    if error.is_eof() {
        let hint =
            "the file is cut off: the tool was stopped while writing, or the copy is incomplete";
        return ImportError::at(place, "the JSON ends in the middle", hint);
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    if error.is_data() {
        let hint = "programs read the first or the last; measure again, or remove one";
        return ImportError::at(place, message, hint);
    }
    ImportError::at(
        place,
        format!("not JSON: {message}"),
        "give the JSON file the tool wrote, unchanged",
    )
}

/// Python's words for values that are not JSON numbers.
const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Puts quotes around Python's words for values that are not JSON numbers; `None` if there are
/// none.
pub(crate) fn quote_words(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let (mut in_text, mut at, mut replaced) = (false, 0, false);
    while at < bytes.len() {
        let word = WORDS
            .iter()
            .find(|word| !in_text && bytes[at..].starts_with(word.as_bytes()));
        if let Some(word) = word {
            replaced = true;
            out.push(b'"');
            out.extend_from_slice(word.as_bytes());
            out.push(b'"');
            at += word.len();
            continue;
        }
        match bytes[at] {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                out.push(bytes[at]);
                at += 1;
            }
            _ => {}
        }
        out.extend(bytes.get(at));
        at += 1;
    }
    replaced.then_some(out)
}

/// The largest time in ns. A sum of two of them fits an `i64`.
const MOST_NS: i64 = 4_000_000_000_000_000_000;

/// A value with its path.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
}

impl<'a> At<'a> {
    /// Starts at a document; `path` is `$`, or selects one of several.
    pub(crate) fn root(value: &'a Value, path: impl Into<String>) -> Self {
        Self {
            value,
            path: path.into(),
        }
    }

    fn wrong(&self, message: impl Into<String>) -> ImportError {
        ImportError::at(
            self.path.clone(),
            message,
            "the tool does not write this; check that the file is unchanged, and which version wrote it",
        )
    }

    fn no_object(&self) -> ImportError {
        self.wrong(format!(
            "an object was expected, found {}",
            brief(self.value)
        ))
    }

    /// Returns a member by name, unless it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|v| !v.is_null())?;
        Some(Self {
            value,
            path: format!("{}.{key}", self.path),
        })
    }

    /// Returns a member by name.
    pub(crate) fn need(&self, key: &str) -> Result<Self, ImportError> {
        if !self.value.is_object() {
            return Err(self.no_object());
        }
        self.get(key)
            .ok_or_else(|| self.wrong(format!("there is no `{key}`")))
    }

    pub(crate) fn items(&self) -> Result<Vec<Self>, ImportError> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.wrong("a list was expected"))?;
        let item = |(i, value)| Self {
            value,
            path: format!("{}[{i}]", self.path),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(crate) fn object(&self) -> Result<&'a Map<String, Value>, ImportError> {
        self.value.as_object().ok_or_else(|| self.no_object())
    }

    pub(crate) fn text(&self) -> Result<&'a str, ImportError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong(format!("text was expected, found {}", self.value)))
    }

    pub(crate) fn number(&self) -> Result<f64, ImportError> {
        if let Some(word) = self.value.as_str().filter(|text| WORDS.contains(text)) {
            return Err(ImportError::at(
                self.path.clone(),
                format!("`{word}` is not a number"),
                "Python writes it for an undefined value; in a copy of the file, write `null` if it is one",
            ));
        }
        let number = self.value.as_f64().filter(|n| n.is_finite());
        number.ok_or_else(|| {
            self.wrong(format!(
                "a number was expected, found {}",
                brief(self.value)
            ))
        })
    }

    /// Returns a number of requests or the like.
    pub(crate) fn small_count(&self) -> Result<i64, ImportError> {
        let count = self.count()?;
        match u32::try_from(count) {
            Ok(_) => Ok(count),
            Err(_) => Err(self.wrong(format!("a count was expected, found {count}"))),
        }
    }

    /// Returns a moment: seconds since 1970.
    pub(crate) fn moment(&self) -> Result<f64, ImportError> {
        let number = self.number()?;
        match (0.0..=MOST_NS as f64 / 1e9).contains(&number) {
            true => Ok(number),
            false => Err(self.wrong(format!(
                "a time in seconds since 1970 was expected, found {}",
                brief(self.value)
            ))),
        }
    }

    /// Returns a count, or nanoseconds since 1970: a non-negative whole number.
    pub(crate) fn count(&self) -> Result<i64, ImportError> {
        // Nanoseconds since 1970 have more digits than a double holds.
        if let Some(count) = self.value.as_i64().filter(|n| *n >= 0) {
            return match count <= MOST_NS {
                true => Ok(count),
                false => Err(self.wrong(format!("the number {count} is out of range"))),
            };
        }
        let number = self.number()?;
        if number < 0.0 || number.fract() != 0.0 || number > 9e15 {
            return Err(self.wrong(format!("a count was expected, found {number}")));
        }
        Ok(number as i64)
    }

    /// Returns a time span in ns; the value's unit has this many ns.
    pub(crate) fn span(&self, unit_ns: i64) -> Result<i64, ImportError> {
        self.not_negative(self.number()? * unit_ns as f64)
    }

    /// Returns a list of spans in ns.
    pub(crate) fn spans(&self, unit_ns: i64) -> Result<Vec<f64>, ImportError> {
        self.items()?
            .iter()
            .map(|item| {
                let ns = item.number()? * unit_ns as f64;
                item.not_negative(ns)?;
                Ok(ns)
            })
            .collect()
    }

    fn not_negative(&self, ns: f64) -> Result<i64, ImportError> {
        if ns < 0.0 {
            return Err(ImportError::at(
                self.path.clone(),
                format!("the time {} is negative", self.value),
                "a clock that ran backwards spoils every latency of the run; measure again",
            ));
        }
        // A time above a century is certainly in another unit than stated.
        if ns > MOST_NS as f64 {
            return Err(self.wrong(format!("the time {} is out of range", self.value)));
        }
        Ok(ns.round() as i64)
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 40 {
        format!("{}…", text.chars().take(40).collect::<String>())
    } else {
        text
    }
}
