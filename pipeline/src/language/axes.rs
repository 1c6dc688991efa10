//! Axes: turns the three forms of an axis, and the profile's replacements, into labels with fields.

use std::collections::{HashMap, HashSet};

use artifacts::Scalar;
use typed_index_collections::TiSlice;

use super::diagnostics::{Mistake, Span};
use super::grammar::Range;
use super::looks::{escaped, look};
use super::tree::{Node, Value};
use crate::ids::AxisId;
use crate::place::{is_hidden, same_label};
use crate::stage::{Json, Step};
use crate::suggest::remedy;

/// The largest number of labels of an axis.
pub(crate) const MAX_LABELS: usize = 10_000;

/// Returns whether two labels are one to people: the same number, or with the same spelling, as `1` and `"1"`.
pub(crate) fn alike(a: &Scalar, b: &Scalar) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(_), Some(_)) => same_label(a, b),
        _ => a.to_string() == b.to_string(),
    }
}

/// An axis with its declared labels, followed by those that included cells add.
#[derive(Clone, Debug)]
pub(crate) struct AxisDraft {
    pub(crate) name: String,
    pub(crate) labels: Vec<Scalar>,
    pub(crate) fields: Vec<Json>,
    /// The number of declared labels; products range over these.
    pub(crate) declared: usize,
    /// Labels that it would have without the profile and the command line. Naming one is valid but selects nothing.
    pub(crate) dropped: Vec<Scalar>,
    /// The fields of its labels without the profile and the command line: a field that one of them has may be absent.
    pub(crate) fields_declared: Vec<Json>,
    /// The label of the A/A arm, if the design puts one here.
    pub(crate) arm: Option<Arm>,
    /// Whether its declaration is wrong, so that its labels are unknown.
    pub(crate) broken: bool,
}

/// The axes of an experiment, in declaration order.
pub(crate) type Axes = TiSlice<AxisId, AxisDraft>;

/// A label that stands for another label of its axis; settings see the other label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    /// The index of the label.
    pub(crate) label: u16,
    /// The index of the label it stands for.
    pub(crate) stands_for: u16,
}

impl AxisDraft {
    /// Returns an axis with a name and nothing else.
    pub(super) fn without_labels(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: Vec::new(),
            fields: Vec::new(),
            declared: 0,
            dropped: Vec::new(),
            fields_declared: Vec::new(),
            arm: None,
            broken: false,
        }
    }

    /// Returns the index of a label.
    pub(crate) fn index(&self, label: &Scalar) -> Option<u16> {
        let at = self.labels.iter().position(|l| alike(l, label))?;
        Some(u16::try_from(at).expect("an axis has fewer than 2^16 labels"))
    }

    /// Returns the index of the label that settings see at an index; for the A/A arm, the label it stands for.
    pub(crate) fn seen(&self, label: u16) -> usize {
        let arm = self.arm.filter(|arm| arm.label == label);
        usize::from(arm.map_or(label, |arm| arm.stands_for))
    }

    /// Notes the declared labels that this axis lacks.
    pub(crate) fn note_dropped(&mut self, declared: &AxisDraft) {
        let here = self.labels.iter().chain(&self.dropped);
        let here: HashSet<String> = here.map(ToString::to_string).collect();
        let lost = declared
            .labels
            .iter()
            .filter(|label| !here.contains(&label.to_string()));
        self.dropped.extend(lost.cloned());
        self.fields_declared.extend(declared.fields.iter().cloned());
    }

    /// Returns whether a label is missing only because of the profile or the command line.
    pub(crate) fn has_dropped(&self, label: &Scalar) -> bool {
        self.dropped.iter().any(|l| alike(l, label))
    }

    /// Returns whether all labels are numbers without fields, so that more numbers may be added.
    pub(crate) fn is_numeric(&self) -> bool {
        self.labels.iter().all(|l| l.as_f64().is_some()) && self.fields.iter().all(Json::is_null)
    }

    /// Returns another label that looks like this one, also among those that the profile leaves out.
    pub(crate) fn look_alike(&self, label: &str) -> Option<String> {
        let given = look(label);
        let all = self.labels.iter().chain(&self.dropped);
        let mut names = all.map(ToString::to_string);
        names.find(|name| name != label && look(name) == given)
    }

    /// Returns the remedy for a missing label.
    pub(crate) fn remedy(&self, label: &str) -> String {
        if let Some(other) = self.look_alike(label) {
            return format!(
                "it looks like the label `{}`, but is written as `{}`: copy the label from the axis",
                escaped(&other),
                escaped(label)
            );
        }
        let names: Vec<String> = self.labels.iter().map(ToString::to_string).collect();
        remedy(
            label,
            &format!("labels of `{}`", self.name),
            names.iter().map(String::as_str),
        )
    }
}

