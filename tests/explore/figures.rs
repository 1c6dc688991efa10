//! Figures over requests, computed on the server.

use std::fs;

use serde_json::Value;

use super::{Explorer, GRID, escaped, first_cell};
use crate::planted::grid;
use crate::support::Project;

/// The condition of a query that leaves out the rows of cells that a gate excluded.
const COUNTS: &str = "not exists (select 1 from \"checks.exclusions\" x where x.stage = 'grid' and x.engine = r.engine \
     and x.model = r.model and x.workload = r.workload and x.clients = r.clients and x.rep = r.rep)";

#[test]
fn goodput_and_distributions_of_a_page_are_what_the_rows_say() {
    let explorer = Explorer::of(grid(), &[]);
    let objective = explorer
        .get(&format!("{GRID}/objective?stage=grid&only.engine=alpha"))
        .json();
    let steps = objective["metrics"][0]["steps"].as_array().expect("steps");
    let (place, bound) = (
        steps.len() / 2,
        steps[steps.len() / 2].as_f64().expect("a number"),
    );
    let cells = objective["cells"].as_array().expect("cells");
    let met: u64 = cells
        .iter()
        .flat_map(|cell| cell["bins"].as_array().cloned().unwrap_or_default())
        .filter(|bin| bin[0].as_u64().is_some_and(|bin| bin <= place as u64))
        .map(|bin| bin[3].as_u64().expect("a count"))
        .sum();
    let query = format!(
        "select sum((first_token_ns - sent_ns) / 1e6 <= {bound}) as met, count(*) as n, max((first_token_ns - sent_ns) / 1e6) as most \
         from \"grid.requests\" r where engine = 'alpha' and phase = 'measured' and status = 'ok' and {COUNTS}"
    );
    let answer = explorer
        .get(&format!("{GRID}/sql?query={}", escaped(&query)))
        .json();
    let value = |i: usize| answer["columns"][i]["values"][0].clone();
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
    // Both say how many cells they leave out.
    let group = &curve["groups"][0];
    let left_out = cells.iter().filter(|cell| cell["excluded"].is_string());
    let left_out = left_out.inspect(|cell| assert_eq!(cell["bins"], Value::Null));
    let left_out = left_out.count();
    assert!(left_out > 0, "a gate excluded a cell");
    assert_eq!(group["cells_excluded"], left_out);
    assert_eq!(group["cells"], cells.len());
    let studies = explorer.get("/api/v1/studies").json();
    let all = explorer.get(&format!("{GRID}/cells")).json();
    let all = all["stages"].as_array().expect("stages").iter();
    let all = all.flat_map(|s| s["cells"].as_array().expect("cells"));
    let excluded = all.filter(|cell| cell["excluded"].is_string()).count();
    assert_eq!(studies["studies"][0]["excluded"], excluded);
}

#[test]
fn a_study_whose_cells_are_all_excluded_has_no_curves_and_says_so() {
    let project = Project::new();
    let text = "experiment: doubtful\ntitle: One cell\nquestion: How many?\nseed: 1\nworkloads:\n  short:\n    description: Few words.\n    \
         prompts: {words: {length: 4}}\n    output: {tokens: 1}\nstages:\n  load:\n    kind: load\n    workload: short\n    \
         arrival: {closed-loop: {clients: 2}}\n    requests: 20\n    simulate: {server: batching}\n  checks:\n    kind: verify\n    \
         needs: [load]\n    gates:\n      - gate: sql\n        name: never\n        query: select 0 as passed, 'no' as observed\n        \
         severity: exclude\n        reason: As a test.\n";
    fs::write(project.path().join("doubtful.yaml"), text).expect("it can be written");
    project.run(["run", "doubtful.yaml", "--quiet", "--keep-going"]);
    let explorer = Explorer::of(&project, &[]);
    let studies = explorer.get("/api/v1/studies").json();
    assert_eq!(studies["studies"][0]["excluded"], 1, "{studies}");
    let curve = explorer.get("/api/v1/studies/doubtful/distribution?stage=load&metric=ttft_ms");
    let group = curve.json()["groups"][0].clone();
    assert_eq!(
        (&group["cells"], &group["cells_excluded"], &group["n"]),
        (&1.into(), &1.into(), &0.into())
    );
    let objective = explorer
        .get("/api/v1/studies/doubtful/objective?stage=load")
        .json();
    assert_eq!(objective["cells"][0]["bins"], Value::Null);
}

