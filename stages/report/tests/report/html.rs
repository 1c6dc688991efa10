//! The HTML: one self-contained page, every number with its trail.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::fixture::{Lab, Templates, bytes, trace};

/// A start or end tag with its attributes, and the text after it.
struct Piece {
    name: String,
    ends: bool,
    attributes: BTreeMap<String, String>,
    text: String,
}

const VOID: [&str; 5] = ["meta", "br", "hr", "line", "path"];

fn unescape(text: &str) -> String {
    text.replace("&#10;", "\n")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// Parses a page into its tags; fails if it is not well formed.
fn pieces(html: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for part in html
        .trim_start_matches("<!DOCTYPE html>\n")
        .split('<')
        .skip(1)
    {
        let (tag, text) = part
            .split_once('>')
            .unwrap_or_else(|| panic!("no end of tag: {part}"));
        let ends = tag.starts_with('/');
        let alone = tag.ends_with('/');
        let tag = tag.trim_matches('/');
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = BTreeMap::new();
        while let Some((key, more)) = rest.split_once("=\"") {
            let (value, after) = more
                .split_once('"')
                .unwrap_or_else(|| panic!("an open quote: {tag}"));
            let old = attributes.insert(key.trim().to_owned(), unescape(value));
            assert_eq!(old, None, "an attribute twice: {tag}");
            rest = after;
        }
        assert_eq!(rest.trim(), "", "{tag}");
        if ends {
            assert_eq!(open.pop().as_deref(), Some(name), "in {part}");
        } else if !alone && !VOID.contains(&name) {
            assert!(
                name != "a" || !open.iter().any(|n| n == "a"),
                "a link in a link: {tag}"
            );
            open.push(name.to_owned());
        }
        pieces.push(Piece {
            name: name.to_owned(),
            ends,
            attributes,
            text: unescape(text),
        });
    }
    assert!(open.is_empty(), "{open:?}");
    pieces
}

#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to look at the pages"
)]
fn lab_page(template: &str) -> (String, Vec<Piece>, artifacts::Table) {
    let settings = json!({
        "template": "t.md",
        "tables": {"efficiency": {
            "from": "results.efficiency",
            "columns": [{"column": "configuration"}, {"column": "concurrency", "heading": "N"},
                        {"column": "efficiency", "format": "0.000"},
                        {"column": "low", "to": "high", "heading": "interval", "format": "0.00"}],
            "caption": "Efficiency of {{ count(\"results.efficiency\") }} cells.",
        }},
        "figures": {
            "curve": {"kind": "ladder", "table": "results.efficiency", "x": "concurrency", "y": "efficiency",
                      "series": "configuration", "title": "Efficiency of {{ count(\"results.efficiency\") }} cells",
                      "caption": "More is better."},
            "map": {"kind": "heat-map", "table": "results.efficiency", "x": "concurrency", "y": "configuration",
                    "value": "efficiency", "title": "Efficiency", "caption": "Darker is more."},
        },
        "literals": [{"text": "two-sided", "reason": "the name of a test"}],
    });
    let done = Lab::new()
        .render(&settings, &Templates::one(template))
        .map_err(|f| f.reason)
        .unwrap();
    let html = String::from_utf8(bytes(&done, "html")).unwrap();
    if let Ok(folder) = std::env::var("PAGES_OUT") {
        std::fs::write(std::path::Path::new(&folder).join("page.html"), &html).unwrap();
    }
    let pieces = pieces(&html);
    (html, pieces, trace(&done))
}

const TEMPLATE: &str = r#"---
title: {{ count("results.efficiency") }} cells
---

# Study of {{ count("results.efficiency") }} cells

## Summary

