//! `audit`
use crate::args::{Global, AuditArgs};
use crate::exit::Stop;
pub(super) fn audit(_a: &AuditArgs, _g: &Global) -> Result<(), Stop> { Err(Stop::failed("not wired")) }
