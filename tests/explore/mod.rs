//! The explorer over real stores: its answers, its access control, and that it changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::support::Project;

mod export;
mod figures;
mod history;
mod live;
mod safety;
mod study;
mod two_stages;

const GRID: &str = "/api/v1/studies/experiments~planted-grid.smoke";

/// The server of a project, which ends when this value is dropped.
struct Explorer {
    child: Child,
    /// The URL as printed.
    url: String,
    _out: BufReader<ChildStdout>,
}

impl Drop for Explorer {
    fn drop(&mut self) {
        self.child.kill().expect("it still runs");
        self.child.wait().expect("it ends");
    }
}

/// An answer.
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Explorer {
    fn of(project: &Project, arguments: &[&str]) -> Self {
        let listen = if arguments.contains(&"--listen") {
            &[][..]
        } else {
            &["--listen", "127.0.0.1:0"]
        };
        let all = ["explore"].iter().chain(arguments).chain(listen);
        let mut child = project
            .command(all)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut url = String::new();
        out.read_line(&mut url).expect("it prints its address");
        let url = url.trim().to_owned();
        Self {
            child,
            url,
            _out: out,
        }
    }

    /// Returns host and port.
    fn host(&self) -> &str {
        let rest = self.url.strip_prefix("http://").expect("an address");
        rest.split('/').next().expect("a host")
    }

    fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[("host", self.host())])
    }

    fn open(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> TcpStream {
        let port = self.host().rsplit(':').next().expect("a port");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        let mut text = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).expect("it reads");
        stream
    }

    fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(method, target, headers, "")
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut bytes = Vec::new();
        let mut stream = self.open(method, target, headers);
        stream.write_all(body.as_bytes()).expect("it reads");
        stream.read_to_end(&mut bytes).expect("it answers");
        let end = bytes
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().expect("a status").split(' ').nth(1);
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Answer {
            status: status.and_then(|s| s.parse().ok()).expect("a number"),
            headers,
            body: bytes[end + 4..].to_vec(),
        }
    }
}

/// Escapes characters with a meaning in addresses.
fn escaped(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let one = |b: u8| match plain(&b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Returns the files below a folder, with their sizes and times.
fn files(folder: &Path, times: &mut BTreeMap<String, (u64, std::time::SystemTime)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let meta = entry.metadata().expect("an entry");
        let path = entry.path().display().to_string();
        if meta.is_dir() {
            files(&entry.path(), times);
        } else if !path.ends_with("-wal") && !path.ends_with("-shm") {
            times.insert(path, (meta.len(), meta.modified().expect("a time")));
        }
    }
}

/// The first cell of the grid.
fn first_cell(explorer: &Explorer) -> String {
    let cells = explorer.get(&format!("{GRID}/cells")).json();
    let stages = cells["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|s| s["name"] == "grid").expect("a grid");
    stage["cells"][0]["at"].as_str().expect("a cell").to_owned()
}

/// Returns every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}
