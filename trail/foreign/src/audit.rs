//! The audit: parse, check, trace, order.

use std::fmt;
use std::path::Path;

use crate::arithmetic::{self, Scope};
use crate::coverage;
use crate::document::{Document, LONGEST, MOST_NUMBERS};
use crate::finding::{Audit, Finding, Rule};
use crate::number::quantities;
use crate::style::{self, Style};
use crate::table::Table;
use crate::{claims, grid, outcomes, structure};

/// The largest document that is read, in bytes. One of dense tables and links takes a hundred times its size in memory.
pub const MOST_BYTES: u64 = 16 << 20;

/// Why a document is not audited, or only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unaudited {
    /// Its format is not Markdown, HTML or plain text.
    Format(String),
    /// It is not UTF-8.
    NotText,
    /// These lines have sentences or cells that are too long to be checked.
    TooLong(Vec<usize>),
    /// It contains no readable table, and no data was given, so only arithmetic in sentences was checked.
    NoTable,
}

impl fmt::Display for Unaudited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => write!(f, "{format} is not read; convert it to Markdown, for example with pandoc -t gfm"),
            Self::NotText => f.write_str("not UTF-8 text; convert it, for example with iconv"),
            Self::TooLong(lines) => {
                let shown: Vec<String> = lines.iter().take(10).map(usize::to_string).collect();
                let more = if lines.len() > 10 { ", …" } else { "" };
                let word = if lines.len() == 1 { "line" } else { "lines" };
                write!(
                    f,
                    "sentences or cells with more than {MOST_NUMBERS} numbers or {LONGEST} bytes, in {word} {}{more}; divide them, or write them as tables",
                    shown.join(", ")
                )
            }
            Self::NoTable => f.write_str(
                "no table was read, so only arithmetic written out and the form were checked; a table needs a header and rows: with bars and a rule, as in GFM, or as `<table>`; give tables with --data",
            ),
        }
    }
}

/// Returns the text of a document, if the audit can read its format.
///
/// # Errors
/// If it is LaTeX, a notebook or another format than Markdown, HTML and plain text, or not UTF-8.
pub fn supported(path: &Path, bytes: Vec<u8>) -> Result<String, Unaudited> {
    let extension = path
        .extension()
        .map(|part| part.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let name = match extension.as_str() {
        "tex" | "latex" => Some("LaTeX"),
        "ipynb" => Some("a notebook"),
        "pdf" => Some("PDF"),
        "rst" => Some("reStructuredText"),
        "adoc" | "asciidoc" => Some("AsciiDoc"),
        "docx" | "odt" => Some("a word processor's file"),
        "json" | "csv" | "tsv" | "parquet" | "jsonl" | "ndjson" => Some("a data file"),
        _ => None,
    };
    let format = |name: &str| Unaudited::Format(name.to_owned());
    if let Some(name) = name {
        return Err(format(name));
    }
    let text = String::from_utf8(bytes).map_err(|_| Unaudited::NotText)?;
    // The contents decide, not only the name.
    let start = text.trim_start().to_lowercase();
    for (mark, name) in [("\\documentclass", "LaTeX"), ("%pdf-", "PDF")] {
        if start.starts_with(mark) {
            return Err(format(name));
        }
    }
    if start.starts_with('{') && start.contains("\"nbformat\"") {
        return Err(format("a notebook"));
    }
    Ok(text)
}

/// Audits a document against itself and against data tables, if any. `name` is the document's name in the result. In a
/// document with decimal commas, numbers are read so; if its style is not clear, only what is wrong in both readings is
/// reported.
pub fn audit(name: &str, text: &str, data: &[Table]) -> Audit {
    match style::of(text) {
        Style::Point => read(name, text, data),
        Style::Comma => {
            let mut audit = read(name, &style::swapped(text), data);
            let kept = style::written(text);
            let restore = |text: &mut String| *text = style::restored(text, &kept);
            for finding in &mut audit.findings {
                restore(&mut finding.quote);
                restore(&mut finding.message);
                for evidence in &mut finding.evidence {
                    restore(&mut evidence.place);
                    restore(&mut evidence.value);
                }
            }
            for traced in audit.coverage.iter_mut().flat_map(|c| &mut c.numbers) {
                restore(&mut traced.number);
                restore(&mut traced.context);
            }
            audit
        }
        Style::Either => {
            let mut audit = read(name, text, data);
            let other = read(name, &style::swapped(text), data).findings;
            let place = |f: &Finding| (f.rule, f.line, f.column);
            audit
                .findings
                .retain(|own| other.iter().any(|other| place(other) == place(own)));
            audit
        }
    }
}

/// Audits a text with English numbers.
fn read(name: &str, text: &str, data: &[Table]) -> Audit {
    let document = Document::of(name, text);
    let (mut findings, too_long) = written_out(&document);
    findings.extend(grid::check(&document));
    findings.extend(structure::check(&document));
    findings.extend(outcomes::check(&document));
    findings.extend(claims::check(&document, data));
    let coverage = (!data.is_empty()).then(|| {
        let (coverage, differing) = coverage::trace(&document, data);
        findings.extend(differing);
        coverage
    });
    findings.sort_by(|a, b| {
        (a.line, a.column, a.rule, &a.message).cmp(&(b.line, b.column, b.rule, &b.message))
    });
    findings.dedup_by(|later, first| {
        (later.line, later.column, later.rule) == (first.line, first.column, first.rule)
    });
    Audit {
        report: name.to_owned(),
        tables: document.tables.len(),
        data_tables: data.len(),
        findings,
        too_long,
        coverage,
    }
}

/// Checks arithmetic in sentences and cells. Returns the findings, and the lines of what is too long.
fn written_out(document: &Document) -> (Vec<Finding>, Vec<usize>) {
    let (mut findings, mut too_long) = (Vec::new(), Vec::new());
    for prose in &document.prose {
        too_long.extend(prose.too_long.iter().map(|start| prose.place(*start).0));
        for &(start, end) in &prose.sentences {
            let scope = Scope {
                text: &prose.text,
                numbers: prose.numbers_in(start, end),
                start,
                end,
            };
            findings.extend(arithmetic::check(&scope).into_iter().map(|slip| {
                let place = prose.place(slip.start);
                let quote = prose.text.get(slip.start..slip.end).unwrap_or("");
                let cause = format!("line {}", place.0);
                Finding::new(Rule::Arithmetic, place, quote, slip.message, cause)
            }));
        }
    }
    for table in &document.tables {
        for (row, column) in table.places() {
            let text = table.text(row, column);
            let numbers = quantities(text);
            if text.len() > LONGEST || numbers.len() > MOST_NUMBERS {
                too_long.push(table.spot(row, column).0);
                continue;
            }
            let scope = Scope {
                text,
                numbers: &numbers,
                start: 0,
                end: text.len(),
            };
            let (at, name) = ((row, column), table.name(column));
            let slips = arithmetic::check(&scope).into_iter();
            findings.extend(
                slips.map(|slip| table.finding(Rule::Arithmetic, at, slip.message, name, &[])),
            );
        }
    }
    too_long.sort_unstable();
    too_long.dedup();
    (findings, too_long)
}
