//! R-SAME, R-BIND, R-UNIT, R-STAT: a number of the prose that restates a cell is the number of that cell.
//!
//! A number of three digits or more in a sentence that names rows of a table is compared with these rows. If a cell
//! has it, sign, unit and statistic must be those of the cell. If only another row has it, the row is the wrong one.
//! If the report and the data have it nowhere, it is a slip where it differs from a cell by a single digit, or where
//! the sentence names the column too.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, quantities, shown, tail};
use crate::rules::Rule;
use crate::rules::columns::named_columns;
use crate::rules::keys::{Named, key, keys, rows_named};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{statistic, statistic_at, words};
use crate::table::{Cell, Table};
use crate::text::{Prose, Report};

/// Words before a number that say that it is not the value of a cell.
static DERIVED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:\bby|gap|spread|difference|differ|delta|drops?|loss|loses?|sheds?|falls?|rises?|within|under|over|above|below|than|at most|at least|exceeds?|threshold|margin|bound|seed|[=<>≤≥±§v#])(?: of| to| is| a| an| only| the| about)* ?[(\[]?[+−-]?$").expect("a regex")
});

static SUPERLATIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:largest|smallest|highest|lowest|greatest|steepest|fastest|slowest|best|worst|most|least)\b")
        .expect("a regex")
});

/// A table with the columns that tell its rows apart.
struct Keyed<'a> {
    table: &'a Table,
    keys: Vec<usize>,
}

impl<'a> Keyed<'a> {
    fn all(tables: &'a [Table]) -> Vec<Self> {
        let small = tables.iter().filter(|table| table.rows.len() <= MOST_ROWS);
        small
            .filter_map(|table| {
                Some(Self {
                    table,
                    keys: keys(table)?,
                })
            })
            .collect()
    }

    /// Columns of values.
    fn columns(&self) -> impl Iterator<Item = usize> {
        self.table
            .numeric_columns()
            .into_iter()
            .filter(|column| !self.keys.contains(column))
    }
}

/// Larger tables are not read cell by cell.
const MOST_ROWS: usize = 400;

/// Tables of the report on each side of a sentence that it is compared with.
const REACH: usize = 40;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let (own, data) = (Keyed::all(&scope.report.tables), Keyed::all(scope.data));
    let (report, elsewhere) = (Known::of_report(scope.report), Known::of_data(scope.data));
    for prose in &scope.report.prose {
        let heading = prose
            .section
            .checked_sub(1)
            .and_then(|at| scope.report.headings.get(at));
        let heading = heading.map_or("", |heading| &heading.text);
        let middle = own.partition_point(|keyed| keyed.table.line < prose.line());
        let near = &own[middle.saturating_sub(REACH)..(middle + REACH).min(own.len())];
        for &(start, end) in &prose.sentences {
            let numbers = prose.numbers_in(start, end);
            let mut stated = numbers.iter().filter(|number| telling(number)).peekable();
            if stated.peek().is_none() {
                continue;
            }
            let rows = near.iter().chain(&data).filter_map(|keyed| {
                Some((
                    keyed,
                    rows_named(keyed.table, &keyed.keys, prose, (start, end), heading)?,
                ))
            });
            let sentence = Sentence {
                prose,
                start,
                end,
                numbers,
                rows: rows.collect(),
            };
            for number in stated {
                let cells = sentence.cells(number);
                let finding = if !cells.is_empty() {
                    sentence.attributes(number, &cells)
                } else if DERIVED.is_match(tail(&prose.text[start..number.start])) {
                    None
                } else if report.count(number) == 1 && elsewhere.count(number) == 0 {
                    sentence.slip(number)
                } else if report.count(number) <= 6 {
                    sentence.wrong_row(number)
                } else {
                    None
                };
                found.extend(finding);
            }
        }
    }
}

/// A sentence with the rows that it names.
struct Sentence<'a> {
    prose: &'a Prose,
    start: usize,
    end: usize,
    numbers: &'a [Quantity],
    rows: Vec<(&'a Keyed<'a>, Named)>,
}

