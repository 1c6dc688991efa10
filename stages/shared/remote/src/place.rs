//! The place of a shared store: a folder, or the address of a bucket. An address contains no credentials and no
//! options.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::path::{Path as Key, PathPart};

use crate::backend::Backend;
use crate::cloud::Cloud;
use crate::error::RemoteError;
use crate::folder::Folder;

/// The provider of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Google,
    Azure,
}

/// A bucket, and the prefix of the shared store in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) provider: Provider,
    pub(crate) name: String,
    pub(crate) prefix: Key,
}

/// The place that an address names.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// Checks the form of a URL, without any request.
///
/// # Errors
/// If it is not the URL of a shared store.
pub fn check_url(url: &str) -> Result<(), RemoteError> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<Place, RemoteError> {
    let wrong = |what: &str| RemoteError::Url(url.to_owned(), what.to_owned());
    let Some((scheme, rest)) = url.split_once("://") else {
        return match url {
            "" => Err(wrong("give a folder or a URL")),
            // Surely not meant as the name of a folder.
            path if ["s3:", "gs:", "az:"].iter().any(|s| path.starts_with(s)) => Err(wrong(
                "the address of a bucket has two slashes: s3://BUCKET/PREFIX",
            )),
            path => Ok(Place::Folder(PathBuf::from(path))),
        };
    };
    let provider = match scheme {
        "file" if rest.starts_with('/') => return Ok(Place::Folder(PathBuf::from(rest))),
        "file" => {
            return Err(wrong(
                "a file URL has three slashes and an absolute path: file:///srv/benchtrail",
            ));
        }
        "s3" => Provider::S3,
        "gs" => Provider::Google,
        "az" => Provider::Azure,
        "http" | "https" => {
            return Err(wrong(
                "give s3://BUCKET/PREFIX, and the server's address in AWS_ENDPOINT_URL",
            ));
        }
        _ => {
            return Err(wrong(
                "expected a folder, as a path or as file:///PATH, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
                 az://CONTAINER/PREFIX",
            ));
        }
    };
    bucket(provider, rest)
        .map(Place::Bucket)
        .map_err(|what| wrong(&what))
}

/// Parses `BUCKET/PREFIX`.
fn bucket(provider: Provider, rest: &str) -> Result<Bucket, String> {
    if rest.contains(['?', '#']) {
        return Err("an address must not contain options or a signature: credentials, endpoint and region come from \
                    the environment"
            .to_owned());
    }
    if rest.contains('@') {
        return Err(
            "an address must not contain credentials or an @: credentials come from the environment"
                .to_owned(),
        );
    }
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if !(3..=63).contains(&name.len()) || !name.bytes().all(sound) {
        return Err(format!(
            "`{name}` is not the name of a bucket: 3 to 63 letters, digits, dots and hyphens"
        ));
    }
    let mut key = Key::default();
    for segment in prefix.trim_end_matches('/').split('/') {
        if prefix.is_empty() {
            break;
        }
        let part = PathPart::parse(segment)
            .ok()
            .filter(|p| !p.as_ref().is_empty());
        let part = part.ok_or_else(|| {
            format!(
                "its prefix has the segment `{segment}`, which a bucket does not accept in a name"
            )
        })?;
        key = key.join(part);
    }
    Ok(Bucket {
        provider,
        name: name.to_owned(),
        prefix: key,
    })
}

/// Returns the folder that a URL names, `None` for a bucket.
pub(crate) fn folder(url: &str) -> Result<Option<PathBuf>, RemoteError> {
    match parse(url)? {
        Place::Folder(path) => Ok(Some(path)),
        Place::Bucket(_) => Ok(None),
    }
}

/// Opens the place that a URL names. A folder is created if `create` is set.
pub(crate) fn open(url: &str, create: bool) -> Result<Arc<dyn Backend>, RemoteError> {
    match parse(url)? {
        Place::Folder(path) => Ok(Arc::new(Folder::open(url, path, create)?)),
        Place::Bucket(bucket) => Ok(Arc::new(Cloud::open(url, bucket)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_file_url_name_a_folder() {
        assert_eq!(
            parse("team/store").unwrap(),
            Place::Folder("team/store".into())
        );
        assert_eq!(
            parse("file:///srv/x").unwrap(),
            Place::Folder("/srv/x".into())
        );
    }

    #[test]
    fn a_bucket_is_named_with_where_in_it_the_store_begins() {
        for (url, provider, name, prefix) in [
            ("s3://lab", Provider::S3, "lab", ""),
            ("s3://lab/", Provider::S3, "lab", ""),
            ("s3://lab.x-1/a/b/", Provider::S3, "lab.x-1", "a/b"),
            ("gs://lab/a", Provider::Google, "lab", "a"),
            ("az://lab/a b", Provider::Azure, "lab", "a b"),
        ] {
            let Place::Bucket(bucket) = parse(url).unwrap() else {
                panic!("{url} is no bucket")
            };
            assert_eq!(
                (
                    bucket.provider,
                    bucket.name.as_str(),
                    bucket.prefix.as_ref()
                ),
                (provider, name, prefix)
            );
        }
    }

    #[test]
    fn other_urls_are_refused_with_the_reason_and_without_what_may_be_secret() {
        for (url, reason) in [
            ("", "give a folder"),
            ("file://srv/x", "three slashes"),
            ("s3:/lab/x", "two slashes"),
            ("ftp://me:hunter22@lab/x", "expected a folder"),
            ("https://me:hunter22@lab/x", "AWS_ENDPOINT_URL"),
            ("s3://key:hunter22@lab/x", "must not contain credentials"),
            (
                "s3://lab/x?X-Amz-Signature=hunter22",
                "must not contain options",
            ),
            ("az://lab/x?sv=1&sig=hunter22", "must not contain options"),
            ("https://lab/x?sig=hunter22#a@b", "AWS_ENDPOINT_URL"),
            ("s3://", "not the name of a bucket"),
            ("s3:///x", "not the name of a bucket"),
            ("s3://la", "not the name of a bucket"),
            ("s3://la b/x", "not the name of a bucket"),
            ("s3://lab/a//b", "segment ``"),
            ("s3://lab/../x", "segment `..`"),
        ] {
            let error = check_url(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("hunter22"), "{error}");
        }
    }
}
