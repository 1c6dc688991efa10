//! The cost of launches, and what happens when the budget is spent.

use std::collections::BTreeMap;

use artifacts::counted;
use pipeline::{AwayFailure, CellStatus, Shard};
use places::Terms;

use super::Cluster;
use crate::error::ClusterError;
use crate::journal::Job;

impl Cluster<'_> {
    /// Returns how long a launch has run, s.
    fn has_run(&self, job: &Job) -> f64 {
        let now = job.job.as_ref().map_or(0.0, |job| self.pool.has_run(job));
        now.max(job.seconds)
    }

    /// Returns the cost of the running launches by currency, given the duration of each.
    fn at_work(&self, seconds: impl Fn(&Job) -> f64) -> BTreeMap<String, f64> {
        let mut costs: BTreeMap<String, f64> = BTreeMap::new();
        for job in self.jobs.active() {
            if let Some(terms) = &job.terms {
                let cost = terms.cost(seconds(job));
                *costs.entry(terms.currency.clone()).or_default() += cost;
            }
        }
        costs
    }

    /// Returns what the running launches will have cost, by currency: their expected cost, or more.
    pub(super) fn committed(&self) -> BTreeMap<String, f64> {
        self.at_work(|job| self.has_run(job).max(job.expected))
    }

    /// Returns whether the budget permits another launch beside those running. A launch of unknown duration begins if
    /// any budget is left.
    pub(super) fn can_afford(
        &mut self,
        shard: &Shard,
        terms: Option<&Terms>,
        committed: &BTreeMap<String, f64>,
    ) -> Result<bool, ClusterError> {
        let Some(terms) = terms else {
            return Ok(true);
        };
        let spent = self.spent.in_currency(&terms.currency);
        let committed = committed.get(&terms.currency).copied();
        let left = terms.budget - spent - committed.unwrap_or_default();
        let expected = self.expect(shard)?;
        let fits = left > 0.0 && terms.cost(expected) <= left;
        if !fits {
            self.short = Some(format!(
                "the budget of {:.2} {} permits no further launch: {spent:.2} is spent, and one launch costs about {:.2}",
                terms.budget,
                terms.currency,
                terms.cost(expected)
            ));
        }
        Ok(fits)
    }

    /// Returns the expected duration of a launch, from earlier executions, s. A stage without any counts as 0.
    pub(super) fn expect(&mut self, shard: &Shard) -> Result<f64, ClusterError> {
        let (experiment, store) = (self.asked.experiment, self.asked.store);
        let mut stages = shard.cells.iter().map(|cell| cell.name.stage.as_str());
        let expected = self.durations.expect(experiment, store, &mut stages)?;
        Ok(expected.seconds)
    }

    /// Returns why launches must be stopped, if the budget is spent.
    pub(super) fn overspent(&self) -> Option<String> {
        let running = self.at_work(|job| self.has_run(job));
        let terms = self.jobs.active().filter_map(|job| job.terms.as_ref());
        let over = terms.into_iter().find_map(|terms| {
            let running = running.get(&terms.currency).copied();
            let spent = self.spent.in_currency(&terms.currency) + running.unwrap_or_default();
            (spent >= terms.budget).then_some((terms, spent))
        });
        let (terms, spent) = over?;
        Some(format!(
            "the budget of {:.2} {} is spent: {spent:.2}, with {} active",
            terms.budget,
            terms.currency,
            counted(self.jobs.active().len(), "machine")
        ))
    }

    /// Records that no machine executes some shards, and why. The next run continues with them.
    pub(super) fn skip<'s>(&mut self, shards: impl Iterator<Item = &'s Shard>, reason: &str) {
        for cell in shards.flat_map(|shard| &shard.cells) {
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
    }

    /// Updates how long an ended launch ran.
    pub(super) fn note_end(&mut self, index: usize) {
        let job = &self.jobs.jobs[index];
        if job.terms.is_none() {
            return;
        }
        let known_s = self.has_run(job);
        // The scheduler's accounting knows the duration better than the last look.
        let scheduler = job.scheduler().zip(job.job.as_ref());
        let account = scheduler.and_then(|(scheduler, number)| scheduler.account(number));
        let accounted_s = account.map(|state| state.has_run());
        // The start of a pod is known, and it has just ended.
        let since = job.kubernetes.as_ref().and(job.began).map(elapsed);
        let ran_s = accounted_s.or(since);
        self.jobs.jobs[index].seconds = known_s.max(ran_s.unwrap_or_default());
    }

    /// Adds the cost of an ended launch to what was spent.
    pub(super) fn charge(&mut self, index: usize) -> Result<(), ClusterError> {
        let job = &self.jobs.jobs[index];
        if let (Some(terms), Some(_)) = (&job.terms, &job.ended) {
            self.spent
                .note(&self.jobs.run, &job.name, job.seconds, terms)?;
        }
        Ok(())
    }
}

/// Returns the time since a moment (in seconds since 1970), s.
#[expect(
    clippy::disallowed_methods,
    reason = "Kubernetes reports the moment at which a pod began"
)]
fn elapsed(began: i64) -> f64 {
    let seconds = jiff::Timestamp::now().as_second().saturating_sub(began);
    u32::try_from(seconds).map_or(0.0, f64::from)
}
