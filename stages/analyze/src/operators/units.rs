//! Units of replication: what was started again and could have turned out differently.
//!
//! Every interval and verdict of this crate is over units. A unit is a label of the unit axes. The default is the axis
//! `block`, which a study's design adds, and in which every configuration was started once. Values within a unit are
//! averaged; cells and requests are never units by themselves.

mod scale;
mod together;

use artifacts::Scalar;
use contract::{IntervalEnd, NotReplicated};
use pipeline::Failure;
pub(crate) use pipeline::design::BLOCK;
use pipeline::suggest::remedy;
use statistics::{
    Interval, LEAST_CLUSTERS, LEAST_UNITS, Refusal, Sample, UnitEffect, unit_effect_rounded,
};

pub(crate) use self::scale::{Scale, short};
pub(crate) use self::together::{Together, WHY, arithmetic_columns, interval_columns};
use crate::frame::{Bounds, Frame};
use crate::operators::fairness::Flattered;
use crate::operators::resemblance::{Doubt, doubt_of_effects};

/// The two-sided level of intervals that are not adjusted for a family.
pub(crate) const LEVEL: f64 = 0.95;

/// The reason why a figure without a value has no interval.
pub(crate) const NO_VALUE: &str = "no unit has a value";

/// The probability of finding the smallest detectable effect.
pub(crate) const POWER: f64 = 0.8;

/// The axes whose labels are the units.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    axes: Vec<String>,
    declared: bool,
    /// Whether every row is a unit by itself, so that none has more than one.
    apart: bool,
    /// Whether a unit holds several blocks of launches. It is then a cluster of them, such as a host or a day.
    clusters: bool,
}

impl Units {
    /// Returns the declared axes, or `block` if the table has it.
    ///
    /// # Errors
    /// If a declared axis is not a key of the table.
    pub(crate) fn of(
        declared: Option<&[String]>,
        from: &Frame,
        table: &str,
    ) -> Result<Self, Failure> {
        if let Some(axes) = declared {
            from.key_positions(axes, table)?;
            let has = |axes: &[String]| axes.iter().any(|axis| axis == BLOCK);
            return Ok(Self {
                axes: axes.to_vec(),
                declared: true,
                apart: false,
                clusters: !axes.is_empty() && has(&from.keys) && !has(axes),
            });
        }
        let axes = from.keys.iter().filter(|key| *key == BLOCK).cloned();
        Ok(Self {
            axes: axes.collect(),
            declared: false,
            apart: false,
            clusters: false,
        })
    }

    /// Returns the units of rows that are pooled over some axes.
    ///
    /// # Errors
    /// If a declared unit is not among these axes.
    pub(crate) fn within(self, over: &[String]) -> Result<Self, Failure> {
        match self.axes.iter().find(|axis| !over.contains(axis)) {
            None => Ok(self),
            Some(axis) if self.declared => Err(Failure::failed(format!(
                "the unit `{axis}` is not in `over`, so each row would have a single unit"
            ))
            .hint(remedy(axis, "axes in `over`", over))),
            Some(_) => Ok(Self {
                axes: Vec::new(),
                declared: false,
                apart: true,
                clusters: false,
            }),
        }
    }

    /// Returns the units named by axes of cells.
    pub(crate) fn of_cells(axes: &[String]) -> Self {
        Self {
            axes: axes.to_vec(),
            declared: true,
            apart: false,
            clusters: false,
        }
    }

    pub(crate) fn axes(&self) -> &[String] {
        &self.axes
    }

    pub(crate) fn is_none(&self) -> bool {
        self.axes.is_empty()
    }

    /// Explains why this many units cannot be judged. Clusters differ in more than launches do, and a few of them do
    /// not show by how much.
    pub(crate) fn refusal(&self, n: usize) -> Option<String> {
        let refusal = Refusal::TooFewClusters {
            n,
            least: LEAST_CLUSTERS,
        };
        (self.clusters && n < LEAST_CLUSTERS).then(|| refusal.to_string())
    }

    /// Returns the mean over units of values averaged within each; `None` without values. `level` is that of the
    /// interval. Every interval of a mean comes from here, so that refusals are the same everywhere.
    pub(crate) fn mean(&self, values: &[f64], level: f64, range: Bounds) -> Option<Mean> {
        let mean = Mean::over(values, level, range)?;
        let refusal = match self.is_none() {
            true => Some(self.none()),
            false => self.refusal(values.len()),
        };
        Some(match refusal {
            Some(refusal) => Mean {
                interval: Err(refusal),
                ..mean
            },
            None => mean,
        })
    }

