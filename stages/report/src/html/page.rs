//! The page: head, contents, text, appendix.

use std::fmt::Write as _;

use pulldown_cmark::HeadingLevel;

use super::appendix;
use super::body::{Body, Heading};
use super::escape::{escape, push};
use super::style::sheet;
use super::trails::Trails;
use crate::figure::Drawn;
use crate::statement::Recorded;
use crate::trace::{Enclosed, TraceSource, TracedSpan, full};

/// The inputs of a page.
pub(crate) struct Parts<'a> {
    /// The report in Markdown.
    pub(crate) markdown: &'a str,
    /// Its traced texts, in order of position.
    pub(crate) spans: &'a [TracedSpan],
    /// Its statements, in order of position.
    pub(crate) enclosed: &'a [Enclosed],
    /// The results of the statements.
    pub(crate) recorded: &'a [Recorded],
    /// Its figures.
    pub(crate) figures: &'a [Drawn],
}

/// Returns the page: the same bytes for the same parts.
pub(crate) fn page(parts: &Parts<'_>) -> String {
    let trails = Trails::new(parts.spans, parts.enclosed, parts.recorded);
    let mut body = Body::new(
        parts.markdown,
        &trails,
        (parts.enclosed, parts.recorded),
        parts.figures,
    );
    body.write();
    appendix::write(&mut body, &trails);
    let title = body.headings.first().map_or("Report", |h| h.text.as_str());
    // The policy makes the browser enforce the promise: it fetches nothing and runs nothing.
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"Benchtrail\">\n\
         <title>{}</title>\n<style>\n{}{}\n</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#text\">Skip to the text</a>\n",
        escape(title),
        sheet(),
        running_lines(parts.spans)
    );
    page.reserve(body.out.len() + 4096);
    page.push_str("<main id=\"text\">\n");
    // The table of contents comes after the title.
    let after = body
        .out
        .find("</h1>\n")
        .map_or(0, |at| at + "</h1>\n".len());
    page.push_str(&body.out[..after]);
    contents(&mut page, &body.headings);
    page.push_str(&body.out[after..]);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Returns the CSS rule that prints the trail digest at the top of every page and the page number at the bottom, so
/// that each sheet of paper identifies its study.
fn running_lines(spans: &[TracedSpan]) -> String {
    let digest = spans
        .iter()
        .find(|span| span.entry.source == TraceSource::Trail);
    // Text that goes into a style sheet unescaped may contain only the characters of a digest.
    let digest = digest
        .and_then(|span| full(&span.entry.value))
        .filter(|text| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':'));
    let Some(digest) = digest else {
        return String::new();
    };
    format!(
        "\n@page{{@top-left{{content:\"Trail {digest}\";font:7pt monospace}}@bottom-right{{content:counter(page);font:8pt sans-serif}}}}"
    )
}

/// Writes the table of contents: sections and their parts. A short report does not need one, and a text may already
/// have its own.
fn contents(page: &mut String, headings: &[Heading]) {
    let listed: Vec<&Heading> = headings
        .iter()
        .filter(|h| matches!(h.level, HeadingLevel::H2 | HeadingLevel::H3))
        .collect();
    let own = listed
        .iter()
        .any(|h| h.text.eq_ignore_ascii_case("contents"));
    if own
        || listed
            .iter()
            .filter(|h| h.level == HeadingLevel::H2)
            .count()
            < 3
    {
        return;
    }
    page.push_str("<nav id=\"contents\" aria-label=\"Contents\">\n<ul>\n");
    let (mut section, mut parts) = (false, false);
    for heading in listed {
        let is_part = heading.level == HeadingLevel::H3 && section;
        if is_part && !parts {
            page.push_str("\n<ul>\n");
        } else if !is_part && parts {
            page.push_str("</li>\n</ul></li>\n");
        } else if section {
            page.push_str("</li>\n");
        }
        (section, parts) = (true, is_part);
        let _ = write!(page, "<li><a href=\"#{}\">", heading.id);
        push(page, &heading.text);
        page.push_str("</a>");
    }
    page.push_str(if parts {
        "</li>\n</ul></li>\n"
    } else {
        "</li>\n"
    });
    page.push_str("</ul>\n</nav>\n");
}
