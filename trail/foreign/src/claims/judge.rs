//! Judges a claim on the facts of a table: it holds, it does not, or the table cannot decide.

use std::collections::BTreeMap;

use crate::claims::facts::{Fact, Facts};
use crate::claims::field;
use crate::claims::lexicon::more_is_better;
use crate::claims::pairs::pairs;
use crate::claims::ranks::ranks;
use crate::claims::sentence::{Claim, Mention, Stated, size_of};
use crate::finding::Evidence;
use crate::number::{Quantity, shown};

/// The contradiction to a claim: a message and the cells. `Some(None)` if it holds, `None` if the table cannot decide.
pub(crate) type Ruling = Option<Option<(String, Vec<Evidence>)>>;

/// Judges a claim.
pub(crate) fn judge(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    if claim.unknown > 0 {
        return another_statistic(claim, facts);
    }
    if claim.of_peak {
        return share_of_peak(claim, facts);
    }
    if claim.peak.is_some() {
        return peak(claim, facts);
    }
    if !claim.ranks.is_empty() {
        return ranks(claim, facts);
    }
    if let Some((axis, ends)) = claim.span {
        return field::span(claim, facts, axis, ends);
    }
    if claim.range {
        return field::range(claim, facts);
    }
    if let Some(mean) = claim.aggregate {
        return field::aggregate(claim, facts, mean);
    }
    if claim.relation.is_some() {
        return pairs(claim, facts);
    }
    if claim.bound.is_some() {
        return field::bound(claim, facts);
    }
    if let (Some(count), None) = (claim.count, claim.part)
        && let Some(ruling) = field::rows(claim, facts, count)
    {
        return Some(ruling);
    }
    if let (Some(up), []) = (claim.trend, claim.numbers.as_slice()) {
        return field::trend(claim, facts, up);
    }
    value(claim, facts)
}

/// The facts at the positions that mentions name; several on one axis are alternatives.
pub(super) fn select<'a>(
    facts: &'a Facts<'_>,
    claim: &Claim,
    mentions: &[Mention],
) -> Vec<&'a Fact> {
    facts
        .facts
        .iter()
        .filter(|fact| {
            mentions.iter().all(|mention| {
                mentions.iter().any(|other| {
                    other.axis == mention.axis && fact.at[other.axis] == Some(other.value)
                })
            })
        })
        .filter(|fact| {
            claim.limit.is_none_or(|(axis, most)| {
                let level = fact.at[axis].and_then(|at| facts.axes[axis].values[at].level);
                level.is_some_and(|level| level <= most)
            })
        })
        .filter(|fact| {
            claim.size.is_none_or(|(upper, bound)| {
                let mut sizes = fact.at.iter().enumerate().filter_map(|(axis, value)| {
                    let value = &facts.axes[axis].values[(*value)?];
                    value.words.iter().find_map(|word| size_of(word))
                });
                sizes
                    .next_back()
                    .is_some_and(|size| if upper { size <= bound } else { size >= bound })
            })
        })
        .collect()
}

pub(super) fn evidence(facts: &[&Fact]) -> Vec<Evidence> {
    facts
        .iter()
        .take(8)
        .map(|fact| Evidence::new(fact.place.0.clone(), fact.place.1.clone()))
        .collect()
}

/// Whether two values are equal apart from rounding.
pub(super) fn equal(a: &Quantity, b: &Quantity) -> bool {
    (a.value - b.value).abs() <= 1e-12 * a.value.abs()
}

pub(super) fn better(fact: &Fact) -> Option<bool> {
    more_is_better(&fact.value.unit, &fact.metric)
}

