//! The load stage with `simulate`: converts settings to a known server and one cell to tables, and makes the rows of a
//! dry run.

use contract::RequestStatus;
use pipeline::stage::{CellStatus, Done, Failure, Job, Json, Library, Output, Problem};
use pipeline::suggest::remedy;
use serde::Deserialize;

use super::model::{
    COLLECTION, Clock, Faults, SimulatedServer, Simulation, SimulationChoice, problems,
};
use super::monitoring;
use super::rows::simulate;
use crate::client_health::ClientHealth;
use crate::generators;
use crate::random::Origin;
use crate::run::{Ending, LoadResult, LoadSpec};
use crate::settings::{Settings, Timeouts, WorkloadChoice};
use crate::tables::tables;
use crate::workload::PromptSource;

/// Replaces the name of the simulated server by its definition, and checks it.
pub(crate) fn find_server(simulation: &mut Simulation, library: &dyn Library) -> Vec<Problem> {
    let (mut server, inline) = match &simulation.server {
        SimulationChoice::Inline(server) => ((**server).clone(), true),
        SimulationChoice::Name(name) => {
            let at = ["simulate", "server"];
            let Some(definition) = library.find(COLLECTION, name) else {
                let names = library.names(COLLECTION);
                let hint = remedy(name, "simulated servers", names.iter().map(String::as_str));
                return vec![
                    Problem::at(&at, format!("no simulated server is named `{name}`")).hint(hint),
                ];
            };
            match serde_json::from_value::<SimulatedServer>(definition) {
                Ok(server) => (server, false),
                Err(e) => {
                    return vec![Problem::at(
                        &at,
                        format!("simulated server `{name}` cannot be read: {e}"),
                    )];
                }
            }
        }
    };
    let mistakes = problems(simulation, &server);
    server.description = None;
    simulation.server = SimulationChoice::Inline(Box::new(server));
    let place = |(keys, message): (Vec<&str>, String)| match keys.as_slice() {
        ["server", below @ ..] if !inline => Problem::at(
            &["simulate", "server"],
            format!("{}: {message}", below.join(".")),
        ),
        _ => Problem::at(&[&["simulate"], keys.as_slice()].concat(), message),
    };
    mistakes.into_iter().map(place).collect()
}

/// Draws a cell's rows from the model of a server.
///
/// # Errors
/// If the stage needs a real server, prompts or arrivals cannot be made, or the cell is not ok: hung, stopped, or
/// without any answer.
pub(crate) fn run(
    job: &Job<'_>,
    settings: Settings,
    simulation: &Simulation,
) -> Result<Done, Failure> {
    if let Some(serve) = job.input_of_kind("serve") {
        return Err(Failure::failed(format!(
            "a simulated load does not send requests to `{}`",
            serve.stage
        ))
        .hint("remove the server from the stage's `needs`, or remove `simulate`"));
    }
    draw(settings, simulation, job)
}

/// The number of measured requests of a cell in a dry run, unless its workload is a mixture.
const REHEARSED_REQUESTS: u64 = 6;

/// The expected number of requests of the rarest part of a mixture in a dry run. Without any, an analysis by parts
/// would lack rows that the study will have.
const REHEARSED_OF_A_PART: u64 = 12;

/// Returns the most measured requests of a cell in a dry run.
pub(super) fn rehearsed_requests(workload: Option<&WorkloadChoice>) -> u64 {
    let Some(WorkloadChoice::Inline(workload)) = workload else {
        return REHEARSED_REQUESTS;
    };
    let PromptSource::Mixture(parts) = &workload.prompts else {
        return REHEARSED_REQUESTS;
    };
    let weights = || parts.iter().map(|part| u64::from(part.weight));
    let rarest = weights().min().unwrap_or(1).max(1);
    let needed = (REHEARSED_OF_A_PART * weights().sum::<u64>()).div_ceil(rarest);
    needed.max(REHEARSED_REQUESTS)
}

