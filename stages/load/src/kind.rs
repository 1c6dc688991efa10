//! The load stage kind: settings to canonical parameters, one cell to tables.

use std::collections::BTreeMap;

use artifacts::Store;
use contract::{CacheReset, LiveServer, RequestStatus};
use net::ApiKey;
use pipeline::sources::NamedFiles;
use pipeline::stage::{
    Adopted, Artifact, CellStatus, Class, Content, Done, Failure, Job, Json, Library, Media,
    Needed, Output, Problem, StageKind, Step,
};
use pipeline::suggest::remedy;
use serde_json::json;

use crate::arrival::Arrival;
use crate::extent;
use crate::figure::figure;
use crate::files::{LoadFiles, Monitoring, run_load_into};
use crate::headers::header_problem;
use crate::prompts::check_pack;
use crate::random::Origin;
use crate::refused::Refusal;
use crate::reset::empty_caches;
use crate::run::{Ending, LoadSpec, Target};
use crate::search;
use crate::settings::{Settings, WorkloadChoice};
use crate::sheet::TableFile;
use crate::simulate;
use crate::suits;
use crate::tally::Tally;
use crate::telemetry::Telemetry;
use crate::worker;
use crate::workload::{self, Tokenizer, Workload, pin};
use apis::Delivery;
use contract::Api;

/// The `load` kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load;

