//! A study with two load stages of the same axes, with warm-up: which stage a value belongs to, which cell a row belongs
//! to, and figures that are those of the tables of results.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use super::{Explorer, escaped};
use crate::support::Project;

const STUDY: &str = "/api/v1/studies/two";

/// The study, measured once. `clients` are the labels of the axis.
fn text(name: &str, clients: &str) -> String {
    let load = |stage: &str, tokens: u32| {
        format!(
            "  {stage}:\n    kind: load\n    over: [server, clients]\n    workload: {{description: Few words., prompts: {{words: {{length: 4}}}}, output: {{tokens: {tokens}}}}}\n    \
             arrival: {{closed-loop: {{clients: \"${{clients}}\"}}}}\n    requests: 12\n    warmup: 4\n    simulate: {{server: \"${{server.s}}\"}}\n"
        )
    };
    format!(
        "experiment: {name}\nseed: 5\naxes:\n  server: {{one: {{s: batching}}, other: {{s: serial}}}}\n  clients: [{clients}]\nstages:\n{}{}  checks: {{kind: verify, needs: [long, short], gates: [{{gate: census}}]}}\n  results:\n    \
         kind: analyze\n    needs: [long, short, checks]\n    tables:\n      cells: {{operator: cell-summary, load: short}}\n      long_cells: {{operator: cell-summary, load: long}}\n      \
         long_means: {{operator: aggregate, from: long_cells, over: [server], columns: [output_throughput]}}\n",
        load("long", 24),
        load("short", 2),
    )
}

static PROJECT: LazyLock<Project> = LazyLock::new(|| {
    let project = Project::new();
    for (name, clients) in [("two", "1, 2"), ("apart", "3, 4")] {
        let file = format!("{name}.yaml");
        fs::write(project.path().join(&file), text(name, clients)).expect("it can be written");
        project.run(["run", &file, "--quiet"]).ok();
    }
    project
});

fn column(table: &Value, name: &str) -> Vec<Value> {
    let columns = table["columns"].as_array().expect("columns");
    let column = columns.iter().find(|c| c["name"] == name);
    let values = column.map(|c| c["values"].as_array().expect("values"));
    values.unwrap_or_else(|| panic!("no {name}")).clone()
}

#[test]
fn each_table_names_the_load_stages_whose_values_it_shows() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let overview = explorer.get(STUDY).json();
    let tables = overview["tables"].as_array().expect("tables");
    let reads = |name: &str| {
        let table = tables.iter().find(|t| t["name"] == name);
        table.unwrap_or_else(|| panic!("no {name}"))["reads"].clone()
    };
    assert_eq!(reads("results.cells"), serde_json::json!(["short"]));
    assert_eq!(reads("results.long_cells"), serde_json::json!(["long"]));
    // Through another table.
    assert_eq!(reads("results.long_means"), serde_json::json!(["long"]));
    assert_eq!(reads("short.requests"), serde_json::json!(["short"]));
}

#[test]
fn two_labels_are_compared_in_the_tables_of_their_stage() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let ask = |stage: &str, more: &str| {
        let target = format!("{STUDY}/contrast?stage={stage}&axis=server&a=one&b=other{more}");
        explorer.get(&target).json()["results"].clone()
    };
    assert_eq!(ask("short", "")["table"], "results.cells");
    assert_eq!(ask("long", "")["table"], "results.long_cells");
    // A named table says whose values it has.
    let other = ask("short", "&table=results.long_cells");
    assert_eq!(other["reads"], serde_json::json!(["long"]));
}

#[test]
fn output_of_a_cell_is_the_same_in_its_figures_and_in_the_table_of_cells() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let cells = explorer
        .get(&format!("{STUDY}/tables/results.cells"))
        .json();
    for (row, expected) in column(&cells, "output_throughput").iter().enumerate() {
        let label = |axis: &str| match &column(&cells, axis)[row] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let at = format!("server={},clients={}", label("server"), label("clients"));
        let target = format!("{STUDY}/activity?stage=short&cell={}", escaped(&at));
        let figures = explorer.get(&target).json()["figures"].clone();
        let [rate, expected] = [&figures["output_rate"], expected].map(Value::as_f64);
        let [rate, expected] = [rate, expected].map(|v| v.expect("a number"));
        assert!(
            (rate / expected - 1.0).abs() < 1e-9,
            "{at}: {rate} and {expected}"
        );
    }
}

#[test]
fn a_row_of_a_table_over_cells_names_its_cell_and_its_place_there() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let page = explorer.get(&format!("{STUDY}/tables/short.requests?from=15&to=17"));
    let page = page.json();
    let [first, second] = [0, 1].map(|i| page["cell"][i].as_str().expect("a cell").to_owned());
    assert_ne!(first, second, "the first cell has 16 rows");
    assert_eq!(page["cell_row"], serde_json::json!([15, 0]));
    let target = format!(
        "{STUDY}/tables/short.requests?cell={}&to=1",
        escaped(&second)
    );
    let own = explorer.get(&target).json();
    assert_eq!(column(&own, "sent_ns")[0], column(&page, "sent_ns")[1]);
    assert_eq!(own["cell"], Value::Null, "the question names the cell");
}

#[test]
fn goodput_under_a_bound_between_two_steps_is_what_the_rows_say() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let query = "select (first_token_ns - sent_ns) / 1e6 as ttft from \"long.requests\" where phase = 'measured' order by 1";
    let rows = explorer.get(&format!("{STUDY}/sql?query={}", escaped(query)));
    let ttft: Vec<f64> = column(&rows.json(), "ttft")
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    // Two steps of the same decade are further apart than the two values in the middle.
    let bound = (ttft[ttft.len() / 2 - 1] + ttft[ttft.len() / 2]) / 2.0;
    let target = format!("{STUDY}/objective?stage=long&bound.ttft_ms={bound}");
    let objective = explorer.get(&target).json();
    let steps = objective["metrics"][0]["steps"].as_array().expect("steps");
    let place = steps.iter().position(|step| step.as_f64() == Some(bound));
    let place = place.expect("the bound is a step") as u64;
    let bins = objective["cells"].as_array().expect("cells").iter();
    let bins = bins.flat_map(|cell| cell["bins"].as_array().expect("bins"));
    let met = bins.filter(|bin| bin[0].as_u64() <= Some(place));
    let met: u64 = met.filter_map(|bin| bin[3].as_u64()).sum();
    let expected = ttft.iter().filter(|value| **value <= bound).count();
    assert_eq!(met, expected as u64, "{bound} of {ttft:?}");
    let wrong = explorer.get(&format!("{STUDY}/objective?stage=long&bound.itl_ms=5"));
    assert_eq!(wrong.status, 400);
}

#[test]
fn two_studies_without_a_common_label_have_tables_and_no_cell_in_common() {
    let explorer = Explorer::of(&PROJECT, &[]);
    let ask = |with: &str| {
        let reply = explorer.get(&format!("{STUDY}/compare?with={with}")).json();
        (
            reply["tables_in_both"].clone(),
            reply["cells_in_both"].clone(),
        )
    };
    assert_eq!(ask("apart"), (2.into(), 0.into()));
    assert_eq!(ask("two"), (2.into(), 8.into()));
}
