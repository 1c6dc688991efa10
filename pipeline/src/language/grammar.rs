//! The shape of an experiment file as Rust types. They define the schema for both the check and the editors
//! ([`experiment_schema`]).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::Deserialize;
use serde_json::{Map, json};

use super::design_file::DesignFile;
use super::settings::DurationText;
use crate::experiment::Order;
use crate::reuse::Reuse;
use crate::stage::{Json, Registry};

/// An experiment: one study, from its axes to its report.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "name": "`experiment`",
    "study": "`experiment`",
    "description": "`question`",
    "steps": "`stages`",
    "pipeline": "`stages`",
    "jobs": "`stages`",
    "services": "`stages`",
    "tasks": "`stages`",
    "rules": "`stages`",
    "strategy": "`axes`",
    "foreach": "`axes`",
    "env": "`environment` of a provision stage",
    "params": "`parameters`",
    "variables": "`parameters`",
    "vars": "`parameters`",
    "matrix": "`axes`",
    "sweep": "`axes`",
    "exclude": "a key of a stage: `stages: {NAME: {exclude: [{where: {AXIS: LABEL}, reason: TEXT}]}}`",
    "gates": "a key of a stage of kind `verify`",
    "tables": "a key of a stage of kind `analyze` or `report`",
    "engine": "a key of a stage of kind `provision`",
    "model": "a key of a stage of kind `provision`",
    "blocks": "`design: {blocks: N}`",
    "repeat": "`design: {blocks: N}`",
    "repetitions": "`design: {blocks: N}`",
    "repeats": "`design: {blocks: N}`",
    "runs": "`design: {blocks: N}`",
    "trials": "`design: {blocks: N}`",
    "replicates": "`design: {blocks: N}`",
    "iterations": "`design: {blocks: N}`",
    "num-runs": "`design: {blocks: N}`",
    "workflow": "`stages`",
    "dimensions": "`axes`",
    "factors": "`axes`",
    "include": "`extends: FILE`, for one file that this file changes; for more cells, it is a key of a stage: `stages: {NAME: {include: [{coordinates: {AXIS: LABEL}, reason: TEXT}]}}`",
    "import": "`extends: FILE`, for one file that this file changes",
    "requests": "a key of a stage of kind `load`",
    "arrival": "a key of a stage of kind `load`",
    "workload": "a key of a stage of kind `load`",
    "figures": "a key of a stage of kind `report`",
    "on": "not needed: you start a study with `benchtrail run`",
    "version": "not needed: leave it out",
    "tags": "not needed: leave it out",
    "author": "given when you publish: `benchtrail publish EXPERIMENT --author NAME`",
}))]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct ExperimentFile {
    /// Another experiment that this file changes: a path relative to the folder of the experiment
    /// that you run.
    extends: Option<String>,
    /// The experiment's name, which also names the lock and the reports.
    #[schemars(length(min = 1))]
    experiment: String,
    /// The title of the report.
    title: Option<String>,
    /// The question the experiment answers.
    question: Option<String>,
    /// The seed from which every random stream derives.
    #[schemars(extend("x-other-words" = {
        "random": "a fixed number, such as `seed: 7`: each run with it sends the same requests",
        "auto": "a fixed number, such as `seed: 7`: each run with it sends the same requests",
        "time": "a fixed number, such as `seed: 7`: each run with it sends the same requests",
        "none": "a fixed number, such as `seed: 7`: each run with it sends the same requests",
        "-1": "a fixed number, such as `seed: 7`: each run with it sends the same requests",
    }))]
    seed: u64,
    /// The order of measurements on one server.
    #[serde(default)]
    order: Order,
    /// Which measurements of others the study may use, if a shared store has them.
    #[serde(default)]
    reuse: Reuse,
    /// How the study is replicated: blocks, their unit and their order.
    design: Option<DesignFile>,
    /// Named values with types and defaults, used as `${name}`; `--set name=value` changes one.
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    /// Named sets of parameter values and axis replacements; `--profile name` selects one.
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    /// Named lists of values over which stages are expanded.
    #[serde(default)]
    axes: BTreeMap<String, Axis>,
    /// The stages, each under its name.
    #[schemars(extend("minProperties" = 1))]
    stages: BTreeMap<String, Map<String, Json>>,
    /// Changes to single cells, each with its reason; all other cells stay cached.
    #[serde(default)]
    overrides: Vec<Override>,
}

