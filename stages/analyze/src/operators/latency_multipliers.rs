//! `latency-multipliers`: a latency at N relative to the same at 1.

use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Spec};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::anchored::{self, Ladder, Rung};
use crate::operators::units::{LEVEL, interval_columns};

pub(crate) struct LatencyMultipliers;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the latencies.
    from: String,
    /// The axis of N, such as `concurrency`. It must have the label 1, which is the anchor.
    ladder: String,
    /// The latencies.
    #[serde(default = "latencies")]
    columns: Vec<String>,
    /// Axes to combine, including the unit axes: the figure is first computed in each row, so that rows that share an
    /// anchor stay together, and then averaged over the units. By default, rows are not combined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    over: Vec<String>,
    /// The axes whose labels are the units of replication, among `over`; by default `block`, if the
    /// table has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

fn latencies() -> Vec<String> {
    ["e2e_latency_ms_p50", "e2e_latency_ms_p95"]
        .map(str::to_owned)
        .to_vec()
}

fn columns(specs: &[Spec], ladder: &str) -> Columns<'static, Rung> {
    let mut columns = Rung::counts();
    for (i, spec) in specs.iter().enumerate() {
        let name = &spec.name;
        columns.push(spec.like(name, spec.description.clone()), move |r| {
            r.columns[i].value
        });
        let what = format!(
            "{name} ÷ {name} at {ladder} = 1 of the same other coordinates; null without it"
        );
        let stem = format!("{name}_multiplier");
        let multiplier = Spec::float(&stem, "1", what)
            .over(format!("{ladder} = N"), format!("{ladder} = 1"))
            .within(Bounds::Relative)
            .at_level(LEVEL);
        columns.push(multiplier.clone(), move |r| {
            r.columns[i].quotient.as_ref().map(|q| q.value)
        });
        columns = interval_columns(
            columns,
            &multiplier,
            (&stem, &stem, LEVEL),
            move |r: &Rung| r.columns[i].quotient.as_ref(),
        );
    }
    columns
}

impl TypedOperator for LatencyMultipliers {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "latency-multipliers";
    const SUMMARY: &'static str = "Latencies at N clients over the same latencies at one.";
    const SOURCE: &'static str = "\
        The multiplier is latency(N) ÷ latency(1), with the same statistic of the same metric on both sides. It is \
        computed within each launch. `over: [block]` combines the launches, with an interval over them.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let specs = draft.columns(&given.from, &given.columns)?;
        Ok(columns(&specs, &given.ladder).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let columns = columns(&from.all_declared(&given.columns)?, &given.ladder);
        let ladder = Ladder {
            table: &given.from,
            axis: &given.ladder,
            anchor: 1.0,
            columns: &given.columns,
            over: &given.over,
            unit: given.unit.as_deref(),
        };
        anchored::table(from, &ladder, &columns)
    }
}
