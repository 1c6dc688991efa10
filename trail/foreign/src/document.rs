//! A document as blocks: headings, prose, lists, tables and code, with the place of each character. CommonMark with
//! GFM's tables and footnotes defines the blocks (`pulldown-cmark`), or HTML; comments and code are never prose.

mod html;
mod lines;
mod tags;

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::number::{Quantity, quantities};
use crate::table::{
    Cell, Row, Table, aligned, barred, comma_separated, consoles, is_rule, split_row,
};
use crate::words::{is_note, sentences};
use lines::Lines;

/// A document cut into blocks.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The headings, in order.
    pub headings: Vec<Heading>,
    /// Paragraphs and the texts of list items, in order.
    pub prose: Vec<Prose>,
    /// Lists; an item is an index into `prose`.
    pub lists: Vec<List>,
    /// Tables: GFM's, and those in code blocks with aligned columns.
    pub tables: Vec<Table>,
    /// What programs printed in code blocks: lines of a name and a number.
    pub consoles: Vec<Table>,
    /// Rows with more cells than their header; rendering drops the extra cells.
    pub lost: Vec<Lost>,
    /// Links to a heading of this document: line, column, fragment.
    pub fragments: Vec<(usize, usize, String)>,
    /// Names that HTML assigns to places (`id="…"`, `name="…"`).
    pub anchors: Vec<String>,
    /// The line of a code fence that is never closed.
    pub open_fence: Option<usize>,
}

/// A heading.
#[derive(Debug, Clone, Default)]
pub struct Heading {
    /// Line, from 1.
    pub line: usize,
    /// Its words.
    pub text: String,
    /// The explicit name, as in `## Title {#name}`.
    pub id: Option<String>,
}

/// A list.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The paragraph directly above it, as an index into `prose`.
    pub intro: Option<usize>,
    /// The first text of every item, as indexes into `prose`.
    pub items: Vec<Option<usize>>,
    /// Its nesting depth in other lists; 0 for none.
    pub depth: usize,
}

/// A row that loses cells.
#[derive(Debug, Clone)]
pub struct Lost {
    /// Line of the row.
    pub line: usize,
    /// Line of the table's header.
    pub table: usize,
    /// Cells of the row and of the header.
    pub cells: (usize, usize),
    /// The dropped text.
    pub text: String,
}

/// A paragraph or the text of a list item, markup removed.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    /// The words.
    pub text: String,
    /// Runs of text that are contiguous in the document: offset in `text`, line, column in characters.
    places: Vec<(usize, usize, usize)>,
    /// Code within the text.
    code: Vec<Range<usize>>,
    /// Number of headings before it.
    pub section: usize,
    /// The numbers in it, except those in code.
    pub numbers: Vec<Quantity>,
    /// Sentences as byte ranges, except those that are too long to be checked.
    pub sentences: Vec<(usize, usize)>,
    /// The starts of the sentences that are too long.
    pub too_long: Vec<usize>,
}

/// The longest sentence or cell that is checked, in bytes, and the most numbers in it. The checks compare each number
/// with the others, and a list without full stops would take hours.
pub(crate) const LONGEST: usize = 16 << 10;
pub(crate) const MOST_NUMBERS: usize = 300;

impl Prose {
    /// Line and column of a byte offset.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let at = self.places.partition_point(|run| run.0 <= offset);
        let Some(&(start, line, column)) = at.checked_sub(1).and_then(|at| self.places.get(at))
        else {
            return (1, 1);
        };
        let inside = self
            .text
            .get(start..offset)
            .map_or(0, |t| t.chars().count());
        (line, column + inside)
    }

    /// The numbers whose text begins in a byte range.
    pub(crate) fn numbers_in(&self, start: usize, end: usize) -> &[Quantity] {
        let from = self.numbers.partition_point(|number| number.start < start);
        let to = self.numbers.partition_point(|number| number.start < end);
        self.numbers.get(from..to.max(from)).unwrap_or(&[])
    }

    fn push(&mut self, text: &str, place: (usize, usize)) {
        self.places.push((self.text.len(), place.0, place.1));
        self.text.push_str(text);
    }

    fn finish(mut self, quote: bool) -> Self {
        let code = std::mem::take(&mut self.code);
        self.numbers = quantities(&self.text);
        self.numbers
            .retain(|number| !code.iter().any(|part| part.contains(&number.start)));
        let short = |&(start, end): &(usize, usize)| {
            end - start <= LONGEST && self.numbers_in(start, end).len() <= MOST_NUMBERS
        };
        let (short, long): (Vec<_>, Vec<_>) = sentences(&self.text).into_iter().partition(short);
        // Somebody else says what a block quote says, unless it is a note of the author.
        if !quote || is_note(&self.text) {
            self.sentences = short;
        }
        self.too_long = long.into_iter().map(|(start, _)| start).collect();
        self
    }
}

