//! Schedulers: how the coordinator submits jobs to them, and learns the state of the jobs.

mod command;
mod kubernetes;
mod pods;
mod slurm;

use std::collections::BTreeMap;

use places::Placement;

use crate::error::ClusterError;

pub(crate) use kubernetes::Target;
pub(crate) use slurm::submit as submit_to_slurm;

/// What the state of a job means for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPhase {
    /// It waits, runs, or is being ended.
    Active,
    /// It has ended, well or not.
    Over,
}

/// The state of a job. States have the names that Slurm gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobState {
    /// The job's number.
    pub(crate) job: String,
    /// The name that we gave the job.
    pub(crate) name: String,
    /// The job's state, such as `RUNNING` or `OUT_OF_MEMORY`.
    pub(crate) state: String,
    /// Why the job is in this state; empty if the scheduler gives no reason.
    pub(crate) reason: String,
    /// The machine; empty while the job waits.
    pub(crate) node: String,
    /// How long the job has run, as Slurm formats it.
    pub(crate) elapsed: String,
    /// How long the job waited in the queue, or the time since which it waits; empty if unknown.
    pub(crate) waited: String,
    /// How long the job has run, s, if known more exactly.
    pub(crate) seconds: Option<f64>,
    /// When the job began to run, in seconds since 1970, if known.
    pub(crate) began: Option<i64>,
    /// Whether the job may never start.
    pub(crate) trouble: Trouble,
    /// The scheduler's report about the job, if it comes with the state.
    pub(crate) details: BTreeMap<String, String>,
}

/// Whether a job that has not started may never start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It waits as usual, or it has started.
    #[default]
    None,
    /// No machine suits it now. The user may want to know why.
    Waits,
    /// It has a machine but does not start there, for example because its image does not exist.
    Stuck,
}

impl JobState {
    /// Returns how long the job has run, s.
    pub(crate) fn has_run(&self) -> f64 {
        let elapsed = || crate::budget::seconds_of(&self.elapsed);
        self.seconds.or_else(elapsed).unwrap_or_default()
    }
}

impl JobState {
    /// Returns what the state means.
    pub(crate) fn phase(&self) -> JobPhase {
        phase(&self.state)
    }
}

/// Returns what a state means. An unknown state, such as one of a later version of Slurm, counts as active. A job is
/// over only if its scheduler reports that, or no longer knows the job.
fn phase(state: &str) -> JobPhase {
    const OVER: [&str; 14] = [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        // Kubernetes sets this reason; here it is a state.
        "EVICTED",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
        // The states of a pool's shards.
        crate::pool::UNREACHABLE,
        crate::pool::LOST,
    ];
    match OVER.contains(&state) {
        true => JobPhase::Over,
        false => JobPhase::Active,
    }
}

/// A scheduler that executes shards as jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheduler {
    /// Slurm, through its commands.
    Slurm,
    /// A namespace of a Kubernetes cluster, through `kubectl`.
    Kubernetes(Target),
}

/// A scheduler that did not answer: the result is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// The command that got no answer.
    pub(crate) command: &'static str,
    /// The command's message; empty if the command says enough.
    pub(crate) said: String,
}

/// The answer of a scheduler, if it answered.
pub(crate) type Heard<T> = Result<T, Silence>;

impl Scheduler {
    /// Returns the scheduler of a placement; `None` for a pool of hosts.
    pub(crate) fn of(placement: &Placement) -> Option<Self> {
        match placement {
            Placement::Slurm(_) => Some(Self::Slurm),
            Placement::Kubernetes(kubernetes) => Some(Self::Kubernetes(Target::of(kubernetes))),
            Placement::Pool(_) => None,
        }
    }

    /// Returns the scheduler's name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Slurm => "Slurm",
            Self::Kubernetes(_) => "Kubernetes",
        }
    }

    /// Returns the part of the scheduler that answers its commands.
    pub(crate) fn server(&self) -> &'static str {
        match self {
            Self::Slurm => "Slurm's controller",
            Self::Kubernetes(_) => "the API server of Kubernetes",
        }
    }

    /// Returns the name of evidence about a job. It is also the key in `place`.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Kubernetes(_) => "kubernetes",
        }
    }

    /// Returns the programs that must be on the search path.
    pub(crate) fn programs(&self) -> &'static [&'static str] {
        match self {
            Self::Slurm => &["sbatch", "squeue", "scancel"],
            Self::Kubernetes(_) => &["kubectl"],
        }
    }

    /// Checks that the scheduler answers before anything is submitted, if a wrong configuration is likely.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn greet(&self) -> Result<(), ClusterError> {
        match self {
            Self::Slurm => Ok(()),
            Self::Kubernetes(target) => target.greet(),
        }
    }

    /// Returns the state and the reason of a job that the scheduler no longer knows.
    pub(crate) fn forgotten(&self) -> (&'static str, &'static str) {
        match self {
            Self::Slurm => ("UNKNOWN", "Slurm no longer knows it"),
            Self::Kubernetes(_) => ("CANCELLED", "somebody deleted the Job"),
        }
    }

    /// Returns the jobs of a run that the scheduler knows, including recently ended ones. Slurm returns the jobs of all runs.
    ///
    /// # Errors
    /// If the scheduler's command cannot be started or refuses.
    pub(crate) fn jobs(&self, run: &str) -> Result<Heard<Vec<JobState>>, ClusterError> {
        match self {
            Self::Slurm => slurm::jobs(),
            Self::Kubernetes(target) => target.jobs(run),
        }
    }

    /// Returns the accounting data of a job that the scheduler's queue has forgotten, if accounting knows the job.
    pub(crate) fn account(&self, job: &str) -> Option<JobState> {
        match self {
            Self::Slurm => slurm::account(job),
            Self::Kubernetes(_) => None,
        }
    }

    /// Returns everything that the scheduler reports about a job.
    pub(crate) fn details(&self, state: &JobState) -> BTreeMap<String, String> {
        match self {
            Self::Slurm => slurm::details(&state.job),
            Self::Kubernetes(_) => state.details.clone(),
        }
    }

    /// Cancels jobs; returns false if the scheduler does not answer.
    ///
    /// # Errors
    /// If the scheduler's command cannot be started.
    pub(crate) fn cancel(&self, jobs: &[String]) -> Result<bool, ClusterError> {
        if jobs.is_empty() {
            return Ok(true);
        }
        match self {
            Self::Slurm => slurm::cancel(jobs),
            Self::Kubernetes(target) => target.delete(jobs),
        }
    }
}

/// Returns a command line for messages.
pub(crate) fn line(program: &str, arguments: &[String]) -> String {
    let word = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    let words: Vec<String> = arguments.iter().map(word).collect();
    format!("{program} {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_over_only_in_a_state_that_says_so() {
        for state in [
            "PENDING",
            "RUNNING",
            "COMPLETING",
            "REQUEUED",
            "REQUEUE_HOLD",
            "SUSPENDED",
            "NEWER_STATE",
        ] {
            assert_eq!(phase(state), JobPhase::Active, "{state}");
        }
        for state in [
            "COMPLETED",
            "NODE_FAIL",
            "PREEMPTED",
            "DEADLINE",
            "BOOT_FAIL",
        ] {
            assert_eq!(phase(state), JobPhase::Over, "{state}");
        }
    }
}
