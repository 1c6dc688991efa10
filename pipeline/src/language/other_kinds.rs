//! Keys that belong to a stage of another kind.

use super::diagnostics::Mistake;
use super::stages::Draft;
use crate::stage::{Json, Registry, StageKind};
use crate::suggest::list;

/// Returns the keys that the settings of a kind have at their top.
pub(super) fn keys_of(kind: &dyn StageKind) -> Vec<String> {
    let schema = kind.schema().to_value();
    let properties = schema.get("properties").and_then(Json::as_object);
    let keys = properties.map(|properties| properties.keys().cloned().collect());
    keys.unwrap_or_default()
}

/// Returns the mistake of a stage whose keys are those of another kind. One message about the kind replaces those about
/// each key.
pub(super) fn of_another_kind(draft: &Draft<'_>, registry: &Registry) -> Option<Mistake> {
    let kind = draft.kind?;
    let given = draft
        .settings
        .entries()
        .iter()
        .map(|(key, _)| key.text.as_str());
    let given: Vec<&str> = given.collect();
    if given.len() < 2 {
        return None;
    }
    let own = keys_of(kind);
    let strange = given
        .iter()
        .copied()
        .filter(|key| !own.iter().any(|own| own == key));
    let strange: Vec<&str> = strange.collect();
    if strange.len() < 2 {
        return None;
    }
    let mut others = registry
        .kinds
        .iter()
        .filter(|other| other.name() != kind.name());
    let meant = others.find(|other| {
        let keys = keys_of(&***other);
        given.iter().all(|key| keys.iter().any(|own| own == key))
    })?;
    let span = draft.node.get("kind").map_or(draft.span, |kind| kind.span);
    let message = format!(
        "a stage of kind `{}` has no keys {}",
        kind.name(),
        list(strange)
    );
    let hint = format!(
        "these are keys of the kind `{0}`: write `kind: {0}`",
        meant.name()
    );
    Some(Mistake::new(span, &draft.route(&["kind"]), message).hint(hint))
}

/// Says which kinds have a key.
pub(super) fn kind_with(key: &str, kinds: &[Box<dyn StageKind>]) -> Option<String> {
    let have = kinds
        .iter()
        .filter(|kind| keys_of(&***kind).iter().any(|own| own == key));
    let names: Vec<&str> = have.map(|kind| kind.name()).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("it is a key of a stage of kind `{name}`")),
        _ => Some(format!(
            "it is a key of stages of other kinds: {}",
            list(names)
        )),
    }
}
