//! Answers with a table: a page of its rows as JSON, CSV, Arrow or Parquet.

use std::ops::Range;

use arrow_array::UInt64Array;
use arrow_ipc::writer::StreamWriter;
use arrow_select::take::take_record_batch;
use artifacts::{Scalar, Table, TableError};
use serde_json::{Value, json};

use crate::error::{Failure, Fault};
use crate::reply::{Freshness, Reply};
use crate::request::Ask;

/// The maximum number of rows in one JSON or CSV answer.
pub(crate) const MAX_ROWS: usize = 50_000;

/// The default number of rows in an answer.
const ROWS: usize = 1_000;

/// The largest integer up to which JavaScript numbers are exact.
const EXACT: u64 = 1 << 53;

/// The selection and order of rows and columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    from: usize,
    to: Option<usize>,
    columns: Vec<String>,
    sort: Option<String>,
    descending: bool,
    equal: Vec<(String, String)>,
    contains: Option<String>,
    format: Format,
}

/// What the rows of a table in memory are in the table that was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) places: Places,
    /// If the rows are those of the page, the number of rows before it and in all.
    pub(crate) page: Option<(usize, usize)>,
    /// The cells of a table over several, each with the number of rows before its first; otherwise empty.
    pub(crate) cells: Vec<(String, usize)>,
}

/// The places of rows in a table.
#[derive(Clone, Debug, Default)]
pub(crate) enum Places {
    /// Each row has its own place.
    #[default]
    Own,
    /// These, for the rows in their order.
    Each(Vec<usize>),
}

