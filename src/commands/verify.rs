//! `verify`: check a published bundle.

use artifacts::Scalar;
use bundle::{Bundle, PublicKey, Signature};
use serde_json::json;
use trail::{Audit, Document, Provenance};

use crate::args::{Global, VerifyArgs};
use crate::commands::run::trace_file;
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::{bytes, say};

pub(super) fn verify(arguments: &VerifyArgs, global: &Global) -> Result<(), Stop> {
    let key = arguments.key.as_deref().map(PublicKey::read).transpose()?;
    let bundle = Bundle::open(&arguments.bundle)?;
    let checked = bundle::verify(&bundle, key.as_ref())?;
    let audits = audits(&bundle)?;
    let holds = checked.complaints.is_empty() && audits.iter().all(Audit::holds);
    if global.json {
        let manifest = bundle.manifest();
        say(&json!({
            "bundle": arguments.bundle, "experiment": manifest.experiment, "trail": manifest.trail,
            "allowed": manifest.allowed, "checked": checked, "reports": audits, "holds": holds,
        })
        .to_string());
        return if holds { Ok(()) } else { Err(Stop::told()) };
    }
    say(&format!(
        "{} files, {}, compared with their digests",
        checked.files,
        bytes(checked.bytes)
    ));
    say(&format!(
        "{} executed cells read from their records",
        checked.cells
    ));
    match &checked.signature {
        Signature::Unsigned => say("not signed"),
        Signature::Unchecked(ids) => {
            say(&format!(
                "signed by {}, not checked: give the public key with `--key`",
                ids.join(", ")
            ));
        }
        Signature::Good(id) => say(&format!("signed by {id}: the signature holds")),
        Signature::Bad => say("the signature does not hold"),
    }
    for rule in &bundle.manifest().allowed {
        say(&format!("published without searching for: {rule}"));
    }
    for audit in &audits {
        say(audit.to_string().trim_end());
    }
    for complaint in &checked.complaints {
        say(&format!("{}: {}", complaint.path, complaint.what));
    }
    say(&format!("trail digest {}", bundle.manifest().trail));
    if holds {
        say("everything holds");
        Ok(())
    } else {
        say("the bundle does not hold");
        Err(Stop::told())
    }
}

/// Audits every report of a bundle.
fn audits(bundle: &Bundle) -> Result<Vec<Audit>, Stop> {
    let store = bundle.store()?;
    let locks = [bundle.lock_file()];
    let mut audits = Vec::new();
    for report in bundle.reports() {
        let format = |value: &Scalar, unit: Option<&str>, format: &str| {
            report::format_value(value, unit, format, "")
        };
        let mut audit = match Document::open(&report, &trace_file(&report)) {
            Ok(document) => trail::audit(
                &document,
                &Provenance::choose(&store, &locks, &document),
                &format,
                &super::audit::judge(),
            ),
            // The missing file has been complained of; the report is not silently passed over.
            Err(error) => Audit {
                problems: vec![trail::Problem {
                    place: None,
                    text: None,
                    what: error.to_string(),
                }],
                ..Audit::default()
            },
        };
        audit.report = shown(report.strip_prefix(bundle.root()).unwrap_or(&report));
        audit.lock = Some(bundle.manifest().lock.clone());
        audits.push(audit);
    }
    Ok(audits)
}
