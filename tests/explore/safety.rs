//! Access to the explorer, and what viewing a study must not do.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};

use super::{Explorer, GRID, escaped, files};
use crate::planted::grid;
use crate::support::Project;

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
    // A header that cannot be read, or that is there twice, hides nothing.
    for strange in [
        &[("host", &host[..]), ("origin", "\u{e9}")][..],
        &[("host", &host), ("sec-fetch-site", "cross-site\u{e9}")],
        &[
            ("host", &host),
            ("origin", &own),
            ("origin", "http://evil.example"),
        ],
        &[("host", &host), ("host", "evil.example")],
    ] {
        assert_eq!(status("GET", strange), 403, "{strange:?}");
    }
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
fn other_users_of_a_machine_cannot_read_what_needs_a_token() {
    let explorer = Explorer::of(grid(), &["--token"]);
    let (_, token) = explorer
        .url
        .split_once("#token=")
        .expect("a token in the address");
    let host = explorer.host().to_owned();
    let status = |authorization: &str| {
        let headers = [("host", &host[..]), ("authorization", authorization)];
        explorer.ask("GET", "/api/v1/studies", &headers).status
    };
    assert_eq!(status(&format!("Bearer {token}")), 200);
    assert_eq!(status("Bearer 0"), 401);
    assert_eq!(explorer.get("/api/v1/studies").status, 401);
    // However its address is written.
    for target in [
        "/%61pi/v1/studies",
        "/ap%69/v1",
        "/api",
        "//api/v1",
        "/api%2Fv1/studies/a",
    ] {
        assert_eq!(explorer.get(target).status, 401, "{target}");
    }
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

#[test]
fn looking_at_a_study_changes_no_file() {
    let project = Project::copy_of(grid());
    let listed = || {
        let mut times = BTreeMap::new();
        files(project.path(), &mut times);
        times
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

#[test]
fn long_queries_keep_nobody_else_waiting() {
    let explorer = Explorer::of(grid(), &[]);
    let host = explorer.host().to_owned();
    let count =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let target = format!("{GRID}/sql?query={}", escaped(count));
    let long = [(); 3].map(|()| explorer.open("GET", &target, &[("host", &host)]));
    for target in [GRID, "/api/v1/studies", "/"] {
        assert_eq!(explorer.get(target).status, 200, "{target}");
    }
    for mut stream in long {
        stream.set_nonblocking(true).expect("it can be set");
        let early = stream.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(early, Err(ErrorKind::WouldBlock), "not before the others");
    }
    // These clients have left, so their queries end, and the next one need not wait for them.
    let short = explorer.get(&format!("{GRID}/sql?query=select%201"));
    assert_eq!(short.status, 200);
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
