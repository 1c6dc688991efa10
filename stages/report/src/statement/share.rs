//! The levels of rules with alternatives.
//!
//! A sentence that may be said in several ways would be licensed falsely more often than any one of them. The ways share
//! the level of their tests by Bonferroni's inequality, which holds under any dependence. A sentence that implies
//! another needs no level of its own: if the weaker one is false, so is the stronger one, and a test that shows the
//! stronger one at some level also shows the weaker one.

use std::collections::BTreeSet;

use artifacts::Scalar;
use contract::{Better, LevelScope, Verdict, Word as _};

use super::chances::{self, Chances};
use super::confidence;
use super::judge::Look;
use super::levels;
use super::rule::{Only, Rule, Side, Tested};
use crate::data::Miss;
use crate::settings::OneOrMany;
use crate::view::View;

/// The level of comparisons whose table does not state it.
const ALPHA: f64 = 0.05;

/// The part of their level at which findings count: one divided by these numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// For findings about a margin, each of which has the whole level of its comparison.
    pub(crate) margin: usize,
    /// For differences, which share one level among all tests of their family.
    pub(crate) different: usize,
    /// For values with intervals: the number of their ends that could license the sentence falsely.
    pub(crate) values: usize,
    /// The level of the intervals of the table, if it is stated.
    pub(crate) level: Option<f64>,
    /// Whether a value beyond a bound counts only with its whole interval, as in a claim.
    pub(crate) intervals: bool,
    /// Whether a finding of a pooled row counts only if its direction does not change with the level, as in a sentence without
    /// a restriction.
    pub(crate) levels: bool,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            margin: 1,
            different: 1,
            values: 1,
            level: None,
            intervals: false,
            levels: false,
        }
    }
}

impl Share {
    /// The whole level again.
    pub(super) fn whole(self) -> Self {
        Self {
            margin: 1,
            different: 1,
            values: 1,
            ..self
        }
    }

    /// The same level, divided among a number of alternatives.
    pub(super) fn among(self, alternatives: usize) -> Self {
        let alternatives = alternatives.max(1);
        Self {
            margin: self.margin.saturating_mul(alternatives),
            different: self.different.saturating_mul(alternatives),
            values: self.values.saturating_mul(alternatives),
            ..self
        }
    }

    /// The same level, divided among the chances of a row. A test shares its level with the other tests and the intervals of
    /// its sentence.
    pub(super) fn among_chances(self, chances: &Chances) -> Self {
        let all = self.among(chances.number());
        match chances.has_finding() {
            true => all,
            false => Self {
                values: all.values,
                ..self
            },
        }
    }

