//! What a study of many cells may take: held by a limit of the kernel on the address space, never by
//! the clock. `BENCHTRAIL_CELLS` says how many cells; docs/limits.md has the figures of 10,000.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{BINARY, Outcome, Project};

const STUDY: &str = "experiments/simulated.yaml";

#[expect(
    clippy::disallowed_methods,
    reason = "how much is tried is said from outside"
)]
fn cells() -> u64 {
    let told = std::env::var("BENCHTRAIL_CELLS").ok();
    told.map_or(240, |n| n.parse().expect("a number"))
}

/// The address space of a command over so many cells, in KiB: the binary with its threads, the rows
/// that stages hold, and 100 KiB for each cell.
fn space(cells: u64) -> u64 {
    (1 << 20) + (256 << 10) + 100 * cells
}

fn run(project: &Project, cells: u64, arguments: &[&str]) -> Outcome {
    let plain = project.command(arguments);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v $1 && shift && exec \"$@\"", "sh"])
        .arg(space(cells).to_string())
        .arg(BINARY)
        .args(arguments)
        .current_dir(project.path())
        .stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // An arena of memory for each thread would count as 64 MiB, whatever is used of it.
    command
        .env("MALLOC_ARENA_MAX", "2")
        .env("RAYON_NUM_THREADS", "2");
    command.output().expect("sh starts").into()
}

#[test]
fn a_study_of_many_cells_is_tried_and_run_within_its_memory() {
    let cells = cells();
    let project = Project::new();
    let repetitions = format!("to: {}}}", cells.div_ceil(8));
    project.edit(STUDY, "to: 3}", &repetitions);
    let file = project.path().join(STUDY);
    let text = fs::read_to_string(&file).expect("the study");
    let report = "\n  report: {kind: report, needs: [ladder, checks, results]}\n";
    fs::write(&file, text + report).expect("writable");
    run(&project, cells, &["run", STUDY, "--dry-run", "--quiet"]).ok();
    let ended = run(&project, cells, &["run", STUDY, "--no-dry-run", "--quiet"]);
    // Of many simulated cells a gate may bar some: that is a result.
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let report = project.path().join("reports/simulated/report.md");
    assert!(report.is_file(), "{}", ended.stderr);
    let again = run(&project, cells, &["plan", STUDY, "--json"]).ok();
    assert!(again.stdout.contains("\"cached\""), "{}", again.stdout);
}
