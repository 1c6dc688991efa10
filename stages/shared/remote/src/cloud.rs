//! A shared store in a bucket: S3 and compatible servers, Google Cloud Storage, Azure.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
};
use tokio::runtime::Runtime;

use crate::backend::{Backend, Sink};
use crate::client::Connector;
use crate::error::RemoteError;
use crate::place::{Bucket, Provider};
use crate::profile;
use crate::refusal::{Server, was_cut};

/// Files from this size on (bytes) are uploaded in parts, and are never completely in memory. Also the smallest size of
/// a part.
const PART: u64 = 8 << 20;

/// The most parts of one object. S3 accepts 10,000.
const MOST_PARTS: u64 = 9_000;

/// How often a conditional put is retried after its connection was cut, and the wait before the first retry.
const CUTS: u32 = 6;
const CUT_WAIT: Duration = Duration::from_millis(50);

/// A bucket. Its client is asynchronous, but its callers are threads, and each waits for its own request.
#[derive(Debug)]
pub(crate) struct Cloud {
    server: Server,
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    runtime: Runtime,
}

impl Cloud {
    /// Opens a bucket with the credentials from the environment or the machine's identity. Makes no request yet.
    pub(crate) fn open(url: &str, bucket: Bucket) -> Result<Self, RemoteError> {
        let server = Server::of(url, &bucket);
        server.check()?;
        let store = client(&bucket).map_err(|e| server.refusal(&e))?;
        // Threads wait for their requests, and one of them drives the connections of all.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| RemoteError::Other(url.to_owned(), e.to_string()))?;
        Ok(Self {
            server,
            store,
            prefix: bucket.prefix,
            runtime,
        })
    }

    #[cfg(test)]
    pub(crate) fn in_memory(store: Arc<dyn ObjectStore>, bucket: Bucket) -> Self {
        Self {
            server: Server::of("s3://test", &bucket),
            store,
            prefix: bucket.prefix,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
        }
    }

    fn key(&self, name: &str) -> Key {
        name.split('/')
            .fold(self.prefix.clone(), |key, segment| key.join(segment))
    }

    fn refusal(&self, error: &Error) -> RemoteError {
        self.server.refusal(error)
    }

    /// Uploads a large file in parts. Its name appears only when all parts are complete.
    fn put_parts(&self, name: &str, mut file: File, size: u64) -> Result<(), RemoteError> {
        let length = PART.max(size.div_ceil(MOST_PARTS));
        self.runtime.block_on(async {
            let upload = self.store.put_multipart(&self.key(name)).await;
            let mut upload = upload.map_err(|e| self.refusal(&e))?;
            let sent = async {
                loop {
                    let mut part = Vec::new();
                    (&mut file)
                        .take(length)
                        .read_to_end(&mut part)
                        .map_err(|e| self.unread(&e))?;
                    if part.is_empty() {
                        return Ok(());
                    }
                    let put = upload.put_part(part.into()).await;
                    put.map_err(|e| self.refusal(&e))?;
                }
            };
            match sent.await {
                Ok(()) => {
                    let completed = upload.complete().await;
                    completed.map(drop).map_err(|e| self.refusal(&e))
                }
                Err(error) => {
                    // The server cleans up what remains; the first error is the one to report.
                    let _unsaid = upload.abort().await;
                    Err(error)
                }
            }
        })
    }

    fn unread(&self, error: &std::io::Error) -> RemoteError {
        let text = format!("the file that was to be uploaded cannot be read: {error}");
        RemoteError::Other(self.server.url.clone(), text)
    }
}

/// Makes the client of a bucket.
fn client(bucket: &Bucket) -> Result<Arc<dyn ObjectStore>, Error> {
    let name = bucket.name.as_str();
    Ok(match bucket.provider {
        Provider::S3 => Arc::new(
            profile::fill(AmazonS3Builder::from_env())
                .with_bucket_name(name)
                .with_retry(patience())
                .with_http_connector(Connector)
                .build()?,
        ),
        Provider::Google => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(name)
                .with_retry(patience())
                .with_http_connector(Connector)
                .build()?,
        ),
        Provider::Azure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(name)
                .with_retry(patience())
                .with_http_connector(Connector)
                .build()?,
        ),
    })
}

/// How long a request is retried. A study that is about to measure must not wait for minutes.
fn patience() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 6,
        retry_timeout: Duration::from_secs(60),
    }
}

impl Backend for Cloud {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError> {
        let key = self.key(name);
        let mut attempt = 0;
        loop {
            let options = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(&key, bytes.to_vec().into(), options);
            match self.runtime.block_on(put) {
                Ok(_) => return Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return Ok(false),
                // The client does not retry these, because the put may have succeeded. In that case the name is taken
                // by us.
                Err(error) if was_cut(&error) && attempt < CUTS => {
                    std::thread::sleep(CUT_WAIT * 2_u32.pow(attempt));
                    attempt += 1;
                }
                Err(error) => return Err(self.refusal(&error)),
            }
        }
    }

    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError> {
        let opened = File::open(file).map_err(|e| self.unread(&e))?;
        let size = opened.metadata().map_err(|e| self.unread(&e))?.len();
        if size > PART {
            return self.put_parts(name, opened, size);
        }
        let bytes = std::fs::read(file).map_err(|e| self.unread(&e))?;
        let key = self.key(name);
        let put = self.runtime.block_on(self.store.put(&key, bytes.into()));
        put.map(drop).map_err(|e| self.refusal(&e))
    }

