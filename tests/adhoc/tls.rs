//! `load` and `run` against a TLS server.

use std::fs;
use std::path::PathBuf;

use load::reference::{Behaviour, Identity, ReferenceServer};
use rcgen::{CertificateParams, KeyPair};

use super::{Outcome, experiment, outcome, run};

/// A server with its own certificate, and a folder with the file that makes it trusted.
struct Served {
    server: ReferenceServer,
    folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("ca.pem"), &certificate).expect("a file");
        let identity = Identity::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes());
        let identity = identity.expect("they belong together");
        let server = ReferenceServer::start_on(Behaviour::default(), 0, Some(identity))
            .expect("a free port");
        Self { server, folder }
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Runs an experiment that loads the server, in the folder of its certificate.
    fn run_experiment(&self, launch: &str) -> Outcome {
        outcome(&mut experiment(
            self.folder.path(),
            &self.server.url(),
            launch,
        ))
    }
}

#[test]
fn a_server_whose_certificate_is_in_the_file_is_loaded_over_tls() {
    let served = Served::start();
    let file = served.ca_file();
    let shown = run(
        &served.server.url(),
        &[
            "--ca-file",
            file.to_str().expect("UTF-8"),
            "--requests",
            "4",
        ],
    )
    .ok();
    assert!(
        shown.stdout.contains("reference at https://127.0.0.1:"),
        "{}",
        shown.stdout
    );
}

#[test]
fn a_server_that_nobody_vouches_for_is_refused_with_a_remedy() {
    let served = Served::start();
    let shown = run(&served.server.url(), &["--requests", "4"]);
    assert_eq!(shown.code, Some(1));
    let expected = format!(
        "error: {}: TLS: the certificate of 127.0.0.1 was issued by an authority",
        served.server.url()
    );
    assert!(shown.stderr.starts_with(&expected), "{}", shown.stderr);
    assert!(
        shown
            .stderr
            .contains("hint: name the certificate of its authority with `--ca-file`"),
        "{}",
        shown.stderr
    );
}

#[test]
fn an_experiment_loads_a_server_that_runs_elsewhere_over_tls() {
    let served = Served::start();
    let shown = served.run_experiment("");
    assert_ne!(shown.code, Some(0));
    let all = shown.stdout + &shown.stderr;
    assert!(
        all.contains("TLS: the certificate of 127.0.0.1 was issued by an authority that this machine does not trust"),
        "{all}"
    );
    assert!(all.contains("launch.ca-file"), "{all}");
    served.run_experiment(", ca-file: ca.pem").ok();
    // A request of one token to check that it is ready, then the load.
    assert_eq!(served.server.truth(3).len(), 3);
}
