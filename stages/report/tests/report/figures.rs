//! Figures: stable, linked to their rows.

use serde_json::{Value, json};

use crate::fixture::{Lab, Templates, bytes};

fn draw(settings: &Value) -> Result<String, String> {
    let settings = json!({"template": "t.md", "figures": {"f": settings}});
    let done = Lab::new().render(&settings, &Templates::one("{{ figure(\"f\") }}"));
    done.map(|d| String::from_utf8(bytes(&d, "figures/f.svg")).unwrap()).map_err(|f| f.reason)
}

fn settings(kind: &str) -> Value {
    match kind {
        "ladder" => json!({
            "kind": "ladder", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
            "series": "configuration", "facet": "workload", "band": ["low", "high"],
            "reference": "serial_reference", "reference-label": "serial server",
            "title": "Parallel efficiency", "caption": "Bands: range over repetitions.", "format": "0.00",
        }),
        "ecdf" => json!({
            "kind": "ecdf", "table": "ladder.requests", "x": "e2e_ms", "series": "configuration",
            "title": "Latency", "caption": "Each step a request.",
        }),
        "heat-map" => json!({
            "kind": "heat-map", "table": "results.efficiency", "x": "concurrency", "y": "configuration",
            "value": "efficiency", "title": "Efficiency", "caption": "Darker is more.", "format": "0.00",
        }),
        _ => json!({
            "kind": "forest", "table": "results.comparison", "x": "delta", "y": "workload",
            "band": ["ci_low", "ci_high"], "title": "Deltas", "caption": "Batched − serial.", "format": "+0.00",
        }),
    }
}

#[test]
fn each_kind_of_figure_is_drawn_as_before() {
    for kind in ["ladder", "ecdf", "heat-map", "forest"] {
        let svg = draw(&settings(kind)).unwrap();
        if let Ok(folder) = std::env::var("FIGURES_OUT") {
            std::fs::write(std::path::Path::new(&folder).join(format!("{kind}.svg")), &svg).unwrap();
        }
        insta::assert_snapshot!(format!("figure_{kind}"), svg);
    }
}

#[test]
fn every_mark_of_a_ladder_names_its_row() {
    let svg = draw(&settings("ladder")).unwrap();
    for row in 0..6 {
        assert_eq!(svg.matches(&format!("data-row=\"{row}\"")).count(), 1);
    }
}

#[test]
fn a_column_that_is_not_there_is_said() {
    let mut wrong = settings("ladder");
    wrong["y"] = json!("speed");
    let error = draw(&wrong).unwrap_err();
    assert!(error.starts_with("figure `f`: `results.efficiency` has no column `speed`"), "{error}");
}
