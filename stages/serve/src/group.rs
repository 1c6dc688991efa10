//! Groups: several servers that act as one, such as a router with the workers behind it. Each role has its own
//! environment, settings, devices and readiness. Members whose addresses are passed to other roles start first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use artifacts::Store;
use contract::{LiveMember, RoleDescriptor, ServerDescriptor, ServerStart};
use engines::{Engine, Peer, PeerArguments, uses_side_port};
use pipeline::process::Spawner;
use pipeline::sources::NamedFiles;
use pipeline::suggest::remedy;
use pipeline::{Done, Effect, Failure, Input, Job, Json, Lease, Needed, Output, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::part::Part;
use crate::reach::{Addresses, Home};
use crate::stage::{Settings, live};
use crate::start::{Manner, Readiness, Server};
use crate::together::{self, waves};

/// The variable that selects the GPUs of a process.
const GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// One role of a group: servers with the same task.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{provision: STAGE, count: 2}"))]
pub(crate) struct Role {
    /// The provision stage whose environment its members run in; may be left out if the stage needs only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) provision: Option<String>,
    /// How many members it has.
    #[schemars(range(min = 1))]
    pub(crate) count: u32,
    /// Settings of its engine, the same for all members.
    pub(crate) settings: BTreeMap<String, Json>,
    /// The GPUs of each member, as `CUDA_VISIBLE_DEVICES` takes them: a text for each member. By default, each member
    /// sees all GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gpus: Vec<String>,
    /// The roles that are passed to its members: the name in the engine's definition
    /// (`launch.peers`), and the role.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, String>,
    /// The check that shows that a member is ready. Use the health check for a worker that cannot
    /// generate alone.
    pub(crate) ready: Readiness,
}

impl Default for Role {
    fn default() -> Self {
        Self {
            provision: None,
            count: 1,
            settings: BTreeMap::new(),
            gpus: Vec::new(),
            peers: BTreeMap::new(),
            ready: Readiness::Token,
        }
    }
}

/// Returns the problems with the roles of a stage that do not depend on their engines.
pub(crate) fn problems(settings: &Settings) -> Vec<Problem> {
    let roles = &settings.roles;
    let mut problems = Vec::new();
    let names = || roles.keys().map(String::as_str);
    if roles.is_empty() {
        if settings.load.is_some() {
            let problem = Problem::at(&["load"], "`load` names a role, but there are no `roles`");
            problems.push(problem.hint("remove `load`, or add `roles`"));
        }
        return problems;
    }
    if !settings.settings.is_empty() {
        let problem = Problem::at(&["settings"], "a group has settings for each role");
        problems.push(problem.hint("move them to `roles.NAME.settings`"));
    }
    for (name, role) in roles {
        let mut add = |key: &str, message: String, hint: String| {
            problems.push(Problem::at(&["roles", name, key], message).hint(hint));
        };
        if role.count == 0 {
            let message = format!("the role `{name}` has no member");
            add(
                "count",
                message,
                "write at least 1, or remove the role".to_owned(),
            );
        }
        if !role.gpus.is_empty() && role.gpus.len() != role.count as usize {
            let message = format!(
                "the role `{name}` has {} members, but `gpus` has {} texts",
                role.count,
                role.gpus.len()
            );
            add("gpus", message, "write one text for each member".to_owned());
        }
        for peer in role
            .peers
            .values()
            .filter(|peer| !roles.contains_key(*peer))
        {
            let message = format!("unknown role `{peer}`");
            add("peers", message, remedy(peer, "roles", names()));
        }
    }
    match &settings.load {
        None if roles.len() > 1 => problems.push(
            Problem::at(&["roles"], "the role to load is missing")
                .hint("add `load: ROLE` next to `roles`"),
        ),
        Some(load) if !roles.contains_key(load) => {
            let problem = Problem::at(&["load"], format!("unknown role `{load}`"));
            problems.push(problem.hint(remedy(load, "roles", names())));
        }
        _ => {}
    }
    if problems.is_empty() && in_order(roles).len() < roles.len() {
        problems.push(
            Problem::at(&["roles"], "the `peers` of roles form a circle")
                .hint("remove one of the `peers`: a role must start after its peers"),
        );
    }
    problems
}

/// Returns the settings as a group with one role, if the engine runs at several URLs.
pub(crate) fn of_several(part: &Part<'_>, settings: &Settings) -> Option<Settings> {
    let servers = part.running();
    let role = Role {
        count: u32::try_from(servers).ok().filter(|count| *count > 1)?,
        ..Role::default()
    };
    Some(Settings {
        roles: BTreeMap::from([("server".to_owned(), role)]),
        ..settings.clone()
    })
}

fn loaded(settings: &Settings) -> Option<&str> {
    let only = || settings.roles.keys().next();
    settings.load.as_ref().or_else(only).map(String::as_str)
}

/// Returns the roles in an order in which each comes after its peers. Roles in a cycle are left out.
fn in_order(roles: &BTreeMap<String, Role>) -> Vec<&str> {
    let mut order: Vec<&str> = Vec::new();
    loop {
        let mut rest = roles
            .iter()
            .filter(|(name, _)| !order.contains(&name.as_str()));
        let next = rest.find(|(_, role)| role.peers.values().all(|p| order.contains(&p.as_str())));
        match next {
            Some((name, _)) => order.push(name),
            None => return order,
        }
    }
}

/// The roles of a group and what their members are started from, in start order.
pub(crate) struct Plan<'a> {
    roles: Vec<Planned<'a>>,
    loaded: String,
}

