//! Remedies for values that stand alone, for paths that are nearly right, and for cells that do not exist: each says what
//! to write instead.

use std::fs;

use crate::mistakes::{hinted, planned, written};
use crate::support::Project;

const DESIGN: &str = "design: {blocks: 3}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";

#[test]
fn a_value_in_place_of_a_mapping_gets_the_mapping_as_a_hint() {
    let project = written();
    for (from, to, hint) in [
        (DESIGN, "design: 3", "hint: write `{blocks: 3}`"),
        (
            DESIGN,
            "design: {blocks: 3, until: 5 %}",
            "hint: write `{relative-half-width: 5 %, of: …, at-most: …}`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, until: 5}",
            "hint: write `{relative-half-width: 5, of: …, at-most: …}`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, until: nonee}",
            "did you mean `none`?",
        ),
        (
            DESIGN,
            "design: {blocks: 3, control: baseline}",
            "hint: write `{label: baseline, axis: …, as: …}`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, until: {precision: 5 %}}",
            "hint: write `relative-half-width: 5 %`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, noise: 2}",
            "hint: write the sign, too: `2 %`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, noise: 0.02}",
            "hint: write the share in percent: `2 %`",
        ),
        (
            DESIGN,
            "design: {blocks: 3, quiet: true}",
            "with the keys `load`, `wait`, `otherwise`",
        ),
        (
            "stages:\n",
            "parameters: {n: 16}\nstages:\n",
            "hint: write `{default: 16, type: …}`",
        ),
        (
            "stages:\n",
            "profiles: {smoke: {stages: {ladder: {requests: 4}}}}\nstages:\n",
            "hint: write `set: {NAME: VALUE}`",
        ),
        (
            "stages:\n",
            "exclude: [{clients: 4}]\nstages:\n",
            "hint: it is a key of a stage",
        ),
        (
            "workload: short-decode",
            "workload: {prompts: {words: {length: 8}}, output: {max_tokens: 16}}",
            "hint: write `tokens`, with `mode: cap`",
        ),
    ] {
        hinted(&project, from, to, hint);
    }
}

#[test]
fn a_share_above_one_is_refused_and_a_percentage_gets_its_share_as_a_hint() {
    let project = written();
    for gate in [
        "delivered-length, tolerance: 5",
        "row-status, tolerance: 5",
        "token-bias, tolerance: 5",
        "throttling, share: 5",
        "plausible-ttft, share: 5",
        "in-flight, tolerance: 5",
        "one-piece, share: 5",
    ] {
        let to =
            format!("checks: {{kind: verify, needs: [server, ladder], gates: [{{gate: {gate}}}]}}");
        let message = planned(&project, CHECKS, &to);
        assert!(message.contains("write 0.05 for 5 %"), "{gate}: {message}");
    }
}

#[test]
fn a_broken_axis_is_one_mistake_and_its_profile_no_second_one() {
    let project = written();
    let to = "profiles: {smoke: {axes: {clients: [1]}}}\naxes:\n  clients: \"1,2,4\"";
    let message = planned(&project, "axes:\n  clients: [1, 2, 4]", to);
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    assert!(
        message.contains("hint: write it as `[1, 2, 4]`"),
        "{message}"
    );
}

#[test]
fn an_experiment_in_a_folder_below_is_found_by_its_name() {
    let project = Project::new();
    for given in ["simulated.yaml", "simulated"] {
        let message = project.run(["plan", given]).stderr;
        let hint = "did you mean `experiments/simulated.yaml`?";
        assert!(message.contains(hint), "{given}: {message}");
    }
    let message = project.run(["doctor", "vllm"]).stderr;
    assert!(
        message.contains("`benchtrail list engines vllm`"),
        "{message}"
    );
    let message = project
        .run(["init", "x", "--from-results", "nothing"])
        .stderr;
    assert!(message.contains("hint: give a result file"), "{message}");
}

