//! Cells that answered the same prompts, for the tests over all cells of a stage.
//!
//! Cells that differ only in their configuration have the same prompts, the same lengths and the same arrivals, by
//! design. If long answers come late by chance, they come late in all of these cells. Such cells are not independent, so
//! a test over all cells takes them together as one series: their mean, position by position.

use std::collections::BTreeMap;

use contract::CellRows;

use crate::series::median;

/// A series of this many values shows a trend by itself. Shorter ones do not shorten the series that they share.
const ENOUGH: usize = 8;

/// Returns the first measured prompt of a cell, by which cells with the same prompts are recognised; `None` if it is
/// unknown.
pub(crate) fn first_prompt(rows: &CellRows) -> Option<String> {
    let first = rows.measured().min_by_key(|r| (r.request_id, r.attempt))?;
    first.prompt_digest.clone()
}

/// Returns the series of cells, with those of cells that answered the same prompts as one. A cell whose prompts are
/// unknown shares them with no other.
pub(crate) fn together(cells: &[(Option<String>, Vec<f64>)]) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<(Option<&str>, usize), Vec<&[f64]>> = BTreeMap::new();
    for (i, (prompt, values)) in cells.iter().enumerate() {
        let alone = if prompt.is_some() { 0 } else { i };
        let group = groups.entry((prompt.as_deref(), alone)).or_default();
        group.push(values);
    }
    groups.into_values().map(|group| mean(&group)).collect()
}

/// Describes how many lists of prompts so many cells had, if some shared theirs.
pub(crate) fn words(cells: usize, groups: usize) -> String {
    match groups {
        _ if groups >= cells => String::new(),
        1 => ", all with the same prompts".to_owned(),
        _ => format!(", which share {groups} lists of prompts"),
    }
}

/// Returns the mean of several series, each relative to its median. A longer series has several values for one of a
/// shorter.
fn mean(group: &[&[f64]]) -> Vec<f64> {
    if let [alone] = group {
        return alone.to_vec();
    }
    let lengths = || group.iter().map(|values| values.len());
    let long = lengths().filter(|n| *n >= ENOUGH).min();
    let n = long.or_else(|| lengths().max()).unwrap_or(0);
    let relative: Vec<Vec<f64>> = group
        .iter()
        .filter(|values| values.len() >= n)
        .filter_map(|values| {
            let middle = median(values).filter(|m| *m != 0.0)?;
            let at = |i: usize| &values[i * values.len() / n..(i + 1) * values.len() / n];
            Some(
                (0..n)
                    .map(|i| average(at(i).iter().copied()) / middle)
                    .collect(),
            )
        })
        .collect();
    if relative.is_empty() {
        return Vec::new();
    }
    (0..n)
        .map(|i| average(relative.iter().map(|values| values[i])))
        .collect()
}

fn average(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_the_same_prompts_are_one_series() {
        let cells = |prompts: [Option<&str>; 3]| {
            let values = [vec![1.0, 2.0, 3.0], vec![20.0, 40.0, 60.0], vec![5.0; 3]];
            let prompts = prompts.map(|prompt| prompt.map(str::to_owned));
            together(&prompts.into_iter().zip(values).collect::<Vec<_>>())
        };
        assert_eq!(cells([None; 3]).len(), 3);
        assert_eq!(
            cells([Some("a"), Some("a"), Some("b")]),
            [vec![0.5, 1.0, 1.5], vec![5.0; 3]]
        );
    }

    #[test]
    fn a_longer_series_has_several_values_for_one_of_a_shorter_that_is_long_enough() {
        let rising = |n: usize| (0..n).map(|i| 1.0 + i as f64).collect::<Vec<f64>>();
        let series = [rising(16), rising(8), rising(3)];
        let cells: Vec<_> = series
            .map(|s| (Some("a".to_owned()), s))
            .into_iter()
            .collect();
        assert_eq!(together(&cells)[0].len(), 8);
        let short: Vec<_> = cells[2..]
            .iter()
            .cloned()
            .chain([(Some("a".to_owned()), rising(5))])
            .collect();
        assert_eq!(together(&short)[0].len(), 5);
    }
}
