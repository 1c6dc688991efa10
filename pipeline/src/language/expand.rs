//! Expands stages into cells: the product of the axes, minus exclusions, plus inclusions. Each cell gets its canonical
//! parameters.
//!
//! A stage's settings depend on few of its axes. They are resolved and made canonical once for each distinct
//! combination of those labels, so ten thousand cells cost one table lookup each.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use typed_index_collections::TiSlice;

use super::axes::Axes;
use super::diagnostics::{Mistake, Sink};
use super::inclusions::{Inclusion, lonely};
use super::interpolate::{Scope, Values};
use super::library::Layers;
use super::rules::{Rule, reason, rules};
use super::same::{adopted_twice, is_arm, needs_two, twins};
use super::stages::{Draft, Drafts, coordinates};
use super::tree::Node;
use super::variant::{Sets, Variant};
use crate::cause::Cause;
use crate::design::BLOCK;
use crate::experiment::{Cell, Excluded, Stage};
use crate::ids::{AxisId, DraftId};
use crate::stage::{Class, Step};

/// The largest number of cells of a stage.
const MAX_CELLS: usize = 1_000_000;

/// The context for expanding a stage.
pub(crate) struct Context<'a> {
    pub(crate) parameters: &'a Values,
    pub(crate) library: &'a Layers<'a>,
    pub(crate) sink: &'a Sink,
    /// The `overrides` of the experiment.
    pub(crate) overrides: &'a [Node],
    /// Whether there may be a design that could not be read, so that the axis of blocks is missing.
    pub(crate) design_unread: bool,
}

/// A stage, with the settings that each of its parameter sets was made from.
pub(crate) type Expanded = (Stage, Vec<Rc<Node>>);

/// Expands a stage; `None` if it contains a mistake.
pub(crate) fn expand(
    draft: &Draft,
    axes: &Axes,
    drafts: &Drafts<'_>,
    (inclusions, before_it): (&[Inclusion], &TiSlice<DraftId, Option<Expanded>>),
    context: &Context,
) -> Option<Expanded> {
    let kind = draft.kind?;
    let before = context.sink.count();
    let counts: Vec<usize> = draft.over.iter().map(|a| axes[*a].declared).collect();
    let product = product_of(draft, &counts);
    let product = match product.and_then(|p| needs_two(draft, drafts).map_or(Ok(p), Err)) {
        Ok(product) => product,
        Err(mistake) => {
            context.sink.add(mistake);
            return None;
        }
    };
    let labels = labels_of(&counts, inclusions);
    let scope = Scope {
        parameters: context.parameters,
        axes,
        over: &draft.over,
        labels: &labels,
    };
    let mut expansion = Expansion {
        draft,
        axes,
        drafts,
        context,
        excludes: rules(draft, axes, context, "exclude"),
        overrides: rules(draft, axes, context, "overrides"),
        variants: vec![Variant::new(draft, &scope, &[], context)],
        variant_of: BTreeMap::from([(Vec::new(), 0)]),
        scope,
        placed: Vec::with_capacity(product),
        excluded: Vec::new(),
    };
    expansion.multiply(product, &counts, before_it);
    expansion.include(inclusions, &counts);
    expansion.complain_of_idle_rules();
    if context.sink.count() > before {
        expansion.report_beside();
        return None;
    }
    let (cells, sets) = expansion.cells();
    if context.sink.count() > before {
        return None;
    }
    let replicate = expansion.replicate(&cells, &sets)?;
    let stage = Stage {
        name: draft.name.to_owned(),
        kind: kind.name().to_owned(),
        class: kind.class(),
        // Set when the stages are in order.
        needs: Vec::new(),
        over: draft.over.clone(),
        replicate,
        exclusive: exclusive(draft, context),
        parameter_sets: sets.list,
        placements: sets.placements,
        cells: cells.into(),
        excluded: expansion.excluded,
    };
    Some((stage, sets.written))
}

