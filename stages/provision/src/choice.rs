//! The engines and models that settings name, and whether an engine fits its environment.

use std::path::Path;

use engines::{Engine, Model, Program, Weights};
use pipeline::suggest::{closest, remedy};
use pipeline::{Json, Library, Problem, sources};
use places::Place;

use crate::settings::Named;
use crate::surroundings::EnvironmentRecipe;
use crate::venv;

/// Fits an engine to its environment: the pins determine its version. On this machine, the path of its program begins at the
/// experiment's folder.
pub(crate) fn fit(
    engine: &mut Named<Engine>,
    environment: Option<&EnvironmentRecipe>,
    place: Option<&Place>,
    library: &dyn Library,
) -> Option<Problem> {
    // The engine's names in registries affect nothing else.
    let distributions = std::mem::take(&mut engine.definition.distributions);
    let Some(environment) = environment else {
        return locate(engine, place, library);
    };
    let name = &engine.name;
    let venv = match environment {
        EnvironmentRecipe::Venv(venv) => venv,
        EnvironmentRecipe::Container(_) => {
            return contains(name, &engine.definition.launch.program);
        }
    };
    match &engine.definition.launch.program {
        Program::Installed(_)
        | Program::Python(_)
        | Program::Worker(_)
        | Program::WorkerFile(_) => {}
        Program::Packaged(_) => {
            let message = format!("the engine `{name}` has its own packages");
            let hint = "remove `environment`: Benchtrail fetches what the definition pins";
            return Some(Problem::at(&["environment"], message).hint(hint));
        }
        Program::Running(_) => {
            let message = format!("the engine `{name}` is already running");
            let hint = "remove `environment`, because Benchtrail does not start this engine";
            return Some(Problem::at(&["environment"], message).hint(hint));
        }
    }
    if let Some(version) = venv.version_of(&distributions) {
        engine.definition.version = version;
    }
    venv::not_pinned(venv, &distributions, name)
}

/// Makes the path of an installed program absolute, because it starts in a folder of the store. Returns a problem if the program
/// is on another machine, where the experiment's folder is not.
fn locate(
    engine: &mut Named<Engine>,
    place: Option<&Place>,
    library: &dyn Library,
) -> Option<Problem> {
    let Program::Installed(path) = &mut engine.definition.launch.program else {
        return None;
    };
    if !path.contains('/') || Path::new(path).is_absolute() {
        return None;
    }
    if place.is_some() {
        let message = format!(
            "the engine `{}` starts `{path}`, a path from the experiment's folder, which another machine does not have",
            engine.name
        );
        let hint = "write the absolute path that it has there in `launch.program.installed`";
        return Some(Problem::at(&["place"], message).hint(hint));
    }
    let whole = std::path::absolute(library.path(path));
    if let Some(whole) = whole.as_deref().ok().and_then(Path::to_str) {
        whole.clone_into(path);
    }
    None
}

/// Returns a problem if an engine does not define how it takes a draft model.
pub(crate) fn takes_no_draft(engine: &Named<Engine>) -> Option<Problem> {
    if !engine.definition.launch.draft_arguments.is_empty() {
        return None;
    }
    let message = format!(
        "the definition of the engine `{}` does not say how to pass a draft model",
        engine.name
    );
    let hint = "extend it with `launch: {draft-arguments: […, \"{draft}\"]}`; docs/engines.md has them for several engines";
    Some(Problem::at(&["draft"], message).hint(hint))
}

/// Returns whether an engine loads weights only from a file.
fn loads_files(name: &str, engine: &Engine) -> bool {
    let mut shipped = engines::shipped().into_iter();
    engine.needs_weights_file && shipped.any(|one| one.collection == "engines" && one.name == name)
}

fn no_file(engine: &str, id: &str) -> String {
    format!("the engine `{engine}` loads weights from a GGUF file, and `{id}` is not one")
}

/// Returns a problem if the id of a hub stands for a model, but the engine loads weights only from a file.
pub(crate) fn takes_no_hub(
    engine: &Named<Engine>,
    name: &str,
    library: &dyn Library,
) -> Option<Problem> {
    let is_id = name.contains('/') && !is_weights_file(name) && !name.contains("://");
    if !is_id
        || library.find("models", name).is_some()
        || !loads_files(&engine.name, &engine.definition)
    {
        return None;
    }
    let hint = "define its file under `models:`, for example `served: {title: Served, weights: {local: {path: FILE.gguf, \
                sha256: SHA256}}}`, and write `model: served`; or choose an engine that loads ids from a hub, such as `vllm` \
                or `sglang`";
    Some(Problem::at(&["model"], no_file(&engine.name, name)).hint(hint))
}

/// Returns a problem if an engine loads weights only from a file, and the model is an id.
pub(crate) fn takes_no_id(name: &str, engine: &Engine, model: &Model) -> Option<Problem> {
    let Weights::Named(named) = &model.weights else {
        return None;
    };
    if !loads_files(name, engine) || named.id.ends_with(".gguf") {
        return None;
    }
    let message = no_file(name, &named.id);
    let hint = "name a file: `weights: {local: {path: FILE.gguf, sha256: SHA256}}`; or choose an engine that loads ids from a \
                hub, such as `vllm` or `sglang`";
    Some(Problem::at(&["model"], message).hint(hint))
}

