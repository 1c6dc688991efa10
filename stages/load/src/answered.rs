//! Which models the answers of a load name. A server that restarted, a gateway with a fallback, or another server on the
//! same port answers like the measured one, but calls its model by another name.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The longest name that is kept, in characters.
const NAME_LENGTH: usize = 200;

/// The largest number of distinct pairs of names to keep.
const PAIRS: usize = 64;

/// The most names that a warning lists.
const LISTED: usize = 4;

/// The number of complete answers that name each model, by the requested model. Parts of a workload may ask for several.
#[derive(Debug, Default)]
pub(crate) struct Answered(BTreeMap<String, BTreeMap<String, u64>>);

/// Returns the name of the model in an event of an answer: `model`, or that of the `message` or `response` in it.
pub(crate) fn model_in(event: &[u8]) -> Option<String> {
    /// A value that may be of another type.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Inner {
        Object { model: Name },
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    struct Event {
        model: Option<Name>,
        message: Option<Inner>,
        response: Option<Inner>,
    }
    let event: Event = serde_json::from_slice(event).ok()?;
    let inner = event.message.or(event.response);
    let inner = inner.and_then(|inner| match inner {
        Inner::Object { model } => Some(model),
        Inner::Other(_) => None,
    });
    match event.model.or(inner)? {
        Name::Text(name) if !name.is_empty() => Some(name.chars().take(NAME_LENGTH).collect()),
        _ => None,
    }
}

impl Answered {
    /// Counts a complete answer to a request for a model.
    pub(crate) fn add(&mut self, requested: &str, answered: Option<String>) {
        let Some(answered) = answered else { return };
        let pairs: usize = self.0.values().map(BTreeMap::len).sum();
        let names = self.0.get_mut(requested);
        if let Some(count) = names.and_then(|names| names.get_mut(&answered)) {
            *count += 1;
        } else if pairs < PAIRS {
            let names = self.0.entry(requested.to_owned()).or_default();
            names.insert(answered, 1);
        }
    }

    /// Returns the doubt that a requested model answered, if there is one.
    pub(crate) fn doubt(&self) -> Option<String> {
        self.0
            .iter()
            .find_map(|(requested, names)| doubt(requested, names))
    }
}

fn doubt(requested: &str, names: &BTreeMap<String, u64>) -> Option<String> {
    let (first, _) = names.first_key_value()?;
    if names.len() == 1 {
        return (!are_alike(first, requested)).then(|| {
            format!(
                "the answers name the model `{first}`, but the requests asked for `{requested}`: another model may have \
                 answered"
            )
        });
    }
    let listed = names.iter().take(LISTED);
    let mut listed: Vec<String> = listed
        .map(|(name, answers)| format!("`{name}` ({answers})"))
        .collect();
    if names.len() > LISTED {
        listed.push("others".to_owned());
    }
    Some(format!(
        "the answers to requests for `{requested}` name more than one model: {}; the server behind the address changed, or it \
         passes requests on",
        listed.join(", ")
    ))
}

/// Returns whether two names can be of one model. Servers add a date, a folder or the end of a file's name.
fn are_alike(a: &str, b: &str) -> bool {
    let plain = |name: &str| -> String {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let last = |name: &str| plain(name.rsplit('/').next().unwrap_or(name));
    let (whole_a, whole_b) = (plain(a), plain(b));
    let (last_a, last_b) = (last(a), last(b));
    let within = |long: &str, short: &str| !short.is_empty() && long.contains(short);
    within(&whole_a, &last_b) || within(&whole_b, &last_a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(names: &[&str], requested: &str) -> Option<String> {
        let mut answered = Answered::default();
        for name in names {
            answered.add(requested, Some((*name).to_owned()));
        }
        answered.add(requested, None);
        answered.doubt()
    }

    #[test]
    fn the_model_is_read_wherever_an_api_puts_it() {
        for (event, name) in [
            (r#"{"model":"m","choices":[]}"#, Some("m")),
            (
                r#"{"type":"message_start","message":{"model":"m"}}"#,
                Some("m"),
            ),
            (
                r#"{"type":"response.created","response":{"id":1,"model":"m"}}"#,
                Some("m"),
            ),
            (r#"{"message":{"content":"x"},"model":"m"}"#, Some("m")),
            (r#"{"model":null}"#, None),
            (r#"{"model":["m"]}"#, None),
            (r#"{"model":""}"#, None),
            (r#"{"message":"x","response":7}"#, None),
            (r#"["m"]"#, None),
            ("[DONE]", None),
        ] {
            assert_eq!(model_in(event.as_bytes()).as_deref(), name, "{event}");
        }
    }

    #[test]
    fn an_answer_of_another_model_is_doubted() {
        assert_eq!(doubt(&[], "m"), None);
        let other = doubt(&["evil-7b", "evil-7b"], "llama-8b").unwrap();
        assert!(other.contains("`evil-7b`") && other.contains("`llama-8b`"));
        let several = doubt(&["a", "b", "a"], "a").unwrap();
        assert!(several.contains("`a` (2), `b` (1);"), "{several}");
        let many: Vec<String> = (0..99).map(|n| format!("m{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(doubt(&many, "m1").unwrap().contains(", others;"));
        // The parts of a workload ask for adapters of their own.
        let mut parts = Answered::default();
        parts.add("base", Some("base".to_owned()));
        parts.add("adapter", Some("adapter".to_owned()));
        assert_eq!(parts.doubt(), None);
        parts.add("adapter", Some("base".to_owned()));
        assert!(parts.doubt().unwrap().contains("requests for `adapter`"));
    }

    #[test]
    fn names_that_servers_lengthen_are_of_one_model() {
        for (answered, requested) in [
            ("gpt-4o-2024-08-06", "gpt-4o"),
            (
                "/models/SmolLM2-135M-Instruct-Q4_K_M.gguf",
                "smollm2-135m-instruct",
            ),
            ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
            ("Llama-3.1-8B", "/weights/meta-llama/Llama-3.1-8B"),
        ] {
            assert_eq!(doubt(&[answered], requested), None, "{answered}");
        }
    }
}
