//! A shared store in a bucket, through the binary, against a stub of the server in this process. `tests/sharing_s3.rs`
//! tests the behaviour with a real server.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bucket_stub::{Behaviour, StubBucket};
use crate::sharing::{STUDY, Seat, executed, records};
use crate::support::{Outcome, copy_folder};

const TEAM: &str = "s3://lab/team";
const SECRET: &str = "hunter22hunter22";

fn seat(name: &'static str, host: &'static str) -> Seat {
    Seat::new(name, host, Path::new(TEAM))
}

/// Runs a command of a seat with environment variables for the stub.
fn run(seat: &Seat, stub: &StubBucket, arguments: &[&str]) -> Outcome {
    let mut command = seat.command(arguments);
    lead(&mut command, &stub.endpoint);
    command.output().expect("the binary starts").into()
}

fn lead(command: &mut Command, endpoint: &str) {
    command
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ACCESS_KEY_ID", "team-access")
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", "session-of-team")
        .env("AWS_REGION", "us-east-1")
        .env_remove("AWS_ALLOW_HTTP");
}

fn behaves(stub: &StubBucket, change: impl FnOnce(&mut Behaviour)) {
    let mut behaviour = Behaviour::default();
    change(&mut behaviour);
    stub.behaves(behaviour);
}

#[test]
fn what_one_measured_another_uses_through_a_bucket() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    let ran = run(&ada, &stub, &["run", STUDY, "--remote", TEAM, "--json"]).ok();
    assert_eq!(executed(&ran), 6);
    let bob = seat("Bob", "right-box");
    let left = run(&bob, &stub, &["plan", STUDY, "--remote", TEAM]).ok();
    assert!(
        left.stdout.contains("4 results of `throw` from Ada"),
        "{}",
        left.stdout
    );
    let policy = [
        "run",
        STUDY,
        "--remote",
        TEAM,
        "--reuse",
        "same-facets",
        "--json",
    ];
    assert_eq!(executed(&run(&bob, &stub, &policy).ok()), 0);
    assert_eq!(bob.report(), ada.report());
    let of_ledger = |line: &str| line.contains("4 cells on left-box");
    let line = ada
        .report()
        .lines()
        .position(of_ledger)
        .expect("the ledger")
        + 1;
    let number = format!("reports/dice/report.md:{line}");
    // A person with the report and the lock, but no results.
    let eve = seat("Eve", "third-box");
    let folder = |seat: &Seat, name: &str| seat.project.path().join(name);
    copy_folder(&folder(&ada, "reports"), &folder(&eve, "reports"));
    let lock = "experiments/dice.lock";
    fs::copy(folder(&ada, lock), folder(&eve, lock)).expect("the lock is in the repository");
    run(
        &eve,
        &stub,
        &["audit", "reports/dice/report.md", "--remote", TEAM],
    )
    .ok();
    run(&eve, &stub, &["why", &number, "4", "--remote", TEAM]).ok();
    run(
        &eve,
        &stub,
        &["publish", STUDY, "--author", "Eve", "--remote", TEAM],
    )
    .ok();
}

#[test]
fn credentials_are_in_no_lock_record_report_object_or_event() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    run(&ada, &stub, &["run", STUDY, "--remote", TEAM]).ok();
    let mut all = vec![stub.text()];
    let mut folders = vec![ada.project.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).expect("a file");
                    all.push(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }
    for text in all {
        for secret in [SECRET, "team-access", "session-of-team"] {
            assert!(!text.contains(secret), "a file contains {secret}");
        }
    }
}

#[test]
fn two_measurements_of_the_same_cell_are_both_kept_and_reported() {
    let stub = StubBucket::start();
    let (ada, bob) = (seat("Ada", "left-box"), seat("Bob", "right-box"));
    for seat in [&ada, &bob] {
        run(seat, &stub, &["run", STUDY]).ok();
    }
    run(&ada, &stub, &["push", TEAM]).ok();
    let pushed = run(&bob, &stub, &["push", TEAM]).ok();
    assert_eq!(
        pushed
            .stdout
            .matches("has another result, from Ada")
            .count(),
        4,
        "{}",
        pushed.stdout
    );
    run(&ada, &stub, &["pull", TEAM, "--study", "dice"]).ok();
    assert_ne!(records(&ada), records(&bob));
}

