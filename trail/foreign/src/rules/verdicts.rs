//! R-COUNT, R-QUANT: what prose says of verdicts (`significant`, `directional`, `drifts`) against their column.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::shown;
use crate::rules::Rule;
use crate::rules::keys::keys;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{names, number_word, words};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        for &sentence in &prose.sentences {
            counts(scope, prose, sentence, found);
            ties(scope, prose, sentence, found);
        }
    }
}

static SHARE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<n>[0-9]{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|none|no) (?:of|out of) (?:the |these |its )?(?P<m>[0-9]{1,3}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) (?P<noun>[a-z\-]+)").expect("a regex")
});
static NEGATED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:not|without|neither|nor|n't|but|except)\b").expect("a regex")
});

static BOUNDED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:at least|at most|more than|fewer than|less than|over|up to) $")
        .expect("a regex")
});

/// Marks that say that a verdict holds.
const YES: &[&str] = &["yes", "true", "✓", "✅"];

/// A column of verdicts: the value that counts, and the word that stands for it in prose.
struct Verdicts<'a> {
    table: &'a Table,
    column: usize,
    values: BTreeSet<String>,
}

/// "Significant on 4 of 5 workloads": the rows of the table with that verdict.
fn counts(
    scope: &Scope<'_>,
    prose: &Prose,
    (start, end): (usize, usize),
    found: &mut Vec<Finding>,
) {
    let sentence = &prose.text[start..end];
    let claims: Vec<_> = SHARE.captures_iter(sentence).collect();
    let [captures] = claims.as_slice() else {
        return;
    };
    let number = |name: &str| -> Option<f64> {
        let text = captures.name(name)?.as_str();
        if matches!(text.to_lowercase().as_str(), "no" | "none") {
            return Some(0.0);
        }
        text.parse().ok().or_else(|| number_word(text))
    };
    let (Some(stated), Some(whole), Some(noun), Some(all)) = (
        number("n"),
        number("m"),
        captures.name("noun"),
        captures.get(0),
    ) else {
        return;
    };
    // Bounds on the count are judged with the quantifiers.
    if NEGATED.is_match(sentence) || BOUNDED.is_match(&sentence[..all.start()]) {
        return;
    }
    let noun = words(noun.as_str());
    let mut contrary = Vec::new();
    for table in scope.report.tables_around(prose.line()) {
        let rows = u32::try_from(table.rows.len()).map_or(0.0, f64::from);
        let named = words(table.columns.first().map_or("", String::as_str));
        if rows != whole {
            continue;
        }
        for verdicts in verdicts(table, sentence) {
            // Of rows with another name only by a verdict that is beside the count (`2 of 8 hosts drift`).
            let after = sentence[all.end()..].to_lowercase();
            let beside = |value: &String| after.find(value.as_str()).is_some_and(|at| at < 30);
            let own = noun.is_subset(&named)
                || verdicts.values.iter().any(beside) && !noun.contains("rows");
            if !own {
                continue;
            }
            let met = |row: &usize| {
                table.rows[*row]
                    .cells
                    .get(verdicts.column)
                    .is_some_and(|cell| verdicts.values.contains(&cell.text.to_lowercase()))
            };
            let rows: Vec<usize> = (0..table.rows.len()).filter(met).collect();
            if u32::try_from(rows.len()).map_or(0.0, f64::from) == stated {
                return;
            }
            contrary.push((verdicts.table, verdicts.column, rows));
        }
    }
    let Some((table, column, rows)) = contrary.into_iter().next() else {
        return;
    };
    let message = format!(
        "{} of {} rows, not {}",
        rows.len(),
        table.rows.len(),
        shown(stated)
    );
    let evidence = (0..table.rows.len())
        .take(12)
        .map(|row| table.evidence(row, column))
        .collect();
    let span = (start + all.start(), start + all.end());
    found.push(in_prose(
        prose,
        span,
        (Rule::Count, Confidence::Medium),
        message,
        evidence,
    ));
}

/// The columns of verdicts that a sentence speaks of: by a value (`directional`), or by the name of a column of
/// yes and no (`Significant`).
fn verdicts<'a>(table: &'a Table, sentence: &str) -> Vec<Verdicts<'a>> {
    let mut found = Vec::new();
    let keys = keys(table).unwrap_or_default();
    for column in (1..table.columns.len()).filter(|column| !keys.contains(column)) {
        let values: BTreeSet<String> = table
            .rows
            .iter()
            .filter_map(|row| row.cells.get(column))
            .filter(|cell| cell.value.is_none())
            .map(|cell| cell.text.to_lowercase())
            .collect();
        if !(2..=6).contains(&values.len()) || values.iter().any(|value| value.len() > 30) {
            continue;
        }
        let yes: BTreeSet<String> = values
            .iter()
            .filter(|v| YES.contains(&v.as_str()))
            .cloned()
            .collect();
        let name = words(&table.columns[column]);
        let values: BTreeSet<String> = if yes.is_empty() {
            values
                .into_iter()
                .filter(|value| value.len() >= 5 && names(sentence, value))
                .collect()
        } else if name
            .iter()
            .any(|word| word.len() >= 6 && words(sentence).contains(word))
        {
            yes
        } else {
            continue;
        };
        if values.len() == 1 {
            found.push(Verdicts {
                table,
                column,
                values,
            });
        }
    }
    found
}

static TIE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:near[- ]identical|indistinguishable|(?:statistically )?equivalent|no significant difference|statistically tied) (?:on|for|in|across) (?P<what>[^.;,—()]{3,60}?)(?: and (?:diverge|differ|pull|split|part)|[.;,—()]|$)").expect("a regex")
});
static SIGNIFICANT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\bsig").expect("a regex"));

/// "Near-identical on decode traffic": the rows of that name are not marked significant.
fn ties(scope: &Scope<'_>, prose: &Prose, (start, end): (usize, usize), found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    for captures in TIE.captures_iter(sentence) {
        let (Some(whole), Some(what)) = (captures.get(0), captures.name("what")) else {
            continue;
        };
        let subjects: BTreeSet<String> = words(what.as_str())
            .into_iter()
            .filter(|word| word.len() >= 5)
            .collect();
        let mut contrary = Vec::new();
        for table in scope.report.tables_around(prose.line()) {
            if table.rows.len() < 3 || table.rows.len() > 60 || !SIGNIFICANT.is_match(&table.header)
            {
                continue;
            }
            for (row, cells) in table.rows.iter().enumerate() {
                let label = words(&table.label(row).replace('_', " "));
                let marked = cells
                    .cells
                    .iter()
                    .position(|cell| YES.contains(&cell.text.to_lowercase().as_str()));
                if let Some(column) =
                    marked.filter(|_| label.intersection(&subjects).next().is_some())
                {
                    contrary.push(Evidence::new(
                        format!("line {}, \"{}\"", cells.line, table.label(row)),
                        format!("significant: {}", cells.cells[column].text),
                    ));
                }
            }
            if !contrary.is_empty() {
                break;
            }
        }
        if !contrary.is_empty() {
            let message = format!(
                "{} rows of that name are marked significant",
                contrary.len()
            );
            let span = (start + whole.start(), start + whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Quant, Confidence::Medium),
                message,
                contrary,
            ));
        }
    }
}
