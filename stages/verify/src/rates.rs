//! Measures how often gates raise false alarms over clean runs, and how often they find a real fault. Every seed is
//! fixed, so the counts are the same in each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use artifacts::{Digest, Scalar};
use contract::synthetic::{self, ClosedLoop, even_chunks, facts_table};
use contract::{CellRows, Request, Settings};
use pipeline::{Coordinates, InputCell, Json};
use serde_json::json;

use crate::finding::Outcome;
use crate::gates::ALL;
use crate::study::{Cell, Rows, Server, Stage};
use crate::tests_of_faults::{
    LATENCY_COUNT, LATENCY_SUM, descriptor, physical_roofs, server_latency,
};

/// The counts of the tests below at the time of writing, for the documentation: gate, false alarms, those of the bare
/// test, power with every cell at fault, power with one.
pub(crate) const SEEN: [[&str; 5]; 3] = [
    [
        "warm-up",
        "0",
        "8",
        "50 (first fifth 50 % slower)",
        "50 (first quarter 100 % slower)",
    ],
    [
        "stationarity",
        "0",
        "19",
        "50 (30 % slower at the end)",
        "48 (60 % slower at the end)",
    ],
    [
        "order-effects",
        "0",
        "14",
        "45 (1.5 % slower from cell to cell)",
        "-",
    ],
];

/// The number of runs for each rate.
const RUNS: u64 = 200;

/// Returns the slowdown of a request from its cell, the cell's place in the execution order, and the request's place in
/// the cell (0 to 1).
type Factor = fn(usize, u64, f64) -> f64;

/// A study of two configurations at 1 and 4 clients with four repetitions each, in memory.
struct Run {
    inputs: Vec<InputCell>,
    rows: Vec<Vec<Request>>,
    /// Each cell's place in the execution order.
    order: Vec<u64>,
}

impl Run {
    fn clean(seed: u64) -> Self {
        Self::with(seed, 0.05)
    }

    fn with(seed: u64, mood: f64) -> Self {
        let (mut inputs, mut rows) = (Vec::new(), Vec::new());
        for (configuration, tpot_ms, slots) in [("batched", 5.0, 8), ("serial", 4.0, 1)] {
            for clients in [1_u32, 4] {
                for rep in 0..4_u64 {
                    let seed = seed * 1_000 + inputs.len() as u64;
                    let load = ClosedLoop {
                        seed,
                        clients,
                        slots,
                        tpot_ms,
                        mood,
                        requests: 40,
                        ..ClosedLoop::default()
                    };
                    let mut requests = load.requests();
                    for request in &mut requests {
                        // Every repetition has its own prompts.
                        let id = request.request_id;
                        request.prompt_digest = Some(format!("b3:{rep}/{id}"));
                    }
                    rows.push(requests);
                    let at = [
                        ("configuration", Scalar::Text(configuration.to_owned())),
                        ("concurrency", Scalar::Int(i64::from(clients))),
                        ("rep", Scalar::Int(rep as i64)),
                    ];
                    let parameters = json!({"workload": {"prompts": "words"}});
                    inputs.push(synthetic::bare(&at, parameters));
                }
            }
        }
        // An order that mixes configurations and repetitions, different for each seed.
        let mut order: Vec<u64> = (0..inputs.len() as u64).collect();
        order.sort_by_key(|i| Digest::of(format!("{seed} {i}").as_bytes()).hex());
        Self {
            inputs,
            rows,
            order,
        }
    }

