//! The answers of queries, and the operations that they may not do.

use artifacts::{Column, Scalar, Table};
use proptest::prelude::*;
use query::{Answer, Database, Kind, Limits, QueryError, Shape, check};
use statistics::Sample;

fn requests() -> Table {
    Table::new(vec![
        Column::text("status", [Some("ok"), Some("ok"), Some("timeout"), None]),
        Column::float("ttft_ms", [Some(12.5), Some(7.25), None, Some(9.0)])
            .unit("ms")
            .describe("time to first token"),
        Column::int("output_tokens", [Some(24), Some(12), Some(0), None]).unit("tok"),
        Column::boolean("superseded", [Some(false), Some(true), None, Some(false)]),
    ])
    .unwrap()
}

fn database() -> Database {
    let mut database = Database::new().unwrap();
    database.add("requests", &requests()).unwrap();
    database.add("results.cells", &requests()).unwrap();
    database
}

fn ask(sql: &str) -> Result<Answer, QueryError> {
    database().select(sql, &Limits::default())
}

fn table(sql: &str) -> Table {
    ask(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).table
}

fn one(sql: &str) -> Scalar {
    let table = table(sql);
    assert_eq!((table.rows(), table.names().len()), (1, 1), "{sql}");
    table.value(&table.names()[0], 0).unwrap()
}

#[test]
fn the_same_query_gives_the_same_bytes() {
    let sql =
        "select status, quantile(ttft_ms, 0.9) as p90, sum(ttft_ms) as s, group_concat(output_tokens) as t
               from requests group by status";
    assert_eq!(
        table(sql).to_parquet().unwrap(),
        table(sql).to_parquet().unwrap()
    );
}

#[test]
fn rows_without_an_order_are_sorted_by_all_columns() {
    let plain = table("select ttft_ms, status from requests");
    assert_eq!(
        plain.float("ttft_ms").unwrap(),
        [None, Some(7.25), Some(9.0), Some(12.5)]
    );
    assert_eq!(
        plain.text("status").unwrap(),
        [Some("timeout"), Some("ok"), None, Some("ok")]
    );
    let said = table("select ttft_ms from requests order by ttft_ms desc");
    assert_eq!(
        said.float("ttft_ms").unwrap(),
        [Some(12.5), Some(9.0), Some(7.25), None]
    );
}

#[test]
fn a_repeated_column_keeps_unit_meaning_and_type() {
    let table = table(
        "select r.ttft_ms as first, superseded, output_tokens, ttft_ms * 1 as computed from requests r where 0",
    );
    assert_eq!(table.unit("first").as_deref(), Some("ms"));
    assert_eq!(
        table.description("first").as_deref(),
        Some("time to first token")
    );
    assert_eq!(table.unit("computed"), None);
    assert!(table.boolean("superseded").is_ok() && table.int("output_tokens").is_ok());
    let flags = self::table("select superseded from requests");
    assert_eq!(
        flags.boolean("superseded").unwrap(),
        [None, Some(false), Some(false), Some(true)]
    );
}

#[test]
fn a_union_keeps_no_unit_of_its_first_part() {
    let table =
        table("select ttft_ms as x from requests union all select output_tokens from requests");
    assert_eq!((table.rows(), table.unit("x")), (8, None));
}

#[test]
fn names_with_dots_are_quoted() {
    assert_eq!(
        one("select count(*) from \"results.cells\""),
        Scalar::Int(4)
    );
    assert_eq!(
        ask("select count(*) from results.cells").unwrap_err(),
        QueryError::NoTable("results.cells".into())
    );
}

#[test]
fn the_tables_that_were_read_are_listed() {
    let read = |sql: &str| ask(sql).unwrap().read;
    assert_eq!(
        read("select count(*) as n from requests where status = 'results.cells'"),
        ["requests"]
    );
    assert_eq!(
        read("with a as (select 1 as x from \"Results.Cells\") select * from a, requests"),
        ["requests", "results.cells"]
    );
    assert_eq!(read("select 1 as one"), [""; 0]);
}

#[test]
fn nulls_are_ignored_by_aggregates_and_kept_by_scalars() {
    assert_eq!(
        one("select median(ttft_ms) from requests"),
        Scalar::Float(9.0)
    );
    assert_eq!(
        one("select quantile(ttft_ms, 0.5) from requests where ttft_ms is null"),
        Scalar::Null
    );
    assert_eq!(
        one("select median(ttft_ms) from requests where 0"),
        Scalar::Null
    );
    assert_eq!(
        one("select stddev(ttft_ms) from requests where ttft_ms = 9"),
        Scalar::Null
    );
    assert_eq!(
        one("select stddev_pop(ttft_ms) from requests where ttft_ms = 9"),
        Scalar::Float(0.0)
    );
    assert_eq!(one("select sqrt(null)"), Scalar::Null);
}

