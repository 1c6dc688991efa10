//! An in-toto statement with SLSA provenance: what was made, with which program, from what.

use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::layout::MANIFEST;
use crate::manifest::Entry;
use crate::publication::Publication;

/// Returns the statement. Its subject is the manifest, which covers every file.
pub(crate) fn statement(
    publication: &Publication<'_>,
    catalogue: &Catalogue,
    manifest: &Entry,
    named: &[&Entry],
    window: (&str, &str),
) -> Value {
    let subject = |entry: &Entry| json!({"name": entry.path, "digest": {"sha256": entry.sha256, "blake3": entry.blake3.hex()}});
    let subjects: Vec<Value> = std::iter::once(manifest)
        .chain(named.iter().copied())
        .map(subject)
        .collect();
    let kinds: std::collections::BTreeMap<String, u32> = catalogue
        .cells
        .iter()
        .map(|c| {
            (
                c.record.recipe.kind.clone(),
                c.record.recipe.semantic_version,
            )
        })
        .collect();
    let trail = publication.lock.trail();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:benchtrail:study:1",
                "externalParameters": {
                    "experiment": &publication.sources.experiment,
                    "profile": publication.lock.profile,
                    "seed": publication.lock.seed,
                },
                "internalParameters": {"kinds": kinds},
                "resolvedDependencies": [
                    {"name": "trail", "digest": {"blake3": trail.hex()}},
                ],
            },
            "runDetails": {
                "builder": {
                    "id": "urn:benchtrail:local", "version": {"benchtrail": publication.version},
                },
                "metadata": {"invocationId": trail.to_string(), "startedOn": window.0, "finishedOn": window.1},
                "byproducts": [],
            },
        },
    })
}

/// Returns the manifest's SHA-256 in a statement.
pub(crate) fn manifest_digest(statement: &Value) -> Option<&str> {
    let subjects = statement["subject"].as_array()?;
    subjects.iter().find(|s| s["name"] == MANIFEST)?["digest"]["sha256"].as_str()
}
