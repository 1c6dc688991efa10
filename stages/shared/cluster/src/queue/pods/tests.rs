//! The meaning of `kubectl`'s lists. `listing.json` has the shape of a real answer (Kubernetes 1.32), but is written by
//! hand.

use super::*;

const LISTING: &str = include_str!("listing.json");

/// Ten minutes after the Jobs of the list were created.
fn now() -> Timestamp {
    "2026-11-23T10:10:00Z".parse().expect("a time")
}

fn all() -> BTreeMap<String, JobState> {
    let states = states(LISTING, now()).expect("a list");
    let shard = |state: &JobState| state.name.rsplit('-').next().expect("a shard").to_owned();
    states
        .into_iter()
        .map(|state| (shard(&state), state))
        .collect()
}

#[test]
fn every_state_of_a_job_and_its_pod_has_one_that_slurm_has_with_the_reason_in_words() {
    use Trouble::{None, Stuck, Waits};
    let expected = [
        ("0001", "COMPLETED", "", None),
        ("0002", "RUNNING", "", None),
        (
            "0003",
            "PENDING",
            "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            Waits,
        ),
        ("0004", "PENDING", "ContainerCreating", None),
        (
            "0005",
            "PENDING",
            "ImagePullBackOff: Back-off pulling image",
            Stuck,
        ),
        (
            "0006",
            "PENDING",
            "CreateContainerConfigError: secret \"bucket\" not found",
            Stuck,
        ),
        (
            "0007",
            "LAUNCH_FAILED",
            "InvalidImageName: couldn't parse image name",
            Stuck,
        ),
        (
            "0008",
            "OUT_OF_MEMORY",
            "OOMKilled: more memory than its limit, exit code 137",
            None,
        ),
        (
            "0009",
            "TIMEOUT",
            "DeadlineExceeded: Pod was active on the node longer",
            None,
        ),
        (
            "0010",
            "TIMEOUT",
            "DeadlineExceeded: Job was active longer",
            None,
        ),
        (
            "0011",
            "EVICTED",
            "Evicted: The node was low on resource: memory.",
            None,
        ),
        (
            "0012",
            "PREEMPTED",
            "PreemptionByScheduler: default-scheduler: preempting",
            None,
        ),
        (
            "0013",
            "NODE_FAIL",
            "NodeLost: Node gpu-1 which was running pod",
            None,
        ),
        (
            "0014",
            "NODE_FAIL",
            "its pod is gone: the node was lost, or somebody deleted the pod",
            None,
        ),
        (
            "0015",
            "FAILED",
            "exit code 4: hint: check the credentials",
            None,
        ),
        (
            "0016",
            "LAUNCH_FAILED",
            "StartError: failed to create containerd task",
            None,
        ),
        ("0017", "PENDING", "Suspended", Waits),
        ("0018", "PENDING", "no pod", Waits),
        ("0019", "COMPLETING", "its pod is being stopped", None),
        (
            "0020",
            "EVICTED",
            "EvictionByEvictionAPI: Eviction API: evicting",
            None,
        ),
        ("0021", "CANCELLED", "somebody deleted its pod", None),
        ("0022", "COMPLETING", "its pod is being stopped", None),
        ("0023", "COMPLETING", "the Job is being deleted", None),
        ("0024", "COMPLETING", "the Job was deleted", None),
        (
            "0026",
            "NODE_FAIL",
            "UnexpectedAdmissionError: Pod was rejected",
            None,
        ),
    ];
    let states = all();
    for (shard, state, reason, trouble) in expected {
        let job = &states[shard];
        assert_eq!(job.state, state, "{shard}: {job:?}");
        assert!(job.reason.starts_with(reason), "{shard}: {}", job.reason);
        assert_eq!(job.trouble, trouble, "{shard}");
        assert_eq!(job.job, job.name);
    }
    // The pod of a deleted Job on a lost node counts as gone.
    assert_eq!(states.len(), expected.len(), "{:?}", states.keys());
}

