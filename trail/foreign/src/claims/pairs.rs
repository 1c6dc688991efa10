//! Judges a claim that compares two sides: which has more, and by how much.

use std::collections::BTreeMap;

use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts};
use crate::claims::judge::{Ruling, better, equal, evidence, select};
use crate::claims::lexicon::{Many, Relation};
use crate::claims::sentence::{Claim, Mention, Stated};
use crate::number::{Quantity, shown};

/// Two sides of a comparison, with everything else equal.
struct Pair<'a> {
    own: &'a Fact,
    other: &'a Fact,
}

impl Pair<'_> {
    /// Whether the first side is better, or larger; `None` for a tie.
    fn ahead(&self, relation: Relation, more: bool) -> Option<bool> {
        if equal(&self.own.value, &self.other.value) {
            return None;
        }
        let larger = self.own.value.value > self.other.value.value;
        Some(match relation {
            Relation::Better => larger == more,
            Relation::Worse => larger != more,
            Relation::More => larger,
            Relation::Less => !larger,
            Relation::Changed => true,
        })
    }

    fn change(&self) -> f64 {
        100.0 * (self.own.value.value - self.other.value.value) / self.other.value.value
    }
}

/// The compared sides, at every position that has both.
fn sides<'a>(claim: &Claim, facts: &'a Facts<'_>) -> Option<Vec<Pair<'a>>> {
    let (_, at) = claim.relation?;
    let other = claim.than.filter(|than| *than > at).and_then(|than| {
        claim
            .mentions
            .iter()
            .filter(|m| m.start > than)
            .min_by_key(|m| m.start)
    });
    let own = claim
        .mentions
        .iter()
        .filter(|m| m.start < at && other.is_none_or(|other| other.axis == m.axis))
        .max_by_key(|m| m.start)?;
    if claim.than.is_some() && other.is_none() || facts.axes[own.axis].is_statistic() {
        return None;
    }
    let rest: Vec<Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis != own.axis)
        .copied()
        .collect();
    let same_axis: Vec<&Mention> = claim
        .mentions
        .iter()
        .filter(|m| m.axis == own.axis)
        .collect();
    if same_axis.len() != 1 + usize::from(other.is_some())
        || other.is_some_and(|other| other.value == own.value)
    {
        return None;
    }
    let mut groups: BTreeMap<Vec<Option<usize>>, Vec<&Fact>> = BTreeMap::new();
    for fact in select(facts, claim, &rest) {
        let mut key = fact.at.clone();
        key[own.axis] = None;
        groups.entry(key).or_default().push(fact);
    }
    let mut pairs = Vec::new();
    for group in groups.values() {
        let mine: Vec<&&Fact> = group
            .iter()
            .filter(|fact| fact.at[own.axis] == Some(own.value))
            .collect();
        let [mine] = mine.as_slice() else { continue };
        let theirs: Vec<&&Fact> = group
            .iter()
            .filter(|fact| match other {
                Some(other) => fact.at[other.axis] == Some(other.value),
                None => {
                    fact.at[own.axis].is_some()
                        && fact.at[own.axis] != Some(own.value)
                        && fact.value.unit == mine.value.unit
                }
            })
            .collect();
        // Without a named other side, only one may be left.
        let [theirs] = theirs.as_slice() else {
            return None;
        };
        if mine.value.unit != theirs.value.unit || mine.high.is_some() || theirs.high.is_some() {
            return None;
        }
        pairs.push(Pair {
            own: mine,
            other: theirs,
        });
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// Judges a comparison of two sides: on every row, on some of them, by an amount. If the sentence does not name the
/// column, it may mean any of them; then all must contradict it.
pub(super) fn pairs(claim: &Claim, facts: &Facts<'_>) -> Ruling {
    let all = sides(claim, facts)?;
    let metrics = facts
        .across
        .filter(|across| facts.mixed && !claim.mentions.iter().any(|m| m.axis == *across));
    let mut columns: BTreeMap<Option<usize>, Vec<Pair<'_>>> = BTreeMap::new();
    // A stated difference applies to the columns with its unit.
    let difference = match claim.numbers.as_slice() {
        [stated] if !matches!(stated.low.unit.as_str(), "" | "%" | "x") => Some(&stated.low.unit),
        _ => None,
    };
    // Speed words apply to rates and times.
    let fast = ["fast", "faster", "slow", "slower", "quicker"];
    let fast = claim.words.iter().any(|word| fast.contains(&word.as_str()));
    let speed = |pair: &Pair<'_>| {
        let unit = pair.own.value.unit.as_str();
        unit.ends_with("/s") || crate::number::measure(unit).0 == "time"
    };
    let speeds = fast && all.iter().any(speed);
    for pair in all.into_iter().filter(|pair| !speeds || speed(pair)) {
        if difference.is_none_or(|unit| *unit == pair.own.value.unit) {
            let column = metrics.and_then(|across| pair.own.at[across]);
            columns.entry(column).or_default().push(pair);
        }
    }
    let several = columns.len() > 1;
    let mut first = None;
    for pairs in columns.into_values() {
        let units = pairs
            .iter()
            .all(|pair| pair.own.value.unit == pairs[0].own.value.unit);
        if !units || several && pairs.len() > 1 {
            return None;
        }
        let Some(verdict) = compared(claim, facts, &pairs, several)? else {
            return Some(None);
        };
        first.get_or_insert(verdict);
    }
    first.map(Some)
}

