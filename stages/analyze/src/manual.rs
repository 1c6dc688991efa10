//! Generates `docs/operators.md` from the operators and from tables they made: every example on the page is run, and
//! every column shown is real output.
//!
//! To refresh the page, run `UPDATE_DOCS=1 cargo test -p analyze manual`.

use std::fmt::Write;

use pipeline::Json;

use crate::tests::{analyze, everything, inputs, store, table};

/// Suffixes of a distribution's statistics, listed once rather than for each metric.
const REPEATED: &[&str] = &["_n", "_std", "_min", "_p50", "_p90", "_p95", "_p99", "_max"];

/// Suffixes of the ends of the intervals of quantiles, listed once as well.
const ENDS: &[&str] = &["_low", "_high"];

fn flow(value: &Json) -> String {
    match value {
        Json::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{k}: {}", flow(v)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        Json::Array(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::String(text) if text.contains([',', ':', '{', '[', '"', '#']) => value.to_string(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The value in the first row, with numbers rounded to six significant digits.
fn shown(table: &artifacts::Table, column: &str) -> String {
    match table.value(column, 0).unwrap() {
        artifacts::Scalar::Null => "null".to_owned(),
        artifacts::Scalar::Float(v) if v != 0.0 && v.abs() < 1e-4 => format!("{v:.5e}"),
        artifacts::Scalar::Float(v) => {
            let before = v.abs().log10().floor().max(0.0) as usize;
            let text = format!("{v:.*}", 5_usize.saturating_sub(before));
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
        other => other.to_string().replace('|', "\\|"),
    }
}

/// The parameters of a schema as a list.
fn parameters(schema: &Json) -> String {
    let mut text = String::new();
    for parameter in contract::parameters(schema) {
        parameter.write(&mut text, 0, &flow);
    }
    if text.is_empty() {
        "- none\n".to_owned()
    } else {
        text
    }
}

/// The beginning of the page.
const HEAD: &str = "# Operators of the analyze stage\n\n\
         Each table of an `analyze` stage is made by one operator, from the rows of load cells or from other tables of \
         the same stage.\nThis page lists the operators. For each, it shows an example with its parameters and its \
         columns.\n\n\
         - *Cells it reads* lists the statuses of the load cells whose rows the operator reads.\n\
         - Key columns come first and identify a row.\n\
         - Undefined values are null, never 0.\n\
         - The Parquet file holds the unit and the definition of every column.\n\
         - If an axis has the name of a column of results, such as `model`, the column also carries the operator's \
         name: `fit_model`.\n\n\
         The values on this page come from running the examples on a small ladder of synthetic cells: two \
         configurations, 1, 2 and 4\nclients, three repetitions. The test suite checks them.\n";

/// The table of contents.
fn contents(text: &mut String) {
    text.push_str("\n| operator | what it makes |\n|---|---|\n");
    for page in crate::pages() {
        writeln!(text, "| [`{0}`](#{0}) | {1} |", page.name, page.summary).unwrap();
    }
}

fn page() -> String {
    let (_folder, store) = store();
    let settings = everything();
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    let mut text = HEAD.to_owned();
    contents(&mut text);
    for page in crate::pages() {
        let (name, example) = settings
            .as_object()
            .unwrap()
            .iter()
            .find(|(_, v)| v["operator"] == page.name)
            .unwrap_or_else(|| panic!("no example of {}", page.name));
        let made = table(&done, name);
        writeln!(
            text,
            "\n## {}\n\n{}\n\n{}\n",
            page.name, page.summary, page.source
        )
        .unwrap();
        writeln!(
            text,
            "Cells it reads: {}.\n\n```yaml\n{name}: {}\n```\n\nParameters:\n\n{}",
            page.reads,
            flow(example),
            parameters(&page.schema)
        )
        .unwrap();
        let keys = made.metadata("keys").unwrap();
        let first: Vec<String> = keys
            .split(',')
            .filter(|k| !k.is_empty())
            .map(|k| format!("`{k}` = {}", shown(&made, k)))
            .collect();
        let keyed = if first.is_empty() {
            "no keys: one row".to_owned()
        } else {
            first.join(", ")
        };
        writeln!(
            text,
            "The example makes {}; the first ({keyed}):\n",
            artifacts::counted(made.rows(), "row")
        )
        .unwrap();
        writeln!(
            text,
            "| column | unit | first row | definition |\n|---|---|---|---|"
        )
        .unwrap();
        let names = made.names();
        let mut skipped = false;
        for column in names
            .iter()
            .filter(|n| !keys.split(',').any(|k| k == n.as_str()))
        {
            let quantile = ENDS.iter().find_map(|end| column.strip_suffix(end));
            let of_metric = quantile.unwrap_or(column);
            let stem = REPEATED.iter().find_map(|end| of_metric.strip_suffix(end));
            if page.name == "cell-summary"
                && stem.is_some_and(|s| names.contains(&format!("{s}_std")))
            {
                skipped = true;
                continue;
            }
            let (unit, meaning) = (
                made.unit(column).unwrap_or_default(),
                made.description(column).unwrap(),
            );
            let value = shown(&made, column);
            writeln!(
                text,
                "| `{column}` | {unit} | {value} | {} |",
                meaning.replace('|', "\\|")
            )
            .unwrap();
        }
        if skipped {
            let ends: Vec<String> = REPEATED.iter().map(|e| format!("`{e}`")).collect();
            writeln!(
                text,
                "\nFor each metric with `…_mean`, the table also has {}. Next to each quantile, `_low` and `_high` are the \
                 ends of its 0.95 interval\nfrom order statistics, within this cell, for the effective number of \
                 requests.",
                ends.join(", ")
            )
            .unwrap();
        }
    }
    text
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to have the page written"
)]
fn the_manual_says_what_the_operators_do() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/operators.md is not up to date: UPDATE_DOCS=1 cargo test -p analyze manual"
    );
}