#[test]
fn what_is_undefined_is_null() {
    for sql in [
        "select sqrt(-1)",
        "select ln(0)",
        "select exp(1e9)",
        "select 1 / 0",
    ] {
        assert_eq!(one(sql), Scalar::Null, "{sql}");
    }
    assert_eq!(one("select pow(2, 10)"), Scalar::Float(1024.0));
}

#[test]
fn limits_end_a_query_within_few_instructions() {
    // About 5,000 instructions, each of which could make a long text.
    let sql = "with recursive r(i) as (select 1 union all select i + 1 from r limit 300)
               select sum(length(printf('%.1000c', i))) as n from r";
    let asked = |limits: Limits| database().select(sql, &limits).map(|answer| answer.table);
    assert!(asked(Limits::default()).is_ok());
    let few = Limits {
        instructions: 1000,
        ..Limits::default()
    };
    assert!(matches!(asked(few), Err(QueryError::Limit(_))));
    let over = Limits {
        stop: Some(std::sync::Arc::new(true.into())),
        ..Limits::default()
    };
    assert_eq!(asked(over), Err(QueryError::Stopped));
    let short = Limits {
        value: 999,
        ..Limits::default()
    };
    let said = asked(short).unwrap_err().to_string();
    assert_eq!(said, "a value has more than 999 bytes");
}

#[test]
fn a_number_that_does_not_fit_is_an_error_with_its_place_and_a_remedy() {
    let mut database = Database::new().unwrap();
    let most = Some(i64::MAX);
    let large = Some(1e308);
    let table = Table::new(vec![
        Column::int("tokens", [most, most, Some(1)]),
        Column::float("seconds", [large, large, Some(2.0)]),
    ]);
    database.add("t", &table.unwrap()).unwrap();
    let mut failed = |sql: &str| match database.select(sql, &Limits::default()) {
        Err(QueryError::Failed(said)) => said,
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, place, remedy) in [
        ("select sum(tokens) as s from t", "`sum(tokens)`", "total("),
        (
            "select seconds, sum(tokens) over () as s from t",
            "`sum(tokens)`",
            "total(",
        ),
        (
            "select sum(tokens) > 5 as passed from t",
            "`sum(tokens)`",
            "total(",
        ),
        (
            "select abs(min(-tokens - 1)) as s from t",
            "`abs(min(-tokens - 1))`",
            "1.0",
        ),
        ("select sum(seconds) as s from t", "`s`", "1.8e308"),
        ("select seconds * 10 as s from t", "`s`", "1.8e308"),
        ("select avg(seconds) as s from t", "`s`", "1.8e308"),
        ("select 1e999 as s", "`s`", "1.8e308"),
        ("select cast(1e30 as integer) as s", "`s`", "cast("),
        (
            "select cast(-1.5 * tokens as integer) as s from t",
            "`s`",
            "cast(",
        ),
        (
            "select cast('99999999999999999999' as int) as s",
            "`s`",
            "cast(",
        ),
    ] {
        let said = failed(sql);
        assert!(
            said.contains(place) && said.contains(remedy),
            "{sql}: {said}"
        );
    }
    let mut answer = |sql: &str| {
        let answer = database.select(sql, &Limits::default()).unwrap();
        answer.table.value("s", 0).unwrap()
    };
    // 2⁶³ and 2⁶⁴ are doubles.
    let sum = Scalar::Float(2_f64.powi(64));
    assert_eq!(answer("select total(tokens) as s from t"), sum);
    let product = answer("select max(tokens) * 2 as s from t");
    assert_eq!(product, sum);
    // What a table has is not cut off.
    let same = answer("select tokens as s, cast(1.5 as integer) as c from t order by 1 desc");
    assert_eq!(same, Scalar::Int(i64::MAX));
}

