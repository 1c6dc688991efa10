//! The cost of a fully cached run: parsing and expanding the YAML, computing and comparing every key, reading and
//! comparing the lock. Targets: 1,000 cells ≤ 20 ms, 10,000 cells ≤ 150 ms CPU and ≤ 60 MiB.
//!
//! Each size is measured in a separate process, so that the peak memory is that of the run.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use artifacts::Store;
use pipeline::{Experiment, NoFiles, Options, Registry, RunOptions, load_text};

use crate::common::registry;

/// The experiment as text: a ladder of 2 × 2 × 5 × `reps` cells, checks, results, a report.
fn study(folder: &Path, registry: &Registry, reps: i64) -> Experiment {
    let text = format!(
        "experiment: noop
seed: 164
axes:
  configuration: [batched, serial]
  workload: [short-decode, shared-prefix]
  clients: [1, 2, 4, 8, 16]
  rep: {{from: 1, to: {reps}}}
stages:
  server: {{kind: fold, over: [configuration], settings: {{slots: \"${{configuration}}\"}}}}
  ladder:
    kind: fold
    needs: [server]
    over: [configuration, workload, clients, rep]
    workload: ${{workload}}
    arrival: {{closed-loop: {{clients: \"${{clients}}\"}}}}
    tokens: [64, 128]
    sample: ${{rep}}
  checks: {{kind: fold, needs: [ladder], over: [configuration, workload]}}
  results: {{kind: fold, needs: [ladder, checks]}}
  report: {{kind: tell, needs: [ladder, results]}}
"
    );
    load_text(
        &text,
        &folder.join("study.yaml"),
        registry,
        &Options::default(),
        &NoFiles,
    )
    .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Reads the experiment, runs it, and returns the number of cells, the number executed, and the total CPU time.
fn run(folder: &Path, reps: i64) -> (usize, usize, Duration) {
    let registry = registry(&Arc::default());
    let before = cpu();
    let study = study(folder, &registry, reps);
    let store = Store::open(&folder.join("store")).expect("a store");
    let summary = pipeline::run(&study, &registry, &store, &RunOptions::default(), &|_| ());
    (
        study.cell_count(),
        summary.expect("the run goes through").executed,
        cpu() - before,
    )
}

/// Returns the CPU time of this thread, user and system together.
fn cpu() -> Duration {
    // Fields 14 and 15 of the stat line, in ticks of 10 ms, are too coarse; the scheduler counts in nanoseconds.
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("/proc is there");
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a count");
    Duration::from_nanos(nanoseconds)
}

fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = text
        .lines()
        .find(|l| l.starts_with("VmHWM:"))
        .expect("/proc/self/status has VmHWM");
    let kib: f64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    kib / 1024.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, folder, reps] = arguments.as_slice()
        && role == "again"
    {
        let (cells, executed, time) = run(Path::new(folder), reps.parse().expect("a number"));
        assert_eq!(executed, 0);
        let milliseconds = time.as_secs_f64() * 1e3;
        println!(
            "no-op run of {cells} cells: {milliseconds:.1} ms CPU of this thread, peak {:.1} MiB",
            peak_mib()
        );
        return;
    }
    for reps in [50, 500] {
        let folder = tempfile::tempdir().expect("a folder");
        let (cells, executed, time) = run(folder.path(), reps);
        let milliseconds = time.as_secs_f64() * 1e3;
        println!(
            "first run executed {executed} of {cells} cells: {milliseconds:.1} ms CPU of this thread"
        );
        for _ in 0..3 {
            let exe = std::env::current_exe().expect("our own path");
            let mut again = std::process::Command::new(exe);
            let status = again
                .args(["again", &folder.path().to_string_lossy(), &reps.to_string()])
                .status();
            assert!(status.expect("spawned").success());
        }
    }
}
