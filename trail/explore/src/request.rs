//! A request target: a path and its query string.

/// A path with its parameters, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The segments of the path, each decoded separately, so that a name may contain a slash.
    pub path: Vec<String>,
    /// The parameters, in order.
    pub parameters: Vec<(String, String)>,
}

impl Ask {
    /// Parses the target of a request, `/PATH?NAME=VALUE&…`; `None` if an escape is malformed or the bytes are not
    /// UTF-8.
    pub fn parse(target: &str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments = path.strip_prefix('/')?.split('/');
        let path = segments.map(decode).collect::<Option<Vec<_>>>()?;
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                // In a query, a plus sign is a space.
                let decode = |text: &str| decode(&text.replace('+', " "));
                Some((decode(name)?, decode(value)?))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { path, parameters })
    }

    /// Creates a question.
    pub(crate) fn to(path: &[&str], parameters: &[(&str, &str)]) -> Self {
        Self::of(path.iter().map(|s| (*s).to_owned()).collect(), parameters)
    }

    /// Creates a question from owned segments.
    pub(crate) fn of(path: Vec<String>, parameters: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            path,
            parameters: parameters.iter().map(own).collect(),
        }
    }

    /// Returns the question in the form in which an exported page looks it up: the segments and the sorted parameters,
    /// without escapes. `api.js` builds the same key.
    pub(crate) fn key(&self) -> String {
        let mut pairs: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.sort();
        format!("{}?{}", self.path.join("/"), pairs.join("&"))
    }

    /// Returns whether this asks for a file of the page, which contains no data.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.path.as_slice(), [name] if name != "api")
    }

    /// Returns whether the answer may take long, because it depends on a query or on many states of a study.
    pub(crate) fn may_be_long(&self) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        matches!(
            path.as_slice(),
            ["api", "v1", "studies", _, "sql" | "history" | "compare"]
        )
    }

    /// Returns the first parameter with a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let parameter = self.parameters.iter().find(|(n, _)| n == name);
        parameter.map(|(_, value)| value.as_str())
    }
}

/// Removes percent-encoding from a text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_parameters_are_decoded_each_by_itself() {
        let ask = Ask::parse("/api/v1/a%2Fb?q=a%26b+c&cell=x%5B1%5D&empty").unwrap();
        assert_eq!(ask.path, ["api", "v1", "a/b"]);
        assert_eq!(ask.get("q"), Some("a&b c"));
        assert_eq!(ask.get("cell"), Some("x[1]"));
        assert_eq!(ask.get("empty"), Some(""));
        assert_eq!(ask.get("other"), None);
    }

    #[test]
    fn only_the_files_of_the_page_are_files_however_an_address_is_written() {
        for target in ["/", "/app.js", "/app.js?a=/", "/%61pp.js"] {
            assert!(Ask::parse(target).unwrap().is_file(), "{target}");
        }
        for target in [
            "/api",
            "/api/v1",
            "/%61pi/v1/studies",
            "/%61%70%69",
            "//",
            "/a/b",
        ] {
            assert!(!Ask::parse(target).unwrap().is_file(), "{target}");
        }
    }

    #[test]
    fn what_is_no_escape_is_no_question() {
        for target in ["/%", "/%2", "/%zz", "/%ff", "no-slash", "/?%ff=1"] {
            assert_eq!(Ask::parse(target), None, "{target}");
        }
    }
}
