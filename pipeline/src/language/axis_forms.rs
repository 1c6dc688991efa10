//! How other tools declare an axis, and the Benchtrail form of each declaration.

use super::check::range;
use super::diagnostics::{Mistake, MistakeKind};
use super::tree::{Key, Node, Value};
use crate::stage::Step;

/// Words for the first number of a range, the last one, and the distance.
const ENDS: [(&str, &[&str]); 3] = [
    (
        "from",
        &[
            "from", "min", "minimum", "start", "low", "lower", "first", "begin",
        ],
    ),
    (
        "to",
        &[
            "to", "max", "maximum", "stop", "end", "high", "upper", "last", "until",
        ],
    ),
    ("step", &["step", "by", "increment", "stride"]),
];

/// Words for the labels.
const LABELS: [&str; 10] = [
    "values",
    "labels",
    "list",
    "items",
    "choices",
    "options",
    "grid",
    "grid-search",
    "levels",
    "enum",
];

/// Words for the factor between two labels.
const FACTORS: [&str; 5] = ["factor", "multiplier", "multiply", "ratio", "base"];

/// The most labels that a remedy lists.
const MOST_LABELS: usize = 16;

/// Returns the mistake of an axis in the form of another tool: `{values: […]}`, `{range: [1, 8]}`, `{min: 1, max: 8}`.
pub(super) fn of_another_tool(node: &Node, route: &[Step]) -> Option<Mistake> {
    let entries = node.entries();
    let (first, _) = entries.first()?;
    let folded = |text: &str| text.to_lowercase().replace('_', "-");
    let ours = match entries {
        [(key, value)] if LABELS.contains(&folded(&key.text).as_str()) => labels(value)?,
        [(key, value)] if folded(&key.text) == "range" => from_to(value)?,
        _ if entries
            .iter()
            .any(|(key, _)| FACTORS.contains(&folded(&key.text).as_str())) =>
        {
            geometric(entries)?
        }
        _ => {
            let mut parts = Vec::new();
            for (key, value) in entries {
                let word = folded(&key.text);
                let end = ENDS
                    .iter()
                    .find(|(_, words)| words.contains(&word.as_str()));
                let (end, number) = (end?.0, number(value)?);
                parts.push((end, format!("{end}: {number}")));
            }
            let has = |end: &str| parts.iter().filter(|(name, _)| *name == end).count();
            let is_ours = entries.iter().all(|(key, _)| has(&key.text) > 0);
            if is_ours || has("from") != 1 || has("to") != 1 || has("step") > 1 {
                return None;
            }
            let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
            format!("{{{}}}", parts.join(", "))
        }
    };
    let wrong = entries.iter().map(|(key, _)| key);
    let key = wrong
        .into_iter()
        .find(|key| !ENDS.iter().any(|(name, _)| *name == key.text));
    let key = key.unwrap_or(first);
    let mut route = route.to_vec();
    let name = match route.last() {
        Some(Step::Key(name)) => name.clone(),
        _ => "AXIS".to_owned(),
    };
    route.push(Step::Key(key.text.clone()));
    let message = format!("an axis has no key `{}`", key.text);
    let mistake = Mistake::new(key.span, &route, message).kind(MistakeKind::UnknownKey);
    Some(mistake.hint(format!("write `{name}: {ours}`")))
}

/// Writes labels as our list.
fn labels(value: &Node) -> Option<String> {
    let plain = |item: &Node| item.scalar().is_some();
    match &value.value {
        Value::List(items) if !items.is_empty() && items.iter().all(plain) => Some(value.flow()),
        _ => None,
    }
}

/// Writes the labels of a range that grows by a factor: `{from: 1, to: 8, factor: 2}`.
fn geometric(entries: &[(Key, Node)]) -> Option<String> {
    let whole = |words: &[&str]| {
        let mut entries = entries.iter();
        let (_, value) =
            entries.find(|(key, _)| words.contains(&key.text.to_lowercase().as_str()))?;
        match value.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    };
    let (from, to) = (whole(ENDS[0].1)?, whole(ENDS[1].1)?);
    let factor = whole(&FACTORS).filter(|factor| *factor > 1 && from > 0)?;
    let next = |label: &i64| label.checked_mul(factor).filter(|label| *label <= to);
    let labels: Vec<String> = std::iter::successors(Some(from).filter(|from| *from <= to), next)
        .map(|label| label.to_string())
        .collect();
    ((1..=MOST_LABELS).contains(&labels.len())).then(|| format!("[{}]", labels.join(", ")))
}

/// Writes the ends of a range, and its step if there is one.
fn from_to(value: &Node) -> Option<String> {
    if let Some((from, to)) = value.text().and_then(range) {
        return Some(format!("{{from: {from}, to: {to}}}"));
    }
    let numbers: Vec<String> = value.items().iter().map(number).collect::<Option<_>>()?;
    match numbers.as_slice() {
        [from, to] => Some(format!("{{from: {from}, to: {to}}}")),
        [from, to, step] => Some(format!("{{from: {from}, to: {to}, step: {step}}}")),
        _ => None,
    }
}

fn number(value: &Node) -> Option<String> {
    matches!(value.value, Value::Int(_) | Value::Float(_)).then(|| value.flow())
}
