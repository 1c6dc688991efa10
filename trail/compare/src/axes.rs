//! Axes whose labels the two studies do not share: an average over such an axis is of other cells in each study.

use std::collections::BTreeSet;

use artifacts::Scalar;
use pipeline::Coordinates;
use pipeline::lock::LockClass;
use pipeline::place::plain_label;
use serde::Serialize;

use crate::side::Side;

/// An axis of the measurements that only one study has, or that has other labels in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AxisChange {
    /// The axis.
    pub axis: String,
    /// Its labels in the older study; empty if that study does not have the axis.
    pub a: Vec<String>,
    /// Its labels in the newer study; empty if that study does not have the axis.
    pub b: Vec<String>,
}

/// Returns the axes that differ, in order of their names. Axes that only number repetitions are left out.
pub(crate) fn changes(a: &Side<'_>, b: &Side<'_>) -> Vec<AxisChange> {
    let (planned_a, planned_b) = (planned(a), planned(b));
    // Nothing is measured in a study of imported tables alone, for example.
    if planned_a.is_empty() || planned_b.is_empty() {
        return Vec::new();
    }
    let repetitions: BTreeSet<String> = a.replicates().into_iter().chain(b.replicates()).collect();
    differing(&planned_a, &planned_b, &repetitions)
}

fn differing(
    planned_a: &[Coordinates],
    planned_b: &[Coordinates],
    repetitions: &BTreeSet<String>,
) -> Vec<AxisChange> {
    let axes = planned_a.iter().chain(planned_b).flat_map(|at| &at.0);
    let axes: BTreeSet<&String> = axes.map(|(axis, _)| axis).collect();
    let compared = axes.into_iter().filter(|axis| !repetitions.contains(*axis));
    let change = |axis: &String| {
        let (a, b) = (labels(axis, planned_a), labels(axis, planned_b));
        let differ = a.iter().any(|label| !b.contains(label)) || a.len() != b.len();
        let axis = axis.clone();
        differ.then_some(AxisChange { axis, a, b })
    };
    compared.filter_map(change).collect()
}

/// The coordinates of every planned measurement.
fn planned(side: &Side<'_>) -> Vec<Coordinates> {
    let stages = side.lock.stages.iter();
    let measuring = stages.filter(|stage| stage.class == LockClass::Measurement);
    let cells = measuring.flat_map(|stage| &stage.cells);
    cells
        .filter_map(|cell| cell.coordinates.parse().ok())
        .collect()
}

/// The labels of an axis, numbers in ascending order and texts as the lock lists them.
fn labels(axis: &str, planned: &[Coordinates]) -> Vec<String> {
    let own = planned
        .iter()
        .flat_map(|at| &at.0)
        .filter(|(name, _)| name == axis);
    let mut labels: Vec<Scalar> = Vec::new();
    for (_, label) in own {
        let label = plain_label(label.clone());
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if let Some(numbers) = labels
        .iter()
        .map(Scalar::as_f64)
        .collect::<Option<Vec<f64>>>()
    {
        let mut ordered: Vec<(f64, Scalar)> = numbers.into_iter().zip(labels).collect();
        ordered.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        labels = ordered.into_iter().map(|(_, label)| label).collect();
    }
    labels.iter().map(Scalar::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(texts: &[&str]) -> Vec<Coordinates> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn other_labels_and_other_names_are_axes_that_differ() {
        let older = cells(&["block=1,clients=10,side=x", "block=1,clients=2,side=x"]);
        let blocks = BTreeSet::from(["block".to_owned()]);
        let changes = |newer: &[&str]| {
            let changes = differing(&older, &cells(newer), &blocks).into_iter();
            changes
                .map(|c| (c.axis, c.a.join(" "), c.b.join(" ")))
                .collect::<Vec<_>>()
        };
        let change = |axis: &str, a: &str, b: &str| (axis.to_owned(), a.to_owned(), b.to_owned());
        // More blocks and another order are no other axes.
        let same = ["block=7,clients=2,side=x", "block=1,clients=10,side=x"];
        assert_eq!(changes(&same), []);
        let other = ["block=1,clients=2,side=x", "block=1,clients=16,side=x"];
        assert_eq!(changes(&other), [change("clients", "2 10", "2 16")]);
        let renamed = ["block=1,side=x,users=2", "block=1,side=x,users=10"];
        assert_eq!(
            changes(&renamed),
            [change("clients", "2 10", ""), change("users", "", "2 10")]
        );
        let fewer = ["block=1,clients=2,side=x"];
        assert_eq!(changes(&fewer), [change("clients", "2 10", "2")]);
    }
}
