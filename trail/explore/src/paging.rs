//! The rows of a table that a page asks for, of one cell or of several, one below the other. Only the cells and the rows
//! that the page needs are read: conditions on columns are tried batch by batch, whatever the number of rows.

use std::ops::Range;

use artifacts::{ColumnBatch, ColumnReader, Digest, Scalar, Store, Table, TableError};
use contract::column_of_axis;
use pipeline::lock::LockClass;

use crate::catalogue::union;
use crate::error::{Failure, Fault};
use crate::reply::Reply;
use crate::study::MAX_VALUES;
use crate::table::{MAX_ROWS, Part, Places, View};

/// The rows of one cell.
pub(crate) struct Piece {
    /// The cell's coordinates, as text.
    pub(crate) cell: String,
    /// The same with their axes, which become columns; empty if the cell is the only one that was asked for.
    pub(crate) at: Vec<(String, Scalar)>,
    pub(crate) digest: Digest,
    pub(crate) rows: usize,
}

/// A table over cells.
pub(crate) struct Stack {
    /// Whose table it is, in words.
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) class: LockClass,
    pub(crate) pieces: Vec<Piece>,
}

/// The number of rows before a page and in all, if the wanted rows are those of the page.
type Page = Option<(usize, usize)>;

/// The wanted rows of a piece, counted within it.
enum Wanted {
    Range(Range<usize>),
    Each(Vec<usize>),
}

impl Wanted {
    fn len(&self) -> usize {
        match self {
            Self::Range(rows) => rows.len(),
            Self::Each(rows) => rows.len(),
        }
    }

    fn rows(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Range(rows) => Box::new(rows.clone()),
            Self::Each(rows) => Box::new(rows.iter().copied()),
        }
    }
}

impl Stack {
    /// Answers with the rows that a view selects.
    pub(crate) fn reply(
        &self,
        view: &View,
        notes: &[String],
        store: &Store,
    ) -> Result<Reply, Failure> {
        let (wanted, page) = self.wanted(view, store)?;
        let held: usize = wanted.iter().map(Wanted::len).sum();
        if let Some(first) = self.pieces.first()
            && (page.is_none() || held > MAX_ROWS)
        {
            let (sample, _) = Table::read_rows(store, &first.digest, 0..0)?;
            few_enough(&self.owner, &self.name, held, sample.names().len())?;
        }
        let (mut read, mut places, mut cells, mut before) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (i, (piece, wanted)) in self.pieces.iter().zip(&wanted).enumerate() {
            cells.push((piece.cell.clone(), before));
            places.extend(wanted.rows().map(|row| before + row));
            before += piece.rows;
            // A page without rows still has the columns of the first cell.
            if wanted.len() > 0 || (held == 0 && i == 0) {
                let table = match wanted {
                    Wanted::Range(rows) => Table::read_rows(store, &piece.digest, rows.clone())?.0,
                    Wanted::Each(rows) => Table::read_chosen(store, &piece.digest, rows)?,
                };
                read.push((piece.at.clone(), table));
            }
        }
        let table = match read.as_slice() {
            // It keeps the notes of its operator.
            [(at, _)] if at.is_empty() => read.remove(0).1,
            _ => union(&read, self.class)?,
        };
        let is_one = matches!(self.pieces.as_slice(), [only] if only.at.is_empty());
        let part = Part {
            places: Places::Each(places),
            page,
            cells: if is_one { Vec::new() } else { cells },
        };
        view.reply(&self.name, &table, &part, notes)
    }

    /// Returns the wanted rows of each piece.
    fn wanted(&self, view: &View, store: &Store) -> Result<(Vec<Wanted>, Page), Failure> {
        let all = self.pieces.iter().map(|piece| piece.rows).sum();
        if let Some((from, to)) = view.span(all) {
            let mut before = 0;
            let own = |piece: &Piece| {
                let start = before;
                before += piece.rows;
                let clipped = |row: usize| row.saturating_sub(start).min(piece.rows);
                Wanted::Range(clipped(from)..clipped(to))
            };
            return Ok((self.pieces.iter().map(own).collect(), Some((from, all))));
        }
        if view.equal().is_empty() {
            let whole = |piece: &Piece| Wanted::Range(0..piece.rows);
            return Ok((self.pieces.iter().map(whole).collect(), None));
        }
        // Rows before the page and after it are counted, and not kept.
        let keeps = match view.is_in_order() {
            true => view.most(),
            false => 0..usize::MAX,
        };
        let (mut count, mut wanted) = (0, Vec::new());
        for rows in self.meeting(view.equal(), &keeps, &mut count, store)? {
            wanted.push(Wanted::Each(rows));
        }
        let page = view.is_in_order().then(|| (view.bounds(count).0, count));
        Ok((wanted, page))
    }

