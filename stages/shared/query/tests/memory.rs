//! A query that needs too much memory ends with an error. The test has its own process, because the
//! limit applies to the whole process.

use artifacts::{Column, Table};
use query::{Database, Limits, QueryError};

/// Sets a limit below the usual one, so that no test needs gigabytes. The lower of the two applies.
fn database() -> Database {
    let first = rusqlite::Connection::open_in_memory().unwrap();
    first
        .pragma_update(None, "hard_heap_limit", 48_i64 << 20)
        .unwrap();
    let mut database = Database::new().unwrap();
    let table = Table::new(vec![Column::int("n", (0..100).map(Some))]).unwrap();
    database.add("t", &table).unwrap();
    database
}

#[test]
fn sorts_recursions_aggregates_and_tables_end_at_the_limit_of_memory() {
    let mut database = database();
    let many = "with recursive r(i) as (select 1 union all select i + 1 from r where i < 100000) ";
    for greedy in [
        "select sum(k) n from (select row_number() over (order by printf('%1000d', i)) k from r)",
        "select count(distinct printf('%1000d', i)) n from r",
        "select length(group_concat(printf('%1000d', i))) n from r",
        "select count(*) n from (select printf('%1000d', a.i) x from r a union select printf('%999d', b.i) from r b)",
    ] {
        let asked = database.select(&format!("{many}{greedy}"), &Limits::default());
        match asked {
            Err(QueryError::Limit(message)) => assert!(message.contains("memory"), "{message}"),
            // A text has its own limit.
            Err(QueryError::Failed(message)) => {
                assert!(message.contains("too big"), "{greedy}: {message}");
            }
            other => panic!("{greedy}: {other:?}"),
        }
    }
    // Queries that fit still work.
    let small = database.select("select sum(n) s from t", &Limits::default());
    assert_eq!(small.unwrap().table.int("s").unwrap(), [Some(4950)]);
    let wide = "x".repeat(1000);
    let table = Table::new(vec![Column::text(
        "x",
        (0..100_000).map(|_| Some(wide.clone())),
    )])
    .unwrap();
    assert!(matches!(
        database.add("wide", &table),
        Err(QueryError::Limit(_))
    ));
}
