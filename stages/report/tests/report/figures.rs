//! Figures: reproducible, and linked to their rows.

use serde_json::{Value, json};

use artifacts::{Column, Scalar, Table};
use pipeline::stage::{Artifact, CellStatus, Coordinates, Input, InputCell, Media};

use crate::fixture::{Lab, Templates, bytes, coordinates};

fn cell(lab: &Lab, at: Coordinates, tables: &[(&str, Table)]) -> InputCell {
    let artifact = |table: &Table| {
        let bytes = table.to_parquet().unwrap();
        let digest = lab.store.put(&bytes).unwrap();
        Artifact {
            digest,
            media: Media::Parquet,
            bytes: bytes.len() as u64,
            rows: Some(table.rows() as u64),
        }
    };
    InputCell {
        coordinates: at,
        status: CellStatus::Ok,
        reason: None,
        parameters: json!({}),
        outputs: tables
            .iter()
            .map(|(name, t)| ((*name).to_owned(), artifact(t)))
            .collect(),
        record: None,
        live: None,
    }
}

/// The study with tables that only figures use.
fn lab() -> Lab {
    let mut lab = Lab::new();
    let configurations: Vec<_> = ["batched", "serial"]
        .into_iter()
        .flat_map(|c| [Some(c); 5])
        .collect();
    let scaling = Table::new(vec![
        Column::text("configuration", configurations),
        Column::int("concurrency", [1, 2, 4, 8, 16, 1, 2, 4, 8, 16].map(Some)),
        Column::float(
            "throughput",
            [24.0, 46.0, 79.0, 121.0, 160.0, 21.0, 25.0, 27.5, 28.0, 29.0].map(Some),
        )
        .unit("tok/s"),
    ]);
    let fit = Table::new(vec![
        Column::text(
            "configuration",
            [
                Some("batched"),
                Some("batched"),
                Some("serial"),
                Some("serial"),
            ],
        ),
        Column::text(
            "parameter",
            [Some("vmax"), Some("k"), Some("vmax"), Some("k")],
        ),
        Column::text("model", [Some("vmax · x ÷ (k + x)"); 4]),
        Column::float("value", [253.0, 9.1, 29.9, 0.4].map(Some)),
        Column::float("ci_low", [240.0, 8.0, 29.0, 0.3].map(Some)),
        Column::float("ci_high", [267.0, 10.3, 30.8, 0.5].map(Some)),
        Column::float("std_error", [Some(4.4), Some(0.38), None, None]),
        Column::text(
            "covariances",
            [Some("19.36 1.4"), Some("1.4 0.1444"), None, None],
        ),
    ]);
    let models = ["small-1b", "middle-8b", "large-70b"];
    let breaks = Table::new(vec![
        Column::text(
            "model",
            models
                .into_iter()
                .flat_map(|m| [Some(m); 3])
                .take(8)
                .collect::<Vec<_>>(),
        ),
        Column::text(
            "workload",
            ["short", "long", "shared"]
                .map(Some)
                .into_iter()
                .cycle()
                .take(8)
                .collect::<Vec<_>>(),
        ),
        Column::int(
            "breakdown_n",
            [
                None,
                Some(16),
                Some(32),
                Some(16),
                Some(4),
                Some(16),
                Some(4),
                Some(2),
            ],
        ),
    ]);
    let savings = Table::new(vec![
        Column::text(
            "change",
            [
                "CUDA graphs of all batch sizes at once",
                "a prefix cache that keeps every block of the system prompt",
                "no chunked prefill",
            ]
            .into_iter()
            .flat_map(|change| [Some(change); 2]),
        ),
        Column::text("engine", ["one", "two"].map(Some).repeat(3)),
        Column::float(
            "saved",
            [
                Some(12.5),
                Some(8.0),
                Some(31.0),
                None,
                Some(-4.5),
                Some(-0.5),
            ],
        )
        .unit("%"),
        Column::float("low", [11.0, 7.5, 28.0, 0.0, -6.0, -1.5].map(Some)).unit("%"),
        Column::float("high", [14.0, 8.5, 34.0, 0.0, -3.0, 0.5].map(Some)).unit("%"),
    ]);
    let tradeoff = Table::with_metadata(
        vec![
            Column::text(
                "engine",
                ["one", "one", "one", "two", "two", "two"].map(Some),
            ),
            Column::text(
                "quantisation",
                ["q4", "q8", "f16", "q4", "q8", "f16"].map(Some),
            ),
            Column::float(
                "throughput",
                [161.0, 120.0, 70.0, 190.0, 133.0, 60.0].map(Some),
            )
            .unit("tok/s"),
            Column::float("ttft", [210.0, 260.0, 420.0, 340.0, 390.0, 610.0].map(Some)).unit("ms"),
            Column::float("memory", [4.9, 8.5, 16.1, 5.2, 9.0, 17.3].map(Some)).unit("GiB"),
        ],
        &[("keys", "engine,quantisation")],
    );
    let tables = [
        ("scaling", scaling),
        ("fit", fit),
        ("breaks", breaks),
        ("tradeoff", tradeoff),
        ("savings", savings),
    ];
    let tables: Vec<(&str, Table)> = tables
        .into_iter()
        .map(|(name, t)| (name, t.unwrap()))
        .collect();
    let shapes = cell(&lab, coordinates(&[]), &tables);
    let mut cells = Vec::new();
    for (n, seconds) in [(1, 30), (2, 18), (4, 11)] {
        let times: Vec<i64> = (0..seconds * 2).collect();
        let busy = |t: &i64| {
            (*t != 9).then(|| (0.2 * n as f64 + 0.1 * ((t * 7) % 5) as f64 / 5.0).min(1.0))
        };
        let table = Table::new(vec![
            Column::int("at_ns", times.iter().map(|t| Some(t * 500_000_000))).unit("ns"),
            Column::float("busy", times.iter().map(busy)).unit("1"),
        ]);
        let at = coordinates(&[("concurrency", Scalar::Int(n))]);
        cells.push(cell(&lab, at, &[("host", table.unwrap())]));
    }
    lab.inputs.push(Input {
        stage: "shapes".into(),
        kind: "analyze".into(),
        needs: Vec::new(),
        cells: vec![shapes],
    });
    lab.inputs.push(Input {
        stage: "telemetry".into(),
        kind: "load".into(),
        needs: Vec::new(),
        cells,
    });
    lab
}

