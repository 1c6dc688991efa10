//! Scripts: the interpreter that executes one, and the programs that one starts.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use engines::Language;
use pipeline::executable::{find, is_executable};

/// The most bytes of a script's first lines.
const LINES: u64 = 4096;

/// The most bytes of a script in which programs are looked for.
const SCRIPT: u64 = 1 << 20;

/// The interpreters of scripts that start programs by their paths.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// Returns the interpreter of a script; `None` for other files.
///
/// The path of an interpreter that is long, has a space or is relative to the script cannot follow `#!`. Installers of Python
/// packages then write a script for both languages: for `sh`, its second line executes Python with the script.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    File::open(path)?.take(LINES).read_to_end(&mut start)?;
    let text = String::from_utf8_lossy(&start);
    let mut lines = text.lines();
    let Some(rest) = lines.next().and_then(|line| line.strip_prefix("#!")) else {
        return Ok(None);
    };
    let mut words = rest.split_whitespace();
    let first = words.next().map(PathBuf::from);
    let interpreter = match first {
        Some(env) if env.ends_with("env") => words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .and_then(on_path),
        other => other,
    };
    let second = lines
        .next()
        .and_then(|line| executed_with_itself(line, path));
    Ok(match interpreter {
        Some(shell) if is_shell(&shell) => second.or(Some(shell)),
        other => other,
    })
}

/// Returns whether an interpreter is a shell, by its name.
pub(crate) fn is_shell(interpreter: &Path) -> bool {
    let name = interpreter.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| SHELLS.contains(&name))
}

/// Returns the interpreter that a line executes with the script itself: `'''exec' "/a path/python3" "$0" "$@"`, or with
/// a folder that begins at the script's, `"$(dirname -- "$(realpath -- "$0")")"/'python3'`.
fn executed_with_itself(line: &str, script: &Path) -> Option<PathBuf> {
    let rest = ["'''exec'", "\"exec\""]
        .iter()
        .find_map(|exec| line.trim_start().strip_prefix(exec))?;
    // The script itself follows the interpreter, and its arguments come last.
    let (words, _) = rest.trim().rsplit_once("\"$@\"")?;
    let word = words.trim().strip_suffix("\"$0\"")?.trim();
    let plain = |text: &str| text.replace(['"', '\''], "");
    if !word.contains('$') && !word.contains('`') {
        return Some(PathBuf::from(plain(word)));
    }
    let (_, inside) = word.rsplit_once([')', '`'])?;
    Some(script.parent()?.join(plain(inside).trim_start_matches('/')))
}

/// Finds the program that `env` would start.
#[expect(clippy::disallowed_methods, reason = "`env` searches the search path")]
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    find(name, std::env::split_paths(&folders))
}

/// Returns the programs and the scripts that a script names by absolute paths, in their order. Comments name nothing.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn programs_in(script: &Path) -> io::Result<Vec<PathBuf>> {
    if fs::metadata(script)?.len() > SCRIPT {
        return Ok(Vec::new());
    }
    let text = fs::read(script)?;
    let text = String::from_utf8_lossy(&text);
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| {
        let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c);
        // Between quotes, a path may have spaces.
        line.split(ends).chain(line.split(['"', '\'']))
    });
    let mut programs: Vec<PathBuf> = words
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && (is_executable(path) || is_script(path)))
        .collect();
    programs.sort();
    programs.dedup();
    Ok(programs)
}

/// Returns whether a file is a script by its ending. An interpreter reads one that is not executable.
fn is_script(path: &Path) -> bool {
    let of_shell = path.extension().is_some_and(|ending| ending == "sh");
    (of_shell || Language::of_script(path).is_some()) && path.is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_interpreter_is_where_a_script_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("engine");
        let read = |text: &str| {
            fs::write(&script, text).unwrap();
            interpreter(&script).unwrap()
        };
        let beside = folder.path().join("python3");
        for (text, expected) in [
            (
                "#!/opt/venv/bin/python3\nrun()\n",
                Some("/opt/venv/bin/python3"),
            ),
            ("#! /bin/sh\nexec /opt/server \"$@\"\n", Some("/bin/sh")),
            (
                "#!/bin/sh\n'''exec' \"/my engines/v/bin/python3\" \"$0\" \"$@\"\n' '''\n",
                Some("/my engines/v/bin/python3"),
            ),
            (
                "#!/bin/sh\n'''exec' /a/long/path/bin/python3.11 \"$0\" \"$@\"\n' '''\n",
                Some("/a/long/path/bin/python3.11"),
            ),
            (
                "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python3' \"$0\" \"$@\"\n' '''\n",
                beside.to_str(),
            ),
            (
                "#!/bin/sh\n\"exec\" \"`dirname $0`/python3\" \"$0\" \"$@\"\n",
                beside.to_str(),
            ),
            ("echo no script\n", None),
            ("\u{7f}ELF", None),
        ] {
            assert_eq!(read(text), expected.map(PathBuf::from), "{text}");
        }
    }

    #[test]
    fn a_script_names_programs_by_absolute_paths() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (server, data) = (file("server", 0o755), file("data", 0o644));
        let (other, module) = (file("other", 0o755), file("app.py", 0o644));
        let script = file("run.sh", 0o755);
        let text = format!(
            "#!/bin/sh\n# {}\nexec \"{server}\" --data={data} --lib=$ROOT{server} {module} {}/missing \"$@\"\n",
            other.display(),
            folder.path().display(),
            module = module.display(),
            server = server.display(),
            data = data.display(),
        );
        fs::write(&script, text).unwrap();
        assert_eq!(programs_in(&script).unwrap(), [module, server]);
    }
}
