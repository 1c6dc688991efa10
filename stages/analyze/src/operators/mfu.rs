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
    /// The model whose definition says how many parameters it has.
    #[serde(default)]
    model: Option<String>,
    /// The number of (active) parameters, if no model says it.
    #[serde(default)]
    model_parameters: Option<f64>,
    /// The peak of one device at the precision used, FLOP/s.
    peak_flops: f64,
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

    fn tokens(&self) -> &'static str {
        match self.prefill {
            Prefill::Counted => "prompt and output tokens",
            Prefill::NotCounted => "output tokens only: the work of the prefill is left out",
        }
    }
}

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let (unit, name) = (of.unit.as_deref().unwrap_or_default(), &of.name);
    vec![
        Spec::float(name, unit, of.description.clone()),
        Spec::text("tokens_counted", "which tokens count"),
        Spec::float("model_parameters", "1", "P: parameters a token passes through"),
        Spec::float("peak_flops", "FLOP/s", format!("peak of {} device(s)", given.devices)),
        Spec::float("achieved_flops", "FLOP/s", format!("2 · P · {name}")),
        Spec::float("mfu", "1", "achieved_flops ÷ peak_flops"),
    ]
}

impl Operator for Mfu {
    fn name(&self) -> &'static str {
        "mfu"
    }

    fn summary(&self) -> &'static str {
        "Model FLOP utilisation: 2 · P · tokens a second ÷ the peak of the devices."
    }

    fn source(&self) -> &'static str {
        "Chowdhery et al. (PaLM, 2022), Appendix B, forward pass only: 2 FLOP per parameter and token; the attention over the context is not counted. Published figures differ in whether prompt tokens count, so it has to be said."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let mut given: Parameters = settings.read()?;
        let mut problems = Vec::new();
        if !(given.peak_flops > 0.0 && given.peak_flops.is_finite()) {
            problems.push(settings.problem(&at("peak-flops"), "a peak is a positive number of FLOP/s"));
        }
        if given.devices == 0 {
            problems.push(settings.problem(&at("devices"), "there is at least one device"));
        }
        match (&given.model, given.model_parameters) {
            (Some(_), Some(_)) => problems.push(
                settings
                    .problem(&at("model-parameters"), "`model` and `model-parameters` say the same twice"),
            ),
            (None, None) => problems.push(
                settings
                    .problem(&[], format!("{} needs `model` or `model-parameters`", settings.what))
                    .hint("for instance `model-parameters: 8e9`"),
            ),
            (None, Some(p)) if !(p > 0.0 && p.is_finite()) => {
                problems.push(settings.problem(&at("model-parameters"), "parameters are a positive number"));
            }
            (None, Some(_)) => {}
            (Some(name), None) => match scope.library.find("models", name) {
                Some(model) => match model.get("parameters").and_then(Json::as_f64).filter(|p| *p > 0.0) {
                    Some(p) => given.model_parameters = Some(p),
                    None => problems.push(
                        settings
                            .problem(&at("model"), format!("the model `{name}` does not say its parameters"))
                            .hint("give `model-parameters` instead"),
                    ),
                },
                None => {
                    let names = scope.library.names("models");
                    let known: Vec<&str> = names.iter().map(String::as_str).collect();
                    problems.push(
                        settings
                            .problem(&at("model"), format!("there is no model `{name}`"))
                            .hint(rows::did_you_mean(name, &known)),
                    );
                }
            },
        }
        let wanted = [(at("column"), given.column())];
        match scope.numbers(settings, (&at("from"), &given.from), &wanted) {
            Ok(found) if problems.is_empty() => {
                Ok(Plan { columns: columns(&found[0], &given), parameters: rows::canonical(&given) })
            }
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
        let spec = from.spec(given.column()).cloned().ok_or_else(|| Failure::failed("the column is gone"))?;
        let p = given.model_parameters.ok_or_else(|| Failure::failed("the number of parameters is gone"))?;
        let peak = given.peak_flops * f64::from(given.devices);
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
            Row { key: from.rows[row].key.clone(), values, lineage: spans(&given.from, [row]) }
        });
        let (rows, specs) = (rows.collect(), columns(&spec, &given));
        Ok(Frame { level: from.level, keys: from.keys.clone(), specs, rows, missing: from.missing.clone() })
    }
}
