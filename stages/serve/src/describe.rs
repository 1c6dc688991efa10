//! The descriptor of a server: its identity, without anything from this one run.

use std::collections::BTreeMap;

use contract::{EngineIdentity, Environment, ServerCommand, ServerDescriptor};
use engines::{Drafts, Engine, Program, files_named, template, texts_of};
use pipeline::Json;

use crate::probe::{UNKNOWN, VERSION};

/// Returns the `server` document. `environment` is the provision stage's description.
pub(crate) fn describe(
    environment: &Environment,
    engine: &Engine,
    model_name: &str,
    settings: &BTreeMap<String, Json>,
    limits: &BTreeMap<String, Json>,
    probed: &BTreeMap<String, Json>,
) -> ServerDescriptor {
    let revision = environment.model.weights.revision_to_resolve();
    let drafts = drafts(environment);
    let command = template(engine, settings, model_name, revision, drafts);
    ServerDescriptor {
        // The full definition is in the environment's own document; its consequences follow below.
        engine: EngineIdentity {
            definition: None,
            ..environment.engine.clone()
        },
        version: version(engine, probed),
        api: engine.api,
        endpoints: engine.endpoints.clone(),
        counters: engine.counters.clone(),
        model: environment.model.clone(),
        draft: environment.draft.clone(),
        model_name: model_name.to_owned(),
        settings: settings.clone(),
        command: ServerCommand {
            program: program(&engine.launch.program),
            arguments: command.arguments,
            environment: command.environment,
        },
        files: files(environment, settings),
        limits: limits.clone(),
        probed: probed.clone(),
        declared_settings: engine.facts.settings.clone(),
        facets: environment.facets.clone(),
        loaded_role: None,
        roles: BTreeMap::new(),
    }
}

/// Returns what identifies the files of this machine that the settings name.
fn files(environment: &Environment, settings: &BTreeMap<String, Json>) -> BTreeMap<String, Json> {
    match reads_files_here(environment) {
        true => files_named(settings.values().flat_map(texts_of)),
        false => BTreeMap::new(),
    }
}

/// Returns whether a path that the engine gets names a file of this machine. In a container and on another host, it names
/// another file.
pub(crate) fn reads_files_here(environment: &Environment) -> bool {
    let elsewhere = ["reached", "image"];
    let facets = &environment.facets;
    !elsewhere.iter().any(|facet| facets.contains_key(*facet))
}

/// Returns whether an environment has a draft model.
pub(crate) fn drafts(environment: &Environment) -> Drafts {
    match environment.draft {
        Some(_) => Drafts::Yes,
        None => Drafts::No,
    }
}

/// Returns the version; asks the server if the definition does not state it.
fn version(engine: &Engine, probed: &BTreeMap<String, Json>) -> String {
    let reported = probed.get(VERSION).and_then(Json::as_str);
    match reported {
        Some(version) if engine.version == UNKNOWN => version.to_owned(),
        _ => engine.version.clone(),
    }
}

fn program(program: &Program) -> Vec<String> {
    match program {
        Program::Packaged(path) => vec![format!("{{packages}}/{path}")],
        Program::Python(_) | Program::Worker(_) | Program::WorkerFile(_) => vec![
            "python3".into(),
            "-I".into(),
            "-B".into(),
            "{launcher}".into(),
        ],
        Program::Installed(name) => vec![name.clone()],
        Program::Running(_) => Vec::new(),
    }
}
