//! Stages to cells: the product of the axes, minus exclusions, plus inclusions, each cell with
//! its canonical parameters.
//!
//! A stage's settings depend on few of its axes. For each distinct combination of those labels
//! they are resolved and made canonical once; ten thousand cells cost a table look-up each.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::axes::AxisDraft;
use super::check::Checker;
use super::diagnostics::{Mistake, Sink, Span};
use super::grammar::common_schema;
use super::interpolate::{MERGE, Scope, Values, merged};
use super::library::Layers;
use super::settings::DurationText;
use super::stages::{Choice, Draft, choice, coordinates, included, path_remedy};
use super::tree::{Key, Node, Value, scalar_json};
use crate::design::BLOCK;
use crate::experiment::{Cell, Excluded, Stage};
use crate::stage::{Adopted, Class, Json, Step};

/// The most cells of one stage.
const MAX_CELLS: usize = 1_000_000;

/// What expanding a stage needs beside the stage.
pub(crate) struct Context<'a> {
    pub(crate) parameters: &'a Values,
    pub(crate) library: &'a Layers<'a>,
    pub(crate) sink: &'a Sink,
    /// The `overrides` of the experiment.
    pub(crate) overrides: &'a [Node],
}

/// The settings of some cells: those written, or with overrides applied.
struct Variant {
    settings: Node,
    timeout: Option<Node>,
    retries: Option<Node>,
    /// The reasons of the overrides applied.
    note: Option<String>,
    /// Positions in `over` that the settings refer to, and parameter sets by their labels.
    refers: Vec<usize>,
    sets: HashMap<Vec<u16>, u32>,
    /// The same for the limits.
    limit_refers: Vec<usize>,
    limits: HashMap<Vec<u16>, (Option<Duration>, u32)>,
}

/// A rule with the number of cells it has met.
struct Rule<'n> {
    choice: Choice,
    node: &'n Node,
    index: usize,
    hits: usize,
}

/// A cell that is included beyond the product: its position on each axis, why, and where it is written.
pub(crate) type Inclusion = (Vec<u16>, String, Span);

/// Adds the labels of included cells to the axes, and returns the cells.
pub(crate) fn inclusions(
    draft: &Draft,
    axes: &mut [AxisDraft],
    parameters: &Values,
    sink: &Sink,
) -> Vec<Inclusion> {
    let mut found = Vec::new();
    for (i, include) in draft
        .node
        .get("include")
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        let Some((key, coordinates)) = include.entry("coordinates") else {
            continue;
        };
        if !matches!(coordinates.value, Value::Map(_)) {
            continue;
        }
        let reason = reason(include).unwrap_or_default();
        let mut route = draft.route(&["include"]);
        route.extend([Step::Index(i), Step::Key("coordinates".into())]);
        let scope = Scope {
            parameters,
            axes,
            over: &[],
            labels: &[],
        };
        if scope.hides(coordinates) {
            continue;
        }
        let mut out = Vec::new();
        match scope.resolve(coordinates, None) {
            Ok(coordinates) => {
                for coordinates in in_every_block(coordinates, draft, axes) {
                    if let Some(at) = included(&coordinates, &draft.over, axes, &route, &mut out) {
                        found.push((at, reason.clone(), key.span));
                    }
                }
            }
            Err(mistake) => out.push(Mistake { route, ..mistake }),
        }
        out.into_iter().for_each(|m| sink.add(m));
    }
    found
}

/// Returns the coordinates of an included cell for each block, unless they name one.
fn in_every_block(coordinates: Node, draft: &Draft, axes: &[AxisDraft]) -> Vec<Node> {
    let blocks = axes
        .iter()
        .find(|axis| draft.in_blocks && axis.name == BLOCK);
    let Some(blocks) = blocks.filter(|_| coordinates.get(BLOCK).is_none()) else {
        return vec![coordinates];
    };
    let key = Key {
        text: BLOCK.to_owned(),
        span: coordinates.span,
    };
    let in_block = |label: &artifacts::Scalar| {
        let node = Node::from_json(&scalar_json(label), coordinates.span);
        let mut entries = coordinates.entries().to_vec();
        entries.push((key.clone(), node));
        Node {
            span: coordinates.span,
            value: Value::Map(entries),
        }
    };
    blocks.labels.iter().map(in_block).collect()
}

