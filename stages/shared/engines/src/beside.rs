//! What a script takes from its surroundings: the modules that it imports from its own folder, and the packages that were
//! installed for it. The bytes of the script do not show a change there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::Json;
use pipeline::executable::digest_of;
use serde_json::json;

/// The endings of files that Python executes.
const OF_PYTHON: [&str; 2] = ["py", "so"];

/// The endings of scripts that Node and its like execute.
const OF_NODE: [&str; 5] = ["cjs", "js", "mjs", "mts", "ts"];

/// The files in `node_modules` in which a package manager lists what it installed: npm, pnpm, and yarn, old and new.
const LISTS: [&str; 4] = [
    ".package-lock.json",
    ".pnpm/lock.yaml",
    ".yarn-integrity",
    ".yarn-state.yml",
];

/// The most bytes of a script in which imports are looked for.
const SCRIPT: u64 = 1 << 20;

/// The language of a script, which decides where its interpreter looks for modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python looks into the folder of the script first.
    Python,
    /// Node and its like look at paths that begin at the script, and into `node_modules` of all folders above it.
    Node,
}

impl Language {
    /// Returns the language of a script by its ending.
    pub fn of_script(path: &Path) -> Option<Self> {
        match ending(path)? {
            "py" => Some(Self::Python),
            other => OF_NODE.contains(&other).then_some(Self::Node),
        }
    }

    /// Returns the language that an interpreter executes, by its name.
    pub fn of_interpreter(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name.starts_with("python") || name.starts_with("pypy") {
            return Some(Self::Python);
        }
        ["bun", "node", "nodejs", "tsx"]
            .contains(&name)
            .then_some(Self::Node)
    }
}

/// Returns the files and folders that a script takes from its surroundings, with links resolved: the modules that it and they
/// import from its folder, and for Node its `package.json` and the list of its installed packages. A module that is imported
/// under a computed name is missing.
pub fn beside(script: &Path, language: Language) -> Vec<PathBuf> {
    let Ok(script) = script.canonicalize() else {
        return Vec::new();
    };
    let mut paths = match (language, script.parent()) {
        (Language::Python, Some(folder)) => imported(folder, vec![script.clone()]),
        (Language::Python, None) => BTreeSet::new(),
        (Language::Node, _) => required(&script),
    };
    paths.remove(&script);
    paths.into_iter().collect()
}

/// Returns the modules in a folder that some files and these modules import: files, and folders of packages. Empty for the
/// folder of an installation.
pub fn imported(folder: &Path, files: Vec<PathBuf>) -> BTreeSet<PathBuf> {
    let mut modules = BTreeSet::new();
    if is_of_installation(folder) {
        return modules;
    }
    let libraries: Vec<PathBuf> = files_in(folder)
        .filter(|path| ending(path) == Some("so"))
        .collect();
    let (mut open, mut names) = (files, BTreeSet::new());
    while let Some(file) = open.pop() {
        for name in imports(&start_of(&file)) {
            if names.contains(&name) {
                continue;
            }
            for module in modules_named(folder, &libraries, &name) {
                let code = code_in(&module);
                if !code.is_empty() {
                    open.extend(code.into_iter().filter(|file| ending(file) == Some("py")));
                    modules.insert(module);
                }
            }
            names.insert(name);
        }
    }
    modules
}

/// Returns whether a folder contains modules that somebody installed, or those of Python itself.
fn is_of_installation(folder: &Path) -> bool {
    folder.ends_with("site-packages")
        || folder.ends_with("dist-packages")
        || folder.join("os.py").is_file()
        // `pip install --target`: the versions are known.
        || files_in(folder).any(|path| ending(&path) == Some("dist-info"))
}

