//! `correlation`: are two columns associated?

use artifacts::Scalar;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::CorrelationKind;

use crate::columns::{Columns, missing_spec};
use crate::frame::{Frame, Level, Spec, spans, text};
use crate::operator::{Context, Draft, TypedOperator, at};
use crate::operators::pairs::{all_declared, named};
use crate::operators::resemblance::{Unit, doubt, groupings};
use crate::operators::units::{Units, averaged};

pub(crate) struct Correlation;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the columns; each of its rows is a point.
    from: String,
    /// The pairs of columns, or of numeric keys.
    pairs: Vec<Both>,
    /// The coefficients.
    #[serde(default = "every")]
    coefficients: Vec<Coefficient>,
    /// Axes that stay separate, one row each.
    #[serde(default)]
    by: Vec<String>,
    /// Axes whose rows are the points.
    over: Vec<String>,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it. Points of one unit
    /// depend on each other, so p is null if a unit has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Both {
    /// One column.
    x: String,
    /// The other.
    y: String,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Coefficient {
    Pearson,
    Spearman,
    Kendall,
}

impl Coefficient {
    fn kind(self) -> CorrelationKind {
        match self {
            Self::Pearson => CorrelationKind::Pearson,
            Self::Spearman => CorrelationKind::Spearman,
            Self::Kendall => CorrelationKind::Kendall,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pearson => "pearson",
            Self::Spearman => "spearman",
            Self::Kendall => "kendall",
        }
    }
}

fn every() -> Vec<Coefficient> {
    vec![
        Coefficient::Pearson,
        Coefficient::Spearman,
        Coefficient::Kendall,
    ]
}

/// The association of two columns.
struct Association {
    n: usize,
    correlation: Option<statistics::Correlation>,
    /// Why there is no p value.
    why: Option<String>,
    missing: Scalar,
}

fn columns() -> Columns<'static, Association> {
    let coefficient = "the coefficient, in [−1, 1]; null without spread on a side";
    let p = "two-sided p value of no association; null for fewer than three points (Kendall: two), and if a unit of \
        replication has several points, or if the units resemble each other in both columns";
    let why = "why p is withheld although there are points enough; null otherwise";
    Columns::new()
        .with(
            Spec::int("n", "1", "points with both values"),
            |a: &Association| a.n,
        )
        .with(Spec::float("correlation", "1", coefficient), |a| {
            a.correlation.map(|c| c.coefficient)
        })
        .with(Spec::float("p", "1", p), |a| {
            a.correlation.and_then(|c| c.p).filter(|_| a.why.is_none())
        })
        .with(Spec::text("p_why", why), |a| a.why.clone())
        .with(missing_spec(), |a| a.missing.clone())
}

/// Explains why points have no p value: some units have several.
fn dependent(units: &Units, n: usize, points: usize) -> Option<String> {
    let axes = units.axes().join(" × ");
    (!units.is_none() && n < points).then(|| {
        format!(
            "{points} points of {n} labels of `{axes}`: points of one `{axes}` are not independent; average them first, \
             with `aggregate`"
        )
    })
}

/// A point: the label of its unit, those of the other pooled axes, x and y.
type Point = (Vec<Scalar>, Vec<Scalar>, (f64, f64));

/// Explains why points, one for each unit, have no p value: both columns depend on the day or on the unit before. Two columns
/// that drift seem to be related. If only one of them drifts, p holds.
fn alike(units: &Units, names: &[String], points: &[Point]) -> Option<String> {
    if units.is_none() {
        return None;
    }
    let keys: Vec<String> = units.axes().iter().chain(names).cloned().collect();
    let rows = points.iter();
    let rows =
        rows.map(|(unit, others, _)| (unit.clone(), [unit.clone(), others.clone()].concat()));
    let groupings = groupings(&keys, &rows.collect::<Vec<_>>());
    let doubt_of = |read: fn((f64, f64)) -> f64| {
        let unit = |(label, _, point): &Point| Unit {
            label: label.clone(),
            side: 0,
            value: read(*point),
        };
        let values: Vec<Unit> = points.iter().map(unit).collect();
        doubt(units, &groupings, &values)
    };
    let (x, _) = doubt_of(|(x, _)| x).zip(doubt_of(|(_, y)| y))?;
    Some(format!("in both columns, {}", x.refusal()))
}

