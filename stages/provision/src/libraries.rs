//! Finds the shared libraries of a program that the user installed.
//!
//! Many engines are a small program with large libraries: a new build may change only these. Libraries of the operating
//! system are left out, because the C library's version is known and its other libraries are not the engine.
//!
//! The search follows the dynamic loader (`man 8 ld.so`): the folders that a file names itself, `LD_LIBRARY_PATH`, and the
//! folders in `/etc/ld.so.conf`. Nothing is executed. Libraries that a program opens by itself are found only beside it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadCache;
use object::read::elf::FileHeader;
use pipeline::executable::digest_of;

/// The loader's configuration, which names more folders.
const CONFIGURATION: &str = "/etc/ld.so.conf";

/// The folders of the operating system's own libraries.
const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// How deep configuration files may include each other.
const DEPTH: usize = 8;

/// The most libraries of a program that are read.
const MOST: usize = 10_000;

/// What a file says about the libraries that it needs.
#[derive(Default)]
struct Needs {
    names: Vec<String>,
    /// Folders that the file names, for itself.
    run_path: Vec<PathBuf>,
    /// Folders that the file names, for itself and for the libraries that it loads.
    inherited_path: Vec<PathBuf>,
}

/// Where the loader looks.
struct Search {
    /// `LD_LIBRARY_PATH`.
    given: Vec<PathBuf>,
    configured: Vec<PathBuf>,
}

/// Returns the libraries of a program by file name, each with its digest, or with those of all files of this name. A library that the whole system shares, such as
/// those of CUDA, has its size in bytes instead: such files are large, and their names contain their versions. Empty for
/// scripts and for static programs.
///
/// `program` is the path of the program itself, without links; `given` are the folders in its `LD_LIBRARY_PATH`.
///
/// # Errors
/// If a library cannot be read.
pub(crate) fn libraries(
    program: &Path,
    given: Vec<PathBuf>,
) -> io::Result<BTreeMap<String, String>> {
    let Some(needs) = needs_of(program)? else {
        return Ok(BTreeMap::new());
    };
    let search = Search {
        given,
        configured: configured(Path::new(CONFIGURATION), DEPTH),
    };
    let inherited = needs.inherited_path.clone();
    let mut waiting = VecDeque::from([needs]);
    let mut own = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for path in beside(program)? {
        if own.insert(path.clone()) {
            waiting.extend(needs_of(&path)?);
        }
    }
    while let Some(needs) = waiting.pop_front() {
        for name in &needs.names {
            let (path, place) = match search.find(name, &needs, &inherited) {
                Some((path, place)) if !is_system(&path) => (path, place),
                _ => continue,
            };
            let is_new = match place {
                Place::Own => own.insert(path.clone()),
                Place::Shared => shared.insert(path.clone()),
            };
            if is_new && own.len() + shared.len() <= MOST {
                waiting.extend(needs_of(&path)?);
            }
        }
    }
    let mut libraries = BTreeMap::new();
    for path in shared.difference(&own) {
        let size = format!("{} bytes", fs::metadata(path)?.len());
        insert(&mut libraries, path, &size);
    }
    for path in &own {
        insert(&mut libraries, path, &digest_of(path)?.to_string());
    }
    Ok(libraries)
}

/// Inserts a library. Several files with one name, in different folders, have their texts in the order of their paths.
fn insert(libraries: &mut BTreeMap<String, String>, path: &Path, text: &str) {
    let all = libraries.entry(name_of(path)).or_default();
    if !all.is_empty() {
        all.push(' ');
    }
    all.push_str(text);
}

/// Which folder a library was found in.
#[derive(Clone, Copy)]
enum Place {
    /// One that the program, its libraries or `LD_LIBRARY_PATH` name.
    Own,
    /// One that the configuration of the loader names.
    Shared,
}

impl Search {
    /// Returns the path of a library without links, and the kind of folder.
    fn find(&self, name: &str, needs: &Needs, inherited: &[PathBuf]) -> Option<(PathBuf, Place)> {
        if name.contains('/') {
            let path = Path::new(name).canonicalize().ok()?;
            return Some((path, Place::Own));
        }
        let named = needs.inherited_path.iter().chain(inherited);
        let own = named.chain(&self.given).chain(&needs.run_path);
        let places = own
            .map(|folder| (folder, Place::Own))
            .chain(self.configured.iter().map(|folder| (folder, Place::Shared)));
        places
            .filter_map(|(folder, place)| Some((folder.join(name).canonicalize().ok()?, place)))
            .find(|(path, _)| path.is_file())
    }
}

/// Reads which libraries a file needs; `None` for files other than programs and libraries of a 64-bit machine.
fn needs_of(path: &Path) -> io::Result<Option<Needs>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    // The loader refuses a damaged file too, and says so when the engine starts.
    Ok(read_needs(path, file).unwrap_or_default())
}