/// Returns the paths of what a folder contains; nothing if it cannot be read.
fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Returns the files and folders in a folder that may be a module. `libraries` has the compiled modules of the folder.
fn modules_named(folder: &Path, libraries: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let mut modules = vec![folder.join(name), folder.join(format!("{name}.py"))];
    let is_named = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        let rest = file.and_then(|file| file.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    modules.extend(libraries.iter().filter(is_named).cloned());
    // If a checkout of a project has the name of a package but lacks `__init__.py`, Python prefers the installed package.
    let is_project = |path: &Path| {
        let builds = ["pyproject.toml", "setup.py"];
        builds.iter().any(|name| path.join(name).is_file()) && !path.join("__init__.py").is_file()
    };
    let is_module = |path: &PathBuf| match path.is_dir() {
        true => has_code(path) && !is_project(path),
        false => path.is_file() && is_executed(path),
    };
    modules.retain(is_module);
    modules
}

/// Returns the first parts of the names of all modules that a text in Python imports.
fn imports(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let statements = text.lines().flat_map(|line| line.split([';', ':']));
    let names = statements.flat_map(|statement| {
        let statement = statement.trim_start();
        let modules = match statement.strip_prefix("from ") {
            Some(rest) => rest.split(" import").next(),
            None => statement.strip_prefix("import "),
        };
        modules.unwrap_or_default().split(',')
    });
    let firsts = names.filter_map(|name| name.trim_start().split(['.', ' ', '\t', '#']).next());
    let is_name =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    firsts.filter(is_name).map(str::to_owned).collect()
}

/// Returns what a script of Node takes from its surroundings.
fn required(script: &Path) -> BTreeSet<PathBuf> {
    let above = || script.ancestors().skip(1);
    let own = above()
        .map(|folder| folder.join("package.json"))
        .find(|path| path.is_file());
    let lists = above().find_map(|folder| {
        let lists = LISTS.map(|name| folder.join("node_modules").join(name));
        let lists: Vec<PathBuf> = lists.into_iter().filter(|path| path.is_file()).collect();
        (!lists.is_empty()).then_some(lists)
    });
    let mut paths: BTreeSet<PathBuf> = own.into_iter().chain(lists.unwrap_or_default()).collect();
    let mut open = vec![script.to_owned()];
    while let Some(file) = open.pop() {
        let Some(folder) = file.parent() else {
            continue;
        };
        for name in relative_imports(&start_of(&file)) {
            if let Some(module) = resolved(&folder.join(name))
                && paths.insert(module.clone())
            {
                open.push(module);
            }
        }
    }
    paths
}

/// Returns the texts in quotes that begin with `./` or `../` and follow `from`, `import` or `require`.
fn relative_imports(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(['"', '\'', '`']) {
        let (before, quoted) = text.split_at(at);
        let mut letters = quoted.chars();
        let quote = letters.next();
        let rest = letters.as_str();
        let before = before.trim_end();
        let before = before.strip_suffix('(').unwrap_or(before).trim_end();
        let is_import = ["from", "import", "require"]
            .iter()
            .any(|word| before.ends_with(word));
        let is_relative = rest.starts_with("./") || rest.starts_with("../");
        if is_import && is_relative {
            let end = rest.find(|c| Some(c) == quote || c == '\n');
            names.extend(end.map(|end| rest[..end].to_owned()));
        }
    }
    names
}

/// Returns the file that Node loads for a path.
fn resolved(path: &Path) -> Option<PathBuf> {
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let endings = ["", ".js", ".cjs", ".mjs", ".ts", ".mts", ".json", ".node"];
    let files = endings.iter().map(|ending| with(ending));
    let mut all = files.chain(["index.js", "index.ts"].map(|name| path.join(name)));
    all.find(|file| file.is_file())?.canonicalize().ok()
}

/// Returns the text with which a script begins; empty if it cannot be read.
fn start_of(script: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(script).and_then(|file| file.take(SCRIPT).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// Returns what identifies a file, or the code in a folder.
///
/// # Errors
/// If a file cannot be read.
pub fn digest_of_code(code: &[PathBuf]) -> io::Result<String> {
    let mut files = BTreeMap::new();
    for (number, root) in code.iter().enumerate() {
        for file in code_in(root) {
            let inside = file.strip_prefix(root).unwrap_or(&file);
            let name = format!("{number}/{}", inside.display());
            files.insert(name, digest_of(&file)?.to_string());
        }
    }
    Ok(Digest::of(json!(files).to_string().as_bytes()).to_string())
}

/// Returns what identifies each of some files and folders, by path: null if it cannot be read.
pub fn identities(paths: Vec<PathBuf>) -> impl Iterator<Item = (String, Json)> {
    paths.into_iter().map(|path| {
        let digest = match path.is_dir() {
            true => digest_of_code(std::slice::from_ref(&path)),
            false => digest_of(&path).map(|digest| digest.to_string()),
        };
        let identity = digest.map_or(Json::Null, |digest| json!(digest));
        (path.display().to_string(), identity)
    })
}

/// Returns the files with code below a folder, or the file itself. Hidden folders, those of other environments and what Python
/// compiles count for nothing.
pub fn code_in(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(next) = open.pop() {
        if !next.is_dir() {
            files.push(next);
            continue;
        }
        // What cannot be read here, the engine cannot read either.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let counts = match path.is_dir() {
                true => !is_link && has_code(&path),
                false => path.is_file() && is_executed(&path),
            };
            if counts {
                open.push(path);
            }
        }
    }
    files
}

fn has_code(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.')
        && !["__pycache__", "node_modules"].contains(&name.as_ref())
        && !folder.join("pyvenv.cfg").is_file()
}

fn is_executed(file: &Path) -> bool {
    ending(file).is_some_and(|ending| OF_PYTHON.contains(&ending))
}

fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(root: &Path, script: &str, language: Language) -> Vec<String> {
        let root = root.canonicalize().unwrap();
        let paths = beside(&root.join(script), language);
        let inside = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        paths.iter().map(inside).collect()
    }

    #[test]
    fn a_script_of_python_takes_what_it_imports_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let script = "import os, engine_core as core; import fast\ndef f():\n    from worker.run import go\n\
                      try: import extra\nexcept ImportError: pass\n# import plot\nfrom . import nothing\nimport data\n";
        write(&root.join("server.py"), script);
        for (name, text) in [
            ("engine_core.py", "from kernels import k\nimport server\n"),
            ("kernels.py", ""),
            ("fast.cpython-311-x86_64-linux-gnu.so", "x"),
            ("worker/run.py", "import shared\nfrom .other import x\n"),
            ("worker/other.py", ""),
            ("worker/__pycache__/run.py", ""),
            ("shared.py", ""),
            ("extra.py", ""),
            ("plot.py", ""),
            ("nothing.py", ""),
            ("data/prompts.jsonl", "{}"),
        ] {
            write(&root.join(name), text);
        }
        let expected = [
            "engine_core.py",
            "extra.py",
            "fast.cpython-311-x86_64-linux-gnu.so",
            "kernels.py",
            "shared.py",
            "worker",
        ];
        assert_eq!(names(root, "server.py", Language::Python), expected);
        // A link leads to the folder of its target, as for Python itself.
        std::os::unix::fs::symlink(root.join("server.py"), root.join("worker/link.py")).unwrap();
        assert_eq!(names(root, "worker/link.py", Language::Python), expected);
        // The modules of an installation are in the list of distributions.
        let installed = root.join("lib/site-packages");
        write(&installed.join("server.py"), "import engine");
        write(&installed.join("engine.py"), "");
        assert!(names(root, "lib/site-packages/server.py", Language::Python).is_empty());
    }

    #[test]
    fn a_folder_of_modules_changes_with_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(&root.join("server.py"), "import worker");
        write(&root.join("worker/run.py"), "run(1)");
        let digests = || -> Vec<(String, Json)> {
            identities(beside(&root.join("server.py"), Language::Python)).collect()
        };
        let first = digests();
        assert_eq!(first.len(), 1);
        write(&root.join("worker/notes.txt"), "notes");
        assert_eq!(digests(), first);
        write(&root.join("worker/run.py"), "run(2, fast)");
        assert_ne!(digests(), first);
    }

    #[test]
    fn a_script_of_node_takes_its_files_and_the_list_of_its_packages() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let script = "const lib = require('./lib');\nimport fast from \"./fast.mjs\";\nimport './setup.js'\n\
                      const later = await import(`./later.js`);\nfs.readFileSync('./cache.json');\nrequire('express');\n";
        for (name, text) in [
            ("app/src/server.js", script),
            ("app/src/lib/index.js", "require('../../shared.js')"),
            ("app/shared.js", "require('./src/server.js')"),
            ("app/src/fast.mjs", ""),
            ("app/src/setup.js", ""),
            ("app/src/later.js", ""),
            ("app/src/cache.json", "{}"),
            ("app/package.json", "{}"),
            ("app/node_modules/.package-lock.json", "{}"),
            ("app/node_modules/express/index.js", ""),
            ("node_modules/.package-lock.json", "{}"),
        ] {
            write(&root.join(name), text);
        }
        assert_eq!(
            names(root, "app/src/server.js", Language::Node),
            [
                "app/node_modules/.package-lock.json",
                "app/package.json",
                "app/shared.js",
                "app/src/fast.mjs",
                "app/src/later.js",
                "app/src/lib/index.js",
                "app/src/setup.js",
            ]
        );
    }
}
