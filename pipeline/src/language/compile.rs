//! Compiles text into an experiment, in the order in which names become known: parameters, axes, definitions, stages,
//! cells.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use typed_index_collections::{TiSlice, TiVec};

use super::axes::{Axes, AxisDraft};
use super::check::Checker;
use super::declared_axes::axes;
use super::definitions::{claims, with_definitions_resolved};
use super::design::{self, DesignDraft};
use super::diagnostics::{Diagnostics, Mistake, Sink, Span};
use super::expand::{Context, Expanded, expand};
use super::extends::extended;
use super::files::Files;
use super::grammar::file_schema;
use super::inclusions::{Inclusion, inclusions};
use super::interpolate::{Scope, Values};
use super::library::Layers;
use super::parameters::parameters;
use super::renamed::with_our_keys;
use super::sections::{check_overridden, check_profiles, check_root, no_experiment};
use super::shared::{arm, look_repeatedly, share};
use super::spec::{Parts, add_launches, spec};
use super::stages::{Draft, Drafts, drafts, order};
use super::tree::{Node, Value};
use super::{needs, parse, respelt, secrets, unused};
use crate::experiment::{Axis, Experiment, Order, Stage};
use crate::ids::{AxisId, DraftId, StageId};
use crate::plan::Launches;
use crate::reuse::Reuse;
use crate::stage::{Json, Library, Registry};
use crate::suggest::remedy;

/// The user's options in addition to the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parameter values from the command line, as typed: `("requests", "32")`.
    pub set: Vec<(String, String)>,
    /// The profile to apply.
    pub profile: Option<String>,
    /// Folders with the user's own definitions (`engines/NAME.yaml` and so on below them).
    pub user_folders: Vec<PathBuf>,
    /// Whether the text is a part of a study, whose stages may need stages defined elsewhere.
    pub partial: bool,
}

/// Compiles a text as an experiment. Reads only `files`, and only for definitions that are used.
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

/// Looks up definitions outside any experiment: those in the user's folders and those that ship with the program.
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
    // A wrong definition is reported where it is used.
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
    if let Some(mistake) = no_experiment(root, &schema, registry) {
        sink.add(mistake);
        return None;
    }
    let root = &with_our_keys(root, &schema, sink);
    let plain = Checker::of(&schema);
    let profile = profile(root, options, sink);
    let values = parameters(root, profile, &options.set, &plain, sink);
    check_root(root, &schema, &values, registry, sink);
    check_profiles(root, profile.map(|(name, _)| name), &values, sink);

    let mut axes = axes(root, profile, &options.set, &values, &plain, sink);
    let design = design::read(root, profile, &values, &plain, &mut axes, sink);
    // If something else is wrong at the top of the file, that may be the design.
    let design_unread = design.is_none() && sink.count() > 0;
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
        respelt::check(root, sink);
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
    let context = Context {
        parameters: &values,
        library: &library,
        sink,
        overrides,
        design_unread,
    };
    let (in_order, stages) = compile_stages(&drafts, &mut axes, &context, options.partial)?;
    if sink.count() > 0 {
        return None;
    }
    // Definitions have been searched when they were read.
    let collections: Vec<&str> = registry.collections.iter().map(|(name, _)| *name).collect();
    secrets::check(root, &[], &collections, sink);
    secrets::check_arguments(&options.set, sink);
    let study = Study {
        root,
        profile: profile.map(|(name, _)| name),
        values: &values,
        axes,
        drafts: &drafts,
        in_order,
        stages,
        design: design.as_ref().zip(unit),
    };
    study.finish(file, registry, &library, sink)
}

/// Compiles the stages, each after those it needs; `None` if one is wrong. Checks a `partial` text only as far as it goes
/// alone.
fn compile_stages(
    drafts: &Drafts<'_>,
    axes: &mut TiVec<AxisId, AxisDraft>,
    context: &Context<'_>,
    partial: bool,
) -> Option<(TiVec<StageId, DraftId>, TiVec<StageId, Stage>)> {
    let (library, sink) = (context.library, context.sink);
    let in_order = order(drafts, sink);
    let mut included_in = |draft: &Draft<'_>| match draft.broken {
        true => Vec::new(),
        false => inclusions(draft, axes, context.parameters, sink),
    };
    let included: TiVec<DraftId, _> = drafts.iter().map(&mut included_in).collect();
    library.tell_axes(axes);
    if partial || context.design_unread {
        library.tell_blocks();
    }
    let sequence = in_order.clone();
    let sequence = sequence.unwrap_or_else(|| drafts.keys().collect());
    let expanded = expand_all(drafts, &sequence, &included, axes, context);
    let in_order = in_order?;
    if !partial && expanded.iter().any(Option::is_none) {
        // Check the remaining stages now, so that all mistakes are reported at once.
        for (stage, draft) in expanded.iter().zip(drafts) {
            if let Some(stage) = stage {
                needs::check_alone(stage, draft, drafts, library, sink);
            }
        }
    }
    let (mut stages, written) = put_in_order(expanded, drafts, &in_order)?;
    if !partial {
        let drafts_in_order: TiVec<StageId, &Draft<'_>> =
            in_order.iter().map(|i| &drafts[*i]).collect();
        let all = needs::Stages {
            stages: &stages,
            drafts: &drafts_in_order,
            written: &written,
            axes,
        };
        needs::check(&all, library, sink);
        let informed = needs::informed(&all, library);
        for (stage, sets) in stages.iter_mut().zip(informed) {
            stage.parameter_sets = sets;
        }
    }
    Some((in_order, stages))
}

