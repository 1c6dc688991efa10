//! Two local stores and a shared one in a folder: everything pushed is pulled completely, whatever goes wrong on the
//! way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use artifacts::{ActionKey, Commit, Digest, Maker, RecordView, Store, StoreError};
use remote::{Progress, PullReport, PushReport, Pushed, Remote, RemoteError, Watch};
use tempfile::TempDir;

/// A local store in a separate folder.
struct Local {
    store: Store,
    _folder: TempDir,
}

fn local() -> Local {
    let folder = tempfile::tempdir().unwrap();
    Local {
        store: Store::open(&folder.path().join("store")).unwrap(),
        _folder: folder,
    }
}

/// A record of these tests: one line for the key, then one for each object.
fn record(store: &Store, key: &str, objects: &[&str]) -> Digest {
    let mut text = format!("record {key}\n");
    for object in objects {
        text.push_str(&format!("{}\n", store.put(object.as_bytes()).unwrap()));
    }
    let digest = store.put(text.as_bytes()).unwrap();
    let view = view(&digest, text.as_bytes()).unwrap();
    store.commit(&[view.commit]).unwrap();
    digest
}

fn view(digest: &Digest, bytes: &[u8]) -> Option<RecordView> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (key, objects) = text.strip_prefix("record ")?.split_once('\n')?;
    let mut objects: Vec<Digest> = objects
        .lines()
        .map(|line| line.parse().ok())
        .collect::<Option<_>>()?;
    let outputs = objects.iter().map(Digest::to_string).collect();
    objects.push(*digest);
    Some(RecordView {
        commit: Commit {
            experiment: "study".into(),
            stage: "ladder".into(),
            coordinates: key.into(),
            key: key_of(key),
            record: *digest,
            objects,
            status: "ok".into(),
            cacheable: true,
            seconds: 1.0,
            outputs,
        },
        finished: 0,
        sizes: Vec::new(),
        inputs: Vec::new(),
        input_records: Vec::new(),
        files: Vec::new(),
    })
}

fn key_of(key: &str) -> ActionKey {
    ActionKey(Digest::of(key.as_bytes()))
}

fn maker(name: &str) -> Maker {
    Maker {
        host: Some(format!("{name}-box")),
        by: Some(name.to_owned()),
        started: Some("2026-11-22T10:00:00Z".into()),
    }
}

static GO_ON: AtomicBool = AtomicBool::new(false);

fn push_as(
    url: &Path,
    store: &Store,
    records: &[Digest],
    by: &str,
    verify: bool,
) -> Result<PushReport, RemoteError> {
    let pushed: Vec<Pushed> = records
        .iter()
        .map(|record| Pushed {
            view: view(record, &store.get(record).unwrap()).unwrap(),
            maker: maker(by),
        })
        .collect();
    let remote = Remote::open_or_create(url.to_str().unwrap())?;
    remote.push(
        store,
        &pushed,
        verify,
        Watch {
            cancelled: &GO_ON,
            listener: &|_| {},
        },
    )
}

fn push(url: &Path, store: &Store, records: &[Digest]) -> PushReport {
    push_as(url, store, records, "ada", false).unwrap()
}

fn pull(url: &Path, store: &Store, records: &[Digest]) -> PullReport {
    let remote = Remote::open(url.to_str().unwrap()).unwrap();
    let watch = Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    };
    remote
        .pull(store, records, &maker("bob"), view, watch)
        .unwrap()
}

/// Returns the path of an object in the shared store.
fn place(url: &Path, bytes: &str) -> PathBuf {
    let hex = Digest::of(bytes.as_bytes()).hex();
    url.join("objects").join(&hex[..2]).join(&hex[2..])
}

