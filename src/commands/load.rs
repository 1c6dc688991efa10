//! `load`: one run against a server at a URL, without an experiment.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use load::{
    Api, ApiKey, Beside, Count, Ending, LoadSpec, ModelsError, Origin, OutputMode, Phase, Range,
    RequestStatus, Settings, Slo, Summarizer, Target, Telemetry, WorkloadChoice, list_models,
    run_load_into,
};
use pipeline::language::{Disk, Options, load_text};
use pipeline::stage::{Control, Coordinates};
use serde_json::{Value, json};

use super::load_compat::{compat, compat_json, compat_table};
use super::load_search::search;
use super::load_table::{json_of, table_of};
use super::run::listen_for_signals;
use crate::args::{Global, LoadArgs};
use crate::exit::Stop;
use crate::progress::{Pace, logged};
use crate::registry::registry;
use crate::session::user_folders;
use crate::terminal::{complain, is_watched, say};

pub(super) fn load(arguments: &LoadArgs, global: &Global) -> Result<(), Stop> {
    let settings = checked_settings(arguments)?;
    // Without a folder nothing would be left of the samples.
    let wanted = arguments.out.is_some() || arguments.hung_below.is_some();
    let telemetry = if wanted {
        settings.telemetry.clone()
    } else {
        Telemetry::none()
    };
    let server = Server {
        url: &arguments.url,
        ca_file: arguments.ca_file.as_deref(),
        model: arguments.model.as_deref(),
        api: &arguments.api,
        api_key_env: arguments.api_key_env.as_deref(),
        // Without a folder nothing would be left of them.
        metrics: arguments.out.is_some().then_some(&arguments.metrics),
        headers: &arguments.headers,
    };
    let target = server.target()?;
    let origin = Origin {
        seed: arguments.seed,
        replicate: Coordinates::default(),
    };
    let private;
    let folder = match &arguments.out {
        Some(folder) => {
            make_folder(folder)?;
            folder.as_path()
        }
        None => {
            private = tempfile::tempdir()
                .map_err(|e| Stop::machine(format!("no folder for the rows: {e}")))?;
            private.path()
        }
    };
    if settings.search.is_some() {
        return search(
            arguments, global, folder, &settings, &origin, &target, telemetry,
        );
    }
    let spec = LoadSpec::for_target(settings, origin, &target, folder).map_err(Stop::usage)?;
    let beside = Beside {
        server_pid: arguments.server_pid.map(i64::from),
        slots: arguments.slots.clone(),
        server_info: arguments.server_info.clone(),
        ..Beside::new(telemetry)
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let quiet = arguments.quiet || global.json;
    let planned = spec.prompts.count(Phase::Measured);
    let bar = bar(planned as u64, quiet);
    let logs = !quiet && !is_watched();
    if logs {
        complain(&logged(&format!(
            "{planned} requests to {} …",
            target.base_url
        )));
    }
    let (shown, pace) = (bar.clone(), Mutex::new(Pace::from(Instant::now())));
    let tell = move |progress: pipeline::stage::Progress| {
        shown.set_position(progress.done);
        if logs && pace.lock().expect("no listener panics").due(Instant::now()) {
            complain(&logged(&format!("{} of {planned} requests", progress.done)));
        }
    };
    let control = Control::new(cancelled, None, Box::new(tell));
    let slo = slo(arguments);
    let mut summarizer = Summarizer::new(slo, folder);
    let mut without_text = 0_u64;
    let result = run_load_into(
        &spec,
        &target,
        &beside,
        folder,
        &control,
        &mut |row, chunks| {
            let counts = row.phase == Phase::Measured && row.status == RequestStatus::Ok;
            without_text += u64::from(counts && chunks.is_empty() && !arguments.no_stream);
            summarizer.add(row, chunks)
        },
    );
    bar.finish_and_clear();
    let result = result.map_err(|e| Stop::failed(e).hint("check --url"))?;
    result
        .warnings
        .iter()
        .for_each(|warning| complain(&format!("warning: {warning}")));
    if without_text > 0 {
        complain(&format!(
            "warning: {without_text} requests were answered completely, but without any text: they count as \
             successful and have no latencies; look at what the server sends"
        ));
    }
    let summary = summarizer
        .finish()
        .map_err(|e| Stop::machine(format!("the rows cannot be read again: {e}")))?;
    let compat = compat(arguments, &result, &slo)?;
    if global.json {
        let mut document = json_of(arguments.seed, &target, &spec, &result, &summary, &slo);
        if let Some((tool, figures)) = &compat {
            document["compat"] = compat_json(*tool, figures);
        }
        say(&document.to_string());
    } else {
        say(&table_of(
            arguments.seed,
            &target,
            &spec,
            &result,
            &summary,
            &slo,
        ));
        if let Some((tool, figures)) = &compat {
            say(&format!("\n{}", compat_table(*tool, figures)));
        }
    }
    match &result.ending {
        Ending::Stopped(_, reason) => {
            complain(&format!(
                "{reason}: the result holds what had ended until then"
            ));
            return Err(Stop::interrupted());
        }
        Ending::Hung => {
            let reason = format!(
                "no byte on any stream for {}: the run was ended as hung",
                spec.heartbeat
            );
            return Err(Stop::failed(reason)
                .hint("look at the server's log; --heartbeat sets how long to wait"));
        }
        Ending::Gone => {
            let reason = format!(
                "{} takes no connections any more: the run was ended",
                target.base_url
            );
            return Err(Stop::failed(reason).hint("look whether the server has crashed"));
        }
        Ending::Complete => {}
    }
    if summary
        .statuses
        .get(&RequestStatus::Ok)
        .is_some_and(|n| *n > 0)
    {
        Ok(())
    } else {
        Err(Stop::failed("no request was answered"))
    }
}

/// Returns the settings in full. They go the way of an experiment's: the same checks, the same
/// search for workloads, the same meaning.
fn checked_settings(arguments: &LoadArgs) -> Result<Settings, Stop> {
    let experiment = json!({ "experiment": "load", "seed": arguments.seed, "stages": { "load": settings(arguments) } });
    let options = Options {
        user_folders: user_folders(),
        ..Options::default()
    };
    let file = Path::new("command line");
    let experiment = load_text(&experiment.to_string(), file, &registry(), &options, &Disk)
        .map_err(|diagnostics| {
            // Their places are in a text that the user never wrote.
            let all: Vec<String> = diagnostics.0.iter().map(|d| d.message.clone()).collect();
            let stop = Stop::usage(all.join("\nerror: "));
            match diagnostics.0.iter().find_map(|d| d.hint.clone()) {
                Some(hint) => stop.hint(hint),
                None => stop,
            }
        })?;
    let parameters = experiment
        .stages
        .first()
        .and_then(|stage| stage.parameter_sets.first())
        .cloned();
    let mut settings: Settings = serde_json::from_value(parameters.unwrap_or_default())
        .map_err(|e| Stop::usage(format!("settings: {e}")))?;
    if let (Some((from, to)), Some(WorkloadChoice::Inline(workload))) =
        (arguments.output_tokens, &mut settings.workload)
    {
        workload.output.tokens = if from == to {
            Count::Fixed(from)
        } else {
            Count::Range(Range { from, to })
        };
        workload.output.mode = OutputMode::Exact;
    }
    Ok(settings)
}

fn settings(arguments: &LoadArgs) -> Value {
    let arrival = if let Some(rate) = arguments.rate {
        match arguments.burstiness {
            Some(burstiness) => json!({ "gamma": { "rate": rate, "burstiness": burstiness } }),
            None => json!({ "poisson": { "rate": rate } }),
        }
    } else if let Some(rate) = arguments.constant {
        json!({ "constant": { "rate": rate } })
    } else if !arguments.steps.is_empty() {
        let levels = arguments
            .steps
            .iter()
            .map(|(rate, seconds)| json!({ "rate": rate, "seconds": seconds }));
        json!({ "steps": { "levels": levels.collect::<Vec<_>>() } })
    } else if let Some((from, to, seconds)) = arguments.ramp {
        json!({ "ramp": { "from": from, "to": to, "seconds": seconds } })
    } else if let Some(file) = &arguments.trace {
        json!({ "trace": { "file": file, "speed": arguments.speed } })
    } else if arguments.burst {
        json!("burst")
    } else {
        json!({ "closed-loop": { "clients": arguments.concurrency.unwrap_or(1) } })
    };
    let generated = |prompts: Value| {
        json!({
            "prompts": prompts,
            "output": { "tokens": 64, "mode": "exact" },
            "sampling": { "temperature": 0, "seed": 1 },
        })
    };
    let workload = if let Some((from, to)) = arguments.prompt_tokens {
        let length = json!({ "tokens": { "from": from, "to": to } });
        let mut workload = generated(json!({ "words": { "length": length } }));
        workload["tokenizer"] = match &arguments.tokenizer {
            Some(file) => json!({ "file": file }),
            None => json!({ "server": {} }),
        };
        workload
    } else {
        match (
            arguments.prompt_words,
            &arguments.workload,
            &arguments.trace,
        ) {
            (Some((from, to)), _, _) => {
                generated(json!({ "words": { "length": { "from": from, "to": to } } }))
            }
            (None, Some(name), _) => json!(name),
            (None, None, Some(file)) => generated(json!({ "trace": { "file": file } })),
            (None, None, None) => json!("short-decode"),
        }
    };
    let mut settings = json!({
        "kind": "load",
        "workload": workload,
        "arrival": arrival,
        "warmup": arguments.warmup,
        "delivery": if arguments.no_stream { "whole" } else { "streamed" },
        "timeouts": {
            "connect": arguments.connect_timeout,
            "first-token": arguments.first_token_timeout,
            "inter-token": arguments.inter_token_timeout,
            "total": arguments.timeout,
        },
        "heartbeat": arguments.heartbeat,
        "telemetry": { "interval": arguments.telemetry_interval, "gpu": arguments.gpu },
    });
    if let Some(watts) = arguments.hung_below {
        settings["telemetry"]["hung-below-w"] = json!(watts);
    }
    let told_by_arrivals =
        !arguments.steps.is_empty() || arguments.ramp.is_some() || arguments.trace.is_some();
    let default = if arguments.search.is_some() { 400 } else { 64 };
    if let Some(up_to) = arguments.search {
        let mut bounds = serde_json::Map::new();
        bounds.extend(
            arguments
                .slo
                .iter()
                .map(|(name, ms)| (format!("{name}-ms"), json!(ms))),
        );
        settings["search"] = json!({
            "up-to": up_to, "bounds": bounds,
            "attainment": arguments.attainment, "resolution": arguments.resolution,
            "longest": arguments.longest,
        });
    }
    if let Some(requests) = arguments
        .requests
        .or((!told_by_arrivals).then_some(default))
    {
        settings["requests"] = json!(requests);
    }
    settings
}

/// A server as arguments name it.
pub(super) struct Server<'a> {
    pub(super) url: &'a str,
    pub(super) ca_file: Option<&'a Path>,
    pub(super) model: Option<&'a str>,
    pub(super) api: &'a str,
    pub(super) api_key_env: Option<&'a str>,
    /// The path of its Prometheus metrics, if they are sampled.
    pub(super) metrics: Option<&'a str>,
    /// Headers that every request carries beside its own.
    pub(super) headers: &'a [(String, String)],
}

