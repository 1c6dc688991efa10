//! Packages to fetch, pinned by version and by the SHA-256 of the file.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A package of a public registry, pinned by version and digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Package {
    /// The registry it is fetched from, through the client the user has configured.
    pub registry: Registry,
    /// The package's name in the registry.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The accepted files of this version (one per platform); exactly one is fetched.
    pub files: Vec<PackageFile>,
    /// How the file is unpacked.
    pub unpack: Unpack,
    /// The bytes it takes when unpacked, for the check of free disk space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked_bytes: Option<u64>,
}

/// One file of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PackageFile {
    /// The file's name in the registry.
    pub name: String,
    /// The SHA-256 of the file, 64 lower-case hexadecimal digits.
    pub sha256: Sha256,
    /// The file's size in bytes.
    pub bytes: u64,
}

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Registry {
    /// Python packages, fetched with `python3 -m pip download` as pip is configured.
    Pip,
}

/// How a package file is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unpack {
    /// A zip archive, unpacked as it is. Benchtrail does not run its code.
    Wheel,
}

/// A SHA-256 digest: 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(#[schemars(regex(pattern = r"^[0-9a-f]{64}$"))] String);

impl Sha256 {
    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let right =
            text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if right {
            Ok(Self(text))
        } else {
            Err(format!("`{text}` is not 64 lower-case hexadecimal digits"))
        }
    }
}

impl From<Sha256> for String {
    fn from(value: Sha256) -> Self {
        value.0
    }
}
