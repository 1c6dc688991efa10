//! The question before something is started, at a real terminal: `script` of util-linux makes a pseudo-terminal and
//! acts as the user's shell.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use crate::skipped::skipped;
use crate::support::{BINARY, Project};

/// An experiment with its own engine: a script that writes a file and ends. `STARTED` stands for the file.
const STUDY: &str = "experiment: asked\nseed: 1\n\
    engines:\n  own:\n    title: Own\n    version: \"1\"\n    launch:\n\
    \x20     program: {installed: sh}\n      arguments: [\"-c\", \"touch STARTED; exit 1\", \"{port}\"]\n\
    models:\n  none: {title: None, weights: {named: {id: nothing}}}\n\
    workloads:\n  short:\n    description: Four words.\n    prompts: {words: {length: 4}}\n    output: {tokens: 1}\n\
    stages:\n  env: {kind: provision, engine: own, model: none}\n\
    \x20 server: {kind: serve, needs: [env]}\n\
    \x20 ladder:\n    kind: load\n    needs: [server]\n    workload: short\n\
    \x20   arrival: {closed-loop: {clients: 1}}\n    requests: 1\n";

struct Terminal {
    project: Project,
    state: tempfile::TempDir,
}

impl Terminal {
    /// Returns a terminal; `None`, with a message, if the system has no `script`.
    fn new() -> Option<Self> {
        let there = Command::new("script")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !there.is_ok_and(|status| status.success()) {
            skipped(
                "script",
                "there is no `script` of util-linux, so nobody can be asked at a terminal",
            );
            return None;
        }
        let project = Project::new();
        let marker = project.path().join("started");
        let study = STUDY.replace("STARTED", marker.to_str().expect("UTF-8"));
        fs::write(project.path().join("asked.yaml"), study).expect("writable");
        Some(Self {
            project,
            state: tempfile::tempdir().expect("a temporary folder"),
        })
    }

    fn run(&self) -> Child {
        let plain = self.project.command([""]);
        let mut command = Command::new("script");
        // A shell that starts the tests in the background ignores Ctrl-C, and programs inherit this.
        command
            .args(["--quiet", "--return", "--command"])
            .arg(format!(
                "exec env --default-signal=INT {BINARY} run --no-dry-run asked.yaml"
            ))
            .arg("/dev/null")
            .current_dir(self.project.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("SHELL", "/bin/sh")
            .env("TERM", "dumb")
            .env_remove("BENCHTRAIL_TRUST")
            .env("XDG_STATE_HOME", self.state.path());
        command.spawn().expect("script starts")
    }

    /// Answers the question once it appears; returns the exit code and the output.
    fn answer(&self, keys: &[u8]) -> (Option<i32>, String) {
        let mut child = self.run();
        let mut shown = Vec::new();
        let mut screen = child.stdout.take().expect("piped");
        let mut keyboard = child.stdin.take().expect("piped");
        let mut byte = [0];
        while !shown.ends_with(b"this folder [no]") {
            let n = screen.read(&mut byte).expect("the terminal can be read");
            assert!(
                n > 0,
                "nothing was asked: {}",
                String::from_utf8_lossy(&shown)
            );
            shown.push(byte[0]);
        }
        assert!(!self.started(), "it was started before an answer");
        keyboard.write_all(keys).expect("the terminal takes keys");
        // The keyboard stays open, since end of input would also be an answer.
        screen
            .read_to_end(&mut shown)
            .expect("the terminal can be read");
        let status = child.wait().expect("script ends");
        drop(keyboard);
        (status.code(), String::from_utf8_lossy(&shown).into_owned())
    }

    fn started(&self) -> bool {
        self.project.path().join("started").exists()
    }

    fn remembered(&self) -> bool {
        let folder = self.state.path().join("benchtrail/trust");
        fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
    }
}

#[test]
fn at_a_terminal_only_yes_starts_what_an_experiment_brings() {
    let Some(terminal) = Terminal::new() else {
        return;
    };
    // An empty line, no, a misspelt yes, end of input: each has the same result as without a terminal.
    for keys in ["\n", "no\n", "yess\n", "\u{4}"] {
        let (code, shown) = terminal.answer(keys.as_bytes());
        assert_eq!(code, Some(2), "{keys:?}: {shown}");
        assert!(shown.contains("nothing was started"), "{keys:?}: {shown}");
        assert!(!terminal.started() && !terminal.remembered(), "{keys:?}");
    }
    // Ctrl-C at the question.
    let (code, shown) = terminal.answer(b"\x03");
    assert_eq!(code, Some(130), "{shown}");
    assert!(!terminal.started() && !terminal.remembered());
    // The engine ends at once, so the run fails after starting it.
    let (code, shown) = terminal.answer(b"yes\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(terminal.started() && terminal.remembered(), "{shown}");
    // The question does not appear again, so no answer is needed.
    fs::remove_file(terminal.project.path().join("started")).expect("removable");
    let mut again = terminal.run();
    let keyboard = again.stdin.take();
    let mut shown = String::new();
    let screen = again.stdout.as_mut().expect("piped");
    screen.read_to_string(&mut shown).expect("UTF-8");
    assert_eq!(
        again.wait().expect("script ends").code(),
        Some(1),
        "{shown}"
    );
    assert!(!shown.contains("this folder [no]"), "{shown}");
    drop(keyboard);
}