/// Returns the names of the exclusive resources, with the parameters put in.
fn exclusive(draft: &Draft, context: &Context) -> Vec<String> {
    let scope = Scope::of_parameters(context.parameters);
    let items = draft.node.get("exclusive").map(Node::items);
    let name = |item: &Node| match scope.resolve(item, None) {
        Ok(resolved) => resolved.text().map(str::to_owned),
        // The check of the stage has reported the mistake.
        Err(_) => item.text().map(str::to_owned),
    };
    items.unwrap_or_default().iter().filter_map(name).collect()
}

/// Returns the number of cells in the product of the declared labels.
///
/// # Errors
/// If there are too many.
fn product_of(draft: &Draft, counts: &[usize]) -> Result<usize, Mistake> {
    let product = counts
        .iter()
        .try_fold(1usize, |product, n| product.checked_mul(*n));
    product.filter(|p| *p <= MAX_CELLS).ok_or_else(|| {
        let message = format!("the stage `{}` has more than {MAX_CELLS} cells", draft.name);
        let hint = "use fewer axes in `over`, or fewer labels";
        Mistake::new(draft.span, &draft.route(&["over"]), message).hint(hint)
    })
}

/// Returns the labels of the cells on each axis: first the declared ones, then those of included cells only.
fn labels_of(counts: &[usize], inclusions: &[Inclusion]) -> Vec<Vec<u16>> {
    let on_axis = |(position, count): (usize, &usize)| {
        let mut labels: Vec<u16> = (0..*count).map(|i| i as u16).collect();
        for (at, _, _) in inclusions {
            if !labels.contains(&at[position]) {
                labels.push(at[position]);
            }
        }
        labels
    };
    counts.iter().enumerate().map(on_axis).collect()
}

/// Returns the labels of a cell from its number in the product, the last axis varying fastest.
fn labels_at(number: usize, counts: &[usize]) -> Vec<u16> {
    let mut rest = number;
    let mut at = vec![0u16; counts.len()];
    for position in (0..counts.len()).rev() {
        at[position] = (rest % counts[position]) as u16;
        rest /= counts[position];
    }
    at
}

/// A placed cell: its labels, its variant of the settings, and the reason for its inclusion.
type Placed<'i> = (Vec<u16>, usize, Option<&'i str>);

/// A stage during expansion.
struct Expansion<'a, 'd> {
    draft: &'a Draft<'d>,
    axes: &'a Axes,
    drafts: &'a Drafts<'d>,
    context: &'a Context<'a>,
    scope: Scope<'a>,
    excludes: Vec<Rule<'a>>,
    overrides: Vec<Rule<'a>>,
    variants: Vec<Variant>,
    /// The variant for each set of overrides that apply to a cell.
    variant_of: BTreeMap<Vec<usize>, usize>,
    placed: Vec<Placed<'a>>,
    excluded: Vec<Excluded>,
}