fn read_needs(path: &Path, file: File) -> object::Result<Option<Needs>> {
    let cache = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&cache)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &cache)?;
    let dynamic = sections.dynamic_table(endian, &cache)?;
    let folder = path.parent().unwrap_or(path).to_string_lossy();
    let folders = |text: &str| -> Vec<PathBuf> {
        let parts = text.split(':').filter(|part| !part.is_empty());
        parts
            .map(|part| {
                part.replace("${ORIGIN}", &folder)
                    .replace("$ORIGIN", &folder)
            })
            .map(PathBuf::from)
            .filter(|part| part.is_absolute())
            .collect()
    };
    let mut needs = Needs::default();
    for entry in &dynamic {
        let text = || {
            let text = dynamic.string(entry)?;
            object::Result::Ok(String::from_utf8_lossy(text).into_owned())
        };
        match entry.tag {
            elf::DT_NEEDED => needs.names.push(text()?),
            elf::DT_RPATH => needs.inherited_path.extend(folders(&text()?)),
            elf::DT_RUNPATH => needs.run_path.extend(folders(&text()?)),
            _ => {}
        }
    }
    // A file with both has only the one that libraries do not inherit.
    if !needs.run_path.is_empty() {
        needs.inherited_path.clear();
    }
    Ok(Some(needs))
}

/// Returns the shared libraries in a program's folder, without links.
fn beside(program: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = program.parent() else {
        return Ok(Vec::new());
    };
    let mut libraries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = name_of(&path);
        let is_library = name.ends_with(".so") || name.contains(".so.");
        // Nothing can be loaded through a link without a target.
        if let (true, Ok(path)) = (is_library, path.canonicalize())
            && path.is_file()
        {
            libraries.push(path);
        }
    }
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns whether a library is one of the operating system's: in one of its folders, or in that of its architecture.
fn is_system(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    let is_for_architecture = || name_of(folder).contains("-linux-gnu");
    SYSTEM.iter().map(Path::new).any(|system| {
        folder == system || (folder.parent() == Some(system) && is_for_architecture())
    })
}

/// Returns the folders that a configuration of the loader names. A missing file names none.
fn configured(file: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(file) else {
        return Vec::new();
    };
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut folders = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("include ") {
            Some(pattern) if depth > 0 => {
                let pattern = file.parent().unwrap_or(file).join(pattern.trim());
                for file in matching(&pattern) {
                    folders.extend(configured(&file, depth - 1));
                }
            }
            Some(_) => {}
            None if line.starts_with('/') => folders.push(PathBuf::from(line)),
            None => {}
        }
    }
    folders
}

