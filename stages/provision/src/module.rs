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
    let base = match fs::read_to_string(root.join("pyvenv.cfg")) {
        Ok(environment) => base_of(&environment),
        Err(_) => Some(root.to_owned()),
    };
    if let Some(base) = base {
        folders.extend(below(&base));
        folders.extend(below(&base.join("local")));
        if let Some(home) = std::env::var_os("HOME") {
            folders.extend(below(&Path::new(&home).join(".local")));
        }
    }
    folders.extend(folders.clone().iter().flat_map(|folder| linked(folder)));
    if let Some(paths) = std::env::var_os("PYTHONPATH") {
        folders.extend(std::env::split_paths(&paths));
    }
    folders
}

/// Returns the root of the installation whose modules an environment sees, too, as its `pyvenv.cfg` says.
fn base_of(environment: &str) -> Option<PathBuf> {
    let value = |key: &str| {
        let mut pairs = environment.lines().filter_map(|line| line.split_once('='));
        pairs
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim())
    };
    let sees = value("include-system-site-packages")?.eq_ignore_ascii_case("true");
    sees.then(|| Path::new(value("home")?).parent().map(Path::to_owned))?
}

/// Returns the folders that the `.pth` files of a folder add to where Python looks.
fn linked(folder: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|e| e == "pth")
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            let places = text.lines().map(|line| folder.join(line.trim()));
            folders.extend(places.filter(|place| *place != folder && place.is_dir()));
        }
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

/// Returns whether a folder has a module, or may lead to it by code that only Python runs: a `.pth` file of such code
/// other than those that come with every environment.
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
            || name.ends_with(".pth") && runs_code(&entry.path())
    })
}

fn runs_code(file: &Path) -> bool {
    let known = ["distutils-precedence.pth", "_virtualenv.pth"];
    let name = file.file_name().unwrap_or_default();
    let imports = |text: String| text.lines().any(|line| line.starts_with("import"));
    !known.iter().any(|k| name == *k) && fs::read_to_string(file).is_ok_and(imports)
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

        fs::write(packages.join("distutils-precedence.pth"), "import os\n").unwrap();
        assert!(told().is_some(), "every environment has this file");
        fs::write(packages.join("__editable__.stub-1.pth"), "import finder\n").unwrap();
        assert!(told().is_none(), "code may lead to it");
        fs::remove_file(packages.join("__editable__.stub-1.pth")).unwrap();

        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(
            packages.join("more.pth"),
            format!("{}\n", elsewhere.display()),
        )
        .unwrap();
        assert!(told().is_some(), "the folder that it names has nothing");
        fs::create_dir(elsewhere.join("stub")).unwrap();
        assert!(
            told().is_none(),
            "a folder that a file of paths names has it"
        );
        fs::remove_file(packages.join("more.pth")).unwrap();

        let system = folder.path().join("system/lib/python3.12/dist-packages");
        fs::create_dir_all(system.join("stub")).unwrap();
        let environment = |sees: &str| {
            let home = folder.path().join("system/bin");
            let text = format!(
                "home = {}\ninclude-system-site-packages = {sees}\n",
                home.display()
            );
            fs::write(folder.path().join("pyvenv.cfg"), text).unwrap();
        };
        environment("false");
        assert!(
            told().is_some(),
            "the environment does not see the system's modules"
        );
        environment("true");
        assert!(told().is_none());
        environment("false");
        fs::create_dir(packages.join("stub")).unwrap();
        assert!(told().is_none());
    }
}
