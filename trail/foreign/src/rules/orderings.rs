//! R-WIN, R-MONO, R-RANK: counts of wins, monotone series, orderings.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, leading, shown};
use crate::rules::Rule;
use crate::rules::columns::{EXCEPTION, beside, named_columns, named_rows};
use crate::rules::ladder::ladder;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{names, number_word, position};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        let near: Vec<&Table> = scope.report.tables_near(prose.section).collect();
        for &sentence in &prose.sentences {
            wins(scope, prose, sentence, found);
            if !near.is_empty() {
                monotone(prose, sentence, &near, found);
                orders(prose, sentence, &near, found);
            }
        }
    }
}

static MONOTONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<v>increas|decreas|ris|fall|grow|declin|drop|descend)(?:es?|ing|s|ed)? (?:strictly )?monoton(?:ically|e|ic)|\bmonoton(?:ically|e|ic)(?:ally)? (?P<w>increas|decreas|ris|fall|grow|declin|drop|descend)").expect("a regex")
});

/// "Throughput rises monotonically": down a named column, or along the ladder.
fn monotone(
    prose: &Prose,
    (start, end): (usize, usize),
    near: &[&Table],
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    let Some(captures) = MONOTONE.captures(sentence) else {
        return;
    };
    let (Some(whole), Some(verb)) = (captures.get(0), captures.name("v").or(captures.name("w")))
    else {
        return;
    };
    let Some(table) = beside(prose, near).filter(|_| !EXCEPTION.is_match(sentence)) else {
        return;
    };
    let up = matches!(
        verb.as_str().to_lowercase().as_str(),
        "increas" | "ris" | "grow"
    );
    let broken = |a: &Quantity, b: &Quantity| {
        if up {
            b.value + b.half < a.value - a.half
        } else {
            b.value - b.half > a.value + a.half
        }
    };
    let mut contrary = Vec::new();
    let mut steps = 0;
    if let Some(ladder) = ladder(table) {
        let rows = named_rows(table, sentence);
        for row in (0..table.rows.len()).filter(|row| rows.is_empty() || rows.contains(row)) {
            for pair in ladder.levels.windows(2) {
                let (Some(a), Some(b)) = (table.value(row, pair[0].0), table.value(row, pair[1].0))
                else {
                    continue;
                };
                steps += 1;
                if broken(a, b) {
                    contrary.push(Evidence::new(
                        table.cell_place(row, pair[1].0),
                        format!("{} after {}", shown(b.value), shown(a.value)),
                    ));
                }
            }
        }
    } else {
        // The rows must be levels: numbers that rise.
        let levels: Vec<f64> = (0..table.rows.len())
            .filter_map(|row| leading(table.label(row)).map(|q| q.value))
            .collect();
        let columns = named_columns(table, sentence);
        if levels.len() < table.rows.len()
            || !levels.windows(2).all(|pair| pair[0] < pair[1])
            || columns.len() != 1
        {
            return;
        }
        for row in 1..table.rows.len() {
            let (Some(a), Some(b)) = (
                table.value(row - 1, columns[0]),
                table.value(row, columns[0]),
            ) else {
                continue;
            };
            steps += 1;
            if broken(a, b) {
                contrary.push(Evidence::new(
                    table.cell_place(row, columns[0]),
                    format!("{} after {}", shown(b.value), shown(a.value)),
                ));
            }
        }
    }
    if !contrary.is_empty() && contrary.len() * 2 <= steps {
        let message = format!("{} of {steps} steps go the other way", contrary.len());
        found.push(in_prose(
            prose,
            (start + whole.start(), start + whole.end()),
            (Rule::Mono, Confidence::Medium),
            message,
            contrary,
        ));
    }
}

static WINS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<e>[A-Za-z][A-Za-z0-9.\-]+) (?:wins|won|leads|is ahead)(?: [a-z]+)? (?:(?:across|on|in) (?P<all>all|every)\b|(?:on |in )?(?P<n>[0-9]+|[a-z]+) (?:of|out of) (?:the )?(?P<m>[0-9]+|[a-z]+)\b)").expect("a regex")
});

