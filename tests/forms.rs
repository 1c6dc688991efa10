//! Values of the wrong shape. The message shows the form to copy, and the form itself is right.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::mistakes::{hinted, planned, written};
use crate::support::Project;

const REQUESTS: &str = "requests: 16";
const DESIGN: &str = "design: {blocks: 3}";

fn one(project: &Project, from: &str, to: &str, hint: &str) {
    let message = hinted(project, from, to, &format!("hint: {hint}\n"));
    assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    assert!(message.contains("spoilt.yaml:"), "{to}: {message}");
}

#[test]
fn keys_of_a_stage_at_the_top_of_the_file_get_their_place() {
    let project = written();
    let top = |text: &str| format!("{text}\naxes:\n");
    for key in ["retries", "timeout", "exclusive", "needs", "over", "kind"] {
        let hint =
            format!("`{key}` is a key of a stage, below its name in `stages`: move it there");
        one(&project, "axes:\n", &top(&format!("{key}: 2")), &hint);
    }
    let exclude = "it is a key of a stage: `stages: {NAME: {exclude: [{where: {AXIS: LABEL}, reason: TEXT}]}}`";
    for given in [
        "exclude: [{clients: 2}]",
        "exclude: {clients: 2}",
        "exclude: [{where: {clients: 2}, reason: slow}]",
    ] {
        one(&project, "axes:\n", &top(given), exclude);
    }
    let include = "include: [{coordinates: {clients: 5}, reason: more}]";
    let message = planned(&project, "axes:\n", &top(include));
    let form = "`stages: {NAME: {include: [{coordinates: {AXIS: LABEL}, reason: TEXT}]}}`";
    assert!(message.contains(form), "{message}");
}

