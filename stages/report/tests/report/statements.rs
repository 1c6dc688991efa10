//! Checked statements for each word: true, false, with an alternative, over no rows, over nulls.

use serde_json::json;

use crate::fixture::{Lab, Templates, bytes};

/// A statement: its call, the words it licenses, and whether it holds.
struct Case {
    call: &'static str,
    says: &'static str,
    holds: bool,
}

const fn yes(call: &'static str, says: &'static str) -> Case {
    Case {
        call,
        says,
        holds: true,
    }
}

const fn no(call: &'static str, says: &'static str) -> Case {
    Case {
        call,
        says,
        holds: false,
    }
}

const BATCHED: &str = r#"{"configuration": "batched"}"#;

const CASES: &[Case] = &[
    yes(
        r#"every("results.efficiency", none, "efficiency <= 1")"#,
        "Every cell, all of them",
    ),
    no(
        r#"every("results.efficiency", none, "efficiency > 0.3")"#,
        "Every cell",
    ),
    yes(
        r#"no_row("results.efficiency", none, "efficiency > 1")"#,
        "None of the cells, never",
    ),
    no(
        r#"no_row("results.efficiency", none, "efficiency = 1")"#,
        "None of the cells",
    ),
    yes(
        r#"holds("results.breakdown", {"configuration": "serial"}, "breakdown_n = 2")"#,
        "It is lower",
    ),
    no(
        r#"holds("results.breakdown", {"configuration": "serial"}, "breakdown_n = 4")"#,
        "It is lower",
    ),
    yes(
        r#"at_least("results.efficiency", none, "efficiency >= 0.5", count=5)"#,
        "Most cells",
    ),
    no(
        r#"at_least("results.efficiency", none, "efficiency >= 0.5", count=6)"#,
        "Most cells",
    ),
    yes(
        r#"at_most("results.efficiency", none, "efficiency < 0.5", count=1)"#,
        "Only so many",
    ),
    no(
        r#"at_most("results.efficiency", none, "efficiency = 1", count=1)"#,
        "Only so many",
    ),
    yes(
        r#"exactly("results.efficiency", none, "efficiency = 1", count=2)"#,
        "Only these",
    ),
    no(
        r#"exactly("results.efficiency", none, "efficiency = 1", count=1)"#,
        "Only these",
    ),
    yes(
        r#"only_these("results.efficiency", none, "efficiency < 0.3", are={"configuration": "serial", "concurrency": 4})"#,
        "The only one",
    ),
    no(
        r#"only_these("results.efficiency", none, "efficiency < 0.6", are={"configuration": "serial", "concurrency": 4})"#,
        "The only one",
    ),
    no(
        r#"only_these("results.efficiency", none, "efficiency < 0.3", are={"configuration": "serial"})"#,
        "The only one",
    ),
    yes(
        r#"largest("results.efficiency", {"concurrency": 4}, "efficiency", are={"configuration": "batched"})"#,
        "The highest",
    ),
    no(
        r#"largest("results.efficiency", {"concurrency": 4}, "efficiency", are={"configuration": "serial"})"#,
        "The highest",
    ),
    // Two cells share the largest efficiency.
    no(
        r#"largest("results.efficiency", none, "efficiency")"#,
        "The highest",
    ),
    yes(
        r#"smallest("results.efficiency", none, "e2e_p95", are={"concurrency": 1})"#,
        "The shortest, the fastest",
    ),
    no(
        r#"smallest("results.efficiency", none, "e2e_p95", are={"concurrency": 2})"#,
        "The shortest",
    ),
    yes(
        r#"between("results.efficiency", none, "efficiency", low=0.25, high=1)"#,
        "It is the maximum and the minimum",
    ),
    no(
        r#"between("results.efficiency", none, "efficiency", low=0.3, high=1)"#,
        "It is the maximum and the minimum",
    ),
    yes(
        r#"within("results.efficiency", {"configuration": "serial"}, "efficiency", of="serial_reference", ratio=0.05)"#,
        "Near-identical",
    ),
    no(
        r#"within("results.efficiency", none, "efficiency", of="serial_reference", by=0.05)"#,
        "Near-identical",
    ),
    yes(
        r#"monotone("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"], direction="falling", strictly=true)"#,
        "Steadily",
    ),
    no(
        r#"monotone("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"])"#,
        "Steadily",
    ),
    yes(
        r#"steepest("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"], direction="falling", are={"configuration": "serial", "concurrency": 2})"#,
        "The steepest step",
    ),
    no(
        r#"steepest("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"], direction="falling", are={"concurrency": 4})"#,
        "The steepest step",
    ),
    yes(
        r#"different("results.comparison", {"workload": "short-decode"}, side="greater")"#,
        "Significantly faster",
    ),
    no(
        r#"different("results.comparison", {"workload": "short-decode"}, side="less")"#,
        "Significantly slower",
    ),
    no(
        r#"equivalent("results.comparison", {"workload": "short-decode"})"#,
        "Significantly",
    ),
    yes(
        r#"no_evidence("results.comparison", {"workload": "shared-prefix"})"#,
        "There is no evidence of a difference",
    ),
    no(
        r#"no_evidence("results.comparison", none)"#,
        "There is no evidence of a difference",
    ),
    yes(
        r#"consistent("results.efficiency", none, "e2e_p95", across=["configuration"])"#,
        "Consistently",
    ),
    no(
        r#"consistent("results.comparison", none, "delta", across=["workload"])"#,
        "Consistently",
    ),
];