    /// Returns the mean over units of the values of each. Units that resemble each other, as far as their values show, give
    /// no interval.
    pub(crate) fn mean_of(
        &self,
        labelled: Vec<(Vec<Scalar>, f64)>,
        level: f64,
        range: Bounds,
    ) -> Option<Mean> {
        let values: Vec<f64> = labelled.iter().map(|(_, value)| *value).collect();
        let mut mean = self.mean(&values, level, range)?;
        if mean.interval.is_ok() {
            mean.doubt(doubt_of_effects(self, labelled).as_ref());
        }
        Some(mean)
    }

    /// Returns the mean of the differences a − b of units, given as their label, a and b; `None` without units. Units that
    /// resemble each other give no interval.
    pub(crate) fn mean_difference(
        &self,
        units: &[(Vec<Scalar>, f64, f64)],
        level: f64,
    ) -> Option<Mean> {
        let differences = units.iter().map(|(_, a, b)| a - b);
        let differences: Vec<f64> = differences.collect();
        let value = Sample::new(differences.iter().copied()).ok()?.mean();
        let pairs = units.iter().map(|(_, a, b)| (*a, *b)).collect();
        let effect = unit_effect_rounded(&differences, Scale::Difference.rounding(&[pairs]));
        let constant = matches!(effect, Err(Refusal::NoSpread { .. }));
        let refusal = match self.is_none() {
            true => Some(self.none()),
            false => self.refusal(units.len()),
        };
        let interval = match refusal {
            Some(refusal) => Err(refusal),
            None => effect
                .map(|effect| outward(Scale::Difference, &effect, level))
                .map_err(|refusal| refusal.to_string()),
        };
        let mut mean = Mean {
            value,
            interval,
            arithmetic: None,
            constant,
            withheld: None,
        };
        if mean.interval.is_ok() {
            let labels = units.iter().map(|(label, ..)| label.clone());
            mean.doubt(doubt_of_effects(self, labels.zip(differences)).as_ref());
        }
        Some(mean)
    }

    /// Explains why this many units give no interval: too few clusters, or too few units of any kind.
    pub(crate) fn too_few(&self, n: usize) -> Option<String> {
        let least = LEAST_UNITS;
        let few = || (n < least).then(|| Refusal::TooFewUnits { n, least }.to_string());
        self.refusal(n).or_else(few)
    }

    /// Names the units behind the intervals of a row, or explains why it has none.
    pub(crate) fn interval_of(&self, n: usize) -> String {
        let words = self.words().unwrap_or_else(|| self.none());
        match self.too_few(n).filter(|_| !self.is_none()) {
            Some(refusal) => format!("{words}: {refusal}"),
            None => words,
        }
    }

    /// Returns the effect of units, or why it cannot be judged. `rounding` is the standard deviation that rounding
    /// alone gives to an effect.
    pub(crate) fn effect(&self, effects: &[f64], rounding: f64) -> Result<UnitEffect, String> {
        match self.refusal(effects.len()) {
            _ if effects.is_empty() => Err(
                "no unit has a value on each side; a quantile is null if too few requests bound it"
                    .to_owned(),
            ),
            Some(refusal) => Err(refusal),
            None => unit_effect_rounded(effects, rounding).map_err(|refusal| refusal.to_string()),
        }
    }

    /// Names the unit, and marks it if it is an assumption of the settings.
    pub(crate) fn words(&self) -> Option<String> {
        let declared = if self.declared && self.axes != [BLOCK] {
            " (declared)"
        } else {
            ""
        };
        (!self.is_none()).then(|| format!("{}{declared}", self.axes.join(" × ")))
    }

    /// Explains why nothing can be judged without units.
    pub(crate) fn none(&self) -> String {
        if self.apart {
            NotReplicated::Rows.because(format!("`{BLOCK}` is a key"))
        } else if self.declared {
            NotReplicated::Launches.because("`unit` is declared empty")
        } else {
            let reason = format!("the table has no key `{BLOCK}`, and no `unit` is declared");
            NotReplicated::Launches.because(reason)
        }
    }
}

