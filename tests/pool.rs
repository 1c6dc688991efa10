//! Launches on hosts of a pool. Several real OpenSSH servers on the loopback address act as the hosts, each with its
//! own port, key and folder. If the server is not installed, the tests say so and end.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ssh::{Sshd, await_silence};
use crate::support::{Outcome, Project};

const STUDY: &str = "study.yaml";
const NAMES: [&str; 3] = ["ada", "bob", "cyd"];

/// A project with the study of the Slurm lane, run on a pool.
struct Lab {
    project: Project,
    hosts: Vec<Sshd>,
}

impl Lab {
    /// Starts a number of hosts; `None` if the server is not installed.
    fn with(hosts: usize, blocks: usize) -> Option<Self> {
        let hosts: Vec<Sshd> = NAMES[..hosts]
            .iter()
            .map(|_| Sshd::start())
            .collect::<Option<_>>()?;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = Project::new();
        let named: String = NAMES
            .iter()
            .zip(&hosts)
            .map(|(name, host)| {
                let there = host.there().display().to_string();
                format!("  {name}: {{ssh: box-{name}, folder: {there}, labels: [small]}}\n")
            })
            .collect();
        let text = fs::read_to_string(repository.join("tests/slurm/study/experiment.yaml"))
            .expect("the study")
            .replace(
                "slurm: {partition: \"${partition}\", time: \"${time}\", at-once: 3}",
                "pool: {labels: [small], config: ssh_config}",
            )
            .replace(
                "  time: {type: text, default: 10 min, help: The time limit of a job.}\n",
                "",
            )
            .replace(
                "  partition: {type: text, default: main, help: The partition.}\n",
                "",
            )
            .replace("  rep: {from: 1, to: 16}\n", "")
            .replace("clients: [1, 2, 4]", "clients: [1, 2]")
            .replace("over: [rep]", "over: []")
            .replace("over: [rep, clients]", "over: [clients]")
            .replace("default: 24", "default: 8")
            .replace(
                "\naxes:\n",
                &format!("\nhosts:\n{named}\ndesign: {{blocks: {blocks}, noise: 20 %}}\n\naxes:\n"),
            );
        fs::write(project.path().join(STUDY), text).expect("a file");
        let prompts = repository.join("tests/slurm/study/prompts.jsonl");
        fs::copy(prompts, project.path().join("prompts.jsonl")).expect("a file");
        let configs = NAMES.iter().zip(&hosts).map(|(name, host)| {
            let config = fs::read_to_string(host.file("ssh_config")).expect("a file");
            config.replace("Host box", &format!("Host box-{name}"))
        });
        let config: String = configs.collect();
        fs::write(project.path().join("ssh_config"), config).expect("a file");
        Some(Self { project, hosts })
    }

    fn ask(&self, arguments: &[&str]) -> Outcome {
        self.project.run(arguments)
    }

    fn run(&self) -> Outcome {
        self.ask(&["run", STUDY, "--no-dry-run"])
    }

    /// Starts a run with long loads; its output goes to the file `said`.
    fn start(&self) -> Child {
        let said = fs::File::create(self.project.path().join("said")).expect("a file");
        self.project
            .command(["run", STUDY, "--no-dry-run"])
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("the binary starts")
    }

    fn run_output(&self) -> String {
        fs::read_to_string(self.project.path().join("said")).expect("a file")
    }

    /// Makes loads long enough for a test to intervene.
    fn slow(&self) {
        self.project.edit(STUDY, "default: 8", "default: 80");
    }

    /// Returns the number of complete load records in the store of an unfinished run.
    fn measured(&self) -> usize {
        let run = self.ask(&["status", STUDY, "--json"]);
        let Ok(status) = serde_json::from_str::<Value>(&run.stdout) else {
            return 0;
        };
        let runs = status["unfinished"].as_array().cloned().unwrap_or_default();
        let counts = runs
            .iter()
            .filter_map(|run| run["stages"]["load"]["ok"].as_u64());
        usize::try_from(counts.sum::<u64>()).expect("few")
    }

    fn states(&self) -> Vec<String> {
        let run = self.ask(&["status", STUDY, "--json"]);
        let status: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let jobs = status["jobs"].as_array().cloned().unwrap_or_default();
        let state = |job: &Value| Some(job["state"].as_str()?.to_owned());
        jobs.iter().filter_map(state).collect()
    }

    /// Returns the host and the facts of each measured cell.
    fn records(&self) -> Vec<(String, Value)> {
        let status = self.ask(&["status", STUDY, "--json"]).ok().json();
        let cells = status["cells"].as_array().expect("cells").iter();
        cells
            .filter(|cell| cell["stage"] == "load")
            .map(|cell| {
                let record = cell["record"].as_str().expect("a record");
                let record = self.ask(&["show", record, "--raw"]).ok().json();
                let host = record["host"].as_str().expect("a host").to_owned();
                (host, record["observations"]["pool"].clone())
            })
            .collect()
    }

