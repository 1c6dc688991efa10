//! Conditions on a column of a table, as a clause states them: a verdict, a yes or no, a sign, a bound, a count of
//! zero, or the value of another column.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::number::{Quantity, quantities};
use crate::rules::columns::{bare, named_columns, same_size};
use crate::rules::words::words;
use crate::table::Table;

/// A condition on the cells of one column.
pub(crate) struct Condition {
    pub(crate) column: usize,
    test: Test,
    /// Words of the clause that state it.
    pub(crate) words: BTreeSet<String>,
    /// The number it compares with.
    pub(crate) bound: Option<Quantity>,
    pub(crate) cells: Cells,
}

/// What is in the cells of a condition's column.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Cells {
    /// Words: `directional`, `yes`.
    Verdicts,
    /// How many of the things that the statement is about; a row is not one of them.
    Counts,
    /// A measurement of the row.
    Values,
}

enum Test {
    Is(String),
    Above(f64),
    Below(f64),
    AtLeast(f64),
    AtMost(f64),
    AboveColumn(usize),
    BelowColumn(usize),
    /// `|a − b|` at most the bound, as a difference or as a share of the other.
    Within {
        other: usize,
        most: f64,
        relative: bool,
    },
}

impl Condition {
    /// Whether a row meets it, `Some(None)` if rounding leaves it open; `None` if the row has no such value.
    pub(crate) fn holds(&self, table: &Table, row: usize) -> Option<Option<bool>> {
        let cell = table.rows.get(row)?.cells.get(self.column)?;
        if let Test::Is(value) = &self.test {
            return (!cell.text.is_empty()).then(|| Some(cell.text.to_lowercase() == *value));
        }
        let own = cell.value.as_ref()?;
        let slack = |other: &Quantity| own.half + other.half;
        let decided =
            |distance: f64, slack: f64| (distance.abs() > slack).then_some(distance > 0.0);
        Some(match self.test {
            Test::Is(_) => None,
            // A zero printed is a zero for a strict bound.
            Test::Above(bound) if own.value == bound => Some(false),
            Test::Below(bound) if own.value == bound => Some(false),
            Test::AtLeast(bound) | Test::AtMost(bound) if own.value == bound => Some(true),
            Test::Above(bound) | Test::AtLeast(bound) => decided(own.value - bound, own.half),
            Test::Below(bound) | Test::AtMost(bound) => decided(bound - own.value, own.half),
            Test::AboveColumn(other) => {
                let other = table.value(row, other)?;
                decided(own.value - other.value, slack(other))
            }
            Test::BelowColumn(other) => {
                let other = table.value(row, other)?;
                decided(other.value - own.value, slack(other))
            }
            Test::Within {
                other,
                most,
                relative,
            } => {
                let other = table.value(row, other)?;
                let scale = if relative { other.value.abs() } else { 1.0 };
                if scale == 0.0 {
                    return None;
                }
                decided(
                    most - (own.value - other.value).abs() / scale,
                    slack(other) / scale,
                )
            }
        })
    }

    /// The column, as a message names it.
    pub(crate) fn name(&self, table: &Table) -> String {
        format!(
            "\"{}\"",
            table.columns.get(self.column).map_or("", String::as_str)
        )
    }
}

/// The conditions that a clause may state on a table; `noun` is what it counts.
pub(crate) fn conditions(table: &Table, clause: &str, noun: &str) -> Vec<Condition> {
    let mut found = verdicts(table, clause);
    found.extend(zeros(table, clause, noun));
    let said = format!("{noun} {clause}");
    found.extend(within(table, clause, &said));
    found.extend(compared(table, clause, &said));
    found.extend(signs(table, clause, &said));
    found
}

const ANSWERS: &[&str] = &["yes", "no", "true", "false", "✓", "✗", "✅", "❌"];
const YES: &[&str] = &["yes", "true", "✓", "✅"];

