//! The reference server as the only work of a process.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::{Behaviour, Identity, Log, ReferenceServer, WhenFull};

/// The hidden subcommand under which a program offers [`serve_process`].
pub const PROCESS_COMMAND: &str = "__reference";

/// Serves until `input` is closed. Writes its URL as the first line of `output` and, at the end, its log of true times,
/// a line per request. Arguments: `[--port N] [--ttft-ms X] [--gap-ms X] [--tokens N] [--tokens-per-chunk N] [--slots
/// N] [--refuse-above N] [--log 0|1] [--core N] [--certificate FILE --key FILE]`. With `--core` it stays on that core.
/// Requests without a slot wait, or are refused. With a certificate and its key, PEM files, it speaks TLS.
///
/// # Errors
/// If an argument is wrong, or port, core or output are not available; in one sentence.
pub fn serve_process(
    arguments: impl IntoIterator<Item = String>,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<(), String> {
    let mut behaviour = Behaviour {
        log: Log::Times,
        ..Behaviour::default()
    };
    let (mut port, mut certificate, mut key) = (0, None, None);
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--certificate" => certificate = Some(PathBuf::from(value)),
            "--key" => key = Some(PathBuf::from(value)),
            _ => number(&name, &value, &mut behaviour, &mut port)?,
        }
    }
    let identity = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(Identity::from_files(&certificate, &key)?),
        _ => return Err("--certificate and --key go together".to_owned()),
    };
    let server = ReferenceServer::start_on(behaviour, port, identity).map_err(|e| e.to_string())?;
    writeln!(output, "{}", server.url())
        .and_then(|()| output.flush())
        .map_err(|e| e.to_string())?;
    std::io::copy(&mut input, &mut std::io::sink()).map_err(|e| e.to_string())?;
    server
        .write_truth(std::io::BufWriter::new(output))
        .map_err(|e| e.to_string())
}

/// Reads a numeric argument.
fn number(
    name: &str,
    value: &str,
    behaviour: &mut Behaviour,
    port: &mut u16,
) -> Result<(), String> {
    let number: f64 = value
        .parse()
        .map_err(|_| format!("{name}: `{value}` is not a number"))?;
    let milliseconds =
        || Duration::try_from_secs_f64(number / 1000.0).map_err(|e| format!("{name}: {e}"));
    match name {
        "--port" => *port = number as u16,
        "--ttft-ms" => behaviour.ttft = milliseconds()?,
        "--gap-ms" => behaviour.gap = milliseconds()?,
        "--tokens" => behaviour.tokens = Some(number as u32),
        "--tokens-per-chunk" => behaviour.tokens_per_chunk = number as u32,
        "--slots" => behaviour.slots = Some(number as u32),
        "--refuse-above" => {
            behaviour.slots = Some(number as u32);
            behaviour.when_full = WhenFull::Refuse;
        }
        "--log" => {
            behaviour.log = if number == 0.0 {
                Log::Nothing
            } else {
                Log::Times
            }
        }
        "--core" => keep_to(number as usize)?,
        _ => return Err(format!("unknown argument {name}")),
    }
    Ok(())
}

/// Restricts this thread, and the threads that it starts, to one core.
fn keep_to(core: usize) -> Result<(), String> {
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(format!("--core: there is no core {core}"));
    }
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).map_err(|e| format!("--core {core}: {e}"))
}