/// A mean over units, with its interval.
#[derive(Clone, Debug)]
pub(crate) struct Mean {
    /// The mean over the units: geometric if the interval is that of their logarithms, otherwise arithmetic.
    pub(crate) value: f64,
    /// The interval, or the reason why there is none.
    pub(crate) interval: Result<Interval, String>,
    /// Where the units are averaged as logarithms: the interval around their arithmetic mean.
    arithmetic: Option<Interval>,
    /// Whether at least three units have this same value, apart from rounding, as an efficiency has at its anchor. It
    /// then has no spread by definition.
    pub(crate) constant: bool,
    /// The end of the interval that is withheld, and why.
    withheld: Option<(IntervalEnd, String)>,
}

impl Mean {
    /// Returns the mean over units of values averaged within each; `None` without values. `level` is
    /// that of the interval.
    ///
    /// Values that cannot be negative are averaged as logarithms if all of them are above 0. Other values may be
    /// positive by chance: in one study of eight, three differences around 0 are all above it, and logarithms would
    /// then always exclude 0. They are averaged as logarithms only if their own interval is above 0. Even then, values
    /// around 0 are there by chance, and the interval of the logarithms alone is too short. It reaches over both.
    fn over(units: &[f64], level: f64, range: Bounds) -> Option<Self> {
        let scale = if logarithmic(units, level, range) {
            Scale::Ratio
        } else {
            Scale::Difference
        };
        let inward: Vec<f64> = units.iter().filter_map(|v| scale.inward(*v)).collect();
        let mean = Sample::new(inward.iter().copied()).ok()?.mean();
        let value = match units {
            [one] => *one,
            _ => scale.outward(mean),
        };
        let effect = unit_effect_rounded(&inward, scale.rounding_of(&[units.to_vec()]));
        let constant = matches!(effect, Err(Refusal::NoSpread { .. }));
        let plain = |interval: Interval| match range {
            Bounds::Any if scale == Scale::Ratio => with_plain(interval, units, level),
            _ => interval,
        };
        let interval = effect.map(|effect| plain(outward(scale, &effect, level)));
        let negative = units.iter().any(|v| *v < 0.0);
        let within = |Interval { low, high }: Interval| Interval {
            low: match range {
                Bounds::Any => low,
                _ if negative => low,
                _ => low.max(0.0),
            },
            high: match range {
                Bounds::Share => high.min(1.0),
                _ => high,
            },
        };
        let arithmetic = || around_arithmetic(units, level).map(plain).map(within);
        Some(Self {
            value,
            interval: interval.map(within).map_err(|refusal| refusal.to_string()),
            arithmetic: (scale == Scale::Ratio).then(arithmetic).flatten(),
            constant,
            withheld: None,
        })
    }

    /// Returns the same mean with the interval of the arithmetic mean. The geometric mean of units that vary by 30 % is 4 %
    /// below the arithmetic one, so with many units its interval seldom contains the arithmetic mean.
    pub(crate) fn of_arithmetic(self) -> Self {
        match self.arithmetic {
            Some(interval) if self.interval.is_ok() => Self {
                interval: Ok(interval),
                ..self
            },
            _ => self,
        }
    }

    /// Withholds the interval if the units are not independent.
    pub(crate) fn doubt(&mut self, doubt: Option<&Doubt>) {
        if let Some(doubt) = doubt.filter(|_| self.interval.is_ok()) {
            self.interval = Err(doubt.refusal());
        }
    }

    /// Withholds the ends of the interval that would show a finding in favor of a side that lost cells. A mean that counts
    /// without an interval, because nothing was replicated, no longer does.
    pub(crate) fn withhold(&mut self, findings: Flattered, why: &str) {
        let ends = [IntervalEnd::Lower, IntervalEnd::Upper];
        let is_plain =
            |why: &str| NotReplicated::read(why).is_some() || Refusal::says_no_spread(why);
        match (&self.interval, ends.map(|end| findings.withholds(end))) {
            (Ok(_), [true, false]) => self.withheld = Some((IntervalEnd::Lower, why.to_owned())),
            (Ok(_), [false, true]) => self.withheld = Some((IntervalEnd::Upper, why.to_owned())),
            (Err(own), _) if !is_plain(own) => {}
            _ => self.interval = Err(why.to_owned()),
        }
    }

