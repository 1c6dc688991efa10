//! Reads HTML into blocks. `html5gum` splits the text into tags and characters as browsers do; here they become the
//! same headings, prose, lists and tables as those of Markdown. Nothing is executed, and nesting costs no stack.

use std::collections::BTreeMap;

use html5gum::Span;

use super::Reader;
use super::tags::{Part, parts};
use crate::table::{Cell, Row, Table};

/// Elements whose contents are no text of the document.
const SKIPPED: &[&str] = &[
    "script", "style", "template", "noscript", "svg", "math", "title", "textarea", "select",
    "button", "iframe", "object", "canvas", "audio", "video",
];

/// Elements that end the paragraph before them and their own.
#[rustfmt::skip]
const BLOCKS: &[&str] = &[
    "address", "article", "aside", "body", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "p", "section", "summary",
];

/// The maximum number of columns or rows over which a cell spreads, and the maximum depth of tables in tables.
const MOST_SPANNED: usize = 64;
const DEEPEST: usize = 32;
/// The maximum number of cells of a document that are copies or fillings of others.
const MOST_COPIES: usize = 200_000;

type Attributes = BTreeMap<String, String>;

/// A table being read.
#[derive(Default)]
struct Grid {
    line: usize,
    caption: String,
    rows: Vec<Spread>,
    /// Cells of earlier rows that continue in the next ones, by column, with the number of rows left.
    below: BTreeMap<usize, (usize, Cell)>,
    /// Line and column, spans, and whether the open cell is a header.
    open: Option<((usize, usize), [usize; 2], bool)>,
    /// Whether its rows are those of `<thead>`.
    head: bool,
    /// Whether it contains headings or tables, and so only arranges the page.
    layout: bool,
}

/// A row with its cells at their columns.
struct Spread {
    line: usize,
    cells: Vec<Cell>,
    head: bool,
    /// Whether all its cells so far are headers.
    headers: bool,
}

impl Spread {
    fn new(line: usize, head: bool) -> Self {
        Self {
            line,
            head,
            headers: true,
            cells: Vec::new(),
        }
    }
}

impl Grid {
    fn end_row(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            settle(&mut self.below, row);
        }
    }
}

/// The state between tokens.
struct Html<'r, 'a> {
    reader: &'r mut Reader<'a>,
    source: &'a str,
    /// Offset of the source in the document.
    base: usize,
    skip: Option<(String, usize)>,
    grids: Vec<Grid>,
    /// Tables nested too deeply, which are not read.
    deeper: usize,
    /// The number of cells that may still be added by cells that spread.
    spread: usize,
}

/// Reads a piece of HTML that begins at an offset of the document.
pub(super) fn read(reader: &mut Reader<'_>, base: usize, end: usize) {
    let source = reader.lines.text.get(base..end).unwrap_or("");
    let mut html = Html {
        reader,
        source,
        base,
        skip: None,
        grids: Vec::new(),
        deeper: 0,
        spread: MOST_COPIES,
    };
    parts(source, |part| match part {
        Part::Start(name, attributes, span) => html.start(&name, &attributes, span),
        Part::End(name) => html.end(&name),
        Part::Text(text, span) if html.skip.is_none() => html.text(&text, span),
        Part::Text(..) => {}
    });
    while !html.grids.is_empty() {
        html.end("table");
    }
    html.end("pre");
    html.block();
}

impl Html<'_, '_> {
    fn place(&self, offset: usize) -> (usize, usize) {
        self.reader.lines.place(self.base + offset)
    }

    /// Whether text belongs to a cell of a table that holds data.
    fn in_cell(&self) -> bool {
        self.grids
            .last()
            .is_some_and(|grid| !grid.layout && grid.open.is_some())
    }

    /// Ends the open paragraph or heading; within a cell, it only separates words.
    fn block(&mut self) {
        if self.in_cell() {
            self.space();
        } else if self.reader.heading.is_some() {
            self.reader.end_heading();
        } else {
            self.reader.close();
        }
    }

    fn space(&mut self) {
        if let Some(prose) = self.reader.inline.as_mut()
            && !prose.text.ends_with(' ')
        {
            prose.text.push(' ');
        }
    }

