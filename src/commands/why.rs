//! `why`
use crate::args::{Global, WhyArgs};
use crate::exit::Stop;
pub(super) fn why(_a: &WhyArgs, _g: &Global) -> Result<(), Stop> {
    Err(Stop::failed("not wired"))
}
