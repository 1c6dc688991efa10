//! Rows pooled over axes, and the columns with the interval of their mean.

use artifacts::Scalar;
use contract::IntervalEnd;
use pipeline::Failure;

use super::{Mean, Units, averaged};
use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Spec};
use crate::operators::resemblance::{doubt_of_effects, groupings, nested, shared};

/// The description of the columns with the reason for a withheld interval.
pub(crate) const WHY: &str =
    "why the interval, or an end of it, is withheld; null if both ends are there";

/// Rows pooled over axes, including the unit axes.
pub(crate) struct Together {
    /// The remaining keys.
    pub(crate) keys: Vec<String>,
    /// The rows for each of their values.
    pub(crate) groups: Vec<(Vec<Scalar>, Vec<usize>)>,
    pub(crate) units: Units,
    /// The positions of the unit axes.
    at: Vec<usize>,
    /// The names and the positions of the other pooled axes.
    names: Vec<String>,
    within: Vec<usize>,
}

impl Together {
    /// Groups the rows of a table by the keys that are not in `over`. With an empty `over`, every row is its own group.
    ///
    /// # Errors
    /// If an axis is not a key, or a declared unit is not among `over`.
    pub(crate) fn new(
        from: &Frame,
        table: &str,
        over: &[String],
        unit: Option<&[String]>,
    ) -> Result<Self, Failure> {
        from.key_positions(over, table)?;
        let units = Units::of(unit, from, table)?.within(over)?;
        let keys = from.keys_without(over);
        let positions = from.key_positions(&keys, table)?;
        let names = over.iter().filter(|axis| !units.axes().contains(axis));
        let names: Vec<String> = names.cloned().collect();
        Ok(Self {
            within: from.key_positions(&names, table)?,
            names,
            groups: from.groups(&positions),
            at: from.key_positions(units.axes(), table)?,
            keys,
            units,
        })
    }

    /// Returns the mean over units of a figure of the rows, after averaging within each unit; `None` where no row has
    /// the figure.
    pub(crate) fn mean(
        &self,
        from: &Frame,
        rows: &[usize],
        (level, range): (f64, Bounds),
        figure: impl Fn(usize) -> Option<f64>,
    ) -> Option<Mean> {
        let figures = rows.iter().filter_map(|row| Some((*row, figure(*row)?)));
        if self.units.is_none() {
            let values: Vec<f64> = figures.map(|(_, value)| value).collect();
            return self.units.mean(&values, level, range);
        }
        let figures: Vec<(usize, f64)> = figures.collect();
        let unit = |row: usize| from.key_at(row, &self.at);
        let labelled = averaged(figures.iter().map(|(row, value)| (unit(*row), *value)));
        let values: Vec<f64> = labelled.iter().map(|(_, v)| *v).collect();
        let mut mean = self.units.mean(&values, level, range)?;
        if mean.interval.is_ok() {
            let rows = figures.iter();
            let rows = rows.map(|(row, _)| (unit(*row), from.key_at(*row, &self.within)));
            let rows: Vec<_> = rows.collect();
            let around = groupings(&self.names, &rows);
            let doubt = || doubt_of_effects(&self.units, labelled).map(|doubt| doubt.refusal());
            let copied = || match range {
                // A share of few requests often has the same value.
                Bounds::Share => None,
                _ => shared(&[(values.clone(), vec![values.clone()])]).map(|d| d.refusal()),
            };
            let doubt = nested(&around).or_else(copied).or_else(doubt);
            if let Some(doubt) = doubt {
                mean.interval = Err(doubt);
            }
        }
        Some(mean)
    }

    /// Returns the number of units among the rows.
    pub(crate) fn count(&self, from: &Frame, rows: &[usize]) -> usize {
        if self.units.is_none() {
            return 0;
        }
        let labels = rows.iter().map(|row| (from.key_at(*row, &self.at), 0.0));
        averaged(labels).len()
    }
}

/// The columns of an interval of a mean over units: its ends, in columns like `spec`, and the reason if it is withheld.
pub(crate) fn interval_columns<'a, T: 'a>(
    columns: Columns<'a, T>,
    spec: &Spec,
    what: (&str, &str, f64),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let scale = match spec.range {
        Bounds::Any => {
            "one that covers the intervals of both the geometric and the arithmetic mean if all units are well above 0, otherwise that of the arithmetic mean"
        }
        Bounds::NotNegative | Bounds::Relative => {
            "of the geometric mean if all units are above 0, otherwise of the arithmetic mean, cut off at 0"
        }
        Bounds::Share => {
            "of the geometric mean if all units are above 0, otherwise of the arithmetic mean, cut off at 0 and 1"
        }
    };
    scaled_columns(columns, spec, (what, scale), mean)
}

/// As [`interval_columns`], for arithmetic means.
pub(crate) fn arithmetic_columns<'a, T: 'a>(
    columns: Columns<'a, T>,
    spec: &Spec,
    what: (&str, &str, f64),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let scale = match spec.range {
        Bounds::Any => "the upper end on a logarithmic scale if all units are well above 0",
        Bounds::NotNegative | Bounds::Relative => {
            "on a logarithmic scale if all units are above 0, otherwise cut off at 0"
        }
        Bounds::Share => {
            "on a logarithmic scale if all units are above 0, otherwise cut off at 0; cut off at 1"
        }
    };
    scaled_columns(columns, spec, (what, scale), mean)
}

fn scaled_columns<'a, T: 'a>(
    mut columns: Columns<'a, T>,
    spec: &Spec,
    ((stem, what, level), scale): ((&str, &str, f64), &str),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let end = |which: IntervalEnd| {
        which.of(format!(
            "the {level} t interval of {what} over the units; {scale}; null with fewer than three \
            units, or five clusters"
        ))
    };
    columns.push(
        spec.like(format!("{stem}_low"), end(IntervalEnd::Lower)),
        move |item: &T| mean(item).and_then(Mean::low),
    );
    columns.push(
        spec.like(format!("{stem}_high"), end(IntervalEnd::Upper)),
        move |item: &T| mean(item).and_then(Mean::high),
    );
    columns.push(Spec::text(format!("{stem}_why"), WHY), move |item: &T| {
        Mean::why(mean(item))
    });
    columns
}
