//! Reads experiments and definitions from the file system.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::string::FromUtf8Error;

use artifacts::{FileDigest, KnownFiles};

use super::compile::{Options, load_text};
use super::diagnostics::{Diagnostic, Diagnostics, Mistake, Place, Sink};
use super::files::{FileError, Files};
use super::parse::{MAX_BYTES, parse};
use crate::experiment::Experiment;
use crate::sources::MOST_BYTES;
use crate::stage::{Registry, Step};
use crate::suggest::{closest, did_you_mean, list};

/// Reads an experiment file and everything it refers to, checks it, and expands it. Does not read a large file that
/// settings name if its digest is `known`.
///
/// # Errors
/// Every mistake found, each with its place; also if the file cannot be read.
pub fn load(
    file: &Path,
    registry: &Registry,
    options: &Options,
    known_files: KnownFiles,
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
        Ok(Some(text)) => load_text(&text, file, registry, options, &Remembering(known_files)),
        Ok(None) => Err(wrong("no such file".to_owned(), &instead_of(file))),
        Err(error @ FileError::Folder) => Err(wrong(error.to_string(), &within(file))),
        Err(FileError::NotText(error)) => Err(not_utf8(file, &error)),
        Err(error) => Err(wrong(error.to_string(), UNREADABLE)),
    }
}

/// Returns the diagnostics for a file that is not UTF-8, with the place of its first invalid byte.
fn not_utf8(file: &Path, error: &FromUtf8Error) -> Diagnostics {
    let bytes = error.as_bytes();
    let valid = error.utf8_error().valid_up_to();
    let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let mut lines = bytes[start..].split(|b| *b == b'\n');
    let line = lines.next().unwrap_or_default();
    let (message, text) = match wide {
        true => ("the file is UTF-16, not UTF-8".to_owned(), String::new()),
        false => (
            format!(
                "the file is not UTF-8: it has the byte {:#04x} here",
                bytes[valid]
            ),
            String::from_utf8_lossy(line).trim_end().to_owned(),
        ),
    };
    let place = match wide {
        true => Place::File(file.to_owned()),
        false => Place::Text {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            width: 1,
            route: String::new(),
            text,
        },
    };
    let hint = Some("save the file as UTF-8; editors call this the file's encoding".to_owned());
    Diagnostics(vec![Diagnostic {
        message,
        place,
        hint,
    }])
}

/// Returns the remedy for a missing file: the similar file next to it that was probably meant, or the existing files.
pub fn instead_of(file: &Path) -> String {
    let name = file.to_string_lossy();
    if name.starts_with("http://") || name.starts_with("https://") {
        return format!(
            "for a server, use `benchtrail load {name}`, or `benchtrail init --from-url {name}` for a study"
        );
    }
    if name.split_whitespace().count() > 1 && name.to_lowercase().starts_with("sel") {
        return "name the experiment before the query: `benchtrail sql EXPERIMENT \"select …\"`"
            .to_owned();
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let here = Path::new(if folder.as_os_str().is_empty() {
        "."
    } else {
        ""
    })
    .join(folder);
    if !here.is_dir() {
        return format!("the folder {} does not exist either", folder.display());
    }
    let experiments = experiments_in(&here);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = |name: &str| {
        name.rsplit_once('.')
            .map_or(name, |(stem, _)| stem)
            .to_owned()
    };
    let same_stem = experiments.iter().find(|e| stem(e) == stem(&name));
    let near = same_stem
        .map(String::as_str)
        .or_else(|| closest(&name, experiments.iter().map(String::as_str)));
    match near {
        Some(near) => did_you_mean(folder.join(near).display()),
        None => below(&here, folder, &stem(&name)).unwrap_or_else(|| within(&here)),
    }
}

/// Returns the remedy for a file that is in a folder below, as `quickstart.yaml` is in `experiments`.
fn below(here: &Path, folder: &Path, stem: &str) -> Option<String> {
    let names = std::fs::read_dir(here).ok()?.flatten();
    let is_visible = |name: &String| !name.starts_with('.');
    let mut names: Vec<String> = names
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(is_visible)
        .take(MOST_FOLDERS)
        .collect();
    names.sort();
    names.iter().find_map(|name| {
        let names = [format!("{stem}.yaml"), format!("{stem}.yml")];
        let file = names
            .iter()
            .find(|file| here.join(name).join(file).is_file())?;
        let path = folder.join(name).join(file);
        Some(format!("did you mean `{}`?", path.display()))
    })
}

/// The most folders in which a misplaced file is looked for.
const MOST_FOLDERS: usize = 200;

/// Returns the experiments in a folder, as a remedy.
fn within(folder: &Path) -> String {
    let experiments = experiments_in(folder);
    if experiments.is_empty() {
        return "give the path of an experiment, a YAML file; `benchtrail init` writes one"
            .to_owned();
    }
    let shown = |name: &String| folder.join(name).display().to_string();
    let paths: Vec<String> = experiments.iter().map(shown).collect();
    let names = paths
        .iter()
        .map(|path| path.strip_prefix("./").unwrap_or(path));
    format!("give one of the files there: {}", list(names))
}

/// Returns the names of the YAML files in a folder, sorted.
fn experiments_in(folder: &Path) -> Vec<String> {
    let is_yaml = |name: &String| name.ends_with(".yaml") || name.ends_with(".yml");
    Disk.list(folder).into_iter().filter(is_yaml).collect()
}

/// Returns the place in an experiment file that a route leads to, as far as the file matches it; `None` if the file is
/// no longer readable.
pub(crate) fn place_in(file: &Path, route: &[Step]) -> Option<Place> {
    let text = Disk.read(file).ok().flatten()?;
    let sink = Sink::default();
    let source = sink.add_source(file, &text);
    let span = parse(&text, source).ok()?.place(route);
    sink.add(Mistake::new(span, route, ""));
    sink.finish().0.pop().map(|d| d.place)
}

/// The remedy for a file that [`Disk`] rejects.
pub(crate) const UNREADABLE: &str = "give a readable UTF-8 text file of reasonable size";

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Option<String>, FileError> {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(FileError::Folder),
            Ok(meta) if meta.len() > MAX_BYTES as u64 => {
                return Err(FileError::TooLarge { bytes: meta.len() });
            }
            Ok(meta) if !meta.is_file() => {
                return Err(FileError::NotRegular);
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(FileError::Unreadable(e)),
        }
        // The file may have been replaced: a FIFO in its place would block for ever.
        let bytes = artifacts::regular::read(path).map_err(FileError::Unreadable)?;
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(FileError::NotText)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        // A missing or inaccessible folder offers no names; reading a file in it reports why.
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

/// The file system, with the digests that a store remembers.
struct Remembering(KnownFiles);

impl Files for Remembering {
    fn read(&self, path: &Path) -> Result<Option<String>, FileError> {
        Disk.read(path)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        Disk.list(folder)
    }

    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        self.0.digest(path, MOST_BYTES)
    }
}
