//! What launches cost, and what happens when the budget is spent.

use pipeline::{AwayFailure, CellStatus, Shard};
use places::Terms;

use super::{Cluster, counted};
use crate::error::ClusterError;

impl Cluster<'_> {
    /// Returns what the launches that are at work have cost so far, in a currency.
    fn running(&self, currency: &str) -> f64 {
        let terms = self
            .active()
            .filter_map(|job| Some((job, job.terms.as_ref()?)));
        let own = terms.filter(|(_, terms)| terms.currency == currency);
        own.map(|(job, terms)| terms.cost(self.has_run(job))).sum()
    }

    /// Returns how long a launch has run, s.
    fn has_run(&self, job: &crate::journal::Job) -> f64 {
        let states = self.pool.jobs();
        let state = states
            .iter()
            .find(|state| Some(&state.job) == job.job.as_ref());
        let now = state.map_or(0.0, crate::queue::JobState::has_run);
        now.max(job.seconds)
    }

    /// Tells whether the budget permits a launch. One that nobody knows the length of begins if something is left.
    pub(super) fn can_afford(&mut self, shard: &Shard, terms: Option<&Terms>) -> bool {
        let Some(terms) = terms else {
            return true;
        };
        let spent = self.spent.in_currency(&terms.currency);
        let mut left = terms.budget - spent;
        // Those at work cost what is expected of them, or more.
        for job in self.jobs.jobs.iter().filter(|job| job.ended.is_none()) {
            if let Some(theirs) = job.terms.as_ref().filter(|t| t.currency == terms.currency) {
                left -= theirs.cost(self.has_run(job).max(job.expected));
            }
        }
        let expected = self.expect(shard);
        let fits = left > 0.0 && terms.cost(expected) <= left;
        if !fits {
            self.short = Some(format!(
                "the budget of {:.2} {} permits no other launch: {spent:.2} spent, and one costs about {:.2}",
                terms.budget,
                terms.currency,
                terms.cost(expected)
            ));
        }
        fits
    }

    /// Returns how long a launch takes by earlier executions, s; of a stage without any, nothing is counted.
    pub(super) fn expect(&mut self, shard: &Shard) -> f64 {
        let (experiment, store) = (self.asked.experiment, self.asked.store);
        self.durations.expect(experiment, store, shard).seconds
    }

    /// Tells why launches must be stopped: the budget is spent.
    pub(super) fn overspent(&self) -> Option<String> {
        let terms = self.active().filter_map(|job| job.terms.as_ref());
        let over = terms.into_iter().find_map(|terms| {
            let spent = self.spent.in_currency(&terms.currency) + self.running(&terms.currency);
            (spent >= terms.budget).then_some((terms, spent))
        });
        let (terms, spent) = over?;
        Some(format!(
            "the budget of {:.2} {} is spent: {spent:.2}, with {} at work",
            terms.budget,
            terms.currency,
            counted(self.active().count(), "machine")
        ))
    }

    /// Notes that no machine executes some shards, and why. The next run goes on with them.
    pub(super) fn skip(&mut self, shards: &[Shard], reason: &str) -> Result<(), ClusterError> {
        for cell in shards.iter().flat_map(|shard| &shard.cells) {
            let place = cell.name.clone();
            if self.elsewhere.records.contains_key(&place) {
                continue;
            }
            let failure = AwayFailure {
                status: CellStatus::Skipped,
                reason: reason.to_owned(),
                hint: Some(
                    "raise `budget` in `place`, and run again: nothing is measured twice"
                        .to_owned(),
                ),
                evidence: Vec::new(),
            };
            self.elsewhere.failures.insert(place, failure);
        }
        self.file.write(&self.jobs)
    }

    /// Takes over how long a launch ran until its end.
    pub(super) fn note_end(&mut self, index: usize) {
        let job = &self.jobs.jobs[index];
        if job.terms.is_none() {
            return;
        }
        let known = self.has_run(job);
        // Slurm knows it better than the last look.
        let told = match (&job.host, &job.job) {
            (None, Some(number)) => self.queue.account(number).map(|state| state.has_run()),
            _ => None,
        };
        self.jobs.jobs[index].seconds = known.max(told.unwrap_or_default());
    }

    /// Counts what a launch that has ended cost.
    pub(super) fn charge(&mut self, index: usize) -> Result<(), ClusterError> {
        let job = &self.jobs.jobs[index];
        if let (Some(terms), Some(_)) = (&job.terms, &job.ended) {
            self.spent
                .note(&self.jobs.run, &job.name, job.seconds, terms)?;
        }
        Ok(())
    }

    /// Counts what all launches that have ended cost.
    pub(super) fn charge_all(&mut self) -> Result<(), ClusterError> {
        (0..self.jobs.jobs.len()).try_for_each(|index| self.charge(index))
    }
}
