//! Secrets that an experiment or a definition contains. Whatever is written there is stored with the results, so a
//! secret is refused before anything is stored. It belongs into a variable that the program inherits.

use super::diagnostics::{Mistake, Sink, Span};
use super::hidden::{is_known_key, names_a_secret};
use super::tree::{Node, Value};
use crate::stage::Step;

/// The mappings from names of variables to their values.
const VARIABLES: [&str; 2] = ["environment", "env"];

/// The shortest value of a variable that is taken for a secret, in characters. Shorter ones are words such as `EMPTY`.
const SHORTEST: usize = 8;

const INHERIT: &str = "for an engine or a program, set a variable in your shell and name it in `inherit`; for requests to a \
                       server, name it in `api-key-env`. Only a digest of an inherited secret is stored";

/// Reports the secrets in a tree, except those below some of its keys.
pub(super) fn check(tree: &Node, route: &[Step], except: &[&str], sink: &Sink) {
    let mut search = Search {
        sink,
        route: route.to_vec(),
    };
    for (key, node) in tree.entries() {
        if !except.contains(&key.text.as_str()) {
            search.entry(&key.text, key.span, node, Meaning::Setting);
        }
    }
}

/// Reports the secrets among parameters of the command line.
pub(super) fn check_arguments(set: &[(String, String)], sink: &Sink) {
    for (name, value) in set {
        let about = match is_named(name) && is_literal(value) {
            true => Some(of_variable(name)),
            false => has_known_key(value).then(|| KNOWN.to_owned()),
        };
        if let Some(message) = about {
            sink.argument(
                &format!("--set {name}=…"),
                message,
                Some(INHERIT.to_owned()),
            );
        }
    }
}

/// What the keys of a mapping are.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Setting,
    /// Names of variables or parameters.
    Name,
}

struct Search<'a> {
    sink: &'a Sink,
    route: Vec<Step>,
}

const KNOWN: &str = "this contains what looks like a key, a token or a password, and would be stored with the results";

fn of_variable(name: &str) -> String {
    format!("the value of `{name}` looks like a secret, and would be stored with the results")
}

impl Search<'_> {
    fn entry(&mut self, key: &str, place: Span, node: &Node, meaning: Meaning) {
        self.route.push(Step::Key(key.to_owned()));
        let inner = match &node.value {
            // A parameter may be declared by its value, or by a mapping with `default`.
            Value::Map(_) if meaning == Meaning::Name && is_named(key) => {
                let default = node.get("default").and_then(Node::text);
                if default.is_some_and(is_literal) {
                    self.add(place, of_variable(key));
                }
                Meaning::Setting
            }
            Value::Map(_) if VARIABLES.contains(&key) || key == "parameters" => Meaning::Name,
            _ => Meaning::Setting,
        };
        match &node.value {
            Value::Text(text) if meaning == Meaning::Name && is_named(key) && is_literal(text) => {
                self.add(place, of_variable(key));
            }
            _ => self.value(node, inner),
        }
        self.route.pop();
    }

    fn value(&mut self, node: &Node, meaning: Meaning) {
        match &node.value {
            Value::Text(text) if has_known_key(text) => self.add(node.span, KNOWN.to_owned()),
            Value::Text(text) => {
                if let Some(name) = assigned(text) {
                    self.add(node.span, of_variable(name));
                }
            }
            Value::Map(entries) => {
                for (key, node) in entries {
                    self.entry(&key.text, key.span, node, meaning);
                }
            }
            Value::List(items) => self.list(items),
            _ => {}
        }
    }

    /// Also looks for `NAME=VALUE`, `--flag=VALUE`, and `--flag` before its value.
    fn list(&mut self, items: &[Node]) {
        let mut flag: Option<(&str, Span)> = None;
        for (index, node) in items.iter().enumerate() {
            self.route.push(Step::Index(index));
            let text = node.text().unwrap_or_default();
            let given = text.split_once('=').filter(|(name, _)| is_word(name));
            if let Some((name, _)) =
                given.filter(|(name, value)| is_named(name) && is_literal(value))
            {
                self.add(node.span, of_variable(name));
            } else if let Some((name, place)) =
                flag.filter(|_| is_literal(text) && !text.starts_with('-'))
            {
                self.add(place, of_variable(name));
            } else {
                self.value(node, Meaning::Setting);
            }
            let is_flag = text.starts_with('-') && is_word(text) && is_named(text);
            flag = is_flag.then_some((text, node.span));
            self.route.pop();
        }
    }

    fn add(&self, place: Span, message: String) {
        self.sink
            .add(Mistake::new(place, &self.route, message).hint(INHERIT));
    }
}

