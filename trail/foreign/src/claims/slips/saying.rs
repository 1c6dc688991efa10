//! What a sentence names: labels, levels and numbers.

use super::relative;
use crate::claims::facts::{Axis, Facts, Value};
use crate::claims::lexicon::{Sense, canonical, sense};
use crate::claims::sentence::Mention;
use crate::number::{Quantity, normal_unit};
use crate::words::{Word, words};

/// What a sentence says, as far as it can be known without its grammar.
pub(in crate::claims) struct Saying<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word>,
    /// Its numbers, with their offsets in the sentence.
    pub(super) numbers: Vec<Quantity>,
}

/// What ends a clause.
#[rustfmt::skip]
const MARKS: &[&str] = &[", ", "; ", ": ", " (", ") ", "). ", " — ", " – ", " but ", " while "];

impl<'a> Saying<'a> {
    /// The sentence at an offset of the text that its numbers refer to.
    pub(in crate::claims) fn new(text: &'a str, numbers: &[Quantity], offset: usize) -> Self {
        let mut saying = Self {
            text,
            words: words(text),
            numbers: numbers.to_vec(),
        };
        for number in &mut saying.numbers {
            number.start -= offset;
            number.end -= offset;
            let rest = &text[number.end..];
            let factor = [" times", "-fold", " fold"]
                .iter()
                .any(|end| rest.starts_with(end));
            if number.unit.is_empty() && factor {
                "x".clone_into(&mut number.unit);
            }
        }
        saying
    }

    /// The text before a number.
    pub(super) fn before(&self, number: &Quantity) -> &str {
        self.text.get(..number.start).unwrap_or("")
    }

    /// The text after a number.
    pub(super) fn after(&self, number: &Quantity) -> &str {
        self.text.get(number.end..).unwrap_or("")
    }

    /// The clause around a number, as offsets of the sentence.
    pub(super) fn clause(&self, number: &Quantity) -> (usize, usize) {
        let (before, after) = (self.before(number), self.after(number));
        let from = MARKS.iter().filter_map(|mark| before.rfind(mark)).max();
        let to = MARKS.iter().filter_map(|mark| after.find(mark)).min();
        (from.unwrap_or(0), number.end + to.unwrap_or(after.len()))
    }

    /// The part of a clause around a number. If each side of an *and* has a number and a column of its own, as in `hours
    /// rose by 31 % and cost by 12 %`, the sides are about different columns.
    pub(super) fn half(
        &self,
        number: &Quantity,
        facts: &Facts<'_>,
        mentions: &[Mention],
    ) -> (usize, usize) {
        let (mut from, mut to) = self.clause(number);
        let column = |m: &Mention| Some(m.axis) == facts.across;
        let complete = |from: usize, to: usize| {
            let part = from..to;
            let named = mentions
                .iter()
                .any(|m| column(m) && part.contains(&m.start));
            named && self.numbers.iter().any(|n| part.contains(&n.start))
        };
        let joints = self.text.match_indices(" and ").map(|(at, _)| at);
        for at in joints
            .filter(|at| (from..to).contains(at))
            .collect::<Vec<_>>()
        {
            if !(from..to).contains(&at) || !complete(from, at) || !complete(at, to) {
                continue;
            }
            if at < number.start {
                from = at;
            } else {
                to = at;
            }
        }
        (from, to)
    }

