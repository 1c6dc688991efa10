//! The numbers that labels yield: cells, aggregates, changes.

use std::collections::{BTreeMap, BTreeSet};

use super::{COMPARING, DIFFERENCE, Saying, WHOLE, relative};
use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::comparable;
use crate::claims::sentence::Mention;
use crate::number::{Quantity, measure};

/// A number that the named labels yield, with the cells behind it.
pub(super) struct Yield<'a> {
    pub(super) value: f64,
    pub(super) cells: Vec<&'a Fact>,
}

/// The factor from the unit of a cell to that of a number.
pub(super) fn scale(number: &Quantity, fact: &Fact) -> f64 {
    if fact.value.unit == number.unit {
        1.0
    } else {
        measure(&fact.value.unit).1 / number.measure().1
    }
}

pub(super) fn same(number: &Quantity, fact: &Fact) -> bool {
    let scale = scale(number, fact);
    let (value, half) = (fact.value.value * scale, fact.value.half * scale);
    (comparable(number, &fact.value) || fact.value.unit.is_empty())
        && number.rounds(value - half, value + half)
}

/// The facts at the named places. On an axis with several named labels, each of them fits.
pub(super) fn named<'a>(
    facts: &'a Facts<'_>,
    mentions: &[Mention],
    free: Option<usize>,
) -> Vec<&'a Fact> {
    let mut asked: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for mention in mentions.iter().filter(|m| Some(m.axis) != free) {
        asked.entry(mention.axis).or_default().push(mention.value);
    }
    let fits = |fact: &&Fact| {
        asked
            .iter()
            .all(|(axis, values)| fact.at[*axis].is_some_and(|at| values.contains(&at)))
    };
    facts.facts.iter().filter(fits).collect()
}

/// The cells that the labels name and that the number may state, and all cells of their column.
pub(super) fn cells<'a>(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &'a Facts<'_>,
    mentions: &[Mention],
) -> (Vec<Yield<'a>>, Vec<&'a Fact>) {
    let none = (Vec::new(), Vec::new());
    let unit = |fact: &&Fact| comparable(number, &fact.value) && fact.high.is_none();
    let own: Vec<&Fact> = named(facts, mentions, None)
        .into_iter()
        .filter(unit)
        .collect();
    let mut columns: BTreeMap<Option<usize>, Vec<&Fact>> = BTreeMap::new();
    for fact in &own {
        let column = facts.across.and_then(|across| fact.at[across]);
        columns.entry(column).or_default().push(fact);
    }
    let spoken = facts
        .across
        .is_some_and(|across| mentions.iter().any(|m| m.axis == across));
    let vague = number.unit.is_empty() && !spoken && number.is_count();
    if !mentions.iter().any(|m| Some(m.axis) != facts.across) && !vague {
        let aggregates = columns.into_values().map(|cells| Yield {
            value: aggregate(saying, number, &cells),
            cells,
        });
        let aggregates: Vec<Yield<'_>> = aggregates.collect();
        let column = if aggregates.len() == 1 {
            own
        } else {
            Vec::new()
        };
        return (aggregates, column);
    }
    // A number without a unit may be anything, unless the sentence names its column.
    if own.is_empty() || columns.len() != 1 || vague {
        return none;
    }
    let across = columns.into_keys().next().flatten();
    let settled = (0..facts.axes.len()).all(|axis| {
        Some(axis) == facts.across
            || facts.axes[axis].values.len() < 2
            || mentions.iter().any(|m| m.axis == axis)
            || own.iter().all(|f| f.at[axis].is_none())
    });
    if !settled || own.len() > 4 {
        return none;
    }
    let column = facts
        .facts
        .iter()
        .filter(|f| facts.across.is_none_or(|a| f.at[a] == across))
        .filter(unit)
        .collect();
    let yields = own.into_iter().map(|fact| Yield {
        value: fact.value.value * scale(number, fact),
        cells: vec![fact],
    });
    (yields.collect(), column)
}

/// The mean, median or sum of cells, as the clause asks.
fn aggregate(saying: &Saying<'_>, number: &Quantity, cells: &[&Fact]) -> f64 {
    let mut values: Vec<f64> = cells
        .iter()
        .map(|fact| fact.value.value * scale(number, fact))
        .collect();
    values.sort_by(f64::total_cmp);
    let (n, sum) = (values.len(), values.iter().sum::<f64>());
    let asks = |word: &str| {
        saying.beside(number, &[word]) || !saying.beside(number, WHOLE) && saying.has(&[word])
    };
    if asks("median") {
        f64::midpoint(values[n / 2], values[(n - 1) / 2])
    } else if asks("mean") {
        sum / n as f64
    } else {
        sum
    }
}