/// A parameter of the experiment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-alone" = "default"))]
pub(crate) struct Parameter {
    /// The type of its values.
    #[serde(rename = "type")]
    pub(crate) kind: ParameterType,
    /// The least value allowed.
    pub(crate) min: Option<f64>,
    /// The greatest value allowed.
    pub(crate) max: Option<f64>,
    /// The value unless another is set.
    #[expect(dead_code, reason = "read from the tree, with its place")]
    pub(crate) default: Option<Json>,
    /// The values allowed.
    #[schemars(length(min = 1))]
    #[expect(dead_code, reason = "read from the tree, with its place")]
    pub(crate) choices: Option<Vec<Json>>,
    /// The purpose of the parameter, for readers.
    #[expect(
        dead_code,
        reason = "for people and for the specification, which copies the tree"
    )]
    pub(crate) help: Option<String>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "int": "`integer`", "str": "`text`", "string": "`text`", "enum": "`text`", "choice": "`text`", "path": "`text`",
    "float": "`number`", "double": "`number`", "bool": "`boolean`", "array": "`list`", "time": "`duration`",
}))]
pub(crate) enum ParameterType {
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// A span of time such as `30 s`.
    Duration,
    /// A list of texts, numbers or truth values; on the command line separated by commas.
    List,
}

/// A named set of parameter values and axis replacements.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-form" = "{set: {NAME: VALUE}, axes: {AXIS: [LABEL]}}", "x-other-words" = {
    "parameters": "`set: {NAME: VALUE}`",
    "stages": "`set: {NAME: VALUE}`, with the parameter `${NAME}` in the stage",
    "overrides": "`set: {NAME: VALUE}`, with the parameter `${NAME}` in the stage",
    "description": "`help`",
}))]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct Profile {
    /// Parameter values.
    #[serde(default)]
    set: BTreeMap<String, Json>,
    /// Axes that replace those of the same name; for an axis in mapping form a list of its labels.
    #[serde(default)]
    axes: BTreeMap<String, Axis>,
    /// Keys of the design that replace those of the same name.
    design: Option<DesignFile>,
    /// The purpose of the profile, for readers.
    help: Option<String>,
}

/// An axis: a list of labels, a range, or a mapping from labels to fields.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) enum Axis {
    /// Labels in order; one with fields is written `label: {field: value}`.
    List(Vec<Label>),
    /// Numbers at equal distances, both ends included.
    Range(Range),
    /// Labels, sorted by name, with the fields behind each.
    Fields(BTreeMap<String, BTreeMap<String, Json>>),
}

/// A label in a list.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) enum Label {
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text.
    Text(String),
    /// A label with fields.
    Fields(
        #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
        BTreeMap<String, BTreeMap<String, Json>>,
    ),
}

/// Numbers at equal distances.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    /// The first number.
    pub(crate) from: f64,
    /// The last number.
    pub(crate) to: f64,
    /// The distance, 1 unless given.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) step: Option<f64>,
}

/// The keys that stages of every kind have.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct StageCommon {
    /// The kind of the stage.
    kind: String,
    /// The purpose of the stage, for readers.
    description: Option<String>,
    /// The stages whose outputs it reads.
    #[serde(default)]
    needs: Vec<String>,
    /// The axes over which it is expanded; the last one varies fastest.
    #[serde(default)]
    over: Vec<String>,
    /// Cells left out, each with its reason.
    #[serde(default)]
    exclude: Vec<Exclude>,
    /// Cells beyond the product of the axes, each with its reason.
    #[serde(default)]
    include: Vec<Include>,
    /// The time limit of one cell.
    timeout: Option<DurationText>,
    /// How often a failed cell is retried.
    #[schemars(range(max = 100))]
    retries: Option<u32>,
    /// Named resources that a cell holds alone while it executes.
    #[serde(default)]
    exclusive: Vec<String>,
}

