//! The reference server as its own process. It takes the arguments of
//! `load::reference::serve_process`.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    match load::reference::serve_process(arguments, std::io::stdin(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _nobody_listens = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}
