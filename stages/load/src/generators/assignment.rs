//! The part of a load that one generator gets. The coordinator makes it, and the generator receives it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contract::{Api, Phase};
use pipeline::stage::Coordinates;
use serde::{Deserialize, Serialize};

use super::deal::Deal;
use super::messages::Order;
use crate::arrival::{Arrival, ClosedLoop, Rate};
use crate::extent::Extent;
use crate::measure::{Ahead, Gate, Limits, Plan};
use crate::prompts::{Gathered, Prompt, PromptError, PromptSet};
use crate::random::Origin;
use crate::run::{LoadError, LoadSpec, LoadedServer, Target};
use crate::servers::Servers;
use crate::settings::Timeouts;
use crate::span::TimeSpan;
use crate::workload::Workload;
use apis::Delivery;
use net::ApiKey;

/// The approximate number of bytes of prompts in one message.
const AT_ONCE: usize = 256 * 1024;

/// The number of times in one message.
const TIMES_AT_ONCE: usize = 32 * 1024;

/// The settings of one generator's part of a load.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Assignment {
    numbers: Numbers,
    /// The folder for unnamed files; `None` for the system's temporary folder.
    folder: Option<PathBuf>,
    in_sessions: bool,
    workload: Workload,
    delivery: Delivery,
    timeouts: Timeouts,
    seed: u64,
    replicate: Coordinates,
    base_url: String,
    /// Name and URL of each, if there are several.
    servers: Vec<(String, String)>,
    model: String,
    api: Api,
    path: Option<String>,
    headers: Vec<(String, String)>,
    /// The key, and the header of its own that carries it.
    api_key: Option<(String, Option<String>)>,
    absent_cached_is_zero: bool,
}

impl Assignment {
    /// Returns the folder for unnamed files.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// One generator's part, at the coordinator.
pub(super) struct Share {
    pub(super) assignment: Assignment,
    tokenizer: Option<Vec<u8>>,
    certificates: Option<Vec<u8>>,
    prompts: PromptSet,
    deal: Deal,
    /// The offsets of its units, if arrivals are open.
    due: Vec<u64>,
    /// The times at which its measured requests are abandoned.
    given_up: Vec<Option<u64>>,
}

impl Share {
    /// Takes a generator's part of a plan.
    ///
    /// # Errors
    /// If the tokenizer or the certificates cannot be read.
    pub(super) fn of(
        spec: &LoadSpec,
        target: &Target,
        plan: &Plan,
        deal: &Deal,
        (generator, generators): (u32, u32),
        folder: Option<&Path>,
    ) -> Result<Self, LoadError> {
        let place = generator as usize;
        let own = |unit: &usize| deal.of_unit(*unit) == place;
        let offsets = plan.offsets.iter().flatten().enumerate();
        let measured = (0..plan.given_up.len()).filter(|at| deal.of(plan.warmup + at) == place);
        let units = plan.units.max(1);
        let own_units = (0..units).filter(own).count();
        let connect_ahead = (plan.connect_ahead * own_units).div_ceil(units);
        let clients = deal.clients(place);
        let certificates = target.ca_file.as_deref().map(std::fs::read);
        Ok(Self {
            assignment: Assignment {
                numbers: Numbers {
                    generator,
                    generators,
                    warmup: plan.warmup,
                    clients,
                    think_ns: plan.think_ns,
                    duration_ns: plan.duration_ns,
                    connect_ahead: clients
                        .map_or(connect_ahead, |own| connect_ahead.min(own as usize)),
                },
                folder: folder.map(Path::to_owned),
                in_sessions: spec.prompts.sessions().is_some(),
                workload: spec.workload.clone(),
                delivery: spec.delivery,
                timeouts: spec.timeouts.clone(),
                seed: spec.origin.seed,
                replicate: spec.origin.replicate.clone(),
                base_url: target.base_url.clone(),
                servers: target.servers.iter().map(name_and_url).collect(),
                model: target.model.clone(),
                api: target.api,
                path: target.path.clone(),
                headers: target.headers.clone(),
                api_key: target.api_key.as_ref().map(ApiKey::reveal),
                absent_cached_is_zero: target.absent_cached_is_zero,
            },
            tokenizer: spec.tokenizer_file().map_err(LoadError::new)?,
            certificates: certificates.transpose().map_err(|e| {
                LoadError::new(format!("the certificates cannot be read again: {e}"))
            })?,
            prompts: spec.prompts.clone(),
            deal: deal.clone(),
            due: offsets
                .filter_map(|(unit, at)| own(&unit).then_some(*at))
                .collect(),
            given_up: measured
                .map(|at| {
                    let after = plan.given_up[at]?;
                    u64::try_from(after.as_nanos()).ok()
                })
                .collect(),
        })
    }

