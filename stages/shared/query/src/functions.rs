//! The functions added to SQLite's. Aggregates ignore null and scalar functions return it.
//! Undefined results are null.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use statistics::Sample;

/// The aggregates added to SQLite's: `quantile(x, p)` (type 7 of Hyndman & Fan), `median(x)`,
/// `stddev(x)` and `variance(x)` (divisor n − 1, null for one value), `stddev_pop(x)` and
/// `variance_pop(x)` (divisor n).
pub const AGGREGATES: &[&str] = &[
    "median",
    "quantile",
    "stddev",
    "stddev_pop",
    "variance",
    "variance_pop",
];

/// The scalar functions added to SQLite's.
pub const SCALARS: &[&str] = &[
    "ceil", "exp", "floor", "ln", "log10", "log2", "pow", "power", "sqrt", "trunc",
];

type OfSample = fn(&Sample) -> Option<f64>;
type OfNumber = fn(f64) -> f64;

/// Registers them on a connection.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let statistics: [(&'static str, OfSample); 5] = [
        ("median", |s| Some(s.median())),
        ("stddev", Sample::std),
        ("variance", Sample::variance),
        ("stddev_pop", |s| variance_pop(s).map(f64::sqrt)),
        ("variance_pop", variance_pop),
    ];
    for (name, statistic) in statistics {
        connection.create_aggregate_function(name, 1, flags, Statistic { name, statistic })?;
    }
    connection.create_aggregate_function("quantile", 2, flags, Quantile)?;
    let scalars: [(&'static str, OfNumber); 8] = [
        ("sqrt", f64::sqrt),
        ("exp", f64::exp),
        ("ln", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("trunc", f64::trunc),
    ];
    for (name, scalar) in scalars {
        connection.create_scalar_function(name, 1, flags, move |c| {
            Ok(number(c, 0, name)?.map(scalar).and_then(defined))
        })?;
    }
    for name in ["pow", "power"] {
        connection.create_scalar_function(name, 2, flags, move |c| {
            let (base, exponent) = (number(c, 0, name)?, number(c, 1, name)?);
            Ok(base.zip(exponent).map(|(b, e)| b.powf(e)).and_then(defined))
        })?;
    }
    Ok(())
}

fn defined(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Returns the sum of squares about the mean ÷ n: 0 for one value.
fn variance_pop(sample: &Sample) -> Option<f64> {
    let n = sample.len() as f64;
    Some(sample.variance().map_or(0.0, |v| v * (n - 1.0) / n))
}

fn number(context: &Context<'_>, at: usize, function: &str) -> rusqlite::Result<Option<f64>> {
    match context.get_raw(at) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value as f64)),
        ValueRef::Real(value) if value.is_finite() => Ok(Some(value)),
        ValueRef::Real(_) => Err(wrong(format!("{function}() of a value that is not finite"))),
        ValueRef::Text(_) | ValueRef::Blob(_) => Err(wrong(format!(
            "{function}() of a value that is not a number"
        ))),
    }
}

fn wrong(message: String) -> Error {
    Error::UserFunctionError(message.into())
}

/// A statistic of all values of a group.
struct Statistic {
    name: &'static str,
    statistic: OfSample,
}

impl Aggregate<Vec<f64>, Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Vec<f64>) -> rusqlite::Result<()> {
        values.extend(number(context, 0, self.name)?);
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        values: Option<Vec<f64>>,
    ) -> rusqlite::Result<Option<f64>> {
        // Values are finite, so only an empty group gives no sample.
        Ok(Sample::new(values.unwrap_or_default())
            .ok()
            .and_then(|s| (self.statistic)(&s))
            .and_then(defined))
    }
}

struct Quantile;

/// The values of a group and the requested probability.
#[derive(Default)]
struct Asked {
    values: Vec<f64>,
    p: Option<f64>,
}

impl Aggregate<Asked, Option<f64>> for Quantile {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Asked> {
        Ok(Asked::default())
    }

    fn step(&self, context: &mut Context<'_>, asked: &mut Asked) -> rusqlite::Result<()> {
        let p = number(context, 1, "quantile")?.filter(|p| (0.0..=1.0).contains(p));
        let p = p.ok_or_else(|| wrong("quantile(x, p) needs a p between 0 and 1".to_owned()))?;
        if asked.p.is_some_and(|earlier| earlier != p) {
            return Err(wrong(
                "quantile(x, p) needs the same p for all rows of a group".to_owned(),
            ));
        }
        asked.p = Some(p);
        asked.values.extend(number(context, 0, "quantile")?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, asked: Option<Asked>) -> rusqlite::Result<Option<f64>> {
        let Some(Asked { values, p: Some(p) }) = asked else {
            return Ok(None);
        };
        Ok(Sample::new(values).ok().map(|s| s.quantile(p)))
    }
}
