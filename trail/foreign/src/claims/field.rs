//! Judges statements about all the numbers that a sentence names: bounds, ranges and trends.

use std::collections::BTreeSet;

use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts, lines};
use crate::claims::judge::{HOLDS, Ruling, comparable, contradicted, select};
use crate::claims::lexicon::Many;
use crate::claims::sentence::{Claim, Mention, Stated};
use crate::number::{Quantity, brief};

/// Labels of summary rows.
#[rustfmt::skip]
const SUMMARIES: &[&str] = &["total", "sum", "mean", "average", "all", "overall", "median"];

/// Things that a row may summarize. A statement about each of them is not about the rows.
const BELOW_ROWS: &[&str] = &["run", "request", "test", "query", "point", "case"];

/// Whether only one column has numbers with a unit.
pub(super) fn only_of_unit(facts: &Facts<'_>, number: &Quantity) -> bool {
    let of_unit = |fact: &&Fact| comparable(number, &fact.value);
    let fitting = facts.facts.iter().filter(of_unit);
    let columns: BTreeSet<Option<usize>> = fitting.map(|fact| facts.column(fact)).collect();
    facts.across.is_some() && columns.len() == 1
}

/// The numbers of one metric that a sentence names, without totals, and in the unit of a stated number.
fn field<'a>(claim: &Claim, facts: &'a Facts<'_>, stated: &Quantity) -> Option<Vec<&'a Fact>> {
    let below = |word: &String| {
        BELOW_ROWS.contains(&word.as_str())
            && !facts.axes.iter().any(|axis| axis.name.contains(word))
    };
    if claim.words.iter().any(below) {
        return None;
    }
    let summary = |(axis, at): (usize, &Option<usize>)| {
        let value = at.map(|at| &facts.axes[axis].values[at]);
        let first = value.and_then(|value| value.words.first());
        Some(axis) != facts.across && first.is_some_and(|w| SUMMARIES.contains(&w.as_str()))
    };
    let mut candidates = select(facts, claim, &claim.mentions);
    candidates
        .retain(|fact| comparable(stated, &fact.value) && !fact.at.iter().enumerate().any(summary));
    let columns: BTreeSet<Option<usize>> = candidates.iter().map(|f| facts.column(f)).collect();
    let named = |across: usize| !stated.unit.is_empty() || claim.on(across).next().is_some();
    let unit = &candidates.first()?.value.unit;
    let units = candidates
        .iter()
        .all(|fact| fact.value.unit == *unit && fact.high.is_none());
    (columns.len() == 1 && facts.across.is_none_or(named) && units).then_some(candidates)
}

/// The stated number, excluding the count of rows.
fn stated(claim: &Claim) -> Option<&Stated> {
    let mut numbers = claim.numbers.iter().filter(|stated| {
        !(stated.high.is_none()
            && stated.low.is_count()
            && claim.count == Some(stated.low.value)
            && claim.numbers.len() > 1)
    });
    let first = numbers.next()?;
    numbers.next().is_none().then_some(first)
}

/// Judges `All instances deliver more than 6,000 tok/s`, `three of the four stay below 100 ms`,
/// `no card exceeds 600 W`.
pub(super) fn bound(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let upper = claim.bound?;
    let Stated {
        low: limit, high, ..
    } = stated(claim)?;
    // An objective may be about a metric that the table does not have.
    let named = facts
        .across
        .is_some_and(|across| claim.on(across).next().is_some());
    if high.is_some() || claim.than.is_some() || limit.rough || claim.objective && !named {
        return None;
    }
    // Rounding may hide on which side of the bound a number lies.
    let beyond = |fact: &Fact, within: bool| {
        let (value, half) = fact.in_unit_of(limit);
        if upper == within {
            value + half < limit.value
        } else {
            value - half > limit.value
        }
    };
    if let Some(only) = claim.only {
        return exceptions(claim, facts, limit, only, beyond);
    }
    let field = field(claim, facts, limit)?;
    let filtered = |within: bool| -> Vec<&Fact> {
        let chosen = field.iter().filter(|fact| beyond(fact, within));
        chosen.copied().collect()
    };
    let (within, outside) = (filtered(true), filtered(false));
    let (n, sure, most) = (field.len(), within.len(), field.len() - outside.len());
    let fits = |k: f64| k >= sure as f64 && k <= most as f64;
    let rows = claim.mentions.iter().any(|m| Some(m.axis) != facts.across);
    let lasting = claim.lasts();
    let holds = match (claim.part, claim.count, claim.many) {
        (Some((k, m)), _, None) => m != n as f64 || fits(k),
        // All of a stated number.
        (None, Some(k), Some(Many::Every | Many::Both)) => k != n as f64 || outside.is_empty(),
        (None, Some(k), None) => rows || fits(k),
        // `Both` of a larger field means two that another sentence names.
        (None, None, Some(Many::Both)) if n != 2 => return None,
        (None, None, Some(Many::Every | Many::Both)) => outside.is_empty(),
        (None, None, Some(Many::No)) => sure == 0,
        (None, None, Some(Many::Most)) => 2 * most > n,
        (None, None, None) if lasting || claim.has_levels() || n == 1 => outside.is_empty(),
        _ => return None,
    };
    if holds {
        return HOLDS;
    }
    let (count, cells) = match claim.many {
        Some(Many::No) => (sure, within),
        _ => (most, outside),
    };
    contradicted(format!("it holds for {count} of {n}"), &cells)
}

