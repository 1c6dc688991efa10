//! A derived table under construction: typed columns, keys, and the source of each row.

mod spec;

use std::ops::Range;

use artifacts::{Column, Scalar, Table};
use contract::{INTERVAL_LEVEL, LineageRow, LineageSource, lineage_table};
use pipeline::stage::MissingCell;
use pipeline::suggest::remedy;
use pipeline::{CellStatus, Coordinates, Failure};

pub(crate) use self::spec::{Bounds, Spec, Type};

/// The meaning of one row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// One request.
    Row,
    /// One load cell.
    Cell,
    /// Several cells, pooled over named axes.
    Marginal,
    /// All cells.
    Pooled,
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Cell => "cell",
            Self::Marginal => "marginal",
            Self::Pooled => "pooled",
        }
    }
}

/// Consecutive rows of a source, as a half-open range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceRows {
    pub(crate) source: LineageSource,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SourceRows {
    pub(crate) fn of(source: &LineageSource, rows: &Range<usize>) -> Self {
        Self {
            source: source.clone(),
            start: rows.start,
            end: rows.end,
        }
    }
}

/// Returns the rows of spans in order, without duplicates.
pub(crate) fn rows_of(spans: &[SourceRows]) -> Vec<usize> {
    let mut rows: Vec<usize> = spans.iter().flat_map(|span| span.start..span.end).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Returns the rows of one source in the smallest number of spans.
pub(crate) fn spans(
    source: impl Into<LineageSource>,
    rows: impl IntoIterator<Item = usize>,
) -> Vec<SourceRows> {
    let source = source.into();
    let mut rows: Vec<usize> = rows.into_iter().collect();
    rows.sort_unstable();
    rows.dedup();
    let mut spans: Vec<SourceRows> = Vec::new();
    for row in rows {
        match spans.last_mut() {
            Some(span) if span.end == row => span.end += 1,
            _ => spans.push(SourceRows::of(&source, &(row..row + 1))),
        }
    }
    spans
}

/// A cell that should have contributed but did not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Missing {
    pub(crate) at: Vec<(String, Scalar)>,
    pub(crate) why: String,
    pub(crate) absence: Absence,
}

/// The reason why a cell is missing from a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It did not end as ok.
    Ended(CellStatus),
    /// A gate excluded it.
    Barred,
    /// It has figures but no request rows.
    Aggregate,
    /// It has no partner for comparison.
    Unpaired,
}

impl Missing {
    fn cell(&self) -> MissingCell {
        MissingCell {
            coordinates: Coordinates(self.at.clone()),
            reason: self.why.clone(),
        }
    }

    /// Whether the cell was to give values and gave none. One that the experiment excludes, or that has figures without
    /// request rows, is not lost.
    pub(crate) fn is_lost(&self) -> bool {
        match self.absence {
            Absence::Ended(status) => status != CellStatus::Excluded,
            Absence::Barred => true,
            Absence::Aggregate | Absence::Unpaired => false,
        }
    }

    pub(crate) fn get(&self, axis: &str) -> Option<&Scalar> {
        self.at
            .iter()
            .find(|(name, _)| name == axis)
            .map(|(_, value)| value)
    }
}

/// One row before it is laid out in columns.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Vec<Scalar>,
    values: Vec<Scalar>,
    pub(crate) lineage: Vec<SourceRows>,
}

impl Row {
    /// Makes a row; [`Columns::row`](crate::columns::Columns::row) puts the values in the order of the columns.
    pub(crate) fn new(key: Vec<Scalar>, values: Vec<Scalar>, lineage: Vec<SourceRows>) -> Self {
        Self {
            key,
            values,
            lineage,
        }
    }
}

/// A derived table.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) level: Level,
    /// The columns that identify a row, first in the table.
    pub(crate) keys: Vec<String>,
    pub(crate) specs: Vec<Spec>,
    pub(crate) rows: Vec<Row>,
    pub(crate) missing: Vec<Missing>,
}

impl Frame {
    /// Renames the columns of a results table whose names clash with an axis. An axis `model` stays, and the column of
    /// that name becomes `fit_model`. This includes keys that the operator adds, such as `metric`. A table of cells
    /// keeps its columns, because other tables refer to them by name.
    pub(crate) fn keep_axes(&mut self, operator: &str) {
        let own = |name: &str, taken: &dyn Fn(&str) -> bool| {
            let prefix = operator.replace('-', "_");
            let mut name = format!("{prefix}_{name}");
            while taken(&name) {
                name = format!("{prefix}_{name}");
            }
            name
        };
        // The axes come first, then the operator's keys.
        for at in 1..self.keys.len() {
            let name = self.keys[at].clone();
            if self.keys[..at].contains(&name) {
                let taken = |name: &str| {
                    self.keys.iter().any(|k| k == name) || self.specs.iter().any(|s| s.name == name)
                };
                self.keys[at] = own(&name, &taken);
            }
        }
        if self.level == Level::Cell {
            return;
        }
        for at in 0..self.specs.len() {
            let name = self.specs[at].name.clone();
            if self.keys.contains(&name) {
                let taken = |name: &str| {
                    self.keys.iter().any(|k| k == name) || self.specs.iter().any(|s| s.name == name)
                };
                self.specs[at].name = own(&name, &taken);
            }
        }
    }

