//! The word check: quantifiers, superlatives and their like stand only where a statement over
//! the rows licenses them, where a premise gives the reason, or where they are declared.

use std::ops::Range;

use super::{Outcome, finding_of, holds, literal_span, occurrences, places};
use crate::settings::Literal;
use crate::statement::{FREE, Outcome as Became, Recorded, allows, checked, is_checked_before_number};
use crate::trace::{Extracted, Source};

const UNLICENSED: &str = "a word that is true or false of the rows, without a statement that checks it";
const OTHER_WORDS: &str = "the statement around it checks something else";
const STATE: &str = "wrap the sentence in a statement (`{% call every(…) %}…{% endcall %}`, see docs/number-check.md \
                     for the words each licenses), give the reason why it holds without data \
                     (`{% call premise(\"…\") %}`), or declare it under `literals:`";

/// Checks the words of a rendered text.
pub(crate) fn check_words(extracted: &Extracted, recorded: &[Recorded], literals: &[Literal]) -> Outcome {
    let markdown = &extracted.markdown;
    let exempt = places::exempt(markdown);
    let declared = occurrences(markdown, literals);
    let mut used = vec![false; declared.len()];
    let mut outcome = Outcome::default();
    for (range, word) in checked(markdown) {
        let traced =
            extracted.spans.iter().any(|s| holds(&s.bytes, &range) && s.entry.source != Source::Literal);
        let left_out =
            |ranges: &[Range<usize>]| ranges.iter().any(|e| e.start <= range.start && range.end <= e.end);
        if traced || left_out(&exempt.everything) || left_out(&exempt.words) {
            continue;
        }
        if is_checked_before_number(word) && !precedes_number(extracted, range.end) {
            continue;
        }
        let around: Vec<&Recorded> = extracted
            .statements
            .iter()
            .filter(|s| holds(&s.bytes, &range))
            .filter_map(|s| recorded.get(s.statement))
            .collect();
        if around.iter().any(|s| licenses(s, word)) {
            continue;
        }
        match declared.iter().position(|(literal, _)| holds(literal, &range)) {
            Some(at) => used[at] = true,
            None => {
                let reason = if around.is_empty() { UNLICENSED } else { OTHER_WORDS };
                outcome.findings.push(finding_of(markdown, &range, reason, STATE));
            }
        }
    }
    for ((range, literal), _) in declared.iter().zip(&used).filter(|(_, used)| **used) {
        outcome.literals.push(literal_span(markdown, range, literal));
    }
    outcome
}

fn licenses(statement: &Recorded, word: &str) -> bool {
    match (&statement.rule, statement.outcome) {
        (None, _) => true,
        // What an alternative denies was checked when it was rendered.
        (Some(rule), Became::Alternative) => allows(rule.word(), word) && !FREE.contains(&word),
        (Some(rule), _) => allows(rule.word(), word),
    }
}

/// Whether the next thing is a traced number.
fn precedes_number(extracted: &Extracted, end: usize) -> bool {
    let rest = &extracted.markdown[end..];
    let skipped = rest.len()
        - rest
            .trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '[' | '+' | '−' | '<'))
            .len();
    let at = end + skipped;
    extracted
        .spans
        .iter()
        .any(|s| (end..=at).contains(&s.bytes.start) && s.entry.text.chars().any(char::is_numeric))
}
