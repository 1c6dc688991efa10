//! Launches as Kubernetes Jobs, with a stub of `kubectl` (`tests/kubernetes/stub_kubectl.py`). The lane
//! `tests/kubernetes/run` does the same and more with a real `kubectl`, against a stub of an API server.

use std::fs;

use serde_json::Value;

use crate::placed::{Placed, STUDY, ended, until};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The stub of `kubectl`.
const STUB: (&str, &str, &[&str]) = ("KUBECTL_STUB", "kubernetes/stub_kubectl.py", &["kubectl"]);

/// Makes a project whose pods mount the shared store.
fn desk() -> Placed {
    Placed::new(STUB, |text, shared| {
        let volume = format!("{{claim: shared, path: {}}}", shared.display());
        let place = format!(
            "      kubernetes: {{image: engine@{DIGEST}, time: \"${{time}}\", at-once: 3, volumes: [{volume}]}}"
        );
        let lines = text
            .lines()
            .filter(|line| !line.contains("partition: {type"));
        let lines = lines.map(|line| match line.contains("slurm: {partition") {
            true => place.as_str(),
            false => line,
        });
        lines.map(|line| format!("{line}\n")).collect()
    })
}

/// Returns the manifests that were created so far.
fn created(desk: &Placed) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str(line).expect("a manifest");
    desk.stub_lines("asked").iter().map(read).collect()
}

#[test]
fn a_study_on_kubernetes_is_the_study_here_with_the_same_keys_and_the_same_trail() {
    let desk = desk();
    let ran = desk.run(&["--json"]).ok();
    assert_eq!(ran.json()["counts"]["ok"], 8, "{}", ran.stderr);
    let jobs = created(&desk);
    assert_eq!(jobs.len(), 2, "a Job for each launch");
    assert_eq!(desk.measured(), 2);
    assert_eq!(desk.jobs_file(), None, "nothing is left to look after");
    let pod = &jobs[0]["spec"]["template"]["spec"];
    assert_eq!(pod["activeDeadlineSeconds"], 600);
    let command = pod["containers"][0]["command"]
        .as_array()
        .expect("a command");
    assert!(
        command[0]
            .as_str()
            .is_some_and(|word| word.contains("/jobs/bin/")),
        "the program comes from the shared folder: {command:?}"
    );
    let name = jobs[1]["metadata"]["name"].as_str().expect("a name");
    assert!(
        name.starts_with("benchtrail-r") && name.ends_with("-0002"),
        "{name}"
    );
    desk.ask(&["audit", "reports/nodes/report.md"]).ok();
    desk.agrees_with_a_run_here(&ran.json());
    let again = desk.run(&["--json"]).ok().json();
    assert_eq!(again["executed"], 0);
    // Changing the image changes no key of a measurement. The report shows the current experiment.
    desk.project
        .edit(STUDY, "engine@sha256:0123", "other@sha256:4567");
    let again = desk.run(&["--json"]).ok().json();
    assert_eq!(again["executed"], 1, "the report");
    assert_eq!(created(&desk).len(), 2, "nothing is created again");
}

#[test]
fn a_record_names_the_job_the_pod_the_node_and_the_image() {
    let desk = desk();
    desk.project
        .edit(STUDY, "at-once: 3,", "at-once: 3, nodes: [a, b],");
    let plan = desk.ask(&["plan", STUDY]).ok().stdout;
    assert!(plan.contains("launches on machines: a 1, b 1"), "{plan}");
    let ran = desk.run(&[]).ok();
    let nodes: Vec<Value> = created(&desk)
        .iter()
        .map(|job| job["spec"]["template"]["spec"]["nodeSelector"].clone())
        .collect();
    assert_eq!(nodes[0]["kubernetes.io/hostname"], "a", "{}", ran.stderr);
    assert_eq!(nodes[1]["kubernetes.io/hostname"], "b");
    let report = desk.report();
    assert!(
        report.contains("1 cell on a") && report.contains("1 cell on b"),
        "{report}"
    );
    let record = desk
        .ask(&["show", STUDY, "load[rep=1]", "--json"])
        .ok()
        .stdout;
    for word in ["\"kubernetes\"", "-0001-pod", "\"node\":\"a\"", DIGEST] {
        assert!(record.replace(": ", ":").contains(word), "{word}: {record}");
    }
}

