//! House rules that clippy does not check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Exported functions whose error is a sentence for their callers to print, by file and name.
const SENTENCES: [(&str, &str); 12] = [
    ("pipeline/src/language/settings.rs", "parse"),
    ("pipeline/src/long_log.rs", "check"),
    ("stages/import/src/lib.rs", "read_text"),
    ("stages/load/src/reference/process.rs", "serve_process"),
    ("stages/load/src/reference/tls.rs", "from_pem"),
    ("stages/load/src/search/settings.rs", "lowest"),
    ("stages/load/src/span.rs", "parse"),
    ("stages/report/src/statement/again.rs", "judge_again"),
    ("stages/shared/engines/src/settings.rs", "check"),
    ("stages/shared/net/src/api_key.rs", "from_environment"),
    ("stages/shared/net/src/http.rs", "json"),
    ("trail/explore/src/export.rs", "export"),
];

/// The most lines of a function.
const MOST_LINES: usize = 100;

/// The most lines of a file, without its tests.
const MOST_LINES_OF_A_FILE: usize = 620;

/// Returns the Rust files of the crates below a folder, excluding tests and benches.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "benches", "examples", "target"].contains(&name.as_str()) {
            sources(&path, files);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// Returns the names of a file's exported functions whose error is a `String`.
fn with_sentences(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, exported) in code.match_indices("pub ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default();
        let declared = &code[at + exported.len()..];
        let declared = declared.strip_prefix("async ").unwrap_or(declared);
        let declared = declared.strip_prefix("const ").unwrap_or(declared);
        let Some(function) = declared
            .strip_prefix("fn ")
            .filter(|_| before.trim().is_empty())
        else {
            continue;
        };
        let signature = function.split(['{', ';']).next().unwrap_or_default();
        let returned = signature.rsplit("->").next().unwrap_or_default();
        let returned = returned.split("where").next().unwrap_or_default();
        let returned: String = returned.split_whitespace().collect();
        if returned.starts_with("Result<") && returned.ends_with(",String>") {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}

/// Returns the sources of all crates, each with its path in the repository.
fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["artifacts", "pipeline", "src", "stages", "trail"] {
        sources(&root.join(folder), &mut files);
    }
    let read = |file: PathBuf| {
        let code = fs::read_to_string(&file).unwrap();
        (file.strip_prefix(root).unwrap().display().to_string(), code)
    };
    files.into_iter().map(read).collect()
}

/// A list of exceptions, by file and name.
fn listed(list: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    list.iter()
        .map(|(file, name)| ((*file).to_owned(), (*name).to_owned()))
        .collect()
}

#[test]
fn exported_functions_return_typed_errors_unless_their_error_is_only_printed() {
    let mut all = BTreeSet::new();
    for (file, code) in all_sources() {
        let names = with_sentences(&code).into_iter();
        all.extend(names.map(|name| (file.clone(), name)));
    }
    let listed = listed(&SENTENCES);
    let new: Vec<_> = all.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "return an enum, or list them here if callers only print the error: {new:?}"
    );
    let gone: Vec<_> = listed.difference(&all).collect();
    assert!(
        gone.is_empty(),
        "no longer there; remove them from the list: {gone:?}"
    );
}

/// Returns the names of a file's functions that have more than [`MOST_LINES`] lines, without those of its tests.
fn long_functions(code: &str) -> BTreeSet<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let mut names = BTreeSet::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let declared =
            ["pub ", "async ", "const ", "unsafe "]
                .iter()
                .fold(line.trim_start(), |rest, word| {
                    let rest = match rest.starts_with("pub(") {
                        true => rest.split_once(' ').map_or(rest, |(_, rest)| rest),
                        false => rest,
                    };
                    rest.strip_prefix(word).unwrap_or(rest)
                });
        let Some(function) = declared.strip_prefix("fn ") else {
            continue;
        };
        // A function ends at the first closing brace, or without a body at the first semicolon, of its own indentation.
        let end = lines[start..].iter().position(|line| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || rest.starts_with(") ") && rest.ends_with(';'))
                || (line.ends_with(';') && line.trim_start().starts_with("fn "))
        });
        if end.is_some_and(|end| end >= MOST_LINES) {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}

/// Whether a file has only tests.
fn is_test(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name == "tests.rs" || name.starts_with("tests_of") || file.contains("/tests/")
}

#[test]
fn files_have_at_most_six_hundred_lines_or_a_few_more() {
    let lines = |code: &str| {
        let own = code.split("#[cfg(test)]\nmod tests {").next();
        own.unwrap_or_default().lines().count()
    };
    let sources = all_sources().into_iter();
    let long: Vec<(String, usize)> = sources
        .filter(|(file, _)| !is_test(file))
        .map(|(file, code)| (file, lines(&code)))
        .filter(|(_, lines)| *lines > MOST_LINES_OF_A_FILE)
        .collect();
    assert!(
        long.is_empty(),
        "take these files apart at their seams: {long:?}"
    );
}

