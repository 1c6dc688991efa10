//! Text in columns, laid out for the available width.

use crate::terminal;

/// The number of spaces between two columns.
const GAP: usize = 2;

/// The indent of columns below the first.
const INDENT: usize = 4;

/// The minimum width to which a column of prose is wrapped.
const NARROWEST_PROSE: usize = 20;

/// Returns `rows` in aligned columns under a heading, one row per line, with the columns in `right` aligned to the
/// right. If they are wider than the terminal, they are laid out differently, with nothing left out: prose at the end
/// of rows is wrapped, or columns that do not fit follow below.
pub(crate) fn columns(heading: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let heading: Vec<String> = heading.iter().map(ToString::to_string).collect();
    Columns::new(heading, rows.to_vec(), right).laid_out(terminal::width())
}

/// A heading and the rows under it, all with the same number of cells.
#[derive(Clone)]
pub(crate) struct Columns {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Columns {
    /// Makes columns; those in `right` are aligned to the right.
    pub(crate) fn new(heading: Vec<String>, rows: Vec<Vec<String>>, right: &[usize]) -> Self {
        let right = (0..heading.len()).map(|i| right.contains(&i)).collect();
        Self {
            heading,
            rows,
            right,
        }
    }

    /// Returns the first column with the others that fit in a width, and the positions of the columns left out. At
    /// least one column is kept next to the first, however wide it is.
    pub(crate) fn fitting(&self, width: usize) -> (Self, Vec<usize>) {
        let (mut kept, mut left_out) = (vec![0], Vec::new());
        let widths = self.widths();
        let mut taken = widths.first().copied().unwrap_or_default();
        for (column, of_column) in widths.iter().enumerate().skip(1) {
            if column == 1 || taken + GAP + of_column <= width {
                taken += GAP + of_column;
                kept.push(column);
            } else {
                left_out.push(column);
            }
        }
        (self.only(&kept), left_out)
    }

    /// Returns the text, within the width if one is given.
    pub(crate) fn laid_out(&self, width: Option<usize>) -> String {
        let widths = self.widths();
        let Some(width) = width.filter(|width| total(&widths) > *width) else {
            return self.lines().join("\n");
        };
        let Some((last, before)) = widths.split_last().filter(|(_, before)| !before.is_empty())
        else {
            return self.lines().join("\n");
        };
        let room = width.saturating_sub(total(before) + GAP);
        if room >= NARROWEST_PROSE && *last > room && !self.right[before.len()] {
            self.wrapped(room).lines().join("\n")
        } else if widths[0] > width / 2 && INDENT + total(&widths[1..]) <= width {
            self.first_above().join("\n")
        } else {
            self.in_blocks(width).join("\n\n")
        }
    }

    /// Wraps the last column.
    fn wrapped(&self, room: usize) -> Self {
        let mut rows = Vec::new();
        for row in &self.rows {
            let Some((prose, before)) = row.split_last() else {
                continue;
            };
            for (i, line) in wrap(prose, room).into_iter().enumerate() {
                let mut cells = if i == 0 {
                    before.to_vec()
                } else {
                    vec![String::new(); before.len()]
                };
                cells.push(line);
                rows.push(cells);
            }
        }
        Self {
            rows,
            ..self.clone()
        }
    }

    /// Returns several tables, one below the other. Each has the first column and as many of the others as fit.
    fn in_blocks(&self, width: usize) -> Vec<String> {
        let widths = self.widths();
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let mut taken = usize::MAX;
        for (column, of_column) in widths.iter().enumerate().skip(1) {
            taken = taken.saturating_add(GAP + of_column);
            match blocks.last_mut().filter(|_| taken <= width) {
                Some(block) => block.push(column),
                None => {
                    blocks.push(vec![0, column]);
                    taken = widths[0] + GAP + of_column;
                }
            }
        }
        blocks
            .iter()
            .map(|block| self.only(block).lines().join("\n"))
            .collect()
    }

