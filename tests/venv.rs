//! Environments of pinned packages, with the package client of this machine and without a network. The packages are
//! wheels that the test builds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Outcome, Project};

/// Builds two wheels: `tiny-engine` is a stub server with the OpenAI API, and `tiny-words` contains the words of its
/// answers.
const MAKE_WHEELS: &str = r#"
import sys, zipfile, hashlib, base64
folder = sys.argv[1]
STUB = '''
import json, sys, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import tiny_words

class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer({"data": [{"id": "tiny"}]})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        n = asked.get("max_tokens", 1)
        usage = {"prompt_tokens": 8, "completion_tokens": n, "total_tokens": 8 + n}
        if not asked.get("stream"):
            return self.answer({"choices": [{"index": 0, "text": "a" * n, "finish_reason": "length"}], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for i in range(n):
            last = "length" if i == n - 1 else None
            part = {"choices": [{"index": 0, "text": tiny_words.WORD, "finish_reason": last}]}
            self.wfile.write(b"data: " + json.dumps(part).encode() + b"\\n\\n")
        self.wfile.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\\n\\ndata: [DONE]\\n\\n")
        self.close_connection = True

print("in", os.environ.get("VIRTUAL_ENV"), os.environ.get("PYTHONPATH"), flush=True)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Stub).serve_forever()
'''
def wheel(name, version, files, needs=()):
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    meta += "".join(f"Requires-Dist: {n}\n" for n in needs)
    files = dict(files)
    files[f"{info}/METADATA"] = meta
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t.encode())}\n" for n, t in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as z:
        for n, t in files.items():
            z.writestr(zipfile.ZipInfo(n, (2026, 1, 1, 0, 0, 0)), t)
wheel("tiny_engine", "1.0", {"tiny_engine.py": STUB}, ["tiny-words>=1"])
for v in ("1.5", "2.0"):
    wheel("tiny_words", v, {"tiny_words.py": f"WORD = ' w{v[0]}'\n"})
"#;

const STUDY: &str = r#"
experiment: pinned
seed: 1
engines:
  tiny:
    title: A stub of a server
    version: unknown
    distributions: [tiny-engine]
    launch:
      program: {installed: python3}
      arguments: ["-m", tiny_engine, "{port}"]
      inherit: [PYTHONPATH, VIRTUAL_ENV]
      version-arguments: ["-c", "from importlib.metadata import version; print(version('tiny-engine'))"]
    endpoints: {health: null}
models:
  tiny:
    title: No weights
    weights: {named: {id: tiny}}
stages:
  machine:
    kind: provision
    engine: tiny
    model: tiny
    environment:
      venv:
        python: "PYTHON"
        packages: [tiny-engine==1.0]
        assertions: [import tiny_words, "tiny_words.WORD.strip()"]
  server: {kind: serve, needs: [machine]}
  steps:
    kind: load
    needs: [server]
    workload: short-decode
    arrival: {closed-loop: {clients: 1}}
    requests: 2
  checks: {kind: verify, needs: [steps], gates: [{gate: row-status}]}
  report: {kind: report, needs: [machine, server, steps, checks], template: report.md}
"#;

struct Pinned {
    project: Project,
    wheels: PathBuf,
}

impl Pinned {
    fn new() -> Self {
        let project = Project::new();
        let wheels = project.path().join("wheels");
        fs::create_dir(&wheels).unwrap();
        let made = Command::new("python3")
            .args(["-c", MAKE_WHEELS])
            .arg(&wheels)
            .status()
            .unwrap();
        assert!(made.success());
        let version = Command::new("python3")
            .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
            .output()
            .unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        let study = STUDY.replace("PYTHON", version.trim());
        fs::write(project.path().join("pinned.yaml"), study).unwrap();
        Self { project, wheels }
    }

    /// Runs the binary with package clients that can access only these wheels.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.project.command(arguments);
        for client in ["PIP", "UV"] {
            command.env(format!("{client}_NO_INDEX"), "1");
            command.env(format!("{client}_FIND_LINKS"), &self.wheels);
        }
        command.env("UV_OFFLINE", "1");
        // A variable that could change which modules are imported.
        command.env("PYTHONPATH", "/nowhere");
        command.output().unwrap().into()
    }

    fn environments(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.project.path().join(".benchtrail/venvs")).unwrap();
        let all = all.map(|e| e.unwrap().path());
        all.filter(|p| p.join("lock.txt").exists()).collect()
    }

    fn report(&self) -> String {
        fs::read_to_string(self.project.path().join("reports/pinned/report.md")).unwrap()
    }
}

#[test]
fn an_engine_runs_from_packages_that_the_study_pins() {
    let pinned = Pinned::new();
    let shown = pinned.run(&["plan", "--commands", "pinned.yaml"]).ok();
    let install = "  tiny-engine==1.0\n  and what they need\n  and executes import tiny_words\n";
    assert!(shown.stdout.contains(install), "{}", shown.stdout);
    pinned.run(&["run", "pinned.yaml"]).ok();
    assert_eq!(pinned.environments().len(), 1);
    // Their dependencies were resolved once. A newer version has no effect, and the network may be gone.
    fs::remove_file(pinned.wheels.join("tiny_words-1.5-py3-none-any.whl")).unwrap();
    let again = pinned.run(&["run", "pinned.yaml"]).ok();
    assert!(
        again.stdout.contains("0 cells executed"),
        "{}",
        again.stdout
    );

    let report = pinned.report();
    assert!(report.contains("tiny-engine==1.0"), "{report}");
    let version = report.lines().find(|l| l.starts_with("| Engine version"));
    assert!(version.is_some_and(|l| l.contains("| 1.0 ")), "{report}");
}

