//! Forms of statements, each false and then true: the rule must find the false one and not report its twin. Also valid
//! forms that no rule may report.

use foreign::{Document, Rule, audit};

const TABLE: &str = "## Rates\n\n| Host | Otter req/s | Stoat req/s |\n|---|---:|---:|\n| north-2 | 410 | 395 |\n| south-4 | 333 | 371 |\n| east-8 | 298 | 255 |\n| west-16 | 120 | 118 |\n\n";
const LADDER: &str = "## Waits\n\n| Site | u=1 | u=2 | u=4 |\n|---|---:|---:|---:|\n| inner | 12.0 | 20.5 | 33.1 |\n| outer | 15.5 | 41.0 | 36.5 |\n\n";
const STATISTICS: &str = "| u | mean | median | max |\n|---:|---:|---:|---:|\n| 1 | 0.91 | 0.92 | 0.99 |\n| 8 | 0.47 | 0.55 | 0.81 |\n\n";

/// The text around a statement, the statement with its false words, and with the true ones.
#[rustfmt::skip]
const STATEMENTS: &[(Rule, &str, &str, &str, &str)] = &[
    (Rule::Arithmetic, "", "Waits fell from 80 ms to 60 ms, a {} drop.", "40%", "25%"),
    (Rule::Arithmetic, "", "A {} speedup, from 30 req/s to 75 req/s.", "3.5x", "2.5x"),
    (Rule::Arithmetic, "", "The matrix has 6 hosts × 5 rates × 2 arms = {} runs.", "66", "60"),
    (Rule::Arithmetic, "", "Of all runs 45 of 60 ({}) passed.", "80%", "75%"),
    (Rule::Arithmetic, "", "We made 90 runs, of which 70 are warm and {} are cold.", "30", "20"),
    (Rule::Arithmetic, "", "The tail is {} ms, above the budget of 20 ms.", "18", "28"),
    (Rule::Arithmetic, "", "They drew {} W and 212 W, within 10 W of each other.", "180", "205"),
    (Rule::Total, "", "| Part | Files |\n|---|---:|\n| a | 31 |\n| b | 12 |\n| Total | {} |\n", "45", "43"),
    (Rule::Total, "", "| Part | X | Y |\n|---|---:|---:|\n| a | 2.0 | 5.0 |\n| b | 4.0 | 7.0 |\n| Mean | {} | 6.0 |\n", "3.5", "3.0"),
    (Rule::Total, "", "{} hosts were used:\n\n- north\n- south\n- east\n", "Four", "Three"),
    (Rule::Total, "", "We tried {} schedules (open, closed, mixed).", "four", "three"),
    (Rule::Relation, "", "| Host | Before ms | After ms | Ratio |\n|---|---:|---:|---:|\n| a | 90.0 | 30.0 | 3.00 |\n| b | 55.0 | 20.0 | {} |\n", "3.15", "2.75"),
    (Rule::Relation, "", "| Host | P50 | P90 | P99 |\n|---|---:|---:|---:|\n| a | 4 | 9 | 15 |\n| b | 5 | 8 | {} |\n", "6", "17"),
    (Rule::Claim, TABLE, "Otter is faster than Stoat on {}.", "every host", "three hosts"),
    (Rule::Claim, TABLE, "Stoat wins {} hosts.", "3 of 4", "1 of 4"),
    (Rule::Claim, TABLE, "On east-8 Otter is {} faster than Stoat.", "31%", "17%"),
    (Rule::Claim, TABLE, "On south-4 Stoat reaches {} req/s.", "391", "371"),
    (Rule::Claim, LADDER, "The outer site peaks at {}.", "u=4", "u=2"),
    (Rule::Claim, STATISTICS, "Yield falls to a {} of 0.47 at u=8.", "median", "mean"),
    (Rule::Structure, "", "See [the hosts](#{}).\n\n## Hosts\n\n## Rates\n", "hardware", "hosts"),
    (Rule::Structure, "", "| a | b |\n|---|---|\n| 1 | 2 {} |\n", "| 3", ""),
];

/// Statements that no rule reads: the text around one, the statement with its false words, and with the true ones.
#[rustfmt::skip]
const UNREAD: &[(&str, &str, &str, &str)] = &[
    ("", "It ran from 08:15 to 11:45, for {} hours.", "5", "3.5"),
    ("", "The peak of 90.0 req/s dips to 60.0 req/s — a {} drop from the peak.", "40%", "33%"),
    ("", "| Part | Files |\n|---|---|\n| a | 14 / 14 |\n| b | {} |\n", "5 / 4", "3 / 4"),
    ("", "| Rank | Router | ns/op |\n|---|---|---|\n| 1 | a | 588 |\n| 2 | b | 712 |\n| 3 | c | 742 |\n| 4 | d | {} |\n", "3372 |\n| 5 | e | 948", "948 |\n| 5 | e | 3372"),
    ("", "| Metric | Kite | Wren | Winner |\n|---|---|---|---|\n| Throughput | 2115 | 1702 | Kite |\n| Latency | 74 | 131 | {} |\n| Errors | 3 | 5 | Kite |\n", "Wren", "Kite"),
    (TABLE, "On east-8 Otter and Stoat reach {} req/s, respectively.", "255 and 298", "298 and 255"),
    (TABLE, "On average, the Otter hosts reach {} req/s.", "312", "290.25"),
    (LADDER, "At u=1 the inner site keeps {} of its peak.", "60%", "36%"),
    ("", "Complete runs:\n\n- a\n- b\n\nLost runs:\n\n- c\n- {}\n", "b", "d"),
    ("", "## Contents\n\n1. Setup\n2. {}\n\n## 1. Setup\n\nText.\n\n## 2. Results\n\nText.\n", "Related work", "Results"),
];

