//! The bundle's description as a Workflow Run RO-Crate 0.5 (on RO-Crate 1.1). The experiment is the
//! workflow, the run is one action, and every executed cell is a further action.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Digest;
use pipeline::CellStatus;
use serde_json::{Value, json};

use crate::catalogue::{Catalogue, media_type, times};
use crate::layout::{self, RO_CRATE};
use crate::manifest::Entry;
use crate::place::BundlePath;
use crate::publication::Publication;

/// What the description states about the bundle as a whole.
pub(crate) struct Facts<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) date: &'a str,
    pub(crate) window: (&'a str, &'a str),
    /// Every described file, with its media type if it is known.
    pub(crate) files: &'a [Entry],
    pub(crate) reports: &'a [BundlePath],
}

/// Returns the JSON-LD document.
pub(crate) fn ro_crate(
    publication: &Publication<'_>,
    catalogue: &Catalogue,
    facts: &Facts<'_>,
) -> Value {
    let authors: Vec<Value> = (1..=publication.authors.len())
        .map(|n| reference(&format!("#author-{n}")))
        .collect();
    let actions: Vec<Value> = (1..=catalogue.cells.len())
        .map(|n| reference(&cell_id(n)))
        .collect();
    let license = format!("https://spdx.org/licenses/{}", publication.license);
    let mut graph = vec![
        json!({
            "@id": RO_CRATE, "@type": "CreativeWork", "about": reference("./"),
            "conformsTo": [
                reference("https://w3id.org/ro/crate/1.1"),
                reference("https://w3id.org/workflowhub/workflow-ro-crate/1.0"),
            ],
        }),
        json!({
            "@id": "./", "@type": "Dataset", "name": facts.title, "description": facts.description,
            "datePublished": facts.date, "license": reference(&license), "author": authors,
            "identifier": publication.lock.trail().to_string(),
            "conformsTo": PROFILES.iter().map(|(id, _, _)| reference(id)).collect::<Vec<_>>(),
            "mainEntity": reference(&publication.sources.experiment),
            "hasPart": facts.files.iter().map(|f| reference(&f.path)).collect::<Vec<_>>(),
            "mentions": std::iter::once(reference("#run")).chain(actions).collect::<Vec<_>>(),
        }),
        json!({"@id": license, "@type": "CreativeWork", "name": publication.license, "url": license}),
    ];
    graph.extend(PROFILES.iter().map(
        |(id, name, version)| json!({"@id": id, "@type": "CreativeWork", "name": name, "version": version}),
    ));
    for (n, author) in publication.authors.iter().enumerate() {
        graph.push(json!({"@id": format!("#author-{}", n + 1), "@type": "Person", "name": author}));
    }
    graph.push(json!({
        "@id": "#experiment-language", "@type": "ComputerLanguage", "name": "Benchtrail experiment",
        "alternateName": "benchtrail", "version": publication.version,
    }));
    graph.extend(tools(publication, catalogue));
    graph.push(run(publication, facts));
    graph.extend(catalogue.cells.iter().enumerate().map(|(n, cell)| {
        let (start, end) = times(&cell.record);
        let inputs = cell
            .record
            .recipe
            .inputs
            .iter()
            .flat_map(|i| &i.cells)
            .flat_map(|c| c.outputs.values());
        let mut action = json!({
            "@id": cell_id(n + 1), "@type": "CreateAction", "name": cell.name,
            "description": format!("cell {} of stage kind {}", cell.name, cell.record.recipe.kind),
            "instrument": reference(&tool_id(&cell.record.recipe.kind)),
            "object": references(catalogue, inputs.copied()),
            "result": references(catalogue, cell.record.artifacts().into_iter().chain([cell.digest])),
            "startTime": start, "endTime": end,
            "actionStatus": reference(status(cell.record.status)),
        });
        if let Some(reason) = &cell.record.reason {
            action["error"] = json!(reason);
        }
        action
    }));
    graph.extend(
        facts
            .files
            .iter()
            .map(|file| described(publication, catalogue, file)),
    );
    // An object outside the crate has no path in it.
    graph.extend(catalogue.left_out.iter().map(|(digest, object)| {
        json!({
            "@id": absent_id(digest), "@type": "CreativeWork", "name": object.what,
            "encodingFormat": media_type(object.media), "identifier": digest.to_string(),
            "description": "not in this bundle, which holds only its digest",
        })
    }));
    json!({
        "@context": ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"],
        "@graph": graph,
    })
}

/// The profiles that the crate follows: identifier, name, version.
const PROFILES: [(&str, &str, &str); 3] = [
    (
        "https://w3id.org/ro/wfrun/process/0.5",
        "Process Run Crate",
        "0.5",
    ),
    (
        "https://w3id.org/ro/wfrun/workflow/0.5",
        "Workflow Run Crate",
        "0.5",
    ),
    (
        "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
        "Workflow RO-Crate",
        "1.0",
    ),
];

