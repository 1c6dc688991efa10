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
        return exit::Stop::machine(error).report();
    }
    if let Err(stop) = room::settle().and_then(|()| signals::survive_the_limit_on_file_sizes()) {
        return stop.report();
    }
    // Another machine uses this one to prepare, start or sample an engine.
    if first.as_ref().is_some_and(|first| first == places::COMMAND) {
        return place::answer(arguments)
            .map_or_else(|error| exit::Stop::machine(error).report(), ExitCode::from);
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
            |error| exit::Stop::machine(error).report(),
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

/// Executes a command line; returns the exit code.
fn execute(words: impl Iterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.collect();
    let cli = match args::parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let texts = words.iter().map(|word| word.to_string_lossy().into_owned());
            let texts: Vec<String> = texts.collect();
            let unknown = other_words::is_about_words(&error);
            if let Some(message) = unknown.then(|| translated::explained(&texts)).flatten() {
                terminal::complain(&message);
                return exit::Stop::usage_told().code();
            }
            other_words::with_our_word(error).exit()
        }
    };
    let done = commands::execute(&cli);
    let written = terminal::finish().map_err(exit::Stop::machine);
    match done.and(written) {
        Ok(()) => 0,
        Err(stop) => {
            stop.report();
            stop.code()
        }
    }
}
