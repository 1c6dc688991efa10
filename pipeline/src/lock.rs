//! The lock: `NAME.lock` next to the YAML, meant to be committed.
//!
//! ```text
//! benchtrail lock 2
//! experiment "quickstart"
//! seed 164
//! trail b3:…
//! stage "ladder" measurement
//! ok concurrency=1,rep=1 b3:KEY b3:RECORD b3:OUTPUTS
//! earlier ok b3:KEY b3:RECORD
//! failed concurrency=2,rep=1 b3:KEY b3:RECORD - "no token within 30 s"
//! excluded concurrency=8,rep=1 - - - "too slow on this machine"
//! stage "report" study
//! ok - b3:KEY b3:RECORD b3:OUTPUTS
//! ```
//!
//! Stages and cells are sorted by name, so that equal results give equal files. OUTPUTS is
//! the digest of the output summary ([`crate::record::outputs_text`]).
//!
//! A measurement leaves a trace: under its line is a line `earlier` for each execution of the same cell whose result is
//! not in use, oldest first. These lines are copied from lock to lock, and from the store's history. So a discarded
//! result stays visible after a manual repetition or a lost lock. An `earlier` line with another key was measured under
//! another recipe. Locks of version 1 have no such lines and can still be read.
//!
//! # The trail digest
//!
//! One hash for the whole study: BLAKE3 over one line for each cell, in file order, of all stages except those that see
//! the study (they contain the trail). A line is `CELL STATUS` and the reason, if any. Then follow, for a measurement,
//! the digests of its record and of its earlier results; for any other cell, the digest of its outputs. So a pure stage
//! that produces the same bytes again does not change the trail, and a new measurement always does.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use artifacts::json::quoted;
use artifacts::{ActionKey, Digest};

pub use crate::name::{is_lock, lock_file};
use crate::place::{Coordinates, PlaceError, Reader, WrittenCell, cell_text};
use crate::stage::{CellStatus, Class};

mod owner;

pub use owner::{Owner, lock_path};

/// The latest format of locks.
const FORMAT: u32 = 2;

/// The line that begins a lock of this format.
const FIRST_LINE: &str = "benchtrail lock 2";

/// The first line of locks without earlier results.
const FIRST_LINE_1: &str = "benchtrail lock 1";

/// The part of a stage's cells that goes into the trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockClass {
    /// A resource: status and outputs.
    Resource,
    /// A measurement: status and record.
    Measurement,
    /// A pure stage: status and outputs.
    Pure,
    /// A stage that sees the study: nothing.
    Study,
}

impl LockClass {
    /// Returns the class to write into the lock.
    pub fn of(class: Class, sees_study: bool) -> Self {
        match class {
            _ if sees_study => Self::Study,
            Class::Resource => Self::Resource,
            Class::Measurement => Self::Measurement,
            Class::Pure => Self::Pure,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Measurement => "measurement",
            Self::Pure => "pure",
            Self::Study => "study",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Resource, Self::Measurement, Self::Pure, Self::Study]
            .into_iter()
            .find(|c| c.word() == word)
    }
}

/// The lock of one experiment (and profile).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// The experiment's name.
    pub experiment: String,
    /// The profile, if any.
    pub profile: Option<String>,
    /// The experiment's seed.
    pub seed: u64,
    /// The stages, sorted by name.
    pub stages: Vec<LockStage>,
}

/// The cells of one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct LockStage {
    /// The stage's name.
    pub name: String,
    /// Its class.
    pub class: LockClass,
    /// Its cells, sorted by coordinates.
    pub cells: Vec<LockCell>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct LockCell {
    /// The coordinates as text; empty for a stage without axes.
    pub coordinates: String,
    /// The status.
    pub status: CellStatus,
    /// The action key; `None` if it could not be computed.
    pub key: Option<ActionKey>,
    /// The record's digest, if it was executed.
    pub record: Option<Digest>,
    /// The digest of the output summary, if ok.
    pub outputs: Option<Digest>,
    /// The reason if it is not ok.
    pub reason: Option<String>,
    /// For a measurement: its other executions, oldest first.
    pub earlier: Vec<Earlier>,
}

