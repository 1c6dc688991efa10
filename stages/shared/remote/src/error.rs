//! Errors around a shared store, in words that contain no secret.

use std::error::Error;
use std::fmt;

use artifacts::{Digest, StoreError};
use pipeline::PipelineError;

/// A failure of a shared store.
#[derive(Debug)]
pub enum RemoteError {
    /// The URL is wrong: the URL and one sentence.
    Url(String, String),
    /// No shared store exists at this URL.
    Absent(String),
    /// Something else exists at this URL.
    NotOurs(String),
    /// It was written in a version that this program does not know.
    Format(String, u32),
    /// It refuses access: the URL and the server's message.
    Access(String, String),
    /// It cannot be reached, or it fails: the URL and why.
    Other(String, String),
    /// A server refuses or cannot be reached: the URL, what happened, and what to do.
    Refused(String, String, String),
    /// It overwrites existing names although the request forbids it.
    Overwrites(String),
    /// Something in it is invalid: the URL and one sentence.
    Broken(String, String),
    /// An object is missing.
    Missing(String, Digest),
    /// The bytes of an object do not match its name.
    Damaged(String, Digest),
    /// The local store refuses.
    Store(StoreError),
    /// The study cannot be planned.
    Plan(Box<PipelineError>),
    /// Stopped by the user.
    Interrupted,
}

impl RemoteError {
    /// Returns advice for the error, if it adds to the message.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Access(..) => {
                "ask its owner for permission to read and write there".to_owned()
            }
            Self::Refused(_, _, remedy) => remedy.clone(),
            Self::Overwrites(_) => "use a server that honours `If-None-Match: *` on a put (Amazon S3, MinIO, SeaweedFS and \
                 Ceph in current versions do), or a folder"
                .to_owned(),
            Self::Absent(url) => format!("`benchtrail push {url}` makes one"),
            Self::Missing(url, _) => format!(
                "`benchtrail push {url}` from a store that has it restores it (`benchtrail fsck` shows whether one has)"
            ),
            Self::Damaged(url, _) => format!(
                "`benchtrail push {url} --verify` from a store that has it replaces what is damaged"
            ),
            Self::Broken(url, _) => format!(
                "remove what is damaged, and `benchtrail push {url}` from a store that has the result"
            ),
            Self::Format(..) => "use a newer benchtrail".to_owned(),
            _ => return None,
        })
    }

    /// Returns whether data in the shared store is damaged or lost.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Missing(..) | Self::Damaged(..) | Self::Broken(..)
        )
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url, what) => write!(f, "`{}` is not a shared store: {what}", masked(url)),
            Self::Absent(url) => write!(f, "there is no shared store at {url}"),
            Self::NotOurs(url) => {
                write!(f, "{url} exists, but is not a shared store of Benchtrail")
            }
            Self::Format(url, format) => write!(
                f,
                "the shared store {url} has layout {format}, but this program knows layout {}",
                crate::FORMAT
            ),
            Self::Access(url, text) => write!(f, "the shared store {url} refuses access: {text}"),
            Self::Other(url, text) => write!(
                f,
                "the shared store {url} gave an unexpected answer: {text}"
            ),
            Self::Refused(url, text, _) => write!(f, "the shared store {url}: {text}"),
            Self::Overwrites(url) => write!(
                f,
                "the shared store {url} ignores conditional puts: two writers of one name would overwrite each other"
            ),
            Self::Broken(url, what) => write!(f, "the shared store {url} is damaged: {what}"),
            Self::Missing(url, digest) => {
                write!(f, "object {digest} is not in the shared store {url}")
            }
            Self::Damaged(url, digest) => write!(
                f,
                "object {digest} of the shared store {url} is damaged: its bytes have another digest"
            ),
            Self::Store(error) => write!(f, "{error}"),
            Self::Plan(error) => write!(f, "{error}"),
            Self::Interrupted => f.write_str(
                "interrupted; complete results stay, and the same command continues from there",
            ),
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Plan(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<PipelineError> for RemoteError {
    fn from(error: PipelineError) -> Self {
        Self::Plan(Box::new(error))
    }
}

impl From<StoreError> for RemoteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns a URL without the parts that may be a password or a signature.
pub(crate) fn masked(url: &str) -> String {
    let (url, options) = match url.find(['?', '#']) {
        Some(at) if url.contains("://") => (&url[..at], "?***"),
        _ => (url, ""),
    };
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) if rest.contains('@') => {
            format!("{scheme}://***@{host}{options}")
        }
        _ => format!("{url}{options}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_repeated() {
        for url in [
            "s3://me:hunter22@bucket",
            "https://lab/x?sig=hunter22",
            "https://me:hunter22@lab/x?a@b",
            "https://lab/x#hunter22",
        ] {
            let error = RemoteError::Url(url.into(), "no".into());
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
    }
}
