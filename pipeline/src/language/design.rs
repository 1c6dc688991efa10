//! Turns `design:` into blocks, arms and launches.
//!
//! It is read in three steps, as names become known: first the section itself with the axis `block` and the arm's
//! label, then the unit among the stages, then the launches among the cells.

use std::time::Duration;

use artifacts::Scalar;
use serde_json::json;
use typed_index_collections::{TiSlice, TiVec};

use super::axes::{Arm, Axes, AxisDraft, MAX_LABELS, insane};
use super::check::Checker;
use super::design_file::{ControlFile, DesignFile, UntilFile};
use super::diagnostics::{Mistake, Sink, Span};
use super::interpolate::{Scope, Values};
use super::launches::{candidates, class, launches};
use super::looks::escaped;
use super::settings::{BlocksText, DurationText};
use super::stages::{Draft, Drafts};
use super::tree::Node;
use crate::design::{BLOCK, CONTROL, Control, Design, Quiet, UnitOrder, Until, sequence};
use crate::experiment::Stage;
use crate::ids::{AxisId, DraftId, StageId};
use crate::stage::{Class, Json, StageKind, Step};
use crate::suggest::{list, remedy};

/// The section as read.
pub(crate) struct DesignDraft {
    file: DesignFile,
    /// The keys with their places; those of the profile come before those of the file.
    entries: Vec<(Node, Vec<Step>, &'static str)>,
    span: Span,
    route: Vec<Step>,
    blocks: usize,
    /// With a rule that ends blocks, the number of blocks before its first check.
    least_blocks: Option<usize>,
    /// The number of blocks without the profile.
    declared_blocks: usize,
    /// The axis of blocks.
    axis: AxisId,
    control: Option<Control>,
}

pub(super) const KEYS: [&str; 9] = [
    "blocks",
    "unit",
    "order",
    "control",
    "warm-up",
    "cool-down",
    "quiet",
    "noise",
    "until",
];

/// Reads `design` with the replacements of the profile in force, and adds the axis of blocks and the arm's label.
/// `None` without a design, or if it is wrong.
pub(crate) fn read(
    root: &Node,
    profile: Option<(&str, &Node)>,
    values: &Values,
    checker: &Checker,
    axes: &mut TiVec<AxisId, AxisDraft>,
    sink: &Sink,
) -> Option<DesignDraft> {
    let own = root.get("design").map(|node| (node, vec![key("design")]));
    let of_profile = profile.and_then(|(name, node)| {
        let route = ["profiles", name, "design"].map(key).to_vec();
        Some((node.get("design")?, route))
    });
    let (first, route) = own.clone().or_else(|| of_profile.clone())?;
    let before = sink.count();
    let mut draft = DesignDraft {
        file: DesignFile::default(),
        entries: Vec::new(),
        span: first.span,
        route,
        blocks: 0,
        least_blocks: None,
        declared_blocks: 0,
        axis: AxisId::from(axes.len()),
        control: None,
    };
    if let Some((place, _)) = root.entry("design") {
        draft.span = place.span;
    }
    let scope = Scope::of_parameters(values);
    let schema = checker
        .document
        .pointer("/$defs/DesignFile")
        .expect("the file's schema has it");
    let mut merged = serde_json::Map::new();
    // Mistakes in the file's own section were already reported when the whole file was checked.
    let mut broken = false;
    for ((node, route), tell) in own
        .iter()
        .map(|o| (o, false))
        .chain(of_profile.iter().map(|p| (p, true)))
    {
        if scope.hides(node) {
            broken = true;
            continue;
        }
        let mut out = Vec::new();
        scope.check(node, route, &mut out);
        let Ok(node) = scope.resolve(node, None) else {
            broken = true;
            continue;
        };
        out.extend(checker.check(schema, &node, route));
        broken |= !out.is_empty();
        if tell {
            out.into_iter().for_each(|m| sink.add(m));
        }
        draft.take(&node, route);
        if let Json::Object(keys) = node.json() {
            if route.len() == 1 {
                let most = keys.get("until").and_then(|until| until.get("at-most"));
                let most = most.and_then(|most| serde_json::from_value(most.clone()).ok());
                let most = most.map(|BlocksText(n)| u64::from(n));
                let blocks = most.or_else(|| keys.get("blocks").and_then(Json::as_u64));
                draft.declared_blocks = blocks.map_or(0, |n| usize::try_from(n).unwrap_or(0));
            }
            merged.extend(keys);
        }
    }
    if !broken {
        match serde_json::from_value(Json::Object(merged)) {
            Ok(file) => draft.file = file,
            Err(_) => broken = true,
        }
    }
    if !broken && draft.file.blocks.is_none() {
        let hint = "add `blocks: 5`: how often every configuration is launched";
        sink.add(Mistake::new(draft.span, &draft.route, "missing key `blocks`").hint(hint));
    }
    draft.blocks = draft.file.blocks.unwrap_or(0) as usize;
    if !broken {
        draft.add_rule(sink);
    }
    let by_hand = root.get("axes").and_then(|axes| axes.entry(BLOCK));
    draft.add_blocks(axes, by_hand.map(|(key, _)| key.span), sink, broken);
    if !broken {
        draft.add_arm(axes, sink);
    }
    // A rule may name an arm that the profile switches off.
    if let Some(arm) = own.as_ref().and_then(|(node, _)| node.get("control"))
        && let (Some(on), Some(name)) = (arm.get("axis"), arm.get("as").and_then(Node::scalar))
        && let Some(axis) = axes.iter_mut().find(|a| Some(a.name.as_str()) == on.text())
        && axis.index(&name).is_none()
    {
        axis.dropped.push(name);
    }
    (!broken && sink.count() == before).then_some(draft)
}

fn key(text: &str) -> Step {
    Step::Key(text.to_owned())
}

impl DesignDraft {
    /// Notes the place of each key; later sections come first.
    fn take(&mut self, node: &Node, route: &[Step]) {
        for name in KEYS {
            if let Some(node) = node.get(name) {
                self.entries.insert(0, (node.clone(), route.to_vec(), name));
            }
        }
    }

