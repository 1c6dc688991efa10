//! Judges ranks in an order: fastest, lowest, second.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::claims::facts::{Fact, Facts, one_line};
use crate::claims::judge::{HOLDS, Ruling, contradicted, equal, select};
use crate::claims::lexicon::{Many, Rank};
use crate::claims::sentence::{Claim, Mention};

/// Judges `At c=8 chat is fastest, search second and code slowest`.
pub(super) fn ranks(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let places = places(claim, facts)?;
    if let Some(parts) = by_metric(claim, facts, &places) {
        let rulings: Option<Vec<_>> = parts.iter().map(|part| ranks(part, facts)).collect();
        return Some(rulings?.into_iter().flatten().next());
    }
    let axis = places.first()?.0.axis;
    if places.iter().any(|p| p.0.axis != axis)
        || claim.on(axis).count() != places.len()
        || facts.axes[axis].is_statistic()
        || claim.compares()
        || claim.many.is_some_and(|many| many != Many::Every)
        || !claim.numbers.is_empty()
    {
        return None;
    }
    // If the sentence does not name the column, it may mean any of them; then all must contradict it.
    let free = |across: usize| across != axis && claim.on(across).next().is_none();
    let free = facts.across.is_some_and(free);
    let mut fields: BTreeMap<Option<usize>, Vec<&Fact>> = BTreeMap::new();
    for fact in select(facts, claim, &claim.except(Some(axis))) {
        let column = facts.column(fact).filter(|_| free);
        fields.entry(column).or_default().push(fact);
    }
    // Speed words apply to rates and times.
    let speed = ["fastest", "slowest", "quickest"];
    if free
        && claim
            .words
            .iter()
            .any(|word| speed.contains(&word.as_str()))
    {
        fields.retain(|_, field| {
            let same = field.iter().all(|fact| equal(&fact.value, &field[0].value));
            !same && field[0].is_speed()
        });
    }
    for field in fields.values() {
        if holds(field, axis, &places, claim)? {
            return HOLDS;
        }
    }
    let mut order = fields.into_values().next()?;
    order.sort_by(|a, b| b.value.value.total_cmp(&a.value.value));
    let named = order.iter().take(6).filter_map(|fact| {
        let label = &facts.axes[axis].values[fact.at[axis]?].text;
        Some(format!("{label} {}", fact.place.1))
    });
    let named: Vec<String> = named.collect();
    contradicted(format!("the order is {}", named.join(", ")), &order)
}

/// The parts of `A has the highest throughput and the lowest latency`: a rank of one label for each of several metrics,
/// which follow their ranks.
fn by_metric(claim: &Claim, facts: &Facts<'_>, places: &[(Mention, Rank)]) -> Option<Vec<Claim>> {
    let across = facts.across?;
    let mut metrics: Vec<Mention> = claim.on(across).copied().collect();
    metrics.sort_by_key(|m| m.start);
    let one = places.iter().all(|(label, _)| *label == places[0].0);
    if places.len() < 2 || !one || metrics.len() != places.len() {
        return None;
    }
    let ends = claim.ranks.iter().skip(1).map(|rank| rank.1);
    let ends = ends.chain([usize::MAX]);
    let parts = claim.ranks.iter().zip(&metrics).zip(ends);
    let part = |((rank, metric), end): ((&(Rank, usize), &Mention), usize)| {
        let mut mentions = claim.except(Some(across));
        mentions.push(*metric);
        (rank.1 < metric.start && metric.start < end).then(|| Claim {
            mentions,
            ranks: vec![*rank],
            ..claim.clone()
        })
    };
    parts.map(part).collect()
}

/// The label of each rank: the last label before it that is not a metric.
fn places(claim: &Claim, facts: &Facts<'_>) -> Option<Vec<(Mention, Rank)>> {
    let metrics = facts.across.filter(|across| {
        let n = facts.axes[*across].values.len();
        (1..n).any(|value| facts.unit_of(*across, value) != facts.unit_of(*across, 0))
    });
    let mut rows = claim.except(metrics);
    // `At 8 clients the highest rate is that of Kite`: the level is where Kite is compared.
    let level = |m: &Mention| facts.axes[m.axis].values[m.value].level.is_some();
    if !rows.iter().all(level) {
        // `Kite is fastest at 64 clients` may be about Kite's own levels.
        let first = claim.ranks.first()?.1;
        if rows.iter().any(|m| level(m) && m.start > first) {
            return None;
        }
        rows.retain(|m| !level(m));
    }
    // `The lowest latency belongs to Kite`: the label follows.
    let first = claim.ranks.first()?.1;
    let after = !rows.is_empty() && rows.iter().all(|m| m.start > first);
    let label = |start: usize| {
        let before = |list: &[Mention]| {
            let before = list.iter().filter(|m| m.start < start);
            before.max_by_key(|m| m.start).copied()
        };
        if after {
            let behind = rows.iter().filter(|m| m.start > start);
            return behind.min_by_key(|m| m.start).copied();
        }
        before(&rows).or_else(|| before(&claim.mentions))
    };
    let ranks = claim.ranks.iter();
    ranks
        .map(|(rank, start)| Some((label(*start)?, *rank)))
        .collect()
}

/// Whether the ranks in a field are as claimed; `None` if it cannot decide.
fn holds(field: &[&Fact], axis: usize, places: &[(Mention, Rank)], claim: &Claim) -> Option<bool> {
    let first = field.first()?;
    let units = field.iter().all(|fact| fact.value.unit == first.value.unit);
    let counted = claim.count.is_none_or(|count| count == field.len() as f64);
    if !units || !counted || field.len() < 3 || !one_line(field, axis) {
        return None;
    }
    let holds = |more: bool| {
        places.iter().all(|(mention, rank)| {
            let Some(own) = field.iter().find(|f| f.at[axis] == Some(mention.value)) else {
                return true;
            };
            let count = |order: Ordering| {
                let value = |fact: &&&Fact| fact.value.value.total_cmp(&own.value.value) == order;
                field.iter().filter(value).count()
            };
            let (larger, smaller) = (count(Ordering::Greater), count(Ordering::Less));
            let before = if more { larger } else { smaller };
            let tied = field
                .iter()
                .filter(|fact| equal(&fact.value, &own.value))
                .count();
            match rank {
                Rank::Best(place) => before < *place && before + tied >= *place,
                Rank::Worst => before + tied >= field.len(),
                Rank::Largest => larger == 0,
                Rank::Smallest => smaller == 0,
            }
        })
    };
    Some(match first.more_is_better {
        Some(more) => holds(more),
        None => holds(true) || holds(false),
    })
}