struct Planned<'a> {
    name: String,
    role: Role,
    part: Part<'a>,
}

impl<'a> Plan<'a> {
    /// Reads the environments of the roles.
    ///
    /// # Errors
    /// If an environment is missing, its engine does not accept the settings, or the engines are not connected as their
    /// definitions require.
    pub(crate) fn of(
        settings: &Settings,
        inputs: &'a [Input],
        store: &Store,
    ) -> Result<Self, Failure> {
        let mut roles = Vec::new();
        for name in in_order(&settings.roles) {
            let role = settings.roles[name].clone();
            let input = environment(name, &role, inputs)?;
            let part = Part::of(Some(input), &json!(role.settings), store)
                .map_err(|failure| of_role(name, failure))?;
            if let Some((message, hint)) = disconnected(name, &role, &part.engine) {
                return Err(Failure::failed(message).hint(hint));
            }
            have_side_ports(name, &role, &part, &roles)?;
            if part.running() > 0 && part.running() != role.count as usize {
                let message = format!(
                    "the role `{name}` has {} members, but {} runs at {} URLs",
                    role.count,
                    part.engine.title,
                    part.running()
                );
                return Err(Failure::failed(message)
                    .hint("set `count` to the number of URLs in `launch.program.running`"));
            }
            roles.push(Planned {
                name: name.to_owned(),
                role,
                part,
            });
        }
        let loaded = loaded(settings).unwrap_or_default().to_owned();
        Ok(Self { roles, loaded })
    }

    /// Returns the effects of starting the group.
    pub(crate) fn effects(&self, files: &NamedFiles) -> Vec<Effect> {
        let roles = self.roles.iter();
        roles.flat_map(|r| r.part.effects(files)).collect()
    }

    /// Describes the group from its settings alone.
    pub(crate) fn promised(&self) -> ServerDescriptor {
        let described = self.roles.iter().map(|r| (r, r.part.promised()));
        self.whole(described.collect())
    }

