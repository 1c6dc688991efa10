//! The next run completes a run killed at any instant, and nothing that finished runs again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use artifacts::{Digest, Store};
use pipeline::lease::leases_folder;
use pipeline::lock::{Lock, lock_path};
use pipeline::process::Spawner;
use pipeline::{Experiment, RunOptions};

use crate::common::{World, experiment, registry, study_axes, study_stages};

pub(crate) const TESTS: &[crate::Test] = &[(
    "a_run_killed_at_random_points_is_completed_by_the_next_to_the_same_result",
    killed_and_resumed,
)];

/// The number of runs that are killed.
const KILLS: u32 = 50;

/// The stages whose cells are alive while others run.
const RESOURCES: [&str; 2] = ["machine", "server"];

fn study(folder: &Path) -> Experiment {
    experiment(&folder.join("study.yaml"), &study_axes(), &study_stages())
}

/// Plays a run, with a real process behind each server.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) {
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    let world = Arc::new(World::default());
    world.quiet.store(true, Ordering::Relaxed);
    let exe = std::env::current_exe().expect("our own path");
    *world.spawner.lock().unwrap() = Some(Spawner::new(exe).expect("a thread"));
    let store = Store::open(&folder.join("store")).expect("a store");
    let summary = pipeline::run(
        &study(&folder),
        &registry(&world),
        &store,
        &RunOptions::default(),
        &|_| (),
    )
    .expect("the run goes through");
    assert!(summary.is_complete());
}

fn start(folder: &Path) -> std::process::Child {
    let exe = std::env::current_exe().expect("our own path");
    Command::new(exe)
        .arg("run")
        .arg(folder)
        .spawn()
        .expect("spawned")
}

/// Returns the digests of the output summaries of every stage that does not contain the trail.
fn results(folder: &Path) -> BTreeMap<String, Vec<Option<Digest>>> {
    let lock = Lock::read(&lock_path(&study(folder))).unwrap().unwrap();
    let stages = lock.stages.into_iter().filter(|s| s.name != "report");
    stages
        .map(|s| (s.name, s.cells.into_iter().map(|c| c.outputs).collect()))
        .collect()
}

fn check(folder: &Path, expected: &BTreeMap<String, Vec<Option<Digest>>>) {
    assert_eq!(results(folder), *expected);
    let store = Store::open(&folder.join("store")).unwrap();
    // Resources start again for the remaining work, and each start has a record with its log.
    let finished = expected
        .keys()
        .filter(|stage| !RESOURCES.contains(&stage.as_str()));
    for stage in finished {
        let lines = store.history("study", stage, None, 1000).unwrap();
        let cells: BTreeSet<&str> = lines.iter().map(|l| l.coordinates.as_str()).collect();
        assert_eq!(
            cells.len(),
            lines.len(),
            "a cell of `{stage}` that had finished ran again"
        );
    }
    assert_eq!(
        std::fs::read_dir(leases_folder(store.root()))
            .unwrap()
            .count(),
        0,
        "no lease is left"
    );
    assert_eq!(
        std::fs::read_dir(store.root().join("scratch"))
            .unwrap()
            .count(),
        0,
        "no scratch is left"
    );
}

fn killed_and_resumed() {
    let whole = tempfile::tempdir().unwrap();
    assert!(start(whole.path()).wait().unwrap().success());
    let expected = results(whole.path());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kills = 0;
    while kills < KILLS {
        let folder = tempfile::tempdir().unwrap();
        loop {
            let mut child = start(folder.path());
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
            // Even a run that was about to end leaves a state that the next run accepts.
            child.kill().unwrap();
            if child.wait().unwrap().success() {
                break;
            }
            kills += 1;
            if kills.is_multiple_of(10) {
                assert!(start(folder.path()).wait().unwrap().success());
                break;
            }
        }
        check(folder.path(), &expected);
    }
}