/// Returns the files that a pattern such as `/etc/ld.so.conf.d/*.conf` names, sorted as the loader sorts them.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = name_of(pattern);
    let Some((start, end)) = name.split_once('*') else {
        return vec![pattern.to_owned()];
    };
    let folder = pattern.parent().unwrap_or(pattern);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| {
            let name = name_of(path);
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        })
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const INNER: &str = "int inner(void) { return VALUE; }";
    const OUTER: &str = "int inner(void); int outer(void) { return inner(); }";
    const ENGINE: &str = "int outer(void); int main(void) { return outer(); }";

    /// Compiles C with arguments separated by spaces.
    fn compile(folder: &Path, source: &str, arguments: &str) {
        fs::write(folder.join("source.c"), source).unwrap();
        let mut cc = Command::new("cc");
        cc.current_dir(folder).args(["source.c", "-DVALUE=1"]);
        let output = cc.args(arguments.split(' ')).output();
        let output = output.expect("the C compiler that Rust links with");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
    }

    /// A program `bin/engine` that needs `lib/libouter.so`, which needs `lib/libinner.so.1`.
    fn engine(of_engine: &str, of_outer: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["bin", "lib"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let library = "-shared -fPIC -Wl,-soname";
        let inner = format!("{library},libinner.so.1 -o lib/libinner.so.1");
        compile(root, INNER, &inner);
        let outer = format!("{library},libouter.so -o lib/libouter.so -Llib -l:libinner.so.1");
        compile(root, OUTER, &format!("{outer} {of_outer}"));
        let engine = "-o bin/engine -Llib -l:libouter.so -Wl,-rpath-link,lib";
        compile(root, ENGINE, &format!("{engine} {of_engine}"));
        folder
    }

    fn all(folder: &tempfile::TempDir, given: &[&str]) -> BTreeMap<String, String> {
        let root = folder.path().canonicalize().unwrap();
        let given = given.iter().map(|name| root.join(name)).collect();
        libraries(&root.join("bin/engine"), given).unwrap()
    }

    fn names(libraries: &BTreeMap<String, String>) -> Vec<&str> {
        libraries.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_program_has_the_libraries_that_its_files_name_and_none_of_the_system() {
        let folder = engine("-Wl,-rpath,$ORIGIN/../lib", "-Wl,-rpath,$ORIGIN");
        let ran = Command::new(folder.path().join("bin/engine")).status();
        assert_eq!(ran.unwrap().code(), Some(1), "the loader finds them too");
        let first = all(&folder, &[]);
        assert_eq!(names(&first), ["libinner.so.1", "libouter.so"]);
        assert_eq!(first, all(&folder, &[]));

        // A new build of a library that the program does not need itself.
        let root = folder.path();
        compile(
            root,
            &INNER.replace("VALUE", "2"),
            "-shared -fPIC -o lib/libinner.so.1",
        );
        let second = all(&folder, &[]);
        assert_ne!(second["libinner.so.1"], first["libinner.so.1"]);
        assert_eq!(second["libouter.so"], first["libouter.so"]);
    }

    #[test]
    fn libraries_beside_a_program_count_because_it_may_open_them() {
        let folder = engine("-Wl,-rpath,$ORIGIN/../lib", "-Wl,-rpath,$ORIGIN");
        let bin = folder.path().join("bin");
        fs::write(bin.join("libbackend.so.2"), "opened by the program").unwrap();
        std::os::unix::fs::symlink("libbackend.so.2", bin.join("libbackend.so")).unwrap();
        fs::write(bin.join("notes.txt"), "no library").unwrap();
        let names_then = all(&folder, &[]);
        let expected = ["libbackend.so.2", "libinner.so.1", "libouter.so"];
        assert_eq!(names(&names_then), expected);
    }

    #[test]
    fn all_libraries_of_one_name_count() {
        let folder = engine("-Wl,-rpath,$ORIGIN/../lib", "-Wl,-rpath,$ORIGIN");
        let beside = folder.path().join("bin/libinner.so.1");
        let digest = |text: &str| {
            fs::write(&beside, text).unwrap();
            all(&folder, &[])["libinner.so.1"].clone()
        };
        assert_ne!(digest("one"), digest("another"));
        fs::write(&beside, "one").unwrap();
        let first = all(&folder, &[]);
        let changed = INNER.replace("VALUE", "2");
        compile(
            folder.path(),
            &changed,
            "-shared -fPIC -o lib/libinner.so.1",
        );
        assert_ne!(all(&folder, &[])["libinner.so.1"], first["libinner.so.1"]);
    }

    #[test]
    fn folders_of_the_search_path_and_of_a_program_hold_for_all_its_libraries() {
        let by_variable = engine("-Wl,-z,now", "-Wl,-z,now");
        assert!(all(&by_variable, &[]).is_empty());
        let libraries = all(&by_variable, &["lib"]);
        assert_eq!(names(&libraries), ["libinner.so.1", "libouter.so"]);
        let inherited = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib";
        let libraries = all(&engine(inherited, "-Wl,-z,now"), &[]);
        assert_eq!(names(&libraries), ["libinner.so.1", "libouter.so"]);
        // A newer form is for the program alone, so the loader does not find the other one.
        let own = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib";
        let libraries = all(&engine(own, "-Wl,-z,now"), &[]);
        assert_eq!(names(&libraries), ["libouter.so"]);
    }

    #[test]
    fn scripts_and_damaged_programs_have_no_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("engine");
        for bytes in [
            b"#!/bin/sh\n".as_slice(),
            b"",
            b"\x7fELF\x02\x01\x01 and then nothing",
        ] {
            fs::write(&program, bytes).unwrap();
            assert!(libraries(&program, Vec::new()).unwrap().is_empty());
        }
    }

    #[test]
    fn the_configuration_of_the_loader_names_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("more")).unwrap();
        fs::write(
            root.join("ld.so.conf"),
            "# all\ninclude more/*.conf\n/opt/last # here\ninclude ld.so.conf\n",
        )
        .unwrap();
        fs::write(root.join("more/b.conf"), "/opt/b\nhwcap 1 nosegneg\n").unwrap();
        fs::write(root.join("more/a.conf"), "/opt/a\n\n/opt/a2\n").unwrap();
        fs::write(root.join("more/c.txt"), "/opt/c\n").unwrap();
        let folders = configured(&root.join("ld.so.conf"), 1);
        let expected = ["/opt/a", "/opt/a2", "/opt/b", "/opt/last"].map(PathBuf::from);
        let once: Vec<PathBuf> = folders.iter().take(4).cloned().collect();
        assert_eq!(once, expected, "{folders:?}");
    }

    #[test]
    fn folders_of_the_system_are_known() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/libc.so.6",
            "/usr/lib/libm.so",
        ] {
            assert!(is_system(Path::new(path)), "{path}");
        }
        for path in [
            "/usr/lib/ollama/libggml.so",
            "/opt/lib/libx.so",
            "/usr/local/lib/libllama.so",
        ] {
            assert!(!is_system(Path::new(path)), "{path}");
        }
    }
}
