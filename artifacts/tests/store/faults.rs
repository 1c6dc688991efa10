//! Faults, as action × place: each is found, named and repaired, and the work is done again.

use std::fs;

use artifacts::{Commit, Digest, FsckFindingKind, FsckOptions, Store, StoreError, Subset};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::{cell, cell_from, check, damage, key, kinds, new_store, read_record, repair};

/// A store of a small study: two measurements and an analysis of both.
fn study(store: &Store) -> [Commit; 3] {
    let (a, b) = (
        cell(store, "a", &[1; 3000]),
        cell(store, "b", &vec![2; 200_000]),
    );
    let analysis = cell_from(store, "analysis", b"table", &[&a, &b]);
    let commits = [a, b, analysis];
    store.commit(&commits).unwrap();
    commits
}

fn sql(store: &Store, text: &str) {
    Connection::open(store.root().join("index.sqlite"))
        .unwrap()
        .execute_batch(text)
        .unwrap();
}

fn blob(digest: &Digest) -> String {
    format!("x'{}'", digest.hex())
}

#[test]
fn a_whole_store_has_no_findings() {
    let (_folder, store) = new_store();
    study(&store);
    let report = check(&store);
    assert_eq!(report.findings, []);
    assert_eq!((report.objects, report.hashed, report.records), (6, 6, 3));
    assert!(report.bytes > 203_000);
}

#[test]
fn a_damaged_output_is_found_moved_aside_and_no_hit_any_more() {
    for bytes in [&[1; 2999][..], &[], &[3; 3000]] {
        let (_folder, store) = new_store();
        let [a, b, analysis] = study(&store);
        damage(&store.path(&a.objects[0]), bytes);
        assert!(
            matches!(store.get(&a.objects[0]), Err(StoreError::Damaged(d, _)) if d == a.objects[0])
        );
        assert!(kinds(&check(&store)).contains(&FsckFindingKind::Damaged));
        assert!(
            store.record_for(&key("a")).unwrap().is_some(),
            "a check changes nothing"
        );
        assert!(repair(&store).findings.iter().all(|f| f.repaired));
        assert!(!store.contains(&a.objects[0]));
        assert_eq!(store.record_for(&key("a")).unwrap(), None);
        assert_eq!(
            store.record_for(&key("analysis")).unwrap(),
            None,
            "it refers to what is gone"
        );
        assert!(store.record_for(&key("b")).unwrap().is_some());
        assert_eq!(check(&store).findings, []);
        let quarantined: Vec<_> = fs::read_dir(store.root().join("quarantine"))
            .unwrap()
            .collect();
        assert_eq!(quarantined.len(), 1);
        assert_eq!(
            fs::read(quarantined[0].as_ref().unwrap().path()).unwrap(),
            bytes
        );
        // The next run.
        store
            .commit(&[cell(&store, "a", &[1; 3000]), analysis])
            .unwrap();
        assert_eq!(check(&store).findings, []);
        assert_eq!(
            store.record_for(&key("b")).unwrap().unwrap().record,
            b.record
        );
    }
}

#[test]
fn two_objects_that_changed_places_are_both_found() {
    let (_folder, store) = new_store();
    let [a, b, _] = study(&store);
    let (first, second) = (store.path(&a.objects[0]), store.path(&b.objects[0]));
    let aside = store.root().join("aside");
    fs::rename(&first, &aside).unwrap();
    fs::rename(&second, &first).unwrap();
    fs::rename(&aside, &second).unwrap();
    let report = check(&store);
    let damaged: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.kind == FsckFindingKind::Damaged)
        .filter_map(|f| f.object)
        .collect();
    let mut expected = vec![a.objects[0], b.objects[0]];
    expected.sort();
    assert_eq!(damaged, expected);
}

