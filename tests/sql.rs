//! SQL queries on an executed experiment.

use std::fs;

use crate::support::{Outcome, Project, finished};

fn ask(project: &Project, query: &str, more: &[&str]) -> Outcome {
    let arguments = ["sql", "experiments/quickstart.yaml", "--smoke", query];
    project.run(arguments.iter().chain(more))
}

#[test]
fn sql_counts_the_rows_of_all_cells_by_their_coordinates() {
    let query =
        "select configuration, count(distinct concurrency) as levels, sum(phase = 'measured') as measured
                 from \"ladder.requests\" where not superseded group by configuration";
    let answer = ask(finished(), query, &["--csv"]).ok();
    assert_eq!(
        answer.stdout,
        "configuration,levels,measured\nbatched,3,48\nserial,3,48\nserial-again,3,48\n"
    );
    let json = ask(
        finished(),
        "select output_throughput from cells",
        &["--json"],
    )
    .ok()
    .json();
    assert_eq!(
        (&json["rows_in_all"], &json["units"]["output_throughput"]),
        (&18.into(), &"tok/s".into())
    );
}

#[test]
fn sql_writes_the_same_parquet_twice() {
    let project = Project::finished();
    let query =
        "select workload, quantile(output_throughput, 0.5) as m from cells group by workload";
    let bytes = ["one.parquet", "two.parquet"].map(|file| {
        ask(&project, query, &["--parquet", file]).ok();
        fs::read(project.path().join(file)).expect("the file is written")
    });
    assert!(bytes[0].starts_with(b"PAR1") && bytes[0] == bytes[1]);
}

#[test]
fn sql_that_cannot_be_answered_says_why() {
    for (query, code, expected) in [
        ("select * from requsts", 5, "did you mean `requests`?"),
        ("select * from results.cells", 5, "\"results.cells\""),
        (
            "select conccurrency from cells",
            2,
            "did you mean `concurrency`?",
        ),
        (
            "select * frm cells",
            2,
            "near \"frm\": syntax error (column 10)",
        ),
        ("select random() as r", 2, "a query may not call `random`"),
        ("delete from cells", 2, "a query must begin with `select`"),
    ] {
        let outcome = ask(finished(), query, &[]);
        assert_eq!(outcome.code, Some(code), "{query}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(expected),
            "{query}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn sql_without_a_query_lists_the_tables() {
    let tables = finished()
        .run(["sql", "experiments/quickstart.yaml", "--smoke"])
        .ok()
        .stdout;
    let line = tables
        .lines()
        .find(|l| l.starts_with("\"ladder.requests\""))
        .expect("a line for the raw rows");
    assert!(
        line.contains("block, configuration, workload, concurrency, request_id"),
        "{line}"
    );
}
