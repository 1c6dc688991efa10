//! The chances of a sentence: what could be shown falsely so that it is licensed falsely.
//!
//! A chance is one end of an interval of a value, or one test. A sentence that holds if any of its parts holds has the chances
//! of all of them. A sentence that needs all of its parts is false only if one of them is, so it has those of the part with the
//! most. Rows that must all meet a predicate are such parts. The same end twice is one chance: it is on the wrong side of the
//! truth, or not.

use std::collections::BTreeSet;

use artifacts::Scalar;
use contract::{Verdict, Word as _};

use super::interval;
use super::predicate::{Comparison, Operand, Predicate};
use super::rule::{Extremum, Rule};
use crate::data::Miss;
use crate::view::View;

/// One thing that could be shown falsely in a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chance {
    /// The lower end of the interval of a column lies above the true value.
    Low(String),
    /// The upper end of the interval of a column lies below the true value.
    High(String),
    /// A finding about a margin.
    Margin(String),
    /// A difference. Those of a family share their level already.
    Difference,
}

/// The chances of a sentence about a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chances {
    /// Those that are counted once wherever they occur.
    named: BTreeSet<Chance>,
    /// The number of others, at most.
    others: usize,
    /// Whether any is more than a difference.
    own: bool,
    /// Whether any is a finding about a margin.
    margin: bool,
    /// Whether any is a difference.
    different: bool,
}

impl Chances {
    fn one(chance: Chance) -> Self {
        Self {
            own: chance != Chance::Difference,
            margin: matches!(chance, Chance::Margin(_)),
            different: chance == Chance::Difference,
            named: BTreeSet::from([chance]),
            others: 0,
        }
    }

    fn ends(number: usize) -> Self {
        Self {
            others: number,
            own: number > 0,
            ..Self::default()
        }
    }

    /// Returns their number.
    pub(super) fn number(&self) -> usize {
        self.named.len() + self.others
    }

    /// Whether any has a level of its own.
    pub(super) fn has_own(&self) -> bool {
        self.own
    }

    /// Whether any is a difference, whose level is that of its family.
    pub(super) fn has_difference(&self) -> bool {
        self.different
    }

    /// Whether any is a finding, and so rests on a test.
    pub(super) fn has_finding(&self) -> bool {
        self.margin || self.different
    }

    /// Those of a sentence that holds if either of two holds.
    fn either(mut self, other: Self) -> Self {
        self.named.extend(other.named);
        Self {
            named: self.named,
            others: self.others + other.others,
            own: self.own || other.own,
            margin: self.margin || other.margin,
            different: self.different || other.different,
        }
    }

    /// Those of a sentence that needs two others. It is not known which of them is false, so names count only if all those of
    /// one are among those of the other.
    fn both(self, other: Self) -> Self {
        let (own, margin) = (self.own || other.own, self.margin || other.margin);
        let different = self.different || other.different;
        let (more, less) = match self.number() >= other.number() {
            true => (self, other),
            false => (other, self),
        };
        let contained = less.named.is_subset(&more.named) && less.others <= more.others;
        let (named, others) = match contained {
            true => (more.named, more.others),
            false => (BTreeSet::new(), more.number()),
        };
        Self {
            named,
            others,
            own,
            margin,
            different,
        }
    }
}

/// Returns the chances of a rule about the rows of a view, if each of its rows, or the rows that it names, must meet it.
///
/// # Errors
/// If its predicate cannot be read.
pub(super) fn of_rule(rule: &Rule, view: &View) -> Result<Chances, Miss> {
    let has = |column: &str| interval::has(view, column);
    let ends = |number: usize, columns: &[&str]| {
        let wide = columns.iter().filter(|column| has(column)).count();
        Chances::ends(number * wide)
    };
    if let Some(that) = rule.predicate() {
        let predicate = Predicate::parse(that)?;
        return Ok(match rule {
            Rule::NoRow(_) | Rule::AtMost(_) => of_predicate(&predicate, false, view),
            // Some rows must meet it, and the others must not.
            Rule::Exactly(_) | Rule::OnlyThese(_) => {
                let [met, not_met] = [true, false].map(|met| of_predicate(&predicate, met, view));
                met.both(not_met)
            }
            _ => of_predicate(&predicate, true, view),
        });
    }
    Ok(match rule {
        // The value is above all that is allowed, or below.
        Rule::Between(r) if r.low.is_some() || r.high.is_some() => ends(1, &[&r.column]),
        Rule::Within(r) => {
            let columns = [Some(r.column.as_str()), r.reference.as_str()];
            ends(1, &columns.into_iter().flatten().collect::<Vec<_>>())
        }
        // All are above, or all are below.
        Rule::Consistent(r) => ends(2, &[&r.column]),
        // The lower row is the higher one: either its interval is wrong, or that of the other.
        Rule::Monotone(r) => ends(2, &[&r.y]),
        Rule::Largest(r) | Rule::Smallest(r) => ends(of_extremum(r, view)?, &[&r.column]),
        // A step has two rows.
        Rule::Steepest(r) => {
            let extremum = Extremum {
                table: r.table.clone(),
                only: r.only.clone(),
                column: r.y.clone(),
                are: r.are.clone(),
            };
            ends(2 * of_extremum(&extremum, view)?, &[&r.y])
        }
        Rule::Equivalent(_) | Rule::NotWorse(_) => Chances::one(Chance::Margin(String::new())),
        Rule::Different(_) => Chances::one(Chance::Difference),
        _ => Chances::default(),
    })
}

