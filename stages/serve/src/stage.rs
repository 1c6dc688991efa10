//! The kind itself: settings, early checks, one start.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifacts::Store;
use contract::{Environment, LiveEnvironment, LiveServer};
use engines::{Engine, Launch, Paths, Program, render, resolve};
use net::{Ask, Site, SiteError};
use pipeline::process::Spawner;
use pipeline::suggest::closest;
use pipeline::{
    CellStatus, Class, Done, Effect, Failure, Input, InputCell, Job, Json, Lease, Library, Output,
    Problem, StageKind, What,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::describe::describe;
use crate::probe::{check_exporters, probe};
use crate::process::Process;
use crate::ready::{self, Life, NotReady, Wanted};

const HOST: &str = "127.0.0.1";

/// How often another port is tried when somebody else was faster.
const PORT_ATTEMPTS: u32 = 3;

/// The serve kind.
#[derive(Default)]
pub struct Serve {
    exe: Option<PathBuf>,
    spawner: Mutex<Option<Arc<Spawner>>>,
}

/// What a serve stage says.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// Settings of the engine, by the names its definition gives them; the others keep their
    /// defaults.
    pub settings: BTreeMap<String, Json>,
}

impl Serve {
    /// Makes a kind that starts engines through another executable than the current one; it
    /// must forward the pipeline's hidden exec subcommand.
    pub fn through(exe: PathBuf) -> Self {
        Self {
            exe: Some(exe),
            ..Self::default()
        }
    }

    fn spawner(&self) -> Result<Arc<Spawner>, Failure> {
        let make = || -> io::Result<Arc<Spawner>> {
            let exe = match &self.exe {
                Some(exe) => exe.clone(),
                None => std::env::current_exe()?,
            };
            Ok(Arc::new(Spawner::new(exe)?))
        };
        let mut kept = self
            .spawner
            .lock()
            .map_err(|_| Failure::failed("an earlier start panicked"))?;
        if let Some(spawner) = &*kept {
            return Ok(spawner.clone());
        }
        let spawner = make().map_err(|e| {
            Failure::failed(format!(
                "cannot start the thread that launches \
                engines: {e}"
            ))
        })?;
        *kept = Some(spawner.clone());
        Ok(spawner)
    }
}

impl StageKind for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        Class::Resource
    }

    fn uses_one(&self) -> &'static [(&'static str, &'static str)] {
        &[("provision", "runs in one environment")]
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    /// Which engine it will be is known only from the provision stage; so a setting is refused
    /// here if no engine of the library would take it, and else when the cell starts.
    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let mut settings: Settings = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        settings.settings.retain(|_, value| !value.is_null());
        let problems = early_problems(&settings.settings, library);
        if problems.is_empty() {
            Ok(json!({"settings": settings.settings}))
        } else {
            Err(problems)
        }
    }

    /// Starts the engine, or reaches the one that runs.
    fn effects(
        &self,
        parameters: &Json,
        inputs: &[Input],
        store: &Store,
    ) -> Result<Vec<Effect>, Failure> {
        let provision = inputs.iter().find(|i| i.kind == "provision");
        let environment = environment(provisioned(provision)?, store)?;
        let engine = definition(&environment)?;
        let settings = settings(&engine, parameters)?;
        let name = environment.model.served_name();
        let revision = environment.model.weights.revision_to_resolve();
        let mut effects = vec![engine.start(&settings, name, revision)];
        effects.extend(engine.exporters.values().map(|exporter| Effect {
            what: What::Reach {
                url: exporter.url.clone(),
                key: None,
            },
            consent: None,
        }));
        Ok(effects)
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let cell = provisioned(job.input_of_kind("provision"))?;
        let environment = environment(cell, job.store)?;
        let engine = definition(&environment)?;
        let settings = settings(&engine, job.parameters)?;
        if let Some(consent) = engine.consent(&settings) {
            job.control.permits(&consent)?;
        }
        let live = cell
            .live
            .clone()
            .ok_or_else(|| Failure::failed("the provisioned environment does not exist"))?;
        let live: LiveEnvironment = serde_json::from_value(live).map_err(|e| {
            Failure::failed(format!("the provisioned environment is unreadable: {e}"))
        })?;
        let name = environment.model.served_name().to_owned();

        let mut server = match &engine.launch.program {
            Program::Running(url) => attach(&engine, url, &[name, live.model_path], job)?,
            Program::Packaged(_) | Program::Python(_) | Program::Installed(_) => {
                let launch = ToLaunch {
                    engine: &engine,
                    settings: &settings,
                    live: &live,
                    name: &name,
                    revision: environment.model.weights.revision_to_resolve(),
                };
                start(&self.spawner()?, &launch, job)?
            }
        };
        job.control.progress(2, Some(3), "reading its limits");
        let (limits, warnings) = ready::limits(&engine, &server.site, &settings);
        let probed = probe(&engine, &server.site)?;
        let descriptor = describe(
            &environment,
            &engine,
            &server.model,
            &settings,
            &limits,
            &probed,
        );
        let live = LiveServer {
            base_url: server.site.url().to_owned(),
            ca_file: ca_file(&engine.launch)?,
            api_key_env: engine.launch.api_key_env.clone(),
            pid: server.process.as_ref().map(|p| i64::from(p.pid())),
            log_path: server.process.as_ref().map(|p| p.log_path().to_owned()),
            model: server.model.clone(),
            api: engine.api,
            endpoints: engine.endpoints.clone(),
            counters: engine.counters.clone(),
            absent_cached_is_zero: engine.usage.absent_cached_is_zero(&settings),
            log_events: engine.log.events.clone(),
            limits,
            exporters: engine.exporters.clone(),
        };
        server.live = json!(live);
        Ok(Done {
            outputs: vec![Output::json("server", &json!(descriptor))],
            lease: Some(Box::new(server)),
            observations: BTreeMap::new(),
            warnings,
        })
    }

    /// Describes the server as its settings promise it.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        let environment = environment(provisioned(job.input_of_kind("provision"))?, job.store)?;
        let engine = definition(&environment)?;
        let settings = settings(&engine, job.parameters)?;
        let name = environment.model.served_name();
        let limits = ready::promised(&engine, &settings);
        let nothing_told = BTreeMap::new();
        let descriptor = describe(
            &environment,
            &engine,
            name,
            &settings,
            &limits,
            &nothing_told,
        );
        Ok(Done {
            outputs: vec![Output::json("server", &json!(descriptor))],
            ..Done::default()
        })
    }
}

