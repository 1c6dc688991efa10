//! One row of a table as plain values. A table of one row takes about 400 bytes of memory for each column, and most of
//! them are the arrays around the value; a row takes about 30.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, SchemaRef};

use crate::{Scalar, Table, TableError};

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The schema of the table, which its rows share.
    schema: SchemaRef,
    /// A value for each column.
    values: Vec<Scalar>,
}

impl TableRow {
    /// Takes a row of a table; `None` if the table is shorter.
    ///
    /// # Errors
    /// If a column has a type that tables of ours do not have.
    pub fn of(table: &Table, row: usize) -> Result<Option<Self>, TableError> {
        if row >= table.rows() {
            return Ok(None);
        }
        let schema = table.batch().schema();
        let names = schema.fields().iter().map(|field| field.name());
        let values = names
            .map(|name| table.value(name, row))
            .collect::<Result<_, _>>()?;
        Ok(Some(Self { schema, values }))
    }

    /// Returns the value of a column; null if the table lacks it.
    pub fn value(&self, column: &str) -> &Scalar {
        let place = self.schema.index_of(column).ok();
        place.map_or(&Scalar::Null, |place| &self.values[place])
    }

    /// Returns an integer; `None` if the value is null, of another type, or missing.
    pub fn int(&self, column: &str) -> Option<i64> {
        match self.value(column) {
            Scalar::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a text; `None` if the value is null, of another type, or missing.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.value(column) {
            Scalar::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an integer or a double as a number; `None` otherwise.
    pub fn number(&self, column: &str) -> Option<f64> {
        match self.value(column) {
            Scalar::Int(value) => Some(*value as f64),
            Scalar::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a table of this row alone, with the units and descriptions of its table.
    ///
    /// # Errors
    /// If a column without a value may not be null.
    pub fn table(&self) -> Result<Table, TableError> {
        let columns = self.schema.fields().iter().zip(&self.values);
        let arrays = columns
            .map(|(field, value)| array(field.data_type(), value))
            .collect();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        batch.map(Table::of).map_err(|e| TableError::caused_by(&e))
    }
}

/// Returns an array of one value.
fn array(kind: &DataType, value: &Scalar) -> ArrayRef {
    match (kind, value) {
        (_, Scalar::Int(value)) => Arc::new(Int64Array::from(vec![*value])),
        (_, Scalar::Float(value)) => Arc::new(Float64Array::from(vec![*value])),
        (_, Scalar::Bool(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (_, Scalar::Text(value)) => Arc::new(StringArray::from(vec![value.as_str()])),
        (kind, Scalar::Null) => arrow_array::new_null_array(kind, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    fn table() -> Table {
        Table::new(vec![
            Column::int("requests", [Some(4), None]).unit("1"),
            Column::float("busy", [None, Some(0.25)]).describe("the share of time"),
            Column::text("source", [Some("measured"), None]),
            Column::boolean("stopped", [Some(true), None]),
        ])
        .unwrap()
    }

    #[test]
    fn a_row_has_the_values_of_its_table_and_makes_a_table_of_them_with_units() {
        let row = TableRow::of(&table(), 0).unwrap().unwrap();
        assert_eq!(
            (row.int("requests"), row.number("requests")),
            (Some(4), Some(4.0))
        );
        assert_eq!(
            (row.text("source"), row.number("source")),
            (Some("measured"), None)
        );
        assert_eq!(
            (row.value("stopped"), row.value("none")),
            (&Scalar::Bool(true), &Scalar::Null)
        );
        let alone = row.table().unwrap();
        assert_eq!(
            (alone.rows(), alone.unit("requests")),
            (1, Some("1".to_owned()))
        );
        assert_eq!(
            alone.description("busy").as_deref(),
            Some("the share of time")
        );
        let second = TableRow::of(&table(), 1).unwrap().unwrap();
        for column in table().names() {
            assert_eq!(second.value(&column), &table().value(&column, 1).unwrap());
            assert_eq!(
                second.table().unwrap().value(&column, 0).unwrap(),
                *second.value(&column)
            );
        }
    }

    #[test]
    fn a_table_without_rows_has_no_first_row() {
        let empty = Table::new(vec![Column::int("requests", [])]).unwrap();
        assert_eq!(TableRow::of(&empty, 0).unwrap(), None);
    }
}