/// Simulates a few rows, whatever server is declared.
///
/// # Errors
/// If prompts or arrivals cannot be made.
pub(crate) fn rehearse(
    mut settings: Settings,
    job: &Job<'_>,
    slowdown: f64,
) -> Result<Done, Failure> {
    let most = rehearsed_requests(settings.workload.as_ref());
    settings.requests = settings.requests.map(|n| n.min(most));
    settings.warmup = settings.warmup.min(1);
    // So few requests need not arrive within the duration.
    settings.duration = None;
    settings.timeouts = Timeouts::default();
    let simulation = Simulation {
        server: SimulationChoice::Inline(Box::new(SimulatedServer::rehearsal())),
        // Every cell has separate noise, even with equal settings.
        name: Some(job.coordinates.to_string()),
        slowdown,
        clock: Clock::default(),
        faults: Faults::default(),
    };
    let telemetry = settings.telemetry.clone();
    let choice = settings.generators.clone();
    let (spec, mut result) = drawn(settings, &simulation, job)?;
    // A real client and its surroundings are monitored, so their data is simulated too.
    let (rate, in_flight, bound_ms) = (1.0, 1, 0.1);
    let health = ClientHealth::made_up(rate, in_flight, bound_ms);
    let several = choice.map(|choice| {
        let (arrival, prompts) = (&spec.arrival, &spec.prompts);
        generators::made_up(&choice, arrival, prompts, &result.requests, &health)
    });
    let several = several
        .transpose()
        .map_err(|e| Failure::failed(format!("made-up generators: {e}")))?
        .unwrap_or_default();
    result.cell.health = Some(health);
    let window = result.cell.window.unwrap_or((0, 1));
    let monitoring = monitoring::made_up(job, &telemetry, window)
        .map_err(|e| Failure::failed(format!("synthetic telemetry: {e}")))?;
    let group = monitoring::group(job, &spec.prompts, &result.requests)
        .map_err(|e| Failure::failed(format!("synthetic members: {e}")))?;
    let starts = monitoring::starts(job, &group)
        .map_err(|e| Failure::failed(format!("synthetic starts: {e}")))?;
    let mut done = done(&spec, &result)?;
    let beside = monitoring.into_iter().chain(group).chain(starts);
    for (name, table) in beside.chain(several) {
        done.outputs.push(Output::table(name, &table)?);
    }
    Ok(done)
}

/// Returns what identifies the simulated launch of a canonical `simulate`.
pub(crate) fn launch(simulation: &Json) -> Option<Json> {
    let simulation = Simulation::deserialize(simulation).ok()?;
    let SimulationChoice::Inline(server) = &simulation.server else {
        return None;
    };
    Some(simulation.launch(server))
}

fn draw(settings: Settings, simulation: &Simulation, job: &Job<'_>) -> Result<Done, Failure> {
    let (spec, result) = drawn(settings, simulation, job)?;
    done(&spec, &result)
}

fn drawn(
    settings: Settings,
    simulation: &Simulation,
    job: &Job<'_>,
) -> Result<(LoadSpec, LoadResult), Failure> {
    let SimulationChoice::Inline(server) = &simulation.server else {
        return Err(Failure::failed("the simulated server is still a name"));
    };
    let api = settings.api;
    let spec =
        LoadSpec::new(settings, Origin::of(job)).map_err(|e| Failure::failed(e.to_string()))?;
    let noise = Origin::of_noise(job);
    let result = simulate(&spec, simulation, server, api, &noise, job.control)?;
    Ok((spec, result))
}

fn done(spec: &LoadSpec, result: &LoadResult) -> Result<Done, Failure> {
    let tables = tables(spec, result).map_err(|e| Failure::failed(e.to_string()))?;
    let outputs: Vec<Output> = tables
        .iter()
        .map(|(name, table)| Output::table(*name, table))
        .collect::<Result<_, _>>()?;
    match failure(spec, result) {
        Some(failure) => Err(outputs.into_iter().fold(failure, Failure::evidence)),
        None => Ok(Done {
            outputs,
            ..Done::default()
        }),
    }
}

/// Returns why a cell is not ok. Its rows are the evidence.
fn failure(spec: &LoadSpec, result: &LoadResult) -> Option<Failure> {
    if result.ending == Ending::Hung {
        let silence = format!(
            "no byte arrived on any stream for {} while requests were in flight",
            spec.heartbeat
        );
        return Some(Failure::new(CellStatus::Hung, silence));
    }
    if result
        .requests
        .iter()
        .any(|r| r.status == RequestStatus::Ok)
    {
        return None;
    }
    let first = result
        .requests
        .iter()
        .find_map(|r| r.error.clone())
        .unwrap_or_default();
    Some(Failure::failed(format!(
        "no request was answered; the first error: {first}"
    )))
}
