//! How two recipes differ, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use artifacts::Digest;
use serde::Serialize;
use serde_json::json;

use super::recipe::{Recipe, RecipeCell, RecipeInput};
use crate::stage::{CellStatus, Coordinates, Json};

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
        let is_whole = |value: &Json| value.is_object() || value.is_array();
        match (&self.old, &self.new) {
            (None, None) => Ok(()),
            // A part of a recipe is named; its text would be long.
            (None, Some(new)) if is_whole(new) => f.write_str(" is new"),
            (Some(old), None) if is_whole(old) => f.write_str(" is gone"),
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

fn labels(coordinates: &Coordinates) -> Json {
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

/// Returns the items of a list by their names, if all have one, each its own: the tables of an analysis, for example.
fn by_name(items: &[Json]) -> Option<BTreeMap<&str, &Json>> {
    let named = items
        .iter()
        .map(|item| Some((item.get("name")?.as_str()?, item)));
    let named = named.collect::<Option<BTreeMap<_, _>>>()?;
    (named.len() == items.len() && !items.is_empty()).then_some(named)
}

/// Compares two lists of named items, name by name.
fn named_items(
    input: Option<&str>,
    path: &str,
    [a, b]: [&[Json]; 2],
    differences: &mut Vec<Difference>,
) {
    let (before, now) = (
        by_name(a).unwrap_or_default(),
        by_name(b).unwrap_or_default(),
    );
    let names: BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
    let mut inside = Vec::new();
    for name in names {
        let (old, new) = (before.get(name).copied(), now.get(name).copied());
        values(input, &join(path, name), old, new, &mut inside);
    }
    if inside.is_empty() {
        let order = |items: &[Json]| items.iter().map(|item| item["name"].clone()).collect();
        inside.push(Difference {
            input: input.map(ToOwned::to_owned),
            path: path.to_owned(),
            old: Some(order(a)),
            new: Some(order(b)),
        });
    }
    differences.append(&mut inside);
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
        (Some(Json::Array(a)), Some(Json::Array(b)))
            if by_name(a).is_some() && by_name(b).is_some() =>
        {
            named_items(input, path, [a, b], differences);
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
    let by_place = |cells: &[RecipeCell]| -> Vec<String> {
        cells.iter().map(|c| c.coordinates.canonical()).collect()
    };
    let (places_before, places_now) = (by_place(&old.cells), by_place(&new.cells));
    let before: BTreeMap<&String, &RecipeCell> = places_before.iter().zip(&old.cells).collect();
    let now: BTreeMap<&String, &RecipeCell> = places_now.iter().zip(&new.cells).collect();
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).copied().collect();
    let changed: Vec<&String> = names
        .into_iter()
        .filter(|n| !same(before.get(n).copied(), now.get(n).copied()))
        .collect();
    // A cell that joined with another cell of the same stage (renamed labels) is still compared.
    if let ([a], [b]) = (old.cells.as_slice(), new.cells.as_slice()) {
        return one_cell(&new.stage, Some(a), Some(b), read, differences);
    }
    if changed.len() >= MANY_CELLS {
        let ok = |cells: &BTreeMap<&String, &RecipeCell>, name: &String| {
            let cell = cells.get(name);
            cell.is_some_and(|c| c.status == CellStatus::Ok)
        };
        let count = |is: &dyn Fn(bool, bool) -> bool| {
            let cells = changed.iter();
            cells.filter(|n| is(ok(&before, n), ok(&now, n))).count()
        };
        let arrived = count(&|was, is| !was && is);
        let gone = count(&|was, is| was && !is);
        let counts = [
            (arrived, "new"),
            (gone, "gone"),
            (changed.len() - arrived - gone, "changed"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0);
        let counts: Vec<String> = counts.map(|(n, what)| format!("{n} {what}")).collect();
        let text = format!("of {} cells, {}", now.len(), counts.join(", "));
        differences.push(note(&new.stage, text));
        return;
    }
    if changed.is_empty() && old != new {
        let texts = |cells: &[RecipeCell]| -> BTreeSet<String> {
            cells.iter().map(|c| c.coordinates.to_string()).collect()
        };
        let text = match texts(&old.cells) == texts(&new.cells) {
            true => "the order of its cells",
            false => RESPELT,
        };
        differences.push(note(&new.stage, text.to_owned()));
    }
    for name in changed {
        let (old, now) = (before.get(name).copied(), now.get(name).copied());
        let at = now.or(old).map(|cell| cell.coordinates.to_string());
        let input = crate::place::cell_text(&new.stage, &at.unwrap_or_default());
        one_cell(&input, old, now, read, differences);
    }
}

/// What differs if cells are the same and their coordinates are written in another way.
const RESPELT: &str = "only the order of its axes, or how their labels are written";

/// Returns whether two cells at the same place are the same, however their coordinates are written.
fn same(a: Option<&RecipeCell>, b: Option<&RecipeCell>) -> bool {
    a.zip(b).is_some_and(|(a, b)| {
        let coordinates = b.coordinates.clone();
        RecipeCell {
            coordinates,
            ..a.clone()
        } == *b
    })
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
        Some(&json!(old.coordinates.canonical())),
        Some(&json!(new.coordinates.canonical())),
        differences,
    );
    if old.coordinates.canonical() == new.coordinates.canonical()
        && old.coordinates != new.coordinates
    {
        differences.push(note(input, RESPELT.to_owned()));
    }
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
    use artifacts::Scalar;

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
                cell.coordinates.0[0].1 = Scalar::Int(i);
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
            ["input `server` changed: of 10 cells, 10 new"]
        );
    }

    /// Returns a recipe whose input has a cell for each pair of labels.
    fn grid(labels: &[i64], spelt: &dyn Fn(i64, i64) -> Coordinates) -> Recipe {
        let mut recipe = sample();
        let cell = recipe.inputs[0].cells[0].clone();
        let pairs = labels
            .iter()
            .flat_map(|a| labels.iter().map(move |b| (*a, *b)));
        let cells = pairs.map(|(a, b)| RecipeCell {
            coordinates: spelt(a, b),
            ..cell.clone()
        });
        recipe.inputs[0].cells = cells.collect();
        recipe
    }

    #[test]
    fn cells_are_the_same_whatever_the_order_of_their_axes_and_the_spelling_of_their_labels() {
        let pair = |axis: &str, label| (axis.to_owned(), label);
        let plain = |a, b| Coordinates(vec![pair("x", Scalar::Int(a)), pair("y", Scalar::Int(b))]);
        let turned = |a, b| {
            Coordinates(vec![
                pair("y", Scalar::Float(b as f64)),
                pair("x", Scalar::Int(a)),
            ])
        };
        let (old, new) = (grid(&[0, 1, 2], &plain), grid(&[0, 1, 2], &turned));
        assert_eq!(
            texts(&new, &old, &|_| None),
            [format!("input `server` changed: {RESPELT}")]
        );
        let other = grid(&[1, 2, 3], &turned);
        assert_eq!(
            texts(&other, &old, &|_| None),
            ["input `server` changed: of 9 cells, 5 new, 5 gone"]
        );
    }

    #[test]
    fn items_of_a_list_are_compared_by_their_names() {
        let tables = |names: &[&str], column: &str| {
            let mut recipe = sample();
            let table = |name: &&str| json!({"name": name, "parameters": {"column": column}});
            recipe.parameters["tables"] = names.iter().map(table).collect();
            recipe
        };
        let old = tables(&["cells", "cmp"], "a");
        let none = |_: &Digest| None;
        assert_eq!(
            texts(&tables(&["cells"], "a"), &old, &none),
            ["`tables.cmp` is gone"]
        );
        assert_eq!(
            texts(&tables(&["cells", "new", "cmp"], "b"), &old, &none),
            [
                "`tables.cells.parameters.column` a → b",
                "`tables.cmp.parameters.column` a → b",
                "`tables.new` is new"
            ]
        );
        assert_eq!(
            texts(&tables(&["cmp", "cells"], "a"), &old, &none),
            [r#"`tables` ["cells","cmp"] → ["cmp","cells"]"#]
        );
    }
}
