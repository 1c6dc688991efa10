//! One execution of the program: started so that it cannot outlive this process, watched, and stopped together with
//! everything that it started.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pipeline::enclosure::Enclosure;
use pipeline::executable::{self, activate};
use pipeline::process::{Spawner, stop};
use pipeline::{Failure, Job};

/// The interval at which the process is polled.
const POLL: Duration = Duration::from_millis(20);

/// The interval at which the size of its files is checked.
const LOOK: Duration = Duration::from_millis(500);

/// The time in which it must end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The number of last lines of its log that an error quotes.
const QUOTED_LINES: usize = 3;

/// What to execute, and where.
pub(crate) struct Launch<'a> {
    /// The program and all its arguments.
    pub(crate) line: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) inherit: &'a [String],
    /// The virtual environment whose programs come first.
    pub(crate) venv: Option<PathBuf>,
    /// Its working folder.
    pub(crate) folder: &'a Path,
    /// The file that its output goes to.
    pub(crate) log: &'a Path,
    /// The folder whose size is limited, and the limit in bytes.
    pub(crate) budget: Option<(&'a Path, u64)>,
}

/// Runs it until it ends.
///
/// # Errors
/// If it cannot be started, is stopped, or writes more than the limit.
pub(crate) fn run(launch: &Launch<'_>, job: &Job<'_>) -> Result<ExitStatus, Failure> {
    let trouble = |what: &str, e: io::Error| Failure::failed(format!("the program: {what}: {e}"));
    let exe = std::env::current_exe().map_err(|e| trouble("this program's file", e))?;
    let spawner = Arc::new(Spawner::new(exe).map_err(|e| trouble("the thread that starts it", e))?);
    let (program, arguments) = launch
        .line
        .split_first()
        .ok_or_else(|| Failure::failed("there is no program"))?;
    let mut command = spawner.command(program);
    command.args(arguments);
    surround(&mut command, launch).map_err(|e| trouble("its environment", e))?;
    let log = File::create(launch.log).map_err(|e| trouble("its log", e))?;
    let errors = log.try_clone().map_err(|e| trouble("its log", e))?;
    command
        .current_dir(launch.folder)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors);
    let mut child = spawner
        .spawn(command)
        .map_err(|e| trouble("it cannot be started", e))?;
    let noted = Enclosure::of(child.id()).and_then(|enclosure| {
        let lease = job.leases.register(child.id())?;
        Ok((enclosure, lease))
    });
    let (enclosure, _lease) = match noted {
        Ok(noted) => noted,
        Err(e) => {
            let _ = stop(&mut child, Duration::ZERO);
            return Err(trouble("its lease cannot be recorded", e));
        }
    };
    let mut looked = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(e) => break Err(trouble("it cannot be watched", e)),
        }
        if let Err(stopped) = job.control.check() {
            break Err(stopped);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let log = pipeline::long_log::check(launch.log);
            let log = log.map_err(|why| Failure::failed(format!("the program: {why}")));
            if let Err(over) = within(launch.budget).and(log) {
                break Err(over);
            }
        }
        thread::sleep(POLL);
    };
    let stopped = stop(&mut child, GRACE).map(drop).and(enclosure.empty());
    let status = ended?;
    stopped.map_err(|e| trouble("the processes that it started cannot be stopped", e))?;
    within(launch.budget)?;
    Ok(status)
}

/// Gives a command only the variables that it may see.
#[expect(
    clippy::disallowed_methods,
    reason = "a program inherits the variables in the study"
)]
fn surround(command: &mut Command, launch: &Launch<'_>) -> io::Result<()> {
    command.env_clear();
    let names = ["HOME", "PATH", "TMPDIR"].into_iter();
    for name in names.chain(launch.inherit.iter().map(String::as_str)) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if let Some(venv) = &launch.venv {
        let outside = std::env::var_os("PATH").unwrap_or_default();
        activate(command, venv, &outside)?;
    }
    command.envs(&launch.environment);
    Ok(())
}

/// Returns the path of a program that the study names, in the venv or on the search path.
#[expect(
    clippy::disallowed_methods,
    reason = "the search path locates the program"
)]
pub(crate) fn find(name: &str, venv: Option<&Path>) -> Option<PathBuf> {
    let outside = std::env::var_os("PATH").unwrap_or_default();
    let own = venv.map(|venv| venv.join("bin"));
    let folders = own.into_iter().chain(std::env::split_paths(&outside));
    executable::find(name, folders)
}

/// Returns the digest of a variable's value; null if it is not set. Records are published, so they do not contain the
/// value itself.
#[expect(
    clippy::disallowed_methods,
    reason = "these values reach the program, so they are part of what was measured"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(artifacts::Digest::of(value.as_encoded_bytes()).to_string())
}

/// Checks that a folder is not larger than its limit.
pub(crate) fn within(budget: Option<(&Path, u64)>) -> Result<(), Failure> {
    let Some((folder, most)) = budget else {
        return Ok(());
    };
    let size =
        size_of(folder).map_err(|e| Failure::failed(format!("{}: {e}", folder.display())))?;
    if size <= most {
        return Ok(());
    }
    let mib = most >> 20;
    Err(
        Failure::failed(format!("the program wrote more than its {mib} MiB"))
            .hint("make it write less, or raise `budget-mib`"),
    )
}

fn size_of(folder: &Path) -> io::Result<u64> {
    let (mut size, mut open) = (0, vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next)? {
            // A file may disappear during the walk.
            let Ok(entry) = entry else { continue };
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                size = u64::saturating_add(size, metadata.len());
            }
        }
    }
    Ok(size)
}

/// Returns the last lines of a log, to follow a sentence.
pub(crate) fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    match lines[lines.len().saturating_sub(QUOTED_LINES)..]
        .join(" / ")
        .as_str()
    {
        "" => "; it printed nothing".to_owned(),
        last => format!("; it printed last: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use pipeline::StageKind as _;
    use serde_json::json;

    use super::*;
    use crate::Run;

    #[test]
    fn a_file_that_cannot_be_executed_is_no_program() {
        let venv = tempfile::tempdir().unwrap();
        let program = venv.path().join("bin/benchtrail-test-program");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        let path = || find("benchtrail-test-program", Some(venv.path()));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(path(), None);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(path(), Some(program));
    }

    #[test]
    fn another_choice_of_a_version_manager_is_another_facet() {
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("shims/python3");
        fs::create_dir_all(shim.parent().unwrap()).unwrap();
        fs::write(&shim, "#!/bin/sh\nexec chosen\n").unwrap();
        let facets = |interpreter: &Path| {
            let parameters = json!({
                "program": {"script": "s.py"}, "interpreter": [interpreter], "blobs": {"x": "x.txt"},
            });
            Run.facets(&parameters).unwrap()
        };
        let choose = |version: &str| fs::write(folder.path().join("version"), version).unwrap();
        choose("3.12.1");
        let first = facets(&shim);
        assert_eq!(first, facets(&shim));
        choose("3.13.0");
        let second = facets(&shim);
        assert_eq!(first["program"], second["program"]);
        assert_ne!(first, second);
        // Keys of other programs stay as they were.
        let plain = folder.path().join("python3");
        fs::write(&plain, "").unwrap();
        assert!(!facets(&plain).contains_key("selected"));
    }
}
