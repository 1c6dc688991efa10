//! Rendering, traces and refusals.

use pipeline::stage::Done;
use serde_json::json;

use crate::fixture::{Lab, Templates, bytes, canonical, markdown, trace};

const TEMPLATE: &str = r#"# {{ title() }}

{% set best = highest("results.efficiency", {"configuration": "batched", "concurrency": [2, 4]}, "efficiency") %}
{% set broken = rows("results.breakdown", order=["configuration"]) %}
At {{ best.show("concurrency") }} clients the batched server keeps {{ best.show("efficiency", "0.0%") }}
of its efficiency {{ best.interval("low", "high", "0.00") }}, the serial one
{{ value("results.efficiency", {"configuration": "serial", "concurrency": 2}, "efficiency", "0.00") }}.
{% for row in broken %}
- `{{ row.configuration }}` breaks at {{ row.show("breakdown_n", null="never") }}; {% call premise("the name of a column") %}monotone{% endcall %}: {{ row.show("monotone") }}.
{% endfor %}
{% if raw("results.breakdown", {"configuration": "serial"}, "breakdown_n") <= 2 %}
The serial server breaks at the first step ({{ ref("efficiency") }}, {{ ref("curve") }}).
{% endif %}

{{ table("efficiency") }}

{{ table("breakdown") }}

{{ figure("curve") }}

Host: {{ host("cpu.model") }}, {{ host("memory_mib", ",0") }} MiB, GPU {{ host("gpu", null="none") }}.
Slots: {{ descriptor("server", "settings.parallel", {"configuration": "batched"}) }}.
Levels: {{ spec("axes.concurrency") }}. Rows: {{ count("results.efficiency", {"configuration": "serial"}) }}.
{% for line in rows("ledger", {"status": ["failed", "timeout"]}) %}
- {{ line.show("cell") }}: {{ line.status }} ({{ line.reason }})
{% endfor %}
Trail {{ trail() }}; a two-sided test.
"#;

fn settings() -> serde_json::Value {
    json!({
        "template": "t.md",
        "tables": {
            "efficiency": {
                "from": "results.efficiency",
                "columns": [
                    {"column": "configuration"}, {"column": "concurrency", "heading": "N"},
                    {"column": "efficiency", "format": "0.000"},
                    {"column": "low", "to": "high", "heading": "interval", "format": "0.00"},
                    {"column": "e2e_p95", "format": "0.0"},
                ],
                "order": ["configuration", "-concurrency"],
                "caption": "Efficiency of {{ count(\"results.efficiency\") }} cells.",
            },
            "breakdown": {
                "from": "results.breakdown",
                "columns": [{"column": "configuration"}, {"column": "breakdown_n", "null": "never"}, {"column": "note"}],
                "caption": "Breakdown.",
            },
        },
        "figures": {
            "curve": {
                "kind": "ladder", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
                "series": "configuration", "band": ["low", "high"], "reference": "serial_reference",
                "reference-label": "serial server", "title": "Parallel efficiency", "caption": "More is better.",
            },
        },
        "literals": [{"text": "two-sided", "reason": "the name of a test"}],
    })
}

fn rendered() -> Done {
    Lab::new()
        .render(&settings(), &Templates::one(TEMPLATE))
        .map_err(|f| f.reason)
        .unwrap()
}

#[test]
fn a_report_reads_as_expected() {
    insta::assert_snapshot!(markdown(&rendered()));
}

#[test]
fn rendering_again_gives_the_same_bytes() {
    let (a, b) = (rendered(), rendered());
    assert_eq!(a.outputs.len(), b.outputs.len());
    for output in &a.outputs {
        assert_eq!(
            bytes(&a, &output.name),
            bytes(&b, &output.name),
            "{}",
            output.name
        );
    }
}

