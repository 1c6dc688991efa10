//! A synthetic ladder with planted truths, from rows to every table; planning mistakes; bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::{Request, Row as _, synthetic};
use pipeline::sources::{NamedFiles, pin};
use pipeline::{
    CellStatus, Content, Control, Done, Failure, Input, InputCell, Json, Problem, Step,
};
use serde_json::json;

use crate::kind::{Analyze, run};
use crate::operators::published::Files;

struct NoLibrary;

impl pipeline::Library for NoLibrary {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }
    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn axes(&self) -> Vec<String> {
        vec!["configuration".to_owned()]
    }
    fn labels(&self, axis: &str) -> Option<Vec<(Scalar, Json)>> {
        let slots = |name: &str, slots: i64| (Scalar::Text(name.into()), json!({ "slots": slots }));
        (axis == "configuration").then(|| vec![slots("batched", 8), slots("serial", 1)])
    }
    fn path(&self, file: &str) -> std::path::PathBuf {
        let oracles = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracles");
        oracles.join(file)
    }
}

pub(crate) fn canonical(tables: &Json) -> Result<Json, Vec<Problem>> {
    canonical_with(tables, &NoLibrary)
}

pub(crate) fn canonical_with(
    tables: &Json,
    library: &dyn pipeline::Library,
) -> Result<Json, Vec<Problem>> {
    pipeline::StageKind::canonical(&Analyze, &json!({ "tables": tables }), library)
}

/// A warm-up and four measured requests of 10 output tokens, all sent at 0; the window is
/// `window_ms`, request `i` (1..=4) ends at `window · i / 4`, its first token after 1 ms.
fn requests(window_ms: i64) -> Vec<Request> {
    (0..5_i64)
        .map(|id| {
            let mut request = synthetic::request(id);
            if id == 0 {
                request.phase = contract::Phase::Warmup;
            }
            let end = window_ms * 1_000_000 * id.max(1) / 4;
            request.first_token_ns = Some(1_000_000);
            request.last_token_ns = Some(end);
            request.done_ns = Some(end);
            request.output_tokens = Some(10);
            request.send_lag_ns = Some(id * 1_000_000);
            request
        })
        .collect()
}

fn at(configuration: &str, concurrency: i64, rep: i64) -> Vec<(&'static str, Scalar)> {
    vec![
        ("configuration", Scalar::Text(configuration.into())),
        ("concurrency", Scalar::Int(concurrency)),
        ("rep", Scalar::Int(rep)),
    ]
}

pub(crate) fn cell(store: &Store, at: &[(&str, Scalar)], rows: &[Request]) -> InputCell {
    let chunks: Vec<_> = rows.iter().flat_map(synthetic::even_chunks).collect();
    let tables = [
        ("requests", synthetic::requests_table(rows).unwrap()),
        ("chunks", synthetic::chunks_table(&chunks).unwrap()),
        ("gpu_telemetry", gpu_telemetry()),
        ("host_telemetry", host_telemetry()),
        ("process_telemetry", process_telemetry()),
    ];
    synthetic::cell(store, at, Json::Null, &tables).unwrap()
}

/// A sample a second from 0 s to 5 s: GPU 0 draws 100 W and 10 W more each second, GPU 1 50 W.
fn gpu_telemetry() -> Table {
    let rows: Vec<(i64, i64)> = (0..=5).flat_map(|s| [(s, 0), (s, 1)]).collect();
    let power = |(s, gpu): &(i64, i64)| {
        Some(if *gpu == 0 {
            100.0 + 10.0 * *s as f64
        } else {
            50.0
        })
    };
    let share = |_: &(i64, i64)| Some(0.5);
    let columns = vec![
        Column::int("at_ns", rows.iter().map(|(s, _)| Some(s * 1_000_000_000))),
        Column::int("gpu", rows.iter().map(|(_, gpu)| Some(*gpu))),
        Column::float("power_w", rows.iter().map(power)),
        Column::float("sm_utilisation", rows.iter().map(share)),
        Column::float("memory_utilisation", rows.iter().map(share)),
        Column::float("sm_clock_mhz", rows.iter().map(share)),
        Column::float("temperature_c", rows.iter().map(|_| None)),
        Column::int("memory_used_bytes", rows.iter().map(|_| Some(7))),
    ];
    Table::with_metadata(columns, &[("interval_ms", "1000")]).unwrap()
}

fn host_telemetry() -> Table {
    let float = |name: &str, of: fn(i64) -> Option<f64>| Column::float(name, (0..=5).map(of));
    let columns = vec![
        Column::int("at_ns", (0..=5).map(|s| Some(s * 1_000_000_000))),
        float("cpu_busy", |s| (s > 0).then_some(0.1 * s as f64)),
        float("cpu_steal", |_| Some(0.0)),
        float("load_1", |_| Some(1.0)),
        Column::int("memory_used_bytes", (0..=5).map(|s| Some(100 + s))),
        Column::int("loopback_bytes", (0..=5).map(|s| Some(1000 * s))),
        float("frequency_mhz", |_| None),
        float("temperature_c", |_| None),
    ];
    Table::new(columns).unwrap()
}

/// Two processes of the server and ourselves.
fn process_telemetry() -> Table {
    let rows: Vec<(i64, &str, f64)> = (0..=5)
        .flat_map(|s| [(s, "server", 1.0), (s, "server", 0.5), (s, "client", 0.25)])
        .collect();
    let columns = vec![
        Column::int(
            "at_ns",
            rows.iter().map(|(s, _, _)| Some(s * 1_000_000_000)),
        ),
        Column::text("role", rows.iter().map(|(_, role, _)| Some(*role))),
        Column::float("cpu", rows.iter().map(|(_, _, cpu)| Some(*cpu))),
        Column::int("memory_bytes", rows.iter().map(|_| Some(10))),
    ];
    Table::new(columns).unwrap()
}

/// The window in ms: `serial` gains nothing from clients; `batched` has efficiency 1, 0.8, 0.6
/// at 1, 2, 4 clients. 40 tokens in each window.
fn window(configuration: &str, concurrency: i64, rep: i64) -> i64 {
    let base = 4_000 + 40 * rep;
    match (configuration, concurrency) {
        ("serial", _) | (_, 1) => base,
        (_, 2) => base * 10 / 16,
        _ => base * 10 / 24,
    }
}

