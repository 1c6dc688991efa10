//! How the binary reacts when files are touched, tampered with or deleted, when the input of a command changes, and
//! when a stage fails: the criteria by which workflow tools are compared.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{Outcome, Project};

const STUDY: &str = "experiments/simulated.yaml";
const REPORT: &str = "reports/simulated/report.md";

fn finished() -> Project {
    let project = Project::new();
    let file = project.path().join(STUDY);
    let text = fs::read_to_string(&file).expect("the study");
    let report = "\n  report: {kind: report, needs: [ladder, checks, results]}\n";
    fs::write(&file, text + report).expect("writable");
    assert!(executed(&project) > 0);
    project
}

/// Runs the study and returns the number of cells executed.
fn executed(project: &Project) -> u64 {
    let summary = project.run(["run", STUDY, "--json"]).ok().json();
    summary["executed"].as_u64().expect("a count")
}

#[test]
fn a_source_touched_or_rewritten_with_the_same_meaning_executes_nothing() {
    let project = finished();
    let file = project.path().join(STUDY);
    let text = fs::read(&file).expect("the study");
    fs::write(&file, &text).expect("writable");
    assert_eq!(executed(&project), 0);
    project.edit(STUDY, "seed: 164", "seed:   164   # the same");
    assert_eq!(executed(&project), 0);
}

#[test]
fn a_stage_edited_that_gives_the_same_bytes_executes_nothing_after_it() {
    let project = Project::new();
    let gates = "- {gate: census}";
    let with = |alpha: &str| format!("- {{gate: duplicates, alpha: {alpha}}}\n      {gates}");
    project.edit(STUDY, gates, &with("0.0001"));
    assert!(executed(&project) > 2);
    // The gate is stricter but has the same result, so stages that read its tables have nothing new to read.
    project.edit(STUDY, "alpha: 0.0001", "alpha: 0.00009");
    assert_eq!(executed(&project), 1);
    assert_eq!(executed(&project), 0);
}

