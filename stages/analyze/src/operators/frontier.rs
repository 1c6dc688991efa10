//! `frontier`: the rows that no other row beats in both of two columns.

use contract::Better;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::student_critical;

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, at, unless};
use crate::operators::units::{LEVEL, interval_beside};

pub(crate) struct Frontier;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds both columns.
    from: String,
    /// The first column, for example the decode rate of a request.
    x: String,
    /// Which direction is better for it.
    x_better: Better,
    /// The second column, for example the output throughput of a device.
    y: String,
    /// Which direction is better for it.
    y_better: Better,
    /// Axes on which rows must have the same labels to compete with each other.
    #[serde(default)]
    within: Vec<String>,
}

/// A row among its rivals.
struct Standing {
    x: Option<f64>,
    y: Option<f64>,
    beaten_by: Option<usize>,
    surely: Option<usize>,
    n: usize,
}

fn columns(x: &Spec, y: &Spec) -> Columns<'static, Standing> {
    let beaten = "rows that are at least as good in both columns and better in one; null where a value is missing";
    let surely = "rows whose intervals are better than its own in both columns, at a level that holds for all rows together; null if it has no intervals, or no number of `units`. A row without intervals counts as better than none. A row that is off the frontier and has 0 here may be on it";
    Columns::new()
        .with(x.like(&x.name, x.description.clone()), |s: &Standing| s.x)
        .with(y.like(&y.name, y.description.clone()), |s| s.y)
        .with(Spec::int("beaten_by", "1", beaten), |s| s.beaten_by)
        .with(
            Spec::boolean(
                "on_frontier",
                "no row beats it; null where a value is missing",
            ),
            |s| s.beaten_by.map(|n| n == 0),
        )
        .with(Spec::int("surely_beaten_by", "1", surely), |s| s.surely)
        .with(
            Spec::int(
                "n",
                "1",
                "rows with both values that it competes with, itself included",
            ),
            |s| s.n,
        )
}

/// The intervals of a row in both columns, oriented so that larger is better.
type Ends = ((f64, f64), (f64, f64));

/// Whether `a` is at least as good as `b` in both columns and better in one; larger is better.
fn beats(a: (f64, f64), b: (f64, f64)) -> bool {
    a.0 >= b.0 && a.1 >= b.1 && (a.0 > b.0 || a.1 > b.1)
}

/// The probability that any row is falsely counted as surely beaten.
const ALPHA: f64 = 0.05;

/// Returns how much wider intervals must be so that all ends of all rows hold together, in both columns.
fn factor(level: f64, rows: usize, df: f64) -> f64 {
    let together = ALPHA / (4.0 * rows as f64);
    let alone = (1.0 - level) / 2.0;
    student_critical(together.min(alone), df) / student_critical(alone, df)
}

/// Returns the number of units behind the interval of a column: `units`, or fewer if some rows behind the mean have no value.
/// The number of units with values is not in the table. If all units have as many rows, it is at least this.
fn units_of(from: &Frame, row: usize, column: &str) -> Option<f64> {
    let units = from.number(row, "units")?;
    let stem = column.strip_suffix("_mean").unwrap_or(column);
    let Some(values) = from.number(row, &format!("{stem}_n")) else {
        return Some(units).filter(|units| *units >= 2.0);
    };
    // If each unit has several rows, as many values come from at least this many units.
    let rows = from.number(row, "n").unwrap_or(units).max(units);
    let least = (values * units / rows).ceil();
    Some(least.min(units)).filter(|units| *units >= 2.0)
}

/// Returns an interval around a value that is wider by a factor, on the logarithmic scale if it is symmetric there.
fn widened(value: f64, (low, high): (f64, f64), factor: f64) -> (f64, f64) {
    let logs = (low > 0.0 && value > 0.0).then(|| ((value / low).ln(), (high / value).ln()));
    match logs {
        Some((below, above)) if (below - above).abs() <= 1e-6 * above.abs() => (
            value * (-factor * below).exp(),
            value * (factor * above).exp(),
        ),
        _ => (
            value - factor * (value - low),
            value + factor * (high - value),
        ),
    }
}

