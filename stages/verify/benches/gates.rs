//! Times the gates over a two-engine grid of 1,800 cells and 189,000 rows, from Parquet in the store to Parquet in the
//! store.
//!
//! `cargo bench -p verify --bench gates`; a number after `--` sets the number of threads (2).

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "../../analyze/benches/common/measure.rs"]
mod measure;

use std::time::Instant;

use artifacts::Store;
use contract::synthetic_grid::Grid;
use pipeline::{Content, Control, Coordinates, Input, Job, Json, Leases, StageKind};
use serde_json::json;

use crate::measure::{NoLibrary, cpu_seconds, peak_mib};

/// Returns the gates that need nothing that the synthetic cells lack.
fn gates() -> Json {
    json!([
        {"gate": "census"},
        {"gate": "row-status"},
        {"gate": "expected-rows"},
        {"gate": "degenerate"},
        {"gate": "token-accounting"},
        {"gate": "delivered-length"},
        {"gate": "identities"},
        {"gate": "client-lag"},
        {"gate": "repeats", "axis": "rep", "at-least": 2},
        {"gate": "same-prompts", "across": "engine"},
        {"gate": "comparability", "across": "engine"},
        {"gate": "warm-up"},
        {"gate": "stationarity"},
        {"gate": "order-effects", "axis": "rep"},
        {"gate": "digests"},
    ])
}

fn main() {
    // cargo passes `--bench`.
    let threads = std::env::args()
        .find_map(|a| a.parse::<usize>().ok())
        .unwrap_or(2);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads start");
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("store")).expect("a store");
    let (load, rows) = Grid::FULL.load(&store).expect("the store takes the cells");
    let cells = load.cells.len();
    let inputs: Vec<Input> = vec![load];
    let parameters = verify::Verify
        .canonical(&json!({ "gates": gates() }), &NoLibrary)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let count = parameters["gates"].as_array().map_or(0, Vec::len);
    println!("{count} gates over {cells} cells, {rows} measured rows");
    let nowhere = Coordinates(Vec::new());
    let (mut walls, mut warnings) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let job = Job {
            experiment: "bench",
            stage: "checks",
            coordinates: &nowhere,
            parameters: &parameters,
            seed: 164,
            replicate: &nowhere,
            inputs: &inputs,
            store: &store,
            files: &Default::default(),
            scratch: folder.path(),
            control: &Control::quiet(),
            leases: &Leases::new(store.root(), "bench", "checks"),
            study: None,
        };
        let done = pool
            .install(|| verify::Verify.run(&job))
            .unwrap_or_else(|failure| panic!("{}", failure.reason));
        for output in &done.outputs {
            let Content::Bytes(bytes) = &output.content else {
                panic!("{} is a file", output.name)
            };
            store.put(bytes).expect("the store takes the table");
        }
        let wall = start.elapsed().as_secs_f64();
        walls.push(wall);
        println!(
            "  {wall:.3} s wall, {:.2} s CPU, {} outputs",
            cpu_seconds() - cpu,
            done.outputs.len()
        );
        warnings = done.warnings;
    }
    let first = warnings
        .first()
        .map_or(String::new(), |first| format!(", the first: {first}"));
    println!("{} judgements did not pass{first}", warnings.len());
    walls.sort_by(f64::total_cmp);
    println!(
        "{threads} threads: best {:.3} s, median {:.3} s, peak {:.0} MiB",
        walls[0],
        walls[walls.len() / 2],
        peak_mib()
    );
}
