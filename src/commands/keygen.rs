//! `keygen`: makes a pair of keys for signing bundles.

use serde_json::json;

use crate::args::{Global, KeygenArgs};
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::say;

pub(super) fn keygen(arguments: &KeygenArgs, global: &Global) -> Result<(), Stop> {
    let name = arguments.name.as_os_str();
    let with = |extension: &str| {
        let mut name = name.to_owned();
        name.push(extension);
        std::path::PathBuf::from(name)
    };
    let (private, public) = (with(".key"), with(".pub"));
    for path in [&private, &public] {
        if path.exists() {
            return Err(Stop::usage(format!("{} already exists", shown(path)))
                .hint("a key is never overwritten, because nobody could check what it signed"));
        }
    }
    let key = bundle::generate()?;
    key.write(&private, &public)?;
    let id = key.public().id();
    if global.json {
        say(&json!({"private": private, "public": public, "id": id}).to_string());
    } else {
        say(&format!(
            "private key  {} (keep it secret)",
            shown(&private)
        ));
        say(&format!(
            "public key   {} (give it to whoever checks your bundles)",
            shown(&public)
        ));
        say(&format!("key id       {id}"));
        say("try next:");
        say(&format!(
            "  benchtrail publish EXPERIMENT --author NAME --key {}",
            shown(&private)
        ));
    }
    Ok(())
}