#[test]
fn what_was_pushed_is_pulled_whole_and_neither_is_done_twice() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let records = [
        record(&ours.store, "a", &["x", "y"]),
        record(&ours.store, "b", &["y", "z"]),
    ];
    let report = push(shared.path(), &ours.store, &records);
    assert_eq!(
        (report.completed, report.already_complete, report.objects),
        (2, 0, 5)
    );
    let again = push(shared.path(), &ours.store, &records);
    assert_eq!(
        (again.completed, again.already_complete, again.objects),
        (0, 2, 0)
    );
    let report = pull(shared.path(), &theirs.store, &records);
    assert_eq!((report.entered, report.objects), (2, 5));
    for key in ["a", "b"] {
        assert_eq!(
            theirs.store.record_for(&key_of(key)).unwrap(),
            ours.store.record_for(&key_of(key)).unwrap()
        );
    }
    let again = pull(shared.path(), &theirs.store, &records);
    assert_eq!((again.entered, again.objects), (0, 0));
}

#[test]
fn a_result_of_somebody_else_is_marked_as_theirs_and_one_of_ours_is_not() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let from_ada = record(&ours.store, "a", &["x"]);
    let from_bob = record(&ours.store, "b", &["y"]);
    push(shared.path(), &ours.store, &[from_ada]);
    push_as(shared.path(), &ours.store, &[from_bob], "bob", false).unwrap();
    pull(shared.path(), &theirs.store, &[from_ada, from_bob]);
    let imports: Vec<_> = theirs.store.imports().unwrap().into_iter().collect();
    assert_eq!(imports, [(from_ada, maker("ada"))]);
    assert!(ours.store.imports().unwrap().is_empty());
}

#[test]
fn two_writers_of_one_cell_are_both_kept_and_the_second_learns_of_the_first() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let first = record(&ours.store, "a", &["x"]);
    let second = record(&theirs.store, "a", &["other"]);
    assert!(push(shared.path(), &ours.store, &[first]).twins.is_empty());
    let report = push_as(shared.path(), &theirs.store, &[second], "bob", false).unwrap();
    let [twin] = report.twins.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(
        (twin.theirs.record, &twin.theirs.maker),
        (first, &maker("ada"))
    );
    assert_ne!(twin.ours.outputs, twin.theirs.outputs);
    assert_eq!(results(shared.path(), "a"), [first, second]);
}

/// Returns the records of a key's completions, in the order of their entry.
fn results(url: &Path, key: &str) -> Vec<Digest> {
    let remote = Remote::open(url.to_str().unwrap()).unwrap();
    let watch = Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    };
    let completions = remote.completions(&[key_of(key)], watch).unwrap();
    completions
        .results
        .into_iter()
        .flat_map(|(_, all)| all)
        .map(|c| c.record)
        .collect()
}

#[test]
fn writers_who_race_for_one_cell_lose_nothing_and_each_but_the_first_learns_of_it() {
    let shared = tempfile::tempdir().unwrap();
    let locals: Vec<Local> = (0..6).map(|_| local()).collect();
    let records: Vec<Digest> = locals
        .iter()
        .enumerate()
        .map(|(n, local)| record(&local.store, "a", &[&format!("output {n}")]))
        .collect();
    let url = shared.path();
    let written: usize = std::thread::scope(|scope| {
        let pushes: Vec<_> = locals
            .iter()
            .zip(&records)
            .map(|(local, record)| {
                scope.spawn(move || push(url, &local.store, &[*record]).twins.len())
            })
            .collect();
        pushes.into_iter().map(|push| push.join().unwrap()).sum()
    });
    assert_eq!(written, 5);
    let kept: BTreeSet<Digest> = results(shared.path(), "a").into_iter().collect();
    assert_eq!(kept, records.into_iter().collect());
}

