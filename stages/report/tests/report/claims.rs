//! Claims: verdicts, narrower forms, forbidden phrases, the order of claim and measurement.

use std::collections::BTreeMap;

use pipeline::stage::{Done, Json, Library, Problem};
use report::collections;
use serde_json::json;

use crate::fixture::{Lab, Templates, bytes, markdown};

/// Templates and claims.
pub(crate) struct Study {
    pub(crate) templates: Templates,
    pub(crate) claims: BTreeMap<String, Json>,
}

impl Library for Study {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        match collection {
            "claims" => self.claims.get(name).cloned(),
            _ => self.templates.find(collection, name),
        }
    }

    fn names(&self, collection: &str) -> Vec<String> {
        match collection {
            "claims" => self.claims.keys().cloned().collect(),
            _ => self.templates.names(collection),
        }
    }
}

fn every(that: &str) -> Json {
    json!({"every": {"table": "results.efficiency", "that": that}})
}

fn claim(says: &str, that: &str) -> Json {
    json!({"says": says, "rule": every(that)})
}

fn render(lab: &mut Lab, claims: &[(&str, Json)], text: &str) -> Result<Done, String> {
    let claims: BTreeMap<String, Json> = claims
        .iter()
        .map(|(n, c)| ((*n).to_owned(), c.clone()))
        .collect();
    lab.study.spec["claims"] = serde_json::to_value(&claims).unwrap();
    let library = Study {
        templates: Templates::one(text),
        claims,
    };
    lab.render_with(&json!({"template": "t.md"}), &library)
        .map_err(|f| f.reason)
}

const VERDICTS: &str = "{% for c in rows(\"claims\") %}\n- {{ c.show(\"claim\") }}: {{ c.show(\"verdict\") }}, {{ c.show(\"may_say\") }}\n{% endfor %}\n";

#[test]
fn a_claim_is_licensed_refused_or_undecided_by_its_rule() {
    let mut undecided = claim("Significant.", "efficiency > 0.3");
    undecided["refused-if"] = every("efficiency < 0");
    let claims = [
        ("a", claim("All are fine.", "efficiency <= 1")),
        ("b", claim("All are fast.", "efficiency > 0.3")),
        ("c", claim("All have bounds.", "low > 0")),
        ("d", undecided),
    ];
    let done = render(&mut Lab::new(), &claims, VERDICTS).unwrap();
    assert_eq!(
        markdown(&done),
        "- a: licensed, All are fine.\n- b: refused, n/a\n- c: undecided, n/a\n- d: undecided, n/a\n"
    );
    let table = artifacts::Table::from_parquet(bytes(&done, "statements")).unwrap();
    assert_eq!(
        table.text("claim").unwrap(),
        [Some("a"), Some("b"), Some("c"), Some("d")]
    );
    assert_eq!(
        table.text("truth").unwrap(),
        [Some("yes"), Some("no"), Some("unknown"), Some("no")]
    );
}

#[test]
fn the_first_narrower_form_that_holds_may_be_said_instead() {
    let mut wide = claim("All are fast.", "efficiency > 0.6");
    wide["narrower"] = json!([
        {"says": "Those are fast.", "rule": every("efficiency > 0.3")},
        {"says": "None stands still.", "rule": every("efficiency > 0")},
    ]);
    let done = render(&mut Lab::new(), &[("a", wide)], "{{ claim(\"a\") }}\n").unwrap();
    assert_eq!(markdown(&done), "None stands still.\n");
}

#[test]
fn a_claim_without_a_licence_cannot_be_said() {
    let refused = [("a", claim("All are fast.", "efficiency > 0.6"))];
    let error = render(&mut Lab::new(), &refused, "x\n{{ claim(\"a\") }}\n")
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.starts_with("t.md:2:4: the claim `a` is refused"),
        "{error}"
    );
    let done = render(
        &mut Lab::new(),
        &refused,
        "{{ claim(\"a\", otherwise=\"no word of it\") }}\n",
    )
    .unwrap();
    assert_eq!(markdown(&done), "no word of it\n");
    let error = render(&mut Lab::new(), &refused, "{{ claim(\"b\") }}\n")
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.contains("no claim `b` is declared; the claims are: a"),
        "{error}"
    );
}