#[test]
fn every_span_of_the_trace_cut_out_of_the_report_is_its_text() {
    let done = rendered();
    let (text, trace) = (markdown(&done), trace(&done));
    let lines: Vec<&str> = text.lines().collect();
    let int = |column: &str| trace.int(column).unwrap();
    let (line, start, end) = (int("line"), int("column_start"), int("column_end"));
    assert!(trace.rows() > 40);
    for row in 0..trace.rows() {
        let at = |v: &[Option<i64>]| usize::try_from(v[row].unwrap()).unwrap();
        let cut: String = lines[at(&line) - 1]
            .chars()
            .skip(at(&start) - 1)
            .take(at(&end) - at(&start))
            .collect();
        assert_eq!(Some(cut.as_str()), trace.text("text").unwrap()[row]);
    }
}

#[test]
fn a_traced_number_names_artifact_row_and_full_value() {
    let lab = Lab::new();
    let done = lab
        .render(&settings(), &Templates::one(TEMPLATE))
        .map_err(|f| f.reason)
        .unwrap();
    let trace = trace(&done);
    let row = trace
        .text("text")
        .unwrap()
        .iter()
        .position(|t| *t == Some("0.757"))
        .unwrap();
    let digest = lab.inputs[3].cells[0].outputs["efficiency"]
        .digest
        .to_string();
    assert_eq!(trace.text("artifact").unwrap()[row], Some(digest.as_str()));
    assert_eq!(trace.int("row").unwrap()[row], Some(2));
    assert_eq!(trace.text("value").unwrap()[row], Some("0.7574"));
    assert_eq!(
        trace.text("row_key").unwrap()[row],
        Some("configuration=batched,concurrency=4")
    );
    assert_eq!(trace.text("unit").unwrap()[row], Some("1"));
}

#[test]
fn a_literal_is_in_the_trace_with_its_reason() {
    let trace = trace(&rendered());
    let row = trace
        .text("source")
        .unwrap()
        .iter()
        .position(|t| *t == Some("literal"))
        .unwrap();
    assert_eq!(
        trace.text("column").unwrap()[row],
        Some("the name of a test")
    );
}

#[test]
fn an_untraced_digit_fails_with_its_line() {
    let error = Lab::new()
        .render_text("# Title\n\n{% if true %}\nIt takes 17 ms.\n{% endif %}\n")
        .unwrap_err();
    insta::assert_snapshot!(error);
}

#[test]
fn every_refused_number_is_reported() {
    let error = Lab::new()
        .render_text("1.5 and ½\n\nand twice 0,1\n")
        .unwrap_err();
    assert!(
        error.starts_with("the number check refuses 4 numbers"),
        "{error}"
    );
}

