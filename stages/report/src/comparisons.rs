//! Rejects comparisons of shown values when a template is read.
//!
//! The template engine orders an object and a number by their kinds, without an error, so it would answer
//! `value(…) < 3`, wrongly. Conditions must use plain values (`row.column`, `raw(…)`). This check does not detect a
//! shown value that reaches a comparison through a macro parameter.

use std::collections::BTreeSet;

/// Functions and methods whose results are shown values.
const SHOWN: &[&str] = &[
    "value",
    "count",
    "spec",
    "json",
    "host",
    "descriptor",
    "trail",
    "ref",
    "title",
    "table",
    "figure",
    "show",
    "interval",
];

/// Names that do not form a call with a following parenthesis.
const KEYWORDS: &[&str] = &["if", "elif", "else", "and", "or", "not", "in", "is", "set"];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Compare,
    Sign(char),
}

/// Returns the name that a `set` tag binds to a shown value.
pub(crate) fn bound(inner: &str, names: &BTreeSet<String>) -> Option<String> {
    let tokens = tokens(inner);
    let [
        Token::Name(set),
        Token::Name(name),
        Token::Sign('='),
        rest @ ..,
    ] = &tokens[..]
    else {
        return None;
    };
    (set == "set" && is_shown(rest, rest.len(), names).is_some()).then(|| name.clone())
}

/// Returns the shown value that a tag compares, if any.
pub(crate) fn compared(inner: &str, names: &BTreeSet<String>) -> Option<String> {
    let tokens = tokens(inner);
    let places = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| **t == Token::Compare);
    for (at, _) in places {
        if let Some(name) = is_shown(&tokens, at, names) {
            return Some(name);
        }
        let end = operand_end(&tokens, at + 1);
        if let Some(name) = is_shown(&tokens[at + 1..end], end - at - 1, names) {
            return Some(name);
        }
    }
    None
}

/// Returns the name of the operand that ends before `end`, if it is a shown value.
fn is_shown(tokens: &[Token], end: usize, names: &BTreeSet<String>) -> Option<String> {
    let last = end.checked_sub(1)?;
    match &tokens[last] {
        Token::Sign(')') => {
            let open = opening(tokens, last)?;
            match open.checked_sub(1).map(|i| &tokens[i]) {
                Some(Token::Name(_)) if after_bar(tokens, open - 1) => {
                    is_shown(tokens, open - 2, names)
                }
                Some(Token::Name(name)) if !KEYWORDS.contains(&name.as_str()) => {
                    let method = name.rsplit('.').next().unwrap_or(name);
                    SHOWN.contains(&method).then(|| method.to_owned())
                }
                _ => is_shown(&tokens[open + 1..last], last - open - 1, names),
            }
        }
        // `|length` and similar filters transform a list, but not a shown value.
        Token::Name(_) if after_bar(tokens, last) => is_shown(tokens, last - 1, names),
        Token::Name(name) => names.contains(name).then(|| name.clone()),
        _ => None,
    }
}

fn after_bar(tokens: &[Token], at: usize) -> bool {
    at.checked_sub(1)
        .is_some_and(|i| tokens[i] == Token::Sign('|'))
}

fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..=close).rev() {
        match tokens[at] {
            Token::Sign(')') => depth += 1,
            Token::Sign('(') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the index after the operand that begins at `start`: a name, its call, filters, or parentheses.
fn operand_end(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    if matches!(tokens.get(at), Some(Token::Name(_))) {
        at += 1;
    }
    loop {
        match tokens.get(at) {
            Some(Token::Sign('(')) => {
                let mut depth = 0usize;
                while let Some(token) = tokens.get(at) {
                    at += 1;
                    match token {
                        Token::Sign('(') => depth += 1,
                        Token::Sign(')') => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            Some(Token::Sign('|')) if matches!(tokens.get(at + 1), Some(Token::Name(_))) => at += 2,
            _ => return at,
        }
    }
}

fn tokens(inner: &str) -> Vec<Token> {
    let chars: Vec<char> = inner.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let next = chars.get(at + 1).copied();
        at += 1;
        if c == '"' || c == '\'' {
            while at < chars.len() && chars[at] != c {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            tokens.push(Token::Sign('"'));
        } else if c.is_alphanumeric() || c == '_' || c == '.' {
            let mut name = String::from(c);
            while at < chars.len()
                && (chars[at].is_alphanumeric() || matches!(chars[at], '_' | '.'))
            {
                name.push(chars[at]);
                at += 1;
            }
            tokens.push(Token::Name(name));
        } else if matches!(c, '<' | '>') || (matches!(c, '=' | '!') && next == Some('=')) {
            at += usize::from(next == Some('='));
            tokens.push(Token::Compare);
        } else if !c.is_whitespace() && !(matches!(c, '-' | '+') && (at == 1 || at == chars.len()))
        {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(inner: &str) -> bool {
        compared(inner, &BTreeSet::from(["best".to_owned()])).is_some()
    }

    #[test]
    fn shown_values_are_not_compared() {
        for inner in [
            "if value(\"a.b\", {\"c\": (1)}, \"d\") < 3",
            "if 3 >= count('a.b')",
            "elif row.show(\"x\") == \"7\"",
            "if best != 2",
            "if (best) > 2",
            "if value('a', {}, 'b')|float < 2",
            "if 2 < best|default(0)",
            " 'a' if spec('x') == 2 else 'b' ",
        ] {
            assert!(refused(inner), "{inner}");
        }
    }

    #[test]
    fn plain_values_are() {
        for inner in [
            "if raw(\"a.b\", {}, \"c\") < 3",
            "if row.efficiency <= 0.65 and rows('a.b')|length > 1",
            " value('a', {}, 'b') if raw('a', {}, 'c') < 1 else count('x') ",
            "if rows('a.b', {'best': 1})|length == 2",
            " row.show('p', format='< 3') ",
        ] {
            assert!(!refused(inner), "{inner}");
        }
    }

    #[test]
    fn a_name_set_to_a_shown_value_is_known() {
        let none = BTreeSet::new();
        assert_eq!(
            bound("set v = value('a', {}, 'b')", &none),
            Some("v".to_owned())
        );
        assert_eq!(bound("set v = raw('a', {}, 'b')", &none), None);
        assert_eq!(bound("set v = highest('a', {}, 'b')", &none), None);
    }
}
