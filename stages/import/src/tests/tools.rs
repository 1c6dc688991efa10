//! What only one tool's files say: its definitions, its windows and its arrivals.

use contract::RequestStatus;
use serde_json::{Value, json};

use super::{GUIDELLM, SGLANG, VLLM, import, of, refused, statistic};
use crate::rows::Imported;
use crate::settings::Tool;
use crate::tables::tables;

/// Returns an import of a file with other values under some keys of its first object.
fn with(tool: Tool, text: &str, change: impl Fn(&mut Value)) -> Imported {
    let text = text.replace("Infinity", "\"Infinity\"");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    of(tool, &value.to_string())
}

fn names(tool: Tool, imported: &Imported) -> Vec<&'static str> {
    let all = tables(&import(tool), imported, "b3:0").unwrap();
    all.iter().map(|(name, _)| *name).collect()
}

fn definition<'a>(imported: &'a Imported, metric: &str) -> &'a str {
    let mut all = imported.summary.iter();
    let statistic = all.find(|statistic| statistic.metric == metric);
    &statistic.expect("the metric is there").definition
}

/// Four chunks of four tokens, 40 ms apart: the client writes twelve shares of 10 ms.
#[test]
fn shares_of_gaps_do_not_become_chunks() {
    for backend in ["sglang", "sglang-native", "sglang-oai-chat"] {
        let imported = with(Tool::Sglang, SGLANG, |result| {
            result["backend"] = json!(backend);
            for i in 0..8 {
                if result["errors"][i] == "" {
                    result["itls"][i] = json!(vec![0.01; 12]);
                    result["ttfts"][i] = json!(0.05);
                    result["output_lens"][i] = json!(16);
                }
            }
        });
        let ok = imported.requests.iter();
        let mut ok = ok.filter(|row| row.status == RequestStatus::Ok);
        let row = ok.next().unwrap();
        assert_eq!(
            (row.first_token_ns, row.last_token_ns),
            (Some(50_000_000), Some(170_000_000))
        );
        assert_eq!(imported.facts.streamed, Some(true));
        let (has_chunks, said) = match backend {
            "sglang-oai-chat" => (true, "per chunk"),
            _ => (false, "÷ the new tokens of the second"),
        };
        assert_eq!(row.chunks_ns.is_some(), has_chunks, "{backend}");
        assert_eq!(
            names(Tool::Sglang, &imported).contains(&"chunks"),
            has_chunks
        );
        let warned = imported
            .warnings
            .iter()
            .any(|w| w.contains("no table `chunks`"));
        assert_eq!(warned, !has_chunks);
        assert!(definition(&imported, "itl").contains(said), "{backend}");
    }
}

#[test]
fn a_request_without_any_text_among_others_with_text_is_failed() {
    let silent = |result: &mut Value| {
        result["ttfts"][0] = json!(0.0);
        result["itls"][0] = json!([]);
        result["generated_texts"][0] = json!("");
        result["output_lens"][0] = json!(128);
    };
    for (tool, text) in [(Tool::Sglang, SGLANG), (Tool::Vllm, VLLM)] {
        let imported = with(tool, text, silent);
        let row = &imported.requests[0];
        assert_eq!(row.status, RequestStatus::Failed, "{}", tool.word());
        let error = "the tool reports success without any text";
        assert_eq!(row.error.as_deref(), Some(error));
        assert_eq!(row.output_tokens, None);
        let said = "1 request without any text, which the tool counts as completed";
        assert!(imported.warnings.iter().any(|w| w.starts_with(said)));
    }
    // Results of embeddings have no text at all.
    let imported = with(Tool::Sglang, SGLANG, |result| {
        for i in 0..8 {
            silent(result);
            result["ttfts"][i] = json!(0.0);
            result["itls"][i] = json!([]);
            result["generated_texts"][i] = json!("");
        }
    });
    assert_eq!(imported.requests[0].status, RequestStatus::Ok);
}

