//! A stub of a bucket's server for tests: names and bytes in memory, behind the few S3 requests that a shared store
//! makes. It checks no signatures, and can be configured to misbehave. The lane `tests/s3/run` uses a real server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The behaviour of the stub.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// Answers every request with this status and document.
    pub(crate) refuses: Option<(u16, String)>,
    /// Answers puts with this status and document.
    pub(crate) refuses_puts: Option<(u16, String)>,
    /// Ignores `If-None-Match`.
    pub(crate) ignores_conditions: bool,
    /// Returns empty lists.
    pub(crate) lists_nothing: bool,
    /// The number of puts to cut off after reading them. Every second put is cut, alternately before and after it took
    /// effect.
    pub(crate) cuts: u32,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    behaviour: Behaviour,
    puts: u32,
    /// The methods and paths of the requests.
    requests: Vec<String>,
}

/// A bucket server in this process.
#[derive(Clone, Debug)]
pub(crate) struct StubBucket {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

/// A request, as parsed by the stub.
struct Request {
    method: String,
    path: String,
    query: String,
    conditional: bool,
    body: Vec<u8>,
}

impl StubBucket {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(client, &state));
            }
        });
        Self { endpoint, state }
    }

    pub(crate) fn behaves(&self, behaviour: Behaviour) {
        self.state.lock().expect("the state").behaviour = behaviour;
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().expect("the state").requests.clone()
    }

    /// Returns the names in the bucket that start with a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let state = self.state.lock().expect("the state");
        let names = state.objects.keys().filter(|name| name.starts_with(prefix));
        names.cloned().collect()
    }

    /// Returns everything in the bucket as one text.
    pub(crate) fn text(&self) -> String {
        let state = self.state.lock().expect("the state");
        let all = state
            .objects
            .values()
            .map(|b| String::from_utf8_lossy(b).into_owned());
        all.collect::<Vec<_>>().join("\n")
    }

    /// Changes a byte of an object.
    pub(crate) fn damage(&self, name: &str) {
        let mut state = self.state.lock().expect("the state");
        state.objects.get_mut(name).expect("it is there")[0] ^= 1;
    }
}

fn serve(client: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(client.try_clone().expect("a socket"));
    let mut client = client;
    while let Some(request) = read(&mut reader) {
        let Some((status, body)) = answer(&request, &mut state.lock().expect("the state")) else {
            return;
        };
        let length = match request.method.as_str() {
            "HEAD" => format!("content-length: {}\r\n", body.len()),
            _ => format!(
                "content-length: {}\r\ncontent-type: application/xml\r\n",
                body.len()
            ),
        };
        let head = format!(
            "HTTP/1.1 {status} Said\r\n{length}etag: \"0\"\r\nlast-modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n\r\n"
        );
        let body: &[u8] = if request.method == "HEAD" { &[] } else { &body };
        if client.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut conditional) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|n| *n > 0)?;
        let header = header.trim().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        conditional |= header.starts_with("if-none-match:");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request {
        method,
        path: path.trim_start_matches('/').to_owned(),
        query: query.to_owned(),
        conditional,
        body,
    })
}

/// Returns the status and the body of the answer; `None` to cut the connection.
fn answer(request: &Request, state: &mut State) -> Option<(u16, Vec<u8>)> {
    state
        .requests
        .push(format!("{} {}", request.method, request.path));
    let behaviour = &mut state.behaviour;
    let is_put = request.method == "PUT";
    let refused = behaviour.refuses_puts.as_ref().filter(|_| is_put);
    if let Some((status, document)) = behaviour.refuses.as_ref().or(refused) {
        return Some((*status, document.clone().into_bytes()));
    }
    state.puts += u32::from(is_put);
    let cut = is_put && behaviour.cuts > 0 && state.puts % 2 == 1;
    behaviour.cuts -= u32::from(cut);
    if cut && behaviour.cuts.is_multiple_of(2) {
        return None;
    }
    let (ignores, hides) = (behaviour.ignores_conditions, behaviour.lists_nothing);
    let missing = || Some((404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()));
    match request.method.as_str() {
        "PUT" => {
            let taken = state.objects.contains_key(&request.path);
            if taken && request.conditional && !ignores {
                return Some((
                    412,
                    b"<Error><Code>PreconditionFailed</Code></Error>".to_vec(),
                ));
            }
            state
                .objects
                .insert(request.path.clone(), request.body.clone());
            match cut {
                true => None,
                false => Some((200, Vec::new())),
            }
        }
        "GET" if request.query.contains("list-type=2") => {
            Some((200, list(request, state, hides).into_bytes()))
        }
        "GET" | "HEAD" => match state.objects.get(&request.path) {
            Some(bytes) => Some((200, bytes.clone())),
            None => missing(),
        },
        _ => Some((501, b"<Error><Code>NotImplemented</Code></Error>".to_vec())),
    }
}

fn list(request: &Request, state: &State, hides: bool) -> String {
    let prefix = request
        .query
        .split('&')
        .find_map(|pair| pair.strip_prefix("prefix="));
    let prefix = prefix.unwrap_or_default().replace("%2F", "/");
    let bucket = request.path.trim_end_matches('/');
    let names = state.objects.iter().filter_map(|(name, bytes)| {
        let name = name.strip_prefix(bucket)?.trim_start_matches('/');
        let shown = !hides && name.starts_with(&prefix);
        shown.then(|| {
            format!(
                "<Contents><Key>{name}</Key><LastModified>2026-11-23T00:00:00.000Z</LastModified><ETag>0</ETag>\
                 <Size>{}</Size></Contents>",
                bytes.len()
            )
        })
    });
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{}</ListBucketResult>",
        names.collect::<String>()
    )
}
