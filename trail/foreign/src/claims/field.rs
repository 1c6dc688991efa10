//! Judges statements about all the numbers that a sentence names: bounds, ranges, means, sums and trends.

use std::collections::{BTreeMap, BTreeSet};

use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::{Ruling, comparable, evidence, select};
use crate::claims::lexicon::Many;
use crate::claims::sentence::{Claim, Mention, Stated};
use crate::number::{Quantity, shown};

/// Labels of summary rows.
const SUMMARIES: &[&str] = &[
    "total", "sum", "mean", "average", "all", "overall", "median",
];

/// Whether only one column has numbers with a unit.
pub(super) fn only_of_unit(facts: &Facts<'_>, number: &Quantity) -> bool {
    let Some(across) = facts.across else {
        return false;
    };
    let columns: BTreeSet<Option<usize>> = facts
        .facts
        .iter()
        .filter(|fact| comparable(number, &fact.value))
        .map(|fact| fact.at[across])
        .collect();
    columns.len() == 1
}

/// Things that a row may summarize. A statement about each of them is not about the rows.
const BELOW_ROWS: &[&str] = &["run", "request", "test", "query", "point", "case"];

/// The numbers of one metric that a sentence names, without totals, and in the unit of a stated number if there is one.
fn field<'a>(
    claim: &Claim,
    facts: &'a Facts<'_>,
    unit: Option<&Quantity>,
) -> Option<Vec<&'a Fact>> {
    let below = |word: &String| {
        BELOW_ROWS.contains(&word.as_str())
            && !facts.axes.iter().any(|axis| axis.name.contains(word))
    };
    if claim.words.iter().any(below) {
        return None;
    }
    let candidates: Vec<&Fact> = select(facts, claim, &claim.mentions)
        .into_iter()
        .filter(|fact| unit.is_none_or(|unit| comparable(unit, &fact.value)))
        .filter(|fact| {
            !fact.at.iter().enumerate().any(|(axis, value)| {
                Some(axis) != facts.across
                    && value.is_some_and(|value| {
                        let words = &facts.axes[axis].values[value].words;
                        words
                            .first()
                            .is_some_and(|w| SUMMARIES.contains(&w.as_str()))
                    })
            })
        })
        .collect();
    let columns: BTreeSet<Option<usize>> = candidates
        .iter()
        .map(|fact| facts.across.and_then(|across| fact.at[across]))
        .collect();
    let metric = facts.across.is_none_or(|across| {
        let unitless = unit.is_none_or(|unit| unit.unit.is_empty());
        !unitless || claim.mentions.iter().any(|m| m.axis == across)
    });
    let units = candidates
        .iter()
        .all(|fact| fact.value.unit == candidates[0].value.unit && fact.high.is_none());
    (columns.len() == 1 && metric && units && !candidates.is_empty()).then_some(candidates)
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

/// The factor from the unit of a cell to the stated unit.
fn factor(stated: &Quantity, fact: &Fact) -> f64 {
    if fact.value.unit == stated.unit {
        1.0
    } else {
        fact.value.measure().1 / stated.measure().1
    }
}

