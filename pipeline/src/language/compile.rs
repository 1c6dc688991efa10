//! The whole way from text to experiment, in the order in which names become known:
//! parameters, axes, definitions, stages, cells.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use typed_index_collections::{TiSlice, TiVec};

use super::axes::{Axes, AxisDraft, axis, is_plain_list, select};
use super::check::Checker;
use super::design;
use super::diagnostics::{Diagnostics, Mistake, MistakeKind, Sink, Span};
use super::expand::{Context, Expanded, expand};
use super::extends::extended;
use super::grammar::file_schema;
use super::inclusions::inclusions;
use super::interpolate::{Scope, Values};
use super::library::{Files, Layers};
use super::parameters::{check_profile_set, parameters};
use super::spec::{Parts, spec};
use super::stages::{Draft, drafts, order};
use super::tree::{Node, Value};
use super::{check_name, needs, parse, unused};
use crate::experiment::{Axis, Experiment, Order, Stage};
use crate::ids::{AxisId, DraftId, StageId};
use crate::reuse::Reuse;
use crate::stage::{Class, Json, Library, Registry, Shared, StageKind, Step};
use crate::suggest::remedy;

/// What the user asks for beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parameter values from the command line, as written: `("requests", "32")`.
    pub set: Vec<(String, String)>,
    /// The profile to put in force.
    pub profile: Option<String>,
    /// Folders with definitions of the user's own (`engines/NAME.yaml` and so on below them).
    pub user_folders: Vec<PathBuf>,
    /// The text is a part of a study: what its stages need is elsewhere, and not held against them.
    pub partial: bool,
}

/// Compiles a text as an experiment. Touches nothing but `files`, and those only for
/// definitions that are asked for.
///
/// # Errors
/// Every mistake found, each with its place.
pub fn load_text(
    text: &str,
    file: &Path,
    registry: &Registry,
    options: &Options,
    files: &dyn Files,
) -> Result<Experiment, Diagnostics> {
    let sink = Sink::default();
    let source = sink.add_source(file, text);
    let experiment = match parse::parse(text, source) {
        Ok(root) => extended(root, file, files, &sink).and_then(|(root, read)| {
            let mut experiment = compile(&root, file, registry, options, files, &sink)?;
            experiment.sources.extend(read);
            Some(experiment)
        }),
        Err(mistakes) => {
            mistakes.into_iter().for_each(|m| sink.add(m));
            None
        }
    };
    match experiment {
        Some(experiment) if sink.count() == 0 => Ok(experiment),
        _ => Err(sink.finish()),
    }
}

/// Looks into the definitions that no experiment brings: those in the user's folders and those that
/// are shipped.
pub fn with_own_definitions<T>(
    registry: &Registry,
    user_folders: &[PathBuf],
    files: &dyn Files,
    look: impl FnOnce(&dyn Library) -> T,
) -> T {
    let nothing = Node {
        span: Span::default(),
        value: Value::Map(Vec::new()),
    };
    // A definition that is wrong is told where it is used.
    let aside = Sink::default();
    let folders = user_folders.to_vec();
    look(&Layers::in_folders(
        &nothing, folders, registry, files, &aside,
    ))
}

