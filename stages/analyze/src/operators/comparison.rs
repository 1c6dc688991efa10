//! What paired and unpaired comparisons share: the settings of interval and decision, adjusted p
//! values, the verdict, and the columns that hold them.

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Problem, Step};
use rows::Settings;
use statistics::{Bootstrap, GENERATOR, Interval};

use crate::frame::{Frame, Level, Row, Span, Spec, number, text};
use crate::operator::at;
use crate::operators::decision::{Adjusted, Family, Kind, Rule, adjust};
use crate::operators::pairs::Sides;

pub(crate) fn resamples() -> u32 {
    10_000
}

pub(crate) fn confidence() -> f64 {
    0.95
}

pub(crate) fn alpha() -> f64 {
    0.05
}

/// The settings that both kinds of comparison declare.
pub(crate) struct Terms<'a> {
    pub(crate) pair: &'a Sides,
    pub(crate) by: &'a [String],
    pub(crate) columns: &'a [String],
    pub(crate) bootstrap: Kind,
    /// What is resampled, in words: [`resampled`].
    pub(crate) unit: String,
    pub(crate) resamples: u32,
    pub(crate) confidence: f64,
    pub(crate) alpha: f64,
    pub(crate) rule: Option<&'a Rule>,
    pub(crate) equivalence: &'a BTreeMap<String, f64>,
    pub(crate) family: Family,
    pub(crate) seed: Option<u64>,
}

/// One comparison of a column in a stratum.
pub(crate) struct Compared<T> {
    pub(crate) stratum: Vec<Scalar>,
    pub(crate) column: usize,
    /// Mean of a − mean of b; `None` without values.
    pub(crate) delta: Option<f64>,
    pub(crate) interval: Option<Interval>,
    /// Of the test that decides.
    pub(crate) p: Option<f64>,
    pub(crate) tost_p: Option<f64>,
    pub(crate) lineage: Vec<Span>,
    /// What only one kind of comparison has.
    pub(crate) own: T,
}

/// The shared values of a row, in the columns of their names.
pub(crate) struct Shared {
    /// `unit`, `a`, `b`.
    pub(crate) sides: [Scalar; 3],
    pub(crate) missing: Scalar,
    pub(crate) interval: [Scalar; 3],
    pub(crate) p: [Scalar; 4],
}

