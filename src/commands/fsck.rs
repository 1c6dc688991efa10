//! `fsck`: hashes every object and unpacked file again, and follows every reference.

use artifacts::{FsckMode, FsckOptions, Subset, counted};
use provision::Unpacked;
use serde_json::{Value, json};

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
    // A subset of the objects is requested where checking everything takes long.
    let unpacked = match subset {
        Some(_) => Vec::new(),
        None => unpacked(&project, arguments.repair)?,
    };
    let open = report.findings.iter().filter(|f| !f.repaired).count();
    let open = open + unpacked.iter().filter(|u| u.is_open()).count();
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
            "unpacked": unpacked.iter().map(Checked::json).collect::<Vec<_>>(),
        })
        .to_string());
    } else {
        for finding in &report.findings {
            say(&finding.to_string());
        }
        unpacked
            .iter()
            .flat_map(Checked::lines)
            .for_each(|line| say(&line));
        say(&format!(
            "{}, {} hashed ({}), {} read: {}",
            counted(report.objects, "object"),
            report.hashed,
            bytes(report.bytes),
            counted(report.records, "record"),
            match report.findings.len() {
                0 => "no problems found".to_owned(),
                n => {
                    let repaired = report.findings.iter().filter(|f| f.repaired).count();
                    format!("{}, {repaired} repaired", counted(n, "finding"))
                }
            }
        ));
        if !unpacked.is_empty() {
            let (files, size) = unpacked.iter().fold((0, 0), |(files, size), u| {
                (files + u.unpacked.files, size + u.unpacked.bytes)
            });
            let damaged = unpacked
                .iter()
                .filter(|u| !u.unpacked.wrong.is_empty())
                .count();
            let state = match damaged {
                0 => "as they were unpacked".to_owned(),
                n => format!("{n} of {} damaged", counted(unpacked.len(), "folder")),
            };
            say(&format!(
                "{} hashed ({}): {state}",
                counted(files, "unpacked file"),
                bytes(size)
            ));
        }
    }
    if open == 0 {
        Ok(())
    } else {
        Err(Stop::damaged_printed())
    }
}

/// The number of a folder's files shown before the rest is only counted.
const FILES_SHOWN: usize = 5;

/// A checked folder of unpacked packages.
struct Checked {
    unpacked: Unpacked,
    removed: bool,
}

impl Checked {
    fn is_open(&self) -> bool {
        !self.unpacked.wrong.is_empty() && !self.removed
    }

    fn lines(&self) -> Vec<String> {
        let wrong = &self.unpacked.wrong;
        if wrong.is_empty() {
            return Vec::new();
        }
        let remedy = match self.removed {
            true => "removed; the next run unpacks it again",
            false => "`benchtrail fsck --repair` removes it, and the next run unpacks it again",
        };
        let mut lines = vec![format!("{}: {remedy}", self.unpacked.folder.display())];
        lines.extend(wrong.iter().take(FILES_SHOWN).map(|w| format!("  {w}")));
        if wrong.len() > FILES_SHOWN {
            let more = counted(wrong.len() - FILES_SHOWN, "more file");
            lines.push(format!("  … and {more}"));
        }
        lines
    }

    fn json(&self) -> Value {
        json!({
            "folder": self.unpacked.folder, "files": self.unpacked.files, "bytes": self.unpacked.bytes,
            "wrong": self.unpacked.wrong, "removed": self.removed,
        })
    }
}

/// Hashes the packages unpacked into the store.
fn unpacked(project: &Project, repair: bool) -> Result<Vec<Checked>, Stop> {
    let trouble = |e: std::io::Error| Stop::refused_at(project.store.display(), &e);
    let mut looked = Vec::new();
    for unpacked in provision::check_unpacked(&project.store).map_err(trouble)? {
        let removed = repair && !unpacked.wrong.is_empty();
        if removed {
            provision::remove_unpacked(&unpacked).map_err(trouble)?;
        }
        looked.push(Checked { unpacked, removed });
    }
    Ok(looked)
}

fn parse_subset(text: &str) -> Result<Subset, Stop> {
    let parts = text
        .split_once('/')
        .and_then(|(part, total)| Some((part.parse().ok()?, total.parse().ok()?)));
    parts
        .and_then(|(part, total)| Subset::new(part, total))
        .ok_or_else(|| {
            Stop::usage(format!("`{text}` is not a subset"))
                .hint("write N/T with 1 ≤ N ≤ T, for example 1/7")
        })
}
