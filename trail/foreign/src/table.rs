//! Tables of a report or of a data file.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Evidence, Finding, Rule};
use crate::number::{Quantity, leading};

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// File name of a data table; empty for a table of the report.
    pub file: String,
    /// The heading above it, without its number.
    pub title: String,
    /// The words of its caption; empty if it has none.
    pub caption: String,
    /// Line of the header, from 1.
    pub line: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with as many cells as columns.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Line in the report or the file, from 1.
    pub line: usize,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Text without markup.
    pub text: String,
    /// Its line, if the cells of its row are in several; otherwise 0.
    pub line: usize,
    /// Column of its first character in the line, from 1.
    pub column: usize,
    /// Whether all of it is bold.
    pub bold: bool,
    /// The number that it is or begins with.
    pub value: Option<Quantity>,
}

impl Cell {
    /// Creates a cell from text. A footnote mark (`0.912†`, `12[^3]`) is not part of it.
    pub fn new(text: &str, column: usize) -> Self {
        let text = without_footnote(text.trim()).to_owned();
        let mut value = leading(&text);
        // `214 ± 31 ms`: the unit of both follows the second number.
        if let Some(first) = value.as_mut().filter(|first| first.unit.is_empty())
            && let Some(second) = spread_of(text.get(first.end..).unwrap_or(""))
        {
            first.unit = second.unit;
        }
        Self {
            text,
            column,
            value,
            ..Self::default()
        }
    }

    /// The number, if the cell consists of nothing but a number with its unit.
    pub fn plain(&self) -> Option<&Quantity> {
        self.value.as_ref().filter(|value| {
            let rest = self.text.get(value.end..).unwrap_or("");
            let before = self.text.get(..value.start).unwrap_or("");
            let rest = rest.trim_matches(|c: char| c.is_whitespace() || "*`".contains(c));
            (rest.is_empty() || spread_of(rest).is_some())
                && before
                    .trim_matches(|c: char| c.is_whitespace() || "*`$€£".contains(c))
                    .is_empty()
        })
    }
}

impl Cell {
    /// Whether it is a number, perhaps with a remark in brackets.
    fn is_number(&self) -> bool {
        let remark = |value: &Quantity| {
            let rest = self.text.get(value.end..).unwrap_or("").trim_start();
            rest.starts_with(['(', '[']) && rest.ends_with([')', ']'])
        };
        self.plain().is_some() || self.value.as_ref().is_some_and(remark)
    }
}

/// `± 9`, `(±0.3)`: the uncertainty of the number before it.
fn spread_of(text: &str) -> Option<Quantity> {
    let inner = text
        .trim()
        .trim_start_matches('(')
        .trim_end_matches(')')
        .trim();
    let number = inner
        .strip_prefix('±')
        .or_else(|| inner.strip_prefix("+/-"))?
        .trim();
    leading(number).filter(|n| n.end == number.len())
}

fn without_footnote(text: &str) -> &str {
    let mark = |c: char| matches!(c, '\u{2b0}'..='\u{2b8}' | '\u{2e1}'..='\u{2e3}' | '\u{1d2c}'..='\u{1d61}' | '†' | '‡');
    let cut = text.trim_end_matches(mark).trim_end();
    let cut = match cut.strip_suffix(']').and_then(|open| open.rfind("[^")) {
        Some(at) => cut[..at].trim_end(),
        None => cut,
    };
    if cut.is_empty() { text } else { cut }
}