    /// Sorts rows by key and checks that no two share one.
    pub(crate) fn settle(mut self) -> Result<Self, Failure> {
        self.rows
            .sort_by(|a, b| contract::compare_all(&a.key, &b.key));
        if let Some(pair) = self.rows.windows(2).find(|w| w[0].key == w[1].key) {
            let key = self.keys.iter().cloned().zip(pair[0].key.iter().cloned());
            let key = Coordinates(key.collect());
            return Err(Failure::failed(format!("two rows have the key {key}")));
        }
        Ok(self)
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.specs.iter().position(|s| s.name == column)
    }

    pub(crate) fn spec(&self, column: &str) -> Option<&Spec> {
        self.position(column).map(|i| &self.specs[i])
    }

    /// Returns the value of a row.
    pub(crate) fn value(&self, row: usize, column: &str) -> Option<&Scalar> {
        self.rows[row].values.get(self.position(column)?)
    }

    /// Returns a number of a row; `None` for null or a value that is not a number.
    pub(crate) fn number(&self, row: usize, column: &str) -> Option<f64> {
        self.value(row, column)?.as_f64().filter(|v| v.is_finite())
    }

    /// Replaces a value of a row.
    pub(crate) fn put(&mut self, row: usize, column: &str, value: Scalar) {
        if let Some(at) = self.position(column) {
            self.rows[row].values[at] = value;
        }
    }

    /// Multiplies the numbers of some columns in each row by a factor that follows from the row's key. A share of
    /// requests stays at most 1.
    pub(crate) fn multiply(&mut self, columns: &[String], by: impl Fn(&[Scalar]) -> f64) {
        let at = columns.iter().filter_map(|c| Some((self.position(c)?, c)));
        let at: Vec<(usize, bool)> = at.map(|(at, c)| (at, c.ends_with("_rate"))).collect();
        for row in &mut self.rows {
            let by = by(&row.key);
            for (position, share) in &at {
                let value = &mut row.values[*position];
                let most = if *share { 1.0 } else { f64::INFINITY };
                *value = number(value.as_f64().map(|v| (v * by).min(most)));
            }
        }
    }

    /// Returns the declaration of a column that planning found.
    ///
    /// # Errors
    /// If the column does not exist.
    pub(crate) fn declared(&self, column: &str) -> Result<Spec, Failure> {
        self.spec(column)
            .cloned()
            .ok_or_else(|| Failure::failed(format!("the column `{column}` is gone")))
    }

    /// Returns the declarations of columns that planning found.
    ///
    /// # Errors
    /// If one does not exist.
    pub(crate) fn all_declared(&self, columns: &[String]) -> Result<Vec<Spec>, Failure> {
        columns.iter().map(|column| self.declared(column)).collect()
    }

    /// Returns the values of the keys at `positions` in a row.
    pub(crate) fn key_at(&self, row: usize, positions: &[usize]) -> Vec<Scalar> {
        let key = &self.rows[row].key;
        positions.iter().map(|p| key[*p].clone()).collect()
    }

    /// Returns the keys that are not among `names`, in order.
    pub(crate) fn keys_without(&self, names: &[String]) -> Vec<String> {
        let kept = self.keys.iter().filter(|key| !names.contains(key));
        kept.cloned().collect()
    }

    /// Returns the positions of key columns.
    ///
    /// # Errors
    /// If one is not a key of this table; the error names the nearest.
    pub(crate) fn key_positions(
        &self,
        names: &[String],
        table: &str,
    ) -> Result<Vec<usize>, Failure> {
        names
            .iter()
            .map(|name| self.key_position(name, table))
            .collect()
    }

    /// Returns the position of a key column.
    ///
    /// # Errors
    /// As [`Frame::key_positions`].
    pub(crate) fn key_position(&self, name: &str, table: &str) -> Result<usize, Failure> {
        self.keys.iter().position(|k| k == name).ok_or_else(|| {
            Failure::failed(format!(
                "`{name}` is not a key column of the table `{table}`"
            ))
            .hint(remedy(name, "key columns", &self.keys))
        })
    }

