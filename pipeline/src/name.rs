//! Names that become files: the names of outputs in records, in the index and in bundles, and the names of locks.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::stage::Media;

/// The name of an output. It is a valid file path in or below any folder (`figures/NAME.svg`) and cannot lead outside
/// it: no empty part, no control character, no leading dot.
///
/// Every reader of a record, of the store's index or of a bundle gets names through this type, because their author may
/// have wanted to write elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutputName(String);

/// A text that is not a valid output name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    name: String,
    why: &'static str,
}

impl OutputName {
    /// The maximum length of a name in bytes: file systems allow 255, and an extension may be added.
    pub(crate) const MOST_BYTES: usize = 200;

    /// Checks a name.
    ///
    /// # Errors
    /// If the name is empty or too long, contains a backslash or a control character, or one of its parts (figures are
    /// in a folder: `figures/NAME.svg`) is empty or starts with a dot.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        match Self::fault(&name) {
            None => Ok(Self(name)),
            Some(why) => Err(NameError { name, why }),
        }
    }

    /// Checks a name without keeping it.
    ///
    /// # Errors
    /// Same as [`OutputName::new`].
    pub fn check(name: &str) -> Result<(), NameError> {
        match Self::fault(name) {
            None => Ok(()),
            Some(why) => Err(NameError {
                name: name.to_owned(),
                why,
            }),
        }
    }

    fn fault(name: &str) -> Option<&'static str> {
        if name.is_empty() {
            Some("it is empty")
        } else if name.len() > Self::MOST_BYTES {
            Some("it has more than 200 bytes")
        } else if name.split('/').any(str::is_empty) {
            Some("a part between its separators is empty")
        } else if name.split('/').any(|part| part.starts_with('.')) {
            Some("it starts with a dot, or a part of it does")
        } else if name.contains('\\') {
            Some("it holds a backslash")
        } else if name.chars().any(char::is_control) {
            Some("it holds a control character")
        } else {
            None
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the file of a report's output: the report itself, `NAME.html`, and `NAME.OUTPUT.parquet` for each table.
/// Every other output lies under its own name in the report's folder. The name must be a valid [`OutputName`].
pub fn file_of_output(report: &Path, name: &str, media: Media) -> PathBuf {
    let stem = report.file_stem().unwrap_or_default();
    // Not `with_extension`, which panics if the name has a separator.
    let beside = |end: &str| {
        let mut file = stem.to_owned();
        file.push(end);
        report.with_file_name(file)
    };
    match name {
        "report" => report.to_owned(),
        "html" => beside(".html"),
        _ if media == Media::Parquet => beside(&format!(".{name}.parquet")),
        _ => report.with_file_name(name),
    }
}

/// Returns whether a path is named like a lock.
pub fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "lock")
}

/// Returns the path of the lock of an experiment's file: next to it, `NAME.lock`, or `NAME.PROFILE.lock` with a
/// profile.
pub fn lock_file(experiment: &Path, profile: Option<&str>) -> PathBuf {
    let mut file = experiment.file_stem().unwrap_or_default().to_owned();
    for part in profile.into_iter().chain(["lock"]) {
        file.push(".");
        file.push(part);
    }
    experiment.with_file_name(file)
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        write!(f, "{name:?} cannot be the name of an output: {why}")
    }
}

impl std::error::Error for NameError {}

impl TryFrom<String> for OutputName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<OutputName> for String {
    fn from(name: OutputName) -> Self {
        name.0
    }
}

impl Deref for OutputName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for OutputName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Borrow<String> for OutputName {
    fn borrow(&self) -> &String {
        &self.0
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq<str> for OutputName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for OutputName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "../../../../X",
            "/etc/passwd",
            "a/../b",
            "a//b",
            "a/.b",
            "a/",
            "a\\b",
            ".hidden",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
        ] {
            let error = OutputName::new(name).unwrap_err().to_string();
            assert!(!error.chars().any(char::is_control), "{error:?}");
            let json = serde_json::to_string(name).unwrap();
            assert!(
                serde_json::from_str::<OutputName>(&json).is_err(),
                "{name:?}"
            );
        }
        assert!(OutputName::new("a".repeat(201)).is_err());
    }

    #[test]
    fn ordinary_names_are_taken() {
        for name in [
            "report",
            "cells.lineage",
            "first_token.svg",
            "figures/first_token.svg",
            "a name",
            "größe",
        ] {
            assert_eq!(OutputName::new(name).unwrap(), name);
        }
    }

    #[test]
    fn an_output_lies_next_to_its_report() {
        let report = Path::new("reports/a.b.md");
        for (name, media, file) in [
            ("report", Media::Markdown, "reports/a.b.md"),
            ("html", Media::Html, "reports/a.b.html"),
            ("trace", Media::Parquet, "reports/a.b.trace.parquet"),
            ("figures/x.svg", Media::Svg, "reports/figures/x.svg"),
            ("a/b", Media::Parquet, "reports/a.b.a/b.parquet"),
        ] {
            assert_eq!(file_of_output(report, name, media), Path::new(file));
        }
    }

    proptest! {
        #[test]
        fn a_name_is_ordinary_components_of_a_path(name in any::<String>()) {
            if let Ok(name) = OutputName::new(name) {
                let parts: Vec<Component<'_>> = Path::new(name.as_str()).components().collect();
                prop_assert!(!parts.is_empty());
                prop_assert!(parts.iter().all(|part| matches!(part, Component::Normal(_))));
                for media in [Media::Parquet, Media::Svg] {
                    prop_assert!(file_of_output(Path::new("r/x.md"), &name, media).starts_with("r"));
                }
            }
        }
    }
}