impl Server<'_> {
    /// Returns where requests go, and makes sure that something is there.
    pub(super) fn target(&self) -> Result<Target, Stop> {
        let api_key = self
            .api_key_env
            .map(ApiKey::from_environment)
            .transpose()
            .map_err(Stop::machine)?;
        let api = Api::from_word(self.api).expect("the parser admits only words of APIs");
        // Users of other tools give the base of the OpenAI API; our paths begin with /v1 themselves.
        let base_url = self.url.trim_end_matches('/');
        if let Some((base, endpoint)) = base_url.split_once("/v1/")
            && endpoint.ends_with("completions")
        {
            return Err(Stop::usage(format!(
                "{base_url}: --url is the server's base, without an endpoint"
            ))
            .hint(format!("--url {base}; --api chooses the endpoint")));
        }
        let base_url = base_url.strip_suffix("/v1").unwrap_or(base_url).to_owned();
        let needs_name = matches!(
            api,
            Api::OpenaiCompletions | Api::OpenaiChat | Api::OllamaGenerate | Api::OllamaChat
        );
        let model = match (
            list_models(&base_url, self.ca_file, api_key.as_ref()),
            self.model,
        ) {
            (Err(ModelsError::Url(message)), _) => {
                return Err(
                    Stop::usage(message).hint("write it as http://HOST:PORT or https://HOST:PORT")
                );
            }
            (Err(ModelsError::Host(message)), _) => {
                return Err(Stop::failed(message).hint("correct the host's name in --url"));
            }
            (Err(ModelsError::Tls(error)), _) => {
                return Err(
                    Stop::failed(format!("{base_url}: TLS: {}", error.reason)).hint(error.remedy)
                );
            }
            (Err(ModelsError::Unreachable(error)), _) => {
                return Err(
                    Stop::failed(format!("{base_url} takes no connection: {error}"))
                        .hint("start the server, or correct host and port in --url"),
                );
            }
            (_, Some(model)) => model.to_owned(),
            (Ok(models), None) => models.into_iter().next().unwrap_or_default(),
            (Err(_), None) if !needs_name => String::new(),
            (Err(error), None) => {
                let hint = match &error {
                    ModelsError::Status(401 | 403, _) if self.api_key_env.is_some() => {
                        "check the key in the environment variable of --api-key-env"
                    }
                    ModelsError::Status(401 | 403, _) => {
                        "name the environment variable that holds the API key with --api-key-env"
                    }
                    ModelsError::Status(300..=399, _) => "give the URL it redirects to",
                    _ => {
                        "is --url the base of an inference server? If so, name the model with --model"
                    }
                };
                return Err(
                    Stop::failed(format!("{base_url} does not tell its models: {error}"))
                        .hint(hint),
                );
            }
        };
        Ok(Target {
            ca_file: self.ca_file.map(Path::to_owned),
            headers: self.headers.to_vec(),
            api_key,
            metrics: self.metrics.map(str::to_owned),
            ..Target::new(base_url, model, api)
        })
    }
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
    }
}

fn bar(requests: u64, quiet: bool) -> ProgressBar {
    if quiet || !is_watched() {
        return ProgressBar::hidden();
    }
    let template = "{bar:30} {pos} of {len} requests  {elapsed} elapsed";
    ProgressBar::new(requests)
        .with_style(ProgressStyle::with_template(template).expect("the template is right"))
}

/// Makes the folder for the tables before anything is measured; earlier rows are not replaced.
fn make_folder(folder: &Path) -> Result<(), Stop> {
    let rows = folder.join("requests.parquet");
    if rows.exists() {
        return Err(Stop::usage(format!("{} is there already", rows.display()))
            .hint("give --out another folder"));
    }
    fs::create_dir_all(folder).map_err(|e| Stop::machine(format!("{}: {e}", folder.display())))
}
