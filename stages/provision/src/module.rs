//! Checks from files whether the Python module of an engine is installed where its interpreter looks. Nothing is
//! executed, because a plan must not start what an experiment names.

use std::fs;
use std::path::{Path, PathBuf};

use artifacts::counted;
use engines::{Engine, Program};
use pipeline::Failure;
use pipeline::suggest::either;
use pipeline::version_manager::{of_version_manager, shims_of};

use crate::installed::search_path;
use crate::machine::Machine;

/// Returns a failure for an engine that runs in Python (as `INTERPRETER -m MODULE`, or as a worker) if no folder in
/// which its interpreter looks contains the module. Returns `None` if the module exists or the answer is unknown: for
/// other programs, wrappers, and environments that link to modules elsewhere.
pub fn missing_module(engine: &Engine, machine: &Machine) -> Option<Failure> {
    let (program, module) = in_python(engine)?;
    let path = machine.program(program)?;
    let names = modules_of(engine);
    let added = added_folders(engine);
    let set = engine.launch.environment.get(MODULES);
    let mut settings = engine.settings.values();
    // Where these folders are is only known when the engine starts.
    if set.is_some_and(|set| set.contains('{'))
        || settings.any(|setting| setting.environment.contains_key(MODULES))
    {
        return None;
    }
    let mut looked = Vec::new();
    for interpreter in interpreters(&path, program, machine) {
        let mut folders = site_packages(&interpreter);
        if folders.is_empty() {
            return None;
        }
        folders.extend(added.clone());
        if folders.iter().any(|folder| may_have(folder, &names)) {
            return None;
        }
        looked.extend(folders);
    }
    let first = looked.first()?.clone();
    looked.dedup();
    let what = match module {
        Some(module) => format!("Python module `{module}`"),
        None => format!("Python package {}", either(&engine.distributions)),
    };
    let message = format!(
        "{} is not installed: no {what} where `{}` looks",
        engine.title,
        path.display()
    );
    let package = engine
        .distributions
        .first()
        .map(String::as_str)
        .or(module)?;
    let version = &engine.version;
    let python = path.file_name().unwrap_or_default().to_string_lossy();
    let others = match looked.len() {
        1 => String::new(),
        n => format!(" and {}", counted(n - 1, "more folder")),
    };
    let name_it = match module {
        Some(_) => format!(
            "or name the interpreter that has it with `extends:` and `launch: {{program: {{installed: \
             /path/to/venv/bin/{python}}}}}`, "
        ),
        None => String::new(),
    };
    let hint = format!(
        "install it there (`{python} -m pip install {package}=={version}`), {name_it}or let the study install it: \
         `environment: {{venv: {{python: \"3.12\", packages: [{package}=={version}]}}}}` in the provision stage; looked into \
         {}{others}",
        first.display()
    );
    Some(Failure::failed(message).hint(hint))
}

/// The variable with more folders in which Python looks for modules.
const MODULES: &str = "PYTHONPATH";

/// Returns the folders in which the interpreter of an engine looks for modules, besides its own. A worker runs isolated.
pub(crate) fn added_folders(engine: &Engine) -> Vec<PathBuf> {
    if engine.is_worker() {
        return Vec::new();
    }
    let mut folders = search_path(engine, MODULES);
    folders.extend(application_folders(engine));
    folders
}

/// Returns the folders that arguments name beside an application, as in `uvicorn main:app --app-dir /app`.
pub(crate) fn application_folders(engine: &Engine) -> Vec<PathBuf> {
    if applications_of(engine).is_empty() {
        return Vec::new();
    }
    let arguments = engine.launch.arguments.iter();
    let values = arguments.map(|one| one.split_once('=').map_or(one.as_str(), |(_, value)| value));
    let folders = values.map(PathBuf::from);
    folders
        .filter(|folder| folder.is_absolute() && folder.is_dir())
        .collect()
}

/// Returns the modules that arguments such as `package.module:application` name for a server such as uvicorn.
pub(crate) fn applications_of(engine: &Engine) -> Vec<String> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let module = |argument: &String| {
        let (module, application) = argument.split_once(':')?;
        let first = module.split('.').next()?;
        let application = application.split(['(', '.']).next()?;
        (is_name(application) && module.split('.').all(is_name)).then(|| first.to_owned())
    };
    engine.launch.arguments.iter().filter_map(module).collect()
}

/// Returns the Python modules that an engine is known to consist of.
pub(crate) fn modules_of(engine: &Engine) -> Vec<String> {
    let module = in_python(engine).and_then(|(_, module)| module);
    let names = engine
        .distributions
        .iter()
        .map(String::as_str)
        .chain(module);
    names.map(|name| name.replace('-', "_")).collect()
}

