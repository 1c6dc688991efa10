//! The template that renders any experiment, and the tables derived from the study.

use std::collections::BTreeMap;

use serde_json::json;

use crate::fixture::{Lab, Templates, markdown, trace};

fn shipped() -> Templates {
    let texts: BTreeMap<String, String> =
        report::shipped().into_iter().map(|s| (s.name.to_owned(), s.text.to_owned())).collect();
    Templates(texts)
}

fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.study.spec["name"] = json!("quickstart");
    lab.study.spec["stages"] = json!({
        "server": {"kind": "serve", "settings": {"parallel": "${configuration.slots}"}},
        "ladder": {"kind": "load", "description": "A ladder.", "replicate": []},
    });
    lab
}

#[test]
fn any_experiment_has_a_report_without_a_template_of_its_own() {
    let done = lab().render(&json!({}), &shipped()).map_err(|f| f.reason).unwrap();
    let text = markdown(&done);
    for part in
        ["# A study of 2 servers", "### results.efficiency", "## Ledger", "## Limits", "## Deviations"]
    {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn limits_and_deviations_follow_from_the_ledger_and_are_traced() {
    let done = lab().render(&json!({}), &shipped()).map_err(|f| f.reason).unwrap();
    let text = markdown(&done);
    for part in [
        "*coverage* (ladder): 2 of 3 planned cells are ok",
        "*censored* (ladder): 1 cells ended at a time limit",
        "*timeout* ladder configuration=batched,concurrency=4: the cell's time limit passed",
        "| server | settings.parallel | configuration=batched: 8; configuration=serial: 1 | planned |",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let outputs = trace(&done).text("output").unwrap().iter().filter(|o| **o == Some("limits")).count();
    assert!(outputs > 0);
    assert!(done.outputs.iter().any(|o| o.name == "limits"));
}

#[test]
fn a_difference_that_no_axis_sets_is_a_confound() {
    let mut lab = lab();
    lab.study.spec["stages"]["server"]["settings"] = json!({});
    let done = lab.render(&json!({}), &shipped()).map_err(|f| f.reason).unwrap();
    let text = markdown(&done);
    assert!(text.contains("configuration=serial: 1 | confound |"), "{text}");
    assert!(text.contains("1 values of the environment differ"), "{text}");
}