    /// The same level, divided among the rows of a view if any `wanted` of them may count. If fewer than `wanted` rows
    /// were true, one of the others would have to be shown falsely.
    pub(super) fn among_rows(self, view: &View, wanted: u64) -> Self {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).max(1);
        let rows = view.rows.len().saturating_sub(wanted).saturating_add(1);
        Self {
            margin: self.among(rows).margin,
            values: self.among(rows).values,
            different: self.among(rows.min(families(view).len())).different,
            ..self
        }
    }

    /// As [`Share::among_rows`], if the others must be shown not to count. If more rows were true, one of them would have to be
    /// shown falsely not to be.
    pub(super) fn among_exactly(self, view: &View, wanted: u64) -> Self {
        let rows = u64::try_from(view.rows.len()).unwrap_or(u64::MAX);
        let [least, most] = [wanted, rows.saturating_sub(wanted)].map(|count| match count {
            0 => 1,
            count => self.among_rows(view, count).values,
        });
        Self {
            values: least.max(most),
            ..self.among_rows(view, wanted)
        }
    }

    /// Whether findings count at their own level.
    fn is_whole(self) -> bool {
        (self.margin, self.different) == (1, 1)
    }

    /// The same level, where a pooled finding counts only if its direction does not change with the level, or also otherwise.
    pub(super) fn over_levels(self, levels: bool) -> Self {
        Self { levels, ..self }
    }

    /// Returns a value of a row as it is at this share of its level.
    pub(crate) fn at(self, view: &View, index: usize, column: &str, value: Scalar) -> Scalar {
        if self.levels && levels::contradicts(view, index, column, &value) {
            return Scalar::Null;
        }
        if self.is_whole() {
            return value;
        }
        let (p, share) = match (column, &value) {
            ("equivalent", Scalar::Bool(true)) => ("equivalence_p", self.margin),
            ("not_lower", Scalar::Bool(true)) => ("not_lower_p", self.margin),
            ("not_higher", Scalar::Bool(true)) => ("not_higher_p", self.margin),
            ("verdict", Scalar::Text(word)) => match Verdict::parse(word) {
                Ok(Verdict::Equivalent) => ("equivalence_p", self.margin),
                Ok(Verdict::Different) => ("holm_p", self.different),
                _ => return value,
            },
            _ => return value,
        };
        let shown = |p: f64| p <= level(view, index) / share as f64;
        let p_value = view.table.at(view.rows[index], p).ok();
        match share == 1 || p_value.and_then(|p| p.as_f64()).is_some_and(shown) {
            true => value,
            false => match column {
                "verdict" => Scalar::Text(Verdict::NoEvidence.word().to_owned()),
                "equivalent" => Scalar::Bool(false),
                _ => Scalar::Null,
            },
        }
    }

    /// States the level of the findings of a view; `None` if it is their own.
    pub(super) fn words(self, view: &View) -> Option<String> {
        let needs = |column: &str| view.table.has(&[column.to_owned()]);
        let share = match needs("equivalence_p") || needs("not_lower_p") {
            true => self.margin.max(self.different),
            false => self.different,
        };
        (share > 1 && !view.rows.is_empty()).then(|| {
            let level = 100.0 * level(view, 0) / share as f64;
            let level = format!("{level:.2}");
            let level = level.trim_end_matches('0').trim_end_matches('.');
            format!("its alternatives share the level, so each test counts at {level} %")
        })
    }
}

/// The level of the comparison behind a row.
fn level(view: &View, index: usize) -> f64 {
    let (part, _) = view.rows[index];
    let parameters = view.table.parts[part].content.metadata("parameters");
    let parameters =
        parameters.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    parameters
        .and_then(|p| p["alpha"].as_f64())
        .unwrap_or(ALPHA)
}

/// Returns the families of the differences of a view. Of all differences of a family, any is false in at most α of
/// studies. Tables whose comparisons share the level of the study belong to one family, as do tables that do not name any.
fn families(view: &View) -> BTreeSet<String> {
    let family = |row: &(usize, usize)| {
        let family = view.table.at(*row, "family");
        let family = family.map_or_else(|_| String::new(), |family| family.to_string());
        match LevelScope::read(&family) {
            Some(LevelScope::Table | LevelScope::Column) => {
                format!("{}.{}: {family}", view.table.stage, view.table.output)
            }
            Some(LevelScope::Study | LevelScope::Checks) | None => String::new(),
        }
    };
    view.rows.iter().map(family).collect()
}

/// The tests behind a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tests {
    /// Whether any has a level of its own.
    own: bool,
    /// The families of the differences.
    families: BTreeSet<String>,
}

impl Tests {
    fn and(self, other: Self) -> Self {
        Self {
            own: self.own || other.own,
            families: self.families.into_iter().chain(other.families).collect(),
        }
    }
}

fn tests(rule: &Rule, look: Look<'_>) -> Result<Tests, Miss> {
    if let Rule::AllOf(rules) | Rule::AnyOf(rules) = rule {
        return rules.iter().try_fold(
            Tests::default(),
            |all, rule| Ok(all.and(tests(rule, look)?)),
        );
    }
    let (table, _) = rule.place().expect("a rule about rows has a place");
    let view = look(table, &rule.condition())?;
    let chances = chances::of_rule(rule, &view)?;
    Ok(Tests {
        own: chances.has_own(),
        families: match chances.has_difference() {
            true => families(&view),
            false => BTreeSet::new(),
        },
    })
}

