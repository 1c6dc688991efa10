//! Prepares the program and the weights, so that a server can be started from them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use engines::{
    Engine, Model, Program, Weights, prepare_environment, set_for_version, states_version,
};
use pipeline::{Control, Failure, Job};
use places::PACKAGES;
use rustix::io::Errno;

use crate::container::{self, Ready};
use crate::environment::{LAUNCHER, Recipe};
use crate::machine::Machine;
use crate::probe::{self, Unanswered};
use crate::settings::{Choice, Named, Parameters};
use crate::venv::{self, Installed};
use crate::weights;

/// The time in which an installed program must print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// The program that starts files which the kernel does not.
const SHELL: &str = "/bin/sh";

/// The locations of the prepared files.
pub(crate) struct Prepared {
    /// The program and its first arguments; empty for a running server.
    pub(crate) program: Vec<String>,
    /// The folder of the unpacked packages, if any.
    pub(crate) packages: Option<String>,
    /// The path or id of the weights.
    pub(crate) model: String,
    /// The path or id of the draft model's weights.
    pub(crate) draft: Option<String>,
    /// The environment built from the study's pins.
    pub(crate) venv: Option<Installed>,
    /// The engine's container; paths are then those inside it.
    pub(crate) container: Option<Ready>,
    /// Warnings.
    pub(crate) warnings: Vec<String>,
}

/// Fetches, unpacks and checks everything that the engine and the model need.
pub(crate) fn prepare(
    choice: &Choice<'_>,
    parameters: &Parameters,
    machine: &Machine,
    job: &Job<'_>,
) -> Result<Prepared, Failure> {
    let engine = &choice.engine.definition;
    // Without its key the server is unusable, so do not fetch anything.
    engine.launch.api_key()?;
    // If it is missing, running it reports that.
    let python = machine
        .program("python3")
        .unwrap_or_else(|| PathBuf::from("python3"));
    let launcher = match &engine.launch.program {
        Program::Python(text) | Program::Worker(text) => Some(text.as_str()),
        _ => None,
    };
    let packages = if engine.packages.is_empty() && launcher.is_none() {
        None
    } else {
        let recipe = Recipe::new(&engine.packages).launcher(launcher);
        Some(recipe.prepare(job.store.root(), &python, job.control, job.leases)?)
    };
    let mut warnings = Vec::new();
    // Weights first: finding them takes seconds, building an environment takes minutes.
    let starts = !matches!(engine.launch.program, Program::Running(_));
    let model = weights::find((&parameters.model, starts), &python, job, &mut warnings)?;
    let draft = parameters
        .draft
        .as_ref()
        .map(|draft| weights::find((draft, starts), &python, job, &mut warnings))
        .transpose()?;
    let venv = parameters
        .venv()
        .map(|recipe| venv::prepare(recipe, machine, job))
        .transpose()?;
    if let Some(recipe) = parameters.container() {
        let mut ready = container::prepare(recipe, machine, job, &mut warnings)?;
        let folder = packages.as_deref().map(text).transpose()?;
        let packages = folder.map(|folder| ready.mount_packages(&folder));
        let mut mounted =
            |model: &Named<Model>, path: String, place: &str| match &model.definition.weights {
                Weights::Named(_) => Ok(path),
                Weights::Packaged(_) | Weights::Local(_) => ready.mount_weights(&path, place),
            };
        let model = mounted(&parameters.model, model, "model")?;
        let draft = match (&parameters.draft, draft) {
            (Some(model), Some(path)) => Some(mounted(model, path, "draft")?),
            _ => None,
        };
        let program = contained(&choice.engine.name, engine, &ready, packages.as_deref())?;
        return Ok(Prepared {
            program,
            packages,
            model,
            draft,
            venv: None,
            container: Some(ready),
            warnings,
        });
    }
    let from = Programs {
        packages: packages.as_deref(),
        venv: venv.as_ref().map(|venv| venv.folder.as_path()),
        python: match &venv {
            Some(venv) => venv.folder.join("bin/python"),
            None => python,
        },
        machine,
        scratch: job.scratch,
        control: job.control,
    };
    let program = program(&choice.engine.name, engine, &from)?;
    let packages = packages.as_deref().map(text).transpose()?;
    Ok(Prepared {
        program,
        packages,
        model,
        draft,
        venv,
        container: None,
        warnings,
    })
}

/// Returns the program of an engine that runs in a container, as it is named inside.
fn contained(
    name: &str,
    engine: &Engine,
    ready: &Ready,
    packages: Option<&str>,
) -> Result<Vec<String>, Failure> {
    match &engine.launch.program {
        Program::Packaged(path) => Ok(vec![format!("{PACKAGES}/{path}")]),
        Program::Python(_) | Program::Worker(_) => {
            let launcher = format!("{PACKAGES}/{LAUNCHER}");
            Ok(vec!["python3".into(), "-I".into(), "-B".into(), launcher])
        }
        Program::Installed(program) => {
            let ask = |arguments: &[&str]| {
                let command: Vec<&str> = std::iter::once(program.as_str())
                    .chain(arguments.iter().copied())
                    .collect();
                let set = set_for_version(engine, packages);
                let answer = ready.answer(&command, &set, &engine.launch.inherit);
                answer.map_err(|e| NoVersion {
                    why: e.to_string(),
                    hint: format!(
                        "does the image provide `{program}`? `launch.program.installed` names another program"
                    ),
                })
            };
            check_version_with(name, engine, program, &ask)?;
            Ok(vec![program.clone()])
        }
        Program::WorkerFile(_) | Program::Running(_) => Ok(Vec::new()),
    }
}

