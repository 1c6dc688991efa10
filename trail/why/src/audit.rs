//! Reads every number of a report again from its artifacts, and computes every digest again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

use artifacts::{Digest, StoreError, counted};
use contract::TraceSource;
use pipeline::place::cell_text;
use pipeline::record::outputs_text;
use pipeline::{Artifact, Media, file_of_output};
use serde::Serialize;

use crate::check::{Format, check, text};
use crate::document::Document;
use crate::error::TrailError;
use crate::provenance::Provenance;
use crate::statement::{Again, Judge, judge_again, statements, values};

/// A problem that an audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place in the report, `LINE:COLUMN`.
    pub place: Option<String>,
    /// The number's text.
    pub text: Option<String>,
    /// The problem.
    pub what: String,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Audit {
    /// The report's file.
    pub report: String,
    /// The lock.
    pub lock: Option<String>,
    /// The number of numbers in the trace.
    pub numbers: usize,
    /// The number of those that come from an artifact, the lock or the experiment. The others are the report's own
    /// numbering and declared literals.
    pub traced: usize,
    /// The number of verified numbers: at their place, equal to the artifact's value, and rendered to the same text.
    pub verified: usize,
    /// The number of statements and claims in the report.
    pub statements: usize,
    /// The number of those that were judged again over their tables with the reported result.
    pub hold: usize,
    /// The number of those that were not judged again: premises, and statements over tables that the lock does not
    /// have.
    pub not_judged: usize,
    /// The number of numbers from each source.
    pub sources: BTreeMap<String, usize>,
    /// The number of artifacts and records that were hashed again.
    pub artifacts: usize,
    /// The number of artifacts that the bundle names but, by its author's declaration, does not hold.
    pub left_out: usize,
    /// The number of artifacts and records whose bytes in the store have changed.
    #[serde(skip)]
    pub damaged: usize,
    /// The tables and pages of the report that are not next to it. The report does not show them, and their bytes in the
    /// store are hashed like all others.
    pub absent: Vec<String>,
    /// All problems.
    pub problems: Vec<Problem>,
}

