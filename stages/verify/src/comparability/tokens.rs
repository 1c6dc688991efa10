//! Checks whether two cells counted the same prompts alike. Another tokenizer means another
//! workload.

use std::collections::BTreeMap;

use contract::CellRows;
use statistics::{Continuity, Sample, mann_whitney_u};

use super::matrix::Status;

/// The p value below which prompt-token counts of unmatched prompts count as shifted: the chance of
/// a false alarm per pair of cells.
const SHIFTED: f64 = 0.001;

/// Compares the prompt-token counts of two cells. Returns the status and a description.
pub(super) fn compare(a: &CellRows, b: &CellRows) -> (Status, Option<String>) {
    let (of_a, of_b) = (by_prompt(a), by_prompt(b));
    let matched: Vec<(i64, i64)> = of_a
        .iter()
        .filter_map(|(digest, x)| Some((*x, *of_b.get(digest)?)))
        .collect();
    if !matched.is_empty() {
        let other = matched.iter().filter(|(x, y)| x != y).count();
        if other == 0 {
            return (Status::Equal, None);
        }
        let (x, y) = matched.iter().fold((0, 0), |(x, y), (p, q)| (x + p, y + q));
        let disjoint = if disjoint(&matched) {
            ", ranges disjoint"
        } else {
            ""
        };
        let ratio = y as f64 / x as f64;
        let what = format!(
            "{other} of {} prompts have a different count, ×{ratio:.3} overall{disjoint}",
            matched.len()
        );
        return (Status::Differs, Some(what));
    }
    let counts = |rows: &CellRows| {
        Sample::new(
            rows.measured()
                .filter_map(|r| r.prompt_tokens)
                .map(|n| n as f64),
        )
    };
    let (Ok(x), Ok(y)) = (counts(a), counts(b)) else {
        return (Status::Unknown, None);
    };
    let ranges = format!("{}–{} and {}–{} tokens", x.min(), x.max(), y.min(), y.max());
    if x == y {
        (Status::Equal, None)
    } else if x.max() < y.min() || y.max() < x.min() {
        (
            Status::Differs,
            Some(format!("prompts of {ranges}, ranges disjoint")),
        )
    } else {
        let p = mann_whitney_u(&x, &y, Continuity::Corrected).map_or(1.0, |test| test.p);
        let status = if p < SHIFTED {
            Status::Differs
        } else {
            Status::Unknown
        };
        (
            status,
            Some(format!(
                "prompts of {ranges}, with different digests, shift p {p:.1e}"
            )),
        )
    }
}

fn by_prompt(rows: &CellRows) -> BTreeMap<&str, i64> {
    rows.measured()
        .filter_map(|r| Some((r.prompt_digest.as_deref()?, r.prompt_tokens?)))
        .collect()
}

fn disjoint(matched: &[(i64, i64)]) -> bool {
    let range = |values: Vec<i64>| {
        values
            .iter()
            .copied()
            .min()
            .zip(values.iter().copied().max())
    };
    let x = range(matched.iter().map(|m| m.0).collect());
    let y = range(matched.iter().map(|m| m.1).collect());
    x.zip(y)
        .is_some_and(|((low, high), (least, most))| high < least || most < low)
}