/// Columns of words: the header of a column of yes and no, or one value of a column of verdicts.
fn verdicts(table: &Table, clause: &str) -> Vec<Condition> {
    let said = words(clause);
    let mut found = Vec::new();
    for column in 1..table.columns.len() {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(column));
        let values: BTreeSet<String> = cells.map(|cell| cell.text.to_lowercase()).collect();
        let wordy = table.numbers(column).is_empty();
        if !wordy || values.is_empty() || values.len() > 6 {
            continue;
        }
        if values.iter().all(|value| ANSWERS.contains(&value.as_str())) {
            let header = words(&table.columns[column]);
            let special = header.len() >= 2 || header.iter().any(|word| word.len() >= 6);
            if special && header.is_subset(&said) {
                let yes = values.iter().find(|value| YES.contains(&value.as_str()));
                let test = Test::Is(yes.map_or_else(|| "yes".to_owned(), Clone::clone));
                found.push(Condition {
                    column,
                    test,
                    words: header,
                    bound: None,
                    cells: Cells::Verdicts,
                });
            }
            continue;
        }
        let named: Vec<&String> = values
            .iter()
            .filter(|value| value.len() >= 4 && value.len() <= 30)
            .filter(|value| !words(value).is_empty() && words(value).is_subset(&said))
            .collect();
        if let [value] = named.as_slice() {
            let own = words(value);
            let header = words(&table.columns[column]);
            found.push(Condition {
                column,
                test: Test::Is((*value).clone()),
                words: own.union(&header).cloned().collect(),
                bound: None,
                cells: Cells::Verdicts,
            });
        }
    }
    found
}

/// What happened to none, and what its column of counts is called.
const OUTCOMES: &[(&str, &[&str])] = &[
    ("failed", &["failed", "failure", "fail"]),
    ("hung", &["hung"]),
    ("dropped", &["dropped", "drop"]),
    ("skipped", &["skipped"]),
    ("aborted", &["aborted"]),
    ("rejected", &["rejected"]),
    ("preempted", &["preempted", "preemption"]),
];

/// "No request failed": zero in each cell of the column `Failed` of a table that counts requests.
fn zeros(table: &Table, clause: &str, noun: &str) -> Vec<Condition> {
    let said = words(clause);
    let noun = words(noun.split(' ').next().unwrap_or(""));
    let Some((verb, names)) = OUTCOMES.iter().find(|(verb, _)| said.contains(*verb)) else {
        return Vec::new();
    };
    let counts = |column: usize| table.numbers(column).iter().all(|(_, v)| v.is_count());
    let mut columns = table.numeric_columns().into_iter().filter(|&column| {
        let mut header = words(&bare(&table.columns[column]));
        header.retain(|word| !noun.contains(word));
        counts(column)
            && header.len() == 1
            && header.iter().all(|word| names.contains(&word.as_str()))
    });
    let about = words(&format!("{} {}", table.columns.join(" "), table.context));
    let (Some(column), None) = (columns.next(), columns.next()) else {
        return Vec::new();
    };
    if noun.is_empty() || !noun.is_subset(&about) {
        return Vec::new();
    }
    let words = noun.into_iter().chain([(*verb).to_owned()]).collect();
    vec![Condition {
        column,
        test: Test::Above(0.0),
        words,
        bound: None,
        cells: Cells::Counts,
    }]
}

static SIGN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(?P<up>positive|(?:above|greater than|over) (?:zero|0\b))|(?P<down>negative|(?:below|less than|under) (?:zero|0\b)))").expect("a regex")
});

/// "The delta is positive": of the column named, or of the only one whose numbers have signs.
fn signs(table: &Table, clause: &str, said: &str) -> Option<Condition> {
    let captures = SIGN.captures(clause)?;
    let column = subject(table, said, |column| {
        table
            .numbers(column)
            .iter()
            .all(|(_, value)| value.signed || value.value == 0.0)
    })?;
    let test = if captures.name("up").is_some() {
        Test::Above(0.0)
    } else {
        Test::Below(0.0)
    };
    let bound = quantities(captures.get(0)?.as_str()).into_iter().next();
    let own = words(captures.get(0)?.as_str())
        .into_iter()
        .chain(words(&bare(&table.columns[column])));
    Some(Condition {
        column,
        test,
        words: own.collect(),
        bound,
        cells: Cells::Values,
    })
}

