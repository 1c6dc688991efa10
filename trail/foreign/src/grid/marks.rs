//! Marks that a table gives to its best numbers: bold cells, columns that name the winner of each row, and ranks.

use std::collections::BTreeMap;

use crate::claims::header_unit;
use crate::finding::{Evidence, Finding, Rule};
use crate::number::measure;
use crate::table::Table;
use crate::words::{normal, words};

/// Checks the marks of a table.
pub(super) fn check(table: &Table, findings: &mut Vec<Finding>) {
    let numeric: Vec<usize> = (0..table.columns.len())
        .filter(|column| table.is_numeric(*column))
        .collect();
    bold(table, &numeric, findings);
    winners(table, &numeric, findings);
    ranks(table, &numeric, findings);
}

fn finding(
    table: &Table,
    (row, column): (usize, usize),
    message: String,
    cause: &str,
    evidence: &[(usize, usize)],
) -> Finding {
    let (line, place) = table.spot(row, column);
    let text =
        |(row, column): (usize, usize)| table.cell(row, column).map_or("", |cell| &cell.text);
    Finding {
        rule: Rule::Relation,
        line,
        column: place,
        quote: format!("{} | {}", table.label(row), text((row, column))),
        message,
        cause: format!("line {}: {cause}", table.line),
        evidence: evidence
            .iter()
            .map(|at| Evidence::new(table.place(at.0, at.1), text(*at)))
            .collect(),
    }
}

/// The numbers of a column with their rows; `None` if a cell lacks one.
fn numbers(table: &Table, column: usize) -> Option<Vec<f64>> {
    let number = |row| table.plain(row, column).map(|n| n.value);
    (0..table.rows.len()).map(number).collect()
}

/// Checks that the bold number of a column is its largest or smallest, if it is in three other columns.
fn bold(table: &Table, numeric: &[usize], findings: &mut Vec<Finding>) {
    let (mut extreme, mut inner) = (Vec::new(), Vec::new());
    for column in numeric {
        let marked: Vec<usize> = (0..table.rows.len())
            .filter(|row| table.cell(*row, *column).is_some_and(|cell| cell.bold))
            .collect();
        let (Some(values), [row]) = (numbers(table, *column), marked.as_slice()) else {
            continue;
        };
        let beyond = |sign: f64| {
            values
                .iter()
                .filter(|v| sign * (**v - values[*row]) > 0.0)
                .count()
        };
        let best = beyond(1.0) == 0 || beyond(-1.0) == 0;
        if values.len() >= 3 {
            if best { &mut extreme } else { &mut inner }.push((*row, *column));
        }
    }
    // Bold numbers of one row only mark the row.
    let rows: std::collections::BTreeSet<usize> =
        extreme.iter().chain(&inner).map(|at| at.0).collect();
    if let ([at], true) = (inner.as_slice(), extreme.len() >= 3 && rows.len() >= 2) {
        let message = format!(
            "bold, but neither the largest nor the smallest of its column, as in the {} other columns",
            extreme.len()
        );
        findings.push(finding(table, *at, message, "bold numbers", &[]));
    }
}

/// Whether more is better, by the unit or the words of a label; `None` if neither shows it.
fn direction(label: &str) -> Option<bool> {
    let (rest, unit) = header_unit(label);
    let words: Vec<String> = words(&rest).into_iter().map(|word| word.text).collect();
    let ratio = unit.ends_with("/s") || measure(&unit).0 == "time";
    crate::claims::more_is_better(if ratio { &unit } else { "" }, &words)
}

/// A row that names its winner: the row, the named column, and the columns of the same unit with their numbers.
type NamedWinner = (usize, usize, Vec<(usize, f64)>);

