//! `mfu`: the share of a device's arithmetic that the tokens account for.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Row, Spec, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};

pub(crate) struct Mfu;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the throughput.
    from: String,
    /// Whether the tokens of the prompts count.
    prefill: Prefill,
    /// The throughput; by default `total_throughput` if the prefill is counted, else
    /// `output_throughput`.
    #[serde(default)]
    column: Option<String>,
    /// The model whose definition says how many parameters it has. Of a mixture of experts those
    /// are all of them: give the active ones as `model-parameters`.
    #[serde(default)]
    model: Option<String>,
    /// The number of (active) parameters, if no model says it.
    #[serde(default)]
    model_parameters: Option<f64>,
    /// The device: the name of a definition of the collection `hardware`, which says its peak.
    #[serde(default)]
    hardware: Option<String>,
    /// The type in which the engine multiplies, as the definition's `peak-tflops` names it; by
    /// default `bfloat16`.
    #[serde(default)]
    dtype: Option<String>,
    /// The peak of one device at the precision used, FLOP/s, if no definition says it.
    #[serde(default)]
    peak_flops: Option<f64>,
    /// The number of devices.
    #[serde(default = "one")]
    devices: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Prefill {
    Counted,
    NotCounted,
}

fn one() -> u32 {
    1
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

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let (unit, name) = (of.unit.as_deref().unwrap_or_default(), &of.name);
    let model = given
        .model
        .as_ref()
        .map(|model| format!(", of {model}"))
        .unwrap_or_default();
    let device = given
        .hardware
        .as_ref()
        .map(|name| format!(" {name}, dense {}", given.dtype()));
    let device = device.unwrap_or_default();
    vec![
        Spec::float(name, unit, of.description.clone()),
        Spec::text("tokens_counted", "which tokens count"),
        Spec::float(
            "model_parameters",
            "1",
            format!("P: parameters a token passes through{model}"),
        ),
        Spec::float(
            "peak_flops",
            "FLOP/s",
            format!("peak of {} device(s){device}", given.devices),
        ),
        Spec::float("achieved_flops", "FLOP/s", format!("2 · P · {name}")),
        Spec::float("mfu", "1", "achieved_flops ÷ peak_flops"),
    ]
}

/// Returns the number of parameters, as given or as the model's definition says.
fn parameters_of(
    given: &Parameters,
    settings: &Settings<'_>,
    scope: &Scope<'_>,
) -> Result<f64, Problem> {
    match (&given.model, given.model_parameters) {
        (Some(_), Some(_)) => Err(settings
            .problem(
                &at("model-parameters"),
                "`model` and `model-parameters` say the same twice",
            )
            .hint("keep one of the two")),
        (None, None) => Err(settings
            .problem(
                &[],
                format!("{} needs `model` or `model-parameters`", settings.what),
            )
            .hint("for instance `model-parameters: 8e9`")),
        (None, Some(p)) if p > 0.0 && p.is_finite() => Ok(p),
        (None, Some(_)) => {
            Err(settings.problem(&at("model-parameters"), "parameters are a positive number"))
        }
        (Some(name), None) => {
            let model = definition(scope, settings, ("models", "model"), ("model", name))?;
            model
                .get("parameters")
                .and_then(Json::as_f64)
                .filter(|p| *p > 0.0)
                .ok_or_else(|| {
                    settings
                        .problem(
                            &at("model"),
                            format!("the model `{name}` does not say its parameters"),
                        )
                        .hint("give `model-parameters` instead")
                })
        }
    }
}

