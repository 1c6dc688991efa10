//! How two recipes differ, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use artifacts::Digest;
use serde::Serialize;
use serde_json::json;

use super::recipe::{Recipe, RecipeCell, RecipeInput};
use crate::stage::{CellStatus, Json};

/// From this many changed cells of an input on, only their number is reported.
const MANY_CELLS: usize = 4;

/// A field in which a recipe differs from an older one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The input stage that contains the field (and its cell, if it has several), if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The dotted path of the field.
    pub path: String,
    /// The old value; `None` if it was absent.
    pub old: Option<Json>,
    /// The new value; `None` if it is absent.
    pub new: Option<Json>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(input) = &self.input {
            write!(f, "input `{input}` changed: {}", self.path)?;
        } else {
            write!(f, "`{}`", self.path)?;
        }
        match (&self.old, &self.new) {
            (None, None) => Ok(()),
            (old, new) => {
                let (old, new) = pair(shown(old.as_ref()), shown(new.as_ref()));
                write!(f, " {old} → {new}")
            }
        }
    }
}

/// Formats a value for a message: text without quotes, a digest short.
fn shown(value: Option<&Json>) -> String {
    match value {
        None => "(absent)".to_owned(),
        Some(Json::String(text)) => match text.parse::<Digest>() {
            Ok(digest) => digest.short(),
            Err(_) => text.clone(),
        },
        Some(other) => other.to_string(),
    }
}

/// The longest value that a message shows whole, in characters.
const LONGEST: usize = 60;

/// The characters of a common beginning that stay in front of the place where two long values differ.
const BEFORE: usize = 12;

/// Shortens two different values so that the place where they differ stays visible.
fn pair(old: String, new: String) -> (String, String) {
    let long = |text: &str| text.chars().count() > LONGEST;
    if !long(&old) && !long(&new) {
        return (old, new);
    }
    let common = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
    let skipped = match common.count() {
        common if common > 2 * BEFORE => common - BEFORE,
        _ => 0,
    };
    let short = |text: String| {
        let rest: String = text.chars().skip(skipped).collect();
        let rest = match long(&rest) {
            true => rest
                .chars()
                .take(LONGEST - 3)
                .chain("...".chars())
                .collect(),
            false => rest,
        };
        match skipped {
            0 => rest,
            _ => format!("...{rest}"),
        }
    };
    (short(old), short(new))
}

impl Recipe {
    /// Returns the fields in which this recipe differs from an older one, in recipe order. `read` reads artifacts of
    /// inputs: it returns the value of a JSON artifact, `None` for anything else.
    pub fn differences(
        &self,
        older: &Self,
        read: &dyn Fn(&Digest) -> Option<Json>,
    ) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut field = |path: &str, old: Json, new: Json| {
            values(None, path, Some(&old), Some(&new), &mut differences);
        };
        field("recipe format", json!(older.format), json!(self.format));
        field("kind", json!(older.kind), json!(self.kind));
        field(
            "semantic version",
            json!(older.semantic_version),
            json!(self.semantic_version),
        );
        field("seed", json!(older.seed), json!(self.seed));
        values(
            None,
            "",
            Some(&older.parameters),
            Some(&self.parameters),
            &mut differences,
        );
        let mut field = |path: &str, old: Json, new: Json| {
            values(None, path, Some(&old), Some(&new), &mut differences);
        };
        field(
            "replicate",
            labels(&older.replicate),
            labels(&self.replicate),
        );
        field("facets", json!(older.facets), json!(self.facets));
        inputs(&older.inputs, &self.inputs, read, &mut differences);
        if let (Some(old), Some(new)) = (&older.study, &self.study) {
            values(
                None,
                "study",
                Some(&json!(old)),
                Some(&json!(new)),
                &mut differences,
            );
        }
        differences
    }
}

