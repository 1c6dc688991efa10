//! Footnotes of tables and figures about the cells that they lack.

use artifacts::{Column, Scalar, Table};
use contract::{LineageRow, LineageSource, lineage_table};
use pipeline::stage::{Coordinates, MissingCell};
use serde_json::{Value, json};

use crate::fixture::{Lab, Templates, bytes, cell, coordinates, markdown, store_table, trace};

fn at(configuration: &str, clients: i64, rep: i64) -> Coordinates {
    coordinates(&[
        ("configuration", Scalar::Text(configuration.to_owned())),
        ("clients", Scalar::Int(clients)),
        ("rep", Scalar::Int(rep)),
    ])
}

fn missing(cells: &[(Coordinates, &str)]) -> String {
    let cells = cells.iter().map(|(coordinates, reason)| MissingCell {
        coordinates: coordinates.clone(),
        reason: (*reason).to_owned(),
    });
    serde_json::to_string(&cells.collect::<Vec<_>>()).unwrap()
}

/// Means over repetitions of two configurations at one, two and four clients. `serial` has no row at four, because all
/// of its repetitions are missing.
fn means(note: &str) -> Table {
    let configurations = ["batched", "batched", "batched", "serial", "serial"];
    Table::with_metadata(
        vec![
            Column::text("configuration", configurations.map(Some)),
            Column::int("clients", [1, 2, 4, 1, 2].map(Some)),
            Column::float("throughput", [10.0, 19.0, 35.0, 10.0, 10.5].map(Some)).unit("tok/s"),
        ],
        &[("keys", "configuration,clients"), ("missing", note)],
    )
    .unwrap()
}

/// Speedups relative to one client: each row depends on its own mean and that of one client.
fn speedups(note: &str) -> (Table, Table) {
    let table = Table::with_metadata(
        vec![
            Column::text("configuration", ["batched", "batched", "serial"].map(Some)),
            Column::int("clients", [2, 4, 2].map(Some)),
            Column::float("speedup", [1.9, 3.5, 1.05].map(Some))
                .unit("1")
                .over("clients = N", "clients = 1"),
        ],
        &[("keys", "configuration,clients"), ("missing", note)],
    );
    let spans = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 3), (2, 4)];
    let means = LineageSource::from("means");
    let lineage = lineage_table(spans.iter().map(|(row, start)| LineageRow {
        row: *row,
        source: &means,
        start: *start,
        end: start + 1,
    }));
    (table.unwrap(), lineage.unwrap())
}

fn lab(cells: &[(Coordinates, &str)]) -> Lab {
    let mut lab = Lab::new();
    let note = missing(cells);
    let (speedups, lineage) = speedups(&note);
    let outputs = [
        ("means", means(&note)),
        ("speedups", speedups),
        ("speedups.lineage", lineage),
    ];
    let outputs = outputs
        .iter()
        .map(|(name, table)| (*name, store_table(&lab.store, table)))
        .collect();
    lab.inputs[3].cells = vec![cell(coordinates(&[]), outputs)];
    lab
}

fn settings(from: &str, column: &str) -> Value {
    json!({"template": "t.md", "tables": {"t": {
        "from": from, "caption": "Some rows.",
        "columns": [{"column": "configuration"}, {"column": "clients"}, {"column": column}],
    }}})
}

fn shown(lab: &Lab, settings: &Value) -> String {
    let done = lab
        .render(settings, &Templates::one("{{ table(\"t\") }}"))
        .map_err(|f| f.reason)
        .unwrap();
    markdown(&done)
}

#[test]
fn a_row_that_lacks_a_cell_has_a_marker_and_a_footnote_with_the_reason() {
    let lab = lab(&[(at("batched", 4, 2), "timeout: the cell's time limit passed")]);
    let text = shown(&lab, &settings("results.means", "throughput"));
    assert!(text.contains("| batchedᵃ      |       4 |"), "{text}");
    assert_eq!(text.matches('ᵃ').count(), 2, "{text}");
    let note =
        "ᵃ Without configuration=batched,clients=4,rep=2 (timeout: the cell's time limit passed).";
    assert!(text.contains(note), "{text}");
}

