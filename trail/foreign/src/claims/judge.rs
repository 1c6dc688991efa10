//! Judges a claim on the facts of a table: it holds, it does not, or the table cannot decide.

use crate::claims::Contradiction;
use crate::claims::facts::{Fact, Facts, one_line};
use crate::claims::field;
use crate::claims::pairs::pairs;
use crate::claims::ranks::ranks;
use crate::claims::sentence::{Claim, Mention, Stated, size_of};
use crate::finding::Evidence;
use crate::number::Quantity;

/// The contradiction to a claim. `Some(None)` if it holds, `None` if the table cannot decide.
pub(crate) type Ruling = Option<Option<Contradiction>>;

/// The ruling on a claim that holds.
pub(super) const HOLDS: Ruling = Some(None);

/// The ruling on a claim that some cells contradict.
pub(super) fn contradicted(message: String, cells: &[&Fact]) -> Ruling {
    Some(Some(Contradiction {
        message,
        evidence: evidence(cells),
        start: 0,
    }))
}

pub(super) fn evidence(facts: &[&Fact]) -> Vec<Evidence> {
    let place = |fact: &&Fact| Evidence::new(fact.place.0.clone(), fact.place.1.clone());
    facts.iter().take(8).map(place).collect()
}

/// Judges a claim.
pub(crate) fn judge(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    if claim.unknown > 0 {
        return another_statistic(claim, facts);
    }
    let bare = without_restated(claim, facts);
    let claim = bare.as_ref().unwrap_or(claim);
    if claim.peak.is_some() {
        return peak(claim, facts);
    }
    if !claim.ranks.is_empty() {
        return ranks(claim, facts);
    }
    if let Some((axis, ends)) = claim.span {
        return field::span(claim, facts, axis, ends);
    }
    if claim.enclosed {
        return field::enclosed(claim, facts);
    }
    if claim.range {
        return field::range(claim, facts);
    }
    if claim.relation.is_some() {
        return pairs(claim, facts);
    }
    if claim.bound.is_some() {
        return field::bound(claim, facts);
    }
    if let (Some(up), []) = (claim.trend, claim.numbers.as_slice()) {
        return field::trend(claim, facts, up);
    }
    value(claim, facts)
}

/// A rank or a comparison without the numbers that only restate a cell of the label beside them, as in `Kite has the
/// lowest TTFT (61 ms)`; `None` if it has none.
fn without_restated(claim: &Claim, facts: &Facts<'_>) -> Option<Claim> {
    let compares = !claim.ranks.is_empty() || claim.relation.is_some();
    let restates = |stated: &Stated| {
        let number = &stated.low;
        let rows = claim
            .mentions
            .iter()
            .filter(|m| Some(m.axis) != facts.across);
        let before = rows.clone().filter(|m| m.start < number.start);
        let label = before
            .max_by_key(|m| m.start)
            .or_else(|| rows.min_by_key(|m| m.start))?;
        let mut places = claim.except(Some(label.axis));
        places.retain(|m| Some(m.axis) != facts.across);
        places.push(*label);
        let cells = select(facts, claim, &places);
        let plain = stated.aside && stated.high.is_none() && !number.unit.is_empty();
        let own = |fact: &&Fact| comparable(number, &fact.value) && fact.rounds_to(number);
        (plain && !matches!(number.unit.as_str(), "%" | "x" | "pp") && cells.iter().any(own))
            .then_some(())
    };
    let rest = claim
        .numbers
        .iter()
        .filter(|stated| restates(stated).is_none());
    let rest: Vec<Stated> = rest.cloned().collect();
    (compares && rest.len() < claim.numbers.len()).then(|| Claim {
        numbers: rest,
        ..claim.clone()
    })
}

/// The facts at the positions that mentions name; several on one axis are alternatives.
pub(super) fn select<'a>(
    facts: &'a Facts<'_>,
    claim: &Claim,
    mentions: &[Mention],
) -> Vec<&'a Fact> {
    let within = |fact: &&Fact| {
        let level = |axis: usize| facts.axes[axis].values[fact.at[axis]?].level;
        claim
            .limit
            .is_none_or(|(axis, most)| level(axis).is_some_and(|level| level <= most))
            && claim
                .floor
                .is_none_or(|(axis, least)| level(axis).is_some_and(|level| level >= least))
    };
    let sized = |fact: &&Fact| {
        claim.size.is_none_or(|most| {
            let mut sizes = fact.at.iter().enumerate().filter_map(|(axis, value)| {
                let value = &facts.axes[axis].values[(*value)?];
                value.words.iter().find_map(|word| size_of(word))
            });
            sizes.next_back().is_some_and(|size| size <= most)
        })
    };
    let named = facts.named(mentions, None).into_iter();
    named.filter(within).filter(sized).collect()
}

