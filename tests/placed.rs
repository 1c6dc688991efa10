//! A project whose launches a scheduler executes on other machines, with a stub of the scheduler's commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Outcome, Project};

/// The file of the study.
pub(crate) const STUDY: &str = "study.yaml";

/// A project with the study of the Slurm lane: two launches with one load each.
pub(crate) struct Placed {
    pub(crate) project: Project,
    /// The folder of the stub: its commands, its settings, and a file `asked` that lists its submissions.
    pub(crate) stub: tempfile::TempDir,
    /// The variable that tells the stub its folder.
    variable: &'static str,
    pub(crate) shared: tempfile::TempDir,
}

impl Placed {
    /// Makes a project. `adapted` changes the text of the study, given the shared store. The program `program` below
    /// `tests` replaces each of `commands`.
    pub(crate) fn new(
        (variable, program, commands): (&'static str, &str, &[&str]),
        adapted: impl FnOnce(String, &Path) -> String,
    ) -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let project = Project::new();
        let shared = tempfile::tempdir().expect("a temporary folder");
        let text = fs::read_to_string(tests.join("slurm/study/experiment.yaml"))
            .expect("the study")
            .replace("to: 16", "to: 2")
            .replace("clients: [1, 2, 4]", "clients: [1]")
            .replace("default: 24", "default: 4");
        let text = adapted(text, shared.path());
        fs::write(project.path().join(STUDY), text).expect("a file");
        let prompts = tests.join("slurm/study/prompts.jsonl");
        fs::copy(prompts, project.path().join("prompts.jsonl")).expect("a file");
        let stub = tempfile::tempdir().expect("a temporary folder");
        for command in commands {
            let link = stub.path().join(command);
            std::os::unix::fs::symlink(tests.join(program), link).expect("a link");
        }
        Self {
            project,
            stub,
            variable,
            shared,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the stub must come first on the search path"
    )]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.stub.path().to_owned());
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
        command
            .env("PATH", path.expect("plain paths"))
            .env(self.variable, self.stub.path());
        command
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Outcome {
        self.command(arguments)
            .output()
            .expect("the binary starts")
            .into()
    }

    /// Runs the study with the shared store.
    pub(crate) fn run(&self, more: &[&str]) -> Outcome {
        let shared = self.shared.path().to_str().expect("a plain path");
        self.ask(&[&["run", STUDY, "--remote", shared][..], more].concat())
    }

    /// Starts to run the study with the shared store.
    pub(crate) fn start(&self) -> Child {
        let shared = self.shared.path().to_str().expect("a plain path");
        self.command(&["run", STUDY, "--remote", shared])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    /// Starts a run, and kills it once it has recorded its two jobs. The stub keeps both jobs from starting.
    pub(crate) fn killed(&self) {
        self.set("hold", "");
        let mut first = self.start();
        self.until_noted(2);
        first.kill().expect("it is killed");
        first.wait().expect("it is gone");
    }

    /// Sets a setting of the stub.
    pub(crate) fn set(&self, file: &str, text: &str) {
        fs::write(self.stub.path().join(file), text).expect("a file");
    }

    pub(crate) fn unset(&self, file: &str) {
        fs::remove_file(self.stub.path().join(file)).expect("the file");
    }

    /// Returns the lines of a file of the stub; none if it does not exist.
    pub(crate) fn stub_lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.stub.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the file in which a run records its jobs; `None` if no run left any.
    pub(crate) fn jobs_file(&self) -> Option<PathBuf> {
        let folder = self.project.path().join(".benchtrail/clusters");
        let files = fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|e| e == "json"));
        files.next()
    }

    /// Returns the lines of that file: one for the run, then one for each change of a job.
    pub(crate) fn lines(&self) -> Vec<Value> {
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

    /// Removes the scheduler's name of the second job from that file, as if the run had been killed between submitting and
    /// recording it.
    pub(crate) fn forget_the_second_job(&self) {
        let file = self.jobs_file().expect("the jobs");
        let mut lines = self.lines();
        for line in lines.iter_mut().filter(|line| line["name"] == "0002") {
            line["job"] = Value::Null;
        }
        let lines = lines.iter().map(|line| format!("{line}\n"));
        fs::write(file, lines.collect::<String>()).expect("a file");
    }

    /// Waits until a run has recorded the scheduler's names of this many jobs.
    pub(crate) fn until_noted(&self, count: usize) {
        until(|| {
            let lines = self.lines();
            let jobs = lines.iter().filter(|line| line["job"].is_string());
            let names: BTreeSet<String> = jobs.map(|job| job["name"].to_string()).collect();
            names.len() == count
        });
    }

    /// Returns the number of complete load records in the shared store.
    pub(crate) fn measured(&self) -> usize {
        let jobs = fs::read_dir(self.shared.path().join("jobs")).expect("jobs");
        let done = jobs
            .flatten()
            .filter_map(|run| fs::read_dir(run.path().join("done")).ok());
        let done = done.flatten().flatten();
        // A job that ends meanwhile renames its document, so that a listed name can be gone when it is read.
        done.filter(|file| {
            fs::read_to_string(file.path()).is_ok_and(|text| text.contains("\"stage\": \"load\""))
        })
        .count()
    }

    pub(crate) fn ledger(&self) -> String {
        self.ask(&["status", STUDY, "--cells"]).ok().stdout
    }

    pub(crate) fn report(&self) -> String {
        fs::read_to_string(self.project.path().join("reports/nodes/report.md")).expect("a report")
    }

    /// Runs the finished study again without its place: nothing is measured, and the pure stages produce the same bytes as in
    /// `ran`, the output of the run with `--json`.
    pub(crate) fn agrees_with_a_run_here(&self, ran: &Value) {
        let study = fs::read_to_string(self.project.path().join(STUDY)).expect("the study");
        let place =
            study.find("    place:").expect("a place")..study.find("  server:").expect("it");
        let mut local = study.clone();
        local.replace_range(place, "");
        fs::write(self.project.path().join("local.yaml"), local).expect("a file");
        let lock = |name: &str| self.project.path().join(name);
        fs::copy(lock("study.lock"), lock("local.lock")).expect("the lock");
        let arguments = ["run", "local.yaml", "--from", "checks", "--json"];
        let here = self.ask(&arguments).ok().json();
        assert_eq!(here["executed"], 3, "the pure stages: {here}");
        assert_eq!(here["trail"], ran["trail"]);
    }
}

/// Waits for a run that succeeds; returns its output.
pub(crate) fn ended(run: Child) -> String {
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// Waits until something holds; fails after two minutes.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < limit, "it does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}