/// An execution of a measurement whose result is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Its status.
    pub status: CellStatus,
    /// Its action key; equal to the cell's if the recipe is the same.
    pub key: ActionKey,
    /// Its record's digest.
    pub record: Digest,
}

impl LockCell {
    /// Returns the cell of this line, given the stage's name.
    pub(crate) fn of<'a>(&'a self, stage: &'a str) -> WrittenCell<&'a str> {
        WrittenCell {
            stage,
            coordinates: &self.coordinates,
        }
    }

    /// Returns the number of executions of the cell under its present recipe, including failures.
    pub fn executions(&self) -> usize {
        usize::from(self.record.is_some()) + self.same_recipe().count()
    }

    /// Returns the records of ok results under its present recipe that are not in use.
    pub fn discarded(&self) -> impl Iterator<Item = Digest> + '_ {
        let fine = |e: &&Earlier| e.status == CellStatus::Ok;
        self.same_recipe().filter(fine).map(|e| e.record)
    }

    fn same_recipe(&self) -> impl Iterator<Item = &Earlier> {
        self.earlier.iter().filter(|e| Some(e.key) == self.key)
    }
}

impl LockCell {
    /// Returns the coordinates.
    ///
    /// # Errors
    /// If the text is not valid coordinates; in a lock that was read, it always is.
    pub fn place(&self) -> Result<Coordinates, PlaceError> {
        self.coordinates.parse()
    }
}

/// An error while reading or writing the lock.
#[derive(Debug)]
pub enum LockError {
    /// The file system returned an error while the file was read.
    Unreadable(PathBuf, io::Error),
    /// The file system returned an error while the file was written.
    Io(PathBuf, io::Error),
    /// A line is malformed.
    Line(PathBuf, usize, String),
    /// A later version of this program wrote the file: the number of its format.
    Later(PathBuf, u32),
    /// The cells do not match the trail digest in the header.
    Trail(PathBuf, Box<(Digest, Digest)>),
    /// The lock of an experiment's file is that of another experiment.
    Other(Box<Owner>),
}

impl LockError {
    /// Returns the place and the reason without the remedy, which only helps whoever ran the experiment.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreadable(path, error) | Self::Io(path, error) => {
                format!("{}: {}", path.display(), artifacts::without_path(error))
            }
            Self::Line(path, line, what) => format!("{}:{line}: {what}", path.display()),
            Self::Later(path, format) => format!(
                "{}: the lock has format {format}, and this version of Benchtrail reads up to format {FORMAT}",
                path.display()
            ),
            Self::Trail(path, digests) => format!(
                "{}: the header says trail {}, but the cells give {}: the file was edited",
                path.display(),
                digests.0.short(),
                digests.1.short()
            ),
            Self::Other(owner) => owner.to_string(),
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())?;
        f.write_str(match self {
            Self::Unreadable(..) => "",
            Self::Io(..) => {
                "; the lock is written to the experiment's folder, which must be writable"
            }
            Self::Later(..) => "; use the version that wrote it, or a later one",
            Self::Other(_) => {
                "; rename one of the two files, so that each has its own lock, or move the lock away if its experiment is \
                 gone"
            }
            Self::Line(..) | Self::Trail(..) => {
                "; restore the file, or delete it and run again (the results are still in the store)"
            }
        })
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(_, error) | Self::Io(_, error) => Some(error),
            Self::Line(..) | Self::Later(..) | Self::Trail(..) | Self::Other(_) => None,
        }
    }
}

/// The largest lock, in bytes: about a thousand for each of the most cells of an experiment.
pub const MOST_BYTES: u64 = 1 << 30;

