//! Tests that kill processes. The binary is its own child: with a role, it plays the owner of an engine, an engine, or
//! a run; without one, it runs the tests.

#![expect(
    clippy::print_stdout,
    reason = "a custom test runner reports on standard output"
)]

#[path = "../common/mod.rs"]
mod common;
mod processes;
mod resume;

use std::process::ExitCode;

/// A test: a sentence and the function that checks it.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().and_then(|a| a.into_string().ok());
    match first.as_deref() {
        Some(pipeline::process::EXEC_COMMAND) => {
            let Err(error) = pipeline::process::exec_child(arguments);
            println!("{error}");
            return ExitCode::from(127);
        }
        Some("owner") => {
            processes::owner(arguments);
            return ExitCode::SUCCESS;
        }
        Some("run") => {
            resume::run(arguments);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let filter = first.filter(|f| !f.starts_with('-')).unwrap_or_default();
    let all: Vec<Test> = [processes::TESTS, resume::TESTS].concat();
    let mut failed = 0;
    for (name, test) in all.into_iter().filter(|(name, _)| name.contains(&filter)) {
        let ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += u32::from(!ok);
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