/// Returns an engine's interpreter and the module that it starts. A worker imports from its distributions.
fn in_python(engine: &Engine) -> Option<(&str, Option<&str>)> {
    if engine.is_worker() {
        let has_distributions = !engine.distributions.is_empty();
        return has_distributions.then_some(("python3", None));
    }
    let Program::Installed(program) = &engine.launch.program else {
        return None;
    };
    let arguments = &engine.launch.arguments;
    let at = arguments.iter().position(|argument| argument == "-m")?;
    Some((program, Some(arguments.get(at + 1)?.split('.').next()?)))
}

/// Returns the interpreters that a program may stand for: itself, or those of a version manager.
fn interpreters(path: &Path, program: &str, machine: &Machine) -> Vec<PathBuf> {
    if shims_of(path).is_none() {
        return vec![path.to_owned()];
    }
    let mut programs = of_version_manager(path);
    // If no version is selected, the next program on the search path is started.
    let others = machine.path.iter().map(|folder| folder.join(program));
    programs.extend(others.filter(|other| other != path && other.is_file()));
    programs.sort();
    programs
}

/// Returns the module folders of an interpreter: those beside it, as in a virtual environment, and the user's if it is
/// not in one.
#[expect(
    clippy::disallowed_methods,
    reason = "this variable decides where an interpreter searches for modules"
)]
pub(crate) fn site_packages(interpreter: &Path) -> Vec<PathBuf> {
    let root_of = |path: &Path| Some(path.parent()?.parent()?.to_owned());
    // A link that is in no environment leads to the installation of its target, as Python itself finds it.
    let is_link = fs::symlink_metadata(interpreter).is_ok_and(|metadata| metadata.is_symlink());
    let is_in = |root: &PathBuf| root.join("pyvenv.cfg").is_file();
    let target = match root_of(interpreter) {
        Some(root) if is_link && !is_in(&root) => fs::canonicalize(interpreter).ok(),
        _ => None,
    };
    let Some(root) = root_of(target.as_deref().unwrap_or(interpreter)) else {
        return Vec::new();
    };
    let root = root.as_path();
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
    folders
}

/// Returns the root of the installation whose modules an environment also sees, from its `pyvenv.cfg`.
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

/// Returns the folders that the `.pth` files of a folder add to Python's search path.
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
    let mut folders = Vec::new();
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
                    folders.push(folder);
                }
            }
        }
    }
    folders.sort();
    folders
}

/// Returns whether a folder contains one of the modules or distributions, or may lead to it through code that only
/// Python runs. An editable installation leaves a folder `NAME-VERSION.dist-info`, or a file that names the module.
fn may_have(folder: &Path, names: &[String]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    let is_one = |file: &str| {
        names.iter().any(|name| {
            let rest = file.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        })
    };
    entries.flatten().any(|entry| {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        is_one(&file)
            || is_one(&file.replace('-', "_").to_lowercase())
            || is_one(&file.to_lowercase())
            || file.ends_with(".egg-link")
            || file.ends_with(".pth") && leads_to(&entry.path(), &file, names)
    })
}