fn compile(
    root: &Node,
    file: &Path,
    registry: &Registry,
    options: &Options,
    files: &dyn Files,
    sink: &Sink,
) -> Option<Experiment> {
    if !matches!(root.value, Value::Map(_)) {
        let message = format!("expected an experiment, found {}", root.describe());
        sink.add(
            Mistake::new(root.span, &[], message)
                .hint("an experiment starts with `experiment: NAME`"),
        );
        return None;
    }
    let schema = file_schema();
    let plain = Checker::of(&schema);
    let profile = profile(root, options, sink);
    let values = parameters(root.get("parameters"), profile, &options.set, &plain, sink);
    check_root(root, &schema, &values, registry, sink);
    check_profiles(root, profile.map(|(name, _)| name), &values, sink);

    let mut axes = axes(root, profile, &values, &plain, sink);
    if options.profile.is_some() || !options.set.is_empty() {
        // What is wrong with the defaults has been reported, and does not matter for this.
        let aside = Sink::default();
        let defaults = parameters(root.get("parameters"), None, &[], &plain, &aside);
        for parameters in [&values, &defaults] {
            let declared = self::axes(root, None, parameters, &plain, &aside);
            axes.iter_mut()
                .zip(&declared)
                .for_each(|(axis, declared)| axis.note_dropped(declared));
        }
    }
    let design = design::read(root, profile, &values, &plain, &mut axes, sink);
    let (definitions, hidden) = with_definitions_resolved(root, &values, &axes, registry, sink);
    let library = Layers::new(
        &definitions,
        hidden,
        file,
        &options.user_folders,
        registry,
        files,
        sink,
    );
    library.check_sections();

    let empty = Node {
        span: root.span,
        value: Value::Map(Vec::new()),
    };
    let section = root.get("stages").unwrap_or(&empty);
    let mut drafts = drafts(section, &axes, &values, registry, sink);
    if !options.partial {
        unused::check(root, &drafts, &axes, &values, sink);
    }
    let unit = design
        .as_ref()
        .and_then(|design| design.put_into(&mut drafts, &axes, sink));
    let overrides = root.get("overrides").map(Node::items).unwrap_or_default();
    check_overridden(
        overrides,
        &drafts.iter().map(|d| d.name).collect::<Vec<_>>(),
        sink,
    );
    let in_order = order(&drafts, sink);
    let mut included: TiVec<DraftId, _> = TiVec::new();
    for draft in &drafts {
        let cells = if draft.broken {
            Vec::new()
        } else {
            inclusions(draft, &mut axes, &values, sink)
        };
        included.push(cells);
    }
    library.tell_axes(&axes);
    let context = Context {
        parameters: &values,
        library: &library,
        sink,
        overrides,
    };
    // What is left out of a stage is left out of those that need it, so they come later.
    let mut stages: TiVec<DraftId, Option<Expanded>> = drafts.iter().map(|_| None).collect();
    for i in in_order.clone().unwrap_or_else(|| drafts.keys().collect()) {
        let (draft, cells) = (&drafts[i], &included[i]);
        if !draft.broken {
            stages[i] = expand(draft, &axes, &drafts, (cells, &stages), &context);
        }
    }
    let in_order = in_order?;
    if !options.partial && stages.iter().any(Option::is_none) {
        // What can be told of the others is told now: all mistakes come at once.
        for (expanded, draft) in stages.iter().zip(&drafts) {
            if let Some(expanded) = expanded {
                needs::check_alone(expanded, draft, &drafts, &library, sink);
            }
        }
    }
    if stages.iter().any(Option::is_none) {
        return None;
    }
    let place = |declared: &DraftId| {
        let place = in_order.position(|draft| draft == declared);
        place.expect("every stage is in the order")
    };
    let in_place = |declared: &DraftId| {
        let (mut stage, written) = stages[*declared].take().expect("each stage is taken once");
        stage.needs = drafts[*declared].needs.iter().map(place).collect();
        (stage, written)
    };
    let (stages, written): (Vec<Stage>, Vec<_>) = in_order.iter().map(in_place).unzip();
    let mut stages: TiVec<StageId, Stage> = stages.into();

    if !options.partial {
        let drafts = in_order.iter().map(|i| &drafts[*i]).collect();
        let all = needs::Stages {
            stages: &stages,
            drafts,
            written: written.iter().map(Vec::as_slice).collect(),
            axes: &axes,
        };
        needs::check(&all, &library, sink);
        let informed = needs::informed(&all, &library);
        for (stage, sets) in stages.iter_mut().zip(informed) {
            stage.parameter_sets = sets;
        }
    }
    if sink.count() > 0 {
        return None;
    }

    let name = root.get("experiment")?.text()?.to_owned();
    let scope = Scope {
        parameters: &values,
        axes: &axes,
        over: &[],
        labels: &[],
    };
    let seed = scope
        .resolve(root.get("seed")?, None)
        .ok()?
        .json()
        .as_u64()?;
    let order = match root.get("order") {
        None => Order::default(),
        Some(node) => serde_json::from_value(scope.resolve(node, None).ok()?.json()).ok()?,
    };
    let reuse = match root.get("reuse") {
        None => Reuse::default(),
        Some(node) => serde_json::from_value(scope.resolve(node, None).ok()?.json()).ok()?,
    };
    let design = match (&design, unit) {
        (Some(design), Some(declared)) => {
            let unit = place(&declared);
            let kinds = in_order.iter().map(|i| drafts[*i].kind);
            let kinds = kinds.collect::<Option<TiVec<_, _>>>()?;
            let design = design.finish(unit, (&stages, &kinds), &axes, seed, sink);
            if design.until.is_some() {
                let drafts: TiVec<StageId, &Draft<'_>> =
                    in_order.iter().map(|i| &drafts[*i]).collect();
                look_repeatedly(&mut stages, &kinds, &drafts, sink);
            }
            Some(design)
        }
        _ => None,
    };
    let kinds = in_order.iter().map(|i| drafts[*i].kind);
    share(
        &mut stages,
        &kinds.collect::<Option<TiVec<_, _>>>()?,
        design.as_ref().and_then(|design| arm(design, &axes)),
    );
    let profile = profile.map(|(name, _)| name);
    let parts = Parts {
        root,
        name: &name,
        seed,
        profile,
        parameters: &values,
        axes: &axes,
        drafts: &drafts,
        stages: &stages,
        design: design.as_ref(),
    };
    let mut spec = spec(&parts);
    let claims = claims(&library, registry);
    if !claims.is_empty() {
        spec["claims"] = Json::Object(claims);
        spec.sort_all_objects();
    }
    Some(Experiment {
        spec,
        profile: profile.map(str::to_owned),
        file: file.to_owned(),
        sources: library.sources(),
        seed,
        order,
        reuse,
        design,
        axes: axes
            .into_iter()
            .map(|a| Axis {
                name: a.name,
                labels: a.labels,
                declared: a.declared,
                fields: a.fields,
            })
            .collect(),
        stages,
        name,
    })
}

