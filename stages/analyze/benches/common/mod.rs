//! Shared code of this crate's benches.

mod measure;

use std::path::Path;

use artifacts::Store;
use pipeline::{Control, Coordinates, Done, Input, Job, Json, Leases, StageKind};
use serde_json::json;

pub(crate) use measure::{NoLibrary, cpu_seconds, peak_mib};

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
        files: &Default::default(),
        scratch,
        control: &Control::quiet(),
        leases: &Leases::new(store.root(), "bench", "results"),
        study: None,
    };
    analyze::Analyze
        .run(&job)
        .unwrap_or_else(|failure| panic!("{}", failure.reason))
}