#[test]
fn a_phrase_of_a_refused_claim_is_refused_wherever_it_stands() {
    let forbids = |that: &str| {
        let mut claim = claim("Quick as ever, they say.", that);
        claim["forbidden"] = json!(["quick as ever"]);
        [("a", claim)]
    };
    let text = "It is QUICK\n*as ever*, we saw.\n";
    let error = render(&mut Lab::new(), &forbids("efficiency > 0.6"), text)
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.starts_with("the phrase check refuses 1 phrase"),
        "{error}"
    );
    assert!(error.contains("t.md:1:7 (report 1:7)"), "{error}");
    assert!(render(&mut Lab::new(), &forbids("efficiency <= 1"), text).is_ok());
    // The list of claims may quote the forbidden phrase.
    let quoted = "{{ row(\"claims\").show(\"says\") }} It is quick as evergreens.\n";
    assert!(render(&mut Lab::new(), &forbids("efficiency > 0.6"), quoted).is_ok());
}

#[test]
fn the_records_show_whether_a_claim_came_before_the_measurements() {
    let claims = [("a", claim("All are fine.", "efficiency <= 1"))];
    let text = "{% for c in rows(\"claims\") %}{{ c.show(\"registered\") }} ({{ c.show(\"measured_after\") }} of {{ c.show(\"measured\") }}){% endfor %}\n";
    let message = |records: &[Json]| {
        let mut lab = Lab::new();
        let cells = &mut lab.inputs[2].cells;
        for (cell, record) in cells.iter_mut().zip(records) {
            cell.record = Some(lab.store.put(&serde_json::to_vec(record).unwrap()).unwrap());
        }
        markdown(&render(&mut lab, &claims, text).unwrap())
    };
    let spec = json!({"claims": {"a": claims[0].1}});
    let digest = pipeline::claims_digests(&spec)["a"].to_string();
    let tests = pipeline::tests_digests(&spec)["a"].to_string();
    let words = json!({"claims": {"a": digest}});
    let with = json!({"claims": {"a": digest}, "claim_tests": {"a": tests}});
    let other = json!({"claims": {"a": "b3:0000"}});
    assert_eq!(
        message(&[with.clone(), with.clone()]),
        "before all measurements (2 of 2)\n"
    );
    let margin_changed = json!({"claims": {"a": digest}, "claim_tests": {"a": "b3:0000"}});
    for record in [words, margin_changed] {
        assert_eq!(
            message(&[with.clone(), record]),
            "before all measurements in these words; the records do not show it for the margin, the level and the other \
             settings of its tests (2 of 2)\n"
        );
    }
    assert_eq!(
        message(&[with, other.clone()]),
        "before some of the measurements (1 of 2)\n"
    );
    assert_eq!(
        message(&[other, json!({})]),
        "not before the measurements, in these words (0 of 2)\n"
    );
}

#[test]
fn mistakes_in_a_claim_are_reported_while_planning() {
    let problem = |definition: Json| -> Vec<Problem> {
        let claims = BTreeMap::from([("a".to_owned(), definition)]);
        let library = Study {
            templates: Templates::one(""),
            claims,
        };
        let settings = json!({"template": "t.md"});
        pipeline::stage::StageKind::canonical(&report::Report, &settings, &library).unwrap_err()
    };
    for (definition, what) in [
        (json!({"says": "x"}), "missing field `rule`"),
        (claim("x", "efficiency >"), "character 13"),
        (claim(" ", "efficiency > 1"), "`says` is empty"),
        (
            json!({"says": "x", "rule": {"evry": {}}}),
            "unknown variant `evry`",
        ),
    ] {
        let problems = problem(definition);
        assert!(problems[0].message.contains(what), "{what}: {problems:?}");
    }
    assert_eq!(collections()[0].0, "claims");
}

#[test]
fn a_claim_that_was_measured_again_says_by_which_execution_it_is_licensed() {
    let text = "{% for c in rows(\"claims\") %}\n- {{ c.show(\"claim\") }}: {{ c.show(\"licensed_by\", null=\"once\") }}\n{% endfor %}\n";
    let claims = [
        ("holds", claim("It holds.", "efficiency > 0")),
        ("fails", claim("It fails.", "efficiency < 0")),
    ];
    let mut lab = Lab::new();
    let done = render(&mut lab, &claims, text).unwrap();
    assert!(
        markdown(&done).contains("- holds: once"),
        "{}",
        markdown(&done)
    );
    for line in &mut lab.study.ledger {
        line.execution = Some(pipeline::stage::Execution {
            order: 1,
            place: None,
            executions: 3,
            discarded: Vec::new(),
            loud: None,
            host: None,
            by: None,
            started: None,
        });
    }
    let done = render(&mut lab, &claims, text).unwrap();
    let said = markdown(&done);
    assert!(
        said.contains("- holds: by the latest of 3 executions"),
        "{said}"
    );
    assert!(said.contains("- fails: once"), "{said}");
}
