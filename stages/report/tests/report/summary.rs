//! The summary of a report: its comparisons and rankings, and what its claims rest on.

use std::collections::BTreeMap;

use artifacts::{Column, Table};
use serde_json::{Value, json};

use crate::fixture::{markdown, store_table};
use crate::generic::{lab, shipped, squeezed, with_table};

#[test]
fn the_summary_has_the_comparisons_and_the_results_do_not_repeat_them() {
    let table = Table::new(vec![
        Column::text("metric", [Some("output_throughput")]),
        Column::text("a", [Some("batched")]),
        Column::text("b", [Some("serial")]),
        Column::float("mean_delta", [Some(4.25)]),
        Column::text("verdict", [Some("confirmed")]),
    ])
    .unwrap();
    let text = with_table("comparison", &table);
    let (before, after) = text.split_once("## Method").unwrap();
    assert!(
        before.contains("4.250") && before.contains("| confirmed |"),
        "{text}"
    );
    assert!(!after.contains("confirmed"), "{text}");
}

/// The rows of a comparison, in the form of the analysis.
fn compared(verdict: &str, higher: Option<&str>, reason: Option<&str>) -> Table {
    sides("batched", verdict, higher, reason)
}

/// The same rows with a different first side.
fn sides(a: &str, verdict: &str, higher: Option<&str>, reason: Option<&str>) -> Table {
    let number = |name: &str, value: f64| Column::float(name, [Some(value)]).unit("ms");
    let text = |name: &str, value: &str| Column::text(name, [Some(value.to_owned())]);
    let columns = vec![
        text("metric", "ttft_ms_p50"),
        text("unit", "ms"),
        text("a", a),
        text("b", "serial"),
        Column::int("n", [Some(8)]),
        number("mean_a", 17.25),
        number("mean_b", 2663.5),
        number("mean_delta", -2646.25),
        text("scale", "difference"),
        number("effect", -2646.25),
        number("adjusted_low", -3193.0)
            .describe("lower end of the interval at the level of its step"),
        number("adjusted_high", -218.5),
        text("unit_of_replication", "block"),
        text("family", "all columns (2 tests)"),
        Column::text("higher", [higher]),
        text("verdict", verdict),
        Column::text("verdict_reason", [reason]),
    ];
    Table::with_metadata(columns, &[("keys", "metric")]).unwrap()
}

#[test]
fn the_summary_says_which_side_is_better_by_how_much_and_of_how_many() {
    let text = with_table("comparison", &compared("different", Some("serial"), None));
    let sentence = "- **ttft_ms_p50**: *different*, lower and so better on *batched*. *batched* − *serial* is \
                    −2,646 ms, interval [−3,193, −218.5]; the means are 17.25 and 2,664 ms, over n = 8 units \
                    (block).";
    assert!(text.contains(sentence), "{text}");
    assert!(
        squeezed(&text).contains("| unit | n | batched (ms) | serial (ms) |"),
        "{text}"
    );
    assert!(
        text.contains("*adjusted interval (ms)*: interval at the level of its step"),
        "{text}"
    );
    assert!(
        text.contains(
            "Family of tests (Holm): all columns (2 tests). Unit of replication: block. n = 8."
        ),
        "{text}"
    );
    // If no difference was shown, no side is called higher.
    let text = with_table(
        "comparison",
        &compared(
            "no evidence",
            Some("serial"),
            Some("smallest detectable effect 90 ms"),
        ),
    );
    assert!(
        text.contains("- **ttft_ms_p50**: *no evidence*. *batched* − *serial* is −2,646 ms")
            && text.contains("(block). Note: smallest detectable effect 90 ms.")
            && !text.contains("better on"),
        "{text}"
    );
}