/// Judges a number against the single cell that a sentence names. If the numbers alternate with labels of one axis,
/// each belongs to its label: `0.78 at c=2 and 0.45 at c=4`.
fn value(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    // `rises with every step to 4.90 s`: the quantifier belongs to the trend.
    if claim.many.is_some() && claim.trend.is_none()
        || claim.part.is_some()
        || claim.bound.is_some()
        || claim.than.is_some()
        || claim.numbers.is_empty()
    {
        return None;
    }
    // `On two GPUs Osprey reaches 4,300 tok/s`: a count beside the value may be a condition.
    let beside = |count: f64| {
        let mut numbers = claim.numbers.iter();
        numbers.any(|stated| stated.low.value != count || !stated.low.unit.is_empty())
    };
    if claim.count.is_some_and(beside) || claim.numbers.iter().any(|stated| stated.low.rough) {
        return None;
    }
    let mut wrong = Vec::new();
    for (stated, mentions) in addressed(claim, facts)? {
        let mut selected = select(facts, claim, &mentions);
        // A unit that only one column has identifies the column.
        let by_unit = !stated.low.unit.is_empty() && field::only_of_unit(facts, &stated.low);
        if by_unit {
            selected.retain(|fact| comparable(&stated.low, &fact.value));
        }
        let [fact] = selected.as_slice() else {
            return None;
        };
        let settled = (0..facts.axes.len()).all(|axis| {
            facts.axes[axis].values.len() < 2
                || by_unit && Some(axis) == facts.across
                || mentions.iter().any(|m| m.axis == axis)
                || fact.at[axis].is_none()
        });
        if !settled || !comparable(&stated.low, &fact.value) {
            return None;
        }
        if !same(stated, fact) {
            if is_of_a_neighbour(stated, fact, &mentions, claim, facts) {
                return None;
            }
            wrong.push(*fact);
        }
    }
    if wrong.is_empty() {
        return Some(None);
    }
    let cells: Vec<&str> = wrong.iter().map(|fact| fact.place.1.as_str()).collect();
    Some(Some((
        format!("the table has {}", cells.join(", ")),
        evidence(&wrong),
    )))
}

/// Whether a number belongs to a different label next to the named one, of which the sentence also contains a word:
/// `4,736 rows were planned` names the column `Planned` and gives the number of `Rows expected`.
fn is_of_a_neighbour(
    stated: &Stated,
    fact: &Fact,
    mentions: &[Mention],
    claim: &Claim,
    facts: &Facts<'_>,
) -> bool {
    mentions.iter().any(|mention| {
        let values = &facts.axes[mention.axis].values;
        let spoken = |label: usize| {
            let own = &values[mention.value].words;
            let mut words = values[label].words.iter();
            words.any(|word| !own.contains(word) && claim.words.contains(word))
        };
        facts.facts.iter().any(|other| {
            let elsewhere = |axis: usize| axis != mention.axis && other.at[axis] != fact.at[axis];
            let label = other.at[mention.axis].filter(|label| *label != mention.value);
            label.is_some_and(spoken)
                && !(0..facts.axes.len()).any(elsewhere)
                && same(stated, other)
        })
    })
}

/// Finds numbers that the table has at the named positions, but under another statistic.
fn another_statistic(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = (0..facts.axes.len()).find(|axis| facts.axes[*axis].is_statistic())?;
    let mut other = None;
    let mut cells = Vec::new();
    for (stated, mentions) in addressed(claim, facts)? {
        let named = mentions.iter().find(|m| m.axis == axis)?;
        let places: Vec<Mention> = mentions
            .iter()
            .filter(|m| m.axis != axis)
            .copied()
            .collect();
        let matching: Vec<&Fact> = select(facts, claim, &places)
            .into_iter()
            .filter(|fact| same(stated, fact))
            .collect();
        let [fact] = matching.as_slice() else {
            return None;
        };
        let exact =
            stated.low.half <= fact.value.half && stated.low.half * 20.0 < stated.low.value.abs();
        if places.is_empty()
            || fact.at[axis] == Some(named.value)
            || !exact
            || other.is_some_and(|other| other != fact.at[axis])
        {
            return None;
        }
        other = Some(fact.at[axis]);
        cells.push(*fact);
    }
    let name = &facts.axes[axis].values[other.flatten()?].text;
    Some(Some((
        format!("the table has it as {name}"),
        evidence(&cells),
    )))
}

/// The numbers of a claim, each with the labels that it belongs to.
fn addressed<'a>(claim: &'a Claim, facts: &Facts<'_>) -> Option<Vec<(&'a Stated, Vec<Mention>)>> {
    let n = claim.numbers.len();
    let paired = (0..facts.axes.len())
        .find(|axis| n > 1 && claim.mentions.iter().filter(|m| m.axis == *axis).count() == n);
    if n > 1 && paired.is_none() {
        return None;
    }
    let mut cells = Vec::new();
    for (at, stated) in claim.numbers.iter().enumerate() {
        let mut mentions: Vec<Mention> = claim
            .mentions
            .iter()
            .filter(|m| Some(m.axis) != paired)
            .copied()
            .collect();
        if let Some(axis) = paired {
            mentions.push(*claim.mentions.iter().filter(|m| m.axis == axis).nth(at)?);
        }
        // Two labels of one axis for one number: the intended one is unknown.
        if mentions.iter().enumerate().any(|(i, m)| {
            mentions[..i]
                .iter()
                .any(|o| o.axis == m.axis && o.value != m.value)
        }) {
            return None;
        }
        cells.push((stated, mentions));
    }
    Some(cells)
}