#[test]
fn a_job_has_the_node_and_the_times_of_its_pod() {
    let states = all();
    let ended = &states["0008"];
    assert_eq!(ended.node, "gpu-1");
    assert_eq!(
        (ended.waited.as_str(), ended.elapsed.as_str()),
        ("0:13", "4:00")
    );
    assert_eq!(ended.seconds, Some(240.0));
    let running = &states["0002"];
    assert_eq!(running.elapsed, "9:47", "until now");
    assert_eq!(running.began, Some(1_795_428_013));
    let waiting = &states["0003"];
    assert_eq!(
        (waiting.node.as_str(), waiting.waited.as_str()),
        ("", "since 10:00:00 UTC")
    );
    assert_eq!(waiting.seconds, None);
}

#[test]
fn what_kubernetes_reports_about_an_end_is_evidence() {
    let states = all();
    let details = &states["0011"].details;
    for (key, value) in [
        ("job_reason", "BackoffLimitExceeded"),
        ("pod", "benchtrail-r0123456789ab-0011-x7k2p"),
        ("phase", "Failed"),
        ("pod_reason", "Evicted"),
        ("disruption", "TerminationByKubelet"),
        ("exit_code", "137"),
    ] {
        assert_eq!(details[key], value);
    }
    assert!(states["0015"].details["container_message"].contains("cannot be reached"));
}

#[test]
fn the_last_pod_of_a_job_decides_but_an_earlier_one_may_still_be_at_work() {
    let mut listing: serde_json::Value = serde_json::from_str(LISTING).expect("a list");
    let items = listing["items"].as_array_mut().expect("items");
    let at = |items: &[serde_json::Value], name: &str| {
        items
            .iter()
            .position(|item| item["metadata"]["name"] == name)
            .expect("it")
    };
    // A Job may start a second pod despite its settings.
    let mut second = items[at(items, "benchtrail-r0123456789ab-0002-x7k2p")].clone();
    second["metadata"]["name"] = "second".into();
    second["metadata"]["creationTimestamp"] = "2026-11-23T10:02:00Z".into();
    second["spec"]["nodeName"] = "gpu-2".into();
    items.push(second);
    let text = listing.to_string();
    let states = states(&text, now()).expect("a list");
    let job = states
        .iter()
        .find(|s| s.name.ends_with("0002"))
        .expect("it");
    assert_eq!(
        (job.state.as_str(), job.node.as_str()),
        ("RUNNING", "gpu-2")
    );
}

#[test]
fn what_is_no_list_is_an_error_and_what_is_missing_is_nothing() {
    assert!(states("", now()).is_err());
    assert!(states("<html>", now()).is_err());
    assert_eq!(
        states("{\"kind\": \"List\", \"items\": []}", now()),
        Ok(Vec::new())
    );
    let strange = r#"{"items": [{"kind": "Job", "metadata": {"name": "a", "creationTimestamp": "soon"}}, {"kind": "Node"}]}"#;
    let listed = states(strange, now()).expect("a list");
    assert_eq!((listed.len(), listed[0].state.as_str()), (1, "PENDING"));
}

#[test]
fn a_job_without_a_pod_has_the_reason_of_the_last_event() {
    let event = |message: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedCreate", "message": message,
            "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "benchtrail-r1-0001", "namespace": "bench"},
            "source": {"component": "job-controller"}, "lastTimestamp": "2026-11-23T10:00:00Z",
        })
    };
    let events = [
        event("earlier"),
        event("Error creating: pods \"a\" is forbidden: exceeded quota: gpus"),
    ];
    let reasons = forbidden(&serde_json::json!({"kind": "List", "items": events}).to_string());
    assert_eq!(
        reasons["benchtrail-r1-0001"],
        "FailedCreate: Error creating: pods \"a\" is forbidden: exceeded quota: gpus"
    );
    assert_eq!(forbidden("no list"), BTreeMap::new());
}

#[test]
fn a_long_message_is_cut() {
    assert_eq!(words("A", "b\n c"), "A: b c");
    assert_eq!(words("", "b"), "b");
    assert!(words("A", &"ä".repeat(1000)).chars().count() < 310);
}

#[test]
fn an_answer_without_a_list_does_not_mean_that_there_are_no_jobs() {
    let now = "2026-11-23T10:00:00Z".parse().expect("a time");
    assert_eq!(
        states(r#"{"kind": "List", "items": []}"#, now)
            .map(|all| all.len())
            .ok(),
        Some(0)
    );
    for other in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"kind": "Status", "status": "Failure"}"#,
        "\u{1b}[2J",
    ] {
        assert!(states(other, now).is_err(), "{other}");
    }
}
