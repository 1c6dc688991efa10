//! Starts and stops processes that imitate an engine: every way a start can fail.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pipeline::process::group_members;
use pipeline::{CellStatus, Control, Done, Failure, Input, Json, Output, StageKind};
use serde_json::json;
use serve::Serve;
use support::{Bench, text};

fn main() -> ExitCode {
    support::main(&[
        (
            "a_server_is_ready_described_checked_and_stopped_with_its_whole_group",
            whole_life,
        ),
        (
            "an_engine_that_dies_at_the_start_is_reported_with_its_log",
            dies_at_start,
        ),
        (
            "an_engine_that_dies_later_is_noticed_by_the_check",
            dies_later,
        ),
        (
            "an_engine_that_refuses_connections_after_a_cell_is_no_living_engine",
            deaf_after_use,
        ),
        (
            "an_engine_that_is_never_ready_is_stopped_and_reported",
            never_ready,
        ),
        (
            "an_engine_that_lives_on_after_a_known_failure_is_not_waited_for",
            lives_on_after_a_failure,
        ),
        (
            "an_engine_that_answers_500_for_a_while_is_waited_for",
            recovers,
        ),
        ("a_program_that_does_not_exist_is_reported", no_program),
        (
            "a_router_without_the_servers_behind_it_is_reported_while_planning",
            lonely_router,
        ),
        (
            "a_wrong_setting_is_reported_before_anything_starts",
            wrong_setting,
        ),
        ("a_port_somebody_else_took_leads_to_another_one", port_taken),
        ("a_stopped_study_stops_the_start", interrupted),
        ("an_engine_sees_only_the_variables_declared", environment),
        (
            "a_lease_dropped_without_release_stops_the_engine_too",
            dropped,
        ),
        ("a_server_already_running_is_used_and_left_alone", attached),
        (
            "the_facts_of_a_running_server_are_described_and_missing_ones_are_reported_before_any_load",
            facts_of_running,
        ),
        (
            "a_provision_cell_that_failed_skips_the_server",
            no_provision,
        ),
        (
            "settings_no_engine_has_are_refused_while_planning",
            early_errors,
        ),
        (
            "a_setting_that_the_engine_lacks_is_reported_with_the_name_of_the_engine",
            lacking_setting,
        ),
        (
            "members_with_gpus_of_their_own_start_side_by_side_and_others_after_them",
            side_by_side,
        ),
        (
            "an_exporter_at_the_second_port_gets_the_port_of_this_start",
            second_port,
        ),
        (
            "a_member_that_fails_stops_those_that_start_beside_it",
            fails_beside_others,
        ),
    ])
}

/// Answers what readiness asks, with the model `name`. The scripts below begin with it.
const HANDLER: &str = r#"
import http.server, json, os, signal, subprocess, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer({"data": [{"id": name}]} if self.path == "/v1/models" else {"slots": 2})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}})
"#;

/// Imitates an engine: serves what readiness needs, has its own child, and ignores SIGTERM like a
/// server that waits for its streams.
const STUB: &str = r#"
port, name, first = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if first != "-" and not os.path.exists(first):
    open(first, "w").close()
    print("0.01 E srv: couldn't bind HTTP server socket", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "3600"])