/// Returns whether a `.pth` file has code that names one of the modules. Code in other files only sets up its own
/// package.
fn leads_to(path: &Path, file: &str, names: &[String]) -> bool {
    let Ok(text) = fs::read_to_string(path) else {
        return false;
    };
    let runs = text.lines().any(|line| line.starts_with("import"));
    let named = |name: &String| file.contains(name.as_str()) || text.contains(name.as_str());
    runs && names.iter().any(named)
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

    /// Returns a machine with only a search path.
    fn searching(path: &[PathBuf]) -> Machine {
        let mut machine = Machine::here().clone();
        machine.path = path.to_vec();
        machine
    }

    fn executable(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn an_argument_names_the_module_of_an_application() {
        let folder = tempfile::tempdir().unwrap();
        let app = format!("--app-dir={}", folder.path().display());
        let named = |arguments: &[&str]| {
            let engine = serde_json::json!({
                "title": "Stub", "version": "1",
                "launch": {"program": {"installed": "uvicorn"}, "arguments": arguments},
            });
            let engine: Engine = serde_json::from_value(engine).unwrap();
            (applications_of(&engine), added_folders(&engine).len())
        };
        let app = app.as_str();
        assert_eq!(
            named(&["server.main:app", app, "--bind", "{host}:{port}"]),
            (vec!["server".to_owned()], 1)
        );
        for other in [
            "http://127.0.0.1:{port}",
            "{host}:{port}",
            "127.0.0.1:8000",
            "a b:c",
        ] {
            assert_eq!(named(&[other, app]), (Vec::new(), 0), "{other}");
        }
    }

    #[test]
    fn of_a_version_manager_every_version_is_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        executable(&root.join("shims/python3"));
        let packages = |version: &str| {
            executable(&root.join("versions").join(version).join("bin/python3"));
            let packages = root
                .join("versions")
                .join(version)
                .join("lib/python3.12/site-packages");
            fs::create_dir_all(&packages).unwrap();
            packages
        };
        let (_, newer) = (packages("3.12.1"), packages("3.12.2"));
        let machine = searching(&[root.join("shims")]);
        let missing = || missing_module(&engine(Path::new("python3")), &machine);
        let failure = missing().expect("no version has it");
        assert!(failure.hint.unwrap().contains("and 1 more folder"));
        fs::create_dir(newer.join("stub")).unwrap();
        assert!(missing().is_none(), "it may be the version that is chosen");
    }

    #[test]
    fn a_module_may_lie_in_a_folder_that_the_engine_gets_in_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("bin/python3");
        executable(&python);
        let packages = folder.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages).unwrap();
        fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        let checkout = folder.path().join("checkout");
        fs::create_dir_all(&checkout).unwrap();
        let mut engine = engine(&python);
        let missing = |engine: &Engine| missing_module(engine, Machine::here()).is_some();
        assert!(missing(&engine));
        let mut set = |folders: &str| {
            let variables = &mut engine.launch.environment;
            variables.insert(MODULES.to_owned(), folders.to_owned());
            missing(&engine)
        };
        let folders = format!("/nowhere:{}", checkout.display());
        assert!(set(&folders));
        assert!(!set("{packages}"), "the folder is not yet there");
        fs::create_dir(checkout.join("stub")).unwrap();
        assert!(!set(&folders));
    }

    #[test]
    fn a_worker_lacks_its_distributions() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        executable(&root.join("bin/python3"));
        let packages = root.join("lib/python3.12/site-packages");
        fs::create_dir_all(&packages).unwrap();
        fs::write(root.join("pyvenv.cfg"), "").unwrap();
        let worker: Engine = serde_json::from_value(serde_json::json!({
            "title": "Stub", "version": "1", "distributions": ["stub-worker"],
            "launch": {"program": {"worker": "pass"}},
        }))
        .unwrap();
        let machine = searching(&[root.join("bin")]);
        let missing = missing_module(&worker, &machine).expect("nothing is installed");
        assert!(
            missing.reason.contains("no Python package `stub-worker`"),
            "{missing}"
        );
        assert!(missing.hint.unwrap().contains("pip install stub-worker==1"));
        fs::create_dir(packages.join("stub_worker-1.0.dist-info")).unwrap();
        assert!(missing_module(&worker, &machine).is_none());
    }

    #[test]
    fn a_link_in_no_environment_looks_where_its_target_does() {
        let folder = tempfile::tempdir().unwrap();
        let system = folder.path().join("system");
        executable(&system.join("bin/python3"));
        let packages = system.join("lib/python3.12/site-packages");
        fs::create_dir_all(&packages).unwrap();
        let link = folder.path().join("engine/bin/python3");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(system.join("bin/python3"), &link).unwrap();
        let missing = || missing_module(&engine(&link), Machine::here());
        assert!(missing().is_some());
        fs::create_dir(packages.join("stub")).unwrap();
        assert!(missing().is_none());
        // In an environment, the folder of the link counts.
        fs::write(folder.path().join("engine/pyvenv.cfg"), "").unwrap();
        fs::create_dir_all(folder.path().join("engine/lib/python3.12/site-packages")).unwrap();
        assert!(missing().is_some());
    }

    #[test]
    fn a_module_that_is_missing_is_reported_and_one_that_may_exist_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("bin/python3");
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        // It would fail if it were started.
        fs::write(&python, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let missing = || missing_module(&engine(&python), Machine::here());
        assert!(
            missing().is_none(),
            "without a folder of modules nothing is known"
        );

        let packages = folder.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages.join("stubborn")).unwrap();
        fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        let failure = missing().unwrap();
        assert!(
            failure.reason.contains("no Python module `stub`"),
            "{failure}"
        );
        assert!(failure.hint.unwrap().contains("site-packages"));

        fs::write(packages.join("distutils-precedence.pth"), "import os\n").unwrap();
        fs::write(packages.join("coverage.pth"), "import coverage\n").unwrap();
        assert!(missing().is_some(), "code that leads to something else");
        fs::write(packages.join("__editable__.stub-1.pth"), "import finder\n").unwrap();
        assert!(missing().is_none(), "code may lead to it");
        fs::remove_file(packages.join("__editable__.stub-1.pth")).unwrap();

        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(
            packages.join("more.pth"),
            format!("{}\n", elsewhere.display()),
        )
        .unwrap();
        assert!(missing().is_some(), "the folder that it names has nothing");
        fs::create_dir(elsewhere.join("stub")).unwrap();
        assert!(
            missing().is_none(),
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
            missing().is_some(),
            "the environment does not see the system's modules"
        );
        environment("true");
        assert!(missing().is_none());
        environment("false");
        fs::create_dir(packages.join("stub")).unwrap();
        assert!(missing().is_none());
    }
}
