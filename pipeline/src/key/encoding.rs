//! The canonical bytes behind keys, version 1.
//!
//! Everything is written from left to right. Integers are little-endian with a fixed width. A sequence is its length as
//! `u64`, then its items. Text is a sequence of UTF-8 bytes. A mapping is the sequence of its (key, value) pairs sorted
//! by key bytes, so that the order in a file never matters. A value starts with one byte for its type:
//!
//! | tag | value | body |
//! |---|---|---|
//! | 0 | null | |
//! | 1, 2 | false, true | |
//! | 3 | integer that fits `i64` | `i64` |
//! | 4 | larger integer | `u64` |
//! | 5 | number written as a float | bits of the `f64`, −0 as +0 |
//! | 6 | text | text |
//! | 7 | sequence | sequence of values |
//! | 8 | mapping | mapping of text to values |
//!
//! The integer 1 and the float 1.0 are different values: YAML distinguishes them, a kind's canonical parameters
//! determine which one a setting is, and keys must never be equal where a kind could see a difference. An optional item
//! is a byte 0, or a byte 1 and the item.
//!
//! Nested digests keep it fast: the parameters, each input list, and the facets are encoded and digested separately
//! (once, for all cells that share them), and the recipe contains the 32 bytes. Each kind of document starts with its
//! own text (`benchtrail/1/recipe` and a zero byte), so that bytes of one kind never count as another.

use artifacts::{ActionKey, Digest, Scalar};

use crate::stage::{CellStatus, Coordinates, Json};

/// The version of the encoding: part of every domain text, and the `format` of a recipe.
pub(crate) const ENCODING_VERSION: u32 = 1;