#[test]
fn a_missing_object_is_found_by_the_index_and_by_the_records_that_refer_to_it() {
    let (_folder, store) = new_store();
    let [a, ..] = study(&store);
    fs::remove_file(store.path(&a.objects[0])).unwrap();
    use FsckFindingKind::{Dangling, Missing};
    assert_eq!(kinds(&check(&store)), [Missing, Dangling, Dangling]);
    repair(&store);
    assert_eq!(check(&store).findings, []);
    assert_eq!(store.record_for(&key("analysis")).unwrap(), None);
}

#[test]
fn strangers_are_found_wherever_they_lie() {
    let (_folder, store) = new_store();
    let [a, ..] = study(&store);
    let objects = store.root().join("objects");
    let folder = store.path(&a.objects[0]).parent().unwrap().to_owned();
    fs::write(objects.join("README"), "hello").unwrap();
    fs::create_dir(objects.join("AB")).unwrap();
    fs::create_dir(objects.join("abc")).unwrap();
    fs::write(folder.join("short"), "").unwrap();
    fs::write(folder.join("F".repeat(62)), "").unwrap();
    fs::create_dir(folder.join("0".repeat(62))).unwrap();
    std::os::unix::fs::symlink(store.path(&a.objects[0]), folder.join("1".repeat(62))).unwrap();
    assert_eq!(kinds(&check(&store)), [FsckFindingKind::Stranger; 7]);
    repair(&store);
    assert_eq!(check(&store).findings, []);
    assert_eq!(
        fs::read_dir(store.root().join("quarantine"))
            .unwrap()
            .count(),
        7
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file is made to look old")]
fn a_temporary_file_is_left_over_after_a_day() {
    let (_folder, store) = new_store();
    let (old, new) = (
        store.root().join("tmp/put-old"),
        store.root().join("tmp/put-new"),
    );
    fs::write(&new, "being written").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3600))
        .unwrap();
    let report = check(&store);
    assert_eq!(kinds(&report), [FsckFindingKind::Leftover]);
    assert_eq!(report.findings[0].path, old);
    repair(&store);
    assert!(!old.exists() && new.exists());
}

#[test]
fn forged_rows_are_found_and_removed() {
    use FsckFindingKind::{Forged, Missing, NotARecord, WrongSize};
    let nowhere = blob(&Digest::of(b"nowhere"));
    let (_folder, store) = new_store();
    let [a, b, _] = study(&store);
    let (a_record, a_output, b_key) = (blob(&a.record), blob(&a.objects[0]), blob(&b.key.0));
    let cases: Vec<(String, Vec<FsckFindingKind>)> = vec![
        (
            format!("UPDATE objects SET bytes = 7 WHERE digest = {a_output}"),
            vec![WrongSize],
        ),
        (
            format!("INSERT INTO objects VALUES({nowhere}, 7)"),
            vec![Missing],
        ),
        (
            format!("INSERT INTO uses VALUES({nowhere}, {a_record})"),
            vec![Missing],
        ),
        // A lookup of b returns a's record.
        (
            format!("UPDATE history SET key = {b_key} WHERE record = {a_record}"),
            vec![Forged],
        ),
        (
            format!("UPDATE history SET outputs = '{{}}' WHERE record = {a_record}"),
            vec![Forged],
        ),
        (
            format!("UPDATE history SET status = 'failed' WHERE record = {a_record}"),
            vec![Forged],
        ),
        (
            format!("UPDATE history SET cacheable = 0 WHERE record = {a_record}"),
            vec![Forged],
        ),
        (
            format!(
                "INSERT INTO history VALUES(99, {b_key}, {nowhere}, 1, '', 'ok', 1.0, 'e', 's', 'c')"
            ),
            vec![Missing],
        ),
        (
            format!(
                "INSERT INTO history VALUES(99, {b_key}, {a_output}, 0, '', 'ok', 1.0, 'e', 's', 'c')"
            ),
            vec![NotARecord],
        ),
    ];
    for (forgery, expected) in cases {
        let (_folder, store) = new_store();
        study(&store);
        sql(&store, &forgery);
        let mut problems = kinds(&check(&store));
        problems.sort_unstable();
        assert_eq!(problems, expected, "{forgery}");
        repair(&store);
        assert_eq!(check(&store).findings, [], "{forgery}");
    }
}