/// Judges a comparison on the pairs of one column.
fn compared(claim: &Claim, facts: &Facts<'_>, pairs: &[Pair<'_>], several: bool) -> Ruling {
    let (relation, _) = claim.relation?;
    let directions = match better(pairs[0].own) {
        Some(more) => vec![more],
        None => vec![true, false],
    };
    let n = pairs.len();
    let pinned = claim
        .mentions
        .iter()
        .map(|m| m.axis)
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        + usize::from(several);
    if let [stated] = claim.numbers.as_slice()
        && (stated.low.is_percent()
            || stated.low.unit == "x"
            || stated.low.unit == pairs[0].own.value.unit && !stated.low.unit.is_empty())
    {
        return by_so_much(claim, stated, pairs, relation, &directions);
    }
    if !claim.numbers.is_empty() && claim.count.is_none() {
        return None;
    }
    let verdict = |more: bool| -> Option<bool> {
        let ahead = pairs
            .iter()
            .filter(|pair| pair.ahead(relation, more) == Some(true))
            .count();
        let ties = pairs
            .iter()
            .filter(|pair| pair.ahead(relation, more).is_none())
            .count();
        let clear = pairs
            .iter()
            .filter(|pair| pair.ahead(relation, more) == Some(true) && pair.change().abs() > 5.0)
            .count();
        Some(match (claim.part, claim.count, claim.many) {
            (Some((k, m)), _, _) => {
                if m != n as f64 {
                    return None;
                }
                k >= clear as f64 && k <= (ahead + ties) as f64
            }
            (None, Some(k), _) => k <= (ahead + ties) as f64,
            (None, None, Some(Many::Every)) => ahead + ties == n,
            (None, None, Some(Many::Both)) => n != 2 || ahead + ties == n,
            (None, None, Some(Many::No)) => ahead == 0,
            (None, None, Some(Many::Most)) => 2 * (ahead + ties) > n,
            (None, None, Some(Many::Few)) => 2 * ahead < n,
            (None, None, None) => {
                // A plain comparison is about a single pair, and names all axes that matter.
                if n != 1
                    || pinned
                        < facts
                            .axes
                            .iter()
                            .filter(|axis| axis.values.len() > 1)
                            .count()
                {
                    return None;
                }
                ahead + ties == 1
            }
        })
    };
    let verdicts: Vec<bool> = directions
        .iter()
        .map(|more| verdict(*more))
        .collect::<Option<_>>()?;
    if verdicts.contains(&true) || n == 1 && claim.many.is_some() {
        return Some(None);
    }
    let more = directions[0];
    let ahead = pairs
        .iter()
        .filter(|pair| pair.ahead(relation, more) == Some(true))
        .count();
    let ties = pairs
        .iter()
        .filter(|pair| pair.ahead(relation, more).is_none())
        .count();
    let against: Vec<&Fact> = pairs
        .iter()
        .filter(|pair| pair.ahead(relation, more) != Some(claim.many != Some(Many::No)))
        .flat_map(|pair| [pair.own, pair.other])
        .collect();
    let tied = if ties > 0 {
        format!(", with {ties} tied")
    } else {
        String::new()
    };
    Some(Some((
        format!("it holds for {ahead} of {n}{tied}"),
        evidence(&against),
    )))
}

