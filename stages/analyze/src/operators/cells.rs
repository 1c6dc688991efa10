//! Operators over load cells: one row for each cell, or for each group of pooled cells.

use artifacts::Scalar;
use contract::CellRows;
use pipeline::suggest::remedy;
use pipeline::{CellStatus, Failure};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Missing, Row, Spec};
use crate::intake::{Load, Rows};
use crate::operator::Context;

/// Parameters that only name the load stage to read.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Parameters")]
pub(crate) struct OfLoad {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    pub(crate) load: Option<String>,
}

/// Makes a row for each load cell that enters, in parallel, in the order of the cells.
///
/// # Errors
/// If several cells fail, the first failure in order.
pub(crate) fn each_cell(
    context: &Context<'_>,
    load: &Load<'_>,
    specs: Vec<Spec>,
    row: impl Fn(&[Scalar], &CellRows) -> Result<Row, Failure> + Sync,
) -> Result<Frame, Failure> {
    each_rows(context, load, specs, |at, cell| row(at, &*cell.get()?))
}

/// Does the same for operators that also read other tables of the cell.
///
/// # Errors
/// As [`each_cell`].
pub(crate) fn each_rows(
    context: &Context<'_>,
    load: &Load<'_>,
    specs: Vec<Spec>,
    row: impl Fn(&[Scalar], &Rows<'_>) -> Result<Row, Failure> + Sync,
) -> Result<Frame, Failure> {
    let one = |(at, cell): &(Vec<Scalar>, Rows<'_>)| {
        context.control.check()?;
        row(at, cell)
    };
    let rows = in_order(load.cells.par_iter().map(one))?;
    Ok(Frame {
        level: Level::Cell,
        keys: load.axes.clone(),
        specs,
        rows,
        missing: load.missing.clone(),
    })
}

/// Does the same for operators that also read the rows of cells that failed. Such a cell has a row, and its status
/// says why its figures are those of a failure.
///
/// # Errors
/// As [`each_cell`].
pub(crate) fn each_status(
    context: &Context<'_>,
    load: &Load<'_>,
    specs: Vec<Spec>,
    row: impl Fn(&[Scalar], CellStatus, &Rows<'_>) -> Result<Row, Failure> + Sync,
) -> Result<Frame, Failure> {
    let ok = load
        .cells
        .iter()
        .map(|(at, rows)| (at, CellStatus::Ok, rows));
    let failed = load
        .failed
        .iter()
        .map(|(at, status, rows)| (at, *status, rows));
    let read = ok.chain(failed.filter(|(_, status, _)| context.reads.includes(*status)));
    let mut read: Vec<(&Vec<Scalar>, CellStatus, &Rows<'_>)> = read.collect();
    read.sort_by(|a, b| contract::compare_all(a.0, b.0));
    let mut missing = load.missing.clone();
    missing.retain(|m| !read.iter().any(|(_, _, rows)| rows.coordinates().0 == m.at));
    let one = |(at, status, rows): &(&Vec<Scalar>, CellStatus, &Rows<'_>)| {
        context.control.check()?;
        row(at, *status, rows)
    };
    let rows = in_order(read.par_iter().map(one))?;
    Ok(Frame {
        level: Level::Cell,
        keys: load.axes.clone(),
        specs,
        rows,
        missing,
    })
}

/// Load cells whose rows are pooled.
pub(crate) struct Group<'a> {
    /// The values of the remaining axes.
    pub(crate) key: Vec<Scalar>,
    /// The cells, in the order of their coordinates.
    pub(crate) cells: Vec<&'a Rows<'a>>,
    /// The cells that are missing from the group; null if none.
    pub(crate) missing: Scalar,
    /// Whether some of these were lost, so that their values may have been other than those of the group.
    pub(crate) lost: bool,
    pub(crate) level: Level,
}

/// Makes a row for each group of cells that differ only in the axes `over`, in parallel, in the order of the groups.
/// Without such axes, makes a row for each cell. The cells include failed ones, if the operator reads them.
///
/// # Errors
/// If one of `over` is not an axis; otherwise, the first of several failures in order.
pub(crate) fn each_group<'a>(
    context: &Context<'_>,
    load: &'a Load<'a>,
    over: &[String],
    specs: Vec<Spec>,
    row: impl Fn(Group<'a>) -> Result<Row, Failure> + Sync,
) -> Result<Frame, Failure> {
    let keys = kept_axes(load, over)?;
    let level = match (over.is_empty(), keys.is_empty()) {
        (true, _) => Level::Cell,
        (false, true) => Level::Pooled,
        (false, false) => Level::Marginal,
    };
    let failed = load.failed.iter();
    let failed = failed.filter(|(_, status, _)| context.reads.includes(*status));
    let failed: Vec<(&Vec<Scalar>, &Rows<'_>)> = failed.map(|(at, _, rows)| (at, rows)).collect();
    let mut missing = load.missing.clone();
    missing.retain(|m| !failed.iter().any(|(_, rows)| rows.coordinates().0 == m.at));
    let groups = groups(load, failed, &keys);
    let around = Frame {
        level,
        keys,
        specs,
        rows: Vec::new(),
        missing,
    };
    let one = |(key, cells): (Vec<Scalar>, Vec<&'a Rows<'a>>)| {
        context.control.check()?;
        let missing = around.missing_at(&around.keys, &key);
        let lost = around
            .missing_here(&around.keys, &key)
            .any(Missing::is_lost);
        row(Group {
            key,
            cells,
            missing,
            lost,
            level,
        })
    };
    let rows = in_order(groups.into_par_iter().map(one))?;
    Ok(Frame { rows, ..around })
}

/// Collects rows in order. If several fail, the first failure in order is reported.
fn in_order(
    rows: impl IndexedParallelIterator<Item = Result<Row, Failure>>,
) -> Result<Vec<Row>, Failure> {
    let rows: Vec<Result<Row, Failure>> = rows.collect();
    rows.into_iter().collect()
}

/// The axes of a load that are not pooled.
fn kept_axes(load: &Load<'_>, over: &[String]) -> Result<Vec<String>, Failure> {
    let axes: Vec<&str> = load.axes.iter().map(String::as_str).collect();
    match over.iter().find(|axis| !axes.contains(&axis.as_str())) {
        Some(strange) => Err(Failure::failed(format!(
            "`{strange}` is not an axis of the load stage `{}`",
            load.stage
        ))
        .hint(remedy(strange, "axes", &axes))),
        None => Ok(load
            .axes
            .iter()
            .filter(|axis| !over.contains(axis))
            .cloned()
            .collect()),
    }
}

/// The cells of a load and some that failed, grouped by the given axes, in order.
fn groups<'a>(
    load: &'a Load<'a>,
    failed: Vec<(&'a Vec<Scalar>, &'a Rows<'a>)>,
    keys: &[String],
) -> Vec<(Vec<Scalar>, Vec<&'a Rows<'a>>)> {
    let places: Vec<usize> = keys
        .iter()
        .filter_map(|k| load.axes.iter().position(|a| a == k))
        .collect();
    let mut cells: Vec<(&Vec<Scalar>, &Rows<'_>)> = failed;
    cells.extend(load.cells.iter().map(|(at, cell)| (at, cell)));
    cells.sort_by(|a, b| contract::compare_all(a.0, b.0));
    let mut keyed: Vec<(Vec<Scalar>, &Rows<'_>)> = cells
        .into_iter()
        .map(|(at, cell)| (places.iter().map(|p| at[*p].clone()).collect(), cell))
        .collect();
    // The sort is stable: within a group, the cells keep the order of their coordinates.
    keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    keyed
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| {
            (
                group[0].0.clone(),
                group.iter().map(|(_, cell)| *cell).collect(),
            )
        })
        .collect()
}
