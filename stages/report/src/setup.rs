//! The start of a section on the environment: the few facts about each host, engine and server that a reader compares
//! first. The appendix has all facets.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Column, Table};
use contract::{AS_DECLARED, EngineSource};
use pipeline::stage::{Coordinates, Input, Json};

use crate::data::{Data, Miss};
use crate::environment::{Facets, STATE, Sides, flatten, ok, sides};

/// The prefix of the names of these tables; the stage follows.
pub(crate) const SETUP: &str = "setup-";

/// The fact that servers complete if the engine's definition does not state it.
const ENGINE_VERSION: &str = "Engine version";

/// The version in a definition that does not state one.
const UNKNOWN: &str = "unknown";

/// The items to report first, and for each the facets that provide it. The first existing facet is used.
const ITEMS: &[(&str, &[&str])] = &[
    ("Host", &["host.host", "server.facets.host"]),
    ("Processor", &["host.cpu_model", "server.facets.cpu_model"]),
    (
        "Logical cores",
        &["host.cpu_count", "server.facets.cpu_count"],
    ),
    (
        "Memory (GiB)",
        &["host.memory_gib", "server.facets.memory_gib"],
    ),
    ("GPUs", &["host.gpu_count"]),
    ("GPU", &["host.gpus", "host.gpus.0.name"]),
    ("GPU driver", &["host.gpu_driver"]),
    ("Operating system", &["host.os"]),
    ("Architecture", &["host.arch"]),
    (
        "Client processor",
        &["host.client_cpu_model", "server.facets.client_cpu_model"],
    ),
    (
        "Engine",
        &[
            "environment.engine.title",
            "environment.engine.name",
            "server.engine.title",
        ],
    ),
    (
        ENGINE_VERSION,
        &["environment.engine.version", "server.engine.version"],
    ),
    ("Interpreter", &["environment.software.python"]),
    ("Pinned packages", &["environment.software.notable"]),
    ("CUDA of torch", &["environment.software.cuda"]),
    ("Lock SHA-256", &["environment.software.lock"]),
    ("Container image", &["host.image", "server.facets.image"]),
    (
        "Image digest",
        &["host.image_digest", "server.facets.image_digest"],
    ),
    (
        "Container runtime",
        &["host.container_runtime", "server.facets.container_runtime"],
    ),
    (
        "Network of the container",
        &["host.container_network", "server.facets.container_network"],
    ),
    ("Engine package", &["environment.engine.packages.0.name"]),
    (
        "Package SHA-256",
        &["environment.engine.packages.0.files.0.sha256"],
    ),
    (
        "Model",
        &[
            "environment.model.title",
            "environment.model.name",
            "server.model.title",
        ],
    ),
    (
        "Draft model",
        &["environment.draft.title", "server.draft.title"],
    ),
    (
        "SHA-256 of the draft model",
        &["environment.draft.sha256", "server.draft.sha256"],
    ),
    (
        "Weights SHA-256",
        &["environment.model.sha256", "server.model.sha256"],
    ),
    ("API", &["server.api"]),
    ("Slots", &["server.limits.slots"]),
    (
        "Context per slot (tokens)",
        &["server.limits.context_per_slot"],
    ),
];

/// The row for the settings that differ from the engine's defaults.
const SETTINGS: &str = "Non-default settings";

