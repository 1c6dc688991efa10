//! Parameters: their declarations, and their values from defaults, the profile and `--set`.

use super::axes::alike;
use super::check::Checker;
use super::diagnostics::{Mistake, Sink, Span};
use super::grammar::{Parameter, ParameterType};
use super::interpolate::Values;
use super::parse::{parse, plain_scalar};
use super::settings::DurationText;
use super::tree::{Key, Node, Value};
use crate::stage::{Json, Step};
use crate::suggest::{duration, remedy};

/// Returns the remedy for `--set NAME=VALUE` where the experiment declares no parameter of this name.
fn undeclared(name: &str, given: &str, root: &Node, entries: &[(Key, Node)]) -> String {
    // `--set seed=3`, `--set ladder.requests=8`: keys of the file.
    let is_key = root.get(name).is_some() || name.contains('.');
    if !entries.is_empty() && !is_key {
        return remedy(
            name,
            "parameters",
            entries.iter().map(|(key, _)| key.text.as_str()),
        );
    }
    let short = name.rsplit('.').next().unwrap_or(name);
    let kind = match given {
        _ if given.parse::<i64>().is_ok() => "integer",
        _ if given.parse::<f64>().is_ok() => "number",
        "true" | "false" => "boolean",
        _ if DurationText::parse(given).is_ok() => "duration",
        _ => "text",
    };
    format!(
        "`--set` changes declared parameters: write `parameters: {{{short}: {{type: {kind}, default: {given}}}}}` and, where the \
         value belongs, `${{{short}}}`"
    )
}

/// Reports an error if the section of parameters is not a mapping.
fn must_be_a_mapping(section: Option<&Node>, sink: &Sink) {
    let Some(section) = section.filter(|s| !matches!(s.value, Value::Map(_) | Value::Null)) else {
        return;
    };
    let route = [Step::Key("parameters".into())];
    let message = format!("expected a mapping, found {}", section.describe());
    let hint = "write parameters as `parameters: {NAME: {type: integer, default: 8}}`";
    sink.add(Mistake::new(section.span, &route, message).hint(hint));
}

/// Reads the declarations and sets the values. A parameter with a mistake becomes `None`.
pub(crate) fn parameters(
    root: &Node,
    profile: Option<(&str, &Node)>,
    set: &[(String, String)],
    checker: &Checker,
    sink: &Sink,
) -> Values {
    let (section, axes) = (root.get("parameters"), root.get("axes"));
    let mut values = Values::new();
    let schema = checker
        .document
        .pointer("/$defs/Parameter")
        .expect("the file's schema defines parameters");
    must_be_a_mapping(section, sink);
    let entries = section.map(Node::entries).unwrap_or_default();
    let names = || entries.iter().map(|(key, _)| key.text.as_str());
    for (name, given) in set {
        if !names().any(|n| n == name) {
            let hint = match axes.is_some_and(|axes| axes.get(name).is_some()) {
                true => format!(
                    "`{name}` is an axis: change its labels in the file, or in a profile: `profiles: {{NAME: {{axes: \
                     {{{name}: [{given}]}}}}}}`"
                ),
                false => undeclared(name, given, root, entries),
            };
            sink.argument(
                &format!("--set {name}={given}"),
                format!("unknown parameter `{name}`"),
                Some(hint),
            );
        }
    }
    for (key, node) in entries {
        let route = [Step::Key("parameters".into()), Step::Key(key.text.clone())];
        let mut mistakes = checker.check(schema, node, &route);
        super::check_name(&key.text, "parameter", key.span, &route, &mut mistakes);
        if !mistakes.is_empty() {
            mistakes.into_iter().for_each(|m| sink.add(m));
            values.insert(key.text.clone(), None);
            continue;
        }
        let declaration: Parameter = serde_json::from_value(node.json())
            .expect("a declaration that fits its schema can be read");
        let typed = Typed {
            name: &key.text,
            declaration: &declaration,
            node,
        };
        let (set_route, profile_name) = (profile.map(|(name, _)| name), &key.text);
        let in_profile = profile.and_then(|(_, p)| p.get("set")?.get(profile_name));
        let argument = set.iter().rev().find(|(name, _)| *name == key.text);
        let mut value = None;
        let mut broken = false;
        let choices = node.get("choices").map(Node::items).unwrap_or_default();
        for choice in choices {
            if let Err((message, hint)) = typed.value(choice) {
                sink.add(Mistake::new(choice.span, &route, message).hint(hint));
                broken = true;
            }
        }
        let default = node.get("default");
        let profile_route = || {
            ["profiles", set_route.unwrap_or_default(), "set", &key.text]
                .map(|s| Step::Key(s.to_owned()))
        };
        for (given, route) in [
            (default, route.to_vec()),
            (in_profile, profile_route().to_vec()),
        ] {
            let Some(given) = given else { continue };
            match typed.checked(given) {
                Ok(given) => value = Some(given),
                Err((message, hint)) => {
                    sink.add(Mistake::new(given.span, &route, message).hint(hint));
                    broken = true;
                }
            }
        }
        if let Some((name, text)) = argument {
            match typed.argument(text) {
                Ok(given) => value = Some(given),
                Err((message, hint)) => {
                    sink.argument(&format!("--set {name}={text}"), message, Some(hint));
                    broken = true;
                }
            }
        }
        if value.is_none() && !broken {
            let message = format!("the parameter `{}` has no value", key.text);
            let hint = format!("give it a `default:`, or run with `--set {}=…`", key.text);
            sink.add(Mistake::new(key.span, &route, message).hint(hint));
        }
        values.insert(key.text.clone(), value.filter(|_| !broken));
    }
    values
}

