//! `facts`: the contents of definitions and labels, as columns to join other tables with.

use std::collections::BTreeMap;

use artifacts::Scalar;
use artifacts::json::plain;
use pipeline::suggest::remedy;
use pipeline::{Failure, Json, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Spec, Type};
use crate::operator::{Context, Draft, TypedOperator, at};

pub(crate) struct Facts;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis whose labels are the rows.
    axis: String,
    /// The columns, each with the field that it shows; dots lead into a field: `peak-tflops.bfloat16`.
    fields: BTreeMap<String, String>,
    /// The source of the fields: definitions of this collection (`models`, `hardware`, `engines`, `workloads`, …). By
    /// default, the labels themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
    /// The field of a label that names its definition; by default, the label itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named_by: Option<String>,
    /// The units of columns, by column.
    #[serde(
        default,
        deserialize_with = "contract::units",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "BTreeMap<String, contract::UnitText>")]
    units: BTreeMap<String, String>,
    /// The meanings of columns, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<String, String>,
    /// The labels and their values, in the order of `fields`. Filled in while planning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    rows: Vec<(Json, Vec<Json>)>,
}

/// Returns the value at a dotted path.
fn field<'a>(value: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn scalar(value: &Json) -> Option<Scalar> {
    Some(match value {
        Json::Null => Scalar::Null,
        Json::Bool(value) => Scalar::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Scalar::Int(value),
            None => Scalar::Float(number.as_f64()?),
        },
        Json::String(text) => Scalar::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// Returns the type of the column at a position: text where the values differ in type.
fn kind(rows: &[(Json, Vec<Json>)], position: usize) -> Type {
    let values = || {
        rows.iter()
            .map(|(_, row)| &row[position])
            .filter(|v| !v.is_null())
    };
    let all = |fits: fn(&Json) -> bool| values().next().is_some() && values().all(fits);
    if all(Json::is_i64) {
        Type::Int
    } else if all(Json::is_number) {
        Type::Float
    } else if all(Json::is_boolean) {
        Type::Bool
    } else {
        Type::Text
    }
}

fn columns(given: &Parameters) -> Columns<'_, Vec<Json>> {
    let mut columns = Columns::new();
    for (position, (name, field)) in given.fields.iter().enumerate() {
        let unit = given
            .units
            .get(name)
            .map(String::as_str)
            .unwrap_or_default();
        let whose = match &given.collection {
            Some(collection) => format!("the definition among the {collection}"),
            None => format!("the label of `{}`", given.axis),
        };
        let own = || format!("`{field}` of {whose}; null where it is absent");
        let meaning = given.descriptions.get(name).cloned().unwrap_or_else(own);
        let kind = kind(&given.rows, position);
        let spec = match kind {
            Type::Int => Spec::int(name, unit, meaning),
            Type::Float => Spec::float(name, unit, meaning),
            Type::Bool => Spec::boolean(name, meaning),
            Type::Text => Spec::text(name, meaning),
        };
        columns.push(spec, move |row: &Vec<Json>| match (&row[position], kind) {
            (Json::Null, _) => Scalar::Null,
            (value, Type::Text) => Scalar::Text(plain(value)),
            (value, _) => scalar(value).unwrap_or(Scalar::Null),
        });
    }
    columns
}

impl Parameters {
    /// Returns the object that holds a label's fields.
    fn source(&self, label: &Scalar, fields: &Json, draft: &Draft<'_>) -> Result<Json, Problem> {
        let Some(collection) = &self.collection else {
            return Ok(fields.clone());
        };
        let name = match &self.named_by {
            Some(by) => field(fields, by).and_then(scalar),
            None => Some(label.clone()),
        };
        let Some(name) = name.filter(|name| *name != Scalar::Null) else {
            // A label without the field has no definition, and therefore no facts.
            return Ok(Json::Null);
        };
        let name = name.to_string();
        draft.scope.library.find(collection, &name).ok_or_else(|| {
            let names = draft.scope.library.names(collection);
            let message = format!("there is no `{name}` among the {collection}");
            let key = if self.named_by.is_some() {
                "named-by"
            } else {
                "collection"
            };
            draft
                .problem(key, message)
                .hint(remedy(&name, collection, &names))
        })
    }
}

impl TypedOperator for Facts {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "facts";
    const SUMMARY: &'static str = "\
        One row per label of an axis: fields of the labels, or of the definitions that they name, to join with other \
        tables.";
    const SOURCE: &'static str = "\
        Facts are declared, not measured: the parameters of a model, the peak of a device, the slots of a \
        configuration. Benchtrail reads them when it plans the experiment, so a changed definition computes the table \
        again.\n\n\
        A field that no label and no definition has is an error. A field that only some have is null for the others. \
        To join the table, use `sql`: `… join facts using (model)`.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let Some(labels) = draft.scope.library.labels(&given.axis) else {
            let axes = draft.scope.library.axes();
            let message = format!("unknown axis `{}`", given.axis);
            let problem = draft.problem("axis", message);
            return Err(vec![problem.hint(remedy(&given.axis, "axes", &axes))]);
        };
        let mut problems = Vec::new();
        if given.named_by.is_some() && given.collection.is_none() {
            let message = "`named-by` says which definition a label has, so it needs `collection`";
            problems.push(draft.problem("named-by", message));
        }
        let mut sources = Vec::new();
        for (label, fields) in &labels {
            match given.source(label, fields, draft) {
                Ok(source) => sources.push(source),
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for (name, path) in &given.fields {
            let route = [at("fields"), vec![Step::Key(name.clone())]].concat();
            let values: Vec<&Json> = sources.iter().filter_map(|s| field(s, path)).collect();
            if let Some(several) = values.iter().find(|value| scalar(value).is_none()) {
                let keys = several
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key.as_str());
                let keys: Vec<&str> = keys.collect();
                let message = format!("`{path}` is not a single value");
                let hint = match keys.is_empty() {
                    true => "name a field that holds one value".to_owned(),
                    false => format!("name a field in it: {}", keys.join(", ")),
                };
                problems.push(draft.settings.problem(&route, message).hint(hint));
            } else if values.is_empty() {
                let fields = sources
                    .iter()
                    .flat_map(|s| s.as_object().into_iter().flatten());
                let mut fields: Vec<&str> = fields.map(|(key, _)| key.as_str()).collect();
                fields.sort_unstable();
                fields.dedup();
                let whose = given.collection.as_ref().map_or_else(
                    || format!("no label of `{}`", given.axis),
                    |collection| format!("none of these {collection}"),
                );
                let message = format!("{whose} has a field `{path}`");
                let problem = draft.settings.problem(&route, message);
                problems.push(problem.hint(remedy(path, "fields", &fields)));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let row = |((name, _), source): (&(Scalar, Json), &Json)| {
            let values = given
                .fields
                .values()
                .map(|path| field(source, path).cloned().unwrap_or(Json::Null));
            (Json::from(name), values.collect())
        };
        given.rows = labels.iter().zip(&sources).map(row).collect();
        Ok(columns(given).specs())
    }

    fn run(given: &Parameters, _: &Context<'_>) -> Result<Frame, Failure> {
        let columns = columns(given);
        let row = |(name, values): &(Json, Vec<Json>)| {
            let key = scalar(name).unwrap_or(Scalar::Null);
            columns.row(vec![key], values, Vec::new())
        };
        Ok(Frame {
            level: Level::Marginal,
            keys: vec![given.axis.clone()],
            specs: columns.specs(),
            rows: given.rows.iter().map(row).collect(),
            missing: Vec::new(),
        })
    }
}
