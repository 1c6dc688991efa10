//! What texts expand to.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pipeline::{Cause, Experiment, FileError, Files, NoFiles, Options, Order, Stage, load_text};
use serde_json::json;

use crate::kinds::registry;

pub(crate) const VALID: &str = include_str!("valid.yaml");

pub(crate) fn load(text: &str, options: &Options) -> Result<Experiment, String> {
    let (registry, _) = registry();
    load_text(text, Path::new("demo.yaml"), &registry, options, &NoFiles).map_err(|e| e.to_string())
}

pub(crate) fn valid(text: &str) -> Experiment {
    load(text, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn stage<'a>(experiment: &'a Experiment, name: &str) -> &'a Stage {
    experiment.stages.iter().find(|s| s.name == name).unwrap()
}

fn set(pairs: &[(&str, &str)]) -> Options {
    let set = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Options {
        set,
        ..Options::default()
    }
}

#[test]
fn the_order_of_execution_is_shuffled_unless_said_otherwise_and_changes_no_parameter() {
    let shuffled = valid(VALID);
    let declared = valid(&VALID.replace("seed: 164", "seed: 164\norder: declared"));
    assert_eq!(
        (shuffled.order, declared.order),
        (Order::Shuffled, Order::Declared)
    );
    assert_eq!(
        (&shuffled.spec["order"], &declared.spec["order"]),
        (&json!(null), &json!("declared"))
    );
    assert_eq!(
        valid(&VALID.replace("seed: 164", "seed: 164\norder: shuffled")).order,
        Order::Shuffled
    );
    assert_eq!(
        stage(&shuffled, "ladder").parameter_sets,
        stage(&declared, "ladder").parameter_sets
    );
    let error = load(
        &VALID.replace("seed: 164", "seed: 164\norder: random"),
        &Options::default(),
    )
    .unwrap_err();
    assert!(
        error.contains("order") && error.contains("shuffled"),
        "{error}"
    );
}

#[test]
fn cells_are_the_product_minus_exclusions_plus_inclusions() {
    let experiment = valid(VALID);
    let ladder = stage(&experiment, "ladder");
    assert_eq!(ladder.excluded.len(), 2 * 2 * 3);
    assert_eq!(ladder.cells.len(), 2 * 2 * 4 * 3 - 12 + 1);
    let position = experiment.stages.position(|s| s.name == "ladder").unwrap();
    let name = |i: usize| {
        experiment
            .coordinates(position, &ladder.cells.raw[i].at)
            .to_string()
    };
    assert_eq!(
        name(0),
        "configuration=batched,workload=short,concurrency=1,rep=1"
    );
    assert_eq!(
        name(1),
        "configuration=batched,workload=short,concurrency=1,rep=2"
    );
    assert_eq!(
        name(ladder.cells.len() - 1),
        "configuration=batched,workload=short,concurrency=16,rep=1"
    );
    assert_eq!(
        ladder.cells.last().unwrap().note.as_deref(),
        Some("one look beyond the ladder")
    );
}

#[test]
fn no_words_of_an_exclusion_say_that_a_cell_is_blocked_or_not_needed() {
    for words in ["not needed: the server is too small", "blocked: no card"] {
        let text = VALID.replace(
            "reason: the context is too small",
            &format!("reason: {words:?}"),
        );
        let experiment = valid(&text);
        let excluded = &stage(&experiment, "ladder").excluded[0];
        assert_eq!(excluded.reason, format!("declared: {words}"));
        assert!(!Cause::read(&excluded.reason).is_not_needed());
    }
}

