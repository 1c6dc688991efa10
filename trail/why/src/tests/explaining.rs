use std::fs;

use artifacts::Table;
use contract::LineageSource;

use super::study::{REPORT, Study, number};
use crate::{Answer, MadeOf, RowRange, why};

fn explain(study: &Study, text: &str) -> Answer {
    let document = study.document();
    let number = number(&document, text).clone();
    let mut answer = why(&document, &study.provenance(&document), &number, &[]).unwrap();
    answer.report = "report.md".to_owned();
    answer
}

#[test]
fn a_mean_is_followed_over_its_table_to_the_request_rows() {
    let study = Study::new();
    let answer = explain(&study, "15.5");
    assert_eq!(answer.doubts, Vec::<String>::new());
    let Some(MadeOf::Table(cells)) = answer.lineage.as_ref().and_then(|l| l.sources.first()) else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (cells.output.as_str(), &cells.spans),
        ("cells", &vec![RowRange { start: 0, end: 2 }])
    );
    let raw: Vec<_> = answer
        .raw
        .iter()
        .map(|r| (r.cell(), r.output.as_str(), r.spans.clone(), r.rows))
        .collect();
    let spans = vec![RowRange { start: 2, end: 10 }];
    assert_eq!(
        raw,
        [
            (
                "ladder[configuration=batched,rep=1]".to_owned(),
                "requests",
                spans.clone(),
                8
            ),
            (
                "ladder[configuration=batched,rep=2]".to_owned(),
                "requests",
                spans,
                8
            ),
        ]
    );
}

#[test]
fn a_row_of_one_cell_leads_to_that_cell_only() {
    let answer = explain(&Study::new(), "20.5");
    let cells: Vec<&str> = answer.cells.iter().map(|c| c.cell.as_str()).collect();
    assert_eq!(cells, ["ladder[configuration=batched,rep=2]"]);
}

#[test]
fn cells_of_equal_bytes_are_distinguished() {
    let study = Study::of([1, 1]);
    let answer = explain(&study, "20.5");
    let cells: Vec<&str> = answer.cells.iter().map(|c| c.cell.as_str()).collect();
    assert_eq!(cells, ["ladder[configuration=batched,rep=2]"]);
    let answer = explain(&study, "15.5");
    let cells: Vec<&str> = answer.cells.iter().map(|c| c.cell.as_str()).collect();
    assert_eq!(
        cells,
        [
            "ladder[configuration=batched,rep=1]",
            "ladder[configuration=batched,rep=2]"
        ]
    );
}

#[test]
fn a_trace_of_another_version_is_refused() {
    let study = Study::new();
    let trace = Table::from_parquet(fs::read(&study.trace).unwrap()).unwrap();
    let columns = trace.names();
    let columns = columns.iter().map(|name| trace.column(name).unwrap());
    let older = Table::with_metadata(columns.collect(), &[("format", "trace 1")]).unwrap();
    fs::write(&study.trace, older.to_parquet().unwrap()).unwrap();
    let error = crate::Document::open(&study.report, &study.trace).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its format is `trace 1`, this benchtrail reads `trace 2`"),
        "{error}"
    );
}

#[test]
fn the_gates_of_the_cells_behind_a_number_are_named() {
    let study = Study::new();
    let good = explain(&study, "10.5");
    assert_eq!(
        (good.cells[0].gates.pass, good.cells[0].gates.fail.len()),
        (1, 0)
    );
    assert_eq!(good.stage_gates.not_judged.len(), 1);
    let text = good.to_string();
    assert!(
        text.contains(
            "gates  1 pass, 0 fail, 0 not judged in 1 measured cell; 0 pass, 0 fail, 1 not judged of the stage"
        ) && text.contains("gate row-status (warn) not judged: 7 ok rows; expected 8 ok rows"),
        "{text}"
    );
    let warned = explain(&study, "20.5");
    assert_eq!(warned.cells[0].gates.fail[0].gate, "row-status");
    assert!(
        warned
            .to_string()
            .contains("gate row-status (warn) fail: 7 ok rows; expected 8 ok rows"),
        "{warned}"
    );
}

#[test]
fn engine_and_host_behind_a_number_are_named() {
    let study = Study::new();
    let answer = explain(&study, "15.5");
    assert_eq!(answer.servers.len(), 1);
    let server = &answer.servers[0];
    assert_eq!(
        (server.engine.as_deref(), server.model.as_deref()),
        (Some("llama-cpp"), Some("small"))
    );
    assert_eq!(
        server.environment,
        Some(study.outputs["machine.environment"])
    );
    assert_eq!(server.facets["cpu_model"], "Abacus");
}

#[test]
fn people_see_a_tree() {
    let study = Study::new();
    let mut text = explain(&study, "15.5").to_string();
    for (name, digest) in &study.outputs {
        text = text.replace(
            &digest.short(),
            &format!("<{}>", name.rsplit(['.', ']']).next().unwrap_or(name)),
        );
    }
    let expected = "15.5 tok/s   report.md:3:13
= 15.5 tok/s, printed as 15.5 by the format `0.0`
└─ results.ladder row 0 (<ladder>): configuration=batched
   │  column throughput_mean (tok/s): mean over rep
   └─ results.cells rows 0..2: 2 rows (<cells>)
      ├─ ladder[configuration=batched,rep=1]
      │     requests 2..10 (<requests>): 8 request rows
";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.contains(
            "engine llama-cpp 1.2, model small; server[configuration=batched] (<server>)"
        ),
        "{text}"
    );
    assert!(
        text.contains("\n  benchtrail show <requests> --rows 2..10\n"),
        "{text}"
    );
}