/// Expands a stage; `None` if something in it is wrong.
pub(crate) fn expand(
    draft: &Draft,
    axes: &[AxisDraft],
    drafts: &[Draft],
    (inclusions, before_it): (&[Inclusion], &[Option<Stage>]),
    context: &Context,
) -> Option<Stage> {
    let kind = draft.kind?;
    let gone = if kind.class() == Class::Pure {
        Vec::new()
    } else {
        gone(draft, before_it)
    };
    let before = context.sink.count();
    let over = &draft.over;
    let counts: Vec<usize> = over.iter().map(|axis| axes[*axis].declared).collect();
    let product = counts
        .iter()
        .try_fold(1usize, |product, n| product.checked_mul(*n));
    if product.is_none_or(|p| p > MAX_CELLS) {
        let message = format!("the stage `{}` has more than {MAX_CELLS} cells", draft.name);
        let hint = "use fewer axes in `over`, or fewer labels";
        context
            .sink
            .add(Mistake::new(draft.span, &draft.route(&["over"]), message).hint(hint));
        return None;
    }
    if let Some(mistake) = needs_two(draft, drafts) {
        context.sink.add(mistake);
        return None;
    }
    let labels: Vec<Vec<u16>> = (0..over.len())
        .map(|position| {
            let mut labels: Vec<u16> = (0..counts[position]).map(|i| i as u16).collect();
            for (at, _, _) in inclusions {
                if !labels.contains(&at[position]) {
                    labels.push(at[position]);
                }
            }
            labels
        })
        .collect();
    let scope = Scope {
        parameters: context.parameters,
        axes,
        over,
        labels: &labels,
    };
    let mut excludes = rules(draft, axes, context, "exclude");
    let mut overrides = rules(draft, axes, context, "overrides");
    let base = Variant::new(draft, &scope, &[], context);
    let mut variants: BTreeMap<Vec<usize>, usize> = BTreeMap::from([(Vec::new(), 0)]);
    let mut all: Vec<Variant> = vec![base];
    let mut cells: Vec<(Vec<u16>, usize, Option<&str>)> =
        Vec::with_capacity(product.unwrap_or_default());
    let mut excluded = Vec::new();
    let mut place = |at: Vec<u16>, reason, context: &Context| {
        let mut hit = Vec::new();
        for (i, rule) in overrides.iter_mut().enumerate() {
            if rule.choice.has(&at) {
                rule.hits += 1;
                hit.push(i);
            }
        }
        let variant = match variants.get(&hit) {
            Some(variant) => *variant,
            None => {
                let nodes: Vec<(&Node, usize)> = hit
                    .iter()
                    .map(|i| (overrides[*i].node, overrides[*i].index))
                    .collect();
                all.push(Variant::new(draft, &scope, &nodes, context));
                variants.insert(hit, all.len() - 1);
                all.len() - 1
            }
        };
        cells.push((at, variant, reason));
    };
    for number in 0..product.unwrap_or_default() {
        let mut rest = number;
        let mut at = vec![0u16; over.len()];
        for position in (0..over.len()).rev() {
            at[position] = (rest % counts[position]) as u16;
            rest /= counts[position];
        }
        let mut out = None;
        for rule in &mut excludes {
            if rule.choice.has(&at) {
                rule.hits += 1;
                out = out.or_else(|| Some(reason(rule.node).unwrap_or_default()));
            }
        }
        match out.or_else(|| gone.iter().find_map(|gone| gone.reason(&at))) {
            Some(reason) => excluded.push(Excluded {
                at: at.into_boxed_slice(),
                reason,
            }),
            None => place(at, None, context),
        }
    }
    let mut seen: Vec<&[u16]> = Vec::new();
    for (i, (at, reason, span)) in inclusions.iter().enumerate() {
        let mut route = draft.route(&["include"]);
        route.push(Step::Index(i));
        let of_product = at
            .iter()
            .zip(&counts)
            .all(|(label, n)| usize::from(*label) < *n);
        let text = coordinates(at, over, axes);
        if excluded.iter().any(|e| *e.at == **at) {
            let message = format!("the cell {text} is both excluded and included");
            context
                .sink
                .add(Mistake::new(*span, &route, message).hint("remove one of the two entries"));
        } else if of_product || seen.contains(&at.as_slice()) {
            let message = format!("the cell {text} is already there");
            let hint = "remove this entry: the axes, or an earlier entry, contain the cell";
            context
                .sink
                .add(Mistake::new(*span, &route, message).hint(hint));
        } else if let Some(needed) = lonely(draft, at, drafts, axes) {
            let message = format!("no cell of `{needed}` matches the cell {text}");
            let hint = format!("include one with the same labels in `{needed}` first");
            context
                .sink
                .add(Mistake::new(*span, &route, message).hint(hint));
        } else {
            seen.push(at);
            place(at.clone(), Some(reason.as_str()), context);
        }
    }
    let narrowed = over.iter().any(|axis| !axes[*axis].dropped.is_empty());
    for (rule, what) in excludes
        .iter()
        .map(|r| (r, "exclude"))
        .chain(overrides.iter().map(|r| (r, "override")))
    {
        if rule.hits == 0 && !narrowed {
            let (span, route) = rule.place(draft, what);
            let message = format!("this {what} matches no cell");
            let hint =
                "check for a label that another entry already excludes, or remove this entry";
            context
                .sink
                .add(Mistake::new(span, &route, message).hint(hint));
        }
    }
    if context.sink.count() > before {
        return None;
    }
    let mut sets = Sets::default();
    let cells: Vec<Cell> = cells
        .into_iter()
        .map(|(at, variant, included)| {
            let variant = &mut all[variant];
            let parameters = variant.parameters(&at, draft, &scope, context, &mut sets);
            let (timeout, retries) = variant.limits(&at, &scope);
            let note = included
                .map(str::to_owned)
                .into_iter()
                .chain(variant.note.clone());
            let note = note.reduce(|a, b| format!("{a}; {b}"));
            Cell {
                at: at.into_boxed_slice(),
                parameters,
                timeout,
                retries,
                note,
            }
        })
        .collect();
    if context.sink.count() > before {
        return None;
    }
    let needed = |position: &usize| {
        draft
            .needs
            .iter()
            .any(|n| drafts[*n].over.contains(&over[*position]))
    };
    let in_blocks = |position: &usize| draft.in_blocks && axes[over[*position]].name == BLOCK;
    let replicate = match kind.class() {
        Class::Measurement => {
            let own = &all[0].refers;
            let decisive = |position: &usize| needed(position) || !own.contains(position);
            // Where something is wrong already, cells may stand there without their parameters.
            if context.sink.count() == 0
                && let Some((a, b)) = twins(
                    &cells,
                    &(0..over.len()).filter(decisive).collect::<Vec<_>>(),
                    &|at| is_arm(at, over, axes),
                )
            {
                let text = |cell: &Cell| coordinates(&cell.at, over, axes);
                let message = format!(
                    "the cells {} and {} are the same measurement",
                    text(a),
                    text(b)
                );
                let hint = "make their settings differ, or exclude one of them; to repeat a \
                    measurement, use an axis that no setting refers to, such as `rep`";
                context
                    .sink
                    .add(Mistake::new(draft.span, &draft.route(&["over"]), message).hint(hint));
                return None;
            }
            if context.sink.count() == 0
                && let Some(mistake) = adopted_twice(draft, &cells, &sets, axes)
            {
                context.sink.add(mistake);
                return None;
            }
            let tells_apart = |position: &usize| !needed(position) && !own.contains(position);
            (0..over.len())
                .filter(|position| in_blocks(position) || tells_apart(position))
                .collect()
        }
        Class::Resource => (0..over.len()).filter(in_blocks).collect(),
        Class::Pure => Vec::new(),
    };
    Some(Stage {
        name: draft.name.to_owned(),
        kind: kind.name().to_owned(),
        class: kind.class(),
        needs: draft.needs.clone(),
        over: over.clone(),
        replicate,
        exclusive: draft.names("exclusive"),
        parameter_sets: sets.list,
        cells,
        excluded,
    })
}

