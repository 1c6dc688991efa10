//! The parts of the load that are fixed at planning: the number of requests, the workload, and the files.

use artifacts::counted;
use contract::Api;
use pipeline::stage::{Library, Problem};
use pipeline::suggest::remedy;

use crate::arrival::Arrival;
use crate::extent;
use crate::settings::{Settings, WorkloadChoice};
use crate::trace::times;
use crate::workload::{self, Tokenizer, Workload, pin};

/// Sets `requests` or `sessions` from the given count. `recorded` is the number of arrivals in a trace.
pub(super) fn count_requests(
    arrival: &Arrival,
    settings: &mut Settings,
    recorded: Option<u64>,
    in_sessions: bool,
    problems: &mut Vec<Problem>,
) {
    let each = settings.requests_per_client.take();
    let counts = [
        ("requests", settings.requests),
        ("requests-per-client", each),
        ("sessions", settings.sessions),
    ];
    let given: Vec<(&str, u64)> = counts
        .into_iter()
        .filter_map(|(key, n)| Some((key, n?)))
        .collect();
    // The number of arrivals that fit: of sessions, if the workload has any.
    let within = |duration| extent::enough_for(arrival, duration);
    let room = recorded.or_else(|| settings.duration.map_or_else(|| arrival.room(), within));
    match (given.as_slice(), room) {
        ([], Some(room)) if in_sessions => settings.sessions = Some(room),
        ([], Some(room)) => settings.requests = Some(room),
        // An unreadable trace was already reported; a readable one gives the count.
        ([], None) if matches!(arrival, Arrival::Trace(_)) => {}
        ([], None) => problems.push(
            Problem::at(&[], "the number of requests to measure is missing")
                .hint("add `requests: 64`"),
        ),
        ([(key, 0)], _) => {
            let what = if *key == "sessions" {
                "session"
            } else {
                "request"
            };
            let problem = Problem::at(&[key], format!("at least one {what} must be measured"));
            problems.push(problem.hint("write at least 1"));
        }
        ([("sessions", _)], _) if !in_sessions => problems.push(
            Problem::at(&["sessions"], "the workload has no sessions")
                .hint("use `requests` instead"),
        ),
        ([("requests-per-client", each)], _) => match arrival.clients() {
            Some(clients) => settings.requests = Some(each.saturating_mul(u64::from(clients))),
            None => problems.push(
                Problem::at(
                    &["requests-per-client"],
                    format!("`{}` arrivals do not have clients", arrival.word()),
                )
                .hint("use `requests` instead"),
            ),
        },
        ([_], _) => {}
        ([(first, _), (second, _), ..], _) => problems.push(
            Problem::at(
                &[second],
                format!("`{first}` and `{second}` both count requests"),
            )
            .hint("keep one of the two"),
        ),
    }
    let counts = [
        ("requests", settings.requests),
        ("sessions", settings.sessions),
    ];
    // A number of requests says little about the number of sessions that arrive.
    let arrive = counts
        .iter()
        .filter(|(key, _)| *key == "sessions" || !in_sessions);
    for (key, count) in arrive.filter_map(|(key, count)| Some((*key, (*count)?))) {
        if let Some(recorded) = recorded.filter(|recorded| *recorded < count) {
            let message =
                format!("the trace of `arrival` holds {recorded} requests, but {count} are needed");
            let problem = Problem::at(&[key], message);
            problems.push(problem.hint(format!(
                "write `{key}: {recorded}` or less, or leave it out"
            )));
        }
    }
    for (key, count) in counts {
        if count.is_some_and(|n| n > u64::from(u32::MAX)) {
            let problem = Problem::at(&[key], format!("more than 4,294,967,295 {key} in one cell"));
            problems.push(problem.hint("measure fewer; `duration: 1 h` limits a load by its time"));
        }
    }
}

/// Finds a closed loop in which some clients never send. Its rows would name more clients than the server ever had. A
/// study may have fewer conversations than users; its cells warn.
pub(super) fn idle_clients(arrival: &Arrival, settings: &Settings) -> Option<Problem> {
    // The probes of a search begin with their own number of requests.
    let clients = arrival.clients().filter(|_| settings.search.is_none())?;
    let requests = settings.requests.filter(|_| settings.sessions.is_none())?;
    if requests == 0 || requests >= u64::from(clients) {
        return None;
    }
    let message = format!(
        "{} {} fewer than the {clients} clients, so {clients} clients never send at once",
        counted(requests, "request"),
        if requests == 1 { "is" } else { "are" }
    );
    Some(Problem::at(&["requests"], message).hint(format!(
        "measure {clients} requests or more; `requests-per-client: 8` follows the number of clients"
    )))
}