#[test]
fn a_deleted_index_is_rebuilt_from_the_records() {
    let (folder, store) = new_store();
    let commits = study(&store);
    let before = |store: &Store| {
        let mut lines = store.history("quickstart", "ladder", None, 99).unwrap();
        lines.iter_mut().for_each(|line| line.seq = 0);
        (
            lines,
            commits.clone().map(|c| store.record_for(&c.key).unwrap()),
        )
    };
    let (history, hits) = before(&store);
    drop(store);
    let root = folder.path().join("store");
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = fs::remove_file(root.join(name));
    }
    let store = Store::open(&root).unwrap();
    assert!(store.needs_rebuild().unwrap());
    let newer = cell(&store, "a", b"measured again before anybody rebuilt");
    store.commit(std::slice::from_ref(&newer)).unwrap();
    let report = store.rebuild(read_record).unwrap();
    assert_eq!((report.objects, report.records), (8, 4));
    assert!(!store.needs_rebuild().unwrap());
    assert_eq!(
        store.record_for(&key("a")).unwrap().unwrap().record,
        newer.record,
        "the newest comes first"
    );
    store.retire(&newer.record).unwrap();
    let (history_after, hits_after) = before(&store);
    assert_eq!(hits_after, hits);
    assert_eq!(history_after.len(), history.len());
    assert_eq!(check(&store).findings, []);
    let again = store.rebuild(read_record).unwrap();
    assert_eq!(
        again.records, 4,
        "the retired record is among the objects still"
    );
}

#[test]
fn an_index_that_came_with_a_copy_of_a_store_is_not_believed() {
    let (folder, store) = new_store();
    let commits = study(&store);
    let truth = store.record_for(&commits[0].key).unwrap();
    sql(&store, "UPDATE history SET outputs = 'forged'");
    let forged = store.record_for(&commits[0].key).unwrap().unwrap();
    assert_eq!(forged.outputs, "forged", "rows written here are believed");
    drop(store);
    let copy = folder.path().join("copy");
    let copied = std::process::Command::new("cp")
        .args([
            "-a".as_ref(),
            folder.path().join("store").as_os_str(),
            copy.as_os_str(),
        ])
        .status();
    assert!(copied.unwrap().success());
    let store = Store::open(&copy).unwrap();
    assert!(store.needs_rebuild().unwrap());
    assert_eq!(store.record_for(&commits[0].key).unwrap(), None);
    store.rebuild(read_record).unwrap();
    assert_eq!(store.record_for(&commits[0].key).unwrap(), truth);
    drop(store);
    let store = Store::open(&copy).unwrap();
    assert!(!store.needs_rebuild().unwrap(), "once is enough");
}

#[test]
fn a_rebuild_keeps_the_order_of_execution() {
    let (folder, store) = new_store();
    let commits: Vec<_> = ["a@1", "a@2", "a@3", "a@4"]
        .map(|name| cell(&store, name, b"rows"))
        .into();
    store.commit(&commits).unwrap();
    let before = store.records_for(&key("a")).unwrap();
    assert_eq!(before[0].record, commits[3].record);
    drop(store);
    let root = folder.path().join("store");
    fs::remove_file(root.join("index.sqlite")).unwrap();
    let store = Store::open(&root).unwrap();
    assert_eq!(store.record_for(&key("a")).unwrap(), None);
    store.rebuild(read_record).unwrap();
    assert_eq!(store.records_for(&key("a")).unwrap(), before);
}

