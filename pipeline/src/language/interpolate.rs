//! Placeholders: `${name}` and `${name.field}` in texts, `$${` for a literal `${`.
//!
//! A text that is exactly one placeholder takes the value with its type. Inside longer text, the value is written out.
//! Placeholders within values are not resolved.

use std::collections::{BTreeMap, BTreeSet};

use super::axes::{Axes, AxisDraft};
use super::diagnostics::{Mistake, MistakeKind, Span};
use super::library::merge;
use super::placeholders::{Context, context_of, is_variable, no_environment, remedy_for};
use super::tree::{Node, Value};
use crate::ids::AxisId;
use crate::stage::{Json, Step};
use crate::suggest::{closest, remedy};

/// The only key of a mapping that stands for several mappings, merged in order.
pub(crate) const MERGE: &str = "merge";

/// Returns the parts of a mapping that stands for several.
pub(crate) fn merged(node: &Node) -> Option<&[Node]> {
    match node.entries() {
        [(key, parts)] if key.text == MERGE && matches!(parts.value, Value::List(_)) => {
            Some(parts.items())
        }
        _ => None,
    }
}

/// The largest number of values checked for one text with placeholders.
const MAX_VALUES: usize = 65_536;

/// The most bytes of text that placeholders may stand for, in a tree or in all values of one text. As for aliases, a short file
/// could otherwise take any amount of memory.
const MAX_INSERTED: usize = 64 << 20;

/// The values of the parameters; `None` for a parameter whose declaration or value is wrong.
pub(crate) type Values = BTreeMap<String, Option<Json>>;

/// The names that a placeholder may use at a place.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) parameters: &'a Values,
    /// Every axis, including those only for error messages.
    pub(crate) axes: &'a Axes,
    /// The axes whose labels are known in this scope.
    pub(crate) over: &'a [AxisId],
    /// The labels that occur on each axis in `over`.
    pub(crate) labels: &'a [Vec<u16>],
}

