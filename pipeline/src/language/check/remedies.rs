//! Remedies for values of the wrong type.

use super::super::diagnostics::{Mistake, MistakeKind};
use super::super::placeholders::{Context, context_of, is_variable, no_environment};
use super::super::settings::{DurationText, percent_of_share};
use super::super::tree::{Key, Node, Value};
use super::lists::several;
use super::numbers::{has_scaled_unit, number, per_second, range};
use super::view::View;
use crate::stage::{Json, Step};
use crate::suggest::{self, closest};

/// What to do with several values where one belongs, unless they can be labels of an axis. This is our extension; editors
/// ignore it.
const SEVERAL: &str = "x-several";

/// What to do with a word in a range of labels.
const IN_A_RANGE: &str = "a range has numbers: `{from: 1, to: 8, step: 1}`; list labels that grow by a factor: `[1, 2, 4, 8]`";

/// Returns the remedy for a word from another tool, given the phrase for what it is called here.
pub(super) fn instead(ours: &str) -> String {
    if ours.starts_with('`') {
        format!("write {ours}")
    } else {
        format!("it is {ours}")
    }
}

/// Adds the remedy to a wrong-type mistake. `form`: the mapping that belongs here, to copy.
pub(super) fn wrong_type(
    mistake: Mistake,
    view: &View<'_>,
    form: Option<String>,
    node: &Node,
) -> Mistake {
    let fields = label_of(&mistake).zip(node.scalar());
    let fields = fields.map(|((axis, label), value)| match label {
        "from" | "to" | "step" => IN_A_RANGE.to_owned(),
        _ => format!("give the fields of the label: write `{label}: {{NAME: {value}}}`, and read the field as `${{{axis}.NAME}}`"),
    });
    let hint = fields.or_else(|| match &node.value {
        Value::Text(text) if is_axis(&mistake) && range(text).is_some() => {
            range(text).map(|(from, to)| format!("write `{{from: {from}, to: {to}}}`"))
        }
        Value::Text(text) if is_axis(&mistake) && text.trim().starts_with('{') => {
            Some(format!("write it without quotes: `{}`", text.trim()))
        }
        Value::Int(last) if is_axis(&mistake) && *last > 1 => Some(format!(
            "write it as `[{last}]`, one label, or as `{{from: 1, to: {last}}}`, {last} labels"
        )),
        Value::Text(text) => for_text(text, view),
        Value::Null => Some("give a value, or remove the key".to_owned()),
        Value::List(items) => for_list(items, view),
        Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Map(_) => {
            for_other(&node.value, view)
        }
    });
    let mistake = match &node.value {
        Value::Null => mistake.kind(MistakeKind::NoText),
        _ => mistake,
    };
    let form = form.map(|form| format!("write it as `{form}`; "));
    let open = || format!("{}{}", form.unwrap_or_default(), what_belongs(view));
    mistake.hint(hint.unwrap_or_else(open))
}

/// Returns whether a text can be a key.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c))
}

/// Returns the key of a mapping that a text alone is meant for: the only required one, or `file`.
fn only_text<'a>(view: &View<'a>) -> Option<&'a str> {
    let key = match view.required().as_slice() {
        [] => "file",
        [key] => key,
        _ => return None,
    };
    takes_text(view, key).then_some(key)
}

/// Returns the options of a command line as a mapping: `--ctx-size 4096 --jinja` is `{ctx-size: 4096, jinja: true}`.
fn of_flags(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().peekable();
    let mut entries = Vec::new();
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").filter(|name| !name.is_empty())?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, value),
            None => match words.next_if(|next| !next.starts_with("--")) {
                Some(value) => (name, value),
                None => (name, "true"),
            },
        };
        entries.push(format!("{name}: {value}"));
    }
    (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(", ")))
}

/// Returns whether a key of a mapping takes a text.
pub(super) fn takes_text(view: &View<'_>, key: &str) -> bool {
    let property = view.property(key);
    let kind = property.and_then(|property| property.get("type")?.as_str());
    kind == Some("string")
}

/// Returns whether a mistake concerns a whole axis.
fn is_axis(mistake: &Mistake) -> bool {
    matches!(mistake.route.as_slice(), [Step::Key(first), _] if first == "axes")
}

