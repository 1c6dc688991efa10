//! `audit`
use crate::args::{AuditArgs, Global};
use crate::exit::Stop;
pub(super) fn audit(_a: &AuditArgs, _g: &Global) -> Result<(), Stop> {
    Err(Stop::failed("not wired"))
}
