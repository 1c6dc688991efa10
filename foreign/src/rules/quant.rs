//! R-QUANT, R-ARGMAX, R-RANGE, R-WIN, R-MONO, R-RANK: words about all cells of a column.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, ranges, shown};
use crate::rules::Rule;
use crate::rules::compare::is_change;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::steps::ladder;
use crate::rules::words::{names, number_word, position, words};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    if scope.report.tables.is_empty() {
        return;
    }
    for prose in &scope.report.prose {
        let near: Vec<&Table> = scope.report.tables_near(prose.section).collect();
        for &sentence in &prose.sentences {
            across(scope, prose, sentence, found);
            wins(scope, prose, sentence, found);
            if near.is_empty() {
                continue;
            }
            bounds(prose, sentence, &near, found);
            superlatives(prose, sentence, &near, found);
            nulls(prose, sentence, &near, found);
            spans(prose, sentence, &near, found);
            monotone(prose, sentence, &near, found);
            orders(prose, sentence, &near, found);
        }
    }
}

/// The table a paragraph speaks of: the nearest before it in its own section, else the nearest after it.
fn beside<'a>(prose: &Prose, near: &[&'a Table]) -> Option<&'a Table> {
    let own = || near.iter().filter(|table| table.section == prose.section);
    own()
        .rfind(|table| table.line < prose.line())
        .or_else(|| own().find(|table| table.line > prose.line()))
        .copied()
}

/// Columns whose name stands in a text: as written, or all its words (two at least, or one with a digit).
fn named_columns(table: &Table, text: &str) -> Vec<usize> {
    let here = words(text);
    let candidates: Vec<usize> =
        table.numeric_columns().into_iter().filter(|&c| !table.columns[c].is_empty()).collect();
    candidates
        .into_iter()
        .filter(|&c| {
            let name = bare(&table.columns[c]);
            let own = words(&name);
            let special = own.len() >= 2
                || own.iter().any(|w| w.contains(|c: char| c.is_ascii_digit()))
                || name.len() >= 5;
            special && !own.is_empty() && (names(text, &name) || own.len() >= 2 && own.is_subset(&here))
        })
        .collect()
}

/// A column's name without its unit: `P95 TTFT (ms)` is `P95 TTFT`.
fn bare(name: &str) -> String {
    name.split(" (").next().unwrap_or(name).trim().to_owned()
}

/// Rows whose label, as a whole, stands in a text.
fn named_rows(table: &Table, text: &str) -> Vec<usize> {
    (0..table.rows.len()).filter(|&row| table.label(row).len() > 1 && names(text, table.label(row))).collect()
}

static BOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<q>every|each|all|both|no|none|never)\b(?P<mid>[^.;:()]{1,90}?)\b(?P<op>exceeds?|exceeded|above|over|more than|greater than|higher than|at least|at or above|below|under|less than|lower than|fewer than|at most|at or below|within) (?P<a>[~≈]?)").expect("a regex")
});
static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:except|other than|apart from|excluding|besides|but one|almost|nearly|most|save for|unless|if|would|should|target|SLO|goal|must)\b").expect("a regex")
});

