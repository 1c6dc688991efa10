//! A finished study that is published, verified, reproduced, and detected when tampered with.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Project, finished};

const STUDY: [&str; 2] = ["experiments/quickstart.yaml", "--smoke"];

fn publish(project: &Project, out: &Path, more: &[&str]) -> crate::support::Outcome {
    let out = out.to_str().expect("a path that is text");
    let head = [
        "publish",
        STUDY[0],
        STUDY[1],
        "--author",
        "Ada Lovelace",
        "--out",
        out,
    ];
    project.run(head.iter().chain(more))
}

/// A folder outside every project, so that a bundle must be self-contained.
fn outside() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), paths);
        } else {
            paths.push(entry.path());
        }
    }
}

#[test]
fn a_bundle_verifies_and_reproduces_byte_for_byte_without_its_project() {
    let (project, folder) = (finished(), outside());
    let bundle = folder.path().join("study");
    let said = publish(project, &bundle, &["--archive"]).ok();
    assert!(said.stdout.contains("not signed"), "{}", said.stdout);
    // An empty project: no store, no experiment, no engine.
    let reader = Project::new();
    for target in [bundle.clone(), folder.path().join("study.tar.zst")] {
        let target = target.to_str().expect("text");
        let verified = reader.run(["verify", target]).ok();
        assert!(
            verified.stdout.contains("everything holds\n"),
            "{}",
            verified.stdout
        );
        // `publish` counts the files that cover the others, too.
        let checked = reader.run(["verify", target, "--json"]).ok().json()["checked"].clone();
        let both = checked["files"].as_u64().zip(checked["covers"].as_u64());
        let files = both.map_or(0, |(files, covers)| files + covers);
        assert!(
            said.stdout.starts_with(&format!("{files} files, ")),
            "{}",
            said.stdout
        );
        let again = reader.run(["reproduce", target, "--json"]).ok().json();
        assert_eq!(again["holds"], true, "{again}");
        let cells = again["cells"].as_array().expect("cells");
        let kinds: Vec<&str> = cells.iter().filter_map(|c| c["kind"].as_str()).collect();
        assert_eq!(
            kinds,
            ["verify", "report", "analyze"],
            "every pure cell, none else"
        );
        assert!(cells.iter().all(|c| c["verdict"] == "identical"), "{again}");
    }
    let report = bundle.join("report/report.md");
    let audit = reader.run(["audit", report.to_str().expect("text")]).ok();
    assert!(
        audit.stdout.contains("everything holds"),
        "{}",
        audit.stdout
    );
    let twice = folder.path().join("again/study");
    publish(project, &twice, &["--archive"]).ok();
    let archive = |at: &Path| fs::read(at.with_extension("tar.zst")).expect("an archive");
    assert!(
        archive(&bundle) == archive(&twice),
        "publishing twice gives the same bytes"
    );
}

#[test]
fn outputs_left_out_are_named_and_everything_else_still_holds() {
    let (project, folder) = (finished(), outside());
    let refused = |output: &str| {
        let out = folder.path().join("refused");
        let outcome = publish(project, &out, &["--without", output]);
        assert_eq!(outcome.code, Some(1));
        outcome.stderr
    };
    assert!(refused("requests").contains("every number of a report leads to its request rows"));
    assert!(refused("promts").contains("its outputs are"));
    let (whole, small) = (folder.path().join("whole"), folder.path().join("small"));
    publish(project, &whole, &[]).ok();
    let said = publish(
        project,
        &small,
        &["--without", "prompts", "--without", "chunks"],
    )
    .ok();
    assert!(
        said.stdout.contains("of the outputs prompts, chunks"),
        "{}",
        said.stdout
    );
    let count = |bundle: &Path| {
        let mut paths = Vec::new();
        files(&bundle.join("store"), &mut paths);
        paths.len()
    };
    let absent = count(&whole) - count(&small);
    assert!(absent > 1, "{absent}");
    let reader = Project::new();
    let target = small.to_str().expect("text");
    let verified = reader.run(["verify", target]).ok().stdout;
    assert!(
        verified.contains(&format!("{absent} left out by the author")),
        "{verified}"
    );
    assert!(verified.contains("everything holds\n"), "{verified}");
    let readme = fs::read_to_string(small.join("README.md")).expect("a front page");
    assert!(
        readme.contains(&format!("`prompts`, `chunks`. Of their {absent} artifacts")),
        "{readme}"
    );
    let again = reader.run(["reproduce", target, "--json"]).ok().json();
    let cells = again["cells"].as_array().expect("cells");
    let verdict = |kind: &str| {
        let cell = cells
            .iter()
            .find(|c| c["kind"] == kind)
            .expect("a cell of this kind");
        cell["verdict"].as_str().expect("a verdict").to_owned()
    };
    assert_eq!(verdict("report"), "identical", "{again}");
    assert_eq!(verdict("verify"), "not-executed", "{again}");
    assert_eq!(
        again["not_executed"],
        cells
            .iter()
            .filter(|c| c["verdict"] == "not-executed")
            .count()
    );
    // An object that the author did not declare as omitted counts as missing.
    let mut objects = Vec::new();
    files(&small.join("store"), &mut objects);
    fs::remove_file(&objects[0]).expect("an object");
    let broken = reader.run(["verify", target]);
    assert!(
        broken.code == Some(1) && broken.stdout.contains("it is missing"),
        "{}",
        broken.stdout
    );
}

