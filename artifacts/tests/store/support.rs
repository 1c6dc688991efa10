//! What the store's tests share.

use std::path::Path;

use artifacts::{ActionKey, Commit, Digest, Store};
use tempfile::TempDir;

/// Opens a new store in a folder that goes with it.
pub(crate) fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    (folder, store)
}

pub(crate) fn key(name: &str) -> ActionKey {
    ActionKey(Digest::of(name.as_bytes()))
}

/// Puts an output and a record naming it (a line `record`, then a digest a line), and
/// returns the commit of the cell `name`.
pub(crate) fn cell(store: &Store, name: &str, output: &[u8]) -> Commit {
    let output = store.put(output).unwrap();
    let record = store.put(format!("record {name}\n{output}\n").as_bytes()).unwrap();
    Commit {
        experiment: "quickstart".to_owned(),
        stage: "ladder".to_owned(),
        coordinates: format!("cell={name}"),
        key: key(name),
        record,
        objects: vec![output, record],
        status: "ok".to_owned(),
        cacheable: true,
        seconds: 1.5,
        outputs: format!("{{\"requests\":\"{output}\"}}"),
    }
}

/// Makes a file of the store writable and gives it other bytes, as a disk fault would.
pub(crate) fn damage(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}
