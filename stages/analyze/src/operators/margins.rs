//! `margins`: a table's joint values, every margin, and the total, which must agree.

use std::collections::BTreeSet;

use artifacts::Scalar;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::columns::Columns;
use crate::frame::{Frame, Level, Row, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::pairs::all_declared;

pub(crate) struct Margins;

/// With more axes there would be more than 64 kinds of margin.
const MOST_AXES: usize = 6;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table whose values are combined.
    from: String,
    /// The axes whose margins to compute.
    axes: Vec<String>,
    /// Axes that stay separate in every row.
    #[serde(default)]
    by: Vec<String>,
    /// Axes averaged before the first joint value is formed.
    #[serde(default)]
    over: Vec<String>,
    /// The columns to compute this for.
    columns: Vec<String>,
}

/// Pooled joint values.
struct Margin {
    level: &'static str,
    kept: Option<String>,
    n: usize,
    expected: usize,
    means: Vec<Mean>,
}

/// The mean of one column.
struct Mean {
    n: usize,
    value: Option<f64>,
    gap: Option<f64>,
}

impl Mean {
    fn reconciles(&self) -> Option<bool> {
        Some(self.gap? <= 1e-12 * self.value?.abs())
    }
}

fn columns(specs: &[Spec], given: &Parameters) -> Columns<'static, Margin> {
    let joint = given.axes.join(" × ");
    let level = "row or cell for a joint value of one row, marginal for a mean over some, pooled for the mean over all axes";
    let expected = "product of the numbers of labels of the axes averaged";
    let mut columns = Columns::new()
        .with(Spec::text("level", level), |m: &Margin| m.level)
        .with(
            Spec::text(
                "kept",
                "the axes whose label the row has; null for the whole",
            ),
            |m| m.kept.clone(),
        )
        .with(
            Spec::int("n", "1", format!("joint values ({joint}) in the mean")),
            |m| m.n,
        )
        .with(Spec::int("n_expected", "1", expected), |m| m.expected)
        .with(Spec::boolean("complete", "whether n = n_expected"), |m| {
            m.n == m.expected
        });
    for (i, spec) in specs.iter().enumerate() {
        let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
        let gap = "largest distance of this mean from the mean of the margins of one more axis; null unless two or \
                 more axes are averaged";
        let reconciles = "whether that distance is only rounding (at most 1e-12 of the mean); null if the \
            distance is null";
        let mean = format!("mean of the joint values of {name}, each once");
        columns = columns
            .with(
                Spec::int(
                    format!("{name}_n"),
                    "1",
                    format!("joint values with a value of {name}"),
                ),
                move |m| m.means[i].n,
            )
            .with(
                spec.like(format!("{name}_mean"), mean)
                    .pooling(&given.from, name, None),
                move |m| m.means[i].value,
            )
            .with(
                Spec::float(format!("{name}_margin_gap"), unit, gap),
                move |m| m.means[i].gap,
            )
            .with(
                Spec::boolean(format!("{name}_reconciles"), reconciles),
                move |m| m.means[i].reconciles(),
            );
    }
    columns
}

impl TypedOperator for Margins {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "margins";
    const SUMMARY: &'static str = "Joint values, the margins of every subset of the axes, and the whole, with the check that they agree.";
    const SOURCE: &'static str = "\
        Every joint value counts once. In a complete table, the mean of the margins of either axis equals the mean of \
        the whole. If a joint value is missing, they differ by `…_margin_gap`, and a sentence about \"the mean\" must \
        say which mean.\n\n\
        Every key must be in `axes`, `by` or `over`; otherwise, Benchtrail refuses the table.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let specs = draft.columns(&given.from, &given.columns)?;
        if given.axes.is_empty() || given.axes.len() > MOST_AXES {
            let message = format!(
                "margins are of one to {MOST_AXES} axes, got {}",
                given.axes.len()
            );
            return Err(vec![draft.problem("axes", message)]);
        }
        Ok(columns(&specs, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
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
        let columns = columns(&from.all_declared(&given.columns)?, given);
        let mut rows = Vec::new();
        for (stratum, members) in from.groups(&by) {
            let joints = joints(from, given, &axes, &members);
            for kept in 0..1_usize << axes.len() {
                context.control.check()?;
                rows.extend(margin(given, (&stratum, single), &joints, kept, &columns));
            }
        }
        let keys = given.by.iter().chain(&given.axes).cloned().collect();
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
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
    keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0).then(a.1.cmp(&b.1)));
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
    keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    keyed
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| (group[0].0.clone(), group.iter().map(|(_, j)| *j).collect()))
        .collect()
}

fn margin(
    given: &Parameters,
    (stratum, single): (&[Scalar], &'static str),
    joints: &[Joint],
    kept: usize,
    columns: &Columns<'_, Margin>,
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
        let mean_of = |column: usize| {
            let means = members.iter().filter_map(|j| j.means[column]);
            let value = mean(means.clone());
            let gap = value.filter(|_| dropped.len() > 1).map(|value| {
                let through = |axis: &usize| {
                    let margins = grouped(&members, 1 << axis);
                    let mean_of = |(_, js): &(Vec<Scalar>, Vec<&Joint>)| {
                        mean(js.iter().filter_map(|j| j.means[column]))
                    };
                    mean(margins.iter().filter_map(mean_of)).map_or(0.0, |m| (m - value).abs())
                };
                dropped.iter().map(through).fold(0.0, f64::max)
            });
            Mean {
                n: means.count(),
                value,
                gap,
            }
        };
        let margin = Margin {
            level,
            kept: (!names.is_empty()).then(|| names.join(", ")),
            n: members.len(),
            expected,
            means: (0..given.columns.len()).map(mean_of).collect(),
        };
        let lineage = spans(
            &given.from,
            members.iter().flat_map(|j| j.rows.iter().copied()),
        );
        columns.row(whole, &margin, lineage)
    };
    grouped(&all, kept).into_iter().map(row).collect()
}