    /// Returns the number of cells that were executed more than once.
    fn executed_again(&self) -> usize {
        let status = self.ask(&["status", STUDY, "--json"]).ok().json();
        let cells = status["cells"].as_array().expect("cells").iter();
        cells
            .filter(|cell| cell["executions"].as_u64() > Some(1))
            .count()
    }

    fn await_silence(&self) {
        self.hosts
            .iter()
            .for_each(|host| await_silence(&host.there()));
    }

    /// Returns the files that runs keep about their jobs.
    fn kept(&self) -> Vec<String> {
        let folder = self.project.path().join(".benchtrail/clusters");
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }
}

fn until(mut holds: impl FnMut() -> bool, or: impl Fn() -> String) {
    let limit = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < limit, "it does not come: {}", or());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill is there").success());
}

#[test]
fn a_study_on_a_pool_is_spread_by_blocks_traced_to_its_hosts_and_the_study_here() {
    let Some(lab) = Lab::with(2, 2) else { return };
    let plan = lab.ask(&["plan", STUDY]).ok().stdout;
    assert!(
        plan.contains("pool: 2 launches for 4 measured cells on 2 hosts"),
        "{plan}"
    );
    assert!(
        plan.contains("ada: 1 launch with 2 measured cells (block 1)"),
        "{plan}"
    );
    assert!(
        plan.contains("every host has the same number of blocks"),
        "{plan}"
    );
    let commands = lab.ask(&["plan", STUDY, "--commands"]).ok().stdout;
    assert!(commands.contains("ssh box-ada benchtrail"), "{commands}");
    let ran = lab.run();
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let mut hosts: Vec<String> = lab.records().into_iter().map(|(host, _)| host).collect();
    hosts.sort();
    assert_eq!(hosts, ["ada", "ada", "bob", "bob"]);
    let report = fs::read_to_string(lab.project.path().join("reports/nodes/report.md"));
    let report = report.expect("a report");
    assert!(
        report.contains("ada") && report.contains("bob"),
        "the ledger names hosts"
    );
    assert_eq!(
        lab.kept(),
        Vec::<String>::new(),
        "nothing is left of the jobs"
    );
    lab.await_silence();
    lab.ask(&["audit", "reports/nodes/report.md"]).ok();
    // The same study without a place has the same keys.
    let placed = "    place:\n      pool: {labels: [small], config: ssh_config}\n";
    lab.project.edit(STUDY, placed, "");
    let plan = lab.ask(&["plan", STUDY]).ok().stdout;
    assert!(plan.contains("report: run, `study.spec`"), "{plan}");
    for stage in ["machine", "server", "load", "checks", "results"] {
        let runs = |line: &&str| line.starts_with(stage) && line.contains(':');
        assert_eq!(plan.lines().find(runs), None, "{plan}");
    }
}

#[test]
fn a_host_that_is_lost_loses_its_launch_which_goes_on_elsewhere() {
    let Some(mut lab) = Lab::with(2, 2) else {
        return;
    };
    lab.slow();
    let mut run = lab.start();
    until(|| lab.measured() >= 1, || lab.run_output());
    lab.hosts[0].lose();
    let ended = run.wait().expect("it ends");
    assert!(ended.success(), "{}", lab.run_output());
    assert!(
        lab.run_output().contains("the host ada was lost"),
        "{}",
        lab.run_output()
    );
    // The program on the host ends by itself.
    lab.await_silence();
    let records = lab.records();
    assert_eq!(records.len(), 4);
    assert_eq!(lab.executed_again(), 0);
    let moved: Vec<&Value> = records
        .iter()
        .map(|(_, facts)| &facts["earlier"][0])
        .filter(|earlier| earlier["state"] == "LOST")
        .collect();
    assert!(!moved.is_empty(), "{records:?}");
    assert!(
        moved.iter().all(|earlier| earlier["node"] == "ada"),
        "{moved:?}"
    );
    assert!(records.iter().any(|(host, _)| host == "bob"));
    lab.ask(&["audit", "reports/nodes/report.md"]).ok();
}

#[test]
fn a_run_that_is_killed_leaves_nothing_at_work_and_the_next_one_goes_on() {
    let Some(lab) = Lab::with(2, 4) else { return };
    lab.slow();
    let mut run = lab.start();
    until(|| lab.measured() >= 2, || lab.run_output());
    run.kill().expect("SIGKILL");
    run.wait().expect("it is gone");
    lab.await_silence();
    let measured = lab.measured();
    assert!(
        lab.states().iter().any(|state| state == "LEFT"),
        "{:?}",
        lab.states()
    );
    let again = lab.run();
    assert_eq!(again.code, Some(0), "{}\n{}", again.stdout, again.stderr);
    assert!(
        again.stderr.contains("an earlier run ended with"),
        "{}",
        again.stderr
    );
    assert_eq!(lab.records().len(), 8);
    assert_eq!(lab.executed_again(), 0, "{measured} were there");
    assert_eq!(lab.kept(), Vec::<String>::new());
}

