//! JSON documents from anybody: bounded in memory before they are parsed.
//!
//! Two bytes of a document can be a value of seventy bytes in memory, and repeated values compress to nothing. So a file
//! of kilobytes in an archive could take all memory.

mod distinct;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use distinct::Distinct;

/// The memory in bytes of an object with one entry. This and [`VALUE_BYTES`] were measured, with the room that a growing
/// list keeps.
pub const OBJECT_BYTES: u64 = 480;

/// The memory in bytes of any other value.
pub const VALUE_BYTES: u64 = 72;

/// The most memory in bytes that the values of a record, a manifest or another document of a study may take.
const MOST_MEMORY: u64 = 2 << 30;

/// The reason why bytes are not a document.
#[derive(Debug)]
pub enum JsonError {
    /// Its values would take this much memory in bytes.
    TooLarge(u64),
    /// It is not JSON, or not of the expected form.
    Json(serde_json::Error),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(needed) => write!(
                f,
                "its values would take about {} MiB of memory; the limit is {} MiB",
                needed >> 20,
                MOST_MEMORY >> 20
            ),
            Self::Json(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JsonError {}

/// Reads a document whose values take at most 2 GiB of memory.
///
/// # Errors
/// If the estimate is larger, or the bytes are not of this type.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    // Each value takes at least a byte, so a small document needs no count.
    if (bytes.len() as u64).saturating_mul(OBJECT_BYTES) > MOST_MEMORY {
        let needed = memory(bytes);
        if needed > MOST_MEMORY {
            return Err(JsonError::TooLarge(needed));
        }
    }
    serde_json::from_slice(bytes).map_err(JsonError::Json)
}

/// Writes a document for people to read too: indented by two spaces, with a final newline.
pub fn pretty(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(document).expect("a document always serializes");
    bytes.push(b'\n');
    bytes
}

/// Returns a value as people write it: a text without quotes, any other value as JSON.
pub fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Writes a text as JSON: in double quotes, on one line.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the leaves of a document with their dotted paths, such as `a.b.0`, in its order: the values that contain no other
/// values, and those that are `whole`. The path of the document itself is empty.
pub fn leaves(document: &Value, whole: impl Fn(&Value) -> bool) -> Vec<(String, &Value)> {
    fn walk<'a>(
        path: &str,
        value: &'a Value,
        whole: &dyn Fn(&Value) -> bool,
        leaves: &mut Vec<(String, &'a Value)>,
    ) {
        let below = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::Object(map) if !map.is_empty() && !whole(value) => {
                for (key, part) in map {
                    walk(&below(key), part, whole, leaves);
                }
            }
            Value::Array(items) if !items.is_empty() && !whole(value) => {
                for (at, part) in items.iter().enumerate() {
                    walk(&below(&at.to_string()), part, whole, leaves);
                }
            }
            leaf => leaves.push((path.to_owned(), leaf)),
        }
    }
    let mut leaves = Vec::new();
    walk("", document, &whole, &mut leaves);
    leaves
}

/// Estimates the memory in bytes that the values of a document take, without parsing them.
pub fn memory(bytes: &[u8]) -> u64 {
    let (mut needed, mut in_text, mut escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => needed += OBJECT_BYTES,
            b',' | b':' | b'[' => needed += VALUE_BYTES,
            _ => {}
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_are_named_by_their_path() {
        let document = json!({"a": {"b": [1, {"c": null}]}, "d": [], "e": {}, "f": ["x", "y"]});
        let named = |whole: fn(&Value) -> bool| -> Vec<String> {
            let leaves = leaves(&document, whole);
            let line = |(path, leaf): (String, &Value)| format!("{path}={leaf}");
            leaves.into_iter().map(line).collect()
        };
        let all = [
            "a.b.0=1",
            "a.b.1.c=null",
            "d=[]",
            "e={}",
            "f.0=\"x\"",
            "f.1=\"y\"",
        ];
        assert_eq!(named(|_| false), all);
        let lists = ["a.b=[1,{\"c\":null}]", "d=[]", "e={}", "f=[\"x\",\"y\"]"];
        assert_eq!(named(Value::is_array), lists);
        assert_eq!(leaves(&json!(1), |_| false), [(String::new(), &json!(1))]);
    }

    #[test]
    fn a_document_that_would_take_all_memory_is_refused_before_it_is_parsed() {
        let mut bytes = b"[".to_vec();
        bytes.resize(40 << 20, b',');
        // Nobody parses it: the end would be an error of the syntax.
        let error = parse::<Value>(&bytes).unwrap_err();
        assert!(matches!(error, JsonError::TooLarge(_)), "{error}");
        assert!(error.to_string().contains("the limit is 2048 MiB"));
        let mut text = b"\"".to_vec();
        text.resize(40 << 20, b',');
        text.push(b'"');
        assert!(parse::<Value>(&text).unwrap().is_string());
        assert!(matches!(parse::<Value>(b"{"), Err(JsonError::Json(_))));
    }
}
