//! A typed column with its unit, its meaning and, for ratios, its two parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::scalar::Scalar;
use crate::table_error::TableError;

/// The values of one column; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnData {
    /// 64-bit integers.
    Int(Vec<Option<i64>>),
    /// Doubles.
    Float(Vec<Option<f64>>),
    /// UTF-8 text.
    Text(Vec<Option<String>>),
    /// True or false.
    Bool(Vec<Option<bool>>),
}

/// The two things that a column of ratios compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// The dividend, for example `batched`.
    pub numerator: String,
    /// The base, for example `serial`.
    pub denominator: String,
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ÷ {}", self.numerator, self.denominator)
    }
}

/// A named column with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name, spelled the same everywhere.
    pub name: String,
    /// The unit (`ms`, `tok/s`, `1` for a ratio); `None` if a unit makes no sense.
    pub unit: Option<String>,
    /// The column's meaning, including the meaning of null.
    pub description: Option<String>,
    /// The numerator and denominator, if the values are ratios of two compared things.
    pub ratio: Option<Ratio>,
    /// The values.
    pub data: ColumnData,
}

impl Column {
    /// Makes a column without unit or description.
    pub fn new(name: impl Into<String>, data: ColumnData) -> Self {
        Self {
            name: name.into(),
            unit: None,
            description: None,
            ratio: None,
            data,
        }
    }

    /// Makes a column of integers.
    pub fn int(name: impl Into<String>, values: impl IntoIterator<Item = Option<i64>>) -> Self {
        Self::new(name, ColumnData::Int(values.into_iter().collect()))
    }

    /// Makes a column of doubles.
    pub fn float(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::new(name, ColumnData::Float(values.into_iter().collect()))
    }

    /// Makes a column of text.
    pub fn text<T: Into<String>>(
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Self {
        Self::new(
            name,
            ColumnData::Text(values.into_iter().map(|v| v.map(Into::into)).collect()),
        )
    }

    /// Makes a column of Boolean values.
    pub fn boolean(
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<bool>>,
    ) -> Self {
        Self::new(name, ColumnData::Bool(values.into_iter().collect()))
    }

    /// Makes a column from scalars of one type. Integers widen to doubles if both occur.
    ///
    /// # Errors
    /// If text, Boolean values and numbers are mixed.
    pub fn from_scalars(name: impl Into<String>, values: &[Scalar]) -> Result<Self, TableError> {
        let name = name.into();
        let some = |pick: fn(&Scalar) -> bool| values.iter().any(pick);
        let text = some(|v| matches!(v, Scalar::Text(_)));
        let boolean = some(|v| matches!(v, Scalar::Bool(_)));
        let float = some(|v| matches!(v, Scalar::Float(_)));
        let int = some(|v| matches!(v, Scalar::Int(_)));
        if usize::from(text) + usize::from(boolean) + usize::from(float || int) > 1 {
            return Err(TableError::new(format!(
                "column `{name}` mixes text, booleans and numbers"
            )));
        }
        let data = if boolean {
            let boolean = |v: &Scalar| match v {
                Scalar::Bool(b) => Some(*b),
                _ => None,
            };
            ColumnData::Bool(values.iter().map(boolean).collect())
        } else if float {
            ColumnData::Float(values.iter().map(Scalar::as_f64).collect())
        } else if int {
            let int = |v: &Scalar| match v {
                Scalar::Int(i) => Some(*i),
                _ => None,
            };
            ColumnData::Int(values.iter().map(int).collect())
        } else {
            ColumnData::Text(
                values
                    .iter()
                    .map(|v| v.as_str().map(str::to_owned))
                    .collect(),
            )
        };
        Ok(Self::new(name, data))
    }

    /// States the unit.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// States the meaning.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// States the numerator and denominator.
    #[must_use]
    pub fn over(mut self, numerator: impl Into<String>, denominator: impl Into<String>) -> Self {
        self.ratio = Some(Ratio {
            numerator: numerator.into(),
            denominator: denominator.into(),
        });
        self
    }

    pub(crate) fn len(&self) -> usize {
        match &self.data {
            ColumnData::Int(values) => values.len(),
            ColumnData::Float(values) => values.len(),
            ColumnData::Text(values) => values.len(),
            ColumnData::Bool(values) => values.len(),
        }
    }

    /// Returns the column with its name, type, unit and meaning, but no rows.
    pub(crate) fn without_values(&self) -> Self {
        let data = match &self.data {
            ColumnData::Int(_) => ColumnData::Int(Vec::new()),
            ColumnData::Float(_) => ColumnData::Float(Vec::new()),
            ColumnData::Text(_) => ColumnData::Text(Vec::new()),
            ColumnData::Bool(_) => ColumnData::Bool(Vec::new()),
        };
        Self {
            name: self.name.clone(),
            unit: self.unit.clone(),
            description: self.description.clone(),
            ratio: self.ratio.clone(),
            data,
        }
    }

    pub(crate) fn field(&self) -> Field {
        let data_type = match &self.data {
            ColumnData::Int(_) => DataType::Int64,
            ColumnData::Float(_) => DataType::Float64,
            ColumnData::Text(_) => DataType::Utf8,
            ColumnData::Bool(_) => DataType::Boolean,
        };
        let mut metadata = HashMap::new();
        if let Some(unit) = &self.unit {
            metadata.insert("unit".to_owned(), unit.clone());
        }
        if let Some(description) = &self.description {
            metadata.insert("description".to_owned(), description.clone());
        }
        if let Some(Ratio {
            numerator,
            denominator,
        }) = &self.ratio
        {
            metadata.insert("numerator".to_owned(), numerator.clone());
            metadata.insert("denominator".to_owned(), denominator.clone());
        }
        Field::new(&self.name, data_type, true).with_metadata(metadata)
    }

    pub(crate) fn array(&self) -> ArrayRef {
        match &self.data {
            ColumnData::Int(values) => Arc::new(Int64Array::from_iter(values.iter().copied())),
            ColumnData::Float(values) => Arc::new(Float64Array::from_iter(values.iter().copied())),
            ColumnData::Text(values) => {
                Arc::new(StringArray::from_iter(values.iter().map(Option::as_deref)))
            }
            ColumnData::Bool(values) => Arc::new(BooleanArray::from_iter(values.iter().copied())),
        }
    }
}
