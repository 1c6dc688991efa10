//! Tables of requests, CSV and Parquet, read through a column map.

use super::*;

#[test]
fn a_column_map_reads_times_to_the_nanosecond() {
    let text = "start,ttft_ms,tokens,error\n1795246354.816272761,50.25,8,\n1795246354.816272760,,,\"lost, again\"\n";
    let imported = read(&csv_map(), text.as_bytes()).unwrap();
    assert_eq!(imported.requests[0].sent_ns, Some(1));
    assert_eq!(imported.requests[0].first_token_ns, Some(50_250_001));
    assert_eq!(imported.requests[0].status, RequestStatus::Ok);
    assert_eq!(
        (
            imported.requests[1].sent_ns,
            imported.requests[1].first_token_ns
        ),
        (Some(0), None)
    );
    assert_eq!(imported.requests[1].error.as_deref(), Some("lost, again"));
}

#[test]
fn points_in_time_beyond_all_calendars_are_in_a_smaller_unit() {
    for (start, unit, meant) in [
        ("1795246354816", Unit::S, "ms"),
        ("1795246354816.5", Unit::S, "ms"),
        ("1795246354816272", Unit::S, "us"),
        ("1795246354816272761", Unit::S, "ns"),
        ("1795246354816272761", Unit::Us, "ns"),
    ] {
        let mut map = csv_map();
        map.columns
            .insert("sent".to_owned(), column("start", Some(unit)));
        let text = format!("start,ttft_ms,tokens,error\n{start},5,8,\n");
        let error = read(&map, text.as_bytes()).unwrap_err();
        assert_eq!(error.place, "line 2, column start");
        let (message, hint) = (&error.message, &error.hint);
        assert!(message.contains("is beyond the year 9999"), "{message}");
        assert_eq!(*hint, format!("the unit is smaller: write `unit: {meant}`"));
    }
    // The clocks of a process and of a calendar, and a long duration.
    for start in ["0.5", "1795246354.8", "253402300799"] {
        let text = format!("start,ttft_ms,tokens,error\n{start},5,8,\n");
        assert!(read(&csv_map(), text.as_bytes()).is_ok(), "{start}");
    }
}

#[test]
fn a_broken_table_is_refused_with_line_and_column() {
    for (text, place, part) in [
        (
            "start,ttft_ms,tokens,error\n1,-5,8,\n",
            "line 2, column ttft_ms",
            "negative",
        ),
        (
            "start,ttft_ms,tokens,error\n1,soon,8,\n",
            "line 2, column ttft_ms",
            "expected a time, found `soon`",
        ),
        (
            "start,ttft_ms,tokens,error\n1,NaN,8,\n",
            "line 2, column ttft_ms",
            "expected a time",
        ),
        (
            "start,ttft_ms,tokens,error\n1,5,8.5,\n",
            "line 2, column tokens",
            "expected a count",
        ),
        (
            "start,ttft_ms,tokens,error\n1,5\n",
            "line 2",
            "2 fields, but 4 headings",
        ),
        (
            "start,ttft,tokens,error\n1,5,8,\n",
            "",
            "no column `ttft_ms`",
        ),
    ] {
        let error = read(&csv_map(), text.as_bytes()).unwrap_err();
        assert!(
            error.place == place && error.message.contains(part),
            "{error}"
        );
    }
    let mut wrong = csv_map();
    wrong
        .columns
        .insert("ttft".to_owned(), column("ttft_ms", Some(Unit::S)));
    let error = read(&wrong, b"start,ttft_ms,tokens,error\n1,5,8,\n").unwrap_err();
    assert_eq!(
        error.message,
        "its unit is ms, but the map gives s for `ttft`"
    );
}

