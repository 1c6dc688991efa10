//! Queries over tables that no stage has. Planning knows the tables of each kind of stage, so nothing is measured first.

use crate::mistakes::{hinted, planned, written};

const CELLS: &str = "cells: {operator: cell-summary}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";

fn table(name: &str) -> String {
    format!(
        "{CELLS}\n      mine: {{operator: sql, keys: [clients], query: 'select clients, count(*) as n from \"{name}\" group by clients'}}"
    )
}

fn gate(name: &str) -> String {
    format!(
        "checks: {{kind: verify, needs: [server, ladder], gates: [{{gate: sql, name: mine, query: 'select count(*) > 0 from \"{name}\"'}}]}}"
    )
}

#[test]
fn a_query_over_a_table_that_no_needed_stage_has_is_refused_by_planning() {
    let project = written();
    let of_load =
        "a query reads tables of load stages and of programs; those of `ladder` are `requests`, ";
    for (name, message, hint) in [
        (
            "ladder.requsts",
            "the stage `ladder` has no table `requsts`",
            "did you mean `ladder.requests`?\n",
        ),
        (
            "ladder.logs",
            "the stage `ladder` has no table `logs`",
            "did you mean `ladder.engine_events`?\n",
        ),
        (
            "ladder.telemetry",
            "the stage `ladder` has no table `telemetry`",
            "did you mean `ladder.host_telemetry`?\n",
        ),
        (
            "ladder.nonsense",
            "the stage `ladder` has no table `nonsense`",
            "the tables of a load stage are `requests`, ",
        ),
        (
            "laddr.requests",
            "but the stage does not need `laddr`",
            "did you mean `ladder`?\n",
        ),
        (
            "laddr.nonsense",
            "but the stage does not need `laddr`",
            "did you mean `ladder`?\n",
        ),
        (
            "server.logs",
            "but the stage does not need `server`",
            "the cells of `ladder` have it: write `\"ladder.engine_events\"`\n",
        ),
        ("report.cells", "write `cells`", ""),
        (
            "requests",
            "unknown table `requests`",
            "write `\"STAGE.requests\"`, in double quotes, with the name of the load stage\n",
        ),
        (
            "gpu",
            "unknown table `gpu`",
            "write `\"STAGE.gpu_telemetry\"`, in double quotes, ",
        ),
        ("cell", "unknown table `cell`", "did you mean `cells`?\n"),
        (
            "checks.verdicts",
            "a query cannot read tables of `checks`, which is a stage of kind `verify`",
            of_load,
        ),
        (
            "checks.gpu",
            "a query cannot read tables of `checks`, which is a stage of kind `verify`",
            "the cells of `ladder` have it: write `\"ladder.gpu_telemetry\"`\n",
        ),
    ] {
        let said = planned(&project, CELLS, &table(name));
        assert!(
            said.contains(message) && said.contains(hint),
            "{name}: {said}"
        );
        assert_eq!(said.matches("error: ").count(), 1, "{name}: {said}");
        assert!(said.contains("spoilt.yaml:"), "{name}: {said}");
    }
}

#[test]
fn a_gate_over_a_table_that_no_cell_has_gets_the_table() {
    let project = written();
    let alone = "a gate reads the tables of one cell at a time, without the stage: ";
    for (name, hint) in [
        ("ladder.requests", format!("{alone}write `requests`\n")),
        ("ladder.requsts", format!("{alone}write `requests`\n")),
        ("server.logs", format!("{alone}write `engine_events`\n")),
        ("results.mine", format!("{alone}`requests`, `chunks`, ")),
        ("reqests", "did you mean `requests`?\n".to_owned()),
        ("samples", "did you mean `requests`?\n".to_owned()),
        ("gpu", "did you mean `gpu_telemetry`?\n".to_owned()),
        (
            "nonsense",
            "the tables are `requests`, `chunks`, ".to_owned(),
        ),
    ] {
        let message = hinted(&project, CHECKS, &gate(name), &format!("hint: {hint}"));
        assert_eq!(message.matches("error: ").count(), 1, "{name}: {message}");
    }
}
