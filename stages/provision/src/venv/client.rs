//! The package client with the user's configuration: `uv` if it is installed, otherwise pip.
//!
//! No registry is named here. Only wheels are installed: building from source would run the
//! package's code and give a different result on each machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pipeline::process::kill_group;
use pipeline::{Control, Failure, Leases, Media, Output};
use serde_json::Value;

use super::interpreter::Interpreter;
use crate::machine::Machine;

const POLL: Duration = Duration::from_millis(50);

/// The number of a client's last lines that an error quotes.
const QUOTED_LINES: usize = 4;

/// The time in which a client must end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// A package client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// `uv`, at this path.
    Uv(PathBuf),
    /// The pip of this interpreter.
    Pip(PathBuf),
}

impl Client {
    /// Returns the client of this machine.
    pub(super) fn of(machine: &Machine, interpreter: &Interpreter) -> Self {
        match machine.program("uv") {
            Some(uv) => Self::Uv(uv),
            None => Self::Pip(interpreter.path.clone()),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Uv(_) => "uv",
            Self::Pip(_) => "pip",
        }
    }

    /// Creates an empty environment.
    pub(super) fn create(
        &self,
        folder: &Path,
        interpreter: &Interpreter,
        session: &Session<'_>,
    ) -> Result<(), Failure> {
        let mut command = match self {
            Self::Uv(uv) => {
                let mut command = Command::new(uv);
                command.args(["venv", "--no-project", "--no-python-downloads", "--python"]);
                command.arg(&interpreter.path);
                command
            }
            Self::Pip(_) => {
                let mut command = Command::new(&interpreter.path);
                command.args(["-I", "-m", "venv", "--without-pip"]);
                command
            }
        };
        command.arg(folder);
        session.run(command, self.name(), "creating the environment")?;
        Ok(())
    }

    /// Resolves pinned packages to a lock: all needed packages, with versions and digests.
    pub(super) fn resolve(
        &self,
        packages: &[String],
        overrides: &[String],
        interpreter: &Interpreter,
        session: &Session<'_>,
    ) -> Result<String, Failure> {
        let requirements = session.write("requirements.txt", packages)?;
        match self {
            Self::Uv(uv) => {
                let mut command = Command::new(uv);
                command.args([
                    "pip",
                    "compile",
                    "--quiet",
                    "--generate-hashes",
                    "--no-header",
                ]);
                command.args([
                    "--no-annotate",
                    "--only-binary=:all:",
                    "--no-python-downloads",
                ]);
                command.arg("--python").arg(&interpreter.path);
                if !overrides.is_empty() {
                    let file = session.write("overrides.txt", overrides)?;
                    command.arg("--override").arg(file);
                }
                let lock = session.folder.join("resolved.txt");
                command.arg("--output-file").arg(&lock).arg(&requirements);
                session.run(command, "uv", "resolving the packages")?;
                fs::read_to_string(&lock).map_err(|e| session.trouble("the lock", &e))
            }
            Self::Pip(_) if !overrides.is_empty() => {
                let message = "pip does not support `overrides`, and `uv` is not on the search \
                    path";
                Err(Failure::failed(message).hint("install uv (pip install uv), or give a `lock`"))
            }
            Self::Pip(python) => {
                let report = session.folder.join("report.json");
                let mut command = pip(python);
                command.args([
                    "install",
                    "--dry-run",
                    "--ignore-installed",
                    "--only-binary=:all:",
                ]);
                command.arg("--report").arg(&report);
                command.arg("--requirement").arg(&requirements);
                session.run(command, "pip", "resolving the packages")?;
                let text =
                    fs::read_to_string(&report).map_err(|e| session.trouble("pip's report", &e))?;
                lock_of_report(&text)
            }
        }
    }

    /// Installs a lock and checks the digest of every file.
    pub(super) fn install(
        &self,
        environment: &Path,
        lock: &Path,
        session: &Session<'_>,
    ) -> Result<(), Failure> {
        let python = environment.join("bin/python");
        let mut command = match self {
            Self::Uv(uv) => {
                let mut command = Command::new(uv);
                // Compile now, so that nothing is written into the environment during use.
                command.args(["pip", "install", "--no-deps", "--compile-bytecode"]);
                command
                    .args(["--no-python-downloads", "--python"])
                    .arg(&python);
                command
            }
            Self::Pip(own) => {
                let mut command = Command::new(own);
                command.args(["-m", "pip", "--python"]).arg(&python);
                command.args(["install", "--no-deps", "--no-input", "--progress-bar=off"]);
                command.arg("--disable-pip-version-check");
                command
            }
        };
        command
            .args(["--only-binary=:all:", "--require-hashes", "--requirement"])
            .arg(lock);
        session.run(command, self.name(), "installing the packages")?;
        Ok(())
    }
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--no-input", "--disable-pip-version-check"]);
    command
}

