//! What is missing behind a report, or is no longer what the experiment says: every command says so.

use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::lock::{Lock, LockCell};

use crate::support::{Outcome, Project};

const STUDY: &str = "experiments/gaps.yaml";

const REPORT: &str = "reports/gaps/report.md";

const TEXT: &str = r#"experiment: gaps
question: Does anyone notice?
seed: 7
profiles:
  smoke: {axes: {clients: [1]}}
axes:
  clients: [1, 2]
workloads:
  short: {prompts: {words: {length: 40}}, output: {tokens: 16}}
stages:
  ladder:
    kind: load
    over: [clients]
    workload: short
    arrival: {closed-loop: {clients: "${clients}"}}
    requests-per-client: 6
    simulate: {server: batching}
  checks: {kind: verify, needs: [ladder], gates: [{gate: census}]}
  results: {kind: analyze, needs: [ladder, checks], tables: {cells: {operator: cell-summary}}}
  report: {kind: report, needs: [ladder, checks, results]}
"#;

fn write(project: &Project, file: &str, text: &str) {
    let path = project.path().join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
    fs::write(path, text).expect("writable");
}

fn run(project: &Project, more: &[&str]) -> Outcome {
    project.run(["run", STUDY, "--no-dry-run"].iter().chain(more))
}

fn finished() -> Project {
    let project = Project::new();
    write(&project, STUDY, TEXT);
    run(&project, &[]).ok();
    project
}

fn ladder(project: &Project) -> Vec<LockCell> {
    let lock = Lock::read(&project.path().join("experiments/gaps.lock"));
    let stages = lock.expect("readable").expect("a lock").stages;
    let ladder = stages.into_iter().find(|stage| stage.name == "ladder");
    ladder.expect("the stage").cells
}

fn object(project: &Project, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    let objects = project.path().join(".benchtrail/objects");
    objects.join(&hex[..2]).join(&hex[2..])
}

fn damage(path: &Path) {
    fs::remove_file(path).expect("its file");
    fs::write(path, "other bytes").expect("its file");
}

#[test]
fn records_of_earlier_results_that_are_gone_are_named_by_audit_and_in_a_bundle() {
    let project = finished();
    run(&project, &["--fresh", "ladder"]).ok();
    project.run(["audit", REPORT]).ok();
    let cells = ladder(&project);
    for earlier in cells.iter().flat_map(|cell| &cell.earlier) {
        fs::remove_file(object(&project, &earlier.record)).expect("a record");
    }
    let audit = project.run(["audit", REPORT]);
    assert_eq!(audit.code, Some(1), "{}", audit.stdout);
    let said = "the record of an earlier result of ladder[clients=1]: ";
    assert!(audit.stdout.contains(said), "{}", audit.stdout);
    let publish = ["publish", STUDY, "--author", "Ada", "--out", "bundle"];
    let published = project.run(publish).ok();
    let said = "not included: 2 records of earlier results";
    assert!(published.stdout.contains(said), "{}", published.stdout);
    let readme = fs::read_to_string(project.path().join("bundle/README.md")).expect("a README");
    assert!(readme.contains("an earlier result of `ladder[clients=2]`"));
    project.run(["verify", "bundle"]).ok();
    project.run(["audit", "bundle/report/report.md"]).ok();
    // `publish` states it in the README, so a README that hides it is not the one that was published.
    let hidden = readme.replace("an earlier result", "a result");
    fs::write(project.path().join("bundle/README.md"), hidden).expect("writable");
    assert_eq!(project.run(["verify", "bundle"]).code, Some(1));
}

