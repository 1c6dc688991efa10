//! Columns read in place, for tables with many rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};

use crate::{Table, TableError};

/// A column in place; reading a value allocates nothing. A column that the table lacks is null throughout.
#[derive(Clone, Copy, Debug)]
pub struct InPlace<'a, A>(Option<&'a A>);

impl<'a, A: Array> InPlace<'a, A> {
    pub(crate) fn array(&self) -> Option<&'a A> {
        self.0
    }

    #[inline]
    fn at(&self, row: usize) -> Option<&A> {
        self.0
            .filter(|values| values.nulls().is_none_or(|nulls| nulls.is_valid(row)))
    }
}

impl InPlace<'_, Int64Array> {
    /// Returns the integer in a row; `None` if it is null.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.at(row).map(|values| values.values()[row])
    }
}

impl InPlace<'_, Float64Array> {
    /// Returns the double in a row; `None` if it is null.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline]
    pub fn get(&self, row: usize) -> Option<f64> {
        self.at(row).map(|values| values.values()[row])
    }
}

impl InPlace<'_, BooleanArray> {
    /// Returns the Boolean value in a row; `None` if it is null.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline]
    pub fn get(&self, row: usize) -> Option<bool> {
        self.at(row).map(|values| values.value(row))
    }
}

impl<'a> InPlace<'a, StringArray> {
    /// Returns the text in a row; `None` if it is null.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a str> {
        self.0
            .filter(|values| values.is_valid(row))
            .map(|values| values.value(row))
    }
}

impl Table {
    /// Returns a column of integers in place; null throughout if no column has this name.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn ints(&self, column: &str) -> Result<InPlace<'_, Int64Array>, TableError> {
        self.in_place(column, "integers", |a| a.as_primitive_opt::<Int64Type>())
    }

    /// Returns a column of doubles in place; null throughout if no column has this name.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn floats(&self, column: &str) -> Result<InPlace<'_, Float64Array>, TableError> {
        self.in_place(column, "doubles", |a| a.as_primitive_opt::<Float64Type>())
    }

    /// Returns a column of Boolean values in place; null throughout if no column has this name.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn booleans(&self, column: &str) -> Result<InPlace<'_, BooleanArray>, TableError> {
        self.in_place(column, "truth values", |a| a.as_boolean_opt())
    }

    /// Returns a column of text in place; null throughout if no column has this name.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn texts(&self, column: &str) -> Result<InPlace<'_, StringArray>, TableError> {
        self.in_place(column, "text", |a| a.as_string_opt::<i32>())
    }

    pub(crate) fn in_place<'a, A>(
        &'a self,
        column: &str,
        wanted: &str,
        cast: impl FnOnce(&'a ArrayRef) -> Option<&'a A>,
    ) -> Result<InPlace<'a, A>, TableError> {
        let Some(array) = self.batch().column_by_name(column) else {
            return Ok(InPlace(None));
        };
        let typed = cast(array).ok_or_else(|| {
            TableError::new(format!(
                "column `{column}` holds {}, not {wanted}",
                array.data_type()
            ))
        })?;
        Ok(InPlace(Some(typed)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Column, Table};

    fn sample() -> Table {
        let columns = vec![
            Column::int("n", [Some(3), None]).unit("tok"),
            Column::float("x", [None, Some(0.5)]),
            Column::text("word", [Some("ok"), None]),
            Column::boolean("flag", [Some(true), None]),
        ];
        Table::new(columns).unwrap()
    }

    #[test]
    fn values_in_place_are_those_of_the_column_and_a_column_not_there_is_null() {
        let table = sample();
        assert_eq!(
            [
                table.ints("n").unwrap().get(0),
                table.ints("n").unwrap().get(1)
            ],
            [Some(3), None]
        );
        assert_eq!(table.floats("x").unwrap().get(1), Some(0.5));
        assert_eq!(table.texts("word").unwrap().get(0), Some("ok"));
        assert_eq!(table.booleans("flag").unwrap().get(1), None);
        assert_eq!(table.ints("nothing").unwrap().get(1), None);
        let error = table.ints("word").unwrap_err().to_string();
        assert_eq!(error, "column `word` holds Utf8, not integers");
    }
}
