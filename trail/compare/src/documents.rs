//! Compares the descriptors of machines and servers, leaf by leaf.

use std::collections::BTreeMap;

use pipeline::{Json, Media};
use serde::Serialize;

use crate::side::{CompareError, Side};

/// A descriptor leaf that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DocumentChange {
    /// The stage and output that contain it.
    pub document: String,
    /// The dotted path.
    pub path: String,
    /// The value in the older study; `None` if it is absent.
    pub a: Option<Json>,
    /// The value in the newer study; `None` if it is absent.
    pub b: Option<Json>,
    /// The number of cells.
    pub cells: usize,
}

/// Returns the differences in the JSON outputs of provision and serve cells that both sides have.
pub(crate) fn changes(a: &Side<'_>, b: &Side<'_>) -> Result<Vec<DocumentChange>, CompareError> {
    let (before, after) = (leaves(a)?, leaves(b)?);
    let mut changes: BTreeMap<String, DocumentChange> = BTreeMap::new();
    for ((cell, document), new) in &after {
        let Some(old) = before.get(&(cell.clone(), document.clone())) else {
            continue;
        };
        let mut paths: Vec<&String> = old.keys().chain(new.keys()).collect();
        paths.sort();
        paths.dedup();
        for path in paths
            .into_iter()
            .filter(|path| old.get(*path) != new.get(*path))
        {
            let (a, b) = (old.get(path).cloned(), new.get(path).cloned());
            let key = format!("{document}\n{path}\n{a:?}\n{b:?}");
            let change = || DocumentChange {
                document: document.clone(),
                path: path.clone(),
                a,
                b,
                cells: 0,
            };
            changes.entry(key).or_insert_with(change).cells += 1;
        }
    }
    Ok(changes.into_values().collect())
}

type Leaves = BTreeMap<String, Json>;

fn leaves(side: &Side<'_>) -> Result<BTreeMap<(String, String), Leaves>, CompareError> {
    let mut documents = BTreeMap::new();
    for cell in side
        .cells
        .iter()
        .filter(|c| matches!(c.record.recipe.kind.as_str(), "provision" | "serve"))
    {
        for (output, artifact) in cell
            .record
            .outputs
            .iter()
            .filter(|(_, a)| a.media == Media::Json)
        {
            let document = format!("{}.{output}", cell.stage);
            let value = side.json(&document, &artifact.digest)?;
            documents.insert((cell.name(), document), leaves_of(value));
        }
    }
    Ok(documents)
}

/// Returns the leaves of a descriptor by their dotted paths.
fn leaves_of(mut descriptor: Json) -> Leaves {
    if let Json::Object(parts) = &mut descriptor {
        // Observations vary from minute to minute and are not changes of the environment.
        parts.remove("observations");
    }
    let mut flat = Leaves::new();
    flatten("", &descriptor, &mut flat);
    flat
}

fn flatten(path: &str, value: &Json, into: &mut Leaves) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match value {
        Json::Object(map) if !map.is_empty() => map
            .iter()
            .for_each(|(key, v)| flatten(&below(key), v, into)),
        Json::Array(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, v)| flatten(&below(&i.to_string()), v, into));
        }
        leaf => {
            into.insert(path.to_owned(), leaf.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn observations_are_no_leaves_and_what_is_named_alike_is_one() {
        let descriptor = json!({
            "observations": {"load": 0.3},
            "observations_note": "none",
            "facets": {"observations": 4, "gpus": ["a", "b"]},
        });
        let leaves = leaves_of(descriptor);
        let paths: Vec<&str> = leaves.keys().map(String::as_str).collect();
        let others = [
            "facets.gpus.0",
            "facets.gpus.1",
            "facets.observations",
            "observations_note",
        ];
        assert_eq!(paths, others);
    }
}