    /// Starts the members, [side by side](waves) where nothing speaks against it, and waits for each.
    ///
    /// # Errors
    /// If a member does not become ready. The others are stopped.
    pub(crate) fn start(
        &self,
        spawner: &(dyn Fn() -> Result<Arc<Spawner>, Failure> + Sync),
        job: &Job<'_>,
    ) -> Result<Done, Failure> {
        let mut group = Group::default();
        let homes = self.homes()?;
        let mut addresses: BTreeMap<&str, Vec<Addresses>> = BTreeMap::new();
        let (mut described, mut warnings) = (BTreeMap::new(), Vec::new());
        let (mut whole, mut starts, mut exporters) = (None, Vec::new(), BTreeMap::new());
        let roles: Vec<_> = self
            .roles
            .iter()
            .map(|r| (r.name.as_str(), &r.role))
            .collect();
        for wave in waves(&roles) {
            let members = wave.iter().map(|(index, number)| {
                let planned = &self.roles[*index];
                let member = format!("{}-{number}", planned.name);
                let home = &homes[planned.name.as_str()];
                (
                    &planned.part,
                    manner(planned, &member, *number, &addresses, home),
                )
            });
            let servers = together::start(&members.collect::<Vec<_>>(), spawner, job)?;
            for ((index, number), server) in wave.into_iter().zip(servers) {
                let planned = &self.roles[index];
                let member = format!("{}-{number}", planned.name);
                addresses
                    .entry(&planned.name)
                    .or_default()
                    .push(server.addresses(homes[planned.name.as_str()].clone()));
                let (descriptor, doubts) = planned
                    .part
                    .describe(&server)
                    .map_err(|failure| of_role(&member, failure))?;
                if let Some((_, first)) = described.get(&index) {
                    alike(planned, &member, first, &descriptor)?;
                }
                warnings.extend(doubts.iter().map(|doubt| format!("{member}: {doubt}")));
                let live = live(&planned.part, &server, &descriptor, job.files)?;
                starts.extend(live.starts.iter().map(|start| ServerStart {
                    member: Some(member.clone()),
                    ..start.clone()
                }));
                group.members.push((member.clone(), server));
                group.live.push(LiveMember {
                    name: member.clone(),
                    role: planned.name.clone(),
                    loaded: planned.name == self.loaded,
                    engine: format!("{} {}", descriptor.engine.title, descriptor.version),
                    gpus: planned.role.gpus.get(number as usize).cloned(),
                    base_url: live.base_url.clone(),
                    metrics: live.endpoints.metrics.clone(),
                    pid: live.pid,
                    log_path: live.log_path.clone(),
                    log_events: live.log_events.clone(),
                    log_errors: live.log_errors.clone(),
                    elsewhere: live.elsewhere.clone(),
                    model: live.model.clone(),
                    api: live.api,
                    endpoints: live.endpoints.clone(),
                    counters: live.counters.clone(),
                    generates_with_others: planned.role.ready != Readiness::Token,
                });
                if planned.name == self.loaded && whole.is_none() {
                    whole = Some(live);
                } else {
                    let named = live.exporters.into_iter();
                    exporters.extend(named.map(|(name, its)| (format!("{member}.{name}"), its)));
                }
                described.entry(index).or_insert((planned, descriptor));
            }
        }
        let described = described.into_values().collect();
        let mut whole =
            whole.ok_or_else(|| Failure::failed(format!("no role is `{}`", self.loaded)))?;
        whole.exporters.extend(exporters);
        // Each member is sampled under its own name.
        whole.members.clone_from(&group.live);
        (whole.pid, whole.log_path, whole.endpoints.metrics) = (None, None, None);
        whole.elsewhere = None;
        whole.starts = starts;
        group.whole = json!(whole);
        Ok(Done {
            outputs: vec![Output::json("server", &json!(self.whole(described)))],
            lease: Some(Box::new(group)),
            observations: BTreeMap::from([("loaded_role".to_owned(), json!(self.loaded))]),
            warnings,
        })
    }

    /// Returns where the members of each role run.
    ///
    /// # Errors
    /// If members do not reach the servers that they get as peers.
    fn homes(&self) -> Result<BTreeMap<&str, Home>, Failure> {
        let mut homes = BTreeMap::new();
        for planned in &self.roles {
            let home = planned.part.home()?;
            for (slot, behind) in &planned.role.peers {
                let its = self.roles.iter().find(|other| other.name == *behind);
                // The user names the address of a server that already runs.
                let its = its.filter(|other| other.part.running() == 0);
                let (Some(its), Some(its_home)) = (its, homes.get(behind.as_str())) else {
                    continue;
                };
                let arguments = planned.part.engine.launch.peers.get(slot);
                // Servers that find each other get no address from here.
                if arguments.is_some_and(|arguments| arguments.each.is_empty()) {
                    continue;
                }
                let by_side_port = arguments.is_some_and(PeerArguments::name_side_ports);
                home.reaches(&planned.name, (&its.name, its_home), by_side_port)?;
            }
            homes.insert(planned.name.as_str(), home);
        }
        Ok(homes)
    }

