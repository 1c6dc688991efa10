//! Where processes run: this machine, a container, a host that the user's OpenSSH client reaches, a machine rented for
//! the study, one of a pool of hosts, or one that a cluster's scheduler chooses.
//!
//! Benchtrail controls another host through commands. It copies its own binary there, by digest, and starts it with the
//! hidden command [`COMMAND`]. There, the binary can do the same as here: look at the machine, prepare an engine, start
//! it, sample it. A process there depends on a pipe from here: when the pipe is silent or closed, everything that the
//! process started is stopped. A cut link or a killed Benchtrail therefore leaves nothing behind.

mod beat;
pub mod cloud;
mod container;
mod host;
pub mod kubernetes;
mod pool;
mod settings;
mod slurm;
mod terms;
pub mod user;

pub use beat::{Heard, PULSE, SILENCE, beat, listen};
pub use container::{
    ContainerError, Containment, Inside, Network, PACKAGES, Runtime, WEIGHTS,
    name as container_name, passes, sweep,
};
pub use host::{Host, quoted};
pub use kubernetes::Kubernetes;
use pool::{HOSTS, PoolHost};
pub use pool::{Hosts, NamedHost, Pool};
pub use settings::{Place, Placement, Ssh};
pub use slurm::{AT_ONCE, Slurm};
pub use terms::Terms;

/// The hidden command that starts the binary on another host.
pub const COMMAND: &str = "__place";

/// Returns the machine for a replicate (from 1): replicates go round the machines that a study names. `None` if it names none.
fn in_turn(nodes: &[String], turn: usize) -> Option<&str> {
    let at = turn.saturating_sub(1).checked_rem(nodes.len())?;
    nodes.get(at).map(String::as_str)
}

/// Returns the collections of definitions that places refer to.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![(HOSTS, schemars::schema_for!(PoolHost))]
}
