//! One server under a lease: started here and awaited, or found running and left alone.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use contract::{Exporter, LiveElsewhere, LiveEnvironment, ReadyProof, ServerStart};
use engines::{Engine, Launch, Paths, Peer, Rendered, render, uses_side_port};
use net::{Ask, Site, SiteError};
use pipeline::process::Spawner;
use pipeline::sources::NamedFiles;
use pipeline::{CellStatus, Failure, Job, Json, Lease, Output};
use places::{Containment, Inside, container_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::elsewhere::Elsewhere;
use crate::log_tail::LogTail;
use crate::probe::check_exporters;
use crate::process::{Contained, Hanging, Process};
use crate::reach::{Addresses, Home};
use crate::ready::{self, Life, NotReady, Notices, Ready, Seen, Wanted};

const HOST: &str = "127.0.0.1";

/// The number of further ports tried if another program takes one first.
const PORT_ATTEMPTS: u32 = 3;

/// The number of ports, the last ones that were given, which are not given again.
const GIVEN_PORTS: usize = 1_000;

/// A server that answers: started here or found running.
pub(crate) struct Server {
    pub(crate) site: Site,
    pub(crate) model: String,
    pub(crate) process: Option<Process>,
    /// The second port that it listens on, if it was given one.
    side_port: String,
    /// Whether that port can be reached from this machine.
    side_port_here: bool,
    /// The port that it listens on there, if it runs on another host.
    port_there: Option<u16>,
    /// The URL that shows whether a server that was found running is alive.
    health: Option<String>,
    pub(crate) live: Json,
    /// What samples its host, if that is not this machine.
    pub(crate) elsewhere: Option<LiveElsewhere>,
    /// How long it took to start; none if it was found running.
    pub(crate) start: Option<ServerStart>,
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
            side_port: String::new(),
            side_port_here: false,
            port_there: None,
            health,
            live: Json::Null,
            elsewhere: None,
            start: None,
        }
    }
}

impl Server {
    /// Returns how other servers address it.
    pub(crate) fn addresses(&self, home: Home) -> Addresses {
        let here = self.peer();
        let at_home = self.port_there.map_or_else(
            || here.clone(),
            |port| Peer {
                url: format!("http://{HOST}:{port}"),
                host: HOST.to_owned(),
                port: port.to_string(),
                ..here.clone()
            },
        );
        Addresses {
            here,
            at_home,
            home,
        }
    }

    /// Returns the exporters with the address of the second port. Those of a port that cannot be reached from here are left
    /// out: on another host and in a container's own network, only the first port is forwarded.
    pub(crate) fn exporters(&self, engine: &Engine) -> BTreeMap<String, Exporter> {
        let reached = |(name, exporter): (&String, &Exporter)| {
            let url = match exporter.path_at_side_port() {
                Some(path) if self.side_port_here => {
                    format!("http://{HOST}:{}{path}", self.side_port)
                }
                Some(_) => return None,
                None => exporter.url.clone(),
            };
            let tells = exporter.tells;
            Some((name.clone(), Exporter { url, tells }))
        };
        engine.exporters.iter().filter_map(reached).collect()
    }

