//! The claims of an experiment as digests, which records keep: of their words, and of the tests that they rest on.
//!
//! A report compares them with the present ones, so it can show which claims were declared before a cell was measured, and
//! whether a margin, a level or the number of tests changed afterwards.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Digest;

use crate::stage::Json;

/// Returns the digest of each claim of an experiment's canonical form, by name: of its sentences and rules.
pub fn claims_digests(spec: &Json) -> BTreeMap<String, Digest> {
    each_claim(spec)
        .map(|(name, claim)| (name.clone(), digest(claim)))
        .collect()
}

/// Returns the digest of the tests behind each claim of an experiment's canonical form, by name: the definitions of the
/// tables that its rules name, of the tables that these are made from, and the gates that decide which cells count. If one
/// of them shares its level with all tests of the study, the definitions of those belong to it, too.
pub fn tests_digests(spec: &Json) -> BTreeMap<String, Digest> {
    each_claim(spec)
        .map(|(name, claim)| (name.clone(), digest(&tests_of(claim, spec))))
        .collect()
}

fn each_claim(spec: &Json) -> impl Iterator<Item = (&String, &Json)> {
    spec.get("claims")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
}

/// Returns the digest of JSON with sorted keys.
fn digest(value: &Json) -> Digest {
    let mut value = value.clone();
    value.sort_all_objects();
    Digest::of(value.to_string().as_bytes())
}

/// A table of a stage.
type Place<'a> = (&'a str, &'a str);

/// The tables and stages that a claim rests on, collected so far.
struct Followed<'a> {
    spec: &'a Json,
    places: BTreeSet<Place<'a>>,
    stages: BTreeSet<&'a str>,
    /// The places whose definitions were not followed yet.
    open: Vec<Place<'a>>,
}

impl<'a> Followed<'a> {
    /// Adds what a text names; `inside` is the stage whose definition contains it.
    fn add(&mut self, text: &str, inside: Option<&str>) {
        let Some((stage, place)) = place_meant(text, inside, self.spec) else {
            return;
        };
        self.stages.insert(stage);
        if let Some(place) = place.filter(|place| self.places.insert(*place)) {
            self.open.push(place);
        }
    }

    /// Follows the definitions to those that they name. If one shares its level with all tests of the study, the others of
    /// this family divide the level, so they belong to it.
    fn follow(&mut self) {
        while let Some((stage, table)) = self.open.pop() {
            let definition = &tables(self.spec, stage)[table];
            // A query names its tables inside its text.
            let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            for_each_text(definition, &mut |text| {
                for name in text.split(|c| !is_name(c)) {
                    self.add(name, Some(stage));
                }
            });
            if tests_for_the_study(definition) {
                for (stage, table, definition) in every_table(self.spec) {
                    if tests_for_the_study(definition) {
                        self.add(&format!("{stage}.{table}"), None);
                    }
                }
            }
        }
    }
}

/// Returns everything but the measurements that decides a claim.
fn tests_of(claim: &Json, spec: &Json) -> Json {
    let mut followed = Followed {
        spec,
        places: BTreeSet::new(),
        stages: BTreeSet::new(),
        open: Vec::new(),
    };
    for_each_text(claim, &mut |text| followed.add(text, None));
    followed.follow();
    let definitions = followed.places.iter().map(|(stage, table)| {
        let definition = tables(spec, stage)[*table].clone();
        (format!("{stage}.{table}"), definition)
    });
    let definitions: serde_json::Map<String, Json> = definitions.collect();
    let stages = followed.stages.iter().copied();
    // A stage without tables of its own is in the digest as a whole.
    let others = stages.clone().filter(|stage| tables(spec, stage).is_null());
    let needed = stages.flat_map(|stage| needs(spec, stage));
    let gates = needed.filter(|stage| spec["stages"][*stage]["kind"] == "verify");
    let settings: serde_json::Map<String, Json> = others
        .chain(gates)
        .map(|stage| (stage.to_owned(), spec["stages"][stage]["settings"].clone()))
        .collect();
    serde_json::json!({ "tables": definitions, "stages": settings })
}

/// Returns the definitions of a stage's tables; null if it defines none.
fn tables<'a>(spec: &'a Json, stage: &str) -> &'a Json {
    &spec["stages"][stage]["settings"]["tables"]
}

fn every_table(spec: &Json) -> impl Iterator<Item = (&str, &str, &Json)> {
    let stages = spec["stages"].as_object().into_iter().flatten();
    stages.flat_map(move |(stage, _)| {
        let tables = tables(spec, stage).as_object().into_iter().flatten();
        tables.map(move |(table, definition)| (stage.as_str(), table.as_str(), definition))
    })
}

