//! Mistakes in a query that planning finds.

use std::collections::BTreeSet;

use contract::Settings;
use pipeline::suggest::{closest, column_remedy, did_you_mean, remedy};
use pipeline::{Problem, Step};
use query::{Expected, Shape};

use super::{Parameters, UNKNOWN};
use crate::keys;
use crate::needed::load_tables;
use crate::operator::{Draft, Scope, at};

/// Returns the problem with a table that the query reads and that does not exist.
pub(super) fn no_table(name: &str, given: &Parameters, draft: &Draft<'_>) -> Option<Problem> {
    let problem = draft
        .scope
        .table(draft.settings, &at("query"), name)
        .err()?;
    let Some((stage, output)) = name.rsplit_once('.') else {
        let own = closest(name, draft.scope.earlier.keys().map(String::as_str));
        let raw = load_tables().find(|table| table.eq_ignore_ascii_case(name));
        return Some(match raw.or_else(|| contract::usual_table(name)) {
            Some(table) if own.is_none() => problem.hint(format!(
                "write `\"STAGE.{table}\"`, in double quotes, with the name of the load stage"
            )),
            _ => problem,
        });
    };
    if draft.scope.earlier.contains_key(output) {
        // Without quotes, SQL reads the stage as a database.
        return Some(problem.hint(format!(
            "write `{output}` for the table of this stage, or `\"{name}\"`, in double quotes, for the table of `{stage}`"
        )));
    }
    let raw = || contract::LOAD_TABLES.iter().map(|table| table.name);
    if raw().any(|table| table == output) {
        let quoted = query::mentioned(&given.query).contains(&name.to_lowercase());
        return Some(match quoted {
            true => problem,
            false => problem.hint(format!(
                "write `\"{name}\"`, in double quotes, because the name has a dot"
            )),
        });
    }
    Some(match closest(output, raw()) {
        Some(table) => problem.hint(did_you_mean(format!("{stage}.{table}"))),
        None => problem,
    })
}

/// Finds columns that no table can have. If a table's columns are unknown, finds those that resemble a known one.
pub(super) fn misspelt(
    assumed: &[String],
    given: &Parameters,
    shapes: &[Shape],
    settings: &Settings<'_>,
    scope: &Scope<'_>,
) -> Vec<Problem> {
    const SHORTEST: usize = 8;
    if shapes.iter().any(|s| scope.broken.contains(&s.name)) {
        return Vec::new();
    }
    let columns: BTreeSet<&str> = shapes
        .iter()
        .flat_map(|s| &s.columns)
        .map(|c| c.name.as_str())
        .collect();
    let names: Vec<&str> = columns.into_iter().collect();
    let axes = scope.library.axes();
    let closed = !axes.is_empty() && !names.contains(&UNKNOWN);
    let keys = readable_keys(shapes, &axes, scope);
    let mut problems = Vec::new();
    if closed {
        let candidates: Vec<(&str, &str)> = query::columns(shapes)
            .chain(keys.iter().map(|(table, key)| (*table, key.as_str())))
            .collect();
        for name in assumed.iter().filter(|name| {
            !keys.iter().any(|(_, key)| key.eq_ignore_ascii_case(name))
                && !keys::renamed(name, &axes)
        }) {
            let message = format!("no table the query reads has a column `{name}`");
            let of_columns =
                || column_remedy(&contract::usual_name(name), candidates.iter().copied());
            let of_rows = shapes.iter().all(|shape| shape.name.contains('.'));
            let hint = contract::metric_remedy(name).filter(|_| of_rows);
            let hint = hint.or_else(|| query::in_double_quotes(&given.query, name));
            let hint = hint.unwrap_or_else(of_columns);
            let problem = settings.problem(&at("query"), message).hint(hint);
            problems.push(match query::place_of_name(&given.query, name) {
                Some(part) => problem.part(&given.query, part),
                None => problem,
            });
        }
        return problems;
    }
    for name in assumed
        .iter()
        .filter(|n| n.len() >= SHORTEST && !given.keys.contains(n))
    {
        if closest(name, names.iter().copied()).is_some() {
            let hint = remedy(name, "columns", &names);
            let message = format!("no table the query reads has a column `{name}`");
            let problem = settings.problem(&at("query"), message);
            problems.push(problem.hint(format!("{hint} (if it is an axis, name it in `keys`)")));
        }
    }
    problems
}