/// Converts pip's report of what it would install into a lock.
fn lock_of_report(text: &str) -> Result<String, Failure> {
    let wrong = |what: &str| {
        Failure::failed(format!("pip's report {what}"))
            .hint("upgrade pip to 23 or newer, or install uv")
    };
    let report: Value =
        serde_json::from_str(text).map_err(|e| wrong(&format!("is unreadable: {e}")))?;
    let items = report["install"]
        .as_array()
        .ok_or_else(|| wrong("lists no packages"))?;
    let mut lines = Vec::new();
    for item in items {
        let field = |pointer: &str| item.pointer(pointer).and_then(Value::as_str);
        let name = field("/metadata/name").ok_or_else(|| wrong("has a package without a name"))?;
        let version = field("/metadata/version").unwrap_or_default();
        let sum = field("/download_info/archive_info/hashes/sha256");
        let sum = sum.ok_or_else(|| wrong(&format!("has no SHA-256 for {name}")))?;
        lines.push(format!(
            "{}=={version} --hash=sha256:{sum}\n",
            super::normalized(name)
        ));
    }
    lines.sort();
    Ok(lines.concat())
}

/// Who pinned the packages, and can correct the pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinnedBy {
    /// The study.
    Study,
    /// The definition of an engine or of a model.
    Definition,
}

/// One preparation: the place of the client's files and log, and how to stop it.
pub(crate) struct Session<'a> {
    /// A private folder.
    pub(crate) folder: &'a Path,
    pub(crate) control: &'a Control,
    pub(crate) leases: &'a Leases,
    pub(crate) pinned_by: PinnedBy,
}

impl Session<'_> {
    pub(super) fn trouble(&self, what: &str, e: &std::io::Error) -> Failure {
        Failure::failed(format!("{what}: {}: {e}", self.folder.display()))
    }

    fn write(&self, name: &str, lines: &[String]) -> Result<PathBuf, Failure> {
        let path = self.folder.join(name);
        fs::write(&path, lines.join("\n") + "\n").map_err(|e| self.trouble(name, &e))?;
        Ok(path)
    }

    fn run(&self, command: Command, client: &str, what: &str) -> Result<(), Failure> {
        self.control.progress(0, None, format!("{what} ({client})"));
        self.wait(command, client, what)
    }

    /// Runs a client until it ends or the job is stopped.
    ///
    /// # Errors
    /// If it cannot be started, fails, or is stopped.
    pub(crate) fn wait(
        &self,
        mut command: Command,
        client: &str,
        what: &str,
    ) -> Result<(), Failure> {
        let log_path = self.folder.join("client.log");
        let log = File::create(&log_path).map_err(|e| self.trouble("the client's log", &e))?;
        let errors = log
            .try_clone()
            .map_err(|e| self.trouble("the client's log", &e))?;
        let program = command.get_program().to_owned();
        clean(&mut command);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|e| {
                Failure::failed(format!(
                    "{what}: `{}` cannot be run: {e}",
                    program.display()
                ))
                .hint("install Python 3 with pip; on Debian: apt install python3 python3-pip")
            })?;
        // Recorded so that the next run stops it if this process is killed.
        let _lease = self.leases.register(child.id());
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => return Err(self.trouble("waiting for the client", &e)),
            }
            if let Err(stopped) = self.control.check() {
                // It may have just ended by itself.
                let _ = kill_group(child.id(), GRACE);
                let _ = child.wait();
                return Err(stopped);
            }
            thread::sleep(POLL);
        };
        if status.success() {
            return Ok(());
        }
        let said = fs::read(&log_path).map_err(|e| self.trouble("the client's log", &e))?;
        let said = String::from_utf8_lossy(&said);
        Err(explain(client, what, &said, self.pinned_by))
    }
}

/// Variables that would let another environment decide what is installed or run.
pub(super) fn clean(command: &mut Command) {
    for name in engines::KEPT_OUT {
        command.env_remove(name);
    }
}

/// What to do if a registry lacks a version that a definition pins: you cannot choose another one.
const OF_DEFINITION: &str = "the definition pins this version: let your client use a registry that has it \
    (`pip config list` shows which one it uses; a mirror may be incomplete), or name another engine, such as one that you installed";

