//! The numbers that labels yield: cells, aggregates, changes.

use std::collections::{BTreeMap, BTreeSet};

use super::{COMPARING, DIFFERENCE, Saying, WHOLE, relative};
use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts, lines};
use crate::claims::judge::comparable;
use crate::claims::sentence::Mention;
use crate::number::{Quantity, median};

/// A number that the named labels yield, with the cells behind it.
pub(super) struct Yield<'a> {
    pub(super) value: f64,
    pub(super) cells: Vec<&'a Fact>,
}

/// Whether a number can be that of a cell, rounded.
pub(super) fn states(number: &Quantity, fact: &Fact) -> bool {
    (comparable(number, &fact.value) || fact.value.unit.is_empty()) && fact.rounds_to(number)
}

/// The facts of every column.
fn columns<'a>(facts: &Facts<'_>, chosen: &[&'a Fact]) -> BTreeMap<Option<usize>, Vec<&'a Fact>> {
    let mut columns: BTreeMap<Option<usize>, Vec<&Fact>> = BTreeMap::new();
    for fact in chosen {
        columns.entry(facts.column(fact)).or_default().push(fact);
    }
    columns
}

/// The named values of an axis.
fn asked(mentions: &[Mention], axis: usize) -> BTreeSet<usize> {
    let own = mentions.iter().filter(|m| m.axis == axis);
    own.map(|m| m.value).collect()
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
    let mut own = facts.named(mentions, None);
    own.retain(unit);
    let columns = columns(facts, &own);
    let spoken = mentions.iter().any(|m| Some(m.axis) == facts.across);
    // A number without a unit may be anything, unless the sentence names its column.
    if number.is_count() && !spoken {
        return none;
    }
    if !mentions.iter().any(|m| Some(m.axis) != facts.across) {
        let column = if columns.len() == 1 { own } else { Vec::new() };
        let aggregates = columns.into_values().map(|cells| Yield {
            value: aggregate(saying, number, &cells),
            cells,
        });
        return (aggregates.collect(), column);
    }
    let settled = (0..facts.axes.len()).all(|axis| {
        Some(axis) == facts.across
            || facts.axes[axis].values.len() < 2
            || mentions.iter().any(|m| m.axis == axis)
            || own.iter().all(|f| f.at[axis].is_none())
    });
    if columns.len() != 1 || !settled || own.len() > 4 {
        return none;
    }
    let beside = |fact: &&Fact| facts.column(fact) == facts.column(own[0]) && unit(fact);
    let column = facts.facts.iter().filter(beside).collect();
    let yields = own.iter().map(|fact| Yield {
        value: fact.in_unit_of(number).0,
        cells: vec![*fact],
    });
    (yields.collect(), column)
}

/// The sum, mean and median of cells, and their range in percent of the least.
fn aggregates(number: &Quantity, cells: &[&Fact]) -> [f64; 4] {
    let mut values: Vec<f64> = cells.iter().map(|fact| fact.in_unit_of(number).0).collect();
    values.sort_by(f64::total_cmp);
    let (n, sum) = (values.len(), values.iter().sum::<f64>());
    let spread = 100.0 * (values[n - 1] - values[0]) / values[0].abs();
    [sum, sum / n as f64, median(&values), spread]
}

/// The mean, median or sum of cells, as the clause asks.
fn aggregate(saying: &Saying<'_>, number: &Quantity, cells: &[&Fact]) -> f64 {
    let [sum, mean, median, _] = aggregates(number, cells);
    let asks = |word: &str| {
        saying.beside(number, &[word]) || !saying.beside(number, WHOLE) && saying.has(&[word])
    };
    if asks("median") {
        median
    } else if asks("mean") {
        mean
    } else {
        sum
    }
}

/// The two sides of a change along an axis: those that the sentence names, or the only two there are.
fn sides(
    number: &Quantity,
    facts: &Facts<'_>,
    mentions: &[Mention],
    axis: usize,
) -> Option<BTreeSet<usize>> {
    let values = asked(mentions, axis);
    let several = facts.axes[axis].values.len();
    match values.len() {
        2 => Some(values),
        1 if number.unit == "pp" && several <= 4 => Some((0..several).collect()),
        0 if mentions.iter().any(|m| m.axis != axis) => {
            let mut units: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
            for fact in facts.named(mentions, None) {
                let unit = units.entry(&fact.value.unit).or_default();
                unit.extend(fact.at[axis]);
            }
            units.retain(|unit, sides| sides.len() == 2 && !matches!(*unit, "%" | "x"));
            let mut pairs = units.into_values();
            pairs.next().filter(|_| pairs.next().is_none())
        }
        _ => None,
    }
}

/// The changes and factors between the cells that the labels name.
pub(super) fn changes<'a>(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &'a Facts<'_>,
    mentions: &[Mention],
) -> Vec<Yield<'a>> {
    let spoken = mentions.iter().any(|m| Some(m.axis) == facts.across);
    let fast = saying.has(SPEED) && !spoken;
    let mut yields: Vec<Yield<'a>> = Vec::new();
    for axis in 0..facts.axes.len() {
        let Some(sides) = sides(number, facts, mentions, axis) else {
            continue;
        };
        let values = asked(mentions, axis);
        let on = |fact: &Fact, list: &BTreeSet<usize>| {
            fact.at[axis].is_some_and(|at| list.contains(&at))
        };
        let mut chosen = facts.named(mentions, Some(axis));
        chosen.retain(|fact| {
            let unit = relative(number) || comparable(number, &fact.value);
            fact.value.value != 0.0 && on(fact, &sides) && (!fast || fact.is_speed()) && unit
        });
        for group in lines(chosen, axis).values() {
            for (i, a) in group.iter().enumerate() {
                for b in &group[..i] {
                    let meant = values.len() != 1 || on(a, &values) || on(b, &values);
                    if a.value.unit != b.value.unit || !meant {
                        continue;
                    }
                    let size = |fact: &Fact| match relative(number) {
                        true => fact.value.value,
                        false => fact.in_unit_of(number).0,
                    };
                    let forms = forms(saying, number, Some(facts), (size(a), size(b)));
                    yields.extend(forms.into_iter().map(|value| Yield {
                        value,
                        cells: vec![*b, *a],
                    }));
                }
            }
        }
    }
    // A number beside it that is one of the cells shows which column is meant.
    let beside = |own: &Yield<'_>| {
        let others = saying.others(number).filter(|n| !relative(n));
        let mut others = others.flat_map(|n| own.cells.iter().map(move |fact| states(n, fact)));
        others.any(|states| states)
    };
    if yields.iter().any(beside) {
        yields.retain(beside);
    }
    yields
}