/// The state of the parser between events.
struct Reader<'a> {
    lines: Lines<'a>,
    document: Document,
    inline: Option<Prose>,
    /// The open heading, and its explicit name.
    heading: Option<Option<String>>,
    lists: Vec<usize>,
    /// Whether the next text is the first of its item.
    item: bool,
    /// The prose that ended directly before the current block.
    last: Option<usize>,
    table: Option<Table>,
    code: Option<(usize, String)>,
    skip: usize,
    /// Open marks of struck text, which is withdrawn, and open block quotes.
    struck: usize,
    quotes: usize,
    /// Open marks of bold text, and the length of the bold text of the cell.
    strong: usize,
    bold: usize,
    /// Whether HTML marks the text as code.
    literal: bool,
    /// The place where a block of HTML begins.
    block: Option<usize>,
}

impl Document {
    /// Reads a document: HTML if its name or its first words say so, otherwise Markdown.
    pub fn of(name: &str, text: &str) -> Self {
        if is_html(name, text) {
            let mut reader = Reader::new(text, 1);
            html::read(&mut reader, 0, text.len());
            return reader.document;
        }
        Self::parse(text)
    }

    /// Reads Markdown.
    pub fn parse(text: &str) -> Self {
        Self::parse_at(text, 1)
    }

    fn parse_at(text: &str, first: usize) -> Self {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_HEADING_ATTRIBUTES
            | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        let mut reader = Reader::new(text, first);
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            reader.event(event, range);
        }
        reader.close();
        // MyST, Sphinx's Markdown, names places with separate lines: `(name)=`.
        let names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('(')?.strip_suffix(")="));
        reader.document.anchors.extend(names.map(str::to_owned));
        reader.document
    }

    /// The heading above a block of prose.
    pub(crate) fn heading_of(&self, section: usize) -> &str {
        section
            .checked_sub(1)
            .and_then(|at| self.headings.get(at))
            .map_or("", |heading| &heading.text)
    }
}

