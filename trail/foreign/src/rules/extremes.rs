//! R-ARGMAX, R-RANGE: superlatives, and ranges over a column.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, ranges, shown};
use crate::rules::Rule;
use crate::rules::columns::{EXCEPTION, beside, named_columns, named_rows, same_size};
use crate::rules::compare::is_change;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{position, words};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        let near: Vec<&Table> = scope.report.tables_near(prose.section).collect();
        for &sentence in &prose.sentences {
            across(scope, prose, sentence, found);
            if !near.is_empty() {
                superlatives(prose, sentence, &near, found);
                spans(prose, sentence, &near, found);
            }
        }
    }
}

static SUPERLATIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<w>highest|largest|greatest|maximum|most|lowest|smallest|minimum|fewest|best|worst|fastest|slowest)\b").expect("a regex")
});
static NARROWED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:second|next|third|among|within|for (?:its|each|this)|per|each|remaining|other|non|small|under|below|except|excluding|after|if)\b").expect("a regex")
});

/// "The highest throughput is 812 tok/s (mistral)": label and value are one cell; is it the extreme of its column?
fn superlatives(
    prose: &Prose,
    (start, end): (usize, usize),
    near: &[&Table],
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    let Some(table) = beside(prose, near) else {
        return;
    };
    for matched in SUPERLATIVE.captures_iter(sentence) {
        let (Some(whole), Some(word)) = (matched.get(0), matched.name("w")) else {
            continue;
        };
        if sentence[..whole.start()].ends_with('-')
            || NARROWED.is_match(crate::number::tail(&sentence[..whole.start()]))
        {
            continue;
        }
        let after = &sentence[whole.end()..];
        let clause_end = after.find([';', ':']).unwrap_or(after.len());
        let clause_end = after
            .find(", ")
            .map_or(clause_end, |at| at.min(clause_end))
            .min(after.len());
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
                            && (number.unit.is_empty()
                                || v.unit == number.unit
                                || v.unit.is_empty())
                    })
                })
                .collect();
            let [column] = columns.as_slice() else {
                continue;
            };
            let here = number.value;
            let above: Vec<usize> = table
                .numbers(*column)
                .iter()
                .filter(|(_, v)| v.value > here)
                .map(|v| v.0)
                .collect();
            let below: Vec<usize> = table
                .numbers(*column)
                .iter()
                .filter(|(_, v)| v.value < here)
                .map(|v| v.0)
                .collect();
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
                    .map(|&r| table.evidence(r, *column))
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

static ACROSS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^ ?(?:[a-z]+ ){0,3}?(?:across|on|in|for) (?:all|every|each) (?:of )?(?:the )?(?P<n>[a-z]+)\b",
    )
    .expect("a regex")
});

/// "24-37% across all metrics": a range over the column of changes of the table whose rows these are.
fn across(
    scope: &Scope<'_>,
    prose: &Prose,
    (start, end): (usize, usize),
    found: &mut Vec<Finding>,
) {
    for range in ranges(&prose.text, prose.numbers_in(start, end)) {
        let Some(captures) = ACROSS.captures(&prose.text[range.high.end..end]) else {
            continue;
        };
        let Some(noun) = captures.name("n") else {
            continue;
        };
        if !range.high.is_percent() {
            continue;
        }
        let wanted = words(noun.as_str());
        let mut tables = scope
            .report
            .tables_around(prose.line())
            .iter()
            .filter_map(|table| {
                let label = words(table.columns.first()?);
                let change = (1..table.columns.len()).find(|&c| {
                    is_change(&table.columns[c])
                        && table
                            .numbers(c)
                            .iter()
                            .filter(|(_, v)| v.is_percent())
                            .count()
                            >= 3
                })?;
                (wanted.is_subset(&label)).then_some((table, change))
            });
        let (Some((table, column)), None) = (tables.next(), tables.next()) else {
            continue;
        };
        let values: Vec<(usize, &Quantity)> = table.numbers(column);
        let outside: Vec<Evidence> = values
            .iter()
            .filter(|(_, v)| {
                v.value.abs() + v.half < range.low.value.abs() - range.low.half
                    || v.value.abs() - v.half > range.high.value.abs() + range.high.half
            })
            .map(|(row, _)| table.evidence(*row, column))
            .collect();
        if !outside.is_empty() {
            let message = format!(
                "{} of {} rows lie outside the range",
                outside.len(),
                values.len()
            );
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
    let Some(table) = beside(prose, near) else {
        return;
    };
    for range in ranges(&prose.text, prose.numbers_in(start, end)) {
        let before = &prose.text[start..range.low.start];
        if !SPAN.is_match(before) || !named_rows(table, sentence).is_empty() || range.low.rough {
            continue;
        }
        let columns: Vec<usize> = named_columns(table, sentence)
            .into_iter()
            .filter(|&c| same_size(table, c, &range.high))
            .collect();
        let [column] = columns.as_slice() else {
            continue;
        };
        let values = table.numbers(*column);
        let least = values.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let greatest = values.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let (Some(least), Some(greatest)) = (least, greatest) else {
            continue;
        };
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
                .map(|(row, _)| table.evidence(*row, *column))
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
