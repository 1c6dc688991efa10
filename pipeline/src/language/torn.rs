//! Lists without brackets in a mapping with braces: in `{clients: 1,2,4}`, YAML reads `2` and `4` as keys.

use super::diagnostics::{Mistake, Span};
use super::tree::{Key, Node, Value};

/// Finds such lists among the entries of one mapping.
#[derive(Default)]
pub(super) struct TornList {
    /// The last key with a plain value, the place of the value, and the value as written.
    key: Option<(String, Span, String)>,
    /// The items that YAML reads as keys.
    items: Vec<String>,
    mistakes: Vec<Mistake>,
}

impl TornList {
    /// Reads the next entry, and returns whether it is an item of such a list. `bare` says that no colon follows the
    /// key.
    pub(super) fn takes(&mut self, key: &Key, node: &Node, bare: bool) -> bool {
        if bare && self.key.is_some() {
            self.items.push(key.text.clone());
            return true;
        }
        self.end();
        let value = match &node.value {
            Value::Int(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.written.to_string()),
            Value::Text(text) if !text.contains(',') => Some(text.clone()),
            _ => None,
        };
        self.key = value.map(|value| (key.text.clone(), node.span, value));
        false
    }

    /// Returns the mistakes found.
    pub(super) fn mistakes(mut self) -> Vec<Mistake> {
        self.end();
        self.mistakes
    }

    fn end(&mut self) {
        let items = std::mem::take(&mut self.items);
        let Some((key, span, first)) = self.key.take() else {
            return;
        };
        if let Some(sign) = block_sign(&first) {
            let message = format!("a text of several lines (`{sign}`) cannot be inside braces");
            let hint = format!("put the text in quotes: `{key}: \"…\"`");
            self.mistakes
                .push(Mistake::new(span, &[], message).hint(hint));
            return;
        }
        if items.is_empty() {
            return;
        }
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let number = match items.as_slice() {
            [rest] if digits(&first) && digits(rest) && rest.len() == 3 => {
                format!("; the number is written `{key}: {first}{rest}`")
            }
            [rest] if digits(&first) && digits(rest) => {
                format!("; the fraction is written `{key}: {first}.{rest}`")
            }
            _ => String::new(),
        };
        let (count, list) = (items.len() + 1, items.join(", "));
        let message = format!("`{key}` has {count} values without brackets");
        self.mistakes
            .push(Mistake::new(span, &[], message).hint(format!(
                "write the list as `{key}: [{first}, {list}]`{number}"
            )));
    }
}

/// Returns the sign in front of a value that begins a text of several lines outside of braces.
fn block_sign(text: &str) -> Option<&str> {
    let sign = text.split_whitespace().next()?;
    let more = sign.strip_prefix(['>', '|'])?;
    let is_sign = more.chars().all(|c| c.is_ascii_digit() || "+-".contains(c));
    (is_sign && sign.len() < text.len()).then_some(sign)
}
