//! Parses a sentence as a claim on one table: every word of it, or nothing.

mod levels;
mod phrases;

use std::collections::{BTreeMap, BTreeSet};

use crate::claims::facts::{Facts, Value};
use crate::claims::lexicon;
use crate::claims::lexicon::{Many, Rank, Relation, Sense, canonical, is_statistic, sense};
use crate::number::{Quantity, measure, quantities, range_at};
use crate::words::{Word, words};

/// An entity, level or statistic that a sentence names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mention {
    pub(crate) axis: usize,
    pub(crate) value: usize,
    pub(crate) start: usize,
}

/// A number or a range that a sentence states.
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    pub(crate) low: Quantity,
    pub(crate) high: Option<Quantity>,
    /// Whether it stands aside, as in `Kite (61 ms)` or `at 61 ms`, so that it may only restate a cell.
    pub(crate) aside: bool,
}

/// A sentence in terms of a table.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a form that the sentence has or lacks"
)]
pub(crate) struct Claim {
    pub(crate) mentions: Vec<Mention>,
    pub(crate) numbers: Vec<Stated>,
    pub(crate) relation: Option<(Relation, usize)>,
    /// The position of `than`.
    pub(crate) than: Option<usize>,
    pub(crate) ranks: Vec<(Rank, usize)>,
    pub(crate) many: Option<Many>,
    /// The numbers in `k of m`.
    pub(crate) part: Option<(f64, f64)>,
    /// A count of rows: `on three models`.
    pub(crate) count: Option<f64>,
    /// Whether the number is an upper (`true`) or a lower bound.
    pub(crate) bound: Option<bool>,
    /// The position of `peak`.
    pub(crate) peak: Option<usize>,
    /// Restricts labels to sizes up to this one.
    pub(crate) size: Option<f64>,
    /// Restricts an axis to levels up to this one.
    pub(crate) limit: Option<(usize, f64)>,
    /// Restricts an axis to levels from this one on.
    pub(crate) floor: Option<(usize, f64)>,
    /// A span from one level of an axis to another.
    pub(crate) span: Option<(usize, [usize; 2])>,
    /// Whether the numbers give a range.
    pub(crate) range: bool,
    /// Whether the numbers enclose all others: `between 1 and 2 s`.
    pub(crate) enclosed: bool,
    /// Whether the number is an objective that a system meets or misses.
    pub(crate) objective: bool,
    /// Whether numbers rise (`true`) or fall.
    pub(crate) trend: Option<bool>,
    pub(crate) steady: bool,
    /// Whether the labels are the only ones for which it holds (`true`), or the only exceptions.
    pub(crate) only: Option<bool>,
    /// The number of words that were not understood.
    pub(crate) unknown: usize,
    /// The words of the sentence.
    pub(crate) words: Vec<String>,
}

impl Claim {
    /// The labels on an axis.
    pub(crate) fn on(&self, axis: usize) -> impl Iterator<Item = &Mention> {
        self.mentions.iter().filter(move |m| m.axis == axis)
    }

    /// The labels on all axes but one.
    pub(crate) fn except(&self, axis: Option<usize>) -> Vec<Mention> {
        let other = |m: &&Mention| Some(m.axis) != axis;
        self.mentions.iter().filter(other).copied().collect()
    }

    /// Whether it holds all the time: `stays below`.
    pub(crate) fn lasts(&self) -> bool {
        let always = ["stay", "stayed", "remain", "remained", "keep", "kept"];
        self.words
            .iter()
            .any(|word| always.contains(&word.as_str()))
    }

    /// Whether it is about all metrics: `on every metric`.
    pub(crate) fn of_metrics(&self) -> bool {
        let metric = |word: &String| matches!(word.as_str(), "metric" | "column");
        self.many == Some(Many::Every) && self.words.iter().any(metric)
    }

    /// Whether it is about all levels up to one, or from one on.
    pub(crate) fn has_levels(&self) -> bool {
        self.limit.is_some() || self.floor.is_some()
    }

    /// Whether it compares sides, counts rows or gives a bound.
    pub(crate) fn compares(&self) -> bool {
        self.relation.is_some()
            || self.part.is_some()
            || self.than.is_some()
            || self.bound.is_some()
    }
}

struct Reader<'a> {
    text: &'a str,
    facts: &'a Facts<'a>,
    words: Vec<Word>,
    numbers: Vec<Quantity>,
    claim: Claim,
    /// Labels hinted at by a word that no other label of the axis has.
    hints: Vec<Mention>,
}