print("variables:", ",".join(sorted(os.environ)), flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

fn script(body: &str) -> String {
    [HANDLER, body].concat()
}

fn stub(first: &str) -> Json {
    json!({
        "title": "Stub", "version": "1.0",
        "launch": {
            "program": {"installed": "python3"},
            "arguments": ["-c", script(STUB), "{port}", "{model-name}", first],
            "environment": {"DECLARED": "{model-name}"},
        },
        "settings": {"slots": {"type": "integer", "default": 2, "min": 1, "flags": ["--slots", "{}"]}},
        "limits": {"slots": {"path": "/props", "pointer": "/slots", "setting": "slots"}},
        "stop": {"grace-s": 0.1},
    })
}

fn shell(script: &str) -> Json {
    json!({
        "title": "Shell", "version": "1.0", "ready": {"timeout-s": 1}, "log": {"errors": [" E "], "aftermath": ["shard 0 failed"]},
        "launch": {"program": {"installed": "sh"}, "arguments": ["-c", script, "{port}"]},
    })
}

/// Imitates an engine that writes its steps to a file. It serves after it has seen what it waits for in that file.
const MEMBER: &str = r#"
port, path, name = int(sys.argv[1]), sys.argv[2], "tiny"
gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
def say(step):
    with open(path, "a") as file:
        file.write(f"{step} {gpus}\n")
say("starts")
while not eval(os.environ["WAITS"], {"said": open(path).read(), "gpus": gpus}):
    time.sleep(0.01)
server = http.server.HTTPServer(("127.0.0.1", port), Handler)
say("serves")
server.serve_forever()
"#;

/// Starts four members, the last two on the GPUs of the first two. Returns the steps that they wrote.
fn four_members(bench: &Bench, waits: &str) -> (Result<Done, Failure>, String) {
    let path = bench.folder.path().join("steps");
    std::fs::write(&path, "").unwrap();
    let definition = json!({
        "title": "Member", "version": "1.0", "stop": {"grace-s": 0.1},
        "launch": {
            "program": {"installed": "python3"},
            "arguments": ["-c", script(MEMBER), "{port}", path.to_str().unwrap()],
            "environment": {"WAITS": waits},
        },
    });
    let roles = json!({"server": {"count": 4, "gpus": ["0", "1,2", "2, 0", "1"]}});
    let input = environment_of(bench, &definition);
    let control = Control::quiet();
    let parameters = json!({"settings": {}, "roles": roles});
    let done = bench.run(&serve(), &parameters, &[input], &control);
    (done, std::fs::read_to_string(path).unwrap())
}

fn side_by_side() {
    let bench = Bench::new();
    // Each waits for the start of the one beside it: one after the other, they would wait for ever.
    let waits = "said.count('starts') >= (2 if gpus in ('0', '1,2') else 4)";
    let (done, steps) = four_members(&bench, waits);
    let mut done = done.unwrap();
    let steps: Vec<&str> = steps.lines().collect();
    let (first, second) = steps.split_at(4);
    let sorted = |steps: &[&str]| {
        let mut steps = steps.to_vec();
        steps.sort_unstable();
        steps.join(", ")
    };
    assert_eq!(sorted(first), "serves 0, serves 1,2, starts 0, starts 1,2");
    assert_eq!(
        sorted(second),
        "serves 1, serves 2, 0, starts 1, starts 2, 0"
    );
    let live = done.lease.as_ref().unwrap().live().clone();
    let members: Vec<Json> = live["members"].as_array().unwrap().clone();
    let pairs = members.iter().map(|m| (&m["name"], &m["gpus"]));
    let pairs = json!(pairs.collect::<Vec<_>>());
    assert_eq!(
        pairs,
        json!([
            ["server-0", "0"],
            ["server-1", "1,2"],
            ["server-2", "2, 0"],
            ["server-3", "1"]
        ])
    );
    assert_eq!(bench.leases(), 4);
    done.lease.take().unwrap().release();
    assert_eq!(bench.leases(), 0);
}

fn second_port() {
    let bench = Bench::new();
    let mut definition = stub("-");
    definition["launch"]["arguments"]
        .as_array_mut()
        .unwrap()
        .push(json!("{side-port}"));
    definition["exporters"] =
        json!({"own": {"url": "http://{host}:{side-port}/metrics", "tells": "metrics"}});
    let exporters = |live: &Json| {
        let port = |url: &str| {
            url.trim_start_matches("http://127.0.0.1:")
                .split('/')
                .next()
                .unwrap()
                .parse::<u16>()
                .unwrap()
        };
        let ports = [&live["exporters"]["own"]["url"], &live["base_url"]]
            .map(|url| port(url.as_str().unwrap()));
        assert!(
            live["exporters"]["own"]["url"]
                .as_str()
                .unwrap()
                .ends_with("/metrics"),
            "{live}"
        );
        assert_ne!(ports[0], ports[1], "{live}");
    };
    let mut done = run(&bench, &definition).unwrap();
    exporters(done.lease.as_ref().unwrap().live());
    done.lease.take().unwrap().release();
    // In a group, those of members that get no load are named after the member.
    let roles = json!({"front": {"count": 1}, "back": {"count": 1}});
    let input = environment_of(&bench, &definition);
    let parameters = json!({"settings": {}, "roles": roles, "load": "front"});
    let mut done = bench
        .run(&serve(), &parameters, &[input], &Control::quiet())
        .unwrap();
    let live = done.lease.as_ref().unwrap().live().clone();
    exporters(&live);
    let names: Vec<&String> = live["exporters"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["back-0.own", "own"]);
    done.lease.take().unwrap().release();
}

fn fails_beside_others() {
    let bench = Bench::new();
    // The second ends once the first has started, which would wait for ever.
    let waits = "gpus == '1,2' and 'starts 0' in said and 1 / 0";
    let (done, steps) = four_members(&bench, waits);
    let failure = done.err().unwrap();
    assert!(
        failure.reason.starts_with("`server-1`: the engine exited"),
        "{failure}"
    );
    assert!(failure.reason.contains("ZeroDivisionError"), "{failure}");
    assert_eq!(steps.matches("starts").count(), 2, "{steps}");
    assert_eq!(bench.leases(), 0);
}

fn serve() -> Serve {
    Serve::through(std::env::current_exe().unwrap())
}

fn environment_of(bench: &Bench, definition: &Json) -> Input {
    let program = definition["launch"]["program"]["installed"]
        .as_str()
        .into_iter();
    let environment = json!({
        "engine": {"name": "stub", "version": "1.0", "definition": definition},
        "model": {"name": "tiny", "sha256": null},
        "facets": {"cpu_model": "fake"},
    });
    let live =
        json!({"bin": program.collect::<Vec<_>>(), "packages": null, "model_path": "/nowhere"});
    bench.input(
        "provision",
        &[Output::json("environment", &environment)],
        live,
    )
}

fn try_run(
    bench: &Bench,
    definition: &Json,
    settings: &Json,
    control: &Control,
) -> Result<Done, Failure> {
    let input = environment_of(bench, definition);
    bench.run(&serve(), &json!({"settings": settings}), &[input], control)
}

fn run(bench: &Bench, definition: &Json) -> Result<Done, Failure> {
    try_run(bench, definition, &json!({}), &Control::quiet())
}

fn group(done: &Done) -> u32 {
    let pid = done.lease.as_ref().unwrap().live()["pid"].as_u64().unwrap();
    u32::try_from(pid).unwrap()
}

fn is_empty(group: u32) -> bool {
    group_members(group).unwrap().is_empty()
}

fn whole_life() {
    let bench = Bench::new();
    let mut done = run(&bench, &stub("-")).unwrap();
    assert_eq!(bench.leases(), 1);
    let descriptor = support::json(&done, "server");
    let live = done.lease.as_ref().unwrap().live().clone();
    let port = live["base_url"]
        .as_str()
        .unwrap()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(descriptor["settings"], json!({"slots": 2}));
    assert_eq!(descriptor["limits"], json!({"slots": 2}));
    assert_eq!(descriptor["facets"]["cpu_model"], "fake");
    assert!(
        descriptor["command"]["arguments"]
            .as_array()
            .unwrap()
            .contains(&json!("{port}"))
    );
    let shown = descriptor.to_string();
    assert!(
        !shown.contains(&port) && !shown.contains(bench.folder.path().to_str().unwrap()),
        "{shown}"
    );
    let mut lease = done.lease.take().unwrap();
    lease.check().unwrap();
    let group = u32::try_from(live["pid"].as_u64().unwrap()).unwrap();
    assert_eq!(
        group_members(group).unwrap().len(),
        2,
        "the stub and its own child"
    );
    let left = lease.release();
    assert!(is_empty(group));
    assert_eq!(bench.leases(), 0);
    assert!(left[0].name == "log" && text(&left[0]).contains("variables:"));
}

fn dies_at_start() {
    let bench = Bench::new();
    // The launcher of an engine reports that a part failed after the part has given the cause.
    let script =
        "echo '0.1 E load: no such model'; echo cleaning up; echo '0.2 E shard 0 failed'; exit 3";
    let failure = run(&bench, &shell(script)).err().unwrap();
    assert_eq!(
        failure.reason,
        "the engine exited (exit status: 3); its log says: 0.1 E load: no such model"
    );
    assert_eq!(
        text(&failure.evidence[0]),
        "0.1 E load: no such model\ncleaning up\n0.2 E shard 0 failed\n"
    );
    assert_eq!(bench.leases(), 0);
}

fn dies_later() {
    let bench = Bench::new();
    let mut done = run(&bench, &stub("-")).unwrap();
    pipeline::process::kill_group(group(&done), Duration::ZERO).unwrap();
    let failure = done.lease.as_mut().unwrap().check().unwrap_err();
    assert!(
        failure.reason.starts_with("the engine exited (signal: 9"),
        "{failure}"
    );
    assert_eq!(failure.evidence.len(), 1);
}

fn deaf_after_use() {
    let bench = Bench::new();
    let mut done = run(&bench, &stub("-")).unwrap();
    let group = group(&done);
    let lease = done.lease.as_mut().unwrap();
    lease.check_after_use().unwrap();
    // It dies during the check, like a process whose memory is being dumped.
    let end = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        pipeline::process::kill_group(group, Duration::ZERO)
    });
    let failure = loop {
        if let Err(failure) = lease.check_after_use() {
            break failure;
        }
    };
    end.join().unwrap().unwrap();
    assert!(
        failure.reason.starts_with("the engine exited (signal: 9"),
        "{failure}"
    );
}