    /// Describes the group: the loaded role, and every role.
    fn whole(&self, described: Vec<(&Planned<'_>, ServerDescriptor)>) -> ServerDescriptor {
        let mut whole = ServerDescriptor::default();
        let mut roles = BTreeMap::new();
        for (planned, mut server) in described {
            let peers = planned.role.peers.iter().flat_map(|(slot, role)| {
                let count = self.roles.iter().find(|r| r.name == *role);
                let members = (0..count.map_or(0, |r| r.role.count))
                    .map(|number| Peer::placeholder(&format!("{role}-{number}")));
                let arguments = planned.part.engine.launch.peers.get(slot);
                arguments.map_or_else(Vec::new, |a| a.render(&members.collect::<Vec<_>>()))
            });
            server.command.arguments.extend(peers);
            if planned.name == self.loaded {
                whole = server.clone();
            }
            let role = RoleDescriptor {
                count: planned.role.count,
                gpus: planned.role.gpus.clone(),
                server,
            };
            roles.insert(planned.name.clone(), role);
        }
        ServerDescriptor {
            loaded_role: Some(self.loaded.clone()),
            roles,
            ..whole
        }
    }
}

/// Checks that a server that already runs reports the same version as the first of its role. Servers that Benchtrail
/// starts share one definition.
fn alike(
    planned: &Planned<'_>,
    member: &str,
    first: &ServerDescriptor,
    other: &ServerDescriptor,
) -> Result<(), Failure> {
    let identity = |descriptor: &ServerDescriptor| {
        let (version, model) = (&descriptor.version, &descriptor.model_name);
        format!("version {version}, model `{model}`")
    };
    if planned.part.running() == 0 || identity(first) == identity(other) {
        return Ok(());
    }
    let message = format!(
        "`{member}` is not like `{}-0`: {}, not {}",
        planned.name,
        identity(other),
        identity(first)
    );
    Err(Failure::failed(message)
        .hint("load servers that differ in separate cells: make them labels of an axis"))
}

/// Returns how to start a member: its log, its devices, and the peers passed to it.
fn manner(
    planned: &Planned<'_>,
    member: &str,
    number: u32,
    addresses: &BTreeMap<&str, Vec<Addresses>>,
    home: &Home,
) -> Manner {
    let gpus = planned.role.gpus.get(number as usize);
    let peers = planned.role.peers.iter().flat_map(|(slot, role)| {
        let arguments = planned.part.engine.launch.peers.get(slot);
        let peers = addresses.get(role.as_str()).into_iter().flatten();
        let peers: Vec<Peer> = peers.map(|peer| peer.seen_from(home).clone()).collect();
        arguments.map_or_else(Vec::new, |a| a.render(&peers))
    });
    Manner {
        member: Some(member.to_owned()),
        log: member.to_owned(),
        arguments: peers.collect(),
        environment: gpus
            .map(|gpus| (GPUS.to_owned(), gpus.clone()))
            .into_iter()
            .collect(),
        ready: planned.role.ready,
        number: number as usize,
        ..Manner::default()
    }
}

/// Finds the environment of a role.
fn environment<'a>(name: &str, role: &Role, inputs: &'a [Input]) -> Result<&'a Input, Failure> {
    let all: Vec<&Input> = inputs.iter().filter(|i| i.kind == "provision").collect();
    let stages = || all.iter().map(|i| i.stage.as_str());
    match (&role.provision, all.as_slice()) {
        (Some(wanted), _) => all
            .iter()
            .find(|i| i.stage == *wanted)
            .copied()
            .ok_or_else(|| {
                let message =
                    format!("the role `{name}` runs in `{wanted}`, which the stage does not need");
                Failure::failed(message).hint(remedy(wanted, "provision stages it needs", stages()))
            }),
        (None, [only]) => Ok(only),
        (None, _) => {
            let message = format!("the environment of the role `{name}` is missing");
            let all: Vec<&str> = stages().collect();
            Err(Failure::failed(message).hint(format!(
                "add `provision:` to the role; the stage needs {}",
                all.join(", ")
            )))
        }
    }
}

