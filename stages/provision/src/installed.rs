//! Identifies a program that the user installed, because its version text is not enough.
//!
//! The program's own bytes and those of its shared libraries are part of the key. For a script, its interpreter and the
//! distributions beside it are also part of the key, because a launcher of a few lines starts whatever is
//! installed there. The same holds for the files that the definition names in arguments and variables, and for the values of
//! inherited variables. Files that these values name are not followed, so files that a program reads itself are not covered.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use artifacts::Digest;
use engines::{Engine, Program};
use pipeline::executable::find;
use pipeline::version_manager::{of_version_manager, selection};
use pipeline::{Failure, Json};
use serde_json::json;

use crate::libraries::libraries;
use crate::machine::Machine;
use crate::module::site_packages;
use crate::surroundings::Brought;

/// The most bytes of a script's first line.
const LINE: u64 = 4096;

/// Returns what identifies the program of an engine, the files that its definition names and the values that it inherits, with those by which the user chooses a
/// version if the program is the script of a version manager. Empty for an
/// engine that is not installed by the user, names no file and inherits nothing. A program that comes in an
/// environment of the study (`brought`) is identified by that environment, which also excludes some
/// variables.
///
/// # Errors
/// If the program cannot be read.
pub(crate) fn facets(
    engine: &Engine,
    machine: &Machine,
    brought: Brought,
) -> Result<BTreeMap<String, Json>, Failure> {
    let mut facets = BTreeMap::new();
    let name = match &engine.launch.program {
        Program::Installed(name) => Some(name.as_str()),
        // A worker runs in the interpreter on the search path, with the distributions beside it.
        Program::Python(_) | Program::Worker(_) | Program::WorkerFile(_) => Some("python3"),
        Program::Packaged(_) | Program::Running(_) => None,
    };
    let name = name.filter(|_| brought == Brought::Nothing);
    let path = name.and_then(|name| machine.program(name));
    // A launcher's packages are pinned.
    if let Some(path) = &path
        && !matches!(engine.launch.program, Program::Python(_))
    {
        facets.insert("program".to_owned(), identity_of(path, engine)?);
    }
    // In a container, a path names another file.
    let files = match brought {
        Brought::System => BTreeMap::new(),
        Brought::Nothing | Brought::Program => engine.files(),
    };
    if !files.is_empty() {
        facets.insert(engines::FILES.to_owned(), json!(files));
    }
    let chosen = path.map_or_else(Vec::new, |path| engines::read_by_version_manager(&path));
    let chosen: Vec<String> = chosen
        .into_iter()
        .filter(|name| engines::chooses_version(name))
        .collect();
    if !engine.launch.inherit.is_empty() || !chosen.is_empty() {
        let kept = |name: &&String| match brought {
            Brought::Nothing => true,
            Brought::Program => !engines::is_kept_out(name),
            Brought::System => places::passes(name),
        };
        let mut names: Vec<String> = engine.launch.inherit.iter().filter(kept).cloned().collect();
        names.extend(chosen);
        facets.insert("inherited".to_owned(), inherited(&names));
    }
    Ok(facets)
}

/// Returns what identifies a program that an engine starts.
fn identity_of(path: &Path, engine: &Engine) -> Result<Json, Failure> {
    let whole = || {
        let mut identity = program(path)?;
        let libraries = libraries(&path.canonicalize()?, library_path(engine))?;
        if !libraries.is_empty() {
            identity["libraries"] = json!(libraries);
        }
        Ok(identity)
    };
    whole().map_err(|e: io::Error| {
        let path = path.display();
        Failure::failed(format!("the program {path} cannot be read: {e}"))
    })
}

/// Returns the folders in which the loader looks first for the libraries of an engine.
#[expect(
    clippy::disallowed_methods,
    reason = "this value reaches the engine, so it decides what is measured"
)]
fn library_path(engine: &Engine) -> Vec<PathBuf> {
    const NAME: &str = "LD_LIBRARY_PATH";
    let launch = &engine.launch;
    let folders = match launch.environment.get(NAME) {
        Some(folders) => Some(folders.into()),
        None if launch.inherit.iter().any(|name| name == NAME) => std::env::var_os(NAME),
        None => None,
    };
    let folders = folders.unwrap_or_default();
    let folders = std::env::split_paths(&folders);
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Returns the values of variables by name: null for an unset variable, and a digest if it may be a secret.
#[expect(
    clippy::disallowed_methods,
    reason = "these values reach the engine, so they are part of what was measured"
)]
fn inherited(names: &[String]) -> Json {
    let home = std::env::var("HOME").ok();
    let value = |name: &String| -> Json {
        match std::env::var_os(name) {
            None => Json::Null,
            Some(value) if net::may_be_secret(name, &value.to_string_lossy()) => {
                json!(Digest::of(value.as_encoded_bytes()).to_string())
            }
            // Records are published, and the owner of the home folder is irrelevant.
            Some(value) => json!(without_home(&value.to_string_lossy(), home.as_deref())),
        }
    };
    names
        .iter()
        .map(|name| (name.clone(), value(name)))
        .collect()
}