**Read {{ ref("efficiency") }}** and {{ ref("curve") }}, at *{{ value("results.efficiency", {"configuration": "serial", "concurrency": 2}, "efficiency", "0.00") }}*
of [one per {{ spec("axes.concurrency") }}](#text), a two-sided test, `code {{ spec("axes.concurrency") }}`,
{% call every("results.efficiency", {}, "efficiency > 0") %}every one of the {{ count("results.efficiency") }} is above nothing{% endcall %}.

1. apples <b>& pears</b>
2. plums[^note]

[^note]: A note on {{ trail() }}.

## Results

{{ table("efficiency") }}

{{ figure("curve") }}

{{ figure("map") }}

![elsewhere](https://example.org/x.png) and [bad](javascript:alert())

| {{ row("results.breakdown", {"configuration": "batched"}).show("note") }} | b |
|---|---|
| {{ row("results.breakdown", {"configuration": "batched"}).show("note") }} | x |

## Summary
"#;

#[test]
fn every_traced_text_has_an_element_that_shows_its_trail() {
    let (_, pieces, trace) = lab_page(TEMPLATE);
    let texts = trace.text("text").unwrap();
    let values = trace.text("value").unwrap();
    assert!(trace.rows() > 40);
    for row in 0..trace.rows() {
        let id = format!("n{}", row + 1);
        let matching: Vec<_> = pieces
            .iter()
            .filter(|p| p.attributes.get("id") == Some(&id))
            .collect();
        let [number] = matching.as_slice() else {
            panic!("{} elements for {:?}", matching.len(), texts[row])
        };
        let first = number.text.as_str();
        let whole = texts[row].unwrap();
        assert!(
            whole.starts_with(first) && !first.is_empty(),
            "{id}: {first} for {whole}"
        );
        let trail = &number.attributes["data-trail"];
        assert!(trail.starts_with(values[row].unwrap_or("null")), "{trail}");
        if let Some(artifact) = trace.text("artifact").unwrap()[row] {
            assert!(trail.lines().any(|l| artifact.starts_with(l)), "{trail}");
        }
        let reachable =
            number.attributes.contains_key("href") || number.attributes.contains_key("tabindex");
        assert!(
            reachable && number.attributes.contains_key("aria-describedby"),
            "{id}"
        );
    }
}

#[test]
fn ids_are_unique_and_every_link_leads_somewhere() {
    let (_, pieces, _) = lab_page(TEMPLATE);
    let mut ids = BTreeSet::new();
    for piece in &pieces {
        if let Some(id) = piece.attributes.get("id") {
            assert!(ids.insert(id.clone()), "{id} twice");
        }
    }
    for piece in &pieces {
        let target = piece
            .attributes
            .get("href")
            .and_then(|h| h.strip_prefix('#'));
        let named = ["aria-describedby", "aria-labelledby"].map(|k| piece.attributes.get(k));
        let named = named.into_iter().flatten().flat_map(|ids| ids.split(' '));
        for id in target.into_iter().chain(named) {
            assert!(ids.contains(id), "{id} of <{}> is nowhere", piece.name);
        }
    }
}

#[test]
fn the_page_fetches_and_runs_nothing() {
    let (html, pieces, _) = lab_page(TEMPLATE);
    for piece in &pieces {
        assert!(!["script", "link", "img", "iframe", "object"].contains(&piece.name.as_str()));
        for (key, value) in &piece.attributes {
            assert!(
                key != "src" && !key.starts_with("on") && !value.contains("javascript:"),
                "{key}={value}"
            );
        }
    }
    assert!(html.contains("default-src 'none'"));
    assert!(
        html.contains("&lt;b&gt;&amp; pears&lt;/b&gt;"),
        "markup of a template is text"
    );
}

#[test]
fn a_table_has_caption_and_scopes_and_a_figure_its_name() {
    let (_, pieces, _) = lab_page(TEMPLATE);
    let at = |name: &str| {
        pieces
            .iter()
            .filter(|p| p.name == name && !p.ends)
            .collect::<Vec<_>>()
    };
    assert!(at("table").iter().any(|t| {
        t.attributes
            .get("id")
            .is_some_and(|id| id == "table-efficiency")
    }));
    assert_eq!(at("caption").len(), 1);
    assert!(at("th").iter().all(|h| h.attributes.contains_key("scope")));
    assert_eq!(
        (at("figure").len(), at("figcaption").len(), at("svg").len()),
        (2, 2, 2)
    );
    assert_eq!(at("style").len(), 1, "pictures share the page's style");
    let numbers = at("a");
    let to_table = numbers.iter().filter(|a| {
        a.attributes
            .get("href")
            .is_some_and(|h| h == "#table-efficiency")
    });
    assert_eq!(
        to_table.count(),
        2,
        "the mention and the caption's own number"
    );
    assert_eq!(at("h1").len(), 1);
    let headings: Vec<_> = at("h2")
        .iter()
        .map(|h| h.attributes["id"].clone())
        .collect();
    assert_eq!(
        headings,
        ["summary", "results", "summary-2", "trails-heading"]
    );
}

#[test]
fn the_picture_that_follows_the_answers_stands_beside_them_and_no_other_does() {
    let section = "- apples\n  - a part of it\n- plums\n\n{{ figure(\"curve\") }}\n\n";
    let template = format!(
        "# Study\n\n## Summary\n\n{section}## Results\n\n- pears\n\n{{{{ figure(\"map\") }}}}\n"
    );
    let (html, _, _) = lab_page(&template);
    let pairs: Vec<&str> = html.split("<div class=\"first\">").skip(1).collect();
    assert_eq!(pairs.len(), 1);
    let (pair, rest) = pairs[0].split_once("</figure>\n</div>").expect("it ends");
    assert!(
        pair.starts_with("\n<div>\n<ul>\n<li>apples"),
        "the whole list: {pair}"
    );
    assert!(pair.contains("plums") && pair.contains("figure-curve"));
    assert!(rest.contains("pears") && rest.contains("figure-map"));
    // The answers may be several lists and sentences, and may follow the question.
    let several = template
        .replace("- apples", "Fruit:\n\n- figs\n\nAnd more:\n\n- apples")
        .replace("## Summary", "## Question\n\nWhich?\n\n## Summary");
    let (html, _, _) = lab_page(&several);
    let (before, pair) = html
        .split_once("<div class=\"first\">\n<div>\n")
        .expect("a pair");
    assert!(before.ends_with("Summary</h2>\n"));
    assert!(pair.starts_with("<p>Fruit:</p>"), "{pair}");
    let (answers, _) = pair.split_once("</div>\n<figure").expect("the picture");
    assert!(answers.contains("figs") && answers.contains("apples"));
    // A subsection, a table, or nothing at all between heading and picture prevents the pairing, and so does a late
    // picture.
    for other in [
        template.replace("plums\n\n", "plums\n\n### More\n\n"),
        template.replace("plums\n\n", "plums\n\n| a |\n|---|\n| b |\n\n"),
        template.replace("- apples\n  - a part of it\n- plums\n\n", ""),
        template.replace("## Summary", "## Aims\n\n## Words\n\n## Summary"),
    ] {
        let (html, _, _) = lab_page(&other);
        let first = html.split_once("class=\"first\"").map(|(_, rest)| rest);
        assert!(
            first.is_none_or(|rest| rest.contains("pears") && !rest.contains("figure-curve")),
            "{other}"
        );
    }
}

#[test]
fn the_verdict_of_a_statement_stands_with_its_words_and_numbers() {
    let (_, pieces, trace) = lab_page(TEMPLATE);
    let words = pieces
        .iter()
        .find(|p| p.attributes.get("class").is_some_and(|c| c == "s"))
        .unwrap();
    assert!(
        words.attributes["title"].starts_with("statement `every` over results.efficiency: holds")
    );
    let row = (0..trace.rows()).rfind(|r| {
        trace.text("source").unwrap()[*r] == Some("count")
            && trace.int("line").unwrap()[*r] == Some(11)
    });
    let id = format!("n{}", row.unwrap() + 1);
    let number = pieces
        .iter()
        .find(|p| p.attributes.get("id") == Some(&id))
        .unwrap();
    assert!(number.attributes["data-trail"].contains("\nstatement `every`"));
}
