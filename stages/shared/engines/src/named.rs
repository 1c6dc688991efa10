//! Files that arguments and settings name. Their content decides what runs, and a path does not show it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::Json;
use pipeline::executable::digest_of;
use serde_json::json;

use crate::beside::{Language, beside, identities};
use crate::engine::Engine;

/// The facet that identifies these files, by path.
pub const FILES: &str = "files";

/// The largest file that is identified by its bytes.
const LARGEST: u64 = if cfg!(test) { 1 << 10 } else { 256 << 20 };

/// The size of a file, in bytes, from which on it is read again only if its size or its times have changed. A shorter one may
/// be written again within one tick of the clock.
const LONG: u64 = 1 << 20;

/// Files that only a folder with a model, an adapter or a tokenizer has.
const OF_MODELS: [&str; 5] = [
    "adapter_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// The key with the digest of a folder of which some files are too large.
const TOO_LARGE: &str = "without-large-files";

/// The endings of files that an engine writes itself.
const WRITTEN: [&str; 2] = ["log", "pid"];

/// Returns what identifies the files that texts name, by path: the digest of the bytes, or the number of bytes if that is
/// too large, or null if the file cannot be read. A text names a file if it is the absolute path of one, or a list of `PATH` or
/// `NAME=PATH` between commas or semicolons. An engine starts in a new folder, so a relative path names no file. The folder of a
/// model, an adapter or a tokenizer counts as a file: its digest is that of all its files. An engine may write into any other
/// folder.
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
        if !file.is_absolute() || is_written(file) {
            return None;
        }
        let metadata = fs::metadata(file).ok()?;
        let identity = match metadata.is_file() {
            true => identity_of(file, metadata.len()),
            false if OF_MODELS.iter().any(|name| file.join(name).is_file()) => {
                identity_of_folder(file)
            }
            false => return None,
        };
        Some((path.to_owned(), identity.unwrap_or_default()))
    });
    let mut files: BTreeMap<String, Json> = files.collect();
    let scripts: Vec<PathBuf> = files.keys().map(PathBuf::from).collect();
    for script in scripts {
        if let Some(language) = Language::of_script(&script) {
            files.extend(identities(beside(&script, language)));
        }
    }
    files
}

fn identity_of(file: &Path, bytes: u64) -> io::Result<Json> {
    let digest = match bytes {
        large if large > LARGEST => return Ok(json!(large)),
        LONG.. => digest_of(file)?,
        _ => Digest::of_large_file(file)?,
    };
    Ok(json!(digest.to_string()))
}

/// Returns whether a path is that of a file that an engine writes itself.
fn is_written(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| WRITTEN.contains(&ending))
}

/// Returns what identifies a folder by its files: hidden ones count for nothing, as in weights, nor do those that an engine writes.
/// The shortest files are identified by their bytes, as long as all together are not too large, and the others by their sizes.
fn identity_of_folder(folder: &Path) -> io::Result<Json> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let path = entry.path();
            // A dead link is not a file.
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            let is_link = entry.file_type()?.is_symlink();
            if entry.file_name().as_encoded_bytes().starts_with(b".") || is_written(&path) {
                continue;
            }
            if metadata.is_file() {
                let inside = path.strip_prefix(folder).unwrap_or(&path);
                let inside = inside.display().to_string();
                files.push((metadata.len(), inside, path));
            } else if metadata.is_dir() && !is_link {
                open.push(path);
            }
        }
    }
    files.sort();
    let mut read = 0_u64;
    let identities = files.into_iter().map(|(bytes, inside, path)| {
        read = read.saturating_add(bytes);
        let identity = match read > LARGEST {
            true => json!(bytes),
            false => identity_of(&path, bytes)?,
        };
        Ok((inside, identity))
    });
    let files: BTreeMap<String, Json> = identities.collect::<io::Result<_>>()?;
    let digest = Digest::of(json!(files).to_string().as_bytes()).to_string();
    Ok(match files.values().all(Json::is_string) {
        true => json!(digest),
        false => json!({ TOO_LARGE: digest }),
    })
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
        Json::Object(_) => Some(format!(
            "has more than {} MiB, so keys contain only the sizes of its largest files",
            LARGEST >> 20
        )),
        _ => Some(format!(
            "has more than {} MiB, so keys contain only its path and its size",
            LARGEST >> 20
        )),
    };
    let warning = |(path, identity): (&String, &Json)| {
        let why = why(identity)?;
        let what = match identity {
            Json::Object(_) => "folder",
            _ => "file",
        };
        Some(format!(
            "the {what} {path} {why}: if you change its content, change its name, too"
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
    fn a_module_beside_a_named_script_is_a_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name).display().to_string();
        let [script, module] = ["server.py", "core.py"].map(path);
        fs::write(&script, "import core").unwrap();
        fs::write(&module, "one").unwrap();
        let first = files_named([script.as_str()]);
        assert_eq!(first.keys().collect::<Vec<_>>(), [&module, &script]);
        fs::write(&module, "two").unwrap();
        assert_ne!(files_named([script.as_str()]), first);
    }

    #[test]
    fn the_folder_of_an_adapter_is_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let adapter = folder.path().join("adapter");
        fs::create_dir(&adapter).unwrap();
        let text = format!("mine={}", adapter.display());
        let named = || files_named([text.as_str()]);
        fs::write(adapter.join("adapter_model.safetensors"), "one").unwrap();
        assert!(
            named().is_empty(),
            "an engine may write into any other folder"
        );
        fs::write(adapter.join("adapter_config.json"), "{}").unwrap();
        let first = named();
        assert!(first.values().all(Json::is_string), "{first:?}");
        fs::write(adapter.join(".lock"), "").unwrap();
        assert_eq!(named(), first);
        fs::write(adapter.join("adapter_model.safetensors"), "two").unwrap();
        assert_ne!(named(), first);
        assert!(not_in_key(&named()).is_empty());
        fs::write(adapter.join("large"), vec![0; 2_000]).unwrap();
        let [warning] = &not_in_key(&named())[..] else {
            panic!("{:?}", named());
        };
        assert!(warning.contains("only the sizes"), "{warning}");
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
