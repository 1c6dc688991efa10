//! The text of the report: converts Markdown events to semantic HTML, and traced texts to links.

mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::escape::{escape, push, slug};
use super::trails::Trails;
use crate::figure::Drawn;
use crate::settings::figure_output;
use crate::statement::Recorded;
use crate::trace::{Enclosed, TraceSource};

/// A heading for the table of contents.
pub(super) struct Heading {
    pub(super) level: HeadingLevel,
    pub(super) id: String,
    pub(super) text: String,
}

/// The text of the report under construction.
pub(super) struct Body<'a> {
    markdown: &'a str,
    trails: &'a Trails<'a>,
    enclosed: &'a [Enclosed],
    /// For each statement, the earliest start among it and those that end after it.
    earliest: Vec<usize>,
    recorded: &'a [Recorded],
    figures: BTreeMap<String, &'a Drawn>,
    /// The position of each declared table and figure.
    shown: BTreeMap<&'a str, String>,
    ids: BTreeSet<String>,
    /// Whether the text is inside an appendix.
    in_appendix: bool,
    /// The start of a section's text, if only text and lists have followed.
    answers_at: Option<usize>,
    /// Whether a figure has been placed beside the answers.
    paired: bool,
    /// Whether each open link was written as one.
    links: Vec<bool>,
    pub(super) out: String,
    pub(super) headings: Vec<Heading>,
    /// Which spans have an element.
    pub(super) placed: Vec<bool>,
}

type Events<'a> = [(Event<'a>, Range<usize>)];

impl<'a> Body<'a> {
    pub(super) fn new(
        markdown: &'a str,
        trails: &'a Trails<'a>,
        statements: (&'a [Enclosed], &'a [Recorded]),
        figures: &'a [Drawn],
    ) -> Self {
        let mut earliest: Vec<usize> = statements.0.iter().map(|s| s.bytes.start).collect();
        for at in (1..earliest.len()).rev() {
            earliest[at - 1] = earliest[at - 1].min(earliest[at]);
        }
        let figures = figures
            .iter()
            .map(|f| (figure_output(&f.name), f))
            .collect();
        Self {
            markdown,
            trails,
            enclosed: statements.0,
            earliest,
            recorded: statements.1,
            figures,
            shown: BTreeMap::new(),
            ids: ["contents", "trails", "text"].map(str::to_owned).into(),
            in_appendix: false,
            answers_at: None,
            paired: false,
            links: Vec::new(),
            out: String::with_capacity(markdown.len() * 8),
            headings: Vec::new(),
            placed: vec![false; trails.spans.len()],
        }
    }

    /// Writes the whole text.
    pub(super) fn write(&mut self) {
        // The same options as in the number check, so that both parse the same text.
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        let events: Vec<_> = Parser::new_ext(self.markdown, options)
            .into_offset_iter()
            .collect();
        for at in 0..events.len() {
            if let Some((word, name)) = self.label(&events[at..]) {
                let id = self.unique(&format!("{word}-{}", slug(name)));
                self.shown.entry(name).or_insert(id);
            }
        }
        let mut at = 0;
        while at < events.len() {
            at += self.block(&events[at..]);
        }
        self.end_appendix();
    }

    /// Writes the block at the start of the events and returns how many events it has.
    fn block(&mut self, events: &Events<'a>) -> usize {
        if let Some(drawn) = self.figure(events) {
            return self.plot(drawn, events);
        }
        if let Some((_, name)) = self.label(events) {
            let end = end_of(events);
            let id = self.shown.get(name).cloned().unwrap_or_default();
            if matches!(events.get(end), Some((Event::Start(Tag::Table(_)), _))) {
                let length = end_of(&events[end..]);
                self.table(&events[end..end + length], Some((&id, &events[1..end - 1])));
                return end + length;
            }
            let _ = write!(self.out, "<p id=\"{id}\">");
            self.inline(&events[1..end - 1]);
            self.out.push_str("</p>\n");
            return end;
        }
        match &events[0].0 {
            Event::Start(Tag::Table(_)) => {
                let length = end_of(events);
                self.table(&events[..length], None);
                length
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let length = end_of(events);
                self.heading(*level, &events[1..length - 1]);
                length
            }
            Event::Start(Tag::MetadataBlock(_)) => end_of(events),
            _ => {
                self.event(&events[0]);
                1
            }
        }
    }