impl Audit {
    /// Returns whether everything holds.
    pub fn holds(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes an object that cannot be used.
    fn complain_of(&mut self, what: impl fmt::Display, error: TrailError) {
        if matches!(error, TrailError::Store(StoreError::Damaged(..))) {
            self.damaged += 1;
        }
        self.complain(format!("{what}: {}", text(error)));
    }

    fn complain(&mut self, what: impl Into<String>) {
        self.problems.push(Problem {
            place: None,
            text: None,
            what: what.into(),
        });
    }
}

/// Checks a report: its bytes and its trace's against the lock, every number against its artifact, and every artifact
/// and record of the lock against its digest. `left_out` holds the artifacts that a bundle declares as missing.
/// `format` renders a value as the report does, and `judge` judges the rule of a statement.
pub fn audit(
    document: &Document,
    provenance: &Provenance<'_>,
    left_out: &BTreeSet<Digest>,
    format: Format<'_>,
    judge: Judge<'_>,
) -> Audit {
    let mut audit = Audit {
        report: document.path.display().to_string(),
        lock: provenance.file.as_ref().map(|f| f.display().to_string()),
        numbers: document.numbers.len(),
        ..Audit::default()
    };
    seal(document, provenance, &mut audit);
    let values = judge_all(document, provenance, judge, &mut audit);
    let lines: Vec<&str> = document.markdown.split('\n').collect();
    for number in &document.numbers {
        *audit.sources.entry(number.source.to_string()).or_default() += 1;
        if !matches!(number.source, TraceSource::Structure | TraceSource::Literal) {
            audit.traced += 1;
        }
        match check(provenance, &lines, number, format, &values) {
            Ok(()) => audit.verified += 1,
            Err(what) => {
                let (place, text) = (Some(number.place()), Some(number.text.clone()));
                audit.problems.push(Problem { place, text, what });
            }
        }
    }
    if let Some(seal) = &provenance.seal {
        lock_agrees(provenance, &seal.record, &mut audit);
    }
    hash_all(document, provenance, left_out, &mut audit);
    read_earlier(provenance, left_out, &mut audit);
    audit
}

/// Judges every statement again. Returns the values of their evaluations.
fn judge_all(
    document: &Document,
    provenance: &Provenance<'_>,
    judge: Judge<'_>,
    audit: &mut Audit,
) -> BTreeMap<String, String> {
    let statements = match statements(provenance) {
        Ok(statements) => statements,
        Err(error) => {
            audit.complain(format!("the statements of the report: {}", text(error)));
            return BTreeMap::new();
        }
    };
    audit.statements = statements.len();
    for statement in &statements {
        match judge_again(document, provenance, statement, judge) {
            Ok(Again::Holds) => audit.hold += 1,
            Ok(Again::NotJudged) => audit.not_judged += 1,
            Err(what) => audit.problems.push(Problem {
                place: Some(statement.name()),
                text: statement.text.clone(),
                what,
            }),
        }
    }
    values(&statements)
}

fn seal(document: &Document, provenance: &Provenance<'_>, audit: &mut Audit) {
    if let Some(file) = &provenance.file {
        // Parsing may accept edits to the text, such as an upper-case digest or an extra space.
        match artifacts::regular::read(file) {
            Ok(bytes) if bytes == provenance.lock.to_text().as_bytes() => {}
            Ok(_) => audit.complain(format!("{}: the text was edited", file.display())),
            Err(e) => audit.complain(format!("{}: {e}", file.display())),
        }
    }
    for doubt in &provenance.doubts {
        audit.complain(doubt);
    }
    let Some(seal) = &provenance.seal else {
        audit.complain(format!(
            "no lock of this project lists the report {} or its trace {} as an output",
            document.report.short(),
            document.trace.short()
        ));
        return;
    };
    if !seal.report_intact {
        let (now, then) = (document.report.short(), seal.report.short());
        let rendered = provenance.reader.bytes(&seal.report).ok();
        let lines = rendered
            .map(|r| edited(&document.markdown, &String::from_utf8_lossy(&r)))
            .unwrap_or_default();
        audit.complain(format!(
            "the report was edited: it is {now}, but the lock has {then}{lines}"
        ));
    }
    if !seal.trace_intact {
        let then = seal.trace.map_or_else(|| "none".to_owned(), |t| t.short());
        audit.complain(format!(
            "the trace was edited: it is {}, but the lock has {then}",
            document.trace.short()
        ));
    }
    beside(document, provenance, &seal.record, audit);
}

/// Checks the report's other files, its figures, pages and tables, against the lock.
fn beside(document: &Document, provenance: &Provenance<'_>, record: &Digest, audit: &mut Audit) {
    // Unreadable records are reported together elsewhere.
    let Ok(record) = provenance.reader.record(record) else {
        return;
    };
    for (name, artifact) in &record.outputs {
        if matches!(name.as_str(), "report" | "trace") {
            continue;
        }
        let path = file_of_output(&document.path, name, artifact.media);
        let file = path.file_name().unwrap_or_default().display();
        match artifacts::regular::read(&path) {
            Ok(bytes) if Digest::of(&bytes) == artifact.digest => {}
            Ok(_) => audit.complain(format!(
                "{file} was edited: the lock has {}",
                artifact.digest.short()
            )),
            Err(e) if e.kind() == io::ErrorKind::NotFound => match artifact.media {
                // A folder in which only the report, its trace and its figures are published.
                Media::Parquet | Media::Html => audit.absent.push(file.to_string()),
                _ => audit.complain(format!("{file} is missing next to the report")),
            },
            Err(e) => audit.complain(format!("{}: {e}", path.display())),
        }
    }
}

/// Checks the lock's entries for each cell and for the study against the records. The trail digest leaves out what
/// follows from the rest: keys, outputs of measurements, name, profile and seed.
fn lock_agrees(provenance: &Provenance<'_>, report: &Digest, audit: &mut Audit) {
    let lock = &provenance.lock;
    for stage in &lock.stages {
        for line in &stage.cells {
            // Unreadable records are reported together elsewhere.
            let Some(Ok(record)) = line.record.map(|digest| provenance.reader.record(&digest))
            else {
                continue;
            };
            let cell = cell_text(&stage.name, &line.coordinates);
            if line.key.is_some_and(|key| key != record.key) {
                audit.complain(format!(
                    "the lock was edited: its key of {cell} differs from the record's"
                ));
            }
            let outputs = Digest::of(outputs_text(&record.outputs).as_bytes());
            if line.outputs.is_some_and(|digest| digest != outputs) {
                audit.complain(format!(
                    "the lock was edited: its outputs of {cell} differ from the record's"
                ));
            }
        }
    }
    // Other records may be shared with another experiment that made them. The report's record is its own.
    if let Ok(record) = provenance.reader.record(report) {
        if record.experiment != lock.experiment {
            let (now, then) = (&lock.experiment, &record.experiment);
            audit.complain(format!(
                "the lock was edited: it is for experiment {now}, but the report is for {then}"
            ));
        }
        if record.recipe.seed != lock.seed {
            let (now, then) = (lock.seed, record.recipe.seed);
            audit.complain(format!(
                "the lock was edited: its seed is {now}, but the report's is {then}"
            ));
        }
    }
    let stem = provenance
        .file
        .as_deref()
        .and_then(Path::file_stem)
        .and_then(|s| s.to_str());
    if let (Some(stem), Some(profile)) = (stem, &lock.profile)
        && stem.starts_with(&format!("{}.", lock.experiment))
        && !stem.ends_with(&format!(".{profile}"))
    {
        audit.complain(format!(
            "the lock was edited: its profile is {profile}, but its file is {stem}.lock"
        ));
    }
}

/// Lists the lines of the report that differ from the rendered ones.
fn edited(now: &str, then: &str) -> String {
    let (now, then): (Vec<&str>, Vec<&str>) = (now.lines().collect(), then.lines().collect());
    if now.len() != then.len() {
        return format!(
            " (it has {}, but {} were rendered)",
            counted(now.len(), "line"),
            then.len()
        );
    }
    let differ: Vec<String> = now
        .iter()
        .zip(&then)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(i, _)| (i + 1).to_string())
        .collect();
    match differ.len() {
        0 => String::new(),
        1 => format!(" in line {}", differ[0]),
        n if n > 10 => format!(" in {n} lines, first in {}", differ[0]),
        _ => format!(" in lines {}", differ.join(", ")),
    }
}