#[test]
fn a_report_beside_its_archive_is_followed_without_a_store() {
    let (project, folder) = (finished(), outside());
    let bundle = folder.path().join("study");
    publish(project, &bundle, &["--archive"]).ok();
    let shelf = folder.path().join("docs");
    fs::create_dir(&shelf).expect("a folder");
    fs::rename(bundle.join("report"), shelf.join("report")).expect("the report moves");
    let shelf = shelf.join("report");
    fs::copy(
        folder.path().join("study.tar.zst"),
        shelf.join("study.tar.zst"),
    )
    .expect("an archive");
    // This file is not an archive of the report either.
    fs::write(shelf.join("a.tar.zst"), "no archive").expect("a file");
    let reader = Project::new();
    let report = shelf.join("report.md");
    let audit = reader
        .run(["audit", report.to_str().expect("text")])
        .ok()
        .stdout;
    assert!(audit.contains("everything holds"), "{audit}");
    assert!(
        audit.contains("study.tar.zst: "),
        "the lock's place: {audit}"
    );
    let text = fs::read_to_string(&report).expect("a report");
    let line = text
        .lines()
        .position(|l| l.starts_with("| ") && l.contains('.'))
        .expect("a table")
        + 1;
    let place = format!("{}:{line}", report.display());
    let said = reader.run(["why", &place, "--json"]).ok().json();
    let several = said["several"].as_array().map_or(0, Vec::len);
    let raw = said["raw"].as_array().map_or(0, Vec::len);
    assert!(several + raw > 0, "{said}");
    // An edited report is not accepted as the published one.
    fs::write(&report, text.replacen('1', "7", 1)).expect("an edit");
    let edited = reader.run(["audit", report.to_str().expect("text")]);
    assert!(
        edited.code == Some(1) && edited.stdout.contains("the report was edited"),
        "{}",
        edited.stdout
    );
}

