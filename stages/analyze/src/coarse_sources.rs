//! Figures that were computed from rounded values.
//!
//! If a throughput is printed as 10 in every launch, the true one may be 9.6 or 10.4, and so may the cost that follows from
//! it. The digits of the cost no longer show the step. It is found in the column that the figure was computed from.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::LineageSource;
use statistics::shared_errors;

use crate::frame::{Bounds, Frame, Level, SourceRows};
use crate::operators::alike::{Statistic, pools_of};

/// The rounding of the columns behind figures.
pub(crate) struct CoarseSources<'a> {
    tables: &'a BTreeMap<String, Frame>,
    axis: &'a str,
    units: &'a [String],
    /// The most by which all values of a row's stratum may be off together, by table and column.
    errors: BTreeMap<(String, String), Vec<f64>>,
}

impl<'a> CoarseSources<'a> {
    pub(crate) fn new(
        tables: &'a BTreeMap<String, Frame>,
        axis: &'a str,
        units: &'a [String],
    ) -> Self {
        Self {
            tables,
            axis,
            units,
            errors: BTreeMap::new(),
        }
    }

    /// Returns the largest relative error that all values of each side may share, as a mean over some rows, apart from what their
    /// own digits show; `None` if nothing was rounded.
    pub(crate) fn of_sides<'s>(
        &mut self,
        sides: [&str; 2],
        column: &str,
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> Option<[f64; 2]> {
        let mut of_sides = [Vec::new(), Vec::new()];
        let mut direct: Vec<(String, [Vec<usize>; 2])> = Vec::new();
        for span in rows {
            let LineageSource::Table(table) = &span.source else {
                continue;
            };
            let frame = self.tables.get(&**table)?;
            let axis = frame.keys.iter().position(|key| key == self.axis)?;
            let derived = pools_of(frame, column, table).is_some();
            for row in span.start..span.end {
                let label = frame.rows[row].key[axis].to_string();
                let Some(side) = sides.iter().position(|side| *side == label) else {
                    continue;
                };
                if derived {
                    of_sides[side].extend(self.off((table, column), row));
                    continue;
                }
                if direct.last().is_none_or(|(name, _)| **name != **table) {
                    direct.push((table.to_string(), Default::default()));
                }
                if let Some((_, rows)) = direct.last_mut() {
                    rows[side].push(row);
                }
            }
        }
        for (table, rows) in &direct {
            for (off, rows) in of_sides.iter_mut().zip(rows) {
                off.extend(self.beyond((table, column), rows)?);
            }
        }
        let means = of_sides.map(|off| off.iter().sum::<f64>() / off.len().max(1) as f64);
        means.iter().any(|off| *off > 0.0).then_some(means)
    }

    /// Returns the relative errors of the strata of one side that its other rows show, and its own do not: 100 may be a whole
    /// number, or have two digits. A comparison has already counted the errors that its own rows show.
    fn beyond(&mut self, (table, column): (&str, &str), rows: &[usize]) -> Option<Vec<f64>> {
        let frame = self.tables.get(table)?;
        let errors = self.errors((table, column), frame).to_vec();
        let others = self.others(frame);
        let mut strata: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
        for row in rows {
            let stratum = strata.entry(name(&frame.key_at(*row, &others)));
            let value = frame.number(*row, column).map(|value| (*row, value));
            stratum.or_default().extend(value);
        }
        let values = strata
            .values()
            .map(|stratum| stratum.iter().map(|(_, v)| *v).collect());
        let own = shared_errors(&values.collect::<Vec<Vec<f64>>>());
        let off = strata.values().zip(own).filter_map(|(stratum, own)| {
            let (row, _) = *stratum.first()?;
            let mean = stratum.iter().map(|(_, v)| v).sum::<f64>() / stratum.len() as f64;
            let more = (errors[row] - own).max(0.0);
            Some(if mean == 0.0 { 0.0 } else { more / mean.abs() })
        });
        Some(off.collect())
    }

    /// The positions of the keys that make strata within a side.
    fn others(&self, frame: &Frame) -> Vec<usize> {
        let is_other = |key: &String| key != self.axis && !self.units.contains(key);
        (0..frame.keys.len())
            .filter(|at| is_other(&frame.keys[*at]))
            .collect()
    }

    /// Returns the largest relative error of one figure.
    fn off(&mut self, (table, column): (&str, &str), row: usize) -> Option<f64> {
        let tables = self.tables;
        let frame = tables.get(table)?;
        let spec = frame.spec(column)?;
        let value = frame.number(row, column)?.abs();
        let Some(pools) = pools_of(frame, column, table) else {
            let errors = self.errors((table, column), frame);
            return (value > 0.0).then(|| errors[row] / value);
        };
        let source = tables.get(&pools.table)?;
        let own = |span: &&SourceRows| matches!(&span.source, LineageSource::Table(name) if **name == *pools.table);
        let spans = frame.rows[row].lineage.iter().filter(own);
        let behind: Vec<usize> = spans.flat_map(|span| span.start..span.end).collect();
        let (mut largest, mut sum, mut total): (f64, f64, f64) = (0.0, 0.0, 0.0);
        for row in &behind {
            let value = source.number(*row, &pools.column);
            let off = self.off((&pools.table, &pools.column), *row);
            if let Some((value, off)) = value.zip(off) {
                largest = largest.max(off);
                (sum, total) = (sum + off * value.abs(), total + value.abs());
            }
        }
        Some(match pools.how {
            Some(Statistic::Count) => 0.0,
            Some(Statistic::Mean) if total > 0.0 => sum / total,
            // An anchor is 1 by definition, and follows from a single value.
            None if spec.range == Bounds::Relative && behind.len() == 1 => 0.0,
            // A quotient has the errors of two values.
            None if behind.len() > 1 => 2.0 * largest,
            _ => largest,
        })
    }

