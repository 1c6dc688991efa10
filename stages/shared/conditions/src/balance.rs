//! Compares the measuring conditions of the sides of a comparison.

use std::collections::BTreeMap;

use statistics::{Sample, holm, student_two_sided};

use crate::sampled::{CONDITIONS, Condition, Conditions};

/// One cell: its side and its unit of replication.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The side's label.
    pub side: String,
    /// The label of the unit, such as the block; equal for all cells if there are no units.
    pub unit: String,
    /// The conditions sampled during the cell.
    pub conditions: Conditions,
}

/// One condition compared between two sides.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The first side.
    pub a: String,
    /// The second side.
    pub b: String,
    condition: &'static Condition,
    /// The mean of the first side over the units that have both sides, in the unit of the condition.
    pub mean_a: f64,
    /// The same for the second side.
    pub mean_b: f64,
    /// The p value over units, Holm-adjusted over all comparisons; `None` with fewer than three units.
    pub p: Option<f64>,
    /// Whether the conditions of the sides differ.
    pub differs: bool,
}

impl Compared {
    /// Returns the name of the condition.
    pub fn name(&self) -> &'static str {
        self.condition.name
    }

    /// Describes what differs and by how much.
    pub fn text(&self) -> String {
        let p = self.p.map_or(String::new(), |p| format!("; p {}", show(p)));
        format!(
            "{}: {} with {}, {} with {} ({}){p}",
            self.condition.name,
            show(self.mean_a),
            self.a,
            show(self.mean_b),
            self.b,
            self.condition.what
        )
    }
}

/// Writes a number with three significant digits.
fn show(value: f64) -> String {
    statistics::significant(value, 3)
}

/// The default chance of any false alarm in one call of [`compared`].
pub const ALPHA: f64 = 0.05;

/// The smallest number of units for a test.
const UNITS: usize = 3;

/// Without a test, the sides must differ by this multiple of the bound.
const UNTESTED: f64 = 2.0;

/// Compares every condition between every two sides, except for the conditions that may differ. Values are paired
/// within units. If the sides have no unit in common, as with two studies or with systems on their own machines, the
/// units count as independent values. The sides differ in a condition if their means are further apart than its bound
/// and the t test over units (paired, or Welch's), Holm-adjusted over all conditions and pairs of sides, gives at most
/// `alpha`. With fewer than three units, they differ if they are apart by twice the bound. A condition that was not
/// sampled on both sides, or on both sides of a unit, is not compared.
pub fn compared(cells: &[Measured], alpha: f64, may_differ: &[String]) -> Vec<Compared> {
    // By side, then by unit.
    type Units<'a> = BTreeMap<&'a str, Vec<&'a Conditions>>;
    let mut sides: BTreeMap<&str, Units<'_>> = BTreeMap::new();
    for cell in cells {
        let units = sides.entry(&cell.side).or_default();
        units.entry(&cell.unit).or_default().push(&cell.conditions);
    }
    let labels: Vec<&str> = sides.keys().copied().collect();
    let mut all = Vec::new();
    for (i, a) in labels.iter().enumerate() {
        for b in &labels[i + 1..] {
            for (at, condition) in CONDITIONS.iter().enumerate() {
                if may_differ.iter().any(|name| name == condition.name) {
                    continue;
                }
                let difference = if sides[a].keys().any(|unit| sides[b].contains_key(unit)) {
                    let pairs = sides[a].iter().filter_map(|(unit, cells)| {
                        Some((mean(cells, at)?, mean(sides[b].get(unit)?, at)?))
                    });
                    paired(&pairs.collect::<Vec<_>>())
                } else {
                    let means = |side: &str| -> Vec<f64> {
                        let units = sides[side].values();
                        units.filter_map(|cells| mean(cells, at)).collect()
                    };
                    independent(&means(a), &means(b))
                };
                all.extend(difference.map(|difference| Compared {
                    a: (*a).to_owned(),
                    b: (*b).to_owned(),
                    condition,
                    mean_a: difference.means.0,
                    mean_b: difference.means.1,
                    p: difference.p,
                    differs: false,
                }));
            }
        }
    }
    let tested: Vec<f64> = all.iter().filter_map(|c| c.p).collect();
    let mut adjusted = holm(&tested).into_iter();
    for compared in &mut all {
        let beyond = compared
            .condition
            .bound
            .exceeded(compared.mean_a, compared.mean_b);
        compared.p = compared.p.and_then(|_| adjusted.next());
        compared.differs = match compared.p {
            Some(p) => beyond > 1.0 && p <= alpha,
            None => beyond > UNTESTED,
        };
    }
    all
}