#[test]
fn every_stage_follows_those_it_needs() {
    let experiment = valid(VALID);
    for (i, stage) in experiment.stages.iter_enumerated() {
        assert!(stage.needs.iter().all(|n| *n < i));
    }
    let backwards = "experiment: x\nseed: 1\nstages:\n  c: {kind: tabulate, needs: [b]}\n  b: {kind: tabulate, needs: [a]}\n  a: {kind: prepare}\n";
    let names: Vec<String> = valid(backwards)
        .stages
        .into_iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn an_axis_that_nothing_refers_to_distinguishes_replicates() {
    let experiment = valid(VALID);
    let ladder = stage(&experiment, "ladder");
    let names: Vec<&str> = ladder
        .replicate
        .iter()
        .map(|i| experiment.axes[ladder.over[*i]].name.as_str())
        .collect();
    assert_eq!(names, ["rep"]);
    assert!(stage(&experiment, "server").replicate.is_empty());
}

#[test]
fn an_override_changes_only_its_cells() {
    let experiment = valid(VALID);
    let ladder = stage(&experiment, "ladder");
    for cell in &ladder.cells {
        let overridden = cell.at[1] == 0 && cell.at[2] == 3;
        let clients =
            &ladder.parameter_sets[cell.parameters as usize]["arrival"]["closed-loop"]["clients"];
        assert_eq!(cell.timeout == Some(Duration::from_secs(1200)), overridden);
        assert_eq!(clients == &json!(7), overridden);
        assert_eq!(cell.retries, 1);
        if overridden {
            assert_eq!(cell.note.as_deref(), Some("eight clients starve the host"));
        }
    }
}

#[test]
fn a_placeholder_keeps_the_type_of_its_value() {
    let experiment = valid(VALID);
    let server = stage(&experiment, "server");
    let expected = json!({"settings": {"name": "server-batched", "parallel": 8}});
    assert_eq!(server.parameter_sets[0], expected);
    let text =
        "experiment: x\nseed: 1\nstages:\n  a: {kind: prepare, settings: {shell: \"$${HOME}\"}}\n";
    assert_eq!(
        valid(text).stages.raw[0].parameter_sets[0]["settings"]["shell"],
        "${HOME}"
    );
}

#[test]
fn the_command_line_beats_the_profile_and_the_profile_the_default() {
    let smoke = Options {
        profile: Some("smoke".into()),
        ..Options::default()
    };
    let experiment = load(VALID, &smoke).unwrap();
    assert_eq!(experiment.spec["parameters"]["requests"], 8);
    assert_eq!(experiment.profile.as_deref(), Some("smoke"));
    // One configuration, two workloads, two concurrencies, one rep.
    assert_eq!(stage(&experiment, "ladder").cells.len(), 4);
    let both = Options {
        set: vec![("requests".into(), "9".into())],
        ..smoke
    };
    assert_eq!(
        load(VALID, &both).unwrap().spec["parameters"]["requests"],
        9
    );
}

#[test]
fn a_rule_for_labels_that_a_profile_dropped_matches_nothing() {
    let smoke = Options {
        profile: Some("smoke".into()),
        ..Options::default()
    };
    let rules = |exclude: &str, include: &str, change: &str| {
        VALID
            .replace("{workload: long, concurrency: [4, 8]}", exclude)
            .replace(
                "{configuration: batched, workload: short, concurrency: 16, rep: 1}",
                include,
            )
            .replace("stage: ladder, workload: short, concurrency: 8", change)
    };
    let kept = "{configuration: serial, workload: short, concurrency: 16, rep: 1}";
    let lost = "{configuration: batched, workload: short, concurrency: 16, rep: 1}";
    for (exclude, include, change, cells, excluded) in [
        (
            "{concurrency: [4, 8]}",
            kept,
            "stage: ladder, concurrency: 2",
            5,
            0,
        ),
        (
            "{concurrency: [2, 8]}",
            kept,
            "stage: ladder, concurrency: 16",
            3,
            2,
        ),
        // The override is for the cell that is not included.
        (
            "{configuration: batched}",
            lost,
            "stage: ladder, concurrency: 16",
            4,
            0,
        ),
        // Dropped through a parameter.
        ("{rep: 3}", lost, "stage: ladder, rep: 2", 4, 0),
        // The remaining cells of the override are excluded.
        (
            "{workload: long, concurrency: [1, 2]}",
            lost,
            "stage: ladder, workload: long",
            2,
            2,
        ),
    ] {
        let text = rules(exclude, include, change);
        load(&text, &Options::default()).unwrap();
        let experiment = load(&text, &smoke).unwrap();
        let ladder = stage(&experiment, "ladder");
        assert_eq!(
            (ladder.cells.len(), ladder.excluded.len()),
            (cells, excluded),
            "{exclude}"
        );
    }
    let narrow = set(&[("ladder", "1,2")]);
    assert_eq!(
        stage(&load(VALID, &narrow).unwrap(), "ladder")
            .excluded
            .len(),
        0
    );
    for options in [smoke, narrow, Options::default()] {
        let error = load(
            &rules("{concurrency: [4, 9]}", kept, "stage: ladder, rep: 7"),
            &options,
        )
        .unwrap_err();
        assert!(
            error.contains("`9` is not a label of the axis `concurrency`"),
            "{error}"
        );
        assert!(
            error.contains("`7` is not a label of the axis `rep`"),
            "{error}"
        );
        assert!(!error.contains("`4` is not"), "{error}");
    }
}

#[test]
fn values_from_the_command_line_have_the_declared_type() {
    let options = set(&[("mode", "slow"), ("limit", "90 s"), ("ladder", "1,2,8,4")]);
    let experiment = load(VALID, &options).unwrap();
    assert_eq!(experiment.spec["parameters"]["mode"], "slow");
    assert_eq!(experiment.spec["parameters"]["limit"], "90 s");
    assert_eq!(experiment.spec["stages"]["ladder"]["timeout_s"], 90);
    let as_in_yaml = set(&[
        ("mode", "slow"),
        ("limit", "90 s"),
        ("ladder", "[1, 2, 8, 4]"),
    ]);
    assert_eq!(load(VALID, &as_in_yaml).unwrap().spec, experiment.spec);
    for (name, value, message) in [
        (
            "requests",
            "many",
            "the parameter `requests` takes an integer, found the text `many`",
        ),
        ("requests", "0", "`requests` must be at least 1, found 0"),
        ("mode", "slw", "did you mean `slow`?"),
        ("request", "8", "did you mean `requests`?"),
        ("limit", "5", "hint: add the unit: `5 s`"),
        ("limit", "1m", "hint: write `1 min`"),
        ("requests", "8.0", "hint: write `8`"),
    ] {
        let error = load(VALID, &set(&[(name, value)])).unwrap_err();
        assert!(error.contains(message), "{error}");
        assert!(
            error.contains(&format!("--> --set {name}={value}")),
            "{error}"
        );
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
    }
}

#[test]
fn a_profile_that_is_not_there_is_an_error_that_names_those_there_are() {
    let options = Options {
        profile: Some("full".into()),
        ..Options::default()
    };
    let error = load(VALID, &options).unwrap_err();
    assert!(
        error.contains("no profile `full`") && error.contains("`smoke`"),
        "{error}"
    );
}

#[test]
fn ten_thousand_cells_cost_as_many_canonicalizations_as_there_are_distinct_settings() {
    let text = "experiment: x\nseed: 1\naxes:\n  workload: [short, long]\n  rep: {from: 1, to: 5000}\nstages:\n  a: {kind: measure, over: [workload, rep], workload: \"${workload}\", requests: 3}\n";
    let (registry, calls) = registry();
    let experiment = load_text(
        text,
        Path::new("x.yaml"),
        &registry,
        &Options::default(),
        &NoFiles,
    )
    .unwrap();
    assert_eq!(experiment.cell_count(), 10_000);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(experiment.stages.raw[0].parameter_sets.len(), 2);
}

#[test]
fn equal_parameters_are_one_set() {
    let text = "experiment: x\nseed: 1\naxes:\n  c: {a: {n: 1}, b: {n: 1}, d: {n: 2}}\nstages:\n  s: {kind: prepare, over: [c], settings: {n: \"${c.n}\"}}\n";
    let stage = &valid(text).stages.raw[0];
    let used: BTreeSet<u32> = stage.cells.iter().map(|c| c.parameters).collect();
    assert_eq!(
        (stage.cells.len(), stage.parameter_sets.len(), used.len()),
        (3, 2, 2)
    );
}

#[test]
fn a_list_gives_labels_with_fields_an_order() {
    let text = "experiment: x\nseed: 1\naxes:\n  c: [serial: {n: 1}, batched: {n: 8}]\n  r: {from: 0.1, to: 0.5, step: 0.2}\nstages:\n  s: {kind: prepare, over: [c, r], settings: {n: \"${c.n}\"}}\n";
    let experiment = valid(text);
    let labels = |i: usize| {
        experiment.axes.raw[i]
            .labels
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(0), ["serial", "batched"]);
    assert_eq!(labels(1), ["0.1", "0.3", "0.5"]);
}

#[test]
fn aliases_stand_for_what_they_name() {
    let text = "experiment: x\nseed: 1\nstages:\n  a: {kind: prepare, settings: &s {n: 1}}\n  b: {kind: prepare, settings: *s}\n";
    let experiment = valid(text);
    assert_eq!(
        experiment.stages.raw[0].parameter_sets,
        experiment.stages.raw[1].parameter_sets
    );
}

#[test]
fn aliases_of_one_long_text_cannot_blow_up() {
    let long = "x".repeat(1 << 20);
    let uses: Vec<&str> = vec!["*a"; 80];
    let text = format!("a: &a \"{long}\"\nb: [{}]\n", uses.join(", "));
    let error = load(&text, &Options::default()).unwrap_err();
    assert!(error.contains("aliases expanded"), "{error}");
    assert!(error.contains("bytes"), "{error}");
}

#[test]
fn aliases_cannot_blow_up() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    let error = load(&text, &Options::default()).unwrap_err();
    assert!(error.contains("aliases expanded"), "{error}");
}

