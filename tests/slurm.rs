//! Launches as Slurm jobs, with a stub of Slurm's commands (`tests/slurm/stub.sh`). The lane `tests/slurm/run` does the
//! same and more with a real Slurm.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Outcome, Project};

const STUDY: &str = "study.yaml";

/// A project with the study of the lane, two launches with one load each, and the stub.
struct Login {
    project: Project,
    stub: tempfile::TempDir,
    shared: tempfile::TempDir,
}

impl Login {
    fn new() -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = Project::new();
        let text = fs::read_to_string(repository.join("tests/slurm/study/experiment.yaml"))
            .expect("the study")
            .replace("to: 16", "to: 2")
            .replace("clients: [1, 2, 4]", "clients: [1]")
            .replace("default: 24", "default: 4");
        fs::write(project.path().join(STUDY), text).expect("a file");
        let prompts = repository.join("tests/slurm/study/prompts.jsonl");
        fs::copy(prompts, project.path().join("prompts.jsonl")).expect("a file");
        let stub = tempfile::tempdir().expect("a temporary folder");
        for program in ["sbatch", "squeue", "sacct", "scancel", "scontrol"] {
            let target = stub.path().join(program);
            std::os::unix::fs::symlink(repository.join("tests/slurm/stub.sh"), target)
                .expect("a link");
        }
        Self {
            project,
            stub,
            shared: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the stub must come first on the search path"
    )]
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.stub.path().to_owned());
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
        command
            .env("PATH", path.expect("plain paths"))
            .env("SLURM_STUB", self.stub.path());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Outcome {
        self.command(arguments)
            .output()
            .expect("the binary starts")
            .into()
    }

    /// Runs the study with the shared store.
    fn run(&self, more: &[&str]) -> Outcome {
        let shared = self.shared.path().to_str().expect("a plain path");
        self.ask(&[&["run", STUDY, "--remote", shared][..], more].concat())
    }

    fn start(&self) -> Child {
        let shared = self.shared.path().to_str().expect("a plain path");
        self.command(&["run", STUDY, "--remote", shared])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts")
    }

    fn set(&self, file: &str, text: &str) {
        fs::write(self.stub.path().join(file), text).expect("a file");
    }

    fn unset(&self, file: &str) {
        fs::remove_file(self.stub.path().join(file)).expect("the file");
    }

    /// Returns the command lines of `sbatch` so far.
    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stub.path().join("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the file in which a run records its jobs.
    fn jobs_file(&self) -> Option<PathBuf> {
        let folder = self.project.path().join(".benchtrail/clusters");
        let files = fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|e| e == "json"));
        files.next()
    }

    /// Returns the lines of the file in which a run records its jobs: one for the run, then one for each change of a
    /// job.
    fn lines(&self) -> Vec<Value> {
        let text = self
            .jobs_file()
            .and_then(|file| fs::read_to_string(file).ok());
        let text = text.unwrap_or_default();
        // The last line may be incomplete, since it is being written.
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).expect("a line"))
            .collect()
    }

    /// Waits until a run has recorded the numbers of this many jobs.
    fn until_noted(&self, count: usize) {
        until(|| {
            let lines = self.lines();
            let known = lines.iter().filter(|line| line["job"].is_string());
            let names: BTreeSet<String> = known.map(|job| job["name"].to_string()).collect();
            names.len() == count
        });
    }

    /// Returns the number of complete load records in the shared store.
    fn measured(&self) -> usize {
        let jobs = fs::read_dir(self.shared.path().join("jobs")).expect("jobs");
        let done = jobs
            .flatten()
            .filter_map(|run| fs::read_dir(run.path().join("done")).ok());
        let done = done.flatten().flatten();
        done.filter(|file| {
            let text = fs::read_to_string(file.path()).expect("a document");
            text.contains("\"stage\": \"load\"")
        })
        .count()
    }

    fn ledger(&self) -> String {
        self.ask(&["status", STUDY, "--cells"]).ok().stdout
    }
}

fn until(mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < limit, "it does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_study_on_slurm_is_the_study_here_with_the_same_keys_and_the_same_trail() {
    let login = Login::new();
    let ran = login.run(&["--json"]).ok();
    assert_eq!(ran.json()["counts"]["ok"], 8, "{}", ran.stderr);
    assert_eq!(login.asked().len(), 2, "a job for each launch");
    assert_eq!(login.measured(), 2);
    assert_eq!(login.jobs_file(), None, "nothing is left to look after");
    login.ask(&["audit", "reports/nodes/report.md"]).ok();
    // Without a place, nothing is measured again, and the pure stages produce the same bytes.
    let study = fs::read_to_string(login.project.path().join(STUDY)).expect("the study");
    let place = study.find("    place:").expect("a place")..study.find("  server:").expect("it");
    let mut local = study.clone();
    local.replace_range(place, "");
    fs::write(login.project.path().join("local.yaml"), local).expect("a file");
    fs::copy(
        login.project.path().join("study.lock"),
        login.project.path().join("local.lock"),
    )
    .expect("the lock");
    let arguments = ["run", "local.yaml", "--from", "checks", "--json"];
    let here = login.ask(&arguments).ok().json();
    assert_eq!(here["executed"], 3, "the pure stages: {here}");
    assert_eq!(here["trail"], ran.json()["trail"]);
    assert_eq!(login.asked().len(), 2);
    let again = login.run(&["--json"]).ok().json();
    assert_eq!(again["executed"], 0);
    assert_eq!(login.asked().len(), 2, "nothing is submitted again");
}

