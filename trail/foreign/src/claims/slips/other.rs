//! What makes a number of a sentence another one than the table's: a bound, a statistic or a circumstance that the table
//! does not have, another source.

use super::{DIFFERENCE, Saying, WHOLE, relative};
use crate::claims::facts::Facts;
use crate::claims::lexicon::{Sense, is_statistic, sense};
use crate::claims::sentence::Mention;
use crate::number::Quantity;

/// Words that make the number behind them a bound.
#[rustfmt::skip]
const BOUNDS: &[&str] = &[
    "above", "below", "under", "over", "beyond", "exceed", "exceeded", "exceeding", "than", "within", "past", "until",
];

/// Words between a bound and its number.
const BETWEEN: &[&str] = &[
    "a", "an", "the", "our", "its", "their", "even", "well", "just",
];

/// Words by which the number before them is a bound: `the 500 ms mark`.
#[rustfmt::skip]
const MARKS: &[&str] = &["mark", "line", "cap", "ceiling", "floor", "threshold", "limit", "objective", "bound"];

/// Statistics of a run that a column may lack. A table of `Power (W)` does not show the power at idle.
#[rustfmt::skip]
const STATISTICS: &[&str] = &[
    "peak", "worst", "best", "idle", "rated", "typical", "nominal", "tail", "percentile", "quantile", "quartile",
    "decile",
];

/// Words that introduce a circumstance.
#[rustfmt::skip]
const CIRCUMSTANCES: &[&str] = &[
    "with", "without", "on", "at", "in", "under", "for", "when", "after", "before", "during", "using", "where", "once",
    "while", "via", "through",
];

/// Words after which no circumstance follows: *in contrast*, *on average*.
#[rustfmt::skip]
const PHRASES: &[&str] = &[
    "contrast", "average", "mean", "fact", "other", "word", "short", "turn", "way", "term",
];

/// Words that say of something that others measured or that it was measured at another time.
#[rustfmt::skip]
const SOURCES: &[&str] = &[
    "page", "website", "blog", "documentation", "state", "own", "ago", "yesterday", "originally", "formerly", "initially",
    "attempt", "tweak", "retry", "rerun", "reran", "repeat", "repeated", "repeating", "repetition",
];

/// Nouns for the measurements of the report itself, which are no other subject.
#[rustfmt::skip]
const MEASUREMENTS: &[&str] = &[
    "measurement", "data", "table", "figure", "experiment", "study", "comparison", "difference", "lead", "advantage",
];

/// What a word says about the table.
#[derive(Clone, Copy, PartialEq)]
enum Weight {
    /// Nothing.
    Light,
    /// It names something of the table.
    Known,
    /// It may name something that the table does not have.
    Unknown,
}

