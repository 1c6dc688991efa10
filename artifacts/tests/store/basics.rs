//! Ordinary use of objects and the index.

use std::fs;

use artifacts::{Cached, Digest, Store, StoreError};

use proptest::prelude::*;

use crate::support::{cell, check, damage, key, new_store};

#[test]
fn what_is_put_is_got_back() {
    let (_folder, store) = new_store();
    for size in [0, 1, 1000, 1 << 17, (1 << 20) + 7] {
        let bytes = vec![7; size];
        let digest = store.put(&bytes).unwrap();
        assert_eq!(digest, Digest::of(&bytes));
        assert_eq!(store.get(&digest).unwrap(), bytes);
        assert_eq!(store.size(&digest).unwrap(), Some(size as u64));
        assert!(store.contains(&digest));
    }
}

#[test]
fn parts_of_an_object_are_its_bytes_wherever_they_begin_and_end() {
    let (_folder, store) = new_store();
    let bytes: Vec<u8> = (0..600_000_u32).map(|i| (i % 251) as u8).collect();
    let digest = store.put(&bytes).unwrap();
    let piece = 1 << 18;
    let ranges = [
        0..10,
        piece - 5..piece + 5,
        piece + 5..2 * piece,
        599_000..600_000,
    ];
    let parts = store.get_parts(&digest, &ranges).unwrap();
    for (range, part) in ranges.into_iter().zip(parts) {
        assert_eq!(
            part,
            bytes[range.start as usize..range.end as usize],
            "{range:?}"
        );
    }
    // Bytes beyond the end are not returned.
    let beyond = store
        .get_parts(&digest, &[599_990..700_000, 800_000..u64::MAX])
        .unwrap();
    assert_eq!(
        (&beyond[0], beyond[1].len()),
        (&bytes[599_990..].to_vec().into(), 0)
    );
    assert!(matches!(
        store.get_parts(&Digest::of(b"?"), &[]),
        Err(StoreError::Missing(_))
    ));
}

#[test]
fn an_object_lies_under_the_first_two_digits_of_its_digest() {
    let (_folder, store) = new_store();
    let digest = store.put(b"").unwrap();
    let expected = "objects/af/1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(store.path(&digest), store.root().join(expected));
    assert!(store.path(&digest).is_file());
}

#[test]
fn a_file_is_moved_in_and_gone_from_where_it_was() {
    let (folder, store) = new_store();
    for bytes in [b"small".to_vec(), vec![3; 1 << 18]] {
        let source = folder.path().join("source");
        fs::write(&source, &bytes).unwrap();
        let digest = store.put_file(&source).unwrap();
        assert!(!source.exists());
        assert_eq!(store.get(&digest).unwrap(), bytes);
        fs::write(&source, &bytes).unwrap();
        assert_eq!(
            store.put_file(&source).unwrap(),
            digest,
            "a second time is a success"
        );
        assert!(!source.exists());
    }
}

#[test]
fn a_file_with_a_second_name_is_copied_so_that_the_other_name_cannot_change_the_object() {
    let (folder, store) = new_store();
    let (source, other) = (folder.path().join("source"), folder.path().join("other"));
    fs::write(&source, b"before").unwrap();
    fs::hard_link(&source, &other).unwrap();
    let digest = store.put_file(&source).unwrap();
    fs::write(&other, b"after!").unwrap();
    assert_eq!(store.get(&digest).unwrap(), b"before");
}

#[test]
fn a_missing_object_is_named_in_the_error() {
    let (_folder, store) = new_store();
    let digest = Digest::of(b"never put");
    assert!(matches!(store.get(&digest), Err(StoreError::Missing(d)) if d == digest));
    assert_eq!(store.size(&digest).unwrap(), None);
    assert!(!store.contains(&digest));
}

