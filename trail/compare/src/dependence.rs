//! Units of a study that resemble each other, and are therefore fewer than they seem.
//!
//! Launches of one day, or launches that follow each other, may have something in common. The bounds of a gate then lie too
//! close together. Which units may resemble each other follows from their labels; whether they do, from their values.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::in_order;
use pipeline::Coordinates;
use statistics::{
    GROUPS_LEVEL, Group, Refusal, Resemblance, UnitEffect, group_effect, group_resemblance,
    indirect_effect, neighbours,
};

use crate::units::Logs;

/// The effect of units, with a note if they resemble each other.
pub(crate) type Noted = (UnitEffect, Option<String>);

/// Returns the log ratio of the newer over the older units, given that of each study by itself as `newer` and `older`, with the
/// dependence of the units counted.
///
/// # Errors
/// If the units lie within too few labels, such as days.
pub(crate) fn counted(logs: [&Logs; 2], effects: [&UnitEffect; 2]) -> Result<Noted, String> {
    let labels = logs.map(|logs| {
        logs.labels
            .iter()
            .map(|label| at(label))
            .collect::<Vec<_>>()
    });
    let Some(first) = labels.iter().flatten().next() else {
        return Ok((indirect_effect(effects[1], effects[0]), None));
    };
    let axes = first.axes();
    let around = axes.split_last().map_or(&[][..], |(_, around)| around);
    for axis in around {
        let groups = groups(axis, logs, &labels);
        let level = GROUPS_LEVEL / around.len() as f64;
        let shared = groups.iter().all(|(a, b)| !a.is_empty() && !b.is_empty());
        if shared && let Some(p) = group_resemblance(&groups).filter(|p| *p <= level) {
            return of_groups(&Resemblance::Grouped(axis.clone(), p), &groups);
        }
        // Studies that were measured on days of their own.
        let apart = apart(&groups);
        let p_of_sides = apart.iter().filter_map(|groups| group_resemblance(groups));
        let least = p_of_sides.reduce(f64::min).filter(|p| *p <= level / 2.0);
        if !shared && let Some(p) = least {
            return of_groups_apart(&Resemblance::Grouped(axis.clone(), p), &apart);
        }
    }
    let ordered = |side: usize| {
        let last = |at: &Coordinates| at.0.last().map(|(_, label)| label.clone());
        let labels: Option<Vec<Scalar>> = labels[side].iter().map(last).collect();
        let order = in_order(&labels?)?;
        Some(order.into_iter().map(|i| logs[side].units[i]).collect())
    };
    let single = axes.len() == 1;
    let resemble = single
        .then(|| neighbours([ordered(0), ordered(1)]))
        .flatten();
    Ok(match resemble {
        Some((p, [older, newer])) => (
            indirect_effect(&effects[1].dependent(newer), &effects[0].dependent(older)),
            Some(Resemblance::InOrder(axes[0].clone(), p).note()),
        ),
        None => (indirect_effect(effects[1], effects[0]), None),
    })
}

fn at(label: &str) -> Coordinates {
    label.parse().unwrap_or(Coordinates(Vec::new()))
}

/// Returns the units of each label of an axis: those of the newer study first.
fn groups(axis: &str, logs: [&Logs; 2], labels: &[Vec<Coordinates>; 2]) -> Vec<Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (side, logs) in logs.into_iter().enumerate() {
        for (at, value) in labels[side].iter().zip(&logs.units) {
            let label = at.get(axis).map(ToString::to_string).unwrap_or_default();
            let (newer, older) = groups.entry(label).or_default();
            if side == 1 { newer } else { older }.push(*value);
        }
    }
    let single = groups.len() < 2;
    let all = groups.into_values();
    if single { Vec::new() } else { all.collect() }
}

/// Returns the groups of each study by itself: those of the newer study first.
fn apart(groups: &[Group]) -> [Vec<Group>; 2] {
    let alone = |values: Vec<&Vec<f64>>| {
        let filled = values.into_iter().filter(|values| !values.is_empty());
        filled.map(|values| (values.clone(), Vec::new())).collect()
    };
    [
        alone(groups.iter().map(|(newer, _)| newer).collect()),
        alone(groups.iter().map(|(_, older)| older).collect()),
    ]
}

/// Explains why labels of an axis cannot be the units.
fn refused(alike: &Resemblance, refusal: Refusal, place: &str) -> String {
    match refusal {
        Refusal::TooFewClusters { n, least } => format!(
            "{alike}, and {n} labels of it{place} are too few: measure on {least} or more in each study"
        ),
        refusal => format!("{alike}; there, {refusal}"),
    }
}

/// Returns the effect of labels as units, if the studies do not share them: the difference between the means over the
/// labels of each study.
fn of_groups_apart(alike: &Resemblance, [newer, older]: &[Vec<Group>; 2]) -> Result<Noted, String> {
    let effect = |groups: &Vec<Group>| {
        group_effect(groups).map_err(|refusal| refused(alike, refusal, " in a study"))
    };
    // The study with fewer labels gives the reason.
    let fewer = if older.len() < newer.len() {
        older
    } else {
        newer
    };
    effect(fewer)?;
    let of_both = indirect_effect(&effect(newer)?, &effect(older)?);
    Ok((of_both, Some(alike.note())))
}

/// Returns the effect of labels as units: the differences between the means of the two studies there.
fn of_groups(alike: &Resemblance, groups: &[Group]) -> Result<Noted, String> {
    let effect = group_effect(groups).map_err(|refusal| refused(alike, refusal, ""))?;
    Ok((effect, Some(alike.note())))
}
