//! Every reader, against a file that its tool wrote and against broken files.

mod agreement;
mod columns;
mod hostile;
mod tools;

use artifacts::Table;
use contract::{RequestStatus, TokenSource};
use proptest::prelude::*;
use serde_json::json;

use crate::json::ImportError;
use crate::rows::{Clock, Imported};
use crate::settings::{ColumnSource, Import, Tool, Unit, Wanted};
use crate::stage::read;
use crate::tables::tables;

const VLLM: &str = include_str!("../tests/files/vllm.json");
const SGLANG: &str = include_str!("../tests/files/sglang.jsonl");
const GUIDELLM: &str = include_str!("../tests/files/guidellm.json");
const AIPERF: &str = include_str!("../tests/files/aiperf.jsonl");
const AIPERF_AGGREGATES: &str = include_str!("../tests/files/profile_export_aiperf.json");

fn import(tool: Tool) -> Import {
    Import {
        tool,
        file: None,
        version: None,
        entry: None,
        rows: None,
        only: Default::default(),
        columns: Default::default(),
        digest: None,
        tables: Default::default(),
    }
}

pub(super) fn of(tool: Tool, text: &str) -> Imported {
    read(&import(tool), text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", tool.word()))
}

pub(super) fn refused(tool: Tool, text: &str) -> ImportError {
    read(&import(tool), text.as_bytes()).expect_err("the file is broken")
}

fn column(from: &str, unit: Option<Unit>) -> ColumnSource {
    ColumnSource {
        from: Some(from.to_owned()),
        unit,
        ok: Vec::new(),
        value: None,
    }
}

fn csv_map() -> Import {
    let mut import = import(Tool::Csv);
    import
        .columns
        .insert("sent".to_owned(), column("start", Some(Unit::S)));
    import
        .columns
        .insert("ttft".to_owned(), column("ttft_ms", Some(Unit::Ms)));
    import
        .columns
        .insert("output_tokens".to_owned(), column("tokens", None));
    import
        .columns
        .insert("error".to_owned(), column("error", None));
    import
}

/// Returns the files with rows. Each tool sent eight requests of eight tokens, and one of them
/// received a 500.
fn with_rows() -> [(Tool, &'static str); 4] {
    [
        (Tool::Vllm, VLLM),
        (Tool::Sglang, SGLANG),
        (Tool::Guidellm, GUIDELLM),
        (Tool::Aiperf, AIPERF),
    ]
}

fn statistic(imported: &Imported, metric: &str, statistic: &str) -> f64 {
    let value = imported
        .summary
        .iter()
        .find(|s| s.metric == metric && s.statistic == statistic);
    value
        .unwrap_or_else(|| panic!("no {statistic} of {metric}"))
        .value
}

pub(super) fn mean(values: impl Iterator<Item = i64>) -> f64 {
    let all: Vec<i64> = values.collect();
    all.iter().sum::<i64>() as f64 / all.len() as f64 / 1e6
}

pub(super) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * b.abs()
}

#[test]
fn every_tool_gives_one_row_a_request_and_keeps_the_failed_one() {
    for (tool, text) in with_rows() {
        let imported = of(tool, text);
        let measured: Vec<_> = imported.requests.iter().filter(|row| !row.warmup).collect();
        assert_eq!(measured.len(), 8, "{}", tool.word());
        let failed: Vec<_> = measured
            .iter()
            .filter(|row| row.status != RequestStatus::Ok)
            .collect();
        let [failed] = failed.as_slice() else {
            panic!("{}: {} failed", tool.word(), failed.len())
        };
        assert!(
            failed.error.is_some() && failed.output_tokens.is_none(),
            "{}: {failed:?}",
            tool.word()
        );
        assert_eq!(failed.first_token_ns, None);
        for row in measured
            .iter()
            .filter(|row| row.status == RequestStatus::Ok)
        {
            assert_eq!(row.output_tokens, Some(8));
            let order = [
                row.sent_ns,
                row.first_token_ns,
                row.last_token_ns,
                row.done_ns.or(row.last_token_ns),
            ];
            assert!(
                order.windows(2).all(|w| w[0].unwrap() <= w[1].unwrap()),
                "{}: {row:?}",
                tool.word()
            );
        }
        assert!(!imported.mapping.is_empty());
    }
}

#[test]
fn the_rows_give_each_tools_own_mean_time_to_first_token_again() {
    for (tool, text, metric, name) in [
        (Tool::Vllm, VLLM, "ttft", "mean"),
        (Tool::Sglang, SGLANG, "ttft", "mean"),
        (Tool::Guidellm, GUIDELLM, "time_to_first_token_ms", "mean"),
    ] {
        let imported = of(tool, text);
        let ok = imported
            .requests
            .iter()
            .filter(|row| row.status == RequestStatus::Ok);
        let again = mean(ok.map(|row| row.first_token_ns.unwrap() - row.sent_ns.unwrap()));
        let stated = statistic(&imported, metric, name);
        assert!(
            near(again, stated),
            "{}: {again} from the rows, {stated} in the file",
            tool.word()
        );
    }
    let rows = of(Tool::Aiperf, AIPERF);
    let ok = rows
        .requests
        .iter()
        .filter(|row| row.status == RequestStatus::Ok && !row.warmup);
    let again = mean(ok.map(|row| row.first_token_ns.unwrap() - row.sent_ns.unwrap()));
    let stated = statistic(
        &of(Tool::Aiperf, AIPERF_AGGREGATES),
        "time_to_first_token",
        "avg",
    );
    assert!(
        near(again, stated),
        "{again} from the records, {stated} in the aggregates"
    );
}

#[test]
fn gaps_between_chunks_become_rows_where_the_file_has_them() {
    for (tool, text) in with_rows() {
        let imported = of(tool, text);
        let chunks: Vec<_> = imported
            .requests
            .iter()
            .filter_map(|row| row.chunks_ns.clone())
            .collect();
        if tool == Tool::Guidellm {
            assert!(chunks.is_empty(), "GuideLLM keeps no times of chunks");
            continue;
        }
        assert!(
            chunks
                .iter()
                .all(|times| times.len() >= 8 && times.is_sorted()),
            "{}",
            tool.word()
        );
    }
    let vllm = of(Tool::Vllm, VLLM);
    let gaps = vllm
        .requests
        .iter()
        .filter_map(|row| row.chunks_ns.as_ref());
    let gaps: Vec<i64> = gaps
        .flat_map(|times| times.windows(2).map(|w| w[1] - w[0]))
        .collect();
    assert!(near(
        mean(gaps.into_iter()),
        statistic(&vllm, "itl", "mean")
    ));
}

#[test]
fn without_start_times_each_row_counts_from_its_own_sending() {
    let imported = of(Tool::Sglang, SGLANG);
    assert_eq!(imported.facts.clock, Clock::Request);
    assert!(
        imported
            .requests
            .iter()
            .all(|row| row.sent_ns == Some(0) && row.done_ns.is_none())
    );
    assert_eq!(of(Tool::Vllm, VLLM).facts.clock, Clock::Cell);
}

#[test]
fn who_counted_tokens_is_null_unless_the_file_says_it() {
    for (tool, text) in with_rows() {
        let source = of(tool, text).requests[0].tokens_source;
        let expected_source = (tool == Tool::Aiperf).then_some(TokenSource::Usage);
        assert_eq!(source, expected_source, "{}", tool.word());
    }
}

#[test]
fn a_status_code_is_kept_where_the_file_has_it() {
    for (tool, text, status, code) in [
        (Tool::Guidellm, GUIDELLM, "http_error", Some(500)),
        (Tool::Aiperf, AIPERF, "http_error", Some(500)),
        (Tool::Sglang, SGLANG, "failed", None),
    ] {
        let imported = of(tool, text);
        let failed = imported
            .requests
            .iter()
            .find(|row| row.status != RequestStatus::Ok)
            .unwrap();
        assert_eq!(
            (failed.status.word(), failed.http_status),
            (status, code),
            "{}",
            tool.word()
        );
    }
}

#[test]
fn warm_up_requests_are_rows_of_their_own_phase() {
    let imported = of(Tool::Aiperf, AIPERF);
    assert_eq!(imported.requests.iter().filter(|row| row.warmup).count(), 2);
}

#[test]
fn a_file_of_aggregates_has_a_summary_and_no_rows() {
    let aggregates = of(Tool::Aiperf, AIPERF_AGGREGATES);
    assert_eq!(aggregates.facts.tool_version.as_deref(), Some("0.13.0"));
    let mut plain: serde_json::Value = serde_json::from_str(VLLM).unwrap();
    for key in [
        "input_lens",
        "output_lens",
        "start_times",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
    ] {
        plain
            .as_object_mut()
            .unwrap()
            .remove(key)
            .expect("what --save-detailed adds");
    }
    for (tool, imported) in [
        (Tool::Aiperf, aggregates),
        (Tool::Vllm, of(Tool::Vllm, &plain.to_string())),
    ] {
        assert!(imported.requests.is_empty() && !imported.summary.is_empty());
        let names: Vec<&str> = tables(&import(tool), &imported, "b3:0")
            .unwrap()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["requests", "cell", "summary"]);
    }
}