#[test]
fn placeholders_of_one_long_text_cannot_blow_up() {
    let long = "x".repeat(40_000);
    let text = |title: &str| {
        format!(
            "experiment: a\nseed: 1\nparameters: {{p: {{type: text, default: {long}}}}}\ntitle: {title}\n\
             stages: {{s: {{kind: sum}}}}\n"
        )
    };
    let error = load(
        &text(&format!("\"{}\"", "${p} ".repeat(2_000))),
        &Options::default(),
    )
    .unwrap_err();
    assert!(
        error.contains("placeholders insert more than 67108864 bytes"),
        "{}",
        &error[..error.len().min(500)]
    );
    assert!(error.len() < 100_000, "{}", error.len());
}

#[test]
fn thousands_of_unknown_names_are_reported_as_quickly_as_a_hundred() {
    // Comparing each with each would take minutes in a debug build.
    let stages = (0..3_000).map(|i| format!("  s{i}: {{kind: sum, needs: [missing{i}]}}\n"));
    let text = format!(
        "experiment: a\nseed: 1\nstages:\n{}",
        stages.collect::<String>()
    );
    let error = load(&text, &Options::default()).unwrap_err();
    assert!(
        error.contains("unknown stage `missing0`"),
        "{}",
        &error[..500]
    );
    assert!(error.contains("more mistakes"), "{}", error.len());
}

