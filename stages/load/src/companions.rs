//! Starts the sampling beside a load: metrics of servers, hosts, processes, logs and GPUs.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contract::{EventPattern, LiveMember, Telling};
use net::Site;

use crate::drive::{Companions, Start};
use crate::files::{LogPart, Monitoring};
use crate::get::Endpoint;
use crate::run::{Target, endpoint};
use crate::scrape::{Address, Metrics};
use crate::telemetry::{
    Absent, Companion, Dcgm, Elsewhere, Gpu, Gpus, GpusElsewhere, Host, LogEvents, LogFrom,
    Machine, Node, Power, Processes, Sampler, ServerHosts, ServerInfo, Shared, Slots, endpoints,
};

/// Starts everything that is sampled beside the load.
pub(crate) fn companions(
    start: &Start,
    target: &Target,
    monitoring: &Monitoring,
    folder: &Path,
    logs: &[LogPart<'_>],
) -> Companions {
    let telemetry = &monitoring.telemetry;
    let interval = telemetry.interval.duration();
    let mut absent = Vec::new();
    let (hosts, clocks) = hosts_elsewhere(monitoring, &mut absent);
    let mut beginning = Beginning {
        start,
        target,
        monitoring,
        folder,
        interval_ms: interval.as_millis().to_string(),
        hosts,
        begun: Vec::new(),
        absent,
    };
    beginning.metrics();
    if telemetry.host {
        beginning.server_hosts(clocks);
        beginning.host();
    }
    if telemetry.processes {
        beginning.processes();
    }
    if telemetry.probes {
        beginning.probes();
    }
    beginning.engine_events(logs);
    let power = Arc::new(Power::default());
    if telemetry.gpu != Gpu::None {
        beginning.gpus(interval, &power);
    }
    let hung_below = telemetry.hung_below_w.map(|watts| (power, watts));
    Companions {
        present: beginning.begun,
        absent: beginning.absent,
        interval,
        hung_below,
    }
}

/// The companions during their start. A companion that cannot start is absent, with the reason.
struct Beginning<'a> {
    start: &'a Start,
    target: &'a Target,
    monitoring: &'a Monitoring,
    folder: &'a Path,
    interval_ms: String,
    hosts: Vec<SampledHost>,
    begun: Vec<Box<dyn Companion>>,
    absent: Vec<Absent>,
}

