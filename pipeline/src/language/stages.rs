//! Stages before expansion: shape, names, graph, and the rules that select cells.

use std::collections::BTreeSet;

use typed_index_collections::{TiSlice, TiVec};

use super::axes::{Axes, AxisDraft};
use super::check::Checker;
use super::diagnostics::{Mistake, MistakeKind, Sink, Span};
use super::grammar::common_schema;
use super::interpolate::{Scope, Values};
use super::other_kinds::{is_stage, keys_of, of_another_kind, separated};
use super::tree::{Key, Node, Value};
use super::unknown_names::{self, UnknownName};
use crate::ids::{AxisId, DraftId, StageId};
use crate::stage::{Coordinates, Problem, Registry, StageKind, Step};
use crate::suggest::{closest, did_you_mean, list, remedy};

/// A stage whose names resolve.
pub(crate) struct Draft<'a> {
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    /// The whole stage as written.
    pub(crate) node: &'a Node,
    /// The keys that belong to the kind.
    pub(crate) settings: Node,
    pub(crate) kind: Option<&'a dyn StageKind>,
    pub(crate) needs: Vec<DraftId>,
    pub(crate) over: Vec<AxisId>,
    /// Whether the design adds the axis of blocks to it.
    pub(crate) in_blocks: bool,
    /// Whether its kind or its axes are wrong, so that it is not expanded.
    pub(crate) broken: bool,
}

/// The stages of an experiment, in declaration order.
pub(crate) type Drafts<'a> = TiSlice<DraftId, Draft<'a>>;

impl Draft<'_> {
    /// Returns the route to a key of the stage.
    pub(crate) fn route(&self, keys: &[&str]) -> Vec<Step> {
        ["stages", self.name]
            .iter()
            .chain(keys)
            .map(|k| Step::Key((*k).to_owned()))
            .collect()
    }

    /// Returns a problem that the kind found as a mistake. Its place is in the settings (after overrides) if its first
    /// key is there, otherwise in the whole stage.
    pub(crate) fn mistake_in(&self, settings: &Node, problem: Problem) -> Mistake {
        let of_settings = match problem.route.first() {
            Some(Step::Key(key)) => settings.get(key).is_some(),
            _ => false,
        };
        self.mistake(if of_settings { settings } else { self.node }, problem)
    }

    /// Returns a mistake with its place in a tree.
    pub(crate) fn mistake(&self, tree: &Node, problem: Problem) -> Mistake {
        let mut route = self.route(&[]);
        route.extend(problem.route.iter().cloned());
        let span = if problem.of_key {
            tree.place_of_key(&problem.route)
        } else {
            tree.place(&problem.route)
        };
        Mistake {
            hint: problem.hint,
            part: problem.part,
            ..Mistake::new(span, &route, problem.message)
        }
    }

    /// Returns the texts of a list of names.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        let items = self.node.get(key).map(Node::items).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| item.text().map(str::to_owned))
            .collect()
    }
}

/// The names of the keys that stages of every kind have.
pub(crate) fn common_keys(schema: &crate::stage::Json) -> Vec<String> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
}

