//! Judges whether a rule holds, and which rows refute it.
//!
//! Nothing is true of no rows: a rule over an empty selection is *unknown*, like one that depends on a null. A
//! statement renders only on `Yes`; a claim is undecided on `Unknown`.

use artifacts::Scalar;
use contract::{Better, Verdict, Word as _};
use pipeline::place::{Condition, same_label};
use pipeline::stage::Json;

use super::predicate::{Predicate, Truth};
use super::rule::{
    Between, Consistent, Counted, Extremum, NotWorse, Only, OnlyThese, Rule, Side, Tested, That,
    Within,
};
use super::steps;
use crate::data::Miss;
use crate::language::declared;
use crate::view::View;

/// Opens the tables that a rule refers to.
pub(crate) type Look<'a> = &'a dyn Fn(&str, &Condition) -> Result<View, Miss>;

/// The result of evaluating a rule.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// Whether it holds.
    pub(crate) truth: Truth,
    /// The examined rows; `None` for rules made of rules.
    pub(crate) view: Option<View>,
    /// The number of those rows that meet the predicate.
    pub(crate) count: Option<usize>,
    /// The rows that contradict it, by position in the view.
    pub(crate) against: Vec<usize>,
    /// Rows with a name: `row`, `lowest`, `highest`, `from`, `to`.
    pub(crate) named: Vec<(&'static str, usize)>,
    /// Computed values that no row contains: name, value, unit.
    pub(crate) values: Vec<(&'static str, Scalar, Option<String>)>,
    /// Why it does not hold, or what was found.
    pub(crate) reason: String,
}

impl Judgement {
    pub(super) fn new(view: &View, truth: Truth, against: Vec<usize>, reason: String) -> Self {
        let n = Scalar::Int(i64::try_from(view.rows.len()).unwrap_or(i64::MAX));
        Self {
            truth,
            view: Some(view.clone()),
            count: None,
            against,
            named: Vec::new(),
            values: vec![("n", n, None)],
            reason,
        }
    }

    fn counted(mut self, count: usize) -> Self {
        self.count = Some(count);
        self.values.push((
            "count",
            Scalar::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            None,
        ));
        self
    }

    /// Returns the number of rows examined.
    pub(crate) fn n(&self) -> Option<usize> {
        self.view.as_ref().map(|v| v.rows.len())
    }
}

/// Judges a rule.
///
/// # Errors
/// If a table or column is missing, values of different types are compared, or the rule itself is wrong.
pub(crate) fn judge(rule: &Rule, look: Look<'_>) -> Result<Judgement, Miss> {
    rule.check()?;
    if let Rule::AllOf(rules) | Rule::AnyOf(rules) = rule {
        return combined(rules, matches!(rule, Rule::AllOf(_)), look);
    }
    let (table, _) = rule.place().expect("rules made of rules are handled above");
    let view = look(table, &rule.condition())?;
    if view.rows.is_empty() {
        let reason = format!("no row of `{table}` matches {{{}}}", view.condition);
        return Ok(Judgement::new(&view, Truth::Unknown, Vec::new(), reason).counted(0));
    }
    match rule {
        Rule::Every(r) => every(r, &view),
        Rule::NoRow(r) => no_row(r, &view),
        Rule::Holds(r) => match view.rows.len() {
            1 => every(r, &view),
            n => Err(format!(
                "`holds` needs exactly one row, but {n} match {{{}}}",
                view.condition
            )
            .into()),
        },
        Rule::AtLeast(r) => counted(
            r,
            &view,
            |sure, _, wanted| sure >= wanted,
            |_, may, wanted| may < wanted,
        ),
        Rule::AtMost(r) => counted(
            r,
            &view,
            |_, may, wanted| may <= wanted,
            |sure, _, wanted| sure > wanted,
        ),
        Rule::Exactly(r) => counted(
            r,
            &view,
            |sure, may, wanted| sure == wanted && may == wanted,
            |sure, may, wanted| sure > wanted || may < wanted,
        ),
        Rule::OnlyThese(r) => only_these(r, &view),
        Rule::Largest(r) => extremum(r, &view, "largest", 1.0),
        Rule::Smallest(r) => extremum(r, &view, "smallest", -1.0),
        Rule::Between(r) => between(r, &view),
        Rule::Within(r) => within(r, &view),
        Rule::Monotone(r) => steps::monotone(r, &view),
        Rule::Steepest(r) => steps::steepest(r, &view),
        Rule::Different(r) => tested(r, &view, Verdict::Different),
        Rule::Equivalent(r) => tested(r, &view, Verdict::Equivalent),
        Rule::NoEvidence(r) => tested(r, &view, Verdict::NoEvidence),
        Rule::NotWorse(r) => not_worse(r, &view),
        Rule::Consistent(r) => consistent(r, &view),
        Rule::AllOf(_) | Rule::AnyOf(_) => unreachable!("rules made of rules are handled above"),
    }
}

fn combined(rules: &[Rule], all: bool, look: Look<'_>) -> Result<Judgement, Miss> {
    let (mut truth, mut reasons) = (Truth::of(all), Vec::new());
    for rule in rules {
        let part = judge(rule, look)?;
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

/// The truth of a predicate for each row.
fn truths(that: &str, view: &View) -> Result<(Predicate, Vec<Truth>), Miss> {
    let predicate = Predicate::parse(that)?;
    for column in predicate.columns() {
        view.table.require(column)?;
    }
    let truths =
        (0..view.rows.len()).map(|row| predicate.holds(&|column: &str| view.get(row, column)));
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

/// Writes rows with the values of some columns: `workload=a: x = 3, y = null`.
pub(super) fn rows_text(view: &View, rows: &[usize], columns: &[&str]) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> = rows
        .iter()
        .take(SHOWN)
        .map(|row| {
            let values = columns.iter().map(|c| match view.get(*row, c) {
                Ok(Scalar::Null) | Err(_) => format!("{c} = null"),
                Ok(value) => format!("{c} = {value}"),
            });
            format!(
                "{}: {}",
                view.row_name(*row),
                values.collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    if rows.len() > SHOWN {
        parts.push(format!("and {} more", rows.len() - SHOWN));
    }
    parts.join("; ")
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
    let mut words: Vec<&str> = words.collect();
    if words.len() == 1 {
        words.push("is true");
    }
    let rows = if n == 1 { "row" } else { "rows" };
    format!("in {count} of {n} {rows} {}", words.join(" "))
}

fn every(r: &That, view: &View) -> Result<Judgement, Miss> {
    let (predicate, truths) = truths(&r.that, view)?;
    let truth = truths.iter().fold(Truth::Yes, |all, t| all.and(*t));
    let against = positions(&truths, |t| t != Truth::Yes);
    let count = truths.len() - against.len();
    let mut reason = met(count, truths.len(), &r.that);
    if !against.is_empty() {
        reason = format!(
            "{reason}; against it: {}",
            rows_text(view, &against, &predicate.columns())
        );
    }
    let mut found = Judgement::new(view, truth, against, reason).counted(count);
    if view.rows.len() == 1 {
        found.named.push(("row", 0));
    }
    Ok(found)
}

fn no_row(r: &That, view: &View) -> Result<Judgement, Miss> {
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
    if !against.is_empty() {
        reason = format!(
            "{reason}; against it: {}",
            rows_text(view, &against, &predicate.columns())
        );
    }
    Ok(Judgement::new(view, truth, against, reason).counted(count))
}

/// Decides `yes` or `no` from the rows that certainly meet the predicate and those that may.
fn counted(
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
    if !unknown.is_empty() {
        reason = format!(
            "{reason}; unknown: {}",
            rows_text(view, &unknown, &predicate.columns())
        );
    }
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
    let mut found = Judgement::new(view, truth, against, reason).counted(least);
    found.values.push((
        "k",
        Scalar::Int(i64::try_from(r.count).unwrap_or(i64::MAX)),
        None,
    ));
    Ok(found)
}

/// Whether a row has the values of a condition.
pub(super) fn is_one(view: &View, row: usize, only: &Only) -> Result<bool, Miss> {
    for (column, values) in declared(only).0 {
        let actual = view.get(row, &column)?;
        if !values.iter().any(|v| same_label(v, &actual)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn only_these(r: &OnlyThese, view: &View) -> Result<Judgement, Miss> {
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
    if !against.is_empty() {
        reason = format!(
            "{reason}; against it: {}",
            rows_text(view, &against, &predicate.columns())
        );
    }
    let mut found = Judgement::new(view, truth, against, reason).counted(count);
    if let (1, Some(row)) = (count, truths.iter().position(|t| *t == Truth::Yes)) {
        found.named.push(("row", row));
    }
    Ok(found)
}

/// The values of a numeric column, and the rows where it is null.
pub(super) fn numbers(view: &View, column: &str) -> Result<(Vec<Option<f64>>, Vec<usize>), Miss> {
    view.table.require(column)?;
    let mut values = Vec::with_capacity(view.rows.len());
    for row in 0..view.rows.len() {
        let value = view.get(row, column)?;
        match value.as_f64() {
            None if value != Scalar::Null => {
                return Err(format!("column `{column}` holds no numbers: `{value}`").into());
            }
            number => values.push(number.filter(|v| !v.is_nan())),
        }
    }
    let null = values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_none())
        .map(|(i, _)| i)
        .collect();
    Ok((values, null))
}

/// The judgement for a null in a column: unknown.
pub(super) fn unknown(view: &View, column: &str, null: Vec<usize>) -> Judgement {
    let reason = format!(
        "`{column}` is null in {}",
        rows_text(view, &null, &[column])
    );
    Judgement::new(view, Truth::Unknown, null, reason)
}

fn extremum(r: &Extremum, view: &View, what: &str, sign: f64) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    if !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    if values.len() == 1 {
        let reason = format!(
            "a single row cannot be compared: {}",
            rows_text(view, &[0], &[&r.column])
        );
        return Ok(Judgement::new(view, Truth::Unknown, vec![0], reason));
    }
    let best = values
        .iter()
        .flatten()
        .fold(f64::NEG_INFINITY, |best, v| best.max(sign * v));
    let best: Vec<usize> = values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_some_and(|v| sign * v == best))
        .map(|(i, _)| i)
        .collect();
    let text = rows_text(view, &best, &[&r.column]);
    if best.len() > 1 {
        let reason = format!("{} rows share the {what} value: {text}", best.len());
        return Ok(Judgement::new(view, Truth::No, best, reason));
    }
    let is = is_one(view, best[0], &r.are)?;
    let reason = format!("the {what} is {text}");
    let against = if is { Vec::new() } else { best.clone() };
    let mut found = Judgement::new(view, Truth::of(is), against, reason);
    found.named.push(("row", best[0]));
    Ok(found)
}

fn between(r: &Between, view: &View) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    let outside = |v: f64| r.low.is_some_and(|low| v < low) || r.high.is_some_and(|high| v > high);
    let against: Vec<usize> = values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_some_and(outside))
        .map(|(i, _)| i)
        .collect();
    if against.is_empty() && !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    let known = || {
        values
            .iter()
            .enumerate()
            .filter_map(|(i, v)| Some((i, (*v)?)))
    };
    let lowest = known().reduce(|a, b| if b.1 < a.1 { b } else { a });
    let highest = known().reduce(|a, b| if b.1 > a.1 { b } else { a });
    let reason = match against.is_empty() {
        true => format!(
            "`{}` is within its bounds in all {} rows",
            r.column,
            values.len()
        ),
        false => format!("outside: {}", rows_text(view, &against, &[&r.column])),
    };
    let mut found = Judgement::new(view, Truth::of(against.is_empty()), against, reason);
    found.named.extend(lowest.map(|(row, _)| ("lowest", row)));
    found.named.extend(highest.map(|(row, _)| ("highest", row)));
    let unit = view.table.unit(&r.column);
    for (name, bound) in [("low", r.low), ("high", r.high)] {
        found
            .values
            .extend(bound.map(|b| (name, Scalar::Float(b), unit.clone())));
    }
    Ok(found)
}

fn within(r: &Within, view: &View) -> Result<Judgement, Miss> {
    let (values, mut null) = numbers(view, &r.column)?;
    let references = match &r.of {
        Json::String(column) => {
            let (references, missing) = numbers(view, column)?;
            null.extend(missing);
            references
        }
        other => vec![other.as_f64(); values.len()],
    };
    let far = |value: f64, reference: f64| {
        let allowed =
            r.by.unwrap_or_else(|| r.ratio.unwrap_or(0.0) * reference.abs());
        (value - reference).abs() > allowed
    };
    let pairs = values.iter().zip(&references).enumerate();
    let against: Vec<usize> = pairs
        .filter(|(_, (v, of))| v.zip(**of).is_some_and(|(v, of)| far(v, of)))
        .map(|(i, _)| i)
        .collect();
    if against.is_empty() && !null.is_empty() {
        null.sort_unstable();
        null.dedup();
        return Ok(unknown(view, &r.column, null));
    }
    let mut columns = vec![r.column.as_str()];
    columns.extend(r.of.as_str());
    let reason = match against.is_empty() {
        true => format!("all {} rows are as close as stated", values.len()),
        false => format!("further away: {}", rows_text(view, &against, &columns)),
    };
    let mut found = Judgement::new(view, Truth::of(against.is_empty()), against, reason);
    found
        .values
        .extend(r.by.map(|by| ("by", Scalar::Float(by), view.table.unit(&r.column))));
    found.values.extend(
        r.ratio
            .map(|by| ("ratio", Scalar::Float(by), Some("1".to_owned()))),
    );
    found.values.extend(
        r.of.as_f64()
            .map(|of| ("of", Scalar::Float(of), view.table.unit(&r.column))),
    );
    Ok(found)
}

/// Judges rows by their verdicts. A row with a different shown verdict contradicts the rule. For a rule about a
/// difference or an equivalence, `no evidence` and `undecidable` neither support nor contradict it.
fn tested(r: &Tested, view: &View, wanted: Verdict) -> Result<Judgement, Miss> {
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
        Side::Greater => ", a higher,",
        Side::Less => ", a lower,",
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
fn not_worse(r: &NotWorse, view: &View) -> Result<Judgement, Miss> {
    let (column, bound, word) = match r.better {
        Better::Higher => ("not_lower", "bound_low", "lower"),
        Better::Lower => ("not_higher", "bound_high", "higher"),
    };
    view.table.require(column)?;
    let (mut against, mut open) = (Vec::new(), Vec::new());
    for row in 0..view.rows.len() {
        match view.get(row, column)? {
            Scalar::Bool(true) => {}
            Scalar::Bool(false) => against.push(row),
            _ => open.push(row),
        }
    }
    let n = view.rows.len();
    let count = n - against.len() - open.len();
    let why = |row: &usize| {
        let value = |column: &str| view.get(*row, column).unwrap_or(Scalar::Null);
        let name = view.row_name(*row);
        match (value("margin"), value(bound)) {
            (Scalar::Null, _) => {
                format!("{name} has no margin: declare `margin` in the comparison")
            }
            (_, Scalar::Null) => format!(
                "{} for {name}: {}",
                value("verdict"),
                value("verdict_reason")
            ),
            (margin, end) => format!("{name}: {bound} = {end}, beyond the margin of {margin}"),
        }
    };
    if against.is_empty() && !open.is_empty() {
        let rows: Vec<String> = open.iter().take(3).map(why).collect();
        let more = match open.len().saturating_sub(3) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let reason = format!(
            "it is shown in {count} of {n} comparisons, not in the others: {}{more}",
            rows.join("; ")
        );
        return Ok(Judgement::new(view, Truth::Unknown, open, reason).counted(count));
    }
    let reason = match against.is_empty() {
        true => format!("a is not {word} by more than the margin in any of {n} rows"),
        false => format!(
            "{word} by more than the margin: {}",
            rows_text(view, &against, &["effect", "margin"])
        ),
    };
    Ok(Judgement::new(view, Truth::of(against.is_empty()), against, reason).counted(count))
}

/// Explains in a sentence why nothing is shown: in how many rows, and the verdict and reason for each.
fn not_shown(view: &View, open: &[usize], n: usize) -> String {
    const SHOWN: usize = 3;
    let row = |row: &usize| {
        let text = |column: &str| match view.get(*row, column) {
            Ok(Scalar::Null) | Err(_) => None,
            Ok(value) => Some(value.to_string()),
        };
        let verdict = text("verdict").unwrap_or_else(|| "no verdict".to_owned());
        let why = text("verdict_reason").map_or_else(String::new, |why| format!(" ({why})"));
        format!("{verdict} for {}{why}", view.row_name(*row))
    };
    let rows: Vec<String> = open.iter().take(SHOWN).map(row).collect();
    let more = match open.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let head = match (open.len(), n) {
        (1, 1) => "it is not shown".to_owned(),
        (open, n) if open == n => format!("it is not shown in any of {n} comparisons"),
        (open, n) => format!(
            "it is shown in {} of {n} comparisons, not in the others",
            n - open
        ),
    };
    format!("{head}: {}{more}", rows.join("; "))
}

fn consistent(r: &Consistent, view: &View) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    for axis in &r.across {
        view.table.require(axis)?;
        let first = view.get(0, axis)?;
        let mut others = (1..view.rows.len()).map(|row| view.get(row, axis));
        if others.all(|v| v.is_ok_and(|v| same_label(&v, &first))) {
            let reason = format!(
                "`{axis}` has a single level here, {first}, so nothing can be consistent across it"
            );
            return Ok(Judgement::new(view, Truth::Unknown, Vec::new(), reason));
        }
    }
    let above: Vec<usize> = sided(&values, |v| v > r.reference);
    let below: Vec<usize> = sided(&values, |v| v < r.reference);
    let on: Vec<usize> = sided(&values, |v| v == r.reference);
    let sides = [&above, &below, &on]
        .into_iter()
        .filter(|side| !side.is_empty())
        .count();
    if sides > 1 || !on.is_empty() {
        // The rows that contradict it are those on the smaller side.
        let mut against = if above.len() >= below.len() {
            below
        } else {
            above
        };
        against.extend(on);
        against.sort_unstable();
        let reason = format!(
            "not all on one side of {}: {}",
            r.reference,
            rows_text(view, &against, &[&r.column])
        );
        return Ok(Judgement::new(view, Truth::No, against, reason));
    }
    if !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    let side = if below.is_empty() { "above" } else { "below" };
    let reason = format!("all {} rows lie {side} {}", values.len(), r.reference);
    Ok(Judgement::new(view, Truth::Yes, Vec::new(), reason))
}

fn sided(values: &[Option<f64>], is: impl Fn(f64) -> bool) -> Vec<usize> {
    values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_some_and(&is))
        .map(|(i, _)| i)
        .collect()
}