/// Judges `All instances deliver more than 6,000 tok/s`, `three of the four stay below 100 ms`,
/// `no card exceeds 600 W`.
pub(super) fn bound(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let upper = claim.bound?;
    let stated = stated(claim)?;
    if stated.high.is_some()
        || claim.than.is_some()
        || claim.aggregate.is_some()
        || stated.low.rough
    {
        return None;
    }
    if let Some(only) = claim.only {
        return exceptions(claim, facts, stated, upper, only);
    }
    let field = field(claim, facts, Some(&stated.low))?;
    let limit = stated.low.value;
    let beyond = |fact: &Fact, sign: f64| {
        let scale = factor(&stated.low, fact);
        let (low, high) = (
            (fact.value.value - sign * fact.value.half) * scale,
            (fact.value.value + sign * fact.value.half) * scale,
        );
        let slack = sign * stated.low.half.min(1e-9 * limit.abs());
        if upper {
            high < limit - slack
        } else {
            low > limit + slack
        }
    };
    // Rounding may hide on which side of the bound a number lies.
    let sure = field.iter().filter(|fact| beyond(fact, 1.0)).count();
    let outside: Vec<&Fact> = field
        .iter()
        .filter(|fact| {
            let scale = factor(&stated.low, fact);
            let (low, high) = (
                (fact.value.value - fact.value.half) * scale,
                (fact.value.value + fact.value.half) * scale,
            );
            if upper { low > limit } else { high < limit }
        })
        .copied()
        .collect();
    let (n, most) = (field.len(), field.len() - outside.len());
    let within = |k: f64| k >= sure as f64 && k <= most as f64;
    let rows = claim.mentions.iter().any(|m| Some(m.axis) != facts.across);
    let holds = match (claim.part, claim.count, claim.many) {
        (Some((k, m)), _, None) => m != n as f64 || within(k),
        // All of a stated number.
        (None, Some(k), Some(Many::Every | Many::Both)) => k != n as f64 || outside.is_empty(),
        (None, Some(k), None) => rows || within(k),
        (None, None, Some(Many::Every | Many::Both)) => outside.is_empty(),
        (None, None, Some(Many::No)) => sure == 0,
        (None, None, Some(Many::Most)) => 2 * most > n,
        (None, None, None) => {
            let always = ["stay", "stayed", "remain", "remained", "keep", "kept"];
            let lasting = claim
                .words
                .iter()
                .any(|word| always.contains(&word.as_str()));
            if !lasting && claim.limit.is_none() && n != 1 {
                return None;
            }
            outside.is_empty()
        }
        _ => return None,
    };
    if holds {
        return Some(None);
    }
    let shown = if claim.many == Some(Many::No) {
        field
            .iter()
            .filter(|fact| beyond(fact, 1.0))
            .copied()
            .collect()
    } else {
        outside
    };
    let count = if claim.many == Some(Many::No) {
        sure
    } else {
        most
    };
    Some(Some((
        format!("it holds for {count} of {n}"),
        evidence(&shown),
    )))
}

/// Judges `Only Kite stays below 100 ms`, `All but Kite stay below 100 ms`: the rows that keep the bound.
fn exceptions(
    claim: &Claim,
    facts: &Facts<'_>,
    stated: &Stated,
    upper: bool,
    only: bool,
) -> Ruling {
    let (named, rest): (Vec<Mention>, Vec<Mention>) = claim
        .mentions
        .iter()
        .partition(|m| Some(m.axis) != facts.across);
    let axis = named.first()?.axis;
    let negative = claim.many == Some(Many::No);
    let plain = claim.relation.is_none() && claim.part.is_none() && (only == claim.many.is_none());
    if named.iter().any(|m| m.axis != axis) || !plain {
        return None;
    }
    let open = Claim {
        mentions: rest,
        ..claim.clone()
    };
    let mut wrong: Vec<&Fact> = Vec::new();
    for fact in field(&open, facts, Some(&stated.low))? {
        let scale = factor(&stated.low, fact);
        let (value, half) = (fact.value.value * scale, fact.value.half * scale);
        let limit = stated.low.value;
        let listed = named.iter().any(|m| fact.at[axis] == Some(m.value));
        let keeps = if upper { value < limit } else { value > limit };
        let sure = (value - limit).abs() > half;
        if sure && keeps != (listed == (only != negative)) {
            wrong.push(fact);
        }
    }
    if wrong.is_empty() {
        return Some(None);
    }
    let rows: Vec<&str> = wrong
        .iter()
        .take(3)
        .map(|fact| fact.place.1.as_str())
        .collect();
    Some(Some((
        format!("it does not hold for {}", rows.join(", ")),
        evidence(&wrong),
    )))
}

/// Judges `TTFT ranges from 69 to 131 ms`: the ends must be the smallest and the largest number.
pub(super) fn range(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let stated = stated(claim)?;
    let high = stated.high.as_ref()?;
    let plain = claim.relation.is_none()
        && claim.many.is_none_or(|many| many == Many::Every)
        && claim.part.is_none()
        && claim.than.is_none()
        && claim.bound.is_none();
    let field = field(claim, facts, Some(high)).filter(|field| plain && field.len() >= 3)?;
    if claim.count.is_some() || stated.low.rough || high.rough {
        return None;
    }
    let ends = |least: bool| {
        let mut sorted = field.clone();
        sorted.sort_by(|a, b| a.value.value.total_cmp(&b.value.value));
        if least {
            sorted.first().copied()
        } else {
            sorted.last().copied()
        }
    };
    let (least, most) = (ends(true)?, ends(false)?);
    let agrees = |stated: &Quantity, fact: &Fact| {
        let scale = factor(high, fact);
        let (value, half) = (fact.value.value * scale, fact.value.half * scale);
        stated.rounds(value - half, value + half)
    };
    if agrees(&stated.low, least) && agrees(high, most) {
        return Some(None);
    }
    Some(Some((
        format!("the range is {} to {}", least.place.1, most.place.1),
        evidence(&[least, most]),
    )))
}

