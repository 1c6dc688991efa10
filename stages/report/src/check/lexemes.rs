//! Finds numerals in text: digits of any script in any form, and number words.

use std::ops::Range;

/// The form of a numeral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// With at least one numeric character.
    Digits,
    /// In words.
    Word,
}

/// A numeral and its position, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub(super) range: Range<usize>,
    pub(super) sort: Sort,
}

/// Returns every numeral of a text, in order.
pub(super) fn lexemes(text: &str) -> Vec<Lexeme> {
    let mut lexemes = digits(text);
    lexemes.extend(words(text));
    lexemes.sort_by_key(|l| l.range.start);
    lexemes
}

/// Numeric characters with everything that belongs to them: separators between digits, and the letters, signs and
/// scales that touch them.
fn digits(text: &str) -> Vec<Lexeme> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let end_of = |i: usize| chars.get(i).map_or(text.len(), |(at, _)| *at);
    let mut lexemes = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        if !chars[i].1.is_numeric() {
            i += 1;
            continue;
        }
        let mut start = i;
        while start > 0 && belongs_before(chars[start - 1].1) {
            start -= 1;
        }
        let mut end = i + 1;
        while end < chars.len() {
            let c = chars[end].1;
            let digit_next = chars.get(end + 1).is_some_and(|(_, n)| n.is_numeric());
            if c.is_numeric() || belongs_after(c) || (joins(c) && digit_next) {
                end += 1;
            } else {
                break;
            }
        }
        lexemes.push(Lexeme {
            range: chars[start].0..end_of(end),
            sort: Sort::Digits,
        });
        i = end;
    }
    lexemes
}

fn belongs_before(c: char) -> bool {
    matches!(
        c,
        '+' | '-' | '\u{2212}' | '±' | '~' | '≈' | '<' | '>' | '≤' | '≥'
    ) || c.is_alphabetic()
}

fn belongs_after(c: char) -> bool {
    matches!(c, '%' | '‰' | '×') || c.is_alphabetic()
}

fn joins(c: char) -> bool {
    matches!(
        c,
        '.' | ','
            | '\''
            | '_'
            | ':'
            | '/'
            | '\u{2044}'
            | '-'
            | '\u{2013}'
            | '\u{2212}'
            | '\u{00a0}'
            | '\u{2009}'
            | '\u{202f}'
            | '^'
    )
}

/// Ordinals that are not a cardinal plus `th`.
const ORDINALS: &[&str] = &[
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "twentieth",
    "thirtieth",
    "fortieth",
    "fiftieth",
    "sixtieth",
    "seventieth",
    "eightieth",
    "ninetieth",
];

/// Words for parts and multiples.
const PARTS: &[&str] = &[
    "half",
    "halves",
    "halved",
    "halving",
    "quarter",
    "quarters",
    "twice",
    "thrice",
    "double",
    "doubled",
    "doubles",
    "doubling",
    "triple",
    "tripled",
    "triples",
    "tripling",
    "quadruple",
    "quadrupled",
    "quadrupling",
    "quintuple",
];

fn words(text: &str) -> Vec<Lexeme> {
    let mut lexemes = Vec::new();
    let mut previous: Vec<Range<usize>> = Vec::new();
    for range in letter_runs(text) {
        let word = text[range.clone()].to_lowercase();
        let numeral = is_number_word(&word)
            || (word == "second" && !is_unit_of_time(text, &range, previous.last()))
            || (word.starts_with("magnitude") && after_order(text, &previous));
        if numeral {
            let start = match word.starts_with("magnitude") {
                true => previous[previous.len() - 2].start,
                false => range.start,
            };
            lexemes.push(Lexeme {
                range: start..range.end,
                sort: Sort::Word,
            });
        }
        previous.push(range);
        if previous.len() > 2 {
            previous.remove(0);
        }
    }
    lexemes
}

/// The positions of the runs of letters in a text, in order.
pub(crate) fn letter_runs(text: &str) -> Vec<Range<usize>> {
    let mut lexemes = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_alphabetic(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                lexemes.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    lexemes
}

fn is_number_word(word: &str) -> bool {
    let plural = word.strip_suffix('s').unwrap_or(word);
    let sixes = word.strip_suffix("es").unwrap_or(word);
    let twenties = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    // `one` and `zero` are also ordinary words.
    let cardinal = |w: &str| numerals::cardinal(w).is_some_and(|value| value >= 2);
    cardinal(word)
        || cardinal(plural)
        || cardinal(sixes)
        || twenties.is_some_and(|w| cardinal(&w))
        || ORDINALS.contains(&word)
        || ORDINALS.contains(&plural)
        || PARTS.contains(&word)
        || word.strip_suffix("th").is_some_and(cardinal)
        || word.strip_suffix("ths").is_some_and(cardinal)
        || word.strip_suffix("fold").is_some_and(cardinal)
        || word.strip_suffix("some").is_some_and(cardinal)
        || word.strip_suffix("teen").is_some_and(cardinal)
}

/// Whether "second" is a unit of time: after a numeral, and after "per", "a", "one", "each", "every", "the" … "of".
fn is_unit_of_time(text: &str, range: &Range<usize>, previous: Option<&Range<usize>>) -> bool {
    let before = text[..range.start].trim_end();
    if before.ends_with(|c: char| c.is_numeric() || c == '/') {
        return true;
    }
    let Some(previous) = previous.filter(|p| text[p.end..range.start].trim().is_empty()) else {
        return false;
    };
    let word = text[previous.clone()].to_lowercase();
    matches!(word.as_str(), "per" | "one" | "each" | "every")
}

fn after_order(text: &str, previous: &[Range<usize>]) -> bool {
    let [order, preposition] = previous else {
        return false;
    };
    let word = |r: &Range<usize>| text[r.clone()].to_lowercase();
    word(preposition) == "of" && matches!(word(order).as_str(), "order" | "orders")
}

/// Characters that read as a sign before a number, apart from the dashes of a range.
const SIGNS: [char; 13] = [
    '-', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2212}', '\u{fe63}', '\u{ff0d}',
    '\u{2796}', '+', '\u{fe62}', '\u{ff0b}', '\u{2795}',
];

