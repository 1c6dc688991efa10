//! The schema for editors.

use pipeline::experiment_schema;
use serde_json::Value;

use crate::kinds::registry;

#[test]
fn every_kind_is_one_closed_alternative_with_the_common_keys() {
    let schema = experiment_schema(&registry().0).to_value();
    let stages = schema["properties"]["stages"]["additionalProperties"]["oneOf"]
        .as_array()
        .unwrap();
    let kinds: Vec<&Value> = stages
        .iter()
        .map(|s| &s["properties"]["kind"]["const"])
        .collect();
    assert_eq!(kinds, ["prepare", "measure", "tabulate"]);
    for stage in stages {
        assert_eq!(stage["additionalProperties"], false);
        for key in [
            "needs",
            "over",
            "exclude",
            "include",
            "timeout",
            "retries",
            "exclusive",
        ] {
            assert!(stage["properties"][key].is_object(), "{key}");
        }
    }
    assert!(
        stages[1]["required"]
            .as_array()
            .unwrap()
            .contains(&"workload".into())
    );
    assert_eq!(
        stages[1]["properties"]["requests"]["description"],
        "Measured requests."
    );
}

#[test]
fn every_reference_of_the_schema_leads_somewhere() {
    let schema = experiment_schema(&registry().0).to_value();
    let mut references = Vec::new();
    collect(&schema, &mut references);
    assert!(references.len() > 5);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(schema.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn definitions_are_sections_of_the_file() {
    let schema = experiment_schema(&registry().0).to_value();
    let definition = &schema["properties"]["workloads"]["additionalProperties"];
    assert!(definition["then"]["properties"]["extends"].is_object());
    assert!(definition["else"]["properties"]["output_tokens"].is_object());
}

fn collect(schema: &Value, references: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "$ref" => references.push(text.clone()),
                    value => collect(value, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