/// The claim that a text makes on a table; `None` if a word is not understood. `before` are the labels of an earlier
/// clause, which the text may leave out.
pub(crate) fn understand(text: &str, facts: &Facts<'_>, before: &[Mention]) -> Option<Claim> {
    let words = words(text);
    let least = if before.is_empty() { 3 } else { 1 };
    if words.len() < least
        || words.len() > 40
        || text.trim_end().ends_with('?')
        || text.contains('_')
        || text.contains('→')
        || words.iter().any(|word| word.text == "new")
    {
        // A program option with its value is a setting.
        return None;
    }
    let mut numbers = quantities(text);
    numbers.extend(phrases::spelled(&words));
    numbers.sort_by_key(|number| number.start);
    let mut reader = Reader {
        text,
        facts,
        words,
        numbers,
        claim: Claim::default(),
        hints: Vec::new(),
    };
    let spoken = reader.words.iter().map(|word| canonical(&word.text));
    reader.claim.words = spoken.map(str::to_owned).collect();
    let scattered = reader.scattered();
    let mut at = 0;
    while at < reader.words.len() {
        at += reader.step(at, &scattered)?;
    }
    reader.take_hints()?;
    let claim = &mut reader.claim;
    for mention in before {
        // `…, 7.6 GiB less than Osprey`: an earlier clause named the first side.
        let side = claim.than.filter(|_| claim.relation.is_some());
        let named = |m: &Mention| side.is_none_or(|than| m.start < than);
        if !claim.on(mention.axis).any(named) {
            let mention = Mention {
                start: 0,
                ..*mention
            };
            claim.mentions.insert(0, mention);
        }
    }
    let whole =
        claim.range || claim.bound.is_some() || claim.count.is_some() || claim.span.is_some();
    (!claim.mentions.is_empty() || claim.many.is_some() || whole).then_some(reader.claim)
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| canonical(&word.text))
    }

    /// Parses what begins at a word, and returns the number of words it takes.
    fn step(&mut self, at: usize, scattered: &[usize]) -> Option<usize> {
        if scattered.contains(&at) {
            return Some(1);
        }
        if let Some(taken) = self
            .until(at)
            .or_else(|| self.since(at))
            .or_else(|| self.span(at))
            .or_else(|| self.levels(at))
            .or_else(|| self.level(at))
            .or_else(|| self.mention(at))
            .or_else(|| self.times(at))
            .or_else(|| self.multiplied(at))
            .or_else(|| self.objective(at))
            .or_else(|| self.part(at))
            .or_else(|| self.number(at))
            .or_else(|| self.unit(at))
            .or_else(|| self.bound(at))
        {
            return Some(taken);
        }
        let word = self.word(at).to_owned();
        let start = self.words[at].start;
        if word == "up"
            && self.word(at + 1) == "to"
            && let Some(size) = size_of(self.word(at + 2))
        {
            self.claim.size = Some(size);
            return Some(3);
        }
        // `SGLang's`
        if word == "s" && self.text[..start].ends_with(['\'', '’']) {
            return Some(1);
        }
        // `on almost every host`, `used to be`
        let hedge = matches!(word.as_str(), "almost" | "nearly") && !self.is_size(at + 1);
        if hedge || word == "used" && self.word(at + 1) == "to" {
            return None;
        }
        if word == "between" && self.is_number(at + 1) {
            self.claim.enclosed = true;
            return Some(1);
        }
        let except = match (word.as_str(), self.word(at + 1)) {
            ("only", _) => 1,
            ("except" | "but" | "excluding" | "besides", "for") => 2,
            ("other" | "apart", "than" | "from") => 2,
            ("except" | "but" | "excluding" | "besides", _) => 1,
            _ => 0,
        };
        if except > 0 && self.label_at(at + except) {
            self.claim.only = Some(word == "only");
            return Some(except);
        }
        if word == "most" && self.word(at.wrapping_sub(1)) == "the" && !self.next_is_noun(at + 1) {
            self.claim.ranks.push((Rank::Largest, start));
            return Some(1);
        }
        if is_statistic(&word) && !self.facts.metric.contains(&word) && word != "max" {
            return None;
        }
        if let Some(count) = numerals::count(&word) {
            // `one tie`, `three models`.
            if sense(self.word(at + 1)) == Some(Sense::Tie) {
                return Some(2);
            }
            self.counted(at + 1, count as f64)?;
            return Some(1);
        }
        let named = self.facts.metric.contains(&word)
            || self.facts.axes.iter().any(|axis| axis.name.contains(&word));
        if sense(&word).is_none() && !named && self.hint(at) {
            return Some(1);
        }
        self.take_sense(&word, start, named)
    }

    /// Takes a word by its sense, or as a subject; `None` if the sentence cannot be read with it.
    fn take_sense(&mut self, word: &str, start: usize, named: bool) -> Option<usize> {
        match sense(word) {
            Some(Sense::Range) => self.claim.range = true,
            Some(Sense::Trend(up)) if self.claim.trend.is_none() => self.claim.trend = Some(up),
            Some(Sense::Trend(_)) => self.claim.steady = true,
            Some(Sense::Steadily) => self.claim.steady = true,
            Some(Sense::Relation(relation)) => {
                if self.claim.relation.is_some() || self.attributive(start) {
                    return None;
                }
                self.claim.relation = Some((relation, start));
                // `A beats B`: the other side follows the verb.
                let at = self.words.iter().position(|word| word.start == start)?;
                if lexicon::has_object(word) && self.claim.than.is_none() && self.side_at(at + 1) {
                    self.claim.than = Some(self.words[at].end);
                }
            }
            // `Kite has its highest rate at 8 clients`: the best of its own.
            Some(Sense::Rank(_)) if self.is_own(start) => return None,
            Some(Sense::Rank(rank)) => self.claim.ranks.push((rank, start)),
            Some(Sense::Many(many)) => {
                if self.claim.many.is_some_and(|other| other != many) {
                    // `no regression on any trace`: the first quantifier decides.
                    if many != Many::Every && many != Many::Both {
                        return None;
                    }
                } else {
                    self.claim.many = Some(many);
                }
            }
            // `over the whole sweep`
            Some(Sense::Than) if word == "over" && !self.sided(start) => {}
            Some(Sense::Than) => self.claim.than = Some(start),
            Some(Sense::Peak) => {
                let preceding = self.text[..start].trim_end();
                let shares = ["of its", "of the", "of their"];
                if shares.iter().any(|before| preceding.ends_with(before)) {
                    return None;
                }
                self.claim.peak = Some(start);
            }
            Some(Sense::Below | Sense::Above | Sense::Not) => return None,
            Some(Sense::Noun | Sense::Tie | Sense::Light) => {}
            None if named => {}
            // One subject that the table does not name is tolerated, if the values themselves identify it.
            None if self.claim.unknown == 0 => self.claim.unknown = 1,
            None => return None,
        }
        Some(1)
    }

    /// Takes a count, which a noun for rows must follow.
    fn counted(&mut self, next: usize, count: f64) -> Option<()> {
        let fits = self.next_is_noun(next) && self.claim.count.is_none();
        fits.then(|| self.claim.count = Some(count))
    }

    /// Whether a word is a number in digits, or the beginning of one.
    fn is_number(&self, at: usize) -> bool {
        self.words.get(at).is_some_and(|word| {
            let mut numbers = self.numbers.iter();
            numbers.any(|n| n.start <= word.start && word.start < n.end)
        })
    }

    /// Parses `two of the four`.
    fn part(&mut self, at: usize) -> Option<usize> {
        let count = |at: usize| {
            let word = self.word(at);
            let number = numerals::count(word).map(|n| n as f64);
            number.or_else(|| word.parse().ok())
        };
        let k = numerals::count(self.word(at))? as f64;
        let mut next = at + 1 + usize::from(self.word(at + 1) == "out");
        if self.word(next) != "of" || self.claim.part.is_some() {
            return None;
        }
        next += 1 + usize::from(self.word(next + 1) == "the");
        let m = count(next)?;
        if m < k || !self.next_is_noun(next + 1) {
            return None;
        }
        self.claim.part = Some((k, m));
        Some(next + 1 - at)
    }

    /// Parses a unit without a number, `in tok/s`: it names the only column that has it.
    fn unit(&mut self, at: usize) -> Option<usize> {
        let across = self.facts.across?;
        let mut units: BTreeMap<&str, BTreeSet<Option<usize>>> = BTreeMap::new();
        for fact in &self.facts.facts {
            let columns = units.entry(&fact.value.unit).or_default();
            columns.insert(fact.at[across]);
        }
        let spelled =
            |unit: &str| -> Vec<String> { words(unit).into_iter().map(|word| word.text).collect() };
        let is_here = |unit: &str| {
            let spelled = spelled(unit);
            unit.len() > 1 && !spelled.is_empty() && self.is_at(at, &spelled)
        };
        let (unit, columns) = units.into_iter().find(|(unit, _)| is_here(unit))?;
        let taken = spelled(unit).len();
        let start = self.words[at].start;
        let mut columns = columns.into_iter();
        if let (Some(Some(value)), None) = (columns.next(), columns.next()) {
            let axis = across;
            self.claim.mentions.push(Mention { axis, value, start });
        }
        Some(taken)
    }

    /// `less than`, `at least`, `above`: makes the next number a bound.
    fn bound(&mut self, at: usize) -> Option<usize> {
        let word = self.word(at).to_owned();
        let (upper, taken) = match (word.as_str(), self.word(at + 1)) {
            ("less" | "fewer" | "lower", "than") | ("at", "most") => (true, 2),
            ("more" | "greater" | "higher", "than") | ("at", "least") => (false, 2),
            ("under" | "within" | "below", _) => (true, 1),
            ("over" | "above" | "beyond" | "exceed" | "exceeded", _) => (false, 1),
            _ => return None,
        };
        if !self.is_number(at + taken) {
            return None;
        }
        self.claim.bound = Some(upper);
        Some(taken)
    }

    /// Whether a word is a noun for rows.
    fn next_is_noun(&self, at: usize) -> bool {
        let word = self.word(at);
        let named = |name: &String| name.trim_end_matches('s') == word.trim_end_matches('s');
        sense(word) == Some(Sense::Noun)
            || self
                .facts
                .axes
                .iter()
                .any(|axis| axis.name.last().is_some_and(named))
    }

    /// Takes a word that only one label of an axis has: `power` for `Power (W)`, `throughput` for the only rate.
    fn hint(&mut self, at: usize) -> bool {
        let word = self.word(at).to_owned();
        if word.chars().count() < 2 || word.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        let rate = word == "throughput";
        let time = matches!(word.as_str(), "latency" | "delay");
        for (axis, places) in self.facts.axes.iter().enumerate() {
            let of_unit = |value: &usize| {
                let unit = self.facts.unit_of(axis, *value);
                let fits = rate && unit.ends_with("/s") || time && measure(unit).0 == "time";
                Some(axis) == self.facts.across && fits
            };
            let named = |value: &usize| places.values[*value].words.contains(&word);
            let values = 0..places.values.len();
            let mut matching: Vec<usize> = values.clone().filter(named).collect();
            let any = !matching.is_empty();
            if !any {
                matching = values.filter(of_unit).collect();
            }
            let start = self.words[at].start;
            match matching.as_slice() {
                [] => {}
                [value] => {
                    let value = *value;
                    self.hints.push(Mention { axis, value, start });
                    return true;
                }
                // A word that several labels share distinguishes none of them.
                _ => return any,
            }
        }
        false
    }

    /// Lets hints stand for labels that the text does not name in full; two on one axis contradict each other.
    fn take_hints(&mut self) -> Option<()> {
        for hint in std::mem::take(&mut self.hints) {
            let mut own = self.claim.mentions.iter().filter(|m| m.axis == hint.axis);
            match own.next() {
                None => self.claim.mentions.push(hint),
                Some(other) if other.value == hint.value => {}
                Some(_) => return None,
            }
        }
        Some(())
    }

    /// Whether words are in the text, from one of its words on.
    fn is_at(&self, at: usize, words: &[String]) -> bool {
        let mut words = words.iter().enumerate();
        words.all(|(i, word)| self.word(at + i) == word)
    }

    /// Whether a label of a row begins at a word, perhaps after an article.
    fn label_at(&self, at: usize) -> bool {
        self.named_at(at, false)
    }

    /// Whether a label that can be a side of a comparison begins at a word: of a row, or of a column of the only metric.
    fn side_at(&self, at: usize) -> bool {
        self.named_at(at, !self.facts.mixed)
    }

    fn named_at(&self, at: usize, columns: bool) -> bool {
        let at = at + usize::from(self.word(at) == "the");
        let mut axes = self.facts.axes.iter().enumerate();
        axes.any(|(axis, places)| {
            let mut values = places.values.iter();
            (columns || Some(axis) != self.facts.across)
                && values.any(|value| !value.words.is_empty() && self.is_at(at, &value.words))
        })
    }

    /// Parses a label of the table, the longest that fits, or a level (`c=4`).
    fn mention(&mut self, at: usize) -> Option<usize> {
        let level: Option<f64> = self.word(at + 1).parse().ok();
        let (taken, mention) = self.facts.longest(self.words[at].start, |axis, place| {
            let named = axis.name.last().is_some_and(|name| name == self.word(at));
            let n = place.words.len();
            if named && level.is_some() && place.level == level {
                2
            } else if n > 0 && self.is_at(at, &place.words) && self.is_name(at, place) {
                n
            } else {
                0
            }
        })?;
        self.claim.mentions.push(mention);
        Some(taken)
    }

    /// Whether words that match a label name it here, and are not a number, article or ordinary word.
    fn is_name(&self, at: usize, label: &Value) -> bool {
        let [word] = label.words.as_slice() else {
            return true;
        };
        if word.parse::<f64>().is_ok() {
            return false;
        }
        let raw = &self.text[self.words[at].start..self.words[at].end];
        if word.chars().count() == 1 || matches!(sense(word), Some(Sense::Light | Sense::Than)) {
            return raw == label.text && raw.chars().any(char::is_uppercase);
        }
        true
    }

    /// The number of words from one on that begin before an offset; at least 1.
    fn words_until(&self, at: usize, end: usize) -> usize {
        let words = self.words[at..].iter();
        words.take_while(|word| word.start < end).count().max(1)
    }

    fn number(&mut self, at: usize) -> Option<usize> {
        let start = self.words[at].start;
        let number = self
            .numbers
            .iter()
            .find(|n| n.start <= start && start < n.end)?
            .clone();
        let between = || {
            let high = self.numbers.iter().find(|n| n.start >= number.end)?;
            let and = self.text.get(number.end..high.start)?.trim() == "and";
            let unit = number.unit.is_empty() || number.unit == high.unit;
            (and && unit && self.word(at.checked_sub(1)?) == "between")
                .then(|| (number.clone(), high.clone()))
        };
        let range = range_at(self.text, &self.numbers, &number).or_else(between);
        if let Some((mut low, high)) = range {
            let words = self.words_until(at, high.end);
            high.unit.clone_into(&mut low.unit);
            let high = Some(high);
            self.claim.numbers.push(Stated {
                low,
                high,
                aside: false,
            });
            return Some(words);
        }
        // `5/6`, `5 of 6`, `5 of the 6`.
        let next = self.numbers.iter().find(|n| n.start >= number.end);
        if let Some(next) = next.filter(|next| number.is_count() && next.is_count()) {
            let between = self.text[number.end..next.start].trim();
            if matches!(between, "of" | "out of" | "of the" | "out of the" | "/") {
                if self.claim.part.is_some() {
                    return None;
                }
                self.claim.part = Some((number.value, next.value));
                return Some(self.words_until(at, next.end));
            }
        }
        let mut low = number;
        if low.unit.is_empty() && self.text[..low.start].trim_end().ends_with("factor of") {
            "x".clone_into(&mut low.unit);
        }
        let words = self.words_until(at, low.end);
        if low.is_count() {
            // The number may also be a value: `399 cells`.
            self.counted(at + words, low.value);
        }
        let preceding = self.text[..low.start].trim_end();
        let leads = [" at", " with", " of", " is", " has"];
        let aside = preceding.ends_with(['(', ':']) || leads.iter().any(|l| preceding.ends_with(l));
        self.claim.numbers.push(Stated {
            low,
            high: None,
            aside,
        });
        Some(words)
    }

    /// Finds labels of several words that are all in the text, though not together: `cells executed` in
    /// `399 cells were executed`. Returns the words that they take.
    fn scattered(&mut self) -> Vec<usize> {
        let mut candidates: Vec<(Mention, Vec<usize>)> = Vec::new();
        for (axis, places) in self.facts.axes.iter().enumerate() {
            for (value, place) in places.values.iter().enumerate() {
                let heavy = |word: &&String| !matches!(sense(word), Some(Sense::Light));
                let is_name = place.level.is_none()
                    && place.words.iter().filter(heavy).count() >= 2
                    && place.words.iter().all(|word| word.parse::<f64>().is_err());
                if !is_name {
                    continue;
                }
                let find = |word: &String| (0..self.words.len()).find(|at| self.word(*at) == word);
                let at: Option<Vec<usize>> = place.words.iter().map(find).collect();
                let together = |from: usize| self.is_at(from, &place.words);
                if let Some(at) = at.filter(|_| !(0..self.words.len()).any(together)) {
                    let start = self.words[*at.iter().min().unwrap_or(&0)].start;
                    candidates.push((Mention { axis, value, start }, at));
                }
            }
        }
        // Only if a single label of its axis can be meant.
        let single = |m: &Mention| candidates.iter().filter(|c| c.0.axis == m.axis).count() == 1;
        let mut taken = Vec::new();
        for (mention, at) in candidates.iter().filter(|candidate| single(&candidate.0)) {
            self.claim.mentions.push(*mention);
            taken.extend(at);
        }
        taken
    }
}

/// Parses the size in a label or a word: `4b`, `350m`.
pub(crate) fn size_of(word: &str) -> Option<f64> {
    let (number, scale) = match word.as_bytes().last()? {
        b'b' => (&word[..word.len() - 1], 1e9),
        b'm' => (&word[..word.len() - 1], 1e6),
        b'k' => (&word[..word.len() - 1], 1e3),
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}