fn draw(settings: &Value) -> Result<String, String> {
    let settings = json!({"template": "t.md", "figures": {"f": settings}});
    let done = lab().render(&settings, &Templates::one("{{ figure(\"f\") }}"));
    done.map(|d| String::from_utf8(bytes(&d, "figures/f.svg")).unwrap())
        .map_err(|f| f.reason)
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
        "box" => json!({
            "kind": "box", "table": "ladder.requests", "x": "configuration", "y": "e2e_ms",
            "title": "Latency", "caption": "Each point a request.",
        }),
        "box-log" => json!({
            "kind": "box", "table": "ladder.requests", "x": "concurrency", "y": "e2e_ms", "log-y": true,
            "series": "configuration", "title": "Latency", "caption": "Each point a request.",
        }),
        "matrix" => json!({
            "kind": "matrix", "table": "shapes.breaks", "x": "workload", "y": "model", "value": "breakdown_n",
            "title": "Where each pair breaks", "caption": "Where it falls below the threshold.",
        }),
        "bar" => json!({
            "kind": "bar", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
            "series": "configuration", "band": ["low", "high"], "where": {"workload": "short-decode"},
            "title": "Efficiency", "caption": "From zero.", "format": "0.00",
        }),
        "bar-lying" => json!({
            "kind": "bar", "table": "shapes.savings", "x": "change", "y": "saved", "series": "engine",
            "band": ["low", "high"], "title": "Savings", "caption": "From zero.", "format": "+0.0",
        }),
        "bubble" => json!({
            "kind": "bubble", "table": "shapes.tradeoff", "x": "ttft", "y": "throughput", "value": "memory",
            "series": "engine", "label": "quantisation", "title": "Trade-off", "caption": "More is up, sooner is left.",
        }),
        "timeline" => json!({
            "kind": "timeline", "table": "telemetry.host", "x": "at_ns", "y": "busy",
            "title": "Processors busy", "caption": "Cells side by side.",
        }),
        "fit" => json!({
            "kind": "fit", "table": "shapes.scaling", "fit": "shapes.fit", "x": "concurrency", "y": "throughput",
            "series": "configuration", "title": "Saturation", "caption": "Dashed beyond the points.",
            "format": "0.0",
        }),
        _ => json!({
            "kind": "forest", "table": "results.comparison", "x": "delta", "y": "workload",
            "band": ["ci_low", "ci_high"], "title": "Deltas", "caption": "Batched − serial.", "format": "+0.00",
        }),
    }
}

const KINDS: [&str; 12] = [
    "bar",
    "bar-lying",
    "ladder",
    "ecdf",
    "heat-map",
    "forest",
    "box",
    "box-log",
    "matrix",
    "bubble",
    "timeline",
    "fit",
];

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to look at the figures"
)]
fn each_kind_of_figure_is_drawn_as_before() {
    for kind in KINDS {
        let svg = draw(&settings(kind)).unwrap();
        if let Ok(folder) = std::env::var("FIGURES_OUT") {
            std::fs::write(
                std::path::Path::new(&folder).join(format!("{kind}.svg")),
                &svg,
            )
            .unwrap();
        }
        insta::assert_snapshot!(format!("figure_{kind}"), svg);
    }
}