impl Part {
    fn place(&self, row: usize) -> usize {
        match &self.places {
            Places::Own => row,
            Places::Each(places) => places.get(row).copied().unwrap_or(row),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Json,
    Csv,
    Parquet,
    Arrow,
}

impl View {
    /// Parses the parameters `from`, `to`, `columns`, `sort`, `order`, `contains`, `format` and `eq.COLUMN`.
    pub(crate) fn of(ask: &Ask) -> Result<Self, Failure> {
        let number = |name: &str| {
            let wrong = |text| {
                Failure::question(
                    format!("`{name}={text}` is not a row"),
                    "rows count from 0, for example `from=0&to=100`",
                )
            };
            let parse = |text: &str| text.parse::<usize>().map_err(|_| wrong(text.to_owned()));
            ask.get(name).map(parse).transpose()
        };
        let format = match ask.get("format").unwrap_or("json") {
            "json" => Format::Json,
            "csv" => Format::Csv,
            "parquet" => Format::Parquet,
            "arrow" => Format::Arrow,
            other => {
                let message = format!("`{other}` is not a format");
                return Err(Failure::question(message, "json, csv, arrow or parquet"));
            }
        };
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        let equal = ask.parameters.iter().filter_map(|(name, value)| {
            let column = name.strip_prefix("eq.")?;
            Some((column.to_owned(), value.clone()))
        });
        Ok(Self {
            from: number("from")?.unwrap_or(0),
            to: number("to")?,
            columns: ask.get("columns").map(list).unwrap_or_default(),
            sort: ask.get("sort").map(str::to_owned),
            descending: ask.get("order") == Some("desc"),
            equal: equal.collect(),
            contains: ask.get("contains").map(str::to_lowercase),
            format,
        })
    }

    /// Returns the half-open range of the page's rows, if neither order nor conditions need the whole table.
    pub(crate) fn span(&self, rows: usize) -> Option<(usize, usize)> {
        let all = self.sort.is_some() || !self.equal.is_empty() || self.contains.is_some();
        (!all).then(|| self.bounds(rows))
    }

    /// Returns the values that columns must have.
    pub(crate) fn equal(&self) -> &[(String, String)] {
        &self.equal
    }

    /// Returns whether the page has rows in the order of the table, without those of a search.
    pub(crate) fn is_in_order(&self) -> bool {
        self.sort.is_none() && self.contains.is_none()
    }

    /// Returns the range that the rows of the page lie in, however many there are in all.
    pub(crate) fn most(&self) -> Range<usize> {
        let (from, to) = self.bounds(usize::MAX);
        from..to
    }

    /// Returns the first row of the page and the row after the last, out of `rows`.
    pub(crate) fn bounds(&self, rows: usize) -> (usize, usize) {
        let most = match self.format {
            Format::Parquet => usize::MAX,
            Format::Csv | Format::Json | Format::Arrow => MAX_ROWS,
        };
        let usual = match self.format {
            Format::Json => ROWS,
            Format::Csv | Format::Arrow | Format::Parquet => most,
        };
        let from = self.from.min(rows);
        let to = self.to.unwrap_or_else(|| from.saturating_add(usual));
        let to = to.min(from.saturating_add(most)).min(rows);
        (from, to.max(from))
    }

    /// Answers with the page. `name` is the table's name.
    pub(crate) fn reply(
        &self,
        name: &str,
        table: &Table,
        part: &Part,
        notes: &[String],
    ) -> Result<Reply, Failure> {
        let names = table.chosen(&self.columns)?;
        let order = self.order(table)?;
        let (rows, all, from) = match part.page {
            Some((from, all)) => (order, all, from),
            None => {
                let all = order.len();
                let (from, to) = self.bounds(all);
                (order[from..to].to_vec(), all, from)
            }
        };
        match self.format {
            Format::Json => {
                let mut value = page(&names, table, &rows)?;
                let places: Vec<usize> = rows.iter().map(|row| part.place(*row)).collect();
                value["table"] = json!(name);
                value["rows_in_all"] = json!(all);
                value["from"] = json!(from);
                value["notes"] = json!(notes);
                if !part.cells.is_empty() {
                    let cell_of = |place: &usize| {
                        let after = part.cells.partition_point(|(_, before)| before <= place);
                        &part.cells[after.saturating_sub(1)]
                    };
                    let cells = places.iter().map(cell_of).zip(&places);
                    let (cells, own): (Vec<&str>, Vec<usize>) = cells
                        .map(|((cell, before), place)| (cell.as_str(), place - before))
                        .unzip();
                    value["cell"] = json!(cells);
                    value["cell_row"] = json!(own);
                }
                value["rows"] = json!(places);
                Ok(Reply::json(&value, Freshness::Tagged))
            }
            Format::Csv => Ok(Reply::new(
                "text/csv; charset=utf-8",
                csv_of(&names, table, &rows)?,
                Freshness::Tagged,
            )),
            Format::Arrow => Ok(Reply::new(
                "application/vnd.apache.arrow.stream",
                arrow_of(&names, table, &rows)?,
                Freshness::Tagged,
            )),
            Format::Parquet => {
                let whole = rows.len() == all && self.columns.is_empty();
                let whole = whole && self.equal.is_empty() && self.contains.is_none();
                if !whole || self.sort.is_some() {
                    return Err(Failure::new(
                        Fault::Question,
                        "a Parquet file has every row and column, as they are stored",
                        "leave out from, to, columns, sort and conditions, or ask in SQL",
                    ));
                }
                Ok(Reply::new(
                    "application/vnd.apache.parquet",
                    table.to_parquet()?,
                    Freshness::Tagged,
                ))
            }
        }
    }

    /// Returns the rows that meet the conditions, in the requested order.
    fn order(&self, table: &Table) -> Result<Vec<usize>, Failure> {
        let names = table.names();
        for column in self
            .equal
            .iter()
            .map(|(column, _)| column)
            .chain(&self.sort)
        {
            if !table.has(column) {
                return Err(TableError::no_column(column, &names).into());
            }
        }
        let mut rows = Vec::new();
        for row in 0..table.rows() {
            let mut keep = true;
            for (column, wanted) in &self.equal {
                keep = keep && words(&table.value(column, row)?) == *wanted;
            }
            if let (true, Some(text)) = (keep, &self.contains) {
                keep = false;
                for name in &names {
                    keep = keep
                        || words(&table.value(name, row)?)
                            .to_lowercase()
                            .contains(text);
                }
            }
            if keep {
                rows.push(row);
            }
        }
        if let Some(column) = &self.sort {
            let mut keyed = Vec::with_capacity(rows.len());
            for row in rows {
                keyed.push((table.value(column, row)?, row));
            }
            keyed.sort_by(|(a, i), (b, j)| {
                // Null comes last in either order.
                let nulls = (*a == Scalar::Null).cmp(&(*b == Scalar::Null));
                let values = compare(a, b);
                let values = match self.descending {
                    true => values.reverse(),
                    false => values,
                };
                nulls.then(values).then(i.cmp(j))
            });
            rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        Ok(rows)
    }
}

fn compare(a: &Scalar, b: &Scalar) -> std::cmp::Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => words(a).cmp(&words(b)),
    }
}

/// Returns a value in the form used in questions; null is empty.
fn words(value: &Scalar) -> String {
    match value {
        Scalar::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns rows of a table by column: name, unit, description, type and values.
fn page(names: &[String], table: &Table, rows: &[usize]) -> Result<Value, TableError> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let values = table.values(name, rows)?;
        let values: Vec<Value> = values.iter().map(scalar).collect();
        columns.push(json!({
            "name": name,
            "unit": table.unit(name),
            "description": table.description(name),
            "values": values,
        }));
    }
    let notes = ["operator", "parameters", "level", "keys"];
    let metadata: serde_json::Map<String, Value> = notes
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), table.metadata(key)?.into())))
        .collect();
    Ok(json!({"columns": columns, "metadata": metadata}))
}

/// Returns a value as JSON. An integer that JavaScript cannot hold becomes text, and a non-finite number becomes null.
pub(crate) fn scalar(value: &Scalar) -> Value {
    match value {
        Scalar::Int(i) if i.unsigned_abs() > EXACT => i.to_string().into(),
        other => other.into(),
    }
}

/// Returns a table as CSV (RFC 4180, but with line feeds as line ends): a header, null as an empty field, empty text as
/// `""`, and numbers that read back to the last bit.
///
/// # Errors
/// If a column cannot be read.
pub fn csv(table: &Table) -> Result<String, TableError> {
    let rows: Vec<usize> = (0..table.rows()).collect();
    csv_of(&table.names(), table, &rows)
}

