//! R-SAME, R-BIND: a number of the prose that restates a cell is the number of that cell.
//!
//! A number of three digits or more that the report and the data have nowhere else, in a sentence that names a
//! row of a table, is held against that row. It is taken for a slip if it differs from a cell by a single digit,
//! or if the sentence names the column too. A number that stands only in another row is of the wrong row.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, quantities, shown, tail};
use crate::rules::Rule;
use crate::rules::columns::named_columns;
use crate::rules::keys::{key, keys, rows_named};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::words;
use crate::table::Table;
use crate::text::Prose;

/// Words before a number that say that it is not the value of a cell.
static DERIVED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:\bby|gap|spread|difference|differ|delta|drops?|loss|loses?|sheds?|falls?|rises?|within|under|over|above|below|than|at most|at least|exceeds?|threshold|margin|bound|seed|[=<>≤≥±§v#])(?: of| to| is| a| an| only| the| about)* ?[(\[]?[+−-]?$").expect("a regex")
});

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let known = Known::new(scope);
    for prose in &scope.report.prose {
        let heading = prose.section.checked_sub(1).and_then(|at| scope.report.headings.get(at));
        let heading = heading.map_or("", |heading| &heading.text);
        for &(start, end) in &prose.sentences {
            let numbers = prose.numbers_in(start, end);
            for number in numbers.iter().filter(|number| telling(number)) {
                if DERIVED.is_match(tail(&prose.text[start..number.start])) {
                    continue;
                }
                let place = Place { prose, sentence: (start, end), heading, number };
                if known.count(number) == 1 && !follows(number, numbers) {
                    slip(scope, &place, found);
                } else if (2..=4).contains(&known.count(number)) {
                    elsewhere(scope, &place, found);
                }
            }
        }
    }
}

/// A number of a sentence.
struct Place<'a> {
    prose: &'a Prose,
    sentence: (usize, usize),
    heading: &'a str,
    number: &'a Quantity,
}

impl Place<'_> {
    fn finding(&self, rule: Rule, message: String, evidence: Vec<Evidence>) -> Finding {
        let span = (self.number.start, self.number.end);
        in_prose(self.prose, span, (rule, Confidence::Medium), message, evidence)
    }

    fn text(&self) -> &str {
        &self.prose.text[self.sentence.0..self.sentence.1]
    }
}

/// Three digits or more, of a whole number four; not rough, not round.
fn telling(number: &Quantity) -> bool {
    let digits = digits(number);
    let least = if number.half < 0.5 { 100 } else { 1000 };
    !number.rough && digits >= least && !(number.half >= 0.5 && digits.is_multiple_of(50))
}

/// The digits of a number as one integer.
fn digits(number: &Quantity) -> u64 {
    // Exact: a printed number has fewer digits than the mantissa.
    (number.value.abs() / (2.0 * number.half)).round() as u64
}

/// Every number of the report and the data, sorted.
struct Known(Vec<f64>);

impl Known {
    fn new(scope: &Scope<'_>) -> Self {
        let tables = scope.report.tables.iter().chain(scope.data);
        let mut all: Vec<f64> = tables
            .flat_map(|table| &table.rows)
            .flat_map(|row| &row.cells)
            .flat_map(|cell| quantities(&cell.text))
            .map(|number| number.value.abs())
            .collect();
        let prose = scope.report.prose.iter().flat_map(|prose| prose.numbers.iter());
        all.extend(prose.map(|number| number.value.abs()));
        let code = scope.report.code.iter().flat_map(|code| &code.lines);
        all.extend(code.flat_map(|line| quantities(line)).map(|number| number.value.abs()));
        all.sort_by(f64::total_cmp);
        Self(all)
    }

    /// How many numbers round to this one, itself included, also as a percentage or in thousandths.
    fn count(&self, number: &Quantity) -> usize {
        let near = |scale: f64| {
            let (value, slack) = (number.value.abs() * scale, number.half * scale * 1.0001);
            let from = self.0.partition_point(|other| *other < value - slack);
            self.0[from..].iter().take_while(|other| **other <= value + slack).count()
        };
        near(1.0) + near(100.0) + near(0.01) + near(1000.0) + near(0.001)
    }
}

/// Whether a number is a sum, difference or quotient of two others of its sentence.
fn follows(number: &Quantity, others: &[Quantity]) -> bool {
    let wanted = |value: f64| (number.value.abs() - value.abs()).abs() <= 2.0 * number.half;
    others.iter().any(|a| {
        others.iter().any(|b| {
            a.start != b.start
                && a.start != number.start
                && b.start != number.start
                && (wanted(a.value - b.value)
                    || wanted(a.value + b.value)
                    || wanted(a.value * b.value)
                    || b.value != 0.0
                        && (wanted(a.value / b.value) || wanted(100.0 * (a.value / b.value - 1.0))))
        })
    })
}

