//! Tables made by SQL.

use super::*;

#[test]
fn a_query_tells_the_turns_of_sessions_apart() {
    let (_folder, store) = store();
    let turns = [(0, 1, 40), (0, 2, 20), (1, 1, 60), (1, 2, 10), (1, 3, 5)];
    let rows: Vec<Request> = (0..)
        .zip(turns)
        .map(|(id, (session, turn, ttft_ms))| Request {
            session_id: Some(session),
            turn: Some(turn),
            first_token_ns: Some(ttft_ms * 1_000_000),
            ..synthetic::request(id)
        })
        .collect();
    let cells = vec![cell(&store, &at("serial", 1, 1), &rows)];
    let inputs = [
        synthetic::input("ladder", "load", cells),
        verification(&store, &[]),
    ];
    let query = "select turn, count(distinct session_id) as sessions, \
                 median((first_token_ns - sent_ns) / 1e6) as ttft_ms_p50 from \"ladder.requests\" group by turn";
    let settings = json!({"turns": {"operator": "sql", "keys": ["turn"], "query": query}});
    let turns = analyze(&store, &inputs, &settings).unwrap();
    let turns = table(&turns, "turns");
    assert_eq!(turns.int("turn").unwrap(), [Some(1), Some(2), Some(3)]);
    assert_eq!(turns.int("sessions").unwrap(), [Some(2), Some(2), Some(1)]);
    assert_eq!(
        turns.float("ttft_ms_p50").unwrap(),
        [Some(50.0), Some(15.0), Some(5.0)]
    );
}

#[test]
fn a_query_sees_every_column_that_a_load_cell_has() {
    let (_folder, store) = store();
    let rows: Vec<Request> = (0..4)
        .map(|id| Request {
            http_status: Some(200 + id % 2),
            ..synthetic::request(id)
        })
        .collect();
    let inputs = [
        synthetic::input(
            "ladder",
            "load",
            vec![cell(&store, &at("serial", 1, 1), &rows)],
        ),
        verification(&store, &[]),
    ];
    let every = |table: contract::TableSpec| {
        let named = table.columns.iter().map(|c| format!("count({})", c.name));
        let named = named.collect::<Vec<_>>().join(" + ");
        let query = format!(
            "select {named} as values_told from \"ladder.{}\"",
            table.name
        );
        json!({"operator": "sql", "level": "pooled", "query": query})
    };
    let settings = json!({
        "requests": every(Request::TABLE),
        "chunks": every(contract::Chunk::TABLE),
        "codes": {"operator": "sql", "keys": ["http_status"], "query":
            "select http_status, count(*) as n from \"ladder.requests\" group by 1"},
    });
    let done = analyze(&store, &inputs, &settings).unwrap();
    let codes = table(&done, "codes");
    assert_eq!(codes.int("http_status").unwrap(), [Some(200), Some(201)]);
    assert_eq!(codes.int("n").unwrap(), [Some(2), Some(2)]);
}

#[test]
fn a_table_that_no_cell_left_has_no_rows() {
    let (_folder, store) = store();
    let settings = json!({
        "starts": {"operator": "sql", "keys": ["configuration"], "query":
            "select configuration, max(ready_s) as ready_s from \"ladder.server_starts\" group by configuration"},
        "members": {"operator": "sql", "query": "select count(*) as n from \"ladder.members\""},
    });
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    assert_eq!(table(&done, "starts").rows(), 0);
    assert_eq!(table(&done, "members").int("n").unwrap(), [Some(0)]);
}

