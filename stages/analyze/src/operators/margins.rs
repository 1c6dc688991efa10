//! `margins`: a table's joint values, every margin, and the whole, which must agree.

use std::collections::BTreeSet;

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::pairs::all_declared;

pub(crate) struct Margins;

/// More axes would give more than 64 kinds of margin.
const MOST_AXES: usize = 6;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table whose values are taken together.
    from: String,
    /// The axes whose margins are wanted.
    axes: Vec<String>,
    /// Axes kept apart in every row.
    #[serde(default)]
    by: Vec<String>,
    /// Axes averaged before the first joint value is formed.
    #[serde(default)]
    over: Vec<String>,
    /// The columns.
    columns: Vec<String>,
}

fn columns(of: &[Spec], given: &Parameters) -> Vec<Spec> {
    let joint = given.axes.join(" × ");
    let mut columns = vec![
        Spec::text(
            "level",
            "row or cell for a joint value of one row, marginal for a mean over some, pooled for the mean over all axes",
        ),
        Spec::text(
            "kept",
            "the axes whose label the row has; null for the whole",
        ),
        Spec::int("n", "1", format!("joint values ({joint}) in the mean")),
        Spec::int(
            "n_expected",
            "1",
            "product of the numbers of labels of the axes averaged",
        ),
        Spec::boolean("complete", "whether n = n_expected"),
    ];
    for spec in of {
        let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
        columns.extend([
            Spec::int(format!("{name}_n"), "1", format!("joint values with a value of {name}")),
            spec.like(format!("{name}_mean"), format!("mean of the joint values of {name}, each once")),
            Spec::float(
                format!("{name}_margin_gap"),
                unit,
                "largest distance of this mean from the mean of the margins of one more axis; null unless two or \
                 more axes are averaged",
            ),
            Spec::boolean(
                format!("{name}_reconciles"),
                "whether that distance is rounding only (at most 1e-12 of the mean); null where it is",
            ),
        ]);
    }
    columns
}

impl Operator for Margins {
    fn name(&self) -> &'static str {
        "margins"
    }

    fn summary(&self) -> &'static str {
        "Joint values, the margins of every subset of the axes, and the whole, with the check that they agree."
    }

    fn source(&self) -> &'static str {
        "Every joint value counts once. In a complete table the mean of the margins of either axis is the mean of the whole; where a joint value is missing they differ, by `…_margin_gap`, and a sentence about \"the mean\" must say which. A key that is in none of `axes`, `by` and `over` is refused."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if given.axes.is_empty() || given.axes.len() > MOST_AXES {
            let message = format!(
                "margins are of one to {MOST_AXES} axes, got {}",
                given.axes.len()
            );
            return Err(vec![settings.problem(&at("axes"), message)]);
        }
        Ok(Plan {
            columns: columns(&found, &given),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        all_declared(from, &given.from, &[&given.axes, &given.by, &given.over])?;
        let (by, axes) = (
            from.key_positions(&given.by, &given.from)?,
            from.key_positions(&given.axes, &given.from)?,
        );
        let single = if given.over.is_empty() {
            from.level.word()
        } else {
            Level::Marginal.word()
        };
        let mut rows = Vec::new();
        for (stratum, members) in from.groups(&by) {
            let joints = joints(from, &given, &axes, &members);
            for kept in 0..1_usize << axes.len() {
                context.control.check()?;
                rows.extend(margin(&given, &stratum, &joints, kept, single));
            }
        }
        let specs: Vec<Spec> = given
            .columns
            .iter()
            .filter_map(|c| from.spec(c).cloned())
            .collect();
        let keys = given.by.iter().chain(&given.axes).cloned().collect();
        let (specs, missing) = (columns(&specs, &given), from.missing.clone());
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs,
            rows,
            missing,
        })
    }
}

/// One joint value: labels of the axes, the mean of each column, the rows behind it.
struct Joint {
    labels: Vec<Scalar>,
    means: Vec<Option<f64>>,
    rows: Vec<usize>,
}

