//! A column that an operator declares while planning.

use artifacts::{Column, ColumnData, Ratio, Scalar};

use crate::operators::alike::{Pools, Statistic};

/// The type of a declared column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Int,
    Float,
    Text,
    Bool,
}

/// The values that a column can have. An interval of their mean depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Any number: a difference, or a column that a query or a file defines.
    Any,
    /// No negative number: a time, a rate, a count, a ratio of them.
    NotNegative,
    /// The same, and exactly 1 at the anchor of its ladder.
    Relative,
    /// A share of whole things, from 0 to 1.
    Share,
}

/// A column that an operator declares while planning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) unit: Option<String>,
    pub(crate) description: String,
    /// The numerator and denominator of a column that compares two things as a ratio.
    pub(crate) ratio: Option<Ratio>,
    pub(crate) kind: Type,
    pub(crate) range: Bounds,
    /// The column whose values this one pools.
    pub(crate) pools: Option<Pools>,
    /// The level of the intervals beside its values; `None` if there are none.
    pub(crate) interval_level: Option<f64>,
}

impl Spec {
    fn new(
        name: impl Into<String>,
        unit: &str,
        description: impl Into<String>,
        kind: Type,
    ) -> Self {
        let unit = (!unit.is_empty()).then(|| unit.to_owned());
        Self {
            name: name.into(),
            unit,
            description: description.into(),
            ratio: None,
            kind,
            range: Bounds::Any,
            pools: None,
            interval_level: None,
        }
    }

    pub(crate) fn float(
        name: impl Into<String>,
        unit: &str,
        description: impl Into<String>,
    ) -> Self {
        Self::new(name, unit, description, Type::Float)
    }

    pub(crate) fn int(name: impl Into<String>, unit: &str, description: impl Into<String>) -> Self {
        Self::new(name, unit, description, Type::Int)
    }

    pub(crate) fn text(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, "", description, Type::Text)
    }

    pub(crate) fn boolean(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, "", description, Type::Bool)
    }

    /// Declares the values that the column can have.
    pub(crate) fn within(mut self, range: Bounds) -> Self {
        self.range = range;
        self
    }

    /// Declares the numerator and denominator of the ratio.
    pub(crate) fn over(
        mut self,
        numerator: impl Into<String>,
        denominator: impl Into<String>,
    ) -> Self {
        self.ratio = Some(Ratio {
            numerator: numerator.into(),
            denominator: denominator.into(),
        });
        self
    }

    /// Declares the column whose values this one pools.
    pub(crate) fn pooling(mut self, table: &str, column: &str, how: Option<Statistic>) -> Self {
        self.pools = Some(Pools {
            table: table.to_owned(),
            column: column.to_owned(),
            how,
        });
        self
    }

    /// Declares the level of the intervals beside the values, if there are any.
    pub(crate) fn at_level(mut self, level: impl Into<Option<f64>>) -> Self {
        self.interval_level = level.into();
        self
    }

    /// Returns a double column for values of this one, or means of them: same unit, same sides, same range.
    pub(crate) fn like(&self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let unit = self.unit.as_deref().unwrap_or_default();
        Self {
            ratio: self.ratio.clone(),
            range: self.range,
            ..Self::float(name, unit, description)
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.kind, Type::Int | Type::Float)
    }

    /// Returns the column with no values.
    pub(crate) fn empty_column(&self) -> Column {
        self.column(std::iter::empty())
    }

    pub(super) fn column(&self, values: impl Iterator<Item = Scalar>) -> Column {
        let data = match self.kind {
            Type::Int => ColumnData::Int(
                values
                    .map(|v| {
                        if let Scalar::Int(i) = v {
                            Some(i)
                        } else {
                            None
                        }
                    })
                    .collect(),
            ),
            // A non-finite number is undefined: null.
            Type::Float => ColumnData::Float(
                values
                    .map(|v| v.as_f64().filter(|f| f.is_finite()))
                    .collect(),
            ),
            Type::Text => ColumnData::Text(
                values
                    .map(|v| {
                        if let Scalar::Text(t) = v {
                            Some(t)
                        } else {
                            None
                        }
                    })
                    .collect(),
            ),
            Type::Bool => ColumnData::Bool(
                values
                    .map(|v| {
                        if let Scalar::Bool(b) = v {
                            Some(b)
                        } else {
                            None
                        }
                    })
                    .collect(),
            ),
        };
        Column {
            name: self.name.clone(),
            unit: self.unit.clone(),
            description: Some(self.description.clone()),
            ratio: self.ratio.clone(),
            data,
        }
    }
}
