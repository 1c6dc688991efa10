//! Tables of a report: with bars, and from extractions that lost their bars.

use crate::finding::Evidence;
use crate::number::{Quantity, leading};

/// A table, of the report or of the data.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// File name of a data table; empty for a table of the report.
    pub file: String,
    /// The heading above it.
    pub title: String,
    /// The heading and the paragraph before it.
    pub context: String,
    /// Section of the report.
    pub section: usize,
    /// Line of the header.
    pub line: usize,
    /// The header as it is.
    pub header: String,
    /// Names of the columns; empty where a header without bars could not be divided.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Whether the columns were recovered from text without bars.
    pub recovered: bool,
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Line in the report or the file.
    pub line: usize,
    /// The cells; the first is the label.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Text without markup.
    pub text: String,
    /// Column in characters.
    pub column: usize,
    /// The number it begins with.
    pub value: Option<Quantity>,
}

impl Cell {
    /// Makes a cell of text, emphasis removed.
    pub fn new(text: &str, column: usize) -> Self {
        let plain: String = text
            .trim()
            .chars()
            .filter(|c| !matches!(c, '*' | '`'))
            .collect();
        let text = without_footnote(&plain).to_owned();
        let value = leading(&text);
        Self {
            text,
            column,
            value,
        }
    }
}

/// A cell without the marks of its footnotes (`beta ᵃ`, `0.912ᵇ`, `1.00†`, `12[^3]`): they are not part of a label
/// or a number.
fn without_footnote(text: &str) -> &str {
    // Superscript letters; superscript digits may be powers.
    let mark = |c: char| matches!(c, '\u{2b0}'..='\u{2b8}' | '\u{2e1}'..='\u{2e3}' | '\u{1d2c}'..='\u{1d61}' | '\u{1d9b}'..='\u{1dbf}' | '†' | '‡');
    let mut rest = text;
    loop {
        let reference = rest
            .strip_suffix(']')
            .and_then(|open| open.rfind("[^").map(|at| &rest[..at]));
        let shorter = reference
            .unwrap_or_else(|| rest.trim_end_matches(mark))
            .trim_end();
        // A mark alone is the cell itself.
        if shorter.is_empty() || shorter == rest {
            return rest;
        }
        rest = shorter;
    }
}

impl Table {
    /// The number in a cell.
    pub fn value(&self, row: usize, column: usize) -> Option<&Quantity> {
        self.rows.get(row)?.cells.get(column)?.value.as_ref()
    }

    /// The label of a row.
    pub fn label(&self, row: usize) -> &str {
        self.rows
            .get(row)
            .and_then(|row| row.cells.first())
            .map_or("", |cell| &cell.text)
    }

    /// Where a cell is, in words.
    pub fn cell_place(&self, row: usize, column: usize) -> String {
        let name = self.columns.get(column).filter(|name| !name.is_empty());
        let line = self.rows.get(row).map_or(self.line, |row| row.line);
        let start = if self.file.is_empty() {
            format!("line {line}")
        } else {
            format!("{}:{line}", self.file)
        };
        match name {
            Some(name) => format!("{start}, \"{}\" × \"{name}\"", self.label(row)),
            None => format!("{start}, \"{}\" × column {}", self.label(row), column + 1),
        }
    }

    /// A cell as evidence: where it is, and its text.
    pub(crate) fn evidence(&self, row: usize, column: usize) -> Evidence {
        let cell = self.rows.get(row).and_then(|row| row.cells.get(column));
        Evidence::new(
            self.cell_place(row, column),
            cell.map_or("", |cell| &cell.text),
        )
    }

    /// Numbers of a column with their rows.
    pub fn numbers(&self, column: usize) -> Vec<(usize, &Quantity)> {
        (0..self.rows.len())
            .filter_map(|row| Some((row, self.value(row, column)?)))
            .collect()
    }

    /// Columns whose cells are numbers in most rows; never the label column.
    pub fn numeric_columns(&self) -> Vec<usize> {
        (1..self.columns.len())
            .filter(|&c| !self.rows.is_empty() && self.numbers(c).len() * 2 > self.rows.len())
            .collect()
    }

    /// Column by name, ASCII case ignored.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.eq_ignore_ascii_case(name))
    }
}