/// The changes between the two other numbers of a sentence that has no more.
pub(super) fn own_changes(saying: &Saying<'_>, number: &Quantity) -> Vec<f64> {
    let others: Vec<&Quantity> = saying.others(number).collect();
    match others.as_slice() {
        // Words of speed are about times and rates, and not about the memory of `80 GB → 141 GB`.
        [a, _] if saying.has(SPEED) && a.measure().0 != "time" && !a.unit.contains('/') => {
            Vec::new()
        }
        [a, b]
            if relative(number)
                && a.unit == b.unit
                && !relative(a)
                && (!a.unit.is_empty() || a.value >= 100.0 && b.value >= 100.0)
                && !is_change(number, a, b) =>
        {
            forms(saying, number, None, (a.value, b.value))
        }
        _ => Vec::new(),
    }
}

/// Words of speed, which apply to rates and times; of a loss; of a gain.
#[rustfmt::skip]
const SPEED: &[&str] = &["fast", "faster", "slow", "slower", "speed", "speedup", "quicker"];
#[rustfmt::skip]
const LESS: &[&str] = &[
    "less", "lower", "fewer", "reduce", "reduction", "down", "drop", "fell", "fall", "cut", "lose", "loss", "smaller",
    "shorter", "slower", "below", "decrease", "decreased", "dropped", "decline", "declined", "shrank", "cost",
];
#[rustfmt::skip]
const MORE: &[&str] = &[
    "more", "higher", "faster", "increase", "gain", "up", "above", "improve", "improvement", "speedup", "quicker",
    "larger", "rose", "rise", "grew", "grow", "increased", "climbed",
];

/// The changes of two cells that a number may state; the words choose between a share, a loss and a gain.
fn forms(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: Option<&Facts<'_>>,
    (a, b): (f64, f64),
) -> Vec<f64> {
    let (low, high) = (a.min(b), a.max(b));
    // A column `Cost` or `Gain` says nothing about the direction.
    let says =
        |list: &[&str]| facts.map_or_else(|| saying.has(list), |facts| saying.says(facts, list));
    let (less, more) = if number.signed {
        (number.value < 0.0, number.value > 0.0)
    } else {
        (says(LESS), says(MORE))
    };
    match number.unit.as_str() {
        "x" => return vec![high / low],
        "%" => {}
        _ => return vec![high - low],
    }
    let (loss, gain) = (100.0 * (high - low) / high, 100.0 * (high - low) / low);
    match (less, more) {
        _ if saying.after(number).trim_start().starts_with("of ") => vec![100.0 * low / high],
        (true, false) => vec![loss],
        (false, true) => vec![gain],
        (true, true) => vec![loss, gain],
        (false, false) => Vec::new(),
    }
}

