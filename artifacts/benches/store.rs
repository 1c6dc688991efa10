//! The store's speed: hashing against `blake3` itself and the `b3sum` binary, commits, and the lookups of a plan of
//! 10,000 cells. Run it with `cargo bench -p artifacts`; a size in MiB may follow.
#![expect(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use artifacts::{ActionKey, Commit, Digest, FsckOptions, Store};

const CELLS: usize = 10_000;

fn main() {
    // cargo passes `--bench`; a number is the size of the large blob.
    let mebibytes = std::env::args()
        .find_map(|a| a.parse::<usize>().ok())
        .unwrap_or(512);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    hashing(folder.path(), mebibytes);
    cells(folder.path());
}

fn hashing(folder: &Path, mebibytes: usize) {
    let store = Store::open(&folder.join("large")).expect("a store can be made");
    let bytes: Vec<u8> = (0..mebibytes << 17)
        .flat_map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    let file = folder.join("blob");
    fs::write(&file, &bytes).expect("the blob can be written");
    let single = best(|| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        assert_eq!(hasher.count(), bytes.len() as u64);
    });
    let binary = Command::new("b3sum")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
        .then(|| {
            best(|| {
                let status = Command::new("b3sum")
                    .arg(&file)
                    .stdout(Stdio::null())
                    .status();
                assert!(status.is_ok_and(|s| s.success()));
            })
        });
    drop(bytes);
    let digest = store.put_file(&file).expect("the blob can be moved in");
    let ours = best(|| {
        let report = store
            .fsck(&FsckOptions::default(), |_: &Digest, _: &[u8]| None)
            .expect("fsck runs");
        assert!(report.findings.is_empty() && report.hashed == 1);
    });
    assert!(store.contains(&digest));
    let rate = |time: Duration| mebibytes as f64 / time.as_secs_f64();
    println!("hashing one object of {mebibytes} MiB, best of 5, file in the page cache");
    println!("  fsck of the store            {:8.0} MiB/s", rate(ours));
    println!(
        "  blake3 single update         {:8.0} MiB/s   ratio {:.2}",
        rate(single),
        rate(ours) / rate(single)
    );
    match binary {
        Some(time) => {
            println!(
                "  b3sum                        {:8.0} MiB/s   ratio {:.2}",
                rate(time),
                rate(ours) / rate(time)
            );
        }
        None => println!("  b3sum is not on PATH: skipped"),
    }
}

fn cells(folder: &Path) {
    let store = Store::open(&folder.join("small")).expect("a store can be made");
    let began = Instant::now();
    let commits: Vec<Commit> = (0..CELLS).map(|i| cell(&store, i)).collect();
    println!("{CELLS} cells of 2 objects: put {:?}", began.elapsed());
    let began = Instant::now();
    store.commit(&commits).expect("the commit succeeds");
    println!("  commit, synced               {:?}", began.elapsed());
    drop(store);
    let one = best(|| {
        let store = Store::open_existing(&folder.join("small")).expect("the store is there");
        let lookup = store.lookup().expect("a session opens");
        let hits = commits
            .iter()
            .filter(|c| lookup.record_for(&c.key).is_ok_and(|hit| hit.is_some()));
        assert_eq!(hits.count(), CELLS);
    });
    println!(
        "  open and look up each        {one:?} ({:?} a cell)",
        one / CELLS as u32
    );
}

fn cell(store: &Store, i: usize) -> Commit {
    let output = store.put(format!("rows of {i}").as_bytes()).expect("put");
    let record = store.put(format!("record of {i}").as_bytes()).expect("put");
    let artifact =
        format!("{{\"digest\":\"{output}\",\"media\":\"parquet\",\"bytes\":12345,\"rows\":32}}");
    let names = [
        "requests",
        "chunks",
        "prompts",
        "cell",
        "server_metrics",
        "engine_log",
    ];
    let outputs: Vec<String> = names
        .iter()
        .map(|name| format!("\"{name}\":{artifact}"))
        .collect();
    Commit {
        experiment: "bench".to_owned(),
        stage: "ladder".to_owned(),
        coordinates: format!("cell={i}"),
        key: ActionKey(Digest::of(&i.to_le_bytes())),
        record,
        objects: vec![output, record],
        status: "ok".to_owned(),
        cacheable: true,
        seconds: 1.0,
        outputs: format!("{{{}}}", outputs.join(",")),
    }
}

/// Returns the shortest of five runs.
fn best(mut work: impl FnMut()) -> Duration {
    (0..5)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .min()
        .expect("there were five runs")
}
