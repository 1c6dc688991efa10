//! `physical-roofs`: is a cell faster than the hardware allows?

use contract::{CellRows, Request, Settings};
use pipeline::suggest::remedy;
use pipeline::{Json, Library, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, Unresolved, Values, each, share, show, some};
use crate::hardware::Hardware;
use crate::study::{Cell, Stage};

pub(crate) struct PhysicalRoofs;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The accelerator: the name of a definition in the collection `hardware`, or its facts.
    hardware: HardwareChoice,
    /// The number of accelerators that serve a request together.
    #[serde(default = "one")]
    devices: u32,
    /// The type in which the engine multiplies, as the definition's `peak-tflops` names it.
    #[serde(default = "bfloat16")]
    dtype: String,
    /// Facts about the model: `parameters`, `weights-bytes`, `layers`, `kv-heads`, `head-dim`, and
    /// `kv-bytes` (of one cached value). By default, all except `kv-bytes` come from the server's
    /// descriptor, if the model's definition has them.
    #[serde(default)]
    model: ModelFacts,
    /// The tokens that one pass over the weights may yield for one request: 1, or 1 + the drafted
    /// tokens with speculative decoding.
    #[serde(default = "one")]
    tokens_per_pass: u32,
    /// The share by which a roof may be exceeded, because the client takes the stamps.
    #[serde(default = "twentieth")]
    #[schemars(range(min = 0, max = 1))]
    tolerance: f64,
}

/// Hardware by name or written out.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HardwareChoice {
    /// The name of a definition.
    Name(String),
    /// The facts.
    Inline(Hardware),
}

/// What the roofs need to know of a model.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{parameters: 500000000, weights-bytes: 1000000000}"))]
pub(crate) struct ModelFacts {
    /// Parameters that take part in every token (of a mixture of experts, the active ones).
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<u64>,
    /// Bytes of weights read for every token.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights_bytes: Option<u64>,
    /// Layers with attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<u64>,
    /// Key-value heads of a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_heads: Option<u64>,
    /// Values in a head.
    #[serde(skip_serializing_if = "Option::is_none")]
    head_dim: Option<u64>,
    /// Bytes of a cached key or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_bytes: Option<u64>,
}

fn one() -> u32 {
    1
}

fn bfloat16() -> String {
    "bfloat16".to_owned()
}

fn twentieth() -> f64 {
    0.05
}

impl TypedGate for PhysicalRoofs {
    type Parameters = Parameters;
    const NAME: &'static str = "physical-roofs";
    const SUMMARY: &'static str = "\
        Nothing is faster than the hardware. This is not a test: the gate flags only what cannot happen, unless a \
        fact is wrong or the server does not report a cache or speculation.\n\n\
        There are four roofs:\n\n\
        - 2 × parameters × tokens, over the window, stays within the peak FLOP/s.\n\
        - The same holds for the uncached tokens of every prompt within its TTFT.\n\
        - Every request's decode rate × bytes of weights stays within the memory bandwidth.\n\
        - The weights plus the keys and values of the generating requests fit into the memory.\n\n\
        The gate does not judge a roof if it lacks the facts.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn resolve(&self, values: &mut Values, library: &dyn Library) -> Result<(), Unresolved> {
        let Some(name) = values
            .get("hardware")
            .and_then(Json::as_str)
            .map(str::to_owned)
        else {
            return Ok(());
        };
        let Some(mut definition) = library.find("hardware", &name) else {
            let names = library.names("hardware");
            let message = format!("no hardware is named `{name}`");
            return Err(Unresolved {
                key: "hardware",
                message,
                hint: remedy(&name, "hardware definitions", &names),
            });
        };
        if let Some(map) = definition.as_object_mut() {
            // The source has no effect.
            map.shift_remove("source");
        }
        values.insert("hardware".to_owned(), definition);
        Ok(())
    }

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        let at = |key: &str| [Step::Key(key.to_owned())];
        let HardwareChoice::Inline(hardware) = &parameters.hardware else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        if !hardware.peak_tflops.is_empty() && !hardware.peak_tflops.contains_key(&parameters.dtype)
        {
            problems.push(
                settings
                    .problem(
                        &at("dtype"),
                        format!("the hardware has no peak for `{}`", parameters.dtype),
                    )
                    .hint(remedy(
                        &parameters.dtype,
                        "data types with a peak",
                        hardware.peak_tflops.keys(),
                    )),
            );
        }
        if parameters.devices == 0 || parameters.tokens_per_pass == 0 {
            problems.push(settings.problem(&[], "`devices` and `tokens-per-pass` are at least 1"));
        }
        problems
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let HardwareChoice::Inline(hardware) = &parameters.hardware else {
                return Assessment::not_judged(
                    "the hardware is a name only",
                    "facts of the hardware",
                );
            };
            roofs(parameters, hardware, cell, rows)
        })
    }
}

/// One roof: its height, and how close a cell came to it.
struct Roof {
    name: &'static str,
    unit: &'static str,
    height: f64,
    reached: f64,
    /// The rows above it, for a roof over each row.
    rows: Vec<i64>,
}

