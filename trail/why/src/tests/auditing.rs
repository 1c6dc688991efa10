use std::collections::BTreeMap;
use std::fs;

use artifacts::{ActionKey, Column, Digest, Scalar, Table};
use contract::TraceSource;
use pipeline::lock::{Earlier, Lock};
use pipeline::{CellStatus, Coordinates};

use super::study::{REPORT, Study, traced};
use crate::{Audit, Number};

fn mentions(audit: &Audit, what: &str) -> bool {
    audit.to_string().contains(what)
}

#[test]
fn an_untouched_report_holds() {
    let audit = Study::new().audit();
    assert_eq!(audit.problems, []);
    assert_eq!((audit.numbers, audit.traced, audit.verified), (5, 5, 5));
    // Seven cells: each has a record, and they have thirteen outputs in total.
    assert_eq!(audit.artifacts, 7 + 13);
    assert!(
        mentions(&audit, "5 numbers, 5 traced, 5 verified"),
        "{audit}"
    );
}

#[test]
fn a_changed_byte_of_the_table_behind_a_number_is_found() {
    let study = Study::new();
    study.damage("results.cells");
    let audit = study.audit();
    assert_eq!(audit.verified, 2, "{audit}");
    assert!(mentions(&audit, "`10.5`"), "{audit}");
    assert!(mentions(&audit, "an output of results: "), "{audit}");
}

#[test]
fn a_changed_byte_of_raw_rows_is_found_although_every_number_verifies() {
    let study = Study::new();
    study.damage("ladder[configuration=batched,rep=2].requests");
    let audit = study.audit();
    assert_eq!((audit.verified, audit.problems.len()), (5, 1), "{audit}");
    assert!(
        mentions(&audit, "an output of ladder[configuration=batched,rep=2]: "),
        "{audit}"
    );
}

#[test]
fn a_missing_raw_artifact_is_found() {
    let study = Study::new();
    let lost = study.outputs["ladder[configuration=batched,rep=1].requests"];
    fs::remove_file(study.store.path(&lost)).unwrap();
    let audit = study.audit();
    assert_eq!(audit.problems.len(), 1, "{audit}");
    assert!(
        mentions(&audit, "an output of ladder[configuration=batched,rep=1]: "),
        "{audit}"
    );
}

#[test]
fn the_record_of_an_earlier_result_must_be_there_and_have_its_key() {
    let study = Study::new();
    let mut lock = Lock::read(&study.lock).unwrap().unwrap();
    let ladder = lock.stages.iter().position(|s| s.name == "ladder");
    let ladder = ladder.unwrap();
    let other = &lock.stages[ladder].cells[1];
    let (key, record) = (other.key.unwrap(), other.record.unwrap());
    let mut earlier = |key, record| {
        lock.stages[ladder].cells[0].earlier = vec![Earlier {
            status: CellStatus::Ok,
            key,
            record,
        }];
        lock.write(&study.lock).unwrap();
        study.audit()
    };
    let audit = earlier(key, record);
    assert_eq!(audit.artifacts, 7 + 13 + 1);
    assert!(!mentions(&audit, "an earlier result"), "{audit}");
    let audit = earlier(ActionKey(Digest::of(b"another recipe")), record);
    assert!(
        mentions(&audit, "its key of an earlier result of ladder["),
        "{audit}"
    );
    let audit = earlier(key, Digest::of(b"gone"));
    assert!(
        mentions(&audit, "the record of an earlier result of ladder["),
        "{audit}"
    );
}

#[test]
fn a_changed_or_missing_figure_is_found() {
    let study = Study::new();
    fs::write(
        study.folder.path().join("curve.svg"),
        "<svg><!-- better --></svg>",
    )
    .unwrap();
    assert!(mentions(&study.audit(), "curve.svg was edited"));
    fs::remove_file(study.folder.path().join("curve.svg")).unwrap();
    assert!(mentions(
        &study.audit(),
        "curve.svg is missing next to the report"
    ));
}

#[test]
fn a_folder_without_the_page_of_the_report_holds_and_a_changed_page_does_not() {
    let study = Study::new();
    let page = study.folder.path().join("report.html");
    fs::write(&page, "<html>better</html>").unwrap();
    assert!(mentions(&study.audit(), "report.html was edited"));
    fs::remove_file(&page).unwrap();
    let audit = study.audit();
    assert!(audit.holds(), "{audit}");
    assert_eq!(audit.absent, ["report.html"]);
    let line = "1 file of the report missing beside it: report.html";
    assert!(audit.to_string().contains(line), "{audit}");
}

