//! `load`: one run against a server at a URL, without an experiment.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use contract::{Api, Phase, RequestStatus, Word as _};
use indicatif::{ProgressBar, ProgressStyle};
use load::{
    ApiKey, DirectArrival, DirectLoad, DirectPrompts, DirectSearch, DirectServer, Ending, LoadSpec,
    ModelsError, Monitoring, Origin, Refusal, Settings, Slo, Summarizer, Summary, Target,
    TargetError, Telemetry, dataset_prompts, is_address, list_models, run_load_into,
    target_in_turn,
};
use pipeline::language::{Disk, Options, load_text};
use pipeline::sources::NamedFiles;
use pipeline::stage::{Control, Coordinates};
use pipeline::suggest::remedy;
use serde_json::{Value, json};

use super::load_compat::{compat, compat_json, compat_table};
use super::load_failures::Failures;
use super::load_preflight::try_once;
use super::load_save;
use super::load_search::search;
use super::load_study::LoadStudy;
use super::load_sweep::{self, Sweep};
use super::load_table::{json_of, table_of};
use super::run::listen_for_signals;
use crate::args::{Global, LoadArgs};
use crate::exit::Stop;
use crate::progress::{Pace, logged};
use crate::registry::registry;
use crate::session::user_folders;
use crate::terminal::{complain, is_watched, say};

pub(super) fn load(arguments: &LoadArgs, global: &Global) -> Result<(), Stop> {
    let mut levels = levels(arguments);
    let several = levels.len() > 1;
    check_levels(&levels)?;
    if several && arguments.search.is_some() {
        return Err(Stop::usage("a search finds its levels itself")
            .hint("give one level, where --search begins"));
    }
    let settings = checked_settings(arguments, &levels[0].arrival)?;
    load_save::check(arguments, several)?;
    // Without a folder nothing would be left of the samples.
    let wanted = arguments.out.is_some() || arguments.hung_below.is_some();
    let telemetry = if wanted {
        settings.telemetry.clone()
    } else {
        Telemetry::none()
    };
    let server = Server {
        url: &arguments.servers()[0],
        further: arguments.servers()[1..]
            .iter()
            .map(String::as_str)
            .collect(),
        ca_file: arguments.ca_file.as_deref(),
        model: arguments.model.as_deref(),
        api: &arguments.api,
        api_key_env: arguments.api_key_env.as_deref(),
        // Without a folder nothing would be left of them.
        metrics: arguments.out.is_some().then_some(&arguments.metrics),
        headers: &arguments.headers,
    };
    let mut target = server.target()?;
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
            private = tempfile::tempdir().map_err(|e| {
                Stop::machine(format!("cannot create the folder for the rows: {e}"))
            })?;
            private.path()
        }
    };
    let mut monitoring = Monitoring {
        server_pid: arguments.server_pid.map(i64::from),
        slots: arguments.slots.clone(),
        server_info: arguments.server_info.clone(),
        ..Monitoring::new(telemetry)
    };
    monitoring.apart(&mut target);
    if settings.search.is_some() {
        return search(
            arguments,
            global,
            folder,
            &settings,
            &origin,
            &target,
            &monitoring,
        );
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let one_by_one =
        |level: &Levelled| matches!(level.arrival, DirectArrival::ClosedLoop { clients: 1 });
    if !arguments.no_preflight && !one_by_one(&levels[0]) {
        let like = direct(arguments, &levels[0].arrival)?;
        try_once(&like, &server, &target, &cancelled)?;
    }
    let level = |settings: Settings, arrival: &DirectArrival, folder: &Path| {
        let one = Level {
            arguments,
            global,
            arrival,
            folder,
            several,
        };
        one.measure(settings, &origin, &server, &target, &monitoring, &cancelled)
    };
    if several {
        let sweep = Sweep {
            axis: axis_of(arguments),
            levels: std::mem::take(&mut levels),
        };
        let mut runs = Vec::new();
        for at in &sweep.levels {
            let settings = checked_settings(arguments, &at.arrival)?;
            let own = folder.join(load_sweep::folder_of(at));
            make_folder(&own)?;
            let run = level(settings, &at.arrival, &own)?;
            let stop = run.stop();
            runs.push((at.level, run));
            if stop.is_some() {
                load_sweep::tell(
                    &sweep,
                    &runs,
                    &slo(arguments),
                    arguments.out.as_deref(),
                    global.json,
                )?;
                return stop.map_or(Ok(()), Err);
            }
        }
        return load_sweep::tell(
            &sweep,
            &runs,
            &slo(arguments),
            arguments.out.as_deref(),
            global.json,
        );
    }
    let run = level(settings, &levels[0].arrival, folder)?;
    if global.json {
        say(&run.document.to_string());
    } else {
        say(&run.table);
    }
    run.stop().map_or(Ok(()), Err)
}

