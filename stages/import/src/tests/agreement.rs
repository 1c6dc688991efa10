//! Files whose parts contradict each other.

use serde_json::{Value, json};

use super::{GUIDELLM, SGLANG, VLLM, import, of};
use crate::rows::Imported;
use crate::settings::{ColumnSource, Import, Tool, Unit};
use crate::stage::read;

/// Returns the warnings of contradictions.
fn contradictions(imported: &Imported) -> Vec<&str> {
    let all = imported.warnings.iter().map(String::as_str);
    all.filter(|warning| warning.starts_with("the file states a "))
        .collect()
}

fn changed(tool: Tool, text: &str, change: &dyn Fn(&mut Value)) -> Imported {
    let mut value: Value = serde_json::from_str(&text.replace("Infinity", "\"inf\"")).unwrap();
    change(&mut value);
    of(tool, &value.to_string())
}

/// Multiplies every number of a list, also in its lists.
fn scale(list: &mut Value, factor: f64) {
    for item in list.as_array_mut().unwrap() {
        match item.as_f64() {
            Some(value) => *item = json!(value * factor),
            None => scale(item, factor),
        }
    }
}

#[test]
fn what_the_tools_wrote_does_not_contradict_itself() {
    for (tool, text) in [
        (Tool::Vllm, VLLM),
        (Tool::Sglang, SGLANG),
        (Tool::Guidellm, GUIDELLM),
    ] {
        let imported = changed(tool, text, &|_| ());
        assert_eq!(
            contradictions(&imported),
            Vec::<&str>::new(),
            "{}",
            tool.word()
        );
    }
}

#[test]
fn lists_in_another_unit_or_of_another_run_are_noticed() {
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Value), &'a str);
    let cases: [Case<'_>; 5] = [
        (
            "ttfts",
            &|v| scale(&mut v["ttfts"], 1e3),
            "mean `ttft` of 54.06 ms",
        ),
        (
            "itls",
            &|v| scale(&mut v["itls"], 1e3),
            "mean `itl` of 9.964 ms",
        ),
        (
            "output_lens",
            &|v| v["output_lens"] = json!([80, 80, 80, 80, 80, 80, 80, 80]),
            "`total_output_tokens` of 56 tok",
        ),
        (
            "start_times",
            &|v| scale(&mut v["start_times"], 1e3),
            "`duration` of 0.5374 s",
        ),
        (
            "duration",
            &|v| v["duration"] = json!(0.01),
            "`duration` of 0.01 s",
        ),
    ];
    for (name, change, part) in cases {
        let imported = changed(Tool::Vllm, VLLM, change);
        let all = contradictions(&imported);
        assert!(
            all.iter().any(|warning| warning.contains(part)),
            "{name}: {all:?}"
        );
    }
    let imported = changed(Tool::Sglang, SGLANG, &|v| scale(&mut v["ttfts"], 1e3));
    assert!(
        contradictions(&imported)[0].contains("mean `ttft` of 56.3 ms, but its rows give 56295 ms")
    );
    let imported = changed(Tool::Guidellm, GUIDELLM, &|v| {
        for request in v["benchmarks"][0]["requests"]["successful"]
            .as_array_mut()
            .unwrap()
        {
            request["output_tokens"] = json!(80);
        }
    });
    assert!(contradictions(&imported)[0].contains("mean `output_token_count` of 8 tok"));
}

#[test]
fn a_figure_rounded_by_hand_is_no_contradiction() {
    let imported = changed(Tool::Vllm, VLLM, &|v| {
        v["mean_ttft_ms"] = json!(54.1);
        v["duration"] = json!(0.54);
    });
    assert_eq!(contradictions(&imported), Vec::<&str>::new());
}

fn csv(columns: &[(&str, ColumnSource)]) -> Import {
    let mut csv = import(Tool::Csv);
    let owned = columns.iter().cloned();
    csv.columns = owned
        .map(|(name, source)| (name.to_owned(), source))
        .collect();
    csv
}

fn from(name: &str) -> ColumnSource {
    ColumnSource {
        from: Some(name.to_owned()),
        ..ColumnSource::default()
    }
}

fn all_ok() -> ColumnSource {
    ColumnSource {
        value: Some("ok".to_owned()),
        ..ColumnSource::default()
    }
}

#[test]
fn a_refused_request_that_counts_as_ok_is_named() {
    let map = csv(&[("http_status", from("code")), ("status", all_ok())]);
    let imported = read(&map, b"code\n200\n500\n429\n").unwrap();
    assert!(
        imported.warnings[0]
            .starts_with("the map counts 2 requests with an HTTP status of 400 or more as ok")
    );
    let imported = read(&map, b"code\n200\n204\n").unwrap();
    assert_eq!(imported.warnings, Vec::<String>::new());
}