/// Derives the table `commands` or `setup-STAGE`, if the name refers to it. It has a row per fact, a column per group
/// of cells that agree in all facets, and, with several groups, the state of the fact.
///
/// # Errors
/// If the stage does not exist, or a descriptor is not read yet.
pub(crate) fn table(name: &str, data: &Data) -> Result<Option<Table>, Miss> {
    if name == "commands" {
        return commands(data).map(Some);
    }
    let Some(stage) = name.strip_prefix(SETUP) else {
        return Ok(None);
    };
    let input = data.input(stage)?;
    let sides = sides(data, input)?;
    let defaults = defaults(data)?;
    let mut rows: Vec<FactRow> = Vec::new();
    for (item, keys) in ITEMS {
        let value = |facets: &Facets, key: &str| facets.get(key).filter(|v| is_stated(v)).cloned();
        let shared_key = keys
            .iter()
            .find(|key| sides.groups.iter().any(|(_, f)| value(f, key).is_some()));
        if let Some(key) = shared_key {
            let values = sides.groups.iter().map(|(_, f)| value(f, key)).collect();
            rows.push((
                (*item).to_owned(),
                values,
                sides.stands.get(*key).copied().unwrap_or("same"),
            ));
        }
    }
    mark_versions(&mut rows, &sides);
    complete_versions(&mut rows, data, input, &sides)?;
    rows.extend(facts_of_running(&sides));
    rows.extend(roles(&sides));
    let mut changed_settings = Vec::new();
    for (members, facets) in &sides.groups {
        let engine = engine_of(data, input, members[0])?;
        changed_settings.push(changed(facets, engine.as_deref(), &defaults));
    }
    if changed_settings.iter().any(Option::is_some) {
        // The most important states for a reader come first.
        let states = ["confound", "unmatched", "planned", "follows"];
        let of_settings = |state: &&&str| {
            sides
                .stands
                .iter()
                .any(|(key, s)| key.starts_with("server.settings.") && *s == **state)
        };
        let state = states.iter().find(of_settings).copied().unwrap_or("same");
        rows.push((SETTINGS.to_owned(), changed_settings, state));
    }
    let mut columns = vec![Column::text("fact", rows.iter().map(|r| Some(r.0.clone())))];
    for (at, title) in sides.titles(stage).into_iter().enumerate() {
        columns.push(Column::text(title, rows.iter().map(|r| r.1[at].clone())));
    }
    if sides.groups.len() > 1 {
        columns.push(Column::text("state", rows.iter().map(|r| Some(r.2))).describe(STATE));
    }
    let table = Table::with_metadata(columns, &[("keys", "fact")]);
    Ok(Some(table.map_err(|e| e.to_string())?))
}

