//! The coverage of a document as a page for a reviewer, in Markdown and as one HTML file without scripts. Numbers
//! without a source come first, then those with one, each with its line.

use pulldown_cmark::{Options, Parser, html::push_html};

use crate::coverage::{Derivation, Status, Traced};
use crate::finding::{Audit, Finding};
use crate::number::shown;

/// The page in Markdown: the findings, a summary, and a table for each status, worst first.
pub fn markdown(audit: &Audit) -> String {
    let mut page = format!(
        "# Where the numbers of {} come from\n\n",
        escaped(&audit.report)
    );
    if let Some(coverage) = &audit.coverage {
        let line = |status: &Status| {
            let count = coverage.count(*status).to_string();
            vec![
                status.name().to_owned(),
                count,
                title_and_advice(*status).1.to_owned(),
            ]
        };
        let mut lines: Vec<Vec<String>> = Status::ALL.iter().map(line).collect();
        lines.push(vec![
            "all".to_owned(),
            coverage.numbers.len().to_string(),
            String::new(),
        ]);
        table(
            &mut page,
            "| status | numbers | what to do |\n|---|---:|---|\n",
            lines,
        );
    }
    if !audit.findings.is_empty() {
        page.push_str("## Findings\n\n");
        let line = |finding: &Finding| {
            let (message, quote) = (escaped(&finding.message), escaped(&short(&finding.quote)));
            vec![
                finding.line.to_string(),
                finding.rule.to_string(),
                message,
                quote,
            ]
        };
        let header = "| line | kind | finding | quote |\n|---:|---|---|---|\n";
        table(&mut page, header, audit.findings.iter().map(line));
    }
    let numbers = audit.coverage.iter().flat_map(|coverage| &coverage.numbers);
    for status in Status::ALL {
        let of_status = |number: &&Traced| number.status == status;
        let numbers: Vec<&Traced> = numbers.clone().filter(of_status).collect();
        if !numbers.is_empty() {
            section(status, &numbers, &mut page);
        }
    }
    page
}

/// Appends a table: its header, and lines of cells.
fn table(page: &mut String, header: &str, lines: impl IntoIterator<Item = Vec<String>>) {
    page.push_str(header);
    for cells in lines {
        page.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    page.push('\n');
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

fn section(status: Status, numbers: &[&Traced], page: &mut String) {
    page.push_str(&format!("## {}\n\n", title_and_advice(status).0));
    if status == Status::NotFound {
        let groups = numbers.chunk_by(|a, b| (a.line, &a.context) == (b.line, &b.context));
        let line = |group: &[&Traced]| {
            let all: Vec<String> = group.iter().map(|number| escaped(&number.number)).collect();
            let context = escaped(&short(&group[0].context));
            vec![group[0].line.to_string(), all.join(", "), context]
        };
        let header = "| line | numbers | in |\n|---:|---|---|\n";
        return table(page, header, groups.map(line));
    }
    let line = |number: &&Traced| {
        let source = |source: &Derivation| {
            let parts = std::iter::once(&source.formula).chain(&source.places);
            parts
                .map(|part| escaped(part))
                .collect::<Vec<_>>()
                .join("<br>")
        };
        let mut sources: Vec<String> = number.sources.iter().map(source).collect();
        let more = number.candidates.saturating_sub(sources.len());
        if more > 0 {
            sources.push(format!("and {more} more"));
        }
        let value = number
            .sources
            .first()
            .map_or(String::new(), |source| shown(source.value));
        vec![
            number.line.to_string(),
            escaped(&number.number),
            escaped(&short(&number.context)),
            sources.first().cloned().unwrap_or_default(),
            value,
            sources.get(1..).unwrap_or(&[]).join("<br>"),
        ]
    };
    let header =
        "| line | number | in | source | value | other sources |\n|---:|---:|---|---|---:|---|\n";
    table(page, header, numbers.iter().map(line));
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