/// A part of a text.
enum Piece<'t> {
    Literal(&'t str),
    Placeholder(&'t str),
}

/// A mistake without its place: message and remedy.
struct Wrong {
    kind: MistakeKind,
    message: String,
    hint: String,
}

impl Wrong {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind: MistakeKind::Other,
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn at(self, span: Span, route: &[Step]) -> Mistake {
        Mistake::new(span, route, self.message)
            .kind(self.kind)
            .hint(self.hint)
    }
}

impl<'a> Scope<'a> {
    /// Returns a scope in which only parameters have a value.
    pub(crate) fn of_parameters(parameters: &'a Values) -> Self {
        Self {
            parameters,
            axes: Axes::from_ref(&[]),
            over: &[],
            labels: &[],
        }
    }

    /// Returns the axis or the parameter that a text names without the sign of a placeholder: `clients`, `<clients>`,
    /// `%(clients)s`.
    pub(crate) fn named_without_sign(&self, node: &'a Node) -> Option<&'a str> {
        let text = node.text().filter(|text| !text.contains("${"))?;
        let name = text
            .strip_prefix("%(")
            .and_then(|rest| rest.strip_suffix(")s"));
        let name = name.unwrap_or_else(|| text.trim_matches(['<', '>', '{', '}', '$', '@', ' ']));
        let is_axis = self.over.iter().any(|axis| self.axes[*axis].name == name);
        (is_axis || self.parameters.contains_key(name)).then_some(name)
    }

    /// Returns the positions in `over` of the axes that a tree refers to.
    pub(crate) fn references(&self, node: &Node) -> BTreeSet<usize> {
        let mut references = BTreeSet::new();
        each_text(node, &mut Vec::new(), &mut |text, _, _| {
            references.extend(self.references_of(text));
        });
        references
    }

    /// Returns a tree with its placeholders resolved at label indices. If `at` is `None`, placeholders of axes stay.
    pub(crate) fn resolve(&self, node: &Node, at: Option<&[u16]>) -> Result<Node, Mistake> {
        self.resolve_within(node, at, &mut Room::default())
    }

    fn resolve_within(
        &self,
        node: &Node,
        at: Option<&[u16]>,
        room: &mut Room,
    ) -> Result<Node, Mistake> {
        let value = match &node.value {
            Value::Text(text) if text.contains("${") => {
                return match self.text(text, at, room) {
                    Ok(value) => Ok(Node::from_json(&value, node.span)),
                    Err(wrong) => Err(wrong.at(node.span, &[])),
                };
            }
            Value::List(items) => Value::List(
                items
                    .iter()
                    .map(|item| self.resolve_within(item, at, room))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Map(_) if merged(node).is_some() => {
                let parts = merged(node).unwrap_or_default().iter();
                let parts = parts.map(|part| self.resolve_within(part, at, room));
                return Ok(one_of(node, parts.collect::<Result<_, _>>()?));
            }
            Value::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.resolve_within(value, at, room)?)))
                    .collect::<Result<_, Mistake>>()?,
            ),
            other => other.clone(),
        };
        Ok(Node {
            span: node.span,
            value,
        })
    }

    /// Returns every distinct value that a text can take.
    pub(crate) fn values(
        &self,
        text: &str,
        span: Span,
        route: &[Step],
    ) -> Result<Vec<Node>, Mistake> {
        let wrong = |wrong: Wrong| wrong.at(span, route);
        for piece in pieces(text).map_err(wrong)? {
            if let Piece::Placeholder(name) = piece {
                let head = name.split('.').next().unwrap_or_default();
                self.check_first_name(head, name).map_err(wrong)?;
                if self.is_broken(head) {
                    return Ok(Vec::new());
                }
            }
        }
        let used = self.references_of(text);
        let mut at: Vec<u16> = self
            .labels
            .iter()
            .map(|l| l.first().copied().unwrap_or(0))
            .collect();
        if used
            .iter()
            .any(|position| self.labels[*position].is_empty())
        {
            return Ok(Vec::new());
        }
        let mut digits: Vec<(usize, usize)> = used.iter().map(|position| (*position, 0)).collect();
        let mut seen = BTreeSet::new();
        let mut values = Vec::new();
        let mut room = Room::default();
        for _ in 0..MAX_VALUES {
            let value = self.text(text, Some(&at), &mut room).map_err(wrong)?;
            if seen.insert(value.to_string()) {
                values.push(Node::from_json(&value, span));
            }
            let mut carry = true;
            for (position, digit) in digits.iter_mut().rev() {
                let labels = &self.labels[*position];
                *digit = (*digit + 1) % labels.len();
                at[*position] = labels[*digit];
                if *digit != 0 {
                    carry = false;
                    break;
                }
            }
            if carry {
                break;
            }
        }
        Ok(values)
    }

    /// Adds the mistakes in placeholders anywhere in a tree.
    pub(crate) fn check(&self, node: &Node, route: &[Step], out: &mut Vec<Mistake>) {
        each_text(node, &mut route.to_vec(), &mut |text, span, route| {
            if let Err(mistake) = self.values(text, span, route) {
                out.push(mistake);
            }
        });
    }

    /// Returns whether a tree refers to a wrong parameter or axis, so that its value is unknown.
    pub(crate) fn hides(&self, node: &Node) -> bool {
        let mut hidden = false;
        each_text(node, &mut Vec::new(), &mut |text, _, _| {
            hidden |= heads(text).any(|head| self.is_broken(head));
        });
        hidden
    }

    fn is_broken(&self, name: &str) -> bool {
        let axis = |a: &AxisDraft| a.name == name && a.broken;
        self.parameters.get(name) == Some(&None) || self.axes.iter().any(axis)
    }

    fn references_of(&self, text: &str) -> BTreeSet<usize> {
        heads(text)
            .filter_map(|head| {
                self.over
                    .iter()
                    .position(|axis| self.axes[*axis].name == head)
            })
            .collect()
    }

    /// Checks the first name of a placeholder.
    fn check_first_name(&self, name: &str, placeholder: &str) -> Result<(), Wrong> {
        let here = |axis: &AxisId| self.axes[*axis].name == name;
        if self.parameters.contains_key(name) || self.over.iter().any(here) {
            return Ok(());
        }
        if self.axes.iter().any(|axis| axis.name == name) {
            let wrong = Wrong::new(
                format!("the axis `{name}` has no value here"),
                format!("add `{name}` to the stage's `over`, or use a parameter"),
            );
            return Err(Wrong {
                kind: MistakeKind::NoValue,
                ..wrong
            });
        }
        let axes = self.over.iter().map(|axis| self.axes[*axis].name.as_str());
        let names: Vec<&str> = self
            .parameters
            .keys()
            .map(String::as_str)
            .chain(axes)
            .collect();
        let hint = match (
            context_of(placeholder),
            closest(name, names.iter().copied()),
        ) {
            (Some(Context::Variables(variable)), _) => no_environment(variable),
            (Some(Context::Values(meant)), _)
                if meant
                    .split('.')
                    .next()
                    .is_some_and(|first| names.contains(&first)) =>
            {
                format!("write `${{{meant}}}`")
            }
            (_, None) if self.axis_with_field(name).is_some() => {
                let axis = self.axis_with_field(name).unwrap_or_default();
                format!(
                    "`{name}` is a field of the axis `{axis}`: write `${{{axis}.{placeholder}}}`"
                )
            }
            (_, None) if is_variable(name) => no_environment(name),
            (_, None) if names.is_empty() && !self.axes.is_empty() => {
                "this experiment has no parameters, and this place has no axes".to_owned()
            }
            _ => remedy(name, "parameters and axes", names.iter().copied()),
        };
        Err(Wrong::new(
            format!("`{name}` is neither a parameter nor an axis"),
            hint,
        ))
    }

    /// Returns the name of the axis, among those with a value here, whose labels have a field of this name.
    fn axis_with_field(&self, name: &str) -> Option<&str> {
        let axes = self.over.iter().map(|axis| &self.axes[*axis]);
        let mut with = axes.filter(|axis| {
            let mut fields = axis.fields.iter().chain(&axis.fields_declared);
            fields.any(|fields| fields.get(name).is_some())
        });
        with.next().map(|axis| axis.name.as_str())
    }

    fn text(&self, text: &str, at: Option<&[u16]>, room: &mut Room) -> Result<Json, Wrong> {
        let pieces = pieces(text)?;
        if let [Piece::Placeholder(name)] = pieces.as_slice() {
            let value = self.lookup(name, at)?;
            if let Some(value) = &value {
                room.take(bytes(value))?;
            }
            return Ok(value.unwrap_or_else(|| Json::String(format!("${{{name}}}"))));
        }
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => out.push_str(literal),
                Piece::Placeholder(name) => match self.lookup(name, at)? {
                    None => out.push_str(&format!("${{{name}}}")),
                    Some(Json::String(value)) => {
                        room.take(value.len())?;
                        out.push_str(&value);
                    }
                    Some(value @ (Json::Number(_) | Json::Bool(_))) => {
                        out.push_str(&value.to_string());
                    }
                    Some(_) => {
                        let message =
                            format!("the value of `${{{name}}}` cannot be inserted into text");
                        return Err(Wrong::new(
                            message,
                            "use the placeholder as the whole text, or name a field".to_owned(),
                        ));
                    }
                },
            }
        }
        Ok(Json::String(out))
    }

    /// Returns whether a text is nothing but a placeholder for a field that the label of a cell lacks.
    pub(super) fn lacks(&self, text: &str, at: &[u16]) -> bool {
        let pieces = pieces(text).unwrap_or_default();
        let [Piece::Placeholder(placeholder)] = pieces.as_slice() else {
            return false;
        };
        let Some((name, path)) = placeholder.split_once('.') else {
            return false;
        };
        let mut over = self.over.iter().zip(at);
        let axis = over.find(|(axis, _)| self.axes[**axis].name == name);
        axis.is_some_and(|(axis, at)| {
            let axis = &self.axes[*axis];
            let pointer = format!("/{}", path.replace('.', "/"));
            axis.fields[axis.seen(*at)].pointer(&pointer).is_none()
        })
    }

    /// Returns the value of a placeholder; `None` for an axis while no cell is chosen.
    fn lookup(&self, placeholder: &str, at: Option<&[u16]>) -> Result<Option<Json>, Wrong> {
        let (name, path) = match placeholder.split_once('.') {
            Some((name, path)) => (name, Some(path)),
            None => (placeholder, None),
        };
        self.check_first_name(name, placeholder)?;
        if let Some(value) = self.parameters.get(name) {
            if path.is_some() {
                let hint = format!("write `${{{name}}}`");
                return Err(Wrong::new(
                    format!("the parameter `{name}` has no fields"),
                    hint,
                ));
            }
            return Ok(value.clone());
        }
        let Some(at) = at else { return Ok(None) };
        let position = self
            .over
            .iter()
            .position(|axis| self.axes[*axis].name == name);
        let position = position.expect("a known name that is not a parameter is an axis");
        let axis = &self.axes[self.over[position]];
        let label = axis.seen(at[position]);
        let Some(path) = path else {
            return Ok(Some(Json::from(&axis.labels[label])));
        };
        let mut value = &axis.fields[label];
        for field in path.split('.') {
            let Some(next) = value.get(field) else {
                let here: Vec<&str> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(k, _)| k.as_str())
                    .collect();
                // Another label has the field, so the name is right and not a misspelling of a field here: this label
                // leaves it open.
                let pointer = format!("/{}", path.replace('.', "/"));
                let has_field = |fields: &Json| fields.pointer(&pointer).is_some();
                if closest(field, here.iter().copied()).is_none()
                    && (axis.fields.iter().any(has_field)
                        || axis.fields_declared.iter().any(has_field))
                {
                    return Ok(Some(Json::Null));
                }
                let message = format!(
                    "`{}` of the axis `{name}` has no field `{field}`",
                    axis.labels[label]
                );
                let hint = if here.is_empty() {
                    format!(
                        "give it in the axis, as `{}: {{{field}: …}}`",
                        axis.labels[label]
                    )
                } else {
                    remedy(field, "fields", here)
                };
                return Err(Wrong::new(message, hint));
            };
            value = next;
        }
        Ok(Some(value.clone()))
    }
}

