//! Numbers in words, and verbs with a factor or an objective.

use super::{Reader, Stated};
use crate::claims::lexicon::{Relation, Sense, sense};
use crate::number::Quantity;
use crate::words::Word;

/// Creates a number that a text spells from one word to another. Half a unit is the error of its rounding.
fn number(value: f64, half: f64, unit: &str, (first, last): (&Word, &Word)) -> Quantity {
    Quantity {
        value,
        half,
        unit: unit.to_owned(),
        signed: false,
        rough: false,
        start: first.start,
        end: last.end,
    }
}

/// The numbers in words that have a unit: `one second`, `three times`, `fivefold`.
pub(super) fn spelled(words: &[Word]) -> Vec<Quantity> {
    let count = |word: &str| numerals::count(word).filter(|n| *n > 0).map(|n| n as f64);
    let mut numbers = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if let Some(n) = word.text.strip_suffix("fold").and_then(count) {
            numbers.push(number(n, 0.5, "x", (word, word)));
            continue;
        }
        let (Some(n), Some(next)) = (count(&word.text), words.get(at + 1)) else {
            continue;
        };
        let unit = match next.text.as_str() {
            "second" => "s",
            "millisecond" => "ms",
            "minute" => "min",
            "percent" => "%",
            "time" | "fold" => "x",
            _ => continue,
        };
        numbers.push(number(n, 0.5, unit, (word, next)));
    }
    numbers
}

/// A factor in a single word, and how far it is from exact.
fn factor(word: &str) -> Option<(f64, f64, Relation)> {
    Some(match word {
        "half" | "halve" | "halved" => (0.5, 0.1, Relation::Less),
        "twice" | "double" | "doubled" => (2.0, 0.25, Relation::More),
        "triple" | "tripled" => (3.0, 0.5, Relation::More),
        "quadruple" | "quadrupled" => (4.0, 0.5, Relation::More),
        _ => return None,
    })
}

impl Reader<'_> {
    /// Parses `halves the latency relative to`, `double the throughput of`, `twice as fast as`.
    pub(super) fn multiplied(&mut self, at: usize) -> Option<usize> {
        let (value, half, relation) = factor(self.word(at))?;
        if self.claim.relation.is_some() {
            return None;
        }
        let word = self.words[at].clone();
        let low = number(value, half, "x", (&word, &word));
        let verb = !matches!(self.word(at), "half" | "twice");
        if let Some((taken, than)) = self.other_side(at + 1) {
            self.claim.relation = Some((Relation::Changed, word.start));
            self.claim.than = Some(than);
            self.claim.numbers.push(Stated::plain(low));
            return Some(1 + taken);
        }
        // `double precision` is a name.
        let metric = matches!(self.word(at + 1), "the" | "its") || verb && self.metric_at(at + 1);
        if !verb || !metric {
            return None;
        }
        self.claim.relation = Some((relation, word.start));
        self.claim.numbers.push(Stated::plain(low));
        Some(1)
    }

    /// Whether a number, a factor or a fraction begins at a word.
    pub(super) fn is_size(&self, at: usize) -> bool {
        let word = self.word(at);
        let spelled = numerals::count(word).is_some() || factor(word).is_some();
        self.is_number(at) || spelled || matches!(word, "a" | "an")
    }

    /// Whether the rank at an offset is one among the numbers of a single side: `its highest rate`, `the highest rate of
    /// Kite`, but not `the highest rate is that of Kite`.
    pub(super) fn is_own(&self, start: usize) -> bool {
        let before = self.words.iter().rev().find(|word| word.end <= start);
        let owner = |word: &Word| matches!(word.text.as_str(), "its" | "their" | "own" | "s");
        let behind = (0..self.words.len()).filter(|at| self.words[*at].start > start);
        let mut phrase = behind.take_while(|at| {
            !matches!(
                self.word(*at),
                "is" | "are" | "was" | "were" | "that" | "belong" | "go" | "goe"
            )
        });
        before.is_some_and(owner)
            || phrase.any(|at| matches!(self.word(at), "of" | "for") && self.side_at(at + 1))
    }

    /// Whether a label comes behind an offset.
    pub(super) fn sided(&self, start: usize) -> bool {
        let behind = |at: &usize| self.words[*at].start > start;
        (0..self.words.len())
            .filter(behind)
            .any(|at| self.side_at(at))
    }

    /// Whether a comparative only names another thing: `on the smaller model`.
    pub(super) fn attributive(&self, start: usize) -> bool {
        let at = self
            .words
            .iter()
            .position(|word| word.start == start)
            .unwrap_or(0);
        let back = |n: usize| at.checked_sub(n).map_or("", |at| self.word(at));
        matches!(back(1), "the" | "a" | "an" | "our")
            && matches!(back(2), "on" | "at" | "for" | "with" | "in" | "under")
            && sense(self.word(at + 1)) == Some(Sense::Noun)
    }

    /// Whether the name of a metric begins at a word.
    fn metric_at(&self, at: usize) -> bool {
        let word = self.word(at);
        let columns = self
            .facts
            .across
            .map(|across| &self.facts.axes[across].values);
        let mut names = columns.into_iter().flatten().flat_map(|value| &value.words);
        names.any(|own| own == word) || self.facts.metric.iter().any(|own| own == word)
    }

    /// What follows a factor: `as fast as B`, `the throughput of B`, `B's throughput`. Returns the words to take and the
    /// offset before the other side.
    pub(super) fn other_side(&self, next: usize) -> Option<(usize, usize)> {
        if self.word(next) == "as" && self.word(next + 2) == "as" {
            return Some((3, self.words[next + 2].start));
        }
        let possessive = |at: usize| self.words[at..].iter().take(8).any(|w| w.text == "s");
        if self.side_at(next) && possessive(next) {
            return Some((0, self.words[next].start.saturating_sub(1)));
        }
        if !matches!(self.word(next), "the" | "that" | "as" | "those") {
            return None;
        }
        let mut after = (next..self.words.len()).rev();
        let word = after.find(|i| matches!(self.word(*i), "of" | "as"))?;
        Some((0, self.words[word].start))
    }

    /// Parses `meets the 200 ms SLO`, `misses the objective of 1 s`: the number is a bound of the metric.
    pub(super) fn objective(&mut self, at: usize) -> Option<usize> {
        let objective = |word: &str| {
            matches!(
                word,
                "slo" | "sla" | "target" | "objective" | "budget" | "limit"
            )
        };
        if self.claim.objective && objective(self.word(at)) {
            return Some(1);
        }
        let upper = match self.word(at) {
            "meet" | "met" | "satisfy" | "satisfied" => true,
            "miss" | "missed" | "violate" | "violated" | "breach" | "breached" => false,
            _ => return None,
        };
        let near = at + 1..(at + 8).min(self.words.len());
        let names = near.clone().any(|i| objective(self.word(i)));
        let mut numbers = near.filter(|i| self.is_number(*i));
        let number = numbers.next()?;
        let number = self
            .numbers
            .iter()
            .find(|n| n.start == self.words[number].start)?;
        if !names || number.measure().0 != "time" || self.claim.bound.is_some() {
            return None;
        }
        self.claim.bound = Some(upper);
        self.claim.objective = true;
        Some(1)
    }
}

impl Stated {
    /// A number without another end.
    fn plain(low: Quantity) -> Self {
        Self {
            low,
            high: None,
            aside: false,
        }
    }
}