fn early_problems(given: &BTreeMap<String, Json>, library: &dyn Library) -> Vec<Problem> {
    // A definition that is wrong is told where it is used.
    let engines: Vec<Engine> = library
        .names("engines")
        .iter()
        .filter_map(|name| library.find("engines", name))
        .filter_map(|json| Engine::from_json(&json).ok())
        .collect();
    let mut problems = Vec::new();
    for (name, value) in given {
        let takers: Vec<_> = engines
            .iter()
            .filter_map(|e| e.settings.get(name))
            .collect();
        if takers.is_empty() {
            let problem = Problem::at(
                &["settings", name],
                format!("no engine has a setting `{name}`"),
            );
            let known = engines.iter().flat_map(|e| e.settings.keys());
            problems.push(match closest(name, known.map(String::as_str)) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            });
        } else if let Some(phrase) = takers
            .iter()
            .map(|s| s.check(value))
            .reduce(Result::or)
            .and_then(Result::err)
        {
            problems.push(Problem::at(
                &["settings", name],
                format!("the setting `{name}` {phrase}"),
            ));
        }
    }
    problems
}

fn provisioned(input: Option<&Input>) -> Result<&InputCell, Failure> {
    let input = input.ok_or_else(|| {
        Failure::failed("a serve stage needs a provision stage")
            .hint("add it to the stage's `needs`")
    })?;
    match &input.cells[..] {
        [cell] if cell.status == CellStatus::Ok => Ok(cell),
        [cell] => {
            let reason = cell.reason.as_deref().unwrap_or("no reason given");
            Err(Failure::new(
                CellStatus::Skipped,
                format!("`{}` is {}: {reason}", input.stage, cell.status.word()),
            ))
        }
        cells => {
            let message = format!(
                "a server runs in one environment, but `{}` gives {}",
                input.stage,
                cells.len()
            );
            Err(Failure::failed(message).hint("expand this stage over the same axes"))
        }
    }
}

fn environment(cell: &InputCell, store: &Store) -> Result<Environment, Failure> {
    let missing = || Failure::failed("the provision stage has no output `environment`");
    let artifact = cell.outputs.get("environment").ok_or_else(missing)?;
    let bytes = store
        .get(&artifact.digest)
        .map_err(|e| Failure::failed(e.to_string()))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Failure::failed(format!("`environment` cannot be read: {e}")))
}

/// Reads the definition of the engine that was provisioned.
fn definition(environment: &Environment) -> Result<Engine, Failure> {
    let definition = environment.engine.definition.clone().unwrap_or_default();
    serde_json::from_value(definition).map_err(|e| {
        Failure::failed(format!(
            "the provisioned engine's definition is unreadable: {e}"
        ))
    })
}