/// "X wins 5 of 8": the cells of the column of winners.
fn wins(scope: &Scope<'_>, prose: &Prose, (start, end): (usize, usize), found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    for captures in WINS.captures_iter(sentence) {
        let (Some(whole), Some(entity)) = (captures.get(0), captures.name("e")) else {
            continue;
        };
        let number = |name: &str| {
            captures
                .name(name)
                .and_then(|m| m.as_str().parse().ok().or_else(|| number_word(m.as_str())))
        };
        let near = scope
            .report
            .tables_near(prose.section)
            .filter(|table| table.section == prose.section || table.line < prose.line());
        let Some((table, column)) = near
            .filter_map(|table| {
                Some((
                    table,
                    (1..table.columns.len()).find(|&c| {
                        matches!(
                            table.columns[c].to_lowercase().as_str(),
                            "winner" | "best" | "faster" | "better" | "wins"
                        )
                    })?,
                ))
            })
            .last()
        else {
            continue;
        };
        let cells: Vec<&str> = table
            .rows
            .iter()
            .filter_map(|row| row.cells.get(column))
            .map(|cell| cell.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let won = cells
            .iter()
            .filter(|text| names(text, entity.as_str()))
            .count();
        if won == 0
            && !table
                .columns
                .iter()
                .any(|name| names(name, entity.as_str()))
        {
            continue;
        }
        let (won, all) = (
            u32::try_from(won).map_or(0.0, f64::from),
            u32::try_from(cells.len()).map_or(0.0, f64::from),
        );
        let wrong = match (captures.name("all"), number("n"), number("m")) {
            (Some(_), ..) => won < all,
            (None, Some(n), Some(m)) => m == all && n != won,
            _ => false,
        };
        if wrong {
            let evidence = table
                .rows
                .iter()
                .enumerate()
                .filter(|(_, row)| {
                    row.cells
                        .get(column)
                        .is_some_and(|cell| !names(&cell.text, entity.as_str()))
                })
                .map(|(row, cells)| {
                    Evidence::new(
                        table.cell_place(row, column),
                        cells.cells[column].text.clone(),
                    )
                })
                .collect();
            let message = format!(
                "{} wins {} of {} rows",
                entity.as_str(),
                shown(won),
                shown(all)
            );
            found.push(in_prose(
                prose,
                (start + whole.start(), start + whole.end()),
                (Rule::Win, Confidence::High),
                message,
                evidence,
            ));
        }
    }
}

/// "a > b > c": rows of the table beside it, in the order of some column.
fn orders(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    if sentence.matches(" > ").count() < 2 {
        return;
    }
    let Some(table) = beside(prose, near) else {
        return;
    };
    let parts: Vec<&str> = sentence.split(" > ").collect();
    let last = parts.len() - 1;
    let chain: Option<Vec<usize>> = parts
        .iter()
        .enumerate()
        .map(|(index, part)| {
            // The label is at the inner end of the first and last part.
            (0..table.rows.len())
                .filter(|&row| {
                    let label = table.label(row);
                    let at = position(part, label);
                    let room = part.len().saturating_sub(label.len());
                    at.is_some_and(|at| {
                        (index == 0 || at == 0)
                            && (index == last || at == room)
                            && !label.is_empty()
                    })
                })
                .max_by_key(|&row| table.label(row).len())
        })
        .collect();
    let Some(chain) = chain.filter(|chain| chain.len() >= 3) else {
        return;
    };
    let named = named_columns(table, sentence);
    let columns = if named.is_empty() {
        table.numeric_columns()
    } else {
        named
    };
    let holds = |column: usize| {
        let values: Option<Vec<f64>> = chain
            .iter()
            .map(|&row| table.value(row, column).map(|q| q.value))
            .collect();
        values.is_none_or(|v| {
            v.windows(2).all(|p| p[0] >= p[1]) || v.windows(2).all(|p| p[0] <= p[1])
        })
    };
    if columns.is_empty() || columns.iter().any(|&column| holds(column)) {
        return;
    }
    let evidence = chain
        .iter()
        .map(|&row| table.evidence(row, columns[0]))
        .collect();
    found.push(in_prose(
        prose,
        (start, end),
        (Rule::Rank, Confidence::Medium),
        "no column has this order".to_owned(),
        evidence,
    ));
}