/// Returns the number of intervals of which one must be wrong if a row is falsely called the one with the best value. If one
/// row is named, its interval is wrong, or that of a row that is better. If any of several rows may be the best, the interval
/// of any of them is wrong, or that of one of two rows that share the best value.
fn of_extremum(r: &Extremum, view: &View) -> Result<usize, Miss> {
    let mut named = 0;
    for row in 0..view.rows.len() {
        named += usize::from(super::judgement::is_one(view, row, &r.are)?);
    }
    Ok(match named {
        0 | 1 => 2,
        several => several + 2,
    })
}

/// Returns the chances that a predicate is shown falsely to be met, or not to be met.
fn of_predicate(predicate: &Predicate, met: bool, view: &View) -> Chances {
    let pair = |a: &Predicate, b: &Predicate, any: bool| {
        let (a, b) = (of_predicate(a, met, view), of_predicate(b, met, view));
        if any { a.either(b) } else { a.both(b) }
    };
    match predicate {
        Predicate::Not(inner) => of_predicate(inner, !met, view),
        Predicate::Either(a, b) => pair(a, b, met),
        Predicate::Both(a, b) => pair(a, b, !met),
        Predicate::IsNull(_) => Chances::default(),
        Predicate::Plain(operand) => finding(operand, None),
        Predicate::Compare(a, how, b) => compared((a, *how, b), met, view),
        Predicate::In(operand, options) => {
            let one = |option| compared((operand, Comparison::Equal, option), met, view);
            let each = options.iter().map(one);
            let joined = each.reduce(|a, b| if met { a.either(b) } else { a.both(b) });
            joined.unwrap_or_default()
        }
    }
}

/// Returns the chances of a comparison of two values.
fn compared((a, how, b): (&Operand, Comparison, &Operand), met: bool, view: &View) -> Chances {
    let constant = |operand: &Operand| match operand {
        Operand::Constant(Scalar::Text(text)) => Verdict::parse(text).ok(),
        _ => None,
    };
    let findings = finding(a, constant(b)).either(finding(b, constant(a)));
    if findings.number() > 0 {
        return findings;
    }
    // Which operand is shown to be larger. A value that is shown to be unlike another may be either.
    let shown = match (how, met) {
        (Comparison::Less | Comparison::LessOrEqual, true)
        | (Comparison::Greater | Comparison::GreaterOrEqual, false) => [false, true],
        (Comparison::Greater | Comparison::GreaterOrEqual, true)
        | (Comparison::Less | Comparison::LessOrEqual, false) => [true, false],
        (Comparison::Equal, false) | (Comparison::Different, true) => [true, true],
        // Only an interval of one value shows equality.
        (Comparison::Equal, true) | (Comparison::Different, false) => [true, false],
    };
    let mut chances = Chances::default();
    for (larger, smaller) in [(a, b), (b, a)]
        .into_iter()
        .zip(shown)
        .filter_map(|(pair, shown)| shown.then_some(pair))
    {
        for (operand, high) in [(larger, false), (smaller, true)] {
            let Operand::Column(name) = operand else {
                continue;
            };
            if let Some(stem) = interval::stem(view, name) {
                let chance = if high {
                    Chance::High(stem)
                } else {
                    Chance::Low(stem)
                };
                chances = chances.either(Chances::one(chance));
            }
        }
    }
    chances
}

/// Returns the chance of a column with a finding. A verdict that is compared with another column may be any.
fn finding(operand: &Operand, verdict: Option<Verdict>) -> Chances {
    let Operand::Column(name) = operand else {
        return Chances::default();
    };
    let margin = || Chances::one(Chance::Margin(name.clone()));
    match (name.as_str(), verdict) {
        ("equivalent" | "not_lower" | "not_higher", _) => margin(),
        ("verdict", Some(Verdict::Equivalent)) => {
            Chances::one(Chance::Margin("equivalent".to_owned()))
        }
        ("verdict", _) => Chances::one(Chance::Difference),
        _ => Chances::default(),
    }
}