/// Returns the peak of one device in FLOP/s, as given or as the device's definition says.
fn peak_of(given: &Parameters, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<f64, Problem> {
    match (&given.hardware, given.peak_flops) {
        (Some(_), Some(_)) => Err(settings
            .problem(
                &at("peak-flops"),
                "`hardware` and `peak-flops` say the same twice",
            )
            .hint("keep one of the two")),
        (None, None) => Err(settings
            .problem(
                &[],
                format!("{} needs `hardware` or `peak-flops`", settings.what),
            )
            .hint(format!(
                "for instance one of {}",
                scope.library.names("hardware").join(", ")
            ))),
        (None, Some(_)) if given.dtype.is_some() => Err(settings
            .problem(
                &at("dtype"),
                "`dtype` chooses among the peaks of `hardware`",
            )
            .hint("remove it: `peak-flops` is one number")),
        (None, Some(peak)) if peak > 0.0 && peak.is_finite() => Ok(peak),
        (None, Some(_)) => {
            Err(settings.problem(&at("peak-flops"), "a peak is a positive number of FLOP/s"))
        }
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
                .map(|t| t * 1e12)
                .ok_or_else(|| {
                    let known: Vec<&str> = peaks
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
                    if known.is_empty() {
                        problem.hint("give `peak-flops` instead")
                    } else {
                        problem.hint(rows::did_you_mean(given.dtype(), &known))
                    }
                })
        }
    }
}

/// Returns a definition of a collection.
fn definition(
    scope: &Scope<'_>,
    settings: &Settings<'_>,
    (collection, what): (&str, &str),
    (key, name): (&str, &str),
) -> Result<Json, Problem> {
    scope.library.find(collection, name).ok_or_else(|| {
        let names = scope.library.names(collection);
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        settings
            .problem(&at(key), format!("no {what} is named `{name}`"))
            .hint(rows::did_you_mean(name, &known))
    })
}

impl Operator for Mfu {
    fn name(&self) -> &'static str {
        "mfu"
    }

    fn summary(&self) -> &'static str {
        "Model FLOP utilisation: 2 · P · tokens a second ÷ the peak of the devices."
    }

    fn source(&self) -> &'static str {
        "Chowdhery et al. (PaLM, 2022), Appendix B, forward pass only: 2 FLOP per parameter and token; the attention over the context is not counted. The peak is that of dense matrix products, without sparsity, from the maker's data sheet that the definition of the hardware names. Published figures differ in whether prompt tokens count, so it has to be said."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let mut given: Parameters = settings.read()?;
        let mut problems = Vec::new();
        if given.devices == 0 {
            problems.push(settings.problem(&at("devices"), "there is at least one device"));
        }
        match parameters_of(&given, settings, scope) {
            Ok(p) => given.model_parameters = Some(p),
            Err(problem) => problems.push(problem),
        }
        match peak_of(&given, settings, scope) {
            Ok(peak) => given.peak_flops = Some(peak),
            Err(problem) => problems.push(problem),
        }
        let wanted = [(at("column"), given.column())];
        match scope.numbers(settings, (&at("from"), &given.from), &wanted) {
            Ok(found) if problems.is_empty() => Ok(Plan {
                columns: columns(&found[0], &given),
                parameters: rows::canonical(&given),
            }),
            Ok(_) => Err(problems),
            Err(more) => {
                problems.extend(more);
                Err(problems)
            }
        }
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let spec = from
            .spec(given.column())
            .cloned()
            .ok_or_else(|| Failure::failed("the column is gone"))?;
        let p = given
            .model_parameters
            .ok_or_else(|| Failure::failed("the number of parameters is gone"))?;
        let peak = given
            .peak_flops
            .ok_or_else(|| Failure::failed("the peak is gone"))?;
        let peak = peak * f64::from(given.devices);
        let rows = (0..from.rows.len()).map(|row| {
            let rate = from.number(row, given.column());
            let achieved = rate.map(|r| 2.0 * p * r);
            let values = vec![
                number(rate),
                text(given.tokens()),
                number(Some(p)),
                number(Some(peak)),
                number(achieved),
                number(achieved.map(|a| a / peak)),
            ];
            Row {
                key: from.rows[row].key.clone(),
                values,
                lineage: spans(&given.from, [row]),
            }
        });
        let (rows, specs) = (rows.collect(), columns(&spec, &given));
        Ok(Frame {
            level: from.level,
            keys: from.keys.clone(),
            specs,
            rows,
            missing: from.missing.clone(),
        })
    }
}
