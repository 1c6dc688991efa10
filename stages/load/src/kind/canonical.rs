//! The canonical settings of a load: everything that planning can fix or check, without any cell.

use apis::Delivery;
use contract::Api;
use pipeline::stage::{Json, Library, Problem};

use super::missing;
use super::planned::{count_requests, find_workload, idle_clients, no_tokens_there, pin_trace};
use crate::arrival::Arrival;
use crate::extent;
use crate::headers::header_problem;
use crate::prompts::{Demand, NoSupply, check_supply};
use crate::search::Search;
use crate::settings::{Settings, WorkloadChoice};
use crate::simulate::{self, Simulation};
use crate::suits;
use crate::workload::{PromptSource, Workload};

/// Returns the canonical form of the settings.
///
/// # Errors
/// Every problem found.
pub(super) fn canonical(given: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
    let mut settings: Settings = serde_json::from_value(given.clone())
        .map_err(|e| vec![Problem::at(&[], format!("settings cannot be read: {e}"))])?;
    if let Some(import) = settings.import {
        return import::canonical(import, given, library);
    }
    let mut problems = Vec::new();
    let Some(arrival) = &mut settings.arrival else {
        return Err(vec![missing("arrival")]);
    };
    let Some(workload) = &settings.workload else {
        return Err(vec![missing("workload")]);
    };
    let workload = find_workload(workload, library);
    let of_a_file = workload
        .as_ref()
        .is_ok_and(|workload| workload.prompts.is_written());
    let is_counted = settings.requests.or(settings.sessions).is_some();
    // A duration would drop requests that wait for a place, and more draws could need more prompts than a file has.
    let is_counted = is_counted || of_a_file || settings.max_in_flight.is_some();
    settings.duration = settings.duration.or(arrival.lasts(is_counted));
    if let Some((keys, message, hint)) = arrival.problem() {
        let keys = [&["arrival"], keys.as_slice()].concat();
        problems.push(Problem::at(&keys, message).hint(hint));
    }
    let recorded = pin_trace(arrival, library).unwrap_or_else(|(message, hint)| {
        let problem = Problem::at(&["arrival", "trace", "file"], message);
        problems.push(Problem { hint, ..problem });
        None
    });
    // An invalid workload gets no further messages.
    let sessions = workload.as_ref().ok();
    let sessions = sessions.map(|workload| workload.sessions.is_some());
    let (history, in_sessions) = (sessions == Some(true), sessions != Some(false));
    let arrival = arrival.clone();
    let limits = extent::problems(&settings, &arrival).into_iter();
    problems.extend(limits.map(|(key, message, hint)| Problem::at(&[key], message).hint(hint)));
    count_requests(
        &arrival,
        &mut settings,
        recorded,
        in_sessions,
        &mut problems,
    );
    let exhausted = recorded
        .zip(settings.requests)
        .is_some_and(|(rows, needed)| rows < needed);
    let exhausted = exhausted.then(|| arrival.trace()).flatten();
    problems.extend(idle_clients(&arrival, &settings));
    // One is what there is without the setting.
    settings.generators = settings.generators.filter(|choice| !choice.is_default());
    if let Some(choice) = &mut settings.generators {
        problems.extend(choice.pin(library));
    }
    match workload {
        Ok(workload) => {
            let (settings, trace) = (&mut settings, exhausted.as_deref());
            problems.extend(workload_problems(
                &workload, settings, trace, given, library,
            ));
            settings.workload = Some(WorkloadChoice::Inline(Box::new(workload)));
        }
        Err(more) => problems.extend(more),
    }
    problems.extend(settings.headers.iter().filter_map(|(name, value)| {
        let (message, hint) = header_problem(name, value)?;
        Some(Problem::at(&["headers", name.as_str()], message).hint(hint))
    }));
    if let Some((key, message, hint)) = settings.telemetry.problem() {
        problems.push(Problem::at(&["telemetry", key], message).hint(hint));
    }
    problems.extend(settings.timeouts.problems());
    let is_simulated = settings.simulate.is_some();
    if let Some(simulation) = &mut settings.simulate {
        let workload = settings.workload.as_ref();
        problems.extend(simulation_problems(simulation, workload, history, library));
    }
    if let Some(search) = &settings.search {
        problems.extend(search_problems(
            search,
            (&arrival, settings.delivery),
            is_simulated,
            history,
        ));
    }
    if problems.is_empty() {
        Ok(serde_json::to_value(&settings).expect("settings always serialize"))
    } else {
        Err(problems)
    }
}

