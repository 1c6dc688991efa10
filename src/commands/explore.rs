//! `explore`: shows studies in a browser, or writes one study as a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use explore::{Chunks, ServeError, Server, Site, Step};
use indicatif::ProgressBar;
use serde_json::json;

use crate::args::{ExploreArgs, Global};
use crate::exit::Stop;
use crate::locks::find_locks;
use crate::project::{Project, in_shell, shown};
use crate::small;
use crate::study::{Kept, Study, is_bundle};
use crate::terminal::{bytes, complain, is_watched, say};
use crate::whole_file;

/// A site, and everything that must live as long as it does.
struct Opened {
    site: Site,
    /// The requested study, if a study was requested.
    study: Option<PathBuf>,
    _kept: Option<Kept>,
    _project: Option<Project>,
}

pub(super) fn explore(arguments: &ExploreArgs, global: &Global) -> Result<(), Stop> {
    let opened = open(arguments, global)?;
    match &arguments.export {
        Some(file) => export(&opened, file, arguments, global),
        None => serve(opened, arguments.listen, arguments.token, global),
    }
}

/// Opens what the user wants to explore.
fn open(arguments: &ExploreArgs, global: &Global) -> Result<Opened, Stop> {
    let profile = match arguments.smoke {
        true => Some("smoke"),
        false => arguments.profile.as_deref(),
    };
    let what = arguments.what.as_deref();
    let is_study = |path: &&Path| !path.is_dir() || is_bundle(path) || small::is_one(path);
    if let Some(path) = what.filter(is_study) {
        let Study {
            lock_file,
            root,
            store,
            kept,
            ..
        } = Study::open(path, profile, global)?;
        let only = lock_file.clone();
        return Ok(Opened {
            site: Site::new(&root, store, Box::new(move || Ok(vec![only.clone()]))),
            study: Some(lock_file),
            _kept: Some(kept),
            _project: None,
        });
    }
    let inside = what.map(|path| path.join("any"));
    let project = Project::of(inside.as_deref(), global.store.as_deref())?;
    let store = project
        .open_existing()
        .map_err(|stop| match what.and_then(archive_in) {
            Some(archive) => stop.hint(format!(
                "the folder holds a published bundle: `benchtrail explore {}`",
                in_shell(&archive)
            )),
            None => stop,
        })?;
    let root = std::path::absolute(&project.root).map_err(|e| Stop::refused(&e))?;
    let below = root.clone();
    let find = move || {
        let mut locks = Vec::new();
        match find_locks(&below, &mut locks) {
            Ok(()) => Ok(locks),
            Err(_) => Err(format!("{}: its locks cannot be read", below.display())),
        }
    };
    Ok(Opened {
        site: Site::new(&root, store, Box::new(find)),
        study: None,
        _kept: None,
        _project: Some(project),
    })
}

/// Returns the archive of a published study in a folder, if it is the only one.
fn archive_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut archives = entries
        .map(|entry| entry.path())
        .filter(|path| is_bundle(path));
    archives.next().filter(|_| archives.next().is_none())
}

/// Serves until the process ends.
fn serve(
    opened: Opened,
    address: SocketAddr,
    with_token: bool,
    global: &Global,
) -> Result<(), Stop> {
    let token = match address.ip().is_loopback() && !with_token {
        true => None,
        false => Some(explore::token().map_err(|e| Stop::refused(&e))?),
    };
    let study = opened.study.as_ref();
    let mut start = study.map_or_else(String::new, |lock| {
        format!("#/study/{}", opened.site.id_of(lock))
    });
    if let Some(token) = &token {
        // In the fragment after `#`: a browser does not send it, and the page removes it from the address.
        start = format!("#token={token}{}", start.trim_start_matches('#'));
    }
    let Opened {
        site,
        study: _,
        _kept,
        _project,
    } = opened;
    let server = Server::bind(Arc::new(site), address, token)?;
    let url = format!("http://{}/{start}", server.address());
    match global.json {
        true => say(&json!({"address": url}).to_string()),
        false => say(&format!("{url}\nPress Ctrl-C to stop.")),
    }
    match server.run()? {}
}

/// Writes one study to a file.
fn export(
    opened: &Opened,
    file: &Path,
    arguments: &ExploreArgs,
    global: &Global,
) -> Result<(), Stop> {
    let Some(lock) = &opened.study else {
        return Err(Stop::usage("which study?")
            .hint("name its experiment: `benchtrail explore EXPERIMENT --export FILE.html`"));
    };
    let id = opened.site.id_of(lock);
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX) << 20;
    let chunks = match arguments.no_chunks {
        true => Chunks::None,
        false => Chunks::IfTheyFit,
    };
    let bar = if is_watched() && !global.json {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let mut heard = |step: Step| {
        bar.set_message(match step.total {
            0 => step.what.to_owned(),
            all => format!("{}: {} of {all}", step.what, step.done),
        });
        bar.tick();
    };
    let exported = explore::export(&opened.site, &id, limit, chunks, &mut heard);
    bar.finish_and_clear();
    let exported = exported.map_err(Stop::failed)?;
    whole_file::write(file, exported.html.as_ref())
        .map_err(|e| Stop::refused_at(file.display(), &e))?;
    for what in &exported.left_out {
        complain(&format!(
            "warning: left out because of the size limit: {what}"
        ));
    }
    let size = exported.html.len();
    if global.json {
        let left_out = &exported.left_out;
        let about = json!({
            "file": file, "bytes": size, "replies": exported.replies,
            "bytes_read": exported.bytes_read, "left_out": left_out,
        });
        say(&about.to_string());
    } else {
        say(&format!("{}: {}", shown(file), bytes(size as u64)));
    }
    Ok(())
}

impl From<ServeError> for Stop {
    fn from(error: ServeError) -> Self {
        Self::refused(&error)
            .hint("`--listen ADDRESS:PORT` serves elsewhere; port 0 is any free one")
    }
}