#[test]
fn a_record_of_which_an_object_is_damaged_or_missing_is_left_out_and_named() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let damaged = record(&ours.store, "a", &["damaged"]);
    let missing = record(&ours.store, "b", &["missing"]);
    let whole = record(&ours.store, "c", &["whole"]);
    let all = [damaged, missing, whole];
    push(shared.path(), &ours.store, &all);
    fs::remove_file(place(shared.path(), "damaged")).unwrap();
    fs::write(place(shared.path(), "damaged"), "damageD").unwrap();
    fs::remove_file(place(shared.path(), "missing")).unwrap();
    let report = pull(shared.path(), &theirs.store, &all);
    assert_eq!(report.entered, 1);
    let mut broken = report.broken;
    broken.sort_by_key(|(record, _)| all.iter().position(|r| r == record));
    let [
        (first, RemoteError::Damaged(_, object)),
        (second, RemoteError::Missing(_, lost)),
    ] = broken.as_slice()
    else {
        panic!("{broken:?}");
    };
    assert_eq!((first, second), (&damaged, &missing));
    assert_eq!(
        (*object, *lost),
        (Digest::of(b"damaged"), Digest::of(b"missing"))
    );
    assert!(!theirs.store.contains(&Digest::of(b"damaged")));
    assert_eq!(theirs.store.record_for(&key_of("a")).unwrap(), None);

    // The size is right, so only reading can find the damage.
    let report = push_as(shared.path(), &ours.store, &all, "ada", true).unwrap();
    assert_eq!(
        (report.replaced, report.objects),
        (vec![Digest::of(b"damaged")], 2)
    );
    assert_eq!(pull(shared.path(), &theirs.store, &all).entered, 2);
}

#[test]
fn an_object_cut_short_there_is_replaced_by_any_push_of_what_is_not_complete() {
    let (ours, shared) = (local(), tempfile::tempdir().unwrap());
    let first = record(&ours.store, "a", &["shared object"]);
    push(shared.path(), &ours.store, &[first]);
    fs::remove_file(place(shared.path(), "shared object")).unwrap();
    fs::write(place(shared.path(), "shared object"), "shar").unwrap();
    let second = record(&ours.store, "b", &["shared object"]);
    let report = push(shared.path(), &ours.store, &[second]);
    assert_eq!(report.replaced, [Digest::of(b"shared object")]);
}

#[test]
fn what_is_damaged_here_never_gets_there() {
    let (ours, shared) = (local(), tempfile::tempdir().unwrap());
    let broken = record(&ours.store, "a", &["x"]);
    let path = ours.store.path(&Digest::of(b"x"));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "y").unwrap();
    let error = push_as(shared.path(), &ours.store, &[broken], "ada", false).unwrap_err();
    assert!(
        matches!(error, RemoteError::Store(StoreError::Damaged(..))),
        "{error}"
    );
    assert!(results(shared.path(), "a").is_empty());
}

#[test]
fn a_push_that_was_cut_short_goes_on_where_it_was() {
    let (ours, shared) = (local(), tempfile::tempdir().unwrap());
    let records: Vec<Digest> = (0..200)
        .map(|n| record(&ours.store, &format!("k{n}"), &[&format!("o{n}")]))
        .collect();
    let pushed: Vec<Pushed> = records
        .iter()
        .map(|record| Pushed {
            view: view(record, &ours.store.get(record).unwrap()).unwrap(),
            maker: maker("ada"),
        })
        .collect();
    let remote = Remote::open_or_create(shared.path().to_str().unwrap())
        .unwrap()
        .with_jobs(2);
    let (cancelled, bytes, watched) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let listener = |progress: Progress| {
        bytes.fetch_max(progress.bytes, Ordering::Relaxed);
        // A group has 128 objects and 64 completions, so this is among the objects of the second group.
        if watched.fetch_add(1, Ordering::Relaxed) == 250 {
            cancelled.store(true, Ordering::Relaxed);
        }
    };
    let cut = remote.push(
        &ours.store,
        &pushed,
        false,
        Watch {
            cancelled: &cancelled,
            listener: &listener,
        },
    );
    assert!(matches!(cut, Err(RemoteError::Interrupted)), "{cut:?}");
    let sent = bytes.load(Ordering::Relaxed);
    let report = push(shared.path(), &ours.store, &records);
    assert!(report.already_complete >= 64, "{report:?}");
    assert_eq!(report.completed + report.already_complete, 200);
    let total: u64 = pushed
        .iter()
        .flat_map(|p| p.view.references())
        .map(|d| ours.store.size(d).unwrap().unwrap())
        .sum();
    assert_eq!(sent + report.bytes, total, "nothing is sent twice");
    assert_eq!(pull(shared.path(), &local().store, &records).entered, 200);
}

