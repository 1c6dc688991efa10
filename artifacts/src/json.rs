//! JSON documents from anybody: bounded in memory before they are parsed.
//!
//! Two bytes of a document can be a value of seventy bytes in memory, and repeated values compress to nothing. So a file
//! of kilobytes in an archive could take all memory.

mod distinct;

use std::fmt;

use serde::de::DeserializeOwned;

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
    use serde_json::Value;

    use super::*;

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