/// Hashes every record of the lock and every artifact in these records.
fn hash_all(
    document: &Document,
    provenance: &Provenance<'_>,
    left_out: &BTreeSet<Digest>,
    audit: &mut Audit,
) {
    let mut artifacts: BTreeMap<Digest, String> = BTreeMap::new();
    let mut said: BTreeMap<Digest, Vec<Artifact>> = BTreeMap::new();
    for number in &document.numbers {
        if let Some(artifact) = number.artifact {
            artifacts.insert(artifact, format!("the artifact of {}", number.place()));
        }
    }
    let records: BTreeSet<Digest> = provenance.lock.records().collect();
    audit.artifacts += records.len();
    for digest in records {
        match provenance.reader.record(&digest) {
            Ok(record) => {
                let cell = cell_text(&record.stage, &record.coordinates.to_string());
                let inputs = record
                    .recipe
                    .inputs
                    .iter()
                    .flat_map(|i| &i.cells)
                    .flat_map(|c| c.outputs.values());
                for input in inputs {
                    artifacts
                        .entry(*input)
                        .or_insert_with(|| format!("an input of {cell}"));
                }
                for artifact in record.outputs.values().chain(record.evidence.values()) {
                    let artifacts = said.entry(artifact.digest).or_default();
                    if !artifacts.contains(artifact) {
                        artifacts.push(artifact.clone());
                    }
                }
                for artifact in record.artifacts() {
                    artifacts.insert(artifact, format!("an output of {cell}"));
                }
            }
            Err(error) => audit.complain_of("a record of the lock", error),
        }
    }
    let named = artifacts.len();
    artifacts.retain(|digest, _| !left_out.contains(digest));
    audit.left_out = named - artifacts.len();
    audit.artifacts += artifacts.len();
    for (digest, what) in artifacts {
        if let Err(error) = provenance
            .reader
            .check(&digest, said.get(&digest).map_or(&[], Vec::as_slice))
        {
            audit.complain_of(what, error);
        }
    }
}

/// Reads the record of every earlier result. Without them, nobody can see what was measured and not used.
fn read_earlier(provenance: &Provenance<'_>, left_out: &BTreeSet<Digest>, audit: &mut Audit) {
    for stage in &provenance.lock.stages {
        for line in &stage.cells {
            let cell = cell_text(&stage.name, &line.coordinates);
            for earlier in &line.earlier {
                if left_out.contains(&earlier.record) {
                    audit.left_out += 1;
                    continue;
                }
                audit.artifacts += 1;
                match provenance.reader.record(&earlier.record) {
                    Ok(record) if record.key == earlier.key => {}
                    Ok(_) => audit.complain(format!(
                        "the lock was edited: its key of an earlier result of {cell} differs from the record's"
                    )),
                    Err(error) => {
                        let what = format!("the record of an earlier result of {cell}");
                        audit.complain_of(what, error);
                    }
                }
            }
        }
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            let line = match (&problem.place, &problem.text) {
                (Some(place), Some(text)) => {
                    format!("{}:{place}: `{text}`: {}", self.report, problem.what)
                }
                _ => problem.what.clone(),
            };
            // A text of others cannot begin a line, which could pretend to be a verdict.
            writeln!(f, "{}", line.replace('\n', "\\n"))?;
        }
        let numbers = counted(self.numbers, "number");
        writeln!(
            f,
            "{numbers}, {} traced, {} verified",
            self.traced, self.verified
        )?;
        if self.statements > 0 {
            let statements = counted(self.statements, "statement");
            let holds = if self.hold == 1 { "holds" } else { "hold" };
            write!(f, "{statements}, {} {holds}", self.hold)?;
            match self.not_judged {
                0 => writeln!(f)?,
                1 => writeln!(f, ", 1 rests on a declared reason or the ledger")?,
                n => writeln!(f, ", {n} rest on a declared reason or the ledger")?,
            }
        }
        let sources: Vec<String> = self
            .sources
            .iter()
            .map(|(source, n)| format!("{n} {source}"))
            .collect();
        writeln!(f, "sources: {}", sources.join(", "))?;
        if !self.absent.is_empty() {
            let (files, names) = (counted(self.absent.len(), "file"), self.absent.join(", "));
            writeln!(f, "{files} of the report missing beside it: {names}")?;
        }
        write!(f, "{} artifacts and records hashed", self.artifacts)?;
        if self.left_out > 0 {
            write!(f, ", {} left out by the author", self.left_out)?;
        }
        match self.problems.len() {
            0 => write!(f, "; everything holds"),
            1 => write!(f, "; 1 thing does not hold"),
            n => write!(f, "; {n} things do not hold"),
        }
    }
}