    /// Returns the rows grouped by the keys at `positions`, with the groups in order of their values.
    pub(crate) fn groups(&self, positions: &[usize]) -> Vec<(Vec<Scalar>, Vec<usize>)> {
        let mut order: Vec<(Vec<Scalar>, usize)> = (0..self.rows.len())
            .map(|row| (self.key_at(row, positions), row))
            .collect();
        order.sort_by(|a, b| contract::compare_all(&a.0, &b.0).then(a.1.cmp(&b.1)));
        let mut groups: Vec<(Vec<Scalar>, Vec<usize>)> = Vec::new();
        for (key, row) in order {
            match groups.last_mut() {
                Some((last, members)) if contract::compare_all(last, &key).is_eq() => {
                    members.push(row);
                }
                _ => groups.push((key, vec![row])),
            }
        }
        groups
    }

    /// Lists the missing cells at the given values of the given keys, with their remaining coordinates; `Null` if none
    /// is missing.
    pub(crate) fn missing_at(&self, names: &[String], values: &[Scalar]) -> Scalar {
        missing_text(self.missing_here(names, values), names)
    }

    /// Returns the missing cells at the given values of the given keys.
    pub(crate) fn missing_here<'a>(
        &'a self,
        names: &'a [String],
        values: &'a [Scalar],
    ) -> impl Iterator<Item = &'a Missing> {
        self.missing.iter().filter(move |m| {
            let agrees = |(name, value): (&String, &Scalar)| m.get(name).is_none_or(|v| v == value);
            names.iter().zip(values).all(agrees)
        })
    }

    /// Returns the table and its lineage.
    ///
    /// # Errors
    /// If an axis and a column of the operator have the same name.
    pub(crate) fn tables(
        &self,
        operator: &str,
        parameters: &str,
    ) -> Result<(Table, Table), Failure> {
        if let Some(twice) = self.keys.iter().find(|k| self.position(k).is_some()) {
            return Err(Failure::failed(format!(
                "`{twice}` is both an axis and a column of `{operator}`"
            ))
            .hint("give the axis another name"));
        }
        let wrong = |e: artifacts::TableError| Failure::failed(e.to_string());
        let mut columns = Vec::new();
        for (i, name) in self.keys.iter().enumerate() {
            let values: Vec<Scalar> = self.rows.iter().map(|r| r.key[i].clone()).collect();
            columns.push(
                Column::from_scalars(name, &values)
                    .map_err(wrong)?
                    .describe("key"),
            );
        }
        for (i, spec) in self.specs.iter().enumerate() {
            columns.push(spec.column(self.rows.iter().map(|r| r.values[i].clone())));
        }
        let missing: Vec<MissingCell> = self.missing.iter().map(Missing::cell).collect();
        let missing =
            serde_json::to_string(&missing).expect("coordinates and texts are plain data");
        let keys = self.keys.join(",");
        let mut notes = vec![
            ("operator", operator),
            ("parameters", parameters),
            ("keys", &keys),
            ("level", self.level.word()),
            ("missing", &missing),
        ];
        let levels = self.specs.iter().filter_map(|spec| spec.interval_level);
        let level = levels.reduce(f64::min).map(|level| level.to_string());
        notes.extend(level.as_deref().map(|level| (INTERVAL_LEVEL, level)));
        let table = Table::with_metadata(columns, &notes).map_err(wrong)?;
        let lineage = self.rows.iter().enumerate().flat_map(|(row, r)| {
            r.lineage.iter().map(move |span| LineageRow {
                row,
                source: &span.source,
                start: span.start,
                end: span.end,
            })
        });
        let lineage = lineage_table(lineage);
        Ok((table, lineage.map_err(wrong)?))
    }
}

/// Lists the missing cells without the coordinates of the hidden axes; `Null` if none is missing.
pub(crate) fn missing_text<'a>(
    missing: impl Iterator<Item = &'a Missing>,
    hidden: &[String],
) -> Scalar {
    let text: Vec<String> = missing
        .map(|m| {
            let shown = m.cell().coordinates;
            let shown = shown.without(|axis| hidden.iter().any(|h| h == axis));
            format!("{shown} ({})", m.why)
        })
        .collect();
    if text.is_empty() {
        Scalar::Null
    } else {
        Scalar::Text(text.join("; "))
    }
}

/// Converts a nullable number to a scalar.
pub(crate) fn number(value: Option<f64>) -> Scalar {
    value
        .filter(|v| v.is_finite())
        .map_or(Scalar::Null, Scalar::Float)
}

/// Converts a count to a scalar.
pub(crate) fn count(value: usize) -> Scalar {
    i64::try_from(value).map_or(Scalar::Null, Scalar::Int)
}

/// Converts text to a scalar.
pub(crate) fn text(value: impl Into<String>) -> Scalar {
    Scalar::Text(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_next_to_each_other_share_a_span() {
        let span = |start, end| SourceRows {
            source: LineageSource::from("s"),
            start,
            end,
        };
        assert_eq!(spans("s", [5, 2, 3, 4, 9, 3]), [span(2, 6), span(9, 10)]);
        assert_eq!(spans("s", []), []);
    }
}
