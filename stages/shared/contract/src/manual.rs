//! Generates `docs/columns.md` from the declarations.
//!
//! To refresh it: `UPDATE_DOCS=1 cargo test -p contract manual`.

use std::fmt::Write;

use crate::{ColumnSpec, TableSpec, tables};

const HEAD: &str = "\
# Columns

This page lists the tables that stages hand to each other, with every column. You can read them with
[`benchtrail sql`](sql.md), with gates and operators in SQL, or with any reader of Parquet. `benchtrail schema tables` prints
this page as JSON.

- A column has one of four types: `int` (64 bits, signed), `float` (a double), `text` and `bool`.
- The file itself also holds the unit and the meaning of each column, in the metadata of its field.
- A *nullable* column may hold nulls. A null means that the value does not exist. It never stands for zero or empty text.
- If a column holds one of a few words, this page lists them. Benchtrail refuses a table with any other word.
- The tables of a load cell have no columns for its coordinates. SQL and the `analyze` stage add the axes as columns when they
  put the cells of a stage together.
";

fn page() -> String {
    let mut text = String::from(HEAD);
    for table in tables() {
        section(&mut text, table);
    }
    text
}

fn section(text: &mut String, table: &TableSpec) {
    let head = "| column | type | unit | meaning |\n|---|---|---|---|";
    writeln!(text, "\n## `{}`\n\n{}\n\n{head}", table.name, table.row()).unwrap();
    for column in table.columns {
        writeln!(text, "{}", line(column)).unwrap();
    }
}

fn line(column: &ColumnSpec) -> String {
    let null = if column.nullable { ", nullable" } else { "" };
    let words: Vec<String> = column
        .words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect();
    let words = match words.as_slice() {
        [] => String::new(),
        words => format!(" (one of {})", words.join(", ")),
    };
    format!(
        "| `{}` | {}{null} | {} | {}{words} |",
        column.name,
        column.holds.word(),
        column.unit.unwrap_or_default(),
        column.meaning(),
    )
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment variable asks for a new page"
)]
fn the_manual_says_what_the_columns_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/columns.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == there,
        "docs/columns.md is not up to date: UPDATE_DOCS=1 cargo test -p contract manual"
    );
}
