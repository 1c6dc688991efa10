//! An example of every operator over the synthetic ladder, in addition to those in `tests`. The manual shows them, and
//! the properties over all operators run on them.

use pipeline::Json;
use serde_json::json;

pub(crate) fn more() -> serde_json::Map<String, Json> {
    let sides = json!({"axis": "configuration", "a": "batched", "b": "serial"});
    let all = json!({
        "spread": {"operator": "distribution", "metrics": ["tpot_ms", "itl_ms", "icl_ms"], "over": ["rep"],
                   "quantiles": [0.5, 0.99], "print": "all"},
        "steady": {"operator": "steady-state"},
        "as_vllm": {"operator": "compat", "tool": "vllm", "bounds": {"ttft-ms": 200, "tpot-ms": 40}},
        "given_up": {"operator": "censored", "over": ["rep"], "quantiles": [0.5, 0.95]},
        "slow_cells": {"operator": "censored-cells", "from": "cells", "column": "e2e_latency_ms_p95",
                       "over": ["rep"], "limit": 60000},
        "whole": {"operator": "margins", "from": "cells", "axes": ["configuration", "concurrency"],
                  "over": ["rep"], "columns": ["output_throughput"]},
        "per_client": {"operator": "per-client-efficiency", "from": "cells", "ladder": "concurrency"},
        "utilisation": {"operator": "mfu", "from": "means", "column": "output_throughput_mean",
                        "prefill": "not-counted", "model-parameters": 8e9, "peak-flops": 149.7e12},
        "price": {"operator": "cost", "from": "means", "column": "output_throughput_mean", "devices": 2,
                  "price-per-hour": 2.5, "currency": "USD", "price-date": "2026-01-31",
                  "price-source": "list price of a rented device, on demand"},
        "best": {"operator": "frontier", "from": "cells", "x": "ttft_ms_p50", "x-better": "lower",
                 "y": "output_throughput", "y-better": "higher", "within": ["rep"]},
        "direction": {"operator": "monotonicity", "from": "efficiency", "ladder": "concurrency",
                      "column": "parallel_efficiency", "expect": "falling", "threshold": 0.65},
        "independent": {"operator": "unpaired-comparison", "from": "cells", "pair": sides, "over": ["rep"],
                        "unit": ["rep"], "by": ["concurrency"], "columns": ["output_throughput"],
                        "margin": {"output_throughput": 0.05}},
        "phases": {"operator": "changes", "from": "means", "phase": "configuration",
                   "order": ["serial", "batched"], "columns": ["output_throughput_mean"], "better": "higher"},
        "places": {"operator": "ranking", "from": "cells", "among": "configuration", "unit": ["rep"],
                   "column": "output_throughput", "better": "higher", "tie-within": 0.03},
        "together": {"operator": "correlation", "from": "cells", "by": ["configuration"],
                     "over": ["concurrency", "rep"],
                     "pairs": [{"x": "concurrency", "y": "output_throughput"}]},
        "laws": {"operator": "identity", "from": "cells", "identities": [
            {"name": "tokens", "column": "output_throughput", "times": ["request_throughput", "output_tokens_mean"],
             "within": 1e-9},
            {"name": "order", "column": "e2e_latency_ms_p50", "relation": "at-least", "times": ["ttft_ms_p50"]},
        ]},
        "loopback": {"operator": "counter-delta", "counters": {
            "sent_to_itself": {"table": "host_telemetry", "column": "loopback_bytes"}}},
        "silences": {"operator": "hang-signature", "at-least-ms": 200},
        "declared": {"operator": "facts", "axis": "configuration", "fields": {"slots": "slots"},
                     "units": {"slots": "slots"}},
        "paper": {"operator": "published", "file": "v1_cross_model_speedup_n16.csv", "keys": ["model", "workload"],
                  "units": {"mean_speedup": "1", "min": "1", "median": "1", "max": "1"}, "origin": "TR164 V1, SS10"},
    });
    all.as_object().cloned().unwrap_or_default()
}