fn labels(coordinates: &crate::stage::Coordinates) -> Json {
    coordinates
        .0
        .iter()
        .map(|(axis, label)| (axis.clone(), json!(label)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Descends into two values in parallel and notes where they differ.
fn values(
    input: Option<&str>,
    path: &str,
    old: Option<&Json>,
    new: Option<&Json>,
    differences: &mut Vec<Difference>,
) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                values(input, &join(path, key), a.get(key), b.get(key), differences);
            }
        }
        (Some(Json::Array(a)), Some(Json::Array(b))) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                values(
                    input,
                    &join(path, &i.to_string()),
                    Some(a),
                    Some(b),
                    differences,
                );
            }
        }
        _ => differences.push(Difference {
            input: input.map(ToOwned::to_owned),
            path: path.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn inputs(
    old: &[RecipeInput],
    new: &[RecipeInput],
    read: &dyn Fn(&Digest) -> Option<Json>,
    differences: &mut Vec<Difference>,
) {
    let before: BTreeMap<&str, &RecipeInput> = old.iter().map(|i| (i.stage.as_str(), i)).collect();
    for input in new {
        match before.get(input.stage.as_str()) {
            Some(older) => one_input(older, input, read, differences),
            None => differences.push(note(&input.stage, "it is new".to_owned())),
        }
    }
    for input in old
        .iter()
        .filter(|i| new.iter().all(|n| n.stage != i.stage))
    {
        differences.push(note(&input.stage, "it is no longer needed".to_owned()));
    }
}

fn note(input: &str, text: String) -> Difference {
    Difference {
        input: Some(input.to_owned()),
        path: text,
        old: None,
        new: None,
    }
}

fn one_input(
    old: &RecipeInput,
    new: &RecipeInput,
    read: &dyn Fn(&Digest) -> Option<Json>,
    differences: &mut Vec<Difference>,
) {
    let before: BTreeMap<String, &RecipeCell> = old
        .cells
        .iter()
        .map(|c| (c.coordinates.to_string(), c))
        .collect();
    let now: BTreeMap<String, &RecipeCell> = new
        .cells
        .iter()
        .map(|c| (c.coordinates.to_string(), c))
        .collect();
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let changed: Vec<&String> = names
        .into_iter()
        .filter(|n| before.get(*n) != now.get(*n))
        .collect();
    // A cell that joined with another cell of the same stage (renamed labels) is still compared.
    if let ([a], [b]) = (old.cells.as_slice(), new.cells.as_slice()) {
        return one_cell(&new.stage, Some(a), Some(b), read, differences);
    }
    if changed.len() >= MANY_CELLS {
        let arrived = changed
            .iter()
            .filter(|n| is_ok(&now, n) && !is_ok(&before, n))
            .count();
        let text = format!(
            "{} of {} cells ({arrived} of them are new)",
            changed.len(),
            now.len().max(before.len())
        );
        differences.push(note(&new.stage, text));
        return;
    }
    if changed.is_empty() && old != new {
        differences.push(note(&new.stage, "the order of its cells".to_owned()));
    }
    for name in changed {
        let input = crate::place::cell_text(&new.stage, name);
        one_cell(
            &input,
            before.get(name).copied(),
            now.get(name).copied(),
            read,
            differences,
        );
    }
}

fn is_ok(cells: &BTreeMap<String, &RecipeCell>, name: &str) -> bool {
    cells.get(name).is_some_and(|c| c.status == CellStatus::Ok)
}

fn one_cell(
    input: &str,
    old: Option<&RecipeCell>,
    new: Option<&RecipeCell>,
    read: &dyn Fn(&Digest) -> Option<Json>,
    differences: &mut Vec<Difference>,
) {
    let status = |cell: Option<&RecipeCell>| cell.map(|c| json!(c.status));
    if status(old) != status(new) {
        return values(
            Some(input),
            "status",
            status(old).as_ref(),
            status(new).as_ref(),
            differences,
        );
    }
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    let text = |t: &Option<String>| t.as_ref().map(|t| json!(t));
    values(
        Some(input),
        "reason",
        text(&old.reason).as_ref(),
        text(&new.reason).as_ref(),
        differences,
    );
    values(
        Some(input),
        "coordinates",
        Some(&json!(old.coordinates.to_string())),
        Some(&json!(new.coordinates.to_string())),
        differences,
    );
    let names: BTreeSet<&String> = old.outputs.keys().chain(new.outputs.keys()).collect();
    let mut explained = false;
    for name in names {
        let (a, b) = (old.outputs.get(name), new.outputs.get(name));
        if a == b {
            continue;
        }
        explained = true;
        let inside = a.zip(b).and_then(|(a, b)| Some((read(a)?, read(b)?)));
        match inside {
            Some((a, b)) if a != b => values(Some(input), "", Some(&a), Some(&b), differences),
            _ => values(
                Some(input),
                name,
                a.map(|d| json!(d)).as_ref(),
                b.map(|d| json!(d)).as_ref(),
                differences,
            ),
        }
    }
    if !explained && old.parameters != new.parameters {
        differences.push(note(input, "its parameters".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::tests::sample;
    use super::*;

    fn texts(new: &Recipe, old: &Recipe, read: &dyn Fn(&Digest) -> Option<Json>) -> Vec<String> {
        new.differences(old, read)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_changed_parameter_is_named_by_its_path() {
        let mut new = sample();
        new.parameters["workload"]["output_tokens"] = json!(128);
        assert_eq!(
            texts(&new, &sample(), &|_| None),
            ["`workload.output_tokens` 64 → 128"]
        );
    }

    #[test]
    fn a_changed_json_input_is_named_by_the_field_inside() {
        let mut new = sample();
        new.inputs[0].cells[0]
            .outputs
            .insert("server".into(), Digest::of(b"new"));
        let read = |digest: &Digest| {
            let version = if *digest == Digest::of(b"new") { 2 } else { 1 };
            Some(json!({"engine": {"name": "x", "version": version}}))
        };
        assert_eq!(
            texts(&new, &sample(), &read),
            ["input `server` changed: engine.version 1 → 2"]
        );
        let differences = texts(&new, &sample(), &|_| None);
        assert!(
            differences[0].starts_with("input `server` changed: server b3:"),
            "{differences:?}"
        );
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let list = |last: i64| json!((1..60).chain([last]).collect::<Vec<i64>>());
        let difference = |old, new| {
            let (input, path) = (None, "levels".to_owned());
            Difference {
                input,
                path,
                old: Some(old),
                new: Some(new),
            }
            .to_string()
        };
        assert_eq!(
            difference(list(60), list(64)),
            "`levels` ...6,57,58,59,60] → ...6,57,58,59,64]"
        );
        let (one, other) = (json!("a".repeat(100)), json!("b".repeat(100)));
        assert_eq!(
            difference(one, other),
            format!("`levels` {}... → {}...", "a".repeat(57), "b".repeat(57))
        );
        assert_eq!(difference(json!(1), json!(2)), "`levels` 1 → 2");
    }

    #[test]
    fn equal_recipes_have_no_differences() {
        assert!(sample().differences(&sample(), &|_| None).is_empty());
    }

    #[test]
    fn many_changed_cells_are_counted_instead_of_listed() {
        let mut old = sample();
        let cell = old.inputs[0].cells[0].clone();
        old.inputs[0].cells = (0..10)
            .map(|i| {
                let mut cell = cell.clone();
                cell.coordinates.0[0].1 = artifacts::Scalar::Int(i);
                cell.status = CellStatus::Failed;
                cell
            })
            .collect();
        let mut new = old.clone();
        new.inputs[0]
            .cells
            .iter_mut()
            .for_each(|c| c.status = CellStatus::Ok);
        assert_eq!(
            texts(&new, &old, &|_| None),
            ["input `server` changed: 10 of 10 cells (10 of them are new)"]
        );
    }
}
