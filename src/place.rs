//! The binary as started by other machines: `benchtrail __place FOLDER WHAT …`, on a host that a study uses.

use std::ffi::OsString;
use std::io::{BufRead, Write, stdin, stdout};
use std::net::TcpListener;
use std::path::Path;

use pipeline::Json;
use serde_json::json;

use crate::exit::Stop;

/// Executes the arguments; returns our exit code.
///
/// # Errors
/// If a request or an argument is wrong, or this machine refuses.
pub(crate) fn answer(arguments: impl Iterator<Item = OsString>) -> Result<u8, Stop> {
    let words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, "hello"] => say(&json!({"digest": own_digest()?})),
        [_, "port"] => {
            let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
            say(&json!({"port": bound.map_err(|e| Stop::refused(&e))?.port()}))
        }
        [folder, "provision"] => {
            let mut line = String::new();
            stdin()
                .lock()
                .read_line(&mut line)
                .map_err(|e| Stop::refused(&e))?;
            let parameters: Json = serde_json::from_str(&line).map_err(Stop::machine)?;
            say(&provision::answer(Path::new(folder), &parameters))
        }
        [folder, "run", order] => {
            serve::run_order(Path::new(folder), order, stdin()).map_err(|e| Stop::refused(&*e))
        }
        [folder, "keep"] => places::cloud::keep(Path::new(folder), stdin(), |document| {
            // The requester may be gone; the kept machines are destroyed in any case.
            let _unheard = say(document);
        })
        .map_err(|e| Stop::refused(&e)),
        [folder, "shard", run, name, node] => {
            crate::shard::on_host(Path::new(folder), run, name, node)
        }
        [_, "generate"] => load::generate_process(stdin(), stdout())
            .map(|()| 0)
            .map_err(|e| Stop::refused(&e)),
        [_, "sample", running] => {
            load::answer_questions(Path::new(running), stdin(), stdout().lock())
                .map(|()| 0)
                .map_err(|e| Stop::refused(&e))
        }
        _ => Err(Stop::machine("this command is for other machines")),
    }
}

fn say(answer: &Json) -> Result<u8, Stop> {
    let mut out = stdout().lock();
    writeln!(out, "{answer}")
        .and_then(|()| out.flush())
        .map_err(|e| Stop::refused(&e))?;
    Ok(0)
}

fn own_digest() -> Result<String, Stop> {
    let exe = std::env::current_exe().map_err(|e| Stop::refused(&e))?;
    let digest = artifacts::Digest::of_file(&exe).map_err(|e| Stop::refused(&e))?;
    Ok(digest.hex())
}
