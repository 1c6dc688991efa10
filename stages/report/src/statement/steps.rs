//! Steps along a ladder: monotonicity, and the steepest step.

use artifacts::Scalar;
use pipeline::place::same_label;

use super::interval::spans;
use super::judgement::{Judgement, is_one, rows_text};
use super::predicate::Truth;
use super::rule::{Direction, Steps};
use super::values::{numbers, unknown};
use crate::data::Miss;
use crate::view::View;

/// A step of one series: the positions of its two rows, and the change of `y`, positive in the requested direction.
struct Step {
    from: usize,
    to: usize,
    change: f64,
    /// The smallest and the largest change that the intervals of the rows allow.
    allowed: (f64, f64),
}

/// Returns the steps of every series, or a judgement that they are unknown.
fn steps(r: &Steps, view: &View) -> Result<Result<Vec<Step>, Judgement>, Miss> {
    let (ys, null) = numbers(view, &r.y)?;
    let (xs, no_x) = numbers(view, &r.x)?;
    if !no_x.is_empty() {
        return Ok(Err(unknown(view, &r.x, no_x)));
    }
    if !null.is_empty() {
        return Ok(Err(unknown(view, &r.y, null)));
    }
    let spans = spans(view, &r.y)?;
    let span = |row: usize| spans[row].unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let rising = r.direction == Direction::Rising;
    let mut series: Vec<(Vec<Scalar>, Vec<usize>)> = Vec::new();
    for row in 0..view.rows.len() {
        let key = r
            .series
            .iter()
            .map(|c| view.get(row, c))
            .collect::<Result<Vec<_>, _>>()?;
        match series
            .iter_mut()
            .find(|(k, _)| k.iter().zip(&key).all(|(a, b)| same_label(a, b)))
        {
            Some((_, rows)) => rows.push(row),
            None => series.push((key, vec![row])),
        }
    }
    let mut steps = Vec::new();
    for (_, rows) in &mut series {
        let x = |row: usize| xs[row].expect("nulls are handled above");
        rows.sort_by(|a, b| x(*a).total_cmp(&x(*b)));
        if rows.len() < 2 {
            let reason = format!(
                "a single row has no steps: {}",
                rows_text(view, rows, &[&r.x, &r.y])
            );
            return Ok(Err(Judgement::new(
                view,
                Truth::Unknown,
                rows.clone(),
                reason,
            )));
        }
        for pair in rows.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if x(from) == x(to) {
                return Err(format!(
                    "two rows have `{}` = {}; name the columns that separate series under \
                     `series`: {}",
                    r.x,
                    x(from),
                    rows_text(view, pair, &[&r.x, &r.y])
                )
                .into());
            }
            let rise = ys[to].zip(ys[from]).map_or(0.0, |(to, from)| to - from);
            let (before, after) = match rising {
                true => (span(from), span(to)),
                false => (span(to), span(from)),
            };
            steps.push(Step {
                from,
                to,
                change: if rising { rise } else { -rise },
                allowed: (after.0 - before.1, after.1 - before.0),
            });
        }
    }
    Ok(Ok(steps))
}

pub(super) fn monotone(r: &Steps, view: &View) -> Result<Judgement, Miss> {
    let steps = match steps(r, view)? {
        Ok(steps) => steps,
        Err(judgement) => return Ok(judgement),
    };
    let breaks = |change: f64| change < 0.0 || r.strictly && change == 0.0;
    let rows_where = |is: &dyn Fn(&Step) -> bool| {
        let mut rows = Vec::new();
        for row in steps
            .iter()
            .filter(|step| is(step))
            .flat_map(|step| [step.from, step.to])
        {
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    };
    // Every change that the intervals allow is the other way.
    let against = rows_where(&|step| breaks(step.allowed.1));
    let open = rows_where(&|step| breaks(step.allowed.0));
    if against.is_empty() && !open.is_empty() {
        let text = rows_text(view, &open, &[&r.x, &r.y]);
        let reason = format!("the intervals of neighbouring rows overlap, or are withheld: {text}");
        return Ok(Judgement::new(view, Truth::Unknown, open, reason));
    }
    let way = if r.direction == Direction::Rising {
        "rises"
    } else {
        "falls"
    };
    let reason = match against.is_empty() {
        true => format!(
            "`{}` {way} in all {} steps along `{}`",
            r.y,
            steps.len(),
            r.x
        ),
        false => format!(
            "steps the other way: {}",
            rows_text(view, &against, &[&r.x, &r.y])
        ),
    };
    let mut judgement = Judgement::new(view, Truth::of(against.is_empty()), against, reason);
    judgement.values.push((
        "steps",
        Scalar::Int(i64::try_from(steps.len()).unwrap_or(i64::MAX)),
        None,
    ));
    Ok(judgement)
}

pub(super) fn steepest(r: &Steps, view: &View) -> Result<Judgement, Miss> {
    let steps = match steps(r, view)? {
        Ok(steps) => steps,
        Err(judgement) => return Ok(judgement),
    };
    let most = steps
        .iter()
        .map(|s| s.change)
        .fold(f64::NEG_INFINITY, f64::max);
    let best: Vec<&Step> = steps.iter().filter(|s| s.change == most).collect();
    let rows: Vec<usize> = best.iter().flat_map(|s| [s.from, s.to]).collect();
    let text = rows_text(view, &rows, &[&r.x, &r.y]);
    let way = if r.direction == Direction::Rising {
        "rises"
    } else {
        "falls"
    };
    // Without intervals, the steepest step itself is the only one that the changes allow.
    let wide = steps
        .iter()
        .any(|s| s.allowed.0 < s.change || s.allowed.1 > s.change);
    if most <= 0.0 && !steps.iter().any(|s| s.allowed.1 > 0.0) {
        return Ok(Judgement::new(
            view,
            Truth::No,
            rows,
            format!("`{}` {way} in no step", r.y),
        ));
    }
    if steps.len() == 1 {
        let reason = format!("a single step cannot be compared: {text}");
        return Ok(Judgement::new(view, Truth::Unknown, rows, reason));
    }
    let least = best[0].allowed.0;
    let mut others = steps.iter().filter(|s| !std::ptr::eq(*s, best[0]));
    if wide && (least <= 0.0 || others.any(|s| s.allowed.1 >= least)) {
        let reason = format!(
            "the intervals of the rows do not show which step is the steepest; the values alone name {text}"
        );
        return Ok(Judgement::new(view, Truth::Unknown, rows, reason));
    }
    if best.len() > 1 {
        let reason = format!("{} steps are equally steep: {text}", best.len());
        return Ok(Judgement::new(view, Truth::No, rows, reason));
    }
    let step = best[0];
    let is = is_one(view, step.to, &r.are)?;
    let against = if is { Vec::new() } else { rows };
    let mut judgement = Judgement::new(
        view,
        Truth::of(is),
        against,
        format!("the steepest step is {text}"),
    );
    judgement
        .named
        .extend([("from", step.from), ("to", step.to), ("row", step.to)]);
    judgement
        .values
        .push(("step", Scalar::Float(most), view.table.unit(&r.y)));
    Ok(judgement)
}
