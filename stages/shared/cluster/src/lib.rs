//! Parts of a study on machines that Slurm or Kubernetes chooses, or on hosts of a pool.
//!
//! A *shard* is one launch of a server and everything that is measured on it. The coordinator (a `run`) writes the
//! order of a shard into the shared store, requests a machine from the scheduler, and looks for results. On the
//! machine, the same binary executes the shard in a separate store and pushes each record. Only the shared store and
//! the scheduler connect the two, so either may end and start again.
//!
//! A host of a pool does the same over a connection of the coordinator, through which it also reaches the shared store.
//! It works only as long as the connection lasts.
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
//! Every document is put once. The records' completions are the truth, and a document only says where to look.

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
mod tail;

pub use budget::{Cost, Costly, costs, rented_costs};
pub use coordinate::{Asked, Came, Cluster, Work};
pub use document::COMMAND;
pub use error::ClusterError;
pub use execute::{Executed, Machine, execute};
pub use journal::own_store;
pub use placements::Placements;
pub use places::{AT_ONCE, Hosts, Kubernetes, Placement, Slurm};
pub use pool::{RUNNING, WAITING};

pub use status::{JobLine, jobs_of, records_left};
