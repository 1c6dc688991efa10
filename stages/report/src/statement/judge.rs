//! Judges whether a rule holds, and which rows refute it.
//!
//! Nothing is true of no rows: a rule over an empty selection is *unknown*, like one that depends on a null. A
//! statement renders only on `Yes`; a claim is undecided on `Unknown`.

use contract::Verdict;
use pipeline::place::Condition;

use super::chances;
use super::confidence;
use super::counting::{counted, every, no_row, only_these};
use super::interval;
use super::judgement::Judgement;
use super::levels;
use super::predicate::Truth;
use super::rule::Rule;
use super::share::{Share, alternatives};
use super::steps::{monotone, steepest};
use super::values::{between, consistent, extremum, within};
use super::verdicts::{not_worse, tested};
use crate::data::Miss;
use crate::view::View;

/// Opens the tables that a rule refers to.
pub(crate) type Look<'a> = &'a dyn Fn(&str, &Condition) -> Result<View, Miss>;

/// Judges a rule.
///
/// # Errors
/// If a table or column is missing, values of different types are compared, or the rule itself is wrong.
pub(crate) fn judge(rule: &Rule, look: Look<'_>) -> Result<Judgement, Miss> {
    judge_at(rule, (1, false), look)
}

/// Judges the rule of a claim, which may be one of several alternatives, among which the level of its tests is divided.
/// Values that it compares with bounds count with their intervals. `levels` is whether its sentence has no restriction to
/// an average, so that pooled findings count only if their direction does not change with the level.
///
/// # Errors
/// As [`judge`].
pub(crate) fn judge_claim(
    rule: &Rule,
    (alternatives, levels): (usize, bool),
    look: Look<'_>,
) -> Result<Judgement, Miss> {
    let share = Share {
        intervals: true,
        levels,
        ..Share::default()
    };
    let claimed = |table: &str, condition: &Condition| confidence::claimed(look, table, condition);
    shared(rule, share.among(alternatives), &claimed)
}

/// Judges a rule that is one of several alternatives, among which the level of its tests is divided. `levels` is as in
/// [`judge_claim`].
///
/// # Errors
/// As [`judge`].
pub(crate) fn judge_at(
    rule: &Rule,
    (alternatives, levels): (usize, bool),
    look: Look<'_>,
) -> Result<Judgement, Miss> {
    let share = Share::default().over_levels(levels);
    shared(rule, share.among(alternatives), look)
}

fn shared(rule: &Rule, share: Share, look: Look<'_>) -> Result<Judgement, Miss> {
    rule.check()?;
    match rule {
        // Every part must hold, so the parts need no stricter level.
        Rule::AllOf(rules) => return combined(rules, true, share, look),
        Rule::AnyOf(rules) => {
            let parts: Vec<&Rule> = rules.iter().collect();
            let share = share.among(alternatives(&parts, look)?);
            return combined(rules, false, share, look);
        }
        _ => {}
    }
    let (table, _) = rule.place().expect("rules made of rules are handled above");
    let mut view = look(table, &rule.condition())?;
    if view.rows.is_empty() {
        let reason = format!("no row of `{table}` matches {{{}}}", view.condition);
        return Ok(Judgement::new(&view, Truth::Unknown, Vec::new(), reason).counted(0));
    }
    let share = share.over_levels(share.levels && !levels::named(rule)?);
    let chances = chances::of_rule(rule, &view)?;
    let share = Share {
        level: view.share.level,
        ..share.among_chances(&chances)
    };
    view.share = match rule {
        Rule::AtLeast(r) => share.among_rows(&view, r.count),
        Rule::Exactly(r) => share.among_exactly(&view, r.count),
        Rule::AtMost(r) => {
            let rows = u64::try_from(view.rows.len()).unwrap_or(u64::MAX);
            share.among_rows(&view, rows.saturating_sub(r.count))
        }
        // That nothing was shown is not a finding.
        Rule::NoEvidence(_) => share.whole(),
        _ => share,
    };
    let mut judgement = over_rows(rule, &view)?;
    let whole = view.share.whole();
    if rule.predicate().is_some() && view.share != whole {
        // At the divided level, fewer rows have a finding and more have none. A predicate may count either, so the rule
        // must hold at both levels.
        let whole = View {
            share: whole,
            ..view.clone()
        };
        let at_whole = over_rows(rule, &whole)?;
        if judgement.truth.and(at_whole.truth) != judgement.truth {
            (judgement, view) = (at_whole, whole);
        }
    }
    if view.share.levels
        && judgement.truth == Truth::Unknown
        && let Some(words) = levels::words(&view)
    {
        let share = view.share.over_levels(false);
        let on_average = over_rows(
            rule,
            &View {
                share,
                ..view.clone()
            },
        )?;
        judgement.reason = match on_average.truth {
            Truth::Unknown => format!("{}; {words}", judgement.reason),
            _ => words,
        };
        return Ok(judgement);
    }
    if judgement.truth != Truth::Yes
        && chances.has_finding()
        && let Some(words) = view.share.words(&view)
    {
        judgement.reason = format!("{}; {words}", judgement.reason);
    }
    if judgement.truth == Truth::Unknown
        && let Some(words) = interval::words(&view, rule)?
    {
        judgement.reason = format!("{}; {words}", judgement.reason);
    }
    if judgement.truth != Truth::Unknown
        && interval::counts(&view, rule)?
        && let Some(words) = confidence::unusual(&view)
    {
        judgement.reason = format!("{}; {words}", judgement.reason);
    }
    Ok(judgement)
}