/// Makes the file of an object as large as this, with a hole.
fn enlarge(store: &Store, digest: &Digest, bytes: u64) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = store.path(digest);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn a_file_with_a_hole_takes_no_memory() {
    let (_folder, store) = new_store();
    let digest = store.put(b"a record").unwrap();
    enlarge(&store, &digest, 300 << 20);
    assert!(matches!(store.get(&digest), Err(StoreError::Damaged(..))));
    // Nobody could hash, or hold, as much as this.
    enlarge(&store, &digest, 1 << 40);
    let error = store.get_document(&digest).unwrap_err();
    assert!(
        matches!(error, StoreError::TooLarge(_, size, _) if size == 1 << 40),
        "{error}"
    );
}

#[test]
fn a_large_object_is_read_as_it_is() {
    let (_folder, store) = new_store();
    let bytes = vec![7; (256 << 20) + 1];
    let digest = store.put(&bytes).unwrap();
    assert!(store.get(&digest).unwrap() == bytes);
    assert!(matches!(
        store.get_document(&digest),
        Err(StoreError::TooLarge(..))
    ));
}

#[test]
fn no_store_is_made_where_one_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        Store::open_existing(folder.path()),
        Err(StoreError::NoStore(_))
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_committed_cell_is_found_by_its_key_and_by_its_place() {
    let (_folder, store) = new_store();
    let commit = cell(&store, "a", b"rows");
    store.commit(std::slice::from_ref(&commit)).unwrap();
    let cached = Cached {
        record: commit.record,
        outputs: commit.outputs.clone(),
    };
    assert_eq!(store.record_for(&key("a")).unwrap(), Some(cached.clone()));
    assert_eq!(
        store.lookup().unwrap().record_for(&key("a")).unwrap(),
        Some(cached)
    );
    assert_eq!(store.record_for(&key("b")).unwrap(), None);
    let lines = store
        .history("quickstart", "ladder", Some("cell=a"), 9)
        .unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (lines[0].record, lines[0].status.as_str()),
        (commit.record, "ok")
    );
    assert!(
        store
            .history("quickstart", "other", None, 9)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_failure_is_history_and_never_a_hit() {
    let (_folder, store) = new_store();
    let mut commit = cell(&store, "a", b"log");
    commit.status = "failed".to_owned();
    commit.cacheable = false;
    store.commit(&[commit]).unwrap();
    assert_eq!(store.record_for(&key("a")).unwrap(), None);
    assert_eq!(
        store.history("quickstart", "ladder", None, 9).unwrap()[0].status,
        "failed"
    );
}

#[test]
fn the_newest_of_several_results_comes_first_and_all_are_kept() {
    let (_folder, store) = new_store();
    let mut first = cell(&store, "a", b"first");
    let mut second = cell(&store, "a", b"second");
    (first.seconds, second.seconds) = (1.0, 2.0);
    store.commit(&[first.clone(), second.clone()]).unwrap();
    store.commit(std::slice::from_ref(&first)).unwrap();
    let records: Vec<_> = store
        .records_for(&key("a"))
        .unwrap()
        .into_iter()
        .map(|c| c.record)
        .collect();
    assert_eq!(
        records,
        [second.record, first.record],
        "a repeated commit changes nothing"
    );
    assert_eq!(
        store
            .history("quickstart", "ladder", Some("cell=a"), 1)
            .unwrap()[0]
            .seconds,
        2.0
    );
    store.retire(&second.record).unwrap();
    assert_eq!(
        store.record_for(&key("a")).unwrap().unwrap().record,
        first.record
    );
}

#[test]
fn a_commit_that_names_a_missing_object_changes_nothing() {
    let (_folder, store) = new_store();
    let good = cell(&store, "good", b"rows");
    let mut bad = cell(&store, "bad", b"others");
    bad.objects.push(Digest::of(b"never put"));
    assert!(matches!(
        store.commit(&[good.clone(), bad]),
        Err(StoreError::Missing(_))
    ));
    assert_eq!(store.record_for(&key("good")).unwrap(), None);
    store.commit(&[good]).unwrap();
    assert!(store.record_for(&key("good")).unwrap().is_some());
}

#[test]
fn a_truncated_object_that_was_never_committed_is_replaced_by_the_next_put() {
    let (folder, store) = new_store();
    let digest = store.put(b"renamed but never synced").unwrap();
    let path = store.path(&digest);
    drop(store);
    for left_by_the_crash in [&b""[..], b"renamed but", b"renamed but never_synced"] {
        damage(&path, left_by_the_crash);
        let store = Store::open(&folder.path().join("store")).unwrap();
        assert!(matches!(store.get(&digest), Err(StoreError::Damaged(..))));
        store.put(b"renamed but never synced").unwrap();
        assert_eq!(store.get(&digest).unwrap(), b"renamed but never synced");
    }
}

#[test]
fn an_object_damaged_between_put_and_commit_is_refused_by_the_commit() {
    let (_folder, store) = new_store();
    let commit = cell(&store, "a", b"rows");
    damage(&store.path(&commit.objects[0]), b"row");
    let result = store.commit(std::slice::from_ref(&commit));
    assert!(matches!(result, Err(StoreError::Damaged(d, _)) if d == commit.objects[0]));
    assert_eq!(store.record_for(&key("a")).unwrap(), None);
    // The cell runs again.
    store.commit(&[cell(&store, "a", b"rows")]).unwrap();
    assert!(store.record_for(&key("a")).unwrap().is_some());
}

#[test]
fn a_session_of_lookups_sees_the_index_as_it_was_when_it_began_to_read() {
    let (_folder, store) = new_store();
    let lookup = store.lookup().unwrap();
    assert_eq!(lookup.record_for(&key("a")).unwrap(), None);
    store.commit(&[cell(&store, "a", b"rows")]).unwrap();
    assert_eq!(lookup.record_for(&key("a")).unwrap(), None);
    assert_eq!(
        store
            .lookup()
            .unwrap()
            .records_for(&key("a"))
            .unwrap()
            .len(),
        1
    );
    assert_eq!(store.records().unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_bytes_are_kept_under_their_digest_however_they_come_in(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let (folder, store) = new_store();
        let source = folder.path().join("source");
        fs::write(&source, &bytes).unwrap();
        let digest = store.put(&bytes).unwrap();
        prop_assert_eq!(digest, Digest::of(&bytes));
        prop_assert_eq!(store.put_file(&source).unwrap(), digest);
        prop_assert_eq!(store.get(&digest).unwrap(), bytes);
        prop_assert_eq!(check(&store).objects, 1);
    }

    /// Compares the index with a list: commits, repeats and retirements in any order.
    #[test]
    fn the_index_answers_as_a_list_of_commits_would(
        steps in proptest::collection::vec((0..4_u8, 0..4_u8, 0..6_u8), 1..40),
    ) {
        let (_folder, store) = new_store();
        let mut list: Vec<(String, Digest)> = Vec::new();
        for (name, output, action) in steps {
            let name = name.to_string();
            let commit = cell(&store, &name, &[output]);
            if action == 0 {
                store.retire(&commit.record).unwrap();
                list.retain(|(_, record)| *record != commit.record);
            } else {
                store.commit(std::slice::from_ref(&commit)).unwrap();
                if !list.iter().any(|(_, record)| *record == commit.record) {
                    list.push((name, commit.record));
                }
            }
        }
        for name in (0..4).map(|i: u8| i.to_string()) {
            let expected: Vec<Digest> =
                list.iter().rev().filter(|(n, _)| *n == name).map(|(_, record)| *record).collect();
            let records: Vec<Digest> =
                store.records_for(&key(&name)).unwrap().into_iter().map(|c| c.record).collect();
            prop_assert_eq!(&records, &expected);
            prop_assert_eq!(store.record_for(&key(&name)).unwrap().map(|c| c.record), expected.first().copied());
            let lines = store.history("quickstart", "ladder", Some(&format!("cell={name}")), 99).unwrap();
            prop_assert_eq!(lines.into_iter().map(|l| l.record).collect::<Vec<_>>(), expected);
        }
    }
}
