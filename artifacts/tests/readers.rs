//! Our tables open in other tools. `BENCHTRAIL_PYTHON` names a Python that has duckdb and polars; a missing tool is
//! then an error. Without it, the test tries `python3` and reports and skips missing tools.

use std::path::Path;
use std::process::Command;

use artifacts::{Column, Table, TableWriter};
use serde_json::{Value, json};

fn columns(rows: i64) -> Vec<Column> {
    let some = |i: i64| i % 7 != 3;
    vec![
        Column::text(
            "engine",
            (0..rows).map(|i| some(i).then(|| format!("engine-{}", i % 3))),
        ),
        Column::int("tokens", (0..rows).map(|i| some(i).then_some(i))).unit("tok"),
        Column::float("ttft", (0..rows).map(|i| some(i).then(|| i as f64 / 8.0)))
            .unit("ms")
            .describe("time to first token"),
        Column::boolean("ok", (0..rows).map(|i| some(i).then_some(i % 2 == 0))),
    ]
}

/// Reads two files with a tool; `None` if the tool is missing and optional.
#[expect(
    clippy::disallowed_methods,
    reason = "CI sets where other readers are installed"
)]
fn ask(tool: &str, files: [&Path; 2]) -> Option<Value> {
    let given = std::env::var("BENCHTRAIL_PYTHON").ok();
    let python = given.as_deref().unwrap_or("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers.py");
    let output = Command::new(python)
        .arg(script)
        .arg(tool)
        .args(files)
        .output();
    let why = match &output {
        Ok(output) if output.status.success() => {
            return Some(serde_json::from_slice(&output.stdout).unwrap());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    // The script prints exactly this when the tool cannot be imported.
    let absent = why.trim() == format!("{tool} is not installed") || output.is_err();
    assert!(given.is_none() && absent, "{python} {script} {tool}: {why}");
    skipped(&format!("{tool} was not asked: {}", why.trim()));
    None
}

#[expect(
    clippy::print_stderr,
    reason = "the developer must see which readers were skipped"
)]
fn skipped(what: &str) {
    eprintln!("skipped: {what}");
}

fn opens_in(tool: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (whole, streamed) = (
        folder.path().join("whole.parquet"),
        folder.path().join("streamed.parquet"),
    );
    std::fs::write(
        &whole,
        Table::new(columns(100)).unwrap().to_parquet().unwrap(),
    )
    .unwrap();
    let mut writer = TableWriter::create(&streamed, &columns(0)).unwrap();
    for _ in 0..200 {
        writer.write(&Table::new(columns(100)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let Some(answers) = ask(tool, [&whole, &streamed]) else {
        return;
    };
    // 14 of 100 rows are null; 0 + 1 + … + 99 = 4950, without 3, 10, …, 94 it is 4271.
    let expected = |times: i64| {
        json!({
            "types": [["engine", "text"], ["tokens", "int"], ["ttft", "float"], ["ok", "bool"]],
            "rows": 100 * times,
            "null": 14 * times,
            "tokens": 4271 * times,
            "ttft": 4271.0 * times as f64 / 8.0,
            "engines": ["engine-0", "engine-1", "engine-2"],
            "ok": times * (0..100).filter(|i| i % 7 != 3 && i % 2 == 0).count() as i64,
            "metadata": ["unit", "ms", "tok", "description", "time to first token"],
        })
    };
    assert_eq!(answers, json!([expected(1), expected(200)]));
}

#[test]
fn our_tables_open_in_duckdb_with_types_nulls_and_units() {
    opens_in("duckdb");
}

#[test]
fn our_tables_open_in_polars_with_types_nulls_and_units() {
    opens_in("polars");
}
