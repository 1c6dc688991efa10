//! Whether an engine that is a Python module is installed where its interpreter looks, told from the
//! files there. Nothing is executed: a plan must not start what an experiment names.

use std::fs;
use std::path::{Path, PathBuf};

use engines::{Engine, Program};
use pipeline::Failure;

use crate::machine::Machine;

/// Returns what to say of an engine that is started as `INTERPRETER -m MODULE` where no folder in which
/// the interpreter looks has the module. `None` where it is there, or where that cannot be told: for
/// programs of another kind, shims, and environments that link to modules elsewhere.
pub fn missing_module(engine: &Engine, machine: &Machine) -> Option<Failure> {
    let Program::Installed(program) = &engine.launch.program else {
        return None;
    };
    let at = engine
        .launch
        .arguments
        .iter()
        .position(|argument| argument == "-m")?;
    let module = engine.launch.arguments.get(at + 1)?.split('.').next()?;
    let path = machine.program(program)?;
    let folders = site_packages(&path);
    if folders.is_empty() || folders.iter().any(|folder| may_have(folder, module)) {
        return None;
    }
    let message = format!(
        "{} is not installed: no Python module `{module}` where `{}` looks",
        engine.title,
        path.display()
    );
    let hint = format!(
        "install it there, or name the interpreter that has it with `extends:` and `launch: {{program: \
         {{installed: /path/to/venv/bin/{}}}}}`; looked into {}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    );
    Some(Failure::failed(message).hint(hint))
}

/// Returns the folders of modules that belong to an interpreter: beside it, as in an environment of its
/// own, and those of the user where it is not one.
#[expect(
    clippy::disallowed_methods,
    reason = "these variables decide where an interpreter looks for modules"
)]
fn site_packages(interpreter: &Path) -> Vec<PathBuf> {
    let Some(root) = interpreter.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    let mut folders = below(root);
    if folders.is_empty() {
        return folders;
    }
    if !root.join("pyvenv.cfg").is_file() {
        folders.extend(below(&root.join("local")));
        if let Some(home) = std::env::var_os("HOME") {
            folders.extend(below(&Path::new(&home).join(".local")));
        }
    }
    if let Some(paths) = std::env::var_os("PYTHONPATH") {
        folders.extend(std::env::split_paths(&paths));
    }
    folders
}

/// Returns `lib/python*/site-packages` and `dist-packages` below a folder.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for libraries in ["lib", "lib64"] {
        let Ok(entries) = fs::read_dir(root.join(libraries)) else {
            continue;
        };
        for entry in entries.flatten() {
            if !entry.file_name().to_string_lossy().starts_with("python") {
                continue;
            }
            for packages in ["site-packages", "dist-packages"] {
                let folder = entry.path().join(packages);
                if folder.is_dir() {
                    found.push(folder);
                }
            }
        }
    }
    found.sort();
    found
}

/// Returns whether a folder has a module, or may lead to it by a link that only Python follows.
fn may_have(folder: &Path, module: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name == module
            || name
                .strip_prefix(module)
                .is_some_and(|rest| rest.starts_with('.'))
            || name.ends_with(".egg-link")
            || name.ends_with(".pth") && name.starts_with("__editable__")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn engine(program: &Path) -> Engine {
        serde_json::from_value(serde_json::json!({
            "title": "Stub", "version": "1", "launch": {
                "program": {"installed": program}, "arguments": ["-m", "stub.server"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_module_that_is_nowhere_is_told_and_one_that_may_be_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("bin/python3");
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        // It would fail if it were started.
        fs::write(&python, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let told = || missing_module(&engine(&python), Machine::here());
        assert!(
            told().is_none(),
            "without a folder of modules nothing is known"
        );

        let packages = folder.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages.join("stubborn")).unwrap();
        fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        let failure = told().unwrap();
        assert!(
            failure.reason.contains("no Python module `stub`"),
            "{failure}"
        );
        assert!(failure.hint.unwrap().contains("site-packages"));

        fs::write(packages.join("__editable__.stub-1.pth"), "/elsewhere\n").unwrap();
        assert!(told().is_none(), "a link may lead to it");
        fs::remove_file(packages.join("__editable__.stub-1.pth")).unwrap();
        fs::create_dir(packages.join("stub")).unwrap();
        assert!(told().is_none());
    }
}