impl<'a> Expansion<'a, '_> {
    /// Places the cells of the product that are not excluded.
    fn multiply(
        &mut self,
        product: usize,
        counts: &[usize],
        before_it: &TiSlice<DraftId, Option<Expanded>>,
    ) {
        let gone = gone(self.draft, before_it);
        for number in 0..product {
            let at = labels_at(number, counts);
            let mut out = None;
            for rule in &mut self.excludes {
                if rule.choice.has(&at) {
                    rule.hits += 1;
                    let declared = || Cause::declared(&reason(rule.node).unwrap_or_default());
                    out = out.or_else(|| Some(declared().to_string()));
                }
            }
            match out.or_else(|| gone.iter().find_map(|gone| gone.reason(&at))) {
                Some(reason) => self.excluded.push(Excluded {
                    at: at.into_boxed_slice(),
                    reason,
                }),
                None => self.place(at, None),
            }
        }
    }

    /// Places a cell, with the settings from the overrides that apply to it.
    fn place(&mut self, at: Vec<u16>, reason: Option<&'a str>) {
        let mut hit = Vec::new();
        for (i, rule) in self.overrides.iter_mut().enumerate() {
            if rule.choice.has(&at) {
                rule.hits += 1;
                hit.push(i);
            }
        }
        let variant = match self.variant_of.get(&hit) {
            Some(variant) => *variant,
            None => {
                let nodes: Vec<(&Node, usize)> = hit
                    .iter()
                    .map(|i| (self.overrides[*i].node, self.overrides[*i].index))
                    .collect();
                let variant = Variant::new(self.draft, &self.scope, &nodes, self.context);
                self.variants.push(variant);
                self.variant_of.insert(hit, self.variants.len() - 1);
                self.variants.len() - 1
            }
        };
        self.placed.push((at, variant, reason));
    }

    /// Places the valid included cells.
    fn include(&mut self, inclusions: &'a [Inclusion], counts: &[usize]) {
        let mut seen: Vec<&[u16]> = Vec::new();
        for (i, (at, reason, span)) in inclusions.iter().enumerate() {
            let mut route = self.draft.route(&["include"]);
            route.push(Step::Index(i));
            let mut labels = at.iter().zip(counts);
            let of_product = labels.all(|(label, n)| usize::from(*label) < *n);
            let text = coordinates(at, &self.draft.over, self.axes);
            let (message, hint) = if self.excluded.iter().any(|e| *e.at == **at) {
                (
                    format!("the cell {text} is both excluded and included"),
                    "remove one of the two entries".to_owned(),
                )
            } else if of_product || seen.contains(&at.as_slice()) {
                (
                    format!("the cell {text} already exists"),
                    "remove this entry: the axes, or an earlier entry, contain the cell".to_owned(),
                )
            } else if let Some(needed) = lonely(self.draft, at, self.drafts, self.axes) {
                (
                    format!("no cell of `{needed}` matches the cell {text}"),
                    format!("include one with the same labels in `{needed}` first"),
                )
            } else {
                seen.push(at);
                self.place(at.clone(), Some(reason.as_str()));
                continue;
            };
            let mistake = Mistake::new(*span, &route, message).hint(hint);
            self.context.sink.add(mistake);
        }
    }

    /// Reports each rule that applies to no cell as a slip, unless a profile leaves out labels.
    fn complain_of_idle_rules(&self) {
        let mut over = self.draft.over.iter();
        if over.any(|axis| !self.axes[*axis].dropped.is_empty()) {
            return;
        }
        let excludes = self.excludes.iter().map(|rule| (rule, "exclude"));
        let all = excludes.chain(self.overrides.iter().map(|rule| (rule, "override")));
        for (rule, what) in all.filter(|(rule, _)| rule.hits == 0) {
            let (span, route) = rule.place(self.draft, what);
            let message = format!("this {what} matches no cell");
            let hint =
                "check for a label that another entry already excludes, or remove this entry";
            self.context
                .sink
                .add(Mistake::new(span, &route, message).hint(hint));
        }
    }

    /// Reports the mistakes beside the values with a wrong form, for the first cell without overrides.
    fn report_beside(&self) {
        let mut placed = self.placed.iter();
        if let Some((at, variant, _)) = placed.find(|(_, variant, _)| *variant == 0) {
            let variant = &self.variants[*variant];
            variant.report_beside(at, self.draft, &self.scope, self.context);
        }
    }

    /// Makes the cells, with their parameters and limits.
    fn cells(&mut self) -> (Vec<Cell>, Sets) {
        let mut sets = Sets::default();
        let placed = std::mem::take(&mut self.placed);
        let cells = placed.into_iter().map(|(at, variant, included)| {
            let variant = &mut self.variants[variant];
            let (parameters, placement) =
                variant.parameters(&at, self.draft, &self.scope, self.context, &mut sets);
            let (timeout, retries) = variant.limits(&at, &self.scope);
            let reasons = included.map(str::to_owned).into_iter();
            let note = reasons.chain(variant.note.clone());
            Cell {
                at: at.into_boxed_slice(),
                parameters,
                placement,
                timeout,
                retries,
                note: note.reduce(|a, b| format!("{a}; {b}")),
            }
        });
        (cells.collect(), sets)
    }

    /// Returns the positions in `over` that distinguish replicates; `None` if two cells are the same without a reason.
    fn replicate(&self, cells: &[Cell], sets: &Sets) -> Option<Vec<usize>> {
        let (draft, over) = (self.draft, &self.draft.over);
        let in_blocks = |p: &usize| draft.in_blocks && self.axes[over[*p]].name == BLOCK;
        match draft.kind?.class() {
            Class::Pure => return Some(Vec::new()),
            Class::Resource => return Some((0..over.len()).filter(in_blocks).collect()),
            Class::Measurement => {}
        }
        let needed = |position: &usize| {
            let mut needs = draft.needs.iter();
            needs.any(|n| self.drafts[*n].over.contains(&over[*position]))
        };
        let own = &self.variants[0].refers;
        let decisive = |position: &usize| needed(position) || !own.contains(position);
        let tells_apart = |position: &usize| !needed(position) && !own.contains(position);
        // If something is already wrong, cells may lack their parameters.
        if self.context.sink.count() == 0 {
            let decisive: Vec<usize> = (0..over.len()).filter(decisive).collect();
            let same = twins(cells, &decisive, &|at| is_arm(at, over, self.axes));
            let mistake = same.map(|pair| self.same_measurement(pair));
            if let Some(mistake) = mistake.or_else(|| adopted_twice(draft, cells, sets, self.axes))
            {
                self.context.sink.add(mistake);
                return None;
            }
        }
        let positions = (0..over.len()).filter(|p| in_blocks(p) || tells_apart(p));
        Some(positions.collect())
    }

    fn same_measurement(&self, (a, b): (&Cell, &Cell)) -> Mistake {
        let text = |cell: &Cell| coordinates(&cell.at, &self.draft.over, self.axes);
        let message = format!(
            "the cells {} and {} are the same measurement",
            text(a),
            text(b)
        );
        let hint = "make their settings differ, or exclude one of them; to repeat a \
            measurement, use an axis that no setting refers to, such as `rep`";
        Mistake::new(self.draft.span, &self.draft.route(&["over"]), message).hint(hint)
    }
}

