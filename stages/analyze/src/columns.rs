//! The columns of a table, each declared together with the computation of its values.

use artifacts::Scalar;

use crate::frame::{Bounds, Row, SourceRows, Spec, count, number, text};

/// The type of a column's value before it becomes a scalar. Undefined is null.
pub(crate) trait Value {
    fn scalar(self) -> Scalar;
}

impl Value for Scalar {
    fn scalar(self) -> Scalar {
        self
    }
}

impl Value for f64 {
    fn scalar(self) -> Scalar {
        number(Some(self))
    }
}

impl Value for usize {
    fn scalar(self) -> Scalar {
        count(self)
    }
}

impl Value for i64 {
    fn scalar(self) -> Scalar {
        Scalar::Int(self)
    }
}

impl Value for bool {
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

impl Value for &str {
    fn scalar(self) -> Scalar {
        text(self)
    }
}

impl Value for String {
    fn scalar(self) -> Scalar {
        text(self)
    }
}

impl<V: Value> Value for Option<V> {
    fn scalar(self) -> Scalar {
        self.map_or(Scalar::Null, Value::scalar)
    }
}

/// Computes one value of a row from a `T`.
type Read<'a, T> = Box<dyn Fn(&T) -> Scalar + Send + Sync + 'a>;

/// The columns of a table whose rows come from values of type `T`. Planning takes the declarations, and running takes
/// the values; a column always has both.
pub(crate) struct Columns<'a, T> {
    all: Vec<(Spec, Read<'a, T>)>,
}

impl<'a, T> Columns<'a, T> {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// Adds a column.
    pub(crate) fn with<V: Value>(
        mut self,
        spec: Spec,
        value: impl Fn(&T) -> V + Send + Sync + 'a,
    ) -> Self {
        self.push(spec, value);
        self
    }

    /// Adds a column.
    pub(crate) fn push<V: Value>(
        &mut self,
        spec: Spec,
        value: impl Fn(&T) -> V + Send + Sync + 'a,
    ) {
        self.all
            .push((spec, Box::new(move |item| value(item).scalar())));
    }

    /// Declares that no number is negative, except in columns that say otherwise.
    pub(crate) fn not_negative(mut self) -> Self {
        for (spec, _) in &mut self.all {
            if spec.range == Bounds::Any {
                spec.range = Bounds::NotNegative;
            }
        }
        self
    }

    /// Returns the declarations.
    pub(crate) fn specs(&self) -> Vec<Spec> {
        self.all.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Makes a row.
    pub(crate) fn row(&self, key: Vec<Scalar>, item: &T, lineage: Vec<SourceRows>) -> Row {
        let values = self.all.iter().map(|(_, read)| read(item)).collect();
        Row::new(key, values, lineage)
    }
}

/// Joins a list for people; `None` if it is empty.
pub(crate) fn listed(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| items.join(", "))
}

/// Declares the column that names missing cells.
pub(crate) fn missing_spec() -> Spec {
    Spec::text(
        "missing",
        "cells that should have contributed and did not; null if none",
    )
}
