//! Code shared by several operators: anchors of a ladder, and matched pairs.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use artifacts::json::plain;
use contract::Better;
use pipeline::suggest::remedy;
use pipeline::{Coordinates, Failure, Json, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::frame::{Absence, Frame, Missing, Spec};
use crate::operator::Draft;

/// Returns for each row its position, N, and the row with N = `base` at the same other coordinates.
///
/// # Errors
/// If a value on the ladder is not a positive number.
pub(crate) fn anchors(
    from: &Frame,
    ladder: usize,
    name: &str,
    base: f64,
) -> Result<Vec<(usize, f64, Option<usize>)>, Failure> {
    let others: Vec<usize> = (0..from.keys.len()).filter(|p| *p != ladder).collect();
    let mut pairs = Vec::with_capacity(from.rows.len());
    for (_, members) in from.groups(&others) {
        let mut ladder_rows = Vec::new();
        for row in members {
            ladder_rows.push((row, rung(&from.rows[row].key[ladder], name)?));
        }
        let anchor = ladder_rows
            .iter()
            .find(|(_, n)| *n == base)
            .map(|(row, _)| *row);
        pairs.extend(ladder_rows.into_iter().map(|(row, n)| (row, n, anchor)));
    }
    Ok(pairs)
}

/// Returns a value on a ladder as a number.
///
/// # Errors
/// If it is not a positive number.
pub(crate) fn rung(value: &Scalar, axis: &str) -> Result<f64, Failure> {
    value.as_f64().filter(|n| *n > 0.0).ok_or_else(|| {
        Failure::failed(format!(
            "`{axis}` cannot be a ladder, because its value {value} is not a positive number"
        ))
    })
}

/// Returns a number of a row by name, from a column or a key.
pub(crate) fn named(from: &Frame, row: usize, name: &str) -> Option<f64> {
    match from.keys.iter().position(|k| k == name) {
        Some(key) => from.rows[row].key[key].as_f64(),
        None => from.number(row, name),
    }
}

/// Checks that a setting declares every key of a table as an axis, so that nothing is pooled silently.
///
/// # Errors
/// If an axis is left over, or a declared one is not a key; the error names it.
pub(crate) fn all_declared(
    from: &Frame,
    table: &str,
    declared: &[&[String]],
) -> Result<(), Failure> {
    for axes in declared {
        from.key_positions(axes, table)?;
    }
    let left: Vec<&str> = from
        .keys
        .iter()
        .filter(|k| !declared.iter().any(|axes| axes.contains(k)))
        .map(String::as_str)
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "rows of different `{}` would be pooled silently",
        left.join("`, `")
    ))
    .hint("name the axis in `over` to combine its rows, or in `by` to keep them separate"))
}

/// Checks what decides a contest: the column `from.1` of the table `from.0`, which is returned, which of its values are
/// better, and how close counts as a tie.
///
/// # Errors
/// Every problem found with the column; otherwise, what is wrong with the direction and the tie.
pub(crate) fn contested(
    draft: &Draft<'_>,
    (from, column): (&str, &str),
    (better, tie_within): (Better, f64),
) -> Result<Spec, Vec<Problem>> {
    let spec = draft.column(from, column)?;
    let mut problems = draft.direction("better", better, &spec);
    if !(0.0..1.0).contains(&tie_within) {
        problems.push(draft.problem("tie-within", "`tie-within` must be between 0 and 1"));
    }
    match problems.is_empty() {
        true => Ok(spec),
        false => Err(problems),
    }
}

/// How the labels of two sides are written.
const LABELS: &str = "`a: LABEL, b: LABEL`";

/// The two sides of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "labels": LABELS, "sides": LABELS, "values": LABELS, "of": LABELS, "between": LABELS,
    "first": "`a`", "left": "`a`", "candidate": "`a`", "treatment": "`a`",
    "second": "`b`", "right": "`b`", "base": "`b`", "baseline": "`b`", "reference": "`b`", "control": "`b`",
}))]
pub(crate) struct Sides {
    /// The axis on which the two sides differ.
    pub(crate) axis: String,
    /// The label of the first side. Deltas are a − b, ratios a ÷ b.
    #[schemars(with = "Json")]
    pub(crate) a: Json,
    /// The label of the second side, the base.
    #[schemars(with = "Json")]
    pub(crate) b: Json,
}

impl Sides {
    pub(crate) fn labels(&self) -> (String, String) {
        (plain(&self.a), plain(&self.b))
    }

    /// Checks that both labels occur on the axis, including in missing cells.
    ///
    /// # Errors
    /// If a label does not occur; the error names it and the nearest.
    pub(crate) fn check(&self, from: &Frame, axis: usize) -> Result<(), Failure> {
        let (a, b) = self.labels();
        let present: BTreeSet<String> = from.rows.iter().map(|r| r.key[axis].to_string()).collect();
        for label in [&a, &b] {
            let planned = from.missing.iter().any(|m| {
                m.at.iter()
                    .any(|(name, value)| *name == self.axis && value.to_string() == *label)
            });
            if !present.contains(label) && !planned {
                return Err(Failure::failed(format!(
                    "the axis `{}` has no label `{label}`",
                    self.axis
                ))
                .hint(remedy(label, "labels", &present)));
            }
        }
        Ok(())
    }
}