/// The bytes that placeholders may still insert.
struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_INSERTED)
    }
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Wrong> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| {
            Wrong::new(
                format!("placeholders insert more than {MAX_INSERTED} bytes"),
                "use fewer placeholders, or shorter values",
            )
        })?;
        Ok(())
    }
}

/// Returns the bytes of all texts in a value.
fn bytes(value: &Json) -> usize {
    match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(bytes).sum(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| key.len() + bytes(value))
            .sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    }
}

/// Merges resolved mappings; absent parts add nothing. While a part is still a placeholder, the parts stay separate.
fn one_of(node: &Node, parts: Vec<Node>) -> Node {
    let mergeable = |part: &Node| matches!(part.value, Value::Map(_) | Value::Null);
    if !parts.iter().all(mergeable) {
        let (key, list) = &node.entries()[0];
        let list = Node {
            span: list.span,
            value: Value::List(parts),
        };
        return Node {
            span: node.span,
            value: Value::Map(vec![(key.clone(), list)]),
        };
    }
    let empty = Node {
        span: node.span,
        value: Value::Map(Vec::new()),
    };
    let given = parts
        .into_iter()
        .filter(|part| !matches!(part.value, Value::Null));
    given.fold(empty, |below, above| merge(&below, &above))
}

/// Calls `call` for every text with a placeholder.
pub(super) fn each_text(
    node: &Node,
    route: &mut Vec<Step>,
    call: &mut dyn FnMut(&str, Span, &[Step]),
) {
    match &node.value {
        Value::Text(text) if text.contains("${") => call(text, node.span, route),
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                route.push(Step::Index(i));
                each_text(item, route, call);
                route.pop();
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries {
                route.push(Step::Key(key.text.clone()));
                each_text(value, route, call);
                route.pop();
            }
        }
        _ => {}
    }
}

