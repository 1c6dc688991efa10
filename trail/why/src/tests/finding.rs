use super::study::Study;
use crate::{Document, Found, Query, TrailError, find};

fn places(document: &Document, report: &str, text: Option<&str>) -> Result<Vec<String>, String> {
    match find(document, &Query::parse(report, text)) {
        Ok(Found::One(number, _)) => Ok(vec![number.place()]),
        Ok(Found::Several(numbers)) => Ok(numbers.iter().map(|n| n.place()).collect()),
        Err(TrailError::NoNumber { asked, hint }) => Err(format!("{asked}; {hint}")),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_place_is_read_from_the_end_of_the_path() {
    let query = Query::parse("a:b/report.md:42:17", Some(" 57.3 "));
    assert_eq!(
        (query.report.to_str(), query.line, query.column),
        (Some("a:b/report.md"), Some(42), Some(17))
    );
    assert_eq!(query.text.as_deref(), Some("57.3"));
    let query = Query::parse("report.md", None);
    assert_eq!((query.line, query.column, query.text), (None, None, None));
}

#[test]
fn a_number_is_found_by_line_by_column_and_by_text() {
    let document = Study::new().document();
    assert_eq!(
        places(&document, "r.md", Some("15.5")),
        Ok(vec!["3:13".into()])
    );
    assert_eq!(
        places(&document, "r.md", Some("15.5 tok/s")),
        Ok(vec!["3:13".into()])
    );
    assert_eq!(
        places(&document, "r.md:3:16", None),
        Ok(vec!["3:13".into()])
    );
    assert_eq!(
        places(&document, "r.md:5", Some("20.5")),
        Ok(vec!["5:14".into()])
    );
    assert_eq!(
        places(&document, "r.md:5", None),
        Ok(vec!["5:7".into(), "5:14".into()])
    );
}

#[test]
fn a_column_past_a_number_does_not_hit_it() {
    let document = Study::new().document();
    let error = places(&document, "r.md:3:17", None).unwrap_err();
    assert!(error.contains("`15.5` at 3:13"), "{error}");
}

#[test]
fn a_number_that_is_not_there_is_answered_with_those_near() {
    let document = Study::new().document();
    let error = places(&document, "r.md:5", Some("15.5")).unwrap_err();
    assert!(
        error.contains("no number `15.5` on ")
            && error.ends_with("that line has `10.5` at 5:7, `20.5` at 5:14"),
        "{error}"
    );
    let error = places(&document, "r.md", Some("15.51")).unwrap_err();
    assert!(error.ends_with("the nearest are `15.5` at 3:13"), "{error}");
    let error = places(&document, "r.md:900", None).unwrap_err();
    assert!(error.contains("the nearest are `10.5` at 5:7"), "{error}");
}

#[test]
fn a_hint_lists_numbers_and_says_where_the_report_ends() {
    let mut document = Study::new().document();
    let lines = document.markdown.lines().count();
    let error = places(&document, "r.md:900", None).unwrap_err();
    let end = format!("; it has {lines} lines; the nearest are ");
    assert!(error.contains(&end), "{error}");
    for number in document.numbers.iter_mut().filter(|n| n.line == 5) {
        (number.text, number.value) = ("yes".to_owned(), Some("true".to_owned()));
    }
    let error = places(&document, "r.md:4", None).unwrap_err();
    assert!(error.contains("the nearest are `15.5` at 3:13"), "{error}");
    assert!(!error.contains("`yes`"), "{error}");
    assert!(!error.contains("it has"), "{error}");
}

#[test]
fn a_missing_report_and_a_missing_trace_are_distinguished() {
    let study = Study::new();
    let nowhere = study.folder.path().join("none.md");
    assert!(matches!(
        Document::open(&nowhere, &study.trace),
        Err(TrailError::NoReport(_))
    ));
    assert!(matches!(
        Document::open(&study.report, &nowhere),
        Err(TrailError::NoTrace(_))
    ));
    assert!(matches!(
        Document::open(&study.report, &study.report),
        Err(TrailError::Trace(..))
    ));
}