/// A text without mistakes, with its stages compiled.
struct Study<'a> {
    root: &'a Node,
    profile: Option<&'a str>,
    values: &'a Values,
    axes: TiVec<AxisId, AxisDraft>,
    drafts: &'a Drafts<'a>,
    in_order: TiVec<StageId, DraftId>,
    stages: TiVec<StageId, Stage>,
    /// The design, with the stage whose cells are its units.
    design: Option<(&'a DesignDraft, DraftId)>,
}

impl Study<'_> {
    /// Applies what the design and the order of cells decide, and writes the canonical form.
    fn finish(
        self,
        file: &Path,
        registry: &Registry,
        library: &Layers<'_>,
        sink: &Sink,
    ) -> Option<Experiment> {
        let Self {
            root,
            profile,
            values,
            axes,
            drafts,
            in_order,
            mut stages,
            design,
        } = self;
        let name = root.get("experiment")?.text()?.to_owned();
        let Constants { seed, order, reuse } = Constants::of(root, values, &axes)?;
        let drafts_in_order: TiVec<StageId, &Draft<'_>> =
            in_order.iter().map(|i| &drafts[*i]).collect();
        let kinds = drafts_in_order.iter().map(|draft| draft.kind);
        let kinds = kinds.collect::<Option<TiVec<StageId, _>>>()?;
        let design = design.map(|(design, declared)| {
            let unit = place(&in_order, declared);
            design.finish(unit, (&stages, &kinds), &axes, seed, sink)
        });
        if design.as_ref().is_some_and(|design| design.until.is_some()) {
            look_repeatedly(&mut stages, &kinds, &drafts_in_order, sink);
        }
        let control = design.as_ref().and_then(|design| arm(design, &axes));
        let parts = Parts {
            root,
            name: &name,
            seed,
            profile,
            parameters: values,
            axes: &axes,
            drafts,
            stages: &stages,
            design: design.as_ref(),
        };
        let mut spec = spec(&parts);
        let claims = claims(library, registry);
        if !claims.is_empty() {
            spec["claims"] = Json::Object(claims);
            spec.sort_all_objects();
        }
        let axes = axes.into_iter().map(|a| Axis {
            name: a.name,
            labels: a.labels,
            declared: a.declared,
            fields: a.fields,
            left_out: a.dropped,
        });
        let mut experiment = Experiment {
            spec,
            profile: profile.map(str::to_owned),
            file: file.to_owned(),
            sources: library.sources(),
            seed,
            order,
            reuse,
            design,
            axes: axes.collect(),
            stages,
            name,
        };
        let launches = Launches::of(&experiment, registry).ok()?;
        add_launches(&mut experiment, &launches);
        share(&mut experiment.stages, &kinds, control, &launches);
        Some(experiment)
    }
}

/// Expands the stages in a sequence in which each stage follows those it needs, because a stage leaves out the cells
/// whose needs are left out. `None` for a stage that is wrong.
fn expand_all(
    drafts: &Drafts<'_>,
    sequence: &TiSlice<StageId, DraftId>,
    included: &TiSlice<DraftId, Vec<Inclusion>>,
    axes: &Axes,
    context: &Context<'_>,
) -> TiVec<DraftId, Option<Expanded>> {
    let mut stages: TiVec<DraftId, Option<Expanded>> = drafts.iter().map(|_| None).collect();
    for id in sequence {
        let draft = &drafts[*id];
        if !draft.broken {
            stages[*id] = expand(draft, axes, drafts, (&included[*id], &stages), context);
        }
    }
    stages
}

/// Stages in order, with the settings that each of their parameter sets was made from.
type InOrder = (TiVec<StageId, Stage>, TiVec<StageId, Vec<Rc<Node>>>);

/// Orders the stages by their needs, with the settings that their parameter sets were made from; `None` if a stage is
/// wrong.
fn put_in_order(
    mut expanded: TiVec<DraftId, Option<Expanded>>,
    drafts: &Drafts<'_>,
    in_order: &TiSlice<StageId, DraftId>,
) -> Option<InOrder> {
    let (mut stages, mut written) = (TiVec::new(), TiVec::new());
    for declared in in_order {
        let (mut stage, settings) = expanded[*declared].take()?;
        let needs = drafts[*declared].needs.iter();
        stage.needs = needs.map(|needed| place(in_order, *needed)).collect();
        stages.push(stage);
        written.push(settings);
    }
    Some((stages, written))
}

/// Returns the position of a declared stage in the order.
fn place(in_order: &TiSlice<StageId, DraftId>, declared: DraftId) -> StageId {
    let place = in_order.position(|draft| *draft == declared);
    place.expect("every stage is in the order")
}

/// The values of single keys, in which only parameters may be used.
struct Constants {
    seed: u64,
    order: Order,
    reuse: Reuse,
}

impl Constants {
    fn of(root: &Node, values: &Values, axes: &Axes) -> Option<Self> {
        let scope = Scope {
            parameters: values,
            axes,
            over: &[],
            labels: &[],
        };
        let value = |node: &Node| Some(scope.resolve(node, None).ok()?.json());
        let order = match root.get("order") {
            None => Order::default(),
            Some(node) => serde_json::from_value(value(node)?).ok()?,
        };
        let reuse = match root.get("reuse") {
            None => Reuse::default(),
            Some(node) => serde_json::from_value(value(node)?).ok()?,
        };
        Some(Self {
            seed: value(root.get("seed")?)?.as_u64()?,
            order,
            reuse,
        })
    }
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
            let hint = match profiles.is_empty() {
                true => format!(
                    "leave the option out, or declare one: `profiles: {{{wanted}: {{axes: {{AXIS: [LABEL]}}}}}}`"
                ),
                false => remedy(wanted, "profiles", names),
            };
            sink.argument(&format!("--profile {wanted}"), message, Some(hint));
            None
        }
    }
}