fn text(call: &str, says: &str) -> String {
    format!("# Title\n\n{{% call {call} %}}{says}{{% endcall %}} is so.\n")
}

fn with_alternative(call: &str, says: &str) -> String {
    text(
        &format!("{}, otherwise=\"Not so\")", call.strip_suffix(')').unwrap()),
        says,
    )
}

#[test]
fn a_statement_renders_if_and_only_if_it_is_true() {
    let lab = Lab::new();
    for Case { call, says, holds } in CASES {
        match lab.render_text(&text(call, says)) {
            Ok(report) => {
                assert!(holds, "{call} is false and was rendered");
                assert_eq!(report, format!("# Title\n\n{says} is so.\n"), "{call}");
            }
            Err(error) => {
                assert!(!holds, "{call} is true and was refused: {error}");
                assert!(
                    error.starts_with("t.md:3:9: the statement `"),
                    "{call}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_false_statement_renders_its_alternative_and_a_true_one_does_not() {
    let lab = Lab::new();
    for Case { call, says, holds } in CASES {
        let report = lab
            .render_text(&with_alternative(call, says))
            .unwrap_or_else(|e| panic!("{call}: {e}"));
        let said = if *holds { says } else { "Not so" };
        assert_eq!(report, format!("# Title\n\n{said} is so.\n"), "{call}");
    }
}

#[test]
fn nothing_is_true_of_no_rows() {
    let lab = Lab::new();
    for Case { call, says, .. } in CASES {
        let place = call.find(", ").unwrap();
        let rest = call[place + 2..].find("none").filter(|at| *at == 0);
        let end = match rest {
            Some(_) => place + 2 + "none".len(),
            None => place + 2 + call[place + 2..].find('}').unwrap() + 1,
        };
        let column = if call.contains("results.comparison") {
            "workload"
        } else {
            "configuration"
        };
        let call = format!(
            "{}, {{\"{column}\": \"no such\"}}{}",
            &call[..place],
            &call[end..]
        );
        let error = lab.render_text(&text(&call, says)).unwrap_err();
        assert!(error.contains("` matches {"), "{call}: {error}");
        assert!(
            lab.render_text(&with_alternative(&call, says))
                .unwrap()
                .contains("Not so"),
            "{call}"
        );
    }
}

#[test]
fn a_null_never_passes_in_silence() {
    let lab = Lab::new();
    for call in [
        r#"every("results.efficiency", none, "low > 0")"#,
        r#"no_row("results.efficiency", none, "low > 2")"#,
        r#"holds("results.breakdown", {"configuration": "batched"}, "breakdown_n > 2")"#,
        r#"at_least("results.efficiency", none, "low > 0", count=6)"#,
        r#"at_most("results.efficiency", none, "low > 0.9", count=2)"#,
        r#"exactly("results.efficiency", none, "low = 1", count=2)"#,
        r#"only_these("results.efficiency", none, "low < 0.3", are={"configuration": "serial", "concurrency": 4})"#,
        r#"largest("results.efficiency", {"concurrency": [2, 4]}, "low")"#,
        r#"smallest("results.efficiency", none, "low")"#,
        r#"between("results.efficiency", none, "low", low=0, high=1)"#,
        r#"within("results.efficiency", none, "low", of=0.5, by=5)"#,
        r#"within("results.efficiency", none, "efficiency", of="low", by=5)"#,
        r#"monotone("results.efficiency", none, x="concurrency", y="low", series=["configuration"], direction="falling")"#,
        r#"steepest("results.efficiency", none, x="concurrency", y="low", series=["configuration"], direction="falling")"#,
        r#"consistent("results.efficiency", none, "low", across=["configuration"])"#,
    ] {
        let error = lab.render_text(&text(call, "So it")).unwrap_err();
        assert!(error.contains("cannot be known to hold"), "{call}: {error}");
        assert!(error.contains("null"), "{call}: {error}");
    }
    // An explicit condition can treat null like any other value.
    let call = r#"every("results.efficiency", none, "low is null or low > 0")"#;
    assert!(lab.render_text(&text(call, "Every cell")).is_ok());
}

#[test]
fn no_evidence_is_neither_for_nor_against_a_difference() {
    let lab = Lab::new();
    for rule in ["different", "equivalent"] {
        let call = format!(r#"{rule}("results.comparison", {{"workload": "shared-prefix"}})"#);
        let error = lab.render_text(&text(&call, "So it")).unwrap_err();
        assert!(error.contains("cannot be known to hold"), "{call}: {error}");
        assert!(error.contains("it is not shown"), "{call}: {error}");
        assert!(
            error.contains("No evidence: workload=shared-prefix"),
            "{call}: {error}"
        );
    }
}

#[test]
fn a_refusal_names_the_rows_against_it_and_their_values() {
    let call = r#"every("results.efficiency", {"configuration": "serial"}, "efficiency >= 0.5")"#;
    let error = Lab::new()
        .render_text(&text(call, "Every cell"))
        .unwrap_err();
    assert!(
        error.contains("in 2 of 3 rows efficiency is at least 0.5"),
        "{error}"
    );
    assert!(
        error.contains("configuration=serial,concurrency=4: efficiency = 0.251"),
        "{error}"
    );
}

#[test]
fn what_a_statement_found_can_be_shown_and_is_traced() {
    let call = format!(r#"at_least("results.efficiency", {BATCHED}, "efficiency > 0.9", count=2)"#);
    let lab = Lab::new();
    let template = format!(
        "{{% call(s) {call} %}}At least {{{{ s.k }}}}, {{{{ s.count }}}} of {{{{ s.n }}}}{{% endcall %}}.\n"
    );
    assert_eq!(lab.render_text(&template).unwrap(), "At least 2, 2 of 3.\n");
    let template = "{% call(s) steepest(\"results.efficiency\", none, x=\"concurrency\", y=\"efficiency\", \
                    series=[\"configuration\"], direction=\"falling\") %}The steepest step loses \
                    {{ s.show(\"step\", \"0.00\") }} ({{ s.from.show(\"concurrency\") }} to {{ s.to.show(\"concurrency\") }}){% endcall %}.\n";
    assert_eq!(
        lab.render_text(template).unwrap(),
        "The steepest step loses 0.48 (1 to 2).\n"
    );
    let template = "{% call(s) between(\"results.efficiency\", none, \"efficiency\") %}between \
                    {{ s.lowest.show(\"efficiency\", \"0.00\") }} and {{ s.highest.show(\"efficiency\", \"0.00\") }}{% endcall %}\n";
    assert_eq!(
        lab.render_text(template).unwrap(),
        "between 0.25 and 1.00\n"
    );
}

#[test]
fn words_outside_a_statement_are_refused_with_their_place() {
    let error = Lab::new()
        .render_text("# Title\n\nThe server is, in every cell, quick.\n")
        .unwrap_err();
    assert!(
        error.starts_with("the word check refuses 1 word"),
        "{error}"
    );
    assert!(
        error.contains("t.md:3:19 (report 3:19): `every`"),
        "{error}"
    );
}

#[test]
fn a_statement_licenses_its_own_words_only() {
    let call = r#"every("results.efficiency", none, "efficiency <= 1")"#;
    let error = Lab::new()
        .render_text(&text(call, "Every cell is the largest"))
        .unwrap_err();
    assert!(
        error.contains("`largest`: the statement around it does not check this word"),
        "{error}"
    );
}

#[test]
fn an_alternative_may_only_deny() {
    let call = r#"every("results.efficiency", none, "efficiency > 0.3", otherwise="OTHER")"#;
    let lab = Lab::new();
    let render = |other: &str| lab.render_text(&text(&call.replace("OTHER", other), "Every cell"));
    assert!(render("Not every cell").is_ok());
    assert!(render("").is_ok());
    assert!(
        render("Nearly every cell")
            .unwrap_err()
            .contains("without a `not` before it")
    );
}

#[test]
fn a_premise_needs_a_reason_and_is_recorded_with_it() {
    let lab = Lab::new();
    let template =
        "{% call premise(\"a loop by construction\") %}Every client waits{% endcall %}.\n";
    let done = lab
        .render(&json!({"template": "t.md"}), &Templates::one(template))
        .map_err(|f| f.reason)
        .unwrap();
    let table = artifacts::Table::from_parquet(bytes(&done, "statements")).unwrap();
    assert_eq!(
        table.text("reason").unwrap(),
        [Some("a loop by construction")]
    );
    assert_eq!(table.text("outcome").unwrap(), [Some("premise")]);
    assert_eq!(table.text("text").unwrap(), [Some("Every client waits")]);
    assert!(
        lab.render_text(&template.replace("a loop by construction", " "))
            .is_err()
    );
}

#[test]
fn a_word_can_be_declared_with_a_reason() {
    let lab = Lab::new();
    let settings = json!({"template": "t.md", "literals": [{"text": "best-of-breed and all that", "reason": "an idiom"}]});
    let done = lab.render(
        &settings,
        &Templates::one("It is best-of-breed and all that.\n"),
    );
    assert!(done.is_ok(), "{:?}", done.map(|_| ()).map_err(|f| f.reason));
}

#[test]
fn each_statement_is_recorded_with_place_rule_and_rows() {
    let lab = Lab::new();
    let template = "A line.\n\n{% call every(\"results.efficiency\", none, \"efficiency > 0.3\", \
                    otherwise=\"Not every cell\") %}Every cell{% endcall %} holds.\n";
    let done = lab
        .render(&json!({"template": "t.md"}), &Templates::one(template))
        .map_err(|f| f.reason)
        .unwrap();
    let table = artifacts::Table::from_parquet(bytes(&done, "statements")).unwrap();
    let text = |column: &str| table.text(column).unwrap()[0].unwrap().to_owned();
    let int = |column: &str| table.int(column).unwrap()[0].unwrap();
    assert_eq!(
        (text("outcome"), text("truth")),
        ("alternative".into(), "no".into())
    );
    assert_eq!(
        (int("n"), int("count"), int("line"), int("column_end")),
        (6, 5, 3, 15)
    );
    assert_eq!(text("text"), "Not every cell");
    let digest = lab.inputs[3].cells[0].outputs["efficiency"].digest;
    assert_eq!(text("against"), format!("[[\"{digest}\",5]]"));
    assert!(
        text("rule").contains("efficiency > 0.3"),
        "{}",
        text("rule")
    );
}

#[test]
fn mistakes_in_a_statement_are_reported_with_their_place() {
    let lab = Lab::new();
    for (call, what) in [
        (
            r#"every("results.efficiency", none, "efficiency >")"#,
            "character 13",
        ),
        (
            r#"every("results.efficiency", none, "eficiency > 1")"#,
            "no column `eficiency`",
        ),
        (
            r#"every("results.efficiency", none, "configuration > 1")"#,
            "different types",
        ),
        (
            r#"every("results.efficiency", none, thta="x")"#,
            "unknown field `thta`",
        ),
        (
            r#"every("results.efficiency", none)"#,
            "missing field `that`",
        ),
        (
            r#"no_evidence("results.comparison", none, side="less")"#,
            "`side` belongs to `different`",
        ),
        (
            r#"within("results.efficiency", none, "efficiency", of=1)"#,
            "needs one of `by`",
        ),
        (
            r#"largest("results.efficiency", none, "configuration")"#,
            "holds no numbers",
        ),
        (
            r#"monotone("results.efficiency", none, x="concurrency", y="efficiency")"#,
            "separate series",
        ),
        (
            r#"holds("results.efficiency", none, "efficiency > 0")"#,
            "needs exactly one row",
        ),
        (
            r#"no_such("results.efficiency")"#,
            "unknown function `no_such`",
        ),
    ] {
        let error = lab.render_text(&text(call, "So it")).unwrap_err();
        assert!(
            error.starts_with("t.md:3:") && error.contains(what),
            "{call}: {error}"
        );
    }
}

#[test]
fn the_line_break_after_a_statement_stays() {
    let call = r#"every("results.efficiency", none, "efficiency <= 1")"#;
    let template = format!("So {{% call {call} %}}every cell{{% endcall %}}\nis fine.\n");
    assert_eq!(
        Lab::new().render_text(&template).unwrap(),
        "So every cell\nis fine.\n"
    );
}
