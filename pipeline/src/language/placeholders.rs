//! Placeholders of other tools and of shells, and the Benchtrail form of each: `${{ matrix.x }}`, `${X:-16}`, `{{ x }}`, `${env.X}`.

use super::parse::plain_scalar;
use super::tree::Value;

/// What a name in front of a dot stands for in other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context<'t> {
    /// Values of the file, such as `matrix.x`; with the name behind the dot.
    Values(&'t str),
    /// Variables of the environment, such as `env.X`; with the name behind the dot.
    Variables(&'t str),
}

/// Returns the context of a name, if another tool has one of this name.
pub(super) fn context_of(name: &str) -> Option<Context<'_>> {
    let (head, rest) = name.split_once('.')?;
    match head {
        "matrix" | "params" | "parameters" | "inputs" | "vars" | "config" | "wildcards"
        | "item" | "axes" | "strategy" => Some(context_of(rest).unwrap_or(Context::Values(rest))),
        "env" | "secrets" | "environ" | "__ENV" => Some(Context::Variables(rest)),
        _ => None,
    }
}

/// Returns whether a name is spelled like a variable of the environment.
pub(super) fn is_variable(name: &str) -> bool {
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(part)
}

/// Returns the remedy for a variable of the environment.
pub(super) fn no_environment(name: &str) -> String {
    format!(
        "environment variables are not read: declare `parameters: {{{name}: …}}`, and give its value with `--set {name}=…`"
    )
}

/// Returns the remedy for an unknown name between `${` and `}`; `None` if no other tool is known to write it so.
pub(super) fn remedy_for(inner: &str) -> Option<String> {
    let name = inner.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
    if let Some((name, default)) = with_default(name) {
        let kind = match plain_scalar(default) {
            Value::Int(_) => "integer",
            Value::Float(_) => "number",
            Value::Bool(_) => "boolean",
            _ => "text",
        };
        return Some(format!(
            "environment variables are not read: declare `parameters: {{{name}: {{type: {kind}, default: {default}}}}}`, \
             write `${{{name}}}`, and give another value with `--set {name}=…`"
        ));
    }
    match context_of(name) {
        Some(Context::Variables(name)) if is_name(name) => Some(no_environment(name)),
        Some(Context::Values(name)) if is_name(name) => Some(format!("write `${{{name}}}`")),
        _ if is_name(name) => Some(format!("write `${{{name}}}`")),
        _ if is_arithmetic(name) => Some(NO_ARITHMETIC.to_owned()),
        _ => None,
    }
}

/// What to do instead of arithmetic.
pub(super) const NO_ARITHMETIC: &str = "placeholders do not compute: give each label of the axis a field with the \
     result, and write `\"${AXIS.FIELD}\"`";

/// Returns whether a text is arithmetic with names, as `clients * 8`.
fn is_arithmetic(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_. ()+*/%".contains(c);
    text.chars().all(is_part)
        && text.contains(['+', '*', '/', '%', '-'])
        && text.contains(|c: char| c.is_ascii_alphabetic())
}

/// Returns whether a text computes with placeholders, as `${clients}*8`.
pub(super) fn computes(text: &str) -> bool {
    let mut rest = text;
    let mut around = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((_, after)) = after.split_once('}') else {
            return false;
        };
        around.push_str(before);
        rest = after;
    }
    around.push_str(rest);
    let is_part = |c: char| c.is_ascii_digit() || " .()+*/%-".contains(c);
    rest.len() < text.len() && around.chars().all(is_part) && around.contains(['+', '*', '/', '-'])
}

/// Reads a shell's variable with a default: `X:-16`, `X:=16`.
fn with_default(inner: &str) -> Option<(&str, &str)> {
    let (name, default) = inner.split_once(":-").or_else(|| inner.split_once(":="))?;
    let plain = default
        .chars()
        .all(|c| c.is_alphanumeric() || "-_./".contains(c));
    (is_name(name) && !default.is_empty() && plain).then_some((name, default))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_other_tools_get_ours() {
        for (inner, remedy) in [
            ("{ matrix.clients }", Some("write `${clients}`")),
            (" clients ", Some("write `${clients}`")),
            ("{ strategy.matrix.clients ", Some("write `${clients}`")),
            ("a[0]", None),
            ("", None),
        ] {
            assert_eq!(remedy_for(inner).as_deref(), remedy, "{inner}");
        }
        for inner in ["N:-16", "N:=16"] {
            let remedy = remedy_for(inner).unwrap_or_default();
            assert!(
                remedy.contains("`parameters: {N: {type: integer, default: 16}}`, write `${N}`"),
                "{inner}: {remedy}"
            );
        }
        for inner in ["{ env.N }", "{secrets.N}"] {
            let remedy = remedy_for(inner).unwrap_or_default();
            assert!(remedy.contains("`parameters: {N: …}`"), "{inner}: {remedy}");
        }
        assert_eq!(context_of("clients.slots"), None);
    }
}