/// Lets pure stages know that the study looks at its figures after each block.
fn look_repeatedly(
    stages: &mut TiSlice<StageId, Stage>,
    kinds: &TiSlice<StageId, &dyn StageKind>,
    drafts: &TiSlice<StageId, &Draft<'_>>,
    sink: &Sink,
) {
    let all = stages.iter_mut().zip(kinds).zip(drafts);
    for ((stage, kind), draft) in all.filter(|((stage, _), _)| stage.class == Class::Pure) {
        for set in &mut stage.parameter_sets {
            match kind.looked_at_repeatedly(std::mem::take(set)) {
                Ok(known) => *set = known,
                // The others have the same mistakes.
                Err(problems) => {
                    for problem in problems {
                        sink.add(draft.mistake(draft.node, problem));
                    }
                    break;
                }
            }
        }
    }
}

/// Returns the axis of the A/A arm, its label, and the label that it stands for.
fn arm(design: &crate::design::Design, axes: &Axes) -> Option<(String, String, String)> {
    let control = design.control?;
    let axis = &axes[control.axis];
    let label = |at: u16| axis.labels[usize::from(at)].to_string();
    let (arm, stands_for) = (label(control.label), label(control.stands_for));
    Some((axis.name.clone(), arm, stands_for))
}

/// Tells each pure stage with verdicts what they share with those of others.
fn share(
    stages: &mut TiSlice<StageId, Stage>,
    kinds: &TiSlice<StageId, &dyn StageKind>,
    control: Option<(String, String, String)>,
) {
    let decides = |stage: &Stage, kind: &&dyn StageKind, set: u32| {
        stage.class == Class::Pure && kind.decides(&stage.parameter_sets[set as usize])
    };
    let cells = stages.iter().zip(kinds).flat_map(|(stage, kind)| {
        let cells = stage.cells.iter();
        cells.filter(move |cell| decides(stage, kind, cell.parameters))
    });
    let cells = cells.count();
    let shared = Shared { cells, control };
    let pure = stages.iter_mut().zip(kinds);
    for (stage, kind) in pure.filter(|(stage, _)| stage.class == Class::Pure) {
        for set in &mut stage.parameter_sets {
            if kind.decides(set) {
                *set = kind.sharing(std::mem::take(set), &shared);
            }
        }
    }
}

