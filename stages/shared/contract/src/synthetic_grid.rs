//! A fully synthetic two-engine study in the shape of a published comparison, with up to 1,800
//! cells.

use artifacts::{Column, Scalar, Store, StoreError, Table};
use pipeline::{Input, Json};

use crate::requests::{Chunk, Request};
use crate::synthetic::{self, ClosedLoop};

/// The workloads: name, median time to the first token in ms, output tokens.
const WORKLOADS: [(&str, f64, i64); 5] = [
    ("short-decode", 12.0, 16),
    ("balanced", 20.0, 32),
    ("long-prefill", 80.0, 8),
    ("long-decode", 12.0, 64),
    ("repeated-prefix", 30.0, 16),
];

/// Tokens in every chunk but the last.
const TOKENS_PER_CHUNK: i64 = 8;

/// The coordinates of a cell.
type At = Vec<(&'static str, Scalar)>;

/// A grid of load cells: two engines × models × five workloads × 1, 2, 4, … clients × two phases ×
/// repetitions. The engine `beta` takes 0.97 of the time of `alpha` per token. On the workload
/// `balanced`, both are alike.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// The number of models.
    pub models: u32,
    /// The number of rungs of the client ladder. Each rung has twice the clients of the one below.
    pub rungs: u32,
    /// The number of repetitions of each cell.
    pub reps: u32,
    /// The number of measured requests of each client.
    pub requests_per_client: u32,
}

impl Grid {
    /// 1,800 cells, 189,000 rows.
    pub const FULL: Self = Self {
        models: 5,
        rungs: 6,
        reps: 3,
        requests_per_client: 10,
    };

    /// Stores the cells and returns them as the input `grid` of kind `load`, with the number of
    /// their measured rows. The axes are `engine`, `model`, `workload`, `clients`, `phase` and
    /// `rep`.
    ///
    /// # Errors
    /// If the store refuses.
    ///
    /// # Panics
    /// If a table cannot be written. Tables built here always can.
    pub fn load(&self, store: &Store) -> Result<(Input, usize), StoreError> {
        let (mut cells, mut rows) = (Vec::new(), 0);
        for (at, requests) in self.cells() {
            rows += requests.len();
            let chunks: Vec<Chunk> = requests.iter().flat_map(chunks).collect();
            let expected = i64::try_from(requests.len()).unwrap_or(i64::MAX);
            let facts = synthetic::facts_table(expected, 0, cells.len() as i64 * 60_000_000_000);
            let whole = "a table built here is whole";
            let tables = [
                (
                    "requests",
                    synthetic::requests_table(&requests).expect(whole),
                ),
                ("chunks", synthetic::chunks_table(&chunks).expect(whole)),
                ("cell", facts.expect(whole)),
            ];
            cells.push(synthetic::cell(store, &at, Json::Null, &tables)?);
        }
        Ok((synthetic::input("grid", "load", cells), rows))
    }

    fn cells(&self) -> Vec<(At, Vec<Request>)> {
        let mut cells = Vec::new();
        for engine in ["alpha", "beta"] {
            for model in 0..self.models {
                for (workload, ttft_ms, output_tokens) in WORKLOADS {
                    for rung in 0..self.rungs {
                        for phase in ["scaling", "paced"] {
                            for rep in 1..=self.reps {
                                let clients = 1_u32 << rung;
                                let edge = engine == "beta" && workload != "balanced";
                                // The more requests share a step, the longer it takes.
                                let crowd = 1.0 + 0.02 * f64::from(clients - 1);
                                let cell = ClosedLoop {
                                    seed: cells.len() as u64,
                                    clients,
                                    requests: clients * self.requests_per_client,
                                    ttft_ms: ttft_ms * (1.0 + 0.2 * f64::from(model)),
                                    tpot_ms: 10.0 * crowd * if edge { 0.97 } else { 1.0 },
                                    output_tokens,
                                    ..ClosedLoop::default()
                                };
                                let at = vec![
                                    ("engine", Scalar::Text(engine.to_owned())),
                                    ("model", Scalar::Text(format!("model-{model}"))),
                                    ("workload", Scalar::Text(workload.to_owned())),
                                    ("clients", Scalar::Int(i64::from(clients))),
                                    ("phase", Scalar::Text(phase.to_owned())),
                                    ("rep", Scalar::Int(i64::from(rep))),
                                ];
                                cells.push((at, cell.requests()));
                            }
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Returns chunks of eight tokens, evenly spaced from the first token to the last.
fn chunks(request: &Request) -> Vec<Chunk> {
    let (Some(first), Some(last), Some(tokens)) = (
        request.first_token_ns,
        request.last_token_ns,
        request.output_tokens,
    ) else {
        return Vec::new();
    };
    let n = (tokens + TOKENS_PER_CHUNK - 1) / TOKENS_PER_CHUNK;
    let chunk = |i: i64| Chunk {
        request_id: request.request_id,
        attempt: request.attempt,
        at_ns: first + (last - first) * i / (n - 1).max(1),
        bytes: Some(4 * TOKENS_PER_CHUNK),
        tokens: Some(TOKENS_PER_CHUNK.min(tokens - i * TOKENS_PER_CHUNK)),
        read: Some(i),
    };
    (0..n).map(chunk).collect()
}

/// Stores the tables of a verification of the load stage `stage` in which every cell passed.
/// Returns it as the input `checks`.
///
/// # Errors
/// If the store refuses.
///
/// # Panics
/// If a table cannot be written. Tables built here always can.
pub fn verification(store: &Store, stage: &str) -> Result<Input, StoreError> {
    let none = |name: &str| Column::text(name, std::iter::empty::<Option<String>>());
    let exclusions = Table::new(["stage", "cell", "gate", "reason"].map(none).to_vec());
    let census = Table::new(vec![Column::text("stage", [Some(stage)])]);
    let whole = "a table built here is whole";
    let tables = [
        ("census", census.expect(whole)),
        ("exclusions", exclusions.expect(whole)),
    ];
    let cell = synthetic::cell(store, &[], Json::Null, &tables)?;
    Ok(synthetic::input("checks", "verify", vec![cell]))
}
