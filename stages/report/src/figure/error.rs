//! Why a figure cannot be drawn.

use std::fmt;

use crate::data::Miss;
use crate::format::FormatError;

/// Why a figure cannot be drawn. Each is a mistake in the figure's settings, for the table that it shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FigureError {
    /// A table or a column was not found.
    Miss(Miss),
    /// The table has no rows, or none matches the condition.
    NoRows {
        /// The table.
        table: String,
        /// Whether the table has rows.
        narrowed: bool,
    },
    /// No row has everything that a mark needs.
    NothingToDraw {
        /// What is needed, for example "both coordinates".
        needed: String,
    },
    /// A value is not a number.
    NotANumber {
        /// The column to read.
        column: String,
        /// The value.
        value: String,
    },
    /// A number cannot be drawn.
    OutOfRange {
        /// The column to read.
        column: String,
        /// The value.
        value: f64,
        /// The reason.
        because: &'static str,
    },
    /// Two rows have one place in the figure.
    TwoRows {
        /// The place.
        place: String,
        /// Whether `series` could separate them.
        has_series: bool,
    },
    /// The column of a time line is not a time.
    NotATime {
        /// The column to read.
        column: String,
        /// Its unit, if any.
        unit: Option<String>,
    },
    /// The fit's table names an unknown model.
    UnknownModel {
        /// The formula.
        formula: String,
    },
    /// A series has more than one fit.
    SeveralFits {
        /// The series.
        series: String,
    },
    /// The figure's format does not suit a value.
    Format(FormatError),
}

impl FigureError {
    pub(super) fn nothing_with(needed: impl Into<String>) -> Self {
        let needed = needed.into();
        Self::NothingToDraw { needed }
    }

    pub(super) fn out_of_range(column: &str, value: f64, because: &'static str) -> Self {
        Self::OutOfRange {
            column: column.to_owned(),
            value,
            because,
        }
    }
}

impl From<Miss> for FigureError {
    fn from(miss: Miss) -> Self {
        Self::Miss(miss)
    }
}

impl From<FormatError> for FigureError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<FigureError> for Miss {
    fn from(error: FigureError) -> Self {
        match error {
            FigureError::Miss(miss) => miss,
            other => Self::Wrong(other.to_string()),
        }
    }
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Miss(miss) => miss.fmt(f),
            Self::NoRows {
                table,
                narrowed: false,
            } => write!(f, "the table `{table}` has no rows"),
            Self::NoRows {
                table,
                narrowed: true,
            } => write!(f, "no row of the table `{table}` matches `where`"),
            Self::NothingToDraw { needed } => write!(f, "no row has {needed}"),
            Self::NotANumber { column, value } => {
                write!(f, "column `{column}` holds `{value}`, not a number")
            }
            Self::OutOfRange {
                column,
                value,
                because,
            } => write!(f, "column `{column}` holds {value}, but {because}"),
            Self::TwoRows { place, has_series } => {
                let or = if *has_series { "" } else { ", or add `series`" };
                write!(
                    f,
                    "there are two rows for {place}; narrow the figure with `where`{or}"
                )
            }
            Self::NotATime { column, unit } => {
                let unit = unit.as_deref().unwrap_or("none");
                write!(
                    f,
                    "column `{column}` has the unit {unit}, but a time line needs ns, us, ms or s"
                )
            }
            Self::UnknownModel { formula } => {
                write!(
                    f,
                    "the fit's table does not name a known model: `{formula}`"
                )
            }
            Self::SeveralFits { series } => write!(
                f,
                "`{series}` has several fits; narrow the figure with `where`, or name the `series`"
            ),
            Self::Format(error) => error.fmt(f),
        }
    }
}