impl Beginning<'_> {
    fn begin<C: Companion + 'static>(&mut self, table: &'static str, begun: Result<C, String>) {
        match begun {
            Ok(companion) => self.begun.push(Box::new(companion)),
            Err(reason) => self.absent.push(Absent { table, reason }),
        }
    }

    /// Returns the exporters that provide the requested data.
    fn exporters(&self, tells: Telling) -> Result<Vec<(String, Endpoint)>, String> {
        let ca_file = self.target.ca_file.as_deref();
        endpoints(&self.monitoring.exporters, ca_file, tells)
    }

    fn metrics(&mut self) {
        let exporters = self.exporters(Telling::Metrics);
        let members = &self.monitoring.members;
        let addresses = metrics_of(self.start, self.target, members, exporters);
        if addresses.as_ref().is_ok_and(Vec::is_empty) {
            return;
        }
        let metrics = addresses.and_then(|addresses| {
            Metrics::new(self.folder, addresses, &self.interval_ms).map_err(|e| e.to_string())
        });
        self.begin("server_metrics", metrics);
    }

    fn server_hosts(&mut self, clocks: Vec<String>) {
        let nodes = self.exporters(Telling::Node).map(|nodes| {
            let node = |(name, endpoint)| Box::new(Node::new(name, endpoint)) as Box<dyn Machine>;
            let there = distinct(&self.hosts).map(|host| {
                let (name, sampler) = (host.host.clone(), host.shared.clone());
                Box::new(Elsewhere { name, sampler }) as Box<dyn Machine>
            });
            let machines: Vec<_> = nodes.into_iter().map(node).chain(there).collect();
            machines
        });
        if nodes.as_ref().is_ok_and(Vec::is_empty) {
            return;
        }
        let hosts = nodes.and_then(|machines| {
            ServerHosts::new(self.folder, machines, clocks, &self.interval_ms)
                .map_err(|e| e.to_string())
        });
        self.begin("server_host_telemetry", hosts);
    }

    fn host(&mut self) {
        let host = Host::new(self.folder, &self.interval_ms).map_err(|e| e.to_string());
        self.begin("host_telemetry", host);
    }

    fn processes(&mut self) {
        let (here, there) = (leaders(self.monitoring), processes_of(&self.hosts));
        let processes = Processes::new(self.folder, here, there, &self.interval_ms);
        self.begin("process_telemetry", processes.map_err(|e| e.to_string()));
    }

    /// Starts the companions that query the only loaded server.
    fn probes(&mut self) {
        let monitoring = self.monitoring;
        if let Some(path) = &monitoring.slots {
            let slots = self.probed(path).and_then(|endpoint| {
                Slots::new(self.folder, endpoint, &self.interval_ms).map_err(|e| e.to_string())
            });
            self.begin("slots", slots);
        }
        if let Some(path) = &monitoring.server_info {
            let info = self.probed(path).and_then(|endpoint| {
                ServerInfo::new(self.folder, endpoint, &self.interval_ms).map_err(|e| e.to_string())
            });
            self.begin("server_info", info);
        }
    }

    fn probed(&self, path: &str) -> Result<Endpoint, String> {
        match self.target.servers.len() {
            0 | 1 => endpoint(self.start, self.target, path),
            n => Err(format!(
                "{n} servers are loaded, and the table does not tell them apart"
            )),
        }
    }

    fn engine_events(&mut self, logs: &[LogPart<'_>]) {
        let patterns = logs.iter().map(|log| match log.member {
            Some(member) => member.log_events.clone().into_iter().collect(),
            None => self.monitoring.log_events.clone(),
        });
        let patterns: Vec<Vec<(String, EventPattern)>> = patterns.collect();
        let with_patterns: Vec<LogFrom<'_>> = logs
            .iter()
            .zip(&patterns)
            .map(|(log, patterns)| LogFrom {
                member: log.member.map(|member| member.name.clone()),
                path: log.path,
                position: log.from,
                ahead_ns: ahead_of(&self.hosts, log.member),
                patterns,
                errors: match log.member {
                    Some(member) => &member.log_errors,
                    None => &self.monitoring.log_errors,
                },
            })
            .filter(|log| !(log.patterns.is_empty() && log.errors.is_empty()))
            .collect();
        if with_patterns.is_empty() {
            return;
        }
        let (key, started) = (self.target.api_key.as_ref(), self.start.started);
        let events = LogEvents::new(self.folder, &with_patterns, started, key, &self.interval_ms);
        self.begin("engine_events", events);
    }

    fn gpus(&mut self, interval: Duration, power: &Arc<Power>) {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let read_from = |source| Gpus::read_from(source, self.folder, interval_ms, power.clone());
        let gpus = match self.exporters(Telling::Dcgm) {
            Ok(exporters) if exporters.is_empty() && !self.hosts.is_empty() => {
                let all = distinct(&self.hosts).map(|host| host.shared.clone());
                read_from(Box::new(GpusElsewhere(all.collect())))
            }
            Ok(exporters) if exporters.is_empty() => Gpus::new(
                self.folder,
                self.monitoring.telemetry.gpu,
                leaders(self.monitoring)
                    .into_iter()
                    .map(|(_, pid)| pid)
                    .collect(),
                self.monitoring.nvidia_smi.as_deref(),
                interval_ms,
                self.start.epoch,
                power.clone(),
            ),
            Ok(exporters) => read_from(Box::new(Dcgm(exporters))),
            Err(reason) => Err(Absent {
                table: "gpu_telemetry",
                reason,
            }),
        };
        match gpus {
            Ok(gpus) => self.begun.push(Box::new(gpus)),
            Err(reason) => self.absent.push(reason),
        }
    }
}