#[test]
fn a_broken_lock_of_another_study_does_not_matter() {
    let study = Study::new();
    let other = study.folder.path().join("other.lock");
    fs::write(&other, "benchtrail lock 1\n<<<<<<< ours\n").unwrap();
    let document = study.document();
    let provenance =
        crate::Provenance::choose(&study.store, &[other, study.lock.clone()], &document);
    assert_eq!(provenance.doubts, Vec::<String>::new());
    assert_eq!(provenance.file, Some(study.lock));
}

#[test]
fn a_changed_value_of_the_trace_is_found() {
    let study = Study::new();
    study.change_trace(0, |_| "15.51".to_owned(), "value");
    let audit = study.audit();
    assert_eq!(audit.verified, 4);
    assert!(mentions(
        &audit,
        "report.md:3:13: `15.5`: the trace has 15.51, but results.ladder row 0 \
         throughput_mean has 15.5"
    ));
    assert!(
        mentions(&audit, "the trace was edited: it is b3:"),
        "{audit}"
    );
}

#[test]
fn a_trace_that_points_to_another_artifact_is_found() {
    let study = Study::new();
    let other = study.outputs["ladder[configuration=batched,rep=1].requests"];
    study.change_trace(3, |_| other.to_string(), "artifact");
    assert!(mentions(
        &study.audit(),
        "the lock has no output results.cells with the digest"
    ));
}

#[test]
fn a_number_changed_in_report_and_trace_alike_is_found() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("10.5", "11.5")).unwrap();
    study.change_trace(3, |_| "11.5".to_owned(), "text");
    let audit = study.audit();
    assert!(
        mentions(
            &audit,
            "`11.5`: the value of results.cells row 0 throughput renders as `10.5`"
        ),
        "{audit}"
    );
    assert!(
        mentions(&audit, "no lock of this project lists the report"),
        "{audit}"
    );
}

#[test]
fn a_changed_number_of_the_report_is_found_with_its_place_and_line() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("15.5", "25.5")).unwrap();
    let audit = study.audit();
    assert_eq!(audit.verified, 4);
    assert!(
        mentions(
            &audit,
            "report.md:3:13: `15.5`: the report has `25.5` at that place"
        ),
        "{audit}"
    );
    assert!(mentions(&audit, "the report was edited: "), "{audit}");
}

#[test]
fn a_changed_word_of_the_report_is_found_although_every_number_verifies() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("# Study", "# Proof")).unwrap();
    let audit = study.audit();
    assert_eq!((audit.verified, audit.problems.len()), (5, 1), "{audit}");
    assert!(mentions(&audit, "in line 1"), "{audit}");
}

#[test]
fn a_wrong_count_is_found() {
    let study = Study::new();
    fs::write(&study.report, REPORT.replace("of 2 cells", "of 3 cells")).unwrap();
    for column in ["text", "value"] {
        study.change_trace(1, |_| "3".to_owned(), column);
    }
    assert!(mentions(
        &study.audit(),
        "`3`: the trace has 3, but results.cells count has 2"
    ));
}

#[test]
fn an_edited_lock_is_found() {
    let study = Study::new();
    let text = fs::read_to_string(&study.lock).unwrap();
    let at = text.find("ok configuration=batched,rep=1").unwrap();
    fs::write(
        &study.lock,
        format!(
            "{}{}",
            &text[..at],
            text[at..].replacen("rep=1", "rep=9", 1)
        ),
    )
    .unwrap();
    let audit = study.audit();
    assert!(mentions(&audit, "a lock cannot be used"), "{audit}");
    assert!(
        mentions(&audit, "no lock of this project lists the report"),
        "{audit}"
    );
}

