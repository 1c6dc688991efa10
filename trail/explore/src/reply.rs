//! An answer: bytes with their kind, and how long they stay true.

use artifacts::Digest;
use bytes::Bytes;
use serde_json::Value;

/// How long an answer stays true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// For ever: the bytes are named by their digest.
    Always,
    /// As long as asking again gives the same tag.
    Tagged,
    /// Not at all.
    Never,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// The media type.
    pub media: &'static str,
    /// The bytes.
    pub body: Bytes,
    /// How long they stay true.
    pub freshness: Freshness,
    /// The digest of the bytes, if one is to be told.
    pub tag: Option<String>,
    /// Whether the bytes are somebody's document, to be shown without any right.
    pub foreign: bool,
}

impl Reply {
    /// Makes an answer of bytes; all that can stay true carry a tag.
    pub fn new(media: &'static str, body: impl Into<Bytes>, freshness: Freshness) -> Self {
        let body = body.into();
        let tag = (freshness != Freshness::Never).then(|| Digest::of(&body).hex());
        Self {
            status: 200,
            media,
            body,
            freshness,
            tag,
            foreign: false,
        }
    }

    /// Makes an answer of JSON.
    pub fn json(value: &Value, freshness: Freshness) -> Self {
        Self::new("application/json", value.to_string(), freshness)
    }
}
