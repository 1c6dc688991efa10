//! Keys that belong to a stage of another kind, and keys of a stage beside the stages.

use super::diagnostics::Mistake;
use super::stages::Draft;
use super::tree::{Key, Node};
use crate::stage::{Json, Registry, StageKind, Step};
use crate::suggest::{closest, list};

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

/// A key of a stage that is written beside the stages, because it is not indented like the other keys of its stage.
pub(super) struct Stray<'a> {
    /// The name of the stage above it.
    pub(super) stage: &'a str,
    key: &'a Key,
}

impl Stray<'_> {
    pub(super) fn route(&self) -> [Step; 2] {
        ["stages", &self.key.text].map(|step| Step::Key(step.to_owned()))
    }

    pub(super) fn mistake(&self) -> Mistake {
        let (name, route) = (&self.key.text, self.route());
        let message = format!("`{name}` is not a stage but a key of one");
        let hint = format!(
            "indent it like the other keys of the stage `{}` above",
            self.stage
        );
        Mistake::new(self.key.span, &route, message).hint(hint)
    }
}

/// Separates the stages of a section from keys of stages that are not indented enough. `common`: the keys that every stage
/// has.
pub(super) fn separated<'a>(
    entries: &'a [(Key, Node)],
    common: &[String],
    registry: &Registry,
) -> (Vec<&'a (Key, Node)>, Vec<Stray<'a>>) {
    let (mut stages, mut strays): (Vec<&(Key, Node)>, Vec<Stray<'_>>) = (Vec::new(), Vec::new());
    for entry in entries {
        let (key, node) = entry;
        let above = stages
            .last()
            .map(|(name, stage)| (name.text.as_str(), stage));
        let kind = above.and_then(|(_, stage)| stage.get("kind")?.text());
        let kind = kind.and_then(|name| registry.kinds.iter().find(|kind| kind.name() == name));
        let is_key = |name: &String| {
            common.contains(name) || kind.is_some_and(|kind| keys_of(&**kind).contains(name))
        };
        // A stage with a mistake has at least one key that stages have.
        let mut keys = node.entries().iter().map(|(key, _)| key.text.as_str());
        let is_stage = keys.any(|key| closest(key, common.iter().map(String::as_str)).is_some());
        match above {
            Some((stage, given))
                if !is_stage && is_key(&key.text) && given.get(&key.text).is_none() =>
            {
                strays.push(Stray { stage, key });
            }
            _ => stages.push(entry),
        }
    }
    (stages, strays)
}

/// Returns whether a value is a stage: a mapping with a kind.
pub(super) fn is_stage(node: &Node, kinds: &[Box<dyn StageKind>]) -> bool {
    let kind = node.get("kind").and_then(Node::text);
    kind.is_some_and(|name| kinds.iter().any(|kind| kind.name() == name))
}
