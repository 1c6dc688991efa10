//! The unit in the heading of a column of a table: it must be the unit of the traced numbers below it.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::bare_unit;
use super::places::OPTIONS;
use super::units::contradicts_label;
use crate::trace::TracedSpan;

/// Returns the places of traced numbers without a unit below a heading that ends with another unit, such as `TTFT (s)` above
/// milliseconds.
pub(super) fn contradicted(markdown: &str, spans: &[TracedSpan]) -> Vec<Range<usize>> {
    let mut wrong = Vec::new();
    let mut headings: Vec<String> = Vec::new();
    let mut is_head = false;
    let mut column = 0;
    for (event, range) in Parser::new_ext(markdown, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::TableHead) => {
                headings.clear();
                is_head = true;
            }
            Event::End(TagEnd::TableHead) => is_head = false,
            Event::Start(Tag::TableRow) => column = 0,
            Event::Start(Tag::TableCell) if is_head => headings.push(String::new()),
            Event::Text(text) | Event::Code(text) if is_head => {
                if let Some(heading) = headings.last_mut() {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::TableCell) if !is_head => {
                let Some(heading) = headings.get(column) else {
                    continue;
                };
                column += 1;
                let first = spans.partition_point(|span| span.bytes.end <= range.start);
                let cell = spans[first..]
                    .iter()
                    .take_while(|span| span.bytes.start < range.end);
                // A heading with two units does not say which number has which.
                let one = heading.matches(" (").count() == 1;
                let other = cell.filter(|span| {
                    one && contradicts_label(heading, bare_unit(&span.entry)).is_some()
                });
                wrong.extend(other.map(|span| span.bytes.clone()));
            }
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;

    use super::*;
    use crate::trace::{Entry, TraceSource};

    /// A span of the first `text` in a Markdown text, of a column in ms.
    fn shown(markdown: &str, text: &str) -> TracedSpan {
        let at = markdown.find(text).unwrap();
        TracedSpan {
            line: 1,
            column_start: 1,
            column_end: 1,
            bytes: at..at + text.len(),
            entry: Entry {
                unit: Some("ms".to_owned()),
                ..Entry::new(TraceSource::Table, "ttft_ms_p50", Scalar::Float(14.4), text)
            },
        }
    }

    #[test]
    fn a_heading_names_the_unit_of_the_numbers_below_it() {
        for (heading, text, is_wrong) in [
            ("TTFT (s)", "14.4", true),
            ("**TTFT** (tok/s)", "14.4", true),
            ("TTFT (ms)", "14.4", false),
            ("TTFT", "14.4", false),
            ("TPOT (ms/tok)", "14.4", false),
            ("TTFT (shared)", "14.4", false),
            // The number has its unit.
            ("TTFT (s)", "14.4 ms", false),
        ] {
            let markdown = format!(
                "| Server | {heading} | Rate (tok/s) |\n|---|---|---|\n| serial | {text} | x |\n"
            );
            let spans = [shown(&markdown, text)];
            let wrong = contradicted(&markdown, &spans);
            assert_eq!(!wrong.is_empty(), is_wrong, "{heading} {text}");
        }
    }
}