    /// The word and name of a paragraph that begins with the label of a declared table or figure.
    fn label(&self, events: &Events<'a>) -> Option<(&'static str, &'a str)> {
        let [
            (Event::Start(Tag::Paragraph), _),
            (Event::Start(Tag::Strong), strong),
            ..,
        ] = events
        else {
            return None;
        };
        let word = match &self.markdown[strong.clone()] {
            text if text.starts_with("**Table ") => "table",
            text if text.starts_with("**Figure ") => "figure",
            _ => return None,
        };
        let spans = self.trails.spans;
        let span = spans.get(spans.partition_point(|s| s.bytes.start < strong.start))?;
        let is_label = span.entry.source == TraceSource::Structure && span.bytes.end <= strong.end;
        is_label.then_some((word, span.entry.column.as_str()))
    }

    /// The figure shown by a paragraph.
    fn figure(&self, events: &Events<'a>) -> Option<&'a Drawn> {
        let [
            (Event::Start(Tag::Paragraph), _),
            (Event::Start(Tag::Image { dest_url, .. }), _),
            ..,
        ] = events
        else {
            return None;
        };
        let alone = 1 + end_of(&events[1..]) + 1 == end_of(events);
        self.figures
            .get(dest_url.as_ref())
            .copied()
            .filter(|_| alone)
    }

    fn plot(&mut self, drawn: &'a Drawn, events: &Events<'a>) -> usize {
        let image = end_of(events);
        let beside = self.begin_pair();
        let caption = self
            .label(&events[image..])
            .filter(|(word, _)| *word == "figure");
        let id = match caption {
            Some((_, name)) => self.shown.get(name).cloned().unwrap_or_default(),
            None => self.unique(&format!("figure-{}", slug(&drawn.name))),
        };
        let _ = writeln!(self.out, "<figure class=\"plot\" id=\"{id}\">");
        self.out.push_str(&drawn.inline(&id));
        let length = caption.map_or(0, |_| end_of(&events[image..]));
        self.out.push_str("<figcaption>");
        if length > 0 {
            self.inline(&events[image + 1..image + length - 1]);
        }
        self.out
            .push_str("</figcaption>\n<details><summary>Data</summary><p>Drawn from <code>");
        push(&mut self.out, &drawn.table);
        self.out.push_str("</code>; each mark names its row.");
        for digest in &drawn.digests {
            let short = digest.short();
            let _ = write!(
                self.out,
                " <code title=\"{digest}\">benchtrail show {short}</code>"
            );
        }
        self.out.push_str("</p>");
        // The picture contains the alternative text as its title; the trails of its numbers are here.
        let alternative = &events[2..image - 2];
        if alternative.iter().any(|(_, range)| self.holds_span(range)) {
            self.out.push_str("<p>Alternative text: ");
            self.inline(alternative);
            self.out.push_str("</p>");
        }
        self.out.push_str("</details></figure>\n");
        if beside {
            self.out.push_str("</div>\n");
        }
        image + length
    }

    /// Begins the part that is laid out side by side on a wide screen: the answers, which are the text and lists of a
    /// section, and the picture after them. At most one section, the question, may come before. Returns whether the
    /// pair was begun.
    fn begin_pair(&mut self) -> bool {
        let sections = self.headings.iter().filter(|h| h.level == HeadingLevel::H2);
        let is_early = !self.paired && sections.count() <= 2;
        let Some(at) = self
            .answers_at
            .take()
            .filter(|at| is_early && *at < self.out.len())
        else {
            return false;
        };
        self.paired = true;
        self.out.insert_str(at, "<div class=\"first\">\n<div>\n");
        self.out.push_str("</div>\n");
        true
    }

    fn heading(&mut self, level: HeadingLevel, inside: &Events<'a>) {
        let mut text = String::new();
        for (event, _) in inside {
            match event {
                Event::Text(t) | Event::Code(t) => text.push_str(t),
                Event::SoftBreak => text.push(' '),
                _ => {}
            }
        }
        let id = self.unique(&slug(&text));
        if level <= HeadingLevel::H2 {
            self.end_appendix();
        }
        // An appendix is reference material: it opens on demand and is not printed.
        self.in_appendix |= level == HeadingLevel::H2 && text.starts_with("Appendix");
        let (before, after) = match self.in_appendix && level == HeadingLevel::H2 {
            true => ("<details class=\"appendix\"><summary>", "</summary>"),
            false => ("", ""),
        };
        let _ = write!(self.out, "{before}<{level} id=\"{id}\">");
        self.inline(inside);
        let _ = writeln!(self.out, "</{level}>{after}");
        self.headings.push(Heading { level, id, text });
        self.answers_at = (level == HeadingLevel::H2).then_some(self.out.len());
    }

    /// Closes the open appendix.
    fn end_appendix(&mut self) {
        if std::mem::take(&mut self.in_appendix) {
            self.out.push_str("</details>\n");
        }
    }

    fn table(&mut self, events: &Events<'a>, caption: Option<(&str, &Events<'a>)>) {
        let Some((Event::Start(Tag::Table(alignments)), _)) = events.first() else {
            return;
        };
        let id = caption
            .map(|(id, _)| format!(" id=\"{id}\""))
            .unwrap_or_default();
        self.answers_at = None;
        // Regions need unique names.
        let name = match caption {
            Some((id, _)) => id.to_owned(),
            None => self.unique("table"),
        };
        let _ = writeln!(
            self.out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{name}\">"
        );
        let _ = writeln!(self.out, "<table{id}>");
        if let Some((_, inside)) = caption {
            self.out.push_str("<caption>");
            self.inline(inside);
            self.out.push_str("</caption>\n");
        }
        let (mut column, mut head) = (0, false);
        let mut tag = "td";
        for event in &events[1..events.len() - 1] {
            match &event.0 {
                Event::Start(Tag::TableHead) => {
                    head = true;
                    column = 0;
                    self.out.push_str("<thead><tr>");
                }
                Event::End(TagEnd::TableHead) => {
                    head = false;
                    self.out.push_str("</tr></thead>\n<tbody>\n");
                }
                Event::Start(Tag::TableRow) => {
                    column = 0;
                    self.out.push_str("<tr>");
                }
                Event::End(TagEnd::TableRow) => self.out.push_str("</tr>\n"),
                Event::Start(Tag::TableCell) => {
                    let alignment = alignments.get(column).copied().unwrap_or(Alignment::None);
                    // The first column names the row, unless it contains numbers.
                    let names = column == 0 && alignment != Alignment::Right;
                    tag = if head || names { "th" } else { "td" };
                    let scope = match (head, names) {
                        (true, _) => " scope=\"col\"",
                        (false, true) => " scope=\"row\"",
                        (false, false) => "",
                    };
                    let class = match alignment {
                        Alignment::Right => " class=\"right\"",
                        Alignment::Center => " class=\"center\"",
                        Alignment::None | Alignment::Left => "",
                    };
                    let _ = write!(self.out, "<{tag}{scope}{class}>");
                    column += 1;
                }
                Event::End(TagEnd::TableCell) => {
                    let _ = write!(self.out, "</{tag}>");
                }
                _ => self.event(event),
            }
        }
        self.out.push_str("</tbody>\n</table></div>\n");
    }

