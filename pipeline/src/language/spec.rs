//! The canonical form of an experiment, for reports and for the keys of stages that see it.
//!
//! All objects have sorted keys; ordered data is in lists. See the module `language` for the shape.

use serde_json::{Map, json};
use typed_index_collections::TiSlice;

use super::axes::{Axes, AxisDraft};
use super::design::design_json;
use super::interpolate::{Scope, Values};
use super::settings::DurationText;
use super::stages::{Draft, Drafts};
use super::tree::{Node, Value};
use crate::design::Design;
use crate::experiment::{Experiment, Stage};
use crate::ids::{AxisId, StageId};
use crate::plan::Launches;
use crate::stage::Json;

/// The parts of an experiment that go into the canonical form.
pub(crate) struct Parts<'a> {
    pub(crate) root: &'a Node,
    pub(crate) name: &'a str,
    pub(crate) seed: u64,
    pub(crate) profile: Option<&'a str>,
    pub(crate) parameters: &'a Values,
    pub(crate) axes: &'a Axes,
    pub(crate) drafts: &'a Drafts<'a>,
    pub(crate) stages: &'a TiSlice<StageId, Stage>,
    pub(crate) design: Option<&'a Design>,
}

/// Returns the canonical form.
pub(crate) fn spec(parts: &Parts) -> Json {
    let scope = Scope {
        parameters: parts.parameters,
        axes: parts.axes,
        over: &[],
        labels: &[],
    };
    let text = |key: &str| {
        parts
            .root
            .get(key)
            .map_or(Json::Null, |node| constant(node, &scope))
    };
    let parameters: Map<String, Json> = parts
        .parameters
        .iter()
        .map(|(k, v)| (k.clone(), v.clone().unwrap_or_default()))
        .collect();
    let axes: Map<String, Json> = parts
        .axes
        .iter()
        .map(|a| (a.name.clone(), axis(a)))
        .collect();
    let stages: Map<String, Json> = parts
        .stages
        .iter()
        .map(|stage| {
            let draft = parts.drafts.iter().find(|d| d.name == stage.name);
            (
                stage.name.clone(),
                self::stage(stage, draft.expect("a stage comes from a draft"), parts),
            )
        })
        .collect();
    let overrides: Vec<Json> = parts
        .root
        .get("overrides")
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .map(|node| constant(node, &scope))
        .collect();
    let mut spec = json!({
        "name": parts.name,
        "title": text("title"),
        "question": text("question"),
        "seed": parts.seed,
        "profile": parts.profile,
        "parameters": parameters,
        "axes": axes,
        "stages": stages,
        "overrides": overrides,
    });
    // Absent unless it is declared, so that the canonical form of other experiments is unchanged.
    if parts.root.get("order").is_some() {
        spec["order"] = text("order");
    }
    if parts.root.get("reuse").is_some() {
        spec["reuse"] = text("reuse");
    }
    // The purpose of the profile in force, which readers of its report need to know.
    let help = parts
        .profile
        .and_then(|name| parts.root.get("profiles")?.get(name)?.get("help"));
    if let Some(help) = help {
        spec["profile_help"] = constant(help, &scope);
    }
    if let Some(design) = parts.design {
        let unit = &parts.stages[design.unit].name;
        spec["design"] = design_json(design, unit, parts.axes);
    }
    // Reports list the stages in the order of the file, and the objects of this form are sorted by name.
    if let Some(order) = own_order(parts.stages) {
        spec["stage_order"] = json!(order);
    }
    spec.sort_all_objects();
    spec
}

