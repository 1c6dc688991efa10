//! What is published, and what of it the documents of a bundle are made from.

use artifacts::Store;
use pipeline::StudyDocument;
use pipeline::lock::Lock;

use crate::keys::KeyPair;
use crate::sources::Sources;

/// What to publish.
#[derive(Debug)]
pub struct Publication<'a> {
    /// The places of experiment and lock, and the files that the plan read.
    pub sources: &'a Sources,
    /// The experiment's text.
    pub experiment_text: &'a str,
    /// The lock.
    pub lock: &'a Lock,
    /// What the stages that see the study saw of it.
    pub study: &'a StudyDocument,
    /// Where the artifacts are.
    pub store: &'a Store,
    /// Outputs of measurements of which only the digests are published.
    pub without: &'a [String],
    /// Who is cited; at least one.
    pub authors: &'a [String],
    /// The SPDX identifier of the license.
    pub license: &'a str,
    /// Rules of the secret scan that are switched off.
    pub allowed: &'a [String],
    /// Names of this machine's user and host, which must not become public.
    pub names: &'a [String],
    /// The key to sign with.
    pub key: Option<&'a KeyPair>,
    /// The version of this program.
    pub version: &'a str,
}