/// The cells that a needed stage leaves out, of which each cell of the stage needs one.
struct Gone<'s> {
    /// For each axis of the needed stage, its position in the stage's own `over`.
    positions: Vec<usize>,
    reasons: HashMap<&'s [u16], &'s str>,
}

impl Gone<'_> {
    /// Returns why the cell that a cell needs is left out, if it is.
    fn reason(&self, at: &[u16]) -> Option<String> {
        let needed: Vec<u16> = self
            .positions
            .iter()
            .map(|position| at[*position])
            .collect();
        self.reasons
            .get(needed.as_slice())
            .map(|reason| (*reason).to_owned())
    }
}

/// Returns what the needed stages leave out, of those whose every axis the stage is expanded over: only
/// then is it one cell that a cell needs.
fn gone<'s>(draft: &Draft, stages: &'s [Option<Stage>]) -> Vec<Gone<'s>> {
    let needed = draft
        .needs
        .iter()
        .filter_map(|needed| stages[*needed].as_ref());
    needed
        .filter(|stage| !stage.excluded.is_empty())
        .filter_map(|stage| {
            let position = |axis: &usize| draft.over.iter().position(|own| own == axis);
            let positions = stage
                .over
                .iter()
                .map(position)
                .collect::<Option<Vec<_>>>()?;
            let reasons = stage.excluded.iter().map(|e| (&*e.at, e.reason.as_str()));
            Some(Gone {
                positions,
                reasons: reasons.collect(),
            })
        })
        .collect()
}

