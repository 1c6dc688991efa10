//! A server's API key. It goes from the environment into a header and nowhere else.

use std::fmt;

use crate::secrets::{SHORTEST, find, replace};

/// An API key. It cannot be printed; [`ApiKey::mask`] removes it from what servers send back.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    key: String,
    /// The header that carries the key alone; by default, `Authorization` carries it as a bearer token.
    header: Option<String>,
}

/// The headers that requests have for another purpose.
const TAKEN: [&str; 8] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
];

/// A shorter key is probably a word and no secret.
const LEAST_OF_A_SECRET: usize = 12;

/// The text that replaces a key.
const MASK: &str = "[API key]";

/// The message for a text that cannot name a variable. It does not repeat the text.
const NOT_A_NAME: &str = "the API key must be given as the name of an environment variable, and this is not a valid name (it is not shown, because it may be the key)";

impl ApiKey {
    /// Reads the key from an environment variable, without surrounding white space.
    ///
    /// # Errors
    /// One sentence that names the variable, if it is not set, is empty, or cannot be sent in a header.
    #[expect(
        clippy::disallowed_methods,
        reason = "secrets come only from the environment"
    )]
    pub fn from_environment(variable: &str) -> Result<Self, String> {
        if !Self::is_variable(variable) {
            return Err(NOT_A_NAME.to_owned());
        }
        let value = std::env::var_os(variable).ok_or_else(|| {
            format!(
                "the environment variable `{variable}`, which should hold the API key, is not set"
            )
        })?;
        Self::new(value.to_str().unwrap_or("\0")).ok_or_else(|| {
            format!(
                "the environment variable `{variable}` does not hold an API key that can be sent in a header"
            )
        })
    }

    /// Returns whether a text can name an environment variable. If it cannot, it may be the key itself, so do not
    /// repeat it.
    pub fn is_variable(text: &str) -> bool {
        let first = text.bytes().next();
        first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    }

    /// Returns the remedy for a variable that holds no usable key; `run` is a command that uses the variable.
    pub fn remedy(variable: &str, run: &str) -> String {
        match Self::is_variable(variable) {
            true => run.to_owned(),
            false => "put the key into an environment variable (`export MY_KEY=…`) and give its name: MY_KEY".to_owned(),
        }
    }

    /// Makes a key from a text; `None` if it is empty or holds anything but visible ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        let key = text.to_owned();
        fits.then_some(Self { key, header: None })
    }

    /// Returns the same key for a server that expects it in a header of its own, such as `X-Api-Key`.
    #[must_use]
    pub fn sent_in(self, header: Option<String>) -> Self {
        Self { header, ..self }
    }

    /// Returns whether a header can carry the key: its name is plain, and requests do not have it already.
    pub fn can_be_in(header: &str) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !header.is_empty()
            && header.bytes().all(plain)
            && !TAKEN.contains(&header.to_ascii_lowercase().as_str())
    }

    /// Returns the header that carries the key: its name and its value.
    pub fn header(&self) -> (String, String) {
        match &self.header {
            Some(name) => (name.clone(), self.key.clone()),
            None => ("Authorization".to_owned(), format!("Bearer {}", self.key)),
        }
    }

    /// Returns the key itself and the name of its own header, for a process of our own that sends it.
    pub fn reveal(&self) -> (String, Option<String>) {
        (self.key.clone(), self.header.clone())
    }

    /// Returns where a text contains the whole key, as a byte offset. `None` for a key of fewer than 12 bytes: users of local
    /// servers write words such as `ollama` in place of a key, and these occur in many texts.
    pub fn position_in(&self, text: &str) -> Option<usize> {
        let at = find(text.as_bytes(), 0, self.key.as_bytes());
        at.filter(|_| self.key.len() >= LEAST_OF_A_SECRET)
            .map(|(start, _)| start)
    }

    /// Replaces the key in a text, because servers repeat a wrong key in their errors and logs. Mask only what is stored or
    /// shown, never what is parsed: a key such as `content` is also a word of every answer. A key of fewer than 6 characters
    /// stays, because it protects nothing, and is part of many texts.
    pub fn mask(&self, text: &str) -> String {
        match self.key.len() < SHORTEST {
            true => text.to_owned(),
            false => replace(text, &self.key, MASK),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_place_of_its_variable_is_not_repeated() {
        for key in ["sk-proj-1", "", "1KEY", "a b", "k=v"] {
            let error = ApiKey::from_environment(key).unwrap_err();
            assert!(key.is_empty() || !error.contains(key), "{error}");
            assert!(ApiKey::remedy(key, "export it").contains("MY_KEY"));
        }
        assert!(
            ApiKey::from_environment("NOT_SET_AT_ALL")
                .unwrap_err()
                .contains("NOT_SET_AT_ALL")
        );
        assert_eq!(ApiKey::remedy("MY_KEY", "export it"), "export it");
    }

    #[test]
    fn a_key_is_not_printed_even_for_debugging() {
        assert_eq!(format!("{:?}", ApiKey::new("sk-1").unwrap()), "ApiKey(…)");
    }

    #[test]
    fn a_key_is_masked_wherever_it_stands() {
        let key = ApiKey::new(" sk-123\n").unwrap();
        for (text, masked) in [
            ("no sk-123, not sk-123", "no [API key], not [API key]"),
            ("sk-sk-123sk-123 sk-", "sk-[API key][API key] sk-"),
        ] {
            assert_eq!(key.mask(text), masked);
        }
    }

    #[test]
    fn a_text_that_was_cut_within_the_key_keeps_no_part_of_it() {
        let key = ApiKey::new("sk-proj/abcdef").unwrap();
        for text in [
            "wrong: sk-proj/abcde",
            "wrong: sk-pro",
            "wrong: sk-proj",
            r"wrong: sk-proj\/abc",
            r"wrong: sk-proj\u00",
            "wrong: sk-proj%2",
            "wrong: sk-proj&#x2",
        ] {
            assert_eq!(key.mask(text), "wrong: [API key]", "{text}");
        }
        for text in [
            "wrong: sk-pr",
            "sk-projects are wrong",
            "no more than sk-\\",
        ] {
            assert_eq!(key.mask(text), text);
        }
    }

    #[test]
    fn a_key_that_is_a_short_word_is_left_in_texts() {
        for word in ["1", "x", "null", "token", "EMPTY"] {
            let text = format!("HTTP 401: {word}");
            assert_eq!(ApiKey::new(word).unwrap().mask(&text), text);
        }
    }

    #[test]
    fn a_key_is_masked_in_every_form_in_which_servers_repeat_it() {
        let key = ApiKey::new("ab/cd+ef==").unwrap();
        let text = r#"{"error": "no ab\/cd+ef== and ab%2Fcd%2Bef%3D%3D"}"#;
        let masked = r#"{"error": "no [API key] and [API key]"}"#;
        assert_eq!(key.mask(text), masked);
    }

    #[test]
    fn what_would_break_a_header_is_no_key() {
        for text in ["", "  ", "a b", "a\r\nb", "é"] {
            assert!(ApiKey::new(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_key_goes_into_the_header_that_its_server_expects() {
        let key = ApiKey::new("sk-123").unwrap();
        let header = |key: &ApiKey| key.header();
        let bearer = ("Authorization".to_owned(), "Bearer sk-123".to_owned());
        assert_eq!(header(&key), bearer);
        let own = key.sent_in(Some("X-Api-Key".to_owned()));
        assert_eq!(header(&own), ("X-Api-Key".to_owned(), "sk-123".to_owned()));
        for name in ["api-key", "X-Api-Key", "Ocp-Apim-Subscription-Key"] {
            assert!(ApiKey::can_be_in(name), "{name}");
        }
        for name in ["", "Host", "authorization", "a b", "a:b", "a\r\nb"] {
            assert!(!ApiKey::can_be_in(name), "{name}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let error = ApiKey::from_environment("BENCHTRAIL_NO_SUCH_KEY").unwrap_err();
        assert!(
            error.contains("`BENCHTRAIL_NO_SUCH_KEY`") && error.contains("not set"),
            "{error}"
        );
    }
}
