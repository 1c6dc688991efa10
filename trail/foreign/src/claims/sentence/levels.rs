//! Levels, spans of levels and factors in a sentence.

use super::{Mention, Reader, Stated};
use crate::claims::lexicon::{Many, Relation};
use crate::number::Quantity;

impl Reader<'_> {
    /// The number at a word, and the nouns that may name its axis: those after it, or its unit.
    fn level_at(&self, at: usize) -> Option<((usize, usize), f64, usize)> {
        let word = self.words.get(at)?;
        let spelled = numerals::count(&word.text).map(|n| n as f64);
        let level = spelled.or_else(|| {
            let number = self.numbers.iter().find(|n| n.start == word.start)?;
            (number.half == 0.5).then_some(number.value)
        })?;
        (1..=2).rev().find_map(|taken| {
            let noun: Vec<String> = (1..=taken).map(|i| self.word(at + i).to_owned()).collect();
            Some((self.facts.level(level, &noun)?, level, taken + 1))
        })
    }

    /// The level that a word such as `4k` names on the axis of levels.
    fn on_ladder(&self, at: usize) -> Option<(usize, usize)> {
        let (axis, word) = (self.facts.ladder()?, self.word(at));
        let mut values = self.facts.axes[axis].values.iter();
        let value = values.position(|value| value.words == [word])?;
        word.parse::<f64>().is_err().then_some((axis, value))
    }

    /// Parses `64 clients`, if the table has a level 64 of clients.
    pub(super) fn level(&mut self, at: usize) -> Option<usize> {
        let ((axis, value), level, taken) = self.level_at(at)?;
        // `the five runs` are all of them.
        let before = at.checked_sub(1).map_or("", |at| self.word(at));
        let all = matches!(
            before,
            "the" | "all" | "these" | "those" | "of" | "our" | "both"
        );
        if all && level == self.facts.axes[axis].values.len() as f64 {
            return None;
        }
        let start = self.words[at].start;
        self.claim.mentions.push(Mention { axis, value, start });
        Some(taken)
    }

    /// Parses `up to 32 clients`.
    pub(super) fn until(&mut self, at: usize) -> Option<usize> {
        if self.word(at) != "up" || self.word(at + 1) != "to" || self.claim.limit.is_some() {
            return None;
        }
        let named = || {
            let (axis, value) = self.on_ladder(at + 2)?;
            Some(((axis, value), self.facts.axes[axis].values[value].level?, 1))
        };
        let ((axis, _), level, taken) = self.level_at(at + 2).or_else(named)?;
        self.claim.limit = Some((axis, level));
        Some(taken + 2)
    }

    /// Parses `at 32 and 128 clients`: the claim is about each of the levels.
    pub(super) fn levels(&mut self, at: usize) -> Option<usize> {
        let mut ends = vec![at];
        while matches!(self.word(ends[ends.len() - 1] + 1), "and" | "or")
            || ends.len() == 1 && self.is_number(at + 1)
        {
            let last = ends[ends.len() - 1];
            ends.push(last + 1 + usize::from(!self.is_number(last + 1)));
        }
        let last = ends.pop().filter(|_| !ends.is_empty())?;
        let ((axis, value), _, taken) = self.level_at(last)?;
        if self.claim.many.is_some() || at.checked_sub(1).is_none_or(|at| self.word(at) != "at") {
            return None;
        }
        let start = self.words[at].start;
        let mut mentions = vec![Mention { axis, value, start }];
        for at in ends {
            let level: f64 = self.word(at).parse().ok()?;
            let mut values = self.facts.axes[axis].values.iter();
            let value = values.position(|value| value.level == Some(level))?;
            mentions.push(Mention { axis, value, start });
        }
        self.claim.mentions.extend(mentions);
        self.claim.many = Some(Many::Every);
        Some(last + taken - at)
    }

    /// Parses `from 32 clients on`, `beyond 16 clients`, `more than 16 clients`,
    /// `at 32 clients and above`, `below 32 clients`.
    pub(super) fn since(&mut self, at: usize) -> Option<usize> {
        let (strict, below, skip) = match (self.word(at), self.word(at + 1)) {
            ("more", "than") => (true, false, 2),
            ("fewer" | "less", "than") => (true, true, 2),
            ("from" | "at", _) => (false, false, 1),
            ("beyond" | "above" | "past" | "over", _) => (true, false, 1),
            ("below" | "under", _) => (true, true, 1),
            _ => return None,
        };
        let ((axis, _), level, taken) = self.level_at(at + skip)?;
        let next = at + skip + taken;
        let more =
            |at: usize| matches!(self.word(at), "above" | "beyond" | "more" | "higher" | "up");
        let behind = match self.word(at) {
            "from" if matches!(self.word(next), "on" | "onward" | "onwards" | "upwards") => 1,
            "at" if matches!(self.word(next), "and" | "or") && more(next + 1) => 2,
            "from" | "at" => return None,
            _ => 0,
        };
        let levels = self.facts.axes[axis]
            .values
            .iter()
            .filter_map(|value| value.level);
        let fits = |other: &f64| match (strict, below) {
            (false, _) => *other >= level,
            (true, false) => *other > level,
            (true, true) => *other < level,
        };
        let levels = levels.filter(fits);
        let (end, open) = if below {
            (levels.max_by(f64::total_cmp)?, &mut self.claim.limit)
        } else {
            (levels.min_by(f64::total_cmp)?, &mut self.claim.floor)
        };
        if open.is_some() {
            return None;
        }
        *open = Some((axis, end));
        Some(next + behind - at)
    }

    /// Parses `from 32 to 64 clients`, `between 4k and 32k`.
    pub(super) fn span(&mut self, at: usize) -> Option<usize> {
        let joint = match self.word(at) {
            "from" => "to",
            "between" => "and",
            _ => return None,
        };
        if self.word(at + 2) != joint || self.claim.span.is_some() {
            return None;
        }
        if let (Some((axis, from)), Some((_, to))) =
            (self.on_ladder(at + 1), self.on_ladder(at + 3))
        {
            self.claim.span = Some((axis, [from, to]));
            return Some(4);
        }
        let ((axis, to), _, taken) = self.level_at(at + 3)?;
        let first: f64 = self.word(at + 1).parse().ok()?;
        let mut values = self.facts.axes[axis].values.iter();
        let from = values.position(|value| value.level == Some(first))?;
        self.claim.span = Some((axis, [from, to]));
        Some(3 + taken)
    }

    /// Parses `4.1 times the throughput of …`, `twice`: a factor. The other side follows `of`, `as` or `than`.
    pub(super) fn times(&mut self, at: usize) -> Option<usize> {
        let start = self.words.get(at)?.start;
        let number = self.numbers.iter().find(|n| n.start == start)?;
        if self.claim.relation.is_some() || !number.unit.is_empty() && number.unit != "x" {
            return None;
        }
        let taken = self.words_until(at, number.end);
        let spelled = number.unit.is_empty();
        let mut next = at + taken;
        if spelled {
            if self.word(next) != "time" {
                return None;
            }
            next += 1;
        }
        let (behind, than) = self.other_side(next)?;
        let low = Quantity {
            unit: "x".to_owned(),
            ..number.clone()
        };
        self.claim.numbers.push(Stated {
            low,
            high: None,
            aside: false,
        });
        self.claim.relation = Some((Relation::Changed, start));
        self.claim.than = Some(than);
        Some(next + behind - at)
    }
}
