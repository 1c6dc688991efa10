//! `mfu`: the share of a device's arithmetic that the tokens account for.

use contract::{IntervalEnd, Settings};
use pipeline::suggest::remedy;
use pipeline::{Failure, Json, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans};
use crate::operator::{Context, Draft, Scope, TypedOperator, at, unless};
use crate::operators::of_row::{OfRow, above_zero, counted};
use crate::operators::units::interval_beside;

pub(crate) struct Mfu;

/// The description of the column with the reason.
const WHY: &str = "why the interval is withheld, or cut off at 0; null if it is neither";

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the throughput.
    from: String,
    /// Whether the tokens of the prompts count.
    prefill: Prefill,
    /// The throughput; by default `total_throughput` if the prefill is counted, else
    /// `output_throughput`.
    #[serde(default)]
    column: Option<String>,
    /// The model, whose definition has the number of parameters. For a mixture of experts, that is
    /// the number of all parameters: give the active ones as `model-parameters`.
    #[serde(default)]
    model: Option<String>,
    /// The number of active parameters, if no model defines it. If rows differ, `{column: NAME}`
    /// names the column of `from` that has it.
    #[serde(default)]
    model_parameters: Option<OfRow<f64>>,
    /// The device: the name of a definition in the collection `hardware`, which has its peak.
    #[serde(default)]
    hardware: Option<String>,
    /// The data type in which the engine multiplies: a key of `peak-tflops` in the hardware definition. By default
    /// `bfloat16`.
    #[serde(default)]
    dtype: Option<String>,
    /// The peak of one device at the precision used, FLOP/s, if no definition has it, or its column.
    #[serde(default)]
    peak_flops: Option<OfRow<f64>>,
    /// The number of devices, or its column.
    #[serde(default = "one")]
    devices: OfRow<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Prefill {
    Counted,
    NotCounted,
}

fn one() -> OfRow<u32> {
    OfRow::All(1)
}

impl Parameters {
    fn column(&self) -> &str {
        match (&self.column, self.prefill) {
            (Some(column), _) => column,
            (None, Prefill::Counted) => "total_throughput",
            (None, Prefill::NotCounted) => "output_throughput",
        }
    }

    fn dtype(&self) -> &str {
        self.dtype.as_deref().unwrap_or("bfloat16")
    }

    fn tokens(&self) -> &'static str {
        match self.prefill {
            Prefill::Counted => "prompt and output tokens",
            Prefill::NotCounted => "output tokens only: the work of the prefill is left out",
        }
    }
}

/// The arithmetic that a row's tokens account for.
struct Work {
    rate: Option<f64>,
    /// The interval of the throughput, if its table has one.
    interval: Result<(f64, f64), String>,
    parameters: Option<f64>,
    /// The peak of all devices, FLOP/s.
    peak: Option<f64>,
}

impl Work {
    fn achieved(&self) -> Option<f64> {
        Some(2.0 * self.parameters? * self.rate?)
    }

    fn share(&self, rate: f64) -> Option<f64> {
        Some(2.0 * self.parameters? * rate / self.peak?)
    }

    /// Returns the lower end of the interval. No device computes less than nothing.
    fn low(&self) -> Option<f64> {
        Some(self.share(self.interval.as_ref().ok()?.0)?.max(0.0))
    }

    fn high(&self) -> Option<f64> {
        self.share(self.interval.as_ref().ok()?.1)
    }

    /// Returns why the interval is withheld, or not that of the throughput.
    fn why(&self, column: &str) -> Option<String> {
        match &self.interval {
            Err(why) => Some(why.clone()),
            Ok((low, _)) if *low < 0.0 && self.low().is_some() => Some(format!(
                "the interval of {column} reaches below 0, so mfu_low is cut off at 0"
            )),
            Ok(_) => None,
        }
    }
}

fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Work> {
    let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
    let model = given.model.as_ref().map(|model| format!(", of {model}"));
    let parameters = format!(
        "P: parameters a token passes through{}",
        model.unwrap_or_default()
    );
    let device = given.hardware.as_ref();
    let device = device.map(|name| format!(" {name}, dense {}", given.dtype()));
    let peak = format!(
        "peak of {} device(s){}",
        given.devices.words(),
        device.unwrap_or_default()
    );
    let tokens = given.tokens();
    let column = name.clone();
    let end = |which: IntervalEnd| {
        let note = which.of(format!(
            "the interval of mfu, at the same end of that of {name}"
        ));
        format!("{note}; null if its table has none")
    };
    Columns::new()
        .with(
            Spec::float(name, unit, spec.description.clone()),
            |w: &Work| w.rate,
        )
        .with(
            Spec::text("tokens_counted", "which tokens count"),
            move |_| tokens,
        )
        .with(Spec::float("model_parameters", "1", parameters), |w| {
            w.parameters
        })
        .with(Spec::float("peak_flops", "FLOP/s", peak), |w| w.peak)
        .with(
            Spec::float("achieved_flops", "FLOP/s", format!("2 · P · {name}")),
            Work::achieved,
        )
        .with(
            Spec::float("mfu", "1", "achieved_flops ÷ peak_flops").at_level(spec.interval_level),
            |w| Some(w.achieved()? / w.peak?),
        )
        .with(
            Spec::float("mfu_low", "1", end(IntervalEnd::Lower)),
            Work::low,
        )
        .with(
            Spec::float("mfu_high", "1", end(IntervalEnd::Upper)),
            Work::high,
        )
        .with(Spec::text("mfu_why", WHY), move |w: &Work| w.why(&column))
}

/// Returns the number of parameters, as given or from the model's definition.
fn parameters_of(
    given: &Parameters,
    settings: &Settings<'_>,
    scope: &Scope<'_>,
) -> Result<OfRow<f64>, Problem> {
    match (&given.model, &given.model_parameters) {
        (Some(_), Some(_)) => Err(settings
            .problem(
                &at("model-parameters"),
                "`model` and `model-parameters` cannot be given together",
            )
            .hint("keep one of the two")),
        (None, None) => Err(settings
            .problem(
                &[],
                format!("{} needs `model` or `model-parameters`", settings.what),
            )
            .hint("write, for example, `model-parameters: 8e9`")),
        (None, Some(p)) if p.all().is_none_or(|p| *p > 0.0 && p.is_finite()) => Ok(p.clone()),
        (None, Some(_)) => Err(settings.problem(
            &at("model-parameters"),
            "the number of parameters must be \
                positive",
        )),
        (Some(name), None) => {
            let model = definition(scope, settings, ("models", "model"), ("model", name))?;
            model
                .get("parameters")
                .and_then(Json::as_f64)
                .filter(|p| *p > 0.0)
                .map(OfRow::All)
                .ok_or_else(|| {
                    settings
                        .problem(
                            &at("model"),
                            format!("the model `{name}` does not state its number of parameters"),
                        )
                        .hint("give `model-parameters` instead")
                })
        }
    }
}

/// Returns the peak of one device in FLOP/s, as given or from the device's definition.
fn peak_of(
    given: &Parameters,
    settings: &Settings<'_>,
    scope: &Scope<'_>,
) -> Result<OfRow<f64>, Problem> {
    match (&given.hardware, &given.peak_flops) {
        (Some(_), Some(_)) => Err(settings
            .problem(
                &at("peak-flops"),
                "`hardware` and `peak-flops` cannot be given together",
            )
            .hint("keep one of the two")),
        (None, None) => Err(settings
            .problem(
                &[],
                format!("{} needs `hardware` or `peak-flops`", settings.what),
            )
            .hint(format!(
                "for example one of {}",
                scope.library.names("hardware").join(", ")
            ))),
        (None, Some(_)) if given.dtype.is_some() => Err(settings
            .problem(
                &at("dtype"),
                "`dtype` selects one of the peaks of `hardware`",
            )
            .hint("remove it: `peak-flops` is one number")),
        (None, Some(peak)) if peak.all().is_none_or(|p| *p > 0.0 && p.is_finite()) => {
            Ok(peak.clone())
        }
        (None, Some(_)) => Err(settings.problem(
            &at("peak-flops"),
            "a peak must be a positive number of FLOP/s",
        )),
        (Some(name), None) => {
            let hardware = definition(
                scope,
                settings,
                ("hardware", "hardware"),
                ("hardware", name),
            )?;
            let peaks = hardware.get("peak-tflops").and_then(Json::as_object);
            let tflops = peaks
                .and_then(|all| all.get(given.dtype()))
                .and_then(Json::as_f64);
            tflops
                .filter(|t| *t > 0.0 && t.is_finite())
                .map(|t| OfRow::All(t * 1e12))
                .ok_or_else(|| {
                    let names: Vec<&str> = peaks
                        .into_iter()
                        .flat_map(|p| p.keys())
                        .map(String::as_str)
                        .collect();
                    let problem = settings.problem(
                        &at("dtype"),
                        format!(
                            "the definition of `{name}` has no peak for `{}`",
                            given.dtype()
                        ),
                    );
                    if names.is_empty() {
                        problem.hint("give `peak-flops` instead")
                    } else {
                        problem.hint(remedy(given.dtype(), "data types with a peak", &names))
                    }
                })
        }
    }
}