impl Lock {
    /// Returns the trail digest.
    pub fn trail(&self) -> Digest {
        let mut bytes = b"benchtrail/1/trail\0".to_vec();
        for stage in self.stages.iter().filter(|s| s.class != LockClass::Study) {
            for cell in &stage.cells {
                bytes.extend_from_slice(cell_text(&stage.name, &cell.coordinates).as_bytes());
                bytes.push(b' ');
                bytes.extend_from_slice(cell.status.word().as_bytes());
                if let Some(reason) = &cell.reason {
                    bytes.push(b' ');
                    bytes.extend_from_slice(quoted(reason).as_bytes());
                }
                let result = if stage.class == LockClass::Measurement {
                    cell.record
                } else {
                    cell.outputs
                };
                if let Some(digest) = result {
                    bytes.push(b' ');
                    bytes.extend_from_slice(digest.as_bytes());
                }
                for earlier in &cell.earlier {
                    bytes.extend_from_slice(b" earlier ");
                    bytes.extend_from_slice(earlier.status.word().as_bytes());
                    bytes.push(b' ');
                    bytes.extend_from_slice(earlier.key.0.as_bytes());
                    bytes.extend_from_slice(earlier.record.as_bytes());
                }
                bytes.push(b'\n');
            }
        }
        Digest::of(&bytes)
    }

    /// Sorts stages and cells in file order.
    pub fn sort(&mut self) {
        self.stages.sort_by(|a, b| a.name.cmp(&b.name));
        for stage in &mut self.stages {
            stage
                .cells
                .sort_by(|a, b| a.coordinates.cmp(&b.coordinates));
        }
    }