#[test]
fn of_very_many_mistakes_the_first_are_listed_and_the_rest_are_counted() {
    for between in ["\n", ", "] {
        // With the keys of an experiment: a file without any of them is one mistake.
        let own = ["experiment: a", "seed: 1", "stages: {}"].map(str::to_owned);
        let keys = (0..60_000).map(|i| format!("k{i}: 1"));
        let keys = own
            .into_iter()
            .chain(keys)
            .collect::<Vec<_>>()
            .join(between);
        let text = if between == "\n" {
            keys
        } else {
            format!("{{{keys}}}")
        };
        let error = load(&text, &Options::default()).unwrap_err();
        assert!(error.contains("more mistakes"), "{}", error.len());
        assert!(error.len() < 100_000, "{}", error.len());
    }
}

#[test]
fn a_message_repeats_no_megabytes_of_a_file() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("experiment: {long}\nseed: 1\nstages: {{}}\n"),
        format!("? {long}\n: 1\n"),
        format!("experiment: a\nseed: {long}\nstages: {{s: {{kind: {long}}}}}\n"),
    ] {
        let error = load(&text, &Options::default()).unwrap_err();
        assert!(error.len() < 100_000, "{}", error.len());
    }
}

#[test]
fn deep_nesting_is_refused() {
    let error = load(
        &format!("a: {}{}", "[".repeat(200), "]".repeat(200)),
        &Options::default(),
    )
    .unwrap_err();
    assert!(error.contains("nesting is deeper than 64"), "{error}");
    let block: String = (0..2000)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect();
    assert!(
        load(&block, &Options::default())
            .unwrap_err()
            .contains("nesting is deeper than 64")
    );
}