/// A row of the table: the fact, its value on each side, and its state between them.
type FactRow = (String, Vec<Option<String>>, &'static str);

/// Marks the version of a running server as declared by the user.
fn mark_versions(rows: &mut [FactRow], sides: &Sides<'_>) {
    let Some((_, values, _)) = rows.iter_mut().find(|(item, ..)| item == ENGINE_VERSION) else {
        return;
    };
    let sources = ["environment.engine.source", "server.engine.source"];
    for (value, (_, facets)) in values.iter_mut().zip(&sides.groups) {
        let source = sources.iter().find_map(|key| facets.get(*key));
        let running = source.is_some_and(|source| source == EngineSource::Running.word());
        if let Some(version) = value.as_mut().filter(|v| running && *v != UNKNOWN) {
            version.push_str(AS_DECLARED);
        }
    }
}

/// Completes the versions of engines whose definitions do not state one, with what their servers reported.
fn complete_versions(
    rows: &mut [FactRow],
    data: &Data,
    input: &Input,
    sides: &Sides<'_>,
) -> Result<(), Miss> {
    let Some((_, values, state)) = rows.iter_mut().find(|(item, ..)| item == ENGINE_VERSION) else {
        return Ok(());
    };
    for (value, (members, _)) in values.iter_mut().zip(&sides.groups) {
        if value.as_deref() != Some(UNKNOWN) {
            continue;
        }
        let cell = ok(input).find(|cell| cell.coordinates == *members[0]);
        let environment = cell.and_then(|cell| cell.outputs.get("environment"));
        if let Some(environment) = environment {
            let environment = data.by_digest(&environment.digest)?;
            let reported = reported_versions(data, &environment)?;
            if !reported.is_empty() {
                let reported: Vec<String> = reported.into_iter().collect();
                *value = Some(reported.join(", "));
            }
        }
    }
    let stated = |value: &Option<String>| value.as_deref() != Some(UNKNOWN);
    if *state == "unknown" && values.iter().all(stated) {
        let engine = sides.stands.get("environment.engine.name");
        *state = match values.iter().collect::<BTreeSet<_>>().len() {
            0 | 1 => "same",
            _ if matches!(engine, Some(&("planned" | "follows"))) => "follows",
            _ => "confound",
        };
    }
    Ok(())
}

/// Returns the versions that servers of an environment reported.
fn reported_versions(data: &Data, environment: &Json) -> Result<BTreeSet<String>, Miss> {
    // A server repeats the engine and the facets of its environment, but not the definition.
    let mut engine = environment["engine"].clone();
    if let Some(engine) = engine.as_object_mut() {
        engine.remove("definition");
    }
    let mut versions = BTreeSet::new();
    for input in data.stages().iter().filter(|s| s.kind == "serve") {
        for artifact in ok(input).filter_map(|cell| cell.outputs.get("server")) {
            let server = data.by_digest(&artifact.digest)?;
            let roles = server["roles"].as_object().into_iter().flatten();
            let roles = roles.map(|(_, role)| &role["server"]);
            for server in roles.chain([&*server]) {
                let is_own =
                    server["engine"] == engine && server["facets"] == environment["facets"];
                let version = server["version"].as_str().filter(|v| *v != UNKNOWN);
                versions.extend(version.filter(|_| is_own).map(str::to_owned));
            }
        }
    }
    Ok(versions)
}

/// The facts about running servers: their key prefix, their title, and the text after their values.
const OF_RUNNING: [(&str, &str, &str); 4] = [
    ("host.declared.", "Host", AS_DECLARED),
    ("server.facets.declared.", "Host", AS_DECLARED),
    ("server.declared_settings.", "Setting", AS_DECLARED),
    ("server.probed.", "Reported by the server", ""),
];

/// Returns a row for each fact that the user declares about a server, or that the server reports.
fn facts_of_running(sides: &Sides<'_>) -> Vec<FactRow> {
    let keys: BTreeSet<&String> = sides.groups.iter().flat_map(|(_, f)| f.keys()).collect();
    let rows = keys.into_iter().filter_map(|key| {
        let (title, mark, name) = OF_RUNNING
            .iter()
            .find_map(|(part, title, mark)| Some((title, mark, key.strip_prefix(part)?)))?;
        let value = |facets: &Facets| facets.get(key).map(|value| format!("{value}{mark}"));
        let values = sides.groups.iter().map(|(_, f)| value(f)).collect();
        let state = sides.stands.get(key).copied().unwrap_or("same");
        Some((format!("{title}: {name}"), values, state))
    });
    rows.collect()
}

/// Returns a row for each role of a group of servers, with their number and engine.
fn roles(sides: &Sides<'_>) -> Vec<FactRow> {
    let name = |key: &String| {
        Some(
            key.strip_prefix("server.roles.")?
                .strip_suffix(".count")?
                .to_owned(),
        )
    };
    let names: BTreeSet<String> = sides
        .groups
        .iter()
        .flat_map(|(_, facets)| facets.keys().filter_map(name))
        .collect();
    let row = |name: String| {
        let key = |part: &str| format!("server.roles.{name}.{part}");
        let value = |facets: &Facets| {
            let facet = |part: &str| facets.get(&key(part)).map_or("", String::as_str);
            let loaded = facets.get("server.loaded_role") == Some(&name);
            let mark = if loaded { ", loaded" } else { "" };
            let (title, version) = (facet("server.engine.title"), facet("server.version"));
            let count = facets.get(&key("count"))?;
            Some(format!("{count} × {title} {version}{mark}"))
        };
        let values = sides.groups.iter().map(|(_, f)| value(f)).collect();
        let state = sides.stands.get(&key("count")).copied().unwrap_or("same");
        (format!("Role: {name}"), values, state)
    };
    names.into_iter().map(row).collect()
}

/// Whether a facet carries information, unlike an empty list of devices or an unknown driver.
fn is_stated(value: &str) -> bool {
    !matches!(value, "" | "null")
}

/// Returns the launch command of each server: the table `commands`.
fn commands(data: &Data) -> Result<Table, Miss> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for input in data.stages().iter().filter(|s| s.kind == "serve") {
        let sides = sides(data, input)?;
        let inherited = inherited(data, &input.stage)?;
        for (title, (_, facets)) in sides.titles(&input.stage).into_iter().zip(&sides.groups) {
            let parts =
                ["program", "arguments"].map(|part| facets.get(&format!("server.command.{part}")));
            let command: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
            // A running server has no command.
            if command.iter().any(|part| !part.is_empty()) {
                let variables = variables(facets, &inherited);
                let words = variables.iter().map(String::as_str).chain(command);
                rows.push([
                    input.stage.clone(),
                    title,
                    words.collect::<Vec<_>>().join(" "),
                ]);
            }
        }
    }
    let names = ["stage", "server", "command"];
    let column = |i: usize| Column::text(names[i], rows.iter().map(|r| Some(r[i].clone())));
    let table = Table::with_metadata((0..3).map(column).collect(), &[("keys", "stage,server")]);
    Ok(table.map_err(|e| e.to_string())?)
}