fn joints(from: &Frame, given: &Parameters, axes: &[usize], members: &[usize]) -> Vec<Joint> {
    let mut keyed: Vec<(Vec<Scalar>, usize)> = members
        .iter()
        .map(|m| {
            (
                axes.iter().map(|p| from.rows[*m].key[*p].clone()).collect(),
                *m,
            )
        })
        .collect();
    keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0).then(a.1.cmp(&b.1)));
    let group = |group: &[(Vec<Scalar>, usize)]| {
        let rows: Vec<usize> = group.iter().map(|(_, row)| *row).collect();
        let mean = |c: &String| mean(rows.iter().filter_map(|r| from.number(*r, c)));
        let means = given.columns.iter().map(mean).collect();
        Joint {
            labels: group[0].0.clone(),
            means,
            rows,
        }
    };
    keyed.chunk_by(|a, b| a.0 == b.0).map(group).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values).ok().map(|s| s.mean())
}

/// The joints grouped by their labels of the axes in the mask.
fn grouped<'a>(joints: &[&'a Joint], kept: usize) -> Vec<(Vec<Scalar>, Vec<&'a Joint>)> {
    let key = |j: &Joint| -> Vec<Scalar> {
        let on = |i: &usize| kept >> i & 1 == 1;
        (0..j.labels.len())
            .filter(on)
            .map(|i| j.labels[i].clone())
            .collect()
    };
    let mut keyed: Vec<(Vec<Scalar>, &Joint)> = joints.iter().map(|j| (key(j), *j)).collect();
    keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
    keyed
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| (group[0].0.clone(), group.iter().map(|(_, j)| *j).collect()))
        .collect()
}

fn margin(
    given: &Parameters,
    stratum: &[Scalar],
    joints: &[Joint],
    kept: usize,
    single: &str,
) -> Vec<Row> {
    let axes = given.axes.len();
    let dropped: Vec<usize> = (0..axes).filter(|i| kept >> i & 1 == 0).collect();
    let labels = |axis: usize| -> usize {
        joints
            .iter()
            .map(|j| j.labels[axis].to_string())
            .collect::<BTreeSet<_>>()
            .len()
    };
    let expected: usize = dropped.iter().map(|axis| labels(*axis)).product();
    let names: Vec<&str> = (0..axes)
        .filter(|i| kept >> i & 1 == 1)
        .map(|i| given.axes[i].as_str())
        .collect();
    let level = match (dropped.len(), names.len()) {
        (0, _) => single,
        (_, 0) => Level::Pooled.word(),
        _ => Level::Marginal.word(),
    };
    let all: Vec<&Joint> = joints.iter().collect();
    let row = |(key, members): (Vec<Scalar>, Vec<&Joint>)| {
        let mut place = key.into_iter();
        let mut whole = stratum.to_vec();
        whole.extend((0..axes).map(|i| {
            let label = if kept >> i & 1 == 1 {
                place.next()
            } else {
                None
            };
            label.unwrap_or(Scalar::Null)
        }));
        let mut values = vec![
            text(level),
            if names.is_empty() {
                Scalar::Null
            } else {
                text(names.join(", "))
            },
            count(members.len()),
            count(expected),
            Scalar::Bool(members.len() == expected),
        ];
        for column in 0..given.columns.len() {
            let known = members.iter().filter_map(|j| j.means[column]);
            let value = mean(known.clone());
            let gap = value.filter(|_| dropped.len() > 1).map(|value| {
                let through = |axis: &usize| {
                    let margins = grouped(&members, 1 << axis);
                    let of = |(_, js): &(Vec<Scalar>, Vec<&Joint>)| {
                        mean(js.iter().filter_map(|j| j.means[column]))
                    };
                    mean(margins.iter().filter_map(of)).map_or(0.0, |m| (m - value).abs())
                };
                dropped.iter().map(through).fold(0.0, f64::max)
            });
            let reconciles = gap
                .zip(value)
                .map(|(gap, value)| gap <= 1e-12 * value.abs());
            values.extend([
                count(known.count()),
                number(value),
                number(gap),
                reconciles.map_or(Scalar::Null, Scalar::Bool),
            ]);
        }
        let lineage = spans(
            &given.from,
            members.iter().flat_map(|j| j.rows.iter().copied()),
        );
        Row {
            key: whole,
            values,
            lineage,
        }
    };
    grouped(&all, kept).into_iter().map(row).collect()
}