    /// Sends a generator its part; reads one prompt after the other.
    ///
    /// # Errors
    /// If a prompt cannot be read again, or `tell` fails.
    pub(super) fn tell_to(self, mut tell: impl FnMut(Order) -> io::Result<()>) -> io::Result<()> {
        let assignment = serde_json::to_string(&self.assignment).map_err(io::Error::other)?;
        tell(Order::Assignment(assignment))?;
        self.tokenizer
            .into_iter()
            .try_for_each(|bytes| tell(Order::Tokenizer(bytes)))?;
        self.certificates
            .into_iter()
            .try_for_each(|bytes| tell(Order::Certificates(bytes)))?;
        let (warmup, place) = (
            self.prompts.count(Phase::Warmup),
            self.assignment.numbers.generator as usize,
        );
        let all = warmup + self.prompts.count(Phase::Measured);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for request in (warmup..all).chain(0..warmup) {
            if self.deal.of(request) != place {
                continue;
            }
            let prompt = self.prompts.at(request)?;
            bytes += prompt.text.len() + 64;
            batch.push(prompt);
            if bytes > AT_ONCE {
                tell(Order::Prompts(std::mem::take(&mut batch)))?;
                bytes = 0;
            }
        }
        tell(Order::Prompts(batch))?;
        for due in self.due.chunks(TIMES_AT_ONCE) {
            tell(Order::Due(due.to_vec()))?;
        }
        for given_up in self.given_up.chunks(TIMES_AT_ONCE) {
            tell(Order::GivenUp(given_up.to_vec()))?;
        }
        tell(Order::Prepare)
    }
}

fn name_and_url(server: &LoadedServer) -> (String, String) {
    (server.name.clone(), server.base_url.clone())
}

/// One generator's part, while it is received.
pub(super) struct Part {
    pub(super) assignment: Assignment,
    gathered: Gathered,
    /// For each measured and each warm-up request, the position of its server; empty if there is one server.
    servers: (Vec<u32>, Vec<u32>),
    due: Vec<u64>,
    given_up: Vec<Option<Duration>>,
    pub(super) tokenizer: Option<Vec<u8>>,
    /// The file of the certificates, removed with this value.
    certificates: Option<tempfile::NamedTempFile>,
}

/// One generator's part, complete.
pub(super) struct Whole {
    pub(super) spec: LoadSpec,
    pub(super) target: Target,
    pub(super) numbers: Numbers,
    servers: Servers,
    due: Vec<u64>,
    given_up: Vec<Option<Duration>>,
    /// The file of the certificates, removed with this value.
    _certificates: Option<tempfile::NamedTempFile>,
}

/// The numbers of a generator's part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Numbers {
    /// Which generator it is, from 0.
    pub(super) generator: u32,
    /// The number of generators.
    pub(super) generators: u32,
    /// The number of warm-up requests of all generators. Measured requests are numbered after them.
    pub(super) warmup: usize,
    /// Its own clients of a closed loop.
    clients: Option<u32>,
    think_ns: u64,
    duration_ns: Option<u64>,
    connect_ahead: usize,
}

impl Part {
    /// Reads the settings.
    ///
    /// # Errors
    /// If they cannot be read, or the folder for prompts cannot be used.
    pub(super) fn begin(text: &str) -> Result<Self, LoadError> {
        let assignment: Assignment = serde_json::from_str(text)
            .map_err(|e| LoadError::new(format!("the assignment: {e}")))?;
        let gathered = Gathered::new(&assignment.folder(), assignment.in_sessions);
        Ok(Self {
            gathered: gathered.map_err(unkept)?,
            assignment,
            servers: (Vec::new(), Vec::new()),
            due: Vec::new(),
            given_up: Vec::new(),
            tokenizer: None,
            certificates: None,
        })
    }

    /// Takes the next order.
    ///
    /// # Errors
    /// If a file cannot be written, or the order is out of place.
    pub(super) fn take(&mut self, order: Order) -> Result<(), LoadError> {
        match order {
            Order::Prompts(prompts) => prompts.iter().try_for_each(|prompt| self.keep(prompt)),
            Order::Due(due) => {
                self.due.extend(due);
                Ok(())
            }
            Order::GivenUp(given_up) => {
                let spans = given_up.into_iter().map(|ns| ns.map(Duration::from_nanos));
                self.given_up.extend(spans);
                Ok(())
            }
            Order::Tokenizer(bytes) => {
                self.tokenizer = Some(bytes);
                Ok(())
            }
            Order::Certificates(bytes) => {
                let kept =
                    tempfile::NamedTempFile::new_in(self.assignment.folder()).and_then(|file| {
                        std::fs::write(file.path(), bytes)?;
                        Ok(file)
                    });
                self.certificates = Some(kept.map_err(|e| {
                    LoadError::new(format!("the certificates cannot be stored: {e}"))
                })?);
                Ok(())
            }
            other => Err(LoadError::new(format!("{other:?} came before its time"))),
        }
    }

