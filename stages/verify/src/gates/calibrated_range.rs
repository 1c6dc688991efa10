//! `calibrated-range`: was the client calibrated for this load?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct CalibratedRange;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {}

impl TypedGate for CalibratedRange {
    type Parameters = Parameters;
    const NAME: &'static str = "calibrated-range";
    const SUMMARY: &'static str = "The load is within the range of a `calibrate` stage that the \
        verify stage needs, in chunks per second over all streams and in requests in flight.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, _parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|_, rows| {
            let Some(instrument) = &stage.instrument else {
                let why = "the stage does not need a calibrate stage";
                return Assessment::not_judged(why, "a load within the calibrated range");
            };
            let covered = &instrument["covered"];
            let (Some(rate), Some(concurrency)) = (
                covered["chunk_rate"].as_f64(),
                covered["concurrency"].as_f64(),
            ) else {
                return Assessment::new(
                    false,
                    "the calibration covers no load, because no point met its bound",
                    "a load within the calibrated range",
                );
            };
            let expected = format!("at most {rate:.0} chunks/s, {concurrency} requests in flight");
            let fact = |name: &str| rows.cell.as_ref()?.number(name);
            match (fact("chunk_rate"), fact("peak_in_flight")) {
                (Some(chunks), Some(flying)) => Assessment::new(
                    chunks <= rate && flying <= concurrency,
                    format!("{chunks:.0} chunks/s, {flying} requests in flight"),
                    expected,
                ),
                _ => Assessment::not_judged("the cell reports no chunk rate", expected),
            }
        })
    }
}
