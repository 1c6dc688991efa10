//! `paired-deltas`: one row per coordinate at which both sides were measured.

use artifacts::Scalar;
use contract::IntervalEnd;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::alike::{Alike, cells_behind};
use crate::operators::comparison::position;
use crate::operators::fairness::{Flattered, Losses};
use crate::operators::pairs::{Pair, Sides, matched};
use crate::operators::units::{LEVEL, Mean, Units, WHY, interval_columns};

pub(crate) struct PairedDeltas;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: an axis and two of its labels.
    pair: Sides,
    /// Axes averaged on each side, over the labels that both sides have, before pairing; every other key is matched.
    #[serde(default)]
    average: Vec<String>,
    /// The columns to compare, such as `output_throughput`.
    columns: Vec<String>,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it. A
    /// row then combines the units, with an interval of the ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

/// One coordinate, over its units.
struct Contrast {
    rows: [usize; 2],
    units: usize,
    /// For each column, the means of both sides and of their ratio.
    columns: Vec<Contrasted>,
    interval_of: String,
}

struct Contrasted {
    a: Option<f64>,
    b: Option<f64>,
    /// For a single pair, the plain quotient.
    ratio: Option<f64>,
    mean: Option<Mean>,
    /// The mean of the differences.
    delta: Option<Mean>,
}

fn columns(specs: &[Spec], sides: &Sides) -> Columns<'static, Contrast> {
    let (a, b) = sides.labels();
    let averaged = |side: &str| format!("rows averaged on the side {side}");
    let mut columns = Columns::new()
        .with(
            Spec::int("n", "1", "units of replication with both sides"),
            |c: &Contrast| c.units,
        )
        .with(Spec::int("n_a", "1", averaged(&a)), |c| c.rows[0])
        .with(Spec::int("n_b", "1", averaged(&b)), |c| c.rows[1])
        .with(
            Spec::text(
                "interval_of",
                "the units that the intervals are over, or why there are none",
            ),
            |c| c.interval_of.clone(),
        );
    for (i, spec) in specs.iter().enumerate() {
        let (name, unit) = (&spec.name, spec.unit.as_deref().unwrap_or_default());
        let side = |which: &str, side: &str| {
            spec.like(
                format!("{name}_{which}"),
                format!("{name} of {side}, mean over the units"),
            )
        };
        columns.push(side("a", &a), move |c: &Contrast| c.columns[i].a);
        columns.push(side("b", &b), move |c| c.columns[i].b);
        let delta = format!("{name} of {a} − {name} of {b}");
        let delta = Spec::float(format!("{name}_delta"), unit, delta).at_level(LEVEL);
        columns.push(delta.clone(), move |c| {
            Some(c.columns[i].a? - c.columns[i].b?)
        });
        let end = |which: IntervalEnd, word: &str| {
            let end = which.of(format!(
                "the {LEVEL} t interval of the delta by itself, in no family, over the units; null with fewer than three \
                 units, or five clusters"
            ));
            Spec::float(format!("{name}_delta_{word}"), unit, end)
        };
        columns.push(end(IntervalEnd::Lower, "low"), move |c| {
            c.columns[i].delta.as_ref().and_then(Mean::low)
        });
        columns.push(end(IntervalEnd::Upper, "high"), move |c| {
            c.columns[i].delta.as_ref().and_then(Mean::high)
        });
        columns.push(Spec::text(format!("{name}_delta_why"), WHY), move |c| {
            Mean::why(c.columns[i].delta.as_ref())
        });
        let ratio = format!(
            "{name} of {a} ÷ {name} of {b}, geometric mean over the units; null if a value is not above 0"
        );
        let ratio = Spec::float(format!("{name}_ratio"), "1", ratio)
            .over(&a, &b)
            .within(Bounds::NotNegative)
            .at_level(LEVEL);
        columns.push(ratio.clone(), move |c| c.columns[i].ratio);
        let what = (
            &*format!("{name}_ratio"),
            "the ratio by itself, in no family,",
            LEVEL,
        );
        columns = interval_columns(columns, &ratio, what, move |c: &Contrast| {
            c.columns[i].mean.as_ref()
        });
    }
    columns
}