/// As [`alternatives`], for the rules of a claim, whose values count with their intervals.
///
/// # Errors
/// If a table or column of a rule cannot be read.
pub(crate) fn claimed_alternatives(rules: &[&Rule], look: Look<'_>) -> Result<usize, Miss> {
    alternatives(rules, &|table, condition| {
        confidence::claimed(look, table, condition)
    })
}

/// Returns the number of rules among which a level is divided, if any of them licenses a sentence.
pub(super) fn alternatives(rules: &[&Rule], look: Look<'_>) -> Result<usize, Miss> {
    let weakest = rules.iter().enumerate().filter(|(i, rule)| {
        let mut others = rules.iter().enumerate();
        // Of rules that imply each other, the first counts.
        !others
            .any(|(j, other)| *i != j && implies(rule, other) && (!implies(other, rule) || j < *i))
    });
    let (mut own, mut families) = (0, BTreeSet::new());
    for (_, rule) in weakest {
        let tests = tests(rule, look)?;
        match tests.own {
            true => own += 1,
            false => families.extend(tests.families),
        }
    }
    Ok((own + families.len()).max(1))
}

/// Whether a rule implies another, and a test that shows it at some level also shows the other at that level.
fn implies(rule: &Rule, other: &Rule) -> bool {
    if rule == other {
        return true;
    }
    match (rule, other) {
        (_, Rule::AllOf(parts)) => parts.iter().all(|part| implies(rule, part)),
        (Rule::AllOf(parts), _) => parts.iter().any(|part| implies(part, other)),
        (Rule::Every(a), Rule::Every(b)) | (Rule::NoRow(a), Rule::NoRow(b)) => {
            a.that == b.that && covers((&a.table, &a.only), (&b.table, &b.only))
        }
        (Rule::Every(a), Rule::Holds(b)) => {
            a.that == b.that && covers((&a.table, &a.only), (&b.table, &b.only))
        }
        (Rule::Different(a), Rule::Different(b)) => {
            (b.side == Side::Either || a.side == b.side) && wider(a, b)
        }
        (Rule::Equivalent(a), Rule::Equivalent(b)) => wider(a, b),
        (Rule::NotWorse(a), Rule::NotWorse(b)) => {
            a.better == b.better && covers((&a.table, &a.only), (&b.table, &b.only))
        }
        // What is better, or as good as equal, is not worse.
        (Rule::Different(a), Rule::NotWorse(b)) => {
            let better = match b.better {
                Better::Higher => Side::Greater,
                Better::Lower => Side::Less,
            };
            a.side == better && covers((&a.table, &a.only), (&b.table, &b.only))
        }
        (Rule::Equivalent(a), Rule::NotWorse(b)) => {
            covers((&a.table, &a.only), (&b.table, &b.only))
        }
        _ => false,
    }
}

fn wider(a: &Tested, b: &Tested) -> bool {
    covers((&a.table, &a.only), (&b.table, &b.only))
}

/// Whether a condition selects at least the rows of another, as far as the conditions show.
fn covers((table, only): (&str, &Only), (other_table, other): (&str, &Only)) -> bool {
    let values = |values: &OneOrMany| {
        serde_json::to_value(values).map(|v| match v {
            serde_json::Value::Array(values) => values,
            one => vec![one],
        })
    };
    let within = |(column, allowed): (&String, &OneOrMany)| {
        let narrower = other.get(column)?;
        let (allowed, narrower) = (values(allowed).ok()?, values(narrower).ok()?);
        narrower
            .iter()
            .all(|value| allowed.contains(value))
            .then_some(())
    };
    table == other_table && only.iter().all(|part| within(part).is_some())
}
