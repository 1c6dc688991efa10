//! The measurements that the values of a series rest on. A commit that did not measure again repeats them.

use std::collections::BTreeSet;

use artifacts::{Digest, Store};
use pipeline::Coordinates;
use pipeline::lock::{Lock, LockClass, LockStage};

use crate::catalogue::record_of;

/// The measurements behind one value, by the digests of their outputs.
pub(super) type Behind = BTreeSet<Digest>;

/// Two values that share more than this part of their measurements are one value. Values that resemble each other by as
/// much do not raise the number of false change points.
const MOST: f64 = 0.6;

/// Returns whether two values rest on nearly the same measurements: the correlation of their means exceeds what a change
/// point allows.
pub(super) fn are_one(a: &Behind, b: &Behind) -> bool {
    let shared = a.intersection(b).count() as f64;
    shared > MOST * ((a.len() * b.len()) as f64).sqrt()
}

/// The measured cells that a table needs, each with the digest of its outputs.
pub(super) struct Measured {
    cells: Vec<(Coordinates, Digest)>,
    /// The outputs of the table's own stage, for a table that needs no measurement.
    own: Behind,
}

impl Measured {
    /// Reads the measured cells that the tables of a stage need.
    pub(super) fn read(lock: &Lock, store: &Store, stage: &str) -> Self {
        let needed = needed(lock, store, stage);
        let of_class = |stage: &&LockStage| stage.class == LockClass::Measurement;
        let stages = lock.stages.iter().filter(of_class);
        let is_needed = |stage: &&LockStage| {
            let names = needed.as_ref();
            names.is_none_or(|names| names.contains(&stage.name))
        };
        let cells = stages.filter(is_needed).flat_map(|stage| &stage.cells);
        let cells = cells.filter_map(|cell| {
            let at: Coordinates = cell.coordinates.parse().ok()?;
            Some((at, cell.outputs.or(cell.record)?))
        });
        let own = lock.stages.iter().filter(|own| own.name == stage);
        let own = own.flat_map(|own| &own.cells);
        Self {
            cells: cells.collect(),
            own: own.filter_map(|cell| cell.outputs).collect(),
        }
    }

    /// Returns the measurements behind the rows with these labels. A label of an axis that cells lack selects none.
    pub(super) fn behind(&self, labels: &[(String, String)]) -> Behind {
        let agrees = |at: &Coordinates| {
            let same = |(axis, label): &(String, String)| {
                at.get(axis).is_none_or(|own| own.to_string() == *label)
            };
            labels.iter().all(same)
        };
        let cells = self.cells.iter().filter(|(at, _)| agrees(at));
        let behind: Behind = cells.map(|(_, outputs)| *outputs).collect();
        match behind.is_empty() {
            true => self.own.clone(),
            false => behind,
        }
    }

    /// Returns the axes that only distinguish repetitions.
    pub(super) fn replicates(lock: &Lock, store: &Store) -> BTreeSet<String> {
        let stages = lock.stages.iter();
        let measured = stages.filter(|stage| stage.class == LockClass::Measurement);
        let axes = measured.filter_map(|stage| {
            let cell = stage.cells.iter().find(|cell| cell.record.is_some())?;
            let record = record_of(store, &stage.name, cell).ok()??;
            Some(record.recipe.replicate.0.into_iter().map(|(axis, _)| axis))
        });
        axes.flatten().collect()
    }
}

/// Returns the stages that a stage needs, with itself; `None` if a record cannot be read.
fn needed(lock: &Lock, store: &Store, stage: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::from([stage.to_owned()]);
    let mut waiting = vec![stage.to_owned()];
    while let Some(name) = waiting.pop() {
        let stage = lock.stages.iter().find(|stage| stage.name == name)?;
        // What a measurement was made of is part of its outputs.
        if stage.class == LockClass::Measurement {
            continue;
        }
        let cell = stage.cells.iter().find(|cell| cell.record.is_some())?;
        let record = record_of(store, &stage.name, cell).ok()??;
        for input in record.recipe.inputs {
            if names.insert(input.stage.clone()) {
                waiting.push(input.stage);
            }
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_nearly_the_same_measurements_are_one() {
        let behind =
            |from: u8, to: u8| -> Behind { (from..to).map(|i| Digest::of(&[i])).collect() };
        assert!(are_one(&behind(0, 4), &behind(0, 4)));
        // One block more.
        assert!(are_one(&behind(0, 4), &behind(0, 5)));
        assert!(!are_one(&behind(0, 4), &behind(4, 8)));
        assert!(!are_one(&behind(0, 4), &behind(2, 6)));
        assert!(!are_one(&behind(0, 0), &behind(0, 0)));
    }

    #[test]
    fn a_series_rests_on_the_cells_with_its_labels() {
        let cell = |configuration: &str, block: i64, outputs: u8| {
            let at = [
                (
                    "cfg".to_owned(),
                    artifacts::Scalar::Text(configuration.to_owned()),
                ),
                ("block".to_owned(), artifacts::Scalar::Int(block)),
            ];
            (Coordinates(at.to_vec()), Digest::of(&[outputs]))
        };
        let measured = Measured {
            cells: vec![cell("a", 1, 1), cell("a", 2, 2), cell("b", 1, 3)],
            own: BTreeSet::from([Digest::of(&[9])]),
        };
        let behind =
            |axis: &str, label: &str| measured.behind(&[(axis.to_owned(), label.to_owned())]);
        assert_eq!(
            behind("cfg", "a"),
            BTreeSet::from([1, 2].map(|i| Digest::of(&[i])))
        );
        assert_eq!(behind("cfg", "b"), BTreeSet::from([Digest::of(&[3])]));
        assert_eq!(behind("objective", "lax").len(), 3);
        assert_eq!(behind("cfg", "c"), measured.own);
    }
}
