//! The load over TLS: its rows, and those with an untrusted server.

use std::path::PathBuf;

use contract::RequestStatus;
use load::reference::{Behaviour, Fault, Faults, Identity, ReferenceServer};
use load::{
    Delivery, Ending, LoadResult, ModelsError, Target, TimeSpan, Timeouts, list_models, run_load,
};
use pipeline::stage::Control;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use crate::common::{Run, prompts, statuses};

/// A TLS server with its own certificate, and a file that makes it trusted.
struct Served {
    server: ReferenceServer,
    ca_file: PathBuf,
    _folder: tempfile::TempDir,
}

fn serve(
    behaviour: Behaviour,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> Served {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, &certificate).unwrap();
    let identity =
        Identity::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let server = ReferenceServer::start_on(behaviour, 0, Some(identity)).unwrap();
    Served {
        server,
        ca_file,
        _folder: folder,
    }
}

fn trusted(behaviour: Behaviour) -> Served {
    serve(behaviour, &["127.0.0.1", "localhost"], |_| {})
}

impl Served {
    fn target(&self, run: &Run) -> Target {
        Target {
            ca_file: Some(self.ca_file.clone()),
            ..run.target(self.server.url())
        }
    }

    fn send(&self, run: &Run) -> LoadResult {
        run_load(&run.spec(), &self.target(run), &Control::quiet()).unwrap()
    }
}

#[test]
fn an_address_and_a_name_are_both_reached_and_connections_are_used_again() {
    let served = trusted(Behaviour::default());
    let run = Run::default();
    let by_name = served.server.url().replace("127.0.0.1", "localhost");
    for base_url in [served.server.url(), by_name] {
        let target = Target {
            base_url,
            metrics: Some("/metrics".to_owned()),
            ..served.target(&run)
        };
        let result = run_load(&run.spec(), &target, &Control::quiet()).unwrap();
        assert_eq!(statuses(&result), [RequestStatus::Ok; 6]);
        assert_eq!(result.cell.connections, 2);
        // The connections were opened in advance, so no request's own time includes a handshake.
        assert!(result.requests.iter().all(|row| row.connect_ns.is_none()));
        assert!(result.chunks.len() == 6 * 5 && !result.server_metrics.is_empty());
        let models = list_models(&target.base_url, target.ca_file.as_deref(), None).unwrap();
        assert_eq!(models, ["reference"]);
    }
}

#[test]
fn a_handshake_that_comes_late_is_send_lag_and_no_part_of_ttft() {
    // Only the warm-up can use a connection opened in advance. Each further request needs a new one.
    let faults = Faults::all(Fault::CloseAfterAnswer);
    let served = trusted(Behaviour {
        faults,
        ..Behaviour::default()
    });
    let result = served.send(&Run {
        requests: 12,
        ..Run::default()
    });
    let last: Vec<_> = result
        .requests
        .iter()
        .filter(|row| !row.superseded)
        .collect();
    assert!(last.iter().all(|row| row.status == RequestStatus::Ok));
    let late: Vec<_> = last
        .iter()
        .filter_map(|row| Some((row, row.connect_ns?)))
        .collect();
    assert!(late.len() >= 6, "{} of 12 were made late", late.len());
    for (row, connect_ns) in late {
        assert!(
            connect_ns > 0 && row.send_lag_ns.unwrap() >= connect_ns,
            "{row:?}"
        );
    }
}

#[test]
fn every_fault_becomes_the_row_that_it_is_without_tls() {
    let limits = Timeouts {
        first_token: TimeSpan::milliseconds(300),
        inter_token: TimeSpan::milliseconds(300),
        ..Timeouts::default()
    };
    for fault in [
        Fault::CloseBeforeAnswer,
        Fault::Status(429),
        Fault::StallBeforeHead,
        Fault::StallAfter(2),
        Fault::CloseAfter(3),
        Fault::ErrorEventAfter(2),
        Fault::Nonsense,
        Fault::Drip,
        Fault::Decorated,
        Fault::CloseInsteadOfEnd,
        Fault::CloseAfterAnswer,
    ] {
        let run = Run {
            timeouts: limits.clone(),
            ..Run::with(fault)
        };
        let served = trusted(run.behaviour.clone());
        let (plain, tls) = (run.result().statuses(), served.send(&run).statuses());
        assert_eq!(tls, plain, "{fault:?}");
    }
}

#[test]
fn a_reset_within_the_stream_is_one_with_tls_too() {
    let served = trusted(Behaviour {
        faults: Faults::all(Fault::ResetAfter(3)),
        ..Behaviour::default()
    });
    let result = served.send(&Run::default());
    assert_eq!(statuses(&result), [RequestStatus::ConnectionReset; 6]);
}