/// Judges `Only Kite stays below 100 ms`, `All but Kite stay below 100 ms`: the rows that keep the bound.
fn exceptions(
    claim: &Claim,
    facts: &Facts<'_>,
    limit: &Quantity,
    only: bool,
    beyond: impl Fn(&Fact, bool) -> bool,
) -> Ruling {
    let (named, rest): (Vec<Mention>, Vec<Mention>) = claim
        .mentions
        .iter()
        .partition(|m| Some(m.axis) != facts.across);
    let axis = named.first()?.axis;
    let plain = claim.relation.is_none() && claim.part.is_none() && only == claim.many.is_none();
    if named.iter().any(|m| m.axis != axis) || !plain {
        return None;
    }
    let negative = claim.many == Some(Many::No);
    let open = Claim {
        mentions: rest,
        ..claim.clone()
    };
    let mut wrong = field(&open, facts, limit)?;
    // Of several numbers of a row, one may be enough.
    let numbers = |m: &Mention| wrong.iter().filter(|f| f.at[axis] == Some(m.value)).count();
    if named.iter().any(|m| numbers(m) > 1) {
        return None;
    }
    wrong.retain(|fact| {
        let listed = named.iter().any(|m| fact.at[axis] == Some(m.value));
        beyond(fact, listed == (only == negative))
    });
    if wrong.is_empty() {
        return HOLDS;
    }
    let rows: Vec<&str> = wrong
        .iter()
        .take(3)
        .map(|fact| fact.place.1.as_str())
        .collect();
    contradicted(format!("it does not hold for {}", rows.join(", ")), &wrong)
}

/// Judges `TTFT stays between 60 and 140 ms`: no number may lie beyond the ends.
pub(super) fn enclosed(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let Stated { low, high, .. } = stated(claim)?;
    let high = high.as_ref()?;
    let field = field(claim, facts, high)?;
    let all = claim.range || claim.lasts() || claim.many.is_some() || field.len() == 1;
    let other = claim.many.is_some_and(|many| many != Many::Every);
    let counted = claim.count.is_none_or(|count| count == field.len() as f64);
    let plain = !claim.compares() && claim.only.is_none();
    if !plain || !all || other || !counted || low.rough || high.rough {
        return None;
    }
    let mut outside = field;
    outside.retain(|fact| {
        let (value, half) = fact.in_unit_of(high);
        value + half < low.value - low.half || value - half > high.value + high.half
    });
    let Some(first) = outside.first() else {
        return HOLDS;
    };
    contradicted(format!("{} lies beyond the range", first.place.1), &outside)
}

/// The claim of `TTFT ranges from 69 ms (Kite) to 131 ms (Wren)` with its numbers as one range, and without the labels
/// of its ends.
fn ends(claim: &Claim, facts: &Facts<'_>) -> Option<Claim> {
    let [a, b] = claim.numbers.as_slice() else {
        return None;
    };
    let mut labels = claim
        .mentions
        .iter()
        .filter(|m| Some(m.axis) != facts.across);
    let (one, other) = (labels.next()?, labels.next()?);
    let each = a.low.start < one.start && one.start < b.low.start && b.low.start < other.start;
    let same = a.low.unit == b.low.unit && one.axis == other.axis && one.value != other.value;
    if !each || !same || labels.next().is_some() || a.high.is_some() || b.high.is_some() {
        return None;
    }
    let (low, high) = if a.low.value <= b.low.value {
        (a, b)
    } else {
        (b, a)
    };
    let joined = Stated {
        high: Some(high.low.clone()),
        ..low.clone()
    };
    Some(Claim {
        mentions: claim.on(facts.across?).copied().collect(),
        numbers: vec![joined],
        ..claim.clone()
    })
}