/// A level of the load with how its requests arrive.
pub(super) struct Levelled {
    /// Clients, or requests per second; infinite for all at once.
    pub(super) level: f64,
    pub(super) arrival: DirectArrival,
}

/// Returns the levels that the arguments ask for; at least one.
fn levels(arguments: &LoadArgs) -> Vec<Levelled> {
    // All at once, but never more than so many in flight: that is a closed loop, as vLLM means it.
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

fn check_levels(levels: &[Levelled]) -> Result<(), Stop> {
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

fn axis_of(arguments: &LoadArgs) -> &'static str {
    if arguments.rate.is_empty() {
        "clients"
    } else {
        "req/s"
    }
}

/// One level of a run.
struct Level<'a> {
    arguments: &'a LoadArgs,
    global: &'a Global,
    arrival: &'a DirectArrival,
    folder: &'a Path,
    /// Others come before or after it.
    several: bool,
}

/// What a level came to.
pub(super) struct Run {
    pub(super) summary: Summary,
    pub(super) ok: u64,
    pub(super) model: String,
    /// What `--json` prints.
    pub(super) document: Value,
    table: String,
    ending: Ending,
    gone: String,
    heartbeat: String,
    failures: Failures,
}

impl Level<'_> {
    fn measure(
        &self,
        settings: Settings,
        origin: &Origin,
        server: &Server<'_>,
        target: &Target,
        monitoring: &Monitoring,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Run, Stop> {
        let (arguments, global) = (self.arguments, self.global);
        let declared = settings.clone();
        let spec = LoadSpec::for_target(settings, origin.clone(), target, self.folder)
            .map_err(Stop::usage)?;
        let quiet = arguments.quiet || global.json;
        let (control, bar) = self.control(&spec, target, cancelled, quiet);
        let slo = slo(arguments);
        let mut summarizer = Summarizer::new(slo, self.folder);
        let (mut without_text, mut failures) = (0_u64, Failures::default());
        let result = run_load_into(
            &spec,
            target,
            monitoring,
            self.folder,
            &control,
            &mut |row, chunks| {
                let counts = row.phase == Phase::Measured && row.status == RequestStatus::Ok;
                without_text += u64::from(counts && chunks.is_empty() && !arguments.no_stream);
                failures.add(row);
                summarizer.add(row, chunks)
            },
        );
        bar.finish_and_clear();
        let result = result.map_err(|e| Stop::failed(e).hint("check --url"))?;
        if let Ending::Refused(refusal) = &result.ending {
            return Err(server.refusal(target, refusal));
        }
        result
            .warnings
            .iter()
            .for_each(|warning| complain(&format!("warning: {warning}")));
        if without_text > 0 {
            complain(&format!(
                "warning: {without_text} requests were answered completely but without any text; they \
                 count as successful and have no latencies; check what the server sends"
            ));
        }
        let summary = summarizer
            .finish()
            .map_err(|e| Stop::machine(format!("the rows cannot be read again: {e}")))?;
        let compat = compat(arguments, &result, &slo)?;
        load_save::save(arguments, target, &spec, &result, &slo)?;
        let mut document = json_of(arguments.seed, target, &spec, &result, &summary, &slo);
        if arguments.out.is_some() {
            let stage = direct(arguments, self.arrival)?.stage();
            let study = LoadStudy::new(arguments, target, &declared, stage, document.clone());
            study.write(self.folder)?;
        }
        let mut table = table_of(arguments.seed, target, &spec, &result, &summary, &slo);
        if let Some((tool, figures)) = &compat {
            document["compat"] = compat_json(*tool, figures);
            table.push_str(&format!("\n\n{}", compat_table(*tool, figures)));
        }
        let ok = summary.statuses.get(&RequestStatus::Ok).copied();
        Ok(Run {
            ok: ok.unwrap_or(0),
            summary,
            model: target.model.clone(),
            document,
            table,
            gone: match &result.ending {
                Ending::Gone(server) => target.name_of(*server),
                _ => String::new(),
            },
            ending: result.ending,
            heartbeat: spec.heartbeat.to_string(),
            failures,
        })
    }

    /// Returns what stops the level and hears of its progress, and the bar on the terminal.
    fn control(
        &self,
        spec: &LoadSpec,
        target: &Target,
        cancelled: &Arc<AtomicBool>,
        quiet: bool,
    ) -> (Control, ProgressBar) {
        let planned = spec.prompts.count(Phase::Measured);
        let timed = self.arguments.duration.is_some();
        let bar = bar((!timed).then_some(planned as u64), quiet);
        let logs = !quiet && !is_watched();
        if logs || self.several && !quiet {
            let at = match (spec.arrival.clients(), spec.arrival.rate()) {
                _ if !self.several => String::new(),
                (Some(1), _) => " with 1 client".to_owned(),
                (Some(clients), _) => format!(" with {clients} clients"),
                (None, Some(rate)) => format!(" at {rate} req/s"),
                (None, None) => " at once".to_owned(),
            };
            let what = match &self.arguments.duration {
                Some(duration) => format!("requests for {duration}"),
                None => format!("{planned} requests"),
            };
            complain(&logged(&format!(
                "sending {what}{at} to {} …",
                target.place()
            )));
        }
        let (shown, pace) = (bar.clone(), Mutex::new(Pace::from(Instant::now())));
        let tell = move |progress: pipeline::stage::Progress| {
            shown.set_position(progress.done);
            if logs && pace.lock().expect("no listener panics").due(Instant::now()) {
                complain(&logged(&match timed {
                    true => format!("{} requests", progress.done),
                    false => format!("{} of {planned} requests", progress.done),
                }));
            }
        };
        (
            Control::new(Arc::clone(cancelled), None, Box::new(tell)),
            bar,
        )
    }
}

