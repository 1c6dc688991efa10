//! The columns of a comparison, in the order of the table: sides, effect, p values, margin, verdict.

use contract::IntervalEnd;
use statistics::{GENERATOR, Interval};

use super::{Judged, Terms};
use crate::columns::{Columns, Value};
use crate::frame::Spec;
use crate::operators::looks::Looks;
use crate::operators::units::{Scale, outward, short};
use crate::operators::verdict::VERDICTS;

impl Terms {
    /// The first columns: the metric and its sides.
    pub(crate) fn sides<'a, T>(&self) -> Columns<'a, Judged<T>> {
        let (a, b) = self.pair.labels();
        let unit = "the axes whose labels are the units of replication, or `declared` if the \
            settings name them; null without any";
        Columns::new()
            .with(
                Spec::text("unit", "the unit of the metric"),
                |j: &Judged<T>| j.unit.clone(),
            )
            .with(
                Spec::text("a", "the first side; deltas are a − b, ratios a ÷ b"),
                move |_| a.clone(),
            )
            .with(Spec::text("b", "the second side, the base"), move |_| {
                b.clone()
            })
            .with(Spec::text("unit_of_replication", unit), |j| {
                j.replication.clone()
            })
    }

    /// The columns of the effect and its intervals.
    pub(crate) fn effect<'a, T: 'a>(
        &self,
        columns: Columns<'a, Judged<T>>,
    ) -> Columns<'a, Judged<T>> {
        let (scale, alpha) = (self.scale, self.alpha);
        let level = 1.0 - alpha;
        let (a, b) = self.pair.labels();
        let sided = |spec: Spec| match scale {
            Scale::Ratio => spec.over(&a, &b),
            Scale::Difference => spec,
        };
        let float = |name: &str, what: String| match scale {
            Scale::Ratio => sided(Spec::float(name, "1", what)),
            Scale::Difference => sided(Spec::float(name, "", what)),
        };
        let effect = match scale {
            Scale::Ratio => "geometric mean over the units of a ÷ b",
            Scale::Difference => "mean over the units of a − b, in the metric's unit",
        };
        let own = |which: IntervalEnd| {
            which.of(format!(
                "the {level} interval of this effect alone; null if the deciding \
                test has none"
            ))
        };
        let adjusted = |which: IntervalEnd| {
            which.of(format!("the interval at the level of this test's step in its family: it excludes no effect exactly where holm_p is at most {alpha}, unless both intervals are widened for rounded times or values"))
        };
        let looks = self.looks;
        let interval = move |j: &Judged<T>, level: f64| {
            let effect = j.test.effect.as_ref().ok().filter(|_| j.test.inverts)?;
            let alpha = looks.level(effect.n, 1.0 - level)?;
            let within = outward(scale, effect, 1.0 - alpha);
            let (below, above) = j.rounded;
            Some(match scale {
                Scale::Ratio => Interval {
                    low: within.low * below.exp(),
                    high: within.high * above.exp(),
                },
                Scale::Difference => Interval {
                    low: within.low + below,
                    high: within.high + above,
                },
            })
        };
        let stepped = move |j: &Judged<T>| interval(j, 1.0 - j.adjusted.decision?.alpha);
        columns
            .with(
                Spec::text(
                    "scale",
                    "ratio or difference: of effect, intervals and margin",
                ),
                move |_| scale.word(),
            )
            .with(
                float("effect", effect.to_owned()).at_level(level),
                move |j| j.test.mean.map(|mean| scale.outward(mean)),
            )
            .with(float("ci_low", own(IntervalEnd::Lower)), move |j| {
                interval(j, level).map(|i| i.low)
            })
            .with(float("ci_high", own(IntervalEnd::Upper)), move |j| {
                interval(j, level).map(|i| i.high)
            })
            .with(
                float("adjusted_low", adjusted(IntervalEnd::Lower)),
                move |j| stepped(j).map(|i| i.low),
            )
            .with(
                float("adjusted_high", adjusted(IntervalEnd::Upper)),
                move |j| stepped(j).map(|i| i.high),
            )
            .with(
                Spec::text(
                    "ci_method",
                    "how both intervals were made, or why there are none",
                ),
                move |j| {
                    let effect = match &j.test.effect {
                        Ok(effect) if j.test.inverts => effect,
                        Ok(_) => return Some("none: a test of ranks or signs decides".to_owned()),
                        Err(why) => return Some(format!("none: {why}")),
                    };
                    let (n, df) = (effect.n, short(effect.df));
                    let holds = match looks {
                        Looks::Once => "",
                        Looks::AfterEachBlock => ", holds at every look",
                    };
                    let wider = match j.rounded {
                        (0.0, 0.0) => "",
                        _ => ", widened by what the steps of times or values allow",
                    };
                    Some(format!(
                        "t over {n} units, {df} degrees of freedom{holds}{wider}"
                    ))
                },
            )
    }

    /// The columns of the extremes among pooled coordinates.
    pub(crate) fn extremes<'a, T: 'a>(
        &self,
        columns: Columns<'a, Judged<T>>,
    ) -> Columns<'a, Judged<T>> {
        let scale = self.scale;
        let (a, b) = self.pair.labels();
        let float = |which: &str| {
            let what = format!(
                "the {which} mean effect at one of the coordinates that `effect` pools, without a test; null if it pools \
                 only one"
            );
            let name = format!("{which}_effect");
            match scale {
                Scale::Ratio => Spec::float(name, "1", what).over(&a, &b),
                Scale::Difference => Spec::float(name, "", what),
            }
        };
        let at = |which: &str| {
            Spec::text(
                format!("{which}_effect_at"),
                format!("the coordinate with the {which} effect"),
            )
        };
        let changes = format!(
            "whether a is shown to be lower than b at one of these coordinates and higher at another, each direction at {} over \
             all of them; null if fewer than two can be tested",
            self.alpha
        );
        columns
            .with(float("smallest"), move |j: &Judged<T>| {
                Some(scale.outward(j.test.extremes.as_ref()?.smallest.0))
            })
            .with(at("smallest"), |j| {
                Some(j.test.extremes.as_ref()?.smallest.1.clone())
            })
            .with(float("largest"), move |j| {
                Some(scale.outward(j.test.extremes.as_ref()?.largest.0))
            })
            .with(at("largest"), |j| {
                Some(j.test.extremes.as_ref()?.largest.1.clone())
            })
            .with(Spec::boolean("direction_changes", changes), |j| {
                j.test.extremes.as_ref()?.direction_changes
            })
    }

    /// The columns of the p values.
    pub(crate) fn p<'a, T: 'a>(columns: Columns<'a, Judged<T>>) -> Columns<'a, Judged<T>> {
        let p = "two-sided p value of the deciding test; null if undefined";
        let bh = "p adjusted by Benjamini and Hochberg within the table, of a family per column within the column, for screening";
        let level = "the two-sided level of this test: its share of the family's level";
        columns
            .with(Spec::float("p", "1", p), |j| j.test.p)
            .with(
                Spec::float(
                    "holm_p",
                    "1",
                    "p adjusted by Holm's step-down within the family, weighted where several tables share the level",
                ),
                |j| j.adjusted.decision.map(|d| d.adjusted_p),
            )
            .with(Spec::float("bh_p", "1", bh), |j| j.adjusted.bh)
            .with(
                Spec::text("family", "the family of tests, its level and its size"),
                |j| j.adjusted.family.clone(),
            )
            .with(Spec::float("family_level", "1", level), |j| {
                j.adjusted.decision.map(|d| d.alpha)
            })
            .with(Spec::int("family_size", "1", "tests in the family"), |j| {
                j.adjusted.decision.map(|d| d.family)
            })
    }

    /// The columns for each end of the margin.
    fn ends<'a, T: 'a>(&self, columns: Columns<'a, Judged<T>>) -> Columns<'a, Judged<T>> {
        let scale = self.scale;
        let (a, b) = self.pair.labels();
        let (unit, sided) = match scale {
            Scale::Ratio => ("1", true),
            Scale::Difference => ("", false),
        };
        let bound = |which: &str| {
            let what = format!(
                "{which} one-sided bound of this effect alone, of level {}; null without a margin",
                1.0 - self.alpha
            );
            let spec = Spec::float(format!("bound_{}", &which[..which.len() - 2]), unit, what);
            if sided { spec.over(&a, &b) } else { spec }
        };
        let shown = |word: &str, opposite: &str| {
            format!(
                "whether a is shown not to be {word} than b by more than the margin: true if bound_{opposite} lies within \
                 it, false if a is shown to be {word} by more, null if neither is shown"
            )
        };
        let p = |word: &str| {
            format!(
                "the one-sided p value of \"a is {word} than b by the margin or more\"; null without a margin"
            )
        };
        columns
            .with(bound("lower"), move |j| {
                j.ends.map(|e| scale.outward(e.bounds.low))
            })
            .with(bound("higher"), move |j| {
                j.ends.map(|e| scale.outward(e.bounds.high))
            })
            .with(Spec::float("not_lower_p", "1", p("lower")), |j| {
                j.ends.map(|e| e.not_lower.p)
            })
            .with(Spec::boolean("not_lower", shown("lower", "low")), |j| {
                j.ends.and_then(|e| e.not_lower.shown)
            })
            .with(Spec::float("not_higher_p", "1", p("higher")), |j| {
                j.ends.map(|e| e.not_higher.p)
            })
            .with(Spec::boolean("not_higher", shown("higher", "high")), |j| {
                j.ends.and_then(|e| e.not_higher.shown)
            })
    }

    /// The last columns.
    pub(crate) fn decision<'a, T: 'a>(
        &self,
        mut columns: Columns<'a, Judged<T>>,
    ) -> Columns<'a, Judged<T>> {
        let (a, b) = self.pair.labels();
        let how = match self.scale {
            Scale::Ratio => "as a share",
            Scale::Difference => "in the metric's unit",
        };
        let unit = if self.scale == Scale::Ratio { "1" } else { "" };
        let margin = format!("the declared margin, {how}; null if none");
        let equivalence =
            "the larger p of two one-sided t tests against the margin; null without one";
        let equivalent = format!(
            "whether equivalence_p < {}: the interval of level {} lies within the margin; null without a margin",
            self.alpha,
            1.0 - 2.0 * self.alpha
        );
        let smallest = format!(
            "the smallest true effect that this number of units with this spread calls different in 80 % \
            of studies, {how}; null if a test of ranks or signs decides"
        );
        columns = self
            .ends(columns)
            .with(
                Spec::text(
                    "higher",
                    "the side that is higher by the effect; null if equal",
                ),
                move |j| {
                    let effect = j.test.mean.or(j.test.delta).filter(|d| *d != 0.0)?;
                    Some(if effect > 0.0 { a.clone() } else { b.clone() })
                },
            )
            .with(Spec::float("margin", unit, margin), |j| j.margin)
            .with(Spec::float("equivalence_p", "1", equivalence), |j| {
                j.equivalence.map(|(p, _)| p)
            })
            .with(Spec::boolean("equivalent", equivalent), |j| {
                j.equivalence.map(|(_, shown)| shown)
            })
            .with(Spec::float("smallest_detectable", unit, smallest), |j| {
                j.smallest_detectable
            })
            .with(Spec::text("verdict", VERDICTS), |j| j.verdict.0.word())
            .with(
                Spec::text(
                    "verdict_reason",
                    "why the verdict is that, or what limits it",
                ),
                |j| j.verdict.1.clone(),
            );
        if let Some(bootstrap) = self.bootstrap(0) {
            let (level, kind) = (bootstrap.level, bootstrap.kind.word());
            let seed = self.seed;
            let resamples = self.resamples;
            let end = |which: IntervalEnd| {
                which.of(format!(
                    "the {level} bootstrap interval of mean_delta; it decides nothing; null if units resemble each other"
                ))
            };
            columns.push(
                Spec::float("bootstrap_low", "", end(IntervalEnd::Lower)),
                |j: &Judged<T>| j.test.bootstrap.map(|i| i.low),
            );
            columns.push(
                Spec::float("bootstrap_high", "", end(IntervalEnd::Upper)),
                |j: &Judged<T>| j.test.bootstrap.map(|i| i.high),
            );
            columns.push(
                Spec::text(
                    "bootstrap_method",
                    "kind of bootstrap interval, resamples of units, generator and seed",
                ),
                move |_| {
                    let seed =
                        seed.map_or_else(|| "of the experiment".to_owned(), |s| s.to_string());
                    format!("{kind}, {resamples} resamples of units, {GENERATOR}, seed {seed}")
                },
            );
        }
        columns
    }
}

/// Adapts a column that only one kind of comparison has.
pub(crate) fn own<T, V: Value>(read: impl Fn(&T) -> V) -> impl Fn(&Judged<T>) -> V {
    move |judged| read(&judged.test.own)
}