#[test]
fn a_summary_counts_the_verdicts_of_a_long_table_and_says_if_there_is_none() {
    let row = |i: i64| (i, if i < 3 { "different" } else { "no evidence" });
    let rows: Vec<(i64, &str)> = (0..11).map(row).collect();
    let text =
        |name: &str, value: &str| Column::text(name, rows.iter().map(|_| Some(value.to_owned())));
    let number = |name: &str| Column::float(name, rows.iter().map(|_| Some(1.5)));
    let columns = vec![
        Column::int("clients", rows.iter().map(|r| Some(r.0))),
        text("metric", "ttft_ms_p50"),
        text("unit", "ms"),
        text("a", "batched"),
        text("b", "serial"),
        Column::int("n", rows.iter().map(|_| Some(8))),
        number("mean_a"),
        number("mean_b"),
        text("scale", "ratio"),
        number("effect"),
        number("adjusted_low"),
        number("adjusted_high"),
        text("unit_of_replication", "block"),
        text("family", "all columns (11 tests)"),
        Column::text(
            "higher",
            rows.iter()
                .map(|r| Some(if r.0 == 1 { "serial" } else { "batched" })),
        ),
        Column::text("verdict", rows.iter().map(|r| Some(r.1))),
        Column::text("verdict_reason", rows.iter().map(|_| None::<String>)),
    ];
    let table = Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap();
    let text = with_table("comparison", &table);
    assert!(
        text.contains("compares *batched* with *serial*, by clients.\n\n- **ttft_ms_p50**, 11 comparisons: 2 *different*, lower and so better on *serial*, *batched* ÷ *serial* 1.50 to 1.50; 1 *different*, lower and so better on \
             *batched*, *batched* ÷ *serial* 1.50; 8 *no evidence*.\n"),
        "{text}"
    );
    let nothing = Table::with_metadata(
        vec![
            Column::text("side", [Some("a")]),
            Column::float("cost_per_million_tokens", [Some(2.5)]).unit("EUR"),
        ],
        &[("keys", "side")],
    );
    // The name of a column belongs to the table, even if it contains a number.
    let text = with_table("price", &nothing.unwrap());
    assert!(text.contains("cost per million tokens (EUR)"), "{text}");
    assert!(
        text.contains("The analysis compares no sides with each other"),
        "{text}"
    );
}

#[test]
fn a_ranking_shows_its_ranks_and_a_fit_its_parameters() {
    let int = |name: &str| Column::int(name, [Some(2)]);
    let mut columns = vec![
        Column::text("server", [Some("a")]),
        int("n"),
        int("units"),
        int("rank"),
    ];
    columns.push(Column::float("output_throughput", [Some(10.0)]));
    columns.extend((0..12).map(|i| int(&format!("more_{}", (b'a' + i) as char))));
    let table = Table::with_metadata(columns, &[("keys", "server")]).unwrap();
    let text = squeezed(&with_table("places", &table));
    assert!(text.contains("| server | n | units | rank |"), "{text}");
}