impl TypedOperator for PairedDeltas {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "paired-deltas";
    const SUMMARY: &'static str = "Delta (a − b) and ratio (a ÷ b) at every coordinate at which both sides were measured, over the units of replication.";
    const SOURCE: &'static str = "\
        Differences are a − b, and ratios are a ÷ b. Ratios are formed within each unit and averaged as logarithms. \
        Each interval is for one ratio or delta alone. For a verdict within a family, use `paired-comparison`.\n\n\
        If one side [lost more cells](verdict-rules.md#lost-cells) than the other, by more than ten points, the end of the \
        interval in its favour is null, or both if it is not known which values are better.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let specs = draft.columns(&given.from, &given.columns)?;
        Ok(columns(&specs, &given.pair).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let (pair, names) = (&given.pair, &given.columns);
        let alike = Alike::of_pair(context, (&given.from, names), pair, &given.average)?;
        let from = alike.frame();
        let matched = matched(from, &given.from, pair, &given.average, names)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        for axis in units.axes() {
            position("unit", axis, &matched.keys)?;
        }
        let kept: Vec<usize> = (0..matched.keys.len())
            .filter(|i| !units.axes().contains(&matched.keys[*i]))
            .collect();
        let key = |pair: &Pair| kept.iter().map(|k| pair.key[*k].clone()).collect();
        let mut keyed: Vec<(Vec<Scalar>, &Pair)> =
            matched.pairs.iter().map(|pair| (key(pair), pair)).collect();
        keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
        let specs = from.all_declared(names)?;
        let columns = columns(&specs, pair);
        let unit: Vec<usize> = (0..matched.keys.len())
            .filter(|i| units.axes().contains(&matched.keys[*i]))
            .collect();
        let label = |pair: &Pair| unit.iter().map(|at| pair.key[*at].clone()).collect();
        let keys: Vec<String> = kept.iter().map(|k| matched.keys[*k].clone()).collect();
        let cells = names.iter();
        let cells = cells.map(|column| cells_behind(context, &given.from, column));
        let cells: Vec<(&Frame, String)> = cells.collect::<Result<_, _>>()?;
        let (a, b) = pair.labels();
        // What is left of a side that lost cells may flatter it, as in a comparison.
        let withhold = |key: &[Scalar], contrast: &mut Contrast| {
            let behind = specs.iter().zip(&cells);
            for (contrasted, (spec, (cells, name))) in contrast.columns.iter_mut().zip(behind) {
                let sides = (&*pair.axis, [&*a, &*b]);
                let losses = Losses::of(cells, sides, (&keys, key), (name, &units));
                let Some((side, why)) = losses.flattered().zip(losses.words([&a, &b])) else {
                    continue;
                };
                let findings = Flattered::side(side, &spec.name, spec.unit.as_deref());
                let means = [&mut contrasted.mean, &mut contrasted.delta];
                for mean in means.into_iter().flatten() {
                    mean.withhold(findings, &why);
                }
            }
        };
        let rows = keyed.chunk_by(|a, b| a.0 == b.0).map(|group| {
            let pairs: Vec<(Vec<Scalar>, &Pair)> =
                group.iter().map(|(_, pair)| (label(pair), *pair)).collect();
            let used = pairs.iter().flat_map(|(_, pair)| pair.rows.concat());
            let mut contrast = contrast(&pairs, names.len(), &units);
            withhold(&group[0].0, &mut contrast);
            columns.row(group[0].0.clone(), &contrast, spans(&given.from, used))
        });
        Ok(Frame {
            level: Level::Marginal,
            rows: rows.collect(),
            keys: keys.clone(),
            specs: columns.specs(),
            missing: matched.missing.clone(),
        })
    }
}

/// Combines the pairs of one coordinate, one per unit, each with the label of its unit.
fn contrast(pairs: &[(Vec<Scalar>, &Pair)], columns: usize, units: &Units) -> Contrast {
    let contrasted = |column: usize| {
        let both: Vec<(Vec<Scalar>, f64, f64)> = pairs
            .iter()
            .filter_map(|(unit, pair)| Some((unit.clone(), pair.a[column]?, pair.b[column]?)))
            .collect();
        let mean = |values: Vec<f64>| Sample::new(values).ok().map(|s| s.mean());
        let ratios: Option<Vec<(Vec<Scalar>, f64)>> = both
            .iter()
            .map(|(unit, a, b)| (*a > 0.0 && *b > 0.0).then(|| (unit.clone(), a / b)))
            .collect();
        let over_units =
            ratios.and_then(|ratios| units.mean_of(ratios, LEVEL, Bounds::NotNegative));
        let ratio = match both.as_slice() {
            [(_, a, b)] => (*b != 0.0).then(|| a / b),
            _ => over_units.as_ref().map(|mean| mean.value),
        };
        // A side without a partner is kept alone.
        let side = |read: fn(&Pair) -> &[Option<f64>]| {
            mean(
                pairs
                    .iter()
                    .filter_map(|(_, pair)| read(pair)[column])
                    .collect(),
            )
        };
        let (a, b) = match both.is_empty() {
            true => (side(|p| &p.a), side(|p| &p.b)),
            false => (
                mean(both.iter().map(|(_, a, _)| *a).collect()),
                mean(both.iter().map(|(_, _, b)| *b).collect()),
            ),
        };
        Contrasted {
            a,
            b,
            ratio,
            mean: over_units,
            delta: units.mean_difference(&both, LEVEL),
        }
    };
    let rows = |side: usize| pairs.iter().map(|(_, pair)| pair.rows[side].len()).sum();
    Contrast {
        rows: [rows(0), rows(1)],
        units: if units.is_none() { 0 } else { pairs.len() },
        columns: (0..columns).map(contrasted).collect(),
        interval_of: units.interval_of(pairs.len()),
    }
}