/// Reads the stages: kinds, `needs`, `over`; checks the common keys.
pub(crate) fn drafts<'a>(
    section: &'a Node,
    axes: &Axes,
    parameters: &Values,
    registry: &'a Registry,
    sink: &Sink,
) -> TiVec<DraftId, Draft<'a>> {
    let schema = common_schema();
    let common = common_keys(&schema);
    let (entries, strays) = separated(section.entries(), &common, registry);
    strays.iter().for_each(|stray| sink.add(stray.mistake()));
    let stage_names: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
    let axis_names: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
    let (mut unknown_stages, mut unknown_axes) = (Vec::new(), Vec::new());
    let mut drafts = TiVec::new();
    for (key, node) in entries {
        let mut draft = Draft {
            name: &key.text,
            span: key.span,
            node,
            settings: own_settings(node, key.span, &common),
            kind: None,
            needs: Vec::new(),
            over: Vec::new(),
            in_blocks: false,
            broken: false,
        };
        let mut out = Vec::new();
        super::check_name(&key.text, "stage", key.span, &draft.route(&[]), &mut out);
        let scope = Scope {
            parameters,
            axes,
            over: &[],
            labels: &[],
        };
        let expand = |text: &str, span: Span, route: &[Step]| scope.values(text, span, route);
        let constant = constant_keys(node, key.span, &common);
        let checker = Checker {
            expand: Some(&expand),
            ..Checker::of(&schema)
        };
        let mut mistakes = checker.check(&schema, &constant, &draft.route(&[]));
        let missing = mistakes
            .iter_mut()
            .find(|m| m.kind == MistakeKind::MissingKey && m.route.len() == 2);
        if let Some(missing) = missing {
            explain_missing_kind(missing, (key, node), section.entries(), &common, registry);
        }
        out.extend(mistakes);
        if let Some(kind) = node.get("kind")
            && let Some(name) = kind.text()
        {
            draft.kind = registry
                .kinds
                .iter()
                .find(|k| k.name() == name)
                .map(|k| &**k);
            if draft.kind.is_none() {
                let message = format!("unknown stage kind `{name}`");
                let hint = kind_remedy(name, registry);
                out.push(Mistake::new(kind.span, &draft.route(&["kind"]), message).hint(hint));
            }
        }
        if let Some(mistake) = of_another_kind(&draft, registry) {
            draft.kind = None;
            out.push(mistake);
        }
        draft.needs = positions(&draft, "needs", &stage_names, &mut unknown_stages, &mut out);
        let before = unknown_axes.len();
        draft.over = positions(&draft, "over", &axis_names, &mut unknown_axes, &mut out);
        // Other mistakes do not prevent further checks: without `needs`, for example, the settings can still be
        // checked.
        let decides = |m: &Mistake| matches!(m.route.get(2), Some(Step::Key(k)) if k == "kind" || k == "over");
        draft.broken = draft.kind.is_none()
            || out.iter().any(decides)
            || strays.iter().any(|stray| stray.stage == draft.name)
            || unknown_axes.len() > before
            || draft.over.iter().any(|a| axes[*a].broken);
        out.into_iter().for_each(|m| sink.add(m));
        drafts.push(draft);
    }
    // A stage inside another one is reported as such.
    let inside = section.entries().iter();
    let inside = inside.flat_map(|(_, stage)| stage.entries());
    let inside = inside.filter(|(_, value)| is_stage(value, &registry.kinds));
    let inside: Vec<&str> = inside.map(|(key, _)| key.text.as_str()).collect();
    unknown_stages.retain(|unknown| !inside.contains(&unknown.name.as_str()));
    let of_stages = unknown_names::of_stages(unknown_stages, &drafts.raw);
    let of_axes = unknown_names::of_axes(unknown_axes, &drafts.raw, axes);
    let of_names = of_stages.into_iter().chain(of_axes);
    of_names.for_each(|mistake| sink.add(mistake));
    drafts
}

/// Returns the keys of a stage that every stage has and that are the same for all of its cells.
fn constant_keys(node: &Node, span: Span, common: &[String]) -> Node {
    let entries = node.entries().iter().filter(|(key, _)| {
        common.contains(&key.text) && !["timeout", "retries"].contains(&key.text.as_str())
    });
    Node {
        span,
        value: Value::Map(entries.cloned().collect()),
    }
}

/// Returns the key that stands in place of `kind`, and its value.
fn kind_under_another_word(stage: &Node) -> Option<(&Key, &str)> {
    let mut keys = stage
        .entries()
        .iter()
        .filter(|(key, _)| ["type", "uses"].contains(&key.text.as_str()));
    let (key, kind) = keys.next().filter(|_| stage.get("kind").is_none())?;
    Some((key, kind.text()?))
}