#[test]
fn integers_divide_without_truncating() {
    for (sql, value) in [
        ("select 7 / 2", 3.5),
        ("select sum(status = 'ok') / count(*) from requests", 0.5),
        ("select sum(output_tokens) / count(*) from requests", 9.0),
        ("select 1 - 3 / 4 * 2 / 3", 0.5),
        ("select -7 % 4 / 2", -1.5),
        ("select '7' / 2", 3.5),
        ("select 1.0 * 7 / 2", 3.5),
        (
            "with t as (select 1 as a, 4 as b) select a/b from t group by a/b order by a / b",
            0.25,
        ),
    ] {
        assert_eq!(one(sql), Scalar::Float(value), "{sql}");
    }
    assert_eq!(one("select cast(7 / 2 as integer)"), Scalar::Int(3));
    assert_eq!(one("select 7 / null"), Scalar::Null);
    assert_eq!(
        one("select '7 / 2' -- / 2"),
        Scalar::Text("7 / 2".to_owned())
    );
    // A quotient that was a double already keeps its bits.
    for (a, b) in [("0.1", "3"), ("2", "0.3"), ("5e-324", "3")] {
        let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else {
            panic!("numbers");
        };
        assert_eq!(one(&format!("select {a} / {b}")), Scalar::Float(x / y));
    }
    // Planning knows the type, and a column without a name keeps the expression as it was written.
    let sql = "select sum(output_tokens)/count(*), 4 / 2 as whole from requests";
    let table_of_numbers = Shape {
        name: "requests".to_owned(),
        columns: vec![Column::int("output_tokens", [])],
        open: false,
    };
    let expected = check(sql, &[table_of_numbers]).unwrap();
    let names: Vec<_> = expected
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.kind))
        .collect();
    assert_eq!(
        names,
        [
            ("sum(output_tokens)/count(*)", Some(Kind::Float)),
            ("whole", Some(Kind::Float))
        ]
    );
    assert_eq!(table(sql).names(), ["sum(output_tokens)/count(*)", "whole"]);
}

#[test]
fn mistakes_beside_a_quotient_are_shown_as_they_were_written() {
    let wrong = |sql: &str| ask(sql).unwrap_err().to_string();
    assert_eq!(
        wrong("select 1 / 2,\n  3 // 4"),
        "the query is not valid SQL: near \"/\": syntax error (line 2, column 6)"
    );
    assert_eq!(
        wrong("select 1 / 2, coutn(*) from requests"),
        "the query is not valid SQL: no such function: coutn (column 15)"
    );
    assert_eq!(
        wrong("select status from requests limit 5 / 2"),
        "`limit` and `offset` take whole numbers, and `/` gives a fraction: write `cast(… as integer)`"
    );
    assert_eq!(
        ask("select status from requests limit 4 / 2")
            .unwrap()
            .table
            .rows(),
        2
    );
}

#[test]
fn a_query_can_only_select_from_the_given_tables() {
    for (sql, message) in [
        (
            "attach 'x.db' as x",
            "a query must begin with `select`, not `attach`: queries only read",
        ),
        (
            "pragma table_list",
            "a query must begin with `select`, not `pragma`: queries only read",
        ),
        (
            "select * from pragma_table_list",
            "a query may read only the tables it is given, not `pragma_table_list`",
        ),
        (
            "select * from sqlite_master",
            "a query may read only the tables it is given, not `sqlite_master`",
        ),
        (
            "with sqlite_master as (select 1) select count(*) from main.sqlite_master",
            "a query may read only the tables it is given, not `sqlite_master`",
        ),
        (
            "select count(*) from sqlite_master",
            "a query may read only the tables it is given, not `sqlite_master`",
        ),
        (
            "select * from json_each('[1]')",
            "a query may read only the tables it is given, not `json_each`",
        ),
        (
            "insert into requests values (1, 2, 3, 4)",
            "a query must begin with `select`, not `insert`: queries only read",
        ),
        (
            "with a as (select 1) delete from requests",
            "a query may not change anything",
        ),
        (
            "with a as (select 1) update requests set status = 1",
            "a query may not change anything",
        ),
        (
            "drop table requests",
            "a query must begin with `select`, not `drop`: queries only read",
        ),
        (
            "vacuum into 'x.db'",
            "a query must begin with `select`, not `vacuum`: queries only read",
        ),
        (
            "explain select 1",
            "a query must begin with `select`, not `explain`: queries only read",
        ),
        (
            "select load_extension('x')",
            "a query may not call `load_extension`",
        ),
        ("select random()", "a query may not call `random`"),
        (
            "select hex(randomblob(4))",
            "a query may not call `randomblob`",
        ),
        (
            "select current_timestamp",
            "a query may not call `current_timestamp`",
        ),
        ("select date('now')", "a query may not call `date`"),
        ("select strftime('%s')", "a query may not call `strftime`"),
        (
            "select sqlite_version()",
            "a query may not call `sqlite_version`",
        ),
        (
            "select last_insert_rowid()",
            "a query may not call `last_insert_rowid`",
        ),
        ("select 1; select 2", "a query must be a single statement"),
        (
            "select 1; drop table x",
            "a query must be a single statement",
        ),
        (
            "select ?",
            "a query cannot take parameters; write the value itself",
        ),
        (
            "select :x",
            "a query cannot take parameters; write the value itself",
        ),
        ("", "the query is empty"),
    ] {
        let mut database = database();
        let error = database.select(sql, &Limits::default()).expect_err(sql);
        assert_eq!(error, QueryError::Refused(message.to_owned()), "{sql}");
        // The refused query left nothing behind.
        let count = database
            .select("select count(*) as n from requests", &Limits::default())
            .unwrap();
        assert_eq!(count.table.int("n").unwrap(), [Some(4)], "{sql}");
    }
}