    fn peer(&self) -> Peer {
        let url = self.site.url().trim_end_matches('/');
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        Peer {
            url: url.to_owned(),
            host: host.to_owned(),
            port: port.to_owned(),
            side_port: self.side_port.clone(),
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
            Ok(answer) => answer.summary(),
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

/// Returns whether nothing listens at the address of a server on this machine.
fn refuses(url: &str) -> bool {
    let port = url
        .rsplit(':')
        .next()
        .and_then(|port| port.trim_end_matches('/').parse().ok());
    let Some(port) = port else { return false };
    TcpStream::connect((HOST, port)).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns a port on which nothing listens at the moment. Servers that start side by side get different ones: if two got the
/// same, the first to listen would answer for both.
fn free_port() -> Result<u16, Failure> {
    static GIVEN: Mutex<VecDeque<u16>> = Mutex::new(VecDeque::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let bound = TcpListener::bind((HOST, 0)).and_then(|l| l.local_addr());
        let port = bound
            .map_err(|e| Failure::failed(format!("no free port on {HOST}: {e}")))?
            .port();
        if !given.contains(&port) {
            given.push_back(port);
            if given.len() > GIVEN_PORTS {
                given.pop_front();
            }
            return Ok(port);
        }
    }
}

/// What to launch, and how.
pub(crate) struct ToLaunch<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) settings: &'a BTreeMap<String, Json>,
    pub(crate) live: &'a LiveEnvironment,
    /// The name the model is served under.
    pub(crate) name: &'a str,
    /// The revision of the weights that the engine must resolve.
    pub(crate) revision: Option<&'a str>,
    pub(crate) manner: &'a Manner,
}

/// What differs between a single server and a member of a group.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// Its name in a group.
    pub(crate) member: Option<String>,
    /// The name of its log, without `.log`.
    pub(crate) log: String,
    /// The arguments that follow all others.
    pub(crate) arguments: Vec<String>,
    /// The variables set for it in addition to those of its definition.
    pub(crate) environment: BTreeMap<String, String>,
    /// The proof that it is ready.
    pub(crate) ready: Readiness,
    /// Its number among the members of its role, from 0.
    pub(crate) number: usize,
    /// Set when a server that starts side by side with it fails.
    pub(crate) others_failed: Arc<AtomicBool>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            member: None,
            log: "engine".to_owned(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            ready: Readiness::Token,
            number: 0,
            others_failed: Arc::default(),
        }
    }
}

impl Manner {
    /// Returns what its start waits for.
    pub(crate) fn waiting(&self) -> String {
        let waits_for = match self.ready {
            Readiness::Token => "its first token",
            Readiness::Models => "its list of models",
            Readiness::Health => "its health check",
        };
        let whose = self.member.as_ref().map(|member| format!("{member}: "));
        format!("{}waiting for {waits_for}", whose.unwrap_or_default())
    }
}

/// The check that shows that a server is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Readiness {
    /// It generated one token.
    #[default]
    Token,
    /// Its list of models names the model.
    Models,
    /// Its health check answers.
    Health,
}

/// The moment at which a server was started.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    unix_ns: i64,
}

impl Began {
    #[expect(
        clippy::disallowed_methods,
        reason = "wall time is provenance: the moment at which a server was started"
    )]
    fn now() -> Self {
        Self {
            at: Instant::now(),
            unix_ns: pipeline::unix_ns(SystemTime::now()),
        }
    }

    /// Returns how long each step took that led to a server that is ready now.
    fn until(self, ready: &Ready, proof: Readiness) -> ServerStart {
        let seconds = |at: Instant| at.saturating_duration_since(self.at).as_secs_f64();
        ServerStart {
            member: None,
            started_unix_ns: self.unix_ns,
            healthy_s: ready.healthy.map(seconds),
            listed_s: ready.listed.map(seconds),
            ready_s: seconds(Instant::now()),
            proof: match proof {
                Readiness::Token => ReadyProof::Token,
                Readiness::Models => ReadyProof::Models,
                Readiness::Health => ReadyProof::Health,
            },
        }
    }
}

