//! Where a shared store is: a URL.

use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::RemoteError;
use crate::folder::Folder;

/// How a URL begins.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Folder(PathBuf),
}

/// Checks the form of a URL, without asking anybody.
///
/// # Errors
/// If it is none of a shared store.
pub fn check_url(url: &str) -> Result<(), RemoteError> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<Kind, RemoteError> {
    let wrong = |what: &str| RemoteError::Url(url.to_owned(), what.to_owned());
    let Some((scheme, rest)) = url.split_once("://") else {
        return match url {
            "" => Err(wrong("give a folder or a URL")),
            path => Ok(Kind::Folder(PathBuf::from(path))),
        };
    };
    if scheme != "file" {
        return Err(wrong("expected a folder, as a path or as file:///PATH"));
    }
    match rest.starts_with('/') {
        true => Ok(Kind::Folder(PathBuf::from(rest))),
        false => Err(wrong(
            "a file URL has three slashes and an absolute path: file:///srv/benchtrail",
        )),
    }
}

/// Returns the folder that a URL names.
pub(crate) fn folder(url: &str) -> Result<PathBuf, RemoteError> {
    let Kind::Folder(path) = parse(url)?;
    Ok(path)
}

/// Opens the place that a URL names. A folder is made if `create` says so.
pub(crate) fn open(url: &str, create: bool) -> Result<Arc<dyn Backend>, RemoteError> {
    match parse(url)? {
        Kind::Folder(path) => Ok(Arc::new(Folder::open(url, path, create)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_file_url_name_a_folder() {
        assert_eq!(
            parse("team/store").unwrap(),
            Kind::Folder("team/store".into())
        );
        assert_eq!(
            parse("file:///srv/x").unwrap(),
            Kind::Folder("/srv/x".into())
        );
    }

    #[test]
    fn other_urls_are_refused_with_the_reason() {
        for (url, reason) in [
            ("", "give a folder"),
            ("file://srv/x", "three slashes"),
            ("ftp://me:secret@lab/x", "expected a folder"),
        ] {
            let error = check_url(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
