//! Rules about the rows that meet a predicate: all, none, a number of them, or exactly those listed.

use artifacts::Scalar;

use super::interval;
use super::judgement::{Judgement, is_one, rows_text};
use super::predicate::{Predicate, Truth};
use super::rule::{Counted, OnlyThese, That};
use crate::data::Miss;
use crate::view::View;

/// The truth of a predicate for each row.
fn truths(that: &str, view: &View) -> Result<(Predicate, Vec<Truth>), Miss> {
    let predicate = Predicate::parse(that)?;
    for column in predicate.columns() {
        view.table.require(column)?;
    }
    let truths = (0..view.rows.len()).map(|row| {
        let interval = |column: &str| interval::interval(view, row, column);
        predicate.holds_over(&|column: &str| view.get(row, column), &interval)
    });
    let truths = truths.collect::<Result<_, Miss>>()?;
    Ok((predicate, truths))
}

fn positions(truths: &[Truth], keep: impl Fn(Truth) -> bool) -> Vec<usize> {
    truths
        .iter()
        .enumerate()
        .filter(|(_, t)| keep(**t))
        .map(|(i, _)| i)
        .collect()
}

/// Describes for how many rows a predicate is true.
fn met(count: usize, n: usize, that: &str) -> String {
    let words = that.split(' ').map(|word| match word {
        "<" => "is below",
        "<=" => "is at most",
        ">" => "is above",
        ">=" => "is at least",
        "=" | "==" => "is",
        "!=" => "is not",
        other => other,
    });
    let words: Vec<&str> = words.collect();
    let says = match words[..] {
        [column] => format!("`{column}` is true"),
        _ => words.join(" "),
    };
    let rows = if n == 1 { "row" } else { "rows" };
    format!("in {count} of {n} {rows} {says}")
}

/// Adds the rows that decide, if any, to a reason.
fn name_rows(reason: &mut String, how: &str, view: &View, rows: &[usize], predicate: &Predicate) {
    if !rows.is_empty() {
        let spans = match view.share.intervals {
            true => interval::columns(view, predicate),
            false => Vec::new(),
        };
        let columns = predicate.columns().into_iter();
        let columns: Vec<&str> = columns.chain(spans.iter().map(String::as_str)).collect();
        let rows = rows_text(view, rows, &columns);
        reason.push_str(&format!("; {how} {rows}"));
    }
}

pub(super) fn every(r: &That, view: &View) -> Result<Judgement, Miss> {
    let (predicate, truths) = truths(&r.that, view)?;
    let truth = truths.iter().fold(Truth::Yes, |all, t| all.and(*t));
    let against = positions(&truths, |t| t != Truth::Yes);
    let count = truths.len() - against.len();
    let mut reason = met(count, truths.len(), &r.that);
    name_rows(&mut reason, "against it:", view, &against, &predicate);
    let mut judgement = Judgement::new(view, truth, against, reason).counted(count);
    if view.rows.len() == 1 {
        judgement.named.push(("row", 0));
    }
    Ok(judgement)
}

pub(super) fn no_row(r: &That, view: &View) -> Result<Judgement, Miss> {
    let (predicate, truths) = truths(&r.that, view)?;
    let any = truths.iter().fold(Truth::No, |any, t| any.or(*t));
    let truth = match any {
        Truth::Yes => Truth::No,
        Truth::No => Truth::Yes,
        Truth::Unknown => Truth::Unknown,
    };
    let against = positions(&truths, |t| t != Truth::No);
    let count = positions(&truths, |t| t == Truth::Yes).len();
    let mut reason = met(count, truths.len(), &r.that);
    name_rows(&mut reason, "against it:", view, &against, &predicate);
    Ok(Judgement::new(view, truth, against, reason).counted(count))
}

/// Decides `yes` or `no` from the rows that certainly meet the predicate and those that may.
pub(super) fn counted(
    r: &Counted,
    view: &View,
    yes: impl Fn(usize, usize, usize) -> bool,
    no: impl Fn(usize, usize, usize) -> bool,
) -> Result<Judgement, Miss> {
    let (predicate, truths) = truths(&r.that, view)?;
    let sure = positions(&truths, |t| t == Truth::Yes);
    let unknown = positions(&truths, |t| t == Truth::Unknown);
    let wanted = usize::try_from(r.count).unwrap_or(usize::MAX);
    let (least, most) = (sure.len(), sure.len() + unknown.len());
    let truth = if yes(least, most, wanted) {
        Truth::Yes
    } else if no(least, most, wanted) {
        Truth::No
    } else {
        Truth::Unknown
    };
    let mut reason = met(least, truths.len(), &r.that);
    name_rows(&mut reason, "unknown:", view, &unknown, &predicate);
    let against = match truth {
        Truth::Yes => Vec::new(),
        _ if least > wanted => sure,
        _ => positions(&truths, |t| t != Truth::Yes),
    };
    if truth != Truth::Yes && unknown.is_empty() {
        reason = format!(
            "{reason}; see {}",
            rows_text(view, &against, &predicate.columns())
        );
    }
    let mut judgement = Judgement::new(view, truth, against, reason).counted(least);
    judgement.values.push((
        "k",
        Scalar::Int(i64::try_from(r.count).unwrap_or(i64::MAX)),
        None,
    ));
    Ok(judgement)
}

pub(super) fn only_these(r: &OnlyThese, view: &View) -> Result<Judgement, Miss> {
    let (predicate, truths) = truths(&r.that, view)?;
    let are = (0..view.rows.len())
        .map(|row| is_one(view, row, &r.are))
        .collect::<Result<Vec<_>, _>>()?;
    let pairs = || truths.iter().zip(&are).enumerate();
    let wrong: Vec<usize> = pairs()
        .filter(|(_, (t, is))| matches!((t, is), (Truth::Yes, false) | (Truth::No, true)))
        .map(|(i, _)| i)
        .collect();
    let unknown = positions(&truths, |t| t == Truth::Unknown);
    let count = positions(&truths, |t| t == Truth::Yes).len();
    let truth = if !wrong.is_empty() || !are.contains(&true) {
        Truth::No
    } else if unknown.is_empty() {
        Truth::Yes
    } else {
        Truth::Unknown
    };
    let against: Vec<usize> = if wrong.is_empty() { unknown } else { wrong };
    let mut reason = met(count, truths.len(), &r.that);
    if !are.contains(&true) {
        reason.push_str("; no row is the one listed under `are`");
    }
    name_rows(&mut reason, "against it:", view, &against, &predicate);
    let mut judgement = Judgement::new(view, truth, against, reason).counted(count);
    if let (1, Some(row)) = (count, truths.iter().position(|t| *t == Truth::Yes)) {
        judgement.named.push(("row", row));
    }
    Ok(judgement)
}