impl Terms<'_> {
    /// Checks the settings; `specs` are the columns a rule may name.
    pub(crate) fn check(&self, settings: &Settings<'_>, specs: &[Spec]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, value) in [("confidence", self.confidence), ("alpha", self.alpha)] {
            if !(value > 0.0 && value < 1.0) {
                problems.push(settings.problem(
                    &at(key),
                    format!("`{key}` lies between 0 and 1, got {value}"),
                ));
            }
        }
        if self.resamples < 100 {
            problems.push(
                settings.problem(&at("resamples"), "a bootstrap needs at least 100 resamples"),
            );
        }
        for (name, margin) in self.equivalence {
            let place = [Step::Key("equivalence".to_owned()), Step::Key(name.clone())];
            if !self.columns.contains(name) {
                let known: Vec<&str> = self.columns.iter().map(String::as_str).collect();
                let message = format!("`{name}` is not among the columns compared");
                problems.push(
                    settings
                        .problem(&place, message)
                        .hint(rows::did_you_mean(name, &known)),
                );
            }
            if !(*margin > 0.0 && margin.is_finite()) {
                problems.push(settings.problem(&place, "a margin is a positive number"));
            }
        }
        if let Some(rule) = self.rule {
            problems.extend(rule.check(settings, specs));
        }
        problems
    }

    /// Returns the bootstrap, with the experiment's seed where none is given.
    pub(crate) fn bootstrap(&self, seed: u64) -> Bootstrap {
        let (kind, resamples) = (self.bootstrap.statistics(), self.resamples as usize);
        Bootstrap {
            kind,
            resamples,
            level: self.confidence,
            seed: self.seed.unwrap_or(seed),
        }
    }

    /// Returns the declared margin of a column.
    pub(crate) fn margin(&self, column: usize) -> Option<f64> {
        self.equivalence.get(&self.columns[column]).copied()
    }

    fn rule(&self) -> Rule {
        self.rule
            .cloned()
            .unwrap_or_else(|| Rule::usual(self.alpha))
    }

    /// The columns of [`Shared::interval`]; `of` says of what the interval is.
    pub(crate) fn interval_columns(&self, of: &str) -> [Spec; 3] {
        let level = self.confidence;
        [
            Spec::float(
                "ci_low",
                "",
                format!("lower end of the {level} bootstrap interval of {of}"),
            ),
            Spec::float(
                "ci_high",
                "",
                format!("upper end of the {level} bootstrap interval of {of}"),
            ),
            Spec::text(
                "ci_method",
                "kind of bootstrap interval, resamples, resampling unit, generator and seed",
            ),
        ]
    }

    /// The columns of [`Shared::p`].
    pub(crate) fn p_columns() -> [Spec; 4] {
        [
            Spec::float(
                "p",
                "1",
                "two-sided p value of that test; null where it is undefined",
            ),
            Spec::float(
                "holm_p",
                "1",
                "p adjusted by Holm's step-down within the family",
            ),
            Spec::float(
                "bh_p",
                "1",
                "p adjusted by Benjamini and Hochberg within the family",
            ),
            Spec::text("family", "the family of tests and its size"),
        ]
    }

    /// The last columns; `tests` names the two tests of equivalence.
    pub(crate) fn decision_columns(&self, tests: &str) -> [Spec; 5] {
        let alpha = self.alpha;
        [
            Spec::text("higher", "the side with the higher mean; null if equal"),
            Spec::float(
                "equivalence_margin",
                "",
                "the declared margin, in the metric's unit; null if none",
            ),
            Spec::float(
                "tost_p",
                "1",
                format!(
                    "the larger p of two one-sided {tests} tests against ±margin; null without one"
                ),
            ),
            Spec::boolean(
                "equivalent",
                format!("whether tost_p < {alpha}; null without a margin"),
            ),
            Spec::text("verdict", self.rule().words()),
        ]
    }

    /// Makes the table of comparisons: adjusts their p values, lays out each in the columns `specs`
    /// (`values` gives those before the last five), and decides. Units come from the columns of
    /// `from`, what is missing from `missing`.
    pub(crate) fn table<T>(
        &self,
        tests: Vec<Compared<T>>,
        specs: Vec<Spec>,
        (from, missing): (&Frame, &Frame),
        bootstrap: &Bootstrap,
        values: impl Fn(&Compared<T>, Shared) -> Vec<Scalar>,
    ) -> Frame {
        let raw: Vec<(usize, Option<f64>)> = tests.iter().map(|t| (t.column, t.p)).collect();
        let adjusted = adjust(&raw, self.family, self.columns, self.by);
        let (a, b) = self.pair.labels();
        let row = |(test, adjusted): (Compared<T>, Adjusted)| {
            let name = &self.columns[test.column];
            let unit = from.spec(name).and_then(|spec| spec.unit.clone());
            let shared = Shared {
                sides: [optional(unit), text(&a), text(&b)],
                missing: missing.missing_at(self.by, &test.stratum),
                interval: self.interval(test.interval, bootstrap),
                p: [
                    number(test.p),
                    number(adjusted.holm),
                    number(adjusted.bh),
                    optional(adjusted.family),
                ],
            };
            let mut values = values(&test, shared);
            let sides = test
                .delta
                .filter(|d| *d != 0.0)
                .map(|d| if d > 0.0 { a.clone() } else { b.clone() });
            let equivalent = test.tost_p.map(|p| p < self.alpha);
            values.extend([
                optional(sides),
                number(self.margin(test.column)),
                number(test.tost_p),
                equivalent.map_or(Scalar::Null, Scalar::Bool),
            ]);
            let of = |name: &str| values[specs.iter().position(|s| s.name == name)?].as_f64();
            let decide = |_| {
                self.rule()
                    .verdict(&of, test.interval, equivalent == Some(true))
                    .to_owned()
            };
            let verdict = test.delta.map(decide);
            values.push(optional(verdict));
            let mut key = test.stratum;
            key.push(text(name));
            Row {
                key,
                values,
                lineage: test.lineage,
            }
        };
        let rows = tests.into_iter().zip(adjusted).map(row).collect();
        let mut keys = self.by.to_vec();
        keys.push("metric".to_owned());
        let level = if self.by.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        Frame {
            level,
            keys,
            specs,
            rows,
            missing: missing.missing.clone(),
        }
    }

    fn interval(&self, interval: Option<Interval>, bootstrap: &Bootstrap) -> [Scalar; 3] {
        let Bootstrap {
            kind,
            resamples,
            seed,
            ..
        } = bootstrap;
        let (kind, unit) = (kind.word(), &self.unit);
        let method =
            || format!("{kind}, {resamples} resamples of {unit}, {GENERATOR}, seed {seed}");
        [
            number(interval.map(|i| i.low)),
            number(interval.map(|i| i.high)),
            optional(interval.map(|_| method())),
        ]
    }
}

/// Names the resampling unit: the labels of axes, or without axes `alone`.
pub(crate) fn resampled(cluster: &[String], alone: &str) -> String {
    if cluster.is_empty() {
        alone.to_owned()
    } else {
        format!("clusters of {}", cluster.join(", "))
    }
}

/// Makes optional text a scalar.
pub(crate) fn optional(value: Option<String>) -> Scalar {
    value.map_or(Scalar::Null, Scalar::Text)
}

/// Puts values together whose clusters have the same label, in order of the labels.
pub(crate) fn clusters(mut labelled: Vec<(Vec<Scalar>, f64)>) -> Vec<Vec<f64>> {
    labelled.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
    let together = labelled.chunk_by(|a, b| a.0 == b.0);
    together
        .map(|cluster| cluster.iter().map(|(_, value)| *value).collect())
        .collect()
}