/// Whether two values are equal apart from rounding.
pub(super) fn equal(a: &Quantity, b: &Quantity) -> bool {
    (a.value - b.value).abs() <= 1e-12 * a.value.abs()
}

/// Judges a number against the single cell that a sentence names. If the numbers alternate with labels of one axis,
/// each belongs to its label: `0.78 at c=2 and 0.45 at c=4`.
fn value(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    // `On two GPUs Osprey reaches 4,300 tok/s`: a count beside the value may be a condition.
    let beside = |count: f64| {
        let mut numbers = claim.numbers.iter();
        numbers.any(|stated| stated.low.value != count || !stated.low.unit.is_empty())
    };
    // `rises with every step to 4.90 s`: the quantifier belongs to the trend.
    if claim.many.is_some() && claim.trend.is_none()
        || claim.compares()
        || claim.numbers.is_empty()
        || claim.count.is_some_and(beside)
        || claim.numbers.iter().any(|stated| stated.low.rough)
    {
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
        return HOLDS;
    }
    let cells: Vec<&str> = wrong.iter().map(|fact| fact.place.1.as_str()).collect();
    contradicted(format!("the table has {}", cells.join(", ")), &wrong)
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
    for (stated, mut places) in addressed(claim, facts)? {
        let named = places.iter().find(|m| m.axis == axis)?.value;
        places.retain(|m| m.axis != axis);
        let mut matching = select(facts, claim, &places);
        matching.retain(|fact| same(stated, fact));
        let [fact] = matching.as_slice() else {
            return None;
        };
        let (half, value) = (stated.low.half, stated.low.value.abs());
        if places.is_empty()
            || stated.high.is_some()
            || fact.at[axis] == Some(named)
            || half > fact.value.half
            || half * 20.0 >= value
            || *other.get_or_insert(fact.at[axis]) != fact.at[axis]
        {
            return None;
        }
        cells.push(*fact);
    }
    let name = &facts.axes[axis].values[other.flatten()?].text;
    contradicted(format!("the table has it as {name}"), &cells)
}

/// The numbers of a claim, each with the labels that it belongs to.
fn addressed<'a>(claim: &'a Claim, facts: &Facts<'_>) -> Option<Vec<(&'a Stated, Vec<Mention>)>> {
    let n = claim.numbers.len();
    let paired = (0..facts.axes.len()).find(|axis| n > 1 && claim.on(*axis).count() == n);
    if n > 1 && paired.is_none() {
        return None;
    }
    let mut cells = Vec::new();
    for (at, stated) in claim.numbers.iter().enumerate() {
        let mut mentions = claim.except(paired);
        if let Some(axis) = paired {
            mentions.push(*claim.on(axis).nth(at)?);
        }
        // Two labels of one axis for one number: the intended one is unknown.
        let another = |m: &Mention| {
            let mut others = mentions.iter();
            others.any(|o| o.axis == m.axis && o.value != m.value)
        };
        if mentions.iter().any(another) {
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
    let low = &stated.low;
    let (value, _) = fact.in_unit_of(low);
    let end = fact.high.clone().map(|value| Fact {
        value,
        ..fact.clone()
    });
    match (&stated.high, end) {
        (Some(high), Some(end)) => fact.rounds_to(low) && end.rounds_to(high),
        (None, None) => fact.rounds_to(low),
        (None, Some(end)) => (value..=end.in_unit_of(low).0).contains(&low.value),
        (Some(high), None) => (low.value..=high.value).contains(&value),
    }
}

/// Judges `code peaks at c=2 (36.2)`.
fn peak(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let axis = facts.ladder()?;
    let mut levels = claim.on(axis);
    let (Some(level), None) = (levels.next(), levels.next()) else {
        return None;
    };
    let line = select(facts, claim, &claim.except(Some(axis)));
    if claim.compares() || claim.many.is_some() || line.len() < 3 || !one_line(&line, axis) {
        return None;
    }
    let size = |a: &&&Fact, b: &&&Fact| a.value.value.total_cmp(&b.value.value);
    let most = line.iter().max_by(size)?;
    let mut places = line.iter();
    let there = places.find(|fact| fact.at[axis] == Some(level.value))?;
    if there.value.value >= most.value.value {
        return HOLDS;
    }
    let message = format!("the largest of {} values is {}", line.len(), most.place.1);
    contradicted(message, &[*most, *there])
}