fn ladder(store: &Store) -> Vec<InputCell> {
    let mut cells = Vec::new();
    for configuration in ["serial", "batched"] {
        for concurrency in [4, 1, 2] {
            for rep in 1..=3 {
                let rows = requests(window(configuration, concurrency, rep));
                cells.push(cell(store, &at(configuration, concurrency, rep), &rows));
            }
        }
    }
    cells
}

/// A verification that covers `ladder` and bars the given cells.
pub(crate) fn verification(store: &Store, barred: &[(&str, &str)]) -> Input {
    let text = |name: &str, of: &dyn Fn(&(&str, &str)) -> String| {
        Column::text(name, barred.iter().map(|b| Some(of(b))))
    };
    let exclusions = Table::new(vec![
        text("stage", &|_| "ladder".into()),
        text("cell", &|b| b.0.into()),
        text("gate", &|_| "row-status".into()),
        text("reason", &|b| b.1.into()),
    ]);
    let census = Table::new(vec![Column::text("stage", [Some("ladder")])]);
    let tables = [
        ("exclusions", exclusions.unwrap()),
        ("census", census.unwrap()),
    ];
    synthetic::input(
        "checks",
        "verify",
        vec![synthetic::cell(store, &[], Json::Null, &tables).unwrap()],
    )
}

pub(crate) fn inputs(store: &Store) -> Vec<Input> {
    vec![
        synthetic::input("ladder", "load", ladder(store)),
        verification(store, &[]),
    ]
}

fn tables_of(settings: &Json) -> Json {
    canonical(settings).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

pub(crate) fn everything() -> Json {
    let mut all = json!({
        "requests": {"operator": "requests"},
        "cells": {"operator": "cell-summary", "quantiles": "all"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "unit": ["rep"],
                  "columns": ["output_throughput", "e2e_latency_ms_p95"]},
        "efficiency": {"operator": "parallel-efficiency", "from": "cells", "ladder": "concurrency",
                       "over": ["rep"], "unit": ["rep"]},
        "launches": {"operator": "parallel-efficiency", "from": "cells", "ladder": "concurrency"},
        "multipliers": {"operator": "latency-multipliers", "from": "cells", "ladder": "concurrency",
                        "columns": ["e2e_latency_ms_p95"], "over": ["rep"], "unit": ["rep"]},
        "breakdown": {"operator": "breakdown", "rule": "efficiency-below-0.65", "ladder": "concurrency",
                      "any": [{"table": "launches", "column": "parallel_efficiency", "below": 0.65}],
                      "unit": ["rep"]},
        "deltas": {"operator": "paired-deltas", "from": "cells", "unit": ["rep"],
                   "pair": {"axis": "configuration", "a": "batched", "b": "serial"},
                   "columns": ["output_throughput"]},
        "comparison": {"operator": "paired-comparison", "from": "cells", "unit": ["rep"],
                       "pair": {"axis": "configuration", "a": "batched", "b": "serial"},
                       "columns": ["output_throughput", "ttft_ms_p50"]},
        "wins": {"operator": "wins", "from": "means", "among": "configuration",
                 "column": "output_throughput_mean", "better": "higher", "tie-within": 0.03},
        "crossing": {"operator": "crossover", "from": "cells", "ladder": "concurrency", "unit": ["rep"],
                     "pair": {"axis": "configuration", "a": "batched", "b": "serial"},
                     "column": "output_throughput", "better": "higher"},
        "slo": {"operator": "goodput", "objectives": [
            {"name": "quick", "all": [{"metric": "ttft_ms", "at-most": 1}, {"metric": "e2e_latency_ms", "at-most": 2000}]},
        ]},
        "joules": {"operator": "energy", "gpus": [0]},
        "beside": {"operator": "telemetry-summary"},
        "law": {"operator": "fit", "from": "cells", "ladder": "concurrency", "unit": ["rep"],
                "column": "output_throughput", "model": "amdahl"},
        "slowest": {"operator": "sql", "keys": ["configuration", "concurrency"],
                    "query": "select configuration, concurrency, max(e2e_latency_ms) as e2e_latency_ms_worst, \
                              quantile(ttft_ms, 0.9) as ttft_ms_p90 from requests group by configuration, concurrency",
                    "units": {"e2e_latency_ms_worst": "ms", "ttft_ms_p90": "ms"},
                    "descriptions": {"e2e_latency_ms_worst": "longest request of all repetitions",
                                     "ttft_ms_p90": "90th percentile over the requests of all repetitions"}},
    });
    all.as_object_mut().unwrap().extend(crate::examples::more());
    all
}

pub(crate) fn analyze(store: &Store, inputs: &[Input], settings: &Json) -> Result<Done, Failure> {
    run(
        &tables_of(settings),
        inputs,
        stored(store),
        164,
        &Control::quiet(),
    )
}

fn bytes(done: &Done, name: &str) -> Vec<u8> {
    let output = done
        .outputs
        .iter()
        .find(|o| o.name == name)
        .unwrap_or_else(|| panic!("no output {name}"));
    let Content::Bytes(bytes) = &output.content else {
        panic!("{name} is a file")
    };
    bytes.clone()
}

pub(crate) fn table(done: &Done, name: &str) -> Table {
    Table::from_parquet(bytes(done, name)).unwrap()
}

/// The files of a store, and the one that [`everything`] names.
pub(crate) fn stored(store: &Store) -> Files<'_> {
    static PAPER: LazyLock<NamedFiles> = LazyLock::new(|| {
        let paper = pin(&NoLibrary, "v1_cross_model_speedup_n16.csv").unwrap();
        NamedFiles::new([paper], Path::new(""), None)
    });
    Files {
        store,
        named: &PAPER,
    }
}

pub(crate) fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