/// Finds a mistake that is known before any server runs: an API without a tokenize endpoint.
pub(super) fn no_tokens_there(workload: &Workload, api: Option<Api>) -> Option<Problem> {
    let api = api.filter(|api| matches!(api, Api::OllamaGenerate | Api::OllamaChat))?;
    matches!(workload.tokenizer, Some(Tokenizer::Server(_))).then(|| {
        Problem::at(
            &["workload"],
            format!("a server that speaks {} does not count tokens", api.word()),
        )
        .hint("give the workload a `tokenizer: {file: tokenizer.json}`")
    })
}

/// Returns how a dataset of other tools is written here, if a workload has its name.
fn of_other_tools(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "random" | "synthetic" | "random-ids" => {
            "write the lengths: `workload: {prompts: {words: {length: 200}}, output: {tokens: 128}}`"
        }
        "sharegpt" | "hf" | "custom" | "dataset" | "jsonl" => {
            "name its file: `workload: {prompts: {dataset: {file: FILE}}, output: {tokens: 128}}`"
        }
        _ => return None,
    })
}

/// Returns how the file of prompts is written here that a workload's name is.
fn of_file(name: &str) -> Option<String> {
    let endings = [
        ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet",
    ];
    let lower = name.to_lowercase();
    endings.iter().any(|ending| lower.ends_with(ending)).then(|| {
        format!("for the prompts of a file, write `workload: {{prompts: {{dataset: {{file: {name}}}}}, output: {{tokens: 128}}}}`")
    })
}

pub(super) fn find_workload(
    choice: &WorkloadChoice,
    library: &dyn Library,
) -> Result<Workload, Vec<Problem>> {
    let mut workload = match choice {
        WorkloadChoice::Inline(workload) => (**workload).clone(),
        WorkloadChoice::Name(name) => {
            let Some(definition) = library.find("workloads", name) else {
                let names = library.names("workloads");
                let hint = remedy(name, "workloads", names.iter().map(String::as_str));
                let hint = of_other_tools(name).map_or(hint, str::to_owned);
                let hint = of_file(name).unwrap_or(hint);
                let message = format!("no workload is named `{name}`");
                return Err(vec![Problem::at(&["workload"], message).hint(hint)]);
            };
            serde_json::from_value(definition).map_err(|e| {
                vec![Problem::at(
                    &["workload"],
                    format!("workload `{name}` cannot be read: {e}"),
                )]
            })?
        }
    };
    let mut problems: Vec<Problem> = workload
        .problems()
        .into_iter()
        .map(|(keys, message)| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            match choice {
                WorkloadChoice::Inline(_) => {
                    let keys = [&["workload"], keys.as_slice()].concat();
                    Problem::at(&keys, message)
                }
                WorkloadChoice::Name(name) => {
                    Problem::at(&keys, message).in_definition("workloads", name)
                }
            }
        })
        .collect();
    workload.description = None;
    if let Err((route, e)) = pin(&mut workload, library) {
        let route: Vec<&str> = route.iter().map(String::as_str).collect();
        let problem = match choice {
            WorkloadChoice::Inline(_) => {
                Problem::at(&[&["workload"], route.as_slice()].concat(), e.message)
            }
            WorkloadChoice::Name(name) => {
                Problem::at(&route, e.message).in_definition("workloads", name)
            }
        };
        problems.push(problem.hint(e.hint));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if let WorkloadChoice::Name(name) = choice
        && let Some(other) = library.claim(
            "workloads",
            name,
            &serde_json::to_value(&workload).expect("a workload always serializes"),
        )
    {
        let message = format!("workloads `{other}` and `{name}` differ only in name");
        let hint = "use one name for both, or change one of them".to_owned();
        return Err(vec![Problem::at(&["workload"], message).hint(hint)]);
    }
    Ok(workload)
}

/// Replaces the name of a trace with its digest; returns the number of its requests.
pub(super) fn pin_trace(
    arrival: &mut Arrival,
    library: &dyn Library,
) -> Result<Option<u64>, (String, Option<String>)> {
    let Arrival::Trace(replay) = arrival else {
        return Ok(None);
    };
    let rows = workload::pin_trace(&mut replay.file, &mut replay.digest, library)
        .map_err(|e| (e.message, Some(e.hint)))?;
    match times(&rows) {
        Ok(_) => Ok(Some(rows.len() as u64)),
        Err(message) => Err((
            format!("trace {}: {message}", replay.file),
            Some("correct the trace".to_owned()),
        )),
    }
}
