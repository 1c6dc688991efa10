//! `pull`: copies the results that locks name, or all of a study, from a shared store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::{Digest, counted};
use remote::{Remote, RemoteError, pull_records};
use serde_json::json;

use crate::args::{Global, PullArgs};
use crate::commands::push::{locks, profile};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::Project;
use crate::shared::{Shared, watched};
use crate::signals::listen_for_signals;
use crate::terminal::{bytes, complain, continued, say};

/// The number of incomplete results that are named; the rest is only counted.
const BROKEN_SHOWN: usize = 10;

pub(super) fn pull(arguments: &PullArgs, global: &Global) -> Result<(), Stop> {
    remote::check_url(&arguments.remote)?;
    must_be(Path::new(&arguments.remote), Wanted::Shared)?;
    let project = Project::of(
        arguments.studies.first().map(PathBuf::as_path),
        global.store.as_deref(),
    )?;
    project.must_not_be_published("pull")?;
    let store = project.open()?;
    if store.needs_rebuild()? {
        // Local results must not be mistaken for results of others.
        store.rebuild(pipeline::record::view)?;
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let remote = Remote::open(&arguments.remote)?.with_jobs(arguments.jobs);
    let shared = Shared::new(remote);
    let mut records: BTreeSet<Digest> = BTreeSet::new();
    let mut damaged: Vec<RemoteError> = Vec::new();
    // Results that are not in use may have been collected before they were pushed.
    let mut dispensable: BTreeSet<Digest> = BTreeSet::new();
    if arguments.study.is_empty() {
        let profile = profile(arguments.profile.as_ref(), arguments.smoke);
        let locks = locks(&project, &arguments.studies, profile)?;
        records.extend(locks.iter().flat_map(|(_, lock)| lock.records()));
        dispensable.extend(locks.iter().flat_map(|(_, lock)| lock.earlier()));
        dispensable.retain(|record| !records.contains(record));
    }
    for name in &arguments.study {
        let keys = shared.remote.hinted(name)?;
        if keys.is_empty() {
            return Err(Stop::nothing(format!(
                "{} has no results of a study named `{name}`",
                shared.remote.url()
            ))
            .hint("use the name after `experiment:` in the YAML file"));
        }
        let completions = watched("looking", &cancelled, |watch| {
            shared.remote.completions(&keys, watch)
        })?;
        let results = completions.results.iter();
        records.extend(results.flat_map(|(_, all)| all.iter().map(|c| c.record)));
        damaged.extend(completions.damaged);
    }
    let all: Vec<Digest> = records.union(&dispensable).copied().collect();
    let total = records.len();
    let mut report = watched("pulling", &cancelled, |watch| {
        pull_records(&shared.remote, &store, all, &shared.me, watch)
    })?;
    report
        .broken
        .retain(|(record, _)| !dispensable.contains(record));
    let url = shared.remote.url();
    if global.json {
        let broken = report
            .broken
            .iter()
            .map(|(record, why)| json!({"record": record, "reason": why.to_string()}));
        say(&json!({
            "remote": url, "results": total, "entered": report.entered, "objects": report.objects,
            "bytes": report.bytes, "broken": broken.collect::<Vec<_>>(),
            "damaged": damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
        .to_string());
    } else {
        say(&format!(
            "{} pulled from {url} ({}, {})",
            counted(report.entered, "result"),
            counted(report.objects, "object"),
            bytes(report.bytes)
        ));
    }
    name_incomplete(&report.broken, &damaged, url)
}

/// Names the results that were left out, and completions that cannot be read.
///
/// # Errors
/// If there are any.
fn name_incomplete(
    broken: &[(Digest, RemoteError)],
    damaged: &[RemoteError],
    url: &str,
) -> Result<(), Stop> {
    let mut all = broken.iter().map(|(_, why)| why).chain(damaged);
    let Some(first) = all.next() else {
        return Ok(());
    };
    for (record, why) in broken.iter().take(BROKEN_SHOWN) {
        complain(&format!(
            "record {} left out: {}",
            record.short(),
            continued(&why.to_string())
        ));
    }
    for why in damaged.iter().take(BROKEN_SHOWN) {
        complain(&format!(
            "a result is left out: {}",
            continued(&why.to_string())
        ));
    }
    let count = (broken.len() + damaged.len()) as u64;
    let verb = if count == 1 { "is" } else { "are" };
    let results = counted(count, "result");
    let stop = Stop::damaged(format!("{results} {verb} incomplete in {url}"));
    Err(match first.hint() {
        Some(hint) => stop.hint(hint),
        None => stop,
    })
}
