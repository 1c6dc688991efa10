//! The template for arbitrary experiments, and the tables derived from the study.

use std::collections::BTreeMap;

use artifacts::{Column, Table};
use pipeline::stage::{Execution, Input};
use pipeline::suggest::searches;
use serde_json::{Value, json};

use crate::fixture::{Lab, Templates, cell, coordinates, markdown, store_table, trace};

pub(crate) fn shipped() -> Templates {
    let texts: BTreeMap<String, String> = report::shipped()
        .into_iter()
        .map(|s| (s.name.to_owned(), s.text.to_owned()))
        .collect();
    Templates(texts)
}

pub(crate) fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.study.spec["name"] = json!("quickstart");
    lab.study.spec["stages"] = json!({
        "server": {"kind": "serve", "settings": {"parallel": "${configuration.slots}"}},
        "ladder": {"kind": "load", "description": "A ladder.", "replicate": []},
    });
    lab
}

/// Returns a text with each run of spaces collapsed.
pub(crate) fn squeezed(text: &str) -> String {
    let lines = text.lines().map(|line| {
        line.split(' ')
            .filter(|w| !w.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn any_experiment_has_a_report_without_a_template_of_its_own() {
    let done = lab()
        .render(&json!({}), &shipped())
        .map_err(|f| f.reason)
        .unwrap();
    let text = markdown(&done);
    for part in [
        "# A study of 2 servers",
        "### `results.efficiency`",
        "## Ledger",
        "## Limits",
        "## Deviations",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn a_column_without_a_value_in_any_row_is_named_with_its_reason() {
    let mut lab = lab();
    let why = "p50 needs 6 values, and 1 metric has at most 4";
    let columns = vec![
        Column::int("clients", [Some(1), Some(2)]),
        Column::float("output_throughput", [Some(3.0), Some(4.0)]).unit("tok/s"),
        Column::float("ttft_ms_p50", [None, None]).unit("ms"),
        Column::float("tpot_ms_p50", [None, None]).unit("ms/tok"),
        Column::float("cost", [None, None]),
        Column::text("cost_why", [Some("no price is declared"), None]),
        Column::float("rent", [None, None]),
        Column::text("rent_why", [Some("no price is declared"), Some("no time")]),
        Column::float("spare", [None, None]),
        Column::text("quantiles_refused", [Some(why), Some(why)]),
    ];
    let table = Table::with_metadata(columns, &[("keys", "clients")]).unwrap();
    let artifact = store_table(&lab.store, &table);
    let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
    results.cells[0].outputs.insert("few".to_owned(), artifact);
    let done = lab.render(&json!({}), &shipped());
    let text = markdown(&done.map_err(|f| f.reason).unwrap());
    for note in [
        format!("No row has a value of *TTFT p50 (ms)*, *TPOT p50 (ms/tok)*: {why}."),
        "No row has a value of *cost*: no price is declared.".to_owned(),
        "No row has a value of *rent*; the column `rent_why` has the reasons.".to_owned(),
    ] {
        assert!(text.contains(&note), "no `{note}` in:\n{text}");
    }
    assert!(!text.contains("*spare*"), "{text}");
}

#[test]
fn a_long_table_takes_no_more_searches_for_similar_names_than_a_short_one() {
    let searched = |rows: usize| {
        let mut lab = lab();
        let columns = vec![
            Column::int("clients", (1..=rows as i64).map(Some)),
            Column::float("output_throughput", vec![Some(3.0); rows]).unit("tok/s"),
            Column::float("ttft_ms_p50", vec![None; rows]).unit("ms"),
            Column::float("spare", vec![None; rows]),
        ];
        let table = Table::with_metadata(columns, &[("keys", "clients")]).unwrap();
        let artifact = store_table(&lab.store, &table);
        let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
        results.cells[0].outputs.insert("few".to_owned(), artifact);
        let before = searches();
        lab.render(&json!({}), &shipped())
            .map_err(|f| f.reason)
            .unwrap();
        searches() - before
    };
    assert_eq!(searched(60), searched(2));
}

#[test]
fn units_that_share_a_launch_are_a_limit_beside_the_verdicts() {
    let text = |on_one_launch: &Value, unit: &Value| {
        let mut lab = lab();
        // Rows drawn from a model have no server that is started, but launches all the same.
        lab.study.spec["stages"]["ladder"] =
            json!({"kind": "load", "needs": [], "on_one_launch": on_one_launch});
        lab.study.spec["stages"]["results"] = json!({"kind": "analyze", "needs": ["ladder"], "settings": {
            "tables": {"means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "unit": unit}}}});
        let done = lab.render(&json!({}), &shipped());
        markdown(&done.map_err(|f| f.reason).unwrap())
    };
    let limit = |units: &str| {
        format!(
            "the servers were not started again for each rep, so the units of {units} share a launch"
        )
    };
    let once = json!(["clients", "rep"]);
    for (unit, limit) in [
        (json!(["rep"]), limit("rep")),
        (json!(["block", "rep"]), limit("block, rep")),
    ] {
        let shared = text(&once, &unit);
        assert!(
            shared.contains(&format!("- **Launches**: {limit}")),
            "{shared}"
        );
        assert!(
            shared.contains(&format!("- *launches* (ladder): {limit}")),
            "{shared}"
        );
    }
    for other in [
        text(&json!(["clients"]), &json!(["rep"])),
        text(&Value::Null, &json!(["rep"])),
        text(&once, &json!(["block"])),
        text(&once, &Value::Null),
    ] {
        assert!(!other.contains("share a launch"), "{other}");
    }
}

#[test]
fn limits_and_deviations_follow_from_the_ledger_and_are_traced() {
    let done = lab()
        .render(&json!({}), &shipped())
        .map_err(|f| f.reason)
        .unwrap();
    let text = squeezed(&markdown(&done));
    for part in [
        "*coverage* (ladder): 2 of 3 planned cells are ok",
        "*censored* (ladder): 1 cells ended at a time limit",
        "*timeout* ladder configuration=batched,concurrency=4: the cell's time limit passed",
        "| facet | configuration=batched | configuration=serial | state |",
        "| server.settings.parallel | 8 | 1 | planned |",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let outputs = trace(&done)
        .text("output")
        .unwrap()
        .iter()
        .filter(|o| **o == Some("limits"))
        .count();
    assert!(outputs > 0);
    assert!(done.outputs.iter().any(|o| o.name == "limits"));
}

#[test]
fn settings_that_an_axis_gives_as_a_whole_are_planned_where_its_labels_differ() {
    let state = |settings: &Value, batched: &Value, overrides: &Value| {
        let mut lab = lab();
        let spec = &mut lab.study.spec;
        spec["stages"]["server"]["settings"] = json!({ "settings": settings });
        spec["overrides"] = overrides.clone();
        spec["axes"]["configuration"] = json!({"labels": [
            {"label": "batched", "fields": {"settings": batched}},
            {"label": "serial", "fields": {"settings": {"parallel": 1, "threads": 2}}},
        ]});
        let done = lab.render(&json!({}), &shipped());
        let text = squeezed(&markdown(&done.map_err(|f| f.reason).unwrap()));
        let row = "| server.settings.parallel | 8 | 1 | ";
        let at = text.find(row).unwrap_or_else(|| panic!("no row in {text}")) + row.len();
        text[at..].split(' ').next().unwrap().to_owned()
    };
    let (unlike, alike) = (json!({"parallel": 8}), json!({"parallel": 1}));
    let whole = json!("${configuration.settings}");
    assert_eq!(state(&whole, &unlike, &json!([])), "planned");
    let merged = json!({"merge": [{"context": 512}, "${configuration.settings}"]});
    assert_eq!(state(&merged, &unlike, &json!([])), "planned");
    let within = json!({"parallel": "${configuration.settings.parallel}"});
    assert_eq!(state(&within, &unlike, &json!([])), "planned");
    // The labels differ in another setting.
    assert_eq!(state(&whole, &alike, &json!([])), "confound");
    assert_eq!(state(&within, &alike, &json!([])), "confound");
    let other =
        |stage: &str| json!([{"where": {"stage": stage}, "set": {"settings": {"parallel": 8}}}]);
    assert_eq!(state(&whole, &alike, &other("server")), "planned");
    assert_eq!(state(&whole, &alike, &other("ladder")), "confound");
}

#[test]
fn a_difference_that_no_axis_sets_is_a_confound() {
    let mut lab = lab();
    lab.study.spec["stages"]["server"]["settings"] = json!({});
    let done = lab
        .render(&json!({}), &shipped())
        .map_err(|f| f.reason)
        .unwrap();
    let text = squeezed(&markdown(&done));
    assert!(
        text.contains("| server.settings.parallel | 8 | 1 | confound |"),
        "{text}"
    );
    assert!(
        text.contains("1 value of the environment differs"),
        "{text}"
    );
}

#[test]
fn the_limits_take_the_source_of_the_rows_from_the_tables_and_not_from_the_plan() {
    let mut lab = lab();
    let said = |lab: &Lab| {
        let done = lab
            .render(&json!({}), &shipped())
            .map_err(|f| f.reason)
            .unwrap();
        let lines = markdown(&done);
        lines
            .lines()
            .filter(|l| l.starts_with("- *source*"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // A setting is only a plan; without a table that names a source, the report does not mention it.
    for cell in &mut lab.inputs[2].cells {
        cell.parameters = json!({"simulate": {"server": "batching"}});
    }
    assert!(said(&lab).is_empty());
    for (cell, source) in lab.inputs[2]
        .cells
        .iter_mut()
        .zip(["simulated", "imported"])
    {
        let facts = Table::new(vec![Column::text("source", [Some(source)])]).unwrap();
        cell.outputs
            .insert("cell".to_owned(), store_table(&lab.store, &facts));
    }
    let from_cells = said(&lab);
    assert_eq!(from_cells.len(), 2, "{from_cells:?}");
    assert!(
        from_cells[0].contains("1 of 2 cells were measured by another tool and imported"),
        "{from_cells:?}"
    );
    assert!(
        from_cells[1].contains("1 of 2 cells come from a declared model"),
        "{from_cells:?}"
    );
    // The counts of verification take precedence: it read the same tables, and is a single table to read.
    let census = |sources: &str| {
        let columns = vec![
            Column::text("stage", [Some("ladder")]),
            Column::text("sources", [Some(sources)]),
        ];
        Table::new(columns).unwrap()
    };
    let checks = |lab: &Lab, sources: &str| {
        let outputs = vec![("census", store_table(&lab.store, &census(sources)))];
        vec![cell(coordinates(&[]), outputs)]
    };
    let cells = checks(&lab, "1 imported, 1 simulated");
    lab.inputs.push(Input {
        stage: "checks".into(),
        kind: "verify".into(),
        needs: Vec::new(),
        cells,
    });
    assert_eq!(said(&lab), from_cells);
    lab.inputs.last_mut().unwrap().cells = checks(&lab, "measured");
    assert!(said(&lab).is_empty());
}

#[test]
fn a_mistake_in_a_partial_or_a_macro_is_reported_with_its_line_and_column() {
    let lab = lab();
    let render = |other: &str, text: &str| {
        let main = r#"{% from "other.md" import f %}{{ f() }}{% include "other.md" %}"#;
        let templates = [("t.md", main), (other, text)].map(|(n, t)| (n.to_owned(), t.to_owned()));
        lab.render(
            &json!({"template": "t.md"}),
            &Templates(BTreeMap::from(templates)),
        )
        .map(|done| markdown(&done))
        .map_err(|f| f.reason)
    };
    let error = render(
        "other.md",
        "{% macro f() %}\n  a {{ nowhere }}{% endmacro %}",
    )
    .unwrap_err();
    assert!(
        error.contains("other.md:2:8: ") && error.contains("nowhere"),
        "{error}"
    );
    let error = render(
        "other.md",
        "{% macro f() %}{% endmacro %}\n\nb {{ value(\"a\", none, \"c\") }}",
    )
    .unwrap_err();
    assert!(error.contains("other.md:3:"), "{error}");
    let error = render(
        "other.md",
        "{% macro f() %}{% endmacro %}\n{{ undefined_function(1) }}",
    )
    .unwrap_err();
    assert!(
        error.contains("other.md:2:") && error.contains("undefined_function"),
        "{error}"
    );
    let error = render("another.md", "").unwrap_err();
    assert!(
        error.starts_with("t.md:1: no template `other.md`"),
        "{error}"
    );
}

/// Returns the default report of a study whose analysis has an additional table.
pub(crate) fn with_table(name: &str, table: &Table) -> String {
    let mut lab = lab();
    let artifact = store_table(&lab.store, table);
    let results = lab.inputs.iter_mut().find(|i| i.kind == "analyze").unwrap();
    results.cells[0].outputs.insert(name.to_owned(), artifact);
    markdown(
        &lab.render(&json!({}), &shipped())
            .map_err(|f| f.reason)
            .unwrap(),
    )
}

#[test]
fn a_study_without_a_title_is_headed_by_its_name() {
    let mut lab = lab();
    lab.study.spec["title"] = json!(null);
    let text = markdown(
        &lab.render(&json!({}), &shipped())
            .map_err(|f| f.reason)
            .unwrap(),
    );
    assert!(text.starts_with("# quickstart\n"), "{text}");
}

#[test]
fn a_table_may_be_named_with_a_word_that_prose_could_not_use() {
    let table = Table::new(vec![Column::float("latency", [Some(1.5)]).unit("ms")]).unwrap();
    assert!(with_table("worst_p99", &table).contains("### `results.worst_p99`"));
}

#[test]
fn a_wide_table_shows_what_readers_look_for_first_and_where_the_rest_is() {
    let fillers: Vec<String> = (0..12).map(|i| format!("filler_{i}")).collect();
    let number = |name: &str| Column::float(name, [Some(2.0), Some(3.0)]);
    let mut columns = vec![Column::int("clients", [Some(1), Some(2)])];
    columns.extend(fillers.iter().map(|name| number(name)));
    columns.extend(["rate_mean", "rate_ci_low", "rate_ci_high"].map(number));
    columns.push(number("output_throughput").unit("tok/s"));
    let text = with_table(
        "wide",
        &Table::with_metadata(columns, &[("keys", "clients")]).unwrap(),
    );
    let heading = text.lines().find(|l| l.contains("clients |")).unwrap();
    let headings: Vec<&str> = heading
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect();
    assert_eq!(
        headings,
        [
            "clients",
            "output throughput (tok/s)",
            "rate mean",
            "rate interval"
        ]
    );
    assert!(text.contains("[2, 2]"), "{text}");
    assert!(
        text.contains("`benchtrail show quickstart.yaml results.wide`"),
        "{text}"
    );
}

#[test]
fn an_aggregate_of_a_single_repetition_shows_its_values_and_that_there_is_one() {
    let mut columns = vec![
        Column::text("configuration", [Some("batched")]),
        Column::text("level", [Some("marginal")]),
        Column::int("n", [Some(1)]),
        Column::text("interval_of", [Some("no replication of launches")]),
    ];
    for (name, unit) in [
        ("output_throughput", "tok/s"),
        ("ttft_ms_p50", "ms"),
        ("tpot_ms_p50", "ms/tok"),
    ] {
        columns.push(Column::int(format!("{name}_n"), [Some(1)]));
        for end in ["mean", "min", "max"] {
            columns.push(Column::float(format!("{name}_{end}"), [Some(4.5)]).unit(unit));
        }
        for end in ["std", "ci_low", "ci_high"] {
            columns.push(Column::float(format!("{name}_{end}"), [None]).unit(unit));
        }
    }
    let table = Table::with_metadata(columns, &[("keys", "configuration")]).unwrap();
    let text = squeezed(&with_table("once", &table));
    let heading = "| configuration | n | output throughput mean (tok/s) | TTFT p50 mean (ms) | TPOT p50 mean (ms/tok) |";
    assert!(text.contains(heading), "{text}");
    assert!(
        text.contains("| batched | 1 | 4.500 | 4.500 | 4.500 |"),
        "{text}"
    );
}

#[test]
fn limits_tell_of_a_machine_that_slowed_itself_down_though_no_gate_asked() {
    let mut lab = lab();
    let limits = |lab: &Lab| {
        let done = lab.render(&json!({}), &shipped());
        let text = markdown(&done.map_err(|f| f.reason).unwrap());
        // The checks name the findings of a gate; the limits have a separate section.
        let (_, limits) = text.split_once("## Limits").unwrap();
        let line = limits.lines().find(|l| l.starts_with("- *throttling*"));
        line.map(str::to_owned)
    };
    assert_eq!(limits(&lab), None);
    let at = || Column::int("at_ns", [Some(0), Some(1), Some(2), Some(3)]);
    let reasons = ["", "idle+display-clocks", "power-cap", "thermal+power-cap"];
    let gpu = Table::new(vec![
        at(),
        Column::text("throttle_reasons", reasons.map(|r| Some(r.to_owned()))),
    ]);
    let counts = [7, 7, 9, 12].map(Some);
    let host = Table::new(vec![at(), Column::int("throttles", counts)]);
    let (gpu, host) = (gpu.unwrap(), host.unwrap());
    for (cell, slowed) in lab.inputs[2].cells.iter_mut().zip([true, false]) {
        let artifact = store_table(&lab.store, if slowed { &gpu } else { &host });
        let name = if slowed {
            "gpu_telemetry"
        } else {
            "host_telemetry"
        };
        cell.outputs.insert(name.to_owned(), artifact);
    }
    let line = limits(&lab).unwrap();
    for part in [
        "the clocks of GPUs were limited in 2 of 4 samples (power-cap, thermal)",
        "processors throttled because of heat 5 times, in 1 cells",
    ] {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
    // A gate for it has its own lines.
    let gate = Table::new(vec![
        Column::text("gate", [Some("throttling")]),
        Column::text("cell", [Some("configuration=batched")]),
        Column::text("outcome", [Some("fail")]),
        Column::text("severity", [Some("warn")]),
        Column::text("observed", [Some("5 slowdowns of processors")]),
        Column::text("expected", [Some("no slowdown for heat or power")]),
    ]);
    let artifact = store_table(&lab.store, &gate.unwrap());
    let checked = cell(coordinates(&[]), vec![("gates", artifact)]);
    lab.inputs.push(Input {
        stage: "checks".into(),
        kind: "verify".into(),
        needs: Vec::new(),
        cells: vec![checked],
    });
    assert_eq!(limits(&lab), None);
}

#[test]
fn limits_tell_of_repeated_executions_and_of_a_machine_that_was_not_quiet() {
    let mut lab = lab();
    let execution = |executions, discarded: usize, loud: Option<&str>| Execution {
        order: 1,
        place: None,
        executions,
        discarded: vec![artifacts::Digest::of(b"earlier"); discarded],
        loud: loud.map(str::to_owned),
        host: None,
        by: None,
        started: None,
    };
    lab.study.ledger[0].execution = Some(execution(3, 1, Some("4.00 running tasks for each core")));
    lab.study.ledger[1].execution = Some(execution(1, 0, None));
    let done = lab
        .render(&json!({}), &shipped())
        .map_err(|f| f.reason)
        .unwrap();
    let text = markdown(&done);
    for part in [
        "1 of 2 measurements were executed more than once (at most 3 times)",
        "leaves out 1 earlier ok results",
        "for 1 of 2 measurements, the machine was not quiet when the run began: 4.00 running tasks",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn the_ledger_names_who_measured_and_where_if_there_is_more_than_one_host() {
    let mut lab = lab();
    let execution = |host: &str, by: Option<&str>| Execution {
        order: 1,
        place: None,
        executions: 1,
        discarded: Vec::new(),
        loud: None,
        host: Some(host.to_owned()),
        by: by.map(str::to_owned),
        started: Some("2026-11-22T10:00:00Z".to_owned()),
    };
    let mut text = |second: Execution| {
        lab.study.ledger[0].execution = Some(execution("left-box", None));
        lab.study.ledger[1].execution = Some(second);
        let done = lab.render(&json!({}), &shipped());
        markdown(&done.map_err(|f| f.reason).unwrap())
    };
    let both = text(execution("right-box", Some("Ada")));
    for part in [
        ", 2026-11-22 to 2026-11-22: 1 cell on left-box",
        ", 2026-11-22 to 2026-11-22, by Ada: 1 cell on right-box",
    ] {
        let line = both.lines().any(|line| line.ends_with(part));
        assert!(line, "no line ends with `{part}` in:\n{both}");
    }
    assert!(!text(execution("left-box", None)).contains("left-box"));
}

#[test]
fn the_method_tells_what_each_load_sent() {
    let mut lab = lab();
    lab.study.spec["stages"]["ladder"]["settings"] = json!({"workload": "chat"});
    lab.study.spec["stages"]["ladder"]["replicate"] = json!(["rep"]);
    lab.study.spec["axes"] = json!({"rep": {"labels": [{"label": 1}, {"label": 2}]}});
    for (cell, clients) in lab.inputs[2].cells.iter_mut().zip([1, 2]) {
        cell.parameters = json!({
            "arrival": {"closed-loop": {"clients": clients}},
            "requests": 600 * clients,
            "warmup": 2,
            "timeouts": {"first-token": "5 min", "total": "1 h"},
            "simulate": {"server": {"slots": clients, "decode": {"fixed": "10 ms"}}},
            "workload": {
                "prompts": {"words": {"length": {"from": 16, "to": 32}}},
                "output": {"mode": "exact", "tokens": 12},
                "sampling": {"seed": 1, "temperature": 0.0},
            },
        });
        let facts = vec![
            Column::text("api", [Some("openai-chat")]),
            Column::int("prompt_tokens_min", [Some(20 + clients)]),
            Column::int("prompt_tokens_max", [Some(40 + clients)]),
        ];
        cell.outputs.insert(
            "cell".to_owned(),
            store_table(&lab.store, &Table::new(facts).unwrap()),
        );
    }
    let done = lab
        .render(&json!({}), &shipped())
        .map_err(|f| f.reason)
        .unwrap();
    let text = markdown(&done);
    for part in [
        "| arrival | closed loop: clients 1, 2 |",
        "| requests measured | 600, 1200 per cell; 1,800 in the ok cells |",
        "| warm-up requests | 2 per cell; stored as rows, excluded from statistics |",
        "| repetitions | 2 |",
        "| endpoint | openai-chat |",
        "| simulated server, configuration=batched | slots 1; decode: fixed 10 ms |",
        "| simulated server, configuration=serial | slots 2; decode: fixed 10 ms |",
        "| timeouts | first-token 5 min, total 1 h |",
        "| chat | words: length 16 to 32 | 21 to 42 | 12 tokens, end of sequence ignored | seed 1, temperature 0 |",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    assert!(done.outputs.iter().any(|o| o.name == "loads"));
}

#[test]
fn a_study_of_its_own_needs_prose_and_no_layout() {
    let template = "{% from \"macros.md\" import result, section %}\n# {{ title() }}\n\n{% include \
                    \"partials/question.md\" %}\n\n{% call section(\"Scaling\", \"does it scale?\") %}{% call \
                    result(\"efficiency\") %}The rows fall.{% endcall %}{% endcall %}\n\nSee {{ ref(\"efficiency\") }}.\n";
    let mut templates = shipped();
    templates.0.insert("t.md".to_owned(), template.to_owned());
    let columns = json!([{"column": "configuration"}, {"column": "efficiency", "format": "0.00"}]);
    let table = json!({"from": "results.efficiency", "caption": "Rows.", "columns": columns});
    let settings = json!({"template": "t.md", "tables": {"efficiency": table}});
    let text = markdown(
        &lab()
            .render(&settings, &templates)
            .map_err(|f| f.reason)
            .unwrap(),
    );
    for part in [
        "### Scaling\n",
        "*Question: does it scale?*",
        "**Table 1.** Rows.",
        "**Observations.** The rows fall.",
        "See Table 1.",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

/// Replaces a word in a value's JSON form.
fn renamed<T: serde::Serialize + serde::de::DeserializeOwned>(
    value: &T,
    from: &str,
    to: &str,
) -> T {
    let json = serde_json::to_string(value).expect("JSON");
    let word = |text: &str| format!("\"{text}\"");
    serde_json::from_str(&json.replace(&word(from), &word(to))).expect("the same type")
}

#[test]
fn a_stage_or_a_label_may_have_a_name_that_is_a_number_word_or_a_claim() {
    for name in ["two", "half", "half-load", "three-clients", "best", "all"] {
        let mut lab = lab();
        lab.study.spec = renamed(&lab.study.spec, "ladder", name);
        lab.study.ledger = renamed(&lab.study.ledger, "ladder", name);
        lab.study.ledger = renamed(&lab.study.ledger, "batched", "7b");
        for input in &mut lab.inputs {
            if input.stage == "ladder" {
                input.stage = name.to_owned();
            }
            for cell in &mut input.cells {
                cell.coordinates = renamed(&cell.coordinates, "batched", "7b");
            }
        }
        let done = lab.render(&json!({}), &shipped());
        let text = markdown(&done.map_err(|f| f.reason).expect(name));
        assert!(text.contains(&format!("| {name} |")), "{name}:\n{text}");
    }
}

#[test]
fn a_number_word_written_by_hand_is_refused_although_a_stage_has_that_name() {
    let mut lab = lab();
    for line in &mut lab.study.ledger {
        line.stage = "two".to_owned();
    }
    let printed = "{% for line in rows('ledger.stages') %}{{ line.stage }}{% endfor %}";
    assert_eq!(lab.render_text(printed), Ok("two\n".to_owned()));
    let refused = lab.render_text("It is two times as fast.").unwrap_err();
    assert!(
        refused.contains("`two`: a number written by hand"),
        "{refused}"
    );
}
