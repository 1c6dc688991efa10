//! The memory needs of a study with many cells, enforced by a kernel limit on the address space, never by the clock.
//! `BENCHTRAIL_CELLS` sets the number of cells; docs/limits.md has the figures for 10,000.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::support::{BINARY, Outcome, Project};

const STUDY: &str = "experiments/simulated.yaml";

#[expect(
    clippy::disallowed_methods,
    reason = "the environment sets how much is tested"
)]
fn cells() -> u64 {
    let given = std::env::var("BENCHTRAIL_CELLS").ok();
    given.map_or(1000, |n| n.parse().expect("a number"))
}

/// The number of pure cells in the study: its gates, its analysis and its report.
const PURE: u64 = 3;

/// The address space that a command over this many cells reports as needed, in KiB; docs/limits.md has the same
/// figures.
fn space(cells: u64) -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = processors.min(cells);
    (144 << 10) + 128 * cells + (threads - 1) * (8 << 10) + (threads.min(PURE) - 1) * 112 * cells
}

/// Runs a command with the address space for this many measured cells and some cells that read them.
fn run(project: &Project, cells: u64, arguments: &[&str]) -> Outcome {
    within(project, space(cells + 16), arguments)
}

fn within(project: &Project, kib: u64, arguments: &[&str]) -> Outcome {
    let plain = project.command(arguments);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v $1 && shift && exec \"$@\"", "sh"])
        .arg(kib.to_string())
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
    // The command replaces any settings for the allocator and for threads with its own.
    command
        .env("MALLOC_ARENA_MAX", "8")
        .env_remove("RAYON_NUM_THREADS");
    command.output().expect("sh starts").into()
}

/// The smallest address space, in KiB, with which the system loads the binary. It grows with the debug information.
static LOADS: LazyLock<u64> = LazyLock::new(|| {
    let project = Project::new();
    let loads = |kib: &u64| within(&project, *kib, &["--version"]).code == Some(0);
    let mut sizes = (100_000..300_000).step_by(2_000);
    sizes.find(loads).expect("a size with which it starts")
});

/// Returns a project with a study of this many cells, and a report.
fn study_of(cells: u64) -> Project {
    let project = Project::new();
    let repetitions = format!("to: {}}}", cells.div_ceil(8));
    project.edit(STUDY, "to: 3}", &repetitions);
    let file = project.path().join(STUDY);
    let text = fs::read_to_string(&file).expect("the study");
    let report = "\n  report: {kind: report, needs: [ladder, checks, results]}\n";
    fs::write(&file, text + report).expect("writable");
    project
}

#[test]
fn a_study_of_many_cells_is_tried_run_published_and_reproduced_within_its_memory() {
    let cells = cells();
    let project = study_of(cells);
    run(&project, cells, &["run", STUDY, "--dry-run", "--quiet"]).ok();
    let ended = run(&project, cells, &["run", STUDY, "--no-dry-run", "--quiet"]);
    // Among many simulated cells, a gate may exclude some, which is a valid result.
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let report = project.path().join("reports/simulated/report.md");
    assert!(report.is_file(), "{}", ended.stderr);
    let again = run(&project, cells, &["plan", STUDY, "--json"]).ok();
    assert!(again.stdout.contains("\"cached\""), "{}", again.stdout);
    let publish = [
        "publish",
        STUDY,
        "--author",
        "Ada Lovelace",
        "--out",
        "bundle",
    ];
    run(&project, cells, &publish).ok();
    run(&project, cells, &["verify", "bundle"]).ok();
    run(&project, cells, &["reproduce", "bundle"]).ok();
}

/// Returns the address space in MiB that a command reports as needed when it may use almost none.
fn stated(project: &Project, arguments: &[&str]) -> u64 {
    let refused = within(project, 144 << 10, arguments);
    assert_eq!(refused.code, Some(4), "{arguments:?}: {}", refused.stderr);
    let text = refused.stderr.split("needs about ").nth(1);
    let text = text.and_then(|rest| rest.split(' ').next());
    let text = text.unwrap_or_else(|| panic!("{arguments:?}: {}", refused.stderr));
    text.parse().expect("MiB")
}

