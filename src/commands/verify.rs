//! `verify`: checks a published bundle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use artifacts::{Scalar, counted};
use bundle::{Bundle, PublicKey, Signature};
use pipeline::lock::LockClass;
use pipeline::{ReproduceOptions, Reproduced, Reproduction, StudyDocument, Which};
use serde_json::json;
use why::{Audit, Document, Provenance};

use crate::args::{Global, VerifyArgs};
use crate::commands::publish::{NO_REPORT, lacks_report};
use crate::commands::run_report::trace_file;
use crate::exit::Stop;
use crate::given::{self, Wanted, must_be};
use crate::project::shown;
use crate::registry::registry;
use crate::room;
use crate::signals::listen_for_signals;
use crate::terminal::{bytes, say, say_line};

pub(super) fn verify(arguments: &VerifyArgs, global: &Global) -> Result<(), Stop> {
    let key = given::key(arguments.key.as_deref(), PublicKey::read)?;
    must_be(&arguments.bundle, Wanted::Bundle)?;
    let bundle = Bundle::open(&arguments.bundle)?;
    // An unreadable lock is one of the complaints.
    if let Ok(lock) = bundle.lock() {
        let cells = lock.records().count();
        room::fits("checking the bundle's study", &room::Step::reads(cells))?;
    }
    let checked = bundle::verify(&bundle, key.as_ref())?;
    let mut checked = checked;
    let audits = audits(&bundle)?;
    let intact = checked.complaints.is_empty();
    let rendered = if intact {
        render_again(&bundle)?
    } else {
        Vec::new()
    };
    let same = rendered.iter().filter(|cell| is_same(cell)).count();
    let older = rendered.iter().filter(|cell| is_older(cell)).count();
    for cell in &rendered {
        if let Some(what) = objection(cell) {
            checked.complaints.push(bundle::Complaint {
                path: cell.cell.clone(),
                what,
            });
        }
    }
    let holds = checked.complaints.is_empty() && audits.iter().all(Audit::holds);
    if global.json {
        let manifest = bundle.manifest();
        say(&json!({
            "bundle": arguments.bundle, "experiment": manifest.experiment, "trail": manifest.trail,
            "allowed": manifest.allowed, "checked": checked, "reports": audits, "holds": holds,
            "not_computed_again": taken_as_recorded(&bundle), "not_derived": sources(&bundle),
        })
        .to_string());
        return if holds {
            Ok(())
        } else {
            Err(Stop::failed_printed())
        };
    }
    say(&format!(
        "{}, {}, checked against their digests, and {} that cover the others",
        counted(checked.files, "file"),
        bytes(checked.bytes),
        checked.covers
    ));
    say(&format!(
        "{} read from their records",
        counted(checked.cells, "executed cell")
    ));
    match rendered.len() {
        0 if intact => {}
        0 => say("no report was rendered again, because the files do not hold"),
        reports => say(&format!(
            "{same} of {reports} reports rendered again, with every figure and page, to the same bytes"
        )),
    }
    if older > 0 {
        say(
            "the others were rendered by another version of this program: only that one can check them",
        );
    }
    say_signature(&checked.signature, holds);
    say_what_was_not_checked(&bundle, &checked.signature);
    if let Ok(lock) = bundle.lock() {
        if let Some(why) = StudyDocument::incomplete(&lock) {
            say_line(&format!("the study is not finished: {why}"));
        }
        if lacks_report(&lock, audits.len()) {
            say(NO_REPORT);
        }
    }
    for rule in &bundle.manifest().allowed {
        say_line(&format!("published without the secret search for: {rule}"));
    }
    for audit in &audits {
        say(audit.to_string().trim_end());
    }
    for complaint in &checked.complaints {
        say_line(&format!("{}: {}", complaint.path, complaint.what));
    }
    say(&format!("trail digest {}", bundle.manifest().trail));
    if holds {
        say("everything holds");
        Ok(())
    } else {
        say("the bundle does not hold");
        Err(Stop::failed_printed())
    }
}

/// Prints what is known of the signature.
fn say_signature(signature: &Signature, holds: bool) {
    match signature {
        Signature::Unsigned => {
            say("not signed");
            if holds {
                say(UNSIGNED);
            }
        }
        Signature::Unchecked(ids) => {
            say_line(&format!(
                "signed by {}, not checked: give the public key with `--key`",
                first_few(ids)
            ));
        }
        Signature::Good(id) => say(&format!("signed by {id}: the signature is valid")),
        Signature::Bad => say("the signature does not hold"),
    }
}

