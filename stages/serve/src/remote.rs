//! Runs an engine on another host. On this side, the OpenSSH client takes the engine's place: it prints the engine's
//! log and forwards a port. On the host, Benchtrail's binary starts the engine, and stops it when the pipe from this
//! side closes or falls silent.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use engines::prepare_environment;
use pipeline::enclosure::Enclosure;
use pipeline::lease::Leases;
use pipeline::process::{Spawner, stop};
use places::{ContainerError, Containment, Heard, Inside, SILENCE, container_name, listen};
use serde::{Deserialize, Serialize};

use crate::process::{Contained, await_own_group};

/// The subfolder of the host's folder with files that name the running engines.
pub(crate) const RUNNING: &str = "running";

const POLL: Duration = Duration::from_millis(50);

/// What the other host is to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// A name that is unique among the engines on that host.
    pub(crate) token: String,
    /// The program and all its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// The variables that it inherits on that host.
    pub(crate) inherit: Vec<String>,
    pub(crate) venv: Option<PathBuf>,
    pub(crate) grace_s: f64,
    /// The container that it runs in and the port that it listens on.
    #[serde(default)]
    pub(crate) container: Option<(Containment, u16)>,
}

/// Runs an engine on this host until it ends, or until the other end of `pipe` is gone. Returns the exit code for this
/// process. The engine writes to this process's output.
///
/// # Errors
/// If the engine cannot be started, recorded or stopped.
pub fn run_order(
    folder: &Path,
    order: &str,
    pipe: impl Read + Send + 'static,
) -> Result<u8, Box<dyn Error + Send + Sync>> {
    let order: Order = serde_json::from_str(order)?;
    let store = folder.join("store");
    pipeline::lease::reap_orphans(&store)?;
    let scratch = tempfile::tempdir_in(folder)?;
    let spawner = Spawner::new(std::env::current_exe()?)?;
    let grace = Duration::try_from_secs_f64(order.grace_s).unwrap_or_default();
    let contained = order.container.as_ref().map(|(containment, port)| {
        let inside = Inside {
            command: &order.command,
            environment: &order.environment,
            inherit: &order.inherit,
            port: Some(*port),
            grace,
        };
        let name = container_name();
        Contained {
            line: containment.command(&name, &inside),
            containment: containment.clone(),
            name,
        }
    });
    let whole = contained.as_ref().map_or(&order.command, |one| &one.line);
    let (program, arguments) = whole.split_first().ok_or("there is no program")?;
    let mut command = spawner.command(program);
    command.args(arguments);
    // The client of a container runtime needs the user's full environment.
    if contained.is_none() {
        let (program, venv) = (Path::new(program), order.venv.as_deref());
        prepare_environment(&mut command, program, &order.inherit, venv)?;
        command.envs(&order.environment);
    }
    command.current_dir(scratch.path()).stdin(Stdio::null());
    let mut child = spawner.spawn(command)?;
    let ran = watch(&mut child, folder, &store, &order, contained.as_ref(), pipe);
    // After any failure, nothing must remain.
    if ran.is_err() {
        let _it_may_be_gone = removed(contained.as_ref(), grace);
    }
    let stopped = stop(&mut child, grace);
    let code = ran?;
    stopped?;
    Ok(code)
}

/// Stops a container and removes it. It would outlive the client that started it.
fn removed(contained: Option<&Contained>, grace: Duration) -> Result<(), ContainerError> {
    let removed = contained.map(|one| one.containment.remove(&one.name, grace));
    removed.unwrap_or(Ok(()))
}

fn watch(
    child: &mut Child,
    folder: &Path,
    store: &Path,
    order: &Order,
    contained: Option<&Contained>,
    pipe: impl Read + Send + 'static,
) -> Result<u8, Box<dyn Error + Send + Sync>> {
    await_own_group(child)?;
    let enclosure = Enclosure::of(child.id())?;
    let leases = Leases::new(store, "remote", &order.token);
    let removal = contained.map_or_else(Vec::new, Contained::removal);
    let _lease = leases.register_with(child.id(), removal)?;
    let running = folder.join(RUNNING);
    fs::create_dir_all(&running)?;
    let name = running.join(&order.token);
    let mut named = contained.is_none();
    if named {
        fs::write(&name, child.id().to_string())?;
    }
    let mut heard = listen(pipe, SILENCE);
    let code = loop {
        match child.try_wait()? {
            Some(status) => {
                break status
                    .code()
                    .and_then(|c| u8::try_from(c).ok())
                    .unwrap_or(128);
            }
            None if heard(POLL) == Heard::Gone => break 0,
            None => {}
        }
        // The sampler needs the engine's pid, not that of the runtime's client, and the container may appear later.
        if let Some(one) = contained.filter(|_| !named)
            && let Ok(pid) = one.containment.pid(&one.name)
        {
            fs::write(&name, pid.to_string())?;
            named = true;
        }
    };
    let grace = Duration::try_from_secs_f64(order.grace_s).unwrap_or_default();
    // The client may be killed without its container, so the container goes first.
    let removed = removed(contained, grace);
    let stopped = stop(child, grace).map(drop).and(enclosure.empty());
    // A leftover file names a process that is gone.
    let _may_stay = fs::remove_file(&name);
    stopped?;
    removed?;
    Ok(code)
}
