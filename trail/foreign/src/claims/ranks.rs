//! Judges ranks in an order: fastest, lowest, second.

use std::collections::BTreeMap;

use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::{Ruling, better, equal, evidence, select};
use crate::claims::lexicon::{Many, Rank};
use crate::claims::sentence::{Claim, Mention};

/// Judges `At c=8 chat is fastest, search second and code slowest`.
pub(super) fn ranks(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let places = places(claim, facts)?;
    let axis = places.first()?.0.axis;
    let others: Vec<Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis != axis)
        .copied()
        .collect();
    let named = claim.mentions.iter().filter(|m| m.axis == axis).count();
    if places.iter().any(|p| p.0.axis != axis)
        || named != places.len()
        || facts.axes[axis].is_statistic()
        || claim.relation.is_some()
        || claim.many.is_some_and(|many| many != Many::Every)
        || claim.part.is_some()
        || claim.than.is_some()
        || claim.bound.is_some()
        || !claim.numbers.is_empty()
    {
        return None;
    }
    // If the sentence does not name the column, it may mean any of them; then all must contradict it.
    let free = facts
        .across
        .filter(|across| *across != axis && !others.iter().any(|m| m.axis == *across));
    let mut fields: BTreeMap<Option<usize>, Vec<&Fact>> = BTreeMap::new();
    for fact in select(facts, claim, &others) {
        let column = free.and_then(|across| fact.at[across]);
        fields.entry(column).or_default().push(fact);
    }
    // Speed words apply to rates and times.
    let speed = ["fastest", "slowest", "quickest"];
    if free.is_some()
        && claim
            .words
            .iter()
            .any(|word| speed.contains(&word.as_str()))
    {
        fields.retain(|_, field| {
            let unit = field[0].value.unit.as_str();
            let same = field.iter().all(|fact| equal(&fact.value, &field[0].value));
            !same && (unit.ends_with("/s") || crate::number::measure(unit).0 == "time")
        });
    }
    let mut first = None;
    for field in fields.values() {
        let order = contradicted(field, axis, &places, claim, facts)?;
        let Some(order) = order else {
            return Some(None);
        };
        first.get_or_insert(order);
    }
    let order = first?;
    let said: Vec<String> = order
        .iter()
        .take(6)
        .filter_map(|fact| {
            let label = &facts.axes[axis].values[fact.at[axis]?].text;
            Some(format!("{label} {}", fact.place.1))
        })
        .collect();
    Some(Some((
        format!("the order is {}", said.join(", ")),
        evidence(&order),
    )))
}

/// The label of each rank: the last label before it that is not a metric.
fn places(claim: &Claim, facts: &Facts<'_>) -> Option<Vec<(Mention, Rank)>> {
    let metrics = facts.across.filter(|across| {
        let n = facts.axes[*across].values.len();
        (1..n).any(|value| facts.unit_of(*across, value) != facts.unit_of(*across, 0))
    });
    let rows = || claim.mentions.iter().filter(|m| Some(m.axis) != metrics);
    // `The lowest latency belongs to Kite`: the label follows.
    let first = claim.ranks.first()?.1;
    let after = rows().all(|m| m.start > first) && rows().count() > 0;
    let label = |start: usize| {
        let before = || claim.mentions.iter().filter(move |m| m.start < start);
        if after {
            return rows()
                .filter(|m| m.start > start)
                .min_by_key(|m| m.start)
                .copied();
        }
        before()
            .filter(|m| Some(m.axis) != metrics)
            .max_by_key(|m| m.start)
            .or_else(|| before().max_by_key(|m| m.start))
            .copied()
    };
    claim
        .ranks
        .iter()
        .map(|(rank, start)| Some((label(*start)?, *rank)))
        .collect()
}

/// The field in descending order, if the ranks in it are not as claimed; `None` if it cannot decide.
fn contradicted<'a>(
    field: &[&'a Fact],
    axis: usize,
    places: &[(Mention, Rank)],
    claim: &Claim,
    facts: &Facts<'_>,
) -> Option<Option<Vec<&'a Fact>>> {
    let one = field
        .iter()
        .all(|fact| (0..facts.axes.len()).all(|a| a == axis || fact.at[a] == field[0].at[a]));
    let units = field
        .iter()
        .all(|fact| fact.value.unit == field[0].value.unit);
    let counted = claim.count.is_none_or(|count| count == field.len() as f64);
    if !one || !units || !counted || field.len() < 3 {
        return None;
    }
    let own = |mention: &Mention| {
        field
            .iter()
            .find(|fact| fact.at[axis] == Some(mention.value))
    };
    let holds = |more: bool| {
        places.iter().all(|(mention, rank)| {
            let Some(own) = own(mention) else {
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
                Rank::Largest => !field.iter().any(|f| f.value.value > own.value.value),
                Rank::Smallest => !field.iter().any(|f| f.value.value < own.value.value),
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
    let mut order = field.to_vec();
    order.sort_by(|a, b| b.value.value.total_cmp(&a.value.value));
    Some(Some(order))
}