    /// Returns the file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nexperiment {}\n", quoted(&self.experiment));
        if let Some(profile) = &self.profile {
            text.push_str(&format!("profile {}\n", quoted(profile)));
        }
        text.push_str(&format!("seed {}\ntrail {}\n", self.seed, self.trail()));
        for stage in &self.stages {
            text.push_str(&format!(
                "stage {} {}\n",
                quoted(&stage.name),
                stage.class.word()
            ));
            for cell in &stage.cells {
                text.push_str(cell.status.word());
                text.push(' ');
                text.push_str(if cell.coordinates.is_empty() {
                    "-"
                } else {
                    &cell.coordinates
                });
                for digest in [cell.key.map(|k| k.0), cell.record, cell.outputs] {
                    match digest {
                        Some(digest) => {
                            text.push_str(" b3:");
                            text.push_str(&digest.hex());
                        }
                        None => text.push_str(" -"),
                    }
                }
                if let Some(reason) = &cell.reason {
                    text.push(' ');
                    text.push_str(&quoted(reason));
                }
                text.push('\n');
                for earlier in &cell.earlier {
                    let (key, record) = (earlier.key.0.hex(), earlier.record.hex());
                    let status = earlier.status.word();
                    text.push_str(&format!("earlier {status} b3:{key} b3:{record}\n"));
                }
            }
        }
        text
    }

    /// Reads a lock; `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, is not a lock, or was edited.
    pub fn read(path: &Path) -> Result<Option<Self>, LockError> {
        match artifacts::regular::read_text_at_most(path, MOST_BYTES) {
            Ok(text) => Self::parse(&text, path).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            // A damaged file, and no fault of the machine.
            Err(e)
                if [io::ErrorKind::InvalidData, io::ErrorKind::FileTooLarge]
                    .contains(&e.kind()) =>
            {
                Err(LockError::Line(path.to_owned(), 1, e.to_string()))
            }
            Err(e) => Err(LockError::Unreadable(path.to_owned(), e)),
        }
    }

    /// Reads the text of a lock; `path` is for messages.
    ///
    /// # Errors
    /// If the text is not a lock, or was edited.
    pub fn parse(text: &str, path: &Path) -> Result<Self, LockError> {
        let mut lock = Self::default();
        let mut trail = None;
        for (i, line) in text.lines().enumerate() {
            let wrong = |what: &str| LockError::Line(path.to_owned(), i + 1, what.to_owned());
            if ["<<<<<<<", "=======", ">>>>>>>", "|||||||"]
                .iter()
                .any(|mark| line.starts_with(mark))
            {
                return Err(wrong("a merge conflict was left in the lock"));
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (i, word) {
                (0, _) if line == FIRST_LINE || line == FIRST_LINE_1 => {}
                (0, _) => {
                    let format = line.strip_prefix("benchtrail lock ");
                    let format = format.and_then(|number| number.parse::<u32>().ok());
                    return Err(match format.filter(|number| *number > FORMAT) {
                        Some(number) => LockError::Later(path.to_owned(), number),
                        None => wrong(&format!("expected `{FIRST_LINE}`")),
                    });
                }
                (_, "experiment") => {
                    lock.experiment = unquoted(rest).ok_or_else(|| wrong("expected a name"))?;
                }
                (_, "profile") => {
                    lock.profile = Some(unquoted(rest).ok_or_else(|| wrong("expected a profile"))?);
                }
                (_, "seed") => lock.seed = rest.parse().map_err(|_| wrong("expected a seed"))?,
                (_, "trail") => {
                    trail = Some(
                        rest.parse()
                            .map_err(|e: artifacts::DigestParseError| wrong(&e.to_string()))?,
                    );
                }
                (_, "stage") => {
                    let (name, class) = rest
                        .rsplit_once(' ')
                        .ok_or_else(|| wrong("expected `stage NAME CLASS`"))?;
                    let name = unquoted(name).ok_or_else(|| wrong("expected a stage's name"))?;
                    let class =
                        LockClass::parse(class).ok_or_else(|| wrong("expected a stage's class"))?;
                    lock.stages.push(LockStage {
                        name,
                        class,
                        cells: Vec::new(),
                    });
                }
                (_, "earlier") => {
                    let cell = lock.stages.last_mut().and_then(|s| s.cells.last_mut());
                    let cell = cell.ok_or_else(|| wrong("expected the line of a cell first"))?;
                    cell.earlier
                        .push(earlier_line(rest).map_err(|what| wrong(&what))?);
                }
                _ => {
                    let stage = lock
                        .stages
                        .last_mut()
                        .ok_or_else(|| wrong("expected a header line"))?;
                    stage
                        .cells
                        .push(cell_line(word, rest).map_err(|what| wrong(&what))?);
                }
            }
        }
        let Some(header) = trail else {
            return Err(LockError::Line(
                path.to_owned(),
                1,
                "the lock has no trail digest".to_owned(),
            ));
        };
        let computed = lock.trail();
        if computed != header {
            return Err(LockError::Trail(
                path.to_owned(),
                Box::new((header, computed)),
            ));
        }
        Ok(lock)
    }

    /// Checks that a lock can be written at this path, by writing a file next to it.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub(crate) fn try_place(path: &Path) -> Result<(), LockError> {
        let trial = beside(path);
        let made = create_new(&trial).and_then(|_| fs::remove_file(&trial));
        made.map_err(|e| LockError::Io(path.to_owned(), e))
    }

    /// Writes the file if its text would change; at every instant, the file has either the old or the new text. Returns
    /// whether it was written.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn write(&self, path: &Path) -> Result<bool, LockError> {
        let text = self.to_text();
        let error = |e| LockError::Io(path.to_owned(), e);
        match artifacts::regular::read(path) {
            Ok(bytes) if bytes == text.as_bytes() => return Ok(false),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(error(e)),
        }
        let temporary = beside(path);
        let write = || {
            let mut file = create_new(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            let folder = path
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&temporary);
            error(e)
        })?;
        Ok(true)
    }

    /// Returns the lock's lines by cell.
    pub fn index(&self) -> HashMap<WrittenCell<&str>, &LockCell> {
        let stages = self.stages.iter();
        let lines = stages.flat_map(|stage| {
            let cells = stage.cells.iter();
            cells.map(|cell| (cell.of(&stage.name), cell))
        });
        lines.collect()
    }

    /// Returns the records of earlier results, which stay in the store if they exist there.
    pub fn earlier(&self) -> impl Iterator<Item = Digest> + '_ {
        let cells = self.stages.iter().flat_map(|s| &s.cells);
        cells.flat_map(|c| c.earlier.iter().map(|e| e.record))
    }

    /// Returns the records in use: the roots that must stay in the store.
    pub fn records(&self) -> impl Iterator<Item = Digest> + '_ {
        self.stages
            .iter()
            .flat_map(|s| s.cells.iter().filter_map(|c| c.record))
    }
}

