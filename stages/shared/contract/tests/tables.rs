//! Tables written through the declarations can be read back, and no others.

use artifacts::{Column, Scalar, Store, Table, TableError};
use contract::{
    CellRows, Chunk, METRICS, Phase, ProcessRole, Request, RequestStatus, Row, ServerCounter,
    ServerMetric, TokenSource, Word, server_counter, synthetic,
};

fn request() -> Request {
    Request {
        client_id: Some(3),
        session_id: Some(4),
        turn: Some(1),
        scheduled_ns: Some(5),
        sent_ns: Some(10),
        headers_ns: Some(20),
        first_token_ns: Some(1_000_010),
        last_token_ns: Some(5_000_010),
        done_ns: Some(5_000_020),
        cached_prompt_tokens: Some(1),
        tokens_agree: Some(true),
        schema_valid: Some(false),
        http_status: Some(503),
        error: Some("a, \"b\"\n".to_owned()),
        server_prompt_ms: Some(0.5),
        server_predicted_ms: Some(4.0),
        ..synthetic::request(7)
    }
}

fn chunk(at_ns: i64, tokens: i64) -> Chunk {
    Chunk {
        request_id: 7,
        attempt: 1,
        at_ns,
        bytes: Some(3),
        tokens: Some(tokens),
        read: Some(0),
    }
}

#[test]
fn rows_survive_the_store_and_give_their_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let chunks = [chunk(1_000_010, 1), chunk(5_000_010, 4)];
    let scrape = |at_ns, value| ServerMetric {
        at_ns,
        name: "n".to_owned(),
        labels: String::new(),
        value,
    };
    let tables = [
        ("requests", Request::table(&[request()]).unwrap()),
        ("chunks", Chunk::table(&chunks).unwrap()),
        (
            "server_metrics",
            ServerMetric::table(&[scrape(0, 2.0), scrape(9, 7.0)]).unwrap(),
        ),
    ];
    let at = [("rep", Scalar::Int(1))];
    let cell = synthetic::cell(&store, &at, serde_json::Value::Null, &tables).unwrap();
    let read = CellRows::read(&store, "load", &cell).unwrap();
    assert_eq!(
        (read.requests.as_slice(), read.chunks.as_slice()),
        ([request()].as_slice(), chunks.as_slice())
    );

    let timing = &contract::timings(&read)[0];
    assert_eq!(timing.gaps.gaps, [(4.0, Some(4))]);
    let value = |name: &str| contract::metric(name).unwrap().of(timing);
    assert_eq!(
        (value("ttft_ms"), value("e2e_latency_ms"), value("tpot_ms")),
        (Some(1.0), Some(5.0), Some(1.0))
    );
    assert_eq!(value("ttft_scheduled_ms"), None);
    assert_eq!(METRICS.len(), 7);
    let metrics = read.server_metrics.as_ref().unwrap();
    assert_eq!(
        server_counter(metrics, "n", (0, 9), &[]),
        ServerCounter::Rose(5.0)
    );
}

#[test]
fn a_counter_over_several_servers_is_unknown_if_one_was_not_scraped_at_both_ends() {
    let a = "member=\"a\"";
    let b = "member=\"b\",x=\"1\"";
    let row = |at_ns, labels: &str, value| ServerMetric {
        at_ns,
        name: "n".to_owned(),
        labels: labels.to_owned(),
        value,
    };
    let all = [
        row(0, a, 1.0),
        row(0, b, 2.0),
        row(5, a, 3.0),
        row(5, b, 4.0),
        row(9, a, 6.0),
        row(9, b, 8.0),
    ];
    let both = ["a", "b"].map(str::to_owned);
    let names = |rows: &[ServerMetric]| {
        let table = ServerMetric::table(rows).unwrap();
        server_counter(&table, "n", (1, 8), &both)
    };
    use ServerCounter::{BeganAnew, Rose, Unknown};
    assert_eq!(names(&all), Rose(11.0));
    for missed in 0..all.len() {
        let mut rows = all.to_vec();
        rows.remove(missed);
        // The scrape in the middle does not matter.
        let present = if matches!(missed, 2 | 3) {
            Rose(11.0)
        } else {
            Unknown
        };
        assert_eq!(names(&rows), present, "without row {missed}");
    }
    assert_eq!(names(&all[..4]), Unknown);
    let of_a: Vec<_> = all.iter().filter(|r| r.labels == a).cloned().collect();
    assert_eq!(names(&of_a), Unknown, "nothing was ever scraped from `b`");
    let other = |at_ns| ServerMetric {
        name: "other".to_owned(),
        ..row(at_ns, a, 7.0)
    };
    // A series that appears during the load was at 0. A series that ends leaves the rise unknown.
    let late = [other(0), row(9, a, 6.0), row(0, b, 2.0), row(9, b, 8.0)];
    assert_eq!(names(&late), Rose(12.0));
    let mut ended = all.to_vec();
    ended[4] = other(9);
    assert_eq!(names(&ended), Unknown);
    let mut fallen = all.to_vec();
    fallen[4].value = 0.0;
    assert_eq!(names(&fallen), BeganAnew);
    // A fall in the middle also counts as a restart, however high the counter rises again.
    let mut again = all.to_vec();
    again[2].value = 0.0;
    assert_eq!(names(&again), BeganAnew);
}