#[test]
fn parquet_is_read_through_the_same_map_and_its_units_are_believed() {
    use artifacts::Column;
    let table = Table::new(vec![
        Column::float("latency", [Some(0.5), Some(0.25)]).unit("s"),
        Column::int("tokens", [Some(3), None]),
        Column::text("outcome", [Some("200"), Some("timeout")]),
    ]);
    let bytes = table.unwrap().to_parquet().unwrap();
    let mut map = import(Tool::Parquet);
    map.columns
        .insert("e2e_latency".to_owned(), column("latency", Some(Unit::S)));
    map.columns
        .insert("output_tokens".to_owned(), column("tokens", None));
    let ok = vec!["200".to_owned()];
    map.columns.insert(
        "status".to_owned(),
        ColumnSource {
            ok,
            ..column("outcome", None)
        },
    );
    let imported = read(&map, &bytes).unwrap();
    assert_eq!(imported.requests[0].last_token_ns, Some(500_000_000));
    let statuses: Vec<&str> = imported
        .requests
        .iter()
        .map(|row| row.status.word())
        .collect();
    assert_eq!(statuses, ["ok", "timeout"]);
    assert_eq!(imported.facts.clock, Clock::Request);
    map.columns
        .insert("e2e_latency".to_owned(), column("latency", Some(Unit::Ms)));
    assert!(
        read(&map, &bytes)
            .unwrap_err()
            .message
            .contains("its unit is s, but the map gives ms")
    );
    assert!(read(&map, b"PAR1 and nothing else").is_err());
}

#[test]
fn rows_of_one_big_file_are_picked_by_coordinate() {
    let text = "model,clients,sent,ttft\na,1,0,0.5\na,4.0,1,0.25\nb,1,2,0.75\na,04,3,0.125\n";
    let with = |only: &[(&str, Wanted)]| {
        let times = |from: &str| ColumnSource {
            from: Some(from.to_owned()),
            unit: Some(Unit::S),
            ok: Vec::new(),
            value: None,
        };
        let ok = ColumnSource {
            from: None,
            unit: None,
            ok: Vec::new(),
            value: Some("ok".to_owned()),
        };
        let columns = [
            ("sent", times("sent")),
            ("ttft", times("ttft")),
            ("status", ok),
        ];
        let map = Import {
            only: only
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
            columns: columns
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
            ..import(Tool::Csv)
        };
        read(&map, text.as_bytes())
    };
    let a = || ("model", Wanted::Text("a".to_owned()));
    let rows = |only: &[(&str, Wanted)]| with(only).unwrap().requests.len();
    assert_eq!(rows(&[]), 4);
    assert_eq!(rows(&[a()]), 3);
    assert_eq!(rows(&[a(), ("clients", Wanted::Int(4))]), 2);
    assert_eq!(rows(&[("clients", Wanted::Float(1.0))]), 2);
    for (only, part, hint) in [
        (
            vec![("modell", Wanted::Int(1))],
            "does not have",
            "model, clients",
        ),
        (
            vec![("clients", Wanted::Int(2))],
            "no row has `2`",
            "it holds: 1, 4.0, 04",
        ),
        (
            vec![
                ("model", Wanted::Text("b".to_owned())),
                ("clients", Wanted::Int(4)),
            ],
            "no row has clients=4, model=b together",
            "leave the cell out",
        ),
    ] {
        let error = with(&only).expect_err("it is refused");
        assert!(
            error.to_string().contains(part) && error.hint.contains(hint),
            "{error} ({})",
            error.hint
        );
    }
}

/// Requests as pandas and Arrow write them: categories, decimals, bytes, lists and timestamps (pyarrow 26).
const TYPES: &[u8] = include_bytes!("../../tests/files/types.parquet");

fn types(columns: &[(&str, &str, Option<Unit>)]) -> Result<Imported, ImportError> {
    let mut map = import(Tool::Parquet);
    for (ours, from, unit) in columns {
        map.columns.insert((*ours).to_owned(), column(from, *unit));
    }
    read(&map, TYPES)
}

