//! Words: the parts of labels and sentences that bind a number to a column or row.

use std::collections::BTreeSet;

/// The words of a text, lower case, numbers kept (`n=32`, `p95`), filler dropped, a few spellings unified.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '=' | '%')))
        .map(|word| word.trim_matches('.').to_lowercase())
        .filter(|word| !word.is_empty() && !FILLER.contains(&word.as_str()))
        .map(|word| unify(&word))
        .collect()
}

const FILLER: &[&str] = &[
    "the", "a", "an", "of", "at", "in", "on", "for", "and", "or", "to", "by", "with", "per", "is",
    "=",
];

fn unify(word: &str) -> String {
    match word {
        "eff" | "efficiencies" => "efficiency".to_owned(),
        "avg" | "average" | "mean" => "mean".to_owned(),
        "p50" | "median" => "median".to_owned(),
        "tps" | "tput" => "throughput".to_owned(),
        "latencies" => "latency".to_owned(),
        "users" | "user" => "users".to_owned(),
        "max" | "maximum" => "max".to_owned(),
        "min" | "minimum" => "min".to_owned(),
        other => match other.strip_suffix('s') {
            Some(stem) if stem.len() > 3 && !stem.ends_with('s') && !stem.ends_with('u') => {
                stem.to_owned()
            }
            _ => other.to_owned(),
        },
    }
}

/// Whether a name is in a text as a whole, ASCII case ignored.
pub(crate) fn names(text: &str, name: &str) -> bool {
    position(text, name).is_some()
}

/// Where a name comes first in a text as a whole, ASCII case ignored.
pub(crate) fn position(text: &str, name: &str) -> Option<usize> {
    occurrences(text, name).next()
}

/// Everywhere a name is in a text as a whole, ASCII case ignored.
pub(crate) fn positions(text: &str, name: &str) -> Vec<usize> {
    occurrences(text, name).collect()
}

fn occurrences<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (haystack, needle) = (text.as_bytes(), name.as_bytes());
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let last = if needle.is_empty() {
        None
    } else {
        haystack.len().checked_sub(needle.len())
    };
    (0..last.map_or(0, |last| last + 1)).filter(move |&at| {
        haystack[at..at + needle.len()].eq_ignore_ascii_case(needle)
            && text.is_char_boundary(at)
            && text.is_char_boundary(at + needle.len())
            && !text[..at].chars().next_back().is_some_and(word)
            && !text[at + needle.len()..].chars().next().is_some_and(word)
    })
}

/// The statistic that a text names first, if it names one.
pub(crate) fn statistic(text: &str) -> Option<String> {
    let words = words(text);
    words
        .iter()
        .find(|word| is_percentile(word))
        .cloned()
        .or_else(|| {
            STATISTICS
                .iter()
                .find(|s| words.contains(**s))
                .map(|s| (*s).to_owned())
        })
}

/// All statistics that a text names.
pub(crate) fn statistics(text: &str) -> BTreeSet<String> {
    let mut named = words(text);
    named.retain(|word| is_percentile(word) || STATISTICS.contains(&word.as_str()));
    named
}

/// Where a text names the first of its statistics.
pub(crate) fn statistic_at(text: &str) -> Option<usize> {
    let mut parts = text
        .split_inclusive(|c: char| !(c.is_alphanumeric() || c == '.'))
        .scan(0, |at, part| {
            let start = *at;
            *at += part.len();
            Some((start, part))
        });
    parts
        .find(|(_, part)| !statistics(part).is_empty())
        .map(|(start, _)| start)
}

const STATISTICS: [&str; 4] = ["mean", "median", "max", "min"];

fn is_percentile(word: &str) -> bool {
    word.strip_prefix('p')
        .is_some_and(|digits| digits.len() >= 2 && digits.parse::<f64>().is_ok())
}

/// Number words up to twelve.
pub(crate) fn number_word(word: &str) -> Option<f64> {
    const NAMES: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    NAMES
        .iter()
        .position(|name| word.eq_ignore_ascii_case(name))
        .and_then(|at| u32::try_from(at).ok())
        .map(f64::from)
}
