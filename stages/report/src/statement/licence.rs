//! The words that need a licence, and the rules that grant it.
//!
//! `docs/number-check.md` has this table for readers; a test compares the two.

use std::ops::Range;

use contract::Better;

use super::rule::{Rule, RuleKind};
use crate::check::letter_runs;

const EVERY: &[RuleKind] = &[
    RuleKind::Every,
    RuleKind::NoRow,
    RuleKind::Exactly,
    RuleKind::Consistent,
    RuleKind::Between,
    RuleKind::Within,
    RuleKind::Monotone,
    RuleKind::Different,
    RuleKind::Equivalent,
    RuleKind::NoEvidence,
    RuleKind::NotWorse,
];
const MOST: &[RuleKind] = &[RuleKind::Largest, RuleKind::Steepest, RuleKind::Smallest];

/// Words and the rules that allow them, with plurals and adverbs written out.
pub(crate) const WORDS: &[(&[&str], &[RuleKind])] = &[
    (
        &[
            "every",
            "everywhere",
            "everything",
            "all",
            "always",
            "without exception",
            "invariably",
        ],
        EVERY,
    ),
    (
        &["both"],
        &[
            RuleKind::Every,
            RuleKind::NoRow,
            RuleKind::Exactly,
            RuleKind::Consistent,
            RuleKind::AtLeast,
        ],
    ),
    (
        &["none", "never", "neither", "nowhere", "not one"],
        &[RuleKind::NoRow],
    ),
    (
        &["only", "solely", "exclusively", "the one", "uniquely"],
        &[RuleKind::OnlyThese, RuleKind::Exactly, RuleKind::AtMost],
    ),
    (
        &["most", "majority", "mostly"],
        &[RuleKind::AtLeast, RuleKind::Largest],
    ),
    (
        &["at least"],
        &[RuleKind::AtLeast, RuleKind::Every, RuleKind::Between],
    ),
    (
        &["at most", "no more than"],
        &[RuleKind::AtMost, RuleKind::Every, RuleKind::Between],
    ),
    (
        &["exactly"],
        &[RuleKind::Exactly, RuleKind::OnlyThese, RuleKind::Holds],
    ),
    (
        &[
            "largest", "highest", "greatest", "biggest", "longest", "maximum",
        ],
        &[RuleKind::Largest, RuleKind::Between],
    ),
    (
        &["smallest", "lowest", "shortest", "fewest", "minimum"],
        &[RuleKind::Smallest, RuleKind::Between],
    ),
    (&["best", "worst", "fastest", "slowest"], MOST),
    (&["steepest", "sharpest"], &[RuleKind::Steepest]),
    (
        &["between", "ranges from", "range from", "spans"],
        &[RuleKind::Between],
    ),
    (&["within", "near-identical"], &[RuleKind::Within]),
    (
        &[
            "identical",
            "identically",
            "indistinguishable",
            "the same as",
        ],
        &[RuleKind::Within, RuleKind::Every],
    ),
    (
        &[
            "monotone",
            "monotonic",
            "monotonically",
            "monotonously",
            "steadily",
        ],
        &[RuleKind::Monotone],
    ),
    (
        &[
            "consistent",
            "consistently",
            "uniform",
            "uniformly",
            "across the board",
        ],
        &[RuleKind::Consistent, RuleKind::Every],
    ),
    (
        &["significant", "significantly", "insignificant"],
        &[RuleKind::Different, RuleKind::NoEvidence],
    ),
    (&["no evidence"], &[RuleKind::NoEvidence]),
    // A study that found nothing has not shown that there is nothing.
    (&["no difference", "no effect"], &[RuleKind::Equivalent]),
    (
        &["no worse", "no slower", "not inferior", "no regression"],
        &[RuleKind::NotWorse, RuleKind::Equivalent],
    ),
];

/// Comparatives. Every rule allows them, but without a rule they are refused.
pub(crate) const FREE: &[&str] = &[
    "faster",
    "slower",
    "better",
    "worse",
    "higher",
    "lower",
    "superior",
    "inferior",
    "outperform",
    "outperforms",
    "outperformed",
    "beats",
];

/// Words that are checked only before a traced number; elsewhere they are prepositions.
const BEFORE_NUMBER: &[&str] = &[
    "between",
    "within",
    "at least",
    "at most",
    "no more than",
    "exactly",
    "spans",
    "ranges from",
    "range from",
];