fn over_rows(rule: &Rule, view: &View) -> Result<Judgement, Miss> {
    match rule {
        Rule::Every(r) => every(r, view),
        Rule::NoRow(r) => no_row(r, view),
        Rule::Holds(r) => match view.rows.len() {
            1 => every(r, view),
            n => Err(format!(
                "`holds` needs exactly one row, but {n} match {{{}}}",
                view.condition
            )
            .into()),
        },
        Rule::AtLeast(r) => counted(
            r,
            view,
            |sure, _, wanted| sure >= wanted,
            |_, may, wanted| may < wanted,
        ),
        Rule::AtMost(r) => counted(
            r,
            view,
            |_, may, wanted| may <= wanted,
            |sure, _, wanted| sure > wanted,
        ),
        Rule::Exactly(r) => counted(
            r,
            view,
            |sure, may, wanted| sure == wanted && may == wanted,
            |sure, may, wanted| sure > wanted || may < wanted,
        ),
        Rule::OnlyThese(r) => only_these(r, view),
        Rule::Largest(r) => extremum(r, view, "largest", 1.0),
        Rule::Smallest(r) => extremum(r, view, "smallest", -1.0),
        Rule::Between(r) => between(r, view),
        Rule::Within(r) => within(r, view),
        Rule::Monotone(r) => monotone(r, view),
        Rule::Steepest(r) => steepest(r, view),
        Rule::Different(r) => tested(r, view, Verdict::Different),
        Rule::Equivalent(r) => tested(r, view, Verdict::Equivalent),
        Rule::NoEvidence(r) => tested(r, view, Verdict::NoEvidence),
        Rule::NotWorse(r) => not_worse(r, view),
        Rule::Consistent(r) => consistent(r, view),
        Rule::AllOf(_) | Rule::AnyOf(_) => unreachable!("rules made of rules have no rows"),
    }
}

fn combined(rules: &[Rule], all: bool, share: Share, look: Look<'_>) -> Result<Judgement, Miss> {
    let (mut truth, mut reasons) = (Truth::of(all), Vec::new());
    for rule in rules {
        let part = shared(rule, share, look)?;
        truth = if all {
            truth.and(part.truth)
        } else {
            truth.or(part.truth)
        };
        reasons.push(part.reason);
    }
    Ok(Judgement {
        truth,
        view: None,
        count: None,
        against: Vec::new(),
        named: Vec::new(),
        values: Vec::new(),
        reason: reasons.join("; "),
    })
}