#[test]
fn a_rebuild_leaves_out_damaged_objects_and_what_rests_on_them() {
    let (folder, store) = new_store();
    let [a, _, analysis] = study(&store);
    damage(&store.path(&a.objects[0]), b"");
    drop(store);
    let root = folder.path().join("store");
    let _ = fs::remove_file(root.join("index.sqlite-wal"));
    fs::remove_file(root.join("index.sqlite")).unwrap();
    let store = Store::open(&root).unwrap();
    let report = store.rebuild(read_record).unwrap();
    assert_eq!(report.damaged, [a.objects[0]]);
    let mut incomplete = vec![a.record, analysis.record];
    incomplete.sort();
    let mut reported = report.incomplete;
    reported.sort();
    assert_eq!(reported, incomplete);
    assert!(store.record_for(&key("b")).unwrap().is_some());
    assert_eq!(store.record_for(&key("a")).unwrap(), None);
}

#[test]
fn a_new_store_needs_no_rebuild() {
    let (_folder, store) = new_store();
    assert!(!store.needs_rebuild().unwrap());
}

#[test]
fn an_index_that_is_no_database_or_of_another_version_is_an_error_with_the_remedy() {
    let (folder, store) = new_store();
    sql(&store, "PRAGMA user_version = 99");
    drop(store);
    let root = folder.path().join("store");
    let error = Store::open(&root).unwrap_err();
    assert!(matches!(error, StoreError::IndexVersion(_, 99)));
    assert!(error.to_string().contains("delete it"));
    fs::write(root.join("index.sqlite"), [b'x'; 5000]).unwrap();
    let error = Store::open(&root).unwrap_err();
    assert!(matches!(error, StoreError::Index(..)), "{error}");
    assert!(error.to_string().contains("delete it"));
}

