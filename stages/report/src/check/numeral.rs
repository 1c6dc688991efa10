//! The value of a numeral, and what stands beside it.

use std::ops::Range;

use super::letter_runs;
use super::lexemes::{Sort, lexemes};

/// Words for multiples, each with its factor. They state an effect.
const MULTIPLES: [(&str, f64); 15] = [
    ("twice", 2.0),
    ("double", 2.0),
    ("doubles", 2.0),
    ("doubled", 2.0),
    ("doubling", 2.0),
    ("thrice", 3.0),
    ("triple", 3.0),
    ("triples", 3.0),
    ("tripled", 3.0),
    ("tripling", 3.0),
    ("quadruple", 4.0),
    ("quadrupled", 4.0),
    ("halved", 0.5),
    ("halves", 0.5),
    ("halving", 0.5),
];

/// A numeral of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numeral {
    /// Its position, in bytes, with the letters and signs that touch it.
    pub(crate) range: Range<usize>,
    /// Its value, without sign and unit; `None` if it is a range, a fraction, or a word without a value of its own.
    pub(crate) value: Option<f64>,
}

/// Returns every numeral of a text, in order.
pub(crate) fn numerals(text: &str) -> Vec<Numeral> {
    let numeral = |(range, sort): (Range<usize>, Sort)| Numeral {
        value: match sort {
            Sort::Digits => of_digits(&text[range.clone()]),
            Sort::Word => of_word(&text[range.clone()].to_lowercase()),
        },
        range,
    };
    let all = lexemes(text).into_iter().map(|l| (l.range, l.sort));
    all.map(numeral).collect()
}

impl Numeral {
    /// Whether it belongs to a name: it begins with a letter and has a digit (`A100`), or is a version (`0.10.2`). The word
    /// *second* only counts.
    pub(crate) fn is_name(&self, text: &str) -> bool {
        let own = &text[self.range.clone()];
        let begins = own.starts_with(char::is_alphabetic);
        let is_version = own.matches('.').count() > 1;
        (begins && own.contains(|c: char| c.is_ascii_digit()))
            || is_version
            || own.eq_ignore_ascii_case("second")
    }

    /// Whether it is a share in percent.
    pub(crate) fn is_percent(&self, text: &str) -> bool {
        let own = &text[self.range.clone()];
        let after = text[self.range.end..].trim_start_matches([' ', '\u{a0}', '\u{202f}']);
        let next = next_word(text, self.range.end);
        own.ends_with('%')
            || after.starts_with('%')
            || own.ends_with("pp")
            || matches!(next, "percent" | "percentage" | "pp")
    }

    /// Whether it states an effect: a share in percent, or a multiple, such as `2x`, `twice` and `3 times`.
    pub(crate) fn is_effect(&self, text: &str) -> bool {
        let own = text[self.range.clone()].to_lowercase();
        let after = text[self.range.end..].trim_start_matches([' ', '\u{a0}', '\u{202f}']);
        let is_multiple =
            own.starts_with(|c: char| c.is_ascii_digit()) && own.ends_with(['x', '×']);
        self.is_percent(text)
            || is_multiple
            || own.ends_with("fold")
            || after.starts_with('×')
            || matches!(next_word(text, self.range.end), "times" | "fold" | "x")
            || MULTIPLES.iter().any(|(word, _)| *word == own)
    }

    /// Whether it is a time.
    pub(crate) fn is_time(&self, text: &str) -> bool {
        let own = text[self.range.clone()].trim_start_matches(|c: char| !c.is_alphabetic());
        let unit = match own.is_empty() || self.is_word(text) {
            true => next_word(text, self.range.end),
            false => own,
        };
        matches!(
            unit,
            "ms" | "s" | "min" | "millisecond" | "milliseconds" | "seconds" | "minute" | "minutes"
        )
    }

    fn is_word(&self, text: &str) -> bool {
        !text[self.range.clone()].contains(char::is_numeric)
    }
}

/// Returns the word that follows a place, after spaces or a hyphen; empty if none does.
fn next_word(text: &str, end: usize) -> &str {
    let rest = text[end..].trim_start_matches([' ', '\u{a0}', '\u{202f}', '-']);
    let first = letter_runs(rest).into_iter().next();
    first
        .filter(|run| run.start == 0)
        .map_or("", |run| &rest[run])
}

fn of_digits(text: &str) -> Option<f64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[start..];
    let end = rest.find(|c: char| c.is_alphabetic() || matches!(c, '%' | '‰' | '×'));
    let plain =
        rest[..end.unwrap_or(rest.len())].replace([',', '\'', '_', '\u{202f}', '\u{a0}'], "");
    plain.parse().ok()
}

fn of_word(word: &str) -> Option<f64> {
    let multiple = MULTIPLES.iter().find(|(name, _)| *name == word);
    let stem = word.strip_suffix("fold").unwrap_or(word);
    multiple.map(|(_, factor)| *factor).or_else(|| match stem {
        "half" => Some(0.5),
        "quarter" => Some(0.25),
        stem => numerals::cardinal(stem).map(|value| value as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeral_has_a_value_and_may_state_an_effect() {
        for (text, value, is_effect) in [
            ("400 % more", Some(400.0), true),
            ("50%", Some(50.0), true),
            ("2x faster", Some(2.0), true),
            ("1.8×", Some(1.8), true),
            ("twice as fast", Some(2.0), true),
            ("tenfold", Some(10.0), true),
            ("3 times", Some(3.0), true),
            ("1,234 tokens", Some(1234.0), false),
            ("two clients", Some(2.0), false),
            ("within 700 ms", Some(700.0), false),
        ] {
            let [numeral] = &numerals(text)[..] else {
                panic!("{text}");
            };
            assert_eq!(
                (numeral.value, numeral.is_effect(text)),
                (value, is_effect),
                "{text}"
            );
        }
        for name in ["A100", "0.10.2", "p95", "N8"] {
            assert!(numerals(name)[0].is_name(name), "{name}");
        }
        let time = "within 0.7 s";
        assert!(numerals(time)[0].is_time(time));
    }
}
