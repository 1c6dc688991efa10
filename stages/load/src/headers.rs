//! The user's own headers, sent with every request of the load.

use pipeline::language::names_a_secret;

/// The headers that every request has already.
const OURS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "user-agent",
];

/// Returns the problem with one of the user's headers, if any, and what to do. A problem is: its name is not a token of
/// HTTP (RFC 9110, section 5.6.2); its value has more than printable ASCII, spaces and tabs; the generator writes this
/// header itself; or the header would store a secret among the parameters.
pub fn header_problem(name: &str, value: &str) -> Option<(String, &'static str)> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(token) {
        return Some((
            format!("`{name}` is not a valid header name"),
            "write it like `X-Route`",
        ));
    }
    if !value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
        return Some((
            format!("header {name}: a value holds printable ASCII, spaces and tabs"),
            "write it on one line",
        ));
    }
    if OURS.contains(&lower.as_str()) {
        return Some((
            format!("header {name}: every request already has it"),
            "remove it",
        ));
    }
    names_a_secret(name).then(|| {
        (
            format!("header {name}: this value would be stored, and it is a secret"),
            "name the environment variable that holds the key with `api-key-env` (`--api-key-env` on the \
             command line); it is sent as `Authorization: Bearer` and never stored",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::header_problem;

    #[test]
    fn a_header_is_a_name_and_one_line_and_neither_ours_nor_a_secret() {
        assert_eq!(header_problem("X-Route", "a b; c=\"d\""), None);
        assert_eq!(header_problem("Idempotency-Key", "a"), None);
        for (name, value, reason) in [
            ("", "x", "not a valid header name"),
            ("X Route", "x", "not a valid header name"),
            ("X-Route:", "x", "not a valid header name"),
            ("X-Route", "a\r\nHost: b", "printable"),
            ("X-Route", "ü", "printable"),
            ("Content-length", "3", "already"),
            ("authorization", "Bearer x", "a secret"),
            ("X-API-Key", "x", "a secret"),
            ("X-Auth-Token", "x", "a secret"),
            ("Private-Token", "x", "a secret"),
            ("Ocp-Apim-Subscription-Key", "x", "a secret"),
        ] {
            let (message, _) = header_problem(name, value).unwrap();
            assert!(message.contains(reason), "{name}: {message}");
        }
    }
}