fn csv_of(names: &[String], table: &Table, rows: &[usize]) -> Result<String, TableError> {
    let field = |text: &str| {
        let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']);
        if plain {
            text.to_owned()
        } else {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
    };
    let mut text = names.iter().map(|n| field(n)).collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in rows {
        let mut fields = Vec::new();
        for name in names {
            fields.push(match table.value(name, *row)? {
                Scalar::Null => String::new(),
                other => field(&other.to_string()),
            });
        }
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    Ok(text)
}

/// Returns rows as an Arrow stream, with units and descriptions in the metadata of the fields.
fn arrow_of(names: &[String], table: &Table, rows: &[usize]) -> Result<Vec<u8>, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::store(format!("the rows as Arrow: {e}"));
    let schema = table.batch().schema();
    let places = names.iter().map(|name| schema.index_of(name));
    let places = places
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(&e))?;
    let part = table.batch().project(&places).map_err(|e| wrong(&e))?;
    let rows: UInt64Array = rows.iter().map(|row| *row as u64).collect();
    let part = take_record_batch(&part, &rows).map_err(|e| wrong(&e))?;
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, &part.schema()).and_then(|mut writer| {
        writer.write(&part)?;
        writer.finish()
    });
    written.map_err(|e| wrong(&e))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    fn view(query: &str) -> View {
        View::of(&Ask::parse(&format!("/t?{query}")).unwrap()).unwrap()
    }

    fn table() -> Table {
        Table::new(vec![
            Column::text("name", [Some("b"), Some("a"), None, Some("<i>a</i>")]),
            Column::float("x", [Some(2.0), Some(10.0), Some(1.0), None]).unit("ms"),
            Column::int("big", [Some(i64::MAX), Some(1), None, None]),
        ])
        .unwrap()
    }

    fn rows(query: &str) -> Value {
        let reply = view(query)
            .reply("t", &table(), &Part::default(), &[])
            .unwrap();
        serde_json::from_slice::<Value>(&reply.body).unwrap()
    }

    #[test]
    fn csv_tells_null_from_empty_text_and_quotes_what_needs_it() {
        let table = Table::new(vec![
            Column::text("status", [Some("ok"), None, Some(""), Some("a,\"b\"\nc")]),
            Column::float("x", [Some(0.1 + 0.2), None, Some(1e300), Some(2.0)]),
        ]);
        let expected = format!(
            "status,x\nok,0.30000000000000004\n,\n\"\",{}\n\"a,\"\"b\"\"\nc\",2\n",
            1e300
        );
        assert_eq!(csv(&table.unwrap()).unwrap(), expected);
    }

    #[test]
    fn numbers_sort_as_numbers_and_null_stands_last() {
        assert_eq!(rows("sort=x")["rows"], json!([2, 0, 1, 3]));
        assert_eq!(rows("sort=x&order=desc")["rows"], json!([1, 0, 2, 3]));
    }

    #[test]
    fn a_page_says_which_rows_of_how_many_it_has() {
        let page = rows("from=1&to=3");
        assert_eq!(page["rows"], json!([1, 2]));
        assert_eq!(page["rows_in_all"], 4);
        let page = rows("eq.name=a");
        assert_eq!(
            (&page["rows"], &page["rows_in_all"]),
            (&json!([1]), &json!(1))
        );
        assert_eq!(rows("contains=A")["rows"], json!([1, 3]));
        assert_eq!(rows("from=90")["rows"], json!([]));
    }

    #[test]
    fn rows_as_arrow_are_those_of_the_page_with_their_units() {
        let view = view("format=arrow&sort=x&columns=x,name&to=2");
        let reply = view.reply("t", &table(), &Part::default(), &[]).unwrap();
        let mut read = arrow_ipc::reader::StreamReader::try_new(&reply.body[..], None).unwrap();
        let batch = read.next().unwrap().unwrap();
        assert_eq!(batch.num_rows(), 2);
        assert_eq!(batch.schema().field(0).name(), "x");
        assert_eq!(batch.schema().field(0).metadata()["unit"], "ms");
        let x = batch.column(0).as_any();
        let x = x.downcast_ref::<arrow_array::Float64Array>().unwrap();
        assert_eq!(x.values().to_vec(), [1.0, 2.0]);
    }

    #[test]
    fn an_integer_that_javascript_cannot_hold_is_text() {
        let page = rows("columns=big");
        assert_eq!(
            page["columns"][0]["values"],
            json!(["9223372036854775807", 1, null, null])
        );
    }

    #[test]
    fn what_cannot_be_a_view_is_refused_with_a_reason() {
        for query in ["from=x", "format=xls", "to=-1"] {
            let ask = Ask::parse(&format!("/t?{query}")).unwrap();
            assert_eq!(View::of(&ask).unwrap_err().fault, Fault::Question);
        }
        let no_column = view("sort=y").reply("t", &table(), &Part::default(), &[]);
        assert!(no_column.unwrap_err().message.contains("`y`"));
    }
}