#[test]
fn the_canonical_form_has_parameters_put_in_and_axes_left() {
    let spec = valid(VALID).spec;
    assert_eq!(spec["title"], "What 16 requests show");
    assert_eq!(spec["stages"]["ladder"]["settings"]["requests"], 16);
    assert_eq!(
        spec["stages"]["ladder"]["settings"]["workload"],
        "${workload}"
    );
    assert_eq!(spec["stages"]["ladder"]["timeout_s"], 600);
    assert_eq!(spec["stages"]["ladder"]["cells"], 37);
    assert_eq!(spec["stages"]["ladder"]["replicate"], json!(["rep"]));
    assert_eq!(spec["stages"]["server"]["replicate"], json!([]));
    // The server starts once for each configuration.
    let on_one_launch = json!(["concurrency", "rep", "workload"]);
    assert_eq!(spec["stages"]["ladder"]["on_one_launch"], on_one_launch);
    assert!(spec["stages"]["server"].get("on_one_launch").is_none());
    assert_eq!(
        spec["stages"]["ladder"]["excluded"][0]["reason"],
        "the context is too small"
    );
    assert_eq!(
        spec["axes"]["configuration"]["labels"][0],
        json!({"label": "batched", "fields": {"slots": 8}})
    );
    assert_eq!(spec["axes"]["concurrency"]["declared"], 4);
    assert_eq!(spec["seed"], 164);
}