#[test]
fn without_a_shared_store_nothing_is_submitted_and_the_place_is_named() {
    let login = Login::new();
    let refused = login.ask(&["run", STUDY]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("study.yaml:"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--remote FOLDER"),
        "{}",
        refused.stderr
    );
    assert_eq!(login.asked(), Vec::<String>::new());
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
    let login = Login::new();
    login
        .project
        .edit(STUDY, "at-once: 3", "at-once: 3, nodes: [a, b]");
    let plan = login.ask(&["plan", STUDY]).ok().stdout;
    assert!(plan.contains("launches on machines: a 1, b 1"), "{plan}");
    let ran = login.run(&["--json"]).ok();
    assert_eq!(ran.json()["counts"]["ok"], 8, "{}", ran.stderr);
    let asked = login.asked();
    assert!(
        asked[0].contains("--nodelist=a") && asked[1].contains("--nodelist=b"),
        "{asked:?}"
    );
    let report =
        fs::read_to_string(login.project.path().join("reports/nodes/report.md")).expect("it");
    assert!(
        report.contains("1 cells on a") && report.contains("1 cells on b"),
        "{report}"
    );
}

#[test]
fn a_job_out_of_memory_is_tried_again_as_often_as_the_stage_says() {
    let login = Login::new();
    login.set("modes", "memory\n");
    let ran = login.run(&[]).ok();
    assert!(
        ran.stderr.contains("ended as OUT_OF_MEMORY") && ran.stderr.contains("is tried again"),
        "{}",
        ran.stderr
    );
    assert_eq!(login.asked().len(), 3);
    assert_eq!(login.measured(), 2);
}

#[test]
fn a_job_that_ends_early_is_a_line_of_the_ledger_with_slurms_words_as_evidence() {
    let login = Login::new();
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
    // The user runs it again, which is another attempt.
    login.run(&[]).ok();
    assert_eq!(login.measured(), 2);
}

#[test]
fn jobs_outlive_a_coordinator_that_is_killed_and_are_found_again() {
    for number_is_known in [true, false] {
        let login = Login::new();
        login.set("hold", "");
        let mut first = login.start();
        login.until_noted(2);
        first.kill().expect("it is killed");
        first.wait().expect("it is gone");
        let status = login.ask(&["status", STUDY]).ok().stdout;
        assert!(
            status.contains("PENDING") && status.contains("since 01:00:00"),
            "{status}"
        );
        if !number_is_known {
            // As if it had been killed between `sbatch` and recording the job number.
            let file = login.jobs_file().expect("the jobs");
            let mut lines = login.lines();
            for line in lines.iter_mut().filter(|line| line["name"] == "0002") {
                line["job"] = Value::Null;
            }
            let lines = lines.iter().map(|line| format!("{line}\n"));
            fs::write(file, lines.collect::<String>()).expect("a file");
        }
        login.unset("hold");
        let ran = login.run(&[]).ok();
        assert!(
            ran.stderr.contains("an earlier run left 2 jobs in Slurm"),
            "{}",
            ran.stderr
        );
        assert_eq!(login.asked().len(), 2, "nothing is submitted twice");
        assert_eq!(login.measured(), 2, "nothing is measured twice");
    }
}

#[test]
fn results_that_jobs_of_a_killed_run_left_are_nobodys_to_offer() {
    let login = Login::new();
    login.set("hold", "");
    let mut first = login.start();
    login.until_noted(2);
    first.kill().expect("it is killed");
    first.wait().expect("it is gone");
    login.unset("hold");
    // The jobs end unsupervised.
    until(|| login.measured() == 2);
    let ran = login.run(&[]).ok();
    assert!(!ran.stderr.contains("left out"), "{}", ran.stderr);
    assert_eq!(login.asked().len(), 2, "nothing is submitted twice");
    assert_eq!(login.measured(), 2, "nothing is measured twice");
}

#[test]
fn jobs_of_another_version_of_the_study_are_cancelled() {
    let login = Login::new();
    login.set("hold", "");
    let mut first = login.start();
    login.until_noted(2);
    first.kill().expect("it is killed");
    first.wait().expect("it is gone");
    login.project.edit(STUDY, "default: 4", "default: 5");
    login.unset("hold");
    login.set("modes", "");
    let ran = login.run(&[]).ok();
    assert!(ran.stderr.contains("of an earlier run"), "{}", ran.stderr);
    assert_eq!(login.asked().len(), 4);
}

#[test]
fn a_controller_that_does_not_answer_is_asked_again() {
    let login = Login::new();
    login.set("silent", "3");
    let ran = login.run(&[]).ok();
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
    assert!(ran.stderr.contains("answers again"), "{}", ran.stderr);
    assert_eq!(login.asked().len(), 2);
}

#[test]
fn what_the_queue_has_forgotten_accounting_tells() {
    let login = Login::new();
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
    let login = Login::new();
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
    let login = Login::new();
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
    let login = Login::new();
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
fn mistakes_in_what_is_asked_of_slurm_are_told_with_their_places() {
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
        let login = Login::new();
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