/// Whether a stated number can be a cell's: they have the same measure, and both or neither have a unit.
pub(super) fn comparable(stated: &Quantity, cell: &Quantity) -> bool {
    if stated.unit.is_empty() || cell.unit.is_empty() {
        return stated.unit == cell.unit;
    }
    stated.measure().0 == cell.measure().0
}

fn same(stated: &Stated, fact: &Fact) -> bool {
    let factor = if fact.value.unit == stated.low.unit {
        1.0
    } else {
        fact.value.measure().1 / stated.low.measure().1
    };
    let agrees = |a: &Quantity, b: &Quantity| {
        a.rounds((b.value - b.half) * factor, (b.value + b.half) * factor)
    };
    match (&stated.high, &fact.high) {
        (Some(high), Some(cell)) => agrees(&stated.low, &fact.value) && agrees(high, cell),
        (None, None) => agrees(&stated.low, &fact.value),
        (None, Some(cell)) => {
            stated.low.value >= fact.value.value * factor && stated.low.value <= cell.value * factor
        }
        (Some(high), None) => {
            fact.value.value * factor >= stated.low.value && fact.value.value * factor <= high.value
        }
    }
}

/// Judges `code peaks at c=2 (36.2)`.
fn peak(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = facts.ladder()?;
    let level = claim.mentions.iter().find(|m| m.axis == axis)?;
    let fixed: Vec<Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis != axis)
        .copied()
        .collect();
    let line = select(facts, claim, &fixed);
    let one = line
        .iter()
        .all(|fact| (0..facts.axes.len()).all(|a| a == axis || fact.at[a] == line[0].at[a]));
    if claim.mentions.iter().filter(|m| m.axis == axis).count() != 1
        || claim.relation.is_some()
        || !one
        || line.len() < 3
        || claim.many.is_some()
        || claim.than.is_some()
    {
        return None;
    }
    let most = line
        .iter()
        .map(|fact| fact.value.value)
        .fold(f64::MIN, f64::max);
    let there = line
        .iter()
        .find(|fact| fact.at[axis] == Some(level.value))?;
    if there.value.value >= most {
        return Some(None);
    }
    let peak = line.iter().find(|fact| fact.value.value >= most)?;
    Some(Some((
        format!("the largest of {} values is {}", line.len(), peak.place.1),
        evidence(&[peak, there]),
    )))
}

/// Judges `At c=1 a trace keeps 34–100% of its peak`.
fn share_of_peak(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = facts.ladder()?;
    let level = claim.mentions.iter().find(|m| m.axis == axis)?;
    let [Stated { low, high }] = claim.numbers.as_slice() else {
        return None;
    };
    let fixed: Vec<Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis != axis)
        .copied()
        .collect();
    if !low.is_percent() || claim.relation.is_some() {
        return None;
    }
    let mut lines: BTreeMap<Vec<Option<usize>>, Vec<&Fact>> = BTreeMap::new();
    for fact in select(facts, claim, &fixed) {
        let mut key = fact.at.clone();
        key[axis] = None;
        lines.entry(key).or_default().push(fact);
    }
    let high = high.as_ref().unwrap_or(low);
    let mut wrong = Vec::new();
    for line in lines.values() {
        let most = line
            .iter()
            .map(|fact| fact.value.value)
            .fold(f64::MIN, f64::max);
        let there = line
            .iter()
            .find(|fact| fact.at[axis] == Some(level.value))?;
        let share = 100.0 * there.value.value / most;
        if share < low.value - 2.0 * low.half || share > high.value + 2.0 * high.half {
            wrong.push((share, *there));
        }
    }
    let Some((share, fact)) = wrong.first() else {
        return Some(None);
    };
    Some(Some((
        format!("it is {} % for `{}`", shown(*share), fact.place.0),
        evidence(&wrong.iter().map(|w| w.1).collect::<Vec<_>>()),
    )))
}
