//! How a declared design changes stages, axes and cells.

use pipeline::{Experiment, Options};
use serde_json::json;

use crate::expansion::{VALID, load, valid};

fn with(design: &str) -> String {
    VALID.replace("seed: 164", &format!("seed: 164\ndesign: {design}"))
}

fn names(experiment: &Experiment, stage: &str) -> Vec<String> {
    let number = experiment.stages.position(|s| s.name == stage).unwrap();
    let cells = experiment.stages[number].cells.iter();
    cells
        .map(|c| experiment.coordinates(number, &c.at).to_string())
        .collect()
}

const ARM: &str = "{blocks: 2, control: {axis: configuration, label: serial, as: again}}";

#[test]
fn a_design_adds_the_axis_of_blocks_to_the_unit_and_to_what_is_measured_on_it() {
    let (plain, designed) = (valid(VALID), valid(&with("{blocks: 5}")));
    for (stage, times) in [("machine", 1), ("server", 5), ("ladder", 5), ("results", 1)] {
        let (before, after) = (names(&plain, stage), names(&designed, stage));
        assert_eq!(after.len(), before.len() * times, "{stage}");
        let blocked: Vec<String> = before
            .iter()
            .map(|name| format!("block=1,{name}"))
            .collect();
        if times > 1 {
            assert!(
                blocked.iter().all(|name| after.contains(name)),
                "{stage}: {after:?}"
            );
        }
    }
    let spec = &designed.spec;
    assert_eq!(spec["design"]["unit"], "server");
    assert_eq!(spec["design"]["degrees_of_freedom"], 4);
    assert_eq!(spec["stages"]["server"]["replicate"], json!(["block"]));
    assert_eq!(
        spec["stages"]["ladder"]["replicate"],
        json!(["block", "rep"])
    );
    assert_eq!(spec["axes"]["block"]["declared"], 5);
    assert!(plain.spec.get("design").is_none());
}

#[test]
fn what_runs_already_is_one_launch_in_all_blocks() {
    let axes = |settings: &str| {
        let text = with(ARM).replace("{mode: \"${mode}\"}", settings);
        valid(&text).spec["stages"]["ladder"]["on_one_launch"].clone()
    };
    let started = axes("{mode: \"${mode}\"}");
    assert_eq!(started, json!(["concurrency", "rep", "workload"]));
    // The arm is the same server under another name. The other label is another server.
    let shared = axes("{mode: \"${mode}\", running: true}");
    assert_eq!(
        shared,
        json!(["block", "concurrency", "configuration", "rep", "workload"])
    );
}

#[test]
fn blocks_and_the_arm_are_replicate_coordinates_and_change_no_setting() {
    let experiment = valid(&with(ARM));
    let plain = valid(VALID);
    for name in ["server", "ladder"] {
        let number = experiment.stages.position(|s| s.name == name).unwrap();
        let (stage, before) = (&experiment.stages[number], &plain.stages[number]);
        assert_eq!(stage.parameter_sets, before.parameter_sets, "{name}");
        let replicates: std::collections::BTreeSet<String> = stage
            .cells
            .iter()
            .filter(|cell| cell.note.is_none())
            .map(|cell| {
                let at = experiment.coordinates(number, &cell.at);
                let replicate = experiment.replicate(number, &cell.at).to_string();
                let is_arm = at.to_string().contains("configuration=again");
                assert_eq!(is_arm, replicate.contains("control=again"), "{at}");
                format!("{} {replicate}", cell.parameters)
            })
            .collect();
        assert!(
            replicates.iter().all(|r| r.contains("block=")),
            "{replicates:?}"
        );
    }
}

#[test]
fn what_is_said_of_a_label_is_said_of_the_arm_that_stands_for_it() {
    let text = with(ARM).replace(
        "workload: long, concurrency",
        "configuration: serial, concurrency",
    );
    let experiment = valid(&text);
    let cells = names(&experiment, "ladder");
    let cells_with = |label: &str| cells.iter().filter(|c| c.contains(label)).count();
    assert_eq!(
        cells_with("configuration=serial"),
        cells_with("configuration=again")
    );
    // The included cell is in every block but not in the arm.
    assert_eq!(cells_with("concurrency=16"), 2);
}