/// Says what a stage without `kind` has instead, if anything.
fn explain_missing_kind(
    missing: &mut Mistake,
    (key, node): (&Key, &Node),
    stages: &[(Key, Node)],
    common: &[String],
    registry: &Registry,
) {
    if let Some((written, kind)) = kind_under_another_word(node) {
        missing.span = written.span;
        missing.hint = Some(format!(
            "write `kind: {kind}` in place of `{}: {kind}`",
            written.text
        ));
    } else if let Some(written) = kind_misspelt(node, common, registry) {
        missing.span = written.span;
        missing.route.push(Step::Key(written.text.clone()));
        missing.message = format!("unknown key `{}`", written.text);
        missing.hint = Some(did_you_mean("kind"));
    } else if let Some(other) = other_stage_meant(&key.text, stages) {
        missing.span = key.span;
        missing.message = format!("the stage `{}` has no kind", key.text);
        missing.hint = Some(format!("add `kind:`, or did you mean the stage `{other}`?"));
    }
}

/// Returns the stage with a kind whose name resembles that of a stage without one.
fn other_stage_meant<'a>(name: &str, stages: &'a [(Key, Node)]) -> Option<&'a str> {
    let others = stages
        .iter()
        .filter(|(key, stage)| key.text != name && stage.get("kind").is_some());
    closest(name, others.map(|(key, _)| key.text.as_str()))
}

/// Returns the key of a stage that resembles `kind` and that no kind of stage has.
fn kind_misspelt<'a>(stage: &'a Node, common: &[String], registry: &Registry) -> Option<&'a Key> {
    let keys = stage.entries().iter().map(|(key, _)| key);
    let mut unknown = keys.filter(|key| {
        let mut kinds = registry.kinds.iter();
        !common.contains(&key.text) && !kinds.any(|kind| keys_of(&**kind).contains(&key.text))
    });
    unknown.find(|key| closest(&key.text, common.iter().map(String::as_str)) == Some("kind"))
}

/// Returns the remedy for an unknown kind: the kind with this name in other letters, or that another tool calls by it, then the only kind with a
/// setting of this name, otherwise the closest names.
fn kind_remedy(word: &str, registry: &Registry) -> String {
    let typed = word.to_lowercase().replace('_', "-");
    let mut kinds = registry.kinds.iter();
    let is_meant = |word: &str, kind: &str, others: &[&str]| kind == word || others.contains(&word);
    if let Some(kind) = kinds.find(|kind| is_meant(&typed, kind.name(), kind.other_words())) {
        return format!("write `{}`", kind.name());
    }
    let kinds = registry.kinds.iter();
    let with = kinds.filter(|kind| keys_of(&***kind).contains(&typed));
    let with: Vec<&str> = with.map(|kind| kind.name()).collect();
    match with.as_slice() {
        [kind] => format!(
            "`{typed}` is a setting of a `{kind}` stage: write `kind: {kind}`, and `{typed}: …` below it"
        ),
        _ => remedy(word, "kinds", registry.kinds.iter().map(|k| k.name())),
    }
}

/// Returns the stages in an order in which each follows those it needs, otherwise in declaration order.
pub(crate) fn order(drafts: &Drafts<'_>, sink: &Sink) -> Option<TiVec<StageId, DraftId>> {
    let mut order: TiVec<StageId, DraftId> = TiVec::new();
    let mut done = TiVec::from(vec![false; drafts.len()]);
    while order.len() < drafts.len() {
        let ready = drafts
            .keys()
            .find(|i| !done[*i] && drafts[*i].needs.iter().all(|n| done[*n]));
        let Some(next) = ready else {
            cycle(drafts, &done, sink);
            return None;
        };
        done[next] = true;
        order.push(next);
    }
    Some(order)
}

fn cycle(drafts: &Drafts<'_>, done: &TiSlice<DraftId, bool>, sink: &Sink) {
    let first = done.position(|d| !d).expect("a stage is left over");
    let mut path = vec![first];
    let start = loop {
        let last = *path.last().expect("the path starts with a stage");
        let next = drafts[last]
            .needs
            .iter()
            .find(|n| !done[**n])
            .expect("a stage left over needs another");
        if let Some(at) = path.iter().position(|p| p == next) {
            break at;
        }
        path.push(*next);
    };
    let around: Vec<&str> = path[start..]
        .iter()
        .chain([&path[start]])
        .map(|i| drafts[*i].name)
        .collect();
    let draft = &drafts[path[start]];
    let span = draft.node.get("needs").map_or(draft.span, |n| n.span);
    let message = format!(
        "the stages need each other in a circle: {}",
        around.join(" → ")
    );
    let hint = "remove one of these names from a `needs`";
    sink.add(Mistake::new(span, &draft.route(&["needs"]), message).hint(hint));
}