/// Returns the settings of an engine in full, from the stage's parameters.
fn settings(engine: &Engine, parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
    let given = parameters["settings"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    resolve(&engine.settings, &given).map_err(|problems| unfit(engine, &problems))
}

fn unfit(engine: &Engine, problems: &[Problem]) -> Failure {
    let told: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    let hints: Vec<&str> = problems.iter().filter_map(|p| p.hint.as_deref()).collect();
    let failure = Failure::failed(format!(
        "{} cannot be started: {}",
        engine.title,
        told.join("; ")
    ));
    if hints.is_empty() {
        failure
    } else {
        failure.hint(hints.join("; "))
    }
}

/// A server that answers: started by us, or found running.
struct Server {
    site: Site,
    model: String,
    process: Option<Process>,
    /// Where to ask a server that is not ours whether it is alive.
    health: Option<String>,
    live: Json,
}

impl Server {
    fn new(site: Site, model: String, process: Option<Process>, engine: &Engine) -> Self {
        let health = engine
            .endpoints
            .health
            .clone()
            .or_else(|| engine.endpoints.models.clone());
        Self {
            site,
            model,
            process,
            health,
            live: Json::Null,
        }
    }
}

impl Lease for Server {
    fn live(&self) -> &Json {
        &self.live
    }

    fn check(&mut self) -> Result<(), Failure> {
        if let Some(process) = &mut self.process {
            return process.check();
        }
        let Some(path) = &self.health else {
            return Ok(());
        };
        let limit = Duration::from_secs(5);
        let seen = match self.site.ask(&Ask::get(path), limit) {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => answer.told(),
            Err(error) => format!("{path}: {error}"),
        };
        Err(Failure::failed(format!(
            "the server at {} is gone: {seen}",
            self.site.url()
        )))
    }

    fn check_after_use(&mut self) -> Result<(), Failure> {
        let url = self.site.url().to_owned();
        match &mut self.process {
            Some(process) => process.check_after_use(|| refuses(&url)),
            None => self.check(),
        }
    }

    fn release(mut self: Box<Self>) -> Vec<Output> {
        self.process
            .as_mut()
            .map(Process::release)
            .into_iter()
            .collect()
    }
}

/// Returns whether nobody listens where a server of this machine should.
fn refuses(url: &str) -> bool {
    let port = url
        .rsplit(':')
        .next()
        .and_then(|port| port.trim_end_matches('/').parse().ok());
    let Some(port) = port else { return false };
    TcpStream::connect((HOST, port)).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns a port nobody listens on now.
fn free_port() -> Result<u16, Failure> {
    let bound = TcpListener::bind((HOST, 0)).and_then(|l| l.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|e| Failure::failed(format!("no free port on {HOST}: {e}")))
}

/// What is launched, and how.
struct ToLaunch<'a> {
    engine: &'a Engine,
    settings: &'a BTreeMap<String, Json>,
    live: &'a LiveEnvironment,
    /// The name the model is served under.
    name: &'a str,
    /// The revision of the weights that the engine is to resolve.
    revision: Option<&'a str>,
}

fn start(spawner: &Arc<Spawner>, launch: &ToLaunch<'_>, job: &Job<'_>) -> Result<Server, Failure> {
    let ToLaunch {
        engine,
        settings,
        live,
        name,
        revision,
    } = *launch;
    let mut attempt = 1;
    loop {
        let port = free_port()?;
        let paths = Paths {
            model: live.model_path.clone(),
            model_name: name.to_owned(),
            host: HOST.to_owned(),
            port: port.to_string(),
            packages: live.packages.clone().unwrap_or_default(),
            revision: revision.map(str::to_owned),
        };
        job.control
            .progress(0, Some(3), format!("starting {}", engine.title));
        let mut process = Process::start(
            spawner,
            engine,
            live,
            &render(engine, settings, &paths),
            job,
        )?;
        job.control
            .progress(1, Some(3), "waiting for its first token");
        let site = site(&format!("http://{HOST}:{port}"), &engine.launch)?;
        match started(engine, &site, [name, &live.model_path], &mut process, job) {
            Ok(model) => return Ok(Server::new(site, model, Some(process), engine)),
            Err(_) if attempt < PORT_ATTEMPTS && lost_its_port(&mut process) => attempt += 1,
            Err(failure) => return Err(failure),
        }
    }
}

/// Between our look and the engine's start somebody else may have taken the port.
fn lost_its_port(process: &mut Process) -> bool {
    let log = process.log_text().to_lowercase();
    process.check().is_err()
        && ["couldn't bind", "address already in use"]
            .iter()
            .any(|t| log.contains(t))
}

fn started(
    engine: &Engine,
    site: &Site,
    [name, path]: [&str; 2],
    process: &mut Process,
    job: &Job<'_>,
) -> Result<String, Failure> {
    let limit = Duration::from_secs(u64::from(engine.ready.timeout_s));
    // Some servers list the model under the id or path they were given.
    let models = [name.to_owned(), path.to_owned()];
    let wanted = Wanted {
        engine,
        site,
        models: &models,
        limit,
        stage_of_life: Life::Starting,
    };
    let ready = ready::wait(&wanted, &mut || {
        job.control.check().and_then(|()| process.check())
    });
    // Ready, and still ours: another server could have answered in its place.
    let ready = ready.and_then(|model| process.check().map(|()| model).map_err(NotReady::Ended));
    ready.map_err(|not| match not {
        NotReady::Late(seen) => {
            let words = process.last_words();
            let reason = format!(
                "{} was not ready within {} s ({seen}){words}",
                engine.title,
                limit.as_secs()
            );
            process.fail(CellStatus::Failed, reason)
        }
        NotReady::Wrong(what) | NotReady::Refused(what) | NotReady::NoPath(_, what) => {
            let words = process.last_words();
            process.fail(
                CellStatus::Failed,
                format!("{} does not serve: {what}{words}", engine.title),
            )
        }
        NotReady::Untrusted(error) => process.fail(CellStatus::Failed, error.to_string()),
        NotReady::Ended(failure) if failure.evidence.is_empty() => Failure {
            hint: failure.hint,
            ..process.fail(failure.status, failure.reason)
        },
        NotReady::Ended(failure) => failure,
    })
}

/// Returns where the certificates lie that alone are trusted; parameters hold their digest.
fn ca_file(launch: &Launch) -> Result<Option<PathBuf>, Failure> {
    let seen = launch
        .ca_file
        .as_deref()
        .map(pipeline::sources::seen)
        .transpose();
    let source = seen.map_err(|e| Failure::failed(e.message).hint("run again"))?;
    Ok(source.map(|source| source.path))
}

fn site(url: &str, launch: &Launch) -> Result<Site, Failure> {
    Site::find(url, ca_file(launch)?.as_deref(), launch.api_key()?).map_err(|error| match error {
        SiteError::Url(message) => Failure::failed(message).hint("correct the URL"),
        SiteError::Tls(error) => Failure::failed(error.reason).hint(error.remedy),
    })
}

fn attach(engine: &Engine, url: &str, names: &[String], job: &Job<'_>) -> Result<Server, Failure> {
    let limit = Duration::from_secs(u64::from(engine.ready.timeout_s));
    let site = site(url, &engine.launch)?;
    check_exporters(&engine.exporters, ca_file(&engine.launch)?.as_deref())?;
    let wanted = Wanted {
        engine,
        site: &site,
        models: names,
        limit,
        stage_of_life: Life::Running,
    };
    job.control
        .progress(1, Some(3), format!("asking {url} for a token"));
    let model = ready::wait(&wanted, &mut || job.control.check()).map_err(|not| match not {
        NotReady::Late(seen) => {
            let reason = format!(
                "no server at {url} was ready within {} s ({seen})",
                limit.as_secs()
            );
            Failure::failed(reason)
                .hint("start it, or correct `launch.program.running` in its definition")
        }
        NotReady::Wrong(what) => {
            Failure::failed(format!("the server at {url} does not serve: {what}"))
                .hint("name the model as the server does: `served-name` in the model's definition")
        }
        NotReady::NoPath(key, what) => {
            let api = engine.api.word();
            let hint = match key {
                "health" => {
                    "write the path of its health check, or `endpoints: {health: null}` if \
                             it has none"
                        .to_owned()
                }
                "models" => "write the path of its list of models, or `endpoints: {models: null}` \
                             if it has none"
                    .to_owned(),
                _ => format!(
                    "it does not speak `{api}` there: correct `api:` in the engine's definition, \
                     or the path in `endpoints:`"
                ),
            };
            Failure::failed(format!("the server at {url} lacks a path: {what}")).hint(hint)
        }
        NotReady::Refused(what) => {
            let failure = Failure::failed(format!(
                "the server at {url} refuses the request: \
                {what}"
            ));
            failure.hint(match &engine.launch.api_key_env {
                Some(variable) => format!("check whether `{variable}` holds this server's key"),
                None => {
                    "name the environment variable that holds the server's key in the engine's \
                         definition: `launch.api-key-env`"
                        .to_owned()
                }
            })
        }
        NotReady::Untrusted(error) => {
            Failure::failed(format!("the server at {url}: TLS: {}", error.reason))
                .hint(error.remedy)
        }
        NotReady::Ended(failure) => failure,
    })?;
    Ok(Server::new(site, model, None, engine))
}
