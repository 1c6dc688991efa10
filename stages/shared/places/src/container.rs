//! Containers, through the command line of the user's runtime: docker, podman, or a compatible one. A container starts
//! in the foreground, so that the runtime's client prints the engine's log and ends with it. Its name says who started
//! it, so that later processes can remove it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pipeline::lease::Scope;
use pipeline::process::{Limits, ProcessId, Ran, namespace, run_within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The label that names the process that owns a container: its number and start time.
pub(crate) const LEASE_LABEL: &str = "benchtrail.lease";

/// The label that says where this number is valid: the boot of the machine and the process namespace. Runs in several
/// containers, or on several machines, may use the same runtime.
pub(crate) const SCOPE_LABEL: &str = "benchtrail.scope";

/// The folder of packages and launchers in a container.
pub const PACKAGES: &str = "/benchtrail/packages";

/// The folder of weights in a container.
pub const WEIGHTS: &str = "/benchtrail/weights";

/// Variables with paths of this machine, which are meaningless in a container.
const OF_THIS_MACHINE: [&str; 14] = [
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HOME",
    "HUGGINGFACE_HUB_CACHE",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "TMPDIR",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
];

/// How long the runtime may take to answer a question.
const ANSWER: Duration = Duration::from_secs(60);

/// How long the runtime may take to remove a container, beyond the engine's own time.
const REMOVAL: Duration = Duration::from_secs(60);

/// The longest answer of the runtime, in bytes.
const LONGEST: u64 = 64 << 20;

/// How the server in a container is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// The container shares the network of this machine; the server listens on 127.0.0.1.
    #[default]
    Host,
    /// The container has its own network, and its port is published to 127.0.0.1. Measured times
    /// then include the runtime's forwarding.
    Published,
}

/// The command line of a container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The program.
    pub program: String,
    /// Arguments before the runtime's own command.
    pub arguments: Vec<String>,
}

impl Runtime {
    /// Returns whether GPUs are named as docker names them. Other runtimes name them by CDI.
    pub fn is_docker(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        name.contains("docker")
    }

    /// Returns a command line for the runtime.
    pub fn line(&self, rest: &[&str]) -> Vec<String> {
        let own = std::iter::once(&self.program).chain(&self.arguments);
        own.cloned()
            .chain(rest.iter().map(|word| (*word).to_owned()))
            .collect()
    }

    /// Returns the runtime's answer.
    ///
    /// # Errors
    /// If it cannot be run, fails, takes longer than the limit, or `go_on` says to stop.
    pub fn ask(
        &self,
        rest: &[&str],
        limit: Duration,
        go_on: &dyn Fn() -> bool,
    ) -> Result<String, ContainerError> {
        run(&self.line(rest), limit, go_on)
    }
}

/// Why a container runtime did not do what it was asked. What the runtime says is text for people.
#[derive(Debug)]
pub enum ContainerError {
    /// The command line is empty.
    NoProgram,
    /// The runtime cannot be started.
    NotStarted {
        /// The program.
        program: String,
        /// The reason.
        error: io::Error,
    },
    /// The runtime was stopped before its end.
    Stopped {
        /// The program.
        program: String,
        /// The time limit; `None` if the caller ended the wait.
        after: Option<Duration>,
    },
    /// The runtime printed too much, and was stopped. Names the program.
    Endless(String),
    /// The runtime failed.
    Failed {
        /// Its exit status.
        status: ExitStatus,
        /// The last line of its error output, if any.
        last: Option<String>,
    },
    /// The document that describes a container is not valid.
    Unreadable(serde_json::Error),
    /// The container has no process.
    NotRunning,
    /// The runtime names the process by something other than a number.
    NotAPid(String),
    /// The container still exists after its removal.
    StillThere(String),
}

