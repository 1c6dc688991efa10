//! A synthetic ladder with planted truths, from rows to every table; planning errors; bytes.

mod by_hand;
mod planning;
mod queries;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::{INTERVAL_LEVEL, IntervalEnd, Request, Row as _, synthetic};
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
        [
            "block",
            "clients",
            "concurrency",
            "configuration",
            "engine",
            "model",
            "phase",
            "rep",
            "system",
            "workload",
        ]
        .map(str::to_owned)
        .to_vec()
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

/// A warm-up and four measured requests of 10 output tokens, all sent at 0. The window is `window_ms`. Request `i`
/// (1..=4) ends at `window · i / 4`, with its first token after 1 ms.
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

/// One sample a second from 0 s to 5 s: GPU 0 draws 100 W plus 10 W more each second, GPU 1 draws 50 W.
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
    let float = |name: &str, read: fn(i64) -> Option<f64>| Column::float(name, (0..=5).map(read));
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

/// Two processes of the server, and our own.
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

/// The window in ms: `serial` gains nothing from more clients; `batched` has efficiency 1, 0.8, 0.6 at 1, 2, 4 clients.
/// Each window has 40 tokens.
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

/// A verification that covers `ladder` and excludes the given cells.
pub(crate) fn verification(store: &Store, barred: &[(&str, &str)]) -> Input {
    let text = |name: &str, read: &dyn Fn(&(&str, &str)) -> String| {
        Column::text(name, barred.iter().map(|b| Some(read(b))))
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

/// The files of a store, including the one that [`everything`] names.
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
    let rows: Vec<usize> = (0..table.rows()).filter(fits).collect();
    assert_eq!(rows.len(), 1, "{key:?}");
    rows[0]
}

#[track_caller]
fn close(a: Option<f64>, b: f64) {
    let a = a.expect("a value");
    assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
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
        let value = efficiency.float("parallel_efficiency").unwrap()[at].unwrap();
        // Windows are whole milliseconds: 2525 instead of 2525.0, 1683 instead of 1683.3.
        assert!(
            (value - expected).abs() < 2e-4,
            "{configuration} {n}: {value}"
        );
        let speedup = efficiency.float("speedup").unwrap()[at].unwrap();
        close(Some(speedup / n.parse::<f64>().unwrap()), value);
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
        Some("assumes normality: the exact sign-flip p of 3 units is never below 0.25")
    );
    assert_eq!(comparison.text("higher").unwrap()[at], Some("batched"));
    assert_eq!(
        comparison.text("unit_of_replication").unwrap()[at],
        Some("rep (declared)")
    );
    let ratio = comparison.float("effect").unwrap()[at].unwrap();
    assert!((ratio - (1.6 * 2.4_f64).cbrt()).abs() < 1e-3, "{ratio}");
    // The other metric is the same everywhere and belongs to no family.
    assert_eq!(
        comparison.text("family").unwrap()[at],
        Some(
            "the study at 5 %, 5 tests in comparison, crossing, independent, places: all columns (1 test)"
        )
    );
    let at = row(&comparison, &[("metric", "ttft_ms_p50")]);
    assert_eq!(comparison.float("wilcoxon_p").unwrap()[at], None);
    assert_eq!(comparison.text("verdict").unwrap()[at], Some("undecidable"));

    // Equal at one client, then batching wins for good: no other side wins first.
    let crossing = table(&done, "crossing");
    assert_eq!(crossing.text("first_winner").unwrap(), [Some("batched")]);
    assert_eq!(crossing.float("crossover_at").unwrap(), [None]);

    // Four requests end at a quarter, half, … of 4.04 s; one of them ends within 2 s.
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

    // A server that gains nothing from more clients is serial: Amdahl's sigma is 1.
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
    // Declared and published figures do not depend on a measurement.
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
    // The summary of a cell depends on its four measured rows, not on the warm-up.
    let lineage = table(&done, "cells.lineage");
    assert_eq!(
        (
            lineage.int("source_row_start").unwrap()[0],
            lineage.int("source_row_end").unwrap()[0]
        ),
        (Some(1), Some(5))
    );
}

#[test]
fn a_table_with_intervals_states_their_level() {
    let (_folder, store) = store();
    let done = analyze(&store, &inputs(&store), &everything()).unwrap();
    let mut levels = BTreeMap::new();
    let is_table = |name: &str| !name.ends_with(".lineage") && !name.ends_with(".file");
    for output in done.outputs.iter().filter(|o| is_table(&o.name)) {
        let table = table(&done, &output.name);
        let is_end = |name: &&str| {
            let description = table.description(name).unwrap_or_default();
            IntervalEnd::read(&description).is_some()
        };
        let names = table.names();
        let end = names.iter().map(String::as_str).find(is_end);
        let level = table.metadata(INTERVAL_LEVEL);
        assert!(end.is_none() || level.is_some(), "{}: {end:?}", output.name);
        levels.extend(level.map(|level| (output.name.clone(), level)));
    }
    assert_eq!(
        [&*levels["comparison"], &*levels["breakdown"]],
        ["0.95", "0.95"]
    );
    assert_eq!(levels["price"], levels["means"]);
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
    // Undefined everywhere does not mean "never".
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
