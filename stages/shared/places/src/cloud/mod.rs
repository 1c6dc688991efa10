//! Machines that the user's own OpenTofu or Terraform module makes for a study, and destroys.
//!
//! A separate process, the keeper, calls the program (`keeper`). The folder of a machine in the store holds the copy of
//! the module, its state, the log and a meter (`meter`). In every case, one of three destroys the machine: the keeper
//! when the run asks for it at its end; the keeper when the run is gone or the budget is spent; the next run with the
//! store if both were killed ([`sweep`]).

mod keeper;
mod machine;
mod meter;
mod settings;

pub use keeper::keep;
pub use machine::{Rented, Returned, give_back_all, offer, rent, spent, sweep};
pub use settings::Cloud;