#[test]
fn a_request_larger_than_the_buffers_arrives_whole() {
    let served = trusted(Behaviour::default());
    let run = Run {
        requests: 2,
        delivery: Delivery::Whole,
        words: 1_000_000,
        ..Run::default()
    };
    assert_eq!(statuses(&served.send(&run)), [RequestStatus::Ok; 2]);
    let sent: Vec<String> = served
        .server
        .truth(2)
        .into_iter()
        .map(|t| String::from_utf8(t.request).unwrap())
        .collect();
    for prompt in prompts(&run.spec()) {
        assert!(prompt.text.len() > 4_000_000);
        assert_eq!(
            sent.iter()
                .filter(|request| request.contains(&prompt.text))
                .count(),
            1
        );
    }
}

#[test]
fn an_untrusted_server_gets_no_request_and_the_error_has_reason_and_remedy() {
    let run = Run {
        requests: 100,
        ..Run::default()
    };
    let right = ["127.0.0.1"].as_slice();
    let unknown = serve(Behaviour::default(), right, |_| {});
    let unknown = Served {
        ca_file: trusted_by_others(&unknown),
        ..unknown
    };
    let expired = serve(Behaviour::default(), right, |p| {
        p.not_after = date_time_ymd(2001, 1, 1);
    });
    let misnamed = serve(Behaviour::default(), &["engine.example"], |_| {});
    for (served, reason, remedy) in [
        (unknown, "not signed by the authority", "--ca-file"),
        (expired, "has expired", "renew it"),
        (misnamed, "is not for 127.0.0.1", "use a name in the URL"),
    ] {
        let result = served.send(&run);
        assert_eq!(result.ending, Ending::Gone(0));
        assert!(
            statuses(&result)
                .iter()
                .all(|status| *status == RequestStatus::Refused)
        );
        let error = result.requests[0].error.clone().unwrap();
        assert!(
            error.contains("TLS: ") && error.contains(reason) && error.contains(remedy),
            "{error}"
        );
        assert!(result.requests.iter().all(|row| row.sent_ns.is_none()));
        let error = list_models(&served.server.url(), Some(&served.ca_file), None).unwrap_err();
        let ModelsError::Tls(error) = error else {
            panic!("{error}")
        };
        assert!(
            error.reason.contains(reason) && error.remedy.contains(remedy),
            "{error}"
        );
    }
}

/// Returns a file that trusts a different server of the same name.
fn trusted_by_others(served: &Served) -> PathBuf {
    let key = KeyPair::generate().unwrap();
    let other = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let file = served.ca_file.with_file_name("other.pem");
    std::fs::write(&file, other.pem()).unwrap();
    file
}

#[test]
fn the_operating_system_trusts_no_certificate_of_a_test() {
    let served = trusted(Behaviour::default());
    let error = list_models(&served.server.url(), None, None).unwrap_err();
    let ModelsError::Tls(error) = error else {
        panic!("{error}")
    };
    assert!(error.remedy.contains("--ca-file"), "{error}");
}

#[test]
fn plain_and_encrypted_ports_are_distinguished() {
    let served = trusted(Behaviour::default());
    let run = Run::default();
    let plain_url = Target {
        ca_file: None,
        ..run.target(served.server.url().replace("https:", "http:"))
    };
    let result = run_load(&run.spec(), &plain_url, &Control::quiet()).unwrap();
    let error = result
        .requests
        .last()
        .unwrap()
        .error
        .clone()
        .unwrap_or_default();
    assert!(
        error.contains("speaks TLS") && error.contains("https://"),
        "{:?} {error}",
        statuses(&result)
    );
    let file_for_nothing = Target {
        ca_file: Some(served.ca_file.clone()),
        ..plain_url
    };
    let error = run_load(&run.spec(), &file_for_nothing, &Control::quiet()).unwrap_err();
    assert!(error.to_string().contains("is not https://"), "{error}");
}

#[test]
fn a_certificate_and_a_key_that_do_not_belong_together_are_no_identity() {
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let certificate = CertificateParams::new(vec!["a".to_owned()])
        .unwrap()
        .self_signed(&one)
        .unwrap()
        .pem();
    assert!(Identity::from_pem(certificate.as_bytes(), other.serialize_pem().as_bytes()).is_err());
    assert!(Identity::from_pem(b"", one.serialize_pem().as_bytes()).is_err());
    assert!(Identity::from_pem(certificate.as_bytes(), b"").is_err());
}
