//! Explains a bucket server's errors to people: what happened, and what to do. The text never repeats a secret.

use std::error::Error as _;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::error::{RemoteError, masked};
use crate::place::{Bucket, Provider};
use crate::profile;

/// A bucket's server, as messages name it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The shared store's address, as the user wrote it.
    pub(crate) url: String,
    provider: Provider,
    bucket: String,
    /// The address for requests, if the environment sets it.
    endpoint: Option<String>,
}

/// The longest server text that is repeated, in characters.
const LONGEST: usize = 200;

/// The meanings of servers' codes. The first row that matches decides.
const CODES: [(&[&str], Meaning); 8] = [
    (
        &["NoSuchBucket", "ContainerNotFound", "bucket does not exist"],
        Meaning::NoBucket,
    ),
    (
        &["ExpiredToken", "TokenRefreshRequired", "RequestExpired"],
        Meaning::Expired,
    ),
    (&["RequestTimeTooSkewed"], Meaning::Skewed),
    (
        &[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "InvalidSecurity",
            "AuthenticationFailed",
        ],
        Meaning::WrongKey,
    ),
    (
        &[
            "AuthorizationHeaderMalformed",
            "PermanentRedirect",
            "IllegalLocationConstraint",
            "redirect",
        ],
        Meaning::OtherRegion,
    ),
    (
        &["AccessDenied", "AllAccessDisabled", "AuthorizationFailure"],
        Meaning::Forbidden,
    ),
    (
        &[
            "status code: 507",
            "InsufficientStorage",
            "StorageFull",
            "QuotaExceeded",
            "no space left",
            "No space left",
            "no free volumes",
            "No writable volumes",
        ],
        Meaning::Full,
    ),
    (
        &["NotImplemented", "status code: 501"],
        Meaning::NotImplemented,
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    NoBucket,
    Expired,
    Skewed,
    WrongKey,
    OtherRegion,
    Forbidden,
    Full,
    NotImplemented,
    NoCredentials,
    Unreachable,
    Other,
}

impl Server {
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment sets the server's address, as for other clients of buckets"
    )]
    pub(crate) fn of(url: &str, bucket: &Bucket) -> Self {
        let names: &[&str] = match bucket.provider {
            Provider::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
            Provider::Google => &["GOOGLE_BASE_URL"],
            Provider::Azure => &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"],
        };
        let said = names.iter().find_map(|name| std::env::var(name).ok());
        let endpoint = said.or_else(|| match bucket.provider {
            Provider::S3 => profile::endpoint(),
            Provider::Google | Provider::Azure => None,
        });
        Self {
            url: url.to_owned(),
            provider: bucket.provider,
            bucket: bucket.name.clone(),
            endpoint,
        }
    }

    /// Checks the server's address in the environment. Plain HTTP to other machines needs the user's consent.
    #[expect(
        clippy::disallowed_methods,
        reason = "a variable gives the user's consent to plain HTTP, as for other clients of buckets"
    )]
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        let parsed: Result<reqwest::Url, _> = endpoint.parse();
        let refused = |text: String, remedy: &str| {
            Err(RemoteError::Refused(
                self.url.clone(),
                text,
                remedy.to_owned(),
            ))
        };
        let there = masked(endpoint);
        match parsed {
            Ok(url) if !url.username().is_empty() || url.password().is_some() => refused(
                format!("the endpoint {there} contains credentials"),
                "give the endpoint as https://HOST:PORT, and the credentials in their own variables",
            ),
            Ok(url) if url.scheme() == "https" => Ok(()),
            Ok(url) if url.scheme() == "http" => {
                let host = url.host_str().unwrap_or_default();
                let here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
                let allowed =
                    std::env::var("AWS_ALLOW_HTTP").is_ok_and(|v| v == "true" || v == "1");
                match here || allowed {
                    true => Ok(()),
                    false => refused(
                        format!(
                            "the endpoint {there} is plain HTTP: anybody on the way could read and change results"
                        ),
                        "use https://, or set AWS_ALLOW_HTTP=true if the network is yours alone",
                    ),
                }
            }
            _ => refused(
                format!("the endpoint `{there}` is not an address"),
                "give the endpoint as https://HOST:PORT",
            ),
        }
    }

    /// Returns `Ok` if an error only means that a name is free.
    ///
    /// # Errors
    /// If it means more than that.
    pub(crate) fn absent_or_refused(&self, error: &Error) -> Result<(), RemoteError> {
        let absent = matches!(error, Error::NotFound { .. });
        match absent && meaning(error, &chain(error)) != Meaning::NoBucket {
            true => Ok(()),
            false => Err(self.refusal(error)),
        }
    }

    /// Translates an error of the client.
    pub(crate) fn refusal(&self, error: &Error) -> RemoteError {
        let chain = chain(error);
        let said = server_message(error, &chain);
        let there = match &self.endpoint {
            Some(endpoint) => masked(endpoint),
            None => match self.provider {
                Provider::S3 => "Amazon S3".to_owned(),
                Provider::Google => "Google Cloud Storage".to_owned(),
                Provider::Azure => "Azure Blob Storage".to_owned(),
            },
        };
        let endpoint = match self.provider {
            Provider::S3 => "AWS_ENDPOINT_URL",
            Provider::Google => "GOOGLE_BASE_URL",
            Provider::Azure => "AZURE_STORAGE_ENDPOINT",
        };
        let credentials = credentials(self.provider);
        let (text, remedy) = match meaning(error, &chain) {
            Meaning::NoBucket => (
                format!("{there} has no bucket `{}`", self.bucket),
                format!("check the name, and {endpoint}; Benchtrail does not create buckets"),
            ),
            Meaning::Expired => (
                format!("the session has expired ({said})"),
                format!("sign in again and set the new credentials; {credentials}"),
            ),
            Meaning::Skewed => (
                format!("the clock of this machine differs too much from that of {there} ({said})"),
                "set the clock (`timedatectl status` shows whether it is synchronised)".to_owned(),
            ),
            Meaning::WrongKey => (
                format!("{there} does not accept the credentials ({said})"),
                credentials.to_owned(),
            ),
            Meaning::OtherRegion => (
                format!("the bucket `{}` is in another region ({said})", self.bucket),
                format!("set AWS_REGION to the bucket's region, and check {endpoint}"),
            ),
            Meaning::Forbidden => (
                format!("{there} refuses access to `{}` ({said})", self.bucket),
                "ask the bucket's owner for permission: readers need to get and list objects (s3:GetObject, s3:ListBucket), \
                 writers also to put them (s3:PutObject, s3:AbortMultipartUpload)"
                    .to_owned(),
            ),
            Meaning::Full => (
                format!("{there} has no space left ({said})"),
                "free some space there; the same command continues where it stopped".to_owned(),
            ),
            Meaning::NotImplemented => (
                format!("{there} lacks something that a shared store needs ({said})"),
                "use a server with conditional puts (`If-None-Match: *`), or a folder".to_owned(),
            ),
            Meaning::NoCredentials => (
                "no credentials are found".to_owned(),
                credentials.to_owned(),
            ),
            Meaning::Unreachable => (
                format!("{there} cannot be reached ({said})"),
                format!("check {endpoint} and the network; the same command continues where it stopped"),
            ),
            Meaning::Other => (
                format!("{there} gave an unexpected answer ({said})"),
                format!(
                    "the same command continues where it stopped; if this persists, check the server's log, its free \
                     space and {endpoint}"
                ),
            ),
        };
        RemoteError::Refused(self.url.clone(), text, remedy)
    }
}

