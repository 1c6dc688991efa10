//! A load on several servers: the server of each request, and the tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use artifacts::Table;
use contract::{Api, Request, RequestStatus};
use load::reference::{Behaviour, ReferenceServer};
use load::{
    DirectServer, Ending, LoadFiles, LoadSpec, LoadedServer, Monitoring, Origin, ServerCount,
    Settings, Target, TargetError, Telemetry, run_load_into, target_in_turn,
};
use pipeline::stage::{Control, Coordinates};
use serde_json::json;

use crate::common::{Run, closed};

fn with_ttft(ms: u64) -> ReferenceServer {
    ReferenceServer::start(Behaviour {
        ttft: Duration::from_millis(ms),
        ..Behaviour::default()
    })
    .unwrap()
}

fn target(urls: &[String]) -> Target {
    let server = |(place, url): (usize, &String)| LoadedServer {
        name: format!("server-{place}"),
        base_url: url.clone(),
    };
    Target::new(urls[0].clone(), "reference", Api::OpenaiCompletions)
        .in_turn(urls.iter().enumerate().map(server).collect())
}

/// Sends a load; returns its output, its rows, and the server of each request by name.
fn sent(
    spec: &LoadSpec,
    target: &Target,
    folder: &Path,
) -> (LoadFiles, Vec<Request>, BTreeMap<i64, String>) {
    let mut target = target.clone();
    let mut monitoring = Monitoring::new(Telemetry::none());
    monitoring.apart(&mut target);
    let mut rows = Vec::new();
    let watch = &mut |row: &Request, _: &[contract::Chunk]| {
        rows.push(row.clone());
        Ok(())
    };
    let files =
        run_load_into(spec, &target, &monitoring, folder, &Control::quiet(), watch).unwrap();
    let table = |name: &str| {
        let file = files.tables.iter().find(|table| table.name == name);
        let bytes = std::fs::read(&file.unwrap_or_else(|| panic!("no {name}")).path).unwrap();
        Table::from_parquet(bytes).unwrap()
    };
    let turns = table("request_servers");
    let ids = turns.int("request_id").unwrap();
    let names = turns.text("server").unwrap();
    let servers = ids.iter().zip(&names);
    let servers = servers.map(|(id, name)| (id.unwrap(), name.unwrap().to_owned()));
    let servers: BTreeMap<i64, String> = servers.collect();
    assert_eq!(servers.len(), turns.rows());
    let members = table("members");
    assert!(
        members
            .boolean("loaded")
            .unwrap()
            .iter()
            .all(|loaded| *loaded == Some(true))
    );
    (files, rows, servers)
}

#[test]
fn two_servers_get_the_requests_in_turn_and_each_row_shows_the_time_of_its_own() {
    let (slow, fast) = (with_ttft(120), with_ttft(0));
    let run = Run {
        requests: 10,
        warmup: 3,
        arrival: closed(4),
        ..Run::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&[slow.url(), fast.url()]);
    let (files, rows, servers) = sent(&run.spec(), &target, folder.path());
    assert_eq!(files.ending, Ending::Complete);
    // Two of the three warm-up requests, and five of ten measured ones. Each server answered the requests that its rows
    // state.
    assert_eq!((slow.truth(7).len(), fast.truth(6).len()), (7, 6));
    let digests = |truths: Vec<load::reference::Truth>| {
        let mut digests: Vec<String> = truths.into_iter().map(|t| t.prompt_digest).collect();
        digests.sort();
        digests
    };
    for (server, name) in [(&slow, "server-0"), (&fast, "server-1")] {
        let own = rows.iter().filter(|row| servers[&row.request_id] == name);
        let mut own: Vec<String> = own.filter_map(|row| row.prompt_digest.clone()).collect();
        own.sort();
        let answered = server.truth(own.len());
        assert!(answered.iter().all(|truth| {
            let head = String::from_utf8_lossy(&truth.request).to_lowercase();
            let host = server.url().replace("http://", "");
            head.contains(&format!("host: {host}"))
        }));
        assert_eq!(digests(answered), own, "{name}");
    }
    for row in &rows {
        let ttft_ms = (row.first_token_ns.unwrap() - row.sent_ns.unwrap()) / 1_000_000;
        // A waiting server cannot answer sooner. How late the other one is depends on the machine.
        assert!(
            servers[&row.request_id] == "server-1" || ttft_ms >= 120,
            "{ttft_ms}"
        );
    }
    let measured: Vec<&str> = (3..13).map(|id| servers[&id].as_str()).collect();
    assert_eq!(measured, ["server-0", "server-1"].repeat(5));
    let count = |server: &str| ServerCount {
        server: server.to_owned(),
        requests: 5,
        ok: 5,
    };
    assert_eq!(files.servers, [count("server-0"), count("server-1")]);
    // Each client keeps at most one connection to each server.
    assert!(
        (4..=8).contains(&files.cell.connections),
        "{}",
        files.cell.connections
    );
}