#[test]
fn a_logarithmic_axis_says_so() {
    let titles = |kind: &str, more: &[(&str, Value)]| {
        let mut settings = settings(kind);
        for (key, value) in more {
            settings[*key] = value.clone();
        }
        draw(&settings).unwrap().matches(", log</text>").count()
    };
    // A ladder has a logarithmic x, and its single panel one title for each axis.
    assert_eq!(titles("ladder", &[]), 1);
    assert_eq!(titles("ladder", &[("log-y", json!(true))]), 2);
    assert_eq!(titles("ladder", &[("x-label", json!("clients, log2"))]), 0);
    assert_eq!(titles("box", &[]), 0);
    assert_eq!(titles("box-log", &[]), 1);
    assert_eq!(titles("ecdf", &[]), 0);
    assert_eq!(titles("ecdf", &[("log-x", json!(true))]), 1);
    assert_eq!(titles("bubble", &[]), 0);
    assert_eq!(titles("bubble", &[("log-x", json!(true))]), 1);
    let mut scatter = settings("bubble");
    scatter["kind"] = json!("scatter");
    for key in ["value", "label"] {
        scatter.as_object_mut().unwrap().remove(key);
    }
    assert!(!draw(&scatter).unwrap().contains(", log</text>"));
    (scatter["log-x"], scatter["log-y"]) = (json!(true), json!(true));
    assert_eq!(draw(&scatter).unwrap().matches(", log</text>").count(), 2);
}

#[test]
fn every_mark_of_a_ladder_names_its_row() {
    let svg = draw(&settings("ladder")).unwrap();
    for row in 0..6 {
        assert_eq!(svg.matches(&format!("data-row=\"{row}\"")).count(), 1);
    }
}

#[test]
fn labels_that_are_bare_numbers_are_shown_with_what_they_count() {
    let mut settings = settings("ladder");
    settings["x"] = json!("serial_reference");
    settings["series"] = json!("concurrency");
    settings["facet"] = json!("configuration");
    let svg = draw(&settings).unwrap();
    assert!(svg.contains(">concurrency 4</text>"), "{svg}");
    assert!(
        svg.contains(">batched</text>") && !svg.contains("configuration batched"),
        "{svg}"
    );
}

#[test]
fn a_column_that_is_not_there_is_said() {
    let mut wrong = settings("ladder");
    wrong["y"] = json!("speed");
    let error = draw(&wrong).unwrap_err();
    assert!(
        error.starts_with("figure `f`: `results.efficiency` has no column `speed`"),
        "{error}"
    );
}

#[test]
fn every_kind_of_figure_says_what_each_mark_is_and_where_it_comes_from() {
    for kind in KINDS {
        let svg = draw(&settings(kind)).unwrap();
        assert!(svg.contains("data-table=\"b3:"), "{kind}");
        let marks = svg.lines().filter(|l| l.contains("data-row=\""));
        assert!(marks.clone().count() > 0 || kind == "ecdf", "{kind}");
        for mark in marks {
            assert!(
                mark.contains("<title>") && !mark.contains("<title></title>"),
                "{kind}: {mark}"
            );
        }
    }
}

#[test]
fn what_a_figure_cannot_show_is_said() {
    let error = |kind: &str, key: &str, value: &str| {
        let mut wrong = settings(kind);
        wrong[key] = json!(value);
        draw(&wrong).unwrap_err()
    };
    let message = error("timeline", "x", "busy");
    assert!(
        message.ends_with("column `busy` has the unit 1, but a time line needs ns, us, ms or s"),
        "{message}"
    );
    let message = error("fit", "fit", "shapes.scaling");
    assert!(
        message.contains("`shapes.scaling` has no column `parameter`"),
        "{message}"
    );
    let message = error("matrix", "y", "workload");
    assert!(
        message.contains("two rows for short and short"),
        "{message}"
    );
    let mut overlaid = settings("ladder");
    overlaid.as_object_mut().unwrap().remove("series");
    let message = draw(&overlaid).unwrap_err();
    assert!(
        message.contains("there are two rows for concurrency 1 of one curve ("),
        "{message}"
    );
    assert!(
        message.ends_with("narrow the figure with `where`, or add `series`"),
        "{message}"
    );
    let message = error("bubble", "value", "engine");
    assert!(
        message.contains("column `engine` holds `one`, not a number"),
        "{message}"
    );
}

#[test]
fn the_ceiling_of_a_fit_is_shown_with_its_interval() {
    let svg = draw(&settings("fit")).unwrap();
    assert!(svg.contains("serial: vmax 29.9 [29.0, 30.8]"), "{svg}");
}

