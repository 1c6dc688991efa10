//! What a kind sees of the settings while planning, and how it says what is wrong with them.

use std::io;
use std::path::{Path, PathBuf};

use artifacts::{FileDigest, Scalar};

use crate::sources::{MOST_BYTES, NamedFile, NamedFiles};

/// A JSON value: settings, canonical parameters, descriptors.
pub type Json = serde_json::Value;

/// One step of the route from a stage's settings to a place inside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of a mapping.
    Key(String),
    /// An index of a sequence.
    Index(usize),
}

/// A mistake in the settings of a stage, or in a definition that they name: what is wrong, and the
/// remedy. The pipeline adds file, line and column from the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Keys and indices from the stage's settings to the mistake; empty means the stage.
    pub route: Vec<Step>,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The last key of the route is itself wrong, and not what stands behind it.
    pub of_key: bool,
    /// The collection and the name of the definition that is wrong: the route begins there.
    pub definition: Option<Box<(String, String)>>,
}

impl Problem {
    /// Makes a problem at a place given as keys, for instance `["arrival", "clients"]`.
    pub fn at(keys: &[&str], message: impl Into<String>) -> Self {
        let route = keys.iter().map(|k| Step::Key((*k).to_owned())).collect();
        Self {
            route,
            message: message.into(),
            hint: None,
            of_key: false,
            definition: None,
        }
    }

    /// Makes a problem with the last of the keys itself, such as a name that nothing has.
    pub fn at_key(keys: &[&str], message: impl Into<String>) -> Self {
        Self {
            of_key: true,
            ..Self::at(keys, message)
        }
    }

    /// Says that the route begins at a definition, and not at the stage's settings.
    #[must_use]
    pub fn in_definition(mut self, collection: &str, name: &str) -> Self {
        self.definition = Some(Box::new((collection.to_owned(), name.to_owned())));
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A cell that a cell needs, as far as it is known while planning.
#[derive(Clone, Debug)]
pub struct Needed<'a> {
    /// The name of its stage.
    pub stage: &'a str,
    /// The kind of its stage.
    pub kind: &'a str,
    /// Its canonical parameters; null if they are wrong themselves, which is told already.
    pub parameters: &'a Json,
    /// What it needs itself.
    pub needs: Vec<Needed<'a>>,
}

impl<'a> Needed<'a> {
    /// Returns the first cell of a kind among those needed.
    pub fn of_kind<'n>(needs: &'n [Needed<'a>], kind: &str) -> Option<&'n Needed<'a>> {
        needs.iter().find(|needed| needed.kind == kind)
    }
}

/// A table that a stage is going to make of other stages' cells: known while planning, so that an axis
/// with the name of a column is told then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTable {
    /// The table, as the setting `tables` names it.
    pub name: String,
    /// What makes it, for people.
    pub operator: String,
    /// The kind of the stages whose coordinates it has columns for.
    pub of_kind: &'static str,
    /// Its columns, without those of coordinates.
    pub columns: Vec<String>,
}

/// Named definitions a kind may refer to: `engines`, `models`, `workloads`, `templates`, …
///
/// Looked up in the experiment's own sections, then in folders of the same names beside the
/// experiment file and in the user's configuration, then among those shipped.
pub trait Library {
    /// Returns a definition, `extends` already merged. A template is a JSON string.
    fn find(&self, collection: &str, name: &str) -> Option<Json>;
    /// Returns the names in a collection, sorted.
    fn names(&self, collection: &str) -> Vec<String>;
    /// Says what a definition that is used amounts to; returns the other name under which the
    /// same content was used before in this experiment, if there is one. Where two names for
    /// one thing would pass as two things, a kind makes a problem of it.
    fn claim(&self, _collection: &str, _name: &str, _content: &Json) -> Option<String> {
        None
    }
    /// Returns the names of the axes.
    fn axes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the labels of an axis, each with its fields (null for a plain label); `None` if there is no such
    /// axis. The A/A arm has the fields of the label that it stands for.
    fn labels(&self, _axis: &str) -> Option<Vec<(Scalar, Json)>> {
        None
    }
    /// Returns where a file lies that settings or definitions name: a relative path begins at the
    /// experiment's folder. Without an experiment it begins at the working directory.
    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(file)
    }
    /// Returns the digest of a file that settings name.
    ///
    /// # Errors
    /// If it cannot be read, or is no regular file that may be named.
    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        FileDigest::of(path, MOST_BYTES)
    }
    /// Hears of a file that the plan read.
    fn reads(&self, _source: &NamedFile) {}
    /// Returns the files that the plan has read so far.
    fn files(&self) -> NamedFiles {
        NamedFiles::default()
    }
}

/// A definition shipped with the binary.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The collection it belongs to.
    pub collection: &'static str,
    /// Its name: the file name without `.yaml` (templates keep their full name).
    pub name: &'static str,
    /// The file's text: YAML, or a template as it is.
    pub text: &'static str,
}