#[test]
fn ten_thousand_small_objects_come_through() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let records: Vec<Digest> = (0..100)
        .map(|n| {
            let objects: Vec<String> = (0..99).map(|m| format!("object {n} {m}")).collect();
            record(
                &ours.store,
                &format!("key {n}"),
                &objects.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(push(shared.path(), &ours.store, &records).objects, 10_000);
    let report = pull(shared.path(), &theirs.store, &records);
    assert_eq!((report.entered, report.objects), (100, 10_000));
}

#[test]
fn an_object_larger_than_memory_allows_comes_through_a_file() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let large = "0123456789abcdef".repeat((20 << 20) / 16);
    let one = record(&ours.store, "a", &[&large]);
    push(shared.path(), &ours.store, &[one]);
    assert_eq!(pull(shared.path(), &theirs.store, &[one]).entered, 1);
    assert_eq!(
        theirs
            .store
            .get(&Digest::of(large.as_bytes()))
            .unwrap()
            .len(),
        large.len()
    );
    assert_eq!(
        fs::read_dir(theirs.store.root().join("tmp"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_store_that_reads_through_fetches_what_is_read_and_refuses_damage() {
    let (ours, shared) = (local(), tempfile::tempdir().unwrap());
    let one = record(&ours.store, "a", &["x", "damaged"]);
    push(shared.path(), &ours.store, &[one]);
    fs::remove_file(place(shared.path(), "damaged")).unwrap();
    fs::write(place(shared.path(), "damaged"), "damageD").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let remote = Remote::open(shared.path().to_str().unwrap()).unwrap();
    let store = Store::open(folder.path())
        .unwrap()
        .with_source(std::sync::Arc::new(remote));
    assert_eq!(store.get(&Digest::of(b"x")).unwrap(), b"x");
    fs::remove_file(place(shared.path(), "x")).unwrap();
    assert_eq!(store.get(&Digest::of(b"x")).unwrap(), b"x", "it is kept");
    let error = store.get(&Digest::of(b"damaged")).unwrap_err();
    assert!(
        matches!(error, StoreError::Source(_)) && error.to_string().contains("damaged"),
        "{error}"
    );
    assert!(matches!(
        store.get(&Digest::of(b"nowhere")),
        Err(StoreError::Missing(_))
    ));
}

#[test]
fn hints_lead_to_all_results_of_a_study() {
    let (ours, shared) = (local(), tempfile::tempdir().unwrap());
    let records = [
        record(&ours.store, "a", &["x"]),
        record(&ours.store, "b", &["y"]),
    ];
    push(shared.path(), &ours.store, &records);
    let remote = Remote::open(shared.path().to_str().unwrap()).unwrap();
    let hinted: BTreeSet<ActionKey> = remote.hinted("study").unwrap().into_iter().collect();
    assert_eq!(hinted, BTreeSet::from([key_of("a"), key_of("b")]));
    assert!(remote.hinted("another").unwrap().is_empty());
}

#[test]
fn a_folder_that_is_no_shared_store_or_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| Remote::open(path.to_str().unwrap()).unwrap_err();
    assert!(matches!(
        open(&folder.path().join("nowhere")),
        RemoteError::Absent(_)
    ));
    assert!(matches!(open(folder.path()), RemoteError::Absent(_)));
    fs::write(
        folder.path().join("benchtrail.json"),
        r#"{"benchtrail_store":3}"#,
    )
    .unwrap();
    assert!(matches!(open(folder.path()), RemoteError::Format(_, 3)));
    fs::write(folder.path().join("benchtrail.json"), "something else").unwrap();
    assert!(matches!(open(folder.path()), RemoteError::NotOurs(_)));
}

#[test]
fn a_completion_that_was_tampered_with_is_reported_and_not_a_result() {
    let (ours, theirs) = (local(), local());
    let other = record(&theirs.store, "a", &["y"]);
    for damage in ["{}", "", "\u{0}", "{\"format\": 1, \"retired_by\": \"x\"}"] {
        let shared = tempfile::tempdir().unwrap();
        let one = record(&ours.store, "a", &["x"]);
        push(shared.path(), &ours.store, &[one]);
        let path = completion_of(shared.path(), "a");
        fs::write(&path, damage).unwrap();
        only_reported(shared.path(), &path);
        // The next result of the key takes the next number, and the first one stays damaged.
        push(shared.path(), &theirs.store, &[other]);
        assert_eq!(results(shared.path(), "a"), [other], "{damage}");
        push(shared.path(), &ours.store, &[one]);
        assert_eq!(results(shared.path(), "a"), [other, one], "{damage}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damage);
    }
    // Neither another key's completion nor anything but a small file.
    let shared = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|key| record(&ours.store, key, &["x"]));
    push(shared.path(), &ours.store, &[a, b]);
    let path = completion_of(shared.path(), "a");
    fs::copy(completion_of(shared.path(), "b"), &path).unwrap();
    only_reported(shared.path(), &path);
    fs::write(&path, vec![b' '; 2 << 20]).unwrap();
    only_reported(shared.path(), &path);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    only_reported(shared.path(), &path);
    assert_eq!(results(shared.path(), "b"), [b]);
}

/// Returns the path of a key's first completion.
fn completion_of(shared: &Path, key: &str) -> PathBuf {
    let hex = key_of(key).0.hex();
    shared
        .join("cells")
        .join(&hex[..2])
        .join(&hex[2..])
        .join("1")
}

/// Checks that the store names the only completion of the key `a` as damaged, gives a remedy, and returns no result.
fn only_reported(shared: &Path, path: &Path) {
    let remote = Remote::open(shared.to_str().unwrap()).unwrap();
    let watch = Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    };
    let asked = remote.completions(&[key_of("a")], watch).unwrap();
    assert!(asked.results.is_empty(), "{asked:?}");
    let [damaged @ RemoteError::Broken(..)] = asked.damaged.as_slice() else {
        panic!("{asked:?}");
    };
    let name = path.strip_prefix(shared).unwrap().to_str().unwrap();
    assert!(damaged.to_string().contains(name), "{damaged}");
    assert!(damaged.hint().unwrap().contains("push"));
}

#[test]
fn what_is_no_record_in_the_shared_store_is_left_out_and_the_rest_is_pulled() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let sound = record(&ours.store, "a", &["x"]);
    push(shared.path(), &ours.store, &[sound]);
    let junk = place(shared.path(), "no record");
    fs::create_dir_all(junk.parent().unwrap()).unwrap();
    fs::write(junk, "no record").unwrap();
    let named = Digest::of(b"no record");
    let report = pull(shared.path(), &theirs.store, &[named, sound]);
    assert_eq!(report.entered, 1);
    let broken: Vec<Digest> = report.broken.iter().map(|(record, _)| *record).collect();
    assert_eq!(broken, [named]);
    assert!(theirs.store.record_for(&key_of("a")).unwrap().is_some());
}

#[test]
fn an_object_larger_than_its_record_says_is_not_read_to_its_end() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let sound = record(&ours.store, "a", &["x"]);
    push(shared.path(), &ours.store, &[sound]);
    let sized = |digest: &Digest, bytes: &[u8]| {
        let size = (Digest::of(b"x"), 1);
        view(digest, bytes).map(|view| RecordView {
            sizes: vec![size],
            ..view
        })
    };
    let remote = Remote::open(shared.path().to_str().unwrap()).unwrap();
    let watch = || Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    };
    let pulled = remote.pull(&theirs.store, &[sound], &maker("bob"), sized, watch());
    assert_eq!(pulled.unwrap().entered, 1);
    // Now no large object finds a place here.
    fs::remove_file(theirs.store.path(&Digest::of(b"x"))).unwrap();
    fs::remove_dir_all(theirs.store.root().join("tmp")).unwrap();
    let large = fs::File::create(place(shared.path(), "x")).unwrap();
    large.set_len(64 << 20).unwrap();
    let report = remote
        .pull(&theirs.store, &[sound], &maker("bob"), sized, watch())
        .unwrap();
    let [(broken, RemoteError::Damaged(_, object))] = report.broken.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((*broken, *object), (sound, Digest::of(b"x")));
}