impl Sentence<'_> {
    fn text(&self) -> &str {
        &self.prose.text[self.start..self.end]
    }

    fn finding(
        &self,
        number: &Quantity,
        rule: Rule,
        message: String,
        evidence: Vec<Evidence>,
    ) -> Finding {
        in_prose(
            self.prose,
            (number.start, number.end),
            (rule, Confidence::Medium),
            message,
            evidence,
        )
    }

    /// Cells of the named rows that may be the number, sign and unit aside; a number inside a cell counts.
    fn cells(&self, number: &Quantity) -> Vec<(&Table, usize, usize)> {
        let mut found = Vec::new();
        for (keyed, named) in self
            .rows
            .iter()
            .filter(|(_, named)| named.whole || named.rows.len() <= 8)
        {
            for &row in &named.rows {
                for (column, cell) in keyed.table.rows[row].cells.iter().enumerate() {
                    let near = |v: &Quantity| {
                        (v.value.abs() - number.value.abs()).abs() <= number.half * 1.0001
                    };
                    if quantities(&cell.text).iter().any(near) {
                        found.push((keyed.table, row, column));
                    }
                }
            }
        }
        found
    }

    /// A number that cells of the named rows have: with their sign, their unit, their statistic?
    fn attributes(&self, number: &Quantity, cells: &[(&Table, usize, usize)]) -> Option<Finding> {
        let values: Option<Vec<&Quantity>> = cells
            .iter()
            .map(|(table, row, column)| table.value(*row, *column))
            .collect();
        let values = values?;
        let evidence = || {
            cells
                .iter()
                .take(4)
                .map(|(table, row, column)| table.evidence(*row, *column))
                .collect()
        };
        let turned = |v: &&Quantity| v.signed && v.value * number.value < 0.0;
        if number.signed && values.iter().all(turned) {
            let message = format!("{} with the other sign", shown(number.value));
            return Some(self.finding(number, Rule::Same, message, evidence()));
        }
        let unit = |at: usize| {
            let (table, _, column) = cells[at];
            let own = values[at].unit.clone();
            if own.is_empty() {
                unit_of(table.columns.get(column).map_or("", String::as_str))
            } else {
                own
            }
        };
        let units: Vec<String> = (0..cells.len())
            .map(unit)
            .filter(|unit| !unit.is_empty())
            .collect();
        let known = UNITS.contains(&number.unit.as_str());
        if let Some(other) = units
            .first()
            .filter(|_| known && !units.contains(&number.unit))
        {
            let message = format!(
                "{} {} here, {} in the table",
                shown(number.value),
                number.unit,
                other
            );
            return Some(self.finding(number, Rule::Unit, message, evidence()));
        }
        let before = tail(&self.prose.text[self.start..number.start]);
        let stated = statistic(before)?;
        // A column that names no statistic (`Reading`) says nothing for or against.
        let named: Vec<String> = cells
            .iter()
            .filter_map(|(table, _, column)| statistic(table.columns.get(*column)?))
            .collect();
        (!named.is_empty() && !named.contains(&stated)).then(|| {
            let message = format!("called {stated} here, something else in the table");
            let start = number.start - before.len() + statistic_at(before).unwrap_or(before.len());
            let span = (start, number.end);
            in_prose(
                self.prose,
                span,
                (Rule::Stat, Confidence::Medium),
                message,
                evidence(),
            )
        })
    }

    /// A number that stands nowhere else, beside a cell that it could be.
    fn slip(&self, number: &Quantity) -> Option<Finding> {
        if follows(number, self.numbers) {
            return None;
        }
        for (keyed, named) in self
            .rows
            .iter()
            .filter(|(_, named)| named.whole && named.rows.len() <= 4)
        {
            let table = keyed.table;
            let columns = named_columns(table, self.text());
            for &row in &named.rows {
                for column in keyed.columns() {
                    let said = |cell: &Quantity| {
                        self.numbers
                            .iter()
                            .any(|n| n.value.abs() == cell.value.abs())
                    };
                    let cell = table
                        .value(row, column)
                        .filter(|cell| alike(cell, number) && !said(cell));
                    let Some(cell) = cell else { continue };
                    let bound = named.rows.len() == 1 && columns == [column];
                    if bound || one_digit(digits(cell), digits(number)) {
                        let message = format!(
                            "{} appears nowhere else; the table has {}",
                            shown(number.value),
                            shown(cell.value)
                        );
                        return Some(self.finding(
                            number,
                            Rule::Same,
                            message,
                            vec![table.evidence(row, column)],
                        ));
                    }
                }
            }
        }
        None
    }

    /// A number that only a row has which the sentence does not name.
    fn wrong_row(&self, number: &Quantity) -> Option<Finding> {
        // Where a key is not said only a superlative is sure to mean one row.
        let extreme = SUPERLATIVE.is_match(self.text());
        for (keyed, named) in self
            .rows
            .iter()
            .filter(|(_, n)| n.rows.len() <= 8 && (n.whole || extreme))
        {
            let table = keyed.table;
            let label = |row: usize| words(&key(table, row, &keyed.keys).join(" "));
            let said = words(self.text());
            for column in keyed.columns() {
                let fits = |v: &Quantity| {
                    let unit = v.unit == number.unit || v.unit.is_empty() || number.unit.is_empty();
                    v.value == number.value && v.half == number.half && unit
                };
                let holders: Vec<usize> = table
                    .numbers(column)
                    .into_iter()
                    .filter(|(_, v)| fits(v))
                    .map(|(row, _)| row)
                    .collect();
                let [row] = holders.as_slice() else { continue };
                let here = named.rows[0];
                let named_words: BTreeSet<String> =
                    named.rows.iter().flat_map(|&row| label(row)).collect();
                // A part of the other label in the sentence (`the SGLang minimum`) is enough to mean that row.
                let own: BTreeSet<String> = label(*row).difference(&named_words).cloned().collect();
                if own.is_empty() || !own.is_disjoint(&said) || table.value(here, column).is_none()
                {
                    continue;
                }
                let message = format!("{} is the value of another row", shown(number.value));
                let evidence = vec![table.evidence(*row, column), table.evidence(here, column)];
                return Some(self.finding(number, Rule::Bind, message, evidence));
            }
        }
        None
    }
}

