//! The rim: experiments and definitions from the file system.

use std::io::ErrorKind;
use std::path::Path;

use super::compile::{Options, load_text};
use super::diagnostics::{Diagnostic, Diagnostics, Mistake, Place, Sink};
use super::library::Files;
use super::parse::{MAX_BYTES, parse};
use crate::experiment::Experiment;
use crate::stage::{Registry, Step};

/// Reads an experiment file and everything it refers to, checks it, and expands it.
///
/// # Errors
/// Every mistake found, each with its place; also if the file cannot be read.
pub fn load(
    file: &Path,
    registry: &Registry,
    options: &Options,
) -> Result<Experiment, Diagnostics> {
    let wrong = |message: String, hint: &str| {
        let place = Place::File(file.to_owned());
        Diagnostics(vec![Diagnostic {
            message,
            place,
            hint: Some(hint.to_owned()),
        }])
    };
    match Disk.read(file) {
        Ok(Some(text)) => load_text(&text, file, registry, options, &Disk),
        Ok(None) => Err(wrong(
            "there is no such file".to_owned(),
            "give the path of an experiment, such as experiments/quickstart.yaml",
        )),
        Err(message) => Err(wrong(message, UNREADABLE)),
    }
}

/// Returns the place in an experiment file that a route leads to, as far as the file follows it;
/// `None` if the file cannot be read any more.
pub(crate) fn place_in(file: &Path, route: &[Step]) -> Option<Place> {
    let text = Disk.read(file).ok().flatten()?;
    let sink = Sink::default();
    let source = sink.add_source(file, &text);
    let span = parse(&text, source).ok()?.place(route);
    sink.add(Mistake::new(span, route, ""));
    sink.finish().0.pop().map(|d| d.place)
}

/// What to do about a file that [`Disk`] refuses.
pub(crate) const UNREADABLE: &str = "give a readable UTF-8 text file of reasonable size";

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Option<String>, String> {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err("this is a folder, not a file".to_owned()),
            Ok(meta) if meta.len() > MAX_BYTES as u64 => {
                return Err(format!(
                    "the file has {} bytes; the limit is {MAX_BYTES}",
                    meta.len()
                ));
            }
            Ok(meta) if !meta.is_file() => {
                return Err("this is not a regular file, but a device or a pipe".to_owned());
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(format!("the file cannot be read: {e}")),
        }
        let bytes = std::fs::read(path).map_err(|e| format!("the file cannot be read: {e}"))?;
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|e| {
            format!(
                "the file is not UTF-8 after byte {}",
                e.utf8_error().valid_up_to()
            )
        })
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        // A folder that is missing or closed to us offers no names; reading a file of it says why.
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}