#[test]
fn every_tool_becomes_the_declared_tables() {
    let csv = "start,ttft_ms,tokens,error\n1,50.25,8,\n2,,,\"lost\"\n";
    let files = with_rows().into_iter().chain([
        (Tool::GenaiPerf, super::tests_genai_perf::GENAI_PERF),
        (Tool::Aiperf, AIPERF_AGGREGATES),
    ]);
    let mut all: Vec<(Import, Imported)> = files
        .map(|(tool, text)| (import(tool), of(tool, text)))
        .collect();
    let mapped = read(&csv_map(), csv.as_bytes()).unwrap();
    all.push((csv_map(), mapped));
    for (import, imported) in all {
        for (name, table) in tables(&import, &imported, "b3:0").unwrap() {
            let differences = contract::declared(name).unwrap().differences(&table);
            assert_eq!(differences, [""; 0], "{}", import.tool.word());
            if name == "cell" {
                assert_eq!(table.text("source").unwrap(), [Some("imported")]);
            }
        }
    }
}

#[test]
fn a_phase_that_is_none_is_refused_and_not_taken_as_measured() {
    let mut map = csv_map();
    map.columns
        .insert("phase".to_owned(), column("phase", None));
    let text =
        |phase: &str| format!("start,ttft_ms,tokens,error,phase\n1,1,1,,warmup\n2,1,1,,{phase}\n");
    let imported = read(&map, text("measured").as_bytes()).unwrap();
    let warmup: Vec<bool> = imported.requests.iter().map(|row| row.warmup).collect();
    assert_eq!(warmup, [true, false]);
    let error = read(&map, text("profiling").as_bytes()).unwrap_err();
    assert_eq!(
        error.message,
        "`profiling` is not a known phase; known are warmup, measured"
    );
}