#[test]
fn categories_and_decimals_of_other_writers_are_texts_and_numbers() {
    let imported = types(&[
        ("sent", "decimal_s", Some(Unit::S)),
        ("output_tokens", "decimal_tokens", None),
        ("status", "category", None),
    ])
    .unwrap();
    let rows = imported.requests.iter();
    let read: Vec<_> = rows
        .map(|row| (row.sent_ns, row.output_tokens, row.status.word()))
        .collect();
    assert_eq!(
        read,
        [
            (Some(0), Some(3), "ok"),
            (Some(250_000_000), Some(4), "timeout"),
            (Some(500_000_000), None, "ok"),
        ]
    );
}

#[test]
fn a_column_of_another_type_is_refused_and_no_request_counts_as_failed_for_it() {
    for (name, from, part) in [
        (
            "status",
            "bytes",
            "expected a text for `status`, found bytes",
        ),
        ("error", "list", "expected a text for `error`, found a list"),
        (
            "phase",
            "object",
            "expected a text for `phase`, found an object",
        ),
        (
            "sent",
            "timestamp",
            "found a date or a timestamp; write it as a number",
        ),
        (
            "sent",
            "zoned",
            "found a date or a timestamp; write it as a number",
        ),
        ("output_tokens", "list", "expected a count, found a list"),
    ] {
        let unit = (name == "sent").then_some(Unit::S);
        let mut map = vec![(name, from, unit)];
        if !["status", "error"].contains(&name) {
            map.push(("status", "category", None));
        }
        let error = types(&map).unwrap_err();
        assert!(error.message.contains(part), "{name}: {error}");
        assert_eq!(error.place, format!("row 1, column {from}"));
    }
}

#[test]
fn a_count_of_tokens_that_no_request_can_have_is_refused() {
    let text = |count: u64| format!("start,ttft_ms,tokens,error\n1,5,8,\n1,5,{count},\n");
    let made = |text: &str| {
        tables(
            &csv_map(),
            &read(&csv_map(), text.as_bytes()).unwrap(),
            "b3:0",
        )
    };
    assert!(made(&text(4_294_967_295)).is_ok());
    let error = made(&text(4_294_967_296)).unwrap_err().to_string();
    assert_eq!(
        error,
        "request 1, attempt 1: `output_tokens` is 4294967296, and a count is between 0 and 4294967295"
    );
}

#[test]
fn a_table_without_rows_as_others_write_it_has_no_requests() {
    let mut map = import(Tool::Parquet);
    map.columns
        .insert("status".to_owned(), column("status", None));
    let empty = include_bytes!("../../tests/files/empty.parquet");
    let imported = read(&map, empty).unwrap();
    assert!(imported.requests.is_empty());
    let [warning] = imported.warnings.as_slice() else {
        panic!("{:?}", imported.warnings)
    };
    assert!(warning.contains("no rows"), "{warning}");
}

#[test]
fn a_column_by_its_name_is_that_column_with_the_unit_that_the_name_ends_with() {
    let import = |columns: serde_json::Value| {
        let settings = serde_json::json!({"tool": "csv", "file": "x.csv", "columns": columns});
        let mut import: Import = serde_json::from_value(settings).unwrap();
        crate::columns::add_units(&mut import);
        import
    };
    let short = import(serde_json::json!({
        "sent": "sent_ms", "ttft": {"from": "first_us"}, "output_tokens": "tokens_s", "status": {"value": "ok"}
    }));
    let full = import(serde_json::json!({
        "sent": {"from": "sent_ms", "unit": "ms"}, "ttft": {"from": "first_us", "unit": "us"},
        "output_tokens": {"from": "tokens_s"}, "status": {"value": "ok"}
    }));
    assert_eq!(short, full);
    assert!(crate::columns::problems(&short).is_empty());
    let bare = import(serde_json::json!({"ttft": "first", "status": {"value": "ok"}}));
    let problems = crate::columns::problems(&bare);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "the unit of `ttft` is unknown");
}

