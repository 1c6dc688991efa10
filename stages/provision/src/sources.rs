//! Identifies Python code that is used where it is written: editable installations, and folders of `PYTHONPATH`. Its version
//! stays the same while it is edited, so its files identify it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use engines::{code_in, digest_of_code, imported};
use pipeline::Json;
use serde_json::json;

/// The folders of a project in which packages are, besides the project's own.
const LAYOUTS: [&str; 2] = ["src", "python"];

/// Returns the digest of the code of each editable installation, by distribution, and of each of the modules that lies in a
/// folder outside of all installations, by name. `folders` are those in which an interpreter looks.
///
/// # Errors
/// If code cannot be read.
pub(crate) fn sources(
    folders: &[PathBuf],
    modules: &[String],
) -> io::Result<BTreeMap<String, String>> {
    let mut sources = BTreeMap::new();
    for folder in folders {
        if !is_of_installation(folder) {
            for module in modules {
                let mut code = code_of(from_ref(folder), from_ref(module));
                let files = code.iter().flat_map(|path| code_in(path)).collect();
                code.extend(imported(folder, files));
                if !code.is_empty() && !sources.contains_key(module) {
                    sources.insert(module.clone(), digest_of_code(&code)?);
                }
            }
            continue;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".dist-info") else {
                continue;
            };
            if let Some(code) = editable(&entry.path(), stem) {
                sources.insert(stem.to_owned(), digest_of_code(&code)?);
            }
        }
    }
    Ok(sources)
}

fn is_of_installation(folder: &Path) -> bool {
    folder.ends_with("site-packages") || folder.ends_with("dist-packages")
}

/// Returns the files and folders with the code of an editable installation; `None` for any other distribution.
fn editable(information: &Path, stem: &str) -> Option<Vec<PathBuf>> {
    let origin = fs::read(information.join("direct_url.json")).ok()?;
    let origin: Json = serde_json::from_slice(&origin).ok()?;
    if origin["dir_info"]["editable"] != json!(true) {
        return None;
    }
    let root = unescaped(origin["url"].as_str()?.strip_prefix("file://")?)?;
    let listed = fs::read_to_string(information.join("top_level.txt")).unwrap_or_default();
    let mut names: Vec<String> = listed.lines().map(|name| name.trim().to_owned()).collect();
    names.retain(|name| !name.is_empty());
    if names.is_empty() {
        names.extend(stem.split('-').next().map(str::to_owned));
    }
    let layouts = LAYOUTS.iter().map(|layout| root.join(layout));
    let layouts: Vec<PathBuf> = std::iter::once(root.clone()).chain(layouts).collect();
    let code = code_of(&layouts, &names);
    // Only its build tool knows where its modules are.
    Some(if code.is_empty() { vec![root] } else { code })
}

/// Returns the files and folders of modules that exist in some folders.
fn code_of(folders: &[PathBuf], modules: &[String]) -> Vec<PathBuf> {
    let named = folders.iter().flat_map(|folder| {
        let both = |name: &String| [folder.join(name), folder.join(format!("{name}.py"))];
        modules.iter().flat_map(both)
    });
    named.filter(|path| path.exists()).collect()
}

/// Replaces `%20` and the like.
fn unescaped(url: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(url.len());
    let mut rest = url.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn an_editable_installation_is_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("my engine");
        let site = folder.path().join("v/lib/python3.12/site-packages");
        let information = site.join("engine-1.0.dist-info");
        let url = format!("file://{}", root.display()).replace(' ', "%20");
        let origin = |editable: bool| {
            let origin = json!({"url": url, "dir_info": {"editable": editable}});
            write(&information.join("direct_url.json"), &origin.to_string());
        };
        let sources = || sources(from_ref(&site), &[]).unwrap();
        write(&root.join("engine/core.py"), "run(1)");
        origin(false);
        assert!(sources().is_empty(), "it was copied");
        origin(true);
        let first = sources();
        assert_eq!(first.keys().collect::<Vec<_>>(), ["engine-1.0"]);
        // Neither what is beside the package nor what Python and the engine write.
        write(&root.join("plot.py"), "plot()");
        write(&root.join("engine/notes.txt"), "notes");
        write(&root.join("engine/__pycache__/core.py"), "cached");
        write(&root.join("engine/.cache/kernel.py"), "cached");
        assert_eq!(sources(), first);
        write(&root.join("engine/core.py"), "run(2, fast)");
        assert_ne!(sources(), first);

        // The modules have another name than the distribution, and another layout.
        write(&root.join("src/serving/main.py"), "serve(1)");
        write(&information.join("top_level.txt"), "serving\n");
        let second = sources();
        write(&root.join("src/serving/main.py"), "serve(2, fast)");
        assert_ne!(sources(), second);
        // Nothing says where the modules are: everything may be code.
        write(&information.join("top_level.txt"), "elsewhere\n");
        let third = sources();
        write(&root.join("lib/other.py"), "serve()");
        assert_ne!(sources(), third);
    }

    #[test]
    fn a_module_in_a_folder_of_its_own_is_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let sources = || sources(from_ref(&root), &["engine".to_owned()]).unwrap();
        assert!(sources().is_empty());
        write(&root.join("engine.py"), "run(1)");
        let first = sources();
        write(&root.join("other.py"), "run(1)");
        assert_eq!(sources(), first);
        write(&root.join("engine.py"), "import other\nrun(2, fast)");
        let second = sources();
        assert_ne!(second, first);
        write(&root.join("other.py"), "run(2, fast)");
        assert_ne!(sources(), second, "the module imports it");
    }
}
