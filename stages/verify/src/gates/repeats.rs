//! `repeats`: noise can be estimated only if something was measured more than once.

use std::collections::BTreeMap;

use artifacts::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::{TypedGate, percent};
use crate::replicates;
use crate::series::{Latency, median};
use crate::study::Stage;

pub(crate) struct Repeats;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis of repetitions; by default, `block` and `rep`, if the stage has them.
    #[serde(default)]
    axis: Option<String>,
    /// The smallest number of ok cells at each other coordinate.
    #[serde(default = "two")]
    at_least: u32,
    /// The share by which the median end-to-end latencies of the cells at one coordinate may
    /// differ: largest ÷ smallest − 1. Not judged by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    within: Option<f64>,
}

fn two() -> u32 {
    2
}

impl TypedGate for Repeats {
    type Parameters = Parameters;
    const NAME: &'static str = "repeats";
    const SUMMARY: &'static str = "Every coordinate was measured often enough to estimate noise. \
        If you declare a bound, its repetitions also agree. This is a count and a bound, not a \
        test.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let axes = replicates::axes(stage, parameters.axis.as_deref());
        let middle = |cell: usize| {
            let rows = stage.cells[cell].answers()?;
            median(&Latency::E2e.in_order(&rows))
        };
        let groups: BTreeMap<String, Vec<Option<f64>>> = replicates::groups(stage, &axes)
            .into_iter()
            .map(|(at, cells)| (at, cells.into_iter().map(middle).collect()))
            .collect();
        let few = groups
            .iter()
            .filter(|(_, cells)| cells.len() < parameters.at_least as usize);
        let mut wrong: Vec<String> = few
            .map(|(at, cells)| format!("{at}: {}", cells.len()))
            .collect();
        let (mut observed, mut expected) = (
            match groups.values().map(Vec::len).min() {
                Some(n) => format!("at least {n} at each of {} coordinates", groups.len()),
                None => "no cell is ok".to_owned(),
            },
            format!(
                "at least {} over {}",
                parameters.at_least,
                replicates::named(&axes)
            ),
        );
        let mut unknown = groups.is_empty();
        if let Some(within) = parameters.within {
            expected.push_str(&format!(", medians within {}", percent(within)));
            let spread = |cells: &Vec<Option<f64>>| {
                let defined = || cells.iter().flatten().copied();
                defined().nth(1)?;
                defined()
                    .max_by(f64::total_cmp)
                    .zip(defined().min_by(f64::total_cmp))
                    .map(|(most, least)| most / least - 1.0)
            };
            let spreads: Vec<(&String, f64)> = groups
                .iter()
                .filter_map(|(at, cells)| Some((at, spread(cells)?)))
                .collect();
            // A coordinate with fewer than two repetitions counts as one that was not measured often enough.
            let silent = groups.values().filter(|cells| cells.len() > 1);
            let silent = silent.filter(|cells| spread(cells).is_none()).count();
            unknown |= silent > 0;
            if silent > 0 {
                let places = counted(silent, "coordinate");
                observed.push_str(&format!(", latencies of two cells unknown at {places}"));
            }
            if let Some(largest) = spreads.iter().map(|(_, s)| *s).max_by(f64::total_cmp) {
                observed.push_str(&format!(", medians within {}", percent(largest)));
            }
            let apart = spreads.into_iter().filter(|(_, spread)| *spread > within);
            wrong.extend(
                apart.map(|(at, spread)| format!("{at}: medians {} apart", percent(spread))),
            );
        }
        vec![Judgement {
            cell: None,
            outcome: match wrong.is_empty() {
                true if unknown => Outcome::NotJudged,
                holds => Outcome::of(holds),
            },
            observed,
            expected,
            evidence: (!wrong.is_empty()).then(|| wrong.join("; ")),
        }]
    }
}
