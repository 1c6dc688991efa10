//! The load stage kind: converts settings to canonical parameters, and one cell to tables.

mod canonical;
mod planned;

use std::collections::BTreeMap;

use artifacts::Store;
use contract::{CacheReset, LiveServer, RequestStatus};
use net::ApiKey;
use pipeline::effect::Effect;
use pipeline::sources::NamedFiles;
use pipeline::stage::{
    Adopted, Artifact, CellStatus, Class, Content, Demand, Done, Failure, Input, Job, Json,
    KnownTable, Library, Media, Needed, Output, Problem, StageKind,
};
use serde_json::json;

use crate::extent;
use crate::figure::figure;
use crate::files::{LoadFiles, Monitoring, run_load_into};
use crate::generators::GeneratorsChoice;
use crate::random::Origin;
use crate::refused::Refusal;
use crate::reset::empty_caches;
use crate::run::{Ending, LoadError, LoadSpec, LoadedServer, Target};
use crate::search;
use crate::settings::{Settings, WorkloadChoice};
use crate::sheet::TableFile;
use crate::simulate;
use crate::suits;
use crate::tally::Tally;
use crate::telemetry::Telemetry;
use crate::worker;
use contract::Api;

/// The `load` kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load;

impl StageKind for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &[
            "benchmark",
            "bench",
            "measure",
            "measurement",
            "client",
            "loadgen",
            "load-test",
            "loadtest",
            "workload",
            "traffic",
        ]
    }

    fn semantic_version(&self) -> u32 {
        15
    }

    /// The model of a server and the rules of a search change more often than the load generator, which measures the
    /// cells of most studies.
    fn semantic_version_of(&self, parameters: &Json) -> u32 {
        match (&parameters["search"], &parameters["simulate"]) {
            (Json::Null, Json::Null) => self.semantic_version(),
            (Json::Null, _) => 13,
            (_, Json::Null) => 17,
            (_, _) => 16,
        }
    }

    fn class(&self) -> Class {
        Class::Measurement
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        canonical::canonical(settings, library)
    }

    fn effects(
        &self,
        parameters: &Json,
        _inputs: &[Input],
        _store: &Store,
        _files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        let choice = parameters.get("generators").cloned();
        let choice: Option<GeneratorsChoice> = choice
            .map(serde_json::from_value)
            .transpose()
            .map_err(|e| Failure::failed(format!("canonical parameters cannot be read: {e}")))?;
        Ok(choice.map_or(Vec::new(), |choice| choice.effects()))
    }

    /// Looks for the API key that the stage names. A simulated server needs none.
    fn ready(&self, parameters: &Json, _files: &NamedFiles) -> Result<(), Problem> {
        let variable = parameters["api-key-env"]
            .as_str()
            .filter(|_| parameters["simulate"].is_null());
        let Some(variable) = variable else {
            return Ok(());
        };
        // A message about a wrong name shows no line of the file, because the line may have the key.
        let place: &[&str] = match ApiKey::is_variable(variable) {
            true => &["api-key-env"],
            false => &[],
        };
        let missing = |failure: Failure| Problem {
            hint: failure.hint,
            ..Problem::at(place, failure.reason)
        };
        api_key(variable).map(drop).map_err(missing)
    }

    fn launch(&self, parameters: &Json) -> Option<Json> {
        simulate::launch(parameters.get("simulate")?)
    }

    fn tables_known(&self, _parameters: &Json, _library: &dyn Library) -> Option<Vec<KnownTable>> {
        let of_loads = |name: &str| contract::LOAD_TABLES.iter().any(|t| t.name == name);
        let tables = contract::tables().map(|table| KnownTable {
            name: table.name.to_owned(),
            // A search adds columns to its table.
            columns: of_loads(table.name)
                .then(|| table.columns.iter().map(|c| c.name.to_owned()).collect()),
            axes: Vec::new(),
        });
        Some(tables.collect())
    }

    fn demand(&self, parameters: &Json) -> Option<Demand> {
        if !self.measures_here(parameters) {
            return None;
        }
        demand(parameters)
    }

    fn requests_planned(&self, parameters: &Json) -> Option<u64> {
        // The probes of a search have their own numbers.
        let searches = !parameters["search"].is_null();
        demand(parameters).filter(|_| !searches)?.requests
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
                "a load needs a server, but this stage does not need one",
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
        let choice = settings.generators.clone();
        let mut spec = LoadSpec::for_target(settings, origin, &target, &folder)
            .map_err(|e| Failure::failed(e.to_string()))?;
        if let Some(choice) = choice {
            spec.generators = choice.reach(job.files, job.control)?;
        }
        let doubt = spec.prompts.context.doubt(job)?;
        let mut files = run_load_into(
            &spec,
            &target,
            &monitoring,
            &folder,
            job.control,
            &mut |_, _| Ok(()),
        )
        .map_err(unkept)?;
        files.warnings.extend(doubt);
        let doubtful = emptied.and_then(|e| Some((e.how, e.is_usual, e.doubt?)));
        if let Some((how, is_usual, why)) = doubtful {
            let words = match how {
                CacheReset::Failed => "the server's cache could not be emptied before the cell",
                _ => "it is not proven that the server's cache was empty before the cell",
            };
            if !is_usual {
                files.warnings.push(format!("{words}: {why}"));
            }
            files
                .observations
                .insert("cache_reset".to_owned(), why.into());
        }
        finish(&spec, &target, files)
    }

    /// Simulates a few rows. An import reads its file instead.
    fn rehearse(&self, job: &Job<'_>, slowdown: f64) -> Result<Done, Failure> {
        let settings = settings_of(job)?;
        match &settings.import {
            Some(import) => import::run(import, job),
            None => simulate::rehearse(settings, job, slowdown),
        }
    }
}

