//! Shared parts of the store's tests: a store in a folder, cells, and a tiny record format.

use std::path::Path;
use std::time::Duration;

use artifacts::{
    ActionKey, Commit, Digest, FsckFindingKind, FsckMode, FsckOptions, FsckReport, GcMode,
    GcOptions, RecordView, Store,
};
use tempfile::TempDir;

/// Opens a new store in a temporary folder.
pub(crate) fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    (folder, store)
}

pub(crate) fn key(name: &str) -> ActionKey {
    ActionKey(Digest::of(name.as_bytes()))
}

/// Puts an output and a record of the cell `name`, which has no inputs; returns its commit.
pub(crate) fn cell(store: &Store, name: &str, output: &[u8]) -> Commit {
    cell_from(store, name, output, &[])
}

/// Puts an output and a record of the cell `name`, made from the outputs of other cells. The record is text: `record
/// NAME`, `output DIGEST`, and `input RECORD DIGEST` for each input.
pub(crate) fn cell_from(store: &Store, name: &str, output: &[u8], inputs: &[&Commit]) -> Commit {
    let output = store.put(output).unwrap();
    let mut text = format!("record {name}\noutput {output}\n");
    for input in inputs {
        text.push_str(&format!("input {} {}\n", input.record, input.objects[0]));
    }
    let record = store.put(text.as_bytes()).unwrap();
    read_record(&record, text.as_bytes()).unwrap().commit
}

/// Reads the records that [`cell_from`] writes. The cell `a@7` has the key of `a` and
/// finished at 7; others finished at 0.
pub(crate) fn read_record(record: &Digest, bytes: &[u8]) -> Option<RecordView> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    let name = lines.next()?.strip_prefix("record ")?;
    let output: Digest = lines.next()?.strip_prefix("output ")?.parse().ok()?;
    let (keyed, finished) = name.split_once('@').unwrap_or((name, "0"));
    let (mut inputs, mut input_records, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        if let Some(file) = line.strip_prefix("file ") {
            files.push(file.parse().ok()?);
            continue;
        }
        let (record, object) = line.strip_prefix("input ")?.split_once(' ')?;
        input_records.push(record.parse().ok()?);
        inputs.push(object.parse().ok()?);
    }
    let commit = Commit {
        experiment: "quickstart".to_owned(),
        stage: "ladder".to_owned(),
        coordinates: format!("cell={name}"),
        key: key(keyed),
        record: *record,
        objects: vec![output, *record],
        status: "ok".to_owned(),
        cacheable: true,
        seconds: 1.5,
        outputs: format!("{{\"requests\":\"{output}\"}}"),
    };
    Some(RecordView {
        commit,
        finished: finished.parse().ok()?,
        sizes: Vec::new(),
        inputs,
        input_records,
        files,
    })
}

/// Replaces a file's bytes, as a disk fault or a crash would.
pub(crate) fn damage(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub(crate) fn check(store: &Store) -> FsckReport {
    store.fsck(&FsckOptions::default(), read_record).unwrap()
}

pub(crate) fn repair(store: &Store) -> FsckReport {
    store
        .fsck(
            &FsckOptions {
                mode: FsckMode::Repair,
                subset: None,
            },
            read_record,
        )
        .unwrap()
}

/// Returns the kinds of a check's findings, sorted.
pub(crate) fn kinds(report: &FsckReport) -> Vec<FsckFindingKind> {
    let mut kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Options for a collection without a grace period.
pub(crate) fn no_grace(mode: GcMode) -> GcOptions {
    GcOptions {
        mode,
        grace: Duration::ZERO,
        patience: Duration::from_millis(50),
    }
}

/// Makes every object look an hour old.
#[expect(clippy::disallowed_methods, reason = "a file is made to look old")]
pub(crate) fn age(store: &Store) {
    let past = std::time::SystemTime::now() - Duration::from_secs(3600);
    for folder in std::fs::read_dir(store.root().join("objects")).unwrap() {
        for object in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let file = std::fs::File::open(object.unwrap().path()).unwrap();
            file.set_modified(past).unwrap();
        }
    }
}