impl TypedOperator for Frontier {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "frontier";
    const SUMMARY: &'static str = "The rows that no other row beats in two columns, such as a user's speed and a \
                                   device's output.";
    const SOURCE: &'static str = "\
        Dominance is Pareto's, of the values themselves, so a repeated study may have another frontier. Nothing was \
        measured between two rows.\n\n\
        If both columns have intervals, as means over units from `aggregate` do, `surely_beaten_by` counts the rows \
        that are better beyond these intervals. The intervals are widened so that any false count among the competing \
        rows has a chance of at most 5 % (Bonferroni over rows, columns and ends, Student's t with the degrees of \
        freedom of the units that have values of the column). The design's A/A arm does not compete.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let wanted = [(at("x"), given.x.as_str()), (at("y"), given.y.as_str())];
        let from = (&at("from")[..], given.from.as_str());
        let specs = draft.scope.numbers(draft.settings, from, &wanted)?;
        if given.x == given.y {
            let problem = draft.problem("y", "a frontier is of two columns");
            return Err(vec![problem.hint("name another column")]);
        }
        let mut problems = draft.direction("x-better", given.x_better, &specs[0]);
        problems.extend(draft.direction("y-better", given.y_better, &specs[1]));
        unless(problems, || columns(&specs[0], &specs[1]).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let columns = columns(&from.declared(&given.x)?, &from.declared(&given.y)?);
        let within = from.key_positions(&given.within, &given.from)?;
        let signed = |value: f64, better: Better| match better {
            Better::Higher => value,
            Better::Lower => -value,
        };
        let place = |row: usize| {
            let x = from.number(row, &given.x)?;
            let y = from.number(row, &given.y)?;
            Some((signed(x, given.x_better), signed(y, given.y_better)))
        };
        let levels = [&given.x, &given.y].map(|column| {
            let spec = from.declared(column)?;
            Ok::<f64, Failure>(spec.interval_level.unwrap_or(LEVEL))
        });
        let [x_level, y_level] = levels;
        let (x_level, y_level) = (x_level?, y_level?);
        let ends = |row: usize, rows: usize| {
            let end = |column: &str, level: f64, better: Better| {
                let value = from.number(row, column)?;
                let units = units_of(from, row, column)?;
                let interval = interval_beside(from, row, column).ok()?;
                let (low, high) = widened(value, interval, factor(level, rows, units - 1.0));
                let (low, high) = (signed(low, better), signed(high, better));
                Some((low.min(high), low.max(high)))
            };
            Some((
                end(&given.x, x_level, given.x_better)?,
                end(&given.y, y_level, given.y_better)?,
            ))
        };
        let is_arm = |row: usize| {
            let labels = from.keys.iter().zip(&from.rows[row].key);
            labels
                .into_iter()
                .any(|(axis, label)| context.is_arm(axis, label))
        };
        let mut rows = Vec::with_capacity(from.rows.len());
        for (_, mut group) in from.groups(&within) {
            group.retain(|row| !is_arm(*row));
            let size = group.len();
            let intervals: Vec<Ends> = group.iter().filter_map(|row| ends(*row, size)).collect();
            let rivals: Vec<(f64, f64)> = group.iter().filter_map(|row| place(*row)).collect();
            for row in group {
                let own = place(row);
                let standing = Standing {
                    x: from.number(row, &given.x),
                    y: from.number(row, &given.y),
                    beaten_by: own.map(|own| rivals.iter().filter(|r| beats(**r, own)).count()),
                    surely: ends(row, size).map(|own| {
                        let better = |r: &&Ends| r.0.0 > own.0.1 && r.1.0 > own.1.1;
                        intervals.iter().filter(better).count()
                    }),
                    n: rivals.len(),
                };
                let key = from.rows[row].key.clone();
                rows.push((row, columns.row(key, &standing, spans(&given.from, [row]))));
            }
        }
        rows.sort_by_key(|(row, _)| *row);
        Ok(Frame {
            level: from.level,
            keys: from.keys.clone(),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            specs: columns.specs(),
            missing: from.missing.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use statistics::Noise;

    use super::*;
    use crate::published::{column, table};

    /// Means over blocks, and the frontier of a lower `x` and a higher `y`.
    fn front(text: &str) -> (Frame, Frame) {
        let means =
            json!({"from": "t", "over": ["block"], "columns": ["x", "y"], "confidence": 0.95});
        let front = json!({"from": "means", "x": "x_mean", "x-better": "lower", "y": "y_mean",
            "y-better": "higher", "within": ["study"]});
        let tables = [("means", "aggregate", means), ("front", "frontier", front)];
        let frame = table(text, &["study", "row", "block"], &["x", "y"]);
        let mut made = crate::make::made(&tables, frame, &json!(null)).unwrap();
        (made.remove("means").unwrap(), made.remove("front").unwrap())
    }

    #[test]
    fn a_row_without_an_interval_silences_no_other() {
        let mut noise = Noise(5);
        let mut text = "study,row,block,x,y\n".to_owned();
        for row in 0..4 {
            // The best row has too few launches for an interval.
            for block in 0..if row == 3 { 2 } else { 5 } {
                let mut near = |value: f64| value * (0.01 * noise.normal()).exp();
                let (x, y) = (
                    near(100.0 - 20.0 * f64::from(row)),
                    near(100.0 + 40.0 * f64::from(row)),
                );
                text.push_str(&format!("0,{row},{block},{x},{y}\n"));
            }
        }
        let (_, front) = front(&text);
        let at = |name: &str| {
            ["0", "1", "2", "3"].map(|row| column(&front, &["0", row], name).to_string())
        };
        assert_eq!(at("beaten_by"), ["3", "2", "1", "0"]);
        assert_eq!(at("surely_beaten_by"), ["2", "1", "0", "null"]);
    }

    #[test]
    fn rows_with_a_column_that_few_launches_have_are_rarely_surely_beaten_by_chance() {
        // One row has the best `y`. All have the same `x` in truth, and only the best row has it in all seven launches. With
        // the degrees of freedom of seven launches for all rows, some row is surely beaten in 9 % of 600 studies.
        let studies = 300;
        let mut noise = Noise(12);
        let mut text = "study,row,block,x,y\n".to_owned();
        for study in 0..studies {
            for row in 0..24 {
                for block in 0..7 {
                    let level = if row == 0 {
                        1000.0
                    } else {
                        100.0 + 20.0 * f64::from(row)
                    };
                    let spread = if row == 0 { 0.002 } else { 0.05 };
                    let y = level * (0.01 * noise.normal()).exp();
                    let x = 100.0 * (spread * noise.normal()).exp();
                    let x = if row == 0 || block < 3 {
                        x.to_string()
                    } else {
                        String::new()
                    };
                    text.push_str(&format!("{study},{row},{block},{x},{y}\n"));
                }
            }
        }
        let (means, front) = front(&text);
        let at = |row: i64| {
            let is_of = |k: &usize| means.rows[*k].key == [0, row].map(artifacts::Scalar::Int);
            units_of(&means, (0..means.rows.len()).find(is_of).unwrap(), "x_mean")
        };
        assert_eq!([at(0), at(1)], [Some(7.0), Some(3.0)]);
        let mut beaten: Vec<_> = (0..front.rows.len())
            .filter(|row| {
                front
                    .number(*row, "surely_beaten_by")
                    .is_some_and(|n| n > 0.0)
            })
            .map(|row| front.rows[row].key[0].to_string())
            .collect();
        beaten.dedup();
        let share = beaten.len() as f64 / f64::from(studies);
        assert!(share <= 0.05, "{share}");
    }

    #[test]
    fn intervals_of_many_rows_are_wider() {
        // scipy.stats.t.isf(0.05 / 48, 4) / scipy.stats.t.isf(0.025, 4), 1.17.1
        assert!((factor(0.95, 12, 4.0) - 2.555660130571811).abs() < 1e-6);
        let (low, high) = widened(10.0, (5.0, 20.0), 2.0);
        assert!((low - 2.5).abs() < 1e-9 && (high - 40.0).abs() < 1e-9);
        assert_eq!(widened(1.0, (-1.0, 3.0), 2.0), (-3.0, 5.0));
        assert_eq!(widened(10.0, (8.0, 12.0), 1.0), (8.0, 12.0));
    }

    #[test]
    fn equal_rows_do_not_beat_each_other() {
        assert!(!beats((1.0, 2.0), (1.0, 2.0)));
        assert!(beats((1.0, 3.0), (1.0, 2.0)));
        assert!(!beats((2.0, 1.0), (1.0, 2.0)));
    }
}