/// Reads a declaration with resolved placeholders and a checked shape.
pub(crate) fn axis(name: &str, node: &Node, route: &[Step], out: &mut Vec<Mistake>) -> AxisDraft {
    let before = out.len();
    let labels = match &node.value {
        Value::List(items) => items.iter().filter_map(list_item).collect(),
        Value::Map(entries) if is_range(node) => {
            let range = node.json();
            debug_assert!(!entries.is_empty());
            match serde_json::from_value::<Range>(range) {
                Ok(range) => numbers(&range, node, route, out),
                Err(_) => Vec::new(),
            }
        }
        Value::Map(entries) => {
            let mut labels: Vec<_> = entries
                .iter()
                .map(|(key, fields)| (Scalar::Text(key.text.clone()), fields.json(), key.span))
                .collect();
            labels.sort_by_key(|(label, _, _)| label.to_string());
            labels
        }
        _ => Vec::new(),
    };
    if labels.is_empty() && out.len() == before {
        let message = format!("the axis `{name}` has no labels");
        out.push(
            Mistake::new(node.span, route, message).hint("give at least one, or remove the axis"),
        );
    }
    if labels.len() > MAX_LABELS {
        let message = format!(
            "the axis `{name}` has {} labels; the limit is {MAX_LABELS}",
            labels.len()
        );
        out.push(
            Mistake::new(node.span, route, message).hint("use fewer, or split the axis into two"),
        );
    }
    let mut axis = AxisDraft::without_labels(name);
    let mut seen: HashMap<String, String> = HashMap::new();
    for (label, fields, span) in labels.into_iter().take(MAX_LABELS) {
        let text = label.to_string();
        if let Some((message, hint)) = insane(&text) {
            out.push(Mistake::new(span, route, message).hint(hint));
        } else if let Some(earlier) = seen.insert(look(&text), text.clone()) {
            let (message, hint) = match earlier == text {
                true => (
                    format!("the axis `{name}` has the label `{text}` twice"),
                    "remove one; to repeat a measurement, use a `rep` axis",
                ),
                false => (
                    format!(
                        "the axis `{name}` has two labels that look the same: `{}` and `{}`",
                        escaped(&earlier),
                        escaped(&text)
                    ),
                    "remove one, or give them names that people can tell apart",
                ),
            };
            out.push(Mistake::new(span, route, message).hint(hint));
        }
        axis.labels.push(label);
        axis.fields.push(fields);
    }
    axis.declared = axis.labels.len();
    axis.broken = out.len() > before;
    axis
}

