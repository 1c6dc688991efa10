//! Identifies a program that the user installed, because its version text is not enough.
//!
//! The program's own bytes and those of its shared libraries are part of the key. For a script, its interpreter and the
//! distributions beside it are also part of the key, because a launcher of a few lines starts whatever is
//! installed there, and for a script of a shell, the programs that it names. The same holds for the files that the definition names in arguments and variables, and for the values of
//! inherited variables. Files that these values name are not followed, so files that a program reads itself are not covered.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use engines::{Engine, Language, Program};
use pipeline::executable::{digest_of, is_executable};
use pipeline::version_manager::{of_version_manager, selection, shims_of};
use pipeline::{Failure, Json};
use serde_json::json;

use crate::libraries::libraries;
use crate::machine::Machine;
use crate::module::{added_folders, applications_of, modules_of, site_packages};
use crate::script::{interpreter, is_shell, programs_in};
use crate::sources::sources;
use crate::surroundings::Brought;

/// How many scripts may start each other.
const DEPTH: usize = 4;

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
    let path = program_of(engine, machine, brought);
    // A launcher's packages are pinned.
    if let Some(path) = &path
        && !matches!(engine.launch.program, Program::Python(_))
    {
        let identity = identity_of(path, engine, DEPTH).map_err(|e| {
            let path = path.display();
            Failure::failed(format!("the program {path} cannot be read: {e}"))
        })?;
        facets.insert("program".to_owned(), identity);
    }
    // An environment of the study does not have the code that its server loads from a folder.
    if brought == Brought::Program {
        let sources = sources(
            &added_folders(engine),
            &[modules_of(engine), applications_of(engine)].concat(),
        );
        let sources = sources.map_err(|e| {
            Failure::failed(format!("the code of {} cannot be read: {e}", engine.title))
        })?;
        if !sources.is_empty() {
            facets.insert("sources".to_owned(), json!(sources));
        }
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

/// Returns the path of the program that the user installed, if the engine starts one.
fn program_of(engine: &Engine, machine: &Machine, brought: Brought) -> Option<PathBuf> {
    let name = match &engine.launch.program {
        Program::Installed(name) => name.as_str(),
        // A worker runs in the interpreter on the search path, with the distributions beside it.
        Program::Python(_) | Program::Worker(_) | Program::WorkerFile(_) => "python3",
        Program::Packaged(_) | Program::Running(_) => return None,
    };
    machine
        .program(name)
        .filter(|_| brought == Brought::Nothing)
}

/// Returns the warning about a script that starts a program of which the key does not contain the bytes.
pub(crate) fn not_in_key(engine: &Engine, machine: &Machine, brought: Brought) -> Option<String> {
    let path = program_of(engine, machine, brought)?;
    let is_script = matches!(engine.launch.program, Program::Installed(_))
        && shims_of(&path).is_none()
        && interpreter(&path)
            .ok()?
            .is_some_and(|shell| is_shell(&shell))
        && programs_in(&path)
            .ok()?
            .iter()
            .filter(|program| is_executable(program))
            .all(|program| only_starts(program));
    is_script.then(|| {
        format!(
            "the program {} is a script that names no engine by an absolute path, so keys contain only the script and the \
             scripts that it names: if you change a program that it starts, change the engine's `version`, too, or name that program by its path in the script",
            path.display()
        )
    })
}

/// Returns whether a program is one that starts another one.
fn only_starts(program: &Path) -> bool {
    const STARTERS: [&str; 12] = [
        "docker", "env", "ionice", "nice", "nohup", "numactl", "podman", "setsid", "stdbuf",
        "sudo", "taskset", "timeout",
    ];
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| STARTERS.contains(&name))
}

