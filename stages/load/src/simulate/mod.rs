//! Simulated load: rows drawn from a declared model of a server.
//!
//! No socket is opened and nothing sleeps. Requests, arrivals and prompts are those of a real load, and the server is a
//! discrete-event model on a simulated clock (`events`). The rows (`rows`) go through the same tables as measured ones,
//! with `simulated` in the column `source` of the table `cell`. The same settings, seed and replicate give the same
//! bytes.

mod cache;
mod events;
mod model;
mod monitoring;
mod rows;
mod stage;
#[cfg(test)]
mod tests;

pub use model::{
    Clock, DecodeCost, Faults, Hang, HttpErrors, Noise, PrefillCost, Share, SimulatedServer,
    Simulation, SimulationChoice,
};
pub(crate) use model::{schema, shipped};
#[cfg(test)]
pub(crate) use rows::simulate;
pub(crate) use stage::{find_server, launch, rehearse, run};