/// Whether a document is HTML, by the end of its name or its first words.
pub(crate) fn is_html(name: &str, text: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.to_lowercase().ends_with(end);
    let start: String = text.trim_start().chars().take(14).collect();
    let start = start.to_lowercase();
    [".html", ".htm", ".xhtml"].into_iter().any(ends)
        || start == "<!doctype html"
        || start.starts_with("<html")
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, first: usize) -> Self {
        Self {
            lines: Lines::new(text, first),
            document: Document::default(),
            inline: None,
            heading: None,
            lists: Vec::new(),
            item: false,
            last: None,
            table: None,
            code: None,
            skip: 0,
            struck: 0,
            quotes: 0,
            strong: 0,
            bold: 0,
            literal: false,
            block: None,
        }
    }
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag, range.end),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text, range.start, false),
            },
            Event::Code(text) => {
                // The offset of the event is that of its backticks.
                let source = self.lines.text.get(range.clone()).unwrap_or("");
                let ticks = source.len() - source.trim_start_matches('`').len();
                self.text(&text, range.start + ticks, true);
            }
            Event::SoftBreak | Event::HardBreak => self.text(" ", range.start, false),
            Event::InlineHtml(html) | Event::Html(html) => self.html(&html, range.start),
            Event::Rule => self.close_and_forget(),
            Event::FootnoteReference(_)
            | Event::TaskListMarker(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_) => {}
        }
    }

    fn text(&mut self, text: &str, offset: usize, code: bool) {
        if self.skip + self.struck > 0 {
            return;
        }
        let place = self.lines.place(offset);
        let section = self.document.headings.len();
        let prose = self.inline.get_or_insert_with(|| Prose {
            section,
            ..Prose::default()
        });
        if code {
            prose
                .code
                .push(prose.text.len()..prose.text.len() + text.len());
        }
        if self.strong > 0 {
            self.bold += text.len();
        }
        prose.push(text, place);
    }

    fn html(&mut self, html: &str, offset: usize) {
        match html.to_lowercase().as_str() {
            "<del>" | "<s>" | "<strike>" => self.struck += 1,
            "</del>" | "</s>" | "</strike>" => self.struck = self.struck.saturating_sub(1),
            tag if tag.starts_with("<br") => self.text(" ", offset, false),
            _ => {}
        }
        for name in ["id=", "name="] {
            for (at, _) in html.match_indices(name) {
                let rest = html[at + name.len()..].trim_start_matches(['"', '\'']);
                let end = rest.find(['"', '\'', '>', ' ']).unwrap_or(rest.len());
                self.document.anchors.push(rest[..end].to_owned());
            }
        }
    }

    /// Ends the open text.
    fn close(&mut self) {
        // A mark that is never closed strikes out no other block.
        self.struck = 0;
        let Some(prose) = self.inline.take() else {
            return;
        };
        if prose.text.trim().is_empty() {
            return;
        }
        let index = self.document.prose.len();
        if std::mem::take(&mut self.item)
            && let Some(item) = self
                .lists
                .last()
                .and_then(|at| self.document.lists.get_mut(*at))
                .and_then(|list| list.items.last_mut())
        {
            *item = Some(index);
        }
        self.document.prose.push(prose.finish(self.quotes > 0));
        self.last = Some(index);
    }

    fn close_and_forget(&mut self) {
        self.close();
        self.last = None;
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::HtmlBlock => {
                self.close();
                self.block = Some(range.start);
            }
            Tag::Paragraph => self.close(),
            Tag::BlockQuote(_) => {
                self.close();
                self.quotes += 1;
            }
            Tag::Heading { id, .. } => {
                self.close();
                self.open_heading(range.start, id.map(|id| id.to_string()));
            }
            Tag::CodeBlock(kind) => {
                self.close_and_forget();
                self.fence(&kind, &range);
                let line = self.lines.place(range.start).0;
                let fenced = usize::from(kind.is_fenced());
                self.code = Some((line + fenced, String::new()));
            }
            Tag::List(_) => {
                self.close();
                self.open_list();
            }
            Tag::Item => {
                self.close_and_forget();
                self.open_item();
            }
            Tag::Strong => self.strong += 1,
            Tag::Strikethrough => self.struck += 1,
            Tag::Table(_) => {
                self.close();
                let title = self.document.heading_of(self.document.headings.len());
                let above = self.last.take().and_then(|at| self.document.prose.get(at));
                let caption = above.filter(|prose| prose.text.starts_with("Tab"));
                self.table = Some(Table {
                    title: title.to_owned(),
                    caption: caption.map_or(String::new(), |prose| prose.text.clone()),
                    line: self.lines.place(range.start).0,
                    ..Table::default()
                });
            }
            Tag::TableRow => self.row(range.start),
            Tag::FootnoteDefinition(_) => self.close_and_forget(),
            Tag::MetadataBlock(_) => self.skip += 1,
            Tag::Image { .. } => self.skip += 1,
            Tag::Link {
                link_type,
                dest_url,
                ..
            } => {
                self.text("", range.start, false);
                let target = dest_url.strip_prefix('#');
                self.link(
                    range.start,
                    target.filter(|_| link_type != LinkType::Autolink),
                );
            }
            _ => {}
        }
    }

    fn open_heading(&mut self, offset: usize, id: Option<String>) {
        self.last = None;
        self.document.headings.push(Heading {
            line: self.lines.place(offset).0,
            ..Heading::default()
        });
        self.heading = Some(id);
    }

    /// A link, perhaps to a heading.
    fn link(&mut self, offset: usize, fragment: Option<&str>) {
        if let Some(fragment) = fragment {
            let (line, column) = self.lines.place(offset);
            let fragments = &mut self.document.fragments;
            fragments.push((line, column, fragment.to_owned()));
        }
    }

    fn open_list(&mut self) {
        self.document.lists.push(List {
            intro: self.last,
            depth: self.lists.len(),
            ..List::default()
        });
        self.lists.push(self.document.lists.len() - 1);
    }

    fn open_item(&mut self) {
        self.item = true;
        let list = self.lists.last();
        if let Some(list) = list.and_then(|at| self.document.lists.get_mut(*at)) {
            list.items.push(None);
        }
    }

    fn close_list(&mut self) {
        self.close_and_forget();
        self.lists.pop();
        self.item = false;
    }

    fn end_heading(&mut self) {
        let id = self.heading.take().flatten();
        let text = self.inline.take().map_or(String::new(), |prose| prose.text);
        if let Some(heading) = self.document.headings.last_mut() {
            text.trim().clone_into(&mut heading.text);
            heading.id = id;
        }
    }

    /// The open text as a cell that begins at a place.
    fn cell(&mut self, place: (usize, usize)) -> Cell {
        let prose = self.inline.take();
        let (line, column) = prose.as_ref().map_or(place, |prose| prose.place(0));
        let text = prose.map_or(String::new(), |prose| prose.text);
        let bold = std::mem::take(&mut self.bold);
        self.struck = 0;
        Cell {
            line,
            bold: bold > 0 && bold >= text.trim().len(),
            ..Cell::new(&text, column)
        }
    }

    fn end(&mut self, tag: TagEnd, end: usize) {
        match tag {
            TagEnd::Heading(_) => self.end_heading(),
            TagEnd::Strikethrough => self.struck = self.struck.saturating_sub(1),
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::CodeBlock => {
                if let Some((line, code)) = self.code.take() {
                    self.shown_tables(&code, line);
                }
            }
            TagEnd::List(_) => self.close_list(),
            TagEnd::TableCell => {
                let cell = self.cell((0, 0));
                if let Some(table) = &mut self.table {
                    match table.rows.last_mut() {
                        Some(row) => row.cells.push(cell),
                        None => table.columns.push(cell.text),
                    }
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.finish_table(table);
                }
            }
            TagEnd::Paragraph | TagEnd::Item => self.close(),
            TagEnd::HtmlBlock => {
                self.close_and_forget();
                let begin = self.block.take().unwrap_or(end);
                let block = self.lines.text.get(begin..end).unwrap_or("");
                if block.contains("<table") {
                    html::read(self, begin, end);
                }
            }
            TagEnd::BlockQuote(_) => {
                self.close_and_forget();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::FootnoteDefinition => self.close_and_forget(),
            TagEnd::MetadataBlock(_) | TagEnd::Image => self.skip = self.skip.saturating_sub(1),
            _ => {}
        }
    }

    fn row(&mut self, offset: usize) {
        let line = self.lines.place(offset).0;
        if let Some(table) = &mut self.table {
            table.rows.push(Row {
                line,
                cells: Vec::new(),
            });
        }
    }

    /// Checks that a fence is closed. It can be open only at the end of the document or of the enclosing block.
    fn fence(&mut self, kind: &CodeBlockKind<'_>, range: &Range<usize>) {
        let source = self.lines.text.get(range.clone()).unwrap_or("");
        let mark = source.trim_start().chars().next().unwrap_or('`');
        let last = source.trim_end().rsplit('\n').next().unwrap_or("");
        let closed = source.trim_end().contains('\n')
            && last
                .trim_start_matches(['>', ' ', '\t'])
                .starts_with([mark, mark, mark].iter().collect::<String>().as_str());
        if kind.is_fenced() && !closed && range.end >= self.lines.text.trim_end().len() {
            self.document.open_fence = Some(self.lines.place(range.start).0);
        }
    }

    /// Finishes a table: records the extra cells of rows. A second header within it begins another table.
    fn finish_table(&mut self, mut table: Table) {
        let index = |line: usize| line - self.lines.first;
        let source = |line: usize| {
            let start = self.lines.starts.get(index(line)).copied().unwrap_or(0);
            self.lines.line(start)
        };
        if let Some(at) = table
            .rows
            .iter()
            .position(|row| is_rule(source(row.line)))
            .filter(|at| *at > 0)
        {
            let first = table.rows[at - 1].line;
            let last = table.rows.last().map_or(first, |row| row.line);
            let start = self.lines.starts[index(first)];
            let end = self
                .lines
                .starts
                .get(index(last) + 1)
                .copied()
                .unwrap_or(self.lines.text.len());
            let below = Document::parse_at(&self.lines.text[start..end], first);
            table.rows.truncate(at - 1);
            self.finish_table(table.clone());
            self.document.lost.extend(below.lost);
            self.document
                .tables
                .extend(below.tables.into_iter().map(|below| Table {
                    title: table.title.clone(),
                    ..below
                }));
            return;
        }
        let width = table.columns.len();
        for row in &mut table.rows {
            let line = source(row.line).trim_start_matches(['>', ' ', '\t']);
            let cells = split_row(line);
            if cells.len() > width {
                let text = cells[width..].join(" | ");
                if !text.replace('|', "").trim().is_empty() {
                    self.document.lost.push(Lost {
                        line: row.line,
                        table: table.line,
                        cells: (cells.len(), width),
                        text,
                    });
                }
            }
            row.cells.resize(width, Cell::default());
        }
        if !table.rows.is_empty() {
            self.document.tables.push(table.without_index());
        }
    }

    /// Reads the tables in a code block: blocks of lines with aligned columns.
    fn shown_tables(&mut self, code: &str, first: usize) {
        let lines: Vec<&str> = code.lines().collect();
        self.document.consoles.extend(consoles(&lines, first));
        let title = self
            .document
            .heading_of(self.document.headings.len())
            .to_owned();
        let mut start = 0;
        for end in 0..=lines.len() {
            if lines.get(end).is_some_and(|line| !line.trim().is_empty()) {
                continue;
            }
            if end > start
                && let Some(table) = aligned(&lines[start..end], first + start)
                    .or_else(|| comma_separated(&lines[start..end], first + start))
                    .or_else(|| barred(&lines[start..end], first + start))
            {
                self.document.tables.push(Table {
                    title: title.clone(),
                    ..table
                });
            }
            start = end + 1;
        }
    }
}
