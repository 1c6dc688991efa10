//! The part of a run and a plan that concerns launches on other machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::cluster::{
    AT_ONCE, Asked, Came, Cluster, ClusterError, Hosts, Kubernetes, Placement, Placements,
};
use artifacts::{Store, counted};
use pipeline::lock::lock_path;
use pipeline::{Class, Permit, PlanOptions, Shard};
use remote::Remote;
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::session::Session;
use crate::shared::{Shared, chosen_name};
use crate::terminal::complain;

/// The largest number of listed options that differ between the jobs of one study.
const LISTED: usize = 4;

/// The largest number of listed hosts of a pool.
const LISTED_HOSTS: usize = 16;

/// How a run continues.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    /// Whether to continue with other shards when one fails.
    pub(crate) keep_going: bool,
    /// The flag that stops the run when it is set.
    pub(crate) cancelled: &'a AtomicBool,
    /// Whether to print nothing about jobs.
    pub(crate) quiet: bool,
}

/// Executes the placed cells on other machines; `None` if no cell is placed.
///
/// # Errors
/// If the study cannot be planned, or a store or a scheduler returns an error.
#[expect(
    clippy::disallowed_methods,
    reason = "programs are searched on the search path"
)]
pub(crate) fn execute(
    session: &Session,
    store: &Store,
    shared: Option<&Shared>,
    options: &PlanOptions,
    permit: &Permit,
    how: How<'_>,
) -> Result<Option<Came>, Stop> {
    let stages = &session.experiment.stages;
    let is_placed = stages.iter().any(|stage| !stage.placements.is_empty());
    let own;
    let shared = match shared {
        Some(shared) => shared,
        None if !is_placed => return Ok(None),
        // Hosts of a pool need no shared store: their files stay next to the jobs until all results are taken in.
        None => {
            let folder = ::cluster::own_store(store.root(), &lock_path(&session.experiment));
            own = Shared::new(Remote::open_or_create(&folder.to_string_lossy())?);
            &own
        }
    };
    let tell = |line: &str| {
        if !how.quiet {
            complain(line);
        }
    };
    let asked = Asked {
        experiment: &session.experiment,
        registry: &session.registry,
        store,
        remote: &shared.remote,
        options: options.clone(),
        permit: permit.clone(),
        me: shared.me.clone(),
        by: chosen_name(),
        keep_going: how.keep_going,
        cancelled: how.cancelled,
        tell: &tell,
        binary: std::env::current_exe()
            .map_err(|e| Stop::refused_at("this program cannot find its own file", &e))?,
        path: std::env::var_os("PATH").unwrap_or_default(),
    };
    match Cluster::open(asked)? {
        Some(cluster) => Ok(Some(cluster.run()?)),
        None => Ok(None),
    }
}

/// A shard, and its job's request to the scheduler.
struct OfSlurm<'a> {
    shard: &'a Shard,
    at_once: u32,
    node: Option<String>,
    options: Vec<String>,
}

/// The shards of a plan that execute elsewhere.
#[derive(Default)]
struct Planned<'a> {
    slurm: Vec<OfSlurm<'a>>,
    kubernetes: Vec<(&'a Shard, Arc<Placement>)>,
    pool: Vec<(&'a Shard, Arc<Placement>)>,
}

impl Planned<'_> {
    /// Returns the shards that go to hosts, each with the hosts of its pool.
    fn on_hosts(&self) -> Vec<(&Shard, &Hosts)> {
        let hosts = self
            .pool
            .iter()
            .filter_map(|(shard, placement)| match &**placement {
                Placement::Pool(hosts) => Some((*shard, hosts)),
                Placement::Slurm(_) | Placement::Kubernetes(_) => None,
            });
        hosts.collect()
    }

    /// Returns the shards that pods execute, each with the pod that it asks for.
    fn in_pods(&self) -> Vec<(&Shard, &Kubernetes)> {
        let pods = self.kubernetes.iter();
        let pods = pods.filter_map(|(shard, placement)| match &**placement {
            Placement::Kubernetes(asked) => Some((*shard, &**asked)),
            Placement::Slurm(_) | Placement::Pool(_) => None,
        });
        pods.collect()
    }
}

fn planned(shards: &[Shard]) -> Planned<'_> {
    let mut planned = Planned::default();
    let mut placements = Placements::default();
    for shard in shards {
        // The settings were checked when the experiment was read.
        let Ok(placement) = placements.of(shard) else {
            continue;
        };
        match &*placement {
            Placement::Slurm(slurm) => {
                let node = slurm.node(shard.turn).map(str::to_owned);
                planned.slurm.push(OfSlurm {
                    options: slurm.options(node.as_deref(), shard.timeout),
                    shard,
                    at_once: slurm.at_once.unwrap_or(AT_ONCE),
                    node,
                });
            }
            Placement::Pool(_) => planned.pool.push((shard, placement)),
            Placement::Kubernetes(_) => planned.kubernetes.push((shard, placement)),
        }
    }
    planned
}

