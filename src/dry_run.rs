//! The results of a dry run, as text and as JSON, and the verdict.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::counted;
use pipeline::{DryRun, DryRunFinding, Place};
use serde_json::{Value, json};

use crate::exit::Stop;
use crate::room::{self, Step};
use crate::session::Session;
use crate::terminal::announced_if_slow;

/// Executes the pure stages of an experiment over simulated rows. Unless the user wants quiet, says so if it takes long.
///
/// # Errors
/// If the scratch store cannot be created, or the process may not use enough memory.
pub(crate) fn try_out(
    session: &Session,
    cancelled: &Arc<AtomicBool>,
    quiet: bool,
) -> Result<DryRun, Stop> {
    // It executes one stage after the other.
    let pure = session.pure_cells().into_iter().max().unwrap_or(0);
    room::fits("the dry run", &Step::executes(session.cells(), pure, None))?;
    let execute = || {
        pipeline::dry_run(
            &session.experiment,
            &session.registry,
            &session.project.store,
            cancelled,
        )
    };
    let tried = match quiet {
        true => execute(),
        false => announced_if_slow(
            "dry run: verification, analysis and report are tried with synthetic rows before anything is measured",
            execute,
        ),
    };
    Ok(tried?)
}

/// Returns a finding as text: the problem, its place, and the remedy.
pub(crate) fn text(finding: &DryRunFinding) -> String {
    let cell = pipeline::place::cell_text(&finding.stage, &finding.coordinates);
    let (word, note) = if finding.certain {
        ("error", String::new())
    } else {
        (
            "doubt",
            "\nnote: other synthetic rows do not fail here, so this may depend on the measured values"
                .to_owned(),
        )
    };
    let place = match &finding.place {
        Some(Place::Text {
            file,
            line,
            column,
            route,
            text,
            ..
        }) => {
            let file = crate::project::shown(file);
            format!("\n  --> {file}:{line}:{column}  ({route})\n{line} | {text}")
        }
        Some(Place::File(file)) => format!("\n  --> {}", crate::project::shown(file)),
        Some(Place::Argument(_)) | None => String::new(),
    };
    let hint = finding
        .hint
        .as_ref()
        .map_or(String::new(), |h| format!("\nhint: {h}"));
    format!(
        "{word}: the dry run of `{cell}` failed: {}{place}{note}{hint}",
        finding.reason
    )
}

/// Returns the last line: the number of tried cells, and the result.
pub(crate) fn verdict(dry_run: &DryRun) -> String {
    let (errors, doubts) = (dry_run.errors().count(), dry_run.doubts().count());
    let cells = counted(dry_run.executed, "cell");
    match (errors, doubts) {
        (0, 0) => {
            format!(
                "dry run: {cells} of verification, analysis and report work with synthetic rows"
            )
        }
        _ => format!(
            "dry run: {cells} of verification, analysis and report tried with synthetic rows: {}, {}",
            counted(errors, "error"),
            counted(doubts, "doubt")
        ),
    }
}

/// Returns a dry run as JSON.
pub(crate) fn json_of(dry_run: &DryRun) -> Value {
    let finding = |f: &DryRunFinding| {
        let place = match &f.place {
            Some(Place::Text {
                file, line, column, ..
            }) => {
                json!({"file": file, "line": line, "column": column})
            }
            _ => Value::Null,
        };
        json!({
            "stage": f.stage, "coordinates": f.coordinates, "certain": f.certain, "reason": f.reason,
            "hint": f.hint, "place": place,
        })
    };
    let findings: Vec<Value> = dry_run.findings.iter().map(finding).collect();
    json!({"executed": dry_run.executed, "findings": findings})
}
