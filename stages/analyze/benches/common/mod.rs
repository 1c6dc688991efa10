//! What the benches of this crate share.

use std::path::Path;

use artifacts::Store;
use pipeline::{Control, Coordinates, Done, Input, Job, Json, Leases, StageKind};
use serde_json::json;

struct NoLibrary;

impl pipeline::Library for NoLibrary {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }
    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Plans and runs an analyze stage with these tables, seed 164.
pub(crate) fn analyze(tables: &Json, inputs: &[Input], store: &Store, scratch: &Path) -> Done {
    let parameters = analyze::Analyze
        .canonical(&json!({ "tables": tables }), &NoLibrary)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let nowhere = Coordinates(Vec::new());
    let job = Job {
        experiment: "bench",
        stage: "results",
        coordinates: &nowhere,
        parameters: &parameters,
        seed: 164,
        replicate: &nowhere,
        inputs,
        store,
        scratch,
        control: &Control::quiet(),
        leases: &Leases::new(store.root(), "bench", "results"),
        study: None,
    };
    analyze::Analyze.run(&job).unwrap_or_else(|failure| panic!("{}", failure.reason))
}

/// CPU time of the process so far, user and system, in steps of 10 ms.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("/proc is there");
    // The name, in parentheses, may hold anything; the third field follows it.
    let rest = text.rsplit(')').next().expect("a stat line");
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().expect("ticks")).sum();
    ticks as f64 / 100.0
}

/// The largest resident set of the process so far, MiB.
pub(crate) fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = text.lines().find(|l| l.starts_with("VmHWM:")).expect("the peak is told");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).expect("a number") / 1024.0
}
