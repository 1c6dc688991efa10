//! Slurm's commands: their arguments and their output.

use std::collections::BTreeMap;
use std::process::Command;

use super::command::{LIMITS, Ran, run, shortened};
use super::{Heard, JobState, Silence, line};
use crate::error::ClusterError;

/// The columns of each job in `squeue`'s output.
const SQUEUE_FORMAT: &str = "%i|%j|%T|%r|%N|%M|%V|%S";

/// The columns of each job in `sacct`'s output.
const SACCT_FORMAT: &str = "JobIDRaw,JobName,State,Reason,NodeList,Elapsed,ExitCode";

/// Parses the lines of `squeue`.
pub(crate) fn parse_squeue(text: &str) -> Vec<JobState> {
    text.lines().filter_map(|line| parse(line, 8)).collect()
}

/// Returns whether an output of `squeue` is a list of jobs, perhaps an empty one. Anything else does not mean that no job exists.
fn is_a_list(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    lines.peek().is_none() || lines.any(|line| line.split('|').count() == 8)
}

/// Parses the lines of `sacct --parsable2`.
pub(crate) fn parse_sacct(text: &str) -> Vec<JobState> {
    text.lines().filter_map(|line| parse(line, 7)).collect()
}

fn parse(line: &str, fields: usize) -> Option<JobState> {
    let parts: Vec<&str> = line.trim().split('|').collect();
    let [job, name, state, reason, node, elapsed, ..] = parts.as_slice() else {
        return None;
    };
    if parts.len() != fields || job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // sacct writes `CANCELLED by 1000`.
    let state = state.split_whitespace().next()?;
    let written = |text: &str| match text {
        "None" | "(null)" | "None assigned" => String::new(),
        text => text.to_owned(),
    };
    Some(JobState {
        job: (*job).to_owned(),
        name: (*name).to_owned(),
        state: state.trim_end_matches('+').to_owned(),
        reason: written(reason),
        node: written(node),
        elapsed: (*elapsed).to_owned(),
        waited: match parts.as_slice() {
            [.., submitted, started] if fields == 8 => waited(submitted, started, state),
            _ => String::new(),
        },
        ..JobState::default()
    })
}

/// Returns how long a job waited, or since when, from `squeue`'s times. While a job waits, Slurm's start is a guess.
fn waited(submitted: &str, started: &str, state: &str) -> String {
    let time = |text: &str| text.parse::<jiff::civil::DateTime>().ok();
    let Some(submitted) = time(submitted) else {
        return String::new();
    };
    match time(started).filter(|_| state != "PENDING") {
        None => format!("since {}", submitted.strftime("%H:%M:%S")),
        Some(started) => {
            let seconds = submitted.duration_until(started).as_secs().max(0);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            match hours {
                0 => format!("{minutes}:{:02}", seconds % 60),
                _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
            }
        }
    }
}

/// Parses `scontrol --oneliner show job`: `Key=Value` pairs. Values with spaces are cut at the first one.
pub(crate) fn parse_details(text: &str) -> BTreeMap<String, String> {
    const TOLD: [&str; 14] = [
        "JobState",
        "Reason",
        "Restarts",
        "Requeue",
        "ExitCode",
        "DerivedExitCode",
        "RunTime",
        "TimeLimit",
        "SubmitTime",
        "StartTime",
        "EndTime",
        "Partition",
        "NodeList",
        "BatchHost",
    ];
    let pairs = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    pairs
        .filter(|(key, value)| TOLD.contains(key) && !value.is_empty() && *value != "(null)")
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The result of a Slurm command.
enum Answer {
    Said(String),
    /// The controller cannot be reached, or does not answer: the result is unknown.
    Unreachable(String),
    Refused(String),
}

/// Submits a job; returns its number.
///
/// # Errors
/// If `sbatch` refuses.
pub(crate) fn submit(arguments: &[String]) -> Result<Heard<String>, ClusterError> {
    match ask("sbatch", arguments)? {
        Answer::Unreachable(why) => Ok(Err(silence("sbatch", why))),
        Answer::Refused(said) => Err(ClusterError::Refused(line("sbatch", arguments), said)),
        Answer::Said(said) => {
            // On a federation, `sbatch` prints `JOB;CLUSTER`.
            let job = said.trim().split(';').next().unwrap_or_default();
            match !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit()) {
                true => Ok(Ok(job.to_owned())),
                false => {
                    let said = format!("expected the number of a job, got `{}`", shortened(&said));
                    Err(ClusterError::Refused(line("sbatch", arguments), said))
                }
            }
        }
    }
}

/// Returns this user's jobs that Slurm knows, including recently ended ones.
///
/// # Errors
/// If `squeue` cannot be started or refuses.
pub(crate) fn jobs() -> Result<Heard<Vec<JobState>>, ClusterError> {
    let arguments = ["--me", "--noheader", "--states=all", "--format"].map(str::to_owned);
    let arguments = [&arguments[..], &[SQUEUE_FORMAT.to_owned()]].concat();
    match ask("squeue", &arguments)? {
        Answer::Said(said) if !is_a_list(&said) => {
            let said = format!("expected a list of jobs, got `{}`", shortened(&said));
            Ok(Err(silence("squeue", said)))
        }
        Answer::Said(said) => Ok(Ok(parse_squeue(&said))),
        Answer::Unreachable(why) => Ok(Err(silence("squeue", why))),
        Answer::Refused(said) => Err(ClusterError::Refused(line("squeue", &arguments), said)),
    }
}

