//! `ranking`: the order of an axis' labels in every contest, ties told.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::mid_ranks;

use crate::frame::{Frame, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::pairs::{Better, contested};

pub(crate) struct Ranking;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the contenders.
    from: String,
    /// The axis whose labels are ranked; the other keys name the contests.
    among: String,
    /// The column they are ranked by.
    column: String,
    /// Which end is better.
    better: Better,
    /// How close two values must be, relative to the smaller, to count as tied.
    #[serde(default)]
    tie_within: f64,
}

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let name = &of.name;
    let tie = given.tie_within;
    vec![
        of.like(name, of.description.clone()),
        Spec::int("n", "1", "contenders with a value in this contest"),
        Spec::int(
            "rank",
            "1",
            "1 + contenders strictly better: equal values share the smaller rank",
        ),
        Spec::float(
            "mid_rank",
            "1",
            "the mean of the places that equal values share",
        ),
        Spec::int(
            "rank_with_ties",
            "1",
            format!("1 + contenders better by more than {tie}, relative"),
        ),
        Spec::text(
            "tied_with",
            format!("contenders within {tie}, relative; null if none"),
        ),
        Spec::text(
            "best",
            "the contender with the best value, all of them if several; null without values",
        ),
        Spec::float(
            "behind_best",
            "1",
            "distance from the best value ÷ the best value",
        ),
    ]
}

impl Operator for Ranking {
    fn name(&self) -> &'static str {
        "ranking"
    }

    fn summary(&self) -> &'static str {
        "The place of each label of an axis at every coordinate, with ties and the distance from the best."
    }

    fn source(&self) -> &'static str {
        "`rank` is standard competition ranking (1, 2, 2, 4), `mid_rank` fractional ranking (1, 2.5, 2.5, 4). Ties under a tolerance do not chain: each is told pair by pair."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let column = contested(
            settings,
            scope,
            (&given.from, &given.column),
            given.tie_within,
        )?;
        Ok(Plan {
            columns: columns(&column, &given),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let among = from.key_position(&given.among, &given.from)?;
        let spec = from
            .spec(&given.column)
            .cloned()
            .ok_or_else(|| Failure::failed("the column is gone"))?;
        let contest: Vec<usize> = (0..from.keys.len()).filter(|p| *p != among).collect();
        let mut rows = Vec::new();
        for (_, members) in from.groups(&contest) {
            rows.extend(rank(from, &given, among, &members));
        }
        let (keys, missing) = (from.keys.clone(), from.missing.clone());
        Ok(Frame {
            level: from.level,
            keys,
            specs: columns(&spec, &given),
            rows,
            missing,
        })
    }
}

fn rank(from: &Frame, given: &Parameters, among: usize, members: &[usize]) -> Vec<Row> {
    let label = |row: usize| from.rows[row].key[among].to_string();
    let sign = if given.better == Better::Higher {
        -1.0
    } else {
        1.0
    };
    let known: Vec<(usize, f64)> = members
        .iter()
        .filter_map(|m| Some((*m, from.number(*m, &given.column)?)))
        .collect();
    // Worse is larger from here on.
    let turned: Vec<f64> = known.iter().map(|(_, v)| sign * v).collect();
    let mids = mid_ranks(&turned).ranks;
    let best = turned.iter().copied().reduce(f64::min);
    let champions: Vec<String> = known
        .iter()
        .filter(|(_, v)| Some(sign * v) == best)
        .map(|(m, _)| label(*m))
        .collect();
    let near = |a: f64, b: f64| (a - b).abs() <= given.tie_within * a.abs().min(b.abs());
    let one = |row: &usize| {
        let here = known.iter().position(|(m, _)| m == row);
        let mut values = vec![number(here.map(|h| known[h].1)), count(known.len())];
        match here {
            Some(h) => {
                let mine = turned[h];
                let better = turned.iter().filter(|v| **v < mine).count();
                let clearly = turned
                    .iter()
                    .filter(|v| **v < mine && !near(**v, mine))
                    .count();
                let tied: Vec<String> = (0..known.len())
                    .filter(|i| *i != h && near(turned[*i], mine))
                    .map(|i| label(known[i].0))
                    .collect();
                let behind = best.filter(|b| *b != 0.0).map(|b| ((mine - b) / b).abs());
                values.extend([
                    count(1 + better),
                    number(Some(mids[h])),
                    count(1 + clearly),
                    if tied.is_empty() {
                        Scalar::Null
                    } else {
                        text(tied.join(", "))
                    },
                    text(champions.join(", ")),
                    number(behind),
                ]);
            }
            None => {
                values.extend([Scalar::Null, Scalar::Null, Scalar::Null, Scalar::Null]);
                values.push(if champions.is_empty() {
                    Scalar::Null
                } else {
                    text(champions.join(", "))
                });
                values.push(Scalar::Null);
            }
        }
        let lineage = spans(&given.from, members.iter().copied());
        Row {
            key: from.rows[*row].key.clone(),
            values,
            lineage,
        }
    };
    members.iter().map(one).collect()
}