/// The changes and factors between the cells that the labels name.
pub(super) fn changes<'a>(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &'a Facts<'_>,
    mentions: &[Mention],
) -> Vec<Yield<'a>> {
    let fast = saying.has(&[
        "fast", "faster", "slow", "slower", "speed", "speedup", "quicker",
    ]);
    let spoken = facts
        .across
        .is_some_and(|across| mentions.iter().any(|m| m.axis == across));
    let mut yields: Vec<Yield<'a>> = Vec::new();
    for axis in 0..facts.axes.len() {
        let values: BTreeSet<usize> = mentions
            .iter()
            .filter(|m| m.axis == axis)
            .map(|m| m.value)
            .collect();
        let several = facts.axes[axis].values.len();
        let sides: Vec<usize> = match values.len() {
            2 => values.iter().copied().collect(),
            1 if number.unit == "pp" && several <= 4 => (0..several).collect(),
            0 if mentions.iter().any(|m| m.axis != axis) => {
                let mut units: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
                for fact in named(facts, mentions, None) {
                    units
                        .entry(&fact.value.unit)
                        .or_default()
                        .extend(fact.at[axis]);
                }
                let mut pairs = units
                    .into_iter()
                    .filter(|unit| unit.1.len() == 2 && !matches!(unit.0, "%" | "x"));
                match (pairs.next(), pairs.next()) {
                    (Some((_, pair)), None) => pair.into_iter().collect(),
                    _ => continue,
                }
            }
            _ => continue,
        };
        let mut groups: BTreeMap<Vec<Option<usize>>, Vec<&Fact>> = BTreeMap::new();
        for fact in named(facts, mentions, Some(axis)) {
            let unit = fact.value.unit.as_str();
            let speed = unit.ends_with("/s") || measure(unit).0 == "time";
            let counted =
                fact.value.value != 0.0 && fact.at[axis].is_some_and(|at| sides.contains(&at));
            if counted && !(fast && !spoken && !speed) {
                let mut key = fact.at.clone();
                key[axis] = None;
                groups.entry(key).or_default().push(fact);
            }
        }
        for group in groups.values() {
            for (i, a) in group.iter().enumerate() {
                for b in &group[..i] {
                    let named = |f: &Fact| f.at[axis].is_some_and(|at| values.contains(&at));
                    let meant = values.len() != 1 || named(a) || named(b);
                    if a.value.unit == b.value.unit && meant {
                        let size = if relative(number) {
                            1.0
                        } else {
                            scale(number, a)
                        };
                        let forms =
                            forms(saying, number, a.value.value * size, b.value.value * size);
                        yields.extend(forms.into_iter().map(|value| Yield {
                            value,
                            cells: vec![*b, *a],
                        }));
                    }
                }
            }
        }
    }
    // A number beside it that is one of the cells shows which column is meant.
    let beside = |candidate: &Yield<'_>| {
        let mut others = saying
            .numbers
            .iter()
            .filter(|n| n.start != number.start && !relative(n));
        others.any(|n| candidate.cells.iter().any(|fact| same(n, fact)))
    };
    if yields.iter().any(beside) {
        yields.retain(beside);
    }
    yields
}

/// The changes between the two other numbers of a sentence that has no more.
pub(super) fn own_changes(saying: &Saying<'_>, number: &Quantity) -> Vec<f64> {
    let others: Vec<&Quantity> = saying
        .numbers
        .iter()
        .filter(|n| n.start != number.start)
        .collect();
    match others.as_slice() {
        [a, b]
            if relative(number)
                && a.unit == b.unit
                && !relative(a)
                && (!a.unit.is_empty() || a.value >= 100.0 && b.value >= 100.0)
                && a.value != 0.0
                && b.value != 0.0 =>
        {
            if is_change(number, a, b) {
                return Vec::new();
            }
            forms(saying, number, a.value, b.value)
        }
        _ => Vec::new(),
    }
}

/// The changes of two cells that a number may state; the words choose between a share, a loss and a gain.
fn forms(saying: &Saying<'_>, number: &Quantity, a: f64, b: f64) -> Vec<f64> {
    let (low, high) = (a.min(b), a.max(b));
    let less = saying.has(&[
        "less",
        "lower",
        "fewer",
        "reduce",
        "reduction",
        "down",
        "drop",
        "fell",
        "fall",
        "cut",
        "lose",
        "loss",
        "smaller",
        "shorter",
        "slower",
        "below",
        "decrease",
        "cost",
    ]);
    let more = saying.has(&[
        "more",
        "higher",
        "faster",
        "increase",
        "gain",
        "up",
        "above",
        "improve",
        "improvement",
        "speedup",
        "quicker",
        "larger",
    ]);
    let (less, more) = if number.signed {
        (number.value < 0.0, number.value > 0.0)
    } else {
        (less, more)
    };
    match number.unit.as_str() {
        "x" => vec![high / low],
        unit if unit != "%" => vec![high - low],
        _ if saying
            .text
            .get(number.end - saying.offset..)
            .is_some_and(|rest| rest.trim_start().starts_with("of ")) =>
        {
            vec![100.0 * low / high]
        }
        _ if less && !more => vec![100.0 * (high - low) / high],
        _ if more && !less => vec![100.0 * (high - low) / low],
        _ if less || more => vec![100.0 * (high - low) / high, 100.0 * (high - low) / low],
        _ => Vec::new(),
    }
}