/// Returns the part of a mapping-form axis that a profile selects by a list of labels.
pub(crate) fn select(
    axis: &AxisDraft,
    list: &Node,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> AxisDraft {
    let before = out.len();
    let mut chosen = AxisDraft {
        labels: Vec::new(),
        fields: Vec::new(),
        ..axis.clone()
    };
    for item in list.items() {
        let Some(label) = item.scalar() else { continue };
        match axis.index(&label) {
            Some(at) if chosen.index(&label).is_none() => {
                chosen.labels.push(axis.labels[usize::from(at)].clone());
                chosen.fields.push(axis.fields[usize::from(at)].clone());
            }
            Some(_) => {
                let message = format!("the label `{label}` is chosen twice");
                out.push(Mistake::new(item.span, route, message).hint("remove one"));
            }
            // The axis itself is already reported.
            None if axis.broken => {}
            None => {
                let message = format!("`{label}` is not a label of the axis `{}`", axis.name);
                out.push(
                    Mistake::new(item.span, route, message).hint(axis.remedy(&label.to_string())),
                );
            }
        }
    }
    if list.items().is_empty() {
        let message = format!("the axis `{}` has no labels", axis.name);
        out.push(Mistake::new(list.span, route, message).hint("choose at least one"));
    }
    chosen.declared = chosen.labels.len();
    chosen.broken |= out.len() > before;
    chosen
}

/// Returns whether a declaration is a list of plain labels, which a profile may use as a selection.
pub(crate) fn is_plain_list(node: &Node) -> bool {
    matches!(&node.value, Value::List(items) if items.iter().all(|i| i.scalar().is_some()))
}

fn list_item(item: &Node) -> Option<(Scalar, Json, Span)> {
    if let [(key, fields)] = item.entries() {
        return Some((Scalar::Text(key.text.clone()), fields.json(), key.span));
    }
    Some((item.scalar()?, Json::Null, item.span))
}

fn is_range(node: &Node) -> bool {
    node.get("from")
        .is_some_and(|from| !matches!(from.value, Value::Map(_)))
}

fn numbers(
    range: &Range,
    node: &Node,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> Vec<(Scalar, Json, Span)> {
    let Range { from, to, step } = *range;
    let step = step.unwrap_or(1.0);
    if from > to {
        let message = format!("the range from {from} to {to} is empty");
        out.push(Mistake::new(node.span, route, message).hint("set `to` to at least `from`"));
        return Vec::new();
    }
    let count = ((to - from) / step + 1e-9).floor();
    if count >= MAX_LABELS as f64 {
        let message = format!("the range from {from} to {to} has more than {MAX_LABELS} labels");
        out.push(Mistake::new(node.span, route, message).hint("use a larger `step`"));
        return Vec::new();
    }
    let whole = |key: &str| {
        node.get(key)
            .is_none_or(|n| matches!(n.value, Value::Int(_)))
    };
    let integers = whole("from") && whole("step");
    let decimals = decimals(step, from.abs().max(to.abs()));
    let number = |i: usize| {
        let value = from + i as f64 * step;
        if integers {
            return Scalar::Int(value as i64);
        }
        // Removes the noise of binary fractions: 0.1 + 2 × 0.1 is 0.3.
        Scalar::Float(
            format!("{value:.decimals$}")
                .parse()
                .expect("a written number can be read"),
        )
    };
    (0..=count as usize)
        .map(|i| (number(i), Json::Null, node.span))
        .collect()
}

/// Returns the number of decimals that the labels of a range are rounded to, given its step and its largest label. Labels
/// have nine decimals, and those of a range with a smaller step more: nine after the first digit of the step, as far as a
/// double has them.
fn decimals(step: f64, largest: f64) -> usize {
    /// With larger steps, nine decimals are enough.
    const SMALL: f64 = 1e-4;
    let exponent = |number: f64| number.log10().floor() as i32;
    match step < SMALL {
        true => {
            let most = 14_i32.saturating_sub(exponent(largest));
            (9 - exponent(step)).min(most).max(9).cast_unsigned() as usize
        }
        false => 9,
    }
}

/// Whether a character cannot be in a label.
fn is_unfit(c: char) -> bool {
    let looks_like_a_space = c.is_whitespace() && c != ' ';
    is_hidden(c) || looks_like_a_space || ",=|`\"{}$".contains(c)
}

/// Returns a label that resembles a text, such as the name of a file. Texts that look the same have equal labels.
pub fn label_like(text: &str) -> String {
    let text = look(text);
    // Room for a number that tells it from another one.
    let fit = text.chars().take(70);
    let label: String = fit.map(|c| if is_unfit(c) { '-' } else { c }).collect();
    match label.trim() {
        "" => "unnamed".to_owned(),
        label => label.to_owned(),
    }
}

/// Returns the problem with a label's text, and the hint.
pub(crate) fn insane(text: &str) -> Option<(String, String)> {
    let hint = "labels appear in coordinates, tables and file names, so keep them short and plain";
    if text.trim().is_empty() {
        return Some(("the label is empty".to_owned(), hint.to_owned()));
    }
    if text.trim() != text {
        return Some((
            format!("the label `{text}` begins or ends with a space"),
            "remove the space".to_owned(),
        ));
    }
    if text.chars().count() > 80 {
        return Some((
            "the label is longer than 80 characters".to_owned(),
            hint.to_owned(),
        ));
    }
    let bad = text.chars().find(|c| is_unfit(*c))?;
    let hint = match (is_hidden(bad), bad.is_whitespace()) {
        (true, _) => format!("remove the character, which is not shown; {hint}"),
        (false, true) => {
            "the character only looks like a space: write a space in its place".to_owned()
        }
        (false, false) => hint.to_owned(),
    };
    Some((
        format!(
            "the label `{}` contains `{}`",
            text.escape_debug(),
            match is_hidden(bad) || bad.is_whitespace() {
                true => bad.escape_unicode().to_string(),
                false => bad.escape_debug().to_string(),
            }
        ),
        hint,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: f64, to: f64, step: f64) -> Vec<String> {
        let range = Range {
            from,
            to,
            step: Some(step),
        };
        let node = serde_json::json!({"from": from, "step": step});
        let node = Node::from_json(&node, Span::default());
        let mut mistakes = Vec::new();
        let labels = numbers(&range, &node, &[], &mut mistakes);
        assert!(mistakes.is_empty());
        let labels = labels.into_iter();
        labels.map(|(label, ..)| label.to_string()).collect()
    }

    #[test]
    fn large_integers_are_labels_of_their_own() {
        let mut axis = AxisDraft::without_labels("seed");
        axis.labels = vec![
            Scalar::Int(9_007_199_254_740_992),
            Scalar::Int(9_007_199_254_740_993),
        ];
        assert_eq!(axis.index(&Scalar::Int(9_007_199_254_740_993)), Some(1));
        assert_eq!(
            axis.index(&Scalar::Text("9007199254740993".to_owned())),
            Some(1)
        );
        assert_eq!(axis.index(&Scalar::Float(9_007_199_254_740_992.0)), Some(0));
    }

    #[test]
    fn labels_of_a_range_have_no_noise_whatever_its_step_is() {
        assert_eq!(labels(0.1, 0.5, 0.2), ["0.1", "0.3", "0.5"]);
        let thirds = ["0", "0.333333333", "0.666666667", "1"];
        assert_eq!(labels(0.0, 1.0, 0.333_333_333_333_333_3), thirds);
        assert_eq!(
            labels(0.7, 0.70003, 1e-5),
            ["0.7", "0.70001", "0.70002", "0.70003"]
        );
        let tiny = ["0.0000000001", "0.0000000002", "0.0000000003"];
        assert_eq!(labels(1e-10, 3e-10, 1e-10), tiny);
        let large = ["1000000", "1000000.00001", "1000000.00002"];
        assert_eq!(labels(1e6, 1_000_000.000_02, 1e-5), large);
        assert_eq!(labels(0.0, 0.0, 1e-10), ["0"]);
    }
}