    /// Returns the errors of a column that was computed from no other. The rows of a side at the same labels, apart from those
    /// of units, are a stratum.
    fn errors(&mut self, (table, column): (&str, &str), frame: &Frame) -> &[f64] {
        let (axis, others) = (self.axis, self.others(frame));
        let place = (table.to_owned(), column.to_owned());
        self.errors.entry(place).or_insert_with(|| {
            let mut errors = vec![0.0; frame.rows.len()];
            // The times of requests come from clocks.
            if frame.level == Level::Row {
                return errors;
            }
            let side = frame.keys.iter().position(|key| key == axis);
            let mut sides: BTreeMap<String, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
            for (row, labelled) in frame.rows.iter().enumerate() {
                let label = side.map_or(String::new(), |at| labelled.key[at].to_string());
                let strata = sides.entry(label).or_default();
                let stratum = strata.entry(name(&frame.key_at(row, &others)));
                stratum.or_default().push(row);
            }
            for strata in sides.into_values() {
                let value = |row: &usize| frame.number(*row, column);
                let values = strata
                    .values()
                    .map(|rows| rows.iter().filter_map(value).collect());
                let values: Vec<Vec<f64>> = values.collect();
                for (rows, error) in strata.into_values().zip(shared_errors(&values)) {
                    rows.into_iter().for_each(|row| errors[row] = error);
                }
            }
            errors
        })
    }
}

fn name(labels: &[Scalar]) -> String {
    let labels = labels.iter().map(ToString::to_string);
    labels.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use pipeline::Json;
    use serde_json::json;

    use super::*;
    use crate::frame::{Row, Spec};
    use crate::make::made;

    /// Five launches of two sides: `a` is printed in whole numbers, `b` in full and slightly larger.
    fn study(whole: f64, full: f64) -> Frame {
        let rows = (1..=5_i64).flat_map(|block| {
            let noise = 1e-3 * f64::from(block as i32).sin();
            let values = [("a", whole), ("b", full * (1.0 + noise))];
            values.map(|(side, value)| {
                let key = vec![Scalar::Text(side.to_owned()), Scalar::Int(block)];
                Row::new(key, vec![Scalar::Float(value)], Vec::new())
            })
        });
        let frame = Frame {
            level: Level::Cell,
            keys: vec!["side".to_owned(), "block".to_owned()],
            specs: vec![Spec::float("rate", "tok/s", "a throughput")],
            rows: rows.collect(),
            missing: Vec::new(),
        };
        frame.settle().unwrap()
    }

    fn compared(frame: Frame) -> (String, String, [f64; 2]) {
        let cost = json!({"from": "t", "column": "rate", "devices": 1, "price-per-hour": 3.0, "currency": "USD",
            "price-date": "2026-01-31", "price-source": "a list"});
        let sides = json!({"from": "cost", "columns": ["cost_per_million_tokens"],
            "pair": {"axis": "side", "a": "a", "b": "b"}});
        let tables = [("cost", "cost", cost), ("made", "paired-comparison", sides)];
        let table = made(&tables, frame, &Json::Null)
            .unwrap()
            .remove("made")
            .unwrap();
        let text = |column: &str| table.value(0, column).unwrap().to_string();
        let ends = ["ci_low", "ci_high"].map(|end| table.number(0, end).unwrap());
        (text("verdict"), text("verdict_reason"), ends)
    }

    #[test]
    fn a_cost_of_a_rounded_throughput_is_as_uncertain_as_its_step() {
        // 10 tok/s may be 10.4.
        let (verdict, reason, [low, high]) = compared(study(10.0, 10.4));
        assert_eq!(verdict, "undecidable", "{reason}");
        let why = "the values behind those of a may be off by 5 %, and those of b by 0 %: a clock or a file rounded them";
        assert!(reason.contains(why), "{reason}");
        assert!(low < 1.0 && high > 1.0, "{low} {high}");
        // It cannot be 12.
        let (verdict, reason, [low, _]) = compared(study(10.0, 12.0));
        assert_eq!(verdict, "different", "{reason}");
        assert!(low > 1.0, "{low}");
        // Values in full have no step.
        let (verdict, reason, _) = compared(study(10.012_345_678_912, 10.4));
        assert_eq!(verdict, "different", "{reason}");
    }
}
