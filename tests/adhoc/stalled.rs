//! A load during which everything stands still.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use load::reference::PROCESS_COMMAND;
use rustix::process::{Pid, Signal, kill_process};

use super::run;

/// A server in its own process, which ends when this value is dropped.
struct Served {
    child: Child,
    /// Host and port.
    address: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_benchtrail"))
            .arg(PROCESS_COMMAND)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut url = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut url).expect("its URL");
        let address = url.trim().strip_prefix("http://").expect("an address");
        Self {
            address: address.to_owned(),
            child,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("it runs");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Passes connections on to a server; calls `then` once, after this many bytes of answers. Returns the address.
fn relay(server: &str, bytes: usize, then: impl Fn() + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (server, then) = (server.to_owned(), Arc::new(then));
    let passed = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&server).expect("it listens");
            let mut ways = [
                client.try_clone().expect("a socket"),
                server.try_clone().expect("a socket"),
            ];
            std::thread::spawn(move || {
                let [client, server] = &mut ways;
                let _ended = std::io::copy(client, server);
                let _ended = server.shutdown(Shutdown::Both);
            });
            let (passed, then) = (Arc::clone(&passed), Arc::clone(&then));
            std::thread::spawn(move || {
                let (mut from, mut to) = (server, client);
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = from.read(&mut buffer) {
                    if to.write_all(&buffer[..n]).is_err() {
                        return;
                    }
                    let before = passed.fetch_add(n, Ordering::SeqCst);
                    if (before..before + n).contains(&bytes) {
                        then();
                    }
                }
                let _ended = to.shutdown(Shutdown::Both);
            });
        }
    });
    address.to_string()
}

#[test]
fn a_server_that_is_suspended_within_its_answers_is_reported() {
    let served = Arc::new(Served::start(&["--gap-ms", "5", "--tokens", "400"]));
    // The first answers have some hundred bytes for each token, so this is in their middle.
    let suspended = Arc::clone(&served);
    let through = relay(&served.address, 64 << 10, move || {
        suspended.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(3));
        suspended.signal(Signal::CONT);
    });
    let more = ["--requests", "4", "--concurrency", "2"];
    let ran = run(&format!("http://{through}"), &more).ok();
    let warned = ran
        .stderr
        .contains("warning: nothing arrived from the server for ");
    assert!(warned, "{}", ran.stderr);
    let had = ["1 answer had begun", "2 answers had begun"];
    assert!(
        had.iter().any(|had| ran.stderr.contains(had)),
        "{}",
        ran.stderr
    );
}
