use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// A server over an empty store, which waits for a request as long as the test takes.
fn patient() -> (tempfile::TempDir, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    let store = artifacts::Store::open(&folder.path().join("store")).unwrap();
    let site = Site::new(folder.path(), store, Box::new(|| Ok(Vec::new())));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Server::bind(Arc::new(site), address, None).unwrap();
    let shared = Arc::get_mut(&mut server.shared).expect("not yet shared");
    shared.patience = Duration::from_secs(24 * 3600);
    let address = server.address();
    std::thread::spawn(move || server.run());
    (folder, address)
}

/// Connects, and sends some of a request.
fn connected(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // Ends a test that would wait for ever.
    let long = Some(Duration::from_secs(120));
    stream.set_read_timeout(long).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Returns the first line of an answer.
fn status(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn clients_that_ask_nothing_keep_nobody_waiting() {
    let (_folder, address) = patient();
    let whole = format!("GET /api/v1 HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let half = format!("GET /api/v1 HTTP/1.1\r\nhost: {address}\r\n");
    let idle: Vec<TcpStream> = (0..3 * CONNECTIONS)
        .map(|n| connected(address, if n % 2 == 0 { "" } else { &half }))
        .collect();
    assert_eq!(status(connected(address, &whole)), "HTTP/1.1 200 OK");
    // The newest of them still have their connections, and are answered.
    let (oldest, newest) = idle.split_at(2 * CONNECTIONS + 1);
    for mut stream in newest {
        stream.write_all(b"x").unwrap();
    }
    for mut stream in oldest {
        let ended = stream.read(&mut [0]).map_err(|e| e.kind());
        assert!(
            matches!(ended, Ok(0) | Err(io::ErrorKind::ConnectionReset)),
            "{ended:?}"
        );
    }
    let mut last = idle.into_iter().next_back().unwrap();
    last.write_all(b": y\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(status(last), "HTTP/1.1 200 OK");
}

#[test]
fn a_range_is_bytes_from_to_or_the_last_ones() {
    assert_eq!(range("bytes=0-9", 100), Range::Part(0, 10));
    assert_eq!(range("bytes=90-", 100), Range::Part(90, 100));
    assert_eq!(range("bytes=-5", 100), Range::Part(95, 100));
    assert_eq!(range("bytes=-500", 100), Range::Part(0, 100));
    assert_eq!(range("bytes=50-500", 100), Range::Part(50, 100));
    let most = format!("bytes=0-{}", usize::MAX);
    assert_eq!(range(&most, 100), Range::Part(0, 100));
    let beyond = format!("bytes=0-{}0", usize::MAX);
    assert_eq!(range(&beyond, 100), Range::Whole);
    assert_eq!(range("bytes=100-", 100), Range::Outside);
    assert_eq!(range("bytes=-0", 100), Range::Outside);
    for whole in [
        "rows=0-1",
        "bytes=9-1",
        "bytes=a-b",
        "bytes=0-1,4-5",
        "bytes=-",
    ] {
        assert_eq!(range(whole, 100), Range::Whole, "{whole}");
    }
}