/// Finds two cells of a measurement that only their labels tell apart: their parameters are the same,
/// and so are their labels at the positions that decide something beside the parameters. Cells that
/// are included or overridden have a stated reason to be what they are.
fn twins<'c>(
    cells: &'c [Cell],
    decisive: &[usize],
    is_arm: &dyn Fn(&[u16]) -> bool,
) -> Option<(&'c Cell, &'c Cell)> {
    let mut seen: HashMap<(u32, Vec<u16>, bool), &Cell> = HashMap::new();
    cells
        .iter()
        .filter(|cell| cell.note.is_none())
        .find_map(|cell| {
            let labels = decisive.iter().map(|position| cell.at[*position]).collect();
            let key = (cell.parameters, labels, is_arm(&cell.at));
            Some((seen.insert(key, cell)?, cell))
        })
}

/// Finds two stages of a kind of which the stage can use only one.
fn needs_two(draft: &Draft, drafts: &[Draft]) -> Option<Mistake> {
    let gives = |setting: &str| draft.node.entry(setting).is_some();
    draft.kind?.uses_one(&gives).iter().find_map(|(kind, what)| {
        let of_kind = |n: &&usize| drafts[**n].kind.is_some_and(|k| k.name() == *kind);
        let mut found = draft.needs.iter().filter(of_kind).map(|n| drafts[*n].name);
        let (first, second) = (found.next()?, found.next()?);
        let message = format!(
            "the stage `{}` needs two stages of kind `{kind}`, `{first}` and `{second}`, but a cell \
             {what}",
            draft.name
        );
        let hint = format!(
            "make them one stage over an axis that this stage has in `over`, too, or write a stage \
             for each of `{first}` and `{second}`"
        );
        let span = draft.node.entry("needs").map_or(draft.span, |(_, needs)| needs.span);
        Some(Mistake::new(span, &draft.route(&["needs"]), message).hint(hint))
    })
}

