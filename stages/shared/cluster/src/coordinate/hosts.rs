//! Shards on hosts of a pool: the choice of a host, its state, and shards whose host was lost.

use artifacts::counted;
use pipeline::Shard;
use places::{Hosts, NamedHost};

use super::{Cluster, Search, cells_text};
use crate::document::Ended;
use crate::error::ClusterError;
use crate::journal::index_of;
use crate::pool::{AWAY, Errand, LEFT, LOST, RUNNING, UNREACHABLE};
use crate::queue::{JobPhase, JobState};

/// How often the running time of a launch that costs money is written, s. If this run is killed, up to this much is not
/// counted.
const NOTED: f64 = 30.0;

/// How often a shard moves to another host after its host was lost or could not be reached.
pub(super) const MOVES: usize = 3;

impl Cluster<'_> {
    /// Returns the number of free hosts of a pool.
    pub(super) fn free_hosts(&self, pool: &Hosts) -> usize {
        let free = pool.hosts.iter().filter(|h| self.pool.is_free(&h.name));
        free.count()
    }

    /// Returns the host for a shard now: its own, or another one if its own was lost; `None` if the shard must wait.
    pub(super) fn free_host(&self, pool: &Hosts, shard: &Shard) -> Option<NamedHost> {
        let home = pool.home(shard.turn)?;
        if self.pool.is_free(&home.name) {
            return Some(home.clone());
        }
        // Wait for a busy host, so that compared cells stay on the same hosts.
        if !self.pool.is_away(&home.name) {
            return None;
        }
        let mut turns = pool.turns(shard.turn);
        turns.find(|host| self.pool.is_free(&host.name)).cloned()
    }

    /// Starts a shard on a host.
    pub(super) fn ask_host(&mut self, index: usize, host: NamedHost) -> Result<(), ClusterError> {
        let entry = &self.jobs.jobs[index];
        let log = self.file.log(&self.jobs.run, &entry.name);
        let line = format!("host {}: {}", host.name, cells_text(&entry.cells));
        let errand = Errand {
            url: self.asked.remote.url().to_owned(),
            run: self.jobs.run.clone(),
            shard: entry.name.clone(),
            config: entry.config.clone(),
            host,
            log,
        };
        let job = self.pool.start(errand);
        self.jobs.jobs[index].job = Some(job);
        self.note([index])?;
        (self.asked.tell)(&line);
        Ok(())
    }

    /// Records that an earlier run's work on hosts ended with that run.
    pub(super) fn let_go(&mut self) -> Result<(), ClusterError> {
        let mut left = Vec::new();
        for index in self.jobs.active_indices() {
            let job = &self.jobs.jobs[index];
            if let Some(host) = &job.host {
                let ended = Ended {
                    job: job.job.clone().unwrap_or_default(),
                    state: LEFT.to_owned(),
                    reason: "the run that supervised it ended".to_owned(),
                    node: host.name.clone(),
                    ..Ended::default()
                };
                self.jobs.end(index, ended);
                self.charge(index)?;
                left.push(index);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        (self.asked.tell)(&format!(
            "an earlier run ended with {} active; their measurements are kept, and the rest continues",
            counted(left.len(), "host")
        ));
        self.note(left)
    }

    /// Looks at the hosts; returns whether a shard ended.
    pub(super) fn look_at_hosts(&mut self) -> Result<bool, ClusterError> {
        let mut over = Vec::new();
        for state in self.pool.jobs() {
            let is_over = state.phase() == JobPhase::Over;
            if is_over {
                self.pool.heard(&state.job, &state.state);
            }
            let Some(index) = index_of(&state.name) else {
                continue;
            };
            let Some(entry) = self.jobs.jobs.get_mut(index) else {
                continue;
            };
            let has_run = state.has_run();
            let is_late = entry.terms.is_some() && has_run > entry.seconds + NOTED;
            if is_late || is_over {
                entry.seconds = has_run;
            }
            if is_over {
                entry.elapsed.clone_from(&state.elapsed);
                entry.waited.clone_from(&state.waited);
            }
            if is_late {
                self.changed.insert(index);
            }
            match (&self.jobs.jobs[index].ended, is_over) {
                (Some(_), _) => {}
                (None, true) => over.push((index, state)),
                (None, false) => self.note_host(index, state),
            }
        }
        if over.is_empty() {
            return Ok(false);
        }
        // The end may have been put after the last look, but before the connection ended.
        self.look_for_ends()?;
        over.retain(|(index, _)| self.jobs.jobs[*index].ended.is_none());
        if !over.is_empty() {
            self.take_in(Search::Listed)?;
        }
        for (index, state) in over {
            self.ended_early(index, &state)?;
        }
        Ok(true)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "another process computes from it how long a shard has run"
    )]
    fn note_host(&mut self, index: usize, state: JobState) {
        let entry = &mut self.jobs.jobs[index];
        if entry.state == state.state {
            return;
        }
        if state.state == RUNNING {
            entry.began = Some(jiff::Timestamp::now().as_second());
        }
        entry.state = state.state;
        entry.node = state.node;
        entry.waited = state.waited;
        self.changed.insert(index);
    }

    /// Returns whether a shard that ended early is retried, and a description of its end.
    pub(super) fn end_of_host(
        &self,
        index: usize,
        state: &JobState,
        reason: &str,
    ) -> (bool, String) {
        let entry = &self.jobs.jobs[index];
        let before = |states: &[&str]| {
            let jobs = self.jobs.with_cells(&entry.cells);
            jobs.filter_map(|job| job.ended.as_ref())
                .filter(|ended| states.contains(&ended.state.as_str()))
                .count()
        };
        let host = &state.node;
        match state.state.as_str() {
            away if AWAY.contains(&away) => {
                let what = match away {
                    LOST => format!("the host {host} was lost ({reason})"),
                    _ => format!("the host {host} could not be reached ({reason})"),
                };
                let moves = before(&AWAY);
                let what = match moves {
                    0 => what,
                    n => format!("{what} at attempt {}", n + 1),
                };
                (moves < MOVES, what)
            }
            other => {
                let again = before(&["FAILED"]) < entry.retries as usize;
                let what = match other {
                    "CANCELLED" => format!("what the host {host} executed was stopped"),
                    _ => format!("what the host {host} executed ended early ({reason})"),
                };
                (again, what)
            }
        }
    }
}

/// Returns advice about a host that ended a shard early.
pub(super) fn hint(state: &str, node: &str) -> Option<String> {
    match state {
        UNREACHABLE | LOST => Some(format!(
            "`ssh` must reach {node} without a prompt; check its output, or remove it from `hosts`"
        )),
        _ => None,
    }
}
