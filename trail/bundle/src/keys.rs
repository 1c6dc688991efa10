//! Ed25519 keys in standard files: PKCS#8 PEM for the private half, SPKI PEM for the public one.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::error::BundleError;
use crate::manifest::sha256_of;

/// The largest file of a key, in bytes. A key has a few hundred.
const MOST_BYTES: u64 = 64 << 10;

/// A private key with its public half.
pub struct KeyPair {
    secret: SigningKey,
    public: PublicKey,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Generates a new key from the system's randomness.
///
/// # Errors
/// If the system provides none.
pub fn generate() -> Result<KeyPair, BundleError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|e| {
        BundleError::Key(
            "(new)".into(),
            format!("this system provides no randomness: {e}"),
        )
    })?;
    Ok(KeyPair::of(SigningKey::from_bytes(&seed)))
}

impl KeyPair {
    fn of(secret: SigningKey) -> Self {
        let public = PublicKey(secret.verifying_key());
        Self { secret, public }
    }

    /// Reads a private key.
    ///
    /// # Errors
    /// If the file cannot be read or is not an Ed25519 key in PKCS#8 PEM.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let text = artifacts::regular::read_text_at_most(path, MOST_BYTES)
            .map_err(|e| BundleError::Io(path.to_owned(), e))?;
        if text.contains("PUBLIC KEY") {
            let what = "this is a public key; signing needs the private key".to_owned();
            return Err(BundleError::Key(path.to_owned(), what));
        }
        SigningKey::from_pkcs8_pem(&text)
            .map(Self::of)
            .map_err(|_| {
                // Do not repeat the parser's error: it must never contain part of a key.
                let what = "not an Ed25519 private key in PKCS#8 PEM; create one with `benchtrail \
                    keygen`"
                    .to_owned();
                BundleError::Key(path.to_owned(), what)
            })
    }

    /// Returns whether other users of this machine may read or change the file of a private key.
    pub fn is_open_to_others(path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0)
    }

    /// Writes both halves. Only the owner can read the private one. Neither file may exist yet.
    ///
    /// # Errors
    /// If a file exists already or cannot be written.
    pub fn write(&self, private: &Path, public: &Path) -> Result<(), BundleError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let unwritable =
            |_| BundleError::Key(private.to_owned(), "the key cannot be encoded".to_owned());
        let secret = self
            .secret
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(unwritable)?;
        let shown = self.public.0.to_public_key_pem(LineEnding::LF);
        let shown = shown.map_err(|e| BundleError::Key(public.to_owned(), e.to_string()))?;
        for (path, text, mode) in [
            (private, secret.as_str(), 0o600),
            (public, shown.as_str(), 0o644),
        ] {
            let fault = |e| BundleError::Io(path.to_owned(), e);
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(path)
                .map_err(fault)?;
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(fault)?;
        }
        Ok(())
    }

    /// Returns the public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.secret.sign(message).to_bytes()
    }
}

impl PublicKey {
    /// Reads a public key.
    ///
    /// # Errors
    /// If the file cannot be read or is not an Ed25519 key in SPKI PEM.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let text = artifacts::regular::read_text_at_most(path, MOST_BYTES)
            .map_err(|e| BundleError::Io(path.to_owned(), e))?;
        VerifyingKey::from_public_key_pem(&text).map(Self).map_err(|_| {
            let what = if text.contains("PRIVATE KEY") {
                "this is a private key. Pass the public key to check a signature, and keep this \
                 file secret"
            } else {
                "not an Ed25519 public key in PEM"
            };
            BundleError::Key(path.to_owned(), what.to_owned())
        })
    }

    /// Returns the key's name: the SHA-256 of its DER form, in hexadecimal.
    pub fn id(&self) -> String {
        let der = self
            .0
            .to_public_key_der()
            .expect("a key of fixed length always encodes");
        sha256_of(der.as_bytes())
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        self.0.verify_strict(message, &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_files_and_the_private_one_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("k.key"), folder.path().join("k.pub"));
        let key = generate().unwrap();
        key.write(&private, &public).unwrap();
        assert_eq!(KeyPair::read(&private).unwrap().public(), key.public());
        assert_eq!(&PublicKey::read(&public).unwrap(), key.public());
        assert_eq!(
            fs::metadata(&private).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            key.write(&private, &public).is_err(),
            "a key is never overwritten"
        );
        for (error, word) in [
            (KeyPair::read(&public).unwrap_err(), "needs the private key"),
            (
                PublicKey::read(&private).unwrap_err(),
                "Pass the public key",
            ),
        ] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_file_far_larger_than_a_key_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        // A hole: it takes no disk.
        let file = fs::File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        for error in [
            KeyPair::read(&path).unwrap_err(),
            PublicKey::read(&path).unwrap_err(),
        ] {
            assert!(error.to_string().contains("the limit is 65536"), "{error}");
        }
    }

    #[test]
    fn a_private_key_that_others_can_read_is_recognised() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("k.key"), folder.path().join("k.pub"));
        generate().unwrap().write(&private, &public).unwrap();
        assert!(!KeyPair::is_open_to_others(&private));
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&private, fs::Permissions::from_mode(mode)).unwrap();
            assert!(KeyPair::is_open_to_others(&private), "{mode:o}");
        }
    }

    #[test]
    fn a_key_is_never_shown_when_debugged() {
        let key = generate().unwrap();
        let text = format!("{key:?}");
        let secret = artifacts::hex(key.secret.as_bytes());
        assert!(!text.contains(&secret) && text.contains("public"), "{text}");
    }
}