#[test]
fn a_run_killed_with_its_stage_goes_on_unattended_and_reads_nothing_that_is_half_written() {
    let expected = fs::read(finished().path().join(REPORT)).expect("the report");
    let project = Project::new();
    let file = project.path().join(STUDY);
    let text = fs::read_to_string(&file).expect("the study");
    let report = "\n  report: {kind: report, needs: [ladder, checks, results]}\n";
    fs::write(&file, text + report).expect("writable");
    let mut child = project
        .command(["run", STUDY, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    // Writing has begun.
    let objects = project.path().join(".benchtrail/objects");
    while fs::read_dir(&objects).map_or(0, Iterator::count) == 0 {
        let ended = child.try_wait().expect("the child can be asked");
        assert_eq!(ended, None, "it ended before it was killed");
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("the child is reaped");
    executed(&project);
    project.run(["fsck"]).ok();
    assert_eq!(executed(&project), 0);
    let report = fs::read(project.path().join(REPORT)).expect("the report");
    let digest = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(text);
        text.lines()
            .filter(|line| line.starts_with('|'))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(digest(&report), digest(&expected), "the same tables");
}

#[test]
fn a_report_deleted_or_edited_is_there_again_without_executing_anything() {
    let project = finished();
    let report = project.path().join(REPORT);
    let before = fs::read(&report).expect("the report");
    fs::remove_file(&report).expect("removable");
    assert_eq!(executed(&project), 0);
    assert_eq!(fs::read(&report).expect("the report"), before);
    fs::write(&report, "edited").expect("writable");
    assert_eq!(executed(&project), 0);
    assert_eq!(fs::read(&report).expect("the report"), before);
}

/// Flips a bit in an object of the store, keeping its size and, optionally, its time.
fn tamper(object: &Path, keep_time: bool) {
    let time = fs::metadata(object).and_then(|m| m.modified());
    let mut bytes = fs::read(object).expect("an object");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::set_permissions(object, fs::Permissions::from_mode(0o644)).expect("ours");
    fs::write(object, bytes).expect("writable");
    if keep_time {
        let file = fs::File::options().append(true).open(object);
        let file = file.expect("an object");
        file.set_modified(time.expect("a time")).expect("ours");
    }
}

/// Returns the objects of a stage's outputs.
fn objects_of(project: &Project, stage: &str) -> Vec<PathBuf> {
    let listed = project.run(["ls", STUDY, stage, "--json"]).ok().json();
    let lines = listed.as_array().expect("a list");
    let digests = lines.iter().map(|line| {
        let digest = line["artifact"]["digest"].as_str().expect("a digest");
        digest.trim_start_matches("b3:").to_owned()
    });
    let objects = project.path().join(".benchtrail/objects");
    digests
        .map(|hex| objects.join(&hex[..2]).join(&hex[2..]))
        .collect()
}

#[test]
fn a_table_or_a_report_changed_in_place_is_detected_and_made_again_by_the_next_run() {
    for (stage, keep_time) in [
        ("results", true),
        ("results", false),
        ("checks", true),
        ("report", true),
    ] {
        let project = finished();
        let report = fs::read(project.path().join(REPORT)).expect("the report");
        let objects = objects_of(&project, stage);
        for object in &objects {
            tamper(object, keep_time);
        }
        // Nothing else has changed, and no check was requested.
        let plan = project.run(["plan", STUDY, "--cells"]).ok();
        assert!(
            plan.stdout.contains("is damaged in the store"),
            "{stage}: {}",
            plan.stdout
        );
        assert_eq!(executed(&project), 1, "{stage}");
        assert_eq!(executed(&project), 0, "{stage}");
        project.run(["audit", REPORT]).ok();
        let now = fs::read(project.path().join(REPORT)).expect("the report");
        assert!(now == report, "{stage}: the report is as it was");
        let aside = project.path().join(".benchtrail/quarantine");
        let aside = fs::read_dir(aside).map_or(0, Iterator::count);
        assert_eq!(aside, objects.len(), "{stage}: what was changed is kept");
        project.run(["fsck"]).ok();
    }
}

#[test]
fn rows_changed_in_place_are_never_read_and_only_measured_again_once_they_were_set_aside() {
    for keep_time in [true, false] {
        let project = finished();
        let object = &objects_of(&project, "ladder")[0];
        tamper(object, keep_time);
        // Commands that read the rows report the damage, and publish nothing from them.
        project.edit(STUDY, "title: What", "title: Again what");
        project.edit(
            STUDY,
            "- {gate: census}",
            "- {gate: census}\n      - {gate: duplicates, alpha: 0.01}",
        );
        let outcome = project.run(["run", STUDY]);
        assert_ne!(outcome.code, Some(0), "{}", outcome.stdout);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        let name = object.file_name().and_then(|n| n.to_str()).expect("text");
        assert!(said.contains(&name[..6]), "{said}");
        project.run(["fsck", "--repair"]).ok();
        assert!(executed(&project) > 0);
        project.run(["fsck"]).ok();
    }
}

/// A study that only prepares an engine: a script beside it that reads a variable.
struct Own {
    project: Project,
}

impl Own {
    fn new(version: &str) -> Self {
        let project = Project::new();
        let text = "experiment: own\nseed: 1\n\
            engines:\n  own:\n    title: Own\n    version: '1'\n    launch: {program: {installed: own-engine}, \
            arguments: ['{port}'], inherit: [OWN_VALUE], version-arguments: [--version]}\n\
            models:\n  none: {title: None, weights: {named: {id: nothing}}}\n\
            stages:\n  env: {kind: provision, engine: own, model: none}\n";
        fs::write(project.path().join("own.yaml"), text).expect("writable");
        fs::create_dir(project.path().join("bin")).expect("writable");
        let own = Self { project };
        own.script(&format!("echo {version}"));
        own
    }

    fn script(&self, body: &str) {
        let file = self.project.path().join("bin/own-engine");
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).expect("writable");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    fn run(&self, value: &str) -> Outcome {
        let mut command = self.project.command(["run", "own.yaml", "--json"]);
        let bin = self.project.path().join("bin");
        command
            .env("OWN_VALUE", value)
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.output().expect("the binary starts").into()
    }

    fn executed(&self, value: &str) -> u64 {
        let summary = self.run(value).ok().json();
        summary["executed"].as_u64().expect("a count")
    }

    fn records(&self) -> u64 {
        let report = self.project.run(["fsck", "--json"]).ok().json();
        report["records"].as_u64().expect("a count")
    }
}

#[test]
fn a_variable_that_a_program_reads_and_the_body_of_a_script_are_part_of_the_key() {
    let own = Own::new("1");
    assert_eq!(own.executed("one"), 1);
    assert_eq!(own.executed("one"), 0);
    assert_eq!(own.executed("two"), 1, "the variable changed");
    own.script("echo 1 # another body, the same version");
    assert_eq!(own.executed("two"), 1, "the script changed");
    assert_eq!(own.executed("two"), 0);
    assert_eq!(
        own.executed("one"),
        1,
        "the script changed for this value, too"
    );
}

#[test]
fn a_stage_that_fails_is_tried_again_by_the_next_run_and_every_attempt_has_its_record() {
    let own = Own::new("2");
    for attempt in 1..=2 {
        let outcome = own.run("one");
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert_eq!(own.records(), attempt, "{}", outcome.stderr);
    }
    own.script("echo 1");
    assert_eq!(own.executed("one"), 1);
    assert_eq!(own.records(), 3, "what failed before is kept");
}

#[test]
fn where_an_engine_is_missing_you_learn_how_to_use_what_was_measured_elsewhere() {
    let own = Own::new("1");
    let file = own.project.path().join("own.yaml");
    let text = fs::read_to_string(&file).expect("a study");
    let load = "  ladder:\n    kind: load\n    needs: [env]\n    workload: short\n    arrival: {closed-loop: {clients: 1}}\n    \
        requests: 4\n    simulate: {server: batching}\n\
        workloads:\n  short: {prompts: {words: {length: 4}}, output: {tokens: 4}}\n";
    fs::write(&file, text + load).expect("writable");
    let script = own.project.path().join("bin/own-engine");
    let away = own.project.path().join("bin/away");
    let plan = |arguments: &[&str]| own.project.run([&["plan", "own.yaml"], arguments].concat());
    fs::rename(&script, &away).expect("ours");
    let before = plan(&[]);
    assert_eq!(before.code, Some(4), "{}", before.stderr);
    assert!(!before.stderr.contains("--locked"), "{}", before.stderr);
    fs::rename(&away, &script).expect("ours");
    assert_eq!(own.executed("one"), 2);
    fs::remove_file(&script).expect("ours");
    let after = plan(&[]);
    assert_eq!(after.code, Some(4), "{}", after.stderr);
    let hint =
        "the lock records 1 measured cell; add `--locked` to analyze and report what was measured";
    assert!(after.stderr.contains(hint), "{}", after.stderr);
    let locked = plan(&["--locked"]).ok();
    assert!(
        locked.stdout.contains("nothing to execute"),
        "{}",
        locked.stdout
    );
}
