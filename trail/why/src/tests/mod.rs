//! A small handmade study, followed and audited, both intact and tampered with.

mod auditing;
mod explaining;
mod finding;
mod study;
