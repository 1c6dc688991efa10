//! Shows a table of the store as text or JSON.

use artifacts::{Scalar, Table, TableError, counted};
use serde_json::{Map, Value, json};

use crate::columns::{Columns, wrap};
use crate::terminal;

/// The part of a table to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The first row and the row after the last; `None` shows the first forty.
    pub(crate) rows: Option<(usize, usize)>,
    /// The columns; an empty list shows all that fit into the terminal.
    pub(crate) columns: Vec<String>,
    /// How to see columns that do not fit into the terminal.
    pub(crate) all_columns: &'static str,
}

const FIRST_ROWS: usize = 40;
const WIDEST_TEXT: usize = 60;

impl View {
    /// Reads a half-open range `FROM..TO`; either end may be missing.
    ///
    /// # Errors
    /// If the text is not a range.
    pub(crate) fn parse_rows(text: &str) -> Result<(usize, usize), String> {
        let wrong = || {
            format!(
                "`{text}` is not a range of rows; write FROM..TO, for example \
            0..20"
            )
        };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let end = |part: &str, open: usize| {
            if part.is_empty() {
                Ok(open)
            } else {
                part.parse().map_err(|_| wrong())
            }
        };
        let range = (end(from, 0)?, end(to, usize::MAX)?);
        if range.0 > range.1 {
            Err(wrong())
        } else {
            Ok(range)
        }
    }

    fn bounds(&self, table: &Table) -> (usize, usize) {
        let (from, to) = self.rows.unwrap_or((0, FIRST_ROWS));
        (from.min(table.rows()), to.min(table.rows()))
    }

    /// Returns the part as aligned text for the terminal: a heading of names and units, the rows, the total number of
    /// rows, and the columns that did not fit.
    ///
    /// # Errors
    /// If a column is not in the table.
    pub(crate) fn text(&self, table: &Table) -> Result<String, TableError> {
        self.text_within(table, terminal::width())
    }

