//! Parts of a study on machines that Slurm chooses, or on hosts of a pool.
//!
//! A *shard* is what one launch of a server needs: the launch, and all that is measured on it. The coordinator (a `run`)
//! writes what a shard is to do into the shared store, asks Slurm for a machine, and looks at what comes back. On the
//! machine, the same binary executes the shard in a store of its own and pushes each record. Nothing but the shared store
//! and Slurm connects the two, so either may end and begin again.
//!
//! A host of a pool does the same over a connection of the coordinator, through which it reaches the shared
//! store, too. It lives as long as the connection.
//!
//! # In the shared store
//!
//! ```text
//! jobs/bin/DIGEST/benchtrail   the binary that machines execute, if the shared store is a folder
//! jobs/RUN/NAME.json           what the shard NAME is to do (an Order)
//! jobs/RUN/NAME.log            what its job printed
//! jobs/RUN/NAME.taken          which job executes it: a second one ends at once
//! jobs/RUN/done/NAME.SEQ       a record that is complete in the shared store
//! jobs/RUN/NAME.end            the shard is over: what became of each cell
//! jobs/RUN/facets/…            the facets of the first machine: those of the others must agree
//! ```
//!
//! Every document is put once, and the records' completions are the truth: a document only says where to look.

mod budget;
mod coordinate;
mod document;
mod error;
mod execute;
mod journal;
mod placements;
mod pool;
mod prepare;
mod queue;
mod reach;
mod status;

pub use budget::{Cost, costs};
pub use coordinate::{Asked, Came, Cluster, Work};
pub use document::COMMAND;
pub use error::ClusterError;
pub use execute::{Executed, Machine, execute};
pub use journal::own_store;
pub use placements::Placements;
pub use places::{AT_ONCE, Hosts, Placement, Slurm};
pub use pool::{RUNNING, WAITING};
pub use queue::{JobState, Phase, Queue};
pub use status::{JobLine, jobs_of, records_left};