/// Returns the label of an axis that a mistake concerns, with the axis.
fn label_of(mistake: &Mistake) -> Option<(&str, &str)> {
    match mistake.route.as_slice() {
        [Step::Key(first), Step::Key(axis), Step::Key(label)] if first == "axes" => {
            Some((axis, label))
        }
        _ => None,
    }
}

/// The most keys of a mapping that a remedy lists.
const MOST_KEYS: usize = 12;

/// Describes what a value is for.
fn what_belongs(view: &View<'_>) -> String {
    // With several types, the description belongs to the first.
    match view.description().filter(|_| view.types().len() < 3) {
        Some(text) => match view.property_names().as_slice() {
            keys @ [_, ..] if view.types() == ["object"] && keys.len() <= MOST_KEYS => format!(
                "what belongs here: {}, with the keys {}",
                first_sentence(text),
                suggest::list(keys.iter().copied())
            ),
            _ => format!("what belongs here: {}", first_sentence(text)),
        },
        None => match view.expected().as_str() {
            "nothing" => "docs/yaml-keys.md lists what belongs here".to_owned(),
            expected => format!("give {expected}"),
        },
    }
}

fn for_text(text: &str, view: &View<'_>) -> Option<String> {
    let wants = |t: &str| view.types().contains(&t);
    if let Some(ours) = view.phrase(text) {
        return Some(instead(&ours));
    }
    if let (Some(ours), Ok(time)) = (view.other_word("TIME"), DurationText::parse(text)) {
        return Some(instead(&ours.replace("TIME", &time.to_string())));
    }
    if let Some(name) = foreign_placeholder(text) {
        return Some(for_placeholder(name));
    }
    if text.trim().starts_with("$(") || text.trim().starts_with('`') {
        return Some("commands are not run here: write the value itself".to_owned());
    }
    if text.contains("${") {
        return Some("placeholders are not resolved here; write the value itself".to_owned());
    }
    let written = text.trim();
    let is_within = |open: char, close: char| written.starts_with(open) && written.ends_with(close);
    if (wants("array") && is_within('[', ']')) || (wants("object") && is_within('{', '}')) {
        return Some(format!("write it without quotes: `{written}`"));
    }
    if wants("boolean")
        && let Some(remedy) = truth_meant(text)
    {
        return Some(remedy);
    }
    if wants("integer") || wants("number") {
        if let Some(hint) = per_second(text, view) {
            return Some(hint);
        }
        if has_scaled_unit(text) {
            return Some(format!(
                "write a number without its unit, which is fixed here; {}",
                what_belongs(view)
            ));
        }
        if let Some(hint) = number(text, wants("number")) {
            return Some(hint);
        }
        let truths = ["yes", "no", "on", "off", "true", "false"];
        if truths.contains(&text.to_lowercase().as_str()) && !wants("boolean") {
            return Some("write a number; `0` is none".to_owned());
        }
    }
    if wants("object") && !wants("string") {
        if let Some(mapping) = of_flags(text) {
            return Some(format!("write `{mapping}`"));
        }
        if let Some((key, value)) = text.split_once('=')
            && is_word(key.trim())
            && !value.trim().is_empty()
            && !value.contains(['=', '<', '>'])
        {
            return Some(format!("write `{{{}: {}}}`", key.trim(), value.trim()));
        }
        if let Some((key, _)) = text.split_once(": ").filter(|(key, _)| is_word(key)) {
            return Some(format!("write a mapping without quotes: `{{{key}: …}}`"));
        }
        if let Some(form) = view.other_word("TEXT") {
            return Some(instead(&form.replace("TEXT", text)));
        }
        if let Some(key) = view.declared_alone().filter(|key| takes_text(view, key)) {
            return Some(format!("write `{}`", view.with(key, text)));
        }
        if let Some(key) = only_text(view) {
            return Some(format!("write `{{{key}: {text}}}`"));
        }
    }
    if wants("object") && (text.contains(":[") || text.contains(":{")) {
        return Some("put a space after the colon".to_owned());
    }
    if wants("array") && text.trim() == "*" {
        return Some("list the names: `*` does not stand for all of them".to_owned());
    }
    if wants("array")
        && let Some((name, direction)) = text.trim().split_once(' ')
    {
        // An order, as SQL writes it.
        match direction.trim().to_lowercase().as_str() {
            "desc" => return Some(format!("write it as `[-{name}]`")),
            "asc" => return Some(format!("write it as `[{name}]`")),
            _ => {}
        }
    }
    if wants("array") {
        let list = several(text).unwrap_or_else(|| format!("[{}]", text.trim()));
        return Some(format!("write it as `{list}`"));
    }
    if wants("object")
        && let Some((key, word)) = chosen(text, view)
    {
        return Some(format!("write `{{{key}: {word}}}`"));
    }
    None
}

