//! Programs behind a version manager, such as pyenv, asdf, mise and rbenv: one script stands for all versions of a
//! program, in a folder `shims` on the search path. Its bytes do not say which version it starts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::Digest;

use crate::executable::digest_of;

/// The folders of a version manager that hold its versions.
const VERSIONS: [&str; 2] = ["versions", "installs/python"];

/// The files below the user's folder that choose a version.
const CHOSEN_BY_USER: [&str; 2] = [".tool-versions", ".config/mise/config.toml"];

/// Returns the folder of a version manager whose script a path is.
pub fn shims_of(path: &Path) -> Option<&Path> {
    path.parent()
        .filter(|folder| folder.ends_with("shims"))
        .and_then(Path::parent)
}

/// Returns the programs among which a version manager chooses; none for any other program. Version managers put one
/// script for all of them on the search path, in a folder `shims` beside the folders of the versions. The script's
/// choice may depend on more than files.
pub fn of_version_manager(path: &Path) -> Vec<PathBuf> {
    let (Some(root), Some(name)) = (shims_of(path), path.file_name()) else {
        return Vec::new();
    };
    let entries = VERSIONS.into_iter().flat_map(|versions| {
        fs::read_dir(root.join(versions))
            .into_iter()
            .flatten()
            .flatten()
    });
    let mut programs: Vec<PathBuf> = entries
        .map(|entry| entry.path().join("bin").join(name))
        .filter(|program| program.is_file())
        .collect();
    programs.sort();
    programs
}

/// Returns the digests of the files that decide what the script of a version manager starts: the programs among which it
/// chooses, and the files that state the user's choice. A choice by folder, as in `.python-version`, is not among them: it
/// depends on where the program will run. `None` for any other program. Nothing is executed, because a plan must not start
/// what an experiment names. No name leads out of a folder, since records are published.
///
/// # Errors
/// If one of the files cannot be read.
pub fn selection(path: &Path) -> io::Result<Option<BTreeMap<String, Digest>>> {
    let Some(root) = shims_of(path) else {
        return Ok(None);
    };
    let mut decides = BTreeMap::new();
    for program in of_version_manager(path) {
        let name = program.strip_prefix(root).unwrap_or(&program);
        decides.insert(name.display().to_string(), digest_of(&program)?);
    }
    // These files are short, and may have another text of the same length.
    let mut add = |name: String, file: &Path| -> io::Result<()> {
        if file.is_file() {
            decides.insert(name, Digest::of(&fs::read(file)?));
        }
        Ok(())
    };
    add("version".to_owned(), &root.join("version"))?;
    if let Some(home) = home() {
        for name in CHOSEN_BY_USER {
            add(format!("~/{name}"), &home.join(name))?;
        }
    }
    Ok(Some(decides))
}

#[expect(
    clippy::disallowed_methods,
    reason = "version managers read the user's choice from there"
)]
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_manager_starts_depends_on_its_versions_and_on_the_choice() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("bin/python3", "an interpreter");
        assert_eq!(selection(&root.join("bin/python3")).unwrap(), None);
        write("shims/python3", "exec chosen");
        write("versions/3.12.1/bin/python3", "an interpreter");
        let shim = root.join("shims/python3");
        let selected = || selection(&shim).unwrap().expect("it is a shim");
        let first = selected();
        assert!(first.contains_key("versions/3.12.1/bin/python3"));
        let outside = root.display().to_string();
        assert!(first.keys().all(|name| !name.contains(&outside)));
        write("version", "3.12.1\n");
        let second = selected();
        assert_ne!(first, second);
        write("version", "3.13.0\n");
        let third = selected();
        assert_ne!(second, third);
        write("versions/3.12.1/bin/python3", "a newer build");
        assert_ne!(selected(), third);
    }
}