pub(crate) fn start(
    spawner: &Arc<Spawner>,
    launch: &ToLaunch<'_>,
    job: &Job<'_>,
) -> Result<Server, Failure> {
    let ToLaunch {
        engine,
        settings,
        live,
        name,
        revision,
        manner,
    } = *launch;
    let there = Elsewhere::of(live)?;
    let containment =
        Containment::of(&live.container).map_err(|e| Failure::failed(e.to_string()))?;
    let own_network = containment
        .as_ref()
        .is_some_and(Containment::has_own_network);
    let listens_on_two = uses_side_port(engine, settings);
    let mut attempt = 1;
    loop {
        // The engine's port, and the port at which it is reached.
        let here = free_port()?;
        let free = || match &there {
            Some(there) => there.free_port(job),
            None => free_port(),
        };
        let port = match &there {
            Some(_) => free()?,
            None => here,
        };
        let mut side_port = String::new();
        while side_port.is_empty() && listens_on_two {
            side_port = Some(free()?)
                .filter(|side| *side != port)
                .map_or_else(String::new, |side| side.to_string());
        }
        let paths = Paths {
            model: live.model_path.clone(),
            model_name: name.to_owned(),
            host: containment
                .as_ref()
                .map_or(HOST, Containment::listens_on)
                .to_owned(),
            port: port.to_string(),
            side_port,
            packages: live.packages.clone().unwrap_or_default(),
            revision: revision.map(str::to_owned),
            draft: live.draft_path.clone(),
        };
        let who = manner.member.as_deref().unwrap_or(&engine.title);
        job.control.progress(0, Some(3), format!("starting {who}"));
        let mut rendered = render(engine, settings, &paths);
        rendered.arguments.extend(manner.arguments.iter().cloned());
        rendered.environment.extend(manner.environment.clone());
        let began = Began::now();
        let mut process = match &there {
            Some(there) => {
                let containment = containment.as_ref();
                there.start(spawner, launch, rendered, [here, port], containment, job)?
            }
            None => {
                let contained = containment
                    .as_ref()
                    .map(|containment| contained(containment, launch, &rendered, here));
                let hanging = Hanging::OnUs(contained.as_ref());
                Process::start(spawner, engine, live, &rendered, &manner.log, hanging, job)?
            }
        };
        job.control.progress(1, Some(3), manner.waiting());
        let site = site(&format!("http://{HOST}:{here}"), &engine.launch, job.files)?;
        let mut names = [name, live.model_path.as_str()];
        if engine.launch.named_as_given {
            names.reverse();
        }
        match started(engine, &site, names, manner, &mut process, job) {
            Ok(ready) => {
                let elsewhere = there.as_ref().map(|there| there.sampler([here, port]));
                return Ok(Server {
                    elsewhere,
                    side_port_here: there.is_none() && !own_network && listens_on_two,
                    side_port: paths.side_port,
                    port_there: there.as_ref().map(|_| port),
                    start: Some(began.until(&ready, manner.ready)),
                    ..Server::new(site, ready.model, Some(process), engine)
                });
            }
            Err(_) if attempt < PORT_ATTEMPTS && lost_its_port(&mut process) => attempt += 1,
            Err(failure) => return Err(failure),
        }
    }
}

/// Returns the container for an engine.
fn contained(
    containment: &Containment,
    launch: &ToLaunch<'_>,
    rendered: &Rendered,
    port: u16,
) -> Contained {
    let command: Vec<String> = launch
        .live
        .bin
        .iter()
        .chain(&rendered.arguments)
        .cloned()
        .collect();
    let name = container_name();
    let inside = Inside {
        command: &command,
        environment: &rendered.environment,
        inherit: &launch.engine.launch.inherit,
        port: Some(port),
        grace: Duration::try_from_secs_f64(launch.engine.stop.grace_s).unwrap_or_default(),
    };
    Contained {
        line: containment.command(&name, &inside),
        containment: containment.clone(),
        name,
    }
}

