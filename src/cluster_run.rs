//! What a run and a plan have to do with Slurm.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use ::cluster::{AT_ONCE, Asked, Came, Cluster, ClusterError, Slurm};
use artifacts::Store;
use pipeline::{Class, Permit, PlanOptions, Shard};
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::session::Session;
use crate::shared::{Shared, chosen_name};
use crate::terminal::complain;

/// Options that may differ between the jobs of one study are listed up to here.
const LISTED: usize = 4;

/// How a run goes on.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    /// With other shards when one fails.
    pub(crate) keep_going: bool,
    /// Raised to stop.
    pub(crate) cancelled: &'a AtomicBool,
    /// Whether to say nothing of jobs.
    pub(crate) quiet: bool,
}

/// Has Slurm's machines execute what is placed there; `None` if nothing is.
///
/// # Errors
/// If the study cannot be planned, or a store or Slurm refuses.
#[expect(
    clippy::disallowed_methods,
    reason = "programs are looked up on the search path"
)]
pub(crate) fn execute(
    session: &Session,
    store: &Store,
    shared: &Shared,
    options: &PlanOptions,
    permit: &Permit,
    how: How<'_>,
) -> Result<Option<Came>, Stop> {
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
            .map_err(|e| Stop::machine(format!("this program's own file is not found: {e}")))?,
        path: std::env::var_os("PATH").unwrap_or_default(),
    };
    match Cluster::open(asked)? {
        Some(cluster) => Ok(Some(cluster.run()?)),
        None => Ok(None),
    }
}

/// A shard, and what its job asks of Slurm.
struct Planned<'a> {
    shard: &'a Shard,
    slurm: Slurm,
    node: Option<String>,
    options: Vec<String>,
}

fn planned(shards: &[Shard]) -> Vec<Planned<'_>> {
    let read = |(i, shard): (usize, &'_ Shard)| {
        // The settings were checked when the experiment was read.
        let slurm: Slurm = serde_json::from_value(shard.placement.clone()).unwrap_or_default();
        let node = slurm.node(shard.block.unwrap_or(i + 1)).map(str::to_owned);
        (slurm, node)
    };
    let shards = shards.iter().enumerate();
    shards
        .map(|(i, shard)| {
            let (slurm, node) = read((i, shard));
            Planned {
                options: slurm.options(node.as_deref(), shard.timeout),
                shard,
                slurm,
                node,
            }
        })
        .collect()
}

fn measured(shard: &Shard) -> usize {
    let measured = shard.cells.iter().filter(|c| c.class == Class::Measurement);
    measured.count()
}

/// Returns what a plan asks of Slurm, as lines for people.
pub(crate) fn lines(shards: &[Shard]) -> Vec<String> {
    let planned = planned(shards);
    if planned.is_empty() {
        return Vec::new();
    }
    let at_once = planned
        .iter()
        .map(|p| p.slurm.at_once.unwrap_or(AT_ONCE))
        .max();
    let cells: usize = shards.iter().map(measured).sum();
    let one = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let mut lines = vec![format!(
        "Slurm: {} for {}, at most {} at once",
        one(planned.len(), "job"),
        one(cells, "measured cell"),
        at_once.unwrap_or(AT_ONCE)
    )];
    let mut commands: BTreeMap<String, usize> = BTreeMap::new();
    for job in &planned {
        *commands.entry(job.options.join(" ")).or_default() += 1;
    }
    for (options, count) in commands.iter().take(LISTED) {
        lines.push(format!("  {}: sbatch {options}", one(*count, "job")));
    }
    if commands.len() > LISTED {
        lines.push(format!(
            "  {} more kinds of jobs; `--json` has them",
            commands.len() - LISTED
        ));
    }
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in planned.iter().filter_map(|p| p.node.as_deref()) {
        *hosts.entry(node).or_default() += 1;
    }
    if hosts.is_empty() {
        lines.push(
            "  Slurm chooses a machine for each launch; `nodes: [NAME, …]` keeps what a block compares on one"
                .to_owned(),
        );
    } else {
        let spread = hosts.iter().map(|(node, count)| format!("{node} {count}"));
        lines.push(format!(
            "  launches on machines: {}",
            spread.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}

/// Returns what a plan asks of Slurm, as a document.
pub(crate) fn json_of(shards: &[Shard]) -> Value {
    let planned = planned(shards);
    let jobs = planned.iter().map(|job| {
        let cells: Vec<String> = job
            .shard
            .cells
            .iter()
            .map(|cell| cell.name.to_string())
            .collect();
        json!({
            "stage": job.shard.stage, "block": job.shard.block, "cells": cells, "node": job.node,
            "options": job.options, "retries": job.shard.retries,
        })
    });
    jobs.collect()
}

impl From<ClusterError> for Stop {
    fn from(error: ClusterError) -> Self {
        let hint = error.hint();
        let stop = match error {
            ClusterError::Remote(error) => return error.into(),
            ClusterError::Pipeline(error) => return error.into(),
            ClusterError::Store(error) => return error.into(),
            error => Self::machine(error),
        };
        match hint {
            Some(hint) => stop.hint(hint),
            None => stop,
        }
    }
}