/// The note that only a signature can vouch for the measurements.
const UNSIGNED: &str = "the bundle is not signed, so nobody vouches for the measurements: \
                        lock, records and reports agree, but the author of the bundle may have \
                        invented them";

/// The most files that the verdict lists one by one.
const LISTED: usize = 8;

/// Returns the number of analyses and gates whose tables and verdicts are taken as their records have them.
fn taken_as_recorded(bundle: &Bundle) -> usize {
    let Ok(lock) = bundle.lock() else { return 0 };
    let pure = lock.stages.iter().filter(|s| s.class == LockClass::Pure);
    pure.flat_map(|stage| &stage.cells)
        .filter(|cell| cell.record.is_some())
        .count()
}

/// Returns the experiment and the files beside it: nothing in a bundle gives their bytes again.
fn sources(bundle: &Bundle) -> Vec<&str> {
    let colophon = &bundle.manifest().colophon;
    let carried = colophon.carried.iter();
    let files = std::iter::once(&colophon.experiment).chain(carried);
    files.map(|place| place.as_str()).collect()
}

/// Lists the first names, and says how many more there are.
fn first_few<T: AsRef<str>>(names: &[T]) -> String {
    let first: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn say_what_was_not_checked(bundle: &Bundle, signature: &Signature) {
    let pure = taken_as_recorded(bundle);
    if pure > 0 {
        say(&format!(
            "{} of analyses and gates taken as recorded: `benchtrail reproduce` computes them again",
            counted(pure, "cell")
        ));
    }
    if !matches!(signature, Signature::Good(_)) {
        say_line(&format!(
            "only a checked signature shows whether these files are the author's: {}",
            first_few(&sources(bundle))
        ));
    }
}

/// Renders the reports of a bundle again from their records.
fn render_again(bundle: &Bundle) -> Result<Vec<Reproduced>, Stop> {
    let (lock, study, store) = (bundle.lock()?, bundle.study()?, bundle.store()?);
    let options = ReproduceOptions {
        which: Which::Reports,
        jobs: 1,
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let cells = pipeline::reproduce(
        options,
        &lock,
        &study,
        &registry(),
        &store,
        &cancelled,
        &|_| (),
    )?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(Stop::interrupted());
    }
    Ok(cells)
}

/// Returns whether a report was rendered again to the same bytes.
fn is_same(cell: &Reproduced) -> bool {
    matches!(&cell.verdict, Reproduction::Identical)
}

/// Returns whether only the version that made a report can render it again.
fn is_older(cell: &Reproduced) -> bool {
    matches!(&cell.verdict, Reproduction::OtherVersion { .. })
}

fn objection(cell: &Reproduced) -> Option<String> {
    match &cell.verdict {
        Reproduction::Identical | Reproduction::OtherVersion { .. } => None,
        Reproduction::Failed { reason } | Reproduction::NotExecuted { reason } => {
            Some(format!("it cannot be rendered again: {reason}"))
        }
        Reproduction::Different { outputs } => {
            let names: Vec<&str> = outputs.iter().map(|d| d.output.as_str()).collect();
            Some(format!(
                "it differs when rendered again: {}",
                names.join(", ")
            ))
        }
    }
}

/// Audits every report of a bundle.
fn audits(bundle: &Bundle) -> Result<Vec<Audit>, Stop> {
    let store = bundle.store()?;
    let locks = [bundle.lock_file()];
    // An unreadable lock is already among the complaints.
    let lock = bundle.lock();
    let left_out = lock.and_then(|lock| bundle.left_out(&lock, &store));
    let left_out = left_out.unwrap_or_default();
    let mut audits = Vec::new();
    for report in bundle.reports() {
        let format = |value: &Scalar, unit: Option<&str>, format: &str| {
            report::format_value(value, unit, format, "").map_err(|e| e.to_string())
        };
        let mut audit = match Document::open(&report, &trace_file(&report)) {
            Ok(document) => why::audit(
                &document,
                &Provenance::choose(&store, &locks, &document),
                &left_out,
                &format,
                &super::audit::judge(),
            ),
            // The missing file is already among the complaints; the report must not be skipped silently.
            Err(error) => Audit {
                problems: vec![why::Problem {
                    place: None,
                    text: None,
                    what: error.to_string(),
                }],
                ..Audit::default()
            },
        };
        audit.report = shown(report.strip_prefix(bundle.root()).unwrap_or(&report));
        audit.lock = Some(bundle.manifest().lock.to_string());
        audits.push(audit);
    }
    Ok(audits)
}
