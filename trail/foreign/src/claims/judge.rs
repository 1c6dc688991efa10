//! Judges a claim on the facts of a table: it holds, it does not, or the table cannot tell.

use std::collections::BTreeMap;

use crate::claims::facts::{Fact, Facts};
use crate::claims::lexicon::{Rank, more_is_better};
use crate::claims::pairs::pairs;
use crate::claims::sentence::{Claim, Mention, Stated, size_of};
use crate::finding::Evidence;
use crate::number::{Quantity, shown};

/// What a claim contradicts: a message and the cells. `Some(None)` if it holds, `None` if the table cannot tell.
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
    if claim.relation.is_some() {
        return pairs(claim, facts);
    }
    value(claim, facts)
}

/// The facts at the places that mentions name; several of one axis are alternatives.
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

/// Whether two values are equal but for their rounding.
pub(super) fn equal(a: &Quantity, b: &Quantity) -> bool {
    (a.value - b.value).abs() <= 1e-12 * a.value.abs()
}

pub(super) fn better(fact: &Fact) -> Option<bool> {
    more_is_better(&fact.value.unit, &fact.metric)
}

/// A number against the one cell that a sentence names. Where the numbers alternate with labels of one axis, each
/// belongs to its label: `0.78 at c=2 and 0.45 at c=4`.
fn value(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    if claim.many.is_some()
        || claim.part.is_some()
        || claim.bound.is_some()
        || claim.than.is_some()
        || claim.numbers.is_empty()
    {
        return None;
    }
    let mut wrong = Vec::new();
    for (stated, mentions) in addressed(claim, facts)? {
        let selected = select(facts, claim, &mentions);
        let [fact] = selected.as_slice() else {
            return None;
        };
        let settled = (0..facts.axes.len()).all(|axis| {
            facts.axes[axis].values.len() < 2
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

/// Whether a number is that of another label beside the one named, and the sentence has a word of that label too:
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

/// Numbers that the table has at the named places, but under another statistic than the one named.
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
        let found: Vec<&Fact> = select(facts, claim, &places)
            .into_iter()
            .filter(|fact| same(stated, fact))
            .collect();
        let [fact] = found.as_slice() else {
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

/// The numbers of a claim, each with the labels that it is about.
fn addressed<'a>(claim: &'a Claim, facts: &Facts<'_>) -> Option<Vec<(&'a Stated, Vec<Mention>)>> {
    let n = claim.numbers.len();
    let paired = (0..facts.axes.len())
        .find(|axis| n > 1 && claim.mentions.iter().filter(|m| m.axis == *axis).count() == n);
    if n > 1 && paired.is_none() {
        return None;
    }
    let mut found = Vec::new();
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
        // Two labels of one axis for one number: which is meant is not said.
        if mentions.iter().enumerate().any(|(i, m)| {
            mentions[..i]
                .iter()
                .any(|o| o.axis == m.axis && o.value != m.value)
        }) {
            return None;
        }
        found.push((stated, mentions));
    }
    Some(found)
}

/// Whether a stated number can be a cell's: the same measure, and neither has a unit that the other lacks.
fn comparable(stated: &Quantity, cell: &Quantity) -> bool {
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
        a.agrees((b.value - b.half) * factor, (b.value + b.half) * factor)
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

/// The axis along which a peak is sought: levels, else the one axis that is not named.
fn ladder(facts: &Facts<'_>) -> Option<usize> {
    (0..facts.axes.len()).find(|axis| {
        facts.axes[*axis].values.len() >= 3
            && facts.axes[*axis]
                .values
                .iter()
                .all(|value| value.level.is_some())
    })
}

/// `code peaks at c=2 (36.2)`.
fn peak(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = ladder(facts)?;
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

/// `At c=1 a trace keeps 34–100% of its peak`.
fn share_of_peak(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = ladder(facts)?;
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

/// `At c=8 chat is fastest, search second and code slowest`.
fn ranks(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    // Each rank belongs to the last label before it.
    let mut places: Vec<(Mention, Rank)> = Vec::new();
    for (rank, start) in &claim.ranks {
        let mention = claim
            .mentions
            .iter()
            .filter(|m| m.start < *start)
            .max_by_key(|m| m.start)?;
        places.push((*mention, *rank));
    }
    let axis = places.first()?.0.axis;
    let others: Vec<Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis != axis)
        .copied()
        .collect();
    let field = select(facts, claim, &others);
    let one = field
        .iter()
        .all(|fact| (0..facts.axes.len()).all(|a| a == axis || fact.at[a] == field[0].at[a]));
    let named = claim.mentions.iter().filter(|m| m.axis == axis).count();
    if !one
        || field.len() < 3
        || places.iter().any(|p| p.0.axis != axis)
        || named != places.len()
        || facts.axes[axis].is_statistic()
        || claim.relation.is_some()
        || claim.many.is_some()
        || claim.part.is_some()
        || claim.than.is_some()
        || !claim.numbers.is_empty()
        || claim.count.is_some()
        || field
            .iter()
            .any(|fact| fact.value.unit != field[0].value.unit)
    {
        return None;
    }
    let holds = |more: bool| {
        places.iter().all(|(mention, rank)| {
            let Some(own) = field
                .iter()
                .find(|fact| fact.at[axis] == Some(mention.value))
            else {
                return true;
            };
            let ahead = |a: f64, b: f64| if more { a > b } else { a < b };
            let before = field
                .iter()
                .filter(|fact| ahead(fact.value.value, own.value.value))
                .count();
            let tied = field
                .iter()
                .filter(|fact| equal(&fact.value, &own.value))
                .count();
            match rank {
                Rank::Best(place) => before < *place && before + tied >= *place,
                Rank::Worst => before + tied >= field.len(),
                Rank::Largest => !field.iter().any(|fact| fact.value.value > own.value.value),
                Rank::Smallest => !field.iter().any(|fact| fact.value.value < own.value.value),
            }
        })
    };
    let directions = match better(field[0]) {
        Some(more) => vec![more],
        None => vec![true, false],
    };
    if directions.into_iter().any(holds) {
        return Some(None);
    }
    let mut order = field.clone();
    order.sort_by(|a, b| b.value.value.total_cmp(&a.value.value));
    let said: Vec<String> = order
        .iter()
        .take(6)
        .filter_map(|fact| {
            Some(format!(
                "{} {}",
                facts.axes[axis].values[fact.at[axis]?].text, fact.place.1
            ))
        })
        .collect();
    Some(Some((
        format!("the order is {}", said.join(", ")),
        evidence(&order),
    )))
}
