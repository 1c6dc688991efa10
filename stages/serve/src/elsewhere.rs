//! Starts an engine on another host. On this side, an OpenSSH client takes the engine's place.

use std::sync::Arc;

use contract::{LiveElsewhere, LiveEnvironment};
use engines::Rendered;
use pipeline::process::{ProcessId, Spawner};
use pipeline::{Failure, Job, Json};
use places::{Containment, Host};
use serde_json::json;

use crate::process::{Hanging, Process};
use crate::remote::{Order, RUNNING};
use crate::start::ToLaunch;

/// A host that an environment was prepared on.
pub(crate) struct Elsewhere(Host);

impl Elsewhere {
    /// Returns the host of an environment; `None` if it is this machine.
    pub(crate) fn of(live: &LiveEnvironment) -> Result<Option<Self>, Failure> {
        if live.place.is_null() {
            return Ok(None);
        }
        let host = serde_json::from_value(live.place.clone());
        let wrong = |e| Failure::failed(format!("the environment's host is unreadable: {e}"));
        host.map(|host| Some(Self(host))).map_err(wrong)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns a port of the host on which nothing listens at the moment.
    pub(crate) fn free_port(&self, job: &Job<'_>) -> Result<u16, Failure> {
        let answer = self.0.call(&["port"], &Json::Null, job.control)?;
        let port = answer["port"]
            .as_u64()
            .and_then(|port| port.try_into().ok());
        port.ok_or_else(|| Failure::failed(format!("{} has no free port", self.0.name)))
    }

    /// Starts the engine on the host. The first port is local and is forwarded to the second one,
    /// on the host.
    pub(crate) fn start(
        &self,
        spawner: &Arc<Spawner>,
        launch: &ToLaunch<'_>,
        rendered: Rendered,
        ports: [u16; 2],
        containment: Option<&Containment>,
        job: &Job<'_>,
    ) -> Result<Process, Failure> {
        let live = launch.live;
        let order = Order {
            token: token(ports),
            command: live.bin.iter().cloned().chain(rendered.arguments).collect(),
            environment: rendered.environment,
            inherit: launch.engine.launch.inherit.clone(),
            venv: live.venv.clone(),
            grace_s: launch.engine.stop.grace_s,
            container: containment.map(|containment| (containment.clone(), ports[1])),
        };
        let [here, there] = ports;
        let command = self
            .0
            .forwarding(here, there, &["run", &json!(order).to_string()]);
        let client = LiveEnvironment {
            bin: command,
            ..live.clone()
        };
        let nothing = Rendered {
            arguments: Vec::new(),
            environment: std::collections::BTreeMap::new(),
        };
        Process::start(
            spawner,
            launch.engine,
            &client,
            &nothing,
            &launch.manner.log,
            Hanging::OnAPipe,
            job,
        )
    }

    /// Returns the command that samples the host while that engine runs.
    pub(crate) fn sampler(&self, ports: [u16; 2]) -> LiveElsewhere {
        let file = format!("{}/{RUNNING}/{}", self.0.folder, token(ports));
        LiveElsewhere {
            host: self.0.name.clone(),
            command: self.0.of_binary(&["sample", &file]),
        }
    }
}

/// Returns a name that is unique among the engines on a host. Two clients never share both process
/// number and start time, and one client never uses a port twice at the same time.
fn token([here, there]: [u16; 2]) -> String {
    let own = ProcessId::own().map_or((0, 0), |own| (own.pid, own.start_time));
    format!("{}-{}-{here}-{there}", own.0, own.1)
}