/// Cells left out.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-form" = "{where: {AXIS: LABEL}, reason: TEXT}"))]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct Exclude {
    /// Axis labels, one or a list for each axis; a cell that agrees with all is left out.
    #[serde(rename = "where")]
    #[schemars(extend("minProperties" = 1))]
    place: BTreeMap<String, Json>,
    /// The reason, as the report will print it.
    #[schemars(length(min = 1))]
    reason: String,
}

/// A cell beyond the product of the axes.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-form" = "{coordinates: {AXIS: LABEL}, reason: TEXT}"))]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct Include {
    /// The label on each axis of the stage; numeric axes may get new numbers.
    coordinates: BTreeMap<String, Json>,
    /// The reason, as the report will print it.
    #[schemars(length(min = 1))]
    reason: String,
}

/// A change to single cells.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-form" = "{where: {stage: STAGE, AXIS: LABEL}, set: {KEY: VALUE}, reason: TEXT}"))]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct Override {
    /// The stage, and axis labels that choose its cells.
    #[serde(rename = "where")]
    place: OverridePlace,
    /// New values: `timeout`, `retries`, or settings of the stage as a dotted path.
    #[schemars(extend("minProperties" = 1))]
    set: BTreeMap<String, Json>,
    /// The reason, as the report will print it.
    #[schemars(length(min = 1))]
    reason: String,
}

/// The cells an override changes.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "only its schema is used: the tree is read with its places"
)]
pub(crate) struct OverridePlace {
    /// The stage.
    stage: String,
}

/// Returns the schema of the file without the stages' settings and the definitions.
pub(crate) fn file_schema() -> Json {
    schema_for!(ExperimentFile).to_value()
}

/// Returns the keys at the top of the file, without the collections of definitions.
pub(crate) fn file_keys() -> Vec<String> {
    let schema = file_schema();
    let properties = schema["properties"].as_object();
    let keys = properties.into_iter().flatten();
    keys.map(|(key, _)| key.clone()).collect()
}

/// Returns the schema of the keys that stages of every kind have.
pub(crate) fn common_schema() -> Json {
    schema_for!(StageCommon).to_value()
}

/// Returns the JSON Schema of a whole experiment file: the language, the settings of every registered stage kind, and
/// the definitions of every collection.
pub fn experiment_schema(registry: &Registry) -> Schema {
    let mut root = file_schema();
    // Keys that are missing in an extending file may be in the file it extends.
    let required = root["required"].take();
    root["if"] = json!({ "required": ["extends"] });
    root["then"] = json!({ "required": ["experiment"] });
    root["else"] = json!({ "required": required });
    if let Some(root) = root.as_object_mut() {
        root.remove("required");
    }
    let mut definitions = root["$defs"].as_object().cloned().unwrap_or_default();
    let mut stages = Vec::new();
    for kind in &registry.kinds {
        let mut stage = common_schema();
        adopt(&mut stage, "stage", &mut definitions);
        let mut own = kind.schema().to_value();
        adopt(&mut own, kind.name(), &mut definitions);
        allow_placeholders(&mut own);
        stage["properties"]["kind"] =
            json!({ "const": kind.name(), "description": "The kind of the stage." });
        stages.push(merge(stage, own));
    }
    root["properties"]["stages"]["additionalProperties"] = json!({ "oneOf": stages });
    for (collection, schema) in &registry.collections {
        let mut schema = schema.clone().to_value();
        adopt(&mut schema, collection, &mut definitions);
        root["properties"][*collection] = json!({
            "type": "object",
            "description": format!("Definitions of {} that belong to this experiment.", collection.replace('-', " ")),
            "additionalProperties": {
                "if": { "required": ["extends"] },
                "then": change_of(&schema),
                "else": schema,
            },
        });
    }
    // Parameters and profiles contain literal values.
    let literal = |name: &str| name.starts_with("Parameter") || name == "Profile";
    for (name, definition) in &mut definitions {
        if !literal(name) {
            allow_placeholders(definition);
        }
    }
    for key in ["seed", "order", "reuse", "design"] {
        let mut one = json!({ "properties": { key: root["properties"][key].take() } });
        allow_placeholders(&mut one);
        root["properties"][key] = one["properties"][key].take();
    }
    root["$defs"] = Json::Object(definitions);
    root["title"] = json!("A Benchtrail experiment");
    Schema::try_from(root).expect("an object is a schema")
}

