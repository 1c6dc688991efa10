//! Rules about the verdicts of a comparison's rows.

use artifacts::Scalar;
use contract::{Better, Verdict, Word as _};

use super::judgement::{Judgement, rows_text};
use super::predicate::Truth;
use super::rule::{NotWorse, Side, Tested};
use crate::data::Miss;
use crate::view::View;

/// Judges rows by their verdicts. A row with a different shown verdict contradicts the rule. For a rule about a
/// difference or an equivalence, `no evidence` and `undecidable` neither support nor contradict it.
pub(super) fn tested(r: &Tested, view: &View, wanted: Verdict) -> Result<Judgement, Miss> {
    let columns: &[&str] = match r.side {
        Side::Either => &["verdict"],
        Side::Greater | Side::Less => &["verdict", "higher"],
    };
    let (mut against, mut open, mut n) = (Vec::new(), Vec::new(), 0);
    for row in 0..view.rows.len() {
        n += 1;
        let verdict = view.get(row, "verdict")?.to_string();
        let on_side = match r.side {
            Side::Either => true,
            side => (view.get(row, "higher")? == view.get(row, "a")?) == (side == Side::Greater),
        };
        match Verdict::parse(&verdict) {
            Ok(shown) if shown == wanted => {
                if wanted == Verdict::Different && !on_side {
                    against.push(row);
                }
            }
            Ok(Verdict::Different | Verdict::Equivalent) => against.push(row),
            _ => open.push(row),
        }
    }
    if against.is_empty() && !open.is_empty() {
        let reason = not_shown(view, &open, n);
        let count = n - open.len();
        return Ok(Judgement::new(view, Truth::Unknown, open, reason).counted(count));
    }
    let side = match r.side {
        Side::Either => "",
        Side::Greater => " with a higher",
        Side::Less => " with a lower",
    };
    let reason = if against.is_empty() {
        let rows = match n {
            1 => "its row".to_owned(),
            n => format!("all {n} rows"),
        };
        format!("the verdict is `{}`{side} in {rows}", wanted.word())
    } else {
        format!("against it: {}", rows_text(view, &against, columns))
    };
    let count = n - against.len() - open.len();
    Ok(Judgement::new(view, Truth::of(against.is_empty()), against, reason).counted(count))
}

/// Judges rows by one end of the margin. A row shown to be worse by more than the margin contradicts the rule; a row
/// where neither is shown counts for nothing.
pub(super) fn not_worse(r: &NotWorse, view: &View) -> Result<Judgement, Miss> {
    let (column, bound, word) = match r.better {
        Better::Higher => ("not_lower", "bound_low", "lower"),
        Better::Lower => ("not_higher", "bound_high", "higher"),
    };
    view.table.require(column)?;
    let (mut against, mut open) = (Vec::new(), Vec::new());
    for row in 0..view.rows.len() {
        refuse_worse(view, row, r.better)?;
        match view.get(row, column)? {
            Scalar::Bool(true) => {}
            Scalar::Bool(false) => against.push(row),
            _ => open.push(row),
        }
    }
    let n = view.rows.len();
    let count = n - against.len() - open.len();
    let value = |row: usize, column: &str| {
        view.table
            .at(view.rows[row], column)
            .unwrap_or(Scalar::Null)
    };
    let why = |row: &usize| {
        let value = |column: &str| value(*row, column);
        let name = view.row_name(*row);
        match (margin_end(view, *row, r.better), value(bound).as_f64()) {
            (None, _) => {
                format!("{name} has no margin: declare `margin` in the comparison")
            }
            (_, None) => format!(
                "{} for {name}: {}",
                value("verdict"),
                value("verdict_reason")
            ),
            _ if value(column) == Scalar::Bool(true) => {
                let p = value(&format!("{column}_p"));
                format!(
                    "{name}: p = {}",
                    p.as_f64().map_or_else(|| p.to_string(), short)
                )
            }
            (Some((end, sign)), Some(bound)) => format!(
                "{name}: the one-sided bound is {}{sign}, beyond the margin, which ends at {}{sign}",
                short(bound),
                short(end)
            ),
        }
    };
    let beyond = |row: &usize| match (
        margin_end(view, *row, r.better),
        value(*row, "effect").as_f64(),
    ) {
        (Some((end, sign)), Some(effect)) => format!(
            "{}: the effect is {}{sign}, and the margin ends at {}{sign}",
            view.row_name(*row),
            short(effect),
            short(end)
        ),
        _ => view.row_name(*row),
    };
    if against.is_empty() && !open.is_empty() {
        let reason = format!("{}: {}", shown_in(count, n), first_of(&open, why));
        return Ok(Judgement::new(view, Truth::Unknown, open, reason).counted(count));
    }
    let reason = match against.is_empty() {
        true => format!("a is not {word} by more than the margin in any of {n} rows"),
        false => format!(
            "{word} by more than the margin: {}",
            first_of(&against, beyond)
        ),
    };
    Ok(Judgement::new(view, Truth::of(against.is_empty()), against, reason).counted(count))
}