/// Returns what to write instead of a text that means yes or no.
pub fn truth_meant(text: &str) -> Option<String> {
    let folded = text.trim().to_lowercase();
    match folded.as_str() {
        "true" | "false" => Some(format!("write {folded} without quotes")),
        "yes" | "on" | "1" => Some("write `true`".to_owned()),
        "no" | "off" | "0" => Some("write `false`".to_owned()),
        _ => None,
    }
}

/// Returns the remedy for a list of named mappings where a mapping by name belongs, as the steps of other tools are.
fn by_name(items: &[Node]) -> Option<String> {
    const NAMES: [&str; 3] = ["name", "id", "key"];
    let first = items.first()?;
    let name = NAMES
        .iter()
        .find_map(|key| Some((*key, first.get(key)?.text()?)));
    let are_mappings = items
        .iter()
        .all(|item| matches!(item.value, Value::Map(_)) && !item.entries().is_empty());
    are_mappings.then(|| match name {
        Some((key, name)) => format!("write `{name}: {{…}}` instead of `- {key}: {name}`"),
        None => "write a mapping, each entry under a name: `NAME: {…}`".to_owned(),
    })
}

fn for_list(items: &[Node], view: &View<'_>) -> Option<String> {
    let types = view.types();
    let takes_names = view
        .keyword("additionalProperties")
        .is_some_and(Json::is_object);
    if types == ["object"]
        && takes_names
        && let Some(remedy) = by_name(items)
    {
        return Some(remedy);
    }
    if types == ["object"] {
        // `[context: 4096, threads: 4]`
        let entries: Vec<&(Key, Node)> = items.iter().flat_map(Node::entries).collect();
        let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let are_mappings = items.iter().all(|item| matches!(item.value, Value::Map(_)));
        if are_mappings && !keys.is_empty() && keys.len() == entries.len() {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| format!("{}: {}", key.text, value.flow()));
            let entries: Vec<String> = entries.collect();
            return Some(format!(
                "write it as one mapping: `{{{}}}`",
                entries.join(", ")
            ));
        }
        let texts: Option<Vec<&str>> = items.iter().map(Node::text).collect();
        let texts = texts.filter(|texts| !texts.is_empty())?;
        return match texts.as_slice() {
            [one] => for_text(one, view),
            several => of_flags(&several.join(" ")).map(|mapping| format!("write `{mapping}`")),
        };
    }
    if types.is_empty() {
        return None;
    }
    if let Some(several) = view.keyword(SEVERAL).and_then(Json::as_str)
        && items.len() > 1
    {
        return Some(several.to_owned());
    }
    Some(match items {
        [one] if !matches!(one.value, Value::List(_) | Value::Map(_)) => {
            format!("write {} without brackets", one.json())
        }
        _ if types.iter().all(|t| ["string", "null"].contains(t)) => {
            "write one text, without brackets; to try several, make them the labels of an axis, and write `\"${AXIS}\"` here"
                .to_owned()
        }
        _ => "write one value; to measure several, make them the labels of an axis, and write `\"${AXIS}\"` here"
            .to_owned(),
    })
}

