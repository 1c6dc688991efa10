//! The tokens of a predicate.

use std::fmt;

use artifacts::Scalar;

use super::predicate::{Comparison, PredicateError};

/// A token of a predicate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A column or a keyword.
    Word(String),
    /// A number or a text.
    Constant(Scalar),
    /// A comparison.
    Compare(Comparison),
    /// A parenthesis, bracket or comma.
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Constant(value) => write!(f, "`{value}`"),
            Self::Compare(_) => f.write_str("a comparison"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

const COMPARISONS: [(&str, Comparison); 8] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::Different),
    ("<>", Comparison::Different),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

/// Returns the tokens of a predicate, each with the position of its first character.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, PredicateError> {
    let chars: Vec<char> = text.chars().collect();
    let wrong = |at: usize, what: &str| PredicateError::syntax(text, at, what);
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        let c = chars[at];
        let rest: String = chars[at..].iter().take(2).collect();
        if c.is_whitespace() {
            at += 1;
            continue;
        }
        let token = if let Some((sign, comparison)) =
            COMPARISONS.iter().find(|(s, _)| rest.starts_with(s))
        {
            at += sign.len();
            Token::Compare(*comparison)
        } else if let Some(sign) = ["(", ")", "[", "]", ","]
            .into_iter()
            .find(|s| rest.starts_with(s))
        {
            at += 1;
            Token::Sign(sign)
        } else if c == '\'' || c == '"' {
            Token::Constant(Scalar::Text(
                quoted(&chars, &mut at)
                    .ok_or_else(|| wrong(start, "the text has no closing quote"))?,
            ))
        } else if c.is_ascii_digit() || (matches!(c, '-' | '+' | '.' | '\u{2212}')) {
            let exponent =
                |at: usize| matches!(chars[at - 1], 'e' | 'E') && chars[start].is_ascii_digit();
            at += 1;
            while at < chars.len()
                && (chars[at].is_ascii_alphanumeric()
                    || chars[at] == '.'
                    || (matches!(chars[at], '-' | '+') && exponent(at)))
            {
                at += 1;
            }
            let digits: String = chars[start..at]
                .iter()
                .collect::<String>()
                .replace('\u{2212}', "-");
            Token::Constant(
                number(&digits)
                    .ok_or_else(|| wrong(start, &format!("`{digits}` is not a number")))?,
            )
        } else if c.is_alphabetic() || c == '_' {
            while at < chars.len()
                && (chars[at].is_alphanumeric() || matches!(chars[at], '_' | '.'))
            {
                at += 1;
            }
            Token::Word(chars[start..at].iter().collect())
        } else {
            return Err(wrong(start, &format!("`{c}` means nothing here")));
        };
        tokens.push((start, token));
    }
    Ok(tokens)
}

/// Parses a quoted text; a quote inside is doubled.
fn quoted(chars: &[char], at: &mut usize) -> Option<String> {
    let quote = chars[*at];
    let mut text = String::new();
    *at += 1;
    loop {
        let c = *chars.get(*at)?;
        *at += 1;
        if c != quote {
            text.push(c);
        } else if chars.get(*at) == Some(&quote) {
            text.push(quote);
            *at += 1;
        } else {
            return Some(text);
        }
    }
}

fn number(digits: &str) -> Option<Scalar> {
    if let Ok(whole) = digits.parse::<i64>() {
        return Some(Scalar::Int(whole));
    }
    digits
        .parse::<f64>()
        .ok()
        .filter(|v| v.is_finite())
        .map(Scalar::Float)
}
