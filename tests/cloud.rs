//! A machine that a module creates and destroys: the real OpenTofu or Terraform, with a module of local resources, and
//! a real OpenSSH server on the loopback address. If one of them is missing, the tests say so and end.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::skipped::skipped;
use crate::ssh::{Sshd, await_silence};
use crate::support::{Project, copy_folder};

/// A module whose machine is this one. It notes in a file what it creates and destroys.
const MODULE: &str = r#"
variable "marks" { type = string }
variable "port" { type = number }
variable "key" { type = string }
variable "host_key" { type = string }
resource "terraform_data" "machine" {
  input = var.marks
  provisioner "local-exec" { command = "echo made >> ${self.input}" }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed >> ${self.input}"
  }
}
output "host" { value = "127.0.0.1" }
output "port" { value = var.port }
output "key_path" { value = var.key }
output "host_key" { value = var.host_key }
output "token" {
  value     = "hunter2"
  sensitive = true
}
"#;

struct Rental {
    project: Project,
    sshd: Sshd,
}

fn program() -> Option<&'static str> {
    let works = |name: &&str| {
        let called = Command::new(name)
            .arg("version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        called.is_ok_and(|status| status.success())
    };
    let program = ["tofu", "terraform"].into_iter().find(|name| works(name));
    if program.is_none() {
        skipped("tofu", "neither tofu nor terraform is on the search path");
    }
    program
}

impl Rental {
    /// Writes a study on a rented machine; `terms` are its costs, separated by commas.
    fn new(requests: u32, terms: &str) -> Option<Self> {
        program()?;
        let sshd = Sshd::start()?;
        let project = Project::finished();
        copy_folder(
            &project.path().join(".benchtrail/environments"),
            &sshd.there().join("store/environments"),
        );
        let module = project.path().join("experiments/infra");
        fs::create_dir(&module).expect("a folder");
        fs::write(module.join("main.tf"), MODULE).expect("a file");
        let host_key = fs::read_to_string(sshd.file("host.pub")).expect("a key");
        let text = format!(
            "experiment: rented\nquestion: Is a rented server one like any other?\nseed: 3\nworkloads:\n  \
             short: {{prompts: {{words: {{length: 6}}}}, output: {{tokens: 4, mode: exact}}}}\nstages:\n  machine:\n    \
             kind: provision\n    engine: llama-cpp\n    model: smollm2-135m-instruct\n    place:\n      cloud:\n        \
             module: infra\n        folder: {}\n        variables: {{marks: {}, port: {}, key: {}, host_key: \"{}\"}}\n        \
             {}\n  \
             server: {{kind: serve, needs: [machine], settings: {{parallel: 2, context: 512, threads: 1}}}}\n  \
             load: {{kind: load, needs: [server], workload: short, arrival: {{closed-loop: {{clients: 2}}}}, \
             requests: {requests}, telemetry: {{interval: 50 ms}}}}\n  checks: {{kind: verify, needs: [server, load], \
             gates: [{{gate: row-status}}, {{gate: token-accounting}}]}}\n",
            sshd.there().display(),
            project.path().join("marks").display(),
            sshd.port(),
            sshd.file("user").display(),
            host_key.trim(),
            terms.replace(", ", "\n        "),
        );
        fs::write(project.path().join("experiments/rented.yaml"), text).expect("a file");
        Some(Self { project, sshd })
    }

    fn marks(&self) -> String {
        fs::read_to_string(self.project.path().join("marks")).unwrap_or_default()
    }