#[test]
fn a_profile_replaces_single_keys_of_the_design() {
    let text = with(ARM).replace(
        "smoke: {set:",
        "smoke: {design: {blocks: 1, control: none}, set:",
    );
    let smoke = Options {
        profile: Some("smoke".into()),
        ..Options::default()
    };
    let experiment = load(&text, &smoke).unwrap();
    let design = experiment.design.as_ref().unwrap();
    assert_eq!((design.blocks, design.control), (1, None));
    assert_eq!(
        names(&experiment, "server"),
        ["block=1,configuration=serial"]
    );
    let of_arm = text.replace(
        "- where: {workload: long, concurrency: [4, 8]}",
        "- where: {configuration: again, block: 2, workload: long, concurrency: [4, 8]}",
    );
    load(&of_arm, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    load(&of_arm, &smoke).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn blocks_may_be_a_parameter_and_pure_stages_may_be_expanded_over_them() {
    let text = with("{blocks: \"${reps}\", noise: 2.5 %, quiet: {wait: 1 min, otherwise: refuse}}")
        .replace(
            "results: {kind: tabulate, needs: [ladder, server]}",
            "results: {kind: tabulate, needs: [ladder], over: [block]}",
        );
    let experiment = valid(&text);
    assert_eq!(
        names(&experiment, "results"),
        ["block=1", "block=2", "block=3"]
    );
    let spec = &experiment.spec["design"];
    assert_eq!(spec["noise"], json!(0.025));
    assert_eq!(
        spec["quiet"],
        json!({"load": 0.5, "wait_s": 60.0, "otherwise": "refuse"})
    );
}

#[test]
fn a_launch_is_named_without_its_block() {
    let experiment = valid(&with(ARM));
    assert_eq!(
        experiment.spec["design"]["launches"],
        json!([
            "configuration=batched",
            "configuration=serial",
            "configuration=again"
        ])
    );
}

#[test]
fn a_rule_that_ends_blocks_is_read_and_its_mistakes_are_reported() {
    let rule = |blocks: u32, width: &str, figure: &str, most: &str| {
        let rule = format!("{{relative-half-width: {width}, of: {figure}, at-most: {most}}}");
        with(&format!("{{blocks: {blocks}, until: {rule}}}"))
    };
    let experiment = valid(&rule(5, "3 %", "output_throughput", "12 blocks"));
    let design = experiment.design.as_ref().unwrap();
    let until = design.until.as_ref().unwrap();
    assert_eq!((design.blocks, until.at_least), (12, 5));
    assert_eq!(
        experiment.spec["design"]["until"],
        json!({"relative_half_width": 0.03, "of": "output_throughput", "at_least": 5})
    );
    assert_eq!(experiment.spec["axes"]["block"]["declared"], 12);
    let wrong = |text: &str| load(text, &Options::default()).unwrap_err();
    for (text, expected) in [
        (
            rule(2, "3 %", "output_throughput", "12"),
            "a rule that ends blocks needs at least 3 blocks, not 2",
        ),
        (
            rule(5, "3 %", "output_throughput", "5 blocks"),
            "`at-most` is 5 blocks, but `blocks` is already 5",
        ),
        (
            rule(5, "3 %", "output_througput", "9 blocks"),
            "no cell that is measured in blocks has a figure `output_througput`",
        ),
    ] {
        let message = wrong(&text);
        assert!(message.contains(expected), "{message}");
    }
    assert!(wrong(&rule(5, "3 %", "output_througput", "9 blocks")).contains("`output_throughput`"));
    let smoke = Options {
        profile: Some("smoke".into()),
        ..Options::default()
    };
    let text = rule(5, "3 %", "output_throughput", "12 blocks").replace(
        "smoke: {set:",
        "smoke: {design: {blocks: 1, until: none}, set:",
    );
    let design = load(&text, &smoke).unwrap().design.unwrap();
    assert_eq!((design.blocks, design.until), (1, None));
}