/// Returns the path where a lock is written before it is renamed.
fn beside(path: &Path) -> PathBuf {
    // Containers may share the folder, and their processes may have the same numbers.
    let namespace = crate::process::namespace().unwrap_or_default();
    path.with_extension(format!("{}-{namespace}.lock.tmp", std::process::id()))
}

/// Creates a file anew. A project from elsewhere may have a link in its place.
fn create_new(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => fs::File::create_new(path),
    }
}

fn unquoted(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Reads the status at the start of a line.
fn status_of(word: &str) -> Result<CellStatus, String> {
    CellStatus::parse(word).ok_or_else(|| format!("`{word}` is not a status"))
}

fn earlier_line(rest: &str) -> Result<Earlier, String> {
    let fields: Vec<&str> = rest.split(' ').collect();
    let [status, key, record] = fields.as_slice() else {
        return Err("expected `earlier STATUS KEY RECORD`".to_owned());
    };
    let digest = |text: &str| text.parse::<Digest>().map_err(|e| e.to_string());
    Ok(Earlier {
        status: status_of(status)?,
        key: ActionKey(digest(key)?),
        record: digest(record)?,
    })
}

fn cell_line(status: &str, rest: &str) -> Result<LockCell, String> {
    use CellStatus::Ok as Fine;
    let status = status_of(status)?;
    let (coordinates, rest) = split_coordinates(rest)?;
    let mut fields = rest.splitn(4, ' ');
    let mut digest = |what: &str| match fields.next() {
        Some("-") => Ok(None),
        Some(text) => text.parse::<Digest>().map(Some).map_err(|e| e.to_string()),
        None => Err(format!("expected the digest of the {what}")),
    };
    let key = digest("key")?.map(ActionKey);
    let record = digest("record")?;
    let outputs = digest("outputs")?;
    let reason = match fields.next() {
        None => None,
        Some(text) => Some(unquoted(text).ok_or("expected a quoted reason")?),
    };
    if (status == Fine)
        != (record.is_some() && outputs.is_some() && key.is_some() && reason.is_none())
    {
        return Err(format!(
            "a cell that is `{}` needs other fields",
            status.word()
        ));
    }
    let coordinates = if coordinates == "-" {
        String::new()
    } else {
        coordinates.to_owned()
    };
    Ok(LockCell {
        coordinates,
        status,
        key,
        record,
        outputs,
        reason,
        earlier: Vec::new(),
    })
}

/// Reads canonical coordinates from the front of a line, or `-` if there are none.
fn split_coordinates(text: &str) -> Result<(&str, &str), String> {
    if let Some(rest) = text.strip_prefix("- ") {
        return Ok(("-", rest));
    }
    let mut reader = Reader::new(text);
    let wrong = |what: &dyn fmt::Display| format!("expected coordinates: {what}");
    let coordinates = reader.coordinates().map_err(|e| wrong(&e))?;
    let rest = reader.rest();
    let written = &text[..text.len() - rest.len()];
    let rest = rest
        .strip_prefix(' ')
        .ok_or_else(|| wrong(&"a space must follow"))?;
    if coordinates.0.is_empty() || coordinates.to_string() != written {
        return Err(format!("expected coordinates, written {coordinates}"));
    }
    Ok((written, rest))
}

#[cfg(test)]
mod tests;