fn mean(cells: &[&Conditions], condition: usize) -> Option<f64> {
    let values: Vec<f64> = cells.iter().filter_map(|c| c.get(condition)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A condition compared between two sides, before adjustment for the others.
struct Found {
    means: (f64, f64),
    /// `None` with fewer than three units.
    p: Option<f64>,
}

/// Compares the sides within units; `None` without any unit.
fn paired(pairs: &[(f64, f64)]) -> Option<Found> {
    let mean = |side: fn(&(f64, f64)) -> f64| Some(sample(pairs.iter().map(side))?.mean());
    let differences = sample(pairs.iter().map(|(x, y)| x - y))?;
    let n = pairs.len() as f64;
    let p = (pairs.len() >= UNITS).then(|| {
        let error = differences.std().unwrap_or(0.0) / n.sqrt();
        p_of(differences.mean(), error, n - 1.0)
    });
    Some(Found {
        means: (mean(|p| p.0)?, mean(|p| p.1)?),
        p,
    })
}

/// Compares sides without a common unit; `None` if one side has no units.
fn independent(a: &[f64], b: &[f64]) -> Option<Found> {
    let (x, y) = (sample(a.iter().copied())?, sample(b.iter().copied())?);
    let variance = |s: &Sample| s.std().unwrap_or(0.0).powi(2) / s.len() as f64;
    let (u, v) = (variance(&x), variance(&y));
    let p = (a.len().min(b.len()) >= UNITS).then(|| {
        // Welch's t with Satterthwaite's degrees of freedom.
        let df = (u + v).powi(2) / (u * u / (a.len() - 1) as f64 + v * v / (b.len() - 1) as f64);
        p_of(x.mean() - y.mean(), (u + v).sqrt(), df)
    });
    Some(Found {
        means: (x.mean(), y.mean()),
        p,
    })
}

fn sample(values: impl Iterator<Item = f64>) -> Option<Sample> {
    Sample::new(values).ok()
}

fn p_of(difference: f64, error: f64, df: f64) -> f64 {
    match (error > 0.0, difference != 0.0) {
        (true, _) => student_two_sided(difference / error, df),
        // An equal difference in every unit is not chance.
        (false, true) => 0.0,
        (false, false) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use artifacts::{Column, Table};

    use super::*;
    use crate::Samples;

    /// Cells of a machine with these temperatures in °C, by side and unit.
    fn cells(temperatures: &[(&str, &str, f64)]) -> Vec<Measured> {
        let cell = |(side, unit, degrees): &(&str, &str, f64)| {
            let host = Table::new(vec![
                Column::int("at_ns", [Some(0), Some(1)]),
                Column::float("temperature_c", [Some(*degrees), Some(99.0)]),
            ]);
            let samples = Samples {
                host: Some(&host.unwrap()),
                server_host: None,
                gpu: None,
                processes: None,
                window: None,
            };
            Measured {
                side: (*side).to_owned(),
                unit: (*unit).to_owned(),
                conditions: samples.conditions(),
            }
        };
        temperatures.iter().map(cell).collect()
    }

    #[test]
    fn what_is_apart_by_more_than_matters_in_every_unit_differs_and_what_varies_as_much_does_not() {
        let apart = [
            ("a", "1", 50.0),
            ("b", "1", 60.0),
            ("a", "2", 51.0),
            ("b", "2", 60.5),
        ];
        let more = [("a", "3", 50.0), ("b", "3", 61.0)];
        let comparison = compared(&cells(&[apart.as_slice(), &more].concat()), ALPHA, &[]);
        assert_eq!(comparison.len(), 1);
        assert!(comparison[0].differs && comparison[0].p.unwrap() < 0.01);
        let text = comparison[0].text();
        let start = "temperature: 50.3 with a, 60.5 with b (°C of the hottest thermal zone before the load); p 0.00";
        assert!(text.starts_with(start), "{text}");
        let varies = [("a", "3", 50.0), ("b", "3", 40.0)];
        let comparison = compared(&cells(&[apart.as_slice(), &varies].concat()), ALPHA, &[]);
        assert!(!comparison[0].differs);
    }

    #[test]
    fn without_three_units_a_difference_must_be_twice_what_matters() {
        let apart = |degrees| {
            let cells = cells(&[("a", "1", 50.0), ("b", "1", degrees)]);
            compared(&cells, ALPHA, &[])[0].differs
        };
        assert!(!apart(65.9));
        assert!(apart(66.1));
    }

    #[test]
    fn sides_without_a_unit_in_common_are_compared_as_independent_ones() {
        let sides = |noise: f64| {
            let unit = |i: i32| {
                let swing = noise * f64::from(i % 2);
                [("a", i, 50.0 + swing), ("b", i + 10, 60.0 - swing)]
            };
            let units: Vec<(&str, String, f64)> = (1..=4)
                .flat_map(unit)
                .map(|(side, unit, degrees)| (side, unit.to_string(), degrees))
                .collect();
            let units: Vec<(&str, &str, f64)> =
                units.iter().map(|(s, u, d)| (*s, u.as_str(), *d)).collect();
            compared(&cells(&units), ALPHA, &[])
        };
        let calm = &sides(0.2)[0];
        assert!(calm.differs && (calm.mean_a, calm.mean_b) == (50.1, 59.9));
        let wild = &sides(20.0)[0];
        assert!(!wild.differs && wild.p.unwrap() > 0.2);
    }

    #[test]
    fn what_may_differ_is_not_compared() {
        let cells = cells(&[("a", "1", 50.0), ("b", "1", 80.0)]);
        assert!(compared(&cells, ALPHA, &["temperature".to_owned()]).is_empty());
    }
}
