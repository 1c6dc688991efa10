//! Judges a claim that compares two sides: which has more, and by how much.

use std::collections::{BTreeMap, BTreeSet};

use crate::arithmetic::is_change;
use crate::claims::facts::{Fact, Facts, lines};
use crate::claims::judge::{HOLDS, Ruling, contradicted, equal, select};
use crate::claims::lexicon::{Many, Relation};
use crate::claims::sentence::{Claim, Stated};
use crate::number::{Quantity, brief};

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
        let after = claim.mentions.iter().filter(|m| m.start > than);
        after.min_by_key(|m| m.start)
    });
    // `Compared with B, A is faster`: the other side comes first.
    let fronted = claim.than.filter(|than| *than < at).and_then(|than| {
        let after = claim.mentions.iter().filter(|m| m.start > than);
        after.min_by_key(|m| m.start).filter(|m| m.start < at)
    });
    let other = other.or(fronted);
    let before = claim.mentions.iter().filter(|m| m.start < at);
    let before = before.filter(|m| fronted.is_none_or(|fronted| fronted != *m));
    let own = before
        .filter(|m| other.is_none_or(|other| other.axis == m.axis))
        .max_by_key(|m| m.start)?;
    if claim.than.is_some() && other.is_none()
        || facts.axes[own.axis].is_statistic()
        || claim.on(own.axis).count() != 1 + usize::from(other.is_some())
        || other.is_some_and(|other| other.value == own.value)
    {
        return None;
    }
    let mut pairs = Vec::new();
    for line in lines(
        select(facts, claim, &claim.except(Some(own.axis))),
        own.axis,
    )
    .values()
    {
        let place = |fact: &&&Fact| fact.at[own.axis];
        let mine: Vec<&&Fact> = line
            .iter()
            .filter(|f| place(f) == Some(own.value))
            .collect();
        let [mine] = mine.as_slice() else { continue };
        let unit = &mine.value.unit;
        let theirs = line.iter().filter(|fact| match other {
            Some(other) => place(fact) == Some(other.value),
            None => place(fact).is_some_and(|at| at != own.value) && fact.value.unit == *unit,
        });
        // Without a named other side, only one may be left.
        let theirs: Vec<&&Fact> = theirs.collect();
        let [theirs] = theirs.as_slice() else {
            return None;
        };
        if *unit != theirs.value.unit || mine.high.is_some() || theirs.high.is_some() {
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
    let mut all = sides(claim, facts)?;
    // A stated difference applies to the columns with its unit.
    if let [stated] = claim.numbers.as_slice()
        && !matches!(stated.low.unit.as_str(), "" | "%" | "x")
    {
        all.retain(|pair| pair.own.value.unit == stated.low.unit);
    }
    // Speed words apply to rates and times.
    let fast = ["fast", "faster", "slow", "slower", "quicker"];
    let fast = claim.words.iter().any(|word| fast.contains(&word.as_str()));
    if fast && all.iter().any(|pair| pair.own.is_speed()) {
        all.retain(|pair| pair.own.is_speed());
    }
    let named = |across: usize| claim.on(across).next().is_some();
    let open = facts.mixed && !facts.across.is_some_and(named);
    let mut columns: BTreeMap<Option<usize>, Vec<Pair<'_>>> = BTreeMap::new();
    for pair in all {
        let column = facts.column(pair.own).filter(|_| open);
        columns.entry(column).or_default().push(pair);
    }
    // No share refers to zero.
    let share = |stated: &Stated| matches!(stated.low.unit.as_str(), "%" | "x");
    if columns.len() > 1 && claim.numbers.iter().any(share) {
        let zero = |pair: &Pair<'_>| pair.own.value.value == 0.0 || pair.other.value.value == 0.0;
        columns.retain(|_, pairs| !pairs.iter().any(zero));
    }
    let several = columns.len() > 1;
    if several && claim.of_metrics() {
        return every_metric(claim, columns);
    }
    let mut first = None;
    for pairs in columns.into_values() {
        let unit = &pairs[0].own.value.unit;
        let units = pairs.iter().all(|pair| pair.own.value.unit == *unit);
        if !units || several && pairs.len() > 1 {
            return None;
        }
        let Some(verdict) = compared(claim, facts, &pairs, several)? else {
            return HOLDS;
        };
        first.get_or_insert(verdict);
    }
    first.map(Some)
}

/// Judges `A beats B on every metric`: in each column that shows whether more is better.
fn every_metric(claim: &Claim, columns: BTreeMap<Option<usize>, Vec<Pair<'_>>>) -> Ruling {
    let (relation, _) = claim.relation?;
    let counted = claim
        .count
        .is_none_or(|count| count == columns.len() as f64);
    let plain = claim.numbers.is_empty() && claim.part.is_none() && claim.bound.is_none();
    if !matches!(relation, Relation::Better | Relation::Worse) || !counted || !plain {
        return None;
    }
    let mut wrong = Vec::new();
    for pairs in columns.into_values() {
        let [pair] = pairs.as_slice() else {
            return None;
        };
        let ahead = pair.ahead(relation, pair.own.more_is_better?);
        if ahead == Some(false) {
            wrong.extend([pair.own, pair.other]);
        }
    }
    let [own, other, ..] = wrong.as_slice() else {
        return HOLDS;
    };
    let message = format!("it is {} against {}", own.place.1, other.place.1);
    contradicted(message, &wrong)
}

/// Judges a comparison on the pairs of one column.
fn compared(claim: &Claim, facts: &Facts<'_>, pairs: &[Pair<'_>], several: bool) -> Ruling {
    let (relation, _) = claim.relation?;
    let directions = match pairs[0].own.more_is_better {
        Some(more) => vec![more],
        None => vec![true, false],
    };
    let n = pairs.len();
    if let [stated] = claim.numbers.as_slice()
        && (matches!(stated.low.unit.as_str(), "%" | "x")
            || stated.low.unit == pairs[0].own.value.unit && !stated.low.unit.is_empty())
    {
        return by_so_much(claim, stated, pairs, relation, &directions);
    }
    if !claim.numbers.is_empty() && claim.count.is_none() {
        return None;
    }
    let named: BTreeSet<usize> = claim.mentions.iter().map(|m| m.axis).collect();
    let axes = facts.axes.iter().filter(|axis| axis.values.len() > 1);
    let pinned = named.len() + usize::from(several) >= axes.count();
    let ahead = |more: bool| {
        let ahead = pairs
            .iter()
            .filter(move |p| p.ahead(relation, more) == Some(true));
        let clear = ahead.clone().filter(|pair| pair.change().abs() > 5.0);
        (ahead.count(), clear.count())
    };
    let tied = |pair: &&Pair<'_>| equal(&pair.own.value, &pair.other.value);
    let ties = pairs.iter().filter(tied).count();
    let every = claim.has_levels().then_some(Many::Every);
    let verdict = |more: bool| -> Option<bool> {
        let (ahead, clear) = ahead(more);
        let most = ahead + ties;
        Some(match (claim.part, claim.count, claim.many.or(every)) {
            (Some((_, m)), _, _) if m != n as f64 => return None,
            (Some((k, _)), _, _) => k >= clear as f64 && k <= most as f64,
            (None, Some(k), _) => k <= most as f64,
            (None, None, Some(Many::Every)) => most == n,
            (None, None, Some(Many::Both)) => n != 2 || most == n,
            (None, None, Some(Many::No)) => ahead == 0,
            (None, None, Some(Many::Most)) => 2 * most > n,
            (None, None, Some(Many::Few)) => 2 * ahead < n,
            // A plain comparison is about a single pair, and names all axes that matter.
            (None, None, None) if n != 1 || !pinned => return None,
            (None, None, None) => most == 1,
        })
    };
    let verdicts = directions.iter().map(|more| verdict(*more));
    let verdicts: Vec<bool> = verdicts.collect::<Option<_>>()?;
    if verdicts.contains(&true) || n == 1 && claim.many.is_some() {
        return HOLDS;
    }
    let more = directions[0];
    let against = pairs
        .iter()
        .filter(|pair| pair.ahead(relation, more) != Some(claim.many != Some(Many::No)))
        .flat_map(|pair| [pair.own, pair.other]);
    let against: Vec<&Fact> = against.collect();
    let tied = match ties {
        0 => String::new(),
        ties => format!(", with {ties} tied"),
    };
    contradicted(
        format!("it holds for {} of {n}{tied}", ahead(more).0),
        &against,
    )
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
    let rough = [
        "about",
        "around",
        "roughly",
        "approximately",
        "nearly",
        "almost",
        "some",
        "only",
        "just",
    ];
    let digit = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    let by = |three: &[String]| {
        three[0] == "by"
            && (digit(&three[1]) || rough.contains(&three[1].as_str()) && digit(&three[2]))
    };
    let ends_by = claim.words.len() > 1 && {
        let last = &claim.words[claim.words.len() - 2..];
        last[0] == "by" && digit(&last[1])
    };
    let is_claim = claim.words.windows(3).any(by)
        || ends_by
        || claim.bound.is_some()
        || claim.relation.is_some_and(|(_, at)| stated.low.start <= at);
    let all = stated.high.is_some() || claim.bound.is_some() || pairs.len() == 1;
    if !is_claim
        || !all
        || matches!(claim.many, Some(Many::No | Many::Most))
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
        return HOLDS;
    };
    let cells: Vec<&Fact> = wrong
        .iter()
        .flat_map(|pair| [pair.own, pair.other])
        .collect();
    let message = format!(
        "{} against {} is {} %",
        first.own.place.1,
        first.other.place.1,
        brief(first.change())
    );
    contradicted(message, &cells)
}

