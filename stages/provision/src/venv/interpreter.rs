//! Finds the interpreter that a study requests among the installed ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pipeline::Failure;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::probe;

const LIMIT: Duration = Duration::from_secs(20);

/// Prints what an interpreter is.
const SCRIPT: &str = "import json, platform, sys, sysconfig\n\
    print(json.dumps({'path': sys._base_executable or sys.executable, 'version': platform.python_version(), \
    'implementation': sys.implementation.name, \
    'free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED'))}))";

/// An installed interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    /// Its own program, not that of an environment through which it was found.
    pub(crate) path: PathBuf,
    /// The exact version, such as `3.12.7`.
    pub(crate) version: String,
    /// The implementation, such as `cpython`.
    pub(crate) implementation: String,
    /// Whether it was built without the global interpreter lock.
    pub(crate) free_threaded: bool,
}

impl Interpreter {
    /// Asks a program what it is; `None` if it is not Python or cannot run.
    fn ask(program: &Path) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(["-I", "-c", SCRIPT]);
        serde_json::from_str(probe::answer(command, LIMIT).ok()?.trim()).ok()
    }

    /// Returns whether this is the wanted version, in all the parts that are given.
    fn fits(&self, wanted: &str) -> bool {
        let number = wanted.strip_suffix('t').unwrap_or(wanted);
        let rest = self.version.strip_prefix(number);
        let same = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        same && self.free_threaded == wanted.ends_with('t')
    }
}

/// Finds an interpreter of a version on the search path and among those that `uv` manages. The
/// search runs once per process.
///
/// # Errors
/// If no such interpreter is found.
pub(crate) fn find(wanted: &str, machine: &Machine) -> Result<Interpreter, Failure> {
    static FOUND: Mutex<BTreeMap<String, Interpreter>> = Mutex::new(BTreeMap::new());
    let mut cache = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(interpreter) = cache.get(wanted) {
        return Ok(interpreter.clone());
    }
    let interpreter = look(wanted, machine)?;
    cache.insert(wanted.to_owned(), interpreter.clone());
    Ok(interpreter)
}

fn look(wanted: &str, machine: &Machine) -> Result<Interpreter, Failure> {
    let short: Vec<&str> = wanted.trim_end_matches('t').split('.').take(2).collect();
    let suffix = if wanted.ends_with('t') { "t" } else { "" };
    let names = [
        format!("python{}{suffix}", short.join(".")),
        "python3".into(),
        "python".into(),
    ];
    let mut seen = Vec::new();
    let on_path = names
        .iter()
        .flat_map(|name| machine.path.iter().map(move |folder| folder.join(name)))
        .filter(|path| path.is_file());
    for path in on_path.chain(of_uv(wanted, machine)) {
        let Some(interpreter) = Interpreter::ask(&path) else {
            continue;
        };
        if interpreter.fits(wanted) {
            return Ok(interpreter);
        }
        let shown = format!(
            "{}{}",
            interpreter.version,
            if interpreter.free_threaded { "t" } else { "" }
        );
        if !seen.contains(&shown) {
            seen.push(shown);
        }
    }
    let have = match seen.as_slice() {
        [] => "none was found".to_owned(),
        seen => format!("there is {}", seen.join(", ")),
    };
    let message = format!("Python {wanted} is not on this machine: {have}");
    Err(Failure::failed(message).hint(format!(
        "install it (`uv python install {wanted}`; on Debian, if it has it: apt install python{}-venv), or give the \
         version you have",
        short.join(".")
    )))
}

/// Returns the interpreter that `uv` has for a version, without fetching one.
fn of_uv(wanted: &str, machine: &Machine) -> Option<PathBuf> {
    let mut command = Command::new(machine.program("uv")?);
    command.args([
        "python",
        "find",
        "--no-project",
        "--system",
        "--no-python-downloads",
        wanted,
    ]);
    let said = probe::answer(command, LIMIT).ok()?;
    Some(PathBuf::from(said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_fits_in_the_parts_that_are_given() {
        let python = |version: &str, free_threaded| Interpreter {
            path: PathBuf::new(),
            version: version.to_owned(),
            implementation: "cpython".to_owned(),
            free_threaded,
        };
        for (wanted, version, free, fits) in [
            ("3.1", "3.11.7", false, false),
            ("3.11", "3.11.7", false, true),
            ("3.11.7", "3.11.7", false, true),
            ("3.11.7", "3.11.70", false, false),
            ("3.14", "3.14.5", true, false),
            ("3.14t", "3.14.5", true, true),
            ("3.14t", "3.14.5", false, false),
            ("3.14", "3.14.0rc1", false, true),
        ] {
            assert_eq!(
                python(version, free).fits(wanted),
                fits,
                "{wanted} {version}"
            );
        }
    }

    #[test]
    fn a_missing_interpreter_is_reported_with_those_that_exist() {
        let failure = find("3.2", Machine::here()).unwrap_err();
        assert!(
            failure
                .reason
                .starts_with("Python 3.2 is not on this machine: there is 3."),
            "{failure}"
        );
        assert!(failure.hint.unwrap().contains("uv python install 3.2"));
    }
}