fn roofs(
    parameters: &Parameters,
    hardware: &Hardware,
    cell: &Cell<'_>,
    rows: &CellRows,
) -> Assessment {
    let model = facts(&parameters.model, cell);
    let ok: Vec<&Request> = rows.measured().filter(|r| r.is_ok()).collect();
    let mut roofs = of_compute(parameters, hardware, &model, rows);
    roofs.extend(of_bandwidth(parameters, hardware, &model, &ok));
    roofs.extend(of_memory(parameters, hardware, &model, rows));
    let expected = format!(
        "at most {} above the roofs of the hardware",
        share(parameters.tolerance)
    );
    if roofs.is_empty() {
        return Assessment::not_judged(
            "facts about the model or the hardware are missing, or the rows lack times or token counts",
            expected,
        );
    }
    let slack = slack(parameters);
    let broken: Vec<&Roof> = roofs
        .iter()
        .filter(|r| r.reached > r.height * slack)
        .collect();
    let say = |r: &&Roof| {
        format!(
            "{} {} of {} {}",
            r.name,
            show(r.reached),
            show(r.height),
            r.unit
        )
    };
    let all: Vec<&Roof> = roofs.iter().collect();
    let shown: Vec<String> = if broken.is_empty() { &all } else { &broken }
        .iter()
        .map(say)
        .collect();
    let ids: Vec<i64> = broken.iter().flat_map(|r| r.rows.iter().copied()).collect();
    Assessment::new(broken.is_empty(), shown.join("; "), expected).evidence(some(&ids))
}

/// Returns the factor above a roof at which it counts as broken.
fn slack(parameters: &Parameters) -> f64 {
    1.0 + parameters.tolerance
}

/// Returns the roofs of the arithmetic: over the measured window, and over the prefill of each request.
fn of_compute(
    parameters: &Parameters,
    hardware: &Hardware,
    model: &ModelFacts,
    rows: &CellRows,
) -> Vec<Roof> {
    let peak = hardware.peak_tflops.get(&parameters.dtype);
    let (Some(peak), Some(p)) = (peak, model.parameters) else {
        return Vec::new();
    };
    let height = peak * f64::from(parameters.devices);
    let tflop = |tokens: i64| 2.0 * p as f64 * tokens as f64 / 1e12;
    let cached = |r: &Request| r.cached_prompt_tokens.unwrap_or(0);
    let ok = || rows.measured().filter(|r| r.is_ok());
    let from = ok().filter_map(|r| r.sent_ns).min();
    let to = ok().filter_map(|r| r.done_ns).max();
    let seconds = from.zip(to).map(|(a, b)| (b - a) as f64 / 1e9);
    let tokens =
        |r: &Request| r.prompt_tokens.unwrap_or(0) - cached(r) + r.output_tokens.unwrap_or(0);
    let tokens: i64 = ok().map(tokens).sum();
    let window = seconds.filter(|s| *s > 0.0 && tokens > 0 && rows.has_one_clock());
    let window = window.map(|seconds| Roof {
        name: "compute",
        unit: "TFLOP/s",
        height,
        reached: tflop(tokens) / seconds,
        rows: Vec::new(),
    });
    let prefill = |r: &Request| {
        let seconds = (r.first_token_ns? - r.sent_ns?) as f64 / 1e9;
        let computed = r.prompt_tokens? - cached(r);
        // A prompt from the cache needs no arithmetic, and 0 over no time is no rate.
        (computed > 0).then(|| (r.request_id, tflop(computed) / seconds))
    };
    let prefills = ok().filter_map(prefill);
    let prefills = over_rows("prefill", "TFLOP/s", height, slack(parameters), prefills);
    window.into_iter().chain(prefills).collect()
}

/// Returns the roof of the bandwidth: the weights are read once for each pass of a decode.
fn of_bandwidth(
    parameters: &Parameters,
    hardware: &Hardware,
    model: &ModelFacts,
    ok: &[&Request],
) -> Option<Roof> {
    let (bandwidth, bytes) = (hardware.bandwidth_gb_per_s?, model.weights_bytes?);
    let height = bandwidth * f64::from(parameters.devices) * f64::from(parameters.tokens_per_pass);
    let decode = |r: &&Request| {
        let (from, after) = r.decode()?;
        // The stamps of an answer in one piece do not show how long generation took, but it took less than the time
        // since the request.
        let from = [from, r.sent_ns?];
        let from = from
            .into_iter()
            .find(|from| *from < r.last_token_ns.unwrap_or(0))?;
        let seconds = (r.last_token_ns? - from) as f64 / 1e9;
        Some((r.request_id, after as f64 * bytes as f64 / 1e9 / seconds))
    };
    let decodes = ok.iter().filter_map(decode);
    over_rows("bandwidth", "GB/s", height, slack(parameters), decodes)
}