/// Returns the accounting data of a job that the queue has forgotten; `None` if accounting does not know the job,
/// or the cluster keeps no accounts.
pub(crate) fn account(job: &str) -> Option<JobState> {
    let arguments = [
        "--noheader",
        "--parsable2",
        "--allocations",
        "--format",
        SACCT_FORMAT,
        "--jobs",
        job,
    ]
    .map(str::to_owned);
    match ask("sacct", &arguments) {
        Ok(Answer::Said(said)) => parse_sacct(&said)
            .into_iter()
            .rfind(|state| state.job == job),
        _ => None,
    }
}

/// Returns everything that the controller reports about a job.
pub(crate) fn details(job: &str) -> BTreeMap<String, String> {
    let arguments = ["--oneliner", "show", "job", job].map(str::to_owned);
    match ask("scontrol", &arguments) {
        Ok(Answer::Said(said)) => parse_details(&said),
        _ => BTreeMap::new(),
    }
}

/// Cancels jobs; returns false if the controller cannot be reached.
///
/// # Errors
/// If `scancel` cannot be started.
pub(crate) fn cancel(jobs: &[String]) -> Result<bool, ClusterError> {
    // A job that has ended meanwhile needs no cancelling.
    Ok(!matches!(ask("scancel", jobs)?, Answer::Unreachable(_)))
}

fn silence(command: &'static str, said: String) -> Silence {
    Silence { command, said }
}

/// Executes a command of Slurm.
fn ask(program: &'static str, arguments: &[String]) -> Result<Answer, ClusterError> {
    // These variables would change the query.
    let environment = |command: &mut Command| {
        for name in ["SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT"] {
            command.env_remove(name);
        }
    };
    Ok(match run(program, arguments, None, environment, LIMITS)? {
        Ran::Ended(status, said, _) if status.success() => Answer::Said(said),
        Ran::Ended(_, _, errors) if is_unreachable(&errors) => Answer::Unreachable(String::new()),
        Ran::Ended(_, _, errors) => Answer::Refused(shortened(&errors)),
        Ran::Silent(why) => Answer::Unreachable(why),
        Ran::Endless(why) => Answer::Refused(why),
    })
}

/// Returns whether a command failed because the controller did not answer.
fn is_unreachable(said: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "Unable to contact slurm controller",
        "Connection refused",
        "Connection timed out",
        "Socket timed out",
        "Zero Bytes were transmitted",
        "Unexpected message received",
        "Resource temporarily unavailable",
        "slurm_receive_msg",
    ];
    SIGNS.iter().any(|sign| said.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::JobPhase;

    #[test]
    fn the_lines_of_squeue_are_jobs() {
        let text = "7|benchtrail-s1-2|RUNNING|None|n1|0:05|2026-11-22T23:59:50|2026-11-23T00:01:03\n\
                    8|benchtrail-s1-3|PENDING|Resources||0:00|2026-11-23T00:00:07|N/A\n\
                    slurm_load_jobs error\n9_1|array|RUNNING|None|n1|0:01|N/A|N/A\n";
        let jobs = parse_squeue(text);
        assert_eq!(jobs.len(), 2, "{jobs:?}");
        assert_eq!(jobs[0].node, "n1");
        assert_eq!(jobs[0].reason, "");
        assert_eq!(jobs[1].reason, "Resources");
        assert_eq!(jobs[1].phase(), JobPhase::Active);
        assert_eq!(jobs[0].waited, "1:13");
        assert_eq!(jobs[1].waited, "since 00:00:07");
    }

    #[test]
    fn what_is_no_list_of_jobs_does_not_mean_that_there_are_none() {
        for list in [
            "",
            "\n",
            "7|a|RUNNING|None|n1|0:05|N/A|N/A",
            "note\n9_1|array|RUNNING|None|n1|0:01|N/A|N/A\n",
        ] {
            assert!(is_a_list(list), "{list}");
        }
        for other in [
            "Welcome to the cluster",
            "\u{1b}[2J",
            "7|a|RUNNING",
            "\0\0\0",
        ] {
            assert!(!is_a_list(other), "{other}");
        }
    }

    #[test]
    fn the_lines_of_sacct_are_jobs_whoever_cancelled_them() {
        let text = "7|a|CANCELLED by 1000|None|n1|00:00:05|0:15\n8|b|OUT_OF_MEMORY|None|n2|00:01:00|0:125\n\
                    9|c|TIMEOUT|None|None assigned|00:01:00|0:0\n";
        let jobs = parse_sacct(text);
        let states: Vec<&str> = jobs.iter().map(|j| j.state.as_str()).collect();
        assert_eq!(states, ["CANCELLED", "OUT_OF_MEMORY", "TIMEOUT"]);
        assert!(jobs.iter().all(|j| j.phase() == JobPhase::Over));
        assert_eq!(jobs[2].node, "");
    }

    #[test]
    fn the_controllers_details_are_pairs() {
        let text = "JobId=7 JobName=x UserId=root(0) JobState=TIMEOUT Reason=TimeLimit Restarts=1 ExitCode=0:15 \
                    NodeList=n1 Command=(null) TRES=cpu=2,mem=1G";
        let details = parse_details(text);
        assert_eq!(details["Reason"], "TimeLimit");
        assert_eq!(details["Restarts"], "1");
        assert!(!details.contains_key("UserId"));
    }

    #[test]
    fn a_controller_that_is_down_is_no_refusal() {
        assert!(is_unreachable(
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
        ));
        assert!(!is_unreachable(
            "sbatch: error: invalid partition specified: gpu"
        ));
    }
}