fn without_home(value: &str, home: Option<&str>) -> String {
    match home.filter(|home| home.len() > 1) {
        Some(home) => value.replace(home, "~"),
        None => value.to_owned(),
    }
}

/// Returns the digest of a program. For a Python interpreter, which starts whatever is installed in its environment, also
/// returns the distributions that it finds. For a script, returns those of its interpreter, and the interpreter's digest.
fn program(path: &Path) -> io::Result<Json> {
    let real = path.canonicalize()?;
    let mut identity = json!({ "digest": Digest::of_large_file(&real)?.to_string() });
    // A script's environment is where its interpreter is named, not where a link points. The same holds for the link
    // that a virtual environment has in place of an interpreter.
    let interpreter = match interpreter(&real)? {
        Some(interpreter) => {
            if let Ok(real) = interpreter.canonicalize() {
                identity["interpreter"] = json!(Digest::of_large_file(&real)?.to_string());
            }
            interpreter
        }
        None => path.to_owned(),
    };
    let mut packages = Vec::new();
    // A version manager's choice depends on more than files. A changed package in any of its versions may matter.
    for python in of_version_manager(path) {
        packages.extend(distributions(&python)?);
    }
    if packages.is_empty() && is_python(&interpreter) {
        packages = distributions(&interpreter)?;
    }
    if let Some(selection) = selection(path)? {
        identity["selection"] = json!(selection);
    }
    packages.sort();
    packages.dedup();
    if !packages.is_empty() {
        identity["distributions"] = json!(packages);
    }
    Ok(identity)
}

/// Returns whether a program is a Python interpreter, by its name: `python`, `python3`, `python3.12`, `python3.14t`, `pypy3`.
fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python").or(name.strip_prefix("pypy"));
    version.is_some_and(|version| {
        let version = version.trim_end_matches('t');
        version.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

/// Returns the interpreter from a script's first line; `None` for other files.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    File::open(path)?.take(LINE).read_to_end(&mut start)?;
    let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(rest);
    let mut words = text.split_whitespace();
    let first = words.next().map(PathBuf::from);
    Ok(match first {
        Some(env) if env.ends_with("env") => words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .and_then(on_path),
        other => other,
    })
}

/// Finds the program that `env` would start.
#[expect(clippy::disallowed_methods, reason = "`env` searches the search path")]
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    find(name, std::env::split_paths(&folders))
}

