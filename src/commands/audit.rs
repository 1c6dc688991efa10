//! `audit`: reads every number of a report again from its artifacts and checks every digest, or checks foreign reports
//! against themselves and traces them to data.

use std::path::Path;

use artifacts::Scalar;

use crate::args::{AuditArgs, Global};
use crate::commands::why::open_document;
use crate::evidence::Evidence;
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::say;
use crate::whole_file;

/// Returns a function that judges rules as the report does and reads the report's tables only once.
pub(super) fn judge() -> impl Fn(&str, why::Read<'_>) -> Result<why::Judged, String> {
    let tables = report::Judge::default();
    move |rule, read| {
        let read = |name: &str| {
            let parts = read(name)?.into_iter();
            Ok(parts
                .map(|(at, digest, table)| (at, digest, (*table).clone()))
                .collect())
        };
        let judged = tables.judge_again(rule, &read)?;
        let int = |value: Option<usize>| value.and_then(|v| i64::try_from(v).ok());
        Ok(why::Judged {
            truth: judged.truth.to_owned(),
            n: int(judged.n),
            count: int(judged.count),
            values: judged.values,
            against: judged.against,
        })
    }
}

pub(super) fn audit(arguments: &AuditArgs, global: &Global) -> Result<(), Stop> {
    if arguments.foreign {
        return audit_foreign(arguments, global);
    }
    let [report] = arguments.reports.as_slice() else {
        return Err(Stop::usage("audit reads one report at a time")
            .hint("several reports that Benchtrail did not make are audited with --foreign"));
    };
    let document = open_document(report)?;
    let evidence = Evidence::of(&document, &arguments.remote, global)?;
    let provenance = evidence.provenance(&document)?;
    let format = |value: &Scalar, unit: Option<&str>, format: &str| {
        report::format_value(value, unit, format, "").map_err(|e| e.to_string())
    };
    let mut audit = why::audit(
        &document,
        &provenance,
        &evidence.left_out,
        &format,
        &judge(),
    );
    audit.report = shown(&document.path);
    audit.lock = provenance
        .file
        .as_deref()
        .map(|lock| evidence.shown_lock(lock));
    if global.json {
        say(&serde_json::to_string_pretty(&audit).map_err(Stop::failed)?);
    } else {
        say(&audit.to_string());
        if let Some(lock) = &audit.lock {
            say(&format!("lock {lock}"));
        }
    }
    match audit.damaged {
        _ if audit.holds() => Ok(()),
        0 => Err(Stop::failed_printed()),
        _ => Err(Stop::damaged_printed()),
    }
}

fn audit_foreign(arguments: &AuditArgs, global: &Global) -> Result<(), Stop> {
    if arguments.page.is_some() && arguments.reports.len() > 1 {
        return Err(Stop::usage("--page shows the numbers of one report")
            .hint("name one report, or call audit for each"));
    }
    let (data, unread) = foreign::read_tables(&arguments.data).map_err(|error| {
        Stop::usage(error).hint("--data takes files of tables, or folders of them")
    })?;
    if !arguments.data.is_empty() && data.is_empty() {
        let reasons: Vec<String> = unread.iter().map(ToString::to_string).collect();
        return Err(
            Stop::usage(format!("--data: no table was read\n{}", reasons.join("\n")))
                .hint("--data takes CSV, TSV, JSON lines (.jsonl) and Parquet files"),
        );
    }
    let mut unread: Vec<String> = unread.iter().map(ToString::to_string).collect();
    let mut audits = Vec::new();
    let mut unaudited = Vec::new();
    for report in &arguments.reports {
        let name = shown(report);
        let bytes = artifacts::regular::read_at_most(report, foreign::MOST_BYTES);
        let bytes = bytes.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::FileTooLarge => {
                    "leave out embedded images and data, or divide it"
                }
                _ => "give the report as a Markdown, HTML or text file",
            };
            Stop::usage(format!("{name}: {error}")).hint(hint)
        })?;
        match foreign::supported(report, bytes) {
            Ok(text) => {
                let audit = foreign::audit(&name, &text, &data);
                if audit.tables == 0 && data.is_empty() {
                    unaudited.push(format!("{name}: {}", foreign::Unaudited::NoTable));
                }
                if !audit.too_long.is_empty() {
                    let long = foreign::Unaudited::TooLong(audit.too_long.clone());
                    unread.push(format!("{name}: {long}"));
                }
                audits.push(audit);
            }
            Err(reason) => unaudited.push(format!("{name}: {reason}")),
        }
    }
    if let (Some(file), Some(audit)) = (&arguments.page, audits.first()) {
        let html = file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
        let page = if html {
            foreign::html(audit)
        } else {
            foreign::markdown(audit)
        };
        write(file, &page)?;
    }
    if let Some(file) = &arguments.sarif {
        let sarif = serde_json::to_string_pretty(&foreign::sarif(&audits)).map_err(Stop::failed)?;
        write(file, &(sarif + "\n"))?;
    }
    if global.json {
        let all = serde_json::json!({"audits": audits, "unaudited": unaudited, "unread": unread});
        say(&serde_json::to_string_pretty(&all).map_err(Stop::failed)?);
    } else {
        for audit in &audits {
            say(&audit.to_string());
        }
        for line in &unread {
            say(&format!("not read: {line}"));
        }
    }
    if !unaudited.is_empty() {
        return Err(Stop::usage(unaudited.join("\n")));
    }
    if audits.iter().all(|audit| audit.findings.is_empty()) {
        Ok(())
    } else {
        Err(Stop::failed_printed())
    }
}

fn write(file: &Path, text: &str) -> Result<(), Stop> {
    whole_file::write(file, text.as_bytes()).map_err(|error| Stop::refused_at(shown(file), &error))
}
