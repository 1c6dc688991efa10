//! Machines that a user's own module of OpenTofu or Terraform makes for a study, and destroys.
//!
//! A keeper, a process of its own, calls the program (`keeper`). The folder of a machine in the
//! store holds the copy of the module, its state, the log and a meter (`meter`). Whatever ends, one of
//! three destroys the machine: the run asks its keeper at its end, the keeper does when the run is
//! gone or the budget is spent, and the next run with the store does if both were killed ([`sweep`]).

mod keeper;
mod machine;
mod meter;
mod settings;

pub use keeper::keep;
pub use machine::{Rented, Returned, give_back_all, offer, rent, sweep};
pub use settings::Cloud;