/// "Every model stays above 0.57 at N=16", "no P95 TTFT exceeds 200 ms".
fn bounds(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    if EXCEPTION.is_match(sentence) {
        return;
    }
    for captures in BOUND.captures_iter(sentence) {
        let (Some(whole), Some(quantifier), Some(op)) =
            (captures.get(0), captures.name("q"), captures.name("op"))
        else {
            continue;
        };
        let here = start + whole.end();
        let Some(bound) = prose.numbers_in(here, end).first().filter(|n| n.start <= here + 1) else {
            continue;
        };
        // The words up to the next clause name the column.
        let rest = &prose.text[bound.end..end];
        let clause = &prose.text[start..bound.end + rest.find([',', ';', '(']).unwrap_or(rest.len())];
        let Some(table) = beside(prose, near) else { continue };
        let columns: Vec<usize> =
            named_columns(table, clause).into_iter().filter(|&c| same_size(table, c, bound)).collect();
        if columns.is_empty() || columns.len() > 3 {
            continue;
        }
        let negative = matches!(quantifier.as_str().to_lowercase().as_str(), "no" | "none" | "never");
        let word = op.as_str().to_lowercase();
        let upward = !matches!(
            word.as_str(),
            "below"
                | "under"
                | "less than"
                | "lower than"
                | "fewer than"
                | "at most"
                | "at or below"
                | "within"
        );
        if word == "within" || names(captures.name("mid").map_or("", |m| m.as_str()), "not") {
            continue;
        }
        let must_be_above = upward != negative;
        let subject = named_rows(table, sentence);
        let mut contrary = Vec::new();
        for &column in &columns {
            for (row, value) in table.numbers(column) {
                if !subject.is_empty() && !subject.contains(&row) {
                    continue;
                }
                let broken = if must_be_above {
                    value.value + value.half < bound.value - bound.half * 0.2
                } else {
                    value.value - value.half > bound.value + bound.half * 0.2
                };
                if broken {
                    contrary.push(Evidence::new(
                        table.cell_place(row, column),
                        table.rows[row].cells[column].text.clone(),
                    ));
                }
            }
        }
        let all = columns.iter().map(|&c| table.numbers(c).len()).sum::<usize>();
        // If most cells break it, the binding is wrong, not the sentence.
        if !contrary.is_empty() && contrary.len() * 2 <= all {
            let message =
                format!("{} of {all} cells do not keep the bound {}", contrary.len(), shown(bound.value));
            found.push(in_prose(
                prose,
                (start + whole.start(), bound.end),
                (Rule::Quant, Confidence::Medium),
                message,
                contrary,
            ));
        }
    }
}

/// Whether a number can be one of a column: same unit if both have one, same order of magnitude.
fn same_size(table: &Table, column: usize, number: &Quantity) -> bool {
    let values = table.numbers(column);
    let header = table.columns[column].to_lowercase();
    let unit = number.unit.is_empty()
        || values.iter().any(|(_, v)| v.unit == number.unit)
        || header.contains(&format!("({})", number.unit))
        || header.ends_with(&format!(" {}", number.unit));
    let (low, high) = values.iter().fold((f64::INFINITY, 0.0f64), |(low, high), (_, v)| {
        (low.min(v.value.abs()), high.max(v.value.abs()))
    });
    // A column of numbers with units says nothing about a bare number of other precision.
    unit && number.value.abs() >= low / 3.0 && number.value.abs() <= high * 3.0
}

static SUPERLATIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<w>highest|largest|greatest|maximum|most|lowest|smallest|minimum|fewest|best|worst|fastest|slowest)\b").expect("a regex")
});
static NARROWED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:second|next|third|among|within|for (?:its|each|this)|per|each|remaining|other|non|small|under|below|except|excluding|after|if)\b").expect("a regex")
});