impl StageKind for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn semantic_version(&self) -> u32 {
        7
    }

    fn class(&self) -> Class {
        Class::Measurement
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let given = settings;
        let mut settings: Settings = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], format!("settings cannot be read: {e}"))])?;
        if let Some(import) = settings.import {
            return import::canonical(import, given, library);
        }
        let mut problems = Vec::new();
        // A rate that falls to nothing ends the load where it does.
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
        // Of a workload that is wrong itself nothing more is said.
        let history = workload
            .as_ref()
            .is_ok_and(|workload| workload.sessions.is_some());
        let in_sessions = workload
            .as_ref()
            .map_or(true, |workload| workload.sessions.is_some());
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
        match workload {
            Ok(workload) => {
                problems.extend(no_tokens_there(&workload, settings.api));
                if let Some(api) = settings.api {
                    let streamed = given["delivery"] == "streamed";
                    problems.extend(suits::problems(api, &workload, streamed));
                    if !api.generates() {
                        settings.delivery = Delivery::Whole;
                    }
                } else if settings.simulate.is_some() {
                    let simulated = Api::OpenaiCompletions;
                    problems.extend(suits::problems(simulated, &workload, false));
                }
                // Sessions and the probes of a search take as many as they come to.
                let needed = settings
                    .requests
                    .filter(|_| !history && settings.search.is_none());
                let needed = needed.map_or(0, |requests| requests.saturating_add(settings.warmup));
                if let Err(e) = check_pack(&workload.prompts, needed, &library.files()) {
                    problems.push(Problem::at(&["workload"], e.0));
                }
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
        if let Some(simulation) = &mut settings.simulate {
            problems.extend(simulate::find_server(simulation, library));
            let images = matches!(&settings.workload, Some(WorkloadChoice::Inline(w)) if suits::has_images(w));
            if images && simulation.knows_no_images() {
                let message = "the simulated server does not say what an image costs";
                let hint = "add `tokens-per-image: 576` to its definition, or remove `images` from the workload";
                problems.push(Problem::at(&["simulate", "server"], message).hint(hint));
            }
            if history {
                problems.push(
                    Problem::at(
                        &["simulate"],
                        "a simulated server cannot hold conversations",
                    )
                    .hint("use a workload without `sessions`, or measure a real server"),
                );
            }
        }
        if let Some(search) = &settings.search {
            if let Some((key, message)) = search.problem(&arrival) {
                problems.push(Problem::at(&["search", key], message));
            }
            if settings.simulate.is_some() {
                problems.push(
                    Problem::at(
                        &["search"],
                        "a search needs a real server, not a simulated one",
                    )
                    .hint("remove `simulate` or `search`"),
                );
            }
            if history {
                problems.push(
                    Problem::at(
                        &["search"],
                        "a search counts single requests, but the workload has sessions",
                    )
                    .hint("use a workload without `sessions`"),
                );
            }
        }
        if problems.is_empty() {
            Ok(serde_json::to_value(&settings).expect("settings always serialize"))
        } else {
            Err(problems)
        }
    }

    /// Looks for the API key that the stage itself names; nothing is sent to a simulated server.
    fn ready(&self, parameters: &Json, _files: &NamedFiles) -> Result<(), Problem> {
        let variable = parameters["api-key-env"]
            .as_str()
            .filter(|_| parameters["simulate"].is_null());
        let Some(variable) = variable else {
            return Ok(());
        };
        let missing = |failure: Failure| Problem {
            hint: failure.hint,
            ..Problem::at(&["api-key-env"], failure.reason)
        };
        api_key(variable).map(drop).map_err(missing)
    }

    fn launch(&self, parameters: &Json) -> Option<Json> {
        simulate::launch(parameters.get("simulate")?)
    }

    fn measures_here(&self, parameters: &Json) -> bool {
        parameters["simulate"].is_null() && parameters["import"].is_null()
    }

    fn uses_one(&self, _gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        &[("serve", "loads one server")]
    }

    fn fits(
        &self,
        parameters: &Json,
        needs: &[Needed<'_>],
        _library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        let settings: Settings = match serde_json::from_value(parameters.clone()) {
            Ok(settings) => settings,
            Err(e) => return Err(vec![Problem::at(&[], e.to_string())]),
        };
        if settings.import.is_some() || settings.simulate.is_some() {
            return Ok(());
        }
        let Some(server) = Needed::of_kind(needs, "serve") else {
            let problem = Problem::at(
                &["needs"],
                "a load needs a server, and this stage needs none",
            );
            return Err(vec![problem.hint(
                "add `needs: [STAGE]` with a stage of kind `serve`, or use `simulate:` or \
                 `import:` instead of a server",
            )]);
        };
        let mut problems: Vec<Problem> = crate::prompts::too_long(&settings, server)
            .into_iter()
            .collect();
        if let (None, Some(WorkloadChoice::Inline(workload)), Some(api)) =
            (settings.api, &settings.workload, suits::api_of(server))
        {
            problems.extend(suits::problems(api, workload, false));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    fn adopts(&self, parameters: &Json) -> Option<Adopted> {
        let import = parameters
            .get("import")
            .filter(|import| !import.is_null())?;
        Some(Adopted {
            identity: json!([import["digest"], import["entry"], import["where"]]).to_string(),
            chosen_by: vec![
                vec!["import", "file"],
                vec!["import", "entry"],
                vec!["import", "where"],
            ],
        })
    }

    fn figures(&self) -> &'static [&'static str] {
        &["output_throughput"]
    }

    fn figure(
        &self,
        name: &str,
        outputs: &BTreeMap<String, Artifact>,
        store: &Store,
    ) -> Option<f64> {
        figure(name, outputs, store)
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let settings = settings_of(job)?;
        if let Some(import) = &settings.import {
            return import::run(import, job);
        }
        if let Some(simulation) = settings.simulate.clone() {
            return simulate::run(job, settings, &simulation);
        }
        if let Some((live, model)) = worker::of(job) {
            return worker::run(job, settings, &live, &model);
        }
        let origin = Origin::of(job);
        let Settings {
            api,
            api_key_env,
            telemetry,
            ..
        } = settings.clone();
        let (mut target, monitoring) = target(job, api, api_key_env, telemetry)?;
        target.headers.extend(settings.headers.clone());
        let emptied = empty_caches(&target, &monitoring, job.control)?;
        target.cache_reset = emptied.as_ref().map(|emptied| emptied.how);
        if settings.search.is_some() {
            return search::run(job, &settings, &origin, &target, &monitoring);
        }
        let folder = job.scratch.join("load");
        std::fs::create_dir_all(&folder)
            .map_err(|e| Failure::failed(format!("{}: {e}", folder.display())))?;
        let spec = LoadSpec::for_target(settings, origin, &target, &folder)
            .map_err(|e| Failure::failed(e.to_string()))?;
        let doubt = spec.prompts.context.doubt(job)?;
        let mut files = run_load_into(
            &spec,
            &target,
            &monitoring,
            &folder,
            job.control,
            &mut |_, _| Ok(()),
        )
        .map_err(|e| Failure::failed(e.to_string()))?;
        files.warnings.extend(doubt);
        if let Some((how, why)) = emptied.and_then(|e| Some((e.how, e.doubt?))) {
            let words = match how {
                CacheReset::Failed => "the server's cache could not be emptied before the cell",
                _ => "it is not proven that the server's cache was empty before the cell",
            };
            if how != CacheReset::NoHits {
                files.warnings.push(format!("{words}: {why}"));
            }
            files
                .observations
                .insert("cache_reset".to_owned(), why.into());
        }
        finish(&spec, &target, files)
    }

    /// Makes up a few rows with a simulated server; what is to be imported is there to be read.
    fn rehearse(&self, job: &Job<'_>, slowdown: f64) -> Result<Done, Failure> {
        let settings = settings_of(job)?;
        match &settings.import {
            Some(import) => import::run(import, job),
            None => simulate::rehearse(settings, job, slowdown),
        }
    }
}

/// Reads the settings of a job, with the files that they name.
fn settings_of(job: &Job<'_>) -> Result<Settings, Failure> {
    let mut settings: Settings = serde_json::from_value(job.parameters.clone())
        .map_err(|e| Failure::failed(format!("canonical parameters cannot be read: {e}")))?;
    settings.files = job.files.clone();
    Ok(settings)
}

/// The schema asks for these; a binary that calls [`Load`] itself may still leave them out.
fn missing(key: &str) -> Problem {
    Problem::at(&[], format!("missing key `{key}`")).hint(format!("add `{key}:`"))
}

/// Sets `requests` or `sessions` from whichever count is given; `recorded` is what a trace of
/// arrivals holds.
fn count_requests(
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
    // What an arrival process has room for are arrivals: of sessions, if there are any.
    let within = |duration| extent::enough_for(arrival, duration);
    let room = recorded.or_else(|| settings.duration.map_or_else(|| arrival.room(), within));
    match (given.as_slice(), room) {
        ([], Some(room)) if in_sessions => settings.sessions = Some(room),
        ([], Some(room)) => settings.requests = Some(room),
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
            problems.push(Problem::at(
                &[key],
                format!("at least one {what} must be measured"),
            ));
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
    for (key, count) in [
        ("requests", settings.requests),
        ("sessions", settings.sessions),
    ] {
        if count.is_some_and(|n| n > u64::from(u32::MAX)) {
            problems.push(Problem::at(
                &[key],
                format!("more than 4,294,967,295 {key} in one cell"),
            ));
        }
    }
}

/// Finds a mistake that is known before any server runs: an API without a tokenize endpoint.
fn no_tokens_there(workload: &Workload, api: Option<Api>) -> Option<Problem> {
    let api = api.filter(|api| matches!(api, Api::OllamaGenerate | Api::OllamaChat))?;
    matches!(workload.tokenizer, Some(Tokenizer::Server(_))).then(|| {
        Problem::at(
            &["workload"],
            format!("a server that speaks {} does not count tokens", api.word()),
        )
        .hint("give the workload a `tokenizer: {file: tokenizer.json}`")
    })
}

fn find_workload(choice: &WorkloadChoice, library: &dyn Library) -> Result<Workload, Vec<Problem>> {
    let (mut workload, inline) = match choice {
        WorkloadChoice::Inline(workload) => ((**workload).clone(), true),
        WorkloadChoice::Name(name) => {
            let Some(found) = library.find("workloads", name) else {
                let known = library.names("workloads");
                let hint = remedy(name, "workloads", known.iter().map(String::as_str));
                let message = format!("no workload is named `{name}`");
                return Err(vec![Problem::at(&["workload"], message).hint(hint)]);
            };
            let workload = serde_json::from_value(found).map_err(|e| {
                vec![Problem::at(
                    &["workload"],
                    format!("workload `{name}` cannot be read: {e}"),
                )]
            })?;
            (workload, false)
        }
    };
    let mut problems: Vec<Problem> = workload
        .problems()
        .into_iter()
        .map(|(keys, message)| {
            if inline {
                let keys = std::iter::once("workload".to_owned()).chain(keys);
                Problem {
                    route: keys.map(Step::Key).collect(),
                    ..Problem::at(&[], message)
                }
            } else {
                Problem::at(&["workload"], format!("{}: {message}", keys.join(".")))
            }
        })
        .collect();
    workload.description = None;
    if let Err(e) = pin(&mut workload, library) {
        problems.push(Problem::at(&["workload"], e.message).hint(e.hint));
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

/// Puts the digest of a trace in the place of its name; returns how many requests it holds.
fn pin_trace(
    arrival: &mut Arrival,
    library: &dyn Library,
) -> Result<Option<u64>, (String, Option<String>)> {
    let Arrival::Trace(replay) = arrival else {
        return Ok(None);
    };
    workload::pin_trace(&mut replay.file, &mut replay.digest, library)
        .map(|rows| Some(rows.len() as u64))
        .map_err(|e| (e.message, Some(e.hint)))
}

/// Takes the API key from an environment variable.
fn api_key(variable: &str) -> Result<ApiKey, Failure> {
    let remedy = || format!("run with `{variable}=… benchtrail run …`");
    ApiKey::from_environment(variable).map_err(|e| Failure::failed(e).hint(remedy()))
}

/// Returns where the running server is reached, and what can be sampled beside the load. API and
/// the variable of its key are the server's own if none are given.
///
/// # Errors
/// If the job has no single live server, or the variable of the key is not set.
pub fn target(
    job: &Job<'_>,
    api: Option<Api>,
    api_key_env: Option<String>,
    telemetry: Telemetry,
) -> Result<(Target, Monitoring), Failure> {
    let serve = job.input_of_kind("serve").ok_or_else(|| {
        Failure::failed("no server to load").hint("let the stage need one of kind `serve`")
    })?;
    let [cell] = serve.cells.as_slice() else {
        return Err(Failure::failed(format!(
            "a cell loads exactly one server, but stage `{}` offers {}",
            serve.stage,
            serve.cells.len()
        ))
        .hint("run the stage over every axis of the server"));
    };
    let live = cell
        .live
        .as_ref()
        .ok_or_else(|| Failure::failed("the server is not alive"))?;
    let live: LiveServer = serde_json::from_value(live.clone())
        .map_err(|e| Failure::failed(format!("the server's information: {e}")))?;
    if live.base_url.is_empty() {
        return Err(Failure::failed("the server's descriptor has no `base_url`"));
    }
    let variable = api_key_env.or(live.api_key_env);
    let api_key = variable.as_deref().map(api_key).transpose()?;
    let api = api.unwrap_or(live.api);
    let path = match api {
        Api::OpenaiCompletions => live.endpoints.completions,
        Api::OpenaiChat => live.endpoints.chat,
        _ => None,
    };
    let monitoring = Monitoring {
        server_pid: live.pid,
        slots: live.endpoints.slots,
        server_info: live.endpoints.server_info,
        log_events: live.log_events.into_iter().collect(),
        reset_cache: live.endpoints.reset_cache,
        counters: live.counters,
        exporters: live.exporters,
        members: live.members,
        elsewhere: live.elsewhere,
        ..Monitoring::new(telemetry)
    };
    let target = Target {
        base_url: live.base_url,
        ca_file: live.ca_file,
        path,
        model: live.model,
        api,
        headers: Vec::new(),
        api_key,
        metrics: live.endpoints.metrics,
        log: live.log_path,
        absent_cached_is_zero: live.absent_cached_is_zero,
        cache_reset: None,
    };
    Ok((target, monitoring))
}

/// Turns a run into outputs, or into a failure with the same outputs as evidence.
fn finish(spec: &LoadSpec, target: &Target, files: LoadFiles) -> Result<Done, Failure> {
    let failure = match &files.ending {
        Ending::Stopped(status, reason) => Some(Failure::new(*status, reason.clone())),
        Ending::Hung => {
            let silence = format!(
                "no byte arrived on any stream for {} while requests were in flight",
                spec.heartbeat
            );
            Some(Failure::new(CellStatus::Hung, silence))
        }
        Ending::Gone => Some(Failure::failed(format!(
            "the server at {} no longer accepts connections",
            target.base_url
        ))),
        Ending::Refused(refusal) => Some(refused(target, refusal)),
        Ending::Complete => nothing_answered(&files.tally),
    };
    let mut outputs: Vec<Output> = files.tables.into_iter().map(output).collect();
    if let Some(log) = files.engine_log {
        outputs.push(Output::text("engine_log", Media::Text, log));
    }
    if let Some(failure) = failure {
        return Err(Failure {
            evidence: outputs,
            ..failure.observed(files.observations, files.warnings)
        });
    }
    Ok(Done {
        outputs,
        warnings: files.warnings,
        observations: files.observations,
        lease: None,
    })
}

pub(crate) fn output(table: TableFile) -> Output {
    let (name, rows) = (table.name.to_owned(), Some(table.rows));
    Output {
        name,
        media: Media::Parquet,
        content: Content::File(table.path),
        rows,
    }
}

/// What a server that refuses every request makes of a cell.
pub(crate) fn refused(target: &Target, refusal: &Refusal) -> Failure {
    let reason = format!(
        "{} refuses every request, so no more were sent: {refusal}",
        target.base_url
    );
    Failure::failed(reason).hint(format!(
        "check the model's name, the API ({}) and the key that the server wants",
        target.api.word()
    ))
}

/// Failed requests are data for `verify` to judge; a cell without any answer is not.
fn nothing_answered(tally: &Tally) -> Option<Failure> {
    if tally
        .statuses
        .get(&RequestStatus::Ok)
        .is_some_and(|n| *n > 0)
    {
        return None;
    }
    let counts: Vec<String> = tally
        .statuses
        .iter()
        .map(|(status, n)| format!("{n} {}", status.word()))
        .collect();
    let first = tally.first_error.as_deref().unwrap_or_default();
    Some(Failure::failed(format!(
        "no request was answered ({}); the first error: {first}",
        counts.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::sources::Source;
    use std::cell::RefCell;
    use std::path::Path;

    /// Notes the files that it is told of.
    #[derive(Default)]
    struct Reading(RefCell<Vec<Source>>);

    impl Library for Reading {
        fn find(&self, collection: &str, name: &str) -> Option<Json> {
            Shelf.find(collection, name)
        }

        fn names(&self, collection: &str) -> Vec<String> {
            Shelf.names(collection)
        }

        fn reads(&self, source: &Source) {
            self.0.borrow_mut().push(source.clone());
        }

        fn files(&self) -> NamedFiles {
            NamedFiles::new(self.0.borrow().clone(), Path::new(""), None)
        }
    }

    struct Shelf;

    impl Library for Shelf {
        fn find(&self, collection: &str, name: &str) -> Option<Json> {
            let short = json!({"description": "d", "prompts": {"words": {"length": 5}}, "output": {"tokens": 4}});
            let pair = json!({"slots": 2, "prefill": {}, "decode": {"fixed": "10 ms"}});
            match (collection, name) {
                ("workloads", "short") => Some(short),
                ("simulated-servers", "pair") => Some(pair),
                _ => None,
            }
        }

        fn names(&self, _: &str) -> Vec<String> {
            vec!["short".to_owned()]
        }
    }

    fn settings(change: &Json) -> Json {
        let mut settings =
            json!({"workload": "short", "arrival": {"closed-loop": {"clients": 4}}, "requests": 8});
        for (key, value) in change.as_object().unwrap() {
            if value.is_null() {
                settings.as_object_mut().unwrap().remove(key);
            } else {
                settings[key] = value.clone();
            }
        }
        settings
    }

    #[test]
    fn a_workload_by_name_and_written_out_have_the_same_parameters() {
        let inline = Shelf.find("workloads", "short").unwrap();
        let by_name = Load.canonical(&settings(&json!({})), &Shelf).unwrap();
        assert_eq!(
            by_name,
            Load.canonical(&settings(&json!({"workload": inline})), &Shelf)
                .unwrap()
        );
        assert!(by_name["workload"].get("description").is_none());
    }

    #[test]
    fn canonical_parameters_are_their_own_canonical_form() {
        let once = Load
            .canonical(&settings(&json!({"heartbeat": "120 s"})), &Shelf)
            .unwrap();
        assert_eq!(once["heartbeat"], "2 min");
        assert_eq!(Load.canonical(&once, &Shelf).unwrap(), once);
    }

    #[test]
    fn a_pack_that_is_too_small_or_cannot_be_read_is_told_while_planning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pack.jsonl");
        let told = |text: &str, requests: u64| {
            std::fs::write(&file, text).unwrap();
            let workload = json!({"prompts": {"pack": {"file": file}}, "output": {"tokens": 4}});
            let change = json!({"workload": workload, "requests": requests, "warmup": 1});
            let problems = Load
                .canonical(&settings(&change), &Reading::default())
                .err()
                .unwrap_or_default();
            problems
                .into_iter()
                .map(|p| p.message)
                .collect::<Vec<_>>()
                .join("; ")
        };
        let two = "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n";
        assert_eq!(told(two, 1), "");
        assert!(
            told(two, 2).contains("holds 2 prompts, but the cell needs 3"),
            "{}",
            told(two, 2)
        );
        assert!(
            told("{\"prompt\": \"a\"}\nnot json\n", 1).contains("line 2: column 2 is not JSON")
        );
        assert!(told("\n", 1).contains("holds no prompts"));
    }

    #[test]
    fn a_key_that_is_not_set_is_missed_unless_the_server_is_simulated() {
        let mut parameters = json!({"api-key-env": "BENCHTRAIL_NO_SUCH_KEY"});
        let problem = Load.ready(&parameters, &NamedFiles::default()).unwrap_err();
        assert_eq!(problem.route, [Step::Key("api-key-env".to_owned())]);
        assert!(problem.message.contains("`BENCHTRAIL_NO_SUCH_KEY`") && problem.hint.is_some());
        parameters["simulate"] = json!({});
        assert_eq!(Load.ready(&parameters, &NamedFiles::default()), Ok(()));
    }

    #[test]
    fn requests_per_client_are_requests() {
        let change = json!({"requests": null, "requests-per-client": 2});
        let each = Load.canonical(&settings(&change), &Shelf).unwrap();
        assert_eq!(each, Load.canonical(&settings(&json!({})), &Shelf).unwrap());
    }

    #[test]
    fn every_mistake_is_found_at_once_with_its_place() {
        let change =
            json!({"workload": "shrt", "arrival": {"poisson": {"rate": 0.0}}, "requests": null});
        let problems = Load.canonical(&settings(&change), &Shelf).unwrap_err();
        let found: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
        assert_eq!(
            found,
            [
                "rate must be above 0, got 0",
                "the number of requests to measure is missing",
                "no workload is named `shrt`",
            ]
        );
    }

    #[test]
    fn headers_are_parameters_and_a_secret_among_them_is_refused() {
        let parameters =
            |headers: &Json| Load.canonical(&settings(&json!({ "headers": headers })), &Shelf);
        assert_eq!(
            parameters(&json!({"X-Route": "blue"})).unwrap()["headers"],
            json!({"X-Route": "blue"})
        );
        assert!(parameters(&json!({})).unwrap().get("headers").is_none());
        let problems =
            parameters(&json!({"Authorization": "Bearer 1", "Host": "other"})).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(
            problems[0]
                .hint
                .as_deref()
                .unwrap()
                .contains("environment variable"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_simulated_server_by_name_and_written_out_have_the_same_parameters() {
        let server =
            json!({"description": "d", "slots": 2, "prefill": {}, "decode": {"fixed": "10 ms"}});
        let named = settings(&json!({"simulate": {"server": "pair"}}));
        let written = settings(&json!({"simulate": {"server": server}}));
        let by_name = Load.canonical(&named, &Shelf).unwrap();
        assert_eq!(by_name, Load.canonical(&written, &Shelf).unwrap());
        assert!(by_name["simulate"]["server"].get("description").is_none());
        assert_eq!(Load.canonical(&by_name, &Shelf).unwrap(), by_name);
    }

    #[test]
    fn mistakes_in_a_simulated_server_have_their_places() {
        let unknown = settings(&json!({"simulate": {"server": "piar"}}));
        let problems = Load.canonical(&unknown, &Shelf).unwrap_err();
        assert_eq!(problems[0].message, "no simulated server is named `piar`");
        let wrong =
            json!({"slots": 2, "prefill": {}, "decode": {"fixed": "0 s"}, "tokens-per-word": -1.0});
        let written = settings(&json!({"simulate": {"server": wrong, "slowdown": 0.0}}));
        let problems = Load.canonical(&written, &Shelf).unwrap_err();
        let found: Vec<_> = problems
            .iter()
            .map(|p| (p.route.len(), p.message.as_str()))
            .collect();
        let expected = [
            (2, "slowdown must be above 0, got 0"),
            (3, "tokens-per-word must be above 0, got -1"),
            (4, "a decode step must take time"),
        ];
        assert_eq!(found, expected);
    }

    fn refused(settings: &Json) -> String {
        let problems = Load.canonical(settings, &Shelf).unwrap_err();
        let text = |p: &Problem| format!("{} ({})", p.message, p.hint.clone().unwrap_or_default());
        problems.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn images_of_a_simulated_load_need_a_price_in_tokens() {
        let stage = |server: Json| {
            json!({
                "api": "openai-chat", "arrival": "sequential", "requests": 2, "simulate": {"server": server},
                "workload": {"prompts": {"words": {"length": 5}}, "output": {"tokens": 4},
                             "images": {"count": 1, "width": 8, "height": 8}},
            })
        };
        let mut server = json!({"slots": 1, "prefill": {}, "decode": {"fixed": "1 ms"}});
        let text = refused(&stage(server.clone()));
        assert!(
            text.contains("what an image costs") && text.contains("tokens-per-image"),
            "{text}"
        );
        server["tokens-per-image"] = json!(576);
        assert!(Load.canonical(&stage(server), &Shelf).is_ok());
        let vectors = json!({
            "api": "openai-embeddings", "arrival": "sequential", "requests": 2, "simulate": {"server": "batching"},
            "workload": {"prompts": {"words": {"length": 5}}},
        });
        let refused = Load.canonical(&vectors, &Shelf).err();
        let said = |p: &Problem| p.message.contains("generates");
        assert!(!refused.unwrap_or_default().iter().any(said));
    }

    #[test]
    fn what_does_not_apply_to_an_api_is_refused_while_planning() {
        let words = json!({"words": {"length": 5}});
        let stage = |api: &str, workload: Json| json!({"api": api, "workload": workload, "arrival": "sequential", "requests": 2});
        let image = json!({"count": 1, "width": 8, "height": 8});
        for (settings, part) in [
            (
                stage(
                    "openai-embeddings",
                    json!({"prompts": words, "output": {"tokens": 4}}),
                ),
                "`output` of the workload does not apply",
            ),
            (
                stage("openai-chat", json!({"prompts": words})),
                "the workload has no `output`",
            ),
            (
                stage("rerank", json!({"prompts": words})),
                "nothing to rank",
            ),
            (
                stage(
                    "openai-chat",
                    json!({"prompts": words, "output": {"tokens": 4}, "documents": {"count": 2, "length": 4}}),
                ),
                "only `api: rerank`",
            ),
            (
                stage(
                    "openai-completions",
                    json!({"prompts": words, "output": {"tokens": 4}, "images": image}),
                ),
                "takes no images",
            ),
            (
                stage(
                    "anthropic-messages",
                    json!({"prompts": words, "output": {"tokens": 4, "mode": "exact"}}),
                ),
                "`mode: exact` demands",
            ),
            (
                stage(
                    "anthropic-messages",
                    json!({"prompts": words, "output": {"tokens": 4}, "structured": {"schema": {"type": "object"}}}),
                ),
                "no way to demand a JSON Schema",
            ),
        ] {
            let text = refused(&settings);
            assert!(text.contains(part), "{settings}: {text}");
        }
        let mut streamed = stage("openai-embeddings", json!({"prompts": words}));
        assert_eq!(
            Load.canonical(&streamed, &Shelf).unwrap()["delivery"],
            "whole"
        );
        streamed["delivery"] = json!("streamed");
        assert!(refused(&streamed).contains("not in a stream"));
    }
}