    fn end(&self, which: IntervalEnd) -> Option<f64> {
        let Interval { low, high } = self.interval.as_ref().ok()?;
        let withheld = self.withheld.as_ref().is_some_and(|(end, _)| *end == which);
        (!withheld).then_some(match which {
            IntervalEnd::Lower => *low,
            IntervalEnd::Upper => *high,
        })
    }

    pub(crate) fn low(&self) -> Option<f64> {
        self.end(IntervalEnd::Lower)
    }

    pub(crate) fn high(&self) -> Option<f64> {
        self.end(IntervalEnd::Upper)
    }

    /// Explains why an interval, or one end of it, was withheld; `None` if it is whole. Pass `None` if no row has a value to
    /// average.
    pub(crate) fn why(mean: Option<&Self>) -> Option<String> {
        match mean {
            Some(mean) => {
                let withheld = || mean.withheld.as_ref().map(|(_, why)| why.clone());
                mean.interval.as_ref().err().cloned().or_else(withheld)
            }
            None => Some(NO_VALUE.to_owned()),
        }
    }
}

/// Returns whether the mean of units and its interval are computed from their logarithms.
fn logarithmic(units: &[f64], level: f64, range: Bounds) -> bool {
    let positive = units.iter().all(|v| *v > 0.0);
    let rounding = Scale::Difference.rounding_of(&[units.to_vec()]);
    let above = || {
        let effect = unit_effect_rounded(units, rounding);
        effect.map_or(true, |effect| effect.interval(level).low > 0.0)
    };
    positive && (range != Bounds::Any || above())
}

/// Returns the shortest interval around one of logarithms and the plain one of the same units. A switch of the scale by the
/// values themselves costs coverage: with mean and standard deviation alike and three units, logarithms alone cover 93 to
/// 94 %, and both together 95 %.
fn with_plain(of_logarithms: Interval, units: &[f64], level: f64) -> Interval {
    let rounding = Scale::Difference.rounding_of(&[units.to_vec()]);
    match unit_effect_rounded(units, rounding) {
        Ok(effect) => {
            let plain = effect.interval(level);
            Interval {
                low: of_logarithms.low.min(plain.low),
                high: of_logarithms.high.max(plain.high),
            }
        }
        Err(_) => of_logarithms,
    }
}

/// Returns the interval of the arithmetic mean of units above 0, on a logarithmic scale: the relative standard error is that of
/// the logarithm of the mean (delta method). It never reaches 0.
fn around_arithmetic(units: &[f64], level: f64) -> Option<Interval> {
    let rounding = Scale::Difference.rounding_of(&[units.to_vec()]);
    let effect = unit_effect_rounded(units, rounding).ok()?;
    let half = (effect.interval(level).high - effect.mean) / effect.mean;
    Some(Interval {
        low: effect.mean * (-half).exp(),
        high: effect.mean * half.exp(),
    })
}

/// Returns the mean of values, without an interval: geometric if every value is above 0, otherwise arithmetic.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    Mean::over(values, LEVEL, Bounds::NotNegative).map(|mean| mean.value)
}

/// Returns the interval of an effect on the scale of its values.
pub(crate) fn outward(scale: Scale, effect: &UnitEffect, level: f64) -> Interval {
    let inner = effect.interval(level);
    Interval {
        low: scale.outward(inner.low),
        high: scale.outward(inner.high),
    }
}

/// Returns the interval over units in the columns next to a mean, or the reason why there is none. The columns are
/// `x_ci_low` and `x_ci_high` for `x_mean`, as `aggregate` makes them, or `x_low` and `x_high` for `x`.
pub(crate) fn interval_beside(
    from: &Frame,
    row: usize,
    column: &str,
) -> Result<(f64, f64), String> {
    let stem = column
        .strip_suffix("_mean")
        .map(|stem| format!("{stem}_ci"));
    let stem = stem.unwrap_or_else(|| column.to_owned());
    let end = |end: &str| from.number(row, &format!("{stem}_{end}"));
    end("low").zip(end("high")).ok_or_else(|| {
        let why = from.value(row, &format!("{stem}_why"));
        match why.filter(|why| **why != Scalar::Null) {
            Some(why) => why.to_string(),
            None => format!("its table has no interval of {column}"),
        }
    })
}