/// "The highest throughput is 812 tok/s (mistral)": label and value are one cell; is it the extreme of its column?
fn superlatives(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    let Some(table) = beside(prose, near) else { return };
    for matched in SUPERLATIVE.captures_iter(sentence) {
        let (Some(whole), Some(word)) = (matched.get(0), matched.name("w")) else { continue };
        if sentence[..whole.start()].ends_with('-')
            || NARROWED.is_match(crate::number::tail(&sentence[..whole.start()]))
        {
            continue;
        }
        let after = &sentence[whole.end()..];
        let clause_end = after.find([';', ':']).unwrap_or(after.len());
        let clause_end = after.find(", ").map_or(clause_end, |at| at.min(clause_end)).min(after.len());
        let clause = &after[..clause_end];
        let rows = named_rows(table, clause);
        let [row] = rows.as_slice() else { continue };
        if NARROWED.is_match(clause) || SUPERLATIVE.is_match(clause) {
            continue;
        }
        let base = start + whole.end();
        let label_at = position(clause, table.label(*row)).unwrap_or(0);
        let numbers: Vec<&Quantity> = prose
            .numbers_in(base, base + clause_end)
            .iter()
            .filter(|n| (n.start - base).abs_diff(label_at) < 80)
            .collect();
        for number in numbers {
            let columns: Vec<usize> = table
                .numeric_columns()
                .into_iter()
                .filter(|&c| {
                    table.value(*row, c).is_some_and(|v| {
                        v.value == number.value
                            && (number.unit.is_empty() || v.unit == number.unit || v.unit.is_empty())
                    })
                })
                .collect();
            let [column] = columns.as_slice() else { continue };
            let here = number.value;
            let above: Vec<usize> =
                table.numbers(*column).iter().filter(|(_, v)| v.value > here).map(|v| v.0).collect();
            let below: Vec<usize> =
                table.numbers(*column).iter().filter(|(_, v)| v.value < here).map(|v| v.0).collect();
            let contrary = match word.as_str().to_lowercase().as_str() {
                "highest" | "largest" | "greatest" | "maximum" | "most" => above,
                "lowest" | "smallest" | "minimum" | "fewest" => below,
                // Which way is better is not known: it must be one of the ends.
                _ if above.is_empty() || below.is_empty() => Vec::new(),
                _ => above,
            };
            if !contrary.is_empty() {
                let evidence = contrary
                    .iter()
                    .map(|&r| {
                        Evidence::new(table.cell_place(r, *column), table.rows[r].cells[*column].text.clone())
                    })
                    .collect();
                let message = format!("\"{}\" is not the extreme of its column", table.label(*row));
                found.push(in_prose(
                    prose,
                    (start + whole.start(), number.end.max(base + label_at)),
                    (Rule::Argmax, Confidence::Medium),
                    message,
                    evidence,
                ));
            }
        }
    }
}

static NULLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:every|all|the) (?P<l>[A-Za-z0-9_.\-]{3,30}) (?:rows?|cells?|entries|columns?) (?:(?:is|are|carry|carries|hold|holds|shows?|stay|stays)(?: all)?(?: an?)? ?(?:en-|em-)?(?:dash|dashes|null|nulls|empty|blank)|never (?:breaks?|fails?|saturates?))").expect("a regex")
});

/// "The long_decode rows are all dashes": the rows with that word in their label have no number.
fn nulls(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    for captures in NULLS.captures_iter(sentence) {
        let (Some(whole), Some(label)) = (captures.get(0), captures.name("l")) else { continue };
        for table in near {
            let rows: Vec<usize> =
                (0..table.rows.len()).filter(|&row| names(table.label(row), label.as_str())).collect();
            let filled: Vec<usize> = rows
                .iter()
                .copied()
                .filter(|&row| table.rows[row].cells.iter().skip(1).any(|cell| cell.value.is_some()))
                .collect();
            // Only a table that writes such absences at all.
            if filled.is_empty()
                || rows.len() < 2
                || filled.len() * 2 > rows.len()
                || rows.len() == table.rows.len()
            {
                continue;
            }
            let evidence = filled
                .iter()
                .map(|&row| {
                    Evidence::new(
                        format!("line {}", table.rows[row].line),
                        table.rows[row]
                            .cells
                            .iter()
                            .map(|cell| cell.text.as_str())
                            .collect::<Vec<_>>()
                            .join(" | "),
                    )
                })
                .collect();
            let message =
                format!("{} of {} \"{}\" rows have a value", filled.len(), rows.len(), label.as_str());
            found.push(in_prose(
                prose,
                (start + whole.start(), start + whole.end()),
                (Rule::Quant, Confidence::High),
                message,
                evidence,
            ));
            break;
        }
    }
}

static ACROSS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^ ?(?:[a-z]+ ){0,3}?(?:across|on|in|for) (?:all|every|each) (?:of )?(?:the )?(?P<n>[a-z]+)\b",
    )
    .expect("a regex")
});

