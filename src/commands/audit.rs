//! `audit`: every number of a report read again from its artifacts, every digest checked.

use artifacts::Scalar;

use crate::args::{AuditArgs, Global};
use crate::commands::why::{open_document, open_store, provenance};
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::say;

pub(super) fn audit(arguments: &AuditArgs, global: &Global) -> Result<(), Stop> {
    let document = open_document(&arguments.report)?;
    let (project, store) = open_store(&arguments.report, global)?;
    let provenance = provenance(&project, &store, &document)?;
    let format =
        |value: &Scalar, unit: Option<&str>, format: &str| report::format_value(value, unit, format, "");
    let mut audit = trail::audit(&document, &provenance, &format);
    audit.report = shown(&document.path);
    audit.lock = provenance.file.as_deref().map(shown);
    if global.json {
        say(&serde_json::to_string_pretty(&audit).map_err(Stop::failed)?);
    } else {
        say(&audit.to_string());
        if let Some(lock) = &audit.lock {
            say(&format!("lock {lock}"));
        }
    }
    if audit.holds() { Ok(()) } else { Err(Stop::told()) }
}