/// Returns the requests of a cell with these canonical parameters and their time, as far as the parameters say.
fn demand(parameters: &Json) -> Option<Demand> {
    let settings: Settings = serde_json::from_value(parameters.clone()).ok()?;
    let arrival = settings.arrival.as_ref()?;
    let limit = settings
        .duration
        .map(|span| span.nanoseconds() as f64 / 1e9);
    if arrival.rate().is_none() {
        // Without a count of its own, a load that ends after a time has room for any number of answers.
        let room = settings
            .duration
            .and_then(|limit| extent::enough_for(arrival, limit));
        return Some(match room.is_some() && room == settings.requests {
            true => Demand {
                requests: None,
                seconds: limit,
            },
            false => Demand {
                requests: settings.requests,
                seconds: None,
            },
        });
    }
    let within = limit.and_then(|limit| arrival.expected_within(limit));
    let within = within.map(|(expected, _)| expected.round() as u64);
    let requests = settings
        .requests
        .map(|n| within.map_or(n, |within| n.min(within)));
    let seconds = requests.and_then(|n| arrival.expected_until(n));
    Some(Demand {
        requests,
        seconds: seconds.map(|seconds| limit.map_or(seconds, |limit| seconds.min(limit))),
    })
}

/// The failure of a load that could not begin, or whose rows could not be kept.
pub(crate) fn unkept(error: LoadError) -> Failure {
    let LoadError {
        message,
        by_machine,
        disk_fault: _,
    } = error;
    let failure = Failure::failed(message);
    match by_machine {
        true => failure.hint(
            "look at the free space, the quota and the limits (`ulimit -a`) on the disk of the store, and run again: \
             what was complete is kept",
        ),
        false => failure,
    }
}

/// Reads the settings of a job, with the files that they name.
fn settings_of(job: &Job<'_>) -> Result<Settings, Failure> {
    let mut settings: Settings = serde_json::from_value(job.parameters.clone())
        .map_err(|e| Failure::failed(format!("canonical parameters cannot be read: {e}")))?;
    settings.files = job.files.clone();
    Ok(settings)
}

/// The schema requires these keys, but a binary that calls [`Load`] directly may leave them out.
fn missing(key: &str) -> Problem {
    Problem::at(&[], format!("missing key `{key}`")).hint(format!("add `{key}:`"))
}

/// Takes the API key from an environment variable.
fn api_key(variable: &str) -> Result<ApiKey, Failure> {
    let run = format!("run with `{variable}=… benchtrail run …`");
    ApiKey::from_environment(variable)
        .map_err(|e| Failure::failed(e).hint(ApiKey::remedy(variable, &run)))
}

/// Returns how to reach the running server, and what can be sampled beside the load. API and key variable default to
/// the server's own.
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
        Failure::failed("no server to load").hint("add a stage of kind `serve` to `needs`")
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
    let api_key = api_key.map(|key| key.sent_in(live.api_key_header));
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
        log_errors: live.log_errors,
        reset_cache: live.endpoints.reset_cache,
        counters: live.counters,
        exporters: live.exporters,
        members: live.members,
        elsewhere: live.elsewhere,
        starts: Some(live.starts),
        ..Monitoring::new(telemetry)
    };
    let loaded = monitoring.members.iter().filter(|member| member.loaded);
    let servers = loaded.map(|member| LoadedServer {
        name: member.name.clone(),
        base_url: member.base_url.clone(),
    });
    let servers: Vec<LoadedServer> = servers.collect();
    let target = Target {
        base_url: live.base_url,
        servers: Vec::new(),
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
    let target = match servers.len() {
        // A study over 1, 2 and 4 replicas reads the server of each request at every level.
        1 => Target { servers, ..target },
        0 => target,
        _ => target.in_turn(servers),
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
        Ending::Gone(server) => Some(Failure::failed(format!(
            "the server {} no longer accepts connections",
            target.name_of(*server)
        ))),
        Ending::Refused(refusal) => Some(refused(target, refusal)),
        Ending::Lost(lost) => Some(Failure::failed(lost.to_string())),
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

/// Returns the failure of a cell whose server refuses every request.
pub(crate) fn refused(target: &Target, refusal: &Refusal) -> Failure {
    let reason = format!(
        "{} refuses every request, so no more were sent: {refusal}",
        target.place()
    );
    let api = target.api.word();
    Failure::failed(reason).hint(match refusal.http_status {
        Some(401 | 403) => {
            "name the variable that holds the server's key in the engine's definition: `launch.api-key-env`".to_owned()
        }
        Some(300..=399) => "give the URL that it redirects to in the engine's definition".to_owned(),
        Some(200..=299) => format!(
            "does the server speak {api}? Correct `api:` in the engine's definition, or write `delivery: whole` for \
             answers in one piece"
        ),
        Some(400 | 413 | 422) => format!(
            "the server's answer says what it refuses; check the lengths of the prompts and answers, and the API ({api})"
        ),
        _ => format!("check the model's name, the API ({api}) and the key that the server expects"),
    })
}

/// Failed requests are data for `verify` to judge, but a cell without any answer is a failure.
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
    // Without an end by the user, only the setting `cancel` cancels the first request of a load.
    let abandoned = tally.statuses.keys().eq([&RequestStatus::Cancelled]);
    let hint = match abandoned {
        true => {
            "the load abandoned every request before its answer: raise `cancel.after`, or lower `cancel.share`"
        }
        false => "look into the server's log, and send it a request by hand",
    };
    Some(
        Failure::failed(format!(
            "no request was answered ({}); the first error: {first}",
            counts.join(", ")
        ))
        .hint(hint),
    )
}

#[cfg(test)]
mod tests;
