//! Messages about problems with a TLS server.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The ways to name an authority.
pub(crate) const GIVE: &str = "name the certificate of its authority with `--ca-file` (in an engine's definition: \
                               `launch.ca-file`)";

/// Why there is no TLS connection, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The reason, in one phrase.
    pub reason: String,
    /// What to do about it, in one phrase.
    pub remedy: String,
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TLS: {}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    /// Explains why a handshake with a host failed.
    pub(crate) fn of_handshake(host: &str, error: &io::Error) -> Self {
        let plain = "if it speaks plain HTTP, write http:// in its URL; otherwise check its log";
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        match (inner, error.kind()) {
            (Some(Error::InvalidCertificate(wrong)), _) => of_certificate(host, wrong),
            (Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)), _) => Self::new(
                format!("{host} does not speak TLS at this port"),
                "write http:// in its URL",
            ),
            (Some(Error::AlertReceived(AlertDescription::UnrecognisedName)), _) => Self::new(
                format!("the server does not know the host name {host}"),
                "use the name in its certificate in the URL",
            ),
            (Some(other), _) => Self::new(
                other.to_string(),
                "the server must speak TLS 1.2 or 1.3; check its log",
            ),
            (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => Self::new(
                format!("{host} closed the connection during the handshake"),
                plain,
            ),
            (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Self::new(
                format!("{host} did not answer the handshake in time"),
                plain,
            ),
            (None, _) => Self::new(format!("the handshake failed: {error}"), plain),
        }
    }
}

fn of_certificate(host: &str, wrong: &CertificateError) -> TlsError {
    match wrong {
        CertificateError::UnknownIssuer => TlsError::new(
            format!(
                "the certificate of {host} was issued by an authority that this machine does not trust"
            ),
            GIVE,
        ),
        CertificateError::BadSignature => TlsError::new(
            format!(
                "the certificate of {host} is not signed by the authority of that name that this machine trusts"
            ),
            GIVE,
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let names = match wrong {
                CertificateError::NotValidForNameContext { presented, .. }
                    if !presented.is_empty() =>
                {
                    presented.join(", ")
                }
                _ => "no name at all".to_owned(),
            };
            TlsError::new(
                format!("the certificate is not for {host}: it is for {names}"),
                "use a name in the URL that the certificate covers, or give the server a \
                 certificate for this name",
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsError::new(
            format!("the certificate of {host} has expired"),
            "renew it; if it is still valid, correct the clock of this machine",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsError::new(
                format!("the certificate of {host} is not valid yet"),
                "correct the clocks of this machine and of the one that made the certificate",
            )
        }
        // The library exposes this error only as text.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            TlsError::new(
                format!("the certificate of {host} is that of an authority, not of a server"),
                "create it with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE …`, \
                 or let the authority sign \
             another one for the server",
            )
        }
        other => TlsError::new(
            format!("the certificate of {host} is not accepted: {other}"),
            "give the server another certificate",
        ),
    }
}