#[test]
fn a_plan_shows_the_jobs_and_the_manifest_and_a_run_needs_a_store_that_pods_reach() {
    let desk = desk();
    let refused = desk.ask(&["run", STUDY]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("study.yaml:"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--remote s3://"),
        "{}",
        refused.stderr
    );
    let plan = desk.ask(&["plan", STUDY]).ok().stdout;
    assert!(
        plan.contains("Kubernetes: 2 jobs for 2 measured cells, at most 3 at once"),
        "{plan}"
    );
    assert!(
        plan.contains("2 jobs: no requests; at most 600 s; kubectl create; image engine@"),
        "{plan}"
    );
    let commands = desk.ask(&["plan", STUDY, "--commands"]).ok().stdout;
    assert!(
        commands.contains("kubectl create --filename=-"),
        "{commands}"
    );
    assert!(commands.contains("\"backoffLimit\": 0"), "{commands}");
    let other = tempfile::tempdir().expect("a folder");
    let path = other.path().to_str().expect("a plain path");
    let refused = desk.ask(&["run", STUDY, "--remote", path]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("is not on a volume of the pods"),
        "{}",
        refused.stderr
    );
    assert_eq!(created(&desk), Vec::<Value>::new());
}

#[test]
fn mistakes_are_found_before_anything_is_created_each_where_it_is() {
    let desk = desk();
    for (from, to, says) in [
        (
            format!("engine@{DIGEST}"),
            "engine:latest".to_owned(),
            "has no digest",
        ),
        (
            "at-once: 3".to_owned(),
            "at-one: 3".to_owned(),
            "did you mean `at-once`",
        ),
        (
            "at-once: 3".to_owned(),
            "nodeSelector: {}".to_owned(),
            "node-selector",
        ),
        (
            "at-once: 3".to_owned(),
            "memory: 64GB".to_owned(),
            "`64G`, or `64Gi`",
        ),
        (
            "at-once: 3".to_owned(),
            "cpu: many".to_owned(),
            "study.yaml:",
        ),
        (
            "at-once: 3".to_owned(),
            "tolerations: [{effect: NoSchedul}]".to_owned(),
            "NoSchedule",
        ),
    ] {
        let before = fs::read_to_string(desk.project.path().join(STUDY)).expect("it");
        desk.project.edit(STUDY, &from, &to);
        let refused = desk.ask(&["plan", STUDY]);
        assert_eq!(refused.code, Some(2), "{to}");
        assert!(refused.stderr.contains(says), "{to}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("study.yaml:"),
            "{to}: {}",
            refused.stderr
        );
        fs::write(desk.project.path().join(STUDY), before).expect("a file");
    }
}

#[test]
fn a_pod_out_of_memory_is_tried_again_as_often_as_the_stage_says_and_a_lost_node_at_no_cost() {
    let desk = desk();
    desk.set("modes", "oom\n\nlost\nlost\n");
    let ran = desk.run(&[]).ok();
    assert!(
        ran.stderr.contains("ended as OUT_OF_MEMORY (OOMKilled:")
            && ran.stderr.contains("; trying "),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("ended as NODE_FAIL (DeletionByTaintManager"),
        "{}",
        ran.stderr
    );
    assert_eq!(created(&desk).len(), 5, "{}", ran.stderr);
    assert_eq!(desk.measured(), 2);
}

#[test]
fn a_pod_that_ends_early_is_a_line_of_the_ledger_with_the_words_of_kubernetes_as_evidence() {
    let desk = desk();
    desk.set("modes", "oom\noom\noom\noom\n");
    let failed = desk.run(&["--keep-going"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let ledger = desk.ledger();
    assert!(
        ledger.contains("failed machine: Kubernetes job benchtrail-r"),
        "{ledger}"
    );
    assert!(
        ledger.contains("on node1 ended as OUT_OF_MEMORY (OOMKilled"),
        "{ledger}"
    );
    let shown = desk
        .ask(&["show", STUDY, "machine.kubernetes_log"])
        .ok()
        .stdout;
    assert!(shown.contains("cgroup out of memory"), "{shown}");
    let shown = desk.ask(&["show", STUDY, "machine.kubernetes"]).ok().stdout;
    assert!(
        shown.contains("\"container_reason\": \"OOMKilled\""),
        "{shown}"
    );
    // Running the study again is another attempt.
    desk.run(&[]).ok();
    assert_eq!(desk.measured(), 2);
}

#[test]
fn a_pod_that_can_never_start_fails_at_once_and_its_job_is_deleted() {
    let desk = desk();
    desk.set("modes", "image\nimage\nimage\n");
    let failed = desk.run(&[]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("does not start: InvalidImageName"),
        "{}",
        failed.stderr
    );
    assert!(!failed.stderr.contains("; trying "), "{}", failed.stderr);
    assert!(
        desk.ledger()
            .contains("ended as LAUNCH_FAILED (InvalidImageName"),
        "{}",
        desk.ledger()
    );
    let deleted = desk.stub_lines("all");
    assert!(
        deleted.iter().any(|line| line.starts_with("delete jobs")),
        "{deleted:?}"
    );
}

#[test]
fn jobs_outlive_a_coordinator_that_is_killed_and_are_found_again_by_name() {
    for is_noted in [true, false] {
        let desk = desk();
        desk.killed();
        let status = desk.ask(&["status", STUDY]).ok().stdout;
        assert!(
            status.contains("PENDING") && status.contains("Unschedulable: 0/1 nodes are available"),
            "{status}"
        );
        if !is_noted {
            // The next list may not show the Job either.
            desk.forget_the_second_job();
        }
        desk.unset("hold");
        let ran = desk.run(&[]).ok();
        assert!(
            ran.stderr
                .contains("an earlier run left 2 jobs in Kubernetes"),
            "{}",
            ran.stderr
        );
        assert_eq!(created(&desk).len(), 2, "nothing is created twice");
        assert_eq!(desk.measured(), 2, "nothing is measured twice");
    }
}

#[test]
fn jobs_of_another_version_of_the_study_are_deleted() {
    let desk = desk();
    desk.killed();
    desk.project.edit(STUDY, "default: 4", "default: 5");
    let second = desk.start();
    let is_deleted = |line: &String| line.starts_with("delete jobs");
    until(|| desk.stub_lines("all").iter().any(is_deleted));
    desk.unset("hold");
    let said = ended(second);
    assert!(said.contains("of an earlier run"), "{said}");
    assert_eq!(created(&desk).len(), 4);
}

#[test]
fn an_api_server_that_is_away_is_asked_again_but_a_run_does_not_begin_without_one() {
    let desk = desk();
    desk.set("silent", "1");
    let refused = desk.run(&[]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("did you specify the right host"),
        "{}",
        refused.stderr
    );
    assert_eq!(created(&desk), Vec::<Value>::new());
    desk.killed();
    desk.set("silent", "3");
    let second = desk.start();
    until(|| desk.stub_lines("silent") == ["0"]);
    // Once Kubernetes answers, the pods begin.
    let asked = desk.stub_lines("all").len();
    until(|| desk.stub_lines("all").len() > asked);
    desk.unset("hold");
    let said = ended(second);
    assert!(
        said.contains("the API server of Kubernetes does not answer `kubectl get` (The connection"),
        "{said}"
    );
    assert!(said.contains("answers again"), "{said}");
    assert_eq!(created(&desk).len(), 2);
    assert_eq!(desk.measured(), 2);
}

#[test]
fn what_kubernetes_refuses_ends_the_run_with_its_words() {
    let desk = desk();
    desk.set("modes", "refuse\n");
    let refused = desk.run(&[]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("exceeded quota: gpus"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("plan --commands"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_job_that_somebody_deletes_has_that_as_its_reason() {
    let desk = desk();
    desk.set("hold", "");
    let mut first = desk.start();
    until(|| created(&desk).len() == 2);
    desk.set("forgets", "");
    let ended = first.wait().expect("it ends");
    assert_eq!(ended.code(), Some(1));
    let ledger = desk.ledger();
    assert!(
        ledger.contains("ended as CANCELLED (somebody deleted the Job)"),
        "{ledger}"
    );
    desk.unset("hold");
}

#[test]
fn without_kubectl_nothing_begins() {
    let desk = desk();
    fs::remove_file(desk.stub.path().join("kubectl")).expect("the link");
    let shared = desk.shared.path().to_str().expect("a plain path");
    let refused = desk
        .project
        .command(["run", STUDY, "--remote", shared])
        .env("PATH", desk.stub.path())
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(
        said.contains("`kubectl` failed: it is not on the search path"),
        "{said}"
    );
}

#[test]
fn the_shipped_study_plans_its_jobs() {
    let desk = desk();
    let plan = desk
        .ask(&["plan", "experiments/kubernetes/llama-cpp-threads.yaml"])
        .ok()
        .stdout;
    assert!(
        plan.contains("Kubernetes: 15 jobs for 30 measured cells, at most 2 at once"),
        "{plan}"
    );
}
