//! An answer: bytes with their media type, and how long they remain valid.

use artifacts::Digest;
use bytes::Bytes;
use serde_json::Value;

/// How long an answer remains valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// For ever: the digest identifies the bytes.
    Always,
    /// As long as a new request returns the same tag.
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
    /// How long they remain valid.
    pub freshness: Freshness,
    /// The digest of the bytes, if the client should get one.
    pub tag: Option<String>,
    /// Whether the bytes are an external document, to be shown with no permissions.
    pub foreign: bool,
}

impl Reply {
    /// Creates an answer from bytes; cacheable answers carry a tag.
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

    /// Creates an answer from JSON.
    pub fn json(value: &Value, freshness: Freshness) -> Self {
        Self::new("application/json", value.to_string(), freshness)
    }
}