/// Finds cells that adopt one and the same result, such as a whole file whose name lacks an axis.
fn adopted_twice(
    draft: &Draft,
    cells: &[Cell],
    sets: &Sets,
    axes: &[AxisDraft],
) -> Option<Mistake> {
    let kind = draft.kind?;
    let mut groups: Vec<(Adopted, Vec<&Cell>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for cell in cells {
        let Some(adopted) = kind.adopts(&sets.list[cell.parameters as usize]) else {
            continue;
        };
        let next = groups.len();
        let place = *places.entry(adopted.identity.clone()).or_insert(next);
        if place == next {
            groups.push((adopted, Vec::new()));
        }
        groups[place].1.push(cell);
    }
    let (adopted, group) = groups.into_iter().find(|(_, group)| group.len() > 1)?;
    let differ =
        (0..draft.over.len()).filter(|p| group.iter().any(|c| c.at[*p] != group[0].at[*p]));
    let missing: Vec<String> = differ
        .map(|position| format!("`${{{}}}`", axes[draft.over[position]].name))
        .collect();
    let text = |cell: &Cell| coordinates(&cell.at, &draft.over, axes);
    let others = match group.len() {
        2 => String::new(),
        n => format!(", {n} cells in all"),
    };
    let message = format!(
        "the cells {} and {} are given one and the same result{others}",
        text(group[0]),
        text(group[1])
    );
    let keys: Vec<String> = adopted
        .chosen_by
        .iter()
        .map(|path| format!("`{}`", path.join(".")))
        .collect();
    let hint = format!(
        "put {} into {}, so that each cell has its own result, or remove the axis from `over`",
        missing.join(" and "),
        keys.join(" or ")
    );
    let path = adopted.chosen_by.into_iter().next().unwrap_or_default();
    let steps: Vec<Step> = path
        .iter()
        .map(|key| Step::Key((*key).to_owned()))
        .collect();
    let mut route = draft.route(&[]);
    route.extend(steps.iter().cloned());
    Some(Mistake::new(draft.settings.place(&steps), &route, message).hint(hint))
}

/// Tells whether a cell belongs to the A/A arm: it is the same as another one on purpose.
fn is_arm(at: &[u16], over: &[usize], axes: &[AxisDraft]) -> bool {
    let mut labels = over.iter().zip(at);
    labels.any(|(axis, label)| axes[*axis].arm.is_some_and(|arm| arm.label == *label))
}

/// Leaves out the settings whose placeholder is a field that the label does not have.
fn without_absent(written: &Node, resolved: Node) -> Node {
    let Value::Map(entries) = resolved.value else {
        return resolved;
    };
    let absent = |key: &str, value: &Node| {
        let by_placeholder = written.get(key).is_some_and(|node| node.text().is_some());
        by_placeholder && matches!(value.value, Value::Null)
    };
    let kept = entries
        .into_iter()
        .filter(|(key, value)| !absent(&key.text, value));
    Node {
        span: resolved.span,
        value: Value::Map(kept.collect()),
    }
}

/// The distinct parameter sets of a stage.
#[derive(Default)]
struct Sets {
    list: Vec<Json>,
    index: HashMap<String, u32>,
}

impl Variant {
    /// Applies overrides to a stage's settings and checks the outcome.
    fn new(draft: &Draft, scope: &Scope, overrides: &[(&Node, usize)], context: &Context) -> Self {
        let mut settings = draft.settings.clone();
        let mapping = |text: &str| {
            let values = scope.values(text, draft.span, &[]).unwrap_or_default();
            values
                .iter()
                .any(|value| matches!(value.value, Value::Map(_)))
        };
        let mut limits = [
            draft.node.get("timeout").cloned(),
            draft.node.get("retries").cloned(),
        ];
        let mut reasons = Vec::new();
        for (node, index) in overrides {
            reasons.extend(reason(node));
            for (key, value) in node.get("set").map(Node::entries).unwrap_or_default() {
                let route = [
                    Step::Key("overrides".into()),
                    Step::Index(*index),
                    Step::Key("set".into()),
                    Step::Key(key.text.clone()),
                ];
                match key.text.as_str() {
                    "timeout" => limits[0] = Some(value.clone()),
                    "retries" => limits[1] = Some(value.clone()),
                    "kind" | "needs" | "over" | "exclude" | "include" | "exclusive"
                    | "description" => {
                        let message =
                            format!("`{}` cannot differ between the cells of a stage", key.text);
                        let hint = "change it in the stage, for all its cells";
                        context
                            .sink
                            .add(Mistake::new(key.span, &route, message).hint(hint));
                    }
                    path => {
                        let parts: Vec<&str> = path.split('.').collect();
                        if !put(&mut settings, &parts, key, value, &mapping) {
                            let message = format!("the path `{path}` does not exist");
                            context.sink.add(
                                Mistake::new(key.span, &route, message).hint(path_remedy(draft)),
                            );
                        }
                    }
                }
            }
        }
        let [timeout, retries] = limits;
        let limit_refers = timeout
            .iter()
            .chain(&retries)
            .flat_map(|node| scope.references(node))
            .collect();
        let variant = Self {
            refers: scope.references(&settings).into_iter().collect(),
            settings,
            timeout,
            retries,
            note: (!reasons.is_empty()).then(|| reasons.join("; ")),
            sets: HashMap::new(),
            limit_refers,
            limits: HashMap::new(),
        };
        variant.check(draft, scope, context);
        variant
    }

    fn check(&self, draft: &Draft, scope: &Scope, context: &Context) {
        let Some(kind) = draft.kind else { return };
        let expand = |text: &str, span: Span, route: &[Step]| scope.values(text, span, route);
        let common = common_schema();
        let keys = super::stages::common_keys(&common);
        let schema = kind.schema().to_value();
        let checker = Checker {
            document: &schema,
            expand: Some(&expand),
            other_keys: &keys,
        };
        let mut out = checker.check(&schema, &self.settings, &draft.route(&[]));
        scope.check(&self.settings, &draft.route(&[]), &mut out);
        let checker = Checker {
            document: &common,
            expand: Some(&expand),
            other_keys: &[],
        };
        for (name, node) in [("timeout", &self.timeout), ("retries", &self.retries)] {
            if let Some(node) = node {
                out.extend(checker.check(&common["properties"][name], node, &draft.route(&[name])));
            }
        }
        out.into_iter().for_each(|m| context.sink.add(m));
    }

    fn parameters(
        &mut self,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
        sets: &mut Sets,
    ) -> u32 {
        let key: Vec<u16> = self.refers.iter().map(|position| at[*position]).collect();
        if let Some(index) = self.sets.get(&key) {
            return *index;
        }
        let index = self
            .canonical(at, draft, scope, context, sets)
            .unwrap_or_default();
        self.sets.insert(key, index);
        index
    }

    fn canonical(
        &self,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
        sets: &mut Sets,
    ) -> Option<u32> {
        let kind = draft.kind?;
        if scope.hides(&self.settings) {
            return None;
        }
        let mut settings = match scope.resolve(&self.settings, Some(at)) {
            Ok(settings) => without_absent(&self.settings, settings).json(),
            Err(mistake) => {
                context.sink.add(Mistake {
                    route: draft.route(&[]),
                    ..mistake
                });
                return None;
            }
        };
        sort(&mut settings, kind.ordered());
        match kind.canonical(&settings, context.library) {
            Ok(mut parameters) => {
                parameters.sort_all_objects();
                let next =
                    u32::try_from(sets.list.len()).expect("a stage has at most a million cells");
                let index = *sets.index.entry(parameters.to_string()).or_insert(next);
                if index == next {
                    sets.list.push(parameters);
                }
                Some(index)
            }
            // A definition that is itself wrong has been reported where it is wrong.
            Err(_) if context.library.take_broken() => None,
            Err(problems) => {
                for problem in problems {
                    context.sink.add(draft.mistake(&self.settings, problem));
                }
                None
            }
        }
    }

    fn limits(&mut self, at: &[u16], scope: &Scope) -> (Option<Duration>, u32) {
        let key: Vec<u16> = self
            .limit_refers
            .iter()
            .map(|position| at[*position])
            .collect();
        if let Some(limits) = self.limits.get(&key) {
            return *limits;
        }
        let value = |node: &Option<Node>| {
            scope
                .resolve(node.as_ref()?, Some(at))
                .ok()
                .map(|n| n.value)
        };
        let timeout = match value(&self.timeout) {
            Some(Value::Text(text)) => DurationText::parse(&text).ok().map(|span| span.0),
            _ => None,
        };
        let retries = match value(&self.retries) {
            Some(Value::Int(retries)) => u32::try_from(retries).unwrap_or_default(),
            _ => 0,
        };
        self.limits.insert(key, (timeout, retries));
        (timeout, retries)
    }
}

impl Rule<'_> {
    fn place(&self, draft: &Draft, what: &str) -> (Span, Vec<Step>) {
        let span = self
            .node
            .entry("where")
            .map_or(self.node.span, |(key, _)| key.span);
        let mut route = match what {
            "override" => vec![Step::Key("overrides".into())],
            _ => draft.route(&["exclude"]),
        };
        route.extend([Step::Index(self.index), Step::Key("where".into())]);
        (span, route)
    }
}