/// Groups values by their coordinate.
pub(crate) fn by_coordinate<T>(values: impl IntoIterator<Item = (Vec<Scalar>, T)>) -> Vec<Vec<T>> {
    let mut groups: Vec<(Vec<Scalar>, Vec<T>)> = Vec::new();
    for (coordinate, value) in values {
        match groups.binary_search_by(|(at, _)| contract::compare_all(at, &coordinate)) {
            Ok(at) => groups[at].1.push(value),
            Err(at) => groups.insert(at, (coordinate, vec![value])),
        }
    }
    groups.into_iter().map(|(_, values)| values).collect()
}

/// Groups values by unit and averages within each, in order of the units.
pub(crate) fn averaged(
    values: impl IntoIterator<Item = (Vec<Scalar>, f64)>,
) -> Vec<(Vec<Scalar>, f64)> {
    let mut labelled: Vec<(Vec<Scalar>, f64)> = values.into_iter().collect();
    labelled.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    let mean = |group: &[(Vec<Scalar>, f64)]| {
        let sample = Sample::new(group.iter().map(|(_, value)| *value)).ok()?;
        Some((group[0].0.clone(), sample.mean()))
    };
    labelled
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(mean)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_values_above_zero_has_an_interval_above_zero() {
        let mean = Mean::over(&[1.0, 2.0, 12.0], LEVEL, Bounds::NotNegative).unwrap();
        assert!((mean.value - 24.0_f64.cbrt()).abs() < 1e-12);
        assert!(mean.low().unwrap() > 0.0);
        let mixed = Mean::over(&[-1.0, 2.0, 3.0], LEVEL, Bounds::NotNegative).unwrap();
        assert_eq!(mixed.value, 4.0 / 3.0);
    }

    #[test]
    fn differences_that_happen_to_be_positive_may_still_be_zero() {
        let units = [1.0, 2.0, 12.0];
        let mean = Mean::over(&units, LEVEL, Bounds::Any).unwrap();
        assert_eq!(mean.value, 5.0);
        assert!(mean.low().unwrap() < 0.0);
        // Well above 0, a factor and a difference are nearly the same.
        let [any, not_negative] = [Bounds::Any, Bounds::NotNegative]
            .map(|range| Mean::over(&[100.0, 101.0, 103.0], LEVEL, range).unwrap());
        assert_eq!(any.value, not_negative.value);
        let ends = any.low().zip(not_negative.low()).unwrap();
        assert!(ends.0 <= ends.1 && ends.1 - ends.0 < 0.1, "{ends:?}");
    }

    #[test]
    fn an_interval_just_above_zero_is_no_shorter_than_the_plain_one() {
        // Normal values with a mean as large as their standard deviation may lie like this.
        let units = [0.912_345, 1.023_457, 1.634_568];
        let plain = unit_effect_rounded(&units, 0.0).unwrap().interval(LEVEL);
        assert!(plain.low > 0.0, "{plain:?}");
        let mean = Mean::over(&units, LEVEL, Bounds::Any).unwrap();
        let not_negative = Mean::over(&units, LEVEL, Bounds::NotNegative).unwrap();
        for (any, logarithms) in [
            (mean.clone(), not_negative.clone()),
            (mean.of_arithmetic(), not_negative.of_arithmetic()),
        ] {
            let (any, logarithms) = (any.interval.unwrap(), logarithms.interval.unwrap());
            assert!(any.low <= plain.low && any.low < logarithms.low);
            assert!(any.high >= plain.high && any.high >= logarithms.high);
        }
    }

    #[test]
    fn an_interval_stays_within_what_the_column_can_be() {
        let over = |range| Mean::over(&[0.0, 0.1, 0.3], LEVEL, range).unwrap();
        assert!(over(Bounds::Any).low().unwrap() < 0.0);
        assert_eq!(over(Bounds::NotNegative).low(), Some(0.0));
        let share = |range| Mean::over(&[0.9, 1.0, 1.0], LEVEL, range).unwrap();
        assert!(share(Bounds::NotNegative).high().unwrap() > 1.0);
        assert_eq!(share(Bounds::Share).high(), Some(1.0));
    }

    #[test]
    fn two_units_have_a_mean_and_no_interval() {
        let mean = Mean::over(&[1.0, 2.0], LEVEL, Bounds::Any).unwrap();
        assert_eq!(
            mean.interval.unwrap_err(),
            "2 units, and at least 3 are needed"
        );
        assert!(Mean::over(&[], LEVEL, Bounds::Any).is_none());
    }
}
