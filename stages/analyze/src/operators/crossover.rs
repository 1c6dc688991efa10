//! `crossover`: the first value on a ladder at which the winner changes.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, t_interval};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::{Better, Pair, Sides, matched, rung};

pub(crate) struct Crossover;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: axis and labels.
    pair: Sides,
    /// The axis along which the winner may change.
    ladder: String,
    /// The column compared.
    column: String,
    /// Which end is better.
    better: Better,
    /// Axes of repetitions: matched pairs along them give the mean difference and its interval.
    #[serde(default)]
    over: Vec<String>,
    /// The level of the t interval of the mean difference.
    #[serde(default = "confidence")]
    confidence: f64,
}

fn confidence() -> f64 {
    0.95
}

fn columns(given: &Parameters, unit: &str) -> Vec<Spec> {
    let (ladder, column, level) = (&given.ladder, &given.column, given.confidence);
    let (a, b) = given.pair.labels();
    vec![
        Spec::text(
            "first_winner",
            format!("who is better at the smallest {ladder} that is no tie; null if all tie"),
        ),
        Spec::float(
            "crossover_at",
            "1",
            format!("first {ladder} at which the other side is better; null = none"),
        ),
        Spec::text(
            "winner_after",
            format!("who is better there; {a}, {b} or null"),
        ),
        Spec::float(
            "delta",
            unit,
            format!("mean of {column} of {a} − {b} there"),
        ),
        Spec::float(
            "delta_ci_low",
            unit,
            format!("lower end of its {level} t interval; null for one pair"),
        ),
        Spec::float(
            "delta_ci_high",
            unit,
            format!("upper end of its {level} t interval; null for one pair"),
        ),
        Spec::boolean(
            "certain",
            "whether the interval excludes 0; null without an interval",
        ),
        Spec::text(
            "changes",
            format!("every {ladder} at which the winner changes; null = none"),
        ),
        Spec::int(
            "n",
            "1",
            format!("values of {ladder} at which both sides were measured"),
        ),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
    ]
}

impl Operator for Crossover {
    fn name(&self) -> &'static str {
        "crossover"
    }

    fn summary(&self) -> &'static str {
        "The first value on a ladder at which the winner changes, with the interval of the difference there."
    }

    fn source(&self) -> &'static str {
        "The winner is the sign of the mean difference over the repetitions; a tie changes no winner."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if !(given.confidence > 0.0 && given.confidence < 1.0) {
            return Err(vec![settings.problem(
                &at("confidence"),
                "a confidence level lies between 0 and 1",
            )]);
        }
        let columns = columns(&given, found[0].unit.as_deref().unwrap_or_default());
        Ok(Plan {
            columns,
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        from.key_positions(&given.over, &given.from)?;
        from.key_position(&given.ladder, &given.from)?;
        let columns_wanted = [given.column.clone()];
        let matched = matched(from, &given.from, &given.pair, &[], &columns_wanted)?;
        let position = |name: &String| matched.keys.iter().position(|k| k == name);
        let ladder = position(&given.ladder).ok_or_else(|| {
            Failure::failed(format!("`{}` cannot be both pair and ladder", given.ladder))
        })?;
        let keys: Vec<String> = matched
            .keys
            .iter()
            .filter(|k| **k != given.ladder && !given.over.contains(k))
            .cloned()
            .collect();
        let kept: Vec<usize> = keys.iter().filter_map(position).collect();
        let mut groups: Vec<(Vec<Scalar>, Vec<Member<'_>>)> = Vec::new();
        let mut keyed = Vec::with_capacity(matched.pairs.len());
        for pair in &matched.pairs {
            let key: Vec<Scalar> = kept.iter().map(|p| pair.key[*p].clone()).collect();
            keyed.push((key, (rung(&pair.key[ladder], &given.ladder)?, pair)));
        }
        keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
        for (key, member) in keyed {
            match groups.last_mut() {
                Some((last, members)) if *last == key => members.push(member),
                _ => groups.push((key, vec![member])),
            }
        }
        let unit = from
            .spec(&given.column)
            .and_then(|s| s.unit.clone())
            .unwrap_or_default();
        let around = Frame {
            level: Level::Marginal,
            keys: keys.clone(),
            specs: columns(&given, &unit),
            rows: Vec::new(),
            missing: matched.missing,
        };
        let rows = groups.into_iter().map(|(key, members)| {
            let lineage = spans(
                &given.from,
                members.iter().flat_map(|(_, p)| p.rows.concat()),
            );
            let mut values = judge(&given, &members);
            values.push(around.missing_at(&keys, &key));
            Row {
                key,
                values,
                lineage,
            }
        });
        let rows = rows.collect();
        Ok(Frame { rows, ..around })
    }
}

/// A pair with its place on the ladder.
type Member<'a> = (f64, &'a Pair);

fn judge(given: &Parameters, members: &[Member<'_>]) -> Vec<Scalar> {
    let mut rungs: Vec<f64> = members.iter().map(|(n, _)| *n).collect();
    rungs.sort_by(f64::total_cmp);
    rungs.dedup();
    let deltas: Vec<(f64, Sample)> = rungs
        .into_iter()
        .filter_map(|n| {
            let here = members.iter().filter(|(m, _)| *m == n);
            let deltas = here.filter_map(|(_, p)| Some(p.a[0]? - p.b[0]?));
            Some((n, Sample::new(deltas).ok()?))
        })
        .collect();
    let (a, b) = given.pair.labels();
    let winner = |delta: f64| -> Option<&str> {
        let a_is_better = if given.better == Better::Higher {
            delta > 0.0
        } else {
            delta < 0.0
        };
        (delta != 0.0).then_some(if a_is_better { a.as_str() } else { b.as_str() })
    };
    let mut current = None;
    let mut changes: Vec<&(f64, Sample)> = Vec::new();
    let mut first = None;
    for rung in &deltas {
        let Some(now) = winner(rung.1.mean()) else {
            continue;
        };
        if current.is_some_and(|before| before != now) {
            changes.push(rung);
        }
        first = first.or(Some(now));
        current = Some(now);
    }
    let optional = |value: Option<&str>| value.map_or(Scalar::Null, text);
    let crossing = changes.first();
    let interval = crossing.and_then(|(_, s)| t_interval(s, given.confidence));
    let listed: Vec<String> = changes.iter().map(|(n, _)| n.to_string()).collect();
    vec![
        optional(first),
        number(crossing.map(|c| c.0)),
        optional(crossing.and_then(|c| winner(c.1.mean()))),
        number(crossing.map(|c| c.1.mean())),
        number(interval.map(|i| i.low)),
        number(interval.map(|i| i.high)),
        interval.map_or(Scalar::Null, |i| Scalar::Bool(i.low > 0.0 || i.high < 0.0)),
        if listed.is_empty() {
            Scalar::Null
        } else {
            text(listed.join(", "))
        },
        count(deltas.len()),
    ]
}
