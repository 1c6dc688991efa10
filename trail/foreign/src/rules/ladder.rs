//! Ladders: tables whose columns are levels (`N=1 … N=32`).

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::Evidence;
use crate::number::{shown, spread};
use crate::rules::words::names;
use crate::table::Table;

/// A table whose columns are levels.
pub(crate) struct Ladder<'a> {
    pub(crate) table: &'a Table,
    /// Column and level of each step of the ladder.
    pub(crate) levels: Vec<(usize, f64)>,
}

impl Ladder<'_> {
    /// The size of the step from one level to the next in a row, as an interval.
    pub(crate) fn drop(&self, row: usize, step: usize) -> Option<(f64, f64)> {
        let a = self.table.value(row, self.levels.get(step)?.0)?;
        let b = self.table.value(row, self.levels.get(step + 1)?.0)?;
        let (low, high) = spread(a, b, |a, b| a - b);
        Some(if low + high >= 0.0 {
            (low, high)
        } else {
            (-high, -low)
        })
    }

    pub(crate) fn step(&self, from: f64, to: f64) -> Option<usize> {
        self.levels
            .windows(2)
            .position(|pair| pair[0].1 == from && pair[1].1 == to)
    }

    /// Rows whose values are single numbers on the whole ladder.
    pub(crate) fn rows(&self) -> Vec<usize> {
        let plain = |row: usize, column: usize| {
            self.table.value(row, column).is_some()
                && self.table.rows[row].cells[column]
                    .text
                    .trim_start_matches(|c: char| !c.is_ascii_digit())
                    .chars()
                    .skip(1)
                    .all(|c| !matches!(c, '–' | '-'))
        };
        (0..self.table.rows.len())
            .filter(|&row| self.levels.iter().all(|level| plain(row, level.0)))
            .collect()
    }
}

static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z_ ]{1,14} ?= ?|@ ?)?(?P<n>[0-9]+)(?: ?(?:users|agents|u|clients))?$")
        .expect("a regex")
});

/// The ladder of a table: at least three columns with rising levels as their names.
pub(crate) fn ladder(table: &Table) -> Option<Ladder<'_>> {
    let levels: Vec<(usize, f64)> = table
        .columns
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(at, name)| {
            Some((at, LEVEL.captures(name)?.name("n")?.as_str().parse().ok()?))
        })
        .collect();
    let rising = levels.windows(2).all(|pair| pair[0].1 < pair[1].1);
    // A label of two words shifts the names: the last names belong to the last values.
    let width = table.rows.first().map_or(0, |row| row.cells.len());
    (levels.len() >= 3
        && rising
        && table.columns.len() <= width.max(table.columns.len().saturating_sub(1))
        && fits(table, &levels))
    .then_some(Ladder { table, levels })
}

fn fits(table: &Table, levels: &[(usize, f64)]) -> bool {
    let full = (0..table.rows.len())
        .filter(|&row| {
            levels
                .iter()
                .all(|level| table.value(row, level.0).is_some())
        })
        .count();
    full * 2 > table.rows.len()
}

/// The ladders a sentence speaks of: those whose own name, which is before them and not before the
/// others, is in the sentence; all if it names none or each.
pub(crate) fn choose<'t, 'a>(near: &'t [Ladder<'a>], sentence: &str) -> Vec<&'t Ladder<'a>> {
    let last = |ladder: &Ladder<'a>| {
        ladder
            .table
            .context
            .rsplit(". ")
            .next()
            .unwrap_or("")
            .to_owned()
    };
    let named: Vec<&Ladder<'a>> = near
        .iter()
        .filter(|ladder| {
            last(ladder)
                .split(|c: char| c.is_whitespace() || c == ',')
                .any(|word| {
                    word.chars().any(char::is_uppercase)
                        && word.chars().filter(|c| c.is_alphabetic()).count() >= 3
                        && names(sentence, word)
                        && near
                            .iter()
                            .filter(|other| names(&last(other), word))
                            .count()
                            == 1
                })
        })
        .collect();
    if named.is_empty() {
        near.iter().collect()
    } else {
        named
    }
}

pub(crate) fn step_evidence(ladder: &Ladder<'_>, row: usize, step: usize) -> Evidence {
    let table = ladder.table;
    let (a, b) = (ladder.levels[step].0, ladder.levels[step + 1].0);
    let cell = |column: usize| {
        table.rows[row]
            .cells
            .get(column)
            .map_or("", |cell| cell.text.as_str())
    };
    let size = ladder
        .drop(row, step)
        .map_or(f64::NAN, |d| f64::midpoint(d.0, d.1));
    let place = format!(
        "line {}, \"{}\", {} → {}",
        table.rows[row].line,
        table.label(row),
        table.columns[a],
        table.columns[b]
    );
    Evidence::new(place, format!("{} → {}: {}", cell(a), cell(b), shown(size)))
}
