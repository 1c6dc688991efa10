//! Launches as Slurm jobs, with a stub of Slurm's commands (`tests/slurm/stub.sh`). The lane `tests/slurm/run` does the
//! same and more with a real Slurm.

use crate::placed::{Placed, STUDY, ended, until};
use std::fs;

/// The stub of Slurm's commands.
const STUB: (&str, &str, &[&str]) = (
    "SLURM_STUB",
    "slurm/stub.sh",
    &["sbatch", "squeue", "sacct", "scancel", "scontrol"],
);

fn login() -> Placed {
    Placed::new(STUB, |text, _| text)
}

#[test]
fn a_study_on_slurm_is_the_study_here_with_the_same_keys_and_the_same_trail() {
    let login = login();
    let ran = login.run(&["--json"]).ok();
    assert_eq!(ran.json()["counts"]["ok"], 8, "{}", ran.stderr);
    assert_eq!(login.stub_lines("asked").len(), 2, "a job for each launch");
    assert_eq!(login.measured(), 2);
    assert_eq!(login.jobs_file(), None, "nothing is left to look after");
    login.ask(&["audit", "reports/nodes/report.md"]).ok();
    login.agrees_with_a_run_here(&ran.json());
    assert_eq!(login.stub_lines("asked").len(), 2);
    let again = login.run(&["--json"]).ok().json();
    assert_eq!(again["executed"], 0);
    assert_eq!(
        login.stub_lines("asked").len(),
        2,
        "nothing is submitted again"
    );
}