#[test]
fn what_the_disk_has_no_room_for_is_refused_before_it_is_downloaded() {
    let (ours, theirs, shared) = (local(), local(), tempfile::tempdir().unwrap());
    let sound = record(&ours.store, "a", &["x", "y"]);
    push(shared.path(), &ours.store, &[sound]);
    let large = fs::File::create(place(shared.path(), "x")).unwrap();
    large.set_len(1 << 42).unwrap();
    // The size is declared truthfully, or it is not declared.
    for (size, reason) in [
        (Some(1 << 62), "4611686018427387904 bytes"),
        (None, "4398046511104 bytes"),
    ] {
        let sized = |digest: &Digest, bytes: &[u8]| {
            let sizes = size.map(|size| (Digest::of(b"x"), size));
            view(digest, bytes).map(|view| RecordView {
                sizes: sizes.into_iter().collect(),
                ..view
            })
        };
        let remote = Remote::open(shared.path().to_str().unwrap()).unwrap();
        let watch = Watch {
            cancelled: &GO_ON,
            listener: &|_| {},
        };
        let error = remote
            .pull(&theirs.store, &[sound], &maker("bob"), sized, watch)
            .unwrap_err();
        let said = error.to_string();
        assert!(said.contains(reason) && said.contains(" free"), "{said}");
        let fault = artifacts::DiskFault::behind(&error);
        assert_eq!(fault, Some(artifacts::DiskFault::Full));
        assert!(!theirs.store.contains(&Digest::of(b"x")));
        let left = fs::read_dir(theirs.store.root().join("tmp")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn a_link_in_a_shared_store_leads_nobody_to_other_folders() {
    let (ours, shared, other) = (
        local(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let first = record(&ours.store, "a", &["x"]);
    push(shared.path(), &ours.store, &[first]);
    let folder = place(shared.path(), "y").parent().unwrap().to_owned();
    for link in [shared.path().join("cells"), folder] {
        // Somebody else's files, also those that have the names of ours.
        if link.exists() {
            fs::rename(&link, link.with_extension("kept")).unwrap();
        }
        std::os::unix::fs::symlink(other.path(), &link).unwrap();
        let next = record(&ours.store, "b", &["y"]);
        let refused = push_as(shared.path(), &ours.store, &[next], "ada", false);
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("is a symbolic link"), "{said}");
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
        fs::remove_file(&link).unwrap();
        let kept = link.with_extension("kept");
        if kept.exists() {
            fs::rename(kept, &link).unwrap();
        }
    }
    // The folder of the store may be a link.
    let root = other.path().join("shared");
    std::os::unix::fs::symlink(shared.path(), &root).unwrap();
    let next = record(&ours.store, "b", &["y"]);
    assert_eq!(push(&root, &ours.store, &[next]).completed, 1);
}