#[test]
fn the_unit_at_the_end_of_a_name_is_read_in_every_notation() {
    for (name, unit) in [
        ("ttft_ms", Some(Unit::Ms)),
        ("TTFT (ms)", Some(Unit::Ms)),
        ("TTFT [s]", Some(Unit::S)),
        ("latency.us", Some(Unit::Us)),
        ("latency \u{3bc}s", Some(Unit::Us)),
        ("ttftMs", Some(Unit::Ms)),
        ("latencySeconds", Some(Unit::S)),
        ("start-ns", Some(Unit::Ns)),
        ("time_to_first_token_milliseconds", Some(Unit::Ms)),
        ("ttft", None),
        ("ms", None),
        ("items", None),
        ("requests", None),
        ("TTFTS", None),
        ("ttft_ms_p50", None),
        ("", None),
        ("(", None),
    ] {
        assert_eq!(Unit::of_name(name), unit, "{name}");
    }
    let seconds = ColumnSource {
        unit: Some(Unit::S),
        ..from("TTFT (ms)")
    };
    let map = csv(&[("ttft", seconds), ("status", all_ok())]);
    let error = read(&map, b"TTFT (ms)\n50\n").unwrap_err();
    assert_eq!(
        error.message,
        "its unit is ms, but the map gives s for `ttft`"
    );
}

#[test]
fn tables_of_load_generators_that_have_no_row_for_a_request_are_noticed() {
    let median = ColumnSource {
        unit: Some(Unit::Ms),
        ..from("Median Response Time")
    };
    let map = csv(&[("request_latency", median), ("status", all_ok())]);
    let locust =
        b"Type,Name,Request Count,Failure Count,Median Response Time\nPOST,/v1,100,2,120\n";
    assert!(read(&map, locust).unwrap_err().message.contains("Locust"));
    let history = b"Timestamp,Name,Total Request Count,Total Failure Count,Median Response Time\n1,/v1,100,2,120\n";
    assert!(read(&map, history).unwrap_err().message.contains("Locust"));
    let [sent, latency] =
        [("timestamp", Unit::S), ("metric_value", Unit::Ms)].map(|(name, unit)| ColumnSource {
            unit: Some(unit),
            ..from(name)
        });
    let k6 = b"metric_name,timestamp,metric_value\nhttp_req_duration,1700000000,123.4\n";
    let map = csv(&[
        ("sent", sent),
        ("request_latency", latency.clone()),
        ("status", all_ok()),
    ]);
    assert!(read(&map, k6).unwrap().warnings[0].contains("k6 stamps"));
    let map = csv(&[("request_latency", latency), ("status", all_ok())]);
    assert_eq!(read(&map, k6).unwrap().warnings, Vec::<String>::new());
    let mixed = [k6, b"http_req_waiting,1700000000,99.5\n".as_slice()].concat();
    let [warning] = read(&map, &mixed).unwrap().warnings.try_into().unwrap();
    assert!(
        warning.contains("the rows of 2 metrics count as requests"),
        "{warning}"
    );
    let mut chosen = map;
    let metric = crate::settings::Wanted::Text("http_req_duration".to_owned());
    chosen.only.insert("metric_name".to_owned(), metric);
    assert_eq!(
        read(&chosen, &mixed).unwrap().warnings,
        Vec::<String>::new()
    );
}

#[test]
fn a_time_that_has_the_name_of_a_statistic_is_doubted() {
    for (name, is_doubted) in [
        ("mean_ttft_ms", true),
        ("P99 TTFT (ms)", true),
        ("ttft.avg", true),
        ("ttft_ms", false),
        ("p1_ms", false),
        ("meantime", false),
        ("span", false),
    ] {
        let source = ColumnSource {
            unit: Some(Unit::Ms),
            ..from(name)
        };
        let map = csv(&[("ttft", source), ("status", all_ok())]);
        let warnings = read(&map, format!("{name}\n50\n").as_bytes())
            .unwrap()
            .warnings;
        assert_eq!(!warnings.is_empty(), is_doubted, "{name}: {warnings:?}");
    }
}

#[test]
fn a_stated_unit_that_is_no_unit_of_time_here_is_refused() {
    use artifacts::{Column, Table};
    let file = |unit: &str| {
        let table = Table::new(vec![Column::float("latency", [Some(0.5)]).unit(unit)]);
        table.unwrap().to_parquet().unwrap()
    };
    let seconds = ColumnSource {
        unit: Some(Unit::S),
        ..from("latency")
    };
    let map = Import {
        tool: Tool::Parquet,
        ..csv(&[("request_latency", seconds), ("status", all_ok())])
    };
    for unit in ["s", "Seconds since 1970", "sec"] {
        let imported = read(&map, &file(unit)).unwrap();
        assert_eq!(imported.requests[0].done_ns, Some(500_000_000), "{unit}");
    }
    let error = read(&map, &file("min")).unwrap_err();
    assert_eq!(
        error.message,
        "its unit is `min`, and `request_latency` needs s, ms, us or ns"
    );
}
