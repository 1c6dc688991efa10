//! What a cell was measured with, as comparable paths and values.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::json::{leaves, plain};
use contract::{AS_DECLARED, DECLARED, EngineSource, OF_ENGINE};
use pipeline::Json;
use serde_json::json;

use crate::sent_prompts;
use crate::study::Cell;

/// Every facet, in the order of the table.
pub(crate) const FACETS: [&str; 10] = [
    "source",
    "prompts",
    "prompt-tokens",
    "load",
    "cache",
    "client",
    "host",
    "model",
    "engine",
    "settings",
];

/// The facets of a server itself, whatever its settings.
pub(crate) const OF_SERVERS: [&str; 3] = ["host", "model", "engine"];

/// The contents of a cell's facet: values by path; `None` if unknown.
pub(crate) type Values = Option<BTreeMap<String, String>>;

/// Returns the contents of a cell's facet, including those of every role if a group of servers was loaded.
pub(crate) fn values(cell: &Cell<'_>, facet: &str) -> Values {
    let descriptor = cell.server.as_ref().map(|s| &s.descriptor);
    let mut all = of(cell, descriptor, facet)?;
    let roles = descriptor.and_then(|d| d["roles"].as_object());
    if !OF_SERVERS.contains(&facet) && facet != "settings" {
        return Some(all);
    }
    for (name, role) in roles.into_iter().flatten() {
        // If it is unknown for one member, it is unknown for the group.
        let of_role = of(cell, Some(&role["server"]), facet)?;
        let below = |(path, value): (String, String)| (format!("{name}.{path}"), value);
        all.extend(of_role.into_iter().map(below));
        if facet == "settings" {
            all.insert(format!("{name}.count"), plain(&role["count"]));
            all.extend(
                flat(&role["gpus"])
                    .into_iter()
                    .map(|(path, gpus)| (format!("{name}.gpus.{path}"), gpus)),
            );
        }
    }
    Some(all)
}