#[test]
fn a_footnote_is_traced_to_the_note_of_its_table() {
    let lab = lab(&[(
        at("batched", 4, 2),
        "gate row-status: 2 of 8 requests failed",
    )]);
    let done = lab
        .render(
            &settings("results.means", "throughput"),
            &Templates::one("{{ table(\"t\") }}"),
        )
        .map_err(|f| f.reason)
        .unwrap();
    let trace = trace(&done);
    let row = trace
        .text("column")
        .unwrap()
        .iter()
        .position(|c| *c == Some("missing"))
        .unwrap();
    let digest = lab.inputs[3].cells[0].outputs["means"].digest.to_string();
    assert_eq!(trace.text("artifact").unwrap()[row], Some(digest.as_str()));
    assert_eq!(
        trace.text("row_key").unwrap()[row],
        Some("configuration=batched,clients=4,rep=2")
    );
    assert_eq!(
        trace.text("value").unwrap()[row],
        Some("gate row-status: 2 of 8 requests failed")
    );
}

#[test]
fn a_row_lacks_what_its_anchor_lacks() {
    let lab = lab(&[(at("batched", 1, 2), "failed: refused")]);
    let text = shown(&lab, &settings("results.speedups", "speedup"));
    assert_eq!(text.matches("batchedᵃ").count(), 2, "{text}");
    assert!(!text.contains("serialᵃ"), "{text}");
}

#[test]
fn cells_without_a_row_are_listed_together_below_the_table() {
    let reason = "hung: no byte for 60 s";
    let lab = lab(&[(at("serial", 4, 1), reason), (at("serial", 4, 2), reason)]);
    let text = shown(&lab, &settings("results.means", "throughput"));
    let note = "Not in a row: configuration=serial,clients=4,rep=1|2 (hung: no byte for 60 s).";
    assert!(text.contains(note), "{text}");
    let mut narrow = settings("results.means", "throughput");
    narrow["tables"]["t"]["where"] = json!({"configuration": "batched"});
    assert!(
        !shown(&lab, &narrow).contains("hung"),
        "a footnote about rows that are not asked for"
    );
}

#[test]
fn what_every_row_lacks_needs_no_marker() {
    let reason = "skipped: no such server";
    let lab = lab(&[(at("batched", 2, 1), reason), (at("serial", 2, 1), reason)]);
    let mut narrow = settings("results.means", "throughput");
    narrow["tables"]["t"]["where"] = json!({"clients": 2});
    let text = shown(&lab, &narrow);
    let note =
        "Rows without: configuration=batched|serial,clients=2,rep=1 (skipped: no such server).";
    assert!(text.contains(note) && !text.contains('ᵃ'), "{text}");
    narrow["tables"]["t"]["where"] = json!({"clients": 2, "configuration": "serial"});
    let text = shown(&lab, &narrow);
    assert!(
        text.contains("Rows without: configuration=serial,clients=2,rep=1"),
        "{text}"
    );
    assert!(!text.contains('ᵃ'), "{text}");
}

#[test]
fn a_table_that_lacks_nothing_has_no_footnote() {
    let text = shown(&lab(&[]), &settings("results.means", "throughput"));
    assert!(text.trim_end().ends_with('|'), "{text}");
}

#[test]
fn many_reasons_are_grouped_by_their_kind() {
    let cells: Vec<(Coordinates, String)> = (1..=6)
        .map(|rep| {
            (
                at("batched", 4, rep),
                format!("gate row-status: {rep} requests failed"),
            )
        })
        .collect();
    let cells: Vec<(Coordinates, &str)> =
        cells.iter().map(|(c, r)| (c.clone(), r.as_str())).collect();
    let text = shown(&lab(&cells), &settings("results.means", "throughput"));
    assert!(
        text.contains("rep=1|2|3|4|5|6 (gate row-status)."),
        "{text}"
    );
}

#[test]
fn each_reason_has_its_marker_and_is_written_in_full_once() {
    let lab = lab(&[
        (at("batched", 2, 1), "hung: no byte for 60 s"),
        (at("batched", 4, 1), "gate row-status: 3 requests failed"),
        (at("batched", 4, 2), "hung: no byte for 60 s"),
    ]);
    let template = "{{ table(\"t\") }}\n\n{{ table(\"u\") }}";
    let mut settings = settings("results.means", "throughput");
    settings["tables"]["u"] = settings["tables"]["t"].clone();
    let done = lab
        .render(&settings, &Templates::one(template))
        .map_err(|f| f.reason)
        .unwrap();
    let text = markdown(&done);
    let lines: Vec<&str> = text.lines().filter(|l| l.contains(" Without ")).collect();
    assert_eq!(
        lines,
        [
            "ᵃ Without configuration=batched,clients=2,rep=1; \
             configuration=batched,clients=4,rep=2 (hung: no byte for 60 s).",
            "ᵇ Without configuration=batched,clients=4,rep=1 (gate row-status: 3 requests failed).",
            "ᵃ Without configuration=batched,clients=2,rep=1; configuration=batched,clients=4,rep=2 (hung).",
            "ᵇ Without configuration=batched,clients=4,rep=1 (gate row-status).",
        ]
    );
    assert_eq!(text.matches("batchedᵃᵇ").count(), 2, "{text}");
}