/// Returns a problem if an engine cannot run in a container.
pub(crate) fn contains(name: &str, program: &Program) -> Option<Problem> {
    let (message, hint) = match program {
        Program::Running(_) => (
            format!("the engine `{name}` is already running"),
            "remove `environment`, because Benchtrail does not start this engine",
        ),
        Program::Worker(_) | Program::WorkerFile(_) => (
            format!(
                "the engine `{name}` is a worker without a server, which cannot run in a container"
            ),
            "use a `venv`, or an engine with a server",
        ),
        Program::Packaged(_) | Program::Python(_) | Program::Installed(_) => return None,
    };
    Some(Problem::at(&["environment"], message).hint(hint))
}

/// Finds and reads an engine and all engines that stand in for it. Help texts are left out because
/// they decide nothing. Certificates are named by their digest.
pub(crate) fn engine_chain(
    name: &str,
    library: &dyn Library,
    problems: &mut Vec<Problem>,
) -> Vec<Named<Engine>> {
    let mut chain: Vec<Named<Engine>> = Vec::new();
    let mut next = Some(name.to_owned());
    while let Some(name) = next {
        if chain.iter().any(|e| e.name == name) {
            problems.push(
                Problem::at(
                    &["engine"],
                    format!("the engine `{name}` is its own fallback"),
                )
                .hint("remove one `fallback` from the circle"),
            );
            break;
        }
        let Some(mut definition) = find(
            library,
            "engines",
            "engine",
            &name,
            Engine::from_json,
            problems,
        ) else {
            break;
        };
        for setting in definition.settings.values_mut() {
            setting.help = None;
            setting.ran_on = None;
        }
        definition.untested = None;
        definition.prompt_cache = None;
        if let Some(file) = definition.launch.ca_file.take() {
            match sources::pin(library, &file) {
                Ok(source) => definition.launch.ca_file = Some(source.digest.to_string()),
                Err(e) => {
                    let message = format!("the `ca-file` of the engine `{name}`: {}", e.message);
                    problems.push(Problem::at(&["engine"], message).hint(e.hint));
                }
            }
        }
        if let Program::WorkerFile(file) = &definition.launch.program {
            let read = sources::read(library, file).map_err(|e| (e.message, e.hint));
            let text = read.and_then(|(_, bytes)| {
                let not_text = |_| {
                    (
                        format!("{file} is not UTF-8"),
                        "correct the path".to_owned(),
                    )
                };
                String::from_utf8(bytes).map_err(not_text)
            });
            match text {
                Ok(text) => definition.launch.program = Program::Worker(text),
                Err((message, hint)) => {
                    let message = format!("the worker of the engine `{name}`: {message}");
                    problems.push(Problem::at(&["engine"], message).hint(hint));
                }
            }
        }
        next = definition.fallback.clone();
        chain.push(Named { name, definition });
    }
    chain
}

/// Returns whether a name is that of a file or folder of weights.
fn is_weights_file(name: &str) -> bool {
    let endings = [".gguf", ".safetensors", ".bin", ".pt"];
    let starts = ["./", "../", "/", "~/"];
    endings.iter().any(|ending| name.ends_with(ending))
        || starts.iter().any(|s| name.starts_with(s))
}

/// Returns the collection that a name may belong to if it is in the wrong place.
fn other_collection(collection: &str) -> &'static str {
    match collection {
        "engines" => "models",
        _ => "engines",
    }
}

/// Returns the name before a version: `vllm` for `vllm==0.9.1`, `vllm@0.9.1` and `vllm:latest`.
fn before_version(name: &str) -> Option<&str> {
    name.find(['=', '@', ':', '~', '>', '<', ' '])
        .map(|at| &name[..at])
}

pub(crate) fn find<T>(
    library: &dyn Library,
    collection: &str,
    key: &str,
    name: &str,
    read: fn(&Json) -> Result<T, Vec<Problem>>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let Some(json) = library.find(collection, name) else {
        let names = library.names(collection);
        let names = || names.iter().map(String::as_str);
        let near = remedy(name, collection, names());
        let hint = match closest(name, names()) {
            Some(_) => near,
            None if library.find(other_collection(collection), name).is_some() => {
                format!(
                    "`{name}` is one of the {}: did you exchange the two?",
                    other_collection(collection)
                )
            }
            None if before_version(name).is_some_and(|plain| names().any(|n| n == plain)) => {
                let plain = before_version(name).unwrap_or_default();
                format!(
                    "write `{plain}`: its version is what the machine has, or the one that `environment:` installs"
                )
            }
            None if collection == "engines" && name.contains("://") => format!(
                "an engine is what Benchtrail starts; for a server that runs already, `benchtrail init --from-url {name}` writes a study"
            ),
            None if collection == "models" && is_weights_file(name) => format!(
                "define it under `models:`, for example `served: {{title: Served, weights: {{local: {{path: {name}, sha256: \"…\"}}}}}}`, \
                 and write `model: served`; {near}"
            ),
            // An id of a hub, for engines that load models themselves.
            None if collection == "models" && name.contains('/') => format!(
                "define it under `models:`, for example `served: {{title: Served, weights: {{named: {{id: {name}}}}}}}`, and write \
                 `model: served`; {near}"
            ),
            None => format!(
                "{near}; define another one under `{collection}:`, or in {collection}/NAME.yaml beside the experiment"
            ),
        };
        problems.push(Problem::at(&[key], format!("unknown {key} `{name}`")).hint(hint));
        return None;
    };
    match read(&json) {
        Ok(definition) => Some(definition),
        Err(inner) => {
            let in_definition = |problem: Problem| problem.in_definition(collection, name);
            problems.extend(inner.into_iter().map(in_definition));
            None
        }
    }
}