impl Run {
    /// Returns why the command does not end with success, if it does not.
    fn stop(&self) -> Option<Stop> {
        match &self.ending {
            Ending::Stopped(_, reason) => {
                complain(&format!(
                    "{reason}: the result covers the requests that had ended"
                ));
                Some(Stop::interrupted())
            }
            Ending::Hung => {
                let reason = format!(
                    "no byte arrived on any stream for {}; the run was ended as hung",
                    self.heartbeat
                );
                Some(
                    Stop::failed(reason)
                        .hint("check the server's log; --heartbeat sets how long to wait"),
                )
            }
            Ending::Gone(_) => {
                let reason = format!(
                    "{} no longer accepts connections; the run was ended",
                    self.gone
                );
                Some(Stop::failed(reason).hint("check whether the server has crashed"))
            }
            Ending::Complete | Ending::Refused(_) if self.ok > 0 => None,
            Ending::Complete | Ending::Refused(_) => Some(self.failures.none_answered()),
        }
    }
}

/// Returns the settings in full. They go the way of an experiment's: the same checks, the same
/// search for workloads, the same meaning.
fn checked_settings(arguments: &LoadArgs, arrival: &DirectArrival) -> Result<Settings, Stop> {
    settings_of(&direct(arguments, arrival)?, arguments.seed)
}