#[test]
fn text_that_is_not_sql_is_reported_with_its_place() {
    assert_eq!(
        ask("select ttft_ms\nfrom requests wher 1 = 1")
            .unwrap_err()
            .to_string(),
        "the query is not valid SQL: near \"1\": syntax error (line 2, column 20)"
    );
    assert_eq!(
        ask("select ttft from requests").unwrap_err(),
        QueryError::NoColumn("ttft".into())
    );
    assert_eq!(
        ask("select \"ttft\" from requests").unwrap_err(),
        QueryError::NoColumn("ttft".into())
    );
    assert_eq!(
        ask("select 1 from cells").unwrap_err(),
        QueryError::NoTable("cells".into())
    );
}

#[test]
fn what_no_column_can_hold_is_refused() {
    for (sql, message) in [
        (
            "select 1 as a, 2 as a",
            "two columns are named `a`: give each result column its own name with `as`",
        ),
        ("select x'00' as a", "column `a` holds raw bytes"),
        (
            "select 1 as a union all select 'x'",
            "column `a` mixes text, booleans and numbers",
        ),
        (
            "select quantile(ttft_ms, 2) from requests",
            "quantile(x, p) needs a p between 0 and 1",
        ),
        (
            "select quantile(ttft_ms, null) from requests",
            "quantile(x, p) needs a p between 0 and 1",
        ),
        (
            "select quantile(1, output_tokens / 24.0) from requests where status = 'ok'",
            "quantile(x, p) needs the same p for all rows of a group",
        ),
        (
            "select median(status) from requests",
            "median() of a value that is not a number",
        ),
    ] {
        assert_eq!(
            ask(sql).expect_err(sql),
            QueryError::Failed(message.to_owned()),
            "{sql}"
        );
    }
}

#[test]
fn a_query_that_never_ends_is_ended() {
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let limits = Limits {
        instructions: 1_000_000,
        ..Limits::default()
    };
    let error = database().select(endless, &limits).unwrap_err();
    assert_eq!(
        error,
        QueryError::Limit("the query takes more than 1000000 instructions".into())
    );
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let limits = Limits {
        stop: Some(stop),
        ..Limits::default()
    };
    assert_eq!(
        database().select(endless, &limits).unwrap_err(),
        QueryError::Stopped
    );
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n";
    let limits = Limits {
        rows: 1_000,
        ..Limits::default()
    };
    let error = database().select(rows, &limits).unwrap_err();
    assert_eq!(
        error,
        QueryError::Limit("the answer has more than 1000 rows".into())
    );
}

fn shapes() -> Vec<Shape> {
    let columns = requests()
        .names()
        .iter()
        .map(|n| requests().column(n).unwrap())
        .collect::<Vec<_>>();
    let shape = |name: &str| Shape {
        name: name.into(),
        columns: columns.clone(),
        open: true,
    };
    vec![shape("cells"), shape("means")]
}

#[test]
fn a_check_knows_the_result_columns_and_assumes_those_of_open_tables() {
    let checked = check(
        "select a.concurrency, superseded, avg(ttft_ms) as mean, upper(a.status) as s, a.ttft_ms
         from cells a join means b using (rep, ttft_ms, superseded) group by a.concurrency",
        &shapes(),
    )
    .unwrap();
    assert_eq!(checked.assumed, ["rep", "concurrency"]);
    let columns: Vec<_> = checked
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.kind, c.unit.as_deref()))
        .collect();
    assert_eq!(
        columns,
        [
            ("concurrency", None, None),
            ("superseded", Some(Kind::Bool), None),
            ("mean", Some(Kind::Float), None),
            ("s", Some(Kind::Text), None),
            ("ttft_ms", Some(Kind::Float), Some("ms")),
        ]
    );
}