#[test]
fn a_value_that_people_read_as_a_number_is_refused_with_what_to_write() {
    for (value, remedy) in [
        ("\"1,900\"", "nothing between groups"),
        ("910ms", "the number alone"),
        ("910 ms", "the number alone"),
        ("2026-11-21T06:08:57Z", "seconds since 1970"),
        ("2026-11-21", "seconds since 1970"),
        ("soon", "leave the field empty"),
    ] {
        let text = format!("start,ttft_ms,tokens,error\n1,{value},8,\n");
        let error = read(&csv_map(), text.as_bytes()).unwrap_err();
        assert_eq!(error.place, "line 2, column ttft_ms", "{error}");
        assert!(error.hint.contains(remedy), "{value}: {}", error.hint);
    }
    let text = "start,ttft_ms,tokens,error\n1,5,8 tok,\n";
    let error = read(&csv_map(), text.as_bytes()).unwrap_err();
    assert!(error.hint.contains("the number alone"), "{}", error.hint);
}

#[test]
fn a_file_of_another_kind_is_refused_with_what_it_is() {
    let mut parquet = csv_map();
    parquet.tool = Tool::Parquet;
    for (import, bytes, message, remedy) in [
        (&csv_map(), b"\x1f\x8b\x08".as_slice(), "gzip", "gunzip"),
        (&csv_map(), b"PAR1", "a Parquet file", "`tool: parquet`"),
        (
            &csv_map(),
            VLLM.as_bytes(),
            "written by vLLM",
            "`tool: vllm`",
        ),
        (
            &csv_map(),
            b"{\"a\": 1}\n",
            "JSON, not CSV",
            "name the tool",
        ),
        (&csv_map(), b"", "empty", "a line of headings"),
        (
            &csv_map(),
            b"start;ttft_ms;tokens;error\n1,5;5;8;\n",
            "separated by semicolons",
            "points in numbers",
        ),
        (&parquet, b"a,b\n1,2\n", "not a Parquet file", "`tool: csv`"),
        (&parquet, b"PK\x03\x04", "a ZIP archive", "unzip"),
    ] {
        let error = read(import, bytes).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        assert!(error.hint.contains(remedy), "{}", error.hint);
    }
}

#[test]
fn a_table_that_may_be_cut_off_within_a_value_is_imported_with_a_warning() {
    let whole = "error,start,ttft_ms,tokens\n,1,5,10\n,2,5,100\n";
    assert!(
        read(&csv_map(), whole.as_bytes())
            .unwrap()
            .warnings
            .is_empty()
    );
    let cut = read(&csv_map(), &whole.as_bytes()[..whole.len() - 2]).unwrap();
    assert_eq!(cut.requests[1].output_tokens, Some(10));
    assert!(cut.warnings[0].contains("line 3"), "{:?}", cut.warnings);
}

#[test]
fn a_file_without_any_word_for_success_is_imported_with_a_warning() {
    let mut import = csv_map();
    import.columns.remove("error");
    let mut status = column("outcome", None);
    status.ok = vec!["success".to_owned()];
    import.columns.insert("status".to_owned(), status);
    let text = |word: &str| format!("start,ttft_ms,tokens,outcome\n1,5,8,{word}\n2,5,8,timeout\n");
    let imported = read(&import, text("success").as_bytes()).unwrap();
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    let imported = read(&import, text("Success").as_bytes()).unwrap();
    let [warning] = imported.warnings.as_slice() else {
        panic!("{:?}", imported.warnings)
    };
    assert!(
        warning.contains("the file has: Success, timeout"),
        "{warning}"
    );
}

