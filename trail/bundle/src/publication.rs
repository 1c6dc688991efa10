//! What is published, and the sources of the bundle's documents.

use artifacts::Store;
use net::ApiKey;
use pipeline::StudyDocument;
use pipeline::lock::Lock;

use crate::keys::KeyPair;
use crate::sources::Sources;

/// What to publish.
#[derive(Debug)]
pub struct Publication<'a> {
    /// The paths of experiment and lock, and the files that the plan read.
    pub sources: &'a Sources,
    /// The experiment's text.
    pub experiment_text: &'a str,
    /// The lock.
    pub lock: &'a Lock,
    /// The study document, the input of the stages that see the study.
    pub study: &'a StudyDocument,
    /// The store with the artifacts.
    pub store: &'a Store,
    /// The outputs of measurements that are not published, only their digests.
    pub without: &'a [String],
    /// The authors to cite; at least one.
    pub authors: &'a [String],
    /// The SPDX identifier of the license.
    pub license: &'a str,
    /// Rules of the secret scan that are switched off.
    pub allowed: &'a [String],
    /// The names of this machine's user and host, which must not be published.
    pub names: &'a [String],
    /// The API keys that the study's variables hold now, which must not be published.
    pub keys: &'a [ApiKey],
    /// The key to sign with.
    pub key: Option<&'a KeyPair>,
    /// The version of this program.
    pub version: &'a str,
}