    /// Slows requests by a factor of cell, execution order, and place in the cell (0 to 1).
    fn slower(mut self, factor: impl Fn(usize, u64, f64) -> f64) -> Self {
        for (cell, rows) in self.rows.iter_mut().enumerate() {
            let n = rows.len() as f64;
            let mut shift = 0;
            for (i, r) in rows.iter_mut().enumerate() {
                let factor = factor(cell, self.order[cell], i as f64 / n);
                let sent = r.sent_ns.unwrap();
                let stretched =
                    |t: Option<i64>| t.map(|t| shift + sent + ((t - sent) as f64 * factor) as i64);
                (r.headers_ns, r.first_token_ns) =
                    (stretched(r.headers_ns), stretched(r.first_token_ns));
                (r.last_token_ns, r.done_ns) = (stretched(r.last_token_ns), stretched(r.done_ns));
                r.sent_ns = Some(sent + shift);
                r.scheduled_ns = r.scheduled_ns.map(|t| t + shift);
                // With one client, later requests move by exactly this much; the rows of several clients only spread.
                shift +=
                    ((factor - 1.0) * (r.done_ns.unwrap() - shift - sent) as f64 / factor) as i64;
            }
        }
        self
    }

    /// Passes the runs to gates as bare rows.
    fn judged<T>(&self, look: impl FnOnce(&Stage<'_>) -> T) -> T {
        self.shown(|_, _| (), look)
    }

    /// Passes the runs to gates in the form of a measured study: with chunks, and with a server that reports its
    /// identity, its cache hits and its token counter.
    fn judged_whole<T>(&self, look: impl FnOnce(&Stage<'_>) -> T) -> T {
        let servers = [8, 1].map(|slots| {
            Arc::new(Server {
                cache_off: None,
                stage: "server".to_owned(),
                coordinates: Coordinates::default(),
                descriptor: descriptor(slots),
            })
        });
        let whole = |i: usize, cell: &mut Cell<'_>| {
            let half = self.inputs.len() / 2;
            cell.server = Some(servers[i / half].clone());
            let Rows::Held(rows) = &mut cell.rows else {
                return;
            };
            let rows = Arc::make_mut(rows);
            rows.requests
                .iter_mut()
                .for_each(|r| r.cached_prompt_tokens = Some(0));
            rows.chunks = rows.requests.iter().flat_map(even_chunks).collect();
            let tokens: i64 = rows.requests.iter().filter_map(|r| r.output_tokens).sum();
            let sent = rows.requests.iter().filter_map(|r| r.sent_ns).min();
            let done = rows.requests.iter().filter_map(|r| r.done_ns).max();
            let (from, to) = (sent.unwrap_or(0), done.unwrap_or(0));
            let name = "llamacpp:tokens_predicted_total";
            let (count, sum) = server_latency(&rows.requests);
            rows.server_metrics = Some(synthetic::server_samples(&[
                (from, name, 500.0),
                (to, name, 500.0 + tokens as f64),
                (from, LATENCY_COUNT, 0.0),
                (to, LATENCY_COUNT, count),
                (from, LATENCY_SUM, 0.0),
                (to, LATENCY_SUM, sum),
            ]));
        };
        self.shown(whole, look)
    }

    fn shown<T>(
        &self,
        dress: impl Fn(usize, &mut Cell<'_>),
        look: impl FnOnce(&Stage<'_>) -> T,
    ) -> T {
        let cells = self.inputs.iter().zip(&self.rows).zip(&self.order).map(
            |((input, requests), order)| {
                let started = 1_700_000_000_000_000_000 + *order as i64 * 600_000_000_000;
                let rows = CellRows {
                    cell: artifacts::TableRow::of(
                        &facts_table(requests.len() as i64, 0, started).unwrap(),
                        0,
                    )
                    .unwrap(),
                    ..synthetic::rows_of(requests.clone())
                };
                Cell {
                    input,
                    rows: Rows::Held(Arc::new(rows)),
                    server: None,
                    store: None,
                }
            },
        );
        let axes = ["configuration", "concurrency", "rep"]
            .map(str::to_owned)
            .to_vec();
        let mut cells: Vec<Cell<'_>> = cells.collect();
        cells
            .iter_mut()
            .enumerate()
            .for_each(|(i, cell)| dress(i, cell));
        look(&Stage {
            name: "ladder",
            axes,
            cells,
            failure: Default::default(),
            instrument: None,
        })
    }

    /// Returns whether a gate raises an alarm over any cell or over the stage.
    fn alarms(&self, gate: &str, parameters: &Json) -> bool {
        self.judged(|stage| alarm(stage, gate, parameters))
    }
}

/// Returns whether a gate raises an alarm over any cell of a stage or over the whole stage.
fn alarm(stage: &Stage<'_>, gate: &str, parameters: &Json) -> bool {
    verdicts(stage, gate, parameters).contains(&Outcome::Fail)
}

/// Returns the outcomes of a gate for each cell and for the whole.
fn verdicts(stage: &Stage<'_>, gate: &str, parameters: &Json) -> Vec<Outcome> {
    let gate = ALL.iter().find(|g| g.name() == gate).unwrap();
    let values = parameters.as_object().unwrap().clone();
    let planned = gate
        .plan(&Settings {
            values,
            route: &[],
            what: "a gate".to_owned(),
        })
        .unwrap();
    gate.judge(&planned, stage)
        .unwrap()
        .iter()
        .map(|j| j.outcome)
        .collect()
}

fn alarms(gate: &str, parameters: &Json, runs: u64, make: impl Fn(u64) -> Run) -> u64 {
    (0..runs)
        .filter(|seed| make(*seed).alarms(gate, parameters))
        .count() as u64
}

const TESTS: [&str; 3] = ["warm-up", "stationarity", "order-effects"];

#[test]
fn clean_runs_raise_false_alarms_at_most_at_the_stated_rate() {
    for gate in TESTS {
        let alarmed = alarms(gate, &json!({}), RUNS, Run::clean);
        assert!(
            alarmed as f64 <= 0.01 * RUNS as f64,
            "{gate}: {alarmed} of {RUNS}"
        );
    }
}

#[test]
fn the_bare_tests_keep_their_level_without_the_help_of_the_least_effect() {
    for gate in TESTS {
        let alarmed = alarms(
            gate,
            &json!({"alpha": 0.05, "effect": 0.0}),
            RUNS,
            Run::clean,
        );
        // 10 expected; three standard deviations of a binomial count are 9.2.
        assert!(alarmed <= 19, "{gate}: {alarmed} of {RUNS}");
    }
}

#[test]
fn gates_that_are_no_tests_pass_all_clean_runs() {
    let mut roofs = physical_roofs();
    roofs.as_object_mut().unwrap().shift_remove("gate");
    let gates = [
        ("census", json!({})),
        ("row-status", json!({})),
        ("expected-rows", json!({})),
        ("degenerate", json!({})),
        ("token-accounting", json!({})),
        ("delivered-length", json!({})),
        ("one-piece", json!({})),
        ("token-bias", json!({"across": "configuration"})),
        ("stalls", json!({})),
        ("duplicates", json!({})),
        ("plausible-ttft", json!({})),
        ("possible-scaling", json!({})),
        ("context-ceiling", json!({})),
        ("client-lag", json!({})),
        ("in-flight", json!({})),
        ("server-latency", json!({})),
        ("clock", json!({})),
        ("identities", json!({})),
        ("engine-identity", json!({})),
        ("cold-cache", json!({})),
        ("same-prompts", json!({"across": "configuration"})),
        (
            "comparability",
            json!({"across": "configuration", "varies": ["settings.parallel"]}),
        ),
        ("repeats", json!({})),
        ("physical-roofs", roofs),
    ];
    // The client's own verdict, tampered bytes and the server's log have their own tests.
    let apart = [
        "client-health",
        "calibrated-range",
        "digests",
        "sql",
        "server-errors",
    ];
    // The operating characteristics count these gates.
    let apart = apart.into_iter().chain([
        "one-mode",
        "outlying-repeats",
        "outlying-launches",
        "balanced-conditions",
        "throttling",
    ]);
    let named: Vec<&str> = gates
        .iter()
        .map(|(gate, _)| *gate)
        .chain(TESTS)
        .chain(apart)
        .collect();
    assert!(ALL.iter().all(|gate| named.contains(&gate.name())));
    for seed in 0..RUNS / 4 {
        Run::clean(seed).judged_whole(|stage| {
            for (gate, parameters) in &gates {
                let outcomes = verdicts(stage, gate, parameters);
                // A gate that judges nothing would also never raise an alarm.
                assert!(
                    outcomes.iter().all(|outcome| *outcome == Outcome::Pass),
                    "{gate}, run {seed}: {outcomes:?}"
                );
            }
        });
    }
}

#[test]
fn a_cold_start_a_drift_and_an_effect_of_order_are_seen_in_four_of_five_runs() {
    // The first fifth of every cell is 50 % slower; every cell is 30 % slower at its end; every cell is 1.5 % slower
    // than the one before it.
    let faults: [(&str, Factor); 3] = [
        ("warm-up", |_, _, at| if at < 0.2 { 1.5 } else { 1.0 }),
        ("stationarity", |_, _, at| 1.0 + 0.3 * at),
        ("order-effects", |_, order, _| 1.0 + 0.015 * order as f64),
    ];
    for (gate, factor) in faults {
        let alarmed = alarms(gate, &json!({}), 50, |seed| Run::clean(seed).slower(factor));
        assert!(alarmed >= 40, "{gate}: {alarmed} of 50");
    }
}

#[test]
fn one_cell_of_sixteen_with_a_cold_start_or_a_drift_is_seen_and_named() {
    let faults: [(&str, Factor); 2] = [
        (
            "warm-up",
            |cell, _, at| if cell == 2 && at < 0.25 { 2.0 } else { 1.0 },
        ),
        (
            "stationarity",
            |cell, _, at| if cell == 2 { 1.0 + 0.6 * at } else { 1.0 },
        ),
    ];
    for (gate, factor) in faults {
        let alarmed = alarms(gate, &json!({}), 50, |seed| Run::clean(seed).slower(factor));
        assert!(alarmed >= 45, "{gate}: {alarmed} of 50");
    }
}

#[test]
fn cells_with_too_few_rows_are_not_judged_and_do_not_pass() {
    let mut run = Run::clean(1);
    run.rows.iter_mut().for_each(|rows| rows.truncate(6));
    for gate in ["warm-up", "stationarity"] {
        let gate = ALL.iter().find(|g| g.name() == gate).unwrap();
        let planned = gate
            .plan(&Settings {
                values: Default::default(),
                route: &[],
                what: "a gate".to_owned(),
            })
            .unwrap();
        let judgements = run.judged(|stage| gate.judge(&planned, stage).unwrap());
        let cells: Vec<_> = judgements.iter().filter(|j| j.cell.is_some()).collect();
        assert_eq!(cells.len(), 16);
        assert!(
            cells.iter().all(|j| j.outcome == Outcome::NotJudged),
            "{cells:?}"
        );
    }
}

#[test]
fn the_bare_tests_keep_their_level_over_four_hundred_runs() {
    for mood in [0.0, 0.05] {
        let mut alarmed = BTreeMap::new();
        // Each run is generated and read once, for every gate and level.
        for run in (0..400).map(|seed| Run::with(seed, mood)) {
            run.judged(|stage| {
                for gate in TESTS {
                    for (alpha, most) in [("0.05", 33), ("0.01", 9)] {
                        let parameters =
                            json!({"alpha": alpha.parse::<f64>().unwrap(), "effect": 0.0});
                        *alarmed.entry((gate, alpha, most)).or_insert(0) +=
                            u64::from(alarm(stage, gate, &parameters));
                    }
                }
            });
        }
        for ((gate, alpha, most), alarmed) in alarmed {
            // Three standard deviations of a binomial count above the expectation.
            assert!(
                alarmed <= most,
                "{gate}, alpha {alpha}, mood {mood}: {alarmed} of 400"
            );
        }
    }
}