#[test]
fn arithmetic_cannot_be_printed() {
    let lab = Lab::new();
    let only = r#"{"configuration": "serial", "concurrency": 2}"#;
    for text in [
        format!(r#"{{{{ value("results.efficiency", {only}, "efficiency") * 100 }}}}"#),
        format!(r#"{{{{ value("results.efficiency", {only}, "efficiency") + "1" }}}}"#),
        format!(r#"{{{{ raw("results.efficiency", {only}, "efficiency") * 100 }}}}"#),
        format!(r#"{{{{ raw("results.efficiency", {only}, "efficiency") }}}}"#),
        r#"{{ rows("results.efficiency")|length }}"#.to_owned(),
        "{{ 17 }}".to_owned(),
    ] {
        let error = lab.render_text(&format!("line\n\n{text}\n")).unwrap_err();
        assert!(error.starts_with("t.md:3:"), "{text}: {error}");
    }
}

#[test]
fn a_number_made_into_text_is_still_refused() {
    let lab = Lab::new();
    for text in [
        "{{ 17|string }}",
        "{{ 'a' ~ 17 }}",
        r#"{{ rows("results.efficiency")|length|string }}"#,
    ] {
        let error = lab.render_text(text).unwrap_err();
        assert!(
            error.starts_with("the number check refuses 1 number"),
            "{text}: {error}"
        );
    }
}

#[test]
fn an_undefined_name_has_its_template_and_line() {
    let lab = Lab::new();
    for text in [
        "{{ nothing }}",
        "{{ nothing.at_all }}",
        r#"{{ rows("results.efficiency")[0].no_column }}"#,
    ] {
        let error = lab.render_text(&format!("a\nb\n{text}\n")).unwrap_err();
        assert!(error.starts_with("t.md:3:"), "{text}: {error}");
    }
    let error = lab.render_text("{{ nothing }}").unwrap_err();
    for part in [
        "look it up",
        "`value(…)`",
        "`count(…)`",
        "`row(…).show(…)`",
        "`spec(…)`",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let error = lab.render_text("{{ seed }}").unwrap_err();
    assert!(
        error.contains(r#"the experiment has it: `spec("seed")`"#),
        "{error}"
    );
    let error = lab
        .render_text(r#"{{ value("results.nope", {}, "x") }}"#)
        .unwrap_err();
    assert_eq!(
        error,
        "t.md:1:4: stage `results` has no output `nope`; it has: breakdown, comparison, efficiency \
         (in `value(\"results.nope\", {}, \"x\")`)"
    );
}

#[test]
fn a_mistake_in_a_call_gets_what_exists() {
    let lab = Lab::new();
    for (text, remedy) in [
        (
            "{{ tabel('x') }}",
            "unknown function `tabel`; did you mean `table`?",
        ),
        (
            "{{ title() | uper }}",
            "unknown filter `uper`; did you mean `upper`?",
        ),
        (
            "{{ title() | money }}",
            "unknown filter `money`; none of the",
        ),
        (
            r#"{{ value("results.efficiency", column="concurrency") }}"#,
            r#"write `value("STAGE.TABLE", {"AXIS": LABEL}, "COLUMN", "FORMAT")`, with the arguments in this order"#,
        ),
        (
            r#"{{ table("results.efficiency") }}"#,
            r#"`{{ whole_table("results.efficiency") }}`"#,
        ),
        (
            r#"{{ figure("scaling") }}"#,
            "declare it there, under `tables:` or `figures:`",
        ),
        (
            r#"{{ value("results.efficiency", {"concurrency": 7}, "concurrency") }}"#,
            "no row of `results.efficiency` matches {concurrency=7}; `concurrency` holds ",
        ),
    ] {
        let error = lab.render_text(&format!("a\n{text}\n")).unwrap_err();
        assert!(error.starts_with("t.md:2:"), "{text}: {error}");
        assert!(error.contains(remedy), "{text}: {error}");
    }
}

#[test]
fn a_template_named_with_its_folder_or_without_its_ending_gets_its_name() {
    for name in ["templates/t.md", "t", "./templates/t"] {
        let settings = json!({ "template": name });
        let problems = canonical(&settings, &Templates::one("x")).unwrap_err();
        assert!(
            problems[0]
                .hint
                .as_deref()
                .is_some_and(|hint| hint.starts_with("write `t.md`")),
            "{problems:?}"
        );
    }
}

#[test]
fn a_mistake_in_a_partial_names_the_partial() {
    let templates = Templates(
        [
            ("t.md", "x\n{% include 'p.md' %}"),
            ("p.md", "\n\nhas 7 digits"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into(),
    );
    let failure = Lab::new()
        .render(&json!({"template": "t.md"}), &templates)
        .map(|_| ())
        .unwrap_err();
    assert!(
        failure.reason.contains("\n  p.md:3:5 (report "),
        "{}",
        failure.reason
    );
}

#[test]
fn editing_a_partial_changes_the_parameters() {
    let templates = |partial: &str| {
        Templates(
            [("t.md", "{% include 'p.md' %}"), ("p.md", partial)]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
        )
    };
    let settings = json!({"template": "t.md"});
    let key = |partial: &str| canonical(&settings, &templates(partial)).unwrap();
    assert_eq!(key("a"), key("a"));
    assert_ne!(key("a"), key("b"));
}

#[test]
fn every_mistake_in_the_settings_is_reported() {
    let settings = json!({
        "template": "none.md",
        "tables": {"a": {"from": "x.y", "columns": [{"column": "c", "format": "0.x"}], "caption": ""}},
        "figures": {"f": {"kind": "ladder", "table": "x.y", "x": "n", "title": "", "caption": ""}},
    });
    let problems = canonical(&settings, &Templates::one("")).unwrap_err();
    let messages: Vec<_> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    // The name of a figure becomes that of a file.
    let figure = json!({"kind": "ecdf", "table": "x.y", "x": "n", "title": "", "caption": ""});
    for name in ["../f", "/f", ".f", "a\u{1b}", &"f".repeat(190)] {
        let settings = json!({"template": "t.md", "figures": {name: figure}});
        let problems = canonical(&settings, &Templates::one("")).unwrap_err();
        let wrong = problems
            .iter()
            .any(|p| p.message.contains("cannot be the name of an output"));
        assert!(wrong, "{name}: {problems:?}");
    }
}

#[test]
fn a_shown_value_cannot_be_compared() {
    let only = r#"{"configuration": "serial", "concurrency": 2}"#;
    for condition in ["< 0.1", "> 0.1", "== 0.52"] {
        let call = format!(r#"value("results.efficiency", {only}, "efficiency")"#);
        for text in [
            format!("a\n{{% if {call} {condition} %}}yes{{% endif %}}\n"),
            format!("{{% set v = {call} %}}\n{{% if v {condition} %}}yes{{% endif %}}\n"),
        ] {
            let error = Lab::new().render_text(&text).unwrap_err();
            assert!(error.starts_with("t.md:2: "), "{error}");
        }
    }
    let text = format!(
        r#"{{% if raw("results.efficiency", {only}, "efficiency") == 0.52 %}}yes{{% endif %}}"#
    );
    assert_eq!(Lab::new().render_text(&text).as_deref(), Ok("yes\n"));
}

#[test]
fn the_rows_visited_grow_as_the_numbers_shown_do() {
    use crate::fixture::{cell, coordinates, store_table};
    use artifacts::{Column, Table};
    let visited = |rows: i64| {
        let mut lab = Lab::new();
        let table = Table::with_metadata(
            vec![
                Column::int("n", (0..rows).map(Some)),
                Column::text("group", (0..rows).map(|n| Some(format!("g{}", n % 7)))),
                Column::float("x", (0..rows).map(|n| Some(n as f64))),
            ],
            &[("keys", "n")],
        );
        let outputs = vec![("many", store_table(&lab.store, &table.unwrap()))];
        lab.inputs[3].cells = vec![cell(coordinates(&[]), outputs)];
        let mut text = String::new();
        for n in 0..rows {
            let group = format!("g{}", n % 7);
            let only = format!("{{\"n\": {n}, \"group\": [\"{group}\", \"none\"]}}");
            text.push_str(&format!(
                "{{{{ value(\"results.many\", {only}, \"x\") }}}} and "
            ));
            text.push_str(&format!(
                "{{% call holds(\"results.many\", {{\"n\": {n}}}, \"x = {n}\") %}}so{{% endcall %}}\n\n"
            ));
        }
        let parameters = canonical(&json!({"template": "t.md"}), &Templates::one(&text)).unwrap();
        let parameters = serde_json::from_value(parameters).unwrap();
        let data = std::sync::Arc::new(report::Data::new(&lab.inputs, Some(&lab.study)));
        report::render(&parameters, &data, &lab.store).unwrap();
        data.rows_visited()
    };
    let (less, more) = (visited(50), visited(200));
    assert_eq!(
        (less, more),
        (200, 800),
        "a row is visited for each index and for each question about it"
    );
}