    fn inline(&mut self, events: &Events<'a>) {
        for event in events {
            self.event(event);
        }
    }

    fn event(&mut self, (event, range): &(Event<'a>, Range<usize>)) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(*tag),
            Event::Text(text) => self.text(text, range.clone()),
            Event::Code(text) => {
                self.out.push_str("<code>");
                let at = self.markdown[range.clone()].find(text.as_ref());
                let range = at.map_or(range.clone(), |at| {
                    range.start + at..range.start + at + text.len()
                });
                self.text(text, range);
                self.out.push_str("</code>");
            }
            // HTML written in a template is shown literally: a report is Markdown.
            Event::Html(text) | Event::InlineHtml(text)
                if !text.trim_start().starts_with("<!--") =>
            {
                self.text(text, range.clone());
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>\n"),
            Event::Rule => self.out.push_str("<hr>\n"),
            Event::FootnoteReference(name) => {
                let (id, name) = (slug(name), escape(name));
                let back = self.unique(&format!("note-{id}-from"));
                let _ = write!(
                    self.out,
                    "<sup><a id=\"{back}\" href=\"#note-{id}\">{name}</a></sup>"
                );
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'a>) {
        let open = match tag {
            Tag::Paragraph => "<p>",
            Tag::BlockQuote(_) => "<blockquote>\n",
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => "<pre><code>",
            Tag::List(None) => "<ul>\n",
            Tag::List(Some(1)) => "<ol>\n",
            Tag::List(Some(first)) => {
                let _ = writeln!(self.out, "<ol start=\"{first}\">");
                return;
            }
            Tag::Item => "<li>",
            Tag::Emphasis => "<em>",
            Tag::Strong => "<strong>",
            Tag::Strikethrough => "<s>",
            Tag::HtmlBlock => "<p>",
            Tag::FootnoteDefinition(name) => {
                let _ = write!(
                    self.out,
                    "<div class=\"note\" role=\"note\" id=\"note-{}\">",
                    slug(name)
                );
                self.ids.insert(format!("note-{}", slug(name)));
                return;
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                // Links do not nest. External pictures become links and are not fetched.
                let is_link = !self.links.contains(&true) && is_harmless(dest_url);
                self.links.push(is_link);
                if is_link {
                    let _ = write!(self.out, "<a href=\"{}\">", escape(dest_url));
                }
                return;
            }
            _ => "",
        };
        self.out.push_str(open);
    }

    fn end(&mut self, tag: TagEnd) {
        let close = match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => "</p>\n",
            TagEnd::BlockQuote(_) => "</blockquote>\n",
            TagEnd::CodeBlock => "</code></pre>\n",
            TagEnd::List(true) => "</ol>\n",
            TagEnd::List(false) => "</ul>\n",
            TagEnd::Item => "</li>\n",
            TagEnd::Emphasis => "</em>",
            TagEnd::Strong => "</strong>",
            TagEnd::Strikethrough => "</s>",
            TagEnd::FootnoteDefinition => "</div>\n",
            TagEnd::Link | TagEnd::Image => match self.links.pop() {
                Some(true) => "</a>",
                _ => "",
            },
            _ => "",
        };
        self.out.push_str(close);
    }
}

impl Body<'_> {
    fn unique(&mut self, wanted: &str) -> String {
        // `n1` and `t1` are ids of numbers and trails.
        let rest = wanted.trim_start_matches(['n', 't']);
        let taken = rest.len() + 1 == wanted.len() && rest.bytes().all(|b| b.is_ascii_digit());
        let wanted = if taken {
            format!("part-{wanted}")
        } else {
            wanted.to_owned()
        };
        let mut id = wanted.clone();
        let mut number = 1usize;
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("{wanted}-{number}");
        }
        id
    }
}

/// The number of events up to and including the end of what the first one starts.
fn end_of(events: &Events<'_>) -> usize {
    let mut depth = 0usize;
    for (at, (event, _)) in events.iter().enumerate() {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    events.len()
}

/// Whether a link leads to a page, a mail address or a place in this page, and runs no code.
fn is_harmless(destination: &str) -> bool {
    let scheme = destination
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    match scheme.split_once(':') {
        None => true,
        Some((name, _)) => {
            ["http", "https", "mailto"].contains(&name.to_ascii_lowercase().as_str())
        }
    }
}
