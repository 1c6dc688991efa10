//! The functions added to SQLite's. Aggregates ignore null and scalar functions return it.
//! Undefined results are null.

use std::sync::atomic::{AtomicUsize, Ordering};

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

/// The most values of all groups of all queries of this process together: 1 GiB. SQLite does not count them.
const MOST: usize = 1 << 27;

/// What a query says that exceeds [`MOST`].
pub(crate) const TOO_MANY: &str =
    "the query takes quantiles or deviations of more than 134217728 values at once";

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The values of a group.
struct Values {
    values: Vec<f64>,
    /// The number of values for which there is room.
    room: usize,
    /// The room of all groups.
    held: &'static AtomicUsize,
    most: usize,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            room: 0,
            held: &HELD,
            most: MOST,
        }
    }
}

impl Values {
    fn push(&mut self, value: f64) -> rusqlite::Result<()> {
        if self.values.len() == self.room {
            let more = self.room.max(4);
            let before = self.held.fetch_add(more, Ordering::Relaxed);
            if before.saturating_add(more) > self.most {
                self.held.fetch_sub(more, Ordering::Relaxed);
                return Err(wrong(TOO_MANY.to_owned()));
            }
            self.room += more;
            self.values.reserve_exact(more);
        }
        self.values.push(value);
        Ok(())
    }

    /// Returns the sample; `None` for no values. Values are finite.
    fn sample(mut self) -> Option<Sample> {
        Sample::new(std::mem::take(&mut self.values)).ok()
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.held.fetch_sub(self.room, Ordering::Relaxed);
    }
}

/// A statistic of all values of a group.
struct Statistic {
    name: &'static str,
    statistic: OfSample,
}

impl Aggregate<Values, Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Values> {
        Ok(Values::default())
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Values) -> rusqlite::Result<()> {
        number(context, 0, self.name)?.map_or(Ok(()), |value| values.push(value))
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        values: Option<Values>,
    ) -> rusqlite::Result<Option<f64>> {
        Ok(values
            .and_then(Values::sample)
            .and_then(|s| (self.statistic)(&s))
            .and_then(defined))
    }
}

struct Quantile;

/// The values of a group and the requested probability.
#[derive(Default)]
struct Asked {
    values: Values,
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
        number(context, 0, "quantile")?.map_or(Ok(()), |value| asked.values.push(value))
    }

    fn finalize(&self, _: &mut Context<'_>, asked: Option<Asked>) -> rusqlite::Result<Option<f64>> {
        let Some(Asked { values, p: Some(p) }) = asked else {
            return Ok(None);
        };
        Ok(values.sample().map(|s| s.quantile(p)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_groups_have_a_limit_and_give_their_room_back() {
        static HELD: AtomicUsize = AtomicUsize::new(0);
        let group = || Values {
            values: Vec::new(),
            room: 0,
            held: &HELD,
            most: 100,
        };
        let fill = |values: &mut Values| (0..1000).map_while(|_| values.push(1.0).ok()).count();
        let mut first = group();
        assert!((0..40).all(|_| first.push(1.0).is_ok()));
        // There is room for 64 in the first group, so 36 are left.
        let mut second = group();
        assert_eq!(fill(&mut second), 32);
        assert!(second.push(1.0).unwrap_err().to_string().contains(TOO_MANY));
        drop((first.sample(), second));
        assert_eq!(HELD.load(Ordering::Relaxed), 0);
        assert_eq!(fill(&mut group()), 64);
    }
}
