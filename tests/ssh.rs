//! An engine on another host, simulated by a real OpenSSH server on the loopback address. If the server is not
//! installed, the tests say so and end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::skipped::skipped;
use crate::support::{Project, copy_folder, processes_with};

const SSHD: &str = "/usr/sbin/sshd";

/// A server that admits this user with a separate key; it ends when dropped.
pub(crate) struct Sshd {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Sshd {
    /// Starts the server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(SSHD).is_file() {
            let why = format!("{SSHD} is not there; on Debian: apt install openssh-server");
            skipped("sshd", &why);
            return None;
        }
        // When run as root, the server requires this folder, which its service normally creates.
        let _exists_or_not_root = fs::create_dir_all("/run/sshd");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)])
                .status();
            assert!(made.expect("ssh-keygen is there").success());
        }
        fs::copy(
            folder.path().join("user.pub"),
            folder.path().join("allowed"),
        )
        .expect("a key");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let server = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n",
            at("host"),
            at("allowed")
        );
        fs::write(folder.path().join("sshd_config"), server).expect("a file");
        let client = format!(
            "Host box\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  StrictHostKeyChecking accept-new\n",
            at("user"),
            at("known")
        );
        fs::write(folder.path().join("ssh_config"), client).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let sshd = Self {
            child,
            folder,
            port,
        };
        let limit = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                Instant::now() < limit,
                "sshd does not listen: {}",
                sshd.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The folder that Benchtrail uses on this "host".
    pub(crate) fn there(&self) -> PathBuf {
        self.folder.path().join("there")
    }

    /// Ends the server and its connections at once, but nothing that was started over them, as when a link is lost.
    pub(crate) fn lose(&mut self) {
        let servers = servers_below(self.child.id());
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("it is gone");
        for server in servers {
            // One may have ended already.
            let _gone = Command::new("kill")
                .args(["-9", &server.to_string()])
                .status();
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns a file in the server's folder: `user` is the key that it admits, `host.pub` its own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns the processes that serve a server's connections: its descendants of the same name.
fn servers_below(parent: u32) -> Vec<u32> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // `PID (NAME) STATE PARENT …`
        let Some((pid, rest)) = stat.split_once(" (sshd) ") else {
            continue;
        };
        let its_parent = rest
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse::<u32>().ok());
        if let (Ok(pid), true) = (pid.parse::<u32>(), its_parent == Some(parent)) {
            processes.push(pid);
            processes.extend(servers_below(pid));
        }
    }
    processes
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Writes a study with an engine on the host into a project. The host already has the engine's packages.
pub(crate) fn study(sshd: &Sshd, requests: u32) -> Project {
    let project = Project::finished();
    let there = sshd.there();
    copy_folder(
        &project.path().join(".benchtrail/environments"),
        &there.join("store/environments"),
    );
    fs::copy(
        sshd.folder.path().join("ssh_config"),
        project.path().join("experiments/ssh_config"),
    )
    .expect("a file");
    let text = format!(
        "experiment: elsewhere\nquestion: Is a server over SSH one like any other?\nseed: 3\nworkloads:\n  \
         short: {{prompts: {{words: {{length: 6}}}}, output: {{tokens: 4, mode: exact}}}}\nstages:\n  machine:\n    \
         kind: provision\n    engine: llama-cpp\n    model: smollm2-135m-instruct\n    place: {{ssh: {{host: box, \
         folder: {}, config: ssh_config}}}}\n  server: {{kind: serve, needs: [machine], settings: {{parallel: 2, \
         context: 512, threads: 1}}}}\n  load: {{kind: load, needs: [server], workload: short, arrival: \
         {{closed-loop: {{clients: 2}}}}, requests: {requests}, telemetry: {{interval: 50 ms}}}}\n  checks: \
         {{kind: verify, needs: [server, load], gates: [{{gate: row-status}}, {{gate: token-accounting}}]}}\n",
        there.display()
    );
    fs::write(project.path().join("experiments/elsewhere.yaml"), text).expect("a file");
    project
}