/// Returns a definition from a collection.
fn definition(
    scope: &Scope<'_>,
    settings: &Settings<'_>,
    (collection, what): (&str, &str),
    (key, name): (&str, &str),
) -> Result<Json, Problem> {
    scope.library.find(collection, name).ok_or_else(|| {
        let names = scope.library.names(collection);
        settings
            .problem(&at(key), format!("no {what} is named `{name}`"))
            .hint(remedy(name, &format!("{what} definitions"), &names))
    })
}

impl TypedOperator for Mfu {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "mfu";
    const SUMMARY: &'static str =
        "Model FLOP utilization: 2 · P · tokens per second ÷ the peak of the devices.";
    const SOURCE: &'static str = "\
        The formula is that of Chowdhery et al. (PaLM, 2022), Appendix B, for the forward pass only: 2 FLOP per \
        parameter and token, without the attention over the context. The peak is that of dense matrix products, \
        without sparsity, from the manufacturer's data sheet that the hardware definition names.\n\n\
        Published figures differ in whether prompt tokens count, so you must choose with `prefill`.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (settings, scope, mut problems) = (draft.settings, draft.scope, Vec::new());
        if given.devices.all() == Some(&0) {
            problems.push(draft.problem("devices", "at least one device is required"));
        }
        match parameters_of(given, settings, scope) {
            Ok(p) => given.model_parameters = Some(p),
            Err(problem) => problems.push(problem),
        }
        match peak_of(given, settings, scope) {
            Ok(peak) => given.peak_flops = Some(peak),
            Err(problem) => problems.push(problem),
        }
        let from = &given.from;
        let numbers = [
            ("model-parameters", &given.model_parameters),
            ("peak-flops", &given.peak_flops),
        ];
        for (key, number) in numbers {
            let number = number.as_ref();
            problems.extend(
                number.map_or_else(Vec::new, |number| number.number_problems(draft, from, key)),
            );
        }
        problems.extend(given.devices.number_problems(draft, from, "devices"));
        match draft.column(&given.from, given.column()) {
            Ok(spec) => unless(problems, || columns(&spec, given).specs()),
            Err(more) => Err(problems.into_iter().chain(more).collect()),
        }
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let columns = columns(&from.declared(given.column())?, given);
        let parameters = given.model_parameters.as_ref();
        let parameters =
            parameters.ok_or_else(|| Failure::failed("the number of parameters is gone"))?;
        let peak = given.peak_flops.as_ref();
        let peak = peak.ok_or_else(|| Failure::failed("the peak is gone"))?;
        let rows = (0..from.rows.len()).map(|row| {
            let devices = counted(&given.devices, from, row, "devices")?;
            let peak = above_zero(peak, from, row, "peak-flops")?;
            let work = Work {
                rate: from.number(row, given.column()),
                interval: interval_beside(from, row, given.column()),
                parameters: above_zero(parameters, from, row, "model-parameters")?,
                peak: peak.zip(devices).map(|(peak, n)| peak * f64::from(n)),
            };
            let key = from.rows[row].key.clone();
            Ok(columns.row(key, &work, spans(&given.from, [row])))
        });
        Ok(Frame {
            level: from.level,
            keys: from.keys.clone(),
            rows: rows.collect::<Result<_, Failure>>()?,
            specs: columns.specs(),
            missing: from.missing.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_computes_less_than_nothing() {
        let work = |interval| Work {
            rate: Some(10.0),
            interval,
            parameters: Some(5.0),
            peak: Some(1000.0),
        };
        let below = work(Ok((-2.0, 22.0)));
        assert_eq!((below.low(), below.high()), (Some(0.0), Some(0.22)));
        assert_eq!(
            below.why("v").as_deref(),
            Some("the interval of v reaches below 0, so mfu_low is cut off at 0")
        );
        let above = work(Ok((8.0, 12.0)));
        assert_eq!((above.low(), above.why("v")), (Some(0.08), None));
        let withheld = work(Err("two units".to_owned()));
        assert_eq!((withheld.low(), withheld.high()), (None, None));
        assert_eq!(withheld.why("v").as_deref(), Some("two units"));
    }
}
