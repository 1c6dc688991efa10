//! The canonical settings of a load: everything that planning can fix or check, without any cell.

use apis::Delivery;
use contract::Api;
use pipeline::stage::{Json, Library, Problem};

use super::missing;
use super::planned::{count_requests, find_workload, idle_clients, no_tokens_there, pin_trace};
use crate::arrival::Arrival;
use crate::extent;
use crate::headers::header_problem;
use crate::prompts::check_pack;
use crate::search::Search;
use crate::settings::{Settings, WorkloadChoice};
use crate::simulate::{self, Simulation};
use crate::suits;
use crate::workload::Workload;

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
    // If the rate falls to zero, the load ends at that time.
    let fades = settings.arrival.as_ref().and_then(Arrival::fades_out);
    settings.duration = settings.duration.or(fades);
    let Some(arrival) = &mut settings.arrival else {
        return Err(vec![missing("arrival")]);
    };
    let Some(workload) = &settings.workload else {
        return Err(vec![missing("workload")]);
    };
    let workload = find_workload(workload, library);
    if let Some((keys, message)) = arrival.problem() {
        problems.push(Problem::at(
            &[&["arrival"], keys.as_slice()].concat(),
            message,
        ));
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
    problems.extend(idle_clients(&arrival, &settings));
    // One is what there is without the setting.
    settings.generators = settings.generators.filter(|choice| !choice.is_default());
    if let Some(choice) = &mut settings.generators {
        problems.extend(choice.pin(library));
    }
    match workload {
        Ok(workload) => {
            problems.extend(workload_problems(&workload, &mut settings, given, library));
            settings.workload = Some(WorkloadChoice::Inline(Box::new(workload)));
        }
        Err(more) => problems.extend(more),
    }
    problems.extend(settings.headers.iter().filter_map(|(name, value)| {
        let (message, hint) = header_problem(name, value)?;
        Some(Problem::at(&["headers", name.as_str()], message).hint(hint))
    }));
    if let Some((key, message)) = settings.telemetry.problem() {
        problems.push(Problem::at(&["telemetry", key], message));
    }
    let is_simulated = settings.simulate.is_some();
    if let Some(simulation) = &mut settings.simulate {
        let workload = settings.workload.as_ref();
        problems.extend(simulation_problems(simulation, workload, history, library));
    }
    if let Some(search) = &settings.search {
        problems.extend(search_problems(search, &arrival, is_simulated, history));
    }
    if problems.is_empty() {
        Ok(serde_json::to_value(&settings).expect("settings always serialize"))
    } else {
        Err(problems)
    }
}

/// Checks that the API can carry a workload, and that its pack has enough prompts. An API that generates nothing
/// answers as a whole.
fn workload_problems(
    workload: &Workload,
    settings: &mut Settings,
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
    // The number of prompts that sessions and the probes of a search take is not known yet.
    let is_known = workload.sessions.is_none() && settings.search.is_none();
    let needed = settings.requests.filter(|_| is_known);
    let needed = needed.map_or(0, |requests| requests.saturating_add(settings.warmup));
    if let Err(e) = check_pack(&workload.prompts, needed, &library.files()) {
        problems.push(Problem::at(&["workload"], e.0));
    }
    problems
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
    arrival: &Arrival,
    is_simulated: bool,
    history: bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some((key, message)) = search.problem(arrival) {
        problems.push(Problem::at(&["search", key], message));
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