#[test]
fn the_summary_begins_with_what_the_claims_rest_on_and_ends_with_the_a_a_arm() {
    let mut lab = lab();
    lab.study.spec["design"] =
        json!({"control": {"axis": "configuration", "label": "batched", "as": "batched-again"}});
    let mut add = |name: &str, a: &str| {
        let table = sides(a, "no evidence", None, None);
        let artifact = store_table(&lab.store, &table);
        let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
        results.cells[0].outputs.insert(name.to_owned(), artifact);
    };
    add("aa", "batched-again");
    add("beside", "batched");
    add("claimed", "batched");
    let rule = json!({"different": {"table": "results.claimed", "where": {}}});
    let claims = BTreeMap::from([(
        "slower".to_owned(),
        json!({"says": "It is slower.", "rule": rule}),
    )]);
    let mut order = |claims: BTreeMap<String, Value>| {
        lab.study.spec["claims"] = serde_json::to_value(&claims).unwrap();
        let library = crate::claims::Study {
            templates: shipped(),
            claims,
        };
        let done = lab.render_with(&json!({}), &library);
        let text = markdown(&done.map_err(|f| f.reason).unwrap());
        let (summary, _) = text.split_once("## Method").unwrap();
        let at = |label: &str| summary.find(label).unwrap();
        let shows: Vec<&str> = summary
            .lines()
            .filter_map(|l| l.split("quickstart.yaml results.").nth(1))
            .collect();
        assert_eq!(shows.len(), 3, "{summary}");
        assert!(at("batched-again") > at("serial"), "{summary}");
        shows
            .iter()
            .map(|name| name.trim_end_matches("`.").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(order(BTreeMap::new()), ["beside", "claimed", "aa"]);
    assert_eq!(order(claims), ["claimed", "beside", "aa"]);
}

#[test]
fn of_two_comparisons_the_one_of_the_whole_study_comes_first_and_has_no_means_of_unlike_cells() {
    let mut lab = lab();
    let mut add = |name: &str, rows: usize, pairs: i64| {
        let many = |text: &'static str| vec![Some(text); rows];
        let float = |name: &str, value: f64| Column::float(name, vec![Some(value); rows]);
        let whole = |name: &str, value: i64| Column::int(name, vec![Some(value); rows]);
        let columns = vec![
            Column::int("clients", (0..rows as i64).map(Some).collect::<Vec<_>>()),
            Column::text("metric", many("ttft_ms_p50")),
            Column::text("a", many("batched")),
            Column::text("b", many("serial")),
            Column::text("verdict", many("no evidence")),
            Column::text("verdict_reason", vec![None::<&str>; rows]),
            Column::text("higher", many("serial")),
            Column::text("unit", many("ms")),
            float("mean_a", 4.5),
            float("mean_b", 5.5),
            Column::text("scale", many("ratio")),
            float("effect", 1.25),
            float("adjusted_low", 0.75),
            float("adjusted_high", 1.75),
            Column::text("unit_of_replication", many("block")),
            whole("n", 5),
            whole("pairs", pairs),
        ];
        let table = Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap();
        let artifact = store_table(&lab.store, &table);
        let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
        results.cells[0].outputs.insert(name.to_owned(), artifact);
    };
    add("by_cell", 2, 5);
    add("overall", 1, 15);
    let done = lab.render(&json!({}), &shipped());
    let text = markdown(&done.map_err(|f| f.reason).unwrap());
    let (summary, _) = text.split_once("## Method").unwrap();
    let at = |words: &str| {
        summary
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {summary}"))
    };
    assert!(
        at("`results.overall`") < at("`results.by_cell`"),
        "{summary}"
    );
    assert!(
        summary.contains("n = 5 units (block) with 15 matched cells"),
        "{summary}"
    );
    // Where a row averages several coordinates, the sentence says so.
    assert_eq!(summary.matches(" is on average ").count(), 1, "{summary}");
    assert_eq!(
        summary.matches("the means are 4.500 and 5.500 ms").count(),
        2,
        "{summary}"
    );
}

#[test]
fn an_equivalence_names_its_margin_and_the_reason_of_a_verdict_has_room() {
    let mut lab = lab();
    for (name, scale, margin) in [("shares", "ratio", 0.1), ("times", "difference", 5.0)] {
        let many = |text: &'static str| vec![Some(text); 2];
        let float = |name: &str, value: f64| Column::float(name, vec![Some(value); 2]);
        let mut columns = vec![
            Column::int("clients", [Some(1), Some(2)]),
            Column::text("metric", many("ttft_ms_p50")),
            Column::text("a", many("batched")),
            Column::text("b", many("serial")),
            Column::text("verdict", [Some("equivalent"), Some("no evidence")]),
            Column::text("verdict_reason", [None, Some("too few of them")]),
            Column::text("higher", many("serial")),
            Column::text("unit", many("ms")),
            float("mean_a", 4.5),
            float("mean_b", 5.5),
            Column::text("scale", many(scale)),
            float("effect", 1.25),
            float("adjusted_low", 0.75),
            float("adjusted_high", 1.75),
            Column::text("unit_of_replication", many("block")),
            Column::int("n_a", [Some(5), Some(5)]),
            Column::int("n_b", [Some(5), Some(5)]),
            float("margin", margin),
        ];
        columns.extend((0..6).map(|i| float(&format!("further_{i}"), 1.5)));
        let table = Table::with_metadata(columns, &[("keys", "clients,metric")]).unwrap();
        let artifact = store_table(&lab.store, &table);
        let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
        results.cells[0].outputs.insert(name.to_owned(), artifact);
    }
    let done = lab.render(&json!({}), &shipped());
    let text = markdown(&done.map_err(|f| f.reason).unwrap());
    let (summary, _) = text.split_once("## Method").unwrap();
    for part in [
        "*equivalent* within a margin of 0.1000 (a share). *batched* ÷ *serial*",
        "*equivalent* within a margin of 5 ms. *batched* − *serial*",
        "clients 2: *no evidence*. *batched*",
    ] {
        assert!(summary.contains(part), "no `{part}` in:\n{summary}");
    }
    // The sides are in the headings, so the margin, the verdict and its reason find a place.
    let heads = summary
        .lines()
        .filter(|line| line.starts_with("| clients | metric"));
    let heads: Vec<&str> = heads.collect();
    assert_eq!(heads.len(), 2, "{summary}");
    for head in heads {
        for column in [" batched ", " margin", " verdict ", " verdict reason "] {
            assert!(squeezed(head).contains(column), "no `{column}` in {head}");
        }
    }
}

#[test]
fn the_summary_names_the_first_of_a_ranking_and_whom_it_is_not_told_apart_from() {
    let mut lab = lab();
    let columns = vec![
        Column::int("clients", [Some(1), Some(1), Some(2), Some(2)]),
        Column::text("system", [Some("x"), Some("y"), Some("x"), Some("y")]),
        Column::int("rank", [Some(1), Some(2), Some(2), Some(1)]),
        Column::int("rank_shown", [Some(1), Some(2), Some(1), Some(1)]),
        Column::text("not_told_apart_from", [None, None, Some("y"), Some("x")]),
        Column::int("n", vec![Some(2); 4]),
    ];
    let table = Table::with_metadata(columns, &[("keys", "clients,system")]).unwrap();
    let artifact = store_table(&lab.store, &table);
    let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
    results.cells[0]
        .outputs
        .insert("places".to_owned(), artifact);
    let done = lab.render(&json!({}), &shipped());
    let text = markdown(&done.map_err(|f| f.reason).unwrap());
    let (summary, _) = text.split_once("## Method").unwrap();
    for part in [
        "- `results.places`, clients 1, system x: rank 1, told apart from the other.",
        "- `results.places`, clients 2, system y: rank 1, not told apart from x.",
    ] {
        assert!(summary.contains(part), "no `{part}` in:\n{summary}");
    }
    assert!(!summary.contains("highest measured"), "{summary}");
}

#[test]
fn only_arrivals_at_declared_rates_are_said_to_follow_a_schedule() {
    let schedule = "Requests arrived on a schedule";
    let summary = |arrivals: [Value; 2]| {
        let mut lab = lab();
        let load = lab.inputs.iter_mut().find(|i| i.kind == "load").unwrap();
        for (cell, arrival) in load.cells.iter_mut().zip(arrivals) {
            cell.parameters = json!({"arrival": arrival});
        }
        let columns = vec![
            Column::int("rep", [Some(1), Some(2)]),
            Column::float("output_throughput", [Some(8.0), Some(9.0)]).unit("tok/s"),
            Column::float("ttft_ms_p50", [Some(5.0), Some(6.0)]).unit("ms"),
        ];
        let table = Table::with_metadata(columns, &[("keys", "rep")]).unwrap();
        let artifact = store_table(&lab.store, &table);
        let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
        results.cells[0]
            .outputs
            .insert("cells".to_owned(), artifact);
        let done = lab.render(&json!({}), &shipped());
        let text = markdown(&done.map_err(|f| f.reason).unwrap());
        text.split_once("## Method").unwrap().0.to_owned()
    };
    let by_rate = [
        json!({"constant": {"rate": 5}}),
        json!({"poisson": {"rate": 5}}),
        json!({"gamma": {"rate": 5, "burstiness": 0.5}}),
        json!({"steps": {"rates": [1, 2], "each": "10 s"}}),
        json!({"ramp": {"from": 1, "to": 2, "over": "10 s"}}),
        json!({"trace": {"file": "trace.csv"}}),
    ];
    for arrival in by_rate {
        let text = summary([arrival.clone(), arrival.clone()]);
        assert!(text.contains(schedule), "{arrival}: {text}");
        let text = summary([arrival.clone(), json!({"closed-loop": {"clients": 2}})]);
        assert!(!text.contains(schedule), "{arrival}: {text}");
    }
    for arrival in [
        json!("sequential"),
        json!("burst"),
        json!({"closed-loop": {"clients": 2, "think-time": "1 s"}}),
    ] {
        let text = summary([arrival.clone(), arrival.clone()]);
        assert!(!text.contains(schedule), "{arrival}: {text}");
        assert!(
            text.contains("highest measured output throughput"),
            "{text}"
        );
    }
}
