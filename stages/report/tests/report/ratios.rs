//! Ratios name both of their sides.

use artifacts::{Column, Table};
use serde_json::json;

use crate::fixture::{Lab, Templates, cell, coordinates, markdown, store_table, trace};

fn lab() -> Lab {
    let mut lab = Lab::new();
    let table = Table::with_metadata(
        vec![
            Column::text("workload", ["short", "long"].map(Some)),
            Column::float("ratio", [1.8, 0.9].map(Some))
                .unit("1")
                .over("batched", "serial"),
            Column::float("low", [1.003, 0.8].map(Some))
                .unit("1")
                .over("batched", "serial"),
            Column::float("high", [1.9, 0.9996].map(Some))
                .unit("1")
                .over("batched", "serial"),
            Column::float("bare", [1.8, 0.9].map(Some)).unit("1"),
            Column::float("share", [0.18, 0.09].map(Some)).unit("1"),
        ],
        &[("keys", "workload")],
    );
    let outputs = vec![("deltas", store_table(&lab.store, &table.unwrap()))];
    lab.inputs[3].cells = vec![cell(coordinates(&[]), outputs)];
    lab
}

const RATIO: &str = r#"{{ value("results.deltas", {"workload": "short"}, "ratio", "0.0×") }}"#;

#[test]
fn a_factor_of_a_column_without_sides_is_refused_with_the_remedy() {
    let text =
        r#"batched, serial {{ value("results.deltas", {"workload": "short"}, "bare", "0.0×") }}"#;
    let error = lab().render_text(text).unwrap_err();
    assert!(
        error.contains("t.md:1:") && error.contains("does not name its sides"),
        "{error}"
    );
    assert!(error.contains("`ratios:` of the operator `sql`"), "{error}");
}

#[test]
fn a_factor_needs_both_sides_in_its_paragraph() {
    let lab = lab();
    for good in [
        format!("The batched server gives {RATIO} what the serial one gives."),
        format!("The *Batched* server gives {RATIO} what\nthe `serial` one gives."),
        format!("{RATIO} ({{{{ sides(\"results.deltas\", \"ratio\") }}}})"),
        format!("- batched over serial: {RATIO}\n- something else"),
        format!("Batched over serial.\n\n| a |\n|---|\n| {RATIO} |"),
    ] {
        assert!(
            lab.render_text(&good).is_ok(),
            "{good}: {:?}",
            lab.render_text(&good)
        );
    }
    for bad in [
        format!("The batched server gives {RATIO} as much."),
        format!("Of batched and serial servers.\n\nIt gives {RATIO} as much."),
        format!("- batched over serial\n- and that is {RATIO}"),
        format!("## Gains of {RATIO}\n\nBatched and serial."),
    ] {
        let error = lab.render_text(&bad).unwrap_err();
        assert!(
            error.contains("the factor check refuses 1 factor"),
            "{bad}: {error}"
        );
        assert!(
            error.contains("`1.8×`: a factor whose sides are not named nearby"),
            "{error}"
        );
    }
}

#[test]
fn sides_of_a_column_that_is_no_ratio_are_an_error() {
    let error = lab()
        .render_text(r#"{{ sides("results.deltas", "bare") }}"#)
        .unwrap_err();
    assert!(
        error.contains("`bare` of `results.deltas` does not name any sides"),
        "{error}"
    );
}

#[test]
fn a_table_of_ratios_says_what_is_over_what_unless_its_heading_does() {
    let lab = lab();
    let table = |heading: &str| {
        let settings = json!({"template": "t.md", "tables": {"t": {
            "from": "results.deltas", "caption": "Pairs.",
            "columns": [{"column": "workload"}, {"column": "ratio", "format": "0.0×", "heading": heading}],
        }}});
        let done = lab
            .render(&settings, &Templates::one("{{ table(\"t\") }}"))
            .map_err(|f| f.reason)
            .unwrap();
        (markdown(&done), trace(&done))
    };
    let (text, trace) = table("Gain");
    assert!(
        text.contains("\n*Gain* is a ratio: batched ÷ serial.\n"),
        "{text}"
    );
    let sides: Vec<_> = trace
        .text("numerator")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(sides, ["batched", "batched"]);
    assert!(!table("Batched over serial").0.contains('÷'));
}

#[test]
fn an_interval_that_excludes_one_never_looks_as_if_it_included_it() {
    let text = r#"{% for row in rows("results.deltas") %}
batched ÷ serial {{ row.interval("low", "high", "0.00×") }}

{% endfor %}"#;
    let settings = json!({"template": "t.md"});
    let done = lab().render(&settings, &Templates::one(text)).unwrap();
    let text = markdown(&done);
    assert!(text.contains("[1.003×, 1.90×]"), "{text}");
    assert!(text.contains("[0.80×, 0.9996×]"), "{text}");
    let formats = trace(&done);
    let formats = formats.text("format").unwrap();
    assert!(
        formats.contains(&Some("0.000×")) && formats.contains(&Some("0.0000×")),
        "the trace has the formats in use: {formats:?}"
    );
    let declared = json!({
        "template": "t.md",
        "tables": {"t": {"from": "results.deltas", "caption": "Batched over serial.", "columns": [
            {"column": "workload"},
            {"column": "low", "to": "high", "format": "0.00×", "heading": "Interval"},
        ]}},
        "figures": {"f": {
            "kind": "forest", "table": "results.deltas", "x": "ratio", "y": "workload", "band": ["low", "high"],
            "reference": 1, "title": "Ratios", "caption": "Batched over serial.", "format": "0.00×",
        }},
    });
    let templates = Templates::one("{{ table(\"t\") }}\n\n{{ figure(\"f\") }}\n");
    let done = lab().render(&declared, &templates).unwrap();
    assert!(
        markdown(&done).contains("[1.003×, 1.90×]"),
        "{}",
        markdown(&done)
    );
    let svg = crate::fixture::bytes(&done, "figures/f.svg");
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("0.90× [0.80×, 0.9996×]"), "{svg}");
}
