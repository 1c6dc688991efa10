//! Figures of a ladder relative to the same figure at its anchor, over units.
//!
//! The quotient is formed in each row first. Rungs of one launch share their anchor, so only the quotients of whole
//! launches are independent.

use artifacts::Scalar;
use pipeline::Failure;
use statistics::Sample;

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Row, Spec, spans};
use crate::operators::alike::follow;
use crate::operators::pairs::anchors;
use crate::operators::units::{LEVEL, Mean, Together};

/// The ladder, the anchor and the figures that a table asks for.
pub(crate) struct Ladder<'a> {
    pub(crate) table: &'a str,
    /// The axis of N, such as `concurrency`.
    pub(crate) axis: &'a str,
    /// The value of N at the anchor.
    pub(crate) anchor: f64,
    pub(crate) columns: &'a [String],
    pub(crate) over: &'a [String],
    pub(crate) unit: Option<&'a [String]>,
}

/// One value of the ladder.
pub(crate) struct Rung {
    pub(crate) n: f64,
    /// The number of units at this rung.
    pub(crate) units: usize,
    pub(crate) interval_of: String,
    /// The figures, in the order of the requested columns.
    pub(crate) columns: Vec<Against>,
}

/// A figure and its value at the anchor, each averaged, and their quotient, formed row by row.
pub(crate) struct Against {
    pub(crate) value: Option<f64>,
    pub(crate) anchor: Option<f64>,
    pub(crate) quotient: Option<Mean>,
}

impl Rung {
    /// Declares the column with the units of the intervals.
    pub(crate) fn counts<'a>() -> Columns<'a, Self> {
        let meaning = "the units that the intervals are over, or why there are none";
        Columns::new()
            .with(
                Spec::int("units", "1", "units of replication in the row"),
                |r: &Self| r.units,
            )
            .with(Spec::text("interval_of", meaning), |r| {
                r.interval_of.clone()
            })
    }
}

/// Makes a table of the rungs of a ladder.
///
/// # Errors
/// If an axis is not a key, or if the ladder itself is among the pooled axes.
pub(crate) fn table(
    from: &Frame,
    ladder: &Ladder<'_>,
    columns: &Columns<'_, Rung>,
) -> Result<Frame, Failure> {
    let axis = from.key_position(ladder.axis, ladder.table)?;
    if ladder.over.iter().any(|over| over == ladder.axis) {
        let axis = ladder.axis;
        return Err(Failure::failed(format!(
            "`{axis}` is both ladder and among `over`"
        )));
    }
    let together = Together::new(from, ladder.table, ladder.over, ladder.unit)?;
    let mut places = vec![(f64::NAN, None); from.rows.len()];
    for (row, n, anchor) in anchors(from, axis, ladder.axis, ladder.anchor)? {
        places[row] = (n, anchor);
    }
    let row = |(key, members): &(Vec<Scalar>, Vec<usize>)| -> Row {
        let base = |row: usize, column: &str| from.number(places[row].1?, column);
        let against = |column: &String| {
            let average = |value: &dyn Fn(usize) -> Option<f64>| {
                Sample::new(members.iter().filter_map(|m| value(*m)))
                    .ok()
                    .map(|s| s.mean())
            };
            Against {
                value: average(&|row| from.number(row, column)),
                anchor: average(&|row| base(row, column)),
                quotient: together.mean(from, members, (LEVEL, Bounds::Relative), |row| {
                    let base = base(row, column).filter(|b| *b > 0.0)?;
                    Some(from.number(row, column)? / base)
                }),
            }
        };
        let units = &together.units;
        let rung = Rung {
            n: places[members[0]].0,
            units: together.count(from, members),
            interval_of: units.words().unwrap_or_else(|| units.none()),
            columns: ladder.columns.iter().map(against).collect(),
        };
        let used = members.iter().copied();
        let used = used.chain(members.iter().filter_map(|m| places[*m].1));
        columns.row(key.clone(), &rung, spans(ladder.table, used))
    };
    // The columns of several figures begin with the names of their columns.
    let source = |name: &str| {
        let own = ladder
            .columns
            .iter()
            .filter(|column| name.starts_with(column.as_str()));
        let own = own.max_by_key(|column| column.len());
        own.unwrap_or(&ladder.columns[0])
    };
    Ok(Frame {
        level: if ladder.over.is_empty() {
            from.level
        } else {
            crate::frame::Level::Marginal
        },
        rows: together.groups.iter().map(row).collect(),
        keys: together.keys.clone(),
        specs: follow(columns.specs(), ladder.table, source),
        missing: from.missing.clone(),
    })
}