    /// Returns the place of a key, or of a key below it if that exists.
    fn place(&self, name: &str, below: &str) -> (Span, Vec<Step>) {
        let Some((node, route, _)) = self.entries.iter().find(|(_, _, n)| *n == name) else {
            return (self.span, self.route.clone());
        };
        let mut route = route.clone();
        route.push(key(name));
        match node.get(below) {
            Some(below_node) => {
                route.push(key(below));
                (below_node.span, route)
            }
            None => (node.span, route),
        }
    }

    fn mistake(&self, name: &str, below: &str, message: String, hint: String) -> Mistake {
        let (span, route) = self.place(name, below);
        Mistake::new(span, &route, message).hint(hint)
    }

    /// Sets the number of blocks to the maximum of the rule that ends them.
    fn add_rule(&mut self, sink: &Sink) {
        let Some(UntilFile::Rule(rule)) = &self.file.until else {
            return;
        };
        let (least, most) = (self.blocks, rule.at_most.0 as usize);
        if least < statistics::LEAST_LOOK {
            let first = statistics::LEAST_LOOK;
            let message =
                format!("a rule that ends blocks needs at least {first} blocks, not {least}");
            let hint = format!(
                "set `blocks` to {first} or more (it is the smallest number of blocks), or write `until: none`"
            );
            sink.add(self.mistake("blocks", "", message, hint));
        } else if most <= least {
            let message = format!("`at-most` is {most} blocks, but `blocks` is already {least}");
            let hint =
                "set `at-most` to a larger number: with `until`, `blocks` is the smallest number"
                    .to_owned();
            sink.add(self.mistake("until", "at-most", message, hint));
        } else if self.file.order == Some(UnitOrder::LatinSquare) {
            let message = "a Latin square is complete only after all its blocks, but `until` may end it earlier";
            let hint = "use `order: randomised`, or remove `until`".to_owned();
            sink.add(self.mistake("order", "", message.to_owned(), hint));
        } else {
            self.least_blocks = Some(least);
            self.blocks = most;
        }
    }

