//! A shared store in a bucket of a real S3 server. `tests/s3/run` starts the server, and sets `AWS_ENDPOINT_URL` and
//! the credentials.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use artifacts::{ActionKey, Commit, Digest, Maker, RecordView, Store};
use remote::{
    CollectMode, CollectOptions, Collected, PullReport, PushReport, Pushed, Remote, Watch,
};

/// The number of 3 MiB objects that exceeds the small server's capacity.
const MOST_ROOM: usize = 64;
const NEEDS: &str = "needs a server: tests/s3/run";
static GO_ON: AtomicBool = AtomicBool::new(false);

fn watch() -> Watch<'static> {
    Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    }
}

fn local() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    (folder, store)
}

fn record(store: &Store, key: &str, objects: &[String]) -> Digest {
    let lines = objects
        .iter()
        .map(|object| format!("{}\n", store.put(object.as_bytes()).unwrap()));
    let text = format!("record {key}\n{}", lines.collect::<String>());
    let digest = store.put(text.as_bytes()).unwrap();
    store
        .commit(&[view(&digest, text.as_bytes()).unwrap().commit])
        .unwrap();
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
            key: ActionKey(Digest::of(key.as_bytes())),
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

/// Returns a prefix of the bucket for one test, so that objects of an earlier run are ignored.
fn place(test: &str) -> String {
    format!("s3://lab/{}-{test}", std::process::id())
}

fn push(url: &str, store: &Store, records: &[Digest]) -> PushReport {
    let pushed: Vec<Pushed> = records
        .iter()
        .map(|record| Pushed {
            view: view(record, &store.get(record).unwrap()).unwrap(),
            maker: Maker::default(),
        })
        .collect();
    Remote::open_or_create(url)
        .unwrap()
        .push(store, &pushed, false, watch())
        .unwrap()
}

fn pull(url: &str, store: &Store, records: &[Digest]) -> PullReport {
    Remote::open(url)
        .unwrap()
        .pull(store, records, &Maker::default(), view, watch())
        .unwrap()
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn ten_thousand_small_objects_come_through_and_are_not_sent_twice() {
    let ((_a, ours), (_b, theirs), url) = (local(), local(), place("many"));
    let records: Vec<Digest> = (0..100)
        .map(|n| {
            record(
                &ours,
                &format!("key {n}"),
                &(0..99)
                    .map(|m| format!("object {n} {m}"))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(push(&url, &ours, &records).objects, 10_000, "{NEEDS}");
    let again = push(&url, &ours, &records);
    assert_eq!((again.objects, again.already_complete), (0, 100));
    let report = pull(&url, &theirs, &records);
    assert_eq!((report.entered, report.objects), (100, 10_000));
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn writers_who_race_for_one_cell_lose_nothing_and_each_but_the_first_learns_of_it() {
    let url = place("race");
    Remote::open_or_create(&url).unwrap();
    let locals: Vec<_> = (0..6).map(|_| local()).collect();
    let records: Vec<Digest> = locals
        .iter()
        .enumerate()
        .map(|(n, (_, store))| record(store, "a", &[format!("output {n}")]))
        .collect();
    let written: usize = std::thread::scope(|scope| {
        let pushes: Vec<_> = locals
            .iter()
            .zip(&records)
            .map(|((_, store), record)| scope.spawn(|| push(&url, store, &[*record]).twins.len()))
            .collect();
        pushes.into_iter().map(|push| push.join().unwrap()).sum()
    });
    assert_eq!(written, 5);
    let key = ActionKey(Digest::of(b"a"));
    let completions = Remote::open(&url)
        .unwrap()
        .completions(&[key], watch())
        .unwrap();
    let kept: BTreeSet<Digest> = completions
        .results
        .into_iter()
        .flat_map(|(_, all)| all)
        .map(|c| c.record)
        .collect();
    assert_eq!(kept, records.into_iter().collect());
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn a_large_object_goes_in_parts_and_comes_back_whole() {
    let ((_a, ours), (_b, theirs), url) = (local(), local(), place("large"));
    let large = "0123456789abcdef".repeat((20 << 20) / 16);
    let digest = Digest::of(large.as_bytes());
    let one = record(&ours, "a", &[large]);
    push(&url, &ours, &[one]);
    assert_eq!(pull(&url, &theirs, &[one]).entered, 1);
    assert_eq!(theirs.get(&digest).unwrap().len(), 20 << 20);
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn hints_lead_to_all_results_of_a_study() {
    let ((_a, ours), url) = (local(), place("hints"));
    let records = [
        record(&ours, "a", &["x".into()]),
        record(&ours, "b", &["y".into()]),
    ];
    push(&url, &ours, &records);
    let remote = Remote::open(&url).unwrap();
    assert_eq!(remote.hinted("study").unwrap().len(), 2);
    assert!(remote.hinted("another").unwrap().is_empty());
}

#[test]
#[ignore = "needs a server without room: tests/s3/run"]
fn a_server_without_room_is_said_and_what_was_completed_stays() {
    let ((_a, ours), (_b, theirs), url) = (local(), local(), place("room"));
    let small = record(&ours, "small", &["a little".into()]);
    push(&url, &ours, &[small]);
    // Several times the server's capacity, in bytes that do not compress.
    let mut state = 7_u64;
    let mut noise = || {
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + (state % 90) as u8)
        };
        std::iter::repeat_with(next)
            .take(3 << 20)
            .collect::<String>()
    };
    let large: Vec<String> = (0..MOST_ROOM).map(|_| noise()).collect();
    let large = record(&ours, "large", &large);
    let pushed = Pushed {
        view: view(&large, &ours.get(&large).unwrap()).unwrap(),
        maker: Maker::default(),
    };
    let remote = Remote::open_or_create(&url).unwrap().with_jobs(2);
    let refused = remote.push(&ours, &[pushed], false, watch()).unwrap_err();
    assert!(refused.hint().is_some(), "{refused}");
    let key = ActionKey(Digest::of(b"large"));
    assert!(
        remote
            .completions(&[key], watch())
            .unwrap()
            .results
            .is_empty()
    );
    assert_eq!(pull(&url, &theirs, &[small]).entered, 1);
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn writers_and_collectors_at_once_lose_nothing_that_is_complete() {
    let url = place("collected");
    let (_folder, ours) = local();
    let records: Vec<Digest> = (0..24)
        .map(|n| {
            let objects = (n..n + 3).map(|m| format!("object {}", m % 12));
            record(&ours, &format!("key {n}"), &objects.collect::<Vec<_>>())
        })
        .collect();
    Remote::open_or_create(&url).unwrap();
    let options = CollectOptions {
        mode: CollectMode::Collect,
        grace: Duration::ZERO,
        lease: Duration::from_secs(3600),
        measurements: true,
        forget: Vec::new(),
        by: "collector".into(),
    };
    let collect = || {
        let remote = Remote::open(&url).unwrap();
        remote.collect(&options, view, &|_| false, watch())
    };
    std::thread::scope(|scope| {
        for part in records.chunks(8) {
            scope.spawn(|| {
                for _ in 0..4 {
                    push(&url, &ours, part);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..6 {
                    match collect() {
                        Ok(_) => {}
                        // Something that a writer is about to put again. With a real grace, this cannot be seen.
                        Err(error) => assert!(
                            error.is_damage() || error.to_string().contains("lease"),
                            "{error}"
                        ),
                    }
                }
            });
        }
    });
    // No root names anything, but every complete result must be whole.
    let remote = Remote::open(&url).unwrap();
    let keys: Vec<ActionKey> = (0..24)
        .map(|n| ActionKey(Digest::of(format!("key {n}").as_bytes())))
        .collect();
    let complete: BTreeSet<Digest> = remote
        .completions(&keys, watch())
        .unwrap()
        .results
        .into_iter()
        .flat_map(|(_, completions)| completions)
        .map(|completion| completion.record)
        .collect();
    let (_other, theirs) = local();
    let complete: Vec<Digest> = complete.into_iter().collect();
    let report = pull(&url, &theirs, &complete);
    assert!(report.broken.is_empty(), "{:?}", report.broken);
    assert_eq!(report.entered, complete.len() as u64);
    while collect().unwrap().collected != Collected::Nothing {}
    assert!(
        remote
            .completions(&keys, watch())
            .unwrap()
            .results
            .is_empty()
    );
    let all = push(&url, &ours, &records);
    assert_eq!((all.completed, all.already_complete), (24, 0));
    let (_third, again) = local();
    assert_eq!(pull(&url, &again, &records).entered, 24);
}