/// The same of what a run asks for.
pub(super) fn settings_of(direct: &DirectLoad, seed: u64) -> Result<Settings, Stop> {
    let experiment =
        json!({ "experiment": "load", "seed": seed, "stages": { "load": direct.stage() } });
    let options = Options {
        user_folders: user_folders(),
        partial: true,
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
    settings.files = NamedFiles::of(&experiment, None);
    direct.apply_output(&mut settings);
    Ok(settings)
}

/// Returns what the arguments ask for, with these arrivals.
fn direct(arguments: &LoadArgs, arrival: &DirectArrival) -> Result<DirectLoad, Stop> {
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

fn arrival(arguments: &LoadArgs) -> DirectArrival {
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

fn prompts(arguments: &LoadArgs) -> Result<DirectPrompts, Stop> {
    if let Some(file) = &arguments.dataset {
        return dataset_prompts(file)
            .map(DirectPrompts::Dataset)
            .map_err(|e| {
                Stop::usage(e)
                    .hint("name a file of ShareGPT JSON, JSON Lines, CSV or a Mooncake trace")
            });
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

/// A server as arguments name it.
pub(super) struct Server<'a> {
    pub(super) url: &'a str,
    /// Further servers that requests go to in turn with it.
    pub(super) further: Vec<&'a str>,
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
            .map(|variable| {
                ApiKey::from_environment(variable)
                    .map_err(|why| Stop::machine(why).hint(format!("`export {variable}=…`")))
            })
            .transpose()?;
        let server = DirectServer {
            url: self.url,
            ca_file: self.ca_file,
            model: self.model,
            api: Api::parse(self.api).expect("the parser admits only words of APIs"),
            api_key,
            metrics: self.metrics,
            headers: self.headers,
        };
        target_in_turn(&server, &self.further).map_err(|(url, error)| self.explain(&url, &error))
    }

    /// Returns what a server means that refuses every request.
    pub(super) fn refusal(&self, target: &Target, refusal: &Refusal) -> Stop {
        let stop = Stop::failed(format!(
            "{} refuses every request, so no more were sent: {refusal}",
            target.place()
        ));
        let api = target.api.word();
        stop.hint(if matches!(refusal.http_status, Some(401 | 403)) {
            self.key_remedy().to_owned()
        } else if refusal.http_status == Some(404) {
            let listed = list_models(&target.base_url, self.ca_file, target.api_key.as_ref());
            match listed {
                Ok(models) if !models.contains(&target.model) => {
                    let names = remedy(&target.model, "models", models.iter().map(String::as_str));
                    format!("the server does not list the model `{}`; {names}", target.model)
                }
                _ => format!(
                    "the server may not speak {api}; --api chooses another one, and --model another model"
                ),
            }
        } else {
            format!("does the server speak {api}? use --api for another API, or --no-stream for \
                whole answers")
        })
    }

    fn key_remedy(&self) -> &'static str {
        match self.api_key_env {
            Some(_) => "check the key in the environment variable of --api-key-env",
            None => "use --api-key-env to name the environment variable that holds the API key",
        }
    }

    /// Adds what to do.
    fn explain(&self, url: &str, error: &TargetError) -> Stop {
        match error {
            TargetError::Url(_) if is_experiment(url) => Stop::usage(format!(
                "{url} is an experiment, and `load` loads a server at a URL"
            ))
            .hint(format!("benchtrail run {url}")),
            TargetError::Url(_) if url.contains('@') => Stop::usage(error).hint(
                "leave out the name and the password; `--api-key-env VARIABLE` or `--header` sends what the server asks \
                 for",
            ),
            TargetError::Url(_) if url.contains(['?', '#']) => {
                let base = url.split(['?', '#']).next().unwrap_or_default();
                Stop::usage(error).hint(format!("give the server's base URL: {base}"))
            }
            TargetError::Url(_) if !url.contains("://") && is_address(&format!("http://{url}")) => {
                Stop::usage(error).hint(format!("write http://{url}"))
            }
            TargetError::Url(_) => {
                Stop::usage(error).hint("write it as http://HOST:PORT or https://HOST:PORT")
            }
            TargetError::Endpoint { base, .. } => {
                Stop::usage(error).hint(format!("give {base}; `--api` chooses the endpoint"))
            }
            TargetError::Host(_) => Stop::failed(error).hint("correct the host's name in the URL"),
            TargetError::Tls(_, tls) => Stop::failed(error).hint(&tls.remedy),
            TargetError::Unreachable(..) => {
                Stop::failed(error).hint("start the server, or correct the host and port in the URL")
            }
            TargetError::OtherModels { .. } => Stop::usage(error).hint(
                "load servers of one model; --model names one that all of them list",
            ),
            TargetError::Twice(_) => Stop::usage(error).hint("give each server once"),
            TargetError::Schemes(..) => {
                Stop::usage(error).hint("give all of them as http:// or all as https://")
            }
            TargetError::NoModel(_, why) => Stop::failed(error).hint(match why {
                ModelsError::Status(401 | 403, _) => self.key_remedy(),
                ModelsError::Status(300..=399, _) => "use the URL that it redirects to",
                ModelsError::Status(429 | 502..=504, _) => {
                    "wait until the server is ready and not overloaded, or name the model with --model"
                }
                _ => "is the URL the base of an inference server? If so, name the model with --model",
            }),
        }
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

/// Returns a bar over so many requests; over none where time ends the run.
fn bar(requests: Option<u64>, quiet: bool) -> ProgressBar {
    if quiet || !is_watched() {
        return ProgressBar::hidden();
    }
    let template = match requests {
        Some(_) => "{bar:30} {pos} of {len} requests  {elapsed} elapsed",
        None => "{spinner} {pos} requests  {elapsed} elapsed",
    };
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.with_style(ProgressStyle::with_template(template).expect("the template is right"))
}

/// Makes the folder for the tables before anything is measured; earlier rows are not replaced.
fn make_folder(folder: &Path) -> Result<(), Stop> {
    let rows = folder.join("requests.parquet");
    if rows.exists() {
        return Err(Stop::usage(format!("{} already exists", rows.display()))
            .hint("choose another folder with --out"));
    }
    fs::create_dir_all(folder).map_err(|e| {
        Stop::machine(format!(
            "the folder {} cannot be made: {e}",
            folder.display()
        ))
        .hint("name another one with --out: a new folder, or an empty one of yours")
    })
}

/// Whether what is given as a URL is an experiment.
fn is_experiment(given: &str) -> bool {
    (given.ends_with(".yaml") || given.ends_with(".yml")) && !given.contains("://")
}