/// Phrases that state which direction is good, and nothing about any row: "lower is better".
const ORIENTATIONS: &[&str] = &[
    "more is better",
    "less is better",
    "higher is better",
    "lower is better",
    "longer is better",
    "shorter is better",
    "faster is better",
    "fewer is better",
];

/// Words that turn a licensed word into its denial, for declared alternatives.
const DENIALS: &[&str] = &[
    "not", "no", "nor", "neither", "without", "cannot", "never", "none", "fails",
];

/// Words that turn a denial before them into an assertion: *no doubt*, *without exception*.
const AFFIRMING: [&str; 8] = [
    "doubt",
    "doubts",
    "question",
    "wonder",
    "surprise",
    "surprisingly",
    "exception",
    "exceptions",
];

/// Returns whether a rule allows a word.
pub(crate) fn allows(rule: RuleKind, word: &str) -> bool {
    FREE.contains(&word)
        || WORDS
            .iter()
            .any(|(words, rules)| words.contains(&word) && rules.contains(&rule))
}

/// Whether a rule allows a word. Of a metric of the load generator, *fastest* is the better end.
pub(crate) fn licenses(rule: &Rule, word: &str) -> bool {
    allows(rule.kind(), word) && !is_other_end(rule, word)
}

/// Whether a superlative names the other end of a metric than its rule.
fn is_other_end(rule: &Rule, word: &str) -> bool {
    let (column, end) = match rule {
        Rule::Largest(r) => (&r.column, Better::Higher),
        Rule::Smallest(r) => (&r.column, Better::Lower),
        _ => return false,
    };
    let is_good = match word {
        "best" | "fastest" => true,
        "worst" | "slowest" => false,
        _ => return false,
    };
    better_of_metric(column).is_some_and(|better| (better == end) != is_good)
}

/// Returns which values of a metric of the load generator are better, by the name of its column. Columns that compare two
/// values, such as ratios, have no better end.
pub(crate) fn better_of_metric(column: &str) -> Option<Better> {
    let compares = ["_ratio", "_delta", "_multiplier", "_change"];
    if compares.iter().any(|part| column.contains(part)) {
        return None;
    }
    let is_rate = ["output_throughput", "request_throughput"]
        .iter()
        .any(|name| column.starts_with(name));
    let unit = match is_rate {
        true => Some("tok/s"),
        false => column.contains("_ms").then_some("ms"),
    };
    Better::of_metric(column, unit)
}

/// Whether a word says that there is nothing: no difference, nothing worse.
pub(crate) fn needs_proof(word: &str) -> bool {
    matches!(
        word,
        "no difference" | "no effect" | "no worse" | "no slower" | "not inferior" | "no regression"
    )
}

/// Whether a word is checked only before a traced number.
pub(crate) fn is_checked_before_number(word: &str) -> bool {
    BEFORE_NUMBER.contains(&word)
}

/// Returns the words of a text that need a licence, in order, with the longest match at each place.
pub(crate) fn checked(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let runs = runs(text);
    let mut words = Vec::new();
    let mut at = 0;
    while at < runs.len() {
        let orientation = ORIENTATIONS
            .iter()
            .find_map(|text_| phrase(text, &runs[at..], text_));
        if let Some((count, _)) = orientation {
            at += count;
            continue;
        }
        // A word followed by a hyphen is part of a name: `all-reduce`, `best-effort`.
        let longest = known_words()
            .filter_map(|word| Some((phrase(text, &runs[at..], word)?, word)))
            .max_by_key(|((count, _), word)| (*count, word.len()));
        match longest {
            Some(((count, range), word)) if !hyphenated(text, &range) => {
                words.push((range, word));
                at += count;
            }
            _ => at += 1,
        }
    }
    words
}

/// Whether a text contains a denial: declared alternatives may only deny.
pub(crate) fn denies(text: &str) -> bool {
    let words = runs(text).into_iter().map(|r| text[r].to_lowercase());
    let words: Vec<String> = words.collect();
    words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).map_or("", String::as_str);
        DENIALS.contains(&&**word) && !AFFIRMING.contains(&next)
    })
}

