//! `paired-deltas`: one row per coordinate at which both sides were measured.

use artifacts::Scalar;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Sample;

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::alike::{Alike, Compares};
use crate::operators::comparison::position;
use crate::operators::pairs::{Pair, Sides, matched};
use crate::operators::units::{LEVEL, Mean, Units, interval_columns};

pub(crate) struct PairedDeltas;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: axis and labels.
    pair: Sides,
    /// Axes averaged on each side, over the labels that both sides have, before pairing; every other key is matched.
    #[serde(default)]
    average: Vec<String>,
    /// The columns compared.
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
}

fn columns(of: &[Spec], sides: &Sides) -> Columns<'static, Contrast> {
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
    for (i, spec) in of.iter().enumerate() {
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
        columns.push(
            Spec::float(format!("{name}_delta"), unit, delta),
            move |c| Some(c.columns[i].a? - c.columns[i].b?),
        );
        let ratio = format!(
            "{name} of {a} ÷ {name} of {b}, geometric mean over the units; null if a value is not above 0"
        );
        let ratio = Spec::float(format!("{name}_ratio"), "1", ratio)
            .over(&a, &b)
            .within(Bounds::NotNegative);
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
    const SOURCE: &'static str = "Differences are a − b, and ratios are a ÷ b. Ratios are formed \
        within each unit and averaged as logarithms. The intervals are those of single ratios. \
        For a verdict within a family, use `paired-comparison`.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let of = draft.columns(&given.from, &given.columns)?;
        Ok(columns(&of, &given.pair).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let (pair, names) = (&given.pair, &given.columns);
        let (a, b) = pair.labels();
        let alike = Alike::of(
            context,
            &Compares {
                table: &given.from,
                columns: names,
                axis: &pair.axis,
                sides: &[a, b],
                apart: &given.average,
            },
        )?;
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
        let columns = columns(&from.all_declared(names)?, pair);
        let rows = keyed.chunk_by(|a, b| a.0 == b.0).map(|group| {
            let pairs: Vec<&Pair> = group.iter().map(|(_, pair)| *pair).collect();
            let used = pairs.iter().flat_map(|pair| pair.rows.concat());
            let contrast = contrast(&pairs, names.len(), &units);
            columns.row(group[0].0.clone(), &contrast, spans(&given.from, used))
        });
        Ok(Frame {
            level: Level::Marginal,
            rows: rows.collect(),
            keys: kept.iter().map(|k| matched.keys[*k].clone()).collect(),
            specs: columns.specs(),
            missing: matched.missing.clone(),
        })
    }
}

/// Combines the pairs of one coordinate, one per unit.
fn contrast(pairs: &[&Pair], columns: usize, units: &Units) -> Contrast {
    let contrasted = |column: usize| {
        let both: Vec<(f64, f64)> = pairs
            .iter()
            .filter_map(|pair| pair.a[column].zip(pair.b[column]))
            .collect();
        let mean = |values: Vec<f64>| Sample::new(values).ok().map(|s| s.mean());
        let ratios: Option<Vec<f64>> = both
            .iter()
            .map(|(a, b)| (*a > 0.0 && *b > 0.0).then(|| a / b))
            .collect();
        let over_units = ratios.and_then(|ratios| units.mean(&ratios, LEVEL, Bounds::NotNegative));
        let ratio = match both.as_slice() {
            [(a, b)] => (*b != 0.0).then(|| a / b),
            _ => over_units.as_ref().map(|mean| mean.value),
        };
        // A side without a partner is kept alone.
        let side = |of: fn(&Pair) -> &[Option<f64>]| {
            mean(pairs.iter().filter_map(|pair| of(pair)[column]).collect())
        };
        let (a, b) = match both.is_empty() {
            true => (side(|p| &p.a), side(|p| &p.b)),
            false => (
                mean(both.iter().map(|(a, _)| *a).collect()),
                mean(both.iter().map(|(_, b)| *b).collect()),
            ),
        };
        Contrasted {
            a,
            b,
            ratio,
            mean: over_units,
        }
    };
    let rows = |side: usize| pairs.iter().map(|pair| pair.rows[side].len()).sum();
    Contrast {
        rows: [rows(0), rows(1)],
        units: if units.is_none() { 0 } else { pairs.len() },
        columns: (0..columns).map(contrasted).collect(),
        interval_of: units.interval_of(pairs.len()),
    }
}