/// "24-37% across all metrics": a range over the column of changes of the table whose rows these are.
fn across(scope: &Scope<'_>, prose: &Prose, (start, end): (usize, usize), found: &mut Vec<Finding>) {
    for range in ranges(&prose.text, prose.numbers_in(start, end)) {
        let Some(captures) = ACROSS.captures(&prose.text[range.high.end..end]) else { continue };
        let Some(noun) = captures.name("n") else { continue };
        if !range.high.is_percent() {
            continue;
        }
        let wanted = words(noun.as_str());
        let mut tables = scope.report.tables_around(prose.line()).iter().filter_map(|table| {
            let label = words(table.columns.first()?);
            let change = (1..table.columns.len()).find(|&c| {
                is_change(&table.columns[c])
                    && table.numbers(c).iter().filter(|(_, v)| v.is_percent()).count() >= 3
            })?;
            (wanted.is_subset(&label)).then_some((table, change))
        });
        let (Some((table, column)), None) = (tables.next(), tables.next()) else { continue };
        let values: Vec<(usize, &Quantity)> = table.numbers(column);
        let outside: Vec<Evidence> = values
            .iter()
            .filter(|(_, v)| {
                v.value.abs() + v.half < range.low.value.abs() - range.low.half
                    || v.value.abs() - v.half > range.high.value.abs() + range.high.half
            })
            .map(|(row, _)| {
                Evidence::new(table.cell_place(*row, column), table.rows[*row].cells[column].text.clone())
            })
            .collect();
        if !outside.is_empty() {
            let message = format!("{} of {} rows lie outside the range", outside.len(), values.len());
            let end = range.high.end + captures.get(0).map_or(0, |m| m.end());
            found.push(in_prose(
                prose,
                (range.low.start, end),
                (Rule::Range, Confidence::High),
                message,
                outside,
            ));
        }
    }
}

static SPAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:ranges?|ranging|spans?|spanning|varies|vary|lies?|sits?|goes|stays?|between|from)(?: from| between)? ?[~≈]?$").expect("a regex")
});
static WHOLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\b(?:all|every|each|across)\b").expect("a regex"));

