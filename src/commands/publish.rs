//! `publish`: writes a finished study as a directory that others can check.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use artifacts::counted;
use bundle::{BundleError, KeyPair, Publication, Published, Sources};
use pipeline::StudyDocument;
use pipeline::lock::{Lock, LockClass, lock_path};
use remote::pull_records;
use serde_json::json;

use super::run_summary::outcomes;
use crate::args::{Global, PublishArgs};
use crate::exit::Stop;
use crate::given;
use crate::project::{again, in_shell, shown};
use crate::room;
use crate::session::Session;
use crate::shared::{Shared, watched};
use crate::terminal::{bytes, complain, continued, say};

pub(super) fn publish(arguments: &PublishArgs, global: &Global) -> Result<(), Stop> {
    let key = given::key(arguments.key.as_deref(), KeyPair::read)?;
    if let Some(path) = arguments.key.as_deref()
        && KeyPair::is_open_to_others(path)
    {
        let path = in_shell(path);
        complain(&format!(
            "warning: other users of this machine can read the private key {path}, and sign as you; run `chmod 600 {path}`"
        ));
    }
    let session = Session::open(&arguments.experiment, global)?;
    let experiment = &session.experiment;
    let shared = Shared::of(&arguments.remote)?;
    let store = match shared {
        Some(_) => session.project.open()?,
        None => session.project.open_existing()?,
    };
    let lock = crate::cells::read_lock(&experiment.file, experiment.profile.as_deref())?;
    if let Some(shared) = &shared {
        let records = lock.records().chain(lock.earlier()).collect();
        let pulled = watched("pulling", &AtomicBool::new(false), |watch| {
            pull_records(&shared.remote, &store, records, &shared.me, watch)
        })?;
        for (record, why) in &pulled.broken {
            complain(&format!(
                "warning: record {} is missing: {}",
                record.short(),
                continued(&why.to_string())
            ));
        }
    }
    room::fits("publishing a study", &room::Step::reads(session.cells()))?;
    let study = StudyDocument::collect(experiment, &session.registry, &store)?
        .map_err(|what| unfinished(&what, &session))?;
    if study.trail != lock.trail() {
        return Err(unfinished(
            "the lock does not match the experiment",
            &session,
        ));
    }
    let text = std::fs::read_to_string(&experiment.file)
        .map_err(|e| Stop::refused_at(shown(&experiment.file), &e))?;
    let sources = Sources::of(experiment, &lock_path(experiment), &arguments.leave_out)?;
    let publication = Publication {
        sources: &sources,
        experiment_text: &text,
        lock: &lock,
        study: &study,
        store: &store,
        without: &arguments.without,
        authors: &arguments.author,
        license: &arguments.license,
        allowed: &arguments.allow,
        names: &own_names(),
        keys: &bundle::keys_named(experiment),
        key: key.as_ref(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let folder = arguments.out.clone().unwrap_or_else(|| {
        let name = match &experiment.profile {
            None => experiment.name.clone(),
            Some(profile) => format!("{}.{profile}", experiment.name),
        };
        session.project.root.join("published").join(name)
    });
    let gates = outcomes(&store, &session, &lock)?;
    let published = bundle::publish(&publication, &folder)?;
    warn(&lock, &published, &gates.failed);
    let archive = if arguments.archive {
        Some(archive_of(&folder))
    } else {
        None
    };
    if let Some(archive) = &archive {
        bundle::pack(&folder, archive)?;
    }
    if global.json {
        let left_out: Vec<_> = sources
            .left_out()
            .iter()
            .map(|l| json!({"name": l.name, "digest": l.digest, "reason": l.reason}))
            .collect();
        say(&json!({
            "bundle": published.folder, "archive": archive, "files": published.files, "bytes": published.bytes,
            "objects": published.objects, "reports": published.reports, "key": published.key,
            "trail": lock.trail(), "left_out": left_out,
            "without": arguments.without, "artifacts_left_out": published.left_out, "failed_gates": gates.failed,
        })
        .to_string());
        return Ok(());
    }
    tell(arguments, &published, &lock, &sources, archive.as_deref());
    Ok(())
}

/// Warns of a bundle without a report, and of failed gates.
fn warn(lock: &Lock, published: &Published, failed_gates: &[String]) {
    if lacks_report(lock, published.reports.len()) {
        complain(&format!("warning: {NO_REPORT}"));
    }
    if !failed_gates.is_empty() {
        let gates = match failed_gates.len() {
            1 => "a gate",
            _ => "gates",
        };
        let names = failed_gates.join(", ");
        complain(&format!(
            "warning: {gates} with severity `fail` failed: {names}"
        ));
    }
}

/// Prints what was published, what was left out, and what to do next.
fn tell(
    arguments: &PublishArgs,
    published: &Published,
    lock: &Lock,
    sources: &Sources,
    archive: Option<&Path>,
) {
    say(&format!(
        "{}, {}: {} artifacts and records of {}",
        counted(published.files, "file"),
        bytes(published.bytes),
        published.objects,
        counted(lock.records().count(), "executed cell")
    ));
    say(&match &published.key {
        Some(id) => format!("signed with key {id}"),
        None => "not signed (create a key with `benchtrail keygen`, sign with `--key`)".to_owned(),
    });
    for left in sources.left_out() {
        say(&format!(
            "not included: {}: {} (the bundle's README names it)",
            left.name, left.reason
        ));
    }
    if published.left_out > 0 {
        say(&format!(
            "not included: {} artifacts of the outputs {} (the bundle's README names them)",
            published.left_out,
            arguments.without.join(", ")
        ));
    }
    if published.gone > 0 {
        say(&format!(
            "not included: {} of earlier results, which {} no longer in the store (the bundle's README names them)",
            counted(published.gone, "record"),
            if published.gone == 1 { "is" } else { "are" }
        ));
    }
    for rule in &arguments.allow {
        say(&format!(
            "secret search switched off for: {rule} (the bundle names this rule)"
        ));
    }
    say(&format!("bundle       {}", shown(&published.folder)));
    if let Some(archive) = archive {
        say(&format!("archive      {}", shown(archive)));
    }
    say(&format!("trail digest {}", lock.trail()));
    say("try next:");
    let folder = in_shell(&published.folder);
    say(&format!("  benchtrail verify {folder}"));
    say(&format!("  benchtrail reproduce {folder}"));
}

/// The doubt about a bundle of a study whose report stages all failed.
pub(super) const NO_REPORT: &str = "no report is ok, so the bundle has none";

/// Returns whether a study has a report stage, but its bundle has no report.
pub(super) fn lacks_report(lock: &Lock, reports: usize) -> bool {
    reports == 0 && lock.stages.iter().any(|s| s.class == LockClass::Study)
}

fn unfinished(what: &str, session: &Session) -> Stop {
    let study = again(
        &session.experiment.file,
        session.experiment.profile.as_deref(),
    );
    Stop::failed(format!("the study is not finished: {what}"))
        .hint(format!("finish it with `benchtrail run {study}`"))
}

fn archive_of(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".tar.zst");
    name.into()
}

/// Returns the names of this machine and its user, which must not become public.
#[expect(
    clippy::disallowed_methods,
    reason = "a bundle must not carry the user's name"
)]
fn own_names() -> Vec<String> {
    let mut names: Vec<String> = ["USER", "LOGNAME"]
        .iter()
        .filter_map(|variable| std::env::var(variable).ok())
        .collect();
    let node = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if node != "localhost" {
        names.push(node);
    }
    names.sort();
    names.dedup();
    names
}

impl From<BundleError> for Stop {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Io(_, ref why) if why.kind() == std::io::ErrorKind::NotFound => {
                Self::refused(&error).hint("correct the path; the folder of a file to write must exist")
            }
            BundleError::Io(..) => Self::refused(&error),
            BundleError::Store(error) => error.into(),
            BundleError::NotABundle(..) => Self::usage(error).hint(
                "name the directory or `.tar.zst` that `benchtrail publish EXPERIMENT --author NAME` wrote",
            ),
            BundleError::Exists(_) | BundleError::Key(..) => Self::usage(error),
            BundleError::DoesNotHold(_) => Self::failed(error).hint(
                "a record or an artifact was changed after it was measured: measure its cell again with `benchtrail run --fresh`",
            ),
            BundleError::Malformed(..) | BundleError::Study(_) | BundleError::Secrets(_) => {
                Self::failed(error)
            }
        }
    }
}