/// Translates a client's error messages into what is missing.
fn explain(client: &str, what: &str, log: &str, pinned_by: PinnedBy) -> Failure {
    let has = |texts: &[&str]| texts.iter().any(|t| log.contains(t));
    let network = [
        "error sending request",
        "dns error",
        "Connection",
        "connection",
        "Temporary failure",
        "timed out",
        "Network is unreachable",
        "Failed to fetch",
    ];
    let (reason, hint) = if has(&[
        "No module named pip",
        "No module named venv",
        "ensurepip is not",
    ]) {
        (
            "this Python has no pip or no venv",
            "install them (on Debian: apt install python3-pip python3-venv); for a `venv`, uv is enough",
        )
    } else if has(&["Hash mismatch", "DO NOT MATCH THE HASHES", "hash mismatch"]) {
        (
            "a file's SHA-256 differs from the pinned one",
            "the file was changed in the registry or on the way; it was not used",
        )
    } else if has(&["No space left on device", "os error 28"]) {
        ("the disk is full", "free some space on the store's disk")
    } else if has(&[
        "no usable wheels",
        "no wheels",
        "has no binary distribution",
        "building from source is disabled",
        "Building source distributions",
    ]) {
        let hint = match pinned_by {
            PinnedBy::Study => {
                "pin a version that has one, or build the wheel yourself and let your client find it (`find-links`)"
            }
            PinnedBy::Definition => OF_DEFINITION,
        };
        (
            "a package has no wheel for this platform and interpreter",
            hint,
        )
    } else if has(&network) {
        (
            "it cannot reach its registry",
            "check the network and the client's own configuration; an existing environment needs no network",
        )
    // If a registry refuses access or pip does not trust it, the only sign is an empty list of versions.
    } else if has(&["is being ignored"]) {
        (
            "it does not trust its registry and ignores it",
            "use one with https, or name its host in pip's setting `trusted-host`",
        )
    } else if has(&["from versions: none"]) {
        (
            "it found no version of a package: its registry has none for this platform, or does not answer",
            "check the network and the address of the registry (`pip config list`), and whether it has \
             the package; a registry that refuses looks the same to pip",
        )
    } else if has(&[
        "No solution found",
        "ResolutionImpossible",
        "conflicting dependencies",
        "No matching distribution",
        "not a supported wheel",
        "was not found",
    ]) {
        match pinned_by {
            PinnedBy::Study => (
                "these versions do not exist for this platform and interpreter, or conflict with each other",
                "correct the pins; `overrides` replace the requirements of a package. An incomplete mirror looks the same",
            ),
            PinnedBy::Definition => (
                "its registry does not have this version for this platform and interpreter",
                OF_DEFINITION,
            ),
        }
    } else {
        ("it failed", "read the evidence `client_log`")
    };
    let last = last_lines(log);
    Failure::failed(format!("{what}: {client}: {reason}; it said: {last}"))
        .hint(hint)
        .evidence(Output::text("client_log", Media::Text, log))
}

/// Returns the last lines of a log, for a message.
fn last_lines(log: &str) -> String {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_report_becomes_a_lock() {
        let report = r#"{"install": [
            {"metadata": {"name": "Tiny_B", "version": "2"}, "download_info": {"archive_info": {"hashes": {"sha256": "bb"}}}},
            {"metadata": {"name": "a", "version": "1"}, "download_info": {"archive_info": {"hashes": {"sha256": "aa"}}}}]}"#;
        let lock = lock_of_report(report).unwrap();
        assert_eq!(lock, "a==1 --hash=sha256:aa\ntiny-b==2 --hash=sha256:bb\n");
        assert!(lock_of_report(r#"{"install": [{"metadata": {"name": "a"}}]}"#).is_err());
        assert!(lock_of_report("no report").is_err());
    }

    #[test]
    fn errors_of_clients_become_remedies() {
        for (said, expected) in [
            ("/usr/bin/python3: No module named pip", "no pip or no venv"),
            ("error: Hash mismatch for `tiny==1`", "SHA-256 differs"),
            (
                "Because tiny==1 has no usable wheels and building from source is disabled",
                "no wheel for this platform",
            ),
            (
                "error: Failed to fetch: `…`\n dns error: failed to lookup",
                "cannot reach its registry",
            ),
            (
                "Retrying after connection broken\nERROR: No matching distribution found",
                "cannot reach its registry",
            ),
            (
                "  × No solution found when resolving dependencies",
                "conflict with each other",
            ),
            (
                "OSError: [Errno 28] No space left on device",
                "the disk is full",
            ),
            (
                "ERROR: No matching distribution found for tiny==1.0",
                "for this platform",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: none)\nERROR: No matching distribution found for tiny==1.0",
                "does not answer",
            ),
            (
                "WARNING: The repository located at mirror is not a trusted or secure host and is being ignored.\nERROR: No matching distribution found for tiny==1.0",
                "does not trust",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: 0.9)\nERROR: No matching distribution found for tiny==1.0",
                "for this platform",
            ),
            ("what", "it failed"),
        ] {
            let failure = explain("uv", "resolving", said, PinnedBy::Study);
            assert!(failure.reason.contains(expected), "{said}: {failure}");
            assert!(failure.hint.is_some() && failure.evidence.len() == 1);
            // Nobody can correct the pins of a shipped definition.
            let failure = explain("pip", "fetching", said, PinnedBy::Definition);
            let hint = failure.hint.expect("a remedy");
            let of_studies = ["correct the pins", "pin a version", "overrides"];
            assert!(!of_studies.iter().any(|text| hint.contains(text)), "{hint}");
        }
    }
}
