//! The coverage of a document as a page for a reviewer, in Markdown and as one HTML file without scripts. Numbers
//! without a source come first, then those with one, each with its line.

use pulldown_cmark::{Options, Parser, html::push_html};

use crate::coverage::{Coverage, Status, Traced};
use crate::finding::Audit;
use crate::number::shown;

/// The page in Markdown: the findings, a summary, and a table for each status, worst first.
pub fn markdown(audit: &Audit) -> String {
    let mut page = format!(
        "# Where the numbers of {} come from\n\n",
        escaped(&audit.report)
    );
    if let Some(coverage) = &audit.coverage {
        summary(coverage, &mut page);
    }
    if !audit.findings.is_empty() {
        page.push_str("## Findings\n\n| line | kind | finding | quote |\n|---:|---|---|---|\n");
        for finding in &audit.findings {
            page.push_str(&format!(
                "| {} | {} | {} | {} |\n",
                finding.line,
                finding.rule,
                escaped(&finding.message),
                escaped(&short(&finding.quote))
            ));
        }
        page.push('\n');
    }
    if let Some(coverage) = &audit.coverage {
        for status in Status::ALL {
            let numbers: Vec<&Traced> = coverage
                .numbers
                .iter()
                .filter(|number| number.status == status)
                .collect();
            if !numbers.is_empty() {
                section(status, &numbers, &mut page);
            }
        }
    }
    page
}

/// The title of the numbers with a status, and what to do about them.
#[rustfmt::skip]
fn title_and_advice(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Differs => ("Differs from the data", "correct the report or the data"),
        Status::NotFound => ("Not found in the data", "ask where it comes from: no cell and no simple derivation gives it"),
        Status::ValueOnly => ("Found by value only", "confirm that one of the cells is meant"),
        Status::Derived => ("Derived from the data", "confirm the formula, where several are listed"),
        Status::Cell => ("Cells of the data", "nothing, where one cell is listed"),
    }
}

fn summary(coverage: &Coverage, page: &mut String) {
    page.push_str("| status | numbers | what to do |\n|---|---:|---|\n");
    for status in Status::ALL {
        let (name, count) = (status.name(), coverage.count(status));
        let advice = title_and_advice(status).1;
        page.push_str(&format!("| {name} | {count} | {advice} |\n"));
    }
    page.push_str(&format!("| all | {} | |\n\n", coverage.numbers.len()));
}

fn section(status: Status, numbers: &[&Traced], page: &mut String) {
    let title = title_and_advice(status).0;
    page.push_str(&format!("## {title}\n\n"));
    if status == Status::NotFound {
        page.push_str("| line | numbers | in |\n|---:|---|---|\n");
        for group in numbers.chunk_by(|a, b| (a.line, &a.context) == (b.line, &b.context)) {
            let all: Vec<String> = group.iter().map(|number| escaped(&number.number)).collect();
            page.push_str(&format!(
                "| {} | {} | {} |\n",
                group[0].line,
                all.join(", "),
                escaped(&short(&group[0].context))
            ));
        }
        page.push('\n');
        return;
    }
    page.push_str(
        "| line | number | in | source | value | other sources |\n|---:|---:|---|---|---:|---|\n",
    );
    for number in numbers {
        let lines: Vec<String> = number
            .sources
            .iter()
            .map(|source| {
                let places: Vec<String> =
                    source.places.iter().map(|place| escaped(place)).collect();
                format!("{}<br>{}", escaped(&source.formula), places.join("<br>"))
            })
            .collect();
        let value = number
            .sources
            .first()
            .map_or(String::new(), |source| shown(source.value));
        let more = number.candidates.saturating_sub(number.sources.len());
        let mut others = lines.get(1..).unwrap_or(&[]).join("<br>");
        if more > 0 {
            others.push_str(&format!("<br>and {more} more"));
        }
        let first = lines.first().map_or("", String::as_str);
        page.push_str(&format!(
            "| {} | {} | {} | {first} | {value} | {others} |\n",
            number.line,
            escaped(&number.number),
            escaped(&short(&number.context))
        ));
    }
    page.push('\n');
}

/// The page as HTML.
pub fn html(audit: &Audit) -> String {
    let source = markdown(audit);
    let mut body = String::new();
    push_html(&mut body, Parser::new_ext(&source, Options::ENABLE_TABLES));
    let title = audit.report.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sources of {title}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n"
    )
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #8884;padding:.25rem .6rem;text-align:left;vertical-align:top}\
code{font-size:.92em}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}";

/// At most 120 characters of a context.
fn short(text: &str) -> String {
    if text.chars().count() <= 120 {
        return text.to_owned();
    }
    text.chars().take(119).chain(['…']).collect()
}

/// Text escaped for Markdown, including cells. Text between backticks stays code.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut code = false;
    let ticks = text.matches('`').count().is_multiple_of(2);
    for c in text.chars() {
        match c {
            '`' if ticks => code = !code,
            '\n' | '\r' => {
                out.push(' ');
                continue;
            }
            '|' => out.push('\\'),
            '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '~' | '!' | '`' if !code => {
                out.push('\\');
            }
            _ => {}
        }
        out.push(c);
    }
    out
}