#[test]
fn a_count_leads_to_the_rows_it_counted() {
    let answer = explain(&Study::new(), "2");
    assert_eq!(answer.lineage.map(|l| l.rows), Some(2));
    assert_eq!(answer.raw.len(), 2);
}

#[test]
fn a_declared_number_says_where_it_is_declared() {
    let answer = explain(&Study::new(), "164");
    assert!(
        answer
            .to_string()
            .contains("declared in the experiment at `seed`"),
        "{answer}"
    );
    assert!(answer.place.is_none());
}

#[test]
fn an_edited_report_is_explained_with_a_doubt() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("15.5", "25.5")).unwrap();
    let answer = explain(&study, "15.5");
    assert_eq!(answer.raw.len(), 2);
    assert!(
        answer
            .doubts
            .iter()
            .any(|d| d.contains("the report was edited")),
        "{:?}",
        answer.doubts
    );
    assert!(
        answer
            .doubts
            .iter()
            .any(|d| d.contains("no longer has `15.5` at 3:13")),
        "{:?}",
        answer.doubts
    );
}

#[test]
fn without_a_lock_the_table_is_named_and_the_doubt_is_stated() {
    let study = Study::new();
    fs::remove_file(&study.lock).unwrap();
    let answer = explain(&study, "15.5");
    let place = answer.place.as_ref().unwrap();
    assert_eq!(place.description.as_deref(), Some("mean over rep"));
    assert!(answer.raw.is_empty());
    assert!(
        answer.doubts[0].contains("no lock of this project"),
        "{:?}",
        answer.doubts
    );
}

#[test]
fn a_report_and_trace_both_edited_are_still_followed_by_their_artifacts() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("# Study", "# Proof")).unwrap();
    study.change_trace(2, |_| "165".to_owned(), "value");
    let answer = explain(&study, "15.5");
    assert_eq!(answer.raw.len(), 2);
    assert!(
        answer.doubts[0].contains("neither the report nor its trace"),
        "{:?}",
        answer.doubts
    );
}

#[test]
fn a_damaged_table_is_an_error_that_names_it() {
    let study = Study::new();
    study.damage("results.cells.lineage");
    let document = study.document();
    let number = number(&document, "15.5");
    let error = why(&document, &study.provenance(&document), number, &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&study.outputs["results.cells.lineage"].hex()[..12]),
        "{error}"
    );
}

#[test]
fn the_answer_for_programs_has_every_part() {
    let answer = serde_json::to_value(explain(&Study::new(), "15.5")).unwrap();
    assert_eq!(answer["number"]["value"], "15.5");
    assert_eq!(answer["lineage"]["sources"][0]["kind"], "table");
    assert_eq!(answer["lineage"]["sources"][0]["sources"][1]["kind"], "raw");
    assert_eq!(answer["raw"][0]["spans"][0]["start"], 2);
    assert_eq!(answer["servers"][0]["settings"]["parallel"], 8);
}

#[test]
fn numbers_of_one_row_in_turn_are_followed_once() {
    let study = Study::new();
    let document = study.document();
    let provenance = study.provenance(&document);
    let ask = |text: &str| why(&document, &provenance, number(&document, text), &[]).unwrap();
    let is_kept = |text: &str| {
        let number = number(&document, text);
        let row = number.row.unwrap();
        let spans = [RowRange {
            start: row,
            end: row + 1,
        }];
        let holder = provenance.holder(number).unwrap().unwrap();
        let place = (holder.digest, number.output.as_deref().unwrap(), &spans[..]);
        let again = || panic!("the rows of {text} are followed again");
        provenance.descent(place, again).is_ok()
    };
    let first = ask("15.5");
    assert!(is_kept("15.5"));
    assert_eq!(ask("15.5"), first);
    // A different row is followed separately and gets its own answer.
    assert_ne!(ask("20.5").lineage, first.lineage);
    assert!(is_kept("20.5"));
    assert_eq!(ask("15.5"), first);
}

#[test]
fn tables_that_are_made_from_each_other_end_at_a_limit() {
    let both = || {
        vec![
            (0, LineageSource::from("cells"), 0, 2),
            (0, LineageSource::from("ladder"), 0, 1),
            (1, LineageSource::from("ladder"), 0, 1),
        ]
    };
    let study = Study::with_lineage([1, 2], |_| [both(), both()]);
    let document = study.document();
    let provenance = study.provenance(&document);
    let error = why(&document, &provenance, number(&document, "15.5"), &[]).unwrap_err();
    assert!(
        error.to_string().contains("more than 5000000 steps"),
        "{error}"
    );
    // A chain that returns to its start is reported as circular.
    let study = Study::with_lineage([1, 2], |[first, _]| {
        let own = (0, LineageSource::from("cells"), 0, 2);
        [
            vec![own, (1, first, 2, 10)],
            vec![(0, "cells".into(), 0, 2)],
        ]
    });
    let answer = explain(&study, "15.5");
    assert!(
        answer.doubts.iter().any(|d| d.contains("circular")),
        "{:?}",
        answer.doubts
    );
}