#[test]
fn requests_outside_the_measured_window_are_not_measured() {
    let mut report: Value = serde_json::from_str(GUIDELLM).unwrap();
    let benchmark = &mut report["benchmarks"][0];
    // The first two answers ended before it.
    benchmark["start_time"] = json!(1_795_246_368.469_430_6);
    benchmark["metrics"]["request_totals"] =
        json!({"successful": 5, "errored": 1, "incomplete": 0});
    benchmark["metrics"]["request_latency"]["successful"]["count"] = json!(5);
    let imported = of(Tool::Guidellm, &report.to_string());
    let outside = imported.requests.iter().filter(|row| row.warmup);
    assert_eq!((imported.requests.len(), outside.count()), (8, 2));
    assert_eq!(imported.facts.expected_requests, Some(6));

    // The last answers began after it.
    let benchmark = &mut report["benchmarks"][0];
    benchmark["end_time"] = json!(1_795_246_368.74);
    benchmark["metrics"]["request_totals"]["successful"] = json!(4);
    benchmark["metrics"]["request_latency"]["successful"]["count"] = json!(4);
    let imported = of(Tool::Guidellm, &report.to_string());
    let outside = imported.requests.iter().filter(|row| row.warmup);
    assert_eq!(outside.count(), 3);

    // A sample lacks requests within the window.
    report["benchmarks"][0]["metrics"]["request_totals"]["successful"] = json!(40);
    let error = refused(Tool::Guidellm, &report.to_string());
    let said = "40 successful requests, but the report lists 4 of the measured time";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn arrivals_are_those_that_the_file_states() {
    let vllm = |change: Value| {
        with(Tool::Vllm, VLLM, |result| {
            for (key, value) in change.as_object().unwrap() {
                result[key] = value.clone();
            }
        })
        .facts
    };
    let inf = json!("inf");
    for (change, arrival, clients, rate) in [
        (
            json!({"request_rate": inf, "max_concurrency": 2}),
            Some("closed-loop"),
            Some(2),
            None,
        ),
        (
            json!({"request_rate": inf, "max_concurrency": null}),
            Some("burst"),
            None,
            None,
        ),
        (
            json!({"request_rate": inf, "max_concurrency": null, "ramp_up_strategy": "linear"}),
            Some("ramp"),
            None,
            None,
        ),
        (
            json!({"request_rate": 2.0, "burstiness": 1.0}),
            Some("poisson"),
            None,
            Some(2.0),
        ),
        (
            json!({"request_rate": 2.0, "burstiness": 0.5}),
            Some("gamma"),
            None,
            Some(2.0),
        ),
        (
            json!({"request_rate": 2.0, "burstiness": null}),
            None,
            None,
            Some(2.0),
        ),
    ] {
        let facts = vllm(change.clone());
        assert_eq!(
            (facts.arrival.as_deref(), facts.clients, facts.rate),
            (arrival, clients, rate),
            "{change}"
        );
    }
    let sglang = |rate: Value, limit: Value, data: &str| {
        with(Tool::Sglang, SGLANG, |result| {
            result["request_rate"] = rate.clone();
            result["max_concurrency"] = limit.clone();
            result["dataset_name"] = json!(data);
        })
        .facts
        .arrival
    };
    let word = |text: &str| Some(text.to_owned());
    let infinite = json!("Infinity");
    assert_eq!(
        sglang(infinite.clone(), json!(2), "random"),
        word("closed-loop")
    );
    assert_eq!(
        sglang(infinite.clone(), Value::Null, "random"),
        word("burst")
    );
    assert_eq!(sglang(json!(4.0), json!(2), "random"), word("poisson"));
    assert_eq!(sglang(infinite, Value::Null, "mooncake"), None);
}

#[test]
fn the_wait_for_a_limit_gives_the_scheduled_moment_of_an_open_load() {
    let waits = json!([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]);
    let with_waits = |rate: Value| {
        with(Tool::Vllm, VLLM, |result| {
            result["request_rate"] = rate.clone();
            result["max_concurrency"] = json!(2);
            result["queue_times"] = waits.clone();
        })
    };
    let open = with_waits(json!(2.0));
    let row = &open.requests[3];
    assert_eq!(
        row.sent_ns.unwrap() - row.scheduled_ns.unwrap(),
        1_500_000_000
    );
    // The wait in line does not count as a lag of the client.
    let all = tables(&import(Tool::Vllm), &open, "b3:0").unwrap();
    let (_, requests) = all.iter().find(|(name, _)| *name == "requests").unwrap();
    assert_eq!(requests.int("send_lag_ns").unwrap()[3], None);
    // In a closed loop, no request is due before its client is free.
    let closed = with_waits(json!("inf"));
    assert!(closed.requests.iter().all(|row| row.scheduled_ns.is_none()));
    assert!(statistic(&closed, "ttft", "mean") > 0.0);
}