/// Judges `TTFT ranges from 69 to 131 ms`: the ends must be the smallest and the largest number.
pub(super) fn range(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    if let Some(joined) = ends(claim, facts) {
        return range(&joined, facts);
    }
    let Stated { low, high, .. } = stated(claim)?;
    let high = high.as_ref()?;
    let many = claim.many.is_some_and(|many| many != Many::Every);
    let plain = !claim.compares() && claim.only.is_none();
    if !plain || many || claim.count.is_some() || low.rough || high.rough {
        return None;
    }
    let mut field = field(claim, facts, high)?;
    field.sort_by(|a, b| a.value.value.total_cmp(&b.value.value));
    let [least, _, .., most] = field.as_slice() else {
        return None;
    };
    if least.rounds_to(low) && most.rounds_to(high) {
        return HOLDS;
    }
    let message = format!("the range is {} to {}", least.place.1, most.place.1);
    contradicted(message, &[*least, *most])
}

/// Judges `Throughput rises with every step`: no step along the levels may go the other way.
pub(super) fn trend(claim: &Claim, facts: &Facts<'_>, up: bool) -> Ruling {
    let every = claim.many == Some(Many::Every) || claim.steady;
    let plain = !claim.compares() && claim.count.is_none();
    let axis = facts.ladder().filter(|_| every && plain)?;
    let metric = facts.across.is_none_or(|across| {
        across == axis || facts.axes[across].values.len() == 1 || claim.on(across).next().is_some()
    });
    if !metric || claim.on(axis).next().is_some() {
        return None;
    }
    let level = |fact: &Fact| facts.axes[axis].values[fact.at[axis]?].level;
    let mut against: Vec<&Fact> = Vec::new();
    let mut long = false;
    for mut line in lines(select(facts, claim, &claim.mentions), axis).into_values() {
        line.sort_by(|a, b| {
            level(a)
                .partial_cmp(&level(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        long |= line.len() >= 3;
        for two in line.windows(2) {
            let (a, b) = (&two[0].value, &two[1].value);
            let (low, high) = if up { (a, b) } else { (b, a) };
            if low.value - low.half > high.value + high.half {
                against.extend(two);
            }
        }
    }
    let [first, second, ..] = against.as_slice() else {
        return long.then_some(None);
    };
    if !long {
        return None;
    }
    let message = format!("it goes from {} to {}", first.place.1, second.place.1);
    contradicted(message, &against)
}

/// Judges `From 32 to 64 clients throughput grows by 28 %`: the change of a metric between two levels. If the sentence
/// does not name the metric, all must contradict it.
pub(super) fn span(claim: &Claim, facts: &Facts<'_>, axis: usize, ends: [usize; 2]) -> Ruling {
    let Stated {
        low: stated, high, ..
    } = stated(claim)?;
    let rate = stated.is_percent() || stated.unit == "x";
    let others = claim.than.is_some()
        || claim.many.is_some()
        || claim.part.is_some()
        || claim.count.is_some()
        || claim.bound.is_some();
    // A gain without a metric may be that of one system over another; a gain of a metric is along the levels.
    let metric = claim.mentions.iter().any(|m| Some(m.axis) == facts.across);
    if high.is_some()
        || !rate
        || others
        || claim.relation.is_some() && !metric
        || claim.on(axis).next().is_some()
    {
        return None;
    }
    let at_end = |fact: &&Fact| ends.iter().any(|end| fact.at[axis] == Some(*end));
    let selected = select(facts, claim, &claim.mentions);
    let lines = lines(selected.into_iter().filter(at_end), axis);
    // Only the metric may be left open.
    let rest = lines.keys().map(|key| {
        let mut key = key.clone();
        if let Some(across) = facts.across.filter(|across| *across != axis) {
            key[across] = None;
        }
        key
    });
    if rest.collect::<BTreeSet<_>>().len() != 1 {
        return None;
    }
    let mut wrong: Vec<&Fact> = Vec::new();
    for line in lines.values() {
        let end = |end: usize| line.iter().find(|fact| fact.at[axis] == Some(ends[end]));
        let (a, b) = (end(0)?, end(1)?);
        let zero = a.value.value == 0.0 || b.value.value == 0.0;
        if zero || stated.rough || is_change(stated, &a.value, &b.value) {
            return HOLDS;
        }
        wrong.extend([*a, *b]);
    }
    let [a, b, ..] = wrong.as_slice() else {
        return None;
    };
    let change = 100.0 * (b.value.value - a.value.value) / a.value.value;
    let message = format!("{} to {} is {} %", a.place.1, b.place.1, brief(change));
    contradicted(message, &wrong)
}