/// Returns the environment variables of a server's launch in shell syntax: those set with their values, and those
/// inherited as references. A possible secret is shown only by name.
fn variables(facets: &Facets, inherited: &BTreeSet<String>) -> Vec<String> {
    let facets_below = |part: &'static str| {
        facets
            .iter()
            .filter_map(move |(key, value)| Some((key.strip_prefix(part)?, value)))
    };
    let set: BTreeMap<&str, &String> = facets_below("server.command.environment.").collect();
    let inherited = inherited
        .iter()
        .filter(|name| !set.contains_key(name.as_str()));
    let set = set.iter().map(|(name, value)| {
        if is_secret(name) {
            return format!("{name}=…");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        match value.chars().all(plain) {
            true => format!("{name}={value}"),
            false => format!("{name}='{}'", value.replace('\'', r"'\''")),
        }
    });
    let inherited = inherited.map(|name| format!("{name}=\"${name}\""));
    set.chain(inherited).collect()
}

/// Returns the names of the variables that were set when a server inherited them, from the host in the provision stage
/// that it needs. If it needs several such stages, the server's own is unknown, and the result is empty.
fn inherited(data: &Data, stage: &str) -> Result<BTreeSet<String>, Miss> {
    let Ok(study) = data.study() else {
        return Ok(BTreeSet::new());
    };
    let needs = study.spec.pointer(&format!("/stages/{stage}/needs"));
    let needs = needs
        .and_then(|needs| needs.as_array())
        .into_iter()
        .flatten();
    let needs: Vec<&str> = needs.filter_map(|need| need.as_str()).collect();
    let is_needed =
        |input: &&Input| input.kind == "provision" && needs.contains(&input.stage.as_str());
    let mut provisions = data.stages().iter().filter(is_needed);
    let (Some(only), None) = (provisions.next(), provisions.next()) else {
        return Ok(BTreeSet::new());
    };
    let sides = sides(data, only)?;
    let facets = sides.groups.iter().flat_map(|(_, facets)| facets);
    let names = facets.filter(|(_, value)| is_stated(value));
    let names = names.filter_map(|(key, _)| key.strip_prefix("host.inherited."));
    Ok(names.map(str::to_owned).collect())
}

/// Whether the name of a variable suggests that its value is a secret. A value that is not shown costs little, so any such word in
/// the name counts.
fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
    let upper = name.to_ascii_uppercase();
    WORDS.iter().any(|word| upper.contains(word)) || pipeline::language::names_a_secret(name)
}

/// Returns the name of the engine that a cell's server runs; `None` for a cell that is no server.
fn engine_of(data: &Data, input: &Input, at: &Coordinates) -> Result<Option<String>, Miss> {
    let server = ok(input)
        .filter(|cell| cell.coordinates == *at)
        .find_map(|cell| cell.outputs.get("server"));
    let Some(server) = server else {
        return Ok(None);
    };
    let document = data.by_digest(&server.digest)?;
    Ok(document["engine"]["name"].as_str().map(str::to_owned))
}

/// Lists the settings of a server that differ from the defaults of its engine; `None` if it reports no settings.
fn changed(
    facets: &Facets,
    engine: Option<&str>,
    defaults: &BTreeMap<String, Facets>,
) -> Option<String> {
    let settings = facets
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("server.settings.")?, value)));
    let settings: Vec<(&str, &String)> = settings.collect();
    if settings.is_empty() {
        return None;
    }
    let default = engine.and_then(|engine| defaults.get(engine));
    let default = default.or_else(|| {
        if defaults.len() == 1 {
            defaults.values().next()
        } else {
            None
        }
    });
    let is_default = |key: &str, value: &String| {
        default.and_then(|d| d.get(&format!("{key}.default"))) == Some(value)
    };
    let apart: Vec<String> = settings
        .into_iter()
        .filter(|(key, value)| !is_default(key, value))
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    Some(if apart.is_empty() {
        "none".to_owned()
    } else {
        apart.join("; ")
    })
}

/// The settings that the engines' definitions declare, by engine.
fn defaults(data: &Data) -> Result<BTreeMap<String, Facets>, Miss> {
    let mut engines = BTreeMap::new();
    for cell in data
        .stages()
        .iter()
        .filter(|s| s.kind == "provision")
        .flat_map(ok)
    {
        let Some(artifact) = cell.outputs.get("environment") else {
            continue;
        };
        let document = data.by_digest(&artifact.digest)?;
        let engine = document.pointer("/engine/name").and_then(Json::as_str);
        let settings = document.pointer("/engine/definition/settings");
        if let (Some(engine), Some(settings)) = (engine, settings) {
            let mut flat = Facets::new();
            flatten("", settings, &mut flat);
            engines.insert(engine.to_owned(), flat);
        }
    }
    Ok(engines)
}