/// Returns the claims declared, by name: what is said before it is measured, and so a part of
/// the experiment and not of the stage that judges it.
fn claims(library: &Layers<'_>, registry: &Registry) -> serde_json::Map<String, Json> {
    let known = registry
        .collections
        .iter()
        .any(|(name, _)| *name == "claims");
    let names = if known {
        library.names("claims")
    } else {
        Vec::new()
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), library.find("claims", &name)?)))
        .collect()
}

/// Returns the profile in force with its name.
fn profile<'a>(root: &'a Node, options: &Options, sink: &Sink) -> Option<(&'a str, &'a Node)> {
    let wanted = options.profile.as_deref()?;
    let profiles = root.get("profiles").map(Node::entries).unwrap_or_default();
    match profiles.iter().find(|(key, _)| key.text == wanted) {
        Some((key, node)) => Some((&key.text, node)),
        None => {
            let names = profiles.iter().map(|(key, _)| key.text.as_str());
            let message = format!("the experiment has no profile `{wanted}`");
            sink.argument(
                format!("--profile {wanted}"),
                message,
                Some(remedy(wanted, "profiles", names)),
            );
            None
        }
    }
}

/// Checks the sections whose placeholders may only be parameters.
fn check_root(root: &Node, schema: &Json, values: &Values, registry: &Registry, sink: &Sink) {
    let scope = Scope::of_parameters(values);
    let expand = |text: &str, span: Span, route: &[Step]| scope.values(text, span, route);
    let collections: Vec<String> = registry
        .collections
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let here =
        |key: &str| !["parameters", "profiles", "axes", "overrides", "experiment"].contains(&key);
    let is_collection = |key: &str| collections.iter().any(|c| c == key);
    let part = |keep: &dyn Fn(&str) -> bool| {
        let entries = root
            .entries()
            .iter()
            .filter(|(k, _)| keep(&k.text))
            .cloned()
            .collect();
        Node {
            span: root.span,
            value: Value::Map(entries),
        }
    };
    let plain = Checker {
        other_keys: &collections,
        ..Checker::of(schema)
    };
    let with_values = Checker {
        expand: Some(&expand),
        ..plain
    };
    let mut out = with_values.check(schema, &part(&|k| here(k) && !is_collection(k)), &[]);
    out.retain(|m| m.kind != MistakeKind::MissingKey || !m.route.is_empty());
    let mut rest = schema.clone();
    if let Some(properties) = rest["properties"].as_object_mut() {
        for (key, property) in properties.iter_mut() {
            if here(key) || ["parameters", "axes"].contains(&key.as_str()) {
                // Checked elsewhere; only what the key means is still of use here.
                *property = serde_json::json!({ "description": property.get("description") });
            }
        }
        properties.extend(collections.iter().map(|c| (c.clone(), Json::Bool(true))));
    }
    let known = part(&|k| schema["properties"].get(k).is_some() || is_collection(k));
    out.extend(Checker::of(&rest).check(&rest, &known, &[]));
    if let Some(seed) = root.get("seed").filter(|n| matches!(n.value, Value::Null)) {
        out.push(
            Mistake::new(seed.span, &[Step::Key("seed".into())], "the seed is empty")
                .hint("give a whole number"),
        );
    }
    if let Some(node) = root.get("experiment")
        && let Some(name) = node.text()
    {
        check_name(
            name,
            "experiment",
            node.span,
            &[Step::Key("experiment".into())],
            &mut out,
        );
    }
    out.into_iter().for_each(|m| sink.add(m));
}

