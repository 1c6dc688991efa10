//! Several threads and several processes share one store.

use std::process::{Child, Command};
use std::thread;

use artifacts::{Digest, GcMode, Store};

use crate::support::{cell, check, key, new_store, no_grace, read_record};

const CELLS: usize = 25;

/// Commits cells in small groups; some are the same as those of other writers.
fn write(store: &Store, writer: &str) {
    for i in 0..CELLS {
        let own = cell(
            store,
            &format!("{writer}-{i}"),
            format!("rows {}", i % 5).as_bytes(),
        );
        let shared = cell(store, &format!("shared-{i}"), b"shared rows");
        store.commit(&[own, shared]).unwrap();
    }
}

fn assert_complete(store: &Store, writers: &[&str]) {
    let lookup = store.lookup().unwrap();
    for i in 0..CELLS {
        for writer in writers.iter().chain(&["shared"]) {
            assert!(
                lookup
                    .record_for(&key(&format!("{writer}-{i}")))
                    .unwrap()
                    .is_some(),
                "{writer}-{i}"
            );
        }
        assert_eq!(
            store
                .records_for(&key(&format!("shared-{i}")))
                .unwrap()
                .len(),
            1
        );
    }
    assert_eq!(check(store).findings, []);
}

#[test]
fn threads_of_one_process_commit_side_by_side() {
    let (_folder, store) = new_store();
    thread::scope(|scope| {
        for writer in ["x", "y", "z"] {
            let store = &store;
            scope.spawn(move || write(store, writer));
        }
    });
    assert_complete(&store, &["x", "y", "z"]);
}

#[test]
fn many_may_create_the_same_store_at_once() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        thread::scope(|scope| {
            for writer in 0..8_u8 {
                let root = &root;
                scope.spawn(move || {
                    let store = Store::open(root).unwrap();
                    store.put(&[writer]).unwrap();
                    store.commit(&[]).unwrap();
                });
            }
        });
        let report = check(&Store::open_existing(&root).unwrap());
        assert_eq!((report.objects, report.findings.len()), (8, 0));
    }
}

/// Not a test itself: [`processes_commit_side_by_side`] runs it in separate processes.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself as a second process"
)]
fn writer_process() {
    if let (Ok(root), Ok(writer)) = (std::env::var("STORE_ROOT"), std::env::var("STORE_WRITER")) {
        write(&Store::open(root.as_ref()).unwrap(), &writer);
    }
}

fn spawn_writer(root: &std::path::Path, writer: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sharing::writer_process"])
        .env("STORE_ROOT", root)
        .env("STORE_WRITER", writer)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_commit_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    // Both create the store: the second finds it complete or half made.
    let writers = ["p", "q"].map(|writer| spawn_writer(folder.path(), writer));
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_complete(&Store::open_existing(folder.path()).unwrap(), &["p", "q"]);
}

#[test]
fn a_writer_killed_at_any_point_leaves_a_store_without_findings_that_the_next_completes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for delay in [5, 40, 80, 160] {
        let mut writer = spawn_writer(folder.path(), "victim");
        thread::sleep(std::time::Duration::from_millis(delay));
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(check(&store).findings, []);
    }
    let mut writer = spawn_writer(folder.path(), "victim");
    assert!(writer.wait().unwrap().success());
    assert_complete(&store, &["victim"]);
}

#[test]
fn collections_beside_a_run_remove_nothing_of_it() {
    let (_folder, store) = new_store();
    let other = Store::open_existing(store.root()).unwrap();
    let stale: Vec<Digest> = (0..50_u8).map(|i| other.put(&[i; 64]).unwrap()).collect();
    other.commit(&[]).unwrap();
    crate::support::age(&other);
    let mut hold = store.hold().unwrap();
    hold.keep(&[]).unwrap();
    thread::scope(|scope| {
        let run = scope.spawn(|| write(&store, "run"));
        while !run.is_finished() {
            other
                .gc(&[], &no_grace(GcMode::Sweep), read_record)
                .unwrap();
        }
    });
    assert!(stale.iter().all(|digest| !store.contains(digest)));
    assert_complete(&store, &["run"]);
}

#[test]
fn an_object_put_while_it_is_swept_is_there_afterwards() {
    let (_folder, store) = new_store();
    let other = Store::open_existing(store.root()).unwrap();
    for round in 0..20_u8 {
        let bytes: Vec<[u8; 64]> = (0..20)
            .map(|i| {
                let mut b = [i; 64];
                b[0] = round;
                b
            })
            .collect();
        for b in &bytes {
            store.put(b).unwrap();
        }
        store.commit(&[]).unwrap();
        crate::support::age(&store);
        thread::scope(|scope| {
            scope.spawn(|| {
                other
                    .gc(&[], &no_grace(GcMode::Sweep), read_record)
                    .unwrap()
            });
            // A run that began earlier would hold back the collection's cut-off. This one has no hold, so only its
            // touch protects the objects it puts.
            let digests: Vec<_> = bytes.iter().map(|b| store.put(b).unwrap()).collect();
            thread::yield_now();
            digests
        });
        for b in &bytes {
            store.put(b).unwrap();
        }
        store.commit(&[]).unwrap();
        assert!(
            bytes
                .iter()
                .all(|b| store.get(&Digest::of(b)).unwrap() == b),
            "round {round}"
        );
        assert_eq!(check(&store).findings, []);
    }
}
