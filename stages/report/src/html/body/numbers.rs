//! Traced texts and statements in the text of the report.

use std::fmt::Write as _;
use std::ops::Range;

use super::Body;
use crate::html::escape::{escape, push};
use crate::html::trails::statement_line;
use crate::trace::{Enclosed, TraceSource};

impl Body<'_> {
    pub(super) fn holds_span(&self, range: &Range<usize>) -> bool {
        !self.spans_in(range).is_empty()
    }

    /// The positions of the spans that overlap a range.
    fn spans_in(&self, range: &Range<usize>) -> Range<usize> {
        let spans = self.trails.spans;
        let mut first = spans.partition_point(|s| s.bytes.start < range.start);
        if first > 0 && spans[first - 1].bytes.end > range.start {
            first -= 1;
        }
        let last = spans.partition_point(|s| s.bytes.start < range.end);
        first..last.max(first)
    }

    /// Writes text from a range of the Markdown: its traced parts as links, the other parts of a statement with its
    /// verdict.
    pub(super) fn text(&mut self, text: &str, range: Range<usize>) {
        let spans = self.spans_in(&range);
        // Statements are sorted by their ends.
        let first = self
            .enclosed
            .partition_point(|s| s.bytes.end <= range.start);
        let reach = self.enclosed[first..].iter().zip(&self.earliest[first..]);
        let reach = reach
            .take_while(|(_, earliest)| **earliest < range.end)
            .map(|(statement, _)| statement);
        let statements: Vec<&Enclosed> = reach.filter(|s| s.bytes.start < range.end).collect();
        if spans.is_empty() && statements.is_empty() {
            return push(&mut self.out, text);
        }
        if self.markdown.get(range.clone()) != Some(text) {
            // An escape or entity: positions in the text differ from those in the Markdown.
            return match spans.clone().next() {
                Some(span) => self.number(span, text),
                None => push(&mut self.out, text),
            };
        }
        let mut cuts: Vec<usize> = vec![range.start, range.end];
        for bytes in self.trails.spans[spans.clone()]
            .iter()
            .map(|s| &s.bytes)
            .chain(statements.iter().map(|s| &s.bytes))
        {
            cuts.extend(
                [bytes.start, bytes.end]
                    .into_iter()
                    .filter(|at| range.contains(at)),
            );
        }
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            let piece = &text[pair[0] - range.start..pair[1] - range.start];
            let covers = |bytes: &Range<usize>| bytes.start <= pair[0] && pair[1] <= bytes.end;
            if let Some(span) = spans.clone().find(|i| covers(&self.trails.spans[*i].bytes)) {
                self.number(span, piece);
            } else if let Some(recorded) = statements
                .iter()
                .find(|s| covers(&s.bytes))
                .and_then(|s| self.recorded.get(s.statement))
            {
                let title = escape(&statement_line(recorded));
                let _ = write!(
                    self.out,
                    "<span class=\"s\" title=\"{title}\">{}</span>",
                    escape(piece)
                );
            } else {
                push(&mut self.out, piece);
            }
        }
    }

    /// Writes a traced text, or another piece of one.
    pub(in crate::html) fn number(&mut self, span: usize, text: &str) {
        let entry = &self.trails.spans[span].entry;
        let trail = self.trails.of(span) + 1;
        let id = if self.placed[span] {
            String::new()
        } else {
            format!(" id=\"n{}\"", span + 1)
        };
        self.placed[span] = true;
        let target = self
            .shown
            .get(entry.column.as_str())
            .filter(|_| entry.source == TraceSource::Structure);
        let target = target.cloned().unwrap_or_else(|| format!("t{trail}"));
        // Labels and words have a tooltip but no underline; as keyboard stops they would separate the results too far.
        let is_result = self.trails.is_result(span) && text.chars().any(char::is_numeric);
        let class = if is_result { "n" } else { "n w" };
        let (tag, way) = match (self.links.contains(&true), is_result) {
            (true, _) => ("span", " tabindex=\"0\"".to_owned()),
            (false, true) => ("a", format!(" href=\"#{target}\"")),
            (false, false) => ("a", format!(" href=\"#{target}\" tabindex=\"-1\"")),
        };
        let lines = escape(&self.trails.tooltip(span)).replace('\n', "&#10;");
        let _ = write!(
            self.out,
            "<{tag} class=\"{class}\"{id}{way} aria-describedby=\"t{trail}\" data-trail=\"{lines}\">{}</{tag}>",
            escape(text)
        );
    }
}
