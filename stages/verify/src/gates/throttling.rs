//! `throttling`: did the machine slow itself down?

use std::collections::BTreeSet;

use artifacts::Table;
use contract::{CellRows, ThrottleReason, Word as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, share};
use crate::study::Stage;

pub(crate) struct Throttling;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The GPU throttle reasons that count, as named in `gpu_telemetry`.
    #[serde(default = "reasons")]
    #[schemars(length(min = 1))]
    reasons: Vec<ThrottleReason>,
    /// The share of a GPU's samples that may have one of these reasons.
    #[serde(default = "hundredth")]
    #[schemars(range(min = 0, max = 1))]
    share: f64,
}

fn reasons() -> Vec<ThrottleReason> {
    let all = ThrottleReason::ALL.iter().copied();
    all.filter(|reason| reason.is_fault() || *reason == ThrottleReason::PowerCap)
        .collect()
}

fn hundredth() -> f64 {
    0.01
}

impl TypedGate for Throttling {
    type Parameters = Parameters;
    const NAME: &'static str = "throttling";
    const SUMMARY: &'static str = "\
        The machine did not throttle while a cell was measured. No processor counted a thermal slowdown, and at most \
        `share` of the samples of the GPUs give a reason that limits their clocks. A GPU on which only other programs \
        compute does not count. This is a count, not a test.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|_, rows| {
            let expected = "no throttling because of heat or power";
            let processors = slowdowns(rows);
            let gpus = limited(rows, &parameters.reasons);
            let mut observed = Vec::new();
            observed.extend(processors.map(|n| format!("{n} slowdowns of processors")));
            if let Some((limited, reasons)) = &gpus {
                let mut named: Vec<&str> = reasons.iter().map(|reason| reason.word()).collect();
                named.sort_unstable();
                let named = if named.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", named.join(", "))
                };
                observed.push(format!(
                    "GPUs limited in {}{named} of their samples",
                    share(*limited)
                ));
            }
            if observed.is_empty() {
                return Assessment::not_judged(
                    "neither processors nor GPUs report throttling",
                    expected,
                );
            }
            let holds = processors.unwrap_or(0) == 0
                && gpus.is_none_or(|(share, _)| share <= parameters.share);
            let advice = if holds {
                ""
            } else {
                ". Cool the machine, or fix its clocks below the limit"
            };
            Assessment::new(holds, format!("{}{advice}", observed.join("; ")), expected)
        })
    }
}

/// Returns how often processors throttled for heat between the first and the last sample.
fn slowdowns(rows: &CellRows) -> Option<i64> {
    let (_, host) = rows.beside.get("host_telemetry")?;
    let counts = host.int("throttles").ok()?;
    let sampled: Vec<i64> = counts.into_iter().flatten().collect();
    Some(sampled.last()? - sampled.first()?)
}

/// Returns the share of GPU samples with a counted reason, and these reasons. Leaves out GPUs that the server does not use.
fn limited(rows: &CellRows, counted: &[ThrottleReason]) -> Option<(f64, BTreeSet<ThrottleReason>)> {
    let (_, gpu) = rows.beside.get("gpu_telemetry")?;
    let unused = unused(gpu);
    let limits: Vec<&str> = (gpu.int("gpu").ok()?.into_iter())
        .zip(gpu.text("throttle_reasons").ok()?)
        .filter(|(gpu, _)| gpu.is_none_or(|gpu| !unused.contains(&gpu)))
        .filter_map(|(_, reasons)| reasons)
        .collect();
    let mut named = BTreeSet::new();
    let mut samples = 0;
    for reasons in &limits {
        let here: Vec<ThrottleReason> = reasons
            .split('+')
            .filter_map(|reason| ThrottleReason::parse(reason).ok())
            .filter(|reason| counted.contains(reason))
            .collect();
        samples += usize::from(!here.is_empty());
        named.extend(here);
    }
    (!limits.is_empty()).then(|| (samples as f64 / limits.len() as f64, named))
}

/// Returns the GPUs on which no sample finds a process of the server. A GPU whose processes are unknown counts as used.
fn unused(gpu: &Table) -> BTreeSet<i64> {
    let columns = (
        gpu.int("gpu"),
        gpu.int("compute_processes"),
        gpu.int("foreign_processes"),
    );
    let (Ok(number), Ok(all), Ok(foreign)) = columns else {
        return BTreeSet::new();
    };
    let (mut without, mut with) = (BTreeSet::new(), BTreeSet::new());
    for ((number, all), foreign) in number.into_iter().zip(all).zip(foreign) {
        match (number, all.zip(foreign)) {
            (Some(number), Some((all, foreign))) if all > foreign => with.insert(number),
            (Some(number), Some(_)) => without.insert(number),
            _ => false,
        };
    }
    &without - &with
}

#[cfg(test)]
mod tests {
    use artifacts::{Column, Digest};
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::one_cell;

    /// A cell with two samples of GPU 0, which the power limit slows, each with all its processes and those of others.
    fn with_processes(samples: [(Option<i64>, Option<i64>); 2]) -> CellRows {
        let table = Table::new(vec![
            Column::int("gpu", [Some(0), Some(0)]),
            Column::text("throttle_reasons", [Some("power-cap"), Some("power-cap")]),
            Column::int("compute_processes", samples.map(|s| s.0)),
            Column::int("foreign_processes", samples.map(|s| s.1)),
        ]);
        let mut rows = synthetic::rows_of(Vec::new());
        let table = (Digest::of(b"gpu"), table.unwrap());
        rows.beside.insert("gpu_telemetry", table);
        rows
    }

    #[test]
    fn a_reason_that_no_gpu_gives_is_refused() {
        assert!(
            one_cell::refused(&Throttling, json!({"reasons": ["thermals"]}))[0].contains("thermal")
        );
        assert_eq!(
            one_cell::refused(&Throttling, json!({"reasons": []})).len(),
            1
        );
        assert!(one_cell::refused(&Throttling, json!({"reasons": ["thermal"]})).is_empty());
    }

    #[test]
    fn a_gpu_that_only_other_programs_use_says_nothing_about_the_server() {
        let limited = |samples| limited(&with_processes(samples), &reasons()).map(|l| l.0);
        assert_eq!(limited([(Some(1), Some(0)), (Some(2), Some(1))]), Some(1.0));
        assert_eq!(limited([(Some(1), Some(1)), (Some(1), None)]), None);
        assert_eq!(limited([(Some(0), Some(0)), (Some(0), Some(0))]), None);
        // Nothing is known, as in a container.
        assert_eq!(limited([(None, None), (Some(1), None)]), Some(1.0));
        // The server started its work later.
        assert_eq!(limited([(Some(1), Some(1)), (Some(2), Some(1))]), Some(1.0));
    }
}