#[test]
fn an_error_that_is_empty_or_false_is_none() {
    let map = csv_map();
    let json = Import {
        tool: Tool::Json,
        ..map.clone()
    };
    let read_errors = |errors: [&str; 2]| {
        let line = |(start, error): (usize, &str)| {
            format!("{{\"start\": {start}, \"ttft_ms\": 5, \"tokens\": 8, \"error\": {error}}}\n")
        };
        let text: String = errors.into_iter().enumerate().map(line).collect();
        let imported = read(&json, text.as_bytes()).unwrap();
        let errors = imported.requests.into_iter().map(|row| row.error);
        (errors.collect::<Vec<_>>(), imported.warnings)
    };
    let lost = || Some("lost".to_owned());
    for none in ["null", "\"\"", "\" \"", "false"] {
        assert_eq!(
            read_errors([none, "\"lost\""]),
            (vec![None, lost()], vec![]),
            "{none}"
        );
    }
    let (errors, warnings) = read_errors(["\"OK\"", "\"lost\""]);
    assert_eq!(errors, [Some("OK".to_owned()), lost()]);
    assert!(warnings[0].contains("the first is `OK`"), "{warnings:?}");
}

#[test]
fn rows_of_json_are_read_through_the_same_map() {
    let lines = "{\"start\": 2, \"t\": {\"ttft_ms\": 50.25}, \"tokens\": 8, \"note\": NaN}\n\
                 {\"start\": 1, \"t\": {\"ttft_ms\": null}, \"tokens\": null, \"error\": \"lost\"}";
    let list = format!("[{}]", lines.replace("}\n{", "},\n{"));
    let below = format!("{{\"run\": {{\"id\": 1}}, \"results\": {{\"rows\": {list}}}}}");
    let mut map = csv_map();
    map.tool = Tool::Json;
    map.columns
        .insert("ttft".to_owned(), column("t.ttft_ms", Some(Unit::Ms)));
    for (text, rows) in [
        (lines, None),
        (list.as_str(), None),
        (below.as_str(), Some("results.rows")),
    ] {
        map.rows = rows.map(str::to_owned);
        let imported = read(&map, text.as_bytes()).unwrap();
        assert_eq!(imported.requests.len(), 2, "{text}");
        assert_eq!(imported.requests[0].sent_ns, Some(1_000_000_000));
        assert_eq!(imported.requests[0].first_token_ns, Some(1_050_250_000));
        assert_eq!(imported.requests[0].output_tokens, Some(8));
        assert_eq!(imported.requests[1].error.as_deref(), Some("lost"));
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
    map.rows = None;
    for (text, part, hint) in [
        (
            below.as_str(),
            "no column `start` for `sent`",
            "there are: run.id, results.rows; if the requests are the items of `results.rows`, write `rows: results.rows`",
        ),
        (
            "{\"start\": 1, \"t\": {\"x\": 1}, \"tokens\": 1, \"error\": null}",
            "no column `t.ttft_ms` for `ttft`",
            "there are: start, t.x, tokens, error",
        ),
        (
            "{\"start\": NaN, \"t\": {\"ttft_ms\": 1}, \"tokens\": 1, \"error\": null}",
            "line 1, column start: expected a time, found `NaN`",
            "leave the field empty",
        ),
        ("{\"start\": 1,", "EOF", "cut off"),
        (
            "{\"t\": {\"a\": 1}, \"t.a\": 2}",
            "two values are named `t.a`",
            "rename a key",
        ),
        ("start,tokens\n1,2\n", "it is not JSON", "`tool: csv`"),
        ("", "the file is empty", "one object per request"),
        (
            "[1, 2]",
            "a row is not an object",
            "names of columns as keys",
        ),
    ] {
        let error = read(&map, text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert!(error.hint.contains(hint), "{text}: {}", error.hint);
    }
    let error = read(&csv_map(), lines.as_bytes()).unwrap_err();
    assert!(error.hint.contains("write `tool: json`"), "{}", error.hint);
}

#[test]
fn whole_numbers_and_texts_of_json_keep_every_nanosecond_and_fractions_those_of_a_double() {
    let sent = |unit: Unit, starts: [&str; 2]| {
        let mut map = csv_map();
        map.tool = Tool::Json;
        map.columns
            .insert("sent".to_owned(), column("start", Some(unit)));
        let row = |start| {
            format!("{{\"start\": {start}, \"ttft_ms\": 1, \"tokens\": 1, \"error\": null}}\n")
        };
        let text: String = starts.into_iter().map(row).collect();
        let imported = read(&map, text.as_bytes()).unwrap();
        [0, 1].map(|at| imported.requests[at].sent_ns)
    };
    for (unit, later, earlier, apart) in [
        (Unit::Ns, "1795246354816272761", "1795246354816272760", 1),
        (
            Unit::S,
            "\"1795246354.816272761\"",
            "\"1795246354.816272760\"",
            1,
        ),
        (Unit::S, "12.816272761", "12.816272760", 1),
        // Doubles of seconds since 1970 are 238 ns apart.
        (Unit::S, "1795246354.816272761", "1795246354.816272760", 0),
    ] {
        let sent = sent(unit, [later, earlier]);
        assert_eq!(sent, [Some(apart), Some(0)], "{later}");
    }
}

#[test]
fn a_file_of_a_tool_is_named_if_its_rows_are_no_table() {
    let mut map = csv_map();
    map.tool = Tool::Json;
    let error = read(&map, VLLM.as_bytes()).unwrap_err();
    assert_eq!(error.message, "this file was written by vLLM");
    assert!(error.hint.contains("`tool: vllm`"), "{}", error.hint);
}

#[test]
fn mistakes_of_several_columns_are_one_error() {
    let text = "start,ttft_ms,tokens,error\n1,5,8,\n2,soon,8,\n3,5,many,\n4,5,more,\n";
    let error = read(&csv_map(), text.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3, column ttft_ms: expected a time, found `soon`; line 4, column tokens: expected a count, found `many`"
    );
    let error = read(&csv_map(), b"begin,tokens\n1,2\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no column `error` for `error`, no column `start` for `sent`, no column `ttft_ms` for `ttft`"
    );
    assert_eq!(error.hint, "there are: begin, tokens");
}

#[test]
fn declared_words_are_checked_before_the_file_is_read() {
    let declared = |name: &str, value: &str, ok: &[&str]| {
        let mut map = csv_map();
        map.columns.remove("error");
        let source = ColumnSource {
            from: None,
            unit: None,
            ok: ok.iter().map(|word| (*word).to_owned()).collect(),
            value: Some(value.to_owned()),
        };
        map.columns.insert(
            "status".to_owned(),
            ColumnSource {
                value: Some("ok".to_owned()),
                ok: Vec::new(),
                ..source.clone()
            },
        );
        map.columns.insert(name.to_owned(), source);
        let problems = crate::columns::problems(&map);
        let texts = problems
            .iter()
            .map(|p| format!("{} ({})", p.message, p.hint.as_deref().unwrap_or_default()));
        texts.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(declared("status", "ok", &[]), "");
    assert_eq!(declared("phase", "warmup", &[]), "");
    for (name, value, part) in [
        (
            "status",
            "succes",
            "`succes` is not a value of `status` (the values are `ok`, ",
        ),
        (
            "phase",
            "measure",
            "`measure` is not a value of `phase` (did you mean `measured`?",
        ),
        (
            "tokens_source",
            "use",
            "`use` is not a value of `tokens_source`",
        ),
    ] {
        let problems = declared(name, value, &[]);
        assert!(problems.contains(part), "{problems}");
    }
    assert!(declared("status", "ok", &["ok"]).contains("remove `ok`"));
    let mut map = csv_map();
    map.rows = Some("results".to_owned());
    assert!(
        crate::columns::problems(&map)[0]
            .message
            .contains("the file is CSV")
    );
}
