//! `parallel-efficiency`: throughput at N relative to N times that at 1.

use contract::IntervalEnd;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Spec};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::anchored::{self, Ladder, Rung};
use crate::operators::units::{LEVEL, Mean, interval_columns};

pub(crate) struct ParallelEfficiency;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the throughput.
    from: String,
    /// The axis of N, such as `concurrency`. It must have the label 1, which is the anchor.
    ladder: String,
    /// The throughput.
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

fn column() -> String {
    "output_throughput".to_owned()
}

fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Rung> {
    let (name, ladder) = (&spec.name, &given.ladder);
    let unit = spec.unit.as_deref().unwrap_or_default();
    let anchor = format!("{name} at {ladder} = 1 of the same other coordinates");
    let efficiency =
        format!("{name}(N) ÷ (N · {name}(1)) with N = {ladder}; null without an anchor");
    let serial = "1 ÷ N: the efficiency of a server that serves one at a time";
    let speedup = Spec::float("speedup", "1", format!("{name} ÷ anchor"))
        .over(format!("{ladder} = N"), format!("{ladder} = 1"))
        .within(Bounds::Relative)
        .at_level(LEVEL);
    let efficiency = Spec::float("parallel_efficiency", "1", efficiency).over(
        format!("throughput at {ladder} = N"),
        format!("N times that at {ladder} = 1"),
    );
    let efficiency = efficiency.within(Bounds::Relative).at_level(LEVEL);
    let scaled = |r: &Rung, read: fn(&Mean) -> Option<f64>| {
        r.columns[0]
            .quotient
            .as_ref()
            .and_then(read)
            .map(|s| s / r.n)
    };
    let columns = Rung::counts()
        .with(spec.like(name, spec.description.clone()), |r| {
            r.columns[0].value
        })
        .with(Spec::float("anchor", unit, anchor), |r| r.columns[0].anchor)
        .with(speedup.clone(), |r| {
            r.columns[0].quotient.as_ref().map(|s| s.value)
        });
    let what = ("speedup", "speedup", LEVEL);
    let end = |which: IntervalEnd| format!("that of the {which} end of speedup, ÷ N");
    interval_columns(columns, &speedup, what, |r: &Rung| {
        r.columns[0].quotient.as_ref()
    })
    .with(efficiency.clone(), move |r| scaled(r, |s| Some(s.value)))
    .with(
        efficiency.like("parallel_efficiency_low", end(IntervalEnd::Lower)),
        move |r| scaled(r, Mean::low),
    )
    .with(
        efficiency.like("parallel_efficiency_high", end(IntervalEnd::Upper)),
        move |r| scaled(r, Mean::high),
    )
    .with(Spec::float("serial_reference", "1", serial), |r| 1.0 / r.n)
}

impl TypedOperator for ParallelEfficiency {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "parallel-efficiency";
    const SUMMARY: &'static str = "Throughput at N clients ÷ (N × throughput at one), with speedup and the serial reference 1/N.";
    const SOURCE: &'static str = "\
        Efficiency is throughput(N) ÷ (N · throughput(1)). A server that serves one request at a time has efficiency \
        1/N, so compare with that curve, not with 0.\n\n\
        The levels of a launch share their anchor, so efficiency is computed within each launch. `over: [block]` \
        combines the launches, with an interval over them.";

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
            anchor: 1.0,
            columns: std::slice::from_ref(&given.column),
            over: &given.over,
            unit: given.unit.as_deref(),
        };
        anchored::table(from, &ladder, &columns)
    }
}