/// Checks the profiles that are not in force; the other is checked as it is used.
fn check_profiles(root: &Node, in_force: Option<&str>, values: &Values, sink: &Sink) {
    let scope = Scope::of_parameters(values);
    let declared = root.get("axes").map(Node::entries).unwrap_or_default();
    for (key, node) in root.get("profiles").map(Node::entries).unwrap_or_default() {
        let route = [Step::Key("profiles".into()), Step::Key(key.text.clone())];
        check_profile_set(node, root.get("parameters"), &route, sink);
        for (axis_key, replacement) in node.get("axes").map(Node::entries).unwrap_or_default() {
            let mut route = route.to_vec();
            route.extend([Step::Key("axes".into()), Step::Key(axis_key.text.clone())]);
            let Some((_, axis_node)) = declared.iter().find(|(k, _)| k.text == axis_key.text)
            else {
                let names = declared.iter().map(|(k, _)| k.text.as_str());
                let message = format!("unknown axis `{}`", axis_key.text);
                let hint = remedy(&axis_key.text, "axes", names);
                sink.add(Mistake::new(axis_key.span, &route, message).hint(hint));
                continue;
            };
            let has_placeholder = replacement.json().to_string().contains("${");
            if in_force != Some(key.text.as_str()) && !has_placeholder {
                // What is wrong with the axis itself is reported where it is declared.
                let Ok(axis_node) = scope.resolve(axis_node, None) else {
                    continue;
                };
                let mut out = Vec::new();
                replaced(&axis_key.text, &axis_node, replacement, &route, &mut out);
                out.into_iter().for_each(|m| sink.add(m));
            }
        }
    }
}