#[test]
fn an_index_that_another_process_locks_is_not_called_damaged() {
    let (_folder, store) = new_store();
    let holder = Connection::open(store.root().join("index.sqlite")).unwrap();
    holder.execute_batch("begin exclusive").unwrap();
    let code = |code, extended_code| {
        let error = rusqlite::ffi::Error {
            code,
            extended_code,
        };
        StoreError::Index(
            "index.sqlite".into(),
            rusqlite::Error::SqliteFailure(error, None),
        )
    };
    let asked = Connection::open(store.root().join("index.sqlite")).unwrap();
    asked.busy_timeout(std::time::Duration::ZERO).unwrap();
    let refused = asked.execute_batch("begin exclusive").unwrap_err();
    let locked = StoreError::Index("index.sqlite".into(), refused);
    use rusqlite::ErrorCode::{DiskFull, NotADatabase, SystemIoFailure};
    for (error, damaged, words) in [
        (locked, false, "wait for it to end"),
        (
            code(DiskFull, rusqlite::ffi::SQLITE_FULL),
            false,
            "free some space",
        ),
        (
            code(SystemIoFailure, rusqlite::ffi::SQLITE_IOERR_WRITE),
            false,
            "ulimit -f",
        ),
        (
            code(SystemIoFailure, rusqlite::ffi::SQLITE_IOERR_SHORT_READ),
            true,
            "delete it",
        ),
        (
            code(NotADatabase, rusqlite::ffi::SQLITE_NOTADB),
            true,
            "delete it",
        ),
    ] {
        assert_eq!(error.is_damaged_index(), damaged, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn objects_are_read_where_the_index_cannot_be_opened_and_the_index_says_why() {
    let (folder, store) = new_store();
    let digest = store.put(b"bytes").unwrap();
    drop(store);
    let root = folder.path().join("store");
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = fs::remove_file(root.join(name));
    }
    // A folder in a file's place also stops root, unlike permissions.
    fs::create_dir(root.join("index.sqlite")).unwrap();
    let store = Store::open(&root).unwrap();
    assert_eq!(store.get(&digest).unwrap(), b"bytes");
    let error = store.records().unwrap_err();
    assert!(error.to_string().contains("delete the folder"), "{error}");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    // A file in a folder's place also stops root, unlike permissions.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Store::open(&folder.path().join("file/store")).unwrap_err();
    assert!(
        matches!(&error, StoreError::Io(path, _) if path.starts_with(folder.path())),
        "{error}"
    );
    let (_folder, store) = new_store();
    let digest = Digest::of(b"bytes");
    fs::write(store.path(&digest).parent().unwrap(), "in the way").unwrap();
    assert!(matches!(store.put(b"bytes"), Err(StoreError::Io(..))));
    assert_eq!(
        fs::read_dir(store.root().join("tmp")).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_crash_between_put_and_commit_leaves_a_store_without_findings() {
    let (folder, store) = new_store();
    study(&store);
    let lost = cell(&store, "lost", b"never committed");
    drop(store);
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert_eq!(store.record_for(&key("lost")).unwrap(), None);
    assert_eq!(check(&store).findings, []);
    store.commit(&[lost]).unwrap();
    assert!(store.record_for(&key("lost")).unwrap().is_some());
}

#[test]
fn a_durable_object_that_was_truncated_is_replaced_by_the_next_put() {
    let (_folder, store) = new_store();
    let [a, ..] = study(&store);
    damage(&store.path(&a.objects[0]), &[1; 10]);
    store.put(&[1; 3000]).unwrap();
    assert_eq!(store.get(&a.objects[0]).unwrap(), [1; 3000]);
}

#[test]
fn the_subsets_of_a_check_cover_every_object_once() {
    let (_folder, store) = new_store();
    let commits: Vec<_> = (0..40)
        .map(|i| cell(&store, &i.to_string(), &[i; 9]))
        .collect();
    store.commit(&commits).unwrap();
    let parts: Vec<u64> = (1..=3)
        .map(|part| {
            let subset = Subset::new(part, 3);
            assert!(subset.is_some());
            store
                .fsck(
                    &FsckOptions {
                        subset,
                        ..FsckOptions::default()
                    },
                    read_record,
                )
                .unwrap()
                .hashed
        })
        .collect();
    assert_eq!(parts.iter().sum::<u64>(), 80);
    assert!(parts.iter().all(|&n| n > 0));
    assert_eq!(
        (Subset::new(0, 3), Subset::new(4, 3), Subset::new(1, 0)),
        (None, None, None)
    );
}

/// A fault applied to one object of a store.
#[derive(Clone, Debug)]
enum Fault {
    FlipBit { at: prop::sample::Index, bit: u8 },
    Truncate { to: prop::sample::Index },
    Append(u8),
    Empty,
    Remove,
    SwapWith(prop::sample::Index),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Fault::FlipBit { at, bit }),
        any::<prop::sample::Index>().prop_map(|to| Fault::Truncate { to }),
        any::<u8>().prop_map(Fault::Append),
        Just(Fault::Empty),
        Just(Fault::Remove),
        any::<prop::sample::Index>().prop_map(Fault::SwapWith),
    ]
}

proptest! {
    // Seeded faults, each in its own store; `PROPTEST_CASES` sets the number.
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(164), ..ProptestConfig::default() })]

    #[test]
    fn every_fault_of_an_object_is_found_at_its_place_and_repaired(
        victim in any::<prop::sample::Index>(), fault in fault(),
    ) {
        let (_folder, store) = new_store();
        let commits = study(&store);
        let objects: Vec<Digest> = commits.iter().flat_map(|c| c.objects.clone()).collect();
        let digest = *victim.get(&objects);
        let path = store.path(&digest);
        let mut bytes = fs::read(&path).unwrap();
        let mut hit = vec![digest];
        match fault {
            Fault::FlipBit { at, bit } => { let at = at.index(bytes.len()); bytes[at] ^= 1 << bit; damage(&path, &bytes); }
            Fault::Truncate { to } => { let to = to.index(bytes.len()); damage(&path, &bytes[..to]); }
            Fault::Append(byte) => { bytes.push(byte); damage(&path, &bytes); }
            Fault::Empty => damage(&path, b""),
            Fault::Remove => fs::remove_file(&path).unwrap(),
            Fault::SwapWith(other) => {
                let other = *other.get(&objects);
                prop_assume!(other != digest);
                damage(&path, &store.get(&other).unwrap());
                damage(&store.path(&other), &bytes);
                hit.push(other);
            }
        }
        let report = check(&store);
        for digest in hit {
            prop_assert!(store.get(&digest).is_err());
            prop_assert!(report.findings.iter().any(|f| f.object == Some(digest) && f.path == store.path(&digest)));
        }
        repair(&store);
        prop_assert_eq!(check(&store).findings, []);
        for commit in &commits {
            if let Some(hit) = store.record_for(&commit.key).unwrap() {
                prop_assert!(store.get(&hit.record).is_ok(), "what is still a hit is whole");
                prop_assert!(commit.objects.iter().all(|o| store.get(o).is_ok()));
            }
        }
    }
}

