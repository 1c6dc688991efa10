//! Which names the key columns of a table can have, as far as planning knows them: the axes of the study, less those that
//! an operator combines, and the keys that an operator adds.

use std::collections::{BTreeMap, BTreeSet};

use contract::Settings;
use pipeline::design::BLOCK;
use pipeline::suggest::remedy;
use pipeline::{Json, Problem, Step};

use crate::operators::ALL;
use crate::sources::sources;

/// The remedy for blocks in a study without them.
const NO_BLOCKS: &str = "the study has no blocks: add `design: {blocks: N}` at the top of the file, or name one of its axes";

/// The names that key columns can have, by table.
pub(crate) type Keys = BTreeMap<String, BTreeSet<String>>;

/// The parameters that name key columns of the table an operator reads.
const LISTS: [&str; 6] = ["over", "by", "within", "average", "unit", "axes"];
const NAMES: [&str; 4] = ["axis", "ladder", "among", "phase"];

/// The operators whose parameters of these names mean something else.
const OTHERS: [&str; 4] = ["facts", "identity", "published", "sql"];

/// Returns the names that the key columns of a table can have.
pub(crate) fn keys(
    operator: &str,
    parameters: &Json,
    axes: &[String],
    earlier: &Keys,
) -> BTreeSet<String> {
    let named = |key: &str| names_at(parameters, key).into_iter().map(|(_, name)| name);
    let mut keys: BTreeSet<String> = match operator {
        "facts" => named("axis").collect(),
        "published" | "sql" => named("keys").collect(),
        "margins" => named("by").chain(named("axes")).collect(),
        "wins" => named("by").chain(named("among")).collect(),
        "correlation" | "paired-comparison" | "unpaired-comparison" => named("by").collect(),
        _ => readable(parameters, axes, earlier),
    };
    if !OTHERS.contains(&operator) && operator != "margins" {
        let combined = ["over", "average", "phase"].into_iter().flat_map(named);
        for name in combined.chain(pair(parameters).map(|(_, name)| name)) {
            keys.remove(&name);
        }
    }
    for name in added(operator) {
        // If an axis has this name, the operator's key has the operator's name as well.
        if keys.contains(*name) {
            keys.insert(format!("{}_{name}", operator.replace('-', "_")));
        }
        keys.insert((*name).to_owned());
    }
    keys
}

/// The operators whose key columns can contain other values than the labels of the axis of the same name.
const OTHER_VALUES: [&str; 5] = ["facts", "identity", "margins", "published", "sql"];

/// Returns those key columns of a table that contain only labels of the axis of the same name.
pub(crate) fn of_axes(
    operator: &str,
    parameters: &Json,
    keys: &BTreeSet<String>,
    axes: &[String],
    earlier: &Keys,
) -> BTreeSet<String> {
    if OTHER_VALUES.contains(&operator) {
        return BTreeSet::new();
    }
    let tables = earlier.keys().map(|name| (name.clone(), Json::Null));
    let tables = sources(parameters, &tables.collect());
    let mut keys: Vec<&String> = keys.iter().filter(|key| axes.contains(key)).collect();
    keys.retain(|key| !added(operator).contains(&key.as_str()));
    let read = |key: &&String| tables.iter().all(|table| earlier[table].contains(*key));
    keys.into_iter().filter(read).cloned().collect()
}

/// Returns the key columns that an operator adds.
fn added(operator: &str) -> &'static [&'static str] {
    match operator {
        "requests" => &["request_id", "attempt"],
        "goodput" => &["objective"],
        "identity" => &["identity"],
        "changes" => &["phase_before", "phase_after"],
        "fit" => &["parameter"],
        "correlation" => &["x", "y", "coefficient"],
        "paired-comparison" | "unpaired-comparison" | "paired-deltas" | "crossover" => &["metric"],
        _ => &[],
    }
}

/// Reports the parameters that name a key column which the table they read cannot have. Without axes, nothing is known.
pub(crate) fn unknown(
    operator: &str,
    parameters: &Json,
    settings: &Settings<'_>,
    axes: &[String],
    earlier: &Keys,
) -> Vec<Problem> {
    if OTHERS.contains(&operator) || axes.is_empty() {
        return Vec::new();
    }
    let possible = readable(parameters, axes, earlier);
    let named = LISTS.iter().chain(&NAMES);
    let named = named.flat_map(|key| names_at(parameters, key));
    let wrong = named
        .chain(pair(parameters))
        .filter(|(_, name)| !possible.contains(name));
    let problem = |(route, name): (Vec<Step>, String)| {
        let (message, what) = match parameters["from"].as_str() {
            Some(from) => (
                format!("`{name}` is not a key column of the table `{from}`"),
                "key columns",
            ),
            None => (format!("`{name}` is not an axis of the study"), "axes"),
        };
        let has_blocks = axes.iter().any(|axis| axis == BLOCK);
        let hint = match name == BLOCK && !has_blocks {
            true => NO_BLOCKS.to_owned(),
            false => remedy(&name, what, &possible),
        };
        settings.problem(&route, message).hint(hint)
    };
    wrong.map(problem).collect()
}

/// Returns the names of the key columns that an operator can read: those of its tables, or the axes if it reads cells.
pub(crate) fn readable(parameters: &Json, axes: &[String], earlier: &Keys) -> BTreeSet<String> {
    let tables = earlier.keys().map(|name| (name.clone(), Json::Null));
    let tables = sources(parameters, &tables.collect());
    match tables.is_empty() {
        true => axes.iter().cloned().collect(),
        false => tables
            .iter()
            .flat_map(|table| &earlier[table])
            .cloned()
            .collect(),
    }
}

/// Returns whether a column can exist only because an axis has the name of an operator's column, such as `fit_model`.
pub(crate) fn renamed(column: &str, axes: &[String]) -> bool {
    ALL.iter().any(|operator| {
        let prefix = operator.name().replace('-', "_");
        let rest = column
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| axes.iter().any(|axis| axis == rest) || renamed(rest, axes))
    })
}

/// Returns the texts of a parameter, which is a list or a single text, each with its route.
fn names_at(parameters: &Json, key: &str) -> Vec<(Vec<Step>, String)> {
    let step = || Step::Key(key.to_owned());
    match &parameters[key] {
        Json::String(name) => vec![(vec![step()], name.clone())],
        Json::Array(names) => {
            let names = names.iter().enumerate();
            let named = names.filter_map(|(i, name)| {
                Some((vec![step(), Step::Index(i)], name.as_str()?.to_owned()))
            });
            named.collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the axis of the two sides of a comparison.
fn pair(parameters: &Json) -> impl Iterator<Item = (Vec<Step>, String)> {
    let axis = names_at(&parameters["pair"], "axis").into_iter();
    axis.map(|(below, name)| {
        let route = std::iter::once(Step::Key("pair".to_owned())).chain(below);
        (route.collect(), name)
    })
}