    /// The label in brackets right behind a number, `453 (idle)`.
    fn bracketed<'m>(&self, number: &Quantity, mentions: &'m [Mention]) -> Option<&'m Mention> {
        let inner = self.after(number).strip_prefix(" (")?;
        let start = self.text.len() - inner.len();
        mentions.iter().find(|m| m.start == start)
    }

    /// The labels that a number belongs to: on each axis those of its clause, or else those of the sentence. In a
    /// comparison with one side in the clause, the other is the first of the sentence.
    pub(super) fn scoped(
        &self,
        number: &Quantity,
        facts: &Facts<'_>,
        mentions: &[Mention],
    ) -> Vec<Mention> {
        let (start, end) = self.half(number, facts, mentions);
        let narrowed = (start, end) != self.clause(number);
        let behind = self.bracketed(number, mentions);
        // `2.6 times as fast and 2.8 times the power`: the column behind the other number is not that of the first.
        let next = self.numbers.iter().find(|n| n.start >= number.end);
        let taken = |m: &&Mention| {
            let joint = |n: &Quantity| self.text[number.end..n.start].contains(" and ");
            Some(m.axis) == facts.across && next.is_some_and(|n| m.start > n.start && joint(n))
        };
        let mentions: Vec<Mention> = mentions.iter().filter(|m| !taken(m)).copied().collect();
        let inside = |m: &&Mention| match behind {
            Some(behind) if behind.axis == m.axis => *m == behind,
            _ => (start..end).contains(&m.start),
        };
        let mut named: Vec<Mention> = mentions.iter().filter(inside).copied().collect();
        for mention in mentions.iter().filter(|m| !inside(m)) {
            let own = named.iter().filter(|m| m.axis == mention.axis && inside(m));
            let alone = own.clone().count() == 1
                && relative(number)
                && !(narrowed && Some(mention.axis) == facts.across)
                && !named.iter().any(|m| m.axis == mention.axis && !inside(&m));
            if own.count() == 0 || alone {
                named.push(*mention);
            }
        }
        named
    }

    /// The other numbers of the sentence.
    pub(super) fn others(&self, number: &Quantity) -> impl Iterator<Item = &Quantity> {
        let start = number.start;
        self.numbers.iter().filter(move |n| n.start != start)
    }

    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| canonical(&word.text))
    }

    /// Whether a number is one of a list, `73.8%, 72.5% and 71.1%`, whose subjects may be anywhere.
    pub(super) fn listed(&self, number: &Quantity) -> bool {
        let joined = |a: &Quantity, b: &Quantity| {
            let between = self.text.get(a.end..b.start).unwrap_or("");
            matches!(between.trim(), "," | "and" | ", and" | "/" | "or")
        };
        self.numbers.windows(2).any(|two| {
            (two[0].start == number.start || two[1].start == number.start)
                && two[0].unit == two[1].unit
                && joined(&two[0], &two[1])
        })
    }

    /// Whether the clause of a number has one of these words.
    pub(super) fn beside(&self, number: &Quantity, list: &[&str]) -> bool {
        let (start, end) = self.clause(number);
        let mut words = self
            .words
            .iter()
            .filter(|word| (start..end).contains(&word.start));
        words.any(|word| list.contains(&canonical(&word.text)))
    }

    pub(super) fn has(&self, list: &[&str]) -> bool {
        (0..self.words.len()).any(|at| list.contains(&self.word(at)))
    }

    /// Whether the sentence has one of these words, other than as a word of the table.
    pub(super) fn says(&self, facts: &Facts<'_>, list: &[&str]) -> bool {
        (0..self.words.len()).any(|at| {
            let word = self.word(at);
            list.contains(&word) && !facts.words().any(|own| own == word)
        })
    }

    /// The labels and levels that the sentence names.
    pub(super) fn mentions(&self, facts: &Facts<'_>) -> Vec<Mention> {
        let mut mentions = Vec::new();
        let mut at = 0;
        while at < self.words.len() {
            let best = self.mention(at, facts);
            mentions.extend(best.map(|best| best.1));
            at += best.map_or(1, |best| best.0);
        }
        mentions
    }

    /// The longest label at a word, with its number of words.
    fn mention(&self, at: usize, facts: &Facts<'_>) -> Option<(usize, Mention)> {
        let (word, start) = (self.word(at), self.words[at].start);
        let role = sense(word);
        let verb = matches!(role, Some(Sense::Relation(_) | Sense::Trend(_))) && self.is_noun(at);
        let common = role.is_some() && !verb || word.len() < 2 || word.parse::<f64>().is_ok();
        let label = facts.longest(start, |axis, place| {
            let n = place.words.len();
            let mut words = place.words.iter().enumerate();
            let whole = place.level.is_none() && words.all(|(i, w)| self.word(at + i) == w);
            if whole && !(common && n == 1) {
                n
            } else {
                usize::from(self.is_level(at, place.level, &axis.name))
            }
        });
        let mut axes = facts.axes.iter().enumerate();
        label.or_else(|| {
            axes.find_map(|(axis, places)| {
                let value = self.distinct(at, places)?;
                Some((1, Mention { axis, value, start }))
            })
        })
    }

    /// Whether a word such as *gain* is used as the name of a metric: `in gain`, `and gain by`, `the gain rose`.
    pub(super) fn is_noun(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or("", |at| self.word(at));
        let next = self.word(at + 1);
        let verb = matches!(sense(next), Some(Sense::Trend(_))) || matches!(next, "by" | "go");
        match before {
            "" | "the" => verb,
            "in" => !matches!(next, "of" | "over"),
            "and" => verb || next == "are",
            _ => false,
        }
    }

    /// The only label of an axis that has a word, or one with the same beginning.
    fn distinct(&self, at: usize, axis: &Axis) -> Option<usize> {
        let word = self.word(at);
        let letters = word.chars().any(char::is_alphabetic);
        if word.chars().count() < 3 || sense(word).is_some() || !letters && word.len() < 4 {
            return None;
        }
        // `4090` may name a card, but not with a unit, and not as a fraction.
        if self
            .number_at(at)
            .is_some_and(|n| !n.unit.is_empty() || n.half != 0.5 || n.signed)
        {
            return None;
        }
        let stem: String = word.chars().take(5).collect();
        let like = |own: &String| {
            own == word
                || word.len() >= 4 && own.ends_with(word)
                || stem.chars().count() == 5
                    && own.starts_with(&stem)
                    && own.chars().all(char::is_alphabetic)
        };
        let has = |value: &Value| value.words.iter().any(like);
        let first = axis.values.iter().position(has)?;
        (!axis.values[first + 1..].iter().any(has)).then_some(first)
    }

    fn is_level(&self, at: usize, level: Option<f64>, name: &[String]) -> bool {
        let number = self.number_at(at);
        let Some(number) = number.filter(|number| Some(number.value) == level) else {
            return false;
        };
        let counted = |word: &String| normal_unit(word) == number.unit;
        let plain = |word: &str| word.trim_end_matches('s').to_owned();
        let named = |at: usize| name.iter().any(|name| plain(name) == plain(self.word(at)));
        let led = |word: &str| {
            matches!(
                word,
                "at" | "c" | "n" | "batch" | "to" | "from" | "and" | "between"
            )
        };
        (matches!(number.unit.as_str(), "" | "users") || name.iter().any(counted))
            && (at > 0 && (led(self.word(at - 1)) || named(at - 1)) || named(at + 1))
    }

    pub(super) fn number_at(&self, at: usize) -> Option<&Quantity> {
        let start = self.words.get(at)?.start;
        let mut numbers = self.numbers.iter();
        numbers.find(|n| n.start <= start && start < n.end)
    }
}