/// Returns the name of a variable or a flag that a text sets to a secret, as in a command line or a list of variables.
fn assigned(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || ",;\"'".contains(c));
    let mut set = words.filter_map(|word| word.split_once('='));
    let is_name = |name: &str| {
        let is_variable = name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        is_word(name) && (is_variable || name.starts_with('-'))
    };
    let secret = set.find(|(name, value)| is_name(name) && is_named(name) && is_literal(value));
    secret.map(|(name, _)| name)
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

fn is_named(name: &str) -> bool {
    names_a_secret(name)
}

/// Returns whether a value can be a secret as it is: not a number, a placeholder, a special token, a path or a sentence.
fn is_literal(value: &str) -> bool {
    value.chars().count() >= SHORTEST
        && !value.starts_with(['/', '.', '~'])
        && !value
            .chars()
            .any(|c| c.is_whitespace() || "<>{}$[]|".contains(c))
        && value.parse::<f64>().is_err()
}

/// Returns whether a text contains a key that is known by its form, or a URL with a password.
pub fn has_known_key(text: &str) -> bool {
    let in_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.split(|c| !in_word(c)).any(is_known_key)
        || text
            .match_indices("://")
            .any(|(at, sign)| has_password(&text[at + sign.len()..]))
        || (text.contains("-----BEGIN ") && text.contains("PRIVATE KEY"))
}

/// Returns whether there is a literal password before the host of a URL, whose scheme has been left out.
fn has_password(url: &str) -> bool {
    let end = url.find(|c: char| c.is_whitespace() || "/?#\"'<>`".contains(c));
    let authority = &url[..end.unwrap_or(url.len())];
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| user.split_once(':'));
    password
        .is_some_and(|(_, password)| !password.is_empty() && !password.contains(['$', '{', '*']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_their_form_and_names_and_words_are_none() {
        let random = |n: usize| "a1B2".repeat(n);
        for text in [
            format!("hf_{}", random(9)),
            format!("--hf-token=hf_{}", random(9)),
            format!("sk-proj-{}", random(8)),
            format!("ghp_{}", random(9)),
            format!("github_pat_{}", random(6)),
            format!("glpat-{}", random(6)),
            format!("AKIA{}", "ABCD".repeat(4)),
            format!("AIza{}xyz", random(8)),
            format!("eyJ{}.eyJ{}.{}", random(4), random(4), random(4)),
            "index at https://ada:hunter2@packages/simple".to_owned(),
            "redis://:hunter2@db/0".to_owned(),
            format!("-----BEGIN OPENSSH {} KEY-----\nabc", "PRIVATE"),
        ] {
            assert!(has_known_key(&text), "{text}");
        }
        for text in [
            "sk-learn-models-of-the-third-kind",
            "sk-hynix-hbm3e-12-high",
            "hf_transfer",
            "hf_xet_high_performance_mode_is_on_here",
            "b3:7dcda260dba6398f098ff10635456952274dff558f971dcf748aca6cd3a41a0d",
            "http://127.0.0.1:8080/v1?x=a:b@c",
            "https://user@host/x",
            "http://${user}:${password}@host",
            "eyJ",
            "",
        ] {
            assert!(!has_known_key(text), "{text}");
        }
        for (text, name) in [
            ("HF_TOKEN=correct-horse exec server", Some("HF_TOKEN")),
            ("ALL,HF_TOKEN=correct-horse", Some("HF_TOKEN")),
            ("server --api-key=correct-horse --port 8", Some("--api-key")),
            ("HF_TOKEN=$HF_TOKEN exec server", None),
            ("select token=correct_horse from t", None),
            ("MAX_TOKENS=correct-horse", None),
        ] {
            assert_eq!(assigned(text), name, "{text}");
        }
        for (name, value, is) in [
            ("HF_TOKEN", "correct-horse", true),
            ("--api-key", "correct-horse", true),
            ("VLLM_API_KEY", "EMPTY", false),
            ("EOS_TOKEN", "<|endoftext|>", false),
            ("MAX_TOKENS", "not-known-yet", false),
            ("TOKENIZER", "mistral-v3", false),
            ("ANSWER_TOKEN", "123456789", false),
            ("HF_TOKEN", "${token_of_mine}", false),
            ("TLS_AUTH", "/etc/keys/ca", false),
        ] {
            assert_eq!(is_named(name) && is_literal(value), is, "{name}={value}");
        }
    }
}