impl Table {
    /// The cell at a row and a column.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.rows.get(row)?.cells.get(column)
    }

    /// The rows and columns of all cells.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns.len();
        (0..self.rows.len()).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    /// The number of a cell that consists of nothing but a number.
    pub fn plain(&self, row: usize, column: usize) -> Option<&Quantity> {
        self.cell(row, column)?.plain()
    }

    /// The number that a cell is or begins with.
    pub fn value(&self, row: usize, column: usize) -> Option<&Quantity> {
        self.cell(row, column)?.value.as_ref()
    }

    /// Drops a first column without a name that only numbers the rows from 0, as data frames print it.
    pub(crate) fn without_index(mut self) -> Self {
        let index = |(at, row): (usize, &Row)| {
            let cell = row.cells.first();
            cell.is_some_and(|cell| cell.text == at.to_string())
        };
        if self.rows.len() > 1
            && self.columns.len() > 2
            && self.columns[0].trim().is_empty()
            && self.rows.iter().enumerate().all(index)
        {
            self.columns.remove(0);
            for row in &mut self.rows {
                row.cells.remove(0);
            }
        }
        self
    }

    /// Name of a column; empty if it does not exist.
    pub fn name(&self, column: usize) -> &str {
        self.columns.get(column).map_or("", String::as_str)
    }

    /// The label of a row: its first cell that has text.
    pub fn label(&self, row: usize) -> &str {
        self.rows
            .get(row)
            .and_then(|row| row.cells.iter().find(|cell| !cell.text.is_empty()))
            .map_or("", |cell| &cell.text)
    }

    /// Line and column of a cell; those of its row or table if it has none.
    pub fn spot(&self, row: usize, column: usize) -> (usize, usize) {
        let line = self.rows.get(row).map_or(self.line, |row| row.line);
        self.cell(row, column).map_or((line, 1), |cell| {
            (
                if cell.line > 0 { cell.line } else { line },
                cell.column.max(1),
            )
        })
    }

    /// Describes the place of a cell.
    pub fn place(&self, row: usize, column: usize) -> String {
        let line = self.spot(row, column).0;
        let start = if self.file.is_empty() {
            format!("line {line}")
        } else {
            format!("{}:{line}", self.file)
        };
        format!("{start}, `{}` × `{}`", self.label(row), self.name(column))
    }

    /// The text of a cell; empty if there is no such cell.
    pub(crate) fn text(&self, row: usize, column: usize) -> &str {
        self.cell(row, column).map_or("", |cell| &cell.text)
    }

    /// Creates a finding at a cell, with other cells as evidence.
    pub(crate) fn finding(
        &self,
        rule: Rule,
        (row, column): (usize, usize),
        message: String,
        cause: &str,
        evidence: &[(usize, usize)],
    ) -> Finding {
        let quote = format!("{} | {}", self.label(row), self.text(row, column));
        let cause = format!("line {}: {cause}", self.line);
        let cell =
            |at: &(usize, usize)| Evidence::new(self.place(at.0, at.1), self.text(at.0, at.1));
        Finding {
            evidence: evidence.iter().map(cell).collect(),
            ..Finding::new(rule, self.spot(row, column), &quote, message, cause)
        }
    }

    /// Whether a column holds numbers: most of its non-empty cells, and at least one. In the first column, a name may
    /// begin with a number, such as `8×H100`.
    pub fn is_numeric(&self, column: usize) -> bool {
        let (mut filled, mut numbers) = (0usize, 0usize);
        for row in &self.rows {
            if let Some(cell) = row.cells.get(column).filter(|cell| !is_missing(&cell.text)) {
                filled += 1;
                numbers += usize::from(cell.value.is_some() && (column > 0 || cell.is_number()));
            }
        }
        numbers * 2 > filled
    }
}

/// Whether the text of a cell stands for a missing value.
pub(crate) fn is_missing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || matches!(text, "-" | "–" | "—" | "?" | "✗" | "X")
        || ["n/a", "na", "null", "none", "nan", "oom", "never", "tbd"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}

/// Splits a line of a pipe table into cells by GFM's rules: at every `|` without a backslash, even within code.
pub(crate) fn split_row(line: &str) -> Vec<&str> {
    let inner = line.trim();
    let inner = inner.strip_prefix('|').unwrap_or(inner);
    let mut cells = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        if c == '|' && !escaped {
            cells.push(inner[start..at].trim());
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    if !inner[start..].trim().is_empty() {
        cells.push(inner[start..].trim());
    }
    cells
}

/// Whether a line is the rule under the header of a pipe table.
pub(crate) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains('|')
        && line.contains("--")
        && line
            .chars()
            .all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Reads lines of comma-separated values: a header, and rows with as many cells, most of them numbers.
pub(crate) fn comma_separated(lines: &[&str], first: usize) -> Option<Table> {
    let split = |line: &str| {
        let mut column = 1;
        let cells = line.split(',').map(|text| {
            let cell = Cell::new(text, column);
            column += text.chars().count() + 1;
            cell
        });
        cells.collect::<Vec<Cell>>()
    };
    let table = of_lines(lines, first, split)?;
    let width = table.columns.len();
    let numeric = (0..width)
        .filter(|column| table.is_numeric(*column))
        .count();
    let named = |name: &String| leading(name).is_none() && name.contains(char::is_alphabetic);
    (numeric >= 2 && table.columns.iter().all(named)).then_some(table)
}

/// A table of lines: a header, and at least two rows of equal length, which may have a cell more than the header.
fn of_lines(lines: &[&str], first: usize, split: impl Fn(&str) -> Vec<Cell>) -> Option<Table> {
    let filled = |line: &str| !line.trim_matches([' ', '-', '=', '\t']).is_empty();
    let numbered = lines.iter().enumerate().skip(1);
    let rows = numbered
        .filter(|(_, line)| filled(line))
        .map(|(at, line)| Row {
            line: first + at,
            cells: split(line),
        });
    let rows: Vec<Row> = rows.collect();
    let header = split(lines.first()?);
    let mut columns: Vec<String> = header.into_iter().map(|cell| cell.text).collect();
    let width = rows.first()?.cells.len();
    if columns.len() + 1 == width {
        columns.insert(0, String::new());
    }
    let even = columns.len() == width && rows.iter().all(|row| row.cells.len() == width);
    (even && rows.len() >= 2).then_some(Table {
        line: first,
        columns,
        rows,
        ..Table::default()
    })
}

static ALIGNED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^ \t]+(?: [^ \t]+)*").expect("a regex"));

