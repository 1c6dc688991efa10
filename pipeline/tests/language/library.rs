//! Layered definitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::{Experiment, FileError, Files, Options, load_text};
use serde_json::json;

use crate::kinds::registry;

#[derive(Default)]
struct Memory(BTreeMap<PathBuf, String>);

impl Files for Memory {
    fn read(&self, path: &Path) -> Result<Option<String>, FileError> {
        Ok(self.0.get(path).cloned())
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        inside
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect()
    }
}

fn load(local: &str, workload: &str, files: &[(&str, &str)]) -> Result<Experiment, String> {
    let (registry, _) = registry();
    let files = Memory(
        files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect(),
    );
    let text = format!(
        "experiment: x\nseed: 1\n{local}stages:\n  a: {{kind: measure, workload: {workload}, requests: 1}}\n"
    );
    let options = Options {
        user_folders: vec![PathBuf::from("/home/config")],
        ..Options::default()
    };
    load_text(
        &text,
        Path::new("/study/experiments/x.yaml"),
        &registry,
        &options,
        &files,
    )
    .map_err(|e| e.to_string())
}

fn tokens(local: &str, workload: &str, files: &[(&str, &str)]) -> serde_json::Value {
    let experiment = load(local, workload, files).unwrap_or_else(|e| panic!("{e}"));
    experiment.stages.raw[0].parameter_sets[0]["workload"].clone()
}

#[test]
fn the_nearest_definition_wins() {
    let user = ("/home/config/workloads/short.yaml", "output_tokens: 3");
    let above = ("/study/workloads/short.yaml", "output_tokens: 2");
    let beside = (
        "/study/experiments/workloads/short.yaml",
        "output_tokens: 1",
    );
    let local = "workloads: {short: {output_tokens: 0}}\n";
    assert_eq!(tokens("", "short", &[])["output_tokens"], 16);
    assert_eq!(tokens("", "short", &[user])["output_tokens"], 3);
    assert_eq!(tokens("", "short", &[user, above])["output_tokens"], 2);
    assert_eq!(
        tokens("", "short", &[user, above, beside])["output_tokens"],
        1
    );
    assert_eq!(
        tokens(local, "short", &[user, above, beside])["output_tokens"],
        0
    );
}

#[test]
fn extending_merges_deeply_and_may_name_itself_in_a_lower_layer() {
    let local = "workloads: {short: {extends: short, prompt: {tokens: 4}}, mine: {extends: short, prompt: {text: hi}}}\n";
    assert_eq!(
        tokens(local, "mine", &[]),
        json!({"output_tokens": 16, "prompt": {"text": "hi", "tokens": 4}})
    );
    assert_eq!(tokens("", "long", &[]), json!({"output_tokens": 256}));
}

#[test]
fn a_mistake_in_a_file_is_placed_in_that_file() {
    let error = load(
        "",
        "own",
        &[("/study/workloads/own.yaml", "# mine\noutput_token: 3\n")],
    )
    .unwrap_err();
    assert!(error.contains("/study/workloads/own.yaml:2:1"), "{error}");
    assert!(error.contains("did you mean `output_tokens`?"), "{error}");
    assert!(!error.contains("unknown workload"), "{error}");
}

#[test]
fn a_definition_with_another_ending_is_not_passed_over() {
    let beside = "/study/experiments/workloads";
    let mine = format!("{beside}/short.yml");
    // Without the error, the shipped `short` would be measured.
    let error = load("", "short", &[(mine.as_str(), "output_tokens: 1")]).unwrap_err();
    assert!(error.contains("short.yml"), "{error}");
    assert!(error.contains("rename it to `short.yaml`"), "{error}");
    assert!(!error.contains("unknown workload"), "{error}");

    // Files that nothing looks up, or that an earlier definition hides, change nothing.
    let other = format!("{beside}/docker-compose.yml");
    assert_eq!(
        tokens("", "short", &[(other.as_str(), "services: {}")])["output_tokens"],
        16
    );
    let both = format!("{beside}/short.yaml");
    assert_eq!(
        tokens(
            "",
            "short",
            &[
                (mine.as_str(), "output_tokens: 1"),
                (both.as_str(), "output_tokens: 2")
            ]
        )["output_tokens"],
        2
    );
    let local = "workloads: {short: {output_tokens: 0}}\n";
    assert_eq!(
        tokens(local, "short", &[(mine.as_str(), "output_tokens: 1")])["output_tokens"],
        0
    );
}

#[test]
fn extending_in_a_circle_is_an_error() {
    let error = load("workloads: {a: {extends: b}, b: {extends: a}}\n", "a", &[]).unwrap_err();
    assert!(
        error.contains("`a` extends itself, through `a`, `b`"),
        "{error}"
    );
}

#[test]
fn what_is_extended_must_exist() {
    let error = load("workloads: {a: {extends: shrt}}\n", "a", &[]).unwrap_err();
    assert!(error.contains("did you mean `short`?"), "{error}");
}

#[test]
fn a_kind_that_does_not_find_a_definition_learns_the_names() {
    let error = load(
        "",
        "nothing",
        &[("/home/config/workloads/huge.yaml", "output_tokens: 9")],
    )
    .unwrap_err();
    assert!(
        error.contains("the workloads are huge, long, short"),
        "{error}"
    );
    assert!(error.contains("(stages.a.workload)"), "{error}");
}