#[test]
fn a_command_ends_with_a_reason_below_the_memory_that_it_says_it_needs_and_works_with_it() {
    let project = study_of(24);
    let out = project.path().join("again");
    let out = out.to_str().expect("text");
    let publish = ["publish", STUDY, "--author", "Ada Lovelace", "--out"];
    project.run(["run", STUDY, "--quiet"]).ok();
    project.run([&publish[..], &["bundle"]].concat()).ok();
    let commands = [
        &["run", STUDY, "--dry-run"][..],
        &["run", STUDY, "--no-dry-run", "--fresh", "ladder", "--quiet"],
        &["verify", "bundle"],
        &["reproduce", "bundle"],
        &["reproduce", "bundle", "--jobs", "16"],
        &["diff", "bundle", "bundle"],
        &[&publish[..], &[out]].concat(),
    ];
    for arguments in commands {
        let needed = stated(&project, arguments);
        let below = within(&project, (needed - 1) << 10, arguments);
        assert_eq!(below.code, Some(4), "{arguments:?}: {}", below.stderr);
        // The thread that asks for memory first varies between runs.
        for _ in 0..4 {
            fs::remove_dir_all(out).ok();
            let ended = within(&project, needed << 10, arguments);
            assert_eq!(
                ended.code,
                Some(0),
                "{arguments:?} with {needed} MiB: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn what_does_not_fit_into_the_memory_it_may_use_says_so_before_it_starts() {
    let project = study_of(1000);
    // Cases that used to end in a refused allocation, or in threads that waited for each other for ever.
    for (kib, arguments) in [
        (*LOADS, &["run", STUDY, "--dry-run"][..]),
        (150_000, &["plan", STUDY, "--dry-run"]),
        (200_000, &["run", STUDY]),
        (200_000, &["run", STUDY, "--no-dry-run"]),
        (*LOADS, &["plan", STUDY]),
    ] {
        let outcome = within(&project, kib, arguments);
        assert_eq!(outcome.code, Some(4), "{arguments:?}: {}", outcome.stderr);
        let limit = format!("may use {} MiB (`ulimit -v`)", kib >> 10);
        assert!(outcome.stderr.contains(&limit), "{}", outcome.stderr);
    }
}

#[test]
fn prompts_and_results_too_large_for_the_memory_are_refused_with_the_reason() {
    let project = Project::new();
    let text = format!("{{\"prompt\": \"{}\"}}\n", "word ".repeat(12 << 20));
    fs::write(project.path().join("one.jsonl"), text).expect("writable");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let load = ["load", &url, "--model", "m", "--output-len", "2"];
    // Nobody answers at this port.
    let dataset = [
        "--requests",
        "2",
        "--no-preflight",
        "--dataset",
        "one.jsonl",
    ];
    let outcome = within(&project, *LOADS + 300_000, &[&load[..], &dataset].concat());
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let said = "one.jsonl: it takes about 301 MiB of memory";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    let study = "experiment: large\nseed: 1\nstages:\n  rows:\n    kind: load\n    import: {tool: csv, file: rows.csv, \
                 columns: {status: {from: status}}}\n";
    fs::write(project.path().join("large.yaml"), study).expect("writable");
    let rows = format!("status\n\"{}\"\n", "no ".repeat(20 << 20));
    fs::write(project.path().join("rows.csv"), rows).expect("writable");
    let run = ["run", "large.yaml", "--no-dry-run"];
    let outcome = within(&project, *LOADS + 300_000, &run);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let said = "rows.csv: it takes about 301 MiB of memory";
    let all = outcome.stdout + &outcome.stderr;
    assert!(all.contains(said), "{all}");
}

#[test]
fn a_process_that_aborts_for_want_of_memory_ends_with_the_code_of_a_machine_that_lacks_something() {
    let project = Project::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let mut command = project.command(["load", &url, "--model", "m", "--requests", "1"]);
    let mut load = command.spawn().expect("the binary starts");
    // The run is working once its first request arrives.
    let request = server.accept().expect("a request");
    let id = load.id().to_string();
    let sent = Command::new("kill").args(["-ABRT", &id]).status();
    assert!(sent.expect("kill starts").success());
    let ended = load.wait().expect("it ends");
    assert_eq!(ended.code(), Some(4));
    drop(request);
}