/// Checks that the API can carry a workload, and that its files have enough prompts. An API that generates nothing
/// answers as a whole. `exhausted` is the digest of a trace that is already reported as too short.
fn workload_problems(
    workload: &Workload,
    settings: &mut Settings,
    exhausted: Option<&str>,
    given: &Json,
    library: &dyn Library,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(no_tokens_there(workload, settings.api));
    if let Some(api) = settings.api {
        let streamed = given["delivery"] == "streamed";
        problems.extend(suits::problems(api, workload, streamed));
        if !api.generates() {
            settings.delivery = Delivery::Whole;
        }
    } else if settings.simulate.is_some() {
        let simulated = Api::OpenaiCompletions;
        problems.extend(suits::problems(simulated, workload, false));
    }
    // The number of prompts that the probes of a search take is not known yet.
    let is_known = settings.search.is_none();
    let demand = Demand {
        requests: settings.requests.filter(|_| is_known),
        sessions: settings.sessions.filter(|_| is_known),
        warmup: if is_known { settings.warmup } else { 0 },
    };
    // Arrivals and prompts may come from one trace.
    let reported = match &workload.prompts {
        PromptSource::Trace(trace) => exhausted.is_some() && trace.digest.as_deref() == exhausted,
        _ => false,
    };
    let lacks = check_supply(workload, demand, library).into_iter();
    let lacks = lacks.filter(|lack| !(reported && matches!(lack, NoSupply::Short { .. })));
    problems.extend(lacks.map(|lack| unsupplied(lack, given)));
    problems
}

/// Returns the problem with the files of a workload, at the setting that should change.
fn unsupplied(lack: NoSupply, given: &Json) -> Problem {
    match lack {
        NoSupply::Unusable {
            route,
            message,
            hint,
        } => {
            let route: Vec<&str> = route.iter().map(String::as_str).collect();
            let problem = match given["workload"].as_str() {
                Some(name) => Problem::at(&route, message).in_definition("workloads", name),
                None => Problem::at(&[&["workload"], route.as_slice()].concat(), message),
            };
            problem.hint(hint)
        }
        NoSupply::Short {
            message,
            most,
            repeat,
        } => {
            let counts = ["requests", "requests-per-client", "sessions"];
            let key = counts.into_iter().find(|key| !given[*key].is_null());
            let fewer = match key {
                Some("requests-per-client") => Some("lower `requests-per-client`".to_owned()),
                Some(key) if most > 0 => Some(format!("write `{key}: {most}` or less")),
                None if most > 0 => Some(format!("add `requests: {most}`")),
                _ => None,
            };
            let remedies: Vec<String> = fewer.into_iter().chain(repeat).collect();
            let problem = Problem::at(&[key.unwrap_or("workload")], message);
            match remedies.is_empty() {
                true => problem.hint("name a longer file"),
                false => problem.hint(remedies.join(", or ")),
            }
        }
    }
}

/// Finds the simulated server, and checks that it can serve the workload.
fn simulation_problems(
    simulation: &mut Simulation,
    workload: Option<&WorkloadChoice>,
    history: bool,
    library: &dyn Library,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(simulate::find_server(simulation, library));
    let images = matches!(workload, Some(WorkloadChoice::Inline(w)) if suits::has_images(w));
    if images && simulation.knows_no_images() {
        let message = "the simulated server does not say what an image costs";
        let hint =
            "add `tokens-per-image: 576` to its definition, or remove `images` from the workload";
        problems.push(Problem::at(&["simulate", "server"], message).hint(hint));
    }
    if history {
        let message = "a simulated server cannot hold conversations";
        let hint = "use a workload without `sessions`, or measure a real server";
        problems.push(Problem::at(&["simulate"], message).hint(hint));
    }
    problems
}

/// Checks that a search fits the arrivals, the server and the workload.
fn search_problems(
    search: &Search,
    (arrival, delivery): (&Arrival, Delivery),
    is_simulated: bool,
    history: bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some((key, message, hint)) = search.problem(arrival, delivery) {
        problems.push(Problem::at(&["search", key], message).hint(hint));
    }
    if is_simulated {
        let message = "a search needs a real server, not a simulated one";
        problems.push(Problem::at(&["search"], message).hint("remove `simulate` or `search`"));
    }
    if history {
        let message = "a search counts single requests, but the workload has sessions";
        problems.push(Problem::at(&["search"], message).hint("use a workload without `sessions`"));
    }
    problems
}