#[test]
fn a_pattern_that_matches_no_cell_lists_axes_labels_and_stages() {
    let project = Project::new();
    project
        .run(["run", "experiments/simulated.yaml", "--smoke", "--quiet"])
        .ok();
    let study = ["experiments/simulated.yaml", "--smoke"];
    let asked = |what: &str| {
        let shown = project.run(["show", study[0], study[1], what]);
        assert_ne!(shown.code, Some(0), "{what}");
        shown.stderr
    };
    for (what, hint) in [
        (
            "ladder[client=1].requests",
            "has no axis `client`: did you mean `clients`?",
        ),
        (
            "ladder[clients=16].requests",
            "the labels of `clients` are `1`, `2`",
        ),
        ("cells", "a table is named STAGE.OUTPUT"),
        ("lader", "did you mean `ladder`?"),
    ] {
        let message = asked(what);
        assert!(message.contains(hint), "{what}: {message}");
    }
    let message = project
        .run(["sql", study[0], study[1], "drop table cells"])
        .stderr;
    assert!(message.contains("queries only read"), "{message}");
    let column = [
        "diff",
        study[0],
        study[0],
        study[1],
        "--column",
        "throughput",
    ];
    let outcome = project.run(column);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("has the column `throughput`"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("`output_throughput`"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_changed_list_is_shown_where_it_differs() {
    let project = Project::new();
    let file = "experiments/simulated.yaml";
    let path = project.path().join(file);
    let text = fs::read_to_string(&path).expect("it ships");
    let columns: Vec<String> = (1..20).map(|n| (f64::from(n) / 20.0).to_string()).collect();
    let with = |last: &str| {
        let list = format!(
            "quantiles: [{}, {last}], columns: [output_throughput",
            columns.join(", ")
        );
        text.replacen("columns: [output_throughput", &list, 1)
    };
    fs::write(&path, with("0.98")).expect("it is ours");
    project.run(["run", file, "--smoke", "--quiet"]).ok();
    fs::write(&path, with("0.98, 0.99")).expect("it is ours");
    let message = project.run(["plan", file, "--smoke"]).ok().stdout;
    assert!(message.contains("0.95,0.98] → ..."), "{message}");
    assert!(message.contains("0.95,0.98,0.99]"), "{message}");
}

#[test]
fn one_thing_is_written_in_the_singular() {
    let project = Project::new();
    let run = project
        .run(["run", "experiments/simulated.yaml", "--smoke"])
        .ok();
    for expected in [&run.stdout, &run.stderr] {
        for wrong in ["1 cells", "1 blocks", "1 rows", "1 objects", "1 results"] {
            let before = expected
                .split(wrong)
                .next()
                .filter(|head| head.len() < expected.len());
            let is_own = before.is_some_and(|head| !head.ends_with(|c: char| c.is_ascii_digit()));
            assert!(!is_own, "{wrong}: {expected}");
        }
    }
}

#[test]
fn a_label_that_a_profile_leaves_out_and_a_comparison_names_is_reported_while_planning() {
    let project = Project::new();
    let study = crate::not_worse::study("11 ms", "family: study").replace(
        "axes:\n",
        "profiles:\n  quick: {axes: {release: [new]}}\n  both: {axes: {release: [new, old]}}\naxes:\n",
    );
    fs::write(project.path().join("study.yaml"), study).unwrap();
    let plan = |profile: &str| {
        let plan = project.run(["plan", "study.yaml", "--profile", profile]);
        plan.ok().stdout
    };
    let quick = plan("quick");
    assert!(
        quick.contains(
            "note: the profile `quick` leaves out the label `old` of `release`, which `results` names, so that stage will \
             fail: add the label to `profiles: {quick: {axes: {release: […]}}}`, or run without the profile\n"
        ),
        "{quick}"
    );
    assert!(!quick.contains("the label `new`"), "{quick}");
    assert!(!plan("both").contains("leaves out"));
    // The dry run fails at the table, and blames the profile, too.
    let tried = project.run(["plan", "study.yaml", "--profile", "quick", "--dry-run"]);
    assert_eq!(tried.code, Some(2), "{}", tried.stderr);
    assert!(
        tried.stderr.contains(
            "hint: the profile `quick` leaves out the label `old` of `release`: add the label to `profiles: {quick: {axes: \
             {release: […]}}}`, or run without the profile"
        ),
        "{}",
        tried.stderr
    );
}