/// A number that stands nowhere else, beside a cell that it could be.
fn slip(scope: &Scope<'_>, place: &Place<'_>, found: &mut Vec<Finding>) {
    let number = place.number;
    let said = place.prose.numbers_in(place.sentence.0, place.sentence.1);
    for table in candidates(scope, place) {
        let Some(keys) = keys(table) else { continue };
        let rows = rows_named(table, &keys, place.prose, place.sentence, place.heading);
        let columns = named_columns(table, place.text());
        for row in rows.iter().copied().filter(|_| rows.len() <= 4) {
            for column in table.numeric_columns().into_iter().filter(|column| !keys.contains(column)) {
                let Some(cell) = table.value(row, column).filter(|cell| {
                    alike(cell, number) && !said.iter().any(|n| n.value.abs() == cell.value.abs())
                }) else {
                    continue;
                };
                let named = rows.len() == 1 && columns == [column];
                if named || one_digit(digits(cell), digits(number)) {
                    let message = format!(
                        "{} stands nowhere else; the table has {}",
                        shown(number.value),
                        shown(cell.value)
                    );
                    found.push(place.finding(Rule::Same, message, vec![table.evidence(row, column)]));
                    return;
                }
            }
        }
    }
}

/// A number whose only other place is a cell of a row that the sentence does not name.
fn elsewhere(scope: &Scope<'_>, place: &Place<'_>, found: &mut Vec<Finding>) {
    let number = place.number;
    let named = |table| {
        let keys = keys(table)?;
        let rows = rows_named(table, &keys, place.prose, place.sentence, place.heading);
        Some((keys, rows))
    };
    let here = candidates(scope, place).filter_map(|table| Some((table, named(table)?.1)));
    let holds = |table: &Table, row: usize| {
        let cells = table.rows[row].cells.iter();
        cells.flat_map(|cell| quantities(&cell.text)).any(|v| (v.value - number.value).abs() <= number.half)
    };
    if here.into_iter().any(|(table, rows)| rows.iter().any(|&row| holds(table, row))) {
        return;
    }
    for table in candidates(scope, place) {
        let Some((keys, rows)) = named(table) else { continue };
        let [named] = rows.as_slice() else { continue };
        let columns = table.numeric_columns();
        let cell = columns.iter().filter(|column| !keys.contains(column)).find_map(|&column| {
            let (row, _) = table.numbers(column).into_iter().find(|(_, v)| {
                v.value == number.value
                    && v.half == number.half
                    && (v.unit == number.unit || v.unit.is_empty() || number.unit.is_empty())
            })?;
            Some((row, column))
        });
        let Some((row, column)) = cell.filter(|cell| cell.0 != *named) else { continue };
        // A part of the other label in the sentence (`the SGLang minimum`) is enough to mean that row.
        let label = |row: usize| words(&key(table, row, &keys).join(" "));
        let own: BTreeSet<String> = label(row).difference(&label(*named)).cloned().collect();
        if table.value(*named, column).is_none() || !own.is_disjoint(&words(place.text())) {
            continue;
        }
        let message = format!("{} is the value of another row", shown(number.value));
        let evidence = vec![table.evidence(row, column), table.evidence(*named, column)];
        found.push(place.finding(Rule::Bind, message, evidence));
        return;
    }
}

fn candidates<'a>(scope: &'a Scope<'_>, place: &Place<'_>) -> impl Iterator<Item = &'a Table> {
    let around = scope.report.tables_around(place.prose.line());
    around.iter().chain(scope.data).filter(|table| table.rows.len() <= 400)
}

/// Whether a cell could be the number: as many decimals, the same unit if both have one, about the same size.
fn alike(cell: &Quantity, number: &Quantity) -> bool {
    let unit = cell.unit == number.unit || cell.unit.is_empty() || number.unit.is_empty();
    let ratio = (cell.value / number.value).abs();
    cell.half == number.half && unit && (0.5..=2.0).contains(&ratio)
}

/// Whether two numbers of as many digits differ in one of them, or in the order of two neighbours.
fn one_digit(a: u64, b: u64) -> bool {
    let (a, b) = (a.to_string().into_bytes(), b.to_string().into_bytes());
    if a.len() != b.len() {
        return false;
    }
    let differing: Vec<usize> = (0..a.len()).filter(|&at| a[at] != b[at]).collect();
    match differing.as_slice() {
        [_] => true,
        [first, second] => second - first == 1 && a[*first] == b[*second] && a[*second] == b[*first],
        _ => false,
    }
}