fn ask(project: &Project, query: &str) -> Value {
    let answer = project
        .run(["sql", "experiments/elsewhere.yaml", query, "--json"])
        .ok()
        .json();
    answer.get("rows").unwrap_or(&answer).clone()
}

/// Waits until no process runs from the folder on the host.
pub(crate) fn await_silence(there: &Path) {
    let limit = Instant::now() + Duration::from_secs(120);
    let there = there.display().to_string();
    // Clients that contact the host also have its name in their arguments; they end with their run.
    while !processes_with(&there).is_empty() {
        assert!(
            Instant::now() < limit,
            "left behind: {:?}",
            processes_with(&there)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_engine_over_ssh_is_prepared_loaded_sampled_and_stopped_there() {
    let Some(sshd) = Sshd::start() else { return };
    let project = study(&sshd, 8);
    let outcome = project.run(["run", "experiments/elsewhere.yaml", "--no-dry-run"]);
    assert_eq!(
        outcome.code,
        Some(0),
        "{}\n{}\n{}",
        outcome.stdout,
        outcome.stderr,
        sshd.log()
    );
    let host = ask(
        &project,
        r#"select distinct source, processors > 0 as some from "load.server_host_telemetry""#,
    );
    assert_eq!(host, json!([{"source": "box", "some": 1}]));
    let processes = ask(
        &project,
        r#"select count(distinct pid) as n, max(memory_bytes) > 50000000 as holds_weights
           from "load.process_telemetry" where role = 'server'"#,
    );
    assert_eq!(processes, json!([{"n": 1, "holds_weights": 1}]));
    let events = ask(
        &project,
        r#"select count(*) > 0 as some from "load.engine_events""#,
    );
    assert_eq!(events, json!([{"some": 1}]), "the log came here");
    await_silence(&sshd.there());
    let running = fs::read_dir(sshd.there().join("running")).expect("the folder");
    assert_eq!(running.count(), 0);
    let leases = fs::read_dir(sshd.there().join("store/leases")).expect("the folder");
    assert_eq!(leases.count(), 0);
    let again = project.run(["plan", "experiments/elsewhere.yaml"]).ok();
    assert!(
        again.stdout.contains("nothing to execute"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_run_that_is_killed_leaves_no_engine_on_the_host() {
    let Some(sshd) = Sshd::start() else { return };
    let project = study(&sshd, 100_000);
    let events = project.path().join("events.jsonl");
    let mut child = project
        .command([
            "run",
            "experiments/elsewhere.yaml",
            "--no-dry-run",
            "--events",
            events.to_str().expect("plain"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let limit = Instant::now() + Duration::from_secs(300);
    while !fs::read_to_string(&events)
        .unwrap_or_default()
        .contains(r#""event":"cell-progress","cell":"load""#)
    {
        assert!(
            Instant::now() < limit,
            "no request was answered: {}",
            sshd.log()
        );
        assert!(
            child.try_wait().expect("it can be asked").is_none(),
            "the run ended"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    await_silence(&sshd.there());
}

#[test]
fn a_host_that_cannot_be_reached_is_reported_with_a_remedy() {
    let Some(sshd) = Sshd::start() else { return };
    let project = study(&sshd, 2);
    project.edit("experiments/ssh_config", "Host box", "Host other");
    let outcome = project.run(["run", "experiments/elsewhere.yaml", "--no-dry-run"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    let output = outcome.stdout + &outcome.stderr;
    assert!(
        output.contains("the host box: ")
            && output.contains("`ssh box true` must work without a prompt"),
        "{output}"
    );
    project.edit(
        "experiments/elsewhere.yaml",
        "host: box",
        "host: -oProxyCommand=x",
    );
    let outcome = project.run(["plan", "experiments/elsewhere.yaml"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("cannot be the name of a host"),
        "{}",
        outcome.stderr
    );
}