/// Judges `On average the engines deliver 1,997 tok/s` and `the five cards draw 1,997 W together`.
pub(super) fn aggregate(claim: &Claim, facts: &Facts<'_>, mean: bool) -> Ruling {
    let stated = stated(claim)?;
    let plain = stated.high.is_none()
        && claim.relation.is_none()
        && claim.bound.is_none()
        && claim.part.is_none()
        && claim.trend.is_none()
        && claim.than.is_none();
    let field = field(claim, facts, Some(&stated.low)).filter(|field| plain && field.len() >= 2)?;
    // The statement must be about all rows: a named label would restrict it to some.
    let some = claim.mentions.iter().any(|m| Some(m.axis) != facts.across);
    if some || claim.count.is_some_and(|count| count != field.len() as f64) {
        return None;
    }
    let scale = factor(&stated.low, field[0]);
    let values: Vec<f64> = field.iter().map(|fact| fact.value.value * scale).collect();
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let half = |fact: &&Fact| {
        if fact.value.is_count() {
            0.0
        } else {
            fact.value.half * scale
        }
    };
    let slack: f64 = field.iter().map(half).sum();
    let forms: Vec<(f64, f64)> = if mean {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = f64::midpoint(sorted[sorted.len() / 2], sorted[(sorted.len() - 1) / 2]);
        let geometric = (values.iter().map(|v| v.ln()).sum::<f64>() / n).exp();
        let harmonic = n / values.iter().map(|v| 1.0 / v).sum::<f64>();
        // Any of the usual means may fit.
        [sum / n, middle, geometric, harmonic]
            .map(|value| (value, slack / n))
            .to_vec()
    } else {
        vec![(sum, slack)]
    };
    let fits = forms
        .iter()
        .filter(|form| form.0.is_finite())
        .any(|(value, slack)| stated.low.rounds(value - slack, value + slack));
    // A number far off is a different quantity.
    let near = (0.5..2.0).contains(&(stated.low.value / forms[0].0));
    if fits || !near {
        return Some(None);
    }
    let name = if mean { "mean" } else { "sum" };
    Some(Some((
        format!(
            "the {name} of the {} values is {}",
            values.len(),
            shown(forms[0].0)
        ),
        evidence(&field),
    )))
}

/// Judges `Throughput rises with every step`: no step along the levels may go the other way.
pub(super) fn trend(claim: &Claim, facts: &Facts<'_>, up: bool) -> Ruling {
    let every = claim.many == Some(Many::Every) || claim.steady;
    let plain = claim.relation.is_none()
        && claim.part.is_none()
        && claim.count.is_none()
        && claim.than.is_none()
        && claim.bound.is_none();
    let axis = facts.ladder().filter(|_| every && plain)?;
    let across = facts.across;
    let metric = across.is_none_or(|across| {
        across == axis
            || facts.axes[across].values.len() == 1
            || claim.mentions.iter().any(|m| m.axis == across)
    });
    if !metric || claim.mentions.iter().any(|m| m.axis == axis) {
        return None;
    }
    let mut lines: BTreeMap<Vec<Option<usize>>, Vec<(f64, &Fact)>> = BTreeMap::new();
    for fact in select(facts, claim, &claim.mentions) {
        let mut key = fact.at.clone();
        key[axis] = None;
        let level = fact.at[axis].and_then(|at| facts.axes[axis].values[at].level)?;
        lines.entry(key).or_default().push((level, fact));
    }
    let mut against: Vec<&Fact> = Vec::new();
    for line in lines.values_mut() {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        for two in line.windows(2) {
            let (a, b) = (&two[0].1.value, &two[1].1.value);
            let (low, high) = if up { (a, b) } else { (b, a) };
            if low.value - low.half > high.value + high.half {
                against.extend([two[0].1, two[1].1]);
            }
        }
    }
    if lines.values().all(|line| line.len() < 3) {
        return None;
    }
    if against.is_empty() {
        return Some(None);
    }
    Some(Some((
        format!(
            "it goes from {} to {}",
            against[0].place.1, against[1].place.1
        ),
        evidence(&against),
    )))
}

