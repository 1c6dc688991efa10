//! `fsck`: every object re-hashed, every reference followed.

use artifacts::{FsckMode, FsckOptions, Subset};
use serde_json::json;

use crate::args::{FsckArgs, Global};
use crate::exit::Stop;
use crate::project::Project;
use crate::terminal::{bytes, say};

pub(super) fn fsck(arguments: &FsckArgs, global: &Global) -> Result<(), Stop> {
    let subset = arguments.subset.as_deref().map(parse_subset).transpose()?;
    let mode = if arguments.repair {
        FsckMode::Repair
    } else {
        FsckMode::Check
    };
    let project = Project::of(None, global.store.as_deref())?;
    if arguments.repair {
        project.must_not_be_published("fsck --repair")?;
    }
    let store = project.open_existing()?;
    let report = store.fsck(&FsckOptions { mode, subset }, pipeline::record::view)?;
    let open = report.findings.iter().filter(|f| !f.repaired).count();
    if global.json {
        let findings = report.findings.iter().map(|f| {
            json!({
                "kind": format!("{:?}", f.kind), "object": f.object, "record": f.record,
                "path": f.path, "detail": f.detail, "repaired": f.repaired, "remedy": f.kind.remedy(),
            })
        });
        say(&json!({
            "objects": report.objects, "hashed": report.hashed, "bytes": report.bytes,
            "records": report.records, "findings": findings.collect::<Vec<_>>(),
        })
        .to_string());
    } else {
        for finding in &report.findings {
            say(&finding.to_string());
        }
        say(&format!(
            "{} objects, {} hashed ({}), {} records read: {}",
            report.objects,
            report.hashed,
            bytes(report.bytes),
            report.records,
            match report.findings.len() {
                0 => "no problems found".to_owned(),
                n => format!("{n} findings, {} repaired", n - open),
            }
        ));
    }
    if open == 0 {
        Ok(())
    } else {
        Err(Stop::damaged_told())
    }
}

fn parse_subset(text: &str) -> Result<Subset, Stop> {
    let parts = text
        .split_once('/')
        .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    parts
        .and_then(|(part, of)| Subset::new(part, of))
        .ok_or_else(|| {
            Stop::usage(format!("`{text}` is not a subset"))
                .hint("write N/T with 1 ≤ N ≤ T, for instance 1/7")
        })
}