/// Checks columns such as `Winner`, which name the column with the best number of the row.
fn winners(table: &Table, numeric: &[usize], findings: &mut Vec<Finding>) {
    for column in (0..table.columns.len()).filter(|c| !numeric.contains(c)) {
        let name = normal(table.name(column));
        let asked = ["winner", "best", "fastest", "faster", "leader", "better"];
        if !name.split(' ').any(|word| asked.contains(&word)) {
            continue;
        }
        // The rows that name a column, with its place among the numbers.
        let mut named: Vec<NamedWinner> = Vec::new();
        for row in 0..table.rows.len() {
            let Some(cell) = table.cell(row, column).filter(|cell| !cell.noted) else {
                continue;
            };
            let text = normal(&cell.text);
            let like = |c: &&usize| {
                let header = normal(&header_unit(table.name(**c)).0);
                !text.is_empty() && (header == text || header.split(' ').any(|word| word == text))
            };
            let mut own = numeric.iter().filter(like);
            let (Some(own), None) = (own.next(), own.next()) else {
                continue;
            };
            let unit = |c: usize| header_unit(table.name(c)).1;
            let sides: Vec<(usize, f64)> = numeric
                .iter()
                .filter(|c| unit(**c) == unit(*own))
                .filter_map(|c| Some((*c, table.plain(row, *c)?.value)))
                .collect();
            if sides.len() >= 2 {
                named.push((row, *own, sides));
            }
        }
        if named.len() < 2 {
            continue;
        }
        let wins = |(_, own, sides): &NamedWinner, more: bool| {
            let value = sides
                .iter()
                .find(|side| side.0 == *own)
                .map_or(0.0, |side| side.1);
            !sides
                .iter()
                .any(|side| if more { side.1 > value } else { side.1 < value })
        };
        // The headers, the label of the row or the other rows show whether more is better.
        let header = direction(table.name(named[0].1)).or_else(|| direction(&table.title));
        let rows: BTreeMap<bool, usize> = [true, false]
            .into_iter()
            .map(|more| (more, named.iter().filter(|row| wins(row, more)).count()))
            .collect();
        let shown = rows
            .into_iter()
            .find(|(_, kept)| *kept + 1 >= named.len() && *kept >= 3);
        for row in &named {
            let way = direction(table.label(row.0))
                .or(header)
                .or(shown.map(|shown| shown.0));
            let Some(more) = way.filter(|more| !wins(row, *more)) else {
                continue;
            };
            let best = row
                .2
                .iter()
                .copied()
                .reduce(|a, b| if (b.1 > a.1) == more { b } else { a });
            let Some((best, _)) = best else { continue };
            let message = format!("`{}` has the better number of the row", table.name(best));
            findings.push(finding(
                table,
                (row.0, column),
                message,
                table.name(column),
                &[(row.0, row.1), (row.0, best)],
            ));
        }
    }
}

/// Checks whether a column of ranks follows the column that it orders, except for one pair of rows.
fn ranks(table: &Table, numeric: &[usize], findings: &mut Vec<Finding>) {
    let n = table.rows.len();
    for column in numeric {
        let name = normal(table.name(*column));
        let Some(ranks) = numbers(table, *column)
            .filter(|_| matches!(name.as_str(), "rank" | "place" | "position"))
        else {
            continue;
        };
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| ranks[*a].total_cmp(&ranks[*b]));
        let complete = order
            .iter()
            .enumerate()
            .all(|(i, row)| ranks[*row] == (i + 1) as f64);
        if n < 4 || !complete {
            continue;
        }
        // The steps that go the other way, for every column and direction.
        let mut broken: Vec<(usize, Vec<usize>)> = Vec::new();
        for other in numeric.iter().filter(|other| *other != column) {
            let Some(values) = numbers(table, *other) else {
                continue;
            };
            for sign in [1.0, -1.0] {
                let against =
                    (1..n).filter(|i| sign * (values[order[*i]] - values[order[*i - 1]]) < 0.0);
                broken.push((*other, against.collect()));
            }
        }
        let Some((other, against)) = broken.iter().min_by_key(|broken| broken.1.len()) else {
            continue;
        };
        let only = broken.iter().filter(|broken| broken.1.len() <= 1).count() == 1;
        if let ([step], true) = (against.as_slice(), only && n >= 5) {
            let (first, second) = (order[*step - 1], order[*step]);
            let message = format!(
                "the ranks follow `{}` in the other rows",
                table.name(*other)
            );
            findings.push(finding(
                table,
                (second, *column),
                message,
                "ranks",
                &[(first, *other), (second, *other)],
            ));
        }
    }
}