/// Judges `Four policies were compared` against a table with five: a smaller number is wrong.
pub(super) fn rows(claim: &Claim, facts: &Facts<'_>, count: f64) -> Ruling {
    let axis = facts.axes.iter().find(|axis| {
        // `4 clients` is a level, not a number of levels.
        if axis.values.iter().any(|value| value.level.is_some()) {
            return false;
        }
        let name = axis.name.last();
        name.is_some_and(|name| {
            let mut words = claim.words.windows(2);
            words.any(|two| {
                let counted = crate::words::number_word(&two[0])
                    .map(|n| n as f64)
                    .or(two[0].parse().ok());
                counted == Some(count) && two[1].trim_end_matches('s') == name.trim_end_matches('s')
            })
        })
    })?;
    let done = [
        "run",
        "ran",
        "compared",
        "tested",
        "measured",
        "evaluated",
        "tried",
        "benchmarked",
    ];
    let all = claim.words.iter().any(|word| done.contains(&word.as_str()));
    let plain = claim.mentions.is_empty()
        && claim.many.is_none()
        && claim.trend.is_none()
        && claim.relation.is_none()
        && claim.size.is_none()
        && claim
            .numbers
            .iter()
            .all(|stated| stated.low.value == count && stated.low.unit.is_empty());
    let n = axis.values.len();
    let summed = axis.values.iter().any(|value| {
        value
            .words
            .first()
            .is_some_and(|word| SUMMARIES.contains(&word.as_str()))
    });
    if !all || !plain || summed {
        return None;
    }
    if count >= n as f64 {
        return Some(None);
    }
    Some(Some((format!("the table has {n}"), Vec::new())))
}

/// Judges `From 32 to 64 clients throughput grows by 28 %`: the change of a metric between two levels. If the sentence
/// does not name the metric, all must contradict it.
pub(super) fn span(claim: &Claim, facts: &Facts<'_>, axis: usize, ends: [usize; 2]) -> Ruling {
    let stated = stated(claim)?;
    let rate = stated.low.is_percent() || stated.low.unit == "x";
    let plain = stated.high.is_none()
        && rate
        && claim.than.is_none()
        && claim.many.is_none()
        && claim.part.is_none()
        && claim.count.is_none()
        && claim.bound.is_none()
        && claim.aggregate.is_none()
        && claim.ranks.is_empty();
    // A gain without a metric may be that of one system over another; a gain of a metric is along the levels.
    let metric = claim.mentions.iter().any(|m| Some(m.axis) == facts.across);
    if !plain
        || claim.relation.is_some() && !metric
        || claim.mentions.iter().any(|m| m.axis == axis)
    {
        return None;
    }
    let mut lines: BTreeMap<Vec<Option<usize>>, [Option<&Fact>; 2]> = BTreeMap::new();
    for fact in select(facts, claim, &claim.mentions) {
        let mut key = fact.at.clone();
        key[axis] = None;
        for (end, value) in ends.iter().enumerate() {
            if fact.at[axis] == Some(*value) {
                lines.entry(key.clone()).or_default()[end] = Some(fact);
            }
        }
    }
    // Only the metric may be left open.
    let across = facts.across.filter(|across| *across != axis);
    let mut rest = lines.keys().map(|key| {
        let mut key = key.clone();
        if let Some(across) = across {
            key[across] = None;
        }
        key
    });
    let first = rest.next()?;
    if rest.any(|key| key != first) {
        return None;
    }
    let mut wrong: Vec<&Fact> = Vec::new();
    for line in lines.values() {
        let [Some(a), Some(b)] = line else {
            return None;
        };
        let exact = a.value.value == 0.0 || b.value.value == 0.0;
        if exact || stated.low.rough || is_change(&stated.low, &a.value, &b.value) {
            return Some(None);
        }
        wrong.extend([*a, *b]);
    }
    let [a, b] = *wrong.get(..2)? else {
        return None;
    };
    Some(Some((
        format!(
            "{} to {} is {} %",
            a.place.1,
            b.place.1,
            shown(100.0 * (b.value.value - a.value.value) / a.value.value)
        ),
        evidence(&wrong),
    )))
}
