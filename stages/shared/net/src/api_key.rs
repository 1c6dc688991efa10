//! A server's API key. It goes from the environment into a header and nowhere else.

use std::fmt;

use crate::secrets::{find, replace};

/// An API key. It cannot be printed; [`ApiKey::mask`] removes it from what servers send back.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

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
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the header that carries the key.
    pub fn header(&self) -> (String, String) {
        ("Authorization".to_owned(), format!("Bearer {}", self.0))
    }

    /// Returns the key itself, for a process of our own that sends it.
    pub fn reveal(&self) -> String {
        self.0.clone()
    }

    /// Replaces the key in a text, because servers repeat a wrong key in their errors and logs.
    pub fn mask(&self, text: &str) -> String {
        replace(text, &self.0, MASK)
    }

    /// Overwrites the key in received bytes, keeping their length.
    pub fn mask_bytes(&self, bytes: &mut [u8]) {
        let mut from = 0;
        while let Some((start, end)) = find(bytes, from, self.0.as_bytes()) {
            bytes[start..end].fill(b'*');
            from = end;
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
        let key = ApiKey::new(" sk-1\n").unwrap();
        assert_eq!(key.mask("no sk-1, not sk-1"), "no [API key], not [API key]");
        let mut bytes = *b"sk-sk-1sk-1 sk-";
        key.mask_bytes(&mut bytes);
        assert_eq!(&bytes, b"sk-******** sk-");
    }

    #[test]
    fn a_key_is_masked_in_every_form_in_which_servers_repeat_it() {
        let key = ApiKey::new("ab/cd+ef==").unwrap();
        let text = r#"{"error": "no ab\/cd+ef== and ab%2Fcd%2Bef%3D%3D"}"#;
        let masked = r#"{"error": "no [API key] and [API key]"}"#;
        assert_eq!(key.mask(text), masked);
        let mut bytes = text.as_bytes().to_vec();
        key.mask_bytes(&mut bytes);
        let hidden = String::from_utf8(bytes).unwrap();
        assert_eq!(hidden.len(), text.len());
        assert!(!hidden.contains("cd"), "{hidden}");
    }

    #[test]
    fn what_would_break_a_header_is_no_key() {
        for text in ["", "  ", "a b", "a\r\nb", "é"] {
            assert!(ApiKey::new(text).is_none(), "{text:?}");
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
