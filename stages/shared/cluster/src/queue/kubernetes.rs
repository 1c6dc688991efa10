//! Kubernetes, through the user's own `kubectl`: its arguments and its output.
//!
//! `kubectl` has the user's contexts, proxies and credentials, so this program neither reads nor keeps them.

use pipeline::Json;
use places::Kubernetes;
use places::kubernetes::{CONTAINER, LABEL_RUN};
use serde::{Deserialize, Serialize};

use super::command::{LIMITS, Ran, run};
use super::pods::{NO_POD, forbidden, states};
use super::{Heard, JobState, Silence, line};
use crate::error::ClusterError;

/// The time that `kubectl` gives each of its requests.
const REQUEST_TIMEOUT: &str = "--request-timeout=30s";

/// The number of lines and bytes read from the end of a pod's output.
const LOG_LINES: &str = "--tail=400";
const LOG_BYTES: &str = "--limit-bytes=524288";

/// The cluster and the namespace of a job, as `kubectl` selects them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Target {
    /// The options of `kubectl` that select both.
    options: Vec<String>,
}

impl Target {
    pub(crate) fn of(settings: &Kubernetes) -> Self {
        Self {
            options: settings.kubectl().into_iter().skip(1).collect(),
        }
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        self.options.iter().cloned().chain(words).collect()
    }

    /// Creates a Job from its manifest. If the Job already exists, an earlier request created it and its answer was
    /// lost.
    ///
    /// # Errors
    /// If `kubectl` cannot be started, or Kubernetes refuses the manifest.
    pub(crate) fn create(&self, manifest: &Json) -> Result<Heard<()>, ClusterError> {
        let arguments =
            self.arguments(&["create", "--filename=-", "--output=name", REQUEST_TIMEOUT]);
        let manifest = serde_json::to_vec(manifest).expect("a manifest always serializes");
        match ask(&arguments, Some(&manifest))? {
            Answer::Said(_) => Ok(Ok(())),
            Answer::Refused(reason, _) if reason == "AlreadyExists" => Ok(Ok(())),
            Answer::Refused(_, said) => {
                Err(ClusterError::Refused(line("kubectl", &arguments), said))
            }
            Answer::Unreachable(said) => Ok(Err(silence("kubectl create", said))),
        }
    }

    /// Returns the Jobs of a run, with what their pods report, in one request.
    ///
    /// # Errors
    /// If `kubectl` cannot be started. A refusal counts as silence: permissions may change while pods run.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a pod has run is measured from the times that Kubernetes reports"
    )]
    pub(crate) fn jobs(&self, run: &str) -> Result<Heard<Vec<JobState>>, ClusterError> {
        let silence = |said| Ok(Err(silence("kubectl get", said)));
        match self.list(run)? {
            Answer::Said(said) => match states(&said, jiff::Timestamp::now()) {
                Ok(states) => Ok(Ok(self.explained(states)?)),
                Err(e) => silence(format!("its answer cannot be read: {e}")),
            },
            Answer::Refused(_, said) | Answer::Unreachable(said) => silence(said),
        }
    }

    /// Adds the reason to Jobs without a pod, for example an exceeded quota.
    fn explained(&self, mut states: Vec<JobState>) -> Result<Vec<JobState>, ClusterError> {
        if states.iter().all(|state| state.reason != NO_POD) {
            return Ok(states);
        }
        let words = [
            "get",
            "events",
            "--field-selector=involvedObject.kind=Job,reason=FailedCreate",
            "--output=json",
            REQUEST_TIMEOUT,
        ];
        // Some users may not read events. The Job waits with or without a reason.
        if let Answer::Said(said) = ask(&self.arguments(&words), None)? {
            let forbidden = forbidden(&said);
            for state in states.iter_mut().filter(|state| state.reason == NO_POD) {
                if let Some(why) = forbidden.get(&state.job) {
                    state.reason.clone_from(why);
                }
            }
        }
        Ok(states)
    }

    /// Checks before anything is submitted that Kubernetes answers, and permits what a run needs to read.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn greet(&self) -> Result<(), ClusterError> {
        match self.list("none")? {
            Answer::Said(_) => Ok(()),
            Answer::Refused(_, said) | Answer::Unreachable(said) => {
                let command = line("kubectl", &self.arguments(&["get", "jobs,pods"]));
                Err(ClusterError::Refused(command, said))
            }
        }
    }

    fn list(&self, run: &str) -> Result<Answer, ClusterError> {
        let selector = format!("--selector={LABEL_RUN}={run}");
        let words = [
            "get",
            "jobs,pods",
            &selector,
            "--output=json",
            REQUEST_TIMEOUT,
        ];
        ask(&self.arguments(&words), None)
    }

    /// Deletes Jobs with their pods; returns false if Kubernetes does not answer. Does not wait for the pods to stop.
    ///
    /// # Errors
    /// If `kubectl` cannot be started or Kubernetes refuses.
    pub(crate) fn delete(&self, jobs: &[String]) -> Result<bool, ClusterError> {
        let mut words = vec![
            "delete",
            "jobs",
            "--ignore-not-found",
            "--wait=false",
            REQUEST_TIMEOUT,
        ];
        words.extend(jobs.iter().map(String::as_str));
        let arguments = self.arguments(&words);
        match ask(&arguments, None)? {
            Answer::Said(_) => Ok(true),
            // It has ended in the meantime.
            Answer::Refused(reason, _) if reason == "NotFound" => Ok(true),
            Answer::Refused(_, said) => {
                Err(ClusterError::Refused(line("kubectl", &arguments), said))
            }
            Answer::Unreachable(_) => Ok(false),
        }
    }

    /// Returns the end of a pod's output; empty if it cannot be read, for example because the node is lost.
    pub(crate) fn log(&self, job: &str, pod: Option<&str>) -> Vec<u8> {
        let of_job = format!("job/{job}");
        let container = format!("--container={CONTAINER}");
        let words = [
            "logs",
            pod.unwrap_or(&of_job),
            &container,
            LOG_LINES,
            LOG_BYTES,
            REQUEST_TIMEOUT,
        ];
        match ask(&self.arguments(&words), None) {
            Ok(Answer::Said(said)) => said.into_bytes(),
            _ => Vec::new(),
        }
    }
}

