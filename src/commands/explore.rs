//! `explore`: studies in a browser, or one study as a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bundle::Bundle;
use explore::{Chunks, ServeError, Server, Site};
use pipeline::lock::Lock;
use serde_json::json;

use crate::args::{ExploreArgs, Global};
use crate::cells::lock_file;
use crate::exit::Stop;
use crate::locks::find_locks;
use crate::project::{Project, shown};
use crate::terminal::{bytes, complain, say};

/// A site, and what must live as long as it does.
struct Opened {
    site: Site,
    /// The study asked for, if it was one.
    study: Option<PathBuf>,
    _bundle: Option<Bundle>,
    _project: Option<Project>,
}

pub(super) fn explore(arguments: &ExploreArgs, global: &Global) -> Result<(), Stop> {
    let opened = open(arguments, global)?;
    match &arguments.export {
        Some(file) => export(&opened, file, arguments, global),
        None => serve(opened, arguments.listen, global),
    }
}

/// Opens what is to be looked at.
fn open(arguments: &ExploreArgs, global: &Global) -> Result<Opened, Stop> {
    let profile = match arguments.smoke {
        true => Some("smoke"),
        false => arguments.profile.as_deref(),
    };
    let what = arguments.what.as_deref();
    if let Some(path) = what.filter(|path| is_bundle(path)) {
        let bundle = Bundle::open(path)?;
        let lock = bundle.lock_file();
        let (root, store) = (bundle.root().to_owned(), bundle.store()?);
        let known = lock.clone();
        return Ok(Opened {
            site: Site::new(&root, store, Box::new(move || Ok(vec![known.clone()]))),
            study: Some(lock),
            _bundle: Some(bundle),
            _project: None,
        });
    }
    let inside = what.map(|path| match path.is_dir() {
        true => path.join("any"),
        false => path.to_owned(),
    });
    let project = Project::of(inside.as_deref(), global.store.as_deref())?;
    let store = project.open_existing()?;
    let study = what.filter(|path| !path.is_dir());
    let study = study.map(|path| lock_of(path, profile)).transpose()?;
    let root = std::path::absolute(&project.root).map_err(Stop::machine)?;
    let (below, one) = (root.clone(), study.clone());
    let find = move || match &one {
        Some(lock) => Ok(vec![lock.clone()]),
        None => {
            let mut found = Vec::new();
            match find_locks(&below, &mut found) {
                Ok(()) => Ok(found),
                Err(_) => Err(format!("{}: its locks cannot be read", below.display())),
            }
        }
    };
    Ok(Opened {
        site: Site::new(&root, store, Box::new(find)),
        study,
        _bundle: None,
        _project: Some(project),
    })
}

/// Returns whether a path is a published bundle.
fn is_bundle(path: &Path) -> bool {
    path.join(bundle::MANIFEST).is_file() || path.to_string_lossy().ends_with(".tar.zst")
}

/// Returns the lock of an experiment, or the file itself if it is one.
fn lock_of(path: &Path, profile: Option<&str>) -> Result<PathBuf, Stop> {
    let lock = match path.extension().is_some_and(|e| e == "lock") {
        true => path.to_owned(),
        false => lock_file(path, profile),
    };
    match Lock::read(&lock).map_err(Stop::failed)? {
        Some(_) => std::path::absolute(lock).map_err(Stop::machine),
        None => Err(Stop::nothing(format!("there is no {}", shown(&lock)))
            .hint("`benchtrail run EXPERIMENT` writes it")),
    }
}

/// Serves until the process ends.
fn serve(opened: Opened, address: SocketAddr, global: &Global) -> Result<(), Stop> {
    let token = match address.ip().is_loopback() {
        true => None,
        false => Some(explore::token().map_err(Stop::machine)?),
    };
    let study = opened.study.as_ref();
    let mut start = study.map_or_else(String::new, |lock| {
        format!("#/study/{}", opened.site.id_of(lock))
    });
    if let Some(token) = &token {
        // After the `#`: a browser does not send it, and the page takes it out of the address.
        start = format!("#token={token}{}", start.trim_start_matches('#'));
    }
    let Opened {
        site,
        study: _,
        _bundle,
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

/// Writes one study as a file.
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
    let exported = explore::export(&opened.site, &id, limit, chunks).map_err(Stop::failed)?;
    std::fs::write(file, &exported.html)
        .map_err(|e| Stop::machine(format!("{}: {e}", file.display())))?;
    for what in &exported.left_out {
        complain(&format!("warning: left out, for lack of room: {what}"));
    }
    let size = exported.html.len();
    if global.json {
        let left_out = &exported.left_out;
        say(&json!({"file": file, "bytes": size, "left_out": left_out}).to_string());
    } else {
        say(&format!("{}: {}", shown(file), bytes(size as u64)));
    }
    Ok(())
}

impl From<ServeError> for Stop {
    fn from(error: ServeError) -> Self {
        Self::machine(error)
            .hint("`--listen ADDRESS:PORT` serves elsewhere; port 0 is any free one")
    }
}
