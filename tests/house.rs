//! House rules that clippy does not check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Exported functions whose error is a sentence for their callers to print, by file and name.
const SENTENCES: [(&str, &str); 13] = [
    ("pipeline/src/language/settings.rs", "parse"),
    ("stages/import/src/lib.rs", "read_text"),
    ("stages/load/src/reference/process.rs", "serve_process"),
    ("stages/load/src/reference/tls.rs", "from_pem"),
    ("stages/load/src/search/settings.rs", "lowest"),
    ("stages/load/src/span.rs", "parse"),
    ("stages/report/src/statement/again.rs", "judge_again"),
    ("stages/serve/src/remote.rs", "run_order"),
    ("stages/shared/engines/src/settings.rs", "check"),
    ("stages/shared/net/src/api_key.rs", "from_environment"),
    ("stages/shared/net/src/http.rs", "json"),
    ("stages/shared/places/src/cloud/keeper.rs", "keep"),
    ("trail/explore/src/export.rs", "export"),
];

/// Returns the Rust files of the crates below a folder, excluding tests and benches.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "benches", "examples", "target"].contains(&name.as_str()) {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
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

#[test]
fn exported_functions_return_typed_errors_unless_their_error_is_only_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["artifacts", "pipeline", "stages", "trail"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in files {
        let code = fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(root).unwrap().display().to_string();
        for name in with_sentences(&code) {
            found.insert((shown.clone(), name));
        }
    }
    let listed: BTreeSet<(String, String)> = SENTENCES
        .iter()
        .map(|(file, name)| ((*file).to_owned(), (*name).to_owned()))
        .collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "return an enum, or list them here if callers only print the error: {new:?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "no longer there; remove them from the list: {gone:?}"
    );
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
