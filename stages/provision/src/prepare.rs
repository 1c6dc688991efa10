//! Prepares the program and the weights, so that a server can be started from them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engines::{Engine, Model, Program, Weights};
use pipeline::{Failure, Job};
use places::PACKAGES;

use crate::container::{self, Ready};
use crate::environment::{LAUNCHER, Recipe};
use crate::machine::Machine;
use crate::probe;
use crate::settings::{Choice, Named, Parameters};
use crate::venv::{self, Installed};
use crate::weights;

/// The time in which an installed program must print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(60);

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
        Some(recipe.prepare(job.store.root(), &python, job.control)?)
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
        let program = contained(&choice.engine.name, engine, &ready)?;
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
fn contained(name: &str, engine: &Engine, ready: &Ready) -> Result<Vec<String>, Failure> {
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
                ready.answer(&command).map_err(|e| e.to_string())
            };
            check_version_with(name, engine, program, "the image", &ask)?;
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
            check_version(name, engine, &path, from.venv.is_some())?;
            Ok(vec![text(&path)?])
        }
        Program::WorkerFile(_) | Program::Running(_) => Ok(Vec::new()),
    }
}

/// Checks that the declared version is installed, because the version is part of every key.
fn check_version(name: &str, engine: &Engine, path: &Path, brought: bool) -> Result<(), Failure> {
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(path);
        command.args(arguments);
        if brought {
            engines::KEPT_OUT.iter().for_each(|name| {
                command.env_remove(name);
            });
        }
        Ok(probe::answer(command, VERSION_LIMIT)?)
    };
    let shown = path.display().to_string();
    check_version_with(name, engine, &shown, "it", &ask)
}

/// Asks a program for its version; `place` names where the program was found.
fn check_version_with(
    name: &str,
    engine: &Engine,
    path: &str,
    place: &str,
    ask: &dyn Fn(&[&str]) -> Result<String, String>,
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
    let said = ask(&arguments).map_err(|why| {
        let failure = Failure::failed(format!(
            "cannot read the version of {}: {why}",
            engine.title
        ));
        failure.hint(match place {
            "it" => format!(
                "is it installed where `{path}` looks? See what `{path} {}` says",
                shell_words(&arguments)
            ),
            place => format!(
                "does {place} provide `{path}`? `launch.program.installed` names another program"
            ),
        })
    })?;
    if contains_version(&said, &engine.version) {
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

/// Returns whether a text contains this version, and not only a longer one that contains it.
fn contains_version(text: &str, version: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '+';
    text.match_indices(version).any(|(at, matched)| {
        let before = text[..at].chars().next_back();
        let after = text[at + matched.len()..].chars().next();
        // `v1.2` is version 1.2, and a sentence may end after it.
        !before.is_some_and(|c| c.is_ascii_digit() || c == '.')
            && !after.is_some_and(|c| is_part(c) && c != '.')
            && !text[at + matched.len()..]
                .strip_prefix('.')
                .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
    })
}

pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::failed(format!("the path {} is not Unicode", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_whole() {
        for said in ["0.32.0", "vllm v0.32.0\n", "version 0.32.0.", "(0.32.0)"] {
            assert!(contains_version(said, "0.32.0"), "{said}");
        }
        for said in [
            "10.32.0",
            "0.32.01",
            "0.32.0.1",
            "0.32.0rc1",
            "0.32.0+cpu",
            "",
        ] {
            assert!(!contains_version(said, "0.32.0"), "{said}");
        }
    }

    fn installed(version: &str) -> Engine {
        Engine::from_json(&serde_json::json!({
            "title": "Shell", "version": version,
            "launch": {
                "program": {"installed": "sh"}, "arguments": ["{port}"],
                "version-arguments": ["-c", "echo shell 5.1.2"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn an_installed_engine_must_be_the_version_declared() {
        let machine = Machine::here();
        let check = |version| {
            let engine = installed(version);
            let from = Programs {
                packages: None,
                venv: None,
                python: "python3".into(),
                machine,
            };
            program("shell", &engine, &from)
        };
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