#[test]
fn a_broken_file_is_refused_with_its_place() {
    let vllm = |from: &str, to: &str| {
        assert!(VLLM.contains(from), "{from}");
        VLLM.replacen(from, to, 1)
    };
    let first_ttft = |to: &str| vllm("\"ttfts\": [", &format!("\"ttfts\": [{to}, "));
    for (text, place, part) in [
        (
            VLLM[..VLLM.len() / 2].to_owned(),
            "line 1, column",
            "ends in the middle",
        ),
        (
            "{\"completed\": }".to_owned(),
            "line 1, column 15",
            "not JSON",
        ),
        (String::new(), "", "empty"),
        (first_ttft("NaN"), "$.ttfts[0]", "`NaN` is not a number"),
        (
            first_ttft("-0.05"),
            "$.ttfts[0]",
            "the time -0.05 is negative",
        ),
        (first_ttft("0.05"), "$.itls", "8 entries, but `ttfts` has 9"),
        (
            first_ttft("\"0.05\""),
            "$.ttfts[0]",
            "a number was expected",
        ),
        (
            vllm("\"completed\": 7", "\"completed\": 8"),
            "$.completed",
            "the lists hold 7",
        ),
        (
            SGLANG.to_owned(),
            "",
            "this file was written by sglang, not vllm",
        ),
        (
            AIPERF.to_owned(),
            "",
            "this file was written by aiperf, not vllm",
        ),
        (
            GUIDELLM.to_owned(),
            "",
            "this file was written by guidellm, not vllm",
        ),
        (format!("{VLLM}\n{VLLM}"), "", "the file holds 2 results"),
        ("{}".to_owned(), "$", "there is no `completed`"),
    ] {
        let error = refused(Tool::Vllm, &text);
        assert!(
            error.place.starts_with(place) && error.message.contains(part),
            "{error} / {place} {part}"
        );
        assert!(!error.hint.is_empty());
    }
    let reversed = AIPERF.replacen("\"unit\":\"ms\"", "\"unit\":\"s\"", 400);
    assert_eq!(
        refused(Tool::Aiperf, &reversed).message,
        "the unit is `s`, not `ms`"
    );
}

