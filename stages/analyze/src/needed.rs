//! What the queries of a stage read from the cells of the stages that it needs.

use pipeline::suggest::{closest, did_you_mean, list, remedy};
use pipeline::{Needed, Problem};

use crate::kind::{Planned, SQL};

/// Returns the names of the tables of a load cell.
pub(crate) fn load_tables() -> impl Iterator<Item = &'static str> {
    contract::LOAD_TABLES.iter().map(|table| table.name)
}

/// Reports queries over tables of stages that `needs` does not list, or that have no such table.
pub(crate) fn unneeded_stages(tables: &[Planned], needs: &[Needed<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for table in tables.iter().filter(|table| table.operator == SQL) {
        let query = table.parameters["query"].as_str().unwrap_or_default();
        for name in query::tables_with_dots(query) {
            let Some((stage, output)) = name.rsplit_once('.') else {
                continue;
            };
            // A table of the stage itself, unless a stage that it needs has one of this name.
            let needs_it = |need: &Needed<'_>| need.stage.eq_ignore_ascii_case(stage);
            if tables.iter().any(|own| own.name == output) && !needs.iter().any(needs_it) {
                let own = format!(
                    "write `{output}`: a table of the same stage is named without the stage"
                );
                let what =
                    format!("the query reads `{name}`, but the stage does not need `{stage}`");
                problems.push(Problem::at(&["tables", &table.name, "query"], what).hint(own));
                continue;
            }
            let Some((message, hint)) = mistake(stage, output, needs) else {
                continue;
            };
            let mut problem = Problem::at(&["tables", &table.name, "query"], message).hint(hint);
            if let Some(part) = query::place_of_name(query, &name) {
                problem = problem.part(query, part);
            }
            problems.push(problem);
        }
    }
    problems
}

/// Returns what is wrong with a table that a query reads, and the remedy. `None` if the table exists.
fn mistake(stage: &str, output: &str, needs: &[Needed<'_>]) -> Option<(String, String)> {
    let is_raw = load_tables().any(|table| table == output);
    let mut near = needs.iter();
    let Some(need) = near.find(|need| need.stage.eq_ignore_ascii_case(stage)) else {
        let readable = needs.iter().filter(|need| is_readable(need));
        let readable: Vec<&str> = readable.map(|need| need.stage).collect();
        let mut loads = needs.iter().filter(|need| need.kind == "load");
        let hint = match (
            closest(stage, readable.iter().copied()),
            loads.next(),
            of_cells(output),
        ) {
            (None, Some(load), Some(table)) => {
                format!(
                    "the cells of `{0}` have it: write `\"{0}.{table}\"`",
                    load.stage
                )
            }
            _ => remedy(stage, "stages with tables that it needs", &readable),
        };
        let message = "but the stage does not need";
        return Some((
            format!("the query reads `{stage}.{output}`, {message} `{stage}`"),
            hint,
        ));
    };
    let declared;
    let (what, names): (String, Vec<&str>) = match need.kind {
        "load" => ("a load stage".to_owned(), load_tables().collect()),
        "run" => {
            declared = need.parameters["tables"].as_object().cloned();
            // Wrong settings are already reported.
            let names = declared.as_ref()?.keys().map(String::as_str);
            (format!("`{stage}`"), names.collect())
        }
        kind => return Some(of_no_rows(stage, output, kind, needs)),
    };
    if names.contains(&output) {
        return None;
    }
    let message = format!("the stage `{stage}` has no table `{output}`");
    let usual = contract::usual_table(output).filter(|usual| !is_raw && names.contains(usual));
    let meant = usual.or_else(|| closest(output, names.iter().copied()));
    let hint = match meant {
        Some(table) => did_you_mean(format!("{stage}.{table}")),
        None if names.is_empty() => format!("{what} declares no tables"),
        None => remedy(output, &format!("tables of {what}"), names),
    };
    Some((message, hint))
}

/// Returns the table of load cells that a word means.
fn of_cells(word: &str) -> Option<&'static str> {
    contract::usual_table(word).or_else(|| closest(word, load_tables()))
}

/// Returns whether a query can read tables of a stage.
fn is_readable(need: &Needed<'_>) -> bool {
    ["load", "run"].contains(&need.kind)
}

/// The mistake of a query over a stage of a kind that has no tables for it.
fn of_no_rows(stage: &str, output: &str, kind: &str, needs: &[Needed<'_>]) -> (String, String) {
    let message =
        format!("a query cannot read tables of `{stage}`, which is a stage of kind `{kind}`");
    let loads = needs.iter().filter(|need| need.kind == "load");
    let loads: Vec<&str> = loads.map(|need| need.stage).collect();
    let hint = match (loads.as_slice(), of_cells(output)) {
        ([load, ..], Some(table)) => {
            format!("the cells of `{load}` have it: write `\"{load}.{table}\"`")
        }
        ([load, ..], None) => format!(
            "a query reads tables of load stages and of programs; those of `{load}` are {}",
            list(load_tables())
        ),
        ([], _) => {
            "a query reads tables of load stages and of programs; add one to `needs`".to_owned()
        }
    };
    (message, hint)
}