/// Returns the rows of a one-request table after removing a column or replacing it.
fn changed(name: &str, column: Option<Column>) -> Result<Vec<Request>, TableError> {
    let columns = Request::columns(&[request()]).into_iter();
    let columns = columns.filter(|c| c.name != name).chain(column);
    Request::read(&Table::new(columns.collect()).unwrap())
}

#[test]
fn an_unknown_word_is_an_error_and_never_a_default() {
    let message = |name: &str| {
        let column = Column::text(name, [Some("bogus")]);
        changed(name, Some(column)).unwrap_err().to_string()
    };
    assert_eq!(
        message("phase"),
        "column `phase`, row 1: `bogus` is not a known phase; known are warmup, measured"
    );
    assert_eq!(
        message("tokens_source"),
        "column `tokens_source`, row 1: `bogus` is not a known source of token counts; known are usage, timings, \
         tokenizer, chunks"
    );
    assert!(message("status").contains("`bogus` is not a known request status; known are ok, "));
}

#[test]
fn what_must_not_be_null_is_neither_null_nor_absent() {
    let message =
        |name: &str, column: Option<Column>| changed(name, column).unwrap_err().to_string();
    assert_eq!(
        message("phase", Some(Column::text("phase", [None::<String>]))),
        "column `phase`, row 1: the value is null, and may not be"
    );
    assert!(message("status", None).starts_with("no column `status`; the columns are: "));
    let wrong = message("sent_ns", Some(Column::text("sent_ns", [Some("soon")])));
    assert_eq!(wrong, "column `sent_ns` holds Utf8, not integers");
    // Older tables lack columns that may be null. Undeclared columns are ignored.
    assert_eq!(changed("http_status", None).unwrap()[0].http_status, None);
    let more = changed("", Some(Column::int("more", [Some(1)]))).unwrap();
    assert_eq!(more, [request()]);
}

fn round_trips<W: Word + std::fmt::Debug>() {
    for (value, word) in W::ALL.iter().zip(W::EACH) {
        assert_eq!((W::parse(word).unwrap(), value.word()), (*value, *word));
    }
    assert!(W::parse("").is_err() && W::parse(&W::EACH[0].to_uppercase()).is_err());
}

#[test]
fn every_word_is_read_as_it_is_written() {
    round_trips::<Phase>();
    round_trips::<RequestStatus>();
    round_trips::<TokenSource>();
    round_trips::<ProcessRole>();
    round_trips::<contract::RowSource>();
    round_trips::<contract::ImportClock>();
    round_trips::<contract::LengthSource>();
    round_trips::<contract::OutputMode>();
    round_trips::<contract::ClientVerdict>();
    round_trips::<contract::ThrottleReason>();
    round_trips::<contract::GateSeverity>();
    round_trips::<contract::GateOutcome>();
}

#[test]
fn a_table_is_declared_once_with_a_meaning_for_every_column() {
    let tables: Vec<_> = contract::tables().collect();
    for (i, table) in tables.iter().enumerate() {
        assert!(
            !tables[..i].iter().any(|t| t.name == table.name),
            "{}",
            table.name
        );
        assert!(
            table.row().ends_with('.'),
            "{}: {}",
            table.name,
            table.row()
        );
        for (j, column) in table.columns.iter().enumerate() {
            let place = format!("{}.{}", table.name, column.name);
            let meaning = column.meaning();
            assert!(
                !table.columns[..j].iter().any(|c| c.name == column.name),
                "{place}"
            );
            assert!(
                !meaning.is_empty() && !meaning.ends_with('.'),
                "{place}: {meaning}"
            );
        }
    }
}

#[test]
fn what_differs_from_the_declaration_is_named() {
    let differences_of =
        |columns: Vec<Column>| Request::TABLE.differences(&Table::new(columns).unwrap());
    let columns = || Request::columns(&[request()]);
    assert_eq!(differences_of(columns()), [""; 0]);
    assert_eq!(
        differences_of(columns().into_iter().take(40).collect()).len(),
        1
    );
    let spoilt = columns().into_iter().map(|mut column| {
        match column.name.as_str() {
            "sent_ns" => column.unit = Some("ms".to_owned()),
            "phase" => return Column::text("phase", [Some("bogus")]),
            _ => {}
        }
        column
    });
    let differences = differences_of(spoilt.collect());
    assert_eq!(differences.len(), 3, "{differences:?}");
    assert!(
        differences[2].contains("`sent_ns` has the unit Some(\"ms\"), declared is Some(\"ns\")")
    );
}
