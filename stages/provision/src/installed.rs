//! Identifies a program that the user installed, because its version text is not enough.
//!
//! The program's own bytes are part of the key. For a script, its interpreter and the distributions
//! beside it are also part of the key, because a launcher of a few lines starts whatever is
//! installed there. The same holds for the values of inherited variables. Files that these values
//! name are not followed, so files that a program reads itself are not covered.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use artifacts::Digest;
use engines::{Engine, Program};
use pipeline::{Failure, Json};
use serde_json::json;

use crate::machine::Machine;
use crate::surroundings::Brought;

/// The most bytes of a script's first line.
const LINE: u64 = 4096;

/// Words in the name of a variable whose value may be a secret.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Returns what identifies the program of an engine and the values that it inherits. Empty for an
/// engine that is not installed by the user and inherits nothing. A program that comes in an
/// environment of the study (`brought`) is identified by that environment, which also excludes some
/// variables.
///
/// # Errors
/// If the program cannot be read.
pub(crate) fn facets(
    engine: &Engine,
    machine: &Machine,
    brought: Brought,
) -> Result<BTreeMap<String, Json>, Failure> {
    let mut facets = BTreeMap::new();
    if let Program::Installed(name) = &engine.launch.program
        && brought == Brought::Nothing
        && let Some(path) = machine.program(name)
    {
        let identity = program(&path).map_err(|e| {
            Failure::failed(format!(
                "the program {} cannot be read: {e}",
                path.display()
            ))
        })?;
        facets.insert("program".to_owned(), identity);
    }
    // A worker runs in the interpreter on the search path, with the distributions beside it.
    if engine.is_worker()
        && brought == Brought::Nothing
        && let Some(path) = machine.program("python3")
    {
        let identity = interpreted(&path)
            .map_err(|e| Failure::failed(format!("{} cannot be read: {e}", path.display())))?;
        facets.insert("program".to_owned(), identity);
    }
    if !engine.launch.inherit.is_empty() {
        let kept = |name: &&String| match brought {
            Brought::Nothing => true,
            Brought::Program => !engines::is_kept_out(name),
            Brought::System => places::passes(name),
        };
        let names: Vec<String> = engine.launch.inherit.iter().filter(kept).cloned().collect();
        facets.insert("inherited".to_owned(), inherited(&names));
    }
    Ok(facets)
}

/// Returns the values of variables by name: null for an unset variable, and a digest if the name
/// suggests a secret.
#[expect(
    clippy::disallowed_methods,
    reason = "these values reach the engine, so they are part of what was measured"
)]
fn inherited(names: &[String]) -> Json {
    let home = std::env::var("HOME").ok();
    let value = |name: &String| -> Json {
        match std::env::var_os(name) {
            None => Json::Null,
            Some(value) if is_secret(name) => {
                json!(Digest::of(value.as_encoded_bytes()).to_string())
            }
            // Records are published, and the owner of the home folder is irrelevant.
            Some(value) => json!(without_home(&value.to_string_lossy(), home.as_deref())),
        }
    };
    names
        .iter()
        .map(|name| (name.clone(), value(name)))
        .collect()
}

