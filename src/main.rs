//! The command line of Benchtrail: arguments, progress, diagnostics, exit codes. What it does
//! is done by the libraries; see ARCHITECTURE.md.

mod args;
mod cells;
mod commands;
mod exit;
mod progress;
mod project;
mod registry;
mod session;
mod table_view;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::execute(&args::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}