/// The one column of numbers that a text names, in full or by its last word, and that can be meant.
fn subject(table: &Table, text: &str, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let said = words(text);
    let last = |column: usize| {
        let name = bare(&table.columns[column]).to_lowercase();
        let word = words(name.rsplit([' ', '_']).next().unwrap_or(""));
        !word.is_empty() && word.is_subset(&said)
    };
    let full = named_columns(table, text);
    let columns: Vec<usize> = if full.is_empty() {
        table
            .numeric_columns()
            .into_iter()
            .filter(|column| last(*column))
            .collect()
    } else {
        full
    };
    let mut columns = columns.into_iter().filter(|column| fits(*column));
    columns.next().filter(|_| columns.next().is_none())
}

static COMPARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<op>at least|at or above|at most|at or below|exceeds?|exceeded|above|over|more than|greater than|higher than|below|under|less than|lower than|fewer than) (?P<to>.*)$").expect("a regex")
});

/// "Stays above 0.65", "lies above the serial reference".
fn compared(table: &Table, clause: &str, said: &str) -> Option<Condition> {
    let captures = COMPARED.captures(clause)?;
    let (op, to) = (captures.name("op")?, captures.name("to")?);
    let word = op.as_str().to_lowercase();
    let up = !matches!(
        word.as_str(),
        "below" | "under" | "less than" | "lower than" | "fewer than" | "at most" | "at or below"
    );
    let strict = !word.starts_with("at ");
    let mut own = words(op.as_str());
    let left = &said[..said.len() - to.as_str().len()];
    if let Some(bound) = quantities(to.as_str())
        .into_iter()
        .next()
        .filter(|bound| bound.start <= 1 && bound.value != 0.0)
    {
        let column = subject(table, said, |column| same_size(table, column, &bound))?;
        let test = match (up, strict) {
            (true, true) => Test::Above(bound.value),
            (true, false) => Test::AtLeast(bound.value),
            (false, true) => Test::Below(bound.value),
            (false, false) => Test::AtMost(bound.value),
        };
        own.extend(words(&bare(&table.columns[column])));
        own.extend(words(&to.as_str()[bound.start..bound.end]));
        return Some(Condition {
            column,
            test,
            words: own,
            bound: Some(bound),
            cells: Cells::Values,
        });
    }
    let [other] = named_columns(table, to.as_str())[..] else {
        return None;
    };
    let column = subject(table, left, |column| column != other)?;
    let test = if up {
        Test::AboveColumn(other)
    } else {
        Test::BelowColumn(other)
    };
    for column in [column, other] {
        own.extend(words(&bare(&table.columns[column])));
    }
    Some(Condition {
        column,
        test,
        words: own,
        bound: None,
        cells: Cells::Values,
    })
}

static WITHIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?P<left>.*)\bwithin (?P<v>[0-9]+(?:\.[0-9]+)?) ?(?P<pc>%|percent)? of (?:the |its |their )?(?P<to>.*)$")
        .expect("a regex")
});

/// "Fitted shares lie within 0.01 of the planted ones": two columns, difference or share.
fn within(table: &Table, clause: &str, said: &str) -> Option<Condition> {
    let captures = WITHIN.captures(said)?;
    let value: f64 = captures.name("v")?.as_str().parse().ok()?;
    let percent = captures.name("pc").is_some();
    let most = if percent { value / 100.0 } else { value };
    let exact = |text: &str| -> Option<usize> {
        let said = words(text);
        let mut columns = table.numeric_columns().into_iter().filter(|&column| {
            let name = words(&bare(&table.columns[column]));
            !name.is_empty() && name.is_subset(&said)
        });
        columns.next().filter(|_| columns.next().is_none())
    };
    let column = exact(captures.name("left")?.as_str())?;
    let other = exact(captures.name("to")?.as_str())?;
    if column == other {
        return None;
    }
    let mut own: BTreeSet<String> = ["within".to_owned()].into();
    for column in [column, other] {
        own.extend(words(&bare(&table.columns[column])));
    }
    let bound = quantities(clause)
        .into_iter()
        .find(|number| (number.value - value).abs() < 1e-12);
    let test = Test::Within {
        other,
        most,
        relative: percent,
    };
    Some(Condition {
        column,
        test,
        words: own,
        bound,
        cells: Cells::Values,
    })
}