/// Returns the distributions in the folders in which an interpreter looks for modules, as `NAME-VERSION`.
fn distributions(interpreter: &Path) -> io::Result<Vec<String>> {
    let mut distributions = Vec::new();
    for folder in site_packages(interpreter) {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".dist-info");
            // Debian's packages and old installations leave the older form.
            let stem = stem.or_else(|| name.strip_suffix(".egg-info"));
            distributions.extend(stem.map(str::to_owned));
        }
    }
    Ok(distributions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_bytes_and_a_script_also_what_is_installed_beside_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let site = root.join("lib/python3.12/site-packages");
        fs::create_dir_all(site.join("engine-1.0.dist-info")).unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(root.join("bin/python3"), "an interpreter").unwrap();
        let script = root.join("bin/engine");
        fs::write(
            &script,
            format!("#!{}/bin/python3\nrun()\n", root.display()),
        )
        .unwrap();
        let first = program(&script).unwrap();
        assert_eq!(first["distributions"], json!(["engine-1.0"]));
        assert_eq!(first, program(&script).unwrap(), "what stays is the same");

        // Each of these alone changes the identity.
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let second = program(&script).unwrap();
        assert_eq!(second["distributions"], json!(["engine-1.0", "torch-2.9"]));
        fs::write(root.join("bin/python3"), "another interpreter").unwrap();
        let third = program(&script).unwrap();
        assert_ne!(third["interpreter"], second["interpreter"]);
        fs::write(
            &script,
            format!("#!{}/bin/python3\nrun(2)\n", root.display()),
        )
        .unwrap();
        assert_ne!(program(&script).unwrap()["digest"], third["digest"]);

        let binary = root.join("bin/binary");
        fs::write(&binary, b"\x7fELF one").unwrap();
        let one = program(&binary).unwrap();
        fs::write(&binary, b"\x7fELF two").unwrap();
        let two = program(&binary).unwrap();
        assert_ne!(one, two);
        assert_eq!(
            two.as_object().unwrap().len(),
            1,
            "a binary is its bytes: {two}"
        );
    }

    #[test]
    fn an_interpreter_is_also_every_package_that_it_finds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let site = root.join("venv/lib/python3.12/site-packages");
        fs::create_dir_all(&site).unwrap();
        fs::create_dir_all(root.join("venv/bin")).unwrap();
        fs::write(root.join("python3.12"), "an interpreter").unwrap();
        let python = root.join("venv/bin/python3");
        std::os::unix::fs::symlink(root.join("python3.12"), &python).unwrap();
        fs::write(root.join("venv/pyvenv.cfg"), "home = /nowhere\n").unwrap();
        let has = |identity: &Json, name: &str| {
            let all = identity["distributions"].as_array();
            all.is_some_and(|all| all.contains(&json!(name)))
        };
        let empty = program(&python).unwrap();
        assert!(!has(&empty, "torch-2.9"));
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let one = program(&python).unwrap();
        assert!(has(&one, "torch-2.9"), "{one}");
        assert_eq!(one["digest"], empty["digest"]);

        // A `.pth` file adds a folder.
        let shared = root.join("shared");
        fs::create_dir_all(shared.join("engine-1.0.dist-info")).unwrap();
        fs::write(site.join("more.pth"), format!("{}\n", shared.display())).unwrap();
        assert!(has(&program(&python).unwrap(), "engine-1.0"));
    }

    #[test]
    fn every_version_of_a_version_manager_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("shims")).unwrap();
        fs::write(root.join("shims/python3"), "#!/bin/sh\nexec chosen\n").unwrap();
        for version in ["3.11.7", "3.12.1"] {
            let home = root.join("versions").join(version);
            let site = home.join("lib/python3.12/site-packages");
            fs::create_dir_all(site.join(format!("torch-{version}.dist-info"))).unwrap();
            fs::create_dir(home.join("bin")).unwrap();
            fs::write(home.join("bin/python3"), "an interpreter").unwrap();
        }
        let identity = program(&root.join("shims/python3")).unwrap();
        let all = identity["distributions"].as_array().unwrap();
        for name in ["torch-3.11.7", "torch-3.12.1"] {
            assert!(all.contains(&json!(name)), "{identity}");
        }
        // The version that the user chose decides what is started.
        fs::write(root.join("version"), "3.12.1\n").unwrap();
        assert_ne!(program(&root.join("shims/python3")).unwrap(), identity);
    }

    #[test]
    fn the_content_of_a_script_that_an_argument_names_identifies_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("launch.py").display().to_string();
        let engine: Engine = serde_json::from_value(json!({
            "title": "x", "version": "1",
            "launch": {"program": {"packaged": "server"}, "arguments": [script]},
        }))
        .unwrap();
        let facets = |content: &str, brought| {
            fs::write(&script, content).unwrap();
            facets(&engine, Machine::here(), brought).unwrap()
        };
        for brought in [Brought::Nothing, Brought::Program] {
            assert_ne!(facets("run(1)", brought), facets("run(2)", brought));
        }
        let contained = facets("run(1)", Brought::System);
        assert_eq!(
            contained,
            facets("run(2)", Brought::System),
            "a path inside"
        );
    }

    #[test]
    fn names_of_interpreters_are_known() {
        for name in ["python", "python3", "python3.12", "python3.14t", "pypy3.10"] {
            assert!(
                is_python(Path::new("/opt/bin").join(name).as_path()),
                "{name}"
            );
        }
        for name in ["pythonic", "bash", "vllm", "python-config"] {
            assert!(
                !is_python(Path::new("/opt/bin").join(name).as_path()),
                "{name}"
            );
        }
    }

    #[test]
    fn inherited_values_are_listed_and_secrets_are_digests() {
        let variables = inherited(&["PATH".to_owned(), "NOT_SET_ANYWHERE".to_owned()]);
        assert!(variables["PATH"].as_str().unwrap().contains('/'));
        assert_eq!(variables["NOT_SET_ANYWHERE"], Json::Null);
        let value = without_home("/home/ada/lib:/opt/lib", Some("/home/ada"));
        assert_eq!(value, "~/lib:/opt/lib");
    }
}