/// Units that a column and a sentence may both state.
const UNITS: &[&str] = &["ms", "s", "us", "%", "pp", "x", "tok/s", "req/s"];

/// The unit in the name of a column: `TTFT (ms)`, `Output tok/s`.
fn unit_of(name: &str) -> String {
    let last = name
        .rsplit(['(', ' ', '_'])
        .next()
        .unwrap_or("")
        .trim_end_matches(')');
    let unit = quantities(&format!("1 {last}"))
        .pop()
        .map(|q| q.unit)
        .unwrap_or_default();
    if UNITS.contains(&unit.as_str()) {
        unit
    } else {
        String::new()
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

/// The magnitudes of all numbers of some texts, sorted.
struct Known(Vec<f64>);

impl Known {
    fn of_report(report: &Report) -> Self {
        let prose = report
            .prose
            .iter()
            .flat_map(|prose| prose.numbers.iter())
            .map(|n| n.value.abs());
        let code = report
            .code
            .iter()
            .flat_map(|code| &code.lines)
            .flat_map(|line| quantities(line));
        let cells = cells(&report.tables).flat_map(|cell| quantities(&cell.text));
        Self::sorted(
            prose
                .chain(code.chain(cells).map(|n| n.value.abs()))
                .collect(),
        )
    }

    fn of_data(tables: &[Table]) -> Self {
        Self::sorted(
            cells(tables)
                .flat_map(|cell| quantities(&cell.text))
                .map(|n| n.value.abs())
                .collect(),
        )
    }

    fn sorted(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Self(all)
    }

    /// How many numbers round to this one, itself included, also as a percentage or in thousandths.
    fn count(&self, number: &Quantity) -> usize {
        let near = |scale: f64| {
            let (value, slack) = (number.value.abs() * scale, number.half * scale * 1.0001);
            let from = self.0.partition_point(|other| *other < value - slack);
            self.0[from..]
                .iter()
                .take_while(|other| **other <= value + slack)
                .count()
        };
        near(1.0) + near(100.0) + near(0.01) + near(1000.0) + near(0.001)
    }
}

fn cells(tables: &[Table]) -> impl Iterator<Item = &Cell> {
    tables
        .iter()
        .flat_map(|table| &table.rows)
        .flat_map(|row| &row.cells)
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
        [first, second] => {
            second - first == 1 && a[*first] == b[*second] && a[*second] == b[*first]
        }
        _ => false,
    }
}
