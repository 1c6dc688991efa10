//! Turns the arguments of `load` into the settings of a load stage.

use std::path::Path;

use contract::{Api, Word as _};
use load::{
    DirectArrival, DirectLoad, DirectPrompts, DirectSearch, Settings, Slo, dataset_prompts,
};
use pipeline::language::{Disk, Options, load_text};
use pipeline::sources::NamedFiles;
use serde_json::json;

use super::load_words;
use crate::args::LoadArgs;
use crate::exit::Stop;
use crate::registry::registry;
use crate::session::user_folders;

/// A level of the load, and its arrivals.
pub(super) struct Levelled {
    /// The number of clients, or requests per second; infinite for all requests at once.
    pub(super) level: f64,
    pub(super) arrival: DirectArrival,
}

/// Returns the levels from the arguments; at least one.
pub(super) fn levels(arguments: &LoadArgs) -> Vec<Levelled> {
    // All requests at once but with a maximum in flight is a closed loop, as in vLLM.
    if let (Some(clients), [rate]) = (arguments.max_concurrency, arguments.rate.as_slice())
        && rate.is_infinite()
    {
        return vec![Levelled {
            level: f64::from(clients),
            arrival: DirectArrival::ClosedLoop { clients },
        }];
    }
    if !arguments.rate.is_empty() {
        let arrival = |rate: f64| match arguments.burstiness {
            _ if rate.is_infinite() => DirectArrival::Burst,
            Some(burstiness) => DirectArrival::Gamma { rate, burstiness },
            None => DirectArrival::Poisson { rate },
        };
        let each = arguments.rate.iter();
        return each
            .map(|rate| Levelled {
                level: *rate,
                arrival: arrival(*rate),
            })
            .collect();
    }
    if !arguments.concurrency.is_empty() {
        let closed = |clients: &u32| Levelled {
            level: f64::from(*clients),
            arrival: DirectArrival::ClosedLoop { clients: *clients },
        };
        return arguments.concurrency.iter().map(closed).collect();
    }
    let arrival = arrival(arguments);
    vec![Levelled {
        level: 0.0,
        arrival,
    }]
}

/// Rejects a level that is given twice.
pub(super) fn check_levels(levels: &[Levelled]) -> Result<(), Stop> {
    let given_before = |(i, one): (usize, &Levelled)| {
        let before = levels[..i].iter().any(|other| other.level == one.level);
        before.then_some(one.level)
    };
    match levels.iter().enumerate().find_map(given_before) {
        Some(level) => Err(Stop::usage(format!("the level {level} is given twice"))
            .hint("give each level once; `benchtrail init` writes a study that repeats levels")),
        None => Ok(()),
    }
}

pub(super) fn axis_of(arguments: &LoadArgs) -> &'static str {
    if arguments.rate.is_empty() {
        "clients"
    } else {
        "req/s"
    }
}

/// Returns the complete settings. They are processed like an experiment's: the same checks, the same search for
/// workloads, the same meaning.
pub(super) fn checked_settings(
    arguments: &LoadArgs,
    arrival: &DirectArrival,
) -> Result<Settings, Stop> {
    settings_of(&direct(arguments, arrival)?, arguments.seed)
}

/// Does the same for the load of a run.
pub(super) fn settings_of(direct: &DirectLoad, seed: u64) -> Result<Settings, Stop> {
    let experiment =
        json!({ "experiment": "load", "seed": seed, "stages": { "load": direct.stage() } });
    let options = Options {
        user_folders: user_folders(),
        partial: true,
        ..Options::default()
    };
    let file = Path::new(load_words::FILE);
    let experiment = load_text(&experiment.to_string(), file, &registry(), &options, &Disk)
        .map_err(|diagnostics| load_words::stop(&diagnostics))?;
    let parameters = experiment
        .stages
        .first()
        .and_then(|stage| stage.parameter_sets.first())
        .cloned();
    let mut settings: Settings = serde_json::from_value(parameters.unwrap_or_default())
        .map_err(|e| Stop::usage(format!("settings: {e}")))?;
    settings.files = NamedFiles::of(&experiment, None);
    direct.apply_output(&mut settings);
    Ok(settings)
}

