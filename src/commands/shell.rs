//! `completions` and `man`: print the command line's description for a shell and for `man`.

use std::io;

use clap::CommandFactory as _;
use serde_json::json;

use crate::args::{Cli, CompletionsArgs, Global, ManArgs};
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::{say, write_raw};

/// The program name that scripts complete.
const NAME: &str = "benchtrail";

pub(super) fn completions(arguments: &CompletionsArgs) -> Result<(), Stop> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), NAME, &mut script);
    raw(&script)
}

pub(super) fn man(arguments: &ManArgs, global: &Global) -> Result<(), Stop> {
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
        rendered.map_err(|e| Stop::refused_at("the page", &e))?;
        return raw(&page);
    };
    let wrong = |e: io::Error| Stop::refused_at(folder.display(), &e);
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(wrong)?;
    if global.json {
        say(&json!({ "folder": folder }).to_string());
    } else {
        say(&shown(folder));
    }
    Ok(())
}

fn raw(bytes: &[u8]) -> Result<(), Stop> {
    write_raw(bytes).map_err(|e| Stop::refused_at("standard output", &e))
}