/// Returns the addresses of metrics: the server's own first, then the others by name.
fn metrics_of(
    start: &Start,
    target: &Target,
    members: &[LiveMember],
    others: Result<Vec<(String, Endpoint)>, String>,
) -> Result<Vec<Address>, String> {
    let own = target.metrics.as_ref();
    let own = own.map(|path| Ok((None, endpoint(start, target, path)?)));
    let of_members = members.iter().filter_map(|member| {
        let path = member.metrics.clone()?;
        // A loaded member has the trust of the load and gets its key. Other members get neither.
        let (trusted, key) = match member.loaded {
            true => (target.ca_file.as_deref(), target.api_key.clone()),
            false => (None, None),
        };
        let site = Site::find(&member.base_url, trusted, key).map_err(|e| e.to_string());
        let label = Some(("member", member.name.clone()));
        Some(site.map(|site| (label, Endpoint { site, path })))
    });
    let others = others?.into_iter();
    own.into_iter()
        .chain(of_members)
        .chain(others.map(|(name, endpoint)| Ok((Some(("exporter", name)), endpoint))))
        .collect()
}

/// A host that is sampled remotely: its name, the group's member that runs there, and the sampler.
struct SampledHost {
    host: String,
    member: Option<String>,
    shared: Shared,
    ahead_ns: i64,
}

/// Starts to sample the server's other hosts, and compares their clocks with ours. Hosts that do not answer are absent.
fn hosts_elsewhere(
    monitoring: &Monitoring,
    absent: &mut Vec<Absent>,
) -> (Vec<SampledHost>, Vec<String>) {
    let members = monitoring.members.iter();
    let members = members.filter_map(|m| Some((Some(m.name.clone()), m.elsewhere.as_ref()?)));
    let own = monitoring.elsewhere.as_ref().map(|live| (None, live));
    let (mut hosts, mut notes) = (Vec::new(), Vec::new());
    for (member, live) in own.into_iter().chain(members) {
        let begun = Sampler::start(&live.command)
            .and_then(|mut sampler| sampler.clocks().map(|clocks| (sampler, clocks)));
        match begun {
            Ok((sampler, clocks)) => {
                notes.push(format!(
                    "the clock of {} is {:.3} ms ahead of ours, within {:.3} ms",
                    live.host,
                    clocks.ahead_ns as f64 / 1e6,
                    clocks.bound_ns as f64 / 1e6
                ));
                hosts.push(SampledHost {
                    host: live.host.clone(),
                    member,
                    shared: Arc::new(Mutex::new(sampler)),
                    ahead_ns: clocks.ahead_ns,
                });
            }
            Err(why) => absent.push(Absent {
                table: "server_host_telemetry",
                reason: format!("{}: {why}", live.host),
            }),
        }
    }
    (hosts, notes)
}

/// Returns each host once, however many members run there.
fn distinct(hosts: &[SampledHost]) -> impl Iterator<Item = &SampledHost> {
    let is_first = |(at, host): &(usize, &SampledHost)| {
        hosts[..*at].iter().all(|earlier| earlier.host != host.host)
    };
    hosts
        .iter()
        .enumerate()
        .filter(is_first)
        .map(|(_, host)| host)
}

/// Returns the samplers for the processes of members on other hosts.
fn processes_of(hosts: &[SampledHost]) -> Vec<(Option<String>, Shared)> {
    let identity = |host: &SampledHost| (host.member.clone(), host.shared.clone());
    hosts.iter().map(identity).collect()
}

/// Returns how far the clock of a log is ahead of ours, ns.
fn ahead_of(hosts: &[SampledHost], member: Option<&LiveMember>) -> i64 {
    let member = member.map(|member| member.name.as_str());
    let host = hosts.iter().find(|host| host.member.as_deref() == member);
    host.map_or(0, |host| host.ahead_ns)
}

/// Returns the leaders of the server's process groups on this machine.
fn leaders(monitoring: &Monitoring) -> Vec<(Option<String>, i64)> {
    let own = monitoring.server_pid.map(|pid| (None, pid));
    let members = monitoring.members.iter();
    let members = members.filter_map(|member| Some((Some(member.name.clone()), member.pid?)));
    own.into_iter().chain(members).collect()
}