/// Whether a number follows from a table or from the other numbers of its sentence, in any simple way.
pub(super) fn follows(
    saying: &Saying<'_>,
    number: &Quantity,
    facts: &Facts<'_>,
    all: &[Mention],
) -> bool {
    let others: Vec<&Quantity> = saying.others(number).collect();
    let beside = others.iter().enumerate().any(|(i, a)| {
        others[..i].iter().any(|b| {
            let (x, y) = (a.value, b.value);
            relative(number) && is_change(number, a, b)
                || [x + y, (x - y).abs(), x * y]
                    .iter()
                    .any(|v| number.agrees(*v, *v))
        })
    });
    let mentions = saying.scoped(number, facts, all);
    let (start, end) = saying.half(number, facts, all);
    // A column that the clause names is the only one that it is about.
    let mut free = mentions.clone();
    if !mentions
        .iter()
        .any(|m| Some(m.axis) == facts.across && (start..end).contains(&m.start))
    {
        free.retain(|m| Some(m.axis) != facts.across);
    }
    let mut own = facts.named(&free, None);
    if beside || own.iter().any(|fact| states(number, fact)) {
        return true;
    }
    // Between a named cell and another in its row or column; where the sentence names both sides, between these.
    let axes = 0..facts.axes.len();
    let asked: Vec<BTreeSet<usize>> = axes.clone().map(|axis| asked(&mentions, axis)).collect();
    let open = saying.has(OPEN) || !asked.iter().any(|values| values.len() == 1);
    let other = |a: &Fact, b: &Fact| {
        let mut apart = axes.clone().filter(|axis| a.at[*axis] != b.at[*axis]);
        let (Some(axis), None) = (apart.next(), apart.next()) else {
            return false;
        };
        a.value.unit == b.value.unit
            && match asked[axis].len() {
                0 => true,
                1 => open || !relative(number),
                _ => b.at[axis].is_some_and(|at| asked[axis].contains(&at)),
            }
    };
    let apart = saying.has(DIFFERENCE) || saying.has(COMPARING);
    let joined = saying.has(WHOLE);
    let derives = |a: &Fact, b: &Fact| {
        if relative(number) || number.unit.is_empty() && is_change(number, &a.value, &b.value) {
            return is_change(number, &a.value, &b.value);
        }
        let ((x, half), (y, other)) = (a.in_unit_of(number), b.in_unit_of(number));
        let (gap, sum, slack) = ((x - y).abs(), x + y, half + other);
        comparable(number, &a.value)
            && (apart && number.agrees(gap - slack, gap + slack)
                || joined && number.agrees(sum - slack, sum + slack))
    };
    let all: Vec<&Fact> = facts.facts.iter().collect();
    if own.is_empty() {
        own.clone_from(&all);
    }
    if own
        .iter()
        .any(|fact| of_column(saying, number, facts, fact))
    {
        return true;
    }
    let derived = |a: &&Fact| facts.facts.iter().any(|b| other(a, b) && derives(a, b));
    if !(free.is_empty() && joined) && own.len() * all.len() <= 100_000 && own.iter().any(derived) {
        return true;
    }
    let aggregated = |column: &Vec<&Fact>| {
        let mut values = aggregates(number, column).into_iter();
        values.any(|v| number.rounds(v, v))
    };
    (joined || mentions.is_empty()) && columns(facts, &all).values().any(aggregated)
}

/// Whether a percentage is the share of a cell in its column, or its change against the mean or median of the column.
fn of_column(saying: &Saying<'_>, number: &Quantity, facts: &Facts<'_>, own: &Fact) -> bool {
    let share = saying.after(number).trim_start().starts_with("of ") || saying.has(SHARE);
    let mean = saying.has(&["mean", "median"]);
    if !number.is_percent() || !share && !mean {
        return false;
    }
    let beside =
        |fact: &&Fact| facts.column(fact) == facts.column(own) && fact.value.unit == own.value.unit;
    let column: Vec<&Fact> = facts.facts.iter().filter(beside).collect();
    let [sum, average, median, _] = aggregates(&own.value, &column);
    let value = own.value.value;
    let change = |base: f64| 100.0 * (value - base).abs() / base.abs();
    let agrees = |stated: f64| {
        let size = Quantity {
            value: number.value.abs(),
            ..number.clone()
        };
        size.agrees(stated, stated)
    };
    share && agrees(100.0 * value / sum)
        || mean && (agrees(change(average)) || agrees(change(median)))
}

/// Words by which a percentage is a share.
const SHARE: &[&str] = &["share", "account", "fraction", "proportion", "portion"];

/// Words that name another side, wherever it stands.
#[rustfmt::skip]
const OPEN: &[&str] = &["than", "over", "versu", "vs", "versus", "compared", "against", "of"];
