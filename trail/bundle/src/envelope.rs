//! DSSE: a signature over a document and its type.
//!
//! The signature covers the pre-authentication encoding of the DSSE specification, version 1:
//! `DSSEv1 LEN(type) type LEN(body) body`, with decimal lengths, separated by single spaces.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::keys::{KeyPair, PublicKey};

/// The type of an in-toto statement.
pub(crate) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A signed document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    /// The document in base64.
    pub(crate) payload: String,
    /// The document's type.
    pub(crate) payload_type: String,
    /// The signatures.
    pub(crate) signatures: Vec<EnvelopeSignature>,
}

/// One signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvelopeSignature {
    /// The key that made it, as the SHA-256 of its public half.
    pub(crate) keyid: String,
    /// The signature in base64.
    pub(crate) sig: String,
}

/// The reason why an envelope is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeError {
    /// Text that is not base64, or a signature of a wrong length.
    Malformed(String),
    /// This key made none of the signatures.
    OtherKey(Vec<String>),
    /// The signature does not match this document.
    Forged,
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "the envelope cannot be read: {what}"),
            Self::OtherKey(ids) => write!(f, "it is signed by another key ({})", ids.join(", ")),
            Self::Forged => f.write_str("the signature does not cover this document"),
        }
    }
}

impl std::error::Error for EnvelopeError {}

impl Envelope {
    /// Signs a document.
    pub(crate) fn seal(payload_type: &str, body: &[u8], key: &KeyPair) -> Self {
        let signature = key.sign(&encoding(payload_type, body));
        Self {
            payload: STANDARD.encode(body),
            payload_type: payload_type.to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: key.public().id(),
                sig: STANDARD.encode(signature),
            }],
        }
    }

    /// Returns the document without checking it.
    ///
    /// # Errors
    /// If it is not base64.
    pub(crate) fn body(&self) -> Result<Vec<u8>, EnvelopeError> {
        STANDARD
            .decode(&self.payload)
            .map_err(|e| EnvelopeError::Malformed(format!("payload: {e}")))
    }

    /// Returns the document if the key signed it.
    ///
    /// # Errors
    /// If the key did not sign it.
    pub(crate) fn open(&self, key: &PublicKey) -> Result<Vec<u8>, EnvelopeError> {
        let body = self.body()?;
        let id = key.id();
        let Some(signature) = self.signatures.iter().find(|s| s.keyid == id) else {
            return Err(EnvelopeError::OtherKey(
                self.signatures.iter().map(|s| s.keyid.clone()).collect(),
            ));
        };
        let bytes = STANDARD
            .decode(&signature.sig)
            .map_err(|e| EnvelopeError::Malformed(format!("signature: {e}")))?;
        if key.verifies(&encoding(&self.payload_type, &body), &bytes) {
            Ok(body)
        } else {
            Err(EnvelopeError::Forged)
        }
    }
}

/// Returns the pre-authentication encoding.
fn encoding(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let mut text = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        body.len()
    )
    .into_bytes();
    text.extend_from_slice(body);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_that_of_the_specification() {
        // The example in the text of the DSSE protocol.
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world".to_vec();
        assert_eq!(
            encoding("http://example.com/HelloWorld", b"hello world"),
            expected
        );
    }

    #[test]
    fn a_sealed_document_opens_with_its_key_and_no_other() {
        let (key, other) = (crate::generate().unwrap(), crate::generate().unwrap());
        let envelope = Envelope::seal(IN_TOTO, b"{}", &key);
        assert_eq!(envelope.open(key.public()).unwrap(), b"{}");
        assert!(matches!(
            envelope.open(other.public()),
            Err(EnvelopeError::OtherKey(_))
        ));
    }

    #[test]
    fn a_changed_document_type_or_signature_is_forged() {
        let key = crate::generate().unwrap();
        let envelope = Envelope::seal(IN_TOTO, b"{\"a\":1}", &key);
        let mut body = envelope.clone();
        body.payload = STANDARD.encode(b"{\"a\":2}");
        let mut kind = envelope.clone();
        kind.payload_type = "text/plain".to_owned();
        let mut signature = envelope.clone();
        signature.signatures[0].sig = STANDARD.encode([0; 64]);
        for changed in [body, kind, signature] {
            assert_eq!(changed.open(key.public()), Err(EnvelopeError::Forged));
        }
    }
}