/// "P95 TTFT ranges from 120 to 340 ms across all models": least and greatest of the column.
fn spans(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    if !WHOLE.is_match(sentence) || EXCEPTION.is_match(sentence) {
        return;
    }
    let Some(table) = beside(prose, near) else { return };
    for range in ranges(&prose.text, prose.numbers_in(start, end)) {
        let before = &prose.text[start..range.low.start];
        if !SPAN.is_match(before) || !named_rows(table, sentence).is_empty() || range.low.rough {
            continue;
        }
        let columns: Vec<usize> = named_columns(table, sentence)
            .into_iter()
            .filter(|&c| same_size(table, c, &range.high))
            .collect();
        let [column] = columns.as_slice() else { continue };
        let values = table.numbers(*column);
        let least = values.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let greatest = values.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let (Some(least), Some(greatest)) = (least, greatest) else { continue };
        let agrees = |stated: &Quantity, value: &Quantity| {
            compare(stated, value.value - value.half, value.value + value.half) == Agreement::Agrees
        };
        let (low, high) = (agrees(&range.low, least.1), agrees(&range.high, greatest.1));
        // One end right, the other no cell at all: the column is bound, and the range is wrong.
        let cell = |stated: &Quantity| values.iter().any(|(_, v)| agrees(stated, v));
        if values.len() >= 3 && low != high && !(cell(&range.low) && cell(&range.high)) {
            let message = format!(
                "\"{}\" goes from {} to {}",
                table.columns[*column],
                shown(least.1.value),
                shown(greatest.1.value)
            );
            let evidence = [least, greatest]
                .map(|(row, _)| {
                    Evidence::new(
                        table.cell_place(*row, *column),
                        table.rows[*row].cells[*column].text.clone(),
                    )
                })
                .to_vec();
            found.push(in_prose(
                prose,
                (range.low.start, range.high.end),
                (Rule::Range, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

static MONOTONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<v>increas|decreas|ris|fall|grow|declin|drop|descend)(?:es?|ing|s|ed)? (?:strictly )?monoton(?:ically|e|ic)|\bmonoton(?:ically|e|ic)(?:ally)? (?P<w>increas|decreas|ris|fall|grow|declin|drop|descend)").expect("a regex")
});

/// "Throughput rises monotonically": down a named column, or along the ladder.
fn monotone(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    let Some(captures) = MONOTONE.captures(sentence) else { return };
    let (Some(whole), Some(verb)) = (captures.get(0), captures.name("v").or(captures.name("w"))) else {
        return;
    };
    let Some(table) = beside(prose, near).filter(|_| !EXCEPTION.is_match(sentence)) else { return };
    let up = matches!(verb.as_str().to_lowercase().as_str(), "increas" | "ris" | "grow");
    let broken = |a: &Quantity, b: &Quantity| {
        if up { b.value + b.half < a.value - a.half } else { b.value - b.half > a.value + a.half }
    };
    let mut contrary = Vec::new();
    let mut steps = 0;
    if let Some(ladder) = ladder(table) {
        let rows = named_rows(table, sentence);
        for row in (0..table.rows.len()).filter(|row| rows.is_empty() || rows.contains(row)) {
            for pair in ladder.levels.windows(2) {
                let (Some(a), Some(b)) = (table.value(row, pair[0].0), table.value(row, pair[1].0)) else {
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
            .filter_map(|row| crate::number::leading(table.label(row)).map(|q| q.value))
            .collect();
        let columns = named_columns(table, sentence);
        if levels.len() < table.rows.len()
            || !levels.windows(2).all(|pair| pair[0] < pair[1])
            || columns.len() != 1
        {
            return;
        }
        for row in 1..table.rows.len() {
            let (Some(a), Some(b)) = (table.value(row - 1, columns[0]), table.value(row, columns[0])) else {
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
        let (Some(whole), Some(entity)) = (captures.get(0), captures.name("e")) else { continue };
        let number = |name: &str| {
            captures.name(name).and_then(|m| m.as_str().parse().ok().or_else(|| number_word(m.as_str())))
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
        let won = cells.iter().filter(|text| names(text, entity.as_str())).count();
        if won == 0 && !table.columns.iter().any(|name| names(name, entity.as_str())) {
            continue;
        }
        let (won, all) =
            (u32::try_from(won).map_or(0.0, f64::from), u32::try_from(cells.len()).map_or(0.0, f64::from));
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
                    row.cells.get(column).is_some_and(|cell| !names(&cell.text, entity.as_str()))
                })
                .map(|(row, cells)| {
                    Evidence::new(table.cell_place(row, column), cells.cells[column].text.clone())
                })
                .collect();
            let message = format!("{} wins {} of {} rows", entity.as_str(), shown(won), shown(all));
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
    let Some(table) = beside(prose, near) else { return };
    let parts: Vec<&str> = sentence.split(" > ").collect();
    let last = parts.len() - 1;
    let chain: Option<Vec<usize>> = parts
        .iter()
        .enumerate()
        .map(|(index, part)| {
            // The label stands at the inner end of the first and last part.
            (0..table.rows.len())
                .filter(|&row| {
                    let label = table.label(row);
                    let at = position(part, label);
                    let room = part.len().saturating_sub(label.len());
                    at.is_some_and(|at| {
                        (index == 0 || at == 0) && (index == last || at == room) && !label.is_empty()
                    })
                })
                .max_by_key(|&row| table.label(row).len())
        })
        .collect();
    let Some(chain) = chain.filter(|chain| chain.len() >= 3) else { return };
    let named = named_columns(table, sentence);
    let columns = if named.is_empty() { table.numeric_columns() } else { named };
    let holds = |column: usize| {
        let values: Option<Vec<f64>> =
            chain.iter().map(|&row| table.value(row, column).map(|q| q.value)).collect();
        values.is_none_or(|v| v.windows(2).all(|p| p[0] >= p[1]) || v.windows(2).all(|p| p[0] <= p[1]))
    };
    if columns.is_empty() || columns.iter().any(|&column| holds(column)) {
        return;
    }
    let evidence = chain
        .iter()
        .map(|&row| {
            Evidence::new(table.cell_place(row, columns[0]), table.rows[row].cells[columns[0]].text.clone())
        })
        .collect();
    found.push(in_prose(
        prose,
        (start, end),
        (Rule::Rank, Confidence::Medium),
        "no column has this order".to_owned(),
        evidence,
    ));
}
