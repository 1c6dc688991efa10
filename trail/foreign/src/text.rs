//! A report as blocks: headings, prose, code and tables, each character with its place.

use crate::number::{Quantity, quantities};
use crate::table::{Table, is_separator, lost_bars, pipe_table};

/// A report cut into blocks.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Headings in order; block sections are indices into it plus one.
    pub headings: Vec<Heading>,
    /// Paragraphs and list items.
    pub prose: Vec<Prose>,
    /// Fenced code.
    pub code: Vec<Code>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// A heading.
#[derive(Debug, Clone)]
pub struct Heading {
    /// Line, from 1.
    pub line: usize,
    /// The words without `#`.
    pub text: String,
    /// The number it begins with, as `10.1`; empty if none.
    pub number: String,
}

/// Lines of fenced code with the heading they stand under.
#[derive(Debug, Clone)]
pub struct Code {
    /// First line inside the fence, from 1.
    pub line: usize,
    /// The lines.
    pub lines: Vec<String>,
    /// Section.
    pub section: usize,
}

/// A paragraph or list item, markup removed.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    /// The words.
    pub text: String,
    /// Runs of text that are contiguous in the report: byte offset, line, column in characters.
    places: Vec<(usize, usize, usize)>,
    /// Section: number of headings before it.
    pub section: usize,
    /// The numbers in it.
    pub numbers: Vec<Quantity>,
    /// Sentences as byte ranges.
    pub sentences: Vec<(usize, usize)>,
    /// Whether it is a list item.
    pub item: bool,
}

impl Prose {
    /// Line and column of a byte offset.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let index = self
            .places
            .partition_point(|run| run.0 <= offset)
            .saturating_sub(1);
        let Some(&(start, line, column)) = self.places.get(index) else {
            return (1, 1);
        };
        let inside = self
            .text
            .get(start..offset)
            .map_or(0, |part| part.chars().count());
        (line, column + inside)
    }

    /// The sentence around a byte offset.
    pub fn sentence(&self, offset: usize) -> Option<(usize, usize)> {
        let index = self
            .sentences
            .partition_point(|sentence| sentence.1 <= offset);
        self.sentences
            .get(index)
            .copied()
            .filter(|sentence| sentence.0 <= offset)
    }

    /// First line.
    pub fn line(&self) -> usize {
        self.places.first().map_or(1, |run| run.1)
    }

    /// The numbers whose text lies in a byte range.
    pub fn numbers_in(&self, start: usize, end: usize) -> &[Quantity] {
        let from = self.numbers.partition_point(|number| number.start < start);
        let to = self.numbers.partition_point(|number| number.start < end);
        self.numbers.get(from..to.max(from)).unwrap_or(&[])
    }

    fn push(&mut self, raw: &str, line: usize, first_column: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let mut contiguous = false;
        for (index, c) in raw.chars().enumerate() {
            if matches!(c, '*' | '`') {
                contiguous = false;
                continue;
            }
            if !contiguous {
                self.places
                    .push((self.text.len(), line, first_column + index));
                contiguous = true;
            }
            self.text.push(c);
        }
    }

    fn finish(mut self) -> Self {
        self.numbers = quantities(&self.text);
        self.sentences = sentences(&self.text);
        self
    }
}

/// Cuts a text into sentences: a stop, question or exclamation mark, then a blank, then a capital or digit.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'.' | b'?' | b'!') || bytes.get(index + 1) != Some(&b' ') {
            continue;
        }
        let word = text[start..index].rsplit(' ').next().unwrap_or("");
        let abbreviation = matches!(
            word.trim_start_matches('('),
            "e.g" | "i.e" | "vs" | "cf" | "approx" | "Fig" | "Tab" | "Sec" | "eff" | "resp"
        );
        if !abbreviation
            && text[index + 2..].starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        {
            found.push((start, index + 1));
            start = index + 2;
        }
    }
    if start < text.len() {
        found.push((start, text.len()));
    }
    found
}