#[test]
fn a_query_finds_what_the_operators_find() {
    let (_folder, store) = store();
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["output_throughput"]},
        "by_sql": {"operator": "sql", "keys": ["configuration", "concurrency"], "query":
            "select configuration, concurrency, count(*) as n, avg(output_throughput) as mean,
                    stddev(output_throughput) as std from cells group by 1, 2",
            "units": {"mean": "tok/s"}},
        "raw": {"operator": "sql", "level": "pooled", "query":
            "select count(*) as n, sum(superseded) as superseded,
                    (select count(*) from \"ladder.chunks\") as chunks from \"ladder.requests\" where phase = 'measured'"},
        "plain": {"operator": "sql", "level": "cell", "keys": ["configuration", "concurrency", "rep"],
                  "query": "select configuration, concurrency, rep, ok_rate, output_throughput as rate from cells"},
        "again": {"operator": "aggregate", "from": "plain", "over": ["rep"], "columns": ["rate"]},
    });
    let inputs = inputs(&store);
    let done = analyze(&store, &inputs, &settings).unwrap();
    let (means, by_sql) = (table(&done, "means"), table(&done, "by_sql"));
    assert_eq!(
        means.text("configuration").unwrap(),
        by_sql.text("configuration").unwrap()
    );
    assert_eq!(
        means.int("concurrency").unwrap(),
        by_sql.int("concurrency").unwrap()
    );
    assert_eq!(
        means.float("output_throughput_std").unwrap(),
        by_sql.float("std").unwrap()
    );
    assert_eq!(by_sql.unit("mean").as_deref(), Some("tok/s"));
    assert_eq!(by_sql.int("n").unwrap(), vec![Some(3); 6]);
    let raw = table(&done, "raw");
    assert_eq!(
        (raw.int("n").unwrap(), raw.int("superseded").unwrap()),
        (vec![Some(72)], vec![Some(0)])
    );
    assert!(raw.int("chunks").unwrap()[0].unwrap() > 0);
    assert_eq!(raw.metadata("level").as_deref(), Some("pooled"));
    let plain = table(&done, "plain");
    assert_eq!(
        (
            plain.unit("rate").as_deref(),
            plain.unit("ok_rate").as_deref()
        ),
        (Some("tok/s"), Some("1"))
    );
    assert_eq!(
        table(&done, "again").float("rate_mean").unwrap(),
        means.float("output_throughput_mean").unwrap()
    );
    // Every row depends on everything that was read.
    let lineage = table(&done, "by_sql.lineage");
    assert_eq!(lineage.rows(), 6);
    assert!(
        lineage
            .text("source_output")
            .unwrap()
            .iter()
            .all(|s| *s == Some("cells"))
    );
    assert!(
        lineage
            .int("source_row_end")
            .unwrap()
            .iter()
            .all(|e| *e == Some(18))
    );
    assert_eq!(table(&done, "raw.lineage").rows(), 36);
}

#[test]
fn columns_of_ratios_say_what_is_over_what_and_means_of_them_still_do() {
    let (_folder, store) = store();
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "deltas": {"operator": "paired-deltas", "from": "cells", "average": ["rep"], "columns": ["output_throughput"],
                   "pair": {"axis": "configuration", "a": "batched", "b": "serial"}},
        "efficiency": {"operator": "parallel-efficiency", "from": "cells", "ladder": "concurrency"},
        "means": {"operator": "aggregate", "from": "efficiency", "over": ["rep"], "unit": ["rep"],
                  "columns": ["speedup"]},
        "by_sql": {"operator": "sql", "keys": ["concurrency"], "query":
            "select concurrency, max(output_throughput) / min(output_throughput) as spread from cells group by 1",
            "units": {"spread": "1"}, "ratios": {"spread": {"numerator": "the most", "denominator": "the least"}}},
        "again": {"operator": "sql", "keys": ["concurrency"], "query":
            "select concurrency, spread, spread - 1 as excess from by_sql"},
    });
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    let sides = |name: &str, column: &str| table(&done, name).ratio(column).map(|r| r.to_string());
    assert_eq!(
        sides("deltas", "output_throughput_ratio").unwrap(),
        "batched ÷ serial"
    );
    assert_eq!(sides("deltas", "output_throughput_delta"), None);
    for column in ["speedup_mean", "speedup_min", "speedup_ci_high"] {
        assert_eq!(
            sides("means", column).unwrap(),
            "concurrency = N ÷ concurrency = 1",
            "{column}"
        );
    }
    assert_eq!(
        (sides("means", "speedup_std"), sides("means", "speedup_cv")),
        (None, None)
    );
    // The settings declare the sides of what a query computes; a column that only repeats another keeps its sides.
    assert_eq!(sides("by_sql", "spread").unwrap(), "the most ÷ the least");
    assert_eq!(
        (sides("again", "spread"), sides("again", "excess")),
        (sides("by_sql", "spread"), None)
    );
}