#[test]
fn a_signature_is_checked_against_the_key_that_made_it() {
    let (project, folder) = (finished(), outside());
    let key = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    for name in ["mine", "other"] {
        project.run(["keygen", &key(name)]).ok();
    }
    let again = project.run(["keygen", &key("mine")]);
    assert_eq!(again.code, Some(2), "a key is never overwritten");
    let bundle = folder.path().join("study");
    publish(project, &bundle, &["--key", &key("mine.key")]).ok();
    let target = bundle.to_str().expect("text");
    let signature = |with: &str| {
        let outcome = project.run(["verify", target, "--key", with, "--json"]);
        (outcome.code, outcome.json()["checked"]["signature"].clone())
    };
    let (code, good) = signature(&key("mine.pub"));
    assert!(code == Some(0) && good.get("good").is_some(), "{good}");
    assert_eq!(signature(&key("other.pub")), (Some(1), Value::from("bad")));
    let unchecked = project.run(["verify", target]).ok();
    assert!(
        unchecked
            .stdout
            .contains("not checked: give the public key"),
        "{}",
        unchecked.stdout
    );
    for command in [
        &["verify", target, "--key", "none.pub"][..],
        &[
            "publish",
            "study.yaml",
            "--author",
            "A",
            "--key",
            "none.key",
        ],
    ] {
        let missing = project.run(command);
        assert_eq!(missing.code, Some(2), "{}", missing.stderr);
        let said = "no such file\nhint: `benchtrail keygen NAME` writes a key pair";
        assert!(missing.stderr.contains(said), "{}", missing.stderr);
    }
    let wrong = project.run(["verify", target, "--key", &key("mine.key")]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("this is a private key"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn one_changed_byte_of_any_file_is_caught_and_named() {
    let (project, folder) = (finished(), outside());
    project
        .run(["keygen", folder.path().join("k").to_str().expect("text")])
        .ok();
    let bundle = folder.path().join("study");
    publish(
        project,
        &bundle,
        &["--key", folder.path().join("k.key").to_str().expect("text")],
    )
    .ok();
    let public = folder.path().join("k.pub");
    let mut all = Vec::new();
    files(&bundle, &mut all);
    all.sort();
    // Every document and report file, and every fifth of the many objects.
    let is_object = |path: &PathBuf| path.starts_with(bundle.join("store"));
    let (objects, mut chosen): (Vec<PathBuf>, Vec<PathBuf>) = all.into_iter().partition(is_object);
    assert!(
        chosen.len() >= 12 && objects.len() > 50,
        "{} and {}",
        chosen.len(),
        objects.len()
    );
    chosen.extend(objects.into_iter().step_by(5));
    for path in chosen {
        let good = fs::read(&path).expect("readable");
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 0x01;
        fs::write(&path, &bad).expect("writable");
        let outcome = project.run([
            "verify".as_ref(),
            bundle.as_os_str(),
            "--key".as_ref(),
            public.as_os_str(),
        ]);
        let name = path
            .strip_prefix(&bundle)
            .expect("inside")
            .to_str()
            .expect("text");
        assert_ne!(outcome.code, Some(0), "{name} was changed");
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains(name), "{name} is not named in:\n{said}");
        fs::write(&path, &good).expect("writable");
    }
    // A change in a manifest may hit any field, so the test alters a digest deliberately.
    let manifest = bundle.join("manifest.json");
    let good = fs::read_to_string(&manifest).expect("text");
    for before in ["\"b3:", "\"sha256\": \""] {
        let at = good.find(before).expect("a digest") + before.len();
        let mut bad = good.clone().into_bytes();
        bad[at] = if bad[at] == b'0' { b'1' } else { b'0' };
        fs::write(&manifest, bad).expect("writable");
        let outcome = project.run([
            "verify".as_ref(),
            bundle.as_os_str(),
            "--key".as_ref(),
            public.as_os_str(),
        ]);
        assert_ne!(outcome.code, Some(0));
        assert!(
            outcome.stderr.contains("manifest.json") || outcome.stdout.contains("manifest.json")
        );
    }
    fs::write(&manifest, good).expect("writable");
    project
        .run([
            "verify".as_ref(),
            bundle.as_os_str(),
            "--key".as_ref(),
            public.as_os_str(),
        ])
        .ok();
}

#[test]
fn added_and_removed_files_are_named() {
    let (project, folder) = (finished(), outside());
    let bundle = folder.path().join("study");
    publish(project, &bundle, &[]).ok();
    fs::write(bundle.join("report/notes.md"), "more").expect("writable");
    fs::remove_file(bundle.join("report/report.trace.parquet")).expect("removable");
    let outcome = project.run(["verify".as_ref(), bundle.as_os_str()]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome
            .stdout
            .contains("report/notes.md: it is not in the manifest"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stdout
            .contains("report/report.trace.parquet: it is missing"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_secret_in_an_artifact_or_the_experiment_refuses_the_whole_and_is_not_repeated() {
    let (project, folder) = (Project::finished(), outside());
    let secret = format!("hf_{}", "aB3".repeat(12));
    project.edit(
        "experiments/quickstart.yaml",
        "# The first experiment:",
        &format!("# token {secret}\n# The first experiment:"),
    );
    let bundle = folder.path().join("study");
    let refused = publish(&project, &bundle, &[]);
    assert_eq!(
        refused.code,
        Some(1),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    assert!(
        refused
            .stderr
            .contains("quickstart.yaml: 1:9: a model hub's token [hf-token]"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains(&secret) && !bundle.exists());
    let allowed = publish(&project, &bundle, &["--allow", "hf-token"]).ok();
    assert!(
        allowed
            .stdout
            .contains("secret search switched off for: hf-token"),
        "{}",
        allowed.stdout
    );
    let verified = project.run(["verify".as_ref(), bundle.as_os_str()]).ok();
    assert!(
        verified
            .stdout
            .contains("published without the secret search for: hf-token"),
        "{}",
        verified.stdout
    );
}

#[test]
fn a_study_that_is_not_finished_is_not_published() {
    let project = Project::finished();
    project.edit(
        "experiments/quickstart.yaml",
        "requests: 8, blocks: 1",
        "requests: 9, blocks: 1",
    );
    let folder = outside();
    let refused = publish(&project, &folder.path().join("study"), &[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("the study is not finished"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_record_that_was_changed_is_not_published() {
    let project = Project::new();
    let study = ["experiments/simulated.yaml", "--smoke"];
    project.run(["run"].iter().chain(&study)).ok();
    let lock = project.path().join("experiments/simulated.smoke.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    let cell = text
        .lines()
        .find(|line| line.starts_with("ok configuration="));
    let record = cell
        .and_then(|line| line.split(' ').nth(3))
        .expect("a record");
    let object = |digest: &str| {
        let (folder, name) = digest.trim_start_matches("b3:").split_at(2);
        project
            .path()
            .join(".benchtrail/objects")
            .join(folder)
            .join(name)
    };
    let original = fs::read_to_string(object(record)).expect("a record");
    let json: Value = serde_json::from_str(&original).expect("JSON");
    let size = json["outputs"]["requests"]["bytes"]
        .as_u64()
        .expect("a size");
    let forged = original.replace(&size.to_string(), &(size + 1).to_string());
    assert_ne!(forged, original);
    let place = object(&artifacts::Digest::of(forged.as_bytes()).to_string());
    fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
    fs::write(place, forged).expect("a forged record");
    fs::remove_file(object(record)).expect("the record");
    // Without an index and a lock, the run takes what is there.
    fs::remove_file(project.path().join(".benchtrail/index.sqlite")).expect("the index");
    fs::remove_file(&lock).expect("the lock");
    let again = project.run(["run"].iter().chain(&study)).ok();
    assert!(
        again.stdout.contains("0 cells executed"),
        "{}",
        again.stdout
    );
    let folder = outside();
    let out = folder.path().join("study");
    let out_text = out.to_str().expect("text");
    let more = ["--author", "Ada Lovelace", "--out", out_text];
    let refused = project.run(["publish"].iter().chain(&study).chain(&more));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let wanted = format!("says {} bytes, but it has {size}", size + 1);
    assert!(refused.stderr.contains(&wanted), "{}", refused.stderr);
    assert!(!out.exists());
}

#[test]
fn a_study_compared_with_its_own_bundle_differs_in_nothing_and_passes_the_gate() {
    let (project, folder) = (finished(), outside());
    let bundle = folder.path().join("study");
    publish(project, &bundle, &[]).ok();
    let bundle = bundle.to_str().expect("text");
    let answer = project
        .run(["diff", bundle, STUDY[0], STUDY[1], "--gate", "--json"])
        .ok()
        .json();
    assert_eq!(answer["outcome"], "pass");
    for section in ["recipes", "cells", "environment", "verdicts", "numbers"] {
        assert_eq!(
            answer["comparison"][section],
            serde_json::json!([]),
            "{section}"
        );
    }
    assert!(
        answer["comparison"]["results"]
            .as_array()
            .is_some_and(|r| r.len() >= 24),
        "{answer}"
    );
    assert!(
        answer["comparison"]["numbers_compared"]
            .as_u64()
            .is_some_and(|n| n > 100),
        "{answer}"
    );
}

#[test]
fn a_gate_over_nothing_does_not_pass() {
    let (project, folder) = (finished(), outside());
    let bundle = folder.path().join("study");
    publish(project, &bundle, &[]).ok();
    let bundle = bundle.to_str().expect("text");
    let refused = project.run([
        "diff",
        bundle,
        bundle,
        "--gate",
        "--column",
        "output_thruput",
    ]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("did you mean `output_throughput`?"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_study_whose_names_look_like_markup_verifies() {
    let project = Project::new();
    let text = include_str!("../experiments/simulated.yaml")
        .replace("batched: {", "\"<b>[x](y) *a*\": {")
        .replace("serial: {", "\"__init__ ~~s~~\": {")
        .replace("title: What", "title: \"<i>![p](q)</i> &lt; \\\\* `\" #")
        .replace("question: How", "question: \"# `code` and <b>\" #");
    let report = "
  write-up:
    kind: report
    needs: [ladder, checks, results]
    tables:
      means: {from: results.means, caption: The means., columns: [{column: configuration}, {column: clients}]}
";
    fs::write(project.path().join("markup.yaml"), text + report).expect("an experiment");
    project.run(["run", "markup.yaml", "--smoke"]).ok();
    let published = [
        "publish",
        "markup.yaml",
        "--smoke",
        "--author",
        "Ada *Lovelace*",
        "--out",
        "bundle",
    ];
    project.run(published).ok();
    let verified = project.run(["verify", "bundle"]).ok();
    assert!(
        verified.stdout.contains("everything holds"),
        "{}",
        verified.stdout
    );
}