/// The cells that a needed stage leaves out, by the labels on the axes that it shares with the stage.
struct Gone<'s> {
    /// The positions of the shared axes in the stage's own `over`.
    positions: Vec<usize>,
    /// Why every cell with these labels is left out.
    reasons: HashMap<Vec<u16>, Vec<&'s str>>,
}

impl Gone<'_> {
    /// Returns the reason if all cells that a cell would read are left out.
    fn reason(&self, at: &[u16]) -> Option<String> {
        let shared = labels_on(at, &self.positions);
        self.reasons.get(&shared).map(|reasons| reasons.join("; "))
    }
}

fn labels_on(at: &[u16], positions: &[usize]) -> Vec<u16> {
    positions.iter().map(|position| at[*position]).collect()
}

/// Returns what the needed stages leave out. A cell that has nothing left to read is left out too.
fn gone<'s>(draft: &Draft, stages: &'s TiSlice<DraftId, Option<Expanded>>) -> Vec<Gone<'s>> {
    let needed = draft
        .needs
        .iter()
        .filter_map(|needed| stages[*needed].as_ref())
        .map(|(stage, _)| stage);
    needed
        .filter(|stage| !stage.excluded.is_empty())
        .map(|stage| {
            let own = |axis: &AxisId| draft.over.iter().position(|own| own == axis);
            let shared = stage.over.iter().enumerate();
            let (theirs, positions): (Vec<usize>, Vec<usize>) = shared
                .filter_map(|(position, axis)| Some((position, own(axis)?)))
                .unzip();
            let mut reasons: HashMap<Vec<u16>, Vec<&str>> = HashMap::new();
            for excluded in &stage.excluded {
                let all = reasons.entry(labels_on(&excluded.at, &theirs)).or_default();
                if !all.contains(&excluded.reason.as_str()) {
                    all.push(&excluded.reason);
                }
            }
            for cell in &stage.cells {
                reasons.remove(&labels_on(&cell.at, &theirs));
            }
            Gone { positions, reasons }
        })
        .collect()
}