/// Appends canonical bytes to a buffer.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Starts a document of the given kind.
    pub(crate) fn document(domain: &str) -> Self {
        let mut encoder = Self::default();
        encoder.bytes.extend_from_slice(b"benchtrail/1/");
        encoder.bytes.extend_from_slice(domain.as_bytes());
        encoder.bytes.push(0);
        encoder
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::of(&self.bytes)
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn length(&mut self, value: usize) {
        self.bytes.extend_from_slice(&(value as u64).to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn digest(&mut self, digest: &Digest) {
        self.bytes.extend_from_slice(digest.as_bytes());
    }

    pub(crate) fn optional<T: ?Sized>(
        &mut self,
        value: Option<&T>,
        write: impl FnOnce(&mut Self, &T),
    ) {
        match value {
            None => self.bytes.push(0),
            Some(value) => {
                self.bytes.push(1);
                write(self, value);
            }
        }
    }

    fn tagged(&mut self, tag: u8, body: [u8; 8]) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&body);
    }

    fn float(&mut self, value: f64) {
        // Adding zero turns −0 into +0 and leaves every other number unchanged.
        self.tagged(5, (value + 0.0).to_bits().to_le_bytes());
    }

    pub(crate) fn value(&mut self, value: &Json) {
        match value {
            Json::Null => self.bytes.push(0),
            Json::Bool(value) => self.bytes.push(1 + u8::from(*value)),
            Json::Number(number) => {
                if let Some(value) = number.as_i64() {
                    self.tagged(3, value.to_le_bytes());
                } else if let Some(value) = number.as_u64() {
                    self.tagged(4, value.to_le_bytes());
                } else {
                    self.float(
                        number
                            .as_f64()
                            .expect("a number is an i64, a u64 or an f64"),
                    );
                }
            }
            Json::String(text) => {
                self.bytes.push(6);
                self.text(text);
            }
            Json::Array(items) => {
                self.bytes.push(7);
                self.length(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Json::Object(map) => {
                self.bytes.push(8);
                self.length(map.len());
                let mut pairs: Vec<_> = map.iter().collect();
                pairs.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in pairs {
                    self.text(key);
                    self.value(value);
                }
            }
        }
    }

    fn scalar(&mut self, value: &Scalar) {
        match value {
            Scalar::Null => self.bytes.push(0),
            Scalar::Bool(value) => self.bytes.push(1 + u8::from(*value)),
            Scalar::Int(value) => self.tagged(3, value.to_le_bytes()),
            Scalar::Float(value) => self.float(*value),
            Scalar::Text(text) => {
                self.bytes.push(6);
                self.text(text);
            }
        }
    }

    /// Encodes coordinates in the order of the stage's axes, as a cell sees them.
    pub(crate) fn coordinates(&mut self, coordinates: &Coordinates) {
        self.length(coordinates.0.len());
        for (axis, label) in &coordinates.0 {
            self.text(axis);
            self.scalar(label);
        }
    }

    /// Encodes replicate coordinates sorted by axis, because the order of `over` does not matter for them.
    fn replicate(&mut self, coordinates: &Coordinates) {
        let mut pairs: Vec<_> = coordinates.0.iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        self.length(pairs.len());
        for (axis, label) in pairs {
            self.text(axis);
            self.scalar(label);
        }
    }

    /// Encodes a status as its word: the word is documented and stable, the position in the enum is not.
    pub(crate) fn status(&mut self, status: CellStatus) {
        self.text(status.word());
    }
}

/// Returns the digest of a value's canonical bytes: equal for values that differ only in the
/// order of mapping keys.
pub(crate) fn value_digest(value: &Json) -> Digest {
    let mut encoder = Encoder::document("value");
    encoder.value(value);
    encoder.finish()
}

/// A recipe whose large parts are already digested.
pub(crate) struct HeadParts<'a, I> {
    pub(crate) kind: &'a str,
    pub(crate) semantic_version: u32,
    pub(crate) seed: u64,
    pub(crate) parameters: &'a Digest,
    pub(crate) replicate: &'a Coordinates,
    pub(crate) inputs: I,
    pub(crate) facets: &'a Digest,
    pub(crate) study: Option<(Digest, Digest)>,
}

/// Returns the key of a recipe.
pub(crate) fn key_of<'a, I>(parts: HeadParts<'a, I>) -> ActionKey
where
    I: ExactSizeIterator<Item = (&'a str, Digest)>,
{
    let mut encoder = Encoder::document("recipe");
    encoder.u32(ENCODING_VERSION);
    encoder.text(parts.kind);
    encoder.u32(parts.semantic_version);
    encoder.bytes.extend_from_slice(&parts.seed.to_le_bytes());
    encoder.digest(parts.parameters);
    encoder.replicate(parts.replicate);
    encoder.length(parts.inputs.len());
    for (stage, list) in parts.inputs {
        encoder.text(stage);
        encoder.digest(&list);
    }
    encoder.digest(parts.facets);
    encoder.optional(parts.study.as_ref(), |e, (spec, trail)| {
        e.digest(spec);
        e.digest(trail);
    });
    ActionKey(encoder.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(value: &Json) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.value(value);
        encoder.bytes
    }

    #[test]
    fn the_bytes_of_values_are_those_the_page_above_says() {
        assert_eq!(bytes(&json!(null)), [0]);
        assert_eq!(bytes(&json!(false)), [1]);
        assert_eq!(bytes(&json!(true)), [2]);
        assert_eq!(
            bytes(&json!(-2)),
            [3, 254, 255, 255, 255, 255, 255, 255, 255]
        );
        assert_eq!(
            bytes(&json!(u64::MAX)),
            [4, 255, 255, 255, 255, 255, 255, 255, 255]
        );
        assert_eq!(bytes(&json!(1.0)), [5, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(bytes(&json!(-0.0)), [5, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(&json!("é")), [6, 2, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9]);
        assert_eq!(bytes(&json!([true])), [7, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        let expected = [
            8, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'a', 0, 1, 0, 0, 0, 0, 0, 0, 0,
            b'b', 1,
        ];
        assert_eq!(bytes(&json!({"b": false, "a": null})), expected);
    }

    #[test]
    fn golden_value_digests_do_not_move() {
        // A change here changes every key of every user: raise ENCODING_VERSION with it.
        let value = json!({"requests": 16, "rate": 0.5, "prompts": ["a", "b"], "warmup": null});
        assert_eq!(
            value_digest(&value).to_string(),
            "b3:28e91c112aca60f0c279afa95c8aed4d615b99a73041cf4d2bce124cf027da54"
        );
    }

    #[test]
    fn an_integer_and_the_equal_float_differ() {
        assert_ne!(value_digest(&json!(1)), value_digest(&json!(1.0)));
    }

    #[test]
    fn boundaries_between_items_matter() {
        assert_ne!(
            value_digest(&json!(["ab", "c"])),
            value_digest(&json!(["a", "bc"]))
        );
        assert_ne!(
            value_digest(&json!([["a"], "b"])),
            value_digest(&json!([["a", "b"]]))
        );
        assert_ne!(
            value_digest(&json!({"a": {"b": 1}})),
            value_digest(&json!({"a": {}, "b": 1}))
        );
    }
}