/// Words after a number that multiply it or divide it.
const SCALES: [&str; 16] = [
    "percent",
    "percentage",
    "pp",
    "hundred",
    "thousand",
    "million",
    "millions",
    "mio",
    "billion",
    "bn",
    "trillion",
    "ppm",
    "permille",
    "dozen",
    "fold",
    "lakh",
];

/// Prefixes of units, and what follows them as a word of its own: `k tok/s`.
const PREFIXES: [&str; 4] = ["k", "K", "M", "G"];
const PREFIXED: [&str; 6] = ["tok", "token", "tokens", "req", "request", "requests"];

/// Returns text typed next to a traced number that changes its meaning: a sign before it, or a scale, a decimal or a
/// power after it. In Markdown, a hyphen at the start of a line may be the mark of a list.
pub(super) fn altered(text: &str, span: &Range<usize>, is_markdown: bool) -> Option<Range<usize>> {
    let before: Vec<(usize, char)> = text[..span.start].char_indices().rev().take(2).collect();
    if let Some((at, c)) = before.first() {
        let beyond = before.get(1).map(|(_, c)| *c);
        let free = beyond.is_none_or(|b| {
            b.is_whitespace() || matches!(b, '(' | '[' | '|' | '*' | '_' | '=' | ':' | '"' | '$')
        });
        let bullet = is_markdown && beyond.is_none_or(|b| b == '\n') && *c == '-';
        if free && !bullet && (*c == '.' || SIGNS.contains(c)) {
            return Some(*at..span.end);
        }
    }
    let rest = &text[span.end..];
    // A line of the visible text ends a block.
    let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
    let skipped = rest.len() - trimmed.len();
    let first = trimmed.chars().next()?;
    if matches!(first, '%' | '‰' | '×' | '^') {
        return Some(span.start..span.end + skipped + first.len_utf8());
    }
    let word = first_word(trimmed);
    let next = first_word(trimmed[word.len()..].trim_start());
    let lower = word.to_lowercase();
    let glued = skipped == 0
        && !word.is_empty()
        && matches!(word, "k" | "K" | "M" | "G" | "T" | "x" | "e" | "E" | "pp");
    let prefixed = PREFIXES.contains(&word) && PREFIXED.contains(&next);
    let in_two_words = match &*lower {
        "per" => matches!(next, "cent" | "mille"),
        "basis" => next.starts_with("point"),
        _ => false,
    };
    if glued || prefixed || in_two_words || SCALES.contains(&&*lower) {
        return Some(span.start..span.end + skipped + word.len());
    }
    // `12-percent`, `12-fold`.
    let joined = first_word(rest.strip_prefix(['-', '\u{2011}'])?);
    let is_scale = SCALES.contains(&&*joined.to_lowercase());
    is_scale.then(|| span.start..text.len() - rest.len() + 1 + joined.len())
}

/// The letters at the start of a text.
fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexeme_texts(text: &str) -> Vec<&str> {
        lexemes(text).into_iter().map(|l| &text[l.range]).collect()
    }

    #[test]
    fn every_dress_of_a_numeral_is_seen() {
        for text in [
            "7",
            "0.0757",
            "1,234",
            "12%",
            "1.8×",
            "0.10–0.19",
            "±3",
            "6.02e23",
            "½",
            "3/4",
            "٣",
            "−4",
            "x²",
            "Ⅷ",
            "two",
            "Twenty",
            "third",
            "hundredths",
            "half",
            "twice",
            "tenfold",
            "dozens",
            "orders of magnitude",
            "thousands",
            "sixes",
            "N8",
            "&#49;",
        ] {
            assert!(!lexeme_texts(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn ordinary_words_are_not_numerals() {
        for text in [
            "one",
            "first",
            "often",
            "tokens per second",
            "every second",
            "quality scores",
            "weight",
            "tense",
            "none",
            "magnitude",
        ] {
            assert!(
                lexeme_texts(text).is_empty(),
                "{text}: {:?}",
                lexeme_texts(text)
            );
        }
        assert_eq!(lexeme_texts("the second run"), ["second"]);
    }

    /// Whether the text beside the number 7 changes it.
    fn is_altered(text: &str) -> bool {
        let at = text.find('7').unwrap();
        altered(text, &(at..at + 1), false).is_some()
    }

    #[test]
    fn text_beside_a_number_changes_it_in_any_dress() {
        for text in [
            "7  %",
            "7\u{2009}%",
            "7\t%",
            "7 per mille",
            "7 basis points",
            "7-percent",
            "7-fold",
            "7\u{2011}million",
            "7 k tok/s",
            "7 M tokens",
            "7K",
            "-7",
            "is \u{2013}7",
            "is \u{ff0d}7",
            "(\u{2011}7)",
            "delta=-7",
        ] {
            assert!(is_altered(text), "{text}");
        }
        for text in [
            "from 3\u{2013}7",
            "a-7",
            "is \u{2013} 7",
            "7\n% of",
            "7 K",
            "7 per client",
            "7 per centre",
            "7-client",
            "7 M1 chips",
            "7 basis sets",
            "7 \u{2013} a lot",
            "7-",
        ] {
            assert!(!is_altered(text), "{text}");
        }
    }
}