/// Whether the difference of a pair matches the stated magnitude; any of the usual bases may fit.
fn magnitude(
    pair: &Pair<'_>,
    stated: &Stated,
    bound: Option<bool>,
    relation: Relation,
    directions: &[bool],
) -> bool {
    let (own, other) = (&pair.own.value, &pair.other.value);
    let (a, b) = (own.value, other.value);
    let gap = (a - b).abs();
    let forms = match stated.low.unit.as_str() {
        "%" => vec![100.0 * gap / b.abs(), 100.0 * gap / a.abs(), gap],
        "x" => vec![a / b, b / a, gap / b.abs(), gap / a.abs()],
        _ => vec![gap],
    };
    let mut ways = directions.iter().map(|more| pair.ahead(relation, *more));
    let way = relation == Relation::Changed || ways.any(|ahead| ahead != Some(false));
    let slack = |n: &Quantity| 2.0 * n.half.max(0.02 * if n.rough { n.value.abs() } else { 0.0 });
    let least = stated.low.value - slack(&stated.low);
    let most = |n: &Quantity| n.value + slack(n);
    match (bound, &stated.high) {
        (Some(true), _) => forms.iter().any(|v| *v <= most(&stated.low)),
        (Some(false), _) => way && forms.iter().any(|v| *v >= least),
        (None, Some(high)) => way && forms.iter().any(|v| (least..=most(high)).contains(v)),
        (None, None) if matches!(stated.low.unit.as_str(), "%" | "x") => {
            way && is_change(&stated.low, other, own)
        }
        (None, None) => way && stated.low.agrees(gap - own.half, gap + other.half),
    }
}
