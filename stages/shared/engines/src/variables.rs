//! The environment variables of a program that an engine starts. The program is asked for its version with the same ones:
//! they may decide which version it is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

use pipeline::executable::activate;
use pipeline::version_manager::shims_of;

use crate::command::{Paths, render};
use crate::engine::{Engine, is_kept_out};

/// The variables that every engine inherits.
const INHERITED: [&str; 3] = ["HOME", "PATH", "TMPDIR"];

/// How the names of variables begin that version managers read.
const OF_VERSION_MANAGERS: [&str; 4] = ["ASDF_", "MISE_", "PYENV_", "RBENV_"];

/// Those that name the folder in which somebody called a version manager. A program runs in another one.
const OF_CALLERS: [&str; 2] = ["PYENV_DIR", "RBENV_DIR"];

/// A port on which nothing listens. A program that is asked for its version may ask the server at its address.
const NO_PORT: &str = "1";

/// Gives a command only the variables that an engine inherits, for `program`. In a venv, the program finds what the venv
/// contains first. The script of a version manager also gets the variables that choose a version.
///
/// # Errors
/// If the path of the venv cannot be on the search path.
pub fn prepare_environment(
    command: &mut Command,
    program: &Path,
    inherit: &[String],
    venv: Option<&Path>,
) -> io::Result<()> {
    command.env_clear();
    for (name, value) in variables() {
        let Some(text) = name.to_str() else { continue };
        if passes(text, inherit, venv.is_some()) || chosen_by(program, text, &value) {
            command.env(&name, value);
        }
    }
    if let Some(venv) = venv {
        let outside = variables().find(|(name, _)| name == "PATH");
        let outside = outside.map_or_else(OsString::new, |(_, value)| value);
        activate(command, venv, &outside)?;
    }
    Ok(())
}

/// Returns the names of the variables that are set and that the script of a version manager gets, in their order; none for
/// any other program.
pub fn read_by_version_manager(program: &Path) -> Vec<String> {
    let named = variables().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut names: Vec<String> = named
        .filter(|(name, value)| chosen_by(program, name, value))
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names
}

/// Returns whether a variable chooses a version.
pub fn chooses_version(variable: &str) -> bool {
    variable.ends_with("_VERSION")
}

/// Returns the variables that a definition sets for a program that is asked for its version. No server listens at the address
/// in them.
pub fn set_for_version(engine: &Engine, packages: Option<&str>) -> BTreeMap<String, String> {
    let paths = Paths {
        host: "127.0.0.1".to_owned(),
        port: NO_PORT.to_owned(),
        side_port: NO_PORT.to_owned(),
        packages: packages.unwrap_or_default().to_owned(),
        ..Paths::placeholders("{model-name}", None)
    };
    render(engine, &BTreeMap::new(), &paths).environment
}

#[expect(
    clippy::disallowed_methods,
    reason = "an engine inherits the variables in its definition"
)]
fn variables() -> std::env::VarsOs {
    std::env::vars_os()
}

fn passes(name: &str, inherit: &[String], has_venv: bool) -> bool {
    let declared = INHERITED.contains(&name) || inherit.iter().any(|one| one == name);
    declared && !(has_venv && is_kept_out(name))
}

/// Returns whether a program is the script of a version manager that reads this variable. A token of the manager stays out.
fn chosen_by(program: &Path, name: &str, value: &OsString) -> bool {
    OF_VERSION_MANAGERS
        .iter()
        .any(|start| name.starts_with(start))
        && !OF_CALLERS.contains(&name)
        && !net::may_be_secret(name, &value.to_string_lossy())
        && shims_of(program).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_script_of_a_version_manager_gets_its_variables() {
        let one = |program: &str, name: &str| chosen_by(Path::new(program), name, &"x".into());
        for name in ["PYENV_VERSION", "ASDF_PYTHON_VERSION", "MISE_DATA_DIR"] {
            assert!(one("/home/ada/.pyenv/shims/python3", name), "{name}");
            assert!(!one("/usr/bin/python3", name), "{name}");
        }
        for name in ["PYENV_DIR", "MISE_GITHUB_TOKEN", "PYTHONPATH", "HOME"] {
            assert!(!one("/home/ada/.pyenv/shims/python3", name), "{name}");
        }
        assert!(chooses_version("PYENV_VERSION") && !chooses_version("MISE_SHELL"));
    }

    #[test]
    fn an_engine_inherits_what_it_declares_and_in_a_venv_nothing_of_another_one() {
        let inherit = ["PYTHONPATH", "HF_HOME"].map(str::to_owned);
        for (name, plain, venv) in [
            ("HOME", true, true),
            ("HF_HOME", true, true),
            ("PYTHONPATH", true, false),
            ("CARGO_HOME", false, false),
        ] {
            let passed = (passes(name, &inherit, false), passes(name, &inherit, true));
            assert_eq!(passed, (plain, venv), "{name}");
        }
    }

    #[test]
    fn a_program_that_is_asked_for_its_version_gets_an_address_without_a_server() {
        let engine = Engine::from_json(&serde_json::json!({
            "title": "x", "version": "1",
            "launch": {
                "program": {"installed": "x"},
                "environment": {"ADDRESS": "{host}:{port}", "LIBRARIES": "{packages}/lib", "PLAIN": "1"},
            },
        }))
        .unwrap();
        let set = set_for_version(&engine, Some("/p"));
        let values: Vec<&str> = set.values().map(String::as_str).collect();
        assert_eq!(values, ["127.0.0.1:1", "/p/lib", "1"]);
    }
}
