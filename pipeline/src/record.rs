//! The record: the provenance document of one executed cell, itself an artifact (JSON).
//!
//! Also defines the summary, with one line per output, that the store's index keeps with a key, so that a plan reads no
//! records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use artifacts::json::{self, JsonError};
use artifacts::{ActionKey, Commit, Digest};
use serde::{Deserialize, Serialize};

use crate::design::{Place, Preflight};
use crate::key::Recipe;
use crate::name::OutputName;
use crate::stage::{Artifact, CellStatus, Coordinates, Json, Media};

/// The version of the document.
pub const RECORD_FORMAT: u32 = 1;

/// The longest duration that is believed, in seconds: about three centuries.
const LONGEST: f64 = 1e10;

/// The provenance of one executed cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the document.
    pub format: u32,
    /// The experiment it was executed for.
    pub experiment: String,
    /// The stage.
    pub stage: String,
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// The action key.
    pub key: ActionKey,
    /// Its status.
    pub status: CellStatus,
    /// The reason if it is not ok.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The outputs, by name; empty unless ok.
    pub outputs: BTreeMap<OutputName, Artifact>,
    /// The evidence left by a failure or a stopped resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub evidence: BTreeMap<OutputName, Artifact>,
    /// Every attempt, including the last one.
    pub attempts: Vec<Attempt>,
    /// The start time: wall clock, RFC 3339, UTC.
    pub started: String,
    /// The total duration of all attempts, in seconds.
    pub seconds: f64,
    /// Its place in the execution order of its run, from 1.
    pub order: u64,
    /// Its place in the experiment's design, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Place>,
    /// For a measurement: the check of the machine when its run began, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub preflight: Option<Preflight>,
    /// Facts about this execution, in no key.
    pub observations: BTreeMap<String, Json>,
    /// Doubts about the result.
    pub warnings: Vec<String>,
    /// The host that executed it, by a name that distinguishes hosts; absent for a pure cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// The person who executed it, if they chose to be named; absent for a pure cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// The program that executed it.
    pub build: Build,
    /// The names of the environment variables of the process that executed it. Values may be secrets and are not kept.
    /// An engine's definition states which of them it gets.
    pub environment: Vec<String>,
    /// The digest of each claim that the experiment declared when it executed the cell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub claims: BTreeMap<String, Digest>,
    /// The digest of the tests behind each of these claims, as declared then: the tables that its rules name, and the gates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub claim_tests: BTreeMap<String, Digest>,
    /// The files that its settings name, by the name used there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub files: BTreeMap<String, Digest>,
    /// Everything that determined the result.
    pub recipe: Recipe,
}

/// One attempt at a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its status.
    pub status: CellStatus,
    /// The reason if it is not ok.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Its duration in seconds.
    pub seconds: f64,
    /// The evidence it left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub evidence: BTreeMap<OutputName, Artifact>,
}

/// The build of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version of benchtrail.
    pub version: String,
    /// The output of `git describe` at build time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub describe: Option<String>,
}

/// The reason why bytes are not a record.
#[derive(Debug)]
pub enum RecordError {
    /// The bytes are not the JSON of a record.
    Json(JsonError),
    /// The record has a version that this program does not know.
    Format(u32),
    /// Its parts contradict each other.
    Contradiction(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a record: {error}"),
            Self::Contradiction(what) => write!(f, "the record contradicts itself: {what}"),
            Self::Format(format) => {
                write!(
                    f,
                    "the record has format {format}, but this program reads format {RECORD_FORMAT}"
                )
            }
        }
    }
}

impl std::error::Error for RecordError {}

