//! `wins`: who is best how often, under one declared tie rule.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::pairs::{Better, contested};

pub(crate) struct Wins;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the contenders.
    from: String,
    /// The axis whose labels contend.
    among: String,
    /// The column they contend on.
    column: String,
    /// Which end is better.
    better: Better,
    /// How close to the best, relative to the smaller of the two, still counts as a tie.
    #[serde(default)]
    tie_within: f64,
    /// Axes counted separately; the other keys name the contests.
    #[serde(default)]
    by: Vec<String>,
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let (column, tie) = (&given.column, given.tie_within);
    vec![
        Spec::int("n", "1", "contests in which every contender has a value"),
        Spec::int(
            "incomplete",
            "1",
            "contests in which one has none: not counted",
        ),
        Spec::int(
            "strict_wins",
            "1",
            format!("contests in which its {column} is the one best value"),
        ),
        Spec::int(
            "wins",
            "1",
            format!("contests it wins with no other within {tie} of the best, relative"),
        ),
        Spec::int(
            "ties",
            "1",
            format!("contests in which it is within {tie} of the best and not alone"),
        ),
        Spec::float("win_rate", "1", "wins ÷ n"),
    ]
}

impl Operator for Wins {
    fn name(&self) -> &'static str {
        "wins"
    }

    fn summary(&self) -> &'static str {
        "How often each label of an axis has the best value, strictly and under one tie rule."
    }

    fn source(&self) -> &'static str {
        "Strict counts stand beside those under the tie rule."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        contested(
            settings,
            scope,
            (&given.from, &given.column),
            given.tie_within,
        )?;
        Ok(Plan {
            columns: columns(&given),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let among = from.key_position(&given.among, &given.from)?;
        let by = from.key_positions(&given.by, &given.from)?;
        let contest: Vec<usize> = (0..from.keys.len()).filter(|p| *p != among).collect();
        let strata = from.groups(&by);
        let mut stratum_of = vec![0; from.rows.len()];
        for (index, (_, members)) in strata.iter().enumerate() {
            members.iter().for_each(|m| stratum_of[*m] = index);
        }
        let contests: Vec<Vec<usize>> = from
            .groups(&contest)
            .into_iter()
            .map(|(_, rows)| rows)
            .collect();
        let mut rows = Vec::new();
        for (index, (stratum, members)) in strata.into_iter().enumerate() {
            let mut contenders: Vec<Scalar> = members
                .iter()
                .map(|m| from.rows[*m].key[among].clone())
                .collect();
            contenders.sort_by(rows::compare);
            contenders.dedup();
            let mut tallies = vec![Tally::default(); contenders.len()];
            let (mut n, mut incomplete) = (0, 0);
            // A contest lies within one stratum: its keys hold those of the stratum.
            for here in contests.iter().filter(|c| stratum_of[c[0]] == index) {
                let value = |c: &Scalar| {
                    let row = here.iter().find(|r| from.rows[**r].key[among] == *c)?;
                    from.number(*row, &given.column)
                };
                let values: Option<Vec<f64>> = contenders.iter().map(value).collect();
                match values {
                    Some(values) => {
                        n += 1;
                        judge(&values, &given, &mut tallies);
                    }
                    None => incomplete += 1,
                }
            }
            for (contender, tally) in contenders.into_iter().zip(tallies) {
                let mut key = stratum.clone();
                key.push(contender);
                let rate = (n > 0).then(|| tally.wins as f64 / n as f64);
                let values = vec![
                    count(n),
                    count(incomplete),
                    count(tally.strict),
                    count(tally.wins),
                    count(tally.ties),
                    number(rate),
                ];
                rows.push(Row {
                    key,
                    values,
                    lineage: spans(&given.from, members.iter().copied()),
                });
            }
        }
        let mut keys = given.by.clone();
        keys.push(given.among.clone());
        let missing = from.missing.clone();
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns(&given),
            rows,
            missing,
        })
    }
}

#[derive(Clone, Default)]
struct Tally {
    strict: usize,
    wins: usize,
    ties: usize,
}

fn judge(values: &[f64], given: &Parameters, tallies: &mut [Tally]) {
    let best = match given.better {
        Better::Higher => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Better::Lower => values.iter().copied().fold(f64::INFINITY, f64::min),
    };
    let near = |v: f64| (v - best).abs() <= given.tie_within * v.abs().min(best.abs());
    let close: Vec<usize> = (0..values.len()).filter(|i| near(values[*i])).collect();
    let equal = values.iter().filter(|v| **v == best).count();
    for i in close.iter().copied() {
        if close.len() == 1 {
            tallies[i].wins += 1;
        } else {
            tallies[i].ties += 1;
        }
        if equal == 1 && values[i] == best {
            tallies[i].strict += 1;
        }
    }
}
