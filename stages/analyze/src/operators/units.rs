//! Units of replication: what was started again and could have turned out differently.
//!
//! Every interval and verdict of this crate is over units. A unit is a label of the unit axes. The default is the axis
//! `block`, which a study's design adds, and in which every configuration was started once. Values within a unit are
//! averaged; cells and requests are never units by themselves.

use artifacts::Scalar;
use contract::IntervalEnd;
use pipeline::Failure;
use pipeline::suggest::remedy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Interval, LEAST_CLUSTERS, LEAST_UNITS, Refusal, Sample, UnitEffect, unit_effect_rounded,
};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Spec};
use crate::operators::resemblance::{Doubt, doubt_of_effects, groupings, nested};

/// The axis that a study's design adds.
pub(crate) const BLOCK: &str = "block";

/// The two-sided level of intervals that are not adjusted for a family.
pub(crate) const LEVEL: f64 = 0.95;

/// The reason why a figure without a value has no interval.
pub(crate) const NO_VALUE: &str = "no unit has a value";

/// The description of the columns with the reason for a withheld interval.
pub(crate) const WHY: &str = "why the interval is withheld; null if there is one";

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
            _ if effects.is_empty() => Err("no unit has a value on each side; a quantile has none if too few requests bound it".to_owned()),
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
            format!("one unit per row, because `{BLOCK}` is a key")
        } else if self.declared {
            "no replication of launches: `unit` is declared empty".to_owned()
        } else {
            "no replication of launches: the table has no key `block`, and no `unit` is declared"
                .to_owned()
        }
    }
}

/// The scale of effects and of means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scale {
    /// a ÷ b, averaged as logarithms: an interval never reaches 0. Values must be above 0.
    #[default]
    Ratio,
    /// a − b, in the unit of the metric.
    Difference,
}

impl Scale {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Difference => "difference",
        }
    }

    /// Returns a value on the scale on which effects are averaged; `None` where the value has no place on it.
    pub(crate) fn inward(self, value: f64) -> Option<f64> {
        match self {
            Self::Ratio => (value > 0.0).then(|| value.ln()),
            Self::Difference => Some(value),
        }
    }

    /// Converts an average on that scale back.
    pub(crate) fn outward(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }

    /// Returns the effect of a over b; `None` where there is no ratio.
    pub(crate) fn effect(self, a: f64, b: f64) -> Option<f64> {
        Some(self.inward(a)? - self.inward(b)?)
    }

    /// Returns the standard deviation that rounding alone gives to the effect of a unit; 0 for values that were not
    /// rounded. Each list has the pairs of one coordinate, and a unit is averaged over them.
    pub(crate) fn rounding(self, strata: &[Vec<(f64, f64)>]) -> f64 {
        match self {
            Self::Ratio => statistics::rounding_of_ratios_over(strata),
            Self::Difference => statistics::rounding_of_differences_over(strata),
        }
    }

    /// Returns the standard deviation that rounding alone gives to the value of a unit, on the scale; 0 for values that
    /// were not rounded. Each list has the values of one coordinate, and a unit is averaged over them.
    pub(crate) fn rounding_of(self, strata: &[Vec<f64>]) -> f64 {
        match self {
            Self::Ratio => statistics::rounding_of_logs_over(strata),
            Self::Difference => statistics::rounding_of_values_over(strata),
        }
    }

    /// Returns the size of an effect in ordinary terms: a share, or in the unit of the metric.
    pub(crate) fn size(self, effect: f64) -> f64 {
        match self {
            Self::Ratio => effect.exp_m1(),
            Self::Difference => effect,
        }
    }

    /// Returns the effect that corresponds to a margin: a share, or in the unit of the metric.
    pub(crate) fn margin(self, margin: f64) -> f64 {
        match self {
            Self::Ratio => statistics::log_margin(margin),
            Self::Difference => margin,
        }
    }

    /// Formats a size for people.
    pub(crate) fn show(self, size: f64) -> String {
        match self {
            Self::Ratio => format!("{} %", short(100.0 * size)),
            Self::Difference => short(size),
        }
    }

    /// Formats an effect for people: a factor, or in the unit of the metric.
    pub(crate) fn show_effect(self, effect: f64) -> String {
        match self {
            Self::Ratio => format!("{}×", short(effect.exp())),
            Self::Difference => short(effect),
        }
    }

    /// Explains that some values of a column have no place on the scale.
    pub(crate) fn refusal(self, column: &str, values: &[f64]) -> String {
        contract::without_ratio(column, values, "declare `scale: difference`")
    }
}