#[test]
fn a_fitted_curve_has_a_band_where_its_table_has_covariances() {
    let svg = draw(&settings("fit")).unwrap();
    let bands = |class: &str| {
        svg.lines()
            .filter(|l| l.starts_with("<path") && l.contains(class))
            .count()
    };
    assert_eq!((bands("band c0"), bands("band c1")), (1, 0), "{svg}");
    assert!(
        svg.lines()
            .any(|l| l.starts_with("<rect") && l.contains("band c1")),
        "the interval of its ceiling"
    );
}

#[test]
fn a_null_in_a_heat_map_has_the_word_declared() {
    let mut settings = settings("heat-map");
    settings["value"] = json!("low");
    assert!(draw(&settings).unwrap().contains(">n/a<"));
    settings["null"] = json!("not told");
    assert!(draw(&settings).unwrap().contains(">not told<"));
}

#[test]
fn a_time_line_has_a_gap_where_a_value_is_missing() {
    let svg = draw(&settings("timeline")).unwrap();
    let lines = svg
        .lines()
        .filter(|l| l.starts_with("<path") && l.contains("line c0"));
    assert_eq!(lines.count(), 6, "three cells, one value missing in each");
}

/// Renders a figure of samples of a GPU, which one ok cell has; returns the report and the figure.
fn of_samples(gpu: Option<&Table>, figure: &Value) -> (String, String) {
    let mut lab = lab();
    let input = lab.inputs.iter_mut().find(|i| i.kind == "load").unwrap();
    let stage = input.stage.clone();
    if let Some(table) = gpu {
        let artifact = crate::fixture::store_table(&lab.store, table);
        let ok = input.cells.iter_mut().find(|c| c.status == CellStatus::Ok);
        let outputs = &mut ok.unwrap().outputs;
        outputs.insert("gpu_telemetry".to_owned(), artifact);
    }
    let mut figure = figure.clone();
    figure["table"] = json!(format!("{stage}.gpu_telemetry"));
    figure["title"] = json!("Power");
    figure["caption"] = json!("Over time");
    let settings = json!({"template": "t.md", "figures": {"watts": figure}});
    let templates = Templates::one("{{ figure(\"watts\") }}\n");
    let done = lab.render(&settings, &templates).unwrap();
    let svg = String::from_utf8(bytes(&done, "figures/watts.svg")).unwrap();
    (crate::fixture::markdown(&done), svg)
}

fn power(watts: [Option<f64>; 2]) -> Table {
    let columns = vec![
        Column::int("at_ns", [Some(1_000_000_000), Some(2_000_000_000)]).unit("ns"),
        Column::float("power_w", watts).unit("W"),
    ];
    Table::new(columns).unwrap()
}

#[test]
fn a_figure_of_samples_that_no_cell_has_is_empty_and_says_why() {
    let timeline = json!({"kind": "timeline", "x": "at_ns", "y": "power_w"});
    let (text, svg) = of_samples(None, &timeline);
    let caption = "Power. Over time. *No data: no GPU was sampled.*";
    assert!(text.contains(caption), "{text}");
    assert!(svg.contains("No data: no GPU was sampled"), "{svg}");
    let distribution = json!({"kind": "ecdf", "x": "power_w"});
    for figure in [&timeline, &distribution] {
        let (text, _) = of_samples(Some(&power([None, None])), figure);
        assert!(text.contains("no row has a value of `power_w`"), "{text}");
        // A cell without samples does not remove the figure of the cells that have some.
        let (text, svg) = of_samples(Some(&power([Some(300.0), Some(300.0)])), figure);
        assert!(!text.contains("No data") && svg.contains("Power"), "{text}");
    }
}

#[test]
fn a_rung_without_a_value_has_a_cross_and_the_caption_says_so() {
    let ladder = json!({"kind": "ladder", "x": "at_ns", "y": "power_w"});
    let crosses = |watts| {
        let (text, svg) = of_samples(Some(&power(watts)), &ladder);
        (
            svg.matches("no value: ").count(),
            text.contains("Cross: no value."),
        )
    };
    assert_eq!(crosses([Some(300.0), Some(310.0)]), (0, false));
    assert_eq!(crosses([Some(300.0), None]), (1, true));
}

#[test]
fn a_figure_that_leaves_rows_without_a_value_out_says_so() {
    for figure in [
        json!({"kind": "ecdf", "x": "power_w"}),
        json!({"kind": "scatter", "x": "at_ns", "y": "power_w"}),
        json!({"kind": "box", "x": "at_ns", "y": "power_w"}),
    ] {
        let says = |watts| {
            let (text, _) = of_samples(Some(&power(watts)), &figure);
            text.contains("Rows without a value are left out.")
        };
        assert!(says([Some(300.0), None]), "{figure}");
        assert!(!says([Some(300.0), Some(310.0)]), "{figure}");
    }
}