/// Returns whether the shards that execute elsewhere need a shared store.
pub(crate) fn needs_store(shards: &[Shard]) -> bool {
    let planned = planned(shards);
    !planned.slurm.is_empty() || !planned.kubernetes.is_empty()
}

fn measured(shard: &Shard) -> usize {
    let measured = shard.cells.iter().filter(|c| c.class == Class::Measurement);
    measured.count()
}

/// Describes the shards that execute elsewhere, as lines for the terminal.
pub(crate) fn lines(shards: &[Shard]) -> Vec<String> {
    let planned = planned(shards);
    let mut lines = lines_of_slurm(&planned.slurm);
    lines.extend(lines_of_kubernetes(&planned.in_pods()));
    lines.extend(lines_of_pool(&planned.on_hosts()));
    lines
}

fn lines_of_slurm(planned: &[OfSlurm<'_>]) -> Vec<String> {
    if planned.is_empty() {
        return Vec::new();
    }
    let at_once = planned.iter().map(|p| p.at_once).max();
    let cells: usize = planned.iter().map(|p| measured(p.shard)).sum();
    let mut lines = vec![format!(
        "Slurm: {} for {}, at most {} at once",
        counted(planned.len(), "job"),
        counted(cells, "measured cell"),
        at_once.unwrap_or(AT_ONCE)
    )];
    let mut commands: BTreeMap<String, usize> = BTreeMap::new();
    for job in planned {
        *commands.entry(job.options.join(" ")).or_default() += 1;
    }
    for (options, count) in commands.iter().take(LISTED) {
        lines.push(format!("  {}: sbatch {options}", counted(*count, "job")));
    }
    if commands.len() > LISTED {
        lines.push(format!(
            "  {} of jobs; `--json` lists them",
            counted(commands.len() - LISTED, "more kind")
        ));
    }
    let nodes = planned.iter().filter_map(|p| p.node.as_deref());
    lines.push(spread(nodes, "Slurm chooses a machine"));
    lines
}

/// Returns the time limit of a launch's pod, s.
fn limit_of(shard: &Shard, asked: &Kubernetes) -> Option<f64> {
    let limit = asked.time.map(|time| time.0).or(shard.timeout);
    limit.map(|limit| limit.as_secs_f64())
}

fn lines_of_kubernetes(planned: &[(&Shard, &Kubernetes)]) -> Vec<String> {
    if planned.is_empty() {
        return Vec::new();
    }
    let at_once = planned.iter();
    let at_once = at_once.map(|(_, asked)| asked.at_once.unwrap_or(AT_ONCE));
    let cells: usize = planned.iter().map(|(shard, _)| measured(shard)).sum();
    let mut lines = vec![format!(
        "Kubernetes: {} for {}, at most {} at once",
        counted(planned.len(), "job"),
        counted(cells, "measured cell"),
        at_once.max().unwrap_or(AT_ONCE)
    )];
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for (shard, asked) in planned {
        let requests = asked.requests().into_iter();
        let requests = requests.map(|(name, amount)| format!("{name} {amount}"));
        let requests = match requests.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "no requests".to_owned(),
            requests => requests,
        };
        let limit = match limit_of(shard, asked) {
            Some(seconds) => format!("at most {seconds:.0} s"),
            None => "no time limit".to_owned(),
        };
        let kind = format!(
            "{requests}; {limit}; {} create; image {}",
            asked.kubectl().join(" "),
            asked.image
        );
        *kinds.entry(kind).or_default() += 1;
    }
    for (kind, count) in kinds.iter().take(LISTED) {
        lines.push(format!("  {}: {kind}", counted(*count, "job")));
    }
    if kinds.len() > LISTED {
        lines.push(format!(
            "  {} of jobs; `--json` lists them",
            counted(kinds.len() - LISTED, "more kind")
        ));
    }
    let nodes = planned.iter();
    let nodes = nodes.filter_map(|(shard, asked)| asked.node(shard.turn));
    lines.push(spread(nodes, "Kubernetes chooses a node"));
    lines
}

/// Returns how launches are spread over machines.
fn spread<'n>(nodes: impl Iterator<Item = &'n str>, chooses: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node).or_default() += 1;
    }
    if counts.is_empty() {
        return format!(
            "  {chooses} for each launch; `nodes: [NAME, …]` keeps everything that a block compares on one"
        );
    }
    let spread = counts.iter();
    let spread = spread.map(|(node, count)| format!("{node} {count}"));
    format!(
        "  launches on machines: {}",
        spread.collect::<Vec<_>>().join(", ")
    )
}