impl fmt::Display for ContainerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => f.write_str("the command is empty: it names no program"),
            Self::NotStarted { program, error } => write!(f, "`{program}`: {error}"),
            Self::Stopped { program, after } => match after {
                Some(limit) => write!(f, "`{program}` was stopped after {} s", limit.as_secs()),
                None => write!(f, "`{program}` was stopped"),
            },
            Self::Endless(program) => {
                write!(f, "`{program}` printed more than {} MiB", LONGEST >> 20)
            }
            Self::Failed {
                last: Some(line), ..
            } => f.write_str(line),
            Self::Failed { status, last: None } => write!(f, "{status}"),
            Self::Unreadable(error) => {
                write!(f, "the environment's container is unreadable: {error}")
            }
            Self::NotRunning => f.write_str("the container does not run"),
            Self::NotAPid(text) => write!(f, "it is `{text}`"),
            Self::StillThere(name) => write!(f, "the container {name} could not be removed"),
        }
    }
}

impl std::error::Error for ContainerError {}

/// Runs a command to its end and returns its output.
fn run(
    line: &[String],
    limit: Duration,
    go_on: &dyn Fn() -> bool,
) -> Result<String, ContainerError> {
    let (program, arguments) = line.split_first().ok_or(ContainerError::NoProgram)?;
    let limits = Limits {
        time: limit,
        output: LONGEST,
        memory: None,
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let stopped = |after| ContainerError::Stopped {
        program: program.clone(),
        after,
    };
    let output = match run_within(&mut command, Stdio::null(), limits, go_on) {
        Ok(Ran::Ended(output)) => output,
        Ok(Ran::Late) => return Err(stopped(Some(limit))),
        Ok(Ran::Stopped) => return Err(stopped(None)),
        Ok(Ran::Endless) => return Err(ContainerError::Endless(program.clone())),
        Err(error) => {
            return Err(ContainerError::NotStarted {
                program: program.clone(),
                error,
            });
        }
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(ContainerError::Failed {
        status: output.status,
        last: last.map(|line| line.trim().to_owned()),
    })
}

/// What the containers of an engine start from: a runtime, an image, and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// The runtime.
    pub runtime: Runtime,
    /// The image, by the digest of its configuration.
    pub image: String,
    /// Arguments of `run`: devices, mounts, user, and those from the study.
    pub arguments: Vec<String>,
    /// How the server is reached.
    pub network: Network,
}

/// One container: its content, and how it starts.
#[derive(Clone, Debug)]
pub struct Inside<'a> {
    /// The program and all its arguments.
    pub command: &'a [String],
    /// The variables set for it.
    pub environment: &'a BTreeMap<String, String>,
    /// The names of the variables that it inherits.
    pub inherit: &'a [String],
    /// The port that it listens on.
    pub port: Option<u16>,
    /// How long it may take to stop.
    pub grace: Duration,
}

impl Containment {
    /// Reads the containment in an environment; `None` if it has none.
    ///
    /// # Errors
    /// If it is not a valid containment.
    pub fn of(document: &Value) -> Result<Option<Self>, ContainerError> {
        if document.is_null() {
            return Ok(None);
        }
        serde_json::from_value(document.clone())
            .map(Some)
            .map_err(ContainerError::Unreadable)
    }

    /// Returns whether only the published port can be reached from outside.
    pub fn has_own_network(&self) -> bool {
        self.network == Network::Published
    }

