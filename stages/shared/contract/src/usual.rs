//! What other tools call our columns.

/// Other tools' words, each with ours. A word may have several parts; earlier entries are replaced first.
const WORDS: [(&str, &str); 31] = [
    ("time_to_first_token", "ttft"),
    ("time_per_output_token", "tpot"),
    ("time_between_tokens", "itl"),
    ("inter_token_latency", "itl"),
    ("tbt", "itl"),
    ("end_to_end_latency", "e2e_latency"),
    ("request_latency", "e2e_latency"),
    ("e2el", "e2e_latency"),
    ("total_tokens_per_second", "total_throughput"),
    ("total_token_throughput", "total_throughput"),
    ("output_tokens_per_second", "output_throughput"),
    ("output_token_throughput", "output_throughput"),
    ("tokens_per_second", "output_throughput"),
    ("tokens_per_sec", "output_throughput"),
    ("token_throughput", "output_throughput"),
    ("generation_throughput", "output_throughput"),
    ("tok_per_s", "output_throughput"),
    ("toks_s", "output_throughput"),
    ("tok_s", "output_throughput"),
    ("tps", "output_throughput"),
    ("requests_per_second", "request_throughput"),
    ("requests_per_sec", "request_throughput"),
    ("req_per_s", "request_throughput"),
    ("req_s", "request_throughput"),
    ("rps", "request_throughput"),
    ("qps", "request_throughput"),
    ("success_rate", "ok_rate"),
    ("median", "p50"),
    ("average", "mean"),
    ("avg", "mean"),
    ("latency", "e2e_latency"),
];

/// Returns the name of a column with the words of other tools replaced by ours, for example `p99_ttft` for
/// `p99_time_to_first_token`. The order of the parts stays.
pub fn usual_name(column: &str) -> String {
    let folded = column.to_lowercase().replace(['-', ' ', '/'], "_");
    let mut name = format!("_{folded}_");
    for (theirs, ours) in WORDS {
        // A name that has our word is not changed: `e2e_latency` contains `latency`.
        if !name.contains(&format!("_{ours}_")) {
            name = name.replace(&format!("_{theirs}_"), &format!("_{ours}_"));
        }
    }
    name.trim_matches('_').to_owned()
}

/// What other tools call the tables of a load cell, each with our table.
const TABLES: [(&str, &str); 21] = [
    ("rows", "requests"),
    ("results", "requests"),
    ("records", "requests"),
    ("samples", "requests"),
    ("responses", "requests"),
    ("latencies", "requests"),
    ("tokens", "chunks"),
    ("events", "chunks"),
    ("stream", "chunks"),
    ("totals", "summary"),
    ("host", "host_telemetry"),
    ("cpu", "host_telemetry"),
    ("gpu", "gpu_telemetry"),
    ("gpus", "gpu_telemetry"),
    ("metrics", "server_metrics"),
    ("prometheus", "server_metrics"),
    ("telemetry", "host_telemetry"),
    ("log", "engine_events"),
    ("logs", "engine_events"),
    ("starts", "server_starts"),
    ("startup", "server_starts"),
];

/// Returns the table of a load cell that a word of other tools means.
pub fn usual_table(word: &str) -> Option<&'static str> {
    let folded = word.to_lowercase().replace('-', "_");
    let entry = TABLES.iter().find(|(theirs, _)| *theirs == folded);
    entry.map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::{TABLES, usual_name};

    #[test]
    fn the_tables_that_words_mean_exist() {
        for (theirs, ours) in TABLES {
            let exists = |name| crate::LOAD_TABLES.iter().any(|table| table.name == name);
            assert!(exists(ours) && !exists(theirs), "{theirs}: {ours}");
        }
    }

    #[test]
    fn words_of_other_tools_become_ours() {
        for (theirs, ours) in [
            ("tokens_per_second", "output_throughput"),
            ("median_ttft", "p50_ttft"),
            ("avg latency", "mean_e2e_latency"),
            ("P99-time-to-first-token", "p99_ttft"),
            ("e2e_latency_ms_p50", "e2e_latency_ms_p50"),
            ("inter_token_latency_ms_p95", "itl_ms_p95"),
            ("output_throughput", "output_throughput"),
            ("anything", "anything"),
        ] {
            assert_eq!(usual_name(theirs), ours);
        }
    }
}