/// The sources of programs.
struct Programs<'a> {
    packages: Option<&'a Path>,
    venv: Option<&'a Path>,
    python: PathBuf,
    machine: &'a Machine,
    /// The folder in which a program is asked for its version.
    scratch: &'a Path,
    control: &'a Control,
}

impl Programs<'_> {
    /// Returns the path of an installed program. If there is an environment, only that is searched.
    fn installed(&self, file: &str) -> Result<PathBuf, Failure> {
        let Some(venv) = self.venv else {
            let missing =
                || Failure::failed(format!("the program `{file}` is not on the search path"));
            return self.machine.program(file).ok_or_else(missing);
        };
        let path = venv.join("bin").join(file);
        if path.is_file() {
            return Ok(path);
        }
        let message = format!(
            "the definition launches `{file}`, but the packages of the venv do not contain it"
        );
        Err(Failure::failed(message).hint("pin the package that has this program"))
    }
}

fn program(name: &str, engine: &Engine, from: &Programs<'_>) -> Result<Vec<String>, Failure> {
    let inside = |name: &str| {
        let path = from.packages.unwrap_or(Path::new("")).join(name);
        if path.is_file() {
            return text(&path);
        }
        Err(Failure::failed(format!(
            "the definition launches `{name}`, but the packages do not contain it"
        )))
    };
    match &engine.launch.program {
        Program::Packaged(path) => Ok(vec![inside(path)?]),
        // Isolated, because neither the user's packages nor the working folder may change what
        // runs.
        Program::Python(_) | Program::Worker(_) => Ok(vec![
            text(&from.python)?,
            "-I".into(),
            "-B".into(),
            inside(LAUNCHER)?,
        ]),
        Program::Installed(file) => {
            let path = from.installed(file)?;
            check_version(name, engine, &path, from)?;
            Ok(vec![text(&path)?])
        }
        Program::WorkerFile(_) | Program::Running(_) => Ok(Vec::new()),
    }
}

/// Returns whether a file was not started because it is neither a binary for this machine nor a script with `#!`, such as a
/// llamafile.
fn has_no_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// A program did not say its version.
struct NoVersion {
    why: String,
    hint: String,
}

/// Checks that the declared version is installed, because the version is part of every key. The program sees the variables of
/// the engine, and runs in a folder of the store as the engine does: with others, it could be another version.
fn check_version(
    name: &str,
    engine: &Engine,
    path: &Path,
    from: &Programs<'_>,
) -> Result<(), Failure> {
    let shown = path.display().to_string();
    let packages = from.packages.and_then(Path::to_str);
    let set = set_for_version(engine, packages);
    let start = |program: &Path| -> io::Result<Command> {
        fs::create_dir_all(from.scratch)?;
        let mut command = Command::new(program);
        prepare_environment(&mut command, path, &engine.launch.inherit, from.venv)?;
        command.envs(&set).current_dir(from.scratch);
        Ok(command)
    };
    let answer =
        |command| probe::answer_while(command, VERSION_LIMIT, || from.control.check().is_ok());
    let ask = |arguments: &[&str]| {
        let words = shell_words(arguments);
        let wrong = |why: String| NoVersion {
            why,
            hint: format!(
                "is it installed where `{shown}` looks? See what `{shown} {words}` says; \
                 Benchtrail passes only the variables that the engine gets"
            ),
        };
        let mut command = start(path).map_err(|e| wrong(e.to_string()))?;
        command.args(arguments);
        let said = match answer(command) {
            // The engine starts through `execvp`, which leaves such files to a shell.
            Err(Unanswered::NotStarted { error, .. }) if has_no_format(&error) => {
                let mut command = start(Path::new(SHELL)).map_err(|e| wrong(e.to_string()))?;
                command.arg(path).args(arguments);
                answer(command)
            }
            said => said,
        };
        said.map_err(|unanswered| wrong(unanswered.to_string()))
    };
    let checked = check_version_with(name, engine, &shown, &ask);
    // A program that was stopped said nothing.
    from.control.check()?;
    checked
}