/// One coordinate at which both sides were measured.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) key: Vec<Scalar>,
    /// The rows averaged on each side.
    pub(crate) rows: [Vec<usize>; 2],
    /// The mean of each column on each side; null if no row defines it.
    pub(crate) a: Vec<Option<f64>>,
    pub(crate) b: Vec<Option<f64>>,
}

/// Every matched coordinate, and those without a partner.
#[derive(Debug)]
pub(crate) struct Matched {
    pub(crate) keys: Vec<String>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) missing: Vec<Missing>,
}

/// Averages over the labels of `average` that both sides have, then pairs the two sides on every other key.
///
/// # Errors
/// If an axis is not a key of the table, or a label does not occur on the pair axis.
pub(crate) fn matched(
    from: &Frame,
    table: &str,
    sides: &Sides,
    average: &[String],
    columns: &[String],
) -> Result<Matched, Failure> {
    let axis = from.key_position(&sides.axis, table)?;
    let averaged = from.key_positions(average, table)?;
    let (a, b) = sides.labels();
    sides.check(from, axis)?;
    let keys: Vec<String> = from
        .keys
        .iter()
        .filter(|k| **k != sides.axis && !average.contains(k))
        .cloned()
        .collect();
    let positions = from.key_positions(&keys, table)?;
    // A cell that a third side lacks is missing from no pair.
    let of_a_side = |m: &&Missing| {
        m.get(&sides.axis)
            .is_none_or(|v| [&a, &b].contains(&&v.to_string()))
    };
    let missing = from.missing.iter().filter(of_a_side).cloned().collect();
    let mut matched = Matched {
        keys: keys.clone(),
        pairs: Vec::new(),
        missing,
    };
    let missing_before = matched.missing.len();
    for (key, members) in from.groups(&positions) {
        let side = |label: &str| -> Vec<usize> {
            members
                .iter()
                .copied()
                .filter(|m| from.rows[*m].key[axis].to_string() == label)
                .collect()
        };
        let rows = at_shared(from, &averaged, [side(&a), side(&b)], |_| true);
        let lacking: Vec<&String> = [&a, &b]
            .into_iter()
            .zip(&rows)
            .filter(|(_, r)| r.is_empty())
            .map(|(label, _)| label)
            .collect();
        if lacking.len() == 1 {
            let mut at: Vec<(String, Scalar)> =
                keys.iter().cloned().zip(key.iter().cloned()).collect();
            at.push((sides.axis.clone(), Scalar::Text(lacking[0].clone())));
            matched.missing.push(Missing {
                at,
                why: "no partner to pair with".to_owned(),
                absence: Absence::Unpaired,
            });
        }
        if !lacking.is_empty() {
            continue;
        }
        let mean = |rows: &[usize], column: &str| {
            Sample::new(rows.iter().filter_map(|r| from.number(*r, column)))
                .ok()
                .map(|s| s.mean())
        };
        let is_valued = |column: &String| {
            let valued = |row: usize| from.number(row, column).is_some();
            let [a, b] = at_shared(from, &averaged, rows.clone(), valued);
            (mean(&a, column), mean(&b, column))
        };
        let (a, b) = columns.iter().map(is_valued).unzip();
        matched.pairs.push(Pair { key, rows, a, b });
    }
    // A coordinate that is already listed as missing, with its reason, needs no second line.
    let mut seen: BTreeMap<String, ()> = BTreeMap::new();
    for missing in &from.missing {
        seen.insert(place(missing, &keys, &sides.axis), ());
    }
    let unmatched = matched.missing.split_off(missing_before);
    matched.missing.extend(
        unmatched
            .into_iter()
            .filter(|m| !seen.contains_key(&place(m, &keys, &sides.axis))),
    );
    Ok(matched)
}

/// Keeps the rows at the labels of averaged axes at which both sides have a row that counts. A side that lacks the
/// slowest workload would otherwise have the lower mean. Sides without a common label keep all rows: each numbers its
/// own repetitions.
fn at_shared(
    from: &Frame,
    averaged: &[usize],
    rows: [Vec<usize>; 2],
    counts: impl Fn(usize) -> bool,
) -> [Vec<usize>; 2] {
    let counted_rows = rows.each_ref().map(|side| {
        let counted = side.iter().filter(|row| counts(**row));
        let labels = counted.map(|row| from.key_at(*row, averaged));
        labels.collect::<Vec<Vec<Scalar>>>()
    });
    let shared = |row: &usize| {
        let label = from.key_at(*row, averaged);
        counted_rows.iter().all(|labels| labels.contains(&label))
    };
    let kept = rows
        .each_ref()
        .map(|side| side.iter().copied().filter(&shared).collect::<Vec<_>>());
    if kept.iter().any(Vec::is_empty) {
        rows
    } else {
        kept
    }
}

fn place(missing: &Missing, keys: &[String], axis: &str) -> String {
    let pairs = missing.at.iter();
    let mut pairs: Vec<(String, Scalar)> = pairs
        .filter(|(name, _)| name == axis || keys.contains(name))
        .cloned()
        .collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Coordinates(pairs).to_string()
}