/// Returns the schema of a definition that extends another: its keys are known, and each value may be partial.
fn change_of(definition: &Json) -> Json {
    let mut change = json!({
        "type": "object",
        "required": ["extends"],
        "properties": { "extends": { "type": "string", "description": "The definition this one changes." } },
    });
    // A schema whose keys depend on a choice of form is not examined.
    if let Some(properties) = definition["properties"].as_object() {
        for (key, schema) in properties {
            let description = schema.get("description").cloned().unwrap_or_default();
            change["properties"][key] =
                json!({ "description": description.as_str().unwrap_or_default() });
        }
        change["additionalProperties"] = json!(false);
    }
    change
}

/// Moves the definitions of a schema into those of the whole schema, under `OWNER.NAME`.
fn adopt(schema: &mut Json, owner: &str, definitions: &mut Map<String, Json>) {
    rename(schema, owner);
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
        map.remove("title");
        if let Some(Json::Object(own)) = map.remove("$defs") {
            definitions.extend(
                own.into_iter()
                    .map(|(name, d)| (format!("{owner}.{name}"), d)),
            );
        }
    }
}

fn rename(schema: &mut Json, owner: &str) {
    match schema {
        Json::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Json::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix("#/$defs/") {
                            *target = format!("#/$defs/{owner}.{name}");
                        }
                    }
                    value => rename(value, owner),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, owner)),
        _ => {}
    }
}

/// Merges the common keys and the settings of a kind into one closed object.
fn merge(mut stage: Json, own: Json) -> Json {
    let Json::Object(own) = own else { return stage };
    for (keyword, value) in own {
        match (keyword.as_str(), value) {
            ("properties", Json::Object(properties)) => {
                let all = stage["properties"]
                    .as_object_mut()
                    .expect("the common keys are properties");
                for (name, schema) in properties {
                    all.entry(name).or_insert(schema);
                }
            }
            ("required", Json::Array(names)) => {
                stage["required"]
                    .as_array_mut()
                    .expect("`kind` is required")
                    .extend(names);
            }
            ("type" | "additionalProperties", _) => {}
            (_, value) => stage[keyword] = value,
        }
    }
    let open = stage
        .get("oneOf")
        .or_else(|| stage.get("anyOf"))
        .or_else(|| stage.get("$ref"))
        .is_some();
    stage[if open {
        "unevaluatedProperties"
    } else {
        "additionalProperties"
    }] = json!(false);
    stage
}

/// Allows a placeholder in place of every property and item that is not text.
fn allow_placeholders(schema: &mut Json) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    let wrap = |schema: &mut Json| {
        allow_placeholders(schema);
        let text = schema["type"] == "string"
            && schema.get("enum").is_none()
            && schema["format"].is_null();
        if text || !schema.is_object() || schema.get("const").is_some() {
            return;
        }
        let description = schema.get("description").cloned();
        *schema =
            json!({ "anyOf": [schema.take(), { "type": "string", "pattern": r"\$\{[^}]+\}" }] });
        if let Some(description) = description {
            schema["description"] = description;
        }
    };
    for (keyword, value) in map.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Json::Object(properties)) => properties.values_mut().for_each(wrap),
            ("items", value) => wrap(value),
            ("additionalProperties", value) if value.is_object() => wrap(value),
            ("oneOf" | "anyOf" | "allOf", Json::Array(all)) => {
                all.iter_mut().for_each(allow_placeholders);
            }
            _ => {}
        }
    }
}
