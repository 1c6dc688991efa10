//! A study with its own definitions and files: found from any working directory, and again in its bundle.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Project, assert_snapshot};

const STUDY: &str = "studies/own.yaml";

const FILES: [(&str, &str); 6] = [
    (
        STUDY,
        r#"experiment: own
title: A study with definitions of its own
question: Does it stand on its own?
seed: 7
axes:
  clients: [1, 2]
stages:
  machine: {kind: provision, engine: tiny, model: toy}
  ladder:
    kind: load
    over: [clients]
    workload: packed
    arrival: {closed-loop: {clients: "${clients}"}}
    requests: 4
    simulate: {server: batching}
  checks: {kind: verify, needs: [machine, ladder], gates: [{gate: census}]}
  results: {kind: analyze, needs: [ladder, checks], tables: {cells: {operator: cell-summary}}}
  report: {kind: report, needs: [results, checks], template: own.md}
"#,
    ),
    (
        "engines/tiny.yaml",
        "title: Tiny\nversion: '1'\nlaunch: {program: {installed: sh}, arguments: ['{port}']}\n",
    ),
    (
        "models/toy.yaml",
        "title: Toy\nweights: {named: {id: toy}}\n",
    ),
    (
        "workloads/packed.yaml",
        "prompts: {pack: {file: ../prompts/pack.jsonl}}\noutput: {tokens: 8}\n",
    ),
    (
        "prompts/pack.jsonl",
        "\"one\"\n\"two\"\n\"three\"\n\"four\"\n",
    ),
    ("studies/templates/own.md", "# {{ title() }}\n"),
];

fn written() -> Project {
    let project = Project::new();
    for (file, text) in FILES {
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    project
}

fn finished() -> Project {
    let project = written();
    project.run(["run", STUDY]).ok();
    project
}

/// Returns the number of cells in the plan, and how many are cached.
fn planned(project: &Project, folder: &Path, arguments: &[&str]) -> (u64, u64) {
    let output = project
        .command(arguments)
        .current_dir(folder)
        .arg("--json")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = plan["cells"].as_array().unwrap();
    let cached = cells.iter().filter(|c| c["status"] == "cached").count();
    (cells.len() as u64, cached as u64)
}

fn publish(project: &Project, folder: &Path, more: &[&str]) -> crate::support::Outcome {
    let head = [
        "publish",
        STUDY,
        "--author",
        "Ada Lovelace",
        "--out",
        folder.to_str().unwrap(),
    ];
    project.run(head.iter().chain(more))
}

#[test]
fn keys_are_the_same_wherever_one_stands() {
    let project = finished();
    assert_eq!(
        planned(
            &project,
            &project.path().join("studies"),
            &["plan", "own.yaml"]
        ),
        (6, 6)
    );
    let absolute = project.path().join(STUDY);
    assert_eq!(
        planned(
            &project,
            Path::new("/"),
            &["plan", absolute.to_str().unwrap()]
        ),
        (6, 6)
    );
    // The same bytes under a different name count as the same pack.
    fs::rename(
        project.path().join("prompts/pack.jsonl"),
        project.path().join("moved.jsonl"),
    )
    .unwrap();
    project.edit(
        "workloads/packed.yaml",
        "../prompts/pack.jsonl",
        "../moved.jsonl",
    );
    assert_eq!(planned(&project, project.path(), &["plan", STUDY]), (6, 6));
}

#[test]
fn a_file_that_lies_only_in_the_working_directory_is_reported_as_such() {
    let project = written();
    project.edit("workloads/packed.yaml", "../prompts/", "prompts/");
    let outcome = project.run(["plan", STUDY]);
    assert_eq!(outcome.code, Some(2));
    assert_snapshot(
        "errors/file-in-the-working-directory.txt",
        &outcome.stderr,
        &project,
    );
}

#[test]
fn a_bundle_is_planned_with_the_same_keys_and_measured_again() {
    let (project, outside) = (finished(), tempfile::tempdir().unwrap());
    let bundle = outside.path().join("bundle");
    publish(&project, &bundle, &[]).ok();
    project.run(["verify", bundle.to_str().unwrap()]).ok();
    for (file, text) in FILES {
        assert_eq!(
            fs::read_to_string(bundle.join(file)).unwrap(),
            text,
            "{file}"
        );
    }
    let manifest: Value =
        serde_json::from_slice(&fs::read(bundle.join("manifest.json")).unwrap()).unwrap();
    let crate_text = fs::read_to_string(bundle.join("ro-crate-metadata.json")).unwrap();
    for (file, _) in FILES {
        let listed = manifest["files"]
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["path"] == file);
        assert!(listed && crate_text.contains(file), "{file}");
    }
    // Every key belongs to one of the bundle's records.
    assert_eq!(planned(&project, &bundle, &["plan", STUDY]), (6, 6));
    let fresh = outside.path().join("fresh");
    for (file, _) in FILES {
        fs::create_dir_all(fresh.join(file).parent().unwrap()).unwrap();
        fs::copy(bundle.join(file), fresh.join(file)).unwrap();
    }
    assert_eq!(planned(&project, &fresh, &["plan", STUDY]), (6, 0));
    let run = project
        .command(["run", STUDY])
        .current_dir(&fresh)
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn a_file_left_out_is_named_with_its_digest_and_what_nobody_reads_is_refused() {
    let (project, outside) = (finished(), tempfile::tempdir().unwrap());
    let bundle = outside.path().join("bundle");
    let strange = publish(
        &project,
        &bundle,
        &["--leave-out", "experiments/quickstart.yaml"],
    );
    assert!(
        strange.code == Some(1) && strange.stderr.contains("nothing to leave out"),
        "{}",
        strange.stderr
    );
    let said = publish(&project, &bundle, &["--leave-out", "prompts/pack.jsonl"])
        .ok()
        .stdout;
    assert!(
        said.contains("not included: ../prompts/pack.jsonl"),
        "{said}"
    );
    assert!(!bundle.join("prompts").exists());
    let readme = fs::read_to_string(bundle.join("README.md")).unwrap();
    let digest = artifacts::Digest::of(FILES[4].1.as_bytes()).to_string();
    assert!(
        readme.contains(&format!(
            "- `../prompts/pack.jsonl`, `{digest}`: the author left it out"
        )),
        "{readme}"
    );
    let outcome = project
        .command(["plan", STUDY])
        .current_dir(&bundle)
        .output()
        .unwrap();
    assert_eq!(outcome.status.code(), Some(2), "the pack is missing");
}

#[test]
fn a_secret_in_a_file_that_would_be_carried_refuses_the_bundle() {
    let project = written();
    let secret = format!("\"one ghp_{}\"\n", "a1B2".repeat(9));
    let pack = project.path().join("prompts/pack.jsonl");
    fs::write(&pack, format!("{secret}{}", FILES[4].1)).unwrap();
    project.run(["run", STUDY]).ok();
    let outside = tempfile::tempdir().unwrap();
    let refused = publish(&project, &outside.path().join("bundle"), &[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("prompts/pack.jsonl"),
        "{}",
        refused.stderr
    );
}
