//! SECURITY.md names a test for every threat, and each of these tests exists.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the Rust files below a folder.
fn sources(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let hidden = name.to_str().is_some_and(|n| n.starts_with('.'));
        if path.is_dir() && !hidden && name != "target" {
            sources(&path, paths);
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

#[test]
fn every_threat_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let policy = fs::read_to_string(root.join("SECURITY.md")).expect("the policy");
    let (_, threats) = policy.split_once("## Threats").expect("the threats");
    let rows = threats.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.filter(|l| !l.starts_with("| threat |")).collect();
    assert!(rows.len() > 20, "the table was read: {}", rows.len());
    let mut files = Vec::new();
    sources(root, &mut files);
    let texts: Vec<(PathBuf, String)> = files
        .into_iter()
        .filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?)))
        .collect();
    for row in rows {
        let named = row
            .trim_end_matches('|')
            .rsplit('|')
            .next()
            .unwrap_or_default();
        let tests: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {row}");
        for test in tests {
            // The last word is the function, and the word before it the file.
            let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
            let module = module.rsplit("::").next().unwrap_or_default();
            let is_in = |(file, text): &(PathBuf, String)| {
                let of_module = module.is_empty()
                    || file.file_stem().is_some_and(|stem| stem == module)
                    || file.components().any(|c| c.as_os_str() == module);
                of_module && declares(text, function)
            };
            assert!(texts.iter().any(is_in), "`{test}` is not a test: {row}");
        }
    }
}

/// Returns whether a file has a test with this name: a function, or an entry in a list of tests.
fn declares(text: &str, name: &str) -> bool {
    let function = text.find(&format!("fn {name}(")).is_some_and(|at| {
        // An attribute is on one of the lines before it.
        let before: Vec<&str> = text[..at].lines().rev().take(6).collect();
        before.iter().any(|line| line.trim() == "#[test]")
    });
    function || text.contains(&format!("\"{name}\","))
}