fn never_ready() {
    let bench = Bench::new();
    let pid_file = bench.folder.path().join("pid");
    let script = format!(
        "echo $$ > {}; echo still loading; sleep 3600",
        pid_file.display()
    );
    let failure = run(&bench, &shell(&script)).err().unwrap();
    assert!(
        failure
            .reason
            .starts_with("Shell was not ready within 1 s (/health: "),
        "{failure}"
    );
    assert!(
        failure.reason.ends_with("; its log says: still loading"),
        "{failure}"
    );
    let pid: u32 = std::fs::read_to_string(pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(is_empty(pid));
}

/// A stub that answers 500 to the first request for a token, and to the following ones if `again`.
fn failing_stub(again: bool, line: &str) -> Json {
    let failing = script(STUB).replace(
        "    def do_POST(self):\n",
        &format!(
            "    failed = 0\n    def do_POST(self):\n        \
             if not Handler.failed or {}:\n            \
             Handler.failed = 1\n            \
             print('allocation of 1 GB failed', flush=True)\n            \
             return self.send_error(500, 'cannot load')\n",
            if again { "True" } else { "False" }
        ),
    );
    let mut definition = stub("-");
    definition["launch"]["arguments"][1] = json!(failing);
    definition["ready"] = json!({"timeout-s": 600});
    definition["log"] = json!({"failures": {
        "memory": {"line": line, "hint": "take a smaller model"},
    }});
    definition
}

fn lives_on_after_a_failure() {
    let bench = Bench::new();
    let failure = run(&bench, &failing_stub(true, "allocation of .* failed"))
        .err()
        .unwrap();
    assert!(
        failure
            .reason
            .starts_with("Stub runs, but /v1/completions answered 500: "),
        "{failure}"
    );
    assert_eq!(failure.hint.as_deref(), Some("take a smaller model"));
    assert_eq!(bench.leases(), 0);
}

fn recovers() {
    let bench = Bench::new();
    let done = run(&bench, &failing_stub(false, "no such line")).unwrap();
    drop(done.lease.unwrap().release());
}

fn no_program() {
    let bench = Bench::new();
    let mut definition = shell("");
    definition["launch"]["program"]["installed"] = json!("/no/such/program");
    let failure = run(&bench, &definition).err().unwrap();
    assert!(failure.reason.contains("/no/such/program"), "{failure}");
}

fn wrong_setting() {
    let bench = Bench::new();
    let failure = try_run(&bench, &stub("-"), &json!({"slot": 2}), &Control::quiet())
        .err()
        .unwrap();
    assert_eq!(
        failure.reason,
        "Stub cannot be started: the engine has no setting `slot`"
    );
    assert_eq!(failure.hint.as_deref(), Some("did you mean `slots`?"));
    assert!(
        !bench.folder.path().join("scratch").exists(),
        "something was started"
    );
}

fn port_taken() {
    let bench = Bench::new();
    let first = bench.folder.path().join("first");
    let done = run(&bench, &stub(first.to_str().unwrap())).unwrap();
    assert!(first.exists());
    drop(done);
}

fn interrupted() {
    let bench = Bench::new();
    let control = Control::new(Arc::new(AtomicBool::new(true)), None, Box::new(|_| ()));
    let failure = try_run(&bench, &shell("sleep 3600"), &json!({}), &control)
        .err()
        .unwrap();
    assert_eq!(failure.status, CellStatus::Interrupted);
    assert_eq!(bench.leases(), 0);
    let late = Control::new(Arc::default(), Some(Duration::ZERO), Box::new(|_| ()));
    let failure = try_run(&bench, &shell("sleep 3600"), &json!({}), &late)
        .err()
        .unwrap();
    assert_eq!(
        (failure.status, failure.evidence.len()),
        (CellStatus::Timeout, 1)
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "an engine must not inherit cargo's variables"
)]
fn environment() {
    let bench = Bench::new();
    let done = run(&bench, &stub("-")).unwrap();
    let log = text(&done.lease.unwrap().release()[0]);
    let line = log
        .lines()
        .find_map(|l| l.strip_prefix("variables: "))
        .unwrap();
    // Cargo sets many variables for the test itself; wrappers of Python may add their own.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO_")));
    assert!(!line.contains("CARGO_"), "{line}");
    assert!(line.contains("DECLARED"));
}

fn dropped() {
    let bench = Bench::new();
    let done = run(&bench, &stub("-")).unwrap();
    let group = group(&done);
    drop(done);
    assert!(is_empty(group));
    assert_eq!(bench.leases(), 0);
}

fn attached() {
    let (bench, other) = (Bench::new(), Bench::new());
    let running = run(&bench, &stub("-")).unwrap();
    let url = running.lease.as_ref().unwrap().live()["base_url"].clone();
    let definition =
        json!({"title": "Found", "version": "1.0", "launch": {"program": {"running": url}}});
    let mut done = run(&other, &definition).unwrap();
    assert_eq!(done.lease.as_ref().unwrap().live()["model"], "tiny");
    assert!(!support::json(&done, "server").to_string().contains("pid"));
    let mut lease = done.lease.take().unwrap();
    lease.check().unwrap();
    assert!(lease.release().is_empty());
    assert!(
        !is_empty(group(&running)),
        "a server that is not ours was stopped"
    );
}

fn facts_of_running() {
    let bench = Bench::new();
    let running = run(&bench, &stub("-")).unwrap();
    let url = running.lease.as_ref().unwrap().live()["base_url"]
        .as_str()
        .unwrap()
        .to_owned();
    let attach = |change: &Json| {
        let mut definition =
            json!({"title": "Found", "version": "2", "launch": {"program": {"running": url}}});
        for (key, value) in change.as_object().unwrap() {
            definition[key] = value.clone();
        }
        run(&Bench::new(), &definition)
    };
    let error = attach(&json!({
        "probe": {"version": {"path": "/version", "pointer": "/slots"},
                  "model": {"path": "/v1/models", "pointer": "/data/0/id"}},
        "facts": {"settings": {"tensor-parallel": 8}, "host": {"gpus": "8 x H100"}},
    }))
    .unwrap();
    let descriptor = support::json(&error, "server");
    assert_eq!(descriptor["probed"], json!({"version": 2, "model": "tiny"}));
    assert_eq!(
        descriptor["declared_settings"],
        json!({"tensor-parallel": 8})
    );

    let wrong = |change: Json| {
        let failure = attach(&change).err().unwrap();
        format!("{} / {}", failure.reason, failure.hint.unwrap_or_default())
    };
    let version =
        json!({"probe": {"version": {"path": "/version", "pointer": "/slots"}}, "version": "3.1"});
    assert_eq!(
        wrong(version),
        "Found 3.1 is declared, but the server reports 2 / write `version: \"2\"` in the \
         engine's definition, or start version 3.1"
    );
    let nothing = json!({"probe": {"context": {"path": "/props", "pointer": "/n_ctx"}}});
    assert!(wrong(nothing).starts_with(
        "the probe `context` of Found: /props has nothing at `/n_ctx`: `{\"slots\": 2}`"
    ));
    let exporter =
        json!({"exporters": {"gpus": {"url": format!("{url}/metrics"), "tells": "dcgm"}}});
    assert!(wrong(exporter).contains("has no metric that begins with `DCGM_FI_DEV_`"));
    // The stub answers any GET and any POST with 200. So a server without any path imitates one
    // that lacks a path.
    let bare = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", bare.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in bare.incoming() {
            let mut stream = stream.unwrap();
            let _head = stream.read(&mut [0; 1024]);
            let _gone = stream
                .write_all(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let launch = json!({"program": {"running": address}});
    let health = wrong(json!({ "launch": launch }));
    assert!(
        health.contains("/health answered 404") && health.contains("{health: null}"),
        "{health}"
    );
    let models = wrong(json!({"launch": launch, "endpoints": {"health": null}}));
    assert!(models.contains("/v1/models answered 404"), "{models}");
    let api = wrong(
        json!({"launch": launch, "api": "openai-chat", "endpoints": {"health": null, "models": null}}),
    );
    assert!(
        api.contains("/v1/chat/completions answered 404")
            && api.contains("it does not speak `openai-chat` there"),
        "{api}"
    );
}

fn no_provision() {
    let bench = Bench::new();
    let failure = bench
        .run(&serve(), &json!({"settings": {}}), &[], &Control::quiet())
        .err()
        .unwrap();
    assert_eq!(
        failure.hint.as_deref(),
        Some("add it to the stage's `needs`")
    );
    let mut input = bench.input("provision", &[], Json::Null);
    input.cells[0].status = CellStatus::Failed;
    input.cells[0].reason = Some("no network".into());
    let failure = bench
        .run(
            &serve(),
            &json!({"settings": {}}),
            &[input],
            &Control::quiet(),
        )
        .err()
        .unwrap();
    assert_eq!(
        (failure.status, failure.reason.as_str()),
        (CellStatus::Skipped, "`provision` is failed: no network")
    );
}

/// A library with one engine, `stub`.
struct One(Json);
impl pipeline::Library for One {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        (collection == "engines" && name == "stub").then(|| self.0.clone())
    }
    fn names(&self, collection: &str) -> Vec<String> {
        if collection == "engines" {
            vec!["stub".into()]
        } else {
            Vec::new()
        }
    }
}

fn early_errors() {
    let library = One(stub("-"));
    let canonical = |settings: Json| serve().canonical(&json!({"settings": settings}), &library);
    assert_eq!(
        canonical(json!({"slots": 8})).unwrap(),
        json!({"settings": {"slots": 8}})
    );
    assert_eq!(
        canonical(json!({"slots": null})).unwrap(),
        json!({"settings": {}})
    );
    let problems = canonical(json!({"slotss": 8, "slots": 0})).unwrap_err();
    let said: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "the setting `slots` must be at least 1, got 0",
            "no engine has a setting `slotss`"
        ]
    );
}