#[test]
fn to_leave_footnotes_out_is_itself_visible() {
    let mut settings = settings("results.means", "throughput");
    settings["tables"]["t"]["no-footnotes"] = json!("the ledger lists them");
    let text = shown(&lab(&[(at("batched", 4, 2), "timeout")]), &settings);
    assert!(
        text.contains("Cells are missing here and are not listed: the ledger lists them."),
        "{text}"
    );
    assert!(!text.contains('ᵃ'), "{text}");
    assert!(
        !shown(&lab(&[]), &settings).contains("not listed"),
        "nothing is missing"
    );
}

#[test]
fn a_figure_says_what_it_was_drawn_without() {
    let lab = lab(&[
        (at("batched", 4, 2), "timeout"),
        (at("serial", 4, 1), "hung"),
    ]);
    let settings = json!({"template": "t.md", "figures": {"f": {
        "kind": "ladder", "table": "results.means", "x": "clients", "y": "throughput",
        "series": "configuration", "title": "Throughput", "caption": "Means.",
    }}});
    let done = lab
        .render(&settings, &Templates::one("{{ figure(\"f\") }}"))
        .map_err(|f| f.reason)
        .unwrap();
    let text = markdown(&done);
    assert!(
        text.contains("Drawn without: configuration=batched,clients=4,rep=2 (timeout)."),
        "{text}"
    );
    assert!(
        text.contains("Not drawn: configuration=serial,clients=4,rep=1 (hung)."),
        "{text}"
    );
    assert!(
        text.contains("Means. Hollow mark: cells are missing from it. Cross: no value."),
        "{text}"
    );
    let page = String::from_utf8(bytes(&done, "html")).unwrap();
    assert!(page.contains("Not drawn"));
    // The mark of the row that lacks a cell, and the place of the missing row.
    let hollow: Vec<&str> = page
        .lines()
        .filter(|l| l.contains("class=\"hollow "))
        .collect();
    assert!(
        hollow.len() == 1 && hollow[0].contains("data-row=\"2\""),
        "{hollow:?}"
    );
    let crosses: Vec<&str> = page
        .lines()
        .filter(|l| l.contains("class=\"gone c1\""))
        .collect();
    assert!(
        crosses.len() == 1 && crosses[0].contains("configuration=serial,clients=4"),
        "{crosses:?}"
    );
}

#[test]
fn a_figure_that_lacks_nothing_explains_no_marks() {
    let settings = json!({"template": "t.md", "figures": {"f": {
        "kind": "ladder", "table": "results.means", "x": "clients", "y": "throughput",
        "series": "configuration", "title": "Throughput", "caption": "Means.",
    }}});
    let done = lab(&[])
        .render(&settings, &Templates::one("{{ figure(\"f\") }}"))
        .map_err(|f| f.reason)
        .unwrap();
    assert!(
        markdown(&done).trim_end().ends_with("Throughput. Means."),
        "{}",
        markdown(&done)
    );
}

#[test]
fn a_table_of_a_measurement_lacks_the_cells_that_the_ledger_says_are_not_ok() {
    use pipeline::stage::CellStatus;
    let mut lab = Lab::new();
    let mut gone = lab.inputs[2].cells[0].clone();
    gone.coordinates = coordinates(&[
        ("configuration", Scalar::Text("batched".to_owned())),
        ("concurrency", Scalar::Int(4)),
    ]);
    (gone.status, gone.outputs) = (CellStatus::Timeout, std::collections::BTreeMap::new());
    lab.inputs[2].cells.push(gone);
    let settings = json!({"template": "t.md", "tables": {"t": {
        "from": "ladder.requests", "caption": "Requests.", "columns": [{"column": "e2e_ms"}],
    }}});
    let text = shown(&lab, &settings);
    let note = "configuration=batched,concurrency=4 (timeout: the cell's time limit passed)";
    assert!(text.contains(note), "{text}");
}
