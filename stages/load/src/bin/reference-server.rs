//! The reference server as a process of its own.
//!
//! `reference-server [--port N] [--ttft-ms X] [--gap-ms X] [--tokens N] [--tokens-per-chunk N]`
//! prints its URL on the first line and serves until killed.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use load::reference::{Behaviour, ReferenceServer};

fn main() -> ExitCode {
    match start(std::env::args().skip(1).collect()) {
        Ok(server) => {
            server.wait();
            ExitCode::SUCCESS
        }
        Err(message) => {
            let _nobody_listens = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Vec<String>) -> Result<ReferenceServer, String> {
    let mut behaviour = Behaviour::default();
    let mut port = 0;
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number: f64 = value.parse().map_err(|_| format!("{name}: `{value}` is no number"))?;
        let milliseconds =
            || Duration::try_from_secs_f64(number / 1000.0).map_err(|e| format!("{name}: {e}"));
        match name.as_str() {
            "--port" => port = number as u16,
            "--ttft-ms" => behaviour.ttft = milliseconds()?,
            "--gap-ms" => behaviour.gap = milliseconds()?,
            "--tokens" => behaviour.tokens = Some(number as u32),
            "--tokens-per-chunk" => behaviour.tokens_per_chunk = number as u32,
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    let server = ReferenceServer::start_on(behaviour, port).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.url()).and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    Ok(server)
}