/// Asks a program for its version.
fn check_version_with(
    name: &str,
    engine: &Engine,
    path: &str,
    ask: &dyn Fn(&[&str]) -> Result<String, NoVersion>,
) -> Result<(), Failure> {
    let arguments: Vec<&str> = engine
        .launch
        .version_arguments
        .iter()
        .map(String::as_str)
        .collect();
    if arguments.is_empty() {
        return Ok(());
    }
    let said = ask(&arguments).map_err(|NoVersion { why, hint }| {
        let title = &engine.title;
        Failure::failed(format!("cannot read the version of {title}: {why}")).hint(hint)
    })?;
    if states_version(&said, &engine.version) {
        return Ok(());
    }
    if said.trim().is_empty() {
        let message = format!("{} is not installed where `{path}` looks", engine.title);
        return Err(Failure::failed(message).hint(format!(
            "install it there, or name the program that has it: \
             `engines: {{my-{name}: {{extends: {name}, launch: {{program: {{installed: /path/to/venv/bin/python3}}}}}}}}`"
        )));
    }
    let message = format!(
        "{} {} is declared, but the installed program reports `{}`",
        engine.title,
        engine.version,
        said.trim().lines().next_back().unwrap_or("nothing")
    );
    let hint = match version_in(&said) {
        Some(version) => format!(
            "to measure the version you have, add these lines to the experiment and write \
             `engine: my-{name}`:\nengines:\n  my-{name}:\n    extends: {name}\n    version: {version:?}"
        ),
        None => "declare the version you have in the engine's definition (`extends:`)".to_owned(),
    };
    Err(Failure::failed(message).hint(hint))
}

/// Quotes arguments for a shell.
fn shell_words(arguments: &[&str]) -> String {
    let word = |word: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=".contains(c);
        match word.chars().all(plain) {
            true => (*word).to_owned(),
            false => format!("\"{word}\""),
        }
    };
    arguments.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the last text that looks like a version: digits, a dot, digits, and what follows.
fn version_in(text: &str) -> Option<&str> {
    let part = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    let words = text.split(|c: char| !part(c)).rev();
    words
        .map(|word| word.trim_start_matches('v').trim_end_matches(['.', '-']))
        .find(|word| {
            let mut numbers = word.split('.');
            let mut number = || {
                numbers
                    .next()
                    .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
            };
            number() && number()
        })
}

pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::failed(format!("the path {} is not Unicode", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(version: &str, script: &str) -> Engine {
        Engine::from_json(&serde_json::json!({
            "title": "Shell", "version": version,
            "launch": {
                "program": {"installed": "sh"}, "arguments": ["{port}"],
                "environment": {"ADDRESS": "{host}:{port}"},
                "version-arguments": ["-c", script],
            },
        }))
        .unwrap()
    }

    fn check(engine: &Engine, scratch: &Path) -> Result<Vec<String>, Failure> {
        let from = Programs {
            packages: None,
            venv: None,
            python: "python3".into(),
            machine: Machine::here(),
            scratch,
            control: &Control::quiet(),
        };
        program("shell", engine, &from)
    }

    #[test]
    fn an_installed_engine_must_be_the_version_declared() {
        let folder = tempfile::tempdir().unwrap();
        let check = |version| check(&installed(version, "echo shell 5.1.2"), folder.path());
        assert!(check("5.1.2").is_ok());
        let failure = check("5.1").unwrap_err();
        assert_eq!(
            failure.reason,
            "Shell 5.1 is declared, but the installed program reports `shell 5.1.2`"
        );
        assert_eq!(
            failure.hint.unwrap(),
            "to measure the version you have, add these lines to the experiment and write \
             `engine: my-shell`:\nengines:\n  my-shell:\n    extends: shell\n    version: \"5.1.2\""
        );
    }

    #[test]
    fn a_program_is_asked_for_its_version_with_the_variables_and_the_folder_of_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().canonicalize().unwrap().join("scratch");
        let script = "echo 5.1.2 $ADDRESS $PWD";
        let failure = check(&installed("9.9.9", script), &scratch).unwrap_err();
        let said = format!("`5.1.2 127.0.0.1:1 {}`", scratch.display());
        assert!(failure.reason.ends_with(&said), "{failure}");
        // Cargo sets many variables for the test itself.
        let script = "if env | grep -q ^CARGO_; then echo leaked; else echo 5.1.2; fi";
        assert!(check(&installed("5.1.2", script), &scratch).is_ok());
    }

    #[test]
    fn a_program_that_only_a_shell_starts_says_its_version() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server");
        // Without a first line `#!`, as a llamafile.
        fs::write(&path, "echo \"5.1.2 $1 $ADDRESS\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut engine = installed("5.1.2", "");
        engine.launch.program = Program::Installed(text(&path).unwrap());
        assert!(check(&engine, folder.path()).is_ok());
        engine.version = "5.1.3".to_owned();
        let failure = check(&engine, folder.path()).unwrap_err();
        assert!(
            failure.reason.ends_with("`5.1.2 -c 127.0.0.1:1`"),
            "{failure}"
        );
    }

    #[test]
    fn the_last_version_in_a_text_is_found() {
        for (said, version) in [
            ("0.5.12.post1\n", Some("0.5.12.post1")),
            ("GNU bash, version v5.2.15(1)-release.", Some("5.2.15")),
            ("build 1, commit 7e4c0a9", None),
            ("2.0.1+cu130 (python 3)", Some("2.0.1+cu130")),
        ] {
            assert_eq!(version_in(said), version, "{said}");
        }
    }
}
