//! The command line of Benchtrail: arguments, progress, diagnostics, exit codes. The libraries do the work; see
//! ARCHITECTURE.md.

mod answers;
mod args;
mod cells;
mod cluster_run;
mod columns;
mod commands;
mod comparison_tables;
mod detached;
mod dry_run;
mod effect_text;
mod evidence;
mod exit;
mod folder;
mod given;
mod locks;
mod main_table;
#[cfg(test)]
mod manual;
mod nearby;
mod other_words;
mod place;
mod progress;
mod project;
mod quiet;
mod reasons;
mod registry;
mod rented;
mod room;
mod same_name;
mod session;
mod shard;
mod shared;
mod signals;
mod small;
mod stopper;
mod study;
mod table_view;
mod terminal;
mod threads;
mod translated;
mod trust;
mod variables;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::watch();
    // The engine's launcher: these arguments belong to another program and must not reach our parser.
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first
        .as_ref()
        .is_some_and(|first| first == pipeline::process::EXEC_COMMAND)
    {
        let error = match pipeline::process::exec_child(arguments) {
            Ok(never) => match never {},
            Err(error) => error,
        };
        return exit::Stop::refused(&error).report();
    }
    if let Err(stop) = room::settle()
        .and_then(|()| signals::survive_the_limit_on_file_sizes())
        .and_then(|()| signals::survive_a_lack_of_memory())
        .and_then(|()| room::files())
        .and_then(|()| exit::check_the_clock())
    {
        return stop.report();
    }
    room::on_a_large_stack(work)
}

/// Does what the arguments say.
fn work() -> ExitCode {
    pipeline::temporary::settle();
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    // Another machine uses this one to prepare, start or sample an engine.
    if first.as_ref().is_some_and(|first| first == places::COMMAND) {
        return place::answer(arguments).map_or_else(|stop| stop.report(), ExitCode::from);
    }
    // A Slurm job that executes part of a study.
    if first
        .as_ref()
        .is_some_and(|first| first == cluster::COMMAND)
    {
        return shard::answer(arguments).map_or_else(|stop| stop.report(), ExitCode::from);
    }
    // A run detached from its terminal.
    if first
        .as_ref()
        .is_some_and(|first| first == detached::COMMAND)
    {
        return detached::answer(arguments);
    }
    // One of several load generators.
    if first
        .as_ref()
        .is_some_and(|first| first == load::GENERATOR_COMMAND)
    {
        let generated = load::generate_process(std::io::stdin(), std::io::stdout());
        return generated.map_or_else(
            |error| exit::Stop::refused(&error).report(),
            |()| ExitCode::SUCCESS,
        );
    }
    // The reference server of a calibration, which is also started by this program.
    if first.is_some_and(|first| first == load::reference::PROCESS_COMMAND) {
        let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        let served = load::reference::serve_process(arguments, std::io::stdin(), std::io::stdout());
        return served.map_or_else(
            |error| exit::Stop::machine(error).report(),
            |()| ExitCode::SUCCESS,
        );
    }
    ExitCode::from(execute(std::env::args_os()))
}

/// Prints help, the version, or what is wrong with the command line; returns the exit code.
fn answered(error: &clap::Error) -> u8 {
    let printed = error.print();
    if error.use_stderr() {
        return exit::Stop::usage_printed().code();
    }
    match terminal::written(printed) {
        Ok(()) => 0,
        Err(stop) => {
            stop.report();
            stop.code()
        }
    }
}

/// The variables that `args` reads.
const VARIABLES: [&str; 3] = ["BENCHTRAIL_STORE", "BENCHTRAIL_REMOTE", "BENCHTRAIL_TRUST"];

/// Fails if a path on the command line, in a variable or on the way to the working folder is not UTF-8. Event logs, locks
/// and JSON contain paths as text.
#[expect(clippy::disallowed_methods, reason = "`args` reads the same variables")]
fn paths_are_text(words: &[OsString]) -> Result<(), exit::Stop> {
    for variable in VARIABLES {
        let value = std::env::var_os(variable).filter(|value| value.to_str().is_none());
        if let Some(value) = value {
            let message = format!("{variable}: `{}` is not text in UTF-8", value.display());
            return Err(exit::Stop::usage(message).hint("give the variable another value"));
        }
    }
    let here = std::env::current_dir().ok().map(OsString::from);
    let all = words.iter().skip(1).chain(&here);
    match all.into_iter().find(|word| word.to_str().is_none()) {
        Some(word) => Err(
            exit::Stop::usage(format!("`{}` is not text in UTF-8", word.display()))
                .hint("rename the file or the folder"),
        ),
        None => Ok(()),
    }
}

/// Executes a command line; returns the exit code.
fn execute(words: impl Iterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.collect();
    if let Err(stop) = paths_are_text(&words) {
        stop.report();
        return stop.code();
    }
    let cli = match args::parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let texts = words.iter().map(|word| word.to_string_lossy().into_owned());
            let texts: Vec<String> = texts.collect();
            let unknown = other_words::is_about_words(&error);
            if let Some(message) = unknown.then(|| translated::explained(&texts)).flatten() {
                terminal::complain(&message);
                return exit::Stop::usage_printed().code();
            }
            let error = other_words::as_typed(other_words::with_our_word(error), &texts);
            return answered(&error);
        }
    };
    variables::warn_of_misspelt();
    let done = commands::execute(&cli);
    let written = terminal::finish();
    match done.and(written) {
        Ok(()) => 0,
        Err(stop) => {
            stop.report();
            stop.code()
        }
    }
}