/// Returns the placeholders of a text whose values are written out, because the text is longer than one placeholder.
pub(super) fn written_out(text: &str) -> Vec<&str> {
    let pieces = pieces(text).unwrap_or_default();
    if pieces.len() < 2 {
        return Vec::new();
    }
    let placeholders = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Literal(_) => None,
    });
    placeholders.collect()
}

/// Returns the first name of each placeholder in a text.
fn heads(text: &str) -> impl Iterator<Item = &str> {
    pieces(text)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Placeholder(name) => name.split('.').next(),
            Piece::Literal(_) => None,
        })
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Wrong> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.push(Piece::Literal(&rest[..at - 1]));
            pieces.push(Piece::Literal("${"));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            pieces.push(Piece::Literal(&rest[..at]));
        }
        let escape = "for a literal `${` write `$${`";
        let Some(end) = rest[at..].find('}') else {
            return Err(Wrong::new(
                "`${` without its `}`".to_owned(),
                format!("close it; {escape}"),
            ));
        };
        let name = &rest[at + 2..at + end];
        let fits = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        };
        if !name.split('.').all(fits) {
            let hint = remedy_for(name)
                .unwrap_or_else(|| format!("write `${{name}}` or `${{name.field}}`; {escape}"));
            let braces = rest[at + end..].chars().take_while(|c| *c == '}').count();
            let message = format!("`${{{name}{}` is not a placeholder", "}".repeat(braces));
            return Err(Wrong::new(message, hint));
        }
        pieces.push(Piece::Placeholder(name));
        rest = &rest[at + end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}
