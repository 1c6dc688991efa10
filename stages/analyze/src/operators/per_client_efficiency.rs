//! `per-client-efficiency`: what one client gets among N, relative to what it gets alone.

use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Spec};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::anchored::{self, Ladder, Rung};
use crate::operators::units::{LEVEL, interval_columns};

pub(crate) struct PerClientEfficiency;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the rate of one client.
    from: String,
    /// The axis of N, such as `concurrency`.
    ladder: String,
    /// The value of the ladder that is the base.
    #[serde(default = "anchor")]
    anchor: f64,
    /// The rate of one client.
    #[serde(default = "column")]
    column: String,
    /// Axes to combine, including the unit axes: the figure is first computed in each row, so that rows that share an
    /// anchor stay together, and then averaged over the units. By default, rows are not combined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    over: Vec<String>,
    /// The axes whose labels are the units of replication, among `over`; by default `block`, if the
    /// table has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

fn anchor() -> f64 {
    1.0
}

fn column() -> String {
    "decode_rate_mean".to_owned()
}

fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Rung> {
    let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
    let (ladder, base) = (&given.ladder, given.anchor);
    let anchor = format!("{name} at {ladder} = {base} of the same other coordinates");
    let stem = "per_client_efficiency";
    let share = Spec::float(stem, "1", format!("{name} ÷ anchor; null without one"))
        .over(format!("{ladder} = N"), format!("{ladder} = {base}"))
        .within(Bounds::Relative)
        .at_level(LEVEL);
    let columns = Rung::counts()
        .with(spec.like(name, spec.description.clone()), |r| {
            r.columns[0].value
        })
        .with(Spec::float("anchor", unit, anchor), |r| r.columns[0].anchor)
        .with(share.clone(), |r| {
            r.columns[0].quotient.as_ref().map(|q| q.value)
        });
    interval_columns(columns, &share, (stem, stem, LEVEL), |r: &Rung| {
        r.columns[0].quotient.as_ref()
    })
}

impl TypedOperator for PerClientEfficiency {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "per-client-efficiency";
    const SUMMARY: &'static str =
        "The rate of one client among N ÷ its rate at the base of the ladder.";
    const SOURCE: &'static str = "\
        The figure is rate(N) ÷ rate(anchor) of one client or request. This is not parallel efficiency, which divides \
        the rate of the whole server by N. The two differ as soon as fewer than N requests are in flight. Published \
        reports have called both \"scaling efficiency\".";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let spec = draft.column(&given.from, &given.column)?;
        Ok(columns(&spec, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let columns = columns(&from.declared(&given.column)?, given);
        let ladder = Ladder {
            table: &given.from,
            axis: &given.ladder,
            anchor: given.anchor,
            columns: std::slice::from_ref(&given.column),
            over: &given.over,
            unit: given.unit.as_deref(),
        };
        anchored::table(from, &ladder, &columns)
    }
}