fn needs<'a>(spec: &'a Json, stage: &str) -> impl Iterator<Item = &'a str> {
    let needs = spec["stages"][stage]["needs"]
        .as_array()
        .into_iter()
        .flatten();
    needs.filter_map(Json::as_str)
}

/// Returns the stage that a text names, and its table if the stage defines tables: `results.comparison`, or `comparison`
/// inside of `results`.
fn place_meant<'a>(
    text: &str,
    inside: Option<&str>,
    spec: &'a Json,
) -> Option<(&'a str, Option<Place<'a>>)> {
    let (stage, table) = match (text.split_once('.'), inside) {
        (Some((stage, table)), _) => (stage, table),
        (None, Some(stage)) => (stage, text),
        (None, None) => return None,
    };
    let (stage, _) = spec["stages"].as_object()?.get_key_value(stage)?;
    let defined = tables(spec, stage).as_object();
    match defined {
        None if inside.is_none() => Some((stage, None)),
        None => None,
        Some(defined) => {
            let (table, _) = defined.get_key_value(table)?;
            Some((stage, Some((stage, table))))
        }
    }
}

/// Returns whether a table has tests that share their level with all tests of the study, as comparisons do unless they
/// declare another family.
fn tests_for_the_study(definition: &Json) -> bool {
    let operator = definition["operator"].as_str().unwrap_or_default();
    let family = definition["family"].as_str().unwrap_or("study");
    operator.ends_with("comparison") && family == "study"
}

/// Calls a function with every text in a value.
fn for_each_text(value: &Json, call: &mut dyn FnMut(&str)) {
    match value {
        Json::String(text) => call(text),
        Json::Array(items) => items.iter().for_each(|item| for_each_text(item, call)),
        Json::Object(entries) => entries
            .values()
            .for_each(|value| for_each_text(value, call)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn study() -> Json {
        json!({
            "claims": {"a": {"says": "It is faster.", "rule": {"different": {"table": "results.versus"}}}},
            "stages": {
                "checks": {"kind": "verify", "needs": [], "settings": {"gates": [{"gate": "census"}]}},
                "results": {"kind": "analyze", "needs": ["checks"], "settings": {"tables": {
                    "cells": {"operator": "cell-summary"},
                    "versus": {"operator": "paired-comparison", "from": "cells", "alpha": 0.05},
                    "other": {"operator": "unpaired-comparison", "from": "cells"},
                    "asked": {"operator": "sql", "query": "select * from versus where p < 1"},
                    "drawn": {"operator": "aggregate", "from": "cells"},
                }}},
            },
        })
    }

    fn digest_after(change: impl FnOnce(&mut Json)) -> Digest {
        let mut spec = study();
        change(&mut spec);
        tests_digests(&spec)["a"]
    }

    #[test]
    fn whatever_decides_a_claim_is_in_the_digest_of_its_tests() {
        let before = digest_after(|_| ());
        let tables = "/stages/results/settings/tables";
        let set = |path: &str, value: Json| {
            digest_after(|spec| {
                let (parent, key) = path.rsplit_once('/').unwrap();
                spec.pointer_mut(parent).unwrap()[key] = value;
            })
        };
        assert_ne!(set(&format!("{tables}/versus/alpha"), json!(0.2)), before);
        assert_ne!(set(&format!("{tables}/versus/margin"), json!(0.25)), before);
        assert_ne!(
            set(&format!("{tables}/cells/columns"), json!(["x"])),
            before
        );
        assert_ne!(set("/stages/checks/settings/gates", json!([])), before);
        // A table that the claim does not rest on.
        assert_eq!(set(&format!("{tables}/drawn/over"), json!(["rep"])), before);
        assert_eq!(set("/claims/a/says", json!("It is slower.")), before);
        // The number of tests of its family divides the level.
        assert_ne!(
            set(&format!("{tables}/other/columns"), json!(["x"])),
            before
        );
        let fewer = digest_after(|spec| {
            let tables = spec.pointer_mut(tables).unwrap();
            tables.as_object_mut().unwrap().remove("other");
        });
        assert_ne!(fewer, before);
        // A query names its table inside its text.
        let asked = |alpha: f64| {
            digest_after(|spec| {
                spec["claims"]["a"]["rule"] =
                    json!({"every": {"table": "results.asked", "that": "p < 1"}});
                spec.pointer_mut(tables).unwrap()["versus"]["alpha"] = json!(alpha);
            })
        };
        assert_ne!(asked(0.05), asked(0.2));
    }
}
