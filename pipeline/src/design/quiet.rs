//! How quiet a machine must be before a measurement.

use std::time::Duration;

use artifacts::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bound on a machine's other activity, and the action when it is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// The most running tasks per core that count as quiet.
    pub load: f64,
    /// How long a run waits for the machine to become quiet.
    pub wait: Duration,
    /// The action if the machine does not become quiet.
    pub otherwise: Otherwise,
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            load: 0.5,
            wait: Duration::ZERO,
            otherwise: Otherwise::Warn,
        }
    }
}

/// What a run does on a machine that is not quiet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Otherwise {
    /// Measures anyway. Prints a warning before the run, and notes it in the records and in the report.
    #[default]
    Warn,
    /// Measures nothing.
    Refuse,
}

/// A machine's other activity before a run measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The number of logical cores.
    pub cores: u32,
    /// The mean number of runnable tasks per core over the last minute.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load_per_core: Option<f64>,
    /// The share of processor time that other processes used during the check.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub busy_share: Option<f64>,
    /// The share of processor time that the hypervisor withheld during the check.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steal_share: Option<f64>,
    /// The processes that used the most processor time during the check, as `name (share of a core)`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub users: Vec<String>,
    /// The number of processes that hold GPU memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu_processes: Option<u32>,
}

/// The reasons why a machine is not quiet, as text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loud(pub Vec<String>);

/// The result of the check of the machine before a run measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// The last observation.
    pub seen: Surroundings,
    /// Why the machine is not quiet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loud: Option<String>,
    /// How long the run waited, in seconds.
    pub waited_s: f64,
}

/// How long a run pauses between two checks of a machine that is not quiet.
const PAUSE: Duration = Duration::from_secs(5);

/// The share of withheld time above which a machine is not quiet.
const STEAL: f64 = 0.02;

impl Quiet {
    /// Checks a machine until it is quiet or the wait is over. `pause` lets time pass and returns false if the user
    /// stopped the run.
    pub fn preflight(
        &self,
        look: &mut dyn FnMut() -> Surroundings,
        pause: &mut dyn FnMut(Duration, &Loud) -> bool,
    ) -> Preflight {
        let mut waited = Duration::ZERO;
        loop {
            let seen = look();
            let loud = self.judge(&seen).err();
            let left = self.wait.saturating_sub(waited).min(PAUSE);
            let again = match &loud {
                Some(loud) => !left.is_zero() && pause(left, loud),
                None => false,
            };
            if !again {
                return Preflight {
                    seen,
                    loud: loud.map(|loud| loud.to_string()),
                    waited_s: waited.as_secs_f64(),
                };
            }
            waited += left;
        }
    }

    /// Judges an observation of a machine. Values that could not be observed do not count against it.
    ///
    /// # Errors
    /// If the machine is not quiet, with every reason.
    pub fn judge(&self, seen: &Surroundings) -> Result<(), Loud> {
        let mut wrong = Vec::new();
        let bound = self.load;
        // The mean over a minute includes a build that has just ended; the busy share during the check does not. A high
        // load counts only if the machine is also busy at this moment.
        if let Some(load) = seen.load_per_core.filter(|load| *load > bound)
            && seen.busy_share.is_none_or(|busy| busy > bound)
        {
            wrong.push(format!(
                "{load:.2} running tasks for each core over the last minute (bound {bound})"
            ));
        } else if let Some(busy) = seen.busy_share.filter(|busy| *busy > bound) {
            wrong.push(format!(
                "other programs use {:.0} % of the processor (bound {:.0} %)",
                busy * 100.0,
                bound * 100.0
            ));
        }
        if let Some(steal) = seen.steal_share.filter(|steal| *steal > STEAL) {
            wrong.push(format!(
                "the hypervisor takes {:.1} % of the processor time",
                steal * 100.0
            ));
        }
        if !wrong.is_empty() && !seen.users.is_empty() {
            wrong.push(format!("busiest: {}", seen.users.join(", ")));
        }
        if let Some(count) = seen.gpu_processes.filter(|count| *count > 0) {
            let verb = if count == 1 { "holds" } else { "hold" };
            wrong.push(format!(
                "{} {verb} memory of a GPU",
                counted(count, "process")
            ));
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Loud(wrong))
        }
    }
}

impl std::fmt::Display for Loud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(load: f64, busy: f64) -> Surroundings {
        Surroundings {
            cores: 2,
            load_per_core: Some(load),
            busy_share: Some(busy),
            ..Surroundings::default()
        }
    }

    #[test]
    fn a_machine_is_loud_while_it_is_busy_and_not_because_it_was() {
        let quiet = Quiet::default();
        assert!(quiet.judge(&seen(0.1, 0.05)).is_ok());
        assert!(quiet.judge(&seen(4.0, 0.05)).is_ok());
        assert!(quiet.judge(&seen(0.1, 0.9)).is_err());
        let loud = quiet.judge(&seen(4.85, 1.0)).unwrap_err();
        assert!(loud.to_string().contains("4.85 running tasks"), "{loud}");
    }

    #[test]
    fn a_run_waits_until_the_machine_is_quiet_and_no_longer_than_declared() {
        let quiet = Quiet {
            wait: Duration::from_secs(12),
            ..Quiet::default()
        };
        let waits = |busy: &mut dyn FnMut() -> f64| {
            let mut pauses = Vec::new();
            let preflight = quiet.preflight(&mut || seen(0.0, busy()), &mut |pause, _| {
                pauses.push(pause.as_secs());
                true
            });
            (preflight, pauses)
        };
        let (preflight, pauses) = waits(&mut || 1.0);
        assert_eq!((pauses, preflight.waited_s), (vec![5, 5, 2], 12.0));
        assert!(preflight.loud.is_some());
        let mut load = [1.0, 0.9, 0.1].into_iter();
        let (preflight, pauses) = waits(&mut || load.next().unwrap());
        assert_eq!((pauses, preflight.loud), (vec![5, 5], None));
        let (_, pauses) = waits(&mut || 0.0);
        assert_eq!(pauses, Vec::<u64>::new());
        let usual = Quiet::default().preflight(&mut || seen(9.0, 1.0), &mut |_, _| panic!("waits"));
        assert!(usual.loud.is_some());
    }

    #[test]
    fn what_could_not_be_seen_is_not_held_against_a_machine() {
        assert!(Quiet::default().judge(&Surroundings::default()).is_ok());
    }

    #[test]
    fn time_withheld_and_foreign_gpu_processes_are_named() {
        let seen = Surroundings {
            steal_share: Some(0.1),
            users: vec!["cargo (1.9)".into()],
            gpu_processes: Some(2),
            ..Surroundings::default()
        };
        let loud = Quiet::default().judge(&seen).unwrap_err().to_string();
        assert_eq!(
            loud,
            "the hypervisor takes 10.0 % of the processor time; busiest: cargo (1.9); \
             2 processes hold memory of a GPU"
        );
    }
}
