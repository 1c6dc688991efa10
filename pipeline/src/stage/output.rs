//! What a cell leaves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::Digest;
use serde::{Deserialize, Serialize};

use super::lease::Lease;
use super::settings::Json;
use super::status::Failure;

/// A result that was there before, and is adopted by a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The same for the same result.
    pub identity: String,
    /// The settings that choose it, as paths from the stage's settings.
    pub chosen_by: Vec<Vec<&'static str>>,
}

/// What kind of bytes an artifact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// A Parquet table.
    Parquet,
    /// A JSON document.
    Json,
    /// Plain text, for instance a log.
    Text,
    /// Markdown.
    Markdown,
    /// An SVG picture.
    Svg,
    /// An HTML page.
    Html,
    /// Anything else.
    Binary,
}

/// An artifact of a cell as its record names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The digest of the bytes.
    pub digest: Digest,
    /// What the bytes are.
    pub media: Media,
    /// How many bytes.
    pub bytes: u64,
    /// How many rows, for tables.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
}

/// The bytes of an output before they are stored.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file of the job's scratch directory; moved into the store.
    File(PathBuf),
}

/// A named output of a cell.
#[derive(Debug)]
pub struct Output {
    /// The name under which later stages find it, unique in the cell.
    pub name: String,
    /// What the bytes are.
    pub media: Media,
    /// The bytes.
    pub content: Content,
    /// How many rows, for tables.
    pub rows: Option<u64>,
}

impl Output {
    /// Makes a table output.
    ///
    /// # Errors
    /// If the table cannot be written as Parquet.
    pub fn table(name: impl Into<String>, table: &artifacts::Table) -> Result<Self, Failure> {
        let bytes = table
            .to_parquet()
            .map_err(|e| Failure::failed(e.to_string()))?;
        let rows = Some(table.rows() as u64);
        Ok(Self {
            name: name.into(),
            media: Media::Parquet,
            content: Content::Bytes(bytes),
            rows,
        })
    }

    /// Makes a JSON output: keys sorted, two-space indent, final newline.
    pub fn json(name: impl Into<String>, value: &Json) -> Self {
        let mut value = value.clone();
        value.sort_all_objects();
        let mut bytes = serde_json::to_vec_pretty(&value).expect("a JSON value always serializes");
        bytes.push(b'\n');
        Self {
            name: name.into(),
            media: Media::Json,
            content: Content::Bytes(bytes),
            rows: None,
        }
    }

    /// Makes a text output of the given kind.
    pub fn text(name: impl Into<String>, media: Media, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            media,
            content: Content::Bytes(text.into().into_bytes()),
            rows: None,
        }
    }
}

/// What an executed cell leaves.
#[derive(Default)]
pub struct Done {
    /// The outputs; names are unique.
    pub outputs: Vec<Output>,
    /// For resources: the live thing.
    pub lease: Option<Box<dyn Lease>>,
    /// Facts of this execution for the record, not for any key.
    pub observations: BTreeMap<String, Json>,
    /// Doubts about the result, shown to the user and kept in the record.
    pub warnings: Vec<String>,
}
