//! The outputs of a cell.

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::Digest;
use serde::{Deserialize, Serialize};

use super::lease::Lease;
use super::settings::Json;
use super::status::Failure;

/// An existing result that a cell adopts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// An identity: equal for the same result.
    pub identity: String,
    /// The settings that select it, as paths from the stage's settings.
    pub chosen_by: Vec<Vec<&'static str>>,
}

/// The media type of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// A Parquet table.
    Parquet,
    /// A JSON document.
    Json,
    /// Plain text, for example a log.
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

impl Media {
    /// Every media type.
    const ALL: [Self; 7] = [
        Self::Parquet,
        Self::Json,
        Self::Text,
        Self::Markdown,
        Self::Svg,
        Self::Html,
        Self::Binary,
    ];

    /// Returns the word used in files and answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Json => "json",
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Svg => "svg",
            Self::Html => "html",
            Self::Binary => "binary",
        }
    }

    /// Returns the media type for a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|media| media.word() == word)
    }
}

/// An artifact of a cell, as named in its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The digest of the bytes.
    pub digest: Digest,
    /// The media type.
    pub media: Media,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of rows, for tables.
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
    /// The name by which later stages find it, unique in the cell.
    pub name: String,
    /// The media type.
    pub media: Media,
    /// The bytes.
    pub content: Content,
    /// The number of rows, for tables.
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
        Self {
            name: name.into(),
            media: Media::Json,
            content: Content::Bytes(artifacts::json::pretty(&value)),
            rows: None,
        }
    }

    /// Makes a text output with the given media type.
    pub fn text(name: impl Into<String>, media: Media, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            media,
            content: Content::Bytes(text.into().into_bytes()),
            rows: None,
        }
    }
}

/// The result of an executed cell.
#[derive(Default)]
pub struct Done {
    /// The outputs; names are unique.
    pub outputs: Vec<Output>,
    /// For resources: the live thing.
    pub lease: Option<Box<dyn Lease>>,
    /// Facts about this execution, for the record and never for a key.
    pub observations: BTreeMap<String, Json>,
    /// Doubts about the result, shown to the user and kept in the record.
    pub warnings: Vec<String>,
}
