//! Long notes that several rows of a comparison share.

use artifacts::{Column, Table};

use crate::generic::{squeezed, with_table};

/// The metrics of the rows of a comparison.
const METRICS: [&str; 4] = ["ttft_ms_p50", "ttft_ms_p90", "tpot_ms_p50", "tpot_ms_p90"];

/// A comparison with a row for each verdict and note, each of a metric of its own.
fn comparison(rows: &[(&str, &str)]) -> Table {
    comparison_of(&METRICS, rows)
}

/// A comparison with a row for each verdict and note.
fn comparison_of(metrics: &[&str], rows: &[(&str, &str)]) -> Table {
    let many = |text: &'static str| vec![Some(text); rows.len()];
    let float = |name: &str, value: f64| Column::float(name, vec![Some(value); rows.len()]);
    let columns = vec![
        Column::int("clients", (0..rows.len() as i64).map(Some)),
        Column::text(
            "metric",
            (0..rows.len()).map(|i| Some(metrics[i % metrics.len()])),
        ),
        Column::text("a", many("batched")),
        Column::text("b", many("serial")),
        Column::text("verdict", rows.iter().map(|row| Some(row.0))),
        Column::text(
            "verdict_reason",
            rows.iter()
                .map(|row| Some(row.1).filter(|note| !note.is_empty())),
        ),
        Column::text("higher", many("serial")),
        Column::text("unit", many("ms")),
        float("mean_a", 4.5),
        float("mean_b", 5.5),
        Column::text("scale", many("ratio")),
        float("effect", 1.25),
        float("adjusted_low", 0.75),
        float("adjusted_high", 1.75),
        Column::text("unit_of_replication", many("block")),
        Column::int("n", vec![Some(5); rows.len()]),
    ];
    Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap()
}

const CONDITIONS: &str = "the sides were measured under different conditions: foreign-threads: more with serial (threads \
     that ran or waited for a processor)";

#[test]
fn a_long_note_that_several_rows_share_is_written_once_in_the_summary_and_once_in_a_table() {
    let rows = [("undecidable", CONDITIONS); 3];
    let text = with_table("comparison", &comparison(&rows));
    let (summary, _) = text.split_once("## Method").unwrap();
    let of_summary = format!("Note on each *undecidable*: {CONDITIONS}.");
    assert_eq!(summary.matches(&of_summary).count(), 1, "{text}");
    let of_table = format!("*verdict reason*, note a: {CONDITIONS}.");
    assert_eq!(summary.matches(&of_table).count(), 1, "{text}");
    assert_eq!(
        squeezed(summary)
            .matches("| undecidable | note a |")
            .count(),
        3,
        "{text}"
    );
    // In the summary: the sentences and the table, each once.
    assert_eq!(summary.matches(CONDITIONS).count(), 2, "{text}");
}

#[test]
fn rows_whose_note_is_not_that_of_all_rows_with_their_verdict_refer_to_it_by_a_letter() {
    let rows = [
        ("undecidable", CONDITIONS),
        ("undecidable", "few units"),
        ("different", CONDITIONS),
        ("different", ""),
    ];
    let text = with_table("comparison", &comparison(&rows));
    let (summary, _) = text.split_once("## Method").unwrap();
    assert_eq!(summary.matches(". Note a.").count(), 2, "{text}");
    assert!(
        summary.contains(&format!("\nNote a: {CONDITIONS}.\n")),
        "{text}"
    );
    assert_eq!(summary.matches("Note: few units.").count(), 1, "{text}");
}

#[test]
fn a_summary_that_counts_verdicts_has_the_note_that_all_undecidable_rows_share() {
    let rows = [("undecidable", CONDITIONS); 3];
    let text = with_table("comparison", &comparison_of(&METRICS[..1], &rows));
    let (summary, _) = text.split_once("## Method").unwrap();
    let lines = format!(
        "- **ttft_ms_p50**, 3 comparisons: 3 *undecidable*.\n\nNote on each *undecidable*: {CONDITIONS}.\n"
    );
    assert!(summary.contains(&lines), "{text}");
    let rows = [
        ("undecidable", CONDITIONS),
        ("undecidable", "few units"),
        ("no evidence", ""),
    ];
    let text = with_table("comparison", &comparison_of(&METRICS[..1], &rows));
    let (summary, _) = text.split_once("## Method").unwrap();
    assert!(
        summary.contains("3 comparisons: 1 *no evidence*; 2 *undecidable*.\n"),
        "{text}"
    );
    assert!(!summary.contains("Note on each"), "{text}");
}