#[test]
fn a_query_does_not_need_a_table_whose_name_it_gives_to_something_else() {
    for query in [
        "select avg(ok_rate) as made from cells",
        "select max(made.ok_rate) as made from cells made",
        "select sum('made' = 'another') as made from cells",
    ] {
        let planned = canonical(&json!({
            "both": {"operator": "sql", "query": "select made from made"},
            "cells": {"operator": "cell-summary"},
            "made": {"operator": "sql", "query": query},
        }));
        assert!(planned.is_ok(), "{query}: {planned:?}");
    }
}

#[test]
fn a_query_that_cannot_work_is_reported_while_planning() {
    let messages_of = |table: Json| {
        let problems = canonical(&json!({
            "cells": {"operator": "cell-summary"}, "made": table, "later": {"operator": "requests"},
            "limit": {"operator": "requests"},
        }));
        let problems = problems.err().unwrap_or_default();
        let text = |p: &Problem| {
            let steps = p.route.iter().fold(String::new(), |text, step| match step {
                Step::Key(key) if text.is_empty() => key.clone(),
                Step::Key(key) => format!("{text}.{key}"),
                Step::Index(i) => format!("{text}[{i}]"),
            });
            format!(
                "{steps}: {} ({})",
                p.message,
                p.hint.clone().unwrap_or_default()
            )
        };
        problems.iter().map(text).collect::<Vec<_>>()
    };
    let sql = |query: &str| messages_of(json!({"operator": "sql", "query": query}));
    assert_eq!(
        sql("select ok_rate, concurrency from cells where rep = 1"),
        [""; 0]
    );
    assert_eq!(
        sql("select ok_rate from cells where confguration = 'serial'"),
        [
            "tables.made.query: no table the query reads has a column `confguration` (did you mean `configuration`?)"
        ]
    );
    assert_eq!(
        sql("select ok_rate frm cells"),
        [
            "tables.made.query: the query is not valid SQL: near \"cells\": syntax error (column 20) ()"
        ]
    );
    let reserved = "tables.made.query: the query is not valid SQL: near \"limit\": syntax error (column 22) (`limit` is a \
                    word of SQL: write `\"limit\"`, or give the table another name)";
    assert_eq!(sql("select 1 as one from limit"), [reserved]);
    assert_eq!(sql("select 1 as one from \"limit\""), [""; 0]);
    assert_eq!(
        sql("select 1 as one from cels"),
        ["tables.made.query: unknown table `cels` in this stage (did you mean `cells`?)"]
    );
    assert_eq!(
        sql("select 1 as one from later"),
        [""; 0],
        "a table declared below may be read"
    );
    assert_eq!(
        sql("select 1 as one from made"),
        [
            "tables.made.query: the table `made` itself depends on this one (two tables cannot \
             depend on each other; take one of them from elsewhere)"
        ]
    );
    assert_eq!(
        sql("select output_troughput from cells"),
        [
            "tables.made.query: no table the query reads has a column `output_troughput` (did you mean \
          `output_throughput`?)"
        ]
    );
    assert_eq!(
        sql("select random() as r from cells"),
        ["tables.made.query: a query may not call `random` ()"]
    );
    assert_eq!(
        sql("select avg(ok_rate) from cells"),
        [
            "tables.made.query: `avg(ok_rate)` is not a valid name for a column (name it with \
             `as`: lower-case letters, digits \
          and underscores)"
        ]
    );
    assert_eq!(
        messages_of(
            json!({"operator": "sql", "query": "select ok_rate from cells", "keys": ["reps"], "units": {"ok_rat": "1"}})
        ),
        [
            "tables.made.keys[0]: the query returns no column `reps` (the columns are `ok_rate`)",
            "tables.made.units.ok_rat: the query returns no column `ok_rat` (did you mean `ok_rate`?)",
        ]
    );
}

