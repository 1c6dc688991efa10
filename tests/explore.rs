//! The explorer over real stores: its answers, its access control, and that it changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::planted::grid;
use crate::support::{Project, finished};

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

#[test]
fn every_cell_of_a_study_is_served_with_its_state_and_the_order_of_execution() {
    let explorer = Explorer::of(grid(), &[]);
    let studies = explorer.get("/api/v1/studies").json();
    assert_eq!(
        studies["studies"][0]["id"],
        "experiments~planted-grid.smoke"
    );
    assert_eq!(studies["studies"][0]["counts"]["hung"], 2);
    assert_eq!(studies["studies"][0]["measurements"], 320);
    let cells = explorer.get(&format!("{GRID}/cells")).json();
    let stages = cells["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|s| s["name"] == "grid").expect("a grid");
    assert_eq!(stage["axes"][0], "engine");
    let all = stage["cells"].as_array().expect("cells");
    assert_eq!(all.len(), 320);
    let hung: Vec<&Value> = all.iter().filter(|c| c["status"] == "hung").collect();
    assert_eq!(hung.len(), 2);
    let reason = hung[0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("no byte arrived"), "{reason}");
    let mut order: Vec<u64> = all.iter().filter_map(|c| c["order"].as_u64()).collect();
    order.sort_unstable();
    order.dedup();
    assert_eq!(order.len(), 320, "each cell has its own place");
}

#[test]
fn the_tree_of_a_number_is_the_one_that_why_prints() {
    const REPORT: &str = "reports/planted-grid.smoke/report.md";
    let explorer = Explorer::of(grid(), &[]);
    let report = explorer.get(&format!("{GRID}/report")).json();
    let text = fs::read_to_string(grid().path().join(REPORT)).expect("a report");
    assert_eq!(report["markdown"], text.as_str());
    let numbers = report["numbers"].as_array().expect("numbers");
    let of_table = |n: &&Value| n[4] == "table";
    let number = numbers.iter().find(of_table).expect("a table's number");
    let (line, column) = (&number[0], &number[1]);
    let served = explorer
        .get(&format!("{GRID}/why?line={line}&column={column}"))
        .json();
    let place = format!("{REPORT}:{line}:{column}");
    let printed = grid().run(["why", &place, "--json"]).ok().json();
    for part in [
        "number",
        "place",
        "lineage",
        "raw",
        "cells",
        "servers",
        "stage_gates",
        "doubts",
    ] {
        assert_eq!(served[part], printed[part], "{part}");
    }
    let lines = served["printed"].as_array().expect("places");
    assert!(lines.iter().any(|l| l["line"] == *line), "{lines:?}");
    // The same value requested by its table has the same lineage, and finds the line.
    let place = &served["place"];
    let table = escaped(place["name"].as_str().expect("a name"));
    let (row, column) = (&place["row"], place["column"].as_str().expect("a column"));
    let value = explorer
        .get(&format!(
            "{GRID}/why?table={table}&cell=&row={row}&column={column}"
        ))
        .json();
    assert_eq!(value["lineage"], served["lineage"]);
    assert_eq!(value["raw"], served["raw"]);
    assert!(
        value["printed"]
            .as_array()
            .expect("places")
            .iter()
            .any(|l| l["line"] == *line)
    );
}

#[test]
fn a_cell_leads_to_its_requests_and_each_request_to_its_chunks() {
    let explorer = Explorer::of(finished(), &[]);
    let study = "/api/v1/studies/experiments~quickstart.smoke";
    let at = "block=1,configuration=batched,workload=short-decode,concurrency=2";
    let at = escaped(at);
    let cell = explorer
        .get(&format!("{study}/cell?stage=ladder&cell={at}"))
        .json();
    assert_eq!(cell["status"], "ok");
    assert!(!cell["gates"].as_array().expect("gates").is_empty());
    let names: Vec<&str> = cell["outputs"]
        .as_array()
        .expect("outputs")
        .iter()
        .filter_map(|o| o["name"].as_str())
        .collect();
    assert!(
        names.contains(&"requests") && names.contains(&"chunks"),
        "{names:?}"
    );
    let requests = explorer
        .get(&format!("{study}/tables/ladder.requests?cell={at}"))
        .json();
    let column = |table: &Value, name: &str| {
        let columns = table["columns"].as_array().expect("columns").clone();
        let found = columns.into_iter().find(|c| c["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let chunks = column(&requests, "chunks")["values"].clone();
    let ids = column(&requests, "request_id")["values"].clone();
    let found = explorer
        .get(&format!(
            "{study}/tables/ladder.chunks?cell={at}&eq.request_id={}",
            ids[1]
        ))
        .json();
    assert_eq!(found["rows_in_all"], chunks[1]);
    assert_eq!(column(&found, "at_ns")["unit"], "ns");
}

#[test]
fn a_table_of_many_cells_is_read_in_pages_and_as_csv_it_is_what_sql_says() {
    let explorer = Explorer::of(grid(), &[]);
    let page = explorer
        .get(&format!(
            "{GRID}/tables/grid.requests?from=1000&to=1010&columns=engine,rep,request_id"
        ))
        .json();
    assert_eq!(page["rows"].as_array().expect("rows").len(), 10);
    let query = "select count(*) as n from \"grid.requests\"";
    let counted = explorer
        .get(&format!("{GRID}/sql?query={}", escaped(query)))
        .json();
    assert_eq!(counted["columns"][0]["values"][0], page["rows_in_all"]);
    let note = counted["notes"][0].as_str().expect("a note");
    assert!(note.contains("2 of 320 cells of grid are not ok"), "{note}");
    let query = "select engine, count(*) as n from cells group by engine";
    let csv = explorer.get(&format!("{GRID}/sql?format=csv&query={}", escaped(query)));
    let arguments = [
        "sql",
        "experiments/planted-grid.yaml",
        "--smoke",
        query,
        "--csv",
    ];
    assert_eq!(
        String::from_utf8_lossy(&csv.body),
        grid().run(arguments).ok().stdout
    );
    let parquet = explorer.get(&format!("{GRID}/tables/results.cells?format=parquet"));
    assert!(parquet.body.starts_with(b"PAR1"));
}

#[test]
fn a_question_that_cannot_be_answered_says_why() {
    let explorer = Explorer::of(grid(), &[]);
    for (target, status, told) in [
        ("/api/v1/studies/nobody", 404, "unknown study"),
        (
            &format!("{GRID}/tables/gridd.requests"),
            404,
            "unknown table",
        ),
        (
            &format!("{GRID}/tables/results.cells?sort=nothing"),
            400,
            "nothing",
        ),
        (
            &format!("{GRID}/cell?stage=grid&cell=x%3D1"),
            404,
            "no cell",
        ),
        (&format!("{GRID}/why?line=1&text=77777"), 404, "no number"),
        (&format!("{GRID}/why"), 400, "which number"),
        (
            &format!("{GRID}/why?table=results.cells&row=999999&column=rep"),
            404,
            "no row",
        ),
        (
            &format!("{GRID}/sql?query=delete%20from%20cells"),
            400,
            "select",
        ),
        (
            &format!("{GRID}/sql?query=select%20*%20from%20requsts"),
            404,
            "requsts",
        ),
        ("/api/v1/objects/b3:00", 400, "digest"),
        ("/api/v1/objects/..%2F..%2Findex.sqlite", 400, "digest"),
        ("/api/v1/runs/..%2F../events", 404, "unknown run"),
        ("/../Cargo.toml", 404, ""),
        ("/%", 400, "address"),
    ] {
        let answer = explorer.get(target);
        let error = answer.json()["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(answer.status, status, "{target}: {error}");
        assert!(error.contains(told), "{target}: {error}");
    }
}

#[test]
fn a_page_of_a_table_without_rows_still_has_its_columns() {
    let project = Project::copy_of(grid());
    let explorer = Explorer::of(&project, &[]);
    let columns = |query: &str| {
        let answer = explorer.get(&format!("{GRID}/tables/results.cells?{query}"));
        assert_eq!(answer.status, 200, "{query}");
        let page = answer.json();
        (
            page["rows"].clone(),
            page["columns"].as_array().unwrap().len(),
        )
    };
    let (_, all) = columns("to=1");
    assert!(all > 10);
    for nothing in ["from=100000000", "from=5&to=5", "to=0"] {
        assert_eq!(
            columns(nothing),
            (Value::Array(Vec::new()), all),
            "{nothing}"
        );
    }
}

#[test]
fn a_damaged_record_hides_only_its_own_cell() {
    let project = Project::copy_of(grid());
    let explorer = Explorer::of(&project, &[]);
    let lines = || {
        let answer = explorer.get(&format!("{GRID}/cells"));
        assert_eq!(answer.status, 200);
        let stages = answer.json()["stages"].as_array().unwrap().clone();
        let cells = stages
            .into_iter()
            .flat_map(|s| s["cells"].as_array().unwrap().clone());
        cells.collect::<Vec<Value>>()
    };
    let records: Vec<String> = lines()
        .iter()
        .filter_map(|line| Some(line["record"].as_str()?.to_owned()))
        .collect();
    // A new server has read nothing yet.
    let explorer_again = Explorer::of(&project, &[]);
    let hex = records[0].strip_prefix("b3:").unwrap();
    let object = project
        .path()
        .join(".benchtrail/objects")
        .join(&hex[..2])
        .join(&hex[2..]);
    fs::remove_file(object).unwrap();
    let answer = explorer_again.get(&format!("{GRID}/cells")).json();
    let text = answer.to_string();
    assert_eq!(text.matches("\"unread\"").count(), 1);
    assert_eq!(text.matches("\"started\"").count(), records.len() - 1);
    let overview = explorer_again.get(GRID);
    assert_eq!(overview.status, 200);
}

#[test]
fn only_our_own_page_may_ask_and_only_get() {
    let explorer = Explorer::of(grid(), &[]);
    let host = explorer.host().to_owned();
    let port = host.rsplit(':').next().expect("a port");
    let status = |method: &str, headers: &[(&str, &str)]| {
        explorer.ask(method, "/api/v1/studies", headers).status
    };
    assert_eq!(status("GET", &[("host", &host)]), 200);
    assert_eq!(
        status("GET", &[("host", &format!("evil.example:{port}"))]),
        403
    );
    assert_eq!(
        status("GET", &[("host", &host), ("origin", "http://evil.example")]),
        403
    );
    assert_eq!(
        status("GET", &[("host", &host), ("sec-fetch-site", "cross-site")]),
        403
    );
    let own = format!("http://{host}");
    assert_eq!(status("GET", &[("host", &host), ("origin", &own)]), 200);
    // Only POST can stop a run, and no other address accepts it.
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(status(method, &[("host", &host)]), 405, "{method}");
    }
    // A link from elsewhere may open the page, but nothing of the API.
    let linked = [
        ("host", &host[..]),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    assert_eq!(explorer.ask("GET", "/", &linked).status, 200);
    assert_eq!(explorer.ask("GET", "/api/v1/studies", &linked).status, 403);
}

#[test]
fn an_address_that_others_can_reach_needs_the_token_it_prints() {
    let explorer = Explorer::of(grid(), &["--listen", "0.0.0.0:0"]);
    let (_, token) = explorer
        .url
        .split_once("#token=")
        .expect("a token in the address");
    assert_eq!(token.len(), 32, "{token}");
    let port = explorer.host().rsplit(':').next().expect("a port");
    let host = format!("127.0.0.1:{port}");
    let status = |target: &str, authorization: &str| {
        let headers = [("host", &host[..]), ("authorization", authorization)];
        explorer.ask("GET", target, &headers).status
    };
    assert_eq!(status("/api/v1/studies", &format!("Bearer {token}")), 200);
    assert_eq!(status("/api/v1/studies", "Bearer 0"), 401);
    assert_eq!(
        explorer
            .ask("GET", "/api/v1/studies", &[("host", &host)])
            .status,
        401
    );
    // The page contains no data. It must be available before there is a token.
    assert_eq!(
        explorer.ask("GET", "/app.js", &[("host", &host)]).status,
        200
    );
}

#[test]
fn objects_are_cached_for_ever_in_ranges_and_every_answer_is_without_rights() {
    let explorer = Explorer::of(grid(), &[]);
    let host = explorer.host().to_owned();
    let overview = explorer.get(GRID).json();
    let tables = overview["tables"].as_array().expect("tables");
    let digest = tables
        .iter()
        .find_map(|t| t["artifact"].as_str())
        .expect("an artifact");
    let target = format!("/api/v1/objects/{digest}");
    let whole = explorer.get(&target);
    let tag = whole.headers["etag"].clone();
    assert!(tag.contains(digest.trim_start_matches("b3:")), "{tag}");
    assert!(whole.headers["cache-control"].contains("immutable"));
    let again = explorer.ask("GET", &target, &[("host", &host), ("if-none-match", &tag)]);
    assert_eq!((again.status, again.body.len()), (304, 0));
    let part = explorer.ask("GET", &target, &[("host", &host), ("range", "bytes=-4")]);
    assert_eq!((part.status, &part.body[..]), (206, &b"PAR1"[..]));
    let size = whole.body.len();
    assert_eq!(
        part.headers["content-range"],
        format!("bytes {}-{}/{size}", size - 4, size - 1)
    );
    for target in ["/", "/app.js", GRID, &target, "/nothing"] {
        let answer = explorer.get(target);
        let policy = &answer.headers["content-security-policy"];
        assert!(policy.contains("default-src 'none'"), "{target}: {policy}");
        assert!(!policy.contains("script-src 'unsafe"), "{target}: {policy}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{target}"
        );
        assert!(!answer.headers.contains_key("set-cookie"), "{target}");
        assert!(
            !answer.headers.contains_key("access-control-allow-origin"),
            "{target}"
        );
    }
    assert!(whole.headers["content-security-policy"].contains("sandbox"));
}

/// Returns the files below a folder, with their sizes and times.
fn files(folder: &Path, found: &mut BTreeMap<String, (u64, std::time::SystemTime)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let meta = entry.metadata().expect("an entry");
        let path = entry.path().display().to_string();
        if meta.is_dir() {
            files(&entry.path(), found);
        } else if !path.ends_with("-wal") && !path.ends_with("-shm") {
            found.insert(path, (meta.len(), meta.modified().expect("a time")));
        }
    }
}

#[test]
fn looking_at_a_study_changes_no_file() {
    let project = Project::copy_of(grid());
    let listed = || {
        let mut found = BTreeMap::new();
        files(project.path(), &mut found);
        found
    };
    let before = listed();
    let explorer = Explorer::of(&project, &[]);
    for target in [
        "",
        "/cells",
        "/report",
        "/tables/results.cells",
        "/sql?query=select%201",
    ] {
        assert_eq!(
            explorer.get(&format!("{GRID}{target}")).status,
            200,
            "{target}"
        );
    }
    drop(explorer);
    assert_eq!(listed(), before);
}

const HOSTILE: &str = "<script>alert(1)</script>";

#[test]
fn labels_that_are_markup_stay_text() {
    let project = Project::new();
    let file = "experiments/simulated.yaml";
    let path = project.path().join(file);
    let text = fs::read_to_string(&path).expect("the experiment");
    let text = text.replacen("    batched: {", &format!("    \"{HOSTILE}\": {{"), 1);
    let text = text.replacen(
        "title: What",
        &format!("title: \"</script>{HOSTILE} What"),
        1,
    );
    let text = text.replacen("by a model\n", "by a model\"\n", 1);
    fs::write(&path, text).expect("it can be written");
    project.run(["run", file, "--smoke", "--quiet"]).ok();
    let explorer = Explorer::of(&project, &[]);
    let cells = explorer.get("/api/v1/studies/experiments~simulated.smoke/cells");
    assert_eq!(cells.headers["content-type"], "application/json");
    assert!(cells.json().to_string().contains(HOSTILE));
    let html = project.path().join("simulated.html");
    project
        .run(["explore", file, "--smoke", "--export", "simulated.html"])
        .ok();
    let html = fs::read_to_string(html).expect("the file");
    assert!(!html.contains(HOSTILE), "data is never markup");
    assert_eq!(html.matches("<script").count(), 2, "the data and the page");
}

#[test]
fn a_study_as_a_file_asks_nobody_and_says_what_did_not_fit() {
    let project = Project::new();
    let simulated = ["experiments/simulated.yaml", "--smoke"];
    project
        .run(["run", simulated[0], simulated[1], "--quiet"])
        .ok();
    let export = |project: &Project, study: [&str; 2], limit: &str| {
        let file = project.path().join("study.html");
        let arguments = ["explore", study[0], study[1], "--export", "study.html"];
        let all = arguments.into_iter().chain(["--limit", limit, "--json"]);
        let told = project.run(all).ok().json();
        let html = fs::read_to_string(&file).expect("the file");
        fs::remove_file(file).expect("it is ours");
        (told, html)
    };
    let (told, html) = export(&project, simulated, "24");
    assert_eq!(told["left_out"], serde_json::json!([]), "{told}");
    assert!(html.contains("script-src 'sha256-") && html.contains("default-src 'none'"));
    assert!(!html.contains("src=\"") && !html.contains("<link rel=\"stylesheet\""));
    assert!(!html.contains("\nimport ") && !html.contains("\nexport "));
    let large = Project::copy_of(grid());
    let (told, html) = export(&large, ["experiments/planted-grid.yaml", "--smoke"], "1");
    assert!(html.len() <= 1 << 20, "{}", html.len());
    assert!(
        !told["left_out"].as_array().expect("a list").is_empty(),
        "{told}"
    );
    let without_study = project.run(["explore", "--export", "all.html"]);
    assert_eq!(without_study.code, Some(2));
}

#[test]
fn a_file_reads_each_object_a_few_times_however_many_cells_there_are() {
    let project = Project::copy_of(grid());
    let study = ["experiments/planted-grid.yaml", "--smoke"];
    let told = project
        .run([
            "explore",
            study[0],
            study[1],
            "--export",
            "study.html",
            "--json",
        ])
        .ok()
        .json();
    let bytes_of = |folder: &Path| -> u64 {
        let files = files_below(folder).into_iter();
        files
            .map(|file| fs::metadata(file).map_or(0, |m| m.len()))
            .sum()
    };
    let stored = bytes_of(&project.path().join(".benchtrail/objects"));
    let read = told["bytes_read"].as_u64().expect("a number");
    // For each cell, the record is read once per table, and the rows once per metric. The gate tables and the records
    // that name every cell are read once in total, not once per cell.
    assert!(read < 18 * stored, "{read} of {stored}");
    assert!(told["replies"].as_u64() > Some(1_000), "{told}");
}

#[test]
fn a_run_writes_its_events_beside_its_report_and_a_page_can_follow_them() {
    let project = Project::new();
    project.run(["run", "experiments/simulated.yaml", "--smoke", "--quiet"]);
    let log = project.path().join("reports/simulated.smoke/events.jsonl");
    let log = fs::read_to_string(log).expect("the event log");
    let first: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["event"], "run-began");
    assert_eq!(
        first["stages"][0]["cells"].as_array().expect("cells").len(),
        12
    );
    let explorer = Explorer::of(&project, &[]);
    let runs = explorer.get("/api/v1/runs").json();
    assert_eq!(runs["runs"][0]["id"], "simulated.smoke");
    let host = [("host", explorer.host())];
    let stream = explorer.open("GET", "/api/v1/runs/simulated.smoke/events", &host);
    let (mut seen, mut measured) = (false, false);
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the stream goes on");
        seen |= line.contains("\"run-ended\"");
        measured |= line.contains("\"ttft_ms_p50\"");
        // After everything in the log, the stream reports that nothing is new.
        if line.starts_with(": nothing new") {
            break;
        }
    }
    assert!(seen && measured);
}

#[test]
fn a_published_bundle_is_explored_as_it_is() {
    let project = Project::copy_of(grid());
    let publish = [
        "publish",
        "experiments/planted-grid.yaml",
        "--smoke",
        "--author",
        "A. B.",
    ];
    let out = ["--out", "bundle"];
    project.run(publish.iter().chain(&out)).ok();
    let explorer = Explorer::of(&project, &["bundle"]);
    let id = explorer.url.split("#/study/").nth(1).expect("its study");
    let report = explorer.get(&format!("/api/v1/studies/{id}/report")).json();
    let number = &report["numbers"].as_array().expect("numbers")[0];
    let why = format!(
        "/api/v1/studies/{id}/why?line={}&column={}",
        number[0], number[1]
    );
    assert_eq!(explorer.get(&why).json()["doubts"], serde_json::json!([]));
}

/// The first cell of the grid.
fn first_cell(explorer: &Explorer) -> String {
    let cells = explorer.get(&format!("{GRID}/cells")).json();
    let stages = cells["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|s| s["name"] == "grid").expect("a grid");
    stage["cells"][0]["at"].as_str().expect("a cell").to_owned()
}

#[test]
fn every_address_that_is_described_answers_as_it_is_described() {
    let explorer = Explorer::of(grid(), &[]);
    let about = explorer.get("/api/v1/openapi.json").json();
    let overview = explorer.get(GRID).json();
    let digest = overview["tables"]
        .as_array()
        .expect("tables")
        .iter()
        .find_map(|t| t["artifact"].as_str())
        .expect("an artifact")
        .to_owned();
    let cell = escaped(&first_cell(&explorer));
    let asked = |path: &str| -> Vec<String> {
        let of = |rest: &str| vec![format!("{GRID}{rest}")];
        match path {
            "/" => vec!["/api/v1".to_owned()],
            "/openapi.json" | "/studies" | "/runs" => vec![format!("/api/v1{path}")],
            "/studies/{study}" => of(""),
            "/studies/{study}/cells" | "/studies/{study}/report" => {
                of(&path["/studies/{study}".len()..])
            }
            "/studies/{study}/cell" => of(&format!("/cell?stage=grid&cell={cell}")),
            "/studies/{study}/tables/{table}" => ["json", "csv", "arrow", "parquet"]
                .map(|format| format!("{GRID}/tables/results.cells?format={format}"))
                .to_vec(),
            "/studies/{study}/distribution" => {
                of("/distribution?stage=grid&metric=tpot_ms&by=engine,model&only.clients=1")
            }
            "/studies/{study}/objective" => of("/objective?stage=grid&only.engine=alpha"),
            "/studies/{study}/activity" => {
                of(&format!("/activity?stage=grid&cell={cell}&moments=50"))
            }
            "/studies/{study}/contrast" => {
                of("/contrast?stage=grid&axis=engine&a=alpha&b=beta&unit=rep")
            }
            "/studies/{study}/compare" => of("/compare?with=experiments~planted-grid.smoke"),
            "/studies/{study}/sql" => of("/sql?query=select%201%20as%20n"),
            "/studies/{study}/why" => {
                of("/why?table=results.cells&cell=&row=0&column=output_throughput")
            }
            "/objects/{digest}" => vec![format!("/api/v1/objects/{digest}")],
            "/runs/{run}/events" | "/runs/{run}/stop" => Vec::new(),
            other => panic!("{other} is described, and no test asks it"),
        }
    };
    let paths = about["paths"].as_object().expect("paths");
    for (path, described) in paths {
        let responses = &described["get"]["responses"];
        for target in asked(path) {
            let answer = explorer.get(&target);
            assert_eq!(
                answer.status,
                200,
                "{target}: {}",
                String::from_utf8_lossy(&answer.body)
            );
            assert!(responses["200"]["description"].is_string(), "{path}");
            // The fields that the description names, as `name` in backticks, exist.
            let words = responses["200"]["description"].as_str().unwrap_or_default();
            let Ok(value) = serde_json::from_slice::<Value>(&answer.body) else {
                continue;
            };
            for name in words
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            {
                let optional = ["several", "single"].contains(&name);
                let inside = |v: &Value| {
                    v.get(name).is_some()
                        || v.as_object().is_some_and(|o| {
                            o.values()
                                .any(|v| v.get(0).and_then(|first| first.get(name)).is_some())
                        })
                };
                assert!(
                    optional || inside(&value),
                    "{target} lacks `{name}`: {words}"
                );
            }
            assert!(
                answer.headers.contains_key("etag") || path == "/runs",
                "{target}"
            );
        }
    }
}

#[test]
fn goodput_and_distributions_of_a_page_are_what_the_rows_say() {
    let explorer = Explorer::of(grid(), &[]);
    let found = explorer
        .get(&format!("{GRID}/objective?stage=grid&only.engine=alpha"))
        .json();
    let steps = found["metrics"][0]["steps"].as_array().expect("steps");
    let (place, bound) = (
        steps.len() / 2,
        steps[steps.len() / 2].as_f64().expect("a number"),
    );
    let cells = found["cells"].as_array().expect("cells");
    let met: u64 = cells
        .iter()
        .flat_map(|cell| cell["bins"].as_array().cloned().unwrap_or_default())
        .filter(|bin| bin[0].as_u64().is_some_and(|bin| bin <= place as u64))
        .map(|bin| bin[3].as_u64().expect("a count"))
        .sum();
    let query = format!(
        "select sum((first_token_ns - sent_ns) / 1e6 <= {bound}) as met, count(*) as n, max((first_token_ns - sent_ns) / 1e6) as most \
         from \"grid.requests\" where engine = 'alpha' and phase = 'measured' and status = 'ok'"
    );
    let told = explorer
        .get(&format!("{GRID}/sql?query={}", escaped(&query)))
        .json();
    let value = |i: usize| told["columns"][i]["values"][0].clone();
    assert_eq!(Value::from(met), value(0), "at most {bound} ms");
    assert!(
        met > 0 && value(1) != met,
        "a bound that some requests meet"
    );
    let curve = explorer
        .get(&format!(
            "{GRID}/distribution?stage=grid&metric=ttft_ms&only.engine=alpha"
        ))
        .json();
    assert_eq!(curve["groups"][0]["n"], value(1));
    let points = curve["groups"][0]["points"].as_array().expect("points");
    assert_eq!(points.last().expect("a point")[0], value(2));
}

#[test]
fn the_levels_of_a_cell_add_up_to_its_requests() {
    let explorer = Explorer::of(grid(), &[]);
    let cell = escaped(&first_cell(&explorer));
    let found = explorer
        .get(&format!(
            "{GRID}/activity?stage=grid&cell={cell}&moments=97"
        ))
        .json();
    let sum = |name: &str| -> u64 {
        let list = found[name].as_array().expect("a list");
        list.iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!(Value::from(sum("ended")), found["requests_in_all"]);
    assert_eq!(
        found["single"]["row"].as_array().map(Vec::len),
        found["requests"].as_u64().map(|n| n as usize)
    );
    assert_eq!(found["in_flight"][96], 0, "at the end nothing is in flight");
    let empty = explorer.get(&format!(
        "{GRID}/activity?stage=grid&cell={cell}&from=5&to=5"
    ));
    assert_eq!(empty.status, 400);
}

#[test]
fn the_figures_of_a_span_are_those_of_the_rows_sent_in_it() {
    let explorer = Explorer::of(grid(), &[]);
    let at = first_cell(&explorer);
    let ask = |span: &str| {
        let cell = escaped(&at);
        let target = format!("{GRID}/activity?stage=grid&cell={cell}{span}");
        explorer.get(&target).json()
    };
    let all = ask("");
    let edge = |i: usize| all["whole"][i].as_i64().expect("a time");
    let (from, to) = (edge(0) + (edge(1) - edge(0)) / 3, edge(1));
    let part = ask(&format!("&from={from}&to={to}"));
    // The axis `phase` has a single label here, and the rows have a column of that name.
    let names = ["engine", "model", "workload", "clients", "rep"];
    let conditions = names.map(|name| {
        let label = at
            .split(',')
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        let label = label.expect("the cell has the axis");
        match label.parse::<i64>() {
            Ok(number) => format!("{name} = {number}"),
            Err(_) => format!("{name} = '{label}'"),
        }
    });
    let query = format!(
        "select count(*) as n \
         from \"grid.requests\" where phase = 'measured' and status = 'ok' and sent_ns between {from} and {to} and {}",
        conditions.join(" and ")
    );
    let told = explorer
        .get(&format!("{GRID}/sql?query={}", escaped(&query)))
        .json();
    let figures = &part["figures"];
    assert_eq!(figures["sent"], told["columns"][0]["values"][0], "{told}");
    let (sent, whole) = (figures["sent"].as_u64(), all["figures"]["sent"].as_u64());
    assert!(sent > Some(0) && sent < whole, "{sent:?} of {whole:?}");
    // The quantiles match those of the individual requests, which the same answer lists.
    let single = &part["single"];
    let column = |name: &str| single[name].as_array().expect("a list").clone();
    let counts = column("measured").into_iter().zip(column("sent_ns"));
    let mut ttft: Vec<f64> = counts
        .zip(column("ttft_ms"))
        .filter(|((measured, sent), _)| *measured == true && sent.as_i64() >= Some(from))
        .filter_map(|(_, ttft)| ttft.as_f64())
        .collect();
    ttft.sort_unstable_by(f64::total_cmp);
    let latency = &figures["latencies"][0];
    assert_eq!(latency["n"].as_u64(), Some(ttft.len() as u64));
    let middle = ttft[ttft.len().div_ceil(2) - 1];
    assert_eq!(latency["p50"].as_f64(), Some(middle));
}

/// A study of one cell with this many requests.
fn of_requests(requests: usize) -> Project {
    let project = Project::new();
    let text = format!(
        "experiment: many\ntitle: One cell\nquestion: How many?\nseed: 1\nworkloads:\n  short:\n    description: Few words.\n    \
         prompts: {{words: {{length: 4}}}}\n    output: {{tokens: 1}}\nstages:\n  load:\n    kind: load\n    workload: short\n    \
         arrival: {{closed-loop: {{clients: 16}}}}\n    requests: {requests}\n    simulate: {{server: batching}}\n"
    );
    fs::write(project.path().join("many.yaml"), text).expect("it can be written");
    project.run(["run", "many.yaml", "--quiet"]).ok();
    project
}

#[test]
fn a_cell_of_many_requests_is_sent_as_levels_figures_and_pages_whatever_it_holds() {
    let (few, many) = (of_requests(6_000), of_requests(24_000));
    let (few, many) = (Explorer::of(&few, &[]), Explorer::of(&many, &[]));
    // The requests of a cell's page and its plots, and how much larger an answer may be for four times the requests.
    for (target, room) in [
        ("activity?stage=load&cell=", 1.3),
        ("tables/load.requests?cell=&from=0&to=5000", 1.05),
        ("tables/load.requests?cell=&from=3000&to=3001", 1.05),
        ("distribution?stage=load&metric=ttft_ms", 1.3),
        ("objective?stage=load", 1.3),
        ("cell?stage=load&cell=", 1.05),
    ] {
        let size = |explorer: &Explorer| {
            let answer = explorer.get(&format!("/api/v1/studies/many/{target}"));
            assert_eq!(answer.status, 200, "{target}");
            answer.body.len() as f64
        };
        let (small, large) = (size(&few), size(&many));
        assert!(
            large < small * room + 2_000.0,
            "{target}: {small} and {large} bytes"
        );
    }
    let all = many
        .get("/api/v1/studies/many/activity?stage=load&cell=")
        .json();
    assert_eq!(all["requests"], 24_000);
    assert_eq!(all["single"], Value::Null, "so many are not listed");
    assert_eq!(all["figures"]["latencies"][0]["n"], all["figures"]["sent"]);
    // A page has a limit, regardless of how much is requested.
    let most = many.get("/api/v1/studies/many/tables/load.requests?cell=&from=0&to=1000000");
    assert_eq!(most.json()["rows"].as_array().map(Vec::len), Some(24_000));
}

#[test]
fn two_labels_differ_in_what_was_planned_and_by_a_ratio_over_the_named_units() {
    let explorer = Explorer::of(grid(), &[]);
    let ask = |unit: &str| {
        let target = format!(
            "{GRID}/contrast?stage=grid&axis=engine&a=alpha&b=beta&column=output_throughput{unit}"
        );
        explorer.get(&target).json()
    };
    let found = ask("");
    let facets = found["facets"].as_array().expect("facets");
    assert!(
        !facets.is_empty() && facets.iter().all(|f| f["status"] == "planned"),
        "{facets:?}"
    );
    let overall = &found["results"]["columns"][0]["overall"];
    assert_eq!(
        overall["low"],
        Value::Null,
        "no unit of replication is named"
    );
    assert!(overall["ratio"].as_f64().expect("a ratio") > 1.0);
    // Two repetitions are too few for an interval, and the answer states it.
    let reason = ask("&unit=rep")["results"]["columns"][0]["overall"]["reason"].clone();
    assert!(
        reason.as_str().is_some_and(|r| r.contains("2 units")),
        "{reason}"
    );
    for (wrong, told) in [
        ("axis=nothing&a=1&b=2", "no axis"),
        ("axis=engine&a=alpha&b=nobody", "no coordinate"),
    ] {
        let answer = explorer.get(&format!("{GRID}/contrast?stage=grid&{wrong}"));
        let error = answer.json()["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            answer.status == 400 && error.contains(told),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn a_page_stops_a_run_with_its_token_as_ctrl_c_does() {
    let project = Project::new();
    let file = project.path().join("experiments/simulated.yaml");
    let text = fs::read_to_string(&file).expect("an experiment");
    let long = text
        .replace("experiment: simulated", "experiment: long")
        .replace("rep: {from: 1, to: 3}", "rep: {from: 1, to: 2000}");
    fs::write(file.with_file_name("long.yaml"), long).expect("it is written");
    let mut run = project
        .command(["run", "experiments/long.yaml", "--quiet", "--no-dry-run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let folder = project.path().join("reports/long");
    let token = folder.join("stop-token");
    let is_whole = |file: &str, least: usize| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.len() >= least && text.contains('\n')
    };
    // The token can be used as soon as it is visible, because the log that it belongs to exists before it.
    while !is_whole("stop-token", 33) {
        let ended = run.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "it ended before it could be stopped");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(is_whole("events.jsonl", 100));
    let token = fs::read_to_string(&token).expect("a token");
    let explorer = Explorer::of(&project, &[]);
    let ask = |token: &str, media: &str| {
        let body = serde_json::json!({"token": token}).to_string();
        let length = body.len().to_string();
        let headers = [
            ("host", explorer.host()),
            ("content-type", media),
            ("content-length", &length),
        ];
        explorer
            .send("POST", "/api/v1/runs/long/stop", &headers, &body)
            .status
    };
    assert_eq!(ask(token.trim(), "text/plain"), 415);
    assert_eq!(ask("0000", "application/json"), 403);
    assert_eq!(ask(token.trim(), "application/json"), 202);
    assert_eq!(
        run.wait().expect("it ends").code(),
        Some(130),
        "as after Ctrl-C"
    );
    assert_eq!(ask(token.trim(), "application/json"), 409, "it is over");
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