/// A description of the edit, and the edit.
type Edit = (&'static str, fn(&str) -> String);

#[test]
fn a_lock_in_which_a_key_a_seed_or_a_name_is_edited_is_found() {
    let edits: [Edit; 4] = [
        ("its key of ", |text| {
            flipped(text, "ok configuration=batched,rep=1 b3:", 0)
        }),
        ("its outputs of ", |text| {
            flipped(text, "ok configuration=batched,rep=1 b3:", 2 * 68)
        }),
        ("its seed is 165", |text| {
            text.replacen("seed 164", "seed 165", 1)
        }),
        ("it is for experiment sturdy", |text| {
            text.replacen("experiment \"study\"", "experiment \"sturdy\"", 1)
        }),
    ];
    for (what, edit) in edits {
        let study = Study::new();
        let text = fs::read_to_string(&study.lock).unwrap();
        let edited = edit(&text);
        assert_ne!(edited, text);
        fs::write(&study.lock, edited).unwrap();
        let audit = study.audit();
        assert!(
            mentions(&audit, "the lock was edited: ") && mentions(&audit, what),
            "{what}: {audit}"
        );
    }
}

/// Changes a hexadecimal digit some characters after a text.
fn flipped(text: &str, behind: &str, skip: usize) -> String {
    let at = text.find(behind).unwrap() + behind.len() + skip;
    let other = if &text[at..=at] == "0" { "1" } else { "0" };
    format!("{}{other}{}", &text[..at], &text[at + 1..])
}

#[test]
fn a_lock_of_another_report_is_not_taken() {
    let study = Study::new();
    let text = fs::read_to_string(&study.lock).unwrap();
    let (kept, _) = text.split_once("stage \"report\"").unwrap();
    fs::write(&study.lock, kept).unwrap();
    assert!(mentions(
        &study.audit(),
        "no lock of this project lists the report"
    ));
}

#[test]
fn what_a_table_says_of_itself_is_read_again() {
    let cell = |rep: i64| {
        format!(
            r#"{{"coordinates": [["configuration", "batched"], ["rep", {rep}]], "reason": "hung: no byte"}}"#
        )
    };
    let missing = format!("[{}, {}]", cell(1), cell(2));
    let ratio = Column::float("gain", [Some(1.8)])
        .unit("1")
        .over("batched", "serial");
    let marked = Column::float("marked", [Some(1.8)])
        .unit("1")
        .over("*a*", "<b>");
    let table = Table::with_metadata(vec![ratio, marked], &[("missing", &missing)]).unwrap();
    let study = Study::new();
    let artifact = study.store.put(&table.to_parquet().unwrap()).unwrap();
    let document = study.document();
    let provenance = study.provenance(&document);
    let holds = |source: TraceSource, key: &str, column: &str, value: &str, text: &str| {
        let number = Number {
            stage: Some("results".to_owned()),
            coordinates: Some(Coordinates::default()),
            output: Some("gains".to_owned()),
            artifact: Some(artifact),
            row_key: Some(key.parse().unwrap()),
            column: Some(column.to_owned()),
            value: Some(value.to_owned()),
            ..traced(source, (1, 1), text)
        };
        let format = |value: &Scalar, _: Option<&str>, _: &str| Ok(value.to_string());
        crate::check::check(&provenance, &[text], &number, &format, &BTreeMap::new())
    };
    let heading = |column: &str| holds(TraceSource::Heading, "", column, column, column);
    assert_eq!(heading("gain"), Ok(()));
    assert!(
        heading("loss")
            .unwrap_err()
            .contains("has no column `loss`")
    );
    let sides = |text: &str| holds(TraceSource::Sides, "", "gain", text, text);
    assert_eq!(sides("batched ÷ serial"), Ok(()));
    let printed = |text: &str| holds(TraceSource::Sides, "", "marked", "*a* ÷ <b>", text);
    assert_eq!(printed(r"\*a\* ÷ \<b>"), Ok(()));
    assert!(printed("a ÷ <b>").is_err());
    let turned = sides("serial ÷ batched").unwrap_err();
    assert!(
        turned.contains("says that `gain` is batched ÷ serial"),
        "{turned}"
    );
    let note = |cells: &str, reason: &str| {
        let text = format!("{cells} ({reason})");
        holds(TraceSource::Missing, cells, "missing", reason, &text)
    };
    for cells in [
        "configuration=batched,rep=1|2",
        "configuration=batched,rep=2",
    ] {
        assert_eq!(note(cells, "hung: no byte"), Ok(()));
        assert_eq!(note(cells, "hung"), Ok(()));
    }
    for (cells, reason) in [
        ("configuration=batched,rep=1|3", "hung"),
        ("configuration=batched,rep=1", "failed"),
    ] {
        assert!(
            note(cells, reason)
                .unwrap_err()
                .contains("does not say that"),
            "{cells} {reason}"
        );
    }
}

#[test]
fn counting_again_reads_all_rows_once_for_each_set_of_columns() {
    let table = Table::new(vec![
        Column::int("n", (0..500).map(Some)),
        Column::text("group", (0..500).map(|n| Some(format!("g{}", n % 5)))),
    ]);
    let study = Study::new();
    let artifact = study
        .store
        .put(&table.unwrap().to_parquet().unwrap())
        .unwrap();
    let document = study.document();
    let provenance = study.provenance(&document);
    let rows = |condition: &str| {
        provenance
            .reader
            .rows(&artifact, &condition.parse().unwrap(), None)
            .unwrap()
            .len()
    };
    for n in 0..100 {
        assert_eq!(rows(&format!("n={n}|{n}.0|x")), 1);
    }
    assert_eq!(provenance.reader.indexed(), 1);
    assert_eq!(
        (
            rows("group=g1|g2"),
            rows("group=g1,n=3"),
            rows("absent=1"),
            rows("")
        ),
        (200, 0, 0, 500)
    );
    assert_eq!(provenance.reader.indexed(), 4);
}