impl Report {
    /// Reads Markdown, or plain text extracted from another format.
    pub fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut report = Self::default();
        let mut open: Option<Prose> = None;
        let mut index = 0;
        while index < lines.len() {
            let line = lines[index];
            let trimmed = line.trim();
            let section = report.headings.len();
            if let Some(fence) = ["```", "~~~"]
                .into_iter()
                .find(|fence| trimmed.starts_with(fence))
            {
                report.close(&mut open);
                let end = (index + 1..lines.len())
                    .find(|&at| lines[at].trim().starts_with(fence))
                    .unwrap_or(lines.len());
                let body = lines[index + 1..end]
                    .iter()
                    .map(|line| (*line).to_owned())
                    .collect();
                report.code.push(Code {
                    line: index + 2,
                    lines: body,
                    section,
                });
                index = end + 1;
                continue;
            }
            if trimmed.is_empty() || trimmed.chars().all(|c| c == '-' || c == '=' || c == '*') {
                report.close(&mut open);
                index += 1;
                continue;
            }
            if trimmed.contains('|') && lines.get(index + 1).is_some_and(|next| is_separator(next))
            {
                report.close(&mut open);
                let end = (index + 2..lines.len())
                    .find(|&at| !lines[at].contains('|'))
                    .unwrap_or(lines.len());
                let mut table = pipe_table(&lines[index..end], index + 1);
                table.section = section;
                report.tables.push(table);
                index = end;
                continue;
            }
            if let Some(heading) = heading(&lines, index) {
                report.close(&mut open);
                report.headings.push(heading);
                index += 1;
                continue;
            }
            if open.is_none() {
                let end = (index..lines.len())
                    .find(|&at| lines[at].trim().is_empty())
                    .unwrap_or(lines.len());
                if let Some(mut table) = lost_bars(&lines[index..end.min(index + 400)], index + 1) {
                    table.section = section;
                    index += table.rows.len() + 1;
                    report.tables.push(table);
                    continue;
                }
            }
            let (item, body) = list_item(line);
            if item || open.is_none() {
                report.close(&mut open);
                open = Some(Prose {
                    section,
                    item,
                    ..Prose::default()
                });
            }
            if let Some(prose) = &mut open {
                let skipped = line.len() - body.len();
                prose.push(
                    body.trim_end(),
                    index + 1,
                    line[..skipped].chars().count() + 1,
                );
            }
            index += 1;
        }
        report.close(&mut open);
        report.attach();
        report
    }

    fn close(&mut self, open: &mut Option<Prose>) {
        if let Some(prose) = open.take() {
            self.prose.push(prose.finish());
        }
    }

    /// Gives each table the words before it: the heading and the last paragraph.
    fn attach(&mut self) {
        for table in &mut self.tables {
            let before = self
                .prose
                .partition_point(|prose| prose.line() < table.line);
            let mut context = String::new();
            if let Some(heading) = table
                .section
                .checked_sub(1)
                .and_then(|at| self.headings.get(at))
            {
                context.push_str(&heading.text);
            }
            table.title = context.clone();
            if let Some(prose) = before.checked_sub(1).and_then(|at| self.prose.get(at))
                && prose.section == table.section
            {
                context.push(' ');
                context.push_str(&prose.text);
            }
            table.context = context;
        }
    }

    /// Tables of a section, or of the whole chapter (`10` for `10.1`) if the headings are numbered; of very many
    /// the nearest.
    pub fn tables_near(&self, section: usize) -> impl Iterator<Item = &Table> {
        let chapter = self.chapter(section);
        let middle = self.tables.partition_point(|table| table.section < section);
        window(&self.tables, middle, 8).iter().filter(move |table| {
            table.rows.len() <= MOST_ROWS
                && (table.section == section
                    || (chapter.is_some() && self.chapter(table.section) == chapter))
        })
    }

    /// The tables around a line, in their order; of very many the nearest.
    pub fn tables_around(&self, line: usize) -> &[Table] {
        window(
            &self.tables,
            self.tables.partition_point(|table| table.line < line),
            REACH,
        )
    }

    /// The first part of the number of the heading above.
    pub fn chapter(&self, section: usize) -> Option<&str> {
        let number = &self.headings.get(section.checked_sub(1)?)?.number;
        number.split('.').next().filter(|part| !part.is_empty())
    }
}

/// Tables looked at on each side of a place: what keeps an audit linear in the length of the report.
const REACH: usize = 40;

/// Tables of the report with more rows than these are data dumps that no sentence reads cell by cell.
const MOST_ROWS: usize = 400;

fn window(tables: &[Table], middle: usize, reach: usize) -> &[Table] {
    let from = middle.saturating_sub(reach);
    tables
        .get(from..(middle + reach).min(tables.len()))
        .unwrap_or(&[])
}

/// Reads a heading: `## Title`, an underlined line, or in plain text a short line that begins with a number
/// (`10.1 Where the curve bends`), stands alone, and does not end like a sentence.
fn heading(lines: &[&str], index: usize) -> Option<Heading> {
    let line = lines[index];
    let trimmed = line.trim();
    let alone = |at: Option<usize>| {
        at.and_then(|at| lines.get(at))
            .is_none_or(|line| line.trim().is_empty())
    };
    let hashes = trimmed.bytes().take_while(|byte| *byte == b'#').count();
    let text = if (1..=6).contains(&hashes) && trimmed[hashes..].starts_with(' ') {
        trimmed[hashes..].trim().trim_end_matches('#').trim()
    } else {
        let number = trimmed.split(' ').next().unwrap_or("");
        let numbered = !number.is_empty()
            && number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
            && (number.contains('.'));
        let title = trimmed[number.len()..].trim();
        let plausible = numbered
            && !line.starts_with("  ")
            && title.starts_with(|c: char| c.is_uppercase())
            && trimmed.chars().count() < 140
            && alone(index.checked_sub(1))
            && alone(Some(index + 1));
        if !plausible {
            return None;
        }
        trimmed
    };
    let first = text.split(' ').next().unwrap_or("").trim_end_matches('.');
    let number = if !first.is_empty()
        && first.split('.').all(|part| {
            !part.is_empty() && part.len() < 4 && part.bytes().all(|b| b.is_ascii_digit())
        }) {
        first.to_owned()
    } else {
        String::new()
    };
    Some(Heading {
        line: index + 1,
        text: text.to_owned(),
        number,
    })
}

/// Splits off the mark of a list item or a quotation.
fn list_item(line: &str) -> (bool, &str) {
    let body = line.trim_start().trim_start_matches("> ");
    for mark in ["- ", "* ", "+ ", "• "] {
        if let Some(rest) = body.strip_prefix(mark) {
            return (true, rest.trim_start());
        }
    }
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=2).contains(&digits)
        && (body[digits..].starts_with(". ") || body[digits..].starts_with(") "))
    {
        return (true, body[digits + 2..].trim_start());
    }
    (false, body)
}