    /// Returns the rule that ends blocks.
    fn until(
        &self,
        stages: &TiSlice<StageId, Stage>,
        kinds: &TiSlice<StageId, &dyn StageKind>,
        sink: &Sink,
    ) -> Option<Until> {
        let Some(UntilFile::Rule(rule)) = &self.file.until else {
            return None;
        };
        let in_blocks = stages.iter().zip(kinds).filter(|(stage, _)| {
            stage.class == Class::Measurement && stage.over.contains(&self.axis)
        });
        let figures: Vec<&str> = in_blocks
            .flat_map(|(_, kind)| kind.figures())
            .copied()
            .collect();
        if !figures.contains(&rule.figure.as_str()) {
            let message = format!(
                "no cell that is measured in blocks has a figure `{}`",
                rule.figure
            );
            let hint = remedy(&rule.figure, "figures", figures);
            sink.add(self.mistake("until", "of", message, hint));
        }
        Some(Until {
            relative_half_width: rule.relative_half_width.0,
            figure: rule.figure.clone(),
            at_least: self.least_blocks?,
        })
    }

    /// Adds the axis of blocks.
    fn add_blocks(
        &mut self,
        axes: &mut TiVec<AxisId, AxisDraft>,
        by_hand: Option<Span>,
        sink: &Sink,
        broken: bool,
    ) {
        if let Some(span) = by_hand {
            let message = format!("the design adds the axis `{BLOCK}` itself");
            let hint = "remove this axis, or give it another name";
            sink.add(Mistake::new(span, &[key("axes"), key(BLOCK)], message).hint(hint));
            return;
        }
        let numbers = |range: std::ops::RangeInclusive<usize>| -> Vec<Scalar> {
            range
                .map(|n| Scalar::Int(i64::try_from(n).unwrap_or(i64::MAX)))
                .collect()
        };
        let labels = numbers(1..=self.blocks);
        axes.push(AxisDraft {
            name: BLOCK.to_owned(),
            fields: vec![Json::Null; labels.len()],
            declared: labels.len(),
            labels,
            dropped: numbers(self.blocks + 1..=self.declared_blocks.min(MAX_LABELS)),
            fields_declared: Vec::new(),
            arm: None,
            broken: broken || self.blocks == 0,
        });
    }

    /// Adds the label of the A/A arm to its axis.
    fn add_arm(&mut self, axes: &mut Axes, sink: &Sink) {
        let Some(ControlFile::Arm(arm)) = self.file.control.clone() else {
            return;
        };
        let wrong = |below: &str, message: String, hint: String| {
            sink.add(self.mistake("control", below, message, hint));
        };
        let names = || axes.iter().map(|a| a.name.as_str()).filter(|a| *a != BLOCK);
        let Some(id) = axes.position(|a| a.name == arm.axis && a.name != BLOCK) else {
            let hint = remedy(&arm.axis, "axes", names());
            return wrong("axis", format!("unknown axis `{}`", arm.axis), hint);
        };
        let axis = &axes[id];
        if axis.broken {
            return;
        }
        if axes.iter().any(|a| a.name == CONTROL) {
            let message = format!("with an A/A arm no axis can be named `{CONTROL}`");
            return wrong("", message, "rename the axis".to_owned());
        }
        let given = Scalar::from_json(&arm.label).unwrap_or(Scalar::Null);
        let Some(stands_for) = axis.index(&given) else {
            if !axis.has_dropped(&given) {
                let message = format!("`{given}` is not a label of the axis `{}`", arm.axis);
                wrong("label", message, axis.remedy(&given.to_string()));
            }
            return;
        };
        let name = Scalar::Text(arm.name.clone());
        if axis.index(&name).is_some() || axis.has_dropped(&name) {
            let message = format!("the axis `{}` already has a label `{}`", arm.axis, arm.name);
            let hint = "give the A/A arm its own name".to_owned();
            return wrong("as", message, hint);
        }
        if let Some(other) = axis.look_alike(&arm.name) {
            let message = format!("the label looks like the label `{}`", escaped(&other));
            let hint = "give the A/A arm a name that people can tell apart".to_owned();
            return wrong("as", message, hint);
        }
        if let Some((message, hint)) = insane(&arm.name) {
            return wrong("as", message, hint);
        }
        if axis.is_numeric() {
            let message = format!(
                "the labels of `{}` are numbers: an A/A arm has a name",
                arm.axis
            );
            let hint = format!(
                "give the labels names, as `{}: {{one: {{…}}, other: {{…}}}}`",
                arm.axis
            );
            return wrong("axis", message, hint);
        }
        let axis = &mut axes[id];
        let at = axis.declared;
        axis.labels.insert(at, name);
        let fields = axis.fields[usize::from(stands_for)].clone();
        axis.fields.insert(at, fields);
        axis.declared += 1;
        let label = u16::try_from(at).expect("an axis has fewer than 2^16 labels");
        axis.arm = Some(Arm { label, stands_for });
        self.control = Some(Control {
            axis: id,
            label,
            stands_for,
        });
    }