#[test]
fn one_result_of_several_is_chosen_by_its_number() {
    let second = VLLM.replacen("\"completed\": 7", "\"completed\": 7, \"second\": true", 1);
    let chosen = Import {
        entry: Some(2),
        ..import(Tool::Vllm)
    };
    let both = format!("{VLLM}\n{second}");
    assert_eq!(read(&chosen, both.as_bytes()).unwrap().requests.len(), 8);
    let beyond = Import {
        entry: Some(3),
        ..import(Tool::Vllm)
    };
    assert!(
        read(&beyond, both.as_bytes())
            .unwrap_err()
            .message
            .contains("the file has no result 3")
    );
}

#[test]
fn a_version_that_the_file_contradicts_is_refused() {
    let settings = Import {
        version: Some("0.7.0".to_owned()),
        ..import(Tool::Guidellm)
    };
    let error = read(&settings, GUIDELLM.as_bytes()).unwrap_err();
    assert_eq!(
        error.message,
        "this file was written by guidellm 0.8.1, not 0.7.0"
    );
}

#[test]
fn answers_that_were_not_streamed_have_no_first_token() {
    let mut whole: serde_json::Value = serde_json::from_str(VLLM).unwrap();
    for gaps in whole["itls"].as_array_mut().unwrap() {
        *gaps = json!([]);
    }
    let imported = of(Tool::Vllm, &whole.to_string());
    assert_eq!(imported.facts.streamed, Some(false));
    assert!(
        imported
            .requests
            .iter()
            .all(|row| row.first_token_ns.is_none())
    );
    assert!(imported.warnings[0].contains("not streamed"));
}

proptest! {
    #[test]
    fn a_file_cut_anywhere_is_an_error_and_never_a_panic(at in 0..VLLM.trim_end().len()) {
        let cut = &VLLM.as_bytes()[..at];
        prop_assert!(read(&import(Tool::Vllm), cut).is_err());
    }

    #[test]
    fn a_changed_byte_never_makes_a_reader_panic(at in 0..AIPERF.len(), byte in 0_u8..128) {
        let mut bytes = AIPERF.as_bytes().to_vec();
        bytes[at] = byte;
        let _either = read(&import(Tool::Aiperf), &bytes);
    }

    #[test]
    fn a_decimal_time_keeps_every_digit(seconds in 0_i64..4_000_000_000, ns in 0_i64..1_000_000_000) {
        let text = format!("start,ttft_ms,tokens,error\n0,1,1,\n{seconds}.{ns:09},1,1,\n");
        let imported = read(&csv_map(), text.as_bytes()).unwrap();
        prop_assert_eq!(imported.requests[1].sent_ns, Some(seconds * 1_000_000_000 + ns));
    }
}

#[test]
fn reports_one_after_the_other_in_a_file_are_not_read_as_one() {
    let twice = format!("{GUIDELLM}\n{GUIDELLM}");
    let error = read(&import(Tool::Guidellm), twice.as_bytes()).unwrap_err();
    assert!(error.message.contains("2 reports"), "{error}");
}

#[test]
fn records_of_two_runs_of_aiperf_are_noticed() {
    let twice = format!("{AIPERF}{AIPERF}");
    let error = read(&import(Tool::Aiperf), twice.as_bytes()).unwrap_err();
    assert!(error.place.ends_with("metadata.x_request_id"), "{error}");
    assert!(
        error.message.starts_with("record 1 has the same"),
        "{error}"
    );
    // The same records with requests of their own, as a second run writes them.
    let other = AIPERF.replace("\"x_request_id\":\"", "\"x_request_id\":\"other-");
    let imported = of(Tool::Aiperf, &format!("{AIPERF}{other}"));
    let [warning] = imported.warnings.as_slice() else {
        panic!("{:?}", imported.warnings)
    };
    assert!(warning.contains("turn 0 of session 0"), "{warning}");
}

#[test]
fn a_file_that_is_no_json_is_refused_with_what_it_is() {
    for (bytes, message, remedy) in [
        (b"\x1f\x8b\x08".as_slice(), "gzip", "gunzip"),
        (b"\xff\xfe{\0", "UTF-16", "iconv"),
        (b"<!DOCTYPE html>", "a web page", "download"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "Git LFS",
            "git lfs pull",
        ),
        (b"[1]", "an object was expected, found [1]", "unchanged"),
        (b"null", "an object was expected, found null", "unchanged"),
    ] {
        for (tool, _) in with_rows() {
            let error = read(&import(tool), bytes).unwrap_err();
            assert!(error.message.contains(message), "{}: {error}", tool.word());
            assert!(error.hint.contains(remedy), "{}", error.hint);
        }
    }
}