    /// Returns the folders of the machines in the store.
    fn machines(&self) -> Vec<PathBuf> {
        let folder = self.project.path().join(".benchtrail/cloud");
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    fn meter(&self) -> Value {
        let file = self.machines()[0].join("meter.json");
        serde_json::from_str(&fs::read_to_string(file).expect("a meter")).expect("a document")
    }

    /// Starts a long run, and returns when it loads the server.
    fn running(&self) -> std::process::Child {
        let events = self.project.path().join("events.jsonl");
        let mut child = self
            .project
            .command([
                "run",
                "experiments/rented.yaml",
                "--no-dry-run",
                "--events",
                events.to_str().expect("plain"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        self.until("a request is answered", || {
            assert!(child.try_wait().expect("asked").is_none(), "it ended");
            fs::read_to_string(&events)
                .unwrap_or_default()
                .contains(r#""event":"cell-progress","cell":"load""#)
        });
        child
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let limit = Instant::now() + Duration::from_secs(300);
        while !holds() {
            assert!(Instant::now() < limit, "{what}: {}", self.sshd.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_rented_machine_is_made_measured_on_and_destroyed() {
    let Some(rental) = Rental::new(8, "cost-per-hour: 1.5, budget: 20, currency: EUR") else {
        return;
    };
    let Rental { project, sshd } = &rental;
    let offer = project
        .run(["plan", "experiments/rented.yaml", "--commands"])
        .ok()
        .stdout;
    assert!(
        offer.contains("1.50 EUR an hour and at most 20.00 EUR (that is 13.3 h)")
            && offer.contains("main.tf"),
        "{offer}"
    );
    assert_eq!(rental.marks(), "", "planning makes nothing");
    let outcome = project.run(["run", "experiments/rented.yaml", "--no-dry-run"]);
    let output = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{output}\n{}", sshd.log());
    assert_eq!(rental.marks(), "made\ndestroyed\n", "{output}");
    assert!(
        output.contains("destroyed the machines that the study had rented: 0.0"),
        "{output}"
    );
    assert_eq!(rental.meter()["state"], "gone");
    let record = project
        .run(["show", "experiments/rented.yaml", "machine", "--json"])
        .ok()
        .stdout;
    assert!(
        record.contains("127.0.0.1") && !record.contains("hunter2"),
        "{record}"
    );
    await_silence(&sshd.there());
    let again = project.run(["plan", "experiments/rented.yaml"]).ok().stdout;
    assert!(again.contains("nothing to execute"), "{again}");
    // The cost does not affect any measurement.
    project.edit("experiments/rented.yaml", "budget: 20", "budget: 30");
    let again = project.run(["plan", "experiments/rented.yaml"]).ok().stdout;
    assert!(again.contains("nothing to execute"), "{again}");
    project.edit("experiments/infra/main.tf", "echo made", "echo  made");
    let again = project.run(["plan", "experiments/rented.yaml"]).ok().stdout;
    assert!(!again.contains("nothing to execute"), "{again}");
    project.run(["fsck"]).ok();
}

#[test]
fn a_run_that_is_killed_leaves_no_rented_machine() {
    let Some(rental) = Rental::new(100_000, "cost-per-hour: 1.5, budget: 20") else {
        return;
    };
    let mut child = rental.running();
    assert_eq!(rental.marks(), "made\n");
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    rental.until("it is destroyed", || {
        rental.marks() == "made\ndestroyed\n" && rental.meter()["state"] == "gone"
    });
    await_silence(&rental.sshd.there());
}

#[test]
fn what_a_killed_run_and_a_killed_keeper_leave_is_destroyed_by_the_next_run() {
    let Some(rental) = Rental::new(100_000, "cost-per-hour: 1.5, budget: 20") else {
        return;
    };
    let mut child = rental.running();
    let keeper = rental.meter()["keeper"]["pid"].to_string();
    let killed = Command::new("kill").args(["-KILL", &keeper]).status();
    assert!(killed.expect("kill is there").success());
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    assert_eq!(rental.marks(), "made\n", "nobody was left to destroy it");
    let outcome = rental
        .project
        .run(["run", "experiments/quickstart.yaml", "--profile", "smoke"]);
    let output = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert!(
        output.contains("destroyed a machine that an earlier run left"),
        "{output}"
    );
    assert_eq!(rental.marks(), "made\ndestroyed\n");
    assert_eq!(rental.meter()["state"], "gone");
}

#[test]
fn a_store_of_somebody_else_cannot_name_a_program_to_start() {
    let project = Project::new();
    let folder = project.path().join(".benchtrail/cloud/1-1-0");
    fs::create_dir_all(folder.join("module")).expect("a folder");
    fs::write(folder.join("module/terraform.tfstate"), "{}").expect("a file");
    let program = project.path().join("evil");
    fs::write(&program, "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n").expect("a file");
    let _made = Command::new("chmod").arg("755").arg(&program).status();
    let meter = serde_json::json!({
        "experiment": "rented", "state": "rented", "owner": {"pid": 1, "start_time": 1}, "keeper": null,
        "scope": {"boot": "another", "namespace": "another"}, "since": 1, "until": 2, "cost_per_hour": 1.0,
        "currency": "USD", "program": program, "variables": [],
    });
    fs::write(folder.join("meter.json"), meter.to_string()).expect("a file");
    let started = || project.path().join("started").exists();
    let outcome = project.run([
        "run",
        "experiments/simulated.yaml",
        "--smoke",
        "--no-dry-run",
    ]);
    let output = outcome.stdout + &outcome.stderr;
    assert!(output.contains("it was not rented by you"), "{output}");
    assert!(!started(), "{output}");
}

#[test]
fn a_budget_that_is_spent_destroys_the_machine_and_stops_the_study() {
    let Some(rental) = Rental::new(100_000, "cost-per-hour: 3600, budget: 10, currency: EUR")
    else {
        return;
    };
    let run = || {
        let outcome = rental
            .project
            .run(["run", "experiments/rented.yaml", "--no-dry-run"]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
        outcome.stdout + &outcome.stderr
    };
    let message = run();
    assert!(message.contains("the budget is spent"), "{message}");
    assert_eq!(rental.marks(), "made\ndestroyed\n");
    // Money that was spent remains spent.
    let message = run();
    assert!(
        message.contains("of 10.00 EUR") && message.contains("raise `place.cloud.budget`"),
        "{message}"
    );
    assert_eq!(rental.marks(), "made\ndestroyed\n");
}

#[test]
fn a_module_that_fails_is_quoted_and_leaves_nothing() {
    let Some(rental) = Rental::new(8, "cost-per-hour: 1.5, budget: 20") else {
        return;
    };
    let project = &rental.project;
    project.edit("experiments/rented.yaml", "port:", "prot:");
    let outcome = project.run(["run", "experiments/rented.yaml", "--no-dry-run"]);
    let output = outcome.stdout + &outcome.stderr;
    assert_eq!(outcome.code, Some(1), "{output}");
    assert!(
        output.contains("the module infra: `apply`: Error:") && output.contains("prot"),
        "{output}"
    );
    assert!(output.contains("nothing is left"), "{output}");
    assert_eq!(rental.marks(), "");
}

#[test]
fn a_rented_machine_needs_a_module_a_price_and_a_budget() {
    let project = Project::new();
    let wrong = |cloud: &str| {
        let text = format!(
            "experiment: rented\nseed: 3\nstages:\n  machine: {{kind: provision, engine: llama-cpp, model: \
             smollm2-135m-instruct, place: {{cloud: {cloud}}}}}\n"
        );
        fs::write(project.path().join("rented.yaml"), text).expect("a file");
        let outcome = project.run(["plan", "rented.yaml"]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
        outcome.stderr
    };
    fs::create_dir(project.path().join("infra")).expect("a folder");
    let message = wrong("{module: infra}");
    for part in [
        "needs `cost-per-hour`",
        "needs `budget`",
        "no file that ends with `.tf`",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let message = wrong("{module: nowhere, cost-per-hour: 0, budget: -1}");
    for part in [
        "must be greater than 0, got 0",
        "must be greater than 0, got -1",
        "nowhere",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
}

#[test]
fn a_plan_has_the_least_cost_of_rented_machines_by_price_rates_and_durations() {
    let project = Project::new();
    fs::create_dir(project.path().join("infra")).expect("a folder");
    fs::write(project.path().join("infra/main.tf"), "").expect("a file");
    // A machine costs 1 or 2 EUR per second, and two cells of 30 s are measured on each.
    let text = "experiment: rented\nseed: 3\naxes:\n  machine:\n    - small: {size: 1, cost: 3600}\n    \
                - large: {size: 2, cost: 7200}\n  rate: [2, 4]\nstages:\n  host:\n    kind: provision\n    over: [machine]\n    \
                engine: llama-cpp\n    model: smollm2-135m-instruct\n    place: {cloud: {module: infra, variables: {size: \
                \"${machine.size}\"}, cost-per-hour: \"${machine.cost}\", budget: 500, currency: EUR}}\n  \
                server: {kind: serve, needs: [host], over: [machine]}\n  load: {kind: load, needs: [server], over: \
                [machine, rate], workload: short-decode, arrival: {constant: {rate: \"${rate}\"}}, duration: 30 s}\n";
    fs::write(project.path().join("rented.yaml"), text).expect("a file");
    let plan = project.run(["plan", "rented.yaml"]);
    assert!(
        plan.stdout.contains(
            "budget: 500.00 EUR, 0.00 spent; no earlier executions and no time limits to estimate what 2 rented machines \
             cost; at least 180.00 by the declared rates and durations"
        ),
        "{}\n{}",
        plan.stdout,
        plan.stderr
    );
    let json = project.run(["plan", "rented.yaml", "--json"]).stdout;
    let json: Value = serde_json::from_str(&json).expect("a document");
    let cost = &json["costs"][0];
    assert_eq!(
        (&cost["machines"], &cost["least"]),
        (&2.into(), &180.0.into())
    );
}