    /// Returns the rows of each piece that meet all conditions and whose number among these is in `keeps`. Adds the number of
    /// all rows that meet them to `count`.
    fn meeting(
        &self,
        conditions: &[(String, String)],
        keeps: &Range<usize>,
        count: &mut usize,
        store: &Store,
    ) -> Result<Vec<Vec<usize>>, Failure> {
        let Some(sample) = self.pieces.first() else {
            return Ok(Vec::new());
        };
        let (sample, _) = Table::read_rows(store, &sample.digest, 0..0)?;
        let mut own = sample.names();
        let mut axes: Vec<String> = Vec::new();
        for (axis, _) in self.pieces.iter().flat_map(|piece| &piece.at) {
            // The column of an analysis that has the name of an axis is that axis.
            let is_own = self.class == LockClass::Pure && own.contains(axis);
            if !is_own && !axes.contains(axis) {
                axes.push(axis.clone());
            }
        }
        let named: Vec<String> = axes
            .iter()
            .map(|axis| column_of_axis(axis, &axes, &own))
            .collect();
        let mut all = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let (mut rest, mut is_possible) = (Vec::new(), true);
            for (column, value) in conditions {
                match named.iter().position(|name| name == column) {
                    Some(place) => {
                        let label = piece.at.iter().find(|(axis, _)| *axis == axes[place]);
                        let label = label.map(|(_, label)| label.to_string());
                        is_possible &= label.unwrap_or_default() == *value;
                    }
                    None => rest.push((column.as_str(), value.as_str())),
                }
            }
            let mut rows = Vec::new();
            if is_possible {
                let mut hear = |row: usize| {
                    if keeps.contains(count) {
                        rows.push(row);
                    }
                    *count += 1;
                };
                own.extend(equal_rows(&piece.digest, &rest, store, &mut hear)?);
            }
            all.push(rows);
        }
        for (column, _) in conditions {
            if !named.contains(column) && !own.contains(column) {
                own.splice(0..0, named);
                return Err(TableError::no_column(column, &own).into());
            }
        }
        Ok(all)
    }
}

/// Calls `hear` with the rows of a table that have these values, and returns which of the columns the table has. Holds one
/// batch of these columns at a time.
fn equal_rows(
    digest: &Digest,
    conditions: &[(&str, &str)],
    store: &Store,
    hear: &mut impl FnMut(usize),
) -> Result<Vec<String>, TableError> {
    let columns: Vec<&str> = conditions.iter().map(|(column, _)| *column).collect();
    let reader = ColumnReader::open(store, digest, &columns)?;
    let own = reader.names().iter();
    let own = own.filter(|name| columns.contains(&name.as_str())).cloned();
    let own = own.collect();
    let mut first = 0;
    for batch in reader {
        let batch = batch?;
        let mut keep = vec![true; batch.rows()];
        for (column, value) in conditions {
            let equal = equal(&batch, column, value)?;
            keep.iter_mut().zip(equal).for_each(|(k, is)| *k &= is);
        }
        let rows = keep.iter().enumerate().filter(|(_, keep)| **keep);
        rows.for_each(|(row, _)| hear(first + row));
        first += batch.rows();
    }
    Ok(own)
}

/// Returns whether each row of a batch has this value, as text; null is empty.
fn equal(batch: &ColumnBatch, column: &str, value: &str) -> Result<Vec<bool>, TableError> {
    let rows = 0..batch.rows();
    if let Ok(ints) = batch.ints(column) {
        let number = value.parse::<i64>().ok();
        // `01` is the text of no number.
        let number = number.filter(|number| number.to_string() == value);
        let is_possible = number.is_some() || value.is_empty();
        return Ok(rows
            .map(|row| is_possible && ints.get(row) == number)
            .collect());
    }
    if let Ok(flags) = batch.booleans(column) {
        let text = |row| {
            flags
                .get(row)
                .map_or("", |is| if is { "true" } else { "false" })
        };
        return Ok(rows.map(|row| text(row) == value).collect());
    }
    if let Ok(floats) = batch.floats(column) {
        let text = |row| floats.get(row).map_or(String::new(), |f| f.to_string());
        return Ok(rows.map(|row| text(row) == value).collect());
    }
    batch.of_each_text(column, |text| text.unwrap_or_default() == value)
}

/// Refuses to hold a table with more values than one question may use memory for.
fn few_enough(owner: &str, name: &str, rows: usize, columns: usize) -> Result<(), Failure> {
    if rows.saturating_mul(columns) <= MAX_VALUES {
        return Ok(());
    }
    Err(Failure::new(
        Fault::TooMuch,
        format!("`{name}` of {owner} has {rows} rows of {columns} columns: too many to hold"),
        "ask for rows by their numbers or by the value of a column, choose one cell, or use `benchtrail sql`",
    ))
}