    fn put_over(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        let key = self.key(name);
        let put = self.store.put(&key, bytes.to_vec().into());
        let put = self.runtime.block_on(put);
        put.map(drop).map_err(|e| self.refusal(&e))
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        match self.runtime.block_on(self.store.delete(&self.key(name))) {
            Ok(()) => Ok(()),
            Err(error) => self.server.absent_or_refused(&error),
        }
    }

    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        match self.runtime.block_on(self.store.head(&self.key(name))) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(error) => self.server.absent_or_refused(&error).map(|()| None),
        }
    }

    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError> {
        let object = match self.runtime.block_on(self.store.get(&self.key(name))) {
            Ok(object) => object,
            Err(error) => return self.server.absent_or_refused(&error).map(|()| false),
        };
        let mut stream = object.into_stream();
        while let Some(bytes) = self
            .runtime
            .block_on(stream.try_next())
            .map_err(|e| self.refusal(&e))?
        {
            sink(&bytes)?;
        }
        Ok(true)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError> {
        let prefix = self.key(folder);
        let listed = self.store.list_with_delimiter(Some(&prefix));
        let listed = match self.runtime.block_on(listed) {
            Ok(listed) => listed,
            Err(error) => return self.server.absent_or_refused(&error).map(|()| Vec::new()),
        };
        let objects = listed.objects.iter().map(|object| &object.location);
        let names = objects.chain(&listed.common_prefixes);
        let mut names: Vec<String> = names
            .filter_map(|key| key.filename().map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    fn walk(&self, folder: &str) -> Result<Vec<(String, u64)>, RemoteError> {
        let prefix = self.key(folder);
        let listed = self.store.list(Some(&prefix)).try_collect::<Vec<_>>();
        let listed = match self.runtime.block_on(listed) {
            Ok(listed) => listed,
            Err(error) => return self.server.absent_or_refused(&error).map(|()| Vec::new()),
        };
        let mut names: Vec<(String, u64)> = listed
            .iter()
            .filter_map(|object| {
                let rest = object.location.prefix_match(&prefix)?;
                let rest: Vec<String> = rest.map(|part| part.as_ref().to_owned()).collect();
                Some((format!("{folder}/{}", rest.join("/")), object.size))
            })
            .collect();
        names.sort();
        Ok(names)
    }

    fn settle(&self) -> Result<(), RemoteError> {
        // A bucket answers only when the data is durable.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::folder::Folder;

    fn in_memory(prefix: &str) -> Cloud {
        let bucket = Bucket {
            provider: Provider::S3,
            name: "lab".to_owned(),
            prefix: Key::from(prefix),
        };
        Cloud::in_memory(Arc::new(InMemory::new()), bucket)
    }

    fn bytes(backend: &dyn Backend, name: &str) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        let there = backend.read(name, &mut |piece| {
            all.extend_from_slice(piece);
            Ok(())
        });
        there.unwrap().then_some(all)
    }

    /// Checks everything that a shared store requires of any place.
    fn conforms(backend: &dyn Backend) {
        assert_eq!(bytes(backend, "cells/a/1"), None);
        assert_eq!(backend.size("cells/a/1").unwrap(), None);
        assert!(backend.list("cells/a").unwrap().is_empty());
        assert!(backend.put_new("cells/a/1", b"first").unwrap());
        assert!(!backend.put_new("cells/a/1", b"second").unwrap());
        assert_eq!(bytes(backend, "cells/a/1").unwrap(), b"first");
        assert!(backend.put_new("cells/a/2", b"").unwrap());
        assert!(backend.put_new("cells/ab/1", b"").unwrap());
        assert_eq!(backend.size("cells/a/2").unwrap(), Some(0));
        assert_eq!(backend.list("cells/a").unwrap(), ["1", "2"]);
        assert_eq!(backend.list("cells").unwrap(), ["a", "ab"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for size in [3, (PART + 5) as usize] {
            let content: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            std::fs::write(&file, &content).unwrap();
            backend.put_file("objects/x", &file).unwrap();
            assert_eq!(bytes(backend, "objects/x").unwrap(), content);
        }
        backend.settle().unwrap();
        backend.put_over("cells/a/2", b"other").unwrap();
        assert_eq!(bytes(backend, "cells/a/2").unwrap(), b"other");
        let walked = [
            ("cells/a/1".to_owned(), 5),
            ("cells/a/2".to_owned(), 5),
            ("cells/ab/1".to_owned(), 0),
        ];
        assert_eq!(backend.walk("cells").unwrap(), walked);
        assert_eq!(backend.walk("cells/a").unwrap(), walked[..2]);
        assert_eq!(backend.walk("nothing").unwrap(), []);
        backend.remove("cells/a/1").unwrap();
        backend.remove("cells/a/1").unwrap();
        assert_eq!(backend.walk("cells").unwrap(), walked[1..]);
        assert!(backend.put_new("cells/a/1", b"again").unwrap());
    }

    #[test]
    fn a_folder_and_a_bucket_keep_what_a_shared_store_relies_on() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        conforms(&Folder::open("store", root, true).unwrap());
        conforms(&in_memory(""));
        conforms(&in_memory("a/b"));
    }

    #[test]
    fn of_many_threads_that_put_one_name_one_wins() {
        let cloud = in_memory("");
        let won: usize = std::thread::scope(|scope| {
            let puts: Vec<_> = (0..16)
                .map(|n| {
                    scope.spawn({
                        let cloud = &cloud;
                        move || usize::from(cloud.put_new("one", &[n]).unwrap())
                    })
                })
                .collect();
            puts.into_iter().map(|put| put.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
    }
}
