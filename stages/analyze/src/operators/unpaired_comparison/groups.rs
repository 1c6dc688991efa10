//! Axes within which units lie, such as the day of a launch.

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::Frame;

/// Returns whether units cannot be compared at the labels of an axis. There are two such cases. The axis may number
/// things within a unit, such as blocks numbered consecutively over several hosts: most of its labels then occur in one
/// unit only. Or units lie within it, such as launches on a day: most units then have a single label of it. Centring a
/// row on the mean of such a label would centre it on its own unit, or on the few units of a day. The spread of the
/// units would be understated.
pub(crate) fn is_nested(from: &Frame, axis: usize, unit: &[usize]) -> bool {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut units: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (row, from_row) in from.rows.iter().enumerate() {
        let unit = from.key_at(row, unit);
        let unit: Vec<String> = unit.iter().map(ToString::to_string).collect();
        let (unit, label) = (unit.join(", "), from_row.key[axis].to_string());
        units.entry(unit.clone()).or_default().insert(label.clone());
        labels.entry(label).or_default().insert(unit);
    }
    let mostly_one = |sets: &BTreeMap<String, BTreeSet<String>>| {
        2 * sets.values().filter(|set| set.len() == 1).count() > sets.len()
    };
    labels.len() > 1 && (mostly_one(&labels) || mostly_one(&units))
}

/// The share of a side's units that may lie in other groups than those of the other side: one lost launch of six in
/// each of two or three groups.
const UNLIKE: f64 = 0.15;

/// The units of a side in each group, such as those of each day.
pub(crate) struct Groups {
    units: BTreeMap<String, BTreeSet<String>>,
}

impl Groups {
    pub(crate) fn of(from: &Frame, rows: &[usize], axis: usize, unit: &[usize]) -> Self {
        let mut units: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows {
            let unit = from.key_at(*row, unit);
            let unit: Vec<String> = unit.iter().map(ToString::to_string).collect();
            let group = from.rows[*row].key[axis].to_string();
            units.entry(group).or_default().insert(unit.join(", "));
        }
        Self { units }
    }

    /// Counts the units; `None` if one lies in several groups. The axis then numbers things within a unit.
    fn count(&self) -> Option<usize> {
        let all: BTreeSet<&String> = self.units.values().flatten().collect();
        let entries: usize = self.units.values().map(BTreeSet::len).sum();
        (entries == all.len()).then_some(entries)
    }

    fn share(&self, group: &str) -> f64 {
        let own = self.units.get(group).map_or(0, BTreeSet::len);
        own as f64 / self.count().unwrap_or(0).max(1) as f64
    }

    /// Explains why the units of two sides cannot be compared: they lie in different groups, and the units of a group
    /// resemble each other. A difference between groups then looks like one between the sides. If each side has a
    /// single group, such as its own machine, the group belongs to the side.
    pub(crate) fn refusal(sides: [&Self; 2], [a, b]: [&str; 2], axis: &str) -> Option<String> {
        let counted = sides.iter().all(|side| side.count().is_some());
        let several = |side: &&Self| side.units.values().any(|units| units.len() > 1);
        let single = sides.iter().all(|side| side.units.len() == 1);
        if !counted || single || !sides.iter().any(several) {
            return None;
        }
        let groups: BTreeSet<&String> = sides.iter().flat_map(|side| side.units.keys()).collect();
        let apart = |group: &&String| (sides[0].share(group) - sides[1].share(group)).abs();
        let apart = groups.iter().map(apart).sum::<f64>() / 2.0;
        (apart > UNLIKE).then(|| {
            format!(
                "the units of {a} and {b} have unlike shares of the labels of `{axis}`, so a difference between labels \
                 looks like one between the sides: declare `unit: [{axis}]`, or put `{axis}` into `by`"
            )
        })
    }
}
