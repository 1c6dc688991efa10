//! The reference server as a process of its own.
//!
//! `reference-server [--port N] [--ttft-ms X] [--gap-ms X] [--tokens N] [--tokens-per-chunk N]
//! [--log 0|1]` prints its URL on the first line and serves until its input is closed; then it
//! prints its log of true times, a line a request.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use load::reference::{Behaviour, Log, ReferenceServer};

fn main() -> ExitCode {
    match start(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _nobody_listens = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Vec<String>) -> Result<(), String> {
    let mut behaviour = Behaviour { log: Log::Times, ..Behaviour::default() };
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
            "--log" => behaviour.log = if number == 0.0 { Log::Nothing } else { Log::Times },
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    let server = ReferenceServer::start_on(behaviour, port).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.url()).and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    let waited = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    waited.map_err(|e| e.to_string())?;
    server.write_truth(std::io::BufWriter::new(out)).map_err(|e| e.to_string())
}
