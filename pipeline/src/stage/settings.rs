//! What a kind sees of the settings while planning, and how it reports problems with them.

use std::io;
use std::ops::Range;
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

/// A mistake in the settings of a stage, or in a definition that they name: the problem and the remedy. The pipeline
/// adds file, line and column from the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Keys and indices from the stage's settings to the mistake; empty means the stage.
    pub route: Vec<Step>,
    /// The problem, in one sentence without a final stop.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// Whether the last key of the route is itself wrong, not its value.
    pub of_key: bool,
    /// The collection and name of the wrong definition; the route begins there.
    pub definition: Option<Box<(String, String)>>,
    /// The text at the end of the route, and the bytes of it that are wrong; `None` if the whole value is.
    pub part: Option<Box<(String, Range<usize>)>>,
}

impl Problem {
    /// Makes a problem at a place given as keys, for example `["arrival", "clients"]`.
    pub fn at(keys: &[&str], message: impl Into<String>) -> Self {
        let route = keys.iter().map(|k| Step::Key((*k).to_owned())).collect();
        Self {
            route,
            message: message.into(),
            hint: None,
            of_key: false,
            definition: None,
            part: None,
        }
    }

    /// Makes a problem with the last of the keys itself, such as an unknown name.
    pub fn at_key(keys: &[&str], message: impl Into<String>) -> Self {
        Self {
            of_key: true,
            ..Self::at(keys, message)
        }
    }

    /// Makes the route begin at a definition instead of the stage's settings.
    #[must_use]
    pub fn in_definition(mut self, collection: &str, name: &str) -> Self {
        self.definition = Some(Box::new((collection.to_owned(), name.to_owned())));
        self
    }

    /// Names the part of the text at the end of the route that is wrong.
    #[must_use]
    pub fn part(mut self, text: &str, bytes: Range<usize>) -> Self {
        self.part = Some(Box::new((text.to_owned(), bytes)));
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A cell that another cell needs, as known while planning.
#[derive(Clone, Debug)]
pub struct Needed<'a> {
    /// The name of its stage.
    pub stage: &'a str,
    /// The kind of its stage.
    pub kind: &'a str,
    /// Its canonical parameters; null if they are wrong, which is already reported.
    pub parameters: &'a Json,
    /// Its own needs.
    pub needs: Vec<Needed<'a>>,
}

impl<'a> Needed<'a> {
    /// Returns the first needed cell of a kind.
    pub fn of_kind<'n>(needs: &'n [Needed<'a>], kind: &str) -> Option<&'n Needed<'a>> {
        needs.iter().find(|needed| needed.kind == kind)
    }
}

/// A table that a stage will make from other stages' cells. It is known while planning, so that an axis with the name
/// of a column can be reported then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTable {
    /// The table's name in the setting `tables`.
    pub name: String,
    /// The operator that makes it, for messages.
    pub operator: String,
    /// The kind of the stages whose coordinates become columns of the table.
    pub of_kind: &'static str,
    /// Its columns, without those for coordinates.
    pub columns: Vec<String>,
}

/// A table that a cell can write, as planning knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTable {
    /// The name of the output.
    pub name: String,
    /// Every column that it can have, except for the coordinates of its cell; `None` if they are unknown.
    pub columns: Option<Vec<String>>,
    /// Those of its columns that contain only labels of the axis of the same name.
    pub axes: Vec<String>,
}

/// An axis of the study, as planning knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownAxis {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<Scalar>,
    /// The labels that the profile or the command line leaves out.
    pub left_out: Vec<Scalar>,
}

/// The tables of a needed stage, as planning knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStage {
    /// The name of the stage.
    pub stage: String,
    /// Every table that its cells can write, with the coordinates among the columns; `None` if they are unknown.
    pub tables: Option<Vec<KnownTable>>,
    /// The canonical parameters of a pure stage, one for each of its parameter sets; empty for the others.
    pub parameters: Vec<Json>,
}

/// Named definitions that a kind may refer to: `engines`, `models`, `workloads`, `templates`, …
///
/// They are looked up in the experiment's own sections, then in folders of the same names next to the experiment file
/// and in the user's configuration, then among those that ship with the program.
pub trait Library {
    /// Returns a definition with `extends` merged. A template is a JSON string.
    fn find(&self, collection: &str, name: &str) -> Option<Json>;
    /// Returns the names in a collection, sorted.
    fn names(&self, collection: &str) -> Vec<String>;
    /// Registers the content of a used definition. Returns the other name under which this experiment used the same
    /// content before, if any. If two names for one thing could pass as two things, the kind reports it as a problem.
    fn claim(&self, _collection: &str, _name: &str, _content: &Json) -> Option<String> {
        None
    }
    /// Returns the names of the axes.
    fn axes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the title and the question of the experiment, each behind its key, if it has them.
    fn texts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Returns the labels of an axis, each with its fields (null for a plain label); `None` if the axis does not exist.
    /// The A/A arm has the fields of the label that it stands for.
    fn labels(&self, _axis: &str) -> Option<Vec<(Scalar, Json)>> {
        None
    }
    /// Returns the location of a file that settings or definitions name. A relative path begins at the experiment's
    /// folder, or, without an experiment, at the working directory.
    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(file)
    }
    /// Returns the digest of a file that settings name.
    ///
    /// # Errors
    /// If the file cannot be read, is not a regular file, or is too large.
    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        FileDigest::of(path, MOST_BYTES)
    }
    /// Returns the answer to a question about files named by digest. A plan computes it once, however many cells ask.
    fn once(&self, _question: &str, answer: &mut dyn FnMut() -> Json) -> Json {
        answer()
    }
    /// Records a file that the plan read.
    fn reads(&self, _source: &NamedFile) {}
    /// Returns the files that the plan has read so far.
    fn files(&self) -> NamedFiles {
        NamedFiles::default()
    }
}

/// A library without definitions, for settings that already contain theirs.
#[derive(Clone, Copy, Debug)]
pub struct NoLibrary;

impl Library for NoLibrary {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A definition that ships with the binary.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its collection.
    pub collection: &'static str,
    /// Its name: the file name without `.yaml` (templates keep their full name).
    pub name: &'static str,
    /// The file's text: YAML, or a template verbatim.
    pub text: &'static str,
}
