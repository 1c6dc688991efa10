//! Cells and telemetry against values computed by hand.

use super::*;

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
    // Within 0 to 4.04 s there are samples at 0, 1, 2, 3 and 4 s; the first has no share of processor time.
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
    // The window is 4.04 s: four requests of ten tokens, which end at 1.01, 2.02, 3.03 and 4.04 s.
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
    // Chunks are even, so the nine gaps of a request each equal its TPOT.
    close(number("icl_ms_n"), 36.0);
    close(
        number("itl_ms_mean"),
        (1_009.0 + 2_019.0 + 3_029.0 + 4_039.0) / 4.0 / 9.0,
    );
    close(number("client_lag_ms_p99"), 3.0 + 0.97);
    // A closed loop has no schedule, so no latency from one.
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
