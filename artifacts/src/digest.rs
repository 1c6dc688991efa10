//! The identity of an artifact: the BLAKE3 digest of its bytes.
//!
//! A digest is written as its algorithm, `b3:`, and 64 hexadecimal digits. The prefix also keeps YAML and JSON readers
//! from parsing a digest as a number.

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

    /// Returns the digest of a regular file's bytes, read in chunks.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a regular file.
    pub fn of_file(path: &std::path::Path) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(crate::regular::open(path)?.0)?;
        Ok(Self::from_bytes(*hasher.finalize().as_bytes()))
    }

    /// Returns the digest of a file's bytes, for a file that may be large: it is mapped, and hashed on all cores.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_large_file(path: &std::path::Path) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_mmap_rayon(path)?;
        Ok(Self::from_bytes(*hasher.finalize().as_bytes()))
    }

    /// Wraps 32 bytes that are already a digest.
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

    /// Returns a short form for display: `b3:` and the first 12 hexadecimal digits.
    pub fn short(&self) -> String {
        format!("b3:{}", &self.hex()[..12])
    }
}

/// Returns bytes as lower-case hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    const LOWER: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(LOWER[usize::from(four)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Computes the digest of bytes that arrive in chunks.
#[derive(Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Adds the next bytes.
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
        let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
            return Err(wrong());
        };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| wrong())?;
        // A lock of many cells is mostly digests. So the digits come from a lookup table, and one check at the end
        // covers all of them.
        let mut faults = 0;
        let bytes = pairs.map(|[high, low]| {
            let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
            faults |= (high | low) & NO_DIGIT;
            high << 4 | (low & 0xf)
        });
        if faults == 0 {
            Ok(Self(bytes))
        } else {
            Err(wrong())
        }
    }
}

/// A bit that no hexadecimal digit's value has.
const NO_DIGIT: u8 = 0x80;

/// The value of each byte as a hexadecimal digit in either case; [`NO_DIGIT`] for other bytes.
const DIGITS: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a digest")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
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

    #[test]
    fn digits_of_either_case_are_read_and_nothing_else() {
        let good = Digest::of(b"benchtrail").to_string();
        let upper = format!("b3:{}", good[3..].to_uppercase());
        assert_eq!(upper.parse::<Digest>(), good.parse());
        let wrong = (0..=0x7f_u8)
            .map(char::from)
            .filter(|c| !c.is_ascii_hexdigit());
        for place in 3..good.len() {
            for other in wrong.clone() {
                let mut text = good.clone();
                text.replace_range(place..=place, &other.to_string());
                assert!(text.parse::<Digest>().is_err(), "{text:?}");
            }
        }
        for text in [&good[..66], &good[..65], &format!("{good}00"), "b3:", ""] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
        assert!(
            format!("b3:é{}", &good[5..]).parse::<Digest>().is_err(),
            "of the right length, but not ASCII"
        );
    }

    #[test]
    fn a_digest_in_json_is_its_text() {
        let digest = Digest::of(b"benchtrail");
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("7").is_err());
    }
}
