//! R-QUANT: every, all, none and their bounds.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::shown;
use crate::rules::Rule;
use crate::rules::columns::{EXCEPTION, beside, named_columns, named_rows, same_size};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::names;
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        let near: Vec<&Table> = scope.report.tables_near(prose.section).collect();
        for &sentence in prose.sentences.iter().filter(|_| !near.is_empty()) {
            bounds(prose, sentence, &near, found);
            nulls(prose, sentence, &near, found);
        }
    }
}

static BOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<q>every|each|all|both|no|none|never)\b(?P<mid>[^.;:()]{1,90}?)\b(?P<op>exceeds?|exceeded|above|over|more than|greater than|higher than|at least|at or above|below|under|less than|lower than|fewer than|at most|at or below|within) (?P<a>[~≈]?)").expect("a regex")
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
        let Some(bound) = prose
            .numbers_in(here, end)
            .first()
            .filter(|n| n.start <= here + 1)
        else {
            continue;
        };
        // The words up to the next clause name the column.
        let rest = &prose.text[bound.end..end];
        let clause =
            &prose.text[start..bound.end + rest.find([',', ';', '(']).unwrap_or(rest.len())];
        let Some(table) = beside(prose, near) else {
            continue;
        };
        let columns: Vec<usize> = named_columns(table, clause)
            .into_iter()
            .filter(|&c| same_size(table, c, bound))
            .collect();
        if columns.is_empty() || columns.len() > 3 {
            continue;
        }
        let negative = matches!(
            quantifier.as_str().to_lowercase().as_str(),
            "no" | "none" | "never"
        );
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
                    contrary.push(table.evidence(row, column));
                }
            }
        }
        let all = columns
            .iter()
            .map(|&c| table.numbers(c).len())
            .sum::<usize>();
        // If most cells break it, the binding is wrong, not the sentence.
        if !contrary.is_empty() && contrary.len() * 2 <= all {
            let message = format!(
                "{} of {all} cells do not meet the bound {}",
                contrary.len(),
                shown(bound.value)
            );
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

static NULLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:every|all|the) (?P<l>[A-Za-z0-9_.\-]{3,30}) (?:rows?|cells?|entries|columns?) (?:(?:is|are|carry|carries|hold|holds|shows?|stay|stays)(?: all)?(?: an?)? ?(?:en-|em-)?(?:dash|dashes|null|nulls|empty|blank)|never (?:breaks?|fails?|saturates?))").expect("a regex")
});

/// "The long_decode rows are all dashes": the rows with that word in their label have no number.
fn nulls(prose: &Prose, (start, end): (usize, usize), near: &[&Table], found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    for captures in NULLS.captures_iter(sentence) {
        let (Some(whole), Some(label)) = (captures.get(0), captures.name("l")) else {
            continue;
        };
        for table in near {
            let rows: Vec<usize> = (0..table.rows.len())
                .filter(|&row| names(table.label(row), label.as_str()))
                .collect();
            let filled: Vec<usize> = rows
                .iter()
                .copied()
                .filter(|&row| {
                    table.rows[row]
                        .cells
                        .iter()
                        .skip(1)
                        .any(|cell| cell.value.is_some())
                })
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
            let message = format!(
                "{} of {} \"{}\" rows have a value",
                filled.len(),
                rows.len(),
                label.as_str()
            );
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