/// Returns the names that key columns of the tables of a query can have, each behind a table.
fn readable_keys<'a>(
    shapes: &'a [Shape],
    axes: &[String],
    scope: &Scope<'_>,
) -> Vec<(&'a str, String)> {
    let of_table = |shape: &'a Shape| {
        let keys: Vec<String> = match scope.keys.get(&shape.name) {
            Some(keys) => keys.iter().cloned().collect(),
            None => {
                let own: Vec<String> = shape.columns.iter().map(|c| c.name.clone()).collect();
                let column = |axis: &String| contract::column_of_axis(axis, axes, &own);
                axes.iter().map(column).collect()
            }
        };
        keys.into_iter().map(|key| (shape.name.as_str(), key))
    };
    shapes.iter().flat_map(of_table).collect()
}

/// Returns the problem of a `*` over a table whose columns planning does not know: that of a program, or none.
fn columns_unknown(given: &Parameters, settings: &Settings<'_>) -> Problem {
    let mentioned = query::mentioned(&given.query);
    let mut names = mentioned.iter().filter_map(|name| name.rsplit_once('.'));
    let raw = |output: &str| load_tables().any(|table| table == output);
    let message = "`*` cannot stand for the columns of a table that planning does not know";
    let problem = settings.problem(&at("query"), message);
    let Some((stage, output)) = names.find(|(_, output)| !raw(output)) else {
        return problem.hint("name the columns");
    };
    let name = format!("{stage}.{output}");
    let usual = contract::usual_table(output);
    let hint = match usual.or_else(|| closest(output, load_tables())) {
        Some(usual) => format!(
            "if `{stage}` is a load stage, read `{stage}.{usual}`; if it is a program, name the columns"
        ),
        None => format!("name the columns, if `{name}` is a table of a program"),
    };
    let problem = problem.hint(hint);
    match query::place_of_name(&given.query, &name) {
        Some(part) => problem.part(&given.query, part),
        None => problem,
    }
}

/// Finds result columns without a proper name, and settings that refer to missing columns.
pub(super) fn misnamed(
    columns: &[Expected],
    given: &Parameters,
    settings: &Settings<'_>,
) -> Vec<Problem> {
    if columns.iter().any(|column| column.name == UNKNOWN) {
        return vec![columns_unknown(given, settings)];
    }
    let mut problems = Vec::new();
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for column in columns
        .iter()
        .filter(|c| c.name.is_empty() || !c.name.chars().all(word))
    {
        problems.push(
            settings
                .problem(
                    &at("query"),
                    format!("`{}` is not a valid name for a column", column.name),
                )
                .hint("name it with `as`: lower-case letters, digits and underscores"),
        );
    }
    if query::returns_all_columns(&given.query) {
        // A star may include axes, which are not known yet.
        return problems;
    }
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let keys = given
        .keys
        .iter()
        .enumerate()
        .map(|(i, k)| (vec![Step::Key("keys".to_owned()), Step::Index(i)], k));
    let described = given
        .described()
        .map(|(setting, k)| (vec![Step::Key(setting.to_owned()), Step::Key(k.clone())], k));
    for (route, name) in keys
        .chain(described)
        .filter(|(_, n)| !names.contains(&n.as_str()))
    {
        let of_key = matches!(route.last(), Some(Step::Key(_)));
        let problem = Problem {
            of_key,
            ..settings.problem(&route, format!("the query returns no column `{name}`"))
        };
        problems.push(problem.hint(remedy(name, "columns", &names)));
    }
    problems
}