fn for_other(value: &Value, view: &View<'_>) -> Option<String> {
    let wants = |t: &str| view.types().contains(&t);
    match value {
        Value::Float(number) if wants("integer") && number.value.fract() == 0.0 => {
            Some(format!("write {}", number.value))
        }
        Value::Float(number) if wants("integer") && number.value.abs() < 1e15 => Some(format!(
            "write {} or {}",
            number.value.floor(),
            number.value.ceil()
        )),
        // So many seconds are rare, and other tools count milliseconds.
        Value::Int(number) if view.is_duration() && *number >= 1000 => {
            Some(format!("add the unit: `{number} ms` or `{number} s`"))
        }
        Value::Int(number) if view.is_duration() => Some(format!("add the unit: `{number} s`")),
        Value::Float(number) if view.is_duration() => {
            Some(format!("add the unit: `{} s`", number.written))
        }
        Value::Float(number) if view.format() == Some("percent") && number.value < 1.0 => {
            let percent = percent_of_share(number.value);
            Some(format!("write the share in percent: `{percent} %`"))
        }
        Value::Int(_) | Value::Float(_) if view.format() == Some("percent") => {
            Some(format!("write the sign, too: `{} %`", value_text(value)))
        }
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if wants("string") => {
            let words = view.words();
            let quoted = format!(
                "put it in quotes if it is text: `\"{}\"`",
                value_text(value)
            );
            Some(match (words.is_empty(), view.description()) {
                (false, _) => format!("the values are {}", suggest::list(words)),
                (true, Some(_)) => format!("{quoted}; {}", what_belongs(view)),
                (true, None) => quoted,
            })
        }
        Value::Int(_) | Value::Float(_) if wants("array") => {
            Some(format!("write it as `[{}]`", value_text(value)))
        }
        // The number of a mapping with a key that a number alone is meant for.
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if wants("object") => {
            let key = view.alone()?;
            let truths =
                |schema: &Json| schema.get("type").and_then(Json::as_str) == Some("boolean");
            if matches!(value, Value::Bool(_)) && !view.property(key).is_some_and(truths) {
                return None;
            }
            Some(format!("write `{}`", view.with(key, &value_text(value))))
        }
        Value::Map(_) if view.other_word("MAPPING").is_some() => {
            view.other_word("MAPPING").map(instead)
        }
        // `needs: {machine: {}}`, as in files of docker compose.
        Value::Map(entries) if wants("array") && view.has_texts() && !entries.is_empty() => {
            let keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
            Some(format!("write it as `[{}]`", keys.join(", ")))
        }
        // `{clients}`, as in Snakemake and Python.
        Value::Map(entries) => match entries.as_slice() {
            [(key, node)] if matches!(node.value, Value::Null) && is_word(&key.text) => {
                Some(format!("a placeholder is written `\"${{{}}}\"`", key.text))
            }
            _ => None,
        },
        _ => None,
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.written.to_string(),
        Value::Bool(truth) => truth.to_string(),
        _ => "…".to_owned(),
    }
}

/// Returns the only key of a mapping that takes these items, all of them texts, as a list.
pub(super) fn list_of_texts<'a>(items: &[Node], view: &View<'a>) -> Option<&'a str> {
    if items.iter().any(|i| !matches!(i.value, Value::Text(_))) {
        return None;
    }
    let takes = |key: &&str| {
        let property = view.property(key);
        let type_of = |p: &Json| p.get("type").and_then(Json::as_str) == Some("array");
        let of_texts = |p: &Json| p.pointer("/items/type").and_then(Json::as_str) == Some("string");
        property.is_some_and(|p| type_of(p) && of_texts(p))
    };
    let mut keys = view.property_names().into_iter().filter(takes);
    keys.next().filter(|_| keys.next().is_none())
}

/// Returns the key of a mapping that selects one of several forms, and the value that a text means.
fn chosen<'a>(text: &str, view: &View<'a>) -> Option<(&'a str, &'a str)> {
    view.property_names().into_iter().find_map(|key| {
        let words = view.property(key)?.get("enum")?.as_array()?;
        let word = closest(text, words.iter().filter_map(Json::as_str))?;
        Some((key, word))
    })
}

/// Returns the replacement for a text that is not a duration. `is_one` reads what a format takes, because not every
/// format has units below a millisecond; `shortest` is an example of them.
pub(super) fn duration(text: &str, shortest: &str, is_one: impl Fn(&str) -> bool) -> String {
    suggest::duration(text)
        .filter(|meant| is_one(meant))
        .map_or_else(
            || format!("write a number and a unit: {shortest}`500 ms`, `30 s`, `10 min`, `2 h`"),
            |meant| match terms(text) {
                2.. if !text.contains(':') => {
                    format!("a duration has one number and one unit: write `{meant}`")
                }
                _ => format!("write `{meant}`"),
            },
        )
}

/// Returns how many numbers a text contains.
fn terms(text: &str) -> usize {
    let numbers = text.split(|c: char| !(c.is_ascii_digit() || ".,".contains(c)));
    numbers.filter(|part| !part.is_empty()).count()
}