    /// Stores a prompt and the server of its request, which depends on the request's place among all requests.
    fn keep(&mut self, prompt: &Prompt) -> Result<(), LoadError> {
        let count = self.assignment.servers.len() as u64;
        if count > 1 {
            let unit = prompt.session.unwrap_or(prompt.index);
            let places = match prompt.phase {
                Phase::Measured => &mut self.servers.0,
                Phase::Warmup => &mut self.servers.1,
            };
            places.push((unit % count) as u32);
        }
        self.gathered.push(prompt).map_err(unkept)
    }

    /// Completes the part.
    ///
    /// # Errors
    /// If the prompts cannot be kept, or a server's host has no address.
    pub(super) fn whole(self) -> Result<Whole, LoadError> {
        let Self {
            assignment: a,
            gathered,
            servers: (measured, warmup),
            due,
            given_up,
            certificates,
            ..
        } = self;
        let prompts = gathered.finish().map_err(unkept)?;
        let target = Target {
            ca_file: certificates.as_ref().map(|file| file.path().to_owned()),
            path: a.path,
            headers: a.headers,
            api_key: a
                .api_key
                .and_then(|(key, header)| Some(ApiKey::new(&key)?.sent_in(header))),
            absent_cached_is_zero: a.absent_cached_is_zero,
            ..Target::new(a.base_url, a.model, a.api)
        };
        let servers = a.servers.into_iter();
        let target = target.in_turn(
            servers
                .map(|(name, base_url)| LoadedServer { name, base_url })
                .collect(),
        );
        let peers = target.peers().map_err(|e| LoadError::new(e.to_string()))?;
        let dealt = [warmup, measured].concat();
        let servers = match dealt.as_slice() {
            [] => Servers::new(peers, &prompts),
            _ => Servers::dealt(peers, prompts.count(Phase::Warmup), dealt),
        };
        // The plan has the senders and their times; here only the kind of loop matters.
        let arrival = match a.numbers.clients {
            Some(clients) => Arrival::ClosedLoop(ClosedLoop {
                clients,
                think_time: TimeSpan::default(),
            }),
            None => Arrival::Constant(Rate { rate: 1.0 }),
        };
        Ok(Whole {
            spec: LoadSpec {
                workload: a.workload,
                prompts,
                arrival,
                delivery: a.delivery,
                timeouts: a.timeouts,
                heartbeat: TimeSpan::default(),
                origin: Origin {
                    seed: a.seed,
                    replicate: a.replicate,
                },
                extent: Extent {
                    duration: a
                        .numbers
                        .duration_ns
                        .map(|ns| TimeSpan::of(Duration::from_nanos(ns))),
                    ..Extent::default()
                },
                files: Default::default(),
                generators: Default::default(),
            },
            target,
            numbers: a.numbers,
            servers,
            due,
            given_up,
            _certificates: certificates,
        })
    }
}

impl Whole {
    /// Returns the servers, with the server of each request.
    pub(super) fn servers(&self) -> Servers {
        self.servers.clone()
    }

    /// Returns the plan for the measuring thread, which waits at the gate when it is warm.
    pub(super) fn plan(&self, gate: Arc<Gate>) -> Plan {
        let (prompts, numbers) = (&self.spec.prompts, &self.numbers);
        let units = prompts
            .sessions()
            .map_or(prompts.count(Phase::Measured), <[_]>::len);
        let offsets = numbers.clients.is_none().then(|| self.due.clone());
        Plan {
            servers: self.servers(),
            ahead: Ahead::new(),
            warmup: prompts.count(Phase::Warmup),
            units: offsets.as_ref().map_or(units, Vec::len),
            clients: numbers.clients,
            think_ns: numbers.think_ns,
            offsets,
            duration_ns: numbers.duration_ns,
            max_in_flight: None,
            given_up: self.given_up.clone(),
            connect_ahead: numbers.connect_ahead,
            limits: Limits::of(&self.spec.timeouts),
            gate: Some(gate),
        }
    }
}

fn unkept(error: PromptError) -> LoadError {
    LoadError {
        message: error.message,
        by_machine: error.by_machine,
        disk_fault: error.disk_fault,
    }
}