fn silence(command: &'static str, said: String) -> Silence {
    Silence { command, said }
}

/// The result of a `kubectl` command.
enum Answer {
    Said(String),
    /// The API server cannot be reached, or cannot answer now: the result is unknown.
    Unreachable(String),
    /// The API server's reason, such as `Forbidden`, and the message.
    Refused(String, String),
}

/// Executes `kubectl`.
fn ask(arguments: &[String], input: Option<&[u8]>) -> Result<Answer, ClusterError> {
    Ok(match run("kubectl", arguments, input, |_| (), LIMITS)? {
        Ran::Ended(status, said, _) if status.success() => Answer::Said(said),
        Ran::Ended(status, _, errors) => match status.code() {
            Some(_) => answer(&errors),
            None => Answer::Unreachable("kubectl was killed".to_owned()),
        },
        Ran::Silent(why) => Answer::Unreachable(why),
        Ran::Endless(why) => Answer::Refused(String::new(), why),
    })
}

/// Interprets the message of a `kubectl` that failed. Its last line is the message; lines of its log may precede it.
fn answer(said: &str) -> Answer {
    const BUSY: [&str; 6] = [
        "InternalError",
        "ServerTimeout",
        "ServiceUnavailable",
        "Timeout",
        "TooManyRequests",
        "Unknown",
    ];
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines: Vec<&str> = lines.filter(|line| !is_log(line)).collect();
    // `kubectl` repeats a message for each resource.
    lines.dedup();
    let message = match lines.as_slice() {
        [] => said.trim().to_owned(),
        lines => lines.join("; "),
    };
    let reason = lines
        .iter()
        .find_map(|line| line.strip_prefix("Error from server (")?.split_once("):"));
    match reason {
        Some((reason, _)) if BUSY.contains(&reason) => Answer::Unreachable(message),
        Some((reason, _)) => Answer::Refused(reason.to_owned(), message),
        None if is_unreachable(&message) => Answer::Unreachable(message),
        None => Answer::Refused(String::new(), message),
    }
}

/// Returns whether a line is one of `kubectl`'s log, such as `E1123 14:41:55.646766   11138 memcache.go:265] …`.
fn is_log(line: &str) -> bool {
    let mut characters = line.chars();
    let level = characters.next().is_some_and(|c| "EWIF".contains(c));
    level && line.contains(".go:") && characters.take(4).all(|c| c.is_ascii_digit())
}

/// Returns whether a command failed because the API server did not answer, or because credentials have expired: the user can
/// renew them while pods run.
fn is_unreachable(said: &str) -> bool {
    const SIGNS: [&str; 18] = [
        "The connection to the server",
        "Unable to connect to the server",
        "dial tcp",
        "i/o timeout",
        "onnection refused",
        "connection reset",
        "EOF",
        "TLS handshake timeout",
        "context deadline exceeded",
        "Client.Timeout",
        "network is unreachable",
        "client connection lost",
        "currently unable to handle the request",
        "etcdserver:",
        "You must be logged in",
        "to provide credentials",
        "getting credentials",
        "Unauthorized",
    ];
    SIGNS.iter().any(|sign| said.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(said: &str) -> Option<String> {
        match answer(said) {
            Answer::Refused(reason, _) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn a_server_that_is_away_or_busy_and_credentials_that_expired_are_no_refusal() {
        for said in [
            "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
            "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout",
            "Unable to connect to the server: net/http: TLS handshake timeout",
            "Unable to connect to the server: EOF",
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
            "Error from server (TooManyRequests): the server has received too many requests",
            "Error from server (InternalError): an error on the server (\"\") has prevented the request from succeeding",
            "Error from server: etcdserver: leader changed",
            "error: You must be logged in to the server (Unauthorized)",
            "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255",
            "E1123 14:41:55.646766   11138 memcache.go:265] \"Unhandled Error\" err=\"couldn't get …\"\n\
             error: Get \"http://127.0.0.1:1/api\": dial tcp 127.0.0.1:1: connect: connection refused",
        ] {
            assert_eq!(reason(said), None, "{said}");
        }
    }

    #[test]
    fn a_refusal_has_the_reason_that_the_server_gives() {
        for (said, expected) in [
            (
                "Error from server (AlreadyExists): error when creating \"STDIN\": jobs.batch \"a\" already exists",
                "AlreadyExists",
            ),
            (
                "Error from server (Forbidden): jobs.batch is forbidden: User \"ada\" cannot list resource",
                "Forbidden",
            ),
            (
                "Error from server (NotFound): namespaces \"lab\" not found",
                "NotFound",
            ),
            ("error: context \"lab\" does not exist", ""),
        ] {
            assert_eq!(reason(said).as_deref(), Some(expected), "{said}");
        }
    }

    #[test]
    fn lines_of_the_log_are_no_part_of_the_message() {
        let said = "W1123 14:00:00.000000       7 warnings.go:70] unknown field\nError from server (Invalid): spec is wrong";
        let Answer::Refused(reason, message) = answer(said) else {
            panic!("a refusal");
        };
        assert_eq!(
            (reason.as_str(), message.as_str()),
            ("Invalid", "Error from server (Invalid): spec is wrong")
        );
    }
}