/// A selection of cells by labels: the admitted labels of each axis in `over`.
pub(crate) struct Choice {
    admitted: Vec<Option<BTreeSet<u16>>>,
}

impl Choice {
    /// Returns whether a cell is selected.
    pub(crate) fn has(&self, at: &[u16]) -> bool {
        self.admitted
            .iter()
            .zip(at)
            .all(|(set, label)| set.as_ref().is_none_or(|s| s.contains(label)))
    }
}

/// Reads a mapping from axes to labels; a list admits several labels of an axis. `None` if it is wrong, or names a
/// wrong parameter.
pub(crate) fn choice(
    place: &Node,
    over: &[AxisId],
    axes: &Axes,
    parameters: &Values,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> Option<Choice> {
    let before = out.len();
    let mut hidden = false;
    let mut admitted = vec![None; over.len()];
    for (key, given) in place.entries() {
        let mut route = route.to_vec();
        route.push(Step::Key(key.text.clone()));
        let Some(position) = over.iter().position(|a| axes[*a].name == key.text) else {
            out.push(not_over(key, over, axes, &route));
            continue;
        };
        let axis = &axes[over[position]];
        let scope = Scope {
            parameters,
            axes,
            over: &[],
            labels: &[],
        };
        if scope.hides(given) {
            hidden = true;
            continue;
        }
        let given = match scope.resolve(given, None) {
            Ok(given) => given,
            Err(mistake) => {
                out.push(Mistake {
                    route: route.clone(),
                    ..mistake
                });
                continue;
            }
        };
        let one = std::slice::from_ref(&given);
        let items = if given.items().is_empty() {
            one
        } else {
            given.items()
        };
        let mut labels = BTreeSet::new();
        for item in items {
            let Some(label) = item.scalar() else {
                let message = format!(
                    "expected a label of the axis `{}`, found {}",
                    axis.name,
                    item.describe()
                );
                out.push(
                    Mistake::new(item.span, &route, message)
                        .hint("give one label, or a list of labels"),
                );
                continue;
            };
            match axis.index(&label) {
                Some(at) => {
                    labels.insert(at);
                    // A selected label also selects the A/A arm that stands for it.
                    let arm = axis.arm.filter(|arm| arm.stands_for == at);
                    labels.extend(arm.map(|arm| arm.label));
                }
                None if axis.has_dropped(&label) => {}
                None => {
                    let message = format!("`{label}` is not a label of the axis `{}`", axis.name);
                    out.push(
                        Mistake::new(item.span, &route, message)
                            .hint(axis.remedy(&label.to_string())),
                    );
                }
            }
        }
        admitted[position] = Some(labels);
    }
    (out.len() == before && !hidden).then_some(Choice { admitted })
}

/// Reads the coordinates of an included cell; a numeric axis may get a new number. `None` if they are wrong, or contain
/// a label that the profile or the command line dropped.
pub(crate) fn included(
    coordinates: &Node,
    over: &[AxisId],
    axes: &mut Axes,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> Option<Vec<u16>> {
    let before = out.len();
    for (key, _) in coordinates.entries() {
        if !over.iter().any(|a| axes[*a].name == key.text) {
            out.push(not_over(key, over, axes, route));
        }
    }
    let given = |axis: &AxisDraft| coordinates.get(&axis.name).and_then(Node::scalar);
    let dropped =
        |axis: &AxisId| given(&axes[*axis]).is_some_and(|label| axes[*axis].has_dropped(&label));
    let is_dropped = over.iter().any(dropped);
    let mut at = Vec::new();
    for position in over {
        let axis = &mut axes[*position];
        let Some(given) = coordinates.get(&axis.name) else {
            let message = format!("the coordinates do not include the axis `{}`", axis.name);
            let hint = format!(
                "add `{}:`; an included cell needs a label on every axis of `over`",
                axis.name
            );
            out.push(Mistake::new(coordinates.span, route, message).hint(hint));
            continue;
        };
        let label = given.scalar();
        match label.as_ref().and_then(|label| axis.index(label)) {
            Some(index) => at.push(index),
            None if label.as_ref().is_some_and(|label| axis.has_dropped(label)) => {}
            None => match label {
                Some(label)
                    if axis.is_numeric()
                        && label.as_f64().is_some()
                        && axis.labels.len() < 60_000 =>
                {
                    if is_dropped {
                        // Without the cell, the axis gets no new number, but overrides may name it.
                        axis.dropped.push(label);
                        continue;
                    }
                    axis.labels.push(label);
                    axis.fields.push(crate::stage::Json::Null);
                    at.push(u16::try_from(axis.labels.len() - 1).expect("checked just above"));
                }
                label => {
                    let text = label.map_or_else(|| given.describe(), |l| format!("`{l}`"));
                    let message = format!("{text} is not a label of the axis `{}`", axis.name);
                    let hint = axis.remedy(text.trim_matches('`'));
                    out.push(Mistake::new(given.span, route, message).hint(hint));
                }
            },
        }
    }
    (out.len() == before && !is_dropped).then_some(at)
}

fn not_over(key: &Key, over: &[AxisId], axes: &Axes, route: &[Step]) -> Mistake {
    let names: Vec<&str> = over.iter().map(|a| axes[*a].name.as_str()).collect();
    let message = format!("the stage is not expanded over `{}`", key.text);
    Mistake::new(key.span, route, message).hint(remedy(&key.text, "axes in its `over`", names))
}

fn own_settings(node: &Node, span: Span, common: &[String]) -> Node {
    let own = node
        .entries()
        .iter()
        .filter(|(key, _)| !common.contains(&key.text))
        .cloned()
        .collect();
    Node {
        span,
        value: Value::Map(own),
    }
}

/// Returns the positions of the names in a list; collects unknown names, and reports repeated ones.
fn positions<Id: From<usize> + PartialEq>(
    draft: &Draft,
    key: &str,
    names: &[&str],
    unknown: &mut Vec<UnknownName>,
    out: &mut Vec<Mistake>,
) -> Vec<Id> {
    let mut ids = Vec::new();
    let items = draft.node.get(key).map(Node::items).unwrap_or_default();
    for (i, item) in items.iter().enumerate() {
        let mut route = draft.route(&[key]);
        route.push(Step::Index(i));
        let Some(name) = item.text() else { continue };
        let Some(position) = names.iter().position(|n| *n == name).map(Id::from) else {
            unknown.push(UnknownName {
                user: draft.name.to_owned(),
                name: name.to_owned(),
                span: item.span,
                route,
            });
            continue;
        };
        if ids.contains(&position) {
            let message = format!("`{name}` is named twice");
            out.push(Mistake::new(item.span, &route, message).hint("remove one"));
            continue;
        }
        ids.push(position);
    }
    ids
}

/// Returns the coordinates for label indices.
pub(crate) fn coordinates(at: &[u16], over: &[AxisId], axes: &Axes) -> Coordinates {
    let part = |(axis, label): (&AxisId, &u16)| {
        let axis = &axes[*axis];
        (axis.name.clone(), axis.labels[usize::from(*label)].clone())
    };
    Coordinates(over.iter().zip(at).map(part).collect())
}

/// Returns the remedy for an override whose path does not exist in the settings.
pub(crate) fn path_remedy(draft: &Draft) -> String {
    let keys = draft
        .settings
        .entries()
        .iter()
        .map(|(key, _)| key.text.as_str());
    format!(
        "the stage's settings are {}; you can also set `timeout` and `retries`",
        list(keys)
    )
}