/// Refuses a rule that calls those values of a row's metric better that are known to be worse: it would license the opposite.
fn refuse_worse(view: &View, row: usize, better: Better) -> Result<(), Miss> {
    let text = |column: &str| match view.value(row, column) {
        Some(Scalar::Text(text)) => Some(text),
        _ => None,
    };
    let Some(metric) = text("metric") else {
        return Ok(());
    };
    match Better::of_metric(&metric, text("unit").as_deref()) {
        Some(declared) if declared != better => Err(Miss::Wrong(format!(
            "`not-worse` says `better: {}`, but {} values of `{metric}` are better; write `better: {}`",
            better.word(),
            declared.word(),
            declared.word()
        ))),
        _ => Ok(()),
    }
}

/// Returns the end of the margin on the side that is worse, on the scale of the effect, and the sign of that scale. A margin
/// of 0.05 on the scale `ratio` ends at 1.05 and at 1 ÷ 1.05.
fn margin_end(view: &View, row: usize, better: Better) -> Option<(f64, &'static str)> {
    let margin = view.value(row, "margin")?.as_f64()?;
    let difference = view
        .value(row, "scale")
        .is_some_and(|scale| scale.to_string() == "difference");
    Some(match (difference, better) {
        (true, Better::Higher) => (-margin, ""),
        (true, Better::Lower) => (margin, ""),
        (false, Better::Higher) => (1.0 / (1.0 + margin), "×"),
        (false, Better::Lower) => (1.0 + margin, "×"),
    })
}

/// Formats a number with four significant digits.
pub(super) fn short(value: f64) -> String {
    statistics::significant_without_zeros(value, 4)
}

/// Returns how many of n comparisons show something.
fn shown_in(shown: usize, n: usize) -> String {
    match (shown, n) {
        (0, 1) => "it is not shown".to_owned(),
        (0, n) => format!("none of {n} comparisons shows it"),
        (1, n) => format!("1 of {n} comparisons shows it, the others do not"),
        (shown, n) => format!("{shown} of {n} comparisons show it, the others do not"),
    }
}

/// Explains why nothing is shown: in how many rows, and for each verdict the rows with their reasons.
fn not_shown(view: &View, open: &[usize], n: usize) -> String {
    let text = |row: usize, column: &str| match view.table.at(view.rows[row], column) {
        Ok(Scalar::Null) | Err(_) => None,
        Ok(value) => Some(value.to_string()),
    };
    let row = |row: &usize| {
        let why = text(*row, "verdict_reason").map_or_else(String::new, |why| format!(" ({why})"));
        format!("{}{why}", view.row_name(*row))
    };
    let mut by_verdict: Vec<(String, Vec<usize>)> = Vec::new();
    for one in open {
        let verdict = text(*one, "verdict").unwrap_or_else(|| "no verdict".to_owned());
        match by_verdict.iter_mut().find(|(other, _)| *other == verdict) {
            Some((_, rows)) => rows.push(*one),
            None => by_verdict.push((verdict, vec![*one])),
        }
    }
    let mut reason = shown_in(n - open.len(), n);
    for (verdict, rows) in &by_verdict {
        let mut letters = verdict.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        let verdict: String = first.chain(letters).collect();
        reason.push_str(&format!(". {verdict}: {}", first_of(rows, row)));
    }
    reason
}

/// Describes the first rows, and counts the others.
fn first_of(rows: &[usize], describe: impl Fn(&usize) -> String) -> String {
    const SHOWN: usize = 3;
    let mut parts: Vec<String> = rows.iter().take(SHOWN).map(describe).collect();
    if rows.len() > SHOWN {
        parts.push(format!("and {} more", rows.len() - SHOWN));
    }
    parts.join("; ")
}
