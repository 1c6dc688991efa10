//! `audit`: every number of a report read again from its artifacts, every digest checked; or the numbers of a
//! foreign report compared with each other and against data.

use std::fs;

use artifacts::Scalar;

use crate::args::{AtLeast, AuditArgs, Global};
use crate::commands::why::open_document;
use crate::evidence::Evidence;
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::say;

/// Returns what judges rules as the report does, its tables read once.
pub(super) fn judge() -> impl Fn(&str, why::Read<'_>) -> Result<why::Judged, String> {
    let tables = report::Judge::default();
    move |rule, read| {
        let read = |name: &str| {
            let parts = read(name)?.into_iter();
            Ok(parts
                .map(|(at, digest, table)| (at, digest, (*table).clone()))
                .collect())
        };
        let found = tables.judge_again(rule, &read)?;
        let int = |value: Option<usize>| value.and_then(|v| i64::try_from(v).ok());
        Ok(why::Judged {
            truth: found.truth.to_owned(),
            n: int(found.n),
            count: int(found.count),
            values: found.values,
            against: found.against,
        })
    }
}

pub(super) fn audit(arguments: &AuditArgs, global: &Global) -> Result<(), Stop> {
    if arguments.foreign {
        return audit_foreign(arguments, global);
    }
    let document = open_document(&arguments.report)?;
    let evidence = Evidence::of(&document, global)?;
    let provenance = evidence.provenance(&document)?;
    let format = |value: &Scalar, unit: Option<&str>, format: &str| {
        report::format_value(value, unit, format, "")
    };
    let mut audit = why::audit(
        &document,
        &provenance,
        &evidence.left_out,
        &format,
        &judge(),
    );
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
    if audit.holds() {
        Ok(())
    } else {
        Err(Stop::told())
    }
}

fn audit_foreign(arguments: &AuditArgs, global: &Global) -> Result<(), Stop> {
    let name = shown(&arguments.report);
    let bytes = fs::read(&arguments.report).map_err(|error| {
        Stop::usage(format!("{name}: {error}")).hint("give the report as a Markdown or text file")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        Stop::usage(format!("{name}: not UTF-8 text: {error}"))
            .hint("extract the text first, for instance with pdftotext -layout")
    })?;
    let (tables, unread) = match &arguments.data {
        Some(folder) => foreign::read_folder(folder).map_err(|error| {
            Stop::usage(format!("{}: {error}", shown(folder))).hint("--data is a folder of tables")
        })?,
        None => (Vec::new(), Vec::new()),
    };
    let audit = foreign::audit(&name, &text, &tables, unread);
    if let Some(file) = &arguments.sarif {
        let sarif = serde_json::to_string_pretty(&foreign::sarif(&audit)).map_err(Stop::failed)?;
        fs::write(file, sarif + "\n")
            .map_err(|error| Stop::machine(format!("{}: {error}", shown(file))))?;
    }
    if global.json {
        say(&serde_json::to_string_pretty(&audit).map_err(Stop::failed)?);
    } else {
        say(&audit.to_string());
    }
    let at_least = match arguments.at_least {
        AtLeast::Low => foreign::Confidence::Low,
        AtLeast::Medium => foreign::Confidence::Medium,
        AtLeast::High => foreign::Confidence::High,
    };
    if audit.count(at_least) == 0 {
        Ok(())
    } else {
        Err(Stop::told())
    }
}