#[test]
fn functions_have_at_most_a_hundred_lines() {
    let mut all: BTreeSet<(String, String)> = BTreeSet::new();
    for (file, code) in all_sources() {
        if !is_test(&file) {
            let names = long_functions(&code).into_iter();
            all.extend(names.map(|name| (file.clone(), name)));
        }
    }
    assert!(
        all.is_empty(),
        "take these functions apart at their seams: {all:?}"
    );
}

#[test]
fn a_long_function_is_seen() {
    let body = "    let x = 1;\n".repeat(MOST_LINES);
    let code = format!(
        "trait T {{\n    fn none(&self);\n}}\nfn short() {{\n}}\npub(crate) async fn long(\n    x: u8,\n) {{\n{body}}}\n"
    );
    let names: Vec<String> = long_functions(&code).into_iter().collect();
    assert_eq!(names, ["long"]);
}

#[test]
fn a_function_with_a_sentence_for_an_error_is_seen() {
    let code = "pub fn a() -> Result<Vec<u8>, String> {}\n    pub(crate) fn b() -> Result<(), String> {}\n\
                pub fn c(\n    x: u8,\n) -> Result<(), String>\n{}\npub fn d() -> Result<(), Fault> {}\n";
    assert_eq!(
        with_sentences(code).into_iter().collect::<Vec<_>>(),
        ["a", "c"]
    );
}

/// Names that say nothing about a value.
const EMPTY_NAMES: [&str; 4] = ["found", "known", "of", "told"];

/// Returns a file's code with spaces in place of comments, strings and characters.
fn without_texts(code: &str) -> String {
    let bytes = code.as_bytes();
    let mut out = vec![b' '; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &code[at..];
        let end = at + length_of_text(rest).unwrap_or(0);
        if end == at {
            out[at] = bytes[at];
            at += 1;
            while !code.is_char_boundary(at) {
                at += 1;
            }
            continue;
        }
        at = end;
    }
    let lines = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
    lines.for_each(|(place, _)| out[place] = b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the length of the comment, string or character at the start of some code.
fn length_of_text(code: &str) -> Option<usize> {
    let close = |from: usize, end: &str| code[from..].find(end).map(|at| from + at + end.len());
    if code.starts_with("//") {
        return Some(code.find('\n').unwrap_or(code.len()));
    }
    if code.starts_with("/*") {
        return close(2, "*/");
    }
    if let Some(raw) = code.strip_prefix('r') {
        let hashes = raw.bytes().take_while(|b| *b == b'#').count();
        if raw[hashes..].starts_with('"') {
            return close(hashes + 2, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    if code.starts_with('"') {
        let mut bytes = code.bytes().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\\' => drop(bytes.next()),
                b'"' => return Some(at + 1),
                _ => {}
            }
        }
    }
    let character = code.strip_prefix('\'')?;
    if character.starts_with('\\') {
        return close(3, "'");
    }
    let length = character.chars().next()?.len_utf8();
    character[length..].starts_with('\'').then_some(length + 2)
}

/// Returns the lines of a file in which a local, a parameter or a field has one of [`EMPTY_NAMES`]. Functions, and what
/// `use` takes of them, are something else.
fn empty_names(code: &str) -> Vec<(usize, &'static str)> {
    let mut lines = Vec::new();
    for (number, line) in without_texts(code).lines().enumerate() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let imported = line.trim_start().trim_start_matches("pub(crate) ");
        if imported.starts_with("use ") {
            continue;
        }
        for name in EMPTY_NAMES {
            let named = line.match_indices(name).any(|(at, _)| {
                let (before, after) = (&line[..at], &line[at + name.len()..]);
                let whole = !before.ends_with(is_name) && !after.starts_with(is_name);
                let path = before.ends_with("::") || after.starts_with("::");
                let function = after.starts_with(['(', '<']) || before.ends_with("fn ");
                whole && !path && !function
            });
            if named {
                lines.push((number + 1, name));
            }
        }
    }
    lines
}

#[test]
fn locals_parameters_and_fields_are_named_for_their_values() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["artifacts", "pipeline", "src", "stages", "tests", "trail"] {
        all_files(&root.join(folder), &mut files);
    }
    let mut all = Vec::new();
    for file in files {
        let code = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(root).unwrap().display().to_string();
        let lines = empty_names(&code).into_iter();
        all.extend(lines.map(|(line, word)| format!("{name}:{line} {word}")));
    }
    assert!(all.is_empty(), "say what the value is: {all:#?}");
}

/// Returns the Rust files below a folder, including tests and benches.
fn all_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            all_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn a_name_that_says_nothing_is_seen() {
    for code in [
        "let found = 1;",
        "if let Some(known) = x {}",
        "|told| told + 1",
        "fn f(of: &str) {}",
        "struct S {\n    found: u8,\n}",
        "let c = 'x'; let of = '\"';",
    ] {
        assert_eq!(empty_names(code).len(), 1, "{code}");
    }
    for code in [
        "// what is found",
        "let text = \"found, known\";",
        "let text = r#\"told \"of\"\"#;",
        "fn of(x: u8) {}\nDigest::of(x);\nwhole.map(Self::of)",
        "let founder = told(1);",
        "use crate::torture::{count, found, run};",
    ] {
        assert_eq!(empty_names(code), [], "{code}");
    }
}