#[test]
fn a_check_finds_what_cannot_work() {
    assert_eq!(
        check("select 1 from cell", &shapes()).unwrap_err(),
        QueryError::NoTable("cell".into())
    );
    assert!(matches!(
        check("select from cells", &shapes()),
        Err(QueryError::Sql(..))
    ));
    let closed: Vec<Shape> = shapes()
        .into_iter()
        .map(|s| Shape { open: false, ..s })
        .collect();
    assert_eq!(
        check("select rep from cells", &closed).unwrap_err(),
        QueryError::NoColumn("rep".into())
    );
    assert_eq!(
        check("select nosuch.rep from cells", &shapes()).unwrap_err(),
        QueryError::NoColumn("nosuch.rep".into())
    );
}

#[test]
fn the_page_names_every_function_and_its_queries_work() {
    let page = include_str!("../../../../docs/sql.md");
    for name in [query::ALLOWED, query::AGGREGATES, query::SCALARS].concat() {
        assert!(
            page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}(")),
            "{name}"
        );
    }
    let shape = |name: &str| Shape {
        name: name.into(),
        columns: vec![Column::int("phase", [])],
        open: true,
    };
    let facts = Shape {
        name: "cell".into(),
        columns: vec![Column::int("expected_requests", [])],
        open: false,
    };
    let tables = [shape("ladder.requests"), shape("requests"), facts];
    let queries: Vec<&str> = page
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("```")?.0))
        .collect();
    assert_eq!(queries.len(), 3);
    for query in queries {
        assert!(
            check(query, &tables).is_ok(),
            "{query}: {:?}",
            check(query, &tables)
        );
    }
}

proptest! {
    #[test]
    fn quantiles_and_deviations_are_those_of_the_statistics_crate(
        values in prop::collection::vec(prop::option::of(-1e6_f64..1e6), 1..60),
        p in 0.0_f64..=1.0,
    ) {
        let mut database = Database::new().unwrap();
        database.add("t", &Table::new(vec![Column::float("x", values.iter().copied())]).unwrap()).unwrap();
        let sql = format!(
            "select quantile(x, {p:?}) as q, median(x) as m, stddev(x) as s, variance(x) as v from t"
        );
        let table = database.select(&sql, &Limits::default()).unwrap().table;
        let sample = Sample::new(values.into_iter().flatten()).ok();
        let scalar = |f: &dyn Fn(&Sample) -> Option<f64>| sample.as_ref().and_then(f).map_or(Scalar::Null, Scalar::Float);
        prop_assert_eq!(table.value("q", 0).unwrap(), scalar(&|s| Some(s.quantile(p))));
        prop_assert_eq!(table.value("m", 0).unwrap(), scalar(&|s| Some(s.median())));
        prop_assert_eq!(table.value("s", 0).unwrap(), scalar(&Sample::std));
        prop_assert_eq!(table.value("v", 0).unwrap(), scalar(&Sample::variance));
    }

    #[test]
    fn any_text_is_answered_or_refused_and_never_panics(sql in "(select |with )?[ a-z0-9'\"`;,.()*=-]{0,60}") {
        let _refused = database().select(&sql, &Limits { instructions: 1_000_000, ..Limits::default() });
    }
}

#[test]
fn a_table_joined_by_another_column_does_not_make_the_first_one_ambiguous() {
    let shape = |name: &str, column: &str| Shape {
        name: name.into(),
        columns: vec![Column::float(column, [])],
        open: true,
    };
    let shapes = [
        shape("cells", "rate"),
        shape("devices", "peak"),
        shape("params", "size"),
    ];
    let query = "select model, gpu, rate * size as x, peak \
                 from cells join params using (model) join devices using (gpu)";
    let checked = check(query, &shapes).unwrap();
    let names: Vec<&str> = checked.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["model", "gpu", "x", "peak"]);
    assert_eq!(checked.assumed, ["model", "gpu"]);
    // All three tables must have the column.
    let query = "select model from cells join params using (model) join devices using (model)";
    assert_eq!(check(query, &shapes).unwrap().assumed, ["model"]);
    let wrong = "select nosuch.model from cells join params using (model)";
    assert!(check(wrong, &shapes).is_err());
}

#[test]
fn parts_of_a_union_may_each_read_a_column_that_their_own_table_is_assumed_to_have() {
    let query = "with both as (select rep, ttft_ms from cells union all select rep, ttft_ms from means) \
                 select rep, max(ttft_ms) as worst from both group by rep";
    let checked = check(query, &shapes()).unwrap();
    assert_eq!(checked.assumed, ["rep"]);
    let wrong = "select nosuch.rep from cells union all select rep from means";
    assert!(check(wrong, &shapes()).is_err());
}