#[test]
fn all_turns_of_a_session_go_to_one_server() {
    let servers = [with_ttft(0), with_ttft(0)];
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 6}},
            "sessions": {"turns": 2},
            "output": {"tokens": 3},
        },
        "arrival": {"closed-loop": {"clients": 2}},
        "sessions": 4,
    }))
    .unwrap();
    let origin = Origin {
        seed: 7,
        replicate: Coordinates::default(),
    };
    let spec = LoadSpec::new(settings, origin).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = Target {
        api: Api::OpenaiChat,
        ..target(&servers.each_ref().map(ReferenceServer::url))
    };
    let (_, rows, turns) = sent(&spec, &target, folder.path());
    assert!(rows.iter().all(|row| row.status == RequestStatus::Ok));
    let names: Vec<&str> = turns.values().map(String::as_str).collect();
    let [a, b] = ["server-0", "server-1"];
    assert_eq!(names, [a, a, b, b, a, a, b, b]);
    assert_eq!(servers.each_ref().map(|s| s.truth(4).len()), [4, 4]);
}

#[test]
fn a_server_that_dies_is_named_and_ends_the_run() {
    let (alive, dead) = (with_ttft(0), with_ttft(0).url());
    let run = Run {
        requests: 400,
        ..Run::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&[alive.url(), dead.clone()]);
    let (files, rows, servers) = sent(&run.spec(), &target, folder.path());
    assert_eq!(files.ending, Ending::Gone(1));
    assert_eq!(target.name_of(1), format!("server-1 at {dead}"));
    // The other server answered to the end. Its successes do not hide that this one is gone.
    assert!(
        files.servers[0].ok >= 4 && files.servers[1].ok == 0,
        "{:?}",
        files.servers
    );
    assert!(rows.len() < 100);
    let refused = rows
        .iter()
        .filter(|row| row.status == RequestStatus::Refused);
    assert!(refused.clone().count() >= 6);
    assert!(
        refused
            .clone()
            .all(|row| servers[&row.request_id] == "server-1")
    );
}

fn direct(url: &str) -> DirectServer<'_> {
    DirectServer {
        url,
        ca_file: None,
        model: None,
        api: Api::OpenaiCompletions,
        api_key: None,
        metrics: None,
        headers: &[],
    }
}

#[test]
fn servers_that_cannot_be_loaded_together_are_named_by_their_urls() {
    let (one, two) = (with_ttft(0), with_ttft(0));
    let (a, b) = (one.url(), two.url());
    let both = target_in_turn(&direct(&a), &[&b]).unwrap();
    assert_eq!(both.servers.len(), 2);
    assert_eq!(target_in_turn(&direct(&a), &[]).unwrap().servers, []);
    let (url, error) = target_in_turn(&direct(&a), &[&b, &format!("{a}/v1/")]).unwrap_err();
    assert!(matches!(error, TargetError::Twice(_)), "{error}");
    assert_eq!(url, format!("{a}/v1/"));
    let secure = a.replace("http://", "https://");
    let (_, error) = target_in_turn(&direct(&a), &[&secure]).unwrap_err();
    assert!(matches!(error, TargetError::Schemes(..)), "{error}");
    let gone = with_ttft(0).url();
    let (url, error) = target_in_turn(&direct(&a), &[&gone]).unwrap_err();
    assert!(matches!(error, TargetError::Unreachable(..)), "{error}");
    assert_eq!(url, gone);
    let other = crate::canned::Canned::start(|_| {
        crate::canned::document(&json!({"object": "list", "data": [{"id": "another"}]}))
    });
    let (_, error) = target_in_turn(&direct(&a), &[&other.url]).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("lists the models another, and not `"),
        "{message}"
    );
}
