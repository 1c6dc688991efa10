//! Handshakes with servers whose certificates are valid, or invalid in each possible way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use net::{Ask, HttpError, Site, Tls, TlsError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        Self::named("Tests")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Starts a server with a certificate for these names. It answers each request with `ok`.
    fn serve(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> SocketAddr {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        serve(certificate.der().clone(), &key)
    }
}

fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> SocketAddr {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    answer(move |stream| {
        let session = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_ok() {
            let protocol = stream
                .conn
                .alpn_protocol()
                .map(<[u8]>::to_vec)
                .unwrap_or_default();
            let name = stream
                .conn
                .server_name()
                .unwrap_or_default()
                .as_bytes()
                .to_vec();
            let _gone = stream.write_all(&[protocol, b" ".to_vec(), name].concat());
            stream.conn.send_close_notify();
            let _gone = stream.flush();
        }
    })
}

fn answer(one: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    // Every loopback address leads here.
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
    std::thread::spawn(move || listener.incoming().flatten().for_each(one));
    address
}

/// Returns the server's answer to a connection under a host's name: protocol and name.
fn ask(host: &str, authority: &Authority, address: SocketAddr) -> Result<String, TlsError> {
    let tls = Tls::new(host, Some(&authority.file())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let said = runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut stream = tls.connect(tcp).await?;
        stream.write_all(b"?").await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        Ok(said)
    });
    // Off the measured path, a handshake ends the same way. The server does not answer HTTP.
    match (&said, ask_off_the_path(host, &tls, address)) {
        (Ok(_), HttpError::Answer(_)) => {}
        (Err(wrong), HttpError::Tls(same)) => assert_eq!(*wrong, same),
        (said, other) => panic!("{said:?}, but {other:?}"),
    }
    said
}

fn ask_off_the_path(host: &str, tls: &Tls, address: SocketAddr) -> HttpError {
    let url = format!("https://{host}:{}", address.port());
    let site = Site::new(&url, Some(tls), &[address], None).unwrap();
    let answer = site.ask(&Ask::get("/"), Duration::from_secs(60));
    answer.expect_err("the server answers no HTTP")
}

fn refused(host: &str, authority: &Authority, address: SocketAddr) -> TlsError {
    ask(host, authority, address).expect_err("the server is not to be trusted")
}

#[test]
fn a_name_is_sent_to_the_server_an_address_is_not_and_both_are_checked() {
    let authority = Authority::new();
    let address = authority.serve(&["localhost", "127.0.0.1"], |_| {});
    assert_eq!(
        ask("localhost", &authority, address).unwrap(),
        "http/1.1 localhost"
    );
    assert_eq!(ask("127.0.0.1", &authority, address).unwrap(), "http/1.1 ");
    let wrong = refused("127.0.0.2", &authority, address);
    assert!(wrong.reason.contains("not for 127.0.0.2"), "{wrong}");
}

#[test]
fn an_authority_that_is_not_trusted_is_refused_with_what_to_give() {
    let (trusted, other) = (Authority::new(), Authority::named("Elsewhere"));
    let wrong = refused("localhost", &trusted, other.serve(&["localhost"], |_| {}));
    assert!(
        wrong
            .reason
            .contains("an authority that this machine does not trust"),
        "{wrong}"
    );
    assert!(
        wrong.remedy.contains("--ca-file") && wrong.remedy.contains("launch.ca-file"),
        "{wrong}"
    );
    let namesake = Authority::new();
    let wrong = refused(
        "localhost",
        &trusted,
        namesake.serve(&["localhost"], |_| {}),
    );
    assert!(
        wrong
            .reason
            .contains("not signed by the authority of that name"),
        "{wrong}"
    );
}

#[test]
fn a_certificate_for_another_name_is_refused_with_both_names() {
    let authority = Authority::new();
    let wrong = refused(
        "localhost",
        &authority,
        authority.serve(&["engine.example"], |_| {}),
    );
    assert!(
        wrong.reason.contains("not for localhost: it is for"),
        "{wrong}"
    );
    assert!(wrong.reason.contains("engine.example"), "{wrong}");
}

#[test]
fn a_certificate_out_of_its_time_is_refused() {
    let authority = Authority::new();
    let expired = authority.serve(&["localhost"], |p| p.not_after = date_time_ymd(2001, 1, 1));
    let wrong = refused("localhost", &authority, expired);
    assert!(
        wrong.reason.contains("has expired") && wrong.remedy.contains("renew"),
        "{wrong}"
    );
    let early = authority.serve(&["localhost"], |p| p.not_before = date_time_ymd(3001, 1, 1));
    let wrong = refused("localhost", &authority, early);
    assert!(
        wrong.reason.contains("not valid yet") && wrong.remedy.contains("clocks"),
        "{wrong}"
    );
}

#[test]
fn a_self_signed_certificate_can_be_trusted_by_itself_unless_it_is_an_authority() {
    for (is_ca, accepted) in [
        (IsCa::ExplicitNoCa, true),
        (IsCa::Ca(BasicConstraints::Unconstrained), false),
    ] {
        let mut authority = Authority::new();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let certificate = params.self_signed(&key).unwrap();
        authority.folder = tempfile::tempdir().unwrap();
        std::fs::write(authority.file(), certificate.pem()).unwrap();
        let said = ask(
            "localhost",
            &authority,
            serve(certificate.der().clone(), &key),
        );
        assert_eq!(said.is_ok(), accepted, "{said:?}");
        if let Err(wrong) = said {
            assert!(wrong.remedy.contains("CA:FALSE"), "{wrong}");
        }
    }
}

#[test]
fn a_server_of_plain_http_is_recognised() {
    let authority = Authority::new();
    let prompt = answer(|mut stream| {
        let _heard = stream.read(&mut [0; 512]);
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let wrong = refused("127.0.0.1", &authority, prompt);
    assert_eq!(
        (wrong.reason.as_str(), wrong.remedy.as_str()),
        (
            "127.0.0.1 does not speak TLS at this port",
            "write http:// in its URL"
        )
    );
    let closing = answer(|mut stream| drop(stream.read(&mut [0; 512])));
    assert!(
        refused("127.0.0.1", &authority, closing)
            .reason
            .contains("closed the connection")
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = Tls::new("127.0.0.1", Some(&authority.file())).unwrap();
    let silent = ask_off_the_path("127.0.0.1", &tls, listener.local_addr().unwrap());
    let HttpError::Tls(wrong) = silent else {
        panic!("{silent:?}")
    };
    assert!(
        wrong.reason.contains("did not answer") && wrong.remedy.contains("http://"),
        "{wrong}"
    );
}

#[test]
fn a_file_without_certificates_is_named_with_its_fault() {
    let authority = Authority::new();
    let missing = authority.folder.path().join("none.pem");
    let wrong = Tls::new("localhost", Some(&missing)).unwrap_err();
    assert!(
        wrong.reason.contains("none.pem") && wrong.remedy.contains("PEM"),
        "{wrong}"
    );
    for text in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&missing, text).unwrap();
        assert!(Tls::new("localhost", Some(&missing)).is_err(), "{text}");
    }
    assert!(Tls::new("not a name", Some(&authority.file())).is_err());
}