/// Whether a number follows from a table or from the other numbers of its sentence, in any simple way.
pub(super) fn follows(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &Facts<'_>,
    all: &[Mention],
) -> bool {
    let others: Vec<&Quantity> = saying
        .numbers
        .iter()
        .filter(|n| n.start != number.start)
        .collect();
    let beside = others.iter().enumerate().any(|(i, a)| {
        others[..i].iter().any(|b| {
            relative(number) && is_change(number, a, b)
                || [
                    a.value + b.value,
                    (a.value - b.value).abs(),
                    a.value * b.value,
                ]
                .iter()
                .any(|v| number.agrees(*v, *v))
        })
    });
    let mentions = saying.scoped(number, all);
    let (start, end) = saying.clause(number);
    // A column that the clause names is the only one that it is about.
    let strict = mentions
        .iter()
        .any(|m| Some(m.axis) == facts.across && (start..end).contains(&m.start));
    let free: Vec<Mention> = mentions
        .iter()
        .filter(|m| strict || Some(m.axis) != facts.across)
        .copied()
        .collect();
    let own = named(facts, &free, None);
    if beside || own.iter().any(|fact| same(number, fact)) {
        return true;
    }
    // Between a named cell and another in its row or column; where the sentence names both sides, between these.
    let sides = |axis: usize| {
        let values: BTreeSet<usize> = mentions
            .iter()
            .filter(|m| m.axis == axis)
            .map(|m| m.value)
            .collect();
        values
    };
    let asked: Vec<BTreeSet<usize>> = (0..facts.axes.len()).map(sides).collect();
    let open = saying.has(&[
        "than", "over", "versu", "vs", "versus", "compared", "against", "of",
    ]) || !asked.iter().any(|values| values.len() == 1);
    let other = |a: &&Fact, b: &Fact| {
        let mut apart = (0..facts.axes.len()).filter(|axis| a.at[*axis] != b.at[*axis]);
        let (Some(axis), None) = (apart.next(), apart.next()) else {
            return false;
        };
        let meant = match asked[axis].len() {
            0 => true,
            1 => open || !relative(number),
            _ => b.at[axis].is_some_and(|at| asked[axis].contains(&at)),
        };
        meant && a.value.unit == b.value.unit
    };
    let apart = saying.has(DIFFERENCE) || saying.has(COMPARING);
    let joined = saying.has(WHOLE);
    let derives = |a: &Fact, b: &Fact| {
        if relative(number) {
            is_change(number, &a.value, &b.value)
        } else {
            let factor = scale(number, a);
            let gap = (a.value.value - b.value.value).abs() * factor;
            let sum = (a.value.value + b.value.value) * factor;
            let slack = (a.value.half + b.value.half) * factor;
            comparable(number, &a.value)
                && (apart && number.agrees(gap - slack, gap + slack)
                    || joined && number.agrees(sum - slack, sum + slack))
                || number.unit.is_empty() && is_change(number, &a.value, &b.value)
        }
    };
    let whole = free.is_empty() && saying.has(WHOLE);
    let facts_of = if own.is_empty() {
        facts.facts.iter().collect()
    } else {
        own
    };
    if !whole
        && facts_of.len() * facts.facts.len() <= 100_000
        && facts_of
            .iter()
            .any(|a| facts.facts.iter().any(|b| other(a, b) && derives(a, b)))
    {
        return true;
    }
    (saying.has(WHOLE) || mentions.is_empty()) && aggregated(number, facts)
}

/// Whether a number is the sum, the mean, the median or the spread of a column.
fn aggregated(number: &Quantity, facts: &Facts<'_>) -> bool {
    let mut columns: BTreeMap<Option<usize>, Vec<&Fact>> = BTreeMap::new();
    for fact in &facts.facts {
        columns
            .entry(facts.across.and_then(|a| fact.at[a]))
            .or_default()
            .push(fact);
    }
    columns.values().any(|column| {
        let mut values: Vec<f64> = column
            .iter()
            .map(|f| f.value.value * scale(number, f))
            .collect();
        values.sort_by(f64::total_cmp);
        let (n, sum) = (values.len() as f64, values.iter().sum::<f64>());
        let middle = f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2]);
        let spread = 100.0 * (values[values.len() - 1] - values[0]) / values[0].abs();
        [sum, sum / n, middle, spread]
            .iter()
            .any(|v| number.rounds(*v, *v))
    })
}
