use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// A server over an empty store, which waits for a request as long as the test takes.
fn patient() -> (tempfile::TempDir, SocketAddr, Arc<Shared>) {
    let folder = tempfile::tempdir().unwrap();
    let store = artifacts::Store::open(&folder.path().join("store")).unwrap();
    let site = Site::new(folder.path(), store, Box::new(|| Ok(Vec::new())));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Server::bind(Arc::new(site), address, None).unwrap();
    let shared = Arc::get_mut(&mut server.shared).expect("not yet shared");
    shared.patience = Duration::from_secs(24 * 3600);
    let (address, shared) = (server.address(), Arc::clone(&server.shared));
    std::thread::spawn(move || server.run());
    (folder, address, shared)
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
    let (_folder, address, _) = patient();
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
fn long_questions_take_turns_and_keep_nobody_else_waiting() {
    let (_folder, address, shared) = patient();
    let ask = |target: &str| {
        let rest = format!("HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        connected(address, &format!("GET /api/v1/{target} {rest}"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    // Somebody's query takes long.
    let first = runtime.block_on(shared.turns.take()).unwrap();
    let long = ["sql?query=select+1", "history?table=a", "compare?with=b"];
    let waiting: Vec<TcpStream> = (0..crate::turns::WAITING)
        .map(|n| ask(&format!("studies/none/{}", long[n % long.len()])))
        .collect();
    // Whoever comes last is refused, in whatever order the server reads the requests. All others are answered.
    let further: Vec<TcpStream> = (0..3).map(|_| ask("studies/none/sql?query=x")).collect();
    for page in ["openapi.json", "studies", "runs"] {
        assert_eq!(status(ask(page)), "HTTP/1.1 200 OK", "{page}");
    }
    let all: Vec<TcpStream> = waiting.into_iter().chain(further).collect();
    let refused = "HTTP/1.1 503 Service Unavailable";
    let answered = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let ready = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        ready
    };
    let (early, late): (Vec<TcpStream>, Vec<TcpStream>) = all.into_iter().partition(answered);
    assert_eq!(early.len(), 3);
    for stream in early {
        assert_eq!(status(stream), refused);
    }
    drop(first);
    for stream in late {
        assert_eq!(status(stream), "HTTP/1.1 404 Not Found");
    }
}

#[test]
fn a_question_whose_client_has_left_gives_up_its_place() {
    let (_folder, address, shared) = patient();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let _first = runtime.block_on(shared.turns.take()).unwrap();
    let sql = format!("GET /api/v1/studies/none/sql HTTP/1.1\r\nhost: {address}\r\n\r\n");
    for _ in 0..3 * crate::turns::WAITING {
        let gone = connected(address, &sql);
        while shared.turns.waiting() == 0 {
            std::thread::yield_now();
        }
        drop(gone);
        while shared.turns.waiting() > 0 {
            std::thread::yield_now();
        }
    }
    // A query that runs ends, too.
    let client = Client::default();
    let left = client.left();
    assert!(!left.load(std::sync::atomic::Ordering::Relaxed));
    drop(client);
    assert!(left.load(std::sync::atomic::Ordering::Relaxed));
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