/// Returns the names of the stages in the order of the file, unless their needs and names give the same order: each stage
/// once those that it needs are listed, and of several the first by name. Absent for most experiments, whose keys are
/// then those of earlier versions.
fn own_order(stages: &TiSlice<StageId, Stage>) -> Option<Vec<&str>> {
    let mut listed: Vec<StageId> = Vec::with_capacity(stages.len());
    while listed.len() < stages.len() {
        let is_next = |(id, stage): &(StageId, &Stage)| {
            !listed.contains(id) && stage.needs.iter().all(|need| listed.contains(need))
        };
        let next = stages.iter_enumerated().filter(is_next);
        let (next, _) = next.min_by(|(_, a), (_, b)| a.name.cmp(&b.name))?;
        listed.push(next);
    }
    let is_usual = listed.iter().copied().eq(stages.keys());
    (!is_usual).then(|| stages.iter().map(|stage| stage.name.as_str()).collect())
}

/// Adds the axes of each stage along which cells are measured on one launch.
pub(crate) fn add_launches(experiment: &mut Experiment, launches: &Launches) {
    for (id, stage) in experiment.stages.iter_enumerated() {
        let shared = launches.shared_axes(id);
        if !shared.is_empty() {
            experiment.spec["stages"][&stage.name]["on_one_launch"] = json!(shared);
        }
    }
    experiment.spec.sort_all_objects();
}

fn axis(axis: &AxisDraft) -> Json {
    let labels = axis.labels.iter().zip(&axis.fields);
    let label = |(label, fields): (&artifacts::Scalar, &Json)| match fields {
        Json::Null => json!({ "label": label }),
        fields => json!({ "label": label, "fields": fields }),
    };
    json!({ "labels": labels.map(label).collect::<Vec<_>>(), "declared": axis.declared })
}

fn stage(stage: &Stage, draft: &Draft, parts: &Parts) -> Json {
    let axes = |at: &[u16]| -> Json {
        let pairs = stage.over.iter().zip(at);
        Json::Object(
            pairs
                .map(|(axis, label)| {
                    let axis = &parts.axes[*axis];
                    (
                        axis.name.clone(),
                        Json::from(&axis.labels[usize::from(*label)]),
                    )
                })
                .collect(),
        )
    };
    let scope = Scope {
        parameters: parts.parameters,
        axes: parts.axes,
        over: &draft.over,
        labels: &[],
    };
    let names = |positions: &[AxisId]| -> Vec<&str> {
        positions
            .iter()
            .map(|a| parts.axes[*a].name.as_str())
            .collect()
    };
    let limit = |key: &str| {
        draft
            .node
            .get(key)
            .map_or(Json::Null, |node| constant(node, &scope))
    };
    let timeout = match limit("timeout") {
        Json::String(text) => match DurationText::parse(&text) {
            Ok(span) => seconds(span),
            Err(_) => Json::String(text),
        },
        other => other,
    };
    let excluded: Vec<Json> = stage
        .excluded
        .iter()
        .map(|e| json!({ "coordinates": axes(&e.at), "reason": e.reason }))
        .collect();
    let noted: Vec<Json> = stage
        .cells
        .iter()
        .filter_map(|c| Some(json!({ "coordinates": axes(&c.at), "note": c.note.as_ref()? })))
        .collect();
    json!({
        "kind": stage.kind,
        "description": limit("description"),
        "needs": draft.names("needs"),
        "over": names(&stage.over),
        "replicate": stage.replicate.iter().map(|i| parts.axes[stage.over[*i]].name.as_str()).collect::<Vec<_>>(),
        "exclusive": stage.exclusive,
        "settings": constant(&draft.settings, &scope),
        "timeout_s": timeout,
        "retries": match limit("retries") { Json::Null => json!(0), other => other },
        "cells": stage.cells.len(),
        "excluded": excluded,
        "noted": noted,
    })
}

/// Returns a value with parameters substituted; placeholders of axes stay.
fn constant(node: &Node, scope: &Scope) -> Json {
    match scope.resolve(node, None) {
        Ok(node) => node.json(),
        Err(_) => match &node.value {
            Value::Text(text) => Json::String(text.clone()),
            _ => node.json(),
        },
    }
}

fn seconds(span: DurationText) -> Json {
    match span.milliseconds() {
        ms if ms % 1000 == 0 => json!(ms / 1000),
        ms => json!(ms as f64 / 1000.0),
    }
}