/// The row whose key columns have these values, as text.
fn row(table: &Table, key: &[(&str, &str)]) -> usize {
    let fits = |row: &usize| {
        key.iter()
            .all(|(column, value)| table.value(column, *row).unwrap().to_string() == *value)
    };
    let found: Vec<usize> = (0..table.rows()).filter(fits).collect();
    assert_eq!(found.len(), 1, "{key:?}");
    found[0]
}

#[track_caller]
fn close(a: Option<f64>, b: f64) {
    let a = a.expect("a value");
    assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn energy_is_the_integral_by_hand() {
    let (_folder, store) = store();
    let settings = json!({"one": {"operator": "energy", "gpus": [0]}, "all": {"operator": "energy"},
                          "none": {"operator": "energy", "gpus": [7]}});
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    let at = [
        ("configuration", "serial"),
        ("concurrency", "1"),
        ("rep", "1"),
    ];
    let number = |name: &str, column: &str| {
        let table = table(&done, name);
        table.float(column).unwrap()[row(&table, &at)]
    };
    // Window 0 to 4.04 s; power 100 W + 10 W/s: 404 + 5 · 4.04² = 485.608 J.
    close(number("one", "energy"), 404.0 + 5.0 * 4.04 * 4.04);
    close(
        number("one", "tokens_per_joule"),
        40.0 / (404.0 + 5.0 * 4.04 * 4.04),
    );
    close(
        number("all", "energy"),
        404.0 + 5.0 * 4.04 * 4.04 + 50.0 * 4.04,
    );
    assert_eq!(
        (number("one", "n_samples"), number("all", "n_samples")),
        (Some(5.0), Some(10.0))
    );
    assert_eq!(
        (number("one", "interval_ms"), number("one", "gpus")),
        (Some(1000.0), Some(1.0))
    );
    assert_eq!(number("none", "energy"), None);
    let none = table(&done, "none");
    assert_eq!(
        none.text("why").unwrap()[0],
        Some("GPU 7: no power was read")
    );
}

#[test]
fn a_cell_without_gpu_telemetry_has_no_energy_and_says_why() {
    let (_folder, store) = store();
    let rows = requests(4_000);
    let tables = [("requests", synthetic::requests_table(&rows).unwrap())];
    let cell = synthetic::cell(&store, &at("serial", 1, 1), Json::Null, &tables).unwrap();
    let inputs = [
        synthetic::input("ladder", "load", vec![cell]),
        verification(&store, &[]),
    ];
    let settings =
        json!({"joules": {"operator": "energy"}, "beside": {"operator": "telemetry-summary"}});
    let done = analyze(&store, &inputs, &settings).unwrap();
    let joules = table(&done, "joules");
    assert_eq!(
        (
            joules.float("energy").unwrap()[0],
            joules.float("tokens_per_joule").unwrap()[0]
        ),
        (None, None)
    );
    assert_eq!(joules.text("why").unwrap()[0], Some("no GPU was sampled"));
    let beside = table(&done, "beside");
    assert_eq!(
        (
            beside.int("host_samples").unwrap()[0],
            beside.float("cpu_busy_mean").unwrap()[0]
        ),
        (Some(0), None)
    );
}

#[test]
fn telemetry_is_summarised_as_by_hand() {
    let (_folder, store) = store();
    let done = analyze(
        &store,
        &inputs(&store),
        &json!({"beside": {"operator": "telemetry-summary"}}),
    )
    .unwrap();
    let beside = table(&done, "beside");
    let at = row(
        &beside,
        &[
            ("configuration", "serial"),
            ("concurrency", "1"),
            ("rep", "1"),
        ],
    );
    let number = |column: &str| beside.float(column).unwrap()[at];
    // Within 0 to 4.04 s: samples at 0, 1, 2, 3 and 4 s; the first has no share of processor time.
    assert_eq!(
        (
            number("host_samples"),
            number("process_samples"),
            number("gpu_samples")
        ),
        (Some(5.0), Some(5.0), Some(10.0))
    );
    close(number("cpu_busy_mean"), 0.25);
    close(number("cpu_busy_max"), 0.4);
    close(number("memory_used_bytes_mean"), 102.0);
    close(number("server_cpu_mean"), 1.5);
    close(number("server_memory_bytes_max"), 20.0);
    close(number("client_cpu_mean"), 0.25);
    close(number("gpu_power_w_mean"), (120.0 + 50.0) / 2.0);
    close(number("gpu_power_w_max"), 140.0);
    assert_eq!(
        (number("temperature_c_mean"), number("frequency_mhz_max")),
        (None, None)
    );
}

#[test]
fn a_cell_is_summarised_as_by_hand() {
    let (_folder, store) = store();
    let done = analyze(
        &store,
        &inputs(&store),
        &json!({"cells": {"operator": "cell-summary", "quantiles": "all"}}),
    )
    .unwrap();
    let cells = table(&done, "cells");
    assert_eq!(cells.rows(), 18);
    let at = row(
        &cells,
        &[
            ("configuration", "serial"),
            ("concurrency", "1"),
            ("rep", "1"),
        ],
    );
    let number = |column: &str| cells.float(column).unwrap()[at];
    // Window 4.04 s: four requests of ten tokens, ends at 1.01, 2.02, 3.03 and 4.04 s.
    close(number("window_s"), 4.04);
    close(number("request_throughput"), 4.0 / 4.04);
    close(number("output_throughput"), 40.0 / 4.04);
    close(number("total_throughput"), 80.0 / 4.04);
    close(number("ok_rate"), 1.0);
    close(number("ttft_ms_p50"), 1.0);
    close(number("e2e_latency_ms_p50"), 2_525.0);
    close(number("e2e_latency_ms_p99"), 3_030.0 + 0.97 * 1_010.0);
    close(
        number("tpot_ms_mean"),
        (1_009.0 + 2_019.0 + 3_029.0 + 4_039.0) / 4.0 / 9.0,
    );
    // Chunks are even, so the gaps of a request are its TPOT; nine gaps a request.
    close(number("icl_ms_n"), 36.0);
    close(
        number("itl_ms_mean"),
        (1_009.0 + 2_019.0 + 3_029.0 + 4_039.0) / 4.0 / 9.0,
    );
    close(number("client_lag_ms_p99"), 3.0 + 0.97);
    // A closed loop has no latency from the schedule.
    assert_eq!(
        (
            number("ttft_scheduled_ms_mean"),
            number("ttft_scheduled_ms_n")
        ),
        (None, Some(0.0))
    );
    assert_eq!(cells.unit("output_throughput").as_deref(), Some("tok/s"));
    assert_eq!(
        cells.metadata("keys").as_deref(),
        Some("configuration,concurrency,rep")
    );
    assert_eq!(cells.metadata("level").as_deref(), Some("cell"));
}

#[test]
fn the_planted_truths_are_found() {
    let (_folder, store) = store();
    let done = analyze(&store, &inputs(&store), &everything()).unwrap();

    let means = table(&done, "means");
    let at = row(&means, &[("configuration", "serial"), ("concurrency", "1")]);
    assert_eq!(means.int("n").unwrap()[at], Some(3));
    let values = [40.0 / 4.04, 40.0 / 4.08, 40.0 / 4.12];
    close(
        means.float("output_throughput_mean").unwrap()[at],
        values.iter().sum::<f64>() / 3.0,
    );

    let efficiency = table(&done, "efficiency");
    for (configuration, n, expected) in [
        ("serial", "2", 0.5),
        ("serial", "4", 0.25),
        ("batched", "1", 1.0),
        ("batched", "2", 0.8),
        ("batched", "4", 0.6),
    ] {
        let at = row(
            &efficiency,
            &[("configuration", configuration), ("concurrency", n)],
        );
        let found = efficiency.float("parallel_efficiency").unwrap()[at].unwrap();
        // Windows are whole milliseconds: 2525 instead of 2525.0, 1683 instead of 1683.3.
        assert!(
            (found - expected).abs() < 2e-4,
            "{configuration} {n}: {found}"
        );
        let speedup = efficiency.float("speedup").unwrap()[at].unwrap();
        close(Some(speedup / n.parse::<f64>().unwrap()), found);
    }

    let multipliers = table(&done, "multipliers");
    let at = row(
        &multipliers,
        &[("configuration", "serial"), ("concurrency", "4")],
    );
    close(
        multipliers.float("e2e_latency_ms_p95_multiplier").unwrap()[at],
        1.0,
    );

    let breakdown = table(&done, "breakdown");
    let at = row(&breakdown, &[("configuration", "batched")]);
    assert_eq!(breakdown.float("breakdown_n").unwrap()[at], Some(4.0));
    let at = row(&breakdown, &[("configuration", "serial")]);
    assert_eq!(breakdown.float("breakdown_n").unwrap()[at], Some(2.0));

    let deltas = table(&done, "deltas");
    assert_eq!(deltas.rows(), 3);
    let at = row(&deltas, &[("concurrency", "1")]);
    assert_eq!(
        deltas.float("output_throughput_delta").unwrap()[at],
        Some(0.0)
    );
    let at = row(&deltas, &[("concurrency", "2")]);
    assert!((deltas.float("output_throughput_ratio").unwrap()[at].unwrap() - 1.6).abs() < 1e-3);

    // Nine pairs in three units; the ratio of a unit is the mean over its three rungs.
    let comparison = table(&done, "comparison");
    let at = row(&comparison, &[("metric", "output_throughput")]);
    assert_eq!(comparison.int("n").unwrap()[at], Some(3));
    assert_eq!(comparison.int("pairs").unwrap()[at], Some(9));
    assert_eq!(comparison.int("n_a_higher").unwrap()[at], Some(3));
    assert_eq!(comparison.text("verdict").unwrap()[at], Some("different"));
    assert_eq!(
        comparison.text("verdict_reason").unwrap()[at],
        Some("assumes normality: the exact p of 3 units is never below 0.25")
    );
    assert_eq!(comparison.text("higher").unwrap()[at], Some("batched"));
    assert_eq!(
        comparison.text("unit_of_replication").unwrap()[at],
        Some("rep (declared)")
    );
    let ratio = comparison.float("effect").unwrap()[at].unwrap();
    assert!((ratio - (1.6 * 2.4_f64).cbrt()).abs() < 1e-3, "{ratio}");
    // The other metric is the same everywhere, and belongs to no family.
    assert_eq!(
        comparison.text("family").unwrap()[at],
        Some(
            "the study at 5 %, 5 tests in comparison, crossing, independent, places: all columns (1 test)"
        )
    );
    let at = row(&comparison, &[("metric", "ttft_ms_p50")]);
    assert_eq!(comparison.float("wilcoxon_p").unwrap()[at], None);
    assert_eq!(comparison.text("verdict").unwrap()[at], Some("undecidable"));

    // Equal at one client, then batching wins for good: nobody else wins first.
    let crossing = table(&done, "crossing");
    assert_eq!(crossing.text("first_winner").unwrap(), [Some("batched")]);
    assert_eq!(crossing.float("crossover_at").unwrap(), [None]);

    // Of four requests that end at a quarter, half, … of 4.04 s, one ends within 2 s.
    let slo = table(&done, "slo");
    let at = row(
        &slo,
        &[
            ("configuration", "serial"),
            ("concurrency", "1"),
            ("rep", "1"),
        ],
    );
    assert_eq!(slo.int("n_met").unwrap()[at], Some(1));
    close(slo.float("goodput").unwrap()[at], 1.0 / 4.04);
    let product = slo.float("slo_pass_rate").unwrap()[at].unwrap()
        * slo.float("request_throughput").unwrap()[at].unwrap();
    close(Some(product), slo.float("goodput").unwrap()[at].unwrap());

    // A server that gains nothing is serial: Amdahl's sigma is 1.
    let law = table(&done, "law");
    let at = row(&law, &[("configuration", "serial"), ("parameter", "sigma")]);
    assert!((law.float("value").unwrap()[at].unwrap() - 1.0).abs() < 1e-9);

    let wins = table(&done, "wins");
    let at = row(&wins, &[("configuration", "batched")]);
    let counts = ["n", "wins", "ties", "strict_wins"].map(|c| wins.int(c).unwrap()[at].unwrap());
    assert_eq!(counts, [3, 2, 1, 2]);
}

#[test]
fn every_row_leads_down_to_raw_rows() {
    let (_folder, store) = store();
    let inputs = inputs(&store);
    let done = analyze(&store, &inputs, &everything()).unwrap();
    // What was declared or published stands on no measurement.
    let not_measured = ["declared", "paper", "paper.file"];
    let mut raw: BTreeMap<String, u64> = BTreeMap::new();
    for cell in &inputs[0].cells {
        raw.extend(
            cell.outputs
                .values()
                .map(|a| (a.digest.to_string(), a.rows.unwrap())),
        );
    }
    for output in done
        .outputs
        .iter()
        .filter(|o| !o.name.ends_with(".lineage") && !not_measured.contains(&&*o.name))
    {
        let rows = table(&done, &output.name).rows();
        assert!(rows > 0, "{}", output.name);
        for row in 0..rows {
            let ends = follow(&done, &output.name, row);
            assert!(!ends.is_empty(), "{} row {row}", output.name);
            for (digest, end) in ends {
                assert!(
                    end as u64 <= raw[&digest],
                    "{} row {row} ends in row {end}",
                    output.name
                );
                assert!(digest.parse::<Digest>().is_ok());
            }
        }
    }
    // The summary of a cell stands on its four measured rows, not on the warm-up.
    let lineage = table(&done, "cells.lineage");
    assert_eq!(
        (
            lineage.int("source_row_start").unwrap()[0],
            lineage.int("source_row_end").unwrap()[0]
        ),
        (Some(1), Some(5))
    );
}

fn follow(done: &Done, name: &str, row: usize) -> Vec<(String, usize)> {
    let lineage = table(done, &format!("{name}.lineage"));
    let (rows, outputs) = (
        lineage.int("row").unwrap(),
        lineage.text("source_output").unwrap(),
    );
    let artifacts = lineage.text("source_artifact").unwrap();
    let (start, end) = (
        lineage.int("source_row_start").unwrap(),
        lineage.int("source_row_end").unwrap(),
    );
    let mut ends = Vec::new();
    for i in (0..lineage.rows()).filter(|i| rows[*i] == Some(row as i64)) {
        let (start, end) = (start[i].unwrap() as usize, end[i].unwrap() as usize);
        assert!(start < end);
        match artifacts[i] {
            Some(artifact) => ends.push((artifact.to_owned(), end)),
            None => {
                let source = outputs[i].unwrap();
                ends.extend((start..end).flat_map(|row| follow(done, source, row)));
            }
        }
    }
    ends
}

#[test]
fn barred_and_failed_cells_never_enter_and_are_named() {
    let (_folder, store) = store();
    let mut cells = ladder(&store);
    let gone = at("serial", 4, 3);
    let place = cells.iter().position(|c| {
        c.coordinates
            .0
            .iter()
            .map(|(_, v)| v)
            .eq(gone.iter().map(|(_, v)| v))
    });
    cells[place.unwrap()] = synthetic::missing(&gone, CellStatus::Hung, "no row for 60 s");
    let inputs = [
        synthetic::input("ladder", "load", cells),
        verification(
            &store,
            &[("configuration=serial,concurrency=4,rep=2", "3 of 4 rows ok")],
        ),
    ];
    let done = analyze(&store, &inputs, &everything()).unwrap();
    assert_eq!(table(&done, "cells").rows(), 16);
    let means = table(&done, "means");
    let at = row(&means, &[("configuration", "serial"), ("concurrency", "4")]);
    assert_eq!(means.int("n").unwrap()[at], Some(1));
    assert_eq!(
        means.text("missing").unwrap()[at],
        Some("rep=2 (gate row-status: 3 of 4 rows ok); rep=3 (hung: no row for 60 s)")
    );
    assert_eq!(means.float("output_throughput_ci_low").unwrap()[at], None);
    let note: Vec<pipeline::stage::MissingCell> =
        serde_json::from_str(&means.metadata("missing").unwrap()).unwrap();
    assert_eq!(note.len(), 2);
    assert_eq!(
        note[0].coordinates.to_string(),
        "configuration=serial,concurrency=4,rep=2"
    );
    assert_eq!(note[0].reason, "gate row-status: 3 of 4 rows ok");
    assert_eq!(done.warnings.len(), 2);
    let comparison = table(&done, "comparison");
    assert_eq!(comparison.int("n").unwrap()[0], Some(3));
    assert_eq!(comparison.int("pairs").unwrap()[0], Some(7));
    assert_eq!(
        comparison.text("missing").unwrap()[0]
            .unwrap()
            .matches("configuration=serial")
            .count(),
        2,
        "{:?}",
        comparison.text("missing").unwrap()[0]
    );
}

#[test]
fn rows_that_nobody_verified_are_refused() {
    let (_folder, store) = store();
    let settings = json!({"cells": {"operator": "cell-summary"}});
    let alone = [synthetic::input("ladder", "load", ladder(&store))];
    let failure = analyze(&store, &alone, &settings).err().unwrap();
    assert_eq!(
        failure.reason,
        "no verify stage among `needs` covers the load stage `ladder`"
    );
    let other = [
        synthetic::input("ramp", "load", ladder(&store)),
        verification(&store, &[]),
    ];
    let failure = analyze(&store, &other, &settings).err().unwrap();
    assert_eq!(
        failure.reason,
        "no verify stage among `needs` covers the load stage `ramp`"
    );
}

#[test]
fn the_same_inputs_give_the_same_bytes_at_one_and_at_many_threads_in_any_order() {
    let (_folder, store) = store();
    let mut inputs = inputs(&store);
    let one = analyze(&store, &inputs, &everything()).unwrap();
    inputs[0].cells.reverse();
    inputs[0].cells.rotate_left(5);
    let other = analyze(&store, &inputs, &everything()).unwrap();
    for output in &one.outputs {
        assert_eq!(
            bytes(&one, &output.name),
            bytes(&other, &output.name),
            "{}",
            output.name
        );
    }
}

#[test]
fn the_columns_that_come_out_are_those_planned_with_their_meaning() {
    let (_folder, store) = store();
    let done = analyze(&store, &inputs(&store), &everything()).unwrap();
    for output in done
        .outputs
        .iter()
        .filter(|o| !o.name.ends_with(".lineage") && !o.name.ends_with(".file"))
    {
        let table = table(&done, &output.name);
        assert!(table.metadata("operator").is_some() && table.metadata("parameters").is_some());
        let keys = table.metadata("keys").unwrap();
        for column in table.names() {
            assert!(
                table.description(&column).is_some_and(|d| !d.is_empty()),
                "{} {column}",
                output.name
            );
            let key = keys.split(',').any(|k| k == column);
            let number = table.float(&column).is_ok() && !key;
            let unitless = [
                "mean_a",
                "mean_b",
                "mean_delta",
                "median_delta",
                "ci_low",
                "ci_high",
                "breakdown_n",
                "value",
                "std_error",
                "rss",
                "effect",
                "adjusted_low",
                "adjusted_high",
                "margin",
                "smallest_detectable",
                "bound_low",
                "bound_high",
                "observed_n",
                "breakdown_low",
                "breakdown_high",
                "unit_low",
                "unit_high",
                "left",
                "right",
            ];
            assert!(
                !number || table.unit(&column).is_some() || unitless.contains(&column.as_str()),
                "{} {column} has no unit",
                output.name
            );
        }
    }
}

#[test]
fn the_order_in_which_tables_are_declared_decides_nothing() {
    let cells = ("cells", json!({"operator": "cell-summary"}));
    let means = (
        "a_means",
        json!({"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["ok_rate"]}),
    );
    let of = |tables: [&(&str, Json); 2]| {
        let tables: serde_json::Map<String, Json> = tables
            .into_iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        canonical(&Json::Object(tables)).unwrap()
    };
    assert_eq!(of([&cells, &means]), of([&means, &cells]));
    assert_eq!(of([&cells, &means])["tables"][0]["name"], "cells");
}

#[test]
fn every_mistake_in_the_settings_is_told_at_once_with_its_place() {
    let problems = canonical(&json!({
        "hen": {"operator": "aggregate", "from": "egg", "over": ["rep"], "columns": ["ok_rate"]},
        "egg": {"operator": "aggregate", "from": "hen", "over": ["rep"], "columns": ["ok_rate"]},
        "cells": {"operator": "cell-sumary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["anything"]},
        "good": {"operator": "cell-summary"},
        "typo": {"operator": "aggregate", "from": "good", "over": ["rep"], "columns": ["output_troughput", "level"]},
        "lost": {"operator": "wins", "from": "god", "among": "configuration", "column": "ok_rate", "better": "more"},
        "bare": {},
        "Loud": {"operator": "cell-summary"},
        "rule": {"operator": "breakdown", "rule": "r", "ladder": "concurrency",
                 "any": [{"table": "good", "column": "ok_rate"}]},
    }))
    .unwrap_err();
    let told: Vec<String> = problems
        .iter()
        .map(|p| {
            let route: Vec<String> = p
                .route
                .iter()
                .map(|s| match s {
                    Step::Key(key) => key.clone(),
                    Step::Index(i) => i.to_string(),
                })
                .collect();
            format!(
                "{}: {} — {}",
                route.join("."),
                p.message,
                p.hint.as_deref().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "tables.Loud: `Loud` is not a valid name for a table — use lower-case letters, digits \
             and underscores",
            "tables.bare: table `bare` needs an `operator`, or a `file` — operators are: requests, cell-summary, distribution, \
             steady-state, censored, goodput, compat, aggregate, margins, censored-cells, parallel-efficiency, \
             per-client-efficiency, latency-multipliers, mfu, cost, frontier, breakdown, monotonicity, crossover, fit, paired-deltas, \
             paired-comparison, unpaired-comparison, changes, wins, ranking, correlation, identity, energy, telemetry-summary, \
             counter-delta, hang-signature, facts, published, sql",
            "tables.cells.operator: there is no operator `cell-sumary` — did you mean `cell-summary`?",
            "tables.lost.better: unknown value `more` — the values are `higher`, `lower`",
            "tables.rule.any.0: a condition needs either `below` or `above` — -",
            "tables.typo.columns.0: the table `good` has no column `output_troughput` — did you mean \
             `output_throughput`?",
            "tables.typo.columns.1: the column `level` of `good` does not hold numbers — -",
            "tables.egg.from: the table `hen` itself depends on this one — two tables cannot \
             depend on each other; take one of them from elsewhere",
        ]
    );
}

#[test]
fn an_axis_that_does_not_exist_is_a_failure_with_the_nearest_name() {
    let (_folder, store) = store();
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["reps"], "columns": ["ok_rate"]},
    });
    let failure = analyze(&store, &inputs(&store), &settings).err().unwrap();
    assert_eq!(
        failure.reason,
        "table `means` (aggregate): `reps` is not a key column of the table `cells`"
    );
    assert_eq!(failure.hint.as_deref(), Some("did you mean `rep`?"));
}

#[test]
fn a_ladder_without_its_first_rung_has_no_efficiency() {
    let (_folder, store) = store();
    let cells: Vec<_> = ladder(&store)
        .into_iter()
        .filter(|c| c.coordinates.get("concurrency") != Some(&Scalar::Int(1)))
        .collect();
    let inputs = [
        synthetic::input("ladder", "load", cells),
        verification(&store, &[]),
    ];
    let done = analyze(&store, &inputs, &everything()).unwrap();
    let efficiency = table(&done, "efficiency");
    assert!(
        efficiency
            .float("parallel_efficiency")
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
    let breakdown = table(&done, "breakdown");
    assert_eq!(breakdown.float("breakdown_n").unwrap(), [None, None]);
    // Undefined everywhere is not "never".
    assert_eq!(breakdown.boolean("never").unwrap(), [None, None]);
}

#[test]
fn failed_requests_count_in_the_rate_and_in_no_latency() {
    let (_folder, store) = store();
    let mut rows = requests(4_000);
    rows[4].status = contract::RequestStatus::Timeout;
    let inputs = [
        synthetic::input(
            "ladder",
            "load",
            vec![cell(&store, &at("serial", 1, 1), &rows)],
        ),
        verification(&store, &[]),
    ];
    let done = analyze(
        &store,
        &inputs,
        &json!({"cells": {"operator": "cell-summary"}}),
    )
    .unwrap();
    let cells = table(&done, "cells");
    close(cells.float("ok_rate").unwrap()[0], 0.75);
    close(cells.float("output_throughput").unwrap()[0], 30.0 / 4.0);
    close(cells.float("e2e_latency_ms_max").unwrap()[0], 3_000.0);
    assert_eq!(cells.int("e2e_latency_ms_n").unwrap()[0], Some(3));
}

#[test]
fn a_query_tells_the_turns_of_sessions_apart() {
    let (_folder, store) = store();
    let turns = [(0, 1, 40), (0, 2, 20), (1, 1, 60), (1, 2, 10), (1, 3, 5)];
    let rows: Vec<Request> = (0..)
        .zip(turns)
        .map(|(id, (session, turn, ttft_ms))| Request {
            session_id: Some(session),
            turn: Some(turn),
            first_token_ns: Some(ttft_ms * 1_000_000),
            ..synthetic::request(id)
        })
        .collect();
    let cells = vec![cell(&store, &at("serial", 1, 1), &rows)];
    let inputs = [
        synthetic::input("ladder", "load", cells),
        verification(&store, &[]),
    ];
    let query = "select turn, count(distinct session_id) as sessions, \
                 median((first_token_ns - sent_ns) / 1e6) as ttft_ms_p50 from \"ladder.requests\" group by turn";
    let settings = json!({"turns": {"operator": "sql", "keys": ["turn"], "query": query}});
    let turns = analyze(&store, &inputs, &settings).unwrap();
    let turns = table(&turns, "turns");
    assert_eq!(turns.int("turn").unwrap(), [Some(1), Some(2), Some(3)]);
    assert_eq!(turns.int("sessions").unwrap(), [Some(2), Some(2), Some(1)]);
    assert_eq!(
        turns.float("ttft_ms_p50").unwrap(),
        [Some(50.0), Some(15.0), Some(5.0)]
    );
}

#[test]
fn a_query_sees_every_column_that_a_load_cell_has() {
    let (_folder, store) = store();
    let rows: Vec<Request> = (0..4)
        .map(|id| Request {
            http_status: Some(200 + id % 2),
            ..synthetic::request(id)
        })
        .collect();
    let inputs = [
        synthetic::input(
            "ladder",
            "load",
            vec![cell(&store, &at("serial", 1, 1), &rows)],
        ),
        verification(&store, &[]),
    ];
    let every = |table: contract::TableSpec| {
        let named = table.columns.iter().map(|c| format!("count({})", c.name));
        let named = named.collect::<Vec<_>>().join(" + ");
        let query = format!(
            "select {named} as values_told from \"ladder.{}\"",
            table.name
        );
        json!({"operator": "sql", "level": "pooled", "query": query})
    };
    let settings = json!({
        "requests": every(Request::TABLE),
        "chunks": every(contract::Chunk::TABLE),
        "codes": {"operator": "sql", "keys": ["http_status"], "query":
            "select http_status, count(*) as n from \"ladder.requests\" group by 1"},
    });
    let done = analyze(&store, &inputs, &settings).unwrap();
    let codes = table(&done, "codes");
    assert_eq!(codes.int("http_status").unwrap(), [Some(200), Some(201)]);
    assert_eq!(codes.int("n").unwrap(), [Some(2), Some(2)]);
}

#[test]
fn a_query_finds_what_the_operators_find() {
    let (_folder, store) = store();
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["output_throughput"]},
        "by_sql": {"operator": "sql", "keys": ["configuration", "concurrency"], "query":
            "select configuration, concurrency, count(*) as n, avg(output_throughput) as mean,
                    stddev(output_throughput) as std from cells group by 1, 2",
            "units": {"mean": "tok/s"}},
        "raw": {"operator": "sql", "level": "pooled", "query":
            "select count(*) as n, sum(superseded) as superseded,
                    (select count(*) from \"ladder.chunks\") as chunks from \"ladder.requests\" where phase = 'measured'"},
        "plain": {"operator": "sql", "level": "cell", "keys": ["configuration", "concurrency", "rep"],
                  "query": "select configuration, concurrency, rep, ok_rate, output_throughput as rate from cells"},
        "again": {"operator": "aggregate", "from": "plain", "over": ["rep"], "columns": ["rate"]},
    });
    let inputs = inputs(&store);
    let done = analyze(&store, &inputs, &settings).unwrap();
    let (means, by_sql) = (table(&done, "means"), table(&done, "by_sql"));
    assert_eq!(
        means.text("configuration").unwrap(),
        by_sql.text("configuration").unwrap()
    );
    assert_eq!(
        means.int("concurrency").unwrap(),
        by_sql.int("concurrency").unwrap()
    );
    assert_eq!(
        means.float("output_throughput_std").unwrap(),
        by_sql.float("std").unwrap()
    );
    assert_eq!(by_sql.unit("mean").as_deref(), Some("tok/s"));
    assert_eq!(by_sql.int("n").unwrap(), vec![Some(3); 6]);
    let raw = table(&done, "raw");
    assert_eq!(
        (raw.int("n").unwrap(), raw.int("superseded").unwrap()),
        (vec![Some(72)], vec![Some(0)])
    );
    assert!(raw.int("chunks").unwrap()[0].unwrap() > 0);
    assert_eq!(raw.metadata("level").as_deref(), Some("pooled"));
    let plain = table(&done, "plain");
    assert_eq!(
        (
            plain.unit("rate").as_deref(),
            plain.unit("ok_rate").as_deref()
        ),
        (Some("tok/s"), Some("1"))
    );
    assert_eq!(
        table(&done, "again").float("rate_mean").unwrap(),
        means.float("output_throughput_mean").unwrap()
    );
    // Every row stands on the whole of what was read.
    let lineage = table(&done, "by_sql.lineage");
    assert_eq!(lineage.rows(), 6);
    assert!(
        lineage
            .text("source_output")
            .unwrap()
            .iter()
            .all(|s| *s == Some("cells"))
    );
    assert!(
        lineage
            .int("source_row_end")
            .unwrap()
            .iter()
            .all(|e| *e == Some(18))
    );
    assert_eq!(table(&done, "raw.lineage").rows(), 36);
}

#[test]
fn columns_of_ratios_say_what_is_over_what_and_means_of_them_still_do() {
    let (_folder, store) = store();
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "deltas": {"operator": "paired-deltas", "from": "cells", "average": ["rep"], "columns": ["output_throughput"],
                   "pair": {"axis": "configuration", "a": "batched", "b": "serial"}},
        "efficiency": {"operator": "parallel-efficiency", "from": "cells", "ladder": "concurrency"},
        "means": {"operator": "aggregate", "from": "efficiency", "over": ["rep"], "unit": ["rep"],
                  "columns": ["speedup"]},
        "by_sql": {"operator": "sql", "keys": ["concurrency"], "query":
            "select concurrency, max(output_throughput) / min(output_throughput) as spread from cells group by 1",
            "units": {"spread": "1"}, "ratios": {"spread": {"numerator": "the most", "denominator": "the least"}}},
        "again": {"operator": "sql", "keys": ["concurrency"], "query":
            "select concurrency, spread, spread - 1 as excess from by_sql"},
    });
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    let sides = |name: &str, column: &str| table(&done, name).ratio(column).map(|r| r.to_string());
    assert_eq!(
        sides("deltas", "output_throughput_ratio").unwrap(),
        "batched ÷ serial"
    );
    assert_eq!(sides("deltas", "output_throughput_delta"), None);
    for column in ["speedup_mean", "speedup_min", "speedup_ci_high"] {
        assert_eq!(
            sides("means", column).unwrap(),
            "concurrency = N ÷ concurrency = 1",
            "{column}"
        );
    }
    assert_eq!(
        (sides("means", "speedup_std"), sides("means", "speedup_cv")),
        (None, None)
    );
    // A query says it of what it computes; a column that only repeats another keeps its own.
    assert_eq!(sides("by_sql", "spread").unwrap(), "the most ÷ the least");
    assert_eq!(
        (sides("again", "spread"), sides("again", "excess")),
        (sides("by_sql", "spread"), None)
    );
}

