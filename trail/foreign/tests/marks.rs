//! Marks of a table for its best numbers, and numbers that differ from their cell by a slip, each with a true twin.

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

#[test]
fn a_winner_has_the_best_number_of_its_row() {
    let table = |winner: &str| {
        format!(
            "| Metric | Kite | Wren | Winner |\n|---|---|---|---|\n| Throughput | 2115 | 1702 | Kite |\n\
             | Latency | 74 | 131 | {winner} |\n| Errors | 3 | 5 | Kite |\n"
        )
    };
    assert_eq!((findings(&table("Kite")), findings(&table("Wren"))), (0, 1));
    assert_eq!(findings(&table("Wren †")), 0, "a note may say why");
}

#[test]
fn ranks_follow_the_column_that_they_order() {
    let table = |last: [&str; 2]| {
        format!(
            "| Rank | Router | ns/op |\n|---|---|---|\n| 1 | a | 588 |\n| 2 | b | 712 |\n| 3 | c | 742 |\n| 4 | d | {} |\n| 5 | e | {} |\n",
            last[0], last[1]
        )
    };
    assert_eq!(findings(&table(["948", "3372"])), 0);
    assert_eq!(findings(&table(["3372", "948"])), 1);
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
            "The isolated and unpinned rigs sit happily at 152 and 214 ms, respectively.",
            "The isolated and unpinned rigs sit happily at 214 and 152 ms, respectively.",
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