#[test]
fn the_levels_of_a_cell_add_up_to_its_requests() {
    let explorer = Explorer::of(grid(), &[]);
    let cell = escaped(&first_cell(&explorer));
    let activity = explorer
        .get(&format!(
            "{GRID}/activity?stage=grid&cell={cell}&moments=97"
        ))
        .json();
    let sum = |name: &str| -> u64 {
        let list = activity[name].as_array().expect("a list");
        list.iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!(Value::from(sum("ended")), activity["requests_in_all"]);
    assert_eq!(
        activity["single"]["row"].as_array().map(Vec::len),
        activity["requests"].as_u64().map(|n| n as usize)
    );
    assert_eq!(
        activity["in_flight"][96], 0,
        "at the end nothing is in flight"
    );
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
    // The rows have a column named as the axis `phase`.
    let names = ["engine", "model", "workload", "clients", "rep", "phase"];
    let conditions = names.map(|name| {
        let label = at
            .split(',')
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        let label = label.expect("the cell has the axis");
        let name = if name == "phase" { "axis_phase" } else { name };
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
    let answer = explorer
        .get(&format!("{GRID}/sql?query={}", escaped(&query)))
        .json();
    let figures = &part["figures"];
    assert_eq!(
        figures["sent"], answer["columns"][0]["values"][0],
        "{answer}"
    );
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
    // They are those of `quantile` in SQL, which lie between two requests.
    let query = format!(
        "select quantile((first_token_ns - sent_ns) / 1e6, 0.5) as p50, quantile((first_token_ns - sent_ns) / 1e6, 0.95) as p95 \
         from \"grid.requests\" where phase = 'measured' and status = 'ok' and sent_ns between {from} and {to} and {}",
        conditions.join(" and ")
    );
    let answer = explorer.get(&format!("{GRID}/sql?query={}", escaped(&query)));
    let answer = answer.json();
    for (i, name) in ["p50", "p95"].iter().enumerate() {
        assert_eq!(latency[name], answer["columns"][i]["values"][0], "{name}");
    }
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
    // The slowest are, with the largest of all durations among them.
    let list = |column: &str| all["slowest"][column].as_array().expect("a column");
    let largest = list("ttft_ms")
        .iter()
        .filter_map(Value::as_f64)
        .fold(0.0, f64::max);
    let points = all["figures"]["latencies"][0]["points"]
        .as_array()
        .expect("points");
    assert_eq!(Some(largest), points.last().and_then(|p| p[0].as_f64()));
    assert!((60..=120).contains(&list("row").len()));
    assert_eq!(all["figures"]["latencies"][0]["n"], all["figures"]["sent"]);
    // A page has a limit, regardless of how much is requested.
    let most = many.get("/api/v1/studies/many/tables/load.requests?cell=&from=0&to=1000000");
    assert_eq!(most.json()["rows"].as_array().map(Vec::len), Some(24_000));
}

#[test]
fn a_bundle_published_without_chunks_can_be_compared_and_has_goodput() {
    let bundle = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/gpu-study/two-engines/two-engines.tar.zst"
    );
    let project = Project::new();
    let explorer = Explorer::of(&project, &[bundle]);
    const STUDY: &str = "/api/v1/studies/two-engines";
    let contrast = explorer.get(&format!(
        "{STUDY}/contrast?stage=ladder&axis=engine&a=sglang&b=vllm"
    ));
    assert_eq!(contrast.status, 200, "{}", contrast.json());
    assert_eq!(contrast.json()["results"]["table"], "results.cells");
    // Its rows do not hold the tokens of first chunks, so TPOT has no bound; the other metrics have theirs.
    let objective = explorer.get(&format!("{STUDY}/objective?stage=ladder"));
    assert_eq!(objective.status, 200, "{}", objective.json());
    let objective = objective.json();
    let steps = |i: usize| objective["metrics"][i]["steps"].as_array().map(Vec::len);
    assert_eq!(
        (steps(0) > Some(0), steps(1)),
        (true, Some(0)),
        "{objective}"
    );
    let note = objective["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("tpot_ms has no bound: "), "{note}");
    // Objects that the authors left out do not count as damage.
    let chunks = explorer.get(&format!("{STUDY}/tables/ladder.chunks?from=0&to=1"));
    assert_eq!(chunks.status, 404);
    let hint = chunks.json()["hint"].clone();
    assert_eq!(
        hint,
        "the bundle was published without prompts and chunks; ask its authors for them"
    );
}