/// Describes where credentials come from.
fn credentials(provider: Provider) -> &'static str {
    match provider {
        Provider::S3 => {
            "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_SESSION_TOKEN for a session), from \
             the profile AWS_PROFILE in ~/.aws/credentials, or from the machine's role"
        }
        Provider::Google => {
            "credentials come from the file that GOOGLE_APPLICATION_CREDENTIALS names, or from the machine"
        }
        Provider::Azure => {
            "credentials come from AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY, or \
             from the machine's identity"
        }
    }
}

/// Returns an error and its causes.
fn chain(error: &Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        texts.push(inner.to_string());
        cause = inner.source();
    }
    texts
}

/// Returns the connection failure within an error, if any.
fn failed_connection(error: &Error) -> Option<String> {
    let mut cause = error.source();
    let mut failed = false;
    let mut last = None;
    while let Some(inner) = cause {
        failed |= inner.is::<HttpError>();
        last = Some(inner.to_string());
        cause = inner.source();
    }
    last.filter(|_| failed)
}

/// Returns whether a connection ended before the answer came. It is then unknown whether the request was executed.
pub(crate) fn was_cut(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(http) = inner.downcast_ref::<HttpError>() {
            return matches!(
                http.kind(),
                HttpErrorKind::Interrupted | HttpErrorKind::Timeout
            );
        }
        cause = inner.source();
    }
    false
}