    /// Finds the unit among the stages, and adds blocks to it and to everything launched or measured with it. Returns
    /// the unit.
    pub(crate) fn put_into(
        &self,
        drafts: &mut Drafts<'_>,
        axes: &Axes,
        sink: &Sink,
    ) -> Option<DraftId> {
        let unit = self.unit(drafts, sink)?;
        let mut inside = TiVec::from(vec![false; drafts.len()]);
        inside[unit] = true;
        // A stage may be declared before the stages it needs, so repeat until nothing is added.
        loop {
            let more = drafts.keys().find(|i| {
                !inside[*i]
                    && class(&drafts[*i]).is_some_and(|c| c != Class::Pure)
                    && drafts[*i].needs.iter().any(|n| inside[*n])
            });
            match more {
                Some(stage) => inside[stage] = true,
                None => break,
            }
        }
        for (draft, _) in drafts
            .iter_mut()
            .zip(&inside)
            .filter(|(_, inside)| **inside)
        {
            if !draft.over.contains(&self.axis) {
                draft.over.insert(0, self.axis);
            }
            draft.in_blocks = true;
            draft.broken |= axes[self.axis].broken;
        }
        if let Some(control) = self.control
            && !drafts[unit].over.contains(&control.axis)
        {
            let name = &axes[control.axis].name;
            let message = format!(
                "the unit `{}` is not expanded over `{name}`",
                drafts[unit].name
            );
            let over = drafts[unit].over.iter().map(|a| axes[*a].name.as_str());
            let over: Vec<&str> = over.filter(|a| *a != BLOCK).collect();
            let hint = match over.as_slice() {
                [] => format!(
                    "an A/A arm is a launch: expand the unit over it (`over: [{name}]`), or remove `control`"
                ),
                over => format!(
                    "an A/A arm is a launch: take one of {}",
                    list(over.iter().copied())
                ),
            };
            sink.add(self.mistake("control", "axis", message, hint));
        }
        Some(unit)
    }

    fn unit(&self, drafts: &Drafts<'_>, sink: &Sink) -> Option<DraftId> {
        let candidates = candidates(drafts);
        let names = || candidates.iter().map(|i| drafts[*i].name);
        let Some(named) = &self.file.unit else {
            return match candidates.as_slice() {
                [one] => Some(*one),
                // A stage of an unknown kind, or one under a wrong key, may be the unit; its error is reported separately.
                [] if drafts.is_empty() || drafts.iter().any(|d| d.kind.is_none()) => None,
                [] => {
                    let message = "the design has no unit: no stage launches or measures anything";
                    let hint = "add a serve or load stage, or remove `design`".to_owned();
                    sink.add(self.mistake("unit", "", message.to_owned(), hint));
                    None
                }
                _ => {
                    let message = "the design does not say whose launch is the unit of replication";
                    let hint = format!("add `unit:`, one of {}", list(names()));
                    sink.add(self.mistake("unit", "", message.to_owned(), hint));
                    None
                }
            };
        };
        let Some(unit) = drafts.position(|d| d.name == named) else {
            let hint = remedy(named, "stages", drafts.iter().map(|d| d.name));
            sink.add(self.mistake("unit", "", format!("unknown stage `{named}`"), hint));
            return None;
        };
        let measured = |stage: DraftId| {
            let needs = |d: &Draft| d.needs.contains(&stage) && class(d) != Some(Class::Pure);
            class(&drafts[stage]) == Some(Class::Measurement) || drafts.iter().any(needs)
        };
        match class(&drafts[unit]) {
            // A stage of an unknown kind is already reported.
            None => None,
            Some(Class::Pure) => {
                let message = format!(
                    "`{named}` does not launch or measure anything, so it cannot be the \
                        unit"
                );
                let hint = format!(
                    "name a stage that is launched or measured: {}",
                    list(names())
                );
                sink.add(self.mistake("unit", "", message, hint));
                None
            }
            Some(_) if !measured(unit) => {
                let message = format!("no cell is measured on `{named}`, so it cannot be the unit");
                let hint = format!(
                    "name a stage that is launched or measured: {}",
                    list(names())
                );
                sink.add(self.mistake("unit", "", message, hint));
                None
            }
            Some(_) => Some(unit),
        }
    }