#[test]
fn two_experiment_files_do_not_share_a_lock() {
    let project = Project::new();
    write(&project, STUDY, TEXT);
    run(&project, &["--smoke"]).ok();
    let lock = project.path().join("experiments/gaps.smoke.lock");
    let before = fs::read(&lock).expect("the lock");
    let other = "experiments/gaps.smoke.yaml";
    let text = TEXT.replace("experiment: gaps", "experiment: other");
    write(&project, other, &text);
    for command in [
        vec!["run", other, "--no-dry-run"],
        vec!["plan", other],
        vec!["status", other],
    ] {
        let refused = project.run(&command);
        let said = "gaps.smoke.lock belongs to the experiment `gaps`, profile `smoke`; rename one";
        assert_eq!(refused.code, Some(1), "{command:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    assert_eq!(fs::read(&lock).expect("the lock"), before);
    // The owner goes on, also under another name.
    fs::remove_file(project.path().join(other)).expect("the other file");
    project.edit(STUDY, "experiment: gaps", "experiment: renamed");
    project.run(["status", STUDY, "--smoke"]).ok();
    run(&project, &["--smoke"]).ok();
}

#[test]
fn a_locked_run_reports_only_settings_that_were_measured() {
    let project = finished();
    let report = fs::read(project.path().join(REPORT)).expect("the report");
    project.edit(STUDY, "requests-per-client: 6", "requests-per-client: 60");
    let refused = run(&project, &["--locked"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let said = "the settings of `ladder[clients=1]` have changed since then: `requests` 6 → 60";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: run without --locked"));
    assert_eq!(
        fs::read(project.path().join(REPORT)).expect("the report"),
        report
    );
    let refused = project.run(["publish", STUDY, "--author", "Ada"]);
    let said = "the experiment's settings for ladder[clients=1] have changed since it was executed";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    project.edit(STUDY, "requests-per-client: 60", "requests-per-client: 6");
    project.edit(
        STUDY,
        "{operator: cell-summary}",
        "{operator: cell-summary}, more: {operator: cell-summary}",
    );
    run(&project, &["--locked"]).ok();
}

#[test]
fn a_locked_run_that_lacks_results_leaves_the_lock_and_the_report() {
    let project = finished();
    let read = |file: &str| fs::read(project.path().join(file)).expect("a file");
    let files = [REPORT, "experiments/gaps.lock"];
    let before = files.map(read);
    let record = ladder(&project)[0].record.expect("it is ok");
    fs::remove_file(object(&project, &record)).expect("a record");
    // The index forgets it.
    project.run(["fsck", "--repair"]);
    assert_ne!(run(&project, &["--locked"]).code, Some(0));
    assert_eq!(files.map(read), before);
}

#[test]
fn a_damaged_record_of_a_measurement_stops_a_locked_run_and_audit_with_the_code_for_damage() {
    let project = finished();
    let record = ladder(&project)[0].record.expect("it is ok");
    damage(&object(&project, &record));
    let audit = project.run(["audit", REPORT]);
    assert_eq!(audit.code, Some(3), "{}", audit.stdout);
    let locked = run(&project, &["--locked"]);
    assert_eq!(locked.code, Some(3), "{}", locked.stderr);
    assert!(locked.stderr.contains("fsck --repair"), "{}", locked.stderr);
    assert_eq!(ladder(&project)[0].record, Some(record));
    // An index that was made again does not name the record.
    fs::remove_file(project.path().join(".benchtrail/index.sqlite")).expect("the index");
    for command in ["plan", "run"] {
        let stopped = project.run([command, STUDY]);
        assert_eq!(stopped.code, Some(3), "{command}: {}", stopped.stderr);
    }
    assert_eq!(ladder(&project)[0].record, Some(record));
    project.run(["fsck", "--repair"]).ok();
    run(&project, &[]).ok();
    assert_ne!(ladder(&project)[0].record, Some(record));
}

#[test]
fn audit_names_the_lock_of_the_study_and_not_that_of_a_bundle_beside_it() {
    let project = finished();
    let publish = ["publish", STUDY, "--author", "Ada", "--out", "a-bundle"];
    project.run(publish).ok();
    let audit = project.run(["audit", REPORT]).ok();
    let said = "lock experiments/gaps.lock";
    assert!(audit.stdout.contains(said), "{}", audit.stdout);
    let bundled = project.run(["audit", "a-bundle/report/report.md"]).ok();
    assert!(
        bundled.stdout.contains("lock a-bundle/"),
        "{}",
        bundled.stdout
    );
}

#[test]
fn a_copied_project_replaces_no_report_of_another_one() {
    let project = finished();
    let copy = Project::copy_of(&project);
    let ran = run(&copy, &[]).ok();
    assert!(!ran.stderr.contains("is also named"), "{}", ran.stderr);
    // In one project, it is so.
    write(&project, "experiments/twin.yaml", TEXT);
    let twin = project.run(["run", "experiments/twin.yaml", "--no-dry-run"]);
    assert!(twin.stderr.contains("is also named"), "{}", twin.stderr);
}

#[test]
fn a_lock_whose_place_is_damaged_stops_only_gc_which_can_forget_it() {
    let project = finished();
    write(
        &project,
        "b/experiments/gaps.yaml",
        &TEXT.replace("seed: 7", "seed: 8"),
    );
    let second = "b/experiments/gaps.yaml";
    let store = project.path().join(".benchtrail");
    let store = store.to_str().expect("text");
    let ran = [
        "run",
        second,
        "--no-dry-run",
        "--store",
        store,
        "--report",
        "b.md",
    ];
    project.run(ran).ok();
    let roots = fs::read_dir(project.path().join(".benchtrail/roots")).expect("roots");
    let mut places = roots.map(|root| root.expect("a root").path().join("place"));
    let place = places.find(|place| {
        let text = fs::read(place).expect("a place");
        String::from_utf8_lossy(&text).contains("b/experiments")
    });
    let place = place.expect("the place of the second lock");
    fs::write(&place, "").expect("writable");
    fs::remove_dir_all(project.path().join("b")).expect("removable");
    project.run(["audit", REPORT]).ok();
    run(&project, &[]).ok();
    assert_eq!(project.run(["fsck"]).code, Some(3));
    // A repair does not remove what holds `gc` back.
    let repair = project.run(["fsck", "--repair"]);
    assert_eq!(repair.code, Some(3), "{}", repair.stdout);
    let said = "run the experiment of that lock again, then `benchtrail gc --forget` this folder";
    assert!(repair.stdout.contains(said), "{}", repair.stdout);
    let refused = project.run(["gc"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let hint = refused
        .stderr
        .lines()
        .find(|line| line.starts_with("hint: "));
    let (_, command) = hint
        .expect("a hint")
        .split_once("benchtrail ")
        .expect("a command");
    let words: Vec<&str> = command.split(' ').collect();
    project.run(&words).ok();
    project.run(["gc", "--dry-run"]).ok();
    project.run(["fsck"]).ok();
}

const PROGRAM: &str = r#"experiment: program
question: Which stage runs again?
seed: 7
axes: {size: [1, 2]}
stages:
  p:
    kind: run
    over: [size]
    program: {script: do.sh}
    interpreter: [sh]
    arguments: ["{out}", "${size}"]
    tables: {t: {file: t.csv, columns: {v: {type: integer}}}}
  res:
    kind: analyze
    needs: [p]
    tables:
      t: {operator: sql, keys: [size], query: 'select size, v + 100 as v from "p.t"'}
      u: {operator: sql, keys: [size], query: 'select size, v from "p.t"'}
"#;

#[test]
fn an_own_table_hides_no_table_of_a_program_and_a_changed_program_with_the_same_outputs_stops_there()
 {
    let project = Project::new();
    let study = "experiments/program.yaml";
    write(&project, study, PROGRAM);
    let script = "printf 'v\\n%s\\n' \"$2\" > \"$1/t.csv\"\n";
    write(&project, "experiments/do.sh", script);
    let run = || {
        project
            .run(["run", study, "--no-dry-run", "--json"])
            .ok()
            .json()
    };
    assert_eq!(run()["executed"], 3);
    let query = "select v from \"res.u\" order by size";
    let rows = project.run(["sql", study, query, "--csv"]).ok().stdout;
    assert_eq!(rows.lines().collect::<Vec<_>>(), ["v", "1", "2"]);
    write(
        &project,
        "experiments/do.sh",
        &format!("# the same\n{script}"),
    );
    assert_eq!(run()["executed"], 2, "the cells of the program");
}

#[test]
fn another_order_of_the_stages_is_another_report_that_its_bundle_reproduces() {
    let project = finished();
    let text = fs::read_to_string(project.path().join(STUDY)).expect("the study");
    let other = "  another:\n    kind: load\n    workload: short\n    arrival: {closed-loop: {clients: 1}}\n    \
                 requests: 4\n    simulate: {server: batching}\n";
    write(&project, STUDY, &format!("{text}{other}"));
    run(&project, &[]).ok();
    let first = text.replace("stages:\n", &format!("stages:\n{other}"));
    write(&project, STUDY, &first);
    let again = run(&project, &["--json"]).ok().json();
    assert_eq!(again["executed"], 1, "the report");
    let publish = ["publish", STUDY, "--author", "Ada", "--out", "bundle"];
    project.run(publish).ok();
    project.run(["verify", "bundle"]).ok();
    project.run(["reproduce", "bundle"]).ok();
}