#[test]
fn nothing_is_installed_without_consent() {
    let pinned = Pinned::new();
    let state = tempfile::tempdir().unwrap();
    let mut command = pinned.project.command(["run", "pinned.yaml"]);
    command
        .env_remove("BENCHTRAIL_TRUST")
        .env("XDG_STATE_HOME", state.path());
    let refused: Outcome = command.output().unwrap().into();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("installs into a venv of Python"),
        "{}",
        refused.stderr
    );
    assert!(!pinned.project.path().join(".benchtrail/venvs").exists());
}

#[test]
fn an_environment_that_is_half_made_or_damaged_is_made_again() {
    let pinned = Pinned::new();
    pinned.run(&["run", "pinned.yaml"]).ok();
    let [folder] = &pinned.environments()[..] else {
        panic!("one environment")
    };
    let words = || {
        let mut open = vec![folder.join("env/lib")];
        loop {
            let next = open.pop().expect("the module is there");
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with("tiny_words.py") {
                    return path;
                }
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                }
            }
        }
    };
    let right = fs::read_to_string(words()).unwrap();
    // Different content under the same name, and an unfinished folder.
    let file = words();
    fs::remove_file(&file).unwrap();
    fs::write(&file, "WORD = 'other'\n").unwrap();
    pinned.run(&["run", "pinned.yaml", "--fresh", "steps"]).ok();
    assert_eq!(fs::read_to_string(words()).unwrap(), right);
    fs::remove_file(folder.join("complete.json")).unwrap();
    fs::remove_file(words()).unwrap();
    pinned.run(&["run", "pinned.yaml", "--fresh", "steps"]).ok();
    assert_eq!(fs::read_to_string(words()).unwrap(), right);
}

#[test]
fn a_lock_names_every_package_by_its_sum_and_its_mistakes_have_a_line() {
    let pinned = Pinned::new();
    pinned.run(&["run", "pinned.yaml"]).ok();
    let lock = fs::read_to_string(pinned.environments()[0].join("lock.txt")).unwrap();
    let file = pinned.project.path().join("pins.txt");
    fs::write(&file, &lock).unwrap();
    let project = &pinned.project;
    project.edit(
        "pinned.yaml",
        "packages: [tiny-engine==1.0]",
        "lock: pins.txt",
    );
    pinned.run(&["run", "pinned.yaml"]).ok();
    assert_eq!(
        pinned.environments().len(),
        1,
        "the same files are the same environment"
    );

    let other = lock.replacen("sha256:", "sha256:0000", 1);
    let (head, tail) = other.split_once("sha256:0000").unwrap();
    fs::write(&file, format!("{head}sha256:0000{}", &tail[4..])).unwrap();
    let wrong = pinned.run(&["run", "pinned.yaml"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    assert!(
        wrong
            .stderr
            .contains("a file's SHA-256 differs from the pinned one"),
        "{}",
        wrong.stderr
    );

    fs::write(&file, format!("{lock}\nnumpy>=2\n")).unwrap();
    let line = lock.lines().count() + 2;
    let wrong = pinned.run(&["plan", "pinned.yaml"]);
    assert_eq!(wrong.code, Some(2));
    let place = format!("pins.txt:{line}: `numpy>=2` does not give an exact version");
    assert!(wrong.stderr.contains(&place), "{}", wrong.stderr);
}

#[test]
fn mistakes_in_an_environment_are_reported_while_planning() {
    let pinned = Pinned::new();
    let project = &pinned.project;
    let original = fs::read_to_string(project.path().join("pinned.yaml")).unwrap();
    for (from, to, message, hint) in [
        (
            "[tiny-engine==1.0]",
            "[tiny-engine]",
            "`tiny-engine` does not give an exact version",
            "`tiny-engine==1.2.3`",
        ),
        (
            "[tiny-engine==1.0]",
            "[tiny-engin==1.0]",
            "the venv does not pin `tiny-engine`",
            "did you mean `tiny-engine` instead of `tiny-engin`?",
        ),
        (
            "packages: [tiny-engine==1.0]",
            "packages: [tiny-engine==1.0]\n        lock: pins.txt",
            "and not both",
            "names every package",
        ),
        (
            "packages: [tiny-engine==1.0]",
            "lock: nowhere.txt",
            "nowhere.txt",
            "correct the path",
        ),
        (
            "engine: tiny",
            "engine: llama-cpp",
            "has its own packages",
            "remove `environment`",
        ),
        (
            "python: \"",
            "python: \"3.2\"  # \"",
            "Python 3.2 is not on this machine: there is",
            "uv python install 3.2",
        ),
        ("python: \"", "python: 3.11  # \"", "python", "\"3.11\""),
    ] {
        fs::write(
            project.path().join("pinned.yaml"),
            original.replacen(from, to, 1),
        )
        .unwrap();
        let outcome = pinned.run(&["plan", "pinned.yaml"]);
        assert_ne!(outcome.code, Some(0), "{to}");
        assert!(
            outcome.stderr.contains(message) && outcome.stderr.contains(hint),
            "{to}:\n{}",
            outcome.stderr
        );
    }
}
