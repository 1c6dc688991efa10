//! Files that settings name: the plan keeps them in the store, and the cells read them there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::Project;

const STUDY: &str = "packed.yaml";

const TEXT: &str = r#"
experiment: packed
question: Do cells read what was planned?
seed: 1
stages:
  ladder:
    kind: load
    workload: {prompts: {pack: {file: pack.jsonl, when-short: repeat}}, output: {tokens: 8}}
    arrival: {closed-loop: {clients: 1}}
    requests: 4
    simulate: {server: batching}
"#;

fn written(pack: &str) -> Project {
    let project = Project::new();
    fs::write(project.path().join(STUDY), TEXT).expect("writable");
    fs::write(project.path().join("pack.jsonl"), pack).expect("writable");
    project
}

fn objects(project: &Project) -> usize {
    let folders = fs::read_dir(project.path().join(".benchtrail/objects")).expect("objects");
    folders
        .map(|folder| {
            fs::read_dir(folder.expect("a folder").path())
                .expect("a folder")
                .count()
        })
        .sum()
}

/// Makes every object of the store old enough for garbage collection.
fn age(project: &Project) {
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for folder in fs::read_dir(project.path().join(".benchtrail/objects")).expect("objects") {
        for object in fs::read_dir(folder.expect("a folder").path()).expect("a folder") {
            let file = fs::File::open(object.expect("an object").path()).expect("readable");
            file.set_modified(old).expect("our own");
        }
    }
}

#[test]
fn the_plan_keeps_a_named_file_and_the_record_keeps_it_for_good() {
    let project = written("\"one\"\n\"two\"\n");
    project.run(["plan", STUDY]).ok();
    assert_eq!(objects(&project), 1, "the pack, and nothing was executed");
    project.run(["run", STUDY]).ok();
    let record: Value = project.run(["show", STUDY, "ladder", "--json"]).ok().json();
    let files = record["files"]
        .as_object()
        .or_else(|| record["record"]["files"].as_object());
    let files = files.unwrap_or_else(|| panic!("{record}"));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["pack.jsonl"]);
    // Its owner deletes it, but the store still has the version in the record.
    fs::remove_file(project.path().join("pack.jsonl")).expect("it was there");
    age(&project);
    project.run(["gc"]).ok();
    let digest = files["pack.jsonl"].as_str().expect("a digest");
    let hex = digest.strip_prefix("b3:").expect("its algorithm");
    let object = Path::new(".benchtrail/objects")
        .join(&hex[..2])
        .join(&hex[2..]);
    let kept = fs::read_to_string(project.path().join(object)).expect("it is kept");
    assert_eq!(kept, "\"one\"\n\"two\"\n");
    project.run(["fsck"]).ok();
}

#[test]
fn a_large_file_that_has_not_changed_is_not_hashed_again() {
    let project = written("");
    let corpus = "prompts: {corpus: {file: pack.jsonl, length: 20}}";
    project.edit(
        STUDY,
        "prompts: {pack: {file: pack.jsonl, when-short: repeat}}",
        corpus,
    );
    let text = project.path().join("pack.jsonl");
    fs::write(&text, "words ".repeat(400_000)).expect("writable");
    // A file that changed within the last two seconds may change again undetected.
    std::thread::sleep(Duration::from_millis(2200));
    project.run(["plan", STUDY]).ok();
    let file = project.path().join(".benchtrail/known-files.json");
    let remembered = fs::read_to_string(&file).expect("the store remembers it");
    let digest = remembered.split("b3:").nth(1).expect("a digest");
    let digest = digest[..64].to_owned();
    // With a different digest in its place, the plan uses that digest: it did not read the file.
    fs::write(&file, remembered.replace(&digest, &"0".repeat(64))).expect("writable");
    let outcome = project.run(["plan", STUDY]);
    assert!(
        outcome
            .stderr
            .contains("pack.jsonl changed while the study was planned"),
        "{}",
        outcome.stderr
    );
    // An edit is detected.
    fs::write(&text, "words ".repeat(399_999)).expect("writable");
    project.run(["plan", STUDY]).ok();
}
