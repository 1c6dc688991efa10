//! The word check: quantifiers, superlatives and similar words are allowed only where a statement over the rows
//! licenses them, where a premise gives the reason, or where they are declared.

use std::ops::Range;

use super::seen::Seen;
use super::{Outcome, covers, finding_of, holds, literal_span, occurrences, overlaps, places};
use crate::settings::Literal;
use crate::statement::{
    FREE, Outcome as Became, Recorded, checked, is_checked_before_number, licenses as allows,
};
use crate::trace::{Enclosed, Extracted};

const UNLICENSED: &str =
    "a word that makes a claim about the rows, without a statement that checks it";
const OTHER_WORDS: &str = "the statement around it does not check this word";
const STATE: &str = "wrap the sentence in a statement (`{% call every(…) %}…{% endcall %}`; \
                     docs/number-check.md lists the words of each), give the reason why it holds \
                     without data (`{% call premise(\"…\") %}`), or declare it under `literals:`";

/// Checks the words of a rendered text.
pub(crate) fn check_words(
    extracted: &Extracted,
    recorded: &[Recorded],
    literals: &[Literal],
) -> Outcome {
    let markdown = &extracted.markdown;
    let exempt = places::exempt(markdown);
    let declared = occurrences(markdown, literals);
    let mut used = vec![false; declared.len()];
    let mut outcome = Outcome::default();
    let mut statements: Vec<&Enclosed> = extracted.statements.iter().collect();
    statements.sort_by_key(|s| s.bytes.start);
    let mut coming = statements.into_iter().peekable();
    // The statements around the word: begun before it and not yet ended.
    let mut open: Vec<&Enclosed> = Vec::new();
    for (range, word) in all_words(markdown) {
        while let Some(statement) = coming.next_if(|s| s.bytes.start <= range.start) {
            open.push(statement);
        }
        open.retain(|s| s.bytes.end > range.start);
        let after = extracted
            .spans
            .partition_point(|s| s.bytes.end <= range.start);
        let span = extracted
            .spans
            .get(after)
            .filter(|s| holds(&s.bytes, &range));
        if span.is_some() || covers(&exempt.everything, &range) || covers(&exempt.words, &range) {
            continue;
        }
        if is_checked_before_number(word) && !precedes_number(extracted, range.end) {
            continue;
        }
        let around = open.iter().filter(|s| holds(&s.bytes, &range));
        let around: Vec<&Recorded> = around.filter_map(|s| recorded.get(s.statement)).collect();
        if around.iter().any(|s| licenses(s, word)) {
            continue;
        }
        match declared
            .iter()
            .position(|(literal, _)| holds(literal, &range))
        {
            Some(at) => used[at] = true,
            None => {
                let reason = if around.is_empty() {
                    UNLICENSED
                } else {
                    OTHER_WORDS
                };
                outcome
                    .findings
                    .push(finding_of(markdown, &range, reason, STATE));
            }
        }
    }
    for ((range, literal), _) in declared.iter().zip(&used).filter(|(_, used)| **used) {
        outcome
            .literals
            .push(literal_span(markdown, range, literal));
    }
    outcome
}

/// The words of the Markdown that need a licence, and those that only its visible text has.
fn all_words(markdown: &str) -> Vec<(Range<usize>, &'static str)> {
    let mut words = checked(markdown);
    let ranges: Vec<Range<usize>> = words.iter().map(|(range, _)| range.clone()).collect();
    let seen = Seen::read(markdown);
    let hidden = checked(&seen.text).into_iter();
    let hidden = hidden.filter_map(|(range, word)| Some((seen.source(&range)?, word)));
    words.extend(hidden.filter(|(range, _)| !overlaps(&ranges, range)));
    words.sort_by_key(|(range, _)| range.start);
    words
}

fn licenses(statement: &Recorded, word: &str) -> bool {
    match (&statement.rule, statement.outcome) {
        (None, _) => true,
        // What an alternative denies was checked when the alternative was rendered.
        (Some(rule), Became::Alternative) => allows(rule, word) && !FREE.contains(&word),
        (Some(rule), _) => allows(rule, word),
    }
}

/// Whether a traced number comes next.
fn precedes_number(extracted: &Extracted, end: usize) -> bool {
    let rest = &extracted.markdown[end..];
    let skipped = rest.len()
        - rest
            .trim_start_matches(|c: char| {
                c.is_whitespace() || matches!(c, '*' | '[' | '+' | '−' | '<')
            })
            .len();
    let at = end + skipped;
    let after = extracted.spans.partition_point(|s| s.bytes.start < end);
    let mut near = extracted.spans[after..]
        .iter()
        .take_while(|s| s.bytes.start <= at);
    near.any(|s| s.entry.text.chars().any(char::is_numeric))
}