#[test]
fn a_query_that_fails_on_the_rows_says_what_there_is() {
    let (_folder, store) = store();
    let failed = |query: &str| {
        let settings = json!({"cells": {"operator": "cell-summary"}, "made": {"operator": "sql", "query": query}});
        let failure = analyze(&store, &inputs(&store), &settings).err().unwrap();
        format!("{} ({})", failure.reason, failure.hint.unwrap_or_default())
    };
    assert_eq!(
        failed("select count(*) as n from \"lader.requests\""),
        "table `made` (sql): the query reads the table `lader.requests`, which does not exist \
         (did you mean \
         `ladder.requests`?)"
    );
    assert_eq!(
        failed("select ok_rate from cells"),
        "table `made` (sql): the query returns several rows, but no `keys` identify them (name the columns that name \
         a row with `keys`)"
    );
}

#[test]
fn the_price_and_the_devices_of_a_row_may_be_in_its_columns() {
    let (_folder, store) = store();
    let rows: Vec<Request> = (0..4).map(synthetic::request).collect();
    let cells = ["batched", "serial"].map(|name| cell(&store, &at(name, 1, 1), &rows));
    let inputs = [
        synthetic::input("ladder", "load", cells.to_vec()),
        verification(&store, &[]),
    ];
    let made = |gpus: &str, day: &str| {
        let query = format!(
            "select configuration, concurrency, rep, output_throughput, {gpus} as gpus, 2.5 as price, \
             'offer of ' || configuration as terms, '{day}' as day from cells"
        );
        let settings = json!({
            "cells": {"operator": "cell-summary"},
            "offers": {"operator": "sql", "keys": ["configuration", "concurrency", "rep"], "query": query},
            "cost": {
                "operator": "cost", "from": "offers", "devices": {"column": "gpus"},
                "price-per-hour": {"column": "price"}, "currency": "USD", "price-date": {"column": "day"},
                "price-source": {"column": "terms"},
            },
            "used": {
                "operator": "mfu", "from": "offers", "prefill": "not-counted", "model-parameters": 8e9,
                "peak-flops": 1e14, "devices": {"column": "gpus"},
            },
        });
        analyze(&store, &inputs, &settings)
    };
    let gpus = "case configuration when 'batched' then 2 else 1 end";
    let done = made(gpus, "2026-01-31").unwrap();
    let cost = table(&done, "cost");
    assert_eq!(
        cost.float("price_per_hour").unwrap(),
        [Some(5.0), Some(2.5)]
    );
    let million = cost.float("cost_per_million_tokens").unwrap();
    assert_eq!(million[0].unwrap(), 2.0 * million[1].unwrap());
    assert_eq!(
        cost.text("price_source").unwrap(),
        [Some("offer of batched"), Some("offer of serial")]
    );
    let used = table(&done, "used").float("mfu").unwrap();
    assert_eq!(2.0 * used[0].unwrap(), used[1].unwrap());
    // A row without a number of devices has no price.
    let done = made("case configuration when 'batched' then 2 end", "2026-01-31").unwrap();
    let unknown = table(&done, "cost");
    assert_eq!(unknown.float("cost_per_million_tokens").unwrap()[1], None);
    for (gpus, day, expected) in [
        (
            "0",
            "2026-01-31",
            "`devices` is 0 in row configuration=batched",
        ),
        (
            "1.5",
            "2026-01-31",
            "`devices` is 1.5 in row configuration=batched",
        ),
        (
            "1",
            "31 January",
            "`price-date` is `31 January` in row configuration=batched",
        ),
    ] {
        let failure = made(gpus, day).err().unwrap();
        assert!(failure.reason.contains(expected), "{}", failure.reason);
    }
}