#[test]
fn without_a_shared_store_nothing_is_submitted_and_the_place_is_named() {
    let login = login();
    let refused = login.ask(&["run", STUDY]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("study.yaml:"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--remote FOLDER"),
        "{}",
        refused.stderr
    );
    assert_eq!(login.stub_lines("asked"), Vec::<String>::new());
    let plan = login.ask(&["plan", STUDY]).ok().stdout;
    assert!(
        plan.contains("Slurm: 2 jobs for 2 measured cells, at most 3 at once"),
        "{plan}"
    );
    assert!(
        plan.contains("sbatch --nodes=1 --ntasks=1 --exclusive --partition=main --time=10"),
        "{plan}"
    );
    assert!(plan.contains("`run` needs `--remote FOLDER`"), "{plan}");
    let commands = login.ask(&["plan", STUDY, "--commands"]).ok().stdout;
    assert!(commands.contains("sbatch --nodes=1"), "{commands}");
}

#[test]
fn machines_that_the_study_names_get_whole_blocks_or_launches_in_turn() {
    let login = login();
    login
        .project
        .edit(STUDY, "at-once: 3", "at-once: 3, nodes: [a, b]");
    let plan = login.ask(&["plan", STUDY]).ok().stdout;
    assert!(plan.contains("launches on machines: a 1, b 1"), "{plan}");
    let ran = login.run(&["--json"]).ok();
    assert_eq!(ran.json()["counts"]["ok"], 8, "{}", ran.stderr);
    let asked = login.stub_lines("asked");
    assert!(
        asked[0].contains("--nodelist=a") && asked[1].contains("--nodelist=b"),
        "{asked:?}"
    );
    let report = login.report();
    assert!(
        report.contains("1 cell on a") && report.contains("1 cell on b"),
        "{report}"
    );
}

#[test]
fn a_job_out_of_memory_is_tried_again_as_often_as_the_stage_says() {
    let login = login();
    login.set("modes", "memory\n");
    let ran = login.run(&[]).ok();
    assert!(
        ran.stderr.contains("ended as OUT_OF_MEMORY") && ran.stderr.contains("; trying "),
        "{}",
        ran.stderr
    );
    assert_eq!(login.stub_lines("asked").len(), 3);
    assert_eq!(login.measured(), 2);
}

#[test]
fn a_job_that_ends_early_is_a_line_of_the_ledger_with_slurms_words_as_evidence() {
    let login = login();
    login.set("modes", "memory\nmemory\nmemory\nmemory\n");
    let failed = login.run(&["--keep-going"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let ledger = login.ledger();
    assert!(ledger.contains("failed machine: Slurm job"), "{ledger}");
    assert!(
        ledger.contains("on node1 ended as OUT_OF_MEMORY"),
        "{ledger}"
    );
    let shown = login.ask(&["show", STUDY, "machine.slurm_log"]).ok().stdout;
    assert!(shown.contains("oom-kill"), "{shown}");
    // Running the study again is another attempt.
    login.run(&[]).ok();
    assert_eq!(login.measured(), 2);
}

#[test]
fn jobs_outlive_a_coordinator_that_is_killed_and_are_found_again() {
    for number_is_known in [true, false] {
        let login = login();
        login.killed();
        let status = login.ask(&["status", STUDY]).ok().stdout;
        assert!(
            status.contains("PENDING") && status.contains("since 01:00:00"),
            "{status}"
        );
        if !number_is_known {
            login.forget_the_second_job();
        }
        login.unset("hold");
        let ran = login.run(&[]).ok();
        assert!(
            ran.stderr.contains("an earlier run left 2 jobs in Slurm"),
            "{}",
            ran.stderr
        );
        assert_eq!(
            login.stub_lines("asked").len(),
            2,
            "nothing is submitted twice"
        );
        assert_eq!(login.measured(), 2, "nothing is measured twice");
    }
}

#[test]
fn results_that_jobs_of_a_killed_run_left_are_nobodys_to_offer() {
    let login = login();
    login.killed();
    login.unset("hold");
    // The jobs end unsupervised.
    until(|| login.measured() == 2);
    let ran = login.run(&[]).ok();
    assert!(!ran.stderr.contains("left out"), "{}", ran.stderr);
    assert_eq!(
        login.stub_lines("asked").len(),
        2,
        "nothing is submitted twice"
    );
    assert_eq!(login.measured(), 2, "nothing is measured twice");
}

#[test]
fn jobs_of_another_version_of_the_study_are_cancelled() {
    let login = login();
    login.killed();
    login.project.edit(STUDY, "default: 4", "default: 5");
    let second = login.start();
    until(|| login.stub_lines("jobs/1/state") == ["CANCELLED"]);
    login.unset("hold");
    let said = ended(second);
    assert!(said.contains("of an earlier run"), "{said}");
    assert_eq!(login.stub_lines("asked").len(), 4);
}

#[test]
fn a_controller_that_does_not_answer_is_asked_again() {
    let login = login();
    login.set("silent", "3");
    let ran = login.run(&[]).ok();
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
    assert!(ran.stderr.contains("answers again"), "{}", ran.stderr);
    assert_eq!(login.stub_lines("asked").len(), 2);
}

#[test]
fn what_the_queue_has_forgotten_accounting_tells() {
    let login = login();
    login.set("forgets", "");
    login.set("modes", "memory\nmemory\nmemory\nmemory\n");
    let failed = login.run(&["--keep-going"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(
        login.ledger().contains("OUT_OF_MEMORY"),
        "{}",
        login.ledger()
    );
}

#[test]
fn what_sbatch_refuses_ends_the_run_with_its_words() {
    let login = login();
    login.set("modes", "refuse\n");
    let refused = login.run(&[]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("invalid partition specified: gpu"),
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
fn a_machine_unlike_the_first_one_measures_nothing() {
    let login = login();
    login.set("hold", "");
    let mut first = login.start();
    login.until_noted(2);
    let run = login.lines()[0]["run"].as_str().expect("a name").to_owned();
    let facets = login.shared.path().join("jobs").join(run).join("facets");
    fs::create_dir_all(&facets).expect("a folder");
    let other = r#"{"cpu_model": "Another One"}"#;
    fs::write(facets.join("machine.0.0.0"), other).expect("a file");
    login.unset("hold");
    let ended = first.wait().expect("it ends");
    assert_eq!(ended.code(), Some(1));
    let ledger = login.ledger();
    assert!(
        ledger.contains("differs from those that execute the rest of the study"),
        "{ledger}"
    );
    assert_eq!(login.measured(), 0);
}

#[test]
fn the_shipped_study_plans_its_jobs() {
    let login = login();
    let study = "experiments/slurm/llama-cpp-threads.yaml";
    let plan = login.ask(&["plan", study]).ok().stdout;
    assert!(
        plan.contains("Slurm: 15 jobs for 30 measured cells, at most 2 at once"),
        "{plan}"
    );
    assert!(
        plan.contains("launches on machines: node1 9, node2 6"),
        "{plan}"
    );
    let smoke = login.ask(&["plan", study, "--smoke", "--json"]).ok().json();
    assert_eq!(smoke["slurm"].as_array().map(Vec::len), Some(2), "{smoke}");
}

#[test]
fn mistakes_in_the_slurm_settings_are_reported_with_their_places() {
    for (from, to, says) in [
        ("at-once: 3", "queue: gpu", "`partition`"),
        (
            "at-once: 3",
            "nodes: [\"gpu-[1-4]\"]",
            "cannot be the name of a machine",
        ),
        (
            "at-once: 3",
            "extra-arguments: [\"--output=x\"]",
            "Benchtrail passes it to `sbatch` itself",
        ),
        ("at-once: 3", "folder: here", "not an absolute path"),
        ("at-once: 3", "at-once: 0", "at-once"),
    ] {
        let login = login();
        login.project.edit(STUDY, from, to);
        let wrong = login.ask(&["plan", STUDY]);
        assert_eq!(wrong.code, Some(2), "{to}: {}", wrong.stderr);
        assert!(wrong.stderr.contains(says), "{to}: {}", wrong.stderr);
        assert!(
            wrong.stderr.contains("study.yaml:") && wrong.stderr.contains('^'),
            "{}",
            wrong.stderr
        );
    }
}