#[test]
fn an_index_that_lost_rows_is_read_again_from_the_records() {
    let (_folder, store) = new_store();
    let cells: Vec<_> = (0..4)
        .map(|i| cell(&store, &format!("c{i}"), format!("rows {i}").as_bytes()))
        .collect();
    store.commit(&cells).unwrap();
    store.retire(&cells[3].record).unwrap();
    let root = store.root().to_owned();
    drop(store);
    let store = Store::open_existing(&root).unwrap();
    assert!(
        !store.needs_rebuild().unwrap(),
        "a row that was retired is not lost"
    );
    drop(store);
    let connection = Connection::open(root.join("index.sqlite")).unwrap();
    connection
        .execute("DELETE FROM history WHERE coordinates = 'cell=c1'", [])
        .unwrap();
    drop(connection);
    let store = Store::open_existing(&root).unwrap();
    assert!(store.needs_rebuild().unwrap());
    store.rebuild(read_record).unwrap();
    assert!(store.record_for(&key("c1")).unwrap().is_some());
}

#[test]
fn a_record_named_outside_is_entered_unless_something_of_it_is_missing_or_damaged() {
    let (_folder, store) = new_store();
    let cells: Vec<_> = (0..4)
        .map(|i| cell(&store, &format!("c{i}"), format!("rows {i}").as_bytes()))
        .collect();
    store.commit(&cells[..1]).unwrap();
    fs::remove_file(store.path(&cells[2].objects[0])).unwrap();
    damage(&store.path(&cells[3].objects[0]), b"other");
    let named: Vec<_> = cells.iter().map(|c| (c.record, Some(c.key))).collect();
    assert_eq!(store.adopt(&named, read_record).unwrap(), 1);
    let is_recorded = |i: usize| store.record_for(&cells[i].key).unwrap().is_some();
    assert_eq!(
        [
            is_recorded(0),
            is_recorded(1),
            is_recorded(2),
            is_recorded(3)
        ],
        [true, true, false, false]
    );
    assert_eq!(store.adopt(&named[..2], read_record).unwrap(), 0);
    // The row has a different key from the one given with the record, and the record takes precedence.
    let connection = Connection::open(store.root().join("index.sqlite")).unwrap();
    connection
        .execute(
            "UPDATE history SET key = record WHERE coordinates = 'cell=c0'",
            [],
        )
        .unwrap();
    assert!(!is_recorded(0));
    assert_eq!(store.adopt(&named[..2], read_record).unwrap(), 1);
    assert!(is_recorded(0));
}

#[test]
fn a_store_without_its_index_is_checked_by_the_records_among_its_objects() {
    let (folder, store) = new_store();
    let cells = study(&store);
    drop(store);
    let root = folder.path().join("store");
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _absent = fs::remove_file(root.join(name));
    }
    let store = Store::open(&root).unwrap();
    let whole = check(&store);
    assert_eq!((whole.records, whole.findings), (3, Vec::new()));
    fs::remove_file(store.path(&cells[0].objects[0])).unwrap();
    let report = check(&store);
    assert!(
        report
            .findings
            .iter()
            .any(|f| f.kind == FsckFindingKind::Dangling),
        "{report:?}"
    );
}
