//! Jobs and pods of Kubernetes, as `kubectl get --output=json` lists them, mapped to Slurm's names of states.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use places::kubernetes::{CONTAINER, LABEL_RUN, LABEL_SHARD};
use serde::{Deserialize, Deserializer};

use super::{JobState, Trouble};
use crate::pool::clock;

/// The time after which a pod that should be gone counts as gone, s. Its node may be unreachable.
const OVERDUE: i64 = 30;

/// The time within which a Job normally gets its pod, s.
const SOON: i64 = 10;

/// The reason of a Job that has had no pod for longer.
pub(crate) const NO_POD: &str = "no pod";

/// The largest number of characters kept of a message from Kubernetes.
const MESSAGE: usize = 300;

#[derive(Deserialize)]
struct Listing {
    /// Required: an answer without a list does not mean that no Job exists.
    items: Vec<Item>,
}

/// A Job or a pod.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Item {
    kind: String,
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
    suspend: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Running {
    #[serde(deserialize_with = "time")]
    started_at: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Terminated {
    exit_code: i32,
    signal: i32,
    reason: String,
    message: String,
    #[serde(deserialize_with = "time")]
    started_at: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    finished_at: Option<Timestamp>,
}

/// Reads a time; one that cannot be read counts as missing.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// The meaning of a Job or its pod: the state, the reason in words, and whether the pod may never start.
struct Meaning {
    state: &'static str,
    reason: String,
    trouble: Trouble,
}

impl Meaning {
    fn new(state: &'static str, reason: impl Into<String>) -> Self {
        Self {
            state,
            reason: reason.into(),
            trouble: Trouble::None,
        }
    }
}

impl Item {
    fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Returns a condition if it holds.
    fn holds(&self, kind: &str) -> Option<&Condition> {
        self.condition(kind).filter(|c| c.status == "True")
    }

    fn container(&self) -> Option<&ContainerState> {
        let mut containers = self.status.container_statuses.iter();
        let ours = containers.find(|container| container.name == CONTAINER);
        ours.map(|container| &container.state)
    }

    fn label(&self, key: &str) -> &str {
        self.metadata.labels.get(key).map_or("", String::as_str)
    }

    /// Returns whether the processes of a pod may still be running. A pod that should have been gone for a while is on
    /// a lost node.
    fn is_alive(&self, now: Timestamp) -> bool {
        let deleted = self.metadata.deletion_timestamp;
        let is_overdue = deleted.is_some_and(|at| now.as_second() > at.as_second() + OVERDUE);
        !matches!(self.status.phase.as_str(), "Succeeded" | "Failed") && !is_overdue
    }
}

/// Reads what `kubectl get jobs,pods --output=json` printed.
///
/// # Errors
/// One sentence, if it is not a list.
pub(crate) fn states(listing: &str, now: Timestamp) -> Result<Vec<JobState>, String> {
    let listing: Listing = serde_json::from_str(listing).map_err(|e| e.to_string())?;
    let (jobs, others): (Vec<Item>, Vec<Item>) = listing
        .items
        .into_iter()
        .partition(|item| item.kind == "Job");
    let mut pods: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for pod in others.into_iter().filter(|item| item.kind == "Pod") {
        let of_shard = pods.entry(pod.label(LABEL_SHARD).to_owned()).or_default();
        of_shard.push(pod);
    }
    let mut states = Vec::new();
    for job in jobs {
        let of_job = pods.remove(job.label(LABEL_SHARD)).unwrap_or_default();
        let last = of_job
            .iter()
            .max_by_key(|pod| pod.metadata.creation_timestamp);
        let is_alive = of_job.iter().any(|pod| pod.is_alive(now));
        let meaning = of_job_and_pod(&job, last, is_alive, now);
        states.push(state(&job.metadata.name, &job, last, meaning, now));
    }
    // Somebody deleted the Job, but its pod still exists.
    for pod in pods.into_values().flatten().filter(|pod| pod.is_alive(now)) {
        let name = format!(
            "benchtrail-{}-{}",
            pod.label(LABEL_RUN),
            pod.label(LABEL_SHARD)
        );
        let meaning = Meaning::new("COMPLETING", "the Job was deleted");
        states.push(state(&name, &pod, Some(&pod), meaning, now));
    }
    Ok(states)
}

/// Returns a job's state with the times of its pod.
fn state(name: &str, job: &Item, pod: Option<&Item>, meaning: Meaning, now: Timestamp) -> JobState {
    let container = pod.and_then(Item::container);
    let running = container.and_then(|c| c.running.as_ref()?.started_at);
    let terminated = container.and_then(|c| c.terminated.as_ref());
    let began = running.or(terminated.and_then(|t| t.started_at));
    let until = terminated.and_then(|t| t.finished_at).unwrap_or(now);
    let span = |from: Timestamp, to: Timestamp| {
        let seconds = to.as_second().saturating_sub(from.as_second());
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let has_run = began.map(|began| span(began, until));
    let waited = match (job.metadata.creation_timestamp, began) {
        (None, _) => String::new(),
        (Some(created), Some(began)) => clock(span(created, began)),
        (Some(created), None) => {
            format!("since {}", created.strftime("%H:%M:%S UTC"))
        }
    };
    JobState {
        job: name.to_owned(),
        name: name.to_owned(),
        state: meaning.state.to_owned(),
        reason: meaning.reason,
        node: pod.map_or(String::new(), |pod| pod.spec.node_name.clone()),
        elapsed: has_run.map_or(String::new(), clock),
        waited,
        seconds: has_run.map(|span| span.as_secs_f64()),
        began: began.map(Timestamp::as_second),
        trouble: meaning.trouble,
        details: details(job, pod),
    }
}

/// Returns Kubernetes' report about a job, as evidence.
fn details(job: &Item, pod: Option<&Item>) -> BTreeMap<String, String> {
    let ended = job.holds("Failed").or_else(|| job.holds("Complete"));
    let mut facts = vec![
        ("job_reason", ended.map(|c| c.reason.clone())),
        ("job_message", ended.map(|c| c.message.clone())),
    ];
    if let Some(pod) = pod {
        let disruption = pod.holds("DisruptionTarget");
        facts.extend([
            ("pod", Some(pod.metadata.name.clone())),
            ("phase", Some(pod.status.phase.clone())),
            ("pod_reason", Some(pod.status.reason.clone())),
            ("pod_message", Some(pod.status.message.clone())),
            ("disruption", disruption.map(|c| c.reason.clone())),
            ("disruption_message", disruption.map(|c| c.message.clone())),
        ]);
    }
    if let Some(container) = pod.and_then(Item::container) {
        if let Some(waiting) = &container.waiting {
            facts.push(("container_reason", Some(waiting.reason.clone())));
            facts.push(("container_message", Some(waiting.message.clone())));
        }
        if let Some(terminated) = &container.terminated {
            let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
            facts.extend([
                ("container_reason", Some(terminated.reason.clone())),
                ("container_message", Some(terminated.message.clone())),
                ("exit_code", Some(terminated.exit_code.to_string())),
                ("started", time(terminated.started_at)),
                ("finished", time(terminated.finished_at)),
            ]);
        }
    }
    let present = facts
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    present.filter(|(_, value)| !value.is_empty()).collect()
}

fn of_job_and_pod(job: &Item, pod: Option<&Item>, is_alive: bool, now: Timestamp) -> Meaning {
    let created = job.metadata.creation_timestamp;
    let failed = job.holds("Failed");
    if job.holds("Complete").is_some() {
        return Meaning::new("COMPLETED", "");
    }
    match (failed, pod) {
        // Its measurement must end before another pod repeats it.
        (Some(_), _) if is_alive => Meaning::new("COMPLETING", "its pod is being stopped"),
        (Some(failed), Some(pod)) => end_of_pod(failed, pod),
        (Some(failed), None) if failed.reason == "DeadlineExceeded" => {
            Meaning::new("TIMEOUT", words(&failed.reason, &failed.message))
        }
        (Some(failed), None) => {
            let why = "its pod is gone: the node was lost, or somebody deleted the pod";
            Meaning::new("NODE_FAIL", words(why, &failed.message))
        }
        (None, _) if job.metadata.deletion_timestamp.is_some() => {
            Meaning::new("COMPLETING", "the Job is being deleted")
        }
        (None, None) if job.spec.suspend => Meaning {
            trouble: Trouble::Waits,
            ..Meaning::new("PENDING", "Suspended")
        },
        (None, None) if created.is_some_and(|at| now.as_second() > at.as_second() + SOON) => {
            Meaning {
                trouble: Trouble::Waits,
                ..Meaning::new("PENDING", NO_POD)
            }
        }
        (None, None) => Meaning::new("PENDING", ""),
        (None, Some(pod)) => living_pod(pod),
    }
}

/// Returns the meaning of the pod of a Job that has not ended.
fn living_pod(pod: &Item) -> Meaning {
    match pod.status.phase.as_str() {
        // The Job itself ends shortly after.
        "Succeeded" | "Failed" => Meaning::new("COMPLETING", ""),
        _ if pod.metadata.deletion_timestamp.is_some() => {
            Meaning::new("COMPLETING", "its pod is being stopped")
        }
        "Running" => Meaning::new("RUNNING", ""),
        "Unknown" => Meaning::new("RUNNING", "its node does not report"),
        _ => pending_pod(pod),
    }
}

/// Returns why a pod has not started.
fn pending_pod(pod: &Item) -> Meaning {
    let scheduled = pod.condition("PodScheduled");
    if let Some(not) = scheduled.filter(|condition| condition.status == "False") {
        return Meaning {
            trouble: Trouble::Waits,
            ..Meaning::new("PENDING", words(&not.reason, &not.message))
        };
    }
    let Some(waiting) = pod.container().and_then(|c| c.waiting.as_ref()) else {
        return Meaning::new("PENDING", "");
    };
    let reason = words(&waiting.reason, &waiting.message);
    match waiting.reason.as_str() {
        "" | "ContainerCreating" | "PodInitializing" => {
            Meaning::new("PENDING", waiting.reason.clone())
        }
        // These never resolve by themselves.
        "InvalidImageName" | "ErrImageNeverPull" => Meaning {
            trouble: Trouble::Stuck,
            ..Meaning::new("LAUNCH_FAILED", reason)
        },
        _ => Meaning {
            trouble: Trouble::Stuck,
            ..Meaning::new("PENDING", reason)
        },
    }
}

/// Returns how the pod of a failed Job ended.
fn end_of_pod(failed: &Condition, pod: &Item) -> Meaning {
    let terminated = pod.container().and_then(|c| c.terminated.as_ref());
    if let Some(terminated) = terminated.filter(|t| t.reason == "OOMKilled") {
        let why = format!(
            "OOMKilled: more memory than its limit, exit code {}",
            terminated.exit_code
        );
        return Meaning::new("OUT_OF_MEMORY", why);
    }
    if failed.reason == "DeadlineExceeded" {
        return Meaning::new("TIMEOUT", words(&failed.reason, &failed.message));
    }
    let Status {
        reason, message, ..
    } = &pod.status;
    let of_kubelet = match reason.as_str() {
        "" => None,
        "DeadlineExceeded" => Some("TIMEOUT"),
        "Evicted" => Some("EVICTED"),
        "Preempting" => Some("PREEMPTED"),
        // The node stopped, or rejected the pod after the scheduler assigned it.
        _ => Some("NODE_FAIL"),
    };
    if let Some(state) = of_kubelet {
        return Meaning::new(state, words(reason, message));
    }
    if let Some(target) = pod.holds("DisruptionTarget") {
        let state = match target.reason.as_str() {
            "PreemptionByScheduler" => "PREEMPTED",
            "DeletionByTaintManager" | "DeletionByPodGC" => "NODE_FAIL",
            _ => "EVICTED",
        };
        return Meaning::new(state, words(&target.reason, &target.message));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Meaning::new("CANCELLED", "somebody deleted its pod");
    }
    match terminated {
        None => Meaning::new("FAILED", words(&failed.reason, &failed.message)),
        Some(t) if matches!(t.reason.as_str(), "StartError" | "ContainerCannotRun") => {
            Meaning::new("LAUNCH_FAILED", words(&t.reason, &t.message))
        }
        Some(t) => {
            let last = t.message.lines().rfind(|line| !line.trim().is_empty());
            let code = match t.signal {
                0 => format!("exit code {}", t.exit_code),
                signal => format!("signal {signal}"),
            };
            Meaning::new("FAILED", words(&code, last.unwrap_or_default()))
        }
    }
}

/// Reads events of the kind `FailedCreate`, as `kubectl get events --output=json` prints them; returns the last message for
/// each Job.
pub(crate) fn forbidden(listing: &str) -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Events {
        items: Vec<Event>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        involved_object: Metadata,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        message: String,
    }
    let events = serde_json::from_str::<Events>(listing).map_or_else(|_| Vec::new(), |e| e.items);
    let events = events.into_iter();
    events
        .map(|event| {
            (
                event.involved_object.name,
                words(&event.reason, &event.message),
            )
        })
        .collect()
}

/// Returns a reason and its message as one line.
fn words(reason: &str, message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = message.chars().take(MESSAGE).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    match (reason, short.as_str()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests;
