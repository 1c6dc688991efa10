//! Tables with the values of one column side by side.

use serde_json::{Value, json};

use crate::fixture::{Lab, Templates, markdown, trace};

fn table(columns: &Value, pivot: &Value) -> Result<pipeline::stage::Done, String> {
    let settings = json!({
        "template": "t.md",
        "tables": {"side": {
            "from": "results.efficiency", "columns": columns, "pivot": pivot,
            "order": ["configuration", "concurrency"], "caption": "Side by side.",
        }},
    });
    Lab::new()
        .render(
            &settings,
            &Templates::one("# Title\n\n{{ table(\"side\") }}\n"),
        )
        .map_err(|f| f.reason)
}

#[test]
fn values_of_a_column_become_columns_and_stay_traced() {
    let done = table(
        &json!([{"column": "configuration"}]),
        &json!({"by": "concurrency", "values": [{"column": "efficiency", "format": "0.000"}]}),
    )
    .unwrap();
    let text = markdown(&done);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|')
            .split('|')
            .map(|c| c.trim().to_owned())
            .collect()
    };
    let head = cells(lines[0]);
    assert_eq!(
        head[..3],
        ["configuration", "concurrency 1", "concurrency 2"],
        "{text}"
    );
    assert_eq!(cells(lines[2]).len(), head.len(), "{text}");
    assert_eq!(cells(lines[2])[0], "batched");
    // Each value, and each number in a heading, leads to its row.
    let traced = trace(&done);
    let columns = traced.text("column").unwrap();
    let count = |name: &str| columns.iter().filter(|c| **c == Some(name)).count();
    let levels = head.len() - 1;
    assert_eq!(count("concurrency"), levels, "{text}");
    assert_eq!(count("efficiency"), levels * (lines.len() - 2), "{text}");
}

#[test]
fn several_values_share_a_heading_and_a_hole_has_a_word() {
    let done = table(
        &json!([{"column": "concurrency"}]),
        &json!({"by": "configuration", "absent": "not run",
                "values": [{"column": "efficiency", "format": "0.00"}, {"column": "low", "to": "high", "format": "0.00"}]}),
    )
    .unwrap();
    let text = markdown(&done);
    assert!(
        text.contains("batched efficiency") && text.contains("serial interval"),
        "{text}"
    );
}

#[test]
fn a_single_value_side_by_side_says_its_unit() {
    let side = |value: Value| {
        let columns = json!([{"column": "concurrency"}]);
        let pivot = json!({"by": "configuration", "values": [value]});
        markdown(&table(&columns, &pivot).unwrap())
    };
    let text = side(json!({"column": "e2e_p95", "format": "0.0"}));
    assert!(text.contains("batched (ms)"), "{text}");
    // A ratio has no unit, and a declared heading is used as it is.
    let text = side(json!({"column": "efficiency", "format": "0.0%"}));
    assert!(!text.contains("batched ("), "{text}");
    let text = side(json!({"column": "e2e_p95", "heading": "tail", "format": "0.0"}));
    assert!(!text.contains("batched ("), "{text}");
}

#[test]
fn two_rows_in_one_place_are_refused_with_the_column_that_tells_them_apart() {
    let error = table(
        &json!([{"column": "configuration", "heading": "who"}]),
        &json!({"by": "configuration", "values": [{"column": "efficiency", "format": "0.00"}]}),
    )
    .map(|_| ())
    .unwrap_err();
    assert!(
        error.contains("two rows of the table have the place configuration=")
            && error.contains("add `concurrency` to `columns`"),
        "{error}"
    );
}