/// Removes from the contents of a facet the roles that only one of two cells has, if a server of the other cell has the same
/// contents: a further server on the same host is a difference in settings, not in the host.
pub(crate) fn without_further_roles(sides: [(&Cell<'_>, &mut Values); 2]) {
    let [(a, of_a), (b, of_b)] = sides;
    let (Some(of_a), Some(of_b)) = (of_a, of_b) else {
        return;
    };
    let (roles_a, roles_b) = (roles(a), roles(b));
    let further_of_a = further([&roles_a, &roles_b], [of_a, of_b]);
    let further_of_b = further([&roles_b, &roles_a], [of_b, of_a]);
    of_a.retain(|path, _| !is_below(path, &further_of_a));
    of_b.retain(|path, _| !is_below(path, &further_of_b));
}

/// Returns the names of the roles of the group that a cell loaded; none for a single server.
pub(crate) fn roles(cell: &Cell<'_>) -> BTreeSet<String> {
    let roles = cell
        .server
        .as_ref()
        .and_then(|s| s.descriptor["roles"].as_object());
    roles
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .cloned()
        .collect()
}

fn is_below(path: &str, roles: &BTreeSet<&String>) -> bool {
    let role = path.split_once('.').map(|(role, _)| role);
    role.is_some_and(|role| roles.iter().any(|name| *name == role))
}

/// Returns the roles of a cell that the other cell lacks, and whose contents are those of one of its servers.
fn further<'r>(
    [own, others]: [&'r BTreeSet<String>; 2],
    [values, others_values]: [&BTreeMap<String, String>; 2],
) -> BTreeSet<&'r String> {
    let below = |values: &BTreeMap<String, String>, role: &String| -> BTreeMap<String, String> {
        let pairs = values.iter().filter_map(|(path, value)| {
            let rest = path.strip_prefix(role.as_str())?.strip_prefix('.')?;
            Some((rest.to_owned(), value.clone()))
        });
        pairs.collect()
    };
    let all = others.iter().collect();
    let alone = others_values
        .iter()
        .filter(|(path, _)| !is_below(path, &all));
    let alone = alone.map(|(path, value)| (path.clone(), value.clone()));
    let mut servers = vec![alone.collect()];
    servers.extend(others.iter().map(|role| below(others_values, role)));
    own.difference(others)
        .filter(|role| servers.contains(&below(values, role)))
        .collect()
}

/// Returns the contents of a facet of a cell on one server. `prompts` is compared as a whole; `prompt-tokens` and
/// `cache` are determined elsewhere.
fn of(cell: &Cell<'_>, descriptor: Option<&Json>, facet: &str) -> Values {
    match facet {
        "source" => {
            let source = cell.fact_text("source").unwrap_or("measured");
            Some(BTreeMap::from([(String::new(), source.to_owned())]))
        }
        "prompts" => prompts(cell, None),
        "load" => Some(flat(&cell.input.parameters)).filter(|values| !values.is_empty()),
        "client" => {
            let values = flat(&descriptor?["facets"]);
            // The host itself loads a server that Benchtrail starts.
            let of_client = |(name, value): (&String, &String)| {
                Some((name.strip_prefix(CLIENT)?.to_owned(), value.clone()))
            };
            Some(values.iter().filter_map(of_client).collect())
        }
        // For a server that Benchtrail did not start, only the user's declarations about host and settings are known.
        "host" if is_running_already(descriptor?) => declared(&descriptor?["facets"][DECLARED]),
        "settings" if is_running_already(descriptor?) => {
            declared(&descriptor?["declared_settings"])
        }
        "host" => {
            let (_, host) = split_facets(&descriptor?["facets"]);
            Some(flat(&host)).filter(|values| !values.is_empty())
        }
        "model" => {
            let model = &descriptor?["model"];
            let weights = &model["weights"];
            let pinned = model["sha256"].is_string() || has_its_revision(descriptor?);
            let values = match model["sha256"].as_str() {
                Some(sum) => BTreeMap::from([("sha256".to_owned(), sum.to_owned())]),
                None => flat(weights),
            };
            // A name alone may mean other weights tomorrow.
            (pinned && !values.is_empty()).then_some(values)
        }
        "engine" => {
            let engine = &descriptor?["engine"];
            let mut values = flat(&engine["packages"]);
            let (installed, _) = split_facets(&descriptor?["facets"]);
            values.extend(flat(&installed));
            for key in ["name", "version", "source"] {
                values.insert(key.to_owned(), plain(&engine[key]));
            }
            if is_running_already(descriptor?) {
                let version = match descriptor?["probed"]["version"].as_str() {
                    Some(version) => version.to_owned(),
                    None => format!("{}{AS_DECLARED}", plain(&engine["version"])),
                };
                values.insert("version".to_owned(), version);
            }
            engine.is_object().then_some(values)
        }
        "settings" => {
            let mut values = flat(&descriptor?["settings"]);
            values.insert("api".to_owned(), plain(&descriptor?["api"]));
            Some(values)
        }
        _ => None,
    }
}

/// Splits the facets of an environment into those of its engine, without the name, and those of the host. Two engines
/// on one host differ in their programs, packages, inherited variables and images.
pub(crate) fn split_facets(facets: &Json) -> (Json, Json) {
    let (mut engine, mut host) = (json!({}), json!({}));
    for (name, value) in facets.as_object().into_iter().flatten() {
        match OF_ENGINE.contains(&name.as_str()) {
            true if name == "engine" => {}
            true => engine[name] = value.clone(),
            false => host[name] = value.clone(),
        }
    }
    (engine, host)
}

/// The prefix of the facets of a machine that loads a remote server.
const CLIENT: &str = "client_";

/// Returns the user's declarations, marked as such; `None` if there are none.
fn declared(values: &Json) -> Values {
    let marked = |(name, value): (String, String)| (name, format!("{value}{AS_DECLARED}"));
    let values: BTreeMap<String, String> = flat(values).into_iter().map(marked).collect();
    Some(values).filter(|values| !values.is_empty())
}

pub(crate) fn is_running_already(descriptor: &Json) -> bool {
    descriptor["engine"]["source"] == EngineSource::Running.word()
}

/// Returns whether the engine received a revision of the weights. A revision that appears only in the model's
/// definition pins nothing.
fn has_its_revision(descriptor: &Json) -> bool {
    let revision = descriptor["model"]["weights"]["revision"].as_str();
    let arguments = descriptor["command"]["arguments"].as_array();
    revision
        .zip(arguments)
        .is_some_and(|(revision, arguments)| {
            let given = |argument: &Json| argument.as_str().is_some_and(|a| a.contains(revision));
            !revision.is_empty() && arguments.iter().any(given)
        })
}

/// Returns how often a cell sent each prompt, over its first requests, this many, or over all.
pub(super) fn prompts(cell: &Cell<'_>, number: Option<usize>) -> Values {
    let mut digests = BTreeMap::new();
    for request in sent_prompts::first(&*cell.answers()?, number) {
        *digests
            .entry(request.prompt_digest.clone()?)
            .or_insert(0_u64) += 1;
    }
    Some(
        digests
            .into_iter()
            .map(|(digest, n)| (digest, n.to_string()))
            .collect(),
    )
}

/// Returns the leaves of a value by their path, `a.b.0`.
fn flat(value: &Json) -> BTreeMap<String, String> {
    let leaves = leaves(value, |_| false).into_iter();
    // What is empty says nothing.
    leaves
        .filter(|(_, leaf)| !(leaf.is_null() || leaf.is_object() || leaf.is_array()))
        .map(|(path, leaf)| (path, plain(leaf)))
        .collect()
}