    /// Returns the address that a server in the container listens on.
    pub fn listens_on(&self) -> &'static str {
        match self.network {
            Network::Host => "127.0.0.1",
            // All addresses of the container's own network. From outside, only the published port can be reached.
            Network::Published => "0.0.0.0",
        }
    }

    /// Returns the command that starts a container in the foreground and removes it at its end.
    pub fn command(&self, name: &str, inside: &Inside<'_>) -> Vec<String> {
        let mut line = self.runtime.line(&["run", "--rm", "--name", name]);
        let mut add = |option: &str, value: String| {
            line.push(option.to_owned());
            line.push(value);
        };
        add("--label", format!("{LEASE_LABEL}={}", lease_of(name)));
        if let Ok(scope) = scope() {
            add("--label", format!("{SCOPE_LABEL}={scope}"));
        }
        // The client prints the log, and a second copy would grow on the disk.
        add("--log-driver", "none".to_owned());
        add("--stop-timeout", inside.grace.as_secs().max(1).to_string());
        match (self.network, inside.port) {
            (Network::Host, _) => add("--network", "host".to_owned()),
            (Network::Published, Some(port)) => {
                add("--publish", format!("127.0.0.1:{port}:{port}"));
            }
            (Network::Published, None) => {}
        }
        for (variable, value) in inside.environment {
            add("--env", format!("{variable}={value}"));
        }
        for variable in inside.inherit.iter().filter(|name| passes(name)) {
            // Only the name is passed: the value stays out of the command line.
            add("--env", variable.clone());
        }
        line.extend(self.arguments.iter().cloned());
        let (program, arguments) = match inside.command.split_first() {
            Some((program, arguments)) => (program.as_str(), arguments),
            None => ("", &[][..]),
        };
        line.extend(["--entrypoint".to_owned(), program.to_owned()]);
        line.push(self.image.clone());
        line.extend(arguments.iter().cloned());
        line
    }

    /// Returns the process number on this machine of a container's first process.
    ///
    /// # Errors
    /// If no such container exists, or it no longer runs.
    pub fn pid(&self, name: &str) -> Result<u32, ContainerError> {
        let format = ["container", "inspect", "--format", "{{.State.Pid}}", name];
        let said = self.runtime.ask(&format, ANSWER, &|| true)?;
        match said.trim().parse() {
            Ok(0) => Err(ContainerError::NotRunning),
            Ok(pid) => Ok(pid),
            Err(_) => Err(ContainerError::NotAPid(said.trim().to_owned())),
        }
    }

    /// Stops a container, within its own time, and removes it. A missing container is not an error.
    ///
    /// # Errors
    /// If it still exists afterwards, or its state is unknown.
    pub fn remove(&self, name: &str, grace: Duration) -> Result<(), ContainerError> {
        let seconds = grace.as_secs().max(1).to_string();
        // The list of containers shows whether it worked.
        let _stopped = self.runtime.ask(
            &["stop", "--time", &seconds, name],
            grace + REMOVAL,
            &|| true,
        );
        let removed = run(&self.removal(name), grace + REMOVAL, &|| true);
        let filter = format!("name=^{name}$");
        let listed = ["ps", "--all", "--quiet", "--filter", &filter];
        match self.runtime.ask(&listed, ANSWER, &|| true) {
            Ok(left) if left.trim().is_empty() => Ok(()),
            Ok(_) => Err(removed
                .err()
                .unwrap_or_else(|| ContainerError::StillThere(name.to_owned()))),
            Err(why) => Err(why),
        }
    }

    /// Returns the command that removes a container, whatever its state.
    pub fn removal(&self, name: &str) -> Vec<String> {
        self.runtime.line(&["rm", "--force", name])
    }
}

/// Returns the scope in which the number of this process is valid.
fn scope() -> io::Result<String> {
    let boot = Scope::here()?.boot;
    Ok(format!("{boot}-{}", namespace()?))
}

/// Removes the containers that dead processes of this process namespace left behind; returns their number. Whether a
/// process of another namespace or machine lives is not visible from here.
///
/// # Errors
/// If the runtime cannot be asked.
pub fn sweep(runtime: &Runtime) -> Result<usize, ContainerError> {
    let Ok(scope) = scope() else {
        return Ok(0);
    };
    let filter = format!("label={SCOPE_LABEL}={scope}");
    let listed = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"];
    let names = runtime.ask(&listed, ANSWER, &|| true)?;
    let mut removed = 0;
    for name in names.split_whitespace() {
        let Some(owner) = owner_of(name) else {
            continue;
        };
        if owner.is_alive().unwrap_or(true) {
            continue;
        }
        runtime.ask(&["rm", "--force", name], REMOVAL, &|| true)?;
        removed += 1;
    }
    Ok(removed)
}

/// Returns a unique name for a container: this process, and a number that it uses once.
pub fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let own = ProcessId::own().map_or((0, 0), |own| (own.pid, own.start_time));
    format!("benchtrail-{}-{}-{number}", own.0, own.1)
}

fn lease_of(name: &str) -> String {
    owner_of(name).map_or_else(
        || name.to_owned(),
        |owner| format!("{}-{}", owner.pid, owner.start_time),
    )
}

