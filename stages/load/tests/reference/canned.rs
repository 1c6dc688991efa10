//! A server that answers each request with bytes from the test, and keeps the bodies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// One received request.
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// The answer to a request: pieces written one by one, each in a separate segment.
pub(crate) type Pieces = Vec<Vec<u8>>;

pub(crate) struct Canned {
    pub(crate) url: String,
    pub(crate) asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Canned {
    /// Starts a server on a thread that lives as long as the test.
    pub(crate) fn start(answer: impl Fn(&Asked) -> Pieces + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { url, asked }
    }

    /// Returns the bodies sent to a path, in order.
    pub(crate) fn bodies(&self, path: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(p, _)| p == path)
            .map(|(_, body)| body.clone())
            .collect()
    }
}

fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<(String, Value)>>,
    answer: &dyn Fn(&Asked) -> Pieces,
) {
    stream.set_nodelay(true).unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0_u8; 4096]);
    let (head, length) = loop {
        let Ok(got) = stream.read(&mut piece) else {
            return;
        };
        if got == 0 {
            return;
        }
        bytes.extend_from_slice(&piece[..got]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some(end) = text.find("\r\n\r\n") else {
            continue;
        };
        let length = text[..end]
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .map(str::to_owned)
            })
            .map_or(0, |value| value.parse::<usize>().unwrap());
        if bytes.len() >= end + 4 + length {
            break (end + 4, length);
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&bytes[head..head + length]).unwrap_or_default();
    let asked = Asked {
        head: text,
        path,
        body,
    };
    let pieces = answer(&asked);
    log.lock().unwrap().push((asked.path, asked.body));
    for piece in pieces {
        if stream.write_all(&piece).is_err() {
            return;
        }
        std::thread::yield_now();
    }
    let _gone = stream.shutdown(Shutdown::Write);
}

/// Returns the head of an answer that ends with its connection.
pub(crate) fn head(media: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Returns a streamed chat answer with these events' data.
pub(crate) fn events(data: &[Value]) -> Pieces {
    let mut pieces = vec![head("text/event-stream")];
    pieces.extend(
        data.iter()
            .map(|value| format!("data: {value}\n\n").into_bytes()),
    );
    pieces.push(b"data: [DONE]\n\n".to_vec());
    pieces
}

/// Returns a JSON answer.
pub(crate) fn document(value: &Value) -> Pieces {
    vec![head("application/json"), value.to_string().into_bytes()]
}