/// Returns the load from the arguments, with these arrivals.
pub(super) fn direct(arguments: &LoadArgs, arrival: &DirectArrival) -> Result<DirectLoad, Stop> {
    Ok(DirectLoad {
        arrival: arrival.clone(),
        prompts: prompts(arguments)?,
        output_tokens: arguments.output_tokens,
        requests: arguments.requests,
        duration: arguments.duration.clone(),
        max_in_flight: match arrival {
            DirectArrival::ClosedLoop { .. } => None,
            _ => arguments.max_concurrency,
        },
        generators: arguments.generators,
        warmup: arguments.warmup,
        streamed: !arguments.no_stream,
        connect_timeout: arguments.connect_timeout.clone(),
        first_token_timeout: arguments.first_token_timeout.clone(),
        inter_token_timeout: arguments.inter_token_timeout.clone(),
        total_timeout: arguments.timeout.clone(),
        heartbeat: arguments.heartbeat.clone(),
        telemetry_interval: arguments.telemetry_interval.clone(),
        gpu: arguments.gpu.clone(),
        hung_below_w: arguments.hung_below,
        search: arguments.search.map(|up_to| DirectSearch {
            up_to,
            attainment: arguments.attainment,
            resolution: arguments.resolution,
            longest: arguments.longest.clone(),
            bounds: arguments.slo.clone(),
        }),
    })
}

pub(super) fn arrival(arguments: &LoadArgs) -> DirectArrival {
    if let Some(rate) = arguments.constant {
        DirectArrival::Constant { rate }
    } else if !arguments.steps.is_empty() {
        DirectArrival::Steps(arguments.steps.clone())
    } else if let Some((from, to, seconds)) = arguments.ramp {
        DirectArrival::Ramp { from, to, seconds }
    } else if let Some(file) = arguments.trace.clone() {
        let speed = arguments.speed;
        DirectArrival::Trace { file, speed }
    } else if arguments.burst {
        DirectArrival::Burst
    } else {
        let clients = arguments.max_concurrency.unwrap_or(1);
        DirectArrival::ClosedLoop { clients }
    }
}

pub(super) fn prompts(arguments: &LoadArgs) -> Result<DirectPrompts, Stop> {
    if let Some(file) = &arguments.dataset {
        return dataset_prompts(file)
            .map(DirectPrompts::Dataset)
            .map_err(|e| Stop::usage(e.reason).hint(e.hint));
    }
    Ok(if let Some((from, to)) = arguments.prompt_tokens {
        let tokenizer = arguments.tokenizer.clone();
        DirectPrompts::Tokens {
            from,
            to,
            tokenizer,
        }
    } else if let Some((from, to)) = arguments.prompt_words {
        DirectPrompts::Words(from, to)
    } else {
        arguments
            .workload
            .clone()
            .map_or(DirectPrompts::Default, DirectPrompts::Named)
    })
}

pub(super) fn slo(arguments: &LoadArgs) -> Slo {
    let bound = |name: &str| {
        arguments
            .slo
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, ms)| *ms)
    };
    Slo {
        ttft_ms: bound("ttft"),
        tpot_ms: bound("tpot"),
        e2e_ms: bound("e2e"),
        ttft_scheduled_ms: bound("ttft_scheduled"),
        e2e_scheduled_ms: bound("e2e_scheduled"),
    }
}

/// Returns the bounds by which the requests of arrivals are judged. Open arrivals may wait in line for `--max-concurrency`.
pub(super) fn judged_slo(arguments: &LoadArgs, arrival: &DirectArrival) -> Slo {
    match (arguments.max_concurrency, arrival) {
        (Some(_), arrival) if !matches!(arrival, DirectArrival::ClosedLoop { .. }) => {
            slo(arguments).from_schedule()
        }
        _ => slo(arguments),
    }
}

/// Rejects bounds that no request could meet: from the scheduled time for a closed loop, and on times between tokens for whole
/// answers.
pub(super) fn check_bounds(arguments: &LoadArgs, levels: &[Levelled]) -> Result<(), Stop> {
    let slo = slo(arguments);
    let is_stream = |api: Api| api.generates() && !arguments.no_stream;
    let whole = !Api::parse(&arguments.api).is_ok_and(is_stream);
    if let Some(bound) = slo.unmet_by_whole_answers().filter(|_| whole) {
        return Err(Stop::usage(format!(
            "whole answers have no {bound}, so no request would meet the bound on it"
        ))
        .hint("bound `e2e`"));
    }
    let of_schedule = slo.ttft_scheduled_ms.or(slo.e2e_scheduled_ms).is_some();
    let closed = |at: &Levelled| matches!(at.arrival, DirectArrival::ClosedLoop { .. });
    match of_schedule && levels.iter().any(closed) {
        true => Err(Stop::usage(
            "a closed loop has no schedule, so no request would meet a bound from its scheduled time",
        )
        .hint("bound `ttft` or `e2e`, or send with --rate")),
        false => Ok(()),
    }
}
