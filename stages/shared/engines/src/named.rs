//! Files that arguments and settings name. Their content decides what runs, and a path does not show it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use artifacts::Digest;
use pipeline::Json;
use serde_json::json;

use crate::engine::Engine;

/// The facet that identifies these files, by path.
pub const FILES: &str = "files";

/// The largest file that is identified by its bytes. Planning hashes it each time.
const LARGEST: u64 = if cfg!(test) { 1 << 10 } else { 256 << 20 };

/// The endings of files that an engine writes itself.
const WRITTEN: [&str; 2] = ["log", "pid"];

/// Returns what identifies the files that texts name, by path: the digest of the bytes, or the number of bytes if that is
/// too large, or null if the file cannot be read. A text names a file if it is the absolute path of one, or a list of `PATH` or
/// `NAME=PATH` between commas or semicolons. An engine starts in a new folder, so a relative path names no file.
pub fn files_named<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Json> {
    let paths = texts.into_iter().flat_map(|text| {
        // The variables of loaders and search paths separate by colons.
        let colons = if text.starts_with('/') { ':' } else { ';' };
        let items = text.split([',', ';', colons]);
        let values =
            items.flat_map(|item| [item, item.split_once('=').map_or("", |(_, value)| value)]);
        std::iter::once(text).chain(values)
    });
    let files = paths.filter_map(|path| {
        let file = Path::new(path);
        let ending = file.extension().and_then(|ending| ending.to_str());
        if !file.is_absolute() || ending.is_some_and(|ending| WRITTEN.contains(&ending)) {
            return None;
        }
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
        let identity = match metadata.len() {
            large if large > LARGEST => json!(large),
            _ => Digest::of_large_file(file).map_or(Json::Null, |digest| json!(digest.to_string())),
        };
        Some((path.to_owned(), identity))
    });
    files.collect()
}

/// Returns the texts of a setting's value.
pub fn texts_of(value: &Json) -> impl Iterator<Item = &str> {
    let items = value.as_array().into_iter().flatten();
    std::iter::once(value).chain(items).filter_map(Json::as_str)
}

/// Returns the warnings about files of which the key does not contain the bytes.
pub fn not_in_key(files: &BTreeMap<String, Json>) -> Vec<String> {
    let why = |identity: &Json| match identity {
        Json::String(_) => None,
        Json::Null => Some("cannot be read here, so keys contain only its path".to_owned()),
        _ => Some(format!(
            "has more than {} MiB, so keys contain only its path and its size",
            LARGEST >> 20
        )),
    };
    let warning = |(path, identity): (&String, &Json)| {
        let why = why(identity)?;
        Some(format!(
            "the file {path} {why}: if you change its content, change its name, too"
        ))
    };
    files.iter().filter_map(warning).collect()
}

impl Engine {
    /// Returns what identifies the files that the definition itself names, as [`files_named`] does.
    pub fn files(&self) -> BTreeMap<String, Json> {
        let launch = &self.launch;
        let fixed = [&launch.arguments, &launch.draft_arguments]
            .into_iter()
            .flatten();
        let fixed = fixed.chain(launch.environment.values());
        let of_settings = self.settings.values().flat_map(|setting| {
            let parts = [&setting.flags, &setting.when_true, &setting.when_false];
            let parts = parts
                .into_iter()
                .flatten()
                .chain(setting.environment.values());
            parts.map(String::as_str).chain(texts_of(&setting.default))
        });
        files_named(fixed.map(String::as_str).chain(of_settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_named_file_identifies_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let [template, large, log] = ["t.jinja", "adapter.bin", "server.log"].map(path);
        fs::write(&template, "one").unwrap();
        fs::write(&large, vec![0; 2_000]).unwrap();
        fs::write(&log, "what the engine wrote").unwrap();
        let missing = path("missing");
        let argument = format!("{missing},a={large}");
        let nothing = folder.path().display().to_string();
        let texts = [
            "--jinja", "t.jinja", &template, &argument, &log, &missing, &nothing,
        ];
        let first = files_named(texts);
        assert_eq!(first.keys().collect::<Vec<_>>(), [&large, &template]);
        assert_eq!(first, files_named(texts));
        assert_eq!(first[&large], 2_000);
        assert_eq!(not_in_key(&first).len(), 1, "{:?}", not_in_key(&first));
        fs::write(&template, "two").unwrap();
        assert_ne!(first[&template], files_named(texts)[&template]);
    }

    #[test]
    fn a_definition_names_files_in_arguments_variables_and_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            path.display().to_string()
        };
        let engine: Engine = serde_json::from_value(json!({
            "title": "x", "version": "1",
            "launch": {
                "program": {"installed": "python3"},
                "arguments": [file("launch.py"), "--port", "{port}"],
                "environment": {"CONFIG": file("config.json")},
            },
            "settings": {
                "template": {"type": "text", "default": file("t.jinja"), "flags": ["--template", "{}"]},
                "trace": {"type": "boolean", "when-true": [format!("--trace={}", file("trace.yaml"))]},
            },
        }))
        .unwrap();
        assert_eq!(engine.files().len(), 4, "{:?}", engine.files());
        let value = json!(["--chat-template-file", file("other.jinja")]);
        assert_eq!(files_named(texts_of(&value)).len(), 1);
    }
}
