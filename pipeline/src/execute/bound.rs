//! One measurement or resource: the resources it needs alive, its attempts, and its result.

use std::collections::BTreeMap;

use artifacts::ActionKey;

use super::attempt::{Attempts, Finished, attempt, fail, succeed};
use super::drive::Executor;
use super::live::{Alive, resources_of};
use crate::error::PipelineError;
use crate::event::Event;
use crate::ids::CellId;
use crate::name::OutputName;
use crate::plan::{Outcome, State};
use crate::stage::{Artifact, CellStatus, Class, Failure};

impl Executor<'_, '_> {
    /// Executes a measurement or a resource.
    pub(super) fn bound(&mut self, cell: CellId) -> Result<(), PipelineError> {
        let State::Ready(key) = self.session.states[cell] else {
            return Ok(());
        };
        if self.answered(cell, key)? {
            return Ok(());
        }
        if self.session.graph.placement(cell).is_some() {
            return self.not_here(cell, key);
        }
        let needed = resources_of(&self.session.graph, cell);
        if let Some(reason) = needed.iter().find_map(|r| self.dead.get(r)) {
            let outcome = Outcome::skipped(reason.as_str());
            return self.settle_without_executing(cell, outcome, None);
        }
        self.release_idle(&needed)?;
        if !self.enter_launch(cell)? {
            self.interrupt();
            return Ok(());
        }
        match self.ensure_live(cell)? {
            Alive::Yes => {}
            Alive::Replanned => return Ok(()),
            Alive::No {
                resource,
                failure,
                evidence,
            } => {
                return self.not_alive(cell, key, &resource, failure, evidence);
            }
        }
        let resource = self.session.graph.class(cell) == Class::Resource;
        if resource {
            self.make_room(cell, &needed)?;
        }
        let exclusive = self.exclusive_names(cell);
        if !self
            .exclusives
            .acquire(&exclusive, &self.context.cancelled, self.context.listener)?
        {
            self.interrupt();
            return Ok(());
        }
        // Another run may have measured this cell while this one waited for the machine.
        if self.answered(cell, key)? {
            self.exclusives.release(&exclusive);
            return Ok(());
        }
        self.commit()?;
        let result = self.attempts(cell, key);
        match result {
            Ok(Some(mut finished)) => {
                let lease = finished.lease.take();
                let record = finished.commit.record;
                self.finish(finished)?;
                match lease {
                    Some(lease) if resource => self.adopt(cell, lease, exclusive, record),
                    Some(lease) => {
                        lease.release();
                        self.exclusives.release(&exclusive);
                    }
                    None => self.exclusives.release(&exclusive),
                }
                Ok(())
            }
            Ok(None) => {
                self.exclusives.release(&exclusive);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Settles a ready cell with the result that another run has entered meanwhile, if any.
    pub(super) fn answered(&mut self, cell: CellId, key: ActionKey) -> Result<bool, PipelineError> {
        let Some(outcome) = self.session.ask_again(cell, key)? else {
            return Ok(false);
        };
        (self.context.listener)(&Event::CellEnded {
            cell: self.session.graph.name(cell),
            stage: self.session.graph.stage_name(cell).to_owned(),
            status: outcome.status(),
            reason: None,
            hint: None,
            seconds: 0.0,
            cached: true,
        });
        self.session.settle(cell, outcome)?;
        self.take_in_left(cell)?;
        self.collect();
        Ok(true)
    }

    /// Tries until the cell is ok or its retries are used up; `None` if it was planned again or settled otherwise
    /// meanwhile.
    fn attempts(
        &mut self,
        cell: CellId,
        key: ActionKey,
    ) -> Result<Option<Finished>, PipelineError> {
        if self.session.graph.class(cell) == Class::Resource {
            (self.context.listener)(&Event::ResourceStarted {
                cell: self.session.graph.name(cell),
            });
            self.resource_starts += 1;
        }
        let mut task = self.task(cell, key);
        let mut attempts = Attempts::new();
        loop {
            task.connect(&self.session.graph, |c| self.live.json(c));
            task.watches = self.watches(cell);
            let (result, seconds) = attempt(&self.context, &task, &attempts)?;
            // Figures taken while a server was dying are not a measurement of it.
            let result = match result {
                Ok(mut done) => match self.died_meanwhile(cell) {
                    Some(failure) => {
                        if let Some(lease) = done.lease.take() {
                            lease.release();
                        }
                        Err(failure)
                    }
                    None => Ok(done),
                },
                // An unreachable server is a symptom; its lost machine, or how it ended, is the cause.
                Err(mut failure) if failure.status != CellStatus::Interrupted => {
                    if let Some(cause) = task.watches.iter().find_map(|watch| watch().err()) {
                        failure.reason = cause.reason;
                    } else if let Some(cause) = self.died_meanwhile(cell) {
                        failure.reason = format!("{}; {}", cause.reason, failure.reason);
                        failure.hint = cause.hint.or(failure.hint);
                    }
                    Err(failure)
                }
                failed => failed,
            };
            match result {
                Ok(done) => {
                    return succeed(&self.context, &task, attempts, done, seconds).map(Some);
                }
                Err(mut failure) => {
                    if !attempts.again(&self.context, &task, &mut failure, seconds)? {
                        return fail(&self.context, &task, attempts, failure).map(Some);
                    }
                }
            }
            // The failure may come from a resource: check it, and start it again if it died.
            match self.ensure_live(cell)? {
                Alive::Yes => {}
                Alive::Replanned => return Ok(None),
                Alive::No {
                    resource,
                    failure,
                    evidence,
                } => {
                    self.not_alive(cell, key, &resource, failure, evidence)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Settles a cell that could not execute because a resource did not come up. The failure belongs to the cell. The
    /// resource's descriptor stays valid, and other cells that need it are skipped.
    fn not_alive(
        &mut self,
        cell: CellId,
        key: ActionKey,
        resource: &str,
        failure: Failure,
        evidence: BTreeMap<OutputName, Artifact>,
    ) -> Result<(), PipelineError> {
        let reason = format!("`{resource}` did not start: {}", failure.reason);
        let needed = resources_of(&self.session.graph, cell);
        if failure.status == CellStatus::Interrupted {
            self.interrupt();
        } else if let Some(dead) = needed
            .into_iter()
            .find(|r| self.session.graph.name(*r) == resource)
        {
            self.dead.insert(dead, reason.clone());
        }
        self.evidence.insert(cell, evidence);
        let outcome = Outcome::Not {
            status: failure.status,
            reason: reason.into(),
            key: Some(key),
            record: None,
        };
        self.settle_without_executing(cell, outcome, failure.hint)
    }

    pub(super) fn settle_without_executing(
        &mut self,
        cell: CellId,
        outcome: Outcome,
        hint: Option<String>,
    ) -> Result<(), PipelineError> {
        // The reason still holds if everything is planned again.
        self.session.fixed.insert(cell, outcome.clone());
        self.ended(cell, &outcome, hint, 0.0);
        self.session.settle(cell, outcome)?;
        self.collect();
        Ok(())
    }
}