impl Record {
    /// Reads a record. Its recipe gives its key, it began at a time, and no duration is negative.
    ///
    /// # Errors
    /// If the bytes are not a record in a known format, or its parts contradict each other.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = json::parse(bytes).map_err(RecordError::Json)?;
        if head.format != RECORD_FORMAT {
            return Err(RecordError::Format(head.format));
        }
        let record: Self = json::parse(bytes).map_err(RecordError::Json)?;
        match record.contradiction() {
            Some(what) => Err(RecordError::Contradiction(what)),
            None => Ok(record),
        }
    }

    /// Returns the contradiction between its parts. A record may come from anybody, and its key decides which cell uses
    /// its outputs.
    fn contradiction(&self) -> Option<String> {
        if self.recipe.format != Recipe::current_format() {
            return Some(format!("its recipe has the format {}", self.recipe.format));
        }
        if self.recipe.key() != self.key {
            return Some("its recipe gives another key".to_owned());
        }
        if self.began().is_none() {
            return Some(format!(
                "it began at `{}`, which is not a time",
                self.started
            ));
        }
        let attempts = self.attempts.iter().map(|attempt| attempt.seconds);
        let mut spans = attempts.chain([self.seconds]);
        spans
            .find(|span| !(0.0..=LONGEST).contains(span))
            .map(|span| format!("it took {span} s"))
    }

    /// Returns the time at which it began.
    fn began(&self) -> Option<jiff::Timestamp> {
        self.started.parse().ok()
    }

    /// Reads only the outputs of a record, because the record of a stage over many cells consists mostly of inputs.
    ///
    /// # Errors
    /// Same as [`Record::parse`], but only the outputs are checked.
    pub fn parse_outputs(bytes: &[u8]) -> Result<BTreeMap<OutputName, Artifact>, RecordError> {
        #[derive(Deserialize)]
        struct Part {
            format: u32,
            outputs: BTreeMap<OutputName, Artifact>,
        }
        let part: Part = json::parse(bytes).map_err(RecordError::Json)?;
        match part.format {
            RECORD_FORMAT => Ok(part.outputs),
            other => Err(RecordError::Format(other)),
        }
    }

    /// Returns the document's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        json::pretty(self)
    }

    /// Returns every artifact that the record names in addition to its inputs: outputs and evidence.
    pub fn artifacts(&self) -> BTreeSet<Digest> {
        let attempts = self.attempts.iter().flat_map(|a| a.evidence.values());
        self.outputs
            .values()
            .chain(self.evidence.values())
            .chain(attempts)
            .map(|a| a.digest)
            .collect()
    }

    /// Returns every artifact that the record names, with the size in bytes that it gives for it.
    pub fn sizes(&self) -> Vec<(Digest, u64)> {
        let attempts = self.attempts.iter().flat_map(|a| a.evidence.values());
        let named = self.outputs.values().chain(self.evidence.values());
        let mut sizes: Vec<_> = named.chain(attempts).map(|a| (a.digest, a.bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the record's entry in the store's index.
    pub fn commit(&self, record: Digest) -> Commit {
        let mut objects: Vec<Digest> = self.artifacts().into_iter().collect();
        objects.push(record);
        Commit {
            experiment: self.experiment.clone(),
            stage: self.stage.clone(),
            coordinates: self.coordinates.to_string(),
            key: self.key,
            record,
            objects,
            status: self.status.word().to_owned(),
            cacheable: self.status == CellStatus::Ok,
            seconds: self.seconds,
            outputs: outputs_text(&self.outputs),
        }
    }
}

/// Returns the artifacts that a record names: outputs, evidence, and the inputs and files it was made from. Used to
/// check and collect the store.
///
/// # Errors
/// If the bytes are not a record.
pub fn references(bytes: &[u8]) -> Result<Vec<Digest>, RecordError> {
    let record = Record::parse(bytes)?;
    let mut artifacts = record.artifacts();
    let cells = record.recipe.inputs.iter().flat_map(|input| &input.cells);
    artifacts.extend(cells.flat_map(|cell| cell.outputs.values().copied()));
    artifacts.extend(record.files.values());
    Ok(artifacts.into_iter().collect())
}

/// Returns the view of a record for the store's checks, sweeps and rebuilds; `None` for other bytes.
pub fn view(digest: &Digest, bytes: &[u8]) -> Option<artifacts::RecordView> {
    let record = Record::parse(bytes).ok()?;
    let started = record.began()?;
    let cells = record.recipe.inputs.iter().flat_map(|input| &input.cells);
    Some(artifacts::RecordView {
        commit: record.commit(*digest),
        finished: started
            .as_microsecond()
            .saturating_add((record.seconds * 1e6) as i64),
        inputs: cells
            .flat_map(|cell| cell.outputs.values().copied())
            .collect(),
        input_records: Vec::new(),
        files: record.files.values().copied().collect(),
        sizes: record.sizes(),
    })
}

/// Returns the summary of outputs in the index: a line `NAME DIGEST MEDIA BYTES ROWS` for each, sorted by name, `-` for
/// no rows.
pub fn outputs_text(outputs: &BTreeMap<OutputName, Artifact>) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    for (name, artifact) in outputs {
        let rows = artifact
            .rows
            .map_or_else(|| "-".to_owned(), |r| r.to_string());
        let media = artifact.media.word();
        writeln!(
            text,
            "{name} {} {media} {} {rows}",
            artifact.digest, artifact.bytes
        )
        .expect("writing to a string never fails");
    }
    text
}

/// Reads a line of [`outputs_text`]: the name and the artifact.
fn output_line(line: &str) -> Option<(&str, Artifact)> {
    // From the right: a name may contain spaces, the other fields do not.
    let mut fields = line.rsplitn(5, ' ');
    let rows = match fields.next()? {
        "-" => None,
        rows => Some(rows.parse().ok()?),
    };
    let bytes = fields.next()?.parse().ok()?;
    let media = Media::parse(fields.next()?)?;
    let digest = fields.next()?.parse().ok()?;
    let name = fields.next()?;
    OutputName::check(name).ok()?;
    Some((
        name,
        Artifact {
            digest,
            media,
            bytes,
            rows,
        },
    ))
}

/// Reads [`outputs_text`] back; `None` for other text. Every name is a valid [`OutputName`].
pub fn parse_outputs(text: &str) -> Option<Vec<(&str, Artifact)>> {
    text.lines().map(output_line).collect()
}

/// Reads the outputs of a cell that is ok. Its result is not used if the text of the index is another one.
pub(crate) fn outputs_in_use(text: &str) -> Vec<(&str, Artifact)> {
    parse_outputs(text).expect("checked when it was looked up")
}

/// Returns whether [`parse_outputs`] can read a text.
pub(crate) fn are_outputs(text: &str) -> bool {
    text.lines().all(|line| output_line(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(text: &str) -> Artifact {
        Artifact {
            digest: Digest::of(text.as_bytes()),
            media: Media::Json,
            bytes: text.len() as u64,
            rows: None,
        }
    }

    fn name(text: &str) -> OutputName {
        OutputName::new(text).unwrap()
    }

    fn record() -> Record {
        let recipe = crate::key::tests_sample();
        Record {
            format: RECORD_FORMAT,
            experiment: "study".into(),
            stage: "ladder".into(),
            coordinates: recipe.replicate.clone(),
            key: recipe.key(),
            status: CellStatus::Failed,
            reason: Some("the server went away".into()),
            outputs: BTreeMap::from([(name("requests"), artifact("rows"))]),
            evidence: BTreeMap::from([(name("log"), artifact("log"))]),
            attempts: vec![Attempt {
                status: CellStatus::Hung,
                reason: None,
                seconds: 1.5,
                evidence: BTreeMap::from([(name("log"), artifact("first log"))]),
            }],
            started: "2026-01-01T00:00:00Z".into(),
            seconds: 2.25,
            order: 3,
            place: None,
            preflight: None,
            observations: BTreeMap::new(),
            warnings: vec!["slow".into()],
            host: Some("host-1".into()),
            by: None,
            build: Build {
                version: "0.1.0".into(),
                describe: None,
            },
            environment: vec!["PATH".into()],
            claims: BTreeMap::new(),
            claim_tests: BTreeMap::new(),
            files: BTreeMap::from([("prompts.jsonl".into(), Digest::of(b"prompts"))]),
            recipe,
        }
    }

    #[test]
    fn a_record_survives_its_bytes() {
        assert_eq!(Record::parse(&record().to_bytes()).unwrap(), record());
    }

    #[test]
    fn the_references_are_outputs_evidence_of_every_attempt_inputs_and_files() {
        let mut expected: Vec<Digest> = ["rows", "log", "first log", "descriptor", "prompts"]
            .iter()
            .map(|t| Digest::of(t.as_bytes()))
            .collect();
        expected.sort();
        assert_eq!(references(&record().to_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_record_whose_output_is_named_like_a_path_is_no_record() {
        for evil in ["../../../../X", "/etc/cron.d/x", "a//b", "a/../b", ".."] {
            let text = String::from_utf8(record().to_bytes()).unwrap();
            let text = text.replace("\"requests\"", &format!("\"{evil}\""));
            assert!(text.contains(evil));
            let error = Record::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("cannot be the name of an output"), "{error}");
        }
    }

    #[test]
    fn a_record_whose_parts_contradict_each_other_is_no_record() {
        type Change = fn(&mut Record);
        let cases: [(Change, &str); 7] = [
            (|r| r.recipe.seed += 1, "another key"),
            (|r| r.key = ActionKey(Digest::of(b"x")), "another key"),
            (|r| r.recipe.parameters = Json::Null, "another key"),
            (|r| r.recipe.format = 99, "the format 99"),
            (|r| r.started = "yesterday".to_owned(), "not a time"),
            (|r| r.seconds = -1.0, "took -1 s"),
            (|r| r.attempts[0].seconds = 1e300, "s"),
        ];
        for (change, why) in cases {
            let mut record = record();
            change(&mut record);
            let bytes = record.to_bytes();
            let error = Record::parse(&bytes).unwrap_err().to_string();
            assert!(
                error.contains("contradicts itself") && error.contains(why),
                "{error}"
            );
            assert!(view(&Digest::of(&bytes), &bytes).is_none());
        }
    }

    #[test]
    fn other_json_and_other_formats_are_distinguished() {
        assert!(matches!(Record::parse(b"{}"), Err(RecordError::Json(_))));
        let later = Record {
            format: 99,
            ..record()
        }
        .to_bytes();
        assert!(matches!(
            Record::parse(&later),
            Err(RecordError::Format(99))
        ));
    }

    #[test]
    fn the_summary_of_outputs_survives_its_text() {
        let mut table = artifact("x");
        (table.media, table.rows) = (Media::Parquet, Some(7));
        let outputs = BTreeMap::from([(name("a name"), artifact("y")), (name("t"), table)]);
        let text = outputs_text(&outputs);
        let back: BTreeMap<OutputName, Artifact> = parse_outputs(&text)
            .unwrap()
            .into_iter()
            .map(|(n, a)| (name(n), a))
            .collect();
        assert_eq!(back, outputs);
        assert!(parse_outputs("nonsense").is_none() && !are_outputs("nonsense"));
        assert!(are_outputs(&text));
        assert!(parse_outputs(&text.replace("a name", "../../evil")).is_none());
    }

    #[test]
    fn a_failure_is_committed_as_not_cacheable() {
        assert!(!record().commit(Digest::of(b"r")).cacheable);
    }
}