    fn start(&mut self, name: &str, attributes: &Attributes, span: Span<usize>) {
        if let Some((skipped, depth)) = &mut self.skip {
            *depth += usize::from(skipped == name);
            return;
        }
        for key in ["id", "name"] {
            self.reader
                .document
                .anchors
                .extend(attributes.get(key).cloned());
        }
        let at = span.start;
        match name {
            _ if SKIPPED.contains(&name) => {
                self.skip = Some((name.to_owned(), 1));
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.arrange();
                self.block();
                let id = attributes.get("id").cloned();
                self.reader.open_heading(self.base + at, id);
            }
            "ul" | "ol" if !self.in_cell() => {
                self.block();
                self.reader.open_list();
            }
            "li" if !self.in_cell() => {
                self.block();
                self.reader.open_item();
            }
            "table" => self.table(at),
            "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "caption" => {
                self.row_or_cell(name, attributes, span);
            }
            "blockquote" => {
                self.block();
                self.reader.quotes += 1;
            }
            "pre" if !self.in_cell() => {
                self.block();
                self.reader.last = None;
                let line = self.place(at).0;
                self.reader.code = Some((line, String::new()));
            }
            "b" | "strong" => self.reader.strong += 1,
            "del" | "s" | "strike" => self.reader.struck += 1,
            "code" | "kbd" | "samp" => self.reader.literal = true,
            "br" => self.space(),
            // `10<sup>3</sup>` is no 103.
            "sup" => self.text("^", span),
            "a" => {
                let target = attributes
                    .get("href")
                    .and_then(|link| link.strip_prefix('#'));
                let fragment = target.filter(|fragment| !fragment.is_empty());
                self.reader.link(self.base + at, fragment);
            }
            _ if BLOCKS.contains(&name) => self.block(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((skipped, depth)) = &mut self.skip {
            *depth -= usize::from(skipped.as_str() == name);
            if *depth == 0 {
                self.skip = None;
            }
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.block(),
            "ul" | "ol" if !self.in_cell() => {
                self.block();
                self.reader.close_list();
            }
            "li" => self.block(),
            "table" if self.deeper > 0 => self.deeper -= 1,
            "table" => {
                self.end_cell();
                if let Some(grid) = self.grids.pop() {
                    self.finish(grid);
                }
            }
            "td" | "th" | "tr" => self.end_cell(),
            "thead" => {
                if let Some(grid) = self.grids.last_mut() {
                    grid.head = false;
                }
            }
            "caption" => {
                let caption = self
                    .reader
                    .inline
                    .take()
                    .map_or(String::new(), |prose| prose.text);
                if let Some(grid) = self.grids.last_mut() {
                    caption.trim().clone_into(&mut grid.caption);
                }
            }
            "blockquote" => {
                self.block();
                self.reader.quotes = self.reader.quotes.saturating_sub(1);
            }
            "pre" => {
                if let Some((line, code)) = self.reader.code.take() {
                    self.reader.shown_tables(&code, line);
                }
            }
            "del" | "s" | "strike" => self.reader.struck = self.reader.struck.saturating_sub(1),
            "b" | "strong" => self.reader.strong = self.reader.strong.saturating_sub(1),
            "code" | "kbd" | "samp" => self.reader.literal = false,
            _ if BLOCKS.contains(&name) => self.block(),
            _ => {}
        }
    }

    /// Appends text with blanks collapsed. The offset of a word is that of its source, in which entities are longer.
    fn text(&mut self, text: &str, span: Span<usize>) {
        if let Some((_, code)) = &mut self.reader.code {
            code.push_str(text);
            return;
        }
        let between = |grid: &Grid| !grid.layout && grid.open.is_none();
        if self.grids.last().is_some_and(between) && text.trim().is_empty() {
            return;
        }
        let (source, mut at) = (self.source, span.start);
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                let ahead = source.get(at..span.end).unwrap_or("");
                at += ahead.find(word).unwrap_or(0);
                self.reader.text(word, self.base + at, self.reader.literal);
                at += ahead.find(word).map_or(0, |_| word.len());
            }
            if word.len() < piece.len() {
                self.space();
            }
        }
    }

    /// Takes the open tables for an arrangement of the page.
    fn arrange(&mut self) {
        for grid in self.grids.iter_mut().rev() {
            if std::mem::replace(&mut grid.layout, true) {
                break;
            }
        }
    }

    fn table(&mut self, at: usize) {
        self.arrange();
        self.block();
        self.reader.last = None;
        if self.grids.len() >= DEEPEST {
            self.deeper += 1;
            return;
        }
        let line = self.place(at).0;
        self.grids.push(Grid {
            line,
            ..Grid::default()
        });
    }

    fn row_or_cell(&mut self, name: &str, attributes: &Attributes, span: Span<usize>) {
        self.end_cell();
        let place = self.place(span.start);
        let inside = self.place(span.end);
        let Some(grid) = self.grids.last_mut() else {
            return;
        };
        let span = |key: &str| {
            let value = attributes
                .get(key)
                .and_then(|value| value.trim().parse().ok());
            value.unwrap_or(1).clamp(1, MOST_SPANNED)
        };
        match name {
            "thead" => grid.head = true,
            "tbody" | "tfoot" => grid.head = false,
            "tr" => {
                grid.end_row();
                grid.rows.push(Spread::new(place.0, grid.head));
            }
            "td" | "th" => {
                if grid.rows.is_empty() {
                    grid.rows.push(Spread::new(place.0, false));
                }
                grid.open = Some((inside, [span("colspan"), span("rowspan")], name == "th"));
                self.reader.bold = 0;
            }
            _ => {}
        }
        if !grid.layout {
            self.reader.inline = None;
        }
    }

    /// Ends the open cell, with copies in all the columns and rows over which it spreads.
    fn end_cell(&mut self) {
        let Some(grid) = self.grids.last_mut() else {
            return;
        };
        let Some((place, [wide, high], header)) = grid.open.take() else {
            return;
        };
        if grid.layout {
            self.reader.close();
            return;
        }
        let cell = self.reader.cell(place);
        let Some(row) = grid.rows.last_mut() else {
            return;
        };
        row.headers &= header;
        settle(&mut grid.below, row);
        let spread = if wide * high <= self.spread {
            wide * high
        } else {
            1
        };
        self.spread -= spread - 1;
        for _ in 0..if spread > 1 { wide } else { 1 } {
            if spread > 1 && high > 1 {
                grid.below.insert(row.cells.len(), (high - 1, cell.clone()));
            }
            row.cells.push(cell.clone());
        }
    }

    /// Finishes a table: joins its header rows, and aligns its rows.
    fn finish(&mut self, mut grid: Grid) {
        if grid.layout {
            return;
        }
        grid.end_row();
        grid.rows.retain(|row| !row.cells.is_empty());
        let width = grid.rows.iter().map(|row| row.cells.len()).max();
        let width = width.unwrap_or(0);
        let is_head = |row: &&Spread| row.head || row.headers;
        let mut heads = grid.rows.iter().take_while(is_head).count().max(1);
        if heads == grid.rows.len() {
            heads = 1;
        }
        let cells: usize = grid.rows.iter().map(|row| row.cells.len()).sum();
        let filled = grid.rows.len().saturating_mul(width) - cells;
        if width == 0 || grid.rows.len() <= heads || filled > self.spread {
            return;
        }
        self.spread -= filled;
        let mut columns = vec![String::new(); width];
        for row in &grid.rows[..heads] {
            for (name, cell) in columns.iter_mut().zip(&row.cells) {
                if *name != cell.text && !cell.text.is_empty() {
                    if !name.is_empty() {
                        name.push(' ');
                    }
                    name.push_str(&cell.text);
                }
            }
        }
        let rows = grid.rows.split_off(heads).into_iter().map(|mut row| {
            row.cells.resize(width, Cell::default());
            Row {
                line: row.line,
                cells: row.cells,
            }
        });
        let document = &mut self.reader.document;
        let table = Table {
            title: document.heading_of(document.headings.len()).to_owned(),
            caption: grid.caption,
            line: grid.line,
            columns,
            rows: rows.collect(),
            ..Table::default()
        };
        document.tables.push(table.without_index());
    }
}

/// Puts the cells that earlier rows continue in a row at the next columns.
fn settle(below: &mut BTreeMap<usize, (usize, Cell)>, row: &mut Spread) {
    while let Some((left, cell)) = below.get_mut(&row.cells.len()) {
        let column = row.cells.len();
        row.cells.push(cell.clone());
        *left -= 1;
        if *left == 0 {
            below.remove(&column);
        }
    }
}