fn without_home(value: &str, home: Option<&str>) -> String {
    match home.filter(|home| home.len() > 1) {
        Some(home) => value.replace(home, "~"),
        None => value.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// Returns the digest of a program. For a script, also returns that of its interpreter and the
/// distributions of the environment that contains both.
fn program(path: &Path) -> io::Result<Json> {
    let path = path.canonicalize()?;
    let mut identity = json!({ "digest": digest(&path)?.to_string() });
    let Some(interpreter) = interpreter(&path)? else {
        return Ok(identity);
    };
    if let Ok(real) = interpreter.canonicalize() {
        identity["interpreter"] = json!(digest(&real)?.to_string());
    }
    // The environment of a script is where its interpreter is named, not where a link points.
    let root = interpreter.parent().and_then(Path::parent);
    let distributions = root.map(distributions).transpose()?.unwrap_or_default();
    if !distributions.is_empty() {
        identity["distributions"] = json!(distributions);
    }
    Ok(identity)
}

/// Returns the digest of an interpreter and the distributions beside it.
fn interpreted(path: &Path) -> io::Result<Json> {
    let mut identity = json!({ "digest": digest(&path.canonicalize()?)?.to_string() });
    let root = path.parent().and_then(Path::parent);
    let found = root.map(distributions).transpose()?.unwrap_or_default();
    if !found.is_empty() {
        identity["distributions"] = json!(found);
    }
    Ok(identity)
}

fn digest(path: &Path) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_mmap_rayon(path)?;
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

/// Returns the interpreter from a script's first line; `None` for other files.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    File::open(path)?.take(LINE).read_to_end(&mut start)?;
    let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(rest);
    let mut words = text.split_whitespace();
    let first = words.next().map(PathBuf::from);
    Ok(match first {
        Some(env) if env.ends_with("env") => words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .and_then(on_path),
        other => other,
    })
}

/// Finds the program that `env` would start.
#[expect(clippy::disallowed_methods, reason = "`env` searches the search path")]
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Returns the distributions below `lib/python*/site-packages` and `dist-packages`, sorted.
fn distributions(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for libraries in ["lib", "lib64"] {
        for python in names(&root.join(libraries))? {
            if !python.starts_with("python") {
                continue;
            }
            for packages in ["site-packages", "dist-packages"] {
                let folder = root.join(libraries).join(&python).join(packages);
                let all = names(&folder)?.into_iter();
                found.extend(all.filter_map(|n| n.strip_suffix(".dist-info").map(str::to_owned)));
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_bytes_and_a_script_also_what_is_installed_beside_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let site = root.join("lib/python3.12/site-packages");
        fs::create_dir_all(site.join("engine-1.0.dist-info")).unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(root.join("bin/python3"), "an interpreter").unwrap();
        let script = root.join("bin/engine");
        fs::write(
            &script,
            format!("#!{}/bin/python3\nrun()\n", root.display()),
        )
        .unwrap();
        let first = program(&script).unwrap();
        assert_eq!(first["distributions"], json!(["engine-1.0"]));
        assert_eq!(first, program(&script).unwrap(), "what stays is the same");

        // Each of these alone changes the identity.
        fs::create_dir(site.join("torch-2.9.dist-info")).unwrap();
        let second = program(&script).unwrap();
        assert_eq!(second["distributions"], json!(["engine-1.0", "torch-2.9"]));
        fs::write(root.join("bin/python3"), "another interpreter").unwrap();
        let third = program(&script).unwrap();
        assert_ne!(third["interpreter"], second["interpreter"]);
        fs::write(
            &script,
            format!("#!{}/bin/python3\nrun(2)\n", root.display()),
        )
        .unwrap();
        assert_ne!(program(&script).unwrap()["digest"], third["digest"]);

        let binary = root.join("bin/binary");
        fs::write(&binary, b"\x7fELF one").unwrap();
        let one = program(&binary).unwrap();
        fs::write(&binary, b"\x7fELF two").unwrap();
        let two = program(&binary).unwrap();
        assert_ne!(one, two);
        assert_eq!(
            two.as_object().unwrap().len(),
            1,
            "a binary is its bytes: {two}"
        );
    }

    #[test]
    fn inherited_values_are_told_and_secrets_are_digests() {
        let told = inherited(&["PATH".to_owned(), "NOT_SET_ANYWHERE".to_owned()]);
        assert!(told["PATH"].as_str().unwrap().contains('/'));
        assert_eq!(told["NOT_SET_ANYWHERE"], Json::Null);
        for name in [
            "HF_TOKEN",
            "openai_api_key",
            "AWS_SECRET_ACCESS",
            "DB_PASSWORD",
        ] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("CUDA_VISIBLE_DEVICES"));
        let value = without_home("/home/ada/lib:/opt/lib", Some("/home/ada"));
        assert_eq!(value, "~/lib:/opt/lib");
    }
}