    fn text_within(&self, table: &Table, width: Option<usize>) -> Result<String, TableError> {
        let names = table.chosen(&self.columns)?;
        let (from, to) = self.bounds(table);
        let headings = names.iter().map(|name| {
            table
                .unit(name)
                .map_or_else(|| name.clone(), |unit| format!("{name} [{unit}]"))
        });
        let heading = std::iter::once("row".to_owned()).chain(headings).collect();
        let mut right = vec![0];
        let mut rows = Vec::new();
        for row in from..to {
            let mut line = vec![row.to_string()];
            for (i, name) in names.iter().enumerate() {
                let value = table.value(name, row)?;
                if matches!(value, Scalar::Int(_) | Scalar::Float(_)) && !right.contains(&(i + 1)) {
                    right.push(i + 1);
                }
                line.push(short(&value));
            }
            rows.push(line);
        }
        let all = Columns::new(heading, rows, &right);
        // Columns requested by name are all shown.
        let (shown, left_out) = match width.filter(|_| self.columns.is_empty()) {
            Some(width) => all.fitting(width),
            None => (all, Vec::new()),
        };
        let mut text = shown.laid_out(width);
        let all = table.rows();
        if from == to && all > 0 {
            let count = counted(all, "row");
            text.push_str(&format!(
                "\n… no such rows; the table has {count}, 0 to {}",
                all - 1
            ));
        } else if to - from < all {
            text.push_str(&format!(
                "\n… rows {from}..{to} of {all}; `--rows FROM..TO` shows others"
            ));
        } else {
            text.push_str(&format!("\n{}", counted(all, "row")));
        }
        if let Some(width) = width.filter(|_| !left_out.is_empty()) {
            let note = format!(
                "… {} of {} columns do not fit; {}: {}",
                left_out.len(),
                names.len(),
                self.all_columns,
                // The first column is the row number.
                left_out
                    .iter()
                    .map(|column| names[column - 1].as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            text.push_str(&format!("\n{}", wrap(&note, width).join("\n")));
        }
        Ok(text)
    }

    /// Returns the part as JSON: an object for each row, and the units.
    ///
    /// # Errors
    /// If a column is not in the table.
    pub(crate) fn json(&self, table: &Table) -> Result<Value, TableError> {
        let names = table.chosen(&self.columns)?;
        let (from, to) = if self.rows.is_some() {
            self.bounds(table)
        } else {
            (0, table.rows())
        };
        let mut rows = Vec::new();
        for row in from..to {
            let mut object = Map::new();
            for name in &names {
                object.insert(name.clone(), Value::from(&table.value(name, row)?));
            }
            rows.push(Value::Object(object));
        }
        let units: Map<String, Value> = names
            .iter()
            .filter_map(|n| Some((n.clone(), Value::String(table.unit(n)?))))
            .collect();
        Ok(json!({ "rows": rows, "units": units, "first_row": from, "rows_in_all": table.rows() }))
    }
}

fn short(value: &Scalar) -> String {
    let text = match value {
        Scalar::Float(v) if v.abs() >= 1e15 || (*v != 0.0 && v.abs() < 1e-6) => format!("{v:e}"),
        Scalar::Float(v) => {
            let text = format!("{v:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        other => other.to_string(),
    };
    let text = text.replace('\n', "⏎");
    if text.chars().count() > WIDEST_TEXT {
        format!(
            "{}…",
            text.chars().take(WIDEST_TEXT - 1).collect::<String>()
        )
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use artifacts::Column;

    fn table() -> Table {
        Table::new(vec![
            Column::text("status", [Some("ok"), None]),
            Column::float("ttft", [Some(12.5), Some(1e-9)]).unit("ms"),
        ])
        .unwrap()
    }

    #[test]
    fn a_table_is_shown_with_units_and_row_numbers() {
        let text = View::default().text(&table()).unwrap();
        assert_eq!(
            text,
            "row  status  ttft [ms]\n  0  ok           12.5\n  1  null         1e-9\n2 rows"
        );
    }

    #[test]
    fn columns_that_do_not_fit_are_named_with_the_way_to_see_them() {
        let view = View {
            all_columns: "`--columns` shows them",
            ..View::default()
        };
        let text = view.text_within(&table(), Some(20)).unwrap();
        let expected = "2 rows\n… 1 of 2 columns do\nnot fit; `--columns`\nshows them: ttft";
        assert_eq!(text, format!("row  status\n  0  ok\n  1  null\n{expected}"));
    }

    #[test]
    fn columns_asked_for_by_name_are_all_shown() {
        let view = View {
            columns: vec!["status".to_owned(), "ttft".to_owned()],
            ..View::default()
        };
        let text = view.text_within(&table(), Some(20)).unwrap();
        let second = "row  ttft [ms]\n  0       12.5\n  1       1e-9";
        assert_eq!(
            text,
            format!("row  status\n  0  ok\n  1  null\n\n{second}\n2 rows")
        );
    }

    #[test]
    fn a_column_that_is_not_there_is_an_error_that_lists_those_there_are() {
        let view = View {
            columns: vec!["tft".to_owned()],
            ..View::default()
        };
        assert_eq!(
            view.text(&table()).unwrap_err().to_string(),
            "no column `tft`; the columns are: status, ttft"
        );
    }

    #[test]
    fn a_range_beyond_the_last_row_says_which_rows_there_are() {
        let view = View {
            rows: Some((2, 9)),
            ..View::default()
        };
        let text = view.text_within(&table(), None).unwrap();
        assert!(
            text.ends_with("\n… no such rows; the table has 2 rows, 0 to 1"),
            "{text}"
        );
    }

    #[test]
    fn a_range_of_rows_may_be_open() {
        assert_eq!(View::parse_rows("3.."), Ok((3, usize::MAX)));
        assert_eq!(View::parse_rows("..5"), Ok((0, 5)));
        assert!(View::parse_rows("5..3").is_err());
        assert!(View::parse_rows("five").is_err());
    }
}