#[test]
fn a_statement_that_no_rule_reads_is_reported_in_neither_form() {
    for (before, form, wrong, right) in UNREAD {
        for words in [wrong, right] {
            let text = format!("# Report\n\n{before}{}\n", form.replace("{}", words));
            let audit = audit("r.md", &text, &[]);
            assert!(audit.findings.is_empty(), "{form}\n{audit}");
            assert!(audit.to_string().contains("no findings in "), "{audit}");
        }
    }
}

#[test]
fn a_false_statement_is_found_and_its_true_twin_is_not() {
    for (rule, before, form, wrong, right) in STATEMENTS {
        let findings_of = |words: &str| {
            audit(
                "r.md",
                &format!("# Report\n\n{before}{}\n", form.replace("{}", words)),
                &[],
            )
        };
        let (bad, good) = (findings_of(wrong), findings_of(right));
        assert!(
            bad.findings.iter().any(|finding| finding.rule == *rule),
            "{rule}: {form}\n{bad}"
        );
        assert!(good.findings.is_empty(), "{form}\n{good}");
    }
}

#[test]
fn a_difference_may_be_off_by_the_rounding_of_both_terms() {
    let findings = |equation: &str| {
        let text = format!("# Report\n\nIt leaves {equation}.\n");
        audit("r.md", &text, &[]).findings.len()
    };
    // As 10.44 − 3.15, 20.04 − 1.96 × 2.96 and 12.04 − 8.96 / 2.04 are printed.
    for (terms, within, beyond) in [
        ("10.4 − 3.2", "7.29", "7.35"),
        ("20.0 − 2.0 × 3.0", "14.24", "14.35"),
        ("12.0 − 9.0 / 2.0", "7.65", "7.75"),
    ] {
        let off = |result: &str| findings(&format!("{terms} = {result}"));
        assert_eq!((off(within), off(beyond)), (0, 1), "{terms}");
    }
}

#[test]
fn a_sentence_with_a_condition_that_the_table_lacks_is_not_held_against_it() {
    for condition in [
        "With batching off,",
        "Without warm-up,",
        "In the second release,",
        "If throttled,",
    ] {
        let text = format!("{TABLE}{condition} on south-4 Stoat reaches 391 req/s.\n");
        assert!(audit("r.md", &text, &[]).findings.is_empty(), "{condition}");
    }
}

#[test]
fn a_number_of_a_neighbouring_column_that_the_sentence_names_too_is_not_a_contradiction() {
    let table = "| Run | Planned | Ok | Rows expected |\n|---|---:|---:|---:|\n| nightly | 320 | 318 | 4,736 |\n";
    let findings = |prose: &str| {
        let text = format!("{prose}\n\n{table}");
        audit("report.md", &text, &[]).findings.len()
    };
    assert_eq!(
        findings("For the cells that ended, 4,736 measured rows were planned."),
        0,
        "the rows that were planned are those expected"
    );
    assert_eq!(
        findings("For the cells that ended, 4,835 measured rows were planned."),
        1
    );
}

#[test]
fn comments_and_code_are_no_prose_and_no_tables() {
    for text in [
        "<!-- | a | b |\n|---|---|\n| 1 | 2 | 3 | -->\n",
        "```\nfell from 80 ms to 60 ms, a 40% drop\n| a | b |\n|---|---|\n| 1 | 2 | 3 |\n```\n",
        "Run `6 × 5 = 31` in a shell.\n",
        "    | a | b |\n    |---|---|\n    | 1 | 2 | 3 |\n",
    ] {
        let audit = audit("r.md", text, &[]);
        assert_eq!(
            (audit.findings.len(), audit.tables),
            (0, 0),
            "{text}\n{audit}"
        );
    }
}

#[test]
fn a_second_header_within_a_table_begins_another_table() {
    let document = Document::parse(
        "| a | b |\n|---|---|\n| x | 1 |\n| c | d | e |\n|---|---|---|\n| y | 2 | 3 |\n",
    );
    let widths: Vec<usize> = document
        .tables
        .iter()
        .map(|table| table.columns.len())
        .collect();
    assert_eq!((widths, document.lost.len()), (vec![2, 3], 0));
}

#[test]
fn findings_of_one_cause_are_one_group() {
    let rows = "| 1 | 2 | 3 |\n".repeat(12);
    let audit = audit("r.md", &format!("| a | b |\n|---|---|\n{rows}"), &[]);
    assert_eq!((audit.findings.len(), audit.causes().len()), (12, 1));
    let said = audit.to_string();
    assert!(
        said.contains("and 7 more of the same cause") && said.contains("12 findings of 1 cause"),
        "{said}"
    );
}
