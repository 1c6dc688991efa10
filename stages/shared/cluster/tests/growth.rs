//! Checks that the coordinator's work grows with the cells and not faster, however many jobs came before. It counts
//! operations, because times would depend on the load of the machine.
//!
//! The binary is its own child process: with a role as argument it is the coordinator, under the name of a Slurm
//! command it is the stand-in from the bench `growth`.

#![expect(
    clippy::print_stdout,
    reason = "a custom test runner reports on standard output"
)]

#[path = "../benches/growth/kinds.rs"]
mod kinds;
#[path = "../benches/growth/stand_in.rs"]
mod stand_in;
#[path = "../benches/growth/study.rs"]
mod study;

use std::path::Path;

use crate::study::{Size, account, again, measure_beforehand, plan};

/// The counts: plans, looks, names, written bytes, shards looked at, bytes read from the local store.
type Counts = [u64; 6];

/// Counts the operations for a study this many times as large as the smallest.
fn count(times: usize) -> (Size, Counts) {
    let size = Size {
        configurations: 10,
        replicates: times,
        of_launch: 3,
        machines: 10,
        pace: 1,
    };
    let folder = tempfile::tempdir().expect("a folder");
    measure_beforehand(folder.path(), size);
    let output = again("count", folder.path(), size).output();
    let output = output.expect("spawned");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let numbers = said
        .split_whitespace()
        .map(|n| n.parse().expect("a number"));
    let numbers: Vec<u64> = numbers.collect();
    (size, numbers.try_into().expect("six numbers"))
}

fn the_work_for_a_cell_does_not_grow_with_the_study() {
    let (small, large) = (count(2), count(8));
    let times = (large.0.measured() / small.0.measured()) as u64;
    let names = [
        "plans",
        "looks",
        "names",
        "written bytes",
        "shards",
        "bytes read",
    ];
    for ((what, few), many) in names.iter().zip(small.1).zip(large.1) {
        println!(
            "{what}: {few} for {} cells, {many} for {}",
            small.0.measured(),
            large.0.measured()
        );
        match *what {
            // One before anything begins, one when nothing is left.
            "plans" => assert!(few <= 2 && many <= 2, "plans: {few}, {many}"),
            // A slow machine may need another look. Quadratic growth would give {times} times as much.
            _ => assert!(
                many <= times * few * 3 / 2,
                "{what} for {times} times the cells: {few}, {many}"
            ),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if stand_in::answer(&arguments) {
        return;
    }
    if let [_, role, folder, size] = arguments.as_slice()
        && role == "count"
    {
        let (folder, size) = (Path::new(folder), Size::parse(size).expect("a size"));
        plan(folder, size, &mut |_| ());
        let (work, read) = account(folder, size, &mut |_| ());
        let counts = [
            work.plans,
            work.looks,
            work.names,
            work.written,
            work.shards,
            read,
        ];
        println!("{}", counts.map(|n| n.to_string()).join(" "));
        return;
    }
    the_work_for_a_cell_does_not_grow_with_the_study();
    println!("test the_work_for_a_cell_does_not_grow_with_the_study ... ok");
}
