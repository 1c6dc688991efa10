//! What `gc` removes and what it keeps.

use std::fs;
use std::time::Duration;

use artifacts::{Digest, FsckFindingKind, GcMode, GcOptions, Store, StoreError};

use crate::support::{
    age, cell, cell_from, check, damage, key, kinds, new_store, no_grace, read_record, repair,
};

#[test]
fn what_the_roots_reach_stays_and_the_rest_goes_with_its_rows() {
    let (_folder, store) = new_store();
    let (a, b) = (
        cell(&store, "a", b"rows of a"),
        cell(&store, "b", b"rows of b"),
    );
    let analysis = cell_from(&store, "analysis", b"table", &[&a]);
    store
        .commit(&[a.clone(), b.clone(), analysis.clone()])
        .unwrap();
    age(&store);
    let dry = store
        .gc(&[analysis.record], &no_grace(GcMode::DryRun), read_record)
        .unwrap();
    assert!(store.contains(&b.record) && store.record_for(&key("b")).unwrap().is_some());
    let report = store
        .gc(&[analysis.record], &no_grace(GcMode::Sweep), read_record)
        .unwrap();
    assert_eq!(report, dry, "a dry run says what a sweep does");
    assert_eq!(
        (
            report.reached.objects,
            report.removed.objects,
            report.young.objects
        ),
        (4, 2, 0)
    );
    assert_eq!((report.retired.len(), report.missing.len()), (1, 0));
    assert_eq!(
        report.removed.bytes,
        9 + format!("record b\noutput {}\n", b.objects[0]).len() as u64
    );
    assert!(b.objects.iter().all(|o| !store.contains(o)));
    assert_eq!(store.record_for(&key("b")).unwrap(), None);
    assert!(
        store
            .history("quickstart", "ladder", Some("cell=b"), 9)
            .unwrap()
            .is_empty()
    );
    assert!(
        store.record_for(&key("a")).unwrap().is_some(),
        "reached through the analysis"
    );
    assert_eq!(check(&store).findings, []);
    assert_eq!(fs::read_dir(store.root().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_file_that_a_record_names_stays_with_it_and_may_be_missing() {
    let (folder, store) = new_store();
    let pack = folder.path().join("pack.jsonl");
    fs::write(&pack, "prompts").unwrap();
    let file = store.put_copy(&pack).unwrap();
    assert_eq!(fs::read(&pack).unwrap(), b"prompts", "it stays its owner's");
    let output = store.put(b"rows").unwrap();
    let elsewhere = Digest::of(b"left out");
    let text = format!("record a\noutput {output}\nfile {file}\nfile {elsewhere}\n");
    let record = store.put(text.as_bytes()).unwrap();
    let commit = read_record(&record, text.as_bytes()).unwrap().commit;
    store.commit(&[commit]).unwrap();
    age(&store);
    let sweep = no_grace(GcMode::Sweep);
    let report = store.gc(&[record], &sweep, read_record).unwrap();
    assert_eq!((report.reached.objects, report.removed.objects), (3, 0));
    assert_eq!(report.missing, [], "nothing is wrong where a file is not");
    assert_eq!(check(&store).findings, []);
    let report = store.gc(&[], &sweep, read_record).unwrap();
    assert_eq!(report.removed.objects, 3);
    assert!(!store.keeps(&file).unwrap());
}

#[test]
fn young_objects_stay_with_what_their_records_refer_to() {
    let (_folder, store) = new_store();
    let old = cell(&store, "old", b"old rows");
    store.commit(std::slice::from_ref(&old)).unwrap();
    age(&store);
    let young = cell_from(&store, "young", b"young table", &[&old]);
    store.commit(std::slice::from_ref(&young)).unwrap();
    let options = GcOptions {
        grace: Duration::from_secs(600),
        ..GcOptions::default()
    };
    let report = store.gc(&[], &options, read_record).unwrap();
    assert_eq!((report.reached.objects, report.removed.objects), (4, 0));
    assert_eq!(check(&store).findings, []);
}

#[test]
fn putting_an_old_object_again_makes_it_young() {
    let (_folder, store) = new_store();
    let digest = store.put(b"bytes").unwrap();
    store.commit(&[]).unwrap();
    age(&store);
    store.put(b"bytes").unwrap();
    let options = GcOptions {
        grace: Duration::from_secs(600),
        ..GcOptions::default()
    };
    assert_eq!(
        store.gc(&[], &options, read_record).unwrap().young.objects,
        1
    );
    assert!(store.contains(&digest));
}

#[test]
fn what_a_live_run_holds_or_has_put_stays_until_it_ends() {
    let (_folder, store) = new_store();
    let a = cell(&store, "a", b"rows");
    store.commit(std::slice::from_ref(&a)).unwrap();
    age(&store);
    let mut hold = store.hold().unwrap();
    hold.keep(&[a.record]).unwrap();
    let fresh = store.put(b"put during the run, not yet committed").unwrap();
    let other = Store::open_existing(store.root()).unwrap();
    let report = other
        .gc(&[], &no_grace(GcMode::Sweep), read_record)
        .unwrap();
    assert_eq!(
        (
            report.reached.objects,
            report.young.objects,
            report.removed.objects
        ),
        (2, 1, 0)
    );
    drop(hold);
    let report = other
        .gc(&[], &no_grace(GcMode::Sweep), read_record)
        .unwrap();
    assert_eq!(report.removed.objects, 3);
    assert!(!store.contains(&a.record) && !store.contains(&fresh));
    assert_eq!(fs::read_dir(store.root().join("holds")).unwrap().count(), 0);
}

#[test]
fn a_collection_waits_for_a_plan_and_gives_up_with_an_error() {
    let (_folder, store) = new_store();
    let mut hold = store.hold().unwrap();
    let collect = || store.gc(&[], &no_grace(GcMode::Sweep), read_record);
    assert!(matches!(collect(), Err(StoreError::Busy(path)) if path.ends_with("gc.lock")));
    hold.keep(&[]).unwrap();
    collect().unwrap();
    let second = store.hold().unwrap();
    assert!(matches!(collect(), Err(StoreError::Busy(_))));
    drop((hold, second));
    collect().unwrap();
}

#[test]
fn what_a_dead_run_left_behind_holds_nothing() {
    let (_folder, store) = new_store();
    let a = cell(&store, "a", b"rows");
    store.commit(std::slice::from_ref(&a)).unwrap();
    age(&store);
    fs::create_dir_all(store.root().join("holds")).unwrap();
    fs::write(
        store.root().join("holds/run-dead"),
        format!("since 0\n{}\n", a.record),
    )
    .unwrap();
    assert_eq!(
        store
            .gc(&[], &no_grace(GcMode::Sweep), read_record)
            .unwrap()
            .removed
            .objects,
        2
    );
    assert!(!store.root().join("holds/run-dead").exists());
}

#[test]
fn a_damaged_root_stops_the_collection_before_anything_is_removed() {
    let (_folder, store) = new_store();
    let (a, b) = (cell(&store, "a", b"rows"), cell(&store, "b", b"other rows"));
    store.commit(&[a.clone(), b.clone()]).unwrap();
    damage(&store.path(&a.record), b"record");
    age(&store);
    let result = store.gc(&[a.record], &no_grace(GcMode::Sweep), read_record);
    assert!(matches!(result, Err(StoreError::Damaged(d, _)) if d == a.record));
    let result = store.gc(&[b.objects[0]], &no_grace(GcMode::Sweep), read_record);
    assert!(matches!(result, Err(StoreError::NotARecord(d)) if d == b.objects[0]));
    assert!(store.contains(&b.objects[0]) && store.contains(&b.record));
}

#[test]
fn a_root_the_store_never_had_is_reported() {
    let (_folder, store) = new_store();
    let elsewhere = Digest::of(b"a colleague's record");
    let report = store
        .gc(&[elsewhere], &no_grace(GcMode::Sweep), read_record)
        .unwrap();
    assert_eq!(report.missing, [elsewhere]);
}

#[test]
fn an_object_removed_by_another_process_is_written_again_by_the_next_put() {
    let (_folder, store) = new_store();
    let digest = store.put(b"bytes").unwrap();
    store.commit(&[]).unwrap();
    age(&store);
    let other = Store::open_existing(store.root()).unwrap();
    assert_eq!(
        other
            .gc(&[], &no_grace(GcMode::Sweep), read_record)
            .unwrap()
            .removed
            .objects,
        1
    );
    assert_eq!(store.put(b"bytes").unwrap(), digest);
    store.commit(&[]).unwrap();
    assert_eq!(store.get(&digest).unwrap(), b"bytes");
    assert_eq!(check(&store).findings, []);
}

#[test]
fn an_object_put_again_between_marking_and_sweeping_is_spared() {
    let (_folder, store) = new_store();
    let root = cell(&store, "root", b"rows");
    let wanted = store.put(b"wanted again").unwrap();
    store.put(b"not wanted").unwrap();
    store.commit(std::slice::from_ref(&root)).unwrap();
    age(&store);
    let run = Store::open_existing(store.root()).unwrap();
    // Reading the records falls between listing the objects and the first removal.
    let put_meanwhile = |record: &Digest, bytes: &[u8]| {
        run.put(b"wanted again").unwrap();
        read_record(record, bytes)
    };
    let report = store
        .gc(&[root.record], &no_grace(GcMode::Sweep), put_meanwhile)
        .unwrap();
    assert_eq!(
        (
            report.reached.objects,
            report.young.objects,
            report.removed.objects
        ),
        (2, 1, 1)
    );
    assert_eq!(store.get(&wanted).unwrap(), b"wanted again");
    let after = cell_from(&run, "after", b"wanted again", &[&root]);
    run.commit(std::slice::from_ref(&after)).unwrap();
    assert!(store.record_for(&key("after")).unwrap().is_some());
    assert_eq!(check(&store).findings, []);
}

#[test]
fn a_journal_outlives_its_run_until_a_later_one_has_written_the_file() {
    let (folder, store) = new_store();
    let file = folder.path().join("study.lock");
    let a = cell(&store, "a", b"rows");
    let mut killed = store.journal(&file).unwrap();
    killed.note([&a.record]).unwrap();
    assert!(store.roots().unwrap()[0].journals[0].live);
    drop(killed);
    let root = &store.roots().unwrap()[0];
    assert_eq!((root.written, root.journals[0].live), (false, false));
    assert_eq!(root.journals[0].records, [a.record]);
    assert_eq!(
        root.file,
        folder.path().canonicalize().unwrap().join("study.lock")
    );

    let live = store.journal(&file).unwrap();
    let next = store.journal(&file).unwrap();
    next.close().unwrap();
    let root = store.root_of(&file).unwrap().unwrap();
    assert!(root.written);
    assert_eq!(root.journals.len(), 1, "that of the run that is alive");
    assert!(matches!(store.forget_root(&file), Err(StoreError::Busy(_))));
    live.close().unwrap();
    assert!(store.forget_root(&file).unwrap());
    assert_eq!(store.roots().unwrap(), []);
    assert!(!store.forget_root(&file).unwrap());
}

#[test]
fn a_root_whose_place_is_damaged_is_reported_and_forgotten_and_stops_no_other() {
    let (folder, store) = new_store();
    let files = ["a.lock", "b.lock"].map(|name| folder.path().join(name));
    for file in &files {
        store.journal(file).unwrap().close().unwrap();
    }
    let break_root = |bytes: &[u8]| {
        let roots = fs::read_dir(store.root().join("roots")).unwrap();
        let roots = roots.map(|entry| entry.unwrap().path());
        let mut places = roots.map(|root| root.join("place"));
        let place = places.find(|place| fs::read(place).unwrap().ends_with(b"b.lock"));
        let place = place.expect("the place of b.lock");
        fs::write(&place, bytes).unwrap();
        place.parent().unwrap().to_owned()
    };
    for bytes in [&b"benchtrail root 1 beside\nc.lock"[..], b""] {
        let root = break_root(bytes);
        let names: Vec<_> = store.roots().unwrap().into_iter().map(|r| r.file).collect();
        assert_eq!(names.len(), 1);
        assert!(names[0].ends_with("a.lock"));
        assert_eq!(store.broken_roots().unwrap(), std::slice::from_ref(&root));
        let checked = check(&store);
        assert_eq!(kinds(&checked), [FsckFindingKind::BrokenRoot]);
        assert!(!checked.findings[0].repaired);
        let repaired = repair(&store);
        assert!(!repaired.findings[0].repaired);
        assert_eq!(store.broken_roots().unwrap(), std::slice::from_ref(&root));
        assert!(store.forget_broken_root(&root).unwrap());
        assert!(store.broken_roots().unwrap().is_empty());
        assert!(!store.forget_broken_root(&root).unwrap());
        store.journal(&files[1]).unwrap().close().unwrap();
        assert_eq!(store.roots().unwrap().len(), 2);
    }
}

#[test]
fn a_deleted_folder_is_recognised_by_every_path_that_led_to_it() {
    let (folder, store) = new_store();
    let outer = folder.path();
    fs::create_dir_all(outer.join("p/a")).unwrap();
    std::os::unix::fs::symlink(outer.join("p"), outer.join("link")).unwrap();
    for path in ["p/b/s.lock", "p/a/../b/s.lock", "link/b/s.lock"] {
        fs::create_dir(outer.join("p/b")).unwrap();
        let file = outer.join("p/b/s.lock");
        store.journal(&file).unwrap().close().unwrap();
        fs::remove_dir(outer.join("p/b")).unwrap();
        assert!(store.forget_root(&outer.join(path)).unwrap(), "{path}");
    }
}

#[test]
fn a_file_beside_the_store_moves_with_it_and_any_other_does_not() {
    let (folder, store) = new_store();
    let elsewhere = tempfile::tempdir().unwrap();
    let (near, far) = (
        folder.path().join("p/n\ner.lock"),
        elsewhere.path().join("far.lock"),
    );
    fs::create_dir(folder.path().join("p")).unwrap();
    store.journal(&near).unwrap().close().unwrap();
    store.journal(&far).unwrap().close().unwrap();
    drop(store);
    let moved = tempfile::tempdir().unwrap();
    fs::rename(folder.path().join("store"), moved.path().join("store")).unwrap();
    let store = Store::open_existing(&moved.path().join("store")).unwrap();
    let mut files: Vec<_> = store.roots().unwrap().into_iter().map(|r| r.file).collect();
    files.sort();
    let mut expected = vec![
        moved.path().canonicalize().unwrap().join("p/n\ner.lock"),
        elsewhere.path().canonicalize().unwrap().join("far.lock"),
    ];
    expected.sort();
    assert_eq!(files, expected);
}

#[test]
fn a_run_removes_the_holds_of_dead_runs_and_keeps_those_of_live_ones() {
    let (_folder, store) = new_store();
    let holds = || fs::read_dir(store.root().join("holds")).unwrap().count();
    let live = store.hold().unwrap();
    fs::write(store.root().join("holds/run-dead"), "since 1\n").unwrap();
    let next = store.hold().unwrap();
    assert_eq!(holds(), 2);
    drop((live, next));
    // Runs that begin at the same time do not take each other's holds away.
    let kept = std::thread::scope(|scope| {
        let begin = || (0..50).map(|_| store.hold().unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
        let held: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        (holds(), held)
    });
    assert_eq!(kept.0, 200);
}
