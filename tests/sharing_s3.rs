//! A shared store in a bucket of a real S3 server, through the binary. `tests/s3/run` starts the server and sets the
//! variables that name it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::sharing::{STUDY, Seat, executed};

fn bucket(test: &str) -> PathBuf {
    PathBuf::from(format!("s3://lab/cli-{}-{test}", std::process::id()))
}

/// Returns the address of the server that the lane started.
#[expect(
    clippy::disallowed_methods,
    reason = "the lane starts the server and sets its address"
)]
fn endpoint() -> String {
    std::env::var("AWS_ENDPOINT_URL").expect("tests/s3/run sets it")
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn what_one_measured_another_uses_through_a_bucket() {
    let team = bucket("two");
    let ada = Seat::new("Ada", "left-box", &team);
    assert_eq!(executed(&ada.with(&["run", STUDY, "--json"]).ok()), 6);
    let bob = Seat::new("Bob", "right-box", &team);
    let ran = bob
        .with(&["run", STUDY, "--reuse", "same-facets", "--json"])
        .ok();
    assert_eq!(executed(&ran), 0, "{}", ran.stderr);
    assert_eq!(bob.report(), ada.report());
    bob.run(&["fsck"]).ok();
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn wrong_credentials_are_said_without_being_repeated_and_nothing_is_measured() {
    let ada = Seat::new("Ada", "left-box", &bucket("refused"));
    let mut run = ada.command(&["run", STUDY]);
    run.env("BENCHTRAIL_REMOTE", &ada.shared)
        .env("AWS_SECRET_ACCESS_KEY", "not-the-secret");
    let refused = run.output().expect("the binary starts");
    let said = String::from_utf8(refused.stderr).expect("text");
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(
        said.contains("does not accept the credentials") && said.contains("AWS_ACCESS_KEY_ID"),
        "{said}"
    );
    assert!(
        !said.contains("not-the-secret") && !said.contains("team-access"),
        "{said}"
    );
    assert!(!ada.project.path().join("experiments/dice.lock").exists());
}

#[test]
#[ignore = "needs a server: tests/s3/run"]
fn a_connection_that_is_cut_in_the_middle_of_uploads_loses_nothing() {
    let ada = Seat::new("Ada", "left-box", &bucket("cut"));
    ada.run(&["run", STUDY]).ok();
    let (proxy, cuts) = cutting_proxy(&endpoint(), 5);
    let mut push = ada.command(&["push", ada.shared.to_str().expect("a plain path"), "--json"]);
    let output = push
        .env("AWS_ENDPOINT_URL", proxy)
        .output()
        .expect("the binary starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(cuts.load(Ordering::Relaxed) > 0, "nothing was cut");
    let bob = Seat::new("Bob", "right-box", &ada.shared);
    assert_eq!(
        bob.pull(&["--study", "dice", "--json"]).ok().json()["entered"],
        6
    );
}

/// Starts a proxy that cuts its first connections in the middle of the client's data.
fn cutting_proxy(server: &str, cuts: usize) -> (String, Arc<AtomicUsize>) {
    let server = server
        .strip_prefix("http://")
        .expect("plain HTTP")
        .to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let cut = Arc::new(AtomicUsize::new(0));
    let counted = cut.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect(&server).expect("the server answers");
            // Each connection to be cut lasts a little longer than the one before.
            let limit = match counted.load(Ordering::Relaxed) {
                n if n < cuts => Some(400 + 300 * n),
                _ => None,
            };
            let counted = counted.clone();
            thread::spawn(move || {
                let back = (
                    upstream.try_clone().expect("a socket"),
                    client.try_clone().expect("a socket"),
                );
                thread::spawn(move || pass(back.0, back.1, None));
                if pass(client, upstream, limit) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, cut)
}

/// Forwards bytes until the end or the limit; returns whether it stopped at the limit.
fn pass(mut from: TcpStream, mut to: TcpStream, limit: Option<usize>) -> bool {
    let mut passed = 0;
    let mut piece = [0; 256];
    let end = loop {
        match from.read(&mut piece) {
            Ok(0) | Err(_) => break false,
            Ok(n) => {
                passed += n;
                if limit.is_some_and(|limit| passed > limit) {
                    break true;
                }
                if to.write_all(&piece[..n]).is_err() {
                    break false;
                }
            }
        }
    };
    let shut: [io::Result<()>; 2] = [from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)];
    // Either side may already be closed.
    drop(shut);
    end
}
