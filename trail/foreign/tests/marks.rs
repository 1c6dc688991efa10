//! Bold numbers, which a table marks as its best, and numbers that differ from their cell by a slip, each with a true twin.

use foreign::audit;

/// The number of findings in a report.
fn findings(text: &str) -> usize {
    audit("r.md", &format!("# Report\n\n{text}\n"), &[])
        .findings
        .len()
}

#[test]
fn the_bold_number_of_a_column_is_an_end_of_it_as_in_the_other_columns() {
    let table = |a: &str, b: &str| {
        format!(
            "| Engine | tok/s | TTFT (ms) | ITL (ms) | Memory (GiB) |\n|---|---|---|---|---|\n\
             | kite | **2115** | **74** | {a} | 58.8 |\n| wren | 1702 | 131 | {b} | **55.4** |\n| tern | 1810 | 99 | 31 | 60.1 |\n"
        )
    };
    assert_eq!(findings(&table("**17**", "24")), 0);
    assert_eq!(findings(&table("17", "**24**")), 1);
}

const TABLE: &str = "| Setting | TTFT (ms) | Throughput (tok/s) |\n|---|---:|---:|\n| unpinned | 214 | 2,610 |\n| cores pinned | 171 | 2,740 |\n| isolated | 152 | 2,830 |\n\n";

#[test]
fn a_slip_is_found_among_words_that_the_audit_does_not_know() {
    for (right, wrong) in [
        (
            "Nicely, isolated runs settle at 152 ms.",
            "Nicely, isolated runs settle at 125 ms.",
        ),
        (
            "Happily enough, unpinned manages 214 ms.",
            "Happily enough, unpinned manages 171 ms.",
        ),
        (
            "Rejoice: mean TTFT of the trio is 179 ms.",
            "Rejoice: mean TTFT of the trio is 197 ms.",
        ),
        (
            "Startup is 3.5 times faster, hurrah: 28 s before, 8 s now.",
            "Startup is 4.5 times faster, hurrah: 28 s before, 8 s now.",
        ),
    ] {
        let findings_of = |sentence: &str| findings(&format!("{TABLE}{sentence}"));
        assert_eq!((findings_of(right), findings_of(wrong)), (0, 1), "{wrong}");
    }
}

#[test]
fn a_number_of_something_else_is_no_slip() {
    for sentence in [
        "With hugepages, isolated runs settle at 125 ms.",
        "The target for isolated runs is 125 ms.",
        "The previous release, isolated, needed 125 ms.",
        "We saw 73.8%, 72.5% and 71.1% of isolated requests in cache.",
        "Isolated runs logged 126 ms of jitter above their 26 ms baseline.",
        "The neighbour of isolated settles at 172 ms with SMT off.",
        "On the larger node, unpinned manages 171 ms.",
    ] {
        assert_eq!(findings(&format!("{TABLE}{sentence}")), 0, "{sentence}");
    }
}