impl TypedOperator for Correlation {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "correlation";
    const SUMMARY: &'static str =
        "Pearson's, Spearman's and Kendall's correlation of pairs of columns, with p values.";
    const SOURCE: &'static str = "\
        The coefficients:\n\n\
        - Pearson's r = Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)² Σ(y − ȳ)²). Its p is exact under normality.\n\
        - Spearman's ρ is r of mid-ranks. For at most ten points, its p is exact, ties included, from an enumeration \
        of all orders. For more points, it comes from Student's t.\n\
        - Kendall's τ-b follows Knight (JASA 61, 1966). For at most ten points, its p is exact, ties included. For \
        more, it is exact without ties up to 33 points, and otherwise normal, as in scipy.stats.\n\n\
        The p values assume independent points. Points of one launch are not independent, so p is null if a unit of \
        replication has several. Two columns that drift from launch to launch seem to be related, so p is also null \
        if the units resemble each other in both columns.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let route = |i: usize, side: &str| {
            vec![
                Step::Key("pairs".to_owned()),
                Step::Index(i),
                Step::Key(side.to_owned()),
            ]
        };
        let mut wanted = Vec::new();
        for (i, pair) in given.pairs.iter().enumerate() {
            wanted.extend([
                (route(i, "x"), pair.x.as_str()),
                (route(i, "y"), pair.y.as_str()),
            ]);
        }
        // A name in `over` may be a key, which is unknown while planning.
        wanted.retain(|(_, name)| !given.over.iter().any(|axis| axis == name));
        let from = (&at("from")[..], given.from.as_str());
        draft.scope.numbers(draft.settings, from, &wanted)?;
        if given.pairs.is_empty() || given.coefficients.is_empty() {
            let message = "a correlation needs a pair and a coefficient";
            return Err(vec![draft.problem("pairs", message)]);
        }
        Ok(columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        all_declared(from, &given.from, &[&given.by, &given.over])?;
        let by = from.key_positions(&given.by, &given.from)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let unit = from.key_positions(units.axes(), &given.from)?;
        let names = given
            .over
            .iter()
            .filter(|axis| !units.axes().contains(axis));
        let names: Vec<String> = names.cloned().collect();
        let others = from.key_positions(&names, &given.from)?;
        let (columns, mut rows) = (columns(), Vec::new());
        for (stratum, members) in from.groups(&by) {
            let missing = from.missing_at(&given.by, &stratum);
            for pair in &given.pairs {
                let both =
                    |m: &usize| Some((*m, (named(from, *m, &pair.x)?, named(from, *m, &pair.y)?)));
                let pairs: Vec<(usize, (f64, f64))> = members.iter().filter_map(both).collect();
                let points: Vec<(f64, f64)> = pairs.iter().map(|(_, p)| *p).collect();
                let labels = pairs.iter().map(|(m, _)| (from.key_at(*m, &unit), 0.0));
                let why = dependent(&units, averaged(labels).len(), points.len());
                let labelled: Vec<_> = pairs
                    .iter()
                    .map(|(m, point)| (from.key_at(*m, &unit), from.key_at(*m, &others), *point))
                    .collect();
                let why = why.or_else(|| alike(&units, &names, &labelled));
                for coefficient in &given.coefficients {
                    let mut key = stratum.clone();
                    key.extend([text(&pair.x), text(&pair.y), text(coefficient.word())]);
                    let association = Association {
                        n: points.len(),
                        correlation: statistics::correlation(coefficient.kind(), &points),
                        why: why.clone(),
                        missing: missing.clone(),
                    };
                    let lineage = spans(&given.from, pairs.iter().map(|(m, _)| *m));
                    rows.push(columns.row(key, &association, lineage));
                }
            }
        }
        let mut keys = given.by.clone();
        keys.extend(["x", "y", "coefficient"].map(str::to_owned));
        let level = if given.by.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        Ok(Frame {
            level,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
