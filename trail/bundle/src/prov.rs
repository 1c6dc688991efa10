//! The history of a study as W3C PROV-JSON.

use std::collections::BTreeMap;

use artifacts::Digest;
use serde_json::{Map, Value, json};

use crate::catalogue::{Catalogue, media_type, times};
use crate::publication::Publication;

/// Returns the document. Artifacts are entities, cells are activities, and the program and the
/// authors are agents.
pub(crate) fn prov(publication: &Publication<'_>, catalogue: &Catalogue) -> Value {
    let mut entities = Map::new();
    for (digest, object) in &catalogue.objects {
        let entity = json!({"prov:label": object.what, "bt:media": media_type(object.media)});
        entities.insert(entity_id(digest), entity);
    }
    for (digest, object) in &catalogue.left_out {
        let entity = json!({
            "prov:label": object.what, "bt:media": media_type(object.media), "bt:heldHere": false,
        });
        entities.insert(entity_id(digest), entity);
    }
    let mut activities = Map::new();
    let (mut used, mut generated, mut associated) = (Map::new(), Map::new(), Map::new());
    for (n, cell) in catalogue.cells.iter().enumerate() {
        let activity = format!("bt:cell.{}", n + 1);
        let (start, end) = times(&cell.record);
        activities.insert(
            activity.clone(),
            json!({
                "prov:startTime": start, "prov:endTime": end, "prov:label": cell.name,
                "bt:stage": cell.record.stage, "bt:kind": cell.record.recipe.kind,
                "bt:status": cell.record.status.word(), "bt:key": cell.record.key.to_string(),
            }),
        );
        let mut inputs: Vec<&Digest> = cell
            .record
            .recipe
            .inputs
            .iter()
            .flat_map(|i| &i.cells)
            .flat_map(|c| c.outputs.values())
            .collect();
        inputs.sort();
        inputs.dedup();
        for digest in inputs {
            let id = format!("_:used.{}", used.len() + 1);
            used.insert(
                id,
                json!({"prov:activity": activity, "prov:entity": entity_id(digest)}),
            );
        }
        let mut outputs: BTreeMap<Digest, ()> = cell
            .record
            .artifacts()
            .into_iter()
            .map(|d| (d, ()))
            .collect();
        outputs.insert(cell.digest, ());
        for digest in outputs.keys() {
            let id = format!("_:generated.{}", generated.len() + 1);
            generated.insert(
                id,
                json!({"prov:activity": activity, "prov:entity": entity_id(digest)}),
            );
        }
        let id = format!("_:associated.{}", associated.len() + 1);
        associated.insert(
            id,
            json!({"prov:activity": activity, "prov:agent": "bt:benchtrail"}),
        );
    }
    let mut agents = Map::new();
    let kind = |name: &str| json!({"$": name, "type": "prov:QUALIFIED_NAME"});
    agents.insert(
        "bt:benchtrail".to_owned(),
        json!({
            "prov:type": kind("prov:SoftwareAgent"), "prov:label": format!("benchtrail {}", publication.version),
        }),
    );
    for (n, author) in publication.authors.iter().enumerate() {
        let agent = json!({"prov:type": kind("prov:Person"), "prov:label": author});
        agents.insert(format!("bt:author.{}", n + 1), agent);
    }
    json!({
        "prefix": {"bt": "urn:benchtrail:"},
        "entity": entities, "activity": activities, "agent": agents,
        "used": used, "wasGeneratedBy": generated, "wasAssociatedWith": associated,
    })
}

fn entity_id(digest: &Digest) -> String {
    format!("bt:b3.{}", digest.hex())
}
