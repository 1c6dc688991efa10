//! Units of replication that were measured on one launch, because the servers are not started again for each.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::design::BLOCK;
use pipeline::{Failure, Json};

use crate::frame::SourceRows;
use crate::operator::Context;
use crate::operators::comparison::Compared;
use crate::surroundings::Judge;

/// The axes along which the cells of each load stage are measured on one launch.
type OnOneLaunch = BTreeMap<String, BTreeSet<String>>;

/// Returns the axes that tables of these canonical parameters use as a unit or for their sides, for the load stages in which
/// units share launches.
pub(crate) fn of_units(all: &OnOneLaunch, parameters: &Json) -> OnOneLaunch {
    let tables = || parameters["tables"].as_array().into_iter().flatten();
    // In a design, the unit is the block unless a table declares another one.
    let units = tables().flat_map(|table| match table["parameters"]["unit"].as_array() {
        Some(axes) => axes.iter().filter_map(Json::as_str).collect(),
        None => vec![BLOCK],
    });
    let units: BTreeSet<&str> = units.collect();
    let sides = tables().filter_map(|table| {
        let parameters = &table["parameters"];
        let pair = parameters["pair"]["axis"].as_str();
        pair.or_else(|| parameters["among"].as_str())
    });
    let sides: BTreeSet<&str> = sides.collect();
    let of_stage = |(stage, axes): (&String, &BTreeSet<String>)| {
        let shared = axes.iter().any(|axis| units.contains(axis.as_str()));
        let used = |axis: &&String| units.contains(axis.as_str()) || sides.contains(axis.as_str());
        shared.then(|| (stage.clone(), axes.iter().filter(used).cloned().collect()))
    };
    all.iter().filter_map(of_stage).collect()
}

/// Notes for each test that its units share launches.
///
/// # Errors
/// If the cells behind the tests cannot be read.
pub(crate) fn note<T>(
    context: &Context<'_>,
    axis: &str,
    unit: &[String],
    tests: &mut [Compared<T>],
) -> Result<(), Failure> {
    if context.shares.on_one_launch().is_empty() {
        return Ok(());
    }
    let mut judge = Judge::new(context)?;
    for test in tests.iter_mut().filter(|test| test.doubt.is_none()) {
        test.doubt = limit(context, &mut judge, (axis, unit), &test.lineage);
    }
    Ok(())
}

/// Explains what shared launches mean for a comparison of the labels of an axis over units; `None` if the units behind the
/// rows do not share launches. If the labels were measured on the same launches, these cancel.
pub(crate) fn limit<'s>(
    context: &Context<'_>,
    judge: &mut Judge<'_>,
    (axis, unit): (&str, &[String]),
    rows: impl IntoIterator<Item = &'s SourceRows>,
) -> Option<String> {
    let all = context.shares.on_one_launch();
    if all.is_empty() {
        return None;
    }
    let stages = judge.stages_behind(rows);
    let of_stages = stages.iter().filter_map(|stage| all.get(stage));
    let mut apart = of_stages.filter(|axes| !axes.contains(axis));
    let within = apart.find_map(|axes| {
        let within = unit.iter().filter(|axis| axes.contains(*axis));
        let within: Vec<&str> = within.map(String::as_str).collect();
        (!within.is_empty()).then(|| within.join(", "))
    })?;
    Some(format!(
        "the servers are not started again for each {within}, so the units share launches, and this holds for these launches \
         only"
    ))
}