/// Whether a line is the rule under the header of a table with bars.
pub(crate) fn is_separator(line: &str) -> bool {
    let trimmed = line.trim();
    trimmed.contains("--")
        && trimmed.contains('|')
        && trimmed
            .chars()
            .all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Reads a table with bars; the second line is the rule under the header.
pub(crate) fn pipe_table(lines: &[&str], first: usize) -> Table {
    let header = cells(lines.first().copied().unwrap_or(""));
    let rows = lines
        .iter()
        .enumerate()
        .skip(2)
        .map(|(index, line)| Row {
            line: first + index,
            cells: cells(line),
        })
        .collect();
    Table {
        line: first,
        header: lines
            .first()
            .map_or(String::new(), |line| line.trim().to_owned()),
        columns: header.into_iter().map(|cell| cell.text).collect(),
        rows,
        ..Table::default()
    }
}

fn cells(line: &str) -> Vec<Cell> {
    let trimmed = line.trim();
    let mut column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
    let mut inner = trimmed;
    if let Some(rest) = inner.strip_prefix('|') {
        inner = rest;
        column += 1;
    }
    let inner = if inner.ends_with("\\|") {
        inner
    } else {
        inner.strip_suffix('|').unwrap_or(inner)
    };
    let mut found = Vec::new();
    let mut text = String::new();
    let mut code = false;
    let mut escaped = false;
    let mut start = column;
    for c in inner.chars() {
        column += 1;
        if c == '`' {
            code = !code;
        }
        if c == '|' && !escaped && !code {
            found.push(finished_cell(&text, start));
            text.clear();
            start = column;
        } else if c == '|' && escaped {
            text.pop();
            text.push('|');
        } else {
            text.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    found.push(finished_cell(&text, start));
    found
}

fn finished_cell(text: &str, start: usize) -> Cell {
    let blanks = text.chars().take_while(|c| c.is_whitespace()).count();
    Cell::new(text, start + blanks)
}

/// Recovers a table from lines whose bars were lost: a header and rows that each hold the same number of
/// values behind a label. Gives `None` if the lines do not look like one.
pub(crate) fn lost_bars(lines: &[&str], first: usize) -> Option<Table> {
    let item = |line: &str| {
        let line = line.trim_start();
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && line[digits..].starts_with(['.', ')']) && line[digits + 1..].starts_with(' ')
    };
    if lines.len() < 3 || lines[0].trim_start().starts_with(['-', '*', '#', '>']) || item(lines[0])
    {
        return None;
    }
    // Dumps and logs: rules of characters, `key: value` lines, a first line that is itself a row of values.
    let pairs = lines.iter().filter(|line| line.contains(": ")).count();
    let ruled = lines
        .iter()
        .any(|line| line.contains("====") || line.contains("----"));
    let first_row = tokens(lines[0]);
    let values = first_row
        .iter()
        .filter(|token| leading(&token.text).is_some())
        .count();
    if ruled || pairs * 3 > lines.len() || values * 2 > first_row.len() && first_row.len() > 2 {
        return None;
    }
    let header = lines[0].trim();
    let rows: Vec<Vec<Token>> = lines[1..].iter().map(|line| tokens(line)).collect();
    let prose = |line: &&&str| {
        let line = line.trim_end();
        line.ends_with(['.', ';', ',', ':'])
            || line.chars().count() > 220
            || line.trim_start().starts_with(['-', '*', '>'])
    };
    if lines.iter().any(|line| prose(&line)) || header.chars().count() > 220 {
        return None;
    }
    // Label, values, remark of each row.
    let parts: Vec<(usize, usize)> = rows.iter().map(|row| value_run(row)).collect();
    let mut counts: Vec<usize> = parts
        .iter()
        .map(|part| part.1)
        .filter(|count| *count > 0)
        .collect();
    counts.sort_unstable();
    let usual = most_frequent(&counts)?;
    let same = counts.iter().filter(|count| **count == usual).count();
    if same < 2 || same * 10 < counts.len() * 6 || counts.len() * 10 < rows.len() * 6 {
        return None;
    }
    // Wrapped prose: labels long or very unequal.
    if parts.iter().any(|part| part.0 > 10) || rows.iter().any(|row| row.len() > 40) {
        return None;
    }
    // Labels of one number (`1 1.00 1.00 0.00`) are labels all the same.
    let rows: Vec<Row> = rows
        .into_iter()
        .zip(&parts)
        .enumerate()
        .map(|(index, (row, &(label, count)))| {
            let join = |part: &[Token]| {
                part.iter()
                    .map(|token| token.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let mut cells = vec![Cell {
                value: None,
                ..Cell::new(&join(&row[..label]), row.first().map_or(1, |t| t.column))
            }];
            cells.extend(
                row[label..label + count]
                    .iter()
                    .map(|token| Cell::new(&token.text, token.column)),
            );
            if label + count < row.len() {
                cells.push(Cell {
                    value: None,
                    ..Cell::new(&join(&row[label + count..]), row[label + count].column)
                });
            }
            Row {
                line: first + 1 + index,
                cells,
            }
        })
        .collect();
    let columns = divide_header(header, usual);
    Some(Table {
        line: first,
        header: header.to_owned(),
        columns,
        rows,
        recovered: true,
        ..Table::default()
    })
}

fn most_frequent(sorted: &[usize]) -> Option<usize> {
    sorted
        .chunk_by(|a, b| a == b)
        .max_by_key(|chunk| chunk.len())
        .and_then(|chunk| chunk.first().copied())
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    column: usize,
}

/// Words of a row; brackets hold together, and a remark in brackets belongs to the word before it.
fn tokens(line: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    let mut depth = 0usize;
    let mut blank = true;
    let mut join_next = false;
    for (index, c) in line.chars().enumerate() {
        if c.is_whitespace() && depth == 0 {
            blank = true;
            continue;
        }
        let opens = matches!(c, '(' | '[' | '{');
        if blank {
            let joined =
                (c == '(' && !found.is_empty()) || join_next || (c == '/' && !found.is_empty());
            join_next = c == '/';
            if joined {
                if let Some(last) = found.last_mut() {
                    last.text.push(' ');
                }
            } else {
                found.push(Token {
                    text: String::new(),
                    column: index + 1,
                });
            }
        } else {
            join_next = false;
        }
        blank = false;
        if opens {
            depth += 1;
        } else if matches!(c, ')' | ']' | '}') {
            depth = depth.saturating_sub(1);
        }
        if let Some(last) = found.last_mut() {
            last.text.push(c);
        }
    }
    found
}

/// Where the values of a row begin and how many are beside each other.
fn value_run(row: &[Token]) -> (usize, usize) {
    let value = |token: &Token| {
        let text = token.text.as_str();
        let number = leading(text.trim_start_matches('[')).is_some_and(|number| {
            let rest = text.trim_start_matches('[')
                [number.end.min(text.trim_start_matches('[').len())..]
                .trim();
            rest.is_empty() || rest.starts_with(['(', '/', '–', '-', ',', ']', 'x', '×'])
        });
        let level = text
            .strip_prefix("N=")
            .is_some_and(|rest| rest.parse::<f64>().is_ok());
        let null = matches!(
            text.split(' ').next().unwrap_or(""),
            "–" | "—" | "-" | "n/a" | "N/A" | "null" | "none" | "never" | "yes" | "no" | "✓" | "✗"
        );
        number || level || null
    };
    // The first word is the label, even where it is a number.
    let Some(start) = (1..row.len()).find(|&at| value(&row[at])) else {
        return (row.len(), 0);
    };
    let count = row[start..].iter().take_while(|token| value(token)).count();
    (start, count)
}

/// Divides a header without bars into a label and `count` names, where the words allow only one division:
/// one word a column; names that end in the same word (`A eff B eff`); names that begin with the same words.
/// Otherwise the names stay empty.
fn divide_header(header: &str, count: usize) -> Vec<String> {
    let words: Vec<String> = tokens(header).into_iter().map(|token| token.text).collect();
    let unnamed = || {
        let mut columns = vec![words.first().cloned().unwrap_or_default()];
        columns.extend(std::iter::repeat_n(String::new(), count));
        columns
    };
    if words.len() == count + 1
        || words.len() == count + 2 && count > 1 && words.iter().all(|word| word != "@")
    {
        return words;
    }
    let named = |starts: &[usize]| {
        let mut columns = vec![words[..starts[0]].join(" ")];
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(words.len());
            columns.push(words[start..end].join(" "));
        }
        columns
    };
    // Names that end alike.
    let Some(last) = words.last() else {
        return unnamed();
    };
    let mut ends: Vec<usize> = (0..words.len()).filter(|&at| words[at] == *last).collect();
    if ends.len() < count
        && let Some(at) = words.iter().rposition(|word| word == "@")
    {
        ends = (at.min(1)..words.len().saturating_sub(1))
            .filter(|&i| words[i] == "@")
            .map(|i| i + 1)
            .collect();
    }
    if ends.len() == count && count > 1 {
        let length = ends[count - 1] - ends[count - 2];
        if ends[0] + 1 > length {
            let mut starts = vec![ends[0] + 1 - length];
            starts.extend(ends[..count - 1].iter().map(|end| end + 1));
            return named(&starts);
        }
    }
    // Names that begin with one of two words, each as often.
    if let Some(first) = words.get(1) {
        let often = words.iter().filter(|word| *word == first).count();
        for other in words.iter().skip(2) {
            let starts: Vec<usize> = (1..words.len())
                .filter(|&at| words[at] == *first || words[at] == *other)
                .collect();
            let balanced = words.iter().filter(|word| *word == other).count() == often;
            if starts.len() == count && balanced && often > 1 {
                return named(&starts);
            }
        }
    }
    unnamed()
}
