//! Tampering: a changed byte of any artifact, record, lock, trace, statement, figure or report makes `audit` fail and
//! name what was changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Table;

use crate::planted;
use crate::support::{Outcome, Project};

/// An executed study, with the paths of its report and lock.
struct Study {
    project: Project,
    folder: &'static str,
    lock: &'static str,
}

fn quickstart() -> Study {
    let project = Project::finished();
    Study {
        project,
        folder: "reports/quickstart.smoke",
        lock: "experiments/quickstart.smoke.lock",
    }
}

fn grid() -> Study {
    let project = Project::copy_of(planted::grid());
    Study {
        project,
        folder: "reports/planted-grid.smoke",
        lock: "experiments/planted-grid.smoke.lock",
    }
}

/// A small random generator, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % below
    }
}

impl Study {
    fn report(&self) -> String {
        format!("{}/report.md", self.folder)
    }

    fn audit(&self) -> Outcome {
        self.project.run(["audit", &self.report()])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.project.path().join(name)
    }

    /// Flips one bit of a byte of a file, and returns the original bytes.
    fn flip(&self, name: &str, random: &mut Random) -> Vec<u8> {
        let path = self.path(name);
        let before = fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut bytes = before.clone();
        let at = random.next(bytes.len());
        bytes[at] ^= 1 << random.next(7);
        // Objects are hard links to another project's, so replace the file instead of writing through it.
        fs::remove_file(&path).expect("the file can be removed");
        fs::write(&path, bytes).expect("the file can be written");
        before
    }

    fn put_back(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("the file can be written");
    }

    /// Flips a bit of a file, audits, and restores the file; returns the audit's output.
    fn tampered(&self, name: &str, random: &mut Random) -> String {
        let before = self.flip(name, random);
        let outcome = self.audit();
        self.put_back(name, &before);
        assert!(
            outcome.code != Some(0),
            "a changed byte of {name} goes unseen:\n{}",
            outcome.stdout
        );
        output_of(&outcome)
    }

    /// Returns the records of the lock by digest, as `show` prints them.
    fn records(&self) -> Vec<String> {
        let lock = fs::read_to_string(self.path(self.lock)).expect("the lock");
        let digests = lock
            .split_whitespace()
            .filter(|word| word.starts_with("b3:") && word.len() == 67);
        let is_record = |digest: &&str| {
            let bytes = fs::read(self.path(&object(digest))).unwrap_or_default();
            bytes.starts_with(b"{") && String::from_utf8_lossy(&bytes).contains("\"recipe\"")
        };
        digests.filter(is_record).map(str::to_owned).collect()
    }

    /// Returns one artifact of each stage and output, by `stage.output`.
    fn artifacts(&self) -> BTreeMap<String, String> {
        let mut records = BTreeMap::new();
        for record in self.records() {
            let bytes = fs::read(self.path(&object(&record))).expect("a record");
            let record: serde_json::Value =
                serde_json::from_slice(&bytes).expect("a record is JSON");
            let stage = record["stage"].as_str().expect("a stage");
            for (name, artifact) in record["outputs"].as_object().expect("outputs") {
                let digest = artifact["digest"].as_str().expect("a digest").to_owned();
                records.entry(format!("{stage}.{name}")).or_insert(digest);
            }
        }
        records
    }
}

fn output_of(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

/// Returns the path of an object in the store.
fn object(digest: &str) -> String {
    let hex = digest.trim_start_matches("b3:");
    format!(".benchtrail/objects/{}/{}", &hex[..2], &hex[2..])
}

/// Changes a byte in one artifact of each stage and output in turn, audits them together, and requires that each is
/// named.
fn every_kind_of_artifact_is_hashed_again(study: &Study, at_least: usize) {
    study.audit().ok();
    let mut random = Random(164);
    let artifacts = study.artifacts();
    assert!(artifacts.len() >= at_least, "{artifacts:?}");
    for digest in artifacts.values() {
        // Two outputs with the same bytes are one object.
        let path = study.path(&object(digest));
        let intact =
            artifacts::Digest::of(&fs::read(&path).expect("an object")).to_string() == *digest;
        if intact && fs::metadata(&path).expect("an object").len() > 0 {
            study.flip(&object(digest), &mut random);
        }
    }
    let outcome = study.audit();
    let said = output_of(&outcome);
    assert!(outcome.code != Some(0), "{said}");
    for (name, digest) in &artifacts {
        let short = &digest["b3:".len().."b3:".len() + 12];
        assert!(
            said.contains(short),
            "{name} ({digest}) was changed and is not named:\n{said}"
        );
    }
}

fn files_beside_the_report_are_sealed(study: &Study) {
    let mut random = Random(7);
    let folder = study.path(study.folder);
    let mut names = Vec::new();
    files(&folder, &mut names);
    // The log of a run is beside the report but not part of it: no number depends on it.
    names.retain(|path| path.file_name() != Some("events.jsonl".as_ref()));
    assert!(names.len() >= 5, "{names:?}");
    for path in names {
        let name = path
            .strip_prefix(study.project.path())
            .expect("in the project")
            .display()
            .to_string();
        let said = study.tampered(&name, &mut random);
        let file = path.file_name().expect("a file").to_str().expect("UTF-8");
        let words = match file.strip_prefix("report.") {
            Some("md") => "report",
            Some(rest) => rest.trim_end_matches(".parquet"),
            None => file,
        };
        assert!(
            said.contains(words),
            "{name} was changed and is not named:\n{said}"
        );
    }
    study.audit().ok();
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => files(&entry.path(), into),
            false => into.push(entry.path()),
        }
    }
}