/// Returns what identifies a program that an engine starts, and the programs that it starts if it is a script of a shell.
fn identity_of(path: &Path, engine: &Engine, depth: usize) -> io::Result<Json> {
    let mut identity = program(path, engine)?;
    let real = path.canonicalize()?;
    let libraries = libraries(&real, search_path(engine, "LD_LIBRARY_PATH"))?;
    if !libraries.is_empty() {
        identity["libraries"] = json!(libraries);
    }
    let interpreter = interpreter(&real)?;
    let language = interpreter
        .as_deref()
        .and_then(Language::of_interpreter)
        .or_else(|| Language::of_script(&real));
    if let Some(language) = language {
        let home = home();
        let folder = real.parent().unwrap_or(&real);
        let imports = engines::identities(engines::beside(&real, language));
        // The same code in another folder is the same program.
        let imports: BTreeMap<String, Json> = imports
            .map(|(path, identity)| {
                let inside = Path::new(&path).strip_prefix(folder).ok();
                let name = inside.map(|inside| inside.display().to_string());
                let name = name.unwrap_or_else(|| without_home(&path, home.as_deref()));
                (name, identity)
            })
            .collect();
        if !imports.is_empty() {
            identity["imports"] = json!(imports);
        }
    }
    let of_shell = interpreter.is_some_and(|shell| is_shell(&shell));
    if of_shell && depth > 0 && shims_of(path).is_none() {
        for started in programs_in(&real)? {
            // A program may be executable and not readable, such as `sudo`.
            let name = without_home(&started.to_string_lossy(), home().as_deref());
            identity["starts"][name] = identity_of(&started, engine, depth - 1).unwrap_or_default();
        }
    }
    Ok(identity)
}

/// Returns the folders of a search path that an engine gets in a variable.
#[expect(
    clippy::disallowed_methods,
    reason = "this value reaches the engine, so it decides what is measured"
)]
pub(crate) fn search_path(engine: &Engine, variable: &str) -> Vec<PathBuf> {
    let launch = &engine.launch;
    let folders = match launch.environment.get(variable) {
        Some(folders) => Some(folders.into()),
        None if launch.inherit.iter().any(|name| name == variable) => std::env::var_os(variable),
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
    let home = home();
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

#[expect(
    clippy::disallowed_methods,
    reason = "records are published without the owner's home folder"
)]
fn home() -> Option<String> {
    std::env::var("HOME").ok()
}

fn without_home(value: &str, home: Option<&str>) -> String {
    match home.filter(|home| home.len() > 1) {
        Some(home) => value.replace(home, "~"),
        None => value.to_owned(),
    }
}

