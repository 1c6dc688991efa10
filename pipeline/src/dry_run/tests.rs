use super::*;

fn failed(reason: &str, findings: &[&str]) -> Failed {
    let findings = findings.iter().map(|finding| (*finding).to_owned());
    Failed {
        stage: StageId::from(1),
        cell: LocalCell::from(0),
        failure: Failure::failed(reason.to_owned()).findings(findings.collect()),
    }
}

#[test]
fn a_finding_that_two_rehearsals_share_makes_their_reasons_the_same() {
    let level = failed(
        "the check refuses 16 numbers",
        &["a.md:3:1: x", "b.md:1:1: x"],
    );
    let rising = failed("the check refuses 1 number", &["b.md:1:1: x"]);
    assert!(level.same(&rising) && rising.same(&level));
}

#[test]
fn reasons_with_no_finding_in_common_differ() {
    let level = failed("the check refuses 1 number", &["a.md:3:1: x"]);
    let rising = failed("the check refuses 1 number", &["b.md:1:1: x"]);
    assert!(!level.same(&rising));
    assert!(!level.same(&failed("the check refuses 1 number", &[])));
}

#[test]
fn reasons_without_findings_are_compared_without_their_numbers() {
    assert!(!failed("no cell is ok", &[]).same(&failed("the fit does not converge", &[])));
    assert!(failed("5 cells differ", &[]).same(&failed("12 cells differ", &[])));
}