#[test]
fn a_server_that_refuses_is_said_with_a_remedy_and_without_a_secret() {
    let document = |code: &str| {
        format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>About {SECRET}.</Message>\
             <AWSAccessKeyId>team-access</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"
        )
    };
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    for (status, code, reason, remedy) in [
        (
            404,
            "NoSuchBucket",
            "has no bucket `lab`",
            "does not create buckets",
        ),
        (
            403,
            "InvalidAccessKeyId",
            "does not accept the credentials",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            403,
            "SignatureDoesNotMatch",
            "does not accept the credentials",
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            400,
            "ExpiredToken",
            "the session has expired",
            "sign in again",
        ),
        (
            403,
            "RequestTimeTooSkewed",
            "the clock of this machine differs",
            "set the clock",
        ),
        (
            403,
            "AccessDenied",
            "refuses access to `lab`",
            "s3:PutObject",
        ),
        (
            400,
            "AuthorizationHeaderMalformed",
            "in another region",
            "AWS_REGION",
        ),
        (
            507,
            "XMinioStorageFull",
            "has no space left",
            "free some space",
        ),
        (501, "NotImplemented", "lacks something", "conditional puts"),
        (418, "Teapot", "gave an unexpected answer", "server's log"),
    ] {
        behaves(&stub, |b| b.refuses = Some((status, document(code))));
        let refused = run(&ada, &stub, &["run", STUDY, "--remote", TEAM]);
        assert_eq!(refused.code, Some(4), "{code}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(reason) && refused.stderr.contains(remedy),
            "{code}: {}",
            refused.stderr
        );
        for secret in [SECRET, "team-access", "session-of-team"] {
            assert!(
                !refused.stderr.contains(secret),
                "{code}: {}",
                refused.stderr
            );
        }
        assert!(
            !ada.project.path().join("experiments/dice.lock").exists(),
            "{code}"
        );
    }
}

#[test]
fn a_server_that_cannot_be_reached_and_one_that_takes_no_writes_are_distinguished() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    run(&ada, &stub, &["run", STUDY]).ok();
    let mut push = ada.command(&["push", TEAM]);
    lead(&mut push, "http://127.0.0.1:1");
    let gone: Outcome = push.output().expect("the binary starts").into();
    assert_eq!(gone.code, Some(4), "{}", gone.stderr);
    assert!(
        gone.stderr.contains("http://127.0.0.1:1 cannot be reached"),
        "{}",
        gone.stderr
    );
    behaves(&stub, |b| {
        b.refuses_puts = Some((403, "<Error><Code>AccessDenied</Code></Error>".to_owned()));
    });
    let refused = run(&ada, &stub, &["push", TEAM]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("refuses access to `lab`"),
        "{}",
        refused.stderr
    );
    behaves(&stub, |_| ());
    let absent = run(&ada, &stub, &["pull", TEAM]);
    assert_eq!(absent.code, Some(5), "{}", absent.stderr);
    assert!(
        absent
            .stderr
            .contains("there is no shared store at s3://lab/team"),
        "{}",
        absent.stderr
    );
}

#[test]
fn a_bucket_that_ignores_conditional_puts_is_refused_before_anything_is_pushed() {
    let stub = StubBucket::start();
    behaves(&stub, |b| b.ignores_conditions = true);
    let ada = seat("Ada", "left-box");
    let refused = run(&ada, &stub, &["run", STUDY, "--remote", TEAM]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("ignores conditional puts"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("If-None-Match"),
        "{}",
        refused.stderr
    );
    assert_eq!(stub.names("lab/"), ["lab/team/benchtrail.json"]);
}

#[test]
fn a_connection_that_is_cut_while_something_is_put_loses_nothing_and_enters_nothing_twice() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    run(&ada, &stub, &["run", STUDY]).ok();
    behaves(&stub, |b| b.cuts = 20);
    run(&ada, &stub, &["push", TEAM, "--jobs", "1"]).ok();
    assert_eq!(stub.names("lab/team/cells/").len(), 6);
    let bob = seat("Bob", "right-box");
    let pulled = run(&bob, &stub, &["pull", TEAM, "--study", "dice", "--json"]).ok();
    assert_eq!(pulled.json()["entered"], 6);
}