/// Reads the exclusions of a stage, or the overrides that name it.
fn rules<'n>(
    draft: &'n Draft,
    axes: &[AxisDraft],
    context: &Context<'n>,
    which: &str,
) -> Vec<Rule<'n>> {
    let own = draft
        .node
        .get("exclude")
        .map(Node::items)
        .unwrap_or_default();
    let (nodes, overriding) = if which == "exclude" {
        (own, false)
    } else {
        (context.overrides, true)
    };
    let mut found = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let Some(place) = node.get("where") else {
            continue;
        };
        // What is wrong with the shape of a rule has been told.
        if !matches!(&place.value, Value::Map(entries) if !entries.is_empty()) {
            continue;
        }
        let mut place = place.clone();
        if overriding {
            if place.get("stage").and_then(Node::text) != Some(draft.name) {
                continue;
            }
            if let Value::Map(entries) = &mut place.value {
                entries.retain(|(key, _)| key.text != "stage");
            }
        }
        let mut route = if overriding {
            vec![Step::Key("overrides".into())]
        } else {
            draft.route(&["exclude"])
        };
        route.extend([Step::Index(index), Step::Key("where".into())]);
        let mut out = Vec::new();
        let choice = choice(
            &place,
            &draft.over,
            axes,
            context.parameters,
            &route,
            &mut out,
        );
        out.into_iter().for_each(|m| context.sink.add(m));
        if let Some(choice) = choice {
            found.push(Rule {
                choice,
                node,
                index,
                hits: 0,
            });
        }
    }
    found
}