#[test]
fn a_query_that_cannot_work_is_told_while_planning() {
    let told = |table: Json| {
        let problems = canonical(&json!({
            "cells": {"operator": "cell-summary"}, "made": table, "later": {"operator": "requests"},
        }));
        let problems = problems.err().unwrap_or_default();
        let text = |p: &Problem| {
            let steps = p.route.iter().fold(String::new(), |text, step| match step {
                Step::Key(key) if text.is_empty() => key.clone(),
                Step::Key(key) => format!("{text}.{key}"),
                Step::Index(i) => format!("{text}[{i}]"),
            });
            format!(
                "{steps}: {} ({})",
                p.message,
                p.hint.clone().unwrap_or_default()
            )
        };
        problems.iter().map(text).collect::<Vec<_>>()
    };
    let sql = |query: &str| told(json!({"operator": "sql", "query": query}));
    assert_eq!(
        sql("select ok_rate, my_axis from cells where rep = 1"),
        [""; 0]
    );
    assert_eq!(
        sql("select ok_rate frm cells"),
        [
            "tables.made.query: the query is not valid SQL: near \"cells\": syntax error (column 20) ()"
        ]
    );
    assert_eq!(
        sql("select 1 as one from cels"),
        ["tables.made.query: there is no table `cels` in this stage (did you mean `cells`?)"]
    );
    assert_eq!(
        sql("select 1 as one from later"),
        [""; 0],
        "a table declared below may be read"
    );
    assert_eq!(
        sql("select 1 as one from made"),
        [
            "tables.made.query: the table `made` itself depends on this one (two tables cannot \
             depend on each other; take one of them from elsewhere)"
        ]
    );
    assert_eq!(
        sql("select output_troughput from cells"),
        [
            "tables.made.query: no table the query reads has a column `output_troughput` (did you mean \
          `output_throughput`? (if it is an axis, name it in `keys`))"
        ]
    );
    assert_eq!(
        sql("select random() as r from cells"),
        ["tables.made.query: a query may not call `random` ()"]
    );
    assert_eq!(
        sql("select avg(ok_rate) from cells"),
        [
            "tables.made.query: `avg(ok_rate)` is not a valid name for a column (name it with \
             `as`: lower-case letters, digits \
          and underscores)"
        ]
    );
    assert_eq!(
        told(
            json!({"operator": "sql", "query": "select ok_rate from cells", "keys": ["reps"], "units": {"ok_rat": "1"}})
        ),
        [
            "tables.made.keys[0]: the query returns no column `reps` (the columns are `ok_rate`)",
            "tables.made.units.ok_rat: the query returns no column `ok_rat` (did you mean `ok_rate`?)",
        ]
    );
}

#[test]
fn a_query_that_fails_on_the_rows_says_what_there_is() {
    let (_folder, store) = store();
    let failed = |query: &str| {
        let settings = json!({"cells": {"operator": "cell-summary"}, "made": {"operator": "sql", "query": query}});
        let failure = analyze(&store, &inputs(&store), &settings).err().unwrap();
        format!("{} ({})", failure.reason, failure.hint.unwrap_or_default())
    };
    assert_eq!(
        failed("select 1 as one from cells where confguration = 'serial'"),
        "table `made` (sql): the query reads the column `confguration`, which is in none of its \
         tables (did you mean \
         `configuration`?)"
    );
    assert_eq!(
        failed("select count(*) as n from \"lader.requests\""),
        "table `made` (sql): the query reads the table `lader.requests`, which does not exist \
         (did you mean \
         `ladder.requests`?)"
    );
    assert_eq!(
        failed("select ok_rate from cells"),
        "table `made` (sql): the query returns several rows, but no `keys` identify them (name the columns that name \
         a row with `keys`)"
    );
}