/// Reads columns aligned with blanks, as programs print them. Two blanks or a tab separate cells. The lines are a
/// header and rows of a label with numbers; the header may lack a name for the labels.
pub(crate) fn aligned(lines: &[&str], first: usize) -> Option<Table> {
    let split = |line: &str| {
        let cells = ALIGNED.find_iter(line).map(|cell| {
            let column = line[..cell.start()].chars().count() + 1;
            Cell::new(cell.as_str().trim_end_matches(':'), column)
        });
        cells.collect::<Vec<Cell>>()
    };
    let table = of_lines(lines, first, split)?;
    let numbers = |row: &Row| {
        let mut cells = row.cells.iter().skip(1);
        cells.all(|cell| cell.value.is_some() || is_missing(&cell.text))
    };
    let named = |name: &String| !name.is_empty() && leading(name).is_none();
    (table.columns.len() >= 2 && table.rows.iter().all(numbers) && table.columns.iter().any(named))
        .then_some(table)
}

/// Reads columns between bars, without bars at the ends, as some programs print them: a header, a rule and rows.
pub(crate) fn barred(lines: &[&str], first: usize) -> Option<Table> {
    let rule = lines.get(1)?;
    let plain = |c: char| matches!(c, '-' | '|' | '+' | ' ');
    if !rule.contains("--") || !rule.chars().all(plain) || !lines[0].contains(" | ") {
        return None;
    }
    let split = |line: &str| {
        let mut column = 1;
        let cells = line.split('|').map(|text| {
            let blank = text.chars().count() - text.trim_start().chars().count();
            let cell = Cell::new(text, column + blank);
            column += text.chars().count() + 1;
            cell
        });
        cells.collect::<Vec<Cell>>()
    };
    let body: Vec<&str> = lines.iter().skip(2).copied().collect();
    let mut table = of_lines(&[&lines[..1], body.as_slice()].concat(), first, split)?;
    for row in &mut table.rows {
        row.line += 1;
    }
    Some(table)
}

/// Reads what programs print under a title in a rule, `===== Result =====`: lines of a name, a colon and a number.
pub(crate) fn consoles(lines: &[&str], first: usize) -> Vec<Table> {
    let is_title = |line: &str| {
        let inner = line.trim().trim_matches('=');
        line.trim().starts_with("====") && !inner.trim().is_empty()
    };
    let entry = |(at, line): (usize, &&str)| {
        let (name, value) = line.rsplit_once(':')?;
        let blank = value.chars().count() - value.trim_start().chars().count();
        let column = name.chars().count() + 2 + blank;
        let cell = Cell::new(value, column);
        cell.plain()?;
        Some(Row {
            line: first + at,
            cells: vec![Cell::new(name, 1), cell],
        })
    };
    let mut consoles = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| is_title(line)) {
        let body = lines.iter().enumerate().skip(at + 1);
        let rows: Vec<Row> = body
            .take_while(|(_, line)| !line.trim().starts_with("===="))
            .filter_map(entry)
            .collect();
        consoles.push(Table {
            line: first + at,
            columns: vec![String::new(), String::new()],
            rows,
            ..Table::default()
        });
    }
    consoles
}
