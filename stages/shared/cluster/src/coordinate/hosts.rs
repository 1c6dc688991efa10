//! Shards on hosts of a pool: which host, how it is, and what becomes of a shard whose host was lost.

use pipeline::Shard;
use pipeline::place::WrittenCell;
use places::{Hosts, NamedHost};

use super::{Cluster, cells_text};
use crate::document::Ended;
use crate::error::ClusterError;
use crate::pool::{AWAY, Errand, LEFT, LOST, RUNNING, UNREACHABLE};
use crate::queue::{JobState, Phase};

/// How often it is noted how long a launch that costs money has run, s: so much is not counted if this run is killed.
const NOTED: f64 = 30.0;

/// How often a shard goes on elsewhere after its host was lost or could not be reached.
const MOVES: usize = 3;

impl Cluster<'_> {
    /// Returns the host that a shard goes to now: its own, or another one if that was lost; `None` if it has to wait.
    pub(super) fn free_host(&self, pool: &Hosts, shard: &Shard) -> Option<NamedHost> {
        let home = pool.home(shard.turn)?;
        if self.pool.is_free(&home.name) {
            return Some(home.clone());
        }
        // A host that is at work is waited for: what is compared stays on the same hosts.
        if !self.pool.is_away(&home.name) {
            return None;
        }
        let mut turns = pool.turns(shard.turn);
        turns.find(|host| self.pool.is_free(&host.name)).cloned()
    }

    /// Has a host execute a shard.
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
        self.file.write(&self.jobs)?;
        (self.asked.tell)(&line);
        Ok(())
    }

    /// Notes that what an earlier run had on hosts ended with that run.
    pub(super) fn let_go(&mut self) -> Result<(), ClusterError> {
        let mut count = 0;
        for job in &mut self.jobs.jobs {
            if let (Some(host), None) = (&job.host, &job.ended) {
                job.ended = Some(Ended {
                    job: job.job.clone().unwrap_or_default(),
                    state: LEFT.to_owned(),
                    reason: "the run that looked after it ended".to_owned(),
                    node: host.name.clone(),
                    ..Ended::default()
                });
                count += 1;
            }
        }
        if count == 0 {
            return Ok(());
        }
        self.charge_all()?;
        (self.asked.tell)(&format!(
            "an earlier run ended with {} at work; what they had measured is taken in, and the rest goes on",
            super::counted(count, "host")
        ));
        self.file.write(&self.jobs)
    }

    /// Looks how the hosts are; returns whether a shard ended.
    pub(super) fn look_at_hosts(&mut self) -> Result<bool, ClusterError> {
        let mut ended = false;
        for state in self.pool.jobs() {
            let of_state = |job: &crate::journal::Job| job.job.as_deref() == Some(&state.job);
            let Some(index) = self.jobs.jobs.iter().position(of_state) else {
                continue;
            };
            let is_over = state.phase() == Phase::Over;
            if is_over {
                self.pool.heard(&state.job, &state.state);
                let entry = &mut self.jobs.jobs[index];
                entry.elapsed.clone_from(&state.elapsed);
                entry.waited.clone_from(&state.waited);
            }
            let has_run = state.has_run();
            let entry = &mut self.jobs.jobs[index];
            let is_late = entry.terms.is_some() && has_run > entry.seconds + NOTED;
            if is_late || is_over {
                entry.seconds = has_run;
            }
            if is_late {
                self.file.write(&self.jobs)?;
            }
            if self.jobs.jobs[index].ended.is_some() {
                continue;
            }
            if !is_over {
                self.note_host(index, state)?;
                continue;
            }
            // The end may have been put after the last look, and before the connection ended.
            self.take_in()?;
            self.look_for_ends()?;
            if self.jobs.jobs[index].ended.is_none() {
                self.ended_early(index, &state)?;
            }
            ended = true;
        }
        Ok(ended)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "another process tells from it how long a shard has run"
    )]
    fn note_host(&mut self, index: usize, state: JobState) -> Result<(), ClusterError> {
        let entry = &mut self.jobs.jobs[index];
        if entry.state == state.state {
            return Ok(());
        }
        if state.state == RUNNING {
            entry.began = Some(jiff::Timestamp::now().as_second());
        }
        entry.state = state.state;
        entry.node = state.node;
        entry.waited = state.waited;
        self.file.write(&self.jobs)
    }

    /// Tells whether a shard that ended early goes on, and in which words it ended.
    pub(super) fn end_of_host(
        &self,
        index: usize,
        state: &JobState,
        reason: &str,
    ) -> (bool, String) {
        let entry = &self.jobs.jobs[index];
        let cells: std::collections::BTreeSet<WrittenCell> =
            entry.cells.iter().map(|c| c.name.clone()).collect();
        let before = |states: &[&str]| {
            let jobs = self.jobs.jobs.iter();
            jobs.filter(|job| job.cells.iter().any(|c| cells.contains(&c.name)))
                .filter_map(|job| job.ended.as_ref())
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

/// Returns what to do about a host that ended a shard early.
pub(super) fn hint(state: &str, node: &str) -> Option<String> {
    match state {
        UNREACHABLE | LOST => Some(format!(
            "`ssh` must reach {node} without a question; look at what it printed, or leave it out of `hosts`"
        )),
        _ => None,
    }
}