fn reference(id: &str) -> Value {
    json!({"@id": id})
}

fn references(catalogue: &Catalogue, digests: impl Iterator<Item = Digest>) -> Vec<Value> {
    let distinct: BTreeSet<Digest> = digests.collect();
    let id = |digest: &Digest| match catalogue.left_out.contains_key(digest) {
        true => absent_id(digest),
        false => layout::object(digest),
    };
    distinct
        .iter()
        .map(|digest| reference(&id(digest)))
        .collect()
}

fn absent_id(digest: &Digest) -> String {
    format!("urn:benchtrail:b3:{}", digest.hex())
}

fn cell_id(n: usize) -> String {
    format!("#cell-{n}")
}

fn tool_id(kind: &str) -> String {
    format!("urn:benchtrail:stage-kind:{kind}")
}

fn status(status: CellStatus) -> &'static str {
    if status == CellStatus::Ok {
        "http://schema.org/CompletedActionStatus"
    } else {
        "http://schema.org/FailedActionStatus"
    }
}

/// Returns the stage kinds, as the tools of the workflow.
fn tools(publication: &Publication<'_>, catalogue: &Catalogue) -> Vec<Value> {
    let kinds: BTreeMap<&str, u32> = catalogue
        .cells
        .iter()
        .map(|c| {
            (
                c.record.recipe.kind.as_str(),
                c.record.recipe.semantic_version,
            )
        })
        .collect();
    let tools = kinds.into_iter().map(|(kind, meaning)| {
        json!({
            "@id": tool_id(kind), "@type": "SoftwareApplication", "name": format!("benchtrail {kind}"),
            "softwareVersion": publication.version, "description": format!("stage kind {kind}, semantic version {meaning}"),
        })
    });
    tools.collect()
}

/// Describes the run as a whole.
fn run(publication: &Publication<'_>, facts: &Facts<'_>) -> Value {
    let results: Vec<Value> = if facts.reports.is_empty() {
        vec![reference(&publication.sources.lock)]
    } else {
        facts.reports.iter().map(|path| reference(path)).collect()
    };
    json!({
        "@id": "#run", "@type": "CreateAction", "name": format!("run of {}", publication.lock.experiment),
        "description": format!("every executed cell of the study {}", publication.lock.trail()),
        "instrument": reference(&publication.sources.experiment), "agent": reference("#author-1"),
        "object": [reference(&publication.sources.experiment)], "result": results,
        "startTime": facts.window.0, "endTime": facts.window.1,
        "actionStatus": reference("http://schema.org/CompletedActionStatus"),
    })
}

fn described(publication: &Publication<'_>, catalogue: &Catalogue, file: &Entry) -> Value {
    let digest = object_digest(&file.path);
    let object = digest.and_then(|d| catalogue.objects.get(&d));
    let media = object.map_or_else(|| by_extension(&file.path), |o| media_type(o.media));
    let name = object.map_or(file.path.as_str(), |o| o.what.as_str());
    let mut entity = json!({
        "@id": file.path, "@type": "File", "name": name, "encodingFormat": media,
        "contentSize": file.bytes.to_string(), "sha256": file.sha256, "identifier": file.blake3.to_string(),
    });
    if let Some(rows) = object.and_then(|o| o.rows) {
        entity["description"] = json!(format!("a table of {rows} rows"));
    }
    if file.path.as_str() == layout::README {
        entity["about"] = reference("./");
    }
    if file.path == publication.sources.experiment {
        entity["@type"] = json!(["File", "SoftwareSourceCode", "ComputationalWorkflow"]);
        entity["version"] = json!(publication.lock.trail().to_string());
        entity["programmingLanguage"] = reference("#experiment-language");
        let kinds: BTreeSet<&str> = catalogue
            .cells
            .iter()
            .map(|c| c.record.recipe.kind.as_str())
            .collect();
        entity["hasPart"] = kinds
            .into_iter()
            .map(|kind| reference(&tool_id(kind)))
            .collect();
    }
    entity
}

/// Returns the digest for a path in the store.
pub(crate) fn object_digest(path: &str) -> Option<Digest> {
    let hex = path
        .strip_prefix(layout::STORE)?
        .strip_prefix("/objects/")?
        .replacen('/', "", 1);
    format!("b3:{hex}").parse().ok()
}

fn by_extension(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md") => "text/markdown",
        Some("html") => "text/html",
        Some("svg") => "image/svg+xml",
        Some("parquet") => "application/vnd.apache.parquet",
        Some("json") => "application/json",
        Some("yaml" | "cff") => "application/yaml",
        Some("tsv") => "text/tab-separated-values",
        _ => "text/plain",
    }
}