/// The work of one host of the pool.
#[derive(Default)]
struct Share {
    launches: usize,
    cells: usize,
    blocks: BTreeSet<usize>,
}

fn lines_of_pool(planned: &[(&Shard, &Hosts)]) -> Vec<String> {
    let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
    let mut listed: BTreeSet<usize> = BTreeSet::new();
    for (shard, hosts) in planned {
        if listed.insert(std::ptr::from_ref(*hosts).addr()) {
            for host in &hosts.hosts {
                shares.entry(&host.name).or_default();
            }
        }
        if let Some(home) = hosts.home(shard.turn) {
            let share = shares.entry(&home.name).or_default();
            share.launches += 1;
            share.cells += measured(shard);
            share.blocks.extend(shard.block);
        }
    }
    if shares.is_empty() {
        return Vec::new();
    }
    let cells = planned
        .iter()
        .map(|(shard, _)| measured(shard))
        .sum::<usize>();
    let mut lines = vec![format!(
        "pool: {} for {} on {}, each with one launch at a time",
        counted(planned.len(), "launch"),
        counted(cells, "measured cell"),
        counted(shares.len(), "host")
    )];
    for (name, share) in shares.iter().take(LISTED_HOSTS) {
        let blocks: Vec<String> = share.blocks.iter().map(ToString::to_string).collect();
        let of_blocks = match blocks.as_slice() {
            [] => String::new(),
            [block] => format!(" (block {block})"),
            blocks => format!(" (blocks {})", blocks.join(", ")),
        };
        lines.push(format!(
            "  {name}: {} with {}{of_blocks}",
            counted(share.launches, "launch"),
            counted(share.cells, "measured cell")
        ));
    }
    if shares.len() > LISTED_HOSTS {
        lines.push(format!(
            "  {}; `--json` lists them",
            counted(shares.len() - LISTED_HOSTS, "more host")
        ));
    }
    let counts: BTreeSet<usize> = shares.values().map(|share| share.blocks.len()).collect();
    lines.push(
        match (shares.len(), planned.iter().any(|(shard, _)| shard.block.is_some())) {
            (1, _) => return lines,
            (_, false) => {
                "  without blocks, all launches go to one host, so that no comparison depends on the host;                  `design: {blocks: N}` spreads replicates over the hosts"
            }
            (_, true) if counts.len() == 1 => {
                "  everything that a block compares is measured on one host, and every host has the same number of blocks"
            }
            (_, true) => {
                "  everything that a block compares is measured on one host; the hosts have different numbers of blocks"
            }
        }
        .to_owned(),
    );
    lines
}

/// Describes the shards that execute elsewhere, as one JSON document per kind of place.
pub(crate) fn json_of(shards: &[Shard]) -> BTreeMap<&'static str, Value> {
    let planned = planned(shards);
    let cells = |shard: &Shard| -> Vec<String> {
        let cells = shard.cells.iter();
        cells.map(|cell| cell.name.to_string()).collect()
    };
    let slurm = planned.slurm.iter().map(|job| {
        json!({
            "stage": job.shard.stage, "block": job.shard.block, "cells": cells(job.shard), "node": job.node,
            "options": job.options, "retries": job.shard.retries,
        })
    });
    let on_hosts = planned.on_hosts();
    let pool = on_hosts.iter().map(|(shard, hosts)| {
        json!({
            "stage": shard.stage, "block": shard.block, "cells": cells(shard), "host": hosts.home(shard.turn),
            "retries": shard.retries,
        })
    });
    let in_pods = planned.in_pods();
    let kubernetes = in_pods.iter().map(|(shard, asked)| {
        json!({
            "stage": shard.stage, "block": shard.block, "cells": cells(shard), "node": asked.node(shard.turn),
            "image": asked.image, "requests": asked.requests(), "limit": limit_of(shard, asked), "retries": shard.retries,
        })
    });
    let all = [
        ("slurm", slurm.collect::<Vec<_>>()),
        ("kubernetes", kubernetes.collect()),
        ("pool", pool.collect()),
    ];
    let some = all.into_iter().filter(|(_, jobs)| !jobs.is_empty());
    some.map(|(kind, jobs)| (kind, jobs.into())).collect()
}

impl From<ClusterError> for Stop {
    fn from(error: ClusterError) -> Self {
        let hint = error.hint();
        let stop = match error {
            ClusterError::Remote(error) => return error.into(),
            ClusterError::Pipeline(error) => return error.into(),
            ClusterError::Store(error) => return error.into(),
            error => Self::refused(&error),
        };
        match hint {
            Some(hint) => stop.hint(hint),
            None => stop,
        }
    }
}
