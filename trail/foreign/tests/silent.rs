//! Sentences whose numbers resemble a cell and are another number: a bound, another statistic, another subject. Nothing
//! may be reported, and the twin that misquotes a cell must be. Also the words of messages.

use foreign::audit;

const BOATS: &str = "## Boats\n\n| Boat | Wait (ms) | Draw (W) | Gain (tok/s) | Cost ($) |\n|---|---:|---:|---:|---:|\n| Skiff | 564 | 82 | 310 | 1,250 |\n| Yawl | 523 | 347 | 627 | 2,980 |\n| Ketch | 378 | 391 | 512 | 4,320 |\n| Sloop | 202 | 687 | 871 | 7,640 |\n\n";

/// A true sentence, and one with the same words that misquotes a cell.
#[rustfmt::skip]
const TWINS: &[(&str, &str)] = &[
    // A bound.
    ("Ketch, which many like, keeps its wait under 478 ms.", "Ketch, which many like, has a wait of 478 ms."),
    ("Yawl misses the objective of 323 ms of wait.", "Yawl, as many know, has 323 ms of wait."),
    ("Sloop, a loud boat, draws more than 587 W.", "Sloop, a loud boat, draws 587 W."),
    // Another statistic.
    ("The p99 wait of Ketch, which many like, is 478 ms.", "The wait of Ketch, which many like, is 478 ms."),
    ("The worst draw of Yawl, as crews know, is 397 W.", "The draw of Yawl, as crews know, is 397 W."),
    // Another subject, time, source or circumstance.
    ("On the smaller lake card Ketch shows a wait of 278 ms.", "Ketch, which many like, shows a wait of 278 ms."),
    ("Last year Ketch had a wait of 278 ms.", "As many know, Ketch has a wait of 278 ms."),
    ("A lone sailor sees 278 ms of wait on Ketch.", "Many sailors see 278 ms of wait on Ketch."),
    ("For 8k prompts Ketch has 278 ms of wait.", "For Ketch, as many know, 278 ms of wait is normal."),
    ("With two fans, Ketch costs 4,370 dollars.", "Ketch, which many like, costs 4,370 dollars."),
    ("Half of the crews on Ketch wait for 278 ms or longer.", "Crews on Ketch wait happily for 278 ms."),
    ("The vendor quotes 278 ms for the wait of Ketch.", "Sailors praise the wait of Ketch, 278 ms."),
    // Each half of an *and* has its own column, and a column may be named like a word of change.
    ("From Skiff to Yawl draw rose by 323% and cost by 138%.", "From Skiff to Yawl draw rose by 323% and price by 188%."),
    ("From Yawl to Ketch the gain fell by 18% and cost rose by 45%.", "From Yawl to Ketch the gain fell by 88% and price rose by 45%."),
    // Against the mean, and the share of a column.
    ("The mean draw is 377 W; Sloop, a loud boat, is 82% above it.", "From Ketch to Sloop, a loud boat, the draw rose by 78%."),
    ("Ketch, which many like, takes 26.0% of all waits.", "From Ketch to Sloop, as many know, the draw rose by 76.7%."),
];

fn findings(sentence: &str) -> usize {
    let audit = audit("r.md", &format!("# Report\n\n{BOATS}{sentence}\n"), &[]);
    audit.findings.len()
}

#[test]
fn a_number_that_only_resembles_a_cell_is_not_reported_and_a_misquoted_cell_is() {
    let wrong: Vec<String> = TWINS
        .iter()
        .map(|(right, wrong)| (right, findings(right), wrong, findings(wrong)))
        .filter(|(_, right, _, wrong)| (*right, *wrong) != (0, 1))
        .map(|case| format!("{case:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The messages about a document.
fn messages(text: &str) -> Vec<String> {
    let audit = audit("r.md", text, &[]);
    audit.findings.into_iter().map(|f| f.message).collect()
}

#[test]
fn a_change_is_read_from_the_old_column_to_the_new_one() {
    let text = "| Sails | Two (tok/s) | One (tok/s) | Change |\n|---|---:|---:|---:|\n| a | 2,050 | 2,080 | 1.5% |\n| b | 4,010 | 4,400 | 79.7% |\n";
    assert_eq!(
        messages(text),
        [
            "`Change` is the change from `Two (tok/s)` to `One (tok/s)` in 1 other row; here that gives 9.7%"
        ]
    );
}

#[test]
fn a_total_of_all_columns_is_not_taken_for_a_sum_of_two() {
    let table = |total: &str| {
        format!(
            "| Case | Done | Open | Lost | Total |\n|---|---:|---:|---:|---:|\n| a | 97 | 1 | 0 | 98 |\n| b | 239 | 3 | 0 | 242 |\n| c | 716 | 10 | 0 | {total} |\n| d | 1,192 | 24 | 0 | 1,216 |\n| e | 1,610 | 118 | 2 | 1,730 |\n"
        )
    };
    assert!(messages(&table("726")).is_empty());
    assert_eq!(
        messages(&table("762")),
        ["the cells to its left give 726, not 762"]
    );
}

#[test]
fn a_message_has_the_digits_and_signs_of_the_report() {
    let message = |sentence: &str| messages(&format!("# Report\n\n{BOATS}{sentence}\n"));
    assert_eq!(
        message("Waits fell from 80 ms to 60 ms, a 40% drop."),
        ["40% does not follow from 80 ms and 60 ms: the change is −25%, the factor 0.75"]
    );
    assert_eq!(
        message("As many know, Ketch has a wait of 278 ms."),
        ["the table gives 378 ms here"]
    );
}