fn lacking_setting() {
    let provisioned = json!({"engines": [{"name": "stub", "definition": stub("-")}]});
    let needs = [pipeline::Needed {
        stage: "machine",
        kind: "provision",
        parameters: &provisioned,
        needs: Vec::new(),
    }];
    let library = One(stub("-"));
    let fits = |settings: Json| serve().fits(&json!({"settings": settings}), &needs, &library);
    assert_eq!(fits(json!({"slots": 8})), Ok(()));
    let problems = fits(json!({"slotss": 8})).unwrap_err();
    assert_eq!(
        problems[0].message,
        "the engine `stub` has no setting `slotss`"
    );
    assert!(problems[0].of_key, "the name is wrong, not the value");
    let hint = problems[0].hint.as_deref().unwrap();
    assert!(hint.starts_with("did you mean `slots`?"), "{hint}");

    // If the name is wrong, the engine is unknown.
    let unknown = [pipeline::Needed {
        parameters: &Json::Null,
        ..needs[0].clone()
    }];
    let problems = serve().fits(&json!({"settings": {"slotss": 8}}), &unknown, &library);
    assert_eq!(
        problems.unwrap_err()[0].message,
        "no engine has a setting `slotss`"
    );

    // It may be what a wrong definition has.
    let mut wrong = stub("-");
    wrong["settings"]["slots"]["default"] = json!("many");
    let silent = serve().fits(&json!({"settings": {"slotss": 8}}), &unknown, &One(wrong));
    assert_eq!(silent, Ok(()));

    let problems = serve()
        .fits(&json!({"settings": {}}), &[], &library)
        .unwrap_err();
    assert_eq!(
        problems[0].message,
        "a server needs an engine, but this stage does not need one"
    );
}