#[test]
fn ctrl_c_stops_the_hosts_keeps_what_they_measured_and_the_next_run_goes_on() {
    let Some(lab) = Lab::with(2, 4) else { return };
    lab.slow();
    let mut run = lab.start();
    until(|| lab.measured() >= 1, || lab.run_output());
    signal(run.id(), "-INT");
    assert_eq!(
        run.wait().expect("it ends").code(),
        Some(130),
        "{}",
        lab.run_output()
    );
    lab.await_silence();
    assert!(
        lab.run_output().contains("stopping 2 hosts"),
        "{}",
        lab.run_output()
    );
    let again = lab.run();
    assert_eq!(again.code, Some(0), "{}\n{}", again.stdout, again.stderr);
    assert_eq!(lab.records().len(), 8);
    assert_eq!(lab.executed_again(), 0);
}

#[test]
fn a_host_executes_one_launch_at_a_time_whoever_asks() {
    let Some(lab) = Lab::with(1, 1) else { return };
    let there = lab.hosts[0].there();
    fs::create_dir_all(&there).expect("a folder");
    let other = fs::File::create(there.join("shard.lock")).expect("a file");
    other.lock().expect("nobody holds it");
    let mut run = lab.start();
    until(|| lab.states() == ["WAITING"], || lab.run_output());
    drop(other);
    assert!(
        run.wait().expect("it ends").success(),
        "{}",
        lab.run_output()
    );
}

#[test]
fn what_no_host_executes_fails_with_the_reason_after_some_attempts() {
    let Some(mut lab) = Lab::with(1, 1) else {
        return;
    };
    lab.hosts[0].lose();
    let ran = lab.run();
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    let output = ran.stdout + &ran.stderr;
    assert!(
        output.contains("the host ada could not be reached"),
        "{output}"
    );
    assert!(output.contains("at attempt 4"), "{output}");
    let ledger = lab.ask(&["status", STUDY, "--cells"]).stdout;
    assert!(
        ledger.contains("the host ada could not be reached"),
        "{ledger}"
    );
}

#[test]
fn a_budget_is_planned_stops_a_study_and_the_next_run_goes_on() {
    let Some(lab) = Lab::with(1, 3) else { return };
    // A host costs 1 EUR per second.
    let terms = |budget: &str| {
        format!("cost-per-hour: 3600, budget: {budget}, currency: EUR, config: ssh_config")
    };
    lab.project
        .edit(STUDY, "config: ssh_config", &terms("0.05"));
    let plan = lab.ask(&["plan", STUDY]).ok().stdout;
    assert!(
        plan.contains("budget: 0.05 EUR, 0.00 spent; no earlier executions"),
        "{plan}"
    );
    let ran = lab.run();
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("the budget of 0.05 EUR"),
        "{}",
        ran.stderr
    );
    lab.await_silence();
    let skipped = "the budget of 0.05 EUR";
    assert!(ran.stdout.contains(skipped), "{}", ran.stdout);
    // The budget is spent, so nothing starts.
    let again = lab.run();
    assert!(
        again.stderr.contains("permits no further launch"),
        "{}",
        again.stderr
    );
    assert!(!again.stderr.contains("host ada:"), "{}", again.stderr);
    lab.project.edit(STUDY, &terms("0.05"), &terms("5000"));
    let more = lab.run();
    assert_eq!(more.code, Some(0), "{}\n{}", more.stdout, more.stderr);
    assert_eq!(lab.records().len(), 6);
    assert_eq!(lab.executed_again(), 0);
    let plan = lab
        .ask(&["plan", STUDY, "--fresh", "load", "--json"])
        .ok()
        .json();
    let cost = &plan["costs"][0];
    assert_eq!(cost["launches"], 3, "{cost}");
    assert!(
        cost["spent"].as_f64() > Some(0.05) && cost["expected"].as_f64() > Some(0.0),
        "{cost}"
    );
}

#[test]
fn mistakes_in_a_pool_are_reported_at_their_place() {
    let Some(lab) = Lab::with(1, 1) else { return };
    lab.project
        .edit(STUDY, "labels: [small], config", "labels: [large], config");
    let wrong = lab.ask(&["plan", STUDY]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("no host has the labels `large`"),
        "{}",
        wrong.stderr
    );
    assert!(wrong.stderr.contains("study.yaml:"), "{}", wrong.stderr);
    lab.project
        .edit(STUDY, "labels: [large], config", "hosts: [eve], config");
    let wrong = lab.ask(&["plan", STUDY]);
    assert!(
        wrong.stderr.contains("unknown host `eve`"),
        "{}",
        wrong.stderr
    );
    lab.project
        .edit(STUDY, "ada: {ssh: box-ada,", "ada: {address: box-ada,");
    let wrong = lab.ask(&["plan", STUDY]);
    assert!(wrong.stderr.contains("`ssh`"), "{}", wrong.stderr);
}