#[cfg(test)]
mod tests {
    use artifacts::Column;
    use serde_json::{Value, json};

    use super::*;
    use crate::request::Ask;

    /// Two cells of 30,000 and 10 rows, which belong to requests of 10 rows each. Column `x` counts the rows of a cell.
    fn stack(store: &Store) -> Stack {
        let piece = |side: &str, rows: i64| {
            let table = Table::new(vec![
                Column::int("request_id", (0..rows).map(|row| Some(row / 10))),
                Column::text(
                    "word",
                    (0..rows).map(|row| (row % 2 == 0).then_some("even")),
                ),
                Column::float("x", (0..rows).map(|row| Some(row as f64))),
                Column::boolean("flag", (0..rows).map(|row| Some(row % 3 == 0))),
            ]);
            Piece {
                cell: format!("side={side}"),
                at: vec![("side".to_owned(), Scalar::Text(side.to_owned()))],
                digest: store.put(&table.unwrap().to_parquet().unwrap()).unwrap(),
                rows: usize::try_from(rows).unwrap(),
            }
        };
        Stack {
            owner: "2 cells".to_owned(),
            name: "load.chunks".to_owned(),
            class: LockClass::Measurement,
            pieces: vec![piece("a", 30_000), piece("b", 10)],
        }
    }

    fn answer(stack: &Stack, query: &str, store: &Store) -> Result<Value, Failure> {
        let view = View::of(&Ask::parse(&format!("/t?{query}")).unwrap()).unwrap();
        let reply = stack.reply(&view, &[], store)?;
        Ok(serde_json::from_slice(&reply.body).unwrap())
    }

    #[test]
    fn rows_with_a_value_are_read_without_the_others_and_name_their_cell() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let stack = stack(&store);
        let page = answer(&stack, "eq.request_id=0&from=8&to=12", &store).unwrap();
        assert_eq!(page["rows_in_all"], 20);
        assert_eq!(page["from"], 8);
        assert_eq!(page["rows"], json!([8, 9, 30_000, 30_001]));
        assert_eq!(
            (&page["cell"], &page["cell_row"]),
            (
                &json!(["side=a", "side=a", "side=b", "side=b"]),
                &json!([8, 9, 0, 1])
            )
        );
        let one = answer(
            &stack,
            "eq.request_id=2999&eq.word=even&eq.flag=true",
            &store,
        )
        .unwrap();
        assert_eq!(one["rows"], json!([29_994]));
        // A label of an axis is a condition on the cells.
        let other = answer(&stack, "eq.side=b&eq.x=7", &store).unwrap();
        assert_eq!(other["rows"], json!([30_007]));
        assert_eq!(other["columns"][0]["values"], json!(["b"]));
        // Null is empty, and the text of a number is as it is shown.
        let odd = answer(&stack, "eq.word=&eq.side=b&sort=x&order=desc&to=2", &store).unwrap();
        assert_eq!(
            (&odd["rows"], &odd["rows_in_all"]),
            (&json!([30_009, 30_007]), &json!(5))
        );
        let none = answer(&stack, "eq.request_id=00", &store).unwrap();
        assert_eq!(
            (&none["rows"], none["columns"].as_array().unwrap().len()),
            (&json!([]), 5)
        );
        let wrong = answer(&stack, "eq.nothing=1", &store).unwrap_err();
        assert_eq!(wrong.fault, Fault::Question);
        assert!(wrong.message.contains("`nothing`"), "{wrong:?}");
    }

    #[test]
    fn a_limit_holds_for_the_rows_that_meet_the_conditions_and_not_for_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut stack = stack(&store);
        // As many cells as make 20 million values, all with the same rows.
        for i in 0..170 {
            let Piece { digest, rows, .. } = stack.pieces[0];
            let at = vec![("side".to_owned(), Scalar::Text(format!("c{i}")))];
            let cell = format!("side=c{i}");
            stack.pieces.push(Piece {
                cell,
                at,
                digest,
                rows,
            });
        }
        let sorted = answer(&stack, "sort=x&to=1", &store).unwrap_err();
        assert_eq!(sorted.fault, Fault::TooMuch, "{sorted:?}");
        let chosen = answer(&stack, "eq.request_id=7&eq.side=c139&sort=x&to=1", &store).unwrap();
        assert_eq!(
            (&chosen["rows_in_all"], &chosen["cell_row"]),
            (&json!(10), &json!([70]))
        );
    }
}