    /// Returns the lines with the first column on a separate line above the others of its row.
    fn first_above(&self) -> Vec<String> {
        let others: Vec<usize> = (1..self.heading.len()).collect();
        let firsts = std::iter::once(&self.heading)
            .chain(&self.rows)
            .map(|row| row[0].clone());
        let others = self.only(&others).lines();
        firsts
            .zip(others)
            .flat_map(|(first, others)| [first, format!("{:INDENT$}{others}", "")])
            .collect()
    }

    fn only(&self, columns: &[usize]) -> Self {
        let selected = |row: &Vec<String>| {
            columns
                .iter()
                .filter_map(|c| row.get(*c).cloned())
                .collect()
        };
        Self {
            heading: selected(&self.heading),
            rows: self.rows.iter().map(selected).collect(),
            right: columns.iter().map(|c| self.right[*c]).collect(),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.heading.len()];
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        widths
    }

    fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (i, (text, width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - text.chars().count());
                let separator = if i == 0 { "" } else { "  " };
                let text = if self.right[i] {
                    format!("{pad}{text}")
                } else {
                    format!("{text}{pad}")
                };
                line.push_str(separator);
                line.push_str(&text);
            }
            line.trim_end().to_owned()
        };
        std::iter::once(&self.heading)
            .chain(&self.rows)
            .map(line)
            .collect()
    }
}

/// Returns the width of a line of columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Breaks a text between words into lines of a width; a longer word gets its own line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(heading: &[&str], rows: &[&[&str]], right: &[usize]) -> Columns {
        let owned = |row: &[&str]| row.iter().map(ToString::to_string).collect();
        Columns::new(
            owned(heading),
            rows.iter().map(|row| owned(row)).collect(),
            right,
        )
    }

    fn latencies() -> Columns {
        table(
            &["latency", "p50", "p90", "p99"],
            &[&["TTFT", "10.5", "11.5", "12.5"]],
            &[1, 2, 3],
        )
    }

    #[test]
    fn what_fits_or_goes_to_no_terminal_is_one_row_a_line() {
        let text = "latency   p50   p90   p99\nTTFT     10.5  11.5  12.5";
        assert_eq!(latencies().laid_out(None), text);
        assert_eq!(latencies().laid_out(Some(25)), text);
    }

    #[test]
    fn columns_that_do_not_fit_follow_below_the_first_column_again() {
        let text = "latency   p50   p90\nTTFT     10.5  11.5\n\nlatency   p99\nTTFT     12.5";
        assert_eq!(latencies().laid_out(Some(20)), text);
    }

    #[test]
    fn a_first_column_too_wide_for_company_stands_above_it() {
        let table = table(
            &["artifact", "rows", "size"],
            &[&["ladder[rep=1].requests", "64", "9 B"]],
            &[1],
        );
        assert_eq!(
            table.laid_out(Some(26)),
            "artifact\n    rows  size\nladder[rep=1].requests\n      64  9 B"
        );
    }

    #[test]
    fn prose_at_the_end_is_wrapped_in_its_column() {
        let table = table(
            &["run", ""],
            &[&["rate", "requests a second, drawn evenly"]],
            &[],
        );
        assert_eq!(
            table.laid_out(Some(26)),
            "run\nrate  requests a second,\n      drawn evenly"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_while_two_columns_fit() {
        let table = latencies();
        for width in 13..40 {
            let text = table.laid_out(Some(width));
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{width}: {text}"
            );
            for cell in ["TTFT", "10.5", "11.5", "12.5"] {
                assert!(text.contains(cell), "{width}: {text}");
            }
        }
    }

    #[test]
    fn as_many_columns_are_kept_as_fit() {
        let (kept, left_out) = latencies().fitting(19);
        assert_eq!(
            kept.laid_out(None),
            "latency   p50   p90\nTTFT     10.5  11.5"
        );
        assert_eq!(left_out, [3]);
        assert_eq!(latencies().fitting(25).1, Vec::<usize>::new());
    }
}
