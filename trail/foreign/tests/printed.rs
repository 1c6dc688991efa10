//! What benchmark programs print: consoles, tables between bars, goodput. Each false number is found, and its true twin
//! is not.

use foreign::audit;

/// The messages about a document in which `{}` stands for a number.
fn messages(text: &str, number: &str) -> Vec<String> {
    let audit = audit("r.md", &text.replace("{}", number), &[]);
    audit.findings.into_iter().map(|f| f.message).collect()
}

fn assert_twins(text: &str, wrong: &str, right: &str, message: &str) {
    assert_eq!(messages(text, wrong), [message], "{text}");
    assert!(messages(text, right).is_empty(), "{text}");
}

/// A console with one number left out.
fn console(key: &str) -> String {
    let lines = [
        ("Successful requests:", "800"),
        ("Benchmark duration (s):", "50.25"),
        ("Total input tokens:", "204800"),
        ("Total generated tokens:", "96300"),
        ("Request throughput (req/s):", "15.92"),
        ("Output token throughput (tok/s):", "1916.42"),
        ("Total Token throughput (tok/s):", "5992.04"),
        ("Median TTFT (ms):", "211.80"),
        ("P99 TTFT (ms):", "902.15"),
        ("Median ITL (ms):", "18.02"),
    ];
    let line = |(name, value): &(&str, &str)| {
        let value = if *name == key { "{}" } else { value };
        format!("{name:40}{value}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    format!("```\n====== Serving Benchmark Result ======\n{lines}======================\n```\n")
}

#[test]
fn the_rates_of_a_console_follow_from_its_counts_and_its_duration() {
    for (key, wrong, right, message) in [
        (
            "Request throughput (req/s):",
            "19.52",
            "15.92",
            "`Successful requests` / `Benchmark duration (s)` gives 15.92",
        ),
        (
            "Output token throughput (tok/s):",
            "1961.42",
            "1916.42",
            "`Total generated tokens` / `Benchmark duration (s)` gives 1916.42",
        ),
        (
            "Total Token throughput (tok/s):",
            "4075.62",
            "5992.04",
            "`Total input tokens` + `Total generated tokens` / `Benchmark duration (s)` gives 5992.04",
        ),
        (
            "P99 TTFT (ms):",
            "90.22",
            "902.15",
            "Median TTFT (ms) is above P99 TTFT (ms)",
        ),
    ] {
        assert_twins(&console(key), wrong, right, message);
    }
    // Another program may count other things under the same duration.
    let other = console("").replace("Total generated tokens:", "Total generated tokens (text):");
    assert!(messages(&other.replace("1916.42", "1700.00"), "").is_empty());
}

#[test]
fn goodput_is_at_most_the_throughput_of_its_row() {
    let table = "| Rate | Throughput (req/s) | Goodput (req/s) |\n|---|---:|---:|\n| low | 1.98 | 1.98 |\n| middle | 5.96 | {} |\n| high | 9.91 | 8.47 |\n| all | 13.40 | 0.11 |\n";
    let message = "Goodput (req/s) is above Throughput (req/s)";
    assert_twins(table, "6.59", "5.69", message);
    // In other units, or for another side, they cannot be compared.
    for (from, to) in [
        ("Goodput (req/s)", "Goodput (tok/s)"),
        ("Throughput", "A throughput"),
    ] {
        assert!(messages(&table.replace(from, to), "6.59").is_empty());
    }
}

#[test]
fn a_bare_percentile_is_of_the_metric_to_its_left() {
    let table = "```\nRun | TTFT median | p95 | ITL median | p95\n----|-------------|-----|------------|----\na   | 38.1 | 41.0 | 9.3 | 9.5\nb   | 52.9 | 88.7 | 12.7 | {}\nc   | 77.4 | 190.3 | 18.2 | 21.4\nd   | 81.0 | 205.9 | 19.1 | 23.7\n```\n";
    assert_twins(table, "10.2", "14.2", "ITL median is above p95");
}