/// Returns whether another program took the port between the check and the engine's start.
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
    manner: &Manner,
    process: &mut Process,
    job: &Job<'_>,
) -> Result<Ready, Failure> {
    let limit = Duration::from_secs(u64::from(engine.ready.timeout_s));
    // Some servers list the model under the given id or path.
    let models = [name.to_owned(), path.to_owned()];
    let wanted = Wanted {
        engine,
        site,
        models: &models,
        limit,
        proof: manner.ready,
        stage_of_life: Life::Starting,
    };
    let mut said = LogTail::default();
    let ready = ready::wait(&wanted, &mut |seen| {
        said.tell(process, manner, job);
        job.control.check().and_then(|()| process.check())?;
        if manner.others_failed.load(Ordering::SeqCst) {
            let reason = "another server of the group failed";
            return Err(Failure::failed(reason));
        }
        match seen {
            Seen::Failing(complaint) => process.check_failed(&engine.title, complaint),
            Seen::Nothing | Seen::NotYet(_) => Ok(()),
        }
    });
    // Ready, and still the same process: another server could have answered instead.
    let ready = ready.and_then(|ready| process.check().map(|()| ready).map_err(NotReady::Ended));
    let remedy = match &ready {
        Err(NotReady::Late(_)) => process.listens_elsewhere(site.url()),
        Err(NotReady::Ended(_)) => process.has_left(),
        Err(not) => not.remedy_at_start(engine),
        Ok(_) => None,
    };
    let failure = |not: NotReady<Failure>| match not {
        NotReady::Late(seen) | NotReady::NoPath(_, seen) => {
            let words = process.last_words();
            let reason = format!(
                "{} was not ready within {} s ({seen}){words}",
                engine.title,
                limit.as_secs()
            );
            process.fail(CellStatus::Failed, reason)
        }
        NotReady::Wrong(what) | NotReady::OtherModel(what) | NotReady::Refused(what) => {
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
    };
    ready.map_err(failure).map_err(|failure| Failure {
        hint: failure.hint.or(remedy),
        ..failure
    })
}

/// Returns the file with the only trusted certificates. The parameters hold its digest.
pub(crate) fn ca_file(launch: &Launch, files: &NamedFiles) -> Result<Option<PathBuf>, Failure> {
    let place = launch.ca_file.as_deref().map(|digest| files.place(digest));
    let place = place.transpose();
    place.map_err(|e| Failure::failed(e.message).hint("run again"))
}

fn site(url: &str, launch: &Launch, files: &NamedFiles) -> Result<Site, Failure> {
    Site::find(url, ca_file(launch, files)?.as_deref(), launch.api_key()?).map_err(|error| {
        match error {
            SiteError::Url(message) => Failure::failed(message).hint("correct the URL"),
            SiteError::Tls(error) => Failure::failed(error.reason).hint(error.remedy),
        }
    })
}

pub(crate) fn attach(
    engine: &Engine,
    url: &str,
    names: &[String],
    manner: &Manner,
    job: &Job<'_>,
) -> Result<Server, Failure> {
    let limit = Duration::from_secs(u64::from(engine.ready.timeout_s));
    let site = site(url, &engine.launch, job.files)?;
    let trusted = ca_file(&engine.launch, job.files)?;
    check_exporters(&engine.exporters, trusted.as_deref())?;
    let wanted = Wanted {
        engine,
        site: &site,
        models: names,
        limit,
        proof: manner.ready,
        stage_of_life: Life::Running,
    };
    job.control
        .progress(1, Some(3), format!("asking {url} for a token"));
    let (began, mut notices) = (Instant::now(), Notices::new());
    let mut watch = |seen: Seen<'_>| {
        if let Seen::NotYet(reason) = seen
            && notices.is_due(began.elapsed())
        {
            let limit = limit.as_secs();
            job.control
                .notice(format!("waiting for {url}: {reason}; up to {limit} s"));
        }
        job.control.check()
    };
    let ready = ready::wait(&wanted, &mut watch).map_err(|not| match not {
        NotReady::Late(seen) => {
            let reason = format!(
                "no server at {url} was ready within {} s ({seen})",
                limit.as_secs()
            );
            Failure::failed(reason)
                .hint(
                "start it, or correct `launch.program.running` in its definition; `ready.timeout-s` there sets how long \
                 to wait",
            )
        }
        NotReady::Wrong(what) => {
            Failure::failed(format!("the server at {url} does not serve: {what}")).hint(
                "send it a request by hand, look into its log, and check `launch.program.running`, the base URL, in \
                 its definition",
            )
        }
        NotReady::OtherModel(what) => {
            Failure::failed(format!("the server at {url} does not serve: {what}"))
                .hint("name the model as the server does: `served-name` in the model's definition")
        }
        NotReady::NoPath(key, what) => {
            let hint = ready::path_remedy(key, engine);
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
    Ok(Server::new(site, ready.model, None, engine))
}