impl Saying<'_> {
    /// Whether a number is a bound and no cell: `stays below 350 ms`, `more than 9 GB`, `480 ms or less`.
    pub(super) fn bounds(&self, number: &Quantity) -> bool {
        let before = self.words.iter().filter(|word| word.end <= number.start);
        let mut back = before.rev().map(|word| word.text.as_str()).peekable();
        let article = back.peek().is_some_and(|word| *word == "the");
        while back.next_if(|word| BETWEEN.contains(word)).is_some() {}
        let after = self.words.iter().filter(|word| word.start >= number.end);
        let mut after = after.map(|word| word.text.as_str());
        let (next, second) = (after.next().unwrap_or(""), after.next().unwrap_or(""));
        // `below the 350 ms of Kite`: a cell after all.
        if article && matches!(next, "of" | "for" | "on" | "that" | "at") {
            return false;
        }
        let last = back.next().unwrap_or("");
        let two = (back.next().unwrap_or(""), last);
        let ends = matches!(
            two,
            ("at", "least" | "most") | ("up", "to") | ("clear", "of")
        );
        // `up to 30 %` is the largest of several changes.
        BOUNDS.contains(&last)
            || ends && !relative(number)
            || MARKS.contains(&next)
            || next == "or"
                && matches!(
                    second,
                    "less"
                        | "more"
                        | "better"
                        | "lower"
                        | "higher"
                        | "fewer"
                        | "longer"
                        | "shorter"
                )
    }

    /// Whether the sentence names a statistic that the table does not have. `whole` is whether the number may be that
    /// of all rows, which the audit computes.
    pub(super) fn another_statistic(&self, facts: &Facts<'_>, whole: bool) -> bool {
        let has = |word: &str| {
            facts.metric.iter().any(|own| own == word) || facts.words().any(|own| own == word)
        };
        (0..self.words.len()).any(|at| {
            let (word, next) = (self.word(at), self.word(at + 1));
            // `the worst TTFT of A`, but not `the worst is A`.
            let rank = matches!(word, "best" | "worst" | "peak" | "max" | "min");
            (is_statistic(word) || STATISTICS.contains(&word))
                && !(whole && WHOLE.contains(&word))
                && !has(word)
                && (!rank || next == "case" || of_metrics(facts, next))
        })
    }

    /// Whether it is about something that the table does not have: another subject, source or time, or a ratio.
    pub(super) fn elsewhere(
        &self,
        number: &Quantity,
        facts: &Facts<'_>,
        mentions: &[Mention],
    ) -> bool {
        // `500 × $0.385`: who computes quotes the table.
        let before = self.before(number).trim_end_matches(['$', '€', '£', ' ']);
        let operand = before.ends_with(['×', '*'])
            || self.after(number).trim_start().starts_with(['×', '*', '=']);
        let per = |at: usize| {
            let each = matches!(self.word(at), "every" | "each") && self.word(at - 1) == "for";
            each && of_metrics(facts, self.word(at + 1))
        };
        // A label such as `Gain` may be meant or not.
        let open = |at: usize| {
            let word = self.word(at);
            let before = at.checked_sub(1).map_or("", |at| self.word(at));
            if is_statistic(before) || self.is_noun(at) {
                return false;
            }
            let common = matches!(sense(word), Some(Sense::Relation(_) | Sense::Trend(_)));
            common && of_metrics(facts, word)
        };
        // `on the smaller model`
        let smaller = |at: usize| {
            let article = matches!(self.word(at - 1), "the" | "a" | "an" | "our");
            let word = self.word(at);
            let relation =
                matches!(sense(word), Some(Sense::Relation(_))) && !of_metrics(facts, word);
            article
                && relation
                && at > 1
                && CIRCUMSTANCES.contains(&self.word(at - 2))
                && sense(self.word(at + 1)) == Some(Sense::Noun)
        };
        self.says(facts, SOURCES)
            || (1..self.words.len()).any(smaller)
            || !operand && self.another_subject(facts, mentions)
            || self.another_time(facts)
            || (1..self.words.len()).any(per)
            || (0..self.words.len()).any(open)
    }

    /// Whether it has a circumstance that the table does not know.
    pub(super) fn circumstance(&self, facts: &Facts<'_>, mentions: &[Mention]) -> bool {
        // A label such as `without cache` begins with the word.
        let label = |at: usize| mentions.iter().any(|m| m.start == self.words[at].start);
        (0..self.words.len()).any(|at| match self.word(at) {
            "without" | "excluding" | "ignoring" => !label(at),
            word => {
                CIRCUMSTANCES.contains(&word)
                    && self.first_weight(at + 1, facts, mentions) != Some(Weight::Known)
            }
        }) || mentions.iter().any(|m| self.remarked(m, facts, mentions))
    }

    /// Whether an unknown remark in brackets follows a label: `Kite (eager)`.
    fn remarked(&self, label: &Mention, facts: &Facts<'_>, mentions: &[Mention]) -> bool {
        let spelled = &facts.axes[label.axis].values[label.value].words;
        let first = self.words.iter().position(|word| word.start == label.start);
        let Some(first) = first else { return false };
        let next = first + spelled.len();
        let Some(word) = self.words.get(next) else {
            return false;
        };
        let whole = spelled
            .iter()
            .enumerate()
            .all(|(i, word)| self.word(first + i) == word);
        whole
            && self.text[..word.start].ends_with(" (")
            && self.weight(next, facts, mentions) == Weight::Unknown
    }

    /// Whether every word is known or without weight.
    pub(super) fn all_known(&self, facts: &Facts<'_>, mentions: &[Mention]) -> bool {
        (0..self.words.len()).all(|at| {
            is_statistic(self.word(at)) || self.weight(at, facts, mentions) != Weight::Unknown
        })
    }

    /// The weight of the first word from one on that has any, within a phrase.
    fn first_weight(&self, from: usize, facts: &Facts<'_>, all: &[Mention]) -> Option<Weight> {
        let near = (from..(from + 4).min(self.words.len())).take_while(|at| self.adjoins(*at));
        let mut weights = near.map(|at| self.weight(at, facts, all));
        weights.find(|weight| *weight != Weight::Light)
    }

    /// Whether no mark separates a word from the one before it.
    fn adjoins(&self, at: usize) -> bool {
        let Some((before, word)) = self.words.get(at.wrapping_sub(1)).zip(self.words.get(at))
        else {
            return false;
        };
        let gap = self.text.get(before.end..word.start).unwrap_or("");
        !gap.contains([',', ';', ':', '(', ')'])
    }

    fn weight(&self, at: usize, facts: &Facts<'_>, mentions: &[Mention]) -> Weight {
        let word = self.word(at);
        let start = self.words[at].start;
        // `tg` for a column `tg128`.
        let own = |own: &str| own == word || word.len() >= 2 && own.starts_with(word);
        let named = mentions.iter().any(|m| m.start == start)
            || facts.metric.iter().any(|word| own(word))
            || facts.words().any(own);
        if named {
            return Weight::Known;
        }
        let next = || match at + 1 < self.words.len() && self.adjoins(at + 1) {
            true => self.weight(at + 1, facts, mentions),
            false => Weight::Light,
        };
        if let Some(number) = self.number_at(at) {
            // `for 8k prompts`: a level of something that the table does not know.
            let counts = number.unit.is_empty() && self.words[at].end >= number.end;
            return match counts && next() == Weight::Unknown {
                true => Weight::Unknown,
                false => Weight::Known,
            };
        }
        // `in short,` but not `in short bursts`.
        if PHRASES.contains(&word) && next() != Weight::Unknown {
            return Weight::Known;
        }
        match sense(word) {
            Some(Sense::Noun | Sense::Many(_) | Sense::Peak) => Weight::Known,
            // `on the smaller model`, but `with a gain of 30 %`.
            Some(Sense::Relation(_)) if self.word(at + 1) == "of" || self.word(at + 1) == "in" => {
                Weight::Known
            }
            Some(Sense::Light | Sense::Rank(_) | Sense::Than) => Weight::Light,
            None if DIFFERENCE.contains(&word) => Weight::Known,
            _ => Weight::Unknown,
        }
    }

    /// Whether it begins with something that the table does not name: `a single client sees`, `our first attempt`.
    fn another_subject(&self, facts: &Facts<'_>, mentions: &[Mention]) -> bool {
        let mut at = 1;
        while at < 3 && self.adjoins(at) && self.weight(at, facts, mentions) == Weight::Light {
            at += 1;
        }
        matches!(self.word(0), "a" | "an" | "one" | "our" | "another" | "their" | "my")
            && self.words.len() > at
            && self.adjoins(at)
            && self.weight(at, facts, mentions) == Weight::Unknown
            && !MEASUREMENTS.contains(&self.word(at))
            // `a switch from A to B`
            && !matches!(self.word(at + 1), "from" | "to" | "between" | "in" | "of")
    }

    /// Whether it is about another time or a part of the requests: `last year`, `the first run`, `in 2023`.
    fn another_time(&self, facts: &Facts<'_>) -> bool {
        let apart = |word: &str| !facts.words().any(|own| own == word);
        (1..self.words.len()).any(|at| {
            let word = self.word(at);
            let period = matches!(
                word,
                "year" | "month" | "week" | "quarter" | "spring" | "autumn"
            );
            let again = matches!(
                word,
                "run" | "pass" | "test" | "measurement" | "release" | "version"
            );
            let year = word.len() == 4
                && word.starts_with("20")
                && word.bytes().all(|b| b.is_ascii_digit());
            let counts = numerals::count(word).is_some() || self.number_at(at).is_some();
            match self.word(at - 1) {
                "last" => (period || again || counts) && apart(word),
                // `the first ten requests`, `half of the clients wait for`
                "first" if counts => apart(word),
                "half" | "quarter" => word == "of",
                "first" | "second" | "third" => again && apart(word),
                "in" | "since" => year && apart(word),
                _ => false,
            }
        })
    }
}

/// Whether a word is one of the names of the columns.
fn of_metrics(facts: &Facts<'_>, word: &str) -> bool {
    let axis = facts.across.map(|across| &facts.axes[across]);
    let mut labels = axis.into_iter().flat_map(|axis| &axis.values);
    labels.any(|label| label.words.iter().any(|own| own == word))
}