/// Returns the digest of a program. For a Python interpreter, which starts whatever is installed in its environment, also
/// returns the distributions that it finds. For a script, returns those of its interpreter, and the interpreter's digest.
fn program(path: &Path, engine: &Engine) -> io::Result<Json> {
    let real = path.canonicalize()?;
    let mut identity = json!({ "digest": digest_of(&real)?.to_string() });
    // A script's environment is where its interpreter is named, not where a link points. The same holds for the link
    // that a virtual environment has in place of an interpreter.
    let interpreter = match interpreter(&real)? {
        Some(interpreter) => {
            if let Ok(real) = interpreter.canonicalize() {
                identity["interpreter"] = json!(digest_of(&real)?.to_string());
            }
            interpreter
        }
        None => path.to_owned(),
    };
    // A version manager's choice depends on more than files. A changed package in any of its versions may matter.
    let mut folders: Vec<PathBuf> = of_version_manager(path)
        .iter()
        .flat_map(|python| site_packages(python))
        .collect();
    if folders.is_empty() && is_python(&interpreter) {
        folders = site_packages(&interpreter);
    }
    let mut packages = Vec::new();
    if !folders.is_empty() {
        // Python looks into the folders of `PYTHONPATH` first.
        folders.splice(0..0, added_folders(engine));
        packages = distributions(&folders)?;
        let modules = [modules_of(engine), applications_of(engine)].concat();
        let sources = sources(&folders, &modules)?;
        if !sources.is_empty() {
            identity["sources"] = json!(sources);
        }
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

/// Returns the distributions in the folders in which an interpreter looks for modules, as `NAME-VERSION`.
fn distributions(folders: &[PathBuf]) -> io::Result<Vec<String>> {
    let mut distributions = Vec::new();
    for folder in folders {
        let entries = match fs::read_dir(folder) {
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

    fn engine(launch: &Json) -> Engine {
        let engine = json!({"title": "x", "version": "1", "launch": launch});
        serde_json::from_value(engine).unwrap()
    }

    fn of(path: &Path) -> io::Result<Json> {
        let engine = engine(&json!({"program": {"installed": path}}));
        identity_of(path, &engine, DEPTH)
    }

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
        let first = of(&script).unwrap();
        assert_eq!(first["distributions"], json!(["engine-1.0"]));
        assert_eq!(first, of(&script).unwrap(), "what stays is the same");

        // Each of these alone changes the identity.
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let second = of(&script).unwrap();
        assert_eq!(second["distributions"], json!(["engine-1.0", "torch-2.9"]));
        fs::write(root.join("bin/python3"), "another interpreter").unwrap();
        let third = of(&script).unwrap();
        assert_ne!(third["interpreter"], second["interpreter"]);
        fs::write(
            &script,
            format!("#!{}/bin/python3\nrun(2)\n", root.display()),
        )
        .unwrap();
        assert_ne!(of(&script).unwrap()["digest"], third["digest"]);

        let binary = root.join("bin/binary");
        fs::write(&binary, b"\x7fELF one").unwrap();
        let one = of(&binary).unwrap();
        fs::write(&binary, b"\x7fELF two").unwrap();
        let two = of(&binary).unwrap();
        assert_ne!(one, two);
        assert_eq!(
            two.as_object().unwrap().len(),
            1,
            "a binary is its bytes: {two}"
        );
    }

    #[test]
    fn a_script_is_also_what_it_imports_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let module = |text: &str| write("core.py", text);
        let of_python = write("engine", "#!/opt/v/bin/python3\nimport core\n");
        let server = write("server.py", "import core\n");
        // A shell may name an interpreter, and a script that is not executable.
        let text = format!("#!/bin/sh\nexec python3 {} \"$@\"\n", server.display());
        let of_shell = write("engine.sh", &text);
        for script in [of_python, of_shell] {
            module("run(1)");
            let first = of(&script).unwrap();
            assert_eq!(first, of(&script).unwrap());
            module("run(2, fast)");
            assert_ne!(first, of(&script).unwrap(), "{}", script.display());
        }
    }

    #[test]
    fn an_application_is_its_code_in_an_environment_and_without() {
        let folder = tempfile::tempdir().unwrap();
        let code = |text: &str| fs::write(folder.path().join("main.py"), text).unwrap();
        let engine = engine(&json!({
            "program": {"installed": "uvicorn"},
            "arguments": ["main:app", "--app-dir", folder.path(), "--port", "{port}"],
        }));
        let facets = || facets(&engine, Machine::here(), Brought::Program).unwrap();
        code("run(1)");
        let first = facets();
        assert_eq!(first.keys().collect::<Vec<_>>(), ["sources"]);
        code("run(2, fast)");
        assert_ne!(facets(), first);
    }

    #[test]
    fn a_script_of_a_shell_is_also_what_it_starts() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("an environment");
        let site = root.join("lib/python3.12/site-packages");
        fs::create_dir_all(&site).unwrap();
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/python3"), "an interpreter").unwrap();
        let write = |name: &str, text: &str| {
            let path = root.join("bin").join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        // What installers write if a path has a space.
        let line = format!(r#"'''exec' "{}/bin/python3" "$0" "$@""#, root.display());
        let script = write("engine", &format!("#!/bin/sh\n{line}\n' '''\nrun()\n"));
        let first = of(&script).unwrap();
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let second = of(&script).unwrap();
        assert_ne!(first, second);
        assert_eq!(second["distributions"], json!(["torch-2.9"]));

        let wrapper = write("run.sh", "#!/bin/sh\nexec server \"$@\"\n");
        let engine = engine(&json!({"program": {"installed": wrapper}}));
        let warned = || not_in_key(&engine, Machine::here(), Brought::Nothing).is_some();
        assert!(warned(), "nobody knows what it starts");
        let server = write("server", "\u{7f} one");
        let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", server.display());
        write("run.sh", &text);
        assert!(!warned());
        let one = of(&wrapper).unwrap();
        write("server", "\u{7f} two, longer");
        assert_ne!(of(&wrapper).unwrap(), one);
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
        let empty = of(&python).unwrap();
        assert!(!has(&empty, "torch-2.9"));
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let one = of(&python).unwrap();
        assert!(has(&one, "torch-2.9"), "{one}");
        assert_eq!(one["digest"], empty["digest"]);

        // A `.pth` file adds a folder.
        let shared = root.join("shared");
        fs::create_dir_all(shared.join("engine-1.0.dist-info")).unwrap();
        fs::write(site.join("more.pth"), format!("{}\n", shared.display())).unwrap();
        assert!(has(&of(&python).unwrap(), "engine-1.0"));
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
        let identity = of(&root.join("shims/python3")).unwrap();
        let all = identity["distributions"].as_array().unwrap();
        for name in ["torch-3.11.7", "torch-3.12.1"] {
            assert!(all.contains(&json!(name)), "{identity}");
        }
        // The version that the user chose decides what is started.
        fs::write(root.join("version"), "3.12.1\n").unwrap();
        assert_ne!(of(&root.join("shims/python3")).unwrap(), identity);
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
