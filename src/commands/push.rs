//! `push`: copies the results that locks name to a shared store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pipeline::lock::{Lock, is_lock};
use remote::Remote;

use crate::args::{Global, PushArgs};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::locks::find_locks;
use crate::project::{Project, shown};
use crate::shared::{Shared, push_json, push_lines};
use crate::signals::listen_for_signals;
use crate::terminal::{complain, say};

pub(super) fn push(arguments: &PushArgs, global: &Global) -> Result<(), Stop> {
    remote::check_url(&arguments.remote)?;
    no_study(&arguments.remote)?;
    must_be(Path::new(&arguments.remote), Wanted::Shared)?;
    let profile = profile(arguments.profile.as_ref(), arguments.smoke);
    let project = Project::of(
        arguments.studies.first().map(PathBuf::as_path),
        global.store.as_deref(),
    )?;
    let store = project.open_existing()?;
    let locks = locks(&project, &arguments.studies, profile)?;
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let remote = Remote::open_or_create(&arguments.remote)?.with_jobs(arguments.jobs);
    let shared = Shared::new(remote);
    let (report, left_out) = shared.push(&store, &locks, arguments.verify, &cancelled)?;
    let url = shared.remote.url();
    if global.json {
        let mut json = push_json(&report, url);
        json["left_out"] = left_out.into();
        say(&json.to_string());
    } else {
        push_lines(&report, url).iter().for_each(|line| say(line));
    }
    if left_out == 0 {
        return Ok(());
    }
    complain(&format!(
        "{left_out} results that the locks name are incomplete in the store {} and were not pushed",
        shown(&project.store)
    ));
    Err(Stop::failed_printed())
}

/// Refuses a store that would be created under the name of a study.
///
/// # Errors
/// If nothing has this name, and it ends like an experiment or a lock.
fn no_study(remote: &str) -> Result<(), Stop> {
    let ends = [".yaml", ".yml", ".lock"];
    if !ends.iter().any(|end| remote.ends_with(end)) || Path::new(remote).exists() {
        return Ok(());
    }
    let message = format!("`{remote}` is the name of a study, and the shared store comes first");
    let hint = format!(
        "`benchtrail push STORE {remote}`, where STORE is a folder or `s3://BUCKET/PREFIX`"
    );
    Err(Stop::usage(message).hint(hint))
}

/// Returns the requested profile, from either option.
pub(super) fn profile(named: Option<&String>, smoke: bool) -> Option<&str> {
    match smoke {
        true => Some("smoke"),
        false => named.map(String::as_str),
    }
}

/// Reads the locks of studies, or all locks of a project, each with its path.
pub(super) fn locks(
    project: &Project,
    studies: &[PathBuf],
    profile: Option<&str>,
) -> Result<Vec<(PathBuf, Lock)>, Stop> {
    if !studies.is_empty() {
        let one = |study: &PathBuf| match is_lock(study) {
            true => Ok((study.clone(), read(study)?)),
            false => {
                let lock = crate::cells::read_lock(study, profile)?;
                Ok((pipeline::lock::lock_file(study, profile), lock))
            }
        };
        return studies.iter().map(one).collect();
    }
    let mut files = Vec::new();
    find_locks(&project.root, &mut files)?;
    if files.is_empty() {
        return Err(
            Stop::nothing(format!("there is no lock below {}", project.root.display()))
                .hint("name an experiment that has run; `pull --study NAME` needs no lock"),
        );
    }
    let read = |file: PathBuf| read(&file).map(|lock| (file, lock));
    files.into_iter().map(read).collect()
}

fn read(path: &Path) -> Result<Lock, Stop> {
    let lock = Lock::read(path).map_err(Stop::failed)?;
    lock.ok_or_else(|| Stop::nothing(format!("{} does not exist", shown(path))))
}