#[test]
fn an_exclusion_in_another_shape_gets_the_whole_form_and_its_wrong_labels() {
    let project = written();
    let more = |text: &str| format!("requests: 16\n    {text}");
    for (given, hint) in [
        (
            "exclude: [{clients: 2}]",
            "write `{where: {clients: 2}, reason: TEXT}`",
        ),
        (
            "exclude: [{clients: 2, reason: slow}]",
            "write `where: {clients: 2}`",
        ),
        (
            "exclude: clients=2",
            "write a list: `[{where: {AXIS: LABEL}, reason: TEXT}]`",
        ),
        (
            "exclude: {clients: 2}",
            "write a list: `[{where: {AXIS: LABEL}, reason: TEXT}]`",
        ),
        (
            "include: [{clients: 5}]",
            "write `{coordinates: {clients: 5}, reason: TEXT}`",
        ),
        (
            "include: 5",
            "write a list: `[{coordinates: {AXIS: LABEL}, reason: TEXT}]`",
        ),
    ] {
        one(&project, REQUESTS, &more(given), hint);
    }
    // A label that does not exist is reported at once, not only after the shape is right.
    let message = planned(&project, REQUESTS, &more("exclude: [{clients: 3}]"));
    for expected in [
        "hint: write `{where: {clients: 3}, reason: TEXT}`\n",
        "error: `3` is not a label of the axis `clients`\n",
        "hint: the labels of `clients` are `1`, `2`, `4`\n",
    ] {
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(message.matches("error: ").count(), 2, "{message}");
}

#[test]
fn a_number_of_blocks_that_follows_from_the_results_gets_a_rule_that_plans() {
    let project = written();
    let rule = "{relative-half-width: 5 %, of: output_throughput, at-most: 20}";
    let hint = format!(
        "write `blocks: 5, until: {rule}`, which adds blocks until the figure is known this precisely"
    );
    for blocks in ["{until: 0.05}", "{min: 3, max: 10}", "until", "auto"] {
        let to = format!("design: {{blocks: {blocks}}}");
        one(&project, DESIGN, &to, &hint);
    }
    let until = |text: &str| format!("design: {{blocks: 3, until: {text}}}");
    one(
        &project,
        DESIGN,
        &until("{ratio: 0.05}"),
        &format!("write it as `{rule}`"),
    );
    let or = format!("write it as `{rule}`, or one of `none`");
    one(&project, DESIGN, &until("converged"), &or);
    let study = std::fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    let right = study.replacen(DESIGN, &format!("design: {{blocks: 5, until: {rule}}}"), 1);
    std::fs::write(project.path().join("right.yaml"), right).expect("a file");
    project.run(["plan", "right.yaml"]).ok();
}

#[test]
fn a_value_in_place_of_a_mapping_gets_an_example() {
    let project = written();
    let more = |text: &str| format!("requests: 16\n    {text}");
    for (given, form) in [
        ("telemetry: true", "{interval: 500 ms, gpu: auto}"),
        ("telemetry: [gpu, host]", "{interval: 500 ms, gpu: auto}"),
    ] {
        let hint = format!("hint: write it as `{form}`; what belongs here: ");
        let message = hinted(&project, REQUESTS, &more(given), &hint);
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
    let profiles = "hint: write it as `{set: {NAME: VALUE}, axes: {AXIS: [LABEL]}}`";
    hinted(
        &project,
        "axes:\n",
        "profiles: {smoke: 3}\naxes:\n",
        profiles,
    );
}

#[test]
fn a_missing_key_with_few_values_gets_them() {
    let project = written();
    let cells = "cells: {operator: cell-summary}";
    let ranking = format!(
        "{cells}\n      best: {{operator: ranking, from: cells, axis: clients, column: output_throughput}}"
    );
    let message = planned(&project, cells, &ranking);
    for hint in [
        "hint: write `among`\n",
        "hint: add `better:`, one of `higher`, `lower` (Which direction is better)\n",
    ] {
        assert!(message.contains(hint), "{message}");
    }
    assert_eq!(message.matches("error: ").count(), 2, "{message}");
}

#[test]
fn a_text_of_several_lines_inside_braces_gets_quotes() {
    let project = written();
    let table = |query: &str| {
        format!(
            "cells: {{operator: cell-summary}}\n      n: {{operator: sql, keys: [clients], query: {query}}}"
        )
    };
    for query in [
        ">-\n        select clients, 1 as n from cells",
        "|\n        select 1",
    ] {
        let sign = query.split('\n').next().expect("a line");
        let message = hinted(
            &project,
            "cells: {operator: cell-summary}",
            &table(query),
            "hint: put the text in quotes: `query: \"…\"`\n",
        );
        let said = format!("error: a text of several lines (`{sign}`) cannot be inside braces\n");
        assert!(message.contains(&said), "{message}");
    }
}

/// Every mapping of a schema, with its route.
fn mappings<'s>(
    schema: &'s Value,
    root: &'s Value,
    route: &str,
    out: &mut Vec<(String, Map<String, Value>)>,
) {
    if route.matches('.').count() > 9 {
        return;
    }
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    while let Some(target) = whole.remove("$ref") {
        let target = target
            .as_str()
            .and_then(|at| root.pointer(at.strip_prefix('#')?));
        let target = target
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        for (key, value) in target {
            whole.entry(key).or_insert(value);
        }
    }
    for (key, below) in whole
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        mappings(below, root, &format!("{route}.{key}"), out);
    }
    for key in ["additionalProperties", "items", "then", "else"] {
        if let Some(below) = whole.get(key) {
            let step = if ["then", "else"].contains(&key) {
                ""
            } else {
                ".*"
            };
            mappings(below, root, &format!("{route}{step}"), out);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for below in whole
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            mappings(below, root, route, out);
        }
    }
    if whole.get("type").is_some_and(|kind| kind == "object") && whole.contains_key("properties") {
        out.push((route.to_owned(), whole));
    }
}

/// The keys of a mapping in braces.
fn keys(form: &str) -> Vec<&str> {
    let mut depth = 0;
    let inner = form.trim().trim_start_matches('{');
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let entries = inner.split(|c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    entries
        .filter_map(|entry| entry.trim().split(':').next())
        .collect()
}

#[test]
fn every_mapping_whose_keys_are_optional_has_an_example_of_its_own_keys() {
    let project = Project::new();
    let schema = project.run(["schema"]).ok().stdout;
    let schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    let mut all = Vec::new();
    mappings(&schema, &schema, "", &mut all);
    assert!(all.len() > 100, "{} mappings", all.len());
    let mut lacking = BTreeSet::new();
    for (route, mapping) in &all {
        let properties = mapping["properties"]
            .as_object()
            .expect("they are a mapping");
        let form = mapping.get("x-form").and_then(Value::as_str);
        for key in form.map(keys).unwrap_or_default() {
            assert!(
                properties.contains_key(key) || mapping.contains_key("additionalProperties"),
                "{route}: no key `{key}` for {form:?}"
            );
        }
        // A gate and an operator are known by their names.
        let by_name = ["gates.*", "tables.*"]
            .iter()
            .any(|end| route.ends_with(end));
        let required = mapping.get("required").and_then(Value::as_array);
        if required.is_none_or(Vec::is_empty)
            && form.is_none()
            && !mapping.contains_key("x-alone")
            && !by_name
            && !["", ".stages.*", ".overrides.*.where"].contains(&route.as_str())
        {
            lacking.insert(route.clone());
        }
    }
    assert!(lacking.is_empty(), "no example: {lacking:#?}");
}