fn meaning(error: &Error, chain: &[String]) -> Meaning {
    let whole = &chain[0];
    // If nothing else provides credentials, the client requests them from the machine's own service.
    let asked_the_machine = [
        "169.254.16",
        "169.254.170",
        "metadata.google",
        "MissingAccessKeyId",
        "Missing AccessKeyId",
        "Missing SecretAccessKey",
        "/token",
    ];
    if asked_the_machine.iter().any(|sign| whole.contains(sign)) {
        return Meaning::NoCredentials;
    }
    if failed_connection(error).is_some() {
        return Meaning::Unreachable;
    }
    let code = element(whole, "Code");
    // Without a document, only the words of the answer are left. The name of an object must not be mistaken for them.
    let words = code.clone().unwrap_or_else(|| after_status(whole));
    let message = element(whole, "Message").unwrap_or_default();
    let fits = |sign: &&str| words.contains(*sign) || message.contains(*sign);
    if let Some((_, meaning)) = CODES.iter().find(|(signs, _)| signs.iter().any(&fits)) {
        return *meaning;
    }
    match error {
        Error::PermissionDenied { .. } => Meaning::Forbidden,
        Error::Unauthenticated { .. } => Meaning::WrongKey,
        Error::NotImplemented { .. } | Error::NotSupported { .. } => Meaning::NotImplemented,
        _ => Meaning::Other,
    }
}

/// Returns an answer's text from its status on.
fn after_status(text: &str) -> String {
    let start = ["status code: ", "error response: ", "Received redirect"]
        .iter()
        .find_map(|sign| text.find(sign));
    start.map_or(String::new(), |at| text[at..].to_owned())
}

/// Returns the text of an element of the server's document.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inner.trim().to_owned())
}

/// Returns the server's message, short and on one line. Of its document only the code and the message are used, because
/// the rest may repeat keys and signatures.
fn server_message(error: &Error, chain: &[String]) -> String {
    let whole = &chain[0];
    let text = match (element(whole, "Code"), element(whole, "Message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code,
        _ => match failed_connection(error) {
            Some(failed) => failed,
            None => match after_status(whole) {
                // An arbitrary document may follow the status.
                answer if !answer.is_empty() => {
                    answer.lines().next().unwrap_or_default().to_owned()
                }
                _ => chain.last().cloned().unwrap_or_default(),
            },
        },
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = without_secrets(&words.join(" "));
    let text = text.trim_end_matches(['.', ':', ' ']);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Replaces the values of variables whose names mark them as secrets.
#[expect(
    clippy::disallowed_methods,
    reason = "the values of secret variables must not be repeated"
)]
fn without_secrets(text: &str) -> String {
    let variables = std::env::vars_os();
    let variables =
        variables.filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
    masking(text, variables)
}

fn masking(text: &str, variables: impl Iterator<Item = (String, String)>) -> String {
    let secret = |name: &str| {
        let provider = ["AWS_", "AZURE_", "GOOGLE_"]
            .iter()
            .any(|p| name.starts_with(p));
        let words = ["KEY", "TOKEN", "SECRET", "SAS", "PASSWORD"];
        provider && words.iter().any(|w| name.contains(w))
    };
    variables
        .filter(|(name, value)| secret(name) && value.len() >= 4)
        .fold(text.to_owned(), |text, (_, value)| {
            text.replace(&value, "***")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(endpoint: &str) -> Server {
        Server {
            url: "s3://lab/x".into(),
            provider: Provider::S3,
            bucket: "lab".into(),
            endpoint: Some(endpoint.into()),
        }
    }

    #[test]
    fn the_values_of_secret_variables_never_stand_in_a_message() {
        let variables = [
            ("AWS_SECRET_ACCESS_KEY", "hunter22"),
            ("AWS_REGION", "eu-west-1"),
            ("AZURE_STORAGE_SAS_TOKEN", "sig=abcd"),
            ("HOME", "/home/x"),
        ];
        let variables = variables.map(|(n, v)| (n.to_owned(), v.to_owned()));
        let text = "hunter22 in eu-west-1 with sig=abcd at /home/x";
        let masked = masking(text, variables.into_iter());
        assert_eq!(masked, "*** in eu-west-1 with *** at /home/x");
    }

    #[test]
    fn plain_http_to_another_machine_and_credentials_in_an_endpoint_are_refused() {
        assert!(server("http://127.0.0.1:8333").check().is_ok());
        assert!(server("http://localhost:9000").check().is_ok());
        assert!(server("https://minio.lab").check().is_ok());
        for (endpoint, reason) in [
            ("http://minio.lab:9000", "plain HTTP"),
            ("https://me:hunter22@minio.lab", "contains credentials"),
            ("minio.lab:9000", "not an address"),
            ("127.0.0.1:9000", "not an address"),
        ] {
            let error = server(endpoint).check().unwrap_err();
            assert!(error.to_string().contains(reason), "{endpoint}: {error}");
            assert!(!error.to_string().contains("hunter22"), "{error}");
            assert!(error.hint().is_some());
        }
    }
}