/// Reads an axis that a profile replaces.
fn replaced(
    name: &str,
    declared: &Node,
    by: &Node,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> AxisDraft {
    let has_fields = !is_plain_list(declared) && declared.get("from").is_none();
    if has_fields && is_plain_list(by) {
        let own = [Step::Key("axes".into()), Step::Key(name.to_owned())];
        return select(&axis(name, declared, &own, &mut Vec::new()), by, route, out);
    }
    axis(name, by, route, out)
}

fn axes(
    root: &Node,
    profile: Option<(&str, &Node)>,
    values: &Values,
    checker: &Checker,
    sink: &Sink,
) -> TiVec<AxisId, AxisDraft> {
    let schema = checker
        .document
        .pointer("/$defs/Axis")
        .expect("the file's schema defines axes");
    let scope = Scope::of_parameters(values);
    let read = |node: &Node, route: &[Step], out: &mut Vec<Mistake>| -> Option<Node> {
        let before = out.len();
        scope.check(node, route, out);
        let broken = |text: &str| {
            scope
                .values(text, node.span, route)
                .is_ok_and(|values| values.is_empty())
        };
        if out.len() > before || any_text(node, &broken) {
            return None;
        }
        let node = scope.resolve(node, None).map_err(|m| out.push(m)).ok()?;
        out.extend(checker.check(schema, &node, route));
        (out.len() == before).then_some(node)
    };
    let mut axes = TiVec::new();
    let section = root.get("axes");
    if let Some(section) = section.filter(|s| !matches!(s.value, Value::Map(_))) {
        let message = format!("expected a mapping, found {}", section.describe());
        let hint = "write axes as `axes: {name: [label, label]}`";
        sink.add(Mistake::new(section.span, &[Step::Key("axes".into())], message).hint(hint));
    }
    for (key, node) in section.map(Node::entries).unwrap_or_default() {
        let route = [Step::Key("axes".into()), Step::Key(key.text.clone())];
        let mut out = Vec::new();
        check_name(&key.text, "axis", key.span, &route, &mut out);
        if values.contains_key(&key.text) {
            let message = format!("`{}` is both a parameter and an axis", key.text);
            let hint = format!("rename one: `${{{}}}` could mean either", key.text);
            out.push(Mistake::new(key.span, &route, message).hint(hint));
        }
        let declared = read(node, &route, &mut out);
        let replacement =
            profile.and_then(|(name, p)| Some((name, p.get("axes")?.get(&key.text)?)));
        let draft = match (declared, replacement) {
            (Some(declared), Some((name, by))) => {
                let route = ["profiles", name, "axes", &key.text].map(|s| Step::Key(s.to_owned()));
                read(by, &route, &mut out)
                    .map(|by| replaced(&key.text, &declared, &by, &route, &mut out))
            }
            (Some(declared), None) => Some(axis(&key.text, &declared, &route, &mut out)),
            (None, _) => None,
        };
        let broken = AxisDraft {
            name: key.text.clone(),
            labels: Vec::new(),
            fields: Vec::new(),
            declared: 0,
            dropped: Vec::new(),
            arm: None,
            broken: true,
        };
        axes.push(draft.filter(|_| out.is_empty()).unwrap_or(broken));
        out.into_iter().for_each(|m| sink.add(m));
    }
    axes
}

fn check_overridden(overrides: &[Node], stages: &[&str], sink: &Sink) {
    for (i, node) in overrides.iter().enumerate() {
        let Some(stage) = node.get("where").and_then(|w| w.get("stage")) else {
            continue;
        };
        let Some(name) = stage.text().filter(|name| !stages.contains(name)) else {
            continue;
        };
        let route = [
            Step::Key("overrides".into()),
            Step::Index(i),
            Step::Key("where".into()),
            Step::Key("stage".into()),
        ];
        let hint = remedy(name, "stages", stages.iter().copied());
        sink.add(Mistake::new(stage.span, &route, format!("unknown stage `{name}`")).hint(hint));
    }
}

fn any_text(node: &Node, test: &dyn Fn(&str) -> bool) -> bool {
    match &node.value {
        Value::Text(text) => text.contains("${") && test(text),
        _ => {
            node.items().iter().any(|n| any_text(n, test))
                || node.entries().iter().any(|(_, n)| any_text(n, test))
        }
    }
}

/// Returns the tree with the parameters in the experiment's own definitions resolved, and the
/// definitions of which nothing can be said because a placeholder in them is wrong, or the
/// parameter behind it. Axes have no label there: a definition is the same for every cell that
/// names it.
fn with_definitions_resolved(
    root: &Node,
    values: &Values,
    axes: &Axes,
    registry: &Registry,
    sink: &Sink,
) -> (Node, BTreeSet<(String, String)>) {
    let scope = Scope {
        parameters: values,
        axes,
        over: &[],
        labels: &[],
    };
    let mut hidden = BTreeSet::new();
    let mut resolved = root.clone();
    let Value::Map(sections) = &mut resolved.value else {
        return (resolved, hidden);
    };
    for (collection, section) in sections {
        if !registry
            .collections
            .iter()
            .any(|(name, _)| *name == collection.text)
        {
            continue;
        }
        let Value::Map(definitions) = &mut section.value else {
            continue;
        };
        for (key, node) in definitions {
            let mut mistakes = Vec::new();
            scope.check(
                node,
                &[&collection.text, &key.text].map(|s| Step::Key(s.clone())),
                &mut mistakes,
            );
            match scope.resolve(node, None) {
                Ok(definition) if mistakes.is_empty() && !scope.hides(node) => *node = definition,
                _ => {
                    hidden.insert((collection.text.clone(), key.text.clone()));
                }
            }
            for mut mistake in mistakes {
                if mistake.kind == MistakeKind::NoValue {
                    let hint = "definitions may use only parameters; use axes in the settings of \
                        a stage";
                    mistake = mistake.hint(hint);
                }
                sink.add(mistake);
            }
        }
    }
    (resolved, hidden)
}
