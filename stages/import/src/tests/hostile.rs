//! Files whose numbers cannot be, or contradict each other.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const GENAI_PERF: &str = include_str!("../../tests/files/genai-perf.json");

/// A file of each tool.
const FILES: [(Tool, &str); 6] = [
    (Tool::Vllm, VLLM),
    (Tool::Sglang, SGLANG),
    (Tool::Guidellm, GUIDELLM),
    (Tool::Aiperf, AIPERF),
    (Tool::Aiperf, AIPERF_AGGREGATES),
    (Tool::GenaiPerf, GENAI_PERF),
];

fn hostile() -> Vec<Value> {
    vec![
        json!(9_000_000_000_000_000_000_i64),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(4_000_000_000_000_000_000_i64),
        json!(-1),
        json!(0.5),
        json!(1e300),
        json!(-1e300),
        json!("NaN"),
        json!("5"),
        json!([]),
        json!([[]]),
        json!({}),
        json!(true),
        Value::Null,
    ]
}

/// Returns every value in a document that holds no other one.
fn leaves(value: &mut Value) -> Vec<&mut Value> {
    let is_leaf = match &value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    match value {
        leaf if is_leaf => vec![leaf],
        Value::Array(items) => items.iter_mut().flat_map(leaves).collect(),
        Value::Object(fields) => fields.values_mut().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

fn documents_of(text: &str) -> Vec<Value> {
    crate::json::documents(text.as_bytes()).unwrap()
}

/// Reads documents as the stage does.
fn whole(tool: Tool, documents: &[Value]) -> Result<(), String> {
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    let import = import(tool);
    let imported = read(&import, lines.join("\n").as_bytes()).map_err(|e| e.to_string())?;
    let made = tables(&import, &imported, "b3:").map_err(|e| e.to_string())?;
    // What is written is read again.
    for (name, table) in made {
        if name == "requests" {
            let rows = <contract::Request as contract::Row>::read(&table).unwrap();
            assert!(rows.iter().all(|row| row.impossible().is_none()));
        }
    }
    Ok(())
}

proptest! {
    /// `PROPTEST_CASES=20000 cargo test -p import any_value` tries more.
    #[test]
    fn any_value_in_place_of_another_is_an_error_or_makes_rows_that_can_be(
        file in 0..FILES.len(),
        places in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        value in any::<proptest::sample::Index>(),
    ) {
        let (tool, text) = FILES[file];
        let mut documents = documents_of(text);
        let values = hostile();
        let value = &values[value.index(values.len())];
        for place in places {
            let mut all: Vec<&mut Value> = documents.iter_mut().flat_map(leaves).collect();
            let at = place.index(all.len());
            *all[at] = value.clone();
        }
        let _either = whole(tool, &documents);
    }
}

#[test]
fn a_number_of_requests_that_contradicts_the_rows_is_noticed() {
    let vllm = |key: &str, value: Value| {
        let mut file: Value = serde_json::from_str(VLLM).unwrap();
        file[key] = value;
        file.to_string()
    };
    let rows = of(Tool::Vllm, VLLM).requests.len() as i64;
    let error = refused(
        Tool::Vllm,
        &vllm("num_prompts", json!(9_000_000_000_000_000_000_i64)),
    );
    assert_eq!(error.place, "$.num_prompts");
    let error = refused(Tool::Vllm, &vllm("num_prompts", json!(rows - 1)));
    assert!(error.message.contains("requests were planned"), "{error}");
    let error = refused(Tool::Vllm, &vllm("failed", json!(rows)));
    assert_eq!(error.place, "$.failed");
    // A data set with fewer prompts than asked for has the same effect as lost requests.
    let imported = of(Tool::Vllm, &vllm("num_prompts", json!(rows + 5)));
    let warning = format!("{} requests were planned", rows + 5);
    assert!(imported.warnings.iter().any(|w| w.contains(&warning)));
    assert!(of(Tool::Vllm, VLLM).warnings.is_empty());
}

#[test]
fn a_report_with_a_sample_of_the_requests_is_refused() {
    let report = |change: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_json::from_str(GUIDELLM).unwrap();
        change(&mut file["benchmarks"][0]);
        file.to_string()
    };
    let sampled = report(&|b| {
        b["requests"]["successful"].as_array_mut().unwrap().pop();
    });
    let error = refused(Tool::Guidellm, &sampled);
    assert!(
        error
            .message
            .contains("7 successful requests, but the report lists 6"),
        "{error}"
    );
    let totals = |errored: i64| {
        let totals = json!({"successful": 7, "errored": errored, "incomplete": 0, "total": 8});
        report(&move |b| b["metrics"]["request_totals"] = totals.clone())
    };
    of(Tool::Guidellm, &totals(1));
    let error = refused(Tool::Guidellm, &totals(100));
    assert!(error.place.ends_with("request_totals.errored"), "{error}");
}

#[test]
fn times_that_no_clock_shows_are_refused_where_they_are() {
    let mut records = documents_of(AIPERF);
    records[0]["metadata"]["request_start_ns"] = json!(9_000_000_000_000_000_000_i64);
    let error = whole(Tool::Aiperf, &records).unwrap_err();
    assert!(error.contains("request_start_ns"), "{error}");
    let mut report = documents_of(GUIDELLM);
    let timings = &mut report[0]["benchmarks"][0]["requests"]["successful"][0]["info"]["timings"];
    timings["targeted_start"] = json!(-1e300);
    let error = whole(Tool::Guidellm, &report).unwrap_err();
    assert!(error.contains("targeted_start"), "{error}");
}

#[test]
fn an_answer_of_another_form_in_a_profile_is_a_failed_row() {
    let mut file: Value = serde_json::from_str(GENAI_PERF).unwrap();
    let responses = &mut file["experiments"][0]["requests"][0]["response_outputs"];
    responses[0]["response"] = json!("data: {\"choices\":[{\"delta\":{\"content\":5}}]}\n\n");
    let row = &of(Tool::GenaiPerf, &file.to_string()).requests[0];
    assert_eq!(row.status, RequestStatus::Failed);
    assert!(row.error.as_ref().unwrap().contains("`content`"), "{row:?}");
}

#[test]
fn a_key_that_is_in_a_file_twice_is_refused() {
    for (tool, text) in FILES {
        let at = text.find('{').unwrap() + 1;
        let twice = format!("{}\"x\": 1, \"x\": 2, {}", &text[..at], &text[at..]);
        let refused = read(&import(tool), twice.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("an object has the key"), "{refused}");
    }
}