/// Returns whether the text is a number with a unit of time.
pub(super) fn is_span(text: &str) -> bool {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let is_unit = ["h", "min", "s", "ms", "us", "ns"].contains(&unit);
    is_unit
        && number
            .trim()
            .parse::<f64>()
            .is_ok_and(|n| n.is_finite() && n >= 0.0)
}

/// Returns the name in a placeholder in the syntax of shells (`$name`) or templates (`{{name}}`).
fn foreign_placeholder(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = match text.strip_prefix("{{") {
        Some(rest) => rest.strip_suffix("}}")?.trim(),
        None => text.strip_prefix('$')?,
    };
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    named.then_some(name)
}

/// Returns the remedy for a name in the placeholder of another tool.
fn for_placeholder(name: &str) -> String {
    match context_of(name) {
        Some(Context::Variables(name)) => no_environment(name),
        Some(Context::Values(name)) => format!("a placeholder is written `\"${{{name}}}\"`"),
        None if is_variable(name) => no_environment(name),
        None => format!("a placeholder is written `\"${{{name}}}\"`"),
    }
}

/// Returns the remedy for a key with its value behind it, as in `{blocks:3}`.
pub(super) fn without_space<'a>(
    key: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let (key, value) = key.split_once(':')?;
    let is_key = names.any(|name| name == key);
    is_key.then(|| format!("put a space after the colon: `{key}: {value}`"))
}

/// Describes a value without naming its type.
pub(super) fn bare(node: &Node) -> String {
    match node.text() {
        Some(text) => format!("`{text}`"),
        None => node.describe(),
    }
}

pub(super) fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them_get_ours() {
        let remedy = |text: &str| number(text, true).unwrap_or_default();
        assert_eq!(remedy("1_000"), "write 1000");
        assert_eq!(remedy("12,500"), "write 12500");
        assert_eq!(remedy("1,5"), "write 1.5");
        assert_eq!(remedy("1'000'000"), "write 1000000");
        assert_eq!(remedy("8k"), "write the number out: 8000 or 8192");
        assert_eq!(remedy("2 Ki"), "write the number out: 2048");
        assert_eq!(remedy("5 %"), "write it as a share: 0.05");
        assert_eq!(remedy("99.9%"), "write it as a share: 0.999");
        assert_eq!(remedy("16 requests"), "write the number alone: 16");
        assert_eq!(remedy("5 req/s"), "write the number alone: 5");
        for other in [
            "300/min",
            "90 requests per minute",
            "7200 req/hour",
            "2.49/h",
        ] {
            assert_eq!(remedy(other), "", "{other}");
        }
        assert_eq!(remedy("16"), "write 16 without quotes");
        assert!(remedy("1..8").contains("{from: 1, to: 8}"));
        assert_eq!(remedy("sixteen"), "write 16");
        assert_eq!(remedy("Three"), "write 3");
        assert_eq!(remedy("many"), "");
        assert!(remedy("1,2,3").ends_with("the numbers are `[1, 2, 3]`"));
    }

    #[test]
    fn a_duration_is_only_offered_to_a_format_that_takes_it() {
        let whole = |text: &str| duration(text, "", |meant| DurationText::parse(meant).is_ok());
        let fine = |text: &str| duration(text, "`500 us`, ", is_span);
        let examples = "`500 ms`, `30 s`, `10 min`, `2 h`";
        let general = |shortest: &str| format!("write a number and a unit: {shortest}{examples}");
        assert_eq!(whole("500usec"), general(""));
        assert_eq!(whole("2 nsec"), general(""));
        assert_eq!(fine("500usec"), "write `500 us`");
        assert_eq!(fine("2 nsec"), "write `2 ns`");
        assert_eq!(fine("soon"), general("`500 us`, "));
        for both in [whole("200msec"), fine("200msec")] {
            assert_eq!(both, "write `200 ms`");
        }
        assert_eq!(
            whole("1h30m"),
            "a duration has one number and one unit: write `90 min`"
        );
    }

    #[test]
    fn ranges_of_other_languages_are_understood() {
        assert_eq!(range("1..4"), Some((1, 4)));
        assert_eq!(range("1 to 4"), Some((1, 4)));
        assert_eq!(range("range(1, 5)"), Some((1, 4)));
        assert_eq!(range("4..1"), None);
        assert_eq!(range("a-b"), None);
    }
}
