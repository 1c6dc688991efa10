//! A small study made by hand, followed and audited, whole and tampered with.

mod auditing;
mod explaining;
mod finding;
mod study;