fn lonely_router() {
    let mut router = stub("-");
    router["launch"]["peers"] =
        json!({"decode": {"each": ["{url}"], "optional": true}, "workers": {}});
    let provisioned = json!({"engines": [{"name": "stub", "definition": router}]});
    let needs = [pipeline::Needed {
        stage: "machine",
        kind: "provision",
        parameters: &provisioned,
        needs: Vec::new(),
    }];
    let library = One(router.clone());
    let said = |parameters: Json| {
        let problems = serve().fits(&parameters, &needs, &library).err();
        let problems = problems.into_iter().flatten();
        problems.map(|p| p.message).collect::<Vec<_>>()
    };
    assert_eq!(
        said(json!({"settings": {}})),
        ["Stub needs the other servers as `decode` or `workers`"]
    );
    let roles = |peers: Json| json!({"settings": {}, "roles": {"front": {"peers": peers}, "one": {"peers": {"workers": "front"}}}});
    assert_eq!(
        said(roles(json!({}))),
        ["Stub, the role `front`, needs the other servers as `decode` or `workers`"]
    );
    assert_eq!(
        said(roles(json!({"decode": "one"}))),
        ["Stub, the role `front`, needs the other servers as `workers`"]
    );
    assert!(said(roles(json!({"workers": "one"}))).is_empty());
}
