//! Labels, titles, questions, reasons, units and server texts that contain markup, through the whole report: Markdown,
//! HTML, figures.

use std::collections::BTreeMap;

use artifacts::{Column, Scalar, Table};
use pipeline::stage::{Coordinates, Done, Json};
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::json;

use crate::fixture::{Lab, Templates, bytes, markdown, store_json, store_table};

/// The parts of a hostile text.
const PARTS: &str = r#"(<script>alert\(1\)</script>|<img src=x onerror=alert\(1\)>|<!-- |-->|\]\(javascript:x\)|!\[|\[x|`|```|\*\*|__|\||&lt;|&#60;|\\|~~|"|'|\x1b\[31m|\x07|\x{202e}|# |> |- |[a-z ]{1,3}){1,6}"#;

/// Fragments of the template language, and of other text.
const SCRAPS: &str = r#"(\{\{|\}\}|\{%|%\}|\{#|#\}|\{% for a in range\(9999\) %\}|\{% endfor %\}|\{% set x = x ~ 1 %\}|\{\{ value\("a"|\{\{ 1/0 \}\}|\{% include "report.md" %\}|\{% extends "own.md" %\}|"|'|\||[a-z0-9 ]{1,4}|\x{e001}|\x00){0,3}"#;

/// Renders the default report, and a figure, of a study in which this text stands for every external text.
fn rendered(evil: &str) -> Result<Done, String> {
    let mut lab = Lab::new();
    lab.study.spec["name"] = json!("quickstart");
    lab.study.spec["title"] = json!(format!("Title {evil}"));
    lab.study.spec["question"] = json!(evil);
    lab.study.spec["stages"] = json!({
        "server": {"kind": "serve", "settings": {}},
        "ladder": {"kind": "load", "description": evil, "replicate": []},
    });
    for line in &mut lab.study.ledger {
        line.reason = line.reason.as_ref().map(|_| format!("because {evil}"));
        if let Some((_, label)) = line.coordinates.0.first_mut() {
            *label = Scalar::Text(format!("label {evil}"));
        }
    }
    let table = Table::new(vec![
        Column::text("configuration", [Some(evil), Some("serial")]),
        Column::int("concurrency", [Some(1), Some(1)]),
        Column::float("efficiency", [Some(0.5), Some(0.25)]).unit("1"),
        Column::float("size", [Some(0.5), Some(0.25)]).unit(evil.trim()),
    ])
    .map_err(|e| e.to_string())?;
    let results = lab.inputs.last_mut().expect("results");
    results.cells[0]
        .outputs
        .insert("efficiency".to_owned(), store_table(&lab.store, &table));
    for server in &mut lab.inputs[1].cells {
        let hostile = json!({"settings": {"parallel": 1}, "model": {"name": evil}, "engine": {"title": evil}});
        server
            .outputs
            .insert("server".to_owned(), store_json(&lab.store, &hostile));
        let at: Vec<(String, Scalar)> = server.coordinates.0.clone();
        server.coordinates = Coordinates(at);
    }
    let mut texts: BTreeMap<String, String> = report::shipped()
        .into_iter()
        .map(|s| (s.name.to_owned(), s.text.to_owned()))
        .collect();
    let extra = "\n\n{{ figure(\"curve\") }}\n\n{% for row in rows(\"results.efficiency\") %}\n\
                 - {{ row.configuration }}, {{ row.show(\"configuration\") }}, `{{ row.configuration }}`\n{% endfor %}\n";
    let own = texts.get("report.md").expect("shipped").clone() + extra;
    texts.insert("own.md".to_owned(), own);
    let settings = json!({
        "template": "own.md",
        "figures": {"curve": {
            "kind": "ladder", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
            "series": "configuration", "title": "A figure", "caption": "More is better.",
        }},
    });
    let done = lab.render(&settings, &Templates(texts));
    done.map_err(|f| f.reason)
}