/// Formats a number with three significant digits.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9);
    format!("{value:.*}", digits as usize)
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
}

impl Mean {
    /// Returns the mean over units of values averaged within each; `None` without values. `level` is
    /// that of the interval.
    ///
    /// Values that cannot be negative are averaged as logarithms if all of them are above 0. Other values may be
    /// positive by chance: in one study of eight, three differences around 0 are all above it, and logarithms would
    /// then always exclude 0. They are averaged as logarithms only if their own interval is above 0.
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
        let interval = effect.map(|effect| outward(scale, &effect, level));
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
        let arithmetic = || around_arithmetic(units, level).map(within);
        Some(Self {
            value,
            interval: interval.map(within).map_err(|refusal| refusal.to_string()),
            arithmetic: (scale == Scale::Ratio).then(arithmetic).flatten(),
            constant,
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

    pub(crate) fn low(&self) -> Option<f64> {
        self.interval.as_ref().ok().map(|i| i.low)
    }

    pub(crate) fn high(&self) -> Option<f64> {
        self.interval.as_ref().ok().map(|i| i.high)
    }

    /// Explains why a mean has no interval; `None` for one that has. Without any value there is no mean either.
    pub(crate) fn why(mean: Option<&Self>) -> Option<String> {
        match mean {
            Some(mean) => mean.interval.as_ref().err().cloned(),
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

/// Rows pooled over axes, including the unit axes.
pub(crate) struct Together {
    /// The remaining keys.
    pub(crate) keys: Vec<String>,
    /// The rows for each of their values.
    pub(crate) groups: Vec<(Vec<Scalar>, Vec<usize>)>,
    pub(crate) units: Units,
    /// The positions of the unit axes.
    at: Vec<usize>,
    /// The names and the positions of the other pooled axes.
    names: Vec<String>,
    within: Vec<usize>,
}

impl Together {
    /// Groups the rows of a table by the keys that are not in `over`. With an empty `over`, every row is its own group.
    ///
    /// # Errors
    /// If an axis is not a key, or a declared unit is not among `over`.
    pub(crate) fn new(
        from: &Frame,
        table: &str,
        over: &[String],
        unit: Option<&[String]>,
    ) -> Result<Self, Failure> {
        from.key_positions(over, table)?;
        let units = Units::of(unit, from, table)?.within(over)?;
        let keys = from.keys_without(over);
        let positions = from.key_positions(&keys, table)?;
        let names = over.iter().filter(|axis| !units.axes().contains(axis));
        let names: Vec<String> = names.cloned().collect();
        Ok(Self {
            within: from.key_positions(&names, table)?,
            names,
            groups: from.groups(&positions),
            at: from.key_positions(units.axes(), table)?,
            keys,
            units,
        })
    }

    /// Returns the mean over units of a figure of the rows, after averaging within each unit; `None` where no row has
    /// the figure.
    pub(crate) fn mean(
        &self,
        from: &Frame,
        rows: &[usize],
        (level, range): (f64, Bounds),
        figure: impl Fn(usize) -> Option<f64>,
    ) -> Option<Mean> {
        let figures = rows.iter().filter_map(|row| Some((*row, figure(*row)?)));
        if self.units.is_none() {
            let values: Vec<f64> = figures.map(|(_, value)| value).collect();
            return self.units.mean(&values, level, range);
        }
        let figures: Vec<(usize, f64)> = figures.collect();
        let unit = |row: usize| from.key_at(row, &self.at);
        let labelled = averaged(figures.iter().map(|(row, value)| (unit(*row), *value)));
        let values: Vec<f64> = labelled.iter().map(|(_, v)| *v).collect();
        let mut mean = self.units.mean(&values, level, range)?;
        if mean.interval.is_ok() {
            let rows = figures.iter();
            let rows = rows.map(|(row, _)| (unit(*row), from.key_at(*row, &self.within)));
            let rows: Vec<_> = rows.collect();
            let around = groupings(&self.names, &rows);
            let doubt = || doubt_of_effects(&self.units, labelled).map(|doubt| doubt.refusal());
            let doubt = nested(&around).or_else(doubt);
            if let Some(doubt) = doubt {
                mean.interval = Err(doubt);
            }
        }
        Some(mean)
    }

    /// Returns the number of units among the rows.
    pub(crate) fn count(&self, from: &Frame, rows: &[usize]) -> usize {
        if self.units.is_none() {
            return 0;
        }
        let labels = rows.iter().map(|row| (from.key_at(*row, &self.at), 0.0));
        averaged(labels).len()
    }
}

/// The columns of an interval of a mean over units: its ends, in columns like `spec`, and the reason if it is withheld.
pub(crate) fn interval_columns<'a, T: 'a>(
    columns: Columns<'a, T>,
    spec: &Spec,
    what: (&str, &str, f64),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let scale = match spec.range {
        Bounds::Any => {
            "of the geometric mean if all units are well above 0, otherwise of the arithmetic mean"
        }
        Bounds::NotNegative | Bounds::Relative => {
            "of the geometric mean if all units are above 0, otherwise of the arithmetic mean, cut off at 0"
        }
        Bounds::Share => {
            "of the geometric mean if all units are above 0, otherwise of the arithmetic mean, cut off at 0 and 1"
        }
    };
    scaled_columns(columns, spec, (what, scale), mean)
}

/// As [`interval_columns`], for arithmetic means.
pub(crate) fn arithmetic_columns<'a, T: 'a>(
    columns: Columns<'a, T>,
    spec: &Spec,
    what: (&str, &str, f64),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let scale = match spec.range {
        Bounds::Any => "on a logarithmic scale if all units are well above 0",
        Bounds::NotNegative | Bounds::Relative => {
            "on a logarithmic scale if all units are above 0, otherwise cut off at 0"
        }
        Bounds::Share => {
            "on a logarithmic scale if all units are above 0, otherwise cut off at 0; cut off at 1"
        }
    };
    scaled_columns(columns, spec, (what, scale), mean)
}

fn scaled_columns<'a, T: 'a>(
    mut columns: Columns<'a, T>,
    spec: &Spec,
    ((stem, what, level), scale): ((&str, &str, f64), &str),
    mean: impl Fn(&T) -> Option<&Mean> + Copy + Send + Sync + 'a,
) -> Columns<'a, T> {
    let end = |which: IntervalEnd| {
        which.of(format!(
            "the {level} t interval of {what} over the units; {scale}; null with fewer than three \
            units, or five clusters"
        ))
    };
    columns.push(
        spec.like(format!("{stem}_low"), end(IntervalEnd::Lower)),
        move |of: &T| mean(of).and_then(Mean::low),
    );
    columns.push(
        spec.like(format!("{stem}_high"), end(IntervalEnd::Upper)),
        move |of: &T| mean(of).and_then(Mean::high),
    );
    columns.push(Spec::text(format!("{stem}_why"), WHY), move |of: &T| {
        Mean::why(mean(of))
    });
    columns
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
        let [any, known] = [Bounds::Any, Bounds::NotNegative]
            .map(|range| Mean::over(&[100.0, 101.0, 103.0], LEVEL, range).unwrap());
        assert_eq!((any.value, any.low()), (known.value, known.low()));
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

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!(Scale::Ratio.show(0.0742), "7.42 %");
        assert_eq!(Scale::Difference.show(1234.5), "1234");
        assert_eq!(short(0.001_234), "0.00123");
    }
}