/// Checks the `set` of every profile except the one in force, whose values are checked when they are set.
pub(crate) fn check_profile_set(
    profile: &Node,
    declared: Option<&Node>,
    route: &[Step],
    sink: &Sink,
) {
    let names = || {
        declared
            .map(Node::entries)
            .unwrap_or_default()
            .iter()
            .map(|(key, _)| key.text.as_str())
    };
    for (key, given) in profile.get("set").map(Node::entries).unwrap_or_default() {
        let mut route = route.to_vec();
        route.extend([Step::Key("set".into()), Step::Key(key.text.clone())]);
        let Some(node) = declared.and_then(|d| d.get(&key.text)) else {
            let message = format!("unknown parameter `{}`", key.text);
            let hint = remedy(&key.text, "parameters", names());
            sink.add(Mistake::new(key.span, &route, message).hint(hint));
            continue;
        };
        let Ok(declaration) = serde_json::from_value::<Parameter>(node.json()) else {
            continue;
        };
        let typed = Typed {
            name: &key.text,
            declaration: &declaration,
            node,
        };
        if let Err((message, hint)) = typed.checked(given) {
            sink.add(Mistake::new(given.span, &route, message).hint(hint));
        }
    }
}

/// Reads a list on the command line: `1,2,4`, or as in YAML `[1, 2, 4]`. If the brackets hold no list, it is a text.
fn list(text: &str, span: Span) -> Node {
    let trimmed = text.trim();
    let closes = trimmed.ends_with(']') && !trimmed.contains('[');
    if trimmed.starts_with('[') || closes {
        let read = parse(trimmed, span.source).ok();
        let read = read.filter(|node| matches!(node.value, Value::List(_)));
        return read.unwrap_or_else(|| Node {
            span,
            value: Value::Text(text.to_owned()),
        });
    }
    let items = text.split(',').map(|item| Node {
        span,
        value: plain_scalar(item.trim()),
    });
    Node {
        span,
        value: Value::List(items.collect()),
    }
}

/// Returns the remedy for a text that is not a duration.
fn duration_remedy(text: &str) -> String {
    let text = text.trim();
    let is_number = text
        .parse()
        .is_ok_and(|number: f64| number > 0.0 && number.is_finite());
    match duration(text) {
        _ if is_number => format!("add the unit: `{text} s`"),
        Some(meant) => format!("write `{meant}`"),
        None => "write, for example, `30 s` or `10 min`".to_owned(),
    }
}

/// A declared parameter, ready to read values.
struct Typed<'a> {
    name: &'a str,
    declaration: &'a Parameter,
    node: &'a Node,
}