fn owner_of(name: &str) -> Option<ProcessId> {
    let mut parts = name.strip_prefix("benchtrail-")?.split('-');
    Some(ProcessId {
        pid: parts.next()?.parse().ok()?,
        start_time: parts.next()?.parse().ok()?,
    })
}

/// Returns whether a variable means the same in a container.
pub fn passes(variable: &str) -> bool {
    !OF_THIS_MACHINE.contains(&variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containment(network: Network) -> Containment {
        Containment {
            runtime: Runtime {
                program: "podman".into(),
                arguments: vec!["--root".into(), "/r".into()],
            },
            image: "sha256:aa".into(),
            arguments: vec!["--shm-size".into(), "8g".into()],
            network,
        }
    }

    #[test]
    fn a_container_is_named_labelled_and_removed_and_secrets_go_by_name() {
        let command = ["vllm", "serve", "--port", "8000"].map(str::to_owned);
        let inherit = ["HF_TOKEN", "CUDA_HOME"].map(str::to_owned);
        let inside = Inside {
            command: &command,
            environment: &BTreeMap::from([("A".to_owned(), "b c".to_owned())]),
            inherit: &inherit,
            port: Some(8000),
            grace: Duration::from_secs(7),
        };
        let line = containment(Network::Host).command("benchtrail-5-77-0", &inside);
        assert_eq!(
            line,
            [
                "podman",
                "--root",
                "/r",
                "run",
                "--rm",
                "--name",
                "benchtrail-5-77-0",
                "--label",
                "benchtrail.lease=5-77",
                "--label",
                &format!("benchtrail.scope={}", scope().expect("a scope")),
                "--log-driver",
                "none",
                "--stop-timeout",
                "7",
                "--network",
                "host",
                "--env",
                "A=b c",
                "--env",
                "HF_TOKEN",
                "--shm-size",
                "8g",
                "--entrypoint",
                "vllm",
                "sha256:aa",
                "serve",
                "--port",
                "8000"
            ]
        );
        let published = containment(Network::Published).command("x", &inside);
        assert!(
            published
                .windows(2)
                .any(|w| w == ["--publish", "127.0.0.1:8000:8000"])
        );
        assert!(!published.contains(&"--network".to_owned()));
    }

    #[test]
    fn only_containers_of_dead_processes_of_this_namespace_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = ProcessId::own().expect("a process");
        let dead = format!("benchtrail-{}-{}-0", own.pid, own.start_time + 1);
        // A process of another container whose number means nothing here.
        let other = format!("benchtrail-{}-{}-1", own.pid, own.start_time + 2);
        let script = folder.path().join("runtime");
        let ours = format!("label={SCOPE_LABEL}={}", scope().expect("a scope"));
        let text = format!(
            "case \"$*\" in\n ps*'{ours} '*) echo {} {dead};;\n ps*) echo {} {dead} {other};;\n rm*) echo \"$*\" >> {};;\nesac\n",
            name(),
            name(),
            folder.path().join("removed").display()
        );
        std::fs::write(&script, text).expect("a script");
        let runtime = Runtime {
            program: "sh".into(),
            arguments: vec![script.display().to_string()],
        };
        assert_eq!(sweep(&runtime).expect("an answer"), 1);
        let removed = std::fs::read_to_string(folder.path().join("removed")).expect("a log");
        assert_eq!(removed, format!("rm --force {dead}\n"));
    }

    #[test]
    fn a_process_that_the_runtime_leaves_behind_is_not_waited_for() {
        let runtime = Runtime {
            program: "sh".into(),
            arguments: vec!["-c".into()],
        };
        let long = Duration::from_secs(20);
        let said = runtime.ask(&["sleep 60 & echo yes"], long, &|| true);
        assert_eq!(said.expect("an answer"), "yes\n");
        let stopped = runtime.ask(&["sleep 600"], long, &|| false);
        assert!(
            matches!(&stopped, Err(ContainerError::Stopped { after: None, .. })),
            "{stopped:?}"
        );
    }

    #[test]
    fn the_name_of_a_container_says_who_started_it() {
        let own = ProcessId::own().expect("a process");
        assert_eq!(owner_of(&name()), Some(own));
        for other in ["postgres", "benchtrail-", "benchtrail-x-y-0"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
