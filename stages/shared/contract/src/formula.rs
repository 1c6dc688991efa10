//! A formula over a few numbers of a request. It is written once, and computes over a request in memory and over
//! columns of many requests.

use std::fmt;
use std::ops::Range;

use artifacts::{ColumnBatch, TableError};

use crate::metrics::Timing;

/// A whole number of a request.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    /// Its column in `requests`.
    pub(crate) column: &'static str,
    /// Its value for a request with its chunks.
    pub(crate) read: fn(&Timing<'_>) -> Option<i64>,
}

/// The way a metric is computed.
pub(crate) trait Formula: Sync {
    /// Returns the numbers that enter the formula.
    fn numbers(&self) -> &[Number];

    /// Returns the value of a request; `None` where it is undefined.
    fn of(&self, timing: &Timing<'_>) -> Option<f64>;

    /// Appends the defined values of some rows of `requests` to `values`.
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    fn of_rows(
        &self,
        requests: &ColumnBatch,
        rows: &[Range<usize>],
        values: &mut Vec<f64>,
    ) -> Result<(), TableError>;

    /// Returns the value of each row of requests without chunks; `None` where it is undefined.
    fn of_each(&self, requests: &ColumnBatch) -> Result<Vec<Option<f64>>, TableError>;
}

impl fmt::Debug for dyn Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.numbers().iter().map(|number| number.column))
            .finish()
    }
}

/// Returns the formula that applies `compute` to the numbers, in their order.
pub(crate) const fn by<const N: usize, F>(numbers: [Number; N], compute: F) -> By<N, F>
where
    F: Fn([Option<i64>; N]) -> Option<f64> + Sync,
{
    By { numbers, compute }
}

/// A formula of `N` numbers. Each formula has its own type, so that the loop over rows inlines its arithmetic.
pub(crate) struct By<const N: usize, F> {
    numbers: [Number; N],
    compute: F,
}

impl<const N: usize, F> Formula for By<N, F>
where
    F: Fn([Option<i64>; N]) -> Option<f64> + Sync,
{
    fn numbers(&self) -> &[Number] {
        &self.numbers
    }

    fn of(&self, timing: &Timing<'_>) -> Option<f64> {
        (self.compute)(self.numbers.map(|number| (number.read)(timing)))
    }

    fn of_rows(
        &self,
        requests: &ColumnBatch,
        rows: &[Range<usize>],
        values: &mut Vec<f64>,
    ) -> Result<(), TableError> {
        let columns = self
            .numbers
            .iter()
            .map(|number| requests.ints(number.column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let columns: [_; N] = columns.try_into().expect("a column for each number");
        let mut numbers = [None; N];
        for row in rows.iter().cloned().flatten() {
            for (number, column) in numbers.iter_mut().zip(&columns) {
                *number = column.get(row);
            }
            values.extend((self.compute)(numbers));
        }
        Ok(())
    }

    fn of_each(&self, requests: &ColumnBatch) -> Result<Vec<Option<f64>>, TableError> {
        let columns = self.numbers.iter();
        let columns = columns.map(|number| requests.ints(number.column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let columns: [_; N] = columns.try_into().expect("a column for each number");
        let value = |row| (self.compute)(std::array::from_fn(|i| columns[i].get(row)));
        Ok((0..requests.rows()).map(value).collect())
    }
}