/// Returns the roof of the memory: the weights, and the keys and values of the requests in flight.
fn of_memory(
    parameters: &Parameters,
    hardware: &Hardware,
    model: &ModelFacts,
    rows: &CellRows,
) -> Option<Roof> {
    let (memory, weights) = (hardware.memory_gb?, model.weights_bytes?);
    let parts = [
        model.layers?,
        model.kv_heads?,
        model.head_dim?,
        model.kv_bytes?,
    ];
    // Keys and values.
    let per_token = 2.0 * parts.into_iter().map(|part| part as f64).product::<f64>();
    Some(Roof {
        name: "memory",
        unit: "GB",
        height: memory * f64::from(parameters.devices),
        reached: (weights as f64 + most_resident(rows) as f64 * per_token) / 1e9,
        rows: Vec::new(),
    })
}

fn over_rows(
    name: &'static str,
    unit: &'static str,
    height: f64,
    slack: f64,
    rows: impl Iterator<Item = (i64, f64)>,
) -> Option<Roof> {
    let rows: Vec<(i64, f64)> = rows.collect();
    let reached = rows
        .iter()
        .map(|(_, value)| *value)
        .max_by(f64::total_cmp)?;
    let over = rows
        .iter()
        .filter(|(_, value)| *value > height * slack)
        .map(|(id, _)| *id)
        .collect();
    Some(Roof {
        name,
        unit,
        height,
        reached,
        rows: over,
    })
}

fn facts(given: &ModelFacts, cell: &Cell<'_>) -> ModelFacts {
    let described = cell.server.as_ref().map(|s| &s.descriptor["model"]);
    ModelFacts {
        parameters: given
            .parameters
            .or_else(|| described?["parameters"].as_u64()),
        weights_bytes: given
            .weights_bytes
            .or_else(|| described?["weights"]["bytes"].as_u64()),
        layers: given
            .layers
            .or_else(|| described?["shape"]["layers"].as_u64()),
        kv_heads: given
            .kv_heads
            .or_else(|| described?["shape"]["kv_heads"].as_u64()),
        head_dim: given
            .head_dim
            .or_else(|| described?["shape"]["head_dim"].as_u64()),
        kv_bytes: given.kv_bytes,
    }
}

/// Returns the most tokens that must be in the cache at the same time: the uncached prompts of requests between their
/// first and their last token. Generated tokens are not counted.
fn most_resident(rows: &CellRows) -> i64 {
    let mut changes: Vec<(i64, i64)> = Vec::new();
    let comparable = rows.has_one_clock();
    for r in rows.measured().filter(|r| comparable && r.is_ok()) {
        if let (Some(first), Some(last), Some(prompt)) =
            (r.first_token_ns, r.last_token_ns, r.prompt_tokens)
        {
            let tokens = prompt - r.cached_prompt_tokens.unwrap_or(0);
            changes.extend([(first, tokens), (last, -tokens)]);
        }
    }
    // Removals at the same time go first, so that rounding cannot exceed the bound.
    changes.sort_unstable();
    let mut resident = 0;
    let running = changes.into_iter().map(|(_, change)| {
        resident += change;
        resident
    });
    running.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::finding::Outcome;
    use crate::one_cell;

    /// Judges requests of a model of 10⁹ parameters on a machine of 100 TFLOP/s.
    fn judged(requests: Vec<Request>) -> Judgement {
        let parameters = json!({
            "hardware": {"title": "a machine", "peak-tflops": {"bfloat16": 100.0}},
            "model": {"parameters": 1_000_000_000},
        });
        let rows = synthetic::rows_of(requests);
        one_cell::judge(&PhysicalRoofs, parameters, json!({}), rows)
    }

    /// Returns a request whose prompt of 200 tokens is answered after this many ms.
    fn answered(id: i64, after_ms: i64, cached: i64) -> Request {
        Request {
            first_token_ns: Some(after_ms * 1_000_000),
            prompt_tokens: Some(200),
            cached_prompt_tokens: Some(cached),
            ..synthetic::request(id)
        }
    }

    #[test]
    fn prompts_from_the_cache_have_no_rate_and_hide_none() {
        // Nothing is computed in no time.
        let judgement = judged(vec![answered(0, 0, 200)]);
        assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
        assert!(
            !judgement.observed.contains("prefill"),
            "{}",
            judgement.observed
        );
        assert!(
            judgement
                .expected
                .ends_with("at most 5.0 % above the roofs of the hardware"),
            "{}",
            judgement.expected
        );
        // 0.4 TFLOP in 10 ms, and in 1 ms.
        let slow = judged(vec![answered(0, 0, 200), answered(1, 10, 0)]);
        assert_eq!(slow.outcome, Outcome::Pass, "{slow:?}");
        let fast = judged(vec![answered(0, 0, 200), answered(1, 1, 0)]);
        assert_eq!(fast.outcome, Outcome::Fail, "{fast:?}");
        assert!(fast.observed.contains("prefill 400 of 100 TFLOP/s"));
        let instant = judged(vec![answered(0, 0, 0)]);
        assert_eq!(instant.outcome, Outcome::Fail, "{instant:?}");
        assert!(instant.observed.contains("prefill infinite"));
    }
}
