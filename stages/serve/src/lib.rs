//! The serve stage: a live engine under a lease.