/// Judges a comparison with a magnitude: of all pairs, or of the only one.
fn by_so_much(
    claim: &Claim,
    stated: &Stated,
    pairs: &[Pair<'_>],
    relation: Relation,
    directions: &[bool],
) -> Ruling {
    // `faster by 30 %`, `30 % faster`; but in `on a larger card 3,100 tok/s` the number is not a difference.
    let by = |two: &[String]| two[0] == "by" && two[1].starts_with(|c: char| c.is_ascii_digit());
    let is_claim = claim.words.windows(2).any(by)
        || claim.bound.is_some()
        || claim.relation.is_some_and(|(_, at)| stated.low.start <= at);
    if !is_claim {
        return None;
    }
    let all = stated.high.is_some() || claim.bound.is_some() || pairs.len() == 1;
    if !all
        || claim.many == Some(Many::No)
        || claim.many == Some(Many::Most)
        || claim.part.is_some()
        || claim.count.is_some()
    {
        return None;
    }
    let wrong: Vec<&Pair<'_>> = pairs
        .iter()
        .filter(|pair| !magnitude(pair, stated, claim.bound, relation, directions))
        .collect();
    let Some(first) = wrong.first() else {
        return Some(None);
    };
    let cells: Vec<&Fact> = wrong
        .iter()
        .flat_map(|pair| [pair.own, pair.other])
        .collect();
    Some(Some((
        format!(
            "{} against {} is {} %",
            first.own.place.1,
            first.other.place.1,
            shown(first.change())
        ),
        evidence(&cells),
    )))
}

/// Whether the difference of a pair matches the stated magnitude; any of the usual bases may fit.
fn magnitude(
    pair: &Pair<'_>,
    stated: &Stated,
    bound: Option<bool>,
    relation: Relation,
    directions: &[bool],
) -> bool {
    let (a, b) = (pair.own.value.value, pair.other.value.value);
    let forms: Vec<f64> = if stated.low.is_percent() {
        vec![
            100.0 * (a - b).abs() / b.abs(),
            100.0 * (a - b).abs() / a.abs(),
            (a - b).abs(),
        ]
    } else if stated.low.unit == "x" {
        vec![
            a / b,
            b / a,
            (a - b).abs() / b.abs(),
            (a - b).abs() / a.abs(),
        ]
    } else {
        vec![(a - b).abs()]
    };
    let way = relation == Relation::Changed
        || directions
            .iter()
            .any(|more| pair.ahead(relation, *more) != Some(false));
    let slack = |n: &Quantity| 2.0 * n.half.max(0.02 * if n.rough { n.value.abs() } else { 0.0 });
    match (bound, &stated.high) {
        (Some(true), _) => forms
            .iter()
            .any(|v| *v <= stated.low.value + slack(&stated.low)),
        (Some(false), _) => {
            way && forms
                .iter()
                .any(|v| *v >= stated.low.value - slack(&stated.low))
        }
        (None, Some(high)) => {
            way && forms.iter().any(|v| {
                *v >= stated.low.value - slack(&stated.low) && *v <= high.value + slack(high)
            })
        }
        (None, None) => {
            let exact = !stated.low.is_percent()
                && stated.low.unit != "x"
                && stated.low.agrees(
                    (a - b).abs() - pair.own.value.half,
                    (a - b).abs() + pair.other.value.half,
                );
            way && (exact
                || (stated.low.is_percent() || stated.low.unit == "x")
                    && is_change(&stated.low, &pair.other.value, &pair.own.value))
        }
    }
}
