//! One of several load generators as a process of its own, for tests; the product starts itself.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match load::generate_process(std::io::stdin(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_listens = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