impl Typed<'_> {
    /// Reads a value from the command line.
    fn argument(&self, text: &str) -> Result<Json, (String, String)> {
        let span = self.node.span;
        let scalar = |text: &str| Node {
            span,
            value: plain_scalar(text.trim()),
        };
        let node = match self.declaration.kind {
            ParameterType::Text | ParameterType::Duration => Node {
                span,
                value: Value::Text(text.to_owned()),
            },
            ParameterType::List => list(text, span),
            _ => scalar(text),
        };
        self.checked(&node)
    }

    /// Reads a value and checks it against bounds and choices.
    fn checked(&self, node: &Node) -> Result<Json, (String, String)> {
        let value = self.value(node)?;
        let name = self.name;
        if let Some(number) = value.as_f64() {
            let Parameter { min, max, .. } = self.declaration;
            if let Some(min) = min.filter(|min| number < *min) {
                return Err((
                    format!("`{name}` must be at least {min}, found {number}"),
                    self.help(),
                ));
            }
            if let Some(max) = max.filter(|max| number > *max) {
                return Err((
                    format!("`{name}` must be at most {max}, found {number}"),
                    self.help(),
                ));
            }
        }
        let choices = self
            .node
            .get("choices")
            .map(Node::items)
            .unwrap_or_default();
        let fits = |choice: &Node| match (choice.scalar(), node.scalar()) {
            (Some(a), Some(b)) => alike(&a, &b),
            _ => choice.json() == value,
        };
        if !choices.is_empty() && !choices.iter().any(fits) {
            let names: Vec<String> = choices
                .iter()
                .map(|c| c.scalar().map_or_else(|| c.describe(), |s| s.to_string()))
                .collect();
            let given = node
                .scalar()
                .map_or_else(|| node.describe(), |s| s.to_string());
            let hint = remedy(&given, "choices", names.iter().map(String::as_str));
            return Err((
                format!("`{given}` is not one of the choices of `{name}`"),
                hint,
            ));
        }
        Ok(value)
    }

    /// Reads a value of the declared type.
    fn value(&self, node: &Node) -> Result<Json, (String, String)> {
        let (expected, example) = match self.declaration.kind {
            ParameterType::Integer => ("an integer", "8"),
            ParameterType::Number => ("a number", "0.5"),
            ParameterType::Text => ("text", "some text"),
            ParameterType::Boolean => ("`true` or `false`", "true"),
            ParameterType::Duration => ("a duration", "30 s"),
            ParameterType::List => ("a list of texts, numbers or booleans", "[1, 2, 4]"),
        };
        match (self.declaration.kind, &node.value) {
            (ParameterType::Integer, Value::Int(_))
            | (ParameterType::Number, Value::Int(_) | Value::Float(_))
            | (ParameterType::Text, Value::Text(_))
            | (ParameterType::Boolean, Value::Bool(_)) => return Ok(node.json()),
            (ParameterType::Duration, Value::Text(text)) => match DurationText::parse(text) {
                Ok(span) => return Ok(Json::String(span.to_string())),
                Err(message) => return Err((message, duration_remedy(text))),
            },
            (ParameterType::List, Value::List(items))
                if items.iter().all(|i| i.scalar().is_some()) =>
            {
                return Ok(node.json());
            }
            _ => {}
        }
        let described = match &node.value {
            Value::List(items) if self.declaration.kind == ParameterType::List => {
                let wrong = items.iter().find(|item| item.scalar().is_none());
                wrong.map_or_else(
                    || node.describe(),
                    |item| format!("a list that contains {}", item.describe()),
                )
            }
            _ => node.describe(),
        };
        let message = format!(
            "the parameter `{}` takes {expected}, found {described}",
            self.name
        );
        let hint = match (self.declaration.kind, node.json().as_f64()) {
            // 7.0 and 1e1; the shortest form has no fraction.
            (ParameterType::Integer, Some(number))
                if number.fract() == 0.0 && number.abs() < 1e15 =>
            {
                format!("write `{number}`")
            }
            (ParameterType::Duration, Some(number)) => format!("add the unit: `{number} s`"),
            (ParameterType::List, _) if node.text().is_some_and(|text| text.contains('[')) => {
                "balance the brackets, and quote a text that YAML reads otherwise: `['*.gguf', b]`"
                    .to_owned()
            }
            _ => format!("write, for example, `{example}`"),
        };
        Err((message, hint))
    }

    fn help(&self) -> String {
        match self.node.get("help").and_then(Node::text) {
            Some(help) => format!("`{}`: {help}", self.name),
            None => "choose a value within the bounds of its declaration".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Json {
        list(text, Span::default()).json()
    }

    #[test]
    fn a_list_of_the_command_line_is_read_as_in_yaml_if_it_has_brackets() {
        let numbers = serde_json::json!([1, 2, 4]);
        for text in ["1,2,4", "1, 2, 4", "[1,2,4]", " [1, 2, 4] ", "[1, 2, 4,]"] {
            assert_eq!(read(text), numbers, "{text}");
        }
        assert_eq!(read("[]"), serde_json::json!([]));
        let texts = serde_json::json!(["a", "b"]);
        for text in ["a,b", "[a, b]", "['a', 'b']", "[\"a\",\"b\"]"] {
            assert_eq!(read(text), texts, "{text}");
        }
        // Without brackets, brackets within an entry are part of it.
        assert_eq!(
            read("x[0],meta/llama:8b"),
            serde_json::json!(["x[0]", "meta/llama:8b"])
        );
        for text in ["[a,b", "a,b]", "[a,b]]", "[a,b],c", "[a", "[*a]"] {
            assert_eq!(read(text), Json::from(text), "{text}");
        }
        assert_eq!(read("['*a', b]"), serde_json::json!(["*a", "b"]));
    }
}