/// Returns the first problem of a role whose engine does not get the roles that its definition requires, or gets others: the
/// message and the remedy.
fn disconnected(name: &str, role: &Role, engine: &Engine) -> Option<(String, String)> {
    let slots: BTreeSet<&String> = engine.launch.peers.keys().collect();
    let given: BTreeSet<&String> = role.peers.keys().collect();
    let title = &engine.title;
    if let Some(slot) = given.difference(&slots).next() {
        let message = format!("the role `{name}` connects `{slot}`, which {title} does not take");
        let hint = remedy(slot, "peers", slots.iter().map(|s| s.as_str()));
        return Some((message, hint));
    }
    let required = |slot: &&&String| !engine.launch.peers[**slot].optional;
    let missing = match given.is_empty() {
        true => slots.iter().next(),
        false => slots.iter().filter(|s| !given.contains(*s)).find(required),
    };
    let slot = missing?;
    let needs = match given.is_empty() {
        true => needs_others(&format!("{title}, the role `{name}`,"), engine)?,
        false => format!("{title}, the role `{name}`, needs the other servers as `{slot}`"),
    };
    Some((needs, format!("add `peers: {{{slot}: ROLE}}` to the role")))
}

/// Returns the sentence that an engine needs other servers, which begins with `who`; `None` if it needs none.
pub(crate) fn needs_others(who: &str, engine: &Engine) -> Option<String> {
    let slots: Vec<String> = engine
        .launch
        .peers
        .keys()
        .map(|slot| format!("`{slot}`"))
        .collect();
    let all = pipeline::suggest::any_of(&slots);
    (!slots.is_empty()).then(|| format!("{who} needs the other servers as {all}"))
}

/// Checks while planning that each role is connected as its engine requires. The definition is that of the first engine in the
/// environment of the role.
pub(crate) fn connections(roles: &BTreeMap<String, Role>, needs: &[Needed<'_>]) -> Vec<Problem> {
    let stages = || needs.iter().filter(|needed| needed.kind == "provision");
    let problem_of = |(name, role): (&String, &Role)| {
        let stage = match &role.provision {
            Some(wanted) => stages().find(|needed| needed.stage == wanted),
            None => stages().next().filter(|_| stages().count() == 1),
        };
        let engine = Engine::from_json(&stage?.parameters["engines"][0]["definition"]).ok()?;
        let (message, hint) = disconnected(name, role, &engine)?;
        Some(Problem::at(&["roles", name, "peers"], message).hint(hint))
    };
    roles.iter().filter_map(problem_of).collect()
}

/// Checks that the servers behind a router listen on the second port that it is given.
fn have_side_ports(
    name: &str,
    role: &Role,
    part: &Part<'_>,
    before: &[Planned<'_>],
) -> Result<(), Failure> {
    let takes = |slot: &String| {
        part.engine
            .launch
            .peers
            .get(slot)
            .is_some_and(|p| p.name_side_ports())
    };
    for (slot, behind) in role.peers.iter().filter(|(slot, _)| takes(slot)) {
        let planned = before.iter().find(|planned| planned.name == *behind);
        if planned.is_none_or(|p| uses_side_port(&p.part.engine, &p.part.settings)) {
            continue;
        }
        let message = format!(
            "the role `{name}` takes `{slot}` with a second port, and the servers of `{behind}` listen on one only"
        );
        return Err(Failure::failed(message).hint(
            "give them the setting whose flags contain `{side-port}`, or add `{side-port}` to the arguments in the \
             definition of their engine",
        ));
    }
    Ok(())
}

pub(crate) fn of_role(name: &str, failure: Failure) -> Failure {
    Failure {
        reason: format!("`{name}`: {}", failure.reason),
        ..failure
    }
}

/// A running group.
#[derive(Default)]
struct Group {
    /// The members, in start order.
    members: Vec<(String, Server)>,
    live: Vec<LiveMember>,
    whole: Json,
}

impl Lease for Group {
    fn live(&self) -> &Json {
        &self.whole
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.members
            .iter_mut()
            .try_for_each(|(name, server)| server.check().map_err(|f| of_role(name, f)))
    }

    fn check_after_use(&mut self) -> Result<(), Failure> {
        self.members
            .iter_mut()
            .try_for_each(|(name, server)| server.check_after_use().map_err(|f| of_role(name, f)))
    }

    /// Stops each member before the peers that were passed to it.
    fn release(self: Box<Self>) -> Vec<Output> {
        let mut left: Vec<Output> = self
            .members
            .into_iter()
            .rev()
            .flat_map(|(name, server)| {
                let outputs = Box::new(server).release().into_iter();
                outputs.map(move |output| Output {
                    name: format!("{}-{name}", output.name),
                    ..output
                })
            })
            .collect();
        left.reverse();
        left
    }
}