/// Files in memory, by path.
struct InMemory(&'static [(&'static str, &'static str)]);

impl Files for InMemory {
    fn read(&self, path: &Path) -> Result<Option<String>, FileError> {
        let file = self.0.iter().find(|(name, _)| Path::new(name) == path);
        Ok(file.map(|(_, text)| (*text).to_owned()))
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

fn extending(
    text: &str,
    files: &'static [(&'static str, &'static str)],
) -> Result<Experiment, String> {
    let (registry, _) = registry();
    let options = Options::default();
    load_text(
        text,
        Path::new("demo.yaml"),
        &registry,
        &options,
        &InMemory(files),
    )
    .map_err(|e| e.to_string())
}

#[test]
fn an_experiment_that_extends_another_changes_what_it_says_and_overrides_it_further() {
    let base = &[("base.yaml", VALID)];
    let same = extending("experiment: demo\nextends: base.yaml\n", base).unwrap();
    let whole = valid(VALID);
    assert_eq!(same.stages.len(), whole.stages.len());
    for (a, b) in same.stages.iter().zip(&whole.stages) {
        assert_eq!(a.parameter_sets, b.parameter_sets);
        assert_eq!(a.cells.len(), b.cells.len());
    }
    assert_eq!(same.sources.len(), whole.sources.len() + 1);
    assert_eq!(same.sources.last().unwrap().name, "base.yaml");
    let other = extending("experiment: other\nextends: base.yaml\nseed: 5\n", base).unwrap();
    assert_eq!((other.seed, other.name.as_str()), (5, "other"));
    let overridden = "experiment: demo\nextends: base.yaml\noverrides:\n  - where: {stage: server}\n    set: {retries: 1}\n    reason: once more\n";
    let count = |experiment: &Experiment| experiment.spec["overrides"].as_array().unwrap().len();
    let more = extending(overridden, base).unwrap();
    assert_eq!(count(&more), count(&whole) + 1);
}

#[test]
fn an_axis_that_no_stage_uses_is_a_mistake_only_in_the_file_that_declares_it() {
    let base = "experiment: base\nseed: 1\naxes:\n  workload: [short, long]\n  level: [1, 2]\nstages:\n  \
        ladder: {kind: measure, over: [workload, level], workload: \"${workload}\", requests: 4}\n";
    // The extended file uses the axis, and the extending file does not need it.
    let files: &'static [(&str, &str)] = Vec::leak(vec![("base.yaml", &*base.to_owned().leak())]);
    let fewer = "experiment: fewer\nextends: base.yaml\nstages: {ladder: {over: [workload]}}\n";
    assert_eq!(
        extending(fewer, files).unwrap().stages.raw[0].cells.len(),
        2
    );
    // It must use its own axes.
    let own = format!("{fewer}axes:\n  spare: [1]\n  level: [3]\n");
    let wrong = extending(&own, files).unwrap_err();
    for axis in ["spare", "level"] {
        let message = format!("no stage has the axis `{axis}` in its `over`");
        assert!(wrong.contains(&message), "{wrong}");
    }
    assert!(
        wrong.contains("demo.yaml:5:3") && wrong.contains("demo.yaml:6:3"),
        "{wrong}"
    );
    // An author who forgot `over` gets one message, and so does one who misspelled the name.
    for (over, expected) in [
        ("[workload]", "has no value here"),
        ("[workload, lvel]", "did you mean `level`?"),
    ] {
        let text = base
            .replace("[workload, level]", over)
            .replace("requests: 4", "requests: \"${level}\"");
        let wrong = extending(&text, &[]).unwrap_err();
        assert!(
            wrong.contains(expected) && !wrong.contains("no stage has"),
            "{wrong}"
        );
    }
}

#[test]
fn null_removes_what_an_extended_file_has() {
    let files: &'static [(&str, &str)] = &[
        (
            "base.yaml",
            "experiment: base\nseed: 1\naxes:\n  workload: [short, long]\n  level: [1, 2]\nstages:\n  ladder:\n    \
             kind: measure\n    over: [workload, level]\n    workload: \"${workload}\"\n    requests: 4\n    timeout: 1 min\n    \
             exclude: [{where: {level: 2}, reason: later}]\n",
        ),
        (
            "middle.yaml",
            "extends: base.yaml\nstages: {ladder: {timeout: 2 min, retries: 3}}\n",
        ),
    ];
    let text = "experiment: demo\nextends: middle.yaml\naxes: {level: null}\nstages:\n  ladder: {over: [workload], exclude: \
                null, timeout: null, retries: null}\n";
    let experiment = extending(text, files).unwrap();
    assert_eq!(experiment.axes.len(), 1);
    let ladder = stage(&experiment, "ladder");
    assert_eq!((ladder.cells.len(), ladder.excluded.len()), (2, 0));
    // What the middle file sets goes with what it sets it over.
    let first = &ladder.cells.raw[0];
    assert_eq!((first.timeout, first.retries), (None, 0));
    // Nothing can be removed that is not there.
    let wrong = extending(&text.replace("exclude: ", "include: "), files).unwrap_err();
    assert!(wrong.contains("found nothing"), "{wrong}");
}

#[test]
fn an_experiment_that_cannot_be_extended_says_where_and_what_to_do() {
    let missing = extending("experiment: demo\nextends: nowhere.yaml\n", &[]).unwrap_err();
    assert!(
        missing.contains("there is no experiment `nowhere.yaml` to extend"),
        "{missing}"
    );
    assert!(missing.contains("demo.yaml:2:10"), "{missing}");
    let circle = extending(
        "experiment: demo\nextends: a.yaml\n",
        &[
            ("a.yaml", "extends: b.yaml\n"),
            ("b.yaml", "extends: a.yaml\n"),
        ],
    );
    let circle = circle.unwrap_err();
    assert!(circle.contains("`a.yaml` extends itself"), "{circle}");
    let broken = extending(
        "experiment: demo\nextends: a.yaml\n",
        &[("a.yaml", "seed: [\n")],
    );
    assert!(broken.unwrap_err().contains("a.yaml:"));
}

#[test]
fn the_names_of_exclusive_resources_may_be_parameters() {
    let text = VALID
        .replace("exclusive: [host]", "exclusive: [host, \"lane-${lane}\"]")
        .replace(
            "parameters:\n",
            "parameters:\n  lane: {type: integer, default: 7}\n",
        );
    let experiment = valid(&text);
    assert_eq!(stage(&experiment, "server").exclusive, ["host", "lane-7"]);
}

#[test]
fn what_a_needed_stage_leaves_out_is_left_out_of_those_that_need_it() {
    let text = VALID.replace(
        "    exclusive: [host]\n",
        "    exclusive: [host]\n    exclude:\n      - where: {configuration: serial}\n        reason: it does not start\n",
    );
    let experiment = valid(&text);
    let ladder = stage(&experiment, "ladder");
    let left_out = ladder
        .excluded
        .iter()
        .filter(|cell| cell.reason == "it does not start");
    // Half of the 2 x 2 x 4 x 3 cells belong to `serial`; 2 x 3 of them are left out for another reason.
    assert_eq!(left_out.count(), 24 - 6);
    assert_eq!(ladder.cells.len(), 24 - 6 + 1);
    assert_eq!(ladder.excluded.len(), 24 + 6);
}

#[test]
fn a_pure_cell_is_left_out_once_all_cells_that_it_reads_are() {
    let text = VALID
        .replace(
            "    exclude:\n",
            "    exclude:\n      - where: {configuration: serial, workload: short}\n        reason: it does not start\n",
        )
        .replace(
            "  results: {kind: tabulate, needs: [ladder, server]}\n",
            "  results: {kind: tabulate, needs: [ladder, server], over: [configuration, workload]}\n\
             \x20 levels: {kind: tabulate, needs: [ladder], over: [workload, concurrency]}\n\
             \x20 all: {kind: tabulate, needs: [results]}\n",
        );
    let experiment = valid(&text);
    let left_out = |name: &str| -> Vec<(Vec<u16>, String)> {
        let excluded = stage(&experiment, name).excluded.iter();
        excluded
            .map(|cell| (cell.at.to_vec(), cell.reason.clone()))
            .collect()
    };
    // `batched` is the first configuration, `short` the first workload.
    let reason = || "it does not start".to_owned();
    assert_eq!(left_out("results"), [(vec![1, 0], reason())]);
    let small = || "the context is too small".to_owned();
    assert_eq!(
        left_out("levels"),
        [(vec![1, 2], small()), (vec![1, 3], small())]
    );
    assert_eq!(left_out("all"), []);
    assert_eq!(stage(&experiment, "results").cells.len(), 3);
}

#[test]
fn settings_of_several_axes_merge_in_their_order_and_overrides_reach_into_them() {
    let text = VALID
        .replace(
            "batched: {slots: 8}",
            "batched: {slots: 8, settings: {a: 1, b: 1}}",
        )
        .replace("serial: {slots: 1}", "serial: {slots: 1, settings: {b: 2}}")
        .replace(
            "settings: {parallel: \"${configuration.slots}\", name: \"server-${configuration}\"}",
            "settings: {merge: [\"${configuration.settings}\", {b: 3, c: 3}]}",
        );
    let sets_of = |experiment: &Experiment| stage(experiment, "server").parameter_sets.clone();
    let sets = sets_of(&valid(&text));
    assert_eq!(sets[0]["settings"], json!({"a": 1, "b": 3, "c": 3}));
    assert_eq!(sets[1]["settings"], json!({"b": 3, "c": 3}));
    let overridden = format!(
        "{text}  - where: {{stage: server, configuration: serial}}\n    set: {{settings.d: 4}}\n    reason: more\n"
    );
    assert_eq!(
        sets_of(&valid(&overridden))[1]["settings"],
        json!({"b": 3, "c": 3, "d": 4})
    );
    let placeholder = overridden.replace(
        "{merge: [\"${configuration.settings}\", {b: 3, c: 3}]}",
        "\"${configuration.settings}\"",
    );
    assert_eq!(
        sets_of(&valid(&placeholder))[1]["settings"],
        json!({"b": 2, "d": 4})
    );
}

#[test]
fn a_field_that_only_other_labels_have_is_absent() {
    let text = VALID
        .replace("batched: {slots: 8}", "batched: {slots: 8, warm: 3}")
        .replace(
            "    requests: ${requests}\n",
            "    requests: ${requests}\n    warmup: ${configuration.warm}\n",
        );
    let experiment = valid(&text);
    let sets = &stage(&experiment, "ladder").parameter_sets;
    assert!(sets.iter().any(|set| set["warmup"] == 3));
    assert!(sets.iter().any(|set| set.get("warmup").is_none()));
    // A profile whose labels all lack the field leaves it open in the same way.
    for labels in ["[serial]", "{other: {slots: 1}}"] {
        let profile = format!("profiles:\n  few: {{axes: {{configuration: {labels}}}}}\n  ");
        let text = match text.contains("profiles:\n") {
            true => text.replace("profiles:\n  ", &profile),
            false => text.replace("axes:\n", &format!("{}\naxes:\n", profile.trim_end())),
        };
        let few = Options {
            profile: Some("few".to_owned()),
            ..Options::default()
        };
        let few = load(&text, &few).unwrap_or_else(|e| panic!("{e}"));
        let sets = &stage(&few, "ladder").parameter_sets;
        assert!(sets.iter().all(|set| set.get("warmup").is_none()));
    }
    let misspelt = text.replace("${configuration.warm}", "${configuration.wram}");
    let error = load(&misspelt, &Options::default()).unwrap_err();
    assert!(error.contains("has no field `wram`"), "{error}");
}

#[test]
fn a_field_that_a_label_lacks_is_absent_inside_of_a_setting_too() {
    let text = VALID
        .replace("{slots: 8}", "{slots: 8, warm: 3, none: 1}")
        .replace("{slots: 1}", "{slots: 1, none: null}")
        .replace(
            "    requests: ${requests}\n",
            "    requests: ${requests}\n    extra: {list: [{a: \"${configuration.warm}\", b: 1}], none: \"${configuration.none}\"}\n",
        );
    let experiment = valid(&text);
    let sets = &stage(&experiment, "ladder").parameter_sets;
    let all: BTreeSet<String> = sets.iter().map(|set| set["extra"].to_string()).collect();
    let expected = [
        r#"{"list":[{"a":3,"b":1}],"none":1}"#,
        // A null that the label has is a value.
        r#"{"list":[{"b":1}],"none":null}"#,
    ];
    assert_eq!(all, BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn a_required_key_that_a_label_leaves_out_is_missing() {
    let text = VALID
        .replace("{slots: 8}", "{slots: 8, clients: 3, load: short}")
        .replace("{slots: 1}", "{slots: 1, load: nowhere}")
        .replace("\"${concurrency}\"}}", "\"${configuration.clients}\"}}")
        .replace(
            "workload: ${workload}\n",
            "workload: ${configuration.load}\n",
        );
    let (text, _) = text.split_once("    exclude:").unwrap();
    let error = load(text, &Options::default()).unwrap_err();
    assert!(
        error.contains("missing key `clients` (with configuration=serial"),
        "{error}"
    );
    assert!(
        error.contains("hint: its placeholder is a field that this label lacks"),
        "{error}"
    );
}

#[test]
fn labels_in_another_form_get_a_remedy_that_is_right() {
    for (written, other, hint) in [
        (
            "concurrency: \"${ladder}\"",
            "concurrency: \"[1, 2]\"",
            "write it without quotes: `[1, 2]`",
        ),
        (
            "rep: {from: 1, to: \"${reps}\"}",
            "rep: 3",
            "write it as `[3]`, one label, or as `{from: 1, to: 3}`, 3 labels",
        ),
        (
            "rep: {from: 1, to: \"${reps}\"}",
            "rep: 1",
            "write it as `[1]`",
        ),
        (
            "rep: {from: 1, to: \"${reps}\"}",
            "rep: \"{from: 1, to: 3}\"",
            "write it without quotes: `{from: 1, to: 3}`",
        ),
        (
            "workload: [short, long]",
            "workload: [short, , long]",
            "a value is missing before this comma: add it",
        ),
    ] {
        assert!(VALID.contains(written), "{written}");
        let error = load(&VALID.replace(written, other), &Options::default()).unwrap_err();
        assert!(error.contains(&format!("hint: {hint}")), "{other}: {error}");
    }
}
