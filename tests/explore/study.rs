//! Cells, tables, numbers and comparisons of a study, as the explorer answers them.

use std::fs;

use serde_json::{Value, json};

use super::{Explorer, GRID, escaped, first_cell};
use crate::planted::grid;
use crate::support::{Project, finished};

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
    // Cells are missing, which no cell shows.
    let failed = &explorer.get(GRID).json()["failed_on_stages"][0];
    for (field, value) in [("gate", "census"), ("stage", "grid"), ("severity", "warn")] {
        assert_eq!(failed[field], value);
    }
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
        let column = columns.into_iter().find(|c| c["name"] == name);
        column.unwrap_or_else(|| panic!("no {name}"))
    };
    let chunks = column(&requests, "chunks")["values"].clone();
    let ids = column(&requests, "request_id")["values"].clone();
    let page = explorer
        .get(&format!(
            "{study}/tables/ladder.chunks?cell={at}&eq.request_id={}",
            ids[1]
        ))
        .json();
    assert_eq!(page["rows_in_all"], chunks[1]);
    assert_eq!(column(&page, "at_ns")["unit"], "ns");
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
    // An axis named like a column of the rows has a second name; both keep their values.
    let query =
        "select axis_phase, phase, count(*) as n from \"grid.requests\" group by 1, 2 order by 2";
    let both = explorer.get(&format!("{GRID}/sql?query={}", escaped(query)));
    let both = both.json();
    let labels = both["columns"][0]["values"]
        .as_array()
        .expect("labels")
        .clone();
    assert!(labels.iter().all(|label| label == "scaling"), "{both}");
    let phases = both["columns"][1]["values"]
        .as_array()
        .expect("phases")
        .clone();
    assert!(phases.contains(&"measured".into()), "{both}");
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
    for (target, status, expected) in [
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
        assert!(error.contains(expected), "{target}: {error}");
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
fn a_folder_of_load_says_when_it_was_measured_and_not_when_it_was_read() {
    let project = Project::new();
    let text = "experiment: small\ntitle: One cell\nquestion: How many?\nseed: 1\nworkloads:\n  short:\n    description: Few words.\n    \
         prompts: {words: {length: 4}}\n    output: {tokens: 1}\nstages:\n  load:\n    kind: load\n    workload: short\n    \
         arrival: {closed-loop: {clients: 2}}\n    requests: 20\n    simulate: {server: batching}\n";
    fs::write(project.path().join("small.yaml"), text).expect("it can be written");
    project.run(["run", "small.yaml", "--quiet"]).ok();
    let explorer = Explorer::of(&project, &[]);
    let own = explorer
        .get("/api/v1/studies/small/cell?stage=load&cell=")
        .json();
    assert_eq!(own["imported"], Value::Null);
    // The same rows as a folder, as `load --out` writes it.
    let copied = project.path().join("loaded");
    fs::create_dir(&copied).expect("a folder");
    for output in ["requests", "cell"] {
        let outputs = own["outputs"].as_array().expect("outputs");
        let output_of = outputs.iter().find(|o| o["name"] == output);
        let digest = output_of
            .and_then(|o| o["digest"].as_str())
            .expect("a digest");
        let object = explorer.get(&format!("/api/v1/objects/{digest}")).body;
        fs::write(copied.join(format!("{output}.parquet")), object).expect("it can be written");
    }
    let text = "experiment: again\nseed: 1\nstages:\n  load:\n    kind: load\n    import: {file: loaded/requests.parquet, tool: benchtrail}\n";
    fs::write(project.path().join("again.yaml"), text).expect("it can be written");
    project.run(["run", "again.yaml", "--quiet"]).ok();
    let cell = explorer
        .get("/api/v1/studies/again/cell?stage=load&cell=")
        .json();
    let table = explorer
        .get("/api/v1/studies/small/tables/load.cell?cell=&columns=started_unix_ns")
        .json();
    let started = table["columns"][0]["values"][0]
        .as_str()
        .expect("large integers are text");
    assert_eq!(cell["imported"]["tool"], "benchtrail", "{cell}");
    let measured = cell["imported"]["measured"].as_str().expect("a time");
    assert!(
        measured.ends_with(&format!("{}Z", &started[started.len() - 9..])),
        "{measured} {started}"
    );
    let line = explorer.get("/api/v1/studies/again/cells").json()["stages"][0]["cells"][0].clone();
    assert_eq!(
        (&line["started"], &line["order"]),
        (&measured.into(), &Value::Null)
    );
}

#[test]
fn a_lock_that_is_gone_is_named_with_what_to_do() {
    let project = Project::copy_of(grid());
    let explorer = Explorer::of(&project, &[]);
    let digest = explorer.get(GRID).json()["lock_digest"].clone();
    let lock = project.path().join("experiments/planted-grid.smoke.lock");
    let text = fs::read(&lock).expect("a lock");
    fs::remove_file(&lock).expect("it can be removed");
    let gone = explorer.get(GRID);
    let error = gone.json();
    assert_eq!(gone.status, 404, "{error}");
    assert_eq!(
        error["error"],
        "the lock experiments/planted-grid.smoke.lock is gone"
    );
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("benchtrail run"))
    );
    fs::write(&lock, text).expect("it can be written");
    assert_eq!(explorer.get(GRID).json()["lock_digest"], digest);
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
    assert_eq!(explorer.get("/api/v1").json()["bundle"], true);
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
        let below = |rest: &str| vec![format!("{GRID}{rest}")];
        match path {
            "/" => vec!["/api/v1".to_owned()],
            "/openapi.json" | "/studies" | "/runs" => vec![format!("/api/v1{path}")],
            "/studies/{study}" => below(""),
            "/studies/{study}/cells" | "/studies/{study}/report" => {
                below(&path["/studies/{study}".len()..])
            }
            "/studies/{study}/cell" => below(&format!("/cell?stage=grid&cell={cell}")),
            "/studies/{study}/tables/{table}" => ["json", "csv", "arrow", "parquet"]
                .map(|format| format!("{GRID}/tables/results.cells?format={format}"))
                .to_vec(),
            "/studies/{study}/distribution" => {
                below("/distribution?stage=grid&metric=tpot_ms&by=engine,model&only.clients=1")
            }
            "/studies/{study}/objective" => below("/objective?stage=grid&only.engine=alpha"),
            "/studies/{study}/activity" => {
                below(&format!("/activity?stage=grid&cell={cell}&moments=50"))
            }
            "/studies/{study}/contrast" => {
                below("/contrast?stage=grid&axis=engine&a=alpha&b=beta&unit=rep")
            }
            "/studies/{study}/compare" => below("/compare?with=experiments~planted-grid.smoke"),
            "/studies/{study}/sql" => below("/sql?query=select%201%20as%20n"),
            "/studies/{study}/why" => {
                below("/why?table=results.cells&cell=&row=0&column=output_throughput")
            }
            "/objects/{digest}" => vec![format!("/api/v1/objects/{digest}")],
            // It needs commits: tests/explore/history.rs.
            "/studies/{study}/history" => Vec::new(),
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
                let optional = ["several", "single", "slowest"].contains(&name);
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
fn two_labels_differ_in_what_was_planned_and_by_a_ratio_over_the_named_units() {
    let explorer = Explorer::of(grid(), &[]);
    let ask = |unit: &str| {
        let target = format!(
            "{GRID}/contrast?stage=grid&axis=engine&a=alpha&b=beta&column=output_throughput{unit}"
        );
        explorer.get(&target).json()
    };
    let reply = ask("");
    let facets = reply["facets"].as_array().expect("facets");
    assert!(
        !facets.is_empty() && facets.iter().all(|f| f["status"] == "planned"),
        "{facets:?}"
    );
    // All pairs are compared but those with a hung or an excluded cell. The first pair has no cache on either side.
    assert_eq!(reply["pairs"], 149);
    assert_eq!(reply["pairs_unread"], json!([]));
    let cache = facets
        .iter()
        .find(|f| f["key"] == "simulate.server.prefix-cache")
        .expect("a difference in one workload");
    assert_eq!((&cache["pairs"], &cache["values"]), (&json!(32), &json!(1)));
    let first = cache["first"][1].as_str().expect("coordinates");
    assert!(first.contains("workload=repeated-prefix"), "{first}");
    let overall = &reply["results"]["columns"][0]["overall"];
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
    for (wrong, expected) in [
        ("axis=nothing&a=1&b=2", "no axis"),
        ("axis=engine&a=alpha&b=nobody", "no coordinate"),
    ] {
        let answer = explorer.get(&format!("{GRID}/contrast?stage=grid&{wrong}"));
        let error = answer.json()["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            answer.status == 400 && error.contains(expected),
            "{wrong}: {error}"
        );
    }
}