    /// Finds the launches among the cells of the unit, and orders them.
    pub(crate) fn finish(
        &self,
        unit: StageId,
        (stages, kinds): (&TiSlice<StageId, Stage>, &TiSlice<StageId, &dyn StageKind>),
        axes: &Axes,
        seed: u64,
        sink: &Sink,
    ) -> Design {
        let (stage, kind) = (&stages[unit], kinds[unit]);
        let (launches, cells) = launches(stage, kind, axes, self.axis);
        let order = self.file.order.unwrap_or_default();
        let k = launches.len();
        if order == UnitOrder::LatinSquare && (k == 0 || !self.blocks.is_multiple_of(k)) {
            let message = format!(
                "a Latin square of {k} launches needs a multiple of {k} blocks, not {}",
                self.blocks
            );
            let hint = format!(
                "set `blocks` to {}, or use `order: randomised`",
                self.blocks.div_ceil(k.max(1)) * k
            );
            sink.add(self.mistake("order", "", message, hint));
        }
        let span = |text: Option<DurationText>| text.map_or(Duration::ZERO, |text| text.0);
        let quiet = self.file.quiet.clone().unwrap_or_default();
        let usual = Quiet::default();
        let design = Design {
            axis: self.axis,
            blocks: self.blocks,
            until: self.until(stages, kinds, sink),
            unit,
            order,
            control: self.control,
            warm_up: span(self.file.warm_up),
            cool_down: span(self.file.cool_down),
            quiet: Quiet {
                load: quiet.load.unwrap_or(usual.load),
                wait: span(quiet.wait),
                otherwise: quiet.otherwise.unwrap_or_default(),
            },
            noise: self.file.noise.map(|share| share.0),
            sequence: sequence(order, self.blocks, &launches, seed),
            launches,
            cells,
        };
        self.check_arm(&design, stage, axes, sink);
        design
    }

    /// Checks that the arm is another launch than the label it stands for, as far as the labels of its axis are launches
    /// at all. On an axis of the load, it would show the noise of launches, while the labels are compared within one.
    fn check_arm(&self, design: &Design, stage: &Stage, axes: &Axes, sink: &Sink) {
        let Some(control) = design.control else {
            return;
        };
        let position = stage.over.iter().position(|axis| *axis == control.axis);
        if position.is_none_or(|at| design.is_of_launch(stage, at)) {
            return;
        }
        let name = &axes[control.axis].name;
        let message = format!(
            "the labels of `{name}` share a launch of `{}`, so an A/A arm on it controls nothing",
            stage.name
        );
        let apart = (0..stage.over.len())
            .filter(|at| stage.over[*at] != design.axis && design.is_of_launch(stage, *at))
            .map(|at| axes[stage.over[at]].name.as_str());
        let apart: Vec<&str> = apart.collect();
        let hint = match apart.is_empty() {
            true => "remove `control`: no axis tells launches apart".to_owned(),
            false => format!(
                "take an axis whose labels are launched apart, one of {}, or remove `control`",
                list(apart)
            ),
        };
        sink.add(self.mistake("control", "axis", message, hint));
    }
}

/// Returns the design in the canonical form.
pub(crate) fn design_json(design: &Design, unit: &str, axes: &Axes) -> Json {
    let control = design.control.map(|control| {
        let axis = &axes[control.axis];
        let label = |i: u16| Json::from(&axis.labels[usize::from(i)]);
        json!({ "axis": axis.name, "label": label(control.stands_for), "as": label(control.label) })
    });
    let named = |block: &Vec<usize>| -> Vec<&str> {
        block
            .iter()
            .map(|launch| design.launches[*launch].as_str())
            .collect()
    };
    json!({
        "blocks": design.blocks,
        "until": design.until,
        "unit": unit,
        "order": design.order,
        "control": control,
        "warm_up_s": design.warm_up.as_secs_f64(),
        "cool_down_s": design.cool_down.as_secs_f64(),
        "quiet": {
            "load": design.quiet.load,
            "wait_s": design.quiet.wait.as_secs_f64(),
            "otherwise": design.quiet.otherwise,
        },
        "noise": design.noise,
        "launches": design.launches,
        "degrees_of_freedom": design.degrees_of_freedom(),
        "sequence": design.sequence.iter().map(named).collect::<Vec<_>>(),
    })
}
