//! The descriptor of a server: what it is, and nothing of this one run.

use std::collections::BTreeMap;

use engines::{Engine, Program, template};
use pipeline::Json;
use serde_json::json;

/// Returns the `server` document. `environment` is what the provision stage described.
pub(crate) fn describe(
    environment: &Json,
    engine: &Engine,
    model_name: &str,
    settings: &BTreeMap<String, Json>,
    limits: &BTreeMap<String, Json>,
) -> Json {
    let mut identity = environment["engine"].clone();
    // The definition is in the environment's own document; what follows from it is below.
    if let Some(map) = identity.as_object_mut() {
        map.shift_remove("definition");
    }
    let command = template(engine, settings, model_name);
    json!({
        "engine": identity,
        "version": engine.version,
        "api": engine.api,
        "endpoints": engine.endpoints,
        "model": environment["model"],
        "model_name": model_name,
        "settings": settings,
        "command": {
            "program": program(&engine.launch.program),
            "arguments": command.arguments,
            "environment": command.environment,
        },
        "limits": limits,
        "facets": environment["facets"],
    })
}

fn program(program: &Program) -> Vec<String> {
    match program {
        Program::Packaged(path) => vec![format!("{{packages}}/{path}")],
        Program::Python(_) => vec![
            "python3".into(),
            "-I".into(),
            "-B".into(),
            "{launcher}".into(),
        ],
        Program::Installed(name) => vec![name.clone()],
        Program::Running(_) => Vec::new(),
    }
}