/// Returns a needed stage whose axes cannot have a cell for labels beyond those declared.
fn lonely<'a>(
    draft: &Draft,
    at: &[u16],
    drafts: &[Draft<'a>],
    axes: &[AxisDraft],
) -> Option<&'a str> {
    let beyond = |axis: &usize| {
        let position = draft.over.iter().position(|a| a == axis);
        position.is_some_and(|p| usize::from(at[p]) >= axes[*axis].declared)
    };
    let lacks = |needed: &&usize| {
        let needed = &drafts[**needed];
        needed.over.iter().any(beyond) && needed.node.get("include").is_none()
    };
    draft
        .needs
        .iter()
        .find(lacks)
        .map(|needed| drafts[*needed].name)
}

fn reason(node: &Node) -> Option<String> {
    Some(node.get("reason")?.text()?.trim().to_owned())
}

/// Makes a mapping that a placeholder stands for, or one that is merged, ready to have a key put into it:
/// what is put merges over the rest.
fn open(node: &mut Node, mapping: &dyn Fn(&str) -> bool) {
    let span = node.span;
    let empty = || Node {
        span,
        value: Value::Map(Vec::new()),
    };
    let parts = match (&node.value, merged(node)) {
        (Value::Text(text), _) if text.starts_with("${") && mapping(text) => {
            vec![node.clone(), empty()]
        }
        (_, Some(parts)) => {
            let mut parts = parts.to_vec();
            if !parts
                .last()
                .is_some_and(|last| matches!(last.value, Value::Map(_)))
            {
                parts.push(empty());
            }
            parts
        }
        _ => return,
    };
    let key = Key {
        text: MERGE.to_owned(),
        span,
    };
    let parts = Node {
        span,
        value: Value::List(parts),
    };
    node.value = Value::Map(vec![(key, parts)]);
}

/// Puts a value at a dotted path of settings; false if a part on the way is no mapping. `mapping` tells whether
/// a placeholder stands for one.
fn put(
    node: &mut Node,
    path: &[&str],
    key: &Key,
    value: &Node,
    mapping: &dyn Fn(&str) -> bool,
) -> bool {
    if path.is_empty() {
        return false;
    }
    open(node, mapping);
    let Value::Map(entries) = &mut node.value else {
        return false;
    };
    let [first, rest @ ..] = path else {
        return false;
    };
    if first.is_empty() {
        return false;
    }
    if let [(only, parts)] = entries.as_mut_slice()
        && only.text == MERGE
        && let Value::List(parts) = &mut parts.value
        && let Some(last) = parts.last_mut()
    {
        return put(last, path, key, value, mapping);
    }
    let position = entries
        .iter()
        .position(|(k, _)| k.text == *first)
        .unwrap_or_else(|| {
            let empty = Node {
                span: key.span,
                value: Value::Map(Vec::new()),
            };
            entries.push((
                Key {
                    text: (*first).to_owned(),
                    span: key.span,
                },
                empty,
            ));
            entries.len() - 1
        });
    match rest {
        [] => {
            entries[position].1 = value.clone();
            true
        }
        rest => put(&mut entries[position].1, rest, key, value, mapping),
    }
}

/// Sorts the keys of all mappings but those of `ordered` settings, whose own entries are sorted within.
fn sort(settings: &mut Json, ordered: &[&str]) {
    let Json::Object(map) = settings else {
        return settings.sort_all_objects();
    };
    for (name, value) in map.iter_mut() {
        match value {
            Json::Object(entries) if ordered.contains(&name.as_str()) => {
                entries.values_mut().for_each(Json::sort_all_objects);
            }
            _ => value.sort_all_objects(),
        }
    }
    map.sort_keys();
}