/// Returns the first word that needs a licence and that no denial precedes in its sentence.
pub(crate) fn asserted(text: &str) -> Option<&'static str> {
    let words = checked(text).into_iter().enumerate();
    let mut words = words.filter(|(at, (_, word))| *at == 0 || !is_checked_before_number(word));
    let asserts = |range: &Range<usize>| {
        let before = &text[..range.start];
        let ends = before.match_indices(['.', '!', '?', '\n']);
        // A lower-case letter goes on after an abbreviation.
        let mut ends = ends.map(|(at, _)| at + 1).filter(|end| {
            let after = &text[*end..];
            let next = after.trim_start().chars().next();
            before[*end - 1..].starts_with('\n')
                || after.starts_with(char::is_whitespace) && !next.is_some_and(char::is_lowercase)
        });
        !denies(&before[ends.next_back().unwrap_or(0)..])
    };
    words
        .find(|(_, (range, _))| asserts(range))
        .map(|(_, (_, word))| word)
}

fn known_words() -> impl Iterator<Item = &'static str> {
    WORDS
        .iter()
        .flat_map(|(words, _)| words.iter().copied())
        .chain(FREE.iter().copied())
}

/// Matches a phrase at the beginning of the runs: the number of runs, and the range.
fn phrase(text: &str, runs: &[Range<usize>], phrase: &str) -> Option<(usize, Range<usize>)> {
    let mut count = 0;
    for part in phrase.split(' ') {
        let run = runs.get(count)?;
        if !text[run.clone()].eq_ignore_ascii_case(part) {
            return None;
        }
        if count > 0
            && !text[runs[count - 1].end..run.start]
                .chars()
                .all(|c| c.is_whitespace() || c == '*')
        {
            return None;
        }
        count += 1;
    }
    Some((count, runs[0].start..runs[count - 1].end))
}

fn hyphenated(text: &str, range: &Range<usize>) -> bool {
    let mut after = text[range.end..].chars();
    matches!(after.next(), Some('-' | '\u{2011}' | '_'))
        && after.next().is_some_and(char::is_alphabetic)
        || text[..range.start].ends_with('_')
}

/// Runs of letters; `near-identical` is one run.
fn runs(text: &str) -> Vec<Range<usize>> {
    let mut words = letter_runs(text);
    let mut at = 1;
    while at < words.len() {
        let joined = words[at - 1].start..words[at].end;
        if text[joined.clone()].eq_ignore_ascii_case("near-identical") {
            words.splice(at - 1..=at, [joined]);
        }
        at += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&'static str> {
        checked(text).into_iter().map(|(_, word)| word).collect()
    }

    #[test]
    fn words_and_phrases_are_found_in_any_case() {
        assert_eq!(
            words("Every cell, without exception, is *faster*."),
            ["every", "without exception", "faster"]
        );
        assert_eq!(
            words("NO\n  EVIDENCE of it; near-identical"),
            ["no evidence", "near-identical"]
        );
        assert_eq!(words("the only one"), ["only"]);
    }

    #[test]
    fn names_and_other_words_are_not() {
        for text in [
            "all-reduce",
            "Lower is better.",
            "best-effort",
            "allow",
            "evermore",
            "almost",
            "time_between_tokens",
        ] {
            assert_eq!(words(text), Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn a_denial_holds_for_its_sentence() {
        for text in [
            "Not every curve falls: 3 of 4 do.",
            "It does not fall monotonically. Some step raises it.",
            "It is not only long-prefill.",
            "The data support no statement about all engines, e.g. about both of these.",
            "It cannot be shown that alpha is above it everywhere.",
            "Some rows have another source.",
        ] {
            assert_eq!(asserted(text), None, "{text}");
        }
        for (text, word) in [
            ("Serial fails. It is always so.", "always"),
            ("No doubt it is always so.", "always"),
            ("Without doubt, all of them.", "all"),
            ("Not every cell.\nAll of them.", "all"),
            ("There is no exception: it holds everywhere.", "everywhere"),
        ] {
            assert_eq!(asserted(text), Some(word), "{text}");
        }
    }

    #[test]
    fn the_documentation_lists_each_word() {
        let page = include_str!("../../../../docs/number-check.md");
        for word in known_words() {
            assert!(
                page.contains(&format!("*{word}*")),
                "docs/number-check.md does not list *{word}*"
            );
        }
    }
}