fn any_byte_of_the_lock_counts(study: &Study, times: usize) {
    let mut random = Random(11);
    for _ in 0..times {
        let said = study.tampered(study.lock, &mut random);
        assert!(said.contains("lock"), "{said}");
    }
    study.audit().ok();
}

fn records_are_hashed_again(study: &Study) {
    let mut random = Random(13);
    let records = study.records();
    let last = records.len() - 1;
    for digest in [&records[0], &records[last]] {
        let said = study.tampered(&object(digest), &mut random);
        assert!(
            said.contains(&digest["b3:".len().."b3:".len() + 12]),
            "{digest}:\n{said}"
        );
    }
}

#[test]
fn a_byte_of_any_kind_of_artifact_of_the_planted_grid_is_named() {
    every_kind_of_artifact_is_hashed_again(&grid(), 20);
}

#[test]
fn a_byte_of_any_kind_of_artifact_of_the_quickstart_is_named() {
    every_kind_of_artifact_is_hashed_again(&quickstart(), 20);
}

#[test]
fn a_byte_of_any_file_beside_the_long_report_is_named() {
    files_beside_the_report_are_sealed(&grid());
}

#[test]
fn a_byte_of_any_file_beside_the_quickstarts_report_is_named() {
    files_beside_the_report_are_sealed(&quickstart());
}

#[test]
fn a_byte_of_a_lock_or_a_record_is_named() {
    let study = quickstart();
    any_byte_of_the_lock_counts(&study, 12);
    records_are_hashed_again(&study);
    let study = grid();
    any_byte_of_the_lock_counts(&study, 3);
    records_are_hashed_again(&study);
}

/// Returns the line and words of a single-line statement of the report that holds.
fn statement(study: &Study) -> (usize, String) {
    let bytes = fs::read(study.path(&format!("{}/report.statements.parquet", study.folder)))
        .expect("statements");
    let table = Table::from_parquet(bytes).expect("a table");
    let column = |name: &str| -> Vec<Option<String>> {
        table
            .text(name)
            .expect("a column")
            .into_iter()
            .map(|v| v.map(str::to_owned))
            .collect()
    };
    let (outcomes, texts) = (column("outcome"), column("text"));
    let (lines, ends) = (
        table.int("line").expect("lines"),
        table.int("line_end").expect("lines"),
    );
    let row = (0..table.rows()).find(|row| {
        outcomes[*row].as_deref() == Some("holds")
            && lines[*row] == ends[*row]
            && texts[*row]
                .as_deref()
                .is_some_and(|t| t.to_lowercase().contains("all "))
    });
    let row = row.expect("a statement that says `all`");
    let line = usize::try_from(lines[row].expect("a line")).expect("a line");
    (line, texts[row].clone().expect("its words"))
}

#[test]
fn a_word_of_a_statement_changed_in_the_report_is_named_with_its_line() {
    let study = grid();
    let (line, words) = statement(&study);
    let path = study.path(&study.report());
    let report = fs::read_to_string(&path).expect("the report");
    let other = words
        .replacen("All ", "Few ", 1)
        .replacen("all ", "few ", 1);
    assert!(report.contains(&words) && other != words, "{words}");
    fs::write(&path, report.replacen(&words, &other, 1)).expect("the report can be written");
    let outcome = study.audit();
    let said = output_of(&outcome);
    assert_eq!(outcome.code, Some(1), "{said}");
    assert!(
        said.contains(&format!("report.md:{line}:")) && said.contains("few "),
        "{said}"
    );
}

#[test]
fn a_statement_whose_record_is_changed_beside_the_report_is_named() {
    let study = grid();
    let name = format!("{}/report.statements.parquet", study.folder);
    let table =
        Table::from_parquet(fs::read(study.path(&name)).expect("statements")).expect("a table");
    let mut columns = Vec::new();
    for column in table.names() {
        let changed = match column.as_str() {
            "outcome" => {
                let words = table.text("outcome").expect("outcomes");
                let words: Vec<_> = words
                    .iter()
                    .map(|w| w.map(|w| w.replace("alternative", "holds")))
                    .collect();
                artifacts::Column::text(
                    "outcome",
                    words
                        .into_iter()
                        .map(|w| w.map(|w| w.replace("refused", "licensed"))),
                )
            }
            other => table.column(other).expect("a column"),
        };
        columns.push(changed);
    }
    let bytes = Table::new(columns)
        .expect("a table")
        .to_parquet()
        .expect("bytes");
    fs::write(study.path(&name), bytes).expect("the file can be written");
    let outcome = study.audit();
    assert_eq!(outcome.code, Some(1), "{}", output_of(&outcome));
    assert!(
        output_of(&outcome).contains("report.statements.parquet was edited"),
        "{}",
        output_of(&outcome)
    );
}
