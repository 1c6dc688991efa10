//! The identity of an artifact: the BLAKE3 digest of its bytes.
//!
//! A digest is written with its algorithm, `b3:` and 64 hexadecimal digits, which also keeps
//! YAML and JSON readers from taking one for a number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 digest (32 bytes) of the bytes of an artifact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the digest of a file's bytes, read a piece at a time.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(path: &std::path::Path) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(std::fs::File::open(path)?)?;
        Ok(Self::from_bytes(*hasher.finalize().as_bytes()))
    }

    /// Wraps 32 bytes that already are a digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the 64 hexadecimal digits without the algorithm prefix.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Returns a form for people: `b3:` and the first 12 hexadecimal digits.
    pub fn short(&self) -> String {
        format!("b3:{}", &self.hex()[..12])
    }
}

/// Computes the digest of bytes that come piece by piece.
#[derive(Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes so far.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b3:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// The text is not `b3:` followed by 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestParseError(String);

impl fmt::Display for DigestParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a digest: expected `b3:` and 64 hexadecimal digits",
            self.0
        )
    }
}

impl std::error::Error for DigestParseError {}

impl FromStr for Digest {
    type Err = DigestParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || DigestParseError(text.to_owned());
        let hex = text.strip_prefix("b3:").ok_or_else(wrong)?;
        let hash = blake3::Hash::from_hex(hex).map_err(|_| wrong())?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_its_own_text() {
        let digest = Digest::of(b"benchtrail");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }

    #[test]
    fn the_empty_digest_is_the_published_one() {
        assert_eq!(
            Digest::of(b"").to_string(),
            "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    #[test]
    fn text_without_the_algorithm_is_refused() {
        assert!(Digest::of(b"").hex().parse::<Digest>().is_err());
    }
}