/// Counts the parts of a Markdown text that are not plain text: (HTML, links and pictures by address).
fn structure(markdown: &str) -> (Vec<String>, Vec<String>) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let (mut html, mut links) = (Vec::new(), Vec::new());
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Html(text) | Event::InlineHtml(text) => html.push(text.into_string()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    (html, links)
}

fn text(done: &Done, name: &str) -> String {
    String::from_utf8(bytes(done, name)).expect("text")
}

/// A whole report takes long, so only an eighth of the usual number of cases.
fn few() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 8,
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn no_text_of_somebody_else_becomes_markup_in_a_report(evil in PARTS) {
        prop_assume!(!evil.trim().is_empty());
        let plain = rendered("harmless").map_err(TestCaseError::fail)?;
        let done = match rendered(&evil) {
            Ok(done) => done,
            // A report may be refused, for example for an invalid unit, but not without a reason.
            Err(reason) => { prop_assert!(!reason.is_empty()); return Ok(()); }
        };
        let (html, links) = structure(&markdown(&done));
        let (expected_html, expected_links) = structure(&markdown(&plain));
        prop_assert_eq!(html, expected_html);
        prop_assert_eq!(links, expected_links);
        let page = text(&done, "html");
        let tags = |page: &str, tag: &str| page.matches(tag).count();
        for tag in ["<script", "<img", "<svg", "<iframe", "<h1", "<h2", "<table", "<blockquote", "<pre", "<!--"] {
            prop_assert_eq!(tags(&page, tag), tags(&text(&plain, "html"), tag), "{}", tag);
        }
        let svg = text(&done, "figures/curve.svg");
        prop_assert_eq!(tags(&svg, "<script"), 0);
        prop_assert_eq!(tags(&svg, "<img"), 0);
        for all in [markdown(&done), page, svg] {
            let raw = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
            let line = all.lines().find(|line| line.contains(raw));
            prop_assert_eq!(line, None);
        }
    }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn a_mutated_template_is_refused_or_rendered(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, SCRAPS), 1..4),
    ) {
        let mut texts: BTreeMap<String, String> = report::shipped()
            .into_iter()
            .map(|s| (s.name.to_owned(), s.text.to_owned()))
            .collect();
        let names: Vec<String> = texts.keys().cloned().collect();
        let name = &names[which.index(names.len())];
        let mut text: Vec<char> = texts[name].chars().collect();
        for (at, removed, scrap) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, scrap.chars());
        }
        texts.insert(name.clone(), text.into_iter().collect());
        let mut lab = Lab::new();
        lab.study.spec["name"] = json!("quickstart");
        lab.study.spec["stages"] = json!({"ladder": {"kind": "load", "replicate": []}});
        // Every report that is not refused has only traced numbers.
        if let Ok(done) = lab.render(&json!({}), &Templates(texts)) {
            let markdown = markdown(&done);
            prop_assert!(markdown.ends_with('\n'));
        }
    }
}

#[test]
fn numbers_in_a_title_and_a_question_are_traced_to_the_experiment() {
    let mut lab = Lab::new();
    lab.study.spec["title"] = json!("A study of 2 servers at 99.9 % load");
    lab.study.spec["question"] = json!("Is it 1.8 times faster?");
    let template = Templates::one("# {{ title() }}\n\n{{ spec(\"question\") }}\n");
    let done = lab
        .render(&json!({"template": "t.md"}), &template)
        .map_err(|f| f.reason)
        .expect("a report");
    let trace = crate::fixture::trace(&done);
    let sources: Vec<Json> = trace
        .text("source")
        .expect("a column")
        .iter()
        .zip(trace.text("column").expect("a column"))
        .map(|(source, column)| json!([source, column]))
        .collect();
    assert_eq!(
        sources,
        [json!(["spec", "title"]), json!(["spec", "question"])]
    );
    // The title of the report is template text, so a number in it is refused.
    let settings = json!({"template": "t.md", "title": "It is 1.8 times faster"});
    let refused = lab.render(&settings, &template).err().expect("refused");
    assert!(refused.reason.contains("1.8"), "{}", refused.reason);
}