#[test]
fn a_list_that_shows_nothing_yet_hides_no_result_from_a_run() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    run(&ada, &stub, &["run", STUDY, "--remote", TEAM]).ok();
    behaves(&stub, |b| b.lists_nothing = true);
    let bob = seat("Bob", "right-box");
    let policy = [
        "run",
        STUDY,
        "--remote",
        TEAM,
        "--reuse",
        "same-facets",
        "--json",
    ];
    assert_eq!(executed(&run(&bob, &stub, &policy).ok()), 0);
    run(&bob, &stub, &["push", TEAM]).ok();
    assert_eq!(stub.names("lab/team/cells/").len(), 6);
}

#[test]
fn a_damaged_object_in_a_bucket_is_named_and_a_push_with_verify_mends_it() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    run(&ada, &stub, &["run", STUDY, "--remote", TEAM]).ok();
    let object = stub.names("lab/team/objects/").remove(0);
    stub.damage(&object);
    let bob = seat("Bob", "right-box");
    let pulled = run(&bob, &stub, &["pull", TEAM, "--study", "dice"]);
    assert_eq!(pulled.code, Some(3), "{}", pulled.stderr);
    let mended = run(&ada, &stub, &["push", TEAM, "--verify", "--json"])
        .ok()
        .json();
    assert_eq!(
        mended["replaced"].as_array().map(Vec::len),
        Some(1),
        "{mended}"
    );
    run(&bob, &stub, &["pull", TEAM, "--study", "dice"]).ok();
}

#[test]
fn an_address_with_credentials_or_an_open_line_is_refused_before_anybody_is_asked() {
    let stub = StubBucket::start();
    let ada = seat("Ada", "left-box");
    for (url, reason) in [
        ("s3://key:hunter22@lab/team", "must not contain credentials"),
        (
            "s3://lab/team?X-Amz-Signature=hunter22",
            "must not contain options or a signature",
        ),
        ("https://key:hunter22@127.0.0.1/lab", "AWS_ENDPOINT_URL"),
    ] {
        for arguments in [
            vec!["push", url],
            vec!["pull", url],
            vec!["run", STUDY, "--remote", url],
        ] {
            let refused = run(&ada, &stub, &arguments);
            assert_eq!(refused.code, Some(2), "{arguments:?}: {}", refused.stderr);
            assert!(
                refused.stderr.contains(reason),
                "{arguments:?}: {}",
                refused.stderr
            );
            assert!(!refused.stderr.contains("hunter22"), "{}", refused.stderr);
        }
    }
    assert!(stub.requests().is_empty());
    // The same rules apply to a server that a profile names.
    let profile = "[default]\naws_access_key_id=a\naws_secret_access_key=hunter22\nendpoint_url=http://minio.lab:9000\n";
    let file = ada.project.path().join("credentials");
    fs::write(&file, profile).expect("a file");
    let mut pull = ada.command(&["pull", TEAM]);
    for variable in [
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ALLOW_HTTP",
        "AWS_PROFILE",
    ] {
        pull.env_remove(variable);
    }
    let refused: Outcome = pull
        .env("AWS_SHARED_CREDENTIALS_FILE", file)
        .output()
        .expect("the binary starts")
        .into();
    assert!(
        refused
            .stderr
            .contains("http://minio.lab:9000 is plain HTTP"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("hunter22"), "{}", refused.stderr);
    let mut push = ada.command(&["pull", TEAM]);
    lead(&mut push, "http://minio.lab:9000");
    let refused: Outcome = push.output().expect("the binary starts").into();
    assert!(
        refused.stderr.contains("plain HTTP") && refused.stderr.contains("AWS_ALLOW_HTTP"),
        "{}",
        refused.stderr
    );
}
